//! Other agents' SQLite databases, read without a trace.
//!
//! Responsible for: opening one so that no byte and no file of its folder changes and nobody waits for us
//! (G14), and reading it in short pages, each from one state of the database. Must not: know any agent's
//! tables, or hold a read transaction while rows are handed on.
//!
//! A database in WAL mode is opened by what lies beside it. Nothing in the log: the database alone, as a
//! file that does not change. A log and its index: together, with the index never written. A log without
//! its index, as a crash leaves it: opening it in place would create the index, so a private copy is read.

use super::emitter::Emitter;
use super::input::{self, ForeignError};
use super::item::Origin;
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};
use segno_model::finding::Severity;
use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a page waits for a writer that is just at it.
const BUSY: Duration = Duration::from_millis(250);

/// How often a page is read again because the database was changed meanwhile.
const TRIES: usize = 8;

/// A database that is read.
pub(super) struct Database {
    path: PathBuf,
    open: Option<Open>,
}

/// A database while it is open. One that is shared is closed after each page: an open one keeps its
/// writers from tidying up when they end.
struct Open {
    way: Way,
    seen: Seen,
    // Before the copy: it is closed before its files go.
    connection: Connection,
    _copy: Option<PrivateCopy>,
}

/// How a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As a file that nobody changes; whether that holds is looked at around each page.
    Still,
    /// Beside its writers, with their locks.
    Shared,
    /// As a copy of it and its log.
    Copied,
}

/// What lies beside a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Beside {
    /// Whether it is in WAL mode.
    wal_mode: bool,
    /// Whether there is a log.
    log: bool,
    /// Whether there is something in the log.
    logged: bool,
    /// Whether the log's index is there.
    index: bool,
}

impl Way {
    fn of(beside: Beside) -> Self {
        match beside {
            Beside { wal_mode: false, .. } | Beside { log: true, index: true, .. } => Self::Shared,
            Beside { logged: false, .. } => Self::Still,
            Beside { index: false, .. } | Beside { log: false, .. } => Self::Copied,
        }
    }
}

/// Opens a database for reading.
///
/// # Errors
/// When it is none, or cannot be read.
pub(super) fn open(path: &Path) -> Result<Database, ForeignError> {
    Ok(Database { path: path.to_owned(), open: Some(Open::best(path)?) })
}

