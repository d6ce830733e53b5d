//! Where a repaired file goes: never over anything, and whole at every moment.

use crate::bench::{Copy, corpus, session};
use segno_store::disk::{Disk, DiskFile, Writes};
use segno_store::foreign::{Agent, Roots};
use segno_store::rescue::{self, RescueError};
use segno_testkit::sim_disk::{Fault, OpKind, SimDisk};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

const CASE: &str = "cases/01-torn-middle-lines/c0de0001-1111-4111-8111-000000000001.jsonl";

fn damaged() -> Copy {
    let session = session(CASE);
    Copy::of(&session, &fs::read(&session.path).expect("it is in the corpus"))
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.parent().expect("a folder")).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Covers: G1, G14, G17.
#[test]
fn in_place_keeps_the_file_as_it_was_beside_it() {
    let copy = damaged();
    let path = &copy.session.path;
    let before = fs::read(path).expect("it is there");
    let plan = rescue::plan(&copy.session).expect("it reads");
    let placed = plan.in_place(&|| None).expect("it is free");
    let backup = placed.backup.expect("a backup");
    assert_eq!(fs::read(&backup).expect("it is there"), before);
    assert!(rescue::plan(&copy.session).expect("it reads").is_empty());
    let aside = fs::read(placed.set_aside.expect("two lines are lost")).expect("it is there");
    assert!(
        aside
            .split(|&b| b == b'\n')
            .filter(|l| !l.is_empty())
            .all(|line| { before.split(|&b| b == b'\n').any(|own| own == line) })
    );
    // The next backup takes another name.
    fs::write(path, &before).expect("a file");
    let again =
        rescue::plan(&copy.session).expect("it reads").in_place(&|| None).expect("it is free");
    assert_ne!(again.backup.expect("a backup"), backup);
    assert_eq!(fs::read(&backup).expect("it is there"), before);
    assert!(!names(path).iter().any(|name| name.starts_with(".tmp")), "{:?}", names(path));
}

/// Covers: G14.
#[test]
fn what_changed_or_is_open_is_not_replaced() {
    let copy = damaged();
    let path = copy.session.path.clone();
    let before = fs::read(&path).expect("it is there");
    let plan = rescue::plan(&copy.session).expect("it reads");
    let alone = names(&path);
    assert!(matches!(plan.in_place(&|| Some(1)), Err(RescueError::Running { pid: 1, .. })));
    assert_eq!(fs::read(&path).expect("it is there"), before);
    // Its agent begins when all is ready.
    let asked = std::cell::Cell::new(0);
    let last = || (asked.replace(asked.get() + 1) > 0).then_some(2);
    assert!(matches!(plan.in_place(&last), Err(RescueError::Running { pid: 2, .. })));
    assert_eq!(fs::read(&path).expect("it is there"), before);
    assert_eq!(names(&path), alone, "a refused repair leaves nothing behind");
    // Its agent writes while it is asked about.
    asked.set(0);
    let appends = || {
        if asked.replace(asked.get() + 1) == 0 {
            return None;
        }
        let mut file = fs::File::options().append(true).open(&path).expect("it is there");
        file.write_all(b"{}\n").expect("room");
        None
    };
    assert!(matches!(plan.in_place(&appends), Err(RescueError::Changed { .. })));
    assert_eq!(fs::read(&path).expect("it is there"), [&before[..], b"{}\n"].concat());
    // It was written before.
    assert!(matches!(plan.in_place(&|| None), Err(RescueError::Changed { .. })));
    assert_eq!(fs::read(&path).expect("it is there"), [&before[..], b"{}\n"].concat());
    assert_eq!(names(&path), alone, "a refused repair leaves nothing behind");
}

/// Covers: G14. Whose it is does not matter, and no registry has to tell.
#[cfg(target_os = "linux")]
#[test]
fn what_another_process_has_open_is_not_replaced() {
    let copy = damaged();
    let path = copy.session.path.clone();
    let (before, alone) = (fs::read(&path).expect("it is there"), names(&path));
    let plan = rescue::plan(&copy.session).expect("it reads");
    let open = fs::File::options().append(true).open(&path).expect("it is there");
    let mut other = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .stdout(open)
        .spawn()
        .expect("cat is there");
    let refused = plan.in_place(&|| None);
    let seen = segno_store::foreign::openers(&path).pids;
    drop(other.stdin.take());
    other.wait().expect("it ends");
    assert!(
        matches!(&refused, Err(RescueError::Running { pid, .. }) if *pid == other.id()),
        "{refused:?}"
    );
    assert_eq!(seen, [other.id()]);
    assert_eq!((fs::read(&path).expect("it is there"), names(&path)), (before, alone));
    plan.in_place(&|| None).expect("it is free again");
}

