//! What is understood: streams as text in, replies as text out.

use crate::history::{Call, WIRES, replayed, result, show, show_events, user};
use proptest::prelude::*;
use segno_agent::provider::{Decoder, Wire};
use segno_model::context::ContextMessage;
use segno_model::record::{AssistantMessage, Block};
use segno_runtime::{ModelError, StreamEvent};

type Outcome = (Vec<StreamEvent>, Result<AssistantMessage, ModelError>);

/// Feeds the stream in pieces that end at `cuts`.
fn decode(mut decoder: Decoder, stream: &[u8], cuts: &[usize]) -> Outcome {
    let mut events = Vec::new();
    let mut start = 0;
    for &cut in cuts.iter().chain([&stream.len()]) {
        match decoder.feed(&stream[start..cut]) {
            Ok(more) => events.extend(more),
            Err(failure) => return (events, Err(failure)),
        }
        start = cut;
    }
    (events, decoder.finish())
}

fn decoder(wire: Wire) -> Decoder {
    let (_, provider, model) = WIRES.into_iter().find(|(w, ..)| *w == wire).unwrap();
    let call = Call::new(provider, model, vec![user(4, vec![Block::text("hi")])]);
    wire.decoder(&call.request())
}

/// One event per line; a line that starts with `:` or holds a field name stands as it is.
fn stream(lines: &str) -> String {
    lines
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .map(|l| if l.starts_with(':') { format!("{l}\n\n") } else { format!("data: {l}\n\n") })
        .collect()
}

/// Decodes all cases of a wire into one snapshot.
fn check(wire: Wire, name: &str, cases: &[(&str, &str)]) {
    let mut out = String::new();
    for (title, lines) in cases {
        let (events, outcome) = decode(decoder(wire), stream(lines).as_bytes(), &[]);
        out += &format!("== {title}\n{}{}\n", show_events(&events), show(&outcome));
    }
    insta::assert_snapshot!(name, out);
}

