//! Choosing one row of a list with the keyboard, as `segno resume` does.
//!
//! Responsible for: [`Picker`], a pure state machine (keys in, lines out), and [`pick`], which connects
//! it to a terminal and puts that back as it was on every way out. Must not: know what the rows are.

use super::clean;
use super::style::{Look, Text, Tone};
use super::table::{Column, Table};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::{cursor, execute, queue, terminal};
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

/// What the keyboard says, in the picker's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character for the filter.
    Char(char),
    /// Takes the filter's last character away.
    Backspace,
    /// Empties the filter.
    Clear,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// The first row.
    Home,
    /// The last row.
    End,
    /// Shows what lies below other rows, or hides it.
    Unfold,
    /// This one.
    Enter,
    /// None.
    Leave,
}

impl Key {
    /// What a key event means; nothing for the many that mean nothing here.
    #[must_use]
    pub fn from_event(event: &KeyEvent) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        let alt = event.modifiers.contains(KeyModifiers::ALT);
        match event.code {
            KeyCode::Char('c' | 'd' | 'g') if control => Some(Self::Leave),
            KeyCode::Char('p' | 'k') if control => Some(Self::Up),
            KeyCode::Char('n' | 'j') if control => Some(Self::Down),
            KeyCode::Char('u') if control => Some(Self::Clear),
            KeyCode::Char('h') if control => Some(Self::Backspace),
            KeyCode::Char(c) if !control && !alt => Some(Self::Char(c)),
            KeyCode::Backspace => Some(Self::Backspace),
            KeyCode::Up => Some(Self::Up),
            KeyCode::Down => Some(Self::Down),
            KeyCode::PageUp => Some(Self::PageUp),
            KeyCode::PageDown => Some(Self::PageDown),
            KeyCode::Home => Some(Self::Home),
            KeyCode::End => Some(Self::End),
            KeyCode::Tab => Some(Self::Unfold),
            KeyCode::Enter => Some(Self::Enter),
            KeyCode::Esc => Some(Self::Leave),
            _ => None,
        }
    }
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Go on.
    Stay,
    /// This row was chosen; it counts in the order in which rows were added.
    Picked(usize),
    /// None was chosen.
    Left,
}

#[derive(Debug, Clone)]
struct Row {
    cells: Vec<Text>,
    /// What the filter looks at, in lower case.
    haystack: String,
    /// Whether it lies below the row before it, and is hidden at first.
    below: bool,
}

/// A list, a filter and a selected row.
#[derive(Debug, Clone)]
pub struct Picker {
    title: String,
    verb: &'static str,
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// What rows that lie below others are, and whether they are shown.
    below: Option<&'static str>,
    unfolded: bool,
    filter: String,
    /// Rows that the filter lets through.
    matches: Vec<usize>,
    /// Index into `matches`.
    selected: usize,
    width: usize,
    height: usize,
}

impl Picker {
    /// An empty list. `verb` says what Enter does: "resume".
    #[must_use]
    pub fn new(title: &str, verb: &'static str, columns: Vec<Column>) -> Self {
        Self {
            title: clean::line(title),
            verb,
            columns,
            rows: Vec::new(),
            below: None,
            unfolded: false,
            filter: String::new(),
            matches: Vec::new(),
            selected: 0,
            width: 80,
            height: 24,
        }
    }

    /// Adds a row; callers add the newest first. `more` is found by the filter without being shown.
    pub fn row(&mut self, cells: Vec<Text>, more: &str) {
        self.matches.push(self.rows.len());
        self.add(cells, more, false);
    }

    /// Adds a row that lies below the one before it, and is hidden until it is asked for; `what` such rows are.
    pub fn row_below(&mut self, cells: Vec<Text>, more: &str, what: &'static str) {
        self.below = Some(what);
        self.add(cells, more, true);
    }

    fn add(&mut self, cells: Vec<Text>, more: &str, below: bool) {
        let shown: Vec<String> = cells.iter().map(Text::plain).collect();
        let haystack = format!("{} {}", shown.join(" "), clean::line(more)).to_lowercase();
        self.rows.push(Row { cells, haystack, below });
    }

