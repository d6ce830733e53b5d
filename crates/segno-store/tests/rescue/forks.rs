//! Codex's forks, which name what they continue.

use crate::bench::{corpus, keeps_its_promises};
use segno_store::foreign::{Located, recognise};
use segno_store::rescue;
use serde_json::Value;
use std::fs;
use std::path::Path;

const FORK: &str = "01a2290d-7f37-7fb0-a527-3fdd6b3a1e4b";
const ORIGINAL: &str = "01a2290d-7a18-7f11-a711-baa7ed59e765";

/// A fixture where Codex keeps its sessions.
fn put(home: &Path, name: &str, id: &str) -> Located {
    let folder = home.join(".codex/sessions/2026/11/29");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(format!("rollout-2026-11-29T20-44-40-{id}.jsonl"));
    fs::copy(corpus(&format!("foreign/codex/{name}.jsonl")), &path).expect("in the corpus");
    recognise(&path).expect("it is known")
}

fn rows(bytes: &[u8]) -> Vec<Value> {
    let lines = bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).expect("JSON")).collect()
}

/// Covers: G14, #130. Codex refuses a fork whose original is nowhere: what is in the fork itself opens without it.
#[test]
fn a_fork_whose_original_is_gone_begins_with_itself() {
    let home = tempfile::tempdir().expect("a folder");
    let fork = put(home.path(), "forked", FORK);
    let before = fs::read(&fork.path).expect("it is there");
    let result = keeps_its_promises(&fork, &before, "a fork alone").expect("it reads");
    assert_eq!(result.changes[0], "lost-base@1");
    let after = rows(&result.bytes);
    assert_eq!(after[0]["payload"]["history_base"], Value::Null);
    let numbers: Vec<u64> = after.iter().filter_map(|row| row["ordinal"].as_u64()).collect();
    assert_eq!(numbers, (0..after.len() as u64).collect::<Vec<_>>());
    for (old, new) in rows(&before).iter().zip(&after).skip(1) {
        assert_eq!(old["payload"], new["payload"], "all that was said stays");
    }
}

/// Nothing is cut from a fork whose original is there.
#[test]
fn a_fork_beside_its_original_stays_as_it_is() {
    let home = tempfile::tempdir().expect("a folder");
    put(home.path(), "multi-turn-tools", ORIGINAL);
    let fork = put(home.path(), "forked", FORK);
    let plan = rescue::plan(&fork).expect("it reads");
    assert!(plan.is_empty(), "{:?}", plan.changes);
}
