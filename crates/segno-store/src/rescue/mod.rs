//! Other agents' sessions that their own agents choke on, brought back to life.
//!
//! Responsible for: a plan of what has to change in a session's file so that its own agent opens and resumes it,
//! and carrying that out into a new file. A plan is computed from what our reader makes of the session, by the
//! rules of one table ([`RULES`]); it names lines and places in them, so that everything else is copied byte for
//! byte, and a file that was repaired needs no repair. Must not: write into a file that is there, or say where a
//! session goes.

mod array;
mod calls;
mod claude;
mod codex;
mod draft;
mod error;
mod folder;
mod follow;
mod gemini;
mod held;
mod install;
mod json;
mod pi;
mod place;
mod reading;
mod rule;
mod salvage;
mod tree;
mod write;

pub use draft::Change;
pub use error::RescueError;
pub use follow::Follow;
pub use place::{Placed, replace};
pub use rule::{RULES, Rule, RuleRow, is_repaired};
pub use write::Rename;

use crate::foreign::codex::unpack::{self, Torn};
use crate::foreign::lines::Lines;
use crate::foreign::order::{Moved, Order, Spot};
use crate::foreign::{Agent, ForeignError, Located, Stamp, is_document, open_untouched};
use array::Stretches;
use claude::Claude;
use codex::Codex;
use draft::{At, Draft, Edit};
use gemini::Gemini;
use pi::Pi;
use reading::Reading;
use salvage::{Salvage, salvage};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use write::Output;

/// How compressed files begin.
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// What a model is told of a call whose result was never recorded.
pub use crate::foreign::UNKNOWN_OUTCOME;

/// What has to change in a file.
#[derive(Debug)]
pub struct Plan {
    /// Whose session it is.
    pub agent: Agent,
    /// The session's id, as its agent takes it.
    pub id: Option<String>,
    /// The file.
    pub path: PathBuf,
    /// Every change, in the order of the file.
    pub changes: Vec<Change>,
    /// What is not repaired, and why.
    pub notes: Vec<String>,
    /// Lines that change with them: but for these and those of the changes, every line stays byte for byte.
    pub follows: Vec<Follow>,
    /// Whether it is a subagent's, which its agent finds by its parent alone.
    pub is_child: bool,
    /// How many lines are kept beside the result as they were.
    pub set_aside: u64,
    edits: BTreeMap<u64, Edit>,
    renumber_from: Option<u64>,
    order: Arc<Order>,
    /// Of what is one JSON value.
    stretches: Stretches,
    /// Whether the file is compressed; what is written is not.
    is_packed: bool,
    stamp: Stamp,
}

/// What our reader finds in one JSON value, and what is done about it.
const UNREADABLE: &[(&str, Rule, &str)] = &[
    ("torn-array", Rule::TornArray, "the value is cut: it has no end"),
    ("torn-element", Rule::TornArray, "an element is no JSON: it was cut or overwritten"),
    ("stray-bracket", Rule::TornArray, "a bracket or colon stands here that belongs to nothing"),
    ("trailing-bytes", Rule::TornArray, "something stands behind the end of the value"),
    ("oversize-line", Rule::TornArray, "an element is longer than can be read"),
    ("nul-run", Rule::TornArray, "NUL bytes stand beside an element"),
    ("bad-utf8", Rule::TornArray, "an element holds bytes that are no UTF-8"),
    ("lone-surrogate", Rule::TornArray, "an element holds half of a surrogate pair"),
    ("control-byte", Rule::ControlByte, "control bytes stand in a text of an element as they are"),
];

/// The files of a session that are repaired, each as a session of its own.
#[must_use]
pub fn files(session: &Located) -> Vec<Located> {
    if session.agent != Agent::Cline || !session.path.is_dir() {
        return vec![session.clone()];
    }
    let names = ["api_conversation_history.json", "ui_messages.json"];
    let paths = names.iter().map(|name| session.path.join(name)).filter(|path| path.is_file());
    paths.map(|path| Located { path, ..session.clone() }).collect()
}

