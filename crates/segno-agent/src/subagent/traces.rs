//! What a child's log says of one attempt.
//!
//! Responsible for: one fold over its records: whether the attempt's prompt is there, how its run ended,
//! what it said last, what it used. Must not: open a log, or conclude anything from what is not there.

use segno_model::Record;
use segno_model::child::Used;
use segno_model::record::{Body, Message, RunEnd, RunState, UserMessage};
use segno_model::state::COMPACTION;

/// One attempt, as far as the log tells of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Traces {
    /// The run that its prompt began; none when the prompt is not in the log.
    pub(super) run: Option<u64>,
    /// How that ended, and why.
    pub(super) end: Option<(RunEnd, Option<String>)>,
    /// Whether the user's stop of it is on record.
    pub(super) stopping: bool,
    /// The text of its last reply.
    pub(super) text: String,
    /// Its replies.
    pub(super) turns: u64,
    /// What it used.
    pub(super) used: Used,
    /// What the child used in its whole life.
    pub(super) lifetime: Used,
}

/// Takes one record after the other.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    input_id: &'a str,
    /// The newest run that began.
    newest: u64,
    inside: bool,
    own: Tokens,
    all: Tokens,
    traces: Traces,
}

/// Calls that were announced against those that were answered with their price.
#[derive(Debug, Default)]
struct Tokens {
    used: Used,
    /// Calls without an answer so far.
    open: u64,
}

impl Tokens {
    fn take(&mut self, body: &Body) {
        match body {
            Body::Request(_) => self.open += 1,
            Body::Message(message) => {
                let Message::Assistant(reply) = &**message else { return };
                match &reply.usage {
                    Some(usage) => self.used.usage.add(usage),
                    None => self.used.incomplete = true,
                }
                self.open = self.open.saturating_sub(1);
            }
            // Without a usage it says nothing about its calls: those that nobody told of stay open.
            Body::Compaction(compaction) => {
                let Some(usage) = &compaction.usage else { return };
                self.used.usage.add(usage);
                self.open = self.open.saturating_sub(1);
            }
            Body::Usage(usage) => {
                self.used.usage.add(&usage.usage);
                // A state of the provider's, or a summary that was not taken.
                if usage.purpose == COMPACTION {
                    self.open = self.open.saturating_sub(1);
                }
            }
            _ => {}
        }
    }

    fn sum(&self) -> Used {
        Used { incomplete: self.used.incomplete || self.open > 0, ..self.used }
    }
}

impl<'a> Reader<'a> {
    /// Looks for the attempt whose prompt has this id.
    pub(super) fn new(input_id: &'a str) -> Self {
        let (own, all) = (Tokens::default(), Tokens::default());
        Self { input_id, newest: 0, inside: false, own, all, traces: Traces::default() }
    }

    pub(super) fn take(&mut self, record: &Record) {
        let body = record.body();
        self.all.take(body);
        if self.inside {
            self.own.take(body);
        }
        match body {
            Body::Run(run) => self.run(run.run, &run.state),
            Body::Message(message) => self.message(message),
            _ => {}
        }
    }

    fn run(&mut self, run: u64, state: &RunState) {
        let own = self.traces.run == Some(run);
        match state {
            RunState::Started { .. } => {
                self.newest = run;
                self.inside = own;
                // It was taken up again: what was said of its end is past.
                self.traces.end.take_if(|_| own);
            }
            RunState::Stopping { .. } => self.traces.stopping |= own,
            RunState::Ended { end, reason } if own => {
                self.traces.end = Some((*end, reason.clone()));
                self.inside = false;
            }
            RunState::Ended { .. } => {}
        }
    }

    fn message(&mut self, message: &Message) {
        match message {
            Message::User(UserMessage { input_id: Some(id), .. }) if id == self.input_id => {
                self.traces.run = Some(self.newest);
                self.inside = true;
            }
            Message::Assistant(reply) if self.inside => {
                self.traces.turns += 1;
                self.traces.text = reply.text();
            }
            _ => {}
        }
    }

