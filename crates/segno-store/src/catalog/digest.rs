//! What a list and the statistics need to know about a session of another agent.
//!
//! Responsible for: folding the stream of a session into one row, in memory that does not grow with what
//! was said, and which fields of it are kept. Must not: use file times; a session is as new as its newest message.

use super::packed::{Packed, Pass, choice};
use super::spent::Ledger;
use crate::foreign::{Agent, Facts, ForeignRecord, Item, Located, Sink};
use segno_model::checkpoint::Totals;
use segno_model::finding::Severity;
use segno_model::record::{
    AssistantMessage, Block, Message, ModelRef, ProjectFacts, StopReason, Usage, UserMessage,
};
use segno_model::{Body, Seq, Timestamp};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// How much of a prompt is kept for lists.
const PROMPT: usize = 300;

/// A session of another agent in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignRow {
    /// Whose it is.
    pub agent: Agent,
    /// The file, folder or database.
    pub path: PathBuf,
    /// Which session, where a file holds several.
    pub key: Option<String>,
    /// Its id, as its agent takes it; the file's name where it has none.
    pub id: String,
    /// Its project; shared with other rows of it.
    pub project: Arc<ProjectFacts>,
    /// The git branch.
    pub branch: Option<String>,
    /// The format's version.
    pub format: Option<String>,
    /// The agent's version.
    pub version: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When its newest message was written.
    pub last_message_at: Option<Timestamp>,
    /// How long the file is; 0 in a database.
    pub bytes: u64,
    /// Counts and tokens.
    pub totals: Totals,
    /// A name that a person gave.
    pub name: Option<String>,
    /// A title that the agent made up.
    pub title: Option<String>,
    /// The beginning of its first prompt.
    pub first_prompt: Option<String>,
    /// The model of the newest reply.
    pub model: Option<Arc<ModelRef>>,
    /// The session to which this subagent's session belongs.
    pub parent: Option<String>,
    /// A subagent's role.
    pub role: Option<String>,
    /// The session from which it was forked, where the file says so.
    pub fork_of: Option<String>,
    /// The agent's own id of the first record, which forks that do not name their origin share with it.
    pub first_id: Option<String>,
    /// The agent's own id of the last record.
    pub last_id: Option<String>,
    /// The record of another file behind which this one's first record stands.
    pub follows: Option<String>,
    /// The session that goes on where this one ends.
    pub continued_in: Option<String>,
    /// Whether the agent moved it out of its list.
    pub archived: bool,
    /// How it ended, as far as the file tells.
    pub ending: Ending,
    /// Prompts that wait for delivery.
    pub pending: u32,
    /// How many findings of each severity.
    pub notes: u32,
    /// See `notes`.
    pub warnings: u32,
    /// See `notes`.
    pub damage: u32,
    /// The first damage, or why it cannot be read at all.
    pub problem: Option<String>,
    /// Whether it could be read.
    pub readable: bool,
}

/// How a session ended, as far as its file tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ending {
    /// Nothing was said.
    #[default]
    Empty,
    /// The model had the last word.
    Answered,
    /// The person stopped it.
    Stopped,
    /// Something was asked or called and nothing followed.
    Interrupted,
}

impl ForeignRow {
    /// The row of a session of which nothing but its place is known yet.
    #[must_use]
    pub fn unread(located: &Located) -> Self {
        let stem = located.path.file_stem().unwrap_or(located.path.as_os_str());
        let id = located.id.clone().or_else(|| located.key.clone());
        Self {
            id: id.unwrap_or_else(|| stem.to_string_lossy().into_owned()),
            bytes: if located.key.is_none() { located.stamp.bytes } else { 0 },
            parent: located.parent.clone(),
            archived: located.archived,
            ..Self::blank(located.agent, located.path.clone(), located.key.clone())
        }
    }

    /// The same without anything that its place tells.
    pub(super) fn blank(agent: Agent, path: PathBuf, key: Option<String>) -> Self {
        Self {
            agent,
            path,
            key,
            id: String::new(),
            project: Arc::default(),
            branch: None,
            format: None,
            version: None,
            created: None,
            last_message_at: None,
            bytes: 0,
            totals: Totals::default(),
            name: None,
            title: None,
            first_prompt: None,
            model: None,
            parent: None,
            role: None,
            fork_of: None,
            first_id: None,
            last_id: None,
            follows: None,
            continued_in: None,
            archived: false,
            ending: Ending::Empty,
            pending: 0,
            notes: 0,
            warnings: 0,
            damage: 0,
            problem: None,
            readable: true,
        }
    }

