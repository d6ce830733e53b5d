//! Sessions that are held and not judged, or judged and found damaged.
//!
//! Responsible for: the way from a right to a log. Must not: change a byte before a repair is asked for.

use super::load;
use super::log::{Right, StrictLog, Tail};
use super::world::Op;
use segno_model::active::Loaded;
use segno_model::batch::Draft;
use segno_model::finding::{Finding, LineNumbers};
use segno_model::record::{Repair, RepairItem};
use segno_model::store::{
    DamagedSession, HeldSession, Judged, Level, Opened, SessionLog, StoreError,
};
use segno_model::{Body, Seq, Timestamp};
use std::collections::BTreeSet;

/// A held, unjudged session.
#[derive(Debug)]
pub struct StrictHeld {
    pub(super) right: Right,
    /// Ids of inputs that waited before the right was taken.
    pub(super) stale: BTreeSet<String>,
}

/// A held session with damage in its active context.
#[derive(Debug)]
pub struct StrictDamaged {
    log: StrictLog,
    loaded: Loaded,
    findings: Vec<Finding>,
}

impl HeldSession for StrictHeld {
    type Log = StrictLog;
    type Damaged = StrictDamaged;

    async fn judge(self) -> Result<Judged<StrictLog, StrictDamaged>, StoreError> {
        let shared = self.right.world.clone();
        let mut world = shared.lock();
        world.check(Op::Read, "reading")?;
        let Some(stored) = world.logs.get(&self.right.id) else {
            return Err(StoreError::NotFound(self.right.id.clone()));
        };
        let (loaded, active) = load::load(&stored.bytes);
        loaded.check_writable()?;
        let tail = loaded.tail.as_ref().map(|tail| usize::try_from(tail.at).unwrap_or(0));
        let log = StrictLog {
            header: loaded.header_or_bare(&self.right.id),
            state: loaded.state.clone(),
            synced: loaded.durable,
            length: stored.bytes.len(),
            tail: tail.map(|at| Tail { at }),
            unended: loaded.needs_line_end,
            poison: None,
            stale: self.stale,
            right: self.right,
        };
        if loaded.blocking().next().is_none() {
            return Ok(Judged::Sound(Opened { log, active }));
        }
        let mut findings: Vec<_> = loaded.blocking().map(|damage| damage.finding.clone()).collect();
        LineNumbers::new(&mut findings).feed(&stored.bytes);
        Ok(Judged::Damaged(StrictDamaged { log, loaded, findings }))
    }
}

impl DamagedSession for StrictDamaged {
    type Log = StrictLog;

    fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn plan(&self, accept: &[Seq]) -> Vec<RepairItem> {
        self.loaded.plan(accept)
    }

    async fn repair(
        self,
        plan: Vec<RepairItem>,
        at: Timestamp,
    ) -> Result<Opened<StrictLog>, StoreError> {
        self.loaded.check_plan(&plan)?;
        let mut log = self.log;
        let repair = Repair { rule: "person".into(), by_person: true, items: plan };
        log.append(vec![Draft::new(at, Body::Repair(repair))], Level::Synced).await?;
        let world = log.right.world.clone();
        let bytes = world.lock().logs.get(&log.right.id).map(|l| l.bytes.clone());
        let (loaded, active) = load::load(&bytes.unwrap_or_default());
        loaded.check_repaired(log.right.id.as_str())?;
        log.state = loaded.state;
        Ok(Opened { log, active })
    }
}
