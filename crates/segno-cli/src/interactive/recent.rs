//! The end of a conversation, shown when a session is taken up again.
//!
//! Responsible for: the last prompt and what came after it. Must not:
//! run a tool or write a record.

use crate::commands::show::record_lines;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::Record;
use segno_model::record::{Block, Body, Message, UserMessage};
use segno_model::store::SessionLog;
use segno_model::tree::Tree;
use segno_runtime::Session;

/// Records of the last exchange that are shown.
const SHOWN: usize = 12;
/// Lines of a prompt that are shown.
const PROMPT_LINES: usize = 6;

/// Shows the last exchange.
pub(super) fn show<L: SessionLog>(session: &Session<L>, screen: &mut Screen) {
    let records = session.records();
    let tree = Tree::new(&records);
    let path = tree.path(session.state().tip().map(|pos| pos.seq));
    let from = path.iter().rposition(|record| is_prompt(record)).unwrap_or(0);
    if from > 0 {
        screen.line(Text::line(Tone::Dim, &format!("… {} before", plural(from, "record"))));
    }
    let last = &path[from..];
    let skipped = last.len().saturating_sub(SHOWN);
    for (i, record) in last.iter().enumerate() {
        if i == 0 || i > skipped {
            screen.lines(record_lines(record, screen.look().columns));
        } else if i == skipped {
            screen.line(Text::line(Tone::Dim, &format!("… {}", plural(skipped, "record"))));
        }
    }
}

fn is_prompt(record: &Record) -> bool {
    matches!(record.body(), Body::Message(m) if matches!(&**m, Message::User(u) if u.notice.is_none()))
}

/// What the person said, without attached files.
#[must_use]
pub(super) fn prompt_text(user: &UserMessage) -> String {
    user.content
        .iter()
        .find_map(|block| match block {
            Block::Text { text } => Some(text.head().to_owned()),
            _ => None,
        })
        .unwrap_or_default()
}

/// A prompt as it stood on the line, cut when it is long.
#[must_use]
pub fn prompt_lines(text: &str) -> Vec<Text> {
    let cleaned = clean::block(text);
    let all: Vec<&str> = cleaned.trim().lines().collect();
    let mut lines: Vec<Text> = all
        .iter()
        .take(PROMPT_LINES)
        .enumerate()
        .map(|(i, line)| {
            let mark = if i == 0 { "> " } else { "  " };
            Text::default().with(Tone::Accent, mark).with(Tone::Strong, line)
        })
        .collect();
    if all.len() > PROMPT_LINES {
        lines.push(Text::line(
            Tone::Dim,
            &format!("  … {}", plural(all.len() - PROMPT_LINES, "line")),
        ));
    }
    lines
}