    /// When something happened in it last; none when it does not say.
    #[must_use]
    pub fn last_active(&self) -> Option<Timestamp> {
        self.last_message_at.or(self.created)
    }
}

/// All but the agent, the path and the key, by which the row is kept.
impl Packed for ForeignRow {
    fn pass(&mut self, pass: &mut impl Pass) {
        let Self {
            agent: _,
            path: _,
            key: _,
            id,
            project,
            branch,
            format,
            version,
            created,
            last_message_at,
            bytes,
            totals,
            name,
            title,
            first_prompt,
            model,
            parent,
            role,
            fork_of,
            first_id,
            last_id,
            follows,
            continued_in,
            archived,
            ending,
            pending,
            notes,
            warnings,
            damage,
            problem,
            readable,
        } = self;
        id.pass(pass);
        project.pass(pass);
        let told = [branch, format, version, name, title, first_prompt, problem];
        let related = [parent, role, fork_of, first_id, last_id, follows, continued_in];
        for text in told.into_iter().chain(related) {
            text.pass(pass);
        }
        for time in [created, last_message_at] {
            time.pass(pass);
        }
        bytes.pass(pass);
        totals.pass(pass);
        model.pass(pass);
        for flag in [archived, readable] {
            flag.pass(pass);
        }
        let endings = [Ending::Empty, Ending::Answered, Ending::Stopped, Ending::Interrupted];
        choice(ending, &endings, pass);
        for count in [pending, notes, warnings, damage] {
            count.pass(pass);
        }
    }
}

/// Folds a session into its row.
#[derive(Debug)]
pub(super) struct Digest {
    row: ForeignRow,
    facts: Facts,
    spent: Ledger,
    /// Calls of the newest reply that have no result yet, by the reply's number.
    open: HashSet<(Seq, String)>,
    /// A prompt that is only a command, for want of a better one.
    fallback: Option<String>,
}

impl Digest {
    pub(super) fn new(located: &Located) -> Self {
        Self {
            row: ForeignRow::unread(located),
            facts: Facts::default(),
            spent: Ledger::default(),
            open: HashSet::new(),
            fallback: None,
        }
    }

    /// The row, and what was spent. `failed` says why the session could not be read to its end.
    pub(super) fn finish(mut self, failed: Option<String>) -> (ForeignRow, Ledger) {
        let (mut row, facts) = (self.row, self.facts);
        row.id = facts.id.unwrap_or(row.id);
        let cwd = facts.cwd.unwrap_or_default();
        row.project = Arc::new(ProjectFacts { cwd, ..ProjectFacts::default() });
        (row.branch, row.format, row.version) = (facts.branch, facts.format, facts.version);
        row.created = facts.created.or(row.created);
        (row.name, row.title) = (facts.named, facts.titled);
        row.first_prompt = row.first_prompt.or(self.fallback.take()).or(facts.command);
        row.parent = facts.parent.or(row.parent);
        row.role = facts.role;
        row.fork_of = facts.fork_of.map(|(id, _)| id);
        (row.first_id, row.follows, row.continued_in) =
            (facts.first_id, facts.follows, facts.continued_in);
        row.archived |= facts.archived;
        row.pending = u32::try_from(facts.pending.len()).unwrap_or(u32::MAX);
        if row.first_prompt.is_none() {
            row.first_prompt = facts.pending.first().map(|prompt| beginning(prompt));
        }
        if row.ending == Ending::Answered && !self.open.is_empty() {
            row.ending = Ending::Interrupted;
        }
        if let Some(why) = failed {
            row.readable = false;
            row.problem = Some(why);
        }
        (row, self.spent)
    }

    fn record(&mut self, read: &ForeignRecord) {
        if read.subagent.is_some() {
            return;
        }
        if let Some(id) = read.origin.id.as_ref().filter(|_| read.record.is_node()) {
            self.row.last_id = Some(id.clone());
        }
        let at = read.dated.then_some(read.record.envelope.at);
        self.row.created = self.row.created.or(at);
        if let Body::Message(message) = read.record.body() {
            self.row.last_message_at = match (self.row.last_message_at, at) {
                // The last one as it stands in the file: a clock may have been ahead for a while.
                (_, Some(at)) if !read.copy => Some(at),
                (known, at) => known.max(at),
            };
            self.message(message, read);
        }
        match read.record.body() {
            Body::Usage(usage) => self.spend(read, &usage.model, usage.usage),
            Body::Compaction(compaction) if !read.copy => {
                self.row.totals.compactions += 1;
                if let (Some(model), Some(usage)) = (&compaction.model, compaction.usage) {
                    self.spend(read, model, usage);
                }
            }
            _ => {}
        }
    }

