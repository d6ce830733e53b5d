//! What single lines are taken apart into, and that hostile ones cost no more than their length.

use crate::notation::{Log, other_record, user};
use segno_model::judge::classify::{PieceKind, classify};
use segno_model::judge::lines;
use std::fmt::Write as _;

/// The pieces of a line as text: what, from, to.
fn pieces(line: &[u8]) -> String {
    let mut text = String::new();
    for piece in classify(line, true) {
        let what = match &piece.kind {
            PieceKind::Intact(r) => format!("intact {}", r.seq()),
            PieceKind::Corrected(r) => format!("corrected {}", r.seq()),
            PieceKind::Altered { record, .. } => format!("altered {}", record.seq()),
            PieceKind::Malformed { fused: true, .. } => "fused".into(),
            PieceKind::Malformed { .. } => "malformed".into(),
            PieceKind::Nul { .. } => "nul".into(),
            PieceKind::Blank => "blank".into(),
            PieceKind::CarriageReturn => "cr".into(),
            PieceKind::ByteOrderMark => "bom".into(),
            PieceKind::NoLineEnd => "joined".into(),
            PieceKind::FlippedLineEnd => "flipped-end".into(),
        };
        write!(text, "{what} {}; ", piece.len).unwrap();
    }
    text.trim_end_matches("; ").to_owned()
}

fn record(seq: u64) -> Vec<u8> {
    let mut line = other_record(seq);
    line.pop();
    line
}

/// Covers: G3, #3, #5, #7, #10, #11.
#[test]
fn lines_are_taken_apart_without_losing_a_record() {
    let one = record(1);
    let two = record(2);
    let n = one.len();
    let bom = &b"\xef\xbb\xbf"[..];
    let nul = &[0u8; 8][..];
    let altered = String::from_utf8(one.clone()).unwrap().replace("elsewhere", "elsewhat?");
    let altered = altered.into_bytes();
    let cases: Vec<(Vec<&[u8]>, String)> = vec![
        (vec![], "blank 0".into()),
        (vec![b" \t\r"], "blank 3".into()),
        (vec![bom], "bom 3".into()),
        (vec![&one], format!("intact 1 {n}")),
        (vec![&one, b"\r"], format!("intact 1 {n}; cr 1")),
        (vec![bom, &one, b"\r"], format!("bom 3; intact 1 {n}; cr 1")),
        (vec![&one, &two], format!("intact 1 {n}; joined 0; intact 2 {n}")),
        (vec![&one, b"J", &two], format!("intact 1 {n}; flipped-end 1; intact 2 {n}")),
        (vec![&one, b"J"], format!("intact 1 {n}; flipped-end 1")),
        (vec![&one, b"Jx"], format!("intact 1 {n}; fused 2")),
        (vec![&one[..40], &two], format!("fused 40; intact 2 {n}")),
        (vec![&one[..40], nul, &two], format!("fused 40; nul 8; intact 2 {n}")),
        (vec![nul], "nul 8".into()),
        (vec![nul, &one], format!("nul 8; intact 1 {n}")),
        (vec![&one, nul], format!("intact 1 {n}; nul 8")),
        (vec![nul, &one[..40], nul], "nul 8; malformed 40; nul 8".into()),
        (vec![nul, &altered, nul], format!("nul 8; altered 1 {n}; nul 8")),
        (vec![&altered], format!("altered 1 {n}")),
        (vec![&altered, &two], format!("altered 1 {n}; intact 2 {n}")),
        (vec![&two, &altered], format!("intact 2 {n}; altered 1 {n}")),
        (vec![&one[..n - 1]], format!("malformed {}", n - 1)),
        (vec![b"{}"], "malformed 2".into()),
        (vec![b"null"], "malformed 4".into()),
        (vec![b",\"crc\":\"00000000\"}"], "malformed 18".into()),
        (vec![b"{\"seq\":,\"crc\":\"00000000\"}"], "malformed 25".into()),
        (vec![&one, b"\xff\xfe\x00"], format!("intact 1 {n}; fused 2; nul 1")),
        (vec![b"[", &one, b"]"], format!("malformed {}", n + 2)),
        (vec![b"{\"data\":", &one, b",\"x\":1}"], format!("malformed {}", n + 15)),
    ];
    for (parts, expected) in cases {
        let line = parts.concat();
        assert_eq!(pieces(&line), expected, "{}", String::from_utf8_lossy(&line));
    }
}

