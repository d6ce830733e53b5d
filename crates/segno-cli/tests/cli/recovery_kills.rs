//! SIGKILL where it hurts most: inside recovery itself, for each replay class; between a stop's record and its
//! end; in the middle of a compaction; and sessions taken over from processes that do not answer.
//!
//! A kill inside recovery strikes when so many records were written since it began; wherever exactly that is,
//! what must hold afterwards is the same.

use crate::inputs::json;
use crate::interactive::Desk;
use crate::place::{PATIENCE, Place, Ran, signal, wait};
use crate::terminal_process::Played;
use rustix::process::Signal;
use segno_model::SessionId;
use segno_model::record::{Body, Message, RunEnd, RunState};
use segno_model::store::SessionStore as _;
use segno_testkit::scripted_model::{Delivery, Recorded};
use segno_testkit::ticket_service::{Fault, TicketServer};
use serde_json::Value;
use std::process::{Child, Stdio};

/// How many recoveries of one session are killed; the n-th when n records were written.
const KILLS: usize = 6;

/// One of each class: the prompt chooses.
fn script() -> String {
    let command = format!("kill -9 {AGENT}; echo one >> effects");
    format!(
        r#"
rule read
  when last user
  when prompt is "read"
  call read {{"path": "a.txt"}}
rule edit
  when last user
  when prompt is "edit"
  call edit {{"path": "a.txt", "old_text": "before", "new_text": "after"}}
rule command
  when last user
  when prompt is "command"
  call bash {{"command": {command}}}
rule keyed
  when last user
  when prompt is "keyed"
  call mcp__tickets__create_ticket {{"title": "it"}}
rule opaque
  when last user
  when prompt is "opaque"
  call mcp__tickets__open_ticket {{"title": "it"}}
otherwise
  say "Done with it."
"#,
        command = Value::from(command)
    )
}

/// The agent, which is the parent of the command's parent.
const AGENT: &str = "$(cut -d' ' -f4 /proc/$PPID/stat)";

/// A replay class, and what must be the outcome of its call.
struct Class {
    name: &'static str,
    outcome: &'static str,
}

const CLASSES: [Class; 5] = [
    Class { name: "read", outcome: "notrecorded" },
    Class { name: "edit", outcome: "done" },
    Class { name: "command", outcome: "done" },
    Class { name: "keyed", outcome: "done" },
    Class { name: "opaque", outcome: "unknown" },
];

fn configure(place: &Place, service: &TicketServer) {
    std::fs::create_dir_all(place.home()).unwrap();
    let text = format!(
        "[limits]\nwithout-progress = 50\nattempts = 50\n\n[mcp.tickets]\nurl = \"{}\"\ntrust = true\n\n\
         [mcp.tickets.keyed.create_ticket]\noperation-id = \"operation_id\"\n\
         query = {{ tool = \"find_ticket\", argument = \"operation_id\", absent = \"no such\" }}\n",
        service.url()
    );
    std::fs::write(place.home().join("config.toml"), text).unwrap();
}

impl Place {
    /// Leaves a call of this class behind whose process died before its result was recorded.
    fn die_in(&self, class: &Class, service: &TicketServer) {
        std::fs::write(self.file("a.txt"), "before\n").unwrap();
        let args = ["--policy", "auto", "--permission", "all", class.name];
        match class.name {
            // The process came to its end, and of its log what it had written by then is left.
            "read" => self.cut_behind(&args, "\"role\":\"assistant\""),
            "edit" => self.cut_behind(&args, "\"type\":\"action\""),
            "command" => {
                self.done(&args);
                self.until_action_has("status");
            }
            _ => {
                service.tickets.fail(&[Fault::Hang]);
                let mut child = self.run(&args).spawn().unwrap();
                self.until("it has happened", || !service.tickets.done().is_empty());
                signal(&child, Signal::KILL);
                child.wait().unwrap();
            }
        }
    }

    /// Runs to the end, and cuts the log behind the first line that holds this.
    fn cut_behind(&self, args: &[&str], mark: &str) {
        let ran = self.done(args);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let log = self.its_log();
        let text = std::fs::read_to_string(&log).unwrap();
        let kept: usize = text
            .split_inclusive('\n')
            .scan(false, |over, line| {
                let take = !*over;
                *over |= line.contains(mark);
                take.then_some(line.len())
            })
            .sum();
        assert!(kept < text.len(), "{mark}");
        std::fs::write(&log, &text[..kept]).unwrap();
    }

