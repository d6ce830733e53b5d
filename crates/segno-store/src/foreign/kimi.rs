//! Kimi CLI's sessions.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.
//!
//! `~/.kimi/sessions/MD5_OF_DIRECTORY/ID/context.jsonl` (`KIMI_SHARE_DIR` moves `~/.kimi`), before that
//! `…/ID.jsonl`; beside it `context_N.jsonl`, `wire.jsonl`, `state.json` and `subagents/ID/context.jsonl`.
//! Read after the source of MoonshotAI/kimi-cli (`src/kimi_cli/soul/context.py`, `soul/compaction.py`,
//! `session.py`, `session_state.py`, `wire/file.py`, `packages/kosong/…/message.py`, versions 1.x); the files
//! in the corpus are constructed from it.
//!
//! Traps: undoing, clearing and compacting move the file to `context_N.jsonl` and write a new one, which
//! begins with copies of the old one: all of them together are the session, and only the newest is sent.
//! Messages have no time; the turns' times are in `wire.jsonl`, which says everything else again. The summary
//! is a user's message. A failed result is known by its words. The directory is hashed in the path and
//! written out only in the system prompt.

use super::agent::Agent;
use super::chain::{Answer, Chain};
use super::emitter::{Emitter, Meta};
use super::input::{self, ForeignError, Head};
use super::item::Fact;
use super::lines::{Lines, Object};
use super::locate::{Located, Roots, files_below};
use super::mend::Mended;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, ModelRef, Text, ToolCall, Usage, UsageRecord,
};
use segno_model::{Body, Seq, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};

const CONTEXT: &str = "context.jsonl";

/// With this, in `<system>`, a summary begins.
const COMPACTED: &str = "Previous context has been compacted";

/// Whether a file or folder is one of Kimi's, by its beginning.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    if head.bytes.is_empty() {
        let path = head.path.join(CONTEXT);
        return input::ask(&path, |head| is_ours(head).then_some(()))
            .is_ok_and(|(_, ours)| ours.is_some());
    }
    is_ours(head)
}

/// Messages in the shape of OpenAI's, and at least one line that only Kimi writes.
fn is_ours(head: &Head<'_>) -> bool {
    let role = |row: &serde_json::Value| match row.get("role").and_then(|role| role.as_str()) {
        Some("_system_prompt") if row.get("content").is_some() => true,
        Some("_checkpoint") if row.get("id").is_some() => true,
        Some("_usage") if row.get("token_count").is_some() => true,
        _ => false,
    };
    head.objects().any(|row| role(&row))
}

/// All sessions under `roots`.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    let sessions = roots.dir("KIMI_SHARE_DIR", ".kimi").join("sessions");
    files_below(&sessions, ".jsonl", 4, failed, &mut |path, meta| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let is_old = path.parent().and_then(Path::parent) == Some(&sessions);
        if name == CONTEXT || is_old {
            let (id, parent) = names(&path);
            found.push(Located { id, parent, ..Located::file(Agent::Kimi, path, &meta) });
        }
    });
}

/// A session's id and its parent's, from the place.
fn names(path: &Path) -> (Option<String>, Option<String>) {
    let name = |path: &Path| path.file_name().and_then(OsStr::to_str).map(str::to_owned);
    if path.file_name() != Some(OsStr::new(CONTEXT)) {
        return (path.file_stem().and_then(OsStr::to_str).map(str::to_owned), None);
    }
    let folder = path.parent();
    let above = folder.and_then(Path::parent);
    let of_subagents = above.filter(|above| above.file_name() == Some(OsStr::new("subagents")));
    (folder.and_then(name), of_subagents.and_then(Path::parent).and_then(name))
}

#[derive(Deserialize)]
struct Row<'a> {
    role: String,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    tool_calls: Option<Vec<Call>>,
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct Call {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    think: Option<String>,
    encrypted: Option<String>,
    #[serde(alias = "audio_url", alias = "video_url")]
    image_url: Option<Url>,
}

#[derive(Deserialize)]
struct Url {
    url: String,
}

