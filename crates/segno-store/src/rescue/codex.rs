//! What Codex chokes on, line by line.
//!
//! Responsible for: its items' names for things, and the numbers of its lines. Must not: open files.
//!
//! It refuses a file whose first line is no header, or has a mark before it; a call without an output is sent
//! with one that says "aborted", whatever became of it (0.171, measured). In the newer format its lines are
//! numbered, and a number that is not the next one freezes what is shown. Lines of a type that it does not know
//! are passed over: an output that must not be sent becomes one. So are messages and outputs in which one piece is
//! of a kind that it does not know.

use super::UNKNOWN_OUTCOME;
use super::calls::{Answer, Calls, Open};
use super::draft::{At, Draft};
use super::json::{Fields, Span, quote, set_members, span, spliced, text, unknown_piece};
use super::reading::Reading;
use super::rule::Rule;
use crate::foreign::codex::numbers::{Numbered, Ordinals};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// One session while it is gone through.
pub(super) struct Codex<'r> {
    reading: &'r Reading,
    calls: Calls,
    first: Option<At>,
    has_header: bool,
    /// The header, where it is not the first line.
    late_header: Option<(At, String)>,
    /// A header that says nothing: what it held is lost.
    empty_header: Option<At>,
    /// The first line, where it says no number, and what has to stand there.
    unnumbered: Option<(At, Vec<(Span, String)>)>,
    has_numbers: bool,
    ordinals: Ordinals,
    /// The number that the next line should have.
    next: Option<u64>,
    /// The first line that has another number, or stands behind one that does not count any more.
    astray: Option<At>,
    /// The last piece of the reply that is being read: calls belong to it, and results come behind it.
    reply: Option<At>,
    /// The reply whose outputs are being read.
    answering: Option<u64>,
}

impl<'r> Codex<'r> {
    pub(super) fn new(reading: &'r Reading) -> Self {
        Self {
            reading,
            calls: Calls::default(),
            first: None,
            has_header: false,
            late_header: None,
            empty_header: None,
            unnumbered: None,
            has_numbers: false,
            ordinals: Ordinals::default(),
            next: None,
            astray: None,
            reply: None,
            answering: None,
        }
    }

