//! Cases about forks.
//!
//! Responsible for: what a fork holds and that its source is untouched. Must not: depend on an
//! implementation.

use super::desk::{Desk, Log, context_of, texts};
use super::navigation::{go, path};
use super::{Ability, Bench, cases};
use crate::sessions::{
    action, answer, call, header, model, prompt, reply, result, set_model, summary,
};
use segno_model::line::checksum;
use segno_model::record::{
    Established, FORMAT, Label, Message, Name, Origin, OriginKind, Run, RunState,
};
use segno_model::store::{ForkPoint, Level, Opened, SessionLog, SessionStore, StoreError};
use segno_model::{Body, Record, SessionId};

cases! { "forks":
    /// A whole fork has its source's context, tip and settings. Covers: ST7, G10.
    a_whole_fork_equals_its_source;
    /// A fork at a node ends with that node. Covers: ST7, ST10.
    a_fork_at_a_node_ends_there;
    /// A fork before a node ends with that node's parent. Covers: ST7, ST10.
    a_fork_before_a_node_ends_at_its_parent;
    /// A fork before the first prompt is empty and can be begun anew. Covers: ST8.
    a_fork_before_the_root_is_empty;
    /// The fork's lines behind line 1 are its source's, byte for byte. Covers: G13, ST7.
    lines_are_copied_byte_for_byte;
    /// Forking changes no byte of the source, and neither does writing to the fork. Covers: ST7, EV5.
    the_source_is_untouched;
    /// A session that somebody writes can be forked, and everything acknowledged is in the fork.
    /// Covers: G5, #126.
    a_held_session_can_be_forked;
    /// The fork's header names its source and the record up to which it was copied. Covers: EV5.
    the_origin_is_filled_in;
    /// The facts that the new header was given stay. Covers: EV5, EV1.
    the_new_headers_facts_stay;
    /// A fork can be forked again. Covers: ST7.
    a_fork_of_a_fork;
    /// Blobs go along and outlive the source's. Covers: G12, ST7.
    blobs_go_along;
    /// Positions in labels and in a compaction stay valid in the fork. Covers: #54, G11.
    positions_stay_valid;
    /// Records that a compaction keeps are kept in a fork too, singly and from the first kept on.
    /// Covers: #54, ST17.
    kept_records_survive;
    /// A fork of a rewound session holds only the branch that it ends with. Covers: #30.
    the_rewound_stays_away_in_forks;
    /// A fork at a node of an old branch ends on that branch. Covers: ST9, ST11.
    a_fork_at_an_old_branch;
    /// A record that is no node, or not there, is refused as a fork point, and nothing is made.
    /// Covers: ST9.
    only_nodes_are_fork_points;
    /// A fork into an existing session is refused and changes nothing there. Covers: MS6.
    a_fork_never_overwrites;
    /// A fork of nothing is an error. Covers: MG10.
    a_fork_of_nothing_is_an_error;
    /// A fork is listed, free, durable, and goes on by itself. Covers: G1, G5.
    a_fork_goes_on;
    /// What came after the point is not in force in the fork; what came before is. Covers: ST7, MS5.
    settings_up_to_the_point_hold;
    /// Effects and runs that are open in the source are settled in the fork as the origin's, never run
    /// there, and the tip is the source's all the same. Covers: G6, G7.
    open_work_is_settled_as_the_origins;
    /// A fork leaves out what is torn in its source. Covers: G2.
    a_torn_source_is_forked_without_its_tail;
    /// What this version does not know is in a fork as it is in its source. Covers: G13.
    the_unknown_is_copied_byte_for_byte;
    /// A log whose line 1 is lost can be forked when every record shows what it is: the fork has a header
    /// of its own. One with records of a later version cannot, as nothing tells which that is.
    /// Covers: G3, G13.
    a_source_without_its_header_is_forked_if_it_is_understood;
    /// A fork contains only what is durable in its source: power loss leaves no fork that holds what its
    /// source lost. Covers: G1, ST7.
    a_fork_contains_only_what_is_durable;
}

async fn source<H: Bench>(desk: &Desk<H>) -> (SessionId, Log<H>, Vec<Record>) {
    let name = Body::Name(Name { name: "source".into() });
    let batch = vec![prompt("1"), answer("2"), name, prompt("3"), answer("4")];
    let (id, log, mut records) = desk.begun(batch).await;
    records.retain(Record::is_node);
    (id, log, records)
}

