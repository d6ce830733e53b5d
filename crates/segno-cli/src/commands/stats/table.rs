//! Sums as a table and as JSON.
//!
//! Responsible for: columns, marks and notes. Must not: sum up.

use super::All;
use crate::args::StatsBy;
use crate::price;
use crate::terminal::table::{Column, Table, count, plural};
use crate::terminal::{Screen, Text, Tone};
use segno_model::accounting::Sum;

/// Prints everything.
pub(super) fn print(all: &All<'_>, as_json: bool, trouble: &[String], screen: &mut Screen) {
    let total = all.total();
    if as_json {
        let word = format!("{:?}", all.by).to_lowercase();
        screen.json(&serde_json::json!({
            "version": 1, "by": word, "rows": all.rows, "total": total,
            "prices_of": price::AS_OF, "trouble": trouble,
        }));
        return;
    }
    if all.rows.is_empty() {
        screen.line("No session says what was spent.");
    } else {
        let mut table = table(title(all.by));
        for (key, line) in &all.rows {
            table.row(cells(key, &line.sum, line.inherited));
        }
        table.row(cells("total", &total.sum, total.inherited));
        screen.lines(table.lines(screen.look().columns));
    }
    screen.lines(notes(&total.sum));
    for trouble in trouble {
        screen.line(Text::line(Tone::Warning, &format!("note: {trouble}")));
    }
}

fn title(by: StatsBy) -> &'static str {
    match by {
        StatsBy::Day => "DAY",
        StatsBy::Project => "PROJECT",
        StatsBy::Model => "MODEL",
        StatsBy::Agent => "AGENT",
        StatsBy::Session => "SESSION",
        StatsBy::Branch => "BRANCH",
    }
}

/// A table of sums without rows.
pub(super) fn table(title: &'static str) -> Table {
    Table::new(vec![
        Column::left(title).shrinks_to(16),
        Column::right("RESPONSES").leaves(3),
        Column::right("INHERITED").leaves(6),
        Column::right("INPUT"),
        Column::right("OUTPUT"),
        Column::right("REASONING").leaves(5),
        Column::right("CACHE READ").leaves(1),
        Column::right("CACHE WRITTEN").leaves(2),
        Column::right("TIME").leaves(4),
        Column::right("USD"),
    ])
}

/// A row of it.
pub(super) fn cells(key: &str, sum: &Sum, inherited: u64) -> Vec<Text> {
    let plain = |text: String| Text::line(Tone::Plain, &text);
    let tokens = &sum.usage;
    vec![
        Text::line(Tone::Accent, key),
        plain(sum.responses.to_string()),
        plain(inherited.to_string()),
        plain(count(tokens.input)),
        plain(count(tokens.output)),
        plain(count(tokens.reasoning)),
        plain(count(tokens.cache_read)),
        plain(count(tokens.cache_write)),
        plain(duration(sum.model_ms.saturating_add(sum.tool_ms))),
        plain(sum.money()),
    ]
}

/// What a sum leaves out, one line each.
pub(super) fn notes(sum: &Sum) -> Vec<Text> {
    let some = |n: u64, what: &str| plural(usize::try_from(n).unwrap_or(usize::MAX), what);
    let mut notes = Vec::new();
    if sum.unpriced > 0 {
        notes.push(format!(
            "{} of a model whose price is not known here (prices as of {}; [prices] in the configuration adds some)",
            some(sum.unpriced, "response"),
            price::AS_OF
        ));
    }
    let unknown = sum.unknown.total();
    if unknown > 0 {
        let calls = some(unknown, "call");
        notes.push(format!(
            "{calls} without a word about tokens: refused, cut off, or still going on"
        ));
    }
    if sum.subscription > 0 {
        notes.push(format!("{} paid for by a subscription", some(sum.subscription, "response")));
    }
    if sum.children_unknown > 0 {
        let (one, many) = ("session of a subagent", "sessions of subagents");
        let what = if sum.children_unknown == 1 { one } else { many };
        notes.push(format!("{} {what} cannot be found", sum.children_unknown));
    }
    let lead = if sum.usd.is_some() && sum.unpriced + unknown + sum.children_unknown > 0 {
        "≥: "
    } else {
        ""
    };
    notes.iter().map(|note| Text::line(Tone::Dim, &format!("{lead}{note}"))).collect()
}

/// A time span, in the two largest units.
pub(super) fn duration(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0 if ms == 0 => "-".to_owned(),
        0 => format!("{}.{}s", ms / 1000, ms % 1000 / 100),
        1..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
    }
}
