//! What must hold of a disk after power was lost, given what had been acknowledged.
//!
//! Responsible for: the invariants, each with a sentence. Must not: know which workload it was.

use crate::scene::{EDITED, Say, Told, id, line_of, now, prompt, resume, store};
use segno_model::context::{Context, ContextMessage};
use segno_model::record::*;
use segno_model::store::{Scanned, SessionStore as _};
use segno_model::{Body, Record, SessionId};
use segno_runtime::Session;
use segno_store::FileLog;
use segno_testkit::sim_disk::SimDisk;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// Holds a disk against what was told; with `goes_on` every session is also worked in once more.
pub(crate) fn judge(disk: &SimDisk, told: &Told, goes_on: bool) -> Result<(), String> {
    let listed = now(store(disk).list()).map_err(|e| e.to_string())?;
    let there: BTreeSet<SessionId> = listed.into_iter().map(|session| session.id).collect();
    if let Some((lost, ..)) = told.shown.iter().find(|(id, ..)| !there.contains(id)) {
        return Err(format!("session {lost} is gone, and records of it were shown"));
    }
    let effects = told.effects.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut intents = BTreeSet::new();
    for id in &there {
        let session = resume(disk, id)?;
        let records = scan(disk, id)?;
        shown_is_there(id, &records, told)?;
        inputs_are_once(&records, told)?;
        intents.extend(records.iter().filter_map(|record| match record.body() {
            Body::Action(action) => Some(action.call_id.clone()),
            _ => None,
        }));
        if *id == crate::scene::id(1) {
            admitted_is_once(disk, id, &records, told)?;
        }
        is_valid(&session.context(&crate::scene::model_ref()))?;
        view_is_whole(&session, &records)?;
        drop(session);
        if goes_on {
            work_on(disk, id, stopping(id, told), told)?;
        }
    }
    let mut once = BTreeSet::new();
    if let Some(twice) = effects.iter().find(|call| !once.insert(*call)) {
        return Err(format!("the effect of {twice} took place twice"));
    }
    // An effect that took place without an intent would be repeated by somebody who asks again.
    match effects.iter().find(|call| !intents.contains(*call)) {
        Some(call) => Err(format!("the effect of {call} took place, and no intent is there")),
        None => Ok(()),
    }
}

fn scan(disk: &SimDisk, id: &SessionId) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    now(store(disk).scan(id, &mut |item| {
        if let Scanned::Record(record) = item {
            records.push(*record);
        }
        true
    }))
    .map_err(|e| e.to_string())?;
    Ok(records)
}

/// What was shown as durable is there, byte for byte.
fn shown_is_there(id: &SessionId, records: &[Record], told: &Told) -> Result<(), String> {
    let there: BTreeMap<u64, &Record> = records.iter().map(|r| (r.seq(), r)).collect();
    for (_, seq, line) in told.shown.iter().filter(|(of, ..)| of == id) {
        match there.get(seq) {
            Some(record) if line_of(record) == *line => {}
            Some(_) => return Err(format!("record {seq} was shown and is another now")),
            None => return Err(format!("record {seq} was shown and is gone")),
        }
    }
    Ok(())
}

fn prompts(records: &[Record]) -> Vec<String> {
    let users = records.iter().filter_map(|record| match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) if user.notice.is_none() && user.input_id.is_none() => Some(user),
            _ => None,
        },
        _ => None,
    });
    let text = |user: &UserMessage| match user.content.first() {
        Some(Block::Text { text }) => text.head().to_owned(),
        _ => String::new(),
    };
    users.map(text).collect()
}

/// Every prompt is one that was given, and is there once, in their order.
fn inputs_are_once(records: &[Record], told: &Told) -> Result<(), String> {
    let mut tried = told.tried.iter();
    for found in prompts(records) {
        if !tried.any(|text| *text == found) {
            return Err(format!("the prompt {found:?} is there twice, or out of order"));
        }
    }
    Ok(())
}

/// What was acknowledged to another process is in the log or still waits, once.
fn admitted_is_once(
    disk: &SimDisk,
    id: &SessionId,
    records: &[Record],
    told: &Told,
) -> Result<(), String> {
    let admitted = told.admitted.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if admitted.is_empty() {
        return Ok(());
    }
    let waiting = now(store(disk).pending(id)).map_err(|e| e.to_string())?.pending;
    for (input, text) in &admitted {
        let delivered = records.iter().filter(|record| match record.body() {
            Body::Message(message) => match &**message {
                Message::User(user) => user.input_id.as_ref() == Some(input),
                _ => false,
            },
            _ => false,
        });
        let waits = waiting.iter().filter(|pending| pending.input.id == *input);
        let (delivered, waits) = (delivered.count(), waits.count());
        if delivered + waits != 1 {
            return Err(format!(
                "input {input} ({text:?}) was acknowledged; {delivered} times delivered, {waits} waiting"
            ));
        }
    }
    Ok(())
}

