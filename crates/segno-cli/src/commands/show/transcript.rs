//! What was said, in order.
//!
//! Responsible for: the current branch as a person reads it, and as JSON. Must not: cut what people or
//! the model said; only results are cut.

use super::{heading, unsent};
use crate::history::{History, as_json, blocks_text, model_word, stored_text};
use crate::terminal::markdown::Markdown;
use crate::terminal::table::count;
use crate::terminal::{Screen, Text, Tone, clean, diff};
use segno_model::child::parent_of;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Body, Child, ChildState, Compaction, Message, Outcome, Run,
    RunEnd, RunState, ToolMessage, UserMessage,
};
use segno_model::tree::Tree;
use segno_model::{Record, Seq};
use segno_store::foreign::failure;
use std::collections::{BTreeMap, HashSet};

/// Over what an agent told in the place of a reply.
pub(crate) const FAILURE: &str = "error instead of a reply";
/// Lines of a result that are shown.
const RESULT_LINES: usize = 10;
/// Lines of a diff that are shown.
const DIFF_LINES: usize = 40;

/// How many records are shown before and behind the one that was asked for.
const AROUND: u64 = 6;

/// Prints the transcript of the current branch, or what stands around one record, on whatever branch.
/// `renamed` are children by the ids that the log has for them, where theirs are others.
pub(super) fn show(
    history: &History,
    renamed: &BTreeMap<String, String>,
    (at, json): (Option<Seq>, bool),
    screen: &mut Screen,
) {
    let told = match at {
        Some(at) => around(history, at),
        None => told(history),
    };
    if json {
        let records: Vec<_> = told.iter().filter_map(|record| as_json(record)).collect();
        screen.json(&serde_json::json!({
            "version": 1,
            "id": history.id,
            "name": history.state.in_force.name,
            "parent": history.header().and_then(parent_of),
            "project": history.header().map(|header| &header.project),
            "records": records,
            "context_edits": history.state.in_force.context_edits.keys().collect::<Vec<_>>(),
            "findings": history.findings,
        }));
        return;
    }
    screen.lines(heading(history));
    let columns = screen.look().columns;
    let unsent = unsent::of_log(&history.records);
    for record in told {
        if screen.is_gone() {
            return;
        }
        let lines = match record.body() {
            Body::Child(child) => {
                let id = renamed.get(&child.child).unwrap_or(&child.child);
                child_line(child, id).into_iter().collect()
            }
            _ => record_lines(record, columns),
        };
        if !lines.is_empty() {
            screen.line("");
            screen.lines(lines);
            screen.lines(unsent.get(&record.seq()).map(|why| unsent_line(why)));
            screen.lines(edited(history, record.seq()));
        }
    }
}

/// Behind a result that is not sent.
pub(super) fn unsent_line(why: &str) -> Text {
    Text::line(Tone::Warning, &format!("({why})"))
}

/// What a record says and the model is not sent, or what it does not say any more.
fn edited(history: &History, seq: Seq) -> Option<Text> {
    if history.record(seq).is_some_and(Record::is_erased) {
        return Some(Text::line(Tone::Warning, "(what stood here was erased for good)"));
    }
    let at = history.state.in_force.context_edits.get(&seq)?;
    let Body::ContextEdit(edit) = history.record(at.seq)?.body() else { return None };
    let text = match edit.edit.as_str() {
        "replace" => {
            format!("(for the model, this stands in its place: {})", blocks_text(&edit.content))
        }
        _ => "(left out for the model)".to_owned(),
    };
    Some(Text::line(Tone::Warning, &clean::line(&text)))
}

/// Whether there is anything to show at that number: a record, or one nearby where it is damaged.
pub(super) fn is_there(history: &History, at: Seq) -> bool {
    let last = history.records.last().map_or(0, Record::seq);
    at <= last && !around(history, at).is_empty()
}

fn around(history: &History, at: Seq) -> Vec<&Record> {
    let near = |record: &&Record| record.seq().abs_diff(at) <= AROUND;
    history.records.iter().filter(near).filter(|r| r.is_node() || is_event(r)).collect()
}

