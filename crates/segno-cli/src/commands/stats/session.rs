//! What one of our sessions cost, branch by branch.
//!
//! Responsible for: the table of its branches, its sum with everything that was abandoned, and what it
//! shares with the session that it is a copy of. Must not: count anything twice in the sum.

use super::table::{cells, duration, notes, table};
use crate::commands::Workplace;
use crate::costs::SessionCosts;
use crate::error::CliError;
use crate::price::{self, Prices};
use crate::stores::Stores;
use crate::terminal::{Screen, Text, Tone};
use segno_model::SessionId;
use segno_model::accounting::{Branch, Sum};
use serde_json::{Value, json};

struct Told {
    branches: Vec<Branch>,
    total: Sum,
    /// The part of the sum that was copied, and from where.
    copied: Option<(String, Sum)>,
}

fn read(stores: &Stores, id: &SessionId, prices: &Prices) -> Result<Told, CliError> {
    let costs = SessionCosts::read(stores, id)?;
    let price = |model: &_| prices.of(model);
    let copied = costs
        .copied_up_to()
        .zip(costs.origin.as_ref())
        .map(|(up_to, origin)| (origin.of.clone(), costs.accounts.total_up_to(up_to, &price)));
    let total = costs.total(stores, prices);
    Ok(Told { branches: costs.accounts.branches(&price), total, copied })
}

/// Prints it.
///
/// # Errors
/// When the session cannot be read.
pub(super) fn show(
    id: &SessionId,
    prices: &Prices,
    as_json: bool,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let told = read(&place.stores, id, prices)?;
    if as_json {
        screen.json(&told.json(id));
    } else {
        screen.lines(told.lines(screen.look().columns));
    }
    Ok(())
}

/// The same for a session that is open.
///
/// # Errors
/// When the session cannot be read.
pub(crate) fn lines(
    stores: &Stores,
    id: &SessionId,
    prices: &Prices,
    columns: usize,
) -> Result<Vec<Text>, CliError> {
    Ok(read(stores, id, prices)?.lines(columns))
}

impl Told {
    fn json(&self, id: &SessionId) -> Value {
        let branch = |branch: &Branch| json!({ "tip": branch.tip, "current": branch.current, "sum": branch.sum });
        let copied = self.copied.as_ref().map(|(of, sum)| json!({ "of": of, "sum": sum }));
        json!({
            "version": 1, "by": "branch", "id": id,
            "branches": self.branches.iter().map(branch).collect::<Vec<_>>(),
            "total": self.total, "copied": copied, "prices_of": price::AS_OF,
        })
    }

    fn lines(&self, columns: usize) -> Vec<Text> {
        let mut table = table("BRANCH");
        for branch in &self.branches {
            let tip = branch.tip.map_or_else(|| "(empty)".to_owned(), |tip| format!("#{tip}"));
            let mark = if branch.current { "* " } else { "  " };
            table.row(cells(&format!("{mark}{tip}"), &branch.sum, 0));
        }
        table.row(cells("session", &self.total, 0));
        let mut lines = table.lines(columns);
        if let Some((of, copied)) = &self.copied {
            let text = format!("of it, copied from {of} and paid for there: {}", copied.money());
            lines.push(Text::line(Tone::Dim, &text));
        }
        if self.total.model_ms + self.total.tool_ms > 0 {
            let text = format!(
                "time: {} in model calls, {} in tools",
                duration(self.total.model_ms),
                duration(self.total.tool_ms)
            );
            lines.push(Text::line(Tone::Dim, &text));
        }
        lines.extend(notes(&self.total));
        lines
    }
}
