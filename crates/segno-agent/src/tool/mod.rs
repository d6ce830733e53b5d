//! The agent's tools, behind the runtime's trait.
//!
//! Responsible for: understanding a call, judging it by the permissions, and running it. Must not: write
//! records, or talk to a person itself; an [`Asker`] does. Replay classes: `read`, `grep`, `find`, `ls`
//! and `todo` are `read`; `write` and `edit` are `verified`, with the facts in the intent's probe (large
//! files are `opaque`: what they held before is not kept);
//! `bash` is `supervised` where the session keeps files, and `opaque` otherwise; `task` is `keyed` by the
//! child's id.

mod bash;
mod change;
mod cut;
mod diff;
mod edit;
mod edits;
mod error;
mod external;
mod file_lock;
mod find;
mod grep;
mod ls;
mod reach;
mod read;
mod request;
mod restore;
mod supervised;
mod task;
mod todo;
mod walk;
mod workspace;
mod write;

pub use reach::Reach;
pub(crate) use reach::is_secret_name;
pub(crate) use restore::{EditFacts, Restoring};
pub use supervised::Supervision;
pub use workspace::Place;

use crate::mcp::{self, Servers};
use crate::permission::command::judge;
use crate::permission::{CommandWish, Decision, Mode, Offers, PrefixRule, Wish, refusal};
use crate::subagent::{ChildAsker, Family, Nursery, Role, ToolSet};
pub(crate) use change::Old;
use change::{Change, Temps};
pub(crate) use cut::cut_text;
use edits::Edits;
use error::ToolError;
pub(crate) use error::stop_text;
use external::External;
use file_lock::FileLocks;
pub(crate) use read::MAX_IMAGE;
use request::Request;
use segno_model::checkpoint::{Background, Checkpoint};
use segno_model::context::UNKNOWN_OUTCOME;
use segno_model::record::{Action, Outcome, RESTORE, ReplayClass, ToolCall};
use segno_runtime::{
    Answer, Begun, News, Settlement, StopKind, ToolOutput, ToolPlan, ToolRun, ToolSpec, Tools,
    Verdict,
};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use supervised::Commands;
pub(crate) use task::ChildTools;
use task::{Gate, Shared, Tasks};
use walk::Cancel;
use workspace::Workspace;

/// How much of a change a question shows.
const MAX_PREVIEW: usize = 8 << 10;

/// A permission question for a person.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The call that it is about.
    pub call: &'a ToolCall,
    /// What is about to happen; may hold anything that the model wrote, so it is made safe for display
    /// by whoever shows it.
    pub text: &'a str,
    /// What may be answered beyond `once`.
    pub offers: &'a Offers,
}

/// A person's answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// Yes, this time.
    Once,
    /// Yes, and what [`Offers::session`] says until the program ends.
    Session,
    /// Yes, and the rules in [`Offers::always`] from now on.
    Always,
    /// No.
    No {
        /// Why, for the model.
        reason: Option<String>,
    },
}

/// A future that an [`Asker`] gives.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// Somebody who can put questions to a person.
pub trait Asker: Send + Sync {
    /// Shows the question and waits for the answer.
    fn ask<'a>(&'a self, question: Question<'a>) -> Asking<'a>;

    /// Saves rules in the user's configuration; called once for each `always`.
    fn save(&self, rules: &[PrefixRule]);
}

/// What a [`Toolbox`] is made of.
pub struct ToolboxConfig {
    /// The session's id and the host that its intents name: by them the files are recognised that a dead
    /// process of the same session left beside those that it was changing.
    pub session: (String, String),
    /// The working directory.
    pub cwd: PathBuf,
    /// The project's root: changes within it are the project's. The working directory, when unknown.
    pub root: PathBuf,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// Segno's own data and configuration directories.
    pub own: Vec<PathBuf>,
    /// The permission mode.
    pub mode: Mode,
    /// The user's saved rules; never a repository's.
    pub rules: Vec<PrefixRule>,
    /// Variables that commands do not get to see, e.g. the providers' keys.
    pub hidden_env: Vec<String>,
    /// Where commands are supervised; none, and nobody can tell after a crash what became of one.
    pub supervision: Option<Supervision>,
    /// Where the locks of files that are changed are; the same directory for all who may change the same
    /// files. None, and only the check at the exchange keeps changes apart.
    pub locks: Option<PathBuf>,
    /// Servers whose tools are offered, too.
    pub servers: Option<Arc<Servers>>,
    /// Who asks; nobody in a run without a terminal, where what would ask is refused.
    pub asker: Option<Arc<dyn Asker>>,
}

