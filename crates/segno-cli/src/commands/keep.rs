//! `segno keep`: copies of other agents' sessions, before those agents delete them; and putting them back.
//!
//! Responsible for: which sessions, one run at a time, and saying nothing where there is nothing to say. Must not:
//! change anything of another agent but for new files where a person asked for them.

mod flaws;
mod restore;
mod versions;

pub(super) use restore::of_session;

use super::Workplace;
use super::list::{project_at, source};
use crate::args::KeepArgs;
use crate::error::{CliError, ExitCode};
use crate::others::{self, Other, Target};
use crate::terminal::table::{plural, size};
use crate::terminal::{Screen, Text, Tone};
use segno_model::Timestamp;
use segno_model::store::StoreError;
use segno_store::RealDisk;
use segno_store::foreign::{self, Agent, ForeignError, Located};
use segno_store::kept::{Depth, Keeper, Kept, Taken};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long another run is waited for, and how often it is looked at.
const PATIENCE: u32 = 150;
const PAUSE: Duration = Duration::from_millis(200);

/// Keeps sessions, or puts one back.
///
/// # Errors
/// When a session is not found, another run does not end, or nothing can be written.
pub async fn keep(
    args: &KeepArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    if args.restore || args.versions {
        return restore::restore(args, place, screen).await;
    }
    let (sessions, mut trouble) = wanted(args, place).await?;
    let exit = |trouble: &[String]| match trouble {
        [] => ExitCode::Done,
        _ => ExitCode::Failed,
    };
    let named = !args.sessions.is_empty();
    let (known, damage) = others::kept(&place.stores)?;
    if sessions.is_empty() && (known.is_empty() || !args.all) {
        tell(args, &[], 0, &trouble, screen);
        return Ok(exit(&trouble));
    }
    // Otherwise it was told where all were looked for.
    trouble.extend(damage.filter(|_| named));
    place.stores.make_home();
    let mut keeper = keeper(place).await?.looking_at(match named {
        true => Depth::Bytes,
        false => Depth::Length,
    });
    let mut run = Run { trouble, ..Run::default() };
    let tried = run.keep(&mut keeper, &sessions, place);
    if args.all && tried.is_ok() {
        run.trouble.extend(lost(args, &keeper.kept(), place)?);
    }
    // What was copied before something failed is written down all the same.
    let finished = keeper.finish();
    tried?;
    match finished {
        Err(StoreError::NoRoom(at)) => run.full.push(format!(
            "there is no room at {at}; what was copied is compared again by the next run"
        )),
        other => other?,
    }
    let is_full = !run.full.is_empty();
    run.trouble.extend(no_room(run.full));
    tell(args, &run.taken, sessions.len(), &run.trouble, screen);
    Ok(if is_full { ExitCode::Unwritable } else { exit(&run.trouble) })
}

/// What came of a run.
#[derive(Default)]
struct Run<'a> {
    taken: Vec<(&'a Located, Taken)>,
    trouble: Vec<String>,
    /// For what there was no room.
    full: Vec<String>,
}