    fn its_log(&self) -> std::path::PathBuf {
        self.store().log_path(&self.sessions()[0]).unwrap()
    }

    fn lines(&self) -> usize {
        let bytes = std::fs::read(self.its_log()).unwrap_or_default();
        bytes.iter().filter(|byte| **byte == b'\n').count()
    }

    fn recovery(&self) -> std::process::Command {
        let url = self.server.url();
        self.segno(&["resume", "last", "--permission", "all", "--base-url", &url])
    }

    fn results(&self) -> Vec<String> {
        let records = self.records();
        let results = records.iter().filter_map(|record| match record.body() {
            Body::Message(message) => match &**message {
                Message::Tool(result) => Some(format!("{:?}", result.outcome).to_lowercase()),
                _ => None,
            },
            _ => None,
        });
        results.collect()
    }
}

/// Kills it as soon as so many lines were written since; says whether it was still alive.
fn kill_after(place: &Place, child: &mut Child, lines: usize, before: usize) -> bool {
    while place.lines() < before + lines {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::yield_now();
    }
    let alive = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    alive
}

/// Covers: G4, G6, G7, G9, SD1. Recovery is killed again and again; the last one finds what the first would
/// have found: each effect happened once, and the model is told once, and the truth.
#[test]
fn recovery_killed_in_every_class_is_recovered_from() {
    for class in &CLASSES {
        let place = Place::new(&script());
        let service = TicketServer::start(&place.home().with_file_name("tickets"));
        configure(&place, &service);
        place.die_in(class, &service);
        let mut killed = 0;
        for n in 0..KILLS {
            let before = place.lines();
            let mut recovery = place.recovery();
            let mut child = recovery.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            killed += usize::from(kill_after(&place, &mut child, n, before));
        }
        assert!(killed > 1, "{}: {killed} kills", class.name);
        let ran: Ran = place.recovery().output().unwrap().into();
        // A kill may have come so late that nothing was left to be done.
        assert!(matches!(ran.code, Some(0 | 2)), "{}: {ran:?}", class.name);
        assert_eq!(place.results(), [class.outcome], "{}: {}", class.name, place.story());
        assert!(place.story().ends_with("assistant | completed"), "{}", place.story());
        assert_eq!(place.server.violations(), [], "{}", class.name);
        let effects = std::fs::read_to_string(place.file("effects")).unwrap_or_default();
        assert_eq!(effects, if class.name == "command" { "one\n" } else { "" });
        let text = if class.name == "edit" { "after\n" } else { "before\n" };
        assert_eq!(place.read("a.txt"), text, "{}", class.name);
        let tickets = matches!(class.name, "keyed" | "opaque");
        assert_eq!(service.tickets.done().len(), usize::from(tickets), "{}", class.name);
    }
}

/// A command that a request to end does not end at once.
const STUBBORN: &str = r#"
rule work
  when last user
  when prompt is "work"
  call bash {"command": "trap '' TERM; touch begun; while true; do echo x >> effects; sleep 0.05; done"}
otherwise
  say "Fine."
"#;

