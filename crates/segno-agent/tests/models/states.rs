//! OpenAI's own compaction over the real wire: models and addresses that change, and servers that do not offer it.

use crate::{Desk, MODELS, image, model_ref, say};
use segno_agent::Agent;
use segno_agent::provider::{Provider, ProviderId};
use segno_agent::tool::Toolbox;
use segno_model::compaction::Native;
use segno_model::record::{Block, Body, Compaction, ModelChange, RunEnd};
use segno_runtime::{Compacted, StopHandle};
use segno_testkit::scripted_model::{Answer, Reply, Seen, Turn};
use segno_testkit::strict_store::StrictLog;

const SUMMARY: &str = "<summary>\n## Goal\nlook\n## Constraints\nnone\n## Decisions\nnone\n## Done\n\
    two files\n## In progress\nnothing\n## Next\nmore\n## Files\na.txt\n## Open questions\nnone\n</summary>";

const OPENAI: (ProviderId, &str) = MODELS[1];

fn works(seen: &Seen) -> Answer {
    let reply = match seen.turns.last() {
        Some(Turn::Results(_)) => Reply::default().think("so that is it").say("I looked."),
        _ if seen.prompt() == "look" => Reply::default()
            .think("both at once")
            .and_call("read", r#"{"path": "a.txt"}"#)
            .and_call("read", r#"{"path": "a.png"}"#),
        _ if seen.last_user_text().contains("Summarise the history") => Reply::text(SUMMARY),
        _ => Reply::default().think("easy").say("Yes."),
    };
    reply.into()
}

async fn compact(agent: &mut Agent<StrictLog, Toolbox>, provider: &Provider) -> Compacted {
    let (_handle, stop) = StopHandle::new();
    agent.compaction.native = Native::Wherever;
    agent.compact(provider, &model_ref(OPENAI), None, &stop, &mut ()).await.unwrap()
}

/// Whether the last request begins with a state, and what stands in it.
fn last(desk: &Desk) -> (bool, String) {
    let request = desk.server.requests().pop().unwrap();
    (request.body.to_string().contains(r#""type":"compaction""#), request.body.to_string())
}

fn newest(agent: &Agent<StrictLog, Toolbox>) -> Compaction {
    let records = agent.session.records();
    let found = records.iter().rev().find_map(|record| match record.body() {
        Body::Compaction(compaction) => Some((**compaction).clone()),
        _ => None,
    });
    found.unwrap()
}

fn requests_for_states(desk: &Desk) -> usize {
    let all = desk.server.requests();
    all.iter().filter(|r| r.seen.as_ref().is_some_and(|seen| seen.compaction)).count()
}

/// With images, calls and reasoning in the history; to every other model and back, to another address and back, each
/// time reopened, and once more made smaller from the state.
/// Covers: G6, G10, #46.
#[tokio::test]
async fn a_state_goes_back_to_its_maker_however_models_change() {
    let desk = Desk::new(works);
    let mut agent = desk.begin();
    let own = desk.provider(OPENAI.0, "127.0.0.1");
    for text in ["look", "right?", "look"] {
        let content = vec![Block::text("and here"), image(), Block::text(text)];
        say(&mut agent, &own, &model_ref(OPENAI), content).await;
    }
    let compacted = compact(&mut agent, &own).await;
    assert!(compacted.state, "{compacted:?} {:?}", newest(&agent));
    let elsewhere = (OPENAI, "localhost", false);
    let others = MODELS.iter().filter(|model| **model != OPENAI);
    let others = others.map(|model| (*model, "127.0.0.1", false));
    let changes =
        others.chain([((ProviderId::OpenAi, "gpt-5-mini"), "127.0.0.1", false), elsewhere]);
    for (model, host, _) in changes {
        for (model, host, state) in
            [(OPENAI, "127.0.0.1", true), (model, host, false), (OPENAI, "127.0.0.1", true)]
        {
            drop(agent);
            agent = desk.resume().await;
            agent.compaction.native = Native::Wherever;
            let name = model_ref(model);
            let change = ModelChange { model: name.clone(), chosen: true, base_url: None };
            agent.session.set_model(change).await.unwrap();
            let provider = desk.provider(model.0, host);
            let (ended, left) =
                say(&mut agent, &provider, &name, vec![Block::text("right?")]).await;
            assert_eq!(
                (ended.end, left.len()),
                (RunEnd::Completed, 0),
                "{name} at {host}: {ended:?}"
            );
            let (has_state, body) = last(&desk);
            assert_eq!(has_state, state, "{name} at {host}: {body}");
            assert_eq!(body.contains("session_history"), !state, "{name} at {host}: {body}");
            assert_eq!(desk.server.violations(), [], "{name} at {host}");
        }
    }
    let first = newest(&agent).native.unwrap().items.get().to_owned();
    assert!(compact(&mut agent, &own).await.state);
    assert_ne!(newest(&agent).native.unwrap().items.get(), first);
    say(&mut agent, &own, &model_ref(OPENAI), vec![Block::text("right?")]).await;
    assert!(last(&desk).0);
    assert_eq!(desk.server.violations(), []);
}

/// A server that does not offer it is asked once, and not with every compaction; the summary stands alone.
#[tokio::test]
async fn a_server_without_it_is_asked_once() {
    let desk = Desk::new(|seen: &Seen| match seen.compaction {
        true => {
            Answer::Status { code: 404, retry_after_s: None, message: Some("no such page".into()) }
        }
        false => works(seen),
    });
    let mut agent = desk.begin();
    let own = desk.provider(OPENAI.0, "127.0.0.1");
    for round in 0..2 {
        for _ in 0..3 {
            say(&mut agent, &own, &model_ref(OPENAI), vec![Block::text("look")]).await;
        }
        assert!(!compact(&mut agent, &own).await.state);
        let why = newest(&agent).no_native;
        assert_eq!(why.is_some_and(|why| why.contains("404")), round == 0);
        assert_eq!(requests_for_states(&desk), 1);
    }
    say(&mut agent, &own, &model_ref(OPENAI), vec![Block::text("right?")]).await;
    assert!(last(&desk).1.contains("session_history"));
    assert_eq!(desk.server.violations(), []);
}

/// Nobody is asked where that is not known to be offered, and other protocols never.
#[tokio::test]
async fn only_the_wire_that_has_it_is_asked() {
    for model in MODELS {
        let desk = Desk::new(works);
        let mut agent = desk.begin();
        let provider = desk.provider(model.0, "127.0.0.1");
        for _ in 0..3 {
            say(&mut agent, &provider, &model_ref(model), vec![Block::text("look")]).await;
        }
        let (_handle, stop) = StopHandle::new();
        for (native, asked) in [(Native::WhereKnown, 0), (Native::Never, 0)] {
            agent.compaction.native = native;
            let _ = agent.compact(&provider, &model_ref(model), None, &stop, &mut ()).await;
            assert_eq!(requests_for_states(&desk), asked, "{model:?} {native:?}");
            say(&mut agent, &provider, &model_ref(model), vec![Block::text("look")]).await;
        }
        agent.compaction.native = Native::Wherever;
        let _ = agent.compact(&provider, &model_ref(model), None, &stop, &mut ()).await;
        assert_eq!(requests_for_states(&desk), usize::from(model == OPENAI), "{model:?}");
    }
}
