//! The rows of one session of a database, as a small database of their own.
//!
//! Responsible for: copying them, value by value and under their numbers, so that the same reader reads them; and
//! whether rows are gone since they were copied. Must not: execute a statement that the other database holds, or
//! copy a table of which it is not known to be about sessions.

use super::input::ForeignError;
use super::locate::Located;
use super::sqlite;
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OpenFlags, params_from_iter};
use std::path::Path;

/// Tables in which each row is a session.
const SESSIONS: &[&str] = &["session", "session_v2", "sessions"];
/// Small tables that every session needs.
const SHARED: &[&str] = &["schema_version", "project"];
/// Columns by which rows are looked for.
const LOOKED_FOR: &[&str] = &["id", "session_id", "message_id"];

/// Writes the rows of a session into a new database, where nothing is yet.
///
/// # Errors
/// When the rows cannot be read or written.
pub fn copy_rows(session: &Located, to: &Path) -> Result<(), ForeignError> {
    let key = session.key.clone().unwrap_or_default();
    let mut database = sqlite::open(&session.path)?;
    database.page(|from| {
        // What an earlier try left.
        let _ = std::fs::remove_file(to);
        let into = Connection::open(to)?;
        into.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN")?;
        for table in tables(from)? {
            copy_table(from, &into, &table, &key)?;
        }
        into.execute_batch("COMMIT")
    })
}

/// Whether messages of a session are in the older copy of its rows and not in the newer one.
///
/// # Errors
/// When one of them cannot be read.
pub fn lost_rows(older: &Path, newer: &Path) -> Result<bool, ForeignError> {
    let fail = |source| ForeignError::Database { path: older.to_owned(), source };
    let ask = || -> rusqlite::Result<bool> {
        let newer = Connection::open_with_flags(newer, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        newer.execute("ATTACH ?1 AS older", [older.to_string_lossy()])?;
        let mut named =
            newer.prepare("SELECT name FROM older.sqlite_schema WHERE type = 'table'")?;
        let names = named.query_map([], |row| row.get::<_, String>(0))?;
        for table in names {
            let table = table?;
            let there = "SELECT count(*) FROM main.sqlite_schema WHERE name = ?1";
            if newer.query_row(there, [&table], |row| row.get::<_, i64>(0))? == 0 {
                return Ok(true);
            }
            let table = quoted(&table);
            let there: i64 = newer.query_row(
                &format!("SELECT count(*) FROM older.{table} WHERE rowid NOT IN (SELECT rowid FROM main.{table})"),
                [],
                |row| row.get(0),
            )?;
            if there > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    };
    ask().map_err(fail)
}

struct Table {
    name: String,
    columns: Vec<String>,
    /// The column that says which session a row is of; none of a table that every session needs.
    of: Option<&'static str>,
}

fn tables(from: &Connection) -> rusqlite::Result<Vec<Table>> {
    let mut named = from.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )?;
    let names = named.query_map([], |row| row.get::<_, String>(0))?;
    let mut tables = Vec::new();
    for name in names {
        let name = name?;
        let mut asked = from.prepare("SELECT name FROM pragma_table_info(?1)")?;
        let columns = asked.query_map([&name], |row| row.get(0))?;
        let columns = columns.collect::<rusqlite::Result<Vec<String>>>()?;
        let has = |column: &str| columns.iter().any(|name| name == column);
        let of = match name.as_str() {
            table if SESSIONS.contains(&table) && has("id") => Some(Some("id")),
            table if SHARED.contains(&table) => Some(None),
            _ if has("session_id") => Some(Some("session_id")),
            _ => None,
        };
        tables.extend(of.map(|of| Table { name, columns, of }));
    }
    Ok(tables)
}

fn copy_table(
    from: &Connection,
    into: &Connection,
    table: &Table,
    key: &str,
) -> rusqlite::Result<()> {
    let name = quoted(&table.name);
    let columns: Vec<String> = table.columns.iter().map(|column| quoted(column)).collect();
    let list = columns.join(", ");
    into.execute_batch(&format!("CREATE TABLE {name} ({list})"))?;
    for column in LOOKED_FOR.iter().filter(|c| table.columns.iter().any(|name| name == *c)) {
        let index = quoted(&format!("{}_{column}", table.name));
        into.execute_batch(&format!("CREATE INDEX {index} ON {name} ({column})"))?;
    }
    let marks = vec!["?"; columns.len() + 1].join(", ");
    let mut insert =
        into.prepare(&format!("INSERT INTO {name} (rowid, {list}) VALUES ({marks})"))?;
    let wanted = table.of.map_or(String::new(), |column| format!("WHERE {column} = ?1"));
    let mut select =
        from.prepare(&format!("SELECT rowid, {list} FROM {name} {wanted} ORDER BY rowid"))?;
    let asked: &[&str] = if table.of.is_some() { &[key] } else { &[] };
    let mut rows = select.query(params_from_iter(asked))?;
    while let Some(row) = rows.next()? {
        let values = (0..=columns.len()).map(|i| row.get_ref(i).map(ToSqlOutput::Borrowed));
        let values = values.collect::<rusqlite::Result<Vec<ToSqlOutput<'_>>>>()?;
        insert.execute(params_from_iter(values))?;
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
