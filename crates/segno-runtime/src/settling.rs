//! Finding out what an interrupted session left open, and settling it.
//!
//! Responsible for: asking the tools, reading the draft, and keeping what was found until it is written.
//! What follows from it is decided in [`crate::recovery`]. Must not: append anything by itself before
//! somebody goes on with the session; looking at a session changes no byte.

use crate::effects::of_call;
use crate::recovery::{self, Established, Then};
use crate::session::Session;
use crate::{Begun, Settlement, ToolOutput, ToolPlan, Tools, Verdict, fit};
use segno_model::checkpoint::OpenAction;
use segno_model::context::Unanswered;
use segno_model::record::{
    Action, AssistantBlock, AssistantMessage, Body, Established as Source, Message, ModelRef,
    Outcome, ReplayClass, StopReason, ToolCall,
};
use segno_model::store::{Level, Owner, SessionLog, StoreError};
use segno_model::{Record, Seq, Standing};
use std::collections::{HashMap, HashSet};

/// What was found out about interrupted work and is not written yet.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    established: Established,
    awaited: HashSet<(Seq, String)>,
    /// The effects that still run.
    running: Vec<Action>,
    draft: Option<Body>,
}

impl Findings {
    /// The effects that still run; to be waited for, or told as they are.
    pub(crate) fn take_running(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.running)
    }
}

impl<L: SessionLog> Session<L> {
    /// Where the session stands.
    pub fn standing(&self) -> Standing {
        Standing::of(self.header(), self.state(), &self.active())
    }

    /// Finds out what became of everything that was left open: the tools are asked about effects whose
    /// results are missing, and the draft of a reply is read. What they say is written with the first
    /// append. `here` is this process. May store large values, and appends nothing.
    ///
    /// # Errors
    /// As the store.
    pub async fn establish<T: Tools>(&mut self, tools: &T, here: &Owner) -> Result<(), StoreError> {
        self.establish_for(tools, here, false).await
    }

    /// The same; `goes_on` says whether somebody goes on with the interrupted work.
    pub(crate) async fn establish_for<T: Tools>(
        &mut self,
        tools: &T,
        here: &Owner,
        goes_on: bool,
    ) -> Result<(), StoreError> {
        let mut findings = Findings::default();
        let actions = self.state().in_force.open_actions.clone();
        for OpenAction { action, .. } in actions {
            let key = (action.call_seq, action.call_id.clone());
            let before = match &action.before {
                Some(blob) => self.log().blob(blob).await.ok(),
                None => None,
            };
            let call = self.call_of(&action);
            let begun = Begun { action: &action, call: call.as_ref(), before, here, goes_on };
            let output = match tools.establish(begun).await {
                Settlement::Told(output) => output,
                Settlement::Running(output) => {
                    findings.awaited.insert(key.clone());
                    findings.running.push(action.clone());
                    output
                }
            };
            let result = self.found(&action, output).await?;
            findings.established.insert(key, result);
        }
        for call in self.calls_without_intent() {
            if is_read(tools, &call.call).await {
                let Unanswered { call_seq, call_id, name } = call.of;
                let text = recovery::NOT_RECORDED;
                let result =
                    recovery::result((call_seq, &call_id), &name, text, Outcome::NotRecorded);
                findings.established.insert((call_seq, call_id), vec![result]);
            }
        }
        findings.draft = self.cut_off_reply().await?;
        self.left_open = findings;
        Ok(())
    }

    /// The effects that still run, as far as [`Session::establish`] found any.
    pub fn running(&self) -> &[Action] {
        &self.left_open.running
    }

    /// Calls of the context that have neither a result nor an intent, except in rounds that wait for a
    /// permission.
    fn calls_without_intent(&self) -> Vec<OpenCall> {
        let state = &self.state().in_force;
        let undecided = recovery::undecided_rounds(state);
        let began: HashSet<(Seq, &str)> = state
            .open_actions
            .iter()
            .map(|open| (open.action.call_seq, open.action.call_id.as_str()))
            .collect();
        let mut calls: HashMap<Seq, HashMap<&str, &ToolCall>> = HashMap::new();
        let mut open = Vec::new();
        for of in self.unanswered() {
            let key = (of.call_seq, of.call_id.as_str());
            if began.contains(&key) || undecided.contains(&of.call_seq) {
                continue;
            }
            let of_reply = calls.entry(of.call_seq).or_insert_with(|| {
                let calls = self.reply(of.call_seq).into_iter().flat_map(AssistantMessage::calls);
                calls.map(|call| (call.id.as_str(), call)).collect()
            });
            if let Some(call) = of_reply.get(of.call_id.as_str()) {
                open.push(OpenCall { call: (*call).clone(), of });
            }
        }
        open
    }

