//! Runs the speed budgets.
//!
//! Responsible for: one command for the table of `docs/speed.md`. Must not: judge it; a missed budget is
//! for people.

use std::path::Path;
use std::process::Command;

const HEAD: &str = "| measure | median, and floor or peer in the same run | figure | budget | verdict |\n\
    | --- | --- | --- | --- | --- |";

/// Builds for release and prints the table; `chosen` measures, or all.
pub(crate) fn run(root: &Path, chosen: &[String]) -> Result<String, String> {
    crate::say(HEAD);
    let status = Command::new(env!("CARGO"))
        .args(["bench", "--quiet", "--locked", "--package", "segno-cli", "--bench", "speed", "--"])
        .args(chosen)
        .current_dir(root)
        .status()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    if status.success() {
        Ok("repeat: cargo xtask bench [append scan open list list-other index search start turn]"
            .to_owned())
    } else {
        Err("the benchmark did not end well".to_owned())
    }
}
