//! What real agents send when they resume sessions, held against our view of the same files.
//!
//! Responsible for: the runs, and what is told of them in `docs/interop.md`; and, without any agent, that our
//! view is still what they sent when that was noted (`tests/corpus/sent`). `cargo xtask peers` runs the former;
//! it says which agents there are. Must not: reach any network but loopback, or take part in CI.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod agents;
mod compare;
mod noted;
mod ours;
mod report;
mod runs;
mod sources;
mod why;

use agents::Installed;
use report::Report;
use sources::Source;
use std::path::PathBuf;

/// The repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A variable that `cargo xtask peers` set.
fn told(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
fn the_real_agents() {
    let Some(installed) = told("SEGNO_PEERS") else {
        // Not a test of CI: nothing is skipped that could be had there.
        return;
    };
    let installed: Vec<Installed> = installed.lines().map(Installed::parse).collect();
    let word = told("SEGNO_PEERS_CASE").unwrap_or_default();
    let mut report = Report::read(&root().join("docs/interop.md"));
    for agent in &installed {
        let all = sources::all(agent.agent);
        let named = |s: &&Source| format!("{}/{}", s.part, s.name).contains(&word);
        for source in all.iter().filter(named) {
            let row = runs::row(agent, source);
            println!("{} | {} | {} | {}", row.part, row.target, row.name, row.verdict);
            report.put(row);
            report.write(&installed);
        }
    }
}
