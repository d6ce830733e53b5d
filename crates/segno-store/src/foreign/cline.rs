//! Cline's tasks.
//!
//! Responsible for: where they are and how they are read. Must not: be known outside this module.
//!
//! A task is a folder `tasks/MS/` under the extension's storage (`saoudrizwan.claude-dev` of VS Code and
//! its kin) or under the command line tool's data (`CLINE_DATA_DIR`, `CLINE_DIR/data`, `~/.cline/data`).
//! In it: `api_conversation_history.json`, what the model is sent, `ui_messages.json`, what is shown, and
//! `task_metadata.json`. Read after the source of cline/cline (`src/core/storage/disk.ts`,
//! `src/shared/messages/content.ts`, `src/shared/ExtensionMessage.ts`, versions 3.x).
//!
//! Traps: each file is one JSON array on one line and written anew with every message, so that an
//! interrupted save cuts it or leaves a bracket too many. Tools may be called in XML within the text, and
//! their results are then text blocks among the user's own. Environment details stand beside the prompt in
//! one message: the two become two records. Messages that no longer fit are named by a range in the shown
//! messages, and are not taken out of the other file. Tokens are told in either file.

use super::agent::Agent;
use super::array::{Piece, Pieces};
use super::blocks::{Part, reply, user_parts};
use super::chain::Chain;
use super::emitter::{Emitter, Meta};
use super::input::{self, ForeignError, Head};
use super::item::{Fact, Item};
use super::locate::{Located, Roots, Stamp};
use super::mend::Mended;
use segno_model::finding::Severity;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, ContextEdit, ModelRef, Usage, UsageRecord,
};
use segno_model::{Body, Seq, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fs;
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

const SENT: &str = "api_conversation_history.json";
const SHOWN: &str = "ui_messages.json";
const METADATA: &str = "task_metadata.json";

/// Where editors keep the extension's storage, under the home directory.
const EDITORS: [&str; 8] = [
    ".config/Code",
    ".config/Code - Insiders",
    ".config/VSCodium",
    ".config/Cursor",
    ".config/Windsurf",
    ".vscode-server/data",
    "Library/Application Support/Code",
    "Library/Application Support/Cursor",
];

/// Whether a file or folder is one of Cline's, by its beginning.
pub(super) fn recognises(head: &Head<'_>) -> bool {
    if head.bytes.is_empty() {
        return [SENT, SHOWN].into_iter().any(|name| {
            let path = head.path.join(name);
            input::ask(&path, |head| is_ours(head.path, head.bytes).then_some(()))
                .is_ok_and(|(_, ours)| ours.is_some())
        });
    }
    is_ours(head.path, head.bytes)
}

/// The first element tells: a message for the model whose text is a task, or a shown message.
fn is_ours(path: &Path, bytes: &[u8]) -> bool {
    let named = path.file_name().is_some_and(|name| name == SENT);
    let mut ours = false;
    let mut ignore = |_: Item| ControlFlow::Continue(());
    let mut out = Emitter::new(&mut ignore);
    let read = Pieces::new(bytes, path, &[]).each("", &mut out, |piece, _| {
        if piece.index == Some(0) {
            let sent = serde_json::from_str::<Sent<'_>>(piece.json);
            let shown = serde_json::from_str::<Shown>(piece.json);
            ours = sent.is_ok_and(|row| named || row.content.get().contains("<task>"))
                || shown.is_ok_and(|row| matches!(row.kind.as_str(), "say" | "ask"));
        }
        Ok(true)
    });
    read.is_ok() && ours
        || named && bytes.trim_ascii_start().starts_with(b"[{\"role\":\"user\",\"content\":[{")
}

/// All tasks under `roots`.
pub(super) fn locate(roots: &Roots, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    let storage = "User/globalStorage/saoudrizwan.claude-dev";
    let mut places: Vec<PathBuf> =
        EDITORS.iter().map(|editor| roots.home.join(editor).join(storage)).collect();
    places.push(if roots.env.contains_key("CLINE_DATA_DIR") {
        roots.dir("CLINE_DATA_DIR", "")
    } else {
        roots.dir("CLINE_DIR", ".cline").join("data")
    });
    for place in places {
        locate_tasks(&place.join("tasks"), found, failed);
    }
}

fn locate_tasks(dir: &Path, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return,
        Err(e) => return failed.push(ForeignError::io(dir, e)),
    };
    for folder in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let stamps = [SENT, SHOWN].map(|name| fs::metadata(folder.join(name)).ok());
        let Some(meta) = stamps[0].as_ref().or(stamps[1].as_ref()) else { continue };
        let stamp =
            stamps.iter().flatten().map(Stamp::of).fold(Stamp::of(meta), |sum, one| Stamp {
                bytes: sum.bytes.wrapping_add(one.bytes),
                modified_ns: sum.modified_ns.max(one.modified_ns),
                ino: sum.ino,
            });
        let id = folder.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        found.push(Located { id, stamp, ..Located::file(Agent::Cline, folder, meta) });
    }
}

