//! Lines that stand before what they hang on.
//!
//! Responsible for: in which order the lines of a file have to be taken so that each comes behind the record and
//! the call that it names, where those stand in the file at all. Agents look these up in the whole file. Must not:
//! hold lines, or change an order for any other reason.

use super::agent::Agent;
use super::codex::unpack;
use super::input::ForeignError;
use super::lines::{Lines, without_nuls};
use super::outline::ByHash;
use links::{Links, links};
use segno_model::line::readable_json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

mod links;

/// How many bytes of lines may wait at once.
const MOST_WAITING: u64 = 32 << 20;

/// How often lines that wait for each other are let go.
const TRIES: usize = 4;

/// What is out of order in a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    /// Lines that wait.
    held: HashSet<u64>,
    /// By the line that they waited for: those that come right behind it.
    behind: HashMap<u64, Vec<u64>>,
    /// The fewest lines that have to move, and where they go.
    moved: BTreeMap<u64, Moved>,
    /// The order of the objects of one line, where it is not the one in which they stand.
    within: HashMap<u64, Vec<usize>>,
}

/// Where a line goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It stands before what it hangs on: behind this line.
    Behind(u64),
    /// It stands behind what hangs on it: before this line.
    Before(u64),
}

impl Order {
    /// The order of a file's lines from line `from` on; those before it are past.
    pub(crate) fn of(path: &Path, agent: Agent, from: u64) -> Result<Self, ForeignError> {
        let (input, _) = unpack::open(path).map_err(|e| ForeignError::io(path, e))?;
        let mut lines = Lines::new(input, path);
        let mut file = File { from, ..File::default() };
        while let Some(line) = lines.next_raw()? {
            file.lines = line.number;
            if line.oversize.is_none() {
                let marked = line.bytes.strip_prefix(b"\xEF\xBB\xBF");
                let bytes = marked.filter(|_| line.number == 1).unwrap_or(line.bytes);
                let text = readable_json(without_nuls(bytes).trim_ascii());
                file.take(line.number, &links(agent, &text), text.len() as u64);
            }
        }
        Ok(file.order())
    }

    /// Whether a line waits for a later one.
    pub(crate) fn is_held(&self, line: u64) -> bool {
        self.held.contains(&line)
    }

    /// The lines that waited for this one, in their order.
    pub(crate) fn behind(&self, line: u64) -> &[u64] {
        self.behind.get(&line).map_or(&[], Vec::as_slice)
    }

    /// The places of a line's objects, in the order in which they come.
    pub(crate) fn within(&self, line: u64, objects: usize) -> Vec<usize> {
        let own = self.within.get(&line).filter(|own| own.len() == objects);
        own.cloned().unwrap_or_else(|| (0..objects).collect())
    }

    /// The lines that move.
    pub(crate) fn moved(&self) -> &BTreeMap<u64, Moved> {
        &self.moved
    }
}

/// A line that names others.
struct Row {
    line: u64,
    bytes: u64,
    needs: Vec<u64>,
}

/// A file whose lines were looked at.
#[derive(Default)]
struct File {
    from: u64,
    lines: u64,
    /// Where a record or a call stands first.
    first: ByHash<u64>,
    /// What records hang on.
    parents: ByHash<u64>,
    rows: Vec<Row>,
    within: HashMap<u64, Vec<usize>>,
}

impl File {
    fn take(&mut self, line: u64, objects: &[Links], bytes: u64) {
        for links in objects {
            for own in links.own() {
                self.first.entry(own).or_insert(line);
            }
            if let Some((id, Some(parent))) = links.record {
                self.parents.entry(id).or_insert(parent);
            }
        }
        let needs: Vec<u64> = objects.iter().flat_map(Links::needs).collect();
        if !needs.is_empty() {
            self.rows.push(Row { line, bytes, needs });
        }
        let within = within(objects);
        if !within.is_sorted() {
            self.within.insert(line, within);
        }
    }

    fn order(mut self) -> Order {
        let (first, from) = (std::mem::take(&mut self.first), self.from);
        let within = std::mem::take(&mut self.within);
        let as_it_is = || Order { within: within.clone(), ..Order::default() };
        let is_ahead = |row: &Row| {
            row.needs.iter().any(|need| first.get(need).is_some_and(|line| *line > row.line))
        };
        if !self.rows.iter().any(|row| row.line >= from && is_ahead(row)) {
            return as_it_is();
        }
        let circles = self.circles(&first);
        for row in &mut self.rows {
            let needs = row.needs.iter().filter_map(|need| first.get(need).copied());
            row.needs = needs.filter(|line| *line != row.line).collect();
        }
        let mut free: HashSet<u64> = circles;
        for _ in 0..TRIES {
            let mut run = Run { from, ..Run::default() };
            run.all(&self.rows, &free);
            if run.most > MOST_WAITING {
                break;
            }
            if run.held.is_empty() {
                return Order { within, ..run.order(self.lines) };
            }
            // They wait for each other.
            free.extend(run.held.keys());
        }
        as_it_is()
    }

