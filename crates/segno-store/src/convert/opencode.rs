//! Files that OpenCode imports.
//!
//! Responsible for: the document of `opencode export` of version 1.18, which `opencode import` takes
//! (`docs/convert.md`). Must not: be known outside this module, or write a database.
//!
//! One document per session: its facts, and messages with their parts. Messages are ordered by their times,
//! then by their ids; parts by their ids. A summary answers a message that asks for it, and that message
//! says from where on the end of what stands before is kept. There are no branches. A subagent's session
//! names its parent. The importing process sets the directory: its own.

use super::ids::Ids;
use super::kept::Kept;
use super::transcript::{Call, Part, Piece, Reply, Said, Transcript, Turn, text_of};
use super::{Child, File, LossKind, Losses, Resume, Session, Work, tools};
use crate::foreign::Agent;
use segno_model::Timestamp;
use segno_model::record::{ModelRef, StopReason, Usage};
use serde_json::{Map, Value, json};

/// The version whose documents these are.
const VERSION: &str = "1.18.33";

/// The agent of OpenCode that gets a prompt if nobody chose one.
const AGENT: &str = "build";

/// The longest title made of a prompt, in characters.
const MOST_TITLE: usize = 80;

/// Writes a session.
pub(super) fn write(work: &Work<'_>, losses: &mut Losses) -> (Vec<File>, Resume) {
    let (session, id) = (work.session, work.options.id.as_str());
    work.transcript.lose_branches(losses);
    let mut files = vec![document(work, session, work.transcript, (id, None), losses)];
    for child in &session.children {
        losses.within(&child.session, |losses| subagent(work, child, id, losses, &mut files));
    }
    let mut resume = Resume::new(session, &["opencode", "--session", id]);
    let import = || ["opencode", "import", Resume::FILE].map(str::to_owned).to_vec();
    resume.before = files.iter().map(|_| import()).collect();
    (files, resume)
}

fn subagent(
    work: &Work<'_>,
    child: &Child,
    parent: &str,
    losses: &mut Losses,
    files: &mut Vec<File>,
) {
    let transcript = Transcript::of(&child.session, Agent::OpenCode, work.blobs, losses);
    transcript.lose_branches(losses);
    let id = child_id(&child.session, parent);
    let parent = (id.as_str(), Some(parent));
    files.push(document(work, &child.session, &transcript, parent, losses));
    for grandchild in &child.session.children {
        losses.within(&grandchild.session, |losses| subagent(work, grandchild, &id, losses, files));
    }
}

fn child_id(session: &Session, parent: &str) -> String {
    let ids = Ids::new(&format!("{parent}\n{}", session.id));
    format!("ses_{}", ids.hex("child", 0, 26))
}

fn document(
    work: &Work<'_>,
    session: &Session,
    transcript: &Transcript,
    (id, parent): (&str, Option<&str>),
    losses: &mut Losses,
) -> File {
    let mut writer = Writer::new(session, id, model_of(transcript));
    writer.transcript(transcript, losses);
    let info = writer.info(work, transcript, parent);
    // Moved, not copied: this is the whole session.
    let messages = Value::Array(writer.messages);
    let document = Map::from_iter([("info".to_owned(), info), ("messages".to_owned(), messages)]);
    let mut bytes = serde_json::to_vec_pretty(&document).unwrap_or_default();
    bytes.push(b'\n');
    File { path: format!("{id}.json").into(), bytes }
}

/// The model that answered last.
fn model_of(transcript: &Transcript) -> ModelRef {
    let path: Vec<&Turn> = transcript.path().map(|(_, turn)| turn).collect();
    let replied = path.iter().rev().find_map(|turn| match &turn.said {
        Said::Reply(reply) => Some(reply.model.clone()),
        _ => None,
    });
    replied.unwrap_or_default()
}

