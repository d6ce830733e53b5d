//! The facts of a session, put together.
//!
//! Responsible for: the last word of each kind of fact. Must not: guess what nobody said.

use super::item::Fact;
use segno_model::{Seq, Timestamp};

/// What is known about a session as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The id, as its agent takes it.
    pub id: Option<String>,
    /// The format's version.
    pub format: Option<String>,
    /// The agent's version.
    pub version: Option<String>,
    /// The working directory (the last one named).
    pub cwd: Option<String>,
    /// The git branch.
    pub branch: Option<String>,
    /// The git commit.
    pub commit: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// A title that a person gave.
    pub named: Option<String>,
    /// A title that the agent made up.
    pub titled: Option<String>,
    /// The agent's own id of the first record.
    pub first_id: Option<String>,
    /// The record of another file behind which the first one stands.
    pub follows: Option<String>,
    /// The session that goes on where this one ends.
    pub continued_in: Option<String>,
    /// A command that a person gave, for want of a better title.
    pub command: Option<String>,
    /// The session that it was forked from, and up to where.
    pub fork_of: Option<(String, Option<String>)>,
    /// The parent session.
    pub parent: Option<String>,
    /// The call in the parent.
    pub call: Option<String>,
    /// The subagent's role.
    pub role: Option<String>,
    /// Whether the agent moved it out of its list.
    pub archived: bool,
    /// Prompts that wait.
    pub pending: Vec<String>,
    /// Where the next turn will hang, if a fact said so and no node came after it.
    pub tip: Option<Option<Seq>>,
}

impl Facts {
    /// Takes one more.
    pub fn take(&mut self, fact: Fact) {
        match fact {
            Fact::Id(id) => self.id = Some(id),
            Fact::Format(format) => self.format = Some(format),
            Fact::Version(version) => self.version = Some(version),
            Fact::Cwd(cwd) => self.cwd = Some(cwd),
            Fact::Branch(branch) => self.branch = Some(branch),
            Fact::Commit(commit) => self.commit = Some(commit),
            Fact::Created(at) => self.created = Some(at),
            Fact::Named(name) => self.named = Some(name).filter(|name| !name.is_empty()),
            Fact::Titled(title) => self.titled = Some(title).filter(|title| !title.is_empty()),
            Fact::FirstId(id) => self.first_id = Some(id),
            Fact::Follows(id) => self.follows = Some(id),
            Fact::ContinuedIn(id) => self.continued_in = Some(id),
            Fact::Command(command) => self.command = Some(command),
            Fact::ForkOf { id, up_to } => self.fork_of = Some((id, up_to)),
            Fact::ChildOf { parent, call, role } => {
                self.parent = Some(parent);
                self.call = call.or(self.call.take());
                self.role = role.or(self.role.take());
            }
            Fact::Tip(tip) => self.tip = Some(tip),
            Fact::Archived => self.archived = true,
            Fact::Pending(prompts) => self.pending = prompts,
        }
    }

    /// A node was read: a tip that was named before it no longer counts.
    pub(super) fn node(&mut self) {
        self.tip = None;
    }
}