    pub(super) fn traces(self) -> Traces {
        Traces { used: self.own.sum(), lifetime: self.all.sum(), ..self.traces }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_model::record::{
        AssistantBlock, AssistantMessage, Compaction, CompactionState, ModelRef, Request, Run,
        Usage, UsageRecord,
    };
    use segno_model::{Envelope, Timestamp};

    fn started(run: u64) -> Body {
        Body::Run(Run { run, state: RunState::Started { attempt: 1, owner: String::new() } })
    }

    fn ended(run: u64, end: RunEnd) -> Body {
        Body::Run(Run { run, state: RunState::Ended { end, reason: None } })
    }

    fn prompt(id: &str) -> Body {
        let input_id = Some(id.to_owned());
        Body::Message(Box::new(Message::User(UserMessage {
            input_id,
            ..UserMessage::text("look")
        })))
    }

    fn request() -> Body {
        let model = ModelRef::default();
        Body::Request(Request { number: 1, model, estimate: 5, purpose: None })
    }

    fn reply(text: &str, tokens: Option<u64>) -> Body {
        let usage = tokens.map(|input| Usage { input, ..Usage::default() });
        let content = vec![AssistantBlock::text(text)];
        let reply =
            AssistantMessage { usage, ..AssistantMessage::new(&ModelRef::default(), content) };
        Body::Message(Box::new(Message::Assistant(reply)))
    }

    fn read(id: &str, bodies: &[Body]) -> Traces {
        let mut reader = Reader::new(id);
        for (seq, body) in bodies.iter().enumerate() {
            let envelope = Envelope {
                seq: seq as u64,
                parent: None,
                parent_at: None,
                at: Timestamp(0),
                kind: body.kind().to_owned(),
                synced: None,
            };
            let line = segno_model::line::encode(&envelope, body).unwrap();
            reader.take(&segno_model::line::decode(&line, 0).unwrap());
        }
        reader.traces()
    }

    /// Only this attempt's words and tokens count as its own. Covers: RS21, RS26, RS27, US1, US7.
    #[test]
    fn an_attempt_is_its_own_run() {
        let log = [
            started(1),
            prompt("a"),
            request(),
            reply("first", Some(10)),
            ended(1, RunEnd::Completed),
            started(2),
            prompt("b"),
            request(),
            reply("second", Some(5)),
            request(),
        ];
        let first = read("a", &log);
        assert_eq!((first.run, first.text.as_str(), first.turns), (Some(1), "first", 1));
        assert_eq!(first.end, Some((RunEnd::Completed, None)));
        assert_eq!((first.used.usage.input, first.used.incomplete), (10, false));
        let second = read("b", &log);
        assert_eq!((second.run, second.end.clone()), (Some(2), None));
        assert_eq!((second.used.usage.input, second.used.incomplete), (5, true));
        assert_eq!((second.lifetime.usage.input, second.lifetime.incomplete), (15, true));
        assert_eq!(read("c", &log), Traces { lifetime: second.lifetime, ..Traces::default() });
        let silent = read("b", &log[..7]);
        assert_eq!((silent.text.as_str(), silent.turns), ("", 0));
    }

    /// Covers: US7, US8, RS25.
    #[test]
    fn a_reply_without_a_price_leaves_the_sum_open() {
        let log = [started(1), prompt("a"), request(), reply("x", None), ended(1, RunEnd::Failed)];
        assert!(read("a", &log).used.incomplete);
    }

    /// A compaction whose calls all told what they cost leaves nothing open, whatever became of it; one that was
    /// interrupted in a call does. Covers: US8, RS25.
    #[test]
    fn a_compaction_leaves_open_what_nobody_told() {
        let cost = || {
            let (model, usage) = (ModelRef::default(), Usage { input: 3, ..Usage::default() });
            Body::Usage(UsageRecord { purpose: COMPACTION.to_owned(), model, usage })
        };
        let end = |state, usage| {
            Body::Compaction(Box::new(Compaction { usage, ..Compaction::marker(state, None) }))
        };
        let usage = Some(Usage { input: 4, ..Usage::default() });
        let (started, failed) = (CompactionState::Started, CompactionState::Failed);
        let begun = || vec![end(started, None), request(), cost(), request()];
        let cases = [
            (end(CompactionState::Done, usage), None, 7, false),
            (cost(), Some(end(failed, None)), 6, false),
            (end(failed, None), None, 3, true),
        ];
        for (told, more, input, incomplete) in cases {
            let log: Vec<Body> = begun().into_iter().chain([told]).chain(more).collect();
            let used = read("a", &log).lifetime;
            assert_eq!((used.usage.input, used.incomplete), (input, incomplete));
        }
    }

    /// A run that is taken up again is the same attempt.
    #[test]
    fn a_run_that_goes_on_is_not_over() {
        let log = [
            started(1),
            prompt("a"),
            ended(1, RunEnd::Suspended),
            started(1),
            request(),
            reply("later", Some(1)),
        ];
        assert_eq!(read("a", &log[..3]).end, Some((RunEnd::Suspended, None)));
        let later = read("a", &log);
        assert_eq!((later.end, later.text.as_str()), (None, "later"));
    }
}
