//! Cases about reading without the writer's right, and about what other versions wrote.
//!
//! Responsible for: read and scan. Must not: depend on an implementation.

use super::desk::{All, Desk, in_force, texts};
use super::{Ability, Bench, cases};
use crate::sessions::{Shape, answer, call, prompt, reply, summary, text_of};
use segno_model::line::{checksum, decode};
use segno_model::record::{Block, Message, Tip};
use segno_model::store::{ForkPoint, Level, Scanned, SessionLog, SessionStore, StoreError};
use segno_model::{Body, SessionId};

cases! { "reading":
    /// A session can be read while somebody writes it, and shows what is written so far. Covers: G5, #126.
    a_reader_sees_what_is_written;
    /// A snapshot's state is the writer's after every batch. Covers: ST2, G10.
    a_snapshot_has_the_writers_state;
    /// A snapshot has the writer's context after every batch. Covers: ST2, G10.
    a_snapshot_has_the_writers_context;
    /// A scan gives every record once, in the order of the log. Covers: ST2, G3.
    a_scan_gives_everything_in_order;
    /// A scan ends when the visitor has seen enough. Covers: G3.
    a_scan_can_be_ended;
    /// A scan shows what a compaction and a moved tip left behind. Covers: ST17, MG7.
    a_scan_shows_what_was_left;
    /// What is not there is an error, for reading and for scanning. Covers: MG10.
    reading_nothing_is_an_error;
    /// Reading and scanning change no byte. Covers: G12.
    reading_changes_nothing;
    /// A record of an unknown type is kept byte for byte through reading, opening and appending.
    /// Covers: G13, #131.
    unknown_types_are_kept;
    /// Unknown members of known types are kept byte for byte. Covers: G13, #131.
    unknown_members_are_kept;
    /// A known type of an unexpected shape is opaque, and only it. Covers: G13, #130, #131.
    unexpected_shapes_are_opaque;
    /// An unknown kind of block leaves the message readable. Covers: G13, #130.
    unknown_blocks_are_skipped;
    /// A header without the optional members is read, and stays as it is. Covers: G13, #132.
    a_sparse_header_is_read;
    /// A session of a newer major version can be read but not written. Covers: G13.
    a_newer_major_version_is_read_only;
    /// A header whose shape is unknown is read-only, and tells its version when it can. Covers: G13, #131.
    an_unknown_header_is_read_only;
    /// A session of a newer minor version can be written. Covers: G13.
    a_newer_minor_version_is_written;
    /// White space that editors leave is noted, and no record is lost. Covers: G3.
    editors_white_space_costs_nothing;
    /// A lone surrogate or broken UTF-8 in a text keeps no record from being read. Covers: G3, G13.
    broken_text_is_read;
    /// A generated session reads the same by scan, by snapshot and by opening. Covers: ST2, G10.
    all_ways_of_reading_agree;
}

/// Closes a hand-written line, given without its last brace, with its checksum.
pub(super) fn sealed(open: &str) -> Vec<u8> {
    let mut line = open.as_bytes().to_vec();
    let crc = checksum(&line);
    line.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
    line
}

async fn a_reader_sees_what_is_written<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("0")]).await;
    for n in 1..5 {
        desk.write(&mut log, vec![prompt(&n.to_string())]).await;
        let seen = texts(&desk.read(&id).await.active.records);
        assert_eq!(seen.len(), n + 1);
        assert_eq!(desk.scan(&id).await.texts(), seen);
    }
}

async fn a_snapshot_has_the_writers_state<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let node = desk.put(&mut log, vec![reply("b", &[call("call-1")])]).await[0].pos();
    for body in crate::sessions::every_kind(node) {
        desk.write(&mut log, vec![body]).await;
        assert_eq!(in_force(&desk.read(&id).await.state), in_force(log.state()));
    }
}

async fn a_snapshot_has_the_writers_context<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = desk.begun(vec![prompt("a"), answer("b")]).await;
    let done = summary("sum", Some(nodes[1].pos()), Vec::new());
    let batches = [
        vec![prompt("c")],
        vec![done],
        vec![prompt("d"), answer("e")],
        vec![Body::Tip(Tip { tip: Some(nodes[0].pos()) })],
    ];
    for batch in batches {
        desk.write(&mut log, batch).await;
        let snapshot = desk.read(&id).await;
        let seen = super::desk::context_of(&snapshot.active, &snapshot.state);
        assert_eq!(seen, desk.context_at(&log, log.state().tip()).await);
    }
}

