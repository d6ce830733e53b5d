//! The tree of nodes that a slice of records spans: paths, branches, tips, forks, labels.
//!
//! Responsible for: who follows whom, also where a parent is missing. Must not: decide what a node
//! means for the context. Nothing recurses, so that depth and width are bounded by memory only.

use crate::finding::{Finding, Severity};
use crate::id::Seq;
use crate::line::Record;
use crate::record::{Body, Message, Usage};
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// The tree over some records. It borrows them; building it takes linear time.
#[derive(Debug)]
pub struct Tree<'a> {
    /// By seq, ascending.
    nodes: Vec<Node<'a>>,
    labels: BTreeMap<Seq, &'a str>,
}

#[derive(Debug)]
struct Node<'a> {
    record: &'a Record,
    parent: Option<usize>,
    /// The parent that it names, when that is not among the records.
    missing: Option<Seq>,
    children: Vec<usize>,
}

/// A node whose parent is not there, and what it was hung on instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bridge {
    /// The node.
    pub child: Seq,
    /// The parent that it names.
    pub missing: Seq,
    /// The nearest earlier node that is there; none when there is none.
    pub to: Option<Seq>,
}

impl Bridge {
    /// The bridge as something to tell a person.
    #[must_use]
    pub fn finding(&self) -> Finding {
        let done = match self.to {
            Some(to) => format!("it was hung on record {to}, the nearest earlier one"),
            None => "it was taken as a beginning".to_owned(),
        };
        Finding {
            code: "missing-parent",
            severity: Severity::Damage,
            file: None,
            line: None,
            offset: None,
            seq: Some(self.child),
            sentence: format!(
                "record {} follows record {}, which is missing",
                self.child, self.missing
            ),
            done,
        }
    }
}

/// One line of a drawn tree. Rows come in drawing order: a node, then what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// The node.
    pub seq: Seq,
    /// The node that it follows.
    pub parent: Option<Seq>,
    /// How many branchings lie above it. A chain has the same depth all along.
    pub depth: usize,
    /// Whether nothing follows it.
    pub is_tip: bool,
    /// Whether it lies on the current path.
    pub on_path: bool,
    /// Its label.
    pub label: Option<&'a str>,
}

/// Why the tip cannot be moved somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    /// There is no such node.
    #[error("there is no node {0} in this session")]
    Unknown(Seq),
    /// It is the current one.
    #[error("node {0} is the current one")]
    Current(Seq),
    /// It is not the end of a branch.
    #[error("node {0} is not the end of a branch")]
    Interior(Seq),
    /// It is not on the current path.
    #[error("node {0} is not on the current path")]
    OtherBranch(Seq),
    /// It is not a prompt of the person.
    #[error("node {0} is not a prompt")]
    NotAPrompt(Seq),
}

/// What one path holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Prompts of the person.
    pub prompts: u64,
    /// Replies.
    pub replies: u64,
    /// Tool results.
    pub results: u64,
    /// Tokens of the replies. What compactions cost is not among them.
    pub usage: Usage,
}

impl<'a> Tree<'a> {
    /// Builds the tree. Records should come in the order of the log; of several with one number the
    /// first counts. A parent that is not smaller than its child is taken as missing.
    #[must_use]
    pub fn new<R: Borrow<Record>>(records: &'a [R]) -> Self {
        let mut nodes: Vec<Node<'a>> = records
            .iter()
            .map(Borrow::borrow)
            .filter(|r: &&Record| r.is_node())
            .map(|record| Node { record, parent: None, missing: None, children: Vec::new() })
            .collect();
        nodes.sort_by_key(|n| n.record.seq());
        nodes.dedup_by_key(|n| n.record.seq());
        for i in 0..nodes.len() {
            let (parent, missing) = parent_of(&nodes, nodes[i].record);
            nodes[i].parent = parent;
            nodes[i].missing = missing;
            if let Some(p) = parent {
                nodes[p].children.push(i);
            }
        }
        Self { nodes, labels: labels(records) }
    }

