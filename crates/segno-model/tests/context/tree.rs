//! The tree as people see it: tips, branches, fork points, drawn rows, counts.

use crate::notation::Session;
use segno_model::tree::{MoveError, PathStats, Tree};
use segno_model::{Record, Seq};
use std::fmt::Write as _;

const BRANCHED: &str = "
    u one
    a two
    u three
    a four
    tip 2
    u 3x
    a 4x
    tip 1
    a 2y";

fn tip(session: &Session) -> Option<Seq> {
    session.tip().map(|t| t.seq)
}

/// One row a line: depth by indentation, `*` on the path, `.` at the end of a branch.
fn drawn(session: &Session) -> String {
    let tree = Tree::new(&session.records);
    let mut out = String::new();
    for row in tree.rows(tip(session)) {
        let path = if row.on_path { "*" } else { "" };
        let end = if row.is_tip { "." } else { "" };
        let label = row.label.map_or(String::new(), |l| format!(" {l}"));
        let parent = row.parent.map_or("-".to_owned(), |p| p.to_string());
        let indent = "  ".repeat(row.depth);
        writeln!(out, "{indent}{} <{parent} {path}{end}{label}", row.seq).expect("text");
    }
    out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Covers: ST7, ST11, #29. Children come oldest first; a chain does not move to the right.
#[test]
fn rows_are_flat_and_in_order() {
    let rows = drawn(&Session::parse(BRANCHED));
    let expected = "\
1 <- *
  2 <1
    3 <2
    4 <3 .
    6 <2
    7 <6 .
  9 <1 *.";
    assert_eq!(rows, expected);
}

#[test]
fn rows_carry_labels_in_force() {
    let session = Session::parse("u one\na two\nlabel 1 begin\nlabel 2 x\nlabel 2 ");
    assert_eq!(drawn(&session), "1 <- * begin\n2 <1 *.");
}

#[test]
fn rows_of_two_beginnings() {
    let session = Session::parse("u one\ntip none\nu two");
    assert_eq!(drawn(&session), "1 <- .\n3 <- *.");
}

#[test]
fn rows_of_nothing() {
    assert_eq!(drawn(&Session::parse("name x")), "");
}

/// Covers: ST10.
#[test]
fn fork_points_are_the_prompts_of_the_path_oldest_first() {
    let session = Session::parse("u one\na two\nn note\nu three\nr c gone\ntip 2\nu x");
    let tree = Tree::new(&session.records);
    assert_eq!(tree.fork_points(tip(&session)), [1, 7]);
    assert_eq!(tree.fork_points(Some(5)), [1, 4]);
    assert_eq!(tree.fork_points(None), [] as [Seq; 0]);
}

/// Covers: ST8, ST9.
#[test]
fn a_fork_begins_before_a_prompt_of_the_current_path() {
    let session = Session::parse(BRANCHED);
    let tree = Tree::new(&session.records);
    let at = Some(7);
    assert_eq!(tree.fork_before(at, 1), Ok(None));
    assert_eq!(tree.fork_before(at, 6), Ok(Some(2)));
    assert_eq!(tree.fork_before(at, 3), Err(MoveError::OtherBranch(3)));
    assert_eq!(tree.fork_before(at, 2), Err(MoveError::NotAPrompt(2)));
    assert_eq!(tree.fork_before(at, 5), Err(MoveError::Unknown(5)));
    assert_eq!(tree.fork_before(at, 99), Err(MoveError::Unknown(99)));
}

/// Covers: ST11.
#[test]
fn switching_goes_to_the_end_of_another_branch() {
    let session = Session::parse(BRANCHED);
    let tree = Tree::new(&session.records);
    let at = tip(&session);
    assert_eq!(tree.tips().collect::<Vec<_>>(), [4, 7, 9]);
    assert_eq!(tree.branch_points().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(tree.check_switch(at, 4), Ok(()));
    assert_eq!(tree.check_switch(at, 9), Err(MoveError::Current(9)));
    assert_eq!(tree.check_switch(at, 2), Err(MoveError::Interior(2)));
    assert_eq!(tree.check_switch(at, 5), Err(MoveError::Unknown(5)));
    assert_eq!(tree.children(2).collect::<Vec<_>>(), [3, 6]);
    assert_eq!(tree.children(99).count(), 0);
    assert_eq!(tree.parent(6), Some(2));
    assert_eq!(tree.parent(1), None);
}

/// Covers: ST16, ST12. Only the path counts; compactions and summaries are no messages.
#[test]
fn stats_count_the_path_only() {
    let session = Session::parse(
        "u one\na %10 call c1 bash\nr c1 out\na %20 done\ntip 1\na %5 other\nc SUM\nb branch\nu two\nn no",
    );
    let tree = Tree::new(&session.records);
    let stats = tree.stats(Some(4));
    assert_eq!((stats.prompts, stats.replies, stats.results), (1, 2, 1));
    assert_eq!(stats.usage.input, 30);
    let stats = tree.stats(tip(&session));
    assert_eq!((stats.prompts, stats.replies, stats.results), (2, 1, 0));
    assert_eq!(stats.usage.input, 5);
    assert_eq!(tree.stats(None), PathStats::default());
}

/// Covers: ST6, #23. What is missing is named, with what stands for it.
#[test]
fn bridges_are_reported() {
    let session = Session::parse("u one\n-a lost\nu three\na four\n-tip 3\n^5 u six");
    let tree = Tree::new(&session.records);
    let bridges: Vec<_> = tree.bridges().map(|b| (b.child, b.missing, b.to)).collect();
    assert_eq!(bridges, [(3, 2, Some(1)), (6, 5, Some(4))]);
    assert_eq!(tree.bridge(4), None);
    assert!(tree.bridge(3).is_some_and(|b| b.finding().sentence.contains("record 2")));
}

/// Covers: #20. A repeat of a record is one node.
#[test]
fn repeats_collapse() {
    let session = Session::parse("u one\na two\nu three");
    let mut records = session.records.clone();
    records.extend_from_slice(&session.records);
    let tree = Tree::new(&records);
    assert_eq!(tree.nodes().count(), 3);
    assert_eq!(tree.tips().collect::<Vec<_>>(), [3]);
    let once = segno_model::context::build(&session.records, session.tip());
    let twice = segno_model::context::build(&records, session.tip());
    assert_eq!(crate::notation::messages(&once), crate::notation::messages(&twice));
}

/// A session of prompts with these parents: record 1 is the first.
fn prompts(parents: impl IntoIterator<Item = Seq>) -> Vec<Record> {
    let one = Session::parse("u one").records.remove(1);
    let prompt = |(i, parent): (usize, Seq)| {
        let mut record = one.clone();
        record.envelope.seq = i as Seq + 1;
        record.envelope.parent = (parent > 0).then_some(parent);
        record
    };
    parents.into_iter().enumerate().map(prompt).collect()
}

fn built(records: &[Record]) -> usize {
    segno_model::context::build(records, records.last().map(Record::pos)).messages.len()
}

/// Covers: #29, ST7. 100,000 nodes in a row, without recursion.
#[test]
fn a_deep_chain_works() {
    let records = prompts(0..100_000);
    let tree = Tree::new(&records);
    assert_eq!(tree.path(Some(100_000)).len(), 100_000);
    assert_eq!(tree.rows(Some(100_000)).last().map(|r| r.depth), Some(0));
    assert_eq!(built(&records), 100_000);
}

/// Covers: #29. 2,000 ways at one node.
#[test]
fn a_wide_branching_works() {
    let records = prompts([0].into_iter().chain(std::iter::repeat_n(1, 2_000)));
    let tree = Tree::new(&records);
    assert_eq!(tree.children(1).count(), 2_000);
    assert_eq!(tree.rows(Some(1)).len(), 2_001);
    assert_eq!(tree.tips().count(), 2_000);
    assert_eq!(built(&records), 2);
}

/// Covers: #29. Branching at every step makes a deep staircase.
#[test]
fn a_staircase_of_branches_works() {
    let parents = (0..20_000).map(|i: Seq| if i == 0 { 0 } else { (i - 1) / 2 * 2 + 1 });
    let records = prompts(parents);
    let rows = Tree::new(&records).rows(Some(1)).len();
    assert_eq!(rows, 20_000);
    assert_eq!(built(&records), 10_001);
}

/// Covers: #29, #38. Many turns of one call id, and many results for one call, in linear time.
#[test]
fn long_sessions_of_repeated_ids_work() {
    let pair = Session::parse("a call x bash\nr x out");
    let mut records = Vec::new();
    for seq in 1..=40_000_u64 {
        let is_call = seq % 2 == 1 && seq <= 20_000;
        let mut record = pair.records[if is_call { 1 } else { 2 }].clone();
        record.envelope.seq = seq;
        record.envelope.parent = seq.checked_sub(1).filter(|p| *p > 0);
        records.push(record);
    }
    let context = segno_model::context::build(&records, records.last().map(Record::pos));
    assert_eq!(context.unanswered, []);
}
