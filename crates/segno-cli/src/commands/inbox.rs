//! `segno inbox`: what waits in a session's inbox.
//!
//! Responsible for: listing it, and the controls that take an input back, move it or let the model see it,
//! whoever has the session. Must not: run anything itself.

use super::Workplace;
use crate::args::InboxArgs;
use crate::engine::Engine;
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::inputs::{self, Control};
use crate::sessions;
use crate::stores::{Stored, Stores};
use crate::terminal::table::{age, plural};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::SessionId;
use segno_model::finding::{Finding, Severity};
use segno_model::inbox::{InputBody, Pending, Stage};
use segno_model::record::InputKind;
use segno_model::store::Clock as _;
use segno_store::{Remains, SystemClock, this_process};

/// Lists what waits, or does what was asked with it.
///
/// # Errors
/// No such session or input, a session that cannot be written, or a holder that does not act.
pub async fn inbox(
    args: &InboxArgs,
    home: Home,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let stores = Stores::new(home.clone());
    let id = match stores.find_or_remains(&args.session, &Workplace::cwd()?).await? {
        Stored::Session(id) => id,
        Stored::Remains(remains) => return left(args, &stores, &remains, screen),
    };
    match deed(args, &stores, &id).await? {
        None if args.deliver.is_some() => deliver(args, &home, &stores, &id).await?,
        None => {}
        Some(body) => carry_out(&home, &stores, &id, body).await?,
    }
    let (inbox, parked) = inputs::waiting(&stores, &id).await?;
    let waiting: Vec<&Pending> = inputs::words(&inbox.pending).collect();
    let holder = stores.files.holder(&id)?.map(|owner| owner.pid);
    if args.json {
        screen.json(&json(&id, &waiting, &parked, &inbox.findings, holder));
    } else {
        show(&waiting, &parked, &inbox.findings, screen);
        if !waiting.is_empty() && holder.is_none() {
            let how = format!(
                "Nobody has the session; `segno inbox {id} --deliver` lets the model see what waits."
            );
            screen.line(Text::line(Tone::Dim, &how));
        }
    }
    Ok(ExitCode::Done)
}

/// The inputs of a session whose log is gone, whole: nothing else can be done with them here.
fn left(
    args: &InboxArgs,
    stores: &Stores,
    remains: &Remains,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let id = &remains.id;
    let inbox = stores.files.inputs_without_log(id)?;
    let waiting: Vec<&Pending> = inputs::words(&inbox.pending).collect();
    if args.withdraw.is_some() || args.moved.is_some() || args.deliver.is_some() {
        return Err(CliError::new(ExitCode::Damaged, "Nothing can be done with these inputs.")
            .because("the log of their session is gone, and with it what they belong to")
            .next(format!(
                "`segno inbox {id}` shows them; `segno send SESSION TEXT` says one to another session."
            )));
    }
    let mut findings = inbox.findings;
    findings.push(Finding {
        code: "log-missing",
        severity: Severity::Damage,
        sentence: format!("the log is gone; {}", sessions::left(remains)),
        done: format!("everything stays in {}", remains.dir.display()),
        ..Finding::default()
    });
    if args.json {
        screen.json(&json(id, &waiting, &[], &findings, None));
        return Ok(ExitCode::Damaged);
    }
    for pending in &waiting {
        let head = pending.input.body.words().map_or("", |words| words.head());
        screen.line(Text::line(Tone::Accent, &clean::line(&pending.input.id)));
        screen.line(Text::block(Tone::Plain, head));
    }
    show(&[], &[], &findings, screen);
    let how = "Put log.jsonl back from a backup and they are delivered; or say them elsewhere: \
               `segno send SESSION TEXT`, `segno run TEXT`. Some may have been delivered before the log went.";
    screen.line(Text::line(Tone::Dim, how));
    Ok(ExitCode::Damaged)
}

/// The control that was asked for, about an input that waits.
async fn deed(
    args: &InboxArgs,
    stores: &Stores,
    id: &SessionId,
) -> Result<Option<InputBody>, CliError> {
    let body = match (&args.withdraw, &args.moved) {
        (Some(query), _) => InputBody::Withdraw { input_id: waiting_id(stores, id, query).await? },
        (None, Some(query)) => InputBody::Reorder {
            input_id: waiting_id(stores, id, query).await?,
            before: match &args.before {
                Some(before) => Some(waiting_id(stores, id, before).await?),
                None => None,
            },
        },
        (None, None) => return Ok(None),
    };
    Ok(Some(body))
}

