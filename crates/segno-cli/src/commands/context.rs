//! `segno context`: what single records contribute to what the model is sent.
//!
//! Responsible for: leaving a record out, replacing it, putting it back, and what that comes to. Must not:
//! decide which edits are possible (that is the model crate's table), or change a record.

use super::Workplace;
use crate::args::{ContextAction, ContextArgs};
use crate::error::{CliError, ExitCode};
use crate::history::{History, gist, role};
use crate::stores::{Log, Stores};
use crate::terminal::table::{Column, Table, count, plural};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::context::{self, EditEffect, EditFacts, edit_effect};
use segno_model::record::{Block, Body, ContextEdit, EditPart};
use segno_model::store::Scanned;
use segno_model::{Record, Seq, SessionId};
use segno_runtime::Session;
use segno_store::SystemClock;
use serde_json::json;
use std::sync::Arc;

/// Changes what is sent of a record, or lists what was changed.
///
/// # Errors
/// When the session is not found, held or damaged, or when the edit is not possible.
pub async fn context(
    args: &ContextArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let id = place.stores.find(&args.session, &place.cwd).await?;
    let Some(edit) = edit(&args.action) else {
        let history = History::read(&place.stores, &id).await?;
        list(&history, args.json, screen);
        return Ok(ExitCode::Done);
    };
    let opened = place.stores.open(&id).await.map_err(|error| held(error, &id, &edit))?;
    let mut session = Session::resume(opened, Arc::new(SystemClock));
    let changed = change(&mut session, &place.stores, edit).await?;
    if args.json {
        screen.json(&changed.json(&id));
    } else {
        screen.lines(changed.lines());
    }
    Ok(ExitCode::Done)
}

/// The edit that an action asks for; none for the list.
pub(crate) fn edit(action: &ContextAction) -> Option<ContextEdit> {
    let edit = |target: Seq, edit: &str, content| {
        Some(ContextEdit { target, edit: edit.to_owned(), content, ..ContextEdit::default() })
    };
    match action {
        ContextAction::Omit { seq } => edit(*seq, "omit", Vec::new()),
        ContextAction::Restore { seq } => edit(*seq, "restore", Vec::new()),
        ContextAction::Replace { seq, text } => edit(*seq, "replace", vec![Block::text(text)]),
        ContextAction::List => None,
    }
}

/// Another process works on the session: it can do this, too.
fn held(error: CliError, id: &SessionId, edit: &ContextEdit) -> CliError {
    if error.exit != ExitCode::Held {
        return error;
    }
    error.next(format!(
        "In that session `/context {} {}` does it; `segno resume {id} --take-over` asks for the session.",
        edit.edit, edit.target
    ))
}

/// An edit that was recorded, and what it came to.
#[derive(Debug)]
pub(crate) struct Changed {
    edit: ContextEdit,
    said: String,
    effect: EditEffect,
}

/// Records an edit, if it is possible.
///
/// # Errors
/// When it is not possible, or cannot be written.
pub(crate) async fn change(
    session: &mut Session<Log>,
    stores: &Stores,
    edit: ContextEdit,
) -> Result<Changed, CliError> {
    let records = session.records();
    let tip = session.state().tip();
    let elsewhere = match records.iter().any(|record| record.seq() == edit.target) {
        true => None,
        false => find(stores, session.id(), edit.target)?,
    };
    let record = records.iter().find(|r| r.seq() == edit.target).or(elsewhere.as_ref());
    let open: Vec<Seq> = context::build_untraced(&records, tip)
        .unanswered
        .iter()
        .map(|call| call.call_seq)
        .collect();
    let edited = session.state().in_force.context_edits.get(&edit.target);
    let before = edited.and_then(|at| records.iter().find(|r| r.seq() == at.seq));
    let in_force = before.and_then(|record| match record.body() {
        Body::ContextEdit(edit) => Some(edit.clone()),
        _ => None,
    });
    // An edit of a record that is far from the context was not read with it.
    let unread = ContextEdit { edit: String::new(), ..edit.clone() };
    let in_force = in_force.or_else(|| edited.map(|_| unread));
    let rule = EditFacts::of(record, &edit, in_force.as_ref(), &open).rule();
    let Some(record) = record.filter(|_| rule.allowed) else {
        return Err(refused(session.id(), &edit, rule.label, rule.why));
    };
    let effect = edit_effect(&records, tip, &edit);
    let said = clean::cut(&clean::line(&format!("{}: {}", role(record), gist(record))), 100);
    session.edit_context(edit.clone()).await?;
    Ok(Changed { edit, said, effect })
}

