//! What the runtime needs of tools.
//!
//! Responsible for: the trait through which effects happen. Must not: contain a tool or a permission
//! rule.

use crate::{Stop, StopKind};
use segno_model::checkpoint::{Background, Checkpoint};
use segno_model::context::UNKNOWN_OUTCOME;
use segno_model::record::{Action, Block, Child, Outcome, ReplayClass, Task, ToolCall};
use segno_model::store::Owner;
use segno_model::{Seq, SessionId};
use serde_json::Value;
use serde_json::value::RawValue;
use std::future::Future;

/// A tool as the model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

impl ToolSpec {
    /// A tool; `parameters` is the JSON Schema of its arguments, an object.
    #[must_use]
    pub fn new(name: &str, description: &str, parameters: Value) -> Self {
        Self { name: name.to_owned(), description: description.to_owned(), parameters }
    }
}

/// What is to be done with a call.
#[derive(Debug)]
pub enum Verdict {
    /// Run it.
    Run(ToolPlan),
    /// A person has to say first; the question is recorded before it is asked.
    Ask {
        /// For people: what is about to happen.
        question: String,
        /// What to run if allowed.
        plan: ToolPlan,
    },
    /// A person would have to say first, and nobody can be asked here. An answer that was given before an
    /// interruption, or sent to the question that it left, counts; without one this is the result.
    NobodyToAsk {
        /// What to run if it was allowed.
        plan: ToolPlan,
        /// The result otherwise.
        refused: ToolOutput,
    },
    /// Do not run it; this is its result.
    Refuse(ToolOutput),
}

/// How a call will run.
#[derive(Debug)]
pub struct ToolPlan {
    /// Its replay class; anything but [`ReplayClass::Read`] gets an `action` record.
    pub class: ReplayClass,
    /// An idempotency key or external reference.
    pub key: Option<String>,
    /// Facts for establishing the outcome later.
    pub probe: Option<Box<RawValue>>,
    /// What the effect replaces; kept in a blob that the intent names, before anything starts.
    pub before: Option<Vec<u8>>,
    /// What the effect changes, when [`Tools::prepare`] relies on it standing still until the effect
    /// runs: a name that is the same for the same thing. Such a call is prepared only when no earlier
    /// call of its reply can still change that: none with the same subject, and none without one.
    pub subject: Option<String>,
    /// Set by [`Tools::prepare`] where nothing could be made yet because somebody else has the subject in
    /// use: the call is prepared again when its turn comes, and no later one with a subject before it.
    pub not_yet: bool,
    /// Which call it is. The run sets it before [`Tools::prepare`]; an intent that names something by it
    /// names the same after a crash.
    pub at: CallAt,
    /// The session that the effect works in, when it starts or continues a subagent. A `child` record says
    /// so beside the intent.
    pub child: Option<SessionId>,
    /// Whether it runs beside those of its neighbours that say the same.
    pub beside: bool,
}

/// A call by its place in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct CallAt {
    /// The message that holds it.
    pub seq: Seq,
    /// Which of the calls of that message that were judged together it is, from 0.
    pub index: usize,
}

impl ToolPlan {
    /// A plan without a key and without facts.
    #[must_use]
    pub fn new(class: ReplayClass) -> Self {
        Self {
            class,
            key: None,
            probe: None,
            before: None,
            subject: None,
            not_yet: false,
            at: CallAt::default(),
            child: None,
            beside: false,
        }
    }
}

/// A person's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Whether the call may run.
    pub allowed: bool,
    /// `once`, `session`, `always`, or a mode's name.
    pub scope: String,
    /// A refusal's reason, for the model.
    pub reason: Option<String>,
}

/// What a call gave. Its effect is durable when this is returned.
#[derive(Debug, Clone)]
pub struct ToolOutput {
    /// What the model is shown; not empty.
    pub content: Vec<Block>,
    /// Whether it is told as a failure.
    pub is_error: bool,
    /// What is known about the effect.
    pub outcome: Outcome,
    /// The whole output, when `content` is a cut of it; it goes into a blob.
    pub whole: Option<Vec<u8>>,
    /// The new task list, from the todo tool.
    pub task: Option<Task>,
    /// The handle under which the effect goes on behind this result. [`Tools::news`] tells its end.
    pub background: Option<String>,
    /// What is recorded of a subagent beside the result; its call is filled in. Never sent to a model.
    pub child: Option<Box<Child>>,
    /// Nothing is recorded: this process is shut down while the effect goes on, and the next one
    /// establishes its result.
    pub unfinished: bool,
}

impl ToolOutput {
    /// A success with text.
    #[must_use]
    pub fn done(text: impl Into<String>) -> Self {
        Self::new(text, false, Outcome::Done)
    }

    /// A failure with text.
    #[must_use]
    pub fn failed(text: impl Into<String>) -> Self {
        Self::new(text, true, Outcome::Failed)
    }

    /// A refusal with text.
    #[must_use]
    pub fn denied(text: impl Into<String>) -> Self {
        Self::new(text, true, Outcome::Denied)
    }

    /// Any outcome with text.
    #[must_use]
    pub fn new(text: impl Into<String>, is_error: bool, outcome: Outcome) -> Self {
        Self {
            content: vec![Block::text(text)],
            is_error,
            outcome,
            whole: None,
            task: None,
            background: None,
            child: None,
            unfinished: false,
        }
    }

    /// It goes on under a handle.
    #[must_use]
    pub fn in_background(self, handle: &str) -> Self {
        Self { background: Some(handle.to_owned()), ..self }
    }
}

