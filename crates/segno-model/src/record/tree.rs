//! Records that shape or annotate the tree without being said by anyone.
//!
//! Responsible for: their stored shape. Must not: contain the rules for what they do to the context.

use crate::id::{Pos, Seq};
use crate::record::{Block, ModelRef, Text};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// `branch_summary`: what happened on a branch that was left; a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BranchSummary {
    /// The summary.
    pub summary: Text,
    /// The tip of the branch that it is about.
    pub from: Pos,
}

/// `tip`: the current position, from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tip {
    /// The node that is current now; none is the empty beginning.
    pub tip: Option<Pos>,
}

/// `label`: a name for a record. An empty one removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The labelled record.
    pub target: Pos,
    /// The label.
    pub label: String,
}

/// `name`: the session's name. An empty one removes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// The name.
    pub name: String,
}

/// `model`: the model in force from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChange {
    /// The model.
    pub model: ModelRef,
    /// Whether a person chose it (and not a default).
    #[serde(default)]
    pub chosen: bool,
    /// The address that is asked, when it is not the provider's own. Never with credentials in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
}

/// `thinking`: the thinking level in force from here on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinkingChange {
    /// `off`, `low`, `medium`, `high` or a provider's own word.
    pub level: String,
}

/// `policy`: what becomes of interrupted work from here on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// For this session.
    pub policy: Policy,
}

/// What becomes of work that a crash or a shutdown interrupted. A stop is final, whatever it says (G9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// A person is asked.
    Ask,
    /// It is taken up.
    Auto,
    /// It is not taken up.
    Never,
}

impl Policy {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::Never => "never",
        }
    }

    /// The policy of a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Ask, Self::Auto, Self::Never].into_iter().find(|policy| policy.word() == word)
    }
}

/// `context_edit`: changes what one record contributes to the context; a later edit of the same
/// record replaces it, so that it is reversible.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ContextEdit {
    /// The record.
    pub target: Seq,
    /// `omit`, `replace` or `restore`.
    pub edit: String,
    /// What stands in its place with `replace`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Block>,
    /// With `omit`: only these parts of it; none named means the whole record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<EditPart>,
    /// Why Segno edited by itself: `refused` (a provider did not take it) or `pruned` (it took room). None
    /// when a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl ContextEdit {
    /// The cause of an edit that leaves out what a provider refused.
    pub const REFUSED: &str = "refused";
    /// The cause of an edit that leaves out an old output because it took room.
    pub const PRUNED: &str = "pruned";

    /// Whether it leaves out an old output because that took room.
    #[must_use]
    pub fn is_pruning(&self) -> bool {
        self.cause.as_deref() == Some(Self::PRUNED)
    }
}

/// A part of a record that can be left out by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditPart {
    /// A reply's reasoning, and the provider's own items with it; words and calls stay.
    Thinking,
    /// Images; a line stands where each was.
    Images,
    /// A part that this version does not know; nothing is left out for it.
    #[serde(other)]
    Unknown,
}

/// `custom`: an embedder's own data.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Custom {
    /// Whose it is and what, e.g. `acme.review`.
    pub name: String,
    /// The data.
    pub data: Box<RawValue>,
    /// When set, this text stands in the context as a user-side message, and the record is a node: it
    /// has a place on the path like a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}
