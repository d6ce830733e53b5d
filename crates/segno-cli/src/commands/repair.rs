//! `segno repair`: settles damage by appending what was decided.
//!
//! Responsible for: showing the damaged bytes and what would become of each, asking, and writing one
//! `repair` record. Must not: rewrite or remove a byte of the log; only a torn tail is moved, to
//! `set-aside/`, as every first append does. Another agent's session is repaired in `other`.

mod other;

use super::Workplace;
use super::check::finding_lines;
use super::show::bytes_at;
use crate::args::RepairArgs;
use crate::error::{CliError, ExitCode};
use crate::others::Target;
use crate::stores::{Damaged, Log, not_opened};
use crate::terminal::confirm::confirm;
use crate::terminal::table::{plural, size};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::batch::Draft;
use segno_model::judge::{Damage, DamageKind, Tail, settle};
use segno_model::record::{Repair, RepairItem};
use segno_model::store::{
    DamagedSession as _, HeldSession as _, Judged, Level, Opened, SessionLog as _,
    SessionStore as _,
};
use segno_model::{Body, Seq, SessionId};

/// How much of a damaged stretch is shown, in bytes.
const SHOWN: usize = 400;

/// What is wrong and what would be done.
struct Plan {
    id: SessionId,
    damages: Vec<Damage>,
    tail: Option<Tail>,
    items: Vec<RepairItem>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.tail.is_none()
    }
}

/// Repairs a session.
///
/// # Errors
/// When it is not found, held, of a newer format, or damaged in its first line; when nobody said yes.
pub async fn repair(
    args: &RepairArgs,
    place: &Workplace,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let id = match place.stores.find_any(&args.session, &place.cwd).await? {
        Target::Own(id) => id,
        Target::Other(session) => return other::repair(&session, args, place, screen),
    };
    if args.output.is_some() || args.install || args.in_place {
        return Err(CliError::usage("This is a session of Segno's own.")
            .because(
                "it is repaired where it is, by a record that is appended; nothing is rewritten",
            )
            .next(format!("`segno repair {id}` without -o, --install and --in-place.")));
    }
    // The right is taken first: what is shown is then what is decided upon.
    let held = place.stores.files.open(&id).await.map_err(|error| not_opened(&id, error))?;
    let judged = held.judge().await?;
    let plan = plan(&id, &args.accept, place)?;
    if plan.is_empty() {
        say(&plan, false, args.json, place, screen);
        return Ok(ExitCode::Done);
    }
    if !args.json {
        show(&plan, place, screen)?;
        screen.flush();
    }
    if !args.yes {
        if args.json {
            say(&plan, false, true, place, screen);
            return Ok(ExitCode::Damaged);
        }
        if !confirm("Append a record that settles this?", "--yes")? {
            screen.line("Nothing was changed.");
            return Ok(ExitCode::Stopped);
        }
    }
    carry_out(judged, &plan, place).await?;
    say(&plan, true, args.json, place, screen);
    Ok(ExitCode::Done)
}

fn plan(id: &SessionId, accept: &[Seq], place: &Workplace) -> Result<Plan, CliError> {
    let (damages, tail) = place.stores.files.survey(id)?;
    let damages: Vec<Damage> = damages.into_iter().filter(|damage| !damage.settled).collect();
    if damages.iter().any(|damage| damage.at_header) {
        return Err(CliError::new(
            ExitCode::Damaged,
            "The first line of this session cannot be read.",
        )
        .because("it says what the session is, and no repair settles that")
        .next(format!("`segno fork {id}` goes on in a copy with what can be read; `segno show {id}` and `segno export {id}` show that.")));
    }
    let altered = |seq: &Seq| damages.iter().any(|d| d.kind == DamageKind::Altered { seq: *seq });
    if let Some(seq) = accept.iter().find(|seq| !altered(seq)) {
        return Err(CliError::usage(format!(
            "Record {seq} is not altered, so it cannot be accepted."
        ))
        .because("only a well-formed record with a wrong checksum can be taken as it is")
        .next(format!("`segno check {id}` shows the numbers of altered records.")));
    }
    let items = settle::plan(&damages, accept);
    Ok(Plan { id: id.clone(), damages, tail, items })
}

