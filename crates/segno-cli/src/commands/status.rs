//! `segno status`: supervised commands of all sessions: what still runs, and what nobody was told of yet; and the
//! subagents that work.
//!
//! Responsible for: one line per command and per subagent, whose it is and until when it may run, and ending one on
//! request. Must not: conclude anything that would keep a command from starting, or remove a file.

use super::Workplace;
use crate::args::StatusArgs;
use crate::error::{CliError, ExitCode};
use crate::listing::Ids;
use crate::sessions::Entry;
use crate::stores::Stores;
use crate::terminal::table::{Column, Table, age};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_agent::supervisor::{ActionDir, Claim, Request, Standing, Status, judge};
use segno_model::store::{Clock as _, Owner};
use segno_model::{SessionId, Timestamp};
use segno_store::{SystemClock, this_process};
use serde_json::{Value, json};
use std::time::Duration;

/// How often, and how far apart, a stopped command's end is looked for.
const STOP_LOOKS: u32 = 100;
const STOP_PAUSE: Duration = Duration::from_millis(100);
/// How much of a command is shown, in characters.
const SHOWN: usize = 60;

/// A command that is of interest.
#[derive(Debug)]
pub struct Command {
    session: SessionId,
    dir: ActionDir,
    standing: Standing,
    request: Option<Request>,
    claim: Option<Claim>,
    status: Option<Status>,
}

/// Lists commands, or ends one.
///
/// # Errors
/// When the sessions cannot be listed; with `--stop` also when no running command has that handle, or it
/// does not end.
pub async fn status(
    args: &StatusArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let only = match &args.session {
        Some(query) => Some(place.stores.find(query, &place.cwd).await?),
        None => None,
    };
    let mut commands = all(&place.stores)?;
    commands.retain(|command| only.as_ref().is_none_or(|id| *id == command.session));
    if let Some(handle) = &args.stop {
        let stopped = stop(handle, commands).await?;
        if args.json {
            screen.json(&json!({"version": 1, "commands": [stopped.json()]}));
        } else {
            screen.line(Text::line(
                Tone::Plain,
                &format!("{}: {}", stopped.handle(), stopped.said()),
            ));
        }
        return Ok(ExitCode::Done);
    }
    let entries = place.stores.entries(place.now()).await?;
    let ids = Ids::new(entries.iter().map(|entry| entry.id.as_str()));
    let subagents = working(entries, only.as_ref());
    if args.json {
        let commands: Vec<Value> = commands.iter().map(Command::json).collect();
        let subagents: Vec<Value> = subagents.iter().map(subagent_json).collect();
        screen.json(&json!({"version": 1, "commands": commands, "subagents": subagents}));
        return Ok(ExitCode::Done);
    }
    if commands.is_empty() {
        screen.line("No command runs.");
    }
    screen.lines(lines(&commands, &ids, screen.look().columns));
    screen.lines(subagents.iter().map(subagent_line));
    Ok(ExitCode::Done)
}

/// The subagents that a process works on, of one session or of all.
fn working(mut entries: Vec<Entry>, only: Option<&SessionId>) -> Vec<Entry> {
    entries.retain(|entry| {
        let of = |id: &SessionId| entry.id == *id || entry.parent.as_deref() == Some(id.as_str());
        entry.is_child && entry.pid.is_some() && only.is_none_or(of)
    });
    entries
}

fn subagent_json(entry: &Entry) -> Value {
    json!({
        "id": entry.id,
        "session": entry.parent,
        "pid": entry.pid,
        "prompt": entry.first_prompt,
    })
}

fn subagent_line(entry: &Entry) -> Text {
    let of = entry.parent.as_deref().unwrap_or("another session");
    let prompt = entry.first_prompt.as_deref().unwrap_or("(nothing was asked)");
    let prompt = clean::cut(&clean::line(prompt), SHOWN);
    Text::line(Tone::Plain, &format!("subagent {} of {of} works: {prompt}", entry.id))
}

/// What a person who starts a session is told: the commands that run, whosever they are.
#[must_use]
pub fn running(stores: &Stores) -> Vec<Text> {
    let Ok(mut commands) = all(stores) else { return Vec::new() };
    commands.retain(|command| command.standing == Standing::Running);
    if commands.is_empty() {
        return Vec::new();
    }
    let mut said =
        vec![Text::line(Tone::Dim, "Commands that run; `segno status --stop HANDLE` ends one:")];
    let ids = Ids::new(commands.iter().map(|command| command.session.as_str()));
    said.extend(lines(&commands, &ids, 100).into_iter().skip(1));
    said
}

fn all(stores: &Stores) -> Result<Vec<Command>, CliError> {
    let here = this_process(&SystemClock);
    let mut commands = Vec::new();
    for (session, actions) in stores.files.actions()? {
        let found = ActionDir::all(&actions).into_iter().filter(|dir| !dir.is_kept());
        commands.extend(found.map(|dir| Command::look(&session, dir, &here)));
    }
    Ok(commands)
}