impl Database {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads one page: all that `query` reads is of one state of the database. `query` may be called
    /// again when the database was changed meanwhile, so that it collects and hands nothing on.
    ///
    /// # Errors
    /// When the database refuses; [`is_corrupt`] tells whether other pages may still be read.
    pub(super) fn page<T>(
        &mut self,
        query: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, ForeignError> {
        for _ in 1..TRIES {
            let open = match self.open.take() {
                Some(open) => open,
                None => Open::best(&self.path)?,
            };
            let read = transaction(&open.connection, &query);
            match (open.way, &read) {
                (Way::Still, _) if Seen::of(&self.path) != open.seen => continue,
                (Way::Shared, Err(e)) if is_busy(e) => continue,
                (Way::Shared, _) => {}
                (Way::Still | Way::Copied, _) => self.open = Some(open),
            }
            return read.map_err(|e| failed(&self.path, e));
        }
        let open = Open::best(&self.path)?;
        transaction(&open.connection, &query).map_err(|e| failed(&self.path, e))
    }

    /// All rows of a table, as `read` makes them of their columns; the first one is the row's number, and
    /// a column that this version of the agent does not have is NULL. What is damaged is passed by: that is
    /// the second thing said.
    ///
    /// # Errors
    /// When nothing can be read.
    pub(super) fn rows<T>(
        &mut self,
        table: &str,
        columns: &[&str],
        read: impl Fn(&Row<'_>) -> T,
    ) -> Result<(Vec<T>, bool), ForeignError> {
        let known = self.columns(table)?;
        let list = columns.iter().map(|&name| if known.contains(name) { name } else { "NULL" });
        let list: String = list.map(|column| format!(", {column}")).collect();
        self.page(|connection| around(connection, table, &list, &read))
    }

    /// The numbers of the rows in which `column` is `key`, in order, and whether some may be missing because
    /// the table is damaged.
    ///
    /// # Errors
    /// When there is no such column, or nothing can be read.
    pub(super) fn numbers(
        &mut self,
        table: &str,
        column: &str,
        key: &str,
    ) -> Result<(Vec<i64>, bool), ForeignError> {
        if !self.columns(table)?.contains(column) {
            return Err(self.lacks(format!("a table `{table}` with a column `{column}`")));
        }
        let query = format!("SELECT rowid FROM {table} WHERE {column} = ?1 ORDER BY rowid");
        let by_index = self.page(|connection| {
            connection.prepare(&query)?.query_map([key], |row| row.get(0))?.collect()
        });
        match by_index {
            Err(error) if is_damage(&error) => {}
            read => return read.map(|numbers| (numbers, false)),
        }
        let (rows, _) = self.rows(table, &[column], |row| (row.get(0), text(row, 1)))?;
        let of_key = |(number, found): (rusqlite::Result<i64>, Option<String>)| {
            number.ok().filter(|_| found.as_deref() == Some(key))
        };
        Ok((rows.into_iter().filter_map(of_key).collect(), true))
    }

    /// How many rows of a table, or what sum of a column, belongs to each key; nothing of what is damaged.
    ///
    /// # Errors
    /// When the database refuses.
    pub(super) fn counts(
        &mut self,
        table: &str,
        key: &str,
        count: &str,
    ) -> Result<HashMap<String, u64>, ForeignError> {
        if !self.columns(table)?.contains(key) {
            return Ok(HashMap::new());
        }
        let query = format!("SELECT {key}, {count} FROM {table} GROUP BY {key}");
        let counted = self.page(|connection| {
            let mut rows = connection.prepare(&query)?;
            let row = |row: &Row<'_>| Ok(text(row, 0).zip(number(row, 1)));
            rows.query_map([], row)?.collect::<rusqlite::Result<Vec<_>>>()
        });
        match counted {
            Err(error) if is_damage(&error) => Ok(HashMap::new()),
            counted => {
                let counted = counted?.into_iter().flatten();
                Ok(counted.map(|(key, count)| (key, count.unsigned_abs())).collect())
            }
        }
    }

    /// Whether it holds no table at all.
    ///
    /// # Errors
    /// When the database refuses.
    pub(super) fn is_blank(&mut self) -> Result<bool, ForeignError> {
        let tables = "SELECT count(*) FROM sqlite_schema";
        self.page(|connection| {
            connection.query_row(tables, [], |row| Ok(row.get::<_, i64>(0)? == 0))
        })
    }

    /// That it lacks something without which nothing can be read.
    pub(super) fn lacks(&self, needs: String) -> ForeignError {
        ForeignError::Incomplete { path: self.path.clone(), needs }
    }

    /// That some of its sessions could not be listed: rows without an id, or rows that are damaged.
    pub(super) fn lost(&self, table: &str, nameless: usize, damaged: bool) -> Option<ForeignError> {
        let why = match (nameless, damaged) {
            (0, false) => return None,
            (_, true) => format!("a part of the table `{table}` is damaged"),
            (1, false) => format!("1 row of the table `{table}` has no id"),
            (n, false) => format!("{n} rows of the table `{table}` have no id"),
        };
        Some(ForeignError::SessionsLost { path: self.path.clone(), why })
    }

    /// The columns of a table, as its version of the agent has them; none when there is no such table.
    pub(super) fn columns(&mut self, table: &str) -> Result<HashSet<String>, ForeignError> {
        self.page(|connection| {
            let mut found = connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
            let names = found.query_map([table], |row| row.get(0))?;
            names.collect()
        })
    }
}

/// A row that was asked for by its number.
pub(super) enum Got<T> {
    Row(T),
    /// It lies where the database is damaged.
    Bad(i64),
}

impl<T> Got<T> {
    /// The row that `query` gives for a number; none when it is not there any more.
    pub(super) fn of(
        connection: &Connection,
        query: &str,
        number: i64,
        read: impl FnOnce(&Row<'_>) -> T,
    ) -> rusqlite::Result<Option<Self>> {
        let mut statement = connection.prepare_cached(query)?;
        match statement.query_row([number], |row| Ok(read(row))) {
            Ok(read) => Ok(Some(Self::Row(read))),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
            Err(e) if is_corrupt(&e) => Ok(Some(Self::Bad(number))),
            Err(e) => Err(e),
        }
    }

    /// The row; one that cannot be read is told.
    pub(super) fn told(self, table: &str, out: &mut Emitter<'_>) -> Option<T> {
        match self {
            Self::Row(row) => Some(row),
            Self::Bad(number) => {
                let sentence = format!(
                    "Row {number} of the table {table} lies where the database is damaged."
                );
                let done = "It was left out; everything else of the session was read.";
                out.found("bad-row", Severity::Damage, &Origin::default(), &sentence, done);
                None
            }
        }
    }
}

/// Tells that a part of a table cannot be read.
pub(super) fn tell_damaged(table: &str, out: &mut Emitter<'_>) {
    let sentence = format!("The table {table} is damaged.");
    let done = "The rows that could be found were read.";
    out.found("bad-table", Severity::Damage, &Origin::default(), &sentence, done);
}

/// Tells that the row of a session cannot be read.
pub(super) fn tell_lost_row(table: &str, out: &mut Emitter<'_>) {
    let sentence = format!("The session's row in the table {table} is lost.");
    let done = "What was said in it was read; its title and its place are not known.";
    out.found("bad-row", Severity::Damage, &Origin::default(), &sentence, done);
}

/// A column as text, whatever it was stored as.
pub(super) fn text(row: &Row<'_>, index: usize) -> Option<String> {
    match row.get_ref(index).ok()? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(_) | ValueRef::Null => None,
    }
}

/// A column as a number, whatever it was stored as.
pub(super) fn number(row: &Row<'_>, index: usize) -> Option<i64> {
    match row.get_ref(index).ok()? {
        ValueRef::Integer(number) => Some(number),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what has no fraction and is so small fits"
        )]
        ValueRef::Real(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
            Some(number as i64)
        }
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok()?.trim().parse().ok(),
        ValueRef::Real(_) | ValueRef::Blob(_) | ValueRef::Null => None,
    }
}

