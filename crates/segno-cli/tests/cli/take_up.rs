//! Interrupted work, taken up by real processes: by a script, by a person, by the service entry.

use crate::interactive::Desk;
use crate::place::{PATIENCE, Place, Ran, signal};
use rustix::process::Signal;
use segno_model::record::{Body, RunState};
use segno_testkit::scripted_model::{Delivery, Recorded};

/// Its first reply hangs behind some words; the second one goes on from them.
const HANGS: &str = r#"
strict prefix
rule cut off
  once
  fault hang after 6 events
  say "The loop in upload.rs has no end and so the retries never stop."
rule gone on
  when user contains "was cut off"
  say "So bound it."
otherwise
  say "All done."
"#;

/// A run that is killed in the middle of its first reply; what was shown of it by then.
fn killed_while_streaming(place: &Place, args: &[&str]) {
    let mut child = place.run(&[args, &["Why?"]].concat()).spawn().unwrap();
    let hangs = |requests: &[Recorded]| requests.iter().any(|r| r.delivery == Delivery::Hanging);
    assert!(place.server.wait_until(PATIENCE, hangs), "{:?}", child.try_wait());
    until(|| {
        std::fs::read_to_string(draft_of(place)).is_ok_and(|draft| draft.contains("\"text\":\""))
    });
    signal(&child, Signal::KILL);
    child.wait().unwrap();
}

fn draft_of(place: &Place) -> std::path::PathBuf {
    let id = place.sessions().pop();
    let log = id.and_then(|id| place.store().log_path(&id).ok());
    log.map_or_else(|| "/nowhere".into(), |log| log.with_file_name("draft"))
}

fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..PATIENCE.as_millis() / 20 {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("it never came to be");
}

fn attempts(place: &Place) -> Vec<u32> {
    let records = place.records();
    let started = records.iter().filter_map(|record| match record.body() {
        Body::Run(run) => match run.state {
            RunState::Started { attempt, .. } => Some(attempt),
            _ => None,
        },
        _ => None,
    });
    started.collect()
}

fn resume(place: &Place, args: &[&str]) -> Ran {
    place.segno(&[&["resume"], args].concat()).output().unwrap().into()
}

/// SIGKILL in the middle of a reply: what had been streamed was paid for, and is in the conversation; a
/// script is told what to do, and with `auto` the run goes on where it was. Covers: G7, G9, #124, SD1.
#[test]
fn a_reply_that_was_killed_is_gone_on_with() {
    let place = Place::new(HANGS);
    killed_while_streaming(&place, &[]);
    let before = place.records().len();
    let refused = resume(&place, &["last"]);
    assert_eq!(refused.code, Some(11), "{refused:?}");
    assert!(refused.err.contains("--policy auto"), "{refused:?}");
    assert_eq!(place.records().len(), before, "refusing writes nothing");
    let url = place.server.url();
    let ran = resume(&place, &["last", "--policy", "auto", "--base-url", &url]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "So bound it.\n"), "{ran:?}");
    assert_eq!(place.story(), "user half user assistant | completed");
    assert_eq!(attempts(&place), [1, 2]);
    assert_eq!(place.server.violations(), []);
    let again = resume(&place, &["last", "--policy", "auto"]);
    assert_eq!(again.code, Some(2), "nothing is left: {again:?}");
}

