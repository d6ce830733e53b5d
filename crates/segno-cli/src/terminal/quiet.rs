//! A terminal that does not show what is typed, while something else is shown.
//!
//! Responsible for: switching echo off and on again, with Tab as a key that ends a line, also on the way out of
//! the process. Must not: read
//! keys; what is typed stays with the terminal for whoever reads next.

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use std::io::{IsTerminal as _, stdin};
use std::sync::{Mutex, PoisonError};

/// How the terminal was.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// While this lives, typed text is not echoed.
#[derive(Debug)]
pub struct Quiet(());

impl Quiet {
    /// Switches echo off, if standard input is a terminal.
    #[must_use]
    pub fn begin() -> Self {
        if stdin().is_terminal()
            && let Ok(now) = tcgetattr(stdin())
        {
            *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
            hush();
        }
        Self(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        restore();
    }
}

/// Switches echo off again, after the process was suspended and a shell had the terminal.
pub fn hush() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Ok(mut quiet)) = before.as_ref().map(|_| tcgetattr(stdin())) else { return };
    // A question is open that reads key by key.
    if !quiet.local_modes.contains(LocalModes::ICANON) {
        return;
    }
    quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
    // A second key that ends a line.
    quiet.special_codes[SpecialCodeIndex::VEOL] = b'\t';
    // A terminal that is gone shows nothing either.
    let _ = tcsetattr(stdin(), OptionalActions::Now, &quiet);
}

/// Puts the terminal back as it was; for a process that ends at once.
pub fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}
