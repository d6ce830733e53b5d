//! Tests that cannot tell anything where they run.
//!
//! Responsible for: making them visible, since for the test runner they passed. Must not: decide what can be
//! tested.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Names the file in which skipped tests are noted, one line each; `cargo xtask test` sets it and adds them up.
pub const SKIPS: &str = "SEGNO_TEST_SKIPS";

/// Says, and notes, why this test cannot tell anything here. To be followed by a return.
#[expect(clippy::print_stderr, reason = "a test talks to whoever runs it")]
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {why}\n", thread.name().unwrap_or("a test"));
    eprint!("skipped: {line}");
    let noted = std::env::var_os(SKIPS).map(|path| {
        OpenOptions::new().append(true).create(true).open(path)?.write_all(line.as_bytes())
    });
    if let Some(Err(error)) = noted {
        eprintln!("that it was skipped could not be noted: {error}");
    }
}
