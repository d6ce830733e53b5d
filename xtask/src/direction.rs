//! Which crate may use which.
//!
//! Responsible for: the one list of allowed directions, and checking it against the manifests. Must
//! not: be relaxed without a page in `docs/decisions/`.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A crate and what it may use in shipped code.
const ALLOWED: &[(&str, &[&str])] = &[
    ("segno-model", &[]),
    ("segno-store", &["segno-model"]),
    ("segno-runtime", &["segno-model"]),
    ("segno-agent", &["segno-model", "segno-runtime"]),
    // Test equipment, and the scripted model server of `segno demo`.
    ("segno-testkit", &["segno-model", "segno-store"]),
    ("segno-cli", &["segno-model", "segno-store", "segno-runtime", "segno-agent", "segno-testkit"]),
    ("xtask", &[]),
];

/// Crates that the model must stay free of: I/O, clock, randomness, async runtimes.
const NOT_IN_MODEL: &[&str] = &["tokio", "rusqlite", "reqwest", "rand", "uuid", "rustix"];

/// Gives one line per violation.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|e| e.to_string())?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    Ok(packages.iter().flat_map(violations).collect())
}

fn violations(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let used: Vec<&str> = package["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|d| d["kind"].is_null())
        .filter_map(|d| d["name"].as_str())
        .collect();
    let Some((_, allowed)) = ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) else {
        return vec![format!("{name}: not in the list of crates (xtask/src/direction.rs)")];
    };
    let mut found: Vec<String> = used
        .iter()
        .filter(|used| used.starts_with("segno-") && !allowed.contains(used))
        .map(|used| format!("{name} must not use {used}"))
        .collect();
    if name == "segno-model" {
        let heavy = used.iter().filter(|used| NOT_IN_MODEL.contains(used));
        found.extend(heavy.map(|used| format!("segno-model must not use {used}")));
    }
    found
}
