//! Roles: who a subagent can be.
//!
//! Responsible for: finding role files, which of them are roles, and which names stand for none because their file
//! cannot be used (`file` reads one, `front` its front matter, `tools` what it says of tools). A role chooses among
//! what is there: fewer tools, another prompt. It grants nothing; the live permissions decide every call. Must
//! not: start anything, or know a provider.

mod file;
mod front;
mod tools;

pub use tools::ToolSet;

use crate::Surroundings;
use crate::file_note::{FileFault, FileNote};
use file::Parsed;
use segno_model::record::{ModelRef, RoleFact, ToolSource};
use segno_model::sha256_hex;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The role of a call that names none.
pub const GENERAL: &str = "general";

/// A larger file is no role.
const MAX_FILE: u64 = 64 << 10;

/// How many files of one directory are read.
const MAX_FILES: usize = 200;

/// How much of a description the model is told.
const MAX_DESCRIPTION: usize = 300;

/// How long a name may be, in characters.
const MAX_NAME: usize = 64;

/// What the general role is told.
const GENERAL_PROMPT: &str = "You work on one task that another agent gives you. It sees nothing of what \
you do but your last message, so put everything into that which it needs: what you found, what you \
changed and where, and what you did not get to.";

/// Who a subagent can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// By which it is called.
    pub name: String,
    /// What it is for, for the model.
    pub description: String,
    /// The tools that it has.
    pub tools: ToolSet,
    /// The model that it asks; the parent's when none is named.
    pub model: Option<ModelRef>,
    /// How much it thinks; as the parent when nothing is said.
    pub thinking: Option<String>,
    /// What it is told, in front of everything else.
    pub prompt: String,
    /// Its file, or `builtin`.
    pub source: String,
    /// SHA-256 of its file.
    pub sha256: String,
}

impl Role {
    /// The role of a call that names none.
    #[must_use]
    pub fn general() -> Self {
        Self {
            name: GENERAL.to_owned(),
            description: "any task; it has all tools".to_owned(),
            tools: ToolSet::default(),
            model: None,
            thinking: None,
            prompt: GENERAL_PROMPT.to_owned(),
            source: "builtin".to_owned(),
            sha256: sha256_hex(GENERAL_PROMPT.as_bytes()),
        }
    }

    /// What a launch record says of it.
    #[must_use]
    pub fn fact(&self) -> RoleFact {
        let Self { name, source, sha256, .. } = self;
        RoleFact { name: name.clone(), source: source.clone(), sha256: sha256.clone() }
    }

    /// The surroundings of an agent with this role, where these are its parent's.
    #[must_use]
    pub fn around(&self, parents: &Surroundings) -> Surroundings {
        let system = format!("{}\n# Role\n\n{}\n", parents.system, self.prompt);
        Surroundings { system, ..parents.clone() }
    }

    /// What stands for the role of a child whose own is not there any more: with the tools that it was launched with
    /// at most.
    #[must_use]
    pub fn instead_of(had: &[ToolSource]) -> Self {
        let tools = ToolSet::only(had.iter().map(|tool| tool.name.clone()).collect());
        Self { tools, ..Self::general() }
    }

    /// Whether it has a tool of this name.
    #[must_use]
    pub fn has(&self, tool: &str) -> bool {
        self.tools.has(tool)
    }
}

/// A file that cannot be used as a role.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unavailable {
    /// For the model.
    why: String,
    /// The file, when it was read: a later one does not stand in for what it keeps its role from.
    keeps: Option<String>,
}

/// All roles of one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// By name.
    roles: BTreeMap<String, Role>,
    /// The names that nobody can be called by, because of a file that cannot be used.
    unavailable: BTreeMap<String, Unavailable>,
    /// What a person should know about their files.
    pub notes: Vec<FileNote>,
}

impl Roles {
    /// Reads the roles of a project and of its user, the first one that has a name wins: the project's own, the
    /// user's own, and what the project keeps for Claude Code. What a project's links lead to outside of it is not
    /// read: a role goes to the model's provider unasked. A file that was read and is none of a role has its name
    /// all the same. The general one is there unless such a file has that name.
    #[must_use]
    pub fn load(root: &Path, user: Option<&Path>) -> Self {
        let mut roles = Self::default();
        let real = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let places = [
            (Some(root.join(".segno/agents")), Some(real.as_path())),
            (user.map(Path::to_owned), None),
            (Some(root.join(".claude/agents")), Some(real.as_path())),
        ];
        for (directory, within) in places {
            if let Some(directory) = directory {
                roles.take_all(&directory, within);
            }
        }
        if roles.file_with(GENERAL).is_none() {
            roles.insert(Role::general());
        }
        roles
    }

