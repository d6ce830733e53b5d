//! Codex: forks, compactions, rollbacks, and what they cost.

use super::*;

const FORK: &str = "01a2290d-7f37-7fb0-a527-3fdd6b3a1e4b";

#[test]
fn a_fork_by_reference_begins_with_its_parent() {
    let home = Home::new();
    let parent = read(&home.put(PARENT, corpus(&fixture("multi-turn-tools"))));
    let fork = home.put(FORK, corpus(&fixture("forked")));
    let view = read(&fork);
    assert_eq!(view.facts.id.as_deref(), Some(FORK));
    assert_eq!(view.facts.fork_of, Some((PARENT.to_owned(), Some("52".to_owned()))));
    assert!(findings(&view).is_empty(), "{:?}", view.findings);
    let own = ["user: SAY: I am the fork", "assistant: I am the fork"];
    assert_eq!(said(&view), own);
    assert_eq!(prompts(&view), own[..1]);
    assert_eq!(sent(&view), [sent(&parent), own.map(str::to_owned).to_vec()].concat());
    // What the parent used has the parent's keys, and counts once.
    let keys = |view: &View, copy: bool| -> Vec<String> {
        let replies = view.records.iter().filter(|record| record.copy == copy);
        replies.filter_map(|record| record.response.clone()).collect()
    };
    assert_eq!(keys(&view, true), keys(&parent, false));
    assert_eq!(keys(&view, false), ["resp_765a29a949df4f81a5b5123e"]);
    // A parent in the archive is found, too.
    let archive = home.path().join("archived_sessions");
    fs::create_dir_all(&archive).expect("a folder");
    let sessions = home.path().join("sessions/2026/11/29");
    let name = format!("rollout-2026-11-29T20-44-38-{PARENT}.jsonl");
    fs::rename(sessions.join(&name), archive.join(&name)).expect("it is moved");
    assert_eq!(sent(&read(&fork)), sent(&view));
    assert!(read(&archive.join(&name)).facts.archived);
}

#[test]
fn a_fork_whose_parent_is_gone_is_still_read() {
    let name = fixture("forked");
    let view = transcript(&name);
    assert_eq!(findings(&view), ["missing-base@1"]);
    assert_eq!(view.findings[0].severity, segno_model::finding::Severity::Damage);
    assert_eq!(sent(&view), ["user: SAY: I am the fork", "assistant: I am the fork"]);
    context(&name);
}

/// Covers: G10. Summary, then what the compaction keeps, then what follows.
#[test]
fn a_compaction_gives_the_replacement_and_what_follows() {
    let name = fixture("compacted");
    let view = transcript(&name);
    assert!(findings(&view).is_empty(), "{:?}", view.findings);
    let start = [
        "user: <session_history note=\"A summary of the earlier part of this session",
        CONTEXT[0],
        CONTEXT[1],
        "user: SAY: TOK:9000 first big",
        "user: RUN: echo after",
        "thinking: I will run a command",
        "assistant: I will run it.",
        r#"call exec_command call_8f1246f0637e4462af53d385 {"cmd": "echo after", "#,
        "result call_8f1246f0637e4462af53d385: Chunk ID: c2f7fa",
        "assistant: done: got 1 tool output(s)",
        "user: SAY: post",
        "assistant: post",
    ];
    let sent = sent(&view);
    assert_eq!(sent[1..], start[1..]);
    assert!(start[0].starts_with(&sent[0]), "{}", sent[0]);
    let whole = context(&name).concat();
    assert!(whole.contains("SUMMARY: the user asked a few fake things; all done."), "{whole}");
    assert!(!whole.contains("assistant: TOK:9000"), "{whole}");
    // The summary's own tokens are the compaction's.
    let spent = spent(&view);
    assert_eq!(spent[1], (Some("resp_819817c30b584e92a41d488c".to_owned()), 1000));
    assert_eq!(spent.len(), 5);
    assert_eq!(prompts(&view).len(), 3);
}

