//! One session of any agent in a list.
//!
//! Responsible for: what our own sessions and other agents' have in common, which of them a list holds,
//! and their order. Must not: print.

use crate::others::{KeptMark, Original, Other};
use crate::sessions::{Entry, Standing};
use segno_model::Timestamp;
use segno_model::record::{ProjectFacts, Usage};
use segno_store::foreign::Agent;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The word for our own sessions where agents are named.
pub const OWN: &str = "segno";

/// A session.
#[derive(Debug, Clone)]
pub enum Listed {
    /// One of ours.
    Own(Box<Entry>),
    /// Another agent's.
    Other(Box<Other>),
}

impl Listed {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Own(entry) => entry.id.as_str(),
            Self::Other(other) => &other.row.id,
        }
    }

    /// Whose it is, as a word of the command line.
    #[must_use]
    pub fn source(&self) -> &'static str {
        match self {
            Self::Own(_) => OWN,
            Self::Other(other) => other.row.agent.id(),
        }
    }

    /// Its name or title, or how it began.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        match self {
            Self::Own(entry) => entry.title(),
            Self::Other(other) => other.title(),
        }
    }

    /// When something was said in it last; none when it does not say.
    #[must_use]
    pub fn last_active(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Own(entry) => Some(entry.last_active(now)),
            Self::Other(other) => other.last_active(now),
        }
    }

    /// When it was made.
    #[must_use]
    pub fn created(&self) -> Option<Timestamp> {
        match self {
            Self::Own(entry) => Some(entry.created),
            Self::Other(other) => other.row.created,
        }
    }

    /// Whether it belongs to a project; unknown when it does not say where it ran.
    #[must_use]
    pub fn is_of(&self, project: &ProjectFacts) -> Option<bool> {
        match self {
            Self::Own(entry) => entry.is_of(project),
            Self::Other(other) => other.is_of(project),
        }
    }

    /// Whether it is a subagent's.
    #[must_use]
    pub fn is_child(&self) -> bool {
        match self {
            Self::Own(entry) => entry.is_child,
            Self::Other(other) => other.is_child(),
        }
    }

    /// The session that it belongs to, if it is a subagent's and says so.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        match self {
            Self::Own(entry) => entry.parent.as_deref(),
            Self::Other(other) => other.row.parent.as_deref(),
        }
    }

    /// Whether another session in the list goes on where this one ends.
    #[must_use]
    pub fn is_continued(&self) -> bool {
        matches!(self, Self::Other(other) if other.continued)
    }

    /// Messages of the person and of the model.
    #[must_use]
    pub fn messages(&self) -> u64 {
        match self {
            Self::Own(entry) => entry.messages(),
            Self::Other(other) => other.messages(),
        }
    }

    /// Tokens over its whole life.
    #[must_use]
    pub fn usage(&self) -> Usage {
        match self {
            Self::Own(entry) => entry.totals.usage,
            Self::Other(other) => other.row.totals.usage,
        }
    }

    /// How long its file is; 0 for one in a database.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Own(entry) => entry.bytes,
            Self::Other(other) => other.row.bytes,
        }
    }

    /// The word for where it stands.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self {
            Self::Own(entry) => entry.standing.word(),
            Self::Other(other) => other.state.word(),
        }
    }

    /// Where it stands, with who works on it, for people.
    #[must_use]
    pub fn state_shown(&self) -> String {
        match self {
            Self::Own(entry) if entry.standing.needs_attention() => {
                format!("{}!", entry.standing.word())
            }
            Self::Own(entry) if entry.standing == Standing::Waiting => {
                "waiting for approval".to_owned()
            }
            Self::Own(entry) => match entry.pid.filter(|_| entry.standing == Standing::Running) {
                Some(pid) => format!("{} {pid}", entry.standing.word()),
                None => entry.standing.word().to_owned(),
            },
            Self::Other(other) => match &other.kept {
                Some(KeptMark { state: Original::Gone, is_lost: true, version: None, .. }) => {
                    format!("{}, original and copy gone", other.state.word())
                }
                Some(KeptMark { state: Original::Gone, .. }) => {
                    format!("{}, original gone", other.state.word())
                }
                Some(KeptMark { state: Original::Unseen, .. }) => {
                    format!("{}, original not seen", other.state.word())
                }
                Some(_) => format!("{}, kept", other.state.word()),
                None => other.state.word().to_owned(),
            },
        }
    }

    /// Whether a process has it now.
    #[must_use]
    pub fn is_live(&self) -> bool {
        match self {
            Self::Own(entry) => {
                matches!(entry.standing, Standing::Running | Standing::Held | Standing::Waiting)
            }
            Self::Other(other) => other.state.is_live(),
        }
    }

    /// Whether something that was written in it cannot be read.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        matches!(self.state(), "damaged" | "unreadable")
    }

    /// Where it is, which tells copies of one session apart; nothing for ours.
    #[must_use]
    pub fn place(&self) -> (&Path, Option<&str>) {
        match self {
            Self::Own(_) => (Path::new(""), None),
            Self::Other(other) => (&other.row.path, other.row.key.as_deref()),
        }
    }

    /// Where its agent keeps it; none for ours.
    #[must_use]
    pub fn agent(&self) -> Option<Agent> {
        match self {
            Self::Own(_) => None,
            Self::Other(other) => Some(other.row.agent),
        }
    }
}

