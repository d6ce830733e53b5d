//! Lines that stand before what they hang on.

use crate::bench::{Copy, Repaired, corpus, repaired, rows, session};
use segno_model::finding::Severity;
use segno_store::foreign::{Agent, Located, View};
use segno_store::rescue;
use serde_json::Value;
use std::fs;

/// The whole sessions of agents whose rows name what they hang on.
fn files() -> Vec<String> {
    let mut files = Vec::new();
    for folder in ["claude", "codex", "pi"] {
        let dir = corpus(&format!("foreign/{folder}"));
        for entry in fs::read_dir(&dir).expect("it is in the corpus").filter_map(Result::ok) {
            let name = entry.file_name().into_string().expect("UTF-8");
            let is_whole = !name.contains("killed") && !name.contains("-derived-");
            if name.ends_with(".jsonl") && is_whole {
                files.push(format!("foreign/{folder}/{name}"));
            }
        }
    }
    files.sort();
    files
}

/// What a row is called and what it makes, and what it names of these.
fn links(agent: Agent, line: &[u8]) -> (Vec<String>, Vec<String>) {
    let Ok(row) = serde_json::from_slice::<Value>(line) else { return (Vec::new(), Vec::new()) };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (mut own, mut named) = (Vec::new(), Vec::new());
    match agent {
        Agent::Claude => {
            own.extend(text(&row["uuid"]));
            named.extend(text(&row["parentUuid"]).or_else(|| text(&row["logicalParentUuid"])));
        }
        Agent::Pi if row.get("seq").is_none() => {
            if row["type"] == "session" {
                own.push("header".to_owned());
            } else if row.get("parentId").is_some() {
                own.extend(text(&row["id"]));
                named.extend(text(&row["parentId"]));
                named.push("header".to_owned());
            }
            named.extend(text(&row["message"]["toolCallId"]));
        }
        Agent::Codex => {
            let kind = row["payload"]["type"].as_str().unwrap_or_default();
            let of = if kind.ends_with("_call") { &mut own } else { &mut named };
            of.extend(text(&row["payload"]["call_id"]));
        }
        _ => {}
    }
    let blocks = row["message"]["content"].as_array();
    for block in blocks.into_iter().flatten() {
        match block["type"].as_str() {
            Some("tool_use" | "toolCall") => own.extend(text(&block["id"])),
            Some("tool_result") => named.extend(text(&block["tool_use_id"])),
            _ => {}
        }
    }
    (own, named)
}

fn unknown(context: &[String]) -> usize {
    context.iter().filter(|line| *line == "result: ?").count()
}

/// A session whose lines were brought out of order: repaired it has all results, and what its rows tell.
fn comes_back(
    session: &Located,
    sent: &[String],
    bent: &[u8],
    is_told: bool,
    shown: &str,
) -> Repaired {
    let before = Copy::of(session, bent);
    let result = repaired(&before.session).unwrap_or_else(|e| panic!("{shown}: {e}"));
    let after = Copy::of(session, &result.bytes);
    let changes = &result.changes;
    assert!(unknown(&after.context()) <= unknown(sent), "{shown}: a result is lost, {changes:?}");
    if is_told {
        assert_eq!(before.context(), sent, "{shown}: as it is read");
        assert_eq!(after.context(), sent, "{shown}: repaired, {changes:?}");
        assert_eq!(after.left(), [""; 0], "{shown}: what is left, {changes:?}");
        assert!(result.aside.is_empty(), "{shown}: nothing is set aside, {changes:?}");
    }
    let again = repaired(&after.session).unwrap_or_else(|e| panic!("{shown}: again: {e}"));
    assert_eq!(again.changes, [""; 0], "{shown}: repaired twice, after {changes:?}");
    result
}

/// Covers: G3, G4.
#[test]
fn neighbours_that_were_swapped_come_back() {
    let mut told = 0;
    for name in files() {
        let session = session(&name);
        let whole = repaired(&session).expect("it reads").bytes;
        let sent = Copy::of(&session, &whole).context();
        let lines = rows(&whole);
        for at in 1..lines.len() {
            let (own, named) =
                (links(session.agent, lines[at - 1]).0, links(session.agent, lines[at]).1);
            let is_linked = named.iter().any(|name| own.contains(name));
            let mut bent = lines.clone();
            bent.swap(at - 1, at);
            let bent = [&bent.join(&b'\n')[..], b"\n"].concat();
            let shown = format!("{name}, lines {at} and {} swapped", at + 1);
            let back = comes_back(&session, &sent, &bent, is_linked, &shown);
            if is_linked {
                assert_eq!(back.changes, [format!("out-of-order@{at}")], "{shown}");
                assert!(back.bytes == whole, "{shown}: it is the same file again");
                told += 1;
            }
        }
    }
    assert!(told > 100, "{told} were looked at");
}

