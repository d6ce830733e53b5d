//! Real processes on a real file system: kills, locks, two writers, private files.
//!
//! Responsible for: what only a kernel can show. Must not: wait for time to pass; processes tell each
//! other by their pipes how far they are.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::store::{ForkPoint, Level, SessionLog, SessionStore, StoreError};
use segno_store::catalog::{Catalog, Opened};
use segno_store::{FileStore, RealDisk};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use support::*;

const ROLE: &str = "SEGNO_TEST_ROLE";
const ROOT: &str = "SEGNO_TEST_ROOT";

fn store(root: &Path) -> FileStore<RealDisk> {
    FileStore::new(RealDisk, root)
}

/// This test binary again, doing what `role` says.
struct Helper {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Helper {
    fn start(role: &str, root: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper_process", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(ROOT, root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that the helper says; the test harness's own are passed over.
    fn hear(&mut self) -> Option<String> {
        self.lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|l| Some(l.split_once("say:")?.1.to_owned()))
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn finish(mut self) {
        drop(self.child.stdin.take());
        while self.hear().is_some() {}
        assert!(self.child.wait().unwrap().success(), "the helper failed");
    }
}

fn speak(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "say:{text}").unwrap();
    out.flush().unwrap();
}

/// Not a test of its own: what the other processes do.
#[test]
fn helper_process() {
    let (Ok(role), Ok(root)) = (std::env::var(ROLE), std::env::var(ROOT)) else { return };
    let root = PathBuf::from(root);
    match role.split_once(' ').unwrap_or((&role, "")) {
        ("append", _) => append_for_ever(&root),
        ("hold", _) => hold(&root),
        ("compete", name) => compete(&root, name),
        ("list", name) => list_and_add(&root, name.parse().unwrap()),
        ("umask", mask) => {
            leave_files(&root, rustix::fs::RawMode::from_str_radix(mask, 8).unwrap());
        }
        _ => panic!("no such role"),
    }
}

fn append_for_ever(root: &Path) {
    let store = store(root);
    let mut log = match open(&store, &id(1)) {
        Ok(opened) => opened.log,
        Err(_) => store.create(header(1)),
    };
    let first = log.state().in_force.totals.user_messages;
    for n in first.. {
        append(&mut log, &format!("{n} {}", "x".repeat(usize::try_from(n * 97 % 3000).unwrap())))
            .unwrap();
        speak(n);
    }
}

fn hold(root: &Path) {
    let _held = now(store(root).open(&id(1))).unwrap();
    speak(std::process::id());
    // Until the other side hangs up or kills us.
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn compete(root: &Path, name: &str) {
    let store = store(root);
    let mut said = false;
    let mut done = 0;
    while done < 40 {
        match open(&store, &id(1)) {
            Ok(mut opened) => {
                for _ in 0..4 {
                    append(&mut opened.log, &format!("{name} {done}")).unwrap();
                    done += 1;
                }
            }
            Err(StoreError::Held(_)) => {
                if !std::mem::replace(&mut said, true) {
                    speak("held");
                }
                std::thread::yield_now();
            }
            Err(e) => panic!("{e}"),
        }
    }
}

/// Covers: G1, G2, G5, #103.
#[test]
fn a_killed_writer_loses_nothing_acknowledged_and_blocks_nobody() {
    let root = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..8u64 {
        let mut helper = Helper::start("append", root.path());
        for _ in 0..=(round * 5 % 11) {
            acknowledged = helper.hear().unwrap().parse::<u64>().unwrap() + 1;
        }
        helper.kill();
        let found = texts(&store(root.path()), &id(1));
        assert!(found.len() as u64 >= acknowledged, "{} of {acknowledged}", found.len());
        for (n, text) in found.iter().enumerate() {
            assert!(text.starts_with(&format!("{n} ")), "text {n} is {text:?}");
        }
    }
    let mut log = open(&store(root.path()), &id(1)).unwrap().log;
    append(&mut log, "goes on").unwrap();
}

/// Covers: G5, LE1, LE2, #102, #103.
#[test]
fn the_loser_is_told_who_holds_the_session_until_that_process_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    append(&mut store.create(header(1)), "mine").unwrap();
    let mut helper = Helper::start("hold", root.path());
    let pid: u32 = helper.hear().unwrap().parse().unwrap();
    let Err(StoreError::Held(owner)) = now(store.open(&id(1))) else { panic!("must be held") };
    assert_eq!(owner.pid, pid);
    assert!(!owner.host.is_empty());
    assert!(matches!(store.trash(&id(1)), Err(StoreError::Held(_))));
    assert_eq!(texts(&store, &id(1)), ["mine"], "reading goes on");
    now(store.fork(&id(1), ForkPoint::Whole, header(2), say("").at)).unwrap();
    helper.kill();
    assert!(open(&store, &id(1)).is_ok(), "a killed holder frees it at once");
}

/// Covers: G5, LE18, #102.
#[test]
fn two_processes_hammering_one_session_never_mix_their_lines() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    let mut log = store.create(header(1));
    append(&mut log, "start 0").unwrap();
    let mut both = ["a", "b"].map(|n| Helper::start(&format!("compete {n}"), root.path()));
    for helper in &mut both {
        assert_eq!(helper.hear().as_deref(), Some("held"), "both met a holder");
    }
    drop(log);
    both.into_iter().for_each(Helper::finish);
    let records = scan(&store, &id(1));
    assert!(records.iter().enumerate().all(|(n, r)| r.seq() == n as u64), "numbers have no gap");
    let found = texts(&store, &id(1));
    for name in ["a", "b"] {
        let own: Vec<_> = found.iter().filter(|t| t.starts_with(name)).collect();
        assert_eq!(own.len(), 40);
        assert!(own.iter().enumerate().all(|(n, t)| **t == format!("{name} {n}")));
    }
    assert!(open(&store, &id(1)).unwrap().active.findings.is_empty());
}

