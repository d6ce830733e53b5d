//! Cases about appending: what is written, how it is numbered and linked, what is refused.
//!
//! Responsible for: the batch. Must not: depend on an implementation.

use super::desk::{Desk, in_force};
use super::{Ability, Bench, cases};
use crate::sessions::{answer, call, every_kind, model, prompt, reply, result, text_of};
use segno_model::batch::Draft;
use segno_model::finding::{Finding, Severity};
use segno_model::line::decode;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Message, Name, Native, ToolCall, UserMessage,
};
use segno_model::state::State;
use segno_model::store::{Level, SessionLog, StoreError};
use segno_model::{Body, Timestamp};
use std::future::Future;
use std::task::Poll;

cases! { "append":
    /// An append returns one record per draft, in their order, with consecutive numbers. Covers: ST1, G1.
    one_record_per_draft;
    /// What the log adds of its own (header, checkpoint) is not among the returned records. Covers: ST1.
    only_the_drafts_come_back;
    /// Each node follows the tip, and nodes of one batch follow each other. Covers: ST1.
    nodes_follow_the_tip;
    /// No record type but messages, summaries and finished compactions moves the tip. Covers: MS5, ST1.
    metadata_never_moves_the_tip;
    /// A record's position leads to its line, counted from the end of line 1. Covers: G11, ST2.
    positions_lead_to_the_line;
    /// The state that the log holds is the fold of the records on the medium. Covers: G12, ST2.
    the_state_is_the_fold_of_the_log;
    /// An empty batch is refused, changes nothing, and the log goes on. Covers: MS8.
    an_empty_batch_is_refused;
    /// A line that is too long refuses its whole batch, without a trace. Covers: MS8, G16.
    an_overlong_line_refuses_the_batch;
    /// A line just short of the limit is taken and comes back whole. Covers: G13.
    a_line_below_the_limit_is_taken;
    /// A second header is refused. Covers: ST3, #20.
    a_second_header_is_refused;
    /// What was only written is already seen by other processes. Covers: G1, #126.
    written_is_visible_elsewhere;
    /// What was written survives power loss once it has been synced. Covers: G1.
    sync_makes_the_written_durable;
    /// What was not synced is lost from its end, never from its middle. Covers: G2, G4.
    a_crash_leaves_a_prefix;
    /// A mark never names more than was durable when its batch was written. Covers: G2.
    marks_name_only_what_was_synced;
    /// Marks never go down. Covers: G2.
    marks_never_go_down;
    /// Marks that were written after reopening hold through power loss. Covers: G1, G2.
    marks_after_reopening_hold;
    /// Line ends, NUL, separators and every other character survive inside texts. Covers: G13.
    every_character_survives;
    /// Arguments stay exactly as the model wrote them, well-formed or not. Covers: G6, G13.
    arguments_stay_verbatim;
    /// A provider's own items stay verbatim and on one line. Covers: G10, G13.
    native_items_stay_on_their_line;
    /// Times that run backwards or far ahead change neither order nor parents. Covers: #109, #110.
    order_is_by_number_not_by_time;
    /// Times come back to the millisecond. Covers: EV8.
    times_come_back_exactly;
    /// A turn of four messages comes back with its tokens and its first prompt. Covers: EV2, ST16.
    a_turn_comes_back_with_its_totals;
    /// A notice of Segno's own is no prompt. Covers: EV2, MG3.
    a_notice_is_no_prompt;
    /// A state that is held elsewhere does not change when the log moves on. Covers: #108.
    a_state_once_read_stays;
    /// A hundred small batches are numbered without a gap. Covers: ST1, #22.
    many_batches_leave_no_gap;
    /// Every line on the medium is one intact record and ends with a line end. Covers: G2, G3.
    every_line_is_intact;
    /// An append that is dropped before it returned has happened as a whole, or not at all, or poisons its
    /// handle; whichever it is, reopening finds whole batches and goes on. Covers: G1, G4, G15, MS8.
    a_dropped_append_is_whole_or_poisons;
}

