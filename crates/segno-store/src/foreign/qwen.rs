//! Qwen Code's sessions.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.
//!
//! `~/.qwen/projects/DIRECTORY/chats/ID.jsonl` (`QWEN_RUNTIME_DIR`, `QWEN_HOME` move `~/.qwen`), archived ones
//! in `chats/archive/`, subagents in `subagents/ID/`. Read after the source of QwenLM/qwen-code
//! (`packages/core/src/services/chatRecordingService.ts`, 2026); the files in the corpus are constructed from
//! it. The whole-file JSON of the first versions, which were Gemini CLI's, is not read here.
//!
//! Traps: the envelope is Claude Code's and the messages are Gemini's. Going back writes no marker that
//! matters: the next record names an earlier parent. A branch is a copy of every record with its `uuid`.
//! A compression holds the new history whole, not ids. Records of the system are entries of the tree.
//! A provider may give the same call id twice, or none.

mod parts;

use super::agent::Agent;
use super::blocks::misplaced;
use super::chain::Chain;
use super::emitter::{Emitter, Meta};
use super::entries::{Entries, Parent};
use super::input::{ForeignError, Head};
use super::item::Fact;
use super::lines::{Lines, Object};
use super::locate::{Located, Roots, files_below};
use super::mend::Mended;
use parts::{Content, Part, parts, pieces, usage};
use segno_model::finding::Severity;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Established, ModelChange, ModelRef, Outcome,
    UsageRecord,
};
use segno_model::{Body, Seq, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Component, Path};

/// Whether a file is one of Qwen's, by its beginning.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    let text = |row: &Value, key: &str| row.get(key).is_some_and(Value::is_string);
    head.objects().take(64).any(|row| {
        let ours = match row.get("type").and_then(Value::as_str) {
            Some("user" | "assistant") => row["message"]["parts"].is_array(),
            Some("tool_result") => true,
            Some("system") => row.get("systemPayload").is_some() && text(&row, "subtype"),
            _ => false,
        };
        ours && text(&row, "uuid") && text(&row, "sessionId")
    })
}

/// All sessions under `roots`.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    let home = roots.dir("QWEN_HOME", ".qwen");
    let base = roots.env.get("QWEN_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let base = base.map_or(home, Into::into);
    for dir in ["projects", "tmp"] {
        files_below(&base.join(dir), ".jsonl", 4, failed, &mut |path, meta| {
            let Some(place) = Place::of(&path) else { return };
            found.push(Located {
                id: place.id,
                parent: place.parent,
                archived: place.archived,
                ..Located::file(Agent::Qwen, path, &meta)
            });
        });
    }
}

/// What the place of a file tells.
#[derive(Default)]
struct Place {
    id: Option<String>,
    parent: Option<String>,
    archived: bool,
}

