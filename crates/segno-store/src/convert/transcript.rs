//! What was said, as a target writes it: turns with their results, on the branches where they stand.
//!
//! Responsible for: the same shape for every target. Each call has exactly one result, behind its turn;
//! ids of calls are unique; blobs are resolved; what no provider takes (empty texts, calls of broken
//! replies) is not in it; edits of the context are carried out. All that comes from the one function that
//! builds contexts. Must not: know a target.

use super::ids::call_id;
use super::{Blobs, LossKind, Losses, Session};
use crate::foreign::pos;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use segno_model::compaction::beside_summary;
use segno_model::context::{self, ContextMessage, ContextResult};
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Compaction, Message, ModelRef, Outcome, StopReason,
    Text, Usage,
};
use segno_model::tree::Tree;
use segno_model::{Body, Record, Seq, Timestamp};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// What a call without a result is answered with.
pub(super) const UNKNOWN_OUTCOME: &str = "The outcome of this call is unknown: the session was interrupted \
    before a result was recorded. It may have happened completely, partly or not at all. Check before \
    repeating it.";

/// Everything that was said in a session.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// Each is followed by what hangs on it, branch by branch; the end of the current path is the last of all.
    pub turns: Vec<Turn>,
}

/// Something said, and where it stands.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The record.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// The turn behind which it stands, by index.
    pub parent: Option<usize>,
    /// Whether it is on the current path.
    pub active: bool,
    /// What.
    pub said: Said,
}

/// What a turn says.
#[derive(Debug, Clone)]
pub enum Said {
    /// The user's side.
    User {
        /// Never empty.
        parts: Vec<Part>,
        /// Set when it is not the person's words: a notice, a command, a reminder.
        notice: Option<String>,
    },
    /// The model.
    Reply(Reply),
    /// A summary of what stands before it on its path.
    Compaction {
        /// The summary with what stands below it.
        summary: String,
        /// The turns that go on to be sent, by index, in the order in which they are sent.
        kept: Vec<usize>,
        /// Context tokens before.
        tokens_before: Option<u64>,
    },
    /// A summary of another branch.
    BranchSummary {
        /// The summary.
        summary: String,
        /// The same in its frame, as the model is sent it.
        framed: String,
        /// The turn that was the end of that branch.
        from: Option<usize>,
    },
}

/// A reply of the model with the results of its calls.
#[derive(Debug, Clone)]
pub struct Reply {
    /// In order; never only reasoning.
    pub pieces: Vec<Piece>,
    /// Who said it.
    pub model: ModelRef,
    /// Whether it was asked elsewhere than at the provider's own address.
    pub elsewhere: bool,
    /// Tokens.
    pub usage: Option<Usage>,
    /// Why it ended.
    pub stop: StopReason,
}

impl Reply {
    /// Its calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Call(call) => Some(call),
            _ => None,
        })
    }

    /// Whether its reasoning may be carried to an agent that asks `provider`: what was signed by that
    /// provider, at its own address.
    #[must_use]
    pub fn thinks_for(&self, provider: &str) -> bool {
        self.model.provider == provider && !self.elsewhere
    }
}

/// A piece of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Text; never blank.
    Text(String),
    /// Reasoning with its maker's signature.
    Thinking {
        /// The text; may be empty.
        text: String,
        /// The signature, or the encrypted content.
        signature: String,
        /// Whether only the signature counts.
        redacted: bool,
    },
    /// A call.
    Call(Call),
}

/// A call and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Unique in the session, never empty.
    pub id: String,
    /// The tool's name, as it was recorded.
    pub name: String,
    /// The arguments. Those that were no object stand as text under `arguments`.
    pub arguments: Map<String, Value>,
    /// The result.
    pub answer: Answer,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The record; none where there was no result.
    pub seq: Option<Seq>,
    /// When; the reply's time where nobody knows.
    pub at: Timestamp,
    /// Never empty.
    pub parts: Vec<Part>,
    /// Whether the model is told that it failed.
    pub is_error: bool,
    /// What is known about the effect.
    pub outcome: Outcome,
}

/// A piece of what a person or a tool said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text; never blank.
    Text(String),
    /// An image.
    Image {
        /// e.g. `image/png`.
        media_type: String,
        /// Base64.
        data: String,
    },
}