async fn a_scan_gives_everything_in_order<H: Bench>(desk: Desk<H>) {
    let (id, mut log) = desk.unborn();
    for n in 0..40 {
        desk.write(&mut log, vec![prompt(&format!("p{n}")), answer(&format!("a{n}"))]).await;
    }
    let all = desk.scan(&id).await;
    assert_eq!(all.seqs(), (0..=80).collect::<Vec<_>>());
    assert_eq!(all.texts()[78..], ["p39", "a39"]);
}

async fn a_scan_can_be_ended<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed((0..30).map(|n| prompt(&n.to_string())).collect()).await;
    for wanted in [1, 2, 17] {
        let mut seen = 0;
        let mut visit = |_: Scanned| {
            seen += 1;
            seen < wanted
        };
        desk.bench.elsewhere().scan(&id, &mut visit).await.expect("it can be scanned");
        assert_eq!(seen, wanted);
    }
}

async fn a_scan_shows_what_was_left<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = desk.begun(vec![prompt("1"), answer("2"), prompt("3")]).await;
    desk.put(&mut log, vec![summary("sum", Some(nodes[2].pos()), Vec::new())]).await;
    let back = Body::Tip(Tip { tip: Some(nodes[0].pos()) });
    desk.put(&mut log, vec![back, answer("2x")]).await;
    assert_eq!(desk.scan(&id).await.texts(), ["1", "2", "3", "sum", "2x"]);
}

async fn reading_nothing_is_an_error<H: Bench>(desk: Desk<H>) {
    let id = desk.new_header().id;
    let store = desk.bench.store();
    assert!(matches!(store.read(&id).await, Err(StoreError::NotFound(_))));
    let scanned = store.scan(&id, &mut |_| panic!("there is nothing to visit")).await;
    assert!(matches!(scanned, Err(StoreError::NotFound(_))));
}

async fn reading_changes_nothing<H: Bench>(desk: Desk<H>) {
    let id = desk.generated(Shape::random(11)).await;
    if desk.bench.can(Ability::Bytes) {
        desk.change(&id, |bytes| bytes.truncate(bytes.len() - 5));
    }
    let before = desk.bytes(&id);
    desk.read(&id).await;
    desk.scan(&id).await;
    assert_eq!(desk.bytes(&id), before);
}

/// Puts hand-written lines behind a session of three records, goes on writing, and gives the whole
/// scan. The bytes before must stay.
async fn continued_after<H: Bench>(desk: &Desk<H>, lines: &[Vec<u8>]) -> (SessionId, All) {
    let (id, _) = desk.closed(vec![prompt("a"), answer("b")]).await;
    desk.change(&id, |bytes| lines.iter().for_each(|line| bytes.extend_from_slice(line)));
    let before = desk.bytes(&id);
    assert_eq!(desk.read(&id).await.state.next_seq, 3 + lines.len() as u64);
    let mut opened = desk.open(&id).await;
    desk.put(&mut opened.log, vec![prompt("c")]).await;
    assert!(desk.bytes(&id).starts_with(&before), "foreign lines were changed");
    let all = desk.scan(&id).await;
    assert_eq!(all.records.len(), 4 + lines.len());
    for (record, line) in all.records[3..].iter().zip(lines) {
        assert_eq!(&record.line[..], &line[..line.len() - 1]);
    }
    let path = opened.log.active(opened.log.state().tip()).await.expect("it can be read");
    let texts = texts(&path.records);
    assert!(texts.starts_with(&["a".into(), "b".into()]) && texts.ends_with(&["c".into()]));
    (id, all)
}

const SEED: &str = r#"{"seq":3,"at":"2026-01-01T00:00:00.000Z","#;

