//! Problems that users of agents reported, on inputs like theirs, for parts of the product that no other module looks
//! at with such an input.

use super::interactive;
use super::machine::{CLAUDE, CODEX, Machine, PI, field};
use serde_json::{Value, json};
use std::fs;

/// The files of an agent's session with this line behind.
fn with_line(machine: &Machine, path: &str, text: &str, line: &[u8]) {
    let mut bytes = text.as_bytes().to_vec();
    bytes.extend_from_slice(line);
    fs::write(machine.put(path, ""), bytes).unwrap();
}

/// Covers: #6. A log of many lines whose last one is a single NUL byte is opened, told of, and mended; each agent's.
#[test]
fn a_last_line_of_one_nul_costs_nothing() {
    const LINES: usize = 2000;
    let at = "2026-03-02T09:00:00.000Z";
    let id = "019c6666-0001-7000-8000-000000000001";
    let many = |head: String, each: &dyn Fn(usize) -> String| -> String {
        std::iter::once(head).chain((1..LINES).map(each)).map(|line| line + "\n").collect()
    };
    let claude = |n: usize| {
        let parent = if n == 0 { Value::Null } else { json!(format!("u{}", n - 1)) };
        json!({"parentUuid": parent, "isSidechain": false, "type": "user", "uuid": format!("u{n}"), "sessionId": id,
            "version": "2.1.332", "cwd": "/srv/x", "timestamp": at,
            "message": {"role": "user", "content": format!("SAID-{n}")}})
        .to_string()
    };
    let codex = |n: usize| {
        json!({"timestamp": at, "type": "response_item", "payload": {"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": format!("SAID-{n}")}]}})
        .to_string()
    };
    let pi = |n: usize| {
        let parent = if n == 1 { Value::Null } else { json!(format!("{:08x}", n - 1)) };
        json!({"type": "message", "id": format!("{n:08x}"), "parentId": parent, "timestamp": at,
            "message": {"role": "user", "content": format!("SAID-{n}")}})
        .to_string()
    };
    let gemini = |n: usize| {
        json!({"id": format!("m{n}"), "timestamp": at, "type": "user", "content": [{"text": format!("SAID-{n}")}]})
            .to_string()
    };
    let meta = json!({"timestamp": at, "type": "session_meta", "payload": {"id": id, "timestamp": at, "cwd": "/srv/x", "cli_version": "0.171.0"}});
    let header =
        json!({"type": "session", "version": 3, "id": id, "timestamp": at, "cwd": "/srv/x"});
    let begin = json!({"sessionId": id, "projectHash": "ab", "startTime": at, "lastUpdated": at, "kind": "main"});
    let files = [
        ("claude", format!("{CLAUDE}/{id}.jsonl"), many(claude(0), &claude)),
        (
            "codex",
            format!("{CODEX}/rollout-2026-03-02T09-00-00-{id}.jsonl"),
            many(meta.to_string(), &codex),
        ),
        ("pi", format!("{PI}/2026-03-02T09-00-00-000Z_{id}.jsonl"), many(header.to_string(), &pi)),
        (
            "gemini",
            ".gemini/tmp/p/chats/session-2026-03-02T09-00-019c6666.jsonl".to_owned(),
            many(begin.to_string(), &gemini),
        ),
    ];
    for (agent, path, text) in files {
        let machine = Machine::new();
        with_line(&machine, &path, &text, b"\0\n");
        let session = format!("{agent}:{id}");
        let last = format!("SAID-{}", LINES - 1);
        assert!(machine.out(&["show", &session]).contains(&last), "{agent}");
        assert_eq!(machine.list(&["--all"])[0]["id"], id, "{agent}");
        let report = machine.run(&["check", &session, "--json"]).json();
        let found: Vec<String> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| format!("{} {}", f["code"].as_str().unwrap(), f["line"]))
            .collect();
        assert_eq!(found, [format!("nul-run {}", LINES + 1)], "{agent}: {report}");
        machine.out(&["repair", &session, "-o", "mended.jsonl", "--yes"]);
        assert_eq!(
            fs::read_to_string(machine.place.file("mended.jsonl")).unwrap(),
            text,
            "{agent}"
        );
    }
}

