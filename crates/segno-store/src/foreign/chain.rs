//! Sessions without branches: every turn follows the one before it.
//!
//! Responsible for: parents and the pairing of calls with results in such sessions. Must not: know any
//! agent.

use super::calls::Calls;
use super::emitter::{Emitter, Meta};
use segno_model::record::{
    AssistantMessage, Block, Compaction, CompactionState, Established, Message, Outcome, Text,
    ToolMessage, UserMessage,
};
use segno_model::{Body, Pos, Seq};

/// The turns read so far.
#[derive(Debug, Default)]
pub(super) struct Chain {
    last: Option<Seq>,
    calls: Calls,
}

/// A tool's result as it was read.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// The call's id.
    pub(super) call: String,
    /// The tool's name, where the result says it.
    pub(super) name: Option<String>,
    /// What the model is shown.
    pub(super) content: Vec<Block>,
    /// What became of it.
    pub(super) outcome: Outcome,
    /// Who says so.
    pub(super) established: Established,
}

impl Answer {
    /// The result of a call that ran to its end, as the agent saw it.
    pub(super) fn ended(call: String, content: Vec<Block>, failed: bool) -> Self {
        let outcome = if failed { Outcome::Failed } else { Outcome::Done };
        Self { call, name: None, content, outcome, established: Established::Observed }
    }
}

impl Chain {
    /// The current node.
    pub(super) fn last(&self) -> Option<Seq> {
        self.last
    }

    /// What comes next hangs on `at`.
    pub(super) fn go_to(&mut self, at: Option<Seq>) {
        self.last = at;
    }

    /// Hands on a node that follows the last one.
    pub(super) fn node(&mut self, body: Body, meta: Meta, out: &mut Emitter<'_>) -> Seq {
        let seq = out.record(body, Meta { parent: self.last, ..meta });
        self.last = Some(seq);
        seq
    }

    /// Words of the person, or with `notice` of the agent on the person's side.
    pub(super) fn user(
        &mut self,
        content: Vec<Block>,
        notice: Option<&str>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> Seq {
        let notice = notice.map(str::to_owned);
        let message = Message::User(UserMessage { content, notice, ..UserMessage::default() });
        self.node(Body::Message(Box::new(message)), meta, out)
    }

    /// A turn of the model.
    pub(super) fn reply(
        &mut self,
        reply: AssistantMessage,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> Seq {
        let calls: Vec<(String, String)> =
            reply.calls().map(|call| (call.id.clone(), call.name.clone())).collect();
        let origin = meta.origin.clone();
        let seq = self.node(Body::Message(Box::new(Message::Assistant(reply))), meta, out);
        for (id, name) in calls {
            self.calls.call(&id, &name, seq, &origin);
        }
        seq
    }

    /// The result of a call.
    pub(super) fn result(&mut self, answer: Answer, meta: Meta, out: &mut Emitter<'_>) -> Seq {
        let call = self.calls.result(&answer.call, &meta.origin, out);
        let name = answer.name.filter(|name| !name.is_empty());
        let name = name.or_else(|| call.as_ref().map(|(_, name)| name.clone()));
        let message = Message::Tool(ToolMessage {
            call_id: answer.call,
            call_seq: call.map(|(seq, _)| seq),
            name: name.unwrap_or_default(),
            content: answer.content,
            whole: None,
            is_error: !matches!(answer.outcome, Outcome::Done),
            outcome: answer.outcome,
            established: answer.established,
            background: None,
        });
        self.node(Body::Message(Box::new(message)), meta, out)
    }

    /// A summary that stands for everything before it, but for `kept`.
    pub(super) fn summary(
        &mut self,
        summary: String,
        kept: Vec<Pos>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> Seq {
        let mut compaction = Compaction::marker(CompactionState::Done, None);
        compaction.summary = Some(Text::Inline(summary));
        compaction.kept = kept;
        self.node(Body::Compaction(Box::new(compaction)), meta, out)
    }

    /// Tells which calls have no result. Readers call it at the end.
    pub(super) fn finish(&self, out: &mut Emitter<'_>) {
        self.calls.finish(out);
    }
}
