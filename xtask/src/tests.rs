//! Runs every test and adds up the totals.
//!
//! Responsible for: one command for all of them. Must not: select or skip tests.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// As `segno_testkit::SKIPS`; this program stands apart from what it builds.
const SKIPS: &str = "SEGNO_TEST_SKIPS";

#[derive(Default)]
struct Totals {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// Runs all tests of the workspace, with the proofs in the optimised build beside them.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let mut totals = Totals::default();
    let skips = std::env::temp_dir().join(format!("segno-skips-{}", std::process::id()));
    let all = ["test", "--workspace", "--locked", "--no-fail-fast"];
    if !cargo(root, &[&all[..], &["--no-run"]].concat(), &skips, &mut totals)? {
        return Err("the tests do not build".to_owned());
    }
    let beside = crate::proof::beside(root);
    let tests = cargo(root, &all, &skips, &mut totals);
    // One of those beside takes one core for minutes: these take the other.
    let mut proofs = crate::proof::processes(root);
    for (said, holds) in beside.join().unwrap_or_else(|_| vec![(String::new(), false)]) {
        crate::say(&said);
        proofs.push(holds);
    }
    let tests = tests?;
    totals.passed += proofs.iter().filter(|holds| **holds).count() as u64;
    totals.failed += proofs.iter().filter(|holds| !**holds).count() as u64;
    let embed =
        cargo(root, &["run", "--quiet", "--locked", "--example", "embed"], &skips, &mut totals)?;
    if embed {
        totals.passed += 1;
    } else {
        totals.failed += 1;
    }
    let skipped = skipped(&skips);
    for line in &skipped {
        crate::say(&format!("skipped: {line}"));
    }
    // For the runner they passed.
    totals.passed = totals.passed.saturating_sub(skipped.len() as u64);
    totals.ignored += skipped.len() as u64;
    let line =
        format!("{} passed, {} failed, {} skipped", totals.passed, totals.failed, totals.ignored);
    if tests && embed && totals.failed == 0 { Ok(line) } else { Err(line) }
}

/// The tests that said that they can tell nothing here, and why.
fn skipped(noted: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(noted).unwrap_or_default();
    let _ = std::fs::remove_file(noted);
    let lines: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    lines.into_iter().collect()
}

/// Runs cargo, passes its output on, and counts its result lines.
fn cargo(root: &Path, args: &[&str], skips: &Path, totals: &mut Totals) -> Result<bool, String> {
    let mut child = Command::new(env!("CARGO"))
        .args(args)
        .current_dir(root)
        .env(SKIPS, skips)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            crate::say(&line);
            count(&line, totals);
        }
    }
    child.wait().map(|status| status.success()).map_err(|e| e.to_string())
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`
fn count(line: &str, totals: &mut Totals) {
    let Some(rest) = line.strip_prefix("test result: ") else { return };
    for part in rest.split([';', '.']) {
        let mut words = part.split_whitespace();
        let (Some(number), Some(what)) = (words.next(), words.next()) else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match what {
            "passed" => totals.passed += number,
            "failed" => totals.failed += number,
            "ignored" => totals.ignored += number,
            _ => {}
        }
    }
}
