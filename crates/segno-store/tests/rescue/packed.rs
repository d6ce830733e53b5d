//! Codex's packed rollouts, repaired into plain ones.

use crate::bench::{corpus, repaired, session};
use segno_store::foreign::{Agent, Located, Roots, View, recognise};
use segno_store::rescue::{self, RescueError};
use segno_testkit::zstd;
use std::fs;
use std::path::PathBuf;

const ID: &str = "019c0000-000f-7000-8000-00000000000f";
const CASE: &str = "cases/15-orphan-call-tail/rollout-2026-03-02T09-00-00-019c0000-000f-7000-8000-00000000000f.jsonl";

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn sessions(&self) -> PathBuf {
        self.folder.path().join(".codex/sessions/2026/03/02")
    }

    fn put(&self, bytes: &[u8]) -> Located {
        fs::create_dir_all(self.sessions()).expect("a folder");
        let path = self.sessions().join(format!("rollout-2026-03-02T09-00-00-{ID}.jsonl.zst"));
        fs::write(&path, bytes).expect("a file");
        recognise(&path).expect("it is known")
    }
}

/// Covers: #32, G14.
#[test]
fn packed_files_are_repaired_into_plain_ones_and_never_in_place() {
    let text = fs::read(corpus(CASE)).expect("it is in the corpus");
    let Some(bytes) = zstd(&text, "-3") else { return segno_testkit::skipped("zstd is not there") };
    let plain = repaired(&session(CASE)).expect("it reads");
    let home = Home::new();
    let located = home.put(&bytes);
    let plan = rescue::plan(&located).expect("it reads");
    let (mut result, mut aside) = (Vec::new(), Vec::new());
    plan.write(&mut result, &mut aside, None).expect("it is written");
    assert_eq!(result, plain.bytes);
    assert!(aside.is_empty());
    assert!(matches!(plan.in_place(&|| None), Err(RescueError::Packed { .. })));
    let roots = Roots { home: home.folder.path().to_owned(), ..Roots::default() };
    let placed = plan.install(&roots).expect("it is put beside it");
    let name = placed.file.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(name.starts_with("rollout-2026-03-02T09-00-00-") && name.ends_with(".jsonl"), "{name}");
    let copy = recognise(&placed.file).expect("it is known");
    assert!(rescue::plan(&copy).expect("it reads").is_empty());
    assert_eq!(fs::read(&located.path).expect("it is there"), bytes, "the file is as it was");
}

/// A file that is broken or ends early: all that can be unpacked is kept, and that is said.
#[test]
fn torn_packed_files_keep_what_can_be_unpacked() {
    let text = fs::read(corpus("foreign/codex/multi-turn-tools.jsonl")).expect("in the corpus");
    let Some(bytes) = zstd(&text, "-3") else { return segno_testkit::skipped("zstd is not there") };
    let home = Home::new();
    assert!(
        rescue::plan(&home.put(&bytes)).expect("it reads").is_empty(),
        "a whole one needs none"
    );
    // Two frames, of which the second is cut.
    let cut = memchr::memrchr(b'\n', &text[..text.len() / 2]).expect("a line") + 1;
    let mut torn = zstd(&text[..cut], "-3").expect("zstd");
    torn.extend(&zstd(&text[cut..], "-3").expect("zstd")[..40]);
    let located = home.put(&torn);
    assert_eq!(located.agent, Agent::Codex);
    let before = View::transcript(&located).expect("it reads");
    let result = repaired_packed(&located);
    assert!(result.1.iter().any(|change| change == "torn-archive"), "{:?}", result.1);
    assert!(text.starts_with(&result.0[..cut]));
    let path = home.sessions().join(format!("rollout-2026-03-02T09-00-01-{ID}.jsonl"));
    fs::write(&path, &result.0).expect("a file");
    let after = View::transcript(&recognise(&path).expect("it is known")).expect("it reads");
    assert!(after.records.len() >= before.records.len());
    assert!(after.findings.iter().all(|found| found.code != "torn-archive"));
}

fn repaired_packed(located: &Located) -> (Vec<u8>, Vec<String>) {
    let plan = rescue::plan(located).expect("it reads");
    let (mut result, mut aside) = (Vec::new(), Vec::new());
    plan.write(&mut result, &mut aside, None).expect("it is written");
    (result, plan.changes.iter().map(|change| change.rule.to_owned()).collect())
}
