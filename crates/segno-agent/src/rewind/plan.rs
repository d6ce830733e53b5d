//! What lies between here and the record that one goes back to.
//!
//! Responsible for: finding, from records alone, the place to go on from, the edits that are gone back
//! over, by file and newest first, and the effects that cannot be undone. Must not: look at a file.

use crate::tool::EditFacts;
use segno_model::record::{
    Action, AssistantMessage, BlobRef, Body, Message, Outcome, ReplayClass, ToolCall, ToolMessage,
};
use segno_model::tree::{MoveError, Tree};
use segno_model::{Pos, Record, Seq};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

/// What going back to a record comes to.
#[derive(Debug)]
pub struct Plan {
    /// The tip afterwards; none is the empty beginning.
    pub to: Option<Pos>,
    /// The files that were edited on the way, last edited first.
    pub files: Vec<FileEdits>,
    /// What was done on the way that cannot be undone, oldest first.
    pub not_undone: Vec<Effect>,
}

/// The edits of one file, newest first.
#[derive(Debug)]
pub struct FileEdits {
    /// Which file, links resolved.
    pub path: PathBuf,
    pub(super) edits: Vec<Edit>,
}

/// An effect other than an edit.
#[derive(Debug)]
pub struct Effect {
    /// Its `action` record.
    pub seq: Seq,
    /// The tool.
    pub tool: String,
    /// The call, where its record is at hand.
    pub call: Option<ToolCall>,
    /// What its result says of it; none without a result.
    pub outcome: Option<Outcome>,
}

/// One edit.
#[derive(Debug)]
pub(super) struct Edit {
    /// Its `action` record.
    pub(super) seq: Seq,
    host: String,
    facts: EditFacts,
    pub(super) before: Option<BlobRef>,
}

impl Edit {
    /// The hash of what it found; none when nothing was there.
    pub(super) fn old_sha256(&self) -> Option<&str> {
        self.facts.old_sha256()
    }

    /// The hash of what it wrote.
    pub(super) fn new_sha256(&self) -> Option<&str> {
        self.facts.new_sha256()
    }

    /// Whether content is what it leaves of `old` when it is cut off in the middle.
    pub(super) fn half_written(&self, content: &[u8], old: &[u8]) -> bool {
        self.facts.half_written(content, old)
    }
}

/// How far a file's edits can be gone back over.
#[derive(Debug)]
pub(super) struct Walked<'a> {
    /// The oldest edit that was reached and changes what the file holds.
    pub(super) to: Option<&'a Edit>,
    /// Why it was not all of them.
    pub(super) stopped: Option<String>,
}

/// Goes back over edits, newest first, from a file whose content has this hash (none: it is not there).
/// A file that holds what it held between two of them is gone back over from there: a rewind that was
/// cut off has been here before, or a person has.
pub(super) fn walk<'a>(edits: &'a [Edit], now: Option<&str>, host: &str) -> Walked<'a> {
    let (mut holds, mut to) = (now, None);
    let knows = |edit: &Edit| now == edit.new_sha256() || now == edit.old_sha256();
    let from = edits.iter().position(knows).unwrap_or_default();
    for edit in edits.iter().skip(from) {
        if edit.host != host {
            let why = format!("edit #{} was made on another host", edit.seq);
            return Walked { to, stopped: Some(why) };
        }
        if holds == edit.new_sha256() {
            holds = edit.old_sha256();
            to = Some(edit);
        } else if holds != edit.old_sha256() {
            let why = format!("it was changed by someone else since edit #{}", edit.seq);
            return Walked { to, stopped: Some(why) };
        }
    }
    Walked { to, stopped: None }
}

