//! OpenCode's database: which sessions it holds, and the rows of one, a few at a time.
//!
//! Responsible for: the queries, in the order in which rows were written, and rows that cannot be read. Must
//! not: know what a row means.

use super::super::agent::Agent;
use super::super::emitter::{Emitter, Meta};
use super::super::input::ForeignError;
use super::super::item::{Fact, Origin};
use super::super::lines::readable;
use super::super::locate::{Located, Stamp};
use super::super::sqlite::{self, Database};
use super::facts;
use super::first::{Messages, Stored};
use super::reply::task;
use super::second::Rows;
use super::shape::{About, Info, Revert, Todo};
use rusqlite::{Connection, Row};
use segno_model::finding::Severity;
use segno_model::{Body, Timestamp};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How many messages are read at once.
const PAGE: usize = 32;

/// After how many bytes a page ends.
const PAGE_BYTES: usize = 4 << 20;

/// Both tables of sessions, the newer one first.
const SESSIONS: [&str; 2] = ["session_v2", "session"];

/// Whether a database is OpenCode's.
pub(super) fn is_ours(path: &Path) -> bool {
    let Ok(mut database) = sqlite::open(path) else { return false };
    let mut has = |table: &str, columns: &[&str]| {
        let found = database.columns(table).unwrap_or_default();
        columns.iter().all(|column| found.contains(*column))
    };
    let sessions = SESSIONS.iter().any(|table| has(table, &["id", "directory", "project_id"]));
    sessions
        && (has("part", &["message_id", "session_id", "data"])
            || has("session_message", &["session_id", "seq", "data"]))
}

/// The sessions of a database.
pub(super) fn locate(path: &Path) -> Result<Vec<Located>, ForeignError> {
    let mut database = sqlite::open(path)?;
    let ino = fs::metadata(path).map_or(0, |meta| meta.ino());
    let sizes = sizes(&mut database)?;
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    for table in SESSIONS {
        for (id, parent, archived, updated) in sessions(&mut database, table)? {
            if !known.insert(id.clone()) {
                continue;
            }
            let bytes = sizes.get(&id).copied().unwrap_or_default();
            let modified_ns = updated.saturating_mul(1_000_000);
            found.push(Located {
                agent: Agent::OpenCode,
                path: path.to_owned(),
                key: Some(id.clone()),
                id: Some(id),
                parent,
                archived,
                stamp: Stamp { bytes, modified_ns, ino },
            });
        }
    }
    Ok(found)
}

type SessionRow = (String, Option<String>, bool, i64);

fn sessions(database: &mut Database, table: &str) -> Result<Vec<SessionRow>, ForeignError> {
    let columns = database.columns(table)?;
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    let column =
        |name: &str| if columns.contains(name) { name.to_owned() } else { "NULL".to_owned() };
    let [parent, archived, updated] = ["parent_id", "time_archived", "time_updated"].map(column);
    let query = format!(
        "SELECT id, {parent}, {archived} IS NOT NULL, {updated} FROM {table} ORDER BY rowid"
    );
    database.page(|connection| {
        let mut rows = connection.prepare(&query)?;
        let rows = rows.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get::<_, Option<i64>>(3)?.unwrap_or(0)))
        })?;
        rows.collect()
    })
}

/// How many rows and events each session has: grows with everything that is written.
fn sizes(database: &mut Database) -> Result<HashMap<String, u64>, ForeignError> {
    const COUNTS: [(&str, &str, &str); 6] = [
        ("message", "session_id", "count(*)"),
        ("part", "session_id", "count(*)"),
        ("session_message", "session_id", "count(*)"),
        ("session_input", "session_id", "count(*)"),
        ("session_inbox", "session_id", "count(*)"),
        ("event_sequence", "aggregate_id", "sum(seq)"),
    ];
    let mut sizes = HashMap::new();
    for (table, session, count) in COUNTS {
        if !database.columns(table)?.contains(session) {
            continue;
        }
        let query = format!("SELECT {session}, {count} FROM {table} GROUP BY {session}");
        let counted: Vec<(String, i64)> = database.page(|connection| {
            let mut rows = connection.prepare(&query)?;
            rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })?;
        for (id, rows) in counted {
            *sizes.entry(id).or_default() += u64::try_from(rows).unwrap_or_default();
        }
    }
    Ok(sizes)
}

