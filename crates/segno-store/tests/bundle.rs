//! A tree in one file, and back: whole, cut, bent, and killed at any moment.
//!
//! Responsible for: that every byte comes back, that damage is told with its byte, and that no kill leaves what
//! the same file does not mend. Must not: wait for anything.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::child::child_id;
use segno_model::record::{Header, Origin, OriginKind};
use segno_model::store::{SessionLog as _, SessionStore as _};
use segno_model::{SessionId, Timestamp};
use segno_store::{BundleError, FileStore, Inventory, Unpacked, Whole};
use segno_testkit::sessions;
use segno_testkit::sim_disk::SimDisk;
use std::io::Cursor;
use support::*;

const AT: Timestamp = Timestamp(1_764_450_000_000);

fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    FileStore::new(disk.clone(), "/segno")
}

fn child() -> SessionId {
    child_id(&id(1), 4, 0)
}

/// A session with a large value and a child that has one too.
fn family(disk: &SimDisk) {
    let store = store(disk);
    let mut log = store.create(header(1));
    append(&mut log, "one").unwrap();
    now(log.put_blob(b"a large value", "")).unwrap();
    append(&mut log, "two").unwrap();
    let kind = OriginKind::Child;
    let origin = Some(Origin { kind, of: id(1).to_string(), up_to: Some(4), parent: None });
    let launch = serde_json::json!({"parent": id(1), "child": child(), "intent": "4.0"});
    let header = Header { origin, launch: Some(launch), ..sessions::header(child()) };
    let mut log = store.create(header);
    append(&mut log, "look").unwrap();
    now(log.put_blob(b"seen", "")).unwrap();
}

fn packed(disk: &SimDisk, of: &SessionId) -> Vec<u8> {
    let mut file = Vec::new();
    store(disk).pack(of, &mut file).unwrap();
    file
}

fn inspect(disk: &SimDisk, file: &[u8]) -> Result<Inventory, BundleError> {
    store(disk).inspect(&mut Cursor::new(file))
}

fn unpack(disk: &SimDisk, file: &[u8]) -> Result<Unpacked, BundleError> {
    let inventory = inspect(disk, file)?;
    store(disk).unpack(&mut Cursor::new(file), &inventory, AT)
}

fn bytes(disk: &SimDisk, of: &SessionId) -> Vec<u8> {
    disk.peek(&store(disk).log_path(of).unwrap()).unwrap()
}

/// The ids here, and which of them were known.
fn ids(unpacked: &Unpacked) -> Vec<(SessionId, bool)> {
    unpacked.sessions.iter().map(|taken| (taken.id.clone(), taken.known)).collect()
}

fn children(disk: &SimDisk, of: &SessionId) -> Vec<SessionId> {
    store(disk).children_now(of).unwrap().into_iter().map(|child| child.id).collect()
}

/// Everything of a tree is at another place as it was, and the same file adds nothing. Covers: #145.
#[test]
fn a_tree_comes_back_byte_for_byte() {
    let (here, there) = (SimDisk::new(1), SimDisk::new(2));
    family(&here);
    let file = packed(&here, &id(1));
    let first = unpack(&there, &file).unwrap();
    assert_eq!((ids(&first), first.blobs), (vec![(id(1), false), (child(), false)], 2));
    for session in [id(1), child()] {
        assert_eq!(bytes(&there, &session), bytes(&here, &session));
    }
    assert_eq!(children(&there, &id(1)), [child()]);
    assert_eq!(packed(&there, &id(1)), file, "what was brought in is exported the same");
    let again = unpack(&there, &file).unwrap();
    assert_eq!((ids(&again), again.blobs), (vec![(id(1), true), (child(), true)], 0));
    // Whoever went on with it is not undone.
    append(&mut open(&store(&there), &id(1)).unwrap().log, "three").unwrap();
    assert_eq!(ids(&unpack(&there, &file).unwrap()), [(id(1), true), (child(), true)]);
    assert_eq!(texts(&store(&there), &id(1)), ["one", "two", "three"]);
}

/// Where other sessions have the ids, copies come in under new ones, child below parent, and always the same.
/// Covers: #145.
#[test]
fn a_taken_id_makes_a_copy() {
    let (here, there) = (SimDisk::new(1), SimDisk::new(2));
    family(&here);
    unpack(&there, &packed(&here, &id(1))).unwrap();
    for (disk, word) in [(&here, "here"), (&there, "there")] {
        append(&mut open(&store(disk), &id(1)).unwrap().log, word).unwrap();
        append(&mut open(&store(disk), &child()).unwrap().log, word).unwrap();
    }
    let before = (bytes(&there, &id(1)), bytes(&there, &child()));
    let file = packed(&here, &id(1));
    let copied = unpack(&there, &file).unwrap();
    let [(parent, false), (below, false)] = &ids(&copied)[..] else { panic!("{copied:?}") };
    assert!(*parent != id(1) && *below != child(), "{copied:?}");
    assert_eq!((bytes(&there, &id(1)), bytes(&there, &child())), before, "nothing is overwritten");
    assert_eq!(children(&there, parent), std::slice::from_ref(below));
    assert_eq!(texts(&store(&there), parent), ["one", "two", "here"]);
    assert_eq!(texts(&store(&there), below), ["look", "here"]);
    let header = now(store(&there).read(below)).unwrap().header;
    assert_eq!(segno_model::child::parent_of(&header), Some(parent.clone()));
    let header = now(store(&there).read(parent)).unwrap().header;
    assert_eq!(header.origin.map(|origin| origin.of), Some(id(1).to_string()));
    assert!(open(&store(&there), parent).is_ok() && open(&store(&there), below).is_ok());
    let again = unpack(&there, &file).unwrap();
    // What is below it is known, too.
    assert_eq!((again.sessions.len(), again.blobs), (2, 0));
    let all = now(store(&there).list()).unwrap().len();
    assert_eq!((all, children(&there, parent).len()), (2, 1), "{again:?}");
}

