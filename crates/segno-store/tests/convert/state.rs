//! What agents, extensions and embedders keep beside what was said.

use crate::own::{self, Place};
use crate::scene::{converted, none};
use segno_model::record::Custom;
use segno_model::{Body, Envelope, Record};
use segno_store::convert::{LossKind, Session, TARGETS};
use segno_store::foreign::{Agent, View, recognise};
use serde_json::json;
use serde_json::value::RawValue;
use std::fs;

/// A row that an agent's file may have, and whether it holds state that is missed in a copy.
fn rows() -> Vec<(Agent, String, bool)> {
    let snapshot = json!({"messageId": "m", "trackedFileBackups": {"a": {"backupFileName": "f"}}, "timestamp": "2026-03-02T10:00:00.000Z"});
    let claude = |kind: &str| json!({"type": kind, "messageId": "m", "snapshot": snapshot, "isSnapshotUpdate": false});
    let codex = |payload| json!({"timestamp": "2026-03-02T09:00:00.000Z", "type": "response_item", "payload": payload});
    let pi = |name: &str| {
        json!({"type": "custom", "customType": name, "data": {"n": 1}, "id": "65000009", "parentId": "65000003",
            "timestamp": "2026-03-02T09:00:09.000Z"})
    };
    [
        (Agent::Claude, claude("file-history-snapshot"), true),
        (Agent::Claude, json!({"type": "mode", "mode": "normal", "sessionId": "s"}), false),
        (Agent::Codex, codex(json!({"type": "ghost_snapshot", "ghost_commit": {"id": "a1"}})), true),
        (Agent::Codex, json!({"timestamp": "2026-03-02T09:00:00.000Z", "type": "event_msg", "payload": {"type": "task_started"}}), false),
        (Agent::Pi, pi("my-ext"), true),
        (Agent::Pi, pi("segno.current"), false),
    ]
    .map(|(agent, row, is_state)| (agent, row.to_string(), is_state))
    .to_vec()
}

/// How many records of state are told as lost.
fn told(session: &Session, target: Agent) -> u64 {
    let converted = converted(session, target, &none()).expect("something was said");
    let of_state = converted.losses.iter().filter(|loss| loss.kind == LossKind::State);
    of_state.map(|loss| loss.count).sum()
}

/// Covers: G14, #130. Snapshots of files and an extension's records are in no copy, also not in one for the same
/// agent: they are listed. What every agent writes anew is not.
#[test]
fn state_of_agents_and_extensions_is_listed() {
    for (agent, row, is_state) in rows() {
        let home = tempfile::tempdir().expect("a folder");
        let path = own::file(home.path(), agent, Place::Nowhere, "{}");
        let whole = fs::read_to_string(&path).expect("it was written");
        fs::write(&path, format!("{whole}{row}\n")).expect("a file");
        let located = recognise(&path).expect("it is known");
        let views = [View::transcript(&located), View::to_convert(&located)];
        for view in views {
            let session = Session::of_view(agent, view.expect("it reads"));
            for target in TARGETS {
                assert_eq!(told(&session, target), u64::from(is_state), "{row} for {target}");
            }
        }
    }
}

/// Covers: G14. So are an embedder's own records that say nothing to the model; Segno's own marks are not.
#[test]
fn an_embedders_own_records_are_listed() {
    let rows = [
        ("acme.review", None, 1),
        ("acme.review", Some("Reviewed."), 0),
        ("segno.rewind", None, 0),
        ("claude.mode", None, 0),
    ];
    for (name, context, expected) in rows {
        let mut session = own::session(Agent::Pi, Place::Nowhere, "{}");
        "segno".clone_into(&mut session.source);
        let last = session.records.last().expect("something was said").envelope.clone();
        let envelope = Envelope { seq: last.seq + 1, kind: "custom".to_owned(), ..last };
        let data = RawValue::from_string("{\"a\":1}".to_owned()).expect("JSON");
        let custom = Custom { name: name.to_owned(), data, context: context.map(str::to_owned) };
        session.records.push(Record::loose(envelope, Body::Custom(custom)));
        for target in TARGETS {
            assert_eq!(told(&session, target), expected, "{name} {context:?} for {target}");
        }
    }
}
