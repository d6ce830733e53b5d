//! Records that stand before what they hang on.
//!
//! Responsible for: in which order the records of a file have to be taken so that each comes behind the record and
//! the call that it names, where those stand in the file at all. Agents look these up in the whole file. Must not:
//! hold lines, or change an order for any other reason.

use super::agent::Agent;
use super::codex::unpack;
use super::input::ForeignError;
use super::lines::Lines;
use super::outline::ByHash;
use links::{Links, links};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{Bound, Range, RangeInclusive};
use std::path::Path;

mod links;

/// How many bytes of records may wait at once.
const MOST_WAITING: u64 = 32 << 20;

/// How often records that wait for each other are let go.
const TRIES: usize = 16;

/// Where an object stands. A line that is as it was written holds one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spot {
    /// The line, counted from 1.
    pub(crate) line: u64,
    /// Which of its objects, counted from 0.
    pub(crate) object: usize,
}

/// What is out of order in a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    /// Records that wait.
    held: HashSet<Spot>,
    /// By the record that they waited for: those that come right behind it.
    behind: HashMap<Spot, Vec<Spot>>,
    /// The fewest records that have to move, and where they go.
    moved: BTreeMap<Spot, Moved>,
    /// Lines that do not come in one piece or not where they stand, and how many objects they hold.
    apart: HashMap<u64, usize>,
    /// Whether there is one, and it is too far from how the records stand.
    is_given_up: bool,
}

/// Where a record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It stands before what it hangs on: behind something of this line.
    Behind(u64),
    /// It stands behind what hangs on it: before something of this line.
    Before(u64),
}

impl Order {
    /// Whether records stay where they stand though others that they name stand behind them: more of them would have to
    /// wait than are held.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// The order of a file's records from one on; those before it are past.
    pub(crate) fn of(path: &Path, agent: Agent, from: Spot) -> Result<Self, ForeignError> {
        let (input, _) = unpack::open(path).map_err(|e| ForeignError::io(path, e))?;
        let mut lines = Lines::new(input, path);
        let mut file = File { from, ..File::default() };
        while let Some(line) = lines.next_raw()? {
            file.lines = line.number;
            if line.oversize.is_none() {
                let text = line.quiet_text();
                file.take(line.number, &links(agent, &text), text.len() as u64);
            }
        }
        Ok(file.order())
    }

    /// How many objects a line holds that does not come in one piece or not where it stands.
    pub(crate) fn apart(&self, line: u64) -> Option<usize> {
        self.apart.get(&line).copied()
    }

    /// Those of a line's objects that come where it stands, in pieces between which others come.
    pub(crate) fn pieces(&self, line: u64, objects: Range<usize>) -> Vec<Range<usize>> {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        let mut goes_on = false;
        for object in objects {
            let spot = Spot { line, object };
            if self.held.contains(&spot) {
                goes_on = false;
                continue;
            }
            match pieces.last_mut().filter(|_| goes_on) {
                Some(piece) => piece.end = object + 1,
                None => pieces.push(object..object + 1),
            }
            goes_on = self.behind(spot).is_empty();
        }
        pieces
    }

    /// The records that waited for this one, in their order.
    pub(crate) fn behind(&self, spot: Spot) -> &[Spot] {
        self.behind.get(&spot).map_or(&[], Vec::as_slice)
    }

    /// Those of a line's objects that move, and where they go.
    pub(crate) fn moved(
        &self,
        line: u64,
        objects: RangeInclusive<usize>,
    ) -> impl Iterator<Item = (usize, Moved)> {
        let spot = |object| Spot { line, object };
        let moved = self.moved.range(spot(*objects.start())..=spot(*objects.end()));
        moved.map(|(spot, moved)| (spot.object, *moved))
    }
}

/// A record that names others.
struct Row {
    spot: Spot,
    bytes: u64,
    record: Option<u64>,
    needs: Vec<u64>,
}

