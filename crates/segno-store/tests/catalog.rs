//! The list of sessions: right whatever state its database is in.
//!
//! Responsible for: the guarantee G12 for the catalog. Must not: look into the database.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::record::{Name, Run, RunEnd, RunState};
use segno_model::store::{Level, SessionLog, SessionStore, StoreError};
use segno_model::{Body, Standing, Timestamp};
use segno_store::catalog::{Activity, Catalog, Filter, Opened, Row};
use segno_store::foreign::Roots;
use segno_store::{FileStore, RealDisk};
use segno_testkit::sessions;
use std::fs;
use std::path::PathBuf;
use support::*;
use tempfile::TempDir;

struct Place {
    root: TempDir,
    store: FileStore<RealDisk>,
}

impl Place {
    fn with(sessions: u32) -> Self {
        let root = tempfile::tempdir().unwrap();
        let store = FileStore::new(RealDisk, root.path());
        for n in 1..=sessions {
            append(&mut store.create(header(n)), &format!("prompt {n}")).unwrap();
        }
        Self { root, store }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("catalog.sqlite")
    }

    fn list(&self) -> (Catalog, segno_store::catalog::Refreshed) {
        let mut catalog = Catalog::open(&self.path());
        let report = catalog.refresh(&self.store).unwrap();
        (catalog, report)
    }

    fn rows(&self) -> Vec<Row> {
        self.list().0.rows(&Filter::default()).into_iter().cloned().collect()
    }
}

#[test]
fn a_row_says_what_the_log_says() {
    let place = Place::with(0);
    let mut log = place.store.create(header(1));
    append(&mut log, "first prompt").unwrap();
    let started = Run { run: 1, state: RunState::Started { attempt: 1, owner: "me".into() } };
    let batch = vec![
        draft(Body::Run(started)),
        draft(sessions::answer("hello")),
        draft(Body::Name(Name { name: "a name".into() })),
    ];
    now(log.append(batch, Level::Synced)).unwrap();
    let row = place.rows().pop().unwrap();
    assert_eq!(row.id, id(1));
    assert_eq!(*row.project, header(1).project);
    assert_eq!(row.first_prompt.as_deref(), Some("first prompt"));
    assert_eq!(row.name.as_deref(), Some("a name"));
    assert_eq!((row.totals.user_messages, row.totals.assistant_messages), (1, 1));
    assert_eq!(row.bytes, log.bytes());
    assert_eq!(row.activity(place.store.is_held(&id(1)).unwrap()), Activity::Running);
    drop(log);
    assert_eq!(row.activity(place.store.is_held(&id(1)).unwrap()), Activity::Interrupted);
    let ended = RunState::Ended { end: RunEnd::Completed, reason: None };
    let mut log = open(&place.store, &id(1)).unwrap().log;
    now(log.append(vec![draft(Body::Run(Run { run: 1, state: ended }))], Level::Synced)).unwrap();
    let row = place.rows().pop().unwrap();
    assert_eq!(row.activity(true), Activity::Open);
    assert_eq!(row.activity(false), Activity::Idle);
    assert_eq!(row.standing, Standing::Finished);
}

/// Enough sessions that they are looked at on several processors, two of them held by writers and one by
/// nobody any more.
#[test]
fn the_list_says_who_is_held() {
    let place = Place::with(0);
    for n in 1..=600 {
        // Nothing here asks for durability, and 600 syncs take seconds.
        let prompt = vec![draft(sessions::prompt("hello"))];
        now(place.store.create(header(n)).append(prompt, Level::Written)).unwrap();
    }
    let held = [3, 577];
    let writers = held.map(|n| open(&place.store, &id(n)).unwrap());
    drop(open(&place.store, &id(12)).unwrap());
    let (catalog, report) = place.list();
    assert_eq!((report.total, report.read), (600, 600));
    let mut found: Vec<_> = catalog.held(&place.store).into_iter().collect();
    found.sort_unstable();
    assert_eq!(found, held.map(id));
    drop(writers);
    let (catalog, report) = place.list();
    assert_eq!((report.total, report.read), (600, 0));
    assert!(catalog.held(&place.store).is_empty());
    assert_eq!(catalog.rows(&Filter::default()).len(), 600);
}

/// A session's directory that was copied into another month is one session; the one at home counts.
#[test]
fn a_session_in_two_months_is_listed_once() {
    let place = Place::with(2);
    let log = place.store.log_path(&id(1)).unwrap();
    for month in ["1999-01", "2999-12"] {
        let copy = place.root.path().join("sessions").join(month).join(id(1).as_str());
        fs::create_dir_all(&copy).unwrap();
        fs::copy(&log, copy.join("log.jsonl")).unwrap();
    }
    append(&mut open(&place.store, &id(1)).unwrap().log, "at home").unwrap();
    assert_eq!(place.list().1.read, 2);
    let (catalog, report) = place.list();
    assert_eq!((report.total, report.read), (2, 0));
    assert_eq!(catalog.row(&id(1)).unwrap().totals.user_messages, 2);
}