async fn one_record_per_draft<H: Bench>(desk: Desk<H>) {
    let (_, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let from = log.state().next_seq;
    let name = Body::Name(Name { name: "n".into() });
    let records = desk.put(&mut log, vec![answer("b"), name, prompt("c")]).await;
    assert_eq!(records.iter().map(text_of).collect::<Vec<_>>(), ["b", "n", "c"]);
    let seqs: Vec<_> = records.iter().map(segno_model::Record::seq).collect();
    assert_eq!(seqs, [from, from + 1, from + 2]);
    assert_eq!(log.state().next_seq, from + 3);
}

async fn only_the_drafts_come_back<H: Bench>(desk: Desk<H>) {
    let (_, mut log, first) = desk.begun(vec![prompt("a")]).await;
    assert_eq!((first.len(), text_of(&first[0])), (1, "a".to_owned()));
    let done = crate::sessions::summary("s", Some(first[0].pos()), Vec::new());
    let compacted = desk.put(&mut log, vec![done]).await;
    assert_eq!((compacted.len(), text_of(&compacted[0])), (1, "s".to_owned()));
}

async fn nodes_follow_the_tip<H: Bench>(desk: Desk<H>) {
    let (_, mut log, _) = desk.begun(vec![prompt("a"), answer("b")]).await;
    let tip = log.state().tip().map(|t| t.seq);
    let records = desk.put(&mut log, vec![prompt("c"), answer("d"), prompt("e")]).await;
    let parents: Vec<_> = records.iter().map(|r| r.envelope.parent).collect();
    assert_eq!(parents, [tip, Some(records[0].seq()), Some(records[1].seq())]);
    assert!(records.iter().all(|r| r.envelope.parent_at.is_none()), "all are near their parents");
}

async fn metadata_never_moves_the_tip<H: Bench>(desk: Desk<H>) {
    let (_, mut log, records) = desk.begun(vec![prompt("a"), reply("b", &[call("call-1")])]).await;
    let tip = log.state().tip();
    for body in every_kind(records[1].pos()) {
        let (kind, node) = (body.kind().to_owned(), body.is_node());
        let record = &desk.put(&mut log, vec![body]).await[0];
        assert_eq!(record.envelope.parent.is_some(), node, "{kind}");
        if node {
            let back = Body::Tip(segno_model::record::Tip { tip });
            desk.put(&mut log, vec![back]).await;
        }
        assert_eq!(log.state().tip(), tip, "{kind} moved the tip");
    }
}

async fn positions_lead_to_the_line<H: Bench>(desk: Desk<H>) {
    let (id, mut log, mut records) = desk.begun(vec![prompt("ä"), answer("日本")]).await;
    records.extend(desk.put(&mut log, vec![prompt("c")]).await);
    let bytes = desk.bytes(&id);
    let first_line = bytes.iter().position(|b| *b == b'\n').expect("a line") + 1;
    for record in &records {
        let at = first_line + usize::try_from(record.pos().offset).expect("a small log");
        assert_eq!(&bytes[at..at + record.line.len()], &record.line[..]);
        assert_eq!(bytes[at + record.line.len()], b'\n');
        assert_eq!(decode(&record.line, record.offset).expect("intact").pos(), record.pos());
    }
}

async fn the_state_is_the_fold_of_the_log<H: Bench>(desk: Desk<H>) {
    let (id, mut log, records) = desk.begun(vec![prompt("a"), reply("b", &[call("call-1")])]).await;
    for body in every_kind(records[1].pos()) {
        desk.put(&mut log, vec![body]).await;
        let mut state = State::default();
        desk.scan(&id).await.records.iter().for_each(|r| state.apply(r));
        assert_eq!(in_force(log.state()), in_force(&state));
    }
}

async fn an_empty_batch_is_refused<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let (bytes, state) = (desk.bytes(&id), in_force(log.state()));
    let refused = log.append(Vec::new(), Level::Synced).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!((desk.bytes(&id), in_force(log.state())), (bytes, state));
    desk.put(&mut log, vec![answer("b")]).await;
    assert_eq!(desk.scan(&id).await.texts(), ["a", "b"]);
}

async fn an_overlong_line_refuses_the_batch<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let (bytes, state) = (desk.bytes(&id), in_force(log.state()));
    let batch = vec![answer("fine"), prompt(&"x".repeat(1 << 20))];
    let refused = desk.append(&mut log, batch, Level::Synced).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!((desk.bytes(&id), in_force(log.state())), (bytes, state));
    desk.put(&mut log, vec![answer("b")]).await;
    assert_eq!(desk.scan(&id).await.texts(), ["a", "b"]);
}

