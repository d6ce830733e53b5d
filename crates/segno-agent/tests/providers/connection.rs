//! Calls over a real connection to a tiny server in the test.

use crate::history::{Call, show, show_events, user};
use segno_agent::provider::{
    Credentials, FoundBy, Provider, ProviderConfig, ProviderId, Secret, discover_at,
};
use segno_model::record::Block;
use segno_runtime::{Model, ModelErrorKind};
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Answers one connection with these bytes; gives what was asked.
async fn serve(answer: String) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        let mut buffer = [0; 4096];
        while !is_whole(&asked) {
            match socket.read(&mut buffer).await.unwrap() {
                0 => break,
                n => asked.extend_from_slice(&buffer[..n]),
            }
        }
        socket.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(asked).unwrap()
    });
    (format!("http://{address}"), asked)
}

fn is_whole(asked: &[u8]) -> bool {
    let text = String::from_utf8_lossy(asked);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|l| l.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\n\r\n{body}")
}

fn provider(id: ProviderId, base_url: &str) -> Provider {
    let key = Secret::new("sk-secret-key-1");
    Provider::new(ProviderConfig {
        provider: id,
        base_url: Some(base_url.to_owned()),
        key,
        max_output: None,
    })
    .unwrap()
}

/// One call of `id` against a server that gives this answer: the request's head, and what came back.
async fn call(id: ProviderId, model: &str, answer: String) -> (String, String) {
    let (url, asked) = serve(answer).await;
    let call = Call::new(id.as_str(), model, vec![user(1, vec![Block::text("hi")])]);
    let mut events = Vec::new();
    let outcome = provider(id, &url).reply(call.request(), &mut |e| events.push(e)).await;
    let asked = asked.await.unwrap();
    let wait = outcome.as_ref().err().and_then(|e| e.retry_after_ms);
    let wait = wait.map_or(String::new(), |ms| format!("wait {ms}\n"));
    (asked, format!("{}{}{wait}", show_events(&events), show(&outcome)))
}

const SSE: &str = "content-type: text/event-stream\r\n";

#[tokio::test]
async fn every_provider_is_asked_at_its_own_path_with_its_own_key_header() {
    let table = [
        (ProviderId::Anthropic, "claude-x", "POST /v1/messages ", "x-api-key: sk-secret-key-1"),
        (
            ProviderId::OpenAi,
            "gpt-5",
            "POST /v1/responses ",
            "authorization: Bearer sk-secret-key-1",
        ),
        (
            ProviderId::OpenAiChat,
            "m",
            "POST /v1/chat/completions ",
            "authorization: Bearer sk-secret-key-1",
        ),
        (
            ProviderId::Gemini,
            "gemini-3-pro",
            "POST /v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse ",
            "x-goog-api-key: sk-secret-key-1",
        ),
        (ProviderId::Ollama, "llama", "POST /v1/chat/completions ", "authorization: Bearer"),
    ];
    for (id, model, line, key) in table {
        let (asked, outcome) = call(id, model, answer("200 OK", SSE, "")).await;
        assert!(asked.starts_with(line), "{id}: {asked}");
        assert!(asked.contains(key), "{id}: {asked}");
        assert!(outcome.starts_with("Broken"), "{id}: {outcome}");
    }
}

#[tokio::test]
async fn a_streamed_reply_arrives_and_its_events_are_shown() {
    let body = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (_, outcome) = call(ProviderId::Ollama, "m", answer("200 OK", SSE, body)).await;
    assert!(outcome.starts_with("  Text(\"Hi\")\ntext \"Hi\"\nstop End\n"), "{outcome}");
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
    let headers = "content-type: application/json; charset=utf-8\r\n";
    let (_, outcome) = call(ProviderId::OpenAiChat, "m", answer("200 OK", headers, body)).await;
    assert!(outcome.contains("text \"Hi\""), "{outcome}");
}

