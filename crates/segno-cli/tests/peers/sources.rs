//! Which sessions an agent is given.
//!
//! Responsible for: the files of the corpus, each with what is done to it before. Must not: run anything.

use crate::ours::{LISTED, NATIVE};
use crate::root;
use segno_store::foreign::{Agent, recognise};
use std::fs;
use std::path::{Path, PathBuf};

/// A session, and what is done to it before the agent gets it.
pub(crate) struct Source {
    /// As in [`crate::report::PARTS`].
    pub(crate) part: &'static str,
    /// Whose it is.
    pub(crate) agent: Agent,
    /// Its name in the report.
    pub(crate) name: String,
    /// Empty for one that Segno makes.
    pub(crate) path: PathBuf,
}

impl Source {
    /// Whether the agent is told which session it is. Otherwise it has to be the newest of its own list.
    pub(crate) fn is_named(&self) -> bool {
        self.name != LISTED
    }
}

/// What is converted: sessions with calls and results, parallel ones among them, with summaries, and of each agent
/// one that was killed while a tool ran.
const CONVERTED: &[&str] = &[
    "claude/multi-turn-tools.jsonl",
    "claude/compacted.jsonl",
    "codex/multi-turn-tools.jsonl",
    "codex/compacted.jsonl",
    "gemini/multi-turn-tools.jsonl",
    "opencode/basic-tools.json",
    "pi/02-tool-calls.jsonl",
    "pi/07-auto-compaction-threshold.jsonl",
    "claude/killed-mid-tool.jsonl",
    "codex/killed-mid-tool-then-resumed.jsonl",
    "gemini/killed-mid-tool-then-resumed.jsonl",
    "opencode/sigkill-mid-tool-then-continue.json",
    "pi/10a-sigkill-mid-parallel-batch.jsonl",
];

/// What is gone on with in Segno and handed back: several turns with calls and results.
const BACK: &[&str] = &[
    "claude/multi-turn-tools.jsonl",
    "codex/multi-turn-tools.jsonl",
    "gemini/multi-turn-tools.jsonl",
    "opencode/basic-tools.json",
    "pi/02-tool-calls.jsonl",
];

/// Nothing can be resumed of these: long texts of the thread that the first was forked from were shortened in the
/// corpus, so that its offsets are past the end, and OpenCode itself exported nothing of the second.
const NOT_WHOLE: &[&str] = &["codex/forked.jsonl", "opencode/v2-session-v1-export.json"];

/// Everything for one agent.
pub(crate) fn all(target: Agent) -> Vec<Source> {
    let corpus = root().join("tests/corpus");
    let theirs = files(&corpus.join("foreign").join(target.id()), target);
    let (hurt, own): (Vec<_>, Vec<_>) = theirs.into_iter().partition(|path| is_hurt(path));
    let damaged = [hurt, files(&corpus.join("cases"), target)].concat();
    let killed = own.iter().filter(|path| target != Agent::OpenCode && is_killed(path));
    let repaired: Vec<_> = damaged.iter().chain(killed).cloned().collect();
    let mut all = Vec::new();
    for (part, paths) in [("own", &own), ("damaged", &damaged), ("repaired", &repaired)] {
        all.extend(paths.iter().map(|path| source(part, target, path)));
    }
    for name in CONVERTED {
        let path = corpus.join("foreign").join(name);
        let agent = recognise(&path).unwrap().agent;
        if agent != target {
            all.push(source("converted", agent, &path));
        }
    }
    for name in BACK {
        let path = corpus.join("foreign").join(name);
        if recognise(&path).unwrap().agent == target {
            all.push(source("handed-back", target, &path));
        }
    }
    all.extend(NATIVE.iter().map(|name| Source {
        part: "native",
        agent: target,
        name: (*name).to_owned(),
        path: PathBuf::new(),
    }));
    all
}

/// Whether its agent was killed, so that results may be missing.
fn is_killed(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["kill", "sigterm"].iter().any(|word| name.contains(word))
}

/// Whether it was damaged on purpose.
fn is_hurt(path: &Path) -> bool {
    path.to_string_lossy().contains("-derived-")
}

fn source(part: &'static str, agent: Agent, path: &Path) -> Source {
    let name = path.strip_prefix(root().join("tests/corpus")).unwrap().display().to_string();
    let name = name.replacen("foreign/", "", 1).replacen("cases/", "", 1);
    Source { part, agent, name, path: path.to_owned() }
}

/// The agent's files below a directory. Subagents and tables of databases are no sessions that one resumes.
fn files(dir: &Path, agent: Agent) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_file = name.ends_with(".jsonl") || name.ends_with(".json");
            let other = name.contains("subagent-child") || name.starts_with("agent-");
            if path.is_dir() && name != "subagents" && name != "expected" {
                todo.push(path);
            } else if is_file
                && !other
                && !NOT_WHOLE.iter().any(|name| path.ends_with(name))
                && recognise(&path).is_ok_and(|l| l.agent == agent)
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
