//! What the next request would hold.
//!
//! Responsible for: the messages of the context in order, and for each record why it is in or out.
//! Must not: decide it; that is the model crate's `context`.

use super::outlook::Outlook;
use crate::commands::Workplace;
use crate::config;
use crate::error::CliError;
use crate::history::{blocks_text, gist, role};
use crate::terminal::table::{Column, Table, count, plural};
use crate::terminal::{Screen, Text, Tone, clean};
use segno_agent::provider::target as target_of;
use segno_model::Checkpoint;
use segno_model::compaction::Native;
use segno_model::context::{
    self, Context, ContextMessage, IN_STATE, RULES, StateRule, Target, TraceRow, state_rule,
};
use segno_model::record::{AssistantBlock, ModelRef};
use segno_model::store::{SessionStore as _, Snapshot};
use segno_model::{Record, SessionId};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Prints it.
///
/// # Errors
/// When the session cannot be read.
pub(super) async fn show(
    id: &SessionId,
    place: &Workplace,
    as_json: bool,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let snapshot = place.stores.files.read(id).await?;
    let records = &snapshot.active.records;
    let config = config::read(&place.stores.home.config).unwrap_or_default();
    let in_force = &snapshot.state.in_force;
    let target = target(in_force, &config);
    let whole = context::build(records, snapshot.state.tip());
    let used = target.as_ref().map(|target| state_rule(whole.state.as_ref(), target));
    let context = match &target {
        Some(target) => whole.for_target(target),
        None => whole,
    };
    let outlook = Outlook::of(id, &snapshot, &context, &config, target.as_ref());
    let tokens = outlook.tokens;
    if as_json {
        screen.json(&document(id, &snapshot, (&context, used), &outlook));
        return Ok(());
    }
    screen.lines(summary(&snapshot, &context, tokens));
    screen.lines(outlook.lines());
    screen.lines(state_line(&context, used));
    screen.line("");
    let columns = screen.look().columns;
    screen.lines(messages(&context, in_force.model.as_ref()).lines(columns));
    screen.line("");
    screen.lines(reasons(records, &context.trace).lines(columns));
    Ok(())
}

/// Who is asked next, as far as the session says so.
fn target(in_force: &Checkpoint, config: &config::Config) -> Option<Target> {
    let target = target_of(in_force.model.as_ref()?, in_force.base_url.as_deref())?;
    let states = config.compaction.settings().native != Native::Never;
    Some(Target { states, ..target })
}

/// Whether the provider's own state stands in place of the summary, and why.
fn state_line(context: &Context, used: Option<&StateRule>) -> Vec<Text> {
    let (Some(state), Some(rule)) = (&context.state, used) else { return Vec::new() };
    let text = match rule.sent {
        true => format!(
            "the state that {} itself made with record {} stands for the summary and the kept words: {}",
            state.model, state.seq, rule.why
        ),
        false => format!(
            "the state that {} itself made with record {} is not sent, the summary stands: {}",
            state.model, state.seq, rule.why
        ),
    };
    vec![Text::line(Tone::Dim, &text)]
}

/// Prints the context of another agent's session, which knows of no environment.
pub(super) fn show_other(
    id: &str,
    records: &[Record],
    context: &Context,
    as_json: bool,
    screen: &mut Screen,
) {
    let tokens = context::estimate_messages(&context.messages);
    if as_json {
        screen.json(&json!({
            "version": 1, "id": id, "tokens": tokens, "messages": resolved(context),
            "trace": context.trace, "unanswered": unanswered(context), "findings": context.findings,
        }));
        return;
    }
    let text = format!(
        "The next request would hold {}, about {} tokens",
        plural(context.messages.len(), "message"),
        count(tokens)
    );
    screen.line(Text::line(Tone::Strong, &text));
    screen.lines(doubts(context));
    screen.line("");
    let columns = screen.look().columns;
    screen.lines(messages(context, None).lines(columns));
    screen.line("");
    screen.lines(reasons(records, &context.trace).lines(columns));
}

fn summary(snapshot: &Snapshot, context: &Context, tokens: u64) -> Vec<Text> {
    let in_force = &snapshot.state.in_force;
    let model = in_force.model.as_ref().map_or_else(|| "none yet".to_owned(), ToString::to_string);
    let mut out = vec![Text::line(
        Tone::Strong,
        &format!(
            "The next request holds {}, about {} tokens; model: {model}",
            plural(context.messages.len(), "message"),
            count(tokens)
        ),
    )];
    if let Some(environment) = &in_force.environment {
        let system = environment.system.as_ref().map_or("none", |blob| blob.blob.as_str());
        let text = format!(
            "system prompt: blob {system}; {}; {}",
            plural(environment.tools.len(), "tool"),
            plural(environment.instructions.len(), "instruction file")
        );
        out.push(Text::line(Tone::Dim, &text));
    }
    out.extend(doubts(context));
    out
}

fn doubts(context: &Context) -> Vec<Text> {
    let open = context
        .unanswered
        .iter()
        .map(|call| format!("call {} of record {} has no result", call.call_id, call.call_seq));
    let found = context.findings.iter().map(|finding| finding.sentence.clone());
    open.chain(found).map(|text| Text::line(Tone::Warning, &text)).collect()
}

