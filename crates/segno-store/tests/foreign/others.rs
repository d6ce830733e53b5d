//! Cline, Kimi and Qwen Code.

use crate::scene::{context, corpus, findings, lines, session, transcript};
use segno_model::Body;
use segno_model::record::{Message, Usage};
use segno_store::foreign::{Agent, Roots, View, locate, recognise};

const CLINE: &str = "foreign/cline/1772450000000/api_conversation_history.json";
const CLINE_CUT: &str = "foreign/cline/1772460000000/api_conversation_history.json";
const CLINE_SHOWN: &str = "foreign/cline/1772470000000";
const CASE_49: &str = "cases/49-truncated-json-array/1772442000000/api_conversation_history.json";

/// Tokens of messages and of usage records, with the key under which they count once.
fn usages(view: &View) -> Vec<(Option<String>, Usage)> {
    let usage = |read: &segno_store::foreign::ForeignRecord| match read.record.body() {
        Body::Message(message) => match &**message {
            Message::Assistant(reply) => reply.usage.map(|usage| (read.response.clone(), usage)),
            _ => None,
        },
        Body::Usage(spent) => Some((read.response.clone(), spent.usage)),
        _ => None,
    };
    view.records.iter().filter_map(usage).collect()
}

/// Covers: #12.
#[test]
fn a_cline_history_that_is_cut_gives_all_whole_messages() {
    let before = std::fs::read(corpus(CASE_49)).expect("it is there");
    let view = transcript(CASE_49);
    let text = |n| format!("M{n}-49 text with ] and , and \"quotes\" and {{ inside");
    assert_eq!(
        lines(&view),
        [
            "user: <task>\nM0-49 build the shelf\n</task>".to_owned(),
            format!("assistant: {}", text(1)),
            format!("user: {}", text(2)),
            format!("assistant: {}", text(3)),
            format!("user: {}", text(4)),
            // What was shown and is nowhere else.
            "custom cline.say".to_owned(),
        ]
    );
    assert_eq!(findings(&view), ["torn-array@1", "trailing-bytes@1"]);
    assert!(view.findings[0].sentence.contains("piece 6"), "{:?}", view.findings[0]);
    let shown = view.records.iter().filter_map(|read| match read.record.body() {
        Body::Custom(custom) => Some((read.copy, custom.data.get().contains("M5-49"))),
        _ => None,
    });
    let shown: Vec<_> = shown.collect();
    assert_eq!(shown.len(), 6);
    assert_eq!(shown.iter().filter(|(copy, _)| !copy).collect::<Vec<_>>(), [&(false, true)]);
    assert_eq!(std::fs::read(corpus(CASE_49)).expect("it is there"), before);
}

#[test]
fn a_cline_task_reads_with_its_tools_and_tokens() {
    let view = transcript(CLINE);
    assert_eq!(session(CLINE).agent, Agent::Cline);
    let environment = "user: <environment_details>\n# VSCode Visible Files\nkiln.py\n\n\
        # Current Working Directory (/home/ada/kiln) Files\nkiln.py\n</environment_details>";
    assert_eq!(
        lines(&view)[..16],
        [
            "user: <task>\nLight the kiln\n</task>",
            environment,
            "thinking: Gas first.",
            "assistant: Opening the valve.",
            "call execute_command toolu_k1 {\"command\":\"valve open\"}",
            "result toolu_k1: [execute_command for 'valve open'] Result:\nopened",
            environment,
            "assistant: It burns.",
            "call attempt_completion toolu_k2 {\"result\":\"lit\"}",
            "result toolu_k2: [attempt_completion] Result: The user has provided feedback.\n\
                <feedback>\nNow close it\n</feedback>",
            "user: <feedback>\nNow close it\n</feedback>",
            environment,
            "assistant: Closing.",
            "call execute_command toolu_k3 {\"command\":\"valve close\"}",
            "custom cline.ask",
            "custom cline.metadata.files_in_context",
        ]
    );
    assert_eq!(findings(&view), ["interrupted-call@1"]);
    assert_eq!(view.facts.titled.as_deref(), Some("Light the kiln"));
    assert_eq!(view.facts.cwd.as_deref(), Some("/home/ada/kiln"));
    assert_eq!(view.facts.version.as_deref(), Some("3.41.0"));
    assert_eq!(
        usages(&view),
        [
            (
                Some("cline:gen-1".to_owned()),
                Usage { input: 400, output: 30, cache_read: 600, ..Usage::default() }
            ),
            (
                Some("cline:gen-2".to_owned()),
                Usage { input: 100, output: 12, cache_read: 1000, ..Usage::default() }
            ),
        ]
    );
}

