//! What has been decided about damage: the items of `repair` records.
//!
//! Responsible for: matching damage to the decisions that settle it, and planning new ones. Must not:
//! append them.

use super::classify::{Piece, PieceKind};
use super::damage::{Damage, DamageKind};
use crate::id::Seq;
use crate::line::Record;
use crate::record::{Body, RepairItem};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The decisions in force.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    /// Accepted alterations: the line's SHA-256, by number.
    accepted: HashMap<String, Seq>,
    /// Bridged stretches: SHA-256 by offset and length.
    bridged: HashMap<(u64, u64), String>,
    /// Missing records: last by first.
    missing: BTreeMap<Seq, Seq>,
}

impl Settled {
    /// Takes a record's decisions into account, if it is a repair.
    pub fn add(&mut self, record: &Record) {
        if record.envelope.kind != "repair" {
            return;
        }
        let Body::Repair(repair) = record.body() else { return };
        for item in &repair.items {
            match item {
                RepairItem::Bridged { offset, bytes, sha256 } => {
                    self.bridged.insert((*offset, *bytes), sha256.clone());
                }
                RepairItem::Missing { first, last } => {
                    let known = self.missing.entry(*first).or_insert(*last);
                    *known = (*known).max(*last);
                }
                RepairItem::Accepted { seq, sha256, .. } => {
                    self.accepted.insert(sha256.clone(), *seq);
                }
                RepairItem::SetAside { .. } | RepairItem::Erased { .. } | RepairItem::Unknown => {}
            }
        }
    }

    /// The record that a piece is because its alteration was accepted.
    #[must_use]
    pub fn accepts<'a>(&self, piece: &'a Piece) -> Option<&'a Arc<Record>> {
        match &piece.kind {
            PieceKind::Altered { record, sha256 } => {
                Some(record).filter(|r| self.accepted.get(sha256) == Some(&r.seq()))
            }
            _ => None,
        }
    }

    /// Whether an alteration of this record was accepted.
    #[must_use]
    pub fn has_accepted(&self, seq: Seq) -> bool {
        self.accepted.values().any(|accepted| *accepted == seq)
    }

    /// Whether exactly these bytes in this place (counted from the end of line 1) were bridged.
    #[must_use]
    pub fn bridges(&self, offset: u64, bytes: u64, sha256: &str) -> bool {
        self.bridged.get(&(offset, bytes)).is_some_and(|known| known == sha256)
    }

    /// Whether all of these numbers were accepted as missing.
    #[must_use]
    pub fn misses(&self, first: Seq, last: Seq) -> bool {
        self.missing.range(..=first).any(|(_, known_last)| *known_last >= last)
    }
}

/// What settles some damage: altered records whose numbers are in `accept` are taken as they are,
/// everything else is passed over. Damage that nothing can settle (an unreadable header) has no item.
#[must_use]
pub fn plan(damages: &[Damage], accept: &[Seq]) -> Vec<RepairItem> {
    damages.iter().filter(|d| !d.settled).filter_map(|d| plan_one(d, accept)).collect()
}

fn plan_one(damage: &Damage, accept: &[Seq]) -> Option<RepairItem> {
    let Damage { offset, bytes, .. } = *damage;
    let sha256 = damage.sha256.clone();
    match damage.kind {
        DamageKind::Altered { seq } if accept.contains(&seq) => {
            Some(RepairItem::Accepted { seq, offset, sha256 })
        }
        _ if damage.at_header => None,
        DamageKind::Missing { first, last } => Some(RepairItem::Missing { first, last }),
        _ => Some(RepairItem::Bridged { offset, bytes, sha256 }),
    }
}