/// An effect that another process began and whose result is missing.
#[derive(Debug)]
pub struct Begun<'a> {
    /// Its intent.
    pub action: &'a Action,
    /// The call as the model made it; none where that cannot be told any more.
    pub call: Option<&'a ToolCall>,
    /// What its intent kept ([`ToolPlan::before`]); none also when it can no longer be read.
    pub before: Option<Vec<u8>>,
    /// This process: what was begun on another host or boot may be out of sight.
    pub here: &'a Owner,
    /// Whether somebody goes on with the interrupted work: only then anything may be done about it that
    /// is safe, e.g. sending a call again under an id that makes that harmless. After a user's stop, or in
    /// front of a new input, it is only found out.
    pub goes_on: bool,
}

/// What is known of an effect whose result was never recorded.
#[derive(Debug, Clone)]
pub enum Settlement {
    /// Its result. One with [`Outcome::Unknown`] says what is known nevertheless.
    Told(ToolOutput),
    /// It still runs, and [`Tools::reattach`] can wait for its end. The output is what the model is told
    /// when nobody waits.
    Running(ToolOutput),
}

/// The end of an effect that went on behind its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Its handle.
    pub handle: String,
    /// What the model is told; not empty.
    pub text: String,
    /// What is recorded of a subagent beside it; its call is filled in. Never sent to a model.
    pub child: Option<Box<Child>>,
}

impl News {
    /// The end of an effect that was no subagent.
    #[must_use]
    pub fn new(handle: &str, text: String) -> Self {
        Self { handle: handle.to_owned(), text, child: None }
    }
}

/// What is shown while a tool runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// More output, as it comes.
    Output(String),
    /// It waits for something that a person has to see to, a full disk say.
    Paused(String),
}

/// What a running tool is given.
#[derive(Clone)]
pub struct ToolRun<'a> {
    /// The user's stop.
    pub stop: Stop,
    /// Shows progress.
    pub progress: &'a (dyn Fn(Progress) + Send + Sync),
}

/// The tools of an agent.
pub trait Tools: Send + Sync {
    /// All of them, in a stable order.
    fn specs(&self) -> Vec<ToolSpec>;

    /// Judges a call; changes nothing. Unless said otherwise a call runs, as the class that promises
    /// least: its intent is on disk before it starts, and recovery never repeats it.
    fn judge(&self, _call: &ToolCall) -> impl Future<Output = Verdict> + Send {
        async { Verdict::Run(ToolPlan::new(ReplayClass::Opaque)) }
    }

    /// Puts a question to a person (or answers it by rule). Unless said otherwise nobody is there, and
    /// nothing is allowed.
    fn ask(&self, _call: &ToolCall, _question: &str) -> impl Future<Output = Answer> + Send {
        async {
            let reason = Some("nobody is here to be asked".to_owned());
            Answer { allowed: false, scope: "once".to_owned(), reason }
        }
    }

    /// Makes what the intent names before the intent is recorded: a new file's content under another
    /// name, say. Called once per allowed call, behind the permission. What it leaves when the process
    /// dies before the intent is on disk must be harmless. `Err` is the call's result; nothing runs then.
    fn prepare(
        &self,
        _call: &ToolCall,
        plan: ToolPlan,
    ) -> impl Future<Output = Result<ToolPlan, ToolOutput>> + Send {
        async { Ok(plan) }
    }

    /// Takes back what [`Tools::prepare`] made for a call that will not run after all.
    fn discard(&self, _call: &ToolCall) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Finds out what became of an effect that another process began and whose result is missing. It
    /// may be asked any number of times, and after a crash of its own. It must not repeat the effect
    /// unless that is known to be safe (G7), and must not conclude anything from the mere absence of a
    /// trace. What it tells as done is durable when it returns: the other process may have died before it
    /// synced its effect, and power may still be lost.
    fn establish(&self, _begun: Begun<'_>) -> impl Future<Output = Settlement> + Send {
        async { Settlement::Told(ToolOutput::new(UNKNOWN_OUTCOME, true, Outcome::Unknown)) }
    }

    /// Waits for the end of an effect of which [`Tools::establish`] said that it runs. Returns early with
    /// [`Outcome::Stopped`] on a stop, as [`Tools::run`] does.
    fn reattach(
        &self,
        action: &Action,
        _run: ToolRun<'_>,
    ) -> impl Future<Output = ToolOutput> + Send {
        let _ = action;
        async { ToolOutput::new(UNKNOWN_OUTCOME, true, Outcome::Unknown) }
    }

    /// Which of the effects that went on behind their results have ended since, or are out of sight for
    /// good. Asked between steps, and again until it is recorded; each is told once.
    fn news(&self, _open: &[Background]) -> impl Future<Output = Vec<News>> + Send {
        async { Vec::new() }
    }

    /// Whether a run waits, before it ends, for the end of one of the effects that went on behind their
    /// results: one that would not outlive this process, when nobody is there who goes on in it.
    fn awaits(&self, _open: &[Background]) -> bool {
        false
    }

    /// Waits until one of those has ended for which [`Tools::awaits`] says so.
    fn awaited(&self, _open: &[Background]) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Waits until something that goes on behind its result waits for what a person has to see to, a full disk
    /// say, and gives why.
    fn paused(&self) -> impl Future<Output = String> + Send {
        std::future::pending()
    }

    /// Asks everything that goes on behind its result in this process, and would not outlive it, to end, and
    /// waits until it has. A user's stop is on record by then.
    fn halt(&self, _kind: StopKind) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Everything but what is open here has its result on disk for good, what [`Tools::establish`] told
    /// included: the traces that it was read off may go.
    fn settled(&self, _open: &Checkpoint) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Runs a call that was judged. Returns early with [`Outcome::Stopped`] on a stop.
    fn run(&self, call: &ToolCall, run: ToolRun<'_>) -> impl Future<Output = ToolOutput> + Send;
}
