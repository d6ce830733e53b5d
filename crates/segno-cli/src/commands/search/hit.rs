//! Hits in one session.
//!
//! Responsible for: which words of which records count, and the piece of text around them. Must not: print.

use super::own_file;
use crate::args::Role;
use crate::listing::Listed;
use crate::terminal::clean;
use segno_model::store::Scanned;
use segno_model::{Record, Seq, Timestamp};
use segno_store::FileStore;
use segno_store::foreign::{self, Item};
use segno_store::search::{Said, Speaker, Words, said};
use serde::Serialize;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

/// How many characters are shown before and behind what was found.
const AROUND: usize = 50;
/// More hits of one session are not looked for.
const MOST: usize = 1000;

/// What was asked for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) words: Words,
    pub(super) role: Option<Role>,
    pub(super) tool: Option<String>,
    pub(super) path: Option<String>,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    /// The ids of all sessions that there are.
    pub(super) listed: HashSet<String>,
}

/// A place where all words stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Hit {
    /// The record.
    pub(super) seq: Seq,
    /// Where it stands in the agent's own file.
    pub(super) line: Option<u64>,
    /// When it was said, if the session tells.
    pub(super) at: Option<Timestamp>,
    /// Who said it: `user`, `assistant`, `tool` or `summary`.
    pub(super) role: &'static str,
    /// The tool of a call or a result.
    pub(super) tool: Option<String>,
    /// The text before.
    pub(super) before: String,
    /// The first of the words, as it stands there.
    pub(super) found: String,
    /// The text behind.
    pub(super) after: String,
    /// What is shown of the text before: not cut within an escape sequence.
    #[serde(skip)]
    pub(super) lead: String,
}

impl Hit {
    /// Who said it, with the tool.
    pub(super) fn speaker(&self) -> String {
        match &self.tool {
            Some(tool) => format!("{} {tool}", self.role),
            None => self.role.to_owned(),
        }
    }
}

/// All hits in a session.
///
/// # Errors
/// A sentence that says why it cannot be searched.
pub(super) fn hits_in(
    session: &Listed,
    asked: &Asked,
    files: &FileStore,
) -> Result<Vec<Hit>, String> {
    if let Some(path) = own_file(session, files)
        && !asked.words.may_stand_in(&path).map_err(|e| e.to_string())?
    {
        return Ok(Vec::new());
    }
    let mut search = Search { asked, calls: HashSet::new(), hits: Vec::new() };
    match session {
        Listed::Own(entry) => {
            let visit = &mut |item| {
                if let Scanned::Record(record) = item {
                    search.record(&record, Some(record.envelope.at), None);
                }
                search.hits.len() < MOST
            };
            files.scan_now(&entry.id, visit).map_err(|e| e.to_string())?;
        }
        Listed::Other(other) => {
            // What a fork copied is found in its origin, where that is still there.
            let origin = other.row.fork_of.as_ref();
            let is_orphan = origin.is_some_and(|origin| !asked.listed.contains(origin));
            let read = foreign::read(&other.located(), &mut |item| {
                if let Item::Record(read) = item
                    && (!read.copy || (is_orphan && read.inherited))
                {
                    let at = read.dated.then_some(read.record.envelope.at);
                    search.record(&read.record, at, read.origin.line);
                }
                match search.hits.len() < MOST {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            read.map_err(|e| e.to_string())?;
        }
    }
    Ok(search.hits)
}

struct Search<'a> {
    asked: &'a Asked,
    /// Calls that name the path that was asked for; their results count, too.
    calls: HashSet<String>,
    hits: Vec<Hit>,
}

impl Search<'_> {
    fn record(&mut self, record: &Record, at: Option<Timestamp>, line: Option<u64>) {
        for said in said(record.body()) {
            if let Some(range) = self.range(&said, at) {
                let lead = lead(said.text, range.start);
                let (before, found, after) = around(said.text, range);
                let (seq, role) = (record.seq(), word(said.by));
                let tool = said.tool.map(str::to_owned);
                self.hits.push(Hit { seq, line, at, role, tool, before, found, after, lead });
            }
        }
    }

    fn range(&mut self, said: &Said<'_>, at: Option<Timestamp>) -> Option<Range<usize>> {
        let asked = self.asked;
        if let Some(path) = &asked.path
            && !self.concerns(said, path)
        {
            return None;
        }
        let role = asked.role.is_none_or(|role| is_role(role, said.by));
        let tool = asked
            .tool
            .as_ref()
            .is_none_or(|tool| said.tool.is_some_and(|named| named.eq_ignore_ascii_case(tool)));
        // What has no date is never left out for its date.
        let since = asked.since.is_none_or(|since| at.is_none_or(|at| at >= since));
        let until = asked.until.is_none_or(|until| at.is_none_or(|at| at < until));
        if role && tool && since && until { asked.words.find(said.text) } else { None }
    }

    /// Whether a call names the path, or a result is one of such a call.
    fn concerns(&mut self, said: &Said<'_>, path: &str) -> bool {
        let Some(call) = said.call else { return false };
        if said.by == Speaker::Tool {
            return self.calls.contains(call);
        }
        let named = said.text.contains(path);
        if named {
            self.calls.insert(call.to_owned());
        }
        named
    }
}

fn is_role(role: Role, by: Speaker) -> bool {
    matches!(
        (role, by),
        (Role::User, Speaker::User)
            | (Role::Assistant, Speaker::Assistant | Speaker::Summary)
            | (Role::Tool, Speaker::Tool)
    )
}

fn word(by: Speaker) -> &'static str {
    match by {
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::Tool => "tool",
        Speaker::Summary => "summary",
    }
}

/// The text before a place as it is shown. Sequences are taken out of a longer piece first, so that the cut
/// leaves no half of one.
fn lead(text: &str, at: usize) -> String {
    const LONGEST: usize = 1000;
    let before = &text[..at];
    let from = before.char_indices().rev().nth(AROUND + LONGEST).map_or(0, |(at, _)| at);
    let shown = clean::block(&before[from..]);
    match shown.char_indices().rev().nth(AROUND) {
        Some((cut, _)) => format!("…{}", &shown[cut..]),
        None => shown,
    }
}

/// The text around a range, cut at so many characters.
fn around(text: &str, range: Range<usize>) -> (String, String, String) {
    let (before, after) = (&text[..range.start], &text[range.end..]);
    let from = before.char_indices().rev().nth(AROUND).map_or(0, |(at, _)| at);
    let to = after.char_indices().nth(AROUND * 2).map_or(after.len(), |(at, _)| at);
    let lead = if from > 0 { "…" } else { "" };
    let tail = if to < after.len() { "…" } else { "" };
    let found = text[range].to_owned();
    (format!("{lead}{}", &before[from..]), found, format!("{}{tail}", &after[..to]))
}
