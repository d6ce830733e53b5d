//! `segno export` in its three formats.

use super::desk::{Desk, id, lines};
use segno_cli::terminal::clean;
use segno_model::Body;
use segno_model::record::{AssistantBlock, AssistantMessage, Message, StopReason};
use segno_testkit::sessions::{call, model, prompt, reply, result};
use std::os::unix::fs::PermissionsExt as _;

/// What a tool printed, with five made-up secrets.
const SECRETS: &str = "AWS_ACCESS_KEY_ID=AKIAFAKEFAKEFAKEFAKE\n\
    GITHUB_TOKEN=ghp_FAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKE\n\
    OPENAI_API_KEY=sk-proj-FAKE0000FAKE0000FAKE0000FAKE\n\
    DATABASE_URL=postgres://kiln:FAKEPASS41@db.invalid:5432/kiln\n\
    -----BEGIN PRIVATE KEY-----\nRkFLRS1LRVktNDE=\n-----END PRIVATE KEY-----\nHOME=/home/kiln";
const HIDDEN: [&str; 5] = ["AKIAFAKE", "ghp_FAKE", "sk-proj-FAKE", "FAKEPASS41", "RkFLRS1"];
/// Looks like a key and is a provider's signature.
const SIGNATURE: &str = "sk-ant-FAKE-looks-like-a-key-but-is-a-signature-QUJDQUJDQUJD";

fn session(desk: &Desk) {
    let content = vec![
        AssistantBlock::Thinking {
            text: "ok".into(),
            signature: Some(SIGNATURE.into()),
            redacted: false,
        },
        AssistantBlock::Text { text: "the word AKIA alone is harmless".into() },
    ];
    let stop = StopReason::End;
    let last = AssistantMessage { content, model: model(), stop, ..Default::default() };
    desk.session(
        1,
        vec![
            prompt("Show the environment."),
            reply("Here:\n```sh\nenv\n```", &[call("a")]),
            result("a", 2, SECRETS),
            Body::Message(Box::new(Message::Assistant(last))),
        ],
    );
}

/// Covers: #116, G17.
#[test]
fn secrets_are_masked_in_every_format_unless_asked_for() {
    let desk = Desk::new();
    session(&desk);
    let before = desk.bytes(&id(1));
    for format in ["markdown", "json", "jsonl"] {
        let ran = desk.run(&["export", "--format", format]);
        assert_eq!(ran.code, 0, "{ran:?}");
        for secret in HIDDEN {
            assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{format}: {secret}");
        }
        assert!(ran.out.contains("the word AKIA alone") && ran.out.contains("HOME=/home/kiln"));
        assert_eq!(ran.out.contains(SIGNATURE), format != "markdown", "{format}");
        assert!(ran.err.contains("secrets were masked"), "{format}: {}", ran.err);
        let kept = desk.run(&["export", "--format", format, "--keep-secrets"]);
        assert!(HIDDEN.iter().all(|secret| kept.out.contains(secret)), "{format}");
        assert_eq!(kept.err, "");
    }
    assert_eq!(desk.bytes(&id(1)), before, "the session itself is as it was");
}

#[test]
fn markdown_reads_well() {
    let desk = Desk::new();
    session(&desk);
    insta::assert_snapshot!(desk.plain(&desk.run(&["export"]).all()));
}

/// Covers: G3.
#[test]
fn lines_are_exact_and_masked_ones_are_sound() {
    let desk = Desk::new();
    session(&desk);
    let exact = desk.run(&["export", "--format", "jsonl", "--keep-secrets"]);
    assert_eq!(exact.out.as_bytes(), desk.bytes(&id(1)));
    let masked = desk.run(&["export", "--format", "jsonl"]).out;
    for (masked, original) in lines(masked.as_bytes()).iter().zip(lines(&desk.bytes(&id(1)))) {
        let changed = *masked != original;
        assert_eq!(changed, original.windows(8).any(|w| w == b"AKIAFAKE"));
        assert!(segno_model::line::decode(masked.trim_ascii_end(), 0).is_ok());
    }
}

