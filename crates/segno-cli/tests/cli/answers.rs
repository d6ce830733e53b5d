//! Permission questions, answered from another terminal: while the run waits, while nobody has the session,
//! and from a watching one. With real processes.

use crate::inputs::json;
use crate::interactive::Desk;
use crate::place::{Place, Ran, wait};
use crate::subagents::{children, with_scout};
use crate::terminal_process::Played;
use rustix::process::{Pid, Signal, kill_process};
use segno_model::store::SessionStore as _;
use serde_json::Value;
use std::process::Stdio;

/// Asks for one command; says how its result begins.
const SCRIPT: &str = r#"
rule work
  when last user
  when user contains "work"
  say "Working."
  call bash {"command": "echo one >> effects"}
rule told
  when last results
  say "Told: {result_line}"
otherwise
  say "Heard: {prompt}"
"#;

/// A parent whose subagent asks for one command.
const SUBAGENT_ASKS: &str = r##"
rule child works
  when system contains "# Role"
  when last user
  say "Working."
  call bash {"command": "echo one >> effects"}
rule child told
  when system contains "# Role"
  say "I was told: {result_line}"
rule parent gives
  when last user
  call task {"agent": "scout", "prompt": "work on it"}
otherwise
  say "Told: {result_line}"
"##;

impl Place {
    /// A session in a terminal that waits for the answer to a question.
    fn asking(&self) -> Played {
        let mut segno = Desk::play_at(self, &["--model", "anthropic/demo", "work on it"]);
        segno.wait_for("Run: echo one");
        segno.wait_for("yes, once");
        segno
    }