/// The tools of one session.
pub struct Toolbox {
    workspace: Arc<Workspace>,
    hidden_env: Vec<String>,
    commands: Option<Commands>,
    gate: Gate,
    edits: Arc<Edits>,
    external: External,
    tasks: Tasks,
    /// The only tools that there are.
    only: ToolSet,
    shared: Shared,
}

type ToolCallKey = (String, String, String);

/// A call that was understood and looked at.
struct Examined {
    request: Request,
    wish: Wish,
    change: Option<Change>,
    /// Why an edit does not fit the file as it is now; an earlier call of the same reply may change
    /// that, so it is tried again when its turn comes.
    not_yet: Option<String>,
}

impl Toolbox {
    /// Makes the tools.
    #[must_use]
    pub fn new(config: ToolboxConfig) -> Self {
        let home = config.home.as_deref();
        let workspace = Workspace::new(&config.cwd, &config.root, home, &config.own);
        let (session, host) = config.session;
        let supervisor = config.supervision.as_ref().map(|s| s.supervisor.clone());
        let servers = config.servers.clone();
        let locks = config.locks.clone();
        let shared =
            Shared { supervisor, servers, asking: Arc::default(), host: host.clone(), locks };
        Self {
            workspace: Arc::new(workspace),
            hidden_env: config.hidden_env,
            commands: config.supervision.map(Commands::new),
            gate: Gate::new(config.mode, config.rules, config.asker),
            external: External::new(config.servers),
            edits: Arc::new(Edits::new(Temps::new(&session, &host), FileLocks::new(config.locks))),
            tasks: Tasks::default(),
            only: ToolSet::default(),
            shared,
        }
    }

