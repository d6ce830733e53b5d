//! Pairing, compared with a slow and plain reading of its rules on every short history.
//!
//! Responsible for: `segno_model::pairing` by itself. Must not: build contexts; those cases are in
//! `tests/context`.

use segno_model::Seq;
use segno_model::pairing::{Reported, SentIds, Turn, Verdict, pair};
use std::collections::HashSet;

/// What can happen next in a history.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A turn with these calls (id, tool).
    Turn(&'static [(&'static str, &'static str)]),
    /// A result: id, tool, which turn it names (0 none, 1 the newest, 2 the one before, 9 one that is
    /// not sent), whether it is real.
    Result(&'static str, &'static str, usize, bool),
}

const EVENTS: &[Event] = &[
    Event::Turn(&[]),
    Event::Turn(&[("x", "a")]),
    Event::Turn(&[("x", "a"), ("x", "b"), ("y", "a")]),
    Event::Result("x", "a", 0, true),
    Event::Result("x", "b", 0, true),
    Event::Result("x", "a", 0, false),
    Event::Result("x", "a", 1, true),
    Event::Result("x", "a", 2, true),
    Event::Result("x", "a", 9, true),
    Event::Result("z", "a", 0, true),
];

type History = (Vec<Turn<'static>>, Vec<Reported<'static>>);

fn history(events: &[Event]) -> History {
    let mut turns: Vec<Turn<'static>> = Vec::new();
    let mut results = Vec::new();
    for (i, event) in events.iter().enumerate() {
        let seq = i as Seq + 1;
        match *event {
            Event::Turn(calls) => turns.push(Turn { seq, calls: calls.to_vec() }),
            Event::Result(id, name, names, real) => {
                let named = turns.iter().rev().nth(names.wrapping_sub(1)).map_or(1_000, |t| t.seq);
                let call_seq = (names > 0).then_some(named);
                results.push(Reported { seq, call_seq, id, name, real });
            }
        }
    }
    (turns, results)
}

/// The rules as they are told, by looking through everything every time.
fn plainly(
    turns: &[Turn<'_>],
    results: &[Reported<'_>],
) -> (Vec<Vec<Option<usize>>>, Vec<Verdict>) {
    let mut answers: Vec<Vec<Option<usize>>> =
        turns.iter().map(|t| vec![None; t.calls.len()]).collect();
    let mut verdicts = Vec::new();
    for (i, result) in results.iter().enumerate() {
        let considered: Vec<usize> = match result.call_seq {
            Some(named) => (0..turns.len()).filter(|t| turns[*t].seq == named).collect(),
            None => (0..turns.len()).rev().filter(|t| turns[*t].seq < result.seq).collect(),
        };
        if result.call_seq.is_some() && considered.is_empty() {
            verdicts.push(Verdict::Outside);
            continue;
        }
        let with_id = |t: usize| {
            let calls = turns[t].calls.iter().enumerate();
            calls.filter(|(_, call)| call.0 == result.id).map(|(c, _)| c).collect::<Vec<_>>()
        };
        let open_in = |t: usize, answers: &[Vec<Option<usize>>]| {
            let open: Vec<_> =
                with_id(t).into_iter().filter(|c| answers[t][*c].is_none()).collect();
            let same_tool = open.iter().find(|c| turns[t].calls[**c].1 == result.name);
            same_tool.or(open.first()).copied().map(|c| (t, c))
        };
        if let Some((t, c)) = considered.iter().find_map(|t| open_in(*t, &answers)) {
            answers[t][c] = Some(i);
            verdicts.push(Verdict::Answers);
            continue;
        }
        let Some(t) = considered.iter().copied().find(|t| !with_id(*t).is_empty()) else {
            verdicts.push(Verdict::NoCall);
            continue;
        };
        let weak =
            with_id(t).into_iter().find(|c| answers[t][*c].is_some_and(|r| !results[r].real));
        let unseen = weak.filter(|c| {
            let old = answers[t][*c].map_or(0, |r| results[r].seq);
            !turns.iter().any(|turn| turn.seq > old && turn.seq < result.seq)
        });
        match unseen {
            Some(c) if result.real => {
                if let Some(old) = answers[t][c].replace(i) {
                    verdicts[old] = Verdict::Superseded;
                }
                verdicts.push(Verdict::Replaces);
            }
            _ => verdicts.push(Verdict::Duplicate),
        }
    }
    (answers, verdicts)
}

/// Covers: G6, #36, #38, #39. Every history of up to five events, 111,110 of them.
#[test]
fn every_short_history_pairs_as_the_rules_say() {
    let mut todo: Vec<Vec<Event>> = vec![Vec::new()];
    while let Some(events) = todo.pop() {
        let (turns, results) = history(&events);
        let replies: Vec<Seq> = turns.iter().map(|t| t.seq).collect();
        let pairs = pair(&turns, &results, &replies);
        let (answers, verdicts) = plainly(&turns, &results);
        assert_eq!(pairs.answers, answers, "{events:?}");
        assert_eq!(pairs.verdicts, verdicts, "{events:?}");
        if events.len() < 5 {
            todo.extend(EVENTS.iter().map(|e| [events.as_slice(), &[*e]].concat()));
        }
    }
}

/// Covers: #38, #39. Ids are unique, never empty, and do not depend on what comes later.
#[test]
fn sent_ids_are_unique_and_stable() {
    let ids = ["", "x", "x", " ", "call_1_0", "x_3_0", "x", "call_2_0", "x_3_0"];
    let give = |upto: usize| {
        let mut sent = SentIds::default();
        let all = ids[..upto].iter().enumerate();
        all.map(|(i, id)| sent.give(id, i as Seq + 1, 0)).collect::<Vec<_>>()
    };
    let all = give(ids.len());
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), ids.len());
    assert!(all.iter().all(|id| !id.trim().is_empty()));
    assert_eq!(all[1], "x");
    for upto in 0..ids.len() {
        assert_eq!(give(upto), all[..upto]);
    }
}
