//! The zstd program, for tests with packed files.
//!
//! Responsible for: packing as the system's program does. Must not: be needed where it is not installed.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Packs at a level such as `-3`; none where the program is not installed.
///
/// # Panics
/// When it is there and does not take all.
#[must_use]
pub fn zstd(bytes: &[u8], level: &str) -> Option<Vec<u8>> {
    let mut command = Command::new("zstd");
    command.args([level, "-c", "-q"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut input = child.stdin.take()?;
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output();
    let taken = writer.join().is_ok_and(|written| written.is_ok());
    assert!(taken, "zstd did not take all");
    output.ok().map(|output| output.stdout)
}
