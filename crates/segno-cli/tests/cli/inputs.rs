//! Sending to a session from other processes: busy, idle, stopped, killed; with real processes.

use crate::desk::Desk;
use crate::place::{PATIENCE, Place, Ran, signal, wait};
use rustix::process::Signal;
use segno_model::SessionId;
use segno_model::record::{Block, Body, Message, ModelChange, ModelRef, RunState};
use segno_model::store::{HeldSession as _, Judged, SessionStore as _};
use segno_testkit::sessions::{answer, prompt};
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::Duration;

const PROVIDER_KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

/// A model that works until the file `go` is there, when it is asked to; everything else it answers.
const SCRIPT: &str = r#"
rule work
  when last user
  when user contains "work"
  say "Working."
  call bash {"command": "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo worked"}
rule slow
  when last user
  when prompt line "slowly"
  say "At last."
  fault delay 1500ms
rule partly
  when prompt line "partly"
  say "This never ends."
  fault hang
rule done
  when last results
  say "Worked."
otherwise
  say "Heard: {prompt}"
"#;

impl Place {
    pub(crate) fn ask(&self, args: &[&str]) -> Ran {
        self.segno(args).output().unwrap().into()
    }

    /// A session that nobody has.
    fn idle(&self) -> SessionId {
        let ran = self.done(&["hello"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        self.sessions().remove(0)
    }

    /// A run that works until the file `go` is there.
    fn busy(&self) -> Child {
        let child = self.run(&["--permission", "all", "work"]).spawn().unwrap();
        self.until("it works", || self.file("begun").exists());
        child
    }

    pub(crate) fn go(&self) {
        std::fs::write(self.file("go"), "").unwrap();
    }

    pub(crate) fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let look = Duration::from_millis(20);
        for _ in 0..PATIENCE.as_millis() / look.as_millis() {
            if done() {
                return;
            }
            std::thread::sleep(look);
        }
        panic!("{what}: {:?} {}", self.said(), self.story());
    }

    /// What users said, by the log.
    pub(crate) fn said(&self) -> Vec<String> {
        let texts = self.records().into_iter().filter_map(|record| match record.into_body() {
            Body::Message(message) => match *message {
                Message::User(user) if user.notice.is_none() => {
                    user.content.into_iter().find_map(|block| match block {
                        Block::Text { text } => Some(text.head().to_owned()),
                        _ => None,
                    })
                }
                _ => None,
            },
            _ => None,
        });
        texts.collect()
    }

    pub(crate) fn is_held(&self, id: &SessionId) -> bool {
        self.store().is_held(id).unwrap()
    }

    /// Nobody has the session, and nothing waits in it.
    fn until_quiet(&self, id: &SessionId) {
        self.until("it is quiet", || {
            !self.is_held(id) && wait(self.store().pending(id)).unwrap().pending.is_empty()
        });
    }

    pub(crate) fn inbox(&self) -> Vec<String> {
        let ran = self.ask(&["inbox", "--json"]);
        let inputs = json(&ran)["inputs"].as_array().unwrap().clone();
        inputs.iter().map(|input| input["id"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

/// Covers: G8. Nobody has it: a process is started, runs it and goes.
#[test]
fn what_is_sent_to_an_idle_session_is_run_by_a_process_of_its_own() {
    let place = Place::new(SCRIPT);
    let id = place.idle();
    let ran = place.ask(&["send", "last", "and this", "--id", "k1"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("Sent as k1: a process was started for it."), "{ran:?}");
    place.until("it is answered", || {
        place.story() == "user assistant | completed user assistant | completed"
    });
    place.until_quiet(&id);
    assert_eq!(place.said(), ["hello", "and this"]);
    // At whatever stage: the first one stands.
    let again = place.ask(&["send", "last", "and this", "--id", "k1", "--json"]);
    let told = json(&again);
    assert_eq!(
        (told["admission"].as_str(), told["stage"].as_str()),
        (Some("stands"), Some("delivered"))
    );
    assert_eq!(place.said(), ["hello", "and this"]);
    for other in [
        &["send", "last", "and that", "--id", "k1"][..],
        &["send", "last", "and this", "--id", "k1", "--queue"],
    ] {
        let conflict = place.ask(other);
        assert_eq!((conflict.code, conflict.out.as_str()), (Some(10), ""), "{conflict:?}");
        assert!(conflict.err.contains("it was delivered"), "{conflict:?}");
    }
}

/// Covers: G8, #150.
#[test]
fn without_a_process_it_waits_and_is_offered_and_can_be_withdrawn_moved_and_delivered() {
    let place = Place::new(SCRIPT);
    let id = place.idle();
    for key in ["k1", "k2", "k3", "k4"] {
        let ran = place.ask(&["send", "last", key, "--id", key, "--no-run", "--queue"]);
        assert!(ran.out.contains("nobody has the session; it waits"), "{ran:?}");
    }
    assert_eq!(place.inbox(), ["k1", "k2", "k3", "k4"]);
    let gone = place.ask(&["inbox", "last", "--withdraw", "k2"]);
    assert_eq!(gone.code, Some(0), "{gone:?}");
    assert!(!gone.out.contains("k2") && gone.out.contains("3 inputs, in the order"), "{gone:?}");
    place.ask(&["inbox", "last", "--move", "k4", "--before", "k1"]);
    assert_eq!(place.inbox(), ["k4", "k1", "k3"]);
    let ran = place.ask(&["inbox", "last", "--withdraw", "k2"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    // Not merged into another turn.
    assert_eq!(place.done(&["--continue", "something else"]).code, Some(0));
    assert_eq!(place.said(), ["hello", "something else"]);
    assert_eq!(place.ask(&["inbox", "last", "--deliver", "k1"]).code, Some(0));
    place.until("it is delivered", || place.said().len() == 3);
    place.until("let go", || !place.is_held(&id));
    assert_eq!(place.inbox(), ["k4", "k3"]);
    assert_eq!(place.ask(&["inbox", "last", "--deliver"]).code, Some(0));
    place.until_quiet(&id);
    assert_eq!(place.said(), ["hello", "something else", "k1", "k4", "k3"]);
    let stands = place.ask(&["send", "last", "k2", "--id", "k2", "--queue"]);
    assert!(stands.out.contains("k2 was sent before: it was taken back"), "{stands:?}");
}

/// Covers: G8.
#[test]
fn what_is_sent_to_a_busy_session_steers_or_waits_for_the_end_of_the_turn() {
    let place = Place::new(SCRIPT);
    let child = place.busy();
    let id = place.sessions().remove(0);
    let queued = place.ask(&["send", "last", "later", "--queue"]);
    assert!(queued.out.contains("has the session and takes it when its turn ends"), "{queued:?}");
    let steered = place.ask(&["send", "last", "now"]);
    assert!(steered.out.contains("takes it at its next step"), "{steered:?}");
    place.go();
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    place.until("both are answered", || place.said().len() == 3);
    place.until_quiet(&id);
    assert_eq!(place.said(), ["work", "now", "later"]);
    let story = place.story();
    assert!(story.starts_with("user assistant done user assistant | completed user"), "{story}");
    assert_eq!(place.server.violations(), []);
}

/// Covers: G8, #152. Two senders race for one id, again and again.
#[test]
fn of_two_senders_with_one_id_one_content_wins() {
    let place = Place::new(SCRIPT);
    place.idle();
    for round in 0..8 {
        let key = format!("k{round}");
        let start = |text: &str| {
            place.segno(&["send", "last", text, "--id", &key, "--no-run"]).spawn().unwrap()
        };
        let children = [start("one"), start("two")];
        let codes = children.map(|child| child.wait_with_output().unwrap().status.code());
        assert!(codes == [Some(0), Some(10)] || codes == [Some(10), Some(0)], "{codes:?}");
    }
    assert_eq!(place.inbox().len(), 8);
}

/// Covers: G8, G9, SD1. Killed right after the admission, and in the middle of the delivery.
#[test]
fn an_acknowledged_input_survives_the_kill_of_whoever_runs_it() {
    let place = Place::new(SCRIPT);
    let mut child = place.busy();
    let id = place.sessions().remove(0);
    for (text, kind) in [("one", "--queue"), ("two", "--steer")] {
        assert_eq!(place.ask(&["send", "last", text, "--id", text, kind]).code, Some(0));
    }
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    place.go();
    // The command of the killed run may still hold what it inherited for a moment.
    place.until("it is free", || !place.is_held(&id));
    assert_eq!(place.inbox(), ["one", "two"], "both wait");
    assert_eq!(place.said(), ["work"]);
    assert_eq!(place.done(&["--continue", "go on"]).code, Some(0));
    assert_eq!(place.said(), ["work", "go on"], "neither starts unasked");
    assert_eq!(place.ask(&["inbox", "last", "--deliver"]).code, Some(0));
    place.until_quiet(&id);
    assert_eq!(place.said(), ["work", "go on", "one", "two"]);
}

/// Covers: G9. From another terminal; what waits behind it does not start.
#[test]
fn a_stop_from_elsewhere_is_final_and_parks_what_waits() {
    let place = Place::new(SCRIPT);
    let child = place.busy();
    let id = place.sessions().remove(0);
    assert_eq!(place.ask(&["send", "last", "later", "--id", "q", "--queue"]).code, Some(0));
    let stopped = place.ask(&["stop", "last"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopped.out.contains("Run 1 is stopped."), "{stopped:?}");
    assert!(stopped.out.contains("1 input that waited behind it will not start"), "{stopped:?}");
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(place.inbox(), ["q"]);
    assert_eq!(place.story(), "user assistant stopped | stopped");
    let again = place.ask(&["stop", "last", "--json"]);
    assert_eq!(json(&again)["stopped"], Value::Null, "{again:?}");
    let sent = place.ask(&["send", "last", "later", "--id", "q", "--queue"]);
    assert!(sent.out.contains("q was sent before: it waits for a person"), "{sent:?}");
    assert_eq!(place.ask(&["inbox", "last", "--deliver", "q"]).code, Some(0));
    place.until_quiet(&id);
    assert_eq!(place.said(), ["work", "later"]);
}

/// Covers: G9. Nobody runs it any more: the stop is recorded, and nothing takes the run up.
#[test]
fn a_run_that_nobody_drives_can_be_stopped() {
    let place = Place::new(SCRIPT);
    let mut child = place.busy();
    let id = place.sessions().remove(0);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    place.go();
    place.until("it is free", || !place.is_held(&id));
    let stopped = place.ask(&["stop", "last"]);
    assert_eq!(
        (stopped.code, stopped.out.contains("Run 1 is stopped.")),
        (Some(0), true),
        "{stopped:?}"
    );
    let states: Vec<String> = place
        .records()
        .iter()
        .filter_map(|record| match record.body() {
            Body::Run(run) => Some(match &run.state {
                RunState::Started { .. } => "started".to_owned(),
                RunState::Stopping { .. } => "stopping".to_owned(),
                RunState::Ended { end, .. } => format!("{end:?}"),
            }),
            _ => None,
        })
        .collect();
    assert_eq!(states, ["started", "stopping", "Stopped"]);
}

/// Covers: G5, G8. Who holds the session without running anything acts on nothing; what is sent is kept.
#[test]
fn a_holder_that_does_not_act_loses_nothing() {
    let place = Place::new(SCRIPT);
    let id = place.idle();
    let store = place.store();
    let held = wait(store.open(&id)).unwrap();
    let Ok(Judged::Sound(opened)) = wait(held.judge()) else { panic!("it is sound") };
    let sent = place.ask(&["send", "last", "hello there", "--id", "k"]);
    assert!(sent.out.contains("has the session and takes it"), "{sent:?}");
    drop(opened);
    assert_eq!(place.inbox(), ["k"]);
    place.ask(&["inbox", "last", "--deliver"]);
    place.until_quiet(&id);
    assert_eq!(place.said(), ["hello", "hello there"]);
}

/// Covers: G8.
#[test]
fn slips_are_told_and_send_nothing() {
    let place = Place::new(SCRIPT);
    place.idle();
    for (args, code, said) in [
        (&["send", "last", " "][..], 2, "There is nothing to send."),
        (&["send", "nosuch", "a"], 6, "There is no session `nosuch`."),
        (&["send", "last", "a", "--queue", "--steer"], 2, "cannot be used with"),
        (&["send", "last", "a", "--id", ""], 1, "1 to 256 bytes"),
        (&["inbox", "last", "--deliver", "x"], 6, "No input `x` waits."),
        (&["inbox", "last", "--before", "x"], 2, "--move"),
    ] {
        let ran = place.ask(args);
        assert!(ran.err.contains(said), "{args:?}: {ran:?}");
        assert_eq!(ran.code, Some(code), "{args:?}: {ran:?}");
    }
    assert!(place.inbox().is_empty());
}

/// Text from standard input, and a model that has no key here.
#[test]
fn what_cannot_be_run_now_is_kept_and_said() {
    let desk = Desk::new();
    let model = ModelRef { provider: "anthropic".to_owned(), id: "demo".to_owned() };
    let model = Body::Model(ModelChange { model, chosen: true, base_url: None });
    let id = desk.session(1, vec![prompt("hello"), answer("hi"), model]).to_string();
    let mut command = desk.command(&["send", &id, "-", "--id", "k"]);
    for name in PROVIDER_KEYS {
        command.env_remove(name);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"from a pipe\n").unwrap();
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(ran.err.contains("The input is kept as k"), "{ran:?}");
    let listed = desk.run(&["inbox", &id]);
    assert!(listed.out.contains("from a pipe"), "{listed:?}");
}

/// Covers: G8. Whoever sends need not stay: what was begun for it goes on, however long it takes.
#[test]
fn a_worker_outlives_whoever_started_it() {
    let place = Place::new(SCRIPT);
    place.idle();
    let ran = place.ask(&["send", "last", "slowly"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    place.until("it comes to an end", || place.story().matches('|').count() == 2);
    assert_eq!(place.story(), "user assistant | completed user assistant | completed");
}

/// Covers: G8. Watching a run of another process: what it records is shown, what is typed is sent.
#[test]
fn a_session_can_be_watched_and_talked_to_from_elsewhere() {
    let place = Place::new(SCRIPT);
    let run = place.busy();
    let mut attach = place.segno(&["attach"]);
    let mut attach = attach.stdin(Stdio::piped()).spawn().unwrap();
    let mut typed = attach.stdin.take().unwrap();
    std::io::Write::write_all(&mut typed, b"now this\n/queue then that\n/nonsense\n").unwrap();
    place.until("both were sent", || place.inbox().len() == 2);
    place.go();
    drop(typed);
    let watched: Ran = attach.wait_with_output().unwrap().into();
    assert_eq!(watched.code, Some(0), "{watched:?}");
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(place.said(), ["work", "now this", "then that"]);
    for shown in [
        "Working.",
        "has the session",
        "(sent;",
        "(queued;",
        "Heard: now this",
        "Heard: then that",
        "There is no `/nonsense` here.",
    ] {
        assert!(watched.out.contains(shown), "{shown}: {}", watched.out);
    }
    assert_eq!(watched.out.matches("Heard: then that").count(), 1, "{}", watched.out);
}

/// Covers: G9. Leaving stops nothing; `/stop` does.
#[test]
fn leaving_a_watched_session_stops_nothing_and_stop_does() {
    let place = Place::new(SCRIPT);
    let run = place.busy();
    let leave = |line: &[u8]| {
        let mut attach = place.segno(&["attach"]);
        let mut attach = attach.stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut attach.stdin.take().unwrap(), line).unwrap();
        Ran::from(attach.wait_with_output().unwrap())
    };
    let left = leave(b"/quit\n");
    assert_eq!(left.code, Some(0), "{left:?}");
    assert!(!place.story().contains("stopped"));
    let stopped = leave(b"/stop\n");
    assert!(stopped.out.contains("(stopped)"), "{stopped:?}");
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(3));
    assert_eq!(place.story(), "user assistant stopped | stopped");
}

/// Covers: G5, G9. The holder suspends its run and lets go; the work is taken up where it was.
#[test]
fn a_session_is_taken_over_by_asking_for_it() {
    let place = Place::new(SCRIPT);
    let run = place.busy();
    let held = place.ask(&["resume", "last", "--", "more"]);
    assert_eq!(held.code, Some(4), "{held:?}");
    for step in ["segno attach", "--take-over"] {
        assert!(held.err.contains(step), "{held:?}");
    }
    let taken = place.ask(&["resume", "last", "--take-over", "--", "more"]);
    assert_eq!(taken.code, Some(0), "{taken:?}");
    let ran: Ran = run.wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(9), "{ran:?}");
    assert_eq!(place.said(), ["work", "more"]);
    assert!(place.story().contains("| suspended") && !place.story().contains("| stopped"));
}

/// Covers: G5. A process that does not answer is not ended by a script, and loses nothing.
#[test]
fn a_holder_that_does_not_let_go_is_not_ended_unasked() {
    let place = Place::new(SCRIPT);
    let mut run = place.busy();
    signal(&run, Signal::STOP);
    let refused = place.ask(&["resume", "last", "--take-over", "--", "more"]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.err.contains("was asked, and still has it"), "{refused:?}");
    signal(&run, Signal::CONT);
    place.go();
    // It finds the request when it goes on.
    assert_eq!(run.wait().unwrap().code(), Some(9));
}

/// Covers: #148, G5, G12. Whoever looks anew, with nothing to go by but the lock, sees that it still runs.
#[test]
fn a_session_that_runs_is_shown_running_whatever_else_was_lost() {
    let place = Place::new(SCRIPT);
    let run = place.busy();
    let id = place.sessions().remove(0);
    let state = || {
        let listed = json(&place.ask(&["list", "--json"]));
        (listed["sessions"][0]["state"].clone(), listed["sessions"][0]["pid"].clone())
    };
    assert_eq!(state(), ("running".into(), run.id().into()));
    for name in ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"] {
        let _ = std::fs::remove_file(place.home().join(name));
    }
    assert_eq!(state(), ("running".into(), run.id().into()));
    std::fs::remove_file(place.store().log_path(&id).unwrap().with_file_name("owner")).unwrap();
    assert_eq!(state(), ("running".into(), Value::Null), "nobody says by whom");
    place.go();
    assert_eq!(run.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(state().0, "ended");
}

/// Covers: G17, #115. What waits, what runs and what is streamed is as private as the log.
#[test]
fn everything_that_a_session_leaves_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    fn look(dir: &std::path::Path, seen: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            // One that was being written may have its name by now.
            let Ok(meta) = std::fs::metadata(&path) else { continue };
            let mode = meta.permissions().mode() & 0o777;
            let wanted = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, wanted, "{} is {mode:o}", path.display());
            seen.push(path.file_name().unwrap().to_string_lossy().into_owned());
            if path.is_dir() {
                look(&path, seen);
            }
        }
    }
    let place = Place::new(SCRIPT);
    let open_to_all = |command: &std::process::Command| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "umask 000; exec \"$0\" \"$@\""]).arg(command.get_program());
        shell.args(command.get_args()).current_dir(place.file("")).env_clear();
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell
    };
    let mut run = open_to_all(&place.run(&["--permission", "all", "work"])).spawn().unwrap();
    place.until("it works", || place.file("begun").exists());
    let sent = place.segno(&["send", "last", "later", "--queue"]);
    assert!(open_to_all(&sent).status().unwrap().success());
    assert!(open_to_all(&place.segno(&["list"])).status().unwrap().success());
    let mut streams = open_to_all(&place.run(&["partly"])).spawn().unwrap();
    let has_draft = |id: &SessionId| {
        place.store().log_path(id).is_ok_and(|log| log.with_file_name("draft").exists())
    };
    place.until("it streams", || place.sessions().iter().any(has_draft));
    let mut seen = Vec::new();
    look(&place.home(), &mut seen);
    for name in [
        "log.jsonl",
        "owner",
        "draft",
        "inbox",
        "actions",
        "request",
        "claim",
        "output",
        "lock",
        "catalog.sqlite",
    ] {
        assert!(seen.iter().any(|there| there == name), "{name}: {seen:?}");
    }
    for process in [&mut run, &mut streams] {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    place.go();
}