/// Covers: #12.
#[test]
fn what_cline_no_longer_sends_is_out_of_the_context_and_in_the_transcript() {
    let sent = context(CLINE_CUT);
    let without = |line: &&String| !line.contains("<environment_details>");
    assert_eq!(
        sent.iter().filter(without).collect::<Vec<_>>(),
        [
            "user: <task>\nCount the shelves\n</task>",
            "assistant: <read_file>\n<path>shelves.txt</path>\n</read_file>",
            "user: [ERROR] You did not use a tool in your previous response!",
            "assistant: <attempt_completion>\n<result>\nThree\n</result>\n</attempt_completion>",
            "user: [attempt_completion] Result:",
            "user: <feedback>\nCount again\n</feedback>",
        ]
    );
    let view = transcript(CLINE_CUT);
    assert!(
        lines(&view).contains(&"user: [read_file for 'shelves.txt'] Result: | 1\n2\n3".to_owned())
    );
    assert_eq!(view.facts.titled.as_deref(), Some("Count the shelves"));
    let spent = usages(&view);
    assert_eq!(spent.len(), 2);
    assert_eq!(
        spent[0].1,
        Usage { input: 700, output: 20, cache_read: 5, cache_write: 7, reasoning: None }
    );
}

/// Covers: #12.
#[test]
fn a_cline_task_of_which_only_the_shown_messages_are_left_is_a_session() {
    let view = View::transcript(&recognise(&corpus(CLINE_SHOWN)).expect("it is Cline's"));
    let view = view.expect("it reads");
    assert_eq!(
        lines(&view).into_iter().filter(|l| !l.starts_with("custom")).collect::<Vec<_>>(),
        ["user: Sweep the floor", "assistant: Swept.", "user: The corner too"]
    );
    assert_eq!(findings(&view), ["torn-array@1", "shown-only@1"]);
}

/// Covers: G14.
#[test]
fn cline_tasks_are_found_in_editors_and_in_the_tools_own_folder() {
    let home = tempfile::tempdir().expect("a folder");
    let editor = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks";
    for (place, task) in [(editor, "1772450000000"), (".cline/data/tasks", "1772460000000")] {
        let to = home.path().join(place).join(task);
        std::fs::create_dir_all(&to).expect("a folder");
        let from = corpus("foreign/cline").join(task).join("api_conversation_history.json");
        std::fs::copy(from, to.join("api_conversation_history.json")).expect("a copy");
    }
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let (mut found, failed) = locate(&roots);
    assert!(failed.is_empty(), "{failed:?}");
    found.sort_by(|a, b| a.id.cmp(&b.id));
    let ids: Vec<_> = found.iter().map(|s| (s.agent, s.id.as_deref())).collect();
    assert_eq!(ids, [(Agent::Cline, Some("1772450000000")), (Agent::Cline, Some("1772460000000"))]);
    assert!(found.iter().all(|session| View::transcript(session).is_ok()));
}

const KIMI: &str =
    "foreign/kimi/5f1c0a9e77d2b8431f6a0c4be9d3187a/3a1e6d5c-0001-4a7b-9c3d-000000000001";
const KIMI_COMPACTED: &str =
    "foreign/kimi/5f1c0a9e77d2b8431f6a0c4be9d3187a/3a1e6d5c-0002-4a7b-9c3d-000000000002";

/// Covers: #59.
#[test]
fn a_kimi_session_is_all_its_files_and_its_context_the_newest() {
    let name = &format!("{KIMI}/context.jsonl");
    let view = transcript(name);
    assert_eq!(session(name).agent, Agent::Kimi);
    assert_eq!(
        lines(&view),
        [
            "custom kimi._system_prompt",
            "custom kimi._checkpoint",
            "user: <system>CHECKPOINT 0</system>",
            "user: Warp the loom",
            "thinking: Threads.",
            "assistant: Warping.",
            "call Shell call_1 {\"command\":\"warp\"}",
            "call ReadFile call_2 {\"path\":\"pattern.txt\"}",
            "result call_1: <system>ERROR: Command failed with exit code: 1.</system> | no yarn",
            "result call_2: over, under",
            "assistant: There is no yarn.",
            "custom kimi._usage",
            "custom kimi._checkpoint",
            "user: Use the red yarn",
            "assistant: Red it is.",
            "user: Use the blue yarn",
            "assistant: Blue it is.",
            "call Shell call_3 {\"command\":\"weave\"}",
            "usage",
        ]
    );
    assert_eq!(findings(&view), ["interrupted-call@12"]);
    assert_eq!(view.facts.cwd.as_deref(), Some("/home/ada/loom"));
    assert_eq!(view.facts.named.as_deref(), Some("The loom"));
    assert_eq!(
        usages(&view),
        [(
            Some("kimi:msg-1".to_owned()),
            Usage { input: 300, output: 40, cache_read: 500, cache_write: 12, reasoning: None }
        )]
    );
    let dated: Vec<String> = view
        .records
        .iter()
        .filter(|read| read.dated && read.record.is_node())
        .map(|read| read.record.envelope.at.to_string())
        .collect();
    assert_eq!(
        dated,
        ["2026-07-04T21:20:00.250Z", "2026-07-04T21:20:09.000Z", "2026-07-04T21:20:20.500Z"]
    );
    let sent = context(name);
    assert!(!sent.iter().any(|line| line.contains("red yarn")), "{sent:?}");
    assert!(sent.contains(&"user: Use the blue yarn".to_owned()), "{sent:?}");
}