fn list_and_add(root: &Path, name: u32) {
    let store = store(root);
    for n in 0..6 {
        append(&mut store.create(header(name * 100 + n)), "new").unwrap();
        let mut catalog = Catalog::open(&root.join("catalog.sqlite"));
        let report = catalog.refresh(&store).unwrap();
        assert!(report.saved, "{:?}", catalog.opened());
        assert!(catalog.row(&id(name * 100 + n)).is_some());
    }
}

/// Covers: #118, G12.
#[test]
fn eight_processes_share_one_catalog() {
    let root = tempfile::tempdir().unwrap();
    let all: Vec<_> = (1..=8).map(|n| Helper::start(&format!("list {n}"), root.path())).collect();
    all.into_iter().for_each(Helper::finish);
    let mut catalog = Catalog::open(&root.path().join("catalog.sqlite"));
    assert_eq!(catalog.opened(), &Opened::Kept);
    let report = catalog.refresh(&store(root.path())).unwrap();
    assert_eq!(report.total, 48);
}

/// Everything that a session leaves on disk.
fn leave_files(root: &Path, mask: rustix::fs::RawMode) {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(mask));
    let root = root.join("new");
    let store = store(&root);
    let mut log = store.create(header(1));
    append(&mut log, "one").unwrap();
    now(log.put_blob(b"blob", "")).unwrap();
    drop(log);
    let path = store.log_path(&id(1)).unwrap();
    let mut torn = fs::read(&path).unwrap();
    torn.extend_from_slice(b"{\"seq\":");
    fs::write(&path, torn).unwrap();
    let mut log = open(&store, &id(1)).unwrap().log;
    append(&mut log, "two").unwrap();
    now(store.fork(&id(1), ForkPoint::Whole, header(2), say("").at)).unwrap();
    now(store.fork(&id(1), ForkPoint::Whole, header(3), say("").at)).unwrap();
    store.trash(&id(3)).unwrap();
    let catalog = root.join("catalog.sqlite");
    Catalog::open(&catalog).refresh(&store).unwrap();
    fs::write(&catalog, "no database").unwrap();
    let mut catalog = Catalog::open(&catalog);
    catalog.refresh(&store).unwrap();
    // While it is open its side files exist; the other side looks at them before this ends.
    speak("done");
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn all_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(all_below(&path)) } else { found.push(path) }
    }
    found
}

fn assert_private(dir: &Path, what: &str) {
    for path in all_below(dir) {
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let wanted = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, wanted, "{what}: {} is {mode:o}", path.display());
    }
}

/// Covers: G17, #115.
#[test]
fn everything_is_private_whatever_the_umask() {
    for mask in ["000", "002", "022", "077"] {
        let root = tempfile::tempdir().unwrap();
        let mut helper = Helper::start(&format!("umask {mask}"), root.path());
        assert_eq!(helper.hear().as_deref(), Some("done"));
        let made = all_below(&root.path().join("new"));
        let has = |name: &str| made.iter().any(|p| p.ends_with(name));
        for name in ["owner", "log.jsonl", "blobs", "set-aside", "trash", "catalog.sqlite-wal"] {
            assert!(has(name), "{name} is not among {made:?}");
        }
        assert_private(&root.path().join("new"), mask);
        helper.finish();
    }
}

/// Covers: G17, #115.
#[test]
fn files_that_others_may_read_are_closed_to_them_when_the_session_is_opened() {
    let root = tempfile::tempdir().unwrap();
    let store = store(&root.path().join("new"));
    append(&mut store.create(header(1)), "one").unwrap();
    for path in all_below(&root.path().join("new")) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    drop(open(&store, &id(1)).unwrap());
    let path = store.log_path(&id(1)).unwrap();
    assert_private(path.parent().unwrap(), "after opening");
}

