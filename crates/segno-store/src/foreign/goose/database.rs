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
use crate::foreign::sqlite::{self, Database, Got, number, text};
use rusqlite::Row;
use segno_model::finding::Severity;
use segno_model::record::{ModelRef, Usage, UsageRecord};
use segno_model::{Body, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fs::Metadata;
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
    let listed = sqlite::open(path).and_then(|mut database| list(&mut database, &meta, found));
    failed.extend(listed.unwrap_or_else(Some));
}

/// Lists them, and says which could not be.
fn list(
    database: &mut Database,
    meta: &Metadata,
    found: &mut Vec<Located>,
) -> Result<Option<ForeignError>, ForeignError> {
    if !database.columns("sessions")?.contains("id") {
        let lacks = database.lacks("a table `sessions` with a column `id`".to_owned());
        return if database.is_blank()? { Ok(None) } else { Err(lacks) };
    }
    let counts = database.counts("messages", "session_id", "count(*)")?;
    let columns = ["id", "updated_at", "archived_at", "parent_session_id"];
    let row = |row: &Row<'_>| (text(row, 1), text(row, 2), text(row, 3), text(row, 4));
    let (rows, damaged) = database.rows("sessions", &columns, row)?;
    let mut listed: Vec<Located> = Vec::new();
    let total = rows.len();
    for (id, updated, archived, parent) in rows {
        let Some(id) = id else { continue };
        let modified = updated.as_deref().and_then(time).unwrap_or_default();
        let stamp = Stamp {
            bytes: counts.get(&id).copied().unwrap_or(0),
            modified_ns: modified.0.saturating_mul(1_000_000),
            ..Stamp::of(meta)
        };
        let archived = archived.is_some();
        let session = Located {
            parent,
            archived,
            stamp,
            ..Located::file(Agent::Goose, database.path().to_owned(), meta)
        };
        listed.push(Located { key: Some(id.clone()), id: Some(id), ..session });
    }
    let lost = database.lost("sessions", total - listed.len(), damaged);
    // Sessions whose rows are lost: what was said in them is not.
    let known: HashSet<_> = listed.iter().filter_map(|session| session.id.clone()).collect();
    let left = counts.into_iter().filter(|(id, _)| !known.contains(id));
    listed.extend(left.map(|(id, bytes)| {
        let stamp = Stamp { bytes, modified_ns: 0, ..Stamp::of(meta) };
        let session = Located::file(Agent::Goose, database.path().to_owned(), meta);
        Located { key: Some(id.clone()), id: Some(id), stamp, ..session }
    }));
    listed.sort_by(|a, b| a.id.cmp(&b.id));
    found.extend(listed);
    Ok(lost)
}

/// Reads one; without a key the one that was used last.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let mut database = sqlite::open(&session.path)?;
    let facts = match facts(&mut database, session.key.as_deref()) {
        Err(e) if sqlite::is_damage(&e) => None,
        facts => facts?,
    };
    let is_lost = facts.is_none();
    let Some(facts) = facts.or_else(|| session.key.clone().map(Facts::lost)) else {
        return Err(database.lacks("the session's row".to_owned()));
    };
    let (numbers, damaged) = database.numbers("messages", "session_id", &facts.id)?;
    if is_lost {
        if numbers.is_empty() {
            return Err(database.lacks("the session's row".to_owned()));
        }
        sqlite::tell_lost_row("sessions", out);
    }
    if damaged {
        sqlite::tell_damaged("messages", out);
    }
    let model = facts.tell(out);
    let mut chain = Chain::default();
    for page in numbers.chunks(PAGE) {
        if out.is_stopped() {
            break;
        }
        for message in messages(&mut database, page)? {
            if let Some(message) = message.told("messages", out) {
                message.emit(&model, &mut chain, out);
            }
        }
    }
    chain.finish(out);
    usage(&mut database, &facts.id, &model, out)?;
    out.finish(database.path(), numbers.len() as u64)
}

struct Message {
    rowid: i64,
    id: Option<String>,
    role: String,
    content: String,
    created: Option<i64>,
    metadata: Option<String>,
}

