//! `segno resume --all`: the entry of a service that goes on with what was interrupted.
//!
//! Responsible for: which sessions are taken up, and why others are not; several at a time, each of them by
//! one run. Must not: ask anybody, or take up what nobody allowed.

use super::run::{HandedOver, hand_over};
use crate::args::{AgentArgs, ResumeArgs};
use crate::engine::{Engine, Signals, Wanted, aside, no_signals};
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::inputs::{self, questions};
use crate::sessions::{Entry, Standing as Word};
use crate::stores::Stores;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::finding::Finding;
use segno_model::record::{Policy, RunEnd};
use segno_model::store::{Clock as _, SessionStore as _};
use segno_model::{SessionId, Standing};
use segno_runtime::{Coordinator, Finished, Stop, StopKind, Tools as _};
use segno_store::SystemClock;
use serde::Serialize;
use std::cell::RefCell;

/// How many sessions are worked on at a time.
const PARALLEL: usize = 4;

/// A session that is not at rest.
#[derive(Debug, Clone, Serialize)]
struct Line {
    session: String,
    title: Option<String>,
    standing: Standing,
    policy: Policy,
    action: Action,
    why: Option<String>,
    /// How its run ended, once it did.
    end: Option<RunEnd>,
    /// What was noticed about its files.
    findings: Vec<Finding>,
    /// How many inputs wait in it.
    waiting: usize,
    #[serde(skip)]
    id: SessionId,
}

/// What is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// Its run goes on.
    TakeUp,
    /// The user's stop is finished.
    FinishStop,
    /// Nothing.
    Skip,
}

/// Goes on with all of them.
///
/// # Errors
/// When the sessions cannot be listed or the configuration is unusable.
pub async fn resume_all(
    args: &ResumeArgs,
    home: Home,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let engine = Engine::load(home.clone()).await?;
    let lines = plan(&engine, &args.agent).await?;
    let signals = Signals::listen().map_err(|e| no_signals(&e))?;
    let lines = if args.dry_run { lines } else { work(&home, args, lines, &signals, screen).await };
    if args.json {
        screen
            .json(&serde_json::json!({ "version": 1, "dry_run": args.dry_run, "sessions": lines }));
    } else if args.dry_run {
        lines.iter().for_each(|line| screen.lines(line.texts()));
    }
    let failed = |line: &Line| {
        let ended_ill = matches!(line.end, Some(RunEnd::Failed | RunEnd::Exhausted));
        ended_ill || line.action != Action::Skip && line.end.is_none()
    };
    Ok(match () {
        () if args.dry_run => ExitCode::Done,
        () if signals.is_leaving() => ExitCode::Suspended,
        () if lines.iter().any(failed) => ExitCode::Failed,
        () => ExitCode::Done,
    })
}

/// Every session of ours that is not at rest, and what is to be done about it.
async fn plan(engine: &Engine, args: &AgentArgs) -> Result<Vec<Line>, CliError> {
    let entries = engine.stores.entries(SystemClock.now()).await?;
    let at_rest = [Word::Empty, Word::Ended, Word::Unreadable, Word::Newer];
    let mut lines = Vec::new();
    // A subagent's work is its parent's to go on with.
    let is_due = |entry: &&Entry| !entry.is_child && !at_rest.contains(&entry.standing);
    for entry in entries.iter().filter(is_due) {
        let Ok(snapshot) = engine.stores.files.read(&entry.id).await else { continue };
        let (state, records) = (&snapshot.state, &snapshot.active.records);
        let standing = Standing::of(&snapshot.header, state, records);
        let policy = engine.policy(args, state.in_force.policy, false);
        let answered =
            standing == Standing::Waiting && is_answered(&engine.stores, &entry.id).await;
        if let Some((action, why)) = decide(standing, answered, policy, held(engine, entry)) {
            lines.push(Line {
                session: entry.id.to_string(),
                title: entry.title().map(clean::line),
                standing,
                policy,
                action,
                why,
                end: None,
                findings: snapshot.active.findings.clone(),
                waiting: waiting(&engine.stores, &entry.id).await,
                id: entry.id.clone(),
            });
        }
    }
    Ok(lines)
}

