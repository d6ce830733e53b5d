//! A disk in memory that fails on command and forgets what nobody synced.
//!
//! Responsible for: one deterministic disk per seed behind the store's disk trait. Must not: fail in
//! ways that no medium permits, since a store that survived those would prove nothing more.
//!
//! What is permitted, and why:
//! - A write may take fewer bytes than given: POSIX allows it, and a nearly full disk does it.
//! - No room: the data of all files together may not exceed a capacity; a write that crosses it is
//!   short, the next one fails.
//! - Any operation can be made to fail with an error of the test's choice; it does nothing then.
//! - After a failed sync the dirty pages count as clean, as on Linux: memory still shows them, the
//!   medium may lack them, and a later sync that succeeds does not write them.
//! - When power is lost, each 512-byte sector that was not synced holds its old or its new content, in
//!   any combination; the length is the old one, the new one or between; what was never written reads
//!   as zeros. A sector is never half new: drives promise that much, and without it no appended byte
//!   could be safe beside a synced one in its sector.
//! - When power is lost, each change of a directory (create, link, rename, remove) that was not synced
//!   by syncing that directory did or did not happen, independently of the others; one rename is all
//!   or nothing, as on every journalling file system.
//! - When only the process dies, nothing is lost but open files and locks.

mod faults;
mod file;
mod power;
mod states;
mod tree;
mod turns;

pub use faults::{Fault, OpKind};
pub use file::SimFile;
pub use states::CrashStates;
pub use turns::{Order, Process, in_every_order};

use crate::sim_disk::tree::World;
use segno_store::disk::{Disk, Entry, Medium, Meta, Writes};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A process's view of a simulated disk.
#[derive(Debug, Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
    meanwhile: Arc<Mutex<Meanwhile>>,
    /// When processes take turns: this one's place.
    turn: Option<turns::Turn>,
}

/// What another process does in between.
#[derive(Default)]
struct Meanwhile(Option<Deed>);

type Deed = Box<dyn FnOnce(&SimDisk) + Send>;

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Meanwhile" } else { "Nothing" })
    }
}

