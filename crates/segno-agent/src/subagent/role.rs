//! Roles: who a subagent can be.
//!
//! Responsible for: finding role files, reading them leniently, and saying what is wrong with them. A role
//! chooses among what is there: fewer tools, another prompt. It grants nothing; the live permissions decide
//! every call. Must not: start anything, or know a provider.

use crate::Surroundings;
use crate::file_note::{FileFault, FileNote};
use segno_model::record::{ModelRef, RoleFact};
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
    /// The tools that it has; all when none are named.
    pub tools: Option<Vec<String>>,
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
            tools: None,
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

    /// Whether it has a tool of this name.
    #[must_use]
    pub fn has(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|own| own == tool))
    }
}

/// All roles of one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// By name.
    roles: BTreeMap<String, Role>,
    /// What a person should know about their files.
    pub notes: Vec<FileNote>,
}

impl Roles {
    /// Reads the roles of a project and of its user, the first one that has a name wins: the project's own, the
    /// user's own, and what the project keeps for Claude Code. What a project's links lead to outside of it is not
    /// read: a role goes to the model's provider unasked. The general one is always there.
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
        roles.roles.entry(GENERAL.to_owned()).or_insert_with(Role::general);
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

    /// One line per role, for the model.
    #[must_use]
    pub fn described(&self) -> String {
        let line = |role: &Role| {
            let end = role.description.floor_char_boundary(MAX_DESCRIPTION);
            format!("\n- {}: {}", role.name, role.description[..end].replace('\n', " "))
        };
        self.iter().map(line).collect()
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
        let mut faults = Vec::new();
        match read(path, within).and_then(|bytes| parse(path, &bytes, &mut faults)) {
            Ok(role) => match self.roles.get(&role.name) {
                Some(first) => {
                    let (name, first) = (role.name, first.source.clone());
                    faults = vec![FileFault::Second { name, first }];
                }
                None => {
                    self.roles.insert(role.name.clone(), role);
                }
            },
            Err(fault) => faults.push(fault),
        }
        self.notes.extend(faults.into_iter().map(|fault| FileNote::new(path, fault)));
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

/// A role from its file, or why it is none; what else is wrong with it is added to `notes`.
fn parse(path: &Path, bytes: &[u8], notes: &mut Vec<FileFault>) -> Result<Role, FileFault> {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let (front, body) = split(text)?;
    if front.is_none() {
        notes.push(FileFault::NoFrontMatter);
    }
    let mut fields = fields(front.unwrap_or_default());
    let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let name = fields.remove("name").map(|f| f.text()).filter(|n| !n.is_empty()).unwrap_or(stem);
    if !is_name(&name) {
        return Err(FileFault::BadName(name));
    }
    if body.trim().is_empty() {
        return Err(FileFault::NoPrompt);
    }
    let description = fields.remove("description").map(|f| f.text()).unwrap_or_default();
    if description.is_empty() {
        notes.push(FileFault::NoDescription);
    }
    Ok(Role {
        tools: fields.remove("tools").map(|f| tools(&f.list(), notes)),
        model: fields.remove("model").and_then(|f| model(&f.text(), notes)),
        thinking: fields.remove("thinking").and_then(|f| thinking(&f.text(), notes)),
        name,
        description,
        prompt: body.trim().to_owned(),
        source: path.display().to_string(),
        sha256: sha256_hex(bytes),
    })
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    (1..=64).contains(&name.chars().count()) && name.chars().all(fits)
}

/// What stands between two lines `---` at the beginning, and what follows.
fn split(text: &str) -> Result<(Option<&str>, &str), FileFault> {
    let Some(rest) = text.strip_prefix("---\n") else { return Ok((None, text)) };
    if let Some(body) = rest.strip_prefix("---\n") {
        return Ok((Some(""), body));
    }
    match rest.split_once("\n---\n") {
        Some((front, body)) => Ok((Some(front), body)),
        None => match rest.strip_suffix("\n---") {
            Some(front) => Ok((Some(front), "")),
            None => Err(FileFault::OpenFrontMatter),
        },
    }
}

/// A value of the front matter: the text behind its colon, and the indented lines below it.
#[derive(Debug, Default)]
struct Field {
    first: String,
    below: Vec<String>,
}

impl Field {
    /// As one text; the marks of a folded or a literal block are left out.
    fn text(&self) -> String {
        let first = self.first.as_str();
        let block = matches!(first, "|" | ">" | "|-" | ">-" | "|+" | ">+");
        let own = if block { "" } else { first };
        let mut lines = vec![own];
        lines.extend(self.below.iter().map(|line| line.trim()));
        let separator = if first.starts_with('|') { "\n" } else { " " };
        unquoted(lines.join(separator).trim()).to_owned()
    }

    /// As a list: `a, b`, `[a, b]`, or lines that begin with a dash.
    fn list(&self) -> Vec<String> {
        let inner = self.first.trim_start_matches('[').trim_end_matches(']');
        let below = self.below.iter().map(|line| line.trim().trim_start_matches('-'));
        let all = inner.split(',').chain(below).map(|item| unquoted(item.trim()).to_owned());
        all.filter(|item| !item.is_empty()).collect()
    }
}

/// The fields of a front matter, as far as it is of the plain kind; what is not is passed over.
fn fields(front: &str) -> BTreeMap<String, Field> {
    let mut fields: BTreeMap<String, Field> = BTreeMap::new();
    let mut newest: Option<String> = None;
    for line in front.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let indented = line.starts_with([' ', '\t', '-']);
        match (indented, line.split_once(':'), &newest) {
            (false, Some((key, value)), _) => {
                let key = key.trim().to_ascii_lowercase();
                let field = Field { first: value.trim().to_owned(), below: Vec::new() };
                fields.entry(key.clone()).or_insert(field);
                newest = Some(key);
            }
            (true, _, Some(key)) => {
                if let Some(field) = fields.get_mut(key) {
                    field.below.push(line.to_owned());
                }
            }
            _ => {}
        }
    }
    fields
}

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

/// Tools by our names; Claude Code's are understood.
fn tools(given: &[String], notes: &mut Vec<FileFault>) -> Vec<String> {
    const OURS: &[&str] =
        &["read", "write", "edit", "bash", "grep", "find", "ls", "todo", "background"];
    let mut tools = Vec::new();
    for name in given {
        let ours = match name.as_str() {
            "Glob" => "find",
            "LS" => "ls",
            "TodoWrite" => "todo",
            "MultiEdit" => "edit",
            "BashOutput" | "KillShell" => "background",
            other => other,
        };
        let lower = ours.to_ascii_lowercase();
        if OURS.contains(&lower.as_str()) {
            tools.push(lower);
        } else if crate::mcp::is_external(ours) {
            tools.push(ours.to_owned());
        } else if lower == "task" || lower == "agent" {
            notes.push(FileFault::StartsNone);
        } else {
            notes.push(FileFault::NoSuchTool(name.clone()));
        }
    }
    tools.sort();
    tools.dedup();
    tools
}

fn model(given: &str, notes: &mut Vec<FileFault>) -> Option<ModelRef> {
    if given.is_empty() || given == "inherit" {
        return None;
    }
    match given.split_once('/') {
        Some((provider, id)) if !id.is_empty() && !provider.is_empty() => {
            Some(ModelRef::new(provider, id))
        }
        _ => {
            notes.push(FileFault::NotAModel(given.to_owned()));
            None
        }
    }
}

fn thinking(given: &str, notes: &mut Vec<FileFault>) -> Option<String> {
    if matches!(given, "off" | "minimal" | "low" | "medium" | "high") {
        return Some(given.to_owned());
    }
    notes.push(FileFault::NotALevel(given.to_owned()));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(text: &str) -> (Option<Role>, String) {
        let mut faults = Vec::new();
        let path = Path::new("/p/.segno/agents/scout.md");
        let role = parse(path, text.as_bytes(), &mut faults);
        let notes = faults.iter().chain(role.as_ref().err()).map(ToString::to_string);
        let notes = notes.collect::<Vec<_>>().join("; ");
        (role.ok(), notes)
    }

    #[test]
    fn a_role_is_its_front_matter_and_its_body() {
        let text = "---\nname: scout\ndescription: looks around\ntools: read, grep\nmodel: anthropic/claude-x\nthinking: low\n---\n\nLook.\n";
        let (role, notes) = role(text);
        let expected = Role {
            name: "scout".into(),
            description: "looks around".into(),
            tools: Some(vec!["grep".into(), "read".into()]),
            model: Some(ModelRef::new("anthropic", "claude-x")),
            thinking: Some("low".into()),
            prompt: "Look.".into(),
            source: "/p/.segno/agents/scout.md".into(),
            sha256: sha256_hex(text.as_bytes()),
        };
        assert_eq!((role, notes.as_str()), (Some(expected), ""));
    }

    /// What other agents' files look like is understood; what cannot be is said.
    #[test]
    fn other_shapes_are_read_leniently() {
        let tools = |text: &str| {
            let (role, notes) = role(&format!("---\ndescription: d\n{text}\n---\nbody"));
            (role.unwrap().tools.map(|tools| tools.join(" ")), notes)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(tools("tools: Read, Glob, TodoWrite"), (some("find read todo"), String::new()));
        assert_eq!(tools("tools: [\"Read\", 'LS']"), (some("ls read"), String::new()));
        assert_eq!(tools("tools:\n  - Read\n  - Bash"), (some("bash read"), String::new()));
        assert_eq!(
            tools("tools:\n- Read\n- mcp__box__look"),
            (some("mcp__box__look read"), String::new())
        );
        assert_eq!(tools("colour: green"), (None, String::new()));
        assert_eq!(tools("tools: Read, Dance").1, "there is no tool \"Dance\"; it is left out");
        assert_eq!(tools("tools: Task").0, some(""));
        let described =
            |text: &str| role(&format!("---\n{text}\n---\nbody")).0.unwrap().description;
        assert_eq!(described("description: >\n  looks\n  around"), "looks around");
        assert_eq!(described("description: \"a: b\""), "a: b");
        assert_eq!(described("description: a: b"), "a: b");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            (
                "body",
                true,
                "there is no front matter between two lines `---`; it has no description, so the model does not know what it is for",
            ),
            ("---\nname: a/b\n---\nbody", false, "not used: \"a/b\" is no name"),
            ("---\nname: a\ndescription: d\n---\n \n", false, "not used: it has no prompt"),
            (
                "---\nname: a\ndescription: d\nbody",
                false,
                "not used: its front matter has no second line `---`",
            ),
            (
                "---\nname: a\ndescription: d\nmodel: sonnet\n---\nb",
                true,
                "\"sonnet\" is not PROVIDER/ID; it asks its parent's model",
            ),
            ("---\nname: a\ndescription: d\nmodel: inherit\n---\nb", true, ""),
            (
                "---\nname: a\ndescription: d\nthinking: deeply\n---\nb",
                true,
                "\"deeply\" is no thinking level; it thinks as its parent",
            ),
        ];
        for (text, is_role, expected) in cases {
            let (role, notes) = role(text);
            assert_eq!((role.is_some(), notes.as_str()), (is_role, expected), "{text}");
        }
        assert_eq!(role("body").0.unwrap().name, "scout");
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
