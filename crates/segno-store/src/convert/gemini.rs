//! Gemini CLI's chat files.
//!
//! Responsible for: lines of version 0.61 as its reader takes them (`docs/convert.md`). Must not: be known
//! outside this module.
//!
//! `tmp/<project>/chats/session-<minute>-<first eight of the id>.jsonl`: facts, then messages. A reply holds
//! its calls with their results. After a summary the whole history is set anew: the summary as a snapshot on
//! the person's side, and what it keeps. There are no branches: going back removes. Subagents' sessions are in
//! `chats/<session>/`. Sessions that nobody changed for some time are deleted when Gemini CLI starts; what
//! counts is the time in the file. `.project_root` says whose the project's folder is.

use super::ids::Ids;
use super::transcript::{
    Answer, Call, Document, Part, Piece, Reply, Said, Transcript, Turn, text_of,
};
use super::{Child, File, LossKind, Losses, Resume, Session, Work, tools};
use crate::foreign::{Agent, gemini_project_name};
use segno_model::record::{Outcome, Usage};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Who made the reasoning that may be carried.
const PROVIDERS: [&str; 2] = ["gemini", "google"];

/// What begins a prompt that Gemini CLI takes for a command: it does not send it again.
const COMMANDS: [&str; 2] = ["/", "?"];

/// What begins the surroundings, which Gemini CLI tells anew and does not send again.
const SURROUNDINGS: [&str; 2] = ["<session_context>", "<hook_context>"];

/// How other notices of Gemini CLI's own begin.
const NOTICES: [&str; 3] = ["<state_snapshot>", "<system-reminder>", "System: Please continue"];

/// Writes a session.
pub(super) fn write(work: &Work<'_>, losses: &mut Losses) -> (Vec<File>, Resume) {
    let (session, id) = (work.session, work.options.id.as_str());
    let chats = folder(work).join("chats");
    let mut writer = Writer::new(work, session, id);
    writer.facts("main", work.transcript);
    work.transcript.lose_branches(losses);
    writer.transcript(work.transcript, losses);
    let minute: String = session.began().to_string().chars().take(16).collect();
    let short: String = id.chars().take(8).collect();
    let name = format!("session-{}-{short}.jsonl", minute.replace(':', "-"));
    let mut files = vec![File { path: chats.join(name), bytes: writer.out }];
    for child in &session.children {
        losses.within(&child.session, |losses| {
            subagent(work, child, (&chats, id), losses, &mut files);
        });
    }
    (files, Resume::new(session, &["gemini", "--resume", id]))
}

/// What says, in the folder of the session's project, whose that is.
pub(super) fn marker(work: &Work<'_>) -> Option<File> {
    let cwd = work.session.cwd.clone();
    let path = folder(work).join(".project_root");
    (!cwd.is_empty()).then(|| File { path, bytes: cwd.into_bytes() })
}

/// The folder of the session's project.
fn folder(work: &Work<'_>) -> PathBuf {
    let named = work.options.project.clone();
    Path::new("tmp").join(named.unwrap_or_else(|| gemini_project_name(&work.session.cwd)))
}

/// The id of a subagent's session: its own where it can be a file's name, so that calls name it.
fn child_id(session: &Session) -> String {
    let fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let own = Some(&session.id).filter(|id| !id.is_empty() && id.chars().all(fit)).cloned();
    own.unwrap_or_else(|| Ids::new(&session.id).named("agent", 0))
}

fn subagent(
    work: &Work<'_>,
    child: &Child,
    (chats, parent): (&Path, &str),
    losses: &mut Losses,
    files: &mut Vec<File>,
) {
    let transcript = Transcript::of(&child.session, Agent::Gemini, work.blobs, losses);
    transcript.lose_branches(losses);
    let id = child_id(&child.session);
    let mut writer = Writer::new(work, &child.session, &id);
    writer.facts("subagent", &transcript);
    writer.transcript(&transcript, losses);
    let path: PathBuf = chats.join(parent).join(format!("{id}.jsonl"));
    files.push(File { path, bytes: writer.out });
    for grandchild in &child.session.children {
        losses.within(&grandchild.session, |losses| {
            subagent(work, grandchild, (chats, &id), losses, files);
        });
    }
}

