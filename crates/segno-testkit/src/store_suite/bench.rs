//! What the suite must be able to do to a store from outside.
//!
//! Responsible for: the harness trait and the strict store's harness. Must not: contain cases.

use crate::strict_store::{self, StrictStore};
use segno_model::SessionId;
use segno_model::record::BlobRef;
use segno_model::store::SessionStore;

/// Something that not every bench can do; cases that need it are then skipped, and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ability {
    /// Losing what was not synced.
    Crash,
    /// Failing an operation on command.
    Faults,
    /// Changing a log's bytes behind the store's back.
    Bytes,
    /// Taking the writer's right away.
    Revoke,
}

/// The next failure of the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The next write finds no room.
    WriteNoRoom,
    /// The next write fails.
    WriteBroken,
    /// The next write is cut short, then there is no room.
    WriteShort,
    /// The next sync fails.
    Sync,
}

/// A place where sessions are kept, and the hands that can shake it.
pub trait Bench: Sized + 'static {
    /// The store under test.
    type Store: SessionStore + 'static;

    /// A new, empty place.
    fn fresh() -> Self;

    /// The store as this process opened it; always the same one until a crash.
    fn store(&self) -> &Self::Store;

    /// The store as another process would open it: it shares the medium and nothing in memory.
    fn elsewhere(&self) -> Self::Store;

    /// Whether it has this ability.
    fn can(&self, ability: Ability) -> bool;

    /// The log's bytes; none when there is no log.
    fn log(&self, id: &SessionId) -> Option<Vec<u8>>;

    /// Replaces the log's bytes ([`Ability::Bytes`]).
    fn set_log(&self, id: &SessionId, bytes: &[u8]);

    /// Replaces a blob's bytes or removes it ([`Ability::Bytes`]).
    fn set_blob(&self, id: &SessionId, blob: &BlobRef, bytes: Option<&[u8]>);

    /// Makes the next operation fail ([`Ability::Faults`]).
    fn fail_next(&self, fault: Fault);

    /// Everything works again, as when room was made ([`Ability::Faults`]).
    fn heal(&self);

    /// Loses power ([`Ability::Crash`]): of what was not synced, about the first `keep` bytes of each log
    /// remain, where the medium lets one choose; all handles are dead.
    fn crash(&mut self, keep: usize);

    /// Takes the writer's right away from the holder ([`Ability::Revoke`]).
    fn revoke(&self, id: &SessionId);
}

/// The strict store on the bench.
#[derive(Debug, Default)]
pub struct StrictBench {
    store: StrictStore,
}

impl Bench for StrictBench {
    type Store = StrictStore;

    fn fresh() -> Self {
        Self::default()
    }

    fn store(&self) -> &StrictStore {
        &self.store
    }

    fn elsewhere(&self) -> StrictStore {
        self.store.elsewhere()
    }

    fn can(&self, _: Ability) -> bool {
        true
    }

    fn log(&self, id: &SessionId) -> Option<Vec<u8>> {
        self.store.log_bytes(id)
    }

    fn set_log(&self, id: &SessionId, bytes: &[u8]) {
        self.store.set_log_bytes(id, bytes.to_vec());
    }

    fn set_blob(&self, id: &SessionId, blob: &BlobRef, bytes: Option<&[u8]>) {
        self.store.set_blob(id, blob, bytes.map(<[u8]>::to_vec));
    }

    fn fail_next(&self, fault: Fault) {
        use strict_store::{Fault as F, Op};
        let (op, fault) = match fault {
            Fault::WriteNoRoom | Fault::WriteShort => (Op::Write, F::NoRoom),
            Fault::WriteBroken => (Op::Write, F::Broken),
            Fault::Sync => (Op::Sync, F::Broken),
        };
        self.store.fail_next(op, fault);
    }

    fn heal(&self) {
        self.store.heal();
    }

    fn crash(&mut self, keep: usize) {
        self.store.crash(keep);
    }

    fn revoke(&self, id: &SessionId) {
        self.store.revoke(id);
    }
}
