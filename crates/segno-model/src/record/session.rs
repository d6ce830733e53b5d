//! Line 1 of a log: who the session is and where it comes from.
//!
//! Responsible for: the header's shape. Must not: probe git or the file system; callers hand facts in.

use crate::id::{Seq, SessionId};
use serde::{Deserialize, Serialize};

/// The log format that this version writes, and the newest major version that it may append to.
pub const FORMAT: FormatVersion = FormatVersion { major: 1, minor: 0 };

/// A format version. Readers of the same major version skip what they do not know; a newer major
/// version opens read-only (G13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FormatVersion {
    /// Raised when older readers must not append.
    pub major: u32,
    /// Raised with additions.
    pub minor: u32,
}

/// The `session` record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The format of the whole log.
    pub format: FormatVersion,
    /// The session's id; equals its directory's name.
    pub id: SessionId,
    /// The facts by which its project is found again.
    pub project: ProjectFacts,
    /// Git's state when the session began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitFacts>,
    /// The version of Segno (or of the embedder) that made it.
    pub version: String,
    /// Why it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// For a child: how it was launched, a [`LaunchRecord`](crate::record::LaunchRecord) as it was written
    /// ([`crate::child::parse_launch`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<serde_json::Value>,
}

impl Header {
    /// The header of a session that has no project and no origin, in today's format.
    #[must_use]
    pub fn new(id: SessionId, version: &str) -> Self {
        Self {
            format: FORMAT,
            id,
            project: ProjectFacts::default(),
            git: None,
            version: version.to_owned(),
            origin: None,
            launch: None,
        }
    }
}

/// What identifies a project; any one of them matching is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectFacts {
    /// The working directory as it was given.
    pub cwd: String,
    /// Its real path, links resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_path: Option<String>,
    /// Git's common directory: the same for all worktrees of one clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_common_dir: Option<String>,
    /// The repository's first commit: the same for all clones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_commit: Option<String>,
}

impl ProjectFacts {
    /// Whether two sets of facts describe one project.
    #[must_use]
    pub fn same_project(&self, other: &Self) -> bool {
        fn same(a: Option<&String>, b: Option<&String>) -> bool {
            a.zip(b).is_some_and(|(a, b)| same_path(a, b))
        }
        same_path(&self.cwd, &other.cwd)
            || same(self.real_path.as_ref(), other.real_path.as_ref())
            || same(self.git_common_dir.as_ref(), other.git_common_dir.as_ref())
            || (self.root_commit.is_some() && self.root_commit == other.root_commit)
    }
}

/// Whether two paths are one place: to the letter, or without regard to case on a Windows drive, also
/// where WSL mounts it. Stored and shown is always the original.
fn same_path(a: &str, b: &str) -> bool {
    a == b || on_drive(a).is_some_and(|place| Some(place) == on_drive(b))
}

/// A path on a Windows drive, folded for comparison.
fn on_drive(path: &str) -> Option<String> {
    let is_drive = |drive: &str| drive.len() == 1 && drive.as_bytes()[0].is_ascii_alphabetic();
    let slashes = path.replace('\\', "/");
    let (drive, rest) = match slashes.strip_prefix("/mnt/") {
        Some(mounted) => mounted.split_once('/').unwrap_or((mounted, "")),
        None => slashes.split_once(":/")?,
    };
    let rest = rest.trim_end_matches('/');
    is_drive(drive).then(|| format!("{drive}:/{rest}").to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::ProjectFacts;

    /// Covers: #86, #87.
    #[test]
    fn case_does_not_part_a_project_on_a_windows_drive() {
        let rows = [
            (r"c:\work\kiln", r"C:\work\kiln", true),
            (r"c:\work\kiln", "C:/Work/Kiln/", true),
            ("/mnt/m/2026/test", "/mnt/m/2026/TesT", true),
            ("/mnt/c/work", r"C:\work", true),
            (r"c:\work", r"d:\work", false),
            ("/srv/app", "/srv/App", false),
            ("/mnt/data/app", "/mnt/data/App", false),
            ("/srv/app", "/srv/app", true),
            ("c:", "C:", false),
        ];
        for (a, b, same) in rows {
            let facts = |cwd: &str| ProjectFacts { cwd: cwd.to_owned(), ..ProjectFacts::default() };
            assert_eq!(facts(a).same_project(&facts(b)), same, "{a} {b}");
        }
    }
}

/// Git's state at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitFacts {
    /// The branch, or none when detached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether tracked files differ from it.
    #[serde(default)]
    pub dirty: bool,
}

/// Where a session comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// In which way.
    pub kind: OriginKind,
    /// Of which session, when it is one of ours; another agent's id otherwise.
    pub of: String,
    /// Up to which record of it, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<Seq>,
    /// The session of ours to which it belongs, when what was imported is another agent's subagent, or when it
    /// is the copy of a subagent that a fork goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
}

impl Origin {
    /// The session that it is a fork of.
    #[must_use]
    pub fn fork_of(&self) -> Option<&str> {
        (self.kind == OriginKind::Fork).then_some(self.of.as_str())
    }

    /// The session of ours whose subagent it is.
    #[must_use]
    pub fn belongs_to(&self) -> Option<SessionId> {
        match self.kind {
            OriginKind::Child => SessionId::parse(&self.of).ok(),
            _ => self.parent.clone(),
        }
    }
}

/// Ways to come into being other than being new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OriginKind {
    /// A copy up to a point.
    Fork,
    /// Read from another agent's file.
    Import,
    /// Started by a call in another session.
    Child,
    /// Something that this version does not know.
    #[serde(other)]
    Other,
}
