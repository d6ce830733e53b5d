//! Branches, labels, tips.
//!
//! Responsible for: the tree as flat rows: a chain stays in one column, only branchings indent. Must
//! not: recurse, or grow with the depth.

use super::heading;
use crate::history::{History, gist, role};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::tree::{Row, Tree};
use segno_model::{Record, Seq};
use serde::Serialize;

/// Deeper branchings are not indented further.
const DEPTH_SHOWN: usize = 12;

#[derive(Serialize)]
struct Node<'a> {
    seq: u64,
    parent: Option<u64>,
    depth: usize,
    role: &'a str,
    on_path: bool,
    end: bool,
    label: Option<&'a str>,
    text: String,
}

/// Prints the tree.
pub(super) fn show(history: &History, json: bool, screen: &mut Screen) {
    let (id, tip) = (history.id.as_str(), history.tip());
    show_records(heading(history), id, &history.records, tip, json, screen);
}

/// Prints the tree of any records.
pub(super) fn show_records(
    heading: Vec<Text>,
    id: &str,
    records: &[Record],
    tip: Option<Seq>,
    json: bool,
    screen: &mut Screen,
) {
    let tree = Tree::new(records);
    let rows = tree.rows(tip);
    if json {
        let nodes: Vec<Node<'_>> = rows.iter().filter_map(|row| node(row, &tree)).collect();
        screen.json(&serde_json::json!({ "version": 1, "id": id, "tip": tip, "nodes": nodes }));
        return;
    }
    screen.lines(heading);
    screen.line("");
    if rows.is_empty() {
        screen.line(Text::line(Tone::Dim, "(nothing was said)"));
    }
    let digits = rows.iter().map(|row| row.seq).max().unwrap_or(0).to_string().len();
    for row in &rows {
        if screen.is_gone() {
            return;
        }
        let line = line(row, &tree, tip, digits);
        screen.line(line.cut(screen.look().columns));
    }
}

fn node<'a>(row: &Row<'a>, tree: &Tree<'a>) -> Option<Node<'a>> {
    let record = tree.node(row.seq)?;
    Some(Node {
        seq: row.seq,
        parent: row.parent,
        depth: row.depth,
        role: role(record),
        on_path: row.on_path,
        end: row.is_tip,
        label: row.label,
        text: clean::cut(&clean::line(&gist(record)), 200),
    })
}

fn line(row: &Row<'_>, tree: &Tree<'_>, tip: Option<u64>, digits: usize) -> Text {
    let (mark, tone) = match (tip == Some(row.seq), row.on_path) {
        (true, _) => ("*", Tone::Good),
        (false, true) => ("│", Tone::Plain),
        (false, false) => ("·", Tone::Dim),
    };
    let indent = "  ".repeat(row.depth.min(DEPTH_SHOWN));
    let mut out = Text::default()
        .with(Tone::Dim, &format!("{:>digits$} ", row.seq))
        .with(tone, &format!("{indent}{mark} "));
    if let Some(label) = row.label {
        out.append(Text::line(Tone::Warning, &format!("[{label}]")));
        out.add(Tone::Plain, " ");
    }
    if let Some(record) = tree.node(row.seq) {
        out.add(Tone::Dim, &format!("{}: ", clean::line(role(record))));
        out.append(Text::line(tone, &clean::cut(&clean::line(&gist(record)), 200)));
    }
    out
}
