//! What pi chokes on, entry by entry.
//!
//! Responsible for: its entries' names for things, and which of them it cannot send. Must not: open files.
//!
//! It goes on from the last line, whatever that is, and walks to the first entry along `parentId`; a missing one
//! ends the walk silently, one that follows itself never ends it (1.6.0, measured). It sends every result and
//! every unknown piece that stands there, which providers refuse each time. Entries of type `custom` are kept
//! and not sent: what must not be sent becomes such an entry. Of version 4 there is more in `v4`.

use super::UNKNOWN_OUTCOME;
use super::calls::{Answer, Calls, Open};
use super::draft::{At, Draft};
use super::json::{Fields, Span, key_span, quote, set_members, span, text, unknown_piece};
use super::reading::{ORPHAN, Reading, SECOND, Stray, key};
use super::rule::Rule;
use super::tree::{Kind, Row, Taken, Tree, hash, short_of};
use segno_model::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::HashMap;

const MAIN: u64 = 0;

mod late;
mod v4;

use late::Late;
use v4::Writes;

/// One session while it is gone through.
pub(super) struct Pi<'r> {
    reading: &'r Reading,
    tree: Tree,
    calls: Calls,
    header: Header,
    /// Results, by their entry, with the entry that made the call.
    turns: HashMap<u64, u64>,
    /// The last name or label, what it hangs on, and where it says so.
    about: Option<(At, String, Span)>,
    provider: Option<String>,
    first: Option<At>,
    /// In version 1, where entries do not say what they hang on: the reply that the next one hangs on.
    before: Option<u64>,
    late: Late,
    writes: Writes,
}

#[derive(PartialEq, Eq)]
enum Header {
    Missing,
    /// Versions 1 to 3, as the line says it.
    Found(u64),
    /// Version 4: a log of writes with numbers.
    Newer,
}

impl<'r> Pi<'r> {
    pub(super) fn new(reading: &'r Reading) -> Self {
        let kind =
            Kind { main: MAIN, continues_others: false, finds_later: false, fresh: short_of };
        Self {
            reading,
            tree: Tree::new(kind),
            calls: Calls::default(),
            header: Header::Missing,
            turns: HashMap::new(),
            about: None,
            provider: None,
            first: None,
            before: None,
            late: Late::default(),
            writes: Writes::default(),
        }
    }

    /// Whether an object is an entry, and not a piece of one.
    pub(super) fn is_record(fields: &Fields<'_>) -> bool {
        let has = |name: &str| fields.get(name).is_some();
        let is_header = fields.text("kind").as_deref() == Some("header") && has("id");
        let is_write = has("kind") && has("seq");
        let is_time = |raw: &RawValue| match text(raw) {
            Some(time) => Timestamp::parse(&time).is_some(),
            None => raw.get().starts_with(|c: char| c.is_ascii_digit()),
        };
        let is_dated = fields.get("timestamp").is_some_and(is_time);
        is_header || is_write || has("type") && (is_dated || has("parentId"))
    }

