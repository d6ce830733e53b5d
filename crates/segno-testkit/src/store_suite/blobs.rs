//! Cases about large values outside the log.
//!
//! Responsible for: blobs. Must not: depend on an implementation.

use super::desk::Desk;
use super::{Ability, Bench, cases};
use crate::sessions::{answer, prompt, text_of};
use segno_model::Body;
use segno_model::id::sha256_hex;
use segno_model::record::{BlobRef, Block, Message, Text, UserMessage};
use segno_model::store::{SessionLog, SessionStore};

cases! { "blobs":
    /// A blob comes back byte for byte, to its writer and to everybody else. Covers: G1, G13.
    a_blob_comes_back;
    /// A reference holds the hash, the size and the given head. Covers: G12.
    a_reference_says_what_it_names;
    /// The same bytes twice are one blob. Covers: G12.
    the_same_bytes_are_one_blob;
    /// An empty blob is a blob. Covers: G13.
    an_empty_blob_works;
    /// A blob of several megabytes comes back whole. Covers: G13.
    a_large_blob_works;
    /// Every byte value survives. Covers: G13.
    every_byte_survives;
    /// A missing blob is an error, and so is one that was never stored. Covers: G3.
    a_missing_blob_is_an_error;
    /// A damaged, cut or lengthened blob is an error, never handed out. Covers: G3.
    a_damaged_blob_is_never_handed_out;
    /// Storing the same bytes again heals a damaged blob. Covers: G1, G3.
    storing_again_heals;
    /// A stored blob survives power loss. Covers: G1.
    a_blob_survives_a_crash;
    /// A message whose text is a blob reads back with its reference and its head. Covers: G13.
    a_text_can_live_in_a_blob;
    /// A damaged blob keeps nobody from opening the session. Covers: G3, G4.
    a_damaged_blob_blocks_nobody;
    /// A name that is no hash reaches no other file. Covers: G17.
    a_blobs_name_is_no_path;
    /// A blob that was stored before the first append is there after it, and lists no session before.
    /// Covers: MS1, G12.
    a_blob_before_the_first_append;
    /// One session's blobs are not another's. Covers: G17.
    blobs_belong_to_their_session;
}

async fn stored<H: Bench>(desk: &Desk<H>, bytes: &[u8]) -> (segno_model::SessionId, BlobRef) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let blob = log.put_blob(bytes, "").await.expect("it is stored");
    assert_eq!(log.blob(&blob).await.expect("its writer has it"), bytes);
    (id, blob)
}

async fn comes_back<H: Bench>(desk: &Desk<H>, bytes: &[u8]) {
    let (id, blob) = stored(desk, bytes).await;
    assert_eq!(blob.blob, sha256_hex(bytes));
    assert_eq!(blob.bytes, bytes.len() as u64);
    let back = desk.bench.elsewhere().blob(&id, &blob).await.expect("everybody has it");
    assert!(back == bytes, "{} bytes came back as other {}", bytes.len(), back.len());
    let opened = desk.open(&id).await;
    assert!(opened.log.blob(&blob).await.expect("the next writer has it") == bytes);
}

async fn a_blob_comes_back<H: Bench>(desk: Desk<H>) {
    comes_back(&desk, b"a long output\nof two lines").await;
}

