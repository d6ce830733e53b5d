//! Prompts that were typed while the agent was at work.
//!
//! Responsible for: which of them were never delivered, from the rows that put them into the queue and
//! take them out. Must not: take a notification for something that a person typed.

use super::injected;
use std::collections::VecDeque;

/// The queue as the rows tell it.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<String>,
    /// Taken out, and not yet seen as delivered.
    taken: VecDeque<String>,
}

impl Queue {
    /// Takes a `queue-operation` row. Which entry leaves is named only by newer versions; otherwise it is
    /// the first.
    pub(super) fn operation(&mut self, operation: &str, content: Option<String>) {
        match (operation, content) {
            ("enqueue", Some(text)) => self.waiting.push_back(text),
            ("dequeue" | "remove", content) => {
                let named = content.and_then(|text| self.waiting.iter().position(|w| *w == text));
                let taken = self.waiting.remove(named.unwrap_or(0));
                self.taken.extend(taken);
            }
            ("popAll", content) => {
                // One row for each that goes back to the input line, or one for all.
                match content.and_then(|text| self.waiting.iter().position(|w| *w == text)) {
                    Some(at) => drop(self.waiting.remove(at)),
                    None => self.waiting.clear(),
                }
            }
            _ => {}
        }
    }

    /// Something was said in the session. Text that waits is delivered with it; what was taken out before
    /// is settled.
    pub(super) fn said(&mut self, text: Option<&str>) {
        if self.waiting.is_empty() && self.taken.is_empty() {
            return;
        }
        if let Some(text) = text
            && !self.taken.iter().any(|taken| taken == text)
            && let Some(at) = self.waiting.iter().position(|waiting| waiting == text)
        {
            // Another one than the first was taken out.
            self.waiting.remove(at);
            if let Some(wrongly) = self.taken.pop_front() {
                self.waiting.push_front(wrongly);
            }
        }
        self.taken.clear();
    }

    /// What a person typed and nobody got, in order.
    pub(super) fn pending(self) -> Vec<String> {
        let typed = |text: &String| {
            let pieces = injected::pieces(text);
            !text.trim().is_empty() && pieces.iter().all(|(reason, _)| reason.is_none())
        };
        self.taken.into_iter().chain(self.waiting).filter(typed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `+text` puts in, `-` and `-text` take out, `~` and `~text` take back, `!text` is said.
    fn pending(rows: &str) -> String {
        let mut queue = Queue::default();
        for row in rows.split_whitespace() {
            let (sign, text) = row.split_at(1);
            let text = Some(text).filter(|text| !text.is_empty());
            match sign {
                "+" => queue.operation("enqueue", text.map(str::to_owned)),
                "-" => queue.operation("dequeue", text.map(str::to_owned)),
                "~" => queue.operation("popAll", text.map(str::to_owned)),
                _ => queue.said(text),
            }
        }
        queue.pending().join(" ")
    }

    /// Covers: #135.
    #[test]
    fn what_was_queued_and_not_delivered_is_pending_in_order() {
        assert_eq!(pending("+a - !a"), "");
        assert_eq!(pending("+a +b +<task-notification>x</task-notification> - !a +c"), "b c");
        // Taken out, and then the process died.
        assert_eq!(pending("+a - +b"), "a b");
        // Another one than the first was delivered.
        assert_eq!(pending("+a +b - !b"), "a");
        assert_eq!(pending("+a +b -b !b"), "a");
        assert_eq!(pending("+a +b ~a"), "b");
        assert_eq!(pending("+a +b ~"), "");
        assert_eq!(pending("- ~ !x"), "");
    }
}