/// Which sessions a list holds.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Those of this project, and those that do not say where they ran if `unknown` is set.
    pub project: Option<ProjectFacts>,
    /// Whether one whose project is unknown is shown with every project.
    pub unknown: bool,
    /// Those of this agent; [`OWN`] for ours.
    pub source: Option<String>,
    /// Those in which something was said since then.
    pub since: Option<Timestamp>,
    /// Those that a process has now.
    pub live: bool,
}

impl Wanted {
    /// Whether a session is one of them.
    #[must_use]
    pub fn holds(&self, session: &Listed, now: Timestamp) -> bool {
        let of = |project| session.is_of(project).unwrap_or(self.unknown);
        self.project.as_ref().is_none_or(of)
            && self.source.as_ref().is_none_or(|source| session.source() == source)
            && self.since.is_none_or(|since| session.last_active(now).is_some_and(|at| at >= since))
            && (!self.live || session.is_live())
    }
}

/// The order of lists.
#[must_use]
pub fn newest_first(a: &Listed, b: &Listed, now: Timestamp) -> Ordering {
    (b.last_active(now), b.id())
        .cmp(&(a.last_active(now), a.id()))
        .then_with(|| a.place().cmp(&b.place()))
}

/// Newest last message first; subagents' sessions behind the one that they belong to.
#[must_use]
pub fn ordered(mut sessions: Vec<Listed>, now: Timestamp) -> Vec<Listed> {
    sessions.sort_by(|a, b| newest_first(a, b, now));
    let (children, roots): (Vec<_>, Vec<_>) = sessions.into_iter().partition(Listed::is_child);
    let mut of: HashMap<(&'static str, String), Vec<Listed>> = HashMap::new();
    let mut lost = Vec::new();
    let parents: std::collections::HashSet<_> =
        roots.iter().map(|s| (s.source(), s.id().to_owned())).collect();
    for child in children {
        let parent = child.parent().map(|parent| (child.source(), parent.to_owned()));
        match parent.filter(|parent| parents.contains(parent)) {
            Some(parent) => of.entry(parent).or_default().push(child),
            None => lost.push(child),
        }
    }
    let mut out = Vec::new();
    for root in roots {
        let children = of.remove(&(root.source(), root.id().to_owned()));
        out.push(root);
        out.extend(children.into_iter().flatten());
    }
    // Those whose parent is not in the list.
    out.extend(lost);
    out
}

/// Sessions of one agent that have one id, with where they are.
#[derive(Debug, Default)]
pub struct Namesakes(HashMap<(&'static str, String), Vec<PathBuf>>);

impl Namesakes {
    /// Those among all of these: whose each is, its id, and where it is.
    #[must_use]
    pub fn new<'a>(sessions: impl IntoIterator<Item = (&'static str, &'a str, &'a Path)>) -> Self {
        let mut all: HashMap<(&'static str, String), Vec<PathBuf>> = HashMap::new();
        for (source, id, path) in sessions {
            let paths = all.entry((source, id.to_ascii_lowercase())).or_default();
            if !paths.iter().any(|other| other == path) {
                paths.push(path.to_owned());
            }
        }
        all.retain(|_, paths| paths.len() > 1);
        Self(all)
    }

    /// What tells a session from others with its id: the name of its file, or of the nearest folder above it that the
    /// others are not in. None where it has its id alone.
    #[must_use]
    pub fn told_by(&self, session: &Listed) -> Option<String> {
        let key = (session.source(), session.id().to_ascii_lowercase());
        let (own, others) = (session.place().0, self.0.get(&key)?);
        let end = |path: &Path, len: usize| -> Vec<OsString> {
            path.components().rev().take(len).map(|part| part.as_os_str().to_owned()).collect()
        };
        let depth = own.components().count();
        let is_told = |len: &usize| {
            let same = |other: &&PathBuf| *other != own && end(other, *len) == end(own, *len);
            !others.iter().any(|other| same(&other))
        };
        let len = (1..=depth).find(is_told)?;
        let name = end(own, len).pop()?.to_string_lossy().into_owned();
        Some(if len > 1 { format!("{name}/…") } else { name })
    }
}

/// Ids, to be shown as short as they can be. These are those among which a shown one is looked for, not only those that
/// are shown.
#[derive(Debug)]
pub struct Ids {
    /// In lower case: whoever types one need not tell cases apart.
    sorted: Vec<String>,
}

impl Ids {
    /// All ids that are told apart.
    #[must_use]
    pub fn new<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let mut sorted: Vec<String> = ids.into_iter().map(str::to_ascii_lowercase).collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self { sorted }
    }

    /// As much of an id's beginning as tells it from the others; eight characters at least.
    #[must_use]
    pub fn short<'i>(&self, id: &'i str) -> &'i str {
        let shared =
            |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let lower = id.to_ascii_lowercase();
        let at = self.sorted.partition_point(|other| *other < lower);
        let behind = at + usize::from(self.sorted.get(at).is_some_and(|found| *found == lower));
        let before = at.checked_sub(1).and_then(|i| self.sorted.get(i));
        let neighbours = before.into_iter().chain(self.sorted.get(behind));
        let longest = neighbours.map(|other| shared(&lower, other)).max().unwrap_or(0);
        let mut len = (longest + 1).max(8).min(id.len());
        // A prefix that ends in a hyphen looks cut off, and none ends within a character.
        while len < id.len() && (id.as_bytes()[len - 1] == b'-' || !id.is_char_boundary(len)) {
            len += 1;
        }
        &id[..len]
    }
}