/// A file whose records were looked at.
#[derive(Default)]
struct File {
    from: Spot,
    lines: u64,
    /// Lines that hold more than one object.
    fused: HashMap<u64, usize>,
    /// Where a record or a call stands first.
    first: ByHash<Spot>,
    /// What records hang on.
    parents: ByHash<u64>,
    rows: Vec<Row>,
}

impl File {
    fn take(&mut self, line: u64, objects: &[Links], bytes: u64) {
        let count = objects.len();
        if count > 1 {
            self.fused.insert(line, count);
        }
        for (object, links) in objects.iter().enumerate() {
            let spot = Spot { line, object };
            for own in links.own() {
                self.first.entry(own).or_insert(spot);
            }
            if let Some((id, Some(parent))) = links.record {
                self.parents.entry(id).or_insert(parent);
            }
            let needs: Vec<u64> = links.needs().collect();
            if !needs.is_empty() {
                let (bytes, record) = (bytes / count as u64, links.record.map(|(id, _)| id));
                self.rows.push(Row { spot, bytes, record, needs });
            }
        }
    }

    fn order(self) -> Order {
        let is_ahead = |row: &Row| {
            row.needs.iter().any(|need| self.first.get(need).is_some_and(|spot| *spot > row.spot))
        };
        if !self.rows.iter().any(|row| row.spot >= self.from && is_ahead(row)) {
            return Order::default();
        }
        let mut free: HashSet<Spot> = self.circles();
        let waits: Vec<Wait> = self.rows.iter().map(|row| self.wait(row)).collect();
        for _ in 0..TRIES {
            let mut run = Run { from: self.from, ..Run::default() };
            run.all(&waits, &free);
            if run.most > MOST_WAITING {
                break;
            }
            if run.held.is_empty() {
                return run.order(self.lines, &self.fused);
            }
            free.extend(run.closed());
        }
        Order { is_given_up: true, ..Order::default() }
    }

    /// A row with what it waits for.
    fn wait(&self, row: &Row) -> Wait {
        // One that stands again comes behind the first, and not between what hangs on that.
        let before = row.record.iter().chain(&row.needs);
        let needs = before.filter_map(|need| self.first.get(need).copied());
        let needs = needs.filter(|spot| *spot != row.spot).collect();
        Wait { spot: row.spot, bytes: row.bytes, needs }
    }

    /// Records that hang on themselves through others, of each circle the first: there it is cut.
    fn circles(&self) -> HashSet<Spot> {
        let place = |id: &u64| self.first.get(id).copied();
        let next = |id: &u64| self.parents.get(id).copied();
        circles(self.parents.keys().copied(), next)
            .iter()
            .filter_map(|ids| ids.iter().filter_map(place).min())
            .collect()
    }
}

/// A record, and where those stand that it comes behind.
struct Wait {
    spot: Spot,
    bytes: u64,
    needs: Vec<Spot>,
}

/// The circles in which one leads to the next.
fn circles<T: Copy + Eq + std::hash::Hash>(
    all: impl Iterator<Item = T>,
    next: impl Fn(&T) -> Option<T>,
) -> Vec<Vec<T>> {
    let mut circles = Vec::new();
    let mut seen: HashMap<T, u64> = HashMap::new();
    for (start, walk) in all.zip(1_u64..) {
        let mut at = Some(start);
        while let Some(own) = at {
            match seen.insert(own, walk) {
                Some(before) if before == walk => {
                    let round =
                        std::iter::successors(next(&own), |one| next(one).filter(|_| *one != own));
                    circles.push(round.collect());
                    break;
                }
                Some(_) => break,
                None => at = next(&own),
            }
        }
    }
    circles
}

/// Records on their way.
#[derive(Default)]
struct Run {
    from: Spot,
    /// The last record that was come to.
    at: Spot,
    /// Records that wait, and how long they are.
    held: HashMap<Spot, u64>,
    waiting: BTreeMap<Spot, Vec<(Spot, Vec<Spot>)>>,
    waits: HashSet<Spot>,
    behind: HashMap<Spot, Vec<Spot>>,
    bytes: u64,
    most: u64,
}

