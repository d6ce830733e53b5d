//! Rows that name their parents: repeats, ids that were given twice, parents that are nowhere.
//!
//! Responsible for: what has to change so that each row hangs where our reader hangs it. Holds some forty bytes
//! for each row. Must not: know any agent's names for things, or what a row says.

use super::draft::{At, Draft};
use super::json::{Span, quote};
use super::rule::Rule;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// An id or another name in 8 bytes.
pub(super) fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// How an agent's rows are told apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// The lane of the session itself.
    pub(super) main: u64,
    /// Whether a first row may follow one of another file.
    pub(super) continues_others: bool,
    /// Whether our reader hangs a row on one that comes later.
    pub(super) finds_later: bool,
    /// An id that no row has, from a text that no other id was made from.
    pub(super) fresh: fn(&str) -> String,
}

/// A row, as far as it is looked at here.
pub(super) struct Row<'a> {
    pub(super) id: &'a str,
    pub(super) id_span: Option<Span>,
    /// The parent that it names, and where.
    pub(super) parent: Option<(&'a str, Span)>,
    /// The same for unchanged repeats.
    pub(super) print: u64,
    /// Whether our reader makes a node of it.
    pub(super) is_node: bool,
    /// Rows of one lane hang on each other.
    pub(super) lane: u64,
    /// Whether what hangs on a repeat of it goes on where the session was.
    pub(super) goes_on: bool,
}

/// What a row has become.
pub(super) enum Taken {
    /// It stands in the file already, and has to be left out.
    Repeat,
    /// It stays, under this id. `parent` as it names it, where it is free to be changed.
    Row { id: String, parent: Option<(u64, Span)> },
}

