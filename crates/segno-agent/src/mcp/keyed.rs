//! Calls with an operation id whose answer is missing.
//!
//! Responsible for: asking by that id first, and one pure decision from the answer: it was done; it may be
//! sent again, with the same id; it is taken back; or nobody knows (section 6 of the design). Must not:
//! send a call again unless the service does not know its id *and* the id makes that safe, or do anything
//! when the user stopped the run.

use super::config::Ask;
use super::server::{Ended, Server, Tool};
use segno_model::record::{Block, Outcome};
use segno_runtime::ToolOutput;
use serde_json::{Map, Value};

/// What the service says about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Says {
    /// It was not asked: nobody said how.
    NotAsked,
    /// It knows it.
    Known,
    /// It does not know it.
    Absent,
    /// It gave no answer that says either.
    Unclear,
}

/// Everything that the decision is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Facts {
    says: Says,
    /// Whether a second call with the same id does nothing new.
    repeatable: bool,
    /// Whether it can be taken back by its id.
    compensates: bool,
    /// Whether anything may be done now: somebody goes on with what was interrupted.
    may_act: bool,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Decision {
    Done,
    Repeat,
    Compensate,
    Unknown,
}

struct Row {
    /// What is so, as a person would say it.
    label: &'static str,
    matches: fn(&Facts) -> bool,
    decision: Decision,
}

/// Every combination of facts matches exactly one row.
const TABLE: &[Row] = &[
    Row {
        label: "the service knows the operation",
        matches: |f| f.says == Says::Known,
        decision: Decision::Done,
    },
    Row {
        label: "the service gave no clear answer about it",
        matches: |f| f.says == Says::Unclear,
        decision: Decision::Unknown,
    },
    Row {
        label: "the service did not know it, and it could safely be sent again with the same id",
        matches: |f| f.says == Says::Absent && f.repeatable && f.may_act,
        decision: Decision::Repeat,
    },
    Row {
        label: "it could not be sent again safely, but taken back",
        matches: |f| f.is_open() && !f.can_repeat() && f.compensates && f.may_act,
        decision: Decision::Compensate,
    },
    Row {
        label: "the service does not know it so far; it may still arrive",
        matches: |f| f.says == Says::Absent && !f.can_act(),
        decision: Decision::Unknown,
    },
    Row {
        label: "nobody can be asked about it",
        matches: |f| f.says == Says::NotAsked && !f.can_act(),
        decision: Decision::Unknown,
    },
];

impl Facts {
    fn is_open(&self) -> bool {
        matches!(self.says, Says::NotAsked | Says::Absent)
    }

    fn can_repeat(&self) -> bool {
        self.says == Says::Absent && self.repeatable
    }

    fn can_act(&self) -> bool {
        self.may_act && (self.can_repeat() || self.compensates)
    }
}

fn decide(facts: &Facts) -> (Decision, &'static str) {
    let row = TABLE.iter().find(|row| (row.matches)(facts));
    row.map_or((Decision::Unknown, "it is in no table"), |row| (row.decision, row.label))
}

/// Finds out what became of a call, and does what is safe about it.
pub(super) async fn settle(
    server: &Server,
    tool: &Tool,
    key: &str,
    arguments: Option<Map<String, Value>>,
    may_act: bool,
) -> ToolOutput {
    let Some(keyed) = server.keyed(tool) else { return unknown(&tool.name, "") };
    let (says, answer) = match &keyed.query {
        Some(query) => ask(server, query, key).await,
        None => (Says::NotAsked, None),
    };
    let facts = Facts {
        says,
        repeatable: server.is_repeatable(tool) && arguments.is_some(),
        compensates: keyed.compensate.is_some(),
        may_act,
    };
    let (decision, because) = decide(&facts);
    match (decision, arguments, &keyed.compensate) {
        (Decision::Done, ..) => {
            let head = format!("No answer came, but {because} ({key}). It says:");
            with_head(&head, answer, Outcome::Done)
        }
        (Decision::Repeat, Some(arguments), _) => {
            match server.call(&tool.name, server.with_key(tool, arguments, Some(key))).await {
                Ended::Result(output) => {
                    let head = format!("No answer came; {because} ({key}), and was. It says:");
                    let outcome = output.outcome;
                    with_head(&head, Some(output), outcome)
                }
                Ended::NotSent(why) | Ended::Lost(why) => unknown(&tool.name, &why),
            }
        }
        (Decision::Compensate, _, Some(compensate)) => take_back(server, compensate, key).await,
        _ => unknown(&tool.name, because),
    }
}

