//! The file store on the conformance suite's bench: on a real and on a simulated disk.
//!
//! Responsible for: the hands that shake a file store. Must not: contain cases.

use segno_model::SessionId;
use segno_model::record::BlobRef;
use segno_store::disk::{Disk, DiskFile, Writes};
use segno_store::{FileStore, RealDisk};
use segno_testkit::sim_disk::{self, OpKind, SimDisk};
use segno_testkit::store_suite::{Ability, Bench, Fault};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ROOT: &str = "/segno";

/// The whole file, or none.
fn read<D: Disk>(disk: &D, path: &Path) -> Option<Vec<u8>> {
    let file = disk.open_read(path).ok()?;
    let length = usize::try_from(file.meta().expect("it is open").len).expect("it fits");
    let mut bytes = vec![0; length];
    let mut at = 0;
    while at < length {
        at += file.read_at(&mut bytes[at..], at as u64).expect("it can be read");
    }
    Some(bytes)
}

/// Replaces a file as an editor does: another file under the same name.
fn replace<D: Disk>(disk: &D, path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    let file = disk.create_new(&new, Writes::Sequential).expect("it can be created");
    let mut rest = bytes;
    while !rest.is_empty() {
        let n = file.write(rest).expect("it can be written");
        rest = &rest[n..];
    }
    file.sync_all().expect("it can be synced");
    disk.rename(&new, path).expect("it can be renamed");
    disk.sync_dir(path.parent().expect("a directory")).expect("it can be synced");
}

fn log_of<D: Disk>(store: &FileStore<D>, disk: &D, id: &SessionId) -> Option<Vec<u8>> {
    read(disk, &store.log_path(id).ok()?)
}

fn set_log<D: Disk>(store: &FileStore<D>, disk: &D, id: &SessionId, bytes: &[u8]) {
    replace(disk, &store.log_path(id).expect("the session exists"), bytes);
}

fn set_blob<D: Disk>(
    store: &FileStore<D>,
    disk: &D,
    id: &SessionId,
    blob: &BlobRef,
    bytes: Option<&[u8]>,
) {
    let log: PathBuf = store.log_path(id).expect("the session exists");
    let path = log.with_file_name("blobs").join(&blob.blob);
    match bytes {
        Some(bytes) => replace(disk, &path, bytes),
        None => disk.remove_file(&path).expect("the blob exists"),
    }
}

pub(crate) struct Real {
    place: TempDir,
    store: FileStore<RealDisk>,
}

impl Bench for Real {
    type Store = FileStore<RealDisk>;

    fn fresh() -> Self {
        // Memory where the system offers it: the calls are the same, and thousands of syncs cost nothing.
        let memory = tempfile::tempdir_in("/dev/shm");
        let place = memory.or_else(|_| tempfile::tempdir()).expect("a temporary directory");
        let store = FileStore::new(RealDisk, place.path().join("segno"));
        Self { place, store }
    }

    fn store(&self) -> &Self::Store {
        &self.store
    }

    fn elsewhere(&self) -> Self::Store {
        FileStore::new(RealDisk, self.place.path().join("segno"))
    }

    fn can(&self, ability: Ability) -> bool {
        ability == Ability::Bytes
    }

    fn log(&self, id: &SessionId) -> Option<Vec<u8>> {
        log_of(&self.store, &RealDisk, id)
    }

    fn set_log(&self, id: &SessionId, bytes: &[u8]) {
        set_log(&self.store, &RealDisk, id, bytes);
    }

    fn set_blob(&self, id: &SessionId, blob: &BlobRef, bytes: Option<&[u8]>) {
        set_blob(&self.store, &RealDisk, id, blob, bytes);
    }

    fn fail_next(&self, fault: Fault) {
        panic!("a real disk does not fail on command: {fault:?}");
    }

    fn heal(&self) {}

    fn crash(&mut self, _: usize) {
        panic!("a real disk does not lose power on command");
    }

    fn revoke(&self, _: &SessionId) {
        panic!("the kernel does not take a lock away");
    }
}

pub(crate) struct Sim {
    disk: SimDisk,
    store: FileStore<SimDisk>,
}

impl Sim {
    fn on(disk: SimDisk) -> Self {
        let store = FileStore::new(disk.clone(), ROOT);
        Self { disk, store }
    }
}

impl Bench for Sim {
    type Store = FileStore<SimDisk>;

    fn fresh() -> Self {
        Self::on(SimDisk::new(1))
    }

    fn store(&self) -> &Self::Store {
        &self.store
    }

    fn elsewhere(&self) -> Self::Store {
        FileStore::new(self.disk.clone(), ROOT)
    }

    fn can(&self, ability: Ability) -> bool {
        ability != Ability::Revoke
    }

    fn log(&self, id: &SessionId) -> Option<Vec<u8>> {
        log_of(&self.store, &self.disk, id)
    }

    fn set_log(&self, id: &SessionId, bytes: &[u8]) {
        set_log(&self.store, &self.disk, id, bytes);
    }

    fn set_blob(&self, id: &SessionId, blob: &BlobRef, bytes: Option<&[u8]>) {
        set_blob(&self.store, &self.disk, id, blob, bytes);
    }

    fn fail_next(&self, fault: Fault) {
        let next = |on, error| self.disk.inject(sim_disk::Fault::next(on, error));
        match fault {
            Fault::WriteNoRoom => next(OpKind::Write, ErrorKind::StorageFull),
            Fault::WriteBroken => next(OpKind::Write, ErrorKind::Other),
            Fault::WriteShort => {
                self.disk.set_capacity(Some(self.disk.used() + 100));
            }
            Fault::Sync => next(OpKind::Sync, ErrorKind::Other),
        }
    }

    fn heal(&self) {
        self.disk.heal();
    }

    fn crash(&mut self, _: usize) {
        *self = Self::on(self.disk.crash());
    }

    fn revoke(&self, _: &SessionId) {
        panic!("the kernel does not take a lock away");
    }
}
