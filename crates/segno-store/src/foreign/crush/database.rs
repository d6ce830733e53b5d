//! Crush's database.
//!
//! Responsible for: finding its sessions and reading their rows. Must not: be known outside Crush's module.

use crate::foreign::agent::Agent;
use crate::foreign::chain::{Answer, Chain};
use crate::foreign::emitter::{Emitter, Meta};
use crate::foreign::input::{self, ForeignError, Head};
use crate::foreign::item::{Fact, Origin};
use crate::foreign::locate::{Located, Roots, Stamp};
use crate::foreign::sqlite::{self, Database};
use segno_model::Timestamp;
use segno_model::finding::Severity;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Established, ModelRef, Outcome, StopReason, Text,
    ToolCall,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How many messages are read at once.
const PAGE: usize = 64;

/// Whether a database is one of Crush's, by its tables.
pub(in crate::foreign) fn recognises(head: &Head<'_>) -> bool {
    let columns = |database: &mut Database, table| database.columns(table).unwrap_or_default();
    head.is_sqlite()
        && sqlite::open(head.path).is_ok_and(|mut database| {
            columns(&mut database, "messages").contains("parts")
                && columns(&mut database, "sessions").contains("prompt_tokens")
        })
}

/// All sessions under `roots`.
pub(in crate::foreign) fn locate(
    roots: &Roots,
    found: &mut Vec<Located>,
    failed: &mut Vec<ForeignError>,
) {
    let mut databases: BTreeSet<PathBuf> =
        roots.places().into_iter().map(|place| place.join(".crush/crush.db")).collect();
    let data = match roots.env.get("CRUSH_GLOBAL_DATA").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => roots.dir("XDG_DATA_HOME", ".local/share").join("crush"),
    };
    databases.extend(projects(&data.join("projects.json")));
    for path in databases {
        let Ok(meta) = std::fs::metadata(&path) else { continue };
        match sqlite::open(&path).and_then(|mut database| sessions(&mut database)) {
            Ok(rows) => found.extend(rows.into_iter().map(|row| {
                let stamp = Stamp {
                    bytes: row.messages.unsigned_abs(),
                    modified_ns: at(row.updated).0.saturating_mul(1_000_000),
                    ..Stamp::of(&meta)
                };
                Located {
                    key: Some(row.id.clone()),
                    id: Some(row.id),
                    parent: row.parent,
                    stamp,
                    ..Located::file(Agent::Crush, path.clone(), &meta)
                }
            })),
            Err(e) => failed.push(e),
        }
    }
}

/// The databases of the projects that Crush knows. A list that cannot be read names none: the projects
/// that are known otherwise are looked at all the same.
fn projects(list: &Path) -> Vec<PathBuf> {
    #[derive(Deserialize)]
    struct List {
        projects: Vec<Project>,
    }
    #[derive(Deserialize)]
    struct Project {
        path: PathBuf,
        #[serde(default)]
        data_dir: PathBuf,
    }
    let mut text = Vec::new();
    let read = input::open(list).and_then(|file| file.take(16 << 20).read_to_end(&mut text));
    let list = read.ok().and_then(|_| serde_json::from_slice::<List>(&text).ok());
    let data = |project: Project| {
        let dir = if project.data_dir.as_os_str().is_empty() {
            PathBuf::from(".crush")
        } else {
            project.data_dir
        };
        project.path.join(dir).join("crush.db")
    };
    list.map(|list| list.projects.into_iter().map(data).collect()).unwrap_or_default()
}

/// A session's row.
struct Session {
    id: String,
    parent: Option<String>,
    title: String,
    messages: i64,
    created: i64,
    updated: i64,
    summary: Option<String>,
}

fn sessions(database: &mut Database) -> Result<Vec<Session>, ForeignError> {
    let columns = database.columns("sessions")?;
    let summary =
        if columns.contains("summary_message_id") { "summary_message_id" } else { "NULL" };
    let sql = format!(
        "SELECT id, parent_session_id, title, message_count, created_at, updated_at, {summary} \
         FROM sessions ORDER BY updated_at, id"
    );
    database.page(|connection| {
        let mut query = connection.prepare(&sql)?;
        let rows = query.query_map([], |row| {
            Ok(Session {
                id: row.get(0)?,
                parent: row.get(1)?,
                title: row.get(2)?,
                messages: row.get(3)?,
                created: row.get(4)?,
                updated: row.get(5)?,
                summary: row.get(6)?,
            })
        })?;
        rows.collect()
    })
}