/// All rows of a table that can be read, and whether some cannot.
fn around<T>(
    connection: &Connection,
    table: &str,
    columns: &str,
    read: &impl Fn(&Row<'_>) -> T,
) -> rusqlite::Result<(Vec<T>, bool)> {
    let query =
        format!("SELECT rowid{columns} FROM {table} NOT INDEXED WHERE rowid >= ?1 ORDER BY rowid");
    let mut statement = connection.prepare(&query)?;
    let (mut found, mut damaged, mut from) = (Vec::new(), false, Some(i64::MIN));
    while let Some(first) = from {
        let mut rows = statement.query([first])?;
        let mut at = first;
        from = loop {
            match rows.next() {
                Ok(Some(row)) => {
                    at = row.get::<_, i64>(0)?.saturating_add(1);
                    found.push(read(row));
                }
                Ok(None) => break None,
                Err(e) if is_corrupt(&e) => {
                    damaged = true;
                    break behind(connection, table, at)?;
                }
                Err(e) => return Err(e),
            }
        };
    }
    Ok((found, damaged))
}

/// The number of the first row that can be read behind one that cannot, which is `from` or follows it.
fn behind(connection: &Connection, table: &str, from: i64) -> rusqlite::Result<Option<i64>> {
    let query =
        format!("SELECT rowid FROM {table} NOT INDEXED WHERE rowid >= ?1 ORDER BY rowid LIMIT 1");
    let mut statement = connection.prepare(&query)?;
    // None: damaged there, too.
    let mut first = |from: i64| match statement.query_row([from], |row| row.get::<_, i64>(0)) {
        Ok(number) => Ok(Some(Some(number))),
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(Some(None)),
        Err(e) if is_corrupt(&e) => Ok(None),
        Err(e) => Err(e),
    };
    // The row is there by its number, and what it holds is not.
    if let Some(Some(bad)) = first(from)? {
        return Ok(bad.checked_add(1));
    }
    // Numbers begin at 1 where nobody chose them; all others are few.
    let (mut bad, mut step) = (from.max(0), 1_i64);
    let mut good = loop {
        let Some(next) = bad.checked_add(step) else { return Ok(None) };
        match first(next)? {
            Some(Some(_)) => break next,
            Some(None) => return Ok(None),
            None => (bad, step) = (next, step.saturating_mul(2)),
        }
    };
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        match first(middle)? {
            Some(_) => good = middle,
            None => bad = middle,
        }
    }
    Ok(first(good)?.flatten())
}