#[derive(Deserialize)]
struct State {
    custom_title: Option<String>,
    #[serde(default)]
    archived: bool,
    worktree_path: Option<String>,
}

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let is_folder = session.path.is_dir();
    let path = if is_folder { session.path.join(CONTEXT) } else { session.path.clone() };
    let (id, parent) = names(&path);
    out.fact(Fact::Format("context-jsonl".to_owned()));
    id.into_iter().for_each(|id| out.fact(Fact::Id(id)));
    if let Some(parent) = parent {
        out.fact(Fact::ChildOf { parent, call: None, role: None });
    }
    let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
    let is_current = path.file_name() == Some(OsStr::new(CONTEXT));
    let mut reader = Reader::default();
    let wire = folder.join("wire.jsonl");
    let (mut spent, mut bytes) = (Vec::new(), 0);
    if is_current && wire.is_file() {
        out.in_file(&wire);
        spent = read_wire(&wire, &mut reader, out)?;
    }
    let mut files = if is_current { earlier(&folder)? } else { Vec::new() };
    files.push(path);
    let is_one = files.len() == 1;
    for file in files {
        reader.begin();
        out.in_file(&file);
        let mut lines = Lines::open(&file)?;
        lines.each_object("kimi.unknown", out, |object, out| Ok(reader.take(object, out)))?;
        bytes += lines.bytes();
    }
    if !is_one {
        // A call that is still open may stand in any of them.
        out.in_no_file();
    }
    reader.end(out);
    out.in_no_file();
    for (at, response, usage) in spent {
        let model = ModelRef::default();
        let body = Body::Usage(UsageRecord { purpose: "reply".to_owned(), model, usage });
        out.record(body, Meta { at: Some(at), response, ..Meta::default() });
    }
    if is_current {
        state(&folder.join("state.json"), out);
    }
    out.finish(&session.path, bytes)
}

/// The files that were the context before, the oldest first.
fn earlier(folder: &Path) -> Result<Vec<PathBuf>, ForeignError> {
    let entries = std::fs::read_dir(folder).map_err(|e| ForeignError::io(folder, e))?;
    let numbered = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let number = name.strip_prefix("context_")?.strip_suffix(".jsonl")?.parse::<u64>().ok()?;
        Some((number, path))
    };
    let mut files: Vec<_> =
        entries.filter_map(Result::ok).filter_map(|entry| numbered(entry.path())).collect();
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

fn state(path: &Path, out: &mut Emitter<'_>) {
    let mut text = Vec::new();
    let read = input::open(path).and_then(|file| file.take(1 << 20).read_to_end(&mut text));
    let mended = Mended::default();
    let text = String::from_utf8_lossy(&text);
    let Some(state) = mended.parse::<State>(&text) else { return };
    mended.found(&super::item::Origin::default(), out);
    if read.is_err() {
        return;
    }
    if let Some(title) = state.custom_title {
        out.fact(Fact::Named(title));
    }
    if let Some(cwd) = state.worktree_path {
        out.fact(Fact::Cwd(cwd));
    }
    if state.archived {
        out.fact(Fact::Archived);
    }
}

type Spent = (Timestamp, Option<String>, Usage);

/// The times of the turns and what the replies cost.
fn read_wire(
    path: &Path,
    reader: &mut Reader,
    out: &mut Emitter<'_>,
) -> Result<Vec<Spent>, ForeignError> {
    let mut spent = Vec::new();
    let mut lines = Lines::open(path)?;
    lines.each_object("kimi.wire", out, |object, _| {
        let Ok(row) = serde_json::from_str::<Wire<'_>>(object.json) else {
            // Its first line says the version of the protocol.
            return Ok(object.json.contains("protocol_version"));
        };
        let at = Timestamp((row.timestamp * 1000.0) as i64);
        match row.message.kind.as_str() {
            "TurnBegin" => {
                if let Ok(turn) = serde_json::from_str::<TurnBegin<'_>>(row.message.payload.get()) {
                    reader.turns.push_back((hash(&text_of(turn.user_input)), at));
                }
            }
            "StatusUpdate" => {
                if let Some(status) = Mended::default().parse::<Status>(row.message.payload.get())
                    && let Some(tokens) = status.token_usage
                {
                    let response = status.message_id.map(|id| format!("kimi:{id}"));
                    spent.push((at, response, tokens.into()));
                }
            }
            _ => {}
        }
        Ok(true)
    })?;
    Ok(spent)
}

