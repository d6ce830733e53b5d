//! The chain of rows as a tree of records.
//!
//! Responsible for: which record a row becomes and on which it hangs, one message for the rows of one
//! response, copies and missing parents. Holds one response with what stands between its rows, and 16
//! bytes for each row. Must not: look into what is said.

use super::super::calls::Calls;
use super::super::emitter::{Emitter, Meta};
use super::super::item::{Origin, RawPiece};
use super::super::outline::{ByHash, Short};
use super::row::Key;
use super::say;
use segno_model::Seq;
use segno_model::finding::Severity;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Body, ContextEdit, Message, ModelRef, ToolMessage,
    Usage,
};

/// A response is closed when more than this stands between its rows.
pub(crate) const MOST_HELD: usize = 8 << 20;

/// The lane of the session itself.
pub(super) const MAIN: u32 = 0;

/// A row that is understood and waits for its place.
#[derive(Default)]
pub(super) struct Step {
    /// The row and its fingerprint; none outside the chain.
    pub(super) key: Option<(Key, u32)>,
    pub(super) parent: Parent,
    pub(super) lane: u32,
    pub(super) meta: Meta,
    pub(super) drafts: Vec<Draft>,
    /// What our terms do not hold of the first drafts.
    pub(super) pieces: Vec<Vec<RawPiece>>,
}

/// What a row hangs on.
#[derive(Default)]
pub(super) enum Parent {
    /// It does not stand in the chain.
    #[default]
    Outside,
    /// Nothing.
    Root,
    /// A row.
    Row(Key),
    /// The end of the lane.
    Last,
}

/// A record that does not know its relations yet.
pub(super) enum Draft {
    Body(Body),
    Result(Box<ToolMessage>),
    /// Takes the place of the result of a call; without a text, nothing does.
    Edit {
        call: Key,
        text: Option<String>,
    },
}

/// A row of a response.
#[derive(Default)]
pub(super) struct Reply {
    /// The response's id.
    pub(super) id: String,
    /// Identifies its usage over all files.
    pub(super) response: Option<String>,
    pub(super) model: ModelRef,
    pub(super) blocks: Vec<AssistantBlock>,
    /// What our terms do not hold of them.
    pub(super) pieces: Vec<RawPiece>,
    pub(super) usage: Option<Usage>,
    pub(super) stop: Option<String>,
}

/// The chain, as far as it was read.
#[derive(Default)]
pub(super) struct Chain {
    /// By the row's key, like all that follow.
    nodes: ByHash<Entry>,
    /// The rows that are not the session's own.
    strays: ByHash<u32>,
    /// Rows that stand again behind a summary: what hangs on them hangs on that.
    again: ByHash<Seq>,
    lanes: Vec<Lane>,
    open: Option<Response>,
    copies: Copies,
    calls: Calls,
    /// The records that hold results, by the call's id.
    results: ByHash<Short>,
    /// The output tokens of the responses, as far as they were told.
    spent: ByHash<u32>,
    begun: bool,
}

/// What is remembered of a row.
#[derive(Clone, Copy)]
struct Entry {
    /// The node that it is, or the nearest one above it.
    node: Node,
    print: u32,
}

/// What a row has become: a record, or one of two things that no record's number can be.
#[derive(Clone, Copy, PartialEq)]
struct Node(Short);

impl Node {
    /// Its record is not handed on yet.
    const HELD: Self = Self(Short::LAST);
    /// Nothing is above it.
    const ROOT: Self = Self(Short::BEFORE_LAST);

    fn of(seq: Option<Seq>) -> Self {
        seq.map_or(Self::ROOT, |seq| Self(Short::of(seq)))
    }

    fn seq(self) -> Option<Seq> {
        Some(self.0.seq()).filter(|_| self != Self::HELD && self != Self::ROOT)
    }
}

#[derive(Default)]
struct Lane {
    /// The subagent; empty for the session itself.
    agent: String,
    last: Option<Seq>,
}

/// Rows that were written again.
#[derive(Default)]
struct Copies {
    run: u64,
    first: Origin,
    /// The last one, and where the session was before them.
    last: Option<(Key, Option<Seq>)>,
}

/// A response whose rows are still coming.
struct Response {
    id: String,
    /// Its first row.
    step: Step,
    reply: AssistantMessage,
    pieces: Vec<RawPiece>,
    stop: Option<String>,
    keys: Vec<(Key, u32)>,
    /// Where each of its calls stands.
    calls: Vec<Origin>,
    held: Vec<Step>,
    bytes: usize,
    /// Copies of other rows behind the last row of its own: the last of each run, and how many held ones stand
    /// before it.
    copied: Vec<(Key, usize)>,
}