struct Writer<'a> {
    work: &'a Work<'a>,
    session: &'a Session,
    id: &'a str,
    ids: Ids,
    /// Each turn as its message, by index; null for those of other branches.
    messages: Vec<Value>,
    out: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(work: &'a Work<'a>, session: &'a Session, id: &'a str) -> Self {
        let ids = Ids::new(&format!("{}\n{id}", work.options.id));
        Self { work, session, id, ids, messages: Vec::new(), out: Vec::new() }
    }

    fn line(&mut self, row: &Value) {
        self.out.extend_from_slice(row.to_string().as_bytes());
        self.out.push(b'\n');
    }

    fn facts(&mut self, kind: &str, transcript: &Transcript) {
        let began = self.session.began();
        let last = transcript.path().map(|(_, turn)| turn.at).max();
        // Only the session's own is looked at for its age. Others stay the same whenever they are written.
        let now = self.work.options.now.filter(|_| kind == "main");
        let updated = now.or(last).unwrap_or(began).max(began);
        let project = segno_model::sha256_hex(self.session.cwd.as_bytes());
        self.line(&json!({
            "sessionId": self.id, "projectHash": project, "startTime": began.to_string(),
            "lastUpdated": updated.to_string(), "kind": kind,
        }));
        if let Some(title) = self.session.title() {
            self.line(&json!({ "$set": { "summary": title } }));
        }
    }

    fn transcript(&mut self, transcript: &Transcript, losses: &mut Losses) {
        self.messages = vec![Value::Null; transcript.turns.len()];
        for (at, turn) in transcript.path() {
            let message = self.turn(turn, losses);
            match &turn.said {
                Said::Compaction { kept, .. } => self.set_anew(&message, kept),
                _ => self.line(&message),
            }
            if let Some(place) = self.messages.get_mut(at) {
                *place = message;
            }
        }
    }

    /// Sets the history to a summary and what it keeps.
    fn set_anew(&mut self, summary: &Value, kept: &[usize]) {
        let kept = kept.iter().filter_map(|at| self.messages.get(*at)).filter(|m| !m.is_null());
        let messages: Vec<&Value> = std::iter::once(summary).chain(kept).collect();
        let row = json!({ "$set": { "messages": messages } });
        self.line(&row);
    }

    fn turn(&self, turn: &Turn, losses: &mut Losses) -> Value {
        match &turn.said {
            Said::User { parts, notice } => {
                let begins = |with: &[&str]| begins_with(parts, with);
                let theirs = notice.is_some() && begins(&SURROUNDINGS);
                if notice.is_some() && !theirs && !begins(&NOTICES) {
                    losses.of(LossKind::Notices, turn.seq);
                }
                let is_sent = theirs || !(begins(&COMMANDS) || begins(&SURROUNDINGS));
                self.user(turn, parts, is_sent)
            }
            Said::BranchSummary { framed, .. } => {
                losses.of(LossKind::Notices, turn.seq);
                self.user(turn, &[Part::Text(framed.clone())], true)
            }
            Said::Compaction { summary, .. } => {
                let text = format!("<state_snapshot>\n{summary}\n</state_snapshot>");
                self.user(turn, &[Part::Text(text)], true)
            }
            Said::Reply(reply) => self.reply(turn, reply, losses),
        }
    }

    fn message(&self, turn: &Turn, kind: &str, content: &[Value]) -> Value {
        json!({
            "id": self.ids.named("message", turn.seq), "timestamp": turn.at.to_string(),
            "type": kind, "content": content,
        })
    }

    /// A message of the person's side. One that would not be sent again is told so that it is.
    fn user(&self, turn: &Turn, parts: &[Part], is_sent: bool) -> Value {
        let mut content: Vec<Value> = parts.iter().map(part).collect();
        if is_sent {
            return self.message(turn, "user", &content);
        }
        // A text that says of itself that it is no thought is not looked at for commands.
        let shown = content.clone();
        for part in content.iter_mut().filter(|part| part.get("text").is_some()) {
            part["thought"] = false.into();
        }
        let mut message = self.message(turn, "user", &content);
        message["displayContent"] = shown.into();
        message
    }

    fn reply(&self, turn: &Turn, reply: &Reply, losses: &mut Losses) -> Value {
        let (mut content, mut thoughts) = (Vec::new(), Vec::new());
        let carries = !reply.elsewhere && PROVIDERS.contains(&reply.model.provider.as_str());
        if !PROVIDERS.contains(&reply.model.provider.as_str()) {
            losses.of(LossKind::Models, turn.seq);
        }
        for piece in &reply.pieces {
            match piece {
                Piece::Text(text) => content.push(json!({ "text": text })),
                Piece::Thinking { text, signature, redacted: false } if carries => content
                    .push(json!({ "text": text, "thought": true, "thoughtSignature": signature })),
                Piece::Thinking { .. } => losses.of(LossKind::Thinking, turn.seq),
                Piece::Call(call) => {
                    let (name, args) = tools::for_agent(
                        &self.session.source,
                        Agent::Gemini,
                        &call.name,
                        &call.arguments,
                    );
                    let call = json!({ "id": call.id, "name": name, "args": args });
                    content.push(json!({ "functionCall": call }));
                }
                Piece::Raw(thought) if is_thought(thought) => thoughts.push(thought.clone()),
                Piece::Raw(part) => content.push(part.clone()),
            }
        }
        let mut message = self.message(turn, "gemini", &content);
        message["thoughts"] = thoughts.into();
        if let Some(usage) = reply.usage {
            if usage.cache_write > 0 {
                losses.of(LossKind::Usage, turn.seq);
            }
            message["tokens"] = tokens(usage);
        }
        if !reply.model.id.is_empty() {
            message["model"] = reply.model.id.as_str().into();
        }
        let calls: Vec<Value> = reply.calls().map(|call| self.call(call)).collect();
        if !calls.is_empty() {
            message["toolCalls"] = calls.into();
        }
        message
    }

    fn call(&self, call: &Call) -> Value {
        let (name, args) =
            tools::for_agent(&self.session.source, Agent::Gemini, &call.name, &call.arguments);
        let shown = text_of(&call.answer.parts);
        let mut told = json!({
            "id": call.id, "name": name, "args": args, "result": result(call, &name),
            "status": status(&call.answer), "timestamp": call.answer.at.to_string(),
            "resultDisplay": shown, "description": "", "displayName": name,
            "renderOutputAsMarkdown": false,
        });
        let child = |child: &&Child| child.call.as_deref() == Some(call.id.as_str());
        if let Some(child) = self.session.children.iter().find(child) {
            told["agentId"] = child_id(&child.session).into();
        }
        told
    }
}

