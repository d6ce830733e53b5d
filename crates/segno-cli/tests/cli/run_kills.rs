//! `segno run`, killed with SIGKILL at every point of a turn, and resumed until it is done.

use crate::place::{PATIENCE, PROVIDERS, Place, Ran, signal};
use rustix::process::Signal;
use segno_model::record::{Body, Message};
use segno_testkit::scripted_model::{Delivery, Recorded, Turn};
use std::process::Child;

/// A turn with an effect. `first` and `second` go wrong in its first and its second reply.
fn script(command: &str, first: &str, second: &str) -> String {
    format!(
        r#"
strict prefix
rule ask for tools, cut short
  once
  when turns 1
  {first}
  say "Looking at it."
  call bash {{"command": {command}}}
rule ask for tools
  when turns 1
  say "Looking at it."
  call bash {{"command": {command}}}
rule answer, cut short
  once
  when last results
  {second}
  say "I have looked at it."
otherwise
  say "All done."
"#,
        command = serde_json::Value::from(command)
    )
}

/// A condition that never holds, for a rule that is not wanted.
const NEVER: &str = "when model is \"nobody\"";

/// Waits until the reply hangs, or the process has ended by itself.
fn until_hanging(place: &Place, child: &mut Child) {
    let hangs = |requests: &[Recorded]| {
        requests.iter().any(|r| r.delivery == Delivery::Hanging || r.delivery == Delivery::Left)
    };
    assert!(place.server.wait_until(PATIENCE, hangs), "{:?}", child.try_wait());
}

/// Kills a run where its script hangs, resumes, and looks at what came of it.
fn killed_and_resumed(place: &Place, kill: impl FnOnce(&Place, &mut Child), about: &str) {
    let mut child = place.run(&["--permission", "all", "Do it."]).spawn().unwrap();
    kill(place, &mut child);
    let _ = child.wait().unwrap();
    let before = place.records();
    let ran: Ran =
        place.run(&["--permission", "all", "--continue", "Go on."]).output().unwrap().into();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "All done.\n"), "{about}: {ran:?}");
    assert_eq!(place.server.violations(), [], "{about}");
    // Nothing that was on disk has changed, and the session is the same one.
    let after = place.records();
    assert_eq!(place.sessions().len(), 1, "{about}");
    assert!(before.iter().zip(&after).all(|(then, now)| then.line == now.line), "{about}");
    // Each input once, in the log and in what the model was sent.
    assert_eq!(inputs(place), ["Do it.", "Go on."], "{about}");
    let requests = place.server.requests();
    let sent = requests.last().unwrap().seen.as_ref().unwrap();
    let users: String =
        sent.turns.iter().filter(|t| t.role() == "user").map(|t| t.text() + "\n").collect();
    for prompt in ["Do it.", "Go on."] {
        assert_eq!(users.matches(prompt).count(), 1, "{about}: {users}");
    }
    // The effect happened at most once, and what the model was told of it is not wrong.
    let effects = std::fs::read_to_string(place.file("effects")).unwrap_or_default();
    assert!(effects.is_empty() || effects == "one\n", "{about}: {effects:?}");
    let story = place.story();
    assert!(!story.contains("done") || effects == "one\n", "{about}: {story}");
    let results: String =
        sent.turns.iter().filter(|t| t.role() == "results").map(Turn::text).collect();
    // A supervisor that was killed just now may not be gone yet.
    let told = ["outcome of this call is unknown", "the command still runs"];
    let told = told.iter().any(|words| results.contains(words));
    assert_eq!(story.contains("unknown"), told, "{about}: {results}");
}

fn inputs(place: &Place) -> Vec<String> {
    let records = place.records();
    let words = records.iter().filter_map(|record| match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) => user.content.iter().find_map(|block| match block {
                segno_model::record::Block::Text { text } => Some(text.head().to_owned()),
                _ => None,
            }),
            _ => None,
        },
        _ => None,
    });
    words.collect()
}

fn kill(place: &Place, child: &mut Child) {
    until_hanging(place, child);
    signal(child, Signal::KILL);
}

fn sweep(model: &'static str, events: impl Iterator<Item = usize> + Clone) {
    for n in events {
        let hang = format!("fault hang after {n} events");
        for (first, second) in [(hang.as_str(), NEVER), (NEVER, hang.as_str())] {
            // A fault stands behind what it spoils, a condition in front of it: both may stand here.
            let place = Place::with_model(model, &script("echo one >> effects", first, second));
            killed_and_resumed(&place, kill, &format!("{model} {first} / {second}"));
        }
    }
}

/// Covers: G1, G4, G6, G7, G9, G10, SD1, SD2.
#[test]
fn a_kill_after_any_event_of_a_reply_loses_nothing_and_repeats_nothing() {
    sweep(PROVIDERS[0], 0..9);
}

/// Covers: G4, G6, G7, G10, SD1.
#[test]
fn a_kill_within_a_reply_is_survived_on_every_other_wire() {
    for model in &PROVIDERS[1..] {
        sweep(model, [1, 4].into_iter());
    }
}

/// The agent, which is the parent of the command's parent.
const AGENT: &str = "$(cut -d' ' -f4 /proc/$PPID/stat)";

/// The command itself kills the agent, before or behind its effect: its supervisor sees it to its end, the
/// effect happens once, and that is what the model is told. Covers: G6, G7, SD1, #32.
#[test]
fn a_command_outlives_a_killed_agent_and_its_real_end_is_told() {
    for command in [
        format!("kill -9 {AGENT}; echo one >> effects"),
        format!("echo one >> effects; kill -9 {AGENT}"),
    ] {
        let place = Place::new(&script(&command, NEVER, NEVER));
        let ended = |place: &Place, child: &mut Child| {
            child.wait().unwrap();
            place.until_action_has("status");
        };
        killed_and_resumed(&place, ended, &command);
        assert_eq!(std::fs::read_to_string(place.file("effects")).unwrap(), "one\n");
        let story = place.story();
        assert!(story.starts_with("user assistant done | suspended user"), "{story}");
    }
}

/// With its supervisor killed, too, nobody can know how it ended, and nobody pretends to.
/// Covers: G6, G7, SD1, #32.
#[test]
fn a_kill_of_agent_and_supervisor_leaves_the_outcome_unknown_and_never_repeats_it() {
    for (before, effects) in [("", ""), ("echo one >> effects; sync effects; ", "one\n")] {
        let command = format!("{before}kill -9 {AGENT} $PPID");
        let place = Place::new(&script(&command, NEVER, NEVER));
        killed_and_resumed(&place, |_, _| (), &command);
        let found = std::fs::read_to_string(place.file("effects")).unwrap_or_default();
        assert_eq!(found, effects);
        let story = place.story();
        assert!(story.starts_with("user assistant unknown | suspended user"), "{story}");
    }
}
