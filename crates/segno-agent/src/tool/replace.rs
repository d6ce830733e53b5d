//! Putting new content into a file so that it is whole, durable, and never over someone else's change.
//!
//! Responsible for: the plan (new, renamed over, or in place) and its execution (G7): temp file in the
//! same directory, synced, checked, renamed, directory synced. Must not: know a tool or a permission.

use super::error::ToolError;
use segno_model::id::sha256_hex;
use serde::Serialize;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// A larger file is not changed by the tools: its old content is held while it is.
pub(crate) const MAX_OLD: u64 = 64 << 20;
/// Attributes that the system sets again by itself on a new file.
const AUTOMATIC_ATTRIBUTES: &[&[u8]] = &[b"security.selinux"];

/// What a file held when the change was worked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Old {
    /// Nothing was there.
    Absent,
    /// These bytes.
    Content(Vec<u8>),
}

impl Old {
    /// Reads what a resolved path holds; anything but a regular file is refused.
    pub(crate) fn read(path: &Path) -> Result<Self, ToolError> {
        let meta = match std::fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::Absent),
            Err(e) => return Err(ToolError::io(path, e)),
        };
        if !meta.is_file() {
            let what = if meta.is_dir() { "a directory" } else { "not a regular file" };
            return Err(ToolError::Refused(format!("{} is {what}", path.display())));
        }
        if meta.len() > MAX_OLD {
            return Err(ToolError::Refused(format!(
                "{} has {} bytes; files over {MAX_OLD} are changed with a program",
                path.display(),
                meta.len()
            )));
        }
        Ok(Self::Content(std::fs::read(path).map_err(|e| ToolError::io(path, e))?))
    }

    /// The bytes; empty when nothing was there.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Absent => &[],
            Self::Content(bytes) => bytes,
        }
    }

    /// The bytes' hash; none when nothing was there.
    pub(crate) fn sha256(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Content(bytes) => Some(sha256_hex(bytes)),
        }
    }
}

/// How the new content gets to the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// Nothing is there yet.
    New,
    /// A new file takes the name.
    Rename,
    /// The old file keeps its identity (links, owner, attributes, mount) and gets new bytes. Not
    /// atomic: a crash can leave it half written.
    InPlace,
}

impl Way {
    /// Finds the way for a resolved path.
    pub(crate) fn find(path: &Path) -> Result<Self, ToolError> {
        let meta = match std::fs::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::New),
            Err(e) => return Err(ToolError::io(path, e)),
        };
        let directory = parent(path);
        let around = std::fs::metadata(directory).map_err(|e| ToolError::io(path, e))?;
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let keeps_identity = meta.nlink() == 1
            && meta.uid() == uid.as_raw()
            && (meta.gid() == gid.as_raw() || around.mode() & 0o2000 != 0)
            && meta.dev() == around.dev()
            && !has_attributes(path)
            && rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok();
        Ok(if keeps_identity { Self::Rename } else { Self::InPlace })
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn has_attributes(path: &Path) -> bool {
    let mut names = [0u8; 4096];
    match rustix::fs::listxattr(path, &mut names[..]) {
        Ok(length) => names[..length]
            .split(|b| *b == 0)
            .any(|name| !name.is_empty() && !AUTOMATIC_ATTRIBUTES.contains(&name)),
        Err(rustix::io::Errno::RANGE) => true,
        Err(_) => false,
    }
}

/// Replaces what is at a resolved path. On success file and directory are synced; on an error no temp
/// file is left, and the old content stands unless the error is [`ToolError::Unsure`].
pub(crate) fn replace(path: &Path, old: &Old, new: &[u8]) -> Result<Way, ToolError> {
    let way = Way::find(path)?;
    match way {
        Way::InPlace => in_place(path, old, new)?,
        Way::New | Way::Rename => {
            create_parents(parent(path))?;
            match by_rename(path, old, new, way) {
                Err(ToolError::Io { source, .. }) if is_busy(&source) => in_place(path, old, new)?,
                other => other?,
            }
        }
    }
    Ok(way)
}

/// A file that is mounted on its own cannot be renamed over.
fn is_busy(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::ResourceBusy
}

