//! One run: a session is made ready, resumed, and what was sent is compared.
//!
//! Responsible for: the order of it. Must not: know how an agent is run or what a page looks like.

use crate::agents::{Ended, Installed, Model, Place};
use crate::compare::{Item, brief, differ, sent, view};
use crate::report::Row;
use crate::root;
use crate::sources::Source;
use crate::{noted, ours};
use segno_store::foreign::{Agent, Roots, View, locate, recognise};
use segno_testkit::scripted_model::{Recorded, ScriptedModel, Seen, Turn};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the agent is asked when it has resumed a session.
const PROMPT: &str = "PEERS: go on";

const SCRIPT: &str = "lenient\nauth off\notherwise\n  say \"I go on.\"\n";

/// A session that the agent can be told to resume.
pub(crate) struct Ready {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    /// What is imported besides.
    pub(crate) children: Vec<PathBuf>,
}

/// A session that is ready, and what is known of it.
struct Prepared {
    /// Our view.
    ours: Vec<Item>,
    ready: Ready,
    /// The project, and the working directory whose place it took.
    back: Option<(String, String)>,
}

/// Runs a source and says what came of it.
pub(crate) fn row(installed: &Installed, source: &Source) -> Row {
    let verdict = verdict(installed, source).unwrap_or_else(|why| why);
    Row {
        part: source.part,
        source: match source.part {
            "native" => "segno".to_owned(),
            _ => source.agent.id().to_owned(),
        },
        target: installed.agent.id().to_owned(),
        name: source.name.clone(),
        verdict,
    }
}

fn prepared(place: &Place, target: Agent, source: &Source) -> Result<Prepared, String> {
    if source.part == "native" {
        let (ours, ready) = ours::native(place, target, &source.name)?;
        return Ok(Prepared { ours, ready, back: None });
    }
    let project = place.project();
    let moves = matches!(source.part, "converted" | "handed-back");
    let Adapted { id, text, cwd } = adapted(&source.path, &project, moves);
    let id = id.ok_or("our reader finds no id in it")?;
    let file = place.file(&format!("original/{}", file_name(&source.path)));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, &text).unwrap();
    if source.part == "handed-back" {
        let (ours, ready) = ours::back(place, target, &file)?;
        return Ok(Prepared { ours, ready, back: None });
    }
    let located = recognise(&file).map_err(|e| format!("our reader: {e}"))?;
    let ours = View::active(&located).map_err(|e| format!("our reader: {e}"))?;
    let ours = view(&ours.context());
    if target == Agent::Codex && source.part != "converted" {
        companions(place, &source.path, &id);
    }
    let ready = match source.part {
        "converted" => converted(place, target, &file)?,
        "repaired" => repaired(place, target, &file, id)?,
        _ => Ready { path: place.put(target, &id, &text), id, children: Vec::new() },
    };
    let back = cwd.map(|cwd| (project.display().to_string(), cwd));
    Ok(Prepared { ours, ready, back })
}