struct Writer<'a> {
    session: &'a Session,
    id: &'a str,
    ids: Ids,
    /// The model for prompts: the one that answers next.
    model: ModelRef,
    messages: Vec<Value>,
    /// How many messages and parts there are.
    count: u64,
    /// The first message of each turn, by index; empty for those of other branches.
    turns: Vec<String>,
    /// The message of the person's side that the next reply answers.
    asked: String,
    /// No message is older than the one before it.
    at: Timestamp,
    used: Usage,
}

impl<'a> Writer<'a> {
    fn new(session: &'a Session, id: &'a str, model: ModelRef) -> Self {
        Self {
            session,
            id,
            ids: Ids::new(id),
            model,
            messages: Vec::new(),
            count: 0,
            turns: Vec::new(),
            asked: format!("msg_{:026}", 0),
            at: Timestamp::default(),
            used: Usage::default(),
        }
    }

    fn info(&self, work: &Work<'_>, transcript: &Transcript, parent: Option<&str>) -> Value {
        let (began, model) = (self.session.began(), model_of(transcript));
        let mut info = json!({
            "id": self.id, "slug": format!("segno-{}", self.ids.hex("slug", 0, 8)),
            "projectID": "global", "directory": self.session.cwd,
        });
        if let Some(parent) = parent {
            info["parentID"] = parent.into();
        }
        info["title"] = title(self.session, transcript).into();
        info["agent"] = AGENT.into();
        info["model"] = json!({ "id": model.id, "providerID": provider(&model) });
        info["version"] = work.options.version.as_deref().unwrap_or(VERSION).into();
        info["cost"] = 0.into();
        info["tokens"] = tokens(self.used);
        let updated = self.at.max(began);
        info["time"] = json!({ "created": whole(began), "updated": whole(updated) });
        info
    }