    /// The same, its process killed.
    fn asked_and_killed(&self) {
        let segno = self.asking();
        let id = self.sessions().remove(0);
        let owner = self.store().holder(&id).unwrap().unwrap();
        let pid = Pid::from_raw(i32::try_from(owner.pid).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        drop(segno);
        self.until("it is free", || !self.is_held(&id));
    }

    fn effects(&self) -> String {
        std::fs::read_to_string(self.file("effects")).unwrap_or_default()
    }
}

fn question(place: &Place) -> Value {
    json(&place.ask(&["answer", "last", "--json"]))["questions"][0].clone()
}

/// Covers: G9, #43. The run that waits takes it at once, and the person who sits there sees who answered.
#[test]
fn a_question_is_answered_from_another_terminal() {
    for (args, said, effects, shown) in [
        (
            &["--allow"][..],
            "Allowed, this once; the run that asked goes on.",
            "one\n",
            "→ allowed from elsewhere",
        ),
        (
            &["--deny", "not on a Friday"],
            "Not allowed; the run that asked goes on.",
            "",
            "→ not allowed from elsewhere: not on a Friday",
        ),
    ] {
        let place = Place::new(SCRIPT);
        let mut segno = place.asking();
        let listed = place.ask(&["list"]);
        assert!(listed.out.contains("waiting for approval"), "{listed:?}");
        let asked = place.ask(&["answer", "last"]);
        for part in ["? bash", "Run: echo one >> effects", "--allow`, or `--deny [REASON]"] {
            assert!(asked.out.contains(part), "{part}: {asked:?}");
        }
        let ran = place.ask(&[&["answer", "last"], args].concat());
        assert_eq!((ran.code, ran.out.contains(said)), (Some(0), true), "{ran:?}");
        segno.wait_for(shown);
        segno.ready();
        segno.send("\x04");
        segno.exit_code();
        assert_eq!(place.effects(), effects);
        let again = place.ask(&["answer", "last", "--allow"]);
        assert_eq!(again.code, Some(6), "{again:?}");
        assert!(again.err.contains("No question waits"), "{again:?}");
    }
}

/// Covers: G9. A subagent's question is its parent's person's: it is listed, shown and answered under the id of
/// either, and in a watching terminal, while both work.
#[test]
fn a_subagents_question_is_answered_from_another_terminal() {
    let ways: [(bool, &[&str], &str); 3] = [
        (true, &["--allow"], "one\n"),
        (false, &["--allow"], "one\n"),
        (false, &["--deny", "no"], ""),
    ];
    for (by_child, args, effects) in ways {
        let place = with_scout(Place::new(SUBAGENT_ASKS));
        let mut segno = Desk::play_at(&place, &["--model", "anthropic/demo", "give it"]);
        segno.wait_for("Subagent scout: Run: echo one");
        segno.wait_for("yes, once");
        let listed = place.ask(&["list"]);
        assert!(listed.out.contains("waiting for approval"), "{listed:?}");
        let child = children(&place).remove(0).id.to_string();
        let asked = place.ask(&["answer", "last"]);
        for part in ["? bash", &format!("subagent {child}"), "Run: echo one >> effects"] {
            assert!(asked.out.contains(part), "{part}: {asked:?}");
        }
        assert_eq!(question(&place)["subagent"], child.as_str());
        let whose = if by_child { child.as_str() } else { "last" };
        let ran = place.ask(&[&["answer", whose], args].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("the run that asked goes on."), "{ran:?}");
        segno.wait_for("allowed from elsewhere");
        segno.wait_for("Told: I was told");
        segno.ready();
        segno.send("\x04");
        segno.exit_code();
        assert_eq!(place.effects(), effects);
        assert_eq!(place.ask(&["answer", whose, "--allow"]).code, Some(6));
    }
}

/// Covers: G9. A terminal that watches the parent shows what its subagent asks, and answers that.
#[test]
fn a_subagents_question_is_answered_from_a_watching_terminal() {
    let place = with_scout(Place::new(SUBAGENT_ASKS));
    let mut segno = Desk::play_at(&place, &["--model", "anthropic/demo", "give it"]);
    segno.wait_for("Subagent scout: Run: echo one");
    let mut attach = place.segno(&["attach"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut typed = attach.stdin.take().unwrap();
    std::io::Write::write_all(&mut typed, b"/allow\n").unwrap();
    segno.wait_for("allowed from elsewhere");
    segno.ready();
    std::io::Write::write_all(&mut typed, b"/quit\n").unwrap();
    let watched: Ran = attach.wait_with_output().unwrap().into();
    for part in ["? bash", ", subagent ", "(allowed)"] {
        assert!(watched.out.contains(part), "{part}: {}", watched.out);
    }
    segno.send("\x04");
    segno.exit_code();
    assert_eq!(place.effects(), "one\n");
}

/// Covers: G8, G9, #43. Nobody has the session: the answer waits, the newest one counts, and whoever goes on
/// takes it instead of asking, or of refusing because nobody can be asked.
#[test]
fn an_answer_to_a_session_that_nobody_has_counts_when_it_goes_on() {
    for (answers, effects, fate) in [
        (&[&["--allow"][..]][..], "one\n", "done"),
        (&[&["--deny", "no"]], "", "denied"),
        (&[&["--deny"], &["--allow"]], "one\n", "done"),
    ] {
        let place = Place::new(SCRIPT);
        place.asked_and_killed();
        assert_eq!(question(&place)["sent"], Value::Null);
        for args in answers {
            let ran = place.ask(&[&["answer", "last"], *args].concat());
            assert_eq!(ran.code, Some(0), "{ran:?}");
            assert!(ran.out.contains("the answer is kept"), "{ran:?}");
            assert!(ran.out.contains("segno resume"), "{ran:?}");
        }
        assert_eq!(place.effects(), "", "nothing runs by an answer alone");
        let allowed = answers.last().unwrap()[0] == "--allow";
        assert_eq!(question(&place)["sent"]["allowed"], allowed);
        let url = place.server.url();
        let policy = ["resume", "last", "--policy", "auto", "--base-url", &url];
        let ran = place.ask(&[&policy[..], &["--permission", "ask"]].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(
            (place.effects().as_str(), place.story()),
            (effects, format!("user assistant {fate} assistant | completed"))
        );
        let id = place.sessions().remove(0);
        let left = wait(place.store().pending(&id)).unwrap().pending;
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(place.server.violations(), []);
    }
}

/// Covers: G9. The service entry says what it waits for, and goes on when there is an answer.
#[test]
fn the_service_entry_goes_on_with_what_was_answered() {
    let place = Place::new(SCRIPT);
    place.asked_and_killed();
    let plan = || json(&place.ask(&["resume", "--all", "--dry-run", "--json", "--policy", "auto"]));
    let planned = plan();
    assert_eq!(planned["sessions"][0]["action"], "skip", "{planned}");
    assert!(planned["sessions"][0]["why"].as_str().unwrap().contains("segno answer"), "{planned}");
    assert_eq!(place.ask(&["answer", "last", "--allow"]).code, Some(0));
    assert_eq!(plan()["sessions"][0]["action"], "take_up");
    let url = place.server.url();
    let ran = place.ask(&["resume", "--all", "--policy", "auto", "--base-url", &url]);
    assert_eq!((ran.code, place.effects().as_str()), (Some(0), "one\n"), "{ran:?}");
}

/// What a script sees of it is as the page says.
#[test]
fn an_answer_from_elsewhere_is_an_event() {
    use segno_cli::engine::JsonWatch;
    use segno_cli::terminal::{Look, Screen};
    use segno_runtime::{Event, Observer as _};
    let look = Look { colour: false, columns: 80, terminal: false, full: false };
    let (mut screen, captured) = Screen::captured(look);
    let mut watch = JsonWatch::new(&mut screen, "s", "m");
    let reason = Some("not on a Friday");
    watch.event(Event::Answered { call_id: "toolu_01", allowed: false, reason });
    let told: Value = serde_json::from_str(captured.text().lines().last().unwrap()).unwrap();
    let page = include_str!("../../../../docs/protocol/run-events.md");
    let example = page.lines().find(|line| line.starts_with("{\"event\":\"answered\"")).unwrap();
    assert_eq!(told, serde_json::from_str::<Value>(example).unwrap());
}

/// Covers: G9. A watching terminal shows the question and answers it.
#[test]
fn a_question_is_answered_from_a_watching_terminal() {
    let place = Place::new(SCRIPT);
    let mut segno = place.asking();
    let mut attach = place.segno(&["attach"]);
    let mut attach = attach.stdin(Stdio::piped()).spawn().unwrap();
    let mut typed = attach.stdin.take().unwrap();
    std::io::Write::write_all(&mut typed, b"/allow\n").unwrap();
    segno.wait_for("→ allowed from elsewhere");
    segno.ready();
    std::io::Write::write_all(&mut typed, b"/allow\n/quit\n").unwrap();
    let watched: Ran = attach.wait_with_output().unwrap().into();
    for part in ["? bash", "It waits for approval: /allow", "(allowed)", "No question waits"] {
        assert!(watched.out.contains(part), "{part}: {}", watched.out);
    }
    segno.send("\x04");
    segno.exit_code();
    assert_eq!(place.effects(), "one\n");
}

/// What makes no sense sends nothing. Covers: G9.
#[test]
fn slips_about_questions_answer_nothing() {
    let place = Place::new(SCRIPT);
    place.asked_and_killed();
    for (args, code, said) in [
        (&["answer"][..], 2, "SESSION"),
        (&["answer", "last", "--allow", "--deny"], 2, "cannot be used with"),
        (
            &["answer", "last", "--allow", "--call", "nosuch"],
            6,
            "No question about a call `nosuch`",
        ),
        (&["answer", "nosuch", "--allow"], 6, "There is no session `nosuch`."),
    ] {
        let ran = place.ask(args);
        assert!(ran.err.contains(said), "{args:?}: {ran:?}");
        assert_eq!(ran.code, Some(code), "{args:?}: {ran:?}");
    }
    assert_eq!(question(&place)["sent"], Value::Null);
    let told = json(&place.ask(&["answer", "last", "--deny", "why", "--json"]));
    crate::json_page::same_shape("answer", &crate::json_page::example("answer"), &told);
    assert_eq!(told["answered"]["stage"], "pending", "{told}");
}