/// Covers: G14.
#[test]
fn a_new_file_never_takes_the_place_of_another() {
    let copy = damaged();
    let plan = rescue::plan(&copy.session).expect("it reads");
    let to = copy.session.path.with_file_name("new.jsonl");
    let before = fs::read(&copy.session.path).expect("it is there");
    plan.to_new_file(&to).expect("the name is free");
    let first = fs::read(&to).expect("it is there");
    assert!(matches!(plan.to_new_file(&to), Err(RescueError::Exists { .. })));
    assert_eq!(fs::read(&to).expect("it is there"), first);
    assert_eq!(fs::read(&copy.session.path).expect("it is there"), before);
}

/// Covers: G14, #160.
#[test]
fn a_copy_is_put_where_its_agent_finds_it_under_a_new_id_once() {
    let home = tempfile::tempdir().expect("a folder");
    let rows: &[(&str, &str)] = &[
        (CASE, ".claude/projects/-srv-work-kiln"),
        (
            "cases/08-bom-crlf/rollout-2026-03-02T09-00-00-019c0000-0008-7000-8000-000000000008.jsonl",
            ".codex/sessions/2026/03/02",
        ),
        (
            "cases/18-duplicate-results/2026-03-02T09-00-00-000Z_019c1111-0012-7000-8000-000000000012.jsonl",
            ".pi/agent/sessions/--srv-work-kiln--",
        ),
    ];
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    for (case, folder) in rows {
        let folder = home.path().join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(Path::new(case).file_name().expect("it has one"));
        fs::copy(corpus(case), &path).expect("it is in the corpus");
        let before = fs::read(&path).expect("it is there");
        let found = segno_store::foreign::recognise(&path).expect("it is in the corpus");
        let plan = rescue::plan(&found).expect("it reads");
        let placed = plan.install(&roots).expect("there is a place");
        assert!(!placed.was_there, "{case}");
        assert_eq!(fs::read(&path).expect("it is there"), before, "{case}");
        let (ours, _) = segno_store::foreign::locate_of(found.agent, &roots);
        assert!(ours.iter().any(|one| one.path == placed.file), "{case}: {ours:?}");
        let copy = segno_store::foreign::recognise(&placed.file).expect("it is one");
        let view = segno_store::foreign::View::active(&copy).expect("it reads");
        let old = plan.id.clone().expect("it has one");
        assert_ne!(view.facts.id.as_deref(), Some(old.as_str()), "{case}");
        let text = fs::read_to_string(&placed.file).expect("it is text");
        assert!(!text.contains(&format!("\"{old}\"")), "{case}: the old id is left");
        // The same once more, also when the copy went on since.
        let mut file = fs::File::options().append(true).open(&placed.file).expect("it is there");
        file.write_all(b"{}\n").expect("room");
        let again = plan.install(&roots).expect("there is a place");
        assert!(again.was_there && again.file == placed.file, "{case}: {again:?}");
    }
    let copy = damaged();
    let elsewhere = rescue::plan(&copy.session).expect("it reads").install(&roots);
    assert!(matches!(elsewhere, Err(RescueError::Unplaced { .. })));
}

/// Covers: #140. What belongs to the session belongs to its copy.
#[test]
fn a_copy_takes_the_sessions_subagents_along() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".claude/projects/-srv-work-kiln");
    let case = "cases/42-subagents-before-fork/c0de002a-1111-4111-8111-0000000000a0";
    let own = folder.join("c0de002a-1111-4111-8111-0000000000a0");
    fs::create_dir_all(own.join("subagents")).expect("a folder");
    let path = own.with_extension("jsonl");
    let mut bytes = fs::read(corpus(&format!("{case}.jsonl"))).expect("it is in the corpus");
    bytes.extend_from_slice(b"{\"type\":\"user\",\"uuid\":\"be");
    fs::write(&path, bytes).expect("a file");
    let agent = "subagents/agent-a42b.jsonl";
    fs::copy(corpus(&format!("{case}/{agent}")), own.join(agent)).expect("it is in the corpus");
    let found = segno_store::foreign::recognise(&path).expect("it is one");
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let plan = rescue::plan(&found).expect("it reads");
    let placed = plan.install(&roots).expect("there is a place");
    let copy = placed.file.with_extension("").join(agent);
    let text = fs::read_to_string(&copy).expect("it is there");
    let id = placed.file.file_stem().and_then(|id| id.to_str()).expect("it has one");
    assert!(text.contains(&format!("\"sessionId\":\"{id}\"")), "{text}");
    assert!(plan.install(&roots).expect("there is a place").was_there);
}

