//! All wires against the scripted model, which judges every request as strictly as the strictest
//! provider.

use crate::history::{
    Call, assistant, call, image, replayed, result, rich, show, show_events, text, thinking, user,
};
use segno_agent::provider::{Provider, ProviderConfig, ProviderId, Secret};
use segno_model::context::{ContextMessage, ContextResult};
use segno_model::record::{AssistantMessage, Block, StopReason};
use segno_runtime::{Model, ModelError, StreamEvent};
use segno_testkit::scripted_model::{Prefix, ScriptedModel};

pub(crate) const PROVIDERS: [(ProviderId, &str); 4] = [
    (ProviderId::Anthropic, "claude-sonnet-4-5"),
    (ProviderId::OpenAi, "gpt-5"),
    (ProviderId::OpenAiChat, "scripted"),
    (ProviderId::Gemini, "gemini-3-flash"),
];

const LOOP: &str = r#"
strict prefix
rule two tools
  when last user
  when user contains "go"
  think "Both at once, é."
  say "Looking."
  call read {"path": "a.png"}
  call bash {"path": "ls"}
  usage input 7 output 30 cache-read 0
rule answer
  when last results
  think hidden "secret"
  say "Done: {result_line}"
otherwise
  say "You said {user}"
"#;

pub(crate) fn provider(id: ProviderId, server: &ScriptedModel) -> Provider {
    let key = Secret::new("test-key-1");
    let base_url = Some(server.url());
    Provider::new(ProviderConfig { provider: id, base_url, key, max_output: None }).unwrap()
}

pub(crate) async fn ask(
    provider: &Provider,
    model: &str,
    messages: &[ContextMessage],
) -> (Vec<StreamEvent>, Result<AssistantMessage, ModelError>) {
    let mut call = Call::new(provider.id().as_str(), model, messages.to_vec());
    call.thinking = Some("medium".to_owned());
    for message in &mut call.messages {
        if let ContextMessage::Assistant(turn) = message {
            turn.endpoint = provider.endpoint().map(ToOwned::to_owned);
        }
    }
    let mut events = Vec::new();
    let outcome = provider.reply(call.request(), &mut |e| events.push(e)).await;
    (events, outcome)
}

fn results(reply: &AssistantMessage, seq: u64) -> ContextMessage {
    let results: Vec<ContextResult> = (seq..)
        .zip(reply.calls())
        .map(|(seq, c)| result(seq, &c.id, &c.name, vec![Block::text(format!("{} ran", c.name))]))
        .collect();
    ContextMessage::Results(results)
}

/// Covers: G6, G10, #46 (reasoning comes back signed and unchanged; each request extends the last).
#[tokio::test]
async fn a_turn_with_tools_is_accepted_on_every_wire() {
    for (id, model) in PROVIDERS {
        let server = ScriptedModel::start(LOOP).unwrap();
        let provider = provider(id, &server);
        let mut history = vec![user(1, vec![Block::text("go"), image()])];
        let (events, first) = ask(&provider, model, &history).await;
        let first = first.unwrap();
        assert_eq!(first.stop, StopReason::ToolUse, "{id}");
        assert_eq!(first.text(), "Looking.", "{id}");
        assert_eq!(first.calls().count(), 2, "{id}");
        let events = show_events(&events);
        assert!(events.contains("  Text(\"Looking.\")\n  ToolCall"), "{id}: {events}");
        let usage = first.usage.unwrap();
        assert_eq!((usage.input, usage.output), (7, 30), "{id}");
        history.push(replayed(2, &first));
        history.push(results(&first, 3));
        let (_, second) = ask(&provider, model, &history).await;
        let second = second.unwrap();
        assert_eq!(second.text(), "Done: read ran", "{id}");
        history.push(replayed(5, &second));
        history.push(user(6, vec![Block::text("more")]));
        let (_, third) = ask(&provider, model, &history).await;
        assert_eq!(third.unwrap().text(), "You said more", "{id}");
        assert_eq!(server.violations(), [], "{id}");
        let prefixes: Vec<_> = server.requests().iter().map(|r| r.prefix.unwrap()).collect();
        assert_eq!(prefixes, [Prefix::First, Prefix::Extended, Prefix::Extended], "{id}");
    }
}

/// What the runtime sends after reasoning was refused: the same turns without anything signed.
///
/// Covers: #46, G6.
#[tokio::test]
async fn a_history_without_native_items_and_reasoning_is_accepted_on_every_wire() {
    for (id, model) in PROVIDERS {
        let server = ScriptedModel::start(LOOP).unwrap();
        let provider = provider(id, &server);
        let mut history = vec![user(1, vec![Block::text("go")])];
        let (_, first) = ask(&provider, model, &history).await;
        let mut first = first.unwrap();
        first.native = None;
        first
            .content
            .retain(|b| !matches!(b, segno_model::record::AssistantBlock::Thinking { .. }));
        history.push(replayed(2, &first));
        history.push(results(&first, 3));
        let (_, second) = ask(&provider, model, &history).await;
        assert_eq!(second.unwrap().text(), "Done: read ran", "{id}");
        assert_eq!(server.violations(), [], "{id}");
    }
}

