//! The path from a tip to its newest compaction, and what belongs to it.
//!
//! Responsible for: following parents (never by recursion), bridging what cannot be read, stopping
//! where the compaction says, and finding what hangs on the path: kept records, metadata, edits,
//! results. Must not: judge damage.

use super::loader::{Loader, Need};
use crate::id::{Pos, Seq};
use crate::line::Record;
use crate::record::{Body, CompactionState, Message};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A reference to a node that is to be found.
#[derive(Debug, Clone, Copy)]
struct Link {
    /// The number; the node itself, or whatever node comes before it if it cannot be read.
    seq: Seq,
    /// What is named; a parent that is not smaller than its child is never found.
    named: Seq,
    /// The record that names it; none for the tip.
    child: Option<Seq>,
    pos: Option<Pos>,
    /// Where what refers to it begins, in the file: it is before that.
    before: u64,
}

/// A parent, a tip or a kept record that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken {
    /// The record that names it; none for the tip.
    pub(super) child: Option<Seq>,
    /// What is named.
    pub(super) wanted: Seq,
    /// The node that stands in for it.
    pub(super) instead: Option<Seq>,
}

/// How far the walk is.
#[derive(Debug, Default)]
pub(super) struct Walk {
    link: Option<Link>,
    /// Newest first.
    pub(super) path: Vec<Seq>,
    /// The newest compaction on the path.
    pub(super) compaction: Option<Arc<Record>>,
    /// Nodes from here on are kept.
    first_kept: Option<Seq>,
    /// Whether the compaction's first kept record turned out not to be on the path.
    pub(super) passed_first_kept: bool,
    /// Single records kept from before.
    pub(super) kept: BTreeSet<Seq>,
    pub(super) broken: Vec<Broken>,
    /// Replies of the path with a call that has no result anywhere up to the end.
    pub(super) unanswered: Vec<Seq>,
}

enum Found {
    Node(Arc<Record>),
    /// Not readable; the nearest node before it.
    Instead(Option<Arc<Record>>),
}

impl Walk {
    /// Whether an edit changes what the newest compaction's own state tells of.
    pub(super) fn alters_state(&self, target: Seq, edit: Pos) -> bool {
        self.compaction.as_ref().is_some_and(|record| match record.body() {
            Body::Compaction(c) => c.is_altered_by(target, edit.seq, record.seq()),
            _ => false,
        })
    }

    pub(super) fn begin(&mut self, tip: Option<Pos>, end: u64) {
        self.link = tip.map(|tip| Link {
            seq: tip.seq,
            named: tip.seq,
            child: None,
            pos: Some(tip),
            before: end,
        });
    }
}

impl Loader {
    /// Follows the path until it is complete.
    pub(super) fn walk_path(&mut self) -> Option<Need> {
        while let Some(link) = self.walk.link {
            let found = match self.find(link) {
                Ok(found) => found,
                Err(need) => return Some(need),
            };
            let node = match found {
                Found::Node(node) => Some(node),
                Found::Instead(node) => {
                    let instead = node.as_ref().map(|n| n.seq());
                    let child = link.child;
                    self.walk.broken.push(Broken { child, wanted: link.named, instead });
                    node
                }
            };
            self.walk.link = node.and_then(|node| self.go_on(&node));
        }
        self.load_kept()
    }

    /// Takes a node into the path; says what comes next, if anything is needed.
    fn go_on(&mut self, node: &Arc<Record>) -> Option<Link> {
        let seq = node.seq();
        let walk = &mut self.walk;
        if walk.first_kept.is_some_and(|first| seq < first) {
            walk.passed_first_kept = true;
            return None;
        }
        walk.path.push(seq);
        if walk.compaction.is_none()
            && let Body::Compaction(compaction) = node.body()
            && compaction.state == CompactionState::Done
        {
            walk.compaction = Some(node.clone());
            walk.first_kept = compaction.first_kept.map(|pos| pos.seq);
            walk.first_kept?;
        }
        if walk.first_kept == Some(seq) {
            return None;
        }
        let parent = node.envelope.parent?;
        let before = self.file_offset(node);
        let pos = node.envelope.parent_at.filter(|pos| pos.seq == parent);
        Some(Link { seq: parent.min(seq), named: parent, child: Some(seq), pos, before })
    }

    pub(super) fn file_offset(&self, record: &Record) -> u64 {
        if record.seq() == 0 { 0 } else { self.image.origin.saturating_add(record.offset) }
    }

    /// Finds a node: among what was read, at its position, or by reading on from what refers to it.
    fn find(&self, link: Link) -> Result<Found, Need> {
        let possible = link.child.is_none_or(|child| link.seq < child);
        let is_it = |r: &&Arc<Record>| r.is_node() && link.pos.is_none_or(|pos| self.is_at(r, pos));
        let known = self.accepted.get(&link.seq).filter(|r| possible && is_it(r));
        if let Some(record) = known {
            return Ok(Found::Node(record.clone()));
        }
        if let Some(pos) = link.pos.filter(|_| possible)
            && let Some(record) = self.look_up(pos)?
            && record.is_node()
        {
            return Ok(Found::Node(record));
        }
        let last = self.image.parts.len().saturating_sub(1);
        let part = self.image.part_at(link.before).unwrap_or(last);
        let begins = self.first_of(part);
        let from = begins.unwrap_or(0).min(link.seq);
        let nodes = self.accepted.range(from..link.seq).rev().map(|(_, record)| record);
        let instead = nodes.into_iter().find(|record| record.is_node());
        match (begins, instead) {
            (Some(_), Some(node)) => Ok(Found::Instead(Some(node.clone()))),
            _ if self.image.before(part).is_some() => Err(Need::Before(part)),
            _ => Ok(Found::Instead(None)),
        }
    }

