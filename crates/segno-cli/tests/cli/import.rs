//! Going on here with another agent's session.

use super::place::Place;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

struct Desk {
    place: Place,
    user: PathBuf,
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(name)
}

impl Desk {
    fn new() -> Self {
        let place = Place::new("rule any\n  say \"on it\"\n");
        let user = place.home().parent().unwrap().to_owned();
        Self { place, user }
    }

    fn put(&self, from: &str, to: &str) -> PathBuf {
        let to = self.user.join(to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(corpus(from), &to).unwrap();
        to
    }

    /// Goes on here with a prompt; what was said on standard output.
    fn go_on(&self, word: &str, prompt: &str) -> String {
        let url = self.place.server.url();
        let args = [
            "resume",
            word,
            "--here",
            "--model",
            "anthropic/demo",
            "--base-url",
            &url,
            "--",
            prompt,
        ];
        let ran = self.place.segno(&args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(ran.status.success(), "{word}: {}{}", text(&ran.stdout), text(&ran.stderr));
        text(&ran.stdout)
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.place.segno(args).output().unwrap();
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {ran:?}"))
    }

    fn own(&self) -> Vec<Value> {
        let listed = self.json(&["list", "--all", "--source", "segno", "--json"]);
        listed["sessions"].as_array().unwrap().clone()
    }

    /// What the next request would hold, as roles and texts.
    fn context(&self, word: &str) -> Vec<String> {
        let context = self.json(&["show", word, "--context", "--json"]);
        let lines = context["messages"].as_array().unwrap().iter().flat_map(message);
        lines.collect()
    }
}

/// A message without the numbers of records.
fn message(message: &Value) -> Vec<String> {
    let role = message["role"].as_str().unwrap();
    match message["results"].as_array() {
        Some(results) => {
            results.iter().map(|r| format!("result {} {}", r["call_id"], r["content"])).collect()
        }
        None => vec![format!("{role} {}", message["content"])],
    }
}

/// The scripted server refuses every broken history, so an answer shows that what was imported can be sent.
/// Covers: #15, #34, G6, G14.
#[test]
fn every_agents_session_goes_on_here() {
    let desk = Desk::new();
    desk.put("foreign/claude/compacted.jsonl", ".claude/projects/-p/a.jsonl");
    desk.put("foreign/claude/killed-parallel-one-done.jsonl", ".claude/projects/-p/b.jsonl");
    let name = |n: u8| {
        format!(
            ".codex/sessions/2026/11/29/rollout-2026-11-29T10-00-00-01a228f9-0000-7000-8000-00000000000{n}.jsonl"
        )
    };
    desk.put("foreign/codex/compacted.jsonl", &name(1));
    desk.put("foreign/codex/killed-mid-tool-then-resumed.jsonl", &name(2));
    desk.put(
        "foreign/pi/11a-tui-tree-labels-branch-summary.jsonl",
        ".pi/agent/sessions/--p--/a.jsonl",
    );
    desk.put("foreign/pi/07-auto-compaction-threshold.jsonl", ".pi/agent/sessions/--p--/b.jsonl");
    desk.put(
        "foreign/gemini/killed-mid-tool-then-resumed.jsonl",
        ".gemini/tmp/p/chats/session-1.jsonl",
    );
    desk.put("foreign/opencode/opencode.db", ".local/share/opencode/opencode.db");
    let others: Vec<Value> =
        desk.json(&["list", "--all", "--json"])["sessions"].as_array().unwrap().clone();
    let mut agents = std::collections::BTreeMap::new();
    for session in others {
        let source = session["source"].as_str().unwrap();
        let said = session["user_messages"].as_u64().unwrap() > 0;
        let count = agents.entry(source.to_owned()).or_insert(0);
        if *count == 3 || !said {
            continue;
        }
        *count += 1;
        let word = format!("{source}:{}", session["id"].as_str().unwrap());
        let before = desk.context(&word);
        let out = desk.go_on(&word, "and now?");
        assert!(out.contains("imported") && out.contains("on it"), "{word}: {out}");
        let own = desk.own();
        let newest = own.iter().max_by_key(|s| s["id"].as_str().unwrap().to_owned()).unwrap();
        let after = desk.context(newest["id"].as_str().unwrap());
        let stays = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
        // Interrupted calls get a result, and the last notice gives way to the prompt.
        assert!(stays + 3 >= before.len(), "{word}: {before:#?}\n{after:#?}");
        // The directory in which it ran is not on this machine: it goes on where one is.
        assert_eq!(
            newest["cwd"],
            desk.place.file("").to_str().unwrap().trim_end_matches('/'),
            "{word}"
        );
    }
    assert_eq!(agents.len(), 5, "{agents:?}");
}

/// Covers: #128. The same original is one session here, however often it is imported, and however it grew.
#[test]
fn an_import_is_brought_up_to_date() {
    let desk = Desk::new();
    let file = desk.put("foreign/pi/02-tool-calls.jsonl", ".pi/agent/sessions/--p--/a.jsonl");
    let whole = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let cut = lines.len() - 1;
    fs::write(&file, lines[..cut].iter().map(|line| format!("{line}\n")).collect::<String>())
        .unwrap();
    let listed = desk.json(&["list", "--all", "--json"]);
    let word = format!("pi:{}", listed["sessions"][0]["id"].as_str().unwrap());
    let no_prompt = |text: &str| {
        let ran = desk.place.segno(&["resume", &word, "--here"]).output().unwrap();
        let out = String::from_utf8(ran.stdout).unwrap();
        assert!(out.contains(text), "{out}");
    };
    no_prompt("the original stays as it is");
    no_prompt("nothing is new");
    assert_eq!(desk.own().len(), 1);
    fs::write(&file, &whole).unwrap();
    no_prompt("1 record");
    assert_eq!(desk.own().len(), 1);
    let id = desk.own()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(desk.context(&id), desk.context(&word));
    // Somebody goes on here; then the original grows again: that is a branch, and both are kept.
    desk.go_on(&word, "said here");
    let said = whole.clone()
        + "{\"type\":\"message\",\"id\":\"ffff0001\",\"parentId\":\""
        + last_id(&lines)
        + "\",\"timestamp\":\"2026-11-29T22:00:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"said there\",\"timestamp\":1}}\n";
    fs::write(&file, said).unwrap();
    no_prompt("on a branch of their own");
    let transcript = desk.json(&["show", &id, "--tree", "--json"]);
    let text = transcript.to_string();
    assert!(text.contains("said here") && text.contains("said there"), "{text}");
    assert!(desk.context(&id).iter().any(|line| line.contains("said there")));
    // An original that was rewritten is another session.
    fs::write(&file, lines[..6].iter().map(|line| format!("{line}\n")).collect::<String>())
        .unwrap();
    let ran = desk.place.segno(&["resume", &word, "--here"]).output().unwrap();
    assert!(String::from_utf8(ran.stdout).unwrap().contains("imported"));
    assert_eq!(desk.own().len(), 2);
}

fn last_id<'a>(lines: &[&'a str]) -> &'a str {
    let line = lines.last().unwrap();
    let at = line.find("\"id\":\"").unwrap() + 6;
    &line[at..at + line[at..].find('"').unwrap()]
}
