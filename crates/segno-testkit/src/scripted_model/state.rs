//! States of histories that only their maker reads (`POST /v1/responses/compact`).
//!
//! Responsible for: a sealed text that says which model on which server made it, for which window, and what it is
//! about; proving all of that when it comes back, even to a server that was started anew. Must not: claim any
//! secrecy; anyone can read these.

use super::seen::{Seen, Turn};
use super::signature::{self, Verified};
use super::wire::{list_of, text_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// How long the seal in front of a state is.
const SEAL: usize = 56;

/// What a state is bound to: the model, and the server by the name that it is called by.
pub(crate) fn scope(model: &str, host: &str) -> String {
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    format!("state/{model}@{host}")
}

/// What a state is about, if it comes back to its maker behind the window that it was made with.
pub(crate) fn open(scope: &str, window: &[Turn], state: &str) -> Result<String, Verified> {
    let (seal, told) = state.split_at_checked(SEAL).unwrap_or((state, ""));
    let told = STANDARD.decode(told).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let told = told.unwrap_or_default();
    match signature::verify(scope, Some(&content(window, &told)), seal) {
        Verified::Intact => Ok(told),
        broken => Err(broken),
    }
}

fn seal(scope: &str, window: &[Turn], told: &str) -> String {
    signature::sign(scope, &content(window, told)) + &STANDARD.encode(told)
}

fn content(window: &[Turn], told: &str) -> String {
    let window: Vec<String> = window.iter().map(Turn::text).collect();
    format!("{told}\n{}", window.join("\n"))
}

/// The answer to a request for a state: what the user said, word for word, and one sealed item for all else.
pub(crate) fn compacted(seen: &Seen, body: &Value, scope: &str) -> Value {
    let units: Vec<&str> = seen.units.iter().map(String::as_str).collect();
    let tag = format!("{:016x}", signature::hash(&units));
    let is_user = |item: &&Value| text_of(item, "role") == "user";
    let mut output: Vec<Value> = list_of(body, "input").iter().filter(is_user).cloned().collect();
    for (index, item) in output.iter_mut().enumerate() {
        item["id"] = json!(format!("msg_{tag}{index:02}"));
        item["type"] = json!("message");
        item["status"] = json!("completed");
    }
    let last = seen.turns.last().map(Turn::text).unwrap_or_default();
    let last: String = last.chars().take(80).collect();
    let told =
        format!("(kept by {}: {} turns, the last was {last:?})", seen.model, seen.turns.len());
    let window: Vec<Turn> =
        seen.turns.iter().filter(|turn| is_said_by_user(turn)).cloned().collect();
    let state = seal(scope, &window, &told);
    let tokens = |bytes: usize| (bytes as u64).div_ceil(4);
    let input = tokens(units.iter().map(|unit| unit.len()).sum());
    let made = tokens(state.len());
    output.push(json!({
        "id": format!("cmp_{tag}"), "type": "compaction", "encrypted_content": state,
    }));
    json!({
        "id": format!("resp_{tag}"), "object": "response.compaction", "created_at": 1_700_000_000,
        "output": output,
        "usage": {
            "input_tokens": input, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": made, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input.saturating_add(made),
        },
    })
}

/// Whether the user said it, and no state did.
fn is_said_by_user(turn: &Turn) -> bool {
    matches!(turn, Turn::User(_)) && !turn.text().starts_with("(kept by ")
}

#[cfg(test)]
mod tests {
    use super::super::seen::Piece;
    use super::*;

    #[test]
    fn a_state_knows_its_model_its_server_and_its_window() {
        let window = [Turn::User(vec![Piece::Text("hello".to_owned())])];
        let here = scope("m", "127.0.0.1:4000");
        let state = seal(&here, &window, "so far");
        assert_eq!(open(&here, &window, &state), Ok("so far".to_owned()));
        assert_eq!(open(&scope("m", "127.0.0.1:5000"), &window, &state), Ok("so far".to_owned()));
        for other in [scope("n", "127.0.0.1:4000"), scope("m", "localhost:4000")] {
            assert_eq!(open(&other, &window, &state), Err(Verified::Foreign));
        }
        assert_eq!(open(&here, &[], &state), Err(Verified::Altered));
        assert_eq!(open(&here, &window, &state[..60]), Err(Verified::Altered));
        assert_eq!(open(&here, &window, "gAAAAABm"), Err(Verified::Foreign));
    }
}
