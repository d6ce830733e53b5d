//! `segno compact SESSION [INSTRUCTIONS]`: the history in a session's context becomes a summary.
//!
//! Responsible for: doing so from a script, and telling what it came to. Must not: settle interrupted work on
//! the way, or decide what is kept.

use crate::args::{AgentArgs, CompactArgs};
use crate::engine::{Engine, Signals, Wanted, undecided};
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::terminal::table::count;
use crate::terminal::{Screen, Text, Tone};
use segno_agent::permission::Mode;
use segno_model::record::Policy;
use serde_json::json;

/// Compacts a session.
///
/// # Errors
/// When it is not found, held or damaged, was interrupted, or when no summary could be made; nothing has
/// changed then.
pub async fn compact(
    args: &CompactArgs,
    home: Home,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let mut engine = Engine::load(home).await?;
    let id = engine.stores.find(&args.session, &engine.cwd).await?;
    let session = engine.open_sound(&id).await?;
    engine.enter(&session).await?;
    if session.standing().is_open() {
        return Err(undecided(&engine.stores.home, &id, Policy::Ask));
    }
    let stored = session.state().in_force.clone();
    let wanted = AgentArgs {
        model: args.model.clone(),
        base_url: args.base_url.clone(),
        ..AgentArgs::default()
    };
    let wanted = Wanted::decide(&wanted, Some(&stored), &engine.config)?;
    let choice = wanted.settle(&engine.credentials).await?;
    let model = choice.connect(&engine.credentials)?;
    let mut agent = engine.agent(session, Mode::ReadOnly, None);
    let signals = Signals::listen().map_err(|e| crate::engine::no_signals(&e))?;
    let focus = args.instructions.join(" ");
    let focus = Some(focus.as_str()).filter(|focus| !focus.trim().is_empty());
    let stop = signals.begin_turn();
    let compacted = agent.compact(&model, &choice.model, focus, &stop, &mut ()).await;
    signals.end_turn();
    let compacted = compacted?;
    if args.json {
        screen.json(&json!({
            "version": 1, "session": id, "model": choice.model.to_string(),
            "tokens_before": compacted.tokens_before, "tokens_after": compacted.tokens_after,
            "state": compacted.state, "summary": compacted.summary,
        }));
        return Ok(ExitCode::Done);
    }
    let said = format!(
        "Compacted: about {} tokens before, {} now. The log keeps everything.",
        count(compacted.tokens_before),
        count(compacted.tokens_after)
    );
    screen.line(Text::line(Tone::Good, &said));
    if compacted.state {
        let text = format!(
            "{} is sent its own state; the summary beside it is for other models.",
            choice.model
        );
        screen.line(Text::line(Tone::Dim, &text));
    }
    Ok(ExitCode::Done)
}
