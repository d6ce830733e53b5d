//! What a person or a script sees of a run.
//!
//! Responsible for: events as terminal text and as JSON lines (`docs/protocol/run-events.md`). Must not:
//! decide anything, or show stored text uncleaned.

use crate::costs::SessionCosts;
use crate::error::ExitCode;
use crate::interactive::prompt_lines;
use crate::price::Prices;
use crate::stores::Stores;
use crate::terminal::markdown::Markdown;
use crate::terminal::table::{count, plural};
use crate::terminal::{Screen, Text, Tone, clean, diff};
use segno_model::accounting::Sum;
use segno_model::record::{
    Block, Body, Message, Outcome, RunEnd, StepStatus, Task, ToolCall, ToolMessage,
};
use segno_model::{Record, Seq, Timestamp};
use segno_runtime::{
    CompactionCause, CompactionEvent, Event, Finished, Observer, Progress, RefusedPart, StreamEvent,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

/// How many lines of a running command are shown as they come.
const LIVE_LINES: usize = 12;

/// How many lines of a diff are shown.
const DIFF_LINES: usize = 40;

/// Shows a run as text.
pub struct TextWatch<'a> {
    screen: &'a mut Screen,
    markdown: Markdown,
    /// Whether the line that the cursor is on has something on it.
    in_line: bool,
    thinking: bool,
    live_lines: HashMap<String, usize>,
    /// What it waits for, as it was told; subagents may wait for several things at once.
    paused: BTreeSet<String>,
    /// What was said since the last request, where the last reply is shown elsewhere: whether it is the last
    /// one is known only at the end.
    held: Option<String>,
}

impl<'a> TextWatch<'a> {
    /// Shows on this screen.
    pub fn new(screen: &'a mut Screen) -> Self {
        Self {
            screen,
            markdown: Markdown::default(),
            in_line: false,
            thinking: false,
            live_lines: HashMap::new(),
            paused: BTreeSet::new(),
            held: None,
        }
    }

    /// Shows on this screen everything but the last reply, which is printed elsewhere.
    pub fn beside(screen: &'a mut Screen) -> Self {
        Self { held: Some(String::new()), ..Self::new(screen) }
    }

    /// The run is over, and `text` is its last reply; what was held back is shown if it is something else.
    pub fn end(&mut self, text: &str) {
        if self.held.as_ref().is_some_and(|held| held.trim() == text.trim()) {
            self.held = Some(String::new());
        }
        self.settle();
    }

    /// What was held back is not the last reply.
    fn release(&mut self) {
        let held = self.held.as_mut().map(std::mem::take).unwrap_or_default();
        if !held.is_empty() {
            let shown = self.markdown.push(&held);
            self.show(shown);
        }
    }

    /// Ends what is being streamed, and the line that it is on.
    pub fn settle(&mut self) {
        self.release();
        let rest = std::mem::take(&mut self.markdown).finish();
        self.show(rest);
        if self.in_line {
            self.screen.line(Text::default());
            self.in_line = false;
        }
        self.thinking = false;
        self.screen.flush();
    }

    fn show(&mut self, text: Text) {
        if !text.is_empty() {
            self.in_line = !text.plain().ends_with('\n');
            self.screen.text(text);
            self.screen.flush();
        }
    }

    fn line(&mut self, text: Text) {
        self.settle();
        let width = self.screen.look().columns;
        self.screen.line(text.cut(width));
        self.screen.flush();
    }

