//! Servers of tools, with a person there.
//!
//! Responsible for: asking once about each server that a project's file names, and telling what did not come
//! up. Must not: start one that was not approved.

use super::keyboard::{Keyboard, Pressed};
use super::opening::key_line;
use crate::engine::{Engine, tell_servers};
use crate::error::CliError;
use crate::terminal::{Screen, Text, Tone, clean};

/// Starts the servers of the place where the engine is now, unless they run.
///
/// # Errors
/// When an approval cannot be kept.
pub(super) async fn start(
    engine: &mut Engine,
    keyboard: &Keyboard,
    screen: &mut Screen,
) -> Result<(), CliError> {
    if !engine.needs_servers() {
        return Ok(());
    }
    let offered = engine.offered_servers();
    let mut ready = offered.ready;
    for server in offered.unapproved {
        let name = clean::line(&server.config.name);
        let lines = vec![
            Text::line(
                Tone::Warning,
                &format!("This project's .mcp.json names the server {name}, which offers tools:"),
            ),
            Text::line(Tone::Plain, &server.shown()),
            key_line("y", "start it, now and from now on; another entry asks again"),
            key_line("n", "not now"),
        ];
        if keyboard.choose(lines, "yn").await == Pressed::Key('y') {
            engine.approve(&server)?;
            ready.push(server.config);
        }
    }
    let late = engine.start_servers(ready).await;
    tell_servers(offered.troubles.iter().chain(&late), screen);
    Ok(())
}