const ANTHROPIC: &[(&str, &str)] = &[
    (
        "signed thinking, text, two parallel calls with split arguments",
        r#"
        {"type":"message_start","message":{"id":"m","role":"assistant","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":30,"output_tokens":1}}}
        {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}
        {"type":"ping"}
        {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}
        {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"look."}}
        {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}
        {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"CkY="}}
        {"type":"content_block_stop","index":0}
        {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"b3BhcXVl"}}
        {"type":"content_block_stop","index":1}
        {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}
        {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Reading é"}}
        {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":" both."}}
        {"type":"content_block_stop","index":2}
        {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}
        {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}
        {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"a"}}
        {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":".rs\",  \"n\": 1.50}"}}
        {"type":"content_block_stop","index":3}
        {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_2","name":"ls","input":{}}}
        {"type":"content_block_stop","index":4}
        {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":77}}
        {"type":"message_stop"}"#,
    ),
    (
        "empty text is not kept; unknown blocks and fields are",
        r#"
        {"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}
        {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
        {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\n\n"}}
        {"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}
        {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}
        {"type":"content_block_start","index":2,"content_block":{"type":"text","text":"Hi","citations":[]}}
        {"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"n":1}}}
        {"type":"content_block_delta","index":2,"delta":{"type":"new_delta"}}
        {"type":"new_event"}
        {"type":"message_delta","delta":{"stop_reason":"pause_turn"}}
        {"type":"message_stop"}"#,
    ),
    (
        "arguments cut by the output limit",
        r#"
        {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"write","input":{}}}
        {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"a"}}
        {"type":"message_delta","delta":{"stop_reason":"max_tokens"}}
        {"type":"message_stop"}"#,
    ),
    (
        "thinking whose signature never came",
        r#"
        {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}
        {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}
        {"type":"message_delta","delta":{"stop_reason":"end_turn"}}
        {"type":"message_stop"}"#,
    ),
    (
        "an empty reply",
        r#"
        {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}
        {"type":"message_stop"}"#,
    ),
    (
        "a refusal",
        r#"
        {"type":"message_delta","delta":{"stop_reason":"refusal"}}
        {"type":"message_stop"}"#,
    ),
    (
        "a new stop reason",
        r#"
        {"type":"message_delta","delta":{"stop_reason":"tired"}}
        {"type":"message_stop"}"#,
    ),
    (
        "overloaded in the middle",
        r#"
        {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hal"}}
        {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
    ),
    (
        "an unknown error in the middle",
        r#"
        {"type":"error","error":{"type":"odd","message":"?"}}"#,
    ),
    (
        "cut before the end",
        r#"
        {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hal"}}
        {"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
    ),
    ("a line that is not JSON", r#"{"type":"content_block_st"#),
    (
        "a delta for nothing",
        r#"{"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"x"}}"#,
    ),
    ("nothing at all", ""),
];

const RESPONSES: &[(&str, &str)] = &[
    (
        "encrypted reasoning, text, two calls",
        r#"
        {"type":"response.created","response":{"id":"resp"}}
        {"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}
        {"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Hm"}
        {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm"},{"type":"summary_text","text":"Ah"}],"encrypted_content":"gAAA"}}
        {"type":"response.output_item.added","output_index":1,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}
        {"type":"response.output_text.delta","output_index":1,"delta":"Hel"}
        {"type":"response.output_text.delta","output_index":1,"delta":"lo"}
        {"type":"response.output_item.done","output_index":1,"item":{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hello","annotations":[]}]}}
        {"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_a","name":"read","arguments":""}}
        {"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"path\": "}
        {"type":"response.function_call_arguments.delta","output_index":2,"delta":"\"a\"}"}
        {"type":"response.output_item.added","output_index":3,"item":{"type":"function_call","id":"fc_2","call_id":"call_b","name":"ls","arguments":""}}
        {"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","id":"fc_2","call_id":"call_b","name":"ls","arguments":"{}"}}
        {"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"fc_1","call_id":"call_a","name":"read","arguments":"{\"path\": \"a\"}"}}
        {"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":40,"output_tokens_details":{"reasoning_tokens":25}}}}"#,
    ),
    (
        "reasoning that was not kept and not encrypted",
        r#"
        {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}
        {"type":"response.output_item.done","output_index":1,"item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi"}]}}
        {"type":"response.completed","response":{}}"#,
    ),
    (
        "items only at the end",
        r#"
        {"type":"response.completed","response":{"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi"}]}]}}"#,
    ),
    (
        "a refusal",
        r#"
        {"type":"response.refusal.delta","delta":"No."}
        {"type":"response.output_item.done","output_index":0,"item":{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"No."}]}}
        {"type":"response.completed","response":{}}"#,
    ),
    (
        "the output limit",
        r#"
        {"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#,
    ),
    (
        "a content filter",
        r#"
        {"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}"#,
    ),
    (
        "failed",
        r#"
        {"type":"response.failed","response":{"error":{"code":"server_error","message":"The server had an error"}}}"#,
    ),
    (
        "failed for length",
        r#"
        {"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"Too long"}}}"#,
    ),
    ("an error event", r#"{"type":"error","code":"rate_limit_exceeded","message":"Slow down"}"#),
    ("cut before the end", r#"{"type":"response.output_text.delta","delta":"Hel"}"#),
];

const CHAT: &[(&str, &str)] = &[
    (
        "text with usage in the last chunk",
        r#"
        : OPENROUTER PROCESSING
        {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        {"choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":null}],"usage":null}
        {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}
        {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
        {"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":20},"completion_tokens_details":{"reasoning_tokens":4}}}
        [DONE]"#,
    ),
    (
        "reasoning_content and parallel calls by index",
        r#"
        {"choices":[{"delta":{"reasoning_content":"Two "}}]}
        {"choices":[{"delta":{"reasoning_content":"tools."}}]}
        {"choices":[{"delta":{"content":null,"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"read","arguments":""}}]}}]}
        {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\": "}}]}}]}
        {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"ls","arguments":"{}"}}]}}]}
        {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]}}]}
        {"choices":[{"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":30,"completion_tokens":5,"prompt_cache_hit_tokens":10}}
        [DONE]"#,
    ),
    (
        "reasoning twice under two names, with details",
        r#"
        {"choices":[{"delta":{"reasoning":"Hm","reasoning_content":"Hm","reasoning_details":[{"type":"reasoning.text","text":"Hm","index":0,"signature":null}]}}]}
        {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":" ok","index":0,"signature":"sig"}],"content":"Yes"}}]}
        {"choices":[{"delta":{},"finish_reason":"stop"}]}
        [DONE]"#,
    ),
    (
        "whole calls at once, no ids, no index, finish says stop",
        r#"
        {"choices":[{"delta":{"tool_calls":[{"function":{"name":"read","arguments":"{\"path\":\"a\"}"}},{"function":{"name":"read","arguments":"{\"path\":\"b\"}"}}]},"finish_reason":"stop"}]}"#,
    ),
    (
        "index 0 for every parallel call",
        r#"
        {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"read","arguments":"{}"}}]}}]}
        {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"y","function":{"name":"ls","arguments":"{}"}}]}}]}
        {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
    ),
    (
        "another id in every part",
        r#"
        {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x1","function":{"name":"read","arguments":"{\"a\""}}]}}]}
        {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x2","function":{"arguments":":1}"}}]}}]}
        {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
    ),
    (
        "arguments as an object, and a signature beside the call",
        r#"
        {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","extra_content":{"google":{"thought_signature":"sig"}},"function":{"name":"read","arguments":{"a":1.0}}}]},"finish_reason":"tool_calls"}]}
        [DONE]"#,
    ),
    (
        "arguments that are no JSON",
        r#"
        {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"read","arguments":"path=a"}}]},"finish_reason":"tool_calls"}]}
        [DONE]"#,
    ),
    (
        "a document instead of a stream",
        r#"
        {"choices":[{"message":{"role":"assistant","content":"Hi","tool_calls":[{"id":"x","type":"function","function":{"name":"ls","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}"#,
    ),
    ("length", r#"{"choices":[{"delta":{"content":"Hal"},"finish_reason":"length"}]}"#),
    ("content filter", r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#),
    ("a refusal", r#"{"choices":[{"delta":{"refusal":"No."},"finish_reason":"stop"}]}"#),
    (
        "no finish reason, but the end mark",
        r#"
        {"choices":[{"delta":{"content":"Hi"}}]}
        [DONE]"#,
    ),
    ("only the end mark", "[DONE]"),
    ("cut before the end", r#"{"choices":[{"delta":{"content":"Hal"}}]}"#),
    (
        "an error in the middle",
        r#"
        {"choices":[{"delta":{"content":"Hal"}}]}
        {"error":{"message":"Provider returned error","code":502}}"#,
    ),
    ("an error in a word", r#"{"error":"llama runner exited"}"#),
    (
        "a call without a name",
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
    ),
];

const GEMINI: &[(&str, &str)] = &[
    (
        "thoughts, text, signed and unsigned calls without ids",
        r#"
        {"candidates":[{"content":{"role":"model","parts":[{"text":"Thin","thought":true}]}}],"usageMetadata":{"promptTokenCount":5}}
        {"candidates":[{"content":{"role":"model","parts":[{"text":"king","thought":true}]}}]}
        {"candidates":[{"content":{"role":"model","parts":[{"text":"Hel"},{"text":"lo"}]}}]}
        {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"read","args":{"path": "a","n":1.50}},"thoughtSignature":"c2ln"},{"functionCall":{"name":"ls"}}]}}]}
        {"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":20,"thoughtsTokenCount":15}}"#,
    ),
    (
        "a call with an id",
        r#"
        {"candidates":[{"content":{"parts":[{"functionCall":{"id":"fc1","name":"read","args":{}}}]},"finishReason":"STOP"}]}"#,
    ),
    (
        "a signature on an empty last part",
        r#"
        {"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}
        {"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"c2ln"}]},"finishReason":"STOP"}]}"#,
    ),
    (
        "the output limit",
        r#"{"candidates":[{"content":{"parts":[{"text":"Hal"}]},"finishReason":"MAX_TOKENS"}]}"#,
    ),
    ("safety", r#"{"candidates":[{"finishReason":"SAFETY"}]}"#),
    (
        "a call that the provider could not read",
        r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#,
    ),
    (
        "a new finish reason",
        r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"NEW"}]}"#,
    ),
    ("a blocked prompt", r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}"#),
    (
        "an error in the middle",
        r#"
        {"candidates":[{"content":{"parts":[{"text":"Hal"}]}}]}
        {"error":{"code":503,"message":"The model is overloaded","status":"UNAVAILABLE"}}"#,
    ),
    ("cut before the end", r#"{"candidates":[{"content":{"parts":[{"text":"Hal"}]}}]}"#),
    ("not JSON", "{\"candidates\": ["),
];

/// Covers: #46, #48.
#[test]
fn anthropic_streams_are_understood() {
    check(Wire::Anthropic, "anthropic", ANTHROPIC);
}

#[test]
fn responses_streams_are_understood() {
    check(Wire::OpenAiResponses, "openai", RESPONSES);
}

/// Covers: #38 (missing and repeated ids).
#[test]
fn chat_streams_are_understood() {
    check(Wire::OpenAiChat, "openai_chat", CHAT);
}

#[test]
fn gemini_streams_are_understood() {
    check(Wire::Gemini, "gemini", GEMINI);
}

fn first_cases() -> [(Wire, &'static str); 4] {
    [
        (Wire::Anthropic, ANTHROPIC[0].1),
        (Wire::OpenAiResponses, RESPONSES[0].1),
        (Wire::OpenAiChat, CHAT[1].1),
        (Wire::Gemini, GEMINI[0].1),
    ]
}

/// Covers: G10 (what the provider said is what it is told again, byte for byte).
#[test]
fn a_decoded_reply_goes_back_as_the_provider_said_it() {
    for ((wire, provider, model), (_, lines)) in WIRES.into_iter().zip(first_cases()) {
        let (_, reply) = decode(decoder(wire), stream(lines).as_bytes(), &[]);
        let reply = reply.unwrap();
        let results =
            reply.calls().map(|c| result(6, &c.id, &c.name, vec![Block::text("ok")])).collect();
        let history = vec![
            user(4, vec![Block::text("hi")]),
            replayed(5, &reply),
            ContextMessage::Results(results),
        ];
        let body = String::from_utf8(Call::new(provider, model, history).http(wire).body).unwrap();
        let native = reply.native.as_ref().unwrap().items.get();
        let inner = if provider == "openai" { &native[1..native.len() - 1] } else { native };
        assert!(body.contains(inner), "{provider}: {body}");
        // Ids that we made stay with us.
        assert!(provider != "gemini" || !body.contains("segno_"), "{body}");
    }
}

#[test]
fn ids_that_we_make_are_stable_and_differ_between_requests() {
    let ids = |seq| {
        let call = Call::new("gemini", "gemini-3-flash", vec![user(seq, vec![Block::text("x")])]);
        let decoder = Wire::Gemini.decoder(&call.request());
        let (_, reply) = decode(decoder, stream(GEMINI[0].1).as_bytes(), &[]);
        reply.unwrap().calls().map(|c| c.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(4), ids(4));
    let mut all = [ids(4), ids(9)].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4);
}

/// A prefix of a stream either is no reply, or (where the wire has said its last word) is the
/// whole one.
#[test]
fn a_cut_stream_is_never_taken_for_a_whole_reply() {
    for (wire, lines) in first_cases() {
        let whole = stream(lines);
        let (_, expected) = decode(decoder(wire), whole.as_bytes(), &[]);
        let expected = expected.unwrap();
        for cut in (0..whole.len()).step_by(5) {
            let (_, outcome) = decode(decoder(wire), &whole.as_bytes()[..cut], &[]);
            match outcome {
                Ok(reply) => assert_eq!(reply.content, expected.content, "{wire:?} cut at {cut}"),
                Err(failure) => assert!(failure.kind.is_retryable(), "{wire:?} {failure:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any division of the bytes gives the same reply.
    #[test]
    fn the_division_into_pieces_does_not_matter(
        case in 0_usize..4,
        crlf in any::<bool>(),
        mut places in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let (wire, lines) = first_cases()[case];
        let mut bytes = stream(lines);
        let (events, whole) = decode(decoder(wire), bytes.as_bytes(), &[]);
        if crlf {
            bytes = bytes.replace('\n', "\r\n");
        }
        let mut cuts: Vec<usize> = places.drain(..).map(|p| p.index(bytes.len())).collect();
        cuts.sort_unstable();
        let (pieces, divided) = decode(decoder(wire), bytes.as_bytes(), &cuts);
        prop_assert_eq!(events, pieces);
        prop_assert_eq!(show(&whole), show(&divided));
    }

    /// Garbage is an error, never a panic.
    #[test]
    fn no_stream_makes_a_decoder_panic(case in 0_usize..4, garbage in ".{0,80}", at in any::<prop::sample::Index>()) {
        let (wire, lines) = first_cases()[case];
        let whole = stream(lines);
        let mut place = at.index(whole.len());
        while !whole.is_char_boundary(place) {
            place -= 1;
        }
        let text = format!("{}{garbage}{}", &whole[..place], &whole[place..]);
        let _ = decode(decoder(wire), text.as_bytes(), &[]);
    }
}