async fn unknown_types_are_kept<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let future = r#""type":"hologram","synced":2,"depth": [1,  {"x":null}],"é":"\u00e9""#;
    let (_, all) = continued_after(&desk, &[sealed(&format!("{SEED}{future}"))]).await;
    assert!(matches!(all.records[3].body(), Body::Unknown { kind, .. } if kind == "hologram"));
}

async fn unknown_members_are_kept<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let name = r#""type":"name","synced":2,"mood":{"deep":[true]},"name":"n","colour":"blue""#;
    let (id, all) = continued_after(&desk, &[sealed(&format!("{SEED}{name}"))]).await;
    assert_eq!(text_of(&all.records[3]), "n");
    assert_eq!(desk.read(&id).await.state.in_force.name.as_deref(), Some("n"));
}

async fn unexpected_shapes_are_opaque<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let name = r#""type":"name","name":{"en":"n"}"#;
    let role = r#"{"seq":4,"at":"2026-01-01T00:00:00.000Z","type":"child","state":"paused"#;
    let lines = [sealed(&format!("{SEED}{name}")), sealed(&format!("{role}\""))];
    let (id, all) = continued_after(&desk, &lines).await;
    for record in &all.records[3..5] {
        assert!(matches!(record.body(), Body::Unknown { .. }), "{record:?}");
    }
    assert_eq!(desk.read(&id).await.state.in_force.name, None);
}

async fn unknown_blocks_are_skipped<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let said = r#"{"seq":3,"parent":2,"at":"2026-01-01T00:00:00.000Z","type":"message","role":"user","content":[{"type":"rule","n":1},{"type":"text","text":"after the rule"}]"#;
    let (_, all) = continued_after(&desk, &[sealed(said)]).await;
    let Body::Message(message) = all.records[3].body() else { panic!("{:?}", all.records[3]) };
    let Message::User(user) = &**message else { panic!("{message:?}") };
    assert_eq!(user.content, [Block::Unknown, Block::text("after the rule")]);
}

async fn a_sparse_header_is_read<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    let sparse = format!(
        r#"{{"seq":0,"type":"session","format":{{"major":1,"minor":0}},"id":"{id}","project":{{"cwd":"/x"}},"version":"0""#
    );
    desk.change(&id, |bytes| {
        let end = bytes.iter().position(|b| *b == b'\n').expect("a line") + 1;
        bytes.splice(..end, sealed(&sparse));
    });
    let before = desk.bytes(&id);
    let mut opened = desk.open(&id).await;
    assert_eq!(opened.log.header().project.cwd, "/x");
    desk.put(&mut opened.log, vec![answer("b")]).await;
    assert!(desk.bytes(&id).starts_with(&before));
    assert_eq!(texts(&desk.read(&id).await.active.records), ["a", "b"]);
}

/// A session whose header claims another format version.
async fn of_version<H: Bench>(desk: &Desk<H>, major: u32, minor: u32) -> SessionId {
    let (id, _) = desk.closed(vec![prompt("a"), answer("b")]).await;
    desk.change(&id, |bytes| {
        let end = bytes.iter().position(|b| *b == b'\n').expect("a line") + 1;
        let line = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let open = line.split(",\"crc\"").next().expect("the covered part");
        let version = format!("\"major\":{major},\"minor\":{minor}");
        let changed = open.replace("\"major\":1,\"minor\":0", &version);
        bytes.splice(..end, sealed(&changed));
    });
    id
}

async fn a_newer_major_version_is_read_only<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = of_version(&desk, 2, 0).await;
    assert_eq!(desk.read(&id).await.header.format.major, 2);
    must_be_read_only(&desk, &id).await;
}

/// A log of two texts can be read, not written, and not copied under a header of ours.
async fn must_be_read_only<H: Bench>(desk: &Desk<H>, id: &SessionId) {
    use segno_model::store::HeldSession;
    let before = desk.bytes(id);
    assert_eq!(desk.scan(id).await.texts(), ["a", "b"]);
    let refused = match desk.bench.elsewhere().open(id).await {
        Ok(held) => held.judge().await.err(),
        Err(e) => Some(e),
    };
    assert!(matches!(refused, Some(StoreError::ReadOnly(_))), "{refused:?}");
    let copied = desk.try_fork(id, ForkPoint::Whole).await;
    assert!(matches!(copied, Err(StoreError::ReadOnly(_))), "{copied:?}");
    assert_eq!(desk.bytes(id), before);
}