/// Covers: #16, #17, #19. Whatever an agent or Segno keeps beside sessions: two bytes of zeros, or thousands, in its
/// place hide no session, and are not written over.
#[test]
fn zeros_in_side_files_hide_nothing() {
    let side = [
        ".claude/sessions/1.json",
        ".claude/history.jsonl",
        ".claude.json",
        ".codex/session_index.jsonl",
        ".codex/state_5.sqlite",
        ".gemini/projects.json",
        ".gemini/tmp/x/.project_root",
        ".pi/agent/settings.json",
    ];
    for zeros in [vec![0; 2], vec![0; 144_000]] {
        let machine = Machine::with(CLAUDE, &["13-parallel-tool-branches"]);
        machine.add(CODEX, "15-orphan-call-tail");
        machine.add(PI, "07-unicode-separators");
        machine.out(&["keep", "--all"]);
        for path in side {
            fs::write(machine.put(path, ""), &zeros).unwrap();
        }
        let index = machine.place.home().join("kept/index.jsonl");
        for own in [machine.place.home().join("catalog.sqlite"), index] {
            fs::write(own, &zeros).unwrap();
        }
        let mut agents = field(&machine.list(&["--all"]), "source");
        agents.sort();
        assert_eq!(agents, ["claude", "codex", "pi"]);
        assert!(machine.out(&["show", "claude:c0de000d"]).contains("END-13"));
        assert_eq!(machine.run(&["check", "--all"]).code, 0);
        machine.out(&["keep", "--all"]);
        for path in side {
            assert_eq!(fs::read(machine.user.join(path)).unwrap(), zeros, "{path}");
        }
        let aside = machine.place.home().join("catalog.sqlite.damaged-0");
        assert_eq!(fs::read(aside).unwrap(), zeros, "what was there is kept");
    }
}

/// Covers: #52. A summary is a mark in the transcript, no title and no prompt, and nothing before it is lost from view.
#[test]
fn a_summary_is_no_prompt() {
    for (state, prompts) in [("right-after", 2), ("later", 3)] {
        let machine = Machine::with(CLAUDE, &[&format!("24-compaction-resume/{state}")]);
        let listed = machine.list(&["--all"]);
        assert_eq!(listed[0]["user_messages"], prompts, "{state}");
        assert!(listed[0]["first_prompt"].as_str().unwrap().starts_with("TITLE-24"), "{listed:?}");
        let text = machine.out(&["list", "--all"]);
        assert!(text.contains("TITLE-24") && !text.contains("SUMMARY-24"), "{text}");
        let shown = machine.out(&["show", "claude:c0de0018"]);
        let places: Vec<Option<usize>> = ["TITLE-24", "PRE-24 let", "compaction: ", "SUMMARY-24"]
            .iter()
            .map(|t| shown.find(t))
            .collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {shown}");
        let markdown = machine.out(&["export", "claude:c0de0018", "--format", "markdown"]);
        assert!(
            markdown.contains("PRE-24 let") && markdown.contains("## Summary of what came before")
        );
    }
}

/// Covers: #59. What is on the screen after a resume is what the model has: not the turns that a summary stands for.
#[test]
fn a_resumed_fork_shows_what_the_model_has() {
    let desk = interactive::Desk::new();
    let mut segno = desk.play(&[]);
    for n in 0..6 {
        segno.enter(&format!("say {n} {}", "words ".repeat(10)));
        segno.wait_for(&format!("You said: say {n}"));
    }
    segno.enter("/compact the words");
    segno.wait_for("Compacted: about");
    segno.ready();
    segno.send("\x04");
    segno.exit_code();
    let forked = interactive::id_of(&desk.logs()[0]);
    let mut back = desk.play_exactly(&["resume", &forked], &desk.project(), 100, 40);
    back.wait_for("compaction: ");
    back.ready();
    let screen = back.screen();
    assert!(!screen.contains("You said: say 0"), "{screen}");
    back.enter("and on");
    back.wait_for("You said: and on");
    back.ready();
    back.send("\x04");
    back.exit_code();
    let mut again = desk.play_exactly(&["resume", &forked], &desk.project(), 100, 40);
    again.wait_for("You said: and on");
    again.ready();
    let screen = again.screen();
    assert!(!screen.contains("compaction: ") && !screen.contains("You said: say 5"), "{screen}");
}

