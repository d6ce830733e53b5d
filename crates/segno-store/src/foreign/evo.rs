//! evo-agent's sessions.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.
//!
//! `PROJECT/.evo-agent/sessions/MS_HEX/messages.jsonl`, beside it `meta.json` (a list entry, never needed)
//! and `subagent/MS_SLUG_HEX.jsonl`. The shape is that of the Go struct `Record` in evo-agent's package
//! `internal/session`; messages are Anthropic's `MessageParam`. The files in the corpus are constructed
//! from it.
//!
//! Traps: the newline is a second write, so that a crash fuses two records. A summary may be empty, and
//! evo then forgets everything before it; here it stays. A resumed session does not hold what it resumed:
//! the marker names the other session. A subagent's result is written between its call and the call's
//! result, which holds it again. The model is not recorded. A subagent's file carries the parent's session
//! id: its own is the file's name.

use super::agent::Agent;
use super::blocks::{Part, reply, user_parts};
use super::chain::Chain;
use super::emitter::{Emitter, Meta};
use super::input::{ForeignError, Head};
use super::item::Fact;
use super::lines::{Lines, Object};
use super::locate::{Located, Roots, files_below};
use super::mend::Mended;
use segno_model::finding::Severity;
use segno_model::record::{AssistantMessage, Block, Child, ChildState, ModelRef, Task, Usage};
use segno_model::{Body, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::ffi::OsStr;
use std::path::Path;

const MAIN: &str = "messages.jsonl";

/// The types of evo-agent's records.
const KINDS: [&str; 10] = [
    "session_start",
    "user",
    "assistant",
    "compact_boundary",
    "resume_marker",
    "subagent_start",
    "subagent_end",
    "goal_set",
    "goal_cleared",
    "goal_achieved",
];

/// Whether a file is one of evo-agent's, by its beginning.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    head.objects().take(8).any(|row| {
        let kind = row.get("type").and_then(|kind| kind.as_str()).unwrap_or_default();
        KINDS.contains(&kind)
            && ["agent_version", "session_id", "timestamp"].iter().all(|key| row.get(key).is_some())
    })
}

/// All sessions under `roots`.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    for place in roots.places() {
        let sessions = place.join(".evo-agent/sessions");
        files_below(&sessions, ".jsonl", 2, failed, &mut |path, meta| {
            let main = path.file_name() == Some(OsStr::new(MAIN));
            let (id, parent) = names(&path);
            if main || parent.is_some() {
                found.push(Located { id, parent, ..Located::file(Agent::Evo, path, &meta) });
            }
        });
    }
}

/// A session's id and its parent's, from the place.
fn names(path: &Path) -> (Option<String>, Option<String>) {
    let name = |path: &Path| path.file_name().and_then(OsStr::to_str).map(str::to_owned);
    let folder = path.parent();
    if path.file_name() == Some(OsStr::new(MAIN)) {
        return (folder.and_then(name), None);
    }
    let stem = path.file_stem().and_then(OsStr::to_str).map(str::to_owned);
    let of_subagents = folder.filter(|folder| folder.file_name() == Some(OsStr::new("subagent")));
    (stem, of_subagents.and_then(Path::parent).and_then(name))
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(rename = "type")]
    kind: String,
    timestamp: Option<String>,
    agent_version: Option<String>,
    session_id: Option<String>,
    cwd: Option<String>,
    git_branch: Option<String>,
    #[serde(borrow)]
    message: Option<Said<'a>>,
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    summary: Option<String>,
    from_session_id: Option<String>,
    agent_name: Option<String>,
    subagent_path: Option<String>,
    result: Option<String>,
    goal_text: Option<String>,
}

#[derive(Deserialize)]
struct Said<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let (id, parent) = names(&session.path);
    let mut reader = Reader { parent, ..Reader::default() };
    if reader.parent.is_some()
        && let Some(id) = id
    {
        out.fact(Fact::Id(id));
    }
    out.fact(Fact::Format("jsonl".to_owned()));
    let mut lines = Lines::open(&session.path)?;
    lines.each_object("evo.unknown", out, |object, out| Ok(reader.take(object, out)))?;
    reader.chain.finish(out);
    out.finish(&session.path, lines.bytes())
}

#[derive(Default)]
struct Reader {
    /// The parent session of a subagent's file.
    parent: Option<String>,
    chain: Chain,
    started: bool,
    told: [Option<String>; 3],
}

impl Reader {
    fn take(&mut self, object: &Object<'_>, out: &mut Emitter<'_>) -> bool {
        let mended = Mended::default();
        let Some(row) = mended.parse::<Row<'_>>(object.json) else { return false };
        let at = row.timestamp.as_deref().and_then(Timestamp::parse);
        let meta = Meta { at, origin: object.origin.clone(), ..Meta::default() };
        let known = self.row(row, object, meta.clone(), out);
        if known {
            mended.tell("evo.record", object.json, &meta, out);
        }
        known
    }

