//! `segno answer`: the permission question that a session waits with, and an answer to it from any terminal.
//!
//! Responsible for: showing what is asked, sending the answer, and saying whether anybody has taken it. Must
//! not: run the session, or decide what may be allowed.

use super::Workplace;
use crate::args::AnswerArgs;
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::inputs::questions::{self, Answered, Question, Said};
use crate::stores::Stores;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::SessionId;

/// Shows the open questions, or answers one.
///
/// # Errors
/// No such session or question, several of them and none named, or a session that cannot be written.
pub async fn answer(
    args: &AnswerArgs,
    home: Home,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let stores = Stores::new(home);
    let id = stores.find(&args.session, &Workplace::cwd()?).await?;
    let open = questions::all(&stores, &id).await?;
    let Some(said) = said(args) else {
        let shown: Vec<&Question> = match &args.call {
            Some(call) => vec![questions::one(&open, Some(call), &id)?],
            None => open.iter().collect(),
        };
        show(args, &stores, &id, &shown, screen)?;
        return Ok(ExitCode::Done);
    };
    let question = questions::one(&open, args.call.as_deref(), &id)?;
    let answered = questions::answer(&stores, &id, question, &said).await?;
    if args.json {
        let stage = if answered == Answered::Taken { "acted" } else { "pending" };
        let told = serde_json::json!({
            "call_id": question.call_id, "allowed": said.allowed, "reason": said.reason, "stage": stage,
        });
        let left = questions::all(&stores, &id).await?;
        let left: Vec<&Question> = left.iter().collect();
        screen.json(&json(&stores, &id, &left, &told)?);
    } else {
        tell(&id, &said, &answered, screen);
    }
    Ok(ExitCode::Done)
}

fn said(args: &AnswerArgs) -> Option<Said> {
    if args.allow {
        return Some(Said { allowed: true, reason: None });
    }
    let reason = args.deny.as_ref()?;
    let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
    Some(Said { allowed: false, reason })
}

fn tell(id: &SessionId, said: &Said, answered: &Answered, screen: &mut Screen) {
    let what = if said.allowed { "Allowed, this once" } else { "Not allowed" };
    let line = match answered {
        Answered::Taken => format!("{what}; the run that asked goes on."),
        Answered::Kept => format!("{what}; nobody has the session, and the answer is kept."),
        Answered::Waits(owner) => format!(
            "{what}; the answer is kept. Process {} has the session and does not wait for it now.",
            owner.pid
        ),
    };
    screen.line(Text::line(Tone::Plain, &line));
    if *answered != Answered::Taken {
        let how = format!(
            "It counts when the work goes on, if that day's permission mode still asks: segno resume {id}"
        );
        screen.line(Text::line(Tone::Dim, &how));
    }
}

fn show(
    args: &AnswerArgs,
    stores: &Stores,
    id: &SessionId,
    open: &[&Question],
    screen: &mut Screen,
) -> Result<(), CliError> {
    if args.json {
        screen.json(&json(stores, id, open, &serde_json::Value::Null)?);
        return Ok(());
    }
    if open.is_empty() {
        screen.line(Text::line(Tone::Dim, "No question waits for an answer there."));
        return Ok(());
    }
    for question in open {
        screen.lines(lines(question));
    }
    let who = match stores.files.holder(id)? {
        Some(owner) => format!("Process {} has the session.", owner.pid),
        None => "Nobody has the session; an answer counts when it goes on.".to_owned(),
    };
    let call = if open.len() > 1 { " --call ID" } else { "" };
    let how = format!("{who} `segno answer {id}{call} --allow`, or `--deny [REASON]`.");
    screen.line(Text::line(Tone::Dim, &how));
    Ok(())
}

/// A question as people read it; characters that could hide something are shown.
pub(crate) fn lines(question: &Question) -> Vec<Text> {
    let tool = question.tool.as_deref().unwrap_or("?");
    let of = question.subagent.as_ref().map_or_else(String::new, |id| format!(", subagent {id}"));
    let mut lines = vec![
        Text::default()
            .with(Tone::Warning, "? ")
            .with(Tone::Warning, &clean::line(tool))
            .with(Tone::Dim, &format!("  (call {}{of})", clean::line(&question.call_id))),
    ];
    let text = question.text.lines();
    lines.extend(text.map(|line| {
        Text::default().with(Tone::Plain, "  ").with(Tone::Plain, &clean::reveal(line))
    }));
    if let Some(sent) = &question.sent {
        let said = if sent.allowed { "allowed" } else { "not allowed" };
        let said = format!("  An answer is kept for it ({said}); another one replaces it.");
        lines.push(Text::line(Tone::Dim, &said));
    }
    lines
}

fn json(
    stores: &Stores,
    id: &SessionId,
    open: &[&Question],
    answered: &serde_json::Value,
) -> Result<serde_json::Value, CliError> {
    let sent = |said: &Said| serde_json::json!({"allowed": said.allowed, "reason": said.reason});
    let questions: Vec<_> = open
        .iter()
        .map(|question| {
            serde_json::json!({
                "call_id": question.call_id,
                "subagent": question.subagent,
                "seq": question.call_seq,
                "tool": question.tool,
                "question": question.text,
                "sent": question.sent.as_ref().map(sent),
            })
        })
        .collect();
    Ok(serde_json::json!({
        "version": 1,
        "session": id,
        "held_by": stores.files.holder(id)?.map(|owner| owner.pid),
        "questions": questions,
        "answered": answered,
    }))
}