fn find(stores: &Stores, id: &SessionId, seq: Seq) -> Result<Option<Record>, CliError> {
    let mut found = None;
    let visit = &mut |item| {
        if let Scanned::Record(record) = item
            && record.seq() == seq
        {
            found = Some(*record);
        }
        found.is_none()
    };
    stores.files.scan_now(id, visit)?;
    Ok(found)
}

fn refused(id: &SessionId, edit: &ContextEdit, label: &str, why: &str) -> CliError {
    let verb = match edit.edit.as_str() {
        "omit" => "left out",
        "replace" => "replaced",
        _ => "restored",
    };
    let error = CliError::usage(format!("Record {} cannot be {verb}.", edit.target)).because(why);
    match label {
        "open-call" => error.next(format!("`segno resume {id}` settles the call first.")),
        "not-edited" | "unchanged" => {
            error.next(format!("`segno context {id} list` shows what was changed."))
        }
        _ => error.next(format!("`segno show {id} --context` shows the numbers.")),
    }
}

impl Changed {
    fn json(&self, id: &SessionId) -> serde_json::Value {
        json!({
            "version": 1, "id": id, "seq": self.edit.target, "edit": self.edit.edit,
            "results": self.effect.results, "tokens_before": self.effect.tokens_before,
            "tokens_after": self.effect.tokens_after,
        })
    }

    /// What is told of it.
    pub(crate) fn lines(&self) -> Vec<Text> {
        let seq = self.edit.target;
        let (now, along) = match self.edit.edit.as_str() {
            "omit" => ("is left out for the model", "go out with it"),
            "replace" => ("is replaced for the model", "go out with it"),
            _ => ("is sent as it was", "come back with it"),
        };
        let mut lines = vec![
            Text::line(Tone::Good, &format!("Record {seq} {now}; the log keeps it.")),
            Text::default().with(Tone::Dim, &format!("  {}", self.said)),
        ];
        if self.effect.results > 0 {
            let results = plural(self.effect.results, "result");
            lines.push(Text::line(
                Tone::Plain,
                &format!("The calls of that turn and {results} {along}."),
            ));
        }
        let EditEffect { tokens_before, tokens_after, .. } = self.effect;
        let tokens = match tokens_before == tokens_after {
            true => "The next request stays as it is: the record is not in it.".to_owned(),
            false => format!(
                "The next request: about {} tokens before, {} now.",
                count(tokens_before),
                count(tokens_after)
            ),
        };
        lines.push(Text::line(Tone::Plain, &tokens));
        lines
    }
}

/// The edits in force, with what they are about.
pub(crate) fn list(history: &History, as_json: bool, screen: &mut Screen) {
    let edits = edits(history);
    if as_json {
        let rows: Vec<_> = edits
            .iter()
            .map(|(edit, _)| {
                json!({"seq": edit.target, "edit": edit.edit, "content": edit.content,
                        "parts": edit.parts, "cause": edit.cause})
            })
            .collect();
        screen.json(&json!({"version": 1, "id": history.id, "edits": rows}));
        return;
    }
    if edits.is_empty() {
        screen.line("Nothing was left out or replaced for the model.");
        return;
    }
    let columns =
        vec![Column::right("RECORD"), Column::left("EDIT"), Column::left("TEXT").shrinks_to(20)];
    let mut table = Table::new(columns);
    for (edit, record) in edits {
        let text = record.map(|r| format!("{}: {}", role(r), gist(r))).unwrap_or_default();
        table.row([
            Text::line(Tone::Plain, &edit.target.to_string()),
            Text::line(Tone::Accent, &clean::line(&what(edit))),
            Text::line(Tone::Plain, &clean::cut(&clean::line(&text), 200)),
        ]);
    }
    screen.lines(table.lines(screen.look().columns));
}

/// The edit in words: of which parts, and why where no person made it.
fn what(edit: &ContextEdit) -> String {
    let parts = edit.parts.iter().map(|part| match part {
        EditPart::Thinking => " reasoning",
        EditPart::Images => " images",
        EditPart::Unknown => " a part",
    });
    let cause = edit.cause.as_deref().map_or(String::new(), |cause| format!(" ({cause})"));
    format!("{}{}{cause}", edit.edit, parts.collect::<String>())
}

fn edits(history: &History) -> Vec<(&ContextEdit, Option<&Record>)> {
    let in_force = history.state.in_force.context_edits.values();
    let found = in_force.filter_map(|at| match history.record(at.seq)?.body() {
        Body::ContextEdit(edit) => Some((edit, history.record(edit.target))),
        _ => None,
    });
    found.collect()
}
