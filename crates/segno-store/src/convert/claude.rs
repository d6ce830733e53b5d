//! Claude Code's session files.
//!
//! Responsible for: rows of version 2.1 as its reader takes them (`docs/convert.md`). Must not: be known
//! outside this module.
//!
//! `projects/<directory>/<session>.jsonl`, one row per block of a reply, each behind the one before it;
//! subagents in `<session>/subagents/agent-<id>.jsonl` with `agent-<id>.meta.json` beside. A compaction is a
//! `compact_boundary` without a parent, which lists the rows that stand again behind the summary, and the
//! summary. The session goes on behind the last row, so the current path is written last.

use super::ids::Ids;
use super::transcript::{Call, Document, Part, Piece, Reply, Said, Turn, text_of};
use super::{Child, File, LossKind, Losses, Resume, Session, Transcript, Work, tools};
use crate::foreign::Agent;
use segno_model::record::{StopReason, Usage};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The version whose rows these are.
const VERSION: &str = "2.1.332";

/// Who made the reasoning that may be carried.
const PROVIDER: &str = "anthropic";

/// The longest name of a project's folder.
const MOST_FOLDER: usize = 200;

/// Writes a session.
pub(super) fn write(work: &Work<'_>, losses: &mut Losses) -> (Vec<File>, Resume) {
    let (session, id) = (work.session, work.options.id.as_str());
    let folder = Path::new("projects").join(folder_of(&session.cwd));
    let mut writer = Writer::new(work, None);
    writer.title();
    writer.transcript(work.transcript, losses);
    writer.end();
    let mut files = vec![File { path: folder.join(format!("{id}.jsonl")), bytes: writer.out }];
    let below = folder.join(id).join("subagents");
    for child in &session.children {
        losses.within(&child.session, |losses| {
            children(work, child, (&below, 1), losses, &mut files);
        });
    }
    (files, Resume::new(session, &["claude", "--resume", id]))
}

/// The name of a project's folder: whatever is no letter or digit is a dash.
fn folder_of(cwd: &str) -> String {
    let dashed = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    cwd.chars().map(dashed).take(MOST_FOLDER).collect()
}

fn children(
    work: &Work<'_>,
    child: &Child,
    (below, depth): (&Path, u64),
    losses: &mut Losses,
    files: &mut Vec<File>,
) {
    let transcript = Transcript::of(&child.session, Agent::Claude, work.blobs, losses);
    let agent = agent_id(&child.session);
    let mut writer = Writer::new(work, Some((&child.session, agent.clone())));
    writer.transcript(&transcript, losses);
    let path = |end: &str| -> PathBuf { below.join(format!("agent-{agent}{end}")) };
    files.push(File { path: path(".jsonl"), bytes: writer.out });
    let meta = json!({
        "agentType": child.role.as_deref().unwrap_or("general-purpose"),
        "toolUseId": child.call,
        "spawnDepth": depth,
        "finished": true,
    });
    files.push(File { path: path(".meta.json"), bytes: meta.to_string().into_bytes() });
    for grandchild in &child.session.children {
        losses.within(&grandchild.session, |losses| {
            children(work, grandchild, (below, depth + 1), losses, files);
        });
    }
}

/// A subagent's id: its own where it can be one here.
fn agent_id(session: &Session) -> String {
    let fit = |id: &&String| !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric());
    let own = Some(&session.id).filter(fit).cloned();
    own.unwrap_or_else(|| Ids::new(&session.id).hex("agent", 0, 17))
}

struct Writer<'a> {
    session: &'a Session,
    id: &'a str,
    version: &'a str,
    /// Set in a subagent's file.
    agent: Option<String>,
    ids: Ids,
    rows: u64,
    /// The rows of each turn.
    turns: Vec<Vec<String>>,
    last: Option<String>,
    prompt: Option<String>,
    out: Vec<u8>,
}

