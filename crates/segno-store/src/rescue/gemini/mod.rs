//! What Gemini CLI chokes on, message by message.
//!
//! Responsible for: its messages as it has them when it has read a file of lines or one of the older documents, what of
//! that the provider would refuse, and lines that take everything back. Must not: open files.
//!
//! A reply holds its calls with their results, and is written again when they have finished; each result is written once
//! more as a message of the person's side, and again on each resume. All of them are sent, and the provider refuses
//! a call that has more results than one, or none, or a result that has no call, in every request from then on
//! (0.61.0, measured; its issue 29365). A message of a kind that is only shown is not sent: results that must not be
//! sent become one. A file without a line that says what the session is is not listed, and a way back to a
//! message that is nowhere takes everything back.

mod message;

use super::UNKNOWN_OUTCOME;
use super::draft::{At, Draft};
use super::json::{Fields, Span, quote, span, text};
use super::reading::Reading;
use super::rule::Rule;
use super::tree::hash;
use crate::foreign::is_surroundings;
use message::{Bare, NO_OUTPUT, Place, Said, Side};
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How a call ends that has ended.
const OVER: &[&str] = &["success", "error", "cancelled"];

/// Why a line takes everything back. One that goes nowhere is found by our reader whatever follows.
const NOWHERE: &str = "the session goes back to before a message that is nowhere";
const UNFINISHED: &str =
    "the session was resumed, and the process ended before its history was written again";

/// One session while it is gone through.
pub(super) struct Gemini<'r> {
    reading: &'r Reading,
    first: Option<At>,
    has_header: bool,
    /// The messages as they are now, and where each is among them.
    order: Vec<Said>,
    known: HashMap<u64, usize>,
    /// Lines that take everything back, and why.
    taken_back: Vec<(At, &'static str)>,
    /// By the call's id: where it stands without a result. Each place, as a reply may be written several times.
    open: HashMap<u64, Vec<Open>>,
}

/// A call without a result.
struct Open {
    at: At,
    id: String,
    name: String,
    /// Where the call's object begins.
    start: usize,
    status: Option<Span>,
    /// Where its result would stand.
    result: Option<Span>,
    /// What stands there instead of a result.
    told: Option<String>,
    /// How it ended, where that is known.
    ended: Option<&'static str>,
}

impl<'r> Gemini<'r> {
    pub(super) fn new(reading: &'r Reading) -> Self {
        Self {
            reading,
            first: None,
            has_header: false,
            order: Vec::new(),
            known: HashMap::new(),
            taken_back: Vec::new(),
            open: HashMap::new(),
        }
    }

    /// It is one of the older documents: what the session is stands around the messages.
    pub(super) fn is_document(&mut self) {
        self.has_header = true;
    }

    /// Whether an object is a line, and not a piece of one.
    pub(super) fn is_record(fields: &Fields<'_>) -> bool {
        let has = |name: &str| fields.some(name).is_some();
        let is_message = has("id") && has("type");
        is_message || has("$set") || has("$rewindTo") || has("sessionId") && has("projectHash")
    }

    /// Takes the next line, or the next message of a document.
    pub(super) fn take(&mut self, at: &At, json: &str) {
        self.first.get_or_insert(*at);
        let Some(fields) = Fields::of(json) else { return };
        if let Some(back) = fields.text("$rewindTo") {
            self.go_back(at, &back);
        } else if fields.text("id").is_some() {
            if let Ok(message) = serde_json::from_str(json) {
                self.message(at, json, message);
            }
        } else if let Some(set) = fields.object("$set") {
            self.set(at, json, &set);
        } else if fields.text("sessionId").is_some() && fields.text("projectHash").is_some() {
            self.has_header = true;
            for message in fields.list("messages").into_iter().flatten() {
                self.message(at, json, message);
            }
        }
    }

    fn go_back(&mut self, at: &At, to: &str) {
        match self.known.get(&hash(to)) {
            Some(&first) => {
                self.order.truncate(first);
                self.known.retain(|_, place| *place < first);
            }
            None => self.taken_back.push((*at, NOWHERE)),
        }
    }

