//! One record as HTML.
//!
//! Responsible for: what is shown of each kind of record, what of it is folded, and in which words. Must not:
//! put text into the page that is neither masked nor escaped.

use super::super::subject::{Subject, Told};
use super::highlight;
use super::text::{block, escape, image, line, markdown};
use crate::commands::show;
use crate::secrets::Masker;
use crate::terminal::table::{count, plural};
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Body, Compaction, Message, Outcome, RunEnd, RunState,
    ToolCall, ToolMessage, UserMessage,
};
use segno_store::foreign::failure;
use serde_json::Value;
use std::collections::HashMap;

/// Lines of a prompt or a result that are shown before the rest is folded.
const SHOWN: usize = 40;
/// A result that is not longer than this stands open.
const SHORT: usize = 12;

/// An article: who, and what of it.
pub(super) struct Article {
    /// Decides the colour, and what the switches of the page hide.
    pub(super) class: &'static str,
    pub(super) who: String,
    pub(super) body: String,
}

/// How the names of the files end that calls have read, by the calls' ids: the language of their results.
pub(super) type FilesRead = HashMap<String, String>;

/// Makes articles of the records of one session.
pub(super) struct Writer<'a> {
    pub(super) subject: &'a Subject,
    pub(super) masker: &'a mut Masker,
    /// The place in the page of each subagent's session.
    pub(super) children: &'a [(String, String)],
    /// What is known of calls whose results are still to come.
    pub(super) files_read: &'a mut FilesRead,
}

