//! The tools as a model meets them: a call as text goes in, a result comes out, files change.
//!
//! Responsible for: the behaviour of each tool on ordinary and odd files. Must not: test a decision
//! table (those have tests of their own).
#![allow(clippy::unwrap_used)]

mod support;

use segno_model::record::{Block, Outcome, ReplayClass, StepStatus};
use segno_runtime::{ToolPlan, Tools, Verdict};
use serde_json::json;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use support::{Place, text};

/// What a table's row expects of a result.
enum Want<'a> {
    /// A success that says this.
    Says(&'a str),
    /// A failure that says this.
    Fails(&'a str),
}
use Want::{Fails, Says};

async fn check(place: &Place, tool: &str, arguments: serde_json::Value, want: Want<'_>) {
    let output = place.call(tool, &arguments.to_string()).await;
    let shown = text(&output);
    let (error, part) = match want {
        Says(part) => (false, part),
        Fails(part) => (true, part),
    };
    assert_eq!(output.is_error, error, "{tool} {arguments}: {shown}");
    assert!(shown.contains(part), "{tool} {arguments}: wanted {part:?} in:\n{shown}");
    let root = place.root().display().to_string();
    assert!(!shown.contains(&root), "paths are shown relative: {shown}");
}

/// Arguments come as the model wrote them; whatever is wrong with them is said, and nothing runs.
#[tokio::test]
async fn arguments_that_do_not_fit_are_an_answer_and_not_a_crash() {
    let place = Place::new();
    let cases = [
        ("read", "", "missing field `path`"),
        ("read", "{", "EOF"),
        ("read", "null", "invalid type"),
        ("read", "[]", "do not fit"),
        ("read", "\"a\"", "invalid type"),
        ("read", "{}", "missing field `path`"),
        ("read", r#"{"path":1}"#, "expected a string"),
        ("read", r#"{"path":"a","path":"b"}"#, "duplicate field"),
        ("read", r#"{"path":"a","lines":3}"#, "unknown field `lines`"),
        ("read", r#"{"path":"a","offset":-1}"#, "invalid value"),
        ("read", r#"{"path":"\ud800"}"#, "do not fit"),
        ("read", r#"{"path":""}"#, "not empty"),
        ("read", r#"{"path":"a\u0000b"}"#, "path"),
        ("read", r#"{"path":"a"} x"#, "trailing"),
        ("write", r#"{"path":"a"}"#, "missing field `content`"),
        ("edit", r#"{"path":"a","old_text":"","new_text":"b"}"#, "must not be empty"),
        ("edit", r#"{"path":"a","old_text":"b","new_text":"b"}"#, "the same"),
        ("bash", r#"{"command":"  "}"#, "must not be empty"),
        ("bash", r#"{"command":"true","timeout":0}"#, "more than 0"),
        ("bash", r#"{"command":"true","timeout":601}"#, "at most 600"),
        ("bash", r#"{"command":"true","timeout":1e999}"#, "out of range"),
        ("grep", r#"{"pattern":"("}"#, "not valid"),
        ("grep", r#"{"pattern":"a","glob":"{"}"#, "not valid"),
        ("find", r#"{"glob":"["}"#, "not valid"),
        ("todo", r#"{"steps":[{"text":"a","status":"started"}]}"#, "unknown variant"),
        ("todo", r#"{"steps":[{"text":" ","status":"done"}]}"#, "needs a text"),
        ("nothing", "{}", "there is no tool"),
    ];
    for (tool, arguments, part) in cases {
        let output = place.call(tool, arguments).await;
        assert!(output.is_error, "{tool} {arguments}");
        assert_eq!(output.outcome, Outcome::NotRun, "{tool} {arguments}: {}", text(&output));
        assert!(text(&output).contains(part), "{tool} {arguments}: {}", text(&output));
    }
    assert_eq!(place.names(), Vec::<String>::new(), "nothing was made");
}

#[tokio::test]
async fn read_shows_lines_with_numbers_and_says_what_it_left_out() {
    let place = Place::new();
    place.file("a.txt", "one\ntwo\nthree");
    place.file("empty", "");
    place.file("crlf", "one\r\ntwo\r\n");
    place.file("bom", "\u{feff}one\n");
    place.file("separators", "a\u{2028}b\u{85}c\n");
    place.bytes("latin", b"caf\xe9\n");
    place.bytes("binary", b"a\0b");
    place.file("long", &"ä".repeat(3000));
    place.file("many", &"x\n".repeat(5000));
    place.file("wide", &format!("{}\n", "y".repeat(1000)).repeat(500));
    fs::create_dir(place.path("d")).unwrap();
    symlink("a.txt", place.path("link")).unwrap();
    symlink("loop", place.path("loop")).unwrap();
    let rows = [
        (json!({"path": "a.txt"}), Says("     1\tone\n     2\ttwo\n     3\tthree\n")),
        (json!({"path": "./d/../a.txt"}), Says("     1\tone")),
        (json!({"path": "link"}), Says("     2\ttwo")),
        (
            json!({"path": "a.txt", "offset": 2, "limit": 1}),
            Says("     2\ttwo\n(the file (13 bytes) goes on; continue with offset 3)"),
        ),
        (json!({"path": "a.txt", "offset": 3}), Says("     3\tthree\n")),
        (json!({"path": "a.txt", "offset": 9}), Says("has 3 lines; there is no line 9")),
        (json!({"path": "a.txt", "offset": 0, "limit": 0}), Says("     1\tone\n(the file")),
        (json!({"path": "a.txt", "offset": u64::MAX, "limit": u64::MAX}), Says("there is no line")),
        (json!({"path": "empty"}), Says("is empty")),
        (json!({"path": "crlf"}), Says("     2\ttwo\n(lines end in CRLF")),
        (json!({"path": "bom"}), Says("     1\tone\n(the file begins with a byte order mark")),
        (json!({"path": "separators"}), Says("     1\ta\u{2028}b\u{85}c\n")),
        (json!({"path": "latin"}), Says("caf\u{fffd}\n(bytes that are not UTF-8")),
        (json!({"path": "long"}), Says("… (line of 6000 bytes, cut)")),
        (
            json!({"path": "many"}),
            Says("  2000\tx\n(the file (10000 bytes) goes on; continue with offset 2001)"),
        ),
        (json!({"path": "wide"}), Says("goes on; continue with offset 67")),
        (json!({"path": "many", "offset": 5000}), Says("  5000\tx\n")),
        (json!({"path": "binary"}), Fails("is a binary file (3 bytes)")),
        (json!({"path": "d"}), Fails("d is a directory; `ls`")),
        (json!({"path": "missing"}), Fails("missing: No such file")),
        (json!({"path": "a.txt/b"}), Fails("Not a directory")),
        (json!({"path": "loop"}), Fails("loop")),
        (json!({"path": "/dev/null"}), Fails("not a regular file")),
    ];
    for (arguments, want) in rows {
        check(&place, "read", arguments, want).await;
    }
}

#[tokio::test]
async fn read_gives_images_as_images() {
    let place = Place::new();
    let cases: [(&str, &[u8], &str); 4] = [
        ("a.png", b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        ("b", b"\xff\xd8\xff\xe0\0", "image/jpeg"),
        ("c.txt", b"GIF89a\0", "image/gif"),
        ("d.webp", b"RIFF\0\0\0\0WEBPVP8", "image/webp"),
    ];
    for (name, bytes, kind) in cases {
        place.bytes(name, bytes);
        let output = place.call("read", &json!({"path": name}).to_string()).await;
        assert!(
            matches!(&output.content[1], Block::Image { media_type, .. } if media_type == kind),
            "{name}: {output:?}"
        );
    }
    let mut large = b"\x89PNG\r\n\x1a\n".to_vec();
    large.resize(20 * 1024 * 1024 + 1, 0);
    place.bytes("large.png", &large);
    check(&place, "read", json!({"path": "large.png"}), Fails("at most 20971520")).await;
}

/// A file of several gigabytes (sparse here) is read without holding it.
#[tokio::test]
async fn read_shows_the_beginning_of_a_huge_file() {
    let place = Place::new();
    place.file("huge", "first\n");
    let mut content = "line\n".repeat(10_000).into_bytes();
    content.push(b'x');
    place.bytes("huge", &content);
    fs::OpenOptions::new().write(true).open(place.path("huge")).unwrap().set_len(8 << 30).unwrap();
    check(
        &place,
        "read",
        json!({"path": "huge", "limit": 2}),
        Says("     2\tline\n(the file (8589934592 bytes)"),
    )
    .await;
}

/// A stop ends a search through a huge file. Covers: G9.
#[tokio::test]
async fn a_stop_ends_a_long_read() {
    let place = Place::new();
    place.file("huge", &"a line of text\n".repeat(600));
    fs::OpenOptions::new().write(true).open(place.path("huge")).unwrap().set_len(1 << 42).unwrap();
    // Read on past the end of the text there are 4 terabytes of zeros in one line.
    let call = place.tool_call("read", r#"{"path":"huge","offset":602}"#);
    let (handle, stop) = segno_runtime::StopHandle::new();
    let stopping = async {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        handle.stop(segno_runtime::StopKind::User);
    };
    let (output, ()) = tokio::join!(place.run_with(&call, stop, &|_| {}), stopping);
    assert_eq!(output.outcome, Outcome::Stopped, "{}", text(&output));
    check(
        &place,
        "write",
        json!({"path": "huge", "content": "x"}),
        Fails("changed with a program"),
    )
    .await;
}

/// Covers: G7.
#[tokio::test]
async fn write_makes_files_and_directories_and_shows_what_changed() {
    let place = Place::new();
    place.file("old.txt", "one\ntwo\n");
    place.file("same", "same");
    fs::create_dir(place.path("d")).unwrap();
    let rows = [
        (json!({"path": "new.txt", "content": "hello"}), Says("created new.txt (5 bytes)")),
        (json!({"path": "a/b/c.txt", "content": ""}), Says("created a/b/c.txt (0 bytes)")),
        (json!({"path": "old.txt", "content": "one\n2\n"}), Says("-two\n+2\n")),
        (json!({"path": "same", "content": "same"}), Says("unchanged")),
        (json!({"path": "ünï/日本.txt", "content": "x"}), Says("created ünï/日本.txt")),
        (json!({"path": "d", "content": "x"}), Fails("d is a directory")),
        (json!({"path": "e/", "content": "x"}), Fails("names a directory")),
        (json!({"path": "new.txt/x", "content": "x"}), Fails("ot a directory")),
        (json!({"path": "/dev/null", "content": "x"}), Fails("not a regular file")),
        (json!({"path": "nowhere/../x", "content": "x"}), Fails("No such file")),
    ];
    for (arguments, want) in rows {
        check(&place, "write", arguments, want).await;
    }
    assert_eq!(place.read("new.txt"), "hello");
    assert_eq!(place.read("a/b/c.txt"), "");
    assert_eq!(place.read("old.txt"), "one\n2\n");
    place.assert_no_temp_files();
}

/// Mode, links, hard links and ownership of what is replaced stay as they were. Covers: G7.
#[tokio::test]
async fn a_replaced_file_keeps_its_identity() {
    let place = Place::new();
    let meta = |name: &str| fs::metadata(place.path(name)).unwrap();
    let mode = |name: &str| meta(name).permissions().mode() & 0o7777;
    for (name, bits) in [("script", 0o755), ("private", 0o600), ("odd", 0o640)] {
        place.file(name, "old\n");
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(bits)).unwrap();
        place.write(name, "new\n").await;
        assert_eq!((mode(name), place.read(name)), (bits, "new\n".to_owned()));
    }
    place.file("target", "old");
    symlink("target", place.path("link")).unwrap();
    symlink("dangling-target", place.path("dangling")).unwrap();
    place.write("link", "new").await;
    place.write("dangling", "made").await;
    assert!(fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    assert!(fs::symlink_metadata(place.path("dangling")).unwrap().is_symlink());
    assert_eq!(
        (place.read("target"), place.read("dangling-target")),
        ("new".into(), "made".into())
    );
    place.file("one", "old content");
    fs::hard_link(place.path("one"), place.path("two")).unwrap();
    let before = meta("one").ino();
    let said = place.write("one", "new").await;
    assert!(said.contains("in place"), "{said}");
    assert_eq!((meta("one").ino(), place.read("two")), (before, "new".to_owned()));
    place.assert_no_temp_files();
}

#[tokio::test]
async fn a_new_file_has_an_ordinary_mode() {
    let place = Place::new();
    place.write("plain", "x").await;
    fs::write(place.path("reference"), "x").unwrap();
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("plain"), mode("reference"));
}

#[tokio::test]
async fn edit_changes_exactly_what_is_meant() {
    let place = Place::new();
    // file before, old, new, all, file after or none, what is said
    type Row<'a> = (&'a str, &'a str, &'a str, bool, Option<&'a str>, &'a str);
    let rows: [Row<'_>; 20] = [
        ("a\nb\nc\n", "b", "B", false, Some("a\nB\nc\n"), "-b\n+B\n"),
        ("a\nb\n", "a\nb", "x\ny\nz", false, Some("x\ny\nz\n"), "+z"),
        ("a\nb\n", "\nb", "", false, Some("a\n"), "-b"),
        ("no newline", "newline", "end", false, Some("no end"), "+no end"),
        ("a\r\nb\r\n", "a\nb", "x\ny", false, Some("x\r\ny\r\n"), "changed"),
        ("a\r\nb\r\n", "a\r\nb", "x\r\ny", false, Some("x\r\ny\r\n"), "changed"),
        ("a\r\nb\r\n", "b", "x\ny", false, Some("a\r\nx\r\ny\r\n"), "changed"),
        ("a\nb\r\nc\n", "b\nc", "x\ny", false, Some("a\nx\r\ny\n"), "changed"),
        ("a\r\nb\nc\r\n", "b\nc", "x\ny", false, Some("a\r\nx\r\ny\r\n"), "changed"),
        ("\u{feff}a\nb\n", "a", "x", false, Some("\u{feff}x\nb\n"), "changed"),
        ("ä → ö 日本 🎼\n", "日本", "本日", false, Some("ä → ö 本日 🎼\n"), "changed"),
        ("x x x", "x", "y", true, Some("y y y"), "(3 places)"),
        ("x", "x", "$1\\n", false, Some("$1\\n"), "changed"),
        ("x\nx\n", "x", "y", false, None, "2 times (lines 1, 2)"),
        ("aaa", "aa", "b", false, None, "2 times"),
        ("\ta b\n", "  a b", "c", false, None, "only white space differs at line 1"),
        ("a\n  b\n  c\n", "b\nc", "d", false, None, "only white space differs at line 2"),
        ("a", "z", "y", false, None, "is not in f; read the file again"),
        ("a", "\n\n", "y", false, None, "is not in f"),
        ("", "a", "b", false, None, "is not in f"),
    ];
    for (before, old, new, all, after, said) in rows {
        place.file("f", before);
        let arguments = json!({"path": "f", "old_text": old, "new_text": new, "replace_all": all});
        let output = place.call("edit", &arguments.to_string()).await;
        let shown = text(&output);
        assert_eq!(output.is_error, after.is_none(), "{arguments}: {shown}");
        assert!(shown.contains(said), "{arguments}: {shown}");
        assert_eq!(place.read("f"), after.unwrap_or(before), "{arguments}");
    }
    place.bytes("latin", b"caf\xe9 old\n");
    check(
        &place,
        "edit",
        json!({"path": "latin", "old_text": "old", "new_text": "new"}),
        Says("changed"),
    )
    .await;
    assert_eq!(fs::read(place.path("latin")).unwrap(), b"caf\xe9 new\n");
    check(
        &place,
        "edit",
        json!({"path": "none", "old_text": "a", "new_text": "b"}),
        Fails("does not exist"),
    )
    .await;
    place.assert_no_temp_files();
}

/// Names and places of many matches stay a short message.
#[tokio::test]
async fn a_diff_and_an_error_stay_short_on_large_files() {
    let place = Place::new();
    place.file("f", &"x\n".repeat(5000));
    check(
        &place,
        "edit",
        json!({"path": "f", "old_text": "x", "new_text": "y"}),
        Fails("5000 times (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 …)"),
    )
    .await;
    check(
        &place,
        "edit",
        json!({"path": "f", "old_text": "x", "new_text": "y", "replace_all": true}),
        Says("more lines of the diff are not shown"),
    )
    .await;
    place.file("g", &"x".repeat(5 << 20));
    check(&place, "write", json!({"path": "g", "content": "y"}), Says("too large to show a diff"))
        .await;
}

/// The intent names what was there, what will be, and the file that becomes it; and nothing is written
/// over anything else. Covers: G7.
#[tokio::test]
async fn a_write_goes_only_over_what_it_was_judged_over() {
    let place = Place::new();
    let call = place.tool_call("write", &json!({"path": "f", "content": "new"}).to_string());
    for (changed, said) in [
        ("judged", "changed since"),
        ("prepared", "changed by someone else"),
        ("never", "changed f"),
    ] {
        place.file("f", "judged");
        let Verdict::Run(plan) = place.tools.judge(&call).await else { panic!("allowed") };
        assert_eq!(plan.class, ReplayClass::Verified);
        if changed == "judged" {
            place.file("f", "somebody else's");
        }
        let output = match place.tools.prepare(&call, plan).await {
            Ok(plan) => {
                assert_eq!(plan.before.as_deref(), Some(&b"judged"[..]));
                let probe = plan.probe.unwrap();
                let probe: serde_json::Value = serde_json::from_str(probe.get()).unwrap();
                assert_eq!(probe["old_sha256"], segno_model::id::sha256_hex(b"judged"));
                assert_eq!(probe["new_sha256"], segno_model::id::sha256_hex(b"new"));
                assert_eq!(probe["way"], "exchange");
                assert_eq!(probe["path"], place.path("f").to_str().unwrap());
                let temp = place.path(probe["temp"].as_str().unwrap());
                assert_eq!(fs::read(&temp).unwrap(), b"new");
                assert_eq!(fs::metadata(&temp).unwrap().ino(), probe["ino"].as_u64().unwrap());
                if changed == "prepared" {
                    place.file("f", "somebody else's");
                }
                place.run(&call).await
            }
            Err(output) => output,
        };
        assert!(text(&output).contains(said), "{}", text(&output));
        let after = if changed == "never" { "new" } else { "somebody else's" };
        assert_eq!((output.is_error, place.read("f").as_str()), (changed != "never", after));
        place.assert_no_temp_files();
    }
}

/// What was prepared and does not run leaves nothing; what was never prepared does not run.
#[tokio::test]
async fn a_change_that_does_not_happen_leaves_nothing() {
    let place = Place::new();
    place.file("f", "old");
    for path in ["f", "a/b/new"] {
        let call = place.tool_call("write", &json!({"path": path, "content": "x"}).to_string());
        let Verdict::Run(plan) = place.tools.judge(&call).await else { panic!("allowed") };
        place.tools.prepare(&call, plan).await.unwrap();
        place.tools.discard(&call).await;
        assert!(place.run(&call).await.is_error);
        assert_eq!((place.read("f"), place.names()), ("old".to_owned(), vec!["f".to_owned()]));
    }
}

/// Above a size what a file held is not kept, and what became of a change is not promised. Covers: G7.
#[tokio::test]
async fn a_large_file_is_changed_without_the_promise() {
    let place = Place::new();
    place.file("f", &"x".repeat((16 << 20) + 1));
    let call = place.tool_call("write", r#"{"path":"f","content":"small"}"#);
    let Verdict::Run(plan) = place.tools.judge(&call).await else { panic!("allowed") };
    let plan = place.tools.prepare(&call, plan).await.unwrap();
    assert_eq!((plan.class, plan.before), (ReplayClass::Opaque, None));
    assert!(!place.run(&call).await.is_error);
    assert_eq!(place.read("f"), "small");
}

/// Two edits of one reply to one file both happen, also when both were judged first.
#[tokio::test]
async fn sibling_edits_of_one_file_add_up() {
    let place = Place::new();
    place.file("f", "one two\n");
    let edit = |old: &str, new: &str| {
        place.tool_call("edit", &json!({"path": "f", "old_text": old, "new_text": new}).to_string())
    };
    let (first, second) = (edit("one", "1"), edit("two", "2"));
    let mut plans = Vec::new();
    for call in [&first, &second] {
        let Verdict::Run(plan) = place.tools.judge(call).await else { panic!("allowed") };
        plans.push(plan);
    }
    // The same subject: the runtime prepares the second when the first has run.
    assert_eq!(plans[0].subject, plans[1].subject);
    for (call, plan) in [&first, &second].into_iter().zip(plans) {
        assert!(!place.carry_out(call, plan).await.is_error);
    }
    assert_eq!(place.read("f"), "1 2\n");
}

/// What the calls of one reply do to each other, although all are judged before the first runs.
#[tokio::test]
async fn calls_of_one_reply_build_on_each_other() {
    let place = Place::new();
    let write = |content: &str| json!({"path": "f", "content": content});
    let edit = |old: &str, new: &str| json!({"path": "f", "old_text": old, "new_text": new});
    let calls = [
        ("write", write("one\n")),
        ("edit", edit("one", "two")),
        ("edit", edit("two", "three")),
        ("write", write("four\n")),
        ("bash", json!({"command": "echo five >> f"})),
        ("edit", edit("five", "six")),
    ];
    let calls = calls.map(|(tool, arguments)| place.tool_call(tool, &arguments.to_string()));
    for call in &calls {
        assert!(matches!(place.tools.judge(call).await, Verdict::Run(_)), "{call:?}");
    }
    for call in &calls {
        let output = place.carry_out(call, ToolPlan::new(ReplayClass::Verified)).await;
        assert!(!output.is_error, "{call:?}: {}", text(&output));
    }
    assert_eq!(place.read("f"), "four\nsix\n");
}

/// A link that is turned between judging and running does not carry a write elsewhere.
#[tokio::test]
async fn a_write_goes_where_it_was_judged_to_go() {
    let place = Place::new();
    for (tool, arguments) in [
        ("write", json!({"path": "link", "content": "x"})),
        ("edit", json!({"path": "link", "old_text": "inside", "new_text": "x"})),
    ] {
        place.file("a", "inside");
        place.file("b", "inside");
        let _ = fs::remove_file(place.path("link"));
        symlink("a", place.path("link")).unwrap();
        let call = place.tool_call(tool, &arguments.to_string());
        place.tools.judge(&call).await;
        fs::remove_file(place.path("link")).unwrap();
        symlink("b", place.path("link")).unwrap();
        let output = place.carry_out(&call, ToolPlan::new(ReplayClass::Verified)).await;
        assert!(text(&output).contains("not where this path led"), "{}", text(&output));
        assert_eq!((place.read("a"), place.read("b")), ("inside".into(), "inside".into()));
    }
    let unjudged = place.tool_call("write", r#"{"path":"new","content":"x"}"#);
    let plan = ToolPlan::new(ReplayClass::Verified);
    assert!(place.carry_out(&unjudged, plan).await.is_error);
    assert!(!place.path("new").exists());
}

#[tokio::test]
async fn a_probe_says_absent_and_where_links_lead() {
    let place = Place::new();
    symlink("real", place.path("link")).unwrap();
    let call = place.tool_call("write", r#"{"path":"link","content":"x"}"#);
    let Verdict::Run(plan) = place.tools.judge(&call).await else { panic!("allowed") };
    let plan = place.tools.prepare(&call, plan).await.unwrap();
    let probe: serde_json::Value = serde_json::from_str(plan.probe.unwrap().get()).unwrap();
    assert_eq!(probe["old_sha256"], serde_json::Value::Null);
    assert_eq!(probe["way"], "new");
    assert_eq!(probe["path"], place.path("real").to_str().unwrap());
}

#[tokio::test]
async fn grep_searches_what_git_does_not_ignore() {
    let place = Place::new();
    place.file("src/a.rs", "fn main() {}\n// Needle here\nlast\n");
    place.file("src/b.txt", "needle\n");
    place.file(".hidden/c", "needle\n");
    place.file("target/d", "needle\n");
    place.file(".gitignore", "target/\n");
    place.file(".git/config", "needle\n");
    place.bytes("bin", b"needle\0needle\n");
    place.file("long", &format!("needle{}\n", "x".repeat(1000)));
    place.file("many", &"needle\n".repeat(300));
    let rows = [
        (json!({"pattern": "needle", "path": "src"}), Says("src/b.txt:1:needle\n")),
        (json!({"pattern": "needle", "path": "src/b.txt"}), Says("src/b.txt:1:needle\n")),
        (
            json!({"pattern": "needle", "path": "src", "ignore_case": true}),
            Says("src/a.rs:2:// Needle here\nsrc/b.txt:1:needle\n"),
        ),
        (
            json!({"pattern": "Needle", "context": 1}),
            Says("src/a.rs-1-fn main() {}\nsrc/a.rs:2:// Needle here\nsrc/a.rs-3-last\n"),
        ),
        (json!({"pattern": "main()", "literal": true}), Says("src/a.rs:1:")),
        (json!({"pattern": "^needle$", "glob": "*.txt"}), Says("src/b.txt:1:needle\n")),
        (
            json!({"pattern": "needle", "glob": "!many", "limit": 1}),
            Says("stopped after 1 matching lines"),
        ),
        (json!({"pattern": "needle", "path": ".hidden"}), Says(".hidden/c:1:")),
        (json!({"pattern": "needle", "hidden": true, "limit": 2}), Says(".hidden/c:1:needle")),
        (json!({"pattern": "needlex", "path": "long"}), Says("xxx …")),
        (json!({"pattern": "needle", "path": "many"}), Says("stopped after 100 matching lines")),
        (json!({"pattern": "nothing at all"}), Says("no matches for nothing at all")),
        (json!({"pattern": "needle", "path": "gone"}), Fails("gone: No such file")),
    ];
    for (arguments, want) in rows {
        check(&place, "grep", arguments, want).await;
    }
    let all =
        text(&place.call("grep", r#"{"pattern":"needle","hidden":true,"glob":"!many"}"#).await);
    for absent in ["target/d", ".git/config", "bin:"] {
        assert!(!all.contains(absent), "{absent}: {all}");
    }
}

#[tokio::test]
async fn find_lists_paths_in_a_stable_order() {
    let place = Place::new();
    for name in ["src/a.rs", "src/deep/b.rs", "c.rs", "README.md", ".hidden/d.rs", "target/e.rs"] {
        place.file(name, "");
    }
    place.file(".gitignore", "target/\n");
    let rows = [
        (json!({"glob": "*.rs"}), Says("c.rs\nsrc/a.rs\nsrc/deep/b.rs\n")),
        (json!({"glob": "src/*.rs"}), Says("src/a.rs\n")),
        (json!({"glob": "**/b.rs"}), Says("src/deep/b.rs\n")),
        (json!({"glob": "*.rs", "path": "src"}), Says("src/a.rs\nsrc/deep/b.rs\n")),
        (json!({"glob": "deep"}), Says("src/deep/\n")),
        (json!({"glob": "*.rs", "hidden": true}), Says(".hidden/d.rs\n")),
        (json!({"glob": "*.rs", "limit": 1}), Says("stopped after 1")),
        (json!({"glob": "*.none"}), Says("nothing matches")),
        (json!({}), Says("README.md\n")),
        (json!({"path": "gone"}), Fails("gone")),
    ];
    for (arguments, want) in rows {
        check(&place, "find", arguments, want).await;
    }
    let odd = std::ffi::OsStr::from_bytes(b"caf\xe9.rs");
    fs::write(place.root().join(odd), "").unwrap();
    check(&place, "find", json!({"glob": "*.rs"}), Says("caf\u{fffd}.rs\n")).await;
    check(&place, "ls", json!({}), Says("caf\u{fffd}.rs (0 bytes) (the name is not UTF-8)\n"))
        .await;
}

/// Covers: G17.
#[tokio::test]
async fn ls_shows_kinds_and_cannot_be_used_to_write_to_the_terminal() {
    let place = Place::new();
    place.file("a.txt", "12345");
    place.file("d/x", "");
    place.file("esc\u{1b}[2J", "");
    symlink("a.txt", place.path("link")).unwrap();
    let rows = [
        (json!({}), Says("a.txt (5 bytes)\nd/\nesc\\u{1b}[2J (0 bytes)\nlink -> a.txt\n")),
        (json!({"path": "d"}), Says("x (0 bytes)")),
        (json!({"path": "a.txt"}), Says("a.txt (5 bytes, not a directory)")),
        (json!({"path": "gone"}), Fails("gone")),
    ];
    for (arguments, want) in rows {
        check(&place, "ls", arguments, want).await;
    }
}

#[tokio::test]
async fn todo_gives_the_list_that_is_recorded() {
    let place = Place::new();
    let arguments = json!({
        "goal": "ship", "constraints": ["no force push"],
        "steps": [{"text": "build", "status": "done"}, {"text": "test", "status": "in_progress"}],
    });
    let output = place.call("todo", &arguments.to_string()).await;
    assert_eq!(text(&output), "ship\n[x] build\n[>] test\n");
    let task = output.task.unwrap();
    assert_eq!((task.goal.as_str(), task.constraints.len()), ("ship", 1));
    assert_eq!(task.steps[1].status, StepStatus::InProgress);
}

/// A directory that cannot be written to gives an error that leaves nothing behind; a writable file in it
/// is written in place. (As root nothing is unwritable, so there is nothing to see.) Covers: G7.
#[tokio::test]
async fn a_read_only_directory_is_an_error_without_leftovers() {
    let place = Place::new();
    place.file("d/f", "old");
    fs::set_permissions(place.path("d"), fs::Permissions::from_mode(0o555)).unwrap();
    let probe = fs::write(place.path("d/probe"), "");
    if probe.is_err() {
        check(&place, "write", json!({"path": "d/new", "content": "x"}), Fails("ermission denied"))
            .await;
        check(&place, "write", json!({"path": "d/f", "content": "x"}), Says("in place")).await;
    }
    fs::set_permissions(place.path("d"), fs::Permissions::from_mode(0o755)).unwrap();
    place.assert_no_temp_files();
}