async fn a_reference_says_what_it_names<H: Bench>(desk: Desk<H>) {
    let (_, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let blob = log.put_blob("日本語".as_bytes(), "日本").await.expect("it is stored");
    let head = "日本".to_owned();
    assert_eq!(blob, BlobRef { blob: sha256_hex("日本語".as_bytes()), bytes: 9, head });
}

async fn the_same_bytes_are_one_blob<H: Bench>(desk: Desk<H>) {
    let (_, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let first = log.put_blob(b"same", "one").await.expect("it is stored");
    let second = log.put_blob(b"same", "two").await.expect("it is stored again");
    assert_eq!(first.blob, second.blob);
    assert_eq!((first.head.as_str(), second.head.as_str()), ("one", "two"));
    assert_eq!(log.blob(&first).await.expect("it is there"), b"same");
    assert_eq!(log.blob(&second).await.expect("it is there"), b"same");
}

async fn an_empty_blob_works<H: Bench>(desk: Desk<H>) {
    comes_back(&desk, b"").await;
}

async fn a_large_blob_works<H: Bench>(desk: Desk<H>) {
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    comes_back(&desk, &bytes).await;
}

async fn every_byte_survives<H: Bench>(desk: Desk<H>) {
    comes_back(&desk, &(0..=255).collect::<Vec<u8>>()).await;
}

async fn a_missing_blob_is_an_error<H: Bench>(desk: Desk<H>) {
    let (id, blob) = stored(&desk, b"here").await;
    let never = BlobRef { blob: sha256_hex(b"never stored"), bytes: 12, head: String::new() };
    assert!(desk.bench.store().blob(&id, &never).await.is_err());
    assert!(desk.open(&id).await.log.blob(&never).await.is_err());
    if desk.can(Ability::Bytes) {
        desk.bench.set_blob(&id, &blob, None);
        assert!(desk.bench.store().blob(&id, &blob).await.is_err());
    }
}

async fn a_damaged_blob_is_never_handed_out<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let (id, blob) = stored(&desk, b"0123456789").await;
    for bad in [&b"0123456780"[..], b"012345678", b"01234567890", b""] {
        desk.bench.set_blob(&id, &blob, Some(bad));
        let got = desk.bench.elsewhere().blob(&id, &blob).await;
        assert!(got.is_err(), "{bad:?} was handed out as {got:?}");
        assert!(desk.open(&id).await.log.blob(&blob).await.is_err());
    }
}

async fn storing_again_heals<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let (id, blob) = stored(&desk, b"0123456789").await;
    for bad in [Some(&b"torn"[..]), Some(b""), None] {
        desk.bench.set_blob(&id, &blob, bad);
        let mut opened = desk.open(&id).await;
        let again = opened.log.put_blob(b"0123456789", "").await.expect("it is stored");
        assert_eq!(again, blob);
        assert_eq!(opened.log.blob(&blob).await.expect("it is whole"), b"0123456789");
    }
}

async fn a_blob_survives_a_crash<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    let (id, blob) = stored(&desk, b"precious").await;
    desk.bench.crash(0);
    assert_eq!(desk.bench.elsewhere().blob(&id, &blob).await.expect("it is there"), b"precious");
}

async fn a_text_can_live_in_a_blob<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let long = "long ".repeat(20_000);
    let blob = log.put_blob(long.as_bytes(), "long long").await.expect("it is stored");
    let content = vec![Block::Text { text: Text::Blob(blob.clone()) }];
    let user = Message::User(UserMessage { content, ..UserMessage::default() });
    desk.put(&mut log, vec![Body::Message(Box::new(user))]).await;
    let record = desk.scan(&id).await.records.pop().expect("a record");
    assert_eq!(text_of(&record), "long long");
    let back = desk.bench.elsewhere().blob(&id, &blob).await.expect("it is there");
    assert!(back == long.as_bytes());
}

async fn a_damaged_blob_blocks_nobody<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let (id, blob) = stored(&desk, b"0123456789").await;
    desk.bench.set_blob(&id, &blob, Some(b"damaged"));
    let mut opened = desk.open(&id).await;
    desk.put(&mut opened.log, vec![answer("b")]).await;
    assert_eq!(desk.scan(&id).await.texts(), ["a", "b"]);
}

async fn a_blobs_name_is_no_path<H: Bench>(desk: Desk<H>) {
    let (id, _) = stored(&desk, b"x").await;
    let length = desk.bytes(&id).len() as u64;
    for name in ["../log.jsonl", "../../log.jsonl", "/etc/passwd", "", ".", "log.jsonl", "A\0B"] {
        let blob = BlobRef { blob: name.into(), bytes: length, head: String::new() };
        assert!(desk.bench.store().blob(&id, &blob).await.is_err(), "{name:?} was read");
    }
}

async fn a_blob_before_the_first_append<H: Bench>(desk: Desk<H>) {
    let (id, mut log) = desk.unborn();
    let blob = log.put_blob(b"an image", "").await.expect("it is stored");
    assert!(desk.bench.log(&id).is_none());
    assert!(desk.bench.elsewhere().list().await.expect("lists").is_empty());
    desk.put(&mut log, vec![prompt("look at this")]).await;
    assert_eq!(log.blob(&blob).await.expect("it is there"), b"an image");
    drop(log);
    assert_eq!(desk.open(&id).await.log.blob(&blob).await.expect("it is there"), b"an image");
}

async fn blobs_belong_to_their_session<H: Bench>(desk: Desk<H>) {
    let (_, blob) = stored(&desk, b"mine").await;
    let (other, _) = desk.closed(vec![prompt("b")]).await;
    assert!(desk.bench.store().blob(&other, &blob).await.is_err());
}