/// A copy of a subagent's session would be another subagent, which no call names.
#[test]
fn a_subagents_session_is_repaired_in_place_alone() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".claude/projects/-srv-work-kiln");
    let case = "cases/42-subagents-before-fork/c0de002a-1111-4111-8111-0000000000a0";
    let below = folder.join("c0de002a-1111-4111-8111-0000000000a0/subagents");
    fs::create_dir_all(&below).expect("a folder");
    let path = below.join("agent-a42b.jsonl");
    let mut bytes =
        fs::read(corpus(&format!("{case}/subagents/agent-a42b.jsonl"))).expect("it is there");
    bytes.extend_from_slice(b"{\"type\":\"user\",\"uuid\":\"be");
    fs::write(&path, bytes).expect("a file");
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let (found, _) = segno_store::foreign::locate_of(Agent::Claude, &roots);
    // As it is found, and as a file that somebody names.
    let named = segno_store::foreign::recognise(&path).expect("it is one");
    for found in [&found[0], &named] {
        let plan = rescue::plan(found).expect("it reads");
        assert!(matches!(plan.install(&roots), Err(RescueError::Child { .. })));
        assert_eq!(names(&path), ["agent-a42b.jsonl"]);
    }
    rescue::plan(&named).expect("it reads").in_place(&|| None).expect("it is free");
    assert!(rescue::plan(&named).expect("it reads").is_empty());
}

/// Whose the file is and who may read it stays; a copy is its owner's alone.
#[test]
fn in_place_keeps_owner_group_and_mode() {
    let copy = damaged();
    let path = &copy.session.path;
    let is_root = std::os::unix::fs::chown(path, Some(1234), Some(1235)).is_ok();
    for mode in [0o640, 0o600, 0o444] {
        let before = fs::read(path).expect("it is there");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let plan = rescue::plan(&copy.session).expect("it reads");
        let placed = plan.in_place(&|| None).expect("it is free");
        for file in [Some(&placed.file), placed.set_aside.as_ref(), placed.backup.as_ref()] {
            let file = file.expect("it is there");
            let meta = fs::metadata(file).expect("it is there");
            assert_eq!(meta.permissions().mode() & 0o777, mode, "{}", file.display());
            assert!(!is_root || (meta.uid(), meta.gid()) == (1234, 1235), "{}", file.display());
        }
        for left in names(path).iter().filter(|name| *name != "s.jsonl") {
            fs::remove_file(path.with_file_name(left)).expect("it is ours");
        }
        fs::write(path, before).expect("it is ours");
        if is_root {
            std::os::unix::fs::chown(path, Some(1234), Some(1235)).expect("it worked before");
        }
    }
    if !is_root {
        segno_testkit::skipped("only root can give files to others");
    }
}

#[test]
fn other_names_of_a_file_are_counted_but_for_those_of_an_attempt() {
    let copy = damaged();
    let path = &copy.session.path;
    let names = || rescue::plan(&copy.session).expect("it reads").other_names();
    assert_eq!(names(), 0);
    let mut backup = path.clone().into_os_string();
    backup.push(".before-repair");
    fs::hard_link(path, &backup).expect("room");
    assert_eq!(names(), 0, "an attempt that was killed");
    fs::hard_link(path, path.with_file_name("snapshot")).expect("room");
    assert_eq!(names(), 1);
}

/// Covers: G14. Whoever comes second finds what the first one made.
#[test]
fn many_installations_at_once_make_one_copy() {
    for _ in 0..8 {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join(".claude/projects/-x");
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(Path::new(CASE).file_name().expect("it has one"));
        fs::copy(corpus(CASE), &path).expect("it is in the corpus");
        let found = segno_store::foreign::recognise(&path).expect("it is one");
        let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
        let placed: Vec<rescue::Placed> = std::thread::scope(|scope| {
            let one = || rescue::plan(&found).expect("it reads").install(&roots).expect("a place");
            let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|one| one.join().expect("it ends")).collect()
        });
        assert!(placed.iter().all(|one| one.file == placed[0].file), "{placed:?}");
        assert_eq!(placed.iter().filter(|one| !one.was_there).count(), 1, "{placed:?}");
        let names = names(&path);
        assert_eq!(names.len(), 3, "the session, its copy, and what was set aside: {names:?}");
    }
}

