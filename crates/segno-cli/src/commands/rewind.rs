//! `segno rewind`: back to a record, with the files on request.
//!
//! Responsible for: finding the session, going back, and telling what came of it. Must not: decide what
//! is gone back over, or touch a file itself.

use super::Workplace;
use crate::args::RewindArgs;
use crate::engine::{Engine, call_line};
use crate::error::{CliError, ExitCode};
use crate::history::History;
use crate::home::Home;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_agent::permission::Mode;
use segno_agent::rewind::{self, Effect, Fate, FileFate, Files, Plan};
use segno_model::{Seq, SessionId};
use segno_runtime::Session;
use segno_store::SystemClock;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// Goes back.
///
/// # Errors
/// When the session is not found, held or damaged, when there is no such record, or when nothing can be
/// written. A file that had to be left as it is is no error, but gives the exit code of one.
pub async fn rewind(
    args: &RewindArgs,
    home: Home,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let engine = Engine::load(home).await?;
    let id = engine.stores.find(&args.session, &Workplace::cwd()?).await?;
    let opened = engine.stores.open(&id).await?;
    let session = Session::resume(opened, Arc::new(SystemClock));
    let mut agent = engine.agent(session, Mode::ReadOnly, None);
    let plan = plan(&engine, &id, args.seq).await?;
    let files = match (args.files, args.dry_run) {
        (_, true) => Files::Look,
        (true, false) => Files::Bring,
        (false, false) => Files::Leave,
    };
    let here = engine.here();
    let fates = rewind::rewind(&mut agent.session, &agent.tools, &here, &plan, files).await?;
    let told = Told { plan: &plan, fates: &fates, files, cwd: &engine.cwd };
    if args.json {
        screen.json(&told.json(&id));
    } else {
        told.show(screen);
    }
    Ok(told.exit())
}

/// What going back to a record comes to.
///
/// # Errors
/// When there is no such record.
pub async fn plan(engine: &Engine, id: &SessionId, seq: Seq) -> Result<Plan, CliError> {
    let history = History::read(&engine.stores, id).await?;
    let tip = history.state.tip().map(|pos| pos.seq);
    Plan::of(&history.records, tip, seq).map_err(|error| {
        CliError::usage("There is no way back to that.")
            .because(error)
            .next(format!("`segno show {id} --tree` shows the numbers of the messages."))
    })
}

/// What is told of a rewind.
#[derive(Debug)]
pub struct Told<'a> {
    /// What was gone back over.
    pub plan: &'a Plan,
    /// What became of the files.
    pub fates: &'a [FileFate],
    /// What was to be done about them.
    pub files: Files,
    /// Paths in it are shown relative to it.
    pub cwd: &'a Path,
}

impl Told<'_> {
    fn exit(&self) -> ExitCode {
        match self.fates.iter().any(|fate| fate.outcome == Fate::Refused) {
            true => ExitCode::Failed,
            false => ExitCode::Done,
        }
    }

    fn json(&self, id: &SessionId) -> serde_json::Value {
        let left = || {
            let paths = self.plan.files.iter().map(|file| file.path.display().to_string());
            paths.map(|path| json!({"path": path, "outcome": "left", "why": null}))
        };
        let told = || {
            self.fates.iter().map(|fate| {
                json!({
                    "path": fate.path.display().to_string(),
                    "outcome": fate.outcome,
                    "why": fate.why,
                })
            })
        };
        let files: Vec<_> =
            if self.files == Files::Leave { left().collect() } else { told().collect() };
        let effect = |effect: &Effect| {
            json!({
                "seq": effect.seq,
                "tool": effect.tool,
                "arguments": effect.call.as_ref().map(|call| &call.arguments),
                "outcome": effect.outcome,
            })
        };
        json!({
            "version": 1,
            "id": id,
            "tip": self.plan.to.map(|pos| pos.seq),
            "dry_run": self.files == Files::Look,
            "files": files,
            "not_undone": self.plan.not_undone.iter().map(effect).collect::<Vec<_>>(),
        })
    }

    /// Prints it.
    pub fn show(&self, screen: &mut Screen) {
        let place = match self.plan.to {
            Some(pos) => format!("record {}", pos.seq),
            None => "the beginning".to_owned(),
        };
        let head = match self.files {
            Files::Look => format!("It would go on from {place}. Nothing was changed."),
            _ => format!("Going on from {place}."),
        };
        screen.line(Text::line(Tone::Good, &head));
        for fate in self.fates {
            screen.line(self.file_line(fate));
        }
        if self.files == Files::Leave && !self.plan.files.is_empty() {
            let names: Vec<String> =
                self.plan.files.iter().map(|file| self.name(&file.path)).collect();
            let said = format!("Files stay as they are: {}", names.join(", "));
            screen.line(Text::line(Tone::Dim, &said));
        }
        if self.plan.not_undone.is_empty() {
            return;
        }
        screen.line(Text::line(Tone::Warning, "Not undone:"));
        for effect in &self.plan.not_undone {
            let number = format!("  #{} ", effect.seq);
            let mut line = Text::default().with(Tone::Dim, &number);
            match &effect.call {
                Some(call) => line.append(call_line(call)),
                None => line = line.with(Tone::Plain, &clean::line(&effect.tool)),
            }
            screen.line(line);
        }
    }

    fn file_line(&self, fate: &FileFate) -> Text {
        let look = self.files == Files::Look;
        let (tone, said) = match (fate.outcome, look) {
            (Fate::Restored, false) => (Tone::Good, "brought back"),
            (Fate::Restored, true) => (Tone::Plain, "would be brought back"),
            (Fate::Removed, false) => (Tone::Good, "removed; what it held is kept"),
            (Fate::Removed, true) => (Tone::Plain, "would be removed; what it holds is kept"),
            (Fate::Already, _) => (Tone::Dim, "is as it was"),
            (Fate::Refused, _) => (Tone::Warning, "left as it is"),
        };
        let why = fate.why.as_ref().map(|why| format!(" ({})", clean::line(why)));
        let line = format!("  {} {said}{}", self.name(&fate.path), why.unwrap_or_default());
        Text::default().with(tone, &line)
    }

    fn name(&self, path: &Path) -> String {
        let shown = path.strip_prefix(self.cwd).unwrap_or(path);
        clean::line(&shown.display().to_string())
    }
}