#[test]
fn json_is_one_document() {
    let desk = Desk::new();
    session(&desk);
    let json = desk.run(&["export", "--format", "json"]).json();
    assert_eq!((json["version"].as_u64(), json["id"].as_str()), (Some(1), Some(id(1).as_str())));
    assert_eq!(json["records"].as_array().unwrap().len(), 5);
    assert_eq!(json["context"][2]["role"], "results");
    assert_eq!(json["header"]["id"], id(1).as_str());
}

/// Covers: G17, #113.
#[test]
fn a_file_is_private_and_never_overwritten() {
    let desk = Desk::new();
    session(&desk);
    let path = desk.project.join("out.md");
    let ran = desk.run(&["export", "-o", "out.md"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let written = std::fs::read(&path).unwrap();
    let again = desk.run(&["export", "-o", "out.md", "--format", "json"]);
    assert!(again.code == 1 && again.err.contains("exists already"), "{again:?}");
    assert_eq!(std::fs::read(&path).unwrap(), written);
    let nowhere = desk.run(&["export", "-o", "no/such/dir/x"]);
    assert!(nowhere.code == 7 && nowhere.err.contains("mkdir -p"), "{nowhere:?}");
}

/// A line with its checksum.
fn sealed(covered: &str) -> String {
    let crc = segno_model::line::checksum(covered.as_bytes());
    format!("{covered},\"crc\":\"{crc:08x}\"}}\n")
}

/// Members that no version knows, in spellings that reading and writing again would not keep.
const STRANGE: &str = "\"later\": {\"a\" :1.50e+3 ,\"a\":[ ],\"n\":123456789012345678901234567890},\
    \"text\":\"\\u0041\\/\\ud800 \\u0000 \u{2028}\",\"\":null";

/// Covers: G13, ST8. Types, members, blocks and values that this version does not know, in the header, in
/// nodes and in metadata, are exported as they stand; so is what comes behind them.
#[test]
fn what_a_newer_version_wrote_is_exported_byte_for_byte() {
    let desk = Desk::new();
    desk.session(1, vec![prompt("What is new?"), reply("Much.", &[])]);
    let at = "\"at\":\"2030-01-01T00:00:00.000Z\"";
    let user = "\"role\":\"user\",\"content\":[{\"type\":\"hologram\",\"x\":1},{\"type\":\"text\",\"text\":\"hi\",\"y\":2}]";
    let strange = [
        format!("{{\"seq\":3,{at},\"type\":\"weather\",{STRANGE}"),
        format!("{{\"seq\":4,\"parent\":2,{at},\"type\":\"vision\",{STRANGE}"),
        format!("{{\"seq\":5,\"parent\":4,{at},\"type\":\"message\",{user},{STRANGE}"),
        format!("{{\"seq\":6,{at},\"type\":\"name\",\"name\":\"new\",{STRANGE}"),
        format!("{{\"seq\":7,{at},\"type\":\"name\",\"name\":[\"another shape\"],{STRANGE}"),
        format!("{{ \"type\":\"weather\" , \"seq\":8, {STRANGE}, {at} "),
    ];
    desk.tamper(&id(1), |bytes| {
        let mut lines = lines(&bytes);
        let header = String::from_utf8(lines[0].clone()).unwrap();
        let (covered, _) = header.rsplit_once(",\"crc\"").unwrap();
        lines[0] = sealed(&format!("{covered},{STRANGE}")).into_bytes();
        lines.extend(strange.iter().map(|covered| sealed(covered).into_bytes()));
        lines.concat()
    });
    desk.append(&id(1), id(1).created_ms() + 60_000, vec![prompt("And now?")]);
    let log = desk.bytes(&id(1));
    assert_eq!(lines(&log).len(), 10);
    for extra in [&[][..], &["--keep-secrets"]] {
        let ran = desk.run(&[&["export", "--format", "jsonl"], extra].concat());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        assert_eq!(ran.out.as_bytes(), log, "{extra:?}");
    }
    assert_eq!(desk.bytes(&id(1)), log);
}

/// Covers: G13, G17. In what is not known, a secret goes and everything else stays.
#[test]
fn a_secret_is_masked_in_what_a_newer_version_wrote_and_nothing_else_changes() {
    let desk = Desk::new();
    desk.session(1, vec![prompt("What is new?")]);
    let key = "AKIAFAKEFAKEFAKEFAKE";
    let covered = |secret: &str, odd: &str| {
        format!(
            "{{\"seq\":2,\"at\":\"2030-01-01T00:00:00.000Z\",\"type\":\"weather\",{STRANGE},\
             \"deep\":[ {{\"env\":\"a={secret}\"}} ,\"{odd}\"]"
        )
    };
    let beside = format!("\\ud800 {key}");
    desk.tamper(&id(1), |bytes| [bytes, sealed(&covered(key, &beside)).into_bytes()].concat());
    let out = desk.run(&["export", "--format", "jsonl"]).out;
    let mask = "[masked: aws-key-id]";
    // Half a character in the same string is not written again.
    let expected = sealed(&covered(mask, &format!("\u{fffd} {mask}")));
    assert_eq!(out.lines().last(), expected.lines().last());
}

/// Covers: G3, TT6.
#[test]
fn what_can_be_read_of_a_damaged_session_is_exported() {
    let desk = Desk::new();
    session(&desk);
    desk.tamper(&id(1), |bytes| {
        let mut lines = lines(&bytes);
        lines[2] = b"garbage\n".to_vec();
        lines.concat()
    });
    let ran = desk.run(&["export"]);
    assert!(ran.code == 0 && ran.out.contains("Show the environment"), "{ran:?}");
    assert!(ran.err.contains("damaged in 1 place"), "{ran:?}");
}

/// Covers: G17. What was said drives no terminal from a file that is looked at, and hides no secret: neither in texts nor in names,
/// whosever session it is.
#[test]
fn no_export_for_people_holds_control_characters() {
    let desk = Desk::new();
    let evil = "a\u{1b}[2Jb\u{9b}31mc\u{1b}]0;PWNED\u{7}d\u{202e}e\u{7f}f\rg\nghp_FAKEfake\u{1b}[0mFAKEfakeFAKEfakeFAKEfakeFAKE";
    let mut odd = call("a");
    odd.name = format!("name{evil}");
    odd.arguments = serde_json::json!({ "command": evil }).to_string();
    let thinking = AssistantBlock::Thinking {
        text: evil.into(),
        signature: Some("s".into()),
        redacted: false,
    };
    let last = AssistantMessage {
        content: vec![thinking, AssistantBlock::Text { text: evil.into() }],
        model: model(),
        stop: StopReason::End,
        ..Default::default()
    };
    let name = Body::Name(segno_model::record::Name { name: format!("title{evil}") });
    desk.session(
        1,
        vec![
            prompt(evil),
            reply(evil, &[odd]),
            result("a", 2, evil),
            Body::Message(Box::new(Message::Assistant(last))),
            name,
        ],
    );
    let handed = desk.path("claude.jsonl");
    let handed = handed.to_str().unwrap();
    assert_eq!(desk.run(&["export", "last", "--format", "claude", "-o", handed]).code, 0);
    for (n, session) in ["last", handed].into_iter().enumerate() {
        for format in ["markdown", "html", "json"] {
            let file = desk.path(&format!("{n}.{format}"));
            let path = file.to_str().unwrap();
            let ran = desk.run(&["export", session, "--format", format, "-o", path]);
            assert_eq!(ran.code, 0, "{ran:?}");
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(text.contains("FAKE") || text.contains("masked"), "{session} {format}");
            let odd = text.chars().find(|c| *c != '\n' && *c != '\t' && !clean::is_shown(*c));
            assert_eq!(odd, None, "{session} {format}");
            if format != "json" {
                assert!(!text.contains("ghp_FAKEfakeFAKE"), "{session} {format}: no secret");
            }
            let piped = desk.run(&["export", session, "--format", format]);
            assert_eq!(piped.out, text, "{session} {format}: a pipe gets the same");
        }
    }
}
