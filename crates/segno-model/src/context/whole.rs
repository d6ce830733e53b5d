//! Whole paths of a log, one after the other, as if nothing had ever been summarised.
//!
//! Responsible for: the messages of each, at the cost of what is on it: what all paths share is looked at once,
//! so that many branches take no longer than their own records. Must not: decide anything that a single
//! context decides otherwise.

use super::place::{self, Place};
use super::results::{Results, result_of, turns_above};
use super::shape::{self, Edits};
use super::{ContextMessage, Parts};
use crate::id::Seq;
use crate::line::Record;
use crate::record::ToolMessage;
use crate::tree::Tree;
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A log whose paths are asked for.
pub struct Whole<'a> {
    tree: Tree<'a>,
    edits: Rc<Edits<'a>>,
    /// The reply on which each result hangs.
    above: HashMap<Seq, Seq>,
    /// The results that may be a reply's, by reply.
    answers: HashMap<Seq, Vec<Answer<'a>>>,
}

type Answer<'a> = (&'a Record, &'a ToolMessage);

impl<'a> Whole<'a> {
    /// Looks at all records, in the order of the log.
    #[must_use]
    pub fn new<R: Borrow<Record>>(records: &'a [R]) -> Self {
        let tree = Tree::new(records);
        let all: Vec<&Record> = records.iter().map(Borrow::borrow).collect();
        let edits = Rc::new(Edits::in_force(&all));
        let above = turns_above(&tree);
        let mut answers: HashMap<Seq, Vec<Answer<'a>>> = HashMap::new();
        for record in tree.nodes() {
            let Some(result) = result_of(record) else { continue };
            let reply = result.call_seq.or_else(|| above.get(&record.seq()).copied());
            if let Some(reply) = reply {
                answers.entry(reply).or_default().push((record, result));
            }
        }
        Self { tree, edits, above, answers }
    }

    /// The tree of these records.
    #[must_use]
    pub fn tree(&self) -> &Tree<'a> {
        &self.tree
    }

    /// What would be sent of a path, or of the end of one, with the results of its calls, wherever those were
    /// recorded. Each compaction on it is a message in its place.
    #[must_use]
    pub fn messages(&self, path: &[&'a Record]) -> Vec<ContextMessage> {
        let mut found: BTreeMap<Seq, Answer<'a>> = BTreeMap::new();
        for record in path.iter().copied() {
            let own = result_of(record).map(|result| (record, result));
            let answers = self.answers.get(&record.seq()).into_iter().flatten().copied();
            found.extend(own.into_iter().chain(answers).map(|answer| (answer.0.seq(), answer)));
        }
        let places = place::all_of(path);
        let nodes: Vec<_> = places
            .selected
            .iter()
            .filter(|(_, record)| result_of(record).is_none())
            .map(|(_, record)| (Place::OnPath, *record, shape::shape(record, &self.edits)))
            .collect();
        let results = Results::among(found.into_values().collect(), &self.above, &places, &nodes);
        let edits = Rc::clone(&self.edits);
        Parts { records: Vec::new(), edits, places, nodes, results }.context().messages
    }

    /// What the summary in `boundary` keeps: records that go on to be sent with it, in the order in which they are
    /// sent.
    #[must_use]
    pub fn kept(&self, boundary: &Record) -> Vec<&'a Record> {
        place::kept(&self.tree, boundary)
    }
}
