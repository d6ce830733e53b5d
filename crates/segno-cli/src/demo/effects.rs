//! The second half of the experiment: effects in the real world, a command and an edit, and a stop.
//!
//! Responsible for: killing the agent in the middle of each, and seeing what happened and what the model was
//! told. Must not: judge (that is `verdict`), or make anything happen in the place of the agent.

use super::show::Narrator;
use super::stage::{Died, Stage};
use crate::error::CliError;
use segno_model::SessionId;
use segno_model::record::Body;
use segno_testkit::scripted_model::demo::{ASK_PROMPT, COMMAND_PROMPT, EDIT_PROMPT};

/// What was seen of a command whose agent was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The agent that was killed.
    pub died: Died,
    /// What the command had written when it was over.
    pub journal: String,
    /// What the model said of it, from what it was told.
    pub answer: String,
    /// What the command had written after the next process had ended.
    pub journal_after: String,
}

/// What was seen of an edit whose agent was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The agent that was killed.
    pub died: Died,
    /// Whether the file holds the new content.
    pub made: bool,
    /// What the model said of it, from what it was told.
    pub answer: String,
}

/// What was seen of a command that the user stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The exit code of the agent that was stopped.
    pub code: Option<i32>,
    /// What the command had written then.
    pub journal: String,
    /// What the model said of it, from what it was told.
    pub answer: String,
    /// What the command had written after the next process had ended.
    pub journal_after: String,
}

/// A kill in the middle of a shell command. The command goes on without its agent.
pub(super) async fn command(
    stage: &mut Stage,
    tell: &mut Narrator<'_>,
) -> Result<Command, CliError> {
    tell.step("Process 6 runs a shell command, and is killed in the middle of it");
    let mut sixth = stage.start_working(COMMAND_PROMPT)?;
    tell.command(&sixth);
    stage.until(&mut sixth, |stage| stage.journal() == "begun\n").await?;
    let id = stage.newest().await?;
    let died = stage.kill(sixth).await?;
    tell.died(&died);
    tell.records(stage, &id).await?;
    tell.note("The command has written its first line and waits. Nobody is there who started it.");
    tell.step("The command goes on by itself, and ends");
    stage.let_go()?;
    stage.until_over(&id).await?;
    let journal = stage.journal();
    tell.file("journal.txt", &journal);
    tell.step("Process 7 finds out what became of it");
    let answer = ask(stage, tell, &id).await?;
    Ok(Command { died, journal, answer, journal_after: stage.journal() })
}

/// A kill in the middle of an edit.
pub(super) async fn edit(stage: &mut Stage, tell: &mut Narrator<'_>) -> Result<Edit, CliError> {
    tell.step("Process 8 changes a file, and is killed as soon as the intent is on disk");
    stage.write_notes()?;
    let before = stage.ids().await?;
    let mut eighth = stage.start_working(EDIT_PROMPT)?;
    tell.command(&eighth);
    let id = stage.until_recorded(&mut eighth, &before, |b| matches!(b, Body::Action(_))).await?;
    let died = stage.kill(eighth).await?;
    tell.died(&died);
    tell.records(stage, &id).await?;
    tell.step("Process 9 finds out whether it was made");
    let answer = ask(stage, tell, &id).await?;
    let made = stage.notes_are_changed();
    tell.note(if made {
        "notes.txt holds the new word."
    } else {
        "notes.txt holds the old word, and no trace of the attempt is left beside it."
    });
    Ok(Edit { died, made, answer })
}

/// The same command, stopped by the user.
pub(super) async fn stop(stage: &mut Stage, tell: &mut Narrator<'_>) -> Result<Stop, CliError> {
    tell.step("Process 10 runs the command again, and the user stops it with Ctrl-C");
    stage.clear_journal()?;
    let mut tenth = stage.start_working(COMMAND_PROMPT)?;
    tell.command(&tenth);
    stage.until(&mut tenth, |stage| stage.journal() == "begun\n").await?;
    let id = stage.newest().await?;
    let code = stage.interrupt(tenth).await?;
    tell.records(stage, &id).await?;
    let journal = stage.journal();
    stage.let_go()?;
    tell.step("Process 11 goes on; what was stopped stays stopped");
    let answer = ask(stage, tell, &id).await?;
    tell.file("journal.txt", &stage.journal());
    Ok(Stop { code, journal, answer, journal_after: stage.journal() })
}

async fn ask(
    stage: &mut Stage,
    tell: &mut Narrator<'_>,
    id: &SessionId,
) -> Result<String, CliError> {
    let ended = super::ask(stage, tell, id, ASK_PROMPT).await?;
    tell.records(stage, id).await?;
    Ok(ended.answer)
}
