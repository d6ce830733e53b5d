//! Crush's database.
//!
//! Responsible for: finding its sessions and reading their rows. Must not: be known outside Crush's module.

use crate::foreign::agent::Agent;
use crate::foreign::blocks::misplaced;
use crate::foreign::chain::{Answer, Chain};
use crate::foreign::emitter::{Emitter, Meta};
use crate::foreign::input::{self, ForeignError, Head};
use crate::foreign::item::{Fact, Origin};
use crate::foreign::locate::{Located, Roots, Stamp};
use crate::foreign::mend::Mended;
use crate::foreign::sqlite::{self, Database, Got, number, text};
use rusqlite::Row;
use segno_model::Timestamp;
use segno_model::finding::Severity;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Established, ModelRef, Outcome, StopReason, Text,
    ToolCall,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{BTreeSet, HashSet};
use std::fs::Metadata;
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
        let listed = sqlite::open(&path).and_then(|mut database| list(&mut database, &meta, found));
        failed.extend(listed.unwrap_or_else(Some));
    }
}

/// Lists a database's sessions, and says which could not be.
fn list(
    database: &mut Database,
    meta: &Metadata,
    found: &mut Vec<Located>,
) -> Result<Option<ForeignError>, ForeignError> {
    let Some((rows, lost)) = sessions(database)? else { return Ok(None) };
    let path = database.path().to_owned();
    let located = |id: String, parent, stamp| {
        let session = Located::file(Agent::Crush, path.clone(), meta);
        Located { key: Some(id.clone()), id: Some(id), parent, stamp, ..session }
    };
    let mut known = HashSet::new();
    found.extend(rows.into_iter().map(|row| {
        let stamp = Stamp {
            bytes: row.messages.unsigned_abs(),
            modified_ns: row.updated.map_or(0, |time| at(time).0.saturating_mul(1_000_000)),
            ..Stamp::of(meta)
        };
        known.insert(row.id.clone());
        located(row.id, row.parent, stamp)
    }));
    // Sessions whose rows are lost: what was said in them is not.
    let counts = database.counts("messages", "session_id", "count(*)")?;
    let mut left: Vec<_> = counts.into_iter().filter(|(id, _)| !known.contains(id)).collect();
    left.sort();
    found.extend(
        left.into_iter().map(|(id, bytes)| {
            located(id, None, Stamp { bytes, modified_ns: 0, ..Stamp::of(meta) })
        }),
    );
    Ok(lost)
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
#[derive(Default)]
struct Session {
    id: String,
    parent: Option<String>,
    title: String,
    messages: i64,
    created: Option<i64>,
    updated: Option<i64>,
    summary: Option<String>,
}

/// Sessions, and which could not be listed.
type Sessions = (Vec<Session>, Option<ForeignError>);

/// The sessions in the order in which they were used, and which could not be listed; none in a database
/// without tables.
fn sessions(database: &mut Database) -> Result<Option<Sessions>, ForeignError> {
    if !database.columns("sessions")?.contains("id") {
        let lacks = database.lacks("a table `sessions` with a column `id`".to_owned());
        return if database.is_blank()? { Ok(None) } else { Err(lacks) };
    }
    let columns = [
        "id",
        "parent_session_id",
        "title",
        "message_count",
        "created_at",
        "updated_at",
        "summary_message_id",
    ];
    let (rows, damaged) = database.rows("sessions", &columns, |row| {
        Some(Session {
            id: text(row, 1)?,
            parent: text(row, 2),
            title: text(row, 3).unwrap_or_default(),
            messages: number(row, 4).unwrap_or_default(),
            created: number(row, 5),
            updated: number(row, 6),
            summary: text(row, 7),
        })
    })?;
    let nameless = rows.iter().filter(|row| row.is_none()).count();
    let mut named: Vec<Session> = rows.into_iter().flatten().collect();
    named.sort_by(|a, b| (a.updated, &a.id).cmp(&(b.updated, &b.id)));
    let lost = database.lost("sessions", nameless, damaged);
    Ok(Some((named, lost)))
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
    let (rows, _) = sessions(&mut database)?.unwrap_or_default();
    let found = rows.into_iter().rev().find(wanted);
    let is_lost = found.is_none();
    let row = found.or_else(|| Some(Session { id: session.key.clone()?, ..Session::default() }));
    let Some(row) = row else { return Err(database.lacks("the session's row".to_owned())) };
    let (numbers, damaged) = database.numbers("messages", "session_id", &row.id)?;
    if is_lost && numbers.is_empty() {
        return Err(database.lacks("the session's row".to_owned()));
    }
    if is_lost {
        sqlite::tell_lost_row("sessions", out);
    }
    if damaged {
        sqlite::tell_damaged("messages", out);
    }
    tell(&row, &session.path, out);
    let mut reader = Reader { chain: Chain::default(), summary: row.summary };
    for page in numbers.chunks(PAGE) {
        if out.is_stopped() {
            break;
        }
        for message in messages(&mut database, page)? {
            if let Some(message) = message.told("messages", out) {
                reader.take(&message, out);
            }
        }
    }
    reader.chain.finish(out);
    out.finish(database.path(), numbers.len() as u64)
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
        row.created.map(|time| Fact::Created(at(time))),
        Some(row.title.clone()).filter(|title| !title.is_empty()).map(Fact::Titled),
        row.parent.clone().map(|parent| Fact::ChildOf { parent, call, role: None }),
    ];
    facts.into_iter().flatten().for_each(|fact| out.fact(fact));
}