/// Covers: #66. Only what changed is read again.
#[test]
fn a_refresh_reads_what_changed_and_nothing_else() {
    let place = Place::with(5);
    assert_eq!(place.list().1.read, 5);
    assert_eq!(place.list().1.read, 0);
    append(&mut open(&place.store, &id(3)).unwrap().log, "more").unwrap();
    let (catalog, report) = place.list();
    assert_eq!(report.read, 1);
    assert_eq!(catalog.row(&id(3)).unwrap().totals.user_messages, 2);
}

/// Covers: MG4.
#[test]
fn the_newest_message_comes_first_whatever_the_files_times() {
    let place = Place::with(3);
    let mut log = open(&place.store, &id(2)).unwrap().log;
    let later = Timestamp(say("").at.0 + 60_000);
    let newest = segno_model::batch::Draft::new(later, sessions::prompt("newest"));
    now(log.append(vec![newest], Level::Synced)).unwrap();
    drop(log);
    // A copy has a new file time and no new message.
    let path = place.store.log_path(&id(1)).unwrap();
    fs::write(&path, fs::read(&path).unwrap()).unwrap();
    let order: Vec<_> = place.rows().into_iter().map(|row| row.id).collect();
    assert_eq!(order, [id(2), id(3), id(1)]);
}

#[test]
fn sessions_of_other_projects_are_left_out_on_request() {
    let place = Place::with(2);
    let mut other = header(3);
    other.project.cwd = "/elsewhere".into();
    other.project.real_path = None;
    append(&mut place.store.create(other), "x").unwrap();
    let (catalog, _) = place.list();
    let filter = Filter { project: Some(header(1).project) };
    assert_eq!(catalog.rows(&filter).len(), 2);
    assert_eq!(catalog.rows(&Filter::default()).len(), 3);
}

/// Covers: G12, #16, #17, #19, #119.
#[test]
fn a_database_in_any_state_changes_nothing_about_the_list() {
    let good = {
        let place = Place::with(4);
        place.list();
        fs::read(place.path()).unwrap()
    };
    let wrecks: [(&str, Vec<u8>); 7] = [
        ("two zero bytes", vec![0; 2]),
        ("only zeros", vec![0; 144 * 1024]),
        ("text", b"this is no database\n".repeat(200)),
        ("cut", good[..good.len() - 30].to_vec()),
        ("cut to its header", good[..100.min(good.len())].to_vec()),
        ("zeros behind the header", [&good[..100], &vec![0; 8000]].concat()),
        ("empty", Vec::new()),
    ];
    for (what, bytes) in wrecks {
        let place = Place::with(4);
        let before = place.rows();
        for side in ["-wal", "-shm"] {
            let _ = fs::remove_file(place.root.path().join(format!("catalog.sqlite{side}")));
        }
        fs::write(place.path(), &bytes).unwrap();
        let (catalog, report) = place.list();
        assert_eq!(report.total, 4, "{what}: {:?}", catalog.opened());
        assert_eq!(place.rows(), before, "{what}");
        // SQLite itself reads a cut page as if zeros stood there, which would be believed.
        assert!(what != "cut" || matches!(catalog.opened(), Opened::SetAside(_)), "{what}");
        if let Opened::SetAside(aside) = catalog.opened() {
            assert_eq!(fs::read(aside).unwrap(), bytes, "{what}: what was there is kept");
        }
        drop(catalog);
        assert_eq!(place.list().1.read, 0, "{what}: it works again");
    }
}

/// Covers: #119.
#[test]
fn a_file_that_is_no_database_is_set_aside_and_not_overwritten() {
    let place = Place::with(1);
    fs::write(place.path(), b"my notes\n".repeat(500)).unwrap();
    let (catalog, report) = place.list();
    let Opened::SetAside(aside) = catalog.opened() else { panic!("{:?}", catalog.opened()) };
    assert_eq!(fs::read(aside).unwrap(), b"my notes\n".repeat(500));
    assert!(report.saved);
}

/// Covers: #65, G12.
#[test]
fn sessions_that_the_database_never_heard_of_are_listed() {
    let place = Place::with(4);
    place.list();
    for n in 5..=30 {
        append(&mut place.store.create(header(n)), "x").unwrap();
    }
    let (catalog, report) = place.list();
    assert_eq!((report.total, report.read), (30, 26));
    assert_eq!(catalog.rows(&Filter::default()).len(), 30);
}