/// What has to change in a session so that its own agent opens and resumes it.
///
/// # Errors
/// When it cannot be read, changes meanwhile, or is of a kind that is not repaired.
pub fn plan(session: &Located) -> Result<Plan, RescueError> {
    let agent = session.agent;
    if matches!(agent, Agent::OpenCode | Agent::Goose | Agent::Crush) {
        return Err(RescueError::Database { agent });
    }
    let source = Source::open(&session.path)?;
    let reading = Reading::of(session)?;
    let mut draft = Draft::new(agent);
    let (mut renumber_from, mut stretches, mut is_packed) = (None, None, false);
    let mut order = Arc::default();
    if agent == Agent::Cline || agent == Agent::Gemini && is_document(&session.path)? {
        let mut dialect = Dialect::of(agent, &reading);
        if let Dialect::Gemini(gemini) = &mut dialect {
            gemini.is_document();
        }
        stretches = array::stretches(&source, &mut dialect, &mut draft)?;
    } else if is_repaired(agent) && session.path.is_file() {
        is_packed = source.starts_with(ZSTD)?;
        if is_packed && agent != Agent::Codex {
            return Err(RescueError::NoRules { path: session.path.clone() });
        }
        if draft.has(Rule::OutOfOrder) {
            order = Arc::new(Order::of(&source.path, agent, Spot::default())?);
            if order.is_given_up() {
                draft.note(
                    "more than 32 MiB of lines stand before what they hang on; they stay there",
                );
            }
        }
        renumber_from = go_through(&source, &reading, &order, &mut draft)?;
    } else {
        return Err(RescueError::NoRules { path: session.path.clone() });
    }
    draft.changes.sort_by_key(|change| change.line);
    let lines = || draft.edits.values().filter(|edit| edit.set_aside).count();
    let set_aside = stretches.as_ref().map_or_else(lines, |(_, aside)| aside.len()) as u64;
    let is_lost = |change: &Change| change.rule == Rule::MissingHeader.code();
    let given = || draft.changes.iter().any(is_lost).then(|| reading.header().0);
    let mut plan = Plan {
        agent,
        id: reading.facts.id.clone().or_else(given),
        path: session.path.clone(),
        notes: draft.notes,
        is_child: reading.is_child || reading.facts.parent.is_some(),
        set_aside,
        changes: draft.changes,
        follows: Vec::new(),
        edits: draft.edits,
        renumber_from,
        order,
        stretches,
        is_packed,
        stamp: source.stamp,
    };
    let numbered = Output::numbered_anew(&plan, &source)?;
    plan.follows = follow::follow(&plan.edits, &plan.changes, &numbered);
    source.verify()?;
    Ok(plan)
}

impl Plan {
    /// Whether nothing has to change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// How many bytes the file holds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.stamp.bytes
    }

    /// Writes the repaired file to `result`, and lines that were left out or cannot be kept as they were to
    /// `aside`. With `rename`, the session gets another id on the way.
    ///
    /// # Errors
    /// When it is not the file any more that the plan was made for, or writing fails.
    pub fn write(
        &self,
        result: &mut dyn Write,
        aside: &mut dyn Write,
        rename: Option<&Rename>,
    ) -> Result<(), RescueError> {
        let source = Source::open(&self.path)?;
        if source.stamp != self.stamp {
            return Err(RescueError::Changed { path: self.path.clone() });
        }
        match &self.stretches {
            Some(stretches) => {
                array::write(&source, stretches, result, aside).map_err(RescueError::write)?;
            }
            None => Output::new(self, result, aside, rename).write(self, &source)?,
        }
        source.verify()
    }
}

/// The file, as it was when it was opened.
pub(crate) struct Source {
    path: PathBuf,
    stamp: Stamp,
}

impl Source {
    fn open(path: &Path) -> Result<Self, RescueError> {
        Ok(Self { path: path.to_owned(), stamp: Self::stamp_of(path)? })
    }

    fn stamp_of(path: &Path) -> Result<Stamp, RescueError> {
        let meta = fs::metadata(path)
            .map_err(|source| ForeignError::Io { path: path.to_owned(), source })?;
        Ok(Stamp::of(&meta))
    }

