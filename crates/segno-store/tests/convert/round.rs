//! There and back again: what is read of a converted session says the same, but for what was told as lost;
//! and what an agent wrote, written again for it, is the same to its own reader.

use crate::{made, scene};
use segno_model::context;
use segno_store::convert::{Child, Loss, LossKind, Losses, Said, Session, TARGETS, Transcript};
use segno_store::foreign::{Agent, pos};
use std::collections::BTreeSet;

/// Converts and reads again; how the context and the transcript differ.
fn there(session: &Session, target: Agent, what: &str) -> Vec<String> {
    let Some(converted) = scene::converted(session, target, &scene::none()) else {
        return Vec::new();
    };
    let home = tempfile::tempdir().expect("a folder");
    let view = scene::read_again(&converted, target, home.path());
    let lost = scene::lost(&converted);
    // What a summary keeps may stand again behind it.
    let copies =
        view.records.iter().filter(|read| read.copy).map(|read| read.record.seq()).collect();
    let again = Session::of_view(target, view);
    let again_context = context::build(&again.records, again.tip.map(pos));
    let what = format!("{what} as {target}, lost: {lost:?}");
    let (names, theirs) = ((session.source.as_str(), target), (target.id(), target));
    let context = scene::differ(
        &scene::lines(&scene::context(session, &converted), names, &lost),
        &scene::lines(&again_context, theirs, &lost),
        &lost,
        &format!("the context of {what}"),
    );
    let exact = lost.iter().copied().filter(|kind| *kind != LossKind::Kept).collect();
    let transcript = scene::differ(
        &scene::told(session, names, &lost, &BTreeSet::new()),
        &scene::told(&again, theirs, &lost, &copies),
        &exact,
        &format!("the transcript of {what}"),
    );
    let branches = scene::differ(
        &scene::branches(session, names, &lost),
        &scene::branches(&again, theirs, &lost),
        &exact,
        &format!("the branches of {what}"),
    );
    context.into_iter().chain(transcript).chain(branches).collect()
}

/// The first few, when there are any.
fn none(wrong: &[String]) {
    let first: Vec<&str> = wrong.iter().take(8).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), first.join("\n\n"));
}

/// Covers: G6, #158, #162. `SEGNO_SEED` runs one seed.
#[test]
fn a_session_of_ours_comes_back_from_every_target_up_to_the_losses() {
    let seeds = match std::env::var("SEGNO_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => (0..80).collect::<Vec<u64>>(),
    };
    let mut wrong = Vec::new();
    for seed in seeds {
        let session = made::session(seed, 4 + usize::try_from(seed % 40).expect("small"));
        for target in TARGETS {
            wrong.extend(there(&session, target, &format!("seed {seed}")));
        }
    }
    none(&wrong);
}

/// Covers: G6, G14.
#[test]
fn what_an_agent_wrote_is_the_same_to_its_own_reader_when_it_is_written_again() {
    let (mut wrong, mut agents) = (Vec::new(), BTreeSet::new());
    for path in scene::files("foreign").into_iter().chain(scene::files("cases")) {
        let Some(session) = scene::session(&path) else { continue };
        let Some(own) = TARGETS.into_iter().find(|target| target.id() == session.source) else {
            continue;
        };
        agents.insert(own);
        wrong.extend(there(&session, own, &path.display().to_string()));
    }
    none(&wrong);
    assert_eq!(agents.len(), TARGETS.len());
}

/// Covers: G6. From each agent to each other one, and back.
#[test]
fn what_was_handed_over_can_be_handed_back() {
    let mut wrong = Vec::new();
    for seed in 0..12 {
        let session = made::session(1000 + seed, 20);
        for (first, second) in TARGETS.into_iter().flat_map(|a| TARGETS.map(|b| (a, b))) {
            let Some(converted) = scene::converted(&session, first, &scene::none()) else {
                continue;
            };
            let home = tempfile::tempdir().expect("a folder");
            let view = scene::read_again(&converted, first, home.path());
            let handed = Session::of_view(first, view);
            wrong.extend(there(&handed, second, &format!("seed {} from {first}", 1000 + seed)));
        }
    }
    none(&wrong);
}

/// Losses are told before anything is written, and name records that there are.
#[test]
fn what_is_told_as_lost_is_there() {
    for seed in 0..60 {
        let session = made::session(seed, 30);
        for target in TARGETS {
            let Some(converted) = scene::converted(&session, target, &scene::none()) else {
                continue;
            };
            for loss in &converted.losses {
                assert!(
                    loss.count >= u64::try_from(loss.records.len()).expect("small"),
                    "{loss:?}"
                );
                let known = |seq: &u64| session.records.iter().any(|r| r.seq() == *seq);
                assert!(loss.records.iter().all(known), "seed {seed}, {target}: {loss:?}");
            }
            let again = scene::converted(&session, target, &scene::none());
            assert_eq!(again.as_ref(), Some(&converted), "the same each time");
            let usage = converted.losses.iter().any(|loss| loss.kind == LossKind::UnknownContent);
            assert!(!usage, "nothing unknown is in it");
        }
    }
}

/// What subagents' sessions lose is told with whose it is, however deep they are: what one loses by itself, and no more.
#[test]
fn losses_of_subagents_name_the_subagent() {
    let mut told = 0;
    for seed in 0..20 {
        let mut session = made::session(seed, 10);
        let named = |n: u64, id: &str| Session { id: id.to_owned(), ..made::session(seed + n, 20) };
        let alone = [named(100, "a1"), named(200, "b2")];
        let mut child = Child { session: alone[0].clone(), ..Child::default() };
        let grandchild = Child { session: alone[1].clone(), ..Child::default() };
        child.session.children.push(grandchild);
        session.children.push(child);
        for target in TARGETS.into_iter().filter(|target| *target != Agent::Pi) {
            let Some(converted) = scene::converted(&session, target, &scene::none()) else {
                continue;
            };
            for one in &alone {
                let of = |losses: &[Loss], whose: Option<&str>| -> Vec<(LossKind, Vec<u64>)> {
                    let its = losses.iter().filter(|loss| loss.subagent.as_deref() == whose);
                    // Only whole sessions have a title in every target.
                    let its = its.filter(|loss| loss.kind != LossKind::Title);
                    its.map(|loss| (loss.kind, loss.records.clone())).collect()
                };
                let Some(by_itself) = scene::converted(one, target, &scene::none()) else {
                    continue;
                };
                let expected = of(&by_itself.losses, None);
                told += expected.len();
                assert_eq!(
                    of(&converted.losses, Some(&one.id)),
                    expected,
                    "seed {seed}, {target}, {}",
                    one.id
                );
            }
        }
    }
    assert!(told > 50, "{told}");
}

/// Covers: #38, #39. Chat Completions takes ids of at most 40 bytes.
#[test]
fn ids_of_calls_are_unique_and_short_enough_for_every_provider() {
    let mut calls = 0;
    for seed in 0..60 {
        let session = made::session(seed, 30);
        let transcript =
            Transcript::of(&session, Agent::Claude, &scene::none(), &mut Losses::default());
        let mut ids = BTreeSet::new();
        for turn in &transcript.turns {
            let Said::Reply(reply) = &turn.said else { continue };
            for call in reply.calls() {
                calls += 1;
                assert!(!call.id.is_empty() && call.id.len() <= 40, "seed {seed}: {}", call.id);
                assert!(ids.insert(call.id.clone()), "seed {seed}: {} twice", call.id);
            }
        }
    }
    assert!(calls > 100, "{calls}");
}
