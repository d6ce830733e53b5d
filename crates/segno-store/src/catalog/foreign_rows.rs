//! The tables for other agents' sessions.
//!
//! Responsible for: storing rows, what was spent, and the facts of places, and reading them again. Must
//! not: decide what is out of date.

use super::digest::{ForeignRow, Spent};
use crate::foreign::{Agent, Stamp};
use rusqlite::{Connection, TransactionBehavior, params};
use segno_model::Timestamp;
use segno_model::record::{ModelRef, ProjectFacts, Usage};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

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
        row TEXT NOT NULL,
        PRIMARY KEY (agent, path, key)
    ) WITHOUT ROWID;
    CREATE TABLE spent (
        agent TEXT NOT NULL,
        path TEXT NOT NULL,
        key TEXT NOT NULL,
        responses BLOB NOT NULL,
        PRIMARY KEY (agent, path, key)
    ) WITHOUT ROWID;
    CREATE TABLE place (cwd TEXT PRIMARY KEY, facts TEXT NOT NULL) WITHOUT ROWID;";

/// Which session of another agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) agent: Agent,
    pub(super) path: PathBuf,
    pub(super) key: Option<String>,
}

/// A row, and by what it is known to be up to date.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) stamp: Stamp,
    /// Of the file's beginning and end; 0 for none.
    pub(super) mark: u64,
    /// As JSON.
    pub(super) row: String,
}

impl Kept {
    /// The row; none when a damaged database wrote it.
    pub(super) fn parsed(&self) -> Option<ForeignRow> {
        serde_json::from_str(&self.row).ok()
    }
}

/// A row that was made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) key: Key,
    pub(super) stamp: Stamp,
    pub(super) mark: u64,
    pub(super) row: ForeignRow,
    /// None: as it was.
    pub(super) spent: Option<Vec<Spent>>,
}

/// Whether the tables have today's shape.
pub(super) fn check(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare("SELECT agent, path, key, bytes, modified_ns, ino, mark, row FROM other")?;
    connection.prepare("SELECT agent, path, key, responses FROM spent")?;
    connection.prepare("SELECT cwd, facts FROM place").map(drop)
}

pub(super) fn load(connection: &mut Connection) -> rusqlite::Result<HashMap<Key, Kept>> {
    let mut query = connection
        .prepare("SELECT agent, path, key, bytes, modified_ns, ino, mark, row FROM other")?;
    let mut rows = query.query([])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let Some(agent) = Agent::parse(row.get_ref(0)?.as_str()?) else { continue };
        let key = key(agent, row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?);
        let stamp = Stamp {
            bytes: row.get::<_, i64>(3)?.cast_unsigned(),
            modified_ns: row.get(4)?,
            ino: row.get::<_, i64>(5)?.cast_unsigned(),
        };
        let mark = row.get::<_, i64>(6)?.cast_unsigned();
        found.insert(key, Kept { stamp, mark, row: row.get(7)? });
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
            let Some(path) = made.key.path.to_str() else { continue };
            let text = serde_json::to_string(&made.row)
                .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
            let (agent, key) = (made.key.agent.id(), made.key.key.as_deref().unwrap_or(""));
            let (stamp, mark) = (made.stamp, made.mark.cast_signed());
            let (bytes, ino) = (stamp.bytes.cast_signed(), stamp.ino.cast_signed());
            put.execute(params![agent, path, key, bytes, stamp.modified_ns, ino, mark, text])?;
            if let Some(spent) = &made.spent {
                spend.execute(params![agent, path, key, to_bytes(spent)])?;
            }
        }
    }
    transaction.commit()
}

pub(super) fn remove(connection: &mut Connection, gone: &[Key]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for table in ["other", "spent"] {
        let sql = format!("DELETE FROM {table} WHERE agent = ?1 AND path = ?2 AND key = ?3");
        let mut remove = transaction.prepare(&sql)?;
        for Key { agent, path, key } in gone {
            let path = path.to_string_lossy();
            remove.execute(params![agent.id(), path, key.as_deref().unwrap_or("")])?;
        }
    }
    transaction.commit()
}

/// What was spent in one session.
pub(super) fn spent(connection: &mut Connection, key: &Key) -> rusqlite::Result<Vec<Spent>> {
    let mut query = connection.prepare_cached(
        "SELECT responses FROM spent WHERE agent = ?1 AND path = ?2 AND key = ?3",
    )?;
    let path = key.path.to_string_lossy();
    let mut rows = query.query(params![key.agent.id(), path, key.key.as_deref().unwrap_or("")])?;
    match rows.next()? {
        Some(row) => Ok(from_bytes(row.get_ref(0)?.as_blob()?)),
        None => Ok(Vec::new()),
    }
}

