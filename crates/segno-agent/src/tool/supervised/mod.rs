//! `bash` through a supervisor: the command outlives this process, and its end can be established.
//!
//! Responsible for: from a call to a supervisor and back to a result, in this process, in a later one
//! (section 6 of the design), and for commands in the background. Must not: decide whether a command may
//! run, or touch a command's processes: the supervisor does.

pub(crate) mod background;
mod follow;
mod told;

use super::bash::{self, Args};
use super::error::{ToolError, stop_text};
use super::workspace::Workspace;
use super::{ToolCallKey, blocking, lock};
use crate::supervisor::{
    ActionDir, Facts, LOST_CLAIM, MARK, NOTHING_STARTED, Request, Standing, judge,
};
use follow::{Ended, Seen, follow};
use segno_model::checkpoint::{Background, Checkpoint};
use segno_model::record::{Action, Outcome};
use segno_model::store::Owner;
use segno_runtime::{News, Settlement, StopKind, ToolOutput, ToolRun};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;
use tokio::process::{Child, Command};

/// How often it is looked whether a command in the background has begun.
const POLL: Duration = Duration::from_millis(5);

/// Where supervised commands keep their files, and what supervises them.
#[derive(Debug, Clone)]
pub struct Supervision {
    /// The session's directory for them. It is made when a command needs it; what it lies in must be
    /// there by then, durably.
    pub actions: PathBuf,
    /// A program and its first arguments that call [`crate::supervisor::supervise`] with the directory
    /// that follows as the last one.
    pub supervisor: Vec<OsString>,
}

/// The commands of one session.
#[derive(Debug)]
pub(crate) struct Commands {
    supervision: Supervision,
    /// Made for calls that have not run yet, in the order of preparing.
    prepared: Mutex<HashMap<ToolCallKey, VecDeque<ActionDir>>>,
}

/// What an intent says about a supervised command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Probe {
    /// The action's id: the name of its directory.
    pub(crate) action: String,
}

impl Commands {
    pub(crate) fn new(supervision: Supervision) -> Self {
        Self { supervision, prepared: Mutex::default() }
    }

    /// Makes the directory that the intent names. None where the working directory's name cannot be
    /// written down; such a command is not supervised.
    pub(crate) async fn prepare(
        &self,
        key: ToolCallKey,
        workspace: &Workspace,
        hidden_env: &[String],
        args: &Args,
    ) -> Result<Option<Probe>, ToolError> {
        let Some(cwd) = workspace.cwd().to_str() else { return Ok(None) };
        let request = Request {
            command: args.command.clone(),
            shell: bash::shell_program().display().to_string(),
            cwd: cwd.to_owned(),
            env: bash::environment().into_iter().collect(),
            unset: hidden_env.to_vec(),
            timeout_ms: args.timeout().as_millis().try_into().unwrap_or(u64::MAX),
            background: args.background,
        };
        let actions = self.supervision.actions.clone();
        let made = blocking(move || {
            ActionDir::create(&actions, &request).map_err(|e| {
                ToolError::Refused(format!(
                    "the command was not started, because its record could not be made in {}: {e}",
                    actions.display()
                ))
            })
        });
        let dir = made.await?;
        let probe = Probe { action: dir.id().to_owned() };
        lock(&self.prepared).entry(key).or_default().push_back(dir);
        Ok(Some(probe))
    }

    /// What was made for a call, if it was.
    pub(crate) fn take(&self, key: &ToolCallKey) -> Option<ActionDir> {
        let mut prepared = lock(&self.prepared);
        let dirs = prepared.get_mut(key)?;
        let dir = dirs.pop_front();
        if dirs.is_empty() {
            prepared.remove(key);
        }
        dir
    }

    /// Runs a prepared command to its end, its deadline or the user's stop, or until it has begun in the
    /// background.
    pub(crate) async fn run(
        &self,
        dir: &ActionDir,
        args: &Args,
        hidden_env: &[String],
        run: &ToolRun<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let child = match self.start(dir, hidden_env) {
            Ok(child) => child,
            Err(why) => {
                let standing = find_out(dir, true).await?;
                return Ok(told::after(dir, standing, Some(&why.to_string())));
            }
        };
        if args.background {
            return self.begin(dir, child).await;
        }
        follow_and_tell(dir, Ended::of(child), true, run).await
    }

    fn start(&self, dir: &ActionDir, hidden_env: &[String]) -> std::io::Result<Child> {
        let Some((program, first)) = self.supervision.supervisor.split_first() else {
            return Err(std::io::Error::other("no supervisor is set"));
        };
        let mut command = Command::new(program);
        command
            .args(first)
            .arg(dir.path())
            .env(MARK, dir.id())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        for name in hidden_env {
            command.env_remove(name);
        }
        command.spawn()
    }

