//! Claude Code: what its files say, damaged ones included.
//!
//! Lines that only keep a row are left out of what is asserted, unless they are the point.

mod cases;
mod fixtures;
mod hostile;
mod made;

use crate::scene;
use segno_model::Body;
use segno_model::record::{AssistantMessage, Message, ToolMessage, UserMessage};
use segno_store::foreign::View;

/// A transcript's lines, without rows that are only kept.
fn said(view: &View) -> Vec<String> {
    let all = scene::lines(view);
    all.into_iter().filter(|line| !line.starts_with("custom ")).collect()
}

/// Whether one of the lines holds a text.
fn holds(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

fn messages(view: &View) -> impl Iterator<Item = &Message> {
    view.records.iter().filter_map(|read| match read.record.body() {
        Body::Message(message) => Some(&**message),
        _ => None,
    })
}

fn replies(view: &View) -> Vec<&AssistantMessage> {
    let all = messages(view).filter_map(|message| match message {
        Message::Assistant(reply) => Some(reply),
        _ => None,
    });
    all.collect()
}

fn results(view: &View) -> Vec<&ToolMessage> {
    let all = messages(view).filter_map(|message| match message {
        Message::Tool(result) => Some(result),
        _ => None,
    });
    all.collect()
}

/// What a person asked.
fn prompts(view: &View) -> Vec<&UserMessage> {
    let all = messages(view).filter_map(|message| match message {
        Message::User(user) => Some(user).filter(|user| user.notice.is_none()),
        _ => None,
    });
    all.collect()
}

/// The names of the rows that are only kept.
fn kept(view: &View) -> Vec<&str> {
    let all = view.records.iter().filter_map(|read| match read.record.body() {
        Body::Custom(custom) => Some(custom.name.as_str()),
        _ => None,
    });
    all.collect()
}
