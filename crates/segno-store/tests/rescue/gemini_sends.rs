//! What Gemini CLI 0.61.0 makes of a file, by its source, for tests.

use serde_json::{Value, json};

/// A session as it has it.
#[derive(Default)]
struct Session {
    is_listed: bool,
    messages: Vec<Value>,
}

impl Session {
    fn put(&mut self, message: &Value) {
        if !message["id"].is_string() {
            return;
        }
        match self.messages.iter_mut().find(|other| other["id"] == message["id"]) {
            Some(other) => *other = message.clone(),
            None => self.messages.push(message.clone()),
        }
    }

    fn put_all(&mut self, messages: &Value) {
        messages.as_array().into_iter().flatten().for_each(|message| self.put(message));
    }

    fn line(&mut self, line: &Value) {
        if line["$rewindTo"].is_string() {
            let at = self.messages.iter().position(|message| message["id"] == line["$rewindTo"]);
            self.messages.truncate(at.unwrap_or(0));
        } else if line["id"].is_string() {
            self.put(line);
        } else if line["$set"].is_object() {
            if line["$set"]["messages"].is_array() {
                self.messages.clear();
                self.put_all(&line["$set"]["messages"]);
            }
        } else if line["sessionId"].is_string() && line["projectHash"].is_string() {
            self.is_listed = true;
            self.put_all(&line["messages"]);
        }
    }
}

/// What it sends when it resumes a file, a line for each piece; none when it does not find the session.
pub(crate) fn sent(bytes: &[u8]) -> Option<Vec<String>> {
    let mut session = Session::default();
    for line in bytes.split(|&b| b == b'\n') {
        if let Ok(line) = serde_json::from_slice(line) {
            session.line(&line);
        }
    }
    if !session.is_listed {
        let document: Value = serde_json::from_slice(bytes).ok()?;
        session.messages =
            document["sessionId"].as_str().and(document["messages"].as_array())?.clone();
    }
    let mut sent = Vec::new();
    for message in &session.messages {
        let content = parts(&message["content"]);
        match message["type"].as_str() {
            Some("user") => sent.extend(content.iter().map(|part| format!("user {}", shown(part)))),
            Some("gemini") => reply(message, &content, &mut sent),
            _ => {}
        }
    }
    let is_nothing = |line: &String| line == "user " || line.starts_with("user <session_context>");
    sent.retain(|line| !is_nothing(line));
    Some(sent)
}

/// Of what it sends, calls that have not one result before the next reply, and results that have no call.
pub(crate) fn unpaired(bytes: &[u8]) -> Vec<String> {
    let (mut open, mut wrong): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut was_model = false;
    for line in sent(bytes).unwrap_or_default() {
        let is_model = line.starts_with("model");
        if is_model && !was_model {
            wrong.append(&mut open);
        }
        was_model = is_model;
        if let Some(call) = line.strip_prefix("model call ") {
            open.push(call.to_owned());
        } else if let Some(result) = line.strip_prefix("user result ") {
            let call = result.split(' ').next().unwrap_or_default();
            match open.iter().position(|open| open == call) {
                Some(at) => drop(open.remove(at)),
                None => wrong.push(line),
            }
        }
    }
    wrong.append(&mut open);
    wrong
}

fn reply(message: &Value, content: &[Value], sent: &mut Vec<String>) {
    let none = Vec::new();
    let calls = message["toolCalls"].as_array().unwrap_or(&none);
    let is_empty =
        |part: &Value| part["text"] == "" && part.as_object().is_some_and(|p| p.len() == 1);
    if !content.iter().any(is_empty) {
        sent.extend(content.iter().map(|part| format!("model {}", shown(part))));
        if !content.iter().any(|part| part["functionCall"].is_object()) {
            sent.extend(calls.iter().map(|call| {
                assert!(call.is_object(), "it dies of this: {message}");
                format!("model call {}", call["id"].as_str().unwrap_or_default())
            }));
        }
    }
    for call in calls {
        let result = match &call["result"] {
            Value::Null => continue,
            Value::String(text) => vec![
                json!({ "functionResponse": { "id": call["id"], "response": { "output": text } } }),
            ],
            other => parts(other),
        };
        sent.extend(result.iter().map(|part| format!("user {}", shown(part))));
    }
}

fn parts(content: &Value) -> Vec<Value> {
    let part = |part: &Value| match part {
        Value::String(text) => json!({ "text": text }),
        other => other.clone(),
    };
    match content {
        Value::Null => Vec::new(),
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::Array(parts) => parts.iter().map(part).collect(),
        other => vec![part(other)],
    }
}

fn shown(part: &Value) -> String {
    let (call, response) = (&part["functionCall"], &part["functionResponse"]);
    if call.is_object() {
        return format!("call {}", call["id"].as_str().unwrap_or_default());
    }
    if response.is_object() {
        return format!(
            "result {} {}",
            response["id"].as_str().unwrap_or("-"),
            response["response"]
        );
    }
    part["text"].as_str().map_or_else(|| format!("REFUSED {part}"), str::to_owned)
}