/// Covers: #7, MS9.
#[test]
fn lone_surrogates_and_broken_utf8_do_not_matter_under_a_good_checksum() {
    for text in [&b"\\ud83c..."[..], b"\\udff7", b"\\ud83c\\udff7", b"\xc3", b"\xf0\x9f\x8e"] {
        let start = b"{\"seq\":4,\"at\":\"1970-01-01T00:00:01.000Z\",\"type\":\"name\",\"name\":\"";
        let mut line = [&start[..], text, b"\""].concat();
        let crc = segno_model::line::checksum(&line);
        line.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}").as_bytes());
        assert_eq!(pieces(&line), format!("intact 4 {}", line.len()));
    }
}

/// Every bit of a record: found, wherever it is.
///
/// Covers: G3.
#[test]
fn every_flipped_bit_of_a_record_is_corrected() {
    let line = record(7);
    for bit in 0..line.len() * 8 {
        let mut bad = line.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let pieces = classify(&bad, false);
        let [piece] = &pieces[..] else { panic!("bit {bit}: {pieces:?}") };
        let PieceKind::Corrected(record) = &piece.kind else { panic!("bit {bit}: {piece:?}") };
        assert_eq!(&record.line[..], &line[..], "bit {bit}");
    }
}

/// A line of 50 MB, of which a record is the end; and lines made to be expensive.
///
/// Covers: G3, #9.
#[test]
fn huge_and_hostile_lines_cost_what_their_length_costs() {
    let one = record(1);
    let n = one.len();
    let size = 50 << 20;
    let mut huge = vec![b'x'; size];
    huge.extend_from_slice(&one);
    assert_eq!(pieces(&huge), format!("fused {size}; intact 1 {n}"));
    drop(huge);

    let mut starts = b"{\"seq\":".repeat(30_000);
    starts.extend_from_slice(&one);
    assert_eq!(pieces(&starts), format!("fused 210000; intact 1 {n}"));
    let ends = b"{\"seq\":1,\"crc\":\"00000000\"}".repeat(10_000);
    assert_eq!(pieces(&ends), format!("malformed {}", ends.len()));
    let many: Vec<u8> = (0..2_000).flat_map(record).collect();
    let found = classify(&many, false).iter().filter(|p| p.kind.record().is_some()).count();
    assert_eq!(found, 2_000);
}

/// Lines of three-byte characters around one of 2 MB: nothing depends on buffer sizes.
///
/// Covers: #9, #10.
#[test]
fn records_end_at_0x0a_and_nowhere_else() {
    let mut log = Log::parse("header");
    for i in 0..200 {
        log.add(user(&"漢".repeat(100 + i)));
    }
    let blob = "QUJD".repeat(200_000);
    log.add(user(&blob));
    log.add(user("a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f"));
    assert_eq!(lines(&log.bytes).count(), log.records.len());
    let loaded = segno_model::active::load_bytes(&log.bytes);
    assert_eq!(loaded.findings, Vec::new());
    assert_eq!(loaded.records.len(), log.records.len());
}

/// Two flipped bits are no single one, wherever they are: in the content, in the stored checksum, or one
/// in each. Covers: G3.
#[test]
fn two_flipped_bits_are_not_explained_by_one() {
    let line = record(7);
    let bits = line.len() * 8;
    let tail = bits - 18 * 8;
    let near = (0..tail).step_by(61).flat_map(|a| (1..9).map(move |d| (a, a + d)));
    let far = (0..bits).step_by(37).flat_map(|a| (0..bits).step_by(41).map(move |b| (a, b)));
    let in_tail = (tail..bits).flat_map(|a| (a + 1..bits).map(move |b| (a, b)));
    for (a, b) in near.chain(far).chain(in_tail).filter(|(a, b)| a != b) {
        let mut bad = line.clone();
        bad[a / 8] ^= 1 << (a % 8);
        bad[b / 8] ^= 1 << (b % 8);
        let read = classify(&bad, false).into_iter().find(|piece| piece.kind.record().is_some());
        assert!(read.is_none(), "bits {a} and {b}: {read:?}");
    }
}