#[derive(Deserialize)]
struct Wire<'a> {
    timestamp: f64,
    #[serde(borrow)]
    message: WireMessage<'a>,
}

#[derive(Deserialize)]
struct WireMessage<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Deserialize)]
struct TurnBegin<'a> {
    #[serde(borrow)]
    user_input: &'a RawValue,
}

#[derive(Deserialize)]
struct Status {
    token_usage: Option<Tokens>,
    message_id: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    input_other: u64,
    output: u64,
    input_cache_read: u64,
    input_cache_creation: u64,
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        Self {
            input: tokens.input_other,
            output: tokens.output,
            cache_read: tokens.input_cache_read,
            cache_write: tokens.input_cache_creation,
            reasoning: None,
        }
    }
}

#[derive(Default)]
struct Reader {
    chain: Chain,
    /// Turns of the wire log that are not yet found in the context: their text and time.
    turns: VecDeque<(u64, Timestamp)>,
    /// What follows a node, by the line's text.
    next: HashMap<(Option<Seq>, u64), Seq>,
    /// All lines, by their text.
    seen: HashSet<u64>,
    /// Whether the file so far is what an earlier one began with.
    repeats: bool,
    /// Whether what follows is kept by a compaction.
    keeps: bool,
    /// Where the earlier file ended.
    before: Option<Seq>,
    emitted: Option<Seq>,
    placed: bool,
}

impl Reader {
    fn begin(&mut self) {
        self.before = self.chain.last();
        self.chain.go_to(None);
        (self.repeats, self.keeps) = (true, false);
    }

    fn end(&mut self, out: &mut Emitter<'_>) {
        self.chain.finish(out);
        if self.chain.last() != self.emitted {
            out.fact(Fact::Tip(self.chain.last()));
        }
    }

    fn take(&mut self, object: &Object<'_>, out: &mut Emitter<'_>) -> bool {
        let mended = Mended::default();
        let Some(row) = mended.parse::<Row<'_>>(object.json) else { return false };
        let text = hash(object.json);
        let is_new = self.seen.insert(text);
        let meta = Meta { origin: object.origin.clone(), ..Meta::default() };
        if row.role.starts_with('_') {
            self.place(&row, out);
            return !is_new || keep(object, &row.role, meta, out);
        }
        if let Some(node) = self.next.get(&(self.chain.last(), text)).filter(|_| self.repeats) {
            self.chain.go_to(Some(*node));
            return true;
        }
        self.repeats = false;
        self.keeps = self.keeps && !is_new;
        let from = self.chain.last();
        if !self.message(
            row,
            object,
            Meta { copy: self.keeps, inherited: false, ..meta.clone() },
            out,
        ) {
            return false;
        }
        mended.tell("kimi.message", object.json, &meta, out);
        if let Some(node) = self.chain.last() {
            self.next.insert((from, text), node);
            self.emitted = Some(node);
        }
        true
    }

    fn message(
        &mut self,
        row: Row<'_>,
        object: &Object<'_>,
        meta: Meta,
        out: &mut Emitter<'_>,
    ) -> bool {
        let mended = Mended::default();
        let parts = row.content.map_or(Some(Vec::new()), |content| parts(content, &mended));
        let Some(parts) = parts else { return false };
        mended.tell("kimi.message", object.json, &meta, out);
        match row.role.as_str() {
            "user" => self.user(parts, meta, out),
            "assistant" => self.reply(parts, row.tool_calls.unwrap_or_default(), meta, out),
            "tool" => {
                let content: Vec<Block> = parts.into_iter().map(shown).collect();
                let failed = content.first().is_some_and(|block| match block {
                    Block::Text { text } => text.head().starts_with("<system>ERROR"),
                    _ => false,
                });
                let answer = Answer::ended(row.tool_call_id.unwrap_or_default(), content, failed);
                self.chain.result(answer, meta, out);
            }
            role => return keep(object, role, meta, out),
        }
        true
    }