/// Each call has exactly one result, right behind its turn, in its order; nothing is empty (G6).
fn is_valid(context: &Context) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    for message in &context.messages {
        match message {
            ContextMessage::Results(results) => {
                let answered: Vec<String> = results.iter().map(|r| r.call_id.clone()).collect();
                if answered != open {
                    return Err(format!("calls {open:?} have the results {answered:?}"));
                }
                open.clear();
            }
            _ if !open.is_empty() => return Err(format!("calls {open:?} have no results")),
            ContextMessage::User { content, .. } if content.is_empty() => {
                return Err("a message is empty".to_owned());
            }
            ContextMessage::User { .. } | ContextMessage::State(_) => {}
            ContextMessage::Assistant(turn) => {
                open.extend(turn.content.iter().filter_map(|block| match block {
                    AssistantBlock::ToolCall(call) => Some(call.id.clone()),
                    _ => None,
                }));
            }
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("calls {open:?} have no results")) }
}

/// The view of before a compaction or the one of after it, never a part of one: with a finished compaction the
/// summary comes first and everything that it keeps is there, without one nothing that was said is missing.
/// One that was begun and is not over will be recorded as failed.
fn view_is_whole(session: &Session<FileLog<SimDisk>>, all: &[Record]) -> Result<(), String> {
    let context = session.context(&crate::scene::model_ref());
    let summarised =
        context.messages.first().is_some_and(|m| m.text().starts_with("<session_history"));
    let finished = session.records().iter().any(
        |record| matches!(record.body(), Body::Compaction(c) if c.state == CompactionState::Done),
    );
    if summarised != finished {
        return Err(format!(
            "finished: {finished}, and the context begins with a summary: {summarised}"
        ));
    }
    if let Some(finding) = session.findings().iter().find(|f| f.code == "missing-kept-record") {
        return Err(finding.sentence.clone());
    }
    let branched = all.iter().any(|record| matches!(record.body(), Body::Tip(_)));
    if !finished && !branched {
        let sent: Vec<String> = context.messages.iter().map(ContextMessage::text).collect();
        if let Some(lost) = prompts(all).into_iter().find(|prompt| !sent.contains(prompt)) {
            return Err(format!("the prompt {lost:?} is sent no more, and nothing tells of it"));
        }
    }
    state_can_be_read(session)?;
    let is_failure =
        |body: &Body| matches!(body, Body::Compaction(c) if c.state == CompactionState::Failed);
    let open = session.state().in_force.open_compaction.is_some();
    match open && !session.pending_recovery().iter().any(is_failure) {
        true => Err("a compaction is open, and nobody will say that it failed".to_owned()),
        false => Ok(()),
    }
}

/// A provider's own state that a compaction names is there, whole: its maker is sent it, and nobody else.
fn state_can_be_read(session: &Session<FileLog<SimDisk>>) -> Result<(), String> {
    let target = crate::scene::target();
    let asked = session.context_for(&target.model, Some(&target));
    let context = crate::scene::now(asked);
    let is_sent = matches!(context.messages.first(), Some(ContextMessage::State(_)));
    match &context.state {
        Some(state) if state.lost || !is_sent => {
            Err(format!("the state of record {} cannot be sent: {state:?}", state.seq))
        }
        _ => Ok(()),
    }
}

/// The run of which a stop was shown and nothing later (G9).
fn stopping(id: &SessionId, told: &Told) -> Option<u64> {
    let newest = told.shown.iter().rev().filter(|(of, ..)| of == id);
    let mut newest =
        newest.filter_map(|(.., line)| match segno_model::line::decode(line, 0).ok()?.body() {
            Body::Run(run) => Some(run.clone()),
            _ => None,
        });
    let newest = newest.next()?;
    matches!(newest.state, RunState::Stopping { .. }).then_some(newest.run)
}