/// Reads one session.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let mut database = sqlite::open(&session.path)?;
    let key = match &session.key {
        Some(key) => key.clone(),
        None => only_session(&mut database)?,
    };
    let about = about(&mut database, &key)?;
    let reader = Reader { database, key, revert: about.revert.clone() };
    facts(&about, out);
    reader.read(out)
}

fn only_session(database: &mut Database) -> Result<String, ForeignError> {
    let mut sessions = locate(database.path())?;
    match sessions.len() {
        1 => Ok(sessions.remove(0).key.unwrap_or_default()),
        count => Err(ForeignError::Incomplete {
            path: database.path().to_owned(),
            needs: format!("the id of one of its {count} sessions"),
        }),
    }
}

fn about(database: &mut Database, key: &str) -> Result<About, ForeignError> {
    for table in SESSIONS {
        if database.columns(table)?.is_empty() {
            continue;
        }
        let query = format!("SELECT * FROM {table} WHERE id = ?1");
        let found = database.page(|connection| {
            let mut rows = connection.prepare(&query)?;
            let mut found = rows.query_map([key], |row| Ok(about_of(row)))?;
            found.next().transpose()
        })?;
        if let Some(about) = found {
            return Ok(about);
        }
    }
    let needs = "the session's row".to_owned();
    Err(ForeignError::Incomplete { path: database.path().to_owned(), needs })
}

/// A column that another version does not have is not there.
fn about_of(row: &Row<'_>) -> About {
    let text = |name: &str| row.get::<_, Option<String>>(name).ok().flatten();
    let number = |name: &str| row.get::<_, Option<i64>>(name).ok().flatten();
    let revert = text("revert").and_then(|json| serde_json::from_str::<Revert>(&json).ok());
    About {
        id: text("id").unwrap_or_default(),
        directory: text("directory"),
        title: text("title"),
        version: text("version"),
        parent: text("parent_id"),
        agent: text("agent"),
        created: number("time_created").map(Timestamp),
        archived: number("time_archived").is_some(),
        fork_of: text("fork_session_id").map(|id| (id, text("fork_boundary"))),
        revert,
    }
}

struct Reader {
    database: Database,
    key: String,
    revert: Option<Revert>,
}

/// A row as bytes: its rowid, its id, and what else it says.
struct Raw {
    rowid: i64,
    id: String,
    kind: Option<String>,
    data: Vec<u8>,
}

/// A row that was asked for.
enum Got {
    Row(Raw),
    /// It lies where the database is damaged.
    Bad(i64),
}

impl Reader {
    fn read(mut self, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
        let first = self.rowids("message", "time_created", out)?;
        let second = self.rowids("session_message", "seq", out)?;
        let mut bytes = 0;
        if second.is_empty() || (!first.is_empty() && !self.is_migrated(out)?) {
            out.fact(Fact::Format("database v1".to_owned()));
            bytes += self.first(&first, out)?;
        } else {
            out.fact(Fact::Format("database v2".to_owned()));
            bytes += self.second(&second, out)?;
        }
        self.pending(out)?;
        out.finish(self.database.path(), bytes)
    }