/// Covers: G15, G5.
#[test]
fn a_log_that_was_deleted_or_replaced_is_not_written_to_in_silence() {
    type Tamper = fn(&Path);
    let ways: [(&str, Tamper); 5] = [
        ("deleted", |log| fs::remove_file(log).unwrap()),
        ("replaced", |log| {
            fs::copy(log, log.with_extension("new")).unwrap();
            fs::rename(log.with_extension("new"), log).unwrap();
        }),
        ("moved", |log| fs::rename(log, log.with_extension("old")).unwrap()),
        ("directory moved", |log| {
            let dir = log.parent().unwrap();
            fs::rename(dir, dir.with_extension("old")).unwrap();
        }),
        ("appended to", |log| {
            fs::OpenOptions::new().append(true).open(log).unwrap().write_all(b"x").unwrap();
        }),
    ];
    let levels = [Level::Written, Level::Synced];
    for ((way, tamper), level) in ways.into_iter().flat_map(|way| levels.map(|level| (way, level)))
    {
        let root = tempfile::tempdir().unwrap();
        let store = store(root.path());
        let mut log = store.create(header(1));
        append(&mut log, "one").unwrap();
        let before = log.state().next_seq;
        let path = store.log_path(&id(1)).unwrap();
        let open = fs::File::open(&path).unwrap();
        tamper(&path);
        let left = open.metadata().unwrap().len();
        let drafts = || vec![say("two")];
        let error = now(log.append(drafts(), level)).expect_err(way);
        assert!(matches!(error, StoreError::Poisoned(_)), "{way}: {error}");
        assert!(matches!(now(log.append(drafts(), level)), Err(StoreError::Poisoned(_))), "{way}");
        assert!(matches!(now(log.sync()), Err(StoreError::Poisoned(_))), "{way}");
        assert_eq!(log.state().next_seq, before, "{way}");
        assert_eq!(open.metadata().unwrap().len(), left, "{way}: nothing more was written");
    }
}

/// Covers: #85.
#[test]
fn a_linked_sessions_directory_hides_nothing() {
    let root = tempfile::tempdir().unwrap();
    let real = tempfile::tempdir().unwrap();
    symlink(real.path(), root.path().join("sessions")).unwrap();
    let store = store(root.path());
    let mut log = store.create(header(1));
    append(&mut log, "one").unwrap();
    assert_eq!(now(store.list()).unwrap().len(), 1);
    let other = FileStore::new(RealDisk, root.path().join("."));
    assert!(matches!(now(other.open(&id(1))), Err(StoreError::Held(_))), "one log, two spellings");
    drop(log);
    append(&mut open(&other, &id(1)).unwrap().log, "two").unwrap();
    assert_eq!(texts(&store, &id(1)), ["one", "two"]);
}

/// Covers: #85, G17. Emptying the trash follows no link out of it.
#[test]
fn emptying_the_trash_removes_links_and_not_what_they_lead_to() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("keep"), "me").unwrap();
    let store = store(root.path());
    append(&mut store.create(header(1)), "one").unwrap();
    let dir = store.log_path(&id(1)).unwrap().parent().unwrap().to_owned();
    symlink(outside.path(), dir.join("link")).unwrap();
    store.trash(&id(1)).unwrap();
    store.empty_trash().unwrap();
    assert_eq!(fs::read(outside.path().join("keep")).unwrap(), b"me");
}

/// Covers: #89.
#[test]
fn a_long_working_directory_is_no_obstacle() {
    let root = tempfile::tempdir().unwrap();
    let store = store(root.path());
    let mut long = header(1);
    long.project.cwd = "/\u{6f22}\u{5b57}\u{6f22}\u{5b57}\u{6f22}".repeat(200);
    append(&mut store.create(long.clone()), "one").unwrap();
    assert_eq!(open(&store, &id(1)).unwrap().log.header(), &long);
}

/// Covers: #113. Runs only where the tests do not run as root, who may write anywhere.
#[test]
fn a_real_read_only_root_refuses_cleanly() {
    if rustix::process::geteuid().is_root() {
        return segno_testkit::skipped("root may write anywhere");
    }
    let root = tempfile::tempdir().unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let store = store(root.path());
    let error = append(&mut store.create(header(1)), "one").unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error}");
    assert!(now(store.list()).unwrap().is_empty());
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700)).unwrap();
}

/// A session whose directory is kept elsewhere: what is deleted is the link. Covers: G17.
#[test]
fn emptying_the_trash_does_not_follow_a_linked_session() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = FileStore::new(RealDisk, root.path());
    append(&mut store.create(header(1)), "one").unwrap();
    let dir = store.log_path(&id(1)).unwrap().parent().unwrap().to_owned();
    let real = elsewhere.path().join("session");
    fs::rename(&dir, &real).unwrap();
    symlink(&real, &dir).unwrap();
    store.trash(&id(1)).unwrap();
    assert_eq!(store.empty_trash().unwrap(), [id(1)]);
    assert!(real.join("log.jsonl").exists(), "the link was followed");
    assert!(store.list_trash().unwrap().is_empty());
}
