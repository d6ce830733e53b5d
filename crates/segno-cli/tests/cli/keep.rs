//! `segno keep`: copies of other agents' sessions, what they are good for, and putting them back.

use super::json_page::{example, same_shape};
use super::machine::{CLAUDE, CODEX, Machine, corpus, each_file, field};
use super::place::skipped;
use super::run::SmallDisk;
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

const ID: &str = "c0de0029-1111-4111-8111-000000000029";

fn with_session() -> (Machine, PathBuf) {
    let machine = Machine::with(CLAUDE, &["41-secrets-and-modes/session"]);
    let file = machine.user.join(CLAUDE).join(format!("{ID}.jsonl"));
    (machine, file)
}

/// Covers: G14, G17.
#[test]
fn a_run_is_silent_incremental_private_and_touches_nothing() {
    let (machine, file) = with_session();
    let before = machine.untouched(".claude");
    let first = machine.run(&["keep", "--all"]);
    assert_eq!((first.code, first.out.as_str(), first.err.as_str()), (0, "", ""), "{first:?}");
    assert_eq!(machine.untouched(".claude"), before);
    let again = machine.run(&["keep", "--all", "--json"]).json();
    same_shape("keep", &example("keep"), &again);
    assert_eq!(
        (again["looked_at"].as_u64(), again["bytes"].as_u64()),
        (Some(1), Some(0)),
        "{again}"
    );
    let mut bytes = fs::read(&file).unwrap();
    let more = bytes.len() as u64;
    bytes.extend_from_within(..);
    fs::write(&file, &bytes).unwrap();
    let grown = machine.run(&["keep", "--all", "--json"]).json();
    same_shape("keep", &example("keep"), &grown);
    assert_eq!(
        (grown["kept"][0]["grown"].as_u64(), grown["bytes"].as_u64()),
        (Some(1), Some(more))
    );
    fs::write(&file, &bytes[more as usize / 2..]).unwrap();
    let rewritten = machine.run(&["keep", "--all", "--json"]).json();
    assert_eq!(rewritten["kept"][0]["rewritten"], 1, "{rewritten}");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut kept = 0;
    each_file(&machine.place.home().join("kept"), &mut |path| {
        kept += 1;
        assert_eq!(
            (mode(path), mode(path.parent().unwrap())),
            (0o600, 0o700),
            "{}",
            path.display()
        );
    });
    assert!(kept >= 4, "a copy, a version, the index, the lock");
    let room = machine.run(&["prune", "--json"]).json();
    assert_eq!(room["kept"]["sessions"], 1, "{room}");
    assert!(room["kept"]["versions"].as_u64().unwrap() > 0, "{room}");
}

/// Covers: G14, #138. Its agent deletes the original; everything goes on from the copy, and the file comes back only under
/// a name that is free.
#[test]
fn a_deleted_session_is_listed_shown_searched_exported_continued_and_restored() {
    let machine = Machine::with(CLAUDE, &["42-subagents-before-fork"]);
    let id = "c0de002a-1111-4111-8111-0000000000a0";
    let word = format!("claude:{id}");
    let shown = machine.out(&["show", &word]);
    let children = machine.list(&["--all", "--children"]).len();
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    let listed = machine.list(&["--all", "--children"]);
    assert!(listed.iter().all(|s| s["kept"] == true && s["original_gone"] == false), "{listed:?}");
    let before = machine.untouched(".claude");
    fs::remove_dir_all(machine.user.join(".claude")).unwrap();
    let listed = machine.list(&["--all", "--children"]);
    assert_eq!(listed.len(), children);
    assert!(listed.iter().all(|s| s["original_gone"] == true), "{listed:?}");
    assert!(machine.out(&["list", "--all"]).contains("original gone"));
    let copy = machine.out(&["show", &word]);
    assert!(
        copy.contains("Claude Code has deleted it; this is the copy that was kept on"),
        "{copy}"
    );
    let lines: Vec<&str> = copy.lines().filter(|line| !line.contains("has deleted it")).collect();
    assert_eq!(lines, shown.lines().collect::<Vec<_>>());
    assert_eq!(machine.run(&["check", &word]).code, 0);
    assert!(machine.out(&["export", &word, "--format", "html"]).contains("<section id=\"s1\">"));
    let launched = machine.run(&["resume", &word, "--print"]);
    assert!(launched.code == 6 && launched.err.contains("--restore"), "{launched:?}");
    // Another run takes nothing away.
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    let restored = machine.run(&["keep", "--restore", &word, "--json"]);
    assert_eq!(restored.code, 0, "{restored:?}");
    same_shape("keep-restore", &example("keep-restore"), &restored.json());
    let main = machine.user.join(CLAUDE).join(format!("{id}.jsonl"));
    let same = |path: &PathBuf| {
        let hash = segno_model::sha256_hex(&fs::read(path).unwrap());
        before.iter().any(|(known, bytes, _)| known == path && *bytes == hash)
    };
    assert!(same(&main));
    let subagents = main.with_extension("").join("subagents");
    let below: Vec<_> =
        fs::read_dir(subagents).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!below.is_empty() && below.iter().all(same));
    fs::write(&main, "something else").unwrap();
    let taken = machine.run(&["keep", "--restore", id]);
    assert!(taken.code != 0 && fs::read(&main).unwrap() == b"something else", "{taken:?}");
}

