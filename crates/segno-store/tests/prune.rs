//! Making room: only what nothing refers to, and whole at whatever moment it is cut off.
//!
//! Responsible for: the judge of pruning on the simulated disk. Must not: depend on how many operations it
//! takes.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::erase::blobs_in;
use segno_model::record::{BlobRef, Block, Message, Text, UserMessage};
use segno_model::store::{ForkPoint, SessionLog, SessionStore};
use segno_model::{Body, SessionId};
use segno_store::{Disk as _, FileStore, Item, Kind};
use segno_testkit::sim_disk::SimDisk;
use std::path::Path;
use support::*;

fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    FileStore::new(disk.clone(), "/segno")
}

fn picture(blob: BlobRef) -> Body {
    let content = vec![Block::Image { media_type: "image/png".into(), data: Text::Blob(blob) }];
    Body::Message(Box::new(Message::User(UserMessage { content, ..UserMessage::default() })))
}

fn file(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    for dir in path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
        let _ = disk.create_dir(dir);
        let _ = dir.parent().map(|above| disk.sync_dir(above));
    }
    disk.create_new(path, segno_store::disk::Writes::Sequential).unwrap();
    disk.sync_dir(path.parent().unwrap()).unwrap();
    disk.poke(path, bytes);
}

/// A session with a blob in use and one that nothing refers to, a fork of it, one in the trash, and what
/// killed processes left.
fn home(disk: &SimDisk) {
    let store = store(disk);
    let mut log = store.create(header(1));
    append(&mut log, "hello").unwrap();
    let used = now(log.put_blob(b"in use", "")).unwrap();
    now(log.put_blob(b"of no use", "")).unwrap();
    now(log.append(vec![draft(picture(used))], segno_model::store::Level::Synced)).unwrap();
    drop(log);
    now(store.fork(&id(1), ForkPoint::Whole, header(2), say("").at)).unwrap();
    append(&mut store.create(header(3)), "deleted").unwrap();
    store.trash(&id(3)).unwrap();
    let dir = store.log_path(&id(1)).unwrap().parent().unwrap().to_owned();
    file(disk, &dir.join("set-aside/tail-7-0123456789abcdef"), b"torn");
    file(disk, &dir.join("blobs/.tmp-1-1"), b"half");
    file(disk, &dir.join("actions/abcdefghij/output"), b"never named");
    file(disk, Path::new("/segno/trash/.gone-x/log.jsonl"), b"half deleted");
    file(disk, &dir.parent().unwrap().join(".fork-x-1/log.jsonl"), b"half made");
}

fn kinds(items: &[Item]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = items.iter().map(|item| item.kind).collect();
    kinds.sort();
    kinds
}

/// Every blob that a record names can be read, and every log is what it was.
fn judge(disk: &SimDisk, logs: &[(SessionId, Vec<u8>)], what: &str) {
    let store = store(disk);
    for (id, bytes) in logs {
        let path = store.log_path(id).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(&disk.peek(&path).unwrap(), bytes, "{what}: {id}");
        for record in scan(&store, id) {
            for name in blobs_in(&record.line) {
                let blob = disk.peek(&path.with_file_name("blobs").join(name));
                assert_eq!(blob.as_deref(), Some(b"in use".as_slice()), "{what}: {id}");
            }
        }
    }
    // The trash holds the session whole, or not at all.
    if !store.list_trash().unwrap().is_empty() {
        store.restore(&id(3)).unwrap();
        assert_eq!(texts(&store, &id(3)), ["deleted"], "{what}");
    }
}

fn logs(store: &FileStore<SimDisk>) -> Vec<(SessionId, Vec<u8>)> {
    let read = |n| (id(n), store.disk_bytes(n));
    [1, 2].map(read).to_vec()
}

trait Bytes {
    fn disk_bytes(&self, n: u32) -> Vec<u8>;
}

impl Bytes for FileStore<SimDisk> {
    fn disk_bytes(&self, n: u32) -> Vec<u8> {
        scan(self, &id(n)).iter().flat_map(|r| [&r.line[..], b"\n"].concat()).collect()
    }
}

