//! What a session cost, as a fold over its records.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use proptest::prelude::*;
use segno_model::accounting::{Accounts, Kind, Price, Sum};
use segno_model::batch::{Draft, plan};
use segno_model::record::{
    AssistantMessage, Attempt, Block, Child, ChildState, Compaction, CompactionState, Established,
    Header, Message, ModelRef, Outcome, Request, Run, RunState, Tip, ToolMessage, Usage,
    UsageRecord, UserMessage,
};
use segno_model::state::State;
use segno_model::{Body, Record, Seq, SessionId, Timestamp};

/// A log that is written record by record, one second apart.
#[derive(Default)]
struct Log {
    state: State,
    records: Vec<Record>,
}

impl Log {
    fn new() -> Self {
        let id = SessionId::parse("0195f3a0-0000-7000-8000-000000000001").unwrap();
        let mut log = Self::default();
        log.write(Body::Session(Box::new(Header::new(id, "1"))));
        log
    }

    fn write(&mut self, body: Body) -> Seq {
        let at = Timestamp(1000 * i64::try_from(self.records.len()).unwrap());
        let batch = plan(&self.state, None, vec![Draft::new(at, body)]).unwrap();
        batch.apply_to(&mut self.state);
        self.records.extend(batch.records);
        self.records.last().unwrap().seq()
    }

    fn prompt(&mut self) -> Seq {
        self.write(Body::Message(Box::new(Message::User(UserMessage::text("go on")))))
    }

    fn ask(&mut self, purpose: Option<&str>) -> Seq {
        let purpose = purpose.map(str::to_owned);
        self.write(Body::Request(Request { number: 1, model: model("a"), estimate: 10, purpose }))
    }

    fn answer(&mut self, request: Option<Seq>, of: &str, output: Option<u64>) -> Seq {
        let usage = output.map(|output| Usage { output, ..Usage::default() });
        let reply =
            AssistantMessage { request, usage, ..AssistantMessage::new(&model(of), vec![]) };
        self.write(Body::Message(Box::new(Message::Assistant(reply))))
    }

    /// A prompt and its answer with so many tokens.
    fn turn(&mut self, output: u64) -> Seq {
        self.prompt();
        let request = self.ask(None);
        self.answer(Some(request), "a", Some(output))
    }

    fn spend(&mut self, purpose: &str, of: &str, output: u64) {
        let usage = Usage { output, ..Usage::default() };
        let (purpose, model) = (purpose.to_owned(), model(of));
        self.write(Body::Usage(UsageRecord { purpose, model, usage }));
    }

    fn compaction(&mut self, state: CompactionState, output: Option<u64>) {
        let usage = output.map(|output| Usage { output, ..Usage::default() });
        let compaction = Compaction { usage, ..Compaction::marker(state, None) };
        self.write(Body::Compaction(Box::new(compaction)));
    }

    fn go_to(&mut self, seq: Seq) {
        let tip = self.records.iter().find(|r| r.seq() == seq).map(Record::pos);
        self.write(Body::Tip(Tip { tip }));
    }

    fn accounts(&self) -> Accounts {
        let mut accounts = Accounts::default();
        self.records.iter().for_each(|record| accounts.apply(record));
        accounts
    }

    fn total(&self) -> Sum {
        self.accounts().total(&price)
    }
}

fn model(id: &str) -> ModelRef {
    ModelRef::new("test", id)
}

/// A dollar for a token of `a`, two of `b`; others have no price.
fn price(model: &ModelRef) -> Option<Price> {
    let tokens = |usd: u64| Price::Tokens {
        input: usd * 1_000_000_000_000,
        output: usd * 1_000_000_000_000,
        cache_read: None,
        cache_write: None,
        reasoning: None,
    };
    match model.id.as_str() {
        "a" => Some(tokens(1)),
        "b" => Some(tokens(2)),
        _ => None,
    }
}

/// Covers: US2. What was left is paid for, but is no part of the branch that is gone on with.
#[test]
fn abandoned_branches_count_in_the_session_and_not_in_the_branch() {
    let mut log = Log::new();
    let first = log.turn(10);
    log.turn(20);
    log.go_to(first);
    log.turn(5);
    assert_eq!(log.total().usage.output, 35);
    let branches = log.accounts().branches(&price);
    let told: Vec<_> = branches.iter().map(|b| (b.current, b.sum.usage.output)).collect();
    assert_eq!(told, [(true, 15), (false, 30)]);
    // Somebody goes back: the node itself is no leaf any more, and yet the current branch.
    log.go_to(first);
    let branches = log.accounts().branches(&price);
    let told: Vec<_> = branches.iter().map(|b| (b.current, b.sum.usage.output)).collect();
    assert_eq!(told, [(true, 10), (false, 15), (false, 30)]);
}

/// Covers: US5, US11, #155. The last value wins, and another call counts.
#[test]
fn one_response_told_several_times_counts_once() {
    let mut log = Log::new();
    log.prompt();
    let request = log.ask(None);
    for output in [Some(1), Some(1), Some(240), None] {
        log.answer(Some(request), "a", output);
    }
    assert_eq!((log.total().responses, log.total().usage.output), (1, 240));
    let next = log.ask(None);
    log.answer(Some(next), "a", Some(2));
    assert_eq!((log.total().responses, log.total().usage.output), (2, 242));
}

