//! pi's session files.
//!
//! Responsible for: entries of version 3, the newest that pi 1.6 knows, as its reader takes them
//! (`docs/convert.md`). Must not: be known outside this module.
//!
//! `sessions/--<directory>--/<time>_<session>.jsonl`: a header, then entries that name the one that they
//! follow. pi goes on behind the last line, whatever it is. A compaction names the first entry that it keeps,
//! or itself. pi has no subagents; their sessions are files of their own, which name the parent's file.

use super::ids::Ids;
use super::kept::Kept;
use super::transcript::{Call, Part, Piece, Reply, Said, Transcript, Turn};
use super::{File, LossKind, Losses, Resume, Session, Work, tools};
use crate::foreign::Agent;
use segno_model::record::{ModelRef, StopReason, Usage};
use segno_model::{Body, Timestamp};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// Writes a session.
pub(super) fn write(work: &Work<'_>, losses: &mut Losses) -> (Vec<File>, Resume) {
    let (session, id) = (work.session, work.options.id.as_str());
    let mut writer = Writer::new(session, id);
    writer.header(session, id);
    writer.transcript(work.transcript, losses);
    writer.labels(session);
    writer.end(session, work.transcript);
    lose_subagents(session, losses);
    let file = File { path: path_of(session, id), bytes: writer.out };
    (vec![file], Resume::new(session, &["pi", "--session", id]))
}

/// Tells each subagent's session by its id.
fn lose_subagents(session: &Session, losses: &mut Losses) {
    for child in &session.children {
        losses.within(&child.session, |losses| {
            losses.add(LossKind::Subagents, 1);
            lose_subagents(&child.session, losses);
        });
    }
}

fn path_of(session: &Session, id: &str) -> PathBuf {
    let cwd = session.cwd.strip_prefix(['/', '\\']).unwrap_or(&session.cwd);
    let folder = format!("--{}--", cwd.replace(['/', '\\', ':'], "-"));
    let time = session.began().to_string().replace([':', '.'], "-");
    PathBuf::from("sessions").join(folder).join(format!("{time}_{id}.jsonl"))
}

struct Writer {
    /// Whose tools the calls are of.
    source: String,
    ids: Ids,
    taken: HashSet<String>,
    /// The first and the last entry of each turn.
    turns: Vec<(String, String)>,
    /// The entry of each record.
    records: HashMap<u64, String>,
    /// The entry that the next one follows.
    last: Option<String>,
    /// The last entry that was written.
    newest: Option<String>,
    out: Vec<u8>,
}

impl Writer {
    fn new(session: &Session, seed: &str) -> Self {
        Self {
            source: session.source.clone(),
            ids: Ids::new(seed),
            taken: HashSet::new(),
            turns: Vec::new(),
            records: HashMap::new(),
            last: None,
            newest: None,
            out: Vec::new(),
        }
    }

    fn header(&mut self, session: &Session, id: &str) {
        self.line(&json!({
            "type": "session", "version": 3, "id": id,
            "timestamp": session.began().to_string(), "cwd": session.cwd,
        }));
        if let Some(title) = session.title() {
            let name = title.split(['\r', '\n']).collect::<Vec<_>>().join(" ");
            self.entry(session.began(), json!({ "type": "session_info", "name": name.trim() }));
        }
    }

    fn line(&mut self, row: &Value) {
        self.out.extend_from_slice(row.to_string().as_bytes());
        self.out.push(b'\n');
    }

    /// An entry behind the last one; its id.
    fn entry(&mut self, at: Timestamp, entry: Value) -> String {
        let id = self.id();
        self.entry_named(&id, at, entry);
        id
    }

    fn entry_named(&mut self, id: &str, at: Timestamp, mut entry: Value) {
        entry["id"] = id.into();
        entry["parentId"] = self.last.clone().into();
        entry["timestamp"] = at.to_string().into();
        self.line(&entry);
        self.last = Some(id.to_owned());
        self.newest = self.last.clone();
    }