    fn stream(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Text(text) => {
                if self.thinking {
                    self.settle();
                }
                if let Some(held) = &mut self.held {
                    held.push_str(text);
                    return;
                }
                let shown = self.markdown.push(text);
                self.show(shown);
            }
            StreamEvent::Thinking(text) => {
                if !self.thinking {
                    self.settle();
                    self.thinking = true;
                }
                self.show(Text::default().with(Tone::Dim, text));
            }
            StreamEvent::ToolCall { .. } | StreamEvent::Arguments(_) => {}
        }
    }

    fn progress(&mut self, call_id: &str, progress: &Progress) {
        let Progress::Output(output) = progress else { return };
        let shown = self.live_lines.entry(call_id.to_owned()).or_default();
        let mut lines = Vec::new();
        for line in output.lines() {
            *shown += 1;
            match *shown {
                n if n <= LIVE_LINES => {
                    lines.push(Text::default().with(Tone::Dim, "  │ ").with(Tone::Dim, line));
                }
                n if n == LIVE_LINES + 1 => lines.push(Text::default().with(Tone::Dim, "  │ …")),
                _ => {}
            }
        }
        for line in lines {
            self.line(line);
        }
    }

    fn recorded(&mut self, record: &Record) {
        match record.body() {
            Body::Message(message) => match &**message {
                Message::Tool(result) => self.result(result),
                // The text of one that asks for nothing may be the last.
                Message::Assistant(reply)
                    if self.held.is_none() || reply.calls().next().is_some() =>
                {
                    self.settle();
                }
                Message::User(user) if user.input_id.is_some() => {
                    let text: String = user.content.iter().map(block_text).collect();
                    self.settle();
                    self.screen.lines(prompt_lines(&text));
                }
                Message::Assistant(_) | Message::User(_) => {}
            },
            Body::Task(task) => self.task(task),
            _ => {}
        }
    }

    fn result(&mut self, result: &ToolMessage) {
        let text: String = result.content.iter().map(block_text).collect();
        if let Some(at) = diff_start(&text) {
            self.settle();
            let width = self.screen.look().columns.saturating_sub(2);
            let lines = diff::show(&text[at..], width, DIFF_LINES);
            let indented = |line| Text::default().with(Tone::Plain, "  ").with_text(line);
            self.screen.lines(lines.into_iter().map(indented));
            return;
        }
        let live = self.live_lines.remove(&result.call_id).is_some();
        let tone = if result.is_error { Tone::Bad } else { Tone::Dim };
        let said = if live && !result.is_error { String::new() } else { summary(result, &text) };
        if !said.is_empty() {
            self.line(Text::default().with(Tone::Dim, "  └ ").with(tone, &clean::line(&said)));
        }
    }

    /// Told once, however often it is tried again.
    fn paused(&mut self, reason: &str) {
        if !self.paused.insert(reason.to_owned()) {
            return;
        }
        self.line(Text::line(Tone::Warning, &format!("waiting: {reason}")));
        self.line(Text::line(
            Tone::Dim,
            "  It goes on by itself when there is room; Ctrl-C stops it.",
        ));
    }

    fn compaction(&mut self, event: CompactionEvent<'_>) {
        let (tone, text) = match event {
            CompactionEvent::Started { cause: CompactionCause::Person } => return,
            CompactionEvent::Started { cause: CompactionCause::Threshold } => {
                (Tone::Dim, "the context is nearly full; summarising what lies back".to_owned())
            }
            CompactionEvent::Started { cause: CompactionCause::TooLong } => {
                (Tone::Warning, "too long for the model; summarising what lies back".to_owned())
            }
            CompactionEvent::Done { tokens_before, tokens_after } => (
                Tone::Good,
                format!(
                    "compacted: about {} tokens before, {} now",
                    count(tokens_before),
                    count(tokens_after)
                ),
            ),
            CompactionEvent::Failed { reason } => {
                (Tone::Warning, format!("not compacted: {reason}; the context is as before"))
            }
            CompactionEvent::Local { reason } => (
                Tone::Dim,
                format!(
                    "the provider keeps no state of its own ({reason}); a summary alone is kept"
                ),
            ),
            CompactionEvent::Pruned { results, tokens } => (
                Tone::Dim,
                format!(
                    "{} left out of the context, about {} tokens; the log keeps them",
                    plural(results, "old output"),
                    count(tokens)
                ),
            ),
            CompactionEvent::GivenUp { why } => (
                Tone::Warning,
                format!("the context is nearly full, and {why}; /compact tries again"),
            ),
        };
        self.line(Text::line(tone, &text));
    }

    fn task(&mut self, task: &Task) {
        self.settle();
        for step in &task.steps {
            let (mark, tone) = match step.status {
                StepStatus::Pending => ("[ ]", Tone::Plain),
                StepStatus::InProgress => ("[~]", Tone::Strong),
                StepStatus::Done => ("[x]", Tone::Good),
                StepStatus::Dropped => ("[-]", Tone::Dim),
            };
            let text = clean::line(&step.text);
            self.line(Text::line(tone, &format!("{mark} {text}")));
        }
    }
}

