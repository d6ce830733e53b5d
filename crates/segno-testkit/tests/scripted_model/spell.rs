//! Conversations in a small notation, spelled for each wire.
//!
//! Responsible for: one way to write a history in a test, good or bad. Must not: mend what is
//! written.
//!
//! Lines: `user TEXT`, `say TEXT`, `think SIGNATURE TEXT` (`-` is no signature), `sign SIGNATURE`
//! (on the part before), `call ID NAME JSON`, `result ID NAME TEXT`, `empty ROLE`; `_` stands for no
//! text or id. Lines of the model, and results, in a row are one turn; each `user` line is a message.

use segno_testkit::scripted_model::{Piece, Said, SeenResult, Turn, Wire};
use serde_json::{Value, json};

/// The model of all requests.
pub(crate) const MODEL: &str = "scripted";

/// Reads the notation.
pub(crate) fn turns(text: &str) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let cut = |text: &str| if text == "_" { String::new() } else { text.to_owned() };
        let mut words = rest.splitn(3, ' ').map(cut);
        let mut next = || words.next().unwrap_or_default();
        match word {
            "user" => turns.push(Turn::User(vec![Piece::Text(cut(rest))])),
            "say" => say(&mut turns, Said::Text { text: cut(rest), signature: None }),
            "think" => {
                let (signature, text) = rest.split_once(' ').unwrap_or((rest, ""));
                let signature = (signature != "-").then(|| cut(signature));
                say(&mut turns, Said::Thinking { text: text.into(), signature, redacted: false });
            }
            "sign" => sign(&mut turns, rest),
            "call" => {
                let [id, name, arguments] = [next(), next(), next()];
                say(&mut turns, Said::Call { id, name, arguments, signature: None });
            }
            "result" => {
                let [call_id, name, text] = [next(), next(), next()];
                let result = SeenResult { call_id, name, text, images: 0, is_error: false };
                match turns.last_mut() {
                    Some(Turn::Results(results)) => results.push(result),
                    _ => turns.push(Turn::Results(vec![result])),
                }
            }
            "empty" if rest == "user" => turns.push(Turn::User(Vec::new())),
            "empty" => turns.push(Turn::Assistant(Vec::new())),
            other => panic!("no such line: {other}"),
        }
    }
    turns
}

fn say(turns: &mut Vec<Turn>, said: Said) {
    match turns.last_mut() {
        Some(Turn::Assistant(all)) => all.push(said),
        _ => turns.push(Turn::Assistant(vec![said])),
    }
}

fn sign(turns: &mut [Turn], proof: &str) {
    let Some(Turn::Assistant(all)) = turns.last_mut() else { panic!("nothing to sign") };
    match all.last_mut() {
        Some(Said::Text { signature, .. } | Said::Call { signature, .. }) => {
            *signature = Some(proof.to_owned());
        }
        other => panic!("cannot sign {other:?}"),
    }
}

/// The body of a proper request with this history, bad as it may be.
pub(crate) fn body(wire: Wire, turns: &[Turn]) -> Value {
    match wire {
        Wire::Anthropic => json!({
            "model": MODEL, "max_tokens": 8000, "stream": true, "system": "Be good.",
            "tools": [{"name": "read", "description": "d", "input_schema": {"type": "object"}}],
            "messages": anthropic(turns),
        }),
        Wire::Responses => json!({
            "model": MODEL, "stream": true, "store": false, "instructions": "Be good.",
            "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "function", "name": "read", "parameters": {"type": "object"}}],
            "input": turns.iter().flat_map(responses).collect::<Vec<_>>(),
        }),
        Wire::Chat => {
            let system = json!({"role": "system", "content": "Be good."});
            let function = json!({"name": "read", "parameters": {"type": "object"}});
            let messages = [system].into_iter().chain(turns.iter().flat_map(chat));
            json!({
                "model": MODEL, "stream": true, "stream_options": {"include_usage": true},
                "tools": [{"type": "function", "function": function}],
                "messages": messages.collect::<Vec<_>>(),
            })
        }
        Wire::Gemini => json!({
            "systemInstruction": {"parts": [{"text": "Be good."}]},
            "tools": [{"functionDeclarations": [
                {"name": "read", "description": "d", "parametersJsonSchema": {"type": "object"}},
            ]}],
            "contents": gemini(turns),
        }),
    }
}

