//! Folds records into the session-wide state.
//!
//! Responsible for: what each record changes outside the tree (settings, open work, totals), and which
//! node is current. Must not: build the context, or know where records come from. Every store and
//! every reader uses this one fold, so that a checkpoint equals the records before it.

use crate::checkpoint::{
    Asking, Background, Checkpoint, LabelAt, LastCompaction, OpenAction, OpenRun, UnreportedCall,
};
use crate::id::{Pos, Seq};
use crate::line::Record;
use crate::record::{
    Approval, ApprovalState, AssistantMessage, Block, Body, ChildState, Compaction,
    CompactionState, ContextEdit, Established, InputEvent, InputFate, Message, Request, RunEnd,
    RunState, ToolMessage, Usage, UserMessage, background_input_id,
};

/// How much of the first prompt is kept for lists, in characters.
const FIRST_PROMPT_CHARS: usize = 200;

/// The purpose of a request, and of usage, that belongs to a compaction.
pub const COMPACTION: &str = "compaction";

/// The state after some prefix of a log.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The number that the next record gets.
    pub next_seq: Seq,
    /// Where the next line begins, counted from the end of line 1.
    pub end: u64,
    /// Everything in force and open.
    pub in_force: Checkpoint,
}

/// The little of a state that the next line's envelope follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number that the next record gets.
    pub next_seq: Seq,
    /// Where the next line begins, counted from the end of line 1.
    pub end: u64,
    /// The current node.
    pub tip: Option<Pos>,
    /// The node written last.
    pub last_node: Option<Pos>,
}

impl Head {
    /// Goes past one more record.
    pub(crate) fn pass(&mut self, record: &Record) {
        self.next_seq = record.seq().saturating_add(1);
        self.end = match record.seq() {
            0 => 0,
            _ => record.offset.saturating_add(record.line.len() as u64 + 1),
        };
        if record.is_node() {
            self.tip = Some(record.pos());
            self.last_node = self.tip;
        }
        if let Body::Tip(moved) = record.body() {
            self.tip = moved.tip;
        }
    }

    /// The parent of a node that is written now: the tip's seq, and its position when it is not the node
    /// written last.
    pub(crate) fn parent(&self) -> (Option<Seq>, Option<Pos>) {
        let distant = self.tip.filter(|tip| self.last_node != Some(*tip));
        (self.tip.map(|tip| tip.seq), distant)
    }
}

impl State {
    /// The state that a checkpoint record stands for.
    #[must_use]
    pub fn from_checkpoint(record: &Record, checkpoint: &Checkpoint) -> Self {
        let mut state =
            Self { next_seq: record.seq(), end: record.offset, in_force: checkpoint.clone() };
        state.apply(record);
        state
    }

    /// Where the log stands.
    #[must_use]
    pub fn head(&self) -> Head {
        let Checkpoint { tip, last_node, .. } = self.in_force;
        Head { next_seq: self.next_seq, end: self.end, tip, last_node }
    }

    /// Takes one more record into account. Records must come in the order of the log; gaps are fine.
    pub fn apply(&mut self, record: &Record) {
        let mut head = self.head();
        head.pass(record);
        self.next_seq = head.next_seq;
        self.end = head.end;
        self.in_force.tip = head.tip;
        self.in_force.last_node = head.last_node;
        self.apply_body(record);
    }

    fn apply_body(&mut self, record: &Record) {
        self.count_unknown(record);
        let now = &mut self.in_force;
        match record.body() {
            Body::Message(message) => self.apply_message(record, message),
            Body::Run(run) => self.apply_run(record.seq(), run.run, &run.state),
            Body::Action(action) => {
                let open = OpenAction { seq: record.seq(), action: (**action).clone() };
                now.open_actions.push_back(open);
            }
            Body::Request(request) => self.apply_request(record.seq(), request),
            Body::Input(event) => self.apply_input(event),
            Body::Approval(approval) => self.apply_approval(approval),
            Body::Task(task) => now.task = Some(task.clone()),
            Body::Environment(environment) => {
                if environment.project.is_some() {
                    now.project.clone_from(&environment.project);
                }
                now.environment = Some((**environment).clone());
            }
            Body::Compaction(compaction) => self.apply_compaction(record.seq(), compaction),
            Body::Checkpoint(_) => now.checkpoint_at = Some(record.offset),
            Body::Label(label) if label.label.is_empty() => {
                now.labels.remove(&label.target.seq);
            }
            Body::Label(label) => {
                let at = LabelAt { target: label.target, label: label.label.clone() };
                now.labels.insert(label.target.seq, at);
            }
            Body::Name(name) => now.name = Some(name.name.clone()).filter(|n| !n.is_empty()),
            Body::Model(model) => {
                now.model = Some(model.model.clone());
                now.base_url.clone_from(&model.base_url);
                now.model_chosen = model.chosen || now.model_chosen;
            }
            Body::Policy(change) => now.policy = Some(change.policy),
            Body::Thinking(thinking) => now.thinking = Some(thinking.level.clone()),
            Body::ContextEdit(edit) => self.apply_edit(record, edit),
            Body::Child(child) => {
                now.open_children.retain(|c| c.call_id != child.call_id || c.child != child.child);
                if child.state == ChildState::Started {
                    now.open_children.push(child.clone());
                }
            }
            Body::Repair(repair) if repair.settles_damage() => now.repairs.push(record.pos()),
            Body::Usage(usage) => {
                if usage.purpose == COMPACTION {
                    self.answered(Some(&usage.usage));
                }
                self.spend(&usage.usage);
            }
            Body::Tip(_) => self.apply_tip(),
            Body::Session(_)
            | Body::BranchSummary(_)
            | Body::Custom(_)
            | Body::Repair(_)
            | Body::Unknown { .. } => {}
        }
    }

