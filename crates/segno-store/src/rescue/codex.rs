//! What Codex chokes on, line by line.
//!
//! Responsible for: its items' names for things, and the numbers of its lines. Must not: open files.
//!
//! It refuses a file whose first line is no header, or has a mark before it; a call without an output is sent
//! with one that says "aborted", whatever became of it (0.171, measured). In the newer format its lines are
//! numbered, and a number that is not the next one freezes what is shown. Lines of a type that it does not know
//! are passed over: an output that must not be sent becomes one.

use super::UNKNOWN_OUTCOME;
use super::calls::{Answer, Calls, Open};
use super::draft::{At, Draft};
use super::json::{Fields, span};
use super::reading::Reading;
use super::rule::Rule;
use super::tree::hash;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// One session while it is gone through.
pub(super) struct Codex<'r> {
    reading: &'r Reading,
    calls: Calls,
    first: Option<At>,
    has_header: bool,
    has_numbers: bool,
    /// The contents of numbered lines, by number.
    seen: HashMap<u64, u64>,
    /// The number that the next line should have.
    next: Option<u64>,
    /// The first line that has another number, or stands behind one that does not count any more.
    astray: Option<At>,
    /// The last piece of the reply that is being read: calls belong to it, and results come behind it.
    reply: Option<At>,
}

impl<'r> Codex<'r> {
    pub(super) fn new(reading: &'r Reading) -> Self {
        Self {
            reading,
            calls: Calls::default(),
            first: None,
            has_header: false,
            has_numbers: false,
            seen: HashMap::new(),
            next: None,
            astray: None,
            reply: None,
        }
    }

    /// Takes the next object.
    pub(super) fn take(&mut self, at: &At, json: &str, draft: &mut Draft) {
        self.first.get_or_insert(*at);
        let Some(fields) = Fields::of(json) else { return };
        let kind = fields.text("type").unwrap_or_default();
        let is_header = kind == "session_meta";
        self.has_header |= is_header || kind.is_empty() && fields.get("id").is_some();
        if !self.number(at, json, &fields, draft) {
            return;
        }
        let item = match &*kind {
            "response_item" => fields.object("payload"),
            "message"
            | "reasoning"
            | "function_call"
            | "function_call_output"
            | "local_shell_call"
            | "custom_tool_call"
            | "custom_tool_call_output" => Fields::of(json),
            _ => None,
        };
        if let Some(item) = item {
            self.item(at, json, &fields, &item, draft);
        }
    }

    /// Looks at a line's number. False: it is a repeat.
    fn number(&mut self, at: &At, json: &str, fields: &Fields<'_>, draft: &mut Draft) -> bool {
        let Some(number) = fields.get("ordinal").and_then(|raw| raw.get().parse::<u64>().ok())
        else {
            return true;
        };
        self.has_numbers = true;
        let content = hash(fields.get("payload").map_or(json, RawValue::get));
        let is_repeat = self.seen.get(&number) == Some(&content);
        self.seen.entry(number).or_insert(content);
        if is_repeat && draft.has(Rule::RepeatedRecord) {
            draft.leave_out(at);
            draft.tell(Rule::RepeatedRecord, Some(at), "the line stands there already");
            return false;
        }
        if self.next.is_some_and(|next| next != number) {
            self.astray.get_or_insert(*at);
        }
        self.next = Some(number.saturating_add(1));
        true
    }

    fn item(
        &mut self,
        at: &At,
        json: &str,
        fields: &Fields<'_>,
        item: &Fields<'_>,
        draft: &mut Draft,
    ) {
        let kind = item.text("type").unwrap_or_default();
        let output = match &*kind {
            "function_call" | "local_shell_call" => Some("function_call_output"),
            "custom_tool_call" => Some("custom_tool_call_output"),
            _ => None,
        };
        let is_reply = output.is_some()
            || matches!(&*kind, "reasoning" | "web_search_call" | "image_generation_call")
            || kind == "message" && item.text("role").as_deref() == Some("assistant");
        if let Some(before) = self.reply.replace(*at).filter(|_| !is_reply) {
            self.settle(&before);
        }
        if !is_reply {
            self.reply = None;
        }
        if let Some(output) = output {
            let id = item.text("call_id").or_else(|| item.text("id")).unwrap_or_default();
            let mut template = Map::new();
            template.insert("output".to_owned(), json!(output));
            let is_bare = fields.get("payload").is_none();
            template.insert("bare".to_owned(), json!(is_bare));
            let same = fields.get("timestamp").and_then(|raw| serde_json::from_str(raw.get()).ok());
            template.extend(same.map(|at: Value| ("timestamp".to_owned(), at)));
            let name = item.text("name").unwrap_or_else(|| "local_shell".into()).into_owned();
            let open = Open {
                at: *at,
                id: id.to_string(),
                name,
                row: String::new(),
                // Its place is not known so far.
                turn: 0,
                response: String::new(),
                template,
                children: Vec::new(),
            };
            self.calls.call(&id, open);
        } else if kind.ends_with("_output") {
            let id = item.text("call_id").unwrap_or_default();
            if self.calls.result(&id, None) == Answer::Second && draft.has(Rule::SecondResult) {
                become_unknown(at, json, fields, draft);
            }
        }
    }

