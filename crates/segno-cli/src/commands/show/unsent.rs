//! Results that stand in a transcript and are not sent to the model.
//!
//! Responsible for: saying why, beside the result. Must not: pair by rules of its own: ours are those of the model
//! crate, and another agent's calls were paired when its session was read.

use crate::commands::check::pairs;
use segno_model::record::{Body, Message, Outcome};
use segno_model::{Record, Seq};
use std::collections::{HashMap, HashSet};

const NO_CALL: &str = "not sent to the model: no call has its id";
const SECOND: &str = "not sent to the model: its call has a result already";

/// Of all results of one of our logs.
pub(crate) fn of_log(records: &[Record]) -> HashMap<Seq, &'static str> {
    let verdicts = pairs::verdicts(records).into_iter();
    verdicts.filter_map(|(seq, verdict)| Some((seq, words(verdict)?))).collect()
}

fn words(verdict: segno_model::pairing::Verdict) -> Option<&'static str> {
    use segno_model::pairing::Verdict;
    match verdict {
        Verdict::Answers | Verdict::Replaces => None,
        Verdict::Duplicate => Some(SECOND),
        Verdict::Superseded => {
            Some("not sent to the model: it said unknown, and the real result came")
        }
        Verdict::NoCall => Some(NO_CALL),
        Verdict::Outside => Some("not sent to the model: its call cannot be read"),
    }
}

/// Of another agent's results, in the order of reading. Holds a number and an id of each call.
#[derive(Debug, Default)]
pub(crate) struct Answered(HashSet<(Seq, String)>);

impl Answered {
    /// Why this record is not sent, if it is a result that is not.
    pub(crate) fn take(&mut self, record: &Record) -> Option<&'static str> {
        let Body::Message(message) = record.body() else { return None };
        let Message::Tool(result) = &**message else { return None };
        let Some(call) = result.call_seq else { return Some(NO_CALL) };
        let key = (call, result.call_id.clone());
        if self.0.contains(&key) {
            return Some(SECOND);
        }
        // A real result may come behind one that says that nothing is known.
        if result.outcome != Outcome::Unknown {
            self.0.insert(key);
        }
        None
    }
}
