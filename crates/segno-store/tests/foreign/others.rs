//! Cline's tasks.

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
