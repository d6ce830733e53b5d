//! From records to a transcript.
//!
//! Responsible for: turns out of contexts, as the one function that builds those has them, so that what is written
//! is what would be sent; and telling what is in the records and not in the turns. Must not: know a target's
//! format.

use super::ids::call_id;
use super::pieces::{Pieces, Stand};
use super::transcript::{
    Answer, Call, Part, Piece, Reply, Said, Transcript, Turn, UNKNOWN_OUTCOME, text_of,
};
use super::{Blobs, LossKind, Losses, Session};
use super::{notices, numbers};
use crate::foreign::{Agent, is_state};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use segno_model::compaction::beside_summary;
use segno_model::context::{ContextMessage, ContextResult, Whole};
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Compaction, ContextEdit, Message, Outcome, StopReason,
    Text,
};
use segno_model::{Body, Record, Seq};
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

pub(super) struct Builder<'a> {
    session: &'a Session,
    records: &'a [&'a Record],
    target: Agent,
    whole: Whole<'a>,
    pieces: &'a Pieces,
    blobs: &'a dyn Blobs,
    losses: &'a mut Losses,
    turns: Vec<Turn>,
    /// The turn that a record became.
    at: HashMap<Seq, usize>,
    /// The nodes that were gone through, with the turn that they became, or the nearest one above.
    seen: HashMap<Seq, Option<usize>>,
    /// The edits in force.
    edits: HashMap<Seq, &'a ContextEdit>,
    /// The ids of calls that are taken.
    ids: HashSet<String>,
    /// The results that stand behind their calls.
    answers: HashSet<Seq>,
    /// The current path, and its end.
    current: HashSet<Seq>,
    tip: Option<Seq>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        (session, records, target): (&'a Session, &'a [&'a Record], Agent),
        pieces: &'a Pieces,
        blobs: &'a dyn Blobs,
        losses: &'a mut Losses,
    ) -> Self {
        let whole = Whole::new(records);
        let path = whole.tree().path(session.tip);
        Self {
            tip: path.last().map(|record| record.seq()),
            current: path.iter().map(|record| record.seq()).collect(),
            edits: edits(records),
            session,
            records,
            target,
            whole,
            pieces,
            blobs,
            losses,
            turns: Vec::new(),
            at: HashMap::new(),
            seen: HashMap::new(),
            ids: HashSet::new(),
            answers: HashSet::new(),
        }
    }

    pub(super) fn build(mut self) -> Transcript {
        let tip = self.tip.and_then(|tip| self.branch(tip));
        for end in self.other_ends() {
            self.branch(end);
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
        let mut known = HashSet::new();
        let ends = self.whole.tree().tips().filter_map(|tip| self.above_results(tip));
        ends.filter(|end| !self.current.contains(end) && known.insert(*end)).collect()
    }

    /// A node, or what a result hangs on.
    fn above_results(&self, seq: Seq) -> Option<Seq> {
        let mut at = Some(seq);
        while let Some(seq) = at {
            let record = self.whole.tree().node(seq)?;
            if !matches!(message_of(record), Some(Message::Tool(_))) {
                return Some(seq);
            }
            at = self.whole.tree().parent(seq);
        }
        None
    }

    /// Adds the turns of a path that are not there yet; the last one of the path.
    fn branch(&mut self, end: Seq) -> Option<usize> {
        let (path, mut last) = self.new_on_path(end);
        let messages = self.whole.messages(&path);
        let mut messages = messages.iter().peekable();
        while let Some(message) = messages.next() {
            let results = match messages.peek() {
                Some(ContextMessage::Results(results)) => results.as_slice(),
                _ => &[],
            };
            let Some(seq) = said_by(message).filter(|seq| !self.at.contains_key(seq)) else {
                continue;
            };
            let Some(record) = self.whole.tree().node(seq) else { continue };
            let Some(said) = self.said(record, message, results) else { continue };
            let (at, active) = (record.envelope.at, self.current.contains(&seq));
            self.at.insert(seq, self.turns.len());
            self.turns.push(Turn { seq, at, parent: last, active, said });
            last = Some(self.turns.len() - 1);
        }
        let above = path.first().and_then(|record| self.whole.tree().parent(record.seq()));
        let mut turn = above.and_then(|seq| self.seen.get(&seq).copied().flatten());
        for record in path {
            turn = self.at.get(&record.seq()).copied().or(turn);
            self.seen.insert(record.seq(), turn);
        }
        last
    }

    /// The end of a path that was not gone through, and the turn on which it hangs.
    fn new_on_path(&self, end: Seq) -> (Vec<&'a Record>, Option<usize>) {
        let tree = self.whole.tree();
        let mut path = Vec::new();
        let mut at = Some(end);
        while let Some(seq) = at {
            if let Some(turn) = self.seen.get(&seq) {
                path.reverse();
                return (path, *turn);
            }
            path.extend(tree.node(seq));
            at = tree.parent(seq);
        }
        path.reverse();
        (path, None)
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
                if notices::stays(&self.session.source, self.target, user.notice.as_deref()) {
                    self.losses.of(LossKind::Surroundings, record.seq());
                    return None;
                }
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
                AssistantBlock::Text { text } => pieces.push(match self.pieces.get(text) {
                    Some(Stand::Raw(raw)) => Piece::Raw(raw.clone()),
                    _ => Piece::Text(text.clone()),
                }),
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
        let recorded = result.and_then(|result| self.whole.tree().node(result.seq?));
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
        numbers::members(json).unwrap_or_else(|| {
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
            Block::Text { text } => match self.pieces.get(text.head()) {
                Some(Stand::Raw(raw)) => Part::Raw(raw.clone()),
                Some(Stand::Document(document)) => Part::Document(document.clone()),
                Some(Stand::Text(text)) => Part::Text(text.clone()),
                None => Part::Text(self.text(text, seq)),
            },
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
        let edit = self.edits.get(&seq)?;
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
                    let kept = self.whole.tree().node(seq).map(|record| self.whole.kept(record));
                    let kept = kept.into_iter().flatten().map(Record::seq);
                    let mut turns: Vec<usize> =
                        kept.filter_map(|seq| self.at.get(&seq).copied()).collect();
                    turns.dedup();
                    if let Said::Compaction { kept, .. } = &mut self.turns[at].said {
                        *kept = turns;
                    }
                }
                Said::BranchSummary { .. } => {
                    let end = self.whole.tree().node(seq).and_then(|record| match record.body() {
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
        for record in self.records {
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
                Body::Custom(_) if is_state(record) => self.losses.of(LossKind::State, seq),
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

/// The edit of each record that was made last.
fn edits<'a>(records: &[&'a Record]) -> HashMap<Seq, &'a ContextEdit> {
    let edit = |record: &&'a Record| match record.body() {
        Body::ContextEdit(edit) => Some((edit.target, edit)),
        _ => None,
    };
    records.iter().filter_map(edit).collect()
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