/// The texts among some parts, a line each.
pub(super) fn text_of(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

impl Transcript {
    /// The transcript of a session. What cannot be in one is told.
    #[must_use]
    pub fn of(session: &Session, blobs: &dyn Blobs, losses: &mut Losses) -> Self {
        Builder::new(session, blobs, losses).build()
    }

    /// The current path, in order.
    pub fn path(&self) -> impl Iterator<Item = (usize, &Turn)> {
        self.turns.iter().enumerate().filter(|(_, turn)| turn.active)
    }

    /// Tells the branches beside the current path as lost, by their ends.
    pub(super) fn lose_branches(&self, losses: &mut Losses) {
        let parents: HashSet<usize> = self.turns.iter().filter_map(|turn| turn.parent).collect();
        let ends = self.turns.iter().enumerate().filter(|(i, _)| !parents.contains(i));
        for (_, turn) in ends.filter(|(_, turn)| !turn.active) {
            losses.of(LossKind::Branches, turn.seq);
        }
    }
}

struct Builder<'a> {
    session: &'a Session,
    tree: Tree<'a>,
    blobs: &'a dyn Blobs,
    losses: &'a mut Losses,
    turns: Vec<Turn>,
    /// The turn that a record became.
    at: HashMap<Seq, usize>,
    /// The ids of calls that are taken.
    ids: HashSet<String>,
    /// The results that stand behind their calls.
    answers: HashSet<Seq>,
    /// The current path.
    current: HashSet<Seq>,
}

impl<'a> Builder<'a> {
    fn new(session: &'a Session, blobs: &'a dyn Blobs, losses: &'a mut Losses) -> Self {
        let tree = Tree::new(&session.records);
        let current = tree.path(session.tip).iter().map(|record| record.seq()).collect();
        Self {
            session,
            tree,
            blobs,
            losses,
            turns: Vec::new(),
            at: HashMap::new(),
            ids: HashSet::new(),
            answers: HashSet::new(),
            current,
        }
    }

    fn build(mut self) -> Transcript {
        let session = self.session;
        let whole = |tip: Seq| context::build_whole(&session.records, Some(pos(tip))).messages;
        let active = session.tip.map(whole).unwrap_or_default();
        let tip = self.branch(None, &active);
        for end in self.other_ends() {
            self.branch(None, &whole(end));
        }
        self.relate();
        if let Some(tip) = tip {
            self.end_with(tip);
        }
        self.tell_of_records();
        Transcript { turns: in_order(self.turns) }
    }

    /// Where the current path ends within another branch, its last turn stands a second time, as its end.
    fn end_with(&mut self, tip: usize) {
        if !self.turns.iter().any(|turn| turn.parent == Some(tip)) {
            return;
        }
        let mut again = self.turns[tip].clone();
        if let Said::Reply(reply) = &mut again.said {
            for piece in &mut reply.pieces {
                if let Piece::Call(call) = piece {
                    call.id = self.unique(&call.id);
                }
            }
        }
        self.turns.push(again);
        let before = &mut self.turns[tip];
        before.active = false;
        // It was spent once.
        if let Said::Reply(reply) = &mut before.said {
            reply.usage = None;
        }
    }

    /// The ends of the other branches. Results that hang beside one another are no branches.
    fn other_ends(&self) -> Vec<Seq> {
        let mut ends = Vec::new();
        for tip in self.tree.tips() {
            let end = self.above_results(tip);
            let is_new = |end: &Seq| !self.current.contains(end) && !ends.contains(end);
            ends.extend(end.filter(is_new));
        }
        ends
    }

    /// A node, or what a result hangs on.
    fn above_results(&self, seq: Seq) -> Option<Seq> {
        let mut at = Some(seq);
        while let Some(seq) = at {
            let record = self.tree.node(seq)?;
            if !matches!(message_of(record), Some(Message::Tool(_))) {
                return Some(seq);
            }
            at = self.tree.parent(seq);
        }
        None
    }

    /// Adds the turns of a path that are not there yet; the last one of the path.
    fn branch(&mut self, from: Option<usize>, messages: &[ContextMessage]) -> Option<usize> {
        let mut last = from;
        let mut messages = messages.iter().peekable();
        while let Some(message) = messages.next() {
            let results = match messages.peek() {
                Some(ContextMessage::Results(results)) => results.as_slice(),
                _ => &[],
            };
            let Some(seq) = said_by(message) else { continue };
            if let Some(known) = self.at.get(&seq) {
                last = Some(*known);
                continue;
            }
            let Some(record) = self.tree.node(seq) else { continue };
            let Some(said) = self.said(record, message, results) else { continue };
            let (at, active) = (record.envelope.at, self.current.contains(&seq));
            self.at.insert(seq, self.turns.len());
            self.turns.push(Turn { seq, at, parent: last, active, said });
            last = Some(self.turns.len() - 1);
        }
        last
    }

