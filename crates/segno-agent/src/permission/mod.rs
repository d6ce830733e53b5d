//! What may run without asking, what asks, and what is refused.
//!
//! Responsible for: the modes, the decision table, and what was remembered of a person's answers.
//! Must not: run anything or ask anybody. The rules guard against accidents and against instructions
//! that a model picked up somewhere; they are no sandbox: a command that was allowed can do anything.

pub mod command;
mod operands;
mod programs;
mod rule;

pub use crate::tool::{Place, Reach};
pub use operands::{Depth, Look};
pub use rule::PrefixRule;

use command::Judgement;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// How much is allowed without asking (`--permission`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Nothing but reading, outside of the project when asked; everything else is refused unasked.
    ReadOnly,
    /// Reading in the project; everything else asks.
    Ask,
    /// Reading and changing files in the project; everything else asks.
    Edits,
    /// Everything but changing Segno's own files, which asks.
    All,
}

impl Mode {
    /// All of them, the strictest first.
    pub const ALL: [Self; 4] = [Self::ReadOnly, Self::Ask, Self::Edits, Self::All];

    /// The name on the command line and in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Ask => "ask",
            Self::Edits => "edits",
            Self::All => "all",
        }
    }

    /// The mode of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// What one part of a call wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Look at something in the project, or keep the task list.
    Read,
    /// Look at something outside of the project.
    Outside,
    /// Look at a place where credentials are kept.
    Secret,
    /// Change a file.
    Write(Place),
    /// Run a plain command that is not known to be harmless.
    Run,
    /// Run something that the judge does not see through.
    Doubt,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Decision {
    /// Run it.
    Allow,
    /// Ask a person; without one, refuse.
    Ask,
    /// Refuse it.
    Refuse,
}

/// Whether a row of the table is about a case.
type Applies = fn(Mode, Subject, bool) -> bool;

/// The decision table: for every mode, subject, and whether an earlier answer covers it, exactly one
/// row applies.
pub const DECISIONS: &[(&str, Applies, Decision)] = &[
    ("reading in the project is free", |_, s, _| s == Subject::Read, Decision::Allow),
    (
        "read-only refuses whatever is more than reading",
        |m, s, _| m == Mode::ReadOnly && !matches!(s, Subject::Read | Subject::Outside),
        Decision::Refuse,
    ),
    (
        "segno's own files always need a person",
        |m, s, _| m != Mode::ReadOnly && s == Subject::Write(Place::Own),
        Decision::Ask,
    ),
    (
        "all allows everything else",
        |m, s, _| m == Mode::All && !matches!(s, Subject::Read | Subject::Write(Place::Own)),
        Decision::Allow,
    ),
    (
        "guarded files ask every time",
        |m, s, _| asks(m, s) && s == Subject::Write(Place::Guarded),
        Decision::Ask,
    ),
    (
        "edits allows changes to the project's files",
        |m, s, _| m == Mode::Edits && s == Subject::Write(Place::Inside),
        Decision::Allow,
    ),
    (
        "an earlier answer covers it",
        |m, s, covered| asks(m, s) && rememberable(m, s) && covered,
        Decision::Allow,
    ),
    ("the rest asks", |m, s, covered| asks(m, s) && rememberable(m, s) && !covered, Decision::Ask),
];

fn asks(mode: Mode, subject: Subject) -> bool {
    matches!(mode, Mode::Ask | Mode::Edits)
        || (mode == Mode::ReadOnly && subject == Subject::Outside)
}

/// What asks and can be answered for more than once.
fn rememberable(mode: Mode, subject: Subject) -> bool {
    match subject {
        Subject::Read | Subject::Write(Place::Guarded | Place::Own) => false,
        Subject::Write(Place::Inside) => mode != Mode::Edits,
        Subject::Outside
        | Subject::Secret
        | Subject::Write(Place::Outside)
        | Subject::Run
        | Subject::Doubt => true,
    }
}

