//! Rows as bytes.
//!
//! Responsible for: turning a row into bytes and back, fast enough for ten thousand of them at a time. A row
//! names its fields once, in [`Packed::pass`], which is used in both directions, so that writing and reading
//! cannot differ. Must not: know what a field means, or carry rows over to another version of the program:
//! a change of what a row passes raises the database's version.

use segno_model::checkpoint::Totals;
use segno_model::record::{ModelRef, Origin, OriginKind, ProjectFacts, Usage};
use segno_model::{SessionId, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;

/// One direction.
pub(super) trait Pass {
    fn number(&mut self, number: &mut u64);
    fn text(&mut self, text: &mut String);
    /// Something that many rows have; in memory they share it.
    fn shared<T: Shared>(&mut self, one: &mut Arc<T>);
    /// What was passed last is nothing that can be: writing it makes bytes that are not read again.
    fn unfit(&mut self);
}

/// What can be turned into bytes.
pub(super) trait Packed {
    /// Passes every field in a fixed order. Writing leaves them as they are, reading sets them.
    fn pass(&mut self, pass: &mut impl Pass);
}

/// What rows share.
pub(super) trait Shared: Packed + Clone + Default {
    fn known(known: &mut Known) -> &mut ByBytes<Self>;
}

/// What was read and is shared.
#[derive(Debug, Default)]
pub(super) struct Known {
    projects: ByBytes<ProjectFacts>,
    models: ByBytes<ModelRef>,
}

/// Things by what they were read from.
#[derive(Debug)]
pub(super) struct ByBytes<T> {
    /// The last one: often the next one is the same.
    last: Option<(Vec<u8>, Arc<T>)>,
    all: HashMap<Vec<u8>, Arc<T>>,
}

impl<T> Default for ByBytes<T> {
    fn default() -> Self {
        Self { last: None, all: HashMap::new() }
    }
}

impl<T> ByBytes<T> {
    fn get(&mut self, bytes: &[u8]) -> Option<Arc<T>> {
        if let Some((of, last)) = &self.last
            && of == bytes
        {
            return Some(Arc::clone(last));
        }
        let found = Arc::clone(self.all.get(bytes)?);
        self.last = Some((bytes.to_vec(), Arc::clone(&found)));
        Some(found)
    }
}

impl Shared for ProjectFacts {
    fn known(known: &mut Known) -> &mut ByBytes<Self> {
        &mut known.projects
    }
}

impl Shared for ModelRef {
    fn known(known: &mut Known) -> &mut ByBytes<Self> {
        &mut known.models
    }
}

/// As bytes.
pub(super) fn pack(what: &mut impl Packed) -> Vec<u8> {
    let mut writer = Writer(Vec::with_capacity(256));
    what.pass(&mut writer);
    writer.0
}

/// Reads what [`pack`] made, and lets what was read share what it has in common.
#[derive(Debug, Default)]
pub(super) struct Unpacker(Known);

impl Unpacker {
    /// Sets the fields of `blank`; false when the bytes are not those of such a thing.
    pub(super) fn unpack(&mut self, mut bytes: &[u8], blank: &mut impl Packed) -> bool {
        self.first(&mut bytes, blank) && bytes.is_empty()
    }

    /// The first of several things that stand one behind the other; false at the end, and where something
    /// else stands.
    pub(super) fn first(&mut self, bytes: &mut &[u8], blank: &mut impl Packed) -> bool {
        let mut reader = Reader { rest: bytes, sound: true, known: &mut self.0 };
        blank.pass(&mut reader);
        *bytes = reader.rest;
        reader.sound
    }
}

struct Writer(Vec<u8>);

impl Pass for Writer {
    /// Seven bits to a byte, the lowest first; the last one has the top bit clear.
    fn number(&mut self, number: &mut u64) {
        let mut rest = *number;
        while rest >= 0x80 {
            self.0.push((rest & 0x7F) as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push((rest & 0x7F) as u8);
    }

    fn text(&mut self, text: &mut String) {
        self.number(&mut (text.len() as u64));
        self.0.extend_from_slice(text.as_bytes());
    }

    fn shared<T: Shared>(&mut self, one: &mut Arc<T>) {
        let bytes = pack(Arc::make_mut(one));
        self.number(&mut (bytes.len() as u64));
        self.0.extend_from_slice(&bytes);
    }

    fn unfit(&mut self) {}
}

struct Reader<'a, 'p> {
    rest: &'a [u8],
    /// Cleared for good by the first thing that does not fit.
    sound: bool,
    known: &'p mut Known,
}

impl<'a> Reader<'a, '_> {
    /// The next bytes, as many as the number before them says.
    fn bytes(&mut self) -> &'a [u8] {
        let mut len = 0;
        self.number(&mut len);
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else {
            self.sound = false;
            return &[];
        };
        self.rest = rest;
        bytes
    }
}

impl Pass for Reader<'_, '_> {
    fn number(&mut self, number: &mut u64) {
        let (mut read, mut shift) = (0_u64, 0_u32);
        while let Some((&byte, rest)) = self.rest.split_first() {
            self.rest = rest;
            read |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                *number = read;
                return;
            }
            shift += 7;
        }
        self.sound = false;
    }

    fn text(&mut self, text: &mut String) {
        match std::str::from_utf8(self.bytes()) {
            Ok(read) => read.clone_into(text),
            Err(_) => self.sound = false,
        }
    }

    fn shared<T: Shared>(&mut self, one: &mut Arc<T>) {
        let bytes = self.bytes();
        if let Some(known) = T::known(self.known).get(bytes) {
            *one = known;
            return;
        }
        let mut read = T::default();
        let mut inner = Reader { rest: bytes, sound: true, known: &mut *self.known };
        read.pass(&mut inner);
        self.sound &= inner.sound && inner.rest.is_empty();
        *one = Arc::new(read);
        T::known(self.known).all.insert(bytes.to_vec(), Arc::clone(one));
    }

    fn unfit(&mut self) {
        self.sound = false;
    }
}

