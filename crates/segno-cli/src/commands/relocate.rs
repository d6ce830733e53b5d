//! `segno relocate`: the project's directory has moved.
//!
//! Responsible for: appending the facts of the new place. Must not: move anything, or change what the
//! session's first line says.

use super::Workplace;
use crate::args::{RelocateArgs, quoted};
use crate::error::{CliError, ExitCode};
use crate::others::{Other, Target};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_agent::project::Project;
use segno_model::Body;
use segno_model::batch::Draft;
use segno_model::child::parse_launch;
use segno_model::record::Environment;
use segno_model::store::{Level, SessionLog as _};
use segno_store::convert;

/// Records where a session's project is now.
///
/// # Errors
/// When the session is not found or cannot be written, the directory is not there, or the session is a subagent whose
/// place is its worktree.
pub async fn relocate(
    args: &RelocateArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let id = match place.stores.find_any(&args.session, &place.cwd).await? {
        Target::Own(id) => id,
        Target::Other(session) => return Err(not_ours(&session)),
    };
    let directory =
        args.directory.as_ref().map_or_else(|| place.cwd.clone(), |dir| place.cwd.join(dir));
    if !directory.is_dir() {
        return Err(CliError::new(
            ExitCode::NotFound,
            format!("There is no directory {}.", directory.display()),
        )
        .next("Name the directory in which the project is now."));
    }
    let project = Project::look(&directory).await;
    let mut log = place.stores.open(&id).await?.log;
    let launch = log.header().launch.as_ref().and_then(|launch| parse_launch(launch).ok());
    if let Some(worktree) = launch.and_then(|launch| launch.worktree) {
        let text =
            format!("{id} is a subagent with a worktree of its own, and works nowhere else.");
        return Err(CliError::failed(&text)
            .because(format!("its worktree is {}", clean::line(&worktree.path)))
            .next(format!("`segno resume {id}` says what is wrong with it, and what helps.")));
    }
    let known =
        log.state().in_force.project.clone().unwrap_or_else(|| log.header().project.clone());
    if known == project.facts {
        let text = format!("{id} is known to be in {} already.", directory.display());
        screen.line(Text::line(Tone::Plain, &text));
        return Ok(ExitCode::Done);
    }
    let environment = Environment {
        cwd: project.facts.cwd.clone(),
        git: project.git,
        project: Some(project.facts),
        ..log.state().in_force.environment.clone().unwrap_or_else(|| Environment {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Environment::default()
        })
    };
    let body = Body::Environment(Box::new(environment));
    log.append(vec![Draft::new(place.now(), body)], Level::Synced).await?;
    let text = format!("{id} now belongs to {}.", directory.display());
    screen.line(Text::line(Tone::Plain, &text));
    Ok(ExitCode::Done)
}

/// Another agent looks for its sessions under the directory in which they ran.
fn not_ours(session: &Other) -> CliError {
    let (word, agent) = (quoted(&session.word()), session.row.agent);
    let error = CliError::usage(format!("{} is a session of {agent}.", session.word()))
        .because("other agents' sessions are only read; what they say of their directory stays");
    let here = format!("segno resume {word} --here");
    if convert::TARGETS.contains(&agent) {
        let copy = format!("segno export {word} --format {} --install", agent.id());
        return error.next(format!(
            "In the new directory, once the old one is gone: {copy} (a copy that {agent} finds there), or {here}"
        ));
    }
    error.next(format!("In the new directory: {here}"))
}