    fn set(&mut self, at: &At, json: &str, set: &Fields<'_>) {
        let Some(messages) = set.list("messages") else { return };
        if let [only] = messages.as_slice()
            && self.order.iter().any(|said| said.side != Side::Nobody)
            && is_surroundings(only.get())
        {
            return self.taken_back.push((*at, UNFINISHED));
        }
        self.taken_back.retain(|(_, what)| *what == NOWHERE);
        self.order.clear();
        self.known.clear();
        for message in messages {
            self.message(at, json, message);
        }
    }

    fn message(&mut self, at: &At, json: &str, message: &RawValue) {
        let Some(fields) = Fields::of(message.get()) else { return };
        let Some(id) = fields.text("id") else { return };
        let Some(said) = Said::of(at, json, message, &id) else { return };
        if said.side == Side::Model {
            for call in fields.list("toolCalls").into_iter().flatten() {
                self.call(at, json, call);
            }
        }
        match self.known.get(&said.id) {
            Some(&place) => self.order[place] = said,
            None => {
                self.known.insert(said.id, self.order.len());
                self.order.push(said);
            }
        }
    }

    fn call(&mut self, at: &At, json: &str, call: &RawValue) {
        let Some(fields) = Fields::of(call.get()) else { return };
        let (Some(id), Some(start)) = (fields.text("id"), span(json, call)) else { return };
        let told = match fields.some("result") {
            Some(result) if is_result(result) => {
                self.open.remove(&hash(&id));
                return;
            }
            Some(result) => words(result),
            None => None,
        };
        let status = fields.text("status").unwrap_or_default();
        let place = |name: &str| fields.get(name).and_then(|raw| span(json, raw));
        self.open.entry(hash(&id)).or_default().push(Open {
            at: *at,
            name: fields.text("name").unwrap_or_default().into_owned(),
            start: start.start + 1,
            status: place("status"),
            result: place("result"),
            told,
            ended: OVER.iter().copied().find(|over| **over == *status),
            id: id.into_owned(),
        });
    }

    /// The end of the file.
    pub(super) fn finish(&mut self, draft: &mut Draft) {
        if !self.has_header
            && draft.has(Rule::MissingHeader)
            && let Some(at) = self.first
        {
            self.put_header(&at, draft);
        }
        let taken_back = draft.has(Rule::LostHistory).then(|| std::mem::take(&mut self.taken_back));
        for (at, what) in taken_back.into_iter().flatten() {
            draft.leave_out(&at);
            draft.set_aside(&at);
            draft.tell(Rule::LostHistory, Some(&at), what);
        }
        self.straighten(draft);
        let open = self.pair(draft);
        if draft.has(Rule::UnansweredCall) {
            self.answer_all(&open, draft);
        }
        for said in &mut self.order {
            said.lists.iter_mut().for_each(|list| list.apply(&said.at, draft));
        }
    }