    /// Takes the next object.
    pub(super) fn take(&mut self, at: &At, json: &str, draft: &mut Draft) {
        let fields = Fields::of(json);
        self.first.get_or_insert(*at);
        if fields.is_none() || fields.as_ref().is_some_and(|f| f.get("seq").is_some()) {
            // Several writes at once, or one of the newer versions.
            if self.header == Header::Missing {
                self.header = Header::Newer;
            }
        }
        let is_header = |fields: &Fields<'_>| fields.text("kind").as_deref() == Some("header");
        if self.header == Header::Missing && fields.as_ref().is_some_and(is_header) {
            self.header = Header::Newer;
        }
        if self.header == Header::Newer {
            return self.take_writes(at, json, draft);
        }
        if self.header == Header::Missing {
            self.writes.take_stray(at);
        }
        let Some(fields) = fields else { return };
        let Some(kind) = fields.text("type") else { return };
        if kind == "session" {
            return self.take_header(at, json, draft);
        }
        if !Self::is_record(&fields) {
            // Our reader keeps it as it is, and nothing hangs on it.
            return;
        }
        let Some(id) = self.id_of(at, json, &fields, draft) else {
            // Version 1: one entry follows the other.
            self.late.comes((at, json, &fields), "", self.awaited(at, &fields), &self.tree);
            return self.entry(at, json, &fields, &kind, (String::new(), None), draft);
        };
        let parent = fields.some("parentId").and_then(|raw| Some((text(raw)?, span(json, raw)?)));
        let is_about = matches!(&*kind, "label" | "session_info");
        let row = Row {
            id: &id,
            id_span: fields.get("id").and_then(|raw| span(json, raw)),
            parent: parent.as_ref().map(|(id, span)| (&**id, span.clone())),
            print: hash(json),
            is_node: !is_about && fields.get("parentId").is_some()
                || self.reading.is_node(at.line, &fields.text("id").unwrap_or_default()),
            lane: MAIN,
            goes_on: false,
        };
        let tail = self.tree.tail(MAIN).map(str::to_owned);
        let Taken::Row { id, parent } = self.tree.take(at, &row, draft) else {
            return draft.leave_out(at);
        };
        self.late.comes((at, json, &fields), &id, self.awaited(at, &fields), &self.tree);
        // Behind its own renaming: a summary that keeps nothing names itself.
        self.follow_renamed(at, json, &fields, draft);
        if is_about {
            let astray = parent.as_ref().filter(|(on, _)| tail.as_deref().map(hash) != Some(*on));
            self.about = astray.zip(tail).map(|((_, span), tail)| (*at, tail, span.clone()));
        } else if self.tree.tail(MAIN) == Some(id.as_str()) {
            self.about = None;
        }
        self.entry(at, json, &fields, &kind, (id, parent), draft);
    }

    /// How late results name an entry before which one comes.
    fn awaited(&self, at: &At, fields: &Fields<'_>) -> Option<u64> {
        let id = fields.text("id").unwrap_or_default();
        self.reading.is_awaited(at.line, &id).then(|| key(at.line, &id))
    }

