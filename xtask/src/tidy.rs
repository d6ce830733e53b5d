//! House rules that no compiler checks.
//!
//! Responsible for: module headers, file sizes, names, forbidden words, the purity of the core, and calling
//! the other checks. Must not: rewrite anything. (Long functions are the lints' business.)

use crate::{coverage, direction, pages};
use std::path::{Path, PathBuf};

/// Longest source file, tests in it included.
const MAX_LINES: usize = 800;

/// Words that must not stay in sources, split so that this file does not contain them.
const FORBIDDEN: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("db", "g!("),
    concat!("/wo", "rk/"),
    concat!("#[ig", "nore"),
    concat!("too_many", "_lines"),
];

/// What the pure core has no business with: its data comes in, its decisions go out.
const NOT_IN_MODEL: &[&str] =
    &["std::fs", "std::net", "std::env", "std::process", "std::thread", "std::time", "async fn"];

/// The only shipped files in which other programs are started.
const STARTS_PROGRAMS: &[&str] = &[
    "crates/segno-cli/src/inputs.rs",
    "crates/segno-cli/src/others/launch.rs",
    // Its tests kill themselves as other processes.
    "crates/segno-agent/src/tool/change/tests.rs",
    "crates/segno-agent/src/git.rs",
    "crates/segno-testkit/src/git.rs",
    "crates/segno-testkit/src/zstd.rs",
    "crates/segno-agent/src/supervisor/serve.rs",
    "crates/segno-agent/src/tool/bash.rs",
    "crates/segno-agent/src/mcp/stdio.rs",
    "crates/segno-agent/src/tool/supervised/mod.rs",
    "crates/segno-cli/src/demo/stage.rs",
    "crates/segno-cli/src/interactive/shell.rs",
    "crates/segno-cli/src/terminal/prompt.rs",
];

/// Names that say nothing about what belongs there.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "manager", "misc"];

/// Runs all checks; lists every violation.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let mut problems = direction::check(root)?;
    let files = sources(root)?;
    for file in &files {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        check_file(&name, &text, &mut problems);
    }
    problems.extend(coverage::check(root, &files)?);
    problems.extend(pages::check(root)?);
    if problems.is_empty() {
        return Ok(format!("tidy: {} files, no problem", files.len()));
    }
    Err(format!("{}\ntidy: {} problem(s)", problems.join("\n"), problems.len()))
}

fn check_file(name: &str, text: &str, problems: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > MAX_LINES {
        problems.push(format!("{name}: {lines} lines (at most {MAX_LINES})"));
    }
    let is_test = name.contains("/tests/") || name.starts_with("examples/");
    let header: String =
        text.lines().take_while(|l| l.starts_with("//!")).collect::<Vec<_>>().join(" ");
    if header.is_empty() {
        problems.push(format!("{name}: no module header"));
    } else if !(is_test || header.contains("Responsible for:") && header.contains("Must")) {
        problems.push(format!(
            "{name}: the header does not say what it is responsible for and what \
            must not enter it"
        ));
    }
    let mut parts = name.trim_end_matches(".rs").split('/');
    if let Some(part) = parts.find(|part| EMPTY_NAMES.contains(part)) {
        problems.push(format!("{name}: {part} says nothing about what belongs there"));
    }
    let shipped = name.starts_with("crates/") && name.contains("/src/");
    if shipped && text.contains("Command::new(") && !STARTS_PROGRAMS.contains(&name) {
        problems
            .push(format!("{name}: starts a program, and is not in the list of those that may"));
    }
    let pure: &[&str] =
        if name.starts_with("crates/segno-model/src/") { NOT_IN_MODEL } else { &[] };
    for (number, line) in text.lines().enumerate() {
        for word in FORBIDDEN.iter().chain(pure).filter(|w| line.contains(**w)) {
            problems.push(format!("{name}:{}: contains {word}", number + 1));
        }
    }
}

/// All Rust sources of the project, sorted.
fn sources(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("xtask"), root.join("examples")];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for entry in entries.filter_map(Result::ok) {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
