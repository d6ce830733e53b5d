//! Histories in which pairing results with calls would be guessing.
//!
//! Responsible for: one labelled table: for every way in which a result can stand to the calls before it,
//! whether the child goes on or not. Calls without a result are no such thing: recovery says of each what is
//! known. Must not: pair for a request; [`crate::pairing`] does, and goes on where this refuses.

use crate::id::Seq;
use crate::line::Record;
use crate::record::{AssistantMessage, Body, Established, Message, Outcome, ToolMessage};
use std::collections::HashMap;

/// A result of which nobody can tell whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpairable {
    /// The word for programs.
    pub code: &'static str,
    /// The result's record.
    pub seq: Seq,
    /// For people and for the model.
    pub sentence: String,
}

/// What a result could answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// No call before it has its id.
    NoCall,
    /// It names a record that is not there any more.
    CallLost,
    /// One call waits for it.
    OneOpen,
    /// Several wait, and not all of them get one.
    SeveralOpen,
    /// Its call has a result.
    Answered,
}

/// The result that its call has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Earlier {
    /// It only says that the outcome is unknown.
    Unknown,
    /// It says the same.
    Same,
    /// It says something else.
    Other,
}

#[derive(Debug, Clone, Copy)]
struct Facts {
    target: Target,
    earlier: Earlier,
    /// Whether this result says more than that the outcome is unknown.
    real: bool,
}

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// The situation, in words.
    pub label: &'static str,
    /// The word for programs when the child does not go on.
    pub refuses: Option<&'static str>,
    matches: fn(&Facts) -> bool,
}

/// Every input matches exactly one row.
pub const TABLE: &[Row] = &[
    Row {
        label: "a call waits for it, whatever came in between and in whatever order",
        refuses: None,
        matches: |f| f.target == Target::OneOpen,
    },
    Row {
        label: "no call before it has its id: it is not sent",
        refuses: None,
        matches: |f| f.target == Target::NoCall,
    },
    Row {
        label: "the record of its call is damaged or lost",
        refuses: Some("unpairable-call-lost"),
        matches: |f| f.target == Target::CallLost,
    },
    Row {
        label: "several open calls have its id, and one of them has no result",
        refuses: Some("unpairable-two-calls"),
        matches: |f| f.target == Target::SeveralOpen,
    },
    Row {
        label: "its call's result only said that the outcome is unknown",
        refuses: None,
        matches: |f| f.target == Target::Answered && f.real && f.earlier == Earlier::Unknown,
    },
    Row {
        label: "its call has a result that says the same",
        refuses: None,
        matches: |f| f.target == Target::Answered && f.real && f.earlier == Earlier::Same,
    },
    Row {
        label: "its call has another real result",
        refuses: Some("unpairable-two-results"),
        matches: |f| f.target == Target::Answered && f.real && f.earlier == Earlier::Other,
    },
    Row {
        label: "it says that the outcome is unknown, and its call has a result",
        refuses: None,
        matches: |f| f.target == Target::Answered && !f.real,
    },
];

/// Looks through the active records of a log, in its order. Whether damage lies among them that nobody
/// decided upon is the store's to tell, and refuses before this.
#[must_use]
pub fn unpairable<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<Unpairable> {
    let mut scan = Scan::default();
    for record in records {
        let Body::Message(message) = record.body() else {
            scan.first = scan.first.or(record.is_node().then(|| record.seq()));
            continue;
        };
        scan.first = scan.first.or(Some(record.seq()));
        match &**message {
            Message::Assistant(reply) => scan.reply(record.seq(), reply),
            Message::Tool(result) => scan.result(record.seq(), result),
            Message::User(_) => {}
        }
    }
    scan.finish()
}

struct Call<'a> {
    turn: Seq,
    result: Option<&'a ToolMessage>,
}

/// A result that chose among several open calls of one reply.
struct Chose {
    seq: Seq,
    id: String,
    turn: Seq,
}

#[derive(Default)]
struct Scan<'a> {
    /// The first node at hand: what lies before it was summarised, and is no loss.
    first: Option<Seq>,
    turns: HashMap<Seq, ()>,
    calls: HashMap<&'a str, Vec<Call<'a>>>,
    chose: Vec<Chose>,
    found: Vec<Unpairable>,
}