/// Who says what, in the order in which it is sent.
fn messages(context: &Context, model: Option<&ModelRef>) -> Table {
    let columns = vec![
        Column::left("ROLE"),
        Column::right("RECORD"),
        Column::right("TOKENS"),
        Column::left("TEXT").shrinks_to(20),
    ];
    let mut table = Table::new(columns);
    for message in &context.messages {
        let tokens = context::estimate_messages_for(std::slice::from_ref(message), model);
        for (role, seq, text) in parts(message) {
            let seq = seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
            table.row([
                Text::line(Tone::Accent, role),
                Text::line(Tone::Plain, &seq),
                Text::line(Tone::Plain, &count(tokens)),
                Text::line(Tone::Plain, &clean::cut(&clean::line(&text), 200)),
            ]);
        }
    }
    table
}

fn parts(message: &ContextMessage) -> Vec<(&'static str, Option<u64>, String)> {
    match message {
        ContextMessage::User { seq, content } => {
            vec![("user", Some(*seq), blocks_text(content))]
        }
        ContextMessage::Assistant(turn) => {
            vec![("assistant", Some(turn.seq), reply_text(&turn.content))]
        }
        ContextMessage::Results(results) => {
            results.iter().map(|r| ("result", r.seq, blocks_text(&r.content))).collect()
        }
        ContextMessage::State(state) => {
            vec![(
                "state",
                Some(state.seq),
                "(the provider's own state of what lies back)".to_owned(),
            )]
        }
    }
}

fn reply_text(blocks: &[AssistantBlock]) -> String {
    let texts = blocks.iter().map(|block| match block {
        AssistantBlock::Text { text } => text.clone(),
        AssistantBlock::Thinking { .. } => "(thinking)".to_owned(),
        AssistantBlock::ToolCall(call) => format!("→ {} {}", call.name, call.arguments),
        AssistantBlock::Unknown => "(unknown)".to_owned(),
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Every record looked at, and why it is in or out.
fn reasons(records: &[Record], trace: &[TraceRow]) -> Table {
    let why: HashMap<&str, &str> = RULES.iter().map(|rule| (rule.label, rule.why)).collect();
    let columns = vec![
        Column::right("RECORD"),
        Column::left("SENT"),
        Column::left("ROLE"),
        Column::left("BECAUSE"),
        Column::left("TEXT").shrinks_to(8).leaves(1),
    ];
    let mut table = Table::new(columns);
    for (row, record) in trace.iter().zip(records).filter(|(row, _)| row.rule != "metadata") {
        let (sent, tone) = if row.included { ("in", Tone::Good) } else { ("out", Tone::Dim) };
        let because = match row.rule {
            IN_STATE => "the provider's own state tells of it",
            label => why.get(label).copied().unwrap_or(label),
        };
        table.row([
            Text::line(Tone::Plain, &row.seq.to_string()),
            Text::line(tone, sent),
            Text::line(Tone::Plain, role(record)),
            Text::line(tone, because),
            Text::line(Tone::Dim, &clean::cut(&clean::line(&gist(record)), 200)),
        ]);
    }
    table
}

fn document(
    id: &SessionId,
    snapshot: &Snapshot,
    (context, used): (&Context, Option<&StateRule>),
    outlook: &Outlook,
) -> Value {
    let state = context.state.as_ref().zip(used).map(|(state, rule)| {
        json!({ "seq": state.seq, "model": state.model.to_string(), "sent": rule.sent, "rule": rule.label })
    });
    let in_force = &snapshot.state.in_force;
    json!({
        "version": 1,
        "id": id,
        "model": in_force.model.as_ref().map(ToString::to_string),
        "system": in_force.environment.as_ref().and_then(|e| e.system.as_ref()),
        "tokens": outlook.tokens,
        "ledger": outlook.json(),
        "state": state,
        "bytes_read": snapshot.active.bytes_read,
        "messages": resolved(context),
        "trace": context.trace,
        "unanswered": unanswered(context),
        "findings": context.findings,
    })
}

fn unanswered(context: &Context) -> Vec<Value> {
    let row = |call: &context::Unanswered| json!({ "seq": call.call_seq, "call_id": call.call_id, "tool": call.name });
    context.unanswered.iter().map(row).collect()
}

/// The messages of a context as JSON.
pub(in crate::commands) fn resolved(context: &Context) -> Vec<Value> {
    let message = |message: &ContextMessage| match message {
        ContextMessage::User { seq, content } => {
            json!({ "role": "user", "seq": seq, "content": content })
        }
        ContextMessage::State(state) => json!({
            "role": "state", "seq": state.seq, "dialect": state.native.dialect, "items": state.native.items,
        }),
        ContextMessage::Assistant(turn) => json!({
            "role": "assistant",
            "seq": turn.seq,
            "model": turn.model.to_string(),
            "content": turn.content,
        }),
        ContextMessage::Results(results) => {
            let results: Vec<Value> = results
                .iter()
                .map(|r| {
                    json!({
                        "seq": r.seq, "call_id": r.call_id, "tool": r.name,
                        "is_error": r.is_error, "content": r.content,
                    })
                })
                .collect();
            json!({ "role": "results", "results": results })
        }
    };
    context.messages.iter().map(message).collect()
}