    fn said(
        &mut self,
        record: &Record,
        message: &ContextMessage,
        results: &[ContextResult],
    ) -> Option<Said> {
        match (message, record.body()) {
            (ContextMessage::Assistant(turn), Body::Message(body)) => {
                let Message::Assistant(reply) = &**body else { return None };
                Some(Said::Reply(self.reply(record, reply, &turn.content, results)))
            }
            (ContextMessage::User { .. }, Body::Compaction(compaction)) => {
                let summary = self.summary(record, compaction);
                let tokens_before = compaction.tokens_before;
                Some(Said::Compaction { summary, kept: Vec::new(), tokens_before })
            }
            (ContextMessage::User { content, .. }, Body::BranchSummary(branch)) => {
                let summary = match self.edit_of(record.seq()) {
                    Some(edit) => text_of(&self.parts(edit, record.seq())),
                    None => self.text(&branch.summary, record.seq()),
                };
                let framed = text_of(&self.parts(content, record.seq()));
                Some(Said::BranchSummary { summary, framed, from: None })
            }
            (ContextMessage::User { content, .. }, Body::Custom(custom)) => {
                let parts = self.parts(content, record.seq());
                Some(Said::User { parts, notice: Some(custom.name.clone()) })
            }
            (ContextMessage::User { content, .. }, Body::Message(body)) => {
                // What the context says before and behind replies is no record's.
                let Message::User(user) = &**body else { return None };
                let parts = self.parts(content, record.seq());
                Some(Said::User { parts, notice: user.notice.clone() })
            }
            _ => None,
        }
    }

    fn reply(
        &mut self,
        record: &Record,
        reply: &AssistantMessage,
        content: &[AssistantBlock],
        results: &[ContextResult],
    ) -> Reply {
        let mut results = results.iter();
        let mut pieces = Vec::new();
        for block in content {
            match block {
                AssistantBlock::Text { text } => pieces.push(Piece::Text(text.clone())),
                AssistantBlock::Thinking { text, signature: Some(signature), redacted } => {
                    let (text, signature, redacted) = (text.clone(), signature.clone(), *redacted);
                    pieces.push(Piece::Thinking { text, signature, redacted });
                }
                AssistantBlock::ToolCall(call) => {
                    let answer = self.answer(record, results.next());
                    let arguments = self.arguments(&call.arguments, record.seq());
                    let (id, name) = (self.unique(&call.id), call.name.clone());
                    pieces.push(Piece::Call(Call { id, name, arguments, answer }));
                }
                AssistantBlock::Thinking { .. } | AssistantBlock::Unknown => {}
            }
        }
        Reply {
            pieces,
            model: reply.model.clone(),
            elsewhere: reply.endpoint.is_some(),
            usage: reply.usage,
            stop: reply.stop,
        }
    }

    fn answer(&mut self, reply: &Record, result: Option<&ContextResult>) -> Answer {
        let recorded = result.and_then(|result| self.tree.node(result.seq?));
        let tool = recorded.and_then(message_of).and_then(|message| match message {
            Message::Tool(tool) => Some(tool),
            _ => None,
        });
        let (Some(result), Some(recorded), Some(tool)) = (result, recorded, tool) else {
            self.losses.of(LossKind::Unanswered, reply.seq());
            return Answer {
                seq: None,
                at: reply.envelope.at,
                parts: vec![Part::Text(UNKNOWN_OUTCOME.to_owned())],
                is_error: true,
                outcome: Outcome::Unknown,
            };
        };
        let seq = recorded.seq();
        self.answers.insert(seq);
        if tool.whole.is_some() {
            self.losses.of(LossKind::WholeOutputs, seq);
        }
        let parts = self.parts(&result.content, seq);
        let (is_error, outcome) = (result.is_error, tool.outcome);
        Answer { seq: Some(seq), at: recorded.envelope.at, parts, is_error, outcome }
    }

