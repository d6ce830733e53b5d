//! Tokens, from totals that only grow and from records of single responses.
//!
//! Responsible for: what each response used, once, under a key that copies of it share. Must not: know
//! to which message it belongs.

use super::rows::{Row, Tokens, object, owned};
use segno_model::record::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a response used, and what identifies it.
#[derive(Debug, Clone)]
pub(super) struct Spent {
    pub(super) usage: Usage,
    pub(super) response: Option<String>,
}

/// Tokens as Codex counts them: cached input is part of the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Counted {
    input_tokens: u64,
    cached_input_tokens: u64,
    cache_write_input_tokens: u64,
    output_tokens: u64,
    reasoning_output_tokens: u64,
    total_tokens: u64,
}

impl Counted {
    fn read(raw: Option<&RawValue>) -> Option<Self> {
        object(raw)
    }

    fn since(self, before: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            cached_input_tokens: self
                .cached_input_tokens
                .saturating_sub(before.cached_input_tokens),
            cache_write_input_tokens: self
                .cache_write_input_tokens
                .saturating_sub(before.cache_write_input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            reasoning_output_tokens: self
                .reasoning_output_tokens
                .saturating_sub(before.reasoning_output_tokens),
            total_tokens: self.total_tokens.saturating_sub(before.total_tokens),
        }
    }

    fn usage(self) -> Usage {
        let cached = self.cached_input_tokens.saturating_add(self.cache_write_input_tokens);
        Usage {
            input: self.input_tokens.saturating_sub(cached),
            output: self.output_tokens,
            cache_read: self.cached_input_tokens,
            cache_write: self.cache_write_input_tokens,
            reasoning: (self.reasoning_output_tokens > 0).then_some(self.reasoning_output_tokens),
        }
    }
}

/// The totals so far.
#[derive(Debug, Default)]
pub(super) struct Totals {
    total: Counted,
    /// Newer files tell each response by itself; then totals tell nothing more.
    single: bool,
    /// The session goes on with the totals of another one.
    pub(super) inherits: bool,
}

impl Totals {
    /// A `token_usage_record`: one response.
    pub(super) fn response(&mut self, row: &Row<'_>) -> Option<Spent> {
        let tokens: Tokens<'_> = object(row.payload)?;
        self.single = true;
        let usage = Counted::read(tokens.usage)?.usage();
        Some(Spent { usage, response: owned(tokens.response) })
    }

    /// The `info` of a `token_count`: what was used since the one before, if anything. `thread` is the
    /// session that counted.
    pub(super) fn count(&mut self, info: Option<&RawValue>, thread: &str) -> Option<Spent> {
        let tokens: Tokens<'_> = object(info)?;
        let total = Counted::read(tokens.total)?;
        let before = std::mem::replace(&mut self.total, total);
        if self.single || total == before {
            return None;
        }
        // After some resumes the count begins again. Of an inherited total nobody knows the beginning.
        let began_again = total.total_tokens < before.total_tokens;
        let unknown = self.inherits && before == Counted::default();
        let spent = match Counted::read(tokens.last) {
            Some(last) if began_again || unknown => last,
            _ => total.since(before),
        };
        let usage = spent.usage();
        let response = Some(format!("{thread}:{}", total.total_tokens));
        (usage != Usage::default()).then_some(Spent { usage, response })
    }
}
