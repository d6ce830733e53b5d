//! Cases about what resumes: it is what was (G10), with and without checkpoints.
//!
//! Responsible for: equality before and after reopening. Must not: depend on an implementation.

use super::desk::{Desk, Log, in_force};
use super::{Ability, Bench, cases};
use crate::sessions::{
    Generator, Shape, answer, call, every_kind, prompt, reply, result, summary, task,
};
use segno_model::record::{Approval, ApprovalState, CompactionState, Run, RunEnd, RunState, Task};
use segno_model::store::{Level, SessionLog};
use segno_model::{Body, Record, SessionId};

cases! { "checkpoints":
    /// After each type of record the state after reopening is the state before. Covers: G10, ST2.
    every_kind_survives_reopening;
    /// After each type of record the context after reopening is the context before. Covers: G10.
    every_kind_keeps_the_context;
    /// The same from a checkpoint on, which then is all that tells of them. Covers: G10, G11.
    every_kind_survives_a_checkpoint;
    /// The context after reopening is the context before, for every batch of random sessions.
    /// Covers: G10, ST2.
    every_batch_of_random_sessions;
    /// A finished compaction is followed by a checkpoint. Covers: G11.
    a_compaction_brings_a_checkpoint;
    /// A checkpoint comes after a few megabytes without one. Covers: G11.
    megabytes_bring_a_checkpoint;
    /// A checkpoint is not a node and changes neither tip nor context. Covers: MS5, G10.
    a_checkpoint_changes_nothing;
    /// Work that was closed is not open after reopening. Covers: G7, G9.
    closed_work_stays_closed;
    /// A run that was stopped by the user is over after reopening. Covers: G9.
    a_stop_survives;
    /// A task survives compaction and is gone when it was cleared. Covers: EV9, ST19.
    a_task_survives_compaction;
    /// Totals count every branch and survive compaction. Covers: ST16, US2, EV2.
    totals_survive_compaction;
    /// A damaged checkpoint costs bytes, not facts. Covers: G3, G12.
    a_damaged_checkpoint_costs_no_facts;
    /// Reopening again and again changes nothing and writes nothing. Covers: G10, G12.
    reopening_writes_nothing;
}

/// Reopens and compares; gives the log back.
async fn same_again<H: Bench>(desk: &Desk<H>, id: &SessionId, log: Log<H>, what: &str) -> Log<H> {
    let state = in_force(log.state());
    let context = desk.context_at(&log, log.state().tip()).await;
    let header = log.header().clone();
    drop(log);
    let opened = desk.open(id).await;
    assert_eq!(in_force(opened.log.state()), state, "the state after {what}");
    let again = super::desk::context_of(&opened.active, opened.log.state());
    assert_eq!(again, context, "the context after {what}");
    assert_eq!(opened.log.header(), &header);
    opened.log
}

async fn begun<H: Bench>(desk: &Desk<H>) -> (SessionId, Log<H>, Vec<Record>) {
    desk.begun(vec![prompt("a"), reply("b", &[call("call-1")])]).await
}

async fn kinds<H: Bench>(desk: &Desk<H>) -> usize {
    every_kind(begun(desk).await.2[1].pos()).len()
}

async fn every_kind_survives_reopening<H: Bench>(desk: Desk<H>) {
    let (id, mut log, records) = begun(&desk).await;
    for body in every_kind(records[1].pos()) {
        let kind = body.kind().to_owned();
        desk.put(&mut log, vec![body]).await;
        log = same_again(&desk, &id, log, &kind).await;
    }
}

async fn every_kind_keeps_the_context<H: Bench>(desk: Desk<H>) {
    for n in 0..kinds(&desk).await {
        let (id, mut log, records) = begun(&desk).await;
        let body = every_kind(records[1].pos()).swap_remove(n);
        let kind = body.kind().to_owned();
        let batch = vec![body, prompt(&format!("after {n}"))];
        desk.append(&mut log, batch, Level::Written).await.expect("the append succeeds");
        same_again(&desk, &id, log, &kind).await;
    }
}