/// Covers: G14. A copy that its agent packed, put away or moved to another project is there.
#[test]
fn a_copy_that_its_agent_moved_is_not_made_again() {
    let claude = ".claude/projects/-x";
    let codex = "15-orphan-call-tail/rollout-2026-03-02T09-00-00-019c0000-000f-7000-8000-00000000000f.jsonl";
    let pi =
        "20-reused-call-ids/2026-03-02T09-00-00-000Z_019c1111-0014-7000-8000-000000000014.jsonl";
    let archived = ".codex/archived_sessions";
    let packed = ".codex/sessions/2026/03/02";
    let rows = [
        (CASE.trim_start_matches("cases/"), claude, ".claude/projects/-y", false),
        (codex, packed, archived, false),
        (codex, packed, archived, true),
        (codex, packed, packed, true),
        (pi, ".pi/agent/sessions/--x--", ".pi/agent/sessions/--y--", false),
    ];
    for (case, folder, to, is_packed) in rows {
        let home = tempfile::tempdir().expect("a folder");
        for folder in [folder, to] {
            fs::create_dir_all(home.path().join(folder)).expect("a folder");
        }
        let name = Path::new(case).file_name().expect("it has one");
        let path = home.path().join(folder).join(name);
        fs::copy(corpus(&format!("cases/{case}")), &path).expect("it is in the corpus");
        let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
        let install = || {
            let found = segno_store::foreign::recognise(&path).expect("it is one");
            rescue::plan(&found).expect("it reads").install(&roots).expect("a place")
        };
        let made = install();
        assert!(!made.was_there, "{case}: {made:?}");
        let mut moved = home.path().join(to).join(made.file.file_name().expect("it has one"));
        if is_packed {
            let bytes = fs::read(&made.file).expect("it is there");
            let Some(bytes) = segno_testkit::zstd(&bytes, "-3") else {
                return segno_testkit::skipped("zstd is not there");
            };
            moved.as_mut_os_string().push(".zst");
            fs::write(&moved, bytes).expect("room");
            fs::remove_file(&made.file).expect("it is there");
        } else {
            fs::rename(&made.file, &moved).expect("room");
        }
        let before = names(&path);
        let again = install();
        assert!(again.was_there && again.file == moved, "{case} in {to}: {again:?}");
        assert_eq!(names(&path), before, "{case} in {to}");
    }
}

/// What a killed process left is gone with the next repair in its folder; what is at work, or somebody else's, stays.
#[test]
fn files_that_never_got_their_name_are_swept() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".claude/projects/-x");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(Path::new(CASE).file_name().expect("it has one"));
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let theirs = [".tmp-1-", ".tmp-x-1", ".tmp-1", "a.tmp-1-1", ".tmp-1-1.jsonl"];
    for in_place in [false, true] {
        fs::copy(corpus(CASE), &path).expect("it is in the corpus");
        for name in theirs.iter().chain(&[".tmp-1-0", ".tmp-99999999-17", ".tmp-2-2"]) {
            fs::write(folder.join(name), "a session").expect("room");
        }
        let held = fs::File::open(folder.join(".tmp-2-2")).expect("it is there");
        held.try_lock().expect("nobody has it");
        let found = segno_store::foreign::recognise(&path).expect("it is one");
        let plan = rescue::plan(&found).expect("it reads");
        if in_place {
            plan.in_place(&|| None).expect("it is free");
        } else {
            plan.install(&roots).expect("there is a place");
        }
        let names = names(&path);
        let left: Vec<&String> = names.iter().filter(|name| name.contains("tmp")).collect();
        let mut expected: Vec<&str> = theirs.iter().copied().chain([".tmp-2-2"]).collect();
        expected.sort_unstable();
        assert_eq!(left, expected);
    }
}

const OLD: &[u8] = b"old old old\n";
const NEW: &[u8] = b"new content that is longer than what was there\n";

fn file_of(disk: &SimDisk, path: &Path) -> Option<Vec<u8>> {
    let file = disk.open_read(path).ok()?;
    let len = usize::try_from(file.meta().ok()?.len).ok()?;
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(read);
    Some(bytes)
}

fn write(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    let file = disk.create_new(path, Writes::Sequential).expect("a new file");
    file.write(bytes).expect("room");
    file.sync_all().expect("a disk that works");
    disk.sync_dir(path.parent().expect("a folder")).expect("a disk that works");
}

fn replace(disk: &SimDisk, path: &Path) -> Result<PathBuf, RescueError> {
    let expected = disk.meta(path).expect("it is there");
    let fill = |file: &<SimDisk as Disk>::File| {
        file.write(NEW).map_err(RescueError::Write)?;
        Ok(())
    };
    rescue::replace(disk, path, expected, &fill, &|| None)
}

fn names_of(disk: &SimDisk, dir: &str) -> Vec<String> {
    let mut names: Vec<String> =
        disk.list(Path::new(dir)).expect("a folder").into_iter().map(|e| e.name).collect();
    names.sort();
    names
}