    /// With a tool that gives tasks to the subagents of this session.
    #[must_use]
    pub fn with_subagents<N: Nursery + 'static>(self, family: Family<N>) -> Self {
        Self { tasks: Tasks::of(Arc::new(family)), ..self }
    }

    /// With a subagent's worktree as the project, which lies in Segno's own directory; it works where it did
    /// before.
    #[must_use]
    pub fn in_worktree(self, root: &Path) -> Self {
        let workspace = self.workspace.in_worktree(root, self.workspace.cwd());
        Self { workspace: Arc::new(workspace), ..self }
    }

    /// With these tools only.
    #[must_use]
    pub fn with_only(self, only: ToolSet) -> Self {
        Self { only, ..self }
    }

    /// A child's tools: those of this session that its role names, behind the same live gate, and without
    /// the one that starts subagents.
    pub(crate) fn for_child(&self, own: ChildTools<'_>) -> Self {
        let Shared { host, supervisor, servers, asking, locks } = &self.shared;
        let supervision = own.actions.zip(supervisor.clone());
        let supervision =
            supervision.map(|(actions, supervisor)| Supervision { actions, supervisor });
        let asker = self.gate.asker.clone().filter(|_| own.asks).map(|asker| -> Arc<dyn Asker> {
            Arc::new(ChildAsker::new(asker, &own.role.name, Arc::clone(asking)))
        });
        let (host, servers, asking) = (host.clone(), servers.clone(), Arc::clone(asking));
        let temps = Temps::new(own.session.as_str(), &host);
        Self {
            workspace: match &own.directories {
                Some(own) => Arc::new(self.workspace.in_worktree(&own.root, &own.cwd)),
                None => Arc::clone(&self.workspace),
            },
            hidden_env: self.hidden_env.clone(),
            commands: supervision.map(Commands::new),
            gate: Gate { asker, ..self.gate.clone() },
            external: External::new(servers.clone()),
            edits: Arc::new(Edits::new(temps, FileLocks::new(locks.clone()))),
            tasks: Tasks::default(),
            only: own.role.tools.clone(),
            shared: Shared {
                supervisor: supervisor.clone(),
                servers,
                asking,
                host,
                locks: locks.clone(),
            },
        }
    }

    /// The tools that a child with this role is offered.
    pub(crate) fn child_specs(&self, role: &Role) -> Vec<ToolSpec> {
        let mut specs = request::specs(self.commands.is_some());
        specs.extend(self.external.specs());
        specs.retain(|spec| role.has(&spec.name));
        specs
    }

    /// The working directory, links resolved.
    pub(crate) fn cwd(&self) -> &Path {
        self.workspace.cwd()
    }

    /// Whether there is a tool of this name here, as far as roles go.
    fn has(&self, name: &str) -> bool {
        self.only.has(name) && (name != task::NAME || self.tasks.is_there())
    }

    /// Somebody goes on in this process when a run has ended: it does not wait for subagents in the background.
    pub fn stay(&self) {
        self.tasks.set_stays(true);
    }

    /// How many subagents work in the background in this process.
    #[must_use]
    pub fn subagents_beside(&self) -> usize {
        self.tasks.beside().working()
    }

    /// The permission mode in force.
    #[must_use]
    pub fn mode(&self) -> Mode {
        *lock(&self.gate.mode)
    }

    /// Changes the permission mode; a person's word, never a record's.
    pub fn set_mode(&self, mode: Mode) {
        *lock(&self.gate.mode) = mode;
    }

    /// Understands a call and looks at what it is about; changes nothing.
    async fn examine(&self, call: &ToolCall) -> Result<Examined, ToolError> {
        let request = Request::parse(call)?;
        if !self.has(&call.name) {
            let name = &call.name;
            return Err(ToolError::Arguments(format!("there is no tool {name:?} for this agent")));
        }
        if matches!(&request, Request::Bash(args) if args.background) && self.commands.is_none() {
            let why = "commands cannot run in the background here; leave `background` out";
            return Err(ToolError::Refused(why.to_owned()));
        }
        if let Request::External(call) = &request {
            let wish = Wish::External(self.external.wish(call)?);
            return Ok(Examined { request, wish, change: None, not_yet: None });
        }
        let workspace = Arc::clone(&self.workspace);
        blocking(move || {
            let (change, not_yet) = match (plan(&workspace, &request), &request) {
                (Ok(change), _) => (change, None),
                (Err(error @ (ToolError::Refused(_) | ToolError::Io { .. })), Request::Edit(_)) => {
                    (None, Some(error.to_string()))
                }
                (Err(error), _) => return Err(error),
            };
            let wish = wish(&workspace, &request)?;
            Ok(Examined { request, wish, change, not_yet })
        })
        .await
    }

    fn verdict(&self, call: &ToolCall, examined: &Examined) -> Verdict {
        let plan = self.tool_plan(call, examined);
        let mode = self.mode();
        let memory = lock(&self.gate.memory);
        match memory.decide(mode, &examined.wish) {
            Decision::Allow => Verdict::Run(plan),
            Decision::Ask if self.gate.asker.is_some() => {
                Verdict::Ask { question: self.question(examined), plan }
            }
            Decision::Ask => {
                let refused = ToolOutput::denied(refusal(mode, &examined.wish, &memory));
                Verdict::NobodyToAsk { plan, refused }
            }
            Decision::Refuse => {
                Verdict::Refuse(ToolOutput::denied(refusal(mode, &examined.wish, &memory)))
            }
        }
    }

    fn tool_plan(&self, call: &ToolCall, examined: &Examined) -> ToolPlan {
        if matches!(examined.request, Request::Task(_)) {
            return task::plan();
        }
        let class = match &examined.request {
            Request::Bash(_) if self.commands.is_some() => ReplayClass::Supervised,
            Request::Bash(_) => ReplayClass::Opaque,
            Request::Background(args) if args.stop => ReplayClass::Opaque,
            Request::Write(_) | Request::Edit(_) => ReplayClass::Verified,
            Request::External(call) => self.external.class(call),
            _ => ReplayClass::Read,
        };
        let Wish::Write(path, _) = &examined.wish else { return ToolPlan::new(class) };
        self.edits.judged(call, path, examined.change.as_ref());
        ToolPlan { subject: Some(change::subject(path)), ..ToolPlan::new(class) }
    }

    /// Makes what the intent of a supervised command names.
    async fn prepare_command(
        &self,
        call: &ToolCall,
        args: &bash::Args,
        plan: ToolPlan,
    ) -> Result<ToolPlan, ToolError> {
        let Some(commands) = &self.commands else { return Ok(plan) };
        let made = commands.prepare(key(call), &self.workspace, &self.hidden_env, args).await?;
        let Some(probe) = made else {
            return Ok(ToolPlan { class: ReplayClass::Opaque, ..plan });
        };
        let probe = serde_json::value::to_raw_value(&probe)
            .map_err(|e| ToolError::Refused(e.to_string()))?;
        Ok(ToolPlan { probe: Some(probe), ..plan })
    }

    fn question(&self, examined: &Examined) -> String {
        if matches!(examined.request, Request::Task(_)) {
            let cwd = self.workspace.cwd().display();
            return format!(
                "Make a git worktree of {cwd} for a subagent, with a branch of its own"
            );
        }
        match &examined.wish {
            Wish::Command(command) => {
                let outside = command.outside.iter();
                let outside = outside
                    .map(|path| format!("it reads outside of the project: {}", path.display()));
                let doubts = command.judgement.doubts.iter().cloned();
                let why: String = doubts.chain(outside).map(|d| format!("\n({d})")).collect();
                format!("Run: {}{why}", command.text)
            }
            Wish::Write(path, place) => {
                let not_yet = examined.not_yet.clone().unwrap_or_default();
                let mut preview = examined.change.as_ref().map_or(not_yet, Change::preview);
                if preview.len() > MAX_PREVIEW {
                    preview.truncate(preview.floor_char_boundary(MAX_PREVIEW));
                    preview.push_str("\n…");
                }
                let place = match place {
                    Place::Inside => "",
                    Place::Outside => " (outside of the project)",
                    Place::Guarded => " (a file that programs trust)",
                    Place::Own => " (Segno's own)",
                };
                format!("Change {}{place}:\n{preview}", self.workspace.show(path))
            }
            Wish::Read(path, reach) => {
                let shown = self.workspace.show(path);
                match reach {
                    Reach::Secret => format!("Read {shown}, where credentials may be"),
                    _ => format!("Read {shown}, outside of the project"),
                }
            }
            Wish::External(wish) => {
                let end = wish.arguments.floor_char_boundary(MAX_PREVIEW);
                let arguments = wish.arguments.get(..end).unwrap_or_default();
                format!("Call {} with {arguments}", wish.shown)
            }
            Wish::Nothing => String::new(),
        }
    }

    async fn answer(&self, call: &ToolCall, question: &str) -> Result<Answer, ToolError> {
        let examined = self.examine(call).await?;
        let offers = lock(&self.gate.memory).offers(&examined.wish);
        let reply = match &self.gate.asker {
            Some(asker) => asker.ask(Question { call, text: question, offers: &offers }).await,
            None => Reply::No { reason: None },
        };
        let answer =
            |allowed, scope: &str, reason| Answer { allowed, scope: scope.to_owned(), reason };
        Ok(match reply {
            Reply::Always if !offers.always.is_empty() => {
                let rules = lock(&self.gate.memory).remember_always(&examined.wish);
                if let Some(asker) = &self.gate.asker {
                    asker.save(&rules);
                }
                answer(true, "always", None)
            }
            Reply::Session if offers.session.is_some() => {
                lock(&self.gate.memory).remember_session(&examined.wish);
                answer(true, "session", None)
            }
            // What was not offered counts for this time only.
            Reply::Once | Reply::Session | Reply::Always => answer(true, "once", None),
            Reply::No { reason } => answer(false, "once", reason),
        })
    }

    async fn execute(&self, call: &ToolCall, run: &ToolRun<'_>) -> Result<ToolOutput, ToolError> {
        let request = Request::parse(call)?;
        if let Some(kind) = run.stop.kind() {
            self.discard(call).await;
            return Err(ToolError::NotStarted(kind));
        }
        match (&request, &self.commands) {
            (Request::Bash(args), Some(commands)) => {
                return match commands.take(&key(call)) {
                    Some(dir) => commands.run(&dir, args, &self.hidden_env, run).await,
                    None => bash::run(&self.workspace, &self.hidden_env, args, run).await,
                };
            }
            (Request::Bash(args), None) => {
                return bash::run(&self.workspace, &self.hidden_env, args, run).await;
            }
            (Request::External(call), _) => return Ok(self.external.run(call, &run.stop).await),
            (Request::Task(_), _) => {
                let ran = self.tasks.run(self, call, run).await;
                let nothing = || ToolError::Refused("nothing was prepared for it".to_owned());
                return ran.ok_or_else(nothing);
            }
            (Request::Background(args), Some(commands)) => {
                if let Some(output) = self.tasks.look_at(args, &run.stop).await {
                    return Ok(output);
                }
                let mut output = commands.background(args, &run.stop).await?;
                if args.handle.is_none() {
                    output.content.extend(self.tasks.list());
                }
                return Ok(output);
            }
            _ => {}
        }
        let workspace = Arc::clone(&self.workspace);
        let cancel = Cancel::default();
        let seen = cancel.clone();
        let (call, edits) = (call.clone(), Arc::clone(&self.edits));
        let work = blocking(move || match &request {
            Request::Write(_) | Request::Edit(_) => edits.carry_out(&call),
            _ => look(&workspace, request, &seen),
        });
        tokio::pin!(work);
        tokio::select! {
            output = &mut work => output,
            kind = run.stop.stopped() => {
                cancel.cancel(kind);
                // A change that has begun is finished; a search ends at its next file.
                work.await
            }
        }
    }
}