impl Run {
    fn all(&mut self, rows: &[Wait], free: &HashSet<Spot>) {
        let from = self.from;
        for row in rows.iter().filter(|row| row.spot >= from) {
            self.pass(row.spot);
            self.at = row.spot;
            let is_free = free.contains(&row.spot);
            match self.unmet(&row.needs).filter(|_| !is_free) {
                Some(need) => {
                    self.bytes += row.bytes;
                    self.most = self.most.max(self.bytes);
                    self.held.insert(row.spot, row.bytes);
                    self.waits.insert(row.spot);
                    self.waiting.entry(need).or_default().push((row.spot, row.needs.clone()));
                }
                None => self.release(row.spot),
            }
        }
        self.pass(Spot { line: u64::MAX, object: usize::MAX });
    }

    /// The records up to `end`, which wait for nothing.
    fn pass(&mut self, end: Spot) {
        // One that comes may wait for another one of these.
        while let Some(spot) = self.next_awaited(end) {
            self.at = spot;
            self.release(spot);
        }
    }

    fn next_awaited(&self, end: Spot) -> Option<Spot> {
        if self.at >= end {
            return None;
        }
        let mut awaited = self.waiting.range((Bound::Excluded(self.at), Bound::Excluded(end)));
        awaited.next().map(|(spot, _)| *spot)
    }

    /// What a record waits for.
    fn unmet(&self, needs: &[Spot]) -> Option<Spot> {
        let is_past =
            |spot: Spot| spot < self.from || spot <= self.at && !self.held.contains_key(&spot);
        needs.iter().copied().find(|spot| !is_past(*spot))
    }

    /// A record is out: those that waited for it come, each with what waited for it.
    fn release(&mut self, spot: Spot) {
        let mut out = vec![spot];
        while let Some(spot) = out.pop() {
            self.bytes -= self.held.remove(&spot).unwrap_or(0);
            let mut next = Vec::new();
            for (waiter, needs) in self.waiting.remove(&spot).unwrap_or_default() {
                match self.unmet(&needs) {
                    Some(need) => self.waiting.entry(need).or_default().push((waiter, needs)),
                    None => next.push(waiter),
                }
            }
            out.extend(next.iter().rev());
            if !next.is_empty() {
                self.behind.insert(spot, next);
            }
        }
    }

    /// Of records that wait for each other the first of each circle: what only hangs on one of them waits on.
    fn closed(&self) -> Vec<Spot> {
        let waits: HashMap<Spot, Spot> = self
            .waiting
            .iter()
            .flat_map(|(need, waiters)| waiters.iter().map(|(waiter, _)| (*waiter, *need)))
            .collect();
        let circles = circles(waits.keys().copied(), |spot| waits.get(spot).copied());
        circles.iter().filter_map(|circle| circle.iter().min().copied()).collect()
    }

    fn order(self, lines: u64, fused: &HashMap<u64, usize>) -> Order {
        let count = |line: u64| fused.get(&line).copied().unwrap_or(1);
        let mut order = Order { held: self.waits, behind: self.behind, ..Order::default() };
        let split = order.held.iter().chain(order.behind.keys());
        let split = split.filter(|spot| count(spot.line) > 1 || order.held.contains(spot));
        order.apart = split.map(|spot| (spot.line, count(spot.line))).collect();
        let all =
            (1..=lines).flat_map(|line| (0..count(line)).map(move |object| Spot { line, object }));
        let mut taken: Vec<Spot> = Vec::new();
        for spot in all.filter(|spot| !order.held.contains(spot)) {
            let mut out = vec![spot];
            while let Some(spot) = out.pop() {
                taken.push(spot);
                out.extend(order.behind(spot).iter().rev());
            }
        }
        order.moved = moved(&taken, &order.held);
        order
    }
}

