//! Names of the simulated disk: directories in memory, on the medium, and the changes between.
//!
//! Responsible for: what creating, linking, renaming and removing do, and which changes a directory's
//! sync makes durable. Must not: know content.

use super::faults::{Faults, OpKind};
use super::file::Content;
use crate::sessions::Rng;
use segno_store::disk::{Entry, FileId, Medium, Meta};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

pub(super) const ROOT: u64 = 1;

/// A directory's names.
pub(super) type Names = BTreeMap<String, u64>;

#[derive(Debug, Clone)]
pub(super) enum Node {
    File(Content),
    /// Names as processes see them, and as the medium holds them.
    Dir {
        cached: Names,
        durable: Names,
    },
}

/// A change of names that is not durable yet.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Add { dir: u64, name: String, ino: u64 },
    Remove { dir: u64, name: String },
    Rename { from: (u64, String), to: (u64, String), ino: u64 },
}

impl Change {
    fn touches(&self, of: u64) -> bool {
        match self {
            Self::Add { dir, .. } | Self::Remove { dir, .. } => *dir == of,
            Self::Rename { from, to, .. } => from.0 == of || to.0 == of,
        }
    }
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) nodes: HashMap<u64, Node>,
    pub(super) pending: Vec<Change>,
    pub(super) capacity: Option<u64>,
    pub(super) medium: Medium,
    pub(super) faults: Faults,
    pub(super) rng: Rng,
    next_ino: u64,
    next_handle: u64,
    open: HashMap<u64, u64>,
    locks: HashMap<u64, u64>,
}