    /// Whether a session that has rows of both engines goes on in the second one.
    fn is_migrated(&mut self, out: &mut Emitter<'_>) -> Result<bool, ForeignError> {
        let key = &self.key;
        let newest =
            |table: &str| format!("(SELECT max(time_updated) FROM {table} WHERE session_id = ?1)");
        let (first, second) = (newest("message"), newest("session_message"));
        let query = format!("SELECT {second} >= {first}");
        let migrated = self.database.page(|c| c.query_row(&query, [key], |row| row.get(0)))?;
        let sentence = "The session has messages of both of OpenCode's engines.";
        let done = if migrated {
            "Those of the second engine were read: they are the newer ones."
        } else {
            "Those of the first engine were read: they are the newer ones."
        };
        out.found("two-engines", Severity::Note, &Origin::default(), sentence, done);
        Ok(migrated)
    }

    /// The rows of the session in a table, in the order in which they were written: `(rowid, order)`.
    fn rowids(
        &mut self,
        table: &'static str,
        order: &str,
        out: &mut Emitter<'_>,
    ) -> Result<Vec<(i64, i64)>, ForeignError> {
        if self.database.columns(table)?.is_empty() {
            return Ok(Vec::new());
        }
        let by = if table == "message" { "rowid" } else { order };
        let key = &self.key;
        // By the index; where that is damaged, by the table itself, as far as it goes.
        for hint in ["", "NOT INDEXED"] {
            let query = format!("SELECT rowid, {order} FROM {table} {hint} WHERE session_id = ?1");
            let (mut rows, failed) = self.database.page(|c| as_far(c, &query, key))?;
            if failed && hint.is_empty() {
                continue;
            }
            if failed {
                let sentence = format!("The table {table} is damaged.");
                let done = "The rows that could be found were read.";
                out.found("bad-table", Severity::Damage, &Origin::default(), &sentence, done);
            }
            rows.sort_by_key(|row| if by == "rowid" { row.0 } else { row.1 });
            return Ok(rows);
        }
        Ok(Vec::new())
    }

    fn first(&mut self, rows: &[(i64, i64)], out: &mut Emitter<'_>) -> Result<u64, ForeignError> {
        let mut messages = Messages::new(self.revert.clone());
        let (order, by_id) = self.order(rows)?;
        let (mut bytes, mut at) = (0, 0);
        while at < order.len() && !out.is_stopped() {
            let page = &order[at..order.len().min(at + PAGE)];
            let read = self.database.page(|c| first_page(c, page))?;
            at += read.len();
            for (message, mut parts) in read {
                if by_id {
                    parts.sort_by(|a, b| a.id().cmp(b.id()));
                }
                bytes += hand_on(message, parts, &mut messages, out);
            }
        }
        self.todos(&messages, out)?;
        messages.finish(out);
        Ok(bytes)
    }

    /// The order of messages, and whether parts go by id. Rows are written in the order of the session,
    /// except by the migration from files: there an answer may come before its question.
    fn order(&mut self, rows: &[(i64, i64)]) -> Result<(Vec<i64>, bool), ForeignError> {
        let written: Vec<i64> = rows.iter().map(|(rowid, _)| *rowid).collect();
        if rows.is_sorted_by_key(|(_, time)| *time) {
            return Ok((written, false));
        }
        let mut seen = HashSet::new();
        for page in written.chunks(PAGE) {
            let read = self.database.page(|c| {
                page.iter().map(|&rowid| get(c, "message", rowid)).collect::<Result<Vec<_>, _>>()
            })?;
            for got in read.into_iter().flatten() {
                let Got::Row(raw) = got else { continue };
                let info = serde_json::from_slice::<Info<'_>>(&raw.data).unwrap_or_default();
                seen.insert(raw.id);
                if info.parent.is_some_and(|parent| !seen.contains(&parent)) {
                    let mut by_time = rows.to_vec();
                    by_time.sort_by_key(|&(rowid, time)| (time, rowid));
                    return Ok((by_time.into_iter().map(|(rowid, _)| rowid).collect(), true));
                }
            }
        }
        Ok((written, false))
    }

