//! The last part of the experiment: a subagent whose process is killed, and that is continued.
//!
//! Responsible for: the kill in the middle of its work, and seeing what is left of it. Must not: judge (that is
//! `verdict`), or go on with it in the place of the agent.

use super::show::Narrator;
use super::stage::{Died, Stage};
use crate::error::CliError;
use segno_model::record::{AttemptStatus, Body, Message};
use segno_testkit::scripted_model::demo::{GO_ON_PROMPT, TASK_PROMPT};

/// What was seen of a subagent whose process was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subagent {
    /// The process that was killed while it worked.
    pub died: Died,
    /// What it had been told to read.
    pub sign: String,
    /// How many subagents there were in the end.
    pub children: usize,
    /// How often it was given a prompt.
    pub prompts: usize,
    /// What its parent was told of it, in order.
    pub statuses: Vec<AttemptStatus>,
    /// What the model of the next process said.
    pub answer: String,
    /// Whether the file was still there then.
    pub file_was_there: bool,
}

/// A kill while a subagent works; the next process goes on with it.
pub(super) async fn subagent(
    stage: &mut Stage,
    tell: &mut Narrator<'_>,
) -> Result<Subagent, CliError> {
    tell.step("Process 12 gives a task to a subagent, and is killed while that works");
    let sign = stage.write_sign()?;
    let mut twelfth = stage.start_working(TASK_PROMPT)?;
    tell.command(&twelfth);
    stage.until_hanging(&mut twelfth).await?;
    let id = stage.newest().await?;
    let died = stage.kill(twelfth).await?;
    tell.died(&died);
    tell.records(stage, &id).await?;
    let children = stage.children(&id)?;
    tell.note("The subagent has a log of its own, which ends in the middle of its work:");
    for child in &children {
        tell.records(stage, child).await?;
    }
    stage.delete_sign()?;
    tell.note("sign.txt is deleted: what was in it is nowhere but in the subagent's log.");
    tell.step("Process 13 is told that it was interrupted, and goes on with it");
    let ended = super::ask(stage, tell, &id, GO_ON_PROMPT).await?;
    tell.records(stage, &id).await?;
    let children = stage.children(&id)?;
    let mut prompts = 0;
    for child in &children {
        tell.records(stage, child).await?;
        prompts += stage.records(child).await?.iter().filter(|r| is_prompt(r.body())).count();
    }
    let records = stage.records(&id).await?;
    let statuses = segno_model::child::attempts(&records).iter().map(|a| a.status).collect();
    let (answer, file_was_there) = (ended.answer, stage.sign_exists());
    let children = children.len();
    Ok(Subagent { died, sign, children, prompts, statuses, answer, file_was_there })
}

fn is_prompt(body: &Body) -> bool {
    let Body::Message(message) = body else { return false };
    matches!(&**message, Message::User(user) if user.notice.is_none())
}
