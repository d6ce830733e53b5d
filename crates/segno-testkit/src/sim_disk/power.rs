//! What the next process finds after a crash.
//!
//! Responsible for: choosing, by the seed, what of the unsynced reached the medium. Must not: lose or
//! damage anything that was synced.

use super::file::Content;
use super::tree::{Node, World, apply};
use crate::sessions::Rng;

impl World {
    /// Only the process is gone.
    pub(super) fn lose_process(&self) -> Self {
        let mut next = self.with_nodes(self.nodes.clone(), self.rng.clone().next_u64());
        next.pending.clone_from(&self.pending);
        next
    }

    /// Power is gone: memory with it.
    pub(super) fn lose_power(&self) -> Self {
        let mut rng = self.rng.clone();
        let mut nodes = self.nodes.clone();
        for change in &self.pending {
            if rng.below(2) == 0 {
                apply(&mut nodes, change);
            }
        }
        let mut inos: Vec<u64> = nodes.keys().copied().collect();
        inos.sort_unstable();
        for ino in inos {
            match nodes.get_mut(&ino) {
                Some(Node::File(content)) => lose_unsynced(content, &mut rng),
                Some(Node::Dir { cached, durable }) => cached.clone_from(durable),
                None => {}
            }
        }
        self.with_nodes(nodes, rng.next_u64())
    }
}

fn lose_unsynced(content: &mut Content, rng: &mut Rng) {
    let old = content.durable.len();
    let new = content.cached.len();
    for sector in std::mem::take(&mut content.dirty) {
        if rng.below(2) == 0 {
            content.write_back(sector);
        }
    }
    let between = old.min(new) + rng.below(old.abs_diff(new) + 1);
    let lengths = if content.length_dirty { [old, new, between] } else { [old; 3] };
    let len = lengths[rng.below(lengths.len())];
    content.come_back(len);
}
