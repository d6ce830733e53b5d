//! From the command line to a working agent.
//!
//! Responsible for: putting store, model, tools and surroundings together for `run` and interactive
//! sessions, the same way for both. Must not: print, or hold any rule about records.

mod advice;
pub mod aside;
mod children;
mod file_notes;
mod model;
mod servers;
mod signals;
mod watch;

pub use model::{ModelChoice, Wanted, default_model, offer};
pub use servers::{Unapproved, tell as tell_servers};
pub use signals::{Signals, no_signals};
pub use watch::{JsonWatch, TextWatch, call_line, end_sentence};

use crate::args::{AgentArgs, SUPERVISE, WhenInterrupted, quoted};
use crate::config::{self, Config};
use crate::error::{CliError, ExitCode};
use crate::history::place;
use crate::home::Home;
use crate::price::Prices;
use crate::stores::{Log, Stores, not_opened};
use segno_agent::attach::Places;
use segno_agent::mcp::Servers;
use segno_agent::permission::{Mode, PrefixRule};
use segno_agent::project::Project;
use segno_agent::provider::{Credentials, Secret};
use segno_agent::supervisor::this_program;
use segno_agent::tool::{Asker, Supervision, Toolbox, ToolboxConfig};
use segno_agent::worktree::told_child;
use segno_agent::{Agent, Surroundings, World, instructions};
use segno_model::SessionId;
use segno_model::accounting::Cost;
use segno_model::child::parse_launch;
use segno_model::finding::Finding;
use segno_model::record::{FORMAT, Header, ModelRef, Policy, RunEnd, Usage, Worktree};
use segno_model::store::{
    DamagedSession as _, HeldSession as _, Ids as _, Judged, Owner, SessionStore as _,
};
use segno_runtime::{Limits, RetryPolicy, Session, SpendLimit, StoreInbox};
use segno_store::{FileDamaged, SystemClock, UuidIds, this_process};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Everything that is the same for all sessions of this process.
pub struct Engine {
    /// Where sessions are.
    pub stores: Stores,
    /// The user's configuration.
    pub config: Config,
    /// The keys at hand.
    pub credentials: Credentials,
    /// The working directory.
    pub cwd: PathBuf,
    /// What is known of it.
    pub project: Project,
    /// Where roles are looked for, when that is not this project.
    roles_at: Option<PathBuf>,
    /// Servers of tools, as far as they were started.
    servers: Option<Arc<Servers>>,
    /// The place for which they were.
    servers_of: Option<PathBuf>,
    /// What was said of instruction and role files already.
    told_of_files: BTreeSet<String>,
}

/// A session that was opened for work.
pub enum OpenedSession {
    /// It can go on.
    Ready(Box<Session<Log>>),
    /// Damage lies in what the next request needs: a person has to decide first.
    Damaged(Box<FileDamaged<segno_store::RealDisk>>),
}

impl Engine {
    /// Reads the configuration and looks at the working directory. Writes nothing.
    ///
    /// # Errors
    /// When the configuration is unusable or the working directory is gone.
    pub async fn load(home: Home) -> Result<Self, CliError> {
        let cwd = std::env::current_dir().map_err(|e| {
            CliError::failed("The working directory cannot be used.")
                .because(e)
                .next("Change to a directory that exists.")
        })?;
        let config = config::read(&home.config)?;
        let keys = config.keys.iter();
        let keys = keys.filter_map(|(name, key)| Some((name.clone(), Secret::new(key)?)));
        let credentials = Credentials::from_env(keys.collect());
        let project = Project::look(&cwd).await;
        let (servers, servers_of, roles_at) = (None, None, None);
        let (stores, told_of_files) = (Stores::new(home), BTreeSet::new());
        Ok(Self {
            stores,
            config,
            credentials,
            cwd,
            project,
            roles_at,
            servers,
            servers_of,
            told_of_files,
        })
    }

