//! Codex's rollouts.
//!
//! Responsible for: files as version 0.118 wrote them, which newer versions resume in place. Must not: be
//! known outside this module.
//!
//! `sessions/YYYY/MM/DD/rollout-<time>-<id>.jsonl`; subagents are threads of their own. The items are what
//! the provider is sent; the events beside them are for the screen. There is one path and no tree. A
//! compaction holds the whole new prompt: the summary, and what is kept.

use super::ids::Ids;
use super::transcript::{Call, Part, Piece, Reply, Said, Turn, text_of};
use super::{Child, File, LossKind, Losses, Resume, Session, Transcript, Work, tools};
use crate::foreign::{Agent, CODEX_SUMMARY};
use segno_model::Timestamp;
use segno_model::record::Usage;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::Path;

/// The version whose files these are.
const VERSION: &str = "0.118.0";

/// Who made the reasoning that may be carried.
const PROVIDER: &str = "openai";

/// The provider takes no longer names of tools.
const MOST_NAME: usize = 64;

/// Writes a session.
pub(super) fn write(work: &Work<'_>, losses: &mut Losses) -> (Vec<File>, Resume) {
    let id = work.options.id.as_str();
    let mut files = Vec::new();
    let thread = Thread { session: work.session, id, parent: None };
    thread.write(work, work.transcript, losses, &mut files);
    (files, Resume::new(work.session, &["codex", "resume", id]))
}

/// A session, or a subagent's.
struct Thread<'a> {
    session: &'a Session,
    id: &'a str,
    /// The parent's id, how deep it is, and its role.
    parent: Option<(&'a str, u64, Option<&'a str>)>,
}

impl Thread<'_> {
    fn write(
        &self,
        work: &Work<'_>,
        transcript: &Transcript,
        losses: &mut Losses,
        files: &mut Vec<File>,
    ) {
        transcript.lose_branches(losses);
        let mut writer = Writer::new(self.session, self.id, transcript);
        writer.header(self, work.options.version.as_deref().unwrap_or(VERSION));
        match (&self.session.named, &self.session.titled) {
            (Some(name), _) => writer.name(name),
            (None, Some(_)) => losses.add(LossKind::Title, 1),
            (None, None) => {}
        }
        writer.path(transcript, losses);
        let time = self.session.began().to_string();
        let (day, time) = (time.get(..10).unwrap_or_default(), time.get(..19).unwrap_or_default());
        let name = format!("rollout-{}-{}.jsonl", time.replace(':', "-"), self.id);
        let path = Path::new("sessions").join(day.replace('-', "/")).join(name);
        files.push(File { path, bytes: writer.out });
        for (n, child) in (0..).zip(&self.session.children) {
            losses.within(&child.session, |losses| self.child(work, child, n, losses, files));
        }
    }

    fn child(
        &self,
        work: &Work<'_>,
        child: &Child,
        n: u64,
        losses: &mut Losses,
        files: &mut Vec<File>,
    ) {
        let transcript = Transcript::of(&child.session, Agent::Codex, work.blobs, losses);
        let id = Ids::new(self.id).timed("child", n, child.session.began());
        let depth = self.parent.map_or(1, |(_, depth, _)| depth + 1);
        let parent = Some((self.id, depth, child.role.as_deref()));
        Thread { session: &child.session, id: &id, parent }.write(work, &transcript, losses, files);
    }
}

struct Writer<'a> {
    session: &'a Session,
    /// Whose models are named, and whose reasoning is carried: of Codex's own sessions whoever was asked.
    provider: String,
    ids: Ids,
    out: Vec<u8>,
    at: Timestamp,
    /// The turn that is under way.
    turn: Option<String>,
    turns: u64,
    /// The model that the last turn was said to be with.
    model: String,
    /// What the model said last in this turn.
    last: Option<String>,
    total: Usage,
    /// The items of the turns that a compaction keeps.
    items: HashMap<usize, Vec<Value>>,
    /// The turn that is being written.
    index: usize,
}