/// Covers: #68, #138. A session whose file is gone is told of once, with where it was, and resuming it says so.
#[test]
fn a_session_that_is_gone_is_told_once() {
    let machine = Machine::with(CLAUDE, &["13-parallel-tool-branches"]);
    machine.add(PI, "07-unicode-separators");
    assert_eq!(machine.list(&["--all"]).len(), 2);
    let path = machine.user.join(CLAUDE).join("c0de000d-1111-4111-8111-00000000000d.jsonl");
    let moved =
        machine.user.join(".claude/projects/-elsewhere/c0de000d-1111-4111-8111-00000000000d.jsonl");
    // Moved by its agent, it is not gone.
    fs::create_dir_all(moved.parent().unwrap()).unwrap();
    fs::rename(&path, &moved).unwrap();
    let text = machine.out(&["list", "--all"]);
    assert!(!text.contains("not there any more"), "{text}");
    fs::remove_file(&moved).unwrap();
    for args in [
        &["resume", "claude:c0de000d", "--print"][..],
        &["show", "c0de000d"],
        &["check", "c0de000d"],
    ] {
        let said = machine.run(args);
        assert_eq!(said.code, 6, "{said:?}");
        assert!(
            said.err.contains("is not there any more") && said.err.contains("-elsewhere"),
            "{said:?}"
        );
    }
    let text = machine.out(&["list"]);
    let told = "note: claude:c0de000d-1111-4111-8111-00000000000d (Write the three zone files.) is not there any more: ";
    assert!(text.contains(told) && text.contains("segno keep --all"), "{text}");
    let text = machine.out(&["list", "--all"]);
    assert!(!text.contains("not there any more") && text.contains("Read notes.txt"), "{text}");
    let said = machine.run(&["resume", "claude:c0de000d", "--print"]);
    assert!(said.code == 6 && said.err.contains("There is no session"), "{said:?}");
    fs::remove_dir_all(machine.user.join(PI)).unwrap();
    let listed = machine.run(&["list", "--all", "--json"]).json();
    assert_eq!(field(listed["gone"].as_array().unwrap(), "source"), ["pi"], "{listed}");
}

/// Covers: G14. What was kept of a session whose file is gone is never repaired itself: it is what is put back.
#[test]
fn a_kept_copy_is_put_back_before_it_is_repaired() {
    let machine = Machine::with(CLAUDE, &["01-torn-middle-lines"]);
    machine.out(&["keep", "--all"]);
    let path = machine.user.join(CLAUDE).join("c0de0001-1111-4111-8111-000000000001.jsonl");
    let before = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let copies = machine.untouched("home/kept/tree");
    assert_eq!(copies.len(), 1);
    let copy = copies[0].0.to_str().unwrap();
    let told = machine.run(&["repair", "claude:c0de0001"]);
    assert!(told.code == 5 && told.out.contains("next: segno keep --restore"), "{told:?}");
    assert!(!told.out.contains("--in-place") && !told.out.contains("--install"), "{told:?}");
    for named in ["claude:c0de0001", copy] {
        for words in ["--in-place", "--install"] {
            let said = machine.run(&["repair", named, words, "--yes"]);
            assert_eq!(said.code, 1, "{named} {words}: {said:?}");
            assert!(said.err.contains("segno keep --restore"), "{named} {words}: {said:?}");
        }
    }
    machine.out(&["repair", "claude:c0de0001", "-o", "new.jsonl", "--yes"]);
    assert_eq!(machine.untouched("home/kept/tree"), copies);
    machine.out(&["keep", "--restore", "claude:c0de0001"]);
    assert_eq!(fs::read(&path).unwrap(), before);
    machine.out(&["repair", "claude:c0de0001", "--install", "--yes"]);
}

/// Covers: #75. Two sessions that look alike: the list and `last` go by one rule, the last message, and ids tell them apart.
#[test]
fn what_the_list_shows_first_is_the_last_one() {
    let machine = Machine::new();
    let dir = machine.place.file("").canonicalize().unwrap();
    let put = |id: &str, day: u32| {
        let row = json!({"parentUuid": null, "isSidechain": false, "type": "user", "uuid": format!("u-{id}"), "sessionId": id,
            "version": "2.1.332", "cwd": dir, "timestamp": format!("2026-03-0{day}T09:00:00.000Z"),
            "message": {"role": "user", "content": "Watch the kiln."}});
        machine.put(&format!("{CLAUDE}/{id}.jsonl"), &format!("{row}\n"));
    };
    let (ordinary, background) =
        ("c0de7500-1111-4111-8111-000000000001", "c0de7500-1111-4111-8111-000000000002");
    for (first, second) in [(3, 4), (6, 5)] {
        put(ordinary, first);
        put(background, second);
        let newest = if first > second { ordinary } else { background };
        assert_eq!(machine.list(&[])[0]["id"], newest);
        assert_eq!(machine.run(&["show", "claude:last", "--json"]).json()["id"], newest);
        assert!(machine.out(&["resume", "claude:last", "--print"]).contains(newest));
        let text = machine.out(&["list"]);
        assert!(text.contains("0001 ") && text.contains("0002 "), "{text}");
    }
}

