//! Cases about logs that are torn, damaged or changed by hand.
//!
//! Responsible for: what opening says and does about them. Must not: depend on an implementation.

use super::desk::{Desk, context_of, texts};
use super::reading::sealed;
use super::{Ability, Bench, cases};
use crate::sessions::{answer, prompt, summary};
use segno_model::finding::{Finding, Severity};
use segno_model::record::RepairItem;
use segno_model::store::{DamagedSession, SessionLog};
use segno_model::{Body, SessionId, Timestamp};

cases! { "judging":
    /// Cut the log anywhere: what is left opens, recovers and goes on. Covers: G2, G4, TT1, TT2, ST5.
    every_cut_is_a_session;
    /// Cut inside line 1, it is an empty session under its own id. Covers: G4, ST3.
    a_cut_header_is_an_empty_session;
    /// A complete last record without its line end is kept, and ended by the next append. Covers: G2, TT1.
    a_missing_line_end_costs_nothing;
    /// Zeros or noise behind the last synced record are tail. Covers: G2, TT2, TT3.
    a_tail_of_noise_is_set_aside;
    /// Judging a torn log, and reading it, changes no byte. Covers: G2, RS33.
    judging_changes_no_byte;
    /// A torn tail is said once and recorded by a repair. Covers: G2, G3.
    a_tail_is_said_once;
    /// What stands before the tail stays byte for byte. Covers: G2, TT5.
    what_is_before_the_tail_stays;
    /// A session torn twice recovers twice. Covers: G2, G4.
    torn_again_and_again;
    /// Damage below the mark in the active context waits for a decision, located, and no byte changes.
    /// Covers: G3, ST4.
    damage_in_the_context_waits;
    /// Damage before the active context keeps nobody from writing, and a scan finds it. Covers: G3, G11.
    damage_before_the_context_does_not_wait;
    /// A scan reads every intact record around damage. Covers: G3, ST4, MG14.
    the_intact_around_damage_is_read;
    /// Bridging passes over damage for good; nothing is rewritten. Covers: G3.
    bridging_settles_damage;
    /// A bridge covers these bytes and no others. Covers: G3.
    a_bridge_covers_no_other_damage;
    /// An altered record counts again once a person accepted it. Covers: G3.
    an_altered_record_can_be_accepted;
    /// Accepting covers this alteration and no other. Covers: G3.
    accepting_covers_no_other_alteration;
    /// One flipped bit is corrected for reading, and said. Covers: G3.
    a_flipped_bit_is_corrected;
    /// A missing line is a gap that is found, and can be bridged. Covers: G3, ST6.
    a_missing_line_is_found;
    /// Lines that appear twice, header included, count once. Covers: G3, #20.
    doubled_lines_count_once;
    /// Two records on one line are both read. Covers: G3.
    fused_lines_are_read;
    /// A stub before a record on its line costs nothing but itself. Covers: G3.
    a_stub_costs_only_itself;
    /// A line of another log between ours is located and not counted. Covers: G3, MG14.
    a_foreign_line_is_not_counted;
    /// A log with something else in the place of its header is not written to. Covers: G3, ST3.
    a_damaged_header_is_not_written;
    /// The refused can still be forked or left alone: dropping a damaged session frees it. Covers: G3, G5.
    the_damaged_is_free_again;
    /// Every finding says where and what. Covers: G3.
    every_finding_is_located;
}

/// Where each line begins, and the end.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1);
    std::iter::once(0).chain(ends).collect()
}

/// A closed session `0 … n-1` where every batch was synced before the next was written.
async fn synced<H: Bench>(desk: &Desk<H>, n: usize) -> SessionId {
    let (id, mut log, _) = desk.begun(vec![prompt("0")]).await;
    for i in 1..n {
        desk.put(&mut log, vec![prompt(&i.to_string())]).await;
    }
    id
}

/// Changes line `n` (0 is the header) by hand.
fn change_line<H: Bench>(desk: &Desk<H>, id: &SessionId, n: usize, change: impl Fn(&mut Vec<u8>)) {
    desk.change(id, |bytes| {
        let at = starts(bytes);
        let mut line = bytes[at[n]..at[n + 1]].to_vec();
        change(&mut line);
        bytes.splice(at[n]..at[n + 1], line);
    });
}