    /// The role of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// Why nobody can be called by this name, when that is because of a file.
    #[must_use]
    pub fn why_not(&self, name: &str) -> Option<&str> {
        self.unavailable.get(name).map(|unavailable| unavailable.why.as_str())
    }

    /// One line per role, for the model; and one per role that cannot be used.
    #[must_use]
    pub fn described(&self) -> String {
        let line = |role: &Role| {
            let end = role.description.floor_char_boundary(MAX_DESCRIPTION);
            format!("\n- {}: {}", role.name, role.description[..end].replace('\n', " "))
        };
        let lacking = self.unavailable.iter();
        let lacking = lacking.map(|(name, u)| format!("\n- {name}: not available: {}", u.why));
        self.iter().map(line).chain(lacking).collect()
    }

    /// The file that has this name.
    fn file_with(&self, name: &str) -> Option<String> {
        let lacking = || self.unavailable.get(name).and_then(|u| u.keeps.clone());
        self.roles.get(name).map(|role| role.source.clone()).or_else(lacking)
    }

    fn insert(&mut self, role: Role) {
        self.unavailable.remove(&role.name);
        self.roles.insert(role.name.clone(), role);
    }

    fn take_all(&mut self, directory: &Path, within: Option<&Path>) {
        let mut paths = match files(directory) {
            Ok(paths) => paths,
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                let fault = FileFault::Unreadable(error.to_string());
                return self.notes.push(FileNote::new(directory, fault));
            }
        };
        if paths.len() > MAX_FILES {
            paths.truncate(MAX_FILES);
            self.notes.push(FileNote::new(directory, FileFault::TooMany(MAX_FILES)));
        }
        for path in paths {
            self.take(&path, within);
        }
    }

    fn take(&mut self, path: &Path, within: Option<&Path>) {
        let bytes = match read(path, within) {
            Ok(bytes) => bytes,
            Err(fault) => {
                self.lack(file::stem(path), "its file cannot be read here".to_owned(), None);
                return self.notes.push(FileNote::new(path, fault));
            }
        };
        let Parsed { name, role, mut notes } = file::parse(path, &bytes);
        match (self.file_with(&name), role) {
            (Some(first), _) => notes = vec![FileFault::Second { name, first }],
            (None, Ok(role)) => self.insert(role),
            (None, Err(fault)) => {
                let why = format!("its file is no role ({})", fault.reason());
                self.lack(name, why, Some(path.display().to_string()));
                notes = vec![fault];
            }
        }
        self.notes.extend(notes.into_iter().map(|fault| FileNote::new(path, fault)));
    }

    fn lack(&mut self, name: String, why: String, keeps: Option<String>) {
        if file::is_name(&name) && !self.roles.contains_key(&name) {
            self.unavailable.insert(name, Unavailable { why, keeps });
        }
    }
}

/// The Markdown files of a directory, in the order of their names; links that lead nowhere too.
fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let is_markdown =
        |path: &PathBuf| path.extension().is_some_and(|e| e == "md") && !path.is_dir();
    let entries = std::fs::read_dir(directory)?;
    let mut paths: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|e| e.path()).filter(is_markdown).collect();
    paths.sort();
    Ok(paths)
}

