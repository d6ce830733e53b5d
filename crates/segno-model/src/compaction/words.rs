//! What a person said that must not be lost, word for word.
//!
//! Responsible for: finding, in prompts that are dropped, the sentences that forbid or demand something or that
//! name paths, numbers and identifiers; and listing those that nothing else holds, newest first within a
//! budget. A summary loses exactly these. Must not: understand them; a sentence too many is no harm.

mod markers;

use crate::record::Compaction;
use std::collections::HashSet;
use unicode_segmentation::UnicodeSegmentation as _;

/// How long a sentence may be that is carried over whole, in bytes; longer ones are cut into clauses.
const LONGEST: usize = 1_500;
/// How long a clause of a sentence that is too long may be, in bytes; of longer ones the words around what counts are
/// taken.
const LONGEST_CLAUSE: usize = 300;
/// How many words are taken on each side, in bytes.
const AROUND: usize = 100;

/// The sentences that are carried over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Carried {
    /// In the order in which they were said.
    pub sentences: Vec<String>,
    /// How many there was no room for.
    pub left_out: u64,
}

/// Chooses the sentences of `dropped` (what the person said, oldest first) that are carried over; `before`
/// is what the compaction before this one carried, and counts as said earlier still. `held` is everything
/// that the model goes on seeing. Of those that do not fit into `bytes`, the newest are taken, and what
/// forbids or demands something comes before what only names something.
#[must_use]
pub fn carry(before: &Carried, dropped: &[String], held: &str, bytes: usize) -> Carried {
    let held = Held::new(held);
    let earlier = before.sentences.iter().map(|sentence| (sentence.as_str(), false));
    let said: Vec<_> = dropped.iter().flat_map(|text| sentences(text)).flat_map(clauses).collect();
    let mut seen = HashSet::new();
    // Of what was said twice, the last counts.
    let mut found: Vec<(&str, Weight)> = earlier
        .chain(said)
        .rev()
        .filter_map(|(sentence, is_cut)| match weight(sentence)? {
            Weight::Detail if is_cut => Some((sentence, Weight::Crumb)),
            weight => Some((sentence, weight)),
        })
        .filter(|(sentence, weight)| !held.has(sentence, *weight) && seen.insert(*sentence))
        .collect();
    found.reverse();
    let fits = choose(&found, bytes);
    let left_out = before.left_out + (found.len() - fits.len()) as u64;
    let sentences = fits.into_iter().map(|i| found[i].0.to_owned()).collect();
    Carried { sentences, left_out }
}

/// The indices of what fits, ascending.
fn choose(found: &[(&str, Weight)], bytes: usize) -> Vec<usize> {
    let mut room = bytes;
    let mut chosen = Vec::new();
    for wanted in [Weight::Demand, Weight::Detail, Weight::Crumb] {
        for (i, (sentence, weight)) in found.iter().enumerate().rev() {
            if *weight == wanted && sentence.len() <= room.min(LONGEST) {
                room -= sentence.len();
                chosen.push(i);
            }
        }
    }
    chosen.sort_unstable();
    chosen
}

/// What makes a sentence worth carrying over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// It forbids or demands something.
    Demand,
    /// It names something exactly.
    Detail,
    /// It names something exactly, in a sentence so long that it may be pasted data.
    Crumb,
}

fn weight(sentence: &str) -> Option<Weight> {
    if markers::demands(sentence) {
        return Some(Weight::Demand);
    }
    details(sentence).next().map(|_| Weight::Detail)
}

/// A text's sentences, by the rules of Unicode; a line's end ends one too, and so does a full stop before a
/// small letter, since people who type fast write so.
fn sentences(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    let parts: Vec<&str> = text
        .lines()
        .flat_map(|line| line.unicode_sentences())
        .flat_map(at_stops)
        .map(|sentence| sentence.trim().trim_start_matches(['-', '*', '•', '>']).trim_start())
        .filter(|sentence| !sentence.is_empty())
        .collect();
    parts.into_iter()
}

/// A sentence, or what counts of one that is too long, and whether it was cut.
fn clauses(sentence: &str) -> Vec<(&str, bool)> {
    if sentence.len() <= LONGEST {
        return vec![(sentence, false)];
    }
    let mut clauses = Vec::new();
    let (mut from, mut chars) = (0, sentence.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        // A comma between digits or columns ends nothing.
        let is_spaced = next.is_none_or(char::is_whitespace);
        if "，、；،؛".contains(c) || (",;:".contains(c) && is_spaced) {
            clauses.push(&sentence[from..at + c.len_utf8()]);
            from = at + c.len_utf8();
        }
    }
    clauses.push(&sentence[from..]);
    let pieces = clauses.into_iter().flat_map(around_what_counts).map(str::trim);
    pieces.filter(|piece| !piece.is_empty()).map(|piece| (piece, true)).collect()
}