    fn arguments(&mut self, json: &str, seq: Seq) -> Map<String, Value> {
        if json.trim().is_empty() {
            return Map::new();
        }
        serde_json::from_str(json).unwrap_or_else(|_| {
            self.losses.of(LossKind::BadArguments, seq);
            Map::from_iter([("arguments".to_owned(), Value::from(json))])
        })
    }

    /// An id that no other call has, and that every provider takes.
    fn unique(&mut self, id: &str) -> String {
        let given = Some(id.to_owned()).filter(|id| !id.is_empty());
        let tried = given.into_iter().chain((2..).map(|n| format!("{id}-{n}")));
        let free = tried.map(|id| call_id(&id)).find(|id| !self.ids.contains(id));
        let id = free.unwrap_or_default();
        self.ids.insert(id.clone());
        id
    }

    fn parts(&mut self, blocks: &[Block], seq: Seq) -> Vec<Part> {
        blocks.iter().map(|block| self.part(block, seq)).collect()
    }

    fn part(&mut self, block: &Block, seq: Seq) -> Part {
        match block {
            Block::Text { text } => Part::Text(self.text(text, seq)),
            Block::Image { media_type, data: Text::Inline(data) } => {
                Part::Image { media_type: media_type.clone(), data: data.clone() }
            }
            Block::Image { media_type, data: Text::Blob(blob) } => match self.blobs.bytes(blob) {
                Some(bytes) => {
                    Part::Image { media_type: media_type.clone(), data: BASE64.encode(bytes) }
                }
                None => {
                    self.losses.of(LossKind::MissingBlobs, seq);
                    Part::Text("(an image that is gone)".to_owned())
                }
            },
            // Told of its record: in contexts, words stand there already.
            Block::Unknown => Part::Text("(content of an unknown kind)".to_owned()),
        }
    }

    fn text(&mut self, text: &Text, seq: Seq) -> String {
        let blob = match text {
            Text::Inline(text) => return text.clone(),
            Text::Blob(blob) => blob,
        };
        match self.blobs.bytes(blob) {
            Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            None => {
                self.losses.of(LossKind::MissingBlobs, seq);
                format!("{}\n(the rest of this text is gone)", blob.head)
            }
        }
    }

    fn summary(&mut self, record: &Record, compaction: &Compaction) -> String {
        let seq = record.seq();
        match self.edit_of(seq) {
            Some([]) => return "(left out)".to_owned(),
            Some(edit) => return text_of(&self.parts(edit, seq)),
            None => {}
        }
        let summary = compaction.summary.as_ref().map(|summary| self.text(summary, seq));
        let summary = summary.filter(|summary| !summary.trim().is_empty());
        let summary = summary.unwrap_or_else(|| "No summary was recorded.".to_owned());
        summary + &beside_summary(compaction).unwrap_or_default()
    }

