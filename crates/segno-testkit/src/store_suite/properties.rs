//! What must hold for any session, cut or changed anywhere.
//!
//! Responsible for: properties that property tests feed with random sessions. Must not: choose at
//! random; whoever calls does, so that a failure can be repeated.

use super::Bench;
use super::desk::{Desk, context_of, in_force, texts};
use crate::sessions::{Shape, prompt};
use segno_model::context;
use segno_model::finding::Severity;
use segno_model::line::decode;
use segno_model::state::State;
use segno_model::store::SessionLog;
use segno_model::{Record, SessionId};
use std::future::Future;

/// Runs a case's future to its end.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(future)
}

/// What a log that is intact up to some byte says: its records and the state after them.
struct Reference {
    records: Vec<Record>,
    state: State,
}

/// Reads whole records from the beginning until there are no more. A complete last record without its
/// line end is one.
fn reference(bytes: &[u8]) -> Reference {
    let mut reference = Reference { records: Vec::new(), state: State::default() };
    for line in bytes.split(|b| *b == b'\n') {
        let Ok(record) = decode(line, reference.state.end) else { break };
        reference.state.apply(&record);
        reference.records.push(record);
    }
    reference
}

/// Cuts right before, at and right behind some line ends, and all over the log: about `count`, spread
/// evenly from a beginning that depends on `seed`.
#[must_use]
pub fn spread_cuts(ends: &[usize], seed: u64, count: usize) -> Vec<usize> {
    let length = ends.last().copied().unwrap_or(1);
    let step = (2 * length / count.max(1)).max(1);
    let first = 1 + usize::try_from(seed).unwrap_or(0) % step;
    let every = (6 * ends.len() / count.max(1)).max(1);
    let around = ends.iter().step_by(every).flat_map(|end| [end - 1, *end, end + 1]);
    (first..length).step_by(step).chain(around).collect()
}

/// G4 and G10: for each cut of a session of this shape, what remains opens, has the state and the
/// context of its whole records, goes on, and is intact afterwards. `cuts` chooses among the log's
/// lengths; it is given the offsets at which lines end.
pub fn cut_anywhere<H: Bench>(shape: Shape, cuts: impl Fn(&[usize]) -> Vec<usize>) {
    let desk = Desk::<H>::new();
    block_on(async {
        let id = desk.generated(shape).await;
        let whole = desk.bytes(&id);
        let ends: Vec<usize> =
            whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
        for cut in cuts(&ends) {
            let cut = cut.clamp(1, whole.len());
            desk.bench.set_log(&id, &whole[..cut]);
            check_cut(&desk, &id, &whole[..cut]).await;
        }
    });
}

async fn check_cut<H: Bench>(desk: &Desk<H>, id: &SessionId, left: &[u8]) {
    let expected = reference(left);
    let cut = left.len();
    let mut opened = desk.open(id).await;
    assert_eq!(in_force(opened.log.state()), in_force(&expected.state), "cut at {cut}");
    let tip = expected.state.tip();
    let context = format!("{:#?}", context::build(&expected.records, tip).messages);
    assert_eq!(context_of(&opened.active, opened.log.state()), context, "cut at {cut}");
    desk.put(&mut opened.log, vec![prompt("on")]).await;
    let state = in_force(opened.log.state());
    drop(opened);
    let all = desk.scan(id).await;
    assert!(all.findings.is_empty(), "cut at {cut}: {:?}", all.findings);
    let on = [texts(&expected.records), vec!["on".to_owned()]].concat();
    assert_eq!(all.texts(), on, "cut at {cut}");
    assert_eq!(in_force(desk.open(id).await.log.state()), state, "cut at {cut}");
}

/// G3: whatever one byte of a session becomes, reading does not fail, at most the records of the line
/// that it was in (two, when it was a line end) are not read, and something is said about it.
pub fn one_byte_changed<H: Bench>(shape: Shape, at: usize, to: u8) {
    let desk = Desk::<H>::new();
    block_on(async {
        let id = desk.generated(shape).await;
        let whole = desk.bytes(&id);
        let at = at % whole.len();
        let before = desk.scan(&id).await;
        desk.change(&id, |bytes| bytes[at] = to);
        let changed = desk.bytes(&id);
        let after = desk.scan(&id).await;
        if changed != whole {
            assert!(!after.findings.is_empty(), "nothing was said about byte {at}");
        }
        let read = |seq| after.records.iter().any(|r| r.seq() == seq);
        let lost: Vec<_> = before.seqs().into_iter().filter(|seq| !read(*seq)).collect();
        let line = whole[..at].iter().filter(|b| **b == b'\n').count() as u64;
        let near = |seq: &u64| *seq == line || (whole[at] == b'\n' && *seq == line + 1);
        let tail = after.findings.iter().any(|f| f.severity < Severity::Damage);
        let above = |seq: &u64| tail && *seq > line;
        assert!(lost.iter().all(|seq| near(seq) || above(seq)), "byte {at} cost {lost:?}");
        drop(desk.judge(&id).await);
        assert_eq!(desk.bytes(&id), changed, "judging wrote");
    });
}