/// Covers: #41, #59.
#[test]
fn a_kimi_compaction_stands_behind_what_it_sums_up() {
    let name = &format!("{KIMI_COMPACTED}/context.jsonl");
    let view = transcript(name);
    assert_eq!(
        lines(&view).into_iter().filter(|line| !line.starts_with("custom")).collect::<Vec<_>>(),
        [
            "user: Spin the wool",
            "assistant: Spun.",
            "user: Cut the cloth",
            "assistant: Cut.",
            "summary: The wool was spun.",
            "user: Sew it",
            "assistant: Sewing.",
            "call Shell call_9 {\"command\":\"sew\"}",
        ]
    );
    let sent = context(name);
    assert!(sent[0].contains("The wool was spun."), "{sent:?}");
    assert_eq!(sent[1..4], ["user: Cut the cloth", "assistant: Cut.", "user: Sew it"]);
    // The call without a result is answered in the context, as unknown.
    assert!(sent[6].starts_with("result call_9: The outcome of this call is unknown"), "{sent:?}");
}

/// Covers: G14.
#[test]
fn kimi_sessions_and_their_subagents_are_found() {
    let home = tempfile::tempdir().expect("a folder");
    for name in ["context.jsonl", "context_1.jsonl", "wire.jsonl", "subagents/a1b2/context.jsonl"] {
        let from = corpus(KIMI).join(name);
        let to = home.path().join("share/sessions").join(&KIMI["foreign/kimi/".len()..]).join(name);
        std::fs::create_dir_all(to.parent().expect("it has one")).expect("a folder");
        std::fs::copy(from, to).expect("a copy");
    }
    let share = home.path().join("share").display().to_string();
    let env = [("KIMI_SHARE_DIR".to_owned(), share)].into();
    let (mut found, failed) =
        locate(&Roots { home: home.path().to_owned(), env, ..Roots::default() });
    assert!(failed.is_empty(), "{failed:?}");
    found.sort_by_key(|session| session.parent.is_some());
    let ids: Vec<_> = found.iter().map(|s| (s.id.as_deref(), s.parent.as_deref())).collect();
    let parent = "3a1e6d5c-0001-4a7b-9c3d-000000000001";
    assert_eq!(ids, [(Some(parent), None), (Some("a1b2"), Some(parent))]);
}

const QWEN: &str = "foreign/qwen/-home-ada-forge/chats/0b8a1f00-0000-4000-8000-00000000000a.jsonl";
const QWEN_COMPRESSED: &str =
    "foreign/qwen/-home-ada-forge/chats/0b8a1f00-0000-4000-8000-00000000000b.jsonl";
const QWEN_BRANCH: &str =
    "foreign/qwen/-home-ada-forge/chats/archive/0b8a1f00-0000-4000-8000-00000000000c.jsonl";
const QWEN_SUBAGENT: &str = "foreign/qwen/-home-ada-forge/subagents/\
    0b8a1f00-0000-4000-8000-00000000000a/agent-explore-7f3c.jsonl";