fn verdict(installed: &Installed, source: &Source) -> Result<String, String> {
    let server = ScriptedModel::start(SCRIPT).unwrap();
    let place = Place::new(&server.url());
    let Prepared { ours, ready, back } = prepared(&place, installed.agent, source)?;
    let before = fs::read(&ready.path).unwrap_or_default();
    let model = model_of(installed.agent, &before);
    place.configure(installed.agent, &model);
    for path in std::iter::once(&ready.path).chain(&ready.children) {
        let imported = place.import(installed, path);
        if let Some(ended) = imported.filter(|ended| ended.code != Some(0)) {
            return Err(format!("not imported: {}", last_line(&ended)));
        }
    }
    let named = source.is_named().then_some((&*ready.id, &*ready.path));
    let ended = place.resume(installed, named, (&model, PROMPT));
    let requests = server.requests();
    let _ = fs::write(place.file("requests.json"), bodies(&requests));
    place.keep(&format!(
        "{}/{}/{}",
        installed.agent.id(),
        source.part,
        source.name.replace('/', "-")
    ));
    let asked = requests.iter().rfind(|r| is_ours(r, Seen::last_user_text));
    // Something else may have been said since: OpenCode compacts, and tells the model to continue.
    let asked = asked.or_else(|| requests.iter().rfind(|r| is_ours(r, all_said)));
    let Some(asked) = asked else {
        return Err(format!("nothing sent: {}", last_line(&ended)));
    };
    let theirs = sent(asked.seen.as_ref().unwrap());
    let difference = differ(&ours, &theirs, PROMPT);
    let mut said = difference.verdict();
    let is_equal = difference.is_equal() && difference.reworded == 0;
    // Whose signatures another fake model made nobody can tell here.
    let rules = asked.violations.iter().map(|v| v.rule).filter(|rule| *rule != "foreign-signature");
    let rules: BTreeSet<&str> = rules.collect();
    if !rules.is_empty() {
        let rules: Vec<&str> = rules.into_iter().collect();
        said = format!("{said}; a provider refuses it: {}", rules.join(", "));
    }
    let after = fs::read(&ready.path).unwrap_or_default();
    if installed.agent != Agent::OpenCode && !after.starts_with(&before) {
        said += "; its file was rewritten";
    }
    if ended.code != Some(0) {
        said = format!("{said}; {}", last_line(&ended));
    }
    if is_equal && matches!(source.part, "own" | "damaged") {
        let file = source.path.strip_prefix(root()).unwrap().display().to_string();
        let original = ours.iter().map(|item| match &back {
            Some((project, cwd)) => Item { text: item.text.replace(project, cwd), ..item.clone() },
            None => item.clone(),
        });
        let sent: Vec<Item> = original.collect();
        noted::note(installed.agent.id(), &installed.version, &file, &sent);
    }
    Ok(said)
}

fn all_said(seen: &Seen) -> String {
    seen.turns.iter().map(Turn::text).collect()
}

/// A request of the conversation, and not one for a title or the like; the prompt is in this `part` of it.
fn is_ours(request: &Recorded, part: impl Fn(&Seen) -> String) -> bool {
    let seen = request.seen.as_ref();
    seen.is_some_and(|seen| !seen.tools.is_empty() && part(seen).contains(PROMPT))
}

fn bodies(requests: &[Recorded]) -> String {
    let bodies: Vec<&Value> = requests.iter().map(|r| &*r.body).collect();
    serde_json::to_string_pretty(&bodies).unwrap()
}

/// A file for this project.
struct Adapted {
    id: Option<String>,
    text: Vec<u8>,
    /// The working directory that the project took the place of.
    cwd: Option<String>,
}

/// The session's working directory becomes the project: agents list, and some resume, only what is theirs.
fn adapted(path: &Path, project: &Path, always: bool) -> Adapted {
    let text = fs::read(path).unwrap();
    let located = recognise(path);
    let view = located.as_ref().ok().and_then(|located| View::transcript(located).ok());
    let facts = view.map(|view| view.facts).unwrap_or_default();
    // Codex does not ask, and its forks name bytes of the file that they were forked from.
    let stays = !always && located.as_ref().is_ok_and(|l| l.agent == Agent::Codex);
    let cwd = facts.cwd.filter(|cwd| cwd.len() > 1 && !stays);
    let text = match &cwd {
        Some(cwd) => {
            let (old, new) = (within_json(cwd), within_json(&project.display().to_string()));
            replaced(&text, old.as_bytes(), new.as_bytes())
        }
        None => text,
    };
    Adapted { id: facts.id, text, cwd }
}