impl SimDisk {
    /// An empty disk. Everything random about it follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::of(World::new(seed))
    }

    fn of(world: World) -> Self {
        Self { world: Arc::new(Mutex::new(world)), meanwhile: Arc::default(), turn: None }
    }

    /// Another process does this right before the next attempt to lock a file, which was opened by then.
    pub fn before_the_next_lock(&self, act: impl FnOnce(&Self) + Send + 'static) {
        self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(Box::new(act));
    }

    fn let_others_act(&self) {
        let act = self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner).0.take();
        if let Some(act) = act {
            act(self);
        }
    }

    /// The same disk for a process that waits for its turn before each step.
    fn in_turn(&self, turn: turns::Turn) -> Self {
        Self { turn: Some(turn), ..self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        if let Some(turn) = &self.turn {
            turn.wait();
        }
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many operations were tried so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.lock().faults.count
    }

    /// After `n` more operations this process is dead: everything fails.
    pub fn stop_after(&self, n: u64) {
        let mut world = self.lock();
        world.faults.stop_at = Some(world.faults.count + n);
    }

    /// This process is dead right before its `n`-th change of the disk from now on, counted from 0:
    /// everything fails from there.
    pub fn stop_before_change(&self, n: u64) {
        let mut world = self.lock();
        world.faults.stop_at_change = Some(world.faults.changes + n);
    }

    /// How many changes of the disk were tried so far.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.lock().faults.changes
    }

    /// Makes an operation fail.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.waiting.push(fault);
    }

    /// No failure is to come any more, and there is room.
    pub fn heal(&self) {
        let mut world = self.lock();
        world.faults.waiting.clear();
        world.faults.short_writes = false;
        world.capacity = None;
    }

    /// How many bytes all files together may hold; none is no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// How many bytes all files hold.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().used()
    }

    /// Makes every write take a random number of bytes, at least one.
    pub fn set_short_writes(&self, short: bool) {
        self.lock().faults.short_writes = short;
    }

    /// What [`Disk::medium`] says.
    pub fn set_medium(&self, medium: Medium) {
        self.lock().medium = medium;
    }

    /// How many files were synced so far, and how many directories.
    #[must_use]
    pub fn syncs(&self) -> (u64, u64) {
        let world = self.lock();
        (world.faults.file_syncs, world.faults.dir_syncs)
    }

    /// How many bytes were read from files so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.lock().faults.bytes_read
    }

    /// Power is lost. Gives the disk as the next process finds it; this one is dead.
    #[must_use]
    pub fn crash(&self) -> Self {
        self.next(World::lose_power)
    }

    /// The process is killed; the system goes on. Gives the disk as the next process finds it.
    #[must_use]
    pub fn kill(&self) -> Self {
        self.next(World::lose_process)
    }

    /// Another disk with the same content, on which nothing is open.
    #[must_use]
    pub fn kill_copy(&self) -> Self {
        Self::of(self.lock().lose_process())
    }

    fn next(&self, after: fn(&World) -> World) -> Self {
        let mut world = self.lock();
        let next = after(&world);
        world.faults.stop_at = Some(0);
        Self::of(next)
    }

    /// A file's bytes as the next reader sees them, without counting as an operation.
    #[must_use]
    pub fn peek(&self, path: &Path) -> Option<Vec<u8>> {
        let world = self.lock();
        let ino = world.resolve(path).ok()?;
        world.file(ino).ok().map(|file| file.cached.clone())
    }

    /// Puts bytes in the place of a file's, durably, without counting as an operation.
    pub fn poke(&self, path: &Path, bytes: &[u8]) {
        let mut world = self.lock();
        if let Ok(ino) = world.resolve(path)
            && let Ok(file) = world.file_mut(ino)
        {
            file.set_durable(bytes);
        }
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn open_read(&self, path: &Path) -> io::Result<SimFile> {
        self.open(path, OpKind::Open)
    }

    fn open_append(&self, path: &Path) -> io::Result<SimFile> {
        self.open(path, OpKind::Open)
    }

    fn create_new(&self, path: &Path, _writes: Writes) -> io::Result<SimFile> {
        let mut world = self.lock();
        world.begin(OpKind::Create)?;
        let ino = world.create_file(path)?;
        world.opened(ino);
        drop(world);
        Ok(SimFile::new(self.clone(), ino))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.lock();
        world.begin(OpKind::CreateDir)?;
        world.create_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.lock();
        world.begin(OpKind::SyncDir)?;
        world.faults.dir_syncs += 1;
        world.sync_dir(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let mut world = self.lock();
        world.begin(OpKind::List)?;
        world.list(path)
    }

    fn meta(&self, path: &Path) -> io::Result<Meta> {
        let mut world = self.lock();
        world.begin(OpKind::Meta)?;
        let ino = world.resolve(path)?;
        Ok(world.meta(ino))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.lock();
        world.begin(OpKind::Rename)?;
        world.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.lock();
        world.begin(OpKind::Link)?;
        world.hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut world = self.lock();
        world.begin(OpKind::Remove)?;
        world.remove(path, false)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.lock();
        world.begin(OpKind::Remove)?;
        world.remove(path, true)
    }

    fn make_private(&self, path: &Path) -> io::Result<()> {
        let mut world = self.lock();
        world.begin(OpKind::Meta)?;
        world.resolve(path).map(drop)
    }

    fn medium(&self, _path: &Path) -> io::Result<Medium> {
        let mut world = self.lock();
        world.begin(OpKind::Meta)?;
        Ok(world.medium.clone())
    }
}

impl SimDisk {
    fn open(&self, path: &Path, kind: OpKind) -> io::Result<SimFile> {
        let mut world = self.lock();
        world.begin(kind)?;
        let ino = world.resolve(path)?;
        if world.meta(ino).is_dir {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        world.opened(ino);
        drop(world);
        Ok(SimFile::new(self.clone(), ino))
    }
}