impl Observer for TextWatch<'_> {
    fn event(&mut self, event: Event<'_>) {
        if !matches!(event, Event::Paused { .. }) {
            self.paused.clear();
        }
        match event {
            Event::Recorded(record) => self.recorded(record),
            Event::Asking { .. } => self.release(),
            Event::Stream(event) => self.stream(&event),
            Event::Retry { reason, wait_ms } => {
                let seconds = wait_ms.div_ceil(1000);
                let text = format!("{reason}; trying again in {seconds} s");
                self.line(Text::line(Tone::Warning, &text));
            }
            Event::LeftOut { seqs, part, reason } => {
                self.line(Text::line(Tone::Warning, &left_out(seqs, part, reason)));
            }
            Event::ToolStarted(call) | Event::ToolNotRun(call) => self.line(call_line(call)),
            Event::Reattached { tool, .. } => {
                let text = format!("a `{tool}` call still runs; waiting for its end");
                self.line(Text::line(Tone::Warning, &text));
            }
            Event::Answered { allowed, reason, .. } => {
                let said = if allowed { "allowed" } else { "not allowed" };
                let why = reason.map_or_else(String::new, |why| format!(": {}", clean::line(why)));
                self.line(Text::line(Tone::Dim, &format!("  → {said} from elsewhere{why}")));
            }
            Event::ToolProgress { call_id, progress } => self.progress(call_id, &progress),
            Event::Compaction(event) => self.compaction(event),
            Event::Paused { reason } => {
                self.paused(reason);
            }
        }
    }
}

/// What was refused, and what is done about it.
#[must_use]
pub(crate) fn left_out(seqs: &[Seq], part: RefusedPart, reason: &str) -> String {
    let what = match (part, seqs) {
        (RefusedPart::AnyImage, _) | (_, []) => "images are named instead of sent".to_owned(),
        (_, [seq]) => format!("{} of record {seq} is left out", part_name(part)),
        (_, many) => format!("{} of {} records is left out", part_name(part), many.len()),
    };
    let back = match seqs {
        [] => String::new(),
        [seq, ..] => format!("; /context restore {seq} takes it back"),
    };
    format!("{reason}; {what}, and it is asked again{back}")
}

fn part_name(part: RefusedPart) -> &'static str {
    match part {
        RefusedPart::Thinking => "reasoning",
        RefusedPart::Images | RefusedPart::AnyImage => "images",
        RefusedPart::Other => "content",
    }
}

/// A tool call in one line: its name and what it is about.
#[must_use]
pub fn call_line(call: &ToolCall) -> Text {
    Text::default()
        .with(Tone::Accent, "● ")
        .with(Tone::Accent, &clean::line(&call.name))
        .with(Tone::Plain, " ")
        .with(Tone::Plain, &clean::reveal(&subject(call)))
}

/// The argument that says what a call is about.
fn subject(call: &ToolCall) -> String {
    let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else {
        return call.arguments.clone();
    };
    let names = ["command", "path", "pattern", "file_path"];
    let named = names.iter().filter_map(|name| arguments.get(*name)).filter_map(Value::as_str);
    named.take(2).collect::<Vec<_>>().join("  ")
}

fn block_text(block: &Block) -> String {
    match block {
        Block::Text { text } => text.head().to_owned(),
        Block::Image { media_type, .. } => format!("[{media_type}]"),
        Block::Unknown => String::new(),
    }
}

/// Where a unified diff begins in a text.
fn diff_start(text: &str) -> Option<usize> {
    if text.starts_with("--- ") { Some(0) } else { text.find("\n--- ").map(|at| at + 1) }
        .filter(|at| text[*at..].contains("\n+++ "))
}

fn summary(result: &ToolMessage, text: &str) -> String {
    // How a command ended stands behind its output, and says nothing new when it ended well.
    let body = text.trim_end().strip_suffix("[exit code 0]").unwrap_or(text);
    let lines = body.lines().count();
    match result.outcome {
        Outcome::Done if body.trim() == "(no output)" => "no output".to_owned(),
        Outcome::Done if lines > 1 => format!("{lines} lines"),
        Outcome::Failed | Outcome::Stopped => text.lines().last().unwrap_or_default().to_owned(),
        Outcome::Unknown => format!("{}: {text}", result.name),
        _ => text.lines().next().unwrap_or_default().to_owned(),
    }
}

/// How a run ended, when there is more to say than that it is over.
#[must_use]
pub fn end_sentence(finished: &Finished) -> Option<Text> {
    let reason = finished.reason.as_deref();
    let said = |what: &str| match reason {
        Some(reason) => format!("{what}: {reason}"),
        None => what.to_owned(),
    };
    match finished.end {
        RunEnd::Completed => reason.map(|r| Text::line(Tone::Warning, r)),
        RunEnd::Failed => Some(Text::line(Tone::Bad, &said("failed"))),
        RunEnd::Stopped => Some(Text::line(Tone::Warning, "stopped")),
        RunEnd::Suspended => Some(Text::line(Tone::Warning, &said("suspended"))),
        RunEnd::Exhausted => Some(Text::line(Tone::Warning, &said("ended"))),
    }
}

/// Shows a run as JSON lines.
pub struct JsonWatch<'a> {
    screen: &'a mut Screen,
    /// What its records say of costs, and when the first of them was written.
    costs: SessionCosts,
    since: Option<Timestamp>,
}

