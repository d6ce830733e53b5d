//! Permission questions of a session that have no answer, seen from outside.
//!
//! Responsible for: which there are, what was sent to them, and sending an answer to one. Must not: decide what
//! may be allowed (whoever puts the question does, by the permission mode of that day), or print.

use super::{Control, control};
use crate::error::{CliError, ExitCode};
use crate::stores::Stores;
use segno_model::inbox::{InputBody, Stage};
use segno_model::record::{ApprovalState, Body, Message};
use segno_model::store::{Owner, SessionStore as _};
use segno_model::{Record, Seq, SessionId};

/// A question that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The subagent that asks, where its parent's questions were asked for.
    pub subagent: Option<SessionId>,
    /// The assistant message that holds the call.
    pub call_seq: Seq,
    /// The call's id.
    pub call_id: String,
    /// The tool; none when the call cannot be read.
    pub tool: Option<String>,
    /// What is asked.
    pub text: String,
    /// The answer that was sent to it and waits.
    pub sent: Option<Said>,
}

impl Question {
    /// Whether both are one question.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let key = |q: &Self| (q.subagent.clone(), q.call_seq, q.call_id.clone());
        key(self) == key(other)
    }

    /// Its call, and whose that is.
    fn named(&self) -> String {
        match &self.subagent {
            Some(child) => format!("{} (of subagent {child})", self.call_id),
            None => self.call_id.clone(),
        }
    }
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Whether the call may run.
    pub allowed: bool,
    /// Why not.
    pub reason: Option<String>,
}

/// What became of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answered {
    /// The run that asked has it and goes on.
    Taken,
    /// It waits for whoever goes on with the session.
    Kept,
    /// It waits: this process has the session and has not put the question.
    Waits(Owner),
}

/// The questions of a session that have no answer on record, in the order in which they were put.
///
/// # Errors
/// As the store.
pub async fn open(stores: &Stores, id: &SessionId) -> Result<Vec<Question>, CliError> {
    let mut pending = stores.files.pending(id).await?.pending;
    pending.sort_by_key(|pending| pending.order);
    let sent = |seq: Seq, call: &str| {
        let said = |p: &segno_model::inbox::Pending| match &p.input.body {
            InputBody::Answer { call_id, call_seq, allowed, reason, .. }
                if *call_seq == seq && call_id == call =>
            {
                Some(Said { allowed: *allowed, reason: reason.clone() })
            }
            _ => None,
        };
        // The newest one counts.
        pending.iter().rev().find_map(said)
    };
    let snapshot = stores.files.read(id).await?;
    let open = &snapshot.state.in_force.open_approvals;
    let questions = open.iter().map(|approval| Question {
        subagent: None,
        call_seq: approval.call_seq,
        call_id: approval.call_id.clone(),
        tool: tool(&snapshot.active.records, approval.call_seq, &approval.call_id),
        text: match &approval.state {
            ApprovalState::Asked { question } => question.clone(),
            ApprovalState::Answered { .. } => String::new(),
        },
        sent: sent(approval.call_seq, &approval.call_id),
    });
    Ok(questions.collect())
}

/// Those of a session's subagents that a process works on, and that wait with a question: the person of the
/// session is asked. What one asked that nobody works on is put when it goes on.
///
/// # Errors
/// As the store.
pub async fn of_subagents(stores: &Stores, id: &SessionId) -> Result<Vec<Question>, CliError> {
    let mut all = Vec::new();
    for child in stores.files.children(id).await?.into_iter().filter(|child| child.held) {
        let asked = open(stores, &child.id).await?.into_iter();
        all.extend(asked.map(|q| Question { subagent: Some(child.id.clone()), ..q }));
    }
    Ok(all)
}

/// All that a person who names a session may mean: its own questions, and its subagents'.
///
/// # Errors
/// As the store.
pub async fn all(stores: &Stores, id: &SessionId) -> Result<Vec<Question>, CliError> {
    let mut all = open(stores, id).await?;
    all.extend(of_subagents(stores, id).await?);
    Ok(all)
}

fn tool(records: &[Record], call_seq: Seq, call_id: &str) -> Option<String> {
    let record = records.iter().find(|record| record.seq() == call_seq)?;
    let Body::Message(message) = record.body() else { return None };
    let Message::Assistant(reply) = &**message else { return None };
    reply.calls().find(|call| call.id == call_id).map(|call| call.name.clone())
}

/// The one question that is meant: by the beginning of its call's id, or the only one.
///
/// # Errors
/// When there is none, or several.
pub fn one<'a>(
    questions: &'a [Question],
    call: Option<&str>,
    id: &SessionId,
) -> Result<&'a Question, CliError> {
    let named = |q: &&Question| call.is_none_or(|call| q.call_id.starts_with(call));
    let exact = |q: &&Question| call == Some(q.call_id.as_str());
    let mut found: Vec<&Question> = questions.iter().filter(exact).collect();
    if found.is_empty() {
        found = questions.iter().filter(named).collect();
    }
    match (found.as_slice(), call) {
        ([one], _) => Ok(one),
        ([], None) => Err(none_waits(id)),
        ([], Some(call)) => Err(CliError::new(
            ExitCode::NotFound,
            format!("No question about a call `{call}` waits for an answer."),
        )
        .next(format!("`segno answer {id}` shows what is asked."))),
        (several, _) => {
            let calls: Vec<String> = several.iter().map(|q| q.named()).collect();
            Err(CliError::usage(format!("{} questions wait for an answer.", several.len()))
                .because(format!("they are about the calls {}", calls.join(", ")))
                .next(format!("Say which: segno answer {id} --call ID; without --allow and --deny it shows them. A \
                    subagent's id in place of the session's names its question.")))
        }
    }
}

fn none_waits(id: &SessionId) -> CliError {
    CliError::new(ExitCode::NotFound, "No question waits for an answer there.")
        .because("it was answered, or the work that asked was stopped or gone on from")
        .next(format!(
            "`segno show {id}` tells what became of it; `segno list --all` says which sessions wait."
        ))
}

/// Sends the answer, to whoever asks. It is durable when this returns.
///
/// # Errors
/// As the store; or when the question was settled meanwhile.
pub async fn answer(
    stores: &Stores,
    id: &SessionId,
    question: &Question,
    said: &Said,
) -> Result<Answered, CliError> {
    let body = InputBody::Answer {
        call_id: question.call_id.clone(),
        call_seq: question.call_seq,
        allowed: said.allowed,
        scope: "once".to_owned(),
        reason: said.reason.clone(),
    };
    let id = question.subagent.as_ref().unwrap_or(id);
    match control(stores, id, body).await? {
        Control::Settled(Stage::Dropped { .. }) => Err(none_waits(id)),
        Control::Settled(_) => Ok(Answered::Taken),
        Control::Unattended => Ok(Answered::Kept),
        Control::Waits(owner) => Ok(Answered::Waits(owner)),
    }
}