impl<'a> Scan<'a> {
    fn reply(&mut self, seq: Seq, reply: &'a AssistantMessage) {
        self.turns.insert(seq, ());
        for call in reply.calls() {
            self.calls.entry(&call.id).or_default().push(Call { turn: seq, result: None });
        }
    }

    fn result(&mut self, seq: Seq, result: &'a ToolMessage) {
        let first = self.first.unwrap_or(seq);
        let named = result.call_seq.filter(|call| *call < seq);
        let lost = named.is_some_and(|call| call >= first && !self.turns.contains_key(&call));
        let none = &mut Vec::new();
        let calls = self.calls.get_mut(result.call_id.as_str()).unwrap_or(none);
        let meant = |call: &Call<'_>| named.is_none_or(|turn| call.turn == turn);
        let open: Vec<usize> =
            (0..calls.len()).filter(|i| meant(&calls[*i]) && calls[*i].result.is_none()).collect();
        let answered = calls.iter().rev().find(|call| meant(call)).and_then(|call| call.result);
        let target = match (lost, open.as_slice(), answered) {
            (true, ..) => Target::CallLost,
            (_, [_], _) => Target::OneOpen,
            (_, [], None) => Target::NoCall,
            (_, [], Some(_)) => Target::Answered,
            // Calls of one reply may share an id; whether each gets its result is known at the end.
            (_, [at, ..], _) if named.is_some() => {
                let (id, turn) = (result.call_id.clone(), calls[*at].turn);
                self.chose.push(Chose { seq, id, turn });
                Target::OneOpen
            }
            _ => Target::SeveralOpen,
        };
        if let Some(at) = open.first() {
            calls[*at].result = Some(result);
        }
        let earlier = match answered {
            Some(earlier) if !is_real(earlier) => Earlier::Unknown,
            Some(earlier) if says_the_same(earlier, result) => Earlier::Same,
            _ => Earlier::Other,
        };
        self.judge(seq, &result.call_id, Facts { target, earlier, real: is_real(result) });
    }

    fn judge(&mut self, seq: Seq, id: &str, facts: Facts) {
        let row = TABLE.iter().find(|row| (row.matches)(&facts));
        if let Some((code, label)) = row.and_then(|row| Some((row.refuses?, row.label))) {
            let sentence = format!("the result {seq} of call {id:?}: {label}");
            self.found.push(Unpairable { code, seq, sentence });
        }
    }

    fn finish(mut self) -> Vec<Unpairable> {
        for Chose { seq, id, turn } in std::mem::take(&mut self.chose) {
            let calls = self.calls.get(id.as_str()).map_or(&[][..], Vec::as_slice);
            if calls.iter().any(|call| call.turn == turn && call.result.is_none()) {
                let target = Target::SeveralOpen;
                self.judge(seq, &id, Facts { target, earlier: Earlier::Other, real: true });
            }
        }
        self.found
    }
}

fn is_real(result: &ToolMessage) -> bool {
    let silent = matches!(result.outcome, Outcome::Unknown | Outcome::NotRecorded);
    !(silent && matches!(result.established, Established::Recovery | Established::Origin))
}

