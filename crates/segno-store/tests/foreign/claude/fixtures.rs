//! Files that Claude Code 2.1.332 wrote.

use super::{holds, kept, prompts, replies, results, said};
use crate::scene::{context, findings, lines, transcript};
use segno_model::Body;
use segno_model::record::{Established, Outcome, StopReason, Usage};
use segno_store::foreign::{Facts, View};

fn fixture(name: &str) -> String {
    format!("foreign/claude/{name}.jsonl")
}

/// What was said, without the reminders that open a session.
fn talk(name: &str) -> Vec<String> {
    let view = transcript(&fixture(name));
    said(&view).into_iter().filter(|line| !line.starts_with("user: <")).collect()
}

fn facts(view: &View) -> Facts {
    let facts = view.facts.clone();
    assert_eq!(facts.format.as_deref(), Some("jsonl"));
    assert_eq!(facts.version.as_deref(), Some("2.1.332"));
    assert_eq!(facts.cwd.as_deref(), Some("/home/dev/agents/proj-claude"));
    assert_eq!(facts.branch.as_deref(), Some("master"));
    assert!(facts.first_id.is_some());
    facts
}

/// Covers: G6, #24, #155.
#[test]
fn several_turns_with_parallel_tools() {
    let view = transcript(&fixture("multi-turn-tools"));
    assert_eq!(findings(&view), [""; 0]);
    let facts = facts(&view);
    assert_eq!(facts.id.as_deref(), Some("736050d5-5e0a-4ba0-adae-e919a6953bc3"));
    assert_eq!(facts.created.map(|at| at.to_string()).as_deref(), Some("2026-11-29T21:00:30.912Z"));
    assert_eq!(facts.pending, [""; 0]);
    let talked = [
        "user: RUN: echo one; ls",
        "assistant: I will run it.",
        "call Bash toolu_d1ba8187c2354851af917ca5 {\"command\":\"echo one; ls\",\"description\":\"run it\"}",
        "result toolu_d1ba8187c2354851af917ca5: one\na.txt",
        "assistant: done: got tool result",
        "user: RUN2: echo p1 &&& echo p2",
        "assistant: running two",
        "call Bash toolu_2c9d0f1295b14facb5757635 {\"command\":\"echo p1\",\"description\":\"a\"}",
        "call Bash toolu_a6b36fed202e4b6888d4b583 {\"command\":\"echo p2\",\"description\":\"b\"}",
        "result toolu_2c9d0f1295b14facb5757635: p1",
        "result toolu_a6b36fed202e4b6888d4b583: p2",
        "assistant: done: got tool result",
        "user: SAY: third turn",
        "assistant: third turn",
    ];
    assert_eq!(talk("multi-turn-tools"), talked);
    let context = context(&fixture("multi-turn-tools"));
    let sent: Vec<_> = context.iter().filter(|line| !line.starts_with("user: <")).collect();
    assert_eq!(sent[..talked.len()], talked.each_ref());
    // What the model was sent on the user's side is in the context, what stands in its system prompt not.
    assert!(holds(&context, "# gitStatus") && !holds(&context, "# Environment"));

    let usage = Usage { input: 1000, output: 10, reasoning: Some(0), ..Usage::default() };
    for reply in replies(&view) {
        assert_eq!(reply.usage, Some(usage));
        assert_eq!(reply.model.to_string(), "anthropic/claude-opus-5-5");
    }
    let responses: Vec<_> = view.records.iter().filter_map(|r| r.response.as_deref()).collect();
    assert_eq!(responses.len(), 5);
    assert!(responses[0].starts_with("msg_a710029bf7fd4c098beba78e/req_"), "{}", responses[0]);
    let stops: Vec<_> = replies(&view).iter().map(|reply| reply.stop).collect();
    let (tool, end) = (StopReason::ToolUse, StopReason::End);
    assert_eq!(stops, [tool, end, tool, end, end]);
    for result in results(&view) {
        assert_eq!((result.outcome, result.established), (Outcome::Done, Established::Origin));
    }
}

