//! A damaged session, settled on the spot.
//!
//! Responsible for: showing what is wrong, and offering repair, a copy of the sound part, or reading.
//! Must not: write anything before the person said so, or rewrite a line.

use super::keyboard::{Keyboard, Pressed};
use super::opening::{Desk, key_line};
use crate::args::ShowArgs;
use crate::commands::{Workplace, show};
use crate::engine::{Engine, OpenedSession, damaged_error};
use crate::error::CliError;
use crate::history::place;
use crate::stores::Log;
use crate::terminal::{Screen, Text, Tone};
use segno_model::finding::Finding;
use segno_model::record::RepairItem;
use segno_model::store::{Clock as _, DamagedSession as _, ForkPoint, Scanned, SessionStore as _};
use segno_model::{Seq, SessionId};
use segno_runtime::Session;
use segno_store::{FileDamaged, RealDisk, SystemClock};
use std::sync::Arc;

type Damaged = FileDamaged<RealDisk>;

/// Lets the person decide; nothing when they only wanted to look.
///
/// # Errors
/// When the repair or the copy fails.
pub(super) async fn settle(
    desk: &mut Desk<'_>,
    id: &SessionId,
    damaged: Damaged,
) -> Result<Option<Session<Log>>, CliError> {
    let said = "This session is damaged where the next request needs it.";
    let mut lines = vec![Text::line(Tone::Bad, said)];
    lines.extend(damaged.findings().iter().map(finding_line));
    lines.push(key_line("r", "repair: settle it by appending what was decided"));
    lines.push(key_line("f", "fork: go on in a copy of what lies before the damage"));
    lines.push(key_line("v", "view: leave it as it is, and show what can be read"));
    match desk.keyboard.choose(lines, "rfv").await {
        Pressed::Key('r') => repair(desk.keyboard, damaged).await,
        Pressed::Key('f') => fork(desk.engine, desk.screen, id, damaged).await.map(Some),
        Pressed::Gone => Err(damaged_error(id, damaged.findings())),
        Pressed::Key(_) => {
            drop(damaged);
            let args = ShowArgs { session: id.to_string(), ..ShowArgs::default() };
            let stores = desk.engine.stores.clone();
            let place = Workplace { stores, cwd: desk.engine.cwd.clone() };
            show::show(&args, &place, desk.screen).await?;
            Ok(None)
        }
        Pressed::Escape | Pressed::Interrupt => Ok(None),
    }
}

async fn repair(keyboard: &Keyboard, damaged: Damaged) -> Result<Option<Session<Log>>, CliError> {
    let mut accepted: Vec<Seq> = Vec::new();
    for finding in damaged.findings().iter().filter(|f| f.code == "altered") {
        let Some(seq) = finding.seq else { continue };
        let lines = vec![
            finding_line(finding),
            key_line("t", "take the record as it is now"),
            key_line("p", "pass over it"),
        ];
        match keyboard.choose(lines, "tp").await {
            Pressed::Key('t') => accepted.push(seq),
            Pressed::Key(_) => {}
            _ => return Ok(None),
        }
    }
    let plan = damaged.plan(&accepted);
    let mut lines = vec![Text::line(Tone::Strong, "The repair appends this decision:")];
    lines.extend(
        plan.iter().map(|item| Text::default().with(Tone::Plain, &format!("  {}", told(item)))),
    );
    lines.push(key_line("y", "do it; no line is rewritten"));
    lines.push(key_line("n", "leave everything as it is"));
    if keyboard.choose(lines, "yn").await != Pressed::Key('y') {
        return Ok(None);
    }
    let opened = damaged.repair(plan, SystemClock.now()).await?;
    Ok(Some(Session::resume(opened, Arc::new(SystemClock))))
}

/// Goes on in a copy that ends before the first damage.
async fn fork(
    engine: &Engine,
    screen: &mut Screen,
    id: &SessionId,
    damaged: Damaged,
) -> Result<Session<Log>, CliError> {
    drop(damaged);
    let files = &engine.stores.files;
    let (mut last, mut met) = (None, false);
    files
        .scan(id, &mut |item| {
            match item {
                Scanned::Finding(finding) => met |= is_damage(&finding),
                Scanned::Record(record) if record.is_node() => last = Some(record.seq()),
                Scanned::Record(_) => {}
            }
            !met
        })
        .await?;
    let Some(seq) = last else {
        return Err(CliError::failed("Nothing lies before the damage that a copy could hold.")
            .next("Resume it again and choose repair."));
    };
    let copy = files.fork(id, ForkPoint::At(seq), engine.header(), SystemClock.now()).await?;
    screen.line(Text::line(Tone::Good, &format!("Going on in a copy up to record {seq}: {copy}")));
    match engine.open(&copy).await? {
        OpenedSession::Ready(session) => Ok(*session),
        OpenedSession::Damaged(damaged) => Err(damaged_error(&copy, damaged.findings())),
    }
}

fn is_damage(finding: &Finding) -> bool {
    finding.severity == segno_model::finding::Severity::Damage
}

fn finding_line(finding: &Finding) -> Text {
    Text::default().with(Tone::Plain, &format!("  {} ({})", finding.sentence, place(finding)))
}

fn told(item: &RepairItem) -> String {
    match item {
        RepairItem::SetAside { bytes, .. } => format!("{bytes} bytes are set aside"),
        RepairItem::Bridged { offset, bytes, .. } => {
            format!("{bytes} damaged bytes at {offset} are passed over")
        }
        RepairItem::Missing { first, last } if first == last => {
            format!("record {first} is missing and passed over")
        }
        RepairItem::Missing { first, last } => {
            format!("records {first} to {last} are missing and passed over")
        }
        RepairItem::Erased { seq } => format!("record {seq} is erased"),
        RepairItem::Accepted { seq, .. } => format!("record {seq} is taken as it is now"),
        _ => "one more place is settled".to_owned(),
    }
}
