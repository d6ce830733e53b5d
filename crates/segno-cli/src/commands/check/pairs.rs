//! Whether every tool call of the whole log, on all branches, has its result.
//!
//! Responsible for: saying what pairing made of calls and results. Must not: pair by rules of its own;
//! those are in the model crate.

use segno_model::finding::{Finding, Severity};
use segno_model::pairing::{Reported, Turn, Verdict, pair};
use segno_model::record::{AssistantMessage, Body, Message, Outcome, ToolMessage};
use segno_model::{Record, Seq};

/// What is unusual about calls and results.
pub(super) fn findings(records: &[Record]) -> Vec<Finding> {
    let (turns, results, replies) = taken_apart(records);
    let pairs = pair(&turns, &results, &replies);
    let of_results = results.iter().zip(&pairs.verdicts);
    let mut found: Vec<Finding> =
        of_results.filter_map(|(result, verdict)| of_result(result.seq, *verdict)).collect();
    for (turn, answers) in turns.iter().zip(&pairs.answers) {
        let open = answers.iter().filter(|answer| answer.is_none()).count();
        if open > 0 {
            found.push(unanswered(turn.seq, open));
        }
    }
    found
}

/// What becomes of each result.
pub(crate) fn verdicts(records: &[Record]) -> Vec<(Seq, Verdict)> {
    let (turns, results, replies) = taken_apart(records);
    let pairs = pair(&turns, &results, &replies);
    results.iter().map(|result| result.seq).zip(pairs.verdicts).collect()
}

fn taken_apart(records: &[Record]) -> (Vec<Turn<'_>>, Vec<Reported<'_>>, Vec<Seq>) {
    let (mut turns, mut results, mut replies) = (Vec::new(), Vec::new(), Vec::new());
    for record in records {
        let Body::Message(message) = record.body() else { continue };
        match &**message {
            Message::User(_) => {}
            Message::Assistant(reply) => {
                replies.push(record.seq());
                turns.push(turn(record.seq(), reply));
            }
            Message::Tool(result) => results.push(reported(record.seq(), result)),
        }
    }
    (turns, results, replies)
}

fn turn(seq: Seq, reply: &AssistantMessage) -> Turn<'_> {
    let calls = reply.calls().map(|call| (call.id.as_str(), call.name.as_str())).collect();
    Turn { seq, calls }
}

fn reported(seq: Seq, result: &ToolMessage) -> Reported<'_> {
    Reported {
        seq,
        call_seq: result.call_seq,
        id: &result.call_id,
        name: &result.name,
        real: result.outcome != Outcome::Unknown,
    }
}

fn of_result(seq: Seq, verdict: Verdict) -> Option<Finding> {
    let (code, severity, what) = match verdict {
        Verdict::Answers | Verdict::Replaces => return None,
        Verdict::Duplicate => ("duplicate-result", Severity::Note, "its call has a result already"),
        Verdict::Superseded => {
            ("superseded-result", Severity::Note, "it said unknown, and the real result came")
        }
        Verdict::NoCall => ("result-without-call", Severity::Warning, "no call has its id"),
        // Only when the call's record is lost, and that is reported where it is.
        Verdict::Outside => ("result-of-lost-call", Severity::Note, "its call cannot be read"),
    };
    Some(Finding {
        code,
        severity,
        seq: Some(seq),
        sentence: format!("the result in record {seq} is not sent: {what}"),
        done: "it stays in the transcript".to_owned(),
        ..Finding::default()
    })
}

fn unanswered(seq: Seq, open: usize) -> Finding {
    let calls = if open == 1 { "1 call".to_owned() } else { format!("{open} calls") };
    Finding {
        code: "call-without-result",
        severity: Severity::Note,
        seq: Some(seq),
        sentence: format!("{calls} of record {seq} have no result"),
        done: "the model is told that the outcome is unknown".to_owned(),
        ..Finding::default()
    }
}
