//! Control bytes that stand in a record as they are: read and repaired as if they had been escaped.

use crate::bench::{Copy, corpus, keeps_its_promises, repaired, session};
use segno_store::foreign::{Located, View, recognise};
use std::fs;
use std::path::{Path, PathBuf};

/// Every session of the corpus that is repaired.
fn sessions() -> Vec<Located> {
    let mut folders: Vec<PathBuf> = vec![corpus("foreign")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("it is in the corpus").filter_map(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "jsonl") {
                files.push(path);
            }
        }
    }
    files.sort();
    let found = files.iter().filter_map(|path| recognise(path).ok());
    found.filter(|found| found.path.is_file()).collect()
}

/// The longest text of a line: where it begins.
fn longest_text(line: &str) -> Option<usize> {
    let (mut begins, mut is_escape, mut texts) = (None, false, Vec::new());
    for (at, byte) in line.bytes().enumerate() {
        match (byte, begins) {
            (b'"', None) => begins = Some(at + 1),
            (b'"', Some(begin)) if !is_escape => {
                texts.push((at - begin, begin));
                begins = None;
            }
            _ => {}
        }
        is_escape = begins.is_some() && byte == b'\\' && !is_escape;
    }
    texts.into_iter().max().map(|(_, begin)| begin)
}

/// The same file with some bytes in the longest text of one line.
fn with(lines: &[&str], at: usize, within: usize, put: &str) -> Vec<u8> {
    let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    lines[at].insert_str(within, put);
    (lines.join("\n") + "\n").into_bytes()
}

fn said(copy: &Copy) -> Option<Vec<String>> {
    let view = View::transcript(&copy.session).ok()?;
    let record = |read: &segno_store::foreign::ForeignRecord| {
        format!("{:?} {}", read.record.envelope, read.record.body().to_json().expect("JSON"))
    };
    Some(view.records.iter().map(record).collect())
}

/// Covers: G3, G14. Each control byte, in lines of every kind of every agent's sessions.
#[test]
fn a_record_with_control_bytes_is_what_it_is_with_them_escaped() {
    let controls: Vec<u8> = (0..0x20).filter(|byte| *byte != b'\n').collect();
    let mut agents = Vec::new();
    let mut turn = 0;
    for session in sessions() {
        let Ok(text) = fs::read_to_string(&session.path) else { continue };
        let lines: Vec<&str> = text.lines().collect();
        if rescued(&session).is_none() {
            continue;
        }
        for at in (0..lines.len()).step_by(1 + lines.len() / 5) {
            let Some(within) = longest_text(lines[at]) else { continue };
            let byte = controls[turn % controls.len()];
            turn += 1;
            let raw = with(&lines, at, within, &char::from(byte).to_string().repeat(3));
            let escaped = with(&lines, at, within, &escape(byte).repeat(3));
            let shown = format!("{} line {}, {byte:#04x}", session.path.display(), at + 1);
            same(&session, &raw, &escaped, at + 1, &shown);
        }
        agents.push(session.agent);
    }
    agents.sort();
    agents.dedup();
    assert!(agents.len() >= 7, "{agents:?}");
    assert!(turn > 180, "{turn}");
}

/// As agents write it.
fn escape(byte: u8) -> String {
    let quoted = serde_json::to_string(&char::from(byte).to_string()).expect("JSON");
    quoted.trim_matches('"').to_owned()
}

fn rescued(session: &Located) -> Option<()> {
    repaired(session).ok().map(drop)
}

fn same(session: &Located, raw: &[u8], escaped: &[u8], line: usize, shown: &str) {
    let (raw, escaped) = (Copy::of(session, raw), Copy::of(session, escaped));
    let (now, then) = (said(&raw), said(&escaped));
    let differs = |(now, then): (&Vec<String>, &Vec<String>)| {
        now.iter()
            .zip(then)
            .find(|(now, then)| now != then)
            .map(|(now, then)| format!("{now}\n{then}"))
    };
    assert!(now == then, "{shown}: {:?}", now.as_ref().zip(then.as_ref()).and_then(differs));
    let Ok(then) = repaired(&escaped.session) else { return };
    // What is broken in another way as well stays that.
    if then.changes.iter().any(|change| change.ends_with(&format!("@{line}"))) {
        return;
    }
    let now = repaired(&raw.session).unwrap_or_else(|e| panic!("{shown}: {e}"));
    assert!(now.changes.contains(&format!("control-byte@{line}")), "{shown}: {:?}", now.changes);
    let others: Vec<_> =
        now.changes.iter().filter(|change| !change.starts_with("control-byte")).collect();
    assert_eq!(others, then.changes.iter().collect::<Vec<_>>(), "{shown}");
    assert!(now.aside == then.aside, "{shown}");
    assert!(now.bytes == then.bytes, "{shown}");
    let after = Copy::of(session, &now.bytes);
    let again = repaired(&after.session).unwrap_or_else(|e| panic!("{shown}: again: {e}"));
    assert_eq!(again.changes, [""; 0], "{shown}: again");
}