impl Tools for Toolbox {
    fn specs(&self) -> Vec<ToolSpec> {
        let mut specs = request::specs(self.commands.is_some());
        specs.extend(self.tasks.spec());
        specs.extend(self.external.specs());
        specs.retain(|spec| self.has(&spec.name));
        specs
    }

    async fn judge(&self, call: &ToolCall) -> Verdict {
        match self.examine(call).await {
            Ok(examined) => self.verdict(call, &examined),
            Err(error) => Verdict::Refuse(error.output(&self.workspace)),
        }
    }

    async fn ask(&self, call: &ToolCall, question: &str) -> Answer {
        self.answer(call, question).await.unwrap_or_else(|error| Answer {
            allowed: false,
            scope: "once".to_owned(),
            reason: Some(error.to_string()),
        })
    }

    async fn prepare(&self, call: &ToolCall, given: ToolPlan) -> Result<ToolPlan, ToolOutput> {
        let prepared = match Request::parse(call) {
            Ok(request @ (Request::Write(_) | Request::Edit(_))) => {
                let (edits, workspace) = (Arc::clone(&self.edits), Arc::clone(&self.workspace));
                let call = call.clone();
                match blocking(move || edits.prepare(&call, &request, &workspace, given)).await {
                    Ok(prepared) => return prepared,
                    Err(error) => Err(error),
                }
            }
            Ok(Request::External(call)) => return Ok(self.external.prepare(&call, given)),
            Ok(Request::Task(args)) => return self.tasks.prepare(self, call, &args, given).await,
            Ok(Request::Bash(args)) => self.prepare_command(call, &args, given).await,
            _ => return Ok(given),
        };
        prepared.map_err(|error| error.output(&self.workspace))
    }

