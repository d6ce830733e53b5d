//! Two processes that take turns on one disk, an operation at a time, in every order.
//!
//! Responsible for: letting exactly one of them go on, and going through the orders. Must not: know what the
//! processes do, or let an order depend on anything but its list of switches.
//!
//! An order is who begins, and before which steps it is the other one's turn. All orders with at most so many
//! switches are gone through; a process that is at its end leaves the disk to the other one. Few switches
//! are enough to find most races: what breaks in any order mostly breaks in one with two or three.

use super::SimDisk;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Where both processes stand.
#[derive(Debug, Default)]
struct Stand {
    /// Waits for its turn.
    waits: [bool; 2],
    /// Is at its end.
    over: [bool; 2],
    /// May take its next step.
    turn: Option<usize>,
}

#[derive(Debug, Default)]
struct Gate {
    stand: Mutex<Stand>,
    moved: Condvar,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Stand> {
        self.stand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, condition: impl FnMut(&mut Stand) -> bool) -> MutexGuard<'_, Stand> {
        let waiting = self.moved.wait_while(self.lock(), condition);
        waiting.unwrap_or_else(PoisonError::into_inner)
    }
}

/// One process's place in the order.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    process: usize,
    gate: Arc<Gate>,
}

impl Turn {
    /// Waits until it is this process's turn, for one step.
    pub(super) fn wait(&self) {
        self.gate.lock().waits[self.process] = true;
        self.gate.moved.notify_all();
        let mut stand = self.gate.wait_while(|stand| stand.turn != Some(self.process));
        stand.turn = None;
        stand.waits[self.process] = false;
    }
}

/// Says that a process is at its end, however that comes.
struct AtEnd(Turn);

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.gate.lock().over[self.0.process] = true;
        self.0.gate.moved.notify_all();
    }
}

/// What a process does with the disk.
pub type Process<R> = Box<dyn FnOnce(&SimDisk) -> R + Send>;

/// Who begins, and before which steps they switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The process that begins.
    pub first: usize,
    /// The steps before which it is the other one's turn, ascending.
    pub switches: Vec<usize>,
}

/// Goes through all orders of two processes with at most `most` switches; says how many there were. Each
/// begins with what `make` gives; `check` gets the disk and what the processes gave.
pub fn in_every_order<R: Send>(
    most: usize,
    make: impl Fn() -> (SimDisk, [Process<R>; 2]),
    mut check: impl FnMut(&SimDisk, [R; 2], &Order),
) -> usize {
    let mut count = 0;
    let mut waiting: Vec<Order> =
        [1, 0].map(|first| Order { first, switches: Vec::new() }).to_vec();
    while let Some(order) = waiting.pop() {
        let (disk, processes) = make();
        let (given, steps) = run(&disk, processes, &order);
        check(&disk, given, &order);
        count += 1;
        if order.switches.len() < most {
            let from = order.switches.last().map_or(1, |last| last + 1);
            waiting.extend((from..steps).map(|at| {
                let mut next = order.clone();
                next.switches.push(at);
                next
            }));
        }
    }
    count
}

/// Runs both in one order; gives what they gave, and how many steps there were.
fn run<R: Send>(disk: &SimDisk, processes: [Process<R>; 2], order: &Order) -> ([R; 2], usize) {
    let gate = Arc::new(Gate::default());
    let [a, b] = processes;
    std::thread::scope(|scope| {
        let begin = |process: usize, does: Process<R>| {
            let turn = Turn { process, gate: Arc::clone(&gate) };
            let disk = disk.in_turn(turn.clone());
            scope.spawn(move || {
                let _at_end = AtEnd(turn);
                does(&disk)
            })
        };
        let (a, b) = (begin(0, a), begin(1, b));
        let steps = conduct(&gate, order);
        let given = |thread: std::thread::ScopedJoinHandle<'_, R>| match thread.join() {
            Ok(given) => given,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        ([given(a), given(b)], steps)
    })
}

/// Gives the turns until both are at their end; says how many there were.
fn conduct(gate: &Gate, order: &Order) -> usize {
    let (mut current, mut step) = (order.first, 0);
    loop {
        let settled = |stand: &Stand| (0..2).all(|p| stand.waits[p] || stand.over[p]);
        let mut stand = gate.wait_while(|stand| stand.turn.is_some() || !settled(stand));
        if stand.over == [true, true] {
            return step;
        }
        if order.switches.contains(&step) || stand.over[current] {
            current = if stand.over[1 - current] { current } else { 1 - current };
        }
        step += 1;
        stand.turn = Some(current);
        drop(stand);
        gate.moved.notify_all();
    }
}
