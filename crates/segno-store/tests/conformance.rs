//! The file store does what every store must: on the simulated disk and on a real one.
//!
//! Responsible for: the benches. Must not: contain cases; those are the testkit's.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use segno_model::SessionId;
use segno_model::record::BlobRef;
use segno_store::{FileStore, RealDisk};
use segno_testkit::sim_disk::{self, OpKind, SimDisk};
use segno_testkit::store_suite::{Ability, Bench, Fault};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use tempfile::TempDir;

struct OnSimulatedDisk {
    disk: SimDisk,
    store: FileStore<SimDisk>,
}

impl OnSimulatedDisk {
    fn of(disk: SimDisk) -> Self {
        let store = FileStore::new(disk.clone(), "/segno");
        Self { disk, store }
    }

    fn blob_path(&self, id: &SessionId, blob: &BlobRef) -> PathBuf {
        self.store.log_path(id).unwrap().with_file_name("blobs").join(&blob.blob)
    }
}

impl Bench for OnSimulatedDisk {
    type Store = FileStore<SimDisk>;

    fn fresh() -> Self {
        Self::of(SimDisk::new(7))
    }

    fn store(&self) -> &Self::Store {
        &self.store
    }

    fn elsewhere(&self) -> Self::Store {
        FileStore::new(self.disk.clone(), "/segno")
    }

    fn can(&self, ability: Ability) -> bool {
        ability != Ability::Revoke
    }

    fn log(&self, id: &SessionId) -> Option<Vec<u8>> {
        self.disk.peek(&self.store.log_path(id).ok()?)
    }

    fn set_log(&self, id: &SessionId, bytes: &[u8]) {
        self.disk.poke(&self.store.log_path(id).unwrap(), bytes);
    }

    fn set_blob(&self, id: &SessionId, blob: &BlobRef, bytes: Option<&[u8]>) {
        let path = self.blob_path(id, blob);
        match bytes {
            Some(bytes) => self.disk.poke(&path, bytes),
            None => segno_store::Disk::remove_file(&self.disk, &path).unwrap(),
        }
    }

    fn fail_next(&self, fault: Fault) {
        let next = |on, error| self.disk.inject(sim_disk::Fault::next(on, error));
        match fault {
            Fault::WriteNoRoom => next(OpKind::Write, ErrorKind::StorageFull),
            Fault::WriteBroken => next(OpKind::Write, ErrorKind::Other),
            Fault::WriteShort => self.disk.set_capacity(Some(self.disk.used() + 20)),
            Fault::Sync => next(OpKind::Sync, ErrorKind::Other),
        }
    }

    fn heal(&self) {
        self.disk.heal();
    }

    fn crash(&mut self, _keep: usize) {
        *self = Self::of(self.disk.crash());
    }

    fn revoke(&self, _id: &SessionId) {
        unreachable!("a kernel lock cannot be taken away");
    }
}

struct OnRealDisk {
    root: TempDir,
    store: FileStore<RealDisk>,
}

impl Bench for OnRealDisk {
    type Store = FileStore<RealDisk>;

    fn fresh() -> Self {
        // Memory where the system offers it: the calls are the same, and thousands of syncs cost nothing.
        let memory = tempfile::tempdir_in("/dev/shm");
        let root = memory.or_else(|_| tempfile::tempdir()).unwrap();
        let store = FileStore::new(RealDisk, root.path());
        Self { root, store }
    }

    fn store(&self) -> &Self::Store {
        &self.store
    }

    fn elsewhere(&self) -> Self::Store {
        FileStore::new(RealDisk, self.root.path())
    }

    fn can(&self, ability: Ability) -> bool {
        ability == Ability::Bytes
    }

    fn log(&self, id: &SessionId) -> Option<Vec<u8>> {
        fs::read(self.store.log_path(id).ok()?).ok()
    }

    fn set_log(&self, id: &SessionId, bytes: &[u8]) {
        fs::write(self.store.log_path(id).unwrap(), bytes).unwrap();
    }

    fn set_blob(&self, id: &SessionId, blob: &BlobRef, bytes: Option<&[u8]>) {
        let path = self.store.log_path(id).unwrap().with_file_name("blobs").join(&blob.blob);
        match bytes {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }

    fn fail_next(&self, _fault: Fault) {
        unreachable!("a real disk does not fail on command");
    }

    fn heal(&self) {}

    fn crash(&mut self, _keep: usize) {
        unreachable!("a real disk does not lose power on command");
    }

    fn revoke(&self, _id: &SessionId) {
        unreachable!("a kernel lock cannot be taken away");
    }
}

mod on_the_simulated_disk {
    segno_testkit::store_suite!(super::OnSimulatedDisk);
}

mod on_a_real_disk {
    segno_testkit::store_suite!(super::OnRealDisk);
}