impl Chain {
    pub(super) fn new() -> Self {
        Self { lanes: vec![Lane::default()], ..Self::default() }
    }

    /// Whether a row is an unchanged copy of an earlier one; what only shares its id is told.
    pub(super) fn is_copy(
        &mut self,
        key: Key,
        print: u32,
        at: &Origin,
        out: &mut Emitter<'_>,
    ) -> bool {
        let seen = self.nodes.get(&key.0).map(|seen| seen.print);
        if seen == Some(print) {
            self.copies.count(at);
            match &mut self.open {
                // More rows of the response may come behind it.
                Some(open) => open.copy(key),
                None => self.copies.last = Some((key, self.last(MAIN))),
            }
            return true;
        }
        if seen.is_some() {
            let sentence = "Another record with this id stands earlier in the session.";
            let done = "Both are kept.";
            out.found("duplicate-record", Severity::Warning, at, sentence, done);
        }
        self.copies.end(out);
        false
    }

    /// Notes a row whose record will come.
    pub(super) fn expect(&mut self, key: Key, print: u32, lane: u32) {
        self.remember(key, Entry { node: Node::HELD, print }, lane);
    }

    /// Whether the row is known.
    pub(super) fn knows(&self, key: Key) -> bool {
        self.nodes.contains_key(&key.0)
    }

    /// Whether a call was made.
    pub(super) fn knows_call(&self, id: &str) -> bool {
        let makes = |open: &Response| open.reply.calls().any(|call| call.id == id);
        self.calls.knows(id) || self.open.as_ref().is_some_and(makes)
    }

    /// The record that a row became, or that is nearest above it. None: there is no such row.
    pub(super) fn record_of(&self, key: Key) -> Option<Option<Seq>> {
        self.nodes.get(&key.0).map(|entry| entry.node.seq())
    }

    /// The subagent whose lane this is.
    pub(super) fn agent(&self, lane: u32) -> Option<String> {
        self.lanes.get(lane as usize).map(|lane| lane.agent.clone()).filter(|_| lane != MAIN)
    }

    /// The lane of a row.
    pub(super) fn lane_of_row(&self, key: Key) -> Option<u32> {
        self.nodes.contains_key(&key.0).then(|| self.strays.get(&key.0).copied().unwrap_or(MAIN))
    }

    fn remember(&mut self, key: Key, entry: Entry, lane: u32) {
        self.nodes.insert(key.0, entry);
        if lane != MAIN {
            self.strays.insert(key.0, lane);
        } else if !self.strays.is_empty() {
            self.strays.remove(&key.0);
        }
    }

    /// The lane of a subagent in the session's own file.
    pub(super) fn lane_of_agent(&mut self, agent: &str) -> u32 {
        let known = self.lanes.iter().skip(1).position(|lane| lane.agent == agent);
        let at = known.map_or(self.lanes.len(), |at| at + 1);
        if known.is_none() {
            self.lanes.push(Lane { agent: agent.to_owned(), last: None });
        }
        u32::try_from(at).unwrap_or(MAIN)
    }

    /// The last node of a lane.
    pub(super) fn last(&self, lane: u32) -> Option<Seq> {
        self.lanes[lane as usize].last
    }

    /// The session begins with a record that is not in its file.
    pub(super) fn begin_with(&mut self, seq: Seq) {
        self.lanes[0].last = Some(seq);
    }

    /// From here on, what hangs on these rows hangs on `seq`.
    pub(super) fn stand_again(&mut self, rows: impl Iterator<Item = Key>, seq: Seq) {
        self.again = rows.map(|key| (key.0, seq)).collect();
    }

    /// Takes a row of a response.
    pub(super) fn reply(&mut self, step: Step, reply: Reply, out: &mut Emitter<'_>) {
        let continues = |open: &Response| open.id == reply.id && open.step.lane == step.lane;
        if !self.open.as_ref().is_some_and(continues) {
            self.flush(out);
        }
        let (key, origin) = (step.key, step.meta.origin.clone());
        let open = self.open.get_or_insert_with(|| Response::new(reply.id.clone(), step));
        open.keys.extend(key);
        open.add(reply, &origin);
    }