    fn second(&mut self, rows: &[(i64, i64)], out: &mut Emitter<'_>) -> Result<u64, ForeignError> {
        let mut session = Rows::new(self.revert.clone());
        let mut bytes = 0;
        let mut at = 0;
        while at < rows.len() && !out.is_stopped() {
            let page = &rows[at..rows.len().min(at + PAGE)];
            let read = self.database.page(|c| second_page(c, page))?;
            at += read.len();
            for got in read.into_iter().flatten() {
                let Some(raw) = got.told("session_message", out) else { continue };
                bytes += raw.data.len() as u64;
                let text = readable(&raw.data, &raw.origin(), out).unwrap_or_default();
                session.take(raw.kind.as_deref(), &raw.stored(&text, "session_message"), out);
            }
        }
        session.finish(out);
        Ok(bytes)
    }

    fn todos(&mut self, messages: &Messages, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
        if !self.database.columns("todo")?.contains("position") {
            return Ok(());
        }
        let key = &self.key;
        let query = "SELECT content, status FROM todo WHERE session_id = ?1 ORDER BY position";
        let todos: Vec<Todo> = self.database.page(|connection| {
            let mut rows = connection.prepare(query)?;
            let todo = |row: &Row<'_>| Ok(Todo { content: row.get(0)?, status: row.get(1)? });
            rows.query_map([key], todo)?.collect()
        })?;
        let task = task(&todos);
        if !todos.is_empty() && messages.thread.task.as_ref() != Some(&task) {
            out.record(Body::Task(task), Meta::default());
        }
        Ok(())
    }

    /// Prompts that were admitted and not delivered.
    fn pending(&mut self, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
        const WAITING: [(&str, &str); 2] = [
            (
                "session_input",
                "SELECT prompt FROM session_input WHERE session_id = ?1 AND promoted_seq IS NULL
                 ORDER BY admitted_seq",
            ),
            (
                "session_inbox",
                "SELECT payload FROM session_inbox WHERE session_id = ?1 AND type = 'user'
                 ORDER BY enqueued_seq",
            ),
        ];
        #[derive(Deserialize)]
        struct Prompt {
            text: String,
        }
        let mut waiting = Vec::new();
        for (table, query) in WAITING {
            if self.database.columns(table)?.is_empty() {
                continue;
            }
            let key = &self.key;
            let prompts: Vec<String> = self.database.page(|connection| {
                let mut rows = connection.prepare(query)?;
                rows.query_map([key], |row| row.get(0))?.collect()
            })?;
            let text =
                |json: String| serde_json::from_str::<Prompt>(&json).map_or(json, |p| p.text);
            waiting.extend(prompts.into_iter().map(text));
        }
        if !waiting.is_empty() {
            out.fact(Fact::Pending(waiting));
        }
        Ok(())
    }
}

/// All rows until the first that cannot be read, and whether there was one.
fn as_far(
    connection: &Connection,
    query: &str,
    key: &str,
) -> rusqlite::Result<(Vec<(i64, i64)>, bool)> {
    let mut statement = connection.prepare(query)?;
    let mut rows = statement.query([key])?;
    let mut found = Vec::new();
    loop {
        match rows.next() {
            Ok(Some(row)) => found.push((row.get(0)?, row.get(1)?)),
            Ok(None) => return Ok((found, false)),
            Err(e) if sqlite::is_corrupt(&e) => return Ok((found, true)),
            Err(e) => return Err(e),
        }
    }
}

/// Messages with their parts; fewer than were asked for when they are large.
fn first_page(
    connection: &Connection,
    rowids: &[i64],
) -> rusqlite::Result<Vec<(Option<Got>, Vec<Got>)>> {
    let (mut read, mut bytes) = (Vec::new(), 0);
    for &rowid in rowids {
        let message = get(connection, "message", rowid)?;
        let mut parts = Vec::new();
        if let Some(Got::Row(raw)) = &message {
            let query = "SELECT rowid, 0 FROM part WHERE message_id = ?1";
            let (mut rows, _) = as_far(connection, query, &raw.id)?;
            rows.sort_unstable();
            for (part, _) in rows {
                parts.extend(get(connection, "part", part)?);
            }
        }
        bytes += message.iter().chain(&parts).map(Got::bytes).sum::<usize>();
        read.push((message, parts));
        if bytes > PAGE_BYTES {
            break;
        }
    }
    Ok(read)
}

