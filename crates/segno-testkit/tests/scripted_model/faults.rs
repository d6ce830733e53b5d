//! Everything that can go wrong on purpose.

use super::client::{Response, connect, headers, http, line, post, send};
use super::spell::{MODEL, body, turns};
use segno_testkit::scripted_model::{Delivery, Fault, Reply, ScriptedModel, Wire};
use std::io::Read;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);

/// A server whose every reply has these statements, asked once.
fn ask(wire: Wire, statements: &str) -> (ScriptedModel, Response) {
    let script = format!("otherwise\n{statements}");
    let server = ScriptedModel::start(&script).expect("the script is good");
    let response = post(&server, wire, &body(wire, &turns("user go")));
    (server, response)
}

fn ends_with(server: &ScriptedModel, delivery: Delivery) -> bool {
    server.wait_until(LONG, |all| all.last().is_some_and(|r| r.delivery == delivery))
}

#[test]
fn a_stream_drops_after_so_many_events() {
    for wire in Wire::ALL {
        for count in [0, 1, 3] {
            let (server, response) =
                ask(wire, &format!("say \"some words\"\nfault drop after {count} events"));
            assert_eq!((response.status, response.whole), (200, false), "{wire:?} {count}");
            assert_eq!(response.events().len(), count, "{wire:?}");
            assert!(ends_with(&server, Delivery::Broken));
        }
    }
}

#[test]
fn a_stream_ends_inside_a_character() {
    for wire in Wire::ALL {
        let (_, response) = ask(wire, "say \"ein schönes Lied\"\nfault cut mid-character");
        assert!(!response.whole, "{wire:?}");
        let error = std::str::from_utf8(&response.body).expect_err("half a character");
        assert_eq!(error.valid_up_to(), response.body.len() - 1, "{wire:?}");
    }
}

#[test]
fn bytes_in_small_pieces_are_the_same_bytes() {
    for wire in Wire::ALL {
        let (_, plain) = ask(wire, "say \"ein schönes Lied 𝄋\"");
        let (_, pieces) = ask(wire, "say \"ein schönes Lied 𝄋\"\nfault pieces 1");
        assert!(pieces.whole);
        assert_eq!(pieces.text(), plain.text(), "{wire:?}");
    }
}

#[test]
fn a_malformed_event_stands_among_good_ones() {
    for wire in Wire::ALL {
        let (_, response) = ask(wire, "say \"words\"\nfault malformed chunk after 1 event");
        let events = response.events();
        let bad = |text: &String| serde_json::from_str::<serde_json::Value>(text).is_err();
        let places: Vec<usize> =
            (0..events.len()).filter(|i| bad(&events[*i]) && events[*i] != "[DONE]").collect();
        assert_eq!(places, [1], "{wire:?}: {events:?}");
    }
}

#[test]
fn an_error_event_ends_the_stream_in_the_providers_shape() {
    let rows = [
        (Wire::Anthropic, "overloaded", "overloaded_error"),
        (Wire::Responses, "overloaded", "server_is_overloaded"),
        (Wire::Chat, "overloaded", "server_is_overloaded"),
        (Wire::Gemini, "overloaded", "UNAVAILABLE"),
        (Wire::Anthropic, "internal", "api_error"),
        (Wire::Responses, "internal", "server_error"),
        (Wire::Chat, "internal", "server_error"),
        (Wire::Gemini, "internal", "INTERNAL"),
    ];
    for (wire, kind, word) in rows {
        let statements = format!("say \"words\"\nfault error event {kind} after 2 events");
        let (_, response) = ask(wire, &statements);
        let events = response.events();
        assert!(response.whole);
        assert_eq!(events.len(), 3, "{wire:?}");
        assert!(events[2].contains(word), "{wire:?}: {}", events[2]);
    }
}

#[test]
fn a_status_has_the_providers_shape_and_header() {
    let rows = [
        (Wire::Anthropic, "status 529", 529, "overloaded_error"),
        (Wire::Anthropic, "status 429 retry-after 1", 429, "rate_limit_error"),
        (Wire::Responses, "status 429 retry-after 1", 429, "rate_limit_exceeded"),
        (Wire::Chat, "status 503", 503, "server_is_overloaded"),
        (Wire::Chat, "status 400 \"no such thing\"", 400, "no such thing"),
        (Wire::Gemini, "status 429 retry-after 1", 429, "RESOURCE_EXHAUSTED"),
        (Wire::Gemini, "status 500", 500, "INTERNAL"),
        (Wire::Anthropic, "too-long", 400, "prompt is too long"),
        (Wire::Gemini, "too-long", 400, "exceeds the maximum number of tokens"),
    ];
    for (wire, statement, status, word) in rows {
        let (server, response) = ask(wire, statement);
        assert_eq!(response.status, status, "{wire:?} {statement}");
        assert!(response.text().contains(word), "{}", response.text());
        let waits = response.head.contains("retry-after: 1\r\n");
        assert_eq!(waits, statement.contains("retry-after"), "{}", response.head);
        assert_eq!(server.violations(), [], "the request was good");
    }
}

#[test]
fn a_fault_ends_after_so_many_times() {
    let script = "rule a\n once\n status 529\nrule b\n times 2\n say \"half\"\n fault drop after 1 event\notherwise\n say \"good\"";
    let server = ScriptedModel::start(script).expect("the script is good");
    let request = body(Wire::Chat, &turns("user go"));
    let seen: Vec<(u16, bool)> = (0..5)
        .map(|_| post(&server, Wire::Chat, &request))
        .map(|response| (response.status, response.whole))
        .collect();
    assert_eq!(seen, [(529, true), (200, false), (200, false), (200, true), (200, true)]);
}

/// The client sees what came before, then nothing, and its leaving is noticed.
#[test]
fn a_hanging_stream_waits_for_the_client_to_leave() {
    for wire in Wire::ALL {
        let script = "otherwise\n say \"words\"\n fault hang after 2 events";
        let server = ScriptedModel::start(script).expect("the script is good");
        let mut stream = connect(&server);
        let request = body(wire, &turns("user go")).to_string();
        send(&mut stream, &line(wire, MODEL), &headers(wire), &request);
        assert!(ends_with(&server, Delivery::Hanging), "{wire:?}");
        let mut bytes = [0; 64];
        assert!(stream.read(&mut bytes).expect("some bytes") > 0);
        drop(stream);
        assert!(ends_with(&server, Delivery::Left), "{wire:?}");
        assert_eq!(http(&server, "GET /health", &[], "").status, 200);
    }
}

#[test]
fn a_delayed_stream_is_whole() {
    let statements = "say \"words\"\nfault delay 10ms\nfault pace 1ms";
    let (server, response) = ask(Wire::Anthropic, statements);
    assert!(response.whole);
    assert!(ends_with(&server, Delivery::Whole));
}

/// Dropping the server ends every connection, also one that hangs.
#[test]
fn dropping_the_server_ends_hanging_streams() {
    let server =
        ScriptedModel::reply_with(|_| Reply::text("x").fault(Fault::Hang(None))).expect("a server");
    let mut stream = connect(&server);
    let request = body(Wire::Chat, &turns("user go")).to_string();
    send(&mut stream, &line(Wire::Chat, MODEL), &headers(Wire::Chat), &request);
    assert!(ends_with(&server, Delivery::Hanging));
    drop(server);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "the stream did not end as if it were whole");
}