/// Covers: G7, G9, SD1. Killed behind the record of a stop and before what it stops has ended: whoever comes
/// next finishes the stop, and nothing of it starts again.
#[test]
fn a_kill_between_a_stops_record_and_its_end_leaves_it_stopped() {
    for again in [&["stop", "last"][..], &["resume", "last"], &["resume", "--all"]] {
        let place = Place::new(STUBBORN);
        let mut run =
            place.run(&["--policy", "auto", "--permission", "all", "work"]).spawn().unwrap();
        place.until("it works", || place.file("begun").exists());
        let stop = place.segno(&["stop", "last"]).stdout(Stdio::null()).spawn().unwrap();
        while !std::fs::read_to_string(place.its_log()).unwrap().contains("\"stopping\"") {
            std::thread::yield_now();
        }
        run.kill().unwrap();
        run.wait().unwrap();
        let stopped: Ran = stop.wait_with_output().unwrap().into();
        // The sender of the stop may have finished it by itself.
        assert!(matches!(stopped.code, Some(0 | 4)), "{stopped:?}");
        let id = place.sessions().remove(0);
        place.until("it is free", || !place.is_held(&id));
        let finished = place.ask(again);
        assert!(matches!(finished.code, Some(0 | 2 | 3)), "{again:?}: {finished:?}");
        let ends: Vec<RunEnd> = place
            .records()
            .into_iter()
            .filter_map(|record| match record.into_body() {
                Body::Run(run) => match run.state {
                    RunState::Ended { end, .. } => Some(end),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        assert_eq!(ends, [RunEnd::Stopped], "{again:?}");
        assert_eq!(place.results(), ["stopped"], "{again:?}: {}", place.story());
        let effects = place.read("effects");
        let running = json(&place.ask(&["status", "--json"]));
        assert_eq!(running["commands"], Value::Array(Vec::new()), "{again:?}");
        assert_eq!(place.read("effects"), effects, "it has ended");
        let next = place.done(&["--permission", "all", "--continue", "and now?"]);
        assert_eq!((next.code, next.out.as_str()), (Some(0), "Fine.\n"), "{next:?}");
        assert_eq!(place.server.violations(), []);
    }
}

/// Covers: G4, G6, SD1. Killed while the model writes the summary: nothing of the conversation is lost, the
/// next process goes on with all of it, and the next compaction succeeds.
#[test]
fn a_kill_in_the_middle_of_a_compaction_loses_nothing() {
    let headings = [
        "Goal",
        "Constraints",
        "Decisions",
        "Done",
        "In progress",
        "Next",
        "Files",
        "Open questions",
    ];
    let sections: String =
        headings.iter().map(|name| format!("## {name}\nwords, and more words\n")).collect();
    let summary = Value::from(format!("<summary>\n{sections}</summary>"));
    let place = Place::new(&format!(
        "rule summary\n  once\n  when user contains \"Summarise\"\n  new-prefix\n  fault hang after 3 events\n  \
         say \"<summary>half of it</summary>\"\n\
         rule summary again\n  when user contains \"Summarise\"\n  new-prefix\n  say {summary}\n\
         otherwise\n  new-prefix\n  say \"You said: {{prompt}}\"\n",
    ));
    for n in 0..6 {
        let prompt = format!("say {n} {}", "words ".repeat(40));
        let args: &[&str] = if n == 0 { &[&prompt] } else { &["--continue", &prompt] };
        assert_eq!(place.done(args).code, Some(0));
    }
    let before = place.records();
    let mut segno = Desk::play_at(&place, &["--model", "anthropic/demo", "resume", "last"]);
    segno.wait_for("keep it; perhaps");
    segno.send("k");
    segno.enter("/compact the words");
    let hangs = |requests: &[Recorded]| requests.iter().any(|r| r.delivery == Delivery::Hanging);
    assert!(place.server.wait_until(PATIENCE, hangs), "{}", segno.screen());
    segno.signal("KILL");
    drop(segno);
    let id = place.sessions().remove(0);
    place.until("it is free", || !place.is_held(&id));
    let ran = place.done(&["--continue", "and more"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "You said: and more\n"), "{ran:?}");
    let after = place.records();
    assert!(before.iter().zip(&after).all(|(then, now)| then.line == now.line));
    assert_eq!(unknown_calls(&place, &id), (1, 1), "what the summary cost nobody knows");
    let sent = place.server.requests().last().unwrap().seen.clone().unwrap();
    let users = sent.turns.iter().filter(|turn| turn.role() == "user").count();
    assert_eq!(users, 7, "every prompt is sent: {:?}", sent.turns);
    let mut segno = Desk::play_at(&place, &["--model", "anthropic/demo", "resume", "last"]);
    segno.wait_for("keep it; perhaps");
    segno.send("k");
    segno.enter("/compact the words");
    segno.wait_for("Compacted: about");
    segno.ready();
    segno.send("\x04");
    segno.exit_code();
    assert_eq!(unknown_calls(&place, &id), (1, 1), "from the checkpoint, too");
    assert_eq!(place.server.violations(), []);
}

/// Calls of which nobody knows what they cost: by the totals that checkpoints keep, and by `segno stats`.
fn unknown_calls(place: &Place, id: &SessionId) -> (u64, u64) {
    let told = json(&place.ask(&["stats", id.as_str(), "--json"]));
    let totals = wait(place.store().read(id)).unwrap().state.in_force.totals;
    (totals.unknown, told["total"]["unknown"]["summary"].as_u64().unwrap())
}

const WORK: &str = r#"
rule work
  when last user
  when prompt is "work"
  say "Working."
  call bash {"command": "touch begun; while [ ! -e go ]; do sleep 0.02; done; echo one >> effects"}
otherwise
  say "Heard: {prompt}"
"#;

impl Place {
    /// A run that does not answer, and somebody who asks for its session.
    fn silent(&self) -> (Child, Played) {
        let run = self.run(&["--permission", "all", "work"]).spawn().unwrap();
        self.until("it works", || self.file("begun").exists());
        signal(&run, Signal::STOP);
        let mut segno = Desk::play_at(
            self,
            &["--model", "anthropic/demo", "--permission", "all", "resume", "last", "--take-over"],
        );
        segno.wait_for("End it (SIGTERM)? [y/N]");
        (run, segno)
    }
}

/// Covers: G5, G9. A holder that does not answer is ended step by step, each with a person's yes; what it did
/// is found out afterwards.
#[test]
fn a_silent_holder_is_ended_step_by_step_and_only_on_a_yes() {
    for last in [Signal::TERM, Signal::KILL] {
        let place = Place::new(WORK);
        let (mut run, mut segno) = place.silent();
        segno.send("y\r");
        if last == Signal::TERM {
            // It only slept: it finds the termination.
            signal(&run, Signal::CONT);
        } else {
            segno.wait_for("Kill it (SIGKILL)?");
            segno.send("y\r");
        }
        segno.wait_for("keep it; perhaps");
        let status = run.wait().unwrap();
        if last == Signal::TERM {
            assert_eq!(status.code(), Some(9), "{status}");
        } else {
            use std::os::unix::process::ExitStatusExt as _;
            assert_eq!(status.signal(), Some(9), "{status}");
        }
        segno.send("k");
        segno.wait_for("Continue? [Y/n]");
        place.go();
        segno.send("\r");
        segno.wait_for("Heard: work");
        segno.ready();
        segno.send("\x04");
        segno.exit_code();
        assert_eq!(place.results(), ["done"], "{}", place.story());
        assert_eq!(place.read("effects"), "one\n");
    }
}

/// Covers: G5. Without a yes nothing is ended.
#[test]
fn a_silent_holder_is_left_alone_on_a_no() {
    let place = Place::new(WORK);
    let (mut run, mut segno) = place.silent();
    segno.send("n\r");
    segno.wait_for("has not let go of it");
    assert_eq!(segno.exit_code(), 4);
    signal(&run, Signal::CONT);
    place.go();
    // It finds the request to suspend, and nothing else.
    assert_eq!(run.wait().unwrap().code(), Some(9));
}

/// Covers: G7, G9, #124. A command in the background goes on when its terminal is closed, until its deadline;
/// whoever starts next is told of it, and can end it.
#[test]
fn a_closed_terminal_leaves_a_background_command_that_is_listed_and_can_be_ended() {
    let command =
        r#"{"command": "touch begun; while true; do sleep 0.1; done", "background": true}"#;
    let place = Place::new(&format!(
        "rule go\n  when last user\n  when prompt is \"start it\"\n  call bash {command}\notherwise\n  say \"Fine.\"\n"
    ));
    let args = ["--model", "anthropic/demo", "--permission", "all", "start it"];
    let begun = || place.until("it has begun", || place.file("begun").exists());
    let code = Played::closed_at(Desk::command_at(&place, &args), "Fine.", begun);
    assert_eq!(code, 9);
    let running = json(&place.ask(&["status", "--json"]))["commands"][0].clone();
    assert_eq!((&running["state"], &running["background"]), (&"running".into(), &true.into()));
    assert!(running["deadline"].is_string(), "it has one: {running}");
    let handle = running["handle"].as_str().unwrap();
    let mut next = Desk::play_at(&place, &["--model", "anthropic/demo"]);
    next.wait_for("Commands that run; `segno status --stop HANDLE` ends one:");
    next.wait_for(handle);
    next.ready();
    next.send("\x04");
    next.exit_code();
    let stopped = place.ask(&["status", "--stop", handle]);
    assert_eq!((stopped.code, stopped.out), (Some(0), format!("{handle}: stopped\n")));
}
