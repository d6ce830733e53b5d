//! Taking up a session: everything that has to be settled with the person before it goes on.
//!
//! Responsible for: damage, the directory, the model, and telling what was found; for `segno resume` and
//! `/resume` alike. Must not: write to a sound session, swap a model silently, or send anything.

use super::damage;
use super::keyboard::{Keyboard, Pressed};
use super::recent;
use crate::args::{AgentArgs, Thinking, WhenInterrupted};
use crate::commands::status::running;
use crate::engine::{Engine, ModelChoice, OpenedSession, Wanted, aside, directory_of, gone, offer};
use crate::error::CliError;
use crate::stores::Log;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_agent::provider::{Provider, discover};
use segno_model::SessionId;
use segno_model::record::{Body, PolicyChange, ThinkingChange};
use segno_runtime::Session;
use std::path::{Path, PathBuf};

/// How many models are offered in place of one that cannot be used.
const OFFERED: usize = 9;

/// A session that can go on.
pub struct Arrival {
    /// It.
    pub session: Session<Log>,
    /// Where its tools work.
    pub cwd: PathBuf,
    /// Its model.
    pub choice: ModelChoice,
    /// The same, connected.
    pub model: Provider,
}

/// What taking up a session needs.
pub struct Desk<'a> {
    /// The process's engine.
    pub engine: &'a Engine,
    /// Where answers come from.
    pub keyboard: &'a Keyboard,
    /// Where questions go to.
    pub screen: &'a mut Screen,
}

impl Desk<'_> {
    /// Takes up a stored session; nothing when the person decided otherwise.
    ///
    /// # Errors
    /// When it is held, cannot be read, or has no usable model.
    pub async fn take_up(
        &mut self,
        id: &SessionId,
        args: &AgentArgs,
    ) -> Result<Option<Arrival>, CliError> {
        let session = match self.engine.open(id).await? {
            OpenedSession::Ready(session) => *session,
            OpenedSession::Damaged(damaged) => match damage::settle(self, id, *damaged).await? {
                Some(session) => session,
                None => return Ok(None),
            },
        };
        let Some(cwd) = self.directory(&session).await? else { return Ok(None) };
        let stored = session.state().in_force.clone();
        let wanted = Wanted::decide(args, Some(&stored), &self.engine.config)?;
        let Some((choice, model)) = self.model(wanted).await? else { return Ok(None) };
        let mut session = session;
        prepare(&mut session, &choice, args);
        self.tell(&session);
        Ok(Some(Arrival { session, cwd, choice, model }))
    }

    /// A new session.
    ///
    /// # Errors
    /// When there is no usable model.
    pub async fn start(&mut self, args: &AgentArgs) -> Result<Arrival, CliError> {
        let engine = self.engine;
        let wanted = Wanted::decide(args, None, &engine.config)?;
        let choice = wanted.settle(&engine.credentials).await?;
        let model = choice.connect(&engine.credentials)?;
        let mut session = engine.new_session();
        self.tell_running();
        if let (None, Some(level)) = (args.thinking, &engine.config.thinking) {
            session.queue(Body::Thinking(ThinkingChange { level: level.clone() }));
        }
        prepare(&mut session, &choice, args);
        Ok(Arrival { session, cwd: engine.cwd.clone(), choice, model })
    }

    /// Where the tools are to work.
    async fn directory(&mut self, session: &Session<Log>) -> Result<Option<PathBuf>, CliError> {
        let here = self.engine.cwd.clone();
        let Some(theirs) = directory_of(session) else { return Ok(Some(here)) };
        if same_place(&theirs, &here) {
            return Ok(Some(here));
        }
        let (there, at) = (theirs.is_dir(), shown(&here));
        let said = if there {
            format!("This session works in {}; you are in {at}.", shown(&theirs))
        } else {
            format!("This session's directory {} is gone; you are in {at}.", shown(&theirs))
        };
        let mut lines = vec![Text::line(Tone::Warning, &said)];
        if there {
            lines.push(key_line("d", "go on in its directory"));
        }
        lines.push(key_line("h", "go on here"));
        lines.push(key_line("l", "leave; `segno show` reads it"));
        match self.keyboard.choose(lines, if there { "dhl" } else { "hl" }).await {
            Pressed::Key('d') => Ok(Some(theirs)),
            Pressed::Key('h') => Ok(Some(here)),
            Pressed::Gone if !there => Err(gone(session.id(), &theirs)),
            _ => Ok(None),
        }
    }

    /// The model, connected. One that cannot be used is named, and another one only taken if the person
    /// chooses it.
    async fn model(&mut self, wanted: Wanted) -> Result<Option<(ModelChoice, Provider)>, CliError> {
        let engine = self.engine;
        let bound = matches!(wanted, Wanted::Exactly(_));
        let choice = wanted.settle(&engine.credentials).await?;
        let error = match choice.connect(&engine.credentials) {
            Ok(model) => match unreachable(&model, &choice).await {
                None => return Ok(Some((choice, model))),
                Some(why) => why,
            },
            Err(error) if !bound => return Err(error),
            Err(error) => error.cause.unwrap_or(error.sentence),
        };
        self.another_model(&choice, &error).await
    }

    async fn another_model(
        &mut self,
        choice: &ModelChoice,
        why: &str,
    ) -> Result<Option<(ModelChoice, Provider)>, CliError> {
        let engine = self.engine;
        let found = discover(&engine.credentials).await;
        let others: Vec<ModelChoice> = found
            .iter()
            .filter_map(offer)
            .filter(|other| other.model != choice.model)
            .take(OFFERED)
            .map(|other| ModelChoice { chosen: true, ..other })
            .collect();
        let said = format!("The session's model {} cannot be used now.", choice.model);
        let mut lines = vec![
            Text::line(Tone::Warning, &said),
            Text::default().with(Tone::Dim, &format!("  {why}")),
        ];
        let mut keys = "kl".to_owned();
        for (digit, other) in ('1'..).zip(&others) {
            lines.push(key_line(&digit.to_string(), &format!("go on with {}", other.model)));
            keys.push(digit);
        }
        lines.push(key_line("k", "keep it; perhaps it answers later"));
        lines
            .push(key_line("l", "leave; `segno resume SESSION --model PROVIDER/ID` names another"));
        let taken = match self.keyboard.choose(lines, &keys).await {
            Pressed::Key('k') => Some(choice),
            Pressed::Key(digit) => ('1'..).zip(&others).find(|(d, _)| *d == digit).map(|(_, o)| o),
            _ => None,
        };
        let Some(taken) = taken else { return Ok(None) };
        Ok(Some((taken.clone(), taken.connect(&engine.credentials)?)))
    }

    /// What a person needs to know before going on.
    /// Names the commands that run, whosever they are: nobody else would tell of them.
    fn tell_running(&mut self) {
        for line in running(&self.engine.stores) {
            self.screen.line(line);
        }
    }

    fn tell(&mut self, session: &Session<Log>) {
        let now = &session.state().in_force;
        let title =
            now.name.as_deref().or(now.first_prompt.as_deref()).unwrap_or("(no prompt yet)");
        let title = clean::cut(&clean::line(title), self.screen.look().columns.saturating_sub(2));
        self.screen.line(Text::line(Tone::Dim, session.id().as_str()));
        self.screen.line(Text::line(Tone::Strong, &title));
        self.screen.lines(aside::noticed(session.findings()));
        self.tell_running();
        recent::show(session, self.screen);
        self.screen.flush();
    }
}