async fn a_line_below_the_limit_is_taken<H: Bench>(desk: Desk<H>) {
    let long = "y".repeat((1 << 20) - 400);
    let (id, _) = desk.closed(vec![prompt(&long), answer("b")]).await;
    assert_eq!(desk.scan(&id).await.texts(), [long, "b".to_owned()]);
}

async fn a_second_header_is_refused<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let bytes = desk.bytes(&id);
    let again = Body::Session(Box::new(log.header().clone()));
    let refused = desk.append(&mut log, vec![again], Level::Synced).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(desk.bytes(&id), bytes);
}

async fn written_is_visible_elsewhere<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.write(&mut log, vec![answer("b")]).await;
    assert_eq!(desk.scan(&id).await.texts(), ["a", "b"]);
    assert_eq!(in_force(&desk.read(&id).await.state), in_force(log.state()));
}

async fn sync_makes_the_written_durable<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.write(&mut log, vec![answer("b")]).await;
    desk.write(&mut log, vec![prompt("c")]).await;
    log.sync().await.expect("syncs");
    desk.write(&mut log, vec![answer("d")]).await;
    desk.bench.crash(0);
    let left = desk.scan(&id).await.texts();
    assert!(left.starts_with(&["a".into(), "b".into(), "c".into()]), "{left:?}");
}

async fn a_crash_leaves_a_prefix<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    for keep in [0, 1, 40, 150, 220, 300, 450, 600, 10_000] {
        let (id, mut log, _) = desk.begun(vec![prompt("0")]).await;
        for n in 1..4 {
            let batch = vec![prompt(&n.to_string()), answer(&format!("to {n}"))];
            desk.write(&mut log, batch).await;
        }
        desk.bench.crash(keep);
        let mut opened = desk.open(&id).await;
        let left = super::desk::texts(&opened.active.records);
        let whole = ["0", "1", "to 1", "2", "to 2", "3", "to 3"];
        assert_eq!(left, whole[..left.len()], "with {keep} bytes kept");
        desk.put(&mut opened.log, vec![prompt("on")]).await;
        assert_eq!(desk.scan(&id).await.texts().last().map(String::as_str), Some("on"));
    }
}

async fn marks_name_only_what_was_synced<H: Bench>(desk: Desk<H>) {
    let (_, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let durable = log.state().next_seq - 1;
    let first = desk.write(&mut log, vec![answer("b")]).await;
    let second = desk.write(&mut log, vec![prompt("c"), answer("d")]).await;
    for record in first.iter().chain(&second) {
        assert_eq!(record.envelope.synced, Some(durable), "{record:?}");
    }
    log.sync().await.expect("syncs");
    let durable = log.state().next_seq - 1;
    let third = desk.write(&mut log, vec![prompt("e")]).await;
    assert_eq!(third[0].envelope.synced, Some(durable));
}

async fn marks_never_go_down<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("0")]).await;
    for n in 1..6 {
        let level = if n % 2 == 0 { Level::Synced } else { Level::Written };
        let done = desk.append(&mut log, vec![prompt(&n.to_string())], level).await;
        done.expect("the append succeeds");
    }
    drop(log);
    let mut opened = desk.open(&id).await;
    desk.put(&mut opened.log, vec![prompt("6")]).await;
    desk.put(&mut opened.log, vec![prompt("7")]).await;
    let all = desk.scan(&id).await;
    let marks: Vec<_> = all.records.iter().filter_map(|r| r.envelope.synced).collect();
    assert!(marks.is_sorted(), "{marks:?}");
    assert!(all.records.iter().all(|r| r.envelope.synced.is_none_or(|s| s < r.seq())));
}

async fn marks_after_reopening_hold<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    let (id, mut log, records) = desk.begun(vec![prompt("a")]).await;
    let done = crate::sessions::summary("sum", Some(records[0].pos()), Vec::new());
    desk.write(&mut log, vec![answer("b"), done]).await;
    drop(log);
    let mut opened = desk.open(&id).await;
    desk.write(&mut opened.log, vec![prompt("c")]).await;
    desk.write(&mut opened.log, vec![prompt("d")]).await;
    drop(opened);
    desk.bench.crash(0);
    let left = super::desk::texts(&desk.open(&id).await.active.records);
    assert!(left.contains(&"a".to_owned()), "{left:?}");
    let damage = |f: &Finding| f.severity == Severity::Damage;
    assert!(!desk.scan(&id).await.findings.iter().any(damage));
}