async fn every_kind_survives_a_checkpoint<H: Bench>(desk: Desk<H>) {
    for n in 0..kinds(&desk).await {
        let (id, mut log, records) = begun(&desk).await;
        let body = every_kind(records[1].pos()).swap_remove(n);
        let kind = body.kind().to_owned();
        desk.put(&mut log, vec![body]).await;
        let done = summary("sum", None, Vec::new());
        desk.put(&mut log, vec![done, prompt("after")]).await;
        same_again(&desk, &id, log, &kind).await;
    }
}

async fn every_batch_of_random_sessions<H: Bench>(desk: Desk<H>) {
    for seed in 100..104 {
        let (id, mut log) = desk.unborn();
        let mut generator = Generator::new(Shape::random(seed));
        let mut before = Vec::new();
        let mut n = 0;
        while let Some(drafts) = generator.next_batch(log.state(), &before) {
            before = log.append(drafts, Level::Written).await.expect("the append succeeds");
            log = same_again(&desk, &id, log, &format!("batch {n} of seed {seed}")).await;
            n += 1;
        }
    }
}

fn checkpoints(kinds: &[&str]) -> usize {
    kinds.iter().filter(|kind| **kind == "checkpoint").count()
}

async fn a_compaction_brings_a_checkpoint<H: Bench>(desk: Desk<H>) {
    let (id, mut log, records) = begun(&desk).await;
    assert_eq!(checkpoints(&desk.scan(&id).await.kinds()), 0);
    desk.put(&mut log, vec![summary("sum", Some(records[0].pos()), Vec::new())]).await;
    assert_eq!(checkpoints(&desk.scan(&id).await.kinds()), 1);
    let marker = segno_model::record::Compaction::marker(CompactionState::Failed, None);
    desk.put(&mut log, vec![Body::Compaction(Box::new(marker))]).await;
    assert_eq!(checkpoints(&desk.scan(&id).await.kinds()), 1, "a failed one needs none");
}

async fn megabytes_bring_a_checkpoint<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = begun(&desk).await;
    let half = "x".repeat(512 << 10);
    for _ in 0..9 {
        desk.write(&mut log, vec![prompt(&half)]).await;
    }
    log.sync().await.expect("syncs");
    assert_eq!(checkpoints(&desk.scan(&id).await.kinds()), 1);
    same_again(&desk, &id, log, "nine long prompts").await;
}

async fn a_checkpoint_changes_nothing<H: Bench>(desk: Desk<H>) {
    let (id, mut log, records) = begun(&desk).await;
    let done = desk.put(&mut log, vec![summary("sum", Some(records[0].pos()), Vec::new())]).await;
    assert_eq!(log.state().tip(), Some(done[0].pos()));
    let next = desk.put(&mut log, vec![prompt("c")]).await;
    assert_eq!(next[0].envelope.parent, Some(done[0].seq()));
    let all = desk.scan(&id).await;
    let checkpoint = all.records.iter().find(|r| r.envelope.kind == "checkpoint").expect("one");
    assert_eq!(checkpoint.envelope.parent, None);
    assert!(checkpoint.seq() < next[0].seq());
}

async fn closed_work_stays_closed<H: Bench>(desk: Desk<H>) {
    let (id, mut log, records) = begun(&desk).await;
    let called = records[1].seq();
    desk.put(&mut log, every_kind(records[1].pos())).await;
    let answered = ApprovalState::Answered { allowed: true, scope: "once".into(), reason: None };
    let answered = Approval { call_id: "call-1".into(), call_seq: called, state: answered };
    desk.put(&mut log, vec![Body::Approval(answered), result("call-1", called, "done")]).await;
    let ended = RunState::Ended { end: RunEnd::Completed, reason: None };
    let failed = segno_model::record::Compaction::marker(CompactionState::Failed, None);
    let last = vec![Body::Compaction(Box::new(failed)), Body::Run(Run { run: 1, state: ended })];
    desk.put(&mut log, last).await;
    let log = same_again(&desk, &id, log, "closing").await;
    let now = &log.state().in_force;
    let open = (now.open_run.is_some(), now.open_actions.len(), now.open_approvals.len());
    assert_eq!((open, now.open_compaction), ((false, 0, 0), None));
    assert_eq!(now.open_children.len(), 1, "child-b is still running");
}