impl<'a> Writer<'a> {
    fn new(session: &'a Session, id: &str, transcript: &Transcript) -> Self {
        Self {
            session,
            provider: provider(session, transcript),
            ids: Ids::new(id),
            out: Vec::new(),
            at: session.began(),
            turn: None,
            turns: 0,
            model: String::new(),
            last: None,
            total: Usage::default(),
            items: HashMap::new(),
            index: 0,
        }
    }

    fn line(&mut self, kind: &str, payload: &Value) {
        let line = json!({ "timestamp": self.at.to_string(), "type": kind, "payload": payload });
        self.out.extend_from_slice(line.to_string().as_bytes());
        self.out.push(b'\n');
    }

    fn event(&mut self, payload: &Value) {
        self.line("event_msg", payload);
    }

    fn header(&mut self, thread: &Thread<'_>, version: &str) {
        let source = match thread.parent {
            None => json!("cli"),
            Some((parent, depth, role)) => json!({ "subagent": { "thread_spawn": {
                "parent_thread_id": parent, "depth": depth, "agent_role": role,
            }}}),
        };
        let mut header = json!({
            "id": thread.id, "timestamp": self.at.to_string(), "cwd": self.session.cwd,
            "originator": "codex_cli_rs", "cli_version": version, "source": source,
        });
        if self.provider != PROVIDER {
            header["model_provider"] = self.provider.as_str().into();
        }
        let mut git = Map::new();
        for (name, value) in
            [("commit_hash", &self.session.commit), ("branch", &self.session.branch)]
        {
            git.extend(value.as_ref().map(|value| (name.to_owned(), value.as_str().into())));
        }
        if !git.is_empty() {
            header["git"] = git.into();
        }
        self.line("session_meta", &header);
    }

    fn name(&mut self, name: &str) {
        self.event(&json!({ "type": "thread_name_updated", "thread_name": name }));
    }

    fn path(&mut self, transcript: &Transcript, losses: &mut Losses) {
        let path: Vec<(usize, &Turn)> = transcript.path().collect();
        for (_, turn) in &path {
            if let Said::Compaction { kept, .. } = &turn.said {
                self.items.extend(kept.iter().map(|index| (*index, Vec::new())));
            }
        }
        let mut models = path.iter().enumerate().filter_map(|(at, (_, turn))| match &turn.said {
            Said::Reply(reply) => Some((at, reply.model.clone())),
            _ => None,
        });
        let mut next = models.next();
        let mut after_reply = false;
        for (at, (index, turn)) in path.iter().enumerate() {
            while next.as_ref().is_some_and(|(reply, _)| *reply < at) {
                next = models.next();
            }
            self.at = turn.at;
            // Two replies in a row would be read as one.
            let is_reply = matches!(turn.said, Said::Reply(_));
            let again = std::mem::replace(&mut after_reply, is_reply) && is_reply;
            let is_prompt = matches!(turn.said, Said::User { notice: None, .. });
            if is_prompt || again || self.turn.is_none() {
                let model = next.as_ref().filter(|(_, model)| model.provider == self.provider);
                let model = model.map(|(_, model)| model.id.clone());
                self.begin(model);
            }
            self.say(*index, turn, losses);
        }
        self.end();
    }

    fn begin(&mut self, model: Option<String>) {
        self.end();
        let id = self.ids.timed("turn", self.turns, self.at);
        self.turns += 1;
        self.event(&json!({ "type": "task_started", "turn_id": id,
            "model_context_window": null, "collaboration_mode_kind": "default" }));
        self.turn = Some(id);
        if let Some(model) = model {
            self.context(model);
        }
    }

    /// Which model answers from here on.
    fn context(&mut self, model: String) {
        self.line(
            "turn_context",
            &json!({
                "turn_id": self.turn, "cwd": self.session.cwd,
                "approval_policy": "on-request", "sandbox_policy": { "type": "read-only" },
                "model": model, "summary": "auto",
            }),
        );
        self.model = model;
    }

