//! `segno repair` on another agent's session.
//!
//! Responsible for: showing what its agent chokes on and what would become of it, asking, and saying where the
//! result is and how it is opened. Must not: decide what is repaired (that is `segno_store::rescue`).

use crate::args::{RepairArgs, quoted};
use crate::commands::Workplace;
use crate::commands::check::below;
use crate::commands::output::{Standard, can_be_file, file, folder_is_there};
use crate::error::{CliError, ExitCode};
use crate::others::{Launch, Other, roots};
use crate::terminal::confirm::confirm;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_model::store::StoreError;
use segno_store::catalog::Catalog;
use segno_store::foreign::{self, Agent};
use segno_store::rescue::{self, Change, Follow, Placed, Plan, RescueError};
use serde_json::json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Of changes by one rule, so many are shown one by one.
const ALIKE: usize = 20;

/// What is done with the result.
enum To {
    /// Nothing was said: it is only shown.
    Nowhere,
    File(PathBuf),
    Standard,
    Install,
    Place,
}

/// Repairs it.
///
/// # Errors
/// When it cannot be read, is of a kind that is not repaired, or is being written; when nobody said yes.
pub(super) fn repair(
    session: &Other,
    args: &RepairArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    if !args.accept.is_empty() {
        return Err(CliError::usage(
            "Only records of Segno's own sessions have numbers to accept.",
        )
        .next("Leave --accept out."));
    }
    if (args.install || args.in_place) && is_copy(session, place) {
        return Err(only_a_copy(session));
    }
    let files = rescue::files(&session.located());
    let plans: Result<Vec<Plan>, RescueError> = files.iter().map(rescue::plan).collect();
    let plans = plans.map_err(|error| refused(error, session))?;
    let to = to(args, place);
    if matches!(to, To::Standard) {
        return to_standard(session, &plans, args, screen);
    }
    if plans.iter().all(Plan::is_empty) {
        return sound(session, &plans, args, screen);
    }
    possible(&to, &plans, session)?;
    if !args.json {
        show(session, &plans, &to, screen);
        screen.lines(below::lines(&below::damaged(session)));
    }
    if matches!(to, To::Nowhere) || (args.json && !args.yes) {
        say_how(session, &plans, args, place, screen);
        return Ok(ExitCode::Damaged);
    }
    screen.flush();
    if !args.yes && !confirm(&question(&to), "--yes")? {
        screen.line("Nothing was written.");
        return Ok(ExitCode::Stopped);
    }
    let placed = carry_out(&plans, &to, session, place)?;
    tell(session, &plans, &placed, &to, args, screen);
    Ok(ExitCode::Done)
}

/// Whether what is read is a copy that was kept.
fn is_copy(session: &Other, place: &Workplace) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let copies = place.stores.files.root().join("kept");
    session.is_copy() || real(&session.row.path).starts_with(real(&copies))
}

/// What is kept of a session stays as it was, and its agent does not look for it there.
fn only_a_copy(session: &Other) -> CliError {
    let word = quoted(&session.word());
    let gone = session.gone().unwrap_or_else(|| "This is a copy that was kept".to_owned());
    CliError::failed(gone + ".")
        .because("a copy that was kept stays as it is")
        .next(format!("Put the file back, and repair it then: segno keep --restore {word}"))
}

/// What is refused before anybody is asked.
fn possible(to: &To, plans: &[Plan], session: &Other) -> Result<(), CliError> {
    match to {
        To::File(path) if plans.len() > 1 => folder_is_there(path),
        To::File(path) => can_be_file(path, "repaired.jsonl"),
        To::Install => match plans.iter().find(|plan| plan.is_child) {
            Some(plan) => Err(refused(RescueError::Child { path: plan.path.clone() }, session)),
            None => Ok(()),
        },
        To::Place | To::Standard | To::Nowhere => Ok(()),
    }
}

fn to(args: &RepairArgs, place: &Workplace) -> To {
    match &args.output {
        Some(path) if file(Some(path)).is_none() => To::Standard,
        Some(path) => To::File(place.cwd.join(path)),
        None if args.install => To::Install,
        None if args.in_place => To::Place,
        None => To::Nowhere,
    }
}

