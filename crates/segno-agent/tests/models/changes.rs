//! Models that are changed in the middle of a session, back and forth.

use crate::{Desk, MODELS, image, model_ref, say};
use segno_model::record::{Block, ModelChange, RunEnd};
use segno_testkit::scripted_model::{Answer, Fault, Reply, Said, Seen, Turn};

const SUMMARY: &str = "<summary>\n## Goal\nlook\n## Constraints\nnone\n## Decisions\nnone\n## Done\n\
    two files\n## In progress\nnothing\n## Next\nmore\n## Files\na.txt\n## Open questions\nnone\n</summary>";

/// Thinks, looks at two files at once, one of them an image, and answers; a reply to `break` breaks off.
fn works(seen: &Seen) -> Answer {
    let reply = match seen.turns.last() {
        _ if seen.prompt() == "break" => {
            Reply::text("Half of a long answer. ".repeat(12)).fault(Fault::Drop(9))
        }
        Some(Turn::Results(_)) => Reply::default().think("so that is it").say("I looked."),
        _ if seen.prompt() == "look" => Reply::default()
            .think("both at once")
            .say("Looking.")
            .and_call("read", r#"{"path": "a.txt"}"#)
            .and_call("read", r#"{"path": "a.png"}"#),
        _ if seen.prompt().contains("summar") || seen.last_user_text().contains("<history>") => {
            Reply::text(SUMMARY)
        }
        _ => Reply::default().think("easy").say("Yes."),
    };
    reply.into()
}

fn thinking(seen: &Seen) -> Vec<bool> {
    let turns = seen.turns.iter().filter_map(|turn| match turn {
        Turn::Assistant(said) => Some(said),
        _ => None,
    });
    turns.map(|said| said.iter().any(|part| matches!(part, Said::Thinking { .. }))).collect()
}

/// Every model with every other: thinking, images, parallel calls, replies that break off, a compaction in the middle; from the first to
/// the second and back to the first. Each server refuses what its provider would: above all what another one
/// signed.
///
/// Covers: G6, G10, #46, #48, #38.
#[tokio::test]
async fn every_model_goes_on_where_every_other_one_was() {
    for first in MODELS {
        for second in MODELS {
            let desk = Desk::new(works);
            let mut agent = desk.begin();
            let order = [first, second, first, second];
            for (round, model) in order.into_iter().enumerate() {
                let name = model_ref(model);
                let provider = desk.provider(model.0, "127.0.0.1");
                let change = ModelChange { model: name.clone(), chosen: true, base_url: None };
                agent.session.set_model(change).await.unwrap();
                for text in ["look", "break", "right?"] {
                    let content = vec![Block::text("and here"), image(), Block::text(text)];
                    let (ended, left) = say(&mut agent, &provider, &name, content).await;
                    let label = format!("{} to {}, round {round}, {text}", first.0, second.0);
                    let broken = desk.server.violations();
                    assert_eq!(
                        (ended.end, left.len()),
                        (RunEnd::Completed, 0),
                        "{label}: {ended:?} {broken:?}"
                    );
                    assert_eq!(broken, [], "{label}");
                }
                if round == 1 {
                    let (_handle, stop) = segno_runtime::StopHandle::new();
                    agent.compact(&provider, &name, None, &stop, &mut ()).await.unwrap();
                }
                drop(agent);
                agent = desk.resume().await;
            }
        }
    }
}

/// What one model signed comes back to it when it is chosen again, and to no other.
///
/// Covers: #46, G10.
#[tokio::test]
async fn reasoning_goes_back_to_its_maker_only() {
    let [a, b] = [MODELS[0], MODELS[1]];
    let desk = Desk::new(works);
    let mut agent = desk.begin();
    let mut seen = Vec::new();
    for model in [a, b, a] {
        let name = model_ref(model);
        let provider = desk.provider(model.0, "127.0.0.1");
        say(&mut agent, &provider, &name, vec![Block::text("right?")]).await;
        seen.push(thinking(&desk.server.requests().pop().unwrap().seen.unwrap()));
    }
    assert_eq!(seen, [vec![], vec![false], vec![true, false]]);
}

/// The same model id at another place is another maker: nobody knows whether it would take the signatures.
#[tokio::test]
async fn the_same_name_at_another_place_is_another_maker() {
    for model in [MODELS[0], MODELS[1], MODELS[3]] {
        let desk = Desk::new(works);
        let mut agent = desk.begin();
        let name = model_ref(model);
        let mut replayed = Vec::new();
        for host in ["127.0.0.1", "127.0.0.1", "localhost", "127.0.0.1"] {
            let provider = desk.provider(model.0, host);
            say(&mut agent, &provider, &name, vec![Block::text("right?")]).await;
            let sent = desk.server.requests().pop().unwrap().body.to_string();
            replayed.push(sent.matches("U2Vnbm8x").count());
        }
        assert_eq!(replayed, [0, 1, 0, 2], "{}", model.0);
        assert_eq!(desk.server.violations(), [], "{}", model.0);
    }
}
