//! Files that begin with something else than a whole record of their agent's.

use super::scene::corpus;
use segno_store::foreign::{Agent, ForeignError, Roots, recognise, recognise_among};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

/// More than is looked at first.
const LONG: usize = 100 << 10;

/// A session of each agent that writes lines.
fn line_files() -> Vec<(Agent, PathBuf)> {
    let mut found = vec![
        (Agent::Claude, corpus("foreign/claude/multi-turn-tools.jsonl")),
        (Agent::Codex, corpus("foreign/codex/multi-turn-tools.jsonl")),
        (Agent::Codex, corpus("foreign/codex/legacy-0.118-multi-turn-tools.jsonl")),
        (Agent::Pi, corpus("foreign/pi/02-tool-calls.jsonl")),
        (Agent::Pi, corpus("foreign/pi/20-v1-pi-0.30.2.jsonl")),
        (Agent::Pi, corpus("foreign/pi/31-v4-lanes-agent-core-0.84.4-api.jsonl")),
        (Agent::Gemini, corpus("foreign/gemini/multi-turn-tools.jsonl")),
        (Agent::Goose, corpus("foreign/goose/20250310_101500.jsonl")),
    ];
    for (agent, folder) in
        [(Agent::Ink, "ink"), (Agent::Evo, "evo"), (Agent::Kimi, "kimi"), (Agent::Qwen, "qwen")]
    {
        let mut folders = vec![corpus(&format!("foreign/{folder}"))];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => files.push(path),
                }
            }
        }
        files.sort();
        let is_one = |path: &PathBuf| {
            path.extension().is_some_and(|end| end == "jsonl")
                && recognise(path).is_ok_and(|found| found.agent == agent)
        };
        found.push((agent, files.into_iter().find(is_one).expect("a session of that agent")));
    }
    found
}

/// The first line with a member that makes it longer than what is looked at first.
fn long(line: &str) -> String {
    match serde_json::from_str(line).expect("a row") {
        Value::Object(mut row) => {
            row.insert("zz_filler".to_owned(), "x".repeat(LONG).into());
            Value::Object(row).to_string()
        }
        Value::Array(mut rows) => {
            rows[0]["zz_filler"] = "x".repeat(LONG).into();
            Value::Array(rows).to_string()
        }
        other => panic!("{other}"),
    }
}

/// Whatever its beginning, it is the same agent's, wherever it lies.
#[test]
fn a_long_or_broken_beginning_hides_no_session() {
    for (agent, path) in line_files() {
        let text = fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap();
        let rest = &text[first.len()..];
        let nuls = "\0".repeat(LONG);
        let torn = format!("{}\"{}\n", &first[..first.len() / 2], "x".repeat(LONG));
        let cases = [
            ("a long first line", format!("{}{rest}", long(first))),
            ("NUL bytes before the first record", format!("{nuls}{text}")),
            ("a line of NUL bytes", format!("{nuls}\n{text}")),
            ("a torn first line", format!("{torn}{text}")),
            ("torn lines and NUL bytes", format!("{torn}{nuls}\n{torn}{text}")),
            ("a few NUL bytes before one record", format!("\0\0\0{text}")),
        ];
        for (what, text) in cases {
            let dir = tempfile::tempdir().unwrap();
            let copy = dir.path().join(path.file_name().unwrap());
            fs::write(&copy, text).unwrap();
            let found = recognise(&copy).map(|found| found.agent);
            assert_eq!(found.ok(), Some(agent), "{}: {what}", path.display());
        }
    }
}

/// Of what is no session only so much is read; where its agent keeps sessions it is one all the same.
#[test]
fn a_file_is_its_agents_by_its_place_when_nothing_in_it_tells() {
    let dir = tempfile::tempdir().unwrap();
    let roots = Roots { home: dir.path().to_owned(), ..Roots::default() };
    let id = "01a2290d-7a18-7f11-a711-baa7ed59e765";
    let places = [
        (Agent::Claude, ".claude/projects/-x/a.jsonl".to_owned()),
        (
            Agent::Codex,
            format!(".codex/sessions/2026/11/29/rollout-2026-11-29T20-44-38-{id}.jsonl"),
        ),
        (Agent::Pi, ".pi/agent/sessions/--x--/2026-11-29T20-44-38-000Z_a.jsonl".to_owned()),
        (Agent::Gemini, ".gemini/tmp/x/chats/session-2026-11-29T20-44-01a2290d.jsonl".to_owned()),
    ];
    for (agent, place) in places {
        let path = dir.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for content in
            ["", "\0\0\0\0", "neither JSON nor anything\n", "{\"type\":\"unheard of\"}\n"]
        {
            fs::write(&path, content).unwrap();
            let found = recognise_among(&path, &roots).map(|found| found.agent);
            assert_eq!(found.ok(), Some(agent), "{content:?}");
            let alone = recognise(&path);
            match content {
                "" => assert!(matches!(alone, Err(ForeignError::Nothing { .. }))),
                _ => assert!(matches!(alone, Err(ForeignError::NotRecognised { .. }))),
            }
        }
    }
    // A session far behind the end of what is looked at.
    let far = dir.path().join("far.jsonl");
    let mut file = fs::File::create(&far).unwrap();
    file.set_len(65 << 20).unwrap();
    let row = fs::read(corpus("foreign/claude/multi-turn-tools.jsonl")).unwrap();
    file = fs::OpenOptions::new().append(true).open(&far).unwrap();
    file.write_all(b"\n").and_then(|()| file.write_all(&row)).unwrap();
    assert!(matches!(recognise(&far), Err(ForeignError::NotRecognised { .. })));
}

/// A log that quotes rows is no session.
#[test]
fn rows_behind_other_words_are_no_session() {
    let text = fs::read_to_string(corpus("foreign/gemini/multi-turn-tools.jsonl")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.log");
    let quoted: String = text.lines().map(|line| format!("12:00 INFO {line}\n")).collect();
    fs::write(&path, quoted).unwrap();
    assert!(matches!(recognise(&path), Err(ForeignError::NotRecognised { .. })));
}
