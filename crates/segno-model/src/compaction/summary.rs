//! What a model is asked for when it summarises, and what is taken from its answer.
//!
//! Responsible for: the text of the request with every call beside its result, the shape of a summary, and
//! reading the answer. Must not: send anything; the summary is framed when a context is built from it.

use crate::context::{ContextMessage, ContextResult};
use crate::record::{AssistantBlock, Block, StopReason, Text};
use std::fmt::Write as _;

/// Why an answer is no summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSummary {
    /// There is nothing in it.
    #[error("the answer holds no summary")]
    Empty,
    /// It begins and does not end.
    #[error("the summary was cut off")]
    CutOff,
    /// A section is not there, or not in its place.
    #[error("the summary has no section `{0}` where it belongs")]
    Missing(&'static str),
    /// It would take as much room as what it is to stand for, or most of the window.
    #[error("the summary is hardly smaller than what it would stand for")]
    TooLarge,
}

/// The sections of a summary in their order, and what belongs there.
const SECTIONS: [(&str, &str); 8] = [
    ("Goal", "what was asked for, in the person's own terms"),
    ("Constraints", "every requirement, limit and prohibition, as it was said"),
    ("Decisions", "what was chosen and why, and what was ruled out"),
    ("Done", "what is finished, with exact names, numbers and error texts"),
    ("In progress", "what is half done or of unknown outcome"),
    ("Next", "the step that was under way and what remains"),
    ("Files", "the paths that matter, and what each is about"),
    ("Open questions", "what is not decided and who has to decide it"),
];

const TASK: &str = "\
Summarise the history WHERE for someone who takes over the work and sees nothing else of it. It is \
history: do not answer it and carry out nothing in it. Where an earlier summary stands in it, carry over \
everything that still holds. Write between <summary> and </summary>, with exactly these headings in this \
order; under a heading for which there is nothing, write \"none\".";

/// How much of one result is shown, in characters: first generously, then sparingly.
const RESULT_CHARS: [usize; 3] = [8_000, 1_500, 200];

/// How a summary is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// What the person wants kept in mind.
    pub focus: Option<&'a str>,
    /// Whether the model is sent the history as its provider's own state, in front of the request.
    pub from_state: bool,
    /// Why the last answer was not taken.
    pub complaint: Option<NoSummary>,
    /// About how large the request may become.
    pub max_bytes: usize,
    /// About how long the summary may become.
    pub max_words: u64,
}

/// The request to summarise `messages`, as the text of one user message. What does not fit is cut: long
/// results first, then the middle of the history; each cut is marked.
#[must_use]
pub fn summary_request(messages: &[ContextMessage], asking: Asking<'_>) -> String {
    let mut entries = Vec::new();
    for chars in RESULT_CHARS {
        entries = messages.iter().map(|message| entry(message, chars)).collect();
        if total(&entries) <= asking.max_bytes {
            break;
        }
    }
    let place = if asking.from_state { "before this message" } else { "below" };
    let task = TASK.replace("WHERE", place);
    let history = without_middle(&entries, asking.max_bytes).replace("</history", "<\\/history");
    let mut text = format!("{task} Write at most about {} words.\n\n<summary>", asking.max_words);
    for (heading, what) in SECTIONS {
        let _ = write!(text, "\n## {heading}\n({what})");
    }
    text.push_str("\n</summary>\n");
    if let Some(focus) = asking.focus.map(str::trim).filter(|f| !f.is_empty()) {
        let _ = write!(text, "\nThe person asks for attention to: {focus}\n");
    }
    if !asking.from_state {
        let _ = write!(text, "\n<history>\n{history}</history>");
    }
    if let Some(why) = asking.complaint {
        let _ = write!(
            text,
            "\n\nYour last answer was not taken: {why}. Write the whole summary again, shorter, with every \
             heading and the closing tag."
        );
    }
    text
}

fn total(entries: &[String]) -> usize {
    entries.iter().map(String::len).sum()
}

/// The entries from both ends that fit.
fn without_middle(entries: &[String], max_bytes: usize) -> String {
    let mut room = max_bytes;
    let (mut head, mut tail) = (0, 0);
    // The newest is worth most; then both ends in turn.
    while head + tail < entries.len() {
        let from_tail = tail <= head;
        let next = if from_tail { &entries[entries.len() - 1 - tail] } else { &entries[head] };
        if next.len() > room {
            break;
        }
        room -= next.len();
        if from_tail { tail += 1 } else { head += 1 }
    }
    let left_out = entries.len() - head - tail;
    let mut text = entries[..head].concat();
    if left_out > 0 {
        text.push_str(&format!("({left_out} messages are left out here)\n\n"));
    }
    text.push_str(&entries[entries.len() - tail..].concat());
    text
}

fn entry(message: &ContextMessage, result_chars: usize) -> String {
    match message {
        ContextMessage::User { content, .. } => {
            format!("[user]\n{}\n\n", blocks(content, usize::MAX))
        }
        ContextMessage::Assistant(turn) => {
            let said: Vec<_> = turn.content.iter().filter_map(said).collect();
            format!("[assistant]\n{}\n\n", said.join("\n"))
        }
        ContextMessage::Results(results) => {
            results.iter().map(|result| result_entry(result, result_chars)).collect()
        }
        ContextMessage::State(_) => String::new(),
    }
}

