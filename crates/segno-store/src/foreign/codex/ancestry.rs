//! What a session continues: the records of others that it begins with.
//!
//! Responsible for: finding the sessions that a fork refers to, reading them up to the fork, and telling
//! copied rows from a fork's own. Must not: hand on rows; [`Thread`] does.

use super::super::emitter::Emitter;
use super::super::input::ForeignError;
use super::super::item::{Fact, Item, Origin};
use super::super::lines::Lines;
use super::places;
use super::rows::{Base, Header, Row, number, object, owned, text};
use super::thread::Thread;
use super::unpack;
use segno_model::Timestamp;
use segno_model::finding::{Finding, Severity};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// More than so many forks of forks are taken for a loop.
const LONGEST_CHAIN: usize = 256;
/// A header is looked for in so many bytes.
const HEAD: u64 = 8 << 20;

/// A session that a fork continues, up to where.
struct Ancestor {
    id: String,
    path: PathBuf,
    end: End,
}

/// The first row that is not part of a base any more.
#[derive(Debug, Clone, Copy, Default)]
struct End {
    ordinal: Option<u64>,
    offset: Option<u64>,
}

impl End {
    fn of(base: &Base<'_>) -> Self {
        Self { ordinal: number(base.ordinal), offset: number(base.offset) }
    }

    fn is_reached(self, ordinal: Option<u64>, offset: Option<u64>) -> bool {
        match (self.ordinal, ordinal) {
            (Some(end), Some(ordinal)) => ordinal >= end,
            _ => self.offset.zip(offset).is_some_and(|(end, offset)| offset >= end),
        }
    }
}

impl Thread {
    /// Reads what a fork refers to, as copies.
    pub(super) fn continue_from(&mut self, base: &Base<'_>, at: &Origin, out: &mut Emitter<'_>) {
        let (chain, complete) = chain(base, &self.path);
        if !complete {
            out.found(
                "missing-base",
                Severity::Damage,
                at,
                "The session continues another one, whose file is not there.",
                "What it holds itself was read; what came before is missing.",
            );
        }
        let own = self.counting.clone();
        self.base = true;
        for ancestor in chain.iter().rev() {
            self.counting.clone_from(&ancestor.id);
            if self.ancestor(ancestor, out).is_err() {
                let sentence = "A session that this one continues cannot be read.";
                let done = "What it holds itself was read.";
                out.found("missing-base", Severity::Damage, at, sentence, done);
            }
        }
        self.counting = own;
        self.settle(out);
        self.flush(out);
        self.base = false;
        self.begin_anew(number(base.ordinal));
    }

