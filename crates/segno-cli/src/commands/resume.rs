//! `segno resume [SESSION]`: go on with a session.
//!
//! Responsible for: which session, and whether it goes on in a conversation or, in a script, with one
//! prompt. Must not: write anything before the person has said something.

use super::interactive::{is_conversation, needs_terminal};
use super::resume_all::resume_all;
use super::run::{Prompt, one_shot, take_up};
use super::{Workplace, export};
use crate::args::{ResumeArgs, quoted};
use crate::engine::{Engine, Signals, no_signals, undecided};
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::inputs::taking_over;
use crate::interactive::{Desk, Interactive, Keyboard, choose};
use crate::others::{HandOver, Imported, Launch, Other, Target, import};
use crate::secrets::Masker;
use crate::stores::{Log, Stores, note};
use crate::terminal::picker::PickError;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone};
use segno_model::record::{Body, Custom, Policy};
use segno_model::{SessionId, Standing};
use segno_runtime::Session;
use segno_store::foreign::Agent;

/// Goes on with it.
///
/// # Errors
/// When it is not found, held, damaged and nobody can be asked, or has no usable model.
pub async fn resume(
    args: &ResumeArgs,
    home: Home,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    if args.all {
        return resume_all(args, home, screen).await;
    }
    let found = match &args.session {
        Some(query) => match chosen(query, args, &home, screen).await? {
            Chosen::Here(id) => Some(id),
            Chosen::Done(code) => return Ok(code),
        },
        None => None,
    };
    let mut engine = Engine::load(home).await?;
    let (allow_drift, base_url) = (args.allow_drift, args.agent.base_url.as_deref());
    let mut allowed = match &found {
        Some(id) => engine.review(id, allow_drift, base_url).await?,
        None => Vec::new(),
    };
    if let Some(id) = found.as_ref().filter(|_| args.take_over) {
        taking_over::take_over(&engine.stores, id).await?;
    }
    let prompt = Some(args.prompt.join(" ")).filter(|prompt| !prompt.trim().is_empty());
    if !is_conversation(screen) {
        return in_a_script(found, args, (prompt.as_deref(), &allowed), engine, screen).await;
    }
    let signals = Signals::listen().map_err(|e| no_signals(&e))?;
    engine.mode(&args.agent)?;
    let keyboard = Keyboard::new(signals.leaving());
    let id = match found {
        Some(id) => id,
        None => {
            let picked = choose(&engine, &keyboard, &signals, screen.look()).await?;
            let Some(id) = picked else { return Ok(ExitCode::Done) };
            allowed = engine.review(&id, allow_drift, base_url).await?;
            id
        }
    };
    let mut desk = Desk { engine: &engine, keyboard: &keyboard, screen: &mut *screen };
    match desk.take_up(&id, &args.agent).await? {
        Some(mut arrival) => {
            allow(&mut arrival.session, &allowed);
            let at_work =
                Interactive::new(engine, keyboard, signals, screen, &args.agent, arrival).await?;
            at_work.run(prompt.as_deref()).await
        }
        None => Ok(ExitCode::Done),
    }
}

/// What becomes of the session that was named.
enum Chosen {
    /// It was opened in its own agent, or was printed how.
    Done(ExitCode),
    /// It goes on here.
    Here(SessionId),
}

/// Finds the session. Another agent's is opened in that agent, printed how, or imported.
async fn chosen(
    query: &str,
    args: &ResumeArgs,
    home: &Home,
    screen: &mut Screen,
) -> Result<Chosen, CliError> {
    let stores = Stores::new(home.clone());
    let found = stores.find_any(query, &Workplace::cwd()?).await?;
    if let Some(target) = args.in_agent {
        let is_own = matches!(&found, Target::Other(session) if session.row.agent == target);
        if !is_own {
            return in_another(found, target, args, &stores, screen).await.map(Chosen::Done);
        }
    }
    let session = match found {
        Target::Own(id) if args.print => {
            screen.line(format!("{} resume {id}", home.command()));
            return Ok(Chosen::Done(ExitCode::Done));
        }
        Target::Own(id) => return Ok(Chosen::Here(id)),
        Target::Other(session) => session,
    };
    if args.here {
        let imported = import(&stores, &session, &Workplace::cwd()?).await?;
        screen.line(Text::line(Tone::Dim, &told(&imported)));
        for trouble in &imported.trouble {
            let text = format!("note: a subagent's session was not taken: {trouble}");
            screen.line(Text::line(Tone::Warning, &text));
        }
        for prompt in &imported.pending {
            let text = "note: this waited there and was never delivered; say it if it still holds:";
            screen.line(Text::line(Tone::Warning, text));
            screen.line(Text::block(Tone::Plain, prompt));
        }
        return Ok(Chosen::Here(imported.id));
    }
    let launch = Launch::of(&session)?;
    tell_of_damage(&session);
    if args.print {
        screen.line(launch.line());
        return Ok(Chosen::Done(ExitCode::Done));
    }
    if session.state.is_live() {
        return Err(CliError::new(ExitCode::Held, "Its agent has this session open.")
            .because(match session.pid {
                Some(pid) => format!("process {pid} is at it"),
                None => "its registry says so".to_owned(),
            })
            .next(format!("Go on there, or read it with `segno show {}`.", session.word())));
    }
    launch.run(&session.word()).map(Chosen::Done)
}

