//! `docs/interop.md`: a row per run, kept from run to run.
//!
//! Responsible for: reading the rows that are there, putting new ones in their place, and writing the page.
//! Must not: judge.

use crate::agents::Installed;
use crate::runs::NOTHING;
use crate::{root, told, why};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What one run came to.
pub(crate) struct Row {
    /// Which part of the page: [`PARTS`].
    pub(crate) part: &'static str,
    /// Whose session it was.
    pub(crate) source: String,
    /// Who resumed it.
    pub(crate) target: String,
    /// The file.
    pub(crate) name: String,
    pub(crate) verdict: String,
}

/// The parts of the page, and what each tells.
pub(crate) const PARTS: [(&str, &str); 6] = [
    ("own", "Its own sessions, as it left them"),
    ("damaged", "Damaged and odd sessions, as they are"),
    ("repaired", "The same and those of killed agents, after `segno repair`"),
    ("converted", "Sessions of another agent, after `segno export --format … --install`"),
    ("native", "Segno's own sessions, after `segno export --format … --install`"),
    (
        "handed-back",
        "Its own sessions, gone on with in Segno, and handed back (`segno resume … --in`)",
    ),
];

pub(crate) struct Report {
    path: PathBuf,
    rows: BTreeMap<(usize, String, String, String), String>,
    /// Version and date, by agent.
    versions: BTreeMap<String, String>,
}

impl Report {
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut report =
            Self { path: path.to_owned(), rows: BTreeMap::new(), versions: BTreeMap::new() };
        let (mut part, mut is_head) = (None, true);
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                is_head = false;
                part = PARTS.iter().position(|(_, known)| *known == title);
            }
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            match (cells.as_slice(), part) {
                (["", first, ..], _) if matches!(*first, "target" | "agent" | "---") => {}
                (["", target, source, name, verdict, ""], Some(part)) => {
                    let key = [target, source, name].map(|cell| (*cell).to_owned());
                    let [target, source, name] = key;
                    report.rows.insert((part, target, source, name), (*verdict).to_owned());
                }
                (["", agent, version, date, ""], None) if is_head => {
                    let said = format!("{version} | {date}");
                    report.versions.insert((*agent).to_owned(), said);
                }
                _ => {}
            }
        }
        report
    }

    pub(crate) fn put(&mut self, row: Row) {
        let part = PARTS.iter().position(|(id, _)| *id == row.part).unwrap();
        let name = format!("`{}`", row.name);
        self.rows.insert((part, row.target, row.source, name), row.verdict);
    }

    pub(crate) fn write(&mut self, installed: &[Installed]) {
        let today = told("SEGNO_PEERS_TODAY").unwrap_or_default();
        for agent in installed {
            let name = agent.agent.id().to_owned();
            self.versions.insert(name, format!("{} | {today}", agent.version));
        }
        let mut page = HEAD.to_owned();
        for (agent, said) in &self.versions {
            page.push_str(&format!("| {agent} | {said} |\n"));
        }
        page.push_str(&self.pairs());
        page.push_str(&self.reasons());
        for (index, (_, title)) in PARTS.iter().enumerate() {
            page.push_str(&format!("\n## {title}\n\n"));
            let rows: Vec<_> = self.rows.iter().filter(|((part, ..), _)| *part == index).collect();
            if rows.is_empty() {
                page.push_str("Not run yet.\n");
                continue;
            }
            let good = rows.iter().filter(|(_, verdict)| verdict.starts_with("equal")).count();
            let run = rows.iter().filter(|(_, verdict)| *verdict != NOTHING).count();
            page.push_str(&format!("{good} of {run} equal.\n\n"));
            page.push_str("| target | source | file | what the agent sent |\n|---|---|---|---|\n");
            for ((_, target, source, name), verdict) in rows {
                page.push_str(&format!("| {target} | {source} | {name} | {verdict} |\n"));
            }
        }
        fs::write(&self.path, page).unwrap();
    }

    /// A table of whose sessions were resumed by whom.
    fn pairs(&self) -> String {
        let targets: BTreeSet<&str> = self.rows.keys().map(|(_, target, ..)| &**target).collect();
        let sources: BTreeSet<&str> = self.rows.keys().map(|(.., source, _)| &**source).collect();
        let heads: String = targets.iter().map(|target| format!(" {target} |")).collect();
        let mut text =
            format!("{PAIRS}| session of |{heads}\n|---|{}\n", "---|".repeat(targets.len()));
        for source in sources {
            text.push_str(&format!("| {source} |"));
            for target in &targets {
                let of_pair = |part: usize, t: &str, s: &str| {
                    !matches!(PARTS[part].0, "damaged" | "repaired") && t == *target && s == source
                };
                let rows = self.rows.iter().filter(|((part, t, s, _), _)| of_pair(*part, t, s));
                let verdicts: Vec<&str> = rows.map(|(_, verdict)| &**verdict).collect();
                let equal = verdicts.iter().filter(|v| v.starts_with("equal")).count();
                let other = verdicts.iter().filter(|v| v.starts_with("differs")).count();
                text.push_str(&format!(
                    " {} of {} resumed, {equal} equal |",
                    equal + other,
                    verdicts.len()
                ));
            }
            text.push('\n');
        }
        text
    }

    /// The rows that are not equal, each with the reason.
    fn reasons(&self) -> String {
        let mut text = REASONS.to_owned();
        for ((part, target, _, name), _) in self.rows.iter().filter(|(_, v)| is_unequal(v)) {
            let part = PARTS[*part].0;
            let why = why::of(part, target, name).unwrap_or("Not explained yet.");
            text.push_str(&format!("- {part}, {target}, {name}: {why}\n"));
        }
        text
    }
}

