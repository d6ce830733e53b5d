//! Files made in another agent's folder: all or none, whatever happens, and nothing that was there changes.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

use segno_store::convert::File;
use segno_store::install::{InstallError, Installed, install};
use segno_store::{Disk as _, RealDisk};
use segno_testkit::sim_disk::{Fault, OpKind, SimDisk};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const ROOT: &str = "/home/.claude";
/// What stands in the session's own file, however its agent writes it.
const MARK: &str = "user";

fn files() -> Vec<File> {
    let file = |path: &str, bytes: Vec<u8>| File { path: PathBuf::from(path), bytes };
    let long = b"{\"type\":\"user\"}\n".repeat(900);
    vec![
        file("projects/-srv-kiln/new.jsonl", long.clone()),
        file("projects/-srv-kiln/new/subagents/agent-a1.jsonl", long),
        file("projects/-srv-kiln/new/subagents/agent-a1.meta.json", b"{}".to_vec()),
    ]
}

/// A folder in which a session is already.
fn home(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    let theirs =
        [File { path: "projects/-srv-kiln/theirs.jsonl".into(), bytes: b"theirs".to_vec() }];
    install(&disk, Path::new(ROOT), &theirs, "theirs").unwrap();
    disk
}

fn found(disk: &SimDisk, file: &File) -> Option<Vec<u8>> {
    disk.peek(&Path::new(ROOT).join(&file.path))
}

/// The session's own file is there only when all others are, each is whole, and the other session stays.
fn check(disk: &SimDisk, what: &str) {
    let files = files();
    for file in &files {
        let whole = found(disk, file).is_none_or(|bytes| bytes == file.bytes);
        assert!(whole, "{what}: a part of {}", file.path.display());
    }
    if found(disk, &files[0]).is_some() {
        assert!(files.iter().all(|file| found(disk, file).is_some()), "{what}: not all");
    }
    let theirs = disk.peek(&Path::new(ROOT).join("projects/-srv-kiln/theirs.jsonl"));
    assert_eq!(theirs.as_deref(), Some(b"theirs".as_slice()), "{what}");
}

/// Covers: G1, G14. Power is lost, or the process killed, before any change of the disk.
#[test]
fn an_installation_that_is_cut_off_anywhere_is_finished_by_the_next_one() {
    for change in 0..60 {
        let disk = home(change);
        disk.stop_before_change(change);
        let whole = install(&disk, Path::new(ROOT), &files(), MARK).is_ok();
        let states = disk.crash_states();
        let lost = states.sample(60, change).map(|state| states.nth(state));
        for (n, next) in lost.chain([disk.kill_copy()]).enumerate() {
            let what = format!("change {change}, state {n}");
            check(&next, &what);
            assert!(!whole || found(&next, &files()[0]).is_some(), "{what}: it was told as done");
            install(&next, Path::new(ROOT), &files(), MARK)
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            let after = next.crash();
            check(&after, &what);
            assert!(found(&after, &files()[0]).is_some(), "{what}: not durable");
        }
        if whole {
            return;
        }
    }
    panic!("an installation takes fewer changes");
}

/// Covers: G14, G16. An operation fails, or the disk is full.
#[test]
fn an_installation_that_fails_leaves_nothing() {
    let kinds = [OpKind::Create, OpKind::Write, OpKind::Sync, OpKind::SyncDir, OpKind::Link];
    let mut failed = 0;
    for (kind, after) in kinds.into_iter().flat_map(|kind| (0..12).map(move |after| (kind, after)))
    {
        let disk = home(after);
        disk.inject(Fault { after, ..Fault::next(kind, ErrorKind::Other) });
        let done = install(&disk, Path::new(ROOT), &files(), MARK);
        disk.heal();
        let there = files().iter().filter(|file| found(&disk, file).is_some()).count();
        assert_eq!(there, if done.is_ok() { 3 } else { 0 }, "{kind:?} {after}");
        check(&disk, &format!("{kind:?} {after}"));
        failed += usize::from(done.is_err());
    }
    assert!(failed > 15, "{failed}");
    let disk = home(1);
    disk.set_capacity(Some(disk.used() + 20_000));
    assert!(install(&disk, Path::new(ROOT), &files(), MARK).is_err());
    assert!(files().iter().all(|file| found(&disk, file).is_none()));
    assert!(
        !disk.list(&Path::new(ROOT).join("projects/-srv-kiln")).unwrap().iter().any(|e| e.is_dir)
    );
}