/// A clause, or of one that is too long the words around what counts; no word is cut.
fn around_what_counts(clause: &str) -> Vec<&str> {
    if clause.len() <= LONGEST_CLAUSE {
        return vec![clause];
    }
    let tiles = tiles(clause);
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    for (i, &(from, end)) in tiles.iter().enumerate() {
        // Two at a time, so that nothing that counts is split between them.
        let to = tiles.get(i + 1).map(|next| next.1).filter(|to| to - end <= LONGEST);
        let to = to.unwrap_or(end);
        if weight(&clause[from..to]).is_none() {
            continue;
        }
        match pieces.last_mut() {
            Some((start, end)) if from < *end && to - *start <= LONGEST_CLAUSE => *end = to,
            _ => pieces.push((from, to)),
        }
    }
    pieces.into_iter().map(|(from, to)| &clause[from..to]).collect()
}

/// Where a clause falls into parts of about so many bytes as are taken around what counts; a longer word is one.
fn tiles(clause: &str) -> Vec<(usize, usize)> {
    let (mut tiles, mut from, mut word) = (Vec::new(), 0, 0);
    for (at, c) in clause.char_indices() {
        let end = at + c.len_utf8();
        if !c.is_whitespace() && !markers::is_unspaced(c) {
            continue;
        }
        if end - from > AROUND && word > from {
            tiles.push((from, word));
            from = word;
        }
        word = end;
    }
    if clause.len() - from > AROUND && word > from {
        tiles.push((from, word));
        from = word;
    }
    tiles.push((from, clause.len()));
    tiles
}

/// Cuts behind words that end with a full stop; short ones are taken for abbreviations.
fn at_stops(sentence: &str) -> Vec<&str> {
    let (mut parts, mut from, mut letters) = (Vec::new(), 0, 0);
    let mut chars = sentence.char_indices().peekable();
    while let Some((i, c)) = chars.next() {
        let ends = "!?.".contains(c) && letters > 2;
        if ends && chars.peek().is_some_and(|(_, next)| next.is_whitespace()) {
            parts.push(&sentence[from..=i]);
            from = i + 1;
        }
        letters = if c.is_alphabetic() { letters + 1 } else { 0 };
    }
    parts.push(&sentence[from..]);
    parts
}

/// What the model goes on seeing, without differences in white space.
struct Held(String);

impl Held {
    fn new(text: &str) -> Self {
        Self(squeezed(text))
    }

    /// A demand must be there as it was said: whether other words mean the same is not for a program to say.
    /// A detail must be there itself.
    fn has(&self, sentence: &str, weight: Weight) -> bool {
        match weight {
            Weight::Demand => self.0.contains(&squeezed(sentence)),
            Weight::Detail | Weight::Crumb => {
                details(sentence).all(|detail| stands_in(&self.0, detail))
            }
        }
    }
}

/// Whether a detail stands in a text, and not as a part of a longer one.
fn stands_in(text: &str, detail: &str) -> bool {
    let goes_on = |c: Option<char>| {
        c.is_some_and(|c| c == '_' || (c.is_alphanumeric() && !markers::is_unspaced(c)))
    };
    text.match_indices(detail).any(|(at, found)| {
        !goes_on(text[..at].chars().next_back())
            && !goes_on(text[at + found.len()..].chars().next())
    })
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Paths, numbers, amounts, names of files and identifiers in a text.
fn details(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2).map(str::trim).filter(|q| !q.is_empty());
    let plain = text.split(|c: char| !is_part(c)).map(trimmed).filter(|run| is_detail(run));
    quoted.chain(plain)
}

/// Whether a character can be in the middle of a path, a number or a name. Scripts that write without
/// spaces do not run into them.
fn is_part(c: char) -> bool {
    "_-./\\:~@#%$€£¥+=".contains(c) || (c.is_alphanumeric() && !markers::is_unspaced(c))
}

fn trimmed(run: &str) -> &str {
    run.trim_start_matches([':', '=', '+']).trim_end_matches(['.', ':', '-', '=', '+', '/'])
}

fn is_detail(run: &str) -> bool {
    let Some(first) = run.find(char::is_alphanumeric) else { return false };
    let is_flag = run.starts_with('-') && run[..first].bytes().all(|b| b == b'-');
    let pairs = || run.chars().zip(run.chars().skip(1));
    let joined = pairs().any(|(a, b)| "/\\_@".contains(a) && b.is_alphanumeric());
    let dotted = run.split('.').filter(|part| !part.is_empty()).count() > 1;
    let camel = pairs().any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    run.chars().any(char::is_numeric) || joined || dotted || camel || is_flag
}

/// What stands in the context below a compaction's summary: the person's words and the task in force.
#[must_use]
pub fn beside_summary(compaction: &Compaction) -> Option<String> {
    let mut text = String::new();
    if !compaction.sentences.is_empty() {
        text.push_str("\n\nSaid by the person, word for word:");
        for sentence in &compaction.sentences {
            text.push_str("\n- ");
            text.push_str(sentence);
        }
    }
    if compaction.sentences_left_out > 0 {
        let count = compaction.sentences_left_out;
        text.push_str(&format!("\n({count} more of such sentences did not fit here.)"));
    }
    if let Some(task) = &compaction.task {
        text.push_str("\n\nThe task in force:");
        if !task.goal.is_empty() {
            text.push_str(&format!("\nGoal: {}", task.goal));
        }
        for constraint in &task.constraints {
            text.push_str(&format!("\nConstraint: {constraint}"));
        }
        for step in &task.steps {
            text.push_str(&format!("\n[{}] {}", step.status.word(), step.text));
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
#[path = "words_tests.rs"]
mod tests;
