//! The supervisor: a process of its own for one command.
//!
//! Responsible for: the order lock, claim, command, output, status; the deadline; and carrying out a
//! stop on the process group of its own child, which it has not reaped, so that the group's number is
//! certainly the child's. Must not: talk to anybody but through the action's directory, or know what the
//! command is for. It works in that directory, so that a session which is moved takes it along.

use super::action::{ActionDir, Claimant, End, LOST_CLAIM, NOTHING_STARTED, Request, Status};
use super::output::{OutputWriter, PIECE, is_full};
use super::platform;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, OFlags, fcntl_getfl, fcntl_setfl, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, setsid, waitid};
use std::io::{self, PipeReader, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::Duration;

/// How long a group has between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_millis(1500);
/// How often an ending group is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How often a stop is looked for: where the system tells of new files, and where it does not.
const LOOK_TOLD: Duration = Duration::from_secs(10);
const LOOK_UNTOLD: Duration = Duration::from_millis(100);
/// How often, and how far apart, a failing disk is tried; a full one as long as it takes (G16).
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);

/// What it says on its standard error when it waits for room on the disk.
pub const FULL: &str = "the disk is full: the command's output and end cannot be written";

/// The supervisor's exit when it could not say how the command ended.
const UNTOLD: u8 = 5;

/// Why a supervisor gives up.
enum GivenUp {
    LostClaim,
    NothingStarted(io::Error),
    Untold,
}

/// Supervises the command of the action in `dir`: what a hidden subcommand of the program does. Must be
/// the process's only work. Gives its exit code.
#[must_use]
pub fn supervise(dir: &Path) -> u8 {
    match serve(dir) {
        Ok(()) => 0,
        Err(GivenUp::LostClaim) => LOST_CLAIM,
        Err(GivenUp::Untold) => UNTOLD,
        Err(GivenUp::NothingStarted(why)) => {
            // Who asked may be gone.
            let _ = writeln!(io::stderr(), "{why}");
            NOTHING_STARTED
        }
    }
}

fn serve(dir: &Path) -> Result<(), GivenUp> {
    // Away from the terminal and from the signals that end whoever asked. It fails only where that is so
    // already.
    let _ = setsid();
    platform::call_itself("segno");
    std::env::set_current_dir(dir).map_err(GivenUp::NothingStarted)?;
    let action = ActionDir::here();
    let request = action.request().map_err(GivenUp::NothingStarted)?;
    let lock = action.lock_file().map_err(GivenUp::NothingStarted)?;
    // Whoever looks at the lock holds it for a moment.
    flock(&lock, FlockOperation::LockExclusive).map_err(|e| GivenUp::NothingStarted(e.into()))?;
    match action.claim_for(Claimant::Supervisor) {
        Ok(true) => {}
        Ok(false) => return Err(GivenUp::LostClaim),
        Err(why) => return Err(GivenUp::NothingStarted(why)),
    }
    let at = platform::wall_clock;
    let (status, output) = match begin(&action, &request) {
        Ok((mut command, mut output)) => {
            let attended = command.attend(&action, &request, &mut output);
            let (end, held_open) = attended.map_err(|_| GivenUp::Untold)?;
            insist(|| output.flush())?;
            let (bytes, unwritten) = output.lengths();
            (Status { end, bytes, unwritten, held_open, at: at() }, Some(output))
        }
        Err(why) => {
            let end = End::NotStarted { why: why.to_string() };
            (Status { end, bytes: 0, unwritten: 0, held_open: false, at: at() }, None)
        }
    };
    insist(|| action.tell(&status, || output.iter().for_each(OutputWriter::sync)))?;
    drop(lock);
    Ok(())
}

/// Tries until it works: on a full disk as long as it takes.
fn insist(mut work: impl FnMut() -> io::Result<()>) -> Result<(), GivenUp> {
    let mut tries = 0;
    while let Err(error) = work() {
        if is_full(&error) {
            say_full();
        } else {
            tries += 1;
        }
        // A directory that is gone will not come back.
        if tries == TRIES || error.kind() == io::ErrorKind::NotFound {
            return Err(GivenUp::Untold);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Tells whoever started us, once, that the disk is full.
fn say_full() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        // Nobody may be there any more.
        let _ = writeln!(io::stderr(), "{FULL}");
    });
}

fn begin(action: &ActionDir, request: &Request) -> io::Result<(Running, OutputWriter)> {
    let began = platform::steady();
    // The watch first: a stop is seen either here or as a new file.
    let watch = platform::watch(action.path());
    if action.is_asked_to_stop() {
        return Err(io::Error::other("it was stopped before it started"));
    }
    let output = OutputWriter::begin(action, PIECE)?;
    let (reader, writer) = io::pipe()?;
    let flags = fcntl_getfl(&reader)?;
    fcntl_setfl(&reader, flags | OFlags::NONBLOCK)?;
    let mut command = Command::new(&request.shell);
    command
        .args(["-c", &request.command])
        .current_dir(&request.cwd)
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0)
        .envs(&request.env);
    for name in &request.unset {
        command.env_remove(name);
    }
    let child = command.spawn()?;
    // From here on the command runs, and nothing may say otherwise.
    let group = Pid::from_child(&child);
    let over = tell_of_end(group).ok();
    Ok((Running { child, group, output: reader, over, watch, began }, output))
}

