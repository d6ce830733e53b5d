//! Text with meaning, and what the terminal can do with it.
//!
//! Responsible for: [`Text`], which is clean by construction, the tones that text can have, and whether
//! colours are wanted (NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM, pipes). Must not: write anything.

use super::clean;

/// What a piece of text means; how that looks is decided here and nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tone {
    /// Ordinary text.
    #[default]
    Plain,
    /// Less important: hints, markers, counts.
    Dim,
    /// Emphasis.
    Strong,
    /// Slight emphasis.
    Italic,
    /// A heading.
    Heading,
    /// A name that stands out: a command, an id, a tool.
    Accent,
    /// Code.
    Code,
    /// A link's text.
    Link,
    /// It worked; an added line.
    Good,
    /// It failed; a removed line.
    Bad,
    /// Look here.
    Warning,
    /// The selected row of a picker.
    Selected,
}

impl Tone {
    /// The parameters of the SGR sequence; the sixteen basic colours only, so that themes decide.
    #[must_use]
    pub fn sgr(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Dim => "2",
            Self::Strong => "1",
            Self::Italic => "3",
            Self::Heading => "1;36",
            Self::Accent => "36",
            Self::Code => "33",
            Self::Link => "4;34",
            Self::Good => "32",
            Self::Bad => "31",
            Self::Warning => "1;33",
            Self::Selected => "7",
        }
    }
}

/// Text in tones, free of control characters other than `\n` and `\t`. Outside of this layer there is
/// no way to make one that is not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    spans: Vec<(Tone, String)>,
}

impl Text {
    /// One line in one tone; see [`clean::line`].
    #[must_use]
    pub fn line(tone: Tone, text: &str) -> Self {
        Self { spans: vec![(tone, clean::line(text))] }
    }

    /// Many lines in one tone; see [`clean::block`].
    #[must_use]
    pub fn block(tone: Tone, text: &str) -> Self {
        Self { spans: vec![(tone, clean::block(text))] }
    }

    /// Adds text as it stands (spaces are kept), cleaned as a block.
    #[must_use]
    pub fn with(mut self, tone: Tone, text: &str) -> Self {
        self.add(tone, text);
        self
    }

    /// Adds text as it stands (spaces are kept), cleaned as a block.
    pub fn add(&mut self, tone: Tone, text: &str) {
        self.add_cleaned(tone, &clean::block(text));
    }

    /// Adds what a [`clean::Stream`] gave. Cleaning it again would judge its pieces without their
    /// neighbours.
    pub(super) fn add_cleaned(&mut self, tone: Tone, text: &str) {
        debug_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        match self.spans.last_mut() {
            _ if text.is_empty() => {}
            Some((last, held)) if *last == tone => held.push_str(text),
            _ => self.spans.push((tone, text.to_owned())),
        }
    }

    /// Adds another text behind this one.
    pub fn append(&mut self, other: Self) {
        for (tone, text) in other.spans {
            self.add_cleaned(tone, &text);
        }
    }

    /// With another text behind this one.
    #[must_use]
    pub fn with_text(mut self, other: Self) -> Self {
        self.append(other);
        self
    }

    /// Whether there is nothing to show.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.iter().all(|(_, text)| text.is_empty())
    }

    /// How many columns it takes, if it is one line.
    #[must_use]
    pub fn width(&self) -> usize {
        self.spans.iter().map(|(_, text)| clean::width(text)).sum()
    }

    /// The text without its tones.
    #[must_use]
    pub fn plain(&self) -> String {
        self.spans.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Every character in this tone.
    #[must_use]
    pub fn in_tone(self, tone: Tone) -> Self {
        Self { spans: vec![(tone, self.plain())] }
    }

    /// Cut to so many columns, if it is one line.
    #[must_use]
    pub fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut out = Self::default();
        let mut left = columns;
        for (tone, text) in self.spans {
            let width = clean::width(&text);
            // What follows will be cut off, so one column is needed for the mark that says so.
            if width < left {
                left -= width;
                out.spans.push((tone, text));
            } else {
                out.spans.push((tone, clean::cut(&(text + "…"), left)));
                break;
            }
        }
        out
    }

    /// What is written to the terminal: with SGR sequences, each closed before a line ends.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let mut out = String::new();
        for (tone, text) in &self.spans {
            if !colour || tone.sgr().is_empty() {
                out.push_str(text);
                continue;
            }
            for piece in text.split_inclusive('\n') {
                let (body, end) = piece.strip_suffix('\n').map_or((piece, ""), |body| (body, "\n"));
                if !body.is_empty() {
                    out.push_str("\x1b[");
                    out.push_str(tone.sgr());
                    out.push('m');
                    out.push_str(body);
                    out.push_str("\x1b[0m");
                }
                out.push_str(end);
            }
        }
        out
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::block(Tone::Plain, text)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::block(Tone::Plain, &text)
    }
}

