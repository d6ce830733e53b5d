//! The end of a conversation, shown when a session is taken up again.
//!
//! Responsible for: the last prompt and what came after it. Must not:
//! run a tool or write a record.

use crate::commands::show::record_lines;
use crate::history::stored_text;
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
    // What a summary stands for is no longer what the model has.
    let begins = |record: &&Record| is_prompt(record) || is_compaction(record);
    let from = path.iter().rposition(begins).unwrap_or(0);
    if from > 0 {
        screen.line(Text::line(Tone::Dim, &format!("… {} before", plural(from, "record"))));
    }
    let last = &path[from..];
    let skipped = last.len().saturating_sub(SHOWN);
    for (i, record) in last.iter().enumerate() {
        if i == 0 || i > skipped {
            screen.lines(lines(record, screen.look().columns));
        } else if i == skipped {
            screen.line(Text::line(Tone::Dim, &format!("… {}", plural(skipped, "record"))));
        }
    }
}

/// A record as lines; of a summary, which may be long, the beginning.
fn lines(record: &Record, columns: usize) -> Vec<Text> {
    let Body::Compaction(compaction) = record.body() else {
        return record_lines(record, columns);
    };
    let summary = compaction.summary.as_ref().map(stored_text).unwrap_or_default();
    let summary = clean::block(&summary);
    let all: Vec<&str> = summary.trim().lines().collect();
    let mut lines: Vec<Text> = record_lines(record, columns).into_iter().take(1).collect();
    lines.extend(all.iter().take(PROMPT_LINES).map(|line| Text::line(Tone::Dim, line)));
    let more = all.len().saturating_sub(PROMPT_LINES);
    lines.extend((more > 0).then(|| Text::line(Tone::Dim, &format!("… {}", plural(more, "line")))));
    lines
}

fn is_compaction(record: &Record) -> bool {
    matches!(record.body(), Body::Compaction(_))
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
