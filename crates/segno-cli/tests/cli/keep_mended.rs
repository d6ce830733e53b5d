//! `segno keep` where its index is damaged or lost, and where what it should copy is no session.

use super::machine::{CLAUDE, Machine, corpus, field};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const ID: &str = "c0de0029-1111-4111-8111-000000000029";

/// A session in a file and some in a database, all kept.
fn kept() -> (Machine, PathBuf) {
    let machine = Machine::with(CLAUDE, &["41-secrets-and-modes/session"]);
    let file = machine.user.join(CLAUDE).join(format!("{ID}.jsonl"));
    let folder = machine.user.join(".local/share/opencode");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(corpus("foreign/opencode/opencode.db"), folder.join("opencode.db")).unwrap();
    assert_eq!(machine.run(&["keep", "--all"]).code, 0);
    (machine, file)
}

/// Covers: G3. Whatever happens to the index, sessions whose originals are gone are listed, and a damaged line is told once
/// it is found and not for ever.
#[test]
fn a_damaged_or_lost_index_hides_no_session_whose_original_is_gone() {
    type Break = fn(&Path);
    let breaks: [(&str, Break, bool); 3] = [
        (
            "damaged",
            |index| {
                // One byte within each line about a session.
                let text = fs::read_to_string(index).unwrap();
                fs::write(index, text.replace("\"session\"", "\"sessiom\"")).unwrap();
            },
            true,
        ),
        (
            "torn",
            |index| {
                let bytes = fs::read(index).unwrap();
                fs::write(index, &bytes[..bytes.len() - 3]).unwrap();
            },
            false,
        ),
        ("deleted", |index| fs::remove_file(index).unwrap(), false),
    ];
    for (what, spoil, is_told) in breaks {
        let (machine, file) = kept();
        let mut before = field(&machine.list(&["--all"]), "id");
        before.sort();
        fs::remove_file(&file).unwrap();
        fs::remove_dir_all(machine.user.join(".local")).unwrap();
        let index = machine.place.home().join("kept/index.jsonl");
        spoil(&index);
        let sorted = |machine: &Machine| {
            let listed = machine.list(&["--all"]);
            assert!(listed.iter().all(|one| one["original_gone"] == true), "{what}: {listed:?}");
            let mut ids = field(&listed, "id");
            ids.sort();
            ids
        };
        assert_eq!(sorted(&machine), before, "{what}");
        assert_eq!(machine.run(&["show", ID]).code, 0, "{what}");
        let listed = machine.run(&["list", "--all"]);
        assert_eq!(
            (listed.out.clone() + &listed.err).contains("index.jsonl: line"),
            is_told,
            "{what}: {listed:?}"
        );
        let checked = machine.run(&["check", "--all"]);
        assert_eq!(checked.out.contains("index.jsonl: line"), is_told, "{what}: {checked:?}");
        let told = machine.run(&["keep", "--all"]);
        assert_eq!(told.code, i32::from(is_told), "{what}: {told:?}");
        assert_eq!(told.err.contains("index.jsonl: line"), is_told, "{what}: {told:?}");
        assert_eq!(index.with_extension("damaged.jsonl").exists(), is_told, "{what}");
        // It is mended: nothing is said any more, and all is there.
        let again = machine.run(&["keep", "--all"]);
        assert_eq!((again.code, again.err.as_str()), (0, ""), "{what}");
        assert_eq!(sorted(&machine), before, "{what}");
        assert_eq!(machine.run(&["keep", "--restore", ID]).code, 0, "{what}");
        assert!(file.exists(), "{what}");
    }
}

/// What cannot be kept by its name is told.
#[test]
fn a_file_whose_name_is_no_utf8_is_told() {
    let (machine, file) = kept();
    let odd = file.with_file_name(std::ffi::OsStr::from_bytes(b"od\xffd.jsonl"));
    fs::copy(&file, &odd).unwrap();
    let said = machine.run(&["keep", "--all"]);
    assert!(said.code == 1 && said.err.contains("no UTF-8"), "{said:?}");
    assert_eq!(machine.run(&["keep", ID]).code, 0, "another session is not concerned");
}

/// What stands in the place of a kept session and is none is told, and takes nothing away.
#[test]
fn what_is_no_session_any_more_is_told_and_takes_nothing_away() {
    type Put = fn(&Path);
    let puts: [(&str, Put); 3] = [
        ("a folder", |path| fs::create_dir(path).unwrap()),
        ("no file", super::strange_files::pipe),
        ("no session any more", |path| {
            let elsewhere = path.with_file_name("passwd");
            fs::write(&elsewhere, "root:x:0:0:root:/root:/bin/sh\n".repeat(20)).unwrap();
            std::os::unix::fs::symlink(elsewhere, path).unwrap();
        }),
    ];
    for (what, put) in puts {
        let (machine, file) = kept();
        let whole = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        put(&file);
        let said = machine.run(&["keep", "--all"]);
        assert!(said.code == 1 && said.err.contains(what), "{what}: {said:?}");
        fs::remove_dir(&file).or_else(|_| fs::remove_file(&file)).unwrap();
        assert_eq!(machine.run(&["keep", "--restore", ID]).code, 0, "{what}");
        assert_eq!(fs::read(&file).unwrap(), whole, "{what}");
    }
}
