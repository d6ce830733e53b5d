//! The session-wide state that a log adds up to, step by step.
//!
//! Responsible for: the fold as an embedder sees it through [`State`]. Must not: read bytes.

use segno_model::batch::{self, Draft};
use segno_model::record::*;
use segno_model::state::State;
use segno_model::{Body, Pos, Record, Seq, SessionId, Timestamp};
use serde_json::value::RawValue;

/// A log in memory.
struct Log {
    state: State,
    records: Vec<Record>,
}

impl Log {
    fn new() -> Self {
        let mut log = Self { state: State::default(), records: Vec::new() };
        let id = SessionId::parse("01900000-0000-7000-8000-000000000000").expect("a valid log");
        log.add(Body::Session(Box::new(Header {
            format: FORMAT,
            id,
            project: ProjectFacts::default(),
            git: None,
            version: "test".to_owned(),
            origin: None,
            launch: None,
        })));
        log
    }

    fn add(&mut self, body: Body) -> Pos {
        let at = Timestamp(1_000 + i64::try_from(self.records.len()).expect("a valid log"));
        let batch =
            batch::plan(&self.state, None, vec![Draft::new(at, body)]).expect("a valid log");
        batch.apply_to(&mut self.state);
        self.records.extend(batch.records);
        self.records.last().expect("a valid log").pos()
    }

    fn json(&self) -> String {
        json(&self.state)
    }
}

fn json(state: &State) -> String {
    serde_json::to_string_pretty(&state.in_force).expect("a valid log")
}

fn user(text: &str) -> Body {
    message(Message::User(UserMessage::text(text)))
}

fn message(message: Message) -> Body {
    Body::Message(Box::new(message))
}

fn usage(input: u64) -> Usage {
    Usage { input, output: 1, ..Usage::default() }
}

fn reply(ids: &[&str], tokens: u64) -> Body {
    let call = |id: &&str| {
        let (id, name) = ((*id).to_owned(), "bash".to_owned());
        AssistantBlock::ToolCall(ToolCall { id, name, arguments: "{}".to_owned() })
    };
    message(Message::Assistant(AssistantMessage {
        content: ids.iter().map(call).collect(),
        usage: Some(usage(tokens)),
        ..AssistantMessage::default()
    }))
}

fn result(id: &str, call_seq: Option<Seq>) -> Body {
    message(Message::Tool(ToolMessage {
        call_id: id.to_owned(),
        call_seq,
        name: "bash".to_owned(),
        content: vec![Block::text("out")],
        whole: None,
        is_error: false,
        outcome: Outcome::Done,
        established: Established::Observed,
        background: None,
    }))
}

fn action(id: &str, call_seq: Seq) -> Body {
    Body::Action(Box::new(Action {
        call_id: id.to_owned(),
        call_seq,
        tool: "bash".to_owned(),
        class: ReplayClass::Opaque,
        host: String::new(),
        boot: String::new(),
        key: None,
        probe: None,
        before: None,
    }))
}

fn approval(id: &str, call_seq: Seq, state: ApprovalState) -> Body {
    Body::Approval(Approval { call_id: id.to_owned(), call_seq, state })
}

fn asked() -> ApprovalState {
    ApprovalState::Asked { question: "may I?".to_owned() }
}

fn answered() -> ApprovalState {
    ApprovalState::Answered { allowed: true, scope: "once".to_owned(), reason: None }
}

fn started(run: u64, attempt: u32) -> Body {
    Body::Run(Run { run, state: RunState::Started { attempt, owner: "me".to_owned() } })
}

fn ended(run: u64, end: RunEnd) -> Body {
    Body::Run(Run { run, state: RunState::Ended { end, reason: None } })
}

fn model(id: &str, chosen: bool) -> Body {
    let model = ModelRef { provider: "test".to_owned(), id: id.to_owned() };
    Body::Model(ModelChange { model, chosen, base_url: None })
}

fn compaction(state: CompactionState) -> Body {
    let mut compaction = Compaction::marker(state, None);
    compaction.usage = (state == CompactionState::Done).then(|| usage(7));
    Body::Compaction(Box::new(compaction))
}

fn edit(target: Seq, edit: &str) -> Body {
    Body::ContextEdit(ContextEdit {
        target,
        edit: edit.to_owned(),
        content: Vec::new(),
        ..ContextEdit::default()
    })
}

fn custom(context: Option<&str>) -> Body {
    let data = RawValue::from_string("{}".to_owned()).expect("a valid log");
    Body::Custom(Custom { name: "test".to_owned(), data, context: context.map(str::to_owned) })
}