/// Says of a damaged session that it is one, before its agent takes it up as if nothing were missing.
fn tell_of_damage(session: &Other) {
    let word = session.word();
    let word = quoted(&word);
    let places = plural(usize::try_from(session.row.damage).unwrap_or(usize::MAX), "place");
    match (session.row.readable, session.row.damage) {
        (false, _) => note(&format!("it cannot be read here; `segno check {word}` tells why")),
        (true, 0) => {}
        (true, _) => note(&format!(
            "it is damaged in {places}; `segno repair {word}` tells what its agent trips over"
        )),
    }
}

/// Hands the session over to another agent, and becomes that, or prints the command.
async fn in_another(
    session: Target,
    target: Agent,
    args: &ResumeArgs,
    stores: &Stores,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let mut copy =
        HandOver::of(target, session, stores, &Workplace::cwd()?, &mut Masker::new(false)).await?;
    copy.tell_of_secrets();
    if !export::agent::agreed(&copy, args.yes)? {
        screen.line(Text::line(Tone::Dim, "Nothing was written."));
        return Ok(ExitCode::Stopped);
    }
    export::agent::install_it(&copy)?;
    if args.print {
        screen.line(copy.line());
        return Ok(ExitCode::Done);
    }
    copy.launch_it()
}

fn told(imported: &Imported) -> String {
    let with = match imported.subagents {
        0 => String::new(),
        n => format!(", with {} of subagents (`segno list --children`)", plural(n, "session")),
    };
    format!("{}{with}", told_of_itself(imported))
}

fn told_of_itself(imported: &Imported) -> String {
    let records = plural(usize::try_from(imported.new).unwrap_or(usize::MAX), "record");
    match (imported.known, imported.new, imported.branched) {
        (false, ..) => {
            format!("imported {records} as {}; the original stays as it is", imported.id)
        }
        (true, 0, _) => format!("imported before as {}; nothing is new", imported.id),
        (true, _, false) => format!("imported before as {}; {records} came in since", imported.id),
        (true, _, true) => {
            format!(
                "imported before as {}; {records} came in since, on a branch of their own",
                imported.id
            )
        }
    }
}

/// Nothing new is said: what was interrupted goes on if its policy says so, and a stop is finished.
async fn without_words(
    session: Session<Log>,
    args: &ResumeArgs,
    mut engine: Engine,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let (id, standing) = (session.id().clone(), session.standing());
    let home = &engine.stores.home;
    if standing.is_open() {
        match engine.policy(&args.agent, session.state().in_force.policy, false) {
            Policy::Auto => {}
            policy => return Err(undecided(home, &id, policy)),
        }
    } else if standing != Standing::Stopping {
        return Err(needs_terminal(&format!("{} resume {id} -- PROMPT", home.command())));
    }
    engine.enter(&session).await?;
    engine.start_approved_servers().await;
    engine.tell_of_files_aside();
    take_up(&engine, session, &args.agent, screen).await
}

/// Nobody can be asked: every doubt is an error with the command that settles it.
async fn in_a_script(
    found: Option<SessionId>,
    args: &ResumeArgs,
    (prompt, allowed): (Option<&str>, &[String]),
    mut engine: Engine,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let Some(id) = found else { return Err(PickError::NotATerminal.into()) };
    let mut session = engine.open_sound(&id).await?;
    allow(&mut session, allowed);
    let Some(prompt) = prompt else {
        return without_words(session, args, engine, screen).await;
    };
    engine.enter(&session).await?;
    engine.start_approved_servers().await;
    engine.tell_of_files_aside();
    let prompt = Prompt { words: prompt.to_owned(), piped: String::new() };
    one_shot(&engine, session, &prompt, &args.agent, false, screen).await
}

/// Records with the next input what a person allowed that had changed since a subagent's launch.
fn allow(session: &mut Session<Log>, codes: &[String]) {
    if let Ok(data) = serde_json::value::to_raw_value(codes)
        && !codes.is_empty()
    {
        let name = "segno.allow_drift".to_owned();
        session.queue(Body::Custom(Custom { name, data, context: None }));
    }
}
