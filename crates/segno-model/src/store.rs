//! What a store of sessions must be able to do, in terms that fit files and databases alike.
//!
//! Responsible for: the traits, their errors, and the types that keep an unjudged log from being
//! written. Must not: mention paths as a way of addressing, or any implementation.
//!
//! The order is in the types: [`SessionStore::open`] takes the writer's right and gives a
//! [`HeldSession`]; only its [`HeldSession::judge`] gives a [`SessionLog`], and only that appends.

use crate::batch::Draft;
use crate::finding::Finding;
use crate::id::{Pos, Seq, SessionId};
use crate::inbox::admission::Admission;
use crate::inbox::{Inbox, NewInput};
use crate::line::Record;
use crate::record::{BlobRef, Header, RepairItem};
use crate::state::State;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::future::Future;

/// How durable an append is when it returns (G1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It survives the death of the process.
    Written,
    /// It survives power loss on a medium that keeps its promises.
    Synced,
}

/// Who holds a session's writer's right; information only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// The process.
    pub pid: u32,
    /// When that process started, in the system's own unit; tells a reused pid apart.
    pub started: u64,
    /// The boot in which it runs.
    pub boot: String,
    /// The host.
    pub host: String,
    /// Since when it holds the right.
    pub since: Timestamp,
}

/// Failures of a store. Each names what it concerns; paths are in the text where there are any.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No such session.
    #[error("there is no session {0}")]
    NotFound(SessionId),
    /// Creating it would overwrite something.
    #[error("{0} exists already")]
    Exists(String),
    /// Somebody else has the writer's right (G5).
    #[error("the session is being written by process {} on {}", .0.pid, .0.host)]
    Held(Box<Owner>),
    /// The right was lost, or a sync failed, or the path is no longer the open file (G15).
    #[error("this handle can no longer write: {0}")]
    Poisoned(String),
    /// No room; nothing was written (G16).
    #[error("no room left to write {0}")]
    NoRoom(String),
    /// The session may be read but not written, e.g. because its format is newer (G13).
    #[error("the session can only be read: {0}")]
    ReadOnly(String),
    /// What was asked makes no sense; nothing was written.
    #[error("refused: {0}")]
    Refused(String),
    /// A stored thing is not what it should be.
    #[error("{what} is damaged at byte {offset}: {reason}")]
    Damaged {
        /// Which thing.
        what: String,
        /// Where.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The medium or the database failed.
    #[error("{action} failed for {what}: {source}")]
    Backend {
        /// What was being done.
        action: &'static str,
        /// To what: a path, a table.
        what: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl StoreError {
    /// A refusal.
    #[must_use]
    pub fn refused(why: &str) -> Self {
        Self::Refused(why.to_owned())
    }
}

/// The part of a log that the next request needs, and what was noticed on the way.
#[derive(Debug, Clone, Default)]
pub struct Active {
    /// Records in the order of the log: the path from the tip down to its newest compaction and what
    /// that keeps, results that belong to its calls, and metadata in between as far as it was met.
    pub records: Vec<Record>,
    /// Anomalies met.
    pub findings: Vec<Finding>,
    /// How many bytes of the log were read for it (G11).
    pub bytes_read: u64,
}

/// A session read without the writer's right.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Line 1.
    pub header: Header,
    /// The state at its end.
    pub state: State,
    /// What the context needs.
    pub active: Active,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: SessionId,
    /// How large its log is, in bytes.
    pub bytes: u64,
    /// Whether somebody holds the writer's right now.
    pub held: bool,
}

/// A child of a session, in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedChild {
    /// Its id.
    pub id: SessionId,
    /// How large its log is, in bytes.
    pub bytes: u64,
    /// Whether somebody holds the writer's right now.
    pub held: bool,
    /// Whether it is only a link to somewhere else; such a child is not worked on.
    pub is_link: bool,
}

/// The beginning of a reply that may never have been recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DraftText {
    /// The `request` record that it answers.
    pub request: Seq,
    /// Finished text.
    pub text: String,
    /// Whether more was kept and is damaged.
    pub damaged: bool,
}

