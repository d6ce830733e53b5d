//! `segno export --format html`, and exports of other agents' sessions.

use super::desk::Desk;
use super::machine::{CLAUDE, Machine, PI};
use base64::Engine as _;
use segno_model::Body;
use segno_model::record::{AssistantBlock, AssistantMessage, Block, Message, Text, UserMessage};
use segno_testkit::sessions::{call, model, prompt, reply, result};
use sha2::{Digest as _, Sha256};

/// The text between the first `open` and the `close` behind it.
fn between<'a>(text: &'a str, open: &str, close: &str) -> &'a str {
    let start = text.find(open).unwrap_or_else(|| panic!("no {open}")) + open.len();
    let end = text[start..].find(close).unwrap_or_else(|| panic!("no {close}"));
    &text[start..start + end]
}

/// What holds for every page, whatever is in it (G17).
fn is_harmless(page: &str) {
    let policy = between(page, "Content-Security-Policy\" content=\"", "\"");
    let hash = |text: &str| base64::prelude::BASE64_STANDARD.encode(Sha256::digest(text));
    let (style, script) =
        (between(page, "<style>", "</style>"), between(page, "<script>", "</script>"));
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(policy.contains(&format!("style-src 'sha256-{}'", hash(style))), "{policy}");
    assert!(policy.contains(&format!("script-src 'sha256-{}'", hash(script))), "{policy}");
    let body = page.replace(style, "").replace(script, "");
    assert_eq!((body.matches("<script").count(), body.matches("<style").count()), (1, 1));
    let lower = body.to_ascii_lowercase();
    for tag in
        ["<iframe", "<object", "<embed", "<link", "<form", "<svg", "<base", "<audio", "<video"]
    {
        assert!(!lower.contains(tag), "{tag}");
    }
    for tag in lower.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        let mut outside = tag.split('"').step_by(2);
        assert!(!outside.any(|part| part.contains(" on")), "a handler in <{tag}>");
        for (name, allowed) in [
            ("href=\"", &["#", "http://", "https://", "mailto:"][..]),
            ("src=\"", &["data:image/"]),
        ] {
            for address in tag.split(name).skip(1) {
                assert!(allowed.iter().any(|begin| address.starts_with(begin)), "<{tag}>");
            }
        }
    }
    let shown = |c: char| c == '\n' || c == '\t' || !c.is_control();
    assert!(page.chars().all(shown), "a control character");
}

fn user(content: Vec<Block>) -> Body {
    Body::Message(Box::new(Message::User(UserMessage { content, ..UserMessage::default() })))
}

fn image(media_type: &str, bytes: &[u8]) -> Block {
    let data = Text::Inline(base64::prelude::BASE64_STANDARD.encode(bytes));
    Block::Image { media_type: media_type.to_owned(), data }
}

const PNG: [u8; 9] = [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, 1];

