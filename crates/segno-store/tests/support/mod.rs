//! What the store's tests share.
//!
//! Responsible for: a store on a simulated disk or a temporary directory, and short ways to write and
//! read sessions. Must not: assert.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared by test files, each with its own part"
)]

use segno_model::batch::Draft;
use segno_model::record::{BlobRef, Header, Message};
use segno_model::store::{
    HeldSession, Judged, Level, Opened, SessionLog, SessionStore, StoreError,
};
use segno_model::{Body, Record, SessionId, Timestamp};
use segno_store::{Disk, FileLog, FileStore};
use segno_testkit::sessions;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs a future that never waits; the file store's do not.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the file store never waits"),
    }
}

pub(crate) fn id(n: u32) -> SessionId {
    SessionId::parse(&format!("0199{n:04x}-0000-7000-8000-{n:012x}")).unwrap()
}

pub(crate) fn header(n: u32) -> Header {
    sessions::header(id(n))
}

pub(crate) fn draft(body: Body) -> Draft {
    Draft::new(Timestamp(1_764_450_000_000), body)
}

/// A user message.
pub(crate) fn say(text: &str) -> Draft {
    draft(sessions::prompt(text))
}

pub(crate) fn append<D: Disk>(log: &mut FileLog<D>, text: &str) -> Result<Vec<Record>, StoreError> {
    now(log.append(vec![say(text)], Level::Synced))
}

/// Opens and judges; a damaged session is an error here.
pub(crate) fn open<D: Disk>(
    store: &FileStore<D>,
    id: &SessionId,
) -> Result<Opened<FileLog<D>>, StoreError> {
    match now(now(store.open(id))?.judge())? {
        Judged::Sound(opened) => Ok(opened),
        Judged::Damaged(_) => Err(StoreError::Refused("it is damaged".to_owned())),
    }
}

/// All records by scan.
pub(crate) fn scan<D: Disk>(store: &FileStore<D>, id: &SessionId) -> Vec<Record> {
    let mut records = Vec::new();
    now(store.scan(id, &mut |item| {
        if let segno_model::store::Scanned::Record(record) = item {
            records.push(*record);
        }
        true
    }))
    .unwrap();
    records
}

/// The texts of all user messages, in the order of the log.
pub(crate) fn texts<D: Disk>(store: &FileStore<D>, id: &SessionId) -> Vec<String> {
    let all = scan(store, id);
    let users = all
        .iter()
        .filter(|r| matches!(r.body(), Body::Message(m) if matches!(**m, Message::User(_))));
    users.map(sessions::text_of).collect()
}

pub(crate) fn blob_ref(bytes: &[u8]) -> BlobRef {
    let blob = segno_model::id::sha256_hex(bytes);
    BlobRef { blob, bytes: bytes.len() as u64, head: String::new() }
}
