//! What a context is made of, in tokens.
//!
//! Responsible for: one sum per kind of content. Must not: know what a request carries besides messages.

use super::estimate::{is_notice, of_reply, split_blocks, tokens_of};
use super::{Context, ContextMessage};
use crate::id::Seq;
use crate::record::ModelRef;
use serde::Serialize;

/// Guessed tokens by kind of content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// The summary, with what stands below it.
    pub summary: u64,
    /// A provider's own state, which stands for the summary and what is kept singly.
    pub state: u64,
    /// What a compaction keeps singly: the person's own words from before.
    pub kept: u64,
    /// What the user's side said since.
    pub user: u64,
    /// What the model said and called.
    pub replies: u64,
    /// Results of tools.
    pub results: u64,
    /// Images, wherever they are.
    pub images: u64,
}

impl Ledger {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.summary
            + self.state
            + self.kept
            + self.user
            + self.replies
            + self.results
            + self.images
    }
}

impl Context {
    /// What it is made of, with images as `model` counts them. The trace says which record is a summary and which is kept.
    #[must_use]
    pub fn ledger(&self, model: Option<&ModelRef>) -> Ledger {
        let rule = |seq: &Seq| {
            let row = self.trace.binary_search_by_key(seq, |row| row.seq).ok()?;
            Some(self.trace[row].rule)
        };
        let mut ledger = Ledger::default();
        for message in &self.messages {
            match message {
                notice if is_notice(notice) => ledger.user += tokens_of(notice, model),
                ContextMessage::User { seq, content } => {
                    let (words, images) = split_blocks(content, model);
                    ledger.images += images;
                    let words = words + tokens_of(message, model) - (words + images);
                    match rule(seq) {
                        Some("summary") => ledger.summary += words,
                        Some("kept") => ledger.kept += words,
                        _ => ledger.user += words,
                    }
                }
                ContextMessage::State(_) => ledger.state += tokens_of(message, model),
                ContextMessage::Assistant(turn) => ledger.replies += of_reply(turn),
                ContextMessage::Results(results) => {
                    let images: u64 =
                        results.iter().map(|r| split_blocks(&r.content, model).1).sum();
                    ledger.images += images;
                    ledger.results += tokens_of(message, model) - images;
                }
            }
        }
        ledger
    }
}