/// For each id, as much of its beginning as tells it from the others; eight characters at least.
#[must_use]
pub fn short_ids(ids: &[&str]) -> Vec<String> {
    let all = Ids::new(ids.iter().copied());
    ids.iter().map(|id| all.short(id).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Ids, Listed, Namesakes, short_ids};
    use crate::others::Other;
    use segno_store::catalog::ForeignRow;
    use segno_store::foreign::{Agent, Located, Stamp};
    use std::path::{Path, PathBuf};

    fn session(id: &str, path: &str) -> Listed {
        let located = Located {
            agent: Agent::Claude,
            path: PathBuf::from(path),
            key: None,
            id: Some(id.to_owned()),
            parent: None,
            archived: false,
            stamp: Stamp::default(),
        };
        Listed::Other(Box::new(Other::new(ForeignRow::unread(&located), &[])))
    }

    #[test]
    fn sessions_with_one_id_are_told_apart_by_where_they_are() {
        let cases: [(&[&str], &[&str]); 5] = [
            (&["/p/a/x.jsonl", "/p/b/x.jsonl"], &["a/…", "b/…"]),
            (&["/p/a/x.jsonl", "/p/a/copy.jsonl"], &["x.jsonl", "copy.jsonl"]),
            (&["/p/a/s/x.jsonl", "/q/a/s/x.jsonl", "/p/x.jsonl"], &["p/…", "q/…", "p/…"]),
            (&["/x.jsonl", "/p/x.jsonl"], &["//…", "p/…"]),
            (&["/p/a/x.jsonl", "/p/a/x.jsonl"], &["", ""]),
        ];
        for (paths, expected) in cases {
            let of = |path: &&'static str| ("claude", "ID", Path::new(*path));
            let all = Namesakes::new(paths.iter().map(of));
            let told = paths.iter().map(|path| all.told_by(&session("id", path)));
            assert_eq!(told.map(Option::unwrap_or_default).collect::<Vec<_>>(), expected);
            assert_eq!(all.told_by(&session("other", paths[0])), None);
        }
    }

    #[test]
    fn an_id_that_was_not_there_is_told_from_the_others_too() {
        let ids = Ids::new(["0123456789", "0123456999"]);
        assert_eq!(ids.short("0123456788"), "0123456788");
        assert_eq!(ids.short("9"), "9");
    }

    #[test]
    fn ids_are_as_short_as_they_can_be() {
        let cases: [(&[&str], &[&str]); 5] = [
            (&["ses_0aB1xyz", "ses_0aB2xyz", "SES_0ab1z"], &["ses_0aB1x", "ses_0aB2", "SES_0ab1z"]),
            (&["0123456789", "0123456999"], &["01234567", "01234569"]),
            (&["abc"], &["abc"]),
            (&["01234567-8", "01234568-8"], &["01234567", "01234568"]),
            (&["ééééééé", "éééééé"], &["ééééééé", "éééééé"]),
        ];
        for (ids, expected) in cases {
            assert_eq!(short_ids(ids), expected, "{ids:?}");
        }
    }
}