    fn message(&mut self, message: &Message, read: &ForeignRecord) {
        let count = u64::from(!read.copy);
        match message {
            Message::User(user) => match user.notice.as_deref() {
                None => {
                    self.row.totals.user_messages += count;
                    self.prompt(user);
                    self.row.ending = Ending::Interrupted;
                }
                Some("interrupted") => self.row.ending = Ending::Stopped,
                Some(_) => {}
            },
            Message::Assistant(reply) => {
                self.row.totals.assistant_messages += count;
                self.reply(reply, read);
            }
            Message::Tool(result) => {
                self.row.totals.tool_results += count;
                if let Some(call) = result.call_seq {
                    self.open.remove(&(call, result.call_id.clone()));
                }
                // Nobody has answered it yet.
                if self.row.ending != Ending::Stopped {
                    self.row.ending = Ending::Interrupted;
                }
            }
        }
    }

    fn reply(&mut self, reply: &AssistantMessage, read: &ForeignRecord) {
        self.open.clear();
        let seq = read.record.seq();
        self.open.extend(reply.calls().map(|call| (seq, call.id.clone())));
        self.row.ending = match reply.stop {
            StopReason::Stopped => Ending::Stopped,
            StopReason::Broken => Ending::Interrupted,
            _ => Ending::Answered,
        };
        if !reply.model.id.is_empty() && self.row.model.as_deref() != Some(&reply.model) {
            self.row.model = Some(Arc::new(reply.model.clone()));
        }
        if let Some(usage) = reply.usage {
            self.spend(read, &reply.model, usage);
        }
    }

    fn spend(&mut self, read: &ForeignRecord, model: &ModelRef, usage: Usage) {
        if !read.copy {
            self.row.totals.usage.add(&usage);
        }
        if usage != Usage::default() {
            self.spent.add(read.response.as_deref(), read.record.envelope.at, model, usage);
        }
    }

    fn prompt(&mut self, user: &UserMessage) {
        if self.row.first_prompt.is_some() {
            return;
        }
        let text = user.content.iter().find_map(|block| match block {
            Block::Text { text } if !text.head().trim().is_empty() => Some(text.head()),
            _ => None,
        });
        let Some(text) = text else { return };
        if is_title(text) {
            self.row.first_prompt = Some(beginning(text));
        } else if self.fallback.is_none() && !text.trim_start().starts_with('<') {
            self.fallback = Some(beginning(text));
        }
    }
}

impl Sink for Digest {
    fn take(&mut self, item: Item) -> ControlFlow<()> {
        match item {
            Item::Record(read) => self.record(&read),
            Item::Fact(fact) => self.facts.take(fact),
            Item::Finding(finding) => {
                let count = match finding.severity {
                    Severity::Note => &mut self.row.notes,
                    Severity::Warning => &mut self.row.warnings,
                    Severity::Damage => &mut self.row.damage,
                };
                *count = count.saturating_add(1);
                if finding.severity == Severity::Damage && self.row.problem.is_none() {
                    self.row.problem = Some(finding.sentence);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether a prompt says what the session is about: no command, and nothing that a program put there.
fn is_title(text: &str) -> bool {
    let text = text.trim_start();
    let command = text.strip_prefix('/').is_some_and(|rest| {
        let word = rest.split(char::is_whitespace).next().unwrap_or("");
        !word.is_empty() && !word.contains('/')
    });
    !command && !text.starts_with('<')
}

fn beginning(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(PROMPT) {
        Some((cut, _)) => text[..cut].to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: #72.
    #[test]
    fn commands_and_markup_are_no_titles() {
        let cases = [
            ("fix the uploader", true),
            ("/model fast", false),
            ("/etc/hosts is wrong", true),
            ("  <system-reminder>x</system-reminder>", false),
            ("<b> is not closed", false),
            ("/ alone", true),
        ];
        for (text, expected) in cases {
            assert_eq!(is_title(text), expected, "{text}");
        }
    }
}