/// Covers: G1, G2.
#[test]
fn whatever_is_cut_off_nothing_that_is_referred_to_goes() {
    let disk = SimDisk::new(1);
    home(&disk);
    let (items, logs) = (store(&disk).survey_room().unwrap().items, logs(&store(&disk)));
    use Kind::{Blob, Command, Leftover, SetAside, Trash};
    // The fork has a link to the blob of no use, too.
    let all = [Trash, Blob, Blob, Leftover, Leftover, Leftover, SetAside, Command];
    assert_eq!(kinds(&items), all);
    let from = disk.changes();
    let pruned = store(&disk).prune(&items).unwrap();
    assert_eq!((pruned.gone.len(), pruned.left), (all.len(), Vec::new()));
    assert_eq!(store(&disk).survey_room().unwrap().items, []);
    for n in 0..=disk.changes() - from {
        let disk = SimDisk::new(n);
        home(&disk);
        disk.stop_before_change(n);
        let _ = store(&disk).prune(&items);
        let states = disk.crash_states();
        let lost = states.sample(10, n).map(|state| states.nth(state)).chain([disk.kill_copy()]);
        for (i, disk) in lost.enumerate() {
            let what = format!("change {n}, state {i}");
            judge(&disk, &logs, &what);
            let again = store(&disk).survey_room().unwrap().items;
            store(&disk).prune(&again).unwrap();
            assert_eq!(store(&disk).survey_room().unwrap().items, [], "{what}");
            judge(&disk, &logs, &what);
        }
    }
}

/// Covers: G5. What somebody works on is left alone, and what came into use since it was shown.
#[test]
fn nothing_is_taken_from_a_session_that_somebody_works_on() {
    let disk = SimDisk::new(1);
    home(&disk);
    let store = store(&disk);
    let items: Vec<Item> = store.survey_room().unwrap().items;
    let mine: Vec<Item> = items.into_iter().filter(|i| i.session == Some(id(1))).collect();
    let mut log = open(&store, &id(1)).unwrap().log;
    let survey = store.survey_room().unwrap();
    assert_eq!(survey.left_out, [(id(1), "a process works on it".to_owned())]);
    assert!(survey.items.iter().all(|item| item.session != Some(id(1))));
    let pruned = store.prune(&mine).unwrap();
    assert_eq!((pruned.gone.len(), pruned.left.len()), (0, mine.len()));
    // The blob is used after all.
    let blob = now(log.put_blob(b"of no use", "")).unwrap();
    now(log.append(vec![draft(picture(blob.clone()))], segno_model::store::Level::Synced)).unwrap();
    drop(log);
    let pruned = store.prune(&mine).unwrap();
    let left: Vec<Kind> = pruned.left.iter().map(|(item, _)| item.kind).collect();
    // The append swept the file without a name.
    assert_eq!(left, [Kind::Blob, Kind::Leftover], "{pruned:?}");
    assert_eq!(now(store.blob(&id(1), &blob)).unwrap(), b"of no use");
}

/// Covers: G3. A log of which a part is lost may have named any blob, and a line that cannot be read names
/// what it names.
#[test]
fn damage_keeps_every_blob() {
    let disk = SimDisk::new(1);
    home(&disk);
    let store = store(&disk);
    let path = store.log_path(&id(1)).unwrap();
    let bytes = disk.peek(&path).unwrap();
    let end = bytes.len();
    // Damage within the part that is known to be durable.
    let at = bytes.iter().position(|b| *b == b'\n').unwrap() + 20;
    let mut damaged = bytes.clone();
    damaged[at..at + 30].fill(0);
    for bytes in [&damaged, &bytes[..end - 20].to_vec()] {
        disk.poke(&path, bytes);
        let survey = store.survey_room().unwrap();
        let own = survey.items.iter().filter(|i| i.session == Some(id(1)) && i.kind == Kind::Blob);
        let named: Vec<_> = own.collect();
        let used = segno_model::sha256_hex(b"in use");
        assert!(named.iter().all(|item| !item.name.contains(&used)), "{named:?}");
        if bytes == &damaged {
            assert!(
                named.is_empty() && survey.left_out[0].1.contains("may have named"),
                "{survey:?}"
            );
        }
    }
}
