//! Files of the simulated disk: content in memory, content on the medium, and what differs.
//!
//! Responsible for: what writing, syncing and failing to sync do to one file. Must not: know names.

use super::SimDisk;
use super::faults::OpKind;
use segno_store::disk::{DiskFile, Meta};
use std::collections::BTreeSet;
use std::io;

/// The unit that the medium writes as a whole.
pub(super) const SECTOR: usize = 512;

/// One file's content.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    /// What readers see.
    pub(super) cached: Vec<u8>,
    /// What the medium holds.
    pub(super) durable: Vec<u8>,
    /// Sectors of `cached` that the next sync writes.
    pub(super) dirty: BTreeSet<usize>,
    /// Whether the length is still to be synced.
    pub(super) length_dirty: bool,
    /// How often it was changed; stands in for a time.
    pub(super) changes: i64,
}

impl Content {
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let from = self.cached.len();
        self.cached.extend_from_slice(bytes);
        self.touch(from, self.cached.len());
    }

    pub(super) fn truncate(&mut self, len: usize) {
        let before = self.cached.len();
        self.cached.resize(len, 0);
        self.touch(len.min(before), len.max(before));
    }

    fn touch(&mut self, from: usize, to: usize) {
        self.changes += 1;
        self.length_dirty = true;
        if to > from {
            self.dirty.extend(from / SECTOR..=(to - 1) / SECTOR);
        }
    }

    pub(super) fn sync(&mut self) {
        for sector in std::mem::take(&mut self.dirty) {
            self.write_back(sector);
        }
        if std::mem::take(&mut self.length_dirty) {
            self.durable.resize(self.cached.len(), 0);
        }
    }

    /// Writes one sector to the medium, without the length that makes it visible there.
    pub(super) fn write_back(&mut self, sector: usize) {
        let from = sector * SECTOR;
        let to = ((sector + 1) * SECTOR).min(self.cached.len());
        if from >= to {
            return;
        }
        if self.durable.len() < to {
            self.durable.resize(to, 0);
        }
        self.durable[from..to].copy_from_slice(&self.cached[from..to]);
    }

    /// The pages count as clean though the medium lacks them.
    pub(super) fn fail_sync(&mut self) {
        self.dirty.clear();
        self.length_dirty = false;
    }

    /// Only what the medium holds is left, with this length.
    pub(super) fn come_back(&mut self, len: usize) {
        self.durable.resize(len, 0);
        self.cached.clone_from(&self.durable);
        self.dirty.clear();
        self.length_dirty = false;
    }

    pub(super) fn set_durable(&mut self, bytes: &[u8]) {
        self.cached = bytes.to_vec();
        self.durable = bytes.to_vec();
        self.dirty.clear();
        self.length_dirty = false;
        self.changes += 1;
    }

    /// Clean sectors show what the medium holds; the length is known to the system and stays.
    pub(super) fn forget_clean(&mut self) {
        for sector in 0..self.cached.len().div_ceil(SECTOR) {
            if self.dirty.contains(&sector) {
                continue;
            }
            let from = sector * SECTOR;
            let to = (from + SECTOR).min(self.cached.len());
            for at in from..to {
                self.cached[at] = self.durable.get(at).copied().unwrap_or(0);
            }
        }
    }
}

/// An open file of the simulated disk.
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    ino: u64,
    /// Tells the holder of a lock.
    handle: u64,
}

impl SimFile {
    pub(super) fn new(disk: SimDisk, ino: u64) -> Self {
        let handle = disk.lock().new_handle();
        Self { disk, ino, handle }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.lock().closed(self.ino, self.handle);
    }
}

impl DiskFile for SimFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.disk.lock();
        world.begin(OpKind::Write)?;
        let fits = world.how_much_fits(bytes.len())?;
        world.file_mut(self.ino)?.append(&bytes[..fits]);
        Ok(fits)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut world = self.disk.lock();
        world.begin(OpKind::Read)?;
        let cached = &world.file(self.ino)?.cached;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(cached.len());
        let count = buffer.len().min(cached.len() - from);
        buffer[..count].copy_from_slice(&cached[from..from + count]);
        world.faults.bytes_read += count as u64;
        Ok(count)
    }

    fn copy_from(&self, source: &Self, offset: u64, len: u64) -> io::Result<u64> {
        let mut block = vec![0; usize::try_from(len.min(64 * 1024)).unwrap_or(0)];
        let read = source.read_at(&mut block, offset)?;
        self.write(&block[..read]).map(|n| n as u64)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.disk.lock();
        let allowed = world.begin(OpKind::Sync);
        world.faults.file_syncs += 1;
        let dead = world.is_dead();
        let file = world.file_mut(self.ino)?;
        match &allowed {
            Ok(()) => file.sync(),
            // A dead process asks for nothing, so nothing fails either.
            Err(_) if dead => {}
            Err(_) => file.fail_sync(),
        }
        allowed
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut world = self.disk.lock();
        world.begin(OpKind::Truncate)?;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        world.file_mut(self.ino)?.truncate(len);
        Ok(())
    }

    fn meta(&self) -> io::Result<Meta> {
        let mut world = self.disk.lock();
        world.begin(OpKind::Meta)?;
        Ok(world.meta(self.ino))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.disk.let_others_act();
        let mut world = self.disk.lock();
        world.begin(OpKind::Lock)?;
        Ok(world.try_lock(self.ino, self.handle))
    }

    fn is_locked(&self) -> io::Result<bool> {
        let mut world = self.disk.lock();
        world.begin(OpKind::Lock)?;
        Ok(world.is_locked(self.ino, self.handle))
    }

    fn forget_cached(&self, _offset: u64) {
        let mut world = self.disk.lock();
        if world.begin(OpKind::Meta).is_ok()
            && let Ok(file) = world.file_mut(self.ino)
        {
            file.forget_clean();
        }
    }
}
