//! goose's database.
//!
//! Responsible for: finding its sessions and reading their rows. Must not: know what a message means.

use super::at;
use super::message::{Said, Visible, emit};
use crate::foreign::agent::Agent;
use crate::foreign::chain::Chain;
use crate::foreign::emitter::{Emitter, Meta};
use crate::foreign::input::ForeignError;
use crate::foreign::item::{Fact, Origin};
use crate::foreign::locate::{Located, Stamp};
use crate::foreign::sqlite::{self, Database};
use rusqlite::Row;
use segno_model::finding::Severity;
use segno_model::record::{ModelRef, Usage, UsageRecord};
use segno_model::{Body, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::path::Path;

/// How many messages are read at once.
const PAGE: usize = 64;

/// Whether a database has goose's tables.
pub(super) fn is_ours(path: &Path) -> bool {
    let columns = |database: &mut Database, table| database.columns(table).unwrap_or_default();
    sqlite::open(path).is_ok_and(|mut database| {
        columns(&mut database, "messages").contains("content_json")
            && columns(&mut database, "sessions").contains("working_dir")
    })
}

/// All sessions in a database; none if it is not there.
pub(super) fn locate(path: &Path, found: &mut Vec<Located>, failed: &mut Vec<ForeignError>) {
    let Ok(meta) = std::fs::metadata(path) else { return };
    let rows = sqlite::open(path).and_then(|mut database| {
        let columns = database.columns("sessions")?;
        let column = |name: &str| if columns.contains(name) { name.to_owned() } else { "NULL".to_owned() };
        let sql = format!(
            "SELECT id, {}, {}, {}, (SELECT count(*) FROM messages m WHERE m.session_id = sessions.id) \
             FROM sessions ORDER BY id",
            column("updated_at"),
            column("archived_at"),
            column("parent_session_id")
        );
        database.page(|connection| {
            let mut query = connection.prepare(&sql)?;
            let rows = query.query_map([], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    text(row, 1),
                    text(row, 2),
                    text(row, 3),
                    row.get::<_, i64>(4)?,
                ))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })
    });
    match rows {
        Ok(rows) => found.extend(rows.into_iter().map(|(id, updated, archived, parent, count)| {
            let modified = updated.as_deref().and_then(time).unwrap_or_default();
            let stamp = Stamp {
                bytes: count.unsigned_abs(),
                modified_ns: modified.0.saturating_mul(1_000_000),
                ..Stamp::of(&meta)
            };
            Located {
                key: Some(id.clone()),
                id: Some(id),
                parent,
                archived: archived.is_some(),
                stamp,
                ..Located::file(Agent::Goose, path.to_owned(), &meta)
            }
        })),
        Err(e) => failed.push(e),
    }
}

/// Reads one; without a key the one that was used last.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let mut database = sqlite::open(&session.path)?;
    let Some(facts) = facts(&mut database, session.key.as_deref())? else {
        let path = session.path.clone();
        return Err(ForeignError::Incomplete { path, needs: "the session's row".to_owned() });
    };
    let model = facts.tell(out);
    let mut chain = Chain::default();
    let (mut last, mut rows) = (0, 0);
    while !out.is_stopped() {
        let page = match messages(&mut database, &facts.id, last) {
            Ok(page) => page,
            Err(e) if sqlite::is_damage(&e) => {
                let sentence = "A part of the database cannot be read.";
                let done = "The messages before it were read.";
                let at = Origin::default();
                out.found("damaged-database", Severity::Damage, &at, sentence, done);
                break;
            }
            Err(e) => return Err(e),
        };
        rows += page.len() as u64;
        for message in &page {
            message.emit(&model, &mut chain, out);
        }
        match page.last() {
            Some(message) if page.len() == PAGE => last = message.rowid,
            _ => break,
        }
    }
    chain.finish(out);
    usage(&mut database, &facts.id, &model, out)?;
    out.finish(database.path(), rows)
}