#[tokio::test]
async fn failures_say_what_to_do_and_never_the_key() {
    let busy = answer(
        "529 Overloaded",
        "retry-after: 3\r\n",
        r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#,
    );
    let key = answer("401 Unauthorized", "", r#"{"error":{"message":"bad key sk-secret-key-1"}}"#);
    let echo = answer("400 Bad Request", "", r#"{"error":{"message":"what is sk-secret-key-1?"}}"#);
    let moved = answer("301 Moved", "location: http://127.0.0.1:9/\r\n", "");
    let table = [
        (busy, "Busy: anthropic: Overloaded (HTTP 529)\nwait 3000\n"),
        (
            key,
            "Key: anthropic: the API key was not accepted (HTTP 401); set ANTHROPIC_API_KEY or put the key into the configuration\n",
        ),
        (echo, "Refused: anthropic: what is [key]? (HTTP 400)\n"),
        (
            moved,
            "Refused: anthropic: the server redirects to http://127.0.0.1:9/ (HTTP 301), which is not followed; is the base URL right?\n",
        ),
    ];
    for (answer, expected) in table {
        let (_, outcome) = call(ProviderId::Anthropic, "claude-x", answer).await;
        assert_eq!(outcome, expected);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_broken_stream() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"Ha\"}}]}\n\n";
    let (_, outcome) = call(ProviderId::OpenAiChat, "m", cut.to_owned()).await;
    assert!(outcome.contains("Broken: openai-chat: the reply was cut or damaged"), "{outcome}");
}

#[tokio::test]
async fn nobody_listening_is_worth_another_try() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let call = Call::new("ollama", "m", vec![user(1, vec![Block::text("hi")])]);
    let failure =
        provider(ProviderId::Ollama, &url).reply(call.request(), &mut |_| ()).await.unwrap_err();
    assert_eq!(failure.kind, ModelErrorKind::Busy);
    assert!(failure.message.contains("no answer from 127.0.0.1:"), "{failure}");
}

#[test]
fn a_missing_key_is_said_before_anything_is_sent() {
    let none = Credentials::new(|_| None, BTreeMap::new());
    let table = [
        (ProviderId::Anthropic, Some("ANTHROPIC_API_KEY")),
        (ProviderId::OpenAi, Some("OPENAI_API_KEY")),
        (ProviderId::OpenAiChat, Some("OPENAI_API_KEY")),
        (ProviderId::Gemini, Some("GEMINI_API_KEY or GOOGLE_API_KEY")),
        (ProviderId::Ollama, None),
    ];
    for (id, names) in table {
        let outcome = Provider::new(ProviderConfig::new(id, &none)).map(|p| p.id());
        match names {
            None => assert_eq!(outcome, Ok(id)),
            Some(names) => {
                let failure = outcome.unwrap_err();
                assert_eq!(failure.kind, ModelErrorKind::Key);
                assert!(failure.message.contains(names), "{failure}");
            }
        }
    }
}

#[test]
fn debug_output_of_a_provider_shows_no_key() {
    let shown = format!("{:?}", provider(ProviderId::Anthropic, "http://127.0.0.1:9"));
    assert!(!shown.contains("sk-secret"), "{shown}");
}

#[tokio::test]
async fn a_server_on_this_machine_is_found_with_its_models() {
    let list = r#"{"object":"list","data":[{"id":"qwen","meta":{"n_ctx":2048,"n_ctx_train":32768}},{"id":"b","max_model_len":4096}]}"#;
    let (url, _) = serve(answer("200 OK", "content-type: application/json\r\n", list)).await;
    let (odd, _) = serve(answer("200 OK", "", "<html>")).await;
    let env = |name: &str| (name == "GEMINI_API_KEY").then(|| "g".to_owned());
    let credentials = Credentials::new(env, BTreeMap::new());
    let addresses =
        [(ProviderId::OpenAiChat, url.as_str()), (ProviderId::OpenAiChat, odd.as_str())];
    let found = discover_at(&credentials, &addresses).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0].provider, ProviderId::Gemini);
    let FoundBy::Server { models, .. } = &found[1].by else { panic!("{found:?}") };
    let models: Vec<_> = models.iter().map(|m| (m.id.as_str(), m.context)).collect();
    assert_eq!(models, [("qwen", Some(2_048)), ("b", Some(4_096))]);
}

#[tokio::test]
async fn models_are_listed_by_each_provider() {
    let gemini = r#"{"models":[{"name":"models/gemini-x","displayName":"X","inputTokenLimit":9,"supportedGenerationMethods":["generateContent"]},{"name":"models/embed","supportedGenerationMethods":["embedContent"]}]}"#;
    let anthropic = r#"{"data":[{"type":"model","id":"claude-x","display_name":"Claude X"}]}"#;
    let table = [
        (ProviderId::Gemini, gemini, "GET /v1beta/models?pageSize=1000 ", "gemini-x X 9"),
        (ProviderId::Anthropic, anthropic, "GET /v1/models?limit=1000 ", "claude-x Claude X 0"),
        (ProviderId::OpenAi, r#"{"data":[{"id":"gpt-5"}]}"#, "GET /v1/models ", "gpt-5  0"),
    ];
    for (id, list, line, expected) in table {
        let (url, asked) = serve(answer("200 OK", "", list)).await;
        let models = provider(id, &url).list_models().await.unwrap();
        let shown: Vec<String> = models
            .iter()
            .map(|m| {
                format!("{} {} {}", m.id, m.name.as_deref().unwrap_or(""), m.context.unwrap_or(0))
            })
            .collect();
        assert_eq!(shown, [expected]);
        assert!(asked.await.unwrap().starts_with(line));
    }
}
