//! What Claude Code chokes on, row by row.
//!
//! Responsible for: its rows' names for things, and which of their blocks it cannot send. Must not: open files.
//!
//! It walks from the last row to the first along `parentUuid` and stops where one is missing: everything before
//! that is lost (2.1.332, measured). A call whose result was lost is taken out of the history where anything
//! follows it. Rows of type `system` are shown and not sent: what must not be sent becomes such a row.

use super::calls::{Answer, Calls, Open};
use super::draft::{At, Draft};
use super::held::Held;
use super::json::{Fields, Span, quote, set_members, span, text};
use super::reading::Reading;
use super::rule::Rule;
use super::tree::{Kind, Row, Taken, Tree, hash, uuid_of};
use crate::foreign::claude::print_of;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// What our reader knows as "nobody saw the end of it".
const UNKNOWN: &str = "[Tool call interrupted. No result was recorded, so the outcome of this call is unknown: it may \
    have happened completely, partly or not at all. Check before repeating it.]";

/// What a result says that holds nothing.
const NO_OUTPUT: &str = "(no output)";

const MAIN: u64 = 0;

/// One session while it is gone through.
pub(super) struct Claude<'r> {
    reading: &'r Reading,
    tree: Tree,
    calls: Calls,
    /// Whether all of the file is a subagent's.
    child: Option<bool>,
    /// By row: what it holds, all of it.
    prints: HashMap<u64, u64>,
    held: Held,
}

impl<'r> Claude<'r> {
    pub(super) fn new(reading: &'r Reading) -> Self {
        let kind = Kind { main: MAIN, continues_others: true, finds_later: true, fresh: uuid_of };
        Self {
            reading,
            tree: Tree::new(kind),
            calls: Calls::default(),
            child: None,
            prints: HashMap::new(),
            held: Held::default(),
        }
    }

    /// Whether an object is a row, and not a piece of one.
    pub(super) fn is_record(fields: &Fields<'_>) -> bool {
        const ASIDE: &[&str] = &[
            "queue-operation",
            "custom-title",
            "ai-title",
            "summary",
            "continued-in",
            "content-replacement",
        ];
        let kind = fields.text("type");
        kind.is_some_and(|kind| {
            ["uuid", "sessionId"].iter().any(|name| fields.text(name).is_some())
                || ASIDE.contains(&&*kind)
        })
    }

    /// Takes the next object.
    pub(super) fn take(&mut self, at: &At, json: &str, draft: &mut Draft) {
        let Some(fields) = Fields::of(json) else { return };
        let (Some(id), Some(kind)) = (fields.text("uuid"), fields.text("type")) else {
            return self.held.between(MAIN, None, json.len());
        };
        let is_sidechain = fields.is_true("isSidechain");
        let child = *self.child.get_or_insert(is_sidechain);
        let own = self.reading.facts.id.as_deref();
        let is_own = |agent: &str| child && own.is_none_or(|own| own == agent);
        let lane = match fields.text("agentId") {
            _ if !is_sidechain => MAIN,
            None if child => MAIN,
            Some(agent) if is_own(&agent) => MAIN,
            Some(agent) => hash(&agent),
            None => hash("sidechain"),
        };
        let own = id.to_ascii_lowercase();
        let print = print(&fields);
        let parent = ["parentUuid", "logicalParentUuid"].iter().find_map(|name| {
            let raw = fields.some(name)?;
            Some((text(raw)?.to_ascii_lowercase(), span(json, raw)?))
        });
        let row = Row {
            id: &own,
            id_span: fields.get("uuid").and_then(|raw| span(json, raw)),
            parent: parent.as_ref().map(|(id, span)| (id.as_str(), span.clone())),
            print: print_of(json).map_or(print, u64::from),
            is_node: is_reply(&fields, &kind) || self.reading.is_node(at.line, &id),
            lane,
            goes_on: !self.held.holds(hash(&own)),
        };
        let Taken::Row { id, parent } = self.tree.take(at, &row, draft) else {
            draft.leave_out(at);
            if row.goes_on {
                self.held.copy();
            }
            if self.prints.get(&hash(&own)) != Some(&print) {
                // Our reader takes it for the same, though some bytes of it are others.
                draft.set_aside(at);
            }
            return;
        };
        self.prints.insert(hash(&own), print);
        let message = fields.object("message").unwrap_or_default();
        let content = message.get("content");
        let row = ClaudeRow { at, json, fields: &fields, id, parent, content };
        self.hold(&row, &kind, &own, lane);
        if lane != MAIN {
            return;
        }
        match &*kind {
            "assistant" if is_reply(&fields, &kind) => self.reply(&row, &message, draft),
            "user" if !fields.is_true("isCompactSummary") => self.user(&row, draft),
            _ => self.hang(&row, ""),
        }
    }

