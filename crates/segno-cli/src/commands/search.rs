//! `segno search`: words in the sessions of all agents.
//!
//! Responsible for: which sessions and which of their words are looked at, and printing hits session by
//! session, the newest first, as they are found. Must not: keep an index; what is on disk is what is found.

mod hit;

use self::hit::{Asked, Hit, hits_in};
use super::Workplace;
use super::list::{everything, project_at, source};
use crate::args::SearchArgs;
use crate::error::{CliError, ExitCode};
use crate::listing::{Ids, Listed, Wanted, ordered};
use crate::terminal::table::{self, plural};
use crate::terminal::{Screen, Text, Tone, clean};
use crate::when;
use segno_model::Timestamp;
use segno_store::search::Words;
use serde::Serialize;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Searches.
///
/// # Errors
/// When the query holds no word, or our own sessions cannot be listed.
pub async fn search(
    args: &SearchArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let now = place.now();
    let asked = asked(args, now)?;
    let wanted = Wanted {
        project: match &args.project {
            Some(dir) => Some(project_at(place, dir).await),
            None => None,
        },
        source: args.source.as_deref().map(source).transpose()?,
        since: asked.since,
        ..Wanted::default()
    };
    let (sessions, others) = everything(place).await?;
    let listed = sessions.iter().map(|session| session.id().to_owned()).collect();
    let asked = Asked { listed, ..asked };
    let ids = Ids::new(sessions.iter().map(Listed::id));
    let sessions: Vec<Listed> =
        ordered(sessions, now).into_iter().filter(|s| wanted.holds(s, now)).collect();
    let mut report = Report::new(args, sessions.len());
    report.trouble = others.trouble;
    search_all(&sessions, &asked, place, &mut |n, found| {
        report.take(&sessions[n], ids.short(sessions[n].id()), found, now, screen)
    });
    report.finish(screen);
    Ok(if report.shown == 0 { ExitCode::NotFound } else { ExitCode::Done })
}

/// How words are given.
const HOW: &str = "segno search WORDS; words in double quotes stand as they are.";

fn asked(args: &SearchArgs, now: Timestamp) -> Result<Asked, CliError> {
    let query = args.query.join(" ");
    let words = Words::parse(&query)
        .map_err(|e| CliError::usage("This cannot be searched for.").because(e).next(HOW))?;
    if words.is_empty() {
        return Err(CliError::usage("There is nothing to search for.").next(HOW));
    }
    let time = |text: &Option<String>| text.as_deref().map(|t| when::parse(t, now)).transpose();
    Ok(Asked {
        words,
        role: args.role,
        tool: args.tool.clone(),
        path: args.path.clone(),
        since: time(&args.since)?,
        until: time(&args.until)?,
        listed: HashSet::new(),
    })
}

/// What was found in one session, or why it could not be searched.
type Found = Result<Vec<Hit>, String>;

/// Searches sessions on all processors and hands over what was found in their order. `take` says whether
/// more is wanted.
fn search_all(
    sessions: &[Listed],
    asked: &Asked,
    place: &Workplace,
    take: &mut dyn FnMut(usize, Found) -> bool,
) {
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(sessions.len());
    let (next, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (send, next, done) = (send.clone(), &next, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(session) = sessions.get(n) else { break };
                    if send.send((n, hits_in(session, asked, &place.stores.files))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        in_order(&receive, &done, take);
    });
}

fn in_order(
    receive: &mpsc::Receiver<(usize, Found)>,
    done: &AtomicBool,
    take: &mut dyn FnMut(usize, Found) -> bool,
) {
    let mut waiting = std::collections::BTreeMap::new();
    let mut next = 0;
    for (n, found) in receive {
        waiting.insert(n, found);
        while let Some(found) = waiting.remove(&next) {
            if !take(next, found) {
                done.store(true, Ordering::Relaxed);
                return;
            }
            next += 1;
        }
    }
}

/// What was printed so far.
struct Report<'a> {
    args: &'a SearchArgs,
    shown: usize,
    in_sessions: usize,
    of: usize,
    cut: bool,
    trouble: Vec<String>,
    hits: Vec<Item>,
}

#[derive(Debug, Serialize)]
struct Item {
    source: &'static str,
    id: String,
    parent: Option<String>,
    title: Option<String>,
    #[serde(flatten)]
    hit: Hit,
}

