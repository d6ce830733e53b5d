//! The agent at work on (a copy of) this very repository: it looks for a file, reads it, adds a test to
//! it, and runs its tests.

use crate::place::{Place, Ran};
use std::path::{Path, PathBuf};

/// A module of ours that needs nothing else, so that a compiler alone can run its tests.
const MODULE: &str = "crates/segno-agent/src/provider/sse.rs";

/// Everything that this model says beyond its first step comes from what the tools gave it.
const SCRIPT: &str = r##"
strict prefix

rule find it
  when last user
  when prompt is "Add a test for comments to the parser of server-sent events, and run its tests."
  think "First the file."
  say "I look for the parser."
  call find {"glob": "**/sse.rs"}

rule read it
  when last results
  when replies 1
  when result contains "crates/" capture file until line
  say "I read crates/{file}."
  call read {"path": "crates/{file}"}
  call grep {"pattern": "mod sse;", "literal": true, "glob": "*.rs"}

rule change it
  when last results
  when replies 2
  when result contains "mod tests {"
  when results contains "crates/" capture file until line
  say "Now a test, and a file that runs it alone."
  call todo {"steps": [{"text": "add the test", "status": "in_progress"}, {"text": "run the tests", "status": "pending"}]}
  call edit {"path": "crates/segno-agent/src/provider/sse.rs", "old_text": "mod tests {{\n    use super::*;\n", "new_text": "mod tests {{\n    use super::*;\n\n    #[test]\n    fn a_comment_is_no_event() {{\n        assert_eq!(events(b\": hi\\n\\n\", 1), \"\");\n    }}\n"}
  call write {"path": "alone.rs", "content": "#[allow(dead_code)]\n#[path = \"crates/segno-agent/src/provider/sse.rs\"]\nmod sse;\n"}

rule run it
  when last results
  when replies 3
  call bash {"command": "rustc --edition 2024 --test alone.rs -o alone && ./alone"}

rule report
  when last results
  when replies 4
  when result contains "test result: ok. " capture passed until " passed"
  say "All {passed} tests pass."

otherwise
  say "That went wrong: {result}"
"##;

/// Copies sources; what was built, and what is hidden, stays.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let hidden = name.to_string_lossy().starts_with('.');
        if entry.file_type().unwrap().is_dir() {
            if !hidden && name != "target" {
                copy(&entry.path(), &to.join(&name));
            }
        } else if !hidden {
            std::fs::copy(entry.path(), to.join(&name)).unwrap();
        }
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The directory of the compiler that builds this, first in PATH.
fn path_with_compiler() -> std::ffi::OsString {
    let own = std::env::var_os("CARGO").map(PathBuf::from);
    let own = own.and_then(|cargo| cargo.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(own.into_iter().chain(std::env::split_paths(&path))).unwrap()
}

/// Covers: G6, G10.
#[test]
fn the_agent_edits_this_repository_and_runs_its_tests() {
    let place = Place::new(SCRIPT);
    copy(&repository(), &place.file(""));
    let before = place.read(MODULE);
    let task = "Add a test for comments to the parser of server-sent events, and run its tests.";
    let mut command = place.run(&["--permission", "all", task]);
    let ran: Ran = command.env("PATH", path_with_compiler()).output().unwrap().into();
    let expected = before.matches("#[test]").count() + 1;
    assert_eq!(ran.out, format!("All {expected} tests pass.\n"), "{}", ran.err);
    assert_eq!(ran.code, Some(0));
    let after = place.read(MODULE);
    assert!(after.contains("fn a_comment_is_no_event()"));
    assert_eq!(after.lines().count(), before.lines().count() + 5);
    assert_eq!(place.server.violations(), []);
    assert_eq!(
        place.story(),
        "user assistant done assistant done done assistant done done done assistant done \
         assistant | completed"
    );
    // The person sees the change and the command.
    assert!(ran.err.contains("+    fn a_comment_is_no_event() {"), "{}", ran.err);
    assert!(ran.err.contains("rustc --edition 2024 --test alone.rs"), "{}", ran.err);
}
