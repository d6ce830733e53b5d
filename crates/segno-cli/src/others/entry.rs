//! One session of another agent.
//!
//! Responsible for: the one word for where it stands, and what a list shows of it. Must not: print.

use segno_model::Timestamp;
use segno_model::record::ProjectFacts;
use segno_store::catalog::{Catalog, Ending, ForeignRow};
use segno_store::foreign::{self, Located, Running, Stamp};
use segno_store::kept::Kept;
use serde::Serialize;
use std::path::PathBuf;

/// A session of another agent.
#[derive(Debug, Clone)]
pub struct Other {
    /// What its file says.
    pub row: ForeignRow,
    /// Where it stands.
    pub state: OtherState,
    /// The process that has it, if one does.
    pub pid: Option<u32>,
    /// Whether another session in the list goes on where this one ends.
    pub continued: bool,
    /// Whether copies of it are kept.
    pub kept: Option<KeptMark>,
    /// Its subagents' sessions, as far as the catalog knows of them; set on a session that was looked for.
    pub subagents: Vec<Self>,
}

/// That copies of a session are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptMark {
    /// Where the original is, or was.
    pub original: PathBuf,
    /// When something of it was copied last.
    pub at: Timestamp,
    /// What became of the original.
    pub state: Original,
    /// How many earlier versions hold something, where what was kept last does not.
    pub versions: usize,
    /// Which of them is read then.
    pub version: Option<u64>,
    /// Whether the original is not there, and the copy is gone, too.
    pub is_lost: bool,
}

/// What became of the original of a session of which copies are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Original {
    /// It is what is read.
    There,
    /// Its agent has deleted it.
    Gone,
    /// It could not be looked at, or is not where its agent looks now.
    Unseen,
}

impl KeptMark {
    /// The mark of a session.
    #[must_use]
    pub fn of(kept: &Kept, state: Original) -> Self {
        let is_lost = state != Original::There && !kept.copy.exists();
        let original = kept.path.clone();
        Self { original, at: kept.at, state, versions: 0, version: None, is_lost }
    }
}

/// Where a session of another agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherState {
    /// Its agent is at work on it.
    Running,
    /// Its agent waits for a person.
    Waiting,
    /// A process has it, and does not say what it does.
    Open,
    /// Something was asked or called and nothing followed; nobody is at it.
    Interrupted,
    /// The person stopped it.
    Stopped,
    /// The model had the last word.
    Ended,
    /// Something that was written cannot be read.
    Damaged,
    /// It cannot be read at all.
    Unreadable,
    /// Nothing was said.
    Empty,
}

impl OtherState {
    /// The word for lists.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Open => "open",
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
            Self::Damaged => "damaged",
            Self::Unreadable => "unreadable",
            Self::Empty => "empty",
        }
    }

    /// Whether a process has it now.
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(self, Self::Running | Self::Waiting | Self::Open)
    }
}

impl Other {
    /// The session of a row, given what runs now.
    #[must_use]
    pub fn new(row: ForeignRow, running: &[Running]) -> Self {
        let process = running.iter().find(|r| r.agent == row.agent && r.id == row.id);
        let state = state(&row, process);
        let pid = process.map(|p| p.pid);
        Self { row, state, pid, continued: false, kept: None, subagents: Vec::new() }
    }

    /// Whether its agent has deleted it, and what is read is the copy that was kept.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.state == Original::Gone)
    }

    /// Whether what is read is a copy that was kept.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.state != Original::There)
    }

    /// What is said of a session of which the copy is read.
    #[must_use]
    pub fn gone(&self) -> Option<String> {
        let kept = self.kept.as_ref().filter(|_| self.is_copy())?;
        let day = kept.at.to_string();
        let day = day.get(..10).unwrap_or(&day);
        let agent = self.row.agent;
        let what = match kept.state {
            Original::Unseen => format!("whether {agent} still has it could not be seen"),
            _ => format!("{agent} has deleted it"),
        };
        Some(match kept.version {
            Some(number) => format!(
                "{what}; this is version {number} of its copy: in what was kept last, on {day}, nothing is said any more"
            ),
            None if kept.is_lost => {
                format!("{what}, and the copy that was kept on {day} is gone, too")
            }
            None => format!("{what}; this is the copy that was kept on {day}"),
        })
    }

    /// Its name, the title that its agent made up, or the first prompt.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        let row = &self.row;
        row.name.as_deref().or(row.title.as_deref()).or(row.first_prompt.as_deref())
    }

    /// When something was said in it last. A time that is still to come counts as now.
    #[must_use]
    pub fn last_active(&self, now: Timestamp) -> Option<Timestamp> {
        self.row.last_active().map(|at| at.min(now))
    }

    /// Whether it belongs to the project; unknown when it does not say where it ran.
    #[must_use]
    pub fn is_of(&self, project: &ProjectFacts) -> Option<bool> {
        let own = &self.row.project;
        (!own.cwd.is_empty()).then(|| own.same_project(project))
    }

    /// Where it is, for reading.
    #[must_use]
    pub fn located(&self) -> Located {
        let row = &self.row;
        Located {
            agent: row.agent,
            path: row.path.clone(),
            key: row.key.clone(),
            id: Some(row.id.clone()),
            parent: row.parent.clone(),
            archived: row.archived,
            stamp: Stamp::default(),
        }
    }

    /// How commands name it without a doubt.
    #[must_use]
    pub fn word(&self) -> String {
        format!("{}:{}", self.row.agent.id(), self.row.id)
    }

    /// Whether it is a subagent's.
    #[must_use]
    pub fn is_child(&self) -> bool {
        self.row.parent.is_some()
    }

    /// The sessions of its subagents, also of those that ran before it was forked from another session.
    #[must_use]
    pub fn all_subagents(&self) -> Vec<Self> {
        let mut found = self.subagents.clone();
        // What cannot be read here is told where the session itself is read.
        for located in foreign::subagents(&self.located()).unwrap_or_default() {
            if !found.iter().any(|other| other.row.path == located.path) {
                found.push(Self::new(Catalog::digest(&located), &[]));
            }
        }
        found.sort_by(|a, b| (a.row.created, &a.row.id).cmp(&(b.row.created, &b.row.id)));
        found
    }

    /// Messages of the person and of the model.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.row.totals.user_messages + self.row.totals.assistant_messages
    }
}

/// The first of these that applies.
fn state(row: &ForeignRow, process: Option<&Running>) -> OtherState {
    match (process.map(|p| p.waiting), row.ending) {
        _ if !row.readable => OtherState::Unreadable,
        (Some(Some(true)), _) => OtherState::Waiting,
        (Some(Some(false)), _) | (Some(None), Ending::Interrupted) => OtherState::Running,
        (Some(None), _) => OtherState::Open,
        _ if row.damage > 0 => OtherState::Damaged,
        (None, Ending::Interrupted) => OtherState::Interrupted,
        (None, Ending::Stopped) => OtherState::Stopped,
        (None, Ending::Answered) => OtherState::Ended,
        (None, Ending::Empty) if row.pending > 0 => OtherState::Interrupted,
        (None, Ending::Empty) => OtherState::Empty,
    }
}
