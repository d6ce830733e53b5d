//! One message of Gemini CLI's, taken apart as it does when it sends it.
//!
//! Responsible for: which calls and results stand in a message, where, and what in it has a form that is never sent.
//! Must not: know what comes before or behind it.

use super::super::draft::{At, List};
use super::super::json::{Fields, Span, quote, span, unknown_piece};
use super::super::rule::Rule;
use super::super::tree::hash;
use serde_json::json;
use serde_json::value::RawValue;

/// What a result says that holds nothing.
pub(super) const NO_OUTPUT: &str = "(no output)";

/// What a piece of content may hold, and whether that is a text.
const PIECES: &[(&str, bool)] = &[
    ("text", true),
    ("functionCall", false),
    ("functionResponse", false),
    ("inlineData", false),
    ("fileData", false),
    ("executableCode", false),
    ("codeExecutionResult", false),
    ("videoMetadata", false),
    ("thoughtSignature", true),
];

/// Who says a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The person, and results.
    Person,
    Model,
    /// It is shown, and not sent.
    Nobody,
}

/// A message.
pub(super) struct Said {
    pub(super) id: u64,
    pub(super) at: At,
    pub(super) side: Side,
    /// Where it says what it is.
    pub(super) kind: Option<Span>,
    pub(super) calls: Vec<Call>,
    pub(super) answers: Vec<Answer>,
    /// Its content first, where that is a list.
    pub(super) lists: Vec<List>,
    /// How many pieces its content has.
    pub(super) pieces: usize,
    pub(super) odd: Vec<Odd>,
    /// Calls that are in the list alone, where those of the content are sent.
    pub(super) unsent: Vec<Unsent>,
}

/// A call of the list that is not sent, because the content has others.
pub(super) struct Unsent {
    pub(super) id: u64,
    pub(super) what: &'static str,
    /// Where the content lacks it, and what it lacks.
    pub(super) lacks: (Span, String),
}

/// A call as it is sent.
pub(super) struct Call {
    pub(super) id: u64,
    /// Of one that stands in the content alone: the call, and where a list of calls would get it with a result.
    pub(super) bare: Option<Bare>,
}

/// A call that stands in the content, and not in the list of calls.
pub(super) struct Bare {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) args: String,
    /// Where it would be put among the calls, and between what.
    pub(super) place: Span,
    pub(super) around: (&'static str, &'static str),
}

/// A result as it is sent.
pub(super) struct Answer {
    pub(super) call: u64,
    /// The same for the same words.
    pub(super) print: u64,
    /// Whether it stands in the call.
    pub(super) is_own: bool,
    pub(super) place: Place,
}

impl Answer {
    /// Whether it stands in another call: after resuming, each call of a turn holds the results of all of them.
    pub(super) fn is_astray(&self) -> bool {
        !self.is_own && matches!(self.place, Place::Listed(..))
    }
}

/// Where a result stands.
#[derive(Clone)]
pub(super) enum Place {
    /// A piece of the content.
    Content(usize),
    /// An element of one of the lists.
    Listed(usize, usize),
    /// It is all that a call has as its result.
    Alone(Span),
}

/// Something that has another form than it should have.
pub(super) struct Odd {
    pub(super) rule: Rule,
    pub(super) what: &'static str,
    /// What stands there instead; none where an element of a list is left out.
    pub(super) instead: Option<(Span, String)>,
    /// Whether something is lost with it.
    pub(super) is_lossy: bool,
}

/// While a message is taken apart.
struct Reader<'a> {
    json: &'a str,
    said: Said,
    /// Calls of the content that have no id: their names, and where the id would stand.
    nameless: Vec<(String, usize)>,
}

impl Said {
    /// Takes the message `message` apart that stands in `json`.
    pub(super) fn of(at: &At, json: &str, message: &RawValue, id: &str) -> Option<Self> {
        let fields = Fields::of(message.get())?;
        let side = match fields.text("type").as_deref() {
            Some("user") => Side::Person,
            Some("gemini") => Side::Model,
            _ => Side::Nobody,
        };
        let said = Self {
            id: hash(id),
            at: *at,
            side,
            kind: fields.get("type").and_then(|raw| span(json, raw)),
            calls: Vec::new(),
            answers: Vec::new(),
            lists: Vec::new(),
            pieces: 0,
            odd: Vec::new(),
            unsent: Vec::new(),
        };
        let mut reader = Reader { json, said, nameless: Vec::new() };
        if side != Side::Nobody {
            let start = span(json, message)?.start + 1;
            let bare = reader.content(&fields, start);
            reader.called(&fields, bare);
        }
        Some(reader.said)
    }
}

