//! Who follows whom in a pi session.
//!
//! Responsible for: pi's ids, the nodes that stand for its entries in our tree, and the ways up from
//! them, in some hundred bytes per entry. Must not: know what an entry says.
//!
//! In pi everything is an entry of the tree, labels and settings too; of ours only what was said. So
//! every entry stands for the nearest node at or above it.

use super::row::{Parent, Str};
use segno_model::Seq;
use segno_model::line::checksum;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Stands for "none" where a number of four bytes is kept.
const NONE: u32 = u32::MAX;

/// A node, by its number among the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeId(u32);

/// The entries that were read so far.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// The last entry of each id.
    ids: HashMap<u128, u32>,
    entries: Vec<Entry>,
    nodes: Vec<Node>,
    /// Parents that were named and not there, with the entry that names them.
    awaited: HashMap<u128, (Option<u128>, Option<u32>)>,
    /// Entries without ids, by the line on which they stand.
    by_line: Vec<(u64, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    record: Seq,
    node: u32,
    edits: u32,
    text: Text,
    counted: bool,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    seq: Seq,
    parent: u32,
    /// An ancestor further up, so chosen that every ancestor is a few dozen jumps away.
    jump: u32,
    depth: u32,
    /// The nearest compaction at or above it.
    boundary: u32,
    /// For a result: the node that it hangs on with nothing but results in between.
    turn: u32,
}

/// By what two entries with one id are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text {
    bytes: u32,
    crc: u32,
}

impl Text {
    pub(super) fn of(json: &str) -> Self {
        let bytes = u32::try_from(json.len()).unwrap_or(NONE);
        Self { bytes, crc: checksum(json.as_bytes()) }
    }
}

/// Where an entry hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The node that it follows.
    pub(super) node: Option<NodeId>,
    /// The context edits in force there; none when they are those of the entry before it.
    pub(super) edits: Option<u32>,
    /// What is wrong with the parent that it names.
    pub(super) trouble: Option<Trouble>,
}

/// What can be wrong with a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It is not there, or not yet.
    Missing,
    /// It follows the entry itself.
    Cycle,
}

/// What an entry became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Became {
    /// Something that was said.
    Said,
    /// The result of a call.
    Result,
    /// A summary of what is above it.
    Boundary,
    /// No node.
    Metadata,
}

/// An entry to be taken in.
#[derive(Debug, Clone, Copy)]
pub(super) struct New {
    pub(super) place: Place,
    /// The record that it became.
    pub(super) record: Seq,
    pub(super) became: Became,
    /// The context edits in force after it.
    pub(super) edits: u32,
    pub(super) text: Text,
    /// The line, for entries that have no id.
    pub(super) line: Option<u64>,
    /// Whether it says what it cost.
    pub(super) counted: bool,
}

/// What a compaction keeps of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Nothing.
    Nothing,
    /// Everything from this node on.
    From(Seq),
    /// The entry that it names is not on the path. From here on is kept what no other summary tells.
    Unknown(Option<Seq>),
}

/// How a compaction names what it keeps first.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pointer<'a> {
    Id(&'a str),
    /// Version 1: the number of the line, counted from 0.
    Line(u64),
}

impl Tree {
    /// Whether the same entry stands in the file already.
    pub(super) fn known(&self, id: &str) -> Option<Text> {
        self.entry(id).map(|entry| entry.text)
    }

    /// The record that an entry became.
    pub(super) fn record(&self, id: &str) -> Option<Seq> {
        self.entry(id).map(|entry| entry.record)
    }

    /// Whether an entry is there and said what it cost.
    pub(super) fn is_counted(&self, id: &str) -> bool {
        self.entry(id).is_some_and(|entry| entry.counted)
    }

    /// The node that stands for an entry: none above a beginning.
    pub(super) fn node_of(&self, id: &str) -> Option<Option<NodeId>> {
        self.entry(id).map(|entry| node(entry.node))
    }