impl Plan {
    /// What it comes to, to go back to `seq`: to that node, or before it when it is a prompt.
    /// `records` is the whole log; `tip` is where the session stands.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn of(records: &[Record], tip: Option<Seq>, seq: Seq) -> Result<Self, MoveError> {
        let tree = Tree::new(records);
        let to = tree.back_to(seq)?.map(Record::pos);
        let kept: HashSet<Seq> =
            tree.path(to.map(|pos| pos.seq)).iter().map(|node| node.seq()).collect();
        // Gone there already: what was left is the path to the node written last.
        let from =
            if tip == to.map(|pos| pos.seq) { tree.nodes().last().map(Record::seq) } else { tip };
        let left = Left::of(&tree.path(from), &kept);
        let mut plan = Self { to, files: Vec::new(), not_undone: Vec::new() };
        let mut files: BTreeMap<PathBuf, Vec<Edit>> = BTreeMap::new();
        for record in records {
            let Body::Action(action) = record.body() else { continue };
            if action.is_restore() || !left.holds(action) {
                continue;
            }
            plan.sort_in(record.seq(), action, &left, &mut files);
        }
        plan.files = files
            .into_iter()
            .map(|(path, mut edits)| {
                edits.reverse();
                FileEdits { path, edits }
            })
            .collect();
        let newest = |file: &FileEdits| file.edits.first().map(|edit| edit.seq);
        plan.files.sort_by_key(|file| std::cmp::Reverse(newest(file)));
        Ok(plan)
    }

    fn sort_in(
        &mut self,
        seq: Seq,
        action: &Action,
        left: &Left<'_>,
        files: &mut BTreeMap<PathBuf, Vec<Edit>>,
    ) {
        let key = (action.call_seq, action.call_id.as_str());
        let outcome = left.results.get(&key).map(|result| result.outcome);
        let never = [Outcome::NotRun, Outcome::Denied];
        if outcome.is_some_and(|outcome| never.contains(&outcome)) {
            return;
        }
        let call = left.calls.get(&key).copied();
        match EditFacts::of(action, call) {
            // What failed to write wrote nothing.
            Some(_) if outcome == Some(Outcome::Failed) => {}
            Some(facts) => files.entry(facts.path()).or_default().push(Edit {
                seq,
                host: action.host.clone(),
                facts,
                before: action.before.clone(),
            }),
            None if action.class == ReplayClass::Read => {}
            None => {
                let (tool, call) = (action.tool.clone(), call.cloned());
                self.not_undone.push(Effect { seq, tool, call, outcome });
            }
        }
    }
}

/// What lies on the path that is left, and not on the one that is kept.
struct Left<'a> {
    /// The calls of the whole path, since results of kept turns may lie behind the point.
    calls: HashMap<(Seq, &'a str), &'a ToolCall>,
    results: HashMap<(Seq, &'a str), &'a ToolMessage>,
    /// Calls whose results stay.
    kept: HashSet<(Seq, &'a str)>,
}

impl<'a> Left<'a> {
    fn of(path: &[&'a Record], kept: &HashSet<Seq>) -> Self {
        let (calls, results, kept_calls) = Default::default();
        let mut left = Self { calls, results, kept: kept_calls };
        for node in path {
            let Body::Message(message) = node.body() else { continue };
            match &**message {
                Message::Assistant(reply) => left.add_calls(node.seq(), reply),
                Message::Tool(result) => {
                    let Some(call_seq) = result.call_seq else { continue };
                    let key = (call_seq, result.call_id.as_str());
                    if kept.contains(&node.seq()) {
                        left.kept.insert(key);
                    }
                    left.results.insert(key, result);
                }
                Message::User(_) => {}
            }
        }
        left
    }

    fn add_calls(&mut self, seq: Seq, reply: &'a AssistantMessage) {
        self.calls.extend(reply.calls().map(|call| ((seq, call.id.as_str()), call)));
    }

    /// Whether an effect is gone back over.
    fn holds(&self, action: &Action) -> bool {
        let key = (action.call_seq, action.call_id.as_str());
        self.calls.contains_key(&key) && !self.kept.contains(&key)
    }
}