/// Covers: #157. The fork's own part is what it adds.
#[test]
fn tokens_of_a_fork_count_once() {
    let dir = "cases/36-fork-usage/rollout-2026-03-02T09-00-00-019c0000-0024-7000-8000-0000000000";
    let parent = transcript(&format!("{dir}24.jsonl"));
    let fork = transcript(&format!("{dir}f0.jsonl"));
    let total = |view: &View| spent(view).iter().map(|(_, tokens)| tokens).sum::<u64>();
    assert_eq!((total(&parent), total(&fork)), (1000, 500));
    let keys = |view: &View| -> Vec<String> {
        view.records.iter().filter_map(|record| record.response.clone()).collect()
    };
    assert_eq!(keys(&fork)[..2], keys(&parent));
    assert_eq!(keys(&fork).len(), 3);
    assert_eq!(said(&fork), ["user: In steel.", "assistant: Tray v3."]);
    assert_eq!(sent(&fork).len(), 6);
    assert_eq!(fork.facts.fork_of, Some(("019c0000-0024-7000-8000-000000000024".to_owned(), None)));
}

/// Rolls back within a script of turns `1`, `2` …; a letter C is a compaction.
fn rolled(steps: &[&str]) -> (View, Vec<String>) {
    let mut lines: Vec<String> = Vec::new();
    for step in steps {
        match *step {
            "C" => lines.push(
                r#"row compacted {"message":"SUM","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"changed"}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"SUM"}]}]}"#.to_owned(),
            ),
            turn if turn.starts_with("rollback") => lines.push(turn.to_owned()),
            turn => {
                lines.push(r#"event {"type":"task_started","turn_id":"t"}"#.to_owned());
                lines.push(format!("user: <environment_context>{turn}</environment_context>"));
                lines.push(format!("user: ask {turn}"));
                lines.push(format!("agent: say {turn}"));
                lines.push(r#"event {"type":"task_complete","turn_id":"t"}"#.to_owned());
            }
        }
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let view = scene(&lines);
    let sent = sent(&view).into_iter().filter(|line| !line.contains("<environment"));
    let sent = sent.map(|line| line.rsplit(": ").next().unwrap_or("").to_owned()).collect();
    (view, sent)
}

/// Covers: #60. What was taken back stays in the transcript; a compaction that came after the place to
/// which it went back does not count any more.
#[test]
fn rolled_back_turns_leave_the_context() {
    let says = |n: u32| vec![format!("ask {n}"), format!("say {n}")];
    let (view, sent) = rolled(&["1", "2", "3", "rollback 1"]);
    assert_eq!(sent, [says(1), says(2)].concat());
    assert_eq!(prompts(&view).len(), 3);
    assert!(findings(&view).is_empty(), "{:?}", view.findings);

    let (_, sent) = rolled(&["1", "2", "3", "rollback 2", "4"]);
    assert_eq!(sent, [says(1), says(4)].concat());
    let (_, sent) = rolled(&["1", "2", "rollback 1", "3", "rollback 2", "4"]);
    assert_eq!(sent, says(4));
    let (_, sent) = rolled(&["1", "rollback 9"]);
    assert!(sent.is_empty(), "{sent:?}");
    let (_, sent) = rolled(&["1", "2", "rollback 0", "3"]);
    assert_eq!(sent, [says(1), says(2), says(3)].concat());

    // Four turns, a compaction, a fifth: two back is the end of the third, in full.
    let (_, sent) = rolled(&["1", "2", "3", "4", "C", "5", "rollback 2"]);
    assert_eq!(sent, [says(1), says(2), says(3)].concat());
    // One back keeps the compaction.
    let (_, sent) = rolled(&["1", "2", "C", "5", "rollback 1", "6"]);
    assert_eq!(sent[1..], [vec!["changed".to_owned()], says(6)].concat());
}

#[test]
fn what_a_compaction_changed_stands_behind_it_in_order() {
    let item = |role: &str, text: &str| {
        let kind = if role == "assistant" { "output_text" } else { "input_text" };
        format!(
            r#"{{"type":"message","role":"{role}","content":[{{"type":"{kind}","text":"{text}"}}]}}"#
        )
    };
    let call = r#"{"type":"function_call","name":"shell","arguments":"{}","call_id":"c1"}"#;
    let output = r#"{"type":"function_call_output","call_id":"c1","output":"cut"}"#;
    let replacement = [
        item("user", "again"),
        item("user", "again"),
        item("user", "new"),
        item("user", "one"),
        call.to_owned(),
        output.to_owned(),
        r#"{"type":"compaction","encrypted_content":"xyz"}"#.to_owned(),
    ];
    let compacted = format!(
        r#"row compacted {{"message":"","replacement_history":[{}]}}"#,
        replacement.join(",")
    );
    let view = scene(&[
        "user: again",
        "agent: yes",
        "user: again",
        "user: one",
        "call c1",
        "result c1: whole",
        &compacted,
        "user: after",
    ]);
    let expected = [
        "user: again",
        "user: again",
        "user: new",
        "user: one",
        "call shell c1 {}",
        "result c1: cut",
        "user: after",
    ];
    let lines = sent(&view);
    assert!(lines[0].starts_with("user: <session_history"), "{}", lines[0]);
    assert_eq!(lines[1..], expected);
    assert_eq!(prompts(&view).len(), 4);
    assert!(findings(&view).is_empty(), "{:?}", view.findings);
    let native = view.records.iter().find_map(|record| match record.record.body() {
        Body::Compaction(compaction) => compaction.native.clone(),
        _ => None,
    });
    assert_eq!(
        native.expect("the provider's state").items.get(),
        r#"[{"type":"compaction","encrypted_content":"xyz"}]"#
    );
    assert_eq!(kept(&view), ["codex.session_meta", "codex.compacted"]);

    // A call that is kept keeps its result.
    let kept_pair = format!(
        r#"row compacted {{"message":"SUM","replacement_history":[{},{call},{}]}}"#,
        item("user", "one"),
        output.replace("cut", "whole")
    );
    let view =
        scene(&["user: zero", "user: one", "call c1", "result c1: whole", "agent: x", &kept_pair]);
    assert_eq!(sent(&view)[1..], ["user: one", "call shell c1 {}", "result c1: whole"]);
    assert!(view.records.iter().all(|record| !record.copy));

    // Before there were replacements, prompts and the summary stayed.
    let view =
        scene(&["user: one", "agent: two", r#"row compacted {"message":"SUM"}"#, "user: three"]);
    let expected = ["user: one".to_owned(), "user: three".to_owned()];
    assert_eq!(shortened(context_lines(&view.context()).into_iter().skip(1)), expected);
}

/// A fork that holds copies of its original's records under new times.
fn copying_fork(id: &str, of: &str, original: &str, own: &[&str]) -> String {
    let header = format!(
        r#"{{"timestamp":"2026-03-03T09:00:00.000Z","type":"session_meta","payload":{{"id":"{id}","timestamp":"2026-03-03T09:00:00.000Z","forked_from_id":"{of}"}}}}"#
    );
    let copies = original.lines().map(|line| line.replace("2026-03-02T", "2026-03-03T"));
    let own = script(id, own);
    let own = own.lines().skip(1).map(|line| line.replace("2026-03-02T", "2026-03-04T"));
    [header].into_iter().chain(copies).chain(own).collect::<Vec<_>>().join("\n")
}

/// Covers: #157.
#[test]
fn copied_records_are_told_from_a_forks_own() {
    let count = |total: u32| {
        format!(
            r#"event {{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{total},"total_tokens":{total}}}}}}}"#
        )
    };
    let home = Home::new();
    let original = script(
        ID,
        &["user: one", "agent: two", &count(100), "user: three", "agent: four", &count(250)],
    );
    let forked = "019c0000-00cc-7000-8000-0000000000cc";
    let fork = copying_fork(forked, ID, &original, &["user: five", "agent: six", &count(300)]);
    home.put(ID, &original);
    let view = read(&home.put(forked, &fork));
    assert_eq!(said(&view), ["user: five", "assistant: six"]);
    assert_eq!(sent(&view).len(), 6);
    assert_eq!(spent(&view), [(Some(format!("{forked}:300")), 50)]);
    assert_eq!(view.facts.id.as_deref(), Some(forked));

    // Of totals that come from elsewhere only what is said singly counts.
    let alone = Home::new();
    let inherited = r#"{"type":"token_count","info":{"total_token_usage":{"input_tokens":900,"total_tokens":900},"last_token_usage":{"input_tokens":30,"total_tokens":30}}}"#;
    let own =
        copying_fork(forked, ID, "", &["user: five", "agent: six", &format!("event {inherited}")]);
    assert_eq!(spent(&read(&alone.put(forked, own))), [(Some(format!("{forked}:900")), 30)]);

    // Without the original nobody can tell, and nothing is lost.
    let alone = Home::new();
    let view = read(&alone.put(forked, &fork));
    assert_eq!(said(&view).len(), 6);
    assert_eq!(spent(&view).iter().map(|(_, tokens)| tokens).sum::<u64>(), 300);
}

#[test]
fn forks_of_forks_are_followed_and_loops_end() {
    let row = |ordinal: u32, rest: &str| {
        format!(r#"{{"timestamp":"2026-03-02T09:00:00.000Z","ordinal":{ordinal},{rest}}}"#)
    };
    let header = |ordinal: u32, id: &str, base: &str| {
        let payload = format!(r#""type":"session_meta","payload":{{"id":"{id}"{base}}}"#);
        row(ordinal, &payload)
    };
    let base = |id: &str, end: u32| {
        format!(r#","history_base":{{"thread_id":"{id}","end_ordinal_exclusive":{end}}}"#)
    };
    let says = |ordinal: u32, text: &str| {
        row(ordinal, &format!(r#""type":"response_item","payload":{}"#, user(text)))
    };
    let ids: Vec<String> =
        (1..=4).map(|n| format!("019c0000-000{n}-7000-8000-00000000000{n}")).collect();
    let home = Home::new();
    let first = [header(0, &ids[0], ""), says(1, "a"), says(2, "b"), says(3, "c")];
    home.put(&ids[0], first.join("\n"));
    let second = [header(3, &ids[1], &base(&ids[0], 3)), says(4, "d"), says(5, "e")];
    home.put(&ids[1], second.join("\n"));
    let third = [header(5, &ids[2], &base(&ids[1], 5)), says(6, "f")];
    let third = home.put(&ids[2], third.join("\n"));
    let view = read(&third);
    assert_eq!(sent(&view), ["user: a", "user: b", "user: d", "user: f"]);
    assert!(findings(&view).is_empty(), "{:?}", view.findings);

    // A fork may end its base before that one's own records begin.
    let early = [header(2, &ids[3], &base(&ids[1], 2)), says(3, "g")];
    let view = read(&home.put(&ids[3], early.join("\n")));
    assert_eq!(sent(&view), ["user: a", "user: g"]);

    // Damage in the original is told once, without its lines.
    let torn = [header(0, &ids[0], ""), says(1, "a"), "{\"torn".to_owned(), says(3, "c")];
    home.put(&ids[0], torn.join("\n"));
    let view = read(&third);
    assert_eq!(findings(&view), ["damaged-base"]);
    assert_eq!(sent(&view), ["user: a", "user: d", "user: f"]);

    // An original that ends before the fork lacks what the fork continues, whatever reads of it.
    let short = [header(0, &ids[0], ""), says(1, "a")];
    home.put(&ids[0], short.join("\n"));
    let view = read(&third);
    assert_eq!(findings(&view), ["damaged-base"]);
    assert_eq!(view.findings[0].severity, segno_model::finding::Severity::Damage);
    assert_eq!(sent(&view), ["user: a", "user: d", "user: f"]);

    // One that refers to itself.
    let ring = [header(1, &ids[0], &base(&ids[1], 9)), says(9, "a")];
    home.put(&ids[0], ring.join("\n"));
    let view = read(&third);
    assert_eq!(findings(&view)[0], "missing-base@1");
    assert!(sent(&view).contains(&"user: f".to_owned()));
}