    fn verify(&self) -> Result<(), RescueError> {
        if Self::stamp_of(&self.path)? == self.stamp {
            return Ok(());
        }
        Err(RescueError::Changed { path: self.path.clone() })
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> u64 {
        self.stamp.bytes
    }

    fn starts_with(&self, mark: &[u8]) -> Result<bool, RescueError> {
        let mut start = Vec::new();
        let mut file = self.from(0).map_err(RescueError::write)?.take(mark.len() as u64);
        file.read_to_end(&mut start).map_err(RescueError::write)?;
        Ok(start == mark)
    }

    /// Whether the first byte that stands for anything is this one.
    fn opens_with(&self, byte: u8) -> io::Result<bool> {
        let mut start = Vec::new();
        self.from(0)?.take(4 << 10).read_to_end(&mut start)?;
        Ok(start.into_iter().find(|b| matches!(b, b'[' | b'{')) == Some(byte))
    }

    /// Its lines, and what tells in the end whether a packed file is broken.
    fn lines(&self) -> Result<(Lines<Box<dyn Read>>, Torn), RescueError> {
        let failed = |source| ForeignError::Io { path: self.path.clone(), source };
        let (input, torn) = unpack::open(&self.path).map_err(failed)?;
        Ok((Lines::new(input, &self.path), torn))
    }

    fn from(&self, offset: u64) -> io::Result<impl Read + use<>> {
        let mut file = open_untouched(&self.path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(file)
    }
}

/// An agent's rules for what its rows say.
enum Dialect<'r> {
    Claude(Box<Claude<'r>>),
    Codex(Box<Codex<'r>>),
    Gemini(Box<Gemini<'r>>),
    Pi(Box<Pi<'r>>),
    /// Only lines are repaired.
    Lines,
}

impl<'r> Dialect<'r> {
    fn of(agent: Agent, reading: &'r Reading) -> Self {
        match agent {
            Agent::Claude => Self::Claude(Box::new(Claude::new(reading))),
            Agent::Codex => Self::Codex(Box::new(Codex::new(reading))),
            Agent::Gemini => Self::Gemini(Box::new(Gemini::new(reading))),
            Agent::Pi => Self::Pi(Box::new(Pi::new(reading))),
            _ => Self::Lines,
        }
    }

    /// Whether an object that stands on a broken line is a record, and not a piece of one.
    fn is_record(&self, json: &str) -> bool {
        if let (Self::Pi(_), Ok(writes)) = (self, serde_json::from_str::<Vec<&RawValue>>(json)) {
            // Version 4 puts several writes into one line.
            let mut writes = writes.into_iter().filter_map(|write| json::Fields::of(write.get()));
            return writes.any(|fields| Pi::is_record(&fields));
        }
        let Some(fields) = json::Fields::of(json) else { return false };
        match self {
            Self::Claude(_) => Claude::is_record(&fields),
            Self::Pi(_) => Pi::is_record(&fields),
            Self::Gemini(_) => Gemini::is_record(&fields),
            Self::Codex(_) | Self::Lines => true,
        }
    }

    fn take(&mut self, at: &At, json: &str, draft: &mut Draft) {
        match self {
            Self::Claude(claude) => claude.take(at, json, draft),
            Self::Codex(codex) => codex.take(at, json, draft),
            Self::Gemini(gemini) => gemini.take(at, json),
            Self::Pi(pi) => pi.take(at, json, draft),
            Self::Lines => {}
        }
    }

    fn finish(&mut self, draft: &mut Draft) -> Option<u64> {
        match self {
            Self::Claude(claude) => claude.finish(draft),
            Self::Codex(codex) => return codex.finish(draft),
            Self::Gemini(gemini) => gemini.finish(draft),
            Self::Pi(pi) => pi.finish(draft),
            Self::Lines => {}
        }
        None
    }
}

/// Goes through all lines once. Gives the line from which on lines are numbered anew.
fn go_through(
    source: &Source,
    reading: &Reading,
    order: &Arc<Order>,
    draft: &mut Draft,
) -> Result<Option<u64>, RescueError> {
    let mut dialect = Dialect::of(draft.agent, reading);
    let (lines, torn) = source.lines()?;
    let mut lines = lines.in_order(Arc::clone(order));
    let (mut last, mut whole) = (None, 0_u64);
    while let Some(line) = lines.next_raw()? {
        let at = At { line: line.number, offset: line.offset, object: 0 };
        if line.oversize.is_some() {
            continue;
        }
        let found = salvage(line.bytes, line.number == 1);
        if line.is_first {
            line_rules(&at, &found, line.whole, draft);
            whole += found.objects.len() as u64;
            if let (Dialect::Pi(pi), true) = (&mut dialect, line.bytes.trim_ascii().is_empty()) {
                pi.take_blank(&at);
            }
        }
        for (object, json) in found.objects.iter().enumerate() {
            if !line.has(object) {
                continue;
            }
            let at = At { object, ..at };
            tell_moved(&at, order, draft);
            if found.lost > 0 && !dialect.is_record(json) {
                draft.leave_out(&at);
            } else {
                dialect.take(&at, json, draft);
            }
        }
        last = (!line.whole && !found.objects.is_empty()).then_some(at);
    }
    if torn.get() && draft.has(Rule::TornArchive) {
        draft.tell(Rule::TornArchive, None, "the packed file is broken or ends early");
    }
    if whole == 0 {
        let (path, bytes) = (source.path.clone(), source.bytes());
        return Err(ForeignError::NoTurns { path, bytes }.into());
    }
    if let Some(at) = last.filter(|_| draft.has(Rule::NoLineEnd)) {
        draft.edit(&at);
        draft.tell(Rule::NoLineEnd, Some(&at), "the last line has no end");
    }
    Ok(dialect.finish(draft))
}

/// Tells of a record that it moves.
fn tell_moved(at: &At, order: &Order, draft: &mut Draft) {
    for (_, moved) in order.moved(at.line, at.object..=at.object) {
        let what = match moved {
            Moved::Behind(line) if line == at.line => {
                "it stands before what it hangs on, on one line with it".to_owned()
            }
            Moved::Before(line) if line == at.line => {
                "it stands behind what hangs on it, on one line with it".to_owned()
            }
            Moved::Behind(line) => {
                format!("it stands before what it hangs on, and goes behind line {line}")
            }
            Moved::Before(line) => {
                format!("it stands behind what hangs on it, and goes before line {line}")
            }
        };
        draft.tell(Rule::OutOfOrder, Some(at), what);
    }
}

/// What is wrong with a line as such.
fn line_rules(at: &At, found: &Salvage, ended: bool, draft: &mut Draft) {
    for rule in found.rules.iter().copied().filter(|rule| draft.has(*rule)).collect::<Vec<_>>() {
        draft.edit(at);
        let what = match rule {
            Rule::ByteOrderMark => "a byte order mark stands before the first line".to_owned(),
            Rule::NulRun if found.objects.is_empty() => {
                "the line is nothing but NUL bytes".to_owned()
            }
            Rule::NulRun => "NUL bytes stand beside the record".to_owned(),
            Rule::TornLine if ended => "the line is no JSON: it was cut or overwritten".to_owned(),
            Rule::TornLine => "the last line was not written to its end".to_owned(),
            Rule::FusedLine if found.lost > 0 => {
                format!("{} bytes of a broken record share the line with whole ones", found.lost)
            }
            Rule::FusedLine => format!("{} records stand on one line", found.objects.len()),
            Rule::BadUtf8 => "the line holds bytes that are no UTF-8".to_owned(),
            Rule::ControlByte => "control bytes stand in a text as they are".to_owned(),
            _ => "the line holds half of a surrogate pair".to_owned(),
        };
        if matches!(rule, Rule::TornLine | Rule::BadUtf8)
            || rule == Rule::FusedLine && found.lost > 0
        {
            draft.set_aside(at);
        }
        draft.tell(rule, Some(at), what);
    }
}