/// The id of a waiting input that begins like this.
async fn waiting_id(stores: &Stores, id: &SessionId, query: &str) -> Result<String, CliError> {
    let (inbox, _) = inputs::waiting(stores, id).await?;
    let ids: Vec<&str> = inputs::words(&inbox.pending).map(|p| p.input.id.as_str()).collect();
    if ids.contains(&query) {
        return Ok(query.to_owned());
    }
    let found: Vec<&&str> = ids.iter().filter(|id| id.starts_with(query)).collect();
    match found.as_slice() {
        [one] if !query.is_empty() => Ok((**one).to_owned()),
        [] | [_] => Err(CliError::new(ExitCode::NotFound, format!("No input `{query}` waits."))
            .because("what was delivered or taken back waits no more")
            .next(format!("`segno inbox {id}` lists what waits."))),
        several => Err(CliError::new(
            ExitCode::NotFound,
            format!("`{query}` fits {} inputs.", several.len()),
        )
        .next("Give more of the id.")),
    }
}

/// Sends the control to the holder, or acts on it when there is none.
async fn carry_out(
    home: &Home,
    stores: &Stores,
    id: &SessionId,
    body: InputBody,
) -> Result<(), CliError> {
    match inputs::control(stores, id, body).await? {
        Control::Settled(Stage::Dropped { .. }) => {
            Err(CliError::new(ExitCode::NotFound, "The input waits no more.")
                .because("it was delivered or taken back meanwhile")
                .next(format!(
                    "`segno inbox {id}` lists what waits; `segno show {id}` what was delivered."
                )))
        }
        Control::Settled(_) => Ok(()),
        Control::Waits(owner) => {
            Err(CliError::new(ExitCode::Held, "The holder of the session has not acted yet.")
                .because(format!(
                    "process {} on {} has it; the request is kept",
                    owner.pid, owner.host
                ))
                .next(format!("`segno inbox {id}` shows whether it has.")))
        }
        Control::Unattended => {
            let engine = Engine::load(home.clone()).await?;
            let mut session = engine.open_sound(id).await?;
            session.attend(&this_process(&SystemClock)).await?;
            Ok(())
        }
    }
}

/// Lets the model see inputs that wait for a person.
async fn deliver(
    args: &InboxArgs,
    home: &Home,
    stores: &Stores,
    id: &SessionId,
) -> Result<(), CliError> {
    let wanted = args.deliver.as_deref().unwrap_or_default();
    let ids = if wanted.is_empty() {
        let (inbox, _) = inputs::waiting(stores, id).await?;
        inputs::words(&inbox.pending).map(|p| p.input.id.clone()).collect()
    } else {
        vec![waiting_id(stores, id, wanted).await?]
    };
    if ids.is_empty() {
        return Ok(());
    }
    if stores.files.holder(id)?.is_none() {
        return inputs::start_worker(home, id, &ids).await;
    }
    for input_id in ids {
        let control =
            inputs::control(stores, id, InputBody::Deliver { input_id: input_id.clone() });
        if control.await? == Control::Unattended {
            inputs::start_worker(home, id, &[input_id]).await?;
        }
    }
    Ok(())
}

fn show(waiting: &[&Pending], parked: &[String], findings: &[Finding], screen: &mut Screen) {
    if waiting.is_empty() && findings.is_empty() {
        screen.line(Text::line(Tone::Dim, "Nothing waits."));
    }
    let now = SystemClock.now();
    for pending in waiting {
        let kind = if pending.input.body.kind() == InputKind::Queue { "queue" } else { "steer" };
        let head = pending.input.body.words().map_or("", |words| words.head());
        let mut line = Text::default()
            .with(Tone::Accent, &clean::line(&pending.input.id))
            .with(Tone::Dim, &format!("  {kind}  {}  ", age(now, pending.at)))
            .with(Tone::Plain, &clean::line(head));
        if parked.contains(&pending.input.id) {
            line = line.with(Tone::Warning, "  (because of a stop, only when you ask)");
        }
        screen.line(line.cut(screen.look().columns));
    }
    for finding in findings {
        let said = format!("{}; {}", finding.sentence, finding.done);
        screen.line(Text::line(Tone::Warning, &said));
    }
    if waiting.len() > 1 {
        let said = format!("{}, in the order of delivery.", plural(waiting.len(), "input"));
        screen.line(Text::line(Tone::Dim, &said));
    }
}

fn json(
    id: &SessionId,
    waiting: &[&Pending],
    parked: &[String],
    findings: &[Finding],
    holder: Option<u32>,
) -> serde_json::Value {
    let inputs: Vec<_> = waiting
        .iter()
        .map(|pending| {
            let words = pending.input.body.words();
            serde_json::json!({
                "id": pending.input.id,
                "kind": pending.input.body.kind(),
                "at": pending.at,
                "parked": parked.contains(&pending.input.id),
                "notice": words.and_then(|words| words.notice.as_deref()),
                "text": words.map_or("", |words| words.head()),
            })
        })
        .collect();
    serde_json::json!({
        "version": 1,
        "session": id,
        "held_by": holder,
        "inputs": inputs,
        "findings": findings,
    })
}