async fn every_character_survives<H: Bench>(desk: Desk<H>) {
    let odd = "nul \0 lf \n crlf \r\n sep \u{2028}\u{2029} bom \u{feff} quote \" back \\ 日本 🦀 \u{7f}\u{85}";
    let (id, mut log, _) = desk.begun(vec![prompt(odd)]).await;
    let called = desk.put(&mut log, vec![reply(odd, &[call("c")])]).await[0].seq();
    desk.put(&mut log, vec![result("c", called, odd), Body::Name(Name { name: odd.into() })]).await;
    drop(log);
    assert_eq!(desk.scan(&id).await.texts(), [odd; 4]);
    assert_eq!(desk.open(&id).await.log.state().in_force.name.as_deref(), Some(odd));
}

async fn arguments_stay_verbatim<H: Bench>(desk: Desk<H>) {
    let odd = [
        "{\"a\":  1,\n\"a\":2}",
        "{\"cut",
        "",
        "\u{0}",
        "{\"n\":1e999,\"big\":12345678901234567890}",
    ];
    let calls = odd.map(|a| ToolCall { id: String::new(), name: "t".into(), arguments: a.into() });
    let (id, _) = desk.closed(vec![prompt("a"), reply("", &calls)]).await;
    let record = desk.scan(&id).await.records.pop().expect("a record");
    let Body::Message(message) = record.body() else { panic!("{record:?}") };
    let Message::Assistant(reply) = &**message else { panic!("{message:?}") };
    assert_eq!(reply.calls().map(|c| c.arguments.as_str()).collect::<Vec<_>>(), odd);
}

async fn native_items_stay_on_their_line<H: Bench>(desk: Desk<H>) {
    let items = "[{\"b\":1.0e0,\"a\": [ ],\n \"u\":\"\\u00e9\"}]";
    let raw = serde_json::value::RawValue::from_string(items.into()).expect("JSON");
    let said = AssistantMessage {
        content: vec![AssistantBlock::Text { text: "t".into() }],
        native: Some(Native { dialect: "anthropic".into(), items: raw }),
        model: model(),
        ..AssistantMessage::default()
    };
    let body = Body::Message(Box::new(Message::Assistant(said)));
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    match desk.append(&mut log, vec![body, prompt("after")], Level::Synced).await {
        Ok(_) => {}
        Err(e) => panic!("items with white space are refused: {e}"),
    }
    let all = desk.scan(&id).await;
    assert_eq!(
        (all.texts(), all.findings.len()),
        (vec!["a".into(), "t".into(), "after".into()], 0)
    );
    let Body::Message(message) = all.records[2].body() else { panic!("no message") };
    let Message::Assistant(back) = &**message else { panic!("no reply") };
    let kept = back.native.as_ref().expect("items are kept").items.get();
    let squeezed = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(squeezed(kept), squeezed(items));
}

async fn order_is_by_number_not_by_time<H: Bench>(desk: Desk<H>) {
    let at = |ms: i64, text: &str| Draft::new(Timestamp(ms), prompt(text));
    let (id, mut log) = desk.unborn();
    let batches = [at(2_000_000_000_000, "1"), at(5_000_000_000_000, "2"), at(1000, "3")];
    for draft in batches {
        log.append(vec![draft], Level::Synced).await.expect("the append succeeds");
    }
    drop(log);
    let opened = desk.open(&id).await;
    let all = desk.scan(&id).await;
    assert_eq!(all.texts(), ["1", "2", "3"]);
    let parents: Vec<_> = all.records.iter().map(|r| r.envelope.parent).collect();
    assert_eq!(parents, [None, None, Some(1), Some(2)]);
    assert_eq!(opened.log.state().in_force.last_message_at, Some(Timestamp(1000)));
}

async fn times_come_back_exactly<H: Bench>(desk: Desk<H>) {
    let times = [0, 1, 999, 1_767_225_600_123, 4_102_444_799_999];
    let drafts = times.map(|ms| Draft::new(Timestamp(ms), prompt("x"))).to_vec();
    let (id, mut log) = desk.unborn();
    log.append(drafts, Level::Synced).await.expect("the append succeeds");
    let all = desk.scan(&id).await;
    let back: Vec<_> = all.records[1..].iter().map(|r| r.envelope.at.0).collect();
    assert_eq!(back, times);
}