    /// An entry's id. One that says what it hangs on, and not what it is called, gets one: others have to hang on it.
    fn id_of<'a>(
        &self,
        at: &At,
        json: &str,
        fields: &Fields<'a>,
        draft: &mut Draft,
    ) -> Option<Cow<'a, str>> {
        let id = fields.text("id");
        if id.is_some() || fields.get("parentId").is_none() || !draft.has(Rule::ReusedId) {
            return id;
        }
        let id = self.tree.fresh(&format!("line {} {}", at.line, at.object));
        draft.splice_all(at, set_members(json, json, &[("id", quote(&id))]));
        draft.tell(Rule::ReusedId, Some(at), "an entry without an id");
        Some(Cow::Owned(id))
    }

    /// What is said of an entry that got another id is said of that.
    fn follow_renamed(&self, at: &At, json: &str, fields: &Fields<'_>, draft: &mut Draft) {
        for name in ["targetId", "fromId", "firstKeptEntryId", "entryId"] {
            let Some(raw) = fields.get(name) else { continue };
            let new = text(raw).and_then(|id| self.tree.renamed(&id));
            if let (Some(new), Some(place)) = (new, span(json, raw)) {
                draft.splice(at, place, quote(new));
            }
        }
    }

    fn take_header(&mut self, at: &At, json: &str, draft: &mut Draft) {
        match self.header {
            Header::Found(first) if draft.has(Rule::RepeatedRecord) => {
                draft.leave_out(at);
                if first != hash(json) {
                    draft.set_aside(at);
                }
                draft.tell(Rule::RepeatedRecord, Some(at), "a second header stands here");
            }
            _ => self.header = Header::Found(hash(json)),
        }
    }

    /// The end of the file.
    pub(super) fn finish(&mut self, draft: &mut Draft) {
        if self.header == Header::Newer {
            return self.finish_writes(draft);
        }
        if self.header == Header::Missing
            && draft.has(Rule::MissingHeader)
            && let Some(at) = self.first
        {
            self.put_header(&at, draft);
        }
        let mut instead = HashMap::new();
        let open = if draft.has(Rule::UnansweredCall) {
            self.calls.unanswered(&self.reading.unanswered)
        } else {
            Vec::new()
        };
        let mut ends: HashMap<String, String> = HashMap::new();
        for call in &open {
            let on = ends.get(&call.row).unwrap_or(&call.row).clone();
            let id = self.tree.fresh(&format!("result {} {}", call.row, call.id));
            draft.insert_after(&call.at, result(call, &on, &id));
            let what = format!("the call {} ({}) has no result", call.id, call.name);
            draft.tell(Rule::UnansweredCall, Some(&call.at), what);
            for (at, span) in &call.children {
                draft.splice(at, span.clone(), quote(&id));
            }
            instead.insert(hash(&call.row), id.clone());
            ends.insert(call.row.clone(), id);
        }
        let mut hung = Vec::new();
        if let Some((at, tail, span)) = self.about.take().filter(|_| draft.has(Rule::StaleTip)) {
            let tail = instead.get(&hash(&tail)).cloned().unwrap_or(tail);
            draft.splice(&at, span.clone(), quote(&tail));
            hung.push((at, span, tail));
            draft.tell(
                Rule::StaleTip,
                Some(&at),
                "a name or label on another branch is the last line",
            );
        }
        hung.extend(self.tree.finish(&instead, draft));
        self.late.finish(hung, &instead, &self.tree, draft);
    }

    fn put_header(&self, at: &At, draft: &mut Draft) {
        let (id, cwd, created) = self.reading.header();
        let header = json!({
            "type": "session", "version": 3, "id": id, "timestamp": created.to_string(), "cwd": cwd,
        });
        draft.insert_before(at, header.to_string());
        draft.tell(Rule::MissingHeader, None, self.reading.header_lost());
    }

    /// An entry that stays; without an id in version 1.
    fn entry(
        &mut self,
        at: &At,
        json: &str,
        fields: &Fields<'_>,
        kind: &str,
        (id, parent): (String, Option<(u64, Span)>),
        draft: &mut Draft,
    ) {
        let is_first_version = id.is_empty();
        let named = parent.as_ref().map(|(on, _)| *on).or(self.before.filter(|_| is_first_version));
        let entry = Entry { at, json, fields, id, parent };
        if is_first_version {
            self.come_behind(&entry, kind);
        }
        match kind {
            "message" => {
                let Some(raw) = fields.get("message") else { return };
                let Some(message) = Fields::of(raw.get()) else { return };
                match message.text("role").as_deref() {
                    Some("assistant") => self.reply(&entry, raw, &message, draft),
                    Some("toolResult") => return self.result(&entry, raw, &message, named, draft),
                    _ => entry.pieces(message.list("content"), draft),
                }
            }
            "custom_message" => entry.pieces(fields.list("content"), draft),
            "model_change" => {
                self.provider = fields.text("provider").map(Cow::into_owned);
            }
            "compaction" => self.compaction(&entry, draft),
            _ => {}
        }
        self.hang(&entry);
    }

    /// What the next entry hangs on in version 1; results hang on the reply that they answer.
    fn come_behind(&mut self, entry: &Entry<'_>, kind: &str) {
        let message = entry.fields.object("message").filter(|_| kind == "message");
        match message.and_then(|message| message.text("role").map(Cow::into_owned)).as_deref() {
            Some("assistant") => self.before = Some(entry.turn()),
            Some("user") => self.before = None,
            _ if kind == "compaction" => self.before = None,
            _ => {}
        }
    }

    /// An entry that hangs on an open call hangs on its result then.
    fn hang(&mut self, entry: &Entry<'_>) {
        let Some((on, span)) = &entry.parent else { return };
        self.calls.each_open(|open| {
            if hash(&open.row) == *on {
                open.children.push((*entry.at, span.clone()));
            }
        });
    }

    fn reply(
        &mut self,
        entry: &Entry<'_>,
        raw: &RawValue,
        message: &Fields<'_>,
        draft: &mut Draft,
    ) {
        if draft.has(Rule::MissingUsage) {
            self.complete(entry, raw, message, draft);
        }
        let pieces = message.list("content");
        for piece in pieces.iter().flatten() {
            let Some(call) = Fields::of(piece.get()) else { continue };
            if call.text("type").as_deref() != Some("toolCall") {
                continue;
            }
            let id = call.text("id").unwrap_or_default();
            let mut sent = id.to_string();
            if self.calls.is_used(&id) && draft.has(Rule::ReusedCallId) {
                sent = self.calls.fresh(&id);
                entry.set(piece, "id", &sent, draft);
                let what = if id.is_empty() {
                    "a call without an id"
                } else {
                    "a call id that was given before"
                };
                draft.tell(Rule::ReusedCallId, Some(entry.at), what);
            }
            let open = Open {
                at: *entry.at,
                id: sent,
                name: call.text("name").unwrap_or_default().into_owned(),
                row: entry.id.clone(),
                turn: entry.turn(),
                reply: entry.at.line,
                named: None,
                response: String::new(),
                template: template(entry.fields, message),
                children: Vec::new(),
                order: 0,
                behind: None,
            };
            self.calls.call(&id, open);
        }
        entry.pieces(pieces, draft);
    }

    fn result(
        &mut self,
        entry: &Entry<'_>,
        raw: &RawValue,
        message: &Fields<'_>,
        on: Option<u64>,
        draft: &mut Draft,
    ) {
        let turn = on.map(|on| self.turns.get(&on).copied().unwrap_or(on));
        if let Some(turn) = turn.filter(|_| !entry.id.is_empty()) {
            self.turns.insert(hash(&entry.id), turn);
        }
        let id = message.text("toolCallId").unwrap_or_default();
        let own = entry.fields.text("id").unwrap_or_default();
        let (mut known, mut place, mut unsent) = (None, None, None);
        match self.reading.astray(entry.at.line, &own) {
            Some(Stray::Unsent(rule, what)) => unsent = Some((rule, what)),
            Some(Stray::Late { reply, before }) => {
                known = self.calls.result_of(&id, reply);
                place = known.is_some().then_some((reply, before));
            }
            None => {}
        }
        let unsent = match unsent {
            Some(unsent) => unsent,
            None => match known.unwrap_or_else(|| self.calls.result(&id, turn)) {
                Answer::First(renamed) => {
                    if let Some(sent) = renamed {
                        entry.set(raw, "toolCallId", &sent, draft);
                    }
                    match place {
                        Some(place) => self.move_before(entry, place),
                        None => self.follow(entry, turn),
                    }
                    return entry.pieces(message.list("content"), draft);
                }
                Answer::Second => (Rule::SecondResult, SECOND),
                Answer::Orphan => (Rule::OrphanResult, ORPHAN),
            },
        };
        if draft.has(unsent.0) {
            entry.become_note(unsent, raw, draft);
        }
        self.hang(entry);
    }

    /// A result belongs before another row. Version 4 numbers its rows: there it stays.
    fn move_before(&mut self, entry: &Entry<'_>, place: (u64, u64)) {
        if self.header == Header::Newer {
            self.writes.takes_late();
        } else {
            self.late.moves(entry, place);
        }
        self.hang(entry);
    }

    /// Further results of the turn hang on this one.
    fn follow(&mut self, entry: &Entry<'_>, turn: Option<u64>) {
        let Some(turn) = turn else { return };
        self.calls.each_open(|open| {
            if open.turn == turn {
                (open.at, open.row) = (*entry.at, entry.id.clone());
                open.children.clear();
            }
        });
    }

    /// What pi takes for granted in a reply.
    fn complete(
        &mut self,
        entry: &Entry<'_>,
        raw: &RawValue,
        message: &Fields<'_>,
        draft: &mut Draft,
    ) {
        if message.object("usage").is_some() {
            return;
        }
        let is_call = |piece: &&RawValue| {
            Fields::of(piece.get()).is_some_and(|p| p.text("type").as_deref() == Some("toolCall"))
        };
        let calls = message.list("content").is_some_and(|pieces| pieces.iter().any(is_call));
        let provider = self.provider.as_deref().unwrap_or("unknown");
        let cost = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0});
        let rows = [
            (
                "usage",
                json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": cost}),
            ),
            ("api", json!("unknown")),
            ("provider", json!(provider)),
            ("model", json!("unknown")),
            ("stopReason", json!(if calls { "toolUse" } else { "stop" })),
        ];
        let is_missing = |name: &str| name == "usage" || message.some(name).is_none();
        let missing = rows.iter().filter(|(name, _)| is_missing(name));
        let missing: Vec<_> = missing.map(|(name, value)| (*name, value.to_string())).collect();
        draft.splice_all(entry.at, set_members(entry.json, raw.get(), &missing));
        draft.tell(Rule::MissingUsage, Some(entry.at), "a reply does not say what it cost");
    }

    fn compaction(&mut self, entry: &Entry<'_>, draft: &mut Draft) {
        if entry.fields.get("firstKeptEntryIndex").is_some() {
            self.late.is_numbered();
        }
        let Some(raw) = entry.fields.some("firstKeptEntryId") else { return };
        let Some(kept) = text(raw) else { return };
        let is_lost = self.reading.lost_kept.contains(&entry.at.line) || !self.tree.knows(&kept);
        if *kept == *entry.id || !(is_lost || self.late.has(&kept)) || !draft.has(Rule::LostKept) {
            return;
        }
        // Its own id: nothing before it is kept.
        let from = self.reading.kept.get(&entry.at.line).cloned().flatten();
        let from = from.unwrap_or_else(|| entry.id.clone());
        if let Some(place) = span(entry.json, raw) {
            draft.splice(entry.at, place, quote(&from));
            let what = match self.tree.knows(&kept) {
                false => "a summary keeps what follows an entry that is nowhere in the file",
                true => "a summary keeps what follows an entry that cannot be kept",
            };
            // What is told of a late result goes for this line, too.
            if is_lost {
                draft.tell(Rule::LostKept, Some(entry.at), what);
            }
        }
    }
}

