//! Permission questions, in the terminal.
//!
//! Responsible for: showing what is about to happen so that it is seen as it is, the keys that answer, and
//! saving what counts from now on. Must not: decide what may be answered (the offers say that).

use super::keyboard::{Entered, Keyboard, Pressed};
use crate::config;
use crate::engine::Signals;
use crate::terminal::{Screen, Text, Tone, clean, diff};
use segno_agent::permission::{Offers, PrefixRule};
use segno_agent::tool::{Asker, Asking, Question, Reply};
use std::path::PathBuf;

/// How many lines of a change are shown with its question.
const PREVIEW_LINES: usize = 40;

/// Asks in the terminal.
#[derive(Clone)]
pub struct TerminalAsker {
    keyboard: Keyboard,
    signals: Signals,
    /// The user's configuration, where rules are saved.
    config: PathBuf,
}

impl TerminalAsker {
    /// Asks with this keyboard.
    #[must_use]
    pub fn new(keyboard: Keyboard, signals: Signals, config: PathBuf) -> Self {
        Self { keyboard, signals, config }
    }

    async fn put(&self, text: &str, offers: &Offers) -> Reply {
        let mut lines = shown(text, Screen::stdout().look().columns);
        lines.extend(choices(offers));
        let reply = match self.keyboard.choose(lines, &keys(offers)).await {
            Pressed::Key('y') => Reply::Once,
            Pressed::Key('s') => Reply::Session,
            Pressed::Key('a') => Reply::Always,
            Pressed::Key(_) => Reply::No { reason: self.reason().await },
            Pressed::Escape => Reply::No { reason: None },
            Pressed::Interrupt => self.stop().await,
            Pressed::Gone => self.hang_up().await,
        };
        let mut screen = Screen::stdout();
        screen.line(Text::default().with(Tone::Dim, &format!("  → {}", said(&reply))));
        screen.flush();
        reply
    }

    async fn reason(&self) -> Option<String> {
        match self.keyboard.line("  why not? (Enter: no reason)").await {
            Entered::Line(line) => Some(line.trim().to_owned()).filter(|l| !l.is_empty()),
            Entered::Escape => None,
            Entered::Interrupt => self.stop().await,
            Entered::Gone => self.hang_up().await,
        }
    }

    /// Ctrl-C at a question stops the turn; the run no longer waits for an answer then.
    async fn stop<T>(&self) -> T {
        self.signals.interrupt();
        std::future::pending().await
    }

    async fn hang_up<T>(&self) -> T {
        self.signals.hang_up();
        std::future::pending().await
    }
}

impl Asker for TerminalAsker {
    fn ask<'a>(&'a self, question: Question<'a>) -> Asking<'a> {
        Box::pin(self.put(question.text, question.offers))
    }

    fn save(&self, rules: &[PrefixRule]) {
        let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
        if let Err(error) = config::add_rules(&self.config, &rules) {
            let mut screen = Screen::stderr();
            screen
                .line(Text::line(Tone::Warning, "This counts until segno ends, but is not saved:"));
            error.print(&mut screen);
            screen.flush();
        }
    }
}

/// What is about to happen. A change is shown as one; anything else with every character that could hide
/// something made visible.
fn shown(text: &str, columns: usize) -> Vec<Text> {
    let (head, change) = match text.find("\n--- ") {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    };
    let mut lines = vec![Text::default()];
    for (i, line) in head.lines().enumerate() {
        let tone = if i == 0 { Tone::Warning } else { Tone::Plain };
        lines.push(
            Text::default()
                .with(tone, if i == 0 { "? " } else { "  " })
                .with(tone, &clean::reveal(line)),
        );
    }
    let width = columns.saturating_sub(2);
    let indented = |line| Text::default().with(Tone::Plain, "  ").with_text(line);
    lines.extend(diff::show(change, width, PREVIEW_LINES).into_iter().map(indented));
    lines
}

fn keys(offers: &Offers) -> String {
    let mut keys = "yn".to_owned();
    if offers.session.is_some() {
        keys.push('s');
    }
    if !offers.always.is_empty() {
        keys.push('a');
    }
    keys
}

fn choices(offers: &Offers) -> Vec<Text> {
    let choice = |key: &str, what: &str| {
        Text::default()
            .with(Tone::Accent, &format!("  {key}"))
            .with(Tone::Plain, &format!("  {what}"))
    };
    let mut lines = vec![choice("y", "yes, once")];
    if let Some(session) = &offers.session {
        let what = clean::reveal(session).replace('\n', " ");
        lines.push(choice("s", &format!("yes, and for this session {what}")));
    }
    if !offers.always.is_empty() {
        let rules: Vec<String> =
            offers.always.iter().map(|rule| clean::reveal(&format!("`{rule}`"))).collect();
        lines.push(choice("a", &format!("yes, and always commands like {}", rules.join(", "))));
    }
    lines.push(choice("n", "no"));
    lines
}

fn said(reply: &Reply) -> &'static str {
    match reply {
        Reply::Once => "yes, once",
        Reply::Session => "yes, for this session",
        Reply::Always => "yes, always",
        Reply::No { reason: None } => "no",
        Reply::No { reason: Some(_) } => "no, with that reason",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[Text]) -> String {
        lines.iter().map(Text::plain).collect::<Vec<_>>().join("\n")
    }

    /// Covers: G17, #163.
    #[test]
    fn a_question_shows_what_could_hide_something() {
        let lines = text(&shown("Run: ls \u{1b}[2J\u{202e}x\r\n(a doubt)", 80));
        assert!(!lines.contains('\u{1b}') && !lines.contains('\u{202e}'), "{lines:?}");
        assert!(lines.contains("(a doubt)"));
    }

    #[test]
    fn only_what_is_offered_can_be_answered() {
        let rule = PrefixRule::parse("cargo test").into_iter().collect::<Vec<_>>();
        let cases = [
            (Offers::default(), "yn", "  y  yes, once\n  n  no"),
            (
                Offers { session: Some("exactly this command: x\ny".to_owned()), always: rule },
                "ynsa",
                "  y  yes, once\n  s  yes, and for this session exactly this command: x y\n  a  yes, \
                 and always commands like `cargo test`\n  n  no",
            ),
        ];
        for (offers, expected_keys, expected) in cases {
            assert_eq!(keys(&offers), expected_keys);
            assert_eq!(text(&choices(&offers)), expected);
        }
    }
}
