//! `todo`: the list of what is to be done, which is recorded and survives summaries.
//!
//! Responsible for: taking the whole new list. Must not: keep one itself; the log does.

use super::error::ToolError;
use segno_model::record::{StepStatus, Task, TaskStep};
use segno_runtime::ToolOutput;
use serde::Deserialize;
use std::fmt::Write;

/// How many steps a list may have.
const MAX_STEPS: usize = 100;

/// The arguments: the whole new list.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    #[serde(default)]
    pub(crate) goal: String,
    #[serde(default)]
    pub(crate) constraints: Vec<String>,
    pub(crate) steps: Vec<Step>,
}

/// A step as the model gives it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) text: String,
    pub(crate) status: StepStatus,
}

/// Takes the list.
pub(crate) fn run(args: Args) -> Result<ToolOutput, ToolError> {
    if args.steps.len() > MAX_STEPS {
        return Err(ToolError::Arguments(format!("a list has at most {MAX_STEPS} steps")));
    }
    if args.steps.iter().any(|s| s.text.trim().is_empty()) {
        return Err(ToolError::Arguments("a step needs a text".to_owned()));
    }
    let steps = args.steps.into_iter().map(|s| TaskStep { text: s.text, status: s.status });
    let task = Task { goal: args.goal, constraints: args.constraints, steps: steps.collect() };
    let mut output = ToolOutput::done(show(&task));
    output.task = Some(task);
    Ok(output)
}

fn show(task: &Task) -> String {
    let mut out = String::new();
    if !task.goal.is_empty() {
        let _ = writeln!(out, "{}", task.goal);
    }
    for step in &task.steps {
        let mark = match step.status {
            StepStatus::Pending => ' ',
            StepStatus::InProgress => '>',
            StepStatus::Done => 'x',
            StepStatus::Dropped => '-',
        };
        let _ = writeln!(out, "[{mark}] {}", step.text);
    }
    if out.is_empty() { "the list is empty".to_owned() } else { out }
}