/// Passes one of a few values by its place among them.
pub(super) fn choice<T: Copy + PartialEq>(one: &mut T, of: &[T], pass: &mut impl Pass) {
    let place = of.iter().position(|known| known == one).unwrap_or(usize::MAX);
    let mut number = place as u64;
    pass.number(&mut number);
    match usize::try_from(number).ok().and_then(|place| of.get(place)) {
        Some(known) => *one = *known,
        None => pass.unfit(),
    }
}

/// Passes something or nothing; `blank` is what reading fills.
pub(super) fn maybe<T: Packed>(one: &mut Option<T>, blank: fn() -> T, pass: &mut impl Pass) {
    let mut there = one.is_some();
    there.pass(pass);
    if there {
        one.get_or_insert_with(blank).pass(pass);
    } else {
        *one = None;
    }
}

impl Packed for u64 {
    fn pass(&mut self, pass: &mut impl Pass) {
        pass.number(self);
    }
}

impl Packed for u32 {
    fn pass(&mut self, pass: &mut impl Pass) {
        let mut number = u64::from(*self);
        pass.number(&mut number);
        *self = u32::try_from(number).unwrap_or(u32::MAX);
    }
}

impl Packed for bool {
    fn pass(&mut self, pass: &mut impl Pass) {
        let mut number = u64::from(*self);
        pass.number(&mut number);
        *self = number != 0;
    }
}

impl Packed for String {
    fn pass(&mut self, pass: &mut impl Pass) {
        pass.text(self);
    }
}

impl<T: Packed + Default> Packed for Option<T> {
    fn pass(&mut self, pass: &mut impl Pass) {
        maybe(self, T::default, pass);
    }
}

impl<T: Packed> Packed for Box<T> {
    fn pass(&mut self, pass: &mut impl Pass) {
        T::pass(self, pass);
    }
}

impl<T: Shared> Packed for Arc<T> {
    fn pass(&mut self, pass: &mut impl Pass) {
        pass.shared(self);
    }
}

impl Packed for Timestamp {
    fn pass(&mut self, pass: &mut impl Pass) {
        let mut bits = self.0.cast_unsigned();
        pass.number(&mut bits);
        self.0 = bits.cast_signed();
    }
}

impl Packed for ModelRef {
    fn pass(&mut self, pass: &mut impl Pass) {
        let Self { provider, id } = self;
        provider.pass(pass);
        id.pass(pass);
    }
}

impl Packed for Usage {
    fn pass(&mut self, pass: &mut impl Pass) {
        let Self { input, output, cache_read, cache_write, reasoning } = self;
        for number in [input, output, cache_read, cache_write] {
            number.pass(pass);
        }
        reasoning.pass(pass);
    }
}