/// Whether a failure says that the database is damaged where it was read.
pub(super) fn is_damage(error: &ForeignError) -> bool {
    matches!(error, ForeignError::Database { source, .. } if is_corrupt(source))
}

/// Whether an error says that the database is damaged where it was read: other rows may be whole.
pub(super) fn is_corrupt(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::SystemIoFailure))
}

impl Open {
    fn best(path: &Path) -> Result<Self, ForeignError> {
        let beside = Beside::look(path).map_err(|e| ForeignError::io(path, e))?;
        let way = Way::of(beside);
        match Self::by(way, path) {
            // A rollback journal that its writer left behind cannot be played back in place.
            Err(ForeignError::Database { .. }) if way == Way::Shared => Self::by(Way::Copied, path),
            opened => opened,
        }
    }

    fn by(way: Way, path: &Path) -> Result<Self, ForeignError> {
        use OpenFlags as Flags;
        let seen = Seen::of(path);
        let (copy, uri) = match way {
            Way::Still => (None, uri(path, "mode=ro&immutable=1")),
            Way::Shared => (None, uri(path, "mode=ro&readonly_shm=1")),
            Way::Copied => {
                let copy = PrivateCopy::of(path).map_err(|e| ForeignError::io(path, e))?;
                let uri = uri(&copy.database(), "mode=rw");
                (Some(copy), uri)
            }
        };
        let access = match way {
            Way::Copied => Flags::SQLITE_OPEN_READ_WRITE,
            Way::Still | Way::Shared => Flags::SQLITE_OPEN_READ_ONLY,
        };
        let flags = access | Flags::SQLITE_OPEN_URI | Flags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(uri, flags).map_err(|e| failed(path, e))?;
        settle(&connection).map_err(|e| failed(path, e))?;
        Ok(Self { way, seen, connection, _copy: copy })
    }
}

fn failed(path: &Path, source: rusqlite::Error) -> ForeignError {
    ForeignError::Database { path: path.to_owned(), source }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn transaction<T>(
    connection: &Connection,
    query: &impl Fn(&Connection) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    connection.execute_batch("BEGIN")?;
    let read = query(connection);
    // There is nothing to undo: it only ends.
    let ended = connection.execute_batch("ROLLBACK");
    let read = read?;
    ended.map(|()| read)
}

/// Nothing is ever written by accident, and a damaged row is an error and no crash.
fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.execute_batch("PRAGMA query_only=1; PRAGMA cell_size_check=1;")?;
    // Opens the log, so that a refusal comes now.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

fn uri(path: &Path, parameters: &str) -> PathBuf {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = b"file://".to_vec();
    for &byte in absolute.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(byte),
            _ => uri.extend(format!("%{byte:02X}").bytes()),
        }
    }
    uri.extend(format!("?{parameters}").bytes());
    OsString::from_vec(uri).into()
}