async fn ask(server: &Server, query: &Ask, key: &str) -> (Says, Option<ToolOutput>) {
    match server.call(&query.tool, by_id(query, key)).await {
        Ended::Result(output) => {
            let says = understand(output.is_error, &text(&output), query.absent.as_deref());
            (says, Some(output))
        }
        Ended::NotSent(_) | Ended::Lost(_) => (Says::Unclear, None),
    }
}

/// What an answer says about an operation.
fn understand(is_error: bool, text: &str, absent: Option<&str>) -> Says {
    match absent {
        Some(words) if text.contains(words) => Says::Absent,
        _ if is_error => Says::Unclear,
        None if ["", "null", "[]", "{}", "(no output)"].contains(&text.trim()) => Says::Absent,
        _ => Says::Known,
    }
}

async fn take_back(server: &Server, compensate: &Ask, key: &str) -> ToolOutput {
    match server.call(&compensate.tool, by_id(compensate, key)).await {
        Ended::Result(output) if !output.is_error => {
            let head = format!(
                "No answer came, and it could not be sent again safely; so it was taken back with {} \
                 ({key}). Do it again if it is needed. {} says:",
                compensate.tool, compensate.tool
            );
            ToolOutput { is_error: true, ..with_head(&head, Some(output), Outcome::Failed) }
        }
        Ended::Result(output) => unknown(&compensate.tool, &text(&output)),
        Ended::NotSent(why) | Ended::Lost(why) => unknown(&compensate.tool, &why),
    }
}

fn by_id(ask: &Ask, key: &str) -> Map<String, Value> {
    Map::from_iter([(ask.argument.clone(), Value::from(key))])
}

fn with_head(head: &str, answer: Option<ToolOutput>, outcome: Outcome) -> ToolOutput {
    let mut output = ToolOutput::new(head, !matches!(outcome, Outcome::Done), outcome);
    if let Some(answer) = answer {
        output.content.extend(answer.content);
        output.whole = answer.whole;
    }
    output
}

/// What is told when nobody knows.
pub(super) fn unknown(name: &str, why: &str) -> ToolOutput {
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let text = format!(
        "{name}: no answer came, and whether the call had its effect is unknown{why}. Find out before \
         calling it again."
    );
    ToolOutput::new(text, true, Outcome::Unknown)
}

fn text(output: &ToolOutput) -> String {
    let texts = output.content.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.head()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every combination matches exactly one row; nothing is repeated that is not absent and repeatable,
    /// and nothing is done when nothing may be. Covers: G7, G9.
    #[test]
    fn every_state_is_in_exactly_one_row() {
        for says in [Says::NotAsked, Says::Known, Says::Absent, Says::Unclear] {
            for bits in 0..8 {
                let [repeatable, compensates, may_act] = [1, 2, 4].map(|bit| bits & bit != 0);
                let facts = Facts { says, repeatable, compensates, may_act };
                let rows: Vec<_> = TABLE.iter().filter(|row| (row.matches)(&facts)).collect();
                let labels: Vec<_> = rows.iter().map(|row| row.label).collect();
                assert_eq!(rows.len(), 1, "{facts:?}: {labels:?}");
                match rows[0].decision {
                    Decision::Done => assert_eq!(says, Says::Known),
                    Decision::Repeat => assert!(says == Says::Absent && repeatable && may_act),
                    Decision::Compensate => assert!(compensates && may_act && says != Says::Known),
                    Decision::Unknown => assert_ne!(says, Says::Known),
                }
            }
        }
    }

    #[test]
    fn answers_as_services_give_them() {
        let cases = [
            (false, "ticket 7", None, Says::Known),
            (false, "", None, Says::Absent),
            (false, "null", None, Says::Absent),
            (false, "[]", None, Says::Absent),
            (true, "down", None, Says::Unclear),
            (true, "no such operation", Some("no such"), Says::Absent),
            (false, "no such operation", Some("no such"), Says::Absent),
            (false, "ticket 7", Some("no such"), Says::Known),
            (true, "down", Some("no such"), Says::Unclear),
        ];
        for (is_error, text, absent, expected) in cases {
            assert_eq!(understand(is_error, text, absent), expected, "{text:?} {absent:?}");
        }
    }
}