    /// Puts a row in its place, or behind the response whose rows are still coming.
    pub(super) fn hold(&mut self, step: Step, bytes: usize, out: &mut Emitter<'_>) {
        match &mut self.open {
            Some(open) if step.lane == open.step.lane && open.bytes + bytes <= MOST_HELD => {
                open.bytes += bytes;
                open.held.push(step);
            }
            _ => self.put(step, out),
        }
    }

    /// Puts a row in its place; no more rows of a response come.
    pub(super) fn put(&mut self, step: Step, out: &mut Emitter<'_>) {
        self.flush(out);
        self.place(step, out);
    }

    /// The end of the file.
    pub(super) fn finish(&mut self, out: &mut Emitter<'_>) {
        self.flush(out);
        self.copies.end(out);
        self.calls.finish(out);
    }

    /// Closes the response whose rows were coming.
    pub(super) fn flush(&mut self, out: &mut Emitter<'_>) {
        let Some(open) = self.open.take() else { return };
        let Response {
            mut step, mut reply, pieces, stop, keys, calls: origins, held, copied, ..
        } = open;
        reply.stop = say::stop(stop.as_deref(), &reply.content);
        let calls: Vec<(String, String)> =
            reply.calls().map(|call| (call.id.clone(), call.name.clone())).collect();
        let lane = step.lane;
        step.key = None;
        self.spend(&mut step.meta.response, &mut reply.usage);
        step.drafts = vec![Draft::Body(Body::Message(Box::new(Message::Assistant(reply))))];
        step.pieces = vec![pieces];
        let node = self.place(step, out);
        for (key, print) in keys {
            self.remember(key, Entry { node, print }, lane);
        }
        if let Some(seq) = node.seq() {
            for ((id, name), origin) in calls.iter().zip(&origins) {
                self.calls.call(id, name, seq, origin);
            }
        }
        let count = held.len();
        for (at, step) in held.into_iter().enumerate() {
            self.copied(&copied, at);
            self.place(step, out);
        }
        self.copied(&copied, count);
    }

    /// Where a copy stands behind so many of the rows that a response held.
    fn copied(&mut self, copied: &[(Key, usize)], held: usize) {
        if let Some((key, _)) = copied.iter().find(|(_, behind)| *behind == held) {
            self.copies.last = Some((*key, self.last(MAIN)));
        }
    }

    /// Usage stands on one record of a response, also when others' rows divided it; more than was told
    /// before replaces that.
    fn spend(&mut self, response: &mut Option<String>, usage: &mut Option<Usage>) {
        let (Some(id), Some(now)) = (&response, &usage) else { return };
        let told = self.spent.entry(Key::of(id).0).or_default();
        let output = u32::try_from(now.output).unwrap_or(u32::MAX);
        if *told > 0 && output <= *told {
            (*response, *usage) = (None, None);
        } else {
            *told = output;
        }
    }

    /// Hands a row on. The node that it is, or hangs on.
    fn place(&mut self, step: Step, out: &mut Emitter<'_>) -> Node {
        let mut node = self.above(&step, out);
        let mut response = step.meta.response.clone();
        let mut pieces = step.pieces.into_iter();
        for draft in step.drafts {
            let pieces = pieces.next().unwrap_or_default();
            let Some(body) = self.body(draft, &step.meta.origin, out) else { continue };
            let is_node = body.is_node();
            let call = answered(&body);
            let (parent, response) = (node.seq(), response.take());
            let meta = Meta { parent, response, pieces, ..step.meta.clone() };
            let seq = out.record(body, meta);
            if let Some(call) = call {
                self.results.entry(call.0).or_insert(Short::of(seq));
            }
            if is_node {
                node = Node::of(Some(seq));
                self.lanes[step.lane as usize].last = Some(seq);
                if step.lane == MAIN {
                    self.copies.last = None;
                }
            }
        }
        if let Some((key, print)) = step.key {
            self.remember(key, Entry { node, print }, step.lane);
        }
        node
    }

    fn body(&mut self, draft: Draft, at: &Origin, out: &mut Emitter<'_>) -> Option<Body> {
        match draft {
            Draft::Body(body) => Some(body),
            Draft::Result(mut result) => {
                if let Some((seq, name)) = self.calls.result(&result.call_id, at, out) {
                    (result.call_seq, result.name) = (Some(seq), name);
                }
                Some(Body::Message(Box::new(Message::Tool(*result))))
            }
            Draft::Edit { call, text } => {
                let target = self.results.get(&call.0)?.seq();
                let edit = if text.is_some() { "replace" } else { "omit" }.to_owned();
                let content = text.into_iter().map(Block::text).collect();
                Some(Body::ContextEdit(ContextEdit {
                    target,
                    edit,
                    content,
                    ..ContextEdit::default()
                }))
            }
        }
    }

