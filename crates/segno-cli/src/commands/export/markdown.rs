//! A session as markdown.
//!
//! Responsible for: the current branch with everything that was said and done, whole, in fences that
//! nothing inside can close. Must not: mask; that is done to the finished text.

use crate::history::{History, blocks_text, stored_text};
use segno_model::Record;
use segno_model::record::{AssistantBlock, AssistantMessage, Body, Message, ToolMessage};
use segno_model::tree::Tree;
use std::fmt::Write as _;

/// The whole document.
pub(super) fn render(history: &History) -> String {
    let title = history.title().and_then(|title| title.lines().next()).unwrap_or("Session");
    let mut out = format!("# {title}\n\nSession {}", history.id);
    if let Some(header) = history.header() {
        let _ = write!(out, ", in `{}`", header.project.cwd);
    }
    out.push('\n');
    for record in Tree::new(&history.records).path(history.tip()) {
        let section = section(record);
        if !section.is_empty() {
            let _ = write!(out, "\n{section}");
        }
    }
    out
}

fn section(record: &Record) -> String {
    let seq = record.seq();
    match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) => {
                let who = user.notice.as_ref().map_or("You".to_owned(), |n| format!("Notice: {n}"));
                format!("## {who} (#{seq})\n\n{}\n", blocks_text(&user.content).trim_end())
            }
            Message::Assistant(reply) => self::reply(seq, reply),
            Message::Tool(result) => self::result(seq, result),
        },
        Body::Compaction(compaction) => {
            let summary = compaction.summary.as_ref().map(stored_text).unwrap_or_default();
            format!("## Summary of what came before (#{seq})\n\n{}\n", summary.trim_end())
        }
        Body::BranchSummary(summary) => {
            let text = stored_text(&summary.summary);
            format!("## Summary of another branch (#{seq})\n\n{}\n", text.trim_end())
        }
        Body::Custom(custom) => {
            let text = custom.context.as_deref().unwrap_or_default();
            format!("## {} (#{seq})\n\n{}\n", custom.name, text.trim_end())
        }
        _ => String::new(),
    }
}

fn reply(seq: u64, reply: &AssistantMessage) -> String {
    let mut out = format!("## {} (#{seq})\n", reply.model);
    for block in &reply.content {
        match block {
            AssistantBlock::Text { text } => {
                let _ = write!(out, "\n{}\n", text.trim_end());
            }
            AssistantBlock::Thinking { text, .. } if !text.trim().is_empty() => {
                let quoted = text.trim_end().replace('\n', "\n> ");
                let _ = write!(out, "\n> {quoted}\n");
            }
            AssistantBlock::Thinking { .. } | AssistantBlock::Unknown => {}
            AssistantBlock::ToolCall(call) => {
                let _ = write!(out, "\n**{}**\n\n{}", call.name, fenced("json", &call.arguments));
            }
        }
    }
    out
}

fn result(seq: u64, result: &ToolMessage) -> String {
    let failed = if result.is_error { ", failed" } else { "" };
    let text = blocks_text(&result.content);
    format!("### Result of {}{failed} (#{seq})\n\n{}", result.name, fenced("", &text))
}

/// Text in a fence that is longer than any run of backticks in it.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_closes_a_fence_from_within() {
        assert_eq!(fenced("", "a"), "```\na\n```\n");
        assert_eq!(fenced("", "a\n```\nb"), "````\na\n```\nb\n````\n");
        assert_eq!(fenced("json", "`````"), "``````json\n`````\n``````\n");
    }
}
