//! The SQLite file behind the list.
//!
//! Responsible for: keeping rows between processes, several at once, and giving way when it cannot: a
//! file that is no database is set aside, a busy one is left alone. Must not: fail; every answer can be
//! "nothing is known".

use super::packed::{Unpacker, pack};
use super::{Fingerprint, Opened, Row, foreign_rows};
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};
use segno_model::SessionId;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Raised whenever a row's shape changes; rows of another version are thrown away and made again.
const VERSION: i64 = 9;
/// Bytes read at a time. A list reads every row, so fewer and larger reads pay.
const PAGE: i64 = 16 << 10;
/// How long another process's writing is waited for.
const BUSY: Duration = Duration::from_secs(5);
/// How often, and how far apart, opening is tried while others set the file up.
const SET_UP_TRIES: u32 = 200;
const SET_UP_PAUSE: Duration = Duration::from_millis(10);

/// The rows as they are stored, in the order of their ids.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) rows: Vec<Row>,
    /// Of each row; none when the row cannot be read and is made again from its log.
    pub(super) fingerprints: Vec<Option<Fingerprint>>,
}

/// A row and the file that it was read from.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) fingerprint: Fingerprint,
    pub(super) row: Row,
}

#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    /// None when not even a database in memory can be had.
    connection: Option<Connection>,
    opened: Opened,
}

impl Database {
    pub(super) fn open(path: &Path) -> Self {
        let path = path.to_owned();
        let before = path.exists();
        match connect(&path) {
            Ok(connection) => {
                let opened = if before { Opened::Kept } else { Opened::New };
                Self { path, connection: Some(connection), opened }
            }
            Err(error) => Self::instead(path, &error),
        }
    }

    pub(super) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// What takes the place of a database that cannot be used.
    fn instead(path: PathBuf, error: &rusqlite::Error) -> Self {
        if is_damage(error)
            && let Some(aside) = set_aside(&path)
            && let Ok(connection) = connect(&path)
        {
            return Self { path, connection: Some(connection), opened: Opened::SetAside(aside) };
        }
        Self { path, connection: None, opened: Opened::Memory(error.to_string()) }
    }

    /// All rows; what cannot be read is not known.
    pub(super) fn load(&mut self) -> Kept {
        self.ask(|connection| read_all(connection)).0
    }

    /// Writes changed rows and removes gone ones; says whether that worked.
    pub(super) fn save(&mut self, changed: &[Stored], gone: &[SessionId]) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        if changed.is_empty() && gone.is_empty() {
            return true;
        }
        match write_all(connection, changed, gone) {
            Ok(()) => true,
            Err(error) => {
                self.give_up_if_damaged(&error);
                false
            }
        }
    }

    /// What `ask` reads from the database; nothing when that fails.
    pub(super) fn ask<T: Default>(
        &mut self,
        ask: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> (T, bool) {
        let Some(connection) = &mut self.connection else { return (T::default(), false) };
        match ask(connection) {
            Ok(found) => (found, true),
            Err(error) => {
                self.give_up_if_damaged(&error);
                (T::default(), false)
            }
        }
    }

    /// Removes a row, and what pages and journal still hold of rows that were removed before.
    pub(super) fn scrub(&mut self, id: &SessionId) -> bool {
        let (clean, asked) = self.ask(|connection| {
            connection.pragma_update(None, "secure_delete", "ON")?;
            connection.execute("DELETE FROM session WHERE id = ?1", [id.as_str()])?;
            connection.execute_batch("VACUUM")?;
            let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
            connection.query_row(checkpoint, [], |row| row.get::<_, i64>(0)).map(|busy| busy == 0)
        });
        clean && asked
    }

    fn give_up_if_damaged(&mut self, error: &rusqlite::Error) {
        if is_damage(error) {
            self.connection = None;
            *self = Self::instead(std::mem::take(&mut self.path), error);
        }
    }
}

/// Opens the file. Processes that start at once on a new file meet while it is set up; that takes
/// milliseconds and is waited for here, because SQLite itself does not wait for a change of journal.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let mut tries = 0;
    loop {
        match connect_once(path) {
            Err(error) if is_busy(&error) && tries < SET_UP_TRIES => {
                tries += 1;
                std::thread::sleep(SET_UP_PAUSE);
            }
            done => return done,
        }
    }
}