/// The facts of places that were looked at.
pub(super) fn places(
    connection: &mut Connection,
) -> rusqlite::Result<HashMap<String, ProjectFacts>> {
    let mut query = connection.prepare("SELECT cwd, facts FROM place")?;
    let mut rows = query.query([])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        if let Ok(facts) = serde_json::from_str(row.get_ref(1)?.as_str()?) {
            found.insert(row.get(0)?, facts);
        }
    }
    Ok(found)
}

pub(super) fn save_places(
    connection: &mut Connection,
    places: &[(String, ProjectFacts)],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut put =
            transaction.prepare("INSERT OR REPLACE INTO place (cwd, facts) VALUES (?1, ?2)")?;
        for (cwd, facts) in places {
            let text = serde_json::to_string(facts)
                .map_err(|e| rusqlite::Error::ToSqlConversionFailure(Box::new(e)))?;
            put.execute(params![cwd, text])?;
        }
    }
    transaction.commit()
}

fn key(agent: Agent, path: &str, key: &str) -> Key {
    let key = Some(key).filter(|key| !key.is_empty()).map(str::to_owned);
    Key { agent, path: Path::new(path).to_owned(), key }
}

/// Responses as bytes: a table of model names, then fixed-size entries. A few dozen bytes per response.
fn to_bytes(spent: &[Spent]) -> Vec<u8> {
    let mut models: Vec<&ModelRef> = Vec::new();
    let mut entries = Vec::new();
    for one in spent {
        let known = models.iter().position(|model| **model == one.model);
        let model = known.unwrap_or_else(|| {
            models.push(&one.model);
            models.len() - 1
        });
        entries.extend_from_slice(&[u8::from(one.response.is_some())]);
        entries.extend_from_slice(&u32::try_from(model).unwrap_or(u32::MAX).to_le_bytes());
        entries.extend_from_slice(&one.response.unwrap_or(0).to_le_bytes());
        entries.extend_from_slice(&one.at.0.to_le_bytes());
        let usage = &one.usage;
        let counts = [usage.input, usage.output, usage.cache_read, usage.cache_write];
        entries.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
        entries.extend_from_slice(&usage.reasoning.map_or(u64::MAX, |r| r).to_le_bytes());
    }
    let names = serde_json::to_vec(&models).unwrap_or_default();
    let mut bytes = (names.len() as u64).to_le_bytes().to_vec();
    bytes.extend(names);
    bytes.extend(entries);
    bytes
}

/// How long an entry of [`to_bytes`] is.
const ENTRY: usize = 1 + 4 + 8 * 7;

/// The reverse; what does not fit is left out.
fn from_bytes(bytes: &[u8]) -> Vec<Spent> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let Some((len, rest)) = bytes.split_at_checked(8) else { return Vec::new() };
    let len = usize::try_from(number(len)).unwrap_or(usize::MAX);
    let Some((names, entries)) = rest.split_at_checked(len) else { return Vec::new() };
    let models: Vec<ModelRef> = serde_json::from_slice(names).unwrap_or_default();
    let entry = |entry: &[u8]| {
        let model = u32::from_le_bytes(entry[1..5].try_into().ok()?);
        let word = |n: usize| number(&entry[5 + n * 8..13 + n * 8]);
        let usage = Usage {
            input: word(2),
            output: word(3),
            cache_read: word(4),
            cache_write: word(5),
            reasoning: Some(word(6)).filter(|&r| r != u64::MAX),
        };
        Some(Spent {
            response: (entry[0] == 1).then(|| word(0)),
            at: Timestamp(word(1).cast_signed()),
            model: models.get(model as usize)?.clone(),
            usage,
        })
    };
    entries.chunks_exact(ENTRY).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_come_back_as_they_were() {
        let model = |id: &str| ModelRef::new("anthropic", id);
        let usage =
            Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, reasoning: Some(1) };
        let spent = vec![
            Spent { response: Some(7), at: Timestamp(-5), model: model("a"), usage },
            Spent { response: None, at: Timestamp(5), model: model("b"), usage: Usage::default() },
            Spent { response: Some(0), at: Timestamp(0), model: model("a"), usage },
        ];
        assert_eq!(from_bytes(&to_bytes(&spent)), spent);
        for cut in 0..8 {
            assert!(from_bytes(&to_bytes(&spent)[..cut]).is_empty());
        }
    }
}