/// The nodes of the current branch, and what happened to its runs.
fn told(history: &History) -> Vec<&Record> {
    let tree = Tree::new(&history.records);
    let path: HashSet<Seq> = tree.path(history.tip()).iter().map(|record| record.seq()).collect();
    let mut on_path = true;
    let mut told = Vec::new();
    for record in &history.records {
        if record.is_node() {
            on_path = path.contains(&record.seq());
        }
        if on_path && (record.is_node() || is_event(record)) {
            told.push(record);
        }
    }
    told
}

/// Metadata that a reader of the transcript wants to know.
fn is_event(record: &Record) -> bool {
    match record.body() {
        Body::Run(run) => event(run).is_some(),
        Body::Repair(_) => true,
        Body::Child(child) => child_words(child).is_some(),
        Body::Custom(_) => failure(record).is_some(),
        _ => false,
    }
}

/// That a call began a subagent, or what became of it, and where to read it.
fn child_line(child: &Child, id: &str) -> Option<Text> {
    let said = child_words(child)?;
    let read = match id {
        "" => String::new(),
        id => format!("; `segno show {id}` reads it"),
    };
    Some(Text::line(Tone::Dim, &clean::line(&format!("— {said}{read} —"))))
}

/// What a record of a subagent says to people, if anything.
pub(crate) fn child_words(child: &Child) -> Option<String> {
    match (&child.attempt, child.state) {
        (Some(attempt), _) => {
            let role = attempt.role.as_deref().map(|role| format!(" {role}")).unwrap_or_default();
            let detail = attempt.detail.as_deref().unwrap_or_default();
            Some(format!("subagent{role}: {detail}"))
        }
        (None, ChildState::Started) if !child.child.is_empty() => Some("subagent began".to_owned()),
        (None, _) => None,
    }
}

fn event(run: &Run) -> Option<&'static str> {
    let RunState::Ended { end, .. } = &run.state else { return None };
    match end {
        RunEnd::Completed => None,
        RunEnd::Failed => Some("the run failed"),
        RunEnd::Stopped => Some("stopped by the user"),
        RunEnd::Suspended => Some("the run was cut off; it can be taken up again"),
        RunEnd::Exhausted => Some("a budget ran out"),
    }
}

/// A record as lines; nothing for one that only the machine needs.
pub(crate) fn record_lines(record: &Record, columns: usize) -> Vec<Text> {
    match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) => user_lines(record.seq(), user),
            Message::Assistant(reply) => reply_lines(record.seq(), reply, columns),
            Message::Tool(result) => result_lines(record.seq(), result, columns),
        },
        Body::Compaction(compaction) => compaction_lines(record.seq(), compaction),
        Body::BranchSummary(summary) => {
            let mut lines = vec![who(record.seq(), "summary of another branch", Tone::Warning)];
            lines.push(Text::block(Tone::Plain, &stored_text(&summary.summary)));
            lines
        }
        Body::Custom(custom) => {
            if let Some(text) = failure(record) {
                let who = who(record.seq(), FAILURE, Tone::Bad);
                return vec![who, Text::block(Tone::Plain, text.trim_end())];
            }
            let text = custom.context.as_deref().unwrap_or_default();
            vec![who(record.seq(), &custom.name, Tone::Dim), Text::block(Tone::Dim, text)]
        }
        Body::Child(child) => child_line(child, &child.child).into_iter().collect(),
        Body::Run(run) => event(run).map(|text| marker(run, text)).into_iter().collect(),
        Body::Repair(repair) => {
            let text = format!(
                "— a repair settled {} by {} —",
                count(repair.items.len() as u64),
                repair.rule
            );
            vec![Text::line(Tone::Dim, &text)]
        }
        Body::Unknown { kind, reason } => {
            vec![who(record.seq(), &format!("{kind} (cannot be shown: {reason})"), Tone::Warning)]
        }
        _ => Vec::new(),
    }
}

fn who(seq: Seq, name: &str, tone: Tone) -> Text {
    Text::line(Tone::Dim, &format!("#{seq}")).with(Tone::Plain, " ").with(tone, &clean::line(name))
}

fn marker(run: &Run, text: &str) -> Text {
    let reason = match &run.state {
        RunState::Ended { reason: Some(reason), .. } => format!(": {}", clean::line(reason)),
        _ => String::new(),
    };
    Text::line(Tone::Warning, &format!("— {text}{reason} —"))
}

