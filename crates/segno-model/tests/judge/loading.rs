//! What a loader reads, and that it reads no more than it must.

use crate::notation::{Log, custom, ranges, result, say, user};
use segno_model::Body;
use segno_model::active::{Loaded, Loader, Want, load_bytes, load_bytes_at, load_with};
use segno_model::id::{Pos, Seq};
use segno_model::line::Record;
use segno_model::record::*;

fn checkpoint(log: &mut Log) {
    log.synced = log.state.next_seq.checked_sub(1);
    log.add(Body::Checkpoint(Box::new(log.state.in_force.clone())));
}

fn compact(log: &mut Log, first_kept: Option<Pos>, kept: Vec<Pos>) {
    log.add(Body::Compaction(Box::new(Compaction {
        summary: Some(Text::Inline("summary".into())),
        first_kept,
        kept,
        ..Compaction::marker(CompactionState::Done, None)
    })));
}

fn tip(log: &mut Log, tip: Option<Pos>) {
    log.add(Body::Tip(Tip { tip }));
}

fn talk(log: &mut Log, turns: usize) {
    for i in 0..turns {
        log.add(user(&format!("question {i} {}", "q".repeat(300))));
        log.add(say(&"a".repeat(700), &[]));
    }
}

fn load(log: &Log) -> (Loaded, u64) {
    load_with(&log.bytes, Loader::new(log.bytes.len() as u64))
}

fn seqs(loaded: &Loaded) -> String {
    ranges(loaded.records.iter().map(Record::seq))
}

/// Covers: G11.
#[test]
fn resuming_reads_back_to_the_checkpoint_and_the_kept_records_and_stops() {
    let mut log = Log::parse("header");
    talk(&mut log, 1000);
    let kept = log.records[5].pos();
    let first = log.state.tip();
    compact(&mut log, first, vec![kept]);
    checkpoint(&mut log);
    talk(&mut log, 100);
    let (loaded, read) = load(&log);
    assert!(log.bytes.len() > 1_000_000);
    assert!(read < 260_000, "read {read} of {}", log.bytes.len());
    assert_eq!(seqs(&loaded), format!("5 2000-{}", log.state.next_seq - 1));
    assert_eq!(loaded.state.next_seq, log.state.next_seq);
    assert_eq!(loaded.state.in_force.totals, log.state.in_force.totals);
    assert!(loaded.findings.is_empty());
}

/// Covers: G11, ST13.
#[test]
fn an_old_branch_is_reached_by_jumping() {
    let mut log = Log::parse("header");
    talk(&mut log, 20);
    compact(&mut log, None, Vec::new());
    log.add(user("on the old branch"));
    log.add(custom("belongs to the old branch"));
    let old = log.state.tip();
    talk(&mut log, 1500);
    checkpoint(&mut log);
    tip(&mut log, old);
    log.add(user("again here"));
    let (loaded, read) = load(&log);
    assert!(read < 160_000, "read {read} of {}", log.bytes.len());
    let new = log.state.next_seq - 1;
    assert_eq!(seqs(&loaded), format!("41-43 {new}"));
    // The same by asking for it, from a log whose tip is elsewhere.
    let other = load_bytes_at(&log.bytes, old);
    assert_eq!(seqs(&other), "41-43");
    assert_eq!(load_bytes_at(&log.bytes, None).path, Vec::<Seq>::new());
}

/// Covers: G11.
#[test]
fn many_jumps_and_a_wide_branch_need_no_recursion() {
    let mut log = Log::parse("header\nuser root");
    let root = log.state.tip();
    for i in 0..2000 {
        tip(&mut log, root);
        log.add(user(&format!("branch {i}")));
    }
    assert_eq!(load_bytes(&log.bytes).path.len(), 2);
    // A path that alternates between two ends of the log.
    let mut log = Log::parse("header\nuser root");
    let mut ends = [log.state.tip(), log.state.tip()];
    for i in 0..500 {
        tip(&mut log, ends[i % 2]);
        log.add(user(&format!("step {i}")));
        ends[i % 2] = log.state.tip();
    }
    let loaded = load_bytes(&log.bytes);
    assert_eq!(loaded.path.len(), 251);
    assert!(loaded.findings.is_empty());
}

/// Covers: G11, #29.
#[test]
fn a_chain_of_many_records_loads_without_recursion() {
    let mut bytes = Log::parse("header").bytes;
    let header = bytes.len() as u64;
    for seq in 1..=100_000u64 {
        let parent = if seq > 1 { format!(",\"parent\":{}", seq - 1) } else { String::new() };
        let mut line = format!("{{\"seq\":{seq}{parent},\"at\":\"1970-01-01T00:00:01.000Z\",\"type\":\"message\",\"role\":\"user\",\"content\":[]").into_bytes();
        let crc = segno_model::line::checksum(&line);
        line.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
        bytes.extend(line);
    }
    let loaded = load_bytes(&bytes);
    assert_eq!((loaded.path.len(), loaded.origin), (100_000, header));
}