fn smash(line: &mut Vec<u8>) {
    let middle = line.len() / 2;
    line.splice(20..middle, *b"~~~ overwritten ~~~");
}

/// Replaces the text of a message by another of the same length, without mending the checksum.
fn alter(line: &mut [u8]) {
    let at = line.windows(8).position(|w| w == b"\"text\":\"").expect("a text") + 8;
    line[at] = b'X';
    let at = line.windows(5).position(|w| w == b"2026-").expect("a time");
    line[at + 2..at + 4].copy_from_slice(b"31");
}

fn numbers(n: usize, without: &[usize]) -> Vec<String> {
    (0..n).filter(|i| !without.contains(i)).map(|i| i.to_string()).collect()
}

async fn goes_on<H: Bench>(desk: &Desk<H>, id: &SessionId, expected: &[String]) {
    let mut opened = desk.open(id).await;
    assert_eq!(texts(&opened.active.records), expected);
    desk.put(&mut opened.log, vec![prompt("on")]).await;
    let state = super::desk::in_force(opened.log.state());
    drop(opened);
    let opened = desk.open(id).await;
    assert_eq!(super::desk::in_force(opened.log.state()), state);
    let on = [expected, &["on".to_owned()]].concat();
    assert_eq!(texts(&opened.active.records), on);
}

async fn every_cut_is_a_session<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 4).await;
    let whole = desk.bytes(&id);
    let lines = starts(&whole);
    for cut in (1..=whole.len()).filter(|cut| cut % 11 == 0 || lines.contains(&(cut + 1))) {
        desk.bench.set_log(&id, &whole[..cut]);
        let complete = lines.iter().filter(|end| **end <= cut + 1).count().saturating_sub(2);
        goes_on(&desk, &id, &numbers(complete, &[])).await;
    }
}

async fn a_cut_header_is_an_empty_session<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 1).await;
    let whole = desk.bytes(&id);
    let header = starts(&whole)[1];
    for cut in [1, 2, 30, header / 2, header - 2] {
        desk.bench.set_log(&id, &whole[..cut]);
        let mut opened = desk.open(&id).await;
        assert_eq!(opened.log.header().id, id);
        assert_eq!((opened.log.state().tip(), opened.active.records.len()), (None, 0));
        desk.put(&mut opened.log, vec![prompt("anew")]).await;
        drop(opened);
        let snapshot = desk.read(&id).await;
        assert_eq!(snapshot.header.id, id);
        assert_eq!(texts(&snapshot.active.records), ["anew"]);
        assert_eq!(desk.scan(&id).await.seqs()[0], 0);
    }
}

async fn a_missing_line_end_costs_nothing<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    for n in 1..4 {
        let id = synced(&desk, n).await;
        desk.change(&id, |bytes| {
            bytes.pop();
        });
        let before = desk.bytes(&id);
        goes_on(&desk, &id, &numbers(n, &[])).await;
        assert!(desk.bytes(&id).starts_with(&[&before[..], b"\n{"].concat()));
    }
}

async fn a_tail_of_noise_is_set_aside<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let tails: [&[u8]; 6] = [
        &[0; 4096],
        b"\xff\xfe\xfd",
        b"{\"seq\":4,\"type\":\"mess",
        b"{}\n",
        b"not json\nat all\n",
        b"\0\0\n{\"half\":",
    ];
    for tail in tails {
        let id = synced(&desk, 3).await;
        desk.change(&id, |bytes| bytes.extend_from_slice(tail));
        goes_on(&desk, &id, &numbers(3, &[])).await;
        let left = desk.bytes(&id);
        assert!(!left.windows(tail.len()).any(|w| w == tail), "{tail:?} is still in the log");
    }
}

async fn judging_changes_no_byte<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 3).await;
    let whole = desk.bytes(&id);
    let torn = whole[..whole.len() - 9].to_vec();
    let mut smashed = whole.clone();
    let second = starts(&whole)[1];
    smashed[second + 3..second + 9].copy_from_slice(b"??????");
    for bytes in [torn, smashed, whole[..40].to_vec(), [&whole[..], &[0; 700]].concat()] {
        desk.bench.set_log(&id, &bytes);
        for _ in 0..2 {
            drop(desk.judge(&id).await);
            assert_eq!(desk.bytes(&id), bytes);
        }
    }
}

