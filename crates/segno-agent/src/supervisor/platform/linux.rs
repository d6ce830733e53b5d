//! Linux.
//!
//! Responsible for: reading `/proc`, and being told of new files. Must not: fail where a fact is missing.

use super::Survivor;
use rustix::fs::inotify;
use rustix::process::Pid;
use rustix::time::ClockId;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Counts while the machine sleeps, so that a deadline is one for people too.
pub(crate) const STEADY: ClockId = ClockId::Boottime;

/// How much of a survivor's command line is told, in characters.
const TOLD_CHARS: usize = 120;

/// The running file itself, whatever its name leads to now.
pub(crate) fn own_program() -> Option<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    link.exists().then_some(link)
}

/// How this process is called in lists of processes.
pub(crate) fn call_itself(name: &str) {
    let _ = fs::write("/proc/self/comm", name);
}

/// The id of this boot; empty when the system does not tell.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// When a process started, in clock ticks since boot; 0 when it is not there.
pub(crate) fn process_started(pid: u32) -> u64 {
    Stat::of(pid).map_or(0, |stat| stat.started)
}

/// Something that becomes readable when a file appears in a directory.
pub(crate) fn watch(dir: &Path) -> Option<OwnedFd> {
    let watch =
        inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
    let new = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, dir, new).ok()?;
    Some(watch)
}

/// Whether a process group has a process that has not ended.
pub(crate) fn group_lives(group: Pid) -> Option<bool> {
    let group = u32::try_from(group.as_raw_nonzero().get()).ok()?;
    let mut stats = pids()?.filter_map(Stat::of);
    Some(stats.any(|stat| stat.group == group && !stat.ended))
}

/// The processes that a command left behind: those in the session of its supervisor `leader`, unless
/// that number belongs to another process by now, and those that carry its mark in their environment.
pub(crate) fn survivors(leader: u32, started: u64, mark: &str) -> Vec<Survivor> {
    let reused = Stat::of(leader).is_some_and(|stat| stat.started != started);
    let Some(pids) = pids() else { return Vec::new() };
    let mut found: Vec<Survivor> = pids
        .filter_map(|pid| Some((pid, Stat::of(pid)?)))
        .filter(|(pid, stat)| !stat.ended && *pid != leader && stat.started >= started)
        .filter(|(pid, stat)| (stat.session == leader && !reused) || is_marked(*pid, mark))
        .map(|(pid, _)| Survivor { pid, command: command_line(pid) })
        .collect();
    found.sort_by_key(|survivor| survivor.pid);
    found
}

fn pids() -> Option<impl Iterator<Item = u32>> {
    let entries = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    Some(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

fn is_marked(pid: u32, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes())
}

fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&bytes).replace('\0', " ");
    words.trim().chars().take(TOLD_CHARS).collect()
}

/// What `/proc/PID/stat` says.
struct Stat {
    ended: bool,
    group: u32,
    session: u32,
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The second field is the program's name in parentheses and may contain anything.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let group = fields.nth(1)?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let started = fields.nth(15)?.parse().ok()?;
        Some(Self { ended: matches!(state, "Z" | "X"), group, session, started })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_process_are_found_behind_any_name() {
        let line = "7 (a ) b) Z 1 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.ended, stat.group, stat.session, stat.started), (true, 8, 9, 4242));
        assert!(Stat::parse("7 (cut").is_none());
        assert!(process_started(std::process::id()) > 0);
    }
}
