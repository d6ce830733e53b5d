//! `segno show` in all its views.

use super::desk::{Desk, START, id, lines};
use segno_model::Body;
use segno_model::record::{
    AssistantBlock, AssistantMessage, BlobRef, Block, Environment, Label, Message, ModelChange,
    ModelRef, Run, RunEnd, RunState, StopReason, Text, Tip, ToolFact, UserMessage,
};
use segno_testkit::sessions::{
    self, Shape, action, answer, call, every_kind, model, prompt, reply, result, summary,
};

const DIFF: &str = "Edited a.rs.\n--- a.rs\n+++ a.rs\n@@ -1,2 +1,2 @@\n-old\n+new\n same\n";

fn message(message: Message) -> Body {
    Body::Message(Box::new(message))
}

fn thinking(text: &str) -> Body {
    let content = vec![
        AssistantBlock::Thinking {
            text: text.into(),
            signature: Some("sig".into()),
            redacted: false,
        },
        AssistantBlock::Text { text: "**Found** it in `a.rs`.".into() },
        AssistantBlock::ToolCall(call("a")),
        AssistantBlock::ToolCall(call("b")),
    ];
    let stop = StopReason::ToolUse;
    message(Message::Assistant(AssistantMessage {
        content,
        model: model(),
        stop,
        ..Default::default()
    }))
}

fn stopped() -> Body {
    Body::Run(Run { run: 1, state: RunState::Ended { end: RunEnd::Stopped, reason: None } })
}

/// A session with something of everything that a transcript shows.
fn rich(desk: &Desk) {
    let long: String = (1..=40).map(|i| format!("line {i}\n")).collect();
    desk.session(
        1,
        vec![
            message(Message::User(UserMessage::notice("instructions", "Use tabs."))),
            prompt("fix the parser\nplease"),
            thinking("Where is it?"),
            action("a", 3),
            result("a", 3, DIFF),
            result("b", 3, &long),
            stopped(),
            prompt("go on"),
        ],
    );
    let kept = desk.append(&id(1), START + 99_000, vec![answer("gone on")])[0].pos();
    desk.append(
        &id(1),
        START + 100_000,
        vec![summary("The parser was fixed.", Some(kept), vec![]), prompt("and now?")],
    );
}

/// Covers: G17.
#[test]
fn a_transcript_reads_well() {
    let desk = Desk::new();
    rich(&desk);
    insta::assert_snapshot!(desk.run(&["show"]).all());
    let coloured = super::desk::ran({
        let mut command = desk.command(&["show", "last"]);
        command.env("CLICOLOR_FORCE", "1");
        command
    });
    assert!(coloured.out.contains("\x1b[32m+new\x1b[0m"), "{:?}", coloured.out);
}

#[test]
fn the_context_is_shown_with_its_reasons() {
    let desk = Desk::new();
    rich(&desk);
    insta::assert_snapshot!(desk.run(&["show", "--context"]).all());
    let json = desk.run(&["show", "--context", "--json"]).json();
    assert_eq!(json["version"], 1);
    assert_eq!(json["messages"][0]["role"], "user");
    let rules: Vec<&str> =
        json["trace"].as_array().unwrap().iter().map(|r| r["rule"].as_str().unwrap()).collect();
    assert!(rules.contains(&"summary") && rules.contains(&"on-path"), "{rules:?}");
}