    /// An id that sorts behind all before it, and before those that OpenCode makes.
    fn next(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}_{:012x}{}", self.count, self.ids.hex(kind, self.count, 14))
    }

    fn transcript(&mut self, transcript: &Transcript, losses: &mut Losses) {
        self.turns = vec![String::new(); transcript.turns.len()];
        for (at, turn) in transcript.path() {
            self.at = self.at.max(turn.at);
            let first = self.turn(transcript, at, turn, losses);
            if let Some(place) = self.turns.get_mut(at) {
                *place = first;
            }
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
            Said::User { parts, notice } => self.user(parts, notice.is_some()),
            Said::BranchSummary { framed, .. } => self.user(&[Part::Text(framed.clone())], true),
            Said::Reply(reply) => self.reply(turn, reply, losses),
            Said::Compaction { summary, .. } => {
                let kept = Kept::of(transcript, at, false);
                let summary = kept.told_with(summary, transcript, losses);
                let from = kept.from.and_then(|from| self.turns.get(from)).cloned();
                self.compaction(&summary, from)
            }
        }
    }

    /// A message; `parts` get their ids.
    fn message(&mut self, id: &str, mut info: Value, parts: Vec<Value>) {
        info["id"] = id.into();
        info["sessionID"] = self.id.into();
        let parts: Vec<Value> = parts
            .into_iter()
            .map(|mut part| {
                part["id"] = self.next("prt").into();
                part["sessionID"] = self.id.into();
                part["messageID"] = id.into();
                let attached = part.pointer_mut("/state/attachments").and_then(Value::as_array_mut);
                for file in attached.into_iter().flatten() {
                    file["id"] = self.next("prt").into();
                    file["sessionID"] = self.id.into();
                    file["messageID"] = id.into();
                }
                part
            })
            .collect();
        self.messages.push(json!({ "info": info, "parts": parts }));
    }

    fn user_info(&self) -> Value {
        let model = json!({ "providerID": provider(&self.model), "modelID": self.model.id });
        let time = json!({ "created": whole(self.at) });
        json!({ "role": "user", "time": time, "agent": AGENT, "model": model })
    }

    fn user(&mut self, parts: &[Part], is_notice: bool) -> String {
        let id = self.next("msg");
        let part = |part: &Part| match part {
            Part::Text(text) if is_notice => {
                json!({ "type": "text", "text": text, "synthetic": true })
            }
            Part::Text(text) => json!({ "type": "text", "text": text }),
            other => file(other),
        };
        let parts = parts.iter().map(part).collect();
        let info = self.user_info();
        self.message(&id, info, parts);
        self.asked.clone_from(&id);
        id
    }

    fn assistant_info(&self, model: &ModelRef, agent: &str, usage: Usage, finish: &str) -> Value {
        let cwd = &self.session.cwd;
        json!({
            "parentID": self.asked, "role": "assistant", "mode": agent, "agent": agent,
            "path": { "cwd": cwd, "root": cwd }, "cost": 0, "tokens": tokens(usage),
            "modelID": model.id, "providerID": provider(model),
            "time": { "created": whole(self.at), "completed": whole(self.at) }, "finish": finish,
        })
    }

    fn reply(&mut self, turn: &Turn, reply: &Reply, losses: &mut Losses) -> String {
        let id = self.next("msg");
        let usage = reply.usage.unwrap_or_default();
        self.used.add(&usage);
        let finish = finish(reply);
        let info = self.assistant_info(&reply.model, AGENT, usage, finish);
        let mut parts = vec![json!({ "type": "step-start" })];
        for piece in &reply.pieces {
            match self.piece(reply, piece, turn, losses) {
                Some(part) => parts.push(part),
                None => losses.of(LossKind::Thinking, turn.seq),
            }
        }
        parts.push(json!({
            "type": "step-finish", "reason": finish, "cost": 0, "tokens": tokens(usage),
        }));
        self.message(&id, info, parts);
        id
    }

    fn piece(
        &self,
        reply: &Reply,
        piece: &Piece,
        turn: &Turn,
        losses: &mut Losses,
    ) -> Option<Value> {
        let time = json!({ "start": whole(self.at), "end": whole(self.at) });
        match piece {
            Piece::Text(text) => Some(json!({ "type": "text", "text": text, "time": time })),
            Piece::Thinking { text, signature, redacted } => {
                let seal = seal(reply, signature, *redacted)?;
                Some(json!({ "type": "reasoning", "text": text, "metadata": seal, "time": time }))
            }
            Piece::Call(call) => {
                let (name, _) = tools::for_agent(
                    &self.session.source,
                    Agent::OpenCode,
                    &call.name,
                    &call.arguments,
                );
                let mut part = json!({ "type": "tool", "tool": name, "callID": call.id });
                part["state"] = self.state(call, losses, turn);
                Some(part)
            }
            Piece::Raw(part) => Some(part.clone()),
        }
    }

    fn state(&self, call: &Call, losses: &mut Losses, turn: &Turn) -> Value {
        let (_, input) =
            tools::for_agent(&self.session.source, Agent::OpenCode, &call.name, &call.arguments);
        let answer = &call.answer;
        let end = answer.at.max(self.at);
        let time = json!({ "start": whole(self.at), "end": whole(end) });
        let text = text_of(&answer.parts);
        let beside: Vec<&Part> = answer.parts.iter().filter(|part| part.is_media()).collect();
        let mut metadata = json!({});
        let child = |child: &&Child| child.call.as_deref() == Some(call.id.as_str());
        if let Some(child) = self.session.children.iter().find(child) {
            metadata["sessionId"] = child_id(&child.session, self.id).into();
        }
        if answer.is_error {
            // An error has no place for files.
            for part in beside {
                let is_image = matches!(part, Part::Image { .. });
                let kind = if is_image { LossKind::Images } else { LossKind::UnknownContent };
                losses.of(kind, answer.seq.unwrap_or(turn.seq));
            }
            return json!({ "status": "error", "input": input, "error": text,
                "metadata": metadata, "time": time });
        }
        let mut state = json!({ "status": "completed", "input": input, "output": text,
            "title": "", "metadata": metadata, "time": time });
        if !beside.is_empty() {
            state["attachments"] = beside.into_iter().map(file).collect();
        }
        state
    }

    /// A request for a summary, and the summary.
    fn compaction(&mut self, summary: &str, from: Option<String>) -> String {
        let asked = self.next("msg");
        let mut part = json!({ "type": "compaction", "auto": false });
        if let Some(from) = from {
            part["tail_start_id"] = from.into();
        }
        let info = self.user_info();
        self.message(&asked, info, vec![part]);
        self.asked.clone_from(&asked);
        let id = self.next("msg");
        let mut info = self.assistant_info(&self.model, "compaction", Usage::default(), "stop");
        info["summary"] = true.into();
        self.message(&id, info, vec![json!({ "type": "text", "text": summary })]);
        asked
    }
}

