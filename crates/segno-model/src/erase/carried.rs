//! What compactions carry of records that are erased.
//!
//! Responsible for: taking out of a compaction that stays what is a copy of an erased record: a sentence of a
//! prompt, the task, and the provider's own state. Must not: guess at what a summary tells in its own words.

use super::{empty_task, says_something};
use crate::id::Seq;
use crate::line::Record;
use crate::record::{Block, Body, Compaction, Message, Task, Text};
use std::collections::BTreeSet;

/// Why a compaction has no state of the provider's any more.
const STATE_ERASED: &str = "something that it told of was erased";

/// What is erased, as far as the records up to now tell.
#[derive(Debug, Clone, Default)]
pub struct Gone {
    chosen: BTreeSet<Seq>,
    tasks: Vec<Task>,
    /// What people typed, with single spaces.
    prompts: Vec<String>,
}

impl Gone {
    /// These records are erased.
    #[must_use]
    pub fn new(chosen: BTreeSet<Seq>) -> Self {
        Self { chosen, ..Self::default() }
    }

    /// Whether a record is to be emptied.
    #[must_use]
    pub fn is_chosen(&self, record: &Record) -> bool {
        self.chosen.contains(&record.seq()) && says_something(record)
    }

    /// Takes notice of the next record of the log.
    pub fn pass(&mut self, record: &Record) {
        if !self.is_chosen(record) {
            return;
        }
        match record.body() {
            Body::Task(task) => self.tasks.push(task.clone()),
            Body::Message(message) => {
                if let Message::User(user) = &**message {
                    self.prompts.extend(user.content.iter().filter_map(words));
                }
            }
            _ => {}
        }
    }

    /// What is left of a compaction that is not chosen itself; none when nothing is to be taken out of it.
    ///
    /// Nobody can look into a provider's state, and each is made from the one before: those after the first
    /// erased record go, and the summary stands.
    #[must_use]
    pub fn rest_of(&self, record: &Record) -> Option<Body> {
        let Body::Compaction(compaction) = record.body() else { return None };
        if self.chosen.contains(&record.seq()) {
            return None;
        }
        let mut rest = compaction.clone();
        let state = self.takes_state(record, &mut rest);
        let copies = self.takes_copies(&mut rest);
        (state || copies).then_some(Body::Compaction(rest))
    }

    /// Whether a compaction loses the state that a provider made.
    #[must_use]
    pub fn empties_state_of(&self, record: &Record) -> bool {
        let Body::Compaction(compaction) = record.body() else { return false };
        let is_later = self.chosen.first().is_some_and(|first| *first < record.seq());
        compaction.native.is_some() && is_later && !self.chosen.contains(&record.seq())
    }

    fn takes_state(&self, record: &Record, rest: &mut Compaction) -> bool {
        let goes = self.empties_state_of(record);
        if goes {
            (rest.native, rest.native_tokens, rest.endpoint) = (None, None, None);
            rest.no_native = Some(STATE_ERASED.to_owned());
        }
        goes
    }

    fn takes_copies(&self, rest: &mut Compaction) -> bool {
        let count = rest.sentences.len();
        rest.sentences.retain(|sentence| {
            let sentence = spaced(sentence);
            !self.prompts.iter().any(|prompt| prompt.contains(&sentence))
        });
        let task = rest.task.as_mut().filter(|task| self.tasks.contains(task));
        let is_copy = task.is_some();
        task.into_iter().for_each(empty_task);
        is_copy || rest.sentences.len() < count
    }
}

fn words(block: &Block) -> Option<String> {
    match block {
        Block::Text { text: Text::Inline(text) } => Some(spaced(text)),
        Block::Text { text: Text::Blob(blob) } => Some(spaced(&blob.head)),
        Block::Image { .. } | Block::Unknown => None,
    }
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