impl Writer<'_> {
    /// A record as an article; nothing for one that only the machine needs.
    pub(super) fn article(&mut self, told: &Told<'_>) -> Option<Article> {
        match told.record.body() {
            Body::Message(message) => Some(match &**message {
                Message::User(user) => self.user(user),
                Message::Assistant(reply) => self.reply(reply),
                Message::Tool(result) => self.result(result),
            }),
            Body::Compaction(compaction) => self.compaction(compaction),
            Body::BranchSummary(summary) => {
                let text = self.subject.text(&summary.summary);
                Some(self.prose("summary", "summary of another branch", &text))
            }
            Body::Custom(custom) => {
                if let Some(text) = failure(told.record) {
                    let body = folded(&self.masker.shown(&text));
                    return Some(Article { class: "error", who: show::FAILURE.to_owned(), body });
                }
                let text = custom.context.as_deref()?;
                Some(self.prose("notice", &custom.name, text))
            }
            Body::Unknown { kind, reason } => {
                let what = format!("{kind}: this version cannot show it ({reason})");
                Some(marker(&self.masker.shown(&what)))
            }
            _ => self.event(told.record.body()),
        }
    }

    /// Metadata that a reader of the transcript wants to know.
    fn event(&mut self, body: &Body) -> Option<Article> {
        match body {
            Body::Run(run) => {
                let RunState::Ended { end, reason } = &run.state else { return None };
                let what = match end {
                    RunEnd::Completed => return None,
                    RunEnd::Failed => "the run failed",
                    RunEnd::Stopped => "stopped by the user",
                    RunEnd::Suspended => "the run was cut off; it can be taken up again",
                    RunEnd::Exhausted => "a budget ran out",
                };
                let reason = reason.as_deref().map(|why| format!(": {}", self.masker.shown(why)));
                Some(marker(&format!("{what}{}", reason.unwrap_or_default())))
            }
            Body::Repair(repair) => {
                let settled = plural(repair.items.len(), "place");
                let what = format!("a repair settled {settled} by {}", repair.rule);
                Some(marker(&self.masker.shown(&what)))
            }
            Body::Child(child) => {
                let mut article = marker(&self.masker.shown(&show::child_words(child)?));
                let id = self.subject.child(&child.child);
                let place = self.children.iter().find(|(own, _)| own == id);
                let read = match place {
                    Some((_, place)) => format!(" <a href=\"#{place}\">read it</a>"),
                    None if id.is_empty() => String::new(),
                    None => format!(" <code>segno show {}</code>", line(&self.masker.shown(id))),
                };
                article.body.push_str(&read);
                Some(article)
            }
            _ => None,
        }
    }

    fn prose(&mut self, class: &'static str, who: &str, text: &str) -> Article {
        let body = format!(
            "<details><summary>{}</summary><div class=\"md\">{}</div></details>",
            line(&first_line(&self.masker.shown(text))),
            markdown(&self.masker.shown(text))
        );
        Article { class, who: line(&self.masker.shown(who)), body }
    }

    fn user(&mut self, user: &UserMessage) -> Article {
        let mut body = String::new();
        for block in &user.content {
            match block {
                Block::Text { text } => {
                    let text = self.subject.text(text);
                    body.push_str(&folded(&self.masker.shown(&text)));
                }
                other => body.push_str(&self.picture(other)),
            }
        }
        match &user.notice {
            Some(reason) => {
                let reason = line(&self.masker.shown(reason));
                let body = format!("<details><summary>{reason}</summary>{body}</details>");
                Article { class: "notice", who: "notice".to_owned(), body }
            }
            None => Article { class: "user", who: "you".to_owned(), body },
        }
    }

    fn picture(&mut self, block: &Block) -> String {
        let Block::Image { media_type, data } = block else {
            return "<p class=\"dim\">something that this version does not know</p>".to_owned();
        };
        let shown = self.subject.image(data).and_then(|bytes| image(&bytes));
        shown.unwrap_or_else(|| {
            let kind = line(&self.masker.shown(media_type));
            format!("<p class=\"dim\">an image ({kind})</p>")
        })
    }

    fn reply(&mut self, reply: &AssistantMessage) -> Article {
        let mut body = String::new();
        for block in &reply.content {
            match block {
                AssistantBlock::Text { text } => {
                    let text = markdown(&self.masker.shown(text));
                    body.push_str(&format!("<div class=\"md\">{text}</div>"));
                }
                AssistantBlock::Thinking { text, .. } if text.trim().is_empty() => {
                    body.push_str(
                        "<p class=\"dim think\">thinking that the provider keeps hidden</p>",
                    );
                }
                AssistantBlock::Thinking { text, .. } => {
                    let text = self.masker.shown(text.trim());
                    body.push_str(&format!(
                        "<details class=\"think\"><summary>thinking <span class=\"gist\">{}</span></summary><div class=\"md\">{}</div></details>",
                        line(&first_line(&text)),
                        markdown(&text)
                    ));
                }
                AssistantBlock::ToolCall(call) => body.push_str(&self.call(call)),
                AssistantBlock::Unknown => {
                    body.push_str("<p class=\"dim\">something that this version does not know</p>");
                }
            }
        }
        let model = if reply.model.id.is_empty() { "reply" } else { reply.model.id.as_str() };
        let partial = if reply.partial { " (broke off)" } else { "" };
        let calls = reply.calls().next().is_some();
        let only_calls = calls && reply.text().trim().is_empty();
        let class = if only_calls { "reply calls" } else { "reply" };
        Article { class, who: format!("{}{partial}", line(&self.masker.shown(model))), body }
    }

    fn call(&mut self, call: &ToolCall) -> String {
        let arguments = self.masker.arguments(&call.arguments);
        let parsed: Option<Value> = serde_json::from_str(&arguments).ok();
        let (gist, inside) = match parsed.as_ref().and_then(Value::as_object) {
            Some(fields) => {
                if call.name.to_ascii_lowercase().contains("read") {
                    self.files_read.insert(call.id.clone(), file_ending(fields).to_owned());
                }
                (gist(fields), fields_html(fields))
            }
            None => (first_line(&arguments), block(&arguments, "")),
        };
        format!(
            "<details class=\"tool\"><summary><b>{}</b> <code class=\"gist\">{}</code></summary>{inside}</details>",
            line(&self.masker.shown(&call.name)),
            line(&gist)
        )
    }

    fn result(&mut self, result: &ToolMessage) -> Article {
        let (word, bad) = match result.outcome {
            Outcome::Done => ("done", false),
            Outcome::Failed => ("failed", true),
            Outcome::Denied => ("denied", true),
            Outcome::NotRun => ("did not run", true),
            Outcome::Stopped => ("stopped", true),
            Outcome::NotRecorded => ("not recorded", true),
            Outcome::Unknown => ("outcome unknown", true),
        };
        let bad = bad || result.is_error;
        let language = self.files_read.remove(&result.call_id).filter(|_| !bad).unwrap_or_default();
        let (mut body, mut lines) = (String::new(), 0);
        for part in &result.content {
            match part {
                Block::Text { text } => {
                    let text = self.subject.text(text);
                    let text = self.masker.shown(&text);
                    lines += text.lines().count();
                    let language = if highlight::is_diff(&text) { "diff" } else { &language };
                    body.push_str(&block(&text, language));
                }
                other => body.push_str(&self.picture(other)),
            }
        }
        let open = if lines <= SHORT { " open" } else { "" };
        let tone = if bad { "bad" } else { "good" };
        let body = format!(
            "<details class=\"tool\"{open}><summary><b>{}</b> <span class=\"{tone}\">{word}</span> <span class=\"dim\">{}</span></summary>{body}</details>",
            line(&self.masker.shown(if result.name.is_empty() { "result" } else { &result.name })),
            plural(lines, "line")
        );
        Article { class: "result", who: "result".to_owned(), body }
    }

    fn compaction(&mut self, compaction: &Compaction) -> Option<Article> {
        let summary = self.subject.text(compaction.summary.as_ref()?);
        let tokens = |n: Option<u64>| n.map_or_else(|| "?".to_owned(), count);
        let who = format!(
            "summary of what came before ({} tokens, {} after)",
            tokens(compaction.tokens_before),
            tokens(compaction.tokens_after)
        );
        Some(self.prose("summary", &who, &summary))
    }
}