/// Covers: G11, #24.
#[test]
fn a_result_far_behind_its_call_is_found() {
    let mut log = Log::parse("header\nuser a\ncall x c1,c2");
    let call = log.state.tip();
    log.add(result("c1", Some(2)));
    talk(&mut log, 200);
    tip(&mut log, call);
    log.add(result("c2", Some(2)));
    talk(&mut log, 200);
    checkpoint(&mut log);
    tip(&mut log, call);
    checkpoint(&mut log);
    talk(&mut log, 1);
    let loaded = load_bytes(&log.bytes);
    assert!(seqs(&loaded).starts_with("0-3 405 "), "{}", seqs(&loaded));
}

/// A result stands for its call on any branch, and so does what an edit put in its place.
/// Covers: G10.
#[test]
fn edits_of_results_on_other_branches_are_loaded() {
    for with_checkpoint in [false, true] {
        let mut log = Log::parse("header\nuser a\ncall x c1,c2");
        let call = log.state.tip();
        log.add(result("c1", Some(2)));
        tip(&mut log, call);
        log.add(result("c2", None));
        for target in [3, 5] {
            let edit = ContextEdit { target, edit: "omit".into(), ..ContextEdit::default() };
            log.add(Body::ContextEdit(edit));
        }
        tip(&mut log, call);
        if with_checkpoint {
            checkpoint(&mut log);
        }
        let loaded = load_bytes(&log.bytes);
        let edits = loaded.records.iter().filter(|r| matches!(r.body(), Body::ContextEdit(_)));
        assert_eq!(ranges(edits.map(Record::seq)), "6-7", "{with_checkpoint}");
    }
}

#[test]
fn edits_in_force_are_loaded_from_wherever_they_are() {
    let mut log = Log::parse("header\nuser a\nsay b");
    let old = log.state.tip();
    talk(&mut log, 300);
    for (target, edit) in [(1, "omit"), (2, "omit"), (3, "omit"), (2, "restore")] {
        let edit = ContextEdit { target, edit: edit.into(), ..ContextEdit::default() };
        log.add(Body::ContextEdit(edit));
    }
    talk(&mut log, 300);
    checkpoint(&mut log);
    tip(&mut log, old);
    let loaded = load_bytes(&log.bytes);
    let edits = loaded.records.iter().filter(|r| matches!(r.body(), Body::ContextEdit(_)));
    assert_eq!(ranges(edits.map(Record::seq)), "603 606");
    assert_eq!(ranges(loaded.path.iter().rev().copied()), "1-2");
}

/// Every copy of an older part, put at the end of a large log, is seen through: the state is that of
/// the log and not that of the copy's checkpoint.
///
/// Covers: G3, #20.
#[test]
fn a_checkpoint_in_a_copy_is_not_trusted() {
    let mut log = Log::parse("header");
    for _ in 0..6 {
        talk(&mut log, 40);
        checkpoint(&mut log);
    }
    for (from, to) in [(80, 83), (81, 84), (79, 200), (81, 82), (162, 170), (1, 82)] {
        let mut bytes = log.bytes.clone();
        bytes.extend_from_slice(&log.bytes[log.ends[from - 1]..log.ends[to]]);
        let loaded = load_bytes(&bytes);
        assert_eq!(loaded.state.next_seq, log.state.next_seq, "copy of {from} to {to}");
        assert_eq!(loaded.state.tip(), log.state.tip());
        assert_eq!(loaded.blocking().next(), None);
        assert!(loaded.tail.is_none());
    }
}

/// Covers: G3, #23.
#[test]
fn offsets_that_moved_cost_time_and_no_record() {
    let mut log = Log::parse("header\nuser a");
    let old = log.state.tip();
    talk(&mut log, 100);
    checkpoint(&mut log);
    tip(&mut log, old);
    talk(&mut log, 2);
    let text = String::from_utf8(log.bytes.clone()).unwrap();
    let loaded = load_bytes(text.replace('\n', "\r\n").as_bytes());
    assert_eq!(loaded.blocking().next(), None);
    assert_eq!(loaded.path, load_bytes(&log.bytes).path);
}

/// Covers: G3, G11.
#[test]
fn damage_before_the_active_context_is_left_to_check() {
    let mut log = Log::parse("header\nuser a");
    talk(&mut log, 400);
    let hurt = log.ends[100];
    compact(&mut log, None, Vec::new());
    checkpoint(&mut log);
    talk(&mut log, 2);
    let mut bytes = log.bytes;
    bytes[hurt..hurt + 50].fill(b'?');
    assert!(load_bytes(&bytes).findings.is_empty());
    assert!(crate::notation::scan_text(&bytes).contains("malformed in line 102"));
}

