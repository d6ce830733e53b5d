//! One session in a list.
//!
//! Responsible for: which facts a list shows, taken from the state at the end of a log. Must not: use
//! file times; a session is as new as its newest message.

use super::packed::{Packed, Pass, choice, maybe};
use segno_model::checkpoint::Totals;
use segno_model::finding::Severity;
use segno_model::record::{FORMAT, ModelRef, Origin, OriginKind, ProjectFacts};
use segno_model::store::Snapshot;
use segno_model::{SessionId, Standing, Timestamp};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One session in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its id.
    pub id: SessionId,
    /// The project as it was relocated last, or as the header has it; shared with other rows of it.
    pub project: Arc<ProjectFacts>,
    /// When it was created.
    pub created: Timestamp,
    /// When its newest message was written; none before the first.
    pub last_message_at: Option<Timestamp>,
    /// How long its log is.
    pub bytes: u64,
    /// Counts and tokens over its whole life.
    pub totals: Totals,
    /// Its name.
    pub name: Option<String>,
    /// The beginning of its first prompt.
    pub first_prompt: Option<String>,
    /// The model in force.
    pub model: Option<Arc<ModelRef>>,
    /// Where it comes from.
    pub origin: Option<Origin>,
    /// Whether there are, or were, sessions of subagents below it.
    pub has_children: bool,
    /// Whether a run started and has no end.
    pub open_run: bool,
    /// Where it stands, whoever holds it.
    pub standing: Standing,
    /// Whether its format is newer than what this version may append to.
    pub newer: bool,
    /// Whether it could be read.
    pub readable: bool,
    /// Whether something in it needs a decision, or why it cannot be read at all.
    pub problem: Option<String>,
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// A process is working in it.
    Running,
    /// A process has it open and waits.
    Open,
    /// Work was begun and nobody is at it.
    Interrupted,
    /// Nothing is going on.
    Idle,
}

impl Row {
    /// The row of a session whose log has so many bytes.
    #[must_use]
    pub fn of(snapshot: &Snapshot, id: &SessionId, bytes: u64) -> Self {
        let now = &snapshot.state.in_force;
        let damage = snapshot.active.findings.iter().find(|f| f.severity == Severity::Damage);
        Self {
            id: id.clone(),
            project: Arc::new(now.project.as_ref().unwrap_or(&snapshot.header.project).clone()),
            created: created(id),
            last_message_at: now.last_message_at,
            bytes,
            totals: now.totals,
            name: now.name.clone(),
            first_prompt: now.first_prompt.clone(),
            model: now.model.clone().map(Arc::new),
            origin: snapshot.header.origin.clone(),
            has_children: false,
            open_run: now.open_run.is_some(),
            standing: Standing::of(&snapshot.header, &snapshot.state, &snapshot.active.records),
            newer: snapshot.header.format.major > FORMAT.major,
            readable: true,
            problem: damage.map(|f| f.sentence.clone()),
        }
    }

    /// The row of a session that cannot be read, and why.
    #[must_use]
    pub fn unreadable(id: &SessionId, bytes: u64, why: String) -> Self {
        Self { bytes, problem: Some(why), ..Self::blank(id.clone()) }
    }

    /// The row of a session of which nothing but its id is known.
    pub(super) fn blank(id: SessionId) -> Self {
        Self {
            project: Arc::default(),
            created: created(&id),
            id,
            last_message_at: None,
            bytes: 0,
            totals: Totals::default(),
            name: None,
            first_prompt: None,
            model: None,
            origin: None,
            has_children: false,
            open_run: false,
            standing: Standing::Empty,
            newer: false,
            readable: false,
            problem: None,
        }
    }

    /// When something happened in it last.
    #[must_use]
    pub fn last_active(&self) -> Timestamp {
        self.last_message_at.unwrap_or(self.created)
    }

    /// Whether it belongs to a project, by any of its facts.
    #[must_use]
    pub fn is_of(&self, project: &ProjectFacts) -> bool {
        self.project.same_project(project)
    }

    /// What it is doing, given whether somebody holds it ([`crate::FileStore::is_held`]).
    #[must_use]
    pub fn activity(&self, held: bool) -> Activity {
        match (held, self.open_run) {
            (true, true) => Activity::Running,
            (true, false) => Activity::Open,
            (false, true) => Activity::Interrupted,
            (false, false) => Activity::Idle,
        }
    }
}

/// The time that an id carries.
fn created(id: &SessionId) -> Timestamp {
    Timestamp(id.dated_ms().unwrap_or(0))
}

/// All but the id, by which the row is kept, and the time that the id carries.
impl Packed for Row {
    fn pass(&mut self, pass: &mut impl Pass) {
        let Self {
            id: _,
            project,
            created: _,
            last_message_at,
            bytes,
            totals,
            name,
            first_prompt,
            model,
            origin,
            has_children,
            open_run,
            standing,
            newer,
            readable,
            problem,
        } = self;
        project.pass(pass);
        last_message_at.pass(pass);
        bytes.pass(pass);
        totals.pass(pass);
        for text in [name, first_prompt, problem] {
            text.pass(pass);
        }
        model.pass(pass);
        let blank =
            || Origin { kind: OriginKind::Other, of: String::new(), up_to: None, parent: None };
        maybe(origin, blank, pass);
        choice(standing, &Standing::ALL, pass);
        for flag in [has_children, open_run, newer, readable] {
            flag.pass(pass);
        }
    }
}