    /// The call of an intent, as far as its record is at hand and only one call has that id.
    fn call_of(&self, action: &Action) -> Option<ToolCall> {
        let mut calls =
            self.reply(action.call_seq)?.calls().filter(|call| call.id == action.call_id);
        let call = calls.next().filter(|call| call.name == action.tool)?;
        calls.next().is_none().then(|| call.clone())
    }

    /// A reply by its record.
    pub(crate) fn reply(&self, seq: Seq) -> Option<&AssistantMessage> {
        match self.record(seq)?.body() {
            Body::Message(message) => match &**message {
                Message::Assistant(reply) => Some(reply),
                _ => None,
            },
            _ => None,
        }
    }

    /// What was streamed of the newest reply, if it was never recorded: finished text, no thinking and no
    /// calls.
    async fn cut_off_reply(&mut self) -> Result<Option<Body>, StoreError> {
        let now = &self.state().in_force;
        let Some(asking) = now.open_run.as_ref().and_then(|run| run.asking) else {
            return Ok(None);
        };
        let Some(draft) = self.log().draft().await?.filter(|d| d.request == asking.seq) else {
            return Ok(None);
        };
        if draft.text.trim().is_empty() {
            return Ok(None);
        }
        let model = self.state().in_force.model.clone().unwrap_or_default();
        let model = self.asked_model(asking.seq).unwrap_or(model);
        let reply = cut_off(&model, draft.text, StopReason::Broken, Some(draft.request));
        let fitted = fit::reply(self.log_mut(), &reply).await?;
        Ok(Some(Body::Message(Box::new(Message::Assistant(fitted.reply)))))
    }

    fn asked_model(&self, request: Seq) -> Option<ModelRef> {
        match self.record(request).map(Record::body) {
            Some(Body::Request(request)) => Some(request.model.clone()),
            _ => None,
        }
    }

    /// A result, and what is recorded beside it.
    async fn found(
        &mut self,
        action: &Action,
        mut output: ToolOutput,
    ) -> Result<Vec<Body>, StoreError> {
        let unknown = output.outcome == Outcome::Unknown;
        let of = fit::ResultOf {
            call_id: &action.call_id,
            call_seq: action.call_seq,
            tool: &action.tool,
            established: if unknown { Source::Recovery } else { Source::Traces },
        };
        let result = fit::output(self.log_mut(), &of, &mut output).await?;
        let child = output.child.map(|child| of_call(*child, &action.call_id, action.call_seq));
        Ok(child.into_iter().chain([result]).collect())
    }

    /// What recovery has to write before something new begins, or before the open run goes on.
    pub(crate) fn settling(&self, then: Then) -> Vec<Body> {
        let unanswered = self.unanswered();
        let findings = &self.left_open;
        let found = recovery::Found {
            unanswered: &unanswered,
            established: &findings.established,
            awaited: &findings.awaited,
            draft: findings.draft.as_ref(),
        };
        recovery::settle(&self.checkpoint_with_stop(), found, then)
    }

    /// Writes what the open run needs before it goes on, synced, and nothing if it needs nothing.
    ///
    /// # Errors
    /// As the store.
    pub(crate) async fn settle_and_go_on(&mut self) -> Result<(), StoreError> {
        let bodies = self.settling(Then::GoOn);
        if !bodies.is_empty() {
            self.append_alone(bodies, Level::Synced).await?;
        }
        self.expect_nothing();
        Ok(())
    }
}

/// A call without an intent and a result.
struct OpenCall {
    of: Unanswered,
    call: ToolCall,
}

/// Whether a call only reads, by the tools' judgement of today. What changes anything has an intent before
/// it starts, so a wrong answer here would be wrong about no effect.
async fn is_read<T: Tools>(tools: &T, call: &ToolCall) -> bool {
    let reads = |plan: &ToolPlan| plan.class == ReplayClass::Read;
    match tools.judge(call).await {
        Verdict::Run(plan) | Verdict::Ask { plan, .. } | Verdict::NobodyToAsk { plan, .. } => {
            reads(&plan)
        }
        Verdict::Refuse(_) => false,
    }
}

/// A reply of which only finished text is kept.
pub(crate) fn cut_off(
    model: &ModelRef,
    text: String,
    stop: StopReason,
    request: Option<Seq>,
) -> AssistantMessage {
    AssistantMessage {
        content: vec![AssistantBlock::Text { text }],
        model: model.clone(),
        stop,
        endpoint: None,
        partial: true,
        request,
        ..AssistantMessage::default()
    }
}