/// Decides one part of a call; `covered` says that an earlier answer or a saved rule is about it.
#[must_use]
pub fn decide(mode: Mode, subject: Subject, covered: bool) -> Decision {
    let row = DECISIONS.iter().find(|(_, applies, _)| applies(mode, subject, covered));
    row.map_or(Decision::Ask, |(_, _, decision)| *decision)
}

/// What a call wants, all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// Reads at a resolved path.
    Read(PathBuf, Reach),
    /// Changes a resolved path.
    Write(PathBuf, Place),
    /// Runs a command.
    Command(CommandWish),
    /// Calls a tool of another program.
    External(ExternalWish),
    /// Touches nothing.
    Nothing,
}

/// What a command wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandWish {
    /// The command.
    pub text: String,
    /// What it does; what it may read of credentials is among the doubts.
    pub judgement: Judgement,
    /// The resolved files that its redirects write.
    pub writes: Vec<(PathBuf, Place)>,
    /// The resolved paths outside of the project that it may read.
    pub outside: Vec<PathBuf>,
}

/// A call of another program's tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalWish {
    /// The tool, as the model knows it.
    pub name: String,
    /// The tool and its server, for people.
    pub shown: String,
    /// The arguments, as the model wrote them.
    pub arguments: String,
    /// Whether a server that the user trusts says that it only reads.
    pub reads: bool,
}

/// What was remembered: the user's saved rules and this session's answers.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    rules: Vec<PrefixRule>,
    commands: HashSet<String>,
    tools: HashSet<String>,
    paths: HashSet<PathBuf>,
    places: HashSet<PathBuf>,
    project_edits: bool,
}

/// How far an answer could reach for one wish.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    /// What an answer for the session would cover, for people; none where every time asks.
    pub session: Option<String>,
    /// The rules that an `always` would save; empty where that is not offered.
    pub always: Vec<PrefixRule>,
}

impl Memory {
    /// Begins with the user's saved rules.
    #[must_use]
    pub fn new(rules: Vec<PrefixRule>) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Decides a whole call: the strictest decision of its parts.
    #[must_use]
    pub fn decide(&self, mode: Mode, wish: &Wish) -> Decision {
        let parts = self.subjects(wish);
        let decisions = parts.into_iter().map(|(subject, covered)| decide(mode, subject, covered));
        decisions.max().unwrap_or(Decision::Allow)
    }

    /// The parts of a wish, each with whether something remembered covers it.
    #[must_use]
    pub fn subjects(&self, wish: &Wish) -> Vec<(Subject, bool)> {
        match wish {
            Wish::Nothing | Wish::Read(_, Reach::Inside) => vec![(Subject::Read, false)],
            Wish::Read(path, Reach::Outside) => vec![self.outside(path)],
            Wish::Read(path, Reach::Secret) => vec![(Subject::Secret, self.paths.contains(path))],
            Wish::Write(path, place) => vec![self.write(path, *place)],
            Wish::Command(command) => self.command_subjects(command),
            Wish::External(call) if call.reads => vec![(Subject::Read, false)],
            Wish::External(call) => vec![(Subject::Run, self.tools.contains(&call.name))],
        }
    }

    fn command_subjects(&self, command: &CommandWish) -> Vec<(Subject, bool)> {
        let whole = self.commands.contains(&command.text);
        let outside = command.outside.iter().map(|path| self.outside(path));
        let writes = command.writes.iter().map(|(path, place)| self.write(path, *place));
        let mut parts = vec![(Subject::Read, false)];
        parts.extend(outside.chain(writes).map(|(subject, covered)| (subject, covered || whole)));
        let ruled = |words: &[String]| self.rules.iter().any(|rule| rule.covers(words));
        let runs = command.judgement.runs.iter();
        parts.extend(runs.map(|run| (Subject::Run, whole || ruled(&run.words))));
        parts.extend(command.judgement.doubts.iter().map(|_| (Subject::Doubt, whole)));
        parts
    }

    /// An answer about a directory covers what lies in it, but never credentials there.
    fn outside(&self, path: &Path) -> (Subject, bool) {
        (Subject::Outside, path.ancestors().any(|above| self.places.contains(above)))
    }