async fn a_turn_comes_back_with_its_totals<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("what is it?")]).await;
    let called = desk.put(&mut log, vec![reply("let me look", &[call("c")])]).await[0].seq();
    desk.put(&mut log, vec![result("c", called, "42")]).await;
    desk.put(&mut log, vec![answer("it is 42")]).await;
    drop(log);
    let opened = desk.open(&id).await;
    let texts = super::desk::texts(&opened.active.records);
    assert_eq!(texts, ["what is it?", "let me look", "42", "it is 42"]);
    let in_force = &opened.log.state().in_force;
    let totals = in_force.totals;
    let counted = (totals.user_messages, totals.assistant_messages, totals.tool_results);
    assert_eq!(counted, (1, 2, 1));
    assert_eq!((totals.usage.input, totals.usage.output), (200, 20));
    assert_eq!(in_force.first_prompt.as_deref(), Some("what is it?"));
}

async fn a_notice_is_no_prompt<H: Bench>(desk: Desk<H>) {
    let notice = Message::User(UserMessage::notice("instructions", "AGENTS.md changed"));
    let notice = Body::Message(Box::new(notice));
    let (id, _) = desk.closed(vec![notice, prompt("hello")]).await;
    let in_force = desk.open(&id).await.log.state().in_force.clone();
    assert_eq!(in_force.first_prompt.as_deref(), Some("hello"));
    assert_eq!(in_force.totals.user_messages, 1);
}

async fn a_state_once_read_stays<H: Bench>(desk: Desk<H>) {
    let (_, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let kept = log.state().clone();
    let text = in_force(&kept);
    desk.put(&mut log, vec![answer("b"), Body::Name(Name { name: "n".into() })]).await;
    assert_eq!(in_force(&kept), text);
    assert_ne!(in_force(log.state()), text);
}

async fn many_batches_leave_no_gap<H: Bench>(desk: Desk<H>) {
    let (id, mut log) = desk.unborn();
    for n in 0..100 {
        desk.write(&mut log, vec![prompt(&n.to_string())]).await;
    }
    let all = desk.scan(&id).await;
    assert_eq!(all.seqs(), (0..=100).collect::<Vec<_>>());
    assert!(all.findings.is_empty());
}

async fn every_line_is_intact<H: Bench>(desk: Desk<H>) {
    let id = desk.generated(crate::sessions::Shape::random(3)).await;
    let bytes = desk.bytes(&id);
    assert!(bytes.ends_with(b"\n"));
    for (seq, line) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let record = decode(&line[..line.len() - 1], 0).expect("an intact line");
        assert_eq!(record.seq(), seq as u64);
    }
}

/// Polls at most so many times; none when it was dropped before its end.
async fn polled<F: Future>(times: usize, work: F) -> Option<F::Output> {
    let mut work = std::pin::pin!(work);
    let mut left = times;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        work.as_mut().poll(context).map(Some)
    })
    .await
}

async fn a_dropped_append_is_whole_or_poisons<H: Bench>(desk: Desk<H>) {
    const MOST_POLLS: usize = 64;
    for level in [Level::Written, Level::Synced] {
        for times in 0..=MOST_POLLS {
            let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
            let before = in_force(log.state());
            let drafts = desk.drafts(vec![answer("b"), prompt("c")]);
            let done = polled(times, log.append(drafts, level)).await;
            let moved = in_force(log.state()) != before;
            assert!(!moved || log.state().next_seq == 4, "{times}: half a batch");
            assert!(done.as_ref().is_none_or(|done| done.is_ok() && moved), "{times}: {done:?}");
            let next = desk.append(&mut log, vec![answer("d")], level).await;
            let mut expected = match &next {
                Ok(_) if moved => vec![vec!["a", "b", "c", "d"]],
                Ok(_) => vec![vec!["a", "d"]],
                Err(StoreError::Poisoned(_)) => vec![vec!["a"], vec!["a", "b", "c"]],
                Err(e) => panic!("{times}: {e}"),
            };
            drop(log);
            let mut opened = desk.open(&id).await;
            desk.put(&mut opened.log, vec![prompt("on")]).await;
            expected.iter_mut().for_each(|texts| texts.push("on"));
            let all = desk.scan(&id).await;
            assert!(
                expected.iter().any(|texts| all.texts() == *texts),
                "{times}: {:?}",
                all.texts()
            );
            assert!(all.findings.is_empty(), "{times}: {:?}", all.findings);
            if done.is_some() {
                break;
            }
            assert!(times < MOST_POLLS, "the append came to no end in {MOST_POLLS} polls");
        }
    }
}