/// An entry that stays.
struct Entry<'a> {
    at: &'a At,
    json: &'a str,
    fields: &'a Fields<'a>,
    id: String,
    parent: Option<(u64, Span)>,
}

impl Entry<'_> {
    /// The turn that it makes as a reply. In version 1 entries have no ids.
    fn turn(&self) -> u64 {
        if self.id.is_empty() {
            return hash(&format!("line {} {}", self.at.line, self.at.object));
        }
        hash(&self.id)
    }

    /// Sets a member of a piece of the entry to a text.
    fn set(&self, piece: &RawValue, name: &str, to: &str, draft: &mut Draft) {
        let splices = set_members(self.json, piece.get(), &[(name, quote(to))]);
        draft.splice_all(self.at, splices);
    }

    /// Pieces that pi would send as something that they are not.
    fn pieces(&self, pieces: Option<Vec<&RawValue>>, draft: &mut Draft) {
        const KNOWN: &[&str] = &["text", "image", "thinking", "toolCall"];
        if !draft.has(Rule::UnknownPiece) {
            return;
        }
        for piece in pieces.into_iter().flatten() {
            let Some(kind) = Fields::of(piece.get()).and_then(|p| p.text("type")) else { continue };
            if KNOWN.contains(&&*kind) {
                continue;
            }
            if let Some(place) = span(self.json, piece) {
                let text = json!({"type": "text", "text": unknown_piece(piece)});
                draft.splice(self.at, place, text.to_string());
                draft.tell(
                    Rule::UnknownPiece,
                    Some(self.at),
                    "a piece of a kind that pi does not know",
                );
            }
        }
    }

    /// The entry stays where it is, and is not sent any more.
    fn become_note(&self, (rule, what): (Rule, &str), message: &RawValue, draft: &mut Draft) {
        let value = span(self.json, message);
        let key = value.and_then(|value| key_span(self.json, "message", &value));
        if let Some(key) = key {
            let name = quote(&format!("segno.{}", rule.code()));
            let members = [("type", quote("custom")), ("customType", name)];
            draft.splice_all(self.at, set_members(self.json, self.json, &members));
            draft.splice(self.at, key, "\"data\"");
            draft.tell(rule, Some(self.at), what);
        }
    }
}

