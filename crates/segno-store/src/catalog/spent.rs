//! The tokens of each response of a session, in a few dozen bytes.
//!
//! Responsible for: collecting them while a session is read, which may have a hundred thousand responses,
//! and keeping them. Must not: count; what counts, and once only, is decided by who asks.

use super::packed::{Packed, Pass, Unpacker, pack};
use segno_model::Timestamp;
use segno_model::record::{ModelRef, Usage};

/// The tokens of one response.
#[derive(Debug, Clone, PartialEq)]
pub struct Spent {
    /// Identifies the response over all files; none where the format has nothing of the kind.
    pub response: Option<u64>,
    /// When.
    pub at: Timestamp,
    /// By which model.
    pub model: ModelRef,
    /// How many.
    pub usage: Usage,
}

impl Spent {
    /// What stands for a response's id: the same in every process and version. FNV-1a, mixed once more so
    /// that all bits depend on all bytes.
    #[must_use]
    pub fn response_key(id: &str) -> u64 {
        let fnv = id.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, b| {
            (hash ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3)
        });
        let mixed = (fnv ^ fnv >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        mixed ^ mixed >> 32
    }
}

/// The responses of a session, as they are kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Ledger {
    /// A change of model, or a response; see [`Entry`].
    bytes: Vec<u8>,
    model: Option<ModelRef>,
}

/// What a ledger holds, one behind the other.
enum Entry {
    /// The model of what follows.
    Model(ModelRef),
    Response(Response),
}

#[derive(Default)]
struct Response {
    key: Option<u64>,
    at: Timestamp,
    usage: Usage,
}

impl Ledger {
    pub(super) fn add(
        &mut self,
        response: Option<&str>,
        at: Timestamp,
        model: &ModelRef,
        usage: Usage,
    ) {
        if self.model.as_ref() != Some(model) {
            self.model = Some(model.clone());
            self.bytes.extend(pack(&mut Entry::Model(model.clone())));
        }
        let response = Response { key: response.map(Spent::response_key), at, usage };
        self.bytes.extend(pack(&mut Entry::Response(response)));
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The responses in bytes that a ledger made; what does not fit ends them.
    pub(super) fn read(bytes: &[u8]) -> Vec<Spent> {
        let (mut found, mut model) = (Vec::new(), ModelRef::default());
        let (mut rest, mut unpacker) = (bytes, Unpacker::default());
        loop {
            let mut entry = Entry::Response(Response::default());
            if !unpacker.first(&mut rest, &mut entry) {
                return found;
            }
            match entry {
                Entry::Model(named) => model = named,
                Entry::Response(Response { key: response, at, usage }) => {
                    found.push(Spent { response, at, model: model.clone(), usage });
                }
            }
        }
    }
}

impl Packed for Entry {
    fn pass(&mut self, pass: &mut impl Pass) {
        let mut is_model = matches!(self, Self::Model(_));
        is_model.pass(pass);
        if is_model && matches!(self, Self::Response(_)) {
            *self = Self::Model(ModelRef::default());
        }
        match self {
            Self::Model(model) => model.pass(pass),
            Self::Response(Response { key, at, usage }) => {
                key.pass(pass);
                at.pass(pass);
                usage.pass(pass);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_come_back_as_they_were() {
        let model = |id: &str| ModelRef::new("anthropic", id);
        let usage =
            Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, reasoning: Some(1) };
        let mut ledger = Ledger::default();
        let told = [
            (Some("x"), -5, "a", usage),
            (None, 5, "b", Usage::default()),
            (Some(""), 0, "a", usage),
            (Some("y"), i64::MAX, "a", Usage { output: u64::MAX, ..usage }),
        ];
        for (response, at, id, usage) in told {
            ledger.add(response, Timestamp(at), &model(id), usage);
        }
        let expected = told.map(|(response, at, id, usage)| Spent {
            response: response.map(Spent::response_key),
            at: Timestamp(at),
            model: model(id),
            usage,
        });
        assert_eq!(Ledger::read(ledger.bytes()), expected);
        for cut in 0..ledger.bytes().len() {
            let read = Ledger::read(&ledger.bytes()[..cut]);
            assert_eq!(read, expected[..read.len()], "cut at {cut}");
        }
    }
}
