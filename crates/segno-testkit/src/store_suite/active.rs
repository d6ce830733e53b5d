//! Cases about the active part: what resuming reads, and how much of it.
//!
//! Responsible for: the active part at any tip. Must not: depend on an implementation.

use super::desk::{Desk, Log, context_of, texts};
use super::navigation::go;
use super::{Bench, cases};
use crate::sessions::{Shape, answer, call, prompt, reply, result, summary};
use segno_model::store::{ForkPoint, SessionLog};
use segno_model::{Pos, Record, SessionId};

cases! { "active":
    /// Without a compaction the whole path is active. Covers: ST2.
    the_whole_path_without_a_compaction;
    /// Nothing is active before everything. Covers: ST8, ST14.
    nothing_is_active_at_the_beginning;
    /// A compaction collapses what is before its first kept record; the originals stay. Covers: ST17.
    a_compaction_collapses_the_old;
    /// What follows a compaction is active. Covers: ST18.
    what_follows_a_compaction_stays;
    /// Single records that a compaction keeps are active, wherever they are. Covers: ST17, #54.
    single_kept_records_are_active;
    /// A compaction may keep nothing. Covers: ST17.
    a_compaction_may_keep_nothing;
    /// Of two compactions the newest counts, and the older one vanishes. Covers: ST17, EV3.
    the_newest_compaction_counts;
    /// On a branch from before a compaction, that compaction does not exist. Covers: ST11, ST17.
    an_old_branch_knows_no_later_compaction;
    /// After a compaction, a branch below it is active through it. Covers: ST11, ST18.
    a_branch_below_a_compaction;
    /// Results are found wherever they lie, also as siblings off the path. Covers: G6, ST2.
    results_off_the_path_belong_to_their_call;
    /// Results that came in another order than their calls are all found. Covers: G6.
    results_out_of_order_are_found;
    /// What an active part leaves out never changes the context at any node. Covers: G10.
    every_nodes_context_is_the_one_it_had;
    /// Opening reads about what is active, however long the history is. Covers: G11.
    opening_reads_what_is_active;
    /// Reading an old branch reads about that branch. Covers: G11.
    an_old_branch_reads_little;
    /// A fork's active part is its source's. Covers: #54, G10.
    a_forks_active_part_is_its_sources;
    /// Settings from before the active part are in force. Covers: G11, ST2.
    settings_from_before_are_in_force;
    /// Nothing is found wrong with an intact session. Covers: G3.
    nothing_is_wrong_with_the_intact;
}

async fn reopened<H: Bench>(desk: &Desk<H>, id: &SessionId) -> (Log<H>, Vec<String>) {
    let opened = desk.open(id).await;
    let texts = texts(&opened.active.records);
    (opened.log, texts)
}

/// The context's texts at the tip, by way of a reopened log.
async fn context<H: Bench>(desk: &Desk<H>, id: &SessionId) -> String {
    let opened = desk.open(id).await;
    context_of(&opened.active, opened.log.state())
}

fn has(context: &str, texts: &[&str], absent: &[&str]) {
    for text in texts {
        assert!(context.contains(text), "{text} is not in {context}");
    }
    for text in absent {
        assert!(!context.contains(text), "{text} is in {context}");
    }
}

async fn five<H: Bench>(desk: &Desk<H>) -> (SessionId, Log<H>, Vec<Record>) {
    let batch =
        vec![prompt("one!"), answer("two!"), prompt("three!"), answer("four!"), prompt("five!")];
    desk.begun(batch).await
}

async fn the_whole_path_without_a_compaction<H: Bench>(desk: Desk<H>) {
    let (id, log, _) = five(&desk).await;
    drop(log);
    let (_, texts) = reopened(&desk, &id).await;
    assert_eq!(texts, ["one!", "two!", "three!", "four!", "five!"]);
}

async fn nothing_is_active_at_the_beginning<H: Bench>(desk: Desk<H>) {
    let (_, log, _) = five(&desk).await;
    let active = log.active(None).await.expect("it can be read");
    let context = segno_model::context::build(&active.records, None);
    assert!(context.messages.is_empty(), "{context:?}");
}