    fn apply_edit(&mut self, record: &Record, edit: &ContextEdit) {
        let now = &mut self.in_force;
        match edit.edit.as_str() {
            "restore" => {
                now.context_edits.remove(&edit.target);
                now.restored.insert(edit.target, record.pos());
            }
            "omit" | "replace" => {
                now.restored.remove(&edit.target);
                now.context_edits.insert(edit.target, record.pos());
            }
            _ => return,
        }
        if edit.is_pruning() && edit.edit != "restore" {
            now.pruned.insert(edit.target);
        } else {
            now.pruned.remove(&edit.target);
        }
    }

    fn apply_compaction(&mut self, seq: Seq, compaction: &Compaction) {
        let now = &mut self.in_force;
        now.open_compaction = match compaction.state {
            CompactionState::Started => Some(seq),
            CompactionState::Failed | CompactionState::Done => None,
        };
        if compaction.state == CompactionState::Started {
            return;
        }
        let Checkpoint { pruned, context_edits, restored, .. } = now;
        pruned.retain(|target| {
            let is_over = compaction.ends_pruning_of(*target, seq);
            if is_over {
                context_edits.remove(target);
            }
            !is_over
        });
        restored.retain(|target, _| !compaction.ends_pruning_of(*target, seq));
        let failed = compaction.state == CompactionState::Failed;
        let tokens = if failed { compaction.tokens_before } else { compaction.tokens_after };
        if let Some(tokens) = tokens {
            let model = compaction.model.clone();
            now.last_compaction = Some(LastCompaction { model, tokens, failed });
        }
        self.answered(compaction.usage.as_ref());
        if let Some(usage) = &compaction.usage {
            self.spend(usage);
        }
        if !failed {
            count(&mut self.in_force.totals.compactions);
            self.progress();
        }
    }

    /// Whoever goes elsewhere leaves behind what was suspended, and ends the restores of a rewind.
    fn apply_tip(&mut self) {
        self.in_force.suspended_run = None;
        self.in_force.last_compaction = None;
        self.in_force.open_actions.retain(|open| !open.action.is_restore());
    }

    fn apply_message(&mut self, record: &Record, message: &Message) {
        let now = &mut self.in_force;
        now.last_message_at = Some(record.envelope.at);
        if let Message::User(UserMessage { input_id: Some(id), .. }) = message {
            now.inputs.settle(id);
        }
        self.apply_background(record.seq(), message);
        let now = &mut self.in_force;
        match message {
            Message::User(user) if user.notice.is_some() => {}
            Message::User(user) => {
                count(&mut now.totals.user_messages);
                if now.first_prompt.is_none() {
                    now.first_prompt = first_words(user);
                }
            }
            Message::Assistant(reply) => {
                count(&mut now.totals.assistant_messages);
                self.apply_reply(reply);
            }
            Message::Tool(result) => {
                count(&mut now.totals.tool_results);
                self.close_action(result);
                if matches!(result.established, Established::Observed | Established::Traces) {
                    self.progress();
                }
            }
        }
    }

    /// A result may say that its effect goes on; the input that tells its end closes that.
    fn apply_background(&mut self, seq: Seq, message: &Message) {
        let open = &mut self.in_force.open_background;
        match message {
            Message::Tool(ToolMessage { background: Some(handle), name, .. }) => {
                open.retain(|b| b.handle != *handle);
                open.push(Background { handle: handle.clone(), seq, tool: name.clone() });
            }
            Message::User(UserMessage { input_id: Some(id), .. }) if !open.is_empty() => {
                open.retain(|b| background_input_id(&b.handle) != *id);
            }
            _ => {}
        }
    }

    /// A result closes the oldest open effect of its call. Ids may repeat, so the call's record decides
    /// where it is known.
    fn close_action(&mut self, result: &ToolMessage) {
        let answers = |seq: Seq, id: &str| {
            id == result.call_id && result.call_seq.is_none_or(|call_seq| call_seq == seq)
        };
        let actions = &mut self.in_force.open_actions;
        if let Some(i) = actions.iter().position(|a| answers(a.action.call_seq, &a.action.call_id))
        {
            actions.remove(i);
        }
        self.in_force.open_approvals.retain(|a| !answers(a.call_seq, &a.call_id));
    }