/// Covers: G13, G14.
#[test]
fn rows_without_a_counterpart_are_kept_as_they_are() {
    let name = fixture("multi-turn-tools");
    let view = transcript(&name);
    for kind in [
        "claude.api-request-shape",
        "claude.api-request-blob",
        "claude.api-request",
        "claude.attachment",
        "claude.atis-latch",
        "claude.cost-state",
        "claude.last-prompt",
        "claude.mode",
        "claude.queue-operation",
        "claude.tools-used",
        "claude.tool-use-result",
    ] {
        assert!(kept(&view).contains(&kind), "{kind}");
    }
    let text = std::fs::read_to_string(crate::scene::corpus(&name)).expect("readable");
    let rows: Vec<&str> = text.lines().collect();
    for read in &view.records {
        if let Body::Custom(custom) = read.record.body()
            && custom.name != "claude.tool-use-result"
        {
            let line = usize::try_from(read.origin.line.expect("known")).expect("small");
            assert_eq!(custom.data.get(), rows[line - 1]);
        }
    }
    // Every row is somewhere: in a message, or kept.
    let mut seen: Vec<u64> = view.records.iter().filter_map(|read| read.origin.line).collect();
    seen.sort_unstable();
    seen.dedup();
    let of_one_response = 3;
    assert_eq!(seen.len() + of_one_response, rows.len());
}

/// Covers: G6, #51.
#[test]
fn what_a_compaction_preserves_stands_behind_its_summary() {
    let name = fixture("compacted");
    let view = transcript(&name);
    assert_eq!(findings(&view), [""; 0]);
    assert_eq!(
        talk("compacted")[4..],
        [
            "assistant: done: got tool result",
            "user: SAY: more before compaction",
            "assistant: more before compaction",
            "summary: This session is being continued from a previous conversation that ran out of \
             con\u{2026}[elided 1004]",
            "user: SAY: after compaction",
            "assistant: after compaction",
        ]
    );
    let context = context(&name);
    assert!(context[0].contains("This session is being continued"));
    assert_eq!(context[1], "assistant: more before compaction");
    assert!(context[2].starts_with("user: <local-command-caveat>"));
    assert!(context[3].contains("<command-name>/compact</command-name>"));
    assert!(!holds(&context, "RUN: echo before compaction"));
    assert!(!holds(&context, "SAY: more before compaction"));
    let compaction = view.records.iter().find_map(|read| match read.record.body() {
        Body::Compaction(compaction) => Some(compaction),
        _ => None,
    });
    let compaction = compaction.expect("there is one");
    assert_eq!((compaction.tokens_before, compaction.tokens_after), (Some(1010), Some(2616)));
    assert_eq!(compaction.kept.len(), 1);
    // The summary, the caveat and the command are no prompts.
    assert_eq!(prompts(&view).len(), 3);
    assert_eq!(view.facts.command.as_deref(), Some("/compact keep it short"));
    assert!(lines(&view).contains(&"custom claude.system.compact_boundary".to_owned()));
}

/// Covers: G7, #32, #69.
#[test]
fn a_killed_call_is_interrupted_and_nothing_is_claimed_about_it() {
    for (name, line, call) in [
        ("killed-mid-tool", 23, "toolu_59286c3712154212969e83ed"),
        ("killed-parallel-one-done", 24, "toolu_c757a90de1754d7a9afa5a06"),
        ("killed-in-subagent", 23, "toolu_160e967f2ec34e86b8cad146"),
    ] {
        let view = transcript(&fixture(name));
        assert_eq!(findings(&view), [format!("interrupted-call@{line}")], "{name}");
        let context = context(&fixture(name));
        let last = context.last().expect("not empty");
        let unknown = format!("result {call}: The outcome of this call is unknown");
        assert!(last.starts_with(&unknown), "{name}: {last}");
        facts(&view);
    }
    let view = transcript(&fixture("killed-parallel-one-done"));
    let done = "result toolu_3cc8d7083a164ce99aa33967: quick-done".to_owned();
    assert_eq!(said(&view).last(), Some(&done));
    let context = context(&fixture("killed-parallel-one-done"));
    assert_eq!(context[context.len() - 2], done);
}