/// A message as the model is sent it.
#[derive(Deserialize)]
struct Sent<'a> {
    role: String,
    #[serde(borrow)]
    content: &'a RawValue,
    id: Option<String>,
    ts: Option<i64>,
    #[serde(rename = "modelInfo")]
    model: Option<Model>,
    metrics: Option<Metrics>,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "modelId", default)]
    id: String,
    #[serde(rename = "providerId", default)]
    provider: String,
}

#[derive(Deserialize)]
struct Metrics {
    tokens: Option<Tokens>,
}

/// `prompt` includes what the cache served.
#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    prompt: u64,
    #[serde(default)]
    completion: u64,
    #[serde(default)]
    cached: u64,
}

/// A message as it is shown.
#[derive(Deserialize)]
struct Shown {
    ts: i64,
    #[serde(rename = "type")]
    kind: String,
    say: Option<String>,
    text: Option<String>,
    #[serde(rename = "conversationHistoryDeletedRange")]
    deleted: Option<(u64, u64)>,
    #[serde(rename = "modelInfo")]
    model: Option<Model>,
}

/// The text of a shown `api_req_started`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApiRequest {
    #[serde(default)]
    tokens_in: u64,
    #[serde(default)]
    tokens_out: u64,
    #[serde(default)]
    cache_writes: u64,
    #[serde(default)]
    cache_reads: u64,
}

/// Reads one: what the model is sent, then what is shown.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let is_file = fs::metadata(&session.path).is_ok_and(|meta| meta.is_file());
    let folder = if is_file { session.path.parent() } else { Some(session.path.as_path()) };
    let folder = folder.unwrap_or(Path::new("."));
    let id = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut reader = Reader { id: id.to_owned(), ..Reader::default() };
    out.fact(Fact::Id(reader.id.clone()));
    out.fact(Fact::Format("task-folder".to_owned()));
    if let Ok(ms) = id.parse() {
        out.fact(Fact::Created(Timestamp(ms)));
    }
    let mut bytes = 0;
    let mut each = |name: &str, out: &mut Emitter<'_>, take: &mut Take<'_>| {
        let path = folder.join(name);
        if fs::metadata(&path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
            return Ok(());
        }
        let mut pieces = Pieces::open(&path, &[])?;
        out.in_file(&path);
        pieces.each(&format!("cline.{name}"), out, take)?;
        bytes += pieces.bytes();
        Ok::<_, ForeignError>(())
    };
    each(SENT, out, &mut |piece, out| Ok(reader.sent(piece, out)))?;
    reader.chain.finish(out);
    each(SHOWN, out, &mut |piece, out| Ok(reader.shown(piece, out)))?;
    reader.forget(out);
    each(METADATA, out, &mut |piece, out| Ok(metadata(piece, out)))?;
    out.in_no_file();
    out.finish(&session.path, bytes)
}

type Take<'t> = dyn FnMut(&Piece<'_>, &mut Emitter<'_>) -> Result<bool, ForeignError> + 't;

#[derive(Default)]
struct Reader {
    id: String,
    chain: Chain,
    /// The records of each message for the model.
    seqs: Vec<Range<Seq>>,
    /// The time of the last message for the model.
    last: i64,
    /// Whether the messages for the model say how many tokens they cost.
    metered: bool,
    titled: bool,
    placed: bool,
    deleted: Option<(u64, u64)>,
}