/// Opens the file, private from the start, and makes sure that its table has today's shape.
fn connect_once(path: &Path) -> rusqlite::Result<Connection> {
    make_private_file(path);
    if is_cut(path) {
        let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
        return Err(rusqlite::Error::SqliteFailure(
            corrupt,
            Some("its last page is cut".to_owned()),
        ));
    }
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    // Says something only to a file that is new.
    connection.pragma_update(None, "page_size", PAGE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    if version(&connection)? != VERSION {
        let made = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have done it while this one waited.
        if version(&made)? != VERSION {
            made.execute_batch(
                "DROP TABLE IF EXISTS session;
                 CREATE TABLE session (
                     id TEXT PRIMARY KEY,
                     bytes INTEGER NOT NULL,
                     modified_ns INTEGER NOT NULL,
                     ino INTEGER NOT NULL,
                     row BLOB NOT NULL
                 ) WITHOUT ROWID;",
            )?;
            made.execute_batch(foreign_rows::SCHEMA)?;
            made.pragma_update(None, "user_version", VERSION)?;
        }
        made.commit()?;
    }
    // A database whose table is not what its version says is as good as none.
    connection.prepare("SELECT id, bytes, modified_ns, ino, row FROM session")?;
    foreign_rows::check(&connection)?;
    Ok(connection)
}

/// Whether the file ends within a page. SQLite reads the rest of such a page as zeros, which then stand in rows.
/// While a process has it open, which its journal tells, it may be about to write that page.
fn is_cut(path: &Path) -> bool {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-wal");
    let Some(meta) = fs::metadata(path).ok().filter(std::fs::Metadata::is_file) else {
        return false;
    };
    let mut head = [0; 18];
    let whole = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    // 1 stands for 65,536, which is in no file of ours; 0 is in none at all.
    let page = u64::from(u16::from_be_bytes([head[16], head[17]]));
    whole.is_ok() && page > 1 && !meta.len().is_multiple_of(page) && !Path::new(&journal).exists()
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// SQLite gives its side files the database's mode. A pipe in its place is not waited for.
fn make_private_file(path: &Path) {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let made =
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path);
    if let Ok(file) = made {
        let _ = file.set_permissions(Permissions::from_mode(0o600));
    }
}

/// Whether the file itself is at fault; a busy or unwritable one is not.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(
            code,
            ErrorCode::NotADatabase
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::TypeMismatch
                | ErrorCode::Unknown
        ),
        None => true,
    }
}

/// Moves a database out of the way, with its side files; never deletes it.
fn set_aside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.to_owned();
    let aside = (0..1000)
        .map(|n| path.with_file_name(format!("{name}.damaged-{n}")))
        .find(|candidate| !candidate.exists())?;
    fs::rename(path, &aside).ok()?;
    for side in ["-wal", "-shm"] {
        let old = path.with_file_name(format!("{name}{side}"));
        let mut new = aside.clone().into_os_string();
        new.push(side);
        // Not there, most of the time.
        let _ = fs::rename(old, new);
    }
    Some(aside)
}

fn read_all(connection: &Connection) -> rusqlite::Result<Kept> {
    let sql = "SELECT id, bytes, modified_ns, ino, row FROM session ORDER BY id";
    let mut query = connection.prepare(sql)?;
    let (mut kept, mut unpacker) = (Kept::default(), Unpacker::default());
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let Ok(id) = SessionId::parse(row.get_ref(0)?.as_str()?) else { continue };
        let fingerprint = Fingerprint {
            bytes: row.get::<_, i64>(1)?.cast_unsigned(),
            modified_ns: row.get(2)?,
            ino: row.get::<_, i64>(3)?.cast_unsigned(),
        };
        // Read into its place: of ten thousand rows, each copy costs a tenth of a millisecond.
        let filled = kept.rows.push_mut(Row::blank(id));
        let is_sound = unpacker.unpack(row.get_ref(4)?.as_blob()?, filled);
        kept.fingerprints.push(Some(fingerprint).filter(|_| is_sound));
    }
    Ok(kept)
}

fn write_all(
    connection: &mut Connection,
    changed: &[Stored],
    gone: &[SessionId],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut put = transaction.prepare(
            "INSERT OR REPLACE INTO session (id, bytes, modified_ns, ino, row)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for Stored { fingerprint, row } in changed {
            put.execute(params![
                row.id.as_str(),
                fingerprint.bytes.cast_signed(),
                fingerprint.modified_ns,
                fingerprint.ino.cast_signed(),
                pack(&mut row.clone())
            ])?;
        }
        let mut remove = transaction.prepare("DELETE FROM session WHERE id = ?1")?;
        for id in gone {
            remove.execute([id.as_str()])?;
        }
    }
    transaction.commit()
}
