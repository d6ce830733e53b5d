//! The experiment of `segno demo`: an agent dies, and another process remembers.
//!
//! Responsible for: the steps, and telling them to somebody who has never seen Segno. What they prove is
//! judged in `verdict`. Must not: do anything in the place of the agent. Its processes are this very
//! program, started as a person would start it; only the model is a stand-in, and it knows no code.

mod effects;
mod show;
mod stage;
mod subagent;
mod verdict;

pub use effects::{Command, Edit, Stop};
pub use stage::{Died, Ended, Process, Stage};
pub use subagent::Subagent;
pub use verdict::{Check, Evidence, Resumed, judge};

use crate::error::CliError;
use crate::terminal::{Screen, Text, Tone};
use segno_model::SessionId;
use segno_model::record::{Body, Message};
use segno_testkit::scripted_model::Turn;
use segno_testkit::scripted_model::demo::{FIRST_PROMPT, SECOND_PROMPT, WAIT_PROMPT, WAITING};
use show::Narrator;

/// Carries the experiment out and shows it. True when every check holds.
///
/// # Errors
/// When a process could not be started, or ended before its time.
pub async fn experiment(stage: &mut Stage, screen: &mut Screen) -> Result<bool, CliError> {
    let mut tell = Narrator::new(screen);
    tell.opening(stage);
    let session = first_process(stage, &mut tell).await?;
    let resumed = second_process(stage, &mut tell, &session).await?;
    let broken_off = killed_while_streaming(stage, &mut tell, &session).await?;
    let control = without_the_result(stage, &mut tell, &session.id).await?;
    let command = effects::command(stage, &mut tell).await?;
    let edit = effects::edit(stage, &mut tell).await?;
    let stop = effects::stop(stage, &mut tell).await?;
    let subagent = subagent::subagent(stage, &mut tell).await?;
    let evidence = Evidence {
        code: stage.code.clone(),
        first: session.died,
        roles_before: session.roles,
        resumed,
        mid_stream: broken_off.0,
        broken_off: broken_off.1,
        control,
        command,
        edit,
        stop,
        subagent,
        violations: stage.violations(),
    };
    let checks = judge(&evidence);
    tell.verdict(&checks);
    Ok(checks.iter().all(|check| check.holds))
}

/// What process 1 left.
struct Left {
    id: SessionId,
    died: Died,
    roles: Vec<String>,
}

async fn first_process(stage: &mut Stage, tell: &mut Narrator<'_>) -> Result<Left, CliError> {
    tell.step("Process 1 reads the code with a tool");
    let mut first = stage.start(FIRST_PROMPT, None, true)?;
    tell.command(&first);
    let id = stage.until_run_ended(&mut first).await?;
    tell.records(stage, &id).await?;
    tell.step("Process 1 is killed with SIGKILL");
    tell.note("Its answer is on disk, and nobody has seen it: its output was held back until now.");
    let died = stage.kill(first).await?;
    tell.died(&died);
    let roles = stage.roles(&id).await?;
    tell.step("The file is deleted");
    stage.delete_code_file()?;
    tell.note("From here on the code is nowhere but in the session's log.");
    Ok(Left { id, died, roles })
}

async fn second_process(
    stage: &mut Stage,
    tell: &mut Narrator<'_>,
    session: &Left,
) -> Result<Resumed, CliError> {
    tell.step("Process 2 resumes the session and is asked for the code");
    let ended = ask(stage, tell, &session.id, SECOND_PROMPT).await?;
    tell.records(stage, &session.id).await?;
    resumed(stage, &session.id, ended).await
}

/// The same once more, with a kill in the middle of a reply.
async fn killed_while_streaming(
    stage: &mut Stage,
    tell: &mut Narrator<'_>,
    session: &Left,
) -> Result<(Died, Resumed), CliError> {
    tell.step("Process 3 is killed in the middle of the model's reply");
    let mut third = stage.start(WAIT_PROMPT, Some(&session.id), false)?;
    tell.command(&third);
    stage.until_hanging(&mut third).await?;
    stage.until(&mut third, |stage| stage.has_draft(&session.id, WAITING)).await?;
    let died = stage.kill(third).await?;
    tell.died(&died);
    tell.records(stage, &session.id).await?;
    tell.note("The prompt is kept, and so is what had been streamed of the reply.");
    tell.step("Process 4 settles what was left open, and still knows the code");
    let ended = ask(stage, tell, &session.id, SECOND_PROMPT).await?;
    tell.records(stage, &session.id).await?;
    Ok((died, resumed(stage, &session.id, ended).await?))
}

/// The control: a copy that ends before the tool's result.
async fn without_the_result(
    stage: &mut Stage,
    tell: &mut Narrator<'_>,
    id: &SessionId,
) -> Result<Resumed, CliError> {
    tell.step("The control: a copy of the session that ends before the tool's result");
    let records = stage.records(id).await?;
    let result = records.iter().find(
        |record| matches!(record.body(), Body::Message(m) if matches!(&**m, Message::Tool(_))),
    );
    let result = result.ok_or_else(no_result)?;
    let copy = stage.fork_before(id, result.seq()).await?;
    tell.records(stage, &copy).await?;
    tell.step("Process 5 resumes the copy, and must not know the code");
    stage.replace_server()?;
    tell.note("It asks a fresh model server, which has never seen a request.");
    let ended = ask(stage, tell, &copy, SECOND_PROMPT).await?;
    tell.records(stage, &copy).await?;
    resumed(stage, &copy, ended).await
}

async fn ask(
    stage: &mut Stage,
    tell: &mut Narrator<'_>,
    id: &SessionId,
    prompt: &str,
) -> Result<Ended, CliError> {
    let mut process = stage.start(prompt, Some(id), false)?;
    tell.command(&process);
    let ended = stage.until_ended(&mut process).await?;
    tell.line(Text::default().with(Tone::Dim, "  answer   ").with(Tone::Strong, &ended.answer));
    Ok(ended)
}

async fn resumed(stage: &Stage, id: &SessionId, ended: Ended) -> Result<Resumed, CliError> {
    let request = stage.server.requests().pop();
    let sent = request.and_then(|request| request.seen);
    let body = sent.as_ref().map(|seen| seen.turns.iter().map(Turn::text));
    Ok(Resumed {
        pid: ended.pid,
        answer: ended.answer,
        roles: stage.roles(id).await?,
        code_was_sent: body.is_some_and(|mut turns| turns.any(|text| text.contains(&stage.code))),
        file_was_there: stage.code_file_exists(),
    })
}

fn no_result() -> CliError {
    CliError::failed("The log holds no tool result.")
        .next("`segno demo --keep` leaves everything behind, to look at.")
}
