//! A session, written as another agent's files.
//!
//! Responsible for: what is handed in (a session in our terms, whosever it was), what comes out (files, the
//! command that resumes them, and what the target cannot hold), and which target writes what. One module per
//! target knows its format. Pure: no file is read or written here, no clock, no chance; the same session and
//! options give the same bytes. Must not: know where a session came from beyond its name, or change what
//! was said: what a target cannot hold is a [`Loss`].

mod build;
mod claude;
mod codex;
mod gemini;
mod ids;
mod kept;
mod loss;
mod notices;
mod numbers;
mod opencode;
mod pi;
mod pieces;
mod tools;
mod transcript;

pub use ids::new_id;
pub use loss::{Loss, LossKind, Losses};
pub use tools::for_agent as tool_for;
pub use transcript::{Answer, Call, Document, Part, Piece, Reply, Said, Transcript, Turn};

use crate::foreign::{Agent, RawPiece, View};
use segno_model::finding::{Finding, Severity};
use segno_model::record::BlobRef;
use segno_model::{Record, Seq, Timestamp};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A session in our terms: one of ours, or another agent's as it was read.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// Whose it was: `segno`, or the agent's word ([`Agent::id`]).
    pub source: String,
    /// Its id there.
    pub id: String,
    /// The title that a person gave it.
    pub named: Option<String>,
    /// The title that an agent made up.
    pub titled: Option<String>,
    /// The working directory: an absolute path, or empty when nobody knows.
    pub cwd: String,
    /// The git branch.
    pub branch: Option<String>,
    /// The git commit.
    pub commit: Option<String>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Everything, in the order of the log.
    pub records: Vec<Record>,
    /// The current node; none is the empty beginning.
    pub tip: Option<Seq>,
    /// The sessions of its subagents.
    pub children: Vec<Child>,
    /// What its agent wrote and our terms do not hold, by record.
    pub pieces: BTreeMap<Seq, Vec<RawPiece>>,
    /// In how many places it is damaged.
    pub damages: u64,
}

/// How many of these tell of damage.
#[must_use]
pub fn damages(findings: &[Finding]) -> u64 {
    findings.iter().filter(|finding| finding.severity == Severity::Damage).count() as u64
}

/// A subagent's session.
#[derive(Debug, Clone, Default)]
pub struct Child {
    /// What was said in it.
    pub session: Session,
    /// The id of the call in the parent that started it.
    pub call: Option<String>,
    /// Its role's name.
    pub role: Option<String>,
}

impl Session {
    /// A session of another agent as it was read. What its file mixes in of subagents are children of it;
    /// subagents with files of their own are for the caller to add.
    #[must_use]
    pub fn of_view(agent: Agent, view: View) -> Self {
        let View { facts, records, tip, findings } = view;
        let mut session = Self {
            source: agent.id().to_owned(),
            id: facts.id.unwrap_or_default(),
            named: facts.named,
            titled: facts.titled,
            cwd: facts.cwd.unwrap_or_default(),
            branch: facts.branch,
            commit: facts.commit,
            created: facts.created,
            records: Vec::new(),
            tip,
            children: Vec::new(),
            pieces: BTreeMap::new(),
            damages: damages(&findings),
        };
        for read in records {
            let whose = match read.subagent {
                None => &mut session,
                Some(id) => {
                    let child = session.mixed_in(id);
                    child.note(&read.record);
                    child
                }
            };
            if !read.pieces.is_empty() {
                whose.pieces.insert(read.record.seq(), read.pieces);
            }
            whose.records.push(read.record);
        }
        session
    }

    /// Whether it or a subagent's session is damaged.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.damages > 0 || self.children.iter().any(|child| child.session.is_damaged())
    }

    fn lose_damage(&self, losses: &mut Losses) {
        losses.add(LossKind::Damage, self.damages);
        for Child { session, .. } in &self.children {
            losses.within(session, |losses| session.lose_damage(losses));
        }
    }

    fn mixed_in(&mut self, id: String) -> &mut Self {
        let known = self.children.iter().position(|child| child.session.id == id);
        let at = known.unwrap_or(self.children.len());
        if known.is_none() {
            let (source, cwd) = (self.source.clone(), self.cwd.clone());
            let session = Self { source, id, cwd, ..Self::default() };
            self.children.push(Child { session, ..Child::default() });
        }
        &mut self.children[at].session
    }

    fn note(&mut self, record: &Record) {
        if record.is_node() {
            self.tip = Some(record.seq());
        }
        self.created = self.created.or(Some(record.envelope.at));
    }

    /// The title to show: a person's before an agent's.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.named.as_deref().or(self.titled.as_deref())
    }

    /// When it began: as it says, or as its first record does.
    #[must_use]
    pub fn began(&self) -> Timestamp {
        let first = || self.records.first().map(|record| record.envelope.at);
        self.created.or_else(first).unwrap_or_default()
    }
}

