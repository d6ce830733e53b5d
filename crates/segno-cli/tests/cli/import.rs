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

    /// Takes a session in, and says nothing.
    fn here(&self, word: &str) -> String {
        let ran = self.place.segno(&["resume", word, "--here"]).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
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
        None => {
            // Thinking goes back to its maker only, and another model goes on here.
            let mut content = message["content"].clone();
            content.as_array_mut().unwrap().retain(|block| block["type"] != "thinking");
            vec![format!("{role} {content}")]
        }
    }
}

/// The scripted server refuses every broken history, so an answer shows that what was imported can be sent.
/// Covers: #34, G6, G14.
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

/// Covers: #7, #121. What a strict parser or a database refuses comes in as it is, and can be sent: NUL is NUL, the six characters that spell it
/// stay those, and half of a character is U+FFFD.
#[test]
fn odd_characters_are_taken_in_exactly() {
    let desk = Desk::new();
    let case =
        "cases/46-nul-in-text/2026-03-02T09-00-00-000Z_019c1111-002e-7000-8000-00000000002e.jsonl";
    desk.put(case, ".pi/agent/sessions/--p--/a.jsonl");
    desk.go_on("pi:019c1111-002e", "and now?");
    let own = desk.own();
    let id = own[0]["id"].as_str().unwrap();
    for args in [
        &["show", id, "--json"][..],
        &["show", id, "--context", "--json"],
        &["export", id, "--format", "json"],
    ] {
        let shown = desk.json(args).to_string();
        for text in [r"A\u0000B NUL-46", r"The text \\u0000 is six characters", "HALF-46 \u{fffd}"]
        {
            assert!(shown.contains(text), "{args:?}: {text}: {shown}");
        }
    }
}