fn child(state: ChildState) -> Body {
    Body::Child(Child::new("c", "1", state))
}

/// One record of each kind that changes something, more than once where order matters.
fn everything(log: &mut Log) {
    log.add(started(1, 1));
    let first = log.add(user("do it"));
    log.add(model("m1", false));
    log.add(Body::Thinking(ThinkingChange { level: "high".to_owned() }));
    let call = log.add(reply(&["a", "b"], 10));
    log.add(approval("a", call.seq, asked()));
    log.add(approval("a", call.seq, answered()));
    log.add(action("a", call.seq));
    log.add(action("b", call.seq));
    log.add(result("a", Some(call.seq)));
    log.add(child(ChildState::Started));
    log.add(Body::Label(Label { target: first, label: "begin".to_owned() }));
    log.add(Body::Name(Name { name: "work".to_owned() }));
    log.add(edit(first.seq, "omit"));
    log.add(Body::Task(Task { goal: "finish".to_owned(), ..Task::default() }));
    log.add(compaction(CompactionState::Started));
    log.add(compaction(CompactionState::Done));
    log.add(custom(Some("from outside")));
    log.add(Body::Tip(Tip { tip: Some(first) }));
    log.add(user("again"));
    log.add(Body::Usage(UsageRecord {
        purpose: "title".to_owned(),
        model: ModelRef::default(),
        usage: usage(3),
    }));
    log.add(ended(1, RunEnd::Completed));
    log.add(started(2, 1));
}

/// Covers: G11, ST19. A checkpoint anywhere stands for everything before it.
#[test]
fn a_checkpoint_equals_the_records_before_it() {
    let mut whole = Log::new();
    everything(&mut whole);
    for at in 1..whole.records.len() {
        let mut before = State::default();
        whole.records[..at].iter().for_each(|r| before.apply(r));
        let body = Body::Checkpoint(Box::new(before.in_force.clone()));
        let draft = Draft::new(Timestamp(1), body);
        let planned = batch::plan(&before, None, vec![draft]).unwrap();
        let record = planned.records[0].clone();
        let Body::Checkpoint(checkpoint) = record.body() else { panic!("a checkpoint") };
        let mut resumed = State::from_checkpoint(&record, checkpoint);
        assert_eq!(resumed.next_seq, before.next_seq + 1);
        assert_eq!(resumed.end, planned.head.end);
        whole.records[at..].iter().for_each(|r| resumed.apply(r));
        resumed.in_force.checkpoint_at = whole.state.in_force.checkpoint_at;
        assert_eq!(json(&resumed), whole.json(), "after a checkpoint behind record {at}");
    }
}

/// Covers: ST12, ST13, ST14, MS5. Only nodes and `tip` records move the tip.
#[test]
fn the_tip_follows_nodes_and_tip_records() {
    let mut log = Log::new();
    assert_eq!(log.state.tip(), None);
    let first = log.add(user("one"));
    let second = log.add(reply(&[], 1));
    assert_eq!(log.state.tip(), Some(second));
    log.add(model("m2", true));
    log.add(Body::Name(Name { name: "x".to_owned() }));
    log.add(Body::Label(Label { target: first, label: "l".to_owned() }));
    log.add(compaction(CompactionState::Started));
    log.add(compaction(CompactionState::Failed));
    log.add(custom(None));
    assert_eq!(log.state.tip(), Some(second));
    log.add(Body::Tip(Tip { tip: Some(first) }));
    assert_eq!(log.state.tip(), Some(first));
    assert_eq!(log.state.in_force.last_node, Some(second));
    let branch = log.add(user("two"));
    assert_eq!(log.state.tip(), Some(branch));
    assert_eq!(log.records.last().unwrap().envelope.parent, Some(first.seq));
    assert_eq!(log.records.last().unwrap().envelope.parent_at, Some(first));
    log.add(Body::Tip(Tip { tip: None }));
    assert_eq!(log.state.tip(), None);
    log.add(user("anew"));
    assert_eq!(log.records.last().unwrap().envelope.parent, None);
    let node = log.add(custom(Some("text")));
    assert_eq!(log.state.tip(), Some(node));
    let done = log.add(compaction(CompactionState::Done));
    assert_eq!(log.state.tip(), Some(done));
}

