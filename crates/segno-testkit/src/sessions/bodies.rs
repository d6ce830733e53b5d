//! Record bodies that read like a real session's.
//!
//! Responsible for: short constructors, and one example of every record type. Must not: know states.

use segno_model::record::{
    Action, Approval, ApprovalState, AssistantBlock, AssistantMessage, Block, BranchSummary, Child,
    ChildState, Compaction, CompactionState, ContextEdit, Custom, EditPart, Environment,
    Established, FORMAT, GitFacts, Header, InputEvent, InputFate, InstructionFile, Label, Message,
    ModelChange, ModelRef, Name, Outcome, Policy, PolicyChange, ProjectFacts, Repair, RepairItem,
    ReplayClass, Request, Run, RunState, StepStatus, StopReason, Task, TaskStep, Text,
    ThinkingChange, Tip, ToolCall, ToolFact, ToolMessage, Usage, UsageRecord, UserMessage,
};
use segno_model::{Body, Pos, Record, Seq, SessionId};

/// The model that simulated sessions talk to.
#[must_use]
pub fn model() -> ModelRef {
    ModelRef { provider: "scripted".into(), id: "parrot-1".into() }
}

/// From here on the model `id` holds.
#[must_use]
pub fn set_model(id: &str, chosen: bool) -> Body {
    let model = ModelRef { id: id.into(), ..model() };
    Body::Model(ModelChange { model, chosen, base_url: None })
}

/// A header for a session in `/home/user/project`.
#[must_use]
pub fn header(id: SessionId) -> Header {
    let cwd = "/home/user/project".to_owned();
    Header {
        format: FORMAT,
        id,
        project: ProjectFacts { real_path: Some(cwd.clone()), cwd, ..ProjectFacts::default() },
        git: Some(GitFacts { branch: Some("main".into()), commit: None, dirty: false }),
        version: "0.0.0-test".into(),
        origin: None,
        launch: None,
    }
}

fn message(message: Message) -> Body {
    Body::Message(Box::new(message))
}

/// The person says `text`.
#[must_use]
pub fn prompt(text: &str) -> Body {
    message(Message::User(UserMessage::text(text)))
}

/// The model says `text` and is done.
#[must_use]
pub fn answer(text: &str) -> Body {
    reply(text, &[])
}

/// The model says `text` and calls tools.
#[must_use]
pub fn reply(text: &str, calls: &[ToolCall]) -> Body {
    let mut content = Vec::new();
    if !text.is_empty() {
        content.push(AssistantBlock::Text { text: text.to_owned() });
    }
    content.extend(calls.iter().cloned().map(AssistantBlock::ToolCall));
    let stop = if calls.is_empty() { StopReason::End } else { StopReason::ToolUse };
    let usage = Usage { input: 100, output: 10, ..Usage::default() };
    let reply = AssistantMessage {
        content,
        model: model(),
        usage: Some(usage),
        stop,
        ..Default::default()
    };
    message(Message::Assistant(reply))
}

/// A call of the `bash` tool.
#[must_use]
pub fn call(id: &str) -> ToolCall {
    ToolCall { id: id.into(), name: "bash".into(), arguments: r#"{"command":"true"}"#.into() }
}

/// The result of call `id` of the reply `call_seq`.
#[must_use]
pub fn result(id: &str, call_seq: Seq, text: &str) -> Body {
    message(Message::Tool(ToolMessage {
        call_id: id.into(),
        call_seq: Some(call_seq),
        name: "bash".into(),
        content: vec![Block::text(text)],
        whole: None,
        is_error: false,
        outcome: Outcome::Done,
        established: Established::Observed,
        background: None,
    }))
}

/// A finished compaction.
#[must_use]
pub fn summary(text: &str, first_kept: Option<Pos>, kept: Vec<Pos>) -> Body {
    Body::Compaction(Box::new(Compaction {
        summary: Some(Text::Inline(text.into())),
        first_kept,
        kept,
        tokens_before: Some(9000),
        tokens_after: Some(900),
        model: Some(model()),
        usage: Some(Usage { input: 9000, output: 300, ..Usage::default() }),
        ..Compaction::marker(CompactionState::Done, None)
    }))
}

/// A task with this goal and one open step.
#[must_use]
pub fn task(goal: &str) -> Body {
    let step = TaskStep { text: "look around".into(), status: StepStatus::InProgress };
    Body::Task(Task { goal: goal.into(), constraints: Vec::new(), steps: vec![step] })
}

/// An effect that starts: call `id` of the reply `call_seq`.
#[must_use]
pub fn action(id: &str, call_seq: Seq) -> Body {
    Body::Action(Box::new(Action {
        call_id: id.into(),
        call_seq,
        tool: "bash".into(),
        class: ReplayClass::Opaque,
        host: "testhost".into(),
        boot: "boot-1".into(),
        key: None,
        probe: None,
        before: None,
    }))
}

/// The text of a message, a summary or a label; empty for what has none.
#[must_use]
pub fn text_of(record: &Record) -> String {
    fn joined(blocks: &[Block]) -> String {
        let text = |b: &Block| match b {
            Block::Text { text } => text.head().to_owned(),
            _ => String::new(),
        };
        blocks.iter().map(text).collect()
    }
    match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) => joined(&user.content),
            Message::Assistant(reply) => reply.text(),
            Message::Tool(result) => joined(&result.content),
        },
        Body::Compaction(c) => c.summary.as_ref().map_or("", |s| s.head()).to_owned(),
        Body::BranchSummary(s) => s.summary.head().to_owned(),
        Body::Label(label) => label.label.clone(),
        Body::Name(name) => name.name.clone(),
        _ => String::new(),
    }
}