/// What a result takes over from its call.
fn template(entry: &Fields<'_>, message: &Fields<'_>) -> Map<String, Value> {
    let value = |raw: Option<&RawValue>| raw.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let mut template = Map::new();
    let at = value(entry.get("timestamp")).unwrap_or(Value::Null);
    let ms = value(message.get("timestamp")).filter(Value::is_number);
    let parsed = || at.as_str().and_then(Timestamp::parse).map(|at| json!(at.0));
    template.insert("ms".to_owned(), ms.or_else(parsed).unwrap_or_else(|| json!(0)));
    template.insert("timestamp".to_owned(), at);
    template
}

fn result(call: &Open, on: &str, id: &str) -> String {
    let message = json!({
        "role": "toolResult",
        "toolCallId": call.id,
        "toolName": call.name,
        "content": [{"type": "text", "text": UNKNOWN_OUTCOME}],
        "isError": true,
        "timestamp": call.template.get("ms"),
    });
    let mut entry = Map::new();
    entry.insert("type".to_owned(), json!("message"));
    if !call.row.is_empty() {
        entry.insert("id".to_owned(), json!(id));
        entry.insert("parentId".to_owned(), json!(on));
    }
    entry.insert("timestamp".to_owned(), json!(call.template.get("timestamp")));
    entry.insert("message".to_owned(), message);
    Value::Object(entry).to_string()
}
