//! Where a repaired file goes: never over anything, and whole at every moment.

use crate::bench::{Copy, corpus, session};
use segno_store::disk::{Disk, DiskFile, Writes};
use segno_store::foreign::{Agent, Roots};
use segno_store::rescue::{self, RescueError};
use segno_testkit::sim_disk::SimDisk;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
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
    assert_eq!(fs::metadata(path).expect("it is there").permissions().mode() & 0o777, 0o600);
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

/// A subagent's session stays one: under a name by which its agent finds it, in its parent's folder, with what is said of it.
#[test]
fn a_copy_of_a_subagents_session_is_one() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".claude/projects/-srv-work-kiln");
    let case = "cases/42-subagents-before-fork/c0de002a-1111-4111-8111-0000000000a0";
    let below = folder.join("c0de002a-1111-4111-8111-0000000000a0/subagents");
    fs::create_dir_all(&below).expect("a folder");
    let parent = corpus(&format!("{case}.jsonl"));
    fs::copy(&parent, folder.join(parent.file_name().expect("it has one"))).expect("a file");
    let path = below.join("agent-a42b.jsonl");
    let mut bytes =
        fs::read(corpus(&format!("{case}/subagents/agent-a42b.jsonl"))).expect("it is there");
    bytes.extend_from_slice(b"{\"type\":\"user\",\"uuid\":\"be");
    fs::write(&path, bytes).expect("a file");
    let facts = "{\"agentType\":\"explorer\",\"toolUseId\":\"toolu_1\"}";
    fs::write(path.with_extension("meta.json"), facts).expect("a file");
    let roots = Roots { home: home.path().to_owned(), ..Roots::default() };
    let (before, _) = segno_store::foreign::locate_of(Agent::Claude, &roots);
    let found = before.iter().find(|one| one.path == path).expect("it is found");
    let placed = rescue::plan(found).expect("it reads").install(&roots).expect("there is a place");
    let name = placed.file.file_stem().and_then(|name| name.to_str()).expect("it has one");
    let id = name.strip_prefix("agent-").expect("it is a subagent's");
    assert!(placed.file.starts_with(&below) && id.chars().all(|c| c.is_ascii_alphanumeric()));
    let (after, _) = segno_store::foreign::locate_of(Agent::Claude, &roots);
    let copy = after.iter().find(|one| one.path == placed.file).expect("its agent finds it");
    assert_eq!((&copy.parent, after.len()), (&found.parent, before.len() + 1), "{copy:?}");
    let view = segno_store::foreign::View::active(copy).expect("it reads");
    assert_eq!(view.facts.role.as_deref(), Some("explorer"));
    assert_eq!(view.facts.call.as_deref(), Some("toolu_1"));
    let text = fs::read_to_string(&placed.file).expect("it is text");
    assert!(text.contains(&format!("\"agentId\":\"{id}\"")) && !text.contains("a42b\""), "{text}");
    assert!(text.contains("\"sessionId\":\"c0de002a"), "its parent stays its parent: {text}");
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
