//! Where a read leads: into the project, out of it, or to credentials.
//!
//! Responsible for: the places and names that mean credentials, and what a command's paths may reach,
//! from every directory that it may be in. Must not: read a file's content, or decide a permission. A
//! look that would take too long counts as one that found something.

use super::workspace::{Workspace, follow};
use crate::permission::command::Judgement;
use crate::permission::{Depth, Look};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// How many entries are looked at before a tree counts as too large to know.
const MAX_ENTRIES: usize = 100_000;

/// Where a read leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reach {
    /// Within the project.
    Inside,
    /// Anywhere else.
    Outside,
    /// Where credentials are kept.
    Secret,
}

/// Path components that mean credentials, wherever they are.
const SECRET_ANYWHERE: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".oci",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".docker",
    ".kube",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".my.cnf",
    ".mylogin.cnf",
    ".vault-token",
    ".boto",
    ".s3cfg",
    ".password-store",
    ".terraform.d",
    ".terraformrc",
];

/// Names of files that mean credentials, wherever they are.
const SECRET_FILES: &[&str] =
    &[".env", ".envrc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".htpasswd"];

/// Endings by which `.env.ENDING` is a pattern to be filled in.
const ENV_SAMPLES: &[&str] = &["example", "sample", "template", "dist", "defaults"];

/// Places in the home directory, as long as the project is not in them.
const SECRET_AT_HOME: &[&str] = &[
    ".config",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".bash_history",
    ".zsh_history",
    ".history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".local/share/keyrings",
    ".local/share/opencode",
    ".mozilla",
    ".thunderbird",
    ".wine",
    "Library/Keychains",
    "Library/Application Support",
    "Library/Cookies",
];

/// Places of the system, as long as the project is not in them.
const SECRET_OF_SYSTEM: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/root",
    "/run/secrets",
    "/var/run/secrets",
    "/private/etc/master.passwd",
    "/var/lib/docker",
    "/proc/self/environ",
    "/dev/mem",
    "/dev/kmem",
];

/// Devices that hold nothing of anybody.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
];

/// Whether a path by its own words names a place where credentials are kept.
pub(crate) fn is_secret_name(path: &Path) -> bool {
    let in_proc = path.components().any(|c| c.as_os_str() == "proc");
    let anywhere = path.components().any(|c| {
        let name = c.as_os_str();
        SECRET_ANYWHERE.iter().any(|s| name.eq_ignore_ascii_case(s))
            || (in_proc && ["environ", "mem"].iter().any(|s| name == *s))
    });
    anywhere || path.file_name().is_some_and(is_secret_file)
}

fn is_secret_file(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    let sample = || ENV_SAMPLES.iter().any(|s| name.rsplit('.').next() == Some(*s));
    SECRET_FILES.contains(&name.as_str()) || name.starts_with(".env.") && !sample()
}

impl Workspace {
    /// Where reading a resolved path leads.
    pub(crate) fn reach(&self, path: &Path) -> Reach {
        if self.is_secret(path) {
            return Reach::Secret;
        }
        if self.is_inside(path) { Reach::Inside } else { Reach::Outside }
    }

    /// Whether reading a resolved path would show credentials.
    pub(crate) fn is_secret(&self, path: &Path) -> bool {
        self.is_own(path)
            || is_secret_name(path)
            || self.secret_places().any(|place| path.starts_with(place))
    }

    /// The known places that hold credentials, those around the project left out.
    fn secret_places(&self) -> impl Iterator<Item = PathBuf> {
        let at_home = SECRET_AT_HOME.iter().filter_map(|name| Some(self.home()?.join(name)));
        let of_system = SECRET_OF_SYSTEM.iter().map(PathBuf::from);
        at_home.chain(of_system).filter(|place| !self.is_around(place))
    }

    /// What a command reads outside of the project, and what of it may be credentials.
    pub(crate) fn reads_of(&self, judgement: &Judgement) -> Reads {
        let mut reads = Reads::default();
        let everywhere = bases(self, &judgement.moves);
        for look in &judgement.reads {
            let there = self.certainly(judgement, look.moves).map(|base| vec![base]);
            for base in there.as_ref().unwrap_or(&everywhere) {
                self.look(base, look, &mut reads);
            }
        }
        reads.outside.sort();
        reads.outside.dedup();
        reads.secret.dedup();
        reads
    }

    /// The directory after so many changes, where each is sure to happen.
    fn certainly(&self, judgement: &Judgement, moves: usize) -> Option<PathBuf> {
        let mut base = self.cwd().to_owned();
        for directory in judgement.moves.iter().take(moves) {
            base = self.absolute_from(&base, directory);
            // Only of a directory that can be entered.
            std::fs::metadata(base.join(".")).ok()?;
        }
        (!judgement.wanders).then_some(base)
    }