    /// Whether the reply before a row may go on behind it.
    fn hold(&mut self, row: &ClaudeRow<'_>, kind: &str, own: &str, lane: u64) {
        let message = row.fields.object("message");
        if is_reply(row.fields, kind) {
            let response = message.and_then(|message| message.text("id"));
            return self.held.reply(response.as_deref().unwrap_or(own), lane, hash(own));
        }
        let is_summary = row.fields.is_true("isCompactSummary");
        let is_shown = message.is_some() && !row.fields.is_true("isVisibleInTranscriptOnly");
        let is_result = |block: &RawValue| {
            Fields::of(block.get())
                .is_some_and(|block| block.text("type").as_deref() == Some("tool_result"))
        };
        let ends = match kind {
            "user" if is_summary => message.is_some(),
            "user" => is_shown && !row.blocks().into_iter().all(is_result),
            "system" => row.fields.text("subtype").as_deref() == Some("compact_boundary"),
            _ => false,
        };
        if ends {
            self.held.end();
        } else {
            self.held.between(lane, Some(hash(own)), row.json.len());
        }
    }

    /// The end of the file.
    pub(super) fn finish(&mut self, draft: &mut Draft) {
        let mut instead = HashMap::new();
        let open = if draft.has(Rule::UnansweredCall) {
            self.calls.unanswered(&self.reading.unanswered)
        } else {
            Vec::new()
        };
        let mut rows: Vec<Vec<Open>> = Vec::new();
        for call in open {
            match rows.last_mut() {
                Some(row) if row.first().is_some_and(|one| one.row == call.row) => row.push(call),
                _ => rows.push(vec![call]),
            }
        }
        for calls in &rows {
            self.answer(calls, &mut instead, draft);
        }
        self.tree.finish(&instead, draft);
    }

    /// Puts one row with results behind the row that made the calls.
    fn answer(&self, calls: &[Open], instead: &mut HashMap<u64, String>, draft: &mut Draft) {
        let Some(first) = calls.first() else { return };
        let id = self.tree.fresh(&format!("result {} {}", first.row, first.id));
        let block = |call: &Open| json!({"type": "tool_result", "tool_use_id": call.id, "content": UNKNOWN, "is_error": true});
        let content: Vec<Value> = calls.iter().map(block).collect();
        let mut row = Map::new();
        row.insert("parentUuid".into(), json!(first.row));
        row.insert("isSidechain".into(), json!(self.child == Some(true)));
        row.insert("type".into(), json!("user"));
        row.insert("message".into(), json!({"role": "user", "content": content}));
        row.insert("uuid".into(), json!(id));
        row.insert("sourceToolAssistantUUID".into(), json!(first.row));
        row.extend(first.template.clone());
        let behind = first.behind.unwrap_or(first.at);
        draft.insert_after(&behind, Value::Object(row).to_string());
        for call in calls {
            let what = format!("the call {} ({}) has no result", call.id, call.name);
            draft.tell(Rule::UnansweredCall, Some(&call.at), what);
        }
        for (at, span) in &first.children {
            draft.splice(at, span.clone(), quote(&id));
        }
        instead.insert(hash(&first.row), id);
    }

    /// A row that hangs on an open call, and belongs to another response, hangs on its result then.
    fn hang(&mut self, row: &ClaudeRow<'_>, response: &str) {
        let Some((parent, span)) = &row.parent else { return };
        self.calls.each_open(|open| {
            if open.turn == *parent && (response.is_empty() || open.response != response) {
                open.children.push((*row.at, span.clone()));
            }
        });
    }