/// Ends the running command that a handle, or its beginning, names.
async fn stop(handle: &str, commands: Vec<Command>) -> Result<Command, CliError> {
    let named = |command: &&Command| !handle.is_empty() && command.handle().starts_with(handle);
    let found: Vec<&Command> = commands.iter().filter(named).collect();
    let [command] = found.as_slice() else {
        let what = match found.len() {
            0 => format!("There is no command `{handle}`."),
            n => format!("`{handle}` fits {n} commands."),
        };
        return Err(CliError::new(ExitCode::NotFound, what).next("`segno status` lists them."));
    };
    if command.standing == Standing::Running {
        command.dir.ask_to_stop().map_err(|e| {
            CliError::failed("The command could not be asked to end.")
                .because(e)
                .next(format!("Create the file {}", command.dir.path().join("stop").display()))
        })?;
    }
    let here = this_process(&SystemClock);
    for _ in 0..STOP_LOOKS {
        let now = Command::look(&command.session, command.dir.clone(), &here);
        // Whoever waits for it may have taken its end, and its files, already.
        if now.standing != Standing::Running {
            return Ok(now);
        }
        tokio::time::sleep(STOP_PAUSE).await;
    }
    Err(CliError::failed("The command has not ended yet.")
        .because("its supervisor was asked to end it, and has not done so within 10 seconds")
        .next("`segno status` says how it goes on."))
}

impl Command {
    fn look(session: &SessionId, dir: ActionDir, me: &Owner) -> Self {
        let claim = dir.claim().ok().flatten();
        let here = claim.as_ref().is_none_or(|c| c.boot == me.boot && c.host == me.host);
        let standing = judge(&dir.look(here));
        let (request, status) = (dir.request().ok(), dir.status().ok().flatten());
        Self { session: session.clone(), dir, standing, request, claim, status }
    }

    fn handle(&self) -> &str {
        self.dir.id()
    }

    fn state(&self) -> &'static str {
        match self.standing {
            Standing::Running => "running",
            Standing::Ended => "ended",
            Standing::NotStarted => "not_started",
            Standing::Unclaimed => "waiting",
            Standing::Gone | Standing::Elsewhere | Standing::Unknown => "unknown",
        }
    }

    /// Its state, or its end, for people.
    fn said(&self) -> String {
        match (&self.standing, &self.status) {
            (Standing::Running, _) if self.dir.is_asked_to_stop() => "is being stopped".to_owned(),
            (Standing::Running, _) => "runs".to_owned(),
            (Standing::Ended, Some(status)) => clean::line(&status.end.to_string()),
            (Standing::Unclaimed, _) => "not started".to_owned(),
            (Standing::NotStarted, _) => "never started".to_owned(),
            _ if !self.dir.path().is_dir() => "has ended".to_owned(),
            _ => match self.dir.survivors().as_slice() {
                [] => "unknown".to_owned(),
                left => {
                    let pids: Vec<String> = left.iter().map(|s| s.pid.to_string()).collect();
                    format!("unknown; left running: {}", pids.join(" "))
                }
            },
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let timeout = i64::try_from(self.request.as_ref()?.timeout_ms).ok()?;
        Some(Timestamp(self.claim.as_ref()?.at.0.saturating_add(timeout)))
    }

    fn json(&self) -> Value {
        let survivors: Vec<Value> = match self.standing {
            Standing::Gone => self.dir.survivors(),
            _ => Vec::new(),
        }
        .into_iter()
        .map(|survivor| json!({"pid": survivor.pid, "command": survivor.command}))
        .collect();
        json!({
            "handle": self.handle(),
            "session": self.session,
            "state": self.state(),
            "background": self.request.as_ref().is_some_and(|request| request.background),
            "command": self.request.as_ref().map(|request| &request.command),
            "cwd": self.request.as_ref().map(|request| &request.cwd),
            "pid": self.claim.as_ref().map(|claim| claim.pid),
            "since": self.claim.as_ref().map(|claim| claim.at),
            "deadline": self.deadline(),
            "end": self.status.as_ref().map(|status| status.end.to_string()),
            "survivors": survivors,
        })
    }
}

fn lines(commands: &[Command], ids: &Ids, width: usize) -> Vec<Text> {
    let now = SystemClock.now();
    let mut table = Table::new(vec![
        Column::left("HANDLE"),
        Column::left("STATE"),
        Column::left("SESSION").leaves(2),
        Column::right("SINCE").leaves(3),
        Column::right("LEFT").leaves(1),
        Column::right("PID").leaves(4),
        Column::left("COMMAND").shrinks_to(20),
    ]);
    let plain = |text: &str| Text::line(Tone::Plain, text);
    for command in commands {
        let running = command.standing == Standing::Running;
        let since = command.claim.as_ref().map_or_else(String::new, |claim| age(now, claim.at));
        let left = command.deadline().filter(|_| running);
        let left = left.map_or_else(String::new, |deadline| age(deadline, now));
        let pid = command.claim.as_ref().filter(|_| running);
        let text = command.request.as_ref().map_or("?", |request| request.command.as_str());
        table.row([
            Text::line(Tone::Accent, command.handle()),
            Text::line(if running { Tone::Plain } else { Tone::Warning }, &command.said()),
            plain(ids.short(command.session.as_str())),
            plain(&since),
            plain(&left),
            plain(&pid.map_or_else(String::new, |claim| claim.pid.to_string())),
            plain(&clean::cut(&clean::line(text), SHOWN)),
        ]);
    }
    if commands.is_empty() { Vec::new() } else { table.lines(width) }
}
