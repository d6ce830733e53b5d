//! Lives of processes, one after the other, in which everything that is a matter of chance follows from a
//! seed: what the model does, how tools interleave, what the clock says, where the disk fails, when the
//! process is killed or power is lost, and what of the unsynced survives.
//!
//! Responsible for: drawing a life, and holding the disk against what was told after each. How many seeds
//! are tried is in `SEGNO_SEEDS`; `SEGNO_SEED=N` tries one; `cargo xtask simulate` sets both. Must not:
//! decide what is right (that is `judge`).
//!
//! Covers: G1, G2, G4, G6, G7, G8, G9, G16.

use crate::judge;
use crate::scene::{
    Around, Pause, Say, Told, id, prompt_with, resume, store, take_up_with, work_off,
};
use segno_model::record::InputKind;
use segno_model::store::{Clock, SessionStore as _};
use segno_runtime::{ModelErrorKind, Session, Sleep, StopKind};
use segno_store::FileLog;
use segno_testkit::sessions::{self, Rng};
use segno_testkit::sim_clock::SimClock;
use segno_testkit::sim_disk::{Fault, OpKind, SimDisk};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many seeds are tried when nobody says.
const SEEDS: u64 = 100;

type Log = FileLog<SimDisk>;

/// One world and the chance that rules it.
struct World {
    rng: Rng,
    disk: SimDisk,
    clock: SimClock,
    told: Told,
    /// How many calls and prompts there were, for names that do not repeat.
    count: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let (disk, told) = crate::workloads::empty();
        Self { rng: Rng::new(seed), disk, clock: SimClock::default(), told, count: 0 }
    }

    fn chance(&mut self, in_a_hundred: usize) -> bool {
        self.rng.below(100) < in_a_hundred
    }

    /// A few processes, each going on where the one before was ended.
    fn live(&mut self) -> Result<(), String> {
        for _ in 0..2 + self.rng.below(3) {
            self.told.shown_by_now();
            self.misfortunes();
            self.process();
            self.disk = self.end_of_process();
            judge::judge(&self.disk, &self.told, false)?;
        }
        judge::judge(&self.disk, &self.told, true)
    }

    /// What is to go wrong during the next process.
    fn misfortunes(&mut self) {
        if self.chance(60) {
            let changes = self.rng.below(70) as u64;
            self.disk.stop_before_change(changes);
        }
        if self.chance(20) {
            let room = self.rng.below(6000) as u64;
            self.disk.set_capacity(Some(self.disk.used() + room));
        }
        if self.chance(15) {
            let kinds =
                [OpKind::Write, OpKind::Sync, OpKind::SyncDir, OpKind::Create, OpKind::Read];
            let on = kinds[self.rng.below(kinds.len())];
            let after = self.rng.below(12) as u64;
            let errors = [ErrorKind::Other, ErrorKind::PermissionDenied, ErrorKind::Interrupted];
            let error = errors[self.rng.below(errors.len())];
            // An interrupted sync or directory is an error like any other.
            let forever = error != ErrorKind::Interrupted && self.chance(30);
            self.disk.inject(Fault { on, after, error, forever });
        }
        let short = self.chance(15);
        self.disk.set_short_writes(short);
        let jump = self.rng.below(200_000) as i64 - 100_000;
        self.clock.advance(jump);
    }

    /// One process: it opens or begins the session and works off some prompts. What fails, fails.
    fn process(&mut self) {
        let Some(mut session) = self.session() else { return };
        if self.chance(50) {
            let plan = self.plan();
            let around = self.around();
            let taken = take_up_with(&mut session, &plan, &around(&self.disk), &mut self.told);
            if taken.is_err() {
                return;
            }
        }
        for _ in 0..1 + self.rng.below(3) {
            let text = self.words();
            let plan = self.plan();
            self.told.tried.push(text.clone());
            let around = self.around();
            let around = around(&self.disk);
            let ended = prompt_with(&mut session, &text, &plan, &around, &mut self.told);
            if ended.is_err() && self.chance(50) {
                return;
            }
            if self.chance(50) {
                let around = self.around();
                let around = around(&self.disk);
                if work_off(&mut session, &around, &mut self.told).is_err() {
                    return;
                }
            }
        }
    }

    fn around(&mut self) -> impl FnOnce(&SimDisk) -> Around<'_> + use<> {
        let (sleep, pause) = (self.timer(), Pause::seeded(self.rng.next_u64()));
        // Half of the processes have a model whose window is small.
        let window = self.chance(50).then(|| 150 + self.rng.below(600) as u64);
        // And of those, half have a provider that keeps states.
        let states = window.is_some_and(|window| window % 2 == 0);
        move |disk| Around { disk, sleep, pause, window, states }
    }

    fn session(&mut self) -> Option<Session<Log>> {
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        if let Ok(session) = resume(&self.disk, &id(1)) {
            return Some(session);
        }
        let log = store(&self.disk).create(sessions::header(id(1)));
        Some(Session::new(log, clock))
    }

    /// The medium is well again for the next process, and holds what the end of this one left.
    fn end_of_process(&mut self) -> SimDisk {
        let next = if self.chance(60) {
            let states = self.disk.crash_states();
            let number = u128::from(self.rng.next_u64()) << 64 | u128::from(self.rng.next_u64());
            states.nth(number % states.total())
        } else {
            self.disk.kill()
        };
        next.heal();
        next
    }

    fn words(&mut self) -> String {
        self.count += 1;
        let length = [0, 10, 200, 900][self.rng.below(4)];
        format!("prompt {} {}", self.count, "ab ".repeat(length / 3))
    }

    /// What the model does in one run.
    fn plan(&mut self) -> Vec<Say> {
        let mut plan = Vec::new();
        for _ in 0..self.rng.below(4) {
            if self.chance(25) {
                plan.push(self.sent());
            }
            plan.push(match self.rng.below(14) {
                0..=6 => Say::Calls(self.calls()),
                7 => Say::EndedIn("half a sentence", StopKind::User),
                8 => Say::EndedIn("half a word", StopKind::Shutdown),
                9 => Say::Fails("it began", ModelErrorKind::Busy),
                10 => Say::Fails("", ModelErrorKind::Refused),
                11 => Say::Fails("", ModelErrorKind::TooLong),
                12 => Say::Rambles,
                _ => Say::Text("in between"),
            });
        }
        plan.push(Say::Text("at the end"));
        plan
    }

    /// What somebody else sends meanwhile; one in four sends what was sent before.
    fn sent(&mut self) -> Say {
        if !self.chance(25) {
            self.count += 1;
        }
        let input: &'static str = Box::leak(format!("i{}", self.count).into_boxed_str());
        let kinds = [InputKind::Steer, InputKind::Queue];
        Say::Sent(input, "from elsewhere", kinds[self.rng.below(2)])
    }

    fn calls(&mut self) -> &'static [(&'static str, &'static str)] {
        let tools = ["read", "act", "edit", "big", "act", "wait", "page"];
        let count = 1 + self.rng.below(4);
        let calls = (0..count).map(|_| {
            self.count += 1;
            // Names live as long as the test does; a seed makes a few dozen.
            let name: &'static str = Box::leak(format!("c{}", self.count).into_boxed_str());
            (name, tools[self.rng.below(tools.len())])
        });
        Box::leak(calls.collect::<Vec<_>>().into_boxed_slice())
    }

    /// A timer whose third waiting makes room on the disk.
    fn timer(&self) -> Sleep {
        let (disk, waits) = (self.disk.clone(), Arc::new(AtomicU64::new(0)));
        Arc::new(move |_| {
            if waits.fetch_add(1, Ordering::Relaxed) >= 2 {
                disk.set_capacity(None);
            }
            Box::pin(std::future::ready(()))
        })
    }
}

#[test]
fn lives_of_processes_keep_every_promise() {
    let read = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    if let Some(seed) = read("SEGNO_SEED") {
        let mut world = World::new(seed);
        let lived = world.live();
        return lived.unwrap_or_else(|why| panic!("seed {seed}: {why}\n{}", world.told.story()));
    }
    let seeds = read("SEGNO_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let failures = std::sync::Mutex::new(Vec::new());
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    if let Err(why) = World::new(seed).live() {
                        let line = format!("cargo xtask simulate --seed {seed}: {why}");
                        failures.lock().expect("no thread panicked").push(line);
                    }
                }
            });
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("simulation: {seeds} seeds, {:.0} a second", seeds as f64 / seconds.max(0.001));
    let failures = failures.into_inner().expect("no thread panicked");
    let shown = failures[..failures.len().min(12)].join("\n");
    assert!(failures.is_empty(), "{} seeds fail:\n{shown}", failures.len());
}