struct Message {
    rowid: i64,
    id: Option<String>,
    role: String,
    content: String,
    created: i64,
    metadata: Option<String>,
}

impl Message {
    fn emit(&self, model: &ModelRef, chain: &mut Chain, out: &mut Emitter<'_>) {
        let id = self.id.clone().or_else(|| Some(self.rowid.to_string()));
        let origin = Origin { id: id.clone(), ..Origin::default() };
        let meta = Meta { at: Some(at(self.created)), origin, ..Meta::default() };
        let metadata = self.metadata.as_deref().and_then(|json| serde_json::from_str(json).ok());
        let metadata: Visible = metadata.unwrap_or_default();
        let content: Option<Vec<&RawValue>> = serde_json::from_str(&self.content).ok();
        let role = self.role.clone();
        let known = content.is_some_and(|content| {
            let said = Said { id, role, created: self.created, content, metadata };
            emit(&said, model, &meta, chain, out)
        });
        if !known {
            let sentence = "A message has a shape that this reader does not know.";
            out.found(
                "unknown-record",
                Severity::Warning,
                &meta.origin,
                sentence,
                "It was kept as it is.",
            );
            let raw = serde_json::value::to_raw_value(&self.content);
            if let Ok(raw) = raw {
                out.custom("goose.message", &raw, meta);
            }
        }
    }
}

fn messages(
    database: &mut Database,
    session: &str,
    after: i64,
) -> Result<Vec<Message>, ForeignError> {
    let columns = database.columns("messages")?;
    let column =
        |name: &str| if columns.contains(name) { name.to_owned() } else { "NULL".to_owned() };
    let sql = format!(
        "SELECT id, {}, role, content_json, created_timestamp, {} FROM messages \
         WHERE session_id = ?1 AND id > ?2 ORDER BY id LIMIT {PAGE}",
        column("message_id"),
        column("metadata_json")
    );
    database.page(|connection| {
        let mut query = connection.prepare(&sql)?;
        let rows = query.query_map((session, after), |row| {
            Ok(Message {
                rowid: row.get(0)?,
                id: text(row, 1),
                role: row.get(2)?,
                content: text(row, 3).unwrap_or_default(),
                created: row.get(4)?,
                metadata: text(row, 5),
            })
        })?;
        rows.collect()
    })
}

/// A session's row.
struct Facts {
    id: String,
    version: Option<i64>,
    name: Option<String>,
    description: Option<String>,
    named: bool,
    cwd: Option<String>,
    created: Option<String>,
    archived: Option<String>,
    parent: Option<String>,
    kind: Option<String>,
    provider: Option<String>,
    model: Option<String>,
}

impl Facts {
    /// Tells them, and the model that is in force.
    fn tell(&self, out: &mut Emitter<'_>) -> ModelRef {
        let title = self.name.clone().filter(|name| !name.is_empty());
        let title = title.or_else(|| self.description.clone()).filter(|title| !title.is_empty());
        let role = self.kind.clone().filter(|kind| kind != "user");
        let version = self.version.map_or_else(String::new, |version| format!(" v{version}"));
        let facts = [
            Some(Fact::Id(self.id.clone())),
            Some(Fact::Format(format!("sqlite{version}"))),
            self.cwd.clone().map(Fact::Cwd),
            self.created.as_deref().and_then(time).map(Fact::Created),
            title.map(|title| if self.named { Fact::Named(title) } else { Fact::Titled(title) }),
            self.archived.as_ref().map(|_| Fact::Archived),
            self.parent.clone().map(|parent| Fact::ChildOf { parent, call: None, role }),
        ];
        facts.into_iter().flatten().for_each(|fact| out.fact(fact));
        #[derive(Deserialize)]
        struct Config {
            model_name: Option<String>,
        }
        let config =
            self.model.as_deref().and_then(|json| serde_json::from_str::<Config>(json).ok());
        let name = config.and_then(|config| config.model_name).unwrap_or_default();
        ModelRef::new(self.provider.as_deref().unwrap_or_default(), &name)
    }
}