    fn index(&self, seq: Seq) -> Option<usize> {
        self.nodes.binary_search_by_key(&seq, |n| n.record.seq()).ok()
    }

    fn seq(&self, i: usize) -> Seq {
        self.nodes[i].record.seq()
    }

    /// The node of this number.
    #[must_use]
    pub fn node(&self, seq: Seq) -> Option<&'a Record> {
        self.index(seq).map(|i| self.nodes[i].record)
    }

    /// All nodes, in the order of the log.
    pub fn nodes(&self) -> impl Iterator<Item = &'a Record> {
        self.nodes.iter().map(|n| n.record)
    }

    /// The node that this one follows (bridged where the named one is missing).
    #[must_use]
    pub fn parent(&self, seq: Seq) -> Option<Seq> {
        let node = &self.nodes[self.index(seq)?];
        node.parent.map(|p| self.seq(p))
    }

    /// What follows this node, oldest first.
    pub fn children(&self, seq: Seq) -> impl Iterator<Item = Seq> {
        let children = self.index(seq).map_or(&[][..], |i| &self.nodes[i].children);
        children.iter().map(|c| self.seq(*c))
    }

    /// The nodes from the beginning to `tip`. A tip that is not there stands for the nearest earlier
    /// node; none is the empty beginning.
    #[must_use]
    pub fn path(&self, tip: Option<Seq>) -> Vec<&'a Record> {
        let mut at = tip.and_then(|seq| nearest(&self.nodes, seq));
        let mut path = Vec::new();
        while let Some(i) = at {
            path.push(self.nodes[i].record);
            at = self.nodes[i].parent;
        }
        path.reverse();
        path
    }

    /// The bridge above this node, if its parent is missing.
    #[must_use]
    pub fn bridge(&self, seq: Seq) -> Option<Bridge> {
        let node = &self.nodes[self.index(seq)?];
        let missing = node.missing?;
        Some(Bridge { child: seq, missing, to: node.parent.map(|p| self.seq(p)) })
    }

    /// All bridges, in the order of the log. Over a part of a log, what lies below that part counts as
    /// missing.
    pub fn bridges(&self) -> impl Iterator<Item = Bridge> {
        self.nodes().filter_map(|r| self.bridge(r.seq()))
    }

    /// The ends of all branches, oldest first.
    pub fn tips(&self) -> impl Iterator<Item = Seq> {
        self.nodes.iter().filter(|n| n.children.is_empty()).map(|n| n.record.seq())
    }

    /// Nodes that more than one node follows, oldest first.
    pub fn branch_points(&self) -> impl Iterator<Item = Seq> {
        self.nodes.iter().filter(|n| n.children.len() > 1).map(|n| n.record.seq())
    }

    /// The person's prompts on the current path, oldest first: where a fork can begin anew.
    #[must_use]
    pub fn fork_points(&self, tip: Option<Seq>) -> Vec<Seq> {
        self.path(tip).into_iter().filter(|r| is_prompt(r)).map(Record::seq).collect()
    }

    /// The tip of a fork that begins before the prompt `seq`; none is the empty beginning.
    ///
    /// # Errors
    /// When `seq` is unknown, no prompt, or not on the current path.
    pub fn fork_before(&self, tip: Option<Seq>, seq: Seq) -> Result<Option<Seq>, MoveError> {
        let record = self.node(seq).ok_or(MoveError::Unknown(seq))?;
        if !is_prompt(record) {
            return Err(MoveError::NotAPrompt(seq));
        }
        if !self.path(tip).iter().any(|r| r.seq() == seq) {
            return Err(MoveError::OtherBranch(seq));
        }
        Ok(self.parent(seq))
    }

    /// Where one goes on from when one goes back to `seq`: from that node, or, when it is a prompt, from
    /// the one before it, so that the prompt can be said differently. None is the empty beginning.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn back_to(&self, seq: Seq) -> Result<Option<&'a Record>, MoveError> {
        let record = self.node(seq).ok_or(MoveError::Unknown(seq))?;
        if !is_prompt(record) {
            return Ok(Some(record));
        }
        Ok(self.parent(seq).and_then(|parent| self.node(parent)))
    }

    /// Checks that `to` is the end of another branch.
    ///
    /// # Errors
    /// When it is unknown, current, or has something after it.
    pub fn check_switch(&self, tip: Option<Seq>, to: Seq) -> Result<(), MoveError> {
        let i = self.index(to).ok_or(MoveError::Unknown(to))?;
        if tip == Some(to) {
            return Err(MoveError::Current(to));
        }
        if !self.nodes[i].children.is_empty() {
            return Err(MoveError::Interior(to));
        }
        Ok(())
    }

    /// Labels in force, by record.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<Seq, &'a str> {
        &self.labels
    }

    /// The tree as a flat list for drawing; children in the order of the log.
    #[must_use]
    pub fn rows(&self, tip: Option<Seq>) -> Vec<Row<'_>> {
        let mut on_path = vec![false; self.nodes.len()];
        for record in self.path(tip) {
            if let Some(i) = self.index(record.seq()) {
                on_path[i] = true;
            }
        }
        let roots = (0..self.nodes.len()).filter(|i| self.nodes[*i].parent.is_none());
        let mut todo: Vec<(usize, usize)> = roots.map(|i| (i, 0)).collect();
        todo.reverse();
        let mut rows = Vec::with_capacity(self.nodes.len());
        while let Some((i, depth)) = todo.pop() {
            let node = &self.nodes[i];
            let seq = node.record.seq();
            rows.push(Row {
                seq,
                parent: node.parent.map(|p| self.seq(p)),
                depth,
                is_tip: node.children.is_empty(),
                on_path: on_path[i],
                label: self.labels.get(&seq).copied(),
            });
            let below = depth + usize::from(node.children.len() > 1);
            todo.extend(node.children.iter().rev().map(|c| (*c, below)));
        }
        rows
    }

    /// Counts what lies on the path to `tip`.
    #[must_use]
    pub fn stats(&self, tip: Option<Seq>) -> PathStats {
        let mut stats = PathStats::default();
        for record in self.path(tip) {
            let Body::Message(message) = record.body() else { continue };
            match &**message {
                Message::User(_) => stats.prompts += u64::from(is_prompt(record)),
                Message::Tool(_) => stats.results += 1,
                Message::Assistant(reply) => {
                    stats.replies += 1;
                    if let Some(usage) = &reply.usage {
                        stats.usage.add(usage);
                    }
                }
            }
        }
        stats
    }
}

