//! Processes killed with SIGKILL at random moments, again and again, and what must hold of what is left.
//!
//! Responsible for: the loop and its invariants: each input once, each effect at most once and exactly once
//! where a result says so, results true, a log that goes on. How many kills there are is in `SEGNO_KILLS`;
//! `SEGNO_SEED` sets the seed; `cargo xtask soak` sets both. Must not: depend on where a kill strikes.
//!
//! Covers: G1, G4, G6, G7, G8, G9.

use crate::place::{Place, Ran};
use crate::random::Random;
use segno_model::record::{Body, Message, Outcome, Run, RunState};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

/// How many kills there are when nobody says.
const KILLS: usize = 25;

/// How many runs one session has before the next one begins.
const PER_SESSION: usize = 25;

/// A kill strikes within so many milliseconds after the start.
const WITHIN_MS: usize = 160;

const SCRIPT: &str = r#"
strict prefix
rule run it
  when last user
  when prompt line "Run " capture n until "."
  say "I run it."
  call bash {"command": "echo {n} >> effects"}
rule write it
  when last user
  when prompt line "Write " capture n until "."
  call write {"path": "f{n}", "content": "{n}"}
  call bash {"command": "echo {n} >> effects"}
otherwise
  say "Done with it."
"#;

/// One session under fire.
struct Soak {
    place: Place,
    /// Prompts that were given, and whether the process came to its end.
    given: Vec<(String, bool)>,
}

impl Soak {
    fn new() -> Self {
        Self { place: Place::new(SCRIPT), given: Vec::new() }
    }

    fn next_prompt(&self, random: &mut Random) -> String {
        let n = self.given.len();
        let word = if random.below(3) == 0 { "Write" } else { "Run" };
        format!("{word} {n}.")
    }

    /// Gives one prompt and kills the process some time later; says whether it was still alive.
    fn killed(&mut self, random: &mut Random) -> bool {
        let prompt = self.next_prompt(random);
        let begun = !self.place.sessions().is_empty();
        let mut args = vec!["--permission", "all"];
        if begun {
            args.push("--continue");
        }
        args.push(&prompt);
        let mut run = self.place.run(&args);
        run.stdout(Stdio::null()).stderr(Stdio::null());
        let gate = crate::desk::starting();
        let mut child = run.spawn().unwrap();
        drop(gate);
        std::thread::sleep(Duration::from_millis(random.below(WITHIN_MS) as u64));
        let ended = child.try_wait().unwrap();
        if ended.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        self.given.push((prompt, ended.is_some_and(|status| status.success())));
        ended.is_none()
    }

    /// Comes to an end without a kill, and looks at everything.
    fn check(mut self, about: &str) {
        let prompt = format!("Run {}.", self.given.len());
        let continued = !self.place.sessions().is_empty();
        let more = if continued { "--continue" } else { "--json" };
        let ran: Ran =
            self.place.run(&["--permission", "all", more, &prompt]).output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{about}: {ran:?}");
        self.given.push((prompt, true));
        assert_eq!(self.place.server.violations(), [], "{about}");
        self.inputs_are_once(about);
        self.effects_are_true(about);
    }

    fn inputs_are_once(&self, about: &str) {
        let records = self.place.records();
        let mut found = BTreeMap::new();
        for record in &records {
            if let Body::Message(message) = record.body()
                && let Message::User(user) = &**message
                && user.notice.is_none()
                && let Some(segno_model::record::Block::Text { text }) = user.content.first()
            {
                *found.entry(text.head().to_owned()).or_insert(0) += 1;
            }
        }
        for (prompt, done) in &self.given {
            let count = found.get(prompt).copied().unwrap_or(0);
            let allowed = if *done { count == 1 } else { count <= 1 };
            assert!(allowed, "{about}: {prompt} is there {count} times; ended well: {done}");
        }
        let open = records.iter().rev().find_map(|record| match record.body() {
            Body::Run(Run { state, .. }) => Some(state.clone()),
            _ => None,
        });
        assert!(matches!(open, Some(RunState::Ended { .. })), "{about}: {open:?}");
    }

    /// What results say of the commands is what happened, and nothing happened twice.
    fn effects_are_true(&self, about: &str) {
        let effects = std::fs::read_to_string(self.place.file("effects")).unwrap_or_default();
        let mut count: BTreeMap<&str, usize> = BTreeMap::new();
        for line in effects.lines() {
            *count.entry(line).or_default() += 1;
        }
        if let Some((n, times)) = count.iter().find(|(_, times)| **times > 1) {
            panic!("{about}: the effect of {n} happened {times} times");
        }
        let mut number_of = BTreeMap::new();
        for record in self.place.records() {
            let Body::Message(message) = record.body() else { continue };
            match &**message {
                Message::Assistant(reply) => number_of.extend(reply.calls().filter_map(|call| {
                    let n = call.arguments.split("echo ").nth(1)?.split(' ').next()?;
                    Some(((record.seq(), call.id.clone()), n.to_owned()))
                })),
                Message::Tool(result) => {
                    let call = (result.call_seq.unwrap_or(0), result.call_id.clone());
                    let Some(n) = number_of.get(&call) else { continue };
                    let happened = count.contains_key(n.as_str());
                    let expected = match result.outcome {
                        Outcome::Done => Some(true),
                        Outcome::NotRun | Outcome::Denied => Some(false),
                        _ => None,
                    };
                    assert!(
                        expected.is_none_or(|expected| expected == happened),
                        "{about}: {n} is told as {:?}, and it happened: {happened}",
                        result.outcome
                    );
                }
                Message::User(_) => {}
            }
        }
    }
}

/// Covers: G1, G4, G6, G7, G8, G9.
#[test]
fn kills_at_random_moments_lose_nothing_and_repeat_nothing() {
    let read = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let seed = read("SEGNO_SEED").unwrap_or(1) as u64;
    let wanted = read("SEGNO_KILLS").unwrap_or(KILLS);
    let mut random = Random::new(seed);
    let (mut kills, mut sessions) = (0, 0);
    while kills < wanted {
        sessions += 1;
        let mut soak = Soak::new();
        for _ in 0..PER_SESSION {
            kills += usize::from(soak.killed(&mut random));
        }
        soak.check(&format!("SEGNO_SEED={seed}, session {sessions}"));
    }
}