    /// Line 1 of a new session of this project.
    #[must_use]
    pub fn header(&self) -> Header {
        Header {
            format: FORMAT,
            id: UuidIds.session_id(),
            project: self.project.facts.clone(),
            git: self.project.git.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            origin: None,
            launch: None,
        }
    }

    /// A new session of this project; nothing exists before its first input.
    #[must_use]
    pub fn new_session(&self) -> Session<Log> {
        Session::new(self.stores.files.create(self.header()), Arc::new(SystemClock))
    }

    /// Goes to another working directory.
    pub async fn move_to(&mut self, cwd: PathBuf) {
        self.project = Project::look(&cwd).await;
        self.cwd = cwd;
    }

    /// Goes to the directory that a session works in; for scripts, which cannot be asked.
    ///
    /// # Errors
    /// When it is gone.
    pub async fn enter(&mut self, session: &Session<Log>) -> Result<(), CliError> {
        let Some(cwd) = directory_of(session).filter(|cwd| *cwd != self.cwd) else {
            return Ok(());
        };
        if !cwd.is_dir() {
            return Err(gone(session.id(), &cwd));
        }
        self.move_to(cwd).await;
        Ok(())
    }

    /// Reads the configuration again, for rules that were saved since.
    ///
    /// # Errors
    /// When it has become unusable.
    pub fn read_config(&mut self) -> Result<(), CliError> {
        self.config = config::read(&self.stores.home.config)?;
        Ok(())
    }

    /// Takes the writer's right to a session and judges it. Changes no byte.
    ///
    /// # Errors
    /// When it is held by somebody else, cannot be read, or may only be read.
    pub async fn open(&self, id: &SessionId) -> Result<OpenedSession, CliError> {
        let held = self.stores.files.open(id).await.map_err(|e| not_opened(id, e))?;
        match held.judge().await.map_err(|e| not_opened(id, e))? {
            Judged::Sound(opened) => {
                let session = Session::resume(opened, Arc::new(SystemClock));
                Ok(OpenedSession::Ready(Box::new(session)))
            }
            Judged::Damaged(damaged) => Ok(OpenedSession::Damaged(Box::new(damaged))),
        }
    }

    /// As [`Engine::open`], for scripts: damage is an error with the exact commands to decide.
    ///
    /// # Errors
    /// As [`Engine::open`], and for damage.
    pub async fn open_sound(&self, id: &SessionId) -> Result<Session<Log>, CliError> {
        match self.open(id).await? {
            OpenedSession::Ready(session) => Ok(*session),
            OpenedSession::Damaged(damaged) => Err(damaged_error(id, damaged.findings())),
        }
    }

