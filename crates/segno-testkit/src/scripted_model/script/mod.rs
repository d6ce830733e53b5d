//! Scripts: rules from what a request contains to what is answered.
//!
//! Responsible for: the shape of a script and choosing the rule that answers a request. Must not:
//! take an answer from anywhere but the request (a rule may only count how often it was used).

mod line;
mod parse;

pub(crate) use parse::fill;

use super::reply::{Answer, Numbers, Part, Reply};
use super::seen::{Seen, Turn, Wire};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// A parsed script; `docs/protocol/scripted-model.md` describes the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub(crate) settings: Settings,
    pub(crate) rules: Vec<Rule>,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The first line that makes no sense.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        parse::script(text)
    }
}

impl std::str::FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        Self::parse(text)
    }
}

/// A script that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ScriptError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// What holds for all rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Refuse a request that does not extend the one before.
    pub(crate) strict_prefix: bool,
    /// Answer what should be refused, too; it is noted.
    pub(crate) lenient: bool,
    pub(crate) auth: Auth,
    /// The model's window in tokens; longer requests are refused.
    pub(crate) window: Option<u64>,
    /// The largest body.
    pub(crate) max_bytes: usize,
    /// The models that are listed.
    pub(crate) models: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            strict_prefix: false,
            lenient: false,
            auth: Auth::Usual,
            window: None,
            max_bytes: 32 * 1024 * 1024,
            models: vec!["scripted".to_owned()],
        }
    }
}

/// What is asked of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    /// Any key, on all wires but Chat, whose local servers ask for none.
    Usual,
    /// Any key, on all wires.
    Required,
    /// No key.
    Off,
    /// No key is good enough.
    Refuse,
}

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) conditions: Vec<Condition>,
    /// How often it may answer in one session.
    pub(crate) limit: Option<usize>,
    /// Whether its requests may have a prefix of their own.
    pub(crate) new_prefix: bool,
    pub(crate) answer: Template,
}

/// What a rule answers, before names are filled in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Template {
    /// A reply; its texts hold names.
    Reply(Reply),
    /// Anything else as it is.
    Fixed(Answer),
}

/// What has to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    Text {
        subject: Subject,
        test: Test,
        literal: String,
        captures: Vec<Capture>,
    },
    Count {
        what: Count,
        compare: Compare,
        number: usize,
    },
    Wire(Wire),
    Tool {
        name: String,
        offered: bool,
    },
    Last(&'static str),
    /// A state is asked for.
    Compaction,
}

/// Which text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The last user turn.
    User,
    /// The last line of the last user turn that is not blank: what was asked just now, even if older
    /// words were joined with it.
    Prompt,
    /// The results that the model has to react to now.
    Result,
    /// Any result, newest first.
    Results,
    /// Any turn, newest first.
    History,
    System,
    Model,
}

/// How text is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Test {
    Contains,
    Lacks,
    Is,
    /// A line starts with it.
    Line,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// All turns.
    Turns,
    /// Replies since the user last spoke.
    Replies,
}

/// How a count is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Exactly,
    AtLeast,
    AtMost,
}

/// Takes text behind what matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) name: String,
    pub(crate) until: Until,
}

/// Where a capture ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Until {
    Space,
    Line,
    End,
    Text(String),
}

/// Names and what they stand for.
pub(crate) type Names = BTreeMap<String, String>;

/// The names that every rule knows.
pub(crate) const BUILT_IN: [&str; 6] =
    ["user", "prompt", "result", "result_line", "model", "tools"];

/// The chosen rule and its answer.
#[derive(Debug)]
pub(crate) struct Picked<'a> {
    pub(crate) rule: &'a Rule,
    pub(crate) answer: Answer,
}

impl Script {
    /// The first rule that fits, if any; requests for states have rules of their own. `used` counts the rules' answers in this session.
    pub(crate) fn pick(&self, seen: &Seen, used: &mut HashMap<usize, usize>) -> Option<Picked<'_>> {
        for (index, rule) in self.rules.iter().enumerate() {
            if rule.conditions.contains(&Condition::Compaction) != seen.compaction {
                continue;
            }
            let spent = used.get(&index).copied().unwrap_or(0);
            if rule.limit.is_some_and(|limit| spent >= limit) {
                continue;
            }
            let mut names = built_in(seen);
            if rule.conditions.iter().all(|condition| condition.holds(seen, &mut names)) {
                used.insert(index, spent + 1);
                return Some(Picked { rule, answer: rule.answer.fill(&names) });
            }
        }
        None
    }
}

