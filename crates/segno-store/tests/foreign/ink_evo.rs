//! Ink's and evo-agent's sessions.

use crate::scene::{context, findings, lines, session, transcript};
use segno_model::Body;
use segno_model::record::Message;
use segno_store::foreign::{Agent, Roots, View, locate};

const EVO: &str = "foreign/evo/1780452000125_9f3a01c7/messages.jsonl";
const EVO_CHILD: &str = "foreign/evo/1780452000125_9f3a01c7/subagent/\
    1780452031000_find-the-glaze-table_0c44de19.jsonl";
const EVO_RESUMED: &str = "foreign/evo/1780453000000_00c0ffee/messages.jsonl";
const EVO_FUSED: &str = "foreign/evo/1780454000000_deadbea7/messages.jsonl";

fn notices(view: &View) -> Vec<String> {
    let notice = |read: &segno_store::foreign::ForeignRecord| match read.record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) => user.notice.clone(),
            _ => None,
        },
        _ => None,
    };
    view.records.iter().filter_map(notice).collect()
}

/// Covers: EV1, EV2, EV4, EV9.
#[test]
fn an_evo_session_reads_with_its_tools_subagent_and_goal() {
    let view = transcript(EVO);
    assert_eq!(session(EVO).agent, Agent::Evo);
    assert_eq!(
        lines(&view),
        [
            "task",
            "user: Where is the glaze table?",
            "assistant: I will look.",
            "call task toolu_01 {\"prompt\":\"Find the glaze table\"}",
            "child",
            "child",
            "result toolu_01: It is in data/glaze.csv.",
            "assistant: It is in data/glaze.csv.",
            "user: <background-results>\n[bg:a3f9c2d1] completed\n</background-results>",
            "user: Fire it to cone 6 ☕",
            "assistant: Running both.",
            "call bash toolu_02 {\"command\":\"./fire --cone 6\"}",
            "call read toolu_03 {\"path\":\"data/glaze.csv\"}",
            "result toolu_02: exit status 1",
        ]
    );
    assert_eq!(findings(&view), ["interrupted-call@11"]);
    assert_eq!(notices(&view), ["injected"]);
    let facts = &view.facts;
    assert_eq!(facts.id.as_deref(), Some("1780452000125_9f3a01c7"));
    assert_eq!(facts.cwd.as_deref(), Some("/home/ada/kiln"));
    assert_eq!(facts.branch.as_deref(), Some("main"));
    assert_eq!(facts.version.as_deref(), Some("0.9.2"));
    assert_eq!(facts.created.map(|at| at.to_string()).as_deref(), Some("2026-06-03T02:00:00.125Z"));
    // The result of the subagent is sent once, behind its call.
    let sent = context(EVO);
    assert_eq!(sent.iter().filter(|line| line.contains("data/glaze.csv.")).count(), 2);
    assert_eq!(sent[3], "result toolu_01: It is in data/glaze.csv.");
}

/// Covers: EV4, EV7.
#[test]
fn an_evo_subagent_names_its_parent() {
    let view = transcript(EVO_CHILD);
    assert_eq!(view.facts.parent.as_deref(), Some("1780452000125_9f3a01c7"));
    assert_eq!(view.facts.role.as_deref(), Some("find-the-glaze-table"));
    assert_eq!(view.facts.id.as_deref(), Some("1780452031000_find-the-glaze-table_0c44de19"));
    assert_eq!(
        context(EVO_CHILD),
        [
            "user: Find the glaze table",
            "call grep toolu_s1 {\"pattern\":\"glaze\"}",
            "result toolu_s1: data/glaze.csv:1:cone,glaze",
            "assistant: It is in data/glaze.csv.",
        ]
        .map(str::to_owned)
        .into_iter()
        .chain(context_end())
        .collect::<Vec<_>>()
    );
}

/// What stands behind a turn of the model with which a history ends.
fn context_end() -> [String; 1] {
    [format!("user: {}", segno_model::context::CONTINUE_NOTICE)]
}

/// Covers: EV3, EV5.
#[test]
fn an_evo_boundary_clips_and_an_empty_summary_forgets_nothing() {
    let view = transcript(EVO_RESUMED);
    assert_eq!(view.facts.fork_of, Some(("1780452000125_9f3a01c7".to_owned(), None)));
    assert_eq!(findings(&view), ["history-elsewhere@2", "empty-summary@8"]);
    let sent = context(EVO_RESUMED);
    assert_eq!(sent.len(), 4, "{sent:?}");
    assert!(sent[0].contains("The kiln was fired to cone 6"), "{sent:?}");
    assert_eq!(sent[1..], ["user: And the shelves?", "assistant: Washed.", "user: Thanks"]);
}

/// Covers: G3.
#[test]
fn records_that_evo_fused_are_read_one_by_one() {
    let view = transcript(EVO_FUSED);
    assert_eq!(
        lines(&view),
        [
            "user: Stack the shelves",
            "assistant: Stacked.",
            "user: Is it level?",
            "custom evo.glaze_report",
        ]
    );
    assert_eq!(findings(&view), ["fused-line@2", "fused-line@3", "torn-tail@5"]);
}

