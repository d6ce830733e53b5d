//! What a session continues: the records of others that it begins with.
//!
//! Responsible for: finding the sessions that a fork refers to, reading them up to the fork, and telling
//! copied rows from a fork's own. Must not: hand on rows; [`Thread`] does.

use super::super::emitter::Emitter;
use super::super::input::{self, ForeignError};
use super::super::item::{Fact, Item, Origin};
use super::super::lines::{Lines, Object};
use super::numbers::{Before, End, Known};
use super::places;
use super::rows::{Base, Header, Row, number, object, owned, text};
use super::thread::Thread;
use super::unpack;
use segno_model::Timestamp;
use segno_model::finding::{Finding, Severity};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, SeekFrom};
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
                out.found("damaged-base", Severity::Damage, at, sentence, done);
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
        let mut before = Before::new(checked(ancestor.end, path));
        lines.each_object("codex.unknown", &mut aside, |object, aside| {
            let Ok(row) = serde_json::from_str::<Row<'_>>(object.json) else { return Ok(false) };
            let known = before.take(&row, object.json, &object.origin);
            if known == Known::Passed || out.is_stopped() {
                // This ends the reading.
                aside.fact(Fact::Tip(None));
            }
            let Known::Within(lines) = known else { return Ok(true) };
            let mut all = true;
            for (json, origin) in lines {
                all &= self.row(&Object { json: &json, origin }, out);
            }
            Ok(all)
        })?;
        if !before.is_reached() && !torn.get() {
            let sentence =
                "The session that this one continues ends before the place where it was forked.";
            let done = "What is there of it was read.";
            out.found("damaged-base", Severity::Damage, &Origin::default(), sentence, done);
        } else if damaged || torn.get() {
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
        next = base_of(&path).map(|(id, its)| (id, its.or_earlier(end)));
        beside.clone_from(&path);
        chain.push(Ancestor { id, path, end });
    }
    (chain, true)
}

/// The end, by its place only where a line ends there: a file that was written anew has its lines elsewhere.
fn checked(end: End, path: &Path) -> End {
    let by_number = End { offset: None, ..end };
    let (Some(offset), Some(_)) = (end.offset, end.ordinal) else { return end };
    let mut start = [0; 4];
    let Ok(mut file) = input::open(path) else { return by_number };
    if file.read_exact(&mut start).is_ok() && unpack::is_packed(&start) {
        // Places are counted in unpacked bytes.
        return end;
    }
    let mut last = [0];
    let before = SeekFrom::Start(offset.saturating_sub(1));
    let read = file.seek(before).and_then(|_| file.read_exact(&mut last));
    if offset == 0 || read.is_ok() && last == *b"\n" { end } else { by_number }
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