    fn row(
        &mut self,
        row: Row<'_>,
        object: &Object<'_>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> bool {
        if row.session_id.is_none() && row.timestamp.is_none() {
            // A piece of a record that was cut.
            return false;
        }
        self.facts(&row, meta.at, out);
        match row.kind.as_str() {
            "user" => self.user(&row, &meta, out),
            "assistant" => self.reply(&row, meta, out),
            "compact_boundary" => self.boundary(row, object, meta, out),
            "resume_marker" => self.resumed(row, object, meta, out),
            "subagent_start" => child(row, ChildState::Started, meta, out),
            "subagent_end" => child(row, ChildState::Ended, meta, out),
            "goal_set" => goal(row.goal_text.unwrap_or_default(), meta, out),
            "goal_cleared" => goal(String::new(), meta, out),
            "session_start" => true,
            _ => keep(object, &row.kind, meta, out),
        }
    }

    /// What every record says about the session, told when it changes.
    fn facts(&mut self, row: &Row<'_>, at: Option<Timestamp>, out: &mut Emitter<'_>) {
        if !self.started {
            self.started = true;
            match (&self.parent, &row.session_id) {
                (Some(parent), _) => {
                    let parent = parent.clone();
                    out.fact(Fact::ChildOf { parent, call: None, role: row.agent_name.clone() });
                }
                (None, Some(id)) => out.fact(Fact::Id(id.clone())),
                (None, None) => {}
            }
            if let Some(at) = at {
                out.fact(Fact::Created(at));
            }
        }
        let [version, cwd, branch] = &mut self.told;
        out.fact_if_new(version, row.agent_version.as_ref(), Fact::Version);
        out.fact_if_new(cwd, row.cwd.as_ref(), Fact::Cwd);
        out.fact_if_new(branch, row.git_branch.as_ref(), Fact::Branch);
    }

    fn user(&mut self, row: &Row<'_>, meta: &Meta, out: &mut Emitter<'_>) -> bool {
        let parts = row.message.as_ref().and_then(|said| user_parts(said.content));
        let Some(parts) = parts else { return false };
        let mut words = Vec::new();
        for piece in parts {
            piece.tell("evo.block", meta, out);
            match piece.part {
                Part::Result(answer) => {
                    self.chain.result(answer, meta.clone(), out);
                }
                Part::Shown(block) => words.push(block),
                Part::Unknown => piece.keep("evo.block", meta, out),
                Part::Said(_) => piece.misplaced("evo.block", meta, out),
            }
        }
        if !words.is_empty() {
            let notice = words.iter().all(is_injected).then_some("injected");
            self.chain.user(words, notice, meta.clone(), out);
        }
        true
    }

    fn reply(&mut self, row: &Row<'_>, meta: Meta, out: &mut Emitter<'_>) -> bool {
        let Some(said) = row.message.as_ref() else { return false };
        let said = reply(said.content, "evo.block", &meta, out);
        let Some(content) = said else { return false };
        let mut reply = AssistantMessage::new(&ModelRef::new("anthropic", ""), content);
        let (input, output) = (row.input_tokens, row.output_tokens);
        if input + output > 0 {
            reply.usage = Some(Usage { input, output, ..Usage::default() });
        }
        self.chain.reply(reply, meta, out);
        true
    }

    fn boundary(
        &mut self,
        row: Row<'_>,
        object: &Object<'_>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> bool {
        let summary = row.summary.unwrap_or_default();
        if !summary.trim().is_empty() {
            self.chain.summary(summary, Vec::new(), meta, out);
            return true;
        }
        let sentence = "A compaction has an empty summary.";
        let done = "What stands before it stays in the context.";
        out.found("empty-summary", Severity::Warning, &meta.origin, sentence, done);
        keep(object, "compact_boundary", meta, out)
    }

    /// The history of another session takes the place of what was said here so far.
    fn resumed(
        &mut self,
        row: Row<'_>,
        object: &Object<'_>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> bool {
        self.chain.go_to(None);
        out.fact(Fact::Tip(None));
        if let Some(id) = row.from_session_id {
            out.fact(Fact::ForkOf { id, up_to: None });
        }
        let sentence = "The history of another session was taken up here; it is not in this file.";
        let done = "The other session shows it.";
        out.found("history-elsewhere", Severity::Note, &meta.origin, sentence, done);
        keep(object, "resume_marker", meta, out)
    }
}

/// What evo adds on the person's side stands in one tag.
fn is_injected(block: &Block) -> bool {
    let Block::Text { text } = block else { return false };
    let text = text.head().trim();
    let tag = text.strip_prefix('<').and_then(|rest| rest.split(['>', ' ', '\n']).next());
    tag.is_some_and(|tag| !tag.is_empty() && text.ends_with(&format!("</{tag}>")))
}

fn child(row: Row<'_>, state: ChildState, meta: Meta, out: &mut Emitter<'_>) -> bool {
    let path = row.subagent_path.unwrap_or_default();
    let child = Path::new(&path).file_stem().and_then(OsStr::to_str).unwrap_or_default();
    let detail = row.result.or(row.agent_name);
    let child = Child { detail, ..Child::new(child, "", state) };
    out.record(Body::Child(child), meta);
    true
}

fn goal(goal: String, meta: Meta, out: &mut Emitter<'_>) -> bool {
    out.record(Body::Task(Task { goal, ..Task::default() }), meta);
    true
}

fn keep(object: &Object<'_>, kind: &str, meta: Meta, out: &mut Emitter<'_>) -> bool {
    let Ok(raw) = serde_json::from_str::<&RawValue>(object.json) else { return false };
    out.custom(&format!("evo.{kind}"), raw, meta);
    true
}
