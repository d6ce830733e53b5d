//! Single keys and short answers, read while the line editor is not in use.
//!
//! Responsible for: putting a question so that nothing typed before it was on the screen can answer it;
//! such text is kept for the next line. Must not: know what is asked.
//!
//! Reading blocks a thread of its own, which ends when nobody waits for the answer any more.

use crate::terminal::{Screen, Text, Tone, clean};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a reader looks whether its answer is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressed {
    /// One of the keys that were offered.
    Key(char),
    /// Esc.
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// The terminal is gone, or nobody waits any more.
    Gone,
}

/// What was entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entered {
    /// A line.
    Line(String),
    /// Esc.
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// The terminal is gone, or nobody waits any more.
    Gone,
}

/// The terminal's keys. Cloning gives another handle onto the same ones.
#[derive(Debug, Clone)]
pub struct Keyboard {
    shared: Arc<Shared>,
    /// Set when the process is to end: nothing is waited for then.
    leaving: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Shared {
    /// One reader at a time.
    terminal: Mutex<()>,
    typed_ahead: Mutex<String>,
}

impl Keyboard {
    /// The keys, until `leaving` is set.
    #[must_use]
    pub fn new(leaving: Arc<AtomicBool>) -> Self {
        Self { shared: Arc::default(), leaving }
    }

    /// The terminal, for somebody else who reads it; waits until its last reader has put it back.
    pub fn lend(&self) -> MutexGuard<'_, ()> {
        self.shared.terminal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The terminal, if nobody reads it now.
    pub fn lend_if_free(&self) -> Option<MutexGuard<'_, ()>> {
        self.shared.terminal.try_lock().ok()
    }

    /// What was typed before a question was shown.
    pub fn take_typed_ahead(&self) -> String {
        std::mem::take(&mut *self.typed_ahead())
    }

    /// Shows lines, rings the bell and waits for one of these keys.
    pub async fn choose(&self, lines: Vec<Text>, keys: &str) -> Pressed {
        let keys: Vec<char> = keys.chars().collect();
        self.read(lines, move |wanted| {
            loop {
                match next_key(wanted)? {
                    None => return Ok(Pressed::Gone),
                    Some(key) if is_interrupt(&key) => return Ok(Pressed::Interrupt),
                    Some(KeyEvent { code: KeyCode::Esc, .. }) => return Ok(Pressed::Escape),
                    Some(key) => {
                        // Ctrl-S, or a terminal's Ctrl-A, is no answer.
                        let c = typed(&key).map(|c| c.to_ascii_lowercase());
                        if let Some(c) = c.filter(|c| keys.contains(c)) {
                            return Ok(Pressed::Key(c));
                        }
                    }
                }
            }
        })
        .await
        .unwrap_or(Pressed::Gone)
    }

    /// Shows a label and reads one line behind it.
    pub async fn line(&self, label: &str) -> Entered {
        let label = Text::default().with(Tone::Dim, label);
        let entered = self.read(Vec::new(), move |wanted| {
            let mut screen = Screen::stdout();
            screen.text(label.with(Tone::Plain, " "));
            screen.flush();
            read_line(wanted, &mut screen)
        });
        let entered = entered.await.unwrap_or(Entered::Gone);
        let mut screen = Screen::stdout();
        screen.line("");
        screen.flush();
        entered
    }

    async fn read<T: Send + 'static>(
        &self,
        lines: Vec<Text>,
        read: impl FnOnce(&Wanted) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let given_up = GiveUp::default();
        let wanted = Wanted(Arc::clone(&given_up.0), Arc::clone(&self.leaving));
        let keyboard = self.clone();
        let answer = tokio::task::spawn_blocking(move || {
            let _terminal = keyboard.lend();
            keyboard.keep_typed_ahead()?;
            if !lines.is_empty() {
                let mut screen = Screen::stdout();
                screen.lines(lines);
                screen.bell();
                screen.flush();
            }
            let _raw = Raw::enter()?;
            read(&wanted)
        });
        answer.await.map_err(io::Error::other)?
    }

    /// Takes what was typed so far away from the question that comes now.
    fn keep_typed_ahead(&self) -> io::Result<()> {
        let _raw = Raw::enter()?;
        while event::poll(Duration::ZERO)? {
            let mut kept = self.typed_ahead();
            match event::read()? {
                Event::Paste(text) => kept.push_str(&text),
                Event::Key(key) => match typed(&key) {
                    Some(c) => kept.push(c),
                    None if key.code == KeyCode::Backspace => drop(kept.pop()),
                    None => {}
                },
                _ => {}
            }
        }
        Ok(())
    }

    fn typed_ahead(&self) -> MutexGuard<'_, String> {
        self.shared.typed_ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells a reader that nobody waits for its answer any more.
#[derive(Default)]
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        // What is written from now on belongs on an ordinary screen; the reader only sees it later.
        let _ = terminal::disable_raw_mode();
    }
}

/// Whether an answer is still wanted.
struct Wanted(Arc<AtomicBool>, Arc<AtomicBool>);

impl Wanted {
    fn is_over(&self) -> bool {
        self.0.load(Ordering::SeqCst) || self.1.load(Ordering::SeqCst)
    }
}

/// The terminal key by key; put back when this goes.
struct Raw;

impl Raw {
    fn enter() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        Ok(Self)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // There is nobody to tell if the terminal is gone.
        let _ = terminal::disable_raw_mode();
    }
}

/// The next key that was pressed; none when nobody waits for it.
fn next_key(wanted: &Wanted) -> io::Result<Option<KeyEvent>> {
    while !wanted.is_over() {
        if event::poll(LOOK_EVERY)?
            && let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
        {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

fn read_line(wanted: &Wanted, screen: &mut Screen) -> io::Result<Entered> {
    let mut line = String::new();
    loop {
        let Some(key) = next_key(wanted)? else { return Ok(Entered::Gone) };
        match key.code {
            _ if is_interrupt(&key) => return Ok(Entered::Interrupt),
            KeyCode::Esc => return Ok(Entered::Escape),
            KeyCode::Enter => return Ok(Entered::Line(line)),
            KeyCode::Backspace => {
                if let Some(c) = line.pop() {
                    screen.step_back(clean::width(c.encode_utf8(&mut [0; 4])));
                }
            }
            _ => match typed(&key) {
                Some('\n') => return Ok(Entered::Line(line)),
                Some(c) if clean::is_shown(c) => {
                    line.push(c);
                    screen.text(Text::default().with(Tone::Plain, c.encode_utf8(&mut [0; 4])));
                }
                _ => {}
            },
        }
        screen.flush();
    }
}

fn is_interrupt(key: &KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

/// The character that a key stands for in a line.
fn typed(key: &KeyEvent) -> Option<char> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Enter => Some('\n'),
        // Enter that was pressed while the terminal collected lines.
        KeyCode::Char('j') if control => Some('\n'),
        KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => Some(c),
        _ => None,
    }
}