    fn user(&mut self, parts: Vec<Part>, mut meta: Meta, out: &mut Emitter<'_>) {
        let system = |part: &Part| {
            let text = part.text.as_deref().unwrap_or_default();
            text.starts_with("<system>") || text.starts_with("<system-reminder>")
        };
        let is_summary = parts.first().is_some_and(|part| {
            system(part) && part.text.as_deref().is_some_and(|text| text.contains(COMPACTED))
        });
        if is_summary {
            let texts = parts.into_iter().skip(1).filter_map(|part| part.text);
            self.chain.go_to(self.chain.last().or(self.before));
            self.chain.summary(texts.collect::<Vec<_>>().join("\n"), Vec::new(), meta, out);
            self.keeps = true;
            return;
        }
        let notice = parts.iter().all(system).then_some("system");
        let words: String = parts.iter().filter_map(|part| part.text.as_deref()).collect();
        let words = hash(&words);
        if let Some(at) = self.turns.iter().position(|(text, _)| *text == words) {
            meta.at = self.turns.drain(..=at).next_back().map(|(_, at)| at);
        }
        self.chain.user(parts.into_iter().map(shown).collect(), notice, meta, out);
    }

    fn reply(&mut self, parts: Vec<Part>, calls: Vec<Call>, meta: Meta, out: &mut Emitter<'_>) {
        let said =
            parts.into_iter().map(|part| match (part.kind.as_str(), part.text, part.think) {
                ("text", Some(text), _) => AssistantBlock::Text { text },
                ("think", _, text) => AssistantBlock::Thinking {
                    text: text.unwrap_or_default(),
                    signature: part.encrypted,
                    redacted: false,
                },
                _ => AssistantBlock::Unknown,
            });
        let calls = calls.into_iter().map(|call| {
            let arguments = call.function.arguments.unwrap_or_default();
            AssistantBlock::ToolCall(ToolCall { id: call.id, name: call.function.name, arguments })
        });
        let reply = AssistantMessage::new(&ModelRef::default(), said.chain(calls).collect());
        self.chain.reply(reply, meta, out);
    }

    /// The working directory stands in the system prompt.
    fn place(&mut self, row: &Row<'_>, out: &mut Emitter<'_>) {
        if self.placed || row.role != "_system_prompt" {
            return;
        }
        let prompt = row.content.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let named = prompt.as_deref().and_then(|p| p.split_once("working directory is `"));
        if let Some((cwd, _)) = named.and_then(|(_, rest)| rest.split_once('`')) {
            self.placed = true;
            out.fact(Fact::Cwd(cwd.to_owned()));
        }
    }
}

/// The parts of a content; a content that is one text is stored as that.
fn parts(content: &RawValue, mended: &Mended) -> Option<Vec<Part>> {
    if !content.get().starts_with('"') {
        return mended.parse(content.get());
    }
    let text = serde_json::from_str(content.get()).ok()?;
    let kind = "text".to_owned();
    Some(vec![Part { kind, text: Some(text), think: None, encrypted: None, image_url: None }])
}

fn text_of(content: &RawValue) -> String {
    let parts = parts(content, &Mended::default()).unwrap_or_default();
    parts.into_iter().filter_map(|part| part.text).collect()
}

fn shown(part: Part) -> Block {
    match (part.text, part.image_url) {
        (Some(text), _) => Block::text(text),
        (None, Some(Url { url })) => {
            match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
                Some((media_type, data)) => Block::Image {
                    media_type: media_type.to_owned(),
                    data: Text::Inline(data.to_owned()),
                },
                None => Block::text(url),
            }
        }
        (None, None) => Block::Unknown,
    }
}

fn keep(object: &Object<'_>, kind: &str, meta: Meta, out: &mut Emitter<'_>) -> bool {
    let Ok(raw) = serde_json::from_str::<&RawValue>(object.json) else { return false };
    out.custom(&format!("kimi.{kind}"), raw, meta);
    true
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
