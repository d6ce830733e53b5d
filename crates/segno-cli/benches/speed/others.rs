//! Other agents' sessions: reading them for the first time, listing many, finding words in one.
//!
//! Responsible for: sessions of two agents, generated in their formats. Must not: measure our own logs.

use crate::Done;
use crate::measure::{Row, median, show, timed};
use crate::process;
use segno_store::catalog::Catalog;
use segno_store::foreign::{Agent, Roots};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a session is that is read or searched.
const LONG: u64 = 64 << 20;
/// How many sessions are listed.
const MANY: u64 = 10_000;
const ROUNDS: usize = 9;
/// Reading other agents' files, in MB per second of one processor.
const RATE: f64 = 300.0;

/// One long session of each agent, read into the catalog for the first time.
pub(crate) fn index(home: &Path) -> Done<Vec<Row>> {
    let mut rows = Vec::new();
    for (agent, write) in [(Agent::Claude, claude as Writing), (Agent::Codex, codex)] {
        let user = home.join(agent.id());
        let bytes = write(&user, 0, LONG)?;
        let times: Done<Vec<Duration>> = (0..3)
            .map(|round| {
                let (took, read) = timed(|| listed(&user.join(format!("{round}.sqlite")), &user));
                if read? == (1, 1) { Ok(took) } else { Err("the session was not read".into()) }
            })
            .collect();
        let rate = bytes as f64 / 1e6 / median(times?).as_secs_f64();
        rows.push(Row {
            what: format!("read {} MB of {agent} for the list", bytes >> 20),
            figure: "one file, one processor".to_owned(),
            value: format!("{rate:.0} MB/s"),
            budget: format!("{RATE} MB/s"),
            met: rate >= RATE,
        });
    }
    fs::remove_dir_all(home)?;
    Ok(rows)
}

/// Many short sessions that are known already, against looking at each file once.
pub(crate) fn list(home: &Path) -> Done<Vec<Row>> {
    for n in 0..MANY {
        claude(home, n, 1)?;
    }
    let catalog = home.join("catalog.sqlite");
    let (cold, read) = timed(|| listed(&catalog, home));
    read?;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (took, read) = timed(|| listed(&catalog, home));
        if read? != (MANY, 0) {
            return Err("the list is not what it should be".into());
        }
        ours.push(took);
        let (took, seen) = timed(|| look_at_each(&projects(home)));
        seen?;
        floor.push(took);
    }
    let figure = format!("(readdir + stat of each: {})", show(median(floor)));
    let what = format!("list {MANY} sessions of another agent, warm");
    let warm = Row::time(&what, median(ours), Duration::from_millis(40), figure);
    let figure = format!("{} a session", show(cold / u32::try_from(MANY)?));
    let what = format!("list {MANY} sessions of another agent, no catalog");
    let cold = Row::time(&what, cold, Duration::from_secs(10), figure);
    fs::remove_dir_all(home)?;
    Ok(vec![warm, cold])
}

/// The command, asked for a word that stands nowhere and for one that stands everywhere.
pub(crate) fn search(home: &Path) -> Done<Vec<Row>> {
    let bytes = claude(home, 0, LONG)?;
    let mut rows = Vec::new();
    for (what, word) in [("stands nowhere", "zyzzyva"), ("stands everywhere", "uploader")] {
        let mut times = Vec::new();
        for round in 0..=ROUNDS {
            let mut segno = Command::new(env!("CARGO_BIN_EXE_segno"));
            segno.args(["search", word]).env_clear();
            segno.env("HOME", home).env("SEGNO_HOME", home.join("segno")).current_dir(home);
            let (took, _) = process::run(segno)?;
            // The first one reads the session for the list.
            if round > 0 {
                times.push(took);
            }
        }
        let time = median(times);
        let rate = bytes as f64 / 1e6 / time.as_secs_f64();
        let what = format!("search {} MB for a word that {what}", bytes >> 20);
        let figure = format!("to the first output, {rate:.0} MB/s");
        rows.push(Row::time(&what, time, Duration::from_millis(250), figure));
    }
    fs::remove_dir_all(home)?;
    Ok(rows)
}

/// How many sessions there are, and how many were read for that.
fn listed(catalog: &Path, user: &Path) -> Done<(u64, u64)> {
    let roots = Roots { home: user.to_owned(), ..Roots::default() };
    let mut catalog = Catalog::open(catalog);
    let stale = catalog.find_foreign(&roots, &[]);
    let mut read = 0;
    catalog.read_foreign(&stale, &mut |_, _| read += 1);
    Ok((catalog.foreign_rows().len() as u64, read))
}

