//! Cases about a medium that fails under the writer.
//!
//! Responsible for: failures on command. Must not: depend on an implementation.

use super::desk::{Desk, Log, in_force, texts};
use super::{Ability, Bench, Fault, cases};
use crate::sessions::{answer, prompt};
use segno_model::line::decode;
use segno_model::store::{Level, SessionLog, SessionStore, StoreError};
use segno_model::{Record, SessionId};

cases! { "poison":
    /// After a failed sync the handle never writes again. Covers: G15.
    a_failed_sync_poisons;
    /// The same when the sync was asked for by itself. Covers: G15.
    a_failed_sync_alone_poisons;
    /// A failed sync moves no state: what was not acknowledged does not count. Covers: G15, MS8.
    a_failed_sync_moves_no_state;
    /// Reopening after a failed sync shows what is on the medium, and goes on. Covers: G15, G4.
    reopening_after_a_failed_sync_goes_on;
    /// A poisoned handle gives the right back when it is dropped. Covers: G15, G5.
    a_poisoned_handle_frees;
    /// A full medium is an error of its own; nothing is acknowledged and no half line stays. Covers: G16.
    a_full_medium_is_an_error;
    /// When there is room again, writing goes on. Covers: G16, MS8.
    work_goes_on_when_there_is_room;
    /// A write that was cut short leaves whole lines only. Covers: G16, G2.
    a_short_write_leaves_whole_lines;
    /// A failed append changes neither memory nor medium, and a later one works or says that none can.
    /// Covers: MS8, G15.
    a_failed_append_changes_nothing;
    /// A failed first append leaves no session behind that claims its records. Covers: MS7, G16.
    a_failed_first_append_leaves_nothing;
    /// A log that was replaced under its writer is not written to. Covers: G15.
    a_replaced_log_is_not_written;
    /// After each kind of failure the session opens and holds everything that was acknowledged.
    /// Covers: G1, G15, G16.
    the_acknowledged_outlives_every_failure;
    /// Failures do not add up: after each, the numbers have no gap. Covers: G3, MS8.
    failures_leave_no_gap;
}

async fn failed<H: Bench>(desk: &Desk<H>, log: &mut Log<H>, fault: Fault) -> StoreError {
    desk.bench.fail_next(fault);
    let result = desk.append(log, vec![prompt("lost"), answer("lost too")], Level::Synced).await;
    desk.bench.heal();
    result.expect_err("the append fails")
}

/// Lines on the medium that are not whole records.
fn broken_lines(bytes: &[u8]) -> usize {
    let whole = |line: &[u8]| line.strip_suffix(b"\n").is_some_and(|line| decode(line, 0).is_ok());
    bytes.split_inclusive(|b| *b == b'\n').filter(|line| !whole(line)).count()
}

async fn must_be_poisoned<H: Bench>(desk: &Desk<H>, log: &mut Log<H>) {
    for level in [Level::Written, Level::Synced] {
        let again = desk.append(log, vec![prompt("never")], level).await;
        assert!(matches!(again, Err(StoreError::Poisoned(_))), "{again:?}");
    }
    assert!(matches!(log.sync().await, Err(StoreError::Poisoned(_))));
}

async fn a_failed_sync_poisons<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (_, mut log, _) = desk.begun(vec![prompt("a")]).await;
    failed(&desk, &mut log, Fault::Sync).await;
    must_be_poisoned(&desk, &mut log).await;
}

async fn a_failed_sync_alone_poisons<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (_, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.write(&mut log, vec![answer("b")]).await;
    desk.bench.fail_next(Fault::Sync);
    assert!(log.sync().await.is_err());
    must_be_poisoned(&desk, &mut log).await;
}

async fn a_failed_sync_moves_no_state<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (_, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let before = in_force(log.state());
    failed(&desk, &mut log, Fault::Sync).await;
    assert_eq!(in_force(log.state()), before);
}

async fn reopening_after_a_failed_sync_goes_on<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    failed(&desk, &mut log, Fault::Sync).await;
    drop(log);
    let mut opened = desk.open(&id).await;
    let left = texts(&opened.active.records);
    assert!(
        ["a", "lost", "lost too"].starts_with(&left.iter().map(|t| &t[..]).collect::<Vec<_>>())
    );
    desk.put(&mut opened.log, vec![prompt("on")]).await;
    let all = desk.scan(&id).await;
    assert_eq!(all.texts().len(), left.len() + 1);
    assert_eq!(broken_lines(&desk.bytes(&id)), 0);
}

async fn a_poisoned_handle_frees<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    failed(&desk, &mut log, Fault::Sync).await;
    drop(log);
    assert!(desk.bench.elsewhere().open(&id).await.is_ok());
}

