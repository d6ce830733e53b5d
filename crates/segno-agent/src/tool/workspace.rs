//! Where the tools work: paths as the model gives them, and where they lead.
//!
//! Responsible for: resolving (links included), showing, and placing paths. Must not: read or change
//! a file's content, or decide a permission.

use super::error::ToolError;
use std::path::{Component, Path, PathBuf};

/// How many links a path may go through.
const MAX_LINKS: usize = 40;

/// Files in the home directory that a shell or a login runs, or that hold what programs trust.
const HOME_GUARDED: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".inputrc",
    ".xprofile",
    ".xinitrc",
    ".gitconfig",
    ".npmrc",
    ".netrc",
    ".ssh",
    ".gnupg",
    ".config/fish",
    ".config/git",
    ".config/autostart",
    ".config/systemd",
    ".config/environment.d",
    ".local/bin",
    "bin",
    "Library/LaunchAgents",
];

/// Where a write would go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Within the project.
    Inside,
    /// Anywhere else.
    Outside,
    /// A repository's `.git`, or a file in the home directory that a shell runs or programs trust.
    Guarded,
    /// Segno's own data or configuration.
    Own,
}

/// The directory that the tools work in and what surrounds it.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    cwd: PathBuf,
    root: PathBuf,
    home: Option<PathBuf>,
    own: Vec<PathBuf>,
    /// What lies in `own` and is worked in all the same: a subagent's worktree.
    lent: Option<PathBuf>,
}

impl Workspace {
    /// Resolves every directory once, so that later comparisons are between real paths.
    pub(crate) fn new(cwd: &Path, root: &Path, home: Option<&Path>, own: &[PathBuf]) -> Self {
        let real = |path: &Path| follow(path, 0).unwrap_or_else(|_| path.to_owned());
        Self {
            cwd: real(cwd),
            root: real(root),
            home: home.map(real),
            own: own.iter().map(|p| real(p)).collect(),
            lent: None,
        }
    }

    /// The same, for one who works in a worktree that lies in Segno's own directory.
    pub(crate) fn in_worktree(&self, root: &Path, cwd: &Path) -> Self {
        let real = |path: &Path| follow(path, 0).unwrap_or_else(|_| path.to_owned());
        let root = real(root);
        Self { cwd: real(cwd), lent: Some(root.clone()), root, ..self.clone() }
    }

    /// The working directory, links resolved.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The home directory, links resolved.
    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Whether a resolved path lies in Segno's own directories.
    pub(super) fn is_own(&self, path: &Path) -> bool {
        self.own.iter().any(|own| path.starts_with(own))
            && !self.lent.as_ref().is_some_and(|lent| path.starts_with(lent))
    }

    /// Segno's own directories, links resolved.
    pub(super) fn own(&self) -> impl Iterator<Item = &Path> {
        self.own.iter().map(PathBuf::as_path)
    }

    /// Whether a resolved path lies in the project.
    pub(super) fn is_inside(&self, path: &Path) -> bool {
        path.starts_with(&self.root) || path.starts_with(&self.cwd)
    }

    /// Whether the project lies in a place.
    pub(super) fn is_around(&self, place: &Path) -> bool {
        self.root.starts_with(place) || self.cwd.starts_with(place)
    }

    /// A path as the model gave it, made absolute; links are not looked at.
    pub(crate) fn absolute(&self, given: &str) -> PathBuf {
        self.absolute_from(&self.cwd, given)
    }

    /// The same, for a path that is relative to `base`.
    pub(super) fn absolute_from(&self, base: &Path, given: &str) -> PathBuf {
        match (given, given.strip_prefix("~/"), &self.home) {
            ("~", _, Some(home)) => home.clone(),
            (_, Some(rest), Some(home)) => home.join(rest),
            _ => base.join(given),
        }
    }

    /// Where a path leads, all links resolved; the end of it need not exist.
    pub(crate) fn resolve(&self, given: &str) -> Result<PathBuf, ToolError> {
        if given.is_empty() || given.contains('\0') {
            return Err(ToolError::Arguments("`path` must be a path, not empty text".to_owned()));
        }
        let path = self.absolute(given);
        follow(&path, 0).map_err(|source| ToolError::Io { path: given.to_owned(), source })
    }

    /// A path for people and models: relative to the working directory where it lies in it.
    pub(crate) fn show(&self, path: &Path) -> String {
        match path.strip_prefix(&self.cwd) {
            Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
            Ok(rest) => rest.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }

    /// A text in which paths under the working directory are shown relative to it.
    pub(crate) fn shorten(&self, text: &str) -> String {
        match self.cwd.to_str() {
            Some(cwd) if cwd.len() > 1 => text.replace(&format!("{cwd}/"), ""),
            _ => text.to_owned(),
        }
    }

    /// Where a resolved path lies, for writing.
    pub(crate) fn place(&self, path: &Path) -> Place {
        if self.is_own(path) {
            return Place::Own;
        }
        let in_git = path
            .components()
            .any(|c| matches!(c, Component::Normal(name) if name.eq_ignore_ascii_case(".git")));
        if in_git || self.is_guarded_home(path) {
            return Place::Guarded;
        }
        if self.is_inside(path) { Place::Inside } else { Place::Outside }
    }

    fn is_guarded_home(&self, path: &Path) -> bool {
        let Some(rest) = self.home.as_ref().and_then(|home| path.strip_prefix(home).ok()) else {
            return false;
        };
        // A project under ~/bin is a project; only what lies outside of the project is guarded there.
        let inside = path.starts_with(&self.root) && Some(&self.root) != self.home.as_ref();
        !inside && HOME_GUARDED.iter().any(|guarded| rest.starts_with(guarded))
    }
}

/// Resolves links in all of `path`, tolerating that its end does not exist.
pub(super) fn follow(path: &Path, depth: usize) -> std::io::Result<PathBuf> {
    let error = match std::fs::canonicalize(path) {
        Ok(real) => return Ok(real),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => error,
        Err(error) => return Err(error),
    };
    if depth > MAX_LINKS {
        return Err(std::io::Error::other("too many links"));
    }
    if let Ok(target) = std::fs::read_link(path) {
        let base = path.parent().unwrap_or(Path::new("/"));
        return follow(&base.join(target), depth + 1);
    }
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => Ok(follow(parent, depth + 1)?.join(name)),
        // `missing/..` leads nowhere as long as `missing` is not there.
        _ => Err(error),
    }
}