/// One body of every type that can follow `node`, a reply in the log whose call is `call-1`. Types with
/// several shapes appear once per shape. Leaves the log with everything open that can be open.
#[must_use]
pub fn every_kind(node: Pos) -> Vec<Body> {
    let mut bodies = work_in_progress(node.seq);
    bodies.extend(settings_and_tree(node));
    bodies
}

fn work_in_progress(call_seq: Seq) -> Vec<Body> {
    let started = RunState::Started { attempt: 1, owner: "pid 7".into() };
    let asked = ApprovalState::Asked { question: "Run it?".into() };
    let approval = |state| Approval { call_id: "call-1".into(), call_seq, state };
    let child = |id: &str, state| Child {
        detail: Some("looking".into()),
        ..Child::new(id, "call-1", state)
    };
    vec![
        Body::Run(Run { run: 1, state: started }),
        Body::Request(Request { number: 1, model: model(), estimate: 1200, purpose: None }),
        Body::Approval(approval(asked)),
        action("call-1", call_seq),
        Body::Child(child("child-a", ChildState::Started)),
        Body::Child(child("child-b", ChildState::Started)),
        Body::Child(child("child-a", ChildState::Ended)),
        Body::Input(InputEvent::new("in-1", InputFate::Parked)),
        Body::Usage(UsageRecord {
            purpose: "retry".into(),
            model: model(),
            usage: Usage { input: 5, output: 1, reasoning: Some(1), ..Usage::default() },
        }),
        Body::Compaction(Box::new(Compaction::marker(CompactionState::Started, None))),
        Body::Run(Run { run: 1, state: RunState::Stopping { parked: vec!["in-1".into()] } }),
    ]
}

fn settings_and_tree(node: Pos) -> Vec<Body> {
    let raw = |json: &str| {
        serde_json::value::RawValue::from_string(json.into()).expect("invariant: valid JSON")
    };
    let environment = Environment {
        cwd: "/home/user/elsewhere".into(),
        version: "0.0.0-test".into(),
        instructions: vec![InstructionFile { path: "AGENTS.md".into(), sha256: "ab".repeat(32) }],
        tools: vec![ToolFact { name: "bash".into(), sha256: "cd".repeat(32), bytes: 900 }],
        project: Some(ProjectFacts { cwd: "/home/user/elsewhere".into(), ..Default::default() }),
        ..Default::default()
    };
    let bridged = RepairItem::Bridged { offset: 1 << 40, bytes: 3, sha256: "00".repeat(32) };
    vec![
        task("ship it"),
        Body::Environment(Box::new(environment)),
        Body::BranchSummary(BranchSummary {
            summary: Text::Inline("went left".into()),
            from: node,
        }),
        Body::Tip(Tip { tip: Some(node) }),
        Body::Label(Label { target: node, label: "good".into() }),
        Body::Name(Name { name: "a name".into() }),
        Body::Model(ModelChange { model: model(), chosen: true, base_url: None }),
        Body::Thinking(ThinkingChange { level: "high".into() }),
        Body::Policy(PolicyChange { policy: Policy::Auto }),
        Body::ContextEdit(ContextEdit {
            target: node.seq,
            edit: "replace".into(),
            content: vec![Block::text("shorter")],
            ..ContextEdit::default()
        }),
        Body::ContextEdit(ContextEdit {
            target: node.seq,
            edit: "omit".into(),
            parts: vec![EditPart::Images],
            cause: Some(ContextEdit::REFUSED.into()),
            ..ContextEdit::default()
        }),
        Body::Custom(Custom {
            name: "acme.note".into(),
            data: raw(r#"{"n": 1,"deep":[null]}"#),
            context: Some("a note".into()),
        }),
        Body::Repair(Repair { rule: "test".into(), by_person: true, items: vec![bridged] }),
    ]
}
