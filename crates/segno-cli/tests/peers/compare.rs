//! What was sent and what our view holds, in the same terms, and how they differ.
//!
//! Responsible for: texts, calls and results in order, without what depends on the wire (ids, reasoning, white
//! space, how texts are joined) and without what an agent adds to every request. Must not: know a format.

use segno_model::context::{Context, ContextMessage};
use segno_model::record::{AssistantBlock, Block};
use segno_testkit::scripted_model::{Piece, Said, Seen, Turn};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use similar::{Algorithm, DiffOp, capture_diff_slices};

/// One thing in a context.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Item {
    /// `user`, `assistant`, `call` or `result`.
    pub(crate) who: String,
    pub(crate) text: String,
}

/// What agents put into every request by themselves.
const ADDED: &[&str] = &[
    "<system-reminder>",
    "<environment_context>",
    "<session_context>",
    "<permissions instructions>",
    "<skills_instructions>",
    "<collaboration_mode>",
    "<model_switch>",
    "You are a coding agent running in the Codex CLI",
];

/// What Claude Code and Gemini CLI put where a reply is missing.
const SAYS_NOTHING: &[&str] =
    &["No response requested.", "[The previous response was interrupted before it completed.]"];

/// What Segno puts where a prompt is missing: between two replies, and at the end, as long as nobody has asked
/// anything yet.
const NOTHING_SAID: &str = "(Segno: nothing was said here";

fn item(who: &str, text: &str) -> Option<Item> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let added = match who {
        "user" => ADDED.iter().any(|begin| text.starts_with(begin)),
        "assistant" => SAYS_NOTHING.contains(&&*text),
        _ => false,
    };
    (!text.is_empty() && !added).then(|| Item { who: who.to_owned(), text })
}

fn call(name: &str, arguments: &str) -> Option<Item> {
    let arguments = match serde_json::from_str::<Value>(arguments) {
        Ok(value) => value.to_string(),
        Err(_) => arguments.to_owned(),
    };
    item("call", &format!("{name} {arguments}"))
}

/// Texts of one side in a row are one: agents and wires cut them differently.
fn joined(items: impl IntoIterator<Item = Item>) -> Vec<Item> {
    let mut all: Vec<Item> = Vec::new();
    for item in items {
        match all.last_mut() {
            Some(last) if last.who == item.who && matches!(&*item.who, "user" | "assistant") => {
                last.text = format!("{} {}", last.text, item.text);
            }
            _ => all.push(item),
        }
    }
    all
}

/// What was sent, in our terms.
pub(crate) fn sent(seen: &Seen) -> Vec<Item> {
    let mut items = Vec::new();
    for turn in &seen.turns {
        match turn {
            Turn::User(pieces) => items.extend(pieces.iter().filter_map(|piece| match piece {
                Piece::Text(text) => item("user", text),
                Piece::Image { .. } => item("user", "[image]"),
            })),
            Turn::Assistant(said) => items.extend(said.iter().filter_map(|part| match part {
                Said::Text { text, .. } => item("assistant", text),
                Said::Call { name, arguments, .. } => call(name, arguments),
                Said::Thinking { .. } => None,
            })),
            Turn::Results(results) => {
                for result in results {
                    items.extend(item("result", &format!("= {}", result.text)));
                    items.extend((0..result.images).filter_map(|_| item("result", "[image]")));
                }
            }
        }
    }
    joined(items)
}

