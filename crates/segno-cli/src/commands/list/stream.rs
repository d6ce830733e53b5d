//! The list while sessions are still being read.
//!
//! Responsible for: showing each row as soon as nothing that is unread can stand above it, so that what
//! comes out is the same list, only earlier. Must not: be used where somebody else reads the output: widths are
//! fixed before all rows are known, and a session whose file was changed before its last message was
//! written (a clock was wrong) comes late.

use super::{Page, any_cells, any_columns, closing_lines, nothing, with};
use crate::listing::{Ids, Listed, Namesakes, Wanted, newest_first};
use crate::others::{Meter, Other, Survey, continued};
use crate::terminal::Screen;
use crate::terminal::table::{Sheet, Table};
use segno_model::Timestamp;
use segno_store::catalog::Progress;
use std::collections::HashSet;
use std::path::PathBuf;

/// Room for figures and words that are not known yet.
const FIGURE: usize = "1023 KB".len();
const STATE: usize = "interrupted".len();

/// Lists what is wanted of our own sessions and of those that were found, and reads these. `ahead` is what
/// has to be read.
pub(super) async fn list(
    own: Vec<Listed>,
    survey: Survey,
    ahead: Progress,
    wanted: &Wanted,
    now: Timestamp,
    screen: &mut Screen,
) {
    let known = survey.known().into_iter().map(|other| Listed::Other(Box::new(other)));
    let known: Vec<Listed> = own.iter().cloned().chain(known).collect();
    let unread = survey.unread().filter_map(|located| located.id.clone());
    let ids: Vec<String> =
        known.iter().map(|session| session.id().to_owned()).chain(unread).collect();
    let ids = Ids::new(ids.iter().map(String::as_str));
    let unread = survey.unread().filter_map(|located| {
        Some((located.agent.id(), located.id.as_deref()?, located.path.as_path()))
    });
    let all = known.iter().map(|session| (session.source(), session.id(), session.place().0));
    let namesakes = Namesakes::new(all.chain(unread));
    let mut stream = Stream {
        sheet: sheet(&known, &survey, &ids, screen.look().columns),
        known,
        ids,
        namesakes,
        shown: HashSet::new(),
        wanted,
        now,
        screen,
        meter: Meter::default(),
        next: 0,
    };
    stream.show(ahead.newest_unread);
    let mut others = survey.read(&mut |progress, other| stream.take(progress, other)).await;
    let page = Page::new(with(own, &mut others), wanted, false, now);
    stream.finish(&page);
    screen.lines(closing_lines(&page, &others));
}

/// Columns with room for what is to come.
fn sheet(known: &[Listed], survey: &Survey, ids: &Ids, width: usize) -> Sheet {
    let states = known.iter().map(|session| session.state_shown().len());
    let state = states.max().unwrap_or(0).max(STATE);
    let known = known.iter().map(|session| (session.id(), session.source()));
    let unread = survey.unread().map(|l| (l.id.as_deref().unwrap_or_default(), l.agent.id()));
    let (id, agent) = known.chain(unread).fold((0, 0), |(id, agent), (one, source)| {
        (ids.short(one).len().max(id), source.len().max(agent))
    });
    let room = [id, agent, 0, 0, FIGURE, FIGURE, FIGURE, state, width];
    let columns = any_columns().into_iter().zip(room);
    Table::new(columns.map(|(column, room)| column.at_least(room)).collect()).into_sheet(width)
}

/// A session that was shown: whose, its id, and where it is.
type Shown = (&'static str, String, PathBuf, Option<String>);

fn as_shown(session: &Listed) -> Shown {
    let (path, key) = session.place();
    (session.source(), session.id().to_owned(), path.to_owned(), key.map(str::to_owned))
}

struct Stream<'a> {
    known: Vec<Listed>,
    ids: Ids,
    namesakes: Namesakes,
    sheet: Sheet,
    shown: HashSet<Shown>,
    wanted: &'a Wanted,
    now: Timestamp,
    screen: &'a mut Screen,
    meter: Meter,
    /// After so many bytes it is worth looking again at what can be shown.
    next: u64,
}