async fn context_in<H: Bench>(desk: &Desk<H>, id: &SessionId) -> String {
    let opened = desk.open(id).await;
    context_of(&opened.active, opened.log.state())
}

async fn path_in<H: Bench>(desk: &Desk<H>, id: &SessionId) -> Vec<String> {
    path(&desk.open(id).await.log).await
}

async fn a_whole_fork_equals_its_source<H: Bench>(desk: Desk<H>) {
    let (id, log, _) = source(&desk).await;
    drop(log);
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    assert_eq!(context_in(&desk, &fork).await, context_in(&desk, &id).await);
    let (a, b) = (desk.read(&id).await.state, desk.read(&fork).await.state);
    assert_eq!((a.tip(), &a.in_force.name), (b.tip(), &b.in_force.name));
}

async fn a_fork_at_a_node_ends_there<H: Bench>(desk: Desk<H>) {
    let (id, _log, nodes) = source(&desk).await;
    for (n, expected) in [(0, vec!["1"]), (1, vec!["1", "2"]), (2, vec!["1", "2", "3"])] {
        let fork = desk.fork(&id, ForkPoint::At(nodes[n].seq())).await;
        assert_eq!(desk.read(&fork).await.state.tip(), Some(nodes[n].pos()));
        assert_eq!(path_in(&desk, &fork).await, expected);
    }
}

async fn a_fork_before_a_node_ends_at_its_parent<H: Bench>(desk: Desk<H>) {
    let (id, _log, nodes) = source(&desk).await;
    let fork = desk.fork(&id, ForkPoint::Before(nodes[2].seq())).await;
    assert_eq!(desk.read(&fork).await.state.tip(), Some(nodes[1].pos()));
    let mut opened = desk.open(&fork).await;
    let next = desk.put(&mut opened.log, vec![prompt("3x")]).await;
    assert_eq!(next[0].envelope.parent, Some(nodes[1].seq()));
    assert_eq!(path(&opened.log).await, ["1", "2", "3x"]);
}

async fn a_fork_before_the_root_is_empty<H: Bench>(desk: Desk<H>) {
    let (id, _log, nodes) = source(&desk).await;
    let fork = desk.fork(&id, ForkPoint::Before(nodes[0].seq())).await;
    assert_eq!(desk.read(&fork).await.state.tip(), None);
    let mut opened = desk.open(&fork).await;
    let root = desk.put(&mut opened.log, vec![prompt("anew")]).await;
    assert_eq!(root[0].envelope.parent, None);
    assert_eq!(path(&opened.log).await, ["anew"]);
}

fn behind_line_one(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|b| *b == b'\n').expect("a line");
    &bytes[end + 1..]
}

async fn lines_are_copied_byte_for_byte<H: Bench>(desk: Desk<H>) {
    let (id, _log, nodes) = source(&desk).await;
    let original = desk.bytes(&id);
    let whole = desk.bytes(&desk.fork(&id, ForkPoint::Whole).await);
    assert!(behind_line_one(&whole).starts_with(behind_line_one(&original)));
    let part = desk.bytes(&desk.fork(&id, ForkPoint::At(nodes[2].seq())).await);
    let end = usize::try_from(nodes[2].offset).expect("small") + nodes[2].line.len() + 1;
    assert!(behind_line_one(&part).starts_with(&behind_line_one(&original)[..end]));
}

async fn the_source_is_untouched<H: Bench>(desk: Desk<H>) {
    let (id, log, nodes) = source(&desk).await;
    let before = desk.bytes(&id);
    for point in
        [ForkPoint::Whole, ForkPoint::At(nodes[1].seq()), ForkPoint::Before(nodes[3].seq())]
    {
        let fork = desk.fork(&id, point).await;
        let mut opened = desk.open(&fork).await;
        desk.put(&mut opened.log, vec![prompt("only here")]).await;
        assert_eq!(desk.bytes(&id), before);
    }
    drop(log);
    assert_eq!(path_in(&desk, &id).await, ["1", "2", "3", "4"]);
}

async fn a_held_session_can_be_forked<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = source(&desk).await;
    desk.put(&mut log, vec![prompt("5"), answer("6")]).await;
    let (header, at) = (desk.new_header(), segno_model::Timestamp(0));
    let elsewhere = desk.bench.elsewhere();
    let fork = elsewhere.fork(&id, ForkPoint::Whole, header, at).await.expect("it can be forked");
    assert_eq!(path_in(&desk, &fork).await, ["1", "2", "3", "4", "5", "6"]);
    desk.put(&mut log, vec![prompt("7")]).await;
    assert_eq!(path(&log).await.len(), 7);
}

