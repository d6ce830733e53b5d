//! `segno send SESSION TEXT`: say something to a session from outside.
//!
//! Responsible for: admitting it durably, saying how far it has come, and starting a process when nobody
//! has the session. Must not: wait for the model.

use super::Workplace;
use crate::args::SendArgs;
use crate::engine::aside;
use crate::error::{CliError, ExitCode, capitalised};
use crate::home::Home;
use crate::inputs;
use crate::stores::Stores;
use crate::terminal::{Screen, Text, Tone};
use segno_model::inbox::admission::Admission;
use segno_model::inbox::{InputBody, NewInput, Stage, Words};
use segno_model::store::Owner;

/// Sends it.
///
/// # Errors
/// No such session, a conflict with what was sent under the id before, a store that cannot be written, or
/// nobody who could run it; what was admitted then waits.
pub async fn send(args: &SendArgs, home: Home, screen: &mut Screen) -> Result<ExitCode, CliError> {
    let stores = Stores::new(home.clone());
    let id = stores.find(&args.session, &Workplace::cwd()?).await?;
    let words = Words::text(text(&args.text)?);
    let body = if args.queue { InputBody::Queue(words) } else { InputBody::Steer(words) };
    let input = NewInput::new(args.id.clone().unwrap_or_else(inputs::new_id), body);
    let stage = match inputs::admit(&stores, &id, &input).await? {
        Admission::Admitted => None,
        Admission::Stands(stage) | Admission::Conflict(stage) => Some(stage),
    };
    let holder = stores.files.holder(&id)?;
    let waits = matches!(stage, None | Some(Stage::Pending));
    let start = waits && holder.is_none() && !args.no_run;
    let let_go = match &holder {
        Some(owner) => inputs::is_asked_to_let_go(&stores, &id, owner).await?,
        None => false,
    };
    let told = Told { input: &input, stage, holder, let_go, started: start };
    if start {
        let deliver = [input.id.clone()];
        inputs::start_worker(&home, &id, &deliver).await.map_err(|error| {
            let step = error.next_step.clone();
            error.next(format!(
                "{step}\nThe input is kept as {}: `segno inbox {id}` lists what waits.",
                input.id
            ))
        })?;
    }
    if args.json {
        screen.json(&told.json(id.as_str()));
    } else {
        screen.line(told.sentence());
        if told.is_left() {
            let how = aside::how_to_deliver(&id, "it");
            screen.line(Text::line(Tone::Dim, &format!("{}.", capitalised(&how))));
        }
    }
    Ok(ExitCode::Done)
}

fn text(given: &str) -> Result<String, CliError> {
    let text = if given == "-" { inputs::piped()?.trim_end().to_owned() } else { given.to_owned() };
    if text.trim().is_empty() {
        return Err(CliError::usage("There is nothing to send.")
            .next("segno send SESSION \"and update the tests\", or `-` and the text piped in."));
    }
    Ok(text)
}

struct Told<'a> {
    input: &'a NewInput,
    /// How far the first admission has come; none if this is it.
    stage: Option<Stage>,
    holder: Option<Owner>,
    /// Whether somebody asked the holder to suspend its work and let go.
    let_go: bool,
    started: bool,
}

impl Told<'_> {
    /// Whether it waits, and nothing will take it.
    fn is_left(&self) -> bool {
        let waits = matches!(self.stage, None | Some(Stage::Pending | Stage::Parked { .. }));
        waits && (self.holder.is_none() && !self.started || self.let_go)
    }

    fn sentence(&self) -> Text {
        let id = &self.input.id;
        let queued = matches!(self.input.body, InputBody::Queue(_));
        let said = match (self.stage, &self.holder) {
            (Some(stage), _) if stage != Stage::Pending => {
                return Text::line(
                    Tone::Plain,
                    &format!("{id} was sent before: it {}.", inputs::said_of(stage)),
                );
            }
            (_, Some(owner)) if self.let_go => format!(
                "process {} was asked to let go of the session; it waits, and is offered to whoever goes on",
                owner.pid
            ),
            (_, Some(owner)) => {
                let when = if queued { "when its turn ends" } else { "at its next step" };
                format!("process {} has the session and takes it {when}", owner.pid)
            }
            (_, None) if self.started => "a process was started for it".to_owned(),
            (_, None) => "nobody has the session; it waits".to_owned(),
        };
        let before = if self.stage.is_some() { " before" } else { "" };
        Text::line(Tone::Plain, &format!("Sent{before} as {id}: {said}."))
    }

    fn json(&self, session: &str) -> serde_json::Value {
        let stage = serde_json::to_value(self.stage.unwrap_or(Stage::Pending)).unwrap_or_default();
        serde_json::json!({
            "version": 1,
            "session": session,
            "input": self.input.id,
            "kind": self.input.body.kind(),
            "admission": if self.stage.is_none() { "admitted" } else { "stands" },
            "stage": stage.get("stage"),
            "seq": stage.get("seq"),
            "held_by": self.holder.as_ref().map(|owner| owner.pid),
            "started": self.started,
        })
    }
}