    fn apply_run(&mut self, seq: Seq, run: u64, state: &RunState) {
        match state {
            RunState::Started { attempt, .. } => self.apply_start(seq, run, *attempt),
            RunState::Stopping { parked } => {
                parked.iter().for_each(|id| self.in_force.inputs.park(id));
                if let Some(open) = self.in_force.open_run.as_mut().filter(|o| o.run == run) {
                    open.stopping = true;
                }
            }
            RunState::Ended { end, .. } => {
                let now = &mut self.in_force;
                let over = now.open_run.take();
                now.suspended_run = over.filter(|_| *end == RunEnd::Suspended);
                now.last_end = Some(*end);
            }
        }
    }

    fn apply_input(&mut self, event: &InputEvent) {
        let inputs = &mut self.in_force.inputs;
        match event.event {
            InputFate::Reordered => inputs.order.clone_from(&event.order),
            InputFate::Parked => inputs.park(&event.input_id),
            _ => inputs.settle(&event.input_id),
        }
    }

    /// A run begins, or is taken up again: after a crash with a higher attempt, otherwise with the same
    /// one.
    fn apply_start(&mut self, seq: Seq, run: u64, attempt: u32) {
        let now = &mut self.in_force;
        let suspended = now.suspended_run.take();
        let before = now.open_run.take().or(suspended).filter(|before| before.run == run);
        if attempt <= 1 {
            now.totals.runs = now.totals.runs.max(run);
        }
        if before.as_ref().is_none_or(|before| before.attempt < attempt) {
            count(&mut now.totals.attempts);
        }
        let open = match before {
            None => OpenRun { run, attempt, since: seq, ..OpenRun::default() },
            Some(before) => {
                let crashed = u32::from(attempt > before.attempt);
                let stalled = before.stalled.saturating_add(crashed);
                OpenRun { attempt, stalled, ..before }
            }
        };
        now.open_run = Some(open);
    }

    fn apply_request(&mut self, seq: Seq, request: &Request) {
        count(&mut self.in_force.totals.requests);
        let Some(open) = &mut self.in_force.open_run else { return };
        count(&mut open.requests);
        // The call before was never answered; nobody knows what it cost.
        open.usage = open.used();
        open.asking = Some(Asking { seq, estimate: request.estimate });
    }

    fn apply_reply(&mut self, reply: &AssistantMessage) {
        self.answered(reply.usage.as_ref());
        if let Some(usage) = &reply.usage {
            self.spend(usage);
        }
        if !reply.partial {
            self.progress();
        }
    }

    /// Counts the calls whose tokens nobody reported, by the rules of [`crate::accounting`]: whatever ends a
    /// call without saying what it cost (an interrupted compaction's `failed`, too) leaves it counted.
    fn count_unknown(&mut self, record: &Record) {
        let now = &mut self.in_force;
        if let Body::Request(Request { model, purpose, .. }) = record.body() {
            count(&mut now.totals.unknown);
            let (seq, model, purpose) = (record.seq(), model.clone(), purpose.clone());
            now.unreported = Some(UnreportedCall { seq, model, purpose });
            return;
        }
        let Some(call) = &now.unreported else { return };
        let (is_over, is_told) = match record.body() {
            Body::Message(message) => match &**message {
                Message::Assistant(reply) => {
                    (reply.request == Some(call.seq), reply.usage.is_some())
                }
                _ => return,
            },
            Body::Usage(usage) => (usage.model == call.model, true),
            Body::Compaction(compaction) => {
                let is_told = compaction.usage.is_some();
                (is_told && call.purpose.as_deref() == Some(COMPACTION), is_told)
            }
            _ => return,
        };
        if is_over {
            now.unreported = None;
            now.totals.unknown = now.totals.unknown.saturating_sub(u64::from(is_told));
        }
    }

    /// The newest call is over. Where nobody says what it cost, its estimate stands.
    fn answered(&mut self, usage: Option<&Usage>) {
        let Some(open) = &mut self.in_force.open_run else { return };
        if usage.is_none() {
            open.usage = open.used();
        }
        open.asking = None;
    }

    fn spend(&mut self, usage: &Usage) {
        self.in_force.totals.usage.add(usage);
        if let Some(open) = &mut self.in_force.open_run {
            open.usage.add(usage);
        }
    }

    /// Something came of the run.
    fn progress(&mut self) {
        if let Some(open) = &mut self.in_force.open_run {
            open.stalled = 0;
        }
    }

    fn apply_approval(&mut self, approval: &Approval) {
        let open = &mut self.in_force.open_approvals;
        open.retain(|a| a.call_id != approval.call_id || a.call_seq != approval.call_seq);
        if matches!(approval.state, ApprovalState::Asked { .. }) {
            open.push(approval.clone());
        }
    }

    /// The position of the current node.
    #[must_use]
    pub fn tip(&self) -> Option<Pos> {
        self.in_force.tip
    }
}

/// Counts one more. What a log says is not always true, and never brings anything down.
fn count(total: &mut u64) {
    *total = total.saturating_add(1);
}

fn first_words(user: &UserMessage) -> Option<String> {
    user.content.iter().find_map(|block| match block {
        Block::Text { text } if !text.head().trim().is_empty() => {
            Some(text.head().trim().chars().take(FIRST_PROMPT_CHARS).collect())
        }
        _ => None,
    })
}