    fn look(&self, base: &Path, look: &Look, reads: &mut Reads) {
        if is_plain_device(&look.path) {
            return;
        }
        let mut given = self.absolute_from(base, &look.path);
        // Somebody else's home, or one of the shell's own directories.
        if look.path.starts_with('~') && given.starts_with(base) {
            given = Path::new("/home").join(&look.path[1..]);
        }
        let mut budget = MAX_ENTRIES;
        let Some(matching) = matching(&given, look.glob, &mut budget) else {
            return reads.secret(look, "it is too much to see whether there are credentials");
        };
        for path in matching {
            let real = follow(&path, 0).unwrap_or_else(|_| lexical(&path));
            match self.reach(&real) {
                Reach::Secret => reads.secret(look, ""),
                Reach::Outside => reads.outside.push(real.clone()),
                Reach::Inside => {}
            }
            self.look_beneath(&real, look, &mut budget, reads);
        }
    }

    /// What lies beneath a directory of which all files are read.
    fn look_beneath(&self, top: &Path, look: &Look, budget: &mut usize, reads: &mut Reads) {
        if look.depth == Depth::Names {
            return;
        }
        let known = self.own().map(Path::to_owned).chain(self.secret_places());
        if known.into_iter().any(|place| place.starts_with(top) && place.exists()) {
            return reads.secret(look, "");
        }
        // Outside it asks anyway, and such trees can be endless.
        if !self.is_inside(top) {
            return;
        }
        match self.walk(top, look.depth, budget) {
            Walked::Clean => {}
            Walked::Secret => reads.secret(look, ""),
            Walked::LeadsOut(path) => reads.outside.push(path),
            Walked::TooMuch => {
                reads.secret(look, "it is too much to see whether there are credentials");
            }
        }
    }

    fn walk(&self, top: &Path, depth: Depth, budget: &mut usize) -> Walked {
        let mut open = vec![top.to_owned()];
        while let Some(directory) = open.pop() {
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                if *budget == 0 {
                    return Walked::TooMuch;
                }
                *budget -= 1;
                let (name, path) = (entry.file_name(), entry.path());
                let hidden = name.as_encoded_bytes().starts_with(b".");
                if name == ".git" || (hidden && depth == Depth::Shown) {
                    continue;
                }
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() {
                    open.push(path.clone());
                }
                if is_secret_name(Path::new(&name)) && !kind.is_symlink() {
                    return Walked::Secret;
                }
                if kind.is_symlink() && depth == Depth::Linked {
                    let real = follow(&path, 0).unwrap_or_else(|_| lexical(&path));
                    match self.reach(&real) {
                        Reach::Secret => return Walked::Secret,
                        // What a link to a directory leads on to is not looked at.
                        _ if real.is_dir() && !real.starts_with(top) => {
                            return Walked::LeadsOut(real);
                        }
                        Reach::Outside => return Walked::LeadsOut(real),
                        Reach::Inside => {}
                    }
                }
            }
        }
        Walked::Clean
    }
}

/// What a command may read beyond the project's own files.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Resolved paths outside of the project.
    pub(crate) outside: Vec<PathBuf>,
    /// What may reach credentials, as sentences.
    pub(crate) secret: Vec<String>,
}

impl Reads {
    fn secret(&mut self, look: &Look, why: &str) {
        let gap = if why.is_empty() { "" } else { "; " };
        self.secret.push(format!("it may read credentials: {}{gap}{why}", look.path));
    }
}

enum Walked {
    Clean,
    Secret,
    LeadsOut(PathBuf),
    TooMuch,
}

/// Every directory that a command may be in, when it changes directory like this: each `cd` may have been
/// in a subshell, or not have happened.
fn bases(workspace: &Workspace, moves: &[String]) -> Vec<PathBuf> {
    let mut bases = vec![workspace.cwd().to_owned()];
    for directory in moves.iter().take(crate::permission::command::MAX_MOVES) {
        let moved: Vec<PathBuf> =
            bases.iter().map(|base| workspace.absolute_from(base, directory)).collect();
        bases.extend(moved);
    }
    bases
}

/// Standard streams and devices that hold nothing.
fn is_plain_device(path: &str) -> bool {
    let descriptor = path.strip_prefix("/dev/fd/");
    let number = |n: &str| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
    path == "-" || DEVICES.contains(&path) || descriptor.is_some_and(number)
}

/// The paths that a glob may stand for, rather too many than too few; none when there are too many.
fn matching(path: &Path, glob: bool, budget: &mut usize) -> Option<Vec<PathBuf>> {
    if !glob {
        return Some(vec![path.to_owned()]);
    }
    let mut found = vec![PathBuf::new()];
    for component in path.components() {
        let name = component.as_os_str().to_string_lossy();
        if !name.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(component));
            continue;
        }
        let mut next = Vec::new();
        for directory in &found {
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                *budget = budget.checked_sub(1)?;
                if may_match(&name, &entry.file_name().to_string_lossy()) {
                    next.push(entry.path());
                }
            }
        }
        found = next;
    }
    Some(found)
}

/// Whether a glob could match a name: by what stands before its first and behind its last sign.
fn may_match(glob: &str, name: &str) -> bool {
    let first = glob.find(['*', '?', '[']).unwrap_or(glob.len());
    let last = glob.rfind(['*', '?', ']', '[']).map_or(0, |at| at + 1);
    let hidden = name.starts_with('.') && !glob.starts_with('.');
    !hidden && name.starts_with(&glob[..first]) && name.ends_with(&glob[last..])
}

/// A path without `.` and `..`, for one that leads nowhere yet.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}