    /// Takes the next object.
    pub(super) fn take(&mut self, at: &At, json: &str, draft: &mut Draft) {
        self.first.get_or_insert(*at);
        let Some(fields) = Fields::of(json) else { return };
        let kind = fields.text("type").unwrap_or_default();
        let is_meta = kind == "session_meta";
        if is_meta && fields.object("payload").is_none() {
            self.empty_header.get_or_insert(*at);
        }
        let is_header = is_meta && fields.object("payload").is_some()
            || kind.is_empty() && fields.get("id").is_some();
        if is_header && !std::mem::replace(&mut self.has_header, true) {
            self.header(at, json, &fields, draft);
        }
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
            pieces(at, json, &item, draft);
            self.item(at, json, &fields, &item, draft);
        }
        if kind == "compacted" {
            let history = fields.object("payload").and_then(|row| row.list("replacement_history"));
            for item in history.into_iter().flatten().filter_map(|raw| Fields::of(raw.get())) {
                pieces(at, json, &item, draft);
            }
        }
    }

    /// Looks at where the header stands, and at the number with which the file begins.
    fn header(&mut self, at: &At, json: &str, fields: &Fields<'_>, draft: &mut Draft) {
        let payload = fields.object("payload");
        let mode = payload.as_ref().and_then(|payload| payload.text("history_mode"));
        let mut base = payload.as_ref().and_then(|payload| payload.object("history_base"));
        let cut = self.lost_base(json, payload.as_ref(), draft);
        if let Some(cut) = &cut {
            base = None;
            draft.tell(Rule::LostBase, Some(at), "the session that this one continues is nowhere");
            if self.first == Some(*at) {
                draft.splice(at, cut.clone(), "null");
            }
        }
        let start = base.and_then(|base| number(&base, "end_ordinal_exclusive")).unwrap_or(0);
        let place = fields.get("ordinal").and_then(|raw| span(json, raw));
        let wrong =
            place.clone().filter(|_| number(fields, "ordinal").is_some_and(|own| own != start));
        if self.first == Some(*at) {
            if mode.as_deref() == Some("paginated") && number(fields, "ordinal").is_none() {
                let number = [("ordinal", start.to_string())];
                self.unnumbered = Some((*at, set_members(json, json, &number)));
            }
            if let Some(place) = wrong.filter(|_| draft.has(Rule::Ordinals)) {
                draft.splice(at, place, start.to_string());
                self.astray = Some(*at);
            }
            return;
        }
        let number = wrong.map(|place| (place, start.to_string()));
        let cut = cut.map(|place| (place, "null".to_owned()));
        let splices: Vec<(Span, String)> = number.into_iter().chain(cut).collect();
        self.late_header = Some((*at, spliced(json, &splices)));
    }

    /// Where the header names what the session continues, if that is nowhere: Codex refuses such a file.
    fn lost_base(&self, json: &str, payload: Option<&Fields<'_>>, draft: &Draft) -> Option<Span> {
        let is_lost = self.reading.lost_base && draft.has(Rule::LostBase);
        let base = payload.filter(|_| is_lost)?.get("history_base")?;
        span(json, base).filter(|_| base.get() != "null")
    }

    /// Looks at a line's number. False: it is a repeat.
    fn number(&mut self, at: &At, json: &str, fields: &Fields<'_>, draft: &mut Draft) -> bool {
        let number = number(fields, "ordinal");
        self.has_numbers |= number.is_some();
        let is_repeat = self.ordinals.line(json) == Numbered::Twice;
        if is_repeat && draft.has(Rule::RepeatedRecord) {
            draft.leave_out(at);
            draft.tell(Rule::RepeatedRecord, Some(at), "the line stands there already");
            return false;
        }
        let Some(number) = number else { return true };
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
        let reply = self.reading.reply_of(at.line);
        let ends = |before: &At| !is_reply || self.reading.reply_of(before.line) != reply;
        if let Some(before) = self.reply.replace(*at).filter(ends) {
            self.settle(&before);
            self.answering = Some(self.reading.reply_of(before.line));
        }
        if !is_reply {
            self.reply = None;
        }
        if !kind.ends_with("_output") && !is_reply {
            self.answering = None;
        }
        if let Some(output) = output {
            let mut named = ["call_id", "id"].iter().filter_map(|name| item.some(name));
            let named = named.find(|raw| text(raw).is_some());
            let id = named.and_then(text).unwrap_or_default();
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
                turn: reply,
                reply,
                named: named.and_then(|raw| Some((*at, span(json, raw)?))),
                response: String::new(),
                template,
                children: Vec::new(),
                order: 0,
                behind: None,
            };
            self.calls.call(&id, open);
        } else if kind.ends_with("_output") {
            let id = item.text("call_id").unwrap_or_default();
            match self.calls.answered(&id, None) {
                Ok(call) if self.answering == Some(call.turn) => {
                    self.calls.come_behind(&call, at, |open| open.turn == call.turn);
                }
                Err(Answer::Second) if draft.has(Rule::SecondResult) => {
                    become_unknown(at, json, fields, draft);
                }
                _ => {}
            }
        }
    }

    /// The reply is over: results of its calls come behind `end`.
    fn settle(&mut self, end: &At) {
        let reply = self.reading.reply_of(end.line);
        self.calls.each_open(|open| {
            if open.turn == reply {
                open.at = *end;
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
        if let Some((late, json)) = self.late_header.take()
            && let Some(first) = self.first.filter(|_| draft.has(Rule::MissingHeader))
        {
            draft.insert_before(&first, json);
            draft.leave_out(&late);
            let what = "the line that says what the session is does not stand first";
            draft.tell(Rule::MissingHeader, Some(&late), what);
            self.astray = Some(first).filter(|_| self.has_numbers);
        }
        self.number_header(draft);
        let mut from = self.astray;
        if draft.has(Rule::UnansweredCall) {
            for mut call in self.calls.unanswered(&self.reading.unanswered) {
                self.give_own_id(&mut call, draft);
                let behind = call.behind.unwrap_or(call.at);
                draft.insert_after(&behind, output(&call, self.has_numbers));
                let what = format!("the call {} ({}) has no output", call.id, call.name);
                draft.tell(Rule::UnansweredCall, Some(&call.at), what);
                from = from.into_iter().chain([behind]).min_by_key(|at| at.line);
            }
        }
        let from = from.filter(|_| self.has_numbers && draft.has(Rule::Ordinals))?;
        if let Some(at) = self.astray {
            let what = "the number of the line is not the next one";
            draft.tell(Rule::Ordinals, Some(&at), what);
        }
        Some(from.line)
    }

    /// A header whose number is lost gets it again, where the lines behind it have numbers.
    fn number_header(&mut self, draft: &mut Draft) {
        let Some((at, splices)) = self.unnumbered.take() else { return };
        if self.has_numbers && draft.has(Rule::Ordinals) {
            draft.splice_all(&at, splices);
            self.astray = Some(at);
        }
    }

    /// Codex takes any output under a call's id for its own, so that a call which has none must not share its id.
    fn give_own_id(&mut self, call: &mut Open, draft: &mut Draft) {
        if !self.calls.is_shared(&call.id) || !draft.has(Rule::ReusedCallId) {
            return;
        }
        let Some((at, place)) = call.named.clone() else { return };
        let own = self.calls.fresh(&call.id);
        draft.splice(&at, place, quote(&own));
        let what = if call.id.is_empty() {
            "a call without an id and without an output".to_owned()
        } else {
            format!("the call {} has no output, and another one has its id", call.id)
        };
        draft.tell(Rule::ReusedCallId, Some(&at), what);
        call.id = own;
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
        if let Some(empty) = self.empty_header {
            draft.leave_out(&empty);
            draft.set_aside(&empty);
        }
        draft.tell(Rule::MissingHeader, None, self.reading.header_lost());
    }
}

fn number(fields: &Fields<'_>, name: &str) -> Option<u64> {
    fields.get(name)?.get().parse().ok()
}

/// Pieces of kinds that Codex does not know: it drops all of a message or an output in which one stands.
fn pieces(at: &At, json: &str, item: &Fields<'_>, draft: &mut Draft) {
    const MESSAGE: &[&str] = &["input_text", "output_text", "input_image", "input_audio"];
    const OUTPUT: &[&str] = &["input_text", "input_image", "input_audio", "encrypted_content"];
    if !draft.has(Rule::UnknownPiece) {
        return;
    }
    let kind = item.text("type").unwrap_or_default();
    let (pieces, known) = match &*kind {
        "message" => (item.list("content"), MESSAGE),
        output if output.ends_with("_output") => (item.list("output"), OUTPUT),
        _ => return,
    };
    let is_reply = item.text("role").as_deref() == Some("assistant");
    let words = if is_reply { "output_text" } else { "input_text" };
    for piece in pieces.into_iter().flatten() {
        let Some(fields) = Fields::of(piece.get()) else { continue };
        let Some(kind) = fields.text("type") else { continue };
        let Some(place) = span(json, piece).filter(|_| !known.contains(&&*kind)) else { continue };
        draft.splice(at, place, stand_in(piece, &fields, words).to_string());
        let what = "a piece of a kind that Codex does not know";
        draft.tell(Rule::UnknownPiece, Some(at), what);
    }
}

/// What Codex is given for a piece of a kind that it does not know. Our reader goes by what a piece holds: what has
/// words or a picture is that, whatever became of its kind.
fn stand_in(piece: &RawValue, fields: &Fields<'_>, words: &str) -> Value {
    let picture = fields.text("image_url").filter(|url| url.starts_with("data:"));
    match (fields.text("text"), picture) {
        (Some(text), _) => json!({ "type": words, "text": text }),
        (None, Some(url)) => json!({ "type": "input_image", "image_url": url }),
        (None, None) => json!({ "type": words, "text": unknown_piece(piece) }),
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