    fn reply(&mut self, row: &ClaudeRow<'_>, message: &Fields<'_>, draft: &mut Draft) {
        let response = message.text("id").unwrap_or_default();
        self.hang(row, &response);
        for block in row.blocks() {
            let Some(fields) = Fields::of(block.get()) else { continue };
            if fields.text("type").as_deref() != Some("tool_use") {
                continue;
            }
            let id = fields.text("id").unwrap_or_default();
            let open = Open {
                at: *row.at,
                id: id.to_string(),
                name: fields.text("name").unwrap_or_default().into_owned(),
                row: row.id.clone(),
                turn: hash(&row.id),
                reply: row.at.line,
                named: None,
                response: response.to_string(),
                template: template(row.fields),
                children: Vec::new(),
                order: 0,
                behind: None,
            };
            self.calls.call(&id, open);
        }
        row.sieve(draft, |block, draft| {
            let is_unsigned = draft.has(Rule::UnsignedThinking) && is_unsigned(block);
            let is_empty = draft.has(Rule::EmptyText) && is_blank(block);
            is_unsigned.then_some(Rule::UnsignedThinking).or(is_empty.then_some(Rule::EmptyText))
        });
    }

    fn user(&mut self, row: &ClaudeRow<'_>, draft: &mut Draft) {
        let mut answers: Vec<Option<Rule>> = Vec::new();
        let mut pairs = false;
        for block in row.blocks() {
            let result = Fields::of(block.get());
            let result = result.filter(|b| b.text("type").as_deref() == Some("tool_result"));
            let Some(result) = result else {
                answers.push(None);
                continue;
            };
            let id = result.text("tool_use_id").unwrap_or_default();
            let rule = match self.calls.answered(&id, None) {
                Ok(call) => {
                    pairs = true;
                    fill(row, &result, draft);
                    let is_turn = |open: &Open| open.response == call.response;
                    if self.calls.come_behind(&call, row.at, is_turn) {
                        self.tree.stays_before(&row.id);
                    }
                    None
                }
                Err(Answer::Orphan) if self.reading.orphans.contains(&row.at.line) => {
                    Some(Rule::OrphanResult)
                }
                Err(Answer::Orphan) => None,
                Err(_) => Some(Rule::SecondResult),
            };
            answers.push(rule.filter(|rule| draft.has(*rule)));
        }
        if !pairs {
            self.hang(row, "");
        }
        let mut at = 0;
        row.sieve(draft, |block, draft| {
            let answer = answers.get(at).copied().flatten();
            at += 1;
            answer.or((draft.has(Rule::EmptyText) && is_blank(block)).then_some(Rule::EmptyText))
        });
    }
}

/// A row that stays.
struct ClaudeRow<'a> {
    at: &'a At,
    json: &'a str,
    fields: &'a Fields<'a>,
    id: String,
    parent: Option<(u64, Span)>,
    content: Option<&'a RawValue>,
}

impl<'a> ClaudeRow<'a> {
    /// The blocks of its content; a text is one.
    fn blocks(&self) -> Vec<&'a RawValue> {
        let Some(content) = self.content else { return Vec::new() };
        match content.get().as_bytes().first() {
            Some(b'[') => serde_json::from_str(content.get()).unwrap_or_default(),
            Some(b'"') => vec![content],
            _ => Vec::new(),
        }
    }

    /// Leaves out the blocks for which `judge` names a rule. A row of which nothing would be left becomes a
    /// note.
    fn sieve(&self, draft: &mut Draft, mut judge: impl FnMut(&RawValue, &Draft) -> Option<Rule>) {
        let blocks = self.blocks();
        let judged: Vec<Option<Rule>> = blocks.iter().map(|block| judge(block, draft)).collect();
        let mut rules: Vec<Rule> = judged.iter().copied().flatten().collect();
        rules.sort_unstable();
        rules.dedup();
        let Some(first) = rules.first().copied() else { return };
        let kept: Vec<&str> = std::iter::zip(&blocks, &judged)
            .filter(|(_, rule)| rule.is_none())
            .map(|(block, _)| block.get())
            .collect();
        for rule in rules {
            draft.tell(rule, Some(self.at), what(rule));
        }
        let place = self.content.and_then(|content| span(self.json, content));
        match place.filter(|_| !kept.is_empty()) {
            Some(place) => {
                draft.splice(self.at, place, format!("[{}]", kept.join(",")));
                if first != Rule::EmptyText {
                    draft.set_aside(self.at);
                }
            }
            None => self.become_note(first, draft),
        }
    }

    fn become_note(&self, rule: Rule, draft: &mut Draft) {
        let shown: Vec<String> = self.blocks().into_iter().map(shown).collect();
        let note = format!("(segno repair: {}) {}", what(rule), shown.join("\n"));
        let members = [
            ("type", quote("system")),
            ("subtype", quote("informational")),
            ("level", quote("warning")),
            ("content", quote(note.trim_end())),
        ];
        draft.splice_all(self.at, set_members(self.json, self.json, &members));
    }
}