/// Covers: G14.
#[test]
fn evo_sessions_are_found_in_the_projects_that_are_known() {
    let home = tempfile::tempdir().expect("a folder");
    let project = home.path().join("kiln");
    for name in [EVO, EVO_CHILD] {
        let to = project.join(".evo-agent/sessions").join(&name["foreign/evo/".len()..]);
        std::fs::create_dir_all(to.parent().expect("it has one")).expect("a folder");
        std::fs::copy(crate::scene::corpus(name), to).expect("a copy");
    }
    let roots = Roots { home: home.path().to_owned(), projects: vec![project], ..Roots::default() };
    let (mut found, failed) = locate(&roots);
    assert!(failed.is_empty(), "{failed:?}");
    found.sort_by_key(|session| session.parent.is_some());
    let ids: Vec<_> = found.iter().map(|s| (s.id.as_deref(), s.parent.as_deref())).collect();
    let parent = "1780452000125_9f3a01c7";
    let child = "1780452031000_find-the-glaze-table_0c44de19";
    assert_eq!(ids, [(Some(parent), None), (Some(child), Some(parent))]);
}

const INK: &str = "foreign/ink/-home-ada-wheel--shop/2026-07-04T09-00-00_5b0c.jsonl";
const INK_CHILD: &str = "foreign/ink/-home-ada-wheel--shop/children/2026-07-04T09-00-04_77aa.jsonl";
const INK_COMPACTED: &str = "foreign/ink/-home-ada-wheel--shop/2026-07-04T09-01-00_9c1d.jsonl";
const INK_DAMAGED: &str = "foreign/ink/-home-ada-wheel--shop/2026-07-04T09-02-00_d00d.jsonl";

/// Covers: ST2, ST11, ST12, ST13, MS5.
#[test]
fn an_ink_session_reads_with_its_branches_and_its_position() {
    let view = transcript(INK);
    assert_eq!(session(INK).agent, Agent::Ink);
    assert_eq!(
        lines(&view),
        [
            "model",
            "model",
            "thinking",
            "user: Throw a bowl",
            "thinking: Clay first.",
            "assistant: Wedging.",
            "call bash c1 {\"cmd\":\"wedge\"}",
            "call task c2 {\"prompt\":\"fetch glaze\"}",
            "custom ink.task_record",
            "child",
            "result c1: wedged",
            "result c2: It is blue.",
            "assistant: The bowl stands.",
            "name",
            "label",
            "user: Make it a vase",
            "assistant: Taller now.",
            "branch_summary",
            "user: Keep the bowl",
            "assistant: Kept.",
        ]
    );
    assert!(view.findings.is_empty(), "{:?}", view.findings);
    assert_eq!(view.facts.id.as_deref(), Some("ses-7d1"));
    assert_eq!(view.facts.named.as_deref(), Some("Bowls"));
    assert_eq!(view.facts.format.as_deref(), Some("v1"));
    // The position is the end of the other branch.
    let sent = context(INK);
    assert_eq!(
        sent[sent.len() - 3..sent.len() - 1],
        ["user: Make it a vase", "assistant: Taller now."]
    );
    assert!(!sent.iter().any(|line| line.contains("Keep the bowl")), "{sent:?}");
}

#[test]
fn an_ink_subagent_names_its_parent_role_and_version() {
    let facts = transcript(INK_CHILD).facts;
    assert_eq!(facts.id.as_deref(), Some("ses-c01"));
    assert_eq!(facts.parent.as_deref(), Some("ses-7d1"));
    assert_eq!(facts.role.as_deref(), Some("fetcher"));
    assert_eq!(facts.version.as_deref(), Some("0.31.0"));
}

/// Covers: ST5, ST15, ST17, ST18.
#[test]
fn an_ink_compaction_keeps_its_tail_once_and_the_originals_stay() {
    let view = transcript(INK_COMPACTED);
    assert_eq!(
        lines(&view),
        [
            "user: Trim the foot",
            "assistant: Trimmed.",
            "user: Glaze it",
            "assistant: Glazed.",
            "summary: The foot is trimmed.",
            "user: Fire it",
            "call bash c9 {\"cmd\":\"fire\"}",
        ]
    );
    assert_eq!(findings(&view), ["torn-tail@9", "interrupted-call@8"]);
    let sent = context(INK_COMPACTED);
    assert!(sent[0].contains("The foot is trimmed."), "{sent:?}");
    assert_eq!(
        sent[1..5],
        [
            "user: Glaze it",
            "assistant: Glazed (shortened).",
            "user: Fire it",
            "call bash c9 {\"cmd\":\"fire\"}"
        ]
    );
}

/// Covers: ST4, ST6, G3.
#[test]
fn damage_in_an_ink_session_hides_nothing_around_it() {
    let view = transcript(INK_DAMAGED);
    assert_eq!(
        lines(&view),
        [
            "user: Sweep",
            "assistant: Swept.",
            "user: And mop",
            "assistant: Mopped.",
            "custom ink.kilnReport",
            "result c77: ?",
        ]
    );
    assert_eq!(
        findings(&view),
        [
            "duplicate-record@4",
            "torn-line@5",
            "missing-parent@6",
            "missing-parent@7",
            "orphan-result@9",
            "missing-parent@10",
        ]
    );
    let sent = context(INK_DAMAGED);
    assert_eq!(
        sent[..4],
        ["user: Sweep", "assistant: Swept.", "user: And mop", "assistant: Mopped."]
    );
}