    /// Where `@names` lead.
    #[must_use]
    pub fn places(&self) -> Places<'_> {
        Places { cwd: &self.cwd, home: self.stores.home.user.as_deref() }
    }

    /// What is around the working directory now.
    #[must_use]
    pub fn surroundings(&self) -> Surroundings {
        around(&self.stores.home, &self.cwd, &self.project)
    }

    /// What is around a session: for a child, its role too.
    #[must_use]
    pub fn surroundings_of(&self, session: &Session<Log>) -> Surroundings {
        let mut around = self.surroundings();
        let Some(launch) = session.header().launch.as_ref() else { return around };
        if let Some(worktree) = self.worktree_of(session) {
            around.system.push_str(&told_child(&worktree));
        }
        self.role_of(launch).around(&around)
    }

    /// The worktree that a session works in: a record's word counts only for the place that is this child's.
    fn worktree_of(&self, session: &Session<Log>) -> Option<Worktree> {
        let own = self.stores.home.worktrees().path(session.id());
        let launch = parse_launch(session.header().launch.as_ref()?).ok()?;
        let at = |worktree: &Worktree| Path::new(&worktree.path) == own;
        launch.worktree.filter(at).filter(|_| self.project.root.as_ref() == Some(&own))
    }

    /// An agent over a session. Without somebody who asks, what would ask is refused.
    #[must_use]
    pub fn agent(
        &self,
        session: Session<Log>,
        mode: Mode,
        asker: Option<Arc<dyn Asker>>,
    ) -> Agent<Log, Toolbox> {
        let tools = self.toolbox(session.id(), session.log().actions_dir(), mode, asker);
        let tools = match &session.header().launch {
            // A child starts no children, whoever goes on with it.
            Some(launch) => tools.with_only(self.role_of(launch).tools),
            None => tools.with_subagents(self.family(session.id())),
        };
        let tools = match self.worktree_of(&session) {
            Some(worktree) => tools.in_worktree(Path::new(&worktree.path)),
            None => tools,
        };
        let inbox = StoreInbox { store: self.stores.files.clone(), id: session.id().clone() };
        let around = self.surroundings_of(&session);
        let mut agent = Agent::new(session, tools, around, world(self.limits()));
        agent.inbox = Some(Arc::new(inbox));
        agent.compaction = self.config.compaction.settings();
        agent.windows = self.config.windows();
        agent
    }

    /// The tools of a session; `actions` is where its supervised commands keep their files.
    fn toolbox(
        &self,
        session: &SessionId,
        actions: PathBuf,
        mode: Mode,
        asker: Option<Arc<dyn Asker>>,
    ) -> Toolbox {
        let home = &self.stores.home;
        let config_dir = home.config.parent().map(PathBuf::from);
        Toolbox::new(ToolboxConfig {
            session: (session.to_string(), self.here().host),
            cwd: self.cwd.clone(),
            root: self.project.root.clone().unwrap_or_else(|| self.cwd.clone()),
            home: home.user.clone(),
            own: [Some(home.data.clone()), config_dir].into_iter().flatten().collect(),
            mode,
            rules: self.config.allow.iter().filter_map(|rule| PrefixRule::parse(rule)).collect(),
            hidden_env: servers::hidden_env(),
            supervision: Some(Supervision {
                actions,
                supervisor: vec![this_program().into(), SUPERVISE.into()],
            }),
            locks: Some(home.locks()),
            servers: self.servers.clone(),
            asker,
        })
    }

    /// This process, as intents name it.
    #[must_use]
    pub fn here(&self) -> Owner {
        this_process(&SystemClock)
    }

    /// What models cost.
    #[must_use]
    pub fn prices(&self) -> Prices {
        Prices::new(&self.config.prices)
    }

    /// What one run may use up.
    fn limits(&self) -> Limits {
        let (config, usual) = (&self.config.limits, Limits::default());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a cast from a float saturates, and nobody limits what is below zero"
        )]
        let micros = |usd: f64| (usd * 1e6) as u64;
        let prices = self.prices();
        let price = move |model: &ModelRef, usage: &Usage| match prices.of(model)?.cost(usage)? {
            Cost::Exactly(money) => Some(money.micros()),
            Cost::Subscription => Some(0),
        };
        Limits {
            stalled: config.without_progress.unwrap_or(usual.stalled),
            attempts: config.attempts.unwrap_or(usual.attempts),
            tokens: config.tokens,
            spend: config
                .spend
                .map(|usd| SpendLimit { micros: micros(usd), price: Arc::new(price) }),
        }
    }

    /// What becomes of a session's interrupted work: the option, the session, the configuration; otherwise a
    /// person is asked where one is there.
    #[must_use]
    pub fn policy(&self, args: &AgentArgs, session: Option<Policy>, terminal: bool) -> Policy {
        let usual = if terminal { Policy::Ask } else { Policy::Never };
        let said = args.policy.map(WhenInterrupted::policy);
        said.or(session).or(self.config.policy).unwrap_or(usual)
    }

    /// The permission mode: the option, the configuration, `ask`.
    ///
    /// # Errors
    /// When the configuration names one that does not exist.
    pub fn mode(&self, args: &AgentArgs) -> Result<Mode, CliError> {
        if let Some(permission) = args.permission {
            return Ok(permission.mode());
        }
        let Some(name) = &self.config.permission else { return Ok(Mode::Ask) };
        Mode::parse(name).ok_or_else(|| {
            CliError::usage(format!("The configuration's permission `{name}` is not one."))
                .next("It is read-only, ask, edits or all.")
        })
    }
}