impl Stream<'_> {
    /// Takes a session that was read.
    fn take(&mut self, progress: Progress, other: Other) {
        let agent = other.row.agent;
        self.known.push(Listed::Other(Box::new(other)));
        if progress.bytes >= self.next {
            self.next = progress.bytes + Meter::STEP;
            self.show(progress.newest_unread);
        }
        self.meter.show(progress, agent);
    }

    /// Shows what was active after everything that is unread was changed.
    fn show(&mut self, unread: Option<Timestamp>) {
        let ready = ready(&self.known, unread, self.wanted, self.now).into_iter();
        let ready: Vec<Listed> = ready.filter(|one| !self.is_shown(one)).cloned().collect();
        self.rows(&ready);
    }

    /// Shows what was not shown so far.
    fn finish(&mut self, page: &Page) {
        self.meter.clear();
        if page.shown.is_empty() {
            self.screen.lines(nothing(page));
        }
        let rest = page.shown.iter().filter(|session| !self.is_shown(session)).cloned();
        self.rows(&rest.collect::<Vec<_>>());
    }

    fn is_shown(&self, session: &Listed) -> bool {
        self.shown.contains(&as_shown(session))
    }

    fn rows(&mut self, sessions: &[Listed]) {
        if sessions.is_empty() {
            return;
        }
        self.meter.clear();
        if self.shown.is_empty() {
            self.screen.line(self.sheet.header());
        }
        for session in sessions {
            let told_by = self.namesakes.told_by(session);
            let id = self.ids.short(session.id());
            let cells = any_cells(session, id, told_by.as_deref(), self.now);
            self.screen.line(self.sheet.row(cells));
            self.shown.insert(as_shown(session));
        }
        self.screen.flush();
    }
}

/// Which of the sessions that are known are in the list whatever the unread ones hold, and above all of
/// them. `unread` is when the newest of those was changed.
fn ready<'a>(
    known: &'a [Listed],
    unread: Option<Timestamp>,
    wanted: &Wanted,
    now: Timestamp,
) -> Vec<&'a Listed> {
    let others = known.iter().filter_map(|session| match session {
        Listed::Other(other) => Some(&**other),
        Listed::Own(_) => None,
    });
    let mut goes_on = continued(others).into_iter();
    let mut ready: Vec<&Listed> = Vec::new();
    for session in known {
        let goes_on = match session {
            Listed::Other(_) => goes_on.next() == Some(true),
            Listed::Own(_) => false,
        };
        let active = session.last_active(now);
        let above = unread.is_none_or(|unread| active.is_some_and(|active| active > unread));
        if above && !goes_on && !session.is_child() && wanted.holds(session, now) {
            ready.push(session);
        }
    }
    ready.sort_by(|a, b| newest_first(a, b, now));
    ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_store::catalog::ForeignRow;
    use segno_store::foreign::{Agent, Located, Stamp};

    const NOW: Timestamp = Timestamp(1_000);

    /// A session by its id; `at` is when something was said in it last.
    fn session(id: &str, at: Option<i64>, change: impl FnOnce(&mut ForeignRow)) -> Listed {
        let located = Located {
            agent: Agent::Claude,
            path: PathBuf::from(id),
            key: None,
            id: Some(id.to_owned()),
            parent: None,
            archived: false,
            stamp: Stamp::default(),
        };
        let mut row = ForeignRow::unread(&located);
        row.last_message_at = at.map(Timestamp);
        change(&mut row);
        Listed::Other(Box::new(Other::new(row, &[])))
    }

    #[test]
    fn a_row_is_shown_as_soon_as_nothing_unread_can_stand_above_it() {
        let known = [
            session("old", Some(10), |_| {}),
            session("subagent", Some(60), |row| row.parent = Some("new".to_owned())),
            session("new", Some(50), |_| {}),
            session("begun", Some(40), |row| row.continued_in = Some("new".to_owned())),
            session("undated", None, |_| {}),
            session("from tomorrow", Some(5_000), |_| {}),
            session("middle", Some(30), |_| {}),
        ];
        let everything = ["from tomorrow", "new", "middle", "old", "undated"];
        let cases = [
            ("all is read", None, &everything[..]),
            ("something older than all", Some(5), &everything[..4]),
            ("as old as one of them", Some(10), &everything[..3]),
            ("in between", Some(35), &everything[..2]),
            ("newer than all", Some(999), &everything[..1]),
            ("changed in the future", Some(1_000), &[]),
        ];
        for (what, unread, expected) in cases {
            let ready = ready(&known, unread.map(Timestamp), &Wanted::default(), NOW);
            let ids: Vec<&str> = ready.into_iter().map(Listed::id).collect();
            assert_eq!(ids, expected, "{what}");
        }
        let live = Wanted { live: true, ..Wanted::default() };
        assert!(ready(&known, None, &live, NOW).is_empty());
    }
}