fn built_in(seen: &Seen) -> Names {
    let tools: Vec<&str> = seen.tools.iter().map(|tool| tool.name.as_str()).collect();
    let result = seen.last_result_text().unwrap_or_default();
    let line = result.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
    let values: [String; BUILT_IN.len()] =
        [seen.last_user_text(), seen.prompt(), result, line, seen.model.clone(), tools.join(", ")];
    BUILT_IN.iter().map(ToString::to_string).zip(values).collect()
}

impl Condition {
    fn holds(&self, seen: &Seen, names: &mut Names) -> bool {
        match self {
            Self::Text { subject, test, literal, captures } => {
                let texts = subject.texts(seen);
                match test {
                    Test::Lacks => !texts.is_empty() && !texts.iter().any(|t| t.contains(literal)),
                    _ => texts.iter().any(|text| test.matches(text, literal, captures, names)),
                }
            }
            Self::Count { what, compare, number } => {
                let count = match what {
                    Count::Turns => seen.turns.len(),
                    Count::Replies => seen.replies_since_user(),
                };
                match compare {
                    Compare::Exactly => count == *number,
                    Compare::AtLeast => count >= *number,
                    Compare::AtMost => count <= *number,
                }
            }
            Self::Wire(wire) => seen.wire == *wire,
            Self::Tool { name, offered } => {
                seen.tools.iter().any(|tool| tool.name == *name) == *offered
            }
            Self::Compaction => seen.compaction,
            Self::Last(role) => seen.turns.last().map(Turn::role) == Some(role),
        }
    }
}

impl Subject {
    fn texts(self, seen: &Seen) -> Vec<String> {
        match self {
            Self::User => vec![seen.last_user_text()],
            Self::Prompt => vec![seen.prompt()],
            Self::Result => seen.last_result_text().into_iter().collect(),
            Self::Results => seen.results().rev().map(|r| r.text.clone()).collect(),
            Self::History => seen.turns.iter().rev().map(Turn::text).collect(),
            Self::System => vec![seen.system.clone()],
            Self::Model => vec![seen.model.clone()],
        }
    }
}

impl Test {
    /// Tries each place where the literal stands until all captures succeed.
    fn matches(self, text: &str, literal: &str, captures: &[Capture], names: &mut Names) -> bool {
        if self == Self::Is {
            return text.trim() == literal;
        }
        text.match_indices(literal).any(|(start, _)| {
            let at_line = start == 0 || text[..start].ends_with('\n');
            (self != Self::Line || at_line)
                && capture(&text[start + literal.len()..], captures, names)
        })
    }
}

fn capture(text: &str, captures: &[Capture], names: &mut Names) -> bool {
    let (mut rest, mut found) = (text, Vec::new());
    for Capture { name, until } in captures {
        let (value, tail) = match until {
            Until::End => (rest, ""),
            Until::Line => rest.split_once('\n').unwrap_or((rest, "")),
            Until::Space => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                if end == 0 {
                    return false;
                }
                rest.split_at(end)
            }
            Until::Text(text) => match rest.split_once(text.as_str()) {
                Some(parts) => parts,
                None => return false,
            },
        };
        found.push((name.clone(), value.trim_end_matches('\r').to_owned()));
        rest = tail;
    }
    names.extend(found);
    true
}

impl Template {
    fn fill(&self, names: &Names) -> Answer {
        let reply = match self {
            Self::Fixed(answer) => return answer.clone(),
            Self::Reply(reply) => reply,
        };
        let parts = reply.parts.iter().map(|part| match part {
            Part::Thinking { text, redacted } => {
                Part::Thinking { text: fill(text, names), redacted: *redacted }
            }
            Part::Text(text) => Part::Text(fill(text, names)),
            Part::Call { id, name, arguments } => {
                // Names stand inside the strings of the arguments, so that what is filled in can
                // never break them; malformed arguments are sent as they are.
                let filled = serde_json::from_str(arguments).map(|v| fill_strings(v, names));
                Part::Call {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: filled.map_or_else(|_| arguments.clone(), |v| v.to_string()),
                }
            }
        });
        let parts = parts.collect();
        let usage: Numbers = reply.usage;
        Answer::Reply(Reply { parts, usage, stop: reply.stop, faults: reply.faults.clone() })
    }
}

fn fill_strings(value: Value, names: &Names) -> Value {
    match value {
        Value::String(text) => Value::String(fill(&text, names)),
        Value::Array(items) => items.into_iter().map(|v| fill_strings(v, names)).collect(),
        Value::Object(map) => map.into_iter().map(|(k, v)| (k, fill_strings(v, names))).collect(),
        other => other,
    }
}
