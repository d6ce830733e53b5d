//! Cases about the writer's right.
//!
//! Responsible for: who may append. Must not: depend on an implementation.

use super::desk::{Desk, in_force, texts};
use super::properties::block_on;
use super::{Ability, Bench, cases};
use crate::sessions::{answer, prompt};
use crate::sim_clock::EPOCH;
use segno_model::SessionId;
use segno_model::batch::Draft;
use segno_model::finding::Severity;
use segno_model::store::{
    ForkPoint, HeldSession, Judged, Level, Scanned, SessionLog, SessionStore, StoreError,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

cases! { "ownership":
    /// A second opener is told who holds the session. Covers: G5, #102.
    the_second_opener_is_told_who_holds_it;
    /// The right is exclusive within one process too. Covers: G5, LE1.
    one_process_opens_once;
    /// The first append takes the right. Covers: G5.
    the_creator_holds_it;
    /// A log that does not exist yet holds nothing. Covers: G5, MS6.
    an_unborn_log_holds_nothing;
    /// Dropping the log gives the right back. Covers: G5.
    dropping_the_log_frees;
    /// Dropping a session that was never judged gives the right back. Covers: G5.
    dropping_the_unjudged_frees;
    /// The right ends with the process that held it. Covers: G5, G9.
    a_crash_frees;
    /// Whoever is refused can read, scan and fork. Covers: G5.
    the_refused_can_read_and_fork;
    /// A refused opener does not disturb the holder. Covers: G5, #102.
    the_refused_disturb_nobody;
    /// Readers come and go without keeping a writer out. Covers: G5.
    readers_keep_nobody_out;
    /// The list says which sessions are being written. Covers: G5, MG4.
    the_list_says_who_is_held;
    /// Other sessions stay free. Covers: G5.
    other_sessions_stay_free;
    /// Of many openers exactly one gets the right, again and again, and lines never mix. Covers: #102.
    of_many_openers_one_wins;
    /// A writer whose right was taken away can neither append nor sync nor store. Covers: G5, #107.
    the_revoked_cannot_write;
    /// A writer whose right was taken away does not free the next holder's when it ends. Covers: #107, LE5.
    the_revoked_frees_nobody;
    /// Threads that open the same session take turns; each one's lines are whole and in order.
    /// Covers: G5, #102, LE18.
    threads_take_turns;
    /// A reader beside a writer never sees a broken or a missing record. Covers: G5, #126.
    a_reader_beside_a_writer;
    /// Opening what does not exist is an error and creates nothing. Covers: MG10.
    opening_nothing_is_an_error;
}

/// The refusal of an open, or nothing when it succeeds (the right is then given back).
async fn refusal<S: SessionStore>(store: &S, id: &SessionId) -> Option<StoreError> {
    store.open(id).await.err()
}

async fn the_second_opener_is_told_who_holds_it<H: Bench>(desk: Desk<H>) {
    let (id, _log, _) = desk.begun(vec![prompt("a")]).await;
    match refusal(&desk.bench.elsewhere(), &id).await {
        Some(StoreError::Held(owner)) => {
            assert!(
                owner.pid != 0 && !owner.host.is_empty() && !owner.boot.is_empty(),
                "{owner:?}"
            );
        }
        other => panic!("expected to be told the holder, not {other:?}"),
    }
}

async fn one_process_opens_once<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    let store = desk.bench.store();
    let held = store.open(&id).await.expect("it is free");
    assert!(matches!(refusal(store, &id).await, Some(StoreError::Held(_))));
    let judged = held.judge().await.expect("judged");
    assert!(matches!(refusal(store, &id).await, Some(StoreError::Held(_))));
    drop(judged);
    assert!(refusal(store, &id).await.is_none());
}

async fn the_creator_holds_it<H: Bench>(desk: Desk<H>) {
    let (id, mut log) = desk.unborn();
    desk.write(&mut log, vec![prompt("a")]).await;
    assert!(matches!(refusal(&desk.bench.elsewhere(), &id).await, Some(StoreError::Held(_))));
    assert!(matches!(refusal(desk.bench.store(), &id).await, Some(StoreError::Held(_))));
}

async fn an_unborn_log_holds_nothing<H: Bench>(desk: Desk<H>) {
    let header = desk.new_header();
    let _idle = desk.bench.store().create(header.clone());
    let mut log = desk.bench.elsewhere().create(header.clone());
    desk.put(&mut log, vec![prompt("a")]).await;
    drop(log);
    assert!(refusal(&desk.bench.elsewhere(), &header.id).await.is_none());
}