/// Covers: G6. The tools and the images are parts of their own; images count by their size, as this model counts them.
#[test]
fn tools_and_images_are_in_the_ledger() {
    let desk = Desk::new();
    let tool = |name: &str, bytes| ToolFact { name: name.into(), sha256: "ab".repeat(32), bytes };
    let environment = Environment {
        cwd: "/p".into(),
        tools: vec![tool("read", 900), tool("bash", 1_500)],
        system: Some(BlobRef { blob: "cd".repeat(32), bytes: 800, head: String::new() }),
        ..Environment::default()
    };
    let image = |head: &str| Block::Image {
        media_type: "image/png".into(),
        data: Text::Blob(BlobRef { blob: "ef".repeat(32), bytes: 90_000, head: head.into() }),
    };
    let content = vec![Block::text("which is larger?"), image("1000x600"), image("")];
    let change = |id: &str| {
        let model = ModelRef::new("some", id);
        Body::Model(ModelChange { model, chosen: true, base_url: None })
    };
    let asked = message(Message::User(UserMessage { content, ..UserMessage::default() }));
    let environment = Body::Environment(Box::new(environment));
    desk.session(1, vec![change("claude-sonnet-4-5"), environment, asked]);
    insta::assert_snapshot!(desk.run(&["show", "--context"]).all());
    let parts = || desk.run(&["show", "--context", "--json"]).json()["ledger"]["parts"].clone();
    let (tools, images) = (parts()["tools"].clone(), parts()["images"].clone());
    assert_eq!((tools, images), (600.into(), (800 + 1_200).into()));
    desk.append(&id(1), START + 9_000, vec![change("gpt-4o")]);
    assert_eq!(parts()["images"], 85 + 4 * 170 + 1_200);
}

fn branched(desk: &Desk) {
    desk.session(1, vec![prompt("root"), answer("one")]);
    let records = desk.append(&id(1), START, vec![prompt("first way"), answer("dead end")]);
    let root = records[0].envelope.parent.unwrap();
    let history = desk.bytes(&id(1));
    let offset: usize =
        lines(&history)[1..usize::try_from(root).unwrap()].iter().map(Vec::len).sum();
    let line = &lines(&history)[usize::try_from(root).unwrap()];
    let record = segno_model::line::decode(line.trim_ascii_end(), offset as u64).unwrap();
    let label = Label { target: records[1].pos(), label: "dead".into() };
    let tip = Body::Tip(Tip { tip: Some(record.pos()) });
    desk.append(&id(1), START, vec![Body::Label(label), tip, prompt("second way"), answer("here")]);
}

/// Covers: MG12.
#[test]
fn a_tree_is_flat_and_marks_where_one_is() {
    let desk = Desk::new();
    branched(&desk);
    insta::assert_snapshot!(desk.run(&["show", "--tree"]).all());
    let json = desk.run(&["show", "--tree", "--json"]).json();
    assert_eq!(json["nodes"].as_array().unwrap().len(), 6);
    assert_eq!(json["nodes"][3]["label"], "dead");
    let transcript = desk.run(&["show"]).out;
    assert!(transcript.contains("second way") && !transcript.contains("first way"), "{transcript}");
}

/// Covers: TT1.
#[test]
fn a_branch_of_two_thousand_ways_and_a_long_chain_are_drawn() {
    let desk = Desk::new();
    desk.session(1, vec![prompt("root")]);
    let root = desk.append(&id(1), START, vec![prompt("fan")])[0].pos();
    let fan =
        (0..2000).flat_map(|i| [Body::Tip(Tip { tip: Some(root) }), prompt(&format!("way {i}"))]);
    desk.append(&id(1), START, fan.collect());
    let tree = desk.run(&["show", id(1).as_str(), "--tree"]);
    assert_eq!((tree.code, tree.out.lines().count()), (0, 3 + 2002));
    let shape = Shape { turns: 2000, tools: 0, ..Shape::default() };
    desk.session(2, vec![prompt("x")]);
    desk.tamper(&id(2), |_| sessions::log_bytes(&id(2), shape));
    let tree = desk.run(&["show", id(2).as_str(), "--tree"]);
    assert_eq!((tree.code, tree.out.lines().count()), (0, 3 + 4000));
    assert!(tree.out.lines().all(|line| line.chars().count() <= 80));
}

/// Covers: G3.
#[test]
fn raw_is_the_exact_line() {
    let desk = Desk::new();
    rich(&desk);
    for (seq, line) in lines(&desk.bytes(&id(1))).iter().enumerate() {
        let ran = desk.run(&["show", "last", "--raw", &seq.to_string()]);
        assert_eq!((ran.code, ran.out.as_bytes()), (0, line.as_slice()));
    }
    let ran = desk.run(&["show", "last", "--raw", "999"]);
    assert_eq!(ran.code, 6);
    assert!(ran.err.starts_with("error: There is no record 999."), "{}", ran.err);
    let json = desk.run(&["show", "last", "--raw", "2", "--json"]).json();
    let line = json["line"].as_str().unwrap();
    assert_eq!(line.as_bytes(), lines(&desk.bytes(&id(1)))[2].trim_ascii_end());
}

