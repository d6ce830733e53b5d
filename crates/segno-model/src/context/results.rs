//! The recorded results and the calls of the context that they belong to.
//!
//! Responsible for: feeding [`crate::pairing`] with what the tree knows. Must not: decide anything that
//! the pairing table decides.

use super::place::{Place, Places};
use super::shape::{Said, Shaped};
use crate::id::Seq;
use crate::line::Record;
use crate::pairing::{self, Pairs, Reported, Turn, Verdict};
use crate::record::{AssistantBlock, Body, Established, Message, Outcome, ToolMessage};
use crate::tree::Tree;
use std::collections::HashMap;

pub(super) fn result_of(record: &Record) -> Option<&ToolMessage> {
    match record.body() {
        Body::Message(message) => match &**message {
            Message::Tool(result) => Some(result),
            _ => None,
        },
        _ => None,
    }
}

pub(super) struct Results<'a> {
    /// Ascending.
    found: Vec<(&'a Record, &'a ToolMessage)>,
    turn_of: HashMap<Seq, usize>,
    above: HashMap<Seq, Seq>,
    pairs: Pairs,
}

impl<'a> Results<'a> {
    pub(super) fn pair(
        tree: &Tree<'a>,
        places: &Places<'_>,
        nodes: &[(Place, &Record, Shaped<'_>)],
    ) -> Self {
        let above = turns_above(tree);
        let found = tree.nodes().filter_map(|record| Some((record, result_of(record)?)));
        let paired = Self::among(found.collect(), &above, places, nodes);
        Self { above, ..paired }
    }

    /// Pairs only these results, ascending.
    pub(super) fn among(
        found: Vec<(&'a Record, &'a ToolMessage)>,
        above: &HashMap<Seq, Seq>,
        places: &Places<'_>,
        nodes: &[(Place, &Record, Shaped<'_>)],
    ) -> Self {
        let turns = turns(nodes);
        let replies: Vec<Seq> = turns.iter().map(|t| t.seq).collect();
        let mut reported = Vec::new();
        for (record, result) in &found {
            let seq = record.seq();
            // On the path the nearest call of that id is meant. Elsewhere it is the turn that the result
            // hangs on, or none of ours: the calls around it are not all there.
            let hangs_on = match places.of(record) {
                Place::OnPath => None,
                _ => Some(above.get(&seq).copied().unwrap_or(seq)),
            };
            reported.push(Reported {
                seq,
                call_seq: result.call_seq.or(hangs_on),
                id: &result.call_id,
                name: &result.name,
                real: is_real(result),
            });
        }
        let pairs = pairing::pair(&turns, &reported, &replies);
        let turn_of = turns.iter().enumerate().map(|(i, t)| (t.seq, i)).collect();
        Self { found, turn_of, above: HashMap::new(), pairs }
    }

    /// The result of a turn's call.
    pub(super) fn of_call(&self, turn: Seq, index: usize) -> Option<(&'a Record, &'a ToolMessage)> {
        let answers = self.pairs.answers.get(*self.turn_of.get(&turn)?)?;
        answers.get(index).copied().flatten().map(|i| self.found[i])
    }

    /// Whether the result `seq` belongs to a turn that is sent, or hangs on one.
    pub(super) fn concerns_turn(&self, seq: Seq) -> bool {
        let paired =
            self.verdict(seq).is_some_and(|v| !matches!(v, Verdict::NoCall | Verdict::Outside));
        paired || self.above.get(&seq).is_some_and(|turn| self.turn_of.contains_key(turn))
    }

    /// What became of the result `seq`; none for other records.
    pub(super) fn verdict(&self, seq: Seq) -> Option<Verdict> {
        let i = self.found.binary_search_by_key(&seq, |(record, _)| record.seq()).ok()?;
        self.pairs.verdicts.get(i).copied()
    }
}

/// The turns that are sent, in the order of the log.
fn turns<'n>(nodes: &'n [(Place, &Record, Shaped<'_>)]) -> Vec<Turn<'n>> {
    let mut turns: Vec<Turn<'n>> = Vec::new();
    for (_, record, shaped) in nodes {
        let Said::Assistant { blocks, .. } = &shaped.said else { continue };
        let calls = blocks.iter().filter_map(|block| match block {
            AssistantBlock::ToolCall(call) => Some((call.id.as_str(), call.name.as_str())),
            _ => None,
        });
        turns.push(Turn { seq: record.seq(), calls: calls.collect() });
    }
    turns.sort_by_key(|turn| turn.seq);
    turns
}

/// For each result, the reply that it hangs on with nothing but results in between. Where a record is
/// missing in between, it hangs on none: that would be guessing.
pub(super) fn turns_above(tree: &Tree<'_>) -> HashMap<Seq, Seq> {
    let mut above = HashMap::new();
    for record in tree.nodes().filter(|r| result_of(r).is_some()) {
        let whole = tree.bridge(record.seq()).is_none();
        let Some(parent) = tree.parent(record.seq()).filter(|_| whole) else { continue };
        let turn = match tree.node(parent) {
            Some(node) if result_of(node).is_some() => above.get(&parent).copied(),
            Some(_) => Some(parent),
            None => None,
        };
        if let Some(turn) = turn {
            above.insert(record.seq(), turn);
        }
    }
    above
}

/// Whether somebody knew more about the outcome than that it is unknown.
fn is_real(result: &ToolMessage) -> bool {
    let silent = matches!(result.outcome, Outcome::Unknown | Outcome::NotRecorded);
    !(silent && result.established == Established::Recovery)
}