    /// The reply is over: results of its calls come behind `end`.
    fn settle(&mut self, end: &At) {
        self.calls.each_open(|open| {
            if open.turn == 0 {
                (open.turn, open.at) = (1, *end);
            }
        });
    }

    /// The end of the file. Gives the line from which on lines are numbered anew.
    pub(super) fn finish(&mut self, draft: &mut Draft) -> Option<u64> {
        if let Some(end) = self.reply.take() {
            self.settle(&end);
        }
        if !self.has_header
            && draft.has(Rule::MissingHeader)
            && let Some(at) = self.first
        {
            self.put_header(&at, draft);
        }
        let mut from = self.astray;
        if draft.has(Rule::UnansweredCall) {
            for call in self.calls.unanswered(&self.reading.unanswered) {
                draft.insert_after(&call.at, output(&call, self.has_numbers));
                let what = format!("the call {} ({}) has no output", call.id, call.name);
                draft.tell(Rule::UnansweredCall, Some(&call.at), what);
                from = from.into_iter().chain([call.at]).min_by_key(|at| at.line);
            }
        }
        let from = from.filter(|_| self.has_numbers && draft.has(Rule::Ordinals))?;
        if let Some(at) = self.astray {
            let what = "the number of the line is not the next one";
            draft.tell(Rule::Ordinals, Some(&at), what);
        }
        Some(from.line)
    }

    fn put_header(&mut self, at: &At, draft: &mut Draft) {
        let (id, cwd, created) = self.reading.header();
        let (created, version) = (created.to_string(), self.reading.facts.version.clone());
        let mut payload = json!({
            "id": id, "timestamp": created, "cwd": cwd, "originator": "codex_cli_rs",
            "cli_version": version.unwrap_or_else(|| "0.0.0".to_owned()), "source": "cli",
        });
        let mut header = Map::new();
        header.insert("timestamp".to_owned(), json!(created));
        if self.has_numbers {
            header.insert("ordinal".to_owned(), json!(0));
            payload["history_mode"] = json!("paginated");
            self.astray = Some(*at);
        }
        header.insert("type".to_owned(), json!("session_meta"));
        header.insert("payload".to_owned(), payload);
        draft.insert_before(at, Value::Object(header).to_string());
        draft.tell(
            Rule::MissingHeader,
            None,
            "the first line, which says what the session is, is lost",
        );
    }
}

/// A line that Codex passes over.
fn become_unknown(at: &At, json: &str, fields: &Fields<'_>, draft: &mut Draft) {
    if let Some(place) = fields.get("type").and_then(|raw| span(json, raw)) {
        draft.splice(at, place, "\"segno_second_result\"");
        draft.tell(Rule::SecondResult, Some(at), "a second output for one call");
    }
}

fn output(call: &Open, numbered: bool) -> String {
    let item = json!({
        "type": call.template.get("output"), "call_id": call.id, "output": UNKNOWN_OUTCOME,
    });
    if call.template.get("bare") == Some(&json!(true)) {
        return item.to_string();
    }
    let mut line = Map::new();
    line.insert("timestamp".to_owned(), json!(call.template.get("timestamp")));
    if numbered {
        // The numbering gives it its own.
        line.insert("ordinal".to_owned(), json!(0));
    }
    line.insert("type".to_owned(), json!("response_item"));
    line.insert("payload".to_owned(), item);
    Value::Object(line).to_string()
}

/// Where a line says its number.
pub(super) fn ordinal(json: &str) -> Option<(std::ops::Range<usize>, u64)> {
    let raw = Fields::of(json)?.get("ordinal")?;
    Some((span(json, raw)?, raw.get().parse().ok()?))
}
