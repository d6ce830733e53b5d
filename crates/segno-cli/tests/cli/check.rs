//! `segno check`, on sessions with one thing wrong each.

use super::desk::{Desk, START, id, lines};
use segno_model::Body;
use segno_model::record::{Message, ToolMessage};
use segno_model::store::SessionLog as _;
use segno_testkit::sessions::{answer, call, prompt, reply, result};

/// Six records and the header; everything but the last is known durable.
fn session(desk: &Desk) {
    let words = ["zero", "one", "two", "three", "four", "five"];
    let say = |(i, text): (usize, &&str)| if i % 2 == 0 { prompt(text) } else { answer(text) };
    desk.session(1, words.iter().enumerate().map(say).collect());
}

fn replaced(line: &[u8], from: &str, to: &str) -> Vec<u8> {
    String::from_utf8(line.to_vec()).unwrap().replace(from, to).into_bytes()
}

/// A line with the checksum that its bytes have now.
fn resealed(line: &[u8]) -> Vec<u8> {
    let (covered, _) = segno_model::line::split_crc(line.trim_ascii_end()).unwrap();
    let crc = format!(",\"crc\":\"{:08x}\"}}\n", segno_model::line::checksum(covered));
    [covered, crc.as_bytes()].concat()
}

type Change = fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>;

/// What is done to the log, and the findings and the exit code that come of it.
const CASES: &[(&str, Change, &str, i32)] = &[
    ("sound", |lines| lines, "", 0),
    (
        "a torn tail",
        |mut lines| {
            lines[6].truncate(30);
            lines
        },
        "warning torn-tail",
        1,
    ),
    (
        "no line end",
        |mut lines| {
            lines[6].pop();
            lines
        },
        "note unended",
        0,
    ),
    (
        "an altered line",
        |mut lines| {
            lines[2] = replaced(&lines[2], "one", "won");
            lines
        },
        "damage altered, note missing-parent",
        1,
    ),
    (
        "a flipped bit",
        |mut lines| {
            lines[2] = replaced(&lines[2], "one", "one".replace('e', "d").as_str());
            lines
        },
        "warning corrected",
        1,
    ),
    (
        "a missing line",
        |mut lines| {
            lines.remove(2);
            lines
        },
        "damage missing, note missing-parent",
        1,
    ),
    (
        "a doubled line",
        |mut lines| {
            lines.insert(3, lines[2].clone());
            lines
        },
        "note doubled",
        0,
    ),
    (
        "garbage in the place of a line",
        |mut lines| {
            lines[2] = b"garbage\n".to_vec();
            lines
        },
        "damage malformed, note missing-parent",
        1,
    ),
    (
        "zero bytes in the place of a line",
        |mut lines| {
            lines[2] = [vec![0; lines[2].len() - 1], b"\n".to_vec()].concat();
            lines
        },
        "damage nul-run, note missing-parent",
        1,
    ),
    (
        "CR LF",
        |lines| lines.iter().map(|line| replaced(line, "\n", "\r\n")).collect(),
        "note crlf",
        0,
    ),
    (
        "a blank line",
        |mut lines| {
            lines.insert(3, b"\n".to_vec());
            lines
        },
        "note blank",
        0,
    ),
    (
        "a line that was sealed and is no JSON",
        |mut lines| {
            lines[6] = resealed(&replaced(&lines[6], "\"five\"", "five"));
            lines
        },
        "warning not-json, note unknown-record",
        1,
    ),
    (
        "a broken header",
        |mut lines| {
            lines[0] = b"{}\n".to_vec();
            lines
        },
        "damage header-damaged",
        1,
    ),
    ("an emptied log", |_| Vec::new(), "damage log-empty", 1),
    ("a cut header", |lines| vec![lines[0][..50].to_vec()], "warning header-cut", 1),
];