/// Covers: G3. What stands around a record, and a number that no record has.
#[test]
fn a_record_is_shown_with_what_stands_around_it() {
    let desk = Desk::new();
    rich(&desk);
    let last = lines(&desk.bytes(&id(1))).len() - 1;
    for (at, code) in [(1, 0), (last, 0), (last + 1, 6), (99_999, 6)] {
        for json in [&["--json"][..], &[]] {
            let at = at.to_string();
            let ran = desk.run(&[&["show", "last", "--at", &at], json].concat());
            assert_eq!(ran.code, code, "{at} {json:?}: {ran:?}");
            assert_eq!(ran.err.contains("There is no record"), code == 6, "{ran:?}");
        }
    }
}

/// Covers: G3, G5, G13, TT6. A damaged, a held and a half-written session can all be looked at.
#[test]
fn what_cannot_be_written_can_still_be_shown() {
    let desk = Desk::new();
    rich(&desk);
    let _held = desk.hold(&id(1));
    assert!(desk.run(&["show"]).out.contains("fix the parser"));
    desk.tamper(&id(1), |bytes| {
        let mut lines = lines(&bytes);
        lines[2] =
            String::from_utf8(lines[2].clone()).unwrap().replace("parser", "PARSER").into_bytes();
        lines.concat()
    });
    let ran = desk.run(&["show"]);
    assert!(ran.code == 0 && ran.out.contains("1 place is damaged"), "{}", ran.out);
    let raw = desk.run(&["show", "last", "--raw", "2"]);
    assert!(
        raw.code == 0 && raw.out.contains("fix the PARSER"),
        "an altered line can be read: {raw:?}"
    );
    desk.tamper(&id(1), |bytes| bytes[..bytes.len() - 20].to_vec());
    let ran = desk.run(&["show", "--json"]);
    assert_eq!(ran.code, 0);
    assert!(ran.json()["records"].as_array().unwrap().len() > 5);
}

/// Covers: G17, #163.
#[test]
fn no_view_lets_stored_text_drive_the_terminal() {
    let evil = "\x1b]0;PWNED\x07t\x1b[2J\u{9b}31m\u{202e}x\r\0\u{e0041}";
    let desk = Desk::new();
    desk.session(
        1,
        vec![
            prompt(evil),
            reply(evil, &[sessions::call(evil)]),
            result(evil, 2, evil),
            message(Message::User(UserMessage::notice(evil, evil))),
            Body::Name(segno_model::record::Name { name: evil.into() }),
        ],
    );
    for args in [&["show"][..], &["show", "--tree"], &["show", "--context"], &["show", "--json"]] {
        let ran = desk.run(args);
        let bad = ran.out.chars().filter(|c| c.is_control() && *c != '\n').count();
        assert_eq!((ran.code, bad), (0, 0), "{args:?} {:?}", ran.out);
        assert!(args.contains(&"--json") || !ran.out.contains("PWNED"), "{args:?}");
    }
}

#[test]
fn every_type_of_record_can_be_shown() {
    let desk = Desk::new();
    desk.session(1, vec![prompt("x")]);
    let node = desk.append(&id(1), START, vec![answer("y")])[0].pos();
    // Among them is one that relocates the session, so it is not `last` any more.
    desk.append(&id(1), START, every_kind(node));
    let session = id(1).to_string();
    for view in [&[][..], &["--tree"], &["--context"]] {
        for json in [false, true] {
            let args: Vec<&str> =
                ["show", session.as_str()].into_iter().chain(view.iter().copied()).collect();
            let args = [args, if json { vec!["--json"] } else { vec![] }].concat();
            let ran = desk.run(&args);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
        }
    }
}