    /// The terminal has this size now.
    pub fn resize(&mut self, width: usize, height: usize) {
        (self.width, self.height) = (width, height);
    }

    /// Takes a key.
    pub fn key(&mut self, key: Key) -> Step {
        let last = self.matches.len().saturating_sub(1);
        match key {
            Key::Leave => return Step::Left,
            Key::Enter => {
                return self
                    .matches
                    .get(self.selected)
                    .map_or(Step::Stay, |row| Step::Picked(*row));
            }
            Key::Up => self.selected = self.selected.saturating_sub(1),
            Key::Down => self.selected = (self.selected + 1).min(last),
            Key::PageUp => self.selected = self.selected.saturating_sub(self.page()),
            Key::PageDown => self.selected = (self.selected + self.page()).min(last),
            Key::Home => self.selected = 0,
            Key::End => self.selected = last,
            Key::Char(c) if clean::is_shown(c) => {
                self.filter.push(c);
                self.search();
            }
            Key::Char(_) => {}
            Key::Unfold => {
                self.unfolded = !self.unfolded;
                self.search();
            }
            Key::Backspace => {
                self.filter.pop();
                self.search();
            }
            Key::Clear => {
                self.filter.clear();
                self.search();
            }
        }
        Step::Stay
    }

    /// Every word of the filter occurs somewhere in the row. The selected row stays selected if it is
    /// still there.
    fn search(&mut self) {
        let kept = self.matches.get(self.selected).copied();
        let wanted = self.filter.to_lowercase();
        let words: Vec<&str> = wanted.split_whitespace().collect();
        self.matches = (0..self.rows.len())
            .filter(|i| self.unfolded || !self.rows[*i].below)
            .filter(|i| words.iter().all(|word| self.rows[*i].haystack.contains(word)))
            .collect();
        self.selected = self.matches.iter().position(|i| Some(*i) == kept).unwrap_or(0);
    }

    /// How many rows fit: title, filter, column titles and the help line take one line each.
    fn page(&self) -> usize {
        self.height.saturating_sub(4).max(1)
    }

    /// The screen as lines, as many as it has.
    #[must_use]
    pub fn render(&self) -> Vec<Text> {
        let page = self.page();
        let top = self.selected / page * page;
        let visible = &self.matches[top..self.matches.len().min(top + page)];
        let inner = self.width.saturating_sub(2);
        let mut table = Table::new(self.columns.clone());
        for i in visible {
            table.row(self.rows[*i].cells.iter().cloned());
        }
        let (header, rows) = table.render(inner);
        let mut lines = vec![self.title_line(), self.filter_line()];
        if visible.is_empty() {
            lines.push(Text::default());
            lines.push(Text::default().with(Tone::Dim, self.empty_sentence()));
        } else {
            lines.push(Text::default().with(Tone::Plain, "  ").with(Tone::Dim, &header.plain()));
        }
        for (i, row) in rows.into_iter().enumerate() {
            lines.push(self.row_line(row, top + i == self.selected));
        }
        lines.resize(self.height.saturating_sub(1).max(3), Text::default());
        lines.push(self.help_line());
        lines.truncate(self.height);
        lines.into_iter().map(|line| line.cut(self.width)).collect()
    }

    fn title_line(&self) -> Text {
        let all = self.rows.iter().filter(|row| self.unfolded || !row.below).count();
        let count = if self.matches.len() == all {
            format!("{all}")
        } else {
            format!("{} of {all}", self.matches.len())
        };
        Text::line(Tone::Strong, &self.title).with(Tone::Dim, &format!("  {count}"))
    }

    /// The end of a long filter is what is being typed, so that is what stays visible.
    fn filter_line(&self) -> Text {
        let room = self.width.saturating_sub(3);
        let mut shown = self.filter.as_str();
        while clean::width(shown) > room {
            let mut chars = shown.chars();
            chars.next();
            shown = chars.as_str();
        }
        Text::default().with(Tone::Accent, "> ").with(Tone::Plain, shown)
    }