async fn a_full_medium_is_an_error<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let before = (desk.bytes(&id), in_force(log.state()));
    let error = failed(&desk, &mut log, Fault::WriteNoRoom).await;
    assert!(matches!(error, StoreError::NoRoom(_)), "{error:?}");
    assert_eq!((desk.bytes(&id), in_force(log.state())), before);
    assert_eq!(desk.scan(&id).await.texts(), ["a"]);
}

async fn work_goes_on_when_there_is_room<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    for fault in [Fault::WriteNoRoom, Fault::WriteShort, Fault::WriteNoRoom] {
        failed(&desk, &mut log, fault).await;
        desk.put(&mut log, vec![prompt("on")]).await;
    }
    assert_eq!(desk.scan(&id).await.texts(), ["a", "on", "on", "on"]);
    assert_eq!(broken_lines(&desk.bytes(&id)), 0);
}

async fn a_short_write_leaves_whole_lines<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let before = in_force(log.state());
    failed(&desk, &mut log, Fault::WriteShort).await;
    assert_eq!(in_force(log.state()), before);
    assert_eq!(broken_lines(&desk.bytes(&id)), 0);
    assert_eq!(desk.scan(&id).await.texts(), ["a"]);
}

async fn a_failed_append_changes_nothing<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let before = (desk.bytes(&id), in_force(log.state()));
    failed(&desk, &mut log, Fault::WriteBroken).await;
    assert_eq!((desk.bytes(&id), in_force(log.state())), before);
    match desk.append(&mut log, vec![answer("b")], Level::Synced).await {
        Ok(_) => assert_eq!(desk.scan(&id).await.texts(), ["a", "b"]),
        Err(e) => assert!(matches!(e, StoreError::Poisoned(_)), "{e:?}"),
    }
}

async fn a_failed_first_append_leaves_nothing<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    for fault in [Fault::WriteNoRoom, Fault::WriteShort, Fault::WriteBroken] {
        let (id, mut log) = desk.unborn();
        failed(&desk, &mut log, fault).await;
        assert_eq!((log.state().next_seq, log.state().tip()), (0, None));
        let retried = desk.append(&mut log, vec![prompt("again")], Level::Synced).await;
        if let Err(e) = &retried {
            assert!(matches!(e, StoreError::Poisoned(_)), "{e:?}");
        }
        drop(log);
        if desk.bench.log(&id).is_some() {
            let texts = desk.scan(&id).await.texts();
            let expected = if retried.is_ok() { vec!["again"] } else { Vec::new() };
            assert_eq!(texts, expected, "after {fault:?}");
        }
    }
}

async fn a_replaced_log_is_not_written<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Bytes) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let mut other = desk.bytes(&id);
    other.extend_from_slice(b"{\"somebody\":\"else\"}\n");
    desk.bench.set_log(&id, &other);
    let refused = desk.append(&mut log, vec![answer("b")], Level::Synced).await;
    assert!(matches!(refused, Err(StoreError::Poisoned(_))), "{refused:?}");
    must_be_poisoned(&desk, &mut log).await;
    assert_eq!(desk.bytes(&id), other);
}

async fn intact_after<H: Bench>(desk: &Desk<H>, id: &SessionId, acknowledged: &[String]) {
    let mut opened = desk.open(id).await;
    let left = texts(&opened.active.records);
    let kept: Vec<_> = left.iter().filter(|t| !t.starts_with("lost")).cloned().collect();
    assert_eq!(kept, acknowledged);
    desk.put(&mut opened.log, vec![prompt("on")]).await;
}

async fn the_acknowledged_outlives_every_failure<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let faults = [Fault::WriteNoRoom, Fault::WriteBroken, Fault::WriteShort, Fault::Sync];
    for fault in faults {
        let (id, mut log, _) = desk.begun(vec![prompt("a"), answer("b")]).await;
        desk.put(&mut log, vec![prompt("c")]).await;
        failed(&desk, &mut log, fault).await;
        drop(log);
        if desk.bench.can(Ability::Crash) {
            desk.bench.crash(0);
        }
        intact_after(&desk, &id, &["a".into(), "b".into(), "c".into()]).await;
    }
}

async fn failures_leave_no_gap<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("0")]).await;
    for fault in [Fault::WriteBroken, Fault::WriteNoRoom, Fault::WriteShort, Fault::Sync] {
        failed(&desk, &mut log, fault).await;
        drop(log);
        log = desk.open(&id).await.log;
        desk.put(&mut log, vec![prompt("on")]).await;
    }
    let seqs: Vec<_> = desk.scan(&id).await.records.iter().map(Record::seq).collect();
    assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
}