impl Place {
    fn of(path: &Path) -> Option<Self> {
        let id = path.file_stem().and_then(OsStr::to_str).map(str::to_owned);
        let mut folders = path.parent()?.components().rev().take(2).map(Component::as_os_str);
        let (last, before) = (folders.next()?, folders.next()?);
        match (before.to_str()?, last.to_str()?) {
            (_, "chats") => Some(Self { id, ..Self::default() }),
            ("chats", "archive") => Some(Self { id, archived: true, ..Self::default() }),
            ("subagents", parent) => {
                Some(Self { id, parent: Some(parent.to_owned()), archived: false })
            }
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row<'a> {
    #[serde(rename = "type")]
    kind: String,
    subtype: Option<String>,
    uuid: Option<String>,
    #[serde(default, deserialize_with = "Parent::given")]
    parent_uuid: Parent,
    session_id: Option<String>,
    timestamp: Option<String>,
    cwd: Option<String>,
    version: Option<String>,
    git_branch: Option<String>,
    provenance: Option<String>,
    #[serde(borrow)]
    message: Option<Content<'a>>,
    model: Option<String>,
    usage_metadata: Option<parts::Tokens>,
    tool_call_result: Option<CallResult>,
    #[serde(borrow)]
    system_payload: Option<&'a RawValue>,
    agent_id: Option<String>,
    agent_name: Option<String>,
    #[serde(default)]
    is_sidechain: bool,
    forked_from: Option<Fork>,
}

#[derive(Deserialize)]
struct CallResult {
    status: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fork {
    session_id: String,
    message_uuid: Option<String>,
}

/// What the payloads of the system's records hold that has a counterpart here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    custom_title: Option<String>,
    title_source: Option<String>,
    parent_session_id: Option<String>,
    model_id: Option<String>,
    auth_type: Option<String>,
    base_url: Option<String>,
    #[serde(borrow)]
    compressed_history: Option<Vec<Content<'a>>>,
}

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let place = Place::of(&session.path).unwrap_or_default();
    out.fact(Fact::Format("jsonl".to_owned()));
    if place.archived {
        out.fact(Fact::Archived);
    }
    let mut reader = Reader { place, ..Reader::default() };
    let mut lines = Lines::open(&session.path)?;
    lines.each_object("qwen.unknown", out, |object, out| Ok(reader.take(object, out)))?;
    if let Some((id, up_to)) = reader.fork {
        out.fact(Fact::ForkOf { id, up_to });
    }
    reader.main.chain.finish(out);
    out.finish(&session.path, lines.bytes())
}

#[derive(Default)]
struct Reader {
    place: Place,
    main: Thread,
    /// Subagents that are mixed into their parent's file.
    sides: HashMap<String, Thread>,
    started: bool,
    told: [Option<String>; 3],
    /// The session that this is a branch of, and the last record that was copied.
    fork: Option<(String, Option<String>)>,
}

#[derive(Default)]
struct Thread {
    chain: Chain,
    entries: Entries,
    leaf: Option<Seq>,
}

impl Reader {
    fn take(&mut self, object: &Object<'_>, out: &mut Emitter<'_>) -> bool {
        let mended = Mended::default();
        let Some(mut row) = mended.parse::<Row<'_>>(object.json) else { return false };
        if row.uuid.is_none() && row.session_id.is_none() {
            // A piece of a record that was cut.
            return false;
        }
        if !matches!(row.kind.as_str(), "user" | "assistant" | "tool_result" | "system") {
            return keep(object, &row.kind, &Meta::default(), out);
        }
        let at = row.timestamp.as_deref().and_then(Timestamp::parse);
        self.facts(&row, at, out);
        let side = if row.is_sidechain && self.place.parent.is_none() {
            Some(row.agent_id.clone().unwrap_or_default())
        } else {
            None
        };
        let mut origin = object.origin.clone();
        origin.id.clone_from(&row.uuid);
        let copy = row.forked_from.is_some();
        let meta =
            Meta { at, origin, copy, inherited: copy, subagent: side.clone(), ..Meta::default() };
        let thread = match side {
            Some(agent) => self.sides.entry(agent).or_default(),
            None => &mut self.main,
        };
        let known = thread.take(&mut row, object, &meta, out);
        if known {
            mended.tell("qwen.record", object.json, &meta, out);
        }
        known
    }

    /// What every record says about the session, told when it changes.
    fn facts(&mut self, row: &Row<'_>, at: Option<Timestamp>, out: &mut Emitter<'_>) {
        if !self.started {
            self.started = true;
            let id = if self.place.parent.is_some() { &self.place.id } else { &row.session_id };
            let parent = self.place.parent.clone().map(|parent| Fact::ChildOf {
                parent,
                call: None,
                role: row.agent_name.clone(),
            });
            let facts = [id.clone().map(Fact::Id), at.map(Fact::Created), parent];
            facts.into_iter().flatten().for_each(|fact| out.fact(fact));
        }
        let [version, cwd, branch] = &mut self.told;
        out.fact_if_new(version, row.version.as_ref(), Fact::Version);
        out.fact_if_new(cwd, row.cwd.as_ref(), Fact::Cwd);
        out.fact_if_new(branch, row.git_branch.as_ref(), Fact::Branch);
        if let Some(fork) = &row.forked_from {
            self.fork = Some((fork.session_id.clone(), fork.message_uuid.clone()));
        }
    }
}

impl Thread {
    fn take(
        &mut self,
        row: &mut Row<'_>,
        object: &Object<'_>,
        meta: &Meta,
        out: &mut Emitter<'_>,
    ) -> bool {
        let repeated = row.uuid.as_deref().is_some_and(|id| self.entries.node(id).is_some());
        if repeated {
            let sentence = "A record stands here under the id of an earlier one.";
            let done = "It was read as what follows that one.";
            out.found("duplicate-record", Severity::Warning, &meta.origin, sentence, done);
        }
        let parent = if repeated {
            row.uuid.as_deref().and_then(|id| self.entries.node(id)).flatten()
        } else {
            self.entries.hang(&row.parent_uuid, self.chain.last(), &meta.origin, out)
        };
        self.chain.go_to(parent);
        let first = out.next_seq();
        let known = match row.kind.as_str() {
            "user" => self.user(row, meta, out),
            "assistant" => self.reply(row, meta, out),
            "tool_result" => self.results(row, meta, out),
            _ => self.system(row, object, meta, out),
        };
        if let Some(id) = &row.uuid {
            self.entries.insert(id, self.chain.last());
        }
        let node = self.chain.last();
        if node.is_some_and(|node| node >= first) {
            self.leaf = node;
        } else if node != self.leaf && meta.subagent.is_none() {
            self.leaf = node;
            out.fact(Fact::Tip(node));
        }
        known
    }