/// The rows so far.
pub(super) struct Tree {
    kind: Kind,
    rows: HashMap<u64, Known>,
    /// By lane: the last row that is the last node or hangs on it.
    tails: HashMap<u64, String>,
    /// The later of two rows with one id, by that id.
    renamed: HashMap<u64, String>,
    /// Rows whose parent has not come so far.
    waiting: Vec<Waiting>,
    /// Rows behind which something is put that hangs on what is before them.
    early: HashSet<u64>,
    /// The repeat that was read last.
    repeat: Option<u64>,
    repeats: Option<(At, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    print: u64,
    parent: u64,
    lane: u64,
}

struct Waiting {
    at: At,
    span: Span,
    id: u64,
    /// The id that it has in the end.
    row: u64,
    parent: u64,
    target: Option<String>,
    rule: Rule,
    /// Whether the parent is there, and is none that it can have.
    is_astray: bool,
    /// Whether the parent may be in another file.
    continues: bool,
}

impl Tree {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            rows: HashMap::new(),
            tails: HashMap::new(),
            renamed: HashMap::new(),
            waiting: Vec::new(),
            early: HashSet::new(),
            repeat: None,
            repeats: None,
        }
    }

    /// What is put behind another row comes behind this one: it does not hang on that.
    pub(super) fn stays_before(&mut self, id: &str) {
        self.early.insert(hash(id));
    }

    /// Whether a row with this id was read.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.rows.contains_key(&hash(id))
    }

    /// The row on which the next one would hang.
    pub(super) fn tail(&self, lane: u64) -> Option<&str> {
        self.tails.get(&lane).map(String::as_str)
    }

    /// The last row under this id of which later ones speak.
    pub(super) fn renamed(&self, id: &str) -> Option<&str> {
        self.renamed.get(&hash(id)).map(String::as_str)
    }

    /// Takes the next row.
    pub(super) fn take(&mut self, at: &At, row: &Row<'_>, draft: &mut Draft) -> Taken {
        let own = hash(row.id);
        let known = self.rows.get(&own).copied();
        if known.is_some_and(|known| known.print == row.print) && draft.has(Rule::RepeatedRecord) {
            if row.goes_on {
                self.repeat = Some(own);
            }
            self.repeats = Some(self.repeats.map_or((*at, 1), |(first, count)| (first, count + 1)));
            return Taken::Repeat;
        }
        self.end_repeats(draft);
        let parent = row.parent.as_ref().map(|(id, span)| (hash(id), span.clone()));
        let again = row.id_span.clone().filter(|_| known.is_some() && draft.has(Rule::ReusedId));
        let id = match again {
            Some(_) => self.fresh(&format!("{} {}", row.id, at.line)),
            None => row.id.to_owned(),
        };
        let (hangs_on, parent) = self.place(at, row, (own, hash(&id)), parent, draft);
        if let Some(span) = again {
            draft.splice(at, span, quote(&id));
            draft.tell(Rule::ReusedId, Some(at), format!("{} was given before", row.id));
            self.renamed.insert(own, id.clone());
        }
        let tail = self.tails.get(&row.lane).map(|tail| hash(tail));
        if row.is_node || hangs_on == tail {
            self.tails.insert(row.lane, id.clone());
        }
        if row.is_node {
            self.repeat = None;
        }
        let new = Known { print: row.print, parent: hangs_on.unwrap_or(0), lane: row.lane };
        // What came before this one and names its old id means the earlier row.
        let parent_of_old = known.map_or(new.parent, |known| known.parent);
        self.rows.insert(own, Known { parent: parent_of_old, ..new });
        self.rows.insert(hash(&id), new);
        Taken::Row { id, parent }
    }

    /// On what a row hangs, and its parent where nothing was changed about it.
    fn place(
        &mut self,
        at: &At,
        row: &Row<'_>,
        (own, becomes): (u64, u64),
        parent: Option<(u64, Span)>,
        draft: &mut Draft,
    ) -> (Option<u64>, Option<(u64, Span)>) {
        let Some((named, span)) = parent else { return (None, None) };
        let tail = self.tails.get(&row.lane).cloned();
        if let Some(new) = self.renamed.get(&named) {
            draft.splice(at, span, quote(new));
            return (Some(hash(new)), None);
        }
        if self.repeat == Some(named)
            && let Some(tail) = tail.as_deref().filter(|tail| hash(tail) != named)
        {
            draft.splice(at, span, quote(tail));
            let what = "it hangs on a repeated record; it goes on where the session was";
            draft.tell(Rule::MissingParent, Some(at), what);
            return (Some(hash(tail)), None);
        }
        // A lane may begin on another one's row, but the session itself goes on with none of a lane's.
        let fits = |known: &Known| known.lane == row.lane || known.lane == self.kind.main;
        let known = self.rows.get(&named).filter(|_| named != own).map(fits);
        if known == Some(true) {
            return (Some(named), Some((named, span)));
        }
        let is_astray = known == Some(false);
        let rule = if named == own { Rule::Cycle } else { Rule::MissingParent };
        if draft.has(rule) {
            let target = tail.clone();
            let continues = tail.is_none() && self.kind.continues_others;
            self.waiting.push(Waiting {
                at: *at,
                span,
                id: own,
                row: becomes,
                parent: named,
                target,
                rule,
                is_astray,
                continues,
            });
        }
        (tail.as_deref().map(hash), None)
    }

    /// An id that no row has.
    pub(super) fn fresh(&self, from: &str) -> String {
        let mut from = from.to_owned();
        loop {
            let id = (self.kind.fresh)(&from);
            if !self.rows.contains_key(&hash(&id)) {
                return id;
            }
            from.push('+');
        }
    }

    fn end_repeats(&mut self, draft: &mut Draft) {
        if let Some((first, count)) = self.repeats.take() {
            let what = match count {
                1 => "a record stands here again".to_owned(),
                count => format!("{count} records stand here again"),
            };
            draft.tell(Rule::RepeatedRecord, Some(&first), what);
        }
    }

    /// The end. `instead`: rows behind which something was put on which their children hang now.
    /// Gives the rows that hang on another one now than they name, and on which.
    pub(super) fn finish(
        &mut self,
        instead: &HashMap<u64, String>,
        draft: &mut Draft,
    ) -> Vec<(At, Span, String)> {
        self.end_repeats(draft);
        let mut hung = Vec::new();
        let all = std::mem::take(&mut self.waiting);
        let circles = self.circles(&all);
        for waiting in all {
            // A parent that comes later is found by every agent, unless it leads back here.
            let comes_later = self.comes_later(&waiting);
            let Waiting { at, span, row, target, mut rule, is_astray, continues, .. } = waiting;
            if circles.contains(&row) {
                rule = Rule::Cycle;
            }
            let is_found = if comes_later { self.kind.finds_later } else { continues };
            if is_found && rule != Rule::Cycle {
                continue;
            }
            let instead =
                |on: &String| instead.get(&hash(on)).filter(|_| !self.early.contains(&row));
            let target = target.map(|on| instead(&on).cloned().unwrap_or(on));
            draft.splice(&at, span.clone(), target.as_deref().map_or("null".to_owned(), quote));
            hung.extend(target.map(|target| (at, span, target)));
            let what = match rule {
                Rule::Cycle => "it follows itself, directly or through others",
                _ if comes_later => "it names a parent that stands behind it",
                _ if is_astray => "it names a parent that is another agent's",
                _ => "it names a parent that is nowhere in the file",
            };
            draft.tell(rule, Some(&at), what);
        }
        hung
    }

    fn comes_later(&self, waiting: &Waiting) -> bool {
        let Waiting { id, parent, is_astray, .. } = waiting;
        !is_astray && parent != id && self.rows.contains_key(parent)
    }

    /// Rows that must not hang on what they name, for that leads back to them: the first row of each circle. All
    /// others hang on what is before them, so that nothing goes round without one of `waiting`.
    fn circles(&mut self, waiting: &[Waiting]) -> HashSet<u64> {
        let mut left: HashMap<u64, (usize, &Waiting)> = HashMap::new();
        for (n, waiting) in waiting.iter().enumerate() {
            if self.comes_later(waiting) {
                left.insert(waiting.row, (n, waiting));
                self.hang(waiting.row, waiting.parent);
            }
        }
        let (mut ends, mut cut) = (HashSet::new(), HashSet::new());
        for waiting in waiting {
            let (mut path, mut places, mut at) = (Vec::new(), HashMap::new(), waiting.row);
            while at != 0 && !ends.contains(&at) {
                if let Some(from) = places.get(&at).copied() {
                    let circle = path.iter().enumerate().skip(from);
                    let first = circle.filter_map(|(n, row)| Some((n, left.get(row)?)));
                    let Some((n, (_, first))) = first.min_by_key(|(_, (order, _))| *order) else {
                        break;
                    };
                    at = first.target.as_deref().map_or(0, hash);
                    self.hang(first.row, at);
                    cut.insert(first.row);
                    left.remove(&first.row);
                    for row in path.drain(n + 1..) {
                        places.remove(&row);
                    }
                    continue;
                }
                places.insert(at, path.len());
                path.push(at);
                at = self.rows.get(&at).map_or(0, |row| row.parent);
            }
            ends.extend(path);
        }
        cut
    }

    fn hang(&mut self, row: u64, on: u64) {
        if let Some(row) = self.rows.get_mut(&row) {
            row.parent = on;
        }
    }
}

/// 16 bytes that are the same for the same text.
fn bytes_of(from: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, byte) in bytes.iter_mut().zip(Sha256::digest(from.as_bytes())) {
        *to = byte;
    }
    bytes
}

/// A random-looking UUID that is the same for the same text.
pub(super) fn uuid_of(from: &str) -> String {
    uuid::Builder::from_random_bytes(bytes_of(from)).into_uuid().to_string()
}

/// Eight hexadecimal digits that are the same for the same text.
pub(super) fn short_of(from: &str) -> String {
    uuid_of(from).chars().take(8).collect()
}
