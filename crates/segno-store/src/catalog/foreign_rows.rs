//! The tables for other agents' sessions.
//!
//! Responsible for: storing rows, what was spent, and the facts of places, and reading them again. Must
//! not: decide what is out of date.

use super::digest::ForeignRow;
use super::packed::{Unpacker, pack};
use super::spent::{Ledger, Spent};
use crate::foreign::{Agent, Located, Stamp};
use rusqlite::{Connection, TransactionBehavior, params};
use segno_model::record::ProjectFacts;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The tables. Dropped first, so that a new version begins anew.
pub(super) const SCHEMA: &str = "
    DROP TABLE IF EXISTS other;
    DROP TABLE IF EXISTS spent;
    DROP TABLE IF EXISTS place;
    CREATE TABLE other (
        agent TEXT NOT NULL,
        path TEXT NOT NULL,
        key TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        modified_ns INTEGER NOT NULL,
        ino INTEGER NOT NULL,
        mark INTEGER NOT NULL,
        row BLOB NOT NULL,
        PRIMARY KEY (agent, path, key)
    ) WITHOUT ROWID;
    CREATE TABLE spent (
        agent TEXT NOT NULL,
        path TEXT NOT NULL,
        key TEXT NOT NULL,
        responses BLOB NOT NULL,
        PRIMARY KEY (agent, path, key)
    ) WITHOUT ROWID;
    CREATE TABLE place (
        cwd TEXT PRIMARY KEY,
        mark TEXT NOT NULL,
        facts BLOB NOT NULL
    ) WITHOUT ROWID;";

/// What stands for a session of another agent. Whoever finds something by it compares the session.
pub(super) fn hash(agent: Agent, path: &Path, key: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    // As text: a path's own hash takes it apart.
    (agent, path.as_os_str(), key).hash(&mut hasher);
    hasher.finish()
}

/// A row, and by what it is known to be up to date.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) stamp: Stamp,
    /// Of the file's beginning and end; 0 for none.
    pub(super) mark: u64,
    pub(super) row: Box<ForeignRow>,
    /// False when a damaged database wrote the row: only its place is known.
    pub(super) is_sound: bool,
}

impl Kept {
    /// Whether it is of this session.
    pub(super) fn is_of(&self, session: &Located) -> bool {
        let row = &self.row;
        (row.agent, row.path.as_os_str(), &row.key)
            == (session.agent, session.path.as_os_str(), &session.key)
    }
}

/// What is known of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// How it looked then, as whoever looked at it describes it.
    pub mark: String,
    /// Its project.
    pub facts: Arc<ProjectFacts>,
}

/// A row that was made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) stamp: Stamp,
    pub(super) mark: u64,
    pub(super) row: ForeignRow,
    /// None: as it was.
    pub(super) spent: Option<Ledger>,
}

/// Whether the tables have today's shape.
pub(super) fn check(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare("SELECT agent, path, key, bytes, modified_ns, ino, mark, row FROM other")?;
    connection.prepare("SELECT agent, path, key, responses FROM spent")?;
    connection.prepare("SELECT cwd, mark, facts FROM place").map(drop)
}

/// The rows, by [`hash`].
pub(super) fn load(connection: &mut Connection) -> rusqlite::Result<HashMap<u64, Kept>> {
    let mut query = connection
        .prepare("SELECT agent, path, key, bytes, modified_ns, ino, mark, row FROM other")?;
    let mut rows = query.query([])?;
    let (mut found, mut unpacker) = (HashMap::new(), Unpacker::default());
    while let Some(row) = rows.next()? {
        let Some(agent) = Agent::parse(row.get_ref(0)?.as_str()?) else { continue };
        let (path, key) = (row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?);
        let key = Some(key).filter(|key| !key.is_empty()).map(str::to_owned);
        let blank = ForeignRow::blank(agent, PathBuf::from(path), key);
        let mut kept = Box::new(blank);
        let stamp = Stamp {
            bytes: row.get::<_, i64>(3)?.cast_unsigned(),
            modified_ns: row.get(4)?,
            ino: row.get::<_, i64>(5)?.cast_unsigned(),
        };
        let mark = row.get::<_, i64>(6)?.cast_unsigned();
        let is_sound = unpacker.unpack(row.get_ref(7)?.as_blob()?, &mut *kept);
        let hash = hash(agent, &kept.path, kept.key.as_deref());
        found.insert(hash, Kept { stamp, mark, row: kept, is_sound });
    }
    Ok(found)
}