/// The path of a file beside the database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

impl Beside {
    fn look(path: &Path) -> io::Result<Self> {
        let mut head = [0; 20];
        let whole = input::open(path)?.read_exact(&mut head).is_ok();
        let log = fs::metadata(beside(path, "-wal"));
        Ok(Self {
            wal_mode: whole && head[18] == 2,
            log: log.is_ok(),
            logged: log.is_ok_and(|meta| meta.len() > 0),
            index: beside(path, "-shm").exists(),
        })
    }
}

/// By what a change of a database, or of its log, is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen([Option<(u64, u64, i64, i64)>; 2]);

impl Seen {
    fn of(path: &Path) -> Self {
        let stat = |path: &Path| {
            fs::metadata(path).ok().map(|m| (m.ino(), m.len(), m.mtime(), m.mtime_nsec()))
        };
        Self([stat(path), stat(&beside(path, "-wal"))])
    }
}

/// A copy of a database and its log in a folder of our own, removed when it is no longer needed.
struct PrivateCopy {
    folder: PathBuf,
}

impl PrivateCopy {
    fn of(path: &Path) -> io::Result<Self> {
        let copy = Self::new_folder()?;
        for _ in 0..TRIES {
            let before = Seen::of(path);
            copy_file(path, &copy.database())?;
            for suffix in ["-wal", "-journal"] {
                let to = beside(&copy.database(), suffix);
                match copy_file(&beside(path, suffix), &to) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => drop(fs::remove_file(to)),
                    copied => copied?,
                }
            }
            if Seen::of(path) == before {
                break;
            }
        }
        Ok(copy)
    }

    fn new_folder() -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let folder = std::env::temp_dir().join(format!("segno-{pid}-{number}"));
            match DirBuilder::new().mode(0o700).create(&folder) {
                // A process that had our number left it behind.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self { folder }),
            }
        }
    }

    fn database(&self) -> PathBuf {
        self.folder.join("database")
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        // What cannot be removed is the system's temporary folder's to clear.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = input::open(from)?;
    io::copy(&mut from, &mut File::create(to)?).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{Hash, Hasher};

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    /// Every file of a folder: its name, its bytes and when it was changed.
    fn trace(folder: &Path) -> Vec<(String, u64, i64, i64)> {
        let entries = fs::read_dir(folder).expect("listed").map(|entry| entry.expect("an entry"));
        let mut files: Vec<_> = entries
            .map(|entry| {
                let meta = entry.metadata().expect("a stat");
                let mut hash = std::hash::DefaultHasher::new();
                fs::read(entry.path()).expect("read").hash(&mut hash);
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, hash.finish(), meta.mtime(), meta.mtime_nsec())
            })
            .collect();
        files.sort();
        files
    }

    /// A database in WAL mode with `rows` rows in its log, and the connection that wrote them.
    fn live(path: &Path, rows: u32) -> Connection {
        let writer = Connection::open(path).expect("opened");
        let setup = "PRAGMA journal_mode=WAL; CREATE TABLE row (n INTEGER);
                     PRAGMA wal_checkpoint(TRUNCATE);";
        writer.execute_batch(setup).expect("set up");
        for n in 0..rows {
            writer.execute("INSERT INTO row VALUES (?1)", [n]).expect("inserted");
        }
        writer
    }

    fn count(database: &mut Database) -> u32 {
        let query = |c: &Connection| c.query_row("SELECT count(*) FROM row", [], |row| row.get(0));
        database.page(query).expect("a page")
    }

    fn files(from: &Path, to: &Path, names: &[&str]) {
        for name in names {
            fs::copy(from.join(name), to.join(name)).expect("copied");
        }
    }

    /// Covers: G14.
    #[test]
    fn every_state_is_read_whole_and_left_as_it_was() {
        let at_work = folder();
        let writer = live(&at_work.path().join("db"), 3);
        let crashed = folder();
        files(at_work.path(), crashed.path(), &["db", "db-wal"]);
        let crashed_with_index = folder();
        files(at_work.path(), crashed_with_index.path(), &["db", "db-wal", "db-shm"]);
        let ended = folder();
        drop(live(&ended.path().join("db"), 3));
        let old = folder();
        let plain = Connection::open(old.path().join("db")).expect("opened");
        let setup = "CREATE TABLE row (n INTEGER); INSERT INTO row VALUES (1), (2), (3);";
        plain.execute_batch(setup).expect("set up");
        for (place, way) in [
            (&at_work, Way::Shared),
            (&crashed, Way::Copied),
            (&crashed_with_index, Way::Shared),
            (&ended, Way::Still),
            (&old, Way::Shared),
        ] {
            let path = place.path().join("db");
            assert_eq!(Way::of(Beside::look(&path).expect("a look")), way);
            let mut before = trace(place.path());
            let mut database = open(&path).expect("opened");
            assert_eq!(count(&mut database), 3, "{way:?}");
            assert_eq!(count(&mut database), 3, "{way:?}");
            drop(database);
            let mut after = trace(place.path());
            if place.path() == at_work.path() {
                // A writer in the same process lends its index to us, and notes that we read.
                before.retain(|file| file.0 != "db-shm");
                after.retain(|file| file.0 != "db-shm");
            }
            assert_eq!(after, before, "{way:?}");
        }
        drop(writer);
    }

    /// Covers: G14.
    #[test]
    fn a_database_that_is_written_meanwhile_is_read_as_it_is_then() {
        let place = folder();
        let path = place.path().join("db");
        drop(live(&path, 1));
        let mut database = open(&path).expect("opened");
        assert_eq!(count(&mut database), 1);
        let writer = Connection::open(&path).expect("opened");
        writer.execute("INSERT INTO row VALUES (2)", []).expect("inserted");
        assert_eq!(count(&mut database), 2);
        writer.execute("INSERT INTO row VALUES (3)", []).expect("nobody holds it up");
        assert_eq!(count(&mut database), 3);
        drop(writer);
        assert!(!place.path().join("db-wal").exists(), "its writer could tidy up");
        assert_eq!(count(&mut database), 3);
    }

    /// Covers: G14.
    #[test]
    #[expect(clippy::used_underscore_binding, reason = "elsewhere it is only kept")]
    fn a_log_that_cannot_be_indexed_in_place_leaves_no_copy_behind() {
        let place = folder();
        let (there, path) = (folder(), place.path().join("db"));
        let writer = live(&there.path().join("db"), 2);
        files(there.path(), place.path(), &["db", "db-wal"]);
        let mut database = open(&path).expect("opened");
        let copy = database.open.as_ref().and_then(|open| open._copy.as_ref());
        let folder = copy.expect("a copy").folder.clone();
        assert_eq!(fs::metadata(&folder).expect("a stat").mode() & 0o777, 0o700);
        assert_eq!(count(&mut database), 2);
        drop(database);
        assert!(!folder.exists());
        drop(writer);
    }

    #[test]
    fn what_is_no_database_is_an_error() {
        let place = folder();
        for (name, bytes) in
            [("empty", &b""[..]), ("text", b"hello"), ("magic", b"SQLite format 3\0")]
        {
            let path = place.path().join(name);
            fs::write(&path, bytes).expect("written");
            let columns = open(&path).and_then(|mut database| database.columns("row"));
            if name == "empty" {
                assert!(columns.expect("SQLite takes it for an empty one").is_empty());
            } else {
                assert!(columns.is_err(), "{name}");
            }
        }
        assert!(open(&place.path().join("absent")).is_err());
    }
}
