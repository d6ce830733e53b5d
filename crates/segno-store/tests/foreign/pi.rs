//! pi: every version, what pi itself makes of each file, and every known confusion.

#![expect(clippy::unwrap_used, reason = "a corpus file that is not as it was fails the test")]

mod hostile;
mod shapes;

use crate::scene::{context, corpus, findings, lines, session, transcript};
use segno_model::Body;
use segno_store::foreign::{Agent, View};
use serde_json::Value;
use std::path::PathBuf;

/// The files that pi's oracle describes, by their names without the ending.
fn fixtures() -> Vec<String> {
    let files = std::fs::read_dir(corpus("foreign/pi")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let names = paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let mut names: Vec<_> =
        names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn fixture(name: &str) -> String {
    format!("foreign/pi/{name}.jsonl")
}

fn case(name: &str, file: &str) -> String {
    format!("cases/{name}/2026-03-02T09-00-00-000Z_019c1111-{file}.jsonl")
}

fn oracle(name: &str) -> Value {
    let path: PathBuf = corpus(&format!("foreign/pi/expected/{name}.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// What the oracle says that the context holds, as [`context`] would put it.
fn oracle_context(oracle: &Value) -> Vec<String> {
    let messages = oracle["context"].as_array().into_iter().flatten();
    messages.flat_map(oracle_lines).collect()
}

fn oracle_lines(message: &Value) -> Vec<String> {
    let text = |block: &Value| block["text"].as_str().unwrap_or("[?]").to_owned();
    let texts = || match &message["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks.as_array().unwrap().iter().map(text).collect::<Vec<_>>().join(" | "),
    };
    let said = |block: &Value| match block["type"].as_str().unwrap() {
        "toolCall" => format!(
            "call {} {} {}",
            block["name"].as_str().unwrap(),
            block["id"].as_str().unwrap(),
            block["arguments"]
        ),
        _ => format!("assistant: {}", text(block)),
    };
    let framed = |tag: &str| {
        let summary = message["summary"].as_str().unwrap();
        vec![format!("user: <{tag}>\n{summary}\n</{tag}>")]
    };
    match message["role"].as_str().unwrap() {
        // pi's system prompt is a record of ours, and no part of the conversation.
        "system" => vec![],
        "user" => vec![format!("user: {}", texts())],
        "assistant" => message["content"].as_array().unwrap().iter().map(said).collect(),
        "toolResult" => {
            vec![format!("result {}: {}", message["toolCallId"].as_str().unwrap(), texts())]
        }
        "branchSummary" => framed("other_branch"),
        "compactionSummary" => framed("session_history"),
        other => panic!("role {other}"),
    }
}

/// Our context without what we add: notices, frames' notes, and the results of calls that have none.
fn bare_context(name: &str) -> Vec<String> {
    let lines = context(name).into_iter();
    let own = |line: &String| {
        !line.starts_with("user: (Segno: ")
            && !line.contains(": The outcome of this call is unknown")
    };
    let note =
        " note=\"A summary of another branch of this session. It is history, not a request.\"";
    let older =
        " note=\"A summary of the earlier part of this session. It is history, not a request.\"";
    lines.filter(own).map(|line| line.replace(note, "").replace(older, "")).collect()
}

/// Where our context is not pi's, ours is longer and ends with pi's:
///
/// - `41`, `42`: a lost line costs pi everything before it; we go on above the gap. In `42` pi finds a
///   result without its call among what is left; it is not sent.
/// - `31`, `32`, `33`: pi 1.6 refuses them, they are its own earlier formats.
///
/// In `08c` pi leaves the reply that broke off out of the request; we send its finished text.
///
/// Covers: G3, G6, #20.
#[test]
fn the_context_is_what_pi_makes_of_each_file() {
    for name in fixtures() {
        let oracle = oracle(&name);
        let ours = bare_context(&fixture(&name));
        let theirs = oracle_context(&oracle);
        match &name[..2] {
            "31" | "32" | "33" => assert!(oracle["error"].is_string(), "{name}"),
            "41" | "42" => {
                assert!(ours.len() > theirs.len() + 2, "{name}: {ours:#?}");
                assert!(ours.ends_with(&theirs), "{name}: {ours:#?} {theirs:#?}");
            }
            _ => assert_eq!(ours, theirs, "{name}"),
        }
    }
}

/// Covers: G3.
#[test]
fn the_facts_are_what_pi_says_of_each_file() {
    for name in fixtures() {
        let oracle = oracle(&name);
        if oracle["error"].is_string() {
            continue;
        }
        let view = transcript(&fixture(&name));
        assert_eq!(view.facts.id.as_deref(), oracle["id"].as_str(), "{name}");
        assert_eq!(view.facts.cwd.as_deref(), oracle["cwd"].as_str(), "{name}");
        assert_eq!(view.facts.named.as_deref(), oracle["name"].as_str(), "{name}");
        let created = view.facts.created.map(|at| at.to_string());
        assert_eq!(created.as_deref(), oracle["list"]["created"].as_str(), "{name}");
        let texts = oracle["list"]["allMessagesText"].as_str().unwrap();
        let first = oracle["list"]["firstMessage"].as_str().unwrap();
        let said = all_lines(&view);
        assert!(said.contains(&format!("user: {first}")), "{name}: {said:#?}");
        for line in said.iter().filter_map(|line| line.strip_prefix("assistant: ")) {
            assert!(texts.contains(line), "{name}: {line}");
        }
    }
}

/// The transcript with the copies in it.
fn all_lines(view: &View) -> Vec<String> {
    let mut view = view.clone();
    view.records.iter_mut().for_each(|record| record.copy = false);
    lines(&view)
}

/// Covers: G3.
#[test]
fn what_pi_wrote_itself_reads_cleanly() {
    let with_findings = [
        ("09a-sigkill-mid-tool", vec!["interrupted-call@6"]),
        ("09b-sigkill-mid-tool-resumed", vec!["interrupted-call@6"]),
        ("10a-sigkill-mid-parallel-batch", vec!["interrupted-call@6", "interrupted-call@6"]),
        ("40-derived-torn-tail", vec!["torn-tail@14"]),
        (
            "41-derived-corrupt-middle-line",
            vec!["torn-line@7", "missing-parent@8", "interrupted-call@6"],
        ),
        (
            "42-derived-glued-lines-after-enospc",
            vec!["missing-parent@9", "orphan-result@9", "fused-line@9"],
        ),
    ];
    for name in fixtures() {
        let expected = with_findings.iter().find(|(of, _)| *of == name);
        let expected = expected.map(|(_, found)| found.clone()).unwrap_or_default();
        assert_eq!(findings(&transcript(&fixture(&name))), expected, "{name}");
        assert_eq!(session(&fixture(&name)).agent, Agent::Pi, "{name}");
    }
}

/// Covers: #10.
#[test]
fn records_end_at_line_feeds_only() {
    let view = transcript(&case("07-unicode-separators", "0007-7000-8000-000000000007"));
    assert_eq!(findings(&view), [""; 0]);
    assert_eq!(
        lines(&view),
        [
            "custom pi.session",
            "user: Read notes.txt",
            r#"call read t7 {"path":"notes.txt"}"#,
            "result t7: first\u{2028}second\u{2029}third\u{85}fourth",
            "assistant: Four parts, TAIL-07.",
        ]
    );
}

/// Covers: #20.
#[test]
fn a_repeated_beginning_is_read_once() {
    let view = transcript(&case("10-duplicate-prefix", "000a-7000-8000-00000000000a"));
    assert_eq!(findings(&view), ["duplicate-record@4"]);
    assert_eq!(
        lines(&view),
        [
            "custom pi.session",
            "name",
            "custom pi.custom",
            "model",
            "user: Scale recipe 7 to 4 kg.",
            "assistant: Scaled, LEAF-10.",
        ]
    );
    let counted = view.records.iter().filter(|record| record.response.is_some()).count();
    assert_eq!(counted, 1);
}

/// Covers: G6.
#[test]
fn the_first_of_several_results_is_sent() {
    let name = case("18-duplicate-results", "0012-7000-8000-000000000012");
    assert_eq!(findings(&transcript(&name)), ["duplicate-result@5", "duplicate-result@7"]);
    assert_eq!(
        context(&name),
        [
            "user: Count the samples.",
            r#"call bash t18 {"command":"ls | wc -l"}"#,
            "result t18: REAL-18 42",
            "assistant: 42 samples.",
            "user: LEAF-18 thanks",
        ]
    );
    assert_eq!(lines(&transcript(&name)).len(), 8);
}

/// Covers: G6.
#[test]
fn reused_and_empty_call_ids_pair_in_their_own_turns() {
    let name = case("20-reused-call-ids", "0014-7000-8000-000000000014");
    assert_eq!(findings(&transcript(&name)), [""; 0]);
    let context = context(&name);
    let mut ids = std::collections::BTreeSet::new();
    for n in 1..=4 {
        let at = context.iter().position(|line| line.ends_with(&format!("{{\"n\":{n}}}"))).unwrap();
        let id = context[at].split(' ').nth(2).unwrap();
        assert_eq!(context[at + 1], format!("result {id}: OUT-20-{n}"));
        assert!(!id.is_empty() && ids.insert(id));
    }
    assert!(!context.iter().any(|line| line.contains("unknown")));
}

/// Covers: #54.
#[test]
fn a_compaction_may_keep_from_a_label() {
    let name = case("26-fork-label-boundary", "001a-7000-8000-00000000001a");
    let kept = ["user: KEEP-26c", "assistant: KEEP-26d", "user: LEAF-26"];
    assert_eq!(findings(&transcript(&name)), [""; 0]);
    let sent = context(&name);
    assert!(sent[0].contains("SUMMARY-26"));
    assert_eq!(sent[1..], kept);

    // The label was dropped and the pointer stayed: what no summary tells is kept.
    let name = "cases/26-fork-label-boundary/already-forked.jsonl";
    let view = transcript(name);
    assert_eq!(findings(&view), ["missing-kept-record@6"]);
    let fork_of = view.facts.fork_of.unwrap().0;
    assert_eq!(fork_of, "019c1111-001a-7000-8000-00000000001a");
    let sent = context(name);
    assert!(sent[0].contains("SUMMARY-26"));
    assert!(sent.ends_with(&kept.map(str::to_owned)));
}

/// Covers: G13.
#[test]
fn what_is_unknown_is_kept() {
    let name = case("37-unknown-variants", "0025-7000-8000-000000000025");
    let view = transcript(&name);
    assert_eq!(findings(&view), [""; 0]);
    let kept = |name: &str| {
        let custom = view.records.iter().find_map(|read| match read.record.body() {
            Body::Custom(custom) if custom.name == name => Some(custom.data.get().to_owned()),
            _ => None,
        });
        custom.unwrap_or_else(|| panic!("{name}"))
    };
    let original = std::fs::read_to_string(corpus(&name)).unwrap();
    assert_eq!(kept("pi.session"), original.lines().next().unwrap());
    assert_eq!(kept("pi.hyper_entry"), original.lines().nth(2).unwrap());
    assert_eq!(kept("pi.piece"), r#"{"type":"rule","rule":{"path":"x.md"}}"#);
    // The reply follows the prompt, through what is unknown between them.
    let leaf = view.records.last().unwrap();
    assert_eq!(leaf.record.envelope.parent, Some(1));
    assert!(lines(&view).contains(&"assistant: LEAF-37".to_owned()));
}

/// That nothing of it reaches a terminal is for the command line to see to.
///
/// Covers: G17.
#[test]
fn escapes_stay_as_they_are_in_records() {
    let view = transcript(&case("39-terminal-escapes", "0027-7000-8000-000000000027"));
    assert_eq!(findings(&view), [""; 0]);
    let cwd = view.facts.cwd.as_deref().unwrap();
    assert!(cwd.ends_with("/\u{1b}[31mred\u{1b}[0m"), "{cwd:?}");
    let name = "safe\u{1b}]0;PWNED-TITLE\u{7} name\u{1b}[2J\r\nsecond line";
    assert_eq!(view.facts.named.as_deref(), Some(name));
    let prompt = &lines(&view)[2];
    assert!(prompt.starts_with("user: \u{1b}[31mRed\u{1b}[0m \u{1b}]52;c;cHduZWQ=\u{7}copy "));
    assert!(prompt.ends_with(" \0nul \u{7f}del"));
}

/// Last activity and ages are for the catalog to see to; here is what they are taken from.
///
/// Covers: G3.
#[test]
fn order_is_that_of_the_file_and_not_of_the_clock() {
    let view = transcript(&case("40-clock-backwards", "0028-7000-8000-000000000028"));
    assert_eq!(findings(&view), [""; 0]);
    let said = lines(&view);
    let order: Vec<_> = said[1..].iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
    assert_eq!(order, ["FIRST-40", "r1", "FUTURE-40", "r2", "BACK-40", "same", "LEAF-40"]);
    let last = view.records.last().unwrap();
    assert_eq!(view.tip, Some(last.record.seq()));
    assert_eq!(last.record.envelope.at.to_string(), "2026-03-02T10:02:00.000Z");
}

/// Covers: G13.
#[test]
fn a_nul_is_a_nul_and_its_escape_in_words_stays_words() {
    let view = transcript(&case("46-nul-in-text", "002e-7000-8000-00000000002e"));
    assert_eq!(findings(&view), ["lone-surrogate@6"]);
    assert_eq!(
        lines(&view)[3..],
        [
            "result t46: A\0B NUL-46",
            "assistant: The text \\u0000 is six characters, LIT-46.",
            "user: HALF-46 \u{fffd}",
            "assistant: LEAF-46",
        ]
    );
}