    /// The smallest number in a part, if it has any record that may be read.
    fn first_of(&self, part: usize) -> Option<Seq> {
        let lines = &self.image.parts.get(part)?.lines;
        let mut records =
            lines.iter().flat_map(|l| &l.pieces).filter_map(|piece| piece.kind.record());
        records.find(|r| self.accepted.contains_key(&r.seq())).map(|r| r.seq())
    }

    /// Looks up the single records that the compaction keeps.
    fn load_kept(&mut self) -> Option<Need> {
        let compaction = self.walk.compaction.clone()?;
        let Body::Compaction(body) = compaction.body() else { return None };
        let before = self.file_offset(&compaction);
        for pos in &body.kept {
            let child = Some(compaction.seq());
            let kept = Link { seq: pos.seq, named: pos.seq, child, pos: Some(*pos), before };
            let found = match self.find(kept) {
                Ok(found) => found,
                Err(need) => return Some(need),
            };
            match found {
                Found::Node(node) => {
                    self.walk.kept.insert(node.seq());
                }
                Found::Instead(_) => {
                    let broken = Broken { child, wanted: pos.seq, instead: None };
                    if !self.walk.broken.contains(&broken) {
                        self.walk.broken.push(broken);
                    }
                }
            }
        }
        None
    }

    /// Metadata belongs to the node before it: a part that ends with a node of the path must go on to
    /// the next node.
    pub(super) fn belonging(&mut self) -> Option<Need> {
        let path: BTreeSet<Seq> = self.walk.path.iter().copied().collect();
        for (i, part) in self.image.parts.iter().enumerate() {
            let mut records =
                part.lines.iter().rev().flat_map(|l| l.pieces.iter().rev()).filter_map(|p| {
                    p.kind.record().filter(|r| r.is_node() && self.accepted.contains_key(&r.seq()))
                });
            let open = match records.next() {
                Some(node) => path.contains(&node.seq()),
                // What stands before the first node belongs to the root.
                None => part.start == 0 && self.walk.compaction.is_none(),
            };
            if open && self.image.after(i).is_some() {
                return Some(Need::After(i));
            }
        }
        None
    }

    /// Looks up the edits in force of what is in the context.
    pub(super) fn load_edits(&mut self) -> Option<Need> {
        let included: BTreeSet<Seq> =
            self.walk.path.iter().chain(&self.walk.kept).copied().collect();
        let now = &self.state.in_force;
        let edits: Vec<Pos> = now
            .context_edits
            .iter()
            .chain(&now.restored)
            .filter(|(target, pos)| {
                included.contains(target) || self.walk.alters_state(**target, **pos)
            })
            .map(|(_, pos)| *pos)
            .collect();
        for pos in edits {
            match self.look_up(pos) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let broken = Broken { child: None, wanted: pos.seq, instead: None };
                    if !self.walk.broken.contains(&broken) {
                        self.walk.broken.push(broken);
                    }
                }
                Err(need) => return Some(need),
            }
        }
        None
    }

    /// Reads on behind replies with calls that have no result yet, to the end of the log if need be:
    /// a result may lie beside the path.
    pub(super) fn find_results(&mut self) -> Option<Need> {
        let results = self.results();
        let mut open = Vec::new();
        for seq in self.walk.path.iter().chain(&self.walk.kept) {
            let Some(reply) = self.accepted.get(seq) else { continue };
            if is_answered(reply, &results) {
                continue;
            }
            let part = self.image.part_at(self.file_offset(reply));
            match part.filter(|part| self.image.after(*part).is_some()) {
                Some(part) => return Some(Need::After(part)),
                None => open.push(*seq),
            }
        }
        self.walk.unanswered = open;
        None
    }

    /// How many results were read, by call: those that name the reply, and those that do not.
    fn results(&self) -> Results<'_> {
        let mut results = Results::default();
        for (seq, record) in &self.accepted {
            let Body::Message(message) = record.body() else { continue };
            let Message::Tool(result) = &**message else { continue };
            match result.call_seq {
                Some(reply) => {
                    *results.named.entry((reply, &result.call_id)).or_default() += 1;
                }
                None => results.unnamed.entry(&result.call_id).or_default().push(*seq),
            }
        }
        results
    }
}

#[derive(Default)]
struct Results<'a> {
    named: HashMap<(Seq, &'a str), usize>,
    unnamed: HashMap<&'a str, Vec<Seq>>,
}

fn is_answered(reply: &Record, results: &Results<'_>) -> bool {
    let Body::Message(message) = reply.body() else { return true };
    let Message::Assistant(assistant) = &**message else { return true };
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    for call in assistant.calls() {
        *calls.entry(&call.id).or_default() += 1;
    }
    calls.into_iter().all(|(id, count)| {
        let named = results.named.get(&(reply.seq(), id)).copied().unwrap_or(0);
        let later = |seqs: &Vec<Seq>| seqs.len() - seqs.partition_point(|s| *s <= reply.seq());
        named + results.unnamed.get(id).map_or(0, later) >= count
    })
}
