//! Who works on what within one process.
//!
//! Responsible for: that wake-ups of one session coalesce, that one session is worked on serially and
//! several in parallel, up to a limit, and that a wake-up that comes while the work on its session is
//! being put away is not lost. Must not: know what the work is, or exclude other processes (the store's
//! writer's right does, G5).

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use tokio::sync::mpsc;

/// Wakes sessions; may be cloned and sent about.
#[derive(Debug, Clone)]
pub struct Waker<K>(mpsc::UnboundedSender<K>);

impl<K> Waker<K> {
    /// There is something to do for `key`. It is worked on at least once from now on.
    pub fn wake(&self, key: K) {
        // Nobody listens any more: then nothing is begun any more.
        let _ = self.0.send(key);
    }
}

/// Runs a job for whatever is woken.
#[derive(Debug)]
pub struct Coordinator<K, J> {
    woken: mpsc::UnboundedReceiver<K>,
    job: J,
    parallel: usize,
}

impl<K: Ord + Clone, J, F> Coordinator<K, J>
where
    J: Fn(K) -> F,
    F: Future<Output = ()>,
{
    /// A coordinator, and what wakes it. At most `parallel` jobs run at a time, and at least one.
    pub fn new(parallel: usize, job: J) -> (Self, Waker<K>) {
        let (sender, woken) = mpsc::unbounded_channel();
        (Self { woken, job, parallel }, Waker(sender))
    }

    /// Works until every waker is gone and everything that was woken is done.
    pub async fn run(mut self) {
        let mut board = Board::new(self.parallel);
        let mut running = FuturesUnordered::new();
        let mut open = true;
        while open || !running.is_empty() {
            tokio::select! {
                biased;
                woken = self.woken.recv(), if open => match woken {
                    Some(key) => board.wake(key),
                    None => open = false,
                },
                Some(key) = running.next() => board.finished(&key),
            }
            while let Some(key) = board.next() {
                let work = (self.job)(key.clone());
                running.push(async move {
                    work.await;
                    key
                });
            }
        }
    }
}

/// Where a key stands. One that is not on the board rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// It waits for its turn.
    Waiting,
    /// It is worked on, and nothing has come since.
    Running,
    /// It is worked on, and was woken since: it is worked on once more.
    RunningAgain,
}

/// The decisions, without time.
#[derive(Debug, Clone)]
struct Board<K> {
    slots: BTreeMap<K, Slot>,
    queue: VecDeque<K>,
    running: usize,
    parallel: usize,
}

impl<K: Ord + Clone> Board<K> {
    fn new(parallel: usize) -> Self {
        Self {
            slots: BTreeMap::new(),
            queue: VecDeque::new(),
            running: 0,
            parallel: parallel.max(1),
        }
    }

    fn wake(&mut self, key: K) {
        let next = match self.slots.get(&key) {
            None => {
                self.queue.push_back(key.clone());
                Slot::Waiting
            }
            Some(Slot::Waiting) => Slot::Waiting,
            Some(Slot::Running | Slot::RunningAgain) => Slot::RunningAgain,
        };
        self.slots.insert(key, next);
    }

    /// What is to be begun now, if anything.
    fn next(&mut self) -> Option<K> {
        if self.running >= self.parallel {
            return None;
        }
        let key = self.queue.pop_front()?;
        self.slots.insert(key.clone(), Slot::Running);
        self.running += 1;
        Some(key)
    }

    fn finished(&mut self, key: &K) {
        let slot = self.slots.remove(key);
        if matches!(slot, Some(Slot::Running | Slot::RunningAgain)) {
            self.running -= 1;
        }
        if slot == Some(Slot::RunningAgain) {
            self.wake(key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    const KEYS: [u8; 3] = [0, 1, 2];

    /// A board and what an onlooker knows.
    #[derive(Clone)]
    struct World {
        board: Board<u8>,
        /// Worked on now.
        running: BTreeSet<u8>,
        /// Woken, and not begun since.
        owed: BTreeSet<u8>,
        wakes: usize,
        begun: usize,
    }

    impl World {
        fn begin_what_can_be(&mut self) {
            while let Some(key) = self.board.next() {
                assert!(self.running.insert(key), "{key} is worked on twice at a time");
                assert!(self.running.len() <= self.board.parallel, "too many at a time");
                assert!(self.owed.remove(&key), "{key} is worked on though nobody woke it");
                self.begun += 1;
            }
            let room = self.board.parallel - self.running.len();
            let free = self.owed.iter().filter(|key| !self.running.contains(key)).count();
            assert!(room == 0 || free == 0, "somebody waits though there is room");
        }

        fn explore(&self, depth: usize, seen: &RefCell<usize>) {
            *seen.borrow_mut() += 1;
            self.drained();
            if depth == 0 {
                return;
            }
            for key in KEYS {
                let mut next = self.clone();
                next.board.wake(key);
                next.owed.insert(key);
                next.wakes += 1;
                next.begin_what_can_be();
                next.explore(depth - 1, seen);
            }
            for key in &self.running {
                let mut next = self.clone();
                next.running.remove(key);
                next.board.finished(key);
                next.begin_what_can_be();
                next.explore(depth - 1, seen);
            }
        }

        /// Whatever happened: when all work ends, nothing that was woken is left.
        fn drained(&self) {
            let mut last = self.clone();
            while let Some(key) = last.running.pop_first() {
                last.board.finished(&key);
                last.begin_what_can_be();
            }
            assert_eq!(last.owed, BTreeSet::new(), "a wake-up was lost");
            assert!(last.board.slots.is_empty() && last.board.running == 0);
            assert!(last.begun <= last.wakes, "more work than wake-ups");
        }
    }

    /// Every order of wake-ups and endings of three sessions: none is worked on twice at a time, none is
    /// forgotten, wake-ups coalesce. Covers: G9.
    #[test]
    fn every_order_of_wakes_and_ends() {
        for parallel in 1..=3 {
            let (running, owed) = (BTreeSet::new(), BTreeSet::new());
            let board = Board::new(parallel);
            let world = World { board, running, owed, wakes: 0, begun: 0 };
            let seen = RefCell::default();
            world.explore(7, &seen);
            assert!(*seen.borrow() > 5_000, "{seen:?}");
        }
    }

    /// Jobs of different sessions wait for each other and so are there together; a session that is woken
    /// by its own job's last act is worked on again.
    #[tokio::test]
    async fn jobs_run_together_and_a_wake_at_the_end_counts() {
        let together = tokio::sync::Barrier::new(2);
        let (again, ran) = (RefCell::new(None::<Waker<u8>>), RefCell::new(Vec::new()));
        let (coordinator, waker) = Coordinator::new(4, |key: u8| {
            let (together, again, ran) = (&together, &again, &ran);
            async move {
                let first = !ran.borrow().contains(&key);
                ran.borrow_mut().push(key);
                if first {
                    together.wait().await;
                    if let Some(waker) = again.borrow_mut().take() {
                        waker.wake(key);
                    }
                }
            }
        });
        *again.borrow_mut() = Some(waker.clone());
        waker.wake(1);
        waker.wake(2);
        waker.wake(1);
        drop(waker);
        coordinator.run().await;
        let mut ran = ran.into_inner();
        ran.sort_unstable();
        assert!(ran == [1, 1, 2] || ran == [1, 2, 2] || ran == [1, 1, 2, 2], "{ran:?}");
    }
}