fn question(to: &To) -> String {
    match to {
        To::File(path) => format!("Write the repaired session to {}?", path.display()),
        To::Install => "Put a repaired copy beside it, under a new id?".to_owned(),
        _ => "Put the repaired session in its place, and keep the file as it is beside it?"
            .to_owned(),
    }
}

fn carry_out(
    plans: &[Plan],
    to: &To,
    session: &Other,
    place: &Workplace,
) -> Result<Vec<Placed>, CliError> {
    let roots = roots(&place.stores.home);
    let holder = || {
        let (row, running) = (&session.row, foreign::running(&roots));
        running.iter().find(|r| r.agent == row.agent && r.id == row.id).map(|r| r.pid)
    };
    if matches!(to, To::Place)
        && let Some(fork) = plans.iter().find_map(|plan| plan.referring(&roots).into_iter().next())
    {
        return Err(CliError::failed("Another session begins with lines of this file.")
            .because(format!("{} names them by their place in it", fork.display()))
            .next(format!(
                "Put a copy beside it: segno repair {} --install",
                quoted(&session.word())
            )));
    }
    let several = plans.len() > 1;
    if let (To::File(dir), true) = (to, several) {
        make_folder(dir)?;
    }
    let mut placed = Vec::new();
    for plan in plans {
        let done = match to {
            To::File(path) if several => {
                let name = plan.path.file_name().unwrap_or_default();
                plan.to_new_file(&path.join(name))
            }
            To::File(path) => plan.to_new_file(path),
            To::Install => plan.install(&roots),
            _ if plan.is_empty() => continue,
            _ => plan.in_place(&holder),
        };
        placed.push(done.map_err(|error| refused(error, session))?);
    }
    Ok(placed)
}

fn make_folder(dir: &Path) -> Result<(), CliError> {
    std::fs::create_dir(dir).map_err(|e| {
        CliError::failed(format!("The folder {} could not be made.", dir.display()))
            .because(e)
            .next("This session is several files: name a folder that is not there, with -o.")
    })
}

/// Nothing has to change.
fn sound(
    session: &Other,
    plans: &[Plan],
    args: &RepairArgs,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    // Of what nobody can read, it is not known that its agent opens it.
    if !session.row.readable {
        foreign::read(&session.located(), &mut |_| ControlFlow::Continue(()))?;
    }
    if args.json {
        report(session, plans, &[], None, screen);
        return Ok(ExitCode::Done);
    }
    let more = if args.output.is_some() || args.install { " A copy is not needed." } else { "" };
    let agent = session.row.agent;
    let is_noted = plans.iter().any(|plan| !plan.notes.is_empty());
    let opens = if is_noted { String::new() } else { format!(": {agent} opens it as it is") };
    let text = format!("{} needs no repair{opens}. Nothing was written.{more}", session.word());
    screen.line(Text::line(Tone::Good, &text));
    notes(plans, screen);
    screen.lines(below::lines(&below::damaged(session)));
    Ok(ExitCode::Done)
}

/// Writes the repaired session to standard output. Nothing changes, so nobody is asked; what is told goes beside it.
fn to_standard(
    session: &Other,
    plans: &[Plan],
    args: &RepairArgs,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let [plan] = plans else {
        return Err(CliError::usage("This session is several files.")
            .because("standard output takes one")
            .next("New files in a new folder: -o FOLDER"));
    };
    if args.json {
        return Err(CliError::usage("Only one of them can go to standard output.")
            .because("--json prints a report there, and `-o -` the session")
            .next("Leave one of them out, or name a file: -o FILE"));
    }
    let mut beside = Screen::stderr();
    let mut aside = Vec::new();
    let done = if plan.is_empty() {
        sound(session, plans, args, &mut beside)
    } else {
        show(session, plans, &To::Standard, &mut beside);
        beside.lines(below::lines(&below::damaged(session)));
        let mut out = Standard::of(screen);
        let written = plan.write(&mut out, &mut aside, None);
        written.map(|()| ExitCode::Done).map_err(|error| refused(error, session))
    };
    if !aside.is_empty() {
        let text = "note: lines that were set aside are not in it; -o FILE keeps them beside it";
        beside.line(Text::line(Tone::Warning, text));
    }
    // What nobody can read there changes nothing about the result.
    let _ = beside.finish();
    done
}

