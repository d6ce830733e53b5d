//! Where rollouts are.
//!
//! Responsible for: the folders of a Codex home, file names, and the index of names.
//! Must not: know what a row means.

use super::super::agent::Agent;
use super::super::input::{self, ForeignError};
use super::super::locate::{Located, Roots, files_below};
use super::rows;
use segno_model::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

const SESSIONS: &str = "sessions";
const ARCHIVED: &str = "archived_sessions";
const INDEX: &str = "session_index.jsonl";
/// `sessions/YYYY/MM/DD`, and one to spare.
const DEPTH: usize = 4;
/// Of the index of names no more than this is read.
const LONGEST_INDEX: u64 = 64 << 20;

/// Where Codex keeps everything.
pub(super) fn home(roots: &Roots) -> PathBuf {
    roots.dir("CODEX_HOME", ".codex")
}

/// All rollouts of a home.
pub(super) fn locate(home: &Path, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    for (folder, archived) in [(SESSIONS, false), (ARCHIVED, true)] {
        for suffix in [".jsonl", ".jsonl.zst"] {
            files_below(&home.join(folder), suffix, DEPTH, failed, &mut |path, meta| {
                let Some(id) = id_of(&path) else { return };
                // An interrupted compression leaves both; Codex goes on with the plain one.
                if suffix == ".jsonl.zst" && path.with_extension("").exists() {
                    return;
                }
                let id = Some(id.to_owned());
                found.push(Located { id, archived, ..Located::file(Agent::Codex, path, &meta) });
            });
        }
    }
}

/// The id in a file's name: `rollout-<time>-<id>.jsonl`.
pub(super) fn id_of(path: &Path) -> Option<&str> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let stem = name.strip_suffix(".zst").unwrap_or(name).strip_suffix(".jsonl")?;
    let rest = stem.strip_prefix("rollout-")?;
    let id = rest.get(rest.len().checked_sub(36)?..)?;
    uuid::Uuid::try_parse(id).is_ok().then_some(id)
}

/// Whether a rollout lies in the folder of archived ones.
pub(super) fn is_archived(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == ARCHIVED)
}

/// The home in which a rollout lies.
fn home_of(path: &Path) -> Option<&Path> {
    let tree = path
        .ancestors()
        .find(|dir| dir.file_name().is_some_and(|name| name == SESSIONS || name == ARCHIVED));
    tree.and_then(Path::parent)
}

/// The rollout of the session `id` in the home of the rollout `beside`, or in its folder.
pub(super) fn find(id: &str, beside: &Path) -> Option<PathBuf> {
    let mut failed = Vec::new();
    let mut found = None;
    let mut look = |dir: &Path, depth: usize| {
        for suffix in [".jsonl", ".jsonl.zst"] {
            if found.is_none() {
                files_below(dir, suffix, depth, &mut failed, &mut |path, _| {
                    if id_of(&path) == Some(id) {
                        found = Some(path);
                    }
                });
            }
        }
    };
    if let Some(home) = home_of(beside) {
        // Most ids tell their day; the folder's is that of the local time.
        days(id).iter().for_each(|day| look(&home.join(SESSIONS).join(day), 0));
        look(&home.join(SESSIONS), DEPTH);
        look(&home.join(ARCHIVED), DEPTH);
    }
    if let Some(folder) = beside.parent() {
        look(folder, 0);
    }
    found
}

/// The folders of the day on which an id was made, and of the days around it.
fn days(id: &str) -> Vec<String> {
    const DAY: i64 = 86_400_000;
    let made = uuid::Uuid::try_parse(id).ok().and_then(|id| id.get_timestamp());
    let Some((seconds, _)) = made.map(|made| made.to_unix()) else { return Vec::new() };
    let made = i64::try_from(seconds).unwrap_or(0).saturating_mul(1000);
    let day = |shift: i64| {
        let time = Timestamp(made.saturating_add(shift)).to_string();
        time.get(..10).map(|date| date.replace('-', "/"))
    };
    [0, DAY, -DAY].into_iter().filter_map(day).collect()
}

/// The name that a person gave to the session `id`: the last one counts. The flag tells whether a line
/// about it could not be read.
pub(super) fn name_of(id: &str, rollout: &Path) -> (Option<String>, bool) {
    let Some(home) = home_of(rollout) else { return (None, false) };
    let mut index = Vec::new();
    let read = input::open(&home.join(INDEX))
        .and_then(|file| file.take(LONGEST_INDEX).read_to_end(&mut index));
    if read.is_err() && index.is_empty() {
        return (None, false);
    }
    last_name(id, &index)
}

fn last_name(id: &str, index: &[u8]) -> (Option<String>, bool) {
    #[derive(Deserialize)]
    struct Entry<'a> {
        id: &'a str,
        #[serde(borrow)]
        thread_name: Option<&'a RawValue>,
    }
    let mut damaged = false;
    let finder = memchr::memmem::FinderRev::new(id.as_bytes());
    let mut end = index.len();
    while let Some(at) = finder.rfind(&index[..end]) {
        let start = memchr::memrchr(b'\n', &index[..at]).map_or(0, |newline| newline + 1);
        let stop = memchr::memchr(b'\n', &index[at..]).map_or(index.len(), |newline| at + newline);
        match serde_json::from_slice::<Entry<'_>>(&index[start..stop]) {
            Ok(entry) if entry.id == id => return (rows::owned(entry.thread_name), damaged),
            Ok(_) => {}
            Err(_) => damaged = true,
        }
        end = start;
    }
    (None, damaged)
}

#[cfg(test)]
mod tests {
    use super::{days, id_of, last_name};
    use std::path::Path;

    #[test]
    fn ids_are_read_off_names() {
        let id = "019c0000-0008-7000-8000-000000000008";
        let rows = [
            (format!("rollout-2026-03-02T09-00-00-{id}.jsonl"), Some(id)),
            (format!("rollout-2026-03-02T09-00-00-{id}.jsonl.zst"), Some(id)),
            (format!("other-{id}.jsonl"), None),
            ("rollout-2026.jsonl".to_owned(), None),
            ("rollout-äöüäöüäöüäöüäöüäöüäöüäöüäöü.jsonl".to_owned(), None),
        ];
        for (name, expected) in rows {
            assert_eq!(id_of(Path::new(&name)), expected, "{name}");
        }
    }

    #[test]
    fn ids_tell_their_day() {
        let found = days("01a2290d-7a18-7f11-a711-baa7ed59e765");
        assert_eq!(found, ["2026/11/29", "2026/11/30", "2026/11/28"]);
        assert!(days("822b5c2e-d6e2-4494-b3a3-3e28683c2b5b").is_empty());
        assert!(days("x").is_empty());
    }

    #[test]
    fn the_last_whole_name_counts() {
        let index = concat!(
            "{\"id\":\"a\",\"thread_name\":\"first\",\"updated_at\":\"x\"}\n",
            "{\"id\":\"b\",\"thread_name\":\"about a\"}\n",
            "{\"id\":\"a\",\"thread_name\":\"second\"}\n",
            "{\"id\":\"a\",\"thread_na",
        );
        assert_eq!(last_name("a", index.as_bytes()), (Some("second".to_owned()), true));
        assert_eq!(last_name("b", index.as_bytes()).0.as_deref(), Some("about a"));
        assert_eq!(last_name("c", index.as_bytes()), (None, false));
    }
}
