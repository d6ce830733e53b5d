//! The judgement of a log: what each line is, what is tail, what is damage (G2, G3, G4).
//!
//! Responsible for: pure decisions over bytes, in four steps: [`classify`] takes one line apart,
//! [`sequence`] finds each record's place in the count, [`table`] gives the verdict, [`damage`] applies
//! and words it; [`settle`] knows what repairs decided. Must not: read or write; what resuming needs is
//! [`crate::active`].

pub mod classify;
mod crc;
pub mod damage;
pub mod scan;
pub mod sequence;
pub mod settle;
pub mod table;

pub use classify::{Line, Piece, PieceKind};
pub use damage::{Basis, Damage, DamageKind, Judge, Outcome, Tail};
pub use scan::Scanner;
pub use settle::{Settled, plan};

use crate::active::{Loader, load_with};
use crate::id::Seq;
use crate::line::Record;
use crate::store::Scanned;

/// The physical lines of some bytes: where each begins, its bytes without the line end, and whether a
/// line end follows. Records end at byte 0x0A and nowhere else.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8], bool)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let (len, ended) = memchr::memchr(b'\n', rest).map_or((rest.len(), false), |n| (n, true));
        let start = at;
        at += len + usize::from(ended);
        Some((start as u64, &rest[..len], ended))
    })
}

/// What a record says about durability; a mark that is not below the record's own number is none.
#[must_use]
pub fn mark_of(record: &Record) -> Option<Seq> {
    record.envelope.synced.filter(|synced| *synced < record.seq())
}

/// Judges a whole log in memory, forward, with the mark and the repairs that resuming would know.
#[must_use]
pub fn scan_bytes(bytes: &[u8]) -> Vec<Scanned> {
    let loader = Loader::new(bytes.len() as u64).for_scan();
    let mut scanner = Scanner::new(load_with(bytes, loader).0.basis);
    for (_, line, ended) in lines(bytes) {
        scanner.line(line, ended);
    }
    scanner.finish();
    std::iter::from_fn(|| scanner.next_scanned()).collect()
}