/// Says what is not repaired.
fn notes(plans: &[Plan], screen: &mut Screen) {
    for note in plans.iter().flat_map(|plan| &plan.notes) {
        screen.line(Text::default().with(Tone::Dim, &format!("note: {note}")));
    }
}

fn show(session: &Other, plans: &[Plan], to: &To, screen: &mut Screen) {
    for plan in plans.iter().filter(|plan| !plan.is_empty()) {
        screen.line(Text::line(Tone::Strong, &plan.path.display().to_string()));
        let mut told: Vec<(&str, usize)> = Vec::new();
        for change in &plan.changes {
            let Some((_, seen)) = told.iter_mut().find(|(rule, _)| *rule == change.rule) else {
                told.push((change.rule, 0));
                continue_with(change, screen);
                continue;
            };
            *seen += 1;
            if *seen < ALIKE {
                continue_with(change, screen);
            }
        }
        for (rule, seen) in told.iter().filter(|(_, seen)| *seen >= ALIKE) {
            let text = format!("  and {} more [{rule}]", seen + 1 - ALIKE);
            screen.line(Text::default().with(Tone::Dim, &text));
        }
        plan.follows.iter().for_each(|follow| continue_with_follow(follow, screen));
    }
    screen.line(sum(session, plans, to));
    notes(plans, screen);
    let linked = plans.iter().filter(|plan| matches!(to, To::Place) && !plan.is_empty());
    for plan in linked.filter(|plan| plan.other_names() > 0) {
        let names = plural(usize::try_from(plan.other_names()).unwrap_or(usize::MAX), "other name");
        let text = format!(
            "note: {} has {names} (hard links): what has those stays as it is",
            plan.path.display()
        );
        screen.line(Text::line(Tone::Warning, &text));
    }
}

/// How many changes there are, what follows from them, and that nothing else changes.
fn sum(session: &Other, plans: &[Plan], to: &To) -> Text {
    let what = plural(plans.iter().map(|plan| plan.changes.len()).sum(), "change");
    let follows = plans.iter().flat_map(|plan| &plan.follows).map(|follow| follow.count).sum();
    let more = match follows {
        0 => String::new(),
        count => {
            let lines = plural(usize::try_from(count).unwrap_or(usize::MAX), "line");
            format!(", and {lines} that change with it")
        }
    };
    let id = if matches!(to, To::Install) { ", but for the session's id" } else { "" };
    let word = session.word();
    let text = format!("{word}: {what}{more}; everything else stays byte for byte{id}");
    Text::line(Tone::Plain, &text)
}

/// Lines that change with what was told: `with it: 11 lines numbered anew (15-25)`.
fn continue_with_follow(follow: &Follow, screen: &mut Screen) {
    /// Of so many runs the places are told.
    const RUNS: usize = 12;
    let run = |(first, last): &(u64, u64)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let mut places: Vec<String> = follow.lines.iter().take(RUNS).map(run).collect();
    if follow.lines.len() > RUNS {
        places.push("…".to_owned());
    }
    let lines = plural(usize::try_from(follow.count).unwrap_or(usize::MAX), "line");
    let text = format!("with it: {lines} {} ({})", follow.what, places.join(", "));
    screen.line(Text::line(Tone::Plain, &text));
}

fn continue_with(change: &Change, screen: &mut Screen) {
    let place = change.line.map_or_else(String::new, |line| format!("line {line}: "));
    let text = Text::line(Tone::Warning, &format!("[{}]", change.rule));
    screen.line(text.with(Tone::Plain, &format!(" {place}{}", change.what)));
    screen.line(Text::default().with(Tone::Accent, &format!("  → {}", change.done)));
}

