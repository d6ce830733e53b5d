//! The directory that the name of one of pi's folders stands for.
//!
//! Responsible for: telling which of its readings is there on the disk. pi writes `--srv-my-app--` for `/srv/my-app`
//! and for `/srv/my/app`. Must not: take a reading for sure that is not there, or is one of several.

use crate::disk::Disk;
use std::path::{Path, PathBuf};

/// The name of a session's folder, if it stands for a directory.
pub(super) fn name(session: &Path) -> Option<String> {
    let folder = session.parent()?.file_name()?.to_str()?;
    Some(folder.strip_prefix("--")?.strip_suffix("--")?.to_owned())
}

/// The directory, and whether it is the only one that is there under this name.
pub(super) fn directory<D: Disk>(disk: &D, folder: &str) -> (String, bool) {
    let mut found = Vec::new();
    look(disk, Path::new("/"), folder, &mut found);
    let plain = format!("/{}", folder.replace('-', "/"));
    match found.as_slice() {
        [only] => (only.to_string_lossy().into_owned(), true),
        [first, ..] if !found.iter().any(|one| one.as_os_str() == plain.as_str()) => {
            (first.to_string_lossy().into_owned(), false)
        }
        _ => (plain, false),
    }
}

/// Goes down all directories whose names `rest` may begin with, up to a second one that it stands for.
fn look<D: Disk>(disk: &D, dir: &Path, rest: &str, found: &mut Vec<PathBuf>) {
    // What is closed to us is no reading that we could tell from another one.
    let mut entries = disk.list(dir).unwrap_or_default();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    for entry in entries.into_iter().filter(|entry| entry.is_dir) {
        let shown = entry.name.replace(['/', '\\', ':'], "-");
        let Some(behind) = rest.strip_prefix(&shown) else { continue };
        if behind.is_empty() {
            found.push(dir.join(&entry.name));
        } else if let Some(rest) = behind.strip_prefix('-') {
            look(disk, &dir.join(&entry.name), rest, found);
        }
        if found.len() > 1 {
            return;
        }
    }
}
