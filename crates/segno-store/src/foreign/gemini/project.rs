//! Which folder of Gemini CLI's holds which project.
//!
//! A folder has a short name. `projects.json` lists directories with their names; `.project_root` in a folder, below
//! `tmp` and below `history`, says whose it is, and has the last word. A name that is another project's gets a
//! number: `app`, `app-1` (0.61.0, its project registry).
//!
//! Responsible for: the directory of a folder, and the folder of a directory as Gemini CLI itself would choose it.
//! Must not: write anything.

use super::super::input;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::Path;

/// In which folders of Gemini CLI's a project has one of its own.
const BASES: [&str; 2] = ["tmp", "history"];
/// Says whose a project's folder is.
const MARKER: &str = ".project_root";

/// The directory of the project that a session's file belongs to.
pub(super) fn directory(path: &Path) -> Option<String> {
    let chats = path.ancestors().find(|folder| folder.file_name() == Some(OsStr::new("chats")))?;
    let project = chats.parent()?;
    owner(project).filter(|path| !path.is_empty()).or_else(|| {
        let registry = Registry::read(project.parent()?.parent()?)?;
        let name = project.file_name()?.to_str()?;
        registry.projects.into_iter().find(|(_, slug)| slug == name).map(|(path, _)| path)
    })
}

/// The name of the folder of the project in `cwd`: the one that it has, or the next free one.
pub(super) fn name(home: &Path, cwd: &str) -> String {
    let projects = Registry::read(home).map(|registry| registry.projects).unwrap_or_default();
    let listed = projects.get(cwd).filter(|name| is_name(name) && is_free(home, name, cwd));
    if let Some(name) = listed.cloned().or_else(|| marked(home, cwd)) {
        return name;
    }
    let first = first_name(cwd);
    let taken = |name: &String| projects.iter().any(|(path, its)| its == name && path != cwd);
    let names = (0_u32..).map(|n| if n == 0 { first.clone() } else { format!("{first}-{n}") });
    let mut free = names.filter(|name| !taken(name) && is_free(home, name, cwd));
    free.next().unwrap_or_default()
}

/// How Gemini CLI names a project for the first time.
pub(crate) fn first_name(cwd: &str) -> String {
    let name = cwd.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let dashed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' };
    // Lower case first: what has none stays out.
    let words: String = name.to_lowercase().chars().map(dashed).collect();
    let slug = words.split_whitespace().collect::<Vec<_>>().join("-");
    if slug.is_empty() { "project".to_owned() } else { slug }
}

/// Whether it can be a folder's name and nothing else: the list is a file that anybody may have written.
fn is_name(name: &str) -> bool {
    let fit = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(fit)
}

/// Whether no folder of this name is another project's.
fn is_free(home: &Path, name: &str, cwd: &str) -> bool {
    BASES
        .iter()
        .all(|base| owner(&home.join(base).join(name)).is_none_or(|owner| is_of(&owner, cwd)))
}

/// The folder that says that it is this project's.
fn marked(home: &Path, cwd: &str) -> Option<String> {
    let folders = BASES.iter().filter_map(|base| fs::read_dir(home.join(base)).ok()).flatten();
    let mut names: Vec<String> = folders
        .filter_map(Result::ok)
        .filter(|folder| owner(&folder.path()).is_some_and(|owner| is_of(&owner, cwd)))
        .filter_map(|folder| folder.file_name().into_string().ok())
        .filter(|name| is_name(name) && is_free(home, name, cwd))
        .collect();
    names.sort();
    names.into_iter().next()
}

fn owner(folder: &Path) -> Option<String> {
    text(&folder.join(MARKER)).map(|path| path.trim().to_owned())
}

fn is_of(owner: &str, cwd: &str) -> bool {
    owner.trim_end_matches('/') == cwd.trim_end_matches('/')
}

/// The list of projects: directories, and the names that were given to them.
#[derive(Deserialize)]
struct Registry {
    projects: BTreeMap<String, String>,
}

impl Registry {
    fn read(home: &Path) -> Option<Self> {
        serde_json::from_str(&text(&home.join("projects.json"))?).ok()
    }
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    input::open(path).ok()?.take(4 << 20).read_to_string(&mut text).ok()?;
    Some(text)
}