/// Covers: G7, G9, #32.
#[test]
fn what_a_resume_wrote_for_a_lost_call_is_unknown_and_its_filler_is_nobodys() {
    let name = "killed-mid-tool-then-resumed";
    let view = transcript(&fixture(name));
    assert_eq!(findings(&view), [""; 0]);
    let result = results(&view)[0];
    assert_eq!((result.outcome, result.established), (Outcome::Unknown, Established::Recovery));
    assert!(result.is_error);
    let replies = replies(&view);
    assert_eq!(replies[1].model.id, "<synthetic>");
    assert_eq!((replies[1].model.provider.as_str(), replies[1].usage), ("", None));
    assert_eq!(view.records.iter().filter(|read| read.response.is_some()).count(), 2);
    assert_eq!(
        talk(name)[4..],
        [
            "assistant: No response requested.",
            "user: SAY: continuing after crash",
            "assistant: continuing after crash",
        ]
    );
    // The beginning is what the file was before.
    let before = transcript(&fixture("killed-mid-tool"));
    let shape = |view: &View| -> Vec<_> {
        view.records.iter().map(|r| (r.record.envelope.clone(), r.origin.clone())).collect()
    };
    assert_eq!(shape(&view)[..shape(&before).len()], shape(&before));
}

/// Covers: G9.
#[test]
fn a_prompt_whose_reply_was_lost_waits_for_one() {
    let view = transcript(&fixture("killed-mid-stream"));
    assert_eq!(findings(&view), [""; 0]);
    assert_eq!(talk("killed-mid-stream"), ["user: HANGMID please"]);
    assert!(replies(&view).is_empty());
    facts(&view);
}

/// Covers: G7.
#[test]
fn a_command_that_was_terminated_failed() {
    let view = transcript(&fixture("sigterm-mid-tool"));
    assert_eq!(findings(&view), [""; 0]);
    let result = results(&view)[0];
    assert_eq!((result.outcome, result.is_error), (Outcome::Failed, true));
    let last = "result toolu_b3ca65d43f77415a8e2a4ce6: Exit code 137\na".to_owned();
    assert_eq!(talk("sigterm-mid-tool").last(), Some(&last));
}

/// Covers: #141.
#[test]
fn a_subagent_is_a_session_of_its_own_that_knows_its_parent() {
    let view = transcript(&fixture("subagent-child"));
    assert_eq!(findings(&view), [""; 0]);
    let facts = facts(&view);
    assert_eq!(facts.id.as_deref(), Some("a4afbefcbee12acc7"));
    assert_eq!(facts.parent.as_deref(), Some("eeef4ea1-738a-476d-aa72-302923605ccb"));
    assert_eq!(facts.call.as_deref(), Some("toolu_1c004dbc65f64995affc77b8"));
    assert_eq!(facts.role.as_deref(), Some("general-purpose"));
    let talk = talk("subagent-child");
    assert_eq!(talk.first().map(String::as_str), Some("user: RUN: echo from-subagent"));
    assert_eq!(talk.last().map(String::as_str), Some("assistant: done: got tool result"));
    assert_eq!(talk.len(), 8);
    assert!(view.records.iter().all(|read| read.subagent.is_none()));

    let parent = transcript(&fixture("subagent-parent"));
    assert_eq!(findings(&parent), [""; 0]);
    assert_eq!(parent.facts.id, facts.parent);
    assert_eq!(parent.facts.parent, None);
    assert_eq!(results(&parent)[0].name, "Agent");
}