/// Covers: #48, #49, G6.
#[tokio::test]
async fn a_rich_history_is_accepted_on_every_wire() {
    for (id, model) in PROVIDERS {
        let server = ScriptedModel::start("otherwise\n  say \"ok\"").unwrap();
        let mut history = rich();
        if let ContextMessage::Assistant(turn) = &mut history[1] {
            // No server but the one that signed it takes signed reasoning.
            let mut content = turn.content.take();
            content.retain(|b| !matches!(b, segno_model::record::AssistantBlock::Thinking { .. }));
            content.push(call("odd id:3", "bash", "[1]"));
            turn.content = content.into();
        }
        let (_, reply) = ask(&provider(id, &server), model, &history).await;
        assert_eq!(server.violations(), [], "{id}");
        assert_eq!(reply.unwrap().text(), "ok", "{id}");
    }
}

/// Arguments that are not JSON are kept as written and sent back in a form that is not refused.
#[tokio::test]
async fn a_malformed_call_can_be_answered_and_sent_back() {
    let script = r#"
        rule bad
          when last user
          call read raw "{\"path\": "
        otherwise
          say "ok"
    "#;
    for (id, model) in &PROVIDERS[..3] {
        let server = ScriptedModel::start(script).unwrap();
        let provider = provider(*id, &server);
        let mut history = vec![user(1, vec![Block::text("go")])];
        let (_, first) = ask(&provider, model, &history).await;
        let first = first.unwrap();
        assert_eq!(first.calls().next().unwrap().arguments, "{\"path\": ", "{id}");
        history.push(replayed(2, &first));
        history.push(results(&first, 3));
        let (_, second) = ask(&provider, model, &history).await;
        assert_eq!(server.violations(), [], "{id}");
        assert_eq!(second.unwrap().text(), "ok", "{id}");
    }
}

/// Covers: #46 (the refusal of a signature is told apart, so that the runtime can go on without).
#[tokio::test]
async fn a_refused_signature_is_told_apart() {
    for (id, model) in [PROVIDERS[0], PROVIDERS[1]] {
        let server = ScriptedModel::start("otherwise\n  say \"ok\"").unwrap();
        let history = [
            user(1, vec![Block::text("hi")]),
            assistant(2, vec![thinking("hm", Some("Zm9yZWlnbg==")), text("Hi.")], None),
            user(3, vec![Block::text("more")]),
        ];
        let (_, outcome) = ask(&provider(id, &server), model, &history).await;
        assert!(show(&outcome).starts_with("Thinking: "), "{id}: {}", show(&outcome));
    }
}

/// What goes wrong, by its line in a script, and what is made of it.
const FAILURES: &[(&str, &str)] = &[
    ("status 429 retry-after 2", "Busy 2000"),
    ("status 529", "Busy"),
    ("status 500", "Busy"),
    ("status 503", "Busy"),
    ("status 408", "Busy"),
    ("status 400", "Refused"),
    ("status 404", "Refused"),
    ("status 401", "Key"),
    ("too-long", "TooLong"),
    ("say \"Hälfte\"\n  fault drop after 2 events", "Broken"),
    ("say \"Hälfte\"\n  fault malformed chunk after 1 events", "Broken"),
    ("say \"Hälfte\"\n  fault error event overloaded after 1 events", "Busy"),
    ("say \"Hälfte\"\n  fault error event internal after 1 events", "Busy"),
    ("say \"Hälfte\"\n  fault cut mid-character", "Broken"),
    ("say \"Hälfte\"\n  fault pieces 1", "Hälfte"),
    ("say \"No.\"\n  stop refusal", "No."),
];

#[tokio::test]
async fn every_failure_is_told_for_what_it_is_on_every_wire() {
    for (lines, expected) in FAILURES {
        for (id, model) in PROVIDERS {
            let server = ScriptedModel::start(&format!("otherwise\n  {lines}\n")).unwrap();
            let history = [user(1, vec![Block::text("hi")])];
            let (_, outcome) = ask(&provider(id, &server), model, &history).await;
            let shown = match &outcome {
                Ok(reply) => reply.text(),
                Err(e) => {
                    let wait = e.retry_after_ms.map_or(String::new(), |ms| format!(" {ms}"));
                    format!("{:?}{wait}", e.kind)
                }
            };
            assert_eq!(shown, *expected, "{id} {lines}: {}", show(&outcome));
        }
    }
}

#[tokio::test]
async fn the_models_of_a_server_are_listed_on_every_wire() {
    let server = ScriptedModel::start("models one two\notherwise\n  say \"ok\"").unwrap();
    for (id, _) in PROVIDERS {
        let models = provider(id, &server).list_models().await.unwrap();
        let ids: Vec<_> = models.iter().map(|m| m.id.as_str()).collect();
        assert_eq!(ids, ["one", "two"], "{id}");
    }
}