impl<'a> Writer<'a> {
    fn new(work: &Work<'a>, child: Option<(&'a Session, String)>) -> Self {
        let (session, agent) = match child {
            Some((session, agent)) => (session, Some(agent)),
            None => (work.session, None),
        };
        let id = work.options.id.as_str();
        let seed = format!("{id}\n{}", agent.as_deref().unwrap_or_default());
        Self {
            session,
            id,
            version: work.options.version.as_deref().unwrap_or(VERSION),
            agent,
            ids: Ids::new(&seed),
            rows: 0,
            turns: Vec::new(),
            last: None,
            prompt: None,
            out: Vec::new(),
        }
    }

    fn title(&mut self) {
        let row = match (&self.session.named, &self.session.titled) {
            (Some(name), _) => json!({ "type": "custom-title", "customTitle": name }),
            (None, Some(title)) => json!({ "type": "ai-title", "aiTitle": title }),
            (None, None) => return,
        };
        self.aside(row);
    }

    /// A row outside the chain.
    fn aside(&mut self, mut row: Value) {
        row["sessionId"] = self.id.into();
        self.line(&row);
    }

    fn line(&mut self, row: &Value) {
        self.out.extend_from_slice(row.to_string().as_bytes());
        self.out.push(b'\n');
    }

    fn transcript(&mut self, transcript: &Transcript, losses: &mut Losses) {
        for turn in &transcript.turns {
            let parent = turn.parent.and_then(|at| self.turns.get(at)?.last().cloned());
            self.last = parent;
            let before = self.rows;
            self.turn(turn, losses);
            // A row that hangs on one that a summary keeps is taken for one behind the summary. On other
            // branches what is kept stands again instead.
            if let Said::Compaction { kept, .. } = &turn.said
                && !turn.active
            {
                for turn in kept.iter().filter_map(|at| transcript.turns.get(*at)) {
                    self.turn(&again(turn), &mut Losses::default());
                }
            }
            let rows = (before..self.rows).map(|n| self.ids.named("row", n)).collect();
            self.turns.push(rows);
        }
    }

    fn turn(&mut self, turn: &Turn, losses: &mut Losses) {
        match &turn.said {
            Said::User { parts, notice } => {
                let mut row = Map::new();
                if notice.is_some() {
                    row.insert("isMeta".to_owned(), true.into());
                } else {
                    self.prompt = Some(text_of(parts));
                }
                self.row(turn, "user", "message", user(parts), row);
            }
            Said::BranchSummary { framed, .. } => {
                let row = Map::from_iter([("isMeta".to_owned(), true.into())]);
                let message = user(&[Part::Text(framed.clone())]);
                self.row(turn, "user", "message", message, row);
            }
            Said::Reply(reply) => self.reply(turn, reply, losses),
            Said::Compaction { summary, kept, tokens_before } => {
                let kept = if turn.active { kept.as_slice() } else { &[] };
                self.compaction(turn, summary, kept, *tokens_before);
            }
        }
    }

    fn reply(&mut self, turn: &Turn, reply: &Reply, losses: &mut Losses) {
        if reply.model.provider != PROVIDER {
            losses.of(LossKind::Models, turn.seq);
        }
        let message_id = format!("msg_{}", self.ids.hex("message", self.rows, 24));
        let mut calls = Vec::new();
        for piece in &reply.pieces {
            let block = match piece {
                Piece::Text(text) => json!({ "type": "text", "text": text }),
                Piece::Thinking { .. } if !reply.thinks_for(PROVIDER) => {
                    losses.of(LossKind::Thinking, turn.seq);
                    continue;
                }
                Piece::Thinking { signature, redacted: true, .. } => {
                    json!({ "type": "redacted_thinking", "data": signature })
                }
                Piece::Thinking { text, signature, .. } => {
                    json!({ "type": "thinking", "thinking": text, "signature": signature })
                }
                Piece::Call(call) => {
                    let (name, input) = self.call(call);
                    json!({ "type": "tool_use", "id": call.id, "name": name, "input": input })
                }
                Piece::Raw(block) => block.clone(),
            };
            let message = json!({
                "id": message_id, "type": "message", "role": "assistant",
                "model": Some(reply.model.id.as_str()).filter(|id| !id.is_empty()).unwrap_or("unknown"),
                "content": [block],
                "stop_reason": stop(reply.stop), "stop_sequence": null,
                "usage": usage(reply.usage.unwrap_or_default()),
            });
            self.row(turn, "assistant", "message", message, Map::new());
            if let Piece::Call(call) = piece {
                calls.push((call, self.last.clone()));
            }
        }
        for (call, row) in calls {
            self.result(turn, call, row);
        }
    }

    fn call(&self, call: &Call) -> (String, Map<String, Value>) {
        tools::for_agent(&self.session.source, Agent::Claude, &call.name, &call.arguments)
    }

    fn result(&mut self, turn: &Turn, call: &Call, of: Option<String>) {
        let answer = &call.answer;
        let content = match answer.parts.as_slice() {
            [Part::Text(text)] => Value::from(text.as_str()),
            parts => blocks(parts),
        };
        let message = json!({ "role": "user", "content": [{
            "tool_use_id": call.id, "type": "tool_result", "content": content,
            "is_error": answer.is_error,
        }]});
        let mut row = Map::new();
        row.extend(of.map(|of| ("sourceToolAssistantUUID".to_owned(), of.into())));
        let turn = Turn { at: answer.at, ..turn.clone() };
        self.row(&turn, "user", "message", message, row);
    }

    fn compaction(&mut self, turn: &Turn, summary: &str, kept: &[usize], before: Option<u64>) {
        let rows: Vec<&String> =
            kept.iter().filter_map(|at| self.turns.get(*at)).flatten().collect();
        let anchor = self.ids.named("row", self.rows + 1);
        let mut metadata = json!({ "trigger": "auto", "preTokens": before.unwrap_or(0) });
        if !rows.is_empty() {
            metadata["preservedMessages"] =
                json!({ "anchorUuid": anchor, "uuids": rows, "allUuids": rows });
        }
        let marks = ["isVisibleInTranscriptOnly", "isCompactSummary"];
        let summary_row = marks.map(|mark| (mark.to_owned(), true.into())).into_iter().collect();
        let summary = user(&[Part::Text(summary.to_owned())]);
        if self.last.is_none() && rows.is_empty() {
            // Without a parent, a boundary would belong to whatever was written last.
            return self.row(turn, "user", "message", summary, summary_row);
        }
        let mut row = Map::new();
        row.extend(self.last.take().map(|last| ("logicalParentUuid".to_owned(), last.into())));
        row.insert("subtype".to_owned(), "compact_boundary".into());
        row.insert("content".to_owned(), "Conversation compacted".into());
        row.insert("isMeta".to_owned(), false.into());
        row.insert("level".to_owned(), "info".into());
        self.row(turn, "system", "compactMetadata", metadata, row);
        self.row(turn, "user", "message", summary, summary_row);
    }

    /// A row of the chain, behind the last one.
    fn row(&mut self, turn: &Turn, kind: &str, name: &str, value: Value, more: Map<String, Value>) {
        let uuid = self.ids.named("row", self.rows);
        self.rows += 1;
        let mut row = json!({ "parentUuid": self.last, "isSidechain": self.agent.is_some() });
        if let Some(agent) = &self.agent {
            row["agentId"] = agent.as_str().into();
        }
        row["type"] = kind.into();
        row[name] = value;
        for (name, value) in more {
            row[name] = value;
        }
        row["uuid"] = uuid.as_str().into();
        row["timestamp"] = turn.at.to_string().into();
        row["userType"] = "external".into();
        row["cwd"] = self.session.cwd.as_str().into();
        row["sessionId"] = self.id.into();
        row["version"] = self.version.into();
        row["gitBranch"] = self.session.branch.as_deref().unwrap_or_default().into();
        self.line(&row);
        self.last = Some(uuid);
    }

    fn end(&mut self) {
        if let (Some(prompt), Some(leaf)) = (self.prompt.clone(), self.last.clone()) {
            self.aside(json!({ "type": "last-prompt", "lastPrompt": prompt, "leafUuid": leaf }));
        }
    }
}