/// Where large values of records are.
pub trait Blobs {
    /// A blob's bytes, verified; none when it is gone or damaged.
    fn bytes(&self, blob: &BlobRef) -> Option<Vec<u8>>;
}

/// No blobs: sessions of other agents hold everything in their records.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBlobs;

impl Blobs for NoBlobs {
    fn bytes(&self, _blob: &BlobRef) -> Option<Vec<u8>> {
        None
    }
}

/// How it is to be written.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The new session's id, in the target's form ([`new_id`]).
    pub id: String,
    /// The target's version to write into the files; none is the one that was looked at.
    pub version: Option<String>,
    /// The name under which the target keeps the project, where that does not follow from the directory
    /// (Gemini CLI).
    pub project: Option<String>,
    /// When it is written, for targets that delete sessions which nobody changed for long (Gemini CLI); none
    /// is the time of what was said last.
    pub now: Option<Timestamp>,
}

/// What a conversion gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The new session's id.
    pub id: String,
    /// The files, the session's own first.
    pub files: Vec<File>,
    /// Files that are not the session's, without which its agent does not know where in its folder it is
    /// (Gemini CLI's note of whose a project's folder is).
    pub markers: Vec<File>,
    /// What resumes it.
    pub resume: Resume,
    /// What the target cannot hold.
    pub losses: Vec<Loss>,
}

/// A file to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where, relative to the agent's own folder.
    pub path: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// The command that resumes a session in its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// The directory to be in; none when it does not matter or nobody knows.
    pub cwd: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The commands that have to run before: imports by the agent itself. [`Resume::FILE`] stands for the path
    /// of the file of the same place: in the first command for the first file's.
    pub before: Vec<Vec<String>>,
}

impl Resume {
    /// Stands for a file's path in a command.
    pub const FILE: &str = "{file}";

    /// `program args…` in the session's directory.
    fn new(session: &Session, command: &[&str]) -> Self {
        let cwd = Some(session.cwd.clone()).filter(|cwd| !cwd.is_empty());
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Self { cwd, command, before: Vec::new() }
    }
}

/// Why nothing was converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// Nobody wrote that target.
    #[error("sessions cannot be written as {}'s", .0.name())]
    NotATarget(Agent),
    /// Nothing was said on its current path.
    #[error("nothing was said in the session, up to where it stands")]
    Empty,
}

/// The agents that sessions can be written for.
pub const TARGETS: [Agent; 5] =
    [Agent::Claude, Agent::Codex, Agent::Pi, Agent::OpenCode, Agent::Gemini];

/// Writes a session as `target`'s.
///
/// # Errors
/// When nothing was said in it, or the target is none.
pub fn convert(
    session: &Session,
    target: Agent,
    options: &Options,
    blobs: &dyn Blobs,
) -> Result<Converted, ConvertError> {
    let mut losses = Losses::default();
    session.lose_damage(&mut losses);
    let transcript = Transcript::of(session, target, blobs, &mut losses);
    if transcript.path().next().is_none() {
        return Err(ConvertError::Empty);
    }
    let work = Work { session, transcript: &transcript, options, blobs };
    let (files, resume) = match target {
        Agent::Claude => claude::write(&work, &mut losses),
        Agent::Codex => codex::write(&work, &mut losses),
        Agent::Gemini => gemini::write(&work, &mut losses),
        Agent::OpenCode => opencode::write(&work, &mut losses),
        Agent::Pi => pi::write(&work, &mut losses),
        other => return Err(ConvertError::NotATarget(other)),
    };
    let whole = |file: File| File { bytes: numbers::restored(file.bytes), ..file };
    let files = files.into_iter().map(whole).collect();
    let marker = if target == Agent::Gemini { gemini::marker(&work) } else { None };
    Ok(Converted {
        id: options.id.clone(),
        files,
        markers: marker.into_iter().collect(),
        resume,
        losses: losses.into_list(),
    })
}

impl Converted {
    /// All that goes into its agent's folder, the session's own file first.
    #[must_use]
    pub fn whole(&self) -> Vec<File> {
        let (own, rest) = self.files.split_at(self.files.len().min(1));
        own.iter().chain(&self.markers).chain(rest).cloned().collect()
    }
}

/// What a target's module is given.
#[derive(Clone, Copy)]
struct Work<'a> {
    session: &'a Session,
    transcript: &'a Transcript,
    options: &'a Options,
    /// For the children's transcripts.
    blobs: &'a dyn Blobs,
}
