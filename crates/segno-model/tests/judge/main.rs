//! Judgements of logs that are written in a small notation, and properties of all judgements.
//!
//! Responsible for: running the cases of `tests/corpus/judge/*.txt`. `SEGNO_UPDATE=1` writes what came
//! out into the files; read the difference before committing it.

#![allow(clippy::unwrap_used)]

mod lines;
mod loading;
mod notation;
mod properties;

use notation::{Log, judgement};
use std::fmt::Write as _;
use std::path::Path;

/// Runs one file of cases. A case is `## title`, the log, `---`, and the expected judgements.
fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/judge").join(file);
    let text = std::fs::read_to_string(&path).expect("the corpus is there");
    let (mut updated, mut wrong) = (String::new(), Vec::new());
    let (intro, cases) = text.split_once("\n## ").expect("a file with cases");
    updated.push_str(intro);
    for case in cases.split("\n## ") {
        let (title, rest) = case.split_once('\n').expect("a title");
        let (script, expected) = rest.split_once("---").unwrap_or((rest, ""));
        let actual = judgement(&Log::parse(script).bytes);
        if actual.trim() != expected.trim() {
            wrong.push(format!("## {title}\n{}\nexpected{expected}\ngot\n{actual}", script.trim()));
        }
        write!(updated, "\n## {title}\n{}\n---\n{actual}", script.trim()).expect("text");
    }
    if std::env::var_os("SEGNO_UPDATE").is_some() {
        std::fs::write(&path, updated).expect("the corpus can be written");
        return;
    }
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n\n"));
}

/// Covers: G2, G4, ST3, ST5, TT1, TT2, TT3, TT4, TT5, TT6, TT7, TT8, MS11, #3, #6, #14.
#[test]
fn a_torn_tail_never_blocks_and_never_spreads() {
    check("tail.txt");
}

/// Covers: G3, ST4, ST6, MS9, MS10, #1, #3, #5, #6, #20, #23.
#[test]
fn damage_is_found_located_and_bounded() {
    check("damage.txt");
}

/// Covers: G3, G13, #5, #7, #10, #11.
#[test]
fn odd_encodings_lose_nothing() {
    check("encoding.txt");
}

/// Covers: G3.
#[test]
fn a_repair_settles_exactly_the_damage_that_it_names() {
    check("repair.txt");
}

/// Covers: G11, ST13, ST14, ST15, ST17, ST18, MS5.
#[test]
fn the_active_part_is_the_path_and_what_belongs_to_it() {
    check("active.txt");
}
