//! Every session as a list tells it.
//!
//! Responsible for: one [`Entry`] per session, read from the end of its log, and the one word for where
//! it stands. Must not: print, or hide a session that cannot be read.

use crate::error::chain;
use crate::stores::Stores;
use segno_model::checkpoint::Totals;
use segno_model::finding::Severity;
use segno_model::record::{
    Body, FORMAT, Message, ModelRef, OriginKind, ProjectFacts, RunEnd, RunState,
};
use segno_model::state::State;
use segno_model::store::{Listed, SessionStore as _, Snapshot, StoreError};
use segno_model::{Record, SessionId, Timestamp};
use serde::Serialize;

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Another process works on it.
    Running,
    /// Another process has it open and waits for input.
    Held,
    /// A question of the agent waits for an answer.
    Waiting,
    /// Work was cut off and can be taken up again.
    Interrupted,
    /// The user stopped the last run.
    Stopped,
    /// The last run failed or its budget ran out.
    Failed,
    /// Nothing is open.
    Ended,
    /// Something that was written cannot be read.
    Damaged,
    /// Its format is newer than this segno.
    Newer,
    /// It cannot be read at all.
    Unreadable,
    /// Nothing was said in it.
    Empty,
}

impl Standing {
    /// The word for lists.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Held => "held",
            Self::Waiting => "waiting",
            Self::Interrupted => "interrupted",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Ended => "ended",
            Self::Damaged => "damaged",
            Self::Newer => "newer",
            Self::Unreadable => "unreadable",
            Self::Empty => "empty",
        }
    }
}

/// A session in a list.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its id.
    pub id: SessionId,
    /// When it was made.
    pub created: Timestamp,
    /// When the last message was written; none if nothing was said.
    pub last_message: Option<Timestamp>,
    /// Sums over its whole life.
    pub totals: Totals,
    /// Bytes of its log.
    pub bytes: u64,
    /// Where it stands.
    pub standing: Standing,
    /// Its name.
    pub name: Option<String>,
    /// The first thing that a person said.
    pub first_prompt: Option<String>,
    /// The model in force.
    pub model: Option<ModelRef>,
    /// Its project; none if it cannot be read, or its first line was lost.
    pub project: Option<ProjectFacts>,
    /// Whether it is a subagent's.
    pub is_child: bool,
    /// Why it cannot be read.
    pub trouble: Option<String>,
}

impl Entry {
    /// Messages of the person and of the model.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.totals.user_messages + self.totals.assistant_messages
    }

    /// Its name, or the first prompt, or nothing.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.name.as_deref().or(self.first_prompt.as_deref())
    }

    /// When it was last active. A time that is still to come counts as now, so that one wrong clock
    /// does not keep a session on top for ever.
    #[must_use]
    pub fn last_active(&self, now: Timestamp) -> Timestamp {
        self.last_message.unwrap_or(self.created).min(now)
    }

    /// Whether it belongs to the project; unknown for one that cannot be read.
    #[must_use]
    pub fn is_of(&self, project: &ProjectFacts) -> Option<bool> {
        self.project.as_ref().map(|own| own.same_project(project))
    }

    /// Whether anything was said in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.standing == Standing::Empty
    }
}

/// All sessions, newest last message first.
///
/// # Errors
/// When the sessions cannot even be listed.
pub async fn all(stores: &Stores, now: Timestamp) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    for listed in stores.files.list().await? {
        match stores.files.read(&listed.id).await {
            Ok(snapshot) => entries.push(entry(listed, &snapshot)),
            // Deleted since the directory was read.
            Err(StoreError::NotFound(_)) => {}
            Err(error) => entries.push(unreadable(listed, &error)),
        }
    }
    sort(&mut entries, now);
    Ok(entries)
}

/// All sessions in the trash, newest last message first.
///
/// # Errors
/// When the trash cannot be listed.
pub fn trashed(stores: &Stores, now: Timestamp) -> Result<Vec<Entry>, StoreError> {
    let mut entries = Vec::new();
    for listed in stores.files.list_trash()? {
        match stores.files.read_trashed(&listed.id) {
            Ok(snapshot) => entries.push(entry(listed, &snapshot)),
            Err(StoreError::NotFound(_)) => {}
            Err(error) => entries.push(unreadable(listed, &error)),
        }
    }
    sort(&mut entries, now);
    Ok(entries)
}

