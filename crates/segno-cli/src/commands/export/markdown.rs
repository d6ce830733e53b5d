//! A session as Markdown.
//!
//! Responsible for: the current branch with everything that was said and done, whole, in fences that
//! nothing inside can close. Must not: let a text out that was not masked, or a control character: whoever looks at
//! the file does so in a terminal.

use super::subject::{Broken, Head, Part, Subject, Told};
use crate::commands::show;
use crate::history::model_word;
use crate::secrets::Masker;
use crate::terminal::clean;
use segno_model::record::{AssistantBlock, AssistantMessage, Body, Message, ToolMessage};
use segno_store::foreign::failure;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes the whole document.
pub(super) fn write(
    subject: &Subject,
    masker: &mut Masker,
    out: &mut dyn Write,
) -> Result<(), Broken> {
    head(&subject.head, masker, out)?;
    subject.each(&mut |part| {
        let section = match part {
            Part::Record(told) if told.current => with_fate(section(subject, &told, masker), &told),
            Part::Waiting(prompt) => {
                format!("## You, never delivered\n\n{}\n", masker.shown(prompt).trim_end())
            }
            Part::Record(_) | Part::Finding(_) => String::new(),
        };
        // Names of tools and the like stand between the texts.
        if section.is_empty() { Ok(()) } else { write!(out, "\n{}", clean::block(&section)) }
    })
}

fn head(head: &Head, masker: &mut Masker, out: &mut dyn Write) -> io::Result<()> {
    let title = masker.shown(&head.title);
    let title = title.lines().next().unwrap_or("Session");
    write!(out, "# {title}\n\nSession {}", masker.shown(&head.word))?;
    if !head.cwd.is_empty() {
        write!(out, ", in `{}`", masker.shown(&head.cwd))?;
    }
    writeln!(out)?;
    if let Some(origin) = &head.forked {
        let said = format!("Forked from {origin}");
        writeln!(out, "\n{}", masker.shown(&said))?;
    }
    let Some(parent) = &head.parent else { return Ok(()) };
    let role = head.role.as_deref().map(|role| format!(" {role}")).unwrap_or_default();
    let said = format!("Subagent{role} of {parent}{}", where_to_read(parent));
    writeln!(out, "\n{}", masker.shown(&said))
}

/// With what became of it behind it.
fn with_fate(section: String, told: &Told<'_>) -> String {
    match told.fate {
        Some(fate) if !section.is_empty() => format!("{section}\n*{fate}*\n"),
        _ => section,
    }
}

fn section(subject: &Subject, told: &Told<'_>, masker: &mut Masker) -> String {
    let seq = told.record.seq();
    let titled =
        |title: &str, text: String| format!("## {title} (#{seq})\n\n{}\n", text.trim_end());
    match told.record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) => {
                let who = user.notice.as_ref().map_or("You".to_owned(), |n| format!("Notice: {n}"));
                titled(&masker.shown(&who), masker.shown(&subject.blocks(&user.content)))
            }
            Message::Assistant(reply) => self::reply(seq, reply, masker),
            Message::Tool(result) => self::result(seq, subject, result, masker),
        },
        Body::Compaction(compaction) => {
            let summary = compaction.summary.as_ref().map(|text| subject.text(text));
            titled("Summary of what came before", masker.shown(&summary.unwrap_or_default()))
        }
        Body::BranchSummary(summary) => {
            titled("Summary of another branch", masker.shown(&subject.text(&summary.summary)))
        }
        Body::Custom(custom) if custom.context.is_some() => {
            let text = custom.context.as_deref().unwrap_or_default();
            titled(&masker.shown(&custom.name), masker.shown(text))
        }
        Body::Custom(_) => match failure(told.record) {
            Some(text) => titled(&capital(show::FAILURE), masker.shown(&text)),
            None => String::new(),
        },
        Body::Child(child) => match show::child_words(child) {
            Some(said) => {
                format!(
                    "*{}{}*\n",
                    masker.shown(&said),
                    masker.shown(&where_to_read(subject.child(&child.child)))
                )
            }
            None => String::new(),
        },
        _ => String::new(),
    }
}

fn capital(words: &str) -> String {
    let mut rest = words.chars();
    rest.next().into_iter().flat_map(char::to_uppercase).chain(rest).collect()
}

/// The command that shows a session, behind what is said of it.
fn where_to_read(id: &str) -> String {
    if id.is_empty() { String::new() } else { format!("; `segno show {id}` reads it") }
}

fn reply(seq: u64, reply: &AssistantMessage, masker: &mut Masker) -> String {
    let mut out = format!("## {} (#{seq})\n", masker.shown(&model_word(&reply.model)));
    for block in &reply.content {
        match block {
            AssistantBlock::Text { text } => {
                let _ = write!(out, "\n{}\n", masker.shown(text).trim_end());
            }
            AssistantBlock::Thinking { text, .. } if !text.trim().is_empty() => {
                let quoted = masker.shown(text).trim_end().replace('\n', "\n> ");
                let _ = write!(out, "\n> {quoted}\n");
            }
            AssistantBlock::Thinking { .. } | AssistantBlock::Unknown => {}
            AssistantBlock::ToolCall(call) => {
                let arguments = masker.arguments(&call.arguments);
                let name = masker.shown(&call.name);
                let _ = write!(out, "\n**{name}**\n\n{}", fenced("json", &arguments));
            }
        }
    }
    out
}

fn result(seq: u64, subject: &Subject, result: &ToolMessage, masker: &mut Masker) -> String {
    let failed = if result.is_error { ", failed" } else { "" };
    let text = subject.blocks(&result.content);
    let text = fenced("", &masker.shown(&text));
    let of = if result.name.is_empty() { String::new() } else { format!(" of {}", result.name) };
    format!("### Result{}{failed} (#{seq})\n\n{text}", masker.shown(&of))
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
