//! Where each record stands relative to the next request: on the path, kept, summarised, elsewhere.
//!
//! Responsible for: the path, the newest finished compaction on it and what that keeps. Must not: look
//! into messages.

use crate::finding::{Finding, Severity};
use crate::id::{Pos, Seq};
use crate::line::Record;
use crate::record::{Body, Compaction};
use crate::tree::Tree;
use std::collections::{HashMap, HashSet};

/// A record's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Not a node.
    Metadata,
    /// A node of another branch.
    OffPath,
    /// On the path, but told by the summary.
    Summarised,
    /// An older compaction among what is kept.
    OlderSummary,
    /// The newest compaction.
    Boundary,
    /// Kept singly from before the boundary.
    Kept,
    /// On the path and sent.
    OnPath,
}

/// The places of all nodes, and those that are sent in their order.
pub(super) struct Places<'a> {
    by_seq: HashMap<Seq, Place>,
    /// The boundary first, then what is kept, then the path.
    pub(super) selected: Vec<(Place, &'a Record)>,
    pub(super) findings: Vec<Finding>,
}

impl Places<'_> {
    pub(super) fn of(&self, record: &Record) -> Place {
        let elsewhere = if record.is_node() { Place::OffPath } else { Place::Metadata };
        self.at(record.seq()).unwrap_or(elsewhere)
    }

    /// The place of a node on the path, or kept from it.
    pub(super) fn at(&self, seq: Seq) -> Option<Place> {
        self.by_seq.get(&seq).copied()
    }
}

pub(super) fn places<'a>(tree: &Tree<'a>, records: &[&Record], tip: Option<Pos>) -> Places<'a> {
    let path = tree.path(tip.map(|t| t.seq));
    let boundary = path.iter().rposition(|r| as_boundary(r).is_some());
    let mut places = Places { by_seq: HashMap::new(), selected: Vec::new(), findings: Vec::new() };
    let mut kept = Vec::new();
    let mut from = 0;
    if let Some((b, compaction)) = boundary.and_then(|b| Some((b, as_boundary(path[b])?))) {
        places.selected.push((Place::Boundary, path[b]));
        from = path[..b].partition_point(|r| compaction.first_kept.is_none_or(|f| r.seq() < f.seq));
        kept = kept_singly(tree, compaction, path.get(from).map_or(Seq::MAX, |r| r.seq()));
        places.report_missing(records, path[b], compaction);
    }
    places.by_seq.extend(path[..from].iter().map(|r| (r.seq(), Place::Summarised)));
    places.selected.extend(kept.into_iter().map(|r| (Place::Kept, r)));
    for (i, record) in path.iter().enumerate().skip(from) {
        let older = Some(i) < boundary && as_boundary(record).is_some();
        if Some(i) != boundary {
            let place = if older { Place::OlderSummary } else { Place::OnPath };
            places.selected.push((place, record));
        }
        let first_with_more_below = i == from && boundary.is_some();
        if let Some(bridge) = tree.bridge(record.seq()).filter(|_| !first_with_more_below) {
            places.findings.push(bridge.finding());
        }
    }
    if let Some(asked) = tip.filter(|t| tree.node(t.seq).is_none()) {
        places.findings.push(missing_tip(asked.seq, path.last().map(|r| r.seq())));
    }
    places.by_seq.extend(places.selected.iter().map(|(place, r)| (r.seq(), *place)));
    places
}

/// A path of which nothing is told by a summary.
pub(super) fn all_of<'a>(path: &[&'a Record]) -> Places<'a> {
    let by_seq = path.iter().map(|record| (record.seq(), Place::OnPath)).collect();
    let selected = path.iter().map(|record| (Place::OnPath, *record)).collect();
    Places { by_seq, selected, findings: Vec::new() }
}

/// What a compaction keeps, as [`places`] has it where it is the newest one: what is kept singly, then the end of
/// the path before it, without older summaries.
pub(super) fn kept<'a>(tree: &Tree<'a>, boundary: &Record) -> Vec<&'a Record> {
    let Some(compaction) = as_boundary(boundary) else { return Vec::new() };
    let mut end = Vec::new();
    let mut at = tree.parent(boundary.seq());
    while let Some(record) = at.filter(|seq| compaction.first_kept.is_some_and(|f| *seq >= f.seq)) {
        end.extend(tree.node(record));
        at = tree.parent(record);
    }
    let before = end.last().map_or(boundary.seq(), |first| first.seq());
    let mut kept = kept_singly(tree, compaction, before);
    kept.extend(end.into_iter().rev().filter(|record| as_boundary(record).is_none()));
    kept
}

fn as_boundary(record: &Record) -> Option<&Compaction> {
    match record.body() {
        Body::Compaction(compaction) if record.is_node() => Some(compaction),
        _ => None,
    }
}

/// The singly kept records that are there, each once, in the order in which they are named.
fn kept_singly<'a>(tree: &Tree<'a>, compaction: &Compaction, before: Seq) -> Vec<&'a Record> {
    let mut seen = HashSet::new();
    let named = compaction.kept.iter().filter(|pos| pos.seq < before && seen.insert(pos.seq));
    named.filter_map(|pos| tree.node(pos.seq)).filter(|r| as_boundary(r).is_none()).collect()
}

impl Places<'_> {
    fn report_missing(&mut self, records: &[&Record], boundary: &Record, compaction: &Compaction) {
        let is_there = |seq: Seq| records.binary_search_by_key(&seq, |r| r.seq()).is_ok();
        let named = compaction.kept.iter().chain(&compaction.first_kept);
        for pos in named.filter(|pos| !is_there(pos.seq)) {
            self.findings.push(Finding {
                code: "missing-kept-record",
                severity: Severity::Damage,
                file: None,
                line: None,
                offset: None,
                seq: Some(boundary.seq()),
                sentence: format!("the compaction keeps record {}, which is missing", pos.seq),
                done: "what is there from that place on is kept".to_owned(),
            });
        }
    }
}

fn missing_tip(asked: Seq, found: Option<Seq>) -> Finding {
    let done = match found {
        Some(seq) => format!("record {seq}, the nearest earlier node, stands for it"),
        None => "the session begins empty".to_owned(),
    };
    Finding {
        code: "missing-tip",
        severity: Severity::Damage,
        file: None,
        line: None,
        offset: None,
        seq: Some(asked),
        sentence: format!("the current position is record {asked}, which is missing"),
        done,
    }
}