async fn a_tail_is_said_once<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 3).await;
    desk.change(&id, |bytes| bytes.truncate(bytes.len() - 30));
    let mut opened = desk.open(&id).await;
    let said = |findings: &[Finding]| findings.iter().filter(|f| f.code == "torn-tail").count();
    assert_eq!(said(&opened.active.findings), 1, "{:?}", opened.active.findings);
    desk.put(&mut opened.log, vec![prompt("on")]).await;
    drop(opened);
    assert_eq!(said(&desk.open(&id).await.active.findings), 0);
    let all = desk.scan(&id).await;
    assert_eq!(said(&all.findings), 0);
    let repair = all.records.iter().find_map(|r| match r.body() {
        Body::Repair(repair) => Some(repair.clone()),
        _ => None,
    });
    let items = repair.expect("the tail is recorded").items;
    assert!(matches!(items[..], [RepairItem::SetAside { .. }]), "{items:?}");
}

async fn what_is_before_the_tail_stays<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 4).await;
    let whole = desk.bytes(&id);
    let last = starts(&whole)[4];
    desk.bench.set_log(&id, &whole[..last + 17]);
    goes_on(&desk, &id, &numbers(3, &[])).await;
    assert!(desk.bytes(&id).starts_with(&whole[..last]));
}

async fn torn_again_and_again<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 2).await;
    for n in 2..6 {
        desk.change(&id, |bytes| bytes.extend_from_slice(b"{\"seq\":9,\"to"));
        let mut opened = desk.open(&id).await;
        assert_eq!(texts(&opened.active.records), numbers(n, &[]));
        desk.put(&mut opened.log, vec![prompt(&n.to_string())]).await;
    }
    let all = desk.scan(&id).await;
    assert_eq!((all.texts(), all.findings.len()), (numbers(6, &[]), 0));
}

async fn damage_in_the_context_waits<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    for n in 1..4 {
        let id = synced(&desk, 6).await;
        change_line(&desk, &id, n, smash);
        let before = desk.bytes(&id);
        let at = starts(&before)[n] as u64;
        let damaged = desk.open_damaged(&id).await;
        let finding = damaged.findings().iter().find(|f| f.severity == Severity::Damage);
        let finding = finding.expect("damage is said").clone();
        assert_eq!(finding.offset, Some(at), "{finding:?}");
        drop(damaged);
        assert_eq!(desk.bytes(&id), before);
    }
}

/// A session whose first records are behind a compaction, every batch synced.
async fn compacted<H: Bench>(desk: &Desk<H>) -> SessionId {
    let (id, mut log, _) = desk.begun(vec![prompt("0"), answer("1"), prompt("2")]).await;
    let kept = desk.put(&mut log, vec![prompt("3")]).await[0].pos();
    desk.put(&mut log, vec![summary("sum", Some(kept), Vec::new())]).await;
    desk.put(&mut log, vec![answer("4")]).await;
    desk.put(&mut log, vec![prompt("5")]).await;
    id
}

async fn damage_before_the_context_does_not_wait<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = compacted(&desk).await;
    let opened = desk.open(&id).await;
    let context = context_of(&opened.active, opened.log.state());
    drop(opened);
    change_line(&desk, &id, 2, smash);
    let mut opened = desk.open(&id).await;
    assert_eq!(context_of(&opened.active, opened.log.state()), context);
    desk.put(&mut opened.log, vec![answer("6")]).await;
    let all = desk.scan(&id).await;
    assert!(all.findings.iter().any(|f| f.severity == Severity::Damage), "{:?}", all.findings);
    assert_eq!(all.texts(), ["0", "2", "3", "sum", "4", "5", "6"]);
}

async fn the_intact_around_damage_is_read<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 8).await;
    change_line(&desk, &id, 2, smash);
    change_line(&desk, &id, 5, |line| line.fill(0));
    change_line(&desk, &id, 6, |line| line.truncate(line.len() / 2));
    let all = desk.scan(&id).await;
    let texts = all.texts();
    for text in ["0", "2", "3"] {
        assert!(texts.contains(&text.to_owned()), "{text} is not in {texts:?}");
    }
    assert!(
        texts.ends_with(&["7".to_owned()]) || texts.ends_with(&["6".to_owned(), "7".to_owned()])
    );
    assert!(all.findings.len() >= 2, "{:?}", all.findings);
}

