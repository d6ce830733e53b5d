//! Unified diffs for models and people.
//!
//! Responsible for: making one and bounding it. Must not: read files.

use std::fmt::Write;

/// Above this much text on both sides no diff is made.
const MAX_INPUT: usize = 4 << 20;
/// How many lines of a diff are shown.
const MAX_LINES: usize = 200;
/// How many bytes of a diff are shown.
const MAX_BYTES: usize = 16 << 10;

/// The change from `old` to `new` as a unified diff, cut where it is long.
pub(crate) fn unified(name: &str, old: &[u8], new: &[u8]) -> String {
    if old.len() + new.len() > MAX_INPUT {
        return format!("({} -> {} bytes: too large to show a diff)\n", old.len(), new.len());
    }
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let diff = similar::TextDiff::from_lines(old.as_ref(), new.as_ref());
    let whole = diff.unified_diff().context_radius(3).header(name, name).to_string();
    bounded(&whole)
}

fn bounded(whole: &str) -> String {
    let (mut out, mut shown) = (String::new(), 0);
    for line in whole.split_inclusive('\n') {
        if shown == MAX_LINES || out.len() + line.len() > MAX_BYTES {
            let left = whole.split_inclusive('\n').count() - shown;
            let _ = writeln!(out, "({left} more lines of the diff are not shown)");
            break;
        }
        out.push_str(line);
        shown += 1;
    }
    out
}