/// Says with which words it would be done.
fn say_how(
    session: &Other,
    plans: &[Plan],
    args: &RepairArgs,
    place: &Workplace,
    screen: &mut Screen,
) {
    if args.json {
        return report(session, plans, &[], None, screen);
    }
    let named = quoted(&args.session);
    if session.is_copy() {
        let words = format!("next: segno keep --restore {}", quoted(&session.word()));
        let text = Text::line(Tone::Plain, &words);
        screen.line(text.with(Tone::Dim, "  puts the file back, which can be repaired then"));
        let text = Text::line(Tone::Plain, &format!("next: segno repair {named} -o FILE"));
        return screen.line(text.with(Tone::Dim, "  a new file"));
    }
    let roots = roots(&place.stores.home);
    // Only what would not be refused.
    let has_place = plans.iter().all(|plan| plan.has_place(&roots));
    let is_packed = plans.iter().any(|plan| plan.is_packed() && !plan.is_empty());
    let ways = [
        (has_place, "--install", "a copy that its agent finds, under a new id"),
        (!is_packed, "--in-place", "in place of the file, which is kept beside it"),
        (plans.len() < 2, "-o FILE", "a new file"),
        (plans.len() > 1, "-o FOLDER", "new files in a new folder"),
    ];
    for (_, how, what) in ways.into_iter().filter(|(works, ..)| *works) {
        let words = format!("segno repair {named} {how}");
        let text = Text::line(Tone::Plain, &format!("next: {words}"));
        screen.line(text.with(Tone::Dim, &format!("  {what}")));
    }
}

fn tell(
    session: &Other,
    plans: &[Plan],
    placed: &[Placed],
    to: &To,
    args: &RepairArgs,
    screen: &mut Screen,
) {
    let command = command(session, placed, to);
    if args.json {
        return report(session, plans, placed, command.as_deref(), screen);
    }
    for placed in placed {
        let there = if placed.was_there { "is there already" } else { "repaired" };
        let text = format!("{there}: {}", placed.file.display());
        screen.line(Text::line(Tone::Good, &text));
        for (what, path) in [("as it was", &placed.backup), ("set aside", &placed.set_aside)] {
            if let Some(path) = path {
                screen.line(Text::line(Tone::Plain, &format!("{what}: {}", path.display())));
            }
        }
    }
    if matches!(to, To::Place) && placed.iter().any(|placed| foreign::openers(&placed.file).unseen)
    {
        let text = "note: what other users' processes have open could not be looked at";
        screen.line(Text::default().with(Tone::Dim, text));
    }
    if let Some(command) = command {
        screen.line(Text::line(Tone::Plain, &format!("next: {command}")));
    }
}

/// What opens the result in its agent.
fn command(session: &Other, placed: &[Placed], to: &To) -> Option<String> {
    match to {
        To::Install => {
            let file = placed.first()?;
            let located = foreign::recognise(&file.file).ok()?;
            let copy = Other::new(Catalog::digest(&located), &[]);
            Launch::of(&copy).ok().map(|launch| launch.line())
        }
        To::Place => match &session.row.parent {
            Some(parent) => Some(format!("segno resume {}:{parent}", session.row.agent.id())),
            None => Launch::of(session).ok().map(|launch| launch.line()),
        },
        _ => None,
    }
}

fn report(
    session: &Other,
    plans: &[Plan],
    placed: &[Placed],
    command: Option<&str>,
    screen: &mut Screen,
) {
    let shown = |path: &PathBuf| path.display().to_string();
    let file = |plan: &Plan| json!({"path": shown(&plan.path), "changes": plan.changes, "follows": plan.follows, "set_aside": plan.set_aside});
    let result = |placed: &Placed| {
        json!({
            "file": shown(&placed.file),
            "was_there": placed.was_there,
            "backup": placed.backup.as_ref().map(shown),
            "set_aside": placed.set_aside.as_ref().map(shown),
        })
    };
    screen.json(&json!({
        "version": 1,
        "source": session.row.agent.id(),
        "id": session.row.id,
        "changed": !placed.is_empty(),
        "files": plans.iter().filter(|plan| !plan.is_empty()).map(file).collect::<Vec<_>>(),
        "results": placed.iter().map(result).collect::<Vec<_>>(),
        "command": command,
        "notes": plans.iter().flat_map(|plan| &plan.notes).collect::<Vec<_>>(),
        "damaged_subagents": below::damaged(session),
    }));
}