fn is_unequal(verdict: &str) -> bool {
    !verdict.starts_with("equal") && verdict != NOTHING
}

#[test]
fn the_page_says_why_each_row_differs_and_of_no_other() {
    let report = Report::read(&root().join("docs/interop.md"));
    let unequal = || report.rows.iter().filter(|(_, verdict)| is_unequal(verdict));
    for ((part, target, _, name), verdict) in unequal() {
        let why = why::of(PARTS[*part].0, target, name);
        assert!(why.is_some(), "no reason for {target} {name}: {verdict}");
    }
    for row in why::WHY {
        let is_of = |part: usize, target: &str, name: &str| row.is_of(PARTS[part].0, target, name);
        let found = unequal().any(|((part, target, _, name), _)| is_of(*part, target, name));
        assert!(found, "nothing differs any more at {}/{}", row.target, row.file);
    }
}

const HEAD: &str = "# What the real agents do with sessions

`cargo xtask peers` writes this page. It gets each agent from the package registries, gives it a home directory of its own
and a scripted model on loopback, lets it resume a session with one more prompt, and compares what it sends to the model with
what `segno show --context` has of the same file: texts, calls and results in order, without ids, reasoning, white space, and what
the agent adds by itself (its environment, reminders, words where a reply is missing). Segno's own sessions are made by `segno run` against the same kind of
model; what is handed back was gone on with in Segno for one turn with a call, and our view is that of Segno's session.

- `equal`: nothing is missing and nothing is there besides.
- `in other words`: the texts around summaries, what a summary keeps word for word, what stands in the place of lost or empty
  results and of unknown content, and calls by the names that the same tools have in another agent.
- `a provider refuses it`: rules of [the scripted model](protocol/scripted-model.md) that the agent's request breaks; it was
  answered all the same.

It is not part of CI. Where the two were equal, word for word, `tests/corpus/sent` holds what was sent, and a test in CI compares our
view with that; another one asks that each row that differs has its reason here.

| agent | version | date |
|---|---|---|
";

const PAIRS: &str = "
## Every pair

How many sessions of each agent (rows) every agent (columns) resumed, and of how many it sent what is in our view: its own
ones as it left them and handed back, those of others converted. What each sent is in the tables below.

";

const REASONS: &str = "
## Where they differ, and why

";
