//! What holds for the context of every session: random sessions, each prefix of them.

use crate::notation::{Session, messages, model};
use crate::state::target;
use proptest::prelude::*;
use segno_model::context::{self, Budget, CONTINUE_NOTICE, Context, ContextMessage};
use segno_model::record::{AssistantBlock, Block, Message, StopReason, Text};
use segno_model::{Body, Pos, Record, state::State};
use std::collections::HashSet;

/// One step of a random session. Numbers are reduced to what exists when it is written down.
#[derive(Debug, Clone)]
enum Step {
    User(&'static str),
    Reply { how: &'static str, calls: Vec<&'static str> },
    Result { of: usize, kind: &'static str, named: bool, text: &'static str },
    Tip(usize),
    Compaction { keep: Option<usize>, kept: Vec<usize>, state: bool },
    Edit { of: usize, how: &'static str },
    Plain(&'static str),
}

fn steps(with_changes: bool) -> impl Strategy<Value = Vec<Step>> {
    let ids = prop::sample::select(vec!["a", "b", "call_0", "''", "call_0_3_0"]);
    let user =
        prop::sample::select(vec!["u hi", "u img | ''", "u", "n note", "x note", "u two | parts"]);
    let how = prop::sample::select(vec![
        "a text",
        "a ~",
        "a",
        "a! cut",
        "a. cut",
        "a think t/S | text",
        "a think t/none",
        "a @m2 +anthropic think t/S | text",
        "a %50 +openai text",
    ]);
    let kind = prop::sample::select(vec!["r", "r", "r", "r?", "r!"]);
    let text = prop::sample::select(vec!["out", "''", "img", "long output"]);
    let plain = prop::sample::select(vec![
        "future hologram",
        "future-node hologram",
        "name x",
        "label 1 here",
        "x- data",
        "b summary",
        "model m2",
        "checkpoint",
        "c?",
    ]);
    let edit = prop::sample::select(vec!["omit", "restore", "replace new", "sparkle"]);
    let changes = u32::from(with_changes);
    prop::collection::vec(
        prop_oneof![
            4 => user.prop_map(Step::User),
            6 => (how, prop::collection::vec(ids, 0..4))
                .prop_map(|(how, calls)| Step::Reply { how, calls }),
            9 => (0_usize..6, kind, any::<bool>(), text)
                .prop_map(|(of, kind, named, text)| Step::Result { of, kind, named, text }),
            2 => plain.prop_map(Step::Plain),
            2 * changes => (0_usize..40).prop_map(Step::Tip),
            changes => (prop::option::of(0_usize..40), prop::collection::vec(0_usize..40, 0..3), any::<bool>())
                .prop_map(|(keep, kept, state)| Step::Compaction { keep, kept, state }),
            changes => (0_usize..40, edit).prop_map(|(of, how)| Step::Edit { of, how }),
        ],
        0..40,
    )
}

fn session(steps: &[Step]) -> Session {
    let mut text = String::new();
    let mut calls: Vec<(usize, &str)> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        let seq = i + 1;
        let line = match step {
            Step::User(line) | Step::Plain(line) => (*line).to_owned(),
            Step::Reply { how, calls: ids } => {
                let mut line = (*how).to_owned();
                for id in ids {
                    calls.push((seq, id));
                    line.push_str(&format!(" | call {id} bash"));
                }
                line
            }
            Step::Result { of, kind, named, text } => {
                let (turn, id) = calls.iter().rev().nth(*of).copied().unwrap_or((99, "gone"));
                let at = if *named { format!("@{turn}") } else { String::new() };
                format!("{kind} {id}{at} {text}")
            }
            Step::Tip(to) if to % seq == 0 => "tip none".to_owned(),
            Step::Tip(to) => format!("tip {}", to % seq),
            Step::Compaction { keep, kept, state } => {
                let keep = keep.map_or(String::new(), |n| format!("keep={} ", n % seq));
                let kept: Vec<_> = kept.iter().map(|n| (n % seq).to_string()).collect();
                let kept = if kept.is_empty() {
                    String::new()
                } else {
                    format!("kept={} ", kept.join(","))
                };
                let state = if *state { "state=s1 " } else { "" };
                format!("c {keep}{kept}{state}SUM{seq}")
            }
            Step::Edit { of, how } => format!("edit {} {how}", of % (seq + 2)),
        };
        text.push_str(&line);
        text.push('\n');
    }
    Session::parse(&text)
}

/// Our own writer names the call's record in every result.
fn as_written_by_us(steps: Vec<Step>) -> Vec<Step> {
    let name = |step| match step {
        Step::Result { of, kind, text, .. } => Step::Result { of, kind, named: true, text },
        other => other,
    };
    steps.into_iter().map(name).collect()
}

/// The lengths of all prefixes, with the tip after each.
fn prefixes(records: &[Record]) -> Vec<(usize, Option<Pos>)> {
    let mut state = State::default();
    let mut found = Vec::new();
    for (i, record) in records.iter().enumerate() {
        state.apply(record);
        found.push((i + 1, state.tip()));
    }
    found
}

/// What every provider asks for.
fn check_legal(context: &Context) -> Result<(), TestCaseError> {
    let mut ids = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    let mut may_speak = false;
    for message in &context.messages {
        match message {
            ContextMessage::User { content, .. } => {
                prop_assert!(open.is_empty(), "a prompt before the results");
                check_blocks(content)?;
                may_speak = true;
            }
            ContextMessage::Assistant(turn) => {
                prop_assert!(may_speak && open.is_empty(), "a turn that follows nothing");
                may_speak = false;
                check_turn(turn)?;
                for call in turn.content.iter().filter_map(as_call) {
                    prop_assert!(!call.is_empty() && ids.insert(call.to_owned()), "id {call:?}");
                    open.push(call.to_owned());
                }
            }
            ContextMessage::Results(results) => {
                let answered: Vec<_> = results.iter().map(|r| r.call_id.clone()).collect();
                prop_assert_eq!(&answered, &open);
                prop_assert!(!answered.is_empty());
                open.clear();
                may_speak = true;
                for result in results {
                    check_blocks(&result.content)?;
                }
            }
            ContextMessage::State(_) => {
                prop_assert!(open.is_empty());
                prop_assert!(may_speak || ids.is_empty());
                may_speak = true;
            }
        }
    }
    prop_assert!(open.is_empty());
    let ends_with_model = matches!(context.messages.last(), Some(ContextMessage::Assistant(_)));
    prop_assert!(!ends_with_model);
    Ok(())
}

fn check_blocks(blocks: &[Block]) -> Result<(), TestCaseError> {
    prop_assert!(!blocks.is_empty());
    for block in blocks {
        if let Block::Text { text: Text::Inline(text) } = block {
            prop_assert!(!text.trim().is_empty());
        }
        prop_assert!(!matches!(block, Block::Unknown));
    }
    Ok(())
}

fn check_turn(turn: &context::ContextAssistant) -> Result<(), TestCaseError> {
    let speaks = turn.content.iter().any(|b| !matches!(b, AssistantBlock::Thinking { .. }));
    prop_assert!(speaks, "a turn of nothing but thinking");
    for block in &turn.content {
        match block {
            AssistantBlock::Text { text } => prop_assert!(!text.trim().is_empty()),
            AssistantBlock::Thinking { signature, .. } => prop_assert!(signature.is_some()),
            AssistantBlock::ToolCall(_) => {}
            AssistantBlock::Unknown => prop_assert!(false, "an unknown block"),
        }
    }
    Ok(())
}

fn as_call(block: &AssistantBlock) -> Option<&str> {
    match block {
        AssistantBlock::ToolCall(call) => Some(&call.id),
        _ => None,
    }
}

/// The messages without the trailing notice, each as text; results that may still change are masked.
fn settled(context: &Context) -> Vec<String> {
    let mut settled: Vec<String> = context.messages.iter().map(one).collect();
    if context.messages.last().is_some_and(is_notice) {
        settled.pop();
    }
    settled
}

/// Whether this is the notice that is added where the model spoke last.
fn is_notice(message: &ContextMessage) -> bool {
    matches!(message, ContextMessage::User { content, .. } if **content == [Block::text(CONTINUE_NOTICE)])
}

fn one(message: &ContextMessage) -> String {
    let one = Context { messages: vec![message.clone()], ..Context::default() };
    messages(&one)
}

/// Whether `longer` begins with `shorter`, but for results that were open or unknown.
fn begins_with(longer: &[String], shorter: &[String]) -> bool {
    let same = |(long, short): (&String, &String)| {
        let lines = long.lines().zip(short.lines());
        let open = |line: &str| line.contains("<unknown outcome>") || line.contains("!: ");
        long.lines().count() == short.lines().count()
            && lines.into_iter().all(|(l, s)| l == s || open(s))
    };
    longer.len() >= shorter.len() && longer.iter().zip(shorter).all(same)
}

/// Few cases by default; `PROPTEST_CASES` asks for more.
fn config(few: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(few),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(48))]

