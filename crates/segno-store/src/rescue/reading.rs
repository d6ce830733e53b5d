//! What our reader makes of a session: what a plan is drawn from.
//!
//! Responsible for: reading it as everything else does, and keeping of that what a plan asks for. Must not: look
//! at bytes.

use super::folder;
use super::rule::Rule;
use super::tree::{hash, uuid_of};
use crate::disk::RealDisk;
use crate::foreign::{
    self, Agent, Astray, Facts, ForeignError, ForeignRecord, Item, Located, Origin, View,
};
use segno_model::context::Unanswered;
use segno_model::record::Message;
use segno_model::{Body, Timestamp};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// A session as our reader reads it.
#[derive(Debug, Default)]
pub(super) struct Reading {
    nodes: HashSet<u64>,
    /// Where replies begin, in the order of the file.
    replies: Vec<u64>,
    /// Calls of the context without results: where their reply begins, and the id as the file names it.
    pub(super) unanswered: Vec<(Option<u64>, String)>,
    /// Lines of results whose call is nowhere. One that stands behind its result may be part of the same reply.
    pub(super) orphans: HashSet<u64>,
    /// What the session continues is nowhere.
    pub(super) lost_base: bool,
    /// Lines of compactions that name what they cannot keep.
    pub(super) lost_kept: HashSet<u64>,
    /// By the line of a compaction: the first record that it keeps.
    pub(super) kept: HashMap<u64, Option<String>>,
    /// Results that must not be sent where they stand.
    astray: HashMap<u64, Stray>,
    /// Rows before which such a result belongs.
    awaited: HashSet<u64>,
    pub(super) facts: Facts,
    /// Whether it is a subagent's.
    pub(super) is_child: bool,
    /// When the first record was.
    pub(super) first_at: Option<Timestamp>,
    pub(super) id_of_name: Option<String>,
    /// The name of the folder, where that stands for the session's directory.
    folder: Option<String>,
}

impl Reading {
    /// Reads a session, four times: it is not held.
    pub(super) fn of(session: &Located) -> Result<Self, ForeignError> {
        let mut reading = Self {
            id_of_name: id_of_name(session),
            is_child: session.parent.is_some(),
            folder: folder::name(&session.path),
            ..Self::default()
        };
        let (mut kept, mut late) = (HashMap::new(), Vec::new());
        let read = foreign::read(session, &mut |item| {
            match item {
                Item::Record(read) => {
                    let (record, origin) = (&read.record, &read.origin);
                    if reading.first_at.is_none() && read.dated {
                        reading.first_at = Some(record.envelope.at);
                    }
                    if let Body::Message(message) = record.body()
                        && matches!(**message, Message::Assistant(_))
                    {
                        reading.replies.extend(origin.line);
                    }
                    late.extend(reading.take_astray(&read));
                    if let Some(line) = origin.line.filter(|_| record.is_node()) {
                        let id = origin.id.as_deref().unwrap_or_default();
                        reading.nodes.insert(key(line, id));
                        if let Body::Compaction(compaction) = record.body() {
                            let first = compaction.first_kept.map(|at| at.seq);
                            kept.insert(line, first);
                        }
                    }
                }
                Item::Fact(fact) => reading.facts.take(fact),
                Item::Finding(found) if found.code == "orphan-result" => {
                    reading.orphans.extend(found.line);
                }
                Item::Finding(found) if found.code == "missing-kept-record" => {
                    reading.lost_kept.extend(found.line);
                }
                Item::Finding(found) => reading.lost_base |= found.code == "missing-base",
            }
            ControlFlow::Continue(())
        });
        match read {
            // What holds no turn can still have lines to repair.
            Ok(()) | Err(ForeignError::NoTurns { .. }) => {}
            Err(error) => return Err(error),
        }
        reading.replies.sort_unstable();
        reading.look_up(session, &kept, &late)?;
        if let Ok(view) = View::pairs(session) {
            let mut lines = HashMap::new();
            for read in &view.records {
                lines.extend(read.origin.line.map(|line| (read.record.seq(), line)));
            }
            let call = |call: Unanswered| (lines.get(&call.call_seq).copied(), call.call_id);
            reading.unanswered = view.context().unanswered.into_iter().map(call).collect();
        }
        Ok(reading)
    }