    /// Lines of records that hang on themselves through others, of each circle the first: there it is cut.
    fn circles(&self, first: &ByHash<u64>) -> HashSet<u64> {
        let mut circles = HashSet::new();
        let mut seen: ByHash<u64> = ByHash::default();
        for (&start, walk) in self.parents.keys().zip(1_u64..) {
            let mut at = start;
            let closes = loop {
                match seen.insert(at, walk) {
                    Some(before) if before == walk => break true,
                    Some(_) => break false,
                    None => {}
                }
                match self.parents.get(&at) {
                    Some(parent) => at = *parent,
                    None => break false,
                }
            };
            let end = at;
            if !closes {
                continue;
            }
            let mut opened = None;
            loop {
                opened = opened.into_iter().chain(first.get(&at).copied()).min();
                match self.parents.get(&at) {
                    Some(parent) if *parent != end => at = *parent,
                    _ => break,
                }
            }
            circles.extend(opened);
        }
        circles
    }
}

/// Lines on their way.
#[derive(Default)]
struct Run {
    from: u64,
    /// The last line that was come to.
    at: u64,
    /// Lines that wait, and how long they are.
    held: HashMap<u64, u64>,
    waiting: BTreeMap<u64, Vec<(u64, Vec<u64>)>>,
    waits: HashSet<u64>,
    behind: HashMap<u64, Vec<u64>>,
    bytes: u64,
    most: u64,
}

impl Run {
    fn all(&mut self, rows: &[Row], free: &HashSet<u64>) {
        let from = self.from;
        for row in rows.iter().filter(|row| row.line >= from) {
            self.pass(row.line);
            self.at = row.line;
            let is_free = free.contains(&row.line);
            match self.unmet(&row.needs).filter(|_| !is_free) {
                Some(need) => {
                    self.bytes += row.bytes;
                    self.most = self.most.max(self.bytes);
                    self.held.insert(row.line, row.bytes);
                    self.waits.insert(row.line);
                    self.waiting.entry(need).or_default().push((row.line, row.needs.clone()));
                }
                None => self.release(row.line),
            }
        }
        self.pass(u64::MAX);
    }

    /// The lines up to `end`, which wait for nothing.
    fn pass(&mut self, end: u64) {
        // One that comes may wait for another line of these.
        while let Some(line) = self.next_awaited(end) {
            self.at = line;
            self.release(line);
        }
    }

    fn next_awaited(&self, end: u64) -> Option<u64> {
        let start = self.at.saturating_add(1);
        let mut awaited = self.waiting.range(start..end.max(start));
        awaited.next().map(|(line, _)| *line)
    }

    /// What a line waits for.
    fn unmet(&self, needs: &[u64]) -> Option<u64> {
        let is_past =
            |line: u64| line < self.from || line <= self.at && !self.held.contains_key(&line);
        needs.iter().copied().find(|line| !is_past(*line))
    }

    /// A line is out: those that waited for it come, each with what waited for it.
    fn release(&mut self, line: u64) {
        let mut out = vec![line];
        while let Some(line) = out.pop() {
            self.bytes -= self.held.remove(&line).unwrap_or(0);
            let mut next = Vec::new();
            for (waiter, needs) in self.waiting.remove(&line).unwrap_or_default() {
                match self.unmet(&needs) {
                    Some(need) => self.waiting.entry(need).or_default().push((waiter, needs)),
                    None => next.push(waiter),
                }
            }
            out.extend(next.iter().rev());
            if !next.is_empty() {
                self.behind.insert(line, next);
            }
        }
    }

    fn order(self, lines: u64) -> Order {
        let mut order = Order { held: self.waits, behind: self.behind, ..Order::default() };
        let mut taken: Vec<u64> = Vec::new();
        for line in (1..=lines).filter(|line| !order.is_held(*line)) {
            let mut out = vec![line];
            while let Some(line) = out.pop() {
                taken.push(line);
                out.extend(order.behind(line).iter().rev());
            }
        }
        let stays = rising(&taken);
        let others = taken.len() - stays.len();
        let moves = |line: &u64| match order.held.len() <= others {
            true => order.is_held(*line),
            false => !stays.contains(line),
        };
        let mut moved = BTreeMap::new();
        for (at, line) in taken.iter().enumerate().filter(|(_, line)| moves(line)) {
            let before = at.checked_sub(1).and_then(|at| taken.get(at)).copied();
            let to = match before.filter(|before| before > line) {
                Some(before) => Moved::Behind(before),
                None => Moved::Before(taken.get(at + 1).copied().unwrap_or(*line)),
            };
            moved.insert(*line, to);
        }
        order.moved = moved;
        order
    }
}