    fn write(&self, path: &Path, place: Place) -> (Subject, bool) {
        let inside = place == Place::Inside && self.project_edits;
        (Subject::Write(place), inside || self.paths.contains(path))
    }

    /// What may be answered beyond `once`.
    #[must_use]
    pub fn offers(&self, wish: &Wish) -> Offers {
        match wish {
            Wish::Nothing
            | Wish::Read(_, Reach::Inside)
            | Wish::Write(_, Place::Guarded | Place::Own) => Offers::default(),
            Wish::Write(_, Place::Inside) => Offers {
                session: Some("changes to this project's files".to_owned()),
                always: vec![],
            },
            Wish::Read(path, Reach::Outside) => {
                Offers { session: Some(format!("reading in {}", path.display())), always: vec![] }
            }
            Wish::Read(path, Reach::Secret) | Wish::Write(path, Place::Outside) => {
                Offers { session: Some(path.display().to_string()), always: vec![] }
            }
            Wish::Command(command) => self.command_offers(command),
            Wish::External(call) if call.reads => Offers::default(),
            Wish::External(call) => {
                Offers { session: Some(format!("every call of {}", call.shown)), always: vec![] }
            }
        }
    }

    fn command_offers(&self, command: &CommandWish) -> Offers {
        let CommandWish { text, judgement, writes, outside } = command;
        if writes.iter().any(|(_, place)| matches!(place, Place::Guarded | Place::Own)) {
            return Offers::default();
        }
        let open: Vec<_> = judgement
            .runs
            .iter()
            .filter(|run| !self.rules.iter().any(|rule| rule.covers(&run.words)))
            .collect();
        let mut always: Vec<PrefixRule> = open.iter().filter_map(|run| run.rule.clone()).collect();
        let complete = judgement.doubts.is_empty()
            && writes.is_empty()
            && outside.is_empty()
            && always.len() == open.len();
        if !complete {
            always.clear();
        }
        always.dedup();
        Offers { session: Some(format!("exactly this command: {text}")), always }
    }

    /// Keeps an answer for the session.
    pub fn remember_session(&mut self, wish: &Wish) {
        if self.offers(wish).session.is_none() {
            return;
        }
        match wish {
            Wish::Write(_, Place::Inside) => self.project_edits = true,
            Wish::Read(path, Reach::Outside) => {
                self.places.insert(path.clone());
            }
            Wish::Read(path, _) | Wish::Write(path, _) => {
                self.paths.insert(path.clone());
            }
            Wish::Command(command) => {
                self.commands.insert(command.text.clone());
            }
            Wish::External(call) => {
                self.tools.insert(call.name.clone());
            }
            Wish::Nothing => {}
        }
    }

    /// Keeps an `always` and gives the rules to save.
    pub fn remember_always(&mut self, wish: &Wish) -> Vec<PrefixRule> {
        let rules = self.offers(wish).always;
        self.rules.extend(rules.iter().cloned());
        rules
    }
}

/// The sentence for a refusal without asking.
#[must_use]
pub fn refusal(mode: Mode, wish: &Wish, memory: &Memory) -> String {
    if mode == Mode::ReadOnly && memory.decide(mode, wish) == Decision::Refuse {
        return "Refused: this session is read-only (`--permission read-only`).".to_owned();
    }
    let needed = [Mode::Edits, Mode::All]
        .into_iter()
        .find(|mode| memory.decide(*mode, wish) == Decision::Allow);
    match needed {
        Some(Mode::Edits) => "Refused: this needs a permission and there is nobody to ask. \
             `--permission edits` allows changes to the project's files, `--permission all` everything."
            .to_owned(),
        Some(_) => "Refused: this needs a permission and there is nobody to ask. \
             `--permission all` allows it."
            .to_owned(),
        None => "Refused: changes to Segno's own files need a person's answer in a terminal, \
             even with `--permission all`."
            .to_owned(),
    }
}