async fn a_stop_survives<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = begun(&desk).await;
    let run = |state| Body::Run(Run { run: 1, state });
    let started = RunState::Started { attempt: 1, owner: "pid 7".into() };
    desk.put(&mut log, vec![run(started)]).await;
    desk.put(&mut log, vec![run(RunState::Stopping { parked: Vec::new() })]).await;
    log = same_again(&desk, &id, log, "asking to stop").await;
    assert!(log.state().in_force.open_run.as_ref().is_some_and(|r| r.stopping));
    let ended = RunState::Ended { end: RunEnd::Stopped, reason: None };
    desk.put(&mut log, vec![run(ended)]).await;
    log = same_again(&desk, &id, log, "the stop").await;
    assert!(log.state().in_force.open_run.is_none());
}

async fn a_task_survives_compaction<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = begun(&desk).await;
    desk.put(&mut log, vec![task("first"), task("ship it")]).await;
    desk.put(&mut log, vec![summary("sum", None, Vec::new()), prompt("on")]).await;
    log = same_again(&desk, &id, log, "compaction").await;
    assert_eq!(log.state().in_force.task.as_ref().map(|t| t.goal.as_str()), Some("ship it"));
    desk.put(&mut log, vec![Body::Task(Task::default())]).await;
    desk.put(&mut log, vec![summary("sum 2", None, Vec::new())]).await;
    log = same_again(&desk, &id, log, "clearing").await;
    assert_eq!(log.state().in_force.task.as_ref().map(|t| t.goal.as_str()), Some(""));
}

async fn totals_survive_compaction<H: Bench>(desk: Desk<H>) {
    let shape = Shape { turns: 6, tools: 2, branch_every: 2, compact_every: 3, ..Shape::default() };
    let id = desk.generated(shape).await;
    let totals = desk.open(&id).await.log.state().in_force.totals;
    let counted = (totals.user_messages, totals.assistant_messages, totals.tool_results);
    assert_eq!(counted, (6, 12, 12));
    assert_eq!((totals.compactions, totals.requests, totals.runs), (2, 12, 6));
    assert_eq!(totals.usage.input, 12 * 100 + 2 * 9000);
}

async fn a_damaged_checkpoint_costs_no_facts<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let (id, mut log, records) = begun(&desk).await;
    desk.put(&mut log, every_kind(records[1].pos())).await;
    desk.put(&mut log, vec![summary("sum", Some(records[0].pos()), Vec::new())]).await;
    desk.put(&mut log, vec![prompt("c"), answer("d")]).await;
    desk.put(&mut log, vec![prompt("e")]).await;
    let (name, tip) = (log.state().in_force.name.clone(), log.state().tip());
    drop(log);
    desk.change(&id, |bytes| {
        let text = b"\"type\":\"checkpoint\"";
        let at = bytes.windows(text.len()).position(|w| w == text).expect("a checkpoint");
        bytes[at..at + 4].copy_from_slice(b"!!!!");
    });
    let state = desk.read(&id).await.state;
    assert_eq!((state.in_force.name, state.in_force.tip), (name, tip));
    let all = desk.scan(&id).await;
    assert!(!all.findings.is_empty(), "the damage was not said");
    assert!(all.texts().ends_with(&["c".into(), "d".into(), "e".into()]));
}

async fn reopening_writes_nothing<H: Bench>(desk: Desk<H>) {
    let id = desk.generated(Shape::random(42)).await;
    let bytes = desk.bytes(&id);
    let mut log = desk.open(&id).await.log;
    for n in 0..4 {
        log = same_again(&desk, &id, log, &format!("opening {n}")).await;
        assert_eq!(desk.bytes(&id), bytes);
    }
}