fn by_rename(path: &Path, old: &Old, new: &[u8], way: Way) -> Result<(), ToolError> {
    let io = |e| ToolError::io(path, e);
    let mut temp = tempfile::Builder::new()
        .prefix(".segno-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent(path))
        .map_err(io)?;
    temp.write_all(new).map_err(io)?;
    if way == Way::Rename {
        let mode = std::fs::metadata(path).map_err(io)?.permissions();
        temp.as_file().set_permissions(mode).map_err(io)?;
    }
    temp.as_file().sync_all().map_err(io)?;
    still(path, old)?;
    match old {
        // Refuses when something appeared there since the check.
        Old::Absent => temp.persist_noclobber(path).map_err(|e| io(e.error))?,
        Old::Content(_) => temp.persist(path).map_err(|e| io(e.error))?,
    };
    sync_directory(parent(path))
}

fn in_place(path: &Path, old: &Old, new: &[u8]) -> Result<(), ToolError> {
    let io = |e| ToolError::io(path, e);
    let mut file = OpenOptions::new().write(true).open(path).map_err(io)?;
    still(path, old)?;
    let write = |file: &mut File| {
        file.write_all(new)?;
        file.set_len(new.len() as u64)?;
        file.sync_all()
    };
    write(&mut file).map_err(|e| {
        let path = path.display();
        ToolError::Unsure(format!("{path}: {e}; it was written in place and may be half written"))
    })
}

/// Checks that a path still holds what the change was worked out from.
fn still(path: &Path, old: &Old) -> Result<(), ToolError> {
    if Old::read(path)? == *old {
        return Ok(());
    }
    let path = path.display();
    Err(ToolError::Refused(format!(
        "{path} was changed by someone else meanwhile; nothing was written. Read it again."
    )))
}

/// Creates missing directories, each synced in its parent, up to the first that existed.
fn create_parents(directory: &Path) -> Result<(), ToolError> {
    match std::fs::metadata(directory) {
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => {
            let shown = directory.display();
            return Err(ToolError::Refused(format!("{shown} is not a directory")));
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(ToolError::io(directory, e)),
    }
    create_parents(parent(directory))?;
    match std::fs::create_dir(directory) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(ToolError::io(directory, e)),
        _ => sync_directory(parent(directory)),
    }
}

fn sync_directory(directory: &Path) -> Result<(), ToolError> {
    File::open(directory).and_then(|d| d.sync_all()).map_err(|e| {
        let shown = directory.display();
        ToolError::Unsure(format!("written, but the directory {shown} could not be synced: {e}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is there other than what was expected stands, and no temp file is left.
    /// Covers: G7.
    #[test]
    fn somebody_elses_change_is_never_replaced() {
        let old = |text: &str| Old::Content(text.as_bytes().to_vec());
        let rows: [(&str, Option<&str>, Old, bool); 6] = [
            ("as expected", Some("old"), old("old"), true),
            ("absent as expected", None, Old::Absent, true),
            ("changed", Some("theirs"), old("old"), false),
            ("removed", None, old("old"), false),
            ("made", Some("theirs"), Old::Absent, false),
            ("changed to nothing", Some(""), old("old"), false),
        ];
        for linked in [false, true] {
            for (name, there, expected, replaced) in &rows {
                let directory = tempfile::tempdir().expect("a directory");
                let path = directory.path().join("f");
                if let Some(there) = there {
                    std::fs::write(&path, there).expect("written");
                }
                if let (true, Some(_)) = (linked, there) {
                    // A second name makes the change go in place.
                    std::fs::hard_link(&path, directory.path().join("second")).expect("linked");
                }
                let result = replace(&path, expected, b"new");
                assert_eq!(result.is_ok(), *replaced, "{name}: {result:?}");
                let content = std::fs::read_to_string(&path).ok();
                let wanted = if *replaced { Some("new") } else { *there };
                assert_eq!(content.as_deref(), wanted, "{name}");
                let names = std::fs::read_dir(directory.path()).expect("listed");
                let left = names.filter(|e| {
                    let name = e.as_ref().expect("an entry").file_name();
                    name.to_string_lossy().starts_with(".segno-")
                });
                assert_eq!(left.count(), 0, "{name}: a temp file is left");
            }
        }
    }
}
