//! Two processes on one session, in every order of their steps with at most so many switches.
//!
//! Responsible for: G5 and G8 where two of them race: for the writer's right, for one input id, and for a
//! delivery against the same input sent again. Must not: depend on threads' speed; the orders are given.

#![allow(clippy::unwrap_used, reason = "a failing test may panic")]

mod support;

use segno_model::inbox::admission::Admission;
use segno_model::inbox::{InputBody, NewInput, Words};
use segno_model::record::Message;
use segno_model::store::{Level, SessionLog, SessionStore, StoreError};
use segno_model::{Body, Timestamp};
use segno_store::FileStore;
use segno_testkit::sim_disk::{Process, SimDisk, in_every_order};
use support::*;

/// How many switches an order has at most: `SEGNO_SWITCHES`, or one; `cargo xtask orders` goes through all
/// with two.
fn most() -> usize {
    std::env::var("SEGNO_SWITCHES").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

const AT: Timestamp = Timestamp(1_764_450_000_000);

fn store(disk: &SimDisk) -> FileStore<SimDisk> {
    FileStore::new(disk.clone(), "/segno")
}

/// A disk with a session in which something was said.
fn begun() -> SimDisk {
    let disk = SimDisk::new(1);
    append(&mut store(&disk).create(header(1)), "before").unwrap();
    disk
}

fn input(text: &str) -> NewInput {
    NewInput::new("in-1", InputBody::Queue(Words::text(text)))
}

/// Takes the right and appends; says whether that was acknowledged.
fn appends(text: &'static str) -> Process<bool> {
    Box::new(move |disk| {
        let store = store(disk);
        match open(&store, &id(1)) {
            Ok(mut opened) => append(&mut opened.log, text).is_ok(),
            Err(StoreError::Held(_)) => false,
            Err(error) => panic!("{error}"),
        }
    })
}

fn sends(text: &'static str) -> Process<Admission> {
    Box::new(move |disk| now(store(disk).admit(&id(1), &input(text), AT)).unwrap())
}

/// Delivers what waits, as a runner does; says how many there were.
fn delivers() -> Process<usize> {
    Box::new(|disk| {
        let store = store(disk);
        let mut log = open(&store, &id(1)).unwrap().log;
        let mut delivered = 0;
        // Twice: what was sent meanwhile may only show now.
        for _ in 0..2 {
            let waiting = now(log.pending()).unwrap().pending;
            for message in waiting.iter().filter_map(|pending| pending.input.message()) {
                let body = Body::Message(Box::new(Message::User(message)));
                now(log.append(vec![draft(body)], Level::Synced)).unwrap();
                delivered += 1;
            }
            now(log.clear_inbox()).unwrap();
        }
        delivered
    })
}

/// How often the input is in the log, and how often it waits.
fn found(disk: &SimDisk) -> (usize, usize) {
    let store = store(disk);
    let delivered = scan(&store, &id(1)).into_iter().filter(|record| match record.body() {
        Body::Message(message) => {
            matches!(&**message, Message::User(user) if user.input_id.as_deref() == Some("in-1"))
        }
        _ => false,
    });
    (delivered.count(), now(store.pending(&id(1))).unwrap().pending.len())
}

/// Covers: G5.
#[test]
fn two_writers_never_both_append_at_once_and_what_each_was_told_is_there() {
    let orders = in_every_order(
        most(),
        || (begun(), [appends("one"), appends("two")]),
        |disk, [one, two], order| {
            let mut expected = vec!["before"];
            expected.extend(one.then_some("one"));
            expected.extend(two.then_some("two"));
            let mut texts = texts(&store(disk), &id(1));
            assert_eq!(texts.first().map(String::as_str), Some("before"), "{order:?}");
            texts.sort();
            assert_eq!(texts, expected, "{order:?}");
            assert!(one || two, "{order:?}: nobody got the right");
            let again = open(&store(disk), &id(1)).unwrap();
            assert!(again.active.findings.is_empty(), "{order:?}");
        },
    );
    assert!(orders > 50, "only {orders} orders");
}

/// Covers: G8.
#[test]
fn of_two_senders_with_one_id_exactly_one_is_the_first() {
    for (other, conflicts) in [("this", false), ("that", true)] {
        let orders = in_every_order(
            most(),
            || (begun(), [sends("this"), sends(other)]),
            |disk, answers, order| {
                let first = answers.iter().filter(|a| matches!(a, Admission::Admitted)).count();
                assert_eq!(first, 1, "{order:?}: {answers:?}");
                let conflict = answers.iter().any(|a| matches!(a, Admission::Conflict { .. }));
                assert_eq!(conflict, conflicts, "{order:?}: {answers:?}");
                assert_eq!(found(disk), (0, 1), "{order:?}: {answers:?}");
            },
        );
        assert!(orders > 50, "only {orders} orders");
    }
}

/// What one process does in the race of a delivery.
#[derive(Debug)]
enum Did {
    Delivered(usize),
    Answered(Admission),
}

/// Covers: G8, SD1.
#[test]
fn an_input_that_is_sent_again_while_it_is_delivered_is_delivered_once() {
    let make = || {
        let disk = begun();
        let first = now(store(&disk).admit(&id(1), &input("this"), AT)).unwrap();
        assert!(matches!(first, Admission::Admitted), "{first:?}");
        let (runner, sender) = (delivers(), sends("this"));
        let runner: Process<Did> = Box::new(|disk| Did::Delivered(runner(disk)));
        let sender: Process<Did> = Box::new(|disk| Did::Answered(sender(disk)));
        (disk, [runner, sender])
    };
    let orders = in_every_order(most(), make, |disk, did, order| {
        let [Did::Delivered(delivered), Did::Answered(answer)] = &did else {
            panic!("{order:?}: {did:?}")
        };
        assert_eq!(*delivered, 1, "{order:?}: {did:?}");
        assert!(!matches!(answer, Admission::Admitted), "{order:?}: {did:?}");
        assert_eq!(found(disk), (1, 0), "{order:?}: {did:?}");
    });
    assert!(orders > 50, "only {orders} orders");
}