fn sort(entries: &mut [Entry], now: Timestamp) {
    use std::cmp::Reverse;
    entries.sort_by_key(|entry| (Reverse(entry.last_active(now)), Reverse(entry.id.clone())));
}

/// One session.
#[must_use]
pub fn entry(listed: Listed, snapshot: &Snapshot) -> Entry {
    let now = &snapshot.state.in_force;
    let origin = snapshot.header.origin.as_ref();
    Entry {
        created: Timestamp(listed.id.created_ms()),
        last_message: now.last_message_at,
        totals: now.totals,
        bytes: listed.bytes,
        standing: standing(snapshot, listed.held),
        name: now.name.clone(),
        first_prompt: now.first_prompt.clone(),
        model: now.model.clone(),
        project: Some(now.project.clone().unwrap_or_else(|| snapshot.header.project.clone()))
            .filter(|facts| *facts != ProjectFacts::default()),
        is_child: origin.is_some_and(|o| o.kind == OriginKind::Child)
            || snapshot.header.launch.is_some(),
        trouble: None,
        id: listed.id,
    }
}

fn unreadable(listed: Listed, error: &StoreError) -> Entry {
    Entry {
        created: Timestamp(listed.id.created_ms()),
        last_message: None,
        totals: Totals::default(),
        bytes: listed.bytes,
        standing: Standing::Unreadable,
        name: None,
        first_prompt: None,
        model: None,
        project: None,
        is_child: false,
        trouble: Some(chain(error)),
        id: listed.id,
    }
}

/// Where a session stands; the first of these that applies.
fn standing(snapshot: &Snapshot, held: bool) -> Standing {
    let now = &snapshot.state.in_force;
    let said = now.totals.user_messages + now.totals.assistant_messages + now.totals.tool_results;
    let damaged = snapshot.active.findings.iter().any(|f| f.severity == Severity::Damage);
    match () {
        () if snapshot.header.format.major > FORMAT.major => Standing::Newer,
        () if damaged => Standing::Damaged,
        () if held && now.open_run.is_some() && now.open_approvals.is_empty() => Standing::Running,
        () if !now.open_approvals.is_empty() => Standing::Waiting,
        () if held => Standing::Held,
        () if said == 0 => Standing::Empty,
        () if now.open_run.as_ref().is_some_and(|run| run.stopping) => Standing::Stopped,
        () if now.open_run.is_some()
            || is_unfinished(&snapshot.state, &snapshot.active.records) =>
        {
            Standing::Interrupted
        }
        () => match now.last_end {
            Some(RunEnd::Stopped) => Standing::Stopped,
            Some(RunEnd::Suspended) => Standing::Interrupted,
            Some(RunEnd::Failed | RunEnd::Exhausted) => Standing::Failed,
            Some(RunEnd::Completed) | None => Standing::Ended,
        },
    }
}

/// Whether something was said that nobody dealt with: the current node is not an answer, and no run
/// ended behind it.
fn is_unfinished(state: &State, records: &[Record]) -> bool {
    let Some(tip) = state.tip() else { return false };
    let Some(at) = records.iter().find(|r| r.seq() == tip.seq) else { return false };
    let asks = match &at.body {
        Body::Message(message) => match &**message {
            Message::User(user) => user.notice.is_none(),
            Message::Assistant(reply) => reply.calls().next().is_some(),
            Message::Tool(_) => true,
        },
        _ => false,
    };
    let ended = |r: &Record| matches!(&r.body, Body::Run(run) if matches!(run.state, RunState::Ended { .. }));
    asks && state.in_force.last_node.is_some_and(|last| last.seq == tip.seq)
        && !records.iter().any(|r| r.seq() > tip.seq && ended(r))
}

/// For each id, as much of its beginning as tells it from the others; eight characters at least.
#[must_use]
pub fn short_ids(ids: &[&SessionId]) -> Vec<String> {
    let mut sorted: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
    sorted.sort_unstable();
    let shared = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let needed = |id: &str| {
        let at = sorted.partition_point(|other| *other < id);
        let before = at.checked_sub(1).map_or(0, |i| shared(id, sorted[i]));
        let after = sorted.get(at + 1).map_or(0, |next| shared(id, next));
        before.max(after) + 1
    };
    let short = |id: &&SessionId| {
        let id = id.as_str();
        let mut len = needed(id).clamp(8, id.len());
        // A prefix that ends in a hyphen looks cut off.
        if id.as_bytes()[len - 1] == b'-' {
            len += 1;
        }
        id[..len].to_owned()
    };
    ids.iter().map(short).collect()
}