/// The table of refusals.
fn refused(error: RescueError, session: &Other) -> CliError {
    let word = session.word();
    match error {
        RescueError::Foreign(error) => error.into(),
        RescueError::Store(error) => unwritten(error, &word),
        RescueError::Database { agent } => {
            let copy = match agent {
                // Its own importer takes a copy in, in which every call has a result.
                Agent::OpenCode => format!(
                    "`segno export {word} --format opencode --install` writes a copy for OpenCode's importer; "
                ),
                _ => format!("`segno show {word}` reads what can be read; "),
            };
            CliError::failed(format!("{agent} keeps its sessions in a database."))
                .because("other agents' databases are never written")
                .next(format!("{copy}`segno resume {word} --here` goes on with it here."))
        }
        RescueError::NoRules { path } => CliError::failed(format!(
            "There is no way to repair {}.",
            path.display()
        ))
        .because(
            "it is packed in a way that is not known, or not kept as lines or as one JSON array",
        )
        .next(format!("`segno resume {word} --here` goes on with what can be read.")),
        RescueError::Packed { path } => CliError::failed(format!("{} is packed.", path.display()))
            .because("what is repaired is written unpacked, and cannot take its place")
            .next(format!("Put a copy beside it: segno repair {} --install", quoted(&word))),
        RescueError::Changed { path } => {
            CliError::new(ExitCode::Held, format!("{} changed meanwhile.", path.display()))
                .because("its agent seems to be at work on it; nothing was changed")
                .next("Close it in its agent, then repair it again.")
        }
        RescueError::Running { path, pid } => {
            let what = format!(
                "{} is open in its agent or another program: process {pid}.",
                path.display()
            );
            CliError::new(ExitCode::Held, what)
                .because("a file is not replaced while somebody writes to it; nothing was changed")
                .next("Close it there, or put a copy beside it: --install.")
        }
        RescueError::Exists { path } => {
            CliError::failed(format!("{} exists already.", path.display()))
                .because("nothing that exists is ever overwritten")
                .next("Choose another name, or move that away.")
        }
        RescueError::Unplaced { why } => {
            CliError::failed("It is not known where its agent would look for a copy.")
                .because(why)
                .next(format!("Write it to a file: segno repair {} -o FILE", quoted(&word)))
        }
        error => not_done(error, session),
    }
}

/// The rest of the table.
fn not_done(error: RescueError, session: &Other) -> CliError {
    let word = session.word();
    match error {
        RescueError::Child { .. } => CliError::failed(
            "A copy of a subagent's session would be another subagent, which no call names.",
        )
        .because("its agent finds a subagent by what its parent says")
        .next(format!(
            "Put it in its place, which keeps the file beside it: segno repair {} --in-place",
            quoted(&session.row.path.display().to_string())
        )),
        RescueError::Owner { path, source } => {
            let what = format!("{} cannot keep its owner and group.", path.display());
            CliError::new(ExitCode::Unwritable, what)
                .because(source)
                .next(format!(
                    "Nothing was changed. Repair it as its owner, or write a new file: segno repair {} -o FILE",
                    quoted(&word)
                ))
        }
        RescueError::Unsure { path, backup, source } => {
            let what =
                format!("{} is repaired, and its folder could not be synced.", path.display());
            CliError::new(ExitCode::Unwritable, what)
                .because(crate::error::chain(&source))
                .next(format!(
                    "The file as it was is kept: {}. If power is lost now, it may have its old name again; \
                     `segno check` tells.",
                    backup.display()
                ))
        }
        RescueError::Left { path, source } => {
            let error = refused(*source, session);
            let next = format!("{} {} is left of it, and can go.", error.next_step, path.display());
            error.next(next)
        }
        error => CliError::new(ExitCode::Unwritable, "The result could not be written.")
            .because(crate::error::chain(&error))
            .next("Free some space, or name another place. The session is as it was."),
    }
}

/// The disk refused.
fn unwritten(error: StoreError, word: &str) -> CliError {
    let elsewhere = format!("Write it to another place: segno repair {} -o FILE", quoted(word));
    match error {
        StoreError::ReadOnly(reason) => {
            CliError::new(ExitCode::Unwritable, "Nothing can be written there.")
                .because(reason)
                .next(format!("{elsewhere}. The session is as it was."))
        }
        StoreError::NoRoom(what) => {
            CliError::new(ExitCode::Unwritable, "There is no room left for the repaired session.")
                .because(format!("the disk or the quota is full at {what}"))
                .next(format!("Free some space, or: {elsewhere}. The session is as it was."))
        }
        error => {
            let error = CliError::from(error);
            error.next(format!("Put that right and repeat. {elsewhere}. The session is as it was."))
        }
    }
}