impl Reader {
    fn sent(&mut self, piece: &Piece<'_>, out: &mut Emitter<'_>) -> bool {
        let mended = Mended::default();
        let Some(row) = mended.parse::<Sent<'_>>(piece.json) else { return false };
        let first = out.next_seq();
        self.last = row.ts.unwrap_or(self.last);
        let mut origin = piece.origin.clone();
        origin.id.clone_from(&row.id);
        let meta = Meta { at: row.ts.map(Timestamp), origin, ..Meta::default() };
        let told = meta.clone();
        let known = match row.role.as_str() {
            "user" => self.user(row.content, &meta, out),
            "assistant" => self.reply(row, meta, out),
            _ => false,
        };
        self.seqs.push(first..out.next_seq());
        if known {
            mended.tell("cline.message", piece.json, &told, out);
        }
        known
    }

    fn user(&mut self, content: &RawValue, meta: &Meta, out: &mut Emitter<'_>) -> bool {
        let Some(parts) = user_parts(content) else { return false };
        let mut run: (Vec<Block>, Option<&'static str>) = (Vec::new(), None);
        for piece in parts {
            piece.tell("cline.block", meta, out);
            match piece.part {
                Part::Shown(block) => {
                    let notice = notice(&block, run.1);
                    self.place(&block, out);
                    if notice != run.1 {
                        self.flush(&mut run.0, run.1, meta, out);
                    }
                    run.0.push(block);
                    run.1 = notice;
                }
                Part::Result(answer) => {
                    self.flush(&mut run.0, run.1, meta, out);
                    self.chain.result(answer, meta.clone(), out);
                }
                Part::Unknown => piece.keep("cline.block", meta, out),
                Part::Said(_) => piece.misplaced("cline.block", meta, out),
            }
        }
        self.flush(&mut run.0, run.1, meta, out);
        true
    }

    fn flush(
        &mut self,
        blocks: &mut Vec<Block>,
        notice: Option<&str>,
        meta: &Meta,
        out: &mut Emitter<'_>,
    ) {
        if !blocks.is_empty() {
            self.chain.user(std::mem::take(blocks), notice, meta.clone(), out);
        }
    }

    /// The working directory stands in the first environment details.
    fn place(&mut self, block: &Block, out: &mut Emitter<'_>) {
        let Block::Text { text } = block else { return };
        let cwd = text.head().split_once("# Current Working Directory (");
        let cwd = cwd.and_then(|(_, rest)| rest.split_once(") Files").or(rest.split_once(')')));
        if !self.placed
            && let Some((cwd, _)) = cwd
        {
            self.placed = true;
            out.fact(Fact::Cwd(cwd.to_owned()));
        }
    }

    fn reply(&mut self, row: Sent<'_>, meta: Meta, out: &mut Emitter<'_>) -> bool {
        let said = reply(row.content, "cline.block", &meta, out);
        let Some(content) = said else { return false };
        let mut reply = AssistantMessage::new(&model(row.model), content);
        if let Some(tokens) = row.metrics.and_then(|metrics| metrics.tokens) {
            self.metered = true;
            reply.usage = Some(Usage {
                input: tokens.prompt.saturating_sub(tokens.cached),
                output: tokens.completion,
                cache_read: tokens.cached,
                ..Usage::default()
            });
        }
        let response = row.id.map(|id| format!("cline:{id}"));
        self.chain.reply(reply, Meta { response, ..meta }, out);
        true
    }

    /// What is shown says again what was sent; what is later than the last message that was sent is told
    /// nowhere else.
    fn shown(&mut self, piece: &Piece<'_>, out: &mut Emitter<'_>) -> bool {
        let mended = Mended::default();
        let Some(row) = mended.parse::<Shown>(piece.json) else { return false };
        mended.found(&piece.origin, out);
        let Ok(raw) = serde_json::from_str::<&RawValue>(piece.json) else { return false };
        let copy = row.ts <= self.last;
        let at = Some(Timestamp(row.ts));
        let meta = Meta { at, origin: piece.origin.clone(), copy, ..Meta::default() };
        let say = row.say.as_deref().unwrap_or_default();
        let text = row.text.unwrap_or_default();
        if !self.titled && matches!(say, "task" | "text") && !text.trim().is_empty() {
            self.titled = true;
            out.fact(Fact::Titled(text.trim().lines().next().unwrap_or_default().to_owned()));
        }
        self.deleted = row.deleted.or(self.deleted);
        if self.seqs.is_empty() {
            self.restore(say, &text, &meta, out);
        }
        out.custom(&format!("cline.{}", row.kind), raw, meta.clone());
        if say == "api_req_started"
            && !self.metered
            && let Some(request) = Mended::default().parse::<ApiRequest>(&text)
            && request.tokens_in + request.tokens_out > 0
        {
            let usage = Usage {
                input: request.tokens_in,
                output: request.tokens_out,
                cache_read: request.cache_reads,
                cache_write: request.cache_writes,
                reasoning: None,
            };
            let spent = UsageRecord { purpose: "reply".to_owned(), model: model(row.model), usage };
            let response = Some(format!("cline:{}:{}", self.id, row.ts));
            out.record(Body::Usage(spent), Meta { response, copy: false, ..meta });
        }
        true
    }

    /// Where nothing is left of what was sent, what was shown is the session.
    fn restore(&mut self, say: &str, text: &str, meta: &Meta, out: &mut Emitter<'_>) {
        if text.is_empty() || meta.copy {
            return;
        }
        if self.chain.last().is_none() {
            let sentence = "The messages for the model are lost; those that were shown are left.";
            let done = "They stand for the session; calls and results are not among them.";
            out.found("shown-only", Severity::Damage, &meta.origin, sentence, done);
        }
        let words = self.chain.last().is_none() || matches!(say, "task" | "user_feedback");
        match say {
            "task" | "text" | "user_feedback" if words => {
                self.chain.user(vec![Block::text(text)], None, meta.clone(), out);
            }
            "text" | "completion_result" => {
                let content = vec![AssistantBlock::text(text)];
                let reply = AssistantMessage::new(&ModelRef::default(), content);
                self.chain.reply(reply, meta.clone(), out);
            }
            _ => {}
        }
    }

    /// Takes out of the context what Cline no longer sends.
    fn forget(&self, out: &mut Emitter<'_>) {
        let Some((from, to)) = self.deleted else { return };
        let targets = self.seqs.iter().enumerate().filter(|(index, _)| {
            let index = *index as u64;
            from <= index && index <= to
        });
        for target in targets.flat_map(|(_, seqs)| seqs.clone()) {
            let edit = ContextEdit { target, edit: "omit".to_owned(), ..ContextEdit::default() };
            out.record(Body::ContextEdit(edit), Meta::default());
        }
    }
}

fn model(model: Option<Model>) -> ModelRef {
    model.map(|model| ModelRef::new(&model.provider, &model.id)).unwrap_or_default()
}

/// Why a block is not the person's, if it is not. `before` says it of the block before.
fn notice(block: &Block, before: Option<&'static str>) -> Option<&'static str> {
    let Block::Text { text } = block else { return before.filter(|&why| why == "tool-result") };
    let text = text.head().trim();
    let holds_words =
        || ["<feedback>", "<answer>", "<user_message>"].iter().any(|t| text.contains(t));
    let rows = [
        (["<task>", "<feedback>", "<answer>", "<user_message>"].as_slice(), None),
        (["<environment_details>"].as_slice(), Some("environment")),
        (["[TASK RESUMPTION]"].as_slice(), Some("resumption")),
        (["[ERROR]"].as_slice(), Some("error")),
        (
            ["<explicit_instructions", "<file_content", "<file_contents", "<folder_content"]
                .as_slice(),
            Some("injected"),
        ),
    ];
    let row = rows.iter().find(|(starts, _)| starts.iter().any(|start| text.starts_with(start)));
    let header =
        text.starts_with('[') && text.lines().next().is_some_and(|l| l.ends_with("Result:"));
    match (row, before) {
        _ if holds_words() => None,
        (Some((_, why)), _) => *why,
        (None, _) if header => Some("tool-result"),
        (None, Some("tool-result")) => before,
        (None, _) => None,
    }
}

/// What the task's third file says; all of it is kept.
fn metadata(piece: &Piece<'_>, out: &mut Emitter<'_>) -> bool {
    #[derive(Deserialize)]
    struct Environment {
        cline_version: Option<String>,
    }
    let Ok(raw) = serde_json::from_str::<&RawValue>(piece.json) else { return false };
    let key = piece.key.unwrap_or_default();
    let environments = serde_json::from_str::<Vec<Environment>>(piece.json).unwrap_or_default();
    if let Some(version) = environments.into_iter().filter_map(|one| one.cline_version).next_back()
    {
        out.fact(Fact::Version(version));
    }
    let meta = Meta { origin: piece.origin.clone(), ..Meta::default() };
    out.custom(&format!("cline.metadata.{key}"), raw, meta);
    true
}
