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
use super::super::sqlite::{self, Database, Got, number, text};
use super::facts;
use super::first::{Messages, Stored};
use super::reply::task;
use super::second::Rows;
use super::shape::{About, Info, Revert, Todo};
use rusqlite::{Connection, Row};
use segno_model::finding::Severity;
use segno_model::{Body, Timestamp};
use serde::Deserialize;
use std::collections::{BTreeSet, HashMap, HashSet};
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

/// What was found in a database.
pub(super) struct Listed {
    pub(super) sessions: Vec<Located>,
    /// Sessions whose rows are lost: what was said in them is not.
    pub(super) rowless: Vec<Located>,
    /// What could not be listed.
    pub(super) lost: Option<ForeignError>,
}

/// The sessions of a database.
pub(super) fn locate(path: &Path) -> Result<Listed, ForeignError> {
    let mut database = sqlite::open(path)?;
    let ino = fs::metadata(path).map_or(0, |meta| meta.ino());
    let (sizes, said_in) = sizes(&mut database)?;
    let located = |row: SessionRow| Located {
        agent: Agent::OpenCode,
        path: path.to_owned(),
        stamp: Stamp {
            bytes: sizes.get(&row.id).copied().unwrap_or_default(),
            modified_ns: row.updated.saturating_mul(1_000_000),
            ino,
        },
        key: Some(row.id.clone()),
        id: Some(row.id),
        parent: row.parent,
        archived: row.archived,
    };
    let (mut known, mut any, mut lost) = (HashSet::new(), false, None);
    let mut found = Vec::new();
    for table in SESSIONS {
        if !database.columns(table)?.contains("id") {
            continue;
        }
        any = true;
        let (rows, damaged) = sessions(&mut database, table)?;
        let nameless = rows.iter().filter(|row| row.is_none()).count();
        lost = lost.or(database.lost(table, nameless, damaged));
        let rows = rows.into_iter().flatten();
        found.extend(rows.filter(|row| known.insert(row.id.clone())).map(located));
    }
    if !any && !database.is_blank()? {
        return Err(database.lacks("a table `session` with a column `id`".to_owned()));
    }
    let left = said_in.iter().filter(|id| !known.contains(*id));
    let row = |id: &String| SessionRow { id: id.clone(), ..SessionRow::default() };
    Ok(Listed { sessions: found, rowless: left.map(row).map(located).collect(), lost })
}

#[derive(Default)]
struct SessionRow {
    id: String,
    parent: Option<String>,
    archived: bool,
    updated: i64,
}

fn sessions(
    database: &mut Database,
    table: &str,
) -> Result<(Vec<Option<SessionRow>>, bool), ForeignError> {
    let columns = ["id", "parent_id", "time_archived", "time_updated"];
    database.rows(table, &columns, |row| {
        Some(SessionRow {
            id: text(row, 1)?,
            parent: text(row, 2),
            archived: text(row, 3).is_some(),
            updated: number(row, 4).unwrap_or(0),
        })
    })
}

/// How many rows and events each session has, which grows with everything that is written; and the sessions
/// in which something was said.
fn sizes(
    database: &mut Database,
) -> Result<(HashMap<String, u64>, BTreeSet<String>), ForeignError> {
    const COUNTS: [(&str, &str, &str); 6] = [
        ("message", "session_id", "count(*)"),
        ("part", "session_id", "count(*)"),
        ("session_message", "session_id", "count(*)"),
        ("session_input", "session_id", "count(*)"),
        ("session_inbox", "session_id", "count(*)"),
        ("event_sequence", "aggregate_id", "sum(seq)"),
    ];
    let (mut sizes, mut said_in) = (HashMap::new(), BTreeSet::new());
    for (table, session, count) in COUNTS {
        for (id, rows) in database.counts(table, session, count)? {
            if MESSAGES.contains(&table) {
                said_in.insert(id.clone());
            }
            *sizes.entry(id).or_default() += rows;
        }
    }
    Ok((sizes, said_in))
}

/// Reads one session.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let mut database = sqlite::open(&session.path)?;
    let key = match &session.key {
        Some(key) => key.clone(),
        None => only_session(&mut database)?,
    };
    let about = about(&mut database, &key)?;
    let is_lost = about.is_none();
    let about = about.unwrap_or_else(|| About { id: key.clone(), ..About::default() });
    let mut reader = Reader { database, key, revert: about.revert.clone() };
    if is_lost {
        if reader.is_gone()? {
            return Err(reader.database.lacks("the session's row".to_owned()));
        }
        sqlite::tell_lost_row(SESSIONS[1], out);
    }
    facts(&about, out);
    reader.read(out)
}