impl Packed for Totals {
    fn pass(&mut self, pass: &mut impl Pass) {
        let Self {
            runs,
            attempts,
            requests,
            unknown,
            user_messages,
            assistant_messages,
            tool_results,
            compactions,
            usage,
        } = self;
        let work = [runs, attempts, requests, unknown];
        let said = [user_messages, assistant_messages, tool_results, compactions];
        for number in work.into_iter().chain(said) {
            number.pass(pass);
        }
        usage.pass(pass);
    }
}

impl Packed for ProjectFacts {
    fn pass(&mut self, pass: &mut impl Pass) {
        let Self { cwd, real_path, git_common_dir, root_commit } = self;
        cwd.pass(pass);
        for fact in [real_path, git_common_dir, root_commit] {
            fact.pass(pass);
        }
    }
}

impl Packed for Origin {
    fn pass(&mut self, pass: &mut impl Pass) {
        let Self { kind, of, up_to, parent } = self;
        let kinds = [OriginKind::Fork, OriginKind::Import, OriginKind::Child, OriginKind::Other];
        choice(kind, &kinds, pass);
        of.pass(pass);
        up_to.pass(pass);
        let mut text = parent.as_ref().map(ToString::to_string);
        text.pass(pass);
        *parent = text.and_then(|id| SessionId::parse(&id).ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Ending, ForeignRow, Row};
    use crate::foreign::Agent;
    use segno_model::Standing;
    use std::fmt::Debug;
    use std::path::PathBuf;

    fn id() -> SessionId {
        SessionId::parse("01939a4c-7b1e-7000-8000-000000000001").unwrap()
    }

    fn own() -> Row {
        let project = ProjectFacts {
            cwd: "/a".into(),
            real_path: Some("/b".into()),
            git_common_dir: None,
            root_commit: Some("c0".into()),
        };
        let mut row = Row::unreadable(&id(), 1 << 40, "it is gone".into());
        row.project = Arc::new(project);
        row.last_message_at = Some(Timestamp(-1));
        row.totals.requests = 1;
        row.totals.usage = Usage { input: u64::MAX, reasoning: Some(0), ..Usage::default() };
        row.first_prompt = Some("für dich ☂".into());
        row.model = Some(Arc::new(ModelRef::new("p", "m")));
        let (kind, of) = (OriginKind::Import, "claude:7".to_owned());
        row.origin = Some(Origin { kind, of, up_to: Some(128), parent: Some(id()) });
        (row.standing, row.newer) = (Standing::Unknown, true);
        row
    }

    fn other() -> ForeignRow {
        let mut row = ForeignRow::blank(Agent::Codex, PathBuf::from("/x"), None);
        row.project = Arc::new(ProjectFacts { cwd: "/a".into(), ..ProjectFacts::default() });
        (row.name, row.last_id) = (Some(String::new()), Some("last".into()));
        (row.ending, row.archived, row.damage) = (Ending::Stopped, true, u32::MAX);
        row
    }

    /// A row comes back as it was; from anything else no row comes, and nothing worse happens.
    fn check<T: Packed + Clone + PartialEq + Debug>(row: &T, blank: &T) {
        let bytes = pack(&mut row.clone());
        let unpack = |bytes: &[u8]| {
            let mut read = blank.clone();
            Unpacker::default().unpack(bytes, &mut read).then_some(read)
        };
        assert_eq!(unpack(&bytes).as_ref(), Some(row));
        for cut in 0..bytes.len() {
            assert_eq!(unpack(&bytes[..cut]), None, "cut at {cut}");
        }
        assert_eq!(unpack(&[&bytes[..], b"x"].concat()), None, "longer");
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let _ = unpack(&flipped);
            }
        }
        assert_eq!(unpack(&[0xFF; 64]), None);
    }

    #[test]
    fn rows_come_back_as_they_were() {
        check(&own(), &Row::blank(id()));
        check(&Row::blank(id()), &own());
        let blank = || ForeignRow::blank(Agent::Codex, PathBuf::from("/x"), None);
        check(&other(), &blank());
        check(&blank(), &other());
    }

    #[test]
    fn rows_of_one_project_share_it() {
        let mut unpacker = Unpacker::default();
        let mut read = || {
            let mut row = Row::blank(id());
            assert!(unpacker.unpack(&pack(&mut own()), &mut row));
            row.project
        };
        assert!(Arc::ptr_eq(&read(), &read()));
    }
}