async fn an_unknown_header_is_read_only<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let at = r#""at":"2026-01-01T00:00:00.000Z""#;
    let newer = r#""type":"session","format":{"major":2,"minor":3},"project":["kiln"]"#;
    let nothing_known = r#""type":"session","version":["x"]"#;
    let other = r#""type":"preface","format":{"major":1,"minor":0}"#;
    for (line, format) in [(newer, (2, 3)), (nothing_known, (1, 0)), (other, (1, 0))] {
        let (id, _) = desk.closed(vec![prompt("a"), answer("b")]).await;
        desk.change(&id, |bytes| {
            let end = bytes.iter().position(|b| *b == b'\n').expect("a line") + 1;
            bytes.splice(..end, sealed(&format!("{{\"seq\":0,{at},{line}")));
        });
        let header = desk.read(&id).await.header;
        assert_eq!((header.format.major, header.format.minor), format);
        assert_eq!(header.id, id);
        must_be_read_only(&desk, &id).await;
    }
}

async fn a_newer_minor_version_is_written<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = of_version(&desk, 1, 9).await;
    let mut opened = desk.open(&id).await;
    desk.put(&mut opened.log, vec![prompt("c")]).await;
    assert_eq!(desk.read(&id).await.header.format.minor, 9);
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    assert_eq!(desk.read(&fork).await.header.format.minor, 9, "its lines may hold news, too");
    assert_eq!(desk.scan(&id).await.texts(), ["a", "b", "c"]);
}

async fn editors_white_space_costs_nothing<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a"), answer("b")]).await;
    desk.put(&mut log, vec![prompt("c")]).await;
    drop(log);
    let whole = desk.bytes(&id);
    let crlf = String::from_utf8(whole.clone()).expect("text").replace('\n', "\r\n").into_bytes();
    let blank =
        String::from_utf8(whole.clone()).expect("text").replace('\n', "\n\n  \n").into_bytes();
    let marked = [b"\xef\xbb\xbf".as_slice(), &whole].concat();
    for bytes in [crlf, blank, marked] {
        desk.bench.set_log(&id, &bytes);
        let all = desk.scan(&id).await;
        assert_eq!(all.texts(), ["a", "b", "c"]);
        assert!(!all.findings.is_empty(), "nothing was noted");
        let mut opened = desk.open(&id).await;
        desk.put(&mut opened.log, vec![answer("d")]).await;
        assert_eq!(desk.scan(&id).await.texts(), ["a", "b", "c", "d"]);
    }
}

async fn broken_text_is_read<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let open = r#"{"seq":3,"parent":2,"at":"2026-01-01T00:00:00.000Z","type":"message","role":"user","content":[{"type":"text","text":"x\ud83dy"#;
    let mut broken = open.as_bytes().to_vec();
    broken.extend_from_slice(b"\xff\xe6\x97\"}]");
    let crc = checksum(&broken);
    broken.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
    assert!(decode(&broken[..broken.len() - 1], 0).is_ok());
    let (_, all) = continued_after(&desk, &[broken]).await;
    assert!(text_of(&all.records[3]).starts_with("x\u{fffd}y"), "{:?}", text_of(&all.records[3]));
}

async fn all_ways_of_reading_agree<H: Bench>(desk: Desk<H>) {
    for seed in 0..6 {
        let id = desk.generated(Shape::random(seed)).await;
        let snapshot = desk.read(&id).await;
        let opened = desk.open(&id).await;
        assert_eq!(in_force(&snapshot.state), in_force(opened.log.state()));
        assert_eq!(texts(&snapshot.active.records), texts(&opened.active.records));
        let mut folded = segno_model::state::State::default();
        desk.scan(&id).await.records.iter().for_each(|r| folded.apply(r));
        assert_eq!(in_force(&folded), in_force(opened.log.state()), "seed {seed}");
        drop(opened);
        let mut opened = desk.open(&id).await;
        let went_on = desk.append(&mut opened.log, vec![prompt("on")], Level::Synced).await;
        went_on.expect("it goes on");
    }
}