fn read(path: &Path, within: Option<&Path>) -> Result<Vec<u8>, FileFault> {
    let unreadable = |error: std::io::Error| FileFault::Unreadable(error.to_string());
    let real = path.canonicalize().map_err(unreadable)?;
    if within.is_some_and(|within| !real.starts_with(within)) {
        return Err(FileFault::LeadsOut(real.display().to_string()));
    }
    if crate::tool::is_secret_name(&real) {
        return Err(FileFault::Credentials);
    }
    let meta = std::fs::metadata(&real).map_err(unreadable)?;
    if !meta.is_file() {
        return Err(FileFault::Unreadable("it is no file".to_owned()));
    }
    if meta.len() > MAX_FILE {
        return Err(FileFault::TooLarge(meta.len()));
    }
    std::fs::read(&real).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: G17. A file that is no role has its name: neither one behind it nor the one with all tools stands in for
    /// it, and the model is told why it is not there.
    #[test]
    fn a_file_that_cannot_be_used_has_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let write = |at: &str, text: &str| {
            let path = dir.path().join(at);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("root/.segno/agents/a.md", "---\nname: guard\n  tools: read\n---\none");
        write("root/.segno/agents/general.md", "---\ndescription: d\n---\n");
        write("user/guard.md", "---\nname: guard\ndescription: d\n---\ntwo");
        write("root/.claude/agents/c.md", "\0");
        let roles = Roles::load(&dir.path().join("root"), Some(&dir.path().join("user")));
        assert_eq!(roles.iter().count(), 0, "{roles:?}");
        let expected = [
            "c: not available: its file is no role (it is no text)",
            "general: not available: its file is no role (it has no prompt)",
            "guard: not available: its file is no role (line 3: it is indented, and belongs to nothing)",
        ];
        assert_eq!(roles.described().trim().split("\n- ").count(), 3);
        for line in expected {
            assert!(roles.described().contains(&format!("\n- {line}")), "{}", roles.described());
        }
        let notes = roles.notes.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(notes.len(), 4, "{notes:?}");
        assert!(
            notes.iter().any(|n| n.contains("user/guard.md: not used: the role guard is that of "))
        );
        write("root/.segno/agents/a.md", "---\nname: guard\ntools: read\n---\none");
        let roles = Roles::load(&dir.path().join("root"), None);
        assert!(roles.get("guard").is_some_and(|role| role.has("read") && !role.has("bash")));
    }

    #[test]
    fn the_first_directory_with_a_name_wins() {
        let dir = tempfile::tempdir().unwrap();
        let user = dir.path().join("user");
        let write = |at: &str, text: &str| {
            let path = dir.path().join(at);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("root/.segno/agents/a.md", "---\nname: a\ndescription: ours\n---\none");
        write("user/b.md", "---\nname: a\ndescription: the user's\n---\ntwo");
        write("user/c.md", "---\nname: c\ndescription: c\n---\nthree");
        write("root/.claude/agents/c.md", "---\nname: c\ndescription: theirs\n---\nfour");
        write("root/.claude/agents/notes.txt", "no role");
        std::fs::write(dir.path().join("root/.claude/agents/big.md"), "x".repeat(70 << 10))
            .unwrap();
        let root = dir.path().join("root");
        let roles = Roles::load(&root, Some(&user));
        assert_eq!(roles.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["a", "c", GENERAL]);
        assert_eq!(roles.get("a").unwrap().prompt, "one");
        assert_eq!(roles.notes.len(), 3, "{:?}", roles.notes);
        assert!(roles.described().starts_with("\n- a: ours\n- c: c\n- general: "));
        let none = Roles::load(Path::new("/nowhere"), None);
        assert_eq!(none.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), [GENERAL]);
    }

    /// Covers: G17. A link of the project's does not send what lies elsewhere to a provider; one of the user's is
    /// the user's own doing.
    #[test]
    fn links_out_of_the_project_are_not_roles() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["root/.segno/agents", "root/docs", "root/.claude", "user", "else"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        for (file, name) in [("else/out.md", "out"), ("root/docs/inner.md", "inner")] {
            std::fs::write(at(file), format!("---\nname: {name}\ndescription: d\n---\nbody"))
                .unwrap();
        }
        let link = |to: &str, from: &str| std::os::unix::fs::symlink(at(to), at(from)).unwrap();
        link("else/out.md", "root/.segno/agents/out.md");
        link("root/docs/inner.md", "root/.segno/agents/inner.md");
        link("else", "root/.claude/agents");
        let names = |roles: &Roles| roles.iter().map(|r| r.name.clone()).collect::<Vec<_>>();
        let roles = Roles::load(&at("root"), Some(&at("user")));
        assert_eq!(names(&roles), [GENERAL, "inner"]);
        assert_eq!(roles.notes.len(), 2, "{:?}", roles.notes);
        assert!(roles.notes.iter().all(|n| matches!(n.fault, FileFault::LeadsOut(_))));
        link("else/out.md", "user/out.md");
        let roles = Roles::load(&at("root"), Some(&at("user")));
        assert_eq!(names(&roles), [GENERAL, "inner", "out"]);
    }
}
