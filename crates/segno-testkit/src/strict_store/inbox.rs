//! The inbox of the strict store.
//!
//! Responsible for: admissions, what waits, and taking away only what is settled for good. Must not:
//! remember anything that the medium would not.

use super::load;
use super::world::{Op, World};
use segno_model::inbox::admission::{Admission, Decision, Held, Said, decide};
use segno_model::inbox::{Inbox, NewInput, Pending, Used, file, sort, used};
use segno_model::store::StoreError;
use segno_model::{SessionId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What was admitted to one session and not taken away, by id.
pub(super) type Entries = BTreeMap<String, Pending>;

/// Admits, or says what was admitted under the id.
pub(super) fn admit(
    world: &mut World,
    id: &SessionId,
    input: &NewInput,
    at: Timestamp,
) -> Result<Admission, StoreError> {
    input.check()?;
    let bytes = bytes_of(world, id)?;
    let (loaded, _) = load::load(&bytes);
    loaded.check_writable()?;
    if loaded.state.next_seq == 0 {
        return Err(StoreError::NotFound(id.clone()));
    }
    file::encode(0, at, input)?;
    world.check(Op::Write, "writing")?;
    world.check(Op::Sync, "syncing")?;
    let used = used_ids(&bytes);
    let said = Said::of(used.get(&input.id), input);
    let entries = world.inboxes.entry(id.clone()).or_default();
    let held = match entries.get(&input.id) {
        None => Held::Ours,
        Some(there) if there.input == *input => Held::Same,
        Some(_) => Held::Other,
    };
    match decide(held, said) {
        Decision::Say(admission) => {
            if admission == Admission::Admitted {
                let order = entries.values().map(|p| p.order).max().unwrap_or(0) + 1;
                let pending = Pending { order, at, stale: false, input: input.clone() };
                entries.insert(input.id.clone(), pending);
            }
            Ok(admission)
        }
        Decision::TakeBack(admission) => Ok(admission),
        Decision::SetAside | Decision::Again => {
            Err(StoreError::refused("invariant broken: an entry that cannot be"))
        }
    }
}

/// What waits.
pub(super) fn pending(world: &mut World, id: &SessionId) -> Result<Inbox, StoreError> {
    let bytes = bytes_of(world, id)?;
    let mut pending: Vec<Pending> = match world.inboxes.get(id) {
        None => Vec::new(),
        Some(entries) => {
            let used = used_ids(&bytes);
            let waits = |p: &&Pending| !used.get(&p.input.id).is_some_and(|u| u.stage.is_settled());
            entries.values().filter(waits).cloned().collect()
        }
    };
    sort(&mut pending);
    Ok(Inbox { pending, findings: Vec::new() })
}

/// The ids that are there.
pub(super) fn ids(world: &World, id: &SessionId) -> BTreeSet<String> {
    world.inboxes.get(id).map(|entries| entries.keys().cloned().collect()).unwrap_or_default()
}

/// Takes away what a durable record settles; nothing else may be.
pub(super) fn clear(world: &mut World, id: &SessionId) {
    let durable = world.logs.get(id).map_or(&[][..], |log| &log.bytes[..log.durable]).to_vec();
    let used = used_ids(&durable);
    if let Some(entries) = world.inboxes.get_mut(id) {
        entries.retain(|id, _| !used.get(id).is_some_and(|used| used.stage.is_settled()));
    }
}

fn bytes_of(world: &mut World, id: &SessionId) -> Result<Vec<u8>, StoreError> {
    world.check(Op::Read, "reading")?;
    let log = world.logs.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
    Ok(log.bytes.clone())
}

/// The newest that the log says of each id; what settles one holds.
fn used_ids(bytes: &[u8]) -> BTreeMap<String, Used> {
    let mut all: BTreeMap<String, Used> = BTreeMap::new();
    for used in load::records(bytes).iter().flat_map(used) {
        let settled = all.get(&used.id).is_some_and(|before| before.stage.is_settled());
        if !settled || used.stage.is_settled() {
            all.insert(used.id.clone(), used);
        }
    }
    all
}