    async fn discard(&self, call: &ToolCall) {
        if let Some(dir) = self.commands.as_ref().and_then(|commands| commands.take(&key(call))) {
            // What stays is removed with what is recorded.
            let _ = dir.remove();
        }
        self.external.discard(call);
        self.tasks.discard(call);
        let (edits, call) = (Arc::clone(&self.edits), call.clone());
        let discarded = tokio::task::spawn_blocking(move || edits.discard(&call));
        let _ = discarded.await;
    }

    async fn establish(&self, begun: Begun<'_>) -> Settlement {
        let Begun { action, here, .. } = begun;
        match (action.tool.as_str(), &self.commands) {
            ("write" | "edit" | RESTORE, _) => {
                Settlement::Told(self.edits.establish(&begun, &self.workspace))
            }
            ("bash", Some(commands)) if action.class == ReplayClass::Supervised => {
                commands.establish(action, here).await
            }
            (task::NAME, _) if self.tasks.is_there() => {
                let told = self.tasks.establish(self, action).await;
                Settlement::Told(told.unwrap_or_else(unknown))
            }
            (name, _) if mcp::is_external(name) => {
                Settlement::Told(self.external.establish(&begun).await)
            }
            _ => Settlement::Told(unknown()),
        }
    }

    async fn settled(&self, open: &Checkpoint) {
        if let Some(commands) = &self.commands {
            commands.tidy(open).await;
        }
        let edits = Arc::clone(&self.edits);
        let settled = tokio::task::spawn_blocking(move || edits.settled());
        let _ = settled.await;
    }

    async fn reattach(&self, action: &Action, run: ToolRun<'_>) -> ToolOutput {
        let attached = match &self.commands {
            Some(commands) => commands.reattach(action, &run).await,
            None => Err(ToolError::Unsure(UNKNOWN_OUTCOME.to_owned())),
        };
        attached.unwrap_or_else(|error| error.output(&self.workspace))
    }

    async fn news(&self, open: &[Background]) -> Vec<News> {
        let (children, others) = split(open);
        let mut news = self.tasks.news(self, &children).await;
        if let Some(commands) = &self.commands {
            news.extend(commands.news(&others).await);
        }
        news
    }