fn what(rule: Rule) -> &'static str {
    match rule {
        Rule::UnsignedThinking => "thinking stands here without a signature",
        Rule::SecondResult => "a second result for one call",
        Rule::OrphanResult => "a result whose call is nowhere in the file",
        _ => "a text stands here in which there is nothing",
    }
}

/// What a block shows.
fn shown(block: &RawValue) -> String {
    let Some(fields) = Fields::of(block.get()) else {
        return text(block).unwrap_or_default().into_owned();
    };
    let own = ["text", "thinking"].iter().find_map(|name| fields.text(name));
    let inner = || match fields.get("content") {
        Some(content) if content.get().starts_with('[') => {
            let parts: Vec<&RawValue> = serde_json::from_str(content.get()).unwrap_or_default();
            let texts = parts.into_iter().filter_map(|part| {
                Fields::of(part.get())?.text("text").map(std::borrow::Cow::into_owned)
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        Some(content) => text(content).unwrap_or_default().into_owned(),
        None => String::new(),
    };
    own.map_or_else(inner, std::borrow::Cow::into_owned)
}

/// Whether a row is a piece of a reply.
fn is_reply(fields: &Fields<'_>, kind: &str) -> bool {
    kind == "assistant" && fields.some("message").is_some() && !fields.is_true("isApiErrorMessage")
}

fn is_unsigned(block: &RawValue) -> bool {
    Fields::of(block.get()).is_some_and(|block| {
        block.text("type").as_deref() == Some("thinking")
            && block.text("signature").is_none_or(|signature| signature.is_empty())
    })
}

fn is_blank(block: &RawValue) -> bool {
    if let Some(text) = text(block) {
        return text.trim().is_empty();
    }
    Fields::of(block.get()).is_some_and(|block| {
        block.text("type").as_deref() == Some("text")
            && block.text("text").is_some_and(|text| text.trim().is_empty())
    })
}

/// A result that holds nothing says so.
fn fill(row: &ClaudeRow<'_>, result: &Fields<'_>, draft: &mut Draft) {
    let Some(content) = result.get("content").filter(|_| draft.has(Rule::EmptyText)) else {
        return;
    };
    let parts: Option<Vec<&RawValue>> = serde_json::from_str(content.get()).ok();
    let is_empty = match parts {
        Some(parts) => parts.into_iter().all(is_blank),
        None => text(content).is_some_and(|text| text.is_empty()),
    };
    if is_empty && let Some(place) = span(row.json, content) {
        draft.splice(row.at, place, quote(NO_OUTPUT));
        draft.tell(Rule::EmptyText, Some(row.at), "a result holds nothing");
    }
}

/// What a row says about the session, for one that is put beside it.
fn template(fields: &Fields<'_>) -> Map<String, Value> {
    const SAME: &[&str] = &[
        "timestamp",
        "userType",
        "entrypoint",
        "cwd",
        "sessionId",
        "version",
        "gitBranch",
        "agentId",
        "slug",
    ];
    let same = SAME.iter().filter_map(|name| {
        let value = serde_json::from_str(fields.get(name)?.get()).ok()?;
        Some(((*name).to_owned(), value))
    });
    same.collect()
}

/// What a row holds; our reader looks at less of it.
fn print(fields: &Fields<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for name in ["type", "timestamp", "message", "attachment", "content"] {
        fields.get(name).map(RawValue::get).hash(&mut hasher);
    }
    hasher.finish()
}