async fn dropping_the_log_frees<H: Bench>(desk: Desk<H>) {
    let (id, log, _) = desk.begun(vec![prompt("a")]).await;
    drop(log);
    for n in 0..3 {
        let mut opened = desk.open(&id).await;
        desk.put(&mut opened.log, vec![answer(&n.to_string())]).await;
    }
    assert_eq!(desk.scan(&id).await.texts(), ["a", "0", "1", "2"]);
}

async fn dropping_the_unjudged_frees<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    let before = desk.bytes(&id);
    for store in [&desk.bench.elsewhere(), desk.bench.store()] {
        drop(store.open(&id).await.expect("it is free"));
    }
    assert!(refusal(&desk.bench.elsewhere(), &id).await.is_none());
    assert_eq!(desk.bytes(&id), before);
}

async fn a_crash_frees<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.bench.crash(0);
    let mut opened = desk.open(&id).await;
    desk.put(&mut opened.log, vec![answer("b")]).await;
    let dead = desk.append(&mut log, vec![prompt("from the dead")], Level::Synced).await;
    assert!(dead.is_err());
    assert_eq!(desk.scan(&id).await.texts(), ["a", "b"]);
}

async fn the_refused_can_read_and_fork<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a"), answer("b")]).await;
    let refused = desk.bench.elsewhere();
    assert!(refusal(&refused, &id).await.is_some());
    assert_eq!(texts(&desk.read(&id).await.active.records), ["a", "b"]);
    assert_eq!(desk.scan(&id).await.texts(), ["a", "b"]);
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    let mut opened = desk.open(&fork).await;
    desk.put(&mut opened.log, vec![prompt("mine")]).await;
    desk.put(&mut log, vec![prompt("theirs")]).await;
    assert_eq!(desk.scan(&id).await.texts(), ["a", "b", "theirs"]);
    assert_eq!(desk.scan(&fork).await.texts(), ["a", "b", "mine"]);
}

async fn the_refused_disturb_nobody<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("0")]).await;
    for n in 1..6 {
        assert!(refusal(&desk.bench.elsewhere(), &id).await.is_some());
        desk.put(&mut log, vec![prompt(&n.to_string())]).await;
    }
    assert_eq!(desk.scan(&id).await.texts(), ["0", "1", "2", "3", "4", "5"]);
}

async fn readers_keep_nobody_out<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    let snapshot = desk.read(&id).await;
    let mut opened = desk.open(&id).await;
    desk.put(&mut opened.log, vec![answer("b")]).await;
    assert_eq!(in_force(&desk.read(&id).await.state), in_force(opened.log.state()));
    assert_ne!(in_force(&snapshot.state), in_force(opened.log.state()));
}

async fn the_list_says_who_is_held<H: Bench>(desk: Desk<H>) {
    let (free, _) = desk.closed(vec![prompt("a")]).await;
    let (taken, _log, _) = desk.begun(vec![prompt("b")]).await;
    for store in [&desk.bench.elsewhere(), desk.bench.store()] {
        let list = store.list().await.expect("lists");
        let held: Vec<_> = list.iter().filter(|l| l.held).map(|l| &l.id).collect();
        assert_eq!((list.len(), held), (2, vec![&taken]));
    }
    assert!(refusal(&desk.bench.elsewhere(), &free).await.is_none(), "listing took no right");
}

async fn other_sessions_stay_free<H: Bench>(desk: Desk<H>) {
    let (_, mut first, _) = desk.begun(vec![prompt("a")]).await;
    let (other, _) = desk.closed(vec![prompt("b")]).await;
    let mut opened = desk.open(&other).await;
    desk.put(&mut opened.log, vec![answer("c")]).await;
    desk.put(&mut first, vec![answer("d")]).await;
    assert_eq!(desk.scan(&other).await.texts(), ["b", "c"]);
}

async fn of_many_openers_one_wins<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("start")]).await;
    for round in 0..6 {
        let stores: Vec<_> = (0..4).map(|_| desk.bench.elsewhere()).collect();
        let mut won = Vec::new();
        for store in &stores {
            match store.open(&id).await {
                Ok(held) => won.push(held),
                Err(e) => assert!(matches!(e, StoreError::Held(_)), "{e}"),
            }
        }
        assert_eq!(won.len(), 1, "in round {round}");
        drop(won);
        let mut opened = desk.open(&id).await;
        desk.put(&mut opened.log, vec![prompt(&"x".repeat(2000 + round))]).await;
    }
    let all = desk.scan(&id).await;
    assert_eq!((all.seqs(), all.findings.len()), ((0..8).collect(), 0));
}