/// Covers: US8, US15. Summaries, retries and broken replies are paid for; of a call without a word nobody
/// knows what it cost, and what an agent never reports is not missing.
#[test]
fn summaries_retries_and_calls_without_an_answer_are_counted() {
    let mut log = Log::new();
    log.answer(None, "a", None);
    assert_eq!(log.total(), Sum::default(), "an imported reply whose agent reports nothing");
    log.turn(10);
    log.ask(Some("compaction"));
    let usage = Usage { output: 7, ..Usage::default() };
    log.write(Body::Compaction(Box::new(Compaction {
        usage: Some(usage),
        ..Compaction::marker(CompactionState::Failed, Some("cut off".into()))
    })));
    log.ask(None);
    let retry = UsageRecord { purpose: "retry".into(), model: model("a"), usage };
    log.write(Body::Usage(retry));
    assert_eq!((log.total().responses, log.total().usage.output), (3, 24));
    assert_eq!(log.total().money(), "24.00");
    log.ask(None);
    let broken = log.ask(None);
    log.answer(Some(broken), "a", None);
    log.ask(Some("compaction"));
    log.ask(Some("title"));
    let total = log.total();
    assert_eq!((total.unknown.reply, total.unknown.summary, total.unknown.other), (2, 1, 1));
    assert_eq!(total.money(), "≥ 24.00");
}

/// Covers: US3, US9, US13. Each call at the price of its own model; nothing is made up.
#[test]
fn every_call_has_the_price_of_who_made_it() {
    let mut log = Log::new();
    log.turn(1);
    let request = log.ask(None);
    log.answer(Some(request), "b", Some(1));
    assert_eq!(log.total().money(), "3.00");
    for of in ["nobody-knows", ""] {
        let request = log.ask(None);
        log.answer(Some(request), of, Some(1));
    }
    assert_eq!((log.total().money(), log.total().unpriced), ("≥ 3.00".to_owned(), 2));
}

/// Covers: US1, US7, US14. A child counts once, however often it went on; one that cannot be found is
/// missing, and one that never started is not.
#[test]
fn children_count_once_or_are_missing() {
    let mut log = Log::new();
    log.turn(1);
    let mut child = |id: &str, state| {
        log.write(Body::Child(Child::new(id, "c", state)));
    };
    child("one", ChildState::Started);
    child("one", ChildState::Ended);
    child("one", ChildState::Started);
    child("rejected", ChildState::Ended);
    let spent = |id: &str| {
        let mut sum = Sum::default();
        sum.add_call(&Usage { output: 4, ..Usage::default() }, price(&model("a")));
        (id == "one").then_some(sum)
    };
    let accounts = log.accounts();
    assert_eq!(accounts.total_with_children(&price, &spent).money(), "5.00");
    let unknown = accounts.total_with_children(&price, &|_| None);
    assert_eq!((unknown.children_unknown, unknown.money().as_str()), (1, "≥ 1.00"));
}

/// A call of a subagent without a record of its end leaves the sum open when the subagent's own log is not there,
/// whatever its result says; a call of another tool never does. Covers: US6.
#[test]
fn a_subagent_without_a_log_leaves_the_sum_open_and_another_tool_does_not() {
    let result = |name: &str| {
        let content = vec![Block::text("done, 5 tokens in, 7 out")];
        Body::Message(Box::new(Message::Tool(ToolMessage {
            call_id: "c".to_owned(),
            call_seq: None,
            name: name.to_owned(),
            content,
            whole: None,
            is_error: false,
            outcome: Outcome::Done,
            established: Established::Observed,
            background: None,
        })))
    };
    for (tool, missing, money) in [("task", 1, "≥ 1.00"), ("bash", 0, "1.00")] {
        let mut log = Log::new();
        log.turn(1);
        if tool == "task" {
            log.write(Body::Child(Child::new("one", "c", ChildState::Started)));
        }
        log.write(result(tool));
        let sum = log.accounts().total_with_children(&price, &|_| None);
        assert_eq!((sum.children_unknown, sum.money().as_str()), (missing, money), "{tool}");
    }
}

/// What an attempt's record says of model and tokens is for programs: it has no price, however it reads. Covers: US16.
#[test]
fn an_attempts_record_costs_nothing() {
    let mut log = Log::new();
    log.turn(1);
    let usage = Some(Usage { output: 1_000_000, ..Usage::default() });
    let attempt = Attempt {
        id: "3.0".to_owned(),
        launched: true,
        model: Some(model("b")),
        usage,
        ..Attempt::default()
    };
    let ended = Child::new("one", "c", ChildState::Ended);
    log.write(Body::Child(Child { attempt: Some(Box::new(attempt)), ..ended }));
    assert_eq!(log.total().money(), "1.00");
    assert_eq!(log.accounts().total_with_children(&price, &|_| None).money(), "1.00");
}