/// Covers: G3, G4. Both are told: that they stand on one line, and in which order.
#[test]
fn neighbours_that_were_swapped_and_fused_come_back() {
    let mut told = 0;
    for name in files() {
        let session = session(&name);
        let whole = repaired(&session).expect("it reads").bytes;
        let sent = Copy::of(&session, &whole).context();
        let lines = rows(&whole);
        let is_linked = |at: &usize| {
            let own = links(session.agent, lines[at - 1]).0;
            links(session.agent, lines[*at]).1.iter().any(|name| own.contains(name))
        };
        for at in (1..lines.len()).filter(is_linked).take(4) {
            let fused = [lines[at], lines[at - 1]].concat();
            let bent = [&lines[..at - 1], &[&fused[..]], &lines[at + 1..]].concat();
            let bent = [&bent.join(&b'\n')[..], b"\n"].concat();
            let shown = format!("{name}, lines {at} and {} swapped on one line", at + 1);
            let back = comes_back(&session, &sent, &bent, true, &shown);
            let expected = [format!("fused-line@{at}"), format!("out-of-order@{at}")];
            assert_eq!(back.changes, expected, "{shown}");
            assert!(back.bytes == whole, "{shown}: it is the same file again");
            let view = View::transcript(&Copy::of(&session, &bent).session).expect("it reads");
            for code in ["fused-line", "out-of-order"] {
                let is_told = view.findings.iter().any(|found| found.code == code);
                assert!(is_told, "{shown}: {code}");
            }
            told += 1;
        }
    }
    assert!(told > 30, "{told} were looked at");
}

/// Covers: G3, G4. Rows whose parent is far behind, and beginnings that stand at the end.
#[test]
fn rows_that_stand_first_or_last_come_back() {
    for name in files().iter().filter(|name| !name.contains("codex") && !name.contains("-v4-")) {
        let session = session(name);
        let whole = repaired(&session).expect("it reads").bytes;
        let sent = Copy::of(&session, &whole).context();
        let lines = rows(&whole);
        let is_linked =
            |line: &&[u8]| !links(session.agent, line).1.is_empty() && !name.contains("-v1-");
        for at in (0..lines.len()).filter(|at| is_linked(&lines[*at])).step_by(3) {
            let mut bent = lines.clone();
            let row = bent.remove(at);
            bent.insert(0, row);
            let bent = [&bent.join(&b'\n')[..], b"\n"].concat();
            comes_back(&session, &sent, &bent, false, &format!("{name}, line {} first", at + 1));
        }
    }
}

/// Covers: G3, G4. Records on one line, the later one first.
#[test]
fn records_on_one_line_come_in_their_order() {
    for name in files().iter().filter(|name| name.contains("tool")) {
        let session = session(name);
        let whole = repaired(&session).expect("it reads").bytes;
        let sent = Copy::of(&session, &whole).context();
        let lines = rows(&whole);
        for at in (1..lines.len()).step_by(3) {
            let fused = [lines[at], lines[at - 1]].concat();
            let bent = [&lines[..at - 1], &[&fused], &lines[at + 1..]].concat();
            let bent = [&bent.join(&b'\n')[..], b"\n"].concat();
            let shown = format!("{name}, lines {} and {at} on one line", at + 1);
            comes_back(&session, &sent, &bent, false, &shown);
        }
    }
}

/// More than can wait stays where it is, and that is said.
#[test]
fn records_that_are_too_many_to_wait_are_told() {
    let padding = format!("{{\"padding\":\"{}\",", "x".repeat(33 << 20));
    let name = "foreign/claude/multi-turn-tools.jsonl";
    let session = session(name);
    let bytes = fs::read(&session.path).expect("it is in the corpus");
    let lines = rows(&bytes);
    let named = |at: usize| links(session.agent, lines[at]).1;
    let hangs = |at: &usize| {
        let own = links(session.agent, lines[*at - 1]).0;
        own.iter().any(|own| own != "header" && named(*at).contains(own))
    };
    let at = (1..lines.len()).find(hangs).expect("one hangs on the line before it");
    for (is_long, expected) in [(false, 0), (true, 1)] {
        let child = String::from_utf8(lines[at].to_vec()).expect("UTF-8");
        let child = if is_long { child.replacen('{', &padding, 1) } else { child };
        let swapped = [&lines[..at - 1], &[child.as_bytes(), lines[at - 1]], &lines[at + 1..]];
        let copy = Copy::of(&session, &swapped.concat().join(&b'\n'));
        let view = View::transcript(&copy.session).expect("it reads");
        let told = view.findings.iter().filter(|finding| finding.code == "unordered");
        let places: Vec<_> = told.map(|told| (told.line, told.severity)).collect();
        let place = (Some(at as u64), Severity::Damage);
        assert_eq!(places, vec![place; expected], "{name}");
        let plan = rescue::plan(&copy.session).expect("it reads");
        let notes = plan.notes.iter().filter(|note| note.contains("32 MiB")).count();
        assert_eq!(notes, expected, "{name}: {:?}", plan.notes);
    }
}