impl Message {
    fn emit(&self, model: &ModelRef, chain: &mut Chain, out: &mut Emitter<'_>) {
        let id = self.id.clone().or_else(|| Some(self.rowid.to_string()));
        let origin = Origin { id: id.clone(), ..Origin::default() };
        let meta = Meta { at: self.created.map(at), origin, ..Meta::default() };
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

fn messages(database: &mut Database, page: &[i64]) -> Result<Vec<Got<Message>>, ForeignError> {
    let columns = database.columns("messages")?;
    let column = |name: &'static str| if columns.contains(name) { name } else { "NULL" };
    let sql = format!(
        "SELECT rowid, {}, {}, {}, {}, {} FROM messages WHERE rowid = ?1",
        column("message_id"),
        column("role"),
        column("content_json"),
        column("created_timestamp"),
        column("metadata_json")
    );
    let message = |row: &Row<'_>| Message {
        rowid: number(row, 0).unwrap_or_default(),
        id: text(row, 1),
        role: text(row, 2).unwrap_or_default(),
        content: text(row, 3).unwrap_or_default(),
        created: number(row, 4),
        metadata: text(row, 5),
    };
    let read = database.page(|connection| {
        let rows = page.iter().map(|&rowid| Got::of(connection, &sql, rowid, message));
        rows.collect::<rusqlite::Result<Vec<_>>>()
    })?;
    Ok(read.into_iter().flatten().collect())
}

/// A session's row.
#[derive(Default)]
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
    /// Of a session whose row is lost.
    fn lost(id: String) -> Self {
        Self { id, ..Self::default() }
    }

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
    let has_version = database.columns("schema_version")?.contains("version");
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
    let updated = if columns.contains("updated_at") { "updated_at" } else { "rowid" };
    let sql = format!(
        "SELECT {}, {version} FROM sessions WHERE id = coalesce(?1, id) \
         ORDER BY {updated} DESC, id DESC LIMIT 1",
        list.join(", ")
    );
    database.page(|connection| {
        let mut query = connection.prepare(&sql)?;
        let mut rows = query.query_map([id], |row| {
            Ok(Facts {
                id: text(row, 0).unwrap_or_default(),
                name: text(row, 1),
                description: text(row, 2),
                named: number(row, 3).is_some_and(|named| named != 0),
                cwd: text(row, 4),
                created: text(row, 5),
                archived: text(row, 6),
                parent: text(row, 7),
                kind: text(row, 8),
                provider: text(row, 9),
                model: text(row, 10),
                version: number(row, 11),
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
    let columns = database.columns("usage_ledger")?;
    if !columns.contains("session_id") {
        return Ok(());
    }
    let names = [
        "id",
        "created_timestamp",
        "model",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "is_compaction",
    ];
    let list = names.map(|name| if columns.contains(name) { name } else { "NULL" }).join(", ");
    let sql = format!("SELECT {list} FROM usage_ledger WHERE rowid = ?1");
    let (numbers, damaged) = database.numbers("usage_ledger", "session_id", session)?;
    if damaged {
        sqlite::tell_damaged("usage_ledger", out);
    }
    let read = |row: &Row<'_>| {
        let count = |index| number(row, index).map_or(0, i64::unsigned_abs);
        let usage = Usage {
            // goose counts what the cache served among the input.
            input: count(3).saturating_sub(count(5)).saturating_sub(count(6)),
            output: count(4),
            cache_read: count(5),
            cache_write: count(6),
            reasoning: None,
        };
        (number(row, 0).unwrap_or_default(), number(row, 1), text(row, 2), usage, count(7) > 0)
    };
    let rows = database.page(|connection| {
        let rows = numbers.iter().map(|&rowid| Got::of(connection, &sql, rowid, read));
        rows.collect::<rusqlite::Result<Vec<_>>>()
    })?;
    let rows = rows.into_iter().flatten().filter_map(|row| row.told("usage_ledger", out));
    let rows: Vec<_> = rows.collect();
    for (id, created, name, usage, is_compaction) in rows {
        let purpose = if is_compaction { "compaction" } else { "reply" }.to_owned();
        let model =
            name.map_or_else(|| model.clone(), |name| ModelRef::new(&model.provider, &name));
        let response = Some(format!("goose:{session}:{id}"));
        let meta = Meta { at: created.map(at), response, ..Meta::default() };
        out.record(Body::Usage(UsageRecord { purpose, model, usage }), meta);
    }
    Ok(())
}

/// `2026-01-02 03:04:05`, which is UTC, or RFC 3339.
fn time(text: &str) -> Option<Timestamp> {
    let dashed = text.replacen(' ', "T", 1);
    Timestamp::parse(&dashed).or_else(|| Timestamp::parse(&format!("{dashed}Z")))
}