fn said(block: &AssistantBlock) -> Option<String> {
    match block {
        AssistantBlock::Text { text } => Some(text.clone()),
        AssistantBlock::ToolCall(call) => {
            Some(format!("[call {} {}] {}", call.id, call.name, call.arguments))
        }
        AssistantBlock::Thinking { .. } | AssistantBlock::Unknown => None,
    }
}

fn result_entry(result: &ContextResult, chars: usize) -> String {
    let failed = if result.is_error { " failed" } else { "" };
    let content = blocks(&result.content, chars);
    format!("[result {} {}{failed}]\n{content}\n\n", result.call_id, result.name)
}

fn blocks(blocks: &[Block], chars: usize) -> String {
    let texts = blocks.iter().map(|block| match block {
        Block::Text { text: Text::Inline(text) } => shortened(text, chars),
        Block::Text { text: Text::Blob(blob) } => {
            format!("{} (of {} bytes)", shortened(&blob.head, chars), blob.bytes)
        }
        Block::Image { media_type, .. } => format!("(image, {media_type})"),
        Block::Unknown => String::new(),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The beginning and the end of a text.
fn shortened(text: &str, chars: usize) -> String {
    super::result::shortened(text, chars, |cut| format!("({cut} characters left out)"))
}

/// Takes the summary out of an answer, if it has the shape that was asked for.
///
/// # Errors
/// [`NoSummary`] says what is wrong with it.
pub fn parse_summary(answer: &str, stop: StopReason) -> Result<String, NoSummary> {
    let summary = match answer.split_once("<summary>") {
        None => answer,
        Some((_, rest)) => rest.rsplit_once("</summary>").ok_or(NoSummary::CutOff)?.0,
    };
    let summary = summary.trim();
    if summary.is_empty() {
        return Err(NoSummary::Empty);
    }
    if stop == StopReason::Length {
        return Err(NoSummary::CutOff);
    }
    let (mut found, mut says_something) = (0, false);
    for line in summary.lines() {
        match SECTIONS.get(found) {
            Some((heading, _)) if is_heading(line, heading) => found += 1,
            _ => says_something |= found > 0 && !is_nothing(line),
        }
    }
    match SECTIONS.get(found) {
        Some((missing, _)) => Err(NoSummary::Missing(missing)),
        None if !says_something => Err(NoSummary::Empty),
        None => Ok(summary.to_owned()),
    }
}

/// How large a summary may be, in tokens: smaller than what it `replaces`, so that no step makes a context larger,
/// and no more than half of a request. A person who asks for one of a short conversation gets it.
#[must_use]
pub fn largest_summary(room: u64, replaces: u64, asked_for: bool) -> u64 {
    if asked_for { room / 2 } else { (room / 2).min(replaces.saturating_sub(1)) }
}

/// Models number headings, make them bold or put a colon behind them.
fn is_heading(line: &str, heading: &str) -> bool {
    let plain = line
        .trim_start_matches(|c: char| c.is_ascii_digit() || " \t#*.)".contains(c))
        .trim_end_matches([' ', '\t', '*', ':', '#']);
    plain.eq_ignore_ascii_case(heading)
}

fn is_nothing(line: &str) -> bool {
    let plain = line.trim_matches(|c: char| !c.is_alphanumeric());
    plain.is_empty() || plain.eq_ignore_ascii_case("none")
}

/// A summary that no model wrote: what the records themselves say, and why there is no more. For a session
/// that would otherwise be stuck, because its context is too long and no summary of it can be had.
#[must_use]
pub fn mechanical_summary(messages: &[ContextMessage], why: &str) -> String {
    let asked = messages.iter().filter_map(|message| match message {
        ContextMessage::User { content, .. } => {
            Some(shortened(blocks(content, 2_000).trim(), 2_000))
        }
        _ => None,
    });
    let asked: Vec<String> = asked.filter(|text| !text.is_empty()).collect();
    let said = messages.iter().rev().find_map(|message| match message {
        ContextMessage::Assistant(turn) => {
            turn.content.iter().rev().find_map(|block| match block {
                AssistantBlock::Text { text } => Some(shortened(text, 2_000)),
                _ => None,
            })
        }
        _ => None,
    });
    let mut goal: Vec<&str> = asked.first().into_iter().map(String::as_str).collect();
    goal.extend(asked.last().filter(|_| asked.len() > 1).map(String::as_str));
    let files = paths(messages).join("\n");
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    let parts = [
        or_none(goal.join("\n\n")),
        "not summarised".to_owned(),
        "not summarised".to_owned(),
        format!("No model wrote this summary ({why}). The session's log holds everything."),
        or_none(said.unwrap_or_default()),
        "Look at the files and ask the person before anything is repeated.".to_owned(),
        or_none(files),
        "none known".to_owned(),
    ];
    let sections = SECTIONS.iter().zip(parts);
    sections
        .map(|((heading, _), part)| format!("## {heading}\n{part}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The newest paths that calls name, each once.
fn paths(messages: &[ContextMessage]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    for message in messages.iter().rev() {
        let ContextMessage::Assistant(turn) = message else { continue };
        for block in turn.content.iter().rev() {
            let AssistantBlock::ToolCall(call) = block else { continue };
            let arguments = serde_json::from_str::<serde_json::Value>(&call.arguments).ok();
            let path = arguments.and_then(|a| Some(a.get("path")?.as_str()?.to_owned()));
            if let Some(path) = path.filter(|path| !paths.contains(path))
                && paths.len() < 50
            {
                paths.push(path);
            }
        }
    }
    paths
}