fn begins_with(parts: &[Part], starts: &[&str]) -> bool {
    let first = parts.iter().find_map(|part| match part {
        Part::Text(text) => Some(text.trim_start()),
        _ => None,
    });
    first.is_some_and(|text| starts.iter().any(|start| text.starts_with(start)))
}

fn part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "text": text }),
        Part::Image { media_type, data } => {
            json!({ "inlineData": { "mimeType": media_type, "data": data } })
        }
        Part::Document(Document { media_type, name, data }) => {
            let mut inline = json!({ "mimeType": media_type, "data": data });
            if let Some(name) = name {
                inline["displayName"] = name.as_str().into();
            }
            json!({ "inlineData": inline })
        }
        Part::Raw(part) => part.clone(),
    }
}

/// Whether a piece is one of a reply's thoughts, which stand apart from its content.
fn is_thought(piece: &Value) -> bool {
    ["subject", "description"].iter().any(|name| piece.get(name).is_some())
}

/// A result: all its texts are one, images and documents stand beside.
fn result(call: &Call, name: &str) -> Vec<Value> {
    let key = if call.answer.is_error { "error" } else { "output" };
    let response = json!({ key: text_of(&call.answer.parts) });
    let told = json!({ "id": call.id, "name": name, "response": response });
    let beside = call.answer.parts.iter().filter(|part| part.is_media());
    std::iter::once(json!({ "functionResponse": told })).chain(beside.map(part)).collect()
}

fn status(answer: &Answer) -> &'static str {
    match answer.outcome {
        _ if !answer.is_error => "success",
        Outcome::Stopped => "cancelled",
        _ => "error",
    }
}

/// Gemini counts what the cache served within the input, and thoughts apart from the output.
fn tokens(usage: Usage) -> Value {
    let thoughts = usage.reasoning.unwrap_or(0);
    json!({
        "input": usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write),
        "output": usage.output.saturating_sub(thoughts), "cached": usage.cache_read,
        "thoughts": thoughts, "tool": 0, "total": usage.context(),
    })
}