/// The directory of a session is not there any more.
#[must_use]
pub fn gone(id: &SessionId, cwd: &std::path::Path) -> CliError {
    let shown = cwd.display().to_string();
    CliError::failed(format!("The session's directory {shown} is gone."))
        .because("its tools would work there")
        .next(format!(
            "`segno relocate {id} DIR` says where the project is now; `segno show {id}` reads it."
        ))
}

/// The directory that a session works in: where it was last, or where it was moved to. A session that lost
/// its beginning before anything was said works anywhere.
#[must_use]
pub fn directory_of(session: &Session<Log>) -> Option<PathBuf> {
    let now = &session.state().in_force;
    let environment = now.environment.as_ref();
    let last = environment.map(|e| e.project.as_ref().map_or(&e.cwd, |p| &p.cwd));
    let project = now.project.as_ref().unwrap_or(&session.header().project);
    let cwd = last.filter(|cwd| !cwd.is_empty()).unwrap_or(&project.cwd);
    (!cwd.is_empty()).then(|| PathBuf::from(cwd))
}

/// What is around a directory now.
fn around(home: &Home, cwd: &Path, project: &Project) -> Surroundings {
    let user = home.instructions();
    let instructions = instructions::load(cwd, project.root.as_deref(), Some(&user));
    let cwd = cwd.display().to_string();
    Surroundings {
        system: instructions::system_prompt(&cwd, &instructions::platform(), &instructions),
        instructions,
        cwd,
        git: project.git.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn world(limits: Limits) -> World {
    World {
        clock: Arc::new(SystemClock),
        sleep: Arc::new(|ms| Box::pin(tokio::time::sleep(Duration::from_millis(ms)))),
        owner: this_process(&SystemClock),
        retry: RetryPolicy::default(),
        limits,
    }
}

/// The command that resumes a session, from any shell of this user.
#[must_use]
pub fn resume_command(home: &Home, id: &SessionId, model: &ModelChoice) -> String {
    let mut command = format!("{} resume {id}", home.command());
    if let Some(url) = model.base_url.as_deref().filter(|url| !model::is_loopback(url)) {
        command.push_str(&format!(" --base-url {}", quoted(url)));
    }
    command
}

/// What a script gets for a run's end.
#[must_use]
pub fn exit_of(end: RunEnd) -> ExitCode {
    match end {
        RunEnd::Completed => ExitCode::Done,
        RunEnd::Failed | RunEnd::Exhausted => ExitCode::Failed,
        RunEnd::Stopped => ExitCode::Stopped,
        RunEnd::Suspended => ExitCode::Suspended,
    }
}

/// Interrupted work, as a script is told that cannot ask anybody.
#[must_use]
pub fn undecided(home: &Home, id: &SessionId, policy: Policy) -> CliError {
    let program = home.command();
    CliError::new(ExitCode::Undecided, "The session's work was interrupted.")
        .because(match policy {
            Policy::Ask => "its policy is to ask, and nobody can be asked here",
            _ => "nobody said that it may go on by itself",
        })
        .next(format!(
            "`{program} resume {id} --policy auto` goes on with it; `{program} resume {id} -- PROMPT` says something new."
        ))
}

/// Damage, as a script is told.
#[must_use]
pub fn damaged_error(id: &SessionId, findings: &[Finding]) -> CliError {
    let mut found: Vec<String> =
        findings.iter().map(|f| format!("{} ({})", f.sentence, place(f))).collect();
    found.dedup();
    // What a session is cannot be decided by a person: there is no repair for a header.
    let repair = if findings.iter().any(|f| f.code == "header-damaged") {
        String::new()
    } else {
        format!("`segno repair {id}` shows what is wrong and settles it; ")
    };
    CliError::new(
        ExitCode::Damaged,
        "The session is damaged where the next request needs it, and needs a decision.",
    )
    .because(found.join("\n"))
    .next(format!("{repair}`segno fork {id}` goes on in a copy; `segno show {id}` reads it."))
}