/// Reads one; without a key the one that was used last and is no subagent's.
pub(in crate::foreign) fn read(
    session: &Located,
    out: &mut Emitter<'_>,
) -> Result<(), ForeignError> {
    let mut database = sqlite::open(&session.path)?;
    let wanted = |row: &Session| match &session.key {
        Some(key) => row.id == *key,
        None => row.parent.is_none(),
    };
    let Some(row) = sessions(&mut database)?.into_iter().rev().find(wanted) else {
        let path = session.path.clone();
        return Err(ForeignError::Incomplete { path, needs: "the session's row".to_owned() });
    };
    tell(&row, &session.path, out);
    let mut reader = Reader { chain: Chain::default(), summary: row.summary };
    let (mut last, mut rows) = (i64::MIN, 0);
    while !out.is_stopped() {
        let page = match messages(&mut database, &row.id, last) {
            Ok(page) => page,
            Err(e) if sqlite::is_damage(&e) => {
                let sentence = "A part of the database cannot be read.";
                let done = "The messages before it were read.";
                out.found("damaged-database", Severity::Damage, &Origin::default(), sentence, done);
                break;
            }
            Err(e) => return Err(e),
        };
        rows += page.len() as u64;
        for message in &page {
            reader.take(message, out);
        }
        match page.last() {
            Some(message) if page.len() == PAGE => last = message.rowid,
            _ => break,
        }
    }
    reader.chain.finish(out);
    out.finish(database.path(), rows)
}

fn tell(row: &Session, path: &Path, out: &mut Emitter<'_>) {
    // PROJECT/.crush/crush.db
    let folder = path.parent().filter(|dir| dir.file_name().is_some_and(|name| name == ".crush"));
    let project = folder.and_then(Path::parent).map(|dir| dir.display().to_string());
    let call = row.id.split_once("$$").map(|(_, call)| call.to_owned());
    let call = call.or_else(|| (!row.id.starts_with("title-")).then(|| row.id.clone()));
    let facts = [
        Some(Fact::Id(row.id.clone())),
        Some(Fact::Format("sqlite".to_owned())),
        project.map(Fact::Cwd),
        Some(Fact::Created(at(row.created))),
        Some(row.title.clone()).filter(|title| !title.is_empty()).map(Fact::Titled),
        row.parent.clone().map(|parent| Fact::ChildOf { parent, call, role: None }),
    ];
    facts.into_iter().flatten().for_each(|fact| out.fact(fact));
}

struct Message {
    rowid: i64,
    id: String,
    role: String,
    parts: Vec<u8>,
    model: Option<String>,
    provider: Option<String>,
    created: i64,
    is_summary: bool,
}

fn messages(
    database: &mut Database,
    session: &str,
    after: i64,
) -> Result<Vec<Message>, ForeignError> {
    let columns = database.columns("messages")?;
    let column = |name: &'static str| if columns.contains(name) { name } else { "NULL" };
    let sql = format!(
        "SELECT rowid, id, role, CAST(parts AS BLOB), model, {}, created_at, {} FROM messages \
         WHERE session_id = ?1 AND rowid > ?2 ORDER BY rowid LIMIT {PAGE}",
        column("provider"),
        column("is_summary_message")
    );
    database.page(|connection| {
        let mut query = connection.prepare(&sql)?;
        let rows = query.query_map((session, after), |row| {
            Ok(Message {
                rowid: row.get(0)?,
                id: row.get(1)?,
                role: row.get(2)?,
                parts: row.get(3)?,
                model: row.get(4)?,
                provider: row.get(5)?,
                created: row.get(6)?,
                is_summary: row.get::<_, Option<i64>>(7)?.unwrap_or(0) != 0,
            })
        })?;
        rows.collect()
    })
}

#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// The fields of all kinds of parts.
#[derive(Deserialize)]
struct Data {
    text: Option<String>,
    #[serde(default)]
    hidden: bool,
    thinking: Option<String>,
    signature: Option<String>,
    url: Option<String>,
    #[serde(rename = "Path")]
    path: Option<String>,
    #[serde(rename = "MIMEType")]
    media_type: Option<String>,
    #[serde(rename = "Data")]
    bytes: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<String>,
    tool_call_id: Option<String>,
    content: Option<String>,
    data: Option<String>,
    mime_type: Option<String>,
    #[serde(default)]
    is_error: bool,
    reason: Option<String>,
    command: Option<String>,
    output: Option<String>,
    exit_code: Option<i64>,
}

struct Reader {
    chain: Chain,
    summary: Option<String>,
}

/// A message, taken apart.
#[derive(Default)]
struct Said {
    shown: Vec<Block>,
    reply: Vec<AssistantBlock>,
    results: Vec<Answer>,
    finish: Option<String>,
    hidden: bool,
}

