//! What Gemini CLI chokes on, message by message.
//!
//! Responsible for: calls of its replies that stand there without a result, in files of lines and in the older
//! documents. Must not: open files.
//!
//! A reply holds its calls with their results, and is written again when they have finished. A call without one is
//! sent without one by 0.61.0 (measured), which the provider refuses in every request from then on.
//! What else it passes over or takes as it is stays: results that stand a second time in a message of the
//! person's side are how it writes them.

use super::UNKNOWN_OUTCOME;
use super::draft::{At, Draft};
use super::json::{Fields, Span, quote, span};
use super::reading::Reading;
use super::rule::Rule;
use super::tree::hash;
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::HashMap;

/// How a call ends that has ended.
const OVER: &[&str] = &["success", "error", "cancelled"];

/// What a result says that holds nothing.
const NO_OUTPUT: &str = "(no output)";

/// One session while it is gone through.
pub(super) struct Gemini<'r> {
    reading: &'r Reading,
    /// By the call's id: where it stands without a result. Each place, as a reply may be written several times.
    open: HashMap<u64, Vec<Place>>,
}

struct Place {
    at: At,
    id: String,
    name: String,
    /// Where the call's object begins.
    start: usize,
    status: Option<Span>,
    /// Where it says that there is no result.
    result: Option<Span>,
    /// How it ended, where that is known.
    ended: Option<&'static str>,
}

impl<'r> Gemini<'r> {
    pub(super) fn new(reading: &'r Reading) -> Self {
        Self { reading, open: HashMap::new() }
    }

    /// Takes the next line, or the next message of a document.
    pub(super) fn take(&mut self, at: &At, json: &str) {
        let Some(fields) = Fields::of(json) else { return };
        match fields.object("$set").and_then(|set| set.list("messages")) {
            Some(messages) => {
                messages.into_iter().for_each(|raw| self.message(at, json, raw.get()));
            }
            None => self.message(at, json, json),
        }
    }

    fn message(&mut self, at: &At, json: &str, message: &str) {
        let Some(fields) = Fields::of(message) else { return };
        match fields.text("type").as_deref() {
            Some("gemini") => {
                for call in fields.list("toolCalls").into_iter().flatten() {
                    self.call(at, json, call);
                }
            }
            Some("user") => {
                for part in fields.list("content").into_iter().flatten() {
                    let response =
                        Fields::of(part.get()).and_then(|p| p.object("functionResponse"));
                    if let Some(id) = response.as_ref().and_then(|response| response.text("id")) {
                        self.open.remove(&hash(&id));
                    }
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, at: &At, json: &str, call: &RawValue) {
        let Some(fields) = Fields::of(call.get()) else { return };
        let (Some(id), Some(start)) = (fields.text("id"), span(json, call)) else { return };
        if fields.some("result").is_some() {
            self.open.remove(&hash(&id));
            return;
        }
        let status = fields.text("status").unwrap_or_default();
        let place = |name: &str| fields.get(name).and_then(|raw| span(json, raw));
        self.open.entry(hash(&id)).or_default().push(Place {
            at: *at,
            name: fields.text("name").unwrap_or_default().into_owned(),
            start: start.start + 1,
            status: place("status"),
            result: place("result"),
            ended: OVER.iter().copied().find(|over| **over == *status),
            id: id.into_owned(),
        });
    }

    /// The end of the file.
    pub(super) fn finish(&mut self, draft: &mut Draft) {
        if !draft.has(Rule::UnansweredCall) {
            return;
        }
        let wanted: Vec<u64> = self.reading.unanswered.iter().map(|(_, id)| hash(id)).collect();
        let mut open: Vec<(u64, Vec<Place>)> = self.open.drain().collect();
        // Calls that are not in the context are sent to nobody, but for those that ended and say nothing.
        open.retain(|(id, places)| {
            wanted.contains(id) || places.iter().all(|place| place.ended.is_some())
        });
        open.sort_by_key(|(_, places)| places.first().map(|place| (place.at.line, place.start)));
        for (_, places) in open {
            for place in &places {
                answer(place, draft);
            }
            if let Some(last) = places.last() {
                let what = format!("the call {} ({}) has no result", last.id, last.name);
                draft.tell(Rule::UnansweredCall, Some(&last.at), what);
            }
        }
    }
}

/// Puts a result into a call.
fn answer(place: &Place, draft: &mut Draft) {
    let response = match place.ended {
        Some("success") => json!({ "output": NO_OUTPUT }),
        Some(_) => json!({ "error": NO_OUTPUT }),
        None => json!({ "error": UNKNOWN_OUTCOME }),
    };
    let told = json!({ "id": place.id, "name": place.name, "response": response });
    let result = json!([{ "functionResponse": told }]).to_string();
    let mut before = String::new();
    match &place.result {
        Some(null) => draft.splice(&place.at, null.clone(), result),
        None => before.push_str(&format!("\"result\":{result},")),
    }
    match (&place.status, place.ended) {
        (_, Some(_)) => {}
        (Some(status), None) => draft.splice(&place.at, status.clone(), quote("error")),
        (None, None) => before.push_str("\"status\":\"error\","),
    }
    if !before.is_empty() {
        draft.splice(&place.at, place.start..place.start, before);
    }
}