/// One more turn: it ends well, repeats no effect, tells the truth about files, and leaves a sound log.
fn work_on(
    disk: &SimDisk,
    id: &SessionId,
    stopped: Option<u64>,
    told: &Told,
) -> Result<(), String> {
    let mut again = Told { service: Arc::clone(&told.service), ..Told::default() };
    let mut session = resume(disk, id)?;
    let plan = [Say::Calls(&[("new", "act")]), Say::Text("well")];
    prompt(&mut session, "and now?", &plan, disk, &mut again).map_err(|e| e.to_string())?;
    let ran = again.effects.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if ran != ["new"] {
        return Err(format!("going on ran {ran:?}"));
    }
    is_valid(&session.context(&crate::scene::model_ref()))?;
    tells_the_truth(disk, &session)?;
    drop(session);
    let records = scan(disk, id)?;
    if *id == crate::scene::id(1) {
        keyed_calls_are_told_as_they_are(&records, told)?;
        ends_are_told_once(&records)?;
    }
    if let Some(run) = stopped {
        ended_as_stopped(&records, run)?;
    }
    let reopened = resume(disk, id)?;
    if let Some(finding) = reopened.findings().first() {
        return Err(format!("after going on: {}", finding.sentence));
    }
    let last = prompts(&records).pop();
    if last.as_deref() == Some("and now?") { Ok(()) } else { Err(format!("{last:?} is last")) }
}

fn results<'a>(records: &'a [Record], tool: &'a str) -> impl Iterator<Item = &'a ToolMessage> {
    records.iter().filter_map(move |record| match record.body() {
        Body::Message(message) => match &**message {
            Message::Tool(result) if result.name == tool => Some(result),
            _ => None,
        },
        _ => None,
    })
}

/// A call that can be asked for is done when the service knows it, and not when it does not. It is unknown only
/// where its intent was lost with the power, and then it had not begun.
fn keyed_calls_are_told_as_they_are(records: &[Record], told: &Told) -> Result<(), String> {
    let known = told.service.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let is_intended = |call: &str| {
        let intents = records.iter().filter_map(|record| match record.body() {
            Body::Action(action) => Some(action.call_id.as_str()),
            _ => None,
        });
        intents.into_iter().any(|intended| intended == call)
    };
    for result in results(records, "keyed") {
        let (call, outcome) = (&result.call_id, result.outcome);
        let fits = match outcome {
            Outcome::Done => known.contains(call),
            Outcome::NotRun => !known.contains(call),
            Outcome::Unknown => !known.contains(call) && !is_intended(call),
            _ => false,
        };
        if !fits {
            return Err(format!("{call} is told as {outcome:?}, and the service knows {known:?}"));
        }
    }
    Ok(())
}

/// Each end of what went on in the background is told exactly once when somebody has gone on.
fn ends_are_told_once(records: &[Record]) -> Result<(), String> {
    for result in results(records, "behind").filter(|result| result.background.is_some()) {
        let input = background_input_id(&result.call_id);
        let told = records.iter().filter(|record| match record.body() {
            Body::Message(message) => match &**message {
                Message::User(user) => user.input_id.as_ref() == Some(&input),
                _ => false,
            },
            _ => false,
        });
        let told = told.count();
        if told != 1 {
            return Err(format!("the end of {} is told {told} times", result.call_id));
        }
    }
    Ok(())
}

fn ended_as_stopped(records: &[Record], run: u64) -> Result<(), String> {
    let end = records.iter().rev().find_map(|record| match record.body() {
        Body::Run(Run { run: of, state: RunState::Ended { end, .. } }) if *of == run => Some(*end),
        _ => None,
    });
    match end {
        Some(RunEnd::Stopped) => Ok(()),
        other => Err(format!("the user stopped run {run}, and it ended as {other:?}")),
    }
}

/// What an edit's result says is what the file holds.
fn tells_the_truth(disk: &SimDisk, session: &Session<FileLog<SimDisk>>) -> Result<(), String> {
    if *session.id() != id(1) {
        return Ok(());
    }
    let holds = disk.peek(Path::new(EDITED)).unwrap_or_default();
    // The whole log: a summary may have taken the place of earlier edits.
    let results = scan(disk, session.id())?.into_iter().filter_map(|record| match record.body() {
        Body::Message(message) => match &**message {
            Message::Tool(result) if result.name == "edit" => Some(result.clone()),
            _ => None,
        },
        _ => None,
    });
    let mut expected = b"before".to_vec();
    let mut unknown = false;
    for result in results {
        match result.outcome {
            Outcome::Done => expected = crate::scene::edited_by(&result.call_id),
            Outcome::NotRun => {}
            _ => unknown = true,
        }
    }
    if unknown || holds == expected {
        return Ok(());
    }
    let (holds, expected) = (String::from_utf8_lossy(&holds), String::from_utf8_lossy(&expected));
    Err(format!("by the results the file holds {expected:?}, and it holds {holds:?}"))
}
