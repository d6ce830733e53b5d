//! The format page's examples are what the code reads and writes.

use segno_model::line;
use segno_model::record::KINDS;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/format/session-log.md");

fn examples() -> Vec<&'static str> {
    PAGE.split("```jsonl\n").skip(1).filter_map(|b| b.split("\n```").next()).collect()
}

/// Every example is an intact record of a known shape, and encoding it again gives the same bytes.
/// Covers: G13.
#[test]
fn examples_decode_and_encode_to_the_same_bytes() {
    for example in examples() {
        let record = line::decode(example.as_bytes(), 0).expect(example);
        assert!(
            !matches!(record.body(), segno_model::Body::Unknown { .. }),
            "{example}: {:?}",
            record.body()
        );
        let mut again = line::encode(&record.envelope, record.body()).expect("encodes");
        if record.is_erased() {
            let (covered, _) = line::split_crc(&again).expect("sealed");
            let covered = [covered, b",\"erased\":true"].concat();
            let crc = format!(",\"crc\":\"{:08x}\"}}", line::checksum(&covered));
            again = [covered, crc.into_bytes()].concat();
        }
        assert_eq!(String::from_utf8_lossy(&again), example);
    }
}

#[test]
fn every_type_has_an_example() {
    let shown: BTreeSet<String> = examples()
        .iter()
        .map(|e| line::decode(e.as_bytes(), 0).expect("intact").envelope.kind)
        .collect();
    let known: BTreeSet<String> = KINDS.iter().map(|k| (*k).to_owned()).collect();
    assert_eq!(shown, known);
}

/// The structs of the record types, as their sources have them.
const STRUCTS: &[&str] = &[
    include_str!("../src/record/child.rs"),
    include_str!("../src/record/lifecycle.rs"),
    include_str!("../src/record/message.rs"),
    include_str!("../src/record/session.rs"),
    include_str!("../src/record/tree.rs"),
    include_str!("../src/checkpoint.rs"),
];

/// Whoever reads logs without our code finds each member on the page.
#[test]
fn every_member_is_on_the_page() {
    let members = STRUCTS.iter().flat_map(|source| source.lines()).filter_map(|line| {
        let (name, _) = line.strip_prefix("    pub ")?.split_once(": ")?;
        name.bytes().all(|b| b.is_ascii_lowercase() || b"_0123456789".contains(&b)).then_some(name)
    });
    let shown =
        |name: &str| PAGE.contains(&format!("\"{name}\":")) || PAGE.contains(&format!("`{name}`"));
    let missing: Vec<&str> = members.filter(|name| !shown(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

/// The inbox's page, too. Covers: G8, G13.
#[test]
fn examples_of_inbox_files_decode_and_encode_to_the_same_bytes() {
    use segno_model::inbox::file;
    let page = include_str!("../../../docs/format/inbox.md");
    let examples: Vec<&str> =
        page.split("```jsonl\n").skip(1).filter_map(|b| b.split("```").next()).collect();
    let mut kinds = BTreeSet::new();
    for example in &examples {
        let pending = file::decode(example.as_bytes()).expect(example);
        let again = file::encode(pending.order, pending.at, &pending.input).expect("encodes");
        assert_eq!(String::from_utf8_lossy(&again), *example);
        kinds.insert(format!("{:?}", pending.input.body.kind()));
    }
    assert_eq!((examples.len(), kinds.len()), (9, 8));
}

/// What makes two inputs the same is on the pages in two places.
#[test]
fn the_hash_of_an_input_is_that_of_its_members() {
    use segno_model::inbox::file;
    let page = include_str!("../../../docs/format/inbox.md");
    let first = page.split("```jsonl\n").nth(1).and_then(|b| b.split("```").next()).expect("one");
    let steer = file::decode(first.as_bytes()).expect("intact").input;
    assert!(PAGE.contains(&steer.body.sha256()));
}
