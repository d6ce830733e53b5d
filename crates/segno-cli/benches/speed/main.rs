//! The speed budgets: `cargo xtask bench`.
//!
//! Responsible for: running every measure once and printing one table of ratios against a floor that was
//! measured in the same run. Must not: fail when a budget is missed, or be part of the tests.

mod engine;
mod logs;
mod measure;
mod others;
mod process;

use measure::Row;
use std::error::Error;
use std::path::Path;

type Done<T> = Result<T, Box<dyn Error>>;
type Measure = fn(&Path) -> Done<Vec<Row>>;

/// Each measure and its name, by which it can be chosen.
const MEASURES: &[(&str, Measure)] = &[
    ("append", logs::append),
    ("scan", logs::scan),
    ("open", process::open),
    ("list", logs::list),
    ("list-other", others::list),
    ("index", others::index),
    ("search", others::search),
    ("start", process::start),
    ("turn", engine::turn),
];

fn main() -> Done<()> {
    // cargo passes `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [child, home, id] = args.as_slice()
        && child == process::OPEN
    {
        return process::opening(Path::new(home), id);
    }
    if args.first().is_some_and(|a| a == process::NOTHING) {
        return Ok(());
    }
    let home = tempfile::tempdir()?;
    for (name, run) in MEASURES {
        if args.is_empty() || args.iter().any(|a| a == name) {
            for row in run(&home.path().join(name))? {
                say(&row.to_string());
            }
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the table is what it is for")]
fn say(text: &str) {
    println!("{text}");
}