/// Cut anywhere, bent anywhere: it is told with a byte, and what is taken of it opens. Covers: #145, G4.
#[test]
fn damage_is_told_and_what_is_whole_is_taken() {
    let here = SimDisk::new(1);
    family(&here);
    let file = packed(&here, &id(1));
    assert_eq!(inspect(&here, &file).unwrap().broken, None);
    for more in [file.clone(), b"x".to_vec()] {
        let broken = inspect(&here, &[file.clone(), more].concat()).unwrap().broken.unwrap();
        assert_eq!(broken.offset, file.len() as u64);
        assert!(broken.reason.contains("follows the last part"), "{broken:?}");
    }
    for cut in 0..file.len() {
        let there = SimDisk::new(2);
        let Ok(inventory) = inspect(&there, &file[..cut]) else {
            assert!(cut < 120, "byte {cut}: only the first line has to be there");
            continue;
        };
        let broken = inventory.broken.clone().unwrap_or_else(|| panic!("byte {cut} is missed"));
        assert!(broken.offset <= cut as u64, "byte {cut}: {broken:?}");
        for taken in unpack(&there, &file[..cut]).unwrap().sessions {
            let there = bytes(&there, &taken.id);
            assert!(bytes(&here, &taken.id).starts_with(&there), "byte {cut}");
        }
        for session in now(store(&there).list()).unwrap() {
            open(&store(&there), &session.id).unwrap_or_else(|e| panic!("byte {cut}: {e}"));
        }
    }
    for at in (0..file.len()).step_by(3) {
        let mut bent = file.clone();
        bent[at] ^= 4;
        let there = SimDisk::new(2);
        let Ok(inventory) = inspect(&there, &bent) else { continue };
        let broken = inventory.broken.clone().unwrap_or_else(|| panic!("byte {at} is missed"));
        assert!(broken.offset <= at as u64, "byte {at}: {broken:?}");
        let altered = inventory.sessions().any(|(_, whole, _)| whole == Whole::Altered);
        unpack(&there, &bent).unwrap_or_else(|e| panic!("byte {at}, {altered}: {e}"));
        for session in now(store(&there).list()).unwrap() {
            let read = now(store(&there).read(&session.id));
            assert!(read.is_ok(), "byte {at}: {read:?}");
        }
    }
}

/// Killed and without power at any moment: nothing half is seen, and the same file brings the rest. Covers: #145,
/// G1.
#[test]
fn a_kill_at_any_moment_is_mended_by_the_same_file() {
    let here = SimDisk::new(1);
    family(&here);
    let file = packed(&here, &id(1));
    let mut halves = 0;
    for n in 0.. {
        let disk = SimDisk::new(3);
        disk.stop_after(n);
        let over = unpack(&disk, &file).is_ok();
        for disk in [disk.kill(), disk.crash()] {
            for session in now(store(&disk).list()).unwrap() {
                assert_eq!(bytes(&disk, &session.id), bytes(&here, &session.id), "operation {n}");
                halves += usize::from(children(&disk, &session.id).is_empty());
            }
            unpack(&disk, &file).unwrap_or_else(|e| panic!("operation {n}: {e}"));
            assert_eq!(packed(&disk, &id(1)), file, "operation {n}");
            let left = store(&disk).survey_room().unwrap().items;
            assert!(!left.iter().any(|item| item.name.contains(".fork-")), "{n}: {left:?}");
        }
        if over {
            break;
        }
    }
    assert!(halves > 5, "only {halves} kills came between parent and child");
}

/// What a killed copy of a child leaves is shown, and removed when that is asked for.
#[test]
fn a_half_made_child_is_shown_and_removed() {
    let here = SimDisk::new(1);
    family(&here);
    let file = packed(&here, &id(1));
    let mut shown = 0;
    for n in 40..200 {
        let disk = SimDisk::new(3);
        disk.stop_after(n);
        let over = unpack(&disk, &file).is_ok();
        let disk = disk.kill();
        let items = store(&disk).survey_room().unwrap().items;
        let half = |item: &&segno_store::Item| item.name.contains("/children/.fork-");
        let halves: Vec<_> = items.iter().filter(half).cloned().collect();
        shown += halves.len();
        let gone = store(&disk).prune(&halves).unwrap().gone;
        assert_eq!(gone, halves, "operation {n}");
        if over {
            break;
        }
    }
    assert!(shown > 5, "only {shown} were left");
}

/// What is none of these, or of a later version, is refused before anything is made.
#[test]
fn what_is_no_tree_is_refused() {
    let disk = SimDisk::new(1);
    let newer =
        segno_model::bundle::Part { major: Some(9), ..segno_model::bundle::Part::bundle(&id(1)) };
    for file in [&b""[..], b"{\"seq\":0}\n", b"\x00\xff\n", &[b'x'; 9000]] {
        assert!(matches!(inspect(&disk, file), Err(BundleError::NotOne { .. })));
    }
    assert!(matches!(inspect(&disk, &newer.line()), Err(BundleError::Newer(9))));
    assert!(now(store(&disk).list()).unwrap().is_empty());
}