/// Our view, in the same terms.
pub(crate) fn view(context: &Context) -> Vec<Item> {
    let blocks = |who: &str, blocks: &[Block]| {
        let one = |block: &Block| match block {
            Block::Text { text } => item(who, text.head()),
            Block::Image { .. } => item(who, "[image]"),
            Block::Unknown => None,
        };
        blocks.iter().filter_map(one).collect::<Vec<_>>()
    };
    let mut items = Vec::new();
    for message in &context.messages {
        match message {
            ContextMessage::User { content, .. } => items.extend(blocks("user", content)),
            ContextMessage::Assistant(turn) => {
                items.extend(turn.content.iter().filter_map(|block| match block {
                    AssistantBlock::Text { text } => item("assistant", text),
                    AssistantBlock::ToolCall(c) => call(&c.name, &c.arguments),
                    _ => None,
                }));
            }
            ContextMessage::Results(results) => {
                for result in results {
                    let texts = blocks("result", &result.content);
                    let (images, texts): (Vec<_>, Vec<_>) =
                        texts.into_iter().partition(|item| item.text == "[image]");
                    let text: Vec<String> = texts.into_iter().map(|item| item.text).collect();
                    items.extend(item("result", &format!("= {}", text.join(" "))));
                    items.extend(images);
                }
            }
            // Nobody but its maker can read it.
            ContextMessage::State(_) => {}
        }
    }
    items.retain(|item| !item.text.starts_with(NOTHING_SAID));
    joined(items)
}

/// How what was sent differs from our view.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// In our view, and not sent.
    pub(crate) lacking: Vec<Item>,
    /// Sent, and not in our view.
    pub(crate) added: Vec<Item>,
    /// The same on both sides.
    pub(crate) same: usize,
    /// The same in other words.
    pub(crate) reworded: usize,
}

/// How agents say that a result is not there.
const LOST: &[&str] = &[
    "= aborted",
    "= No result provided",
    "= [Tool call interrupted",
    "= Tool call was interrupted",
    "= [Tool execution was interrupted",
    "= Tool execution aborted",
    "= Tool execution was interrupted",
    "= The outcome of this call is unknown",
];

/// What Segno says of content that it does not know, and what a repair writes in its place, with the content.
const NOT_KNOWN: &str = "(content of a kind that this version of Segno cannot send)";
const NOT_KNOWN_REPAIRED: &str = "(a piece of a kind that is not known here: ";

/// OpenCode asks this, and the summary is the answer.
const ASKS_FOR_SUMMARY: &str = "What did we do so far?";

/// A summary in our view, and what people said behind it.
fn summary_of(text: &str) -> Option<(&str, &str)> {
    ["session_history", "other_branch"].into_iter().find_map(|tag| {
        let inside = text.strip_prefix('<')?.strip_prefix(tag)?.split_once('>')?.1;
        let (summary, beside) = inside.split_once(&format!("</{tag}>"))?;
        Some((summary.trim(), beside))
    })
}

/// Whether both say that something of an unknown kind stands here, and the same around it.
fn is_unknown_piece(ours: &str, theirs: &str) -> bool {
    ours.split_once(NOT_KNOWN).is_some_and(|(before, behind)| {
        let theirs = theirs.strip_prefix(before).and_then(|t| t.strip_prefix(NOT_KNOWN_REPAIRED));
        theirs.is_some_and(|theirs| theirs.ends_with(&format!("){behind}")))
    })
}

/// Whether two things say the same in other words: what stands around a summary, in the place of a lost or
/// empty result or of an unknown piece, or a call by the name that the same tool has in another agent.
fn is_reworded(ours: &Item, theirs: &Item) -> bool {
    match (&*ours.who, &*theirs.who) {
        ("result", "result") => {
            let lost = ours.text.starts_with("= The outcome of this call is unknown")
                && LOST.iter().any(|words| theirs.text.starts_with(words));
            lost || (ours.text == "= (no output)" && theirs.text == "=")
        }
        ("user", "user") if is_unknown_piece(&ours.text, &theirs.text) => true,
        ("call", "call") => {
            let values = values_of(&ours.text);
            !values.is_empty() && values == values_of(&theirs.text)
        }
        ("user", "user" | "assistant") => {
            summary_of(&ours.text).is_some_and(|(summary, _)| theirs.text.contains(summary))
        }
        _ => false,
    }
}