impl Reader {
    fn take(&mut self, message: &Message, out: &mut Emitter<'_>) {
        let origin = Origin { id: Some(message.id.clone()), ..Origin::default() };
        let meta = Meta { at: Some(at(message.created)), origin, ..Meta::default() };
        let text = String::from_utf8_lossy(&message.parts);
        let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(&text) else {
            let sentence = "The parts of a message are no JSON.";
            out.found("torn-element", Severity::Damage, &meta.origin, sentence, "It was left out.");
            return;
        };
        let mut said = Said::default();
        for raw in parts {
            if !said.part(raw, message.role == "assistant") {
                out.custom("crush.part", raw, meta.clone());
            }
        }
        let is_summary = self.summary.as_deref() == Some(message.id.as_str());
        match message.role.as_str() {
            "assistant" if is_summary || message.is_summary => {
                let text = |block: AssistantBlock| match block {
                    AssistantBlock::Text { text } => Some(text),
                    _ => None,
                };
                let texts: Vec<String> = said.reply.into_iter().filter_map(text).collect();
                self.chain.summary(texts.join("\n"), Vec::new(), meta, out);
            }
            "assistant" => self.reply(message, said, meta, out),
            _ => {
                for answer in said.results {
                    self.chain.result(answer, meta.clone(), out);
                }
                if !said.shown.is_empty() {
                    let notice = said.hidden.then_some("continuation");
                    self.chain.user(said.shown, notice, meta, out);
                }
            }
        }
    }

    fn reply(&mut self, message: &Message, said: Said, meta: Meta, out: &mut Emitter<'_>) {
        let provider = message.provider.as_deref().unwrap_or_default();
        let model = ModelRef::new(provider, message.model.as_deref().unwrap_or_default());
        let mut reply = AssistantMessage::new(&model, said.reply);
        reply.stop = match said.finish.as_deref() {
            None | Some("error") => StopReason::Broken,
            Some("end_turn") => StopReason::End,
            Some("tool_use") => StopReason::ToolUse,
            Some("max_tokens") => StopReason::Length,
            Some("canceled") => StopReason::Stopped,
            Some("content_filter") => StopReason::Refusal,
            Some(_) => StopReason::Other,
        };
        reply.partial = said.finish.is_none();
        if reply.partial {
            let sentence =
                "A reply was not written to its end: the agent was interrupted, or is at it.";
            out.found(
                "partial-reply",
                Severity::Note,
                &meta.origin,
                sentence,
                "It is read as it is.",
            );
        }
        self.chain.reply(reply, meta, out);
    }
}

impl Said {
    /// Takes one part; says whether it has a counterpart here.
    fn part(&mut self, raw: &RawValue, is_reply: bool) -> bool {
        let Ok(Wrapped { kind, data }) = serde_json::from_str(raw.get()) else { return false };
        let Ok(data) = serde_json::from_str::<Data>(data.get()) else { return false };
        match (kind.as_str(), data.text) {
            ("text", Some(text)) if is_reply => self.reply.push(AssistantBlock::Text { text }),
            ("text", Some(text)) => {
                self.hidden |= data.hidden;
                self.shown.push(Block::text(text));
            }
            ("reasoning", _) => self.reply.push(AssistantBlock::Thinking {
                text: data.thinking.unwrap_or_default(),
                signature: data.signature.filter(|signature| !signature.is_empty()),
                redacted: false,
            }),
            ("image_url", _) => self.shown.extend(data.url.map(Block::text)),
            ("binary", _) => {
                let media_type = data.media_type.unwrap_or_default();
                if !media_type.starts_with("image/") {
                    let path = data.path.unwrap_or_default();
                    self.shown.push(Block::text(format!("[{path}]")));
                    return false;
                }
                let data = Text::Inline(data.bytes.unwrap_or_default());
                self.shown.push(Block::Image { media_type, data });
            }
            ("tool_call", _) => self.reply.push(AssistantBlock::ToolCall(ToolCall {
                id: data.id.unwrap_or_default(),
                name: data.name.unwrap_or_default(),
                arguments: data.input.unwrap_or_default(),
            })),
            ("tool_result", _) => self.results.push(data_answer(Data { text: None, ..data })),
            ("shell_command", _) => {
                let (command, output) =
                    (data.command.unwrap_or_default(), data.output.unwrap_or_default());
                let code = data.exit_code.unwrap_or_default();
                self.shown.push(Block::text(format!("$ {command}\n{output}\n(exit code {code})")));
            }
            ("finish", _) => self.finish = data.reason,
            _ => return false,
        }
        true
    }
}

fn data_answer(data: Data) -> Answer {
    let text = data.content.unwrap_or_default();
    let (outcome, established) = match (data.is_error, text.to_lowercase()) {
        (true, text) if text.contains("canceled by user") => (Outcome::Stopped, Established::Stop),
        (true, text) if text.contains("denied permission") => {
            (Outcome::Denied, Established::Permission)
        }
        (true, _) => (Outcome::Failed, Established::Observed),
        (false, _) => (Outcome::Done, Established::Observed),
    };
    let mut content = vec![Block::text(text)];
    if let (Some(data), Some(media_type)) = (data.data, data.mime_type)
        && media_type.starts_with("image/")
    {
        content.push(Block::Image { media_type, data: Text::Inline(data) });
    }
    let call = data.tool_call_id.unwrap_or_default();
    Answer { call, name: data.name, content, outcome, established }
}

/// A time in seconds or milliseconds.
fn at(time: i64) -> Timestamp {
    Timestamp(if time.abs() < 10_000_000_000 { time.saturating_mul(1000) } else { time })
}