/// Where a fork ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkPoint {
    /// With everything; its tip is the source's.
    Whole,
    /// At this node: it is the fork's tip.
    At(Seq),
    /// Before this node: its parent is the fork's tip.
    Before(Seq),
}

/// One step of a forward scan.
#[derive(Debug)]
pub enum Scanned {
    /// An intact record (or one that a repair accepted or one flipped bit explains).
    Record(Box<Record>),
    /// Something that is not, located. Bytes stay where they are.
    Finding(Finding),
}

/// Sessions, somewhere.
pub trait SessionStore: Send + Sync {
    /// A session whose writer's right is held and whose log is not judged yet.
    type Held: HeldSession;

    /// A new session. Nothing exists anywhere until its first append, which writes the header too. One whose
    /// header has a launch record ([`crate::child::parent_of`]) is a child: it lies below its parent, which
    /// must be there by then, and is opened, read and copied by its id like any other.
    fn create(&self, header: Header) -> LogOf<Self>;

    /// Takes the writer's right; reads nothing yet.
    fn open(&self, id: &SessionId) -> impl Future<Output = Result<Self::Held, StoreError>> + Send;

    /// Reads the active part without the writer's right; the last record may be one that is still
    /// being written and is then left out.
    fn read(&self, id: &SessionId) -> impl Future<Output = Result<Snapshot, StoreError>> + Send;

    /// Reads everything, from line 1, in bounded memory. The visitor returns false to end it.
    fn scan(
        &self,
        id: &SessionId,
        visit: &mut (dyn FnMut(Scanned) -> bool + Send),
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// All sessions but children, in no particular order.
    fn list(&self) -> impl Future<Output = Result<Vec<Listed>, StoreError>> + Send;

    /// The children of a session, by id; none when there is no such session.
    fn children(
        &self,
        parent: &SessionId,
    ) -> impl Future<Output = Result<Vec<ListedChild>, StoreError>> + Send;

    /// Whether a session was deleted and can still be brought back.
    fn is_trashed(&self, _id: &SessionId) -> impl Future<Output = Result<bool, StoreError>> + Send {
        async { Ok(false) }
    }

    /// Copies `source` up to `point` into a new session with this header (its `origin` is filled in, its
    /// format is the source's), then sets the tip. The source is untouched and need not be free; one
    /// that this version may not append to is not copied either (G13).
    fn fork(
        &self,
        source: &SessionId,
        point: ForkPoint,
        header: Header,
        at: Timestamp,
    ) -> impl Future<Output = Result<SessionId, StoreError>> + Send;

    /// A blob's bytes, verified.
    fn blob(
        &self,
        id: &SessionId,
        blob: &BlobRef,
    ) -> impl Future<Output = Result<Vec<u8>, StoreError>> + Send;

    /// Admits an input or a control, without the writer's right and whoever has it (G8). It is durable
    /// when this returns, and so is whatever the answer says of an earlier admission. After an error it
    /// may or may not be admitted; asking again tells.
    fn admit(
        &self,
        id: &SessionId,
        input: &NewInput,
        at: Timestamp,
    ) -> impl Future<Output = Result<Admission, StoreError>> + Send;

    /// What was admitted and is not settled by any record, without the writer's right.
    fn pending(&self, id: &SessionId) -> impl Future<Output = Result<Inbox, StoreError>> + Send;

    /// A number that is another one when other inputs wait; cheap, for asking again and again. 0 when
    /// none do, or there is no such session.
    fn inbox_mark(&self, id: &SessionId) -> impl Future<Output = Result<u64, StoreError>> + Send;
}

/// The log type of a store.
pub type LogOf<S> = <<S as SessionStore>::Held as HeldSession>::Log;

/// A held, unjudged session.
pub trait HeldSession: Send + Sized {
    /// What can be appended to.
    type Log: SessionLog;
    /// What must be decided upon first.
    type Damaged: DamagedSession<Log = Self::Log>;