async fn the_origin_is_filled_in<H: Bench>(desk: Desk<H>) {
    let (id, _log, nodes) = source(&desk).await;
    let fork = desk.fork(&id, ForkPoint::At(nodes[1].seq())).await;
    let origin = desk.read(&fork).await.header.origin.expect("an origin");
    assert_eq!((origin.kind, origin.of.as_str()), (OriginKind::Fork, id.as_str()));
    assert!(origin.up_to.is_some_and(|up_to| up_to >= nodes[1].seq()), "{origin:?}");
}

async fn the_new_headers_facts_stay<H: Bench>(desk: Desk<H>) {
    let (id, _log, _) = source(&desk).await;
    let mut header = desk.new_header();
    header.project.cwd = "/somewhere/else".into();
    header.version = "9.9.9".into();
    let store = desk.bench.store();
    let made = store.fork(&id, ForkPoint::Whole, header.clone(), segno_model::Timestamp(5)).await;
    let fork = made.expect("it can be forked");
    assert_eq!(fork, header.id);
    let mut back = desk.read(&fork).await.header;
    let origin: Option<Origin> = back.origin.take();
    assert!(origin.is_some());
    assert_eq!(back, header);
}

async fn a_fork_of_a_fork<H: Bench>(desk: Desk<H>) {
    let (id, _log, nodes) = source(&desk).await;
    let first = desk.fork(&id, ForkPoint::At(nodes[2].seq())).await;
    let mut opened = desk.open(&first).await;
    desk.put(&mut opened.log, vec![answer("4x")]).await;
    drop(opened);
    let second = desk.fork(&first, ForkPoint::Whole).await;
    assert_eq!(path_in(&desk, &second).await, ["1", "2", "3", "4x"]);
    assert_eq!(desk.read(&second).await.header.origin.expect("an origin").of, first.as_str());
    let third = desk.fork(&second, ForkPoint::Before(nodes[1].seq())).await;
    assert_eq!(path_in(&desk, &third).await, ["1"]);
}

async fn blobs_go_along<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = source(&desk).await;
    let blob = log.put_blob(b"a long output", "a long").await.expect("it is stored");
    desk.put(&mut log, vec![prompt(&blob.blob)]).await;
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    if desk.can(Ability::Bytes) {
        desk.bench.set_blob(&id, &blob, None);
    }
    let bytes = desk.bench.elsewhere().blob(&fork, &blob).await.expect("the blob is in the fork");
    assert_eq!(bytes, b"a long output");
    assert_eq!(desk.open(&fork).await.log.blob(&blob).await.expect("it is there"), bytes);
}

async fn positions_stay_valid<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = source(&desk).await;
    let label = Body::Label(Label { target: nodes[1].pos(), label: "here".into() });
    desk.put(&mut log, vec![label]).await;
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    let mut opened = desk.open(&fork).await;
    let target = opened.log.state().in_force.labels[&nodes[1].seq()].target;
    assert_eq!(target, nodes[1].pos());
    let in_fork = desk.scan(&fork).await;
    let found = in_fork.records.iter().find(|r| r.seq() == target.seq).expect("the record");
    assert_eq!(found.pos(), target);
    go(&desk, &mut opened.log, Some(target)).await;
    assert_eq!(path(&opened.log).await, ["1", "2"]);
}

async fn kept_records_survive<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = source(&desk).await;
    let label = Body::Label(Label { target: nodes[2].pos(), label: "kept from here".into() });
    let kept = vec![nodes[0].pos()];
    desk.put(&mut log, vec![label]).await;
    desk.put(&mut log, vec![summary("sum", Some(nodes[2].pos()), kept)]).await;
    desk.put(&mut log, vec![prompt("5")]).await;
    drop(log);
    let original = context_in(&desk, &id).await;
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    let opened = desk.open(&fork).await;
    assert_eq!(context_of(&opened.active, opened.log.state()), original);
    let texts = texts(&opened.active.records);
    for text in ["sum", "1", "3", "4", "5"] {
        assert!(texts.iter().any(|t| t == text), "{text} is not in {texts:?}");
    }
}