    fn user(&mut self, row: &mut Row<'_>, meta: &Meta, out: &mut Emitter<'_>) -> bool {
        let Some(content) = row.message.take() else { return false };
        let notice = match (row.subtype.as_deref(), row.provenance.as_deref()) {
            (Some(kind), _) if kind != "mid_turn_user_message" => Some(kind.to_owned()),
            (_, Some(from @ ("system" | "goal_control" | "goal_runtime"))) => Some(from.to_owned()),
            _ => None,
        };
        let words = shown(content, meta, out);
        if !words.is_empty() {
            self.chain.user(words, notice.as_deref(), meta.clone(), out);
        }
        true
    }

    fn reply(&mut self, row: &mut Row<'_>, meta: &Meta, out: &mut Emitter<'_>) -> bool {
        let response = row.uuid.as_ref().map(|id| format!("qwen:{id}"));
        let meta = &Meta { response, ..meta.clone() };
        let model = ModelRef::new("", row.model.as_deref().unwrap_or_default());
        let usage = row.usage_metadata.as_ref().map(usage);
        let Some(content) = row.message.take() else {
            let Some(usage) = usage else { return false };
            // A reply that said nothing.
            let spent = UsageRecord { purpose: "reply".to_owned(), model, usage };
            out.record(Body::Usage(spent), meta.clone());
            return true;
        };
        let mut said = Vec::new();
        for (part, raw) in pieces(content, meta, out) {
            match part {
                Part::Said(block) => said.push(block),
                Part::Text(text) => said.push(AssistantBlock::Text { text }),
                Part::Unknown(raw) => {
                    said.push(AssistantBlock::Unknown);
                    out.custom("qwen.part", &raw, meta.clone());
                }
                Part::Image(_) | Part::Result(_) => misplaced("qwen.part", raw, meta, out),
            }
        }
        let mut reply = AssistantMessage::new(&model, said);
        reply.usage = usage;
        self.chain.reply(reply, meta.clone(), out);
        true
    }

    fn results(&mut self, row: &mut Row<'_>, meta: &Meta, out: &mut Emitter<'_>) -> bool {
        let Some(content) = row.message.take() else { return false };
        let status = row.tool_call_result.as_ref().and_then(|result| result.status.as_deref());
        let mut words = Vec::new();
        for (part, raw) in pieces(content, meta, out) {
            match part {
                Part::Result(mut answer) => {
                    match status {
                        Some("cancelled") => {
                            answer.outcome = Outcome::Stopped;
                            answer.established = Established::Stop;
                        }
                        Some("error") => answer.outcome = Outcome::Failed,
                        _ => {}
                    }
                    self.chain.result(answer, meta.clone(), out);
                }
                Part::Text(text) => words.push(Block::text(text)),
                Part::Image(block) => words.push(block),
                Part::Unknown(raw) => {
                    out.custom("qwen.part", &raw, meta.clone());
                }
                Part::Said(_) => misplaced("qwen.part", raw, meta, out),
            }
        }
        if !words.is_empty() {
            self.chain.user(words, Some("tool_result"), meta.clone(), out);
        }
        true
    }