    fn put_header(&self, at: &At, draft: &mut Draft) {
        let (id, cwd, created) = self.reading.header();
        let project: String =
            Sha256::digest(cwd.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let kind = if self.reading.is_child { "subagent" } else { "main" };
        let header = json!({
            "sessionId": id, "projectHash": project, "startTime": created.to_string(),
            "lastUpdated": created.to_string(), "kind": kind,
        });
        draft.insert_before(at, header.to_string());
        let what = "the line that says what the session is is lost";
        draft.tell(Rule::MissingHeader, None, what);
    }

    /// What has a form that is never sent.
    fn straighten(&self, draft: &mut Draft) {
        for said in &self.order {
            for odd in &said.odd {
                if let Some((place, text)) = &odd.instead {
                    draft.splice(&said.at, place.clone(), text.clone());
                }
                if odd.is_lossy {
                    draft.set_aside(&said.at);
                }
                draft.edit(&said.at);
                draft.tell(odd.rule, Some(&said.at), odd.what);
            }
        }
        let answers = self.order.iter().flat_map(|said| &said.answers);
        let answered: HashSet<u64> = answers
            .filter(|answer| matches!(answer.place, Place::Content(_)))
            .map(|answer| answer.call)
            .collect();
        // A result of its own is sent with the call that stands in the list or not at all.
        for said in &self.order {
            for call in said.unsent.iter().filter(|call| answered.contains(&call.id)) {
                let (place, text) = call.lacks.clone();
                draft.splice(&said.at, place, text);
                draft.tell(Rule::OddField, Some(&said.at), call.what);
            }
        }
    }

    /// Leaves each call the result that our reader shows. Gives the calls that have none.
    fn pair(&mut self, draft: &mut Draft) -> Vec<(u64, usize)> {
        let mut results: HashMap<u64, Option<(usize, usize)>> = HashMap::new();
        // By message: results that must not be sent.
        let mut out: BTreeMap<usize, Vec<(usize, Rule, bool)>> = BTreeMap::new();
        for (m, said) in self.order.iter().enumerate() {
            results.extend(said.calls.iter().map(|call| (call.id, None)));
            for (a, answer) in said.answers.iter().enumerate() {
                let mut note = |(m, a), rule, differs| {
                    out.entry(m).or_default().push((a, rule, differs));
                };
                match results.get_mut(&answer.call) {
                    None => note((m, a), Rule::OrphanResult, true),
                    Some(first @ None) => *first = Some((m, a)),
                    Some(Some(first)) => {
                        let before = &self.order[first.0].answers[first.1];
                        let is_same = before.print == answer.print;
                        // What is told last holds; of the same, what stands in the call. What stands in
                        // another call is a copy.
                        let is_worse = match (before.is_astray(), answer.is_astray()) {
                            (false, true) => true,
                            (true, false) => false,
                            _ => is_same && (before.is_own || !answer.is_own),
                        };
                        let worse =
                            if is_worse { (m, a) } else { std::mem::replace(first, (m, a)) };
                        note(worse, Rule::SecondResult, !is_same);
                    }
                }
            }
        }
        let mut told = BTreeMap::new();
        for (m, answers) in out {
            let said = &mut self.order[m];
            for (rule, count) in leave_out(said, &answers, draft) {
                told.entry((said.at.line, rule)).or_insert((said.at, 0)).1 += count;
            }
        }
        for ((_, rule), (at, count)) in told {
            draft.tell(rule, Some(&at), what(rule, count));
        }
        let open = |id: &u64| results.get(id).is_some_and(Option::is_none);
        let calls = self.order.iter().enumerate();
        let calls = calls.flat_map(|(m, said)| said.calls.iter().map(move |call| (call.id, m)));
        calls.filter(|(id, _)| open(id)).collect()
    }

    fn answer_all(&mut self, open: &[(u64, usize)], draft: &mut Draft) {
        let wanted: Vec<u64> = self.reading.unanswered.iter().map(|(_, id)| hash(id)).collect();
        for (id, message) in open {
            let is_wanted = wanted.contains(id);
            let said = &self.order[*message];
            let bare = said.calls.iter().find(|call| call.id == *id);
            if let Some(bare) = bare.and_then(|call| call.bare.as_ref()).filter(|_| is_wanted) {
                answer_bare(&said.at, bare, draft);
                continue;
            }
            let Some(places) = self.open.remove(id) else { continue };
            // Calls that are not in the context are sent to nobody, but for those that ended and say nothing.
            if is_wanted || places.iter().all(|place| place.ended.is_some()) {
                places.iter().for_each(|place| answer(place, draft));
                tell_unanswered(places.last(), draft);
            }
        }
    }
}

/// Whether a call's result is sent as one.
fn is_result(result: &RawValue) -> bool {
    let Ok(pieces) = serde_json::from_str::<Vec<&RawValue>>(result.get()) else {
        return text(result).is_none_or(|text| !text.is_empty());
    };
    pieces.iter().any(|piece| {
        Fields::of(piece.get()).is_some_and(|piece| piece.object("functionResponse").is_some())
    })
}

/// What stands in a list that is no result.
fn words(result: &RawValue) -> Option<String> {
    let pieces = serde_json::from_str::<Vec<&RawValue>>(result.get()).ok()?;
    let word = |piece: &&RawValue| {
        let own = Fields::of(piece.get()).and_then(|piece| piece.text("text").map(Cow::into_owned));
        own.or_else(|| text(piece).map(Cow::into_owned))
    };
    let words: Vec<String> = pieces.iter().filter_map(word).collect();
    (!words.is_empty()).then(|| words.join("\n"))
}

/// Leaves results out of a message, and counts them. A message of which nothing would be left is kept and not sent.
fn leave_out(
    said: &mut Said,
    answers: &[(usize, Rule, bool)],
    draft: &mut Draft,
) -> BTreeMap<Rule, usize> {
    let at = said.at;
    let content =
        |(a, ..): &&(usize, Rule, bool)| matches!(said.answers[*a].place, Place::Content(_));
    let is_note =
        said.side == Side::Person && answers.iter().filter(content).count() == said.pieces;
    let mut counts = BTreeMap::new();
    for (a, rule, differs) in answers {
        *counts.entry(*rule).or_insert(0) += 1;
        if *differs && !is_note {
            draft.set_aside(&at);
        }
        match said.answers[*a].place.clone() {
            _ if is_note => {}
            Place::Content(n) => {
                if let Some(list) = said.lists.first_mut() {
                    list.leave_out(n);
                }
            }
            Place::Listed(list, n) => said.lists[list].leave_out(n),
            Place::Alone(place) => draft.splice(&at, place, "[]"),
        }
    }
    if let Some(kind) = said.kind.clone().filter(|_| is_note) {
        draft.splice(&at, kind, "\"info\"");
    }
    counts
}

fn what(rule: Rule, count: usize) -> String {
    match (rule, count) {
        (Rule::SecondResult, 1) => "a result of a call that has one".to_owned(),
        (Rule::SecondResult, _) => format!("{count} results of calls that have one"),
        (_, 1) => "a result whose call is nowhere in the file".to_owned(),
        (..) => format!("{count} results whose calls are nowhere in the file"),
    }
}

fn tell_unanswered(call: Option<&Open>, draft: &mut Draft) {
    if let Some(call) = call {
        let what = format!("the call {} ({}) has no result", call.id, call.name);
        draft.tell(Rule::UnansweredCall, Some(&call.at), what);
    }
}

/// Puts a result into a call.
fn answer(call: &Open, draft: &mut Draft) {
    let told = call.told.as_deref().unwrap_or(NO_OUTPUT);
    let response = match call.ended {
        Some("success") => json!({ "output": told }),
        Some(_) => json!({ "error": told }),
        None => json!({ "error": UNKNOWN_OUTCOME }),
    };
    if call.told.is_some() && call.ended.is_none() {
        draft.set_aside(&call.at);
    }
    let told = json!({ "id": call.id, "name": call.name, "response": response });
    let result = json!([{ "functionResponse": told }]).to_string();
    let mut before = String::new();
    match &call.result {
        Some(place) => draft.splice(&call.at, place.clone(), result),
        None => before.push_str(&format!("\"result\":{result},")),
    }
    match (&call.status, call.ended) {
        (_, Some(_)) => {}
        (Some(status), None) => draft.splice(&call.at, status.clone(), quote("error")),
        (None, None) => before.push_str("\"status\":\"error\","),
    }
    if !before.is_empty() {
        draft.splice(&call.at, call.start..call.start, before);
    }
}

/// Gives a call that stands in the content alone a place among the calls, with a result.
fn answer_bare(at: &At, call: &Bare, draft: &mut Draft) {
    let (id, name) = (quote(&call.id), quote(&call.name));
    let response =
        json!({ "id": call.id, "name": call.name, "response": { "error": UNKNOWN_OUTCOME } });
    let result = json!([{ "functionResponse": response }]);
    let args = &call.args;
    let told = format!(
        "{{\"id\":{id},\"name\":{name},\"args\":{args},\"status\":\"error\",\"result\":{result}}}"
    );
    let (before, behind) = call.around;
    draft.splice(at, call.place.clone(), format!("{before}{told}{behind}"));
    let what = format!("the call {} ({}) has no result", call.id, call.name);
    draft.tell(Rule::UnansweredCall, Some(at), what);
}