async fn bridging_settles_damage<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 6).await;
    change_line(&desk, &id, 3, smash);
    let before = desk.bytes(&id);
    let damaged = desk.open_damaged(&id).await;
    let plan = damaged.plan(&[]);
    assert!(!plan.is_empty());
    let mut opened = damaged.repair(plan, Timestamp(0)).await.expect("it can be repaired");
    desk.put(&mut opened.log, vec![prompt("on")]).await;
    drop(opened);
    assert!(desk.bytes(&id).starts_with(&before), "something was rewritten");
    let opened = desk.open(&id).await;
    assert!(!opened.active.findings.iter().any(|f| f.severity == Severity::Damage));
    let all = desk.scan(&id).await;
    assert_eq!(all.texts(), ["0", "1", "3", "4", "5", "on"]);
    assert!(all.kinds().contains(&"repair"));
}

async fn a_bridge_covers_no_other_damage<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 6).await;
    change_line(&desk, &id, 3, smash);
    let damaged = desk.open_damaged(&id).await;
    let plan = damaged.plan(&[]);
    drop(damaged.repair(plan, Timestamp(0)).await.expect("it can be repaired"));
    drop(desk.open(&id).await);
    change_line(&desk, &id, 3, |line| line[25] = b'!');
    drop(desk.open_damaged(&id).await);
}

async fn an_altered_record_can_be_accepted<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 6).await;
    change_line(&desk, &id, 3, |line| alter(line));
    let before = desk.bytes(&id);
    let damaged = desk.open_damaged(&id).await;
    let plan = damaged.plan(&[3]);
    let accepted = |item: &RepairItem| matches!(item, RepairItem::Accepted { seq: 3, .. });
    assert!(plan.iter().any(accepted), "{plan:?}");
    let opened = damaged.repair(plan, Timestamp(0)).await.expect("it can be repaired");
    assert!(texts(&opened.active.records).contains(&"X".to_owned()));
    drop(opened);
    assert!(desk.bytes(&id).starts_with(&before));
    goes_on(&desk, &id, &["0", "1", "X", "3", "4", "5"].map(str::to_owned)).await;
}

async fn accepting_covers_no_other_alteration<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 6).await;
    change_line(&desk, &id, 3, |line| alter(line));
    let damaged = desk.open_damaged(&id).await;
    let plan = damaged.plan(&[3]);
    drop(damaged.repair(plan, Timestamp(0)).await.expect("it can be repaired"));
    drop(desk.open(&id).await);
    change_line(&desk, &id, 3, |line| {
        let at = line.windows(8).position(|w| w == b"\"text\":\"").expect("a text") + 8;
        line[at] = b'Y';
    });
    drop(desk.open_damaged(&id).await);
}

async fn a_flipped_bit_is_corrected<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 5).await;
    change_line(&desk, &id, 2, |line| {
        let at = line.windows(8).position(|w| w == b"\"text\":\"").expect("a text") + 8;
        line[at] ^= 0x04;
    });
    let before = desk.bytes(&id);
    let all = desk.scan(&id).await;
    assert_eq!(all.texts(), numbers(5, &[]));
    assert!(!all.findings.is_empty(), "the correction was not said");
    goes_on(&desk, &id, &numbers(5, &[])).await;
    assert!(desk.bytes(&id).starts_with(&before), "the log was rewritten");
}

async fn a_missing_line_is_found<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 6).await;
    change_line(&desk, &id, 3, Vec::clear);
    let damaged = desk.open_damaged(&id).await;
    let plan = damaged.plan(&[]);
    let missing = |item: &RepairItem| matches!(item, RepairItem::Missing { first: 3, last: 3 });
    assert!(plan.iter().any(missing), "{plan:?}");
    drop(damaged.repair(plan, Timestamp(0)).await.expect("it can be repaired"));
    let mut opened = desk.open(&id).await;
    desk.put(&mut opened.log, vec![prompt("on")]).await;
    assert_eq!(desk.scan(&id).await.texts(), ["0", "1", "3", "4", "5", "on"]);
}

