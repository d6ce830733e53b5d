//! What subagents need of this machine.
//!
//! Responsible for: putting store, providers and surroundings together for the children of a session, as the
//! engine does for the session itself. Must not: decide anything about a child.

use super::advice::{self, Refused};
use super::{Engine, ModelChoice, around, world};
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::stores::Log;
use segno_agent::permission::Mode;
use segno_agent::project::Project;
use segno_agent::provider::{Credentials, Provider};
use segno_agent::subagent::{Family, Nursery, Role, Roles};
use segno_agent::worktree::Worktrees;
use segno_agent::{Surroundings, World};
use segno_model::SessionId;
use segno_model::child::drift::refusals;
use segno_model::child::{parent_of, parse_launch};
use segno_model::compaction::{Settings, Window};
use segno_model::record::ModelRef;
use segno_model::store::SessionStore as _;
use segno_runtime::{InboxSource, Limits, StoreInbox};
use segno_store::{FileStore, RealDisk};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where an engine stands.
pub struct Standpoint {
    cwd: PathBuf,
    roles_at: Option<PathBuf>,
}

/// A session's children on this machine.
pub struct Children {
    files: FileStore<RealDisk>,
    credentials: Credentials,
    surroundings: Surroundings,
    home: Home,
    limits: Limits,
    compaction: (Settings, BTreeMap<String, Window>),
}

impl Nursery for Children {
    type Store = FileStore<RealDisk>;
    type Model = Provider;

    fn store(&self) -> &FileStore<RealDisk> {
        &self.files
    }

    fn connect(&self, model: &ModelRef, base_url: Option<&str>) -> Result<Provider, String> {
        let base_url = base_url.map(str::to_owned);
        let choice = ModelChoice { model: model.clone(), base_url, chosen: true };
        choice.connect(&self.credentials).map_err(|error| error.cause.unwrap_or(error.sentence))
    }

    fn actions(&self, log: &Log) -> Option<PathBuf> {
        Some(log.actions_dir())
    }

    fn inbox(&self, child: &SessionId) -> Option<Arc<dyn InboxSource>> {
        Some(Arc::new(StoreInbox { store: self.files.clone(), id: child.clone() }))
    }

    fn surroundings(&self) -> Surroundings {
        self.surroundings.clone()
    }

    fn surroundings_at(&self, cwd: &Path, project: &Project) -> Surroundings {
        around(&self.home, cwd, project)
    }

    fn worktrees(&self) -> Option<Worktrees> {
        Some(self.home.worktrees())
    }

    fn world(&self) -> World {
        world(self.limits.clone())
    }

    fn compaction(&self) -> (Settings, BTreeMap<String, Window>) {
        self.compaction.clone()
    }
}

impl Engine {
    /// The roles that a subagent can have here.
    #[must_use]
    pub fn roles(&self) -> Roles {
        let here = self.project.root.as_deref().unwrap_or(&self.cwd);
        let root = self.roles_at.as_deref().unwrap_or(here);
        let user = self.stores.home.config.with_file_name("agents");
        Roles::load(root, Some(&user))
    }

    /// The subagents of a session.
    #[must_use]
    pub fn family(&self, parent: &SessionId) -> Family<Children> {
        let children = Children {
            files: self.stores.files.clone(),
            credentials: self.credentials.clone(),
            surroundings: self.surroundings(),
            home: self.stores.home.clone(),
            limits: self.limits(),
            compaction: (self.config.compaction.settings(), self.config.windows()),
        };
        Family::new(children, parent.clone(), self.roles())
    }

    /// Goes to a child's directory and compares it with its launch; nothing for a session that is none.
    /// `allow` is the person's word for what may be allowed, `base_url` the address that they gave. Gives what was allowed, by code.
    ///
    /// # Errors
    /// When it must not go on; all reasons at once, and nothing was changed.
    pub async fn review(
        &mut self,
        id: &SessionId,
        allow: bool,
        base_url: Option<&str>,
    ) -> Result<Vec<String>, CliError> {
        self.roles_at = None;
        // Only children lie below another session; others are not read twice.
        if !self.stores.files.is_child(id)? {
            return Ok(Vec::new());
        }
        let found = self.stores.files.read(id).await?;
        let (header, moved) = (found.header, found.state.in_force.project);
        let Some(parent) = parent_of(&header) else { return Ok(Vec::new()) };
        let cwd = header.launch.as_ref().and_then(|l| l.get("cwd")?.as_str().map(PathBuf::from));
        let in_worktree = header.launch.as_ref().is_some_and(|l| l.get("worktree").is_some());
        let launch = header.launch.as_ref().and_then(|launch| parse_launch(launch).ok());
        let moved = moved.filter(|_| !in_worktree).map(|project| PathBuf::from(project.cwd));
        if let Some(cwd) = moved.or(cwd).filter(|cwd| cwd.is_dir() && *cwd != self.cwd) {
            self.move_to(cwd).await;
        }
        if in_worktree {
            self.roles_at = Some(self.place_of(&parent).await?);
        }
        let unused = self.stores.home.data.join("actions");
        let tools = self.toolbox(&parent, unused, Mode::ReadOnly, None);
        let reviewed = self.family(&parent).review(&tools, id, (allow, base_url)).await;
        let drift = reviewed.map_err(|(codes, sentence)| {
            let worktree = launch.as_ref().and_then(|launch| launch.worktree.as_ref());
            let next = advice::next(&codes, &Refused { child: id, parent: &parent, worktree });
            CliError::new(ExitCode::Failed, "The subagent is not what it was.")
                .because(format!("{sentence} ({codes})"))
                .next(next)
        })?;
        let refused = refusals(&drift, false);
        Ok(refused.iter().map(|drift| drift.code.to_owned()).collect())
    }

    /// Where the engine stands, for [`Engine::stand_at`].
    #[must_use]
    pub fn standpoint(&self) -> Standpoint {
        Standpoint { cwd: self.cwd.clone(), roles_at: self.roles_at.clone() }
    }

    /// Goes back to where it stood: what was to be taken up was not.
    pub async fn stand_at(&mut self, standpoint: Standpoint) {
        self.roles_at = standpoint.roles_at;
        self.move_to(standpoint.cwd).await;
    }

    /// The project that a session works in: a child's worktree may have other roles in it, or none.
    async fn place_of(&self, session: &SessionId) -> Result<PathBuf, CliError> {
        let found = self.stores.files.read(session).await?;
        let project = found.state.in_force.project.as_ref().unwrap_or(&found.header.project);
        let cwd = PathBuf::from(&project.cwd);
        Ok(Project::look(&cwd).await.root.unwrap_or(cwd))
    }

    /// The role of a session that is a child; when that is not there any more, one with the tools that it had.
    pub(super) fn role_of(&self, launch: &serde_json::Value) -> Role {
        let launch = parse_launch(launch).ok();
        let named = launch.as_ref().and_then(|l| self.roles().get(&l.role.name).cloned());
        let had = launch.map(|launch| launch.tools).unwrap_or_default();
        named.unwrap_or_else(|| Role::instead_of(&had))
    }
}
