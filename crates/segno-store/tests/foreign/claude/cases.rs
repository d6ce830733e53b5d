//! The constructed cases. Sentences of theirs about titles in lists, repairs, exports, file modes and
//! what a request's retry does belong to the parts that do those things, and are tested there.

use super::{holds, kept, prompts, replies, results, said};
use crate::scene::{context, corpus, findings, session, transcript};
use segno_model::record::{AssistantBlock, Usage};
use segno_store::foreign::{View, recognise, subagents};

/// A case's only file.
fn case(number: &str, id: &str) -> String {
    format!("cases/{number}/c0de00{id}.jsonl")
}

/// Covers: G3, G14, #1.
#[test]
fn torn_lines_in_the_middle_are_told_and_everything_around_them_is_read() {
    let name = case("01-torn-middle-lines", "01-1111-4111-8111-000000000001");
    let view = transcript(&name);
    assert_eq!(findings(&view), ["torn-line@6", "torn-line@7"]);
    assert_eq!(view.findings[0].offset, Some(2858));
    let said = said(&view);
    assert_eq!(said.len(), 12);
    assert!(said[11].contains("FINAL-01"), "{said:?}");
    assert!(holds(&context(&name), "FINAL-01"));
}

/// Covers: G3, #3.
#[test]
fn a_record_behind_a_stub_on_the_same_line_is_saved() {
    let name = case("03-fused-stub", "03-1111-4111-8111-000000000003");
    let view = transcript(&name);
    assert_eq!(findings(&view), ["fused-line@7"]);
    assert_eq!(
        said(&view)[5..],
        [
            "result toolu_03a: pushed",
            "user: SALVAGE-03 thanks, now bump the version",
            "assistant: Version bumped to 3.2.0, LEAF-03.",
        ]
    );
    // LEAF-03 is no beginning of its own.
    assert!(holds(&context(&name), "Open a pull request"));
    assert!(holds(&context(&name), "LEAF-03"));
}

/// Covers: G3, #5.
#[test]
fn nul_runs_hide_nothing() {
    let name = case("04-nul-block", "04-1111-4111-8111-000000000004");
    let view = transcript(&name);
    assert_eq!(findings(&view), ["nul-run@6", "nul-run@9"]);
    let said = said(&view);
    assert_eq!(said.len(), 9);
    assert!(said[7].contains("AFTER-NUL-04"));
    // The list's last message and the context's are the same.
    assert_eq!(context(&name).last(), said.last());
    assert!(said[8].contains("LAST-04"));
}

/// Covers: G3, #7.
#[test]
fn half_surrogates_stand_as_replacement_characters_and_lose_no_line() {
    let name = case("05-lone-surrogate", "05-1111-4111-8111-000000000005");
    let view = transcript(&name);
    assert_eq!(findings(&view), ["lone-surrogate@3", "lone-surrogate@6"]);
    assert_eq!(
        context(&name)[1..],
        [
            "call Bash toolu_05a {\"command\":\"labels --all\"}",
            "result toolu_05a: north \u{fffd}\u{2026} cut here",
            "assistant: There are three.",
            "user: (Segno: nothing was said here. Go on from where you were.)",
            "call Bash toolu_05b {\"command\":\"labels --tail\"}",
            "result toolu_05b: \u{fffd} south",
            "assistant: KEEP-05 the fire label \u{1f525} is fine.",
            "user: (Segno: nothing was said here. Go on from where you were.)",
        ]
    );
}

/// Covers: G6, #23.
#[test]
fn a_parent_that_was_never_written_is_bridged_and_told() {
    let name = case("12-missing-parent", "0c-1111-4111-8111-00000000000c");
    let view = transcript(&name);
    assert_eq!(findings(&view), ["missing-parent@5", "missing-parent@7"]);
    let context = context(&name);
    assert!(context[0].contains("SUMMARY-12"), "{context:?}");
    assert_eq!(
        context[1..5],
        [
            "user: NEW-12a raise the soak to 30.",
            "assistant: Soak is 30 min.",
            "user: NEW-12b save it.",
            "assistant: LEAF-12 saved as plan 4.",
        ]
    );
    assert!(!holds(&context, "OLD-12"));
    assert!(said(&view)[0].contains("OLD-12"));
    assert!(said(&view)[4].starts_with("summary: SUMMARY-12"));
}

