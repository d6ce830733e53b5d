//! The git program, for tests with real repositories.
//!
//! Responsible for: calls that do not depend on who the user is or how they set git up. Must not: hide what git
//! said.

use std::path::Path;
use std::process::Command;

/// Settings of every call.
const SETTINGS: &[&str] = &[
    "user.name=A",
    "user.email=a@example.org",
    "init.defaultBranch=main",
    "commit.gpgsign=false",
    "protocol.file.allow=always",
];

/// Calls git in a directory; gives what it printed, without the space around it.
///
/// # Panics
/// When it cannot be started, or is not content.
pub fn git(cwd: &Path, arguments: &[&str]) -> String {
    let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]);
    let mut command = Command::new("git");
    let output = match command.args(settings).args(arguments).current_dir(cwd).output() {
        Ok(output) => output,
        Err(error) => panic!("git cannot be started: {error}"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?} in {}: {said}", cwd.display());
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