/// The fewest that have to move for this order, where those that waited are so many.
fn moved(taken: &[Spot], held: &HashSet<Spot>) -> BTreeMap<Spot, Moved> {
    let stays = rising(taken);
    let others = taken.len() - stays.len();
    let moves = |spot: &Spot| match held.len() <= others {
        true => held.contains(spot),
        false => !stays.contains(spot),
    };
    let mut moved = BTreeMap::new();
    for (at, spot) in taken.iter().enumerate().filter(|(_, spot)| moves(spot)) {
        let before = at.checked_sub(1).and_then(|at| taken.get(at));
        let to = match before.filter(|before| *before > spot) {
            Some(before) => Moved::Behind(before.line),
            None => Moved::Before(taken.get(at + 1).unwrap_or(spot).line),
        };
        moved.insert(*spot, to);
    }
    moved
}

/// The most of these that rise as they stand.
fn rising(spots: &[Spot]) -> HashSet<Spot> {
    // By length: where the run with the lowest end ends.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(spots.len());
    for (at, own) in spots.iter().enumerate() {
        let len = ends.partition_point(|end| spots.get(*end) < Some(own));
        before.push(len.checked_sub(1).and_then(|len| ends.get(len)).copied());
        match ends.get_mut(len) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut next = ends.last().copied();
    std::iter::from_fn(|| {
        let at = next?;
        next = before.get(at).copied().flatten();
        spots.get(at).copied()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::outline::hash;
    use super::*;

    /// Lines and objects in the order in which they come, and lines of which something moves.
    type Taken = (Vec<(u64, usize)>, Vec<(u64, Moved)>);

    /// What an object is called and names: calls begin with `#`.
    fn object(own: &str, needs: &str) -> Links {
        let (results, parent): (Vec<&str>, Vec<&str>) =
            needs.split_whitespace().partition(|need| need.starts_with('#'));
        let (calls, records): (Vec<&str>, Vec<&str>) =
            own.split_whitespace().partition(|own| own.starts_with('#'));
        let hashes = |names: Vec<&str>| names.into_iter().map(hash).collect();
        let parent = parent.first().map(|parent| hash(*parent));
        let record = records.first().map(|own| (hash(*own), parent));
        Links { record, calls: hashes(calls), results: hashes(results) }
    }

    /// Objects of a file in the form `line: own < needs | own < needs`, in the order in which they come, and those
    /// that move.
    fn taken(lines: &[&str], from: Spot) -> Taken {
        let mut file = File { from, ..File::default() };
        for (text, line) in lines.iter().zip(1..) {
            let objects = text.split('|').map(|one| one.split_once('<').unwrap_or((one, "")));
            let objects: Vec<Links> = objects.map(|(own, needs)| object(own, needs)).collect();
            file.lines = line;
            file.take(line, &objects, 10);
        }
        let count = |line: u64| file.fused.get(&line).copied().unwrap_or(1);
        let counts: Vec<(u64, usize)> = (1..=file.lines).map(|line| (line, count(line))).collect();
        let order = file.order();
        let mut taken = Vec::new();
        for (line, count) in counts {
            for piece in order.pieces(line, 0..count) {
                taken.extend(piece.clone().map(|object| (line, object)));
                let mut out: Vec<Spot> = order
                    .behind(Spot { line, object: piece.end - 1 })
                    .iter()
                    .rev()
                    .copied()
                    .collect();
                while let Some(spot) = out.pop() {
                    taken.push((spot.line, spot.object));
                    out.extend(order.behind(spot).iter().rev());
                }
            }
        }
        (taken, order.moved.into_iter().map(|(spot, to)| (spot.line, to)).collect())
    }

    /// Covers: G3.
    #[test]
    fn lines_come_behind_what_they_hang_on() {
        use Moved::{Before, Behind};
        type Case<'c> = (&'c str, &'c [&'c str], &'c [u64], &'c [(u64, Moved)]);
        let cases: &[Case<'_>] = &[
            ("as it should be", &["a", "b < a", "c < b"], &[1, 2, 3], &[]),
            ("swapped", &["a", "c < b", "b < a"], &[1, 3, 2], &[(2, Behind(3))]),
            (
                "a root that is late",
                &["b < a", "c < b", "d < c", "a"],
                &[4, 1, 2, 3],
                &[(4, Before(1))],
            ),
            ("backwards", &["c < b", "b < a", "a"], &[3, 2, 1], &[(1, Behind(2)), (2, Behind(3))]),
            ("a result", &["< #x", "#x", ""], &[2, 1, 3], &[(1, Behind(2))]),
            ("two of them", &["< #x #y", "#x", "", "#y"], &[2, 3, 4, 1], &[(1, Behind(4))]),
            (
                "one that stands again",
                &["b < a", "b < a", "c < b", "a", "d < c"],
                &[4, 1, 2, 3, 5],
                &[(4, Before(1))],
            ),
            ("a parent that is nowhere", &["a", "c < b"], &[1, 2], &[]),
            ("itself", &["a < a", "b < a"], &[1, 2], &[]),
            ("a circle", &["a < b", "b < a", "c < b"], &[1, 2, 3], &[]),
            (
                "what is early before a circle",
                &["c < b", "a < b", "b < a"],
                &[2, 3, 1],
                &[(1, Behind(3))],
            ),
            ("a circle of both kinds", &["a < #x", "#x b < a", "c"], &[1, 2, 3], &[]),
            (
                "what is early before a circle of both kinds",
                &["c < b", "a < #x", "#x b < a"],
                &[2, 3, 1],
                &[(1, Behind(3))],
            ),
        ];
        for (what, lines, order, moved) in cases {
            let (taken, to) = taken(lines, Spot::default());
            let taken: Vec<u64> = taken.into_iter().map(|(line, _)| line).collect();
            assert_eq!(taken, *order, "{what}");
            assert_eq!(to, *moved, "{what}");
        }
        let (taken, _) = taken(&["b < a", "a", "d < c", "c"], Spot { line: 3, object: 0 });
        assert_eq!(taken, [(1, 0), (2, 0), (4, 0), (3, 0)], "what is past stays");
    }

    /// Covers: G3.
    #[test]
    fn each_record_of_a_fused_line_has_its_own_place() {
        use Moved::{Before, Behind};
        type Case<'c> = (&'c str, &'c [&'c str], &'c [(u64, usize)], &'c [(u64, Moved)]);
        let cases: &[Case<'_>] = &[
            ("as it should be", &["a", "b < a | c < b"], &[(1, 0), (2, 0), (2, 1)], &[]),
            ("within a line", &["b < a | a"], &[(1, 1), (1, 0)], &[(1, Behind(1))]),
            (
                "one waits for a later line",
                &["a | c < b | d < a", "b < a"],
                &[(1, 0), (1, 2), (2, 0), (1, 1)],
                &[(1, Behind(2))],
            ),
            (
                "one comes between two of a line",
                &["b < a", "a | c < b"],
                &[(2, 0), (1, 0), (2, 1)],
                &[(1, Behind(2))],
            ),
            (
                "what a line waits for stands on it",
                &["d < c", "b < a | a", "c < b"],
                &[(2, 1), (2, 0), (3, 0), (1, 0)],
                &[(1, Behind(3)), (2, Behind(2))],
            ),
            (
                "the last one goes before all",
                &["b < a", "c < b | a"],
                &[(2, 1), (1, 0), (2, 0)],
                &[(2, Before(1))],
            ),
        ];
        for (what, lines, order, moved) in cases {
            let (taken, to) = taken(lines, Spot::default());
            assert_eq!(taken, *order, "{what}");
            assert_eq!(to, *moved, "{what}");
        }
        let (taken, _) = taken(&["a | c < b | d < c", "b < a"], Spot { line: 1, object: 2 });
        assert_eq!(taken, [(1, 0), (1, 1), (1, 2), (2, 0)], "what is past stays");
    }
}