/// What was chosen goes in front of the next input: looking at a session changes nothing.
fn prepare(session: &mut Session<Log>, choice: &ModelChoice, args: &AgentArgs) {
    let now = &session.state().in_force;
    let change = choice.change();
    let same = now.model.as_ref() == Some(&change.model)
        && now.base_url == change.base_url
        && (now.model_chosen || !change.chosen);
    if !same {
        session.queue(Body::Model(change));
    }
    let policy = args.policy.map(WhenInterrupted::policy);
    let in_force = session.state().in_force.policy;
    if let Some(policy) = policy.filter(|policy| in_force != Some(*policy)) {
        session.queue(Body::Policy(PolicyChange { policy }));
    }
    let thinking = args.thinking.map(Thinking::as_str);
    if let Some(level) = thinking.filter(|level| session.thinking() != Some(*level)) {
        session.queue(Body::Thinking(ThinkingChange { level: level.to_owned() }));
    }
}

/// Why a model on this machine does not answer. Others are not asked: that would cost time, and a key is
/// all that can be known of them.
async fn unreachable(model: &Provider, choice: &ModelChoice) -> Option<String> {
    if !model.is_local() {
        return None;
    }
    match model.list_models().await {
        Err(error) => Some(error.to_string()),
        Ok(models) if models.iter().any(|m| m.id == choice.model.id) => None,
        Ok(models) if models.is_empty() => None,
        Ok(_) => Some("its server does not have it".to_owned()),
    }
}

/// A key and what it does.
#[must_use]
pub fn key_line(key: &str, what: &str) -> Text {
    Text::default().with(Tone::Accent, &format!("  {key}")).with(Tone::Plain, &format!("  {what}"))
}

fn same_place(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    a == b || real(a).is_some_and(|a| Some(a) == real(b))
}

fn shown(path: &Path) -> String {
    clean::reveal(&path.display().to_string())
}