impl<'a> JsonWatch<'a> {
    /// Shows on this screen; the first line names the session.
    pub fn new(screen: &'a mut Screen, session: &str, model: &str) -> Self {
        screen.json(&json!({"event": "session", "version": 1, "session": session, "model": model}));
        screen.flush();
        Self { screen, costs: SessionCosts::default(), since: None }
    }

    /// What the run has cost so far, its subagents included.
    #[must_use]
    pub fn cost(&self, stores: &Stores, prices: &Prices) -> Sum {
        self.since.map_or_else(Sum::default, |at| self.costs.total_since(at, stores, prices))
    }

    /// The last line.
    pub fn end(self, finished: &Finished, exit: ExitCode, resume: Option<&str>, cost: &Sum) {
        self.screen.json(&json!({
            "event": "end",
            "end": finished.end,
            "reason": finished.reason,
            "text": finished.text,
            "exit": exit as u8,
            "resume": resume,
            "cost": cost,
        }));
        self.screen.flush();
    }

    fn write(&mut self, value: &Value) {
        self.screen.json(value);
        self.screen.flush();
    }
}

impl Observer for JsonWatch<'_> {
    fn event(&mut self, event: Event<'_>) {
        let value = match event {
            Event::Recorded(record) => return self.record(record),
            Event::Asking { attempt } => json!({"event": "asking", "attempt": attempt}),
            Event::Stream(StreamEvent::Text(text)) => json!({"event": "text", "text": text}),
            Event::Stream(StreamEvent::Thinking(text)) => {
                json!({"event": "thinking", "text": text})
            }
            Event::Stream(StreamEvent::ToolCall { .. } | StreamEvent::Arguments(_)) => return,
            Event::Retry { reason, wait_ms } => {
                json!({"event": "retry", "reason": reason, "wait_ms": wait_ms})
            }
            Event::LeftOut { seqs, part, reason } => {
                json!({"event": "left_out", "seqs": seqs, "part": part_name(part), "reason": reason})
            }
            Event::ToolStarted(call) => {
                json!({"event": "tool_started", "call_id": call.id, "tool": call.name,
                    "arguments": call.arguments})
            }
            Event::ToolNotRun(call) => {
                json!({"event": "tool_not_run", "call_id": call.id, "tool": call.name,
                    "arguments": call.arguments})
            }
            Event::Reattached { call_id, tool } => {
                json!({"event": "tool_reattached", "call_id": call_id, "tool": tool})
            }
            Event::Answered { call_id, allowed, reason } => {
                json!({"event": "answered", "call_id": call_id, "allowed": allowed, "reason": reason})
            }
            Event::ToolProgress { call_id, progress: Progress::Output(text) } => {
                json!({"event": "tool_output", "call_id": call_id, "text": text})
            }
            Event::ToolProgress { progress: Progress::Paused(reason), .. } => {
                json!({"event": "paused", "reason": reason})
            }
            Event::Compaction(event) => compaction_json(event),
            Event::Paused { reason } => json!({"event": "paused", "reason": reason}),
        };
        self.write(&value);
    }
}

fn compaction_json(event: CompactionEvent<'_>) -> Value {
    match event {
        CompactionEvent::Started { cause } => {
            json!({"event": "compaction_started", "cause": cause.word()})
        }
        CompactionEvent::Done { tokens_before, tokens_after } => json!({
            "event": "compaction_done", "tokens_before": tokens_before, "tokens_after": tokens_after,
        }),
        CompactionEvent::Failed { reason } => {
            json!({"event": "compaction_failed", "reason": reason})
        }
        CompactionEvent::Local { reason } => json!({"event": "compaction_local", "reason": reason}),
        CompactionEvent::Pruned { results, tokens } => {
            json!({"event": "pruned", "results": results, "tokens": tokens})
        }
        CompactionEvent::GivenUp { why } => json!({"event": "compaction_given_up", "reason": why}),
    }
}

impl JsonWatch<'_> {
    /// A record's own line, as it is on disk; what strict readers refuse in it is made readable.
    fn record(&mut self, record: &Record) {
        #[derive(serde::Serialize)]
        struct Line<'a> {
            event: &'static str,
            seq: u64,
            record: &'a RawValue,
        }
        self.costs.accounts.apply(record);
        self.since.get_or_insert(record.envelope.at);
        let line = segno_model::line::readable_json(&record.line);
        let Ok(raw) = serde_json::from_str::<&RawValue>(&line) else { return };
        self.screen.json(&Line { event: "record", seq: record.seq(), record: raw });
        self.screen.flush();
    }
}