/// Covers: #144. An agent that a second call goes on with keeps its id, and is there once, behind both.
#[test]
fn an_agent_that_is_resumed_by_another_call_is_one() {
    let machine = Machine::with(CLAUDE, &["42-subagents-before-fork"]);
    let old = "c0de002a-1111-4111-8111-0000000000a0";
    let path = machine.user.join(CLAUDE).join(format!("{old}.jsonl"));
    let text = fs::read_to_string(&path).unwrap();
    let again: String = text
        .lines()
        .skip(1)
        .map(|line| {
            let line = line
                .replace("toolu_42", "toolu_43")
                .replace("PROMPT-42 map every flue in plan 7", "PROMPT-43 and the dampers");
            let line =
                line.replace("msg_case42_0", "msg_case43_0").replace("nine flues", "two dampers");
            // Behind what is there: 1 is 4, 2 is 12, and so on.
            let line = line.replace("2222-000000000001", "2222-000000000004");
            let line = line.replace(
                "\"uuid\":\"beef002a-2222-4222-8222-0000000000",
                "\"uuid\":\"beef002a-2222-4222-8222-0000000001",
            );
            line.replace(
                "\"parentUuid\":\"beef002a-2222-4222-8222-000000000002",
                "\"parentUuid\":\"beef002a-2222-4222-8222-000000000102",
            )
            .replace(
                "\"parentUuid\":\"beef002a-2222-4222-8222-000000000003",
                "\"parentUuid\":\"beef002a-2222-4222-8222-000000000103",
            ) + "\n"
        })
        .collect();
    fs::write(&path, text + &again).unwrap();
    let all = machine.list(&["--all", "--children"]);
    let children: Vec<&Value> = all.iter().filter(|session| session["child"] == true).collect();
    assert_eq!(
        (children.len(), &children[0]["id"], &children[0]["parent"]),
        (1, &json!("a42b"), &json!(old))
    );
    let shown = machine.out(&["show", &format!("claude:{old}")]);
    assert!(shown.contains("PROMPT-42") && shown.contains("PROMPT-43"), "{shown}");
    assert_eq!(shown.matches("agentId: a42b").count(), 2, "{shown}");
    let json = machine.run(&["show", &format!("claude:{old}"), "--json"]).json();
    assert_eq!(field(json["subagents"].as_array().unwrap(), "id"), ["a42b"]);
    assert!(machine.out(&["show", "claude:a42b"]).contains("PROMPT-42"));
}

/// What is done to Segno's own sessions only says so of another agent's, and not that there is no such session.
/// Covers: #81. A moved project's session is led to a copy for where the project is now.
#[test]
fn another_agents_session_is_never_said_not_to_be_there() {
    let machine = Machine::with(CLAUDE, &["13-parallel-tool-branches"]);
    let before = machine.untouched(".claude");
    for session in ["claude:c0de000d", "c0de000d"] {
        for args in [
            &["name", session, "x"][..],
            &["fork", session],
            &["rewind", session, "1"],
            &["delete", session],
            &["send", session, "x"],
            &["inbox", session],
            &["stop", session],
            &["attach", session],
            &["children", session],
            &["erase", session, "1"],
            &["context", session, "list"],
            &["relocate", session],
        ] {
            let said = machine.run(args);
            assert_eq!(said.code, 2, "{args:?}: {said:?}");
            assert!(said.err.contains("is a session of Claude Code"), "{args:?}: {said:?}");
            assert!(said.err.contains("segno resume claude:"), "{args:?}: {said:?}");
        }
    }
    assert_eq!(machine.untouched(".claude"), before);
    let said = machine.run(&["name", "nobody", "x"]);
    assert!(said.code == 6 && said.err.contains("There is no session"), "{said:?}");
    // The way that relocating names: its directory is gone, and the copy is one of this directory.
    let said = machine.run(&["relocate", "claude:c0de000d"]).err;
    let copy = said.split(": ").find_map(|part| part.strip_prefix("segno export ")).unwrap();
    let words: Vec<&str> = copy.split(" (").next().unwrap().split(' ').collect();
    let made = machine.out(&[&["export"], &words[..], &["--yes"]].concat());
    let here = machine.place.file("").canonicalize().unwrap();
    assert!(made.starts_with(&format!("cd {} && claude --resume ", here.display())), "{made}");
    assert_eq!(machine.list(&["--source", "claude"]).len(), 1);
}