async fn the_rewound_stays_away_in_forks<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = source(&desk).await;
    go(&desk, &mut log, Some(nodes[1].pos())).await;
    let last = desk.put(&mut log, vec![prompt("3x"), answer("4x")]).await;
    for point in [ForkPoint::Whole, ForkPoint::At(last[1].seq())] {
        let fork = desk.fork(&id, point).await;
        assert_eq!(path_in(&desk, &fork).await, ["1", "2", "3x", "4x"]);
    }
}

async fn a_fork_at_an_old_branch<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = source(&desk).await;
    go(&desk, &mut log, Some(nodes[1].pos())).await;
    desk.put(&mut log, vec![prompt("3x")]).await;
    let fork = desk.fork(&id, ForkPoint::At(nodes[3].seq())).await;
    assert_eq!(path_in(&desk, &fork).await, ["1", "2", "3", "4"]);
    let fork = desk.fork(&id, ForkPoint::Before(nodes[3].seq())).await;
    assert_eq!(path_in(&desk, &fork).await, ["1", "2", "3"]);
}

async fn only_nodes_are_fork_points<H: Bench>(desk: Desk<H>) {
    let (id, _log, nodes) = source(&desk).await;
    let name = nodes[1].seq() + 1;
    for seq in [0, name, 999] {
        for point in [ForkPoint::At(seq), ForkPoint::Before(seq)] {
            let refused = desk.try_fork(&id, point).await;
            assert!(refused.is_err(), "{point:?} gave {refused:?}");
        }
    }
    assert_eq!(desk.bench.store().list().await.expect("lists").len(), 1);
}

async fn a_fork_never_overwrites<H: Bench>(desk: Desk<H>) {
    let (id, _log, _) = source(&desk).await;
    let (other, _) = desk.closed(vec![prompt("other")]).await;
    let before = desk.bytes(&other);
    let at = segno_model::Timestamp(0);
    for into in [&other, &id] {
        let refused =
            desk.bench.store().fork(&id, ForkPoint::Whole, header(into.clone()), at).await;
        assert!(matches!(refused, Err(StoreError::Exists(_))), "{refused:?}");
    }
    assert_eq!(desk.bytes(&other), before);
}

async fn a_fork_of_nothing_is_an_error<H: Bench>(desk: Desk<H>) {
    let (id, _log) = desk.unborn();
    let refused = desk.try_fork(&id, ForkPoint::Whole).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
    assert!(desk.bench.store().list().await.expect("lists").is_empty());
}

async fn a_fork_goes_on<H: Bench>(mut desk: Desk<H>) {
    let (id, _log, _) = source(&desk).await;
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    let list = desk.bench.store().list().await.expect("lists");
    let listed = list.iter().find(|l| l.id == fork).expect("the fork is listed");
    assert!(!listed.held);
    if desk.bench.can(Ability::Crash) {
        desk.bench.crash(0);
    }
    let mut opened = desk.open(&fork).await;
    desk.put(&mut opened.log, vec![prompt("5"), answer("6")]).await;
    drop(opened);
    assert_eq!(path_in(&desk, &fork).await, ["1", "2", "3", "4", "5", "6"]);
    assert!(desk.scan(&fork).await.findings.is_empty());
}

async fn settings_up_to_the_point_hold<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = source(&desk).await;
    let set = |chosen| set_model(&model().id, chosen);
    let at = desk.put(&mut log, vec![set(false), prompt("5")]).await[1].seq();
    let later = Body::Name(Name { name: "later".into() });
    desk.put(&mut log, vec![later, set(true), prompt("6")]).await;
    let fork = desk.fork(&id, ForkPoint::At(at)).await;
    let in_force = desk.open(&fork).await.log.state().in_force.clone();
    assert_eq!(in_force.name.as_deref(), Some("source"));
    assert_eq!((in_force.model, in_force.model_chosen), (Some(model()), false));
}

async fn open_work_is_settled_as_the_origins<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = source(&desk).await;
    let calls = [call("a"), call("b")];
    let started = RunState::Started { attempt: 1, owner: "pid 7".into() };
    let run = Body::Run(Run { run: 1, state: started });
    let called = desk.put(&mut log, vec![run, prompt("go"), reply("", &calls)]).await[2].seq();
    let actions = vec![action("a", called), action("b", called)];
    desk.put(&mut log, actions).await;
    desk.put(&mut log, vec![result("a", called, "done")]).await;
    let tip = log.state().tip();
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    let opened = desk.open(&fork).await;
    let now = &opened.log.state().in_force;
    assert_eq!((now.open_actions.len(), now.open_run.is_some(), now.tip), (0, false, tip));
    let built = segno_model::context::build(&opened.active.records, tip);
    assert!(built.unanswered.is_empty(), "{:?}", built.unanswered);
    let origins = |r: &&Record| {
        matches!(r.body(), Body::Message(m)
        if matches!(&**m, Message::Tool(t) if t.established == Established::Origin))
    };
    assert_eq!(desk.scan(&fork).await.records.iter().filter(origins).count(), 1);
    assert_eq!(log.state().in_force.open_actions.len(), 1, "the source goes on");
}