/// Stored text tries to drive the browser, in every place that it can stand in. Covers: G17.
#[test]
fn stored_text_stays_text() {
    let desk = Desk::new();
    let evil = "</title></script></style><script>alert(1)</script><img src=x onerror=alert(1)>\
        [a](javascript:alert(1)) ![b](http://h.invalid/b.png) \"onclick='x' \u{1b}]0;x\u{7}\u{202e}";
    let thinking = AssistantBlock::Thinking { text: evil.into(), signature: None, redacted: false };
    let mut sly = call("a");
    sly.name = evil.to_owned();
    sly.arguments =
        serde_json::json!({ evil: evil, "command": evil, "old_string": evil }).to_string();
    let content = vec![thinking, AssistantBlock::text(evil), AssistantBlock::ToolCall(sly)];
    let told = AssistantMessage::new(&model(), content);
    desk.session(
        1,
        vec![
            prompt(evil),
            Body::Message(Box::new(Message::Assistant(told))),
            result("a", 2, &format!("@@ -1 +1 @@\n-{evil}\n+{evil}")),
            user(vec![
                image("image/png", &PNG),
                image("image/svg+xml", b"<svg onload=alert(1)>"),
                image(evil, b"x"),
            ]),
            reply(&format!("```{evil}\n{evil}\n```\n{evil}"), &[]),
        ],
    );
    let ran = desk.run(&["export", "--format", "html"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    is_harmless(&ran.out);
    assert!(ran.out.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert_eq!(
        ran.out.matches("src=\"data:image/png;base64,").count(),
        1,
        "one of three is an image"
    );
}

#[test]
fn a_page_holds_what_was_said_and_what_it_cost() {
    let desk = Desk::new();
    desk.session(
        1,
        vec![
            prompt("Why does it **fail**?"),
            reply("# Because\n\n```rust\nlet x = 1;\n```", &[call("a")]),
            result("a", 2, "exit 0"),
            reply("Done.", &[]),
        ],
    );
    let ran = desk.run(&["export", "--format", "html", "-o", "page.html"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""), "{ran:?}");
    let page = std::fs::read_to_string(desk.project.join("page.html")).unwrap();
    is_harmless(&page);
    for part in [
        "<title>Why does it **fail**?</title>",
        "<h1>Because</h1>",
        "<span class=\"hk\">let</span>",
        "<article id=\"r1\" class=\"user\">",
        "<a href=\"#r3\">#3</a>",
        "exit 0",
        "<dt>tokens</dt>",
        "<dt>cost in US$</dt>",
        "<dt>model</dt><dd>scripted/parrot-1</dd>",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

/// What a call has read has the colours of its file; what failed, or is no file, has none.
#[test]
fn files_that_were_read_are_coloured() {
    let page = |tool: &str, arguments: &str, text: &str| {
        let desk = Desk::new();
        let mut read = call("a");
        (read.name, read.arguments) = (tool.to_owned(), arguments.to_owned());
        desk.session(1, vec![prompt("Read it."), reply("Yes.", &[read]), result("a", 2, text)]);
        desk.run(&["export", "--format", "html"]).out
    };
    let coloured = "<span class=\"hk\">let</span> x = <span class=\"hn\">1</span>;";
    let cases = [
        ("Read", r#"{"file_path":"/p/a.rs"}"#, true),
        ("read", r#"{"path":"a.rs","limit":3}"#, true),
        ("read_file", r#"{"filePath":"a.b.rs"}"#, true),
        ("Read", r#"{"file_path":"/p/a.txt"}"#, false),
        ("Read", r#"{"file_path":"/p/rs"}"#, false),
        ("Read", "[]", false),
        ("write", r#"{"path":"a.rs"}"#, false),
    ];
    for (tool, arguments, expected) in cases {
        let page = page(tool, arguments, "   1\tlet x = 1;");
        assert_eq!(page.contains(coloured), expected, "{tool} {arguments}: {page}");
        is_harmless(&page);
    }
}

/// Covers: G3, G14, #116, #145.
#[test]
fn sessions_of_other_agents_are_exported_with_their_subagents_and_damage() {
    let machine = Machine::with(
        CLAUDE,
        &["42-subagents-before-fork", "01-torn-middle-lines", "41-secrets-and-modes/session"],
    );
    let before = machine.untouched(".claude");
    let page =
        machine.out(&["export", "--format", "html", "claude:c0de002a-1111-4111-8111-0000000000a0"]);
    is_harmless(&page);
    assert!(page.contains("href=\"#s1\"") && page.contains("<section id=\"s1\">"), "{page}");
    assert!(page.contains("<dt>agent</dt><dd>Claude Code"));
    for format in ["html", "markdown", "json"] {
        let said = machine.run(&["export", "--format", format, "claude:c0de0029"]);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(
            !said.out.contains("AKIAFAKE") && said.out.contains("[masked: aws-key-id]"),
            "{format}"
        );
        assert!(said.err.contains("masked"), "{said:?}");
        let kept =
            machine.out(&["export", "--format", format, "claude:c0de0029", "--keep-secrets"]);
        assert!(kept.contains("AKIAFAKE"), "{format}");
    }
    assert_eq!(machine.untouched(".claude"), before);
}

/// Covers: G3, G17.
#[test]
fn damage_and_escapes_are_told_in_the_page() {
    let machine = Machine::with(PI, &["39-terminal-escapes"]);
    machine.add(CLAUDE, "01-torn-middle-lines");
    for session in machine.list(&["--all"]) {
        let text = |name: &str| session[name].as_str().unwrap();
        let word = format!("{}:{}", text("source"), text("id"));
        let said = machine.run(&["export", "--format", "html", &word]);
        assert_eq!(said.code, 0, "{said:?}");
        is_harmless(&said.out);
        let damaged = session["findings"]["damage"].as_u64().unwrap() > 0;
        assert_eq!(said.out.contains("finding damage"), damaged, "{word}");
        assert_eq!(said.err.contains("damaged in"), damaged, "{said:?}");
    }
}

#[test]
fn what_cannot_be_exported_leaves_no_file() {
    let machine = Machine::with(CLAUDE, &["41-secrets-and-modes/session"]);
    let said = machine.run(&["export", "--format", "jsonl", "claude:c0de0029", "-o", "x.jsonl"]);
    assert!(said.code == 2 && said.err.contains("--format json"), "{said:?}");
    assert!(!machine.place.file("x.jsonl").exists());
    let both = machine.run(&["export", "--redact", "--keep-secrets"]);
    assert_eq!(both.code, 2, "{both:?}");
}