/// The service entry takes up what may go on by itself, and says of the rest why it is left.
/// Covers: G5, G9.
#[test]
fn the_service_entry_takes_up_what_it_may() {
    let place = Place::new(HANGS);
    killed_while_streaming(&place, &["--policy", "auto"]);
    let planned = resume(&place, &["--all", "--dry-run", "--json"]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let plan: serde_json::Value = serde_json::from_str(&planned.out).unwrap();
    assert_eq!(plan["sessions"][0]["action"], "take_up", "{plan}");
    assert_eq!(plan["sessions"][0]["standing"], "interrupted", "{plan}");
    assert_eq!(attempts(&place), [1], "a dry run writes nothing");
    let ran = resume(&place, &["--all"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("completed"), "{ran:?}");
    assert_eq!(place.story(), "user half user assistant | completed");
    let idle = resume(&place, &["--all"]);
    assert_eq!((idle.code, idle.out.as_str()), (Some(0), ""), "{idle:?}");

    let place = Place::new(HANGS);
    killed_while_streaming(&place, &[]);
    let left = resume(&place, &["--all"]);
    assert_eq!(left.code, Some(0), "{left:?}");
    assert!(left.out.contains("left: nobody said that it may go on"), "{left:?}");
    assert_eq!(attempts(&place), [1]);
}

/// What another process is at is left to it, and it is named. Covers: G5.
#[test]
fn the_service_entry_leaves_what_is_held() {
    let place = Place::new(HANGS);
    let mut child = place.run(&["--policy", "auto", "Why?"]).spawn().unwrap();
    let hangs = |requests: &[Recorded]| requests.iter().any(|r| r.delivery == Delivery::Hanging);
    assert!(place.server.wait_until(PATIENCE, hangs), "{:?}", child.try_wait());
    let ran = resume(&place, &["--all"]);
    let said = format!("left: process {} is at it", child.id());
    assert!(ran.code == Some(0) && ran.out.contains(&said), "{ran:?}");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
}

/// Killed again and again without progress: after a few attempts a person has to look at it.
/// Covers: G9, #123.
#[test]
fn a_run_that_never_gets_anywhere_is_exhausted() {
    let place = Place::new("otherwise\n  fault hang after 1 events\n  say \"never\"\n");
    let mut child = place.run(&["--policy", "auto", "Why?"]).spawn().unwrap();
    for asked in 1..=4 {
        let hanging = |requests: &[Recorded]| {
            requests.iter().filter(|r| r.seen.is_some()).count() >= asked
                && requests.last().is_some_and(|r| r.delivery == Delivery::Hanging)
        };
        assert!(place.server.wait_until(PATIENCE, hanging), "{asked}: {:?}", child.try_wait());
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        child = place.segno(&["resume", "--all"]).spawn().unwrap();
    }
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("exhausted") && ran.out.contains("without progress"), "{ran:?}");
    assert_eq!(attempts(&place), [1, 2, 3, 4]);
    let told = resume(&place, &["--all"]);
    assert!(told.code == Some(0) && told.out.contains("needs attention"), "{told:?}");
}

/// A person is told in one line that everything is known, and Enter goes on. Covers: G9.
#[test]
fn a_person_is_asked_whether_to_go_on() {
    let place = Place::new(HANGS);
    killed_while_streaming(&place, &[]);
    let mut segno = Desk::play_at(&place, &["resume", "last"]);
    segno.wait_for("keep it; perhaps it answers later");
    segno.send("k");
    segno.wait_for("what became of everything in it is known");
    segno.wait_for("Continue? [Y/n]");
    segno.send("\r");
    segno.wait_for("So bound it.");
    segno.ready();
    segno.send("\x04");
    segno.exit_code();
    assert_eq!(attempts(&place), [1, 2]);
}

/// A new prompt on interrupted work settles it, says so in one line, and goes on with the prompt.
/// Covers: G9.
#[test]
fn a_new_prompt_settles_and_says_so() {
    let place = Place::new(HANGS);
    killed_while_streaming(&place, &[]);
    let ran = place.done(&["--continue", "Never mind."]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "All done.\n"), "{ran:?}");
    assert!(ran.err.contains("what it left open is settled first"), "{ran:?}");
    assert_eq!(place.story(), "user half | suspended user assistant | completed");
}

/// A reader that leaves early: the run is suspended and not lost. Covers: G9, #124.
#[test]
fn a_pipe_that_is_lost_suspends_the_run() {
    let place = Place::new(HANGS);
    let mut child = place.run(&["--json", "Why?"]).spawn().unwrap();
    drop(child.stdout.take());
    let _ = child.wait().unwrap();
    until(|| place.story().ends_with("| suspended"));
}