    fn system(
        &mut self,
        row: &Row<'_>,
        object: &Object<'_>,
        meta: &Meta,
        out: &mut Emitter<'_>,
    ) -> bool {
        let subtype = row.subtype.as_deref().unwrap_or("system");
        let payload = row.system_payload.map_or("{}", RawValue::get);
        let mended = Mended::default();
        let Some(payload) = mended.parse::<Payload<'_>>(payload) else {
            return keep(object, subtype, meta, out);
        };
        mended.tell(&format!("qwen.{subtype}"), object.json, meta, out);
        match (subtype, payload) {
            ("chat_compression", Payload { compressed_history: Some(history), .. }) => {
                self.compression(history, meta, out);
                true
            }
            ("custom_title", Payload { custom_title: Some(title), title_source, .. }) => {
                let is_auto = title_source.as_deref() == Some("auto");
                out.fact(if is_auto { Fact::Titled(title) } else { Fact::Named(title) });
                true
            }
            ("parent_session", Payload { parent_session_id: Some(parent), .. }) => {
                out.fact(Fact::ChildOf { parent, call: None, role: None });
                true
            }
            ("session_model", Payload { model_id: Some(id), auth_type, base_url, .. }) => {
                let model = ModelRef::new(auth_type.as_deref().unwrap_or_default(), &id);
                let change = ModelChange { model, chosen: true, base_url };
                out.record(Body::Model(change), meta.clone());
                true
            }
            _ => keep(object, subtype, meta, out),
        }
    }

    /// The first content of the new history is the summary; what follows was said before.
    fn compression(&mut self, history: Vec<Content<'_>>, meta: &Meta, out: &mut Emitter<'_>) {
        let mut history = history.into_iter();
        let summary = history.next().map(|content| parts(content, meta, out)).unwrap_or_default();
        let texts = summary.into_iter().filter_map(|part| match part {
            Part::Text(text) => Some(text),
            _ => None,
        });
        let summary = texts.collect::<Vec<_>>().join("\n");
        self.chain.summary(summary, Vec::new(), meta.clone(), out);
        let copy = Meta { copy: true, inherited: false, ..meta.clone() };
        for content in history {
            let is_reply = content.role.as_deref() == Some("model");
            let parts = parts(content, &copy, out);
            let (results, rest): (Vec<Part>, Vec<Part>) =
                parts.into_iter().partition(|part| matches!(part, Part::Result(_)));
            for part in results {
                if let Part::Result(answer) = part {
                    self.chain.result(answer, copy.clone(), out);
                }
            }
            if is_reply {
                let said = rest.into_iter().map(|part| match part {
                    Part::Said(block) => block,
                    Part::Text(text) => AssistantBlock::Text { text },
                    _ => AssistantBlock::Unknown,
                });
                let reply = AssistantMessage::new(&ModelRef::default(), said.collect());
                self.chain.reply(reply, copy.clone(), out);
            } else if !rest.is_empty() {
                let words = rest.into_iter().map(|part| match part {
                    Part::Text(text) => Block::text(text),
                    Part::Image(block) => block,
                    _ => Block::Unknown,
                });
                self.chain.user(words.collect(), None, copy.clone(), out);
            }
        }
    }
}

/// What a content shows on the person's side.
fn shown(content: Content<'_>, meta: &Meta, out: &mut Emitter<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (part, raw) in pieces(content, meta, out) {
        match part {
            Part::Text(text) => blocks.push(Block::text(text)),
            Part::Image(block) => blocks.push(block),
            Part::Unknown(raw) => {
                out.custom("qwen.part", &raw, meta.clone());
            }
            Part::Said(_) | Part::Result(_) => misplaced("qwen.part", raw, meta, out),
        }
    }
    blocks
}

fn keep(object: &Object<'_>, kind: &str, meta: &Meta, out: &mut Emitter<'_>) -> bool {
    let Ok(raw) = serde_json::from_str::<&RawValue>(object.json) else { return false };
    let origin = object.origin.clone();
    out.custom(&format!("qwen.{kind}"), raw, Meta { origin, ..meta.clone() });
    true
}
