//! Rows of Claude Code's that stand again, or in another order than they were written.

use crate::bench::{Copy, Repaired, corpus, loses_nothing, repaired, session};
use segno_store::foreign::Located;
use serde_json::{Value, json};
use std::fs;

fn lines_of(session: &Located) -> Vec<String> {
    let text = fs::read_to_string(&session.path).expect("it is in the corpus");
    text.lines().map(str::to_owned).collect()
}

fn repair(session: &Located, lines: &[String]) -> Repaired {
    let copy = Copy::of(session, format!("{}\n", lines.join("\n")).as_bytes());
    repaired(&copy.session).expect("it reads")
}

/// A row that was written twice at once is left out once; nothing about the rows behind it changes.
#[test]
fn a_row_that_stands_again_behind_itself_changes_no_other() {
    let dir = corpus("foreign/claude");
    for entry in fs::read_dir(&dir).expect("it is in the corpus").filter_map(Result::ok) {
        let name = entry.file_name().into_string().expect("UTF-8");
        if !name.ends_with(".jsonl") {
            continue;
        }
        let session = session(&format!("foreign/claude/{name}"));
        let lines = lines_of(&session);
        let whole = repair(&session, &lines);
        for at in (0..lines.len()).filter(|at| lines[*at].contains("\"uuid\":\"")).step_by(2) {
            let mut twice = lines.clone();
            twice.insert(at + 1, lines[at].clone());
            let result = repair(&session, &twice);
            let shown = format!("{name}: line {} twice, {:?}", at + 1, result.changes);
            assert!(result.changes.contains(&format!("repeated-record@{}", at + 2)), "{shown}");
            assert_eq!(result.changes.len(), whole.changes.len() + 1, "{shown}");
            assert!(result.bytes == whole.bytes, "{shown}");
        }
    }
}

/// Where a result stands before its call and a row stands again, a repaired file needs no repair.
#[test]
fn rows_in_another_order_are_repaired_once() {
    let session = session("foreign/claude/subagent-child.jsonl");
    let lines = lines_of(&session);
    let result = lines.iter().position(|line| line.contains("\"tool_result\"")).expect("a result");
    for again in result..result + 4 {
        for to in 0..result {
            let mut bent = lines.clone();
            bent.insert(again + 1, lines[again].clone());
            bent.swap(result, to);
            let shown = format!("line {} twice, then {} at {}", again + 1, result + 1, to + 1);
            loses_nothing(&session, (bent.join("\n") + "\n").as_bytes(), &shown);
        }
    }
}

/// Where four rows hang, by their places in the file; each on any of them, or on nothing.
fn ways() -> impl Iterator<Item = [Option<usize>; 4]> {
    (0..5_usize.pow(4)).map(|way| {
        let mut rest = way;
        [(); 4].map(|()| {
            let on = rest % 5;
            rest /= 5;
            on.checked_sub(1)
        })
    })
}

fn id(row: usize) -> String {
    format!("{row}{row}aaaaaa-1111-4111-8111-111111111111")
}

/// Whether a walk along parents never ends.
fn goes_round(parents: &[Option<usize>; 4], from: usize) -> bool {
    let mut at = Some(from);
    for _ in 0..=parents.len() {
        at = at.and_then(|row| parents[row]);
    }
    at.is_some()
}

/// A row that names a later one comes behind that and hangs where it hung, unless that leads back to it; then no walk
/// goes round any more.
#[test]
fn only_what_goes_round_is_hung_elsewhere() {
    let session = session("cases/17-orphan-result/c0de0011-1111-4111-8111-000000000011.jsonl");
    for parents in ways() {
        let row = |(n, on): (usize, &Option<usize>)| {
            json!({
                "type": "user", "uuid": id(n), "parentUuid": on.map(id), "isSidechain": false,
                "sessionId": "c0de0011-1111-4111-8111-000000000011", "timestamp": "2026-03-02T09:00:00.000Z",
                "message": {"role": "user", "content": format!("ROW-{n}")},
            })
            .to_string()
        };
        let lines: Vec<String> = parents.iter().enumerate().map(row).collect();
        let result = repair(&session, &lines);
        let shown = format!("{parents:?}: {:?}", result.changes);
        let went_round = (0..4).any(|from| goes_round(&parents, from));
        let is_cut = |change: &String| change.starts_with("cycle@");
        assert_eq!(result.changes.iter().any(is_cut), went_round, "{shown}");
        let is_moved = |change: &String| change.starts_with("out-of-order@");
        assert!(result.changes.iter().all(|change| is_cut(change) || is_moved(change)), "{shown}");
        let text = String::from_utf8(result.bytes).expect("UTF-8");
        let now: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let row = |n: usize| now.iter().find(|row| row["uuid"] == id(n)).expect("it stays");
        let on = |n: usize| (0..4).find(|other| row(n)["parentUuid"] == id(*other));
        let now = [on(0), on(1), on(2), on(3)];
        assert!(went_round || now[..] == parents[..], "{shown} {now:?}");
        assert!((0..4).all(|from| !goes_round(&now, from)), "{shown} {now:?}");
        let again: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(repair(&session, &again).changes, [""; 0], "{shown}: again");
    }
}
