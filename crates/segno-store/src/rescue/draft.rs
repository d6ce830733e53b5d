//! A plan while it is made: which lines change, and how.
//!
//! Responsible for: gathering edits by line, with the reason for each. Must not: decide anything, or hold a
//! line.

use super::json::Span;
use super::rule::Rule;
use crate::foreign::Agent;
use serde::Serialize;
use std::collections::BTreeMap;

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
}

impl Draft {
    pub(super) fn new(agent: Agent) -> Self {
        Self { agent, edits: BTreeMap::new(), changes: Vec::new() }
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

    /// The edit of a line.
    pub(super) fn edit(&mut self, at: &At) -> &mut Edit {
        self.edits.entry(at.line).or_default()
    }

    /// Replaces a place of an object's text.
    pub(super) fn splice(&mut self, at: &At, span: Span, text: impl Into<String>) {
        let fate = self.edit(at).objects.entry(at.object).or_insert(Fate::Spliced(Vec::new()));
        if let Fate::Spliced(splices) = fate {
            splices.retain(|(place, _)| *place != span);
            splices.push((span, text.into()));
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