    /// An id that no entry has.
    fn id(&mut self) -> String {
        let from = self.taken.len() as u64;
        let tried = (0..u64::MAX).map(|n| self.ids.hex("entry", from + (n << 32), 8));
        let id = tried.into_iter().find(|id| !self.taken.contains(id)).unwrap_or_default();
        self.taken.insert(id.clone());
        id
    }

    fn message(&mut self, at: Timestamp, mut message: Value) -> String {
        message["timestamp"] = at.0.into();
        self.entry(at, json!({ "type": "message", "message": message }))
    }

    fn transcript(&mut self, transcript: &Transcript, losses: &mut Losses) {
        let root = self.last.clone();
        for (at, turn) in transcript.turns.iter().enumerate() {
            let above = turn.parent.and_then(|parent| self.turns.get(parent));
            self.last = above.map(|(_, last)| last.clone()).or_else(|| root.clone());
            let first = self.turn(transcript, at, turn, losses);
            self.records.insert(turn.seq, first.clone());
            let last = self.last.clone().unwrap_or_default();
            self.turns.push((first, last));
        }
    }

    fn turn(
        &mut self,
        transcript: &Transcript,
        at: usize,
        turn: &Turn,
        losses: &mut Losses,
    ) -> String {
        match &turn.said {
            Said::User { parts, notice: None } => {
                let message = json!({ "role": "user", "content": blocks(parts) });
                self.message(turn.at, message)
            }
            Said::User { parts, notice: Some(reason) } => self.entry(
                turn.at,
                json!({
                    "type": "custom_message", "customType": reason, "content": blocks(parts),
                    "display": true,
                }),
            ),
            Said::Reply(reply) => self.reply(turn, reply, losses),
            Said::Compaction { summary, tokens_before, .. } => {
                let kept = Kept::of(transcript, at, true);
                let summary = kept.told_with(summary, transcript, losses);
                let id = self.id();
                let from = kept.from.and_then(|from| self.turns.get(from));
                let first = from.map_or_else(|| id.clone(), |(first, _)| first.clone());
                let entry = json!({
                    "type": "compaction", "summary": summary, "firstKeptEntryId": first,
                    "tokensBefore": tokens_before.unwrap_or(0), "fromHook": false,
                });
                self.entry_named(&id, turn.at, entry);
                id
            }
            Said::BranchSummary { summary, from, .. } => {
                let from = from.and_then(|from| self.turns.get(from));
                let from = from.map_or_else(|| "root".to_owned(), |(_, last)| last.clone());
                let entry = json!({
                    "type": "branch_summary", "fromId": from, "summary": summary,
                    "fromHook": false,
                });
                self.entry(turn.at, entry)
            }
        }
    }

    fn reply(&mut self, turn: &Turn, reply: &Reply, losses: &mut Losses) -> String {
        let (provider, api) = provider(&reply.model);
        let mut content = Vec::new();
        for piece in &reply.pieces {
            let block = match piece {
                Piece::Text(text) => Some(json!({ "type": "text", "text": text })),
                Piece::Thinking { text, signature, redacted } => {
                    thinking(reply, api, text, signature, *redacted)
                }
                Piece::Call(call) => {
                    let (name, arguments) =
                        tools::for_agent(&self.source, Agent::Pi, &call.name, &call.arguments);
                    Some(json!({
                        "type": "toolCall", "id": call.id, "name": name, "arguments": arguments,
                    }))
                }
                Piece::Raw(piece) => Some(piece.clone()),
            };
            match block {
                Some(block) => content.push(block),
                None => losses.of(LossKind::Thinking, turn.seq),
            }
        }
        let message = json!({
            "role": "assistant", "content": content, "api": api, "provider": provider,
            "model": reply.model.id, "usage": usage(reply.usage.unwrap_or_default()),
            "stopReason": stop(reply),
        });
        let id = self.message(turn.at, message);
        for call in reply.calls() {
            self.result(call);
        }
        id
    }

    fn result(&mut self, call: &Call) {
        let (name, _) = tools::for_agent(&self.source, Agent::Pi, &call.name, &call.arguments);
        let answer = &call.answer;
        let message = json!({
            "role": "toolResult", "toolCallId": call.id, "toolName": name,
            "content": blocks(&answer.parts), "isError": answer.is_error,
        });
        let id = self.message(answer.at, message);
        if let Some(seq) = answer.seq {
            self.records.insert(seq, id);
        }
    }