    fn row_line(&self, row: Text, selected: bool) -> Text {
        if !selected {
            return Text::default().with(Tone::Plain, "  ").with_text(row);
        }
        let padding = " ".repeat(self.width.saturating_sub(2 + row.width()));
        Text::default()
            .with(Tone::Plain, "> ")
            .with_text(row)
            .with(Tone::Plain, &padding)
            .in_tone(Tone::Selected)
    }

    fn help_line(&self) -> Text {
        let below = match self.below {
            Some(what) if self.unfolded => format!("Tab without {what} · "),
            Some(what) => format!("Tab with {what} · "),
            None => String::new(),
        };
        let short = format!("Enter {} · Esc leave", self.verb);
        let long = format!("type to filter · ↑↓ choose · {below}{short}");
        let fits = |help: &String| clean::width(help) <= self.width;
        let help = [long, format!("{below}{short}")].into_iter().find(fits).unwrap_or(short);
        Text::line(Tone::Dim, &help)
    }

    fn empty_sentence(&self) -> &'static str {
        if self.rows.is_empty() {
            "  Nothing to choose from."
        } else {
            "  Nothing fits the filter."
        }
    }
}

/// Why nothing could be picked.
#[derive(Debug, thiserror::Error)]
pub enum PickError {
    /// Input or output is not a terminal that can show a list.
    #[error("choosing from a list needs a terminal")]
    NotATerminal,
    /// The terminal failed.
    #[error("the terminal failed: {0}")]
    Io(#[from] io::Error),
}

/// Shows the list and waits for a choice; `None` if none was made. `interrupted` is asked several times a
/// second, so that a signal can end the wait.
///
/// # Errors
/// [`PickError`].
pub fn pick(
    mut picker: Picker,
    look: Look,
    interrupted: &dyn Fn() -> bool,
) -> Result<Option<usize>, PickError> {
    if !look.full || !io::stdin().is_terminal() {
        return Err(PickError::NotATerminal);
    }
    let mut out = io::stdout();
    let _restore = FullScreen::enter(&mut out)?;
    let (width, height) = terminal::size()?;
    picker.resize(width.into(), height.into());
    paint(&mut out, &picker, look)?;
    while !interrupted() {
        if !event::poll(Duration::from_millis(100))? {
            continue;
        }
        let keys = match event::read()? {
            Event::Key(event) => Key::from_event(&event).into_iter().collect(),
            Event::Paste(text) => clean::line(&text).chars().map(Key::Char).collect(),
            Event::Resize(width, height) => {
                picker.resize(width.into(), height.into());
                Vec::new()
            }
            _ => continue,
        };
        for key in keys {
            match picker.key(key) {
                Step::Stay => {}
                Step::Picked(row) => return Ok(Some(row)),
                Step::Left => return Ok(None),
            }
        }
        paint(&mut out, &picker, look)?;
    }
    Ok(None)
}

/// Everything in one write, each line cleared before it is written: clearing behind a line that fills
/// the width would take its last character.
fn paint(out: &mut impl Write, picker: &Picker, look: Look) -> io::Result<()> {
    let mut frame = Vec::new();
    for (row, line) in (0_u16..).zip(picker.render()) {
        queue!(frame, cursor::MoveTo(0, row), terminal::Clear(terminal::ClearType::UntilNewLine))?;
        frame.extend_from_slice(line.render(look.colour).as_bytes());
    }
    let column = u16::try_from(picker.filter_line().width()).unwrap_or(u16::MAX);
    queue!(frame, cursor::MoveTo(column, 1))?;
    out.write_all(&frame)?;
    out.flush()
}

/// The terminal in raw mode on its second screen; put back when this goes, also by `?` or a panic.
struct FullScreen;

impl FullScreen {
    fn enter(out: &mut impl Write) -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let guard = Self;
        execute!(out, terminal::EnterAlternateScreen, event::EnableBracketedPaste)?;
        Ok(guard)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        // There is nobody to tell if the terminal is gone.
        let _ = execute!(
            io::stdout(),
            event::DisableBracketedPaste,
            terminal::LeaveAlternateScreen,
            cursor::Show
        );
        let _ = terminal::disable_raw_mode();
    }
}
