//! Databases of OpenCode, goose and Crush that are not as they were: odd rows, other names, damage. What is
//! readable is listed and read, and nothing is lost without a word.

use crate::scene::{corpus, lines};
use rusqlite::Connection;
use segno_model::finding::Severity;
use segno_store::foreign::{ForeignError, Located, Roots, View, locate};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// An agent's database.
struct Kind {
    name: &'static str,
    /// Under the home directory.
    place: &'static str,
    sessions: &'static str,
    /// Tables in which something is said.
    said_in: &'static [&'static str],
    /// Columns without which a row of a table is nobody's.
    keys: &'static [&'static str],
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "opencode/opencode.db",
        place: ".local/share/opencode/opencode.db",
        sessions: "session",
        said_in: &["message", "part", "session_message"],
        keys: &["id", "session_id", "message_id"],
    },
    Kind {
        name: "goose/sessions.db",
        place: ".local/share/goose/sessions/sessions.db",
        sessions: "sessions",
        said_in: &["messages"],
        keys: &["id", "session_id"],
    },
    Kind {
        name: "crush/.crush/crush.db",
        place: ".crush/crush.db",
        sessions: "sessions",
        said_in: &["messages"],
        keys: &["id", "session_id"],
    },
];

struct Home {
    folder: tempfile::TempDir,
    path: PathBuf,
}

/// What was read of a session, or why it was not; and whether it said that something is missing.
#[derive(Debug, PartialEq)]
struct Found {
    said: Vec<String>,
    told: bool,
    error: Option<String>,
}

impl Home {
    /// With a copy whose tables allow anything.
    fn of(kind: &Kind) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(kind.place);
        fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
        fs::copy(corpus(&format!("foreign/{}", kind.name)), &path).expect("a copy");
        let home = Self { folder, path };
        for table in kind.said_in.iter().chain([&kind.sessions]) {
            home.change(&format!(
                "CREATE TABLE loose AS SELECT * FROM {table} ORDER BY rowid; DROP TABLE {table};
                 ALTER TABLE loose RENAME TO {table};"
            ));
        }
        home
    }

    fn connection(&self) -> Connection {
        let connection = Connection::open(&self.path).expect("opened");
        connection.pragma_update(None, "foreign_keys", false).expect("set");
        connection
    }

    fn change(&self, sql: &str) {
        let connection = self.connection();
        connection.execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);").expect("written back");
    }

    fn columns(&self, table: &str) -> Vec<String> {
        let connection = self.connection();
        let mut found =
            connection.prepare("SELECT name FROM pragma_table_info(?1)").expect("a query");
        let names = found.query_map([table], |row| row.get(0)).expect("columns");
        names.map(|name| name.expect("a name")).collect()
    }

    fn located(&self) -> (Vec<Located>, Vec<ForeignError>) {
        locate(&Roots { home: self.folder.path().to_owned(), ..Roots::default() })
    }

    /// Everything that can be read, by the sessions' ids; and what could not be listed.
    fn all(&self) -> (BTreeMap<String, Found>, Vec<ForeignError>) {
        let (sessions, failed) = self.located();
        let read = |session: Located| {
            let found = match View::transcript(&session) {
                Ok(view) => Found {
                    said: lines(&view).into_iter().filter(|line| is_said(line)).collect(),
                    told: view
                        .findings
                        .iter()
                        .any(|f| f.severity >= Severity::Warning || f.code == "unknown-record"),
                    error: None,
                },
                Err(e) => Found { said: Vec::new(), told: true, error: Some(e.to_string()) },
            };
            (session.id.unwrap_or_default(), found)
        };
        (sessions.into_iter().map(read).collect(), failed)
    }
}

