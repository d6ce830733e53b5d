//! The bytes of the input index.
//!
//! Responsible for: entries and trailer, both ways. Must not: read or write files.

use segno_model::inbox::{Stage, Used};
use segno_model::line::checksum;
use segno_model::record::InputKind;
use segno_model::{Pos, Seq};

/// The first line.
pub(super) const MAGIC: &[u8; 15] = b"segno inputs 1\n";

/// An entry: the id's hash, the stage, the kind (0: not told), `seq`, what was admitted as a hash.
pub(super) const ENTRY: usize = 32 + 1 + 1 + 8 + 32;

/// The trailer: length of line 1; `seq`, offset and checksum of the last record; checksum of the file.
pub(super) const TRAILER: usize = 8 + 8 + 8 + 4 + 4;

const KINDS: [InputKind; 8] = [
    InputKind::Steer,
    InputKind::Queue,
    InputKind::Stop,
    InputKind::Withdraw,
    InputKind::Reorder,
    InputKind::Deliver,
    InputKind::Answer,
    InputKind::Suspend,
];

/// The kind of an entry that a later version's record is about.
const UNKNOWN: u8 = 255;

/// How far an index reaches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trailer {
    /// Bytes of line 1 with its end.
    pub(super) origin: u64,
    /// The last record that it knows.
    pub(super) reach: Pos,
}

impl Trailer {
    pub(super) fn encode(self, sum: u32) -> [u8; TRAILER] {
        let mut bytes = Vec::with_capacity(TRAILER);
        bytes.extend_from_slice(&self.origin.to_le_bytes());
        bytes.extend_from_slice(&self.reach.seq.to_le_bytes());
        bytes.extend_from_slice(&self.reach.offset.to_le_bytes());
        bytes.extend_from_slice(&self.reach.crc.to_le_bytes());
        bytes.extend_from_slice(&whole_sum(sum, &bytes).to_le_bytes());
        bytes.try_into().unwrap_or([0; TRAILER])
    }

    /// None when the file before it or its own bytes are not those that were written.
    pub(super) fn decode(bytes: &[u8; TRAILER], sum: u32) -> Option<Self> {
        let (facts, stored) = bytes.split_last_chunk()?;
        if u32::from_le_bytes(*stored) != whole_sum(sum, facts) {
            return None;
        }
        let (origin, rest) = facts.split_first_chunk()?;
        let (seq, rest) = rest.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let crc = rest.first_chunk()?;
        let reach = Pos {
            seq: Seq::from_le_bytes(*seq),
            offset: u64::from_le_bytes(*offset),
            crc: u32::from_le_bytes(*crc),
        };
        Some(Self { origin: u64::from_le_bytes(*origin), reach })
    }
}

fn whole_sum(sum: u32, facts: &[u8]) -> u32 {
    checksum(&[&sum.to_le_bytes(), facts].concat())
}

/// An entry's bytes; none for a hash that is none.
pub(super) fn encode(name: &str, used: &Used) -> Option<[u8; ENTRY]> {
    let (stage, seq) = match used.stage {
        Stage::Pending => (0, 0),
        Stage::Parked { seq } => (1, seq),
        Stage::Delivered { seq } => (2, seq),
        Stage::Withdrawn { seq } => (3, seq),
        Stage::Acted { seq } => (4, seq),
        Stage::Dropped { seq } => (5, seq),
    };
    let (kind, sha256) = match &used.print {
        Some((kind, sha256)) => (kind_byte(*kind), from_hex(sha256)?),
        None => (0, [0; 32]),
    };
    let mut bytes = from_hex(name)?.to_vec();
    bytes.extend_from_slice(&[stage, kind]);
    bytes.extend_from_slice(&seq.to_le_bytes());
    bytes.extend_from_slice(&sha256);
    bytes.try_into().ok()
}

/// The name of an id's file, and what is known of the id; the id itself is not kept.
pub(super) fn decode(bytes: &[u8]) -> Option<(String, Used)> {
    let (name, rest) = bytes.split_first_chunk::<32>()?;
    let ([stage, kind], rest) = rest.split_first_chunk()?;
    let (seq, rest) = rest.split_first_chunk()?;
    let sha256 = rest.first_chunk::<32>()?;
    let seq = Seq::from_le_bytes(*seq);
    let stage = match stage {
        0 => Stage::Pending,
        1 => Stage::Parked { seq },
        2 => Stage::Delivered { seq },
        3 => Stage::Withdrawn { seq },
        4 => Stage::Acted { seq },
        5 => Stage::Dropped { seq },
        _ => return None,
    };
    let print = match *kind {
        0 => None,
        UNKNOWN => Some((InputKind::Unknown, to_hex(sha256))),
        n => Some((*KINDS.get(usize::from(n) - 1)?, to_hex(sha256))),
    };
    Some((to_hex(name), Used { id: String::new(), stage, print }))
}

fn kind_byte(kind: InputKind) -> u8 {
    let at = KINDS.iter().position(|k| *k == kind);
    at.and_then(|i| u8::try_from(i + 1).ok()).unwrap_or(UNKNOWN)
}

fn to_hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * i..2 * i + 2)?, 16).ok()?;
    }
    Some(bytes)
}
