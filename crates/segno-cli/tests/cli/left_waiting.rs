//! What a person is told who does not watch: of a process that could not work, of what waits, of what was
//! found, of a full disk.

use crate::place::{Place, Ran};
use segno_cli::engine::TextWatch;
use segno_cli::error::{CliError, ExitCode};
use segno_cli::terminal::{Look, Screen};
use segno_model::SessionId;
use segno_model::store::StoreError;
use segno_runtime::{Event, Observer as _};
use std::path::PathBuf;
use std::process::Stdio;

const SCRIPT: &str = "otherwise\n  say \"Heard: {prompt}\"\n";

impl Place {
    fn log(&self, id: &SessionId) -> PathBuf {
        self.store().log_path(id).unwrap()
    }

    /// A session in a directory of the project that it may lose.
    fn session_in(&self, dir: &str) -> SessionId {
        std::fs::create_dir_all(self.file(dir)).unwrap();
        let ran: Ran = self.run(&["hello"]).current_dir(self.file(dir)).output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        self.sessions().remove(0)
    }
}

/// Whatever keeps the process from working is told to whoever sent the input, and the input is kept.
#[test]
fn a_sender_is_told_when_the_process_for_it_cannot_work() {
    let lost_directory: fn(&Place, &SessionId) =
        |place, _| std::fs::remove_dir(place.file("sub")).unwrap();
    let altered: fn(&Place, &SessionId) = |place, id| {
        let log = std::fs::read_to_string(place.log(id)).unwrap();
        let altered = log.replace("\"text\":\"hello\"", "\"text\":\"h@!?o\"");
        assert_ne!(altered, log);
        std::fs::write(place.log(id), altered).unwrap();
    };
    for (harm, code, said) in [(lost_directory, 1, "segno relocate"), (altered, 5, "segno repair")]
    {
        let place = Place::new(SCRIPT);
        let id = place.session_in("sub");
        harm(&place, &id);
        let ran = place.ask(&["send", id.as_str(), "and this", "--id", "k1"]);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(!ran.out.contains("was started"), "{ran:?}");
        for part in [said, "The input is kept as k1"] {
            assert!(ran.err.contains(part), "{part}: {ran:?}");
        }
        let listed = place.ask(&["inbox", id.as_str()]);
        assert!(listed.out.contains("and this"), "{listed:?}");
        assert!(listed.out.contains("--deliver"), "{listed:?}");
    }
}

#[test]
fn what_waits_is_told_with_the_command_that_gets_it_on() {
    let place = Place::new(SCRIPT);
    let id = place.session_in("");
    let sent = place.ask(&["send", id.as_str(), "later", "--id", "k1", "--no-run"]);
    assert!(sent.out.contains("--deliver"), "{sent:?}");
    let ran = place.done(&["--continue", "more"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("1 input waits for you"), "{ran:?}");
    assert!(ran.err.contains(&format!("segno inbox {id} --deliver")), "{ran:?}");
    let delivered = place.ask(&["inbox", id.as_str(), "--deliver"]);
    assert_eq!(delivered.code, Some(0), "{delivered:?}");
    place.until("it is delivered", || place.said().len() == 3 && !place.is_held(&id));
    let ran = place.done(&["--continue", "again"]);
    assert!(!ran.err.contains("for you"), "{ran:?}");
}

/// What is set aside is told by the run that does it: nobody finds it afterwards.
#[test]
fn a_run_tells_what_it_sets_aside() {
    let place = Place::new(SCRIPT);
    let id = place.session_in("");
    let mut log = std::fs::read(place.log(&id)).unwrap();
    log.extend(b"{\"seq\":99,\"ty");
    std::fs::write(place.log(&id), log).unwrap();
    let ran = place.done(&["--continue", "more"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("the last write was cut short"), "{ran:?}");
    place.ask(&["send", id.as_str(), "lost", "--id", "k1", "--no-run"]);
    for entry in std::fs::read_dir(place.log(&id).with_file_name("inbox")).unwrap() {
        std::fs::write(entry.unwrap().path(), "garbage\n").unwrap();
    }
    let ran = place.done(&["--continue", "more"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.err.matches("an admitted input").count(), 1, "{ran:?}");
    let ran = place.done(&["--continue", "more"]);
    assert!(!ran.err.contains("an admitted input"), "{ran:?}");
}

/// A full disk is tried every second and told once, with what to do.
#[test]
fn a_pause_is_told_once_and_says_what_ends_it() {
    let look = Look { colour: false, columns: 80, terminal: true, full: true };
    let (mut screen, captured) = Screen::captured(look);
    let mut watch = TextWatch::new(&mut screen);
    for _ in 0..3 {
        watch.event(Event::Paused { reason: "no room left to write /x/log.jsonl" });
    }
    // What several subagents wait for comes in turns.
    for reason in ["something else", "no room left to write /x/log.jsonl", "something else"] {
        watch.event(Event::Paused { reason });
    }
    watch.settle();
    screen.flush();
    let said = captured.text();
    assert_eq!(said.matches("/x/log.jsonl").count(), 1, "{said}");
    assert_eq!(said.matches("waiting: ").count(), 2, "{said}");
    assert!(said.contains("goes on by itself when there is room"), "{said}");
}

#[test]
fn a_log_that_was_taken_away_is_not_said_to_be_kept() {
    let gone = StoreError::Poisoned("/x/log.jsonl: it was deleted or moved".into());
    let next = CliError::from(gone).next_step;
    assert!(next.contains("put it back") && !next.contains("is kept"), "{next}");
}

/// The input is in; only that could not be said. Whoever repeats it should look first.
#[test]
fn an_answer_that_cannot_be_written_names_what_tells_whether_it_was_done() {
    let place = Place::new(SCRIPT);
    let id = place.session_in("");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut send = place.segno(&["send", id.as_str(), "once", "--no-run"]);
    let ran: Ran = send.stdout(Stdio::from(full)).output().unwrap().into();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("next:") && ran.err.contains("segno inbox"), "{ran:?}");
}

#[test]
fn an_error_told_to_a_script_can_be_read_back() {
    let error = CliError::new(ExitCode::Damaged, "a\nb").because("\"c\"").next("d");
    let (mut screen, captured) =
        Screen::captured(Look { colour: false, columns: 80, terminal: false, full: false });
    error.print_json(&mut screen);
    screen.flush();
    assert_eq!(CliError::from_json(captured.text().trim()), Some(error));
    for other in ["", "{}", "no JSON", r#"{"error":{"sentence":"a","exit":99}}"#] {
        assert_eq!(CliError::from_json(other), None, "{other}");
    }
}