    /// Covers: G6, G4, #36, #48, #49. Every prefix of every session gives something that providers take,
    /// also with records lost, and every record gets one row of the trace.
    #[test]
    fn every_context_is_legal(steps in steps(true), lost in prop::collection::vec(1_usize..40, 0..4)) {
        let session = session(&steps);
        for (len, tip) in prefixes(&session.records) {
            let context = context::build(&session.records[..len], tip);
            check_legal(&context)?;
            let rows: Vec<_> = context.trace.iter().map(|row| row.seq).collect();
            let seqs: Vec<_> = session.records[..len].iter().map(Record::seq).collect();
            prop_assert_eq!(rows, seqs);
        }
        let mut damaged = session.records.clone();
        for at in lost.into_iter().filter(|at| *at < session.records.len()) {
            damaged.retain(|r| r.seq() != at as u64);
        }
        check_legal(&context::build(&damaged, session.tip()))?;
        check_legal(&session.context().for_model(&model("m1")))?;
        check_legal(&session.context().for_model(&model("nobody")))?;
        check_legal(&session.context().for_target(&target("m1", "s1")))?;
    }

    /// Covers: G10, G11. The part of the log that is needed gives the same messages as the whole, with
    /// whatever else comes with it.
    #[test]
    fn the_active_part_gives_the_same(steps in steps(true), extra in prop::collection::vec(any::<bool>(), 42)) {
        let session = session(&steps);
        for (len, tip) in prefixes(&session.records) {
            let records = &session.records[..len];
            let needed: HashSet<_> = context::needed(records, tip).into_iter().collect();
            let sent = |records: &[Record]| {
                let context = context::build(records, tip);
                messages(&context) + &messages(&context.for_target(&target("m1", "s1")))
            };
            let whole = sent(records);
            let part = |more: bool| -> Vec<Record> {
                let takes = |r: &&Record| {
                    needed.contains(&r.seq()) || (more && extra[usize::try_from(r.seq()).unwrap()])
                };
                records.iter().filter(takes).cloned().collect()
            };
            let needs_tip = tip.is_none_or(|t| records.iter().any(|r| r.seq() == t.seq && r.is_node()));
            if needs_tip {
                prop_assert_eq!(&sent(&part(false)), &whole);
                prop_assert_eq!(&sent(&part(true)), &whole);
            }
        }
    }