async fn carry_out(
    judged: Judged<Log, Damaged>,
    plan: &Plan,
    place: &Workplace,
) -> Result<(), CliError> {
    let at = place.now();
    match judged {
        Judged::Damaged(damaged) => {
            damaged.repair(plan.items.clone(), at).await?;
        }
        // The damage lies before what resuming reads, or there is only a tail, which the append sets aside.
        Judged::Sound(Opened { mut log, .. }) => {
            let repair =
                Repair { rule: "person".to_owned(), by_person: true, items: plan.items.clone() };
            log.append(vec![Draft::new(at, Body::Repair(repair))], Level::Synced).await?;
        }
    }
    Ok(())
}

/// Every damaged stretch, and what would become of it.
fn show(plan: &Plan, place: &Workplace, screen: &mut Screen) -> Result<(), CliError> {
    let columns = screen.look().columns;
    for damage in &plan.damages {
        let mut lines = finding_lines(&damage.finding);
        lines.truncate(1);
        screen.lines(lines);
        if damage.bytes > 0 {
            let bytes = bytes_at(place, &plan.id, damage.at, damage.bytes.min(SHOWN as u64))?;
            let shown = clean::line(&clean::bytes(&bytes));
            let text = Text::default().with(Tone::Dim, &format!("  {shown}"));
            screen.line(text.cut(columns));
        }
        screen.line(Text::default().with(Tone::Accent, &format!("  → {}", fate(plan, damage))));
    }
    if let Some(tail) = &plan.tail {
        let text = format!("The end from byte {} on is no part of the log.", tail.at);
        screen.line(Text::line(Tone::Warning, &text));
        screen.line(Text::default().with(Tone::Accent, "  → set aside in a file of its own"));
    }
    Ok(())
}

fn fate(plan: &Plan, damage: &Damage) -> String {
    let accepted = plan.items.iter().any(|item| {
        matches!((item, damage.kind),
            (RepairItem::Accepted { seq, .. }, DamageKind::Altered { seq: own }) if *seq == own)
    });
    match damage.kind {
        DamageKind::Altered { .. } if accepted => "accepted as it is now".to_owned(),
        DamageKind::Altered { seq } => {
            format!("passed over; with `--accept {seq}` it is taken as it is now")
        }
        DamageKind::Missing { first, last } if first == last => {
            format!("record {first} is taken as lost")
        }
        DamageKind::Missing { first, last } => {
            format!("records {first} to {last} are taken as lost")
        }
        DamageKind::Malformed
        | DamageKind::Nul
        | DamageKind::Conflict { .. }
        | DamageKind::Foreign { .. } => format!("passed over ({})", size(damage.bytes)),
    }
}

fn say(plan: &Plan, done: bool, json: bool, place: &Workplace, screen: &mut Screen) {
    if json {
        let findings: Vec<_> = plan.damages.iter().map(|damage| &damage.finding).collect();
        screen.json(&serde_json::json!({
            "version": 1,
            "id": plan.id,
            "changed": done,
            "items": plan.items,
            "tail": plan.tail.as_ref().map(|tail| tail.at),
            "findings": findings,
        }));
        return;
    }
    if !done {
        let text = format!("{} needs no repair; nothing was changed.", plan.id);
        screen.line(Text::line(Tone::Good, &text));
        return;
    }
    let settled = plan.items.len() + usize::from(plan.tail.is_some());
    let text = format!(
        "{} settled by an appended record; nothing was rewritten.",
        plural(settled, "place")
    );
    screen.line(Text::line(Tone::Good, &text));
    let next = format!("next: {} resume {}", place.stores.home.command(), plan.id);
    screen.line(Text::line(Tone::Plain, &next));
}
