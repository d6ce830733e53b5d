//! What is said when something cannot be done, or is gone: nothing is passed off as done, and each failure
//! names a way out. With real processes.

use crate::inputs::json;
use crate::interactive::Desk;
use crate::place::{Place, Ran, skipped, wait};
use crate::run::SmallDisk;
use crate::terminal_process::Played;
use segno_model::SessionId;
use segno_model::inbox::{InputBody, NewInput, holder_key};
use segno_model::record::{Body, RunEnd, RunState};
use segno_model::store::{Clock as _, HeldSession as _, Judged, SessionStore as _};
use segno_store::SystemClock;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// A command that works until the file `go` is there.
const SCRIPT: &str = r#"
rule work
  when last user
  when user contains "work"
  say "Working."
  call bash {"command": "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo worked"}
otherwise
  say "Heard: {prompt}"
"#;

impl Place {
    fn dir(&self, id: &SessionId) -> PathBuf {
        self.store().log_path(id).unwrap().parent().unwrap().to_owned()
    }

    fn one_session(&self) -> SessionId {
        let ran = self.done(&["hello"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        self.sessions().remove(0)
    }

    fn at_work(&self, args: &[&str]) -> Child {
        let child = self.run(&[args, &["--permission", "all", "work"]].concat()).spawn().unwrap();
        self.until("it works", || self.file("begun").exists());
        child
    }

    fn ends(&self) -> Vec<RunEnd> {
        let ends = self.records().into_iter().filter_map(|record| match record.into_body() {
            Body::Run(run) => match run.state {
                RunState::Ended { end, .. } => Some(end),
                _ => None,
            },
            _ => None,
        });
        ends.collect()
    }
}

/// Where the stop has no place its run is told by a signal, and that is said: the run ends as the user's, and
/// stays stopped. Covers: G9, G16.
#[test]
fn a_stop_that_cannot_be_written_is_given_by_a_signal_and_said() {
    let place = Place::new(SCRIPT);
    let run = place.at_work(&[]);
    let id = place.sessions().remove(0);
    // Something stands where admitted inputs go.
    let inbox = place.dir(&id).join("inbox");
    let _ = std::fs::remove_dir(&inbox);
    std::fs::write(&inbox, "in the way").unwrap();
    let sent = place.ask(&["send", "last", "more"]);
    assert_ne!(sent.code, Some(0), "what is not kept is not acknowledged: {sent:?}");
    let stopped = place.ask(&["stop", "last"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    for part in
        ["could not be written", "was told by a signal", "Run 1 is stopped, and that is recorded."]
    {
        assert!(stopped.out.contains(part), "{part}: {stopped:?}");
    }
    let ran: Ran = run.wait_with_output().unwrap().into();
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(place.ends(), [RunEnd::Stopped]);
    std::fs::remove_file(&inbox).unwrap();
    let again = json(&place.ask(&["stop", "last", "--json"]));
    assert_eq!(again["stopped"], serde_json::Value::Null);
}

/// The same on a disk without room: everything that the stop can do without a record it does, the rest is
/// said. Nobody drives it any more: it is said that nothing was kept, and what to do. Covers: G9, G16.
#[test]
fn a_stop_on_a_full_disk_works_or_says_what_to_do() {
    let place = Place::new(SCRIPT);
    let Some(_disk) = SmallDisk::mount(place.home(), "size=1m") else {
        return skipped("no file system can be mounted here");
    };
    let mut run = place.at_work(&[]);
    let filler = place.home().join("filler");
    let fill = || {
        let mut full = std::fs::File::create(&filler).unwrap();
        while full.write_all(&[0; 512]).is_ok() {}
    };
    fill();
    let stopped = place.ask(&["stop", "last"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopped.out.contains("was told by a signal"), "{stopped:?}");
    std::fs::remove_file(&filler).unwrap();
    assert!(matches!(run.wait().unwrap().code(), Some(3 | 7)));
    assert!(!place.story().contains("completed"), "{}", place.story());

    // Again, with its process dead.
    let place = Place::new(SCRIPT);
    let Some(_disk) = SmallDisk::mount(place.home(), "size=1m") else { return };
    let mut run = place.at_work(&[]);
    run.kill().unwrap();
    run.wait().unwrap();
    place.go();
    let id = place.sessions().remove(0);
    place.until("it is free", || !place.is_held(&id));
    let filler = place.home().join("filler");
    let mut full = std::fs::File::create(&filler).unwrap();
    while full.write_all(&[0; 512]).is_ok() {}
    let refused = place.ask(&["stop", "last"]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    for part in ["The stop could not be recorded.", "Nobody drives the run now", "Free some space"]
    {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
    drop(full);
    std::fs::remove_file(&filler).unwrap();
    let stopped = place.ask(&["stop", "last"]);
    assert!(stopped.out.contains("Run 1 is stopped."), "{stopped:?}");
    assert_eq!(place.ends(), [RunEnd::Stopped]);
}

/// Covers: G8. A holder that was asked to let go takes nothing more.
#[test]
fn a_sender_is_told_when_the_holder_lets_go() {
    let place = Place::new(SCRIPT);
    let id = place.one_session();
    let store = place.store();
    let held = wait(store.open(&id)).unwrap();
    let Ok(Judged::Sound(_opened)) = wait(held.judge()) else { panic!("it is sound") };
    let owner = store.holder(&id).unwrap().unwrap();
    let body = InputBody::Suspend { holder: holder_key(&owner) };
    wait(store.admit(&id, &NewInput::new("let go", body), SystemClock.now())).unwrap();
    let sent = place.ask(&["send", "last", "more"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(sent.out.contains("was asked to let go of the session; it waits"), "{sent:?}");
    assert!(sent.out.contains("--deliver"), "{sent:?}");
    assert!(!sent.out.contains("next step"), "{sent:?}");
}

/// Covers: G3, G4. Nothing is left of it but its name; that is damage and not an empty session.
#[test]
fn an_emptied_log_is_damage_wherever_it_is_looked_at() {
    let place = Place::new(SCRIPT);
    let id = place.one_session();
    let id = id.as_str();
    std::fs::write(place.store().log_path(&place.sessions()[0]).unwrap(), "").unwrap();
    let listed = json(&place.ask(&["list", "--all", "--json"]));
    assert_eq!(listed["sessions"][0]["state"], "damaged", "{listed}");
    let checked = place.ask(&["check", id]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    assert!(checked.out.contains("the log is empty"), "{checked:?}");
    let all = place.ask(&["check", "--all"]);
    assert!(all.code == Some(1) && all.out.contains("1 damaged"), "{all:?}");
    let mut resumed = Desk::play_at(&place, &["--model", "anthropic/demo", "resume", id]);
    resumed.wait_for("keep it; perhaps");
    resumed.send("k");
    resumed.wait_for("the log is empty");
    resumed.ready();
    resumed.send("\x04");
    resumed.exit_code();
    let plan = place.ask(&["resume", "--all", "--dry-run"]);
    assert_eq!(plan.code, Some(0), "{plan:?}");
}

/// Covers: G3, G8. The log was deleted: what else was acknowledged is named, and its words are shown.
#[test]
fn what_a_deleted_log_leaves_behind_is_shown() {
    let place = Place::new(SCRIPT);
    let id = place.one_session();
    let sent = place.ask(&["send", "last", "later words\nand more", "--id", "k1", "--no-run"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let log = place.store().log_path(&id).unwrap();
    let kept = std::fs::read(&log).unwrap();
    std::fs::remove_file(&log).unwrap();
    let id = id.as_str();
    let listed = place.ask(&["list", "--all"]);
    assert!(listed.out.contains("unreadable"), "{listed:?}");
    let listed = json(&place.ask(&["list", "--all", "--json"]));
    let error = listed["sessions"][0]["error"].as_str().unwrap();
    assert!(error.contains("its log is gone; left: 1 admitted input"), "{listed}");
    let all = place.ask(&["check", "--all"]);
    assert!(all.code == Some(2) && all.out.contains("its log is gone"), "{all:?}");
    for args in
        [&["check", id][..], &["show", id], &["send", id, "x"], &["resume", id], &["stop", id]]
    {
        let ran = place.ask(args);
        assert_ne!(ran.code, Some(0), "{args:?}: {ran:?}");
        for part in ["is gone.", "left: 1 admitted input", "log.jsonl back", "segno inbox"] {
            assert!(ran.err.contains(part), "{args:?}, {part}: {ran:?}");
        }
    }
    let inbox = place.ask(&["inbox", id]);
    assert_eq!(inbox.code, Some(5), "{inbox:?}");
    for part in ["k1", "later words", "and more", "the log is gone", "segno send SESSION TEXT"] {
        assert!(inbox.out.contains(part), "{part}: {inbox:?}");
    }
    let inbox = json(&place.ask(&["inbox", id, "--json"]));
    assert_eq!(inbox["inputs"][0]["text"], "later words\nand more", "{inbox}");
    // A backup is put back, and everything goes on.
    std::fs::write(&log, kept).unwrap();
    assert_eq!(place.inbox(), ["k1"]);
}

/// Bytes that are no text are refused and not replaced.
#[test]
fn input_that_is_no_text_is_refused() {
    let place = Place::new(SCRIPT);
    place.one_session();
    let piped = |args: &[&str], bytes: &[u8]| {
        let mut command = if args[0] == "run" { place.run(&args[1..]) } else { place.segno(args) };
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    };
    let before = place.records().len();
    for args in [&["send", "last", "-", "--no-run"][..], &["run", "--continue", "look at this"]] {
        let ran = piped(args, b"caf\xe9 au lait\n");
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        assert!(ran.err.contains("from byte 3 on it is not UTF-8"), "{args:?}: {ran:?}");
        assert!(ran.err.contains("next:"), "{args:?}: {ran:?}");
    }
    let watched = piped(&["attach"], b"caf\xe9\n/queue then this\n");
    assert!(watched.out.contains("from byte 3 on"), "{watched:?}");
    assert_eq!(place.said().iter().filter(|said| said.contains("caf")).count(), 0);
    assert!(place.records().len() >= before);
}

/// Whoever reads both outputs in one stream reads each reply once; what stood before a call comes, too.
#[test]
fn the_last_reply_is_printed_once() {
    let place = Place::new(SCRIPT);
    place.go();
    let ran = place.done(&["--permission", "all", "work"]);
    let both = ran.err.clone() + &ran.out;
    assert_eq!(ran.out, "Heard: work\n", "{ran:?}");
    assert_eq!(both.matches("Heard: work").count(), 1, "{ran:?}");
    assert_eq!(both.matches("Working.").count(), 1, "{ran:?}");
}

/// Covers: G9. The documented exit code, whether a turn runs or not and whether a signal comes or not.
#[test]
fn a_closed_terminal_ends_with_its_exit_code() {
    for (busy, signalled) in [(false, true), (true, true), (false, false), (true, false)] {
        let place = Place::new(SCRIPT);
        let mut args = vec!["--model", "anthropic/demo", "--permission", "all"];
        args.extend(busy.then_some("work on it"));
        let begun = || place.until("it works", || !busy || place.file("begun").exists());
        let shown = if busy { "Working." } else { "Ctrl-D leaves" };
        let mut command = Desk::command_at(&place, &args);
        if !signalled {
            // In a session of its own it has no controlling terminal, so nobody sends it a signal.
            let around = ["sh", "-c", "trap '' HUP; exec setsid --wait \"$@\"", "sh"];
            command.get_argv_mut().splice(0..0, around.map(Into::into));
        }
        let code = Played::closed_at(command, shown, begun);
        assert_eq!(code, 9, "busy: {busy}, signalled: {signalled}");
        place.go();
    }
}

/// Covers: G8. A run that completed stays completed when nobody could be started for what waits behind it.
#[test]
fn a_failed_hand_over_does_not_make_a_run_fail() {
    let place = Place::new(SCRIPT);
    let run = place.at_work(&[]);
    let queued = place.ask(&["send", "last", "later", "--id", "k1", "--queue"]);
    assert_eq!(queued.code, Some(0), "{queued:?}");
    // Whoever is started next cannot read its configuration.
    std::fs::write(place.home().join("config.toml"), "policy = 7\n").unwrap();
    place.go();
    let ran: Ran = run.wait_with_output().unwrap().into();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Heard: work\n"), "{ran:?}");
    for part in ["warning:", "was not begun", "--deliver"] {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
    std::fs::remove_file(place.home().join("config.toml")).unwrap();
    assert_eq!(place.inbox(), ["k1"]);
}

/// Covers: G3, G8, G9. The service entry tells what was noticed about a session, and what waits in it.
#[test]
fn the_service_entry_tells_findings_and_what_waits() {
    let place = Place::new(SCRIPT);
    let mut run = place.at_work(&["--policy", "auto"]);
    run.kill().unwrap();
    run.wait().unwrap();
    place.go();
    let id = place.sessions().remove(0);
    place.until("it is free", || !place.is_held(&id));
    assert_eq!(place.ask(&["send", "last", "later", "--no-run"]).code, Some(0));
    let log = place.store().log_path(&id).unwrap();
    std::fs::OpenOptions::new().append(true).open(log).unwrap().write_all(b"{\"torn").unwrap();
    let plan = json(&place.ask(&["resume", "--all", "--dry-run", "--json"]));
    let session = &plan["sessions"][0];
    assert_eq!(
        (&session["waiting"], &session["findings"][0]["code"]),
        (&1.into(), &"torn-tail".into()),
        "{plan}"
    );
    let url = place.server.url();
    let ran = place.ask(&["resume", "--all", "--base-url", &url]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for part in ["completed", "the last write was cut short", "1 input waits", "segno inbox"] {
        assert!(ran.out.contains(part), "{part}: {ran:?}");
    }
}