    /// Covers: G10. What was sent is the beginning of what is sent next, unless a tip, a compaction or an
    /// edit says otherwise.
    #[test]
    fn a_longer_log_continues_a_shorter_one(steps in steps(true)) {
        let session = session(&steps);
        let mut before: Vec<String> = Vec::new();
        for (len, tip) in prefixes(&session.records) {
            let now = settled(&context::build(&session.records[..len], tip));
            let changes = match session.records[len - 1].body() {
                Body::Tip(_) | Body::ContextEdit(_) => true,
                body @ Body::Compaction(_) => body.is_node(),
                _ => false,
            };
            prop_assert!(changes || begins_with(&now, &before), "{:#?}\nthen\n{:#?}", before, now);
            before = now;
        }
    }

    /// Covers: G10. Nothing but the records decides: twice the same.
    #[test]
    fn building_twice_gives_the_same(steps in steps(false)) {
        let session = session(&steps);
        prop_assert_eq!(messages(&session.context()), messages(&session.context()));
    }

    /// Covers: EV3, #45, #41. A compaction at the chosen boundary gives a legal context in which every
    /// call that was answered still is, or is gone with its result.
    #[test]
    fn a_boundary_splits_no_call_from_its_result(steps in steps(true), tail in 0_u64..120, words in 0_u64..40) {
        let session = session(&steps);
        let before = session.context();
        let budget = Budget { tail, words, prompt: words, notices: tail % 2 == 0 };
        let Some(boundary) = context::choose_boundary(&session.records, session.tip(), budget) else {
            return Ok(());
        };
        prop_assert!(!boundary.summarised.is_empty());
        let open: Vec<_> = before.unanswered.iter().map(|u| (u.call_seq, u.call_id.clone())).collect();
        // What came behind the last whole reply stays whatever it costs: the model has not seen it.
        let waits = waits(&before, &session);
        let after = compacted(session, &boundary);
        check_legal(&after)?;
        let still: Vec<_> = after.unanswered.iter().map(|u| (u.call_seq, u.call_id.clone())).collect();
        prop_assert!(open == still, "{:?} became {:?}", open, still);
        let told = context::estimate_messages(&after.messages);
        let bound = open.is_empty() && !waits;
        prop_assert!(!bound || boundary.kept_tokens <= tail + 2 * words, "{told}");
    }
}

