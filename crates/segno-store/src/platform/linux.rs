//! Linux.
//!
//! Responsible for: reading `/proc`, `statfs`, `copy_file_range`, `posix_fadvise`. Must not: fail
//! where a fact is only informational; such facts are empty then.

use super::{HeldLock, Openers};
use crate::disk::Medium;
use rustix::fs::Advice;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// File systems whose locks or syncs depend on another machine or program, by `statfs` type.
const NETWORK: &[(u64, &str)] = &[
    (0x0000_6969, "NFS"),
    (0x0000_517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0000_564C, "NCP"),
    (0x00C3_6400, "Ceph"),
    (0x0BD0_0BD0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x786F_4256, "VirtualBox shared folder"),
];

pub(crate) fn medium(path: &Path) -> io::Result<Medium> {
    let found = rustix::fs::statfs(path)?;
    // The field's type and sign differ between architectures; the magic numbers have 32 bits.
    let kind = (found.f_type as u64) & 0xFFFF_FFFF;
    Ok(medium_of(kind))
}

fn medium_of(kind: u64) -> Medium {
    NETWORK
        .iter()
        .find(|(magic, _)| *magic == kind)
        .map_or(Medium::Local, |(_, name)| Medium::Network(name))
}

/// How many bytes were copied by the kernel; none when it cannot do it between these files.
pub(crate) fn copy_range(from: &File, mut offset: u64, to: &File, len: u64) -> Option<u64> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let copied = rustix::fs::copy_file_range(from, Some(&mut offset), to, None, len).ok()?;
    // Some file systems answer 0 where they cannot copy.
    (copied > 0).then_some(copied as u64)
}

/// Opens for reading without changing the access time; that is allowed only for one's own files. Never
/// waits for whoever would write into a pipe.
pub(crate) fn open_untouched(path: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let open = |flags: OFlags| {
        let flags = (flags | OFlags::NONBLOCK).bits().cast_signed();
        fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
    };
    match open(OFlags::NOATIME) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => open(OFlags::empty()),
        opened => opened,
    }
}

pub(crate) fn forget_cached(file: &File, offset: u64) {
    // A refusal means that memory is all that can be read; the log's marks still bound the damage.
    let _ = rustix::fs::fadvise(file, offset, None, Advice::DontNeed);
}

/// All locks on whole files that processes hold.
pub(crate) fn held_locks() -> Vec<HeldLock> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().filter_map(held_lock).collect()
}

/// The numbers of all files that processes have locked, if all of them can be seen: a process in a
/// container sees only the locks of processes in it.
pub(crate) fn locked_files() -> Option<HashSet<u64>> {
    /// The number of the first process namespace, in which everybody is seen.
    const EVERYBODY: &str = "pid:[4026531836]";
    if fs::read_link("/proc/self/ns/pid").ok()?.as_os_str() != EVERYBODY {
        return None;
    }
    let locks = fs::read_to_string("/proc/locks").ok()?;
    Some(locks.lines().filter_map(held_lock).map(|lock| lock.ino).collect())
}

/// A line of `/proc/locks`: `1: FLOCK  ADVISORY  WRITE 4711 fe:01:10993668 0 EOF`. One that waits has
/// an arrow behind its number.
fn held_lock(line: &str) -> Option<HeldLock> {
    let mut words = line.split_ascii_whitespace().skip(1);
    if words.next()? == "->" {
        return None;
    }
    let mut words = words.skip(2);
    let pid = words.next()?.parse().ok()?;
    let mut place = words.next()?.split(':');
    let mut hex = || u32::from_str_radix(place.next()?, 16).ok();
    let dev = rustix::fs::makedev(hex()?, hex()?);
    let ino = place.next()?.parse().ok()?;
    Some(HeldLock { pid, dev, ino })
}

/// Whether a process has a file open.
pub(crate) fn has_open(pid: u32, path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let Ok(path) = path.canonicalize() else { return false };
    entries.filter_map(Result::ok).any(|fd| fs::read_link(fd.path()).is_ok_and(|link| link == path))
}

/// The other processes that have a file open, under whichever name.
pub(crate) fn openers(path: &Path) -> Openers {
    let (Ok(file), Ok(entries)) = (fs::metadata(path), fs::read_dir("/proc")) else {
        return Openers { pids: Vec::new(), unseen: true };
    };
    let own = std::process::id();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut openers = Openers::default();
    for pid in pids.filter(|pid| *pid != own) {
        match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(fds) => {
                if fds.filter_map(Result::ok).any(|fd| leads_to(&fd.path(), &file)) {
                    openers.pids.push(pid);
                }
            }
            // It ended meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(_) => openers.unseen = true,
        }
    }
    openers.pids.sort_unstable();
    openers
}

/// Whether a handle is one on the file. Only handles with a path are followed: pipes and sockets are none.
fn leads_to(fd: &Path, file: &fs::Metadata) -> bool {
    fs::read_link(fd).is_ok_and(|link| link.is_absolute())
        && fs::metadata(fd).is_ok_and(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
}

/// The id of this boot; empty when the system does not tell.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// When a process started, in clock ticks since boot; 0 when unknown.
pub(crate) fn process_started(pid: u32) -> u64 {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| start_field(&stat))
        .unwrap_or(0)
}

/// Field 22. The second field is the program's name in parentheses and may contain anything.
fn start_field(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: #114.
    #[test]
    fn network_file_systems_are_told_apart_by_their_magic_number() {
        assert_eq!(medium_of(0x6969), Medium::Network("NFS"));
        assert_eq!(medium_of(0xFF53_4D42), Medium::Network("CIFS"));
        assert_eq!(medium_of(0xEF53), Medium::Local);
        assert_eq!(medium_of(0x0102_1994), Medium::Local);
    }

    #[test]
    fn the_start_time_is_found_behind_a_name_with_spaces_and_parentheses() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 0";
        assert_eq!(start_field(stat), Some(4242));
        assert_eq!(start_field("7 (cut"), None);
        assert!(process_started(std::process::id()) > 0);
    }
}