    fn ancestor(&mut self, ancestor: &Ancestor, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
        let path = &ancestor.path;
        let (input, torn) = unpack::open(path).map_err(|e| ForeignError::io(path, e))?;
        let mut lines = Lines::new(input, path);
        let mut damaged = false;
        // Findings about the other file name its lines; they are told when that one is read.
        let mut sink = |item: Item| match item {
            Item::Finding(Finding { severity, .. }) => {
                damaged |= severity == Severity::Damage;
                ControlFlow::Continue(())
            }
            Item::Fact(Fact::Tip(_)) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        let mut aside = Emitter::new(&mut sink);
        self.begin_anew(None);
        lines.each_object("codex.unknown", &mut aside, |object, aside| {
            let Ok(row) = serde_json::from_str::<Row<'_>>(object.json) else { return Ok(false) };
            let at_end = ancestor.end.is_reached(number(row.ordinal), object.origin.offset);
            if at_end || out.is_stopped() {
                // This ends the reading.
                aside.fact(Fact::Tip(None));
                return Ok(true);
            }
            Ok(self.row(object, out))
        })?;
        if damaged || torn.get() {
            let sentence = "The session that this one continues has damage before the fork.";
            let done = "What can be read of it was read.";
            out.found("damaged-base", Severity::Warning, &Origin::default(), sentence, done);
        }
        Ok(())
    }
}

/// The sessions that a fork continues, the nearest first, and whether all of them are there.
fn chain(base: &Base<'_>, fork: &Path) -> (Vec<Ancestor>, bool) {
    let mut chain: Vec<Ancestor> = Vec::new();
    let mut next = owned(base.thread).map(|id| (id, End::of(base)));
    let mut beside = fork.to_owned();
    while let Some((id, end)) = next {
        let known = chain.iter().any(|ancestor| ancestor.id == id);
        let found = (!known && chain.len() < LONGEST_CHAIN).then(|| places::find(&id, &beside));
        let Some(path) = found.flatten() else { return (chain, false) };
        next = base_of(&path).map(|(id, its)| (id, earlier(its, end)));
        beside.clone_from(&path);
        chain.push(Ancestor { id, path, end });
    }
    (chain, true)
}

/// A fork may end its base before the base's own records begin.
fn earlier(its: End, end: End) -> End {
    let ordinal = its.ordinal.into_iter().chain(end.ordinal).min();
    End { ordinal, ..its }
}

/// What the session in a file continues itself.
fn base_of(path: &Path) -> Option<(String, End)> {
    let (input, _) = unpack::open(path).ok()?;
    let mut found = None;
    let mut sink = |item: Item| match item {
        Item::Fact(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let mut aside = Emitter::new(&mut sink);
    let read = Lines::new(input.take(HEAD), path).each_object("", &mut aside, |line, aside| {
        let Ok(row) = serde_json::from_str::<Row<'_>>(line.json) else { return Ok(false) };
        if text(row.kind).as_deref() == Some("session_meta") {
            let base = object::<Header<'_>>(row.payload).and_then(|header| object(header.base));
            found = base.and_then(|base: Base<'_>| Some((owned(base.thread)?, End::of(&base))));
            aside.fact(Fact::Tip(None));
        }
        Ok(true)
    });
    read.ok().and(found)
}

/// Which rows of a fork are copies, where it holds those itself.
#[derive(Debug, Default)]
pub(super) enum Copied {
    /// None, or no more.
    #[default]
    No,
    /// It is a fork of this session, made at this time; nothing was read of it so far.
    Maybe { of: String, made: Option<Timestamp> },
    /// Those from before it was made.
    Older(Timestamp),
    /// Those that stand in the original, whose rows these are, from this one on.
    Same { rows: Vec<u64>, from: usize },
}

impl Copied {
    /// Whether the next row is a copy. `content` is the mark of an item, none for other rows.
    pub(super) fn take(
        &mut self,
        at: Option<Timestamp>,
        content: Option<u64>,
        fork: &Path,
    ) -> bool {
        if let Self::Maybe { of, made } = self {
            *self = match (at, *made) {
                (Some(at), Some(made)) if at < made => Self::Older(made),
                _ => Self::Same { rows: original(of, fork), from: 0 },
            };
        }
        let copied = match self {
            Self::No | Self::Maybe { .. } => false,
            Self::Older(made) => at.is_none_or(|at| at < *made),
            Self::Same { rows, from } => match content {
                None => *from > 0 || !rows.is_empty(),
                Some(content) => {
                    // Some forks leave rows out.
                    let place = rows[*from..].iter().position(|row| *row == content);
                    *from += place.map_or(0, |place| place + 1);
                    place.is_some()
                }
            },
        };
        if !copied {
            *self = Self::No;
        }
        copied
    }
}

/// The mark of an item's text.
pub(super) fn mark(item: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    item.hash(&mut hasher);
    hasher.finish()
}

/// The marks of all items of the session `id`; empty when it is not there.
fn original(id: &str, fork: &Path) -> Vec<u64> {
    let mut marks = Vec::new();
    let Some((input, _)) = places::find(id, fork).and_then(|path| unpack::open(&path).ok()) else {
        return marks;
    };
    let mut sink = |_: Item| ControlFlow::Continue(());
    let mut aside = Emitter::new(&mut sink);
    let read = Lines::new(input, fork).each_object("", &mut aside, |object, _| {
        let Ok(row) = serde_json::from_str::<Row<'_>>(object.json) else { return Ok(false) };
        marks.extend(row.item().map(|item| mark(item.get())));
        Ok(true)
    });
    // What could be read of it still tells copies.
    let _ = read;
    marks
}
