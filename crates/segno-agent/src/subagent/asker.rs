//! A child's questions to a person.
//!
//! Responsible for: saying whose question it is, and putting one at a time. Must not: answer.

use crate::permission::PrefixRule;
use crate::tool::{Asker, Asking, Question};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Asks for a child through its parent's asker.
pub(crate) struct ChildAsker {
    parents: Arc<dyn Asker>,
    /// The child's role.
    role: String,
    /// One person answers one question at a time.
    turn: Arc<Mutex<()>>,
}

impl ChildAsker {
    pub(crate) fn new(parents: Arc<dyn Asker>, role: &str, turn: Arc<Mutex<()>>) -> Self {
        Self { parents, role: role.to_owned(), turn }
    }
}

impl Asker for ChildAsker {
    fn ask<'a>(&'a self, question: Question<'a>) -> Asking<'a> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let text = format!("Subagent {}: {}", self.role, question.text);
            self.parents.ask(Question { text: &text, ..question }).await
        })
    }

    fn save(&self, rules: &[PrefixRule]) {
        self.parents.save(rules);
    }
}