/// A turn that stands a second time: it was spent once.
fn again(turn: &Turn) -> Turn {
    let mut again = turn.clone();
    if let Said::Reply(reply) = &mut again.said {
        reply.usage = None;
    }
    again
}

fn user(parts: &[Part]) -> Value {
    match parts {
        [Part::Text(text)] => json!({ "role": "user", "content": text }),
        parts => json!({ "role": "user", "content": blocks(parts) }),
    }
}

fn blocks(parts: &[Part]) -> Value {
    let block = |part: &Part| match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Image { media_type, data } => json!({ "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data } }),
        Part::Document(Document { media_type, name, data }) => {
            let mut block = json!({ "type": "document",
                "source": { "type": "base64", "media_type": media_type, "data": data } });
            if let Some(name) = name {
                block["title"] = name.as_str().into();
            }
            block
        }
        Part::Raw(block) => block.clone(),
    };
    parts.iter().map(block).collect()
}

fn stop(reason: StopReason) -> &'static str {
    match reason {
        StopReason::ToolUse => "tool_use",
        StopReason::Length => "max_tokens",
        StopReason::Refusal => "refusal",
        StopReason::End | StopReason::Stopped | StopReason::Broken | StopReason::Other => {
            "end_turn"
        }
    }
}

fn usage(usage: Usage) -> Value {
    let mut told = json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    });
    if let Some(thinking) = usage.reasoning {
        told["output_tokens_details"] = json!({ "thinking_tokens": thinking });
    }
    told
}