/// Results and the user's words behind them share one message.
fn merged(
    turns: &[Turn],
    messages: impl Fn(&Turn) -> (&'static str, Vec<Value>),
) -> Vec<(&'static str, Vec<Value>)> {
    let mut out: Vec<(&str, Vec<Value>)> = Vec::new();
    for (index, turn) in turns.iter().enumerate() {
        let (role, blocks) = messages(turn);
        let after_results = index > 0 && matches!(turns[index - 1], Turn::Results(_));
        match out.last_mut() {
            Some(last) if after_results && last.0 == role => last.1.extend(blocks),
            _ => out.push((role, blocks)),
        }
    }
    out
}

fn anthropic(turns: &[Turn]) -> Vec<Value> {
    let messages = merged(turns, |turn| match turn {
        Turn::User(pieces) => ("user", pieces.iter().map(text_block).collect()),
        Turn::Results(results) => {
            let block = |r: &SeenResult| json!({"type": "tool_result", "tool_use_id": r.call_id, "content": r.text});
            ("user", results.iter().map(block).collect())
        }
        Turn::Assistant(said) => {
            let block = |said: &Said| match said {
                Said::Text { text, .. } => json!({"type": "text", "text": text}),
                Said::Thinking { signature, redacted: true, .. } => {
                    json!({"type": "redacted_thinking", "data": signature})
                }
                Said::Thinking { text, signature: None, .. } => {
                    json!({"type": "thinking", "thinking": text})
                }
                Said::Thinking { text, signature, .. } => {
                    json!({"type": "thinking", "thinking": text, "signature": signature})
                }
                Said::Call { id, name, arguments, .. } => {
                    json!({"type": "tool_use", "id": id, "name": name, "input": loose(arguments)})
                }
            };
            ("assistant", said.iter().map(block).collect())
        }
    });
    messages.into_iter().map(|(role, blocks)| json!({"role": role, "content": blocks})).collect()
}

fn text_block(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({"type": "text", "text": text}),
        Piece::Image { .. } => panic!("images have tests of their own"),
    }
}

/// JSON, or the text itself where it is none.
fn loose(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments))
}

fn responses(turn: &Turn) -> Vec<Value> {
    match turn {
        Turn::User(pieces) => {
            let texts: Vec<Value> = pieces
                .iter()
                .map(|piece| json!({"type": "input_text", "text": text_block(piece)["text"]}))
                .collect();
            vec![json!({"role": "user", "content": texts})]
        }
        Turn::Results(results) => results
            .iter()
            .map(
                |r| json!({"type": "function_call_output", "call_id": r.call_id, "output": r.text}),
            )
            .collect(),
        Turn::Assistant(said) if said.is_empty() => {
            vec![json!({"type": "message", "role": "assistant", "content": []})]
        }
        Turn::Assistant(said) => said
            .iter()
            .map(|said| match said {
                Said::Text { text, .. } => json!({
                    "type": "message", "role": "assistant", "id": "msg_1",
                    "content": [{"type": "output_text", "text": text}],
                }),
                Said::Thinking { text, signature, .. } => {
                    let summary = if text.is_empty() {
                        json!([])
                    } else {
                        json!([{"type": "summary_text", "text": text}])
                    };
                    let mut item = json!({"type": "reasoning", "id": "rs_1", "summary": summary});
                    if let Some(signature) = signature {
                        item["encrypted_content"] = json!(signature);
                    }
                    item
                }
                Said::Call { id, name, arguments, .. } => json!({
                    "type": "function_call", "id": "fc_1", "call_id": id, "name": name,
                    "arguments": arguments,
                }),
            })
            .collect(),
    }
}

fn chat(turn: &Turn) -> Vec<Value> {
    match turn {
        Turn::User(pieces) => {
            let texts: Vec<Value> = pieces.iter().map(text_block).collect();
            vec![json!({"role": "user", "content": texts})]
        }
        Turn::Results(results) => results
            .iter()
            .map(|r| json!({"role": "tool", "tool_call_id": r.call_id, "content": r.text}))
            .collect(),
        Turn::Assistant(said) => {
            let mut message = json!({"role": "assistant", "content": null});
            let mut calls = Vec::new();
            for said in said {
                match said {
                    Said::Text { text, .. } => message["content"] = json!(text),
                    Said::Thinking { text, .. } => message["reasoning_content"] = json!(text),
                    Said::Call { id, name, arguments, .. } => calls.push(json!({
                        "id": id, "type": "function",
                        "function": {"name": name, "arguments": arguments},
                    })),
                }
            }
            if !calls.is_empty() {
                message["tool_calls"] = json!(calls);
            }
            vec![message]
        }
    }
}

fn gemini(turns: &[Turn]) -> Vec<Value> {
    let contents = merged(turns, |turn| match turn {
        Turn::User(pieces) => {
            ("user", pieces.iter().map(|p| json!({"text": text_block(p)["text"]})).collect())
        }
        Turn::Results(results) => {
            let part = |r: &SeenResult| {
                let mut answer = json!({"name": r.name, "response": {"output": r.text}});
                if !r.call_id.is_empty() {
                    answer["id"] = json!(r.call_id);
                }
                json!({ "functionResponse": answer })
            };
            ("user", results.iter().map(part).collect())
        }
        Turn::Assistant(said) => ("model", said.iter().map(gemini_part).collect()),
    });
    contents.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
}

fn gemini_part(said: &Said) -> Value {
    let (mut part, signature) = match said {
        Said::Text { text, signature } => (json!({"text": text}), signature),
        Said::Thinking { text, signature, .. } => {
            (json!({"text": text, "thought": true}), signature)
        }
        Said::Call { id, name, arguments, signature } => {
            let mut call = json!({"name": name, "args": loose(arguments)});
            if !id.is_empty() {
                call["id"] = json!(id);
            }
            (json!({ "functionCall": call }), signature)
        }
    };
    if let Some(signature) = signature {
        part["thoughtSignature"] = json!(signature);
    }
    part
}