/// A part of what is no text.
fn file(part: &Part) -> Value {
    let (mime, name, data) = match part {
        Part::Raw(part) => return part.clone(),
        Part::Image { media_type, data } => (media_type.as_str(), None, data.as_str()),
        Part::Document(document) => {
            (document.media_type.as_str(), document.name.clone(), document.data.as_str())
        }
        Part::Text(_) => ("text/plain", None, ""),
    };
    let kind = mime.rsplit('/').next().unwrap_or("image");
    let stem = if mime.starts_with("image/") { "image" } else { "document" };
    json!({
        "type": "file", "mime": mime, "filename": name.unwrap_or_else(|| format!("{stem}.{kind}")),
        "url": format!("data:{mime};base64,{data}"),
    })
}

/// The session's title, or the first words of its first prompt.
fn title(session: &Session, transcript: &Transcript) -> String {
    let first = || {
        transcript.path().find_map(|(_, turn)| match &turn.said {
            Said::User { parts, notice: None } => {
                text_of(parts).lines().map(str::trim).find(|l| !l.is_empty()).map(str::to_owned)
            }
            _ => None,
        })
    };
    let title = session.title().map(str::to_owned).or_else(first);
    let title = title.unwrap_or_else(|| format!("New session - {}", session.began()));
    let mut cut: String = title.chars().take(MOST_TITLE).collect();
    // Half a word says nothing, and half a key is one that no rule finds.
    if cut.len() < title.len()
        && let Some(space) = cut.rfind(char::is_whitespace)
    {
        cut.truncate(space);
    }
    cut
}

fn provider(model: &ModelRef) -> &str {
    match model.provider.as_str() {
        "gemini" => "google",
        other => other,
    }
}

/// What gives reasoning back to the provider that made it. OpenAI's needs the id of its item, which is gone.
fn seal(reply: &Reply, signature: &str, redacted: bool) -> Option<Value> {
    if reply.elsewhere {
        return None;
    }
    match (provider(&reply.model), redacted) {
        ("anthropic", true) => Some(json!({ "anthropic": { "redactedData": signature } })),
        ("anthropic", false) => Some(json!({ "anthropic": { "signature": signature } })),
        ("google", false) => Some(json!({ "google": { "thoughtSignature": signature } })),
        _ => None,
    }
}

fn finish(reply: &Reply) -> &'static str {
    match reply.stop {
        _ if reply.calls().next().is_some() => "tool-calls",
        StopReason::Length => "length",
        _ => "stop",
    }
}

/// OpenCode counts reasoning apart from the output.
fn tokens(usage: Usage) -> Value {
    let reasoning = usage.reasoning.unwrap_or(0);
    json!({
        "input": usage.input, "output": usage.output.saturating_sub(reasoning),
        "reasoning": reasoning,
        "cache": { "read": usage.cache_read, "write": usage.cache_write },
    })
}

/// A time in milliseconds; none is before 1970.
fn whole(at: Timestamp) -> u64 {
    u64::try_from(at.0).unwrap_or(0)
}
