//! Keeps the pages whole.
//!
//! Responsible for: links between the project's own pages that lead somewhere, decisions that are numbered
//! without a gap. Must not: judge what a page says.

use std::path::{Path, PathBuf};

/// Gives one line per broken link and per decision out of order.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for page in pages(root)? {
        let text =
            std::fs::read_to_string(&page).map_err(|e| format!("{}: {e}", page.display()))?;
        let name = page.strip_prefix(root).unwrap_or(&page).display();
        let folder = page.parent().unwrap_or(root);
        let broken = links(&text).filter(|link| !folder.join(link).exists());
        problems.extend(broken.map(|link| format!("{name}: {link} is not there")));
    }
    problems.extend(out_of_order(&decisions(root)?));
    Ok(problems)
}

/// Markdown pages at the top and below `docs/`.
fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![root.join("docs")];
    let mut entries = list(root)?;
    while let Some(folder) = folders.pop() {
        let below = list(&folder)?;
        folders.extend(below.iter().filter(|path| path.is_dir()).cloned());
        entries.extend(below);
    }
    found.extend(entries.into_iter().filter(|path| path.extension().is_some_and(|e| e == "md")));
    found.sort();
    Ok(found)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
}

/// Where `[…](target)` leads, without addresses of the web and without anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let paths = targets.filter_map(|target| target.split('#').next());
    paths.filter(|path| !path.is_empty() && !path.contains("://"))
}

fn decisions(root: &Path) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = list(&root.join("docs/decisions"))?
        .iter()
        .filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    Ok(names)
}

fn out_of_order(names: &[String]) -> Vec<String> {
    let numbered = names.iter().zip(1..);
    let wrong = numbered.filter(|(name, n)| !name.starts_with(&format!("{n:04}-")));
    wrong.map(|(name, n)| format!("docs/decisions/{name}: number {n:04} is next")).collect()
}

#[cfg(test)]
mod tests {
    use super::{links, out_of_order};

    #[test]
    fn only_links_to_our_own_pages_are_followed() {
        let text = "[a](a.md), [b](b.md#part) [c](#here) [d](https://d.example) `x[0](y)`";
        assert_eq!(links(text).collect::<Vec<_>>(), ["a.md", "b.md", "y"]);
    }

    #[test]
    fn decisions_are_numbered_without_a_gap() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert!(out_of_order(&names(&["0001-a.md", "0002-b.md"])).is_empty());
        assert_eq!(out_of_order(&names(&["0001-a.md", "0001-b.md"])).len(), 1);
        assert_eq!(out_of_order(&names(&["0001-a.md", "0003-c.md"])).len(), 1);
    }
}
