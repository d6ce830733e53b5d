//! What is kept of a session that was emptied.
//!
//! Responsible for: which earlier versions of its copy hold something. Must not: print, or write anything.

use segno_model::Body;
use segno_model::record::{AssistantBlock, Block, Message, Text};
use segno_store::FileStore;
use segno_store::catalog::{Catalog, ForeignRow};
use segno_store::foreign::{self, Item, Located};
use segno_store::kept::{Kept, Version};
use std::ops::ControlFlow;
use std::path::Path;

/// The earlier versions of a session's own copy in which something was said, the oldest first, each with what it
/// says.
#[must_use]
pub fn versions(files: &FileStore, kept: &Kept) -> Vec<(Version, ForeignRow)> {
    let own = kept.files.first();
    // Without them the newest copy is what there is.
    let versions = files.kept_versions(kept).unwrap_or_default().into_iter();
    let versions = versions.filter(|version| Some(&version.original) == own);
    let told = |version: Version| {
        let row = row(kept, &version.path)?;
        Some((version, row))
    };
    versions.filter_map(told).collect()
}

/// Whether something was said in a session's own copy, or in a version of it: rows can be left when all that they
/// said is gone.
#[must_use]
pub fn says_something(kept: &Kept, copy: &Path) -> bool {
    let mut said = false;
    let read = foreign::read(&located(kept, copy), &mut |item| {
        said = matches!(&item, Item::Record(read) if says(read.record.body()));
        if said { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    read.is_ok() && said
}

fn says(body: &Body) -> bool {
    match body {
        Body::Message(message) => match &**message {
            Message::User(message) => message.content.iter().any(|block| match block {
                Block::Text { text: Text::Inline(text) } => !text.trim().is_empty(),
                _ => true,
            }),
            Message::Assistant(message) => message.content.iter().any(|block| match block {
                AssistantBlock::Text { text } => !text.trim().is_empty(),
                AssistantBlock::Thinking { .. } | AssistantBlock::Unknown => false,
                AssistantBlock::ToolCall(_) => true,
            }),
            Message::Tool(_) => true,
        },
        _ => false,
    }
}

fn located(kept: &Kept, copy: &Path) -> Located {
    Located { path: copy.to_owned(), ..kept.located() }
}

fn row(kept: &Kept, copy: &Path) -> Option<ForeignRow> {
    says_something(kept, copy).then(|| Catalog::digest(&located(kept, copy)))
}