/// Covers: #133. Of a file in which nothing is recognised it is not said that its agent opens it.
#[test]
fn a_file_without_a_turn_is_no_sound_session() {
    let machine = Machine::new();
    let id = "019c0000-0099-7000-8000-000000000099";
    let at = "2026-03-02T09:00:00.000Z";
    let head = json!({"timestamp": at, "type": "session_meta", "payload": {"id": id, "timestamp": at, "cwd": "/srv/x", "cli_version": "9"}});
    let new = json!({"timestamp": at, "type": "brand_new", "payload": {"said": "hello"}});
    machine.put(
        &format!("{CODEX}/rollout-2026-03-02T09-00-00-{id}.jsonl"),
        &format!("{head}\n{new}\n{new}\n"),
    );
    let session = format!("codex:{id}");
    for args in [
        &["show", &session][..],
        &["show", &session, "--context"],
        &["check", &session],
        &["repair", &session],
        &["export", &session, "--format", "pi"],
    ] {
        let said = machine.run(args);
        assert_eq!(said.code, 2, "{args:?}: {said:?}");
        assert!(said.err.contains("no turn that is recognised"), "{args:?}: {said:?}");
    }
    assert_eq!(machine.list(&["--all"])[0]["state"], "unreadable");
}

/// Covers: #35. A session that begins with the refusal of a call which was never written: it is a note to the reader and nothing to a
/// provider, in every view, after a repair and in every other agent.
#[test]
fn a_refusal_without_its_call_is_a_note() {
    let machine = Machine::new();
    let id = "c0de3500-1111-4111-8111-000000000001";
    let row = |uuid: &str, parent: Value, content: Value| {
        json!({"parentUuid": parent, "isSidechain": false, "type": "user", "uuid": uuid, "sessionId": id, "version": "2.1.332",
            "cwd": "/srv/x", "timestamp": "2026-03-02T09:00:00.000Z", "message": {"role": "user", "content": content}})
    };
    let refusal = json!([{"type": "tool_result", "tool_use_id": "toolu_35", "is_error": true, "content": "This command requires approval"}]);
    let rows = [row("r1", Value::Null, refusal), row("u1", json!("r1"), json!("ASK-35 go on"))];
    machine.put(&format!("{CLAUDE}/{id}.jsonl"), &rows.map(|row| format!("{row}\n")).concat());
    let session = format!("claude:{id}");
    let shown = machine.out(&["show", &session]);
    assert!(
        shown.contains("requires approval") && shown.contains("not sent to the model"),
        "{shown}"
    );
    assert_eq!(machine.list(&["--all"])[0]["first_prompt"], "ASK-35 go on");
    machine.out(&["repair", &session, "-o", "mended.jsonl", "--yes"]);
    let mended = machine.place.file("mended.jsonl");
    assert!(fs::read_to_string(&mended).unwrap().contains("requires approval"), "it is kept");
    let mut copies = vec![session.clone(), mended.to_str().unwrap().to_owned()];
    for agent in ["claude", "codex", "pi", "gemini", "opencode"] {
        let out = format!("{agent}.out");
        let made =
            machine.run(&["export", &session, "--format", agent, "--json", "-o", &out]).json();
        let told = made["losses"].to_string();
        assert!(told.contains("loose-results"), "{agent}: {told}");
        copies.push(made["files"][0].as_str().unwrap().to_owned());
    }
    for copy in copies {
        let sent = machine.out(&["show", &copy, "--context", "--json"]);
        assert!(sent.contains("ASK-35") && !sent.contains("requires approval"), "{copy}: {sent}");
    }
}
