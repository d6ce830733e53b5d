//! `background`: looking at commands that run in the background, and stopping them.
//!
//! Responsible for: the session's own commands, by their handles. Must not: start one; `bash` does.

use super::super::error::ToolError;
use super::{Commands, told};
use crate::supervisor::{ActionDir, Standing, judge};
use segno_runtime::ToolOutput;
use serde::Deserialize;
use std::time::Duration;

/// How long can be waited for an end, in seconds.
pub(crate) const MAX_WAIT: f64 = 600.0;
/// How often an end is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long a stop may take that the supervisor carries out, in looks.
const STOP_LOOKS: u32 = 100;

/// The arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(crate) handle: Option<String>,
    #[serde(default)]
    pub(crate) stop: bool,
    pub(crate) wait: Option<f64>,
}

impl Args {
    /// Checks what the types cannot.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.handle.is_none() && (self.stop || self.wait.is_some()) {
            return Err(ToolError::Arguments("`stop` and `wait` need a `handle`".to_owned()));
        }
        match self.wait {
            Some(t) if !(t > 0.0 && t <= MAX_WAIT) => Err(ToolError::Arguments(format!(
                "`wait` must be more than 0 and at most {MAX_WAIT} seconds"
            ))),
            _ => Ok(()),
        }
    }
}

impl Commands {
    /// Lists commands, or shows, awaits or stops one.
    pub(crate) async fn background(
        &self,
        args: &Args,
        stop: &segno_runtime::Stop,
    ) -> Result<ToolOutput, ToolError> {
        let Some(handle) = &args.handle else { return Ok(self.list()) };
        let dir = ActionDir::named(&self.supervision.actions, handle);
        let dir = dir.filter(|dir| dir.path().is_dir()).ok_or_else(|| {
            ToolError::Refused(format!("there is no background command {handle:?} (any more)"))
        })?;
        if args.stop && standing(&dir) == Standing::Running {
            dir.ask_to_stop().map_err(|e| ToolError::io(dir.path(), e))?;
        }
        let looks = if args.stop {
            STOP_LOOKS
        } else {
            let seconds = Duration::from_secs_f64(args.wait.unwrap_or(0.0));
            u32::try_from(seconds.as_millis() / LOOK.as_millis()).unwrap_or(u32::MAX)
        };
        for _ in 0..looks {
            if standing(&dir) != Standing::Running || stop.is_stopped() {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = stop.stopped() => {}
            }
        }
        Ok(told::so_far(&dir, standing(&dir)))
    }

    fn list(&self) -> ToolOutput {
        let all = ActionDir::all(&self.supervision.actions).into_iter();
        let lines = all.filter_map(|dir| {
            let request = dir.request().ok()?;
            let how = match standing(&dir) {
                Standing::Running => "runs".to_owned(),
                _ => match dir.status() {
                    Ok(Some(status)) => status.end.to_string(),
                    _ => "ended, nobody knows how".to_owned(),
                },
            };
            let command: String = request.command.chars().take(200).collect();
            (request.background || how == "runs").then(|| format!("{}  {how}  {command}", dir.id()))
        });
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() {
            return ToolOutput::done("There are no background commands.");
        }
        ToolOutput::done(lines.join("\n"))
    }
}

fn standing(dir: &ActionDir) -> Standing {
    judge(&dir.look(true))
}