impl Reader<'_> {
    /// Something that gets another form.
    fn odd(&mut self, rule: Rule, what: &'static str, instead: Option<(Span, String)>) {
        if instead.is_some() {
            self.said.odd.push(Odd { rule, what, instead, is_lossy: false });
        }
    }

    /// Something that has no form in which it could stand there.
    fn lost(&mut self, what: &'static str, instead: Option<(Span, String)>) {
        self.said.odd.push(Odd { rule: Rule::OddField, what, instead, is_lossy: true });
    }

    /// Takes the content; gives its calls.
    fn content(&mut self, fields: &Fields<'_>, message: usize) -> Vec<Bare> {
        let mut calls = Vec::new();
        let Some(raw) = fields.some("content") else { return calls };
        if let Some(pieces) = fields.list("content") {
            self.said.pieces = pieces.len();
            self.said.lists.push(List::of(self.json, &pieces));
            for (n, piece) in pieces.into_iter().enumerate() {
                calls.extend(self.piece(n, piece, message));
            }
        } else if raw.get().starts_with('{') {
            self.said.pieces = 1;
            calls.extend(self.piece(0, raw, message));
        } else if !raw.get().starts_with('"') && self.said.side == Side::Model {
            let place = span(self.json, raw).map(|place| (place, "\"\"".to_owned()));
            self.lost("content that is neither text nor pieces", place);
        }
        calls
    }

    /// A piece of the content; gives the call that it is.
    fn piece(&mut self, n: usize, piece: &RawValue, message: usize) -> Option<Bare> {
        let Some(fields) = Fields::of(piece.get()) else {
            if !piece.get().starts_with('"') && !self.said.lists.is_empty() {
                self.said.lists[0].leave_out(n);
                self.lost("a piece of content that is no object", None);
            }
            return None;
        };
        let fits = |(name, is_text): &(&str, bool)| {
            fields
                .some(name)
                .is_some_and(|raw| raw.get().starts_with(if *is_text { '"' } else { '{' }))
        };
        if !PIECES.iter().any(fits) {
            let stands = json!({ "text": unknown_piece(piece) }).to_string();
            let place = span(self.json, piece).map(|at| (at, stands));
            self.odd(Rule::UnknownPiece, "a piece of a kind that is never sent", place);
            return None;
        }
        let is_blank = fields.text("text").is_some_and(|text| text.is_empty())
            && !PIECES[1..].iter().any(fits)
            && !fields.is_true("thought");
        if is_blank && self.said.side == Side::Model && !self.said.lists.is_empty() {
            self.said.lists[0].leave_out(n);
            let what = "a text stands in a reply in which there is nothing";
            let odd = Odd { rule: Rule::EmptyText, what, instead: None, is_lossy: false };
            self.said.odd.push(odd);
        }
        if let Some(response) = fields.object("functionResponse")
            && self.said.side == Side::Person
        {
            self.response(&fields, &response, Place::Content(n), ("", false));
        }
        let call = fields.object("functionCall").filter(|_| self.said.side == Side::Model)?;
        let name = call.text("name").unwrap_or_default().into_owned();
        let Some(id) = call.text("id").filter(|id| !id.is_empty()) else {
            let place = fields.get("functionCall").and_then(|raw| span(self.json, raw));
            self.nameless.extend(place.map(|place| (name, place.start + 1)));
            return None;
        };
        Some(Bare {
            id: id.into_owned(),
            name,
            args: call.some("args").map_or("{}", RawValue::get).to_owned(),
            place: message..message,
            around: ("\"toolCalls\":[", "],"),
        })
    }

    /// Takes the list of calls. Where the content holds calls, too, those are sent.
    fn called(&mut self, fields: &Fields<'_>, mut bare: Vec<Bare>) {
        for name in ["toolCalls", "thoughts"] {
            self.listed(fields, name);
        }
        let calls = fields.list("toolCalls").filter(|_| self.said.side == Side::Model);
        let list = fields.get("toolCalls").and_then(|raw| span(self.json, raw));
        let is_call = |raw: &&RawValue| raw.get().starts_with('{');
        let has_some = calls.as_ref().is_some_and(|calls| calls.iter().any(is_call));
        let sent: Vec<String> = bare.iter().map(|bare| bare.id.clone()).collect();
        let is_sent_of_content = !sent.is_empty() || !self.nameless.is_empty();
        for call in calls.into_iter().flatten() {
            let Some(fields) = Fields::of(call.get()) else { continue };
            let Some(id) = fields.text("id").filter(|id| !id.is_empty()) else { continue };
            bare.retain(|bare| bare.id != *id);
            if is_sent_of_content && !sent.iter().any(|sent| **sent == *id) {
                self.unsent(&fields, &id);
            }
            self.said.calls.push(Call { id: hash(&id), bare: None });
            self.result(&fields, &id);
        }
        for mut bare in bare {
            if let Some(list) = list.clone() {
                let begin = list.start + 1..list.start + 1;
                (bare.place, bare.around) = match fields.some("toolCalls") {
                    Some(_) if has_some => (begin, ("", ",")),
                    Some(_) => (begin, ("", "")),
                    None => (list, ("[", "]")),
                };
            }
            self.said.calls.push(Call { id: hash(&bare.id), bare: Some(bare) });
        }
    }

    /// A call of the list that the content, which has calls, does not hold.
    fn unsent(&mut self, call: &Fields<'_>, id: &str) {
        let name = call.text("name").unwrap_or_default();
        let nameless = self.nameless.iter().position(|(other, _)| *other == name);
        let (what, place, text) = match (nameless, self.said.lists.first().and_then(List::end)) {
            (Some(n), _) => {
                let (_, place) = self.nameless.remove(n);
                ("a call that lacks its id", place, format!("\"id\":{},", quote(id)))
            }
            (None, Some(end)) => {
                let (id, name) = (quote(id), quote(&name));
                let args = call.some("args").map_or("{}", RawValue::get);
                let text = format!(
                    ",{{\"functionCall\":{{\"id\":{id},\"name\":{name},\"args\":{args}}}}}"
                );
                ("a call that what is sent lacks", end, text)
            }
            (None, None) => return,
        };
        self.said.unsent.push(Unsent { id: hash(id), what, lacks: (place..place, text) });
    }

    /// A list of objects; Gemini CLI dies of anything else in it.
    fn listed(&mut self, fields: &Fields<'_>, name: &str) {
        let Some(raw) = fields.some(name).filter(|_| self.said.side == Side::Model) else { return };
        let Some(elements) = fields.list(name) else {
            let place = span(self.json, raw).map(|place| (place, "[]".to_owned()));
            self.lost("calls or thoughts that are no list", place);
            return;
        };
        let mut list = List::of(self.json, &elements);
        for (n, _) in elements.iter().enumerate().filter(|(_, raw)| !raw.get().starts_with('{')) {
            list.leave_out(n);
            self.lost("a call or thought that is no object", None);
        }
        self.said.lists.push(list);
    }

    /// The result in a call, as far as it is sent as one.
    fn result(&mut self, call: &Fields<'_>, id: &str) {
        let Some(raw) = call.some("result") else { return };
        let place = span(self.json, raw);
        if let Some(pieces) = call.list("result") {
            let responses: Vec<_> = pieces.iter().map(response_of).collect();
            let is_own = |(_, response): &(Fields<'_>, Fields<'_>)| {
                response.text("id").as_deref() == Some(id)
            };
            let is_astray =
                !responses.iter().flatten().any(is_own) && responses.iter().flatten().count() == 1;
            let list = self.said.lists.len();
            self.said.lists.push(List::of(self.json, &pieces));
            for (n, (fields, response)) in
                responses.iter().enumerate().filter_map(|(n, one)| Some((n, one.as_ref()?)))
            {
                self.response(fields, response, Place::Listed(list, n), (id, is_astray));
            }
        } else if let Some(place) = place.clone().filter(|_| raw.get().starts_with('"')) {
            let print = hash(&format!("{{\"output\":{}}}", raw.get()));
            let place = Place::Alone(place);
            self.said.answers.push(Answer { call: hash(id), print, is_own: true, place });
        } else if let Some((place, (fields, response))) =
            span(self.json, raw).zip(response_of(&raw))
        {
            self.response(&fields, &response, Place::Alone(place), (id, false));
        }
    }

    /// A result. `within`: the call in which it stands, and whether it names none or another one.
    fn response(
        &mut self,
        piece: &Fields<'_>,
        response: &Fields<'_>,
        place: Place,
        (within, is_astray): (&str, bool),
    ) {
        let own = Some(within).filter(|_| is_astray);
        let named = response.text("id").filter(|id| !id.is_empty());
        let told = response.get("response");
        let is_told = told.is_some_and(|told| told.get().starts_with('{'));
        if let Some(raw) = piece.get("functionResponse").filter(|_| own.is_some() || !is_told) {
            let id = own.or(named.as_deref());
            let what = if is_told {
                "a result in a call that does not name it"
            } else {
                "a result that is no object"
            };
            let instead = span(self.json, raw).map(|at| (at, response_with(response, id)));
            self.odd(Rule::OddField, what, instead);
        }
        if let Some(call) = own.or(named.as_deref()) {
            let print = hash(told.map_or("", RawValue::get));
            let is_own = call == within;
            self.said.answers.push(Answer { call: hash(call), print, is_own, place });
        }
    }
}

/// A response that names its call, with what it says in an object.
fn response_with(response: &Fields<'_>, id: Option<&str>) -> String {
    let name = response.text("name").unwrap_or_default();
    let told = match response.some("response").map(RawValue::get) {
        Some(told) if told.starts_with('{') => told.to_owned(),
        Some(told) => format!("{{\"output\":{told}}}"),
        None => json!({ "output": NO_OUTPUT }).to_string(),
    };
    let id = id.map(|id| format!("\"id\":{},", quote(id))).unwrap_or_default();
    format!("{{{id}\"name\":{},\"response\":{told}}}", quote(&name))
}

fn response_of<'a>(piece: &&'a RawValue) -> Option<(Fields<'a>, Fields<'a>)> {
    let fields = Fields::of(piece.get())?;
    let response = fields.object("functionResponse")?;
    Some((fields, response))
}
