//! A unified diff, for people.
//!
//! Responsible for: colours, cutting lines, folding what is long. Must not: make diffs for a model or
//! decide what an edit does.

use super::clean;
use super::style::{Text, Tone};

/// Shows unified diff text: at most `limit` lines of at most `columns`, then how much is left.
#[must_use]
pub fn show(diff: &str, columns: usize, limit: usize) -> Vec<Text> {
    let cleaned = clean::block(diff);
    let lines = classify(&cleaned);
    // One more line costs no more than the sentence that would stand for it.
    let fold = lines.len() > limit + 1;
    let shown = if fold { limit } else { lines.len() };
    let mut out: Vec<Text> = lines[..shown]
        .iter()
        .map(|(kind, line)| Text::default().with(kind.tone(), &expand_tabs(line)).cut(columns))
        .collect();
    if fold {
        let rest = &lines[shown..];
        let added = rest.iter().filter(|(kind, _)| *kind == Kind::Added).count();
        let removed = rest.iter().filter(|(kind, _)| *kind == Kind::Removed).count();
        let sentence = format!("… {} more lines (+{added} -{removed})", rest.len());
        out.push(Text::line(Tone::Dim, &sentence).cut(columns));
    }
    out
}

/// The added and removed lines of unified diff text.
#[must_use]
pub fn counts(diff: &str) -> (usize, usize) {
    let lines = classify(diff);
    let of = |wanted| lines.iter().filter(|(kind, _)| *kind == wanted).count();
    (of(Kind::Added), of(Kind::Removed))
}

/// What a line of a diff is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Header,
    Hunk,
    Added,
    Removed,
    Context,
}

impl Kind {
    fn tone(self) -> Tone {
        match self {
            Self::Header => Tone::Strong,
            Self::Hunk => Tone::Accent,
            Self::Added => Tone::Good,
            Self::Removed => Tone::Bad,
            Self::Context => Tone::Plain,
        }
    }
}

/// A hunk's header counts its lines, so a removed line that reads `-- x` is not taken for a header.
fn classify(diff: &str) -> Vec<(Kind, &str)> {
    let (mut old_left, mut new_left) = (0_u64, 0_u64);
    let mut out = Vec::new();
    for line in diff.lines() {
        let kind = if let Some((old, new)) = hunk_counts(line) {
            (old_left, new_left) = (old, new);
            Kind::Hunk
        } else if old_left == 0 && new_left == 0 {
            if line.starts_with('\\') { Kind::Context } else { Kind::Header }
        } else if line.starts_with('+') {
            new_left = new_left.saturating_sub(1);
            Kind::Added
        } else if line.starts_with('-') {
            old_left = old_left.saturating_sub(1);
            Kind::Removed
        } else {
            if !line.starts_with('\\') {
                (old_left, new_left) = (old_left.saturating_sub(1), new_left.saturating_sub(1));
            }
            Kind::Context
        };
        out.push((kind, line));
    }
    out
}

/// The counts of `@@ -1,3 +1,4 @@`; a missing count is 1.
fn hunk_counts(line: &str) -> Option<(u64, u64)> {
    let inner = line.strip_prefix("@@ -")?.split(" @@").next()?;
    let (old, new) = inner.split_once(" +")?;
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => range.parse::<u64>().ok().map(|_| 1),
    };
    Some((count(old)?, count(new)?))
}

/// Tabs would make the width of a line a guess.
fn expand_tabs(line: &str) -> String {
    line.replace('\t', "    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/x.sql\n+++ b/x.sql\n@@ -1,3 +1,4 @@\n a\n--- old comment\n+++ new\n+\tindented\n \\ No newline\n\\ No newline at end of file\n";

    fn kinds(diff: &str) -> Vec<Kind> {
        classify(diff).into_iter().map(|(kind, _)| kind).collect()
    }

    #[test]
    fn lines_are_known_by_where_they_stand() {
        use Kind::{Added, Context, Header, Hunk, Removed};
        assert_eq!(
            kinds(DIFF),
            [Header, Header, Hunk, Context, Removed, Added, Added, Context, Context]
        );
        assert_eq!(counts(DIFF), (2, 1));
        assert_eq!(
            kinds("@@ -1 +1 @@ fn x\n-a\n+b\n--- c\n+++ d"),
            [Hunk, Removed, Added, Header, Header]
        );
        assert_eq!(kinds("@@ -x +y @@"), [Header]);
    }

    #[test]
    fn a_long_diff_is_folded_with_its_counts() {
        let mut diff = String::from("@@ -0,0 +1,50 @@\n");
        for i in 0..50 {
            diff.push_str(&format!("+line {i}\n"));
        }
        let shown = show(&diff, 40, 10);
        assert_eq!(shown.len(), 11);
        assert_eq!(shown[9].plain(), "+line 8");
        assert_eq!(shown[10].plain(), "… 41 more lines (+41 -0)");
        assert_eq!(show(&diff, 40, 50).len(), 51, "folding one line saves nothing");
    }

    /// Covers: G17.
    #[test]
    fn lines_are_cut_coloured_and_clean() {
        let shown = show(&format!("@@ -0,0 +1 @@\n+\t\x1b[2J{}", "世".repeat(40)), 20, 9);
        assert_eq!(shown[1].render(true), "\x1b[32m+    世世世世世世世…\x1b[0m");
        assert!(shown.iter().all(|line| line.width() <= 20));
        assert!(show("", 20, 9).is_empty());
    }
}