    /// The labels in force.
    fn labels(&mut self, session: &Session) {
        let mut labels: Vec<(u64, &str, Timestamp)> = Vec::new();
        for record in &session.records {
            if let Body::Label(label) = record.body() {
                labels.retain(|(target, ..)| *target != label.target.seq);
                if !label.label.is_empty() {
                    labels.push((label.target.seq, &label.label, record.envelope.at));
                }
            }
        }
        for (target, label, at) in labels {
            if let Some(target) = self.records.get(&target).cloned() {
                self.entry(at, json!({ "type": "label", "targetId": target, "label": label }));
            }
        }
    }

    /// Makes the current turn the one that pi goes on from, if another one was written last.
    fn end(&mut self, session: &Session, transcript: &Transcript) {
        let current = transcript.path().last().map(|(at, _)| at);
        if current == transcript.turns.len().checked_sub(1) {
            return;
        }
        let current = current.and_then(|at| self.turns.get(at)).map(|(_, last)| last.clone());
        let at = transcript.turns.iter().map(|turn| turn.at).max().unwrap_or_default();
        self.last = current;
        let data = json!({ "source": session.source, "id": session.id });
        self.entry(at, json!({ "type": "custom", "customType": "segno.current", "data": data }));
    }
}

fn blocks(parts: &[Part]) -> Value {
    let block = |part: &Part| match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image { media_type, data } => {
            json!({ "type": "image", "data": data, "mimeType": media_type })
        }
        // pi holds no documents: none comes here.
        Part::Document(document) => json!({ "type": "text", "text": document.media_type }),
        Part::Raw(piece) => piece.clone(),
    };
    parts.iter().map(block).collect()
}

/// What pi calls a provider, and the wire that it speaks with it. Reasoning goes back only over the same one.
fn provider(model: &ModelRef) -> (&str, &'static str) {
    match model.provider.as_str() {
        "anthropic" => ("anthropic", "anthropic-messages"),
        "openai" => ("openai", "openai-responses"),
        "openai-codex" => ("openai-codex", "openai-codex-responses"),
        "gemini" | "google" => ("google", "google-generative-ai"),
        other => (other, "openai-completions"),
    }
}

/// Reasoning as pi keeps it; none where it could not be sent back.
fn thinking(
    reply: &Reply,
    api: &str,
    text: &str,
    signature: &str,
    redacted: bool,
) -> Option<Value> {
    if reply.elsewhere {
        return None;
    }
    let signature = match api {
        "anthropic-messages" | "google-generative-ai" => signature.to_owned(),
        // The item itself, as the model's maker takes it back.
        "openai-responses" | "openai-codex-responses" => {
            let is_item = serde_json::from_str::<Value>(signature).is_ok_and(|v| v.is_object());
            let summary = json!([{ "type": "summary_text", "text": text }]);
            let summary = if text.is_empty() { json!([]) } else { summary };
            let item = json!({
                "type": "reasoning", "summary": summary, "encrypted_content": signature,
            });
            if is_item { signature.to_owned() } else { item.to_string() }
        }
        _ => return None,
    };
    let mut block = json!({
        "type": "thinking", "thinking": text, "thinkingSignature": signature,
    });
    if redacted {
        block["redacted"] = true.into();
    }
    Some(block)
}

/// Replies that failed are not sent by pi: what is left of one here is whole.
fn stop(reply: &Reply) -> &'static str {
    match reply.stop {
        StopReason::Length => "length",
        _ if reply.calls().next().is_some() => "toolUse",
        _ => "stop",
    }
}

fn usage(usage: Usage) -> Value {
    let mut counts = json!({
        "input": usage.input, "output": usage.output,
        "cacheRead": usage.cache_read, "cacheWrite": usage.cache_write,
        "totalTokens": usage.context(),
        "cost": { "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0 },
    });
    if let Some(reasoning) = usage.reasoning {
        counts["reasoning"] = reasoning.into();
    }
    counts
}