async fn a_compaction_collapses_the_old<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = five(&desk).await;
    desk.put(&mut log, vec![summary("sum!", Some(nodes[3].pos()), Vec::new())]).await;
    drop(log);
    let context = context(&desk, &id).await;
    has(&context, &["sum!", "four!", "five!"], &["one!", "two!", "three!"]);
    assert_eq!(desk.scan(&id).await.texts().len(), 6);
}

async fn what_follows_a_compaction_stays<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = five(&desk).await;
    desk.put(&mut log, vec![summary("sum!", Some(nodes[4].pos()), Vec::new())]).await;
    desk.put(&mut log, vec![answer("six!"), prompt("seven!")]).await;
    drop(log);
    has(&context(&desk, &id).await, &["sum!", "five!", "six!", "seven!"], &["four!"]);
}

async fn single_kept_records_are_active<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = five(&desk).await;
    let kept = vec![nodes[0].pos(), nodes[2].pos()];
    desk.put(&mut log, vec![summary("sum!", Some(nodes[4].pos()), kept)]).await;
    drop(log);
    has(&context(&desk, &id).await, &["sum!", "one!", "three!", "five!"], &["two!", "four!"]);
}

async fn a_compaction_may_keep_nothing<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = five(&desk).await;
    desk.put(&mut log, vec![summary("sum!", None, Vec::new()), prompt("six!")]).await;
    drop(log);
    let kept_nothing = context(&desk, &id).await;
    has(&kept_nothing, &["sum!", "six!"], &["one!", "two!", "three!", "four!", "five!"]);
}

async fn the_newest_compaction_counts<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = five(&desk).await;
    desk.put(&mut log, vec![summary("old!", Some(nodes[1].pos()), Vec::new())]).await;
    let six = desk.put(&mut log, vec![answer("six!"), prompt("seven!")]).await;
    let kept = vec![nodes[2].pos()];
    desk.put(&mut log, vec![summary("new!", Some(six[1].pos()), kept)]).await;
    drop(log);
    let newest = context(&desk, &id).await;
    has(&newest, &["new!", "three!", "seven!"], &["old!", "one!", "four!", "five!", "six!"]);
}

async fn an_old_branch_knows_no_later_compaction<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = five(&desk).await;
    desk.put(&mut log, vec![summary("sum!", Some(nodes[4].pos()), Vec::new())]).await;
    desk.put(&mut log, vec![answer("six!")]).await;
    go(&desk, &mut log, Some(nodes[2].pos())).await;
    let at_once = desk.context_at(&log, log.state().tip()).await;
    drop(log);
    assert_eq!(context(&desk, &id).await, at_once);
    has(&at_once, &["one!", "two!", "three!"], &["sum!", "four!", "five!", "six!"]);
}

async fn a_branch_below_a_compaction<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = five(&desk).await;
    desk.put(&mut log, vec![summary("sum!", Some(nodes[4].pos()), Vec::new())]).await;
    let six = desk.put(&mut log, vec![answer("six!"), prompt("seven!")]).await;
    go(&desk, &mut log, Some(six[0].pos())).await;
    desk.put(&mut log, vec![prompt("seven x!")]).await;
    drop(log);
    let below = context(&desk, &id).await;
    has(&below, &["sum!", "five!", "six!", "seven x!"], &["four!", "\"seven!"]);
}

async fn results_off_the_path_belong_to_their_call<H: Bench>(desk: Desk<H>) {
    let calls = [call("a"), call("b")];
    let (id, mut log, nodes) = desk.begun(vec![prompt("go!"), reply("calling!", &calls)]).await;
    let called: Pos = nodes[1].pos();
    desk.put(&mut log, vec![result("a", called.seq, "result a!")]).await;
    go(&desk, &mut log, Some(called)).await;
    desk.put(&mut log, vec![result("b", called.seq, "result b!"), prompt("next!")]).await;
    drop(log);
    let opened = desk.open(&id).await;
    let built = segno_model::context::build(&opened.active.records, opened.log.state().tip());
    assert!(built.unanswered.is_empty(), "{:?}", built.unanswered);
    has(&format!("{:?}", built.messages), &["result a!", "result b!", "next!"], &[]);
}