/// Covers: #38.
#[test]
fn a_qwen_session_reads_with_reused_call_ids_and_what_was_gone_back_from() {
    let view = transcript(QWEN);
    assert_eq!(session(QWEN).agent, Agent::Qwen);
    assert_eq!(
        lines(&view),
        [
            "model",
            "user: Forge a hinge",
            "thinking: Iron first.",
            "assistant: Heating.",
            "call run_shell_command call_0 {\"command\":\"heat\"}",
            "call read_file  {\"path\":\"hinge.md\"}",
            "result call_0: hot",
            "result : no such file",
            "assistant: Now the nail.",
            "call run_shell_command call_0 {\"command\":\"nail\"}",
            "result call_0: bent",
            "custom qwen.ui_telemetry",
            "user: <task-notification>done</task-notification>",
            "custom qwen.rewind",
            "user: Use a screw instead",
            "assistant: Screwed.",
        ]
    );
    assert!(view.findings.is_empty(), "{:?}", view.findings);
    let results: Vec<_> = view
        .records
        .iter()
        .filter_map(|read| match read.record.body() {
            Body::Message(message) => match &**message {
                Message::Tool(result) => Some((result.call_seq, result.outcome)),
                _ => None,
            },
            _ => None,
        })
        .collect();
    use segno_model::record::Outcome::{Done, Failed, Stopped};
    assert_eq!(results, [(Some(2), Done), (Some(2), Failed), (Some(5), Stopped)]);
    assert_eq!(view.facts.titled.as_deref(), Some("A hinge"));
    assert_eq!(view.facts.branch.as_deref(), Some("main"));
    let spent = usages(&view);
    // The total says whether thoughts are among the candidates.
    assert_eq!((spent[0].1.input, spent[0].1.output, spent[0].1.cache_read), (600, 50, 400));
    assert_eq!((spent[2].1.output, spent[2].1.reasoning), (13, Some(5)));
    let sent = context(QWEN);
    assert!(!sent.iter().any(|line| line.contains("task-notification")), "{sent:?}");
    assert!(sent.contains(&"user: Use a screw instead".to_owned()), "{sent:?}");
}

#[test]
fn a_qwen_compression_clips_and_the_tail_is_told() {
    let view = transcript(QWEN_COMPRESSED);
    assert_eq!(findings(&view), ["torn-tail@6", "interrupted-call@5"]);
    assert_eq!(
        lines(&view)[..4],
        [
            "user: Quench it",
            "assistant: Quenched.",
            "summary: <state_snapshot>The hinge is quenched.</state_snapshot>",
            "user: Temper it",
        ]
    );
    let sent = context(QWEN_COMPRESSED);
    assert!(sent[0].contains("The hinge is quenched."), "{sent:?}");
    assert_eq!(
        sent[1..3],
        ["assistant: Got it. Thanks for the additional context!", "user: Temper it"]
    );
}

#[test]
fn a_qwen_branch_counts_what_it_copied_once() {
    let (branch, original) = (transcript(QWEN_BRANCH), transcript(QWEN));
    let of = ("0b8a1f00-0000-4000-8000-00000000000a".to_owned(), Some("a2x".to_owned()));
    assert_eq!(branch.facts.fork_of, Some(of));
    assert!(branch.facts.archived);
    assert_eq!(branch.facts.named.as_deref(), Some("The other hinge"));
    assert_eq!(lines(&branch), ["user: In brass", "assistant: Brass."]);
    assert_eq!(findings(&branch), ["missing-parent@5"]);
    assert_eq!(
        context(QWEN_BRANCH)[..3],
        ["user: Forge a hinge", "assistant: Heating.", "user: In brass"]
    );
    assert_eq!(usages(&branch)[0].0.as_deref(), Some("qwen:a2x"));
    assert_eq!(usages(&original)[0].0.as_deref(), Some("qwen:a2"));
}

#[test]
fn a_qwen_subagent_names_its_parent() {
    let facts = transcript(QWEN_SUBAGENT).facts;
    assert_eq!(facts.parent.as_deref(), Some("0b8a1f00-0000-4000-8000-00000000000a"));
    assert_eq!(facts.id.as_deref(), Some("agent-explore-7f3c"));
    assert_eq!(facts.role.as_deref(), Some("Explore"));
}

/// Covers: G14.
#[test]
fn qwen_sessions_archived_ones_and_subagents_are_found() {
    let home = tempfile::tempdir().expect("a folder");
    for name in [QWEN, QWEN_BRANCH, QWEN_SUBAGENT] {
        let to = home.path().join(".qwen/projects").join(&name["foreign/qwen/".len()..]);
        std::fs::create_dir_all(to.parent().expect("it has one")).expect("a folder");
        std::fs::copy(corpus(name), to).expect("a copy");
    }
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let (mut found, failed) = locate(&roots);
    assert!(failed.is_empty(), "{failed:?}");
    found.sort_by(|a, b| a.id.cmp(&b.id));
    let told: Vec<_> = found.iter().map(|s| (s.archived, s.parent.is_some())).collect();
    assert_eq!(told, [(false, false), (true, false), (false, true)]);
}