/// Covers: #32, #135, #150. Prompts that were queued and never delivered are offered once, in order, and said by nobody; the open call
/// is closed before what was said behind it, once, however often the session is gone on with.
#[test]
fn what_waited_is_offered_and_what_was_open_is_settled_once() {
    let desk = Desk::new();
    let case = "cases/48-queued-prompts/c0de0030-1111-4111-8111-000000000030.jsonl";
    desk.put(case, ".claude/projects/-p/c0de0030-1111-4111-8111-000000000030.jsonl");
    let told = desk.here("claude:c0de0030");
    let waited: Vec<&str> = told.split("was never delivered").skip(1).collect();
    assert_eq!(waited.len(), 2, "{told}");
    assert!(waited[0].contains("Q2-48 write the log") && waited[1].contains("Q3-48 mail me"));
    assert!(!told.contains("Q1-48") && !told.contains("notification"), "{told}");
    assert!(!desk.here("claude:c0de0030").contains("never delivered"), "once");
    let id = desk.own()[0]["id"].as_str().unwrap().to_owned();
    let results = |context: &[String]| {
        let found: Vec<usize> = context
            .iter()
            .enumerate()
            .filter(|(_, line)| line.starts_with("result "))
            .map(|(n, _)| n)
            .collect();
        assert_eq!(found.len(), 1, "{context:#?}");
        found[0]
    };
    let mut before: Vec<String> = Vec::new();
    for n in 0..3 {
        desk.go_on("claude:c0de0030", &format!("and now, {n}?"));
        let context = desk.context(&id);
        let at = results(&context);
        assert!(
            context[at].contains("toolu_48") && context[at].contains("unknown"),
            "{context:#?}"
        );
        assert!(context[at + 1].contains("Q1-48"), "{context:#?}");
        assert!(!context.concat().contains("Q2-48"), "{context:#?}");
        // The same to the letter, but for what was said since.
        assert_eq!(context[..before.len()], before, "{n}");
        before = context[..context.len() - 1].to_vec();
    }
    for agent in ["claude", "codex", "pi", "gemini", "opencode"] {
        let ran =
            desk.place.segno(&["export", "claude:c0de0030", "--format", agent]).output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(said.matches("never delivered: Q").count(), 2, "{agent}: {said}");
    }
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

/// Covers: #140. Subagents' sessions come along, once each, and stand below the one that they belong to.
#[test]
fn subagents_sessions_come_along() {
    let desk = Desk::new();
    let id = "eeef4ea1-738a-476d-aa72-302923605ccb";
    desk.put("foreign/claude/subagent-parent.jsonl", &format!(".claude/projects/-p/{id}.jsonl"));
    let child = format!(".claude/projects/-p/{id}/subagents/agent-a4afbefcbee12acc7");
    desk.put("foreign/claude/subagent-child.jsonl", &format!("{child}.jsonl"));
    desk.put("foreign/claude/subagent-child.meta.json", &format!("{child}.meta.json"));
    let word = format!("claude:{id}");
    let out = desk.here(&word);
    assert!(out.contains("with 1 session of subagents"), "{out}");
    assert!(desk.here(&word).contains("nothing is new"));
    let own = desk.own();
    assert_eq!(own.len(), 1, "a subagent's stands behind its parent: {own:?}");
    let both = desk.json(&["list", "--all", "--children", "--source", "segno", "--json"]);
    let both = both["sessions"].as_array().unwrap();
    assert_eq!(both.len(), 2);
    assert_eq!((&both[1]["child"], &both[1]["parent"]), (&Value::Bool(true), &both[0]["id"]));
    let said = desk.context(both[1]["id"].as_str().unwrap());
    assert_eq!(said, desk.context("claude:a4afbefcbee12acc7"));
    assert!(said[0].contains("RUN: echo from-subagent"), "{said:?}");
}

/// Covers: #140, #144. The transcript of an agent that ended before the fork lies under the old session.
#[test]
fn subagents_from_before_a_fork_come_along() {
    let desk = Desk::new();
    for name in
        ["0000000000f0.jsonl", "0000000000a0.jsonl", "0000000000a0/subagents/agent-a42b.jsonl"]
    {
        let name = format!("c0de002a-1111-4111-8111-{name}");
        let from = format!("cases/42-subagents-before-fork/{name}");
        desk.put(&from, &format!(".claude/projects/-p/{name}"));
    }
    let out = desk.here("claude:c0de002a-1111-4111-8111-0000000000f0");
    assert!(out.contains("with 1 session of subagents"), "{out}");
    let both = desk.json(&["list", "--all", "--children", "--source", "segno", "--json"]);
    let child = both["sessions"].as_array().unwrap().iter().find(|s| s["child"] == true).unwrap();
    let said = desk.context(child["id"].as_str().unwrap());
    assert!(said[0].contains("PROMPT-42"), "{said:?}");
}

/// Covers: #100. No size is too large for a subagent's session.
#[test]
fn a_subagents_session_of_14_mb_is_read_and_taken_whole() {
    let desk = Desk::new();
    let id = "eeef4ea1-738a-476d-aa72-302923605ccb";
    desk.put("foreign/claude/subagent-parent.jsonl", &format!(".claude/projects/-p/{id}.jsonl"));
    let row = |n: usize| {
        let parent = n.checked_sub(1).map(|n| format!("row-{n}"));
        let text = format!("LINE-{n} {}", "x".repeat(21_000));
        let mut row = serde_json::json!({
            "parentUuid": parent, "isSidechain": true, "agentId": "abig", "uuid": format!("row-{n}"),
            "timestamp": "2026-11-29T21:04:28.288Z", "cwd": "/srv", "sessionId": id, "version": "2.1.332",
            "type": "user", "message": {"role": "user", "content": text},
        });
        if n % 2 == 1 {
            row["type"] = "assistant".into();
            row["message"] = serde_json::json!({
                "role": "assistant", "id": format!("m{n}"), "model": "claude-x", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": text}],
            });
        }
        format!("{row}\n")
    };
    let text: String = (0..663).map(row).collect();
    assert!(text.len() > 14_000_000);
    let file = desk.user.join(format!(".claude/projects/-p/{id}/subagents/agent-abig.jsonl"));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
    assert!(desk.here(&format!("claude:{id}")).contains("with 1 session of subagents"));
    let both = desk.json(&["list", "--all", "--children", "--json"]);
    let children: Vec<&Value> =
        both["sessions"].as_array().unwrap().iter().filter(|s| s["child"] == true).collect();
    assert_eq!(children.len(), 2, "there, and here");
    for child in children {
        let word =
            format!("{}:{}", child["source"].as_str().unwrap(), child["id"].as_str().unwrap());
        let word = word.trim_start_matches("segno:").to_owned();
        assert_eq!(child["user_messages"].as_u64().unwrap(), 332, "{word}");
        assert_eq!(child["assistant_messages"].as_u64().unwrap(), 331, "{word}");
        let said = desk.context(&word);
        assert!(said.last().unwrap().contains("LINE-662"), "{word}");
    }
}

/// Covers: #128. While Claude Code writes, the last reply is not yet what it becomes.
#[test]
fn a_reply_that_was_still_being_written_is_brought_up_to_date() {
    let desk = Desk::new();
    let id = "c0de1000-1111-4111-8111-000000000001";
    let row = |uuid: &str, parent: Option<&str>, message: Value| {
        let row = serde_json::json!({
            "parentUuid": parent, "isSidechain": false, "cwd": "/srv/kiln", "sessionId": id, "version": "2.1.200",
            "type": message["role"], "uuid": uuid, "message": message, "timestamp": "2026-03-02T09:00:01.000Z",
        });
        format!("{row}\n")
    };
    let said = |text: &str| {
        serde_json::json!({
            "role": "assistant", "id": "m1", "model": "claude-x", "content": [{"type": "text", "text": text}],
        })
    };
    let user = |text: &str| serde_json::json!({"role": "user", "content": text});
    let begun = row("a", None, user("paint the shed")) + &row("b", Some("a"), said("First coat."));
    let more = begun.clone() + &row("c", Some("b"), said("Second coat."));
    let after = more.clone() + &row("d", Some("c"), user("and the door"));
    let file = desk.user.join(format!(".claude/projects/-p/{id}.jsonl"));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let word = format!("claude:{id}");
    for (text, told) in [
        (&begun, "imported"),
        (&more, "came in since"),
        (&more, "nothing is new"),
        (&after, "1 record"),
    ] {
        fs::write(&file, text).unwrap();
        let out = desk.here(&word);
        assert!(out.contains(told), "{told}: {out}");
        let own = desk.own();
        assert_eq!(own.len(), 1, "{told}: it is one session here");
        assert_eq!(desk.context(own[0]["id"].as_str().unwrap()), desk.context(&word), "{told}");
    }
    // What stands before the reply was changed: that is another session.
    fs::write(&file, after.replace("paint the shed", "burn the shed")).unwrap();
    assert!(desk.here(&word).contains("the original stays as it is"));
    assert_eq!(desk.own().len(), 2);
}
