//! Sessions turn by turn.
//!
//! Responsible for: what a plausible agent would append next, in the batches of the design's section
//! 4. Must not: append; the caller does and hands the records back.

use super::Rng;
use super::bodies::{action, answer, call, model, prompt, reply, result, summary};
use crate::sim_clock::EPOCH;
use segno_model::batch::Draft;
use segno_model::record::{Label, Request, Run, RunEnd, RunState, Tip, ToolCall};
use segno_model::state::State;
use segno_model::{Body, Pos, Record, Seq, Timestamp};

/// What a generated session looks like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Decides every random choice.
    pub seed: u64,
    /// How many prompts.
    pub turns: usize,
    /// Tool calls per turn.
    pub tools: usize,
    /// Bytes per tool result.
    pub output: usize,
    /// After how many turns one goes back to a random earlier prompt; 0 for never.
    pub branch_every: usize,
    /// After how many turns the session is compacted; 0 for never.
    pub compact_every: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self { seed: 1, turns: 4, tools: 1, output: 40, branch_every: 0, compact_every: 0 }
    }
}

impl Shape {
    /// A small session with everything in it, different for every seed.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            seed,
            turns: 1 + rng.below(5),
            tools: rng.below(3),
            output: rng.below(120),
            branch_every: rng.below(4),
            compact_every: rng.below(4),
        }
    }

    /// A log of about `bytes` whose newest compaction is `recent_turns` turns back: a long session as
    /// one meets it in practice.
    #[must_use]
    pub fn long(bytes: u64, recent_turns: usize) -> Self {
        let output = 16 * 1024;
        let per_turn = 2 * output as u64 + 2500;
        let turns = usize::try_from(bytes / per_turn).unwrap_or(usize::MAX).max(recent_turns + 1);
        let compact_every = (turns - recent_turns).max(1);
        Self { turns, tools: 2, output, compact_every, ..Self::default() }
    }
}

/// What comes next within a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Branch,
    Prompt,
    Calls,
    Actions,
    Results,
    Answer,
    Compact,
}

/// Produces a session's batches one by one.
#[derive(Debug)]
pub struct Generator {
    shape: Shape,
    rng: Rng,
    turn: usize,
    stage: Stage,
    now: i64,
    prompts: Vec<Pos>,
    last_reply: Seq,
}

impl Generator {
    /// A generator at the session's beginning (the header is not among its batches).
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            rng: Rng::new(shape.seed),
            turn: 0,
            stage: Stage::Branch,
            now: EPOCH.0,
            prompts: Vec::new(),
            last_reply: 0,
        }
    }

    /// The next batch, given the state of the log and the records of the batch before; none at the end.
    pub fn next_batch(&mut self, state: &State, before: &[Record]) -> Option<Vec<Draft>> {
        self.learn(before);
        while self.turn < self.shape.turns {
            let bodies = self.bodies(state);
            if !bodies.is_empty() {
                return Some(bodies.into_iter().map(|b| Draft::new(self.tick(), b)).collect());
            }
        }
        None
    }

    fn learn(&mut self, before: &[Record]) {
        for record in before {
            match (record.body(), self.stage) {
                (Body::Message(_), Stage::Calls) => self.prompts.push(record.pos()),
                (Body::Message(_), Stage::Actions) => self.last_reply = record.seq(),
                _ => {}
            }
        }
    }

    fn tick(&mut self) -> Timestamp {
        self.now += 1 + i64::try_from(self.rng.below(5000)).unwrap_or(0);
        Timestamp(self.now)
    }

    /// What the present stage writes, and on to the next stage. Empty when it writes nothing.
    fn bodies(&mut self, state: &State) -> Vec<Body> {
        let (now, next) = match self.stage {
            Stage::Branch => (self.go_back(), Stage::Prompt),
            Stage::Prompt => (self.begin(), Stage::Calls),
            Stage::Calls => (self.calls(state), Stage::Actions),
            Stage::Actions => (self.actions(), Stage::Results),
            Stage::Results => (self.results(), Stage::Answer),
            Stage::Answer => (self.end(state), Stage::Compact),
            Stage::Compact => (self.compact(), Stage::Branch),
        };
        if self.stage == Stage::Compact {
            self.turn += 1;
        }
        self.stage = next;
        now
    }

    fn due(&self, every: usize) -> bool {
        every > 0 && (self.turn + 1).is_multiple_of(every)
    }

    fn go_back(&mut self) -> Vec<Body> {
        if !self.due(self.shape.branch_every) || self.prompts.is_empty() {
            return Vec::new();
        }
        let target = self.prompts[self.rng.below(self.prompts.len())];
        let label = Label { target, label: format!("branch {}", self.turn) };
        vec![Body::Label(label), Body::Tip(Tip { tip: Some(target) })]
    }

    fn begin(&mut self) -> Vec<Body> {
        let state = RunState::Started { attempt: 1, owner: "pid 7".into() };
        let run = Run { run: self.run_number(), state };
        let text = self.titled("prompt", 30);
        vec![Body::Run(run), prompt(&text)]
    }

    fn run_number(&self) -> u64 {
        self.turn as u64 + 1
    }

    fn calls_of_turn(&self) -> Vec<ToolCall> {
        (0..self.shape.tools).map(|i| call(&format!("call-{}-{i}", self.turn))).collect()
    }

    fn calls(&mut self, state: &State) -> Vec<Body> {
        if self.shape.tools == 0 {
            return Vec::new();
        }
        let text = self.words(20);
        vec![request(state), reply(&text, &self.calls_of_turn())]
    }

    fn actions(&self) -> Vec<Body> {
        self.calls_of_turn().iter().map(|c| action(&c.id, self.last_reply)).collect()
    }

    fn results(&mut self) -> Vec<Body> {
        let mut results = Vec::new();
        for call in self.calls_of_turn() {
            let output = self.words(self.shape.output);
            results.push(result(&call.id, self.last_reply, &output));
        }
        results
    }

    fn end(&mut self, state: &State) -> Vec<Body> {
        let text = self.titled("answer", 60);
        let ended = RunState::Ended { end: RunEnd::Completed, reason: None };
        let run = Run { run: self.run_number(), state: ended };
        vec![request(state), answer(&text), Body::Run(run)]
    }

    fn compact(&mut self) -> Vec<Body> {
        let Some(first_kept) = self.prompts.last().copied() else { return Vec::new() };
        if !self.due(self.shape.compact_every) {
            return Vec::new();
        }
        let text = self.titled("summary", 200);
        vec![summary(&text, Some(first_kept), Vec::new())]
    }

    /// Text that says what it is and in which turn.
    fn titled(&mut self, what: &str, bytes: usize) -> String {
        let words = self.words(bytes);
        format!("{what} {}: {words}", self.turn)
    }

    /// About `bytes` of text, with a character outside ASCII now and then.
    fn words(&mut self, bytes: usize) -> String {
        const WORDS: [&str; 8] =
            ["cargo ", "test ", "src/main.rs\n", "für ", "\"ok\" ", "0.12s ", "日本 ", "passed "];
        let mut text = String::with_capacity(bytes + 12);
        while text.len() < bytes {
            text.push_str(WORDS[self.rng.below(WORDS.len())]);
        }
        text
    }
}

fn request(state: &State) -> Body {
    let number = state.in_force.totals.requests + 1;
    Body::Request(Request { number, model: model(), estimate: 1000, purpose: None })
}
