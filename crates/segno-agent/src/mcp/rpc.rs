//! JSON-RPC 2.0, as far as MCP needs it.
//!
//! Responsible for: writing requests, taking messages apart, and what can go wrong with a request,
//! by what it says about the effect. Must not: move bytes.

use serde_json::{Value, json};

/// A longer message ends the connection.
pub(super) const MAX_MESSAGE: usize = 16 << 20;

/// A request without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// It certainly did not reach the server.
    NotSent(String),
    /// It may have reached it, and no answer came.
    Lost(String),
    /// The server answered with an error.
    Refused(String),
}

impl Failure {
    /// Why, for people.
    pub(super) fn why(&self) -> &str {
        match self {
            Self::NotSent(why) | Self::Lost(why) | Self::Refused(why) => why,
        }
    }
}

/// What a server said.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Message {
    /// The answer to our request of this number.
    Answer(u64, Result<Value, Failure>),
    /// A request of its own; this is the answer to it.
    Asked(Value),
    /// Anything that needs no answer.
    Other,
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

pub(super) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Takes a message apart. A list of messages is not one of today's protocol.
pub(super) fn understand(message: &Value) -> Message {
    let id = message.get("id");
    if message.get("method").is_some() {
        return match (id, message.get("method").and_then(Value::as_str)) {
            (Some(id), Some("ping")) => {
                Message::Asked(json!({"jsonrpc": "2.0", "id": id, "result": {}}))
            }
            (Some(id), _) => Message::Asked(json!({
                "jsonrpc": "2.0", "id": id,
                "error": {"code": -32601, "message": "not offered by this client"},
            })),
            (None, _) => Message::Other,
        };
    }
    let Some(id) = id.and_then(Value::as_u64) else { return Message::Other };
    if let Some(error) = message.get("error") {
        let text = error.get("message").and_then(Value::as_str).unwrap_or("an error");
        let code = error.get("code").and_then(Value::as_i64);
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        return Message::Answer(id, Err(Failure::Refused(format!("{text}{code}"))));
    }
    match message.get("result") {
        Some(result) => Message::Answer(id, Ok(result.clone())),
        None => Message::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, "Answer(3, Ok"),
            (r#"{"id":3,"error":{"code":-32000,"message":"no"}}"#, "Refused(\"no (-32000)\")"),
            (r#"{"id":3,"error":7}"#, "Refused(\"an error\")"),
            (r#"{"id":"x","method":"ping"}"#, "Asked(Object {\"jsonrpc\": String(\"2.0\"), \"id\""),
            (r#"{"id":1,"method":"roots/list"}"#, "-32601"),
            (r#"{"method":"notifications/message"}"#, "Other"),
            (r#"{"id":"3","result":{}}"#, "Other"),
            (r#"{"id":3}"#, "Other"),
            ("[]", "Other"),
            ("7", "Other"),
        ];
        for (text, expected) in cases {
            let told = format!("{:?}", understand(&serde_json::from_str(text).expect("JSON")));
            assert!(told.contains(expected), "{text}: {told}");
        }
    }
}
