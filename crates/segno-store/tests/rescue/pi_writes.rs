//! pi's version 4, in both dialects: what the library that writes it opens after a repair.

use crate::bench::{keeps_its_promises, session};
use crate::pi_opens::refused;
use segno_store::foreign::Located;

const LANES: &str = "31-v4-lanes-agent-core-0.84.4-api.jsonl";
const VALUES: &str = "32-v4-values-agent-core-0.87.1-api.jsonl";

fn named(name: &str) -> Located {
    session(&format!("foreign/pi/{name}"))
}

fn entry(lane: bool, n: u64, parent: Option<&str>, message: &str) -> String {
    let lane = if lane { "\"lane\":\"main\"," } else { "" };
    let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
    format!(
        "{{\"kind\":\"entry\",{lane}\"type\":\"message\",\"id\":\"e{n}\",\"parentId\":{parent},\"message\":{message},\"seq\":{n},\"timestamp\":17959854230{n:02}}}"
    )
}

fn user(text: &str) -> String {
    format!("{{\"role\":\"user\",\"content\":\"{text}\",\"timestamp\":1}}")
}

fn call(id: &str) -> String {
    format!(
        "{{\"role\":\"assistant\",\"content\":[{{\"type\":\"toolCall\",\"id\":\"{id}\",\"name\":\"bash\",\"arguments\":{{}}}}],\"api\":\"x\",\"provider\":\"fake\",\"model\":\"fake-1\",\"usage\":{{\"input\":1,\"output\":1,\"cacheRead\":0,\"cacheWrite\":0,\"totalTokens\":2,\"cost\":{{\"total\":0}}}},\"stopReason\":\"toolUse\",\"timestamp\":1}}"
    )
}

fn result(id: &str, text: &str) -> String {
    format!(
        "{{\"role\":\"toolResult\",\"toolCallId\":\"{id}\",\"toolName\":\"bash\",\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"isError\":false,\"timestamp\":1}}"
    )
}

const HEADERS: [&str; 2] = [
    r#"{"v":4,"kind":"header","id":"01a22912-31d5-72b9-b4bf-ad4b97de4fe6","storageVersion":1,"createdAt":1795985387989,"cwd":"/srv/kiln"}"#,
    r#"{"kind":"header","version":4,"id":"01a22912-ba90-7009-a386-b9dc515e8ced","createdAt":1795985422998,"cwd":"/srv/kiln"}"#,
];

/// Covers: #7, #9, #10, #11, #24, #36. What the library refuses a whole file for, in either dialect.
#[test]
fn what_the_library_refuses_is_mended() {
    for (dialect, name) in [VALUES, LANES].into_iter().enumerate() {
        let lane = dialect == 1;
        let e = |n, parent: Option<&str>, message: &str| entry(lane, n, parent, message);
        let (one, two) = (e(1, None, &user("ONE")), e(2, Some("e1"), &user("TWO")));
        let three = e(3, Some("e2"), &user("THREE"));
        let called = e(2, Some("e1"), &call("c1"));
        let done = e(3, Some("e2"), &result("c1", "DONE"));
        let again = e(4, Some("e3"), &result("c1", "AGAIN"));
        let after = e(5, Some("e4"), &user("AFTER"));
        let moved = if lane {
            r#"{"kind":"lane","seq":3,"lane":"main","leafId":"gone"}"#
        } else {
            r#"{"kind":"value","op":"set","seq":3,"namespace":"pi.branch.tip","key":"main","value":"gone"}"#
        };
        let head = HEADERS[dialect];
        let rows: [(&str, Vec<&str>, &[&str]); 10] = [
            ("whole", vec![head, &one, &two, &three], &[]),
            ("a line is lost", vec![head, &one, &three], &["missing-parent"]),
            (
                "a line is torn",
                vec![head, &one, &two[..40], &three],
                &["torn-line", "missing-parent"],
            ),
            ("a line is empty", vec![head, &one, "", &two], &["torn-line"]),
            ("a line stands twice", vec![head, &one, &two, &two, &three], &["repeated-record"]),
            ("a number comes again", vec![head, &two, &one], &["ordinals"]),
            ("the header is lost", vec![&one, &two], &["missing-header"]),
            ("the header is last", vec![&one, &two, head], &["missing-header"]),
            ("it stands nowhere", vec![head, &one, &two, moved], &["stale-tip"]),
            (
                "a second result",
                vec![head, &one, &called, &done, &again, &after],
                &["second-result"],
            ),
        ];
        for (shown, rows, rules) in rows {
            let shown = format!("{name}: {shown}");
            let bytes = rows.join("\n") + "\n";
            assert_eq!(
                refused(bytes.as_bytes()).is_none(),
                rules.is_empty() || rules == ["second-result"],
                "{shown}"
            );
            let result =
                keeps_its_promises(&named(name), bytes.as_bytes(), &shown).expect("it reads");
            for rule in rules {
                assert!(
                    result.changes.iter().any(|change| change.starts_with(rule)),
                    "{shown}: {:?}",
                    result.changes
                );
            }
            assert!(
                !rules.is_empty() || result.changes.is_empty(),
                "{shown}: {:?}",
                result.changes
            );
        }
    }
}

