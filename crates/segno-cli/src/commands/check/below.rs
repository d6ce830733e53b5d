//! Damaged subagents of another agent's session.
//!
//! Responsible for: naming those whose files a repair would change, and the command. Must not: look into sessions that
//! are not below this one.

use crate::args::quoted;
use crate::others::Other;
use crate::terminal::table::plural;
use crate::terminal::{Text, Tone};
use segno_store::rescue;
use serde::Serialize;

/// A subagent of which something cannot be read.
#[derive(Debug, Serialize)]
pub(in super::super) struct Below {
    id: String,
    path: String,
    /// How many places a repair would change.
    repairs: usize,
}

/// Those of a session.
pub(in super::super) fn damaged(session: &Other) -> Vec<Below> {
    let subagents = session.all_subagents();
    let damaged = subagents.iter().filter(|child| child.row.damage > 0 && !child.state.is_live());
    let below = |child: &Other| {
        let repairs = rescue::plan(&child.located()).ok()?.changes.len();
        let (id, path) = (child.row.id.clone(), child.row.path.display().to_string());
        (repairs > 0).then_some(Below { id, path, repairs })
    };
    damaged.filter_map(below).collect()
}

/// What is said of them, with the command for each.
pub(in super::super) fn lines(below: &[Below]) -> Vec<Text> {
    let told = |child: &Below| {
        let places = plural(child.repairs, "place");
        let text = format!("damaged: its subagent {}, in {places}", child.id);
        let next = format!("next: segno repair {} --in-place", quoted(&child.path));
        [Text::line(Tone::Bad, &text), Text::line(Tone::Plain, &next)]
    };
    below.iter().flat_map(told).collect()
}