/// Covers: G6, #24.
#[test]
fn parallel_calls_are_one_message_and_no_result_is_lost() {
    let name = case("13-parallel-tool-branches", "0d-1111-4111-8111-00000000000d");
    let view = transcript(&name);
    assert_eq!(findings(&view), [""; 0]);
    let expected = [
        "call Write toolu_13a {\"file_path\":\"z1.txt\",\"content\":\"1\"}",
        "call Write toolu_13b {\"file_path\":\"z2.txt\",\"content\":\"2\"}",
        "call Write toolu_13c {\"file_path\":\"z3.txt\",\"content\":\"3\"}",
        "result toolu_13a: RES-13a",
        "result toolu_13b: RES-13b",
        "result toolu_13c: RES-13c",
        "assistant: All three written, LEAF-13.",
        "user: Now check them.",
        "assistant: END-13 they match.",
    ];
    assert_eq!(said(&view)[2..], expected);
    assert_eq!(context(&name)[2..11], expected);
    assert_eq!(replies(&view)[0].calls().count(), 3);
    let calls: Vec<_> = results(&view).iter().map(|r| (r.call_seq, &*r.name)).collect();
    assert!(calls.iter().all(|call| *call == (calls[0].0, "Write")), "{calls:?}");
}

/// Covers: G6, #34.
#[test]
fn an_orphan_result_is_shown_and_not_sent() {
    let name = case("17-orphan-result", "11-1111-4111-8111-000000000011");
    let view = transcript(&name);
    assert_eq!(findings(&view), ["missing-parent@4", "orphan-result@4"]);
    assert_eq!(said(&view)[3], "result toolu_17_lost: restarted ok");
    assert_eq!(results(&view)[0].call_seq, None);
    assert_eq!(
        context(&name)[..4],
        [
            "user: KEEP-17 which port does the panel use?",
            "assistant: Port 7070.",
            "user: Change it to 7071 and restart.",
            "assistant: LEAF-17 running on 7071.",
        ]
    );
}

/// Covers: G6, #46.
#[test]
fn thinking_is_read_as_stored_and_sent_only_with_a_signature() {
    let name = case("21-unsigned-thinking", "15-1111-4111-8111-000000000015");
    let view = transcript(&name);
    let signatures: Vec<_> = replies(&view)
        .iter()
        .flat_map(|reply| &reply.content)
        .filter_map(|block| match block {
            AssistantBlock::Thinking { signature, .. } => Some(signature.as_deref()),
            _ => None,
        })
        .collect();
    assert_eq!(signatures[..3], [Some(""), None, Some("QUJDREVGR0hJSktMTU5PUFFS")]);
    assert_eq!(signatures[3].map(str::len), Some(252));
    assert_eq!(
        context(&name),
        [
            "user: Is the ramp safe?",
            "assistant: Yes, 2 C per minute.",
            "user: Sure?",
            "user: Hello?",
            "thinking: cut one",
            "assistant: Sorry, yes.",
            "user: Ok.",
            "thinking: good one",
            "assistant: LEAF-21",
            "user: (Segno: nothing was said here. Go on from where you were.)",
        ]
    );
}

/// Covers: G6, #48, #49.
#[test]
fn empty_texts_are_read_and_not_sent() {
    let name = case("23-empty-text-blocks", "17-1111-4111-8111-000000000017");
    assert_eq!(said(&transcript(&name)).len(), 7);
    assert_eq!(
        context(&name)[..5],
        [
            "user: Make the folder.",
            "call Bash toolu_23a {\"command\":\"mkdir x\"}",
            "result toolu_23a: (no output)",
            "user: [image/png]",
            "assistant: LEAF-23 a one-pixel picture.",
        ]
    );
}

/// Covers: G6, #51.
#[test]
fn the_context_begins_at_the_summary_also_right_after_it() {
    for (state, prompted, rest) in [("right-after", 2, 0), ("later", 3, 3)] {
        let folder = format!("24-compaction-resume/{state}");
        let name = case(&folder, "18-1111-4111-8111-000000000018");
        let view = transcript(&name);
        let context = context(&name);
        assert!(context[0].contains("SUMMARY-24"), "{context:?}");
        assert_eq!(context.len(), 1 + rest, "{context:?}");
        assert!(!holds(&context, "PRE-24"));
        assert!(said(&view)[1].contains("PRE-24"));
        assert!(said(&view)[4].starts_with("summary: SUMMARY-24"));
        assert_eq!(prompts(&view).len(), prompted);
    }
}