/// Calls without a result get none, as the library settles them itself, and the person is told.
#[test]
fn what_is_not_repaired_in_version_4_is_said() {
    use crate::bench::Copy;
    use segno_store::rescue;
    for (dialect, name) in [VALUES, LANES].into_iter().enumerate() {
        let lane = dialect == 1;
        let rows = [
            HEADERS[dialect].to_owned(),
            entry(lane, 1, None, &user("ONE")),
            entry(lane, 2, Some("e1"), &call("c1")),
        ];
        let tip = r#"{"kind":"value","op":"set","seq":3,"namespace":"pi.branch.tip","key":"main","value":"e2"}"#;
        let tip = if lane { String::new() } else { format!("{tip}\n") };
        let copy = Copy::of(&named(name), format!("{}\n{tip}", rows.join("\n")).as_bytes());
        let plan = rescue::plan(&copy.session).expect("it reads");
        assert!(plan.is_empty(), "{name}: {:?}", plan.changes);
        assert!(plan.notes[0].contains("pi itself refuses"), "{name}: {:?}", plan.notes);
        assert!(plan.notes[1].starts_with("1 calls have no result"), "{name}: {:?}", plan.notes);
    }
    let plan = rescue::plan(&named("02-tool-calls.jsonl")).expect("it reads");
    assert_eq!(plan.notes, [""; 0]);
}

/// A byte in the name of any member of any write costs no more than that write: the library opens the rest.
#[test]
fn a_lost_member_of_a_write_does_not_close_the_file() {
    for name in [VALUES, LANES] {
        let session = named(name);
        let text = std::fs::read_to_string(&session.path).expect("it is in the corpus");
        for member in [
            "kind",
            "id",
            "parentId",
            "seq",
            "type",
            "timestamp",
            "lane",
            "op",
            "namespace",
            "key",
            "value",
        ] {
            let key = format!("\"{member}\":");
            for at in memchr::memmem::find_iter(text.as_bytes(), &key).step_by(3) {
                let bent = format!("{}\"b\u{e9}nt\":{}", &text[..at], &text[at + key.len()..]);
                let shown = format!("{name}: {member} at {at}");
                keeps_its_promises(&session, bent.as_bytes(), &shown).expect("it reads");
            }
        }
    }
}

/// A line that was written again with another byte in one of its writes says nothing anew but that write: the session
/// stays where it was.
#[test]
fn a_damaged_copy_of_a_line_moves_nothing() {
    for name in [VALUES, LANES] {
        let session = named(name);
        let text = std::fs::read(&session.path).expect("it is in the corpus");
        let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty());
        for (n, line) in lines.enumerate().skip(1) {
            for at in (n % 7..line.len()).step_by(41) {
                let mut copy = line.to_vec();
                copy[at] = 0xFE;
                let bent = [&text[..], &copy, b"\n"].concat();
                let shown = format!("{name}: line {} again, with another byte at {at}", n + 1);
                keeps_its_promises(&session, &bent, &shown).expect("it reads");
            }
        }
    }
}
