//! A plan while it is made: which lines change, and how.
//!
//! Responsible for: gathering edits by line, with the reason for each. Must not: decide anything, or hold a
//! line.

use super::json::{Span, span};
use super::rule::Rule;
use crate::foreign::Agent;
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// Where an object stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    /// The line, counted from 1.
    pub(super) line: u64,
    /// Where the line begins in the file.
    pub(super) offset: u64,
    /// Which of its objects, counted from 0.
    pub(super) object: usize,
}

/// One change, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The rule's name.
    pub rule: &'static str,
    /// The line in the file as it is, counted from 1; none where the whole file is meant.
    pub line: Option<u64>,
    /// Where that line begins.
    pub offset: Option<u64>,
    /// What is wrong there, without stored text but ids.
    pub what: String,
    /// What is done about it.
    pub done: &'static str,
}

/// What becomes of one line.
#[derive(Debug, Clone, Default)]
pub(super) struct Edit {
    /// Objects that change; the others stay as they are.
    pub(super) objects: BTreeMap<usize, Fate>,
    /// The line as it was is kept beside the result.
    pub(super) set_aside: bool,
    /// Lines that come before it.
    pub(super) before: Vec<String>,
    /// Lines that come behind one of its objects.
    pub(super) after: BTreeMap<usize, Vec<String>>,
    /// Objects that do not stay here.
    pub(super) moved: BTreeSet<usize>,
    /// Such objects, of other lines, that come before one of its own.
    pub(super) comes: BTreeMap<usize, Vec<At>>,
}

/// What becomes of one object.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    /// It is left out.
    Out,
    /// Some of its text is replaced.
    Spliced(Vec<(Span, String)>),
}

/// The edits so far.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) agent: Agent,
    pub(super) edits: BTreeMap<u64, Edit>,
    pub(super) changes: Vec<Change>,
    pub(super) notes: Vec<String>,
}

impl Draft {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent, edits: BTreeMap::new(), changes: Vec::new(), notes: Vec::new() }
    }

    /// Whether a rule is for this agent.
    pub(super) fn has(&self, rule: Rule) -> bool {
        rule.is_for(self.agent)
    }

    /// Notes a change for the report.
    pub(super) fn tell(&mut self, rule: Rule, at: Option<&At>, what: impl Into<String>) {
        self.changes.push(Change {
            rule: rule.code(),
            line: at.map(|at| at.line),
            offset: at.map(|at| at.offset),
            what: what.into(),
            done: rule.done(),
        });
    }

    /// Says what is not repaired.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// The edit of a line.
    pub(super) fn edit(&mut self, at: &At) -> &mut Edit {
        self.edits.entry(at.line).or_default()
    }

    /// Replaces a place of an object's text.
    pub(super) fn splice(&mut self, at: &At, span: Span, text: impl Into<String>) {
        let fate = self.edit(at).objects.entry(at.object).or_insert(Fate::Spliced(Vec::new()));
        if let Fate::Spliced(splices) = fate {
            splices.retain(|(place, _)| place.is_empty() || *place != span);
            splices.push((span, text.into()));
        }
    }

    /// What stands in a place of an object's text now, if that was replaced.
    pub(super) fn spliced(&self, at: &At, span: &Span) -> Option<&str> {
        match self.edits.get(&at.line)?.objects.get(&at.object)? {
            Fate::Out => None,
            Fate::Spliced(splices) => {
                splices.iter().find(|(place, _)| place == span).map(|(_, text)| &**text)
            }
        }
    }

    /// Moves an object before another one.
    pub(super) fn move_before(&mut self, at: &At, other: &At) {
        self.edit(at).moved.insert(at.object);
        self.edit(other).comes.entry(other.object).or_default().push(*at);
    }

    /// Replaces several places of an object's text.
    pub(super) fn splice_all(&mut self, at: &At, splices: Vec<(Span, String)>) {
        for (span, text) in splices {
            self.splice(at, span, text);
        }
    }

    /// Leaves an object out.
    pub(super) fn leave_out(&mut self, at: &At) {
        self.edit(at).objects.insert(at.object, Fate::Out);
    }

    /// Keeps the line as it was beside the result.
    pub(super) fn set_aside(&mut self, at: &At) {
        self.edit(at).set_aside = true;
    }

    /// Puts a line behind an object.
    pub(super) fn insert_after(&mut self, at: &At, json: String) {
        self.edit(at).after.entry(at.object).or_default().push(json);
    }

    /// Puts a line before another one.
    pub(super) fn insert_before(&mut self, at: &At, json: String) {
        self.edit(at).before.push(json);
    }
}

/// A list of which elements may be left out.
#[derive(Default)]
pub(super) struct List {
    elements: Vec<Span>,
    out: Vec<usize>,
}

impl List {
    /// The list whose elements stand in `json`.
    pub(super) fn of(json: &str, elements: &[&RawValue]) -> Self {
        let elements = elements.iter().filter_map(|raw| span(json, raw)).collect();
        Self { elements, out: Vec::new() }
    }

    /// Where its last element ends.
    pub(super) fn end(&self) -> Option<usize> {
        self.elements.last().map(|element| element.end)
    }

    /// Leaves an element out.
    pub(super) fn leave_out(&mut self, element: usize) {
        self.out.push(element);
    }

    /// Takes what is left out away, with the commas.
    pub(super) fn apply(&mut self, at: &At, draft: &mut Draft) {
        self.out.sort_unstable();
        self.out.dedup();
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for &element in &self.out {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == element => *last = element,
                _ => runs.push((element, element)),
            }
        }
        let place = |n: usize| self.elements.get(n).cloned();
        for (first, last) in runs {
            let (Some(own), Some(end)) = (place(first), place(last)) else { continue };
            let before = first.checked_sub(1).and_then(place);
            let span = match (before, place(last + 1)) {
                (Some(before), _) => before.end..end.end,
                (None, Some(after)) => own.start..after.start,
                (None, None) => own.start..end.end,
            };
            draft.splice(at, span, "");
        }
    }
}