fn missing() -> io::Error {
    ErrorKind::NotFound.into()
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let root = Node::Dir { cached: Names::new(), durable: Names::new() };
        Self {
            nodes: HashMap::from([(ROOT, root)]),
            pending: Vec::new(),
            capacity: None,
            medium: Medium::Local,
            faults: Faults::default(),
            rng: Rng::new(seed),
            next_ino: ROOT + 1,
            next_handle: 1,
            open: HashMap::new(),
            locks: HashMap::new(),
        }
    }

    /// The same nodes for the next process, with nothing open.
    pub(super) fn with_nodes(&self, nodes: HashMap<u64, Node>, seed: u64) -> Self {
        Self {
            nodes,
            capacity: self.capacity,
            medium: self.medium.clone(),
            next_ino: self.next_ino,
            next_handle: self.next_handle,
            ..Self::new(seed)
        }
    }

    pub(super) fn begin(&mut self, kind: OpKind) -> io::Result<()> {
        self.faults.begin(kind)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.faults.stop_at.is_some_and(|stop| self.faults.count >= stop)
    }

    pub(super) fn used(&self) -> u64 {
        let in_use = |ino: &u64| self.links(*ino) > 0 || self.open.contains_key(ino);
        let sizes = self.nodes.iter().map(|(ino, node)| match node {
            Node::File(content) if in_use(ino) => content.cached.len() as u64,
            _ => 0,
        });
        sizes.sum()
    }

    /// How many of `wanted` bytes a write takes now.
    pub(super) fn how_much_fits(&mut self, wanted: usize) -> io::Result<usize> {
        let room = self.capacity.map_or(u64::MAX, |c| c.saturating_sub(self.used()));
        if room == 0 && wanted > 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        let fits = wanted.min(usize::try_from(room).unwrap_or(usize::MAX));
        if self.faults.short_writes && fits > 1 {
            return Ok(1 + self.rng.below(fits));
        }
        Ok(fits)
    }

    pub(super) fn file(&self, ino: u64) -> io::Result<&Content> {
        match self.nodes.get(&ino) {
            Some(Node::File(content)) => Ok(content),
            _ => Err(ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn file_mut(&mut self, ino: u64) -> io::Result<&mut Content> {
        match self.nodes.get_mut(&ino) {
            Some(Node::File(content)) => Ok(content),
            _ => Err(ErrorKind::IsADirectory.into()),
        }
    }

    fn names(&self, ino: u64) -> io::Result<&Names> {
        match self.nodes.get(&ino) {
            Some(Node::Dir { cached, .. }) => Ok(cached),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    fn names_mut(&mut self, ino: u64) -> io::Result<&mut Names> {
        match self.nodes.get_mut(&ino) {
            Some(Node::Dir { cached, .. }) => Ok(cached),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn resolve(&self, path: &Path) -> io::Result<u64> {
        let mut ino = ROOT;
        for part in path.components() {
            if let Component::Normal(name) = part {
                let name = name.to_str().ok_or_else(missing)?;
                ino = *self.names(ino)?.get(name).ok_or_else(missing)?;
            }
        }
        Ok(ino)
    }

    /// The directory that holds a path's last name, and that name.
    fn place(&self, path: &Path) -> io::Result<(u64, String)> {
        let name = path.file_name().and_then(|n| n.to_str()).ok_or_else(missing)?;
        let dir = self.resolve(path.parent().unwrap_or(Path::new("/")))?;
        Ok((dir, name.to_owned()))
    }

    fn add(&mut self, path: &Path, ino: u64) -> io::Result<()> {
        let (dir, name) = self.place(path)?;
        let names = self.names_mut(dir)?;
        if names.contains_key(&name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        names.insert(name.clone(), ino);
        self.pending.push(Change::Add { dir, name, ino });
        Ok(())
    }

    fn create(&mut self, path: &Path, node: Node) -> io::Result<u64> {
        let ino = self.next_ino;
        self.add(path, ino)?;
        self.next_ino += 1;
        self.nodes.insert(ino, node);
        Ok(ino)
    }

    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<u64> {
        self.create(path, Node::File(Content::default()))
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let dir = Node::Dir { cached: Names::new(), durable: Names::new() };
        self.create(path, dir).map(drop)
    }

    pub(super) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ino = self.resolve(from)?;
        self.file(ino)?;
        self.add(to, ino)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let ino = self.resolve(from)?;
        let (from, to) = (self.place(from)?, self.place(to)?);
        if self.names(to.0)?.get(&to.1).is_some_and(|old| self.names(*old).is_ok()) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.names_mut(from.0)?.remove(&from.1);
        self.names_mut(to.0)?.insert(to.1.clone(), ino);
        self.pending.push(Change::Rename { from, to, ino });
        self.forget_unreachable();
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path, is_dir: bool) -> io::Result<()> {
        let ino = self.resolve(path)?;
        let (dir, name) = self.place(path)?;
        if is_dir && !self.names(ino)?.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        if !is_dir {
            self.file(ino)?;
        }
        self.names_mut(dir)?.remove(&name);
        self.pending.push(Change::Remove { dir, name });
        self.forget_unreachable();
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let ino = self.resolve(path)?;
        self.names(ino)?;
        let pending = std::mem::take(&mut self.pending);
        let (now, later): (Vec<_>, Vec<_>) = pending.into_iter().partition(|c| c.touches(ino));
        self.pending = later;
        now.iter().for_each(|change| apply(&mut self.nodes, change));
        self.forget_unreachable();
        Ok(())
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        let names = self.names(self.resolve(path)?)?;
        let entry = |(name, ino): (&String, &u64)| Entry {
            name: name.clone(),
            is_dir: self.names(*ino).is_ok(),
            is_link: false,
        };
        Ok(names.iter().map(entry).collect())
    }

    pub(super) fn meta(&self, ino: u64) -> Meta {
        let id = FileId { dev: 1, ino };
        let (len, modified_ns, is_dir) = match self.nodes.get(&ino) {
            Some(Node::File(content)) => (content.cached.len() as u64, content.changes, false),
            _ => (0, 0, true),
        };
        Meta { id, links: self.links(ino), len, is_dir, modified_ns }
    }

    fn links(&self, ino: u64) -> u64 {
        let dirs = self.nodes.values().filter_map(|node| match node {
            Node::Dir { cached, .. } => Some(cached.values()),
            Node::File(_) => None,
        });
        dirs.flatten().filter(|i| **i == ino).count() as u64
    }

    pub(super) fn new_handle(&mut self) -> u64 {
        self.next_handle += 1;
        self.next_handle
    }

    pub(super) fn opened(&mut self, ino: u64) {
        *self.open.entry(ino).or_insert(0) += 1;
    }

    pub(super) fn closed(&mut self, ino: u64, handle: u64) {
        if self.locks.get(&ino) == Some(&handle) {
            self.locks.remove(&ino);
        }
        if let Some(count) = self.open.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&ino);
                self.forget_unreachable();
            }
        }
    }

    pub(super) fn try_lock(&mut self, ino: u64, handle: u64) -> bool {
        *self.locks.entry(ino).or_insert(handle) == handle
    }

    pub(super) fn is_locked(&self, ino: u64, handle: u64) -> bool {
        self.locks.get(&ino).is_some_and(|holder| *holder != handle)
    }

    /// Files that have no name anywhere and are not open give their room back.
    fn forget_unreachable(&mut self) {
        let mut named: Vec<u64> = self.open.keys().copied().collect();
        named.push(ROOT);
        // What was removed may come back with a crash until that is synced.
        named.extend(self.pending.iter().filter_map(|change| match change {
            Change::Add { ino, .. } | Change::Rename { ino, .. } => Some(*ino),
            Change::Remove { .. } => None,
        }));
        for node in self.nodes.values() {
            if let Node::Dir { cached, durable } = node {
                named.extend(cached.values().chain(durable.values()));
            }
        }
        self.nodes.retain(|ino, _| named.contains(ino));
    }
}

/// Carries one change out on the medium. A directory that never came to be durable takes what was in it
/// along.
pub(super) fn apply(nodes: &mut HashMap<u64, Node>, change: &Change) {
    match change {
        Change::Add { dir, name, ino } => {
            if let Some(Node::Dir { durable, .. }) = nodes.get_mut(dir) {
                durable.insert(name.clone(), *ino);
            }
        }
        Change::Remove { dir, name } => {
            if let Some(Node::Dir { durable, .. }) = nodes.get_mut(dir) {
                durable.remove(name);
            }
        }
        Change::Rename { from, to, ino } => {
            if let Some(Node::Dir { durable, .. }) = nodes.get_mut(&from.0) {
                durable.remove(&from.1);
            }
            if let Some(Node::Dir { durable, .. }) = nodes.get_mut(&to.0) {
                durable.insert(to.1.clone(), *ino);
            }
        }
    }
}