async fn doubled_lines_count_once<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 5).await;
    let whole = desk.bytes(&id);
    let at = starts(&whole);
    let one = [&whole[..at[3]], &whole[at[2]..]].concat();
    let prefix = [&whole[..at[3]], &whole[..at[3]], &whole[at[3]..]].concat();
    for bytes in [one, prefix] {
        desk.bench.set_log(&id, &bytes);
        let all = desk.scan(&id).await;
        assert_eq!(all.texts(), numbers(5, &[]));
        assert!(!all.findings.is_empty(), "the copies were not said");
        goes_on(&desk, &id, &numbers(5, &[])).await;
    }
}

async fn fused_lines_are_read<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 5).await;
    change_line(&desk, &id, 2, |line| {
        line.pop();
    });
    assert_eq!(desk.scan(&id).await.texts(), numbers(5, &[]));
    goes_on(&desk, &id, &numbers(5, &[])).await;
}

async fn a_stub_costs_only_itself<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 5).await;
    change_line(&desk, &id, 3, |line| {
        line.splice(..0, *b"{\"seq\":3,\"parent\":2,\"at\":\"2026-");
    });
    let all = desk.scan(&id).await;
    assert_eq!(all.texts(), numbers(5, &[]));
    assert!(!all.findings.is_empty(), "the stub was not said");
    goes_on(&desk, &id, &numbers(5, &[])).await;
}

async fn a_foreign_line_is_not_counted<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 5).await;
    let other = sealed(r#"{"seq":77,"at":"2026-01-01T00:00:00.000Z","type":"name","name":"x""#);
    for line in [&b"{\"type\":\"user\",\"uuid\":\"1\"}\n"[..], b"hello\n", &other] {
        let whole = desk.bytes(&id);
        let at = starts(&whole)[3];
        desk.bench.set_log(&id, &[&whole[..at], line, &whole[at..]].concat());
        let all = desk.scan(&id).await;
        assert_eq!(all.texts(), numbers(5, &[]));
        let located = all.findings.iter().any(|f| f.offset == Some(at as u64));
        assert!(located, "{:?}", all.findings);
        goes_on(&desk, &id, &numbers(5, &[])).await;
        desk.bench.set_log(&id, &whole);
    }
}

async fn a_damaged_header_is_not_written<H: Bench>(desk: Desk<H>) {
    use segno_model::store::{HeldSession, Judged, SessionStore};
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 4).await;
    change_line(&desk, &id, 0, |line| *line = b"<html>not a log</html>\n".to_vec());
    let before = desk.bytes(&id);
    let held = desk.bench.elsewhere().open(&id).await.expect("it is free");
    match held.judge().await {
        Err(_) => {}
        Ok(Judged::Damaged(damaged)) => assert!(!damaged.findings().is_empty()),
        Ok(Judged::Sound(_)) => panic!("a log without its header was judged sound"),
    }
    assert_eq!(desk.bytes(&id), before);
    assert_eq!(desk.scan(&id).await.texts(), numbers(4, &[]));
}

async fn the_damaged_is_free_again<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 4).await;
    change_line(&desk, &id, 2, smash);
    for _ in 0..3 {
        drop(desk.open_damaged(&id).await);
    }
    assert!(texts(&desk.read(&id).await.active.records).contains(&"3".to_owned()));
}

async fn every_finding_is_located<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let id = synced(&desk, 6).await;
    change_line(&desk, &id, 1, |line| alter(line));
    change_line(&desk, &id, 3, smash);
    change_line(&desk, &id, 4, |line| line.extend_from_slice(b"\n \n"));
    desk.change(&id, |bytes| bytes.extend_from_slice(b"{\"seq\":"));
    let length = desk.bytes(&id).len() as u64;
    let findings = desk.scan(&id).await.findings;
    assert!(findings.len() >= 4, "{findings:?}");
    for finding in findings {
        assert!(finding.offset.is_some_and(|at| at < length), "{finding:?}");
        assert!(!finding.code.is_empty() && !finding.sentence.is_empty(), "{finding:?}");
    }
    let bytes = desk.bytes(&id);
    let damaged = desk.open_damaged(&id).await;
    assert!(!damaged.findings().is_empty());
    for finding in damaged.findings() {
        let at = usize::try_from(finding.offset.expect("a place")).expect("small");
        let line = 1 + bytes[..at].iter().filter(|b| **b == b'\n').count() as u64;
        assert_eq!(finding.line, Some(line), "{finding:?}");
    }
}