/// What a call says, whatever its tool and its arguments are called.
fn values_of(call: &str) -> Vec<String> {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => members.values().for_each(|value| collect(value, found)),
            Value::Array(items) => items.iter().for_each(|value| collect(value, found)),
            other => found.push(other.to_string()),
        }
    }
    let mut found = Vec::new();
    let arguments = call.split_once(' ').map_or("", |(_, arguments)| arguments);
    if let Ok(value) = serde_json::from_str(arguments) {
        collect(&value, &mut found);
    }
    found.sort();
    found
}

/// Whether a stretch that differs says the same in other words. What people said beside a summary is joined
/// with it on both sides, in any order.
fn all_reworded(ours: &[Item], theirs: &[Item]) -> bool {
    let said: Vec<&str> = theirs.iter().map(|item| item.text.as_str()).collect();
    let said = said.join(" ");
    let beside = ours.iter().filter_map(|item| summary_of(&item.text));
    let mut words = beside.flat_map(|(_, beside)| beside.split_whitespace());
    let is_there = |item: &Item| {
        // OpenCode's reply after a summary is joined with it.
        let behind = item.who == "assistant" && said.starts_with(ASKS_FOR_SUMMARY);
        theirs.iter().any(|theirs| is_reworded(item, theirs))
            || (behind && said.contains(&item.text))
    };
    // The prompt behind a summary is joined with it on our side only.
    let is_beside = |theirs: &Item| {
        let mut summaries = ours.iter().filter_map(|item| summary_of(&item.text));
        theirs.who == "user" && summaries.any(|(_, beside)| beside.ends_with(&theirs.text))
    };
    ours.iter().all(is_there)
        && theirs.iter().all(|theirs| {
            theirs.text.starts_with(ASKS_FOR_SUMMARY)
                || is_beside(theirs)
                || ours.iter().any(|ours| is_reworded(ours, theirs))
        })
        && words.all(|word| said.contains(word))
}

/// Compares; the last thing sent is the new prompt.
pub(crate) fn differ(ours: &[Item], theirs: &[Item], prompt: &str) -> Difference {
    let mut theirs = theirs.to_vec();
    if let Some(last) = theirs.last_mut().filter(|last| last.who == "user") {
        let bare = last.text.replace(&format!("\"{prompt}\""), prompt);
        last.text = bare.strip_suffix(prompt).unwrap_or(&bare).trim().to_owned();
    }
    theirs.retain(|item| !item.text.is_empty());
    let mut difference = Difference::default();
    for op in capture_diff_slices(Algorithm::Myers, ours, &theirs) {
        match op {
            DiffOp::Equal { len, .. } => difference.same += len,
            op => {
                let (ours, theirs) = (&ours[op.old_range()], &theirs[op.new_range()]);
                if all_reworded(ours, theirs) {
                    difference.reworded += ours.len();
                } else {
                    difference.lacking.extend_from_slice(ours);
                    difference.added.extend_from_slice(theirs);
                }
            }
        }
    }
    difference
}

impl Difference {
    /// Whether nothing is missing and nothing is there besides.
    pub(crate) fn is_equal(&self) -> bool {
        self.lacking.is_empty() && self.added.is_empty()
    }

    /// In a few words.
    pub(crate) fn verdict(&self) -> String {
        if self.is_equal() {
            let other = match self.reworded {
                0 => String::new(),
                n => format!(" and {n} in other words"),
            };
            return format!("equal ({} things{other})", self.same);
        }
        let mut parts = vec![format!("differs: {} equal", self.same)];
        for (what, items) in [("not sent", &self.lacking), ("sent besides", &self.added)] {
            if let Some(first) = items.first() {
                let more = if items.len() > 1 { ", …" } else { "" };
                parts.push(format!(
                    "{} {what} ({}: “{}”{more})",
                    items.len(),
                    first.who,
                    brief(&first.text)
                ));
            }
        }
        parts.join("; ")
    }
}

/// The beginning of a text, fit for a table.
pub(crate) fn brief(text: &str) -> String {
    let line: String = text.chars().filter(|c| !c.is_control()).take(70).collect();
    line.replace('|', "/").replace('<', "‹").replace('>', "›").replace('`', "'")
}