fn marker(text: &str) -> Article {
    Article { class: "event", who: String::new(), body: format!("<p>— {} —</p>", line(text)) }
}

/// What is said about something that was noticed; neither masked nor escaped.
pub(super) fn finding(finding: &segno_model::finding::Finding) -> String {
    let place = crate::history::place(finding);
    let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
    format!("{}{place}; {}", finding.sentence, finding.done)
}

/// Plain text, the end of which is folded when it is long.
pub(super) fn folded(text: &str) -> String {
    let text = text.trim_end();
    let lines = text.lines().count();
    if lines <= SHOWN + SHOWN / 2 {
        return format!("<div class=\"plain\">{}</div>", escape(text));
    }
    let cut = text.match_indices('\n').nth(SHOWN - 1).map_or(text.len(), |(at, _)| at);
    format!(
        "<div class=\"plain\">{}</div><details class=\"more\"><summary>{} more</summary><div class=\"plain\">{}</div></details>",
        escape(&text[..cut]),
        plural(lines - SHOWN, "line"),
        escape(text[cut..].trim_start_matches('\n'))
    )
}

fn first_line(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    first.trim().chars().take(160).collect()
}

type Fields = serde_json::Map<String, Value>;

/// What a call is about, in a line.
fn gist(fields: &Fields) -> String {
    const TELLING: &[&str] = &[
        "command",
        "cmd",
        "file_path",
        "filePath",
        "path",
        "pattern",
        "query",
        "url",
        "description",
        "prompt",
        "task",
        "name",
    ];
    let told = TELLING.iter().find_map(|name| match fields.get(*name)? {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            (!words.is_empty()).then(|| words.join(" "))
        }
        _ => None,
    });
    let text = told.unwrap_or_else(|| Value::Object(fields.clone()).to_string());
    first_line(&text)
}

/// What is behind the last dot of the name of the file that a call is about.
fn file_ending(fields: &Fields) -> &str {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let path = text("file_path").or_else(|| text("filePath")).or_else(|| text("path"));
    path.and_then(|path| path.rsplit_once('.')).map_or("", |(_, end)| end)
}

/// The arguments, each long text in a box of its own.
fn fields_html(fields: &Fields) -> String {
    let language = file_ending(fields);
    let mut out = String::new();
    let mut short = Fields::new();
    for (name, value) in fields {
        match value {
            Value::String(text) if text.contains('\n') || text.len() > 100 || is_command(name) => {
                out.push_str(&format!("<p class=\"name\">{}</p>", line(name)));
                out.push_str(&match name.as_str() {
                    "command" | "cmd" | "script" => block(text, "sh"),
                    "old_string" | "oldString" | "old_text" => changed(text, '-'),
                    "new_string" | "newString" | "new_text" => changed(text, '+'),
                    "content" | "file_text" => block(text, language),
                    "patch" | "diff" | "input" if highlight::is_diff(text) => block(text, "diff"),
                    _ => block(text, ""),
                });
            }
            other => {
                short.insert(name.clone(), other.clone());
            }
        }
    }
    if !short.is_empty() {
        let json = serde_json::to_string_pretty(&short).unwrap_or_default();
        out = format!("{}{out}", block(&json, "json"));
    }
    out
}

fn is_command(name: &str) -> bool {
    matches!(name, "command" | "cmd" | "script")
}

/// Text that goes or comes, as lines of a diff.
fn changed(text: &str, sign: char) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{sign}{line}")).collect();
    block(&lines.join("\n"), "diff")
}