    /// Waits until a supervisor has begun with a command; nobody waits for that one's end.
    async fn begin(&self, dir: &ActionDir, mut child: Child) -> Result<ToolOutput, ToolError> {
        loop {
            if let Ok(Some(_)) = child.try_wait() {
                let why = why_not_started(Ended::of(child)).await;
                let standing = find_out(dir, true).await?;
                return Ok(told::after(dir, standing, why.as_deref()));
            }
            if dir.has_output() {
                return Ok(told::begun(dir));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn dir_of(&self, action: &Action) -> Option<ActionDir> {
        let probe: Probe = serde_json::from_str(action.probe.as_ref()?.get()).ok()?;
        ActionDir::named(&self.supervision.actions, &probe.action)
    }

    /// What became of a command that another process began.
    pub(crate) async fn establish(&self, action: &Action, owner: &Owner) -> Settlement {
        let here = action.host == owner.host && action.boot == owner.boot && !owner.boot.is_empty();
        let Some(dir) = self.dir_of(action) else { return Settlement::Told(told::unnamed()) };
        match find_out(&dir, here).await {
            Ok(Standing::Running) => Settlement::Running(told::running(&dir)),
            Ok(standing) => Settlement::Told(told::after(&dir, standing, None)),
            Err(_) => Settlement::Told(told::unnamed()),
        }
    }

    /// Waits for the end of a command of which [`Commands::establish`] said that it runs.
    pub(crate) async fn reattach(
        &self,
        action: &Action,
        run: &ToolRun<'_>,
    ) -> Result<ToolOutput, ToolError> {
        let Some(dir) = self.dir_of(action) else { return Ok(told::unnamed()) };
        follow_and_tell(&dir, Ended::Lock(dir.clone()), false, run).await
    }

    /// Which of these commands have ended, or are out of sight for good.
    pub(crate) async fn news(&self, open: &[Background]) -> Vec<News> {
        let mut news = Vec::new();
        for Background { handle, .. } in open {
            let Some(dir) = ActionDir::named(&self.supervision.actions, handle) else {
                news.push(News::new(handle, told::unknown_handle(handle)));
                continue;
            };
            // Its supervisor had the claim before it became a background command, or there is nothing.
            let standing = judge(&Facts { here: true, ..dir.look(true) });
            if standing != Standing::Running {
                news.push(News::new(handle, told::ended(&dir, standing)));
            }
        }
        news
    }

    /// Removes what is recorded for good, but never what still runs or has no result.
    pub(crate) async fn tidy(&self, open: &Checkpoint) {
        let actions = open.open_actions.iter().filter_map(|open| self.dir_of(&open.action));
        let mut keep: HashSet<String> = actions.map(|dir| dir.id().to_owned()).collect();
        keep.extend(open.open_background.iter().map(|background| background.handle.clone()));
        keep.extend(lock(&self.prepared).values().flatten().map(|dir| dir.id().to_owned()));
        let actions = self.supervision.actions.clone();
        let removed = blocking(move || {
            let all = ActionDir::all(&actions).into_iter();
            for dir in all.filter(|dir| !keep.contains(dir.id()) && !dir.is_kept()) {
                if !dir.is_locked() {
                    // What could not be removed is tried again next time.
                    let _ = dir.remove();
                }
            }
            Ok(())
        });
        let _ = removed.await;
    }
}

/// Follows a command and says how it ended.
async fn follow_and_tell(
    dir: &ActionDir,
    mut ended: Ended,
    show_all: bool,
    run: &ToolRun<'_>,
) -> Result<ToolOutput, ToolError> {
    let (collected, seen) = follow(dir, &mut ended, show_all, run).await;
    match seen {
        Seen::Over => {
            let why = why_not_started(ended).await;
            let standing = find_out(dir, true).await?;
            Ok(told::result(dir, standing, collected, why.as_deref()))
        }
        Seen::Deaf => Ok(told::deaf(dir, collected)),
        Seen::Left => {
            let text = format!("{}; the command goes on", stop_text(StopKind::Shutdown));
            let output = ToolOutput::new(text, true, Outcome::Unknown);
            Ok(ToolOutput { unfinished: true, ..output })
        }
    }
}

/// What a supervisor says that has ended without a command; none when it had one.
async fn why_not_started(ended: Ended) -> Option<String> {
    let (code, said) = ended.last_words().await?;
    match u8::try_from(code).ok()? {
        LOST_CLAIM => Some("somebody else made sure that it does not start".to_owned()),
        NOTHING_STARTED => Some(said),
        _ => None,
    }
}

async fn find_out(dir: &ActionDir, here: bool) -> Result<Standing, ToolError> {
    let dir = dir.clone();
    blocking(move || Ok(judge(&dir.find_out(here)))).await
}