/// Time between records that one process wrote; what ran beside something else counts once.
#[test]
fn time_is_what_a_process_saw_pass() {
    let mut log = Log::new();
    log.prompt();
    let request = log.ask(None);
    let turn = log.answer(Some(request), "a", Some(1));
    for id in ["c1", "c2"] {
        let result = serde_json::json!({
            "call_id": id, "call_seq": turn, "name": "read", "content": [],
            "outcome": "done", "established": "observed",
        });
        let result: ToolMessage = serde_json::from_value(result).unwrap();
        log.write(Body::Message(Box::new(Message::Tool(result))));
    }
    assert_eq!((log.total().model_ms, log.total().tool_ms), (1000, 2000));
    // A process dies in the middle of a call: the time until the next one came is nobody's.
    let request = log.ask(None);
    let state = RunState::Started { attempt: 2, owner: "next".into() };
    log.write(Body::Run(Run { run: 1, state }));
    log.answer(Some(request), "a", Some(1));
    assert_eq!((log.total().model_ms, log.total().tool_ms), (1000, 2000));
}

#[derive(Debug, Clone)]
enum Step {
    Turn(u64),
    Ask,
    AnswerAgain(u64),
    Back(prop::sample::Index),
    Retry(&'static str, u64),
    /// A compaction with so many calls that told what they cost before its own, and what came of that: none
    /// when nobody recorded it, and recovery did.
    Compact(u64, Option<u64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..100u64).prop_map(Step::Turn),
        Just(Step::Ask),
        (0..100u64).prop_map(Step::AnswerAgain),
        any::<prop::sample::Index>().prop_map(Step::Back),
        (prop::sample::select(vec!["a", "b"]), 0..100u64).prop_map(|(of, n)| Step::Retry(of, n)),
        (0..3u64, prop::option::of(0..100u64)).prop_map(|(told, own)| Step::Compact(told, own)),
    ];
    prop::collection::vec(step, 0..30)
}

fn played(steps: &[Step]) -> Log {
    let mut log = Log::new();
    for step in steps {
        match step {
            Step::Turn(output) => drop(log.turn(*output)),
            Step::Ask => drop(log.ask(None)),
            Step::AnswerAgain(output) => {
                let is_request = |r: &&Record| matches!(r.body(), Body::Request(_));
                let asked = log.records.iter().rev().find(is_request).map(Record::seq);
                log.answer(asked, "a", Some(*output));
            }
            Step::Back(at) => {
                let nodes: Vec<Seq> =
                    log.records.iter().filter(|r| r.is_node()).map(Record::seq).collect();
                if !nodes.is_empty() {
                    log.go_to(*at.get(&nodes));
                }
            }
            Step::Retry(of, output) => log.spend("retry", of, *output),
            Step::Compact(told, own) => {
                log.compaction(CompactionState::Started, None);
                for _ in 0..*told {
                    log.ask(Some("compaction"));
                    log.spend("compaction", "a", 1);
                }
                log.ask(Some("compaction"));
                match own {
                    Some(_) => log.compaction(CompactionState::Done, *own),
                    None => log.compaction(CompactionState::Failed, None),
                }
            }
        }
    }
    log
}

/// Covers: US8, G6. A compaction that was interrupted is one unknown call in the totals that checkpoints keep and
/// in the accounts; what its calls told before is none, and recovery's `failed` takes nothing back.
#[test]
fn an_interrupted_compaction_counts_as_unknown() {
    for (told, own, unknown) in [(0, None, 1), (1, None, 1), (0, Some(7), 0), (1, Some(7), 0)] {
        let log = played(&[Step::Turn(10), Step::Compact(told, own), Step::Turn(1)]);
        let totals = log.state.in_force.totals;
        assert_eq!(totals.unknown, unknown, "{told} {own:?}");
        assert_eq!(log.total().unknown.summary, unknown, "{told} {own:?}");
        assert_eq!(totals.usage.output, 11 + told + own.unwrap_or(0));
    }
}

proptest! {
    /// Covers: US2, US4. A view that is brought up to date is the one that is made anew, and records that
    /// were seen change nothing. Each branch is at most the session, and every call is on some branch.
    #[test]
    fn a_view_brought_up_to_date_is_the_one_made_anew(steps in steps(), cut in any::<prop::sample::Index>()) {
        let log = played(&steps);
        let anew = log.accounts();
        let mut view = Accounts::default();
        let cut = cut.index(log.records.len() + 1);
        for record in log.records[..cut].iter().chain(&log.records[..cut]).chain(&log.records) {
            view.apply(record);
        }
        prop_assert_eq!(&view, &anew);
        let total = anew.total(&price);
        for branch in anew.branches(&price) {
            prop_assert!(branch.sum.usd <= total.usd);
            prop_assert!(branch.sum.responses <= total.responses);
        }
        let told = anew.entries().filter(|e| matches!(e.kind, Kind::Call { usage: Some(_), .. })).count();
        prop_assert_eq!(told as u64, total.responses);
        prop_assert_eq!(log.state.in_force.totals.unknown, total.unknown.total());
        prop_assert_eq!(total.money() == "-", anew.entries().next().is_none());
    }
}
