//! One line of a script, taken word by word.
//!
//! Responsible for: words, quoted strings, numbers and JSON values, and errors that name the line.
//! Must not: know any statement.

use super::ScriptError;
use serde_json::Value;
use std::time::Duration;

/// What is left of a line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    number: usize,
    rest: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn new(number: usize, text: &'a str) -> Self {
        Self { number, rest: text.trim() }
    }

    pub(super) fn error(&self, message: impl Into<String>) -> ScriptError {
        ScriptError { line: self.number, message: message.into() }
    }

    /// Whether nothing (but a comment) is left.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty() || self.rest.starts_with('#')
    }

    /// The next word, or an empty one at the end.
    pub(super) fn word(&mut self) -> &'a str {
        if self.is_empty() {
            return "";
        }
        let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    /// Takes this word if it comes next.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let found = self.rest.split_whitespace().next() == Some(word);
        if found {
            self.word();
        }
        found
    }

    /// Requires this word.
    pub(super) fn expect(&mut self, word: &str) -> Result<(), ScriptError> {
        if self.take(word) { Ok(()) } else { Err(self.error(format!("expected `{word}`"))) }
    }

    pub(super) fn at_string(&self) -> bool {
        self.rest.starts_with('"')
    }

    /// A string in JSON's quotes and escapes.
    pub(super) fn string(&mut self) -> Result<String, ScriptError> {
        if !self.at_string() {
            return Err(self.error("expected a text in double quotes"));
        }
        match self.json()? {
            Value::String(text) => Ok(text),
            _ => Err(self.error("expected a text in double quotes")),
        }
    }

    /// A JSON value.
    pub(super) fn json(&mut self) -> Result<Value, ScriptError> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let end = values.byte_offset();
                self.rest = self.rest.get(end..).unwrap_or_default().trim_start();
                Ok(value)
            }
            Some(Err(error)) => Err(self.error(format!("not JSON: {error}"))),
            None => Err(self.error("expected a JSON value")),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, ScriptError> {
        let word = self.word();
        word.parse().map_err(|_| self.error(format!("expected a number, found `{word}`")))
    }

    pub(super) fn count(&mut self) -> Result<usize, ScriptError> {
        let number = self.number()?;
        usize::try_from(number).map_err(|_| self.error("this number is too large"))
    }

    /// A time such as `50ms` or `2s`, at most an hour.
    pub(super) fn duration(&mut self) -> Result<Duration, ScriptError> {
        let word = self.word();
        let ms = match word.strip_suffix("ms") {
            Some(number) => number.parse::<u64>().ok(),
            None => word.strip_suffix('s').and_then(|s| s.parse::<u64>().ok()?.checked_mul(1000)),
        };
        match ms {
            Some(ms) if ms <= 3_600_000 => Ok(Duration::from_millis(ms)),
            _ => Err(self.error(format!("expected a time such as `50ms` or `2s`, not `{word}`"))),
        }
    }

    /// Everything that is left.
    pub(super) fn remainder(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    /// Requires the end of the line.
    pub(super) fn end(&self) -> Result<(), ScriptError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(self.error(format!("`{}` is not understood here", self.rest)))
        }
    }
}
