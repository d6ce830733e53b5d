//! Sessions of Segno's own: made by its binary against a scripted model, or gone on with after another agent.
//!
//! Responsible for: saying what Segno is asked, what our view of the outcome is, and handing it over. Must not:
//! run an agent.

use crate::agents::Place;
use crate::compare::{Item, view};
use crate::runs::{Ready, segno};
use segno_model::Record;
use segno_model::context;
use segno_model::store::{Scanned, SessionStore as _};
use segno_store::foreign::{Agent, Roots, View, locate};
use segno_store::{FileStore, RealDisk};
use segno_testkit::scripted_model::ScriptedModel;
use std::fs;
use std::path::{Path, PathBuf};

/// Our sessions, as the report names them.
pub(crate) const NATIVE: &[&str] = &[TURNS, COMPACTED, LISTED];
const TURNS: &str = "several turns, parallel calls, an image, a subagent";
const COMPACTED: &str = "the same, compacted, and one turn more";
pub(crate) const LISTED: &str = "two turns, found by the agent as the newest of its own list";

const MODEL: &str = "anthropic/demo";

/// What the model says to Segno.
const SCRIPT: &str = r##"
lenient
auth off
rule summarise
  when user contains "<history>"
  say "<summary>\n## Goal\nto look after two files\n## Constraints\n## Decisions\n## Done\nboth were read\n## In progress\n## Next\n## Files\n## Open questions\n</summary>"
rule child
  when system contains "# Role"
  say "The scout counts two files."
rule parallel
  when last user
  when prompt contains "look around"
  say "I look at both."
  call read {"path": "a.txt"}
  call bash {"command": "cat b.txt"}
rule scout
  when last user
  when prompt contains "scout"
  call task {"agent": "scout", "prompt": "count the files"}
rule write
  when last user
  when prompt contains "note it"
  say "I write it down."
  call write {"path": "c.txt", "content": "two files\n"}
rule fail
  when last user
  when prompt contains "try"
  call bash {"command": "exit 3"}
rule back
  when last user
  when prompt contains "in Segno"
  say "Segno looks."
  call bash {"command": "echo seen by Segno"}
rule told
  when last results
  say "It says: {result_line}"
otherwise
  say "Yes."
"##;

/// One that leaves room for a short session's summary.
const CONFIG: &str = "[models.\"anthropic/demo\"]\ncontext = 40000\noutput = 4000\n";

const SCOUT: &str = "---\nname: scout\ndescription: it scouts\n---\nYou scout.\n";

/// A session of ours, installed for an agent, and our view of it.
pub(crate) type HandedOver = (Vec<Item>, Ready);

/// Makes one of [`NATIVE`] and exports it.
pub(crate) fn native(place: &Place, target: Agent, name: &str) -> Result<HandedOver, String> {
    let model = ScriptedModel::start(SCRIPT).unwrap();
    let url = model.url();
    files(place);
    let ask = |more: &[&str]| {
        let fixed = ["run", "--model", MODEL, "--base-url", &url, "--permission", "all"];
        segno(place, &[&fixed[..], more].concat())
    };
    ask(&["look around"])?;
    let more: &[&str] = match name {
        LISTED => &["note it"],
        _ => &["what is in @a.png ?", "let the scout count", "try something", "note it"],
    };
    for prompt in more {
        ask(&["--continue", prompt])?;
    }
    if name == COMPACTED {
        segno(place, &["compact", "last", "--base-url", &url])?;
        ask(&["--continue", "look around again"])?;
    }
    let ours = last(place)?;
    if target != Agent::OpenCode {
        segno(place, &["export", "last", "--format", target.id(), "--install", "--yes"])?;
    }
    handed_over(place, target, ours)
}

/// Goes on with another agent's session for one turn, and hands it back.
pub(crate) fn back(place: &Place, target: Agent, file: &Path) -> Result<HandedOver, String> {
    let model = ScriptedModel::start(SCRIPT).unwrap();
    let (file, url) = (file.display().to_string(), model.url());
    let here = ["resume", &file, "--here", "--model", MODEL, "--base-url", &url];
    let turn = ["--permission", "all", "--", "go on in Segno"];
    segno(place, &[&here[..], &turn].concat())?;
    let ours = last(place)?;
    if !ours.iter().any(|item| item.text.contains("It says: seen by Segno")) {
        return Err("Segno did not go on with it".to_owned());
    }
    handed_over(place, target, ours)
}

/// What Segno works on.
fn files(place: &Place) {
    let project = place.project();
    fs::create_dir_all(project.join(".segno/agents")).unwrap();
    fs::write(project.join(".segno/agents/scout.md"), SCOUT).unwrap();
    fs::write(project.join("a.txt"), "alpha\n").unwrap();
    fs::write(project.join("b.txt"), "beta\n").unwrap();
    image::RgbImage::new(1, 1).save(project.join("a.png")).unwrap();
    fs::create_dir_all(place.file("segno")).unwrap();
    fs::write(place.file("segno").join("config.toml"), CONFIG).unwrap();
}

/// Our view of the only session.
fn last(place: &Place) -> Result<Vec<Item>, String> {
    let store = FileStore::new(RealDisk, place.file("segno"));
    let mut records: Vec<Record> = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let listed = store.list().await.map_err(|e| e.to_string())?;
        let session = listed.first().ok_or("Segno has no session")?;
        let mut visit = |item| {
            if let Scanned::Record(record) = item {
                records.push(*record);
            }
            true
        };
        store.scan(&session.id, &mut visit).await.map_err(|e| e.to_string())
    })?;
    let tip = records.iter().rfind(|record| record.is_node()).map(Record::pos);
    Ok(view(&context::build(&records, tip)))
}

/// `segno resume last --in AGENT --print`, and what it says.
fn handed_over(place: &Place, target: Agent, ours: Vec<Item>) -> Result<HandedOver, String> {
    let line = segno(place, &["resume", "last", "--in", target.id(), "--print"])?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let id = words.last().map(|word| word.trim_matches('\'')).unwrap_or_default().to_owned();
    let behind_import = words.windows(2).filter(|pair| pair[0] == "import");
    let mut imports = behind_import.map(|pair| PathBuf::from(pair[1].trim_matches('\'')));
    let path = match target {
        Agent::OpenCode => imports.next().ok_or("no import is printed")?,
        Agent::Pi => PathBuf::from(&id),
        _ => {
            let (found, _) = locate(&Roots { home: place.home(), ..Roots::default() });
            let is_it = |path: &Path, agent| {
                agent == target && path.to_string_lossy().contains(id.get(..8).unwrap_or(&id))
            };
            let mut found = found.into_iter().filter(|s| is_it(&s.path, s.agent));
            let has_id = |s: &segno_store::foreign::Located| {
                View::transcript(s).is_ok_and(|view| view.facts.id.as_deref() == Some(&id))
            };
            found.find(has_id).ok_or("nothing is where the agent looks")?.path
        }
    };
    Ok((ours, Ready { id, path, children: imports.collect() }))
}