/// Whether a record is something that the person said (and not a notice that Segno wrote).
#[must_use]
pub fn is_prompt(record: &Record) -> bool {
    matches!(record.body(), Body::Message(m) if matches!(&**m, Message::User(u) if u.notice.is_none()))
}

/// The node's parent by index, and the named one when it is missing.
fn parent_of(nodes: &[Node<'_>], record: &Record) -> (Option<usize>, Option<Seq>) {
    let Some(named) = record.envelope.parent else { return (None, None) };
    let Some(last) = record.seq().checked_sub(1) else { return (None, Some(named)) };
    let found = nearest(nodes, named.min(last));
    match found {
        Some(i) if nodes[i].record.seq() == named => (Some(i), None),
        _ => (found, Some(named)),
    }
}

/// The node of this number or the nearest one before it.
fn nearest(nodes: &[Node<'_>], seq: Seq) -> Option<usize> {
    nodes.partition_point(|n| n.record.seq() <= seq).checked_sub(1)
}

fn labels<R: Borrow<Record>>(records: &[R]) -> BTreeMap<Seq, &str> {
    let mut labels = BTreeMap::new();
    for record in records {
        let given: Vec<(Seq, &str)> = match record.borrow().body() {
            Body::Label(l) => vec![(l.target.seq, l.label.as_str())],
            Body::Checkpoint(c) => {
                labels.clear();
                c.labels.values().map(|l| (l.target.seq, l.label.as_str())).collect()
            }
            _ => continue,
        };
        for (seq, label) in given {
            if label.is_empty() {
                labels.remove(&seq);
            } else {
                labels.insert(seq, label);
            }
        }
    }
    labels
}