pub(super) fn save(connection: &mut Connection, made: &[Made]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut put = transaction.prepare(
            "INSERT OR REPLACE INTO other (agent, path, key, bytes, modified_ns, ino, mark, row)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?;
        let mut spend = transaction.prepare(
            "INSERT OR REPLACE INTO spent (agent, path, key, responses) VALUES (?1, ?2, ?3, ?4)",
        )?;
        for made in made {
            let Some(path) = made.row.path.to_str() else { continue };
            let row = pack(&mut made.row.clone());
            let (agent, key) = (made.row.agent.id(), made.row.key.as_deref().unwrap_or(""));
            let (stamp, mark) = (made.stamp, made.mark.cast_signed());
            let (bytes, ino) = (stamp.bytes.cast_signed(), stamp.ino.cast_signed());
            put.execute(params![agent, path, key, bytes, stamp.modified_ns, ino, mark, row])?;
            if let Some(spent) = &made.spent {
                spend.execute(params![agent, path, key, spent.bytes()])?;
            }
        }
    }
    transaction.commit()
}

pub(super) fn remove(connection: &mut Connection, gone: &[ForeignRow]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for table in ["other", "spent"] {
        let sql = format!("DELETE FROM {table} WHERE agent = ?1 AND path = ?2 AND key = ?3");
        let mut remove = transaction.prepare(&sql)?;
        for ForeignRow { agent, path, key, .. } in gone {
            let path = path.to_string_lossy();
            remove.execute(params![agent.id(), path, key.as_deref().unwrap_or("")])?;
        }
    }
    transaction.commit()
}

/// What was spent in one session.
pub(super) fn spent(connection: &mut Connection, row: &ForeignRow) -> rusqlite::Result<Vec<Spent>> {
    let mut query = connection.prepare_cached(
        "SELECT responses FROM spent WHERE agent = ?1 AND path = ?2 AND key = ?3",
    )?;
    let path = row.path.to_string_lossy();
    let mut rows = query.query(params![row.agent.id(), path, row.key.as_deref().unwrap_or("")])?;
    match rows.next()? {
        Some(row) => Ok(Ledger::read(row.get_ref(0)?.as_blob()?)),
        None => Ok(Vec::new()),
    }
}

/// The directories that were looked at.
pub(super) fn places(connection: &mut Connection) -> rusqlite::Result<HashMap<String, Place>> {
    let mut query = connection.prepare("SELECT cwd, mark, facts FROM place")?;
    let mut rows = query.query([])?;
    let (mut found, mut unpacker) = (HashMap::new(), Unpacker::default());
    while let Some(row) = rows.next()? {
        let mut facts = Arc::default();
        if unpacker.unpack(row.get_ref(2)?.as_blob()?, &mut facts) {
            found.insert(row.get(0)?, Place { mark: row.get(1)?, facts });
        }
    }
    Ok(found)
}

pub(super) fn save_places(
    connection: &mut Connection,
    places: &HashMap<String, Place>,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut put = transaction
            .prepare("INSERT OR REPLACE INTO place (cwd, mark, facts) VALUES (?1, ?2, ?3)")?;
        for (cwd, Place { mark, facts }) in places {
            put.execute(params![cwd, mark, pack(&mut Arc::clone(facts))])?;
        }
    }
    transaction.commit()
}
