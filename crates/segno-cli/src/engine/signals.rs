//! Ctrl-C, SIGTERM and SIGHUP, as stops of the turn that runs.
//!
//! Responsible for: the first Ctrl-C stops the turn for good, the second leaves as well; a termination, a
//! closed terminal, or a pipe that nobody reads any more ends cleanly, with what is known on disk. Must
//! not: end the process by itself while a turn runs, except on a third Ctrl-C.
//!
//! A process never outlives its terminal: what reads the keys can spin for ever on one that is gone, and
//! a session would stay held. Everything acknowledged is on disk, so the process may simply end.

use crate::error::CliError;
use crate::terminal::quiet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use segno_runtime::{Stop, StopHandle, StopKind};
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Ctrl-Cs in one turn after which the process ends at once.
const IMPATIENT: u8 = 3;

/// How often it is looked whether the terminal is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Shared {
    turn: Mutex<Option<StopHandle>>,
    presses: AtomicU8,
    leaving: Arc<AtomicBool>,
    /// Standard input was a terminal when it began; one that is gone does not say so any more.
    had_terminal: bool,
    /// It leaves because its terminal is gone.
    hung_up: AtomicBool,
}

/// What arrives from outside.
#[derive(Clone, Default)]
pub struct Signals {
    shared: Arc<Shared>,
}

impl Signals {
    /// Starts listening; must be called within the async runtime. Output that nobody reads any more ends the
    /// work as a signal does.
    ///
    /// # Errors
    /// When the system allows no handlers.
    pub fn listen() -> std::io::Result<Self> {
        Self::listen_with(true)
    }

    /// As [`Signals::listen`], for a process whose output is for whoever started it, who need not stay.
    ///
    /// # Errors
    /// When the system allows no handlers.
    pub fn listen_without_reader() -> std::io::Result<Self> {
        Self::listen_with(false)
    }

    fn listen_with(needs_reader: bool) -> std::io::Result<Self> {
        let had_terminal = std::io::stdin().is_terminal();
        let signals = Self { shared: Arc::new(Shared { had_terminal, ..Shared::default() }) };
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut continued = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
        let shared = Arc::clone(&signals.shared);
        tokio::spawn(async move {
            let mut look = tokio::time::interval(LOOK_EVERY);
            loop {
                tokio::select! {
                    _ = interrupt.recv() => shared.interrupted(),
                    _ = terminate.recv() => shared.leave(StopKind::Shutdown),
                    _ = hangup.recv() => shared.hang_up(),
                    _ = continued.recv() => quiet::hush(),
                    _ = look.tick() => {
                        if needs_reader && reader_is_gone() {
                            shared.leave(StopKind::Shutdown);
                        }
                    },
                }
                // The closing may be seen before its signal arrives, or without one.
                if shared.lost_terminal() {
                    shared.hang_up();
                    return end_without_a_terminal(&shared).await;
                }
            }
        });
        Ok(signals)
    }

    /// A turn begins: what arrives stops it.
    #[must_use]
    pub fn begin_turn(&self) -> Stop {
        let (handle, stop) = StopHandle::new();
        if self.is_leaving() {
            handle.stop(StopKind::Shutdown);
        }
        self.shared.presses.store(0, Ordering::SeqCst);
        *self.shared.turn() = Some(handle);
        stop
    }

    /// The turn is over.
    pub fn end_turn(&self) {
        *self.shared.turn() = None;
    }

    /// A Ctrl-C that came as a key, because the terminal was read key by key.
    pub fn interrupt(&self) {
        self.shared.interrupted();
    }

    /// The terminal is gone.
    pub fn hang_up(&self) {
        self.shared.hang_up();
    }

    /// Whether the process is to end.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.shared.leaving.load(Ordering::SeqCst)
    }

    /// Whether its terminal was closed.
    #[must_use]
    pub fn is_hung_up(&self) -> bool {
        self.shared.hung_up.load(Ordering::SeqCst) || self.shared.lost_terminal()
    }

    /// The flag behind [`Signals::is_leaving`], for the line editor.
    #[must_use]
    pub fn leaving(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.leaving)
    }
}

/// What a person is told where signals cannot be handled.
#[must_use]
pub fn no_signals(error: &std::io::Error) -> CliError {
    CliError::failed("Signals cannot be handled here.").because(error).next(
        "Nothing was begun, since Ctrl-C could not end it. Check the limits of this process (ulimit -a).",
    )
}

/// Whether standard input was a terminal that somebody closed.
fn terminal_is_gone() -> bool {
    let stdin = std::io::stdin();
    let mut asked = [PollFd::new(&stdin, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().contains(PollFlags::HUP)
}

/// Whether standard output is a pipe that nobody reads any more.
fn reader_is_gone() -> bool {
    let stdout = std::io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().contains(PollFlags::ERR)
}

/// Lets a turn record how it ends, gives the ordinary way out a moment, and then ends the process.
async fn end_without_a_terminal(shared: &Shared) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if shared.turn().is_none() {
            tokio::time::sleep(LOOK_EVERY).await;
            std::process::exit(i32::from(crate::error::ExitCode::Suspended as u8));
        }
    }
}

impl Shared {
    fn turn(&self) -> std::sync::MutexGuard<'_, Option<StopHandle>> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost_terminal(&self) -> bool {
        self.had_terminal && terminal_is_gone()
    }

    fn interrupted(&self) {
        let presses = self.presses.fetch_add(1, Ordering::SeqCst) + 1;
        if presses >= IMPATIENT {
            quiet::restore();
            std::process::exit(i32::from(crate::error::ExitCode::Stopped as u8));
        }
        match &*self.turn() {
            Some(handle) => handle.stop(StopKind::User),
            None => self.leaving.store(true, Ordering::SeqCst),
        }
        if presses > 1 {
            self.leaving.store(true, Ordering::SeqCst);
        }
    }

    fn hang_up(&self) {
        self.hung_up.store(true, Ordering::SeqCst);
        self.leave(StopKind::Shutdown);
    }

    fn leave(&self, kind: StopKind) {
        self.leaving.store(true, Ordering::SeqCst);
        if let Some(handle) = &*self.turn() {
            handle.stop(kind);
        }
    }
}