struct Message {
    id: String,
    role: String,
    parts: Vec<u8>,
    model: Option<String>,
    provider: Option<String>,
    created: Option<i64>,
    is_summary: bool,
}

fn messages(database: &mut Database, page: &[i64]) -> Result<Vec<Got<Message>>, ForeignError> {
    let columns = database.columns("messages")?;
    let column = |name: &'static str| if columns.contains(name) { name } else { "NULL" };
    let sql = format!(
        "SELECT {}, {}, CAST({} AS BLOB), {}, {}, {}, {} FROM messages WHERE rowid = ?1",
        column("id"),
        column("role"),
        column("parts"),
        column("model"),
        column("provider"),
        column("created_at"),
        column("is_summary_message")
    );
    let message = |row: &Row<'_>| Message {
        id: text(row, 0).unwrap_or_default(),
        role: text(row, 1).unwrap_or_default(),
        parts: row.get(2).unwrap_or_default(),
        model: text(row, 3),
        provider: text(row, 4),
        created: number(row, 5),
        is_summary: number(row, 6).is_some_and(|flag| flag != 0),
    };
    let read = database.page(|connection| {
        let rows = page.iter().map(|&rowid| Got::of(connection, &sql, rowid, message));
        rows.collect::<rusqlite::Result<Vec<_>>>()
    })?;
    Ok(read.into_iter().flatten().collect())
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
        let meta = Meta { at: message.created.map(at), origin, ..Meta::default() };
        let text = String::from_utf8_lossy(&message.parts);
        let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(&text) else {
            let sentence = "The parts of a message are no JSON.";
            out.found("torn-element", Severity::Damage, &meta.origin, sentence, "It was left out.");
            return;
        };
        if !matches!(message.role.as_str(), "assistant" | "user" | "tool" | "system") {
            let sentence = "A message does not say whose it is.";
            let done = "It was read as one of the person's.";
            out.found("unknown-record", Severity::Note, &meta.origin, sentence, done);
        }
        let mut said = Said::default();
        let is_reply = message.role == "assistant";
        for raw in parts {
            let mended = Mended::default();
            if !said.part(raw, &mended, is_reply) {
                out.custom("crush.part", raw, meta.clone());
                continue;
            }
            mended.tell("crush.part", raw.get(), &meta, out);
            if said.drop_misplaced(is_reply) {
                misplaced("crush.part", raw, &meta, out);
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
    /// Takes out what the side that speaks never says; says whether there was something.
    fn drop_misplaced(&mut self, is_reply: bool) -> bool {
        let (shown, reply, results) = (&mut self.shown, &mut self.reply, &mut self.results);
        if is_reply {
            let any = !shown.is_empty() || !results.is_empty();
            shown.clear();
            results.clear();
            any
        } else {
            let any = !reply.is_empty();
            reply.clear();
            any
        }
    }

    /// Takes one part; says whether it has a counterpart here.
    fn part(&mut self, raw: &RawValue, mended: &Mended, is_reply: bool) -> bool {
        let Ok(Wrapped { kind, data }) = serde_json::from_str(raw.get()) else { return false };
        let Some(data) = mended.parse::<Data>(data.get()) else { return false };
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