    /// The node that a row hangs on.
    fn above(&mut self, step: &Step, out: &mut Emitter<'_>) -> Node {
        let last = Node::of(self.last(step.lane));
        if matches!(step.parent, Parent::Outside) {
            return last;
        }
        let first = !std::mem::replace(&mut self.begun, true);
        let key = match step.parent {
            Parent::Outside | Parent::Last => return last,
            // What stands before the first row was not in the file.
            Parent::Root if first => return last,
            Parent::Root => return Node::ROOT,
            Parent::Row(key) => key,
        };
        if let Some(seq) = self.again.get(&key.0) {
            return Node::of(Some(*seq));
        }
        if let Some((copy, before)) = self.copies.last
            && copy == key
        {
            return Node::of(before);
        }
        match (self.nodes.get(&key.0), self.lane_of_row(key)) {
            (Some(entry), Some(lane)) if lane == step.lane && entry.node != Node::HELD => {
                return entry.node;
            }
            // A subagent's beginning hangs on the call.
            (_, Some(MAIN)) if step.lane != MAIN => return last,
            _ => {}
        }
        let at = &step.meta.origin;
        if first {
            let sentence = "The first record follows one of another file.";
            out.found("continued-from", Severity::Note, at, sentence, "The session begins here.");
        } else {
            let sentence = "The record names a parent that does not stand before it.";
            let done = "It was hung on the nearest earlier record.";
            out.found("missing-parent", Severity::Warning, at, sentence, done);
        }
        last
    }
}

impl Response {
    fn new(id: String, step: Step) -> Self {
        let reply = AssistantMessage::default();
        let (pieces, keys, calls, held) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (stop, bytes, copied) = (None, 0, Vec::new());
        Self { id, step, reply, pieces, stop, keys, calls, held, bytes, copied }
    }

    /// A copy of a row: of its own, nothing follows, unless others stand here again before it.
    fn copy(&mut self, key: Key) {
        if self.copied.is_empty() && self.holds(key) {
            return;
        }
        let held = self.held.len();
        self.copied.retain(|(_, behind)| *behind != held);
        self.copied.push((key, held));
    }

    /// Whether a row is one of its own, or stands between them.
    fn holds(&self, key: Key) -> bool {
        let held = self.held.iter().filter_map(|step| step.key);
        self.keys.iter().copied().chain(held).any(|(held, _)| held == key)
    }

    /// Adds a row. The last usage and the last reason to stop count.
    fn add(&mut self, row: Reply, at: &Origin) {
        let is_call = |block: &&AssistantBlock| matches!(block, AssistantBlock::ToolCall(_));
        let calls = row.blocks.iter().filter(is_call).count();
        self.calls.extend(std::iter::repeat_n(Origin { id: None, ..at.clone() }, calls));
        let before = self.reply.content.len();
        let behind = |piece: RawPiece| RawPiece { at: before + piece.at, ..piece };
        self.pieces.extend(row.pieces.into_iter().map(behind));
        self.reply.content.extend(row.blocks);
        self.reply.model = row.model;
        self.reply.usage = row.usage.or(self.reply.usage);
        self.stop = row.stop.or(self.stop.take());
        self.copied.clear();
        self.step.meta.response = row.response.or(self.step.meta.response.take());
    }
}

impl Copies {
    fn count(&mut self, at: &Origin) {
        if self.run == 0 {
            self.first = at.clone();
        }
        self.run += 1;
    }

    /// Tells about a run of copies.
    fn end(&mut self, out: &mut Emitter<'_>) {
        if self.run == 0 {
            return;
        }
        let sentence = format!("{} records stand here again, unchanged.", self.run);
        let done = "Each counts once, in its first place.";
        out.found("duplicate-record", Severity::Warning, &self.first, &sentence, done);
        self.run = 0;
    }
}

/// The call that a record answers.
fn answered(body: &Body) -> Option<Key> {
    match body {
        Body::Message(message) => match &**message {
            Message::Tool(result) => Some(Key::of(&result.call_id)),
            _ => None,
        },
        _ => None,
    }
}