/// Something that becomes readable when a child has ended.
fn tell_of_end(child: Pid) -> io::Result<PipeReader> {
    let (over, tell_over) = io::pipe()?;
    std::thread::Builder::new().spawn(move || {
        let seen = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = waitid(WaitId::Pid(child), seen) {}
        drop(tell_over);
    })?;
    Ok(over)
}

/// The command.
struct Running {
    child: Child,
    group: Pid,
    output: PipeReader,
    /// Ends when the child has; where there is none, it is looked at often.
    over: Option<PipeReader>,
    /// Tells of new files.
    watch: Option<OwnedFd>,
    began: Duration,
}

impl Running {
    /// Sees the command to its end; gives that, and whether others still hold its output.
    fn attend(
        &mut self,
        action: &ActionDir,
        request: &Request,
        output: &mut OutputWriter,
    ) -> io::Result<(End, bool)> {
        let deadline = self.began + Duration::from_millis(request.timeout_ms);
        let told = self.watch.is_some() && self.over.is_some();
        let look = if told { LOOK_TOLD } else { LOOK_UNTOLD };
        let mut open = true;
        let why = loop {
            let left = deadline.saturating_sub(platform::steady());
            let (waits, full) = output.waits();
            let over = self.wait(open && !full, left.min(if waits { PAUSE } else { look }));
            if waits && output.flush().is_err() {
                say_full();
            }
            open = open && (full || self.take(output));
            if over {
                break None;
            }
            if action.is_asked_to_stop() {
                break Some(End::Stopped);
            }
            if left.is_zero() {
                break Some(End::TimedOut);
            }
        };
        if why.is_some() {
            self.end(output);
        }
        let mut held_open = !self.drain(output);
        if held_open && why.is_none() {
            // A background process may be about to turn its output elsewhere.
            std::thread::sleep(POLL);
            held_open = !self.drain(output);
        }
        let status = self.child.wait()?;
        Ok((why.unwrap_or_else(|| end_of(status)), held_open))
    }

    /// Waits for output, the child's end or a new file; gives whether the child has ended.
    fn wait(&self, open: bool, at_most: Duration) -> bool {
        let output = open.then(|| self.output.as_fd());
        let over = self.over.as_ref().map(PipeReader::as_fd);
        let watch = self.watch.as_ref().map(OwnedFd::as_fd);
        let fds = [output, over, watch].into_iter().flatten();
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(at_most).ok();
        let _ = poll(&mut fds, timeout.as_ref());
        if let Some(watch) = &self.watch {
            let mut events = [0; 4096];
            let _ = rustix::io::read(watch, &mut events);
        }
        self.is_over()
    }

    /// Whether the child has ended. Seen and not reaped: until then its number is nobody else's.
    fn is_over(&self) -> bool {
        let seen = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        matches!(waitid(WaitId::Pid(self.group), seen), Ok(Some(_)))
    }

    /// Takes a piece of output; false at its end.
    fn take(&self, output: &mut OutputWriter) -> bool {
        let mut buffer = [0; 64 << 10];
        match rustix::io::read(self.output.as_fd(), &mut buffer) {
            Ok(0) => false,
            Ok(n) => {
                output.push(buffer.get(..n).unwrap_or_default());
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// Takes what is in the pipe; true when nobody holds its other end any more.
    fn drain(&self, output: &mut OutputWriter) -> bool {
        let mut buffer = vec![0; 64 << 10];
        // What was written before the end fits the pipe; a survivor that keeps writing must not hold us.
        for _ in 0..64 {
            match rustix::io::read(self.output.as_fd(), &mut buffer[..]) {
                Ok(0) => return true,
                Ok(n) => output.push(buffer.get(..n).unwrap_or_default()),
                Err(_) => return false,
            }
        }
        false
    }

    /// SIGTERM, a grace, SIGKILL: for the whole group, not only for the shell.
    fn end(&self, output: &mut OutputWriter) {
        let _ = kill_process_group(self.group, Signal::TERM);
        let until = platform::steady() + GRACE;
        let (mut open, mut over) = (true, false);
        while platform::steady() < until {
            if over {
                std::thread::sleep(POLL);
            } else {
                over = self.wait(open, POLL);
            }
            open = open && self.take(output);
            if over && platform::group_lives(self.group) == Some(false) {
                return;
            }
        }
        let _ = kill_process_group(self.group, Signal::KILL);
        self.wait(false, GRACE);
    }
}

fn end_of(status: std::process::ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Exited { code },
        (None, signal) => End::Signalled { signal: signal.unwrap_or(0) },
    }
}