fn user_lines(seq: Seq, user: &UserMessage) -> Vec<Text> {
    let text = blocks_text(&user.content);
    match &user.notice {
        Some(reason) => vec![
            who(seq, &format!("notice: {reason}"), Tone::Dim),
            Text::block(Tone::Dim, text.trim_end()),
        ],
        None => vec![who(seq, "you", Tone::Heading), Text::block(Tone::Plain, text.trim_end())],
    }
}

fn reply_lines(seq: Seq, reply: &AssistantMessage, columns: usize) -> Vec<Text> {
    let partial = if reply.partial { " (broke off)" } else { "" };
    let mut lines =
        vec![who(seq, &format!("{}{partial}", model_word(&reply.model)), Tone::Heading)];
    for block in &reply.content {
        match block {
            AssistantBlock::Text { text } => {
                let mut markdown = Markdown::default();
                let mut shown = markdown.push(text.trim_end());
                shown.append(markdown.finish());
                lines.push(shown);
            }
            AssistantBlock::Thinking { text, .. } if !text.trim().is_empty() => {
                lines.push(Text::block(Tone::Dim, text.trim_end()));
            }
            AssistantBlock::Thinking { .. } => {
                lines.push(Text::line(Tone::Dim, "(thinking that the provider keeps hidden)"));
            }
            AssistantBlock::ToolCall(call) => {
                let text = format!("→ {} {}", call.name, call.arguments);
                lines.push(Text::line(Tone::Accent, &text).cut(columns));
            }
            AssistantBlock::Unknown => {
                lines.push(Text::line(Tone::Dim, "(something this version does not know)"));
            }
        }
    }
    lines
}

fn result_lines(seq: Seq, result: &ToolMessage, columns: usize) -> Vec<Text> {
    let (word, tone) = match result.outcome {
        Outcome::Done => ("done", Tone::Good),
        Outcome::Failed => ("failed", Tone::Bad),
        Outcome::Denied => ("denied", Tone::Warning),
        Outcome::NotRun => ("did not run", Tone::Warning),
        Outcome::Stopped => ("stopped", Tone::Warning),
        Outcome::NotRecorded => ("not recorded", Tone::Warning),
        Outcome::Unknown => ("outcome unknown", Tone::Warning),
    };
    let name = if result.name.is_empty() { "result" } else { &result.name };
    let mut lines = vec![who(seq, &format!("{name}: {word}"), tone)];
    let text = blocks_text(&result.content);
    let (before, change) = split_diff(&text);
    lines.extend(cut_lines(before, columns.saturating_sub(2)));
    lines.extend(diff::show(change, columns.saturating_sub(2), DIFF_LINES));
    let indented = |(i, line): (usize, Text)| {
        if i == 0 { line } else { Text::default().with(Tone::Plain, "  ").with_text(line) }
    };
    lines.into_iter().enumerate().map(indented).collect()
}

/// The text before a unified diff, and the diff.
fn split_diff(text: &str) -> (&str, &str) {
    let start = text.find("--- ").filter(|at| *at == 0 || text[..*at].ends_with('\n'));
    match start {
        Some(at) if text[at..].lines().nth(2).is_some_and(|line| line.starts_with("@@ ")) => {
            text.split_at(at)
        }
        _ => (text, ""),
    }
}

fn cut_lines(text: &str, columns: usize) -> Vec<Text> {
    let text = clean::block(text);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let fold = lines.len() > RESULT_LINES + 1;
    let shown = if fold { RESULT_LINES } else { lines.len() };
    let mut out: Vec<Text> = lines[..shown]
        .iter()
        .map(|line| Text::default().with(Tone::Dim, &line.replace('\t', "    ")).cut(columns))
        .collect();
    if fold {
        out.push(Text::line(Tone::Dim, &format!("… {} more lines", lines.len() - shown)));
    }
    out
}

fn compaction_lines(seq: Seq, compaction: &Compaction) -> Vec<Text> {
    let tokens = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), count);
    let text = format!(
        "compaction: {} tokens before, {} after; what came before is told by this summary",
        tokens(compaction.tokens_before),
        tokens(compaction.tokens_after)
    );
    let summary = compaction.summary.as_ref().map(stored_text).unwrap_or_default();
    vec![who(seq, &text, Tone::Warning), Text::block(Tone::Plain, summary.trim_end())]
}