    pub(super) fn seq(&self, node: NodeId) -> Seq {
        self.nodes[node.0 as usize].seq
    }

    /// The last node that was read.
    pub(super) fn last(&self) -> Option<NodeId> {
        self.nodes.len().checked_sub(1).and_then(|last| u32::try_from(last).ok()).map(NodeId)
    }

    /// Where an entry hangs. One whose parent is not there hangs on the node before it.
    pub(super) fn place(&mut self, id: Option<&str>, parent: &Parent<'_>) -> Place {
        let instead = |trouble| Place { node: self.last(), edits: None, trouble };
        let place = match parent {
            Parent::Unsaid => instead(None),
            Parent::Root => Place { node: None, edits: Some(NONE), trouble: None },
            Parent::Of(parent) if id == Some(&**parent) => instead(Some(Trouble::Cycle)),
            Parent::Of(parent) => match self.entry(parent) {
                Some(found) => {
                    Place { node: node(found.node), edits: Some(found.edits), trouble: None }
                }
                None => instead(Some(Trouble::Missing)),
            },
        };
        match (id, parent) {
            (Some(id), Parent::Of(parent)) if self.closes_cycle(id, parent, place.node) => {
                Place { trouble: Some(Trouble::Cycle), ..place }
            }
            _ => place,
        }
    }

    /// Whether an entry that an earlier one waited for follows that one in turn.
    fn closes_cycle(&mut self, id: &str, parent: &str, above: Option<NodeId>) -> bool {
        if self.awaited.is_empty() {
            return false;
        }
        let Some((child, at)) = self.awaited.remove(&key(id)) else { return false };
        let is_above = |at: u32| {
            above.is_some_and(|above| {
                let seq = self.nodes[at as usize].seq;
                self.first_from(above, seq).is_some_and(|first| first.0 == at)
            })
        };
        child == Some(key(parent)) || at.is_some_and(is_above)
    }

    /// Takes an entry in.
    pub(super) fn add(&mut self, id: Option<&Str<'_>>, parent: &Parent<'_>, new: New) {
        let above = new.place.node.map_or(NONE, |node| node.0);
        let node = match new.became {
            Became::Metadata => above,
            became => self.add_node(above, new.record, became),
        };
        let index = u32::try_from(self.entries.len()).unwrap_or(NONE);
        let New { record, edits, text, counted, .. } = new;
        self.entries.push(Entry { record, node, edits, text, counted });
        let id = id.map(|id| key(id));
        if let Some(id) = id {
            self.ids.insert(id, index);
        } else if let Some(line) = new.line {
            self.by_line.push((line, index));
        }
        if new.place.trouble == Some(Trouble::Missing)
            && let Parent::Of(parent) = parent
        {
            let own = (new.became != Became::Metadata).then_some(node);
            self.awaited.insert(key(parent), (id, own));
        }
    }

    fn add_node(&mut self, parent: u32, seq: Seq, became: Became) -> u32 {
        let own = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        let above = self.nodes.get(parent as usize).copied();
        let boundary = match became {
            Became::Boundary => own,
            _ => above.map_or(NONE, |above| above.boundary),
        };
        let turn = match became {
            Became::Result => self.turn_of(node(parent)).map_or(NONE, |turn| turn.0),
            _ => NONE,
        };
        let (jump, depth) = above.map_or((own, 0), |above| {
            let far = self.nodes[above.jump as usize];
            let even = above.depth - far.depth == far.depth - self.nodes[far.jump as usize].depth;
            (if even { far.jump } else { parent }, above.depth + 1)
        });
        self.nodes.push(Node { seq, parent, jump, depth, boundary, turn });
        own
    }

    /// The turn that a result on `above` belongs to, if there is nothing but results in between.
    pub(super) fn turn_of(&self, above: Option<NodeId>) -> Option<NodeId> {
        let above = above?;
        node(self.nodes[above.0 as usize].turn).or(Some(above))
    }