/// Covers: G3, G14. In one JSON value, newlines in texts as well.
#[test]
fn a_document_with_control_bytes_is_what_it_is_with_them_escaped() {
    let path = "foreign/cline/1772450000000/api_conversation_history.json";
    let cline = Located { path: corpus(path), ..session("foreign/cline/1772450000000") };
    let text = fs::read_to_string(&cline.path).expect("it is in the corpus");
    let (before, behind) = text.split_once("\"text\":").expect("a text");
    let begin = behind.find('"').expect("it is one") + 1;
    let (blank, behind) = behind.split_at(begin);
    let with = |put: &str| format!("{before}\"text\":{blank}{put}{behind}").into_bytes();
    let whole = with("\\u0000\\n\\t\\u001b");
    let result = repaired(&Copy::of(&cline, &with("\0\n\t\x1b")).session).expect("it reads");
    assert!(result.bytes == whole, "{}", String::from_utf8_lossy(&result.bytes));
    assert!(result.aside.is_empty());
    assert!(result.changes.iter().all(|change| change.starts_with("control-byte@")));
    let again = repaired(&Copy::of(&cline, &whole).session).expect("it reads");
    assert_eq!(again.changes, [""; 0]);
}

/// Covers: G3. On one line with others, behind a torn one, beside bytes that are no UTF-8, and in a line that is
/// broken in another way.
#[test]
fn control_bytes_hide_nothing_beside_them() {
    let pi = session("foreign/pi/02-tool-calls.jsonl");
    let text = fs::read_to_string(&pi.path).expect("it is in the corpus");
    let lines: Vec<&str> = text.lines().collect();
    let put = |at: usize, put: &[u8]| {
        let within = longest_text(lines[at]).expect("a text");
        [&lines[at].as_bytes()[..within], put, &lines[at].as_bytes()[within..]].concat()
    };
    let join = |from: usize, middle: &[u8], to: usize| {
        let (before, behind) = (lines[..from].join("\n"), lines[to..].join("\n"));
        [before.as_bytes(), b"\n", middle, b"\n", behind.as_bytes(), b"\n"].concat()
    };
    let rows: [(&str, Vec<u8>, &[&str]); 5] = [
        (
            "fused",
            join(3, &[put(3, b"\x01"), put(4, b"\t")].concat(), 5),
            &["fused-line@4", "control-byte@4"],
        ),
        (
            "behind a torn one",
            join(3, &[&put(3, b"")[..60], &put(4, b"\t\0")].concat(), 5),
            &["fused-line@4", "control-byte@4"],
        ),
        ("no UTF-8", join(3, &put(3, b"\xFF\x1b"), 4), &["bad-utf8@4", "control-byte@4"]),
        (
            "NULs around it",
            join(3, &[b"\0\0", &put(3, b"\0")[..], b"\0"].concat(), 4),
            &["nul-run@4", "control-byte@4"],
        ),
        ("torn", join(3, &put(3, b"\0")[..lines[3].len() - 9], 4), &["torn-line@4"]),
    ];
    for (what, bytes, expected) in rows {
        let result = keeps_its_promises(&pi, &bytes, what).expect("it reads");
        for rule in expected {
            assert!(result.changes.contains(&(*rule).to_owned()), "{what}: {:?}", result.changes);
        }
        let told = result.changes.iter().any(|change| change.starts_with("control-byte"));
        assert_eq!(told, what != "torn", "{what}: {:?}", result.changes);
        let now = std::str::from_utf8(&result.bytes).expect("UTF-8");
        assert!(!now.bytes().any(|byte| byte < b' ' && byte != b'\n'), "{what}");
    }
}

/// Covers: G3. A file whose every line holds some is its agent's.
#[test]
fn a_session_of_such_records_is_recognised() {
    for name in
        ["claude/multi-turn-tools.jsonl", "codex/multi-turn-tools.jsonl", "pi/02-tool-calls.jsonl"]
    {
        let known = session(&format!("foreign/{name}"));
        let text = fs::read_to_string(&known.path).expect("it is in the corpus");
        let bent: Vec<String> = text
            .lines()
            .map(|line| {
                let mut line = line.to_owned();
                line.insert(longest_text(&line).expect("a text"), '\x07');
                line
            })
            .collect();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(Path::new(name).file_name().expect("a name"));
        fs::write(&path, bent.join("\n")).expect("it is written");
        let found = recognise(&path).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(found.agent, known.agent, "{name}");
    }
}

/// Covers: G14. Records that stand before what they hang on are moved whatever bytes are in them.
#[test]
fn records_with_control_bytes_are_put_in_order() {
    let mut moved = 0;
    for name in
        ["claude/multi-turn-tools.jsonl", "codex/multi-turn-tools.jsonl", "pi/02-tool-calls.jsonl"]
    {
        let session = session(&format!("foreign/{name}"));
        let text = fs::read_to_string(&session.path).expect("it is in the corpus");
        let mut lines: Vec<&str> = text.lines().collect();
        for at in 1..lines.len() {
            lines.swap(at - 1, at);
            for bent in [at - 1, at] {
                let Some(within) = longest_text(lines[bent]) else { continue };
                let raw = Copy::of(&session, &with(&lines, bent, within, "\x1b"));
                let escaped = Copy::of(&session, &with(&lines, bent, within, "\\u001b"));
                let shown = format!("{name}: lines {at} and {}, bent {}", at + 1, bent + 1);
                assert!(said(&raw) == said(&escaped), "{shown}");
                let then = repaired(&escaped.session).expect("it reads");
                let now = repaired(&raw.session).expect("it reads");
                assert!(now.bytes == then.bytes && now.aside == then.aside, "{shown}");
                moved += then.changes.iter().filter(|c| c.starts_with("out-of-order")).count();
            }
            lines.swap(at - 1, at);
        }
    }
    assert!(moved > 20, "{moved}");
}