/// As it stands between quotes.
fn within_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        if text[at..].starts_with(old) {
            out.extend_from_slice(new);
            at += old.len();
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// A forked thread is read together with the one that it was forked from.
fn companions(place: &Place, path: &Path, id: &str) {
    for entry in fs::read_dir(path.parent().unwrap()).unwrap().flatten() {
        let other = entry.path();
        if other == path || other.extension().is_none_or(|e| e != "jsonl") {
            continue;
        }
        let adapted = adapted(&other, &place.project(), false);
        if let Some(other) = adapted.id.filter(|other| other != id) {
            place.put(Agent::Codex, &other, &adapted.text);
        }
    }
}

/// The provider and the model that an agent is to ask: those of the session, where it keeps to them or, as
/// OpenCode, sends another model's reasoning as text.
fn model_of(agent: Agent, text: &[u8]) -> Model {
    let text = String::from_utf8_lossy(text);
    let value = |key: &str| {
        let after = text.split(&format!("\"{key}\":")).nth(1)?;
        after.trim_start().strip_prefix('"')?.split('"').next().map(str::to_owned)
    };
    let scripted = || "scripted".to_owned();
    match agent {
        Agent::Codex => {
            Model { provider: value("model_provider").unwrap_or_else(scripted), id: scripted() }
        }
        // That of the corpus. Others have addresses of their own.
        Agent::OpenCode if value("providerID").as_deref() == Some("fake") => {
            Model { provider: "fake".to_owned(), id: value("modelID").unwrap_or_else(scripted) }
        }
        _ => Model { provider: scripted(), id: scripted() },
    }
}

/// `segno` with these words, at the place's home.
pub(crate) fn segno(place: &Place, args: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_segno"))
        .args(args)
        .current_dir(place.project())
        .env("HOME", place.home())
        .env("SEGNO_HOME", place.file("segno"))
        .env("ANTHROPIC_API_KEY", "k")
        .stdin(Stdio::null())
        .env_remove("CODEX_HOME")
        .env_remove("CLAUDE_CONFIG_DIR")
        .output()
        .map_err(|e| e.to_string())?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() {
        return Ok(out);
    }
    let line = err.lines().chain(out.lines()).find(|line| !line.trim().is_empty());
    Err(format!("`segno {}` fails: {}", args[0], brief(line.unwrap_or_default())))
}

/// Nothing is written where nothing is wrong.
pub(crate) const NOTHING: &str = "nothing to repair";

fn repaired(place: &Place, agent: Agent, file: &Path, id: String) -> Result<Ready, String> {
    let to = place.file("repaired");
    let (from, out) = (file.display().to_string(), to.display().to_string());
    segno(place, &["repair", &from, "-o", &out, "--yes"])?;
    let text = fs::read(&to).map_err(|_| NOTHING.to_owned())?;
    Ok(Ready { path: place.put(agent, &id, &text), id, children: Vec::new() })
}

fn converted(place: &Place, agent: Agent, file: &Path) -> Result<Ready, String> {
    let from = file.display().to_string();
    let export = ["export", &from, "--format", agent.id()];
    if agent == Agent::OpenCode {
        let path = place.file("import.json");
        let to = path.display().to_string();
        segno(place, &[&export[..], &["-o", &to]].concat())?;
        let text = fs::read(&path).map_err(|e| e.to_string())?;
        let said: Value = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        let id = said["info"]["id"].as_str().unwrap_or_default().to_owned();
        return Ok(Ready { id, path, children: Vec::new() });
    }
    segno(place, &[&export[..], &["--install", "--yes"]].concat())?;
    let (found, _) = locate(&Roots { home: place.home(), ..Roots::default() });
    let session = found.into_iter().find(|session| session.agent == agent);
    let session = session.ok_or("nothing is where the agent looks")?;
    let facts = View::transcript(&session).map_err(|e| e.to_string())?.facts;
    Ok(Ready { id: facts.id.unwrap_or_default(), path: session.path, children: Vec::new() })
}

/// What an agent said last.
fn last_line(ended: &Ended) -> String {
    let code = ended.code.map_or("time limit".to_owned(), |code| format!("exit {code}"));
    let telling = |line: &&str| {
        let lower = line.to_lowercase();
        ["error", "fail", "not found", "no conversation", "invalid"]
            .iter()
            .any(|w| lower.contains(w))
    };
    let lines: Vec<&str> = ended.said.lines().filter(|line| !line.trim().is_empty()).collect();
    let line = lines.iter().copied().rfind(telling).or(lines.last().copied());
    let line = line.unwrap_or_default();
    let words: String = line
        .rsplit(": ")
        .take(2)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .collect::<Vec<_>>()
        .join(": ");
    format!("{code}: “{}”", brief(&words))
}