    fn end(&mut self) {
        if let Some(turn) = self.turn.take() {
            let last = self.last.take();
            self.event(
                &json!({ "type": "task_complete", "turn_id": turn, "last_agent_message": last }),
            );
        }
    }

    fn item(&mut self, item: Value) {
        self.line("response_item", &item);
        if let Some(items) = self.items.get_mut(&self.index) {
            items.push(item);
        }
    }

    fn say(&mut self, index: usize, turn: &Turn, losses: &mut Losses) {
        self.index = index;
        match &turn.said {
            Said::User { parts, notice } => {
                let role = self.own_role(notice.as_deref());
                self.own_items(parts);
                self.item(message(role.unwrap_or("user"), parts));
                if notice.is_none() {
                    let text = text_of(parts);
                    self.event(&json!({ "type": "user_message", "message": text,
                        "images": [], "local_images": [], "text_elements": [] }));
                } else if self.session.source != Agent::Codex.id() {
                    losses.of(LossKind::Notices, turn.seq);
                }
            }
            Said::BranchSummary { framed, .. } => {
                self.item(message("user", &[Part::Text(framed.clone())]));
                losses.of(LossKind::Notices, turn.seq);
            }
            Said::Reply(reply) => self.reply(turn, reply, losses),
            Said::Compaction { summary, kept, .. } => self.compaction(summary, kept),
        }
    }

    /// Items of Codex's own that stood before a message or an output.
    fn own_items(&mut self, parts: &[Part]) {
        for part in parts {
            if let Part::Raw(item) = part {
                self.item(item.clone());
            }
        }
    }

    /// In whose name Codex itself gave a notice; what it said in the person's is known by its beginning.
    fn own_role<'n>(&self, notice: Option<&'n str>) -> Option<&'n str> {
        let is_own = self.session.source == Agent::Codex.id();
        notice.filter(|role| is_own && matches!(*role, "developer" | "system"))
    }

    fn reply(&mut self, turn: &Turn, reply: &Reply, losses: &mut Losses) {
        if reply.model.provider != self.provider {
            losses.of(LossKind::Models, turn.seq);
        } else if reply.model.id != self.model {
            self.context(reply.model.id.clone());
        }
        for piece in &reply.pieces {
            match piece {
                Piece::Text(text) => {
                    self.event(&json!({ "type": "agent_message", "message": text,
                        "phase": null, "memory_citation": null }));
                    self.last = Some(text.clone());
                    self.item(json!({ "type": "message", "role": "assistant",
                        "content": [{ "type": "output_text", "text": text }] }));
                }
                Piece::Thinking { text, signature, .. } if reply.thinks_for(&self.provider) => {
                    self.thinking(text, signature);
                }
                Piece::Thinking { .. } => losses.of(LossKind::Thinking, turn.seq),
                Piece::Call(call) => self.call(call),
                Piece::Raw(item) => self.item(item.clone()),
            }
        }
        if let Some(usage) = reply.usage {
            self.usage(usage);
        }
        for call in reply.calls() {
            self.at = call.answer.at;
            if call.answer.is_error {
                losses.of(LossKind::Failures, call.answer.seq.unwrap_or(turn.seq));
            }
            self.output(call);
        }
    }

    fn thinking(&mut self, text: &str, signature: &str) {
        let mut summary = Vec::new();
        if !text.is_empty() {
            self.event(&json!({ "type": "agent_reasoning", "text": text }));
            summary.push(json!({ "type": "summary_text", "text": text }));
        }
        self.item(json!({ "type": "reasoning", "summary": summary, "content": null,
            "encrypted_content": signature }));
    }

    fn call(&mut self, call: &Call) {
        let source = &self.session.source;
        let (name, arguments) = tools::for_agent(source, Agent::Codex, &call.name, &call.arguments);
        let (name, id) = (fit_name(&name), call.id.as_str());
        self.item(match freeform(call) {
            Some(input) => json!({ "type": "custom_tool_call", "status": "completed",
                "call_id": id, "name": name, "input": input }),
            None => json!({ "type": "function_call", "name": name,
                "arguments": Value::from(arguments).to_string(), "call_id": id }),
        });
    }

    fn output(&mut self, call: &Call) {
        self.own_items(&call.answer.parts);
        let kind = match freeform(call) {
            Some(_) => "custom_tool_call_output",
            None => "function_call_output",
        };
        let output = match call.answer.parts.as_slice() {
            [Part::Text(text)] => Value::from(text.as_str()),
            parts => content(parts, "input_text"),
        };
        self.item(json!({ "type": kind, "call_id": call.id, "output": output }));
    }

    fn usage(&mut self, usage: Usage) {
        self.total.add(&usage);
        let (total, last) = (counted(&self.total), counted(&usage));
        self.event(&json!({ "type": "token_count", "rate_limits": null, "info": {
            "total_token_usage": total, "last_token_usage": last, "model_context_window": null,
        }}));
    }

    fn compaction(&mut self, summary: &str, kept: &[usize]) {
        let summary = match summary.starts_with(CODEX_SUMMARY.marker) {
            true => summary.to_owned(),
            false => format!("{}{summary}", CODEX_SUMMARY.before),
        };
        let mut history = vec![message("user", &[Part::Text(summary.clone())])];
        history.extend(kept.iter().filter_map(|index| self.items.get(index)).flatten().cloned());
        self.line("compacted", &json!({ "message": summary, "replacement_history": history }));
        self.event(&json!({ "type": "context_compacted" }));
    }
}