    /// Whether a record became a node of the path to `tip`.
    pub(super) fn is_above(&self, tip: Option<NodeId>, record: Seq) -> bool {
        let first = tip.and_then(|tip| self.first_from(tip, record));
        first.is_some_and(|first| self.seq(first) == record)
    }

    /// The first node behind `turn` on the path to `tip` that is no result of that turn; none when a result that hangs
    /// on `tip` stands right behind the turn.
    pub(super) fn ends_turn(&self, tip: NodeId, turn: Seq) -> Option<Seq> {
        let mut at = self.first_from(tip, turn + 1)?;
        while node(self.nodes[at.0 as usize].turn).is_some_and(|of| self.seq(of) == turn) {
            at = self.first_from(tip, self.seq(at) + 1)?;
        }
        Some(self.seq(at))
    }

    /// The first node from `seq` on, on the path to `tip`, that is no result.
    pub(super) fn said_from(&self, tip: NodeId, seq: Seq) -> Option<Seq> {
        let mut at = self.first_from(tip, seq)?;
        while self.nodes[at.0 as usize].turn != NONE {
            at = self.first_from(tip, self.seq(at) + 1)?;
        }
        Some(self.seq(at))
    }

    /// What a compaction that follows `above` keeps.
    pub(super) fn kept(&self, above: Option<NodeId>, own: Option<&str>, from: Pointer<'_>) -> Kept {
        if matches!(from, Pointer::Id(id) if own == Some(id)) {
            return Kept::Nothing;
        }
        let Some(above) = above else { return Kept::Nothing };
        let named = match from {
            Pointer::Id(id) => self.entry(id),
            Pointer::Line(index) => self.at_line(index + 1),
        };
        if let Some(named) = named.filter(|named| self.is_on_path(above, node(named.node))) {
            let first = self.first_from(above, named.record);
            return first.map_or(Kept::Nothing, |first| Kept::From(self.seq(first)));
        }
        let boundary = node(self.nodes[above.0 as usize].boundary);
        let after = boundary.map_or(0, |boundary| self.seq(boundary) + 1);
        Kept::Unknown(self.first_from(above, after).map(|first| self.seq(first)))
    }

    fn is_on_path(&self, tip: NodeId, at: Option<NodeId>) -> bool {
        at.is_none_or(|at| self.first_from(tip, self.seq(at)) == Some(at))
    }

    /// The first node of the path to `tip` whose number is at least `seq`.
    fn first_from(&self, tip: NodeId, seq: Seq) -> Option<NodeId> {
        let mut at = tip.0;
        if self.nodes[at as usize].seq < seq {
            return None;
        }
        let reaches = |to: u32| self.nodes.get(to as usize).is_some_and(|node| node.seq >= seq);
        loop {
            let Node { jump, parent, .. } = self.nodes[at as usize];
            if jump != at && reaches(jump) {
                at = jump;
            } else if reaches(parent) {
                at = parent;
            } else {
                return Some(NodeId(at));
            }
        }
    }

    fn entry(&self, id: &str) -> Option<&Entry> {
        self.ids.get(&key(id)).and_then(|index| self.entries.get(*index as usize))
    }

    /// The entry on a line, or the first after it where that line was lost.
    fn at_line(&self, line: u64) -> Option<&Entry> {
        let at = self.by_line.partition_point(|(of, _)| *of < line);
        self.by_line.get(at).and_then(|(_, index)| self.entries.get(*index as usize))
    }
}

fn node(index: u32) -> Option<NodeId> {
    (index != NONE).then_some(NodeId(index))
}

/// An id in 16 bytes: itself if it is short, as pi's are, or 120 bits of hash.
fn key(id: &str) -> u128 {
    let mut bytes = [0; 16];
    if id.len() < bytes.len() {
        bytes[..id.len()].copy_from_slice(id.as_bytes());
        bytes[15] = id.len() as u8;
        return u128::from_le_bytes(bytes);
    }
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, id).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(0) << 64 | half(1)) | 0xFF << 120
}
