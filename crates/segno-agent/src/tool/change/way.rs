//! How new content gets to a path.
//!
//! Responsible for: choosing the way from what is there, before anything is touched. Must not: change a
//! file (but for the temp files by which a file system shows what it can do).

use super::super::error::ToolError;
use super::temp::Temps;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Attributes that the system sets again by itself on a new file.
const AUTOMATIC_ATTRIBUTES: &[&[u8]] = &[b"security.selinux"];

/// How the new content gets to the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// Nothing is there yet: the temp file gets the name, unless something appears there first.
    New,
    /// The temp file and the old one exchange their names; what came out is looked at, and goes back when
    /// it is not what was expected.
    Exchange,
    /// Where names cannot be exchanged: the old file gets a second name, the temp file takes the first,
    /// and what the second one holds is looked at and goes back when it is not what was expected. A file
    /// that somebody puts there between the last look and the rename is lost, as with any rename.
    Rename,
    /// The file goes: it is moved to a temp name, and what was moved is looked at and goes back when it is
    /// not what was expected.
    Remove,
    /// The old file keeps its identity (links, owner, attributes, mount) and gets new bytes. Not atomic:
    /// a crash can leave it half written.
    InPlace,
}

impl Way {
    /// Finds the way for a resolved path.
    pub(crate) fn find(path: &Path, temps: &Temps) -> Result<Self, ToolError> {
        let meta = match std::fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::New),
            Err(e) => return Err(ToolError::io(path, e)),
        };
        let directory = parent(path);
        let around = std::fs::metadata(directory).map_err(|e| ToolError::io(path, e))?;
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let replaceable = meta.nlink() == 1
            && meta.uid() == uid.as_raw()
            && (meta.gid() == gid.as_raw() || around.mode() & 0o2000 != 0)
            && meta.dev() == around.dev()
            && !is_mounted(path)
            && !has_attributes(path)
            && rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok();
        if !replaceable {
            return Ok(Self::InPlace);
        }
        let can =
            temps.can_exchange(directory, around.dev()).map_err(|e| ToolError::io(path, e))?;
        Ok(if can { Self::Exchange } else { Self::Rename })
    }
}

/// The directory that a resolved path lies in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Whether a file has attributes that a new one would not get by itself.
pub(crate) fn has_attributes(path: &Path) -> bool {
    let mut names = [0u8; 4096];
    match rustix::fs::listxattr(path, &mut names[..]) {
        Ok(length) => names[..length]
            .split(|b| *b == 0)
            .any(|name| !name.is_empty() && !AUTOMATIC_ATTRIBUTES.contains(&name)),
        Err(rustix::io::Errno::RANGE) => true,
        Err(_) => false,
    }
}

/// Whether something is mounted on a file itself; its name can then not be moved.
#[cfg(target_os = "linux")]
fn is_mounted(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS)
        .is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mounted(_path: &Path) -> bool {
    false
}