/// How many inputs wait. What cannot be read is no reason to leave a session.
async fn waiting(stores: &Stores, id: &SessionId) -> usize {
    let pending = stores.files.pending(id).await.map(|inbox| inbox.pending);
    pending.map_or(0, |pending| inputs::words(&pending).count())
}

/// Whether a person has answered every question that waits. What cannot be read is not answered.
async fn is_answered(stores: &Stores, id: &SessionId) -> bool {
    let open = questions::open(stores, id).await.unwrap_or_default();
    !open.is_empty() && open.iter().all(|question| question.sent.is_some())
}

/// Who holds it.
fn held(engine: &Engine, entry: &Entry) -> Option<String> {
    let owner = engine.stores.files.holder(&entry.id).ok().flatten()?;
    Some(match owner.pid {
        0 => "another process is at it".to_owned(),
        pid => format!("process {pid} is at it"),
    })
}

/// What is done about a session, and why nothing is; nothing at all about one that is at rest.
fn decide(
    standing: Standing,
    answered: bool,
    policy: Policy,
    held: Option<String>,
) -> Option<(Action, Option<String>)> {
    let skip = |why: &str| Some((Action::Skip, Some(why.to_owned())));
    match standing {
        Standing::Empty | Standing::Idle | Standing::Finished | Standing::Stopped => None,
        _ if held.is_some() => Some((Action::Skip, held)),
        Standing::Stopping => Some((Action::FinishStop, None)),
        Standing::Waiting if !answered => {
            skip("a question waits for a person's answer: `segno answer SESSION`")
        }
        Standing::Failed => skip("needs attention: its last run failed"),
        Standing::Exhausted => skip("needs attention: a limit of its run was reached"),
        Standing::Unknown => skip("needs attention: it was stopped, and an outcome is unknown"),
        Standing::Waiting | Standing::Interrupted | Standing::Suspended | Standing::Unanswered => {
            match policy {
                Policy::Auto => Some((Action::TakeUp, None)),
                Policy::Ask => skip("its policy is to ask"),
                Policy::Never => skip("nobody said that it may go on by itself"),
            }
        }
    }
}

/// Carries the plan out, telling each line when it is done.
async fn work(
    home: &Home,
    args: &ResumeArgs,
    lines: Vec<Line>,
    signals: &Signals,
    screen: &mut Screen,
) -> Vec<Line> {
    let stop = signals.begin_turn();
    let (done, screen) = (RefCell::new(lines), RefCell::new(screen));
    let tell = |line: &Line| {
        if !args.json {
            let mut screen = screen.borrow_mut();
            screen.lines(line.texts());
            screen.flush();
        }
    };
    let stores = &Stores::new(home.clone());
    let (coordinator, waker) = Coordinator::new(PARALLEL, |i: usize| {
        let (done, tell, stop) = (&done, &tell, &stop);
        async move {
            let id = done.borrow()[i].id.clone();
            let ended = one(home, &id, &args.agent, stop).await;
            let left = waiting(stores, &id).await;
            let mut done = done.borrow_mut();
            let Some(line) = done.get_mut(i) else { return };
            match ended {
                Ok(Some(done)) => {
                    line.end = Some(done.finished.end);
                    line.why = done.finished.reason;
                    line.findings = done.findings;
                    if let Some(trouble) = done.trouble {
                        line.why = Some(told(&trouble));
                    }
                }
                Ok(None) => {
                    line.action = Action::Skip;
                    line.why = Some("somebody else went on with it".to_owned());
                }
                Err(error) => {
                    line.why = Some(told(&error));
                    if error.exit == ExitCode::Held {
                        line.action = Action::Skip;
                    }
                }
            }
            line.waiting = left;
            tell(line);
        }
    });
    for (i, line) in done.borrow().iter().enumerate() {
        match line.action {
            Action::Skip => tell(line),
            Action::TakeUp | Action::FinishStop => waker.wake(i),
        }
    }
    drop(waker);
    coordinator.run().await;
    signals.end_turn();
    done.into_inner()
}

/// What went wrong, in one line.
fn told(error: &CliError) -> String {
    let cause = error.cause.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"));
    format!("{}{cause} {}", error.sentence, error.next_step)
}

/// A session that was gone on with.
struct Done {
    finished: Finished,
    findings: Vec<Finding>,
    /// What kept the inputs that wait behind the run from being begun.
    trouble: Option<CliError>,
}