impl<'a> Report<'a> {
    fn new(args: &'a SearchArgs, of: usize) -> Self {
        let (trouble, hits) = (Vec::new(), Vec::new());
        Self { args, shown: 0, in_sessions: 0, of, cut: false, trouble, hits }
    }

    fn take(
        &mut self,
        session: &Listed,
        id: &str,
        found: Found,
        now: Timestamp,
        screen: &mut Screen,
    ) -> bool {
        let found = match found {
            Ok(found) => found,
            Err(why) => {
                self.trouble.push(format!("{}:{}: {why}", session.source(), session.id()));
                return true;
            }
        };
        if found.is_empty() {
            return true;
        }
        self.in_sessions += 1;
        let room = self.args.limit.saturating_sub(self.shown);
        self.cut |= found.len() > room;
        let found: Vec<Hit> = found.into_iter().take(room).collect();
        self.shown += found.len();
        if self.args.json {
            self.hits.extend(found.into_iter().map(|hit| item(session, hit)));
        } else {
            screen.lines(lines(session, id, &found, now, screen.look().columns));
            screen.flush();
        }
        let more = self.shown < self.args.limit && !screen.is_gone();
        self.cut |= !more;
        more
    }

    fn finish(&mut self, screen: &mut Screen) {
        if self.args.json {
            screen.json(&serde_json::json!({
                "version": 1,
                "query": self.args.query.join(" "),
                "hits": self.hits,
                "sessions": self.of,
                "cut": self.cut,
                "trouble": self.trouble,
            }));
            return;
        }
        let mut said = match self.shown {
            0 => format!("Nothing was found in {}.", plural(self.of, "session")),
            shown => format!("{} in {}", plural(shown, "hit"), plural(self.in_sessions, "session")),
        };
        if self.cut && self.shown > 0 {
            said.push_str("; there may be more (--limit)");
        }
        screen.line(Text::line(Tone::Dim, &said));
        for trouble in &self.trouble {
            screen.line(Text::line(Tone::Warning, &format!("note: not searched: {trouble}")));
        }
    }
}

fn item(session: &Listed, hit: Hit) -> Item {
    Item {
        source: session.source(),
        id: session.id().to_owned(),
        parent: session.parent().map(str::to_owned),
        title: session.title().map(str::to_owned),
        hit,
    }
}

/// The session's line, and one for each hit, with the number that `segno show --at` takes.
fn lines(session: &Listed, id: &str, found: &[Hit], now: Timestamp, columns: usize) -> Vec<Text> {
    let age = session.last_active(now).map_or_else(|| "-".to_owned(), |at| table::age(now, at));
    let mut head = Text::line(Tone::Accent, &format!("{}:{id}", session.source()));
    head.add(Tone::Dim, &format!("  {age}  "));
    head.append(Text::line(Tone::Strong, session.title().unwrap_or("(untitled)")));
    let mut out = vec![head.cut(columns)];
    for hit in found {
        let mut line =
            Text::default().with(Tone::Dim, &format!("  #{} {}: ", hit.seq, hit.speaker()));
        line.add(Tone::Plain, &flat(&hit.lead));
        line.add(Tone::Warning, &flat(&hit.found));
        line.add(Tone::Plain, &flat(&hit.after));
        out.push(line.cut(columns));
    }
    out
}

/// On one line, without escape sequences; a space at an end stays, because something stands beside it.
fn flat(text: &str) -> String {
    let text = clean::block(text);
    text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).fold(
        String::from(if text.starts_with(char::is_whitespace) { " " } else { "" }),
        |mut line, word| {
            if !line.is_empty() && !line.ends_with(' ') {
                line.push(' ');
            }
            line.push_str(word);
            line
        },
    ) + if text.ends_with(char::is_whitespace) { " " } else { "" }
}

/// The file that a session lies in alone; none for one in a database or folder.
pub(super) fn own_file(session: &Listed, files: &segno_store::FileStore) -> Option<PathBuf> {
    match session {
        Listed::Own(entry) => files.log_path(&entry.id).ok(),
        Listed::Other(other) => {
            let alone = other.row.key.is_none() && other.row.path.is_file();
            alone.then(|| other.row.path.clone())
        }
    }
}
