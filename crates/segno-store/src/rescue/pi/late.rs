//! Results that do not stand right behind the reply that made their call.
//!
//! Responsible for: moving each of them there, and hanging what is around it anew. Must not: decide which they are;
//! our reader does.
//!
//! pi sends a result where it stands. Where something else comes before it, pi has given the call a result of its own by
//! then ("No result provided"), and providers refuse the second one. So the result goes before the first row behind
//! its turn, under its id; what hung on it hangs on what it hung on.

use super::super::draft::{At, Draft};
use super::super::json::{Fields, Span, quote, span, text};
use super::super::rule::Rule;
use super::super::tree::{Tree, hash};
use super::Entry;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// The late results of a session.
#[derive(Default)]
pub(super) struct Late {
    /// Rows before which one comes. In version 1 those of one line have one key.
    awaited: HashMap<u64, Vec<Slot>>,
    moves: Vec<Move>,
    /// Which of them has an id.
    by_id: HashMap<u64, usize>,
    /// The last row that stays where it is, and the one before it.
    last: Option<String>,
    before_last: Option<String>,
    /// Whether one of `moves` is the last row of all.
    is_last: bool,
    /// Whether rows are named by their lines.
    is_numbered: bool,
}

/// A row, and where and how it says what it hangs on; in version 1 it does not.
#[derive(Clone)]
struct Slot {
    at: At,
    parent: Option<(Span, String)>,
}

struct Move {
    result: Slot,
    id: String,
    /// When it was, as it says so.
    time: Value,
    /// The line where its call's reply begins, and the row before which it goes.
    reply: u64,
    before: u64,
    /// Rows that hang on it, and where they say so.
    heirs: Vec<(At, Span)>,
}

impl Slot {
    fn of(at: &At, json: &str, fields: &Fields<'_>) -> Self {
        let raw = fields.get("parentId");
        let parent = raw.and_then(|raw| Some((span(json, raw)?, raw.get().to_owned())));
        Self { at: *at, parent }
    }
}

impl Late {
    /// Takes a row that stays, under the id that it has in the end. `awaited`: how results name it that come before it.
    pub(super) fn comes(
        &mut self,
        (at, json, fields): (&At, &str, &Fields<'_>),
        id: &str,
        awaited: Option<u64>,
        tree: &Tree,
    ) {
        self.before_last = self.last.replace(id.to_owned());
        self.is_last = false;
        let is_result = || {
            let message = fields.object("message");
            message.is_some_and(|message| message.text("role").as_deref() == Some("toolResult"))
        };
        if let Some(row) = awaited.filter(|_| !is_result()) {
            self.awaited.entry(row).or_default().push(Slot::of(at, json, fields));
        }
        if self.by_id.is_empty() {
            return;
        }
        let Some(raw) = fields.some("parentId") else { return };
        let (Some(named), Some(place)) = (text(raw), span(json, raw)) else { return };
        let on = tree.renamed(&named).unwrap_or(&named);
        self.hangs(at, place, on);
    }

    /// Whether a row is one of them.
    pub(super) fn has(&self, id: &str) -> bool {
        self.by_id.contains_key(&hash(id))
    }

    /// A row names another one by its line, which has to stay the same.
    pub(super) fn is_numbered(&mut self) {
        self.is_numbered = true;
    }

    /// A row hangs on another one.
    fn hangs(&mut self, at: &At, place: Span, on: &str) {
        let late = self.by_id.get(&hash(on)).and_then(|late| self.moves.get_mut(*late));
        if let Some(late) = late {
            late.heirs.push((*at, place));
        }
    }

    /// The row that came last is a result that belongs before another row.
    pub(super) fn moves(&mut self, entry: &Entry<'_>, (reply, before): (u64, u64)) {
        if !entry.id.is_empty() {
            self.by_id.insert(hash(&entry.id), self.moves.len());
        }
        let time = entry.fields.get("timestamp");
        self.moves.push(Move {
            result: Slot::of(entry.at, entry.json, entry.fields),
            id: entry.id.clone(),
            time: time.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default(),
            reply,
            before,
            heirs: Vec::new(),
        });
        self.last = self.before_last.take();
        self.is_last = true;
    }

    /// The end. `hung`: rows that hang on another one than they name, and on which. `instead`: rows behind which
    /// something was put on which their children hang now.
    pub(super) fn finish(
        &mut self,
        hung: Vec<(At, Span, String)>,
        instead: &HashMap<u64, String>,
        tree: &Tree,
        draft: &mut Draft,
    ) {
        for (at, place, on) in hung {
            self.hangs(&at, place, &on);
        }
        let mut end = None;
        for late in std::mem::take(&mut self.moves) {
            end = self.carry_out(&late, draft).map(|on| (late, on));
        }
        let Some((late, on)) = end.filter(|_| self.is_last) else { return };
        let last = self.last.take();
        let last = last.map(|last| instead.get(&hash(&last)).cloned().unwrap_or(last));
        if last.as_deref().map(quote).as_ref() == Some(&on) {
            return;
        }
        // pi goes on from the last row, which has to hang where that result hung.
        let mut row = Map::new();
        row.insert("type".to_owned(), json!("custom"));
        row.insert("customType".to_owned(), json!("segno.tip"));
        row.insert("id".to_owned(), json!(tree.fresh(&format!("tip {}", late.id))));
        row.insert("parentId".to_owned(), serde_json::from_str(&on).unwrap_or_default());
        row.insert("timestamp".to_owned(), late.time);
        draft.insert_after(&late.result.at, Value::Object(row).to_string());
    }

    /// Moves a result; gives what it hung on, as JSON.
    fn carry_out(&self, late: &Move, draft: &mut Draft) -> Option<String> {
        let rows = self.awaited.get(&late.before)?;
        let is_reply = |row: &&Slot| late.id.is_empty() && row.at.line == late.reply;
        let before = rows.get(usize::from(rows.first().filter(is_reply).is_some()))?;
        let hung_on = match (&late.result.parent, &before.parent) {
            (Some((own, named)), Some((other, on))) if !late.id.is_empty() => {
                let now = |at: &At, place: &Span, named: &str, draft: &Draft| {
                    draft.spliced(at, place).unwrap_or(named).to_owned()
                };
                let hung_on = now(&late.result.at, own, named, draft);
                let above = now(&before.at, other, on, draft);
                let id = quote(&late.id);
                for (at, place) in &late.heirs {
                    if draft.spliced(at, place).is_none_or(|on| on == id) {
                        draft.splice(at, place.clone(), hung_on.clone());
                    }
                }
                draft.splice(&late.result.at, own.clone(), above);
                draft.splice(&before.at, other.clone(), id);
                Some(hung_on)
            }
            // Version 1: one row hangs on the row before it.
            (None, None) if late.id.is_empty() && !self.is_numbered => None,
            _ => return None,
        };
        draft.move_before(&late.result.at, &before.at);
        let line = before.at.line;
        let what =
            format!("a result does not stand right behind its call, and goes before line {line}");
        draft.tell(Rule::OutOfOrder, Some(&late.result.at), what);
        hung_on
    }
}