    /// What an edit in force put in a record's place.
    fn edit_of(&self, seq: Seq) -> Option<&'a [Block]> {
        let edits = self.session.records.iter().rev().filter_map(|record| match record.body() {
            Body::ContextEdit(edit) if edit.target == seq => Some(edit),
            _ => None,
        });
        let edit = edits.into_iter().next()?;
        match edit.edit.as_str() {
            "replace" => Some(&edit.content),
            "omit" => Some(&[]),
            _ => None,
        }
    }

    /// Puts in what speaks of other turns.
    fn relate(&mut self) {
        for at in 0..self.turns.len() {
            let seq = self.turns[at].seq;
            match &self.turns[at].said {
                Said::Compaction { .. } => {
                    let context = context::build_untraced(&self.session.records, Some(pos(seq)));
                    let seqs = context.messages.iter().filter_map(said_by).filter(|s| *s != seq);
                    let mut turns: Vec<usize> =
                        seqs.filter_map(|seq| self.at.get(&seq).copied()).collect();
                    turns.dedup();
                    if let Said::Compaction { kept, .. } = &mut self.turns[at].said {
                        *kept = turns;
                    }
                }
                Said::BranchSummary { .. } => {
                    let end = self.tree.node(seq).and_then(|record| match record.body() {
                        Body::BranchSummary(branch) => self.above_results(branch.from.seq),
                        _ => None,
                    });
                    let turn = end.and_then(|end| self.at.get(&end).copied());
                    if let Said::BranchSummary { from, .. } = &mut self.turns[at].said {
                        *from = turn;
                    }
                }
                Said::User { .. } | Said::Reply(_) => {}
            }
        }
    }

    /// Tells what is in the records and not in the turns, whatever the target.
    fn tell_of_records(&mut self) {
        let mut edits = HashSet::new();
        for record in &self.session.records {
            let seq = record.seq();
            match record.body() {
                Body::ContextEdit(edit) if edit.edit == "restore" => {
                    edits.remove(&edit.target);
                }
                Body::ContextEdit(edit) => {
                    edits.insert(edit.target);
                }
                Body::Task(_) | Body::Policy(_) | Body::Thinking(_) | Body::Approval(_) => {
                    self.losses.of(LossKind::Metadata, seq);
                }
                Body::Message(message) => match &**message {
                    Message::Tool(_) if !self.answers.contains(&seq) => {
                        self.losses.of(LossKind::LooseResults, seq);
                    }
                    Message::Tool(result) => self.tell_of_unknown(&result.content, seq),
                    Message::User(user) => self.tell_of_unknown(&user.content, seq),
                    Message::Assistant(reply) => self.tell_of_reply(reply, seq),
                },
                _ => {}
            }
        }
        edits.into_iter().for_each(|target| self.losses.of(LossKind::Edits, target));
    }

    fn tell_of_unknown(&mut self, blocks: &[Block], seq: Seq) {
        for _ in blocks.iter().filter(|block| matches!(block, Block::Unknown)) {
            self.losses.of(LossKind::UnknownContent, seq);
        }
    }

    fn tell_of_reply(&mut self, reply: &AssistantMessage, seq: Seq) {
        let broken =
            reply.partial || matches!(reply.stop, StopReason::Broken | StopReason::Stopped);
        let is_lost = |block: &&AssistantBlock| {
            matches!(block, AssistantBlock::ToolCall(_) | AssistantBlock::Thinking { .. })
        };
        if broken && reply.content.iter().any(|block| is_lost(&block)) {
            return self.losses.of(LossKind::BrokenReplies, seq);
        }
        for block in &reply.content {
            match block {
                AssistantBlock::Thinking { signature, .. }
                    if signature.as_ref().is_none_or(|s| s.trim().is_empty()) =>
                {
                    self.losses.of(LossKind::Thinking, seq);
                }
                AssistantBlock::Unknown => self.losses.of(LossKind::UnknownContent, seq),
                _ => {}
            }
        }
    }
}

/// The turns so that each is followed by what hangs on it, one branch after the other; the way to the end of
/// the current path comes last everywhere.
fn in_order(turns: Vec<Turn>) -> Vec<Turn> {
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); turns.len()];
    let mut left: Vec<usize> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        match turn.parent.and_then(|parent| below.get_mut(parent)) {
            Some(children) => children.push(at),
            None => left.push(at),
        }
    }
    let last_first = |list: &mut Vec<usize>| {
        list.sort_by_key(|at| turns.get(*at).map(|t| (!t.active, std::cmp::Reverse(t.seq))));
    };
    last_first(&mut left);
    let mut order = Vec::with_capacity(turns.len());
    while let Some(at) = left.pop() {
        order.push(at);
        if let Some(children) = below.get_mut(at) {
            last_first(children);
            left.append(children);
        }
    }
    let mut new = vec![0; turns.len()];
    order.iter().enumerate().for_each(|(to, from)| new[*from] = to);
    let mut placed: Vec<Option<Turn>> = turns.into_iter().map(Some).collect();
    let mut moved = Vec::with_capacity(placed.len());
    for at in order {
        let Some(mut turn) = placed[at].take() else { continue };
        turn.parent = turn.parent.map(|parent| new[parent]);
        match &mut turn.said {
            Said::Compaction { kept, .. } => kept.iter_mut().for_each(|at| *at = new[*at]),
            Said::BranchSummary { from: Some(from), .. } => *from = new[*from],
            _ => {}
        }
        moved.push(turn);
    }
    moved
}

/// The record that a message comes from; results come with their reply.
fn said_by(message: &ContextMessage) -> Option<Seq> {
    match message {
        ContextMessage::User { seq, .. } => Some(*seq),
        ContextMessage::Assistant(turn) => Some(turn.seq),
        ContextMessage::State(state) => Some(state.seq),
        ContextMessage::Results(_) => None,
    }
}

fn message_of(record: &Record) -> Option<&Message> {
    match record.body() {
        Body::Message(message) => Some(message),
        _ => None,
    }
}