/// Covers: MS3, MS5. The latest model holds, in any branch; that a person chose one is remembered.
#[test]
fn the_latest_model_holds() {
    let mut log = Log::new();
    log.add(model("m1", false));
    assert!(!log.state.in_force.model_chosen);
    log.add(model("m2", true));
    log.add(model("m3", false));
    let now = &log.state.in_force;
    assert_eq!(now.model.as_ref().map(|m| m.id.as_str()), Some("m3"));
    assert!(now.model_chosen);
}

#[test]
fn empty_names_and_labels_take_the_old_ones_away() {
    let mut log = Log::new();
    let at = log.add(user("one"));
    log.add(Body::Label(Label { target: at, label: "a".to_owned() }));
    log.add(Body::Label(Label { target: at, label: "b".to_owned() }));
    log.add(Body::Name(Name { name: "n".to_owned() }));
    assert_eq!(log.state.in_force.labels[&at.seq].label, "b");
    assert_eq!(log.state.in_force.name.as_deref(), Some("n"));
    log.add(Body::Label(Label { target: at, label: String::new() }));
    log.add(Body::Name(Name { name: String::new() }));
    assert!(log.state.in_force.labels.is_empty());
    assert_eq!(log.state.in_force.name, None);
}

/// Covers: G7, #38. An effect is open until its own result; a reused id does not close another's.
#[test]
fn effects_are_open_until_their_result() {
    let mut log = Log::new();
    let first = log.add(reply(&["x"], 1));
    log.add(action("x", first.seq));
    let second = log.add(reply(&["x"], 1));
    log.add(action("x", second.seq));
    log.add(result("x", Some(second.seq)));
    let open: Vec<_> = log.state.in_force.open_actions.iter().map(|a| a.action.call_seq).collect();
    assert_eq!(open, [first.seq]);
    log.add(result("y", None));
    assert_eq!(log.state.in_force.open_actions.len(), 1);
    log.add(result("x", None));
    assert!(log.state.in_force.open_actions.is_empty());
}

/// Covers: #43. A question stays open until it is answered or its call has a result.
#[test]
fn questions_are_open_until_answered() {
    let mut log = Log::new();
    let call = log.add(reply(&["a", "b"], 1));
    log.add(approval("a", call.seq, asked()));
    log.add(approval("b", call.seq, asked()));
    assert_eq!(log.state.in_force.open_approvals.len(), 2);
    log.add(approval("a", call.seq, answered()));
    assert_eq!(log.state.in_force.open_approvals.len(), 1);
    log.add(result("b", Some(call.seq)));
    assert!(log.state.in_force.open_approvals.is_empty());
}

/// Covers: G9. A run is open from its start to its end, and knows that it is being stopped.
#[test]
fn runs_open_stop_and_end() {
    let mut log = Log::new();
    log.add(started(1, 1));
    log.add(started(1, 2));
    let open = log.state.in_force.open_run.clone().unwrap();
    assert_eq!((open.run, open.attempt, open.stopping), (1, 2, false));
    log.add(Body::Run(Run { run: 1, state: RunState::Stopping { parked: Vec::new() } }));
    assert!(log.state.in_force.open_run.as_ref().unwrap().stopping);
    log.add(ended(1, RunEnd::Stopped));
    assert_eq!(log.state.in_force.open_run, None);
    log.add(started(2, 1));
    assert_eq!(log.state.in_force.totals.runs, 2);
    assert_eq!(log.state.in_force.totals.attempts, 3);
}

/// Covers: #51. A compaction is open until it failed or is done.
#[test]
fn a_compaction_is_open_until_it_ends() {
    let mut log = Log::new();
    for end in [CompactionState::Failed, CompactionState::Done] {
        let at = log.add(compaction(CompactionState::Started));
        assert_eq!(log.state.in_force.open_compaction, Some(at.seq));
        log.add(compaction(end));
        assert_eq!(log.state.in_force.open_compaction, None);
    }
    assert_eq!(log.state.in_force.totals.compactions, 1);
    assert_eq!(log.state.in_force.totals.usage.input, 7);
}

#[test]
fn edits_are_in_force_until_restored() {
    let mut log = Log::new();
    log.add(user("one"));
    log.add(edit(1, "omit"));
    let replaced = log.add(edit(1, "replace"));
    log.add(edit(1, "sparkle"));
    assert_eq!(log.state.in_force.context_edits[&1], replaced);
    log.add(edit(1, "restore"));
    assert!(log.state.in_force.context_edits.is_empty());
}