proptest! {
    // Each case reads a log from its end once per record.
    #![proptest_config(config(60))]

    /// Covers: G10, G11, ST2. Reading a log from its end gives the context that was there before it was
    /// closed, for every prefix.
    #[test]
    fn the_context_after_reopening_is_the_one_before(steps in steps(true)) {
        let session = session(&as_written_by_us(steps));
        let mut bytes = Vec::new();
        for (len, tip) in prefixes(&session.records) {
            bytes.extend_from_slice(&session.records[len - 1].line);
            bytes.push(b'\n');
            let loaded = segno_model::active::load_bytes(&bytes);
            let before = messages(&context::build(&session.records[..len], tip));
            let after = messages(&context::build(&loaded.records, loaded.state.tip()));
            prop_assert_eq!(after, before);
        }
    }
}

/// Whether a prompt or a result came behind the last whole reply.
fn waits(context: &Context, session: &Session) -> bool {
    let record = |seq| session.records.iter().find(|r| r.seq() == seq);
    let replies = context.messages.iter().filter_map(|message| match message {
        ContextMessage::Assistant(turn) => record(turn.seq).filter(|r| is_whole_reply(r)),
        _ => None,
    });
    let replied = replies.map(Record::seq).max().unwrap_or(0);
    context.messages.iter().any(|message| match message {
        ContextMessage::User { seq, .. } => *seq > replied && !is_notice(message),
        ContextMessage::Results(_) => {
            session.records.iter().any(|r| r.seq() > replied && is_result(r))
        }
        _ => false,
    })
}

fn is_result(record: &Record) -> bool {
    matches!(record.body(), Body::Message(message) if matches!(&**message, Message::Tool(_)))
}

fn is_whole_reply(record: &Record) -> bool {
    let Body::Message(message) = record.body() else { return false };
    matches!(&**message, Message::Assistant(reply) if reply.stop != StopReason::Broken)
}

/// The context after a compaction with this boundary.
fn compacted(mut session: Session, boundary: &context::Boundary) -> Context {
    use segno_model::record::{Compaction, CompactionState};
    let mut done = Compaction::marker(CompactionState::Done, None);
    done.summary = Some(Text::Inline("SUM".to_owned()));
    done.first_kept = boundary.first_kept;
    done.kept.clone_from(&boundary.kept);
    session.add(&Body::Compaction(Box::new(done)), None, false);
    session.context()
}