fn facts(database: &mut Database, id: Option<&str>) -> Result<Option<Facts>, ForeignError> {
    let columns = database.columns("sessions")?;
    let has_version = !database.columns("schema_version")?.is_empty();
    let names = [
        "id",
        "name",
        "description",
        "user_set_name",
        "working_dir",
        "created_at",
        "archived_at",
        "parent_session_id",
        "session_type",
        "provider_name",
        "model_config_json",
    ];
    let list: Vec<&str> =
        names.into_iter().map(|name| if columns.contains(name) { name } else { "NULL" }).collect();
    let version = if has_version { "(SELECT max(version) FROM schema_version)" } else { "NULL" };
    let sql = format!(
        "SELECT {}, {version} FROM sessions WHERE id = coalesce(?1, id) \
         ORDER BY updated_at DESC, id DESC LIMIT 1",
        list.join(", ")
    );
    database.page(|connection| {
        let mut query = connection.prepare(&sql)?;
        let mut rows = query.query_map([id], |row| {
            Ok(Facts {
                id: row.get(0)?,
                name: text(row, 1),
                description: text(row, 2),
                named: row.get::<_, Option<bool>>(3).unwrap_or(None).unwrap_or(false),
                cwd: text(row, 4),
                created: text(row, 5),
                archived: text(row, 6),
                parent: text(row, 7),
                kind: text(row, 8),
                provider: text(row, 9),
                model: text(row, 10),
                version: row.get(11).unwrap_or(None),
            })
        })?;
        rows.next().transpose()
    })
}

/// What the replies cost stands in a table of its own.
fn usage(
    database: &mut Database,
    session: &str,
    model: &ModelRef,
    out: &mut Emitter<'_>,
) -> Result<(), ForeignError> {
    if database.columns("usage_ledger")?.is_empty() {
        return Ok(());
    }
    let sql = "SELECT id, created_timestamp, model, input_tokens, output_tokens, cache_read_tokens, \
        cache_write_tokens, is_compaction FROM usage_ledger WHERE session_id = ?1 ORDER BY id";
    let rows = database.page(|connection| {
        let mut query = connection.prepare(sql)?;
        let rows = query.query_map([session], |row| {
            let count = |index| row.get(index).unwrap_or(None).map_or(0, i64::unsigned_abs);
            let usage = Usage {
                // goose counts what the cache served among the input.
                input: count(3).saturating_sub(count(5)).saturating_sub(count(6)),
                output: count(4),
                cache_read: count(5),
                cache_write: count(6),
                reasoning: None,
            };
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, text(row, 2), usage, count(7) > 0))
        })?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    })?;
    for (id, created, name, usage, is_compaction) in rows {
        let purpose = if is_compaction { "compaction" } else { "reply" }.to_owned();
        let model =
            name.map_or_else(|| model.clone(), |name| ModelRef::new(&model.provider, &name));
        let response = Some(format!("goose:{session}:{id}"));
        let meta = Meta { at: Some(at(created)), response, ..Meta::default() };
        out.record(Body::Usage(UsageRecord { purpose, model, usage }), meta);
    }
    Ok(())
}

/// A column as text, whatever it was stored as.
fn text(row: &Row<'_>, index: usize) -> Option<String> {
    use rusqlite::types::ValueRef;
    match row.get_ref(index).ok()? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(_) | ValueRef::Null => None,
    }
}

/// `2026-01-02 03:04:05`, which is UTC, or RFC 3339.
fn time(text: &str) -> Option<Timestamp> {
    let dashed = text.replacen(' ', "T", 1);
    Timestamp::parse(&dashed).or_else(|| Timestamp::parse(&format!("{dashed}Z")))
}