#[test]
fn children_are_open_until_they_end() {
    let mut log = Log::new();
    log.add(child(ChildState::Started));
    assert_eq!(log.state.in_force.open_children.len(), 1);
    log.add(child(ChildState::Ended));
    assert!(log.state.in_force.open_children.is_empty());
}

/// Covers: ST16, #52. Notices and summaries are no prompts; every branch counts.
#[test]
fn totals_count_the_whole_session() {
    let mut log = Log::new();
    log.add(message(Message::User(UserMessage::notice("instructions", "read this"))));
    log.add(user("  \n "));
    let long = "é".repeat(500);
    let first = log.add(user(&long));
    log.add(reply(&["a"], 10));
    log.add(result("a", None));
    log.add(Body::Tip(Tip { tip: Some(first) }));
    log.add(reply(&[], 20));
    log.add(compaction(CompactionState::Done));
    log.add(user("later"));
    let now = &log.state.in_force;
    assert_eq!(now.totals.user_messages, 3);
    assert_eq!(now.totals.assistant_messages, 2);
    assert_eq!(now.totals.tool_results, 1);
    assert_eq!(now.totals.usage.input, 37);
    assert_eq!(now.first_prompt.as_ref().map(|p| p.chars().count()), Some(200));
    assert_eq!(now.last_message_at, Some(Timestamp(1_000 + 9)));
}

/// Covers: G13. What cannot be read moves the tip only if it is a node.
#[test]
fn unreadable_records_keep_the_path_connected() {
    let line = |text: &str| {
        let crc = segno_model::line::checksum(text.as_bytes());
        segno_model::line::decode(format!("{text},\"crc\":\"{crc:08x}\"}}").as_bytes(), 50).unwrap()
    };
    let mut state = State::default();
    state.apply(&line(r#"{"seq":1,"type":"hologram""#));
    assert_eq!(state.tip(), None);
    state.apply(&line(r#"{"seq":2,"type":"compaction","state":"paused""#));
    assert_eq!(state.tip(), None);
    let message = line(r#"{"seq":3,"type":"message","role":"oracle""#);
    state.apply(&message);
    assert_eq!(state.tip(), Some(message.pos()));
    let node = line(r#"{"seq":4,"parent":3,"type":"hologram""#);
    state.apply(&node);
    assert_eq!(state.tip(), Some(node.pos()));
    assert_eq!(state.next_seq, 5);
}

/// Gaps in the numbers do no harm.
#[test]
fn gaps_are_fine() {
    let mut log = Log::new();
    log.add(user("one"));
    let lost = log.add(reply(&[], 1));
    let last = log.add(user("two"));
    let mut state = State::default();
    log.records.iter().filter(|r| r.seq() != lost.seq).for_each(|r| state.apply(r));
    assert_eq!(state.tip(), Some(last));
    assert_eq!(state.next_seq, log.state.next_seq);
}

/// What is in memory after an append is what reopening reads, byte for byte, also where a provider or an
/// embedder wrote its JSON over several lines. Covers: G10.
#[test]
fn raw_json_of_several_lines_is_the_same_before_and_after_reopening() {
    let raw = || {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        let json = format!("[ {{\n\"a\":\r\n\t\"b\\n\" }}, {deep} ]");
        RawValue::from_string(json).expect("JSON")
    };
    let native = Some(Native { dialect: "d".to_owned(), items: raw() });
    let reply = AssistantMessage { native, ..AssistantMessage::default() };
    let action = Action {
        call_id: "a".to_owned(),
        call_seq: 1,
        tool: "t".to_owned(),
        class: ReplayClass::Opaque,
        host: String::new(),
        boot: String::new(),
        key: None,
        probe: Some(raw()),
        before: None,
    };
    let custom = Custom { name: "x".to_owned(), data: raw(), context: None };
    let mut compaction = Compaction::marker(CompactionState::Done, None);
    compaction.native = Some(Native { dialect: "openai".to_owned(), items: raw() });
    for body in [
        Body::Message(Box::new(Message::Assistant(reply))),
        Body::Action(Box::new(action)),
        Body::Custom(custom),
        Body::Compaction(Box::new(compaction)),
    ] {
        let drafts = vec![Draft::new(Timestamp(0), body)];
        let state = State { next_seq: 1, ..State::default() };
        let batch = segno_model::batch::plan(&state, None, drafts).expect("planned");
        let record = &batch.records[0];
        let read = segno_model::line::decode(&record.line, record.offset).expect("intact");
        assert_eq!(format!("{:?}", record.body()), format!("{:?}", read.body()));
    }
}