    /// Reads what resuming needs and judges it. Changes no byte. A torn tail is not damage: it is
    /// set aside by the first append.
    fn judge(
        self,
    ) -> impl Future<Output = Result<Judged<Self::Log, Self::Damaged>, StoreError>> + Send;
}

/// The two verdicts.
#[derive(Debug)]
pub enum Judged<L, D> {
    /// It can be written on.
    Sound(Opened<L>),
    /// Damage lies in the active context: a decision is needed (G3).
    Damaged(D),
}

/// An opened session.
#[derive(Debug)]
pub struct Opened<L> {
    /// The log. Its first append sets a torn tail aside before anything else.
    pub log: L,
    /// What the context needs, and what was noticed.
    pub active: Active,
}

/// A held session with damage in its active context.
pub trait DamagedSession: Send + Sized {
    /// What it becomes.
    type Log: SessionLog;

    /// What a decision is needed on, each located.
    fn findings(&self) -> &[Finding];

    /// What a repair would do: one item per damage that can be settled by passing over it. Altered
    /// lines are among them as [`RepairItem::Accepted`] only when listed in `accept`; otherwise they
    /// are bridged.
    fn plan(&self, accept: &[Seq]) -> Vec<RepairItem>;

    /// Appends a `repair` record with this plan and gives the log. Nothing is rewritten.
    fn repair(
        self,
        plan: Vec<RepairItem>,
        at: Timestamp,
    ) -> impl Future<Output = Result<Opened<Self::Log>, StoreError>> + Send;
}

/// A log that may be appended to.
pub trait SessionLog: Send + Sync {
    /// Line 1.
    fn header(&self) -> &Header;

    /// The state after everything that was appended.
    fn state(&self) -> &State;

    /// Appends in one write. The first append of a new session writes the header with it. On success
    /// the state has moved; on failure it has not. Checkpoints are added by the log itself
    /// ([`crate::batch::plan_with_checkpoint`]). Returns one record per draft, in their order; what the log
    /// added (header, checkpoint, `repair` of a torn tail) is not among them.
    ///
    /// A future that is dropped before it returned leaves one of three: nothing was written and the log goes
    /// on; the whole batch was, the state has moved and the log goes on; or nobody can know, and every
    /// later call is [`StoreError::Poisoned`] until the session is opened again, which finds the whole batch
    /// or nothing of it. Never is anything appended behind a part of a batch, and nothing that was dropped
    /// counts as acknowledged.
    fn append(
        &mut self,
        drafts: Vec<Draft>,
        level: Level,
    ) -> impl Future<Output = Result<Vec<Record>, StoreError>> + Send;

    /// Makes everything appended so far durable.
    fn sync(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Stores bytes under their hash, durable when it returns; `head` is kept in the reference.
    fn put_blob(
        &mut self,
        bytes: &[u8],
        head: &str,
    ) -> impl Future<Output = Result<BlobRef, StoreError>> + Send;

    /// A blob's bytes, verified.
    fn blob(&self, blob: &BlobRef) -> impl Future<Output = Result<Vec<u8>, StoreError>> + Send;

    /// What was admitted and is not settled by any record. What was there before the right was taken is
    /// marked as stale.
    fn pending(&mut self) -> impl Future<Output = Result<Inbox, StoreError>> + Send;

    /// Takes from the inbox what is settled by a record, once that is durable; to be called after a
    /// synced append that settled something. Entries that come back are taken away again, and never
    /// among the pending ones.
    fn clear_inbox(&mut self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Keeps more of the reply that is being streamed to a `request`: what survives when the process is
    /// killed before the reply is recorded. The draft of another request is given up. It is no part of the
    /// log and need not survive power loss: only text that was paid for depends on it, never what is true.
    /// A store without room for drafts keeps none.
    fn save_draft(
        &mut self,
        _request: Seq,
        _more: &str,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        async { Ok(()) }
    }

    /// What was kept of the newest reply that was streamed, up to the first damage.
    fn draft(&self) -> impl Future<Output = Result<Option<DraftText>, StoreError>> + Send {
        async { Ok(None) }
    }

    /// Reads what the context at `tip` needs: after the tip moved, or to look at another branch.
    fn active(&self, tip: Option<Pos>) -> impl Future<Output = Result<Active, StoreError>> + Send;
}

/// The clock.
pub trait Clock: Send + Sync {
    /// Now, for people.
    fn now(&self) -> Timestamp;
}

/// Where ids come from.
pub trait Ids: Send + Sync {
    /// A new session id.
    fn session_id(&self) -> SessionId;
}