impl<'a> Run<'a> {
    /// Keeps one after the other, to the first for which nothing can be written at all.
    fn keep(
        &mut self,
        keeper: &mut Keeper<RealDisk>,
        sessions: &'a [Located],
        place: &Workplace,
    ) -> Result<(), StoreError> {
        for session in sessions {
            match one(keeper, session, place.now()) {
                Ok(mut one) => {
                    let said = std::mem::take(&mut one.trouble).into_iter();
                    self.trouble.extend(said.map(|why| format!("{}: {why}", word(session))));
                    if !one.is_nothing() {
                        self.taken.push((session, one));
                    }
                }
                // A smaller one may still fit.
                Err(StoreError::NoRoom(at)) => {
                    self.full.push(format!("{}: there is no room for it at {at}", word(session)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What is said of copies that cannot be made again.
fn lost(args: &KeepArgs, kept: &[Kept], place: &Workplace) -> Result<Vec<String>, CliError> {
    let only = args.source.as_deref().map(source).transpose()?;
    let of = |kept: &&Kept| only.as_deref().is_none_or(|only| kept.agent.id() == only);
    Ok(flaws::of_gone(kept.iter().filter(of), place))
}

/// What is said of sessions for which there was no room.
fn no_room(mut full: Vec<String>) -> Vec<String> {
    /// So many are named.
    const NAMED: usize = 5;
    let more = full.len().saturating_sub(NAMED);
    full.truncate(NAMED);
    if more > 0 {
        full.push(format!("there is no room for {} more", plural(more, "session")));
    }
    if !full.is_empty() {
        full.push("free some space, and run this again".to_owned());
    }
    full
}

/// The right to keep; another run is waited for.
pub(super) async fn keeper(place: &Workplace) -> Result<Keeper<RealDisk>, CliError> {
    for _ in 0..PATIENCE {
        if let Some(mut keeper) = place.stores.files.keeper()? {
            keeper.mend(&others::roots(&place.stores.home));
            return Ok(keeper);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(CliError::new(ExitCode::Held, "Another `segno keep` is at work.")
        .because("one run at a time keeps sessions")
        .next("Nothing was done. Let it end, or see what it is at, and run this again."))
}

/// What is named, or the sessions of this project or of all, with their subagents'; as they are now.
async fn wanted(
    args: &KeepArgs,
    place: &Workplace,
) -> Result<(Vec<Located>, Vec<String>), CliError> {
    let only = args.source.as_deref().map(source).transpose()?;
    let mut sessions = Vec::new();
    let mut trouble = Vec::new();
    if args.sessions.is_empty() {
        let all = others::all(&place.stores, place.stores.catalog()).await;
        let project = if args.all { None } else { Some(project_at(place, &place.cwd).await) };
        trouble = all.trouble;
        sessions.extend(all.sessions.into_iter().filter(|session| {
            // One that does not say where it ran may be this project's.
            project.as_ref().is_none_or(|project| session.is_of(project).unwrap_or(true))
        }));
    }
    for query in &args.sessions {
        match place.stores.find_any(query, &place.cwd).await? {
            Target::Other(session) => sessions.extend(with_subagents(*session)),
            Target::Own(id) => {
                return Err(CliError::usage(format!("{id} is a session of ours."))
                    .because("ours are never deleted by themselves, and need no copies")
                    .next("Name one of another agent: `segno list` shows them."));
            }
        }
    }
    let of = |session: &Other| only.as_deref().is_none_or(|only| session.row.agent.id() == only);
    sessions.retain(|session| of(session) && !session.is_copy());
    Ok((as_they_are(sessions, place), trouble))
}

fn with_subagents(session: Other) -> Vec<Other> {
    let mut found = vec![session];
    let mut at = 0;
    while let Some(session) = found.get(at) {
        let below: Vec<Other> = session.all_subagents();
        let new = |child: &Other| {
            found
                .iter()
                .all(|known| (&known.row.path, &known.row.key) != (&child.row.path, &child.row.key))
        };
        let below: Vec<Other> = below.into_iter().filter(new).collect();
        found.extend(below);
        at += 1;
    }
    found
}

/// The sessions as their agents have them now: by that a change is noticed.
fn as_they_are(sessions: Vec<Other>, place: &Workplace) -> Vec<Located> {
    let mut roots = others::roots(&place.stores.home);
    let cwds = sessions.iter().map(|session| PathBuf::from(&session.row.project.cwd));
    roots.projects.extend(cwds.filter(|cwd| cwd.is_absolute()));
    roots.projects.sort();
    roots.projects.dedup();
    let (located, _) = foreign::locate(&roots);
    type Name = (Agent, PathBuf, Option<String>);
    let name =
        |located: &Located| -> Name { (located.agent, located.path.clone(), located.key.clone()) };
    let mut now: HashMap<Name, Located> =
        located.into_iter().map(|located| (name(&located), located)).collect();
    let known = |session: Other| {
        let known = session.located();
        let found = now.remove(&name(&known));
        // The file itself says its id and whose it is for sure.
        let stamp = found.map(|found| found.stamp).unwrap_or_default();
        Located { stamp, ..known }
    };
    sessions.into_iter().map(known).collect()
}

/// Keeps one. What is the matter with it alone is told and holds up no other.
fn one(
    keeper: &mut Keeper<RealDisk>,
    session: &Located,
    at: Timestamp,
) -> Result<Taken, StoreError> {
    let told = |error: ForeignError| Taken {
        trouble: vec![crate::error::chain(&error)],
        ..Taken::default()
    };
    if session.key.is_none() {
        return match foreign::belongings(session) {
            Ok(files) => keeper.keep(session, &files, at).map(|taken| of_a_session(taken, session)),
            Err(error) => Ok(told(error)),
        };
    }
    if keeper.has_rows(session) {
        return Ok(Taken::default());
    }
    let scratch = keeper.scratch()?;
    let kept = keeper.rows_copy(session).filter(|copy| copy.is_file());
    // A copy that cannot be read any more has no rows to compare; what is left of it stays as a version.
    let lost = foreign::copy_rows(session, &scratch).map(|()| {
        kept.as_ref().is_some_and(|kept| foreign::lost_rows(kept, &scratch).unwrap_or(true))
    });
    let taken = match lost {
        Ok(lost) => keeper.keep_rows(session, &scratch, lost, at),
        Err(error) => Ok(told(error)),
    };
    remove(&scratch);
    taken
}

/// That what its agent, or somebody else, put in the place of a kept session is none.
fn of_a_session(mut taken: Taken, session: &Located) -> Taken {
    let recognised = || foreign::recognise(&session.path);
    if taken.rewritten > 0 && matches!(recognised(), Err(ForeignError::NotRecognised { .. })) {
        taken.trouble.push(format!(
            "{} holds no session any more; what it was before is kept as a version",
            session.path.display()
        ));
    }
    taken
}

/// What was made on the way; the next run removes it otherwise.
fn remove(scratch: &Path) {
    let _ = std::fs::remove_file(scratch);
}

fn word(session: &Located) -> String {
    let id = session.id.clone().or_else(|| session.key.clone());
    let path = || session.path.display().to_string();
    format!("{}:{}", session.agent.id(), id.unwrap_or_else(path))
}

fn tell(
    args: &KeepArgs,
    taken: &[(&Located, Taken)],
    looked_at: usize,
    trouble: &[String],
    screen: &mut Screen,
) {
    let mut sum = Taken::default();
    taken.iter().for_each(|(_, one)| sum.add(one.clone()));
    if args.json {
        let one = |(session, taken): &(&Located, Taken)| -> Value {
            json!({
                "source": session.agent.id(), "id": session.id, "path": session.path,
                "new": taken.new, "grown": taken.grown, "rewritten": taken.rewritten,
                "bytes": taken.bytes,
            })
        };
        screen.json(&json!({
            "version": 1, "looked_at": looked_at, "kept": taken.iter().map(one).collect::<Vec<_>>(),
            "bytes": sum.bytes, "trouble": trouble,
        }));
        return;
    }
    // A job that runs every hour says nothing; a person who asks is answered.
    if screen.look().terminal {
        let text = match taken.len() {
            0 => format!("Nothing is new in {}.", plural(looked_at, "session")),
            n => format!(
                "Kept what is new of {} ({}): {} new, {} grown, {} written again.",
                plural(n, "session"),
                size(sum.bytes),
                plural(usize::try_from(sum.new).unwrap_or(usize::MAX), "file"),
                sum.grown,
                sum.rewritten
            ),
        };
        screen.line(Text::line(Tone::Good, &text));
    }
    let mut stderr = Screen::stderr();
    for why in trouble {
        stderr.line(Text::line(Tone::Warning, &format!("note: {why}")));
    }
    // The exit code says it as well.
    let _ = stderr.finish();
}
