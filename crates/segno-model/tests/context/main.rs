//! Contexts of sessions that are written in a small notation.
//!
//! Responsible for: running the cases of `tests/corpus/context/*.txt`. `SEGNO_UPDATE=1` writes what
//! came out into the files; read the difference before committing it.

mod compaction;
mod notation;
mod pruning;
mod random;
mod state;
mod tree;

use notation::{Session, messages, notes};
use std::fmt::Write as _;
use std::path::Path;

/// Runs one file of cases. A case is `## title`, the session, `---`, and the expected text.
fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/context").join(file);
    let text = std::fs::read_to_string(&path).expect("the corpus is there");
    let mut updated = String::new();
    let mut wrong = Vec::new();
    let (intro, cases) = text.split_once("\n## ").expect("a file with cases");
    updated.push_str(intro);
    for case in cases.split("\n## ") {
        let (title, rest) = case.split_once('\n').expect("a title");
        let (session, expected) = rest.split_once("---").expect("a session and an expectation");
        let context = Session::parse(session).context();
        let actual = format!("{}{}", messages(&context), notes(&context));
        if actual.trim() != expected.trim() {
            wrong.push(format!(
                "## {title}\n{}\nexpected\n{expected}\ngot\n{actual}",
                session.trim()
            ));
        }
        write!(updated, "\n## {title}\n{}\n---\n{actual}", session.trim()).expect("text");
    }
    if std::env::var_os("SEGNO_UPDATE").is_some() {
        std::fs::write(&path, updated).expect("the corpus can be written");
        return;
    }
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n\n"));
}

/// Covers: G6, #32, #34, #35, #36, #38, #39, #41, #43, #45, #24, #28, RS16, RS19, RS33, RS34.
#[test]
fn results_stand_behind_their_calls() {
    check("pairing.txt");
}

/// Covers: G6, G9, G13, #46, #48, #49, MS5, ST8.
#[test]
fn nothing_that_a_provider_refuses_is_sent() {
    check("content.txt");
}

/// Covers: ST6, ST7, ST12, ST13, ST14, ST15, #20, #23, #30, MS5.
#[test]
fn the_context_follows_the_path_to_the_tip() {
    check("tree.txt");
}

/// Covers: ST15, ST17, ST18, EV3, #23, #41, #45, #51, #52, #54, #56, #60.
#[test]
fn the_newest_summary_stands_for_what_came_before() {
    check("compaction.txt");
}

/// The page for people lists every label and every code that can occur.
#[test]
fn the_context_page_is_complete() {
    let page = include_str!("../../../../docs/context.md");
    for rule in segno_model::context::RULES {
        let included = if rule.included { "yes" } else { "no" };
        assert!(page.contains(&format!("| `{}` | {included} |", rule.label)), "{}", rule.label);
    }
    for code in ["missing-parent", "missing-tip", "missing-kept-record"] {
        assert!(page.contains(&format!("| `{code}` |")), "{code}");
    }
}