/// Covers: G3, #26.
#[test]
fn copies_that_a_second_compaction_wrote_are_no_branch_and_count_once() {
    let name = case("27-replayed-copies", "1b-1111-4111-8111-00000000001b");
    let view = transcript(&name);
    assert_eq!(findings(&view), ["duplicate-record@9"]);
    assert_eq!(
        said(&view),
        [
            "user: U1-27",
            "assistant: A1-27",
            "user: U2-27",
            "assistant: A2-27",
            "summary: SUMMARY1-27",
            "user: U3-27",
            "assistant: A3-27",
            "summary: SUMMARY2-27",
            "user: U4-27",
            "assistant: LEAF-27",
        ]
    );
    let context = context(&name);
    assert!(context[0].contains("SUMMARY2-27"));
    assert_eq!(context[1..3], ["user: U4-27", "assistant: LEAF-27"]);
    let spent: Vec<_> = view.records.iter().filter_map(|read| read.response.as_ref()).collect();
    assert_eq!(spent.len(), 5 - 1, "{spent:?}");
    // The second summary follows A3, not the copies.
    let summaries: Vec<_> =
        view.records.iter().filter(|read| read.record.envelope.kind == "compaction").collect();
    let before = view.records.iter().find(|read| {
        matches!(read.record.body(), segno_model::Body::Message(m)
            if matches!(&**m, segno_model::record::Message::Assistant(r) if r.text() == "A3-27"))
    });
    assert_eq!(summaries[1].record.envelope.parent, before.map(|read| read.record.seq()));
}

/// Covers: #72, #73.
#[test]
fn commands_and_reminders_are_no_prompts() {
    let typed = |id: &str| {
        let view = transcript(&case("31-slash-command-title", id));
        let facts = view.facts.clone();
        let prompts: Vec<_> = prompts(&view).iter().map(|p| format!("{:?}", p.content)).collect();
        (prompts, facts.command, facts.named)
    };
    let (prompted, command, _) = typed("1f-1111-4111-8111-00000000001f");
    assert_eq!(prompted.len(), 1);
    assert!(prompted[0].contains("TITLE-31A") && !prompted[0].contains('<'), "{prompted:?}");
    assert_eq!(command.as_deref(), Some("/clear"));
    let model = Some("/model fast".to_owned());
    assert_eq!(typed("1f-1111-4111-8111-0000000000b0"), (vec![], model, None));
    let (prompted, command, named) = typed("1f-1111-4111-8111-0000000000d0");
    assert_eq!((prompted.len(), command.as_deref()), (0, Some("/loop /check-kiln")));
    assert_eq!(named.as_deref(), Some("product - new 31"));
}

/// The order of a list, and that continuing picks the newest, is the list's part.
///
/// Covers: #74.
#[test]
fn the_time_of_a_session_is_that_of_its_newest_message() {
    let newest = |n: u32| {
        let id = format!("20-1111-4111-8111-00000000000{n}");
        let view = transcript(&case("32-mtime-lies/sessions", &id));
        let dated = view.records.iter().filter(|read| read.dated);
        let at = dated.map(|read| read.record.envelope.at).max();
        (at.map(|at| at.to_string()).unwrap_or_default(), view.facts.titled)
    };
    let expected = |at: &str, title: &str| (at.to_owned(), Some(title.to_owned()));
    assert_eq!(newest(1), expected("2026-03-12T19:00:14.000Z", "Newest job"));
    assert_eq!(newest(2), expected("2026-03-08T03:53:34.000Z", "Middle job"));
    assert_eq!(newest(3), expected("2026-03-02T09:16:54.000Z", "Oldest job"));
}