async fn results_out_of_order_are_found<H: Bench>(desk: Desk<H>) {
    let calls = [call("a"), call("b"), call("c")];
    let (id, mut log, nodes) = desk.begun(vec![prompt("go!"), reply("", &calls)]).await;
    for name in ["c", "a", "b"] {
        desk.put(&mut log, vec![result(name, nodes[1].seq(), &format!("of {name}!"))]).await;
    }
    desk.put(&mut log, vec![answer("done!")]).await;
    drop(log);
    let opened = desk.open(&id).await;
    let built = segno_model::context::build(&opened.active.records, opened.log.state().tip());
    assert!(built.unanswered.is_empty(), "{:?}", built.unanswered);
    let text = format!("{:?}", built.messages);
    let at = |what: &str| text.find(what).expect(what);
    assert!(at("of a!") < at("of b!") && at("of b!") < at("of c!"), "{text}");
}

async fn every_nodes_context_is_the_one_it_had<H: Bench>(desk: Desk<H>) {
    let shape = Shape { turns: 5, tools: 2, branch_every: 2, compact_every: 3, ..Shape::default() };
    let id = desk.generated(shape).await;
    let all = desk.scan(&id).await;
    let (log, _) = reopened(&desk, &id).await;
    for record in all.records.iter().filter(|r| r.is_node()) {
        let whole = segno_model::context::build(&all.records, Some(record.pos()));
        let active = desk.context_at(&log, Some(record.pos())).await;
        assert_eq!(active, format!("{:#?}", whole.messages), "at record {}", record.seq());
    }
}

async fn opening_reads_what_is_active<H: Bench>(desk: Desk<H>) {
    let id = desk.generated(Shape { turns: 4, ..Shape::long(3 << 20, 2) }).await;
    let small = desk.bytes(&id).len() as u64;
    let id = desk.generated(Shape::long(3 << 20, 2)).await;
    let large = desk.bytes(&id).len() as u64;
    assert!(large > 10 * small, "{large} is not long");
    let opened = desk.open(&id).await;
    let read = opened.active.bytes_read;
    assert!(read > 0 && read < 3 * small + (256 << 10), "{read} of {large} bytes were read");
    let read = desk.read(&id).await.active.bytes_read;
    assert!(read > 0 && read < 3 * small + (256 << 10), "{read} of {large} bytes were read");
}

async fn an_old_branch_reads_little<H: Bench>(desk: Desk<H>) {
    let id = desk.generated(Shape::long(2 << 20, 2)).await;
    let large = desk.bytes(&id).len() as u64;
    let first = desk.scan(&id).await.records.iter().find(|r| r.is_node()).expect("a node").pos();
    let (mut log, _) = reopened(&desk, &id).await;
    go(&desk, &mut log, Some(first)).await;
    desk.put(&mut log, vec![answer("another way")]).await;
    let read = log.active(log.state().tip()).await.expect("it can be read").bytes_read;
    assert!(read < large / 4, "{read} of {large} bytes were read");
    drop(log);
    let read = desk.open(&id).await.active.bytes_read;
    assert!(read < large / 2, "{read} of {large} bytes were read");
}

async fn a_forks_active_part_is_its_sources<H: Bench>(desk: Desk<H>) {
    let shape = Shape { turns: 6, tools: 1, compact_every: 4, branch_every: 5, ..Shape::default() };
    let id = desk.generated(shape).await;
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    assert_eq!(context(&desk, &fork).await, context(&desk, &id).await);
}

async fn settings_from_before_are_in_force<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = five(&desk).await;
    let called = desk.put(&mut log, vec![reply("x", &[call("call-1")])]).await[0].pos();
    desk.put(&mut log, crate::sessions::every_kind(called)).await;
    let tip = log.state().tip();
    desk.put(&mut log, vec![summary("sum!", tip, vec![nodes[0].pos()])]).await;
    for n in 0..20 {
        desk.put(&mut log, vec![prompt(&format!("{n}!"))]).await;
    }
    let before = super::desk::in_force(log.state());
    drop(log);
    assert_eq!(super::desk::in_force(desk.open(&id).await.log.state()), before);
}

async fn nothing_is_wrong_with_the_intact<H: Bench>(desk: Desk<H>) {
    for seed in 20..26 {
        let id = desk.generated(Shape::random(seed)).await;
        assert!(desk.open(&id).await.active.findings.is_empty());
        assert!(desk.read(&id).await.active.findings.is_empty());
        assert!(desk.scan(&id).await.findings.is_empty());
    }
}