/// Covers: G2, G3, G4, ST5, ST6.
#[test]
fn every_kind_of_damage_is_found_and_located() {
    let desk = Desk::new();
    session(&desk);
    let sound = desk.bytes(&id(1));
    for (name, change, expected, code) in CASES {
        desk.tamper(&id(1), |_| change(lines(&sound)).concat());
        let before = desk.bytes(&id(1));
        let ran = desk.run(&["check", id(1).as_str(), "--json"]);
        let json = ran.json();
        let found: Vec<String> = json["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| format!("{} {}", f["severity"].as_str().unwrap(), f["code"].as_str().unwrap()))
            .collect();
        assert_eq!((found.join(", ").as_str(), ran.code), (*expected, *code), "{name}: {json}");
        assert_eq!(desk.bytes(&id(1)), before, "{name}: checking changes nothing");
        let text = desk.run(&["check", id(1).as_str()]);
        assert_eq!(text.code, *code, "{name}: {text:?}");
    }
}

/// Covers: G3.
#[test]
fn findings_read_as_sentences() {
    let desk = Desk::new();
    session(&desk);
    desk.tamper(&id(1), |bytes| {
        let mut lines = lines(&bytes);
        lines[2] = replaced(&lines[2], "one", "won");
        lines[4] = b"garbage\n".to_vec();
        lines[6].truncate(30);
        lines.concat()
    });
    insta::assert_snapshot!(desk.run(&["check"]).all());
}

/// Covers: G6, #36.
#[test]
fn calls_and_results_are_looked_at() {
    let desk = Desk::new();
    let stray = |id: &str| match result(id, 2, "x") {
        Body::Message(message) => match *message {
            Message::Tool(tool) => {
                Body::Message(Box::new(Message::Tool(ToolMessage { call_seq: None, ..tool })))
            }
            _ => unreachable!(),
        },
        _ => unreachable!(),
    };
    let calls = [call("a"), call("b"), call("c")];
    desk.session(
        1,
        vec![prompt("x"), reply("", &calls), result("a", 2, "1"), result("a", 2, "2"), stray("zz")],
    );
    let ran = desk.run(&["check", "--json"]);
    let json = ran.json();
    let codes: Vec<&str> =
        json["findings"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["call-without-result", "duplicate-result", "result-without-call"]);
    assert_eq!((ran.code, json["verdict"].as_str()), (1, Some("warnings")));
}

/// Covers: ST12, G1.
#[test]
fn blobs_are_verified() {
    let desk = Desk::new();
    session(&desk);
    let mut log = desk.hold(&id(1));
    let bytes = vec![b'x'; 70_000];
    let blob = super::desk::now(log.put_blob(&bytes, "xxx")).unwrap();
    Desk::release(log);
    let tool = ToolMessage {
        call_id: "a".into(),
        call_seq: None,
        name: "bash".into(),
        content: vec![],
        whole: Some(blob.clone()),
        is_error: false,
        outcome: segno_model::record::Outcome::Done,
        established: segno_model::record::Established::Observed,
        background: None,
    };
    desk.append(
        &id(1),
        START,
        vec![reply("", &[call("a")]), Body::Message(Box::new(Message::Tool(tool)))],
    );
    assert_eq!(desk.run(&["check", "--json"]).json()["blobs"], 1);
    assert_eq!(desk.run(&["check"]).code, 0);
    let file = desk.log(&id(1)).with_file_name("blobs").join(&blob.blob);
    std::fs::write(&file, "changed").unwrap();
    let ran = desk.run(&["check"]);
    assert!(ran.code == 1 && ran.out.contains("its bytes do not match its name"), "{ran:?}");
    std::fs::remove_file(&file).unwrap();
    let ran = desk.run(&["check"]);
    assert!(ran.code == 1 && ran.out.contains("the file is gone"), "{ran:?}");
}

/// Covers: G5. What is being written at this moment is no damage.
#[test]
fn a_held_session_can_be_checked() {
    let desk = Desk::new();
    session(&desk);
    let _held = desk.hold(&id(1));
    desk.tamper(&id(1), |mut bytes| {
        bytes.truncate(bytes.len() - 20);
        bytes
    });
    let ran = desk.run(&["check"]);
    assert!(ran.code == 0 && ran.out.contains("another process is writing it now"), "{ran:?}");
}

#[test]
fn what_cannot_be_read_has_an_exit_code_of_its_own() {
    let desk = Desk::new();
    session(&desk);
    let log = desk.log(&id(1));
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    let ran = desk.run(&["check", id(1).as_str()]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    let json = desk.run(&["check", id(1).as_str(), "--json"]);
    let error: serde_json::Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!(error["error"]["exit"], 2);
    assert_eq!(desk.run(&["check", "nothing"]).code, 6);
}

/// Covers: G11.
#[test]
fn ten_thousand_records_are_checked() {
    let desk = Desk::new();
    desk.session(2, vec![prompt("x")]);
    let shape = segno_testkit::sessions::Shape { turns: 1400, tools: 0, ..Default::default() };
    desk.tamper(&id(2), |_| segno_testkit::sessions::log_bytes(&id(2), shape));
    let json = desk.run(&["check", id(2).as_str(), "--json"]).json();
    assert!(json["records"].as_u64().unwrap() > 7000, "{}", json["records"]);
    assert_eq!(json["verdict"], "sound");
}
