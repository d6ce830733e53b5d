//! A call of the `task` tool.
//!
//! Responsible for: its arguments and what is wrong with them. Must not: look anything up.

use segno_model::SessionId;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// Model calls that one attempt may make.
pub const MAX_TURNS: u64 = 200;

/// The longest deadline, in seconds.
const MAX_TIMEOUT: f64 = 86_400.0;

/// What is asked of a subagent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Task {
    pub(crate) who: Who,
    pub(crate) prompt: String,
    pub(crate) timeout: Option<Duration>,
    /// Whether the call returns before it has ended.
    pub(crate) background: bool,
    /// Whether a new one works in a worktree of its own.
    pub(crate) worktree: bool,
}

/// Of which one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Who {
    /// A new one with this role.
    New(String),
    /// The one that is there.
    Child(SessionId),
}

/// The arguments as the model writes them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    agent: Option<String>,
    prompt: Option<String>,
    resume: Option<String>,
    timeout: Option<f64>,
    worktree: Option<Value>,
    background: Option<bool>,
}

impl Args {
    /// Whether they ask for a worktree, whatever else they say.
    pub(crate) fn wants_worktree(&self) -> bool {
        self.worktree == Some(Value::Bool(true))
    }

    /// What they mean.
    pub(crate) fn task(&self) -> Result<Task, String> {
        let prompt = self.prompt.as_deref().unwrap_or_default();
        if prompt.trim().is_empty() {
            return Err("`prompt` is empty: a subagent sees nothing but it".to_owned());
        }
        let who = match (&self.resume, &self.agent) {
            (Some(_), Some(_)) => {
                return Err(
                    "with `resume` the subagent is who it was: leave `agent` out".to_owned()
                );
            }
            (Some(_), None) if self.worktree.is_some() => {
                return Err("with `resume` it works where it did: leave `worktree` out".to_owned());
            }
            (Some(id), None) => Who::Child(child(id)?),
            (None, agent) => Who::New(role(agent.as_deref())?),
        };
        let worktree = match &self.worktree {
            None => false,
            Some(Value::Bool(wanted)) => *wanted,
            Some(other) => return Err(format!("`worktree` is {other}: it is true or false")),
        };
        let (prompt, timeout) = (prompt.to_owned(), timeout(self.timeout)?);
        let background = self.background.unwrap_or_default();
        Ok(Task { who, prompt, timeout, background, worktree })
    }
}

fn child(id: &str) -> Result<SessionId, String> {
    SessionId::parse(id.trim()).map_err(|_| {
        format!("`resume` is {id:?}: it takes a subagent's whole id, as its result gave it")
    })
}

fn role(agent: Option<&str>) -> Result<String, String> {
    match agent.map(str::trim) {
        Some("") => Err("`agent` is empty: name a role, or leave it out".to_owned()),
        Some(name) => Ok(name.to_owned()),
        None => Ok(super::role::GENERAL.to_owned()),
    }
}

fn timeout(seconds: Option<f64>) -> Result<Option<Duration>, String> {
    match seconds {
        None => Ok(None),
        Some(seconds) if (1.0..=MAX_TIMEOUT).contains(&seconds) => {
            Ok(Some(Duration::from_secs_f64(seconds)))
        }
        Some(seconds) => {
            Err(format!("`timeout` is {seconds}: it is in seconds, from 1 to {MAX_TIMEOUT}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task(json: &Value) -> Result<Task, String> {
        serde_json::from_value::<Args>(json.clone()).map_err(|e| e.to_string())?.task()
    }

    const ID: &str = "0195f3a0-0000-8000-8000-000000000001";

    /// Each is refused before anything is looked at. Covers: RS3.
    #[test]
    fn arguments_that_make_no_sense_are_refused() {
        let cases = [
            (json!({"prompt": " "}), "`prompt` is empty"),
            (json!({"agent": "scout"}), "`prompt` is empty"),
            (json!({"resume": "", "prompt": "p"}), "`resume` is \"\""),
            (json!({"resume": "latest", "prompt": "p"}), "`resume` is \"latest\""),
            (json!({"resume": "../x", "prompt": "p"}), "`resume` is \"../x\""),
            (json!({"resume": ID, "agent": "scout", "prompt": "p"}), "leave `agent` out"),
            (json!({"resume": ID, "worktree": false, "prompt": "p"}), "leave `worktree` out"),
            (json!({"resume": ID, "prompt": ""}), "`prompt` is empty"),
            (json!({"agent": " ", "prompt": "p"}), "`agent` is empty"),
            (json!({"prompt": "p", "timeout": 0.5}), "`timeout` is 0.5"),
            (json!({"prompt": "p", "timeout": 1e9}), "`timeout` is"),
            (json!({"prompt": "p", "worktree": "yes"}), "`worktree` is \"yes\""),
            (json!({"prompt": "p", "background": "yes"}), "expected a boolean"),
            (json!({"prompt": "p", "colour": "green"}), "unknown field"),
        ];
        for (given, expected) in cases {
            let refused = task(&given).expect_err("refused");
            assert!(refused.contains(expected), "{given}: {refused}");
        }
    }

    #[test]
    fn what_is_understood() {
        assert!(task(&json!({"prompt": "look", "worktree": true})).unwrap().worktree);
        let new = task(&json!({"agent": " scout ", "prompt": "look", "timeout": 90})).unwrap();
        assert_eq!(
            (new.who, new.timeout),
            (Who::New("scout".into()), Some(Duration::from_secs(90)))
        );
        let general =
            task(&json!({"prompt": "look", "worktree": false, "background": false})).unwrap();
        assert_eq!((general.who, general.timeout), (Who::New("general".into()), None));
        assert!(!general.background);
        assert!(task(&json!({"prompt": "look", "background": true})).unwrap().background);
        let id = SessionId::parse(ID).unwrap();
        assert_eq!(
            task(&json!({"resume": format!(" {ID}\n"), "prompt": "go on"})).unwrap().who,
            Who::Child(id)
        );
    }
}