async fn the_revoked_cannot_write<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Revoke) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.bench.revoke(&id);
    let mut opened = desk.open(&id).await;
    let (bytes, state) = (desk.bytes(&id), in_force(log.state()));
    let late = desk.append(&mut log, vec![answer("late")], Level::Synced).await;
    assert!(matches!(late, Err(StoreError::Poisoned(_))), "{late:?}");
    assert!(matches!(log.sync().await, Err(StoreError::Poisoned(_))));
    assert!(log.put_blob(b"late", "").await.is_err());
    assert_eq!((desk.bytes(&id), in_force(log.state())), (bytes, state));
    desk.put(&mut opened.log, vec![answer("b")]).await;
    assert_eq!(desk.scan(&id).await.texts(), ["a", "b"]);
}

async fn the_revoked_frees_nobody<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Revoke) {
        return;
    }
    let (id, log, _) = desk.begun(vec![prompt("a")]).await;
    desk.bench.revoke(&id);
    let mut opened = desk.open(&id).await;
    drop(log);
    assert!(matches!(refusal(&desk.bench.elsewhere(), &id).await, Some(StoreError::Held(_))));
    desk.put(&mut opened.log, vec![answer("b")]).await;
}

async fn opening_nothing_is_an_error<H: Bench>(desk: Desk<H>) {
    let id = desk.new_header().id;
    assert!(matches!(refusal(desk.bench.store(), &id).await, Some(StoreError::NotFound(_))));
    assert!(desk.bench.store().list().await.expect("lists").is_empty());
}

/// Opens and appends until this many appends were acknowledged.
async fn take_turns<S: SessionStore>(store: S, id: SessionId, who: usize, turns: usize) {
    let mut done = 0;
    while done < turns {
        let held = match store.open(&id).await {
            Ok(held) => held,
            Err(StoreError::Held(_)) => {
                std::thread::yield_now();
                continue;
            }
            Err(e) => panic!("thread {who}: {e}"),
        };
        let Judged::Sound(mut opened) = held.judge().await.expect("judged") else {
            panic!("thread {who} found damage")
        };
        let text = format!("thread {who}, turn {done}");
        let draft = Draft::new(EPOCH, prompt(&text));
        opened.log.append(vec![draft], Level::Written).await.expect("the append succeeds");
        done += 1;
    }
}

async fn threads_take_turns<H: Bench>(desk: Desk<H>) {
    const THREADS: usize = 3;
    const TURNS: usize = 8;
    let (id, _) = desk.closed(vec![prompt("start")]).await;
    let stores: Vec<_> = (0..THREADS).map(|_| desk.bench.elsewhere()).collect();
    std::thread::scope(|scope| {
        for (who, store) in stores.into_iter().enumerate() {
            let id = id.clone();
            scope.spawn(move || block_on(take_turns(store, id, who, TURNS)));
        }
    });
    let all = desk.scan(&id).await;
    let expected = (THREADS * TURNS) as u64 + 2;
    assert_eq!((all.seqs(), all.findings.len()), ((0..expected).collect(), 0));
    for who in 0..THREADS {
        let mine = format!("thread {who}, ");
        let turns: Vec<_> = all.texts().into_iter().filter(|t| t.starts_with(&mine)).collect();
        let in_order: Vec<_> = (0..TURNS).map(|n| format!("{mine}turn {n}")).collect();
        assert_eq!(turns, in_order);
    }
}

async fn a_reader_beside_a_writer<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("start")]).await;
    let done = Arc::new(AtomicBool::new(false));
    let (store, reads, until) = (desk.bench.elsewhere(), id.clone(), Arc::clone(&done));
    let reader = std::thread::spawn(move || block_on(read_until(&store, &reads, &until)));
    for n in 0..60 {
        desk.write(&mut log, vec![prompt(&format!("{n} {}", "x".repeat(n * 97)))]).await;
    }
    done.store(true, Ordering::Release);
    reader.join().expect("the reader saw nothing wrong");
}

async fn read_until<S: SessionStore>(store: &S, id: &SessionId, done: &AtomicBool) {
    let mut seen = 0;
    while !done.load(Ordering::Acquire) {
        let mut seqs = Vec::new();
        let mut visit = |step: Scanned| {
            match step {
                Scanned::Record(record) => seqs.push(record.seq()),
                Scanned::Finding(f) => assert!(f.severity < Severity::Damage, "{f:?}"),
            }
            true
        };
        store.scan(id, &mut visit).await.expect("it can be scanned");
        assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>());
        assert!(seqs.len() >= seen, "records went away");
        seen = seqs.len();
        let next = store.read(id).await.expect("it can be read").state.next_seq;
        assert!(next >= seen as u64, "a snapshot is older than a scan before it");
    }
}
