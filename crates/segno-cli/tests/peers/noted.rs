//! What agents sent, noted in the corpus, and our view of the same files now.
//!
//! Responsible for: writing a note when the two are equal, and comparing without any agent. Must not: note
//! what differs; `docs/interop.md` tells of that.

use crate::compare::{Item, view};
use crate::root;
use segno_store::foreign::{View, recognise};
use serde::{Deserialize, Serialize};
use std::fs;

#[derive(Serialize, Deserialize)]
struct Note {
    /// The agent and its version.
    agent: String,
    /// The file, below the repository.
    file: String,
    /// What it sent of it, without the new prompt.
    sent: Vec<Item>,
}

/// Notes what an agent sent of a file.
pub(crate) fn note(agent: &str, version: &str, file: &str, sent: &[Item]) {
    let name = file.trim_start_matches("tests/corpus/").replace('/', "-");
    let dir = root().join("tests/corpus/sent");
    fs::create_dir_all(&dir).unwrap();
    let note =
        Note { agent: format!("{agent} {version}"), file: file.to_owned(), sent: sent.to_vec() };
    let text = serde_json::to_string_pretty(&note).unwrap();
    let stem = name.trim_end_matches(".jsonl").trim_end_matches(".json");
    fs::write(dir.join(format!("{stem}.json")), text + "\n").unwrap();
}

/// Covers: G6, G10.
#[test]
fn our_view_is_what_the_agents_sent() {
    let dir = root().join("tests/corpus/sent");
    let mut seen = 0;
    for entry in fs::read_dir(&dir).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let note: Note = serde_json::from_str(&text).unwrap();
        let located = recognise(&root().join(&note.file)).unwrap();
        let ours = view(&View::active(&located).unwrap().context());
        assert_eq!(ours, note.sent, "{} of {}", note.file, note.agent);
        seen += 1;
    }
    assert!(seen > 0, "no note in {}", dir.display());
}