/// Covers: G14. Nothing is replaced, whoever made it.
#[test]
fn a_name_that_is_taken_is_refused_and_the_same_session_is_there_already() {
    let disk = home(1);
    let root = Path::new(ROOT);
    assert!(
        matches!(install(&disk, root, &files(), MARK), Ok(Installed::New(paths)) if paths.len() == 3)
    );
    disk.poke(&root.join(&files()[0].path), b"grown since, by the user");
    let again = install(&disk, root, &files(), MARK).unwrap();
    assert_eq!(again, Installed::Before(root.join(&files()[0].path)));
    assert_eq!(found(&disk, &files()[0]).as_deref(), Some(b"grown since, by the user".as_slice()));
    let mut other = files();
    other[0].path = "projects/-srv-kiln/other.jsonl".into();
    other[2].bytes = b"{\"another\":1}".to_vec();
    let taken = install(&disk, root, &other, MARK);
    assert!(
        matches!(taken, Err(InstallError::Taken(path)) if path.ends_with("agent-a1.meta.json"))
    );
    assert!(found(&disk, &other[0]).is_none());
}

/// Covers: G14. Several at once make one: also where each would write the session's own file in another way.
#[test]
fn several_at_once_make_one() {
    const AT_ONCE: usize = 6;
    for round in 0..20 {
        let home = tempfile::tempdir().unwrap();
        let start = std::sync::Barrier::new(AT_ONCE);
        let one = |n: usize| {
            let mut files = files();
            let own = if round % 2 == 0 { n } else { 0 };
            files[0].bytes.extend_from_slice(format!("{own}\n").as_bytes());
            start.wait();
            install(&RealDisk, home.path(), &files, MARK)
        };
        let done: Vec<_> = std::thread::scope(|scope| {
            let one = &one;
            let running: Vec<_> = (0..AT_ONCE).map(|n| scope.spawn(move || one(n))).collect();
            running.into_iter().map(|running| running.join().unwrap()).collect()
        });
        let made = done.iter().filter(|done| matches!(done, Ok(Installed::New(_)))).count();
        assert!(made == 1 && done.iter().all(Result::is_ok), "{round}: {done:?}");
        assert!(files().iter().all(|file| home.path().join(&file.path).is_file()), "{round}");
    }
}

/// Covers: G3, G14. What only has the session's name is not the session.
#[test]
fn something_else_under_the_name_is_no_installation() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(&files()[0].path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    for found in ["", "\0\0\0\0", "{\"type\":\"another\"}\n"] {
        fs::write(&path, found).unwrap();
        for n in 0..2 {
            let refused = install(&RealDisk, home.path(), &files(), MARK);
            assert!(
                matches!(&refused, Err(InstallError::Taken(taken)) if *taken == path),
                "{found:?} {n}: {refused:?}"
            );
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), found);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let refused = install(&RealDisk, home.path(), &files(), MARK);
    assert!(matches!(&refused, Err(InstallError::Taken(_))), "{refused:?}");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing was made");
}

/// Covers: G17. No way out of the folder.
#[test]
fn a_file_cannot_lie_outside_of_the_folder() {
    for path in ["../x", "/etc/x", "a/../../x", "./x", ""] {
        let files = [File { path: path.into(), bytes: Vec::new() }];
        let refused = install(&SimDisk::new(1), Path::new(ROOT), &files, MARK);
        assert!(matches!(refused, Err(InstallError::Outside(_))), "{path}: {refused:?}");
    }
}

/// Covers: G17. Only the owner reads what was made; what was there keeps its modes.
#[test]
fn what_is_made_is_private_and_what_was_there_stays_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let projects = home.path().join("projects");
    fs::create_dir(&projects).unwrap();
    fs::set_permissions(&projects, fs::Permissions::from_mode(0o755)).unwrap();
    install(&RealDisk, home.path(), &files(), MARK).unwrap();
    let mode =
        |path: &str| fs::metadata(home.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("projects"), 0o755);
    assert_eq!(mode("projects/-srv-kiln"), 0o700);
    assert_eq!(mode("projects/-srv-kiln/new/subagents"), 0o700);
    assert_eq!(mode("projects/-srv-kiln/new.jsonl"), 0o600);
    let names: Vec<_> =
        fs::read_dir(projects.join("-srv-kiln")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "no leftovers: {names:?}");
}