#[test]
fn sessions_of_databases_keep_their_rows() {
    let machine = Machine::new();
    let folder = machine.user.join(".local/share/goose/sessions");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("sessions.db");
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE schema_version (version INTEGER PRIMARY KEY);
             INSERT INTO schema_version VALUES (7);
             CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, working_dir TEXT, created_at TEXT,
                updated_at TEXT, archived_at TEXT, parent_session_id TEXT);
             CREATE TABLE messages (id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT, role TEXT,
                content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
             CREATE TABLE accounts (token TEXT);
             INSERT INTO accounts VALUES ('SECRET-OF-NO-SESSION');
             INSERT INTO sessions VALUES ('20260302_1', 'one', '/srv/x', '2026-03-02 09:00:00', '2026-03-02 09:00:00', NULL, NULL),
                ('20260302_2', 'two', '/srv/x', '2026-03-02 09:00:00', '2026-03-02 09:00:00', NULL, NULL);
             INSERT INTO messages VALUES
                (1, 'a', '20260302_1', 'user', '[{\"type\":\"text\",\"text\":\"FIRST-WORDS\"}]', 1772442000, '{}'),
                (2, 'b', '20260302_2', 'user', '[{\"type\":\"text\",\"text\":\"OTHER-WORDS\"}]', 1772442000, '{}');",
        )
        .unwrap();
    drop(database);
    let before = machine.untouched(".local");
    let kept = machine.run(&["keep", "goose:20260302_1", "--json"]);
    assert_eq!(kept.code, 0, "{kept:?}");
    assert_eq!(machine.untouched(".local"), before);
    assert!(
        machine.run(&["keep", "goose:20260302_1", "--json"]).json()["kept"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let mut copies = Vec::new();
    each_file(&machine.place.home().join("kept/tree"), &mut |path| copies.push(path.to_owned()));
    let [copy] = &copies[..] else { panic!("{copies:?}") };
    let bytes = String::from_utf8_lossy(&fs::read(copy).unwrap()).into_owned();
    assert!(
        bytes.contains("FIRST-WORDS")
            && !bytes.contains("OTHER-WORDS")
            && !bytes.contains("SECRET-OF")
    );
    fs::remove_dir_all(machine.user.join(".local")).unwrap();
    let listed = machine.list(&["--all"]);
    assert_eq!(field(&listed, "id"), ["20260302_1"]);
    assert!(machine.out(&["show", "goose:20260302_1"]).contains("FIRST-WORDS"));
    let restored = machine.run(&["keep", "--restore", "goose:20260302_1"]);
    assert!(restored.code == 1 && restored.err.contains("--here"), "{restored:?}");
}

/// Covers: G15. A copy that somebody emptied, cut off, overwrote or removed is made again while the original is there, and what
/// could be read of it is no reason to refuse.
#[test]
fn a_broken_copy_is_made_again_while_the_original_is_there() {
    type Break = fn(&std::path::Path);
    let breaks: [(&str, Break); 4] = [
        ("removed", |copy| fs::remove_file(copy).unwrap()),
        ("emptied", |copy| fs::write(copy, "").unwrap()),
        ("cut off", |copy| {
            let bytes = fs::read(copy).unwrap();
            fs::write(copy, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("overwritten", |copy| fs::write(copy, "no database, and no session").unwrap()),
    ];
    for (what, spoil) in breaks {
        let (machine, _) = with_session();
        let folder = machine.user.join(".local/share/opencode");
        fs::create_dir_all(&folder).unwrap();
        fs::copy(corpus("foreign/opencode/opencode.db"), folder.join("opencode.db")).unwrap();
        assert_eq!(machine.run(&["keep", "--all"]).code, 0);
        let mut copies = Vec::new();
        each_file(&machine.place.home().join("kept/tree"), &mut |path| {
            copies.push(path.to_owned());
        });
        let whole: Vec<_> = copies.iter().map(|copy| fs::read(copy).unwrap()).collect();
        assert!(copies.len() > 2, "{copies:?}");
        copies.iter().for_each(|copy| spoil(copy));
        let again = machine.run(&["keep", "--all", "--json"]);
        assert_eq!(again.code, 0, "{what}: {again:?}");
        for (copy, whole) in copies.iter().zip(&whole) {
            assert!(fs::read(copy).is_ok_and(|now| now == *whole), "{what}: {}", copy.display());
        }
        let kept = again.json()["kept"].as_array().unwrap().len();
        assert_eq!(kept, copies.len(), "{what}: {again:?}");
    }
}

/// Covers: G3, G15. A copy whose original is gone and that is not what was kept any more: every command that says something of
/// it tells, nothing of it is put back as if it was whole, and what is left can be had.
#[test]
fn a_broken_copy_without_its_original_is_told_and_not_put_back() {
    type Break = fn(&std::path::Path);
    let breaks: [(&str, Break); 3] = [
        ("is damaged", |copy| {
            let mut bytes = fs::read(copy).unwrap();
            let at = bytes.iter().position(u8::is_ascii_lowercase).unwrap();
            bytes[at] ^= 1;
            fs::write(copy, bytes).unwrap();
        }),
        ("holds only", |copy| {
            let bytes = fs::read(copy).unwrap();
            fs::write(copy, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("is gone", |copy| fs::remove_file(copy).unwrap()),
    ];
    for (what, spoil) in breaks {
        let (machine, file) = with_session();
        assert_eq!(machine.run(&["keep", "--all"]).code, 0);
        let copy = machine.place.home().join("kept/tree").join(file.strip_prefix("/").unwrap());
        spoil(&copy);
        let checked = machine.run(&["check", ID]);
        assert!(checked.code == 1 && checked.out.contains("kept-copy"), "{what}: {checked:?}");
        // Named, it is compared byte by byte, and made again.
        assert_eq!(machine.run(&["keep", ID]).code, 0);
        assert_eq!(fs::read(&copy).unwrap(), fs::read(&file).unwrap(), "{what}");
        assert_eq!(machine.run(&["check", ID]).code, 0);
        for version in fs::read_dir(machine.place.home().join("kept")).unwrap() {
            let version = version.unwrap();
            if version.file_name() == "versions" {
                fs::remove_dir_all(version.path()).unwrap();
            }
        }
        spoil(&copy);
        fs::remove_file(&file).unwrap();
        let all = machine.run(&["keep", "--all", "--json"]);
        let trouble = all.json()["trouble"].to_string();
        let is_seen_by_length = what != "is damaged";
        assert_eq!(trouble.contains(what), is_seen_by_length, "{what}: {all:?}");
        assert_eq!(all.code, i32::from(is_seen_by_length), "{what}: {all:?}");
        let checked = machine.run(&["check", "--all"]);
        assert!(checked.code != 0 && checked.out.contains(ID), "{what}: {checked:?}");
        let listed = machine.list(&["--all"]);
        assert_eq!(field(&listed, "id"), [ID], "{what}");
        assert_eq!(listed[0]["copy_gone"], what == "is gone", "{what}");
        let restored = machine.run(&["keep", "--restore", ID]);
        assert!(restored.code == 5 && restored.out.contains(what), "{what}: {restored:?}");
        assert!(restored.out.contains("-o FILE") && !file.exists(), "{what}: {restored:?}");
        let json = machine.run(&["keep", "--restore", ID, "--json"]).json();
        same_shape("keep-restore", &example("keep-restore"), &json);
        assert_eq!(json["files"].as_array().unwrap().last().unwrap()["outcome"], "damaged");
        let mine = machine.user.join("mine.jsonl");
        let left = machine.run(&["keep", "--restore", ID, "-o", &mine.display().to_string()]);
        assert_eq!(left.code, 5, "{what}: {left:?}");
        assert_eq!(fs::read(&mine).ok(), fs::read(&copy).ok(), "{what}: {left:?}");
        if what == "is gone" {
            assert!(machine.out(&["list", "--all"]).contains("original and copy gone"));
            let shown = machine.run(&["show", ID]);
            assert!(shown.code != 0 && shown.out.contains("is gone, too"), "{shown:?}");
            assert_eq!(machine.run(&["prune", "kept", ID, "--yes"]).code, 0);
            assert!(machine.list(&["--all"]).is_empty());
            assert_eq!(machine.run(&["keep", "--all"]).code, 0);
        }
    }
}

/// What is said of a session of a database whose original is gone can be done.
#[test]
fn what_is_advised_for_a_gone_session_of_a_database_works() {
    let machine = Machine::new();
    let folder = machine.user.join(".local/share/opencode");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(corpus("foreign/opencode/opencode.db"), folder.join("opencode.db")).unwrap();
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    fs::remove_dir_all(&folder).unwrap();
    let id = machine.list(&["--all"])[0]["id"].as_str().unwrap().to_owned();
    let launched = machine.run(&["resume", &id, "--print"]);
    assert!(launched.code == 6 && !launched.err.contains("--restore"), "{launched:?}");
    assert!(launched.err.contains("--here") && launched.err.contains("--in"), "{launched:?}");
    let there = machine.run(&["resume", &id, "--in", "claude", "--print", "--yes"]);
    assert_eq!(there.code, 0, "{there:?}");
    let refused = machine.run(&["keep", "--restore", &id]);
    assert!(refused.code == 1 && refused.err.contains("-o FILE"), "{refused:?}");
    let mine = machine.user.join("mine.sqlite").display().to_string();
    assert_eq!(machine.run(&["keep", "--restore", &id, "-o", &mine]).code, 0);
    let tables = "SELECT count(*) FROM session";
    let count: i64 =
        Connection::open(&mine).unwrap().query_row(tables, [], |row| row.get(0)).unwrap();
    assert_eq!(count, 1);
}

/// What its agent moves is not gone, and copies go only when they are named.
#[test]
fn a_moved_session_is_not_gone_and_copies_are_removed_by_name() {
    let machine = Machine::with(CODEX, &["29-late-first-prompt"]);
    assert_eq!(machine.run(&["keep", "--all", "--source", "codex"]).code, 0);
    let archived = machine.user.join(".codex/archived_sessions");
    fs::create_dir_all(&archived).unwrap();
    let name = fs::read_dir(machine.user.join(CODEX)).unwrap().next().unwrap().unwrap();
    fs::rename(name.path(), archived.join(name.file_name())).unwrap();
    let listed = machine.list(&["--all"]);
    assert_eq!(field(&listed, "original_gone"), ["false"]);
    fs::remove_dir_all(machine.user.join(".codex")).unwrap();
    let id = machine.list(&["--all"])[0]["id"].as_str().unwrap().to_owned();
    let all = machine.run(&["prune", "kept", "--yes"]);
    assert!(all.code == 2 && all.err.contains("by name"), "{all:?}");
    assert_eq!(machine.list(&["--all"]).len(), 1);
    let named = machine.run(&["prune", "kept", &id, "--yes"]);
    assert_eq!(named.code, 0, "{named:?}");
    assert!(machine.list(&["--all"]).is_empty());
}

/// Covers: G1. Real processes are killed while they copy; what comes of it is the original, byte for byte.
#[test]
fn killed_runs_leave_what_the_next_one_completes() {
    let (machine, file) = with_session();
    let line = fs::read(&file).unwrap();
    let mut bytes = line.repeat(400);
    for wait in [0, 3, 10, 30, 60, 100] {
        bytes.extend_from_within(..line.len() * 100);
        fs::write(&file, &bytes).unwrap();
        let mut child = machine.place.segno(&["keep", "--all"]).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let done = machine.run(&["keep", "--all"]);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");
    let copy = machine.place.home().join("kept/tree").join(file.strip_prefix("/").unwrap());
    assert!(fs::read(&copy).unwrap() == bytes, "the copy is the original");
    let versions = machine.place.home().join("kept/versions");
    assert!(!versions.exists(), "it only grew");
}

/// Covers: G14, G17, #138. Its agent emptied the file, or wrote less into it, and that was kept since: what it was before is
/// listed with a word, and put back or written elsewhere by it.
#[test]
fn earlier_versions_are_listed_and_put_back_by_their_words() {
    let (machine, file) = with_session();
    let whole = fs::read(&file).unwrap();
    let none = machine.run(&["keep", "--versions", ID]);
    assert_eq!(none.code, 6, "nothing is kept yet: {none:?}");
    assert_eq!(machine.run(&["keep", ID]).code, 0);
    let none = machine.out(&["keep", "--versions", ID]);
    assert!(none.contains("no earlier version"), "{none}");
    for bytes in [&whole[..whole.len() / 2], b""] {
        fs::write(&file, bytes).unwrap();
        assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    }
    for word in [ID.to_owned(), format!("claude:{ID}"), file.display().to_string()] {
        let listed = machine.run(&["keep", "--versions", &word, "--json"]);
        same_shape("keep-versions", &example("keep-versions"), &listed.json());
        let sizes: Vec<_> = listed.json()["sessions"][0]["versions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                (one["version"].as_str().unwrap().to_owned(), one["bytes"].as_u64().unwrap())
            })
            .collect();
        let half = whole.len() as u64 / 2;
        assert_eq!(sizes, [("1".into(), whole.len() as u64), ("2".into(), half)], "{word}");
    }
    let table = machine.out(&["keep", "--versions", ID]);
    assert!(table.contains("VERSION") && table.contains("--version 2"), "{table}");
    // The name is taken by the empty file, which is told with what can be done.
    let taken = machine.run(&["keep", "--restore", ID, "--version", "1"]);
    assert_eq!(taken.code, 10, "{taken:?}");
    assert!(taken.out.contains("Move what is there away") && fs::read(&file).unwrap().is_empty());
    let elsewhere = machine.user.join("mine.jsonl");
    let elsewhere_is = elsewhere.display().to_string();
    let write = ["keep", "--restore", ID, "--version", "1", "-o", &elsewhere_is];
    let written = machine.run(&write);
    assert!(written.code == 0 && written.out.contains("is written"), "{written:?}");
    assert_eq!(fs::read(&elsewhere).unwrap(), whole);
    assert_eq!(machine.run(&write).code, 10, "it is never written over");
    fs::remove_file(&file).unwrap();
    let newest = machine.run(&["keep", "--restore", ID]);
    assert!(newest.code == 0 && newest.out.contains("--versions"), "{newest:?}");
    assert!(newest.out.contains("version 2, as what was kept last holds nothing"), "{newest:?}");
    assert_eq!(fs::read(&file).unwrap(), &whole[..whole.len() / 2]);
    fs::remove_file(&file).unwrap();
    let wrong = machine.run(&["keep", "--restore", ID, "--version", "7"]);
    assert!(wrong.code == 6 && wrong.err.contains("--versions") && !file.exists(), "{wrong:?}");
    let twice = machine.run(&["keep", "--restore", ID, "--version", "1", "--version", "2"]);
    assert!(twice.code == 2 && !file.exists(), "{twice:?}");
    let old = machine.run(&["keep", "--restore", ID, "--version", "1"]);
    assert_eq!((old.code, fs::read(&file).unwrap()), (0, whole), "{old:?}");
}

/// Versions of files that belong to a session have the file's name in their words.
#[test]
fn versions_of_belongings_are_chosen_by_name() {
    let machine = Machine::with(CLAUDE, &["42-subagents-before-fork"]);
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    let mut below = Vec::new();
    each_file(&machine.user.join(CLAUDE), &mut |path| {
        if path.to_string_lossy().contains("/subagents/") {
            below.push(path.to_owned());
        }
    });
    let before: Vec<_> = below.iter().map(|path| fs::read(path).unwrap()).collect();
    for path in &below {
        fs::write(path, "").unwrap();
    }
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    let id = "c0de002a-1111-4111-8111-0000000000a0";
    let listed = machine.run(&["keep", "--versions", id, "--json"]).json();
    let versions = listed["sessions"][0]["versions"].as_array().unwrap().clone();
    assert!(!versions.is_empty(), "{listed}");
    for one in versions {
        let (word, original) =
            (one["version"].as_str().unwrap(), one["original"].as_str().unwrap());
        assert!(word.ends_with(":1"), "{one}");
        fs::remove_file(original).unwrap();
        let restored = machine.run(&["keep", "--restore", id, "--version", word]);
        assert_eq!(restored.code, 0, "{restored:?}");
        let at = below.iter().position(|path| path == std::path::Path::new(original)).unwrap();
        assert_eq!(fs::read(original).unwrap(), before[at], "{word}");
    }
}

/// Covers: G17. Whatever has the name keeps it: the answer is always the refusal with its next step.
#[test]
fn nothing_that_has_the_name_is_replaced_or_read_for_ever() {
    type Put = fn(&std::path::Path);
    let cases: [(&str, Put); 7] = [
        ("a link that leads nowhere", |path| {
            std::os::unix::fs::symlink("/nowhere/at/all", path).unwrap();
        }),
        ("a link to itself", |path| {
            std::os::unix::fs::symlink(path, path).unwrap();
        }),
        ("a folder", |path| {
            fs::create_dir(path).unwrap();
        }),
        ("a pipe", super::strange_files::pipe),
        ("another file", |path| {
            fs::write(path, "else").unwrap();
        }),
        ("an empty file", |path| {
            fs::write(path, "").unwrap();
        }),
        ("a file instead of its folder", |path| {
            fs::remove_dir(path.parent().unwrap()).unwrap();
            fs::write(path.parent().unwrap(), "else").unwrap();
        }),
    ];
    for (what, put) in cases {
        let (machine, file) = with_session();
        assert_eq!(machine.run(&["keep", ID]).code, 0);
        fs::remove_file(&file).unwrap();
        put(&file);
        for word in [ID, &format!("claude:{ID}")] {
            let said = machine.run(&["keep", "--restore", word]);
            assert_eq!(said.code, 10, "{what}: {said:?}");
            assert!(said.out.contains("Move what is there away"), "{what}: {said:?}");
        }
        let is_put_back = fs::metadata(&file).is_ok_and(|meta| meta.is_file() && meta.len() > 4);
        assert!(!is_put_back, "{what}");
    }
}

/// Its agent emptied the file and then deleted it: what is listed, shown, exported and put back is what it was before.
#[test]
fn a_session_that_was_emptied_before_it_went_is_what_it_was() {
    let (machine, file) = with_session();
    let shown = machine.out(&["show", ID]);
    let whole = fs::read(&file).unwrap();
    for bytes in [&whole[..], &[]] {
        fs::write(&file, bytes).unwrap();
        assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    }
    let emptied = machine.out(&["list", "--all"]);
    assert!(emptied.contains("empty, kept") && emptied.contains("1 earlier version"), "{emptied}");
    fs::remove_file(&file).unwrap();
    let listed = machine.list(&["--all"]);
    assert_eq!(field(&listed, "original_gone"), ["true"]);
    assert_eq!(
        (field(&listed, "kept_version"), field(&listed, "id")),
        (vec!["1".into()], vec![ID.into()])
    );
    let copy = machine.out(&["show", ID]);
    assert!(copy.contains("this is version 1 of its copy"), "{copy}");
    let lines: Vec<&str> = copy.lines().filter(|line| !line.contains("has deleted it")).collect();
    assert_eq!(lines, shown.lines().collect::<Vec<_>>());
    assert_eq!(machine.run(&["check", ID]).code, 0);
    assert_eq!(machine.run(&["export", ID]).code, 0);
    // Another run takes no version for an original.
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    let restored = machine.run(&["keep", "--restore", ID, "--json"]).json();
    assert_eq!(
        (&restored["files"][0]["outcome"], &restored["files"][0]["version"]),
        (&"restored".into(), &1.into())
    );
    assert_eq!(fs::read(&file).unwrap(), whole);
}

/// An empty file says no id but its name's: what is kept of it is no other session that is gone.
#[test]
fn a_session_under_another_name_is_not_told_as_lost_when_it_is_kept() {
    let (machine, file) = with_session();
    let odd = file.with_file_name("odd.jsonl");
    fs::rename(&file, &odd).unwrap();
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    fs::write(&odd, "").unwrap();
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    machine.out(&["list", "--all"]);
    fs::remove_file(&odd).unwrap();
    let listed = machine.run(&["list", "--all", "--json"]).json();
    assert_eq!(field(listed["sessions"].as_array().unwrap(), "original_gone"), ["true"]);
    assert!(listed["gone"].as_array().unwrap().is_empty(), "{listed}");
    for word in [ID, "claude:odd"] {
        let restored = machine.run(&["keep", "--restore", word]);
        assert_eq!(restored.code, 0, "{word}: {restored:?}");
    }
}

/// The same where the rows of a session went one by one.
#[test]
fn a_session_whose_rows_went_one_by_one_is_what_it_was() {
    let machine = Machine::new();
    let folder = machine.user.join(".local/share/opencode");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("opencode.db");
    fs::copy(corpus("foreign/opencode/opencode.db"), &path).unwrap();
    let id = machine.list(&["--all"])[0]["id"].as_str().unwrap().to_owned();
    let shown = machine.out(&["show", &id]);
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    let steps = ["DELETE FROM part", "DELETE FROM message", "DELETE FROM session"].map(|step| {
        Connection::open(&path)
            .unwrap()
            .execute_batch(&format!("PRAGMA foreign_keys=OFF; {step}"))
            .unwrap();
        machine.run(&["keep", "--all"]).code
    });
    assert_eq!(steps, [0, 0, 0]);
    let copy = machine.out(&["show", &id]);
    let lines: Vec<&str> = copy.lines().filter(|line| !line.contains("has deleted it")).collect();
    assert_eq!(lines, shown.lines().collect::<Vec<_>>());
    let restored = machine.run(&["keep", "--restore", &id]);
    assert!(restored.code == 1 && restored.err.contains("versions"), "{restored:?}");
}

/// A copy tells when its original was changed, and so does the file that is put back.
#[test]
fn times_are_those_of_the_originals() {
    let (machine, file) = with_session();
    let whole = fs::read(&file).unwrap();
    let at = |seconds| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let write = |bytes: &[u8], seconds| {
        fs::write(&file, bytes).unwrap();
        let opened = fs::File::options().write(true).open(&file).unwrap();
        opened.set_modified(at(seconds)).unwrap();
        assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    };
    // New, grown, and written again.
    let (third, half) = (whole.len() / 3, whole.len() / 2);
    write(&whole[..third], 1_700_000_000);
    write(&whole[..half], 1_700_100_000);
    write(&whole[third..], 1_700_200_000);
    let listed = machine.out(&["keep", "--versions", ID]);
    assert!(listed.contains("2023-11-16 02:00"), "{listed}");
    fs::remove_file(&file).unwrap();
    let modified = || fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(machine.run(&["keep", "--restore", ID, "--version", "1"]).code, 0);
    assert_eq!(modified(), at(1_700_100_000));
    fs::remove_file(&file).unwrap();
    assert_eq!(machine.run(&["keep", "--restore", ID]).code, 0);
    assert_eq!(modified(), at(1_700_200_000));
}

/// Covers: G3. What cannot be looked at is not gone, and a run that could not look has not done all.
#[test]
fn a_place_that_cannot_be_read_fails_the_run_and_makes_no_session_gone() {
    let machine = Machine::new();
    let folder = machine.user.join(".local/share/opencode");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("opencode.db");
    fs::copy(corpus("foreign/opencode/opencode.db"), &path).unwrap();
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(folder.join(format!("opencode.db{suffix}")));
    }
    fs::write(&path, "garbage").unwrap();
    for words in [&["keep", "--all"][..], &["keep", "--all", "--json"]] {
        let said = machine.run(words);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains("opencode.db") || said.out.contains("opencode.db"), "{said:?}");
    }
    let listed = machine.list(&["--all"]);
    assert!(!listed.is_empty());
    for one in &listed {
        let said = (&one["original_gone"], &one["original_unseen"], &one["kept"]);
        assert_eq!(said, (&false.into(), &true.into(), &true.into()), "{one}");
    }
    assert!(machine.out(&["list", "--all"]).contains("original not seen"));
    let id = listed[0]["id"].as_str().unwrap();
    let shown = machine.out(&["show", id]);
    assert!(shown.contains("could not be seen") && !shown.contains("has deleted"), "{shown}");
    let launched = machine.run(&["resume", id, "--print"]);
    assert!(launched.code == 1 && launched.err.contains("--here"), "{launched:?}");
    fs::remove_file(&path).unwrap();
    assert!(machine.out(&["list", "--all"]).contains("original gone"));
}

/// Covers: G16. One that does not fit is told, and keeps no other one from being kept.
#[test]
fn a_session_that_does_not_fit_keeps_no_smaller_one_from_being_kept() {
    let machine = Machine::new();
    let home = machine.place.home();
    let Some(_disk) = SmallDisk::mount(home.clone(), "size=1m") else {
        return skipped("no file system can be mounted here");
    };
    for n in 0..8 {
        let row = serde_json::json!({
            "parentUuid": null, "isSidechain": false, "cwd": "/srv/kiln", "sessionId": "x",
            "version": "2.1.200", "type": "user", "uuid": format!("u{n}"),
            "message": {"role": "user", "content": "x".repeat(if n % 2 == 0 { 2_000_000 } else { 1000 })},
            "timestamp": "2026-03-02T09:00:01.000Z",
        });
        machine.put(
            &format!("{CLAUDE}/c0de000{n}-1111-4111-8111-000000000029.jsonl"),
            &format!("{row}\n"),
        );
    }
    let said = machine.run(&["keep", "--all"]);
    assert_eq!(said.code, 7, "{said:?}");
    assert_eq!(said.err.matches("there is no room for it").count(), 4, "{said:?}");
    let mut kept = 0;
    each_file(&home.join("kept/tree"), &mut |_| kept += 1);
    assert_eq!(kept, 4, "{said:?}");
}

/// Covers: G14. A dash is standard output, as in `export` and `repair`: of what is kept, of a version, of what is left of
/// a damaged copy, and of a database's rows.
#[test]
fn a_dash_is_standard_output() {
    let (machine, file) = with_session();
    let first = fs::read(&file).unwrap();
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    // Written anew, with another beginning.
    let line = first.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let newer = &first[line..];
    fs::write(&file, newer).unwrap();
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    let kept = machine.run(&["keep", "--restore", ID, "-o", "-"]);
    assert_eq!((kept.code, kept.out.as_bytes() == newer), (0, true), "{kept:?}");
    let older = machine.run(&["keep", "--restore", ID, "--version", "1", "-o", "-"]);
    assert_eq!((older.code, older.out.as_bytes() == first), (0, true), "{older:?}");
    let both = machine.run(&["keep", "--restore", ID, "-o", "-", "--json"]);
    assert!(both.code == 2 && both.err.contains("-o FILE"), "{both:?}");
    let mut copies = Vec::new();
    each_file(&machine.place.home().join("kept"), &mut |path| {
        if fs::read(path).unwrap() == newer {
            copies.push(path.to_owned());
        }
    });
    let [copy] = &copies[..] else { panic!("{copies:?}") };
    let rest = &newer[..newer.len() - 9];
    fs::write(copy, rest).unwrap();
    let damaged = machine.run(&["keep", "--restore", ID, "-o", "-"]);
    assert_eq!((damaged.code, damaged.out.as_bytes() == rest), (5, true), "{damaged:?}");
    assert!(damaged.err.contains("its copy"), "{damaged:?}");
    assert!(!machine.place.file("-").exists() && fs::read(&file).unwrap() == newer);
    let (machine, _) = with_session();
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    each_file(&machine.place.home().join("kept"), &mut |path| {
        if fs::read(path).unwrap() == first {
            fs::remove_file(path).unwrap();
        }
    });
    let gone = machine.run(&["keep", "--restore", ID, "-o", "-"]);
    assert!(gone.code == 5 && gone.out.is_empty() && gone.err.contains("its copy"), "{gone:?}");
}