fn says_the_same(a: &ToolMessage, b: &ToolMessage) -> bool {
    (&a.content, a.is_error, a.outcome) == (&b.content, b.is_error, b.outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{AssistantBlock, Block, ModelRef, UserMessage};

    /// A record per word: `u` a prompt, `aX,Y` a reply with calls, `rX@N=TEXT` a result (of the call in
    /// record N), `?` after it an unknown one; `-` before a word loses that record.
    fn records(text: &str) -> Vec<Record> {
        let mut records = Vec::new();
        for (seq, word) in text.split_whitespace().enumerate() {
            let (lost, word) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
            let message = match word.split_at(1) {
                ("a", ids) => {
                    let calls = ids.split(',').filter(|id| !id.is_empty());
                    let calls = calls.map(|id| AssistantBlock::call(id, "t", "{}")).collect();
                    Message::Assistant(AssistantMessage::new(&ModelRef::default(), calls))
                }
                ("r", rest) => Message::Tool(result(rest)),
                _ => Message::User(UserMessage::text("hello")),
            };
            let body = Body::Message(Box::new(message));
            let envelope = crate::line::Envelope {
                seq: seq as u64 + 1,
                parent: (seq > 0).then_some(seq as u64),
                parent_at: None,
                at: crate::Timestamp(0),
                kind: "message".into(),
                synced: None,
            };
            let line = crate::line::encode(&envelope, &body).unwrap();
            if !lost {
                records.push(crate::line::decode(&line, 0).unwrap());
            }
        }
        records
    }

    fn result(rest: &str) -> ToolMessage {
        let (rest, unknown) = rest.strip_suffix('?').map_or((rest, false), |rest| (rest, true));
        let (rest, text) = rest.split_once('=').unwrap_or((rest, "ok"));
        let (id, at) = rest.split_once('@').map_or((rest, None), |(id, at)| (id, at.parse().ok()));
        ToolMessage {
            call_id: id.into(),
            call_seq: at,
            name: "t".into(),
            content: vec![Block::text(text)],
            whole: None,
            is_error: unknown,
            outcome: if unknown { Outcome::Unknown } else { Outcome::Done },
            established: if unknown { Established::Recovery } else { Established::Observed },
            background: None,
        }
    }

    fn codes(text: &str) -> String {
        let found = unpairable(&records(text));
        found.iter().map(|u| u.code).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_input_matches_one_row() {
        let targets = [
            Target::NoCall,
            Target::CallLost,
            Target::OneOpen,
            Target::SeveralOpen,
            Target::Answered,
        ];
        for target in targets {
            for earlier in [Earlier::Unknown, Earlier::Same, Earlier::Other] {
                for real in [true, false] {
                    let facts = Facts { target, earlier, real };
                    let hits = TABLE.iter().filter(|row| (row.matches)(&facts)).count();
                    assert_eq!(hits, 1, "{facts:?}");
                }
            }
        }
    }

    /// Every row says continue or refuse. Covers: RS19, RS33, LK12.
    #[test]
    fn every_history_goes_on_or_is_refused() {
        let rows = [
            ("a gap, then a prompt", "u aX u a", ""),
            ("a gap in what a summary kept", "aX,Y rX@1 u a", ""),
            ("a call in a turn that is not the last", "u aX aY rY@3 a", ""),
            ("an orphan", "u rX a", ""),
            ("a result before its call", "u rX aX a", ""),
            ("an id that is used again when its call is answered", "u aX rX@2 aX rX@4 a", ""),
            ("the same without the calls' records", "u aX rX aX rX a", ""),
            ("a new reply while a call waits", "u aX a", ""),
            ("a new prompt while a call waits, then the result", "u aX u rX@2 a", ""),
            ("a second batch while a call waits", "u aX aY rX@2 rY@3 a", ""),
            ("results out of order", "u aX,Y rY@2 rX@2 a", ""),
            ("the same result twice", "u aX rX@2 rX@2 a", ""),
            ("a real one behind an unknown one", "u aX rX@2=? rX@2 a", ""),
            ("an unknown one behind a real one", "u aX rX@2 rX@2=x? a", ""),
            ("two calls of one reply share an id, both answered", "u aX,X rX@2 rX@2=b a", ""),
            ("its call was summarised away", "-aX u rX@1 a", ""),
            (
                "two calls of one reply share an id, one answered",
                "u aX,X rX@2 a",
                "unpairable-two-calls",
            ),
            (
                "two replies share an id, and the result names none",
                "u aX aX rX a",
                "unpairable-two-calls",
            ),
            ("two results that differ", "u aX rX@2=a rX@2=b a", "unpairable-two-results"),
            ("the call's record is lost", "u -aX rX@2 a", "unpairable-call-lost"),
        ];
        for (label, text, expected) in rows {
            assert_eq!(codes(text), expected, "{label}");
        }
    }

    /// The published table is this one. Covers: RS33.
    #[test]
    fn the_table_is_published() {
        let page = include_str!("../../../../docs/subagents.md");
        for row in TABLE {
            let line = match row.refuses {
                Some(code) => format!("| {} | refused: `{code}` |", row.label),
                None => format!("| {} | goes on |", row.label),
            };
            assert!(page.contains(&line), "{line}");
        }
    }
}
