//! Subagents: sessions that a call of another session starts, and that later calls continue.
//!
//! Responsible for: who a child can be (`role`), understanding a call (`task`), launching, continuing and
//! running a child (`family`), which one a log means by an id (`kin`), those that work beside their parent's turns (`beside`), what is left of one that died (`traces`), and what the parent is told
//! (`told`). Must not: name a concrete store or provider, or grant a child what its parent may not do.

mod asker;
mod beside;
mod family;
mod grounds;
mod kin;
mod launch;
pub mod role;
pub(crate) mod task;
mod told;
mod traces;

pub(crate) use asker::ChildAsker;
pub(crate) use beside::Beside;
pub use beside::MAX_BESIDE;
pub use family::Family;
pub use kin::{ancestry, stand_ins};
pub use role::{Role, Roles, ToolSet};
pub use task::MAX_TURNS;

use crate::project::Project;
use crate::tool::Toolbox;
use crate::worktree::{Planned, Worktrees};
use crate::{Surroundings, World};
use segno_model::SessionId;
use segno_model::compaction::{Settings, Window};
use segno_model::record::{Action, LaunchRecord, ModelRef};
use segno_model::store::{LogOf, SessionStore};
use segno_runtime::{CallAt, InboxSource, Model, Progress, Stop, ToolOutput, ToolRun};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use task::Task;

/// A future behind a pointer: a child's tools are a parent's, so their types would contain themselves.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Shows what a child in the background does.
pub(crate) type Shown = Box<dyn Fn(Progress) + Send + Sync>;

/// The result of a call whose arguments make no sense; nothing was looked at.
pub(crate) fn rejected(at: CallAt, sentence: &str) -> ToolOutput {
    told::rejected(at, None, "arguments", sentence)
}

pub(crate) use told::{not_started, started};

/// What a family needs of the world around it.
pub trait Nursery: Send + Sync {
    /// Where sessions are.
    type Store: SessionStore + 'static;
    /// What answers.
    type Model: Model;

    /// The store.
    fn store(&self) -> &Self::Store;

    /// The model, ready to be called; `base_url` is where, when that is not the provider's own address.
    ///
    /// # Errors
    /// A sentence that says why it cannot be called.
    fn connect(&self, model: &ModelRef, base_url: Option<&str>) -> Result<Self::Model, String>;

    /// Where the files of a child's supervised commands are.
    fn actions(&self, log: &LogOf<Self::Store>) -> Option<PathBuf>;

    /// Where others' inputs to a child are looked for while it waits for its model, a tool or a person; at each of
    /// its steps they are looked for anyway.
    fn inbox(&self, _child: &SessionId) -> Option<Arc<dyn InboxSource>> {
        None
    }

    /// What is around the parent's working directory now.
    fn surroundings(&self) -> Surroundings;

    /// What is around another directory of the same project now.
    fn surroundings_at(&self, cwd: &Path, project: &Project) -> Surroundings {
        let (cwd, git) = (cwd.display().to_string(), project.git.clone());
        Surroundings { cwd, git, ..self.surroundings() }
    }

    /// Where subagents' worktrees are made; none when there are to be none.
    fn worktrees(&self) -> Option<Worktrees> {
        None
    }

    /// Clock, timer, limits.
    fn world(&self) -> World;

    /// When a child's context is made smaller, and what is known of models' windows.
    fn compaction(&self) -> (Settings, BTreeMap<String, Window>) {
        (Settings::default(), BTreeMap::new())
    }
}

/// A call that may go ahead: what its intent names, and what it is then done with.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    /// The child.
    pub(crate) child: SessionId,
    /// The attempt ([`segno_model::child::attempt_id`]).
    pub(crate) attempt: String,
    pub(crate) at: CallAt,
    /// The child's launch; of a new one, as it will be written.
    pub(crate) launch: LaunchRecord,
    /// Whether the child is there already.
    pub(crate) resumed: bool,
    /// The child of a session that this one was forked from; the child here is a copy of it.
    pub(crate) copy_of: Option<SessionId>,
    /// The worktree of a new one that is to have one.
    pub(crate) planned: Option<Planned>,
    /// What has changed since its launch, by code.
    pub(crate) drift: Vec<String>,
    pub(crate) task: Task,
}

/// The subagents of one session, as its tools see them.
pub(crate) trait Subagents: Send + Sync {
    /// Who a child can be.
    fn roles(&self) -> &Roles;

    /// Checks everything that can be checked, and changes nothing. `Err` is the call's result.
    fn prepare<'a>(
        &'a self,
        tools: &'a Toolbox,
        task: Task,
        at: CallAt,
    ) -> Boxed<'a, Result<Prepared, ToolOutput>>;

    /// Launches or continues the child, and gives what this attempt came to.
    fn run<'a>(
        &'a self,
        tools: &'a Toolbox,
        prepared: Prepared,
        run: &'a ToolRun<'a>,
    ) -> Boxed<'a, ToolOutput>;

    /// The same without waiting: the child is there, or refused, when this returns, and the work that it gives
    /// comes to what [`Subagents::run`] does. `stop` ends it; `progress` is shown what it does.
    fn begin<'a>(
        self: Arc<Self>,
        tools: &'a Toolbox,
        prepared: Prepared,
        stop: Stop,
        progress: Shown,
    ) -> Boxed<'a, Result<Boxed<'static, ToolOutput>, ToolOutput>>;

    /// What became of one that worked beside its parent in a process that is gone; nothing as long as somebody
    /// works on it.
    fn end_of<'a>(&'a self, tools: &'a Toolbox, handle: &'a str) -> Boxed<'a, Option<ToolOutput>>;

    /// Finds out what became of a call whose result is missing; never runs a child.
    fn establish<'a>(&'a self, tools: &'a Toolbox, action: &'a Action) -> Boxed<'a, ToolOutput>;
}