/// Covers: #155.
#[test]
fn a_response_counts_once_with_its_last_usage_and_has_the_same_name_in_copies() {
    let spent = |id: &str| -> Vec<(String, Usage)> {
        let view = transcript(&case("35-usage-dedup", id));
        let replies = replies(&view).into_iter().filter_map(|reply| reply.usage);
        let names = view.records.iter().filter_map(|read| read.response.clone());
        names.zip(replies).collect()
    };
    let first = spent("23-1111-4111-8111-000000000023");
    let second = spent("23-1111-4111-8111-0000000000b0");
    let output = |spent: &[(String, Usage)]| spent.iter().map(|(_, u)| u.output).sum::<u64>();
    assert_eq!((first.len(), output(&first)), (2, 270));
    assert_eq!(second[..2], first);
    assert_eq!(output(&second[2..]), 22);
    let all = first.iter().chain(&second[2..]);
    let sum = |of: fn(&Usage) -> u64| all.clone().map(|(_, usage)| of(usage)).sum::<u64>();
    assert_eq!([sum(|u| u.input), sum(|u| u.cache_read), sum(|u| u.cache_write)], [37, 3000, 600]);
}

/// Masking is the export's part.
///
/// Covers: G17, #116.
#[test]
fn secrets_are_read_as_they_stand_and_appear_in_no_finding() {
    let name = case("41-secrets-and-modes/session", "29-1111-4111-8111-000000000029");
    let view = transcript(&name);
    assert!(said(&view)[2].contains("AKIAFAKEFAKEFAKEFAKE"));
    assert!(holds(&context(&name), "LEAF-41"));
    assert_eq!(findings(&view), [""; 0]);
}

/// Covers: #140, #141.
#[test]
fn a_forks_earlier_agents_are_found_with_their_prompts() {
    let folder = "42-subagents-before-fork";
    let old = session(&case(folder, "2a-1111-4111-8111-0000000000a0"));
    let fork = session(&case(folder, "2a-1111-4111-8111-0000000000f0"));
    let agents = subagents(&fork).expect("readable");
    assert_eq!(agents, subagents(&old).expect("readable"));
    assert_eq!(agents.len(), 1);
    assert_eq!(agents[0].id.as_deref(), Some("a42b"));
    assert_eq!(agents[0].parent.as_deref(), Some("c0de002a-1111-4111-8111-0000000000a0"));
    let agent = View::transcript(&agents[0]).expect("readable");
    assert_eq!(said(&agent)[0], "user: PROMPT-42 map every flue in plan 7");
    assert_eq!(agent.facts.id.as_deref(), Some("a42b"));
    assert_eq!(agent.facts.parent.as_deref(), Some("c0de002a-1111-4111-8111-0000000000a0"));
    assert_eq!(agent.facts.call.as_deref(), Some("toolu_42"));
    assert_eq!(agent.facts.role.as_deref(), Some("mapper"));
    // Recognised without its place known, it says the same.
    let path = corpus(&format!(
        "cases/{folder}/c0de002a-1111-4111-8111-0000000000a0/subagents/agent-a42b.jsonl"
    ));
    let alone = View::transcript(&recognise(&path).expect("known")).expect("readable");
    assert_eq!(alone.facts, agent.facts);

    let view = View::transcript(&fork).expect("readable");
    let (origin, up_to) = view.facts.fork_of.clone().expect("it says so");
    assert_eq!(origin, "c0de002a-1111-4111-8111-0000000000a0");
    assert_eq!(up_to.as_deref(), Some("beef002a-2222-4222-8222-000000000004"));
    // What was copied has its place and is not counted again.
    assert_eq!(said(&view), ["user: LEAF-42 ask the mapper about flue 3."]);
    assert_eq!(view.records.iter().filter(|read| read.copy).count(), 4);
    let sent = context(&case(folder, "2a-1111-4111-8111-0000000000f0"));
    assert!(holds(&sent, "AGENT-42 nine flues") && !holds(&sent, "plan7.txt"));
}

/// Covers: G8, #135.
#[test]
fn prompts_that_were_not_delivered_are_pending_in_order() {
    let name = case("48-queued-prompts", "30-1111-4111-8111-000000000030");
    let view = transcript(&name);
    assert_eq!(view.facts.pending, ["Q2-48 write the log", "Q3-48 mail me"]);
    assert_eq!(findings(&view), ["interrupted-call@2"]);
    let context = context(&name);
    assert!(context[2].starts_with("result toolu_48: The outcome of this call is unknown"));
    assert_eq!(context[3], "user: Q1-48 then cool slowly");
    assert_eq!(context.len(), 4);
    assert_eq!(kept(&view), ["claude.queue-operation"; 5]);
}
