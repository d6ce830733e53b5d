//! Trees of entries that name their parents.
//!
//! Responsible for: on which of our nodes an entry stands, or hangs if it is none itself; entries whose
//! parent is not there follow the entry before them, which is told. Must not: know any agent.

use super::emitter::Emitter;
use super::item::Origin;
use segno_model::Seq;
use segno_model::finding::Severity;
use serde::{Deserialize, Deserializer};
use std::collections::HashMap;

/// A parent as an entry gives it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Parent {
    /// The entry says nothing.
    #[default]
    Absent,
    /// It is null: the entry begins a tree.
    Root,
    /// The parent's id.
    Id(String),
}

/// For `#[serde(default, deserialize_with = …)]`: an absent parent is not a null one.
impl Parent {
    pub(super) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map_or(Self::Root, Self::Id))
    }
}

/// The entries read so far.
#[derive(Debug, Default)]
pub(super) struct Entries {
    nodes: HashMap<Box<str>, Option<Seq>>,
}

impl Entries {
    /// Notes on which node an entry stands or hangs; the last word counts.
    pub(super) fn insert(&mut self, id: &str, node: Option<Seq>) {
        self.nodes.insert(id.into(), node);
    }

    /// The node of an entry; none if there is no such entry.
    pub(super) fn node(&self, id: &str) -> Option<Option<Seq>> {
        self.nodes.get(id).copied()
    }

    /// The node on which an entry hangs whose parent is `parent`. `last` is the node before it in the file.
    pub(super) fn hang(
        &self,
        parent: &Parent,
        last: Option<Seq>,
        at: &Origin,
        out: &mut Emitter<'_>,
    ) -> Option<Seq> {
        match parent {
            Parent::Absent => last,
            Parent::Root => None,
            Parent::Id(id) => self.node(id).unwrap_or_else(|| {
                let sentence = "The entry hangs on one that is not before it in the file.";
                let done = "It follows the entry before it.";
                out.found("missing-parent", Severity::Warning, at, sentence, done);
                last
            }),
        }
    }
}