/// The order of a line's objects in which each comes behind those that it names.
fn within(objects: &[Links]) -> Vec<usize> {
    let mut places: ByHash<usize> = ByHash::default();
    for (at, links) in objects.iter().enumerate().filter(|_| objects.len() > 1) {
        for own in links.own() {
            places.entry(own).or_insert(at);
        }
    }
    let mut seen = HashSet::new();
    let mut order = Vec::with_capacity(objects.len());
    for start in 0..objects.len() {
        let mut way = vec![(start, false)];
        while let Some((at, is_free)) = way.pop() {
            if is_free {
                order.push(at);
            } else if seen.insert(at) {
                way.push((at, true));
                let needs = objects.get(at).into_iter().flat_map(Links::needs);
                way.extend(needs.filter_map(|need| places.get(&need)).map(|at| (*at, false)));
            }
        }
    }
    order
}

/// The most of these numbers that rise as they stand.
fn rising(numbers: &[u64]) -> HashSet<u64> {
    // By length: where the run with the lowest end ends.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(numbers.len());
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
    for (at, own) in numbers.iter().enumerate() {
        let len = ends.partition_point(|end| number(*end) < *own);
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
        Some(number(at))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::outline::hash;
    use super::*;

    /// The order in which lines come that are given as their own names and what they need.
    fn taken(lines: &[(&str, &str)], from: u64) -> (Vec<u64>, Vec<(u64, Moved)>) {
        let mut file = File { from, ..File::default() };
        for ((own, needs), line) in lines.iter().zip(1..) {
            let (parent, results): (Vec<&str>, Vec<&str>) =
                needs.split_whitespace().partition(|need| !need.starts_with('#'));
            let parent = parent.first().map(|parent| hash(*parent));
            let (calls, records): (Vec<&str>, Vec<&str>) =
                own.split_whitespace().partition(|own| own.starts_with('#'));
            let hashes = |names: Vec<&str>| names.into_iter().map(hash).collect();
            let record = records.first().map(|own| (hash(*own), parent));
            let (calls, results) = (hashes(calls), hashes(results));
            file.lines = line;
            file.take(line, &[Links { record, calls, results }], 10);
        }
        let order = file.order();
        let (mut taken, mut out) = (Vec::new(), Vec::new());
        for line in (1..=lines.len() as u64).filter(|line| !order.is_held(*line)) {
            out.push(line);
            while let Some(line) = out.pop() {
                taken.push(line);
                out.extend(order.behind(line).iter().rev());
            }
        }
        (taken, order.moved.into_iter().collect())
    }

    /// Covers: G3.
    #[test]
    fn lines_come_behind_what_they_hang_on() {
        use Moved::{Before, Behind};
        type Case<'c> = (&'c str, &'c [(&'c str, &'c str)], &'c [u64], &'c [(u64, Moved)]);
        let cases: &[Case<'_>] = &[
            ("as it should be", &[("a", ""), ("b", "a"), ("c", "b")], &[1, 2, 3], &[]),
            ("swapped", &[("a", ""), ("c", "b"), ("b", "a")], &[1, 3, 2], &[(2, Behind(3))]),
            (
                "a root that is late",
                &[("b", "a"), ("c", "b"), ("d", "c"), ("a", "")],
                &[4, 1, 2, 3],
                &[(4, Before(1))],
            ),
            (
                "backwards",
                &[("c", "b"), ("b", "a"), ("a", "")],
                &[3, 2, 1],
                &[(1, Behind(2)), (2, Behind(3))],
            ),
            ("a result", &[("", "#x"), ("#x", ""), ("", "")], &[2, 1, 3], &[(1, Behind(2))]),
            (
                "two of them",
                &[("", "#x #y"), ("#x", ""), ("", ""), ("#y", "")],
                &[2, 3, 4, 1],
                &[(1, Behind(4))],
            ),
            ("a parent that is nowhere", &[("a", ""), ("c", "b")], &[1, 2], &[]),
            ("itself", &[("a", "a"), ("b", "a")], &[1, 2], &[]),
            ("a circle", &[("a", "b"), ("b", "a"), ("c", "b")], &[1, 2, 3], &[]),
            ("a circle of both kinds", &[("a", "#x"), ("#x b", "a"), ("c", "")], &[1, 2, 3], &[]),
        ];
        for (what, lines, order, moved) in cases {
            let (taken, to) = taken(lines, 0);
            assert_eq!(taken, *order, "{what}");
            assert_eq!(to, *moved, "{what}");
        }
        let lines = [("b", "a"), ("a", ""), ("d", "c"), ("c", "")];
        assert_eq!(taken(&lines, 3).0, [1, 2, 4, 3], "what is past stays");
    }
}