fn is_said(line: &str) -> bool {
    ["user: ", "assistant: ", "thinking: ", "call ", "result ", "summary: "]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Whatever was said before and is not said now was told.
fn nothing_lost_silently(
    before: &BTreeMap<String, Found>,
    (after, failed): &(BTreeMap<String, Found>, Vec<ForeignError>),
    what: &str,
) {
    for (id, found) in before {
        match after.get(id) {
            None => assert!(!failed.is_empty(), "{what}: {id} is not listed, and nothing is said"),
            Some(now) if now.said == found.said => {}
            Some(now) => assert!(now.told, "{what}: {id} lost something: {now:#?}"),
        }
    }
}

const ODD: [&str; 5] = ["5", "NULL", "'odd'", "x'00FF'", "-1.5"];

/// Covers: G3, G13.
#[test]
fn an_odd_value_in_a_sessions_row_costs_at_most_itself() {
    for kind in &KINDS {
        let home = Home::of(kind);
        let (before, failed) = home.all();
        assert!(failed.is_empty(), "{failed:?}");
        let table = kind.sessions;
        for column in home.columns(table) {
            for odd in ODD {
                let what = format!("{}: {table}.{column} = {odd}", kind.name);
                let one = format!("WHERE rowid = (SELECT min(rowid) FROM {table})");
                home.change(&format!(
                    "CREATE TABLE kept AS SELECT * FROM {table} ORDER BY rowid;
                     UPDATE {table} SET {column} = {odd} {one};"
                ));
                let after = home.all();
                home.change(&format!("DROP TABLE {table}; ALTER TABLE kept RENAME TO {table};"));
                nothing_lost_silently(&before, &after, &what);
                if column != "id" {
                    assert!(after.1.is_empty(), "{what}: {:?}", after.1);
                    let (was, is): (Vec<_>, Vec<_>) =
                        (before.keys().collect(), after.0.keys().collect());
                    assert_eq!(was, is, "{what}");
                    // The session's end that is taken back, and a summary, are told by the row.
                    if !matches!(column.as_str(), "revert" | "summary_message_id") {
                        let said = |found: &BTreeMap<String, Found>| -> Vec<Vec<String>> {
                            found.values().map(|found| found.said.clone()).collect()
                        };
                        assert_eq!(said(&before), said(&after.0), "{what}");
                    }
                } else if odd == "NULL" {
                    // What was said is found by itself.
                    assert_eq!(after.0.len(), before.len(), "{what}");
                    assert_eq!(after.1.len(), 1, "{what}");
                }
            }
        }
    }
}

/// Covers: G3.
#[test]
fn an_odd_value_in_a_row_of_what_was_said_costs_at_most_that_row() {
    for kind in &KINDS {
        let home = Home::of(kind);
        let (before, _) = home.all();
        for table in kind.said_in {
            for column in home.columns(table) {
                if kind.keys.contains(&column.as_str()) {
                    continue;
                }
                // 5 is as good a place in the order as any.
                for odd in ODD.into_iter().filter(|odd| (column.as_str(), *odd) != ("seq", "5")) {
                    let what = format!("{}: {table}.{column} = {odd}", kind.name);
                    let one = format!("WHERE rowid = (SELECT min(rowid) + 1 FROM {table})");
                    home.change(&format!(
                        "CREATE TABLE kept AS SELECT * FROM {table} ORDER BY rowid;
                         UPDATE {table} SET {column} = {odd} {one};"
                    ));
                    let after = home.all();
                    home.change(&format!(
                        "DROP TABLE {table}; ALTER TABLE kept RENAME TO {table};"
                    ));
                    assert!(after.1.is_empty(), "{what}: {:?}", after.1);
                    nothing_lost_silently(&before, &after, &what);
                    let differ = |(id, was): &(&String, &Found)| after.0[*id].said != was.said;
                    assert!(before.iter().filter(differ).count() <= 1, "{what}");
                    let error = after.0.values().find_map(|found| found.error.as_ref());
                    assert!(error.is_none(), "{what}: {error:?}");
                }
            }
        }
    }
}

/// Covers: G3, G13.
#[test]
fn other_names_for_tables_and_columns_are_told() {
    for kind in &KINDS {
        let whole = Home::of(kind);
        let (before, _) = whole.all();
        let sound = fs::read(&whole.path).expect("read");
        for table in kind.said_in.iter().chain([&kind.sessions]) {
            for column in whole.columns(table) {
                let what = format!("{}: {table}.{column} renamed", kind.name);
                fs::write(&whole.path, &sound).expect("written");
                whole.change(&format!("ALTER TABLE {table} RENAME COLUMN {column} TO other;"));
                nothing_lost_silently(&before, &whole.all(), &what);
            }
            let what = format!("{}: {table} renamed", kind.name);
            fs::write(&whole.path, &sound).expect("written");
            whole.change(&format!("ALTER TABLE {table} RENAME TO other;"));
            let after = whole.all();
            nothing_lost_silently(&before, &after, &what);
            if *table == kind.sessions && kind.name != "opencode/opencode.db" {
                assert!(after.0.is_empty(), "{what}");
                assert!(after.1[0].to_string().contains("needs a table"), "{:?}", after.1);
            }
        }
    }
}

/// Covers: G3.
#[test]
fn damaged_and_cut_databases_give_what_is_left_and_tell_the_rest() {
    for kind in &KINDS {
        let home = Home::of(kind);
        // As its agent keeps it, with its indexes.
        fs::copy(corpus(&format!("foreign/{}", kind.name)), &home.path).expect("a copy");
        let (before, _) = home.all();
        let sound = fs::read(&home.path).expect("read");
        let page = usize::from(u16::from_be_bytes([sound[16], sound[17]]));
        let pages = sound.len() / page;
        // Every page of a small database, and a sample of a large one.
        for at in (0..pages).step_by(pages.div_ceil(48)) {
            for cut in [false, true] {
                let what = format!("{}: page {at}, cut: {cut}", kind.name);
                let mut bytes = sound.clone();
                if cut {
                    bytes.truncate(at * page);
                } else {
                    bytes[at * page..(at + 1) * page].fill(0xA5);
                }
                fs::write(&home.path, &bytes).expect("written");
                if bytes.is_empty() {
                    // That is how SQLite begins: there is nothing in it.
                    continue;
                }
                nothing_lost_silently(&before, &home.all(), &what);
            }
        }
    }
}

/// A database that was begun and holds nothing yet is no trouble.
#[test]
fn an_empty_database_has_no_sessions_and_is_no_error() {
    for kind in &KINDS {
        let home = Home::of(kind);
        fs::write(&home.path, b"").expect("written");
        let (found, failed) = home.located();
        assert!(found.is_empty() && failed.is_empty(), "{}: {failed:?}", kind.name);
    }
}