/// Covers: #68.
#[test]
fn rows_of_vanished_files_are_reported_once_and_pruned() {
    let place = Place::with(3);
    place.list();
    let path = place.store.log_path(&id(2)).unwrap();
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let (catalog, report) = place.list();
    assert_eq!(report.gone, [id(2)]);
    assert!(catalog.row(&id(2)).is_none());
    assert!(matches!(now(place.store.open(&id(2))), Err(StoreError::NotFound(_))));
    assert!(place.list().1.gone.is_empty());
}

/// Covers: #62, #14. A damaged or cut log has a row that says so.
#[test]
fn a_log_that_cannot_be_read_is_listed_with_the_reason() {
    let place = Place::with(3);
    fs::write(place.store.log_path(&id(1)).unwrap(), "no header\nat all\n").unwrap();
    fs::write(place.store.log_path(&id(2)).unwrap(), "").unwrap();
    let (catalog, _) = place.list();
    assert!(catalog.row(&id(1)).unwrap().problem.is_some());
    assert_eq!(catalog.row(&id(2)).unwrap().first_prompt, None);
    assert_eq!(catalog.row(&id(3)).unwrap().problem, None);
}

/// Covers: #113.
#[test]
fn without_a_place_for_the_database_the_list_lives_in_memory() {
    let place = Place::with(2);
    let mut catalog = Catalog::open(&place.root.path().join("no such directory/catalog.sqlite"));
    assert!(matches!(catalog.opened(), Opened::Memory(_)));
    let report = catalog.refresh(&place.store).unwrap();
    assert_eq!((report.total, report.saved), (2, false));
    assert_eq!(catalog.rows(&Filter::default()).len(), 2);
}

/// Covers: #68. A file of another agent that goes between finding and reading has a row that says so, once.
#[test]
fn a_file_that_goes_before_it_is_read_has_a_row() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(".claude/projects/-p");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("c0de1000-1111-4111-8111-000000000001.jsonl");
    fs::write(&path, "{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"y\"}\n").unwrap();
    let roots = Roots { home: root.path().to_owned(), ..Roots::default() };
    let mut catalog = Catalog::open(&root.path().join("catalog.sqlite"));
    let stale = catalog.find_foreign(&roots, &[]);
    assert_eq!((stale.sessions().len(), stale.failed.len()), (1, 0));
    fs::remove_file(&path).unwrap();
    catalog.read_foreign(&stale, &mut |_, _| {});
    let rows = catalog.foreign_rows();
    assert!(rows.len() == 1 && !rows[0].readable && rows[0].problem.is_some(), "{rows:?}");
    assert_eq!(catalog.find_foreign(&roots, &[]).sessions().len(), 0);
    assert!(catalog.foreign_rows().is_empty());
}

/// Covers: #98. However many sessions there are and whichever of them are shown: read is what changed.
#[test]
fn a_list_reads_of_thousands_of_other_sessions_only_those_that_changed() {
    let home = tempfile::tempdir().unwrap();
    let file = |n: usize| {
        let day = home.path().join(format!(".claude/projects/-srv-{}", n % 150));
        fs::create_dir_all(&day).unwrap();
        day.join(format!("c0de0001-1111-4111-8111-{n:012}.jsonl"))
    };
    let row = |n: usize, text: &str| {
        format!(
            "{{\"parentUuid\":null,\"isSidechain\":false,\"cwd\":\"/srv/{}\",\"sessionId\":\"s\",\
             \"type\":\"user\",\"uuid\":\"{text}\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}},\
             \"timestamp\":\"2026-03-02T09:00:01.000Z\"}}\n",
            n % 150
        )
    };
    let count = 2_000;
    (0..count).for_each(|n| fs::write(file(n), row(n, "first")).unwrap());
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let path = home.path().join("catalog.sqlite");
    let read = || {
        let mut catalog = Catalog::open(&path);
        let stale = catalog.find_foreign(&roots, &[]);
        let unread: Vec<PathBuf> = stale.sessions().map(|s| s.path.clone()).collect();
        catalog.read_foreign(&stale, &mut |_, _| {});
        let of_one = |row: &&segno_store::catalog::ForeignRow| row.project.cwd == "/srv/7";
        let shown = catalog.foreign_rows().iter().filter(of_one).count();
        (unread, shown)
    };
    assert_eq!(read().0.len(), count);
    assert_eq!(read(), (Vec::new(), 14));
    fs::write(file(157), row(157, "first") + &row(157, "second")).unwrap();
    fs::write(file(count), row(count, "new")).unwrap();
    let (mut unread, _) = read();
    unread.sort();
    let mut changed = vec![file(157), file(count)];
    changed.sort();
    assert_eq!(unread, changed);
    assert_eq!(read().0, Vec::<PathBuf>::new());
}