/// Covers: G3, G12.
#[test]
fn a_damaged_checkpoint_is_replaced_by_the_one_before_it() {
    let mut log = Log::parse("header");
    talk(&mut log, 100);
    checkpoint(&mut log);
    talk(&mut log, 100);
    checkpoint(&mut log);
    let hurt = log.ends[log.ends.len() - 2];
    talk(&mut log, 10);
    log.synced = log.state.next_seq.checked_sub(1);
    talk(&mut log, 1);
    let mut bytes = log.bytes.clone();
    bytes[hurt + 20..hurt + 60].fill(b'?');
    let loaded = load_bytes(&bytes);
    assert_eq!(loaded.state.in_force.totals, log.state.in_force.totals);
    assert_eq!(loaded.blocking().next(), None);
    assert!(loaded.findings.iter().any(|f| f.code == "malformed"));
}

/// Covers: G13.
#[test]
fn a_newer_format_is_read_only() {
    let newer = |major| {
        let Body::Session(mut header) = crate::notation::header() else { unreachable!() };
        header.format.major = major;
        let mut log = Log::default();
        log.add(Body::Session(header));
        log.add(user("a"));
        load_bytes(&log.bytes).check_writable().map_err(|e| e.to_string())
    };
    assert_eq!(newer(FORMAT.major), Ok(()));
    let why = "the session can only be read: its format 2.0 is newer than this version's 1.0";
    assert_eq!(newer(FORMAT.major + 1), Err(why.to_owned()));
}

/// A log that gets shorter while it is read (its tail was set aside) is read again.
#[test]
fn a_log_that_shrinks_is_loaded_as_it_is_now() {
    let mut log = Log::parse("header");
    talk(&mut log, 200);
    let now = &log.bytes[..log.ends[300]];
    let mut loader = Loader::new(log.bytes.len() as u64);
    while let Want::Read { at, len } = loader.next_want() {
        let at = usize::try_from(at).unwrap().min(now.len());
        loader.feed(&now[at..(at + len).min(now.len())]);
    }
    let loaded = loader.finish();
    assert_eq!((loaded.state.next_seq, loaded.tail.is_none()), (301, true));
}

/// A reference names a number, a place and a checksum. Another intact record with that number in that
/// place, as a restored or exchanged log has it, is not what was named. Covers: G3, G11, #54.
#[test]
fn a_jump_lands_on_the_record_that_was_named_and_on_no_other() {
    let mut log = Log::parse("header");
    // Far from line 1, which is read along with what follows it.
    talk(&mut log, 300);
    tip(&mut log, None);
    log.add(user("the beginning of it all"));
    let root = log.records.last().unwrap().clone();
    talk(&mut log, 600);
    tip(&mut log, Some(root.pos()));
    log.add(say("beside", &[]));
    checkpoint(&mut log);
    log.add(user("behind"));
    let (loaded, read) = load(&log);
    assert!(read < log.bytes.len() as u64 / 2, "it jumps: {read} of {}", log.bytes.len());
    assert_eq!((loaded.path.last().copied(), loaded.findings.len()), (Some(root.seq()), 0));
    let line = String::from_utf8(root.line.to_vec()).unwrap();
    let (covered, _) = segno_model::line::split_crc(line.as_bytes()).unwrap();
    let other = String::from_utf8(covered.to_vec()).unwrap().replace("beginning", "beginner!");
    let crc = segno_model::line::checksum(other.as_bytes());
    let other = format!("{other},\"crc\":\"{crc:08x}\"}}");
    let bytes = String::from_utf8(log.bytes.clone()).unwrap().replacen(&line, &other, 1);
    assert_eq!(bytes.len(), log.bytes.len());
    let loaded = load_bytes(bytes.as_bytes());
    assert!(!loaded.findings.is_empty(), "path {:?}", loaded.path);
}

/// Covers: G3.
#[test]
fn a_dangling_reference_is_told_with_the_place_of_what_refers() {
    let parent = r#"{"seq":3,"parent":3,"at":"1970-01-01T00:00:01.000Z","type":"message","role":"user","content":[]}"#;
    let tip = r#"{"seq":3,"at":"1970-01-01T00:00:01.000Z","type":"tip","tip":{"seq":99,"offset":5000,"crc":"00000000"}}"#;
    for line in [parent, tip] {
        let log = Log::parse(&format!("header\nuser a\nsay b\nsync\nsealed {line}\n"));
        let at = memchr::memmem::find(&log.bytes, b"{\"seq\":3").unwrap() as u64;
        let loaded = load_bytes(&log.bytes);
        let found: Vec<_> = loaded.findings.iter().map(|f| (f.code, f.offset)).collect();
        assert_eq!(found, [("dangling", Some(at))]);
    }
}
