//! What is remembered of each record while a session is read.
//!
//! Responsible for: keeping that small. A file of a gigabyte holds a million records, and each byte that is
//! remembered of them is a megabyte. Must not: hold any text of a session but the names of tools.

use segno_model::Seq;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

/// Something by the hash of its id. Of a million ids, two have the same hash once in 37 million sessions.
pub(super) type ByHash<V> = HashMap<u64, V, BuildHasherDefault<AsItIs>>;

/// The hash of an id; the same within one process.
pub(super) fn hash(id: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Hashes what is a hash.
#[derive(Debug, Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(bytes);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// A record's number in half its bytes. That is enough for files of hundreds of gigabytes; in a longer
/// one, what relates to a later record relates to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Short(u32);

impl Short {
    /// Two that no record of a shorter file has.
    pub(super) const LAST: Self = Self(u32::MAX);
    pub(super) const BEFORE_LAST: Self = Self(u32::MAX - 1);

    pub(super) fn of(seq: Seq) -> Self {
        Self(u32::try_from(seq).unwrap_or(u32::MAX))
    }

    pub(super) fn seq(self) -> Seq {
        Seq::from(self.0)
    }
}

/// The names of tools, each once.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
}

impl Names {
    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.numbers.insert(name.into(), number);
        self.names.push(name.into());
        number
    }

    pub(super) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", |name| name)
    }
}