/// Rows of the second engine; fewer than were asked for when they are large.
fn second_page(connection: &Connection, rows: &[(i64, i64)]) -> rusqlite::Result<Vec<Option<Got>>> {
    let (mut read, mut bytes) = (Vec::new(), 0);
    for &(rowid, _) in rows {
        let got = get(connection, "session_message", rowid)?;
        bytes += got.as_ref().map_or(0, Got::bytes);
        read.push(got);
        if bytes > PAGE_BYTES {
            break;
        }
    }
    Ok(read)
}

/// One row; none when it is not there any more.
fn get(connection: &Connection, table: &str, rowid: i64) -> rusqlite::Result<Option<Got>> {
    let kind = if table == "session_message" { "type" } else { "NULL" };
    let query = format!("SELECT id, {kind}, data FROM {table} WHERE rowid = ?1");
    let mut statement = connection.prepare_cached(&query)?;
    let row = statement.query_row([rowid], |row| {
        let bytes = |column: usize| -> rusqlite::Result<Vec<u8>> {
            let value = row.get_ref(column)?;
            Ok(value.as_bytes().unwrap_or_default().to_vec())
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let kind = Some(text(bytes(1)?)).filter(|kind| !kind.is_empty());
        Ok(Raw { rowid, id: text(bytes(0)?), kind, data: bytes(2)? })
    });
    match row {
        Ok(raw) => Ok(Some(Got::Row(raw))),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
        Err(e) if sqlite::is_corrupt(&e) => Ok(Some(Got::Bad(rowid))),
        Err(e) => Err(e),
    }
}

impl Got {
    fn id(&self) -> &str {
        match self {
            Self::Row(raw) => &raw.id,
            Self::Bad(_) => "",
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Row(raw) => raw.data.len(),
            Self::Bad(_) => 0,
        }
    }

    /// The row; one that cannot be read is told.
    fn told(self, table: &str, out: &mut Emitter<'_>) -> Option<Raw> {
        match self {
            Self::Row(raw) => Some(raw),
            Self::Bad(rowid) => {
                let sentence =
                    format!("Row {rowid} of the table {table} lies where the database is damaged.");
                let done = "It was left out; everything else of the session was read.";
                out.found("bad-row", Severity::Damage, &Origin::default(), &sentence, done);
                None
            }
        }
    }
}

impl Raw {
    fn origin(&self) -> Origin {
        Origin { id: Some(self.id.clone()), ..Origin::default() }
    }

    fn stored<'a>(&self, json: &'a str, table: &str) -> Stored<'a> {
        let place = format!("Row {} of the table {table}", self.rowid);
        Stored { id: Some(self.id.clone()), json, origin: self.origin(), place }
    }
}

/// Hands on a message with its parts, and says how long they are.
fn hand_on(
    message: Option<Got>,
    parts: Vec<Got>,
    messages: &mut Messages,
    out: &mut Emitter<'_>,
) -> u64 {
    let Some(message) = message.and_then(|got| got.told("message", out)) else { return 0 };
    let parts: Vec<_> = parts.into_iter().filter_map(|got| got.told("part", out)).collect();
    let bytes = message.data.len() + parts.iter().map(|part| part.data.len()).sum::<usize>();
    let texts: Vec<_> = parts
        .iter()
        .map(|part| readable(&part.data, &part.origin(), out).unwrap_or_default())
        .collect();
    let stored: Vec<_> =
        parts.iter().zip(&texts).map(|(part, text)| part.stored(text, "part")).collect();
    let text = readable(&message.data, &message.origin(), out).unwrap_or_default();
    messages.take(&message.stored(&text, "message"), &stored, out);
    bytes as u64
}
