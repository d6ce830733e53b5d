//! Which crate may use which.
//!
//! Responsible for: the one list of allowed directions, and checking it against the manifests. Must
//! not: be relaxed without a page in `docs/decisions/`.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A crate, what it may use in shipped code, and what else its tests and examples may use.
const ALLOWED: &[(&str, &[&str], &[&str])] = &[
    ("segno-model", &[], &[]),
    ("segno-store", &["segno-model"], &["segno-testkit"]),
    ("segno-runtime", &["segno-model"], &["segno-store", "segno-testkit"]),
    ("segno-agent", &["segno-model", "segno-runtime"], &["segno-testkit"]),
    // Test equipment, and the scripted model server of `segno demo`.
    ("segno-testkit", &["segno-model", "segno-store"], &[]),
    (
        "segno-cli",
        &["segno-model", "segno-store", "segno-runtime", "segno-agent", "segno-testkit"],
        &[],
    ),
    ("xtask", &[], &[]),
];

/// All that the crates which must stay free of I/O, clocks, providers and stores may use of others.
const NOTHING_ELSE: &[(&str, &[&str])] = &[
    (
        "segno-model",
        &[
            "crc32fast",
            "jiff",
            "memchr",
            "serde",
            "serde_json",
            "sha2",
            "thiserror",
            "unicode-segmentation",
        ],
    ),
    ("segno-runtime", &["base64", "futures-util", "imagesize", "serde_json", "thiserror", "tokio"]),
];

/// What `cargo run` without a name means; the README says so.
const RUN_BY_DEFAULT: &str = "segno";

/// Gives one line per violation.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .map_err(|e| e.to_string())?;
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let mut found: Vec<String> = packages.iter().flat_map(violations).collect();
    let defaults: Vec<&str> = packages.iter().filter_map(|p| p["default_run"].as_str()).collect();
    if defaults != [RUN_BY_DEFAULT] {
        found.push(format!("`cargo run` means {defaults:?} and not {RUN_BY_DEFAULT}"));
    }
    Ok(found)
}

fn violations(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, shipped, tests)) = ALLOWED.iter().find(|(known, ..)| *known == name) else {
        return vec![format!("{name}: not in the list of crates (xtask/src/direction.rs)")];
    };
    let only = NOTHING_ELSE.iter().find(|(known, _)| *known == name).map(|(_, only)| *only);
    let mut found = Vec::new();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let used = dependency["name"].as_str().unwrap_or_default();
        let for_tests = dependency["kind"] == "dev";
        let allowed = if used.starts_with("segno-") {
            shipped.contains(&used) || (for_tests && tests.contains(&used))
        } else {
            for_tests || only.is_none_or(|only| only.contains(&used))
        };
        if !allowed {
            let whose = if for_tests { "the tests of " } else { "" };
            found.push(format!("{whose}{name} must not use {used}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::violations;
    use serde_json::json;

    #[test]
    fn what_a_crate_may_use() {
        let rows = [
            ("segno-store", "segno-model", json!(null), ""),
            ("segno-model", "segno-store", json!(null), "segno-model must not use segno-store"),
            ("segno-model", "segno-testkit", json!("dev"), "the tests of segno-model must not"),
            ("segno-runtime", "segno-store", json!("dev"), ""),
            ("segno-runtime", "segno-store", json!("build"), "segno-runtime must not use"),
            ("segno-agent", "segno-store", json!("dev"), "the tests of segno-agent must not"),
            ("segno-model", "uuid", json!(null), "segno-model must not use uuid"),
            ("segno-model", "proptest", json!("dev"), ""),
            ("segno-store", "rusqlite", json!(null), ""),
            ("segno-utils", "serde", json!(null), "not in the list of crates"),
        ];
        for (name, used, kind, expected) in rows {
            let dependency = json!({"name": used, "kind": kind});
            let found = violations(&json!({"name": name, "dependencies": [dependency]})).join("\n");
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{found}");
        }
    }
}