    /// Notes what is wrong with where a result stands; gives one that is late.
    fn take_astray(&mut self, read: &ForeignRecord) -> Option<Late> {
        let (astray, result) = (read.astray?, key_of(&read.origin)?);
        if let Some(stray) = Stray::unsent(astray) {
            self.astray.insert(result, stray);
        }
        match (astray, read.record.body()) {
            (Astray::Late(before), Body::Message(message)) => match &**message {
                Message::Tool(tool) => Some(Late { result, call: tool.call_seq?, before }),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a row became a node.
    pub(super) fn is_node(&self, line: u64, id: &str) -> bool {
        self.nodes.contains(&key(line, id))
    }

    /// Where the reply begins that a line is part of; 0 where it is part of none.
    pub(super) fn reply_of(&self, line: u64) -> u64 {
        let behind = self.replies.partition_point(|start| *start <= line);
        behind.checked_sub(1).map_or(0, |last| self.replies[last])
    }

    /// What is known of a session whose header is lost: its id, its directory, and when it began. What nothing
    /// tells is made up: a file with a header opens, and one without is refused.
    pub(super) fn header(&self) -> (String, String, Timestamp) {
        let created = self.facts.created.or(self.first_at).unwrap_or_default();
        let made_up = || uuid_of(&format!("session {created}"));
        let (named, told) = (self.id_of_name.clone(), self.facts.id.clone());
        let id = match named {
            // Gemini CLI's names hold its beginning.
            Some(named) if named.len() > SHORT => Some(named),
            short => told.or_else(|| short.map(|short| short.clone() + &uuid_of(&short)[SHORT..])),
        };
        let id = id.unwrap_or_else(made_up);
        (id, self.directory().0, created)
    }

    /// That the header is lost, and how sure it is what stands there now.
    pub(super) fn header_lost(&self) -> String {
        let lost = "the first line, which says what the session is, is lost";
        match self.directory() {
            (_, true) => lost.to_owned(),
            (cwd, false) if self.folder.is_some() => {
                format!("{lost}; that it ran in {cwd} is a guess from the name of its folder")
            }
            (cwd, false) => format!("{lost}; nothing tells where it ran: {cwd} is put there"),
        }
    }

    /// Where it ran, and whether that is sure.
    fn directory(&self) -> (String, bool) {
        match (&self.facts.cwd, &self.folder) {
            (Some(told), _) => (told.clone(), true),
            (None, Some(folder)) => folder::directory(&RealDisk, folder),
            (None, None) => ("/".to_owned(), false),
        }
    }

    /// Whether something is wrong with where a result stands.
    pub(super) fn astray(&self, line: u64, id: &str) -> Option<Stray> {
        self.astray.get(&key(line, id)).copied()
    }

    /// Whether a late result has to come before a row.
    pub(super) fn is_awaited(&self, line: u64, id: &str) -> bool {
        !self.awaited.is_empty() && self.awaited.contains(&key(line, id))
    }

    /// Finds the rows that others name by their numbers.
    fn look_up(
        &mut self,
        session: &Located,
        kept: &HashMap<u64, Option<u64>>,
        late: &[Late],
    ) -> Result<(), ForeignError> {
        let of_late = late.iter().flat_map(|late| [late.call, late.before]);
        let wanted: HashSet<u64> = kept.values().copied().flatten().chain(of_late).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let mut rows: HashMap<u64, Origin> = HashMap::new();
        let read = foreign::read(session, &mut |item| {
            if let Item::Record(read) = item
                && wanted.contains(&read.record.seq())
            {
                rows.insert(read.record.seq(), read.origin);
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = read
            && !matches!(error, ForeignError::NoTurns { .. })
        {
            return Err(error);
        }
        let name = |seq: &Option<u64>| rows.get(&(*seq)?)?.id.clone();
        self.kept = kept.iter().map(|(line, seq)| (*line, name(seq))).collect();
        for Late { result, call, before } in late {
            let reply = rows.get(call).and_then(|row| row.line);
            let before = rows.get(before).and_then(key_of);
            if let (Some(reply), Some(before)) = (reply, before) {
                self.astray.insert(*result, Stray::Late { reply, before });
                self.awaited.insert(before);
            }
        }
        Ok(())
    }
}

/// A result that does not stand right behind its call: its row, and two of our numbers.
struct Late {
    result: u64,
    call: u64,
    before: u64,
}

/// What is told of a result without a call, and of a further one.
pub(super) const ORPHAN: &str = "a result whose call is nowhere in the file";
pub(super) const SECOND: &str = "a second result for one call";

/// What is wrong with the place of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stray {
    /// It must not be sent, and why.
    Unsent(Rule, &'static str),
    /// It belongs right before another row.
    Late {
        /// The line where its call's reply begins.
        reply: u64,
        /// That row.
        before: u64,
    },
}

impl Stray {
    /// Of one that stays where it is.
    fn unsent(astray: Astray) -> Option<Self> {
        let (rule, what) = match astray {
            Astray::OtherBranch => (Rule::OrphanResult, "a result whose call is on another branch"),
            Astray::BrokenReply => (
                Rule::OrphanResult,
                "a result whose call is in a reply that broke off: it is not sent",
            ),
            Astray::Second => (Rule::SecondResult, SECOND),
            // Where lines are taken in another order, its call may be there.
            Astray::Nowhere | Astray::Late(_) => return None,
        };
        Some(Self::Unsent(rule, what))
    }
}

/// A row, by its line and the id that the file gives it.
pub(super) fn key(line: u64, id: &str) -> u64 {
    hash(&format!("{line} {id}"))
}

fn key_of(origin: &Origin) -> Option<u64> {
    Some(key(origin.line?, origin.id.as_deref().unwrap_or_default()))
}

/// How much of an id stands in the name of one of Gemini CLI's files.
const SHORT: usize = 8;

/// The id in a file's name: what stands behind the time.
fn id_of_name(session: &Located) -> Option<String> {
    let stem = session.path.file_stem()?.to_str()?;
    if session.agent == Agent::Gemini {
        let Some(rest) = stem.strip_prefix("session-") else { return session.id.clone() };
        let short = rest.rsplit('-').next().filter(|short| short.len() == SHORT);
        return short.map(str::to_owned);
    }
    // Of a packed file, what is packed in it.
    let stem = stem.strip_suffix(".jsonl").unwrap_or(stem);
    if let Some(rest) = stem.strip_prefix("rollout-") {
        let id = rest.get(rest.len().checked_sub(36)?..)?;
        return uuid::Uuid::try_parse(id).is_ok().then(|| id.to_owned());
    }
    stem.split_once('_').map(|(_, id)| id.to_owned()).filter(|id| !id.is_empty())
}