/// Who was asked in a session of Codex's own; it is set up for that. In others, whom it asks by itself.
fn provider(session: &Session, transcript: &Transcript) -> String {
    let asked = transcript.path().find_map(|(_, turn)| match &turn.said {
        Said::Reply(reply) => Some(reply.model.provider.clone()),
        _ => None,
    });
    let own = asked.filter(|name| session.source == Agent::Codex.id() && !name.is_empty());
    own.unwrap_or_else(|| PROVIDER.to_owned())
}

fn message(role: &str, parts: &[Part]) -> Value {
    json!({ "type": "message", "role": role, "content": content(parts, "input_text") })
}

fn content(parts: &[Part], text_kind: &str) -> Value {
    let piece = |part: &Part| match part {
        Part::Text(text) => json!({ "type": text_kind, "text": text }),
        Part::Image { media_type, data } => {
            json!({ "type": "input_image", "image_url": format!("data:{media_type};base64,{data}") })
        }
        // Codex holds no documents: none comes here.
        Part::Document(document) => json!({ "type": text_kind, "text": document.media_type }),
        Part::Raw(item) => item.clone(),
    };
    // What is Codex's own are items.
    parts.iter().filter(|part| !matches!(part, Part::Raw(_))).map(piece).collect()
}

/// What a call of a tool holds that takes a text and no JSON.
fn freeform(call: &Call) -> Option<&str> {
    let input = call.arguments.get("input")?.as_str()?;
    (call.name == "apply_patch" && call.arguments.len() == 1).then_some(input)
}

/// A tool's name as the provider takes it.
fn fit_name(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().map(fit).take(MOST_NAME).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Tokens as Codex counts them: what the cache served is part of the input.
fn counted(usage: &Usage) -> Value {
    let cached = usage.cache_read.saturating_add(usage.cache_write);
    let input = usage.input.saturating_add(cached);
    json!({
        "input_tokens": input,
        "cached_input_tokens": usage.cache_read,
        "cache_write_input_tokens": usage.cache_write,
        "output_tokens": usage.output,
        "reasoning_output_tokens": usage.reasoning.unwrap_or(0),
        "total_tokens": input.saturating_add(usage.output),
    })
}