/// Covers: G14, G16. A disk that fails once, at any operation: the file is as it was with nothing beside it, or the
/// error says what is.
#[test]
fn a_repair_that_fails_says_what_is_there() {
    use OpKind::{Create, Link, Meta, Remove, Rename, Sync, SyncDir, Write};
    let path = Path::new("/agent/s.jsonl");
    let mut outcomes = std::collections::BTreeSet::new();
    for on in [Create, Write, Sync, SyncDir, Rename, Link, Meta, Remove] {
        for (after, forever) in (0..8).flat_map(|after| [(after, false), (after, true)]) {
            let disk = SimDisk::new(after);
            disk.create_dir(Path::new("/agent")).expect("a folder");
            write(&disk, path, OLD);
            let expected = disk.meta(path).expect("it is there");
            disk.inject(Fault { on, after, error: std::io::ErrorKind::Other, forever });
            let fill = |file: &<SimDisk as Disk>::File| {
                file.write(NEW).map(drop).map_err(RescueError::Write)
            };
            let done = rescue::replace(&disk, path, expected, &fill, &|| None);
            disk.heal();
            let (names, what) =
                (names_of(&disk, "/agent"), format!("{on:?} {after} {forever}: {done:?}"));
            let is_new = file_of(&disk, path).as_deref() == Some(NEW);
            match &done {
                Ok(backup) | Err(RescueError::Unsure { backup, .. }) => {
                    assert!(is_new, "{what}");
                    assert_eq!(file_of(&disk, backup).as_deref(), Some(OLD), "{what}");
                }
                Err(RescueError::Left { path: left, .. }) => {
                    assert!(!is_new, "{what}");
                    assert_eq!(file_of(&disk, left).as_deref(), Some(OLD), "{what}");
                }
                Err(_) => {
                    assert!(!is_new, "{what}");
                    // Where nothing can be removed, a file without a name stays.
                    let named = names.iter().filter(|name| !name.starts_with(".tmp-"));
                    assert_eq!(named.collect::<Vec<_>>(), ["s.jsonl"], "{what}");
                    assert!(on == Remove || names.len() == 1, "{what}: {names:?}");
                }
            }
            outcomes.insert(match done {
                Ok(_) => "done",
                Err(RescueError::Unsure { .. }) => "unsure",
                Err(RescueError::Left { .. }) => "left",
                Err(_) => "as it was",
            });
        }
    }
    assert!(
        ["done", "unsure", "as it was"].iter().all(|one| outcomes.contains(one)),
        "{outcomes:?}"
    );
}

/// The file is there, old or new; where it is new, the old one is kept.
fn is_whole(disk: &SimDisk, path: &Path, what: &str) {
    let found = file_of(disk, path).unwrap_or_else(|| panic!("{what}: the file is gone"));
    let backup = file_of(disk, &path.with_file_name("s.jsonl.before-repair"));
    match found.as_slice() {
        OLD => {}
        NEW => assert_eq!(backup.as_deref(), Some(OLD), "{what}: new, and nothing is kept"),
        other => panic!("{what}: {:?}", String::from_utf8_lossy(other)),
    }
}

/// Covers: G1, G14. Power is lost, or the process is killed, at every operation.
#[test]
fn the_old_file_or_the_new_one_is_there_in_full_whatever_dies() {
    let path = Path::new("/agent/s.jsonl");
    let begin = |seed: u64| {
        let disk = SimDisk::new(seed);
        disk.create_dir(Path::new("/agent")).expect("a folder");
        disk.sync_dir(Path::new("/")).expect("a disk that works");
        write(&disk, path, OLD);
        disk
    };
    let whole = begin(0);
    let from = whole.operations();
    replace(&whole, path).expect("it works");
    let to = whole.operations();
    assert_eq!(
        file_of(&whole.crash(), path).as_deref(),
        Some(NEW),
        "it is durable when it is done"
    );
    for n in from..=to {
        let disk = begin(n);
        disk.stop_after(n);
        let done = replace(&disk, path);
        let states = disk.crash_states();
        for state in states.sample(200, n) {
            is_whole(&states.nth(state), path, &format!("operation {n}, state {state}"));
        }
        let killed = disk.kill();
        is_whole(&killed, path, &format!("killed at operation {n}"));
        // The next attempt gets there.
        if file_of(&killed, path).as_deref() == Some(OLD) {
            replace(&killed, path).unwrap_or_else(|e| panic!("after operation {n}: {e}"));
            is_whole(&killed, path, "the next attempt");
        }
        drop(done);
    }
}