fn only_session(database: &mut Database) -> Result<String, ForeignError> {
    let mut sessions = locate(database.path())?.sessions;
    match sessions.len() {
        1 => Ok(sessions.remove(0).key.unwrap_or_default()),
        count => Err(database.lacks(format!("the id of one of its {count} sessions"))),
    }
}

/// The session's row; none when it is lost.
fn about(database: &mut Database, key: &str) -> Result<Option<About>, ForeignError> {
    for table in SESSIONS {
        if !database.columns(table)?.contains("id") {
            continue;
        }
        // By the index; where that is damaged, by the table itself.
        for hint in ["", "NOT INDEXED"] {
            let query = format!("SELECT * FROM {table} {hint} WHERE id = ?1");
            let found = database.page(|connection| {
                let mut rows = connection.prepare(&query)?;
                let mut found = rows.query_map([key], |row| Ok(about_of(row)))?;
                found.next().transpose()
            });
            match found {
                Err(e) if sqlite::is_damage(&e) => {}
                Ok(None) => break,
                found => return found,
            }
        }
    }
    Ok(None)
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

/// The tables of messages, those of the first engine first.
const MESSAGES: [&str; 2] = ["message", "session_message"];

impl Reader {
    /// Whether nothing of the session is left.
    fn is_gone(&mut self) -> Result<bool, ForeignError> {
        for table in MESSAGES {
            if self.database.columns(table)?.contains("session_id")
                && !self.database.numbers(table, "session_id", &self.key)?.0.is_empty()
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Tells of tables and columns that this version of OpenCode calls by other names.
    fn check(&mut self, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
        const NEEDED: [(&str, &[&str]); 3] = [
            ("message", &["id", "session_id", "data"]),
            ("part", &["message_id", "data"]),
            ("session_message", &["session_id", "data"]),
        ];
        let mut there = Vec::new();
        for (table, needed) in NEEDED {
            let columns = self.database.columns(table)?;
            if columns.is_empty() {
                continue;
            }
            there.push(table);
            for column in needed.iter().filter(|column| !columns.contains(**column)) {
                let sentence = format!("The table {table} has no column {column}.");
                let done = "What stands there is not read: this version of OpenCode is not known.";
                out.found("bad-table", Severity::Damage, &Origin::default(), &sentence, done);
            }
        }
        if !there.iter().any(|table| MESSAGES.contains(table)) {
            return Err(self.database.lacks("a table `message` or `session_message`".to_owned()));
        }
        // Tables that come in pairs, the missing one of which is read.
        for (one, missing) in
            [("message", "part"), ("part", "message"), ("session_input", "session_message")]
        {
            if self.database.columns(one)?.is_empty() || there.contains(&missing) {
                continue;
            }
            let sentence = format!("There is a table {one} and no table {missing}.");
            let done = "What stands there is not read: this version of OpenCode is not known.";
            out.found("bad-table", Severity::Damage, &Origin::default(), &sentence, done);
        }
        Ok(())
    }

    fn read(mut self, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
        self.check(out)?;
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
        let mut newest = [0, 0];
        for (newest, table) in newest.iter_mut().zip(MESSAGES) {
            if self.database.columns(table)?.contains("time_updated") {
                let query = format!("SELECT max(time_updated) FROM {table} WHERE session_id = ?1");
                let found =
                    self.database.page(|c| c.query_row(&query, [key], |row| Ok(number(row, 0))));
                *newest = found.ok().flatten().unwrap_or(0);
            }
        }
        let migrated = newest[1] >= newest[0];
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
        let columns = self.database.columns(table)?;
        if !columns.contains("session_id") {
            return Ok(Vec::new());
        }
        let order = if columns.contains(order) { order } else { "rowid" };
        let key = &self.key;
        let query = format!("SELECT rowid, {order} FROM {table} WHERE session_id = ?1");
        let row = |row: &Row<'_>| Ok((number(row, 0).unwrap_or_default(), number(row, 1)));
        let by_index = self.database.page(|connection| {
            let mut rows = connection.prepare(&query)?;
            rows.query_map([key], row)?.collect::<rusqlite::Result<Vec<_>>>()
        });
        let mut rows = match by_index {
            Err(e) if sqlite::is_damage(&e) => None,
            rows => Some(rows?),
        };
        if rows.is_none() {
            // The index is damaged, or the table: whatever can be found of that.
            let wanted = ["session_id", order];
            let row = |row: &Row<'_>| {
                let rowid = number(row, 0).unwrap_or_default();
                (text(row, 1), rowid, number(row, 2))
            };
            let (all, damaged) = self.database.rows(table, &wanted, row)?;
            let ours = all.into_iter().filter(|(session, ..)| session.as_ref() == Some(key));
            rows = Some(ours.map(|(_, rowid, order)| (rowid, order)).collect());
            if damaged {
                sqlite::tell_damaged(table, out);
            }
        }
        let rows = rows.unwrap_or_default();
        // Where one does not say its place, that of writing is as good.
        let placed = table != "message" && rows.iter().all(|(_, order)| order.is_some());
        let mut rows: Vec<_> =
            rows.into_iter().map(|(rowid, order)| (rowid, order.unwrap_or(rowid))).collect();
        rows.sort_by_key(|row| if placed { row.1 } else { row.0 });
        Ok(rows)
    }

    fn first(&mut self, rows: &[(i64, i64)], out: &mut Emitter<'_>) -> Result<u64, ForeignError> {
        let mut messages = Messages::new(self.revert.clone());
        let (order, by_id) = self.order(rows)?;
        let (mut bytes, mut at) = (0, 0);
        let mut tables = Tables {
            message: self.query("message")?,
            part: self.query("part")?,
            has_parts: self.database.columns("part")?.contains("message_id"),
            parts: None,
        };
        while at < order.len() && !out.is_stopped() {
            let page = &order[at..order.len().min(at + PAGE)];
            let read = match self.database.page(|c| first_page(c, &tables, page)) {
                // The index of the parts is damaged, or their table: whatever can be found of that.
                Err(e) if sqlite::is_damage(&e) && tables.parts.is_none() => {
                    tables.parts = Some(self.parts(out)?);
                    continue;
                }
                read => read?,
            };
            at += read.len();
            for (message, mut parts) in read {
                if by_id {
                    parts.sort_by(|a, b| id_of(a).cmp(id_of(b)));
                }
                bytes += hand_on(message, parts, &mut messages, out);
            }
        }
        self.todos(&messages, out)?;
        messages.finish(out);
        Ok(bytes)
    }

    /// The numbers of all parts that can be found, by the ids of their messages.
    fn parts(&mut self, out: &mut Emitter<'_>) -> Result<HashMap<String, Vec<i64>>, ForeignError> {
        let row = |row: &Row<'_>| text(row, 1).zip(number(row, 0));
        let (rows, damaged) = self.database.rows("part", &["message_id"], row)?;
        if damaged {
            sqlite::tell_damaged("part", out);
        }
        let mut parts: HashMap<_, Vec<i64>> = HashMap::new();
        for (message, rowid) in rows.into_iter().flatten() {
            parts.entry(message).or_default().push(rowid);
        }
        Ok(parts)
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
            let query = self.query("message")?;
            let read = self.database.page(|c| {
                page.iter().map(|&rowid| get(c, &query, rowid)).collect::<Result<Vec<_>, _>>()
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
        let query = self.query("session_message")?;
        let mut bytes = 0;
        let mut at = 0;
        while at < rows.len() && !out.is_stopped() {
            let page = &rows[at..rows.len().min(at + PAGE)];
            let read = self.database.page(|c| second_page(c, &query, page))?;
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

    /// What gives a row of a table by its number: what this version does not have is NULL.
    fn query(&mut self, table: &str) -> Result<String, ForeignError> {
        let columns = self.database.columns(table)?;
        let column = |name: &'static str| if columns.contains(name) { name } else { "NULL" };
        let (id, kind, data) = (column("id"), column("type"), column("data"));
        Ok(format!("SELECT rowid, {id}, {kind}, {data} FROM {table} WHERE rowid = ?1"))
    }

    fn todos(&mut self, messages: &Messages, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
        let columns = self.database.columns("todo")?;
        if !["session_id", "position", "content", "status"].iter().all(|c| columns.contains(*c)) {
            return Ok(());
        }
        let key = &self.key;
        let query = "SELECT content, status FROM todo WHERE session_id = ?1 ORDER BY position";
        let todos: Vec<Todo> = self.database.page(|connection| {
            let mut rows = connection.prepare(query)?;
            let text = |row: &Row<'_>, column| text(row, column).unwrap_or_default();
            let todo = |row: &Row<'_>| Ok(Todo { content: text(row, 0), status: text(row, 1) });
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
        // The table, the columns that must be there, and what waits there.
        const WAITING: [(&str, &[&str], &str); 2] = [
            (
                "session_input",
                &["session_id", "prompt", "promoted_seq", "admitted_seq"],
                "SELECT prompt FROM session_input WHERE session_id = ?1 AND promoted_seq IS NULL
                 ORDER BY admitted_seq",
            ),
            (
                "session_inbox",
                &["session_id", "payload", "type", "enqueued_seq"],
                "SELECT payload FROM session_inbox WHERE session_id = ?1 AND type = 'user'
                 ORDER BY enqueued_seq",
            ),
        ];
        #[derive(Deserialize)]
        struct Prompt {
            text: String,
        }
        let mut waiting = Vec::new();
        for (table, needed, query) in WAITING {
            let columns = self.database.columns(table)?;
            if !needed.iter().all(|column| columns.contains(*column)) {
                continue;
            }
            let key = &self.key;
            let prompts = self.database.page(|connection| {
                let mut rows = connection.prepare(query)?;
                rows.query_map([key], |row| Ok(text(row, 0)))?.collect::<rusqlite::Result<Vec<_>>>()
            });
            let prompts = match prompts {
                Err(e) if sqlite::is_damage(&e) => {
                    sqlite::tell_damaged(table, out);
                    continue;
                }
                prompts => prompts?.into_iter().flatten(),
            };
            let text =
                |json: String| serde_json::from_str::<Prompt>(&json).map_or(json, |p| p.text);
            waiting.extend(prompts.map(text));
        }
        if !waiting.is_empty() {
            out.fact(Fact::Pending(waiting));
        }
        Ok(())
    }
}

/// A message, if it is still there, and its parts.
type Message = (Option<Got<Raw>>, Vec<Got<Raw>>);

/// How the tables of the first engine are read.
struct Tables {
    /// What gives a row of each by its number.
    message: String,
    part: String,
    has_parts: bool,
    /// The parts of each message, where the database cannot say it.
    parts: Option<HashMap<String, Vec<i64>>>,
}

impl Tables {
    fn parts_of(&self, connection: &Connection, message: &str) -> rusqlite::Result<Vec<i64>> {
        match &self.parts {
            _ if !self.has_parts => Ok(Vec::new()),
            Some(parts) => Ok(parts.get(message).cloned().unwrap_or_default()),
            None => {
                let query = "SELECT rowid FROM part WHERE message_id = ?1 ORDER BY rowid";
                connection.prepare_cached(query)?.query_map([message], |row| row.get(0))?.collect()
            }
        }
    }
}

/// Messages with their parts; fewer than were asked for when they are large.
fn first_page(
    connection: &Connection,
    tables: &Tables,
    rowids: &[i64],
) -> rusqlite::Result<Vec<Message>> {
    let (mut read, mut bytes) = (Vec::new(), 0);
    for &rowid in rowids {
        let message = get(connection, &tables.message, rowid)?;
        let mut parts = Vec::new();
        if let Some(Got::Row(raw)) = &message {
            for part in tables.parts_of(connection, &raw.id)? {
                parts.extend(get(connection, &tables.part, part)?);
            }
        }
        bytes += message.iter().chain(&parts).map(bytes_of).sum::<usize>();
        read.push((message, parts));
        if bytes > PAGE_BYTES {
            break;
        }
    }
    Ok(read)
}

/// Rows of the second engine; fewer than were asked for when they are large.
fn second_page(
    connection: &Connection,
    query: &str,
    rows: &[(i64, i64)],
) -> rusqlite::Result<Vec<Option<Got<Raw>>>> {
    let (mut read, mut bytes) = (Vec::new(), 0);
    for &(rowid, _) in rows {
        let got = get(connection, query, rowid)?;
        bytes += got.as_ref().map_or(0, bytes_of);
        read.push(got);
        if bytes > PAGE_BYTES {
            break;
        }
    }
    Ok(read)
}

/// One row; none when it is not there any more.
fn get(connection: &Connection, query: &str, rowid: i64) -> rusqlite::Result<Option<Got<Raw>>> {
    Got::of(connection, query, rowid, |row| {
        let data = row.get_ref(3).ok().and_then(|value| value.as_bytes().ok().map(<[u8]>::to_vec));
        Raw {
            rowid,
            id: text(row, 1).unwrap_or_default(),
            kind: text(row, 2).filter(|kind| !kind.is_empty()),
            data: data.unwrap_or_default(),
        }
    })
}

fn id_of(got: &Got<Raw>) -> &str {
    match got {
        Got::Row(raw) => &raw.id,
        Got::Bad(_) => "",
    }
}

fn bytes_of(got: &Got<Raw>) -> usize {
    match got {
        Got::Row(raw) => raw.data.len(),
        Got::Bad(_) => 0,
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
    message: Option<Got<Raw>>,
    parts: Vec<Got<Raw>>,
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