async fn a_torn_source_is_forked_without_its_tail<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let (id, mut log, _) = source(&desk).await;
    let refused = desk.append(&mut log, vec![prompt("torn away")], Level::Written).await;
    refused.expect("the append succeeds");
    drop(log);
    desk.change(&id, |bytes| bytes.truncate(bytes.len() - 20));
    let torn = desk.bytes(&id);
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    assert_eq!(desk.bytes(&id), torn);
    assert_eq!(path_in(&desk, &fork).await, ["1", "2", "3", "4"]);
    assert!(desk.bytes(&fork).ends_with(b"\n"));
}

/// Two lines as a later version might write them: another type, and a known one with more members.
fn from_later(next: u64) -> Vec<u8> {
    let lines = [
        format!(
            r#"{{"seq":{next},"at":"2026-01-01T00:00:00.000Z","type":"hologram","depth": [1,  {{"x":null}}],"\u00e9":"\ud83c""#
        ),
        format!(
            r#"{{"seq":{},"at":"2026-01-01T00:00:00.000Z","type":"name","mood":{{"deep":[1e2]}},"name":"n","z": 0"#,
            next + 1
        ),
    ];
    let sealed =
        lines.map(|line| format!("{line},\"crc\":\"{:08x}\"}}\n", checksum(line.as_bytes())));
    sealed.concat().into_bytes()
}

async fn the_unknown_is_copied_byte_for_byte<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let (id, log, _) = source(&desk).await;
    let next = log.state().next_seq;
    drop(log);
    desk.change(&id, |bytes| bytes.extend(from_later(next)));
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    let again = desk.fork(&fork, ForkPoint::Whole).await;
    let expected = desk.bytes(&id);
    for copy in [fork, again] {
        assert!(behind_line_one(&desk.bytes(&copy)).starts_with(behind_line_one(&expected)));
        assert_eq!(desk.read(&copy).await.state.in_force.name.as_deref(), Some("n"));
    }
}

async fn a_source_without_its_header_is_forked_if_it_is_understood<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let (id, log, nodes) = source(&desk).await;
    let next = log.state().next_seq;
    drop(log);
    desk.change(&id, |bytes| {
        let end = bytes.len() - behind_line_one(bytes).len() - 1;
        bytes[..end].fill(b'#');
    });
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    assert_eq!(path_in(&desk, &fork).await, ["1", "2", "3", "4"]);
    let Opened { mut log, active } = desk.open(&fork).await;
    assert_eq!(active.findings, Vec::new());
    assert_eq!(log.header().format, FORMAT);
    assert_eq!(log.header().id, fork);
    assert_eq!(log.header().origin.as_ref().map(|origin| origin.of.as_str()), Some(id.as_str()));
    desk.put(&mut log, vec![prompt("on")]).await;
    let known = nodes[2].seq();
    desk.change(&id, |bytes| bytes.extend(from_later(next)));
    let refused = desk.try_fork(&id, ForkPoint::Whole).await;
    assert!(matches!(&refused, Err(StoreError::ReadOnly(_))), "{refused:?}");
    let before = desk.fork(&id, ForkPoint::At(known)).await;
    assert_eq!(path_in(&desk, &before).await.len(), 3);
}

async fn a_fork_contains_only_what_is_durable<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    for keep in [0, 60, 10_000] {
        let (id, mut log, _) = source(&desk).await;
        desk.write(&mut log, vec![prompt("only written")]).await;
        let fork = desk.fork(&id, ForkPoint::Whole).await;
        desk.write(&mut log, vec![prompt("written later")]).await;
        drop(log);
        desk.bench.crash(keep);
        let (left, copied) = (path_in(&desk, &id).await, path_in(&desk, &fork).await);
        assert!(left.starts_with(&copied), "the fork has {copied:?}, its source {left:?}");
        assert!(copied.starts_with(&["1".into(), "2".into(), "3".into(), "4".into()]));
    }
}