    fn awaits(&self, open: &[Background]) -> bool {
        self.tasks.awaits(&split(open).0)
    }

    async fn awaited(&self, open: &[Background]) {
        self.tasks.awaited(&split(open).0).await;
    }

    async fn paused(&self) -> String {
        self.tasks.beside().paused().await
    }

    async fn halt(&self, kind: StopKind) {
        self.tasks.halt(kind).await;
    }

    async fn run(&self, call: &ToolCall, run: ToolRun<'_>) -> ToolOutput {
        self.execute(call, &run).await.unwrap_or_else(|error| error.output(&self.workspace))
    }
}

/// The subagents among what goes on in the background, and the commands.
fn split(open: &[Background]) -> (Vec<&Background>, Vec<Background>) {
    let (children, others): (Vec<_>, Vec<_>) = open.iter().partition(|b| b.tool == task::NAME);
    (children, others.into_iter().cloned().collect())
}

/// What is told of an effect that nobody knows anything about.
fn unknown() -> ToolOutput {
    ToolOutput::new(UNKNOWN_OUTCOME, true, Outcome::Unknown)
}

/// Runs what changes nothing.
fn look(workspace: &Workspace, request: Request, cancel: &Cancel) -> Result<ToolOutput, ToolError> {
    match request {
        Request::Read(args) => read::run(workspace, &args, cancel),
        Request::Grep(args) => grep::run(workspace, &args, cancel),
        Request::Find(args) => find::run(workspace, &args, cancel),
        Request::Ls(args) => ls::run(workspace, &args),
        Request::Todo(args) => todo::run(args),
        Request::Background(_) => {
            Err(ToolError::Refused("there are no background commands here".to_owned()))
        }
        Request::Write(_)
        | Request::Edit(_)
        | Request::Bash(_)
        | Request::Task(_)
        | Request::External(_) => {
            Err(ToolError::Refused("this tool cannot be run here".to_owned()))
        }
    }
}

/// The change that a call would make to a file, if it is such a call.
fn plan(workspace: &Workspace, request: &Request) -> Result<Option<Change>, ToolError> {
    match request {
        Request::Write(args) => write::plan(workspace, args).map(Some),
        Request::Edit(args) => edit::plan(workspace, args).map(Some),
        _ => Ok(None),
    }
}

fn wish(workspace: &Workspace, request: &Request) -> Result<Wish, ToolError> {
    let path = match request {
        Request::Bash(args) => return command_wish(workspace, &args.command),
        Request::Read(args) => Some(args.path.as_str()),
        Request::Grep(grep::Args { path, .. })
        | Request::Find(find::Args { path, .. })
        | Request::Ls(ls::Args { path, .. }) => path.as_deref(),
        Request::Write(write::Args { path, .. }) | Request::Edit(edit::Args { path, .. }) => {
            let path = workspace.resolve(path)?;
            let place = workspace.place(&path);
            return Ok(Wish::Write(path, place));
        }
        // A branch is a change of the project.
        Request::Task(args) if args.wants_worktree() => {
            let path = workspace.cwd().to_owned();
            let place = workspace.place(&path);
            return Ok(Wish::Write(path, place));
        }
        Request::Todo(_) | Request::Background(_) | Request::Task(_) | Request::External(_) => {
            return Ok(Wish::Nothing);
        }
    };
    let path = workspace.resolve(path.unwrap_or("."))?;
    let reach = workspace.reach(&path);
    Ok(Wish::Read(path, reach))
}

fn command_wish(workspace: &Workspace, command: &str) -> Result<Wish, ToolError> {
    let mut judgement = judge(command);
    let reads = workspace.reads_of(&judgement);
    for sentence in reads.secret {
        if !judgement.doubts.contains(&sentence) {
            judgement.doubts.push(sentence);
        }
    }
    let mut writes = Vec::new();
    for given in &judgement.writes {
        let path = workspace.resolve(given)?;
        let place = workspace.place(&path);
        writes.push((path, place));
    }
    let (text, outside) = (command.to_owned(), reads.outside);
    Ok(Wish::Command(CommandWish { text, judgement, writes, outside }))
}

/// Work that may wait for a disk, away from the threads that serve everything else.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ToolError::Unsure(format!("the tool broke down: {error}"))),
    }
}

fn key(call: &ToolCall) -> ToolCallKey {
    (call.id.clone(), call.name.clone(), call.arguments.clone())
}

/// A poisoned lock's data is still whole: every change under these locks is one assignment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