/// Goes on with one session, in its own directory; nothing when there is nothing to do any more.
async fn one(
    home: &Home,
    id: &SessionId,
    args: &AgentArgs,
    stop: &Stop,
) -> Result<Option<Done>, CliError> {
    let mut engine = Engine::load(home.clone()).await?;
    let session = engine.open_sound(id).await?;
    let policy = engine.policy(args, session.state().in_force.policy, false);
    // What was planned may have been overtaken before the session was held.
    let answered = is_answered(&engine.stores, id).await;
    let decided = decide(session.standing(), answered, policy, None);
    if !matches!(decided, Some((action, _)) if action != Action::Skip) {
        return Ok(None);
    }
    engine.enter(&session).await?;
    engine.start_approved_servers().await;
    let stored = session.state().in_force.clone();
    let choice =
        Wanted::decide(args, Some(&stored), &engine.config)?.settle(&engine.credentials).await?;
    let model = choice.connect(&engine.credentials)?;
    let mode = engine.mode(args)?;
    let mut agent = engine.agent(session, mode, None);
    let finished = agent.take_up(&model, &choice.model, stop, &mut ()).await;
    agent.tools.halt(StopKind::Shutdown).await;
    let finished = finished?;
    let Some(finished) = finished else { return Ok(None) };
    let findings = agent.session.findings().to_vec();
    let trouble = if finished.end == RunEnd::Completed {
        let HandedOver { trouble, .. } = hand_over(&engine, agent).await;
        trouble
    } else {
        None
    };
    Ok(Some(Done { finished, findings, trouble }))
}

impl Line {
    /// The line, and below it what was noticed and what waits.
    fn texts(&self) -> Vec<Text> {
        let mut texts = vec![self.text()];
        texts.extend(
            aside::noticed(&self.findings)
                .into_iter()
                .map(|finding| Text::default().with(Tone::Plain, "    ").with_text(finding)),
        );
        if self.waiting > 0 {
            let verb = if self.waiting == 1 { "waits" } else { "wait" };
            let inputs = plural(self.waiting, "input");
            let said = format!("    {inputs} {verb}: `segno inbox {}` shows what.", self.session);
            texts.push(Text::default().with(Tone::Dim, &said));
        }
        texts
    }

    fn text(&self) -> Text {
        let (tone, said) = match (self.action, self.end) {
            (Action::Skip, _) => (Tone::Dim, "left".to_owned()),
            (Action::TakeUp, None) if self.why.is_none() => (Tone::Plain, "goes on".to_owned()),
            (Action::FinishStop, None) if self.why.is_none() => {
                (Tone::Plain, "its stop is finished".to_owned())
            }
            (_, None) => (Tone::Bad, "could not go on".to_owned()),
            (_, Some(RunEnd::Completed)) => (Tone::Good, "completed".to_owned()),
            (_, Some(end)) => (Tone::Warning, format!("{end:?}").to_lowercase()),
        };
        let why =
            self.why.as_ref().map_or_else(String::new, |why| format!(": {}", clean::line(why)));
        let title = self.title.as_deref().unwrap_or("(no prompt)");
        Text::default()
            .with(Tone::Accent, &self.session)
            .with(Tone::Plain, "  ")
            .with(tone, &format!("{said}{why}"))
            .with(Tone::Dim, &format!("  {}", clean::cut(title, 40)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the policy, a stop is finished and nothing that was stopped, failed or waits is taken up;
    /// what somebody holds is left to them. Covers: G5, G9.
    #[test]
    fn only_interrupted_work_that_may_go_on_goes_on() {
        for standing in Standing::ALL {
            for policy in [Policy::Ask, Policy::Auto, Policy::Never] {
                for answered in [false, true] {
                    let action = decide(standing, answered, policy, None).map(|(action, _)| action);
                    let goes_on = standing.is_open() && (answered || standing != Standing::Waiting);
                    assert_eq!(
                        action == Some(Action::TakeUp),
                        goes_on && policy == Policy::Auto,
                        "{standing:?} {answered} {policy:?}"
                    );
                    assert_eq!(action == Some(Action::FinishStop), standing == Standing::Stopping);
                    let skipped = decide(standing, answered, policy, Some("held".to_owned()));
                    assert!(skipped.is_none_or(|(action, _)| action == Action::Skip));
                }
            }
        }
    }
}
