//! Keeps `docs/coverage.md` and `docs/guarantees.md` honest.
//!
//! Responsible for: four comparisons. Every id that a test claims (`Covers: …`) is a row of the page; every row that
//! says `test` is claimed by a test, and in each file that it names; every test named in the guarantees exists. Must
//! not: judge whether a test is any good.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Gives one line per disagreement.
pub(crate) fn check(root: &Path, files: &[PathBuf]) -> Result<Vec<String>, String> {
    let mut claimed = Claimed::new();
    let mut functions = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        for id in claims(&text) {
            claimed.entry(id).or_default().insert(name.clone());
        }
        functions.extend(text.lines().filter_map(function_name));
    }
    let mut problems = compare(&read(root, "docs/coverage.md")?, &claimed);
    problems.extend(missing_tests(&read(root, "docs/guarantees.md")?, &functions));
    Ok(problems)
}

fn read(root: &Path, name: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(name)).map_err(|e| format!("{name}: {e}"))
}

/// The files in which an id is claimed.
type Claimed = BTreeMap<String, BTreeSet<String>>;

/// The ids of comments such as `/// Covers: G2, TT2, #3.`; a list goes on until its full stop.
fn claims(text: &str) -> Vec<String> {
    let (mut ids, mut open) = (Vec::new(), false);
    for line in text.lines() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            open = false;
            continue;
        };
        let list = match comment.split_once("Covers:") {
            Some((_, list)) => list,
            None if open => comment.trim_start_matches(['/', '!']),
            None => continue,
        };
        open = !list.trim_end().ends_with('.');
        let words = list.split([',', ' ', ';']).map(|id| id.trim_matches(['.', '`', ' ']));
        ids.extend(words.filter(is_id).map(str::to_owned));
    }
    ids
}

/// `G7`, `ST12`, `#103`.
fn is_id(word: &&str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_uppercase() || c == '#');
    let prefix = word.len() - digits.len();
    (1..=2).contains(&prefix) && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Rows look like `| ST5 | test | … |`, `| PR1 | later | … |` or `| MG1 | moot | why |`.
fn compare(page: &str, claimed: &Claimed) -> Vec<String> {
    let mut rows = BTreeMap::new();
    let mut problems = Vec::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(id), Some(how)) = (cells.first(), cells.get(1)) else { continue };
        if !is_id(id) {
            continue;
        }
        if !matches!(*how, "test" | "moot" | "later") {
            problems.push(format!("docs/coverage.md: {id} says {how:?}, not test, moot or later"));
        }
        if *how != "test" && cells.get(2).is_none_or(|why| why.len() < 12) {
            problems.push(format!("docs/coverage.md: {id} gives no reason"));
        }
        let empty = BTreeSet::new();
        let files = claimed.get(*id).unwrap_or(&empty);
        // Files are named below `crates/`, without the crates' common prefix.
        let named = cells.get(2).into_iter().filter(|_| *how == "test");
        for name in named.flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
            if !files.contains(&format!("crates/segno-{name}")) {
                problems
                    .push(format!("docs/coverage.md: {id} names {name}, which does not claim it"));
            }
        }
        if rows.insert((*id).to_owned(), (*how).to_owned()).is_some() {
            problems.push(format!("docs/coverage.md: {id} has two rows"));
        }
    }
    for (id, how) in &rows {
        if how == "test" && !claimed.contains_key(id) {
            problems.push(format!("docs/coverage.md: {id} says test, but no test claims it"));
        }
    }
    for (id, files) in claimed {
        if let Some(file) = files.first().filter(|_| !rows.contains_key(id)) {
            problems.push(format!("{file}: claims {id}, which has no row in docs/coverage.md"));
        }
    }
    problems
}

fn function_name(line: &str) -> Option<String> {
    let rest = line.trim_start();
    let rest = rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("fn ")?;
    Some(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
}

/// Tests are named in the guarantees as `test: name`.
fn missing_tests(page: &str, functions: &BTreeSet<String>) -> Vec<String> {
    page.split("`test: ")
        .skip(1)
        .filter_map(|rest| rest.split('`').next())
        .filter(|name| !functions.contains(*name))
        .map(|name| format!("docs/guarantees.md: there is no test {name}"))
        .collect()
}
