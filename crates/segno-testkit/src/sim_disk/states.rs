//! Every disk that the next process may find when power is lost at one moment.
//!
//! Responsible for: numbering them, so that each can be made again from its number, and choosing some
//! where there are too many. Must not: make a state that no medium permits (see [`super`]).
//!
//! A state is a choice per unsynced change: each change of a directory happened or not; each dirty
//! sector holds its old or its new content; each length is the old one, the new one, or ends between,
//! at a sector's border or within the last sector. What was never written reads as zeros.

use super::SimDisk;
use super::file::{Content, SECTOR};
use super::tree::{Node, World, apply};
use crate::sessions::Rng;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// One thing that may or may not have reached the medium.
#[derive(Debug, Clone, Copy)]
enum Choice {
    /// The `n`-th pending change of a directory.
    Change(usize),
    /// A dirty sector of a file.
    Sector(u64, usize),
    /// A file's length.
    Length(u64),
}

/// All states of a disk after power is lost now.
#[derive(Debug)]
pub struct CrashStates {
    disk: SimDisk,
    /// With the number of ways that each can go.
    choices: Vec<(Choice, u128)>,
}

impl SimDisk {
    /// What may be found when power is lost now. The process that uses this disk may go on.
    #[must_use]
    pub fn crash_states(&self) -> CrashStates {
        let choices = self.lock().choices();
        CrashStates { disk: self.clone(), choices }
    }

    /// A number for what the medium holds: two disks with the same one hold the same, as far as 64 bits
    /// tell.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.lock().fingerprint()
    }
}

impl CrashStates {
    /// How many there are; different numbers may give the same content.
    #[must_use]
    pub fn total(&self) -> u128 {
        self.choices.iter().fold(1, |total, (_, ways)| total.saturating_mul(*ways))
    }

    /// One of them. The same number gives the same state as long as nothing else is done to the disk.
    #[must_use]
    pub fn nth(&self, mut number: u128) -> SimDisk {
        let world = self.disk.lock();
        let mut nodes = world.nodes.clone();
        let mut lengths = HashMap::new();
        for (choice, ways) in &self.choices {
            let way = number % ways;
            number /= ways;
            match *choice {
                Choice::Change(n) if way == 1 => {
                    world.pending.get(n).into_iter().for_each(|change| apply(&mut nodes, change));
                }
                Choice::Sector(ino, sector) if way == 1 => {
                    if let Some(Node::File(content)) = nodes.get_mut(&ino) {
                        content.write_back(sector);
                    }
                }
                Choice::Length(ino) => drop(lengths.insert(ino, way)),
                Choice::Change(_) | Choice::Sector(..) => {}
            }
        }
        for (ino, node) in &mut nodes {
            let before = world.file(*ino).ok();
            match (node, before) {
                (Node::File(content), Some(before)) => {
                    let ways = possible_lengths(before);
                    let way = lengths.get(ino).and_then(|way| usize::try_from(*way).ok());
                    let len = way.and_then(|way| ways.get(way)).copied();
                    content.come_back(len.unwrap_or(before.durable.len()));
                }
                (Node::Dir { cached, durable }, _) => cached.clone_from(durable),
                (Node::File(_), None) => {}
            }
        }
        SimDisk::of(world.with_nodes(nodes, 1))
    }

    /// The numbers of at most `limit` states: all of them where they are no more, otherwise the corners
    /// (all lost, all kept, all but one, one alone) and then others, drawn by `seed`.
    pub fn sample(&self, limit: usize, seed: u64) -> impl Iterator<Item = u128> + '_ {
        let total = self.total();
        let all = (total <= limit as u128).then_some(0..total);
        let drawn = all.is_none().then(|| {
            let mut rng = Rng::new(seed);
            let random = std::iter::repeat_with(move || {
                (u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())) % total
            });
            self.corners().into_iter().chain(random).take(limit)
        });
        all.into_iter().flatten().chain(drawn.into_iter().flatten())
    }

    fn corners(&self) -> Vec<u128> {
        let mut weights = Vec::new();
        let mut weight: u128 = 1;
        for (_, ways) in &self.choices {
            weights.push((weight, ways - 1));
            weight = weight.saturating_mul(*ways);
        }
        // Of more choices than a number has room for, the last ones stay as they are.
        let weights: Vec<u128> = weights.iter().map(|(w, most)| w.saturating_mul(*most)).collect();
        let all = weights.iter().fold(0u128, |sum, weight| sum.saturating_add(*weight));
        let single = weights.iter().flat_map(|weight| [*weight, all.saturating_sub(*weight)]);
        [0, all].into_iter().chain(single).filter(|n| *n < self.total()).collect()
    }
}

impl World {
    fn choices(&self) -> Vec<(Choice, u128)> {
        let mut choices: Vec<_> = (0..self.pending.len()).map(|n| (Choice::Change(n), 2)).collect();
        let mut inos: Vec<u64> = self.nodes.keys().copied().collect();
        inos.sort_unstable();
        for ino in inos {
            let Some(Node::File(content)) = self.nodes.get(&ino) else { continue };
            choices.extend(content.dirty.iter().map(|sector| (Choice::Sector(ino, *sector), 2)));
            let ways = possible_lengths(content).len();
            if ways > 1 {
                choices.push((Choice::Length(ino), ways as u128));
            }
        }
        choices
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut nodes: Vec<_> = self.nodes.iter().collect();
        nodes.sort_unstable_by_key(|(ino, _)| **ino);
        for (ino, node) in nodes {
            ino.hash(&mut hasher);
            match node {
                Node::File(content) => content.durable.hash(&mut hasher),
                Node::Dir { durable, .. } => durable.hash(&mut hasher),
            }
        }
        hasher.finish()
    }
}

/// The lengths that a file may have.
fn possible_lengths(content: &Content) -> Vec<usize> {
    let (old, new) = (content.durable.len(), content.cached.len());
    if !content.length_dirty || old == new {
        return vec![old];
    }
    let (low, high) = (old.min(new), old.max(new));
    let borders = (low / SECTOR + 1..=high / SECTOR).map(|sector| sector * SECTOR);
    let mut lengths: Vec<usize> = borders.collect();
    lengths.extend([low, high, low + (high - low) / 2, high - 1]);
    lengths.retain(|len| (low..=high).contains(len));
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}