fn look_at_each(dir: &Path) -> Done<()> {
    for entry in fs::read_dir(dir)? {
        fs::metadata(entry?.path())?;
    }
    Ok(())
}

/// Writes session number `n` with at least so many bytes of turns below a home directory; says how many
/// there are.
type Writing = fn(&Path, u64, u64) -> Done<u64>;

fn projects(user: &Path) -> PathBuf {
    user.join(".claude/projects/-home-somebody-project")
}

fn claude(user: &Path, n: u64, bytes: u64) -> Done<u64> {
    let session = uuid(n, 0);
    let row = |seq: u64, parent: Option<u64>, kind: &str, message: Value| {
        json!({
            "parentUuid": parent.map(|seq| uuid(n, seq)), "isSidechain": false, "userType": "external",
            "cwd": "/home/somebody/project", "sessionId": session, "version": "2.0.0",
            "gitBranch": "main", "type": kind, "message": message, "uuid": uuid(n, seq),
            "timestamp": "2026-11-01T10:00:00.000Z"
        })
    };
    let turn = |at: u64| {
        let (call, prompt) = (format!("toolu_{at}"), json!({"role": "user", "content": PROMPT}));
        let reply = |content: Value| {
            json!({
                "id": format!("msg_{at}"), "type": "message", "role": "assistant",
                "model": "claude-opus-4-5", "stop_reason": null, "content": [content],
                "usage": {"input_tokens": 10, "output_tokens": 20}
            })
        };
        let input = json!({"file_path": "src/uploader.rs"});
        let call_block = json!({"type": "tool_use", "id": call, "name": "Read", "input": input});
        let result = json!({"type": "tool_result", "tool_use_id": call, "content": source()});
        vec![
            row(at + 1, (at > 0).then_some(at), "user", prompt),
            row(at + 2, Some(at + 1), "assistant", reply(json!({"type": "text", "text": REPLY}))),
            row(at + 3, Some(at + 2), "assistant", reply(call_block)),
            row(at + 4, Some(at + 3), "user", json!({"role": "user", "content": [result]})),
        ]
    };
    write_turns(&projects(user).join(format!("{session}.jsonl")), &[], bytes, turn)
}

fn codex(user: &Path, n: u64, bytes: u64) -> Done<u64> {
    let (time, session) = ("2026-11-01T10:00:00.000Z", uuid(n, 0));
    let row =
        |kind: &str, payload: Value| json!({"timestamp": time, "type": kind, "payload": payload});
    let head = json!({
        "id": session, "timestamp": time, "cwd": "/home/somebody/project",
        "originator": "codex_cli_rs", "cli_version": "0.60.0", "source": "cli"
    });
    let said = |role: &str, kind: &str, text: &str| {
        let content = json!([{"type": kind, "text": text}]);
        row("response_item", json!({"type": "message", "role": role, "content": content}))
    };
    let turn = |at: u64| {
        let call = format!("call_{at}");
        let arguments = "{\"command\":[\"cat\",\"src/uploader.rs\"]}";
        let asked = json!({
            "type": "function_call", "name": "shell", "arguments": arguments, "call_id": call
        });
        let output = json!({"type": "function_call_output", "call_id": call, "output": source()});
        vec![
            said("user", "input_text", PROMPT),
            said("assistant", "output_text", REPLY),
            row("response_item", asked),
            row("response_item", output),
        ]
    };
    let name = format!(".codex/sessions/2026/11/01/rollout-2026-11-01T10-00-00-{session}.jsonl");
    write_turns(&user.join(name), &[row("session_meta", head)], bytes, turn)
}

const PROMPT: &str = "Make the uploader retry when the network is down.";
const REPLY: &str = "The uploader gives up at the first error. I look at how it connects.";

/// Text as tools return it.
fn source() -> &'static str {
    let text = include_str!("others.rs");
    &text[..3000]
}

fn write_turns(
    path: &Path,
    head: &[Value],
    bytes: u64,
    turn: impl Fn(u64) -> Vec<Value>,
) -> Done<u64> {
    fs::create_dir_all(path.parent().ok_or("a file lies in a folder")?)?;
    let mut file = BufWriter::new(File::create(path)?);
    let (mut written, mut at) = (0, 0);
    let mut put = |row: &Value| -> Done<u64> {
        let line = row.to_string();
        writeln!(file, "{line}")?;
        Ok(line.len() as u64 + 1)
    };
    for row in head {
        put(row)?;
    }
    while written < bytes {
        for row in turn(at) {
            written += put(&row)?;
        }
        at += 4;
    }
    file.flush()?;
    Ok(written)
}

/// A made-up id that is never given twice.
fn uuid(session: u64, row: u64) -> String {
    format!("{session:08x}-0000-4000-8000-{row:012x}")
}