/// What the place that output goes to can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Whether colours are wanted.
    pub colour: bool,
    /// How many columns a line may take.
    pub columns: usize,
    /// Whether it is a terminal.
    pub terminal: bool,
    /// Whether it is a terminal that can move its cursor.
    pub full: bool,
}

/// Columns where nobody says how many there are.
const COLUMNS_DEFAULT: usize = 80;
/// Columns of a file or a pipe: enough for a listing, still readable.
const COLUMNS_PIPE: usize = 120;
/// Nothing is laid out for less.
const COLUMNS_MIN: usize = 20;

impl Look {
    /// Decides from the environment. `size` is what the terminal said.
    ///
    /// NO_COLOR wins over everything; CLICOLOR_FORCE wins over a pipe and over TERM=dumb.
    #[must_use]
    pub fn detect(env: &dyn Fn(&str) -> Option<String>, terminal: bool, size: Option<u16>) -> Self {
        let set = |name: &str| env(name).is_some_and(|value| !value.is_empty());
        let dumb = env("TERM").is_some_and(|term| term == "dumb");
        let forced = env("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
        let off = env("CLICOLOR").is_some_and(|value| value == "0");
        let colour = !set("NO_COLOR") && (forced || (terminal && !dumb && !off));
        let said = size.map(usize::from).filter(|n| terminal && *n > 0);
        let asked = env("COLUMNS").and_then(|text| text.parse::<usize>().ok()).filter(|n| *n > 0);
        let fallback = if terminal { COLUMNS_DEFAULT } else { COLUMNS_PIPE };
        let columns = said.or(asked).unwrap_or(fallback).clamp(COLUMNS_MIN, 1000);
        Self { colour, columns, terminal, full: terminal && !dumb }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(env: &[(&str, &str)], terminal: bool) -> Look {
        let get = |name: &str| {
            env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        Look::detect(&get, terminal, Some(100))
    }

    #[test]
    fn colours_obey_the_environment_and_pipes() {
        type Row = (&'static [(&'static str, &'static str)], bool, bool);
        let rows: &[Row] = &[
            (&[], true, true),
            (&[], false, false),
            (&[("NO_COLOR", "1")], true, false),
            (&[("NO_COLOR", "")], true, true),
            (&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true, false),
            (&[("CLICOLOR_FORCE", "1")], false, true),
            (&[("CLICOLOR_FORCE", "0")], false, false),
            (&[("CLICOLOR", "0")], true, false),
            (&[("CLICOLOR", "0"), ("CLICOLOR_FORCE", "1")], true, true),
            (&[("TERM", "dumb")], true, false),
            (&[("TERM", "dumb"), ("CLICOLOR_FORCE", "1")], true, true),
            (&[("TERM", "xterm")], true, true),
        ];
        for (env, terminal, colour) in rows {
            assert_eq!(look(env, *terminal).colour, *colour, "{env:?} terminal={terminal}");
        }
        assert!(!look(&[("TERM", "dumb")], true).full);
    }

    #[test]
    fn width_comes_from_the_terminal_then_columns_then_a_default() {
        assert_eq!(look(&[("COLUMNS", "50")], true).columns, 100);
        assert_eq!(look(&[("COLUMNS", "50")], false).columns, 50);
        assert_eq!(look(&[("COLUMNS", "3")], false).columns, COLUMNS_MIN);
        assert_eq!(look(&[("COLUMNS", "x")], false).columns, COLUMNS_PIPE);
        assert_eq!(Look::detect(&|_| None, true, None).columns, COLUMNS_DEFAULT);
        assert_eq!(Look::detect(&|_| None, true, Some(0)).columns, COLUMNS_DEFAULT);
    }

    #[test]
    fn a_style_never_crosses_a_line_end() {
        let text = Text::block(Tone::Good, "a\n\nb").with(Tone::Plain, "c");
        assert_eq!(text.render(true), "\x1b[32ma\x1b[0m\n\n\x1b[32mb\x1b[0mc");
        assert_eq!(text.render(false), "a\n\nbc");
    }

    #[test]
    fn styled_text_is_cut_by_columns() {
        let text = Text::line(Tone::Good, "ab").with(Tone::Bad, "界cd");
        for columns in 0..8 {
            let cut = text.clone().cut(columns);
            assert!(cut.width() <= columns, "{columns}: {cut:?}");
        }
        assert_eq!(text.clone().cut(6).plain(), "ab界cd");
        assert_eq!(text.clone().cut(5).plain(), "ab界…");
        assert_eq!(text.clone().cut(3).plain(), "ab…");
        assert_eq!(text.cut(2).plain(), "a…");
    }

    /// Covers: G17.
    #[test]
    fn every_way_to_make_text_cleans_it() {
        let hostile = "a\x1b]0;t\x07b\u{9b}31mc";
        for text in [
            Text::line(Tone::Plain, hostile),
            Text::block(Tone::Plain, hostile),
            Text::default().with(Tone::Bad, hostile),
            Text::from(hostile),
            Text::from(hostile.to_owned()),
        ] {
            assert_eq!(text.plain(), "abc");
        }
    }
}
