//! `segno run`: the real binary against scripted servers.

use crate::place::{PATIENCE, PROVIDERS, Place, Ran, signal, skipped};
use rustix::process::Signal;
use segno_testkit::scripted_model::{Delivery, Turn};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};

const TOOLS: &str = r#"
strict prefix
rule work
  when last user
  when prompt is "work"
  think "Both at once."
  say "Looking."
  call bash {"command": "echo one >> effects; echo said"}
  call read {"path": "note.txt"}
rule worked
  when last results
  say "Done: {result_line}"
otherwise
  say "You said: {user}"
"#;

const HANGS: &str = "otherwise\n  say \"This never ends.\"\n  fault hang\n";

/// Starts a run and returns when its reply hangs.
fn hanging(place: &Place, args: &[&str]) -> Child {
    let child = place.run(args).spawn().unwrap();
    let hangs = |requests: &[segno_testkit::scripted_model::Recorded]| {
        requests.last().is_some_and(|last| last.delivery == Delivery::Hanging)
    };
    assert!(place.server.wait_until(PATIENCE, hangs));
    child
}

fn ended(child: Child) -> Ran {
    child.wait_with_output().unwrap().into()
}

/// Covers: G6, G10.
#[test]
fn a_task_with_tools_is_done_on_every_wire_and_can_be_continued() {
    for model in PROVIDERS {
        let place = Place::with_model(model, TOOLS);
        std::fs::write(place.file("note.txt"), "a note").unwrap();
        let ran = place.done(&["--permission", "all", "work"]);
        assert_eq!(ran.code, Some(0), "{model}: {ran:?}");
        assert_eq!(ran.out, "Done: said\n", "{model}");
        assert_eq!(place.read("effects"), "one\n");
        // In a pipe the reply alone is output; what happened is told beside it.
        assert!(ran.err.contains("bash") && ran.err.contains("note.txt"), "{}", ran.err);
        let resume = format!("segno resume {}", place.sessions()[0]);
        assert!(ran.err.contains(&resume), "{}", ran.err);
        let again = place.done(&["--continue", "and now?"]);
        assert_eq!((again.code, again.out.as_str()), (Some(0), "You said: and now?\n"), "{model}");
        assert_eq!(
            place.story(),
            "user assistant done done assistant | completed user assistant | completed"
        );
        assert_eq!(place.server.violations(), [], "{model}");
    }
}

/// What `--model` and `--base-url` said the first time need not be said again.
#[test]
fn a_session_remembers_its_model() {
    for model in PROVIDERS {
        let place = Place::with_model(model, TOOLS);
        assert_eq!(place.done(&["one"]).code, Some(0));
        let id = place.sessions()[0].to_string();
        let ran: Ran = place.segno(&["run", "--session", &id, "two"]).output().unwrap().into();
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "You said: two\n"), "{model} {ran:?}");
    }
}

/// From any provider to any other and back, with thinking, calls and results in the history. Each server refuses
/// what its provider would refuse.
///
/// Covers: G6, #46, #48.
#[test]
fn another_model_continues_and_so_does_the_first_again() {
    for first in PROVIDERS {
        for second in PROVIDERS.into_iter().filter(|second| *second != first) {
            let place = Place::with_model(first, TOOLS);
            std::fs::write(place.file("note.txt"), "a note").unwrap();
            let url = place.server.url();
            let fixed = ["run", "--base-url", &url, "--permission", "all"];
            for (round, model) in [first, second, first].into_iter().enumerate() {
                let go_on: &[&str] = if round == 0 { &[] } else { &["--continue"] };
                let args = [&fixed, go_on, &["--model", model, "work"]].concat();
                let ran: Ran = place.segno(&args).output().unwrap().into();
                let label = format!("{first} to {second}, round {round}");
                assert_eq!(
                    (ran.code, ran.out.as_str()),
                    (Some(0), "Done: said\n"),
                    "{label} {ran:?}"
                );
                assert_eq!(place.server.violations(), [], "{label}");
            }
            assert_eq!(place.sessions().len(), 1);
            let last = place.server.requests().pop().unwrap().seen.unwrap();
            assert_eq!(last.results().count(), 6, "{first} and {second}: two per round");
        }
    }
}

#[test]
fn standard_input_is_put_behind_the_prompt() {
    let place = Place::new("otherwise\n  say \"{user}\"\n");
    for (words, piped, said) in [
        (&["explain"][..], "line one\nline two\n", "explain\n\nline one\nline two\n"),
        (&[], "all of it", "all of it\n"),
        (&["explain"], " \n", "explain\n"),
    ] {
        let mut child = place.run(words).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(piped.as_bytes()).unwrap();
        assert_eq!(ended(child).out, said);
    }
    let nothing = place.done(&[]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
}

/// Nothing to continue is an error, and so is a session that is not there; nothing is begun instead.
#[test]
fn what_is_not_there_is_an_error_and_never_a_new_session() {
    let place = Place::new(TOOLS);
    for args in [&["--continue", "go on"][..], &["--session", "0123", "go on"]] {
        let ran = place.done(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(6), ""), "{ran:?}");
        assert!(ran.err.starts_with("error: "), "{}", ran.err);
    }
    assert!(place.sessions().is_empty() && place.server.requests().is_empty());
}

/// Covers: G9.
#[test]
fn the_exit_code_says_how_it_ended() {
    let refused = Place::new("otherwise\n  say \"No.\"\n  stop refusal\n").done(&["x y"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for (sent, code, story) in [
        (Signal::INT, 3, "user half | stopped"),
        (Signal::TERM, 9, "user half | suspended"),
        (Signal::HUP, 9, "user half | suspended"),
    ] {
        let place = Place::new(HANGS);
        let mut child = place.run(&["--json", "x y"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("\"event\":\"text\"")));
        signal(&child, sent);
        let last = lines.last().unwrap().unwrap();
        assert!(last.contains("\"resume\":\"segno resume "), "{last}");
        assert_eq!(ended(child).code, Some(code), "{sent:?}");
        assert_eq!(place.story(), story, "{sent:?}");
    }
}

/// A command that runs is ended by a stop, and the stop is on disk. Covers: G9.
#[test]
fn a_stop_ends_a_running_command() {
    let script = "rule go\n  when last user\n  call bash {\"command\": \"touch began; sleep 600\"}\notherwise\n  say \"?\"\n";
    let place = Place::new(script);
    let child = place.run(&["--permission", "all", "x y"]).spawn().unwrap();
    wait_for(|| place.file("began").exists());
    signal(&child, Signal::INT);
    assert_eq!(ended(child).code, Some(3));
    assert_eq!(place.story(), "user assistant stopped | stopped");
    assert_eq!(place.server.requests().len(), 1);
}

fn wait_for(mut reached: impl FnMut() -> bool) {
    let looks = PATIENCE.as_millis() / 5;
    for _ in 0..looks {
        if reached() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("waited in vain");
}

#[test]
fn what_would_ask_is_denied_with_a_sentence_that_names_the_flag() {
    let script = r#"
rule go
  when last user
  call bash {"command": "touch ran"}
  call write {"path": "written", "content": "x"}
otherwise
  say "Denied."
"#;
    for (mode, results) in [
        (&["--permission", "read-only"][..], "denied denied"),
        (&["--permission", "ask"], "denied denied"),
        (&[], "denied denied"),
        (&["--permission", "edits"], "denied done"),
        (&["--permission", "all"], "done done"),
    ] {
        let place = Place::new(script);
        let ran = place.done(&[mode, &["x y"]].concat());
        assert_eq!(ran.code, Some(0), "{mode:?} {ran:?}");
        assert_eq!(place.file("ran").exists(), results.starts_with("done"), "{mode:?}");
        assert_eq!(place.file("written").exists(), results.ends_with("done"), "{mode:?}");
        let story = format!("user assistant {results} assistant | completed");
        assert_eq!(place.story(), story, "{mode:?}");
        if results.contains("denied") {
            let requests = place.server.requests();
            let told = requests[1].seen.as_ref().unwrap().turns.last().map(Turn::text).unwrap();
            assert!(told.contains("--permission"), "{mode:?}: {told}");
            assert!(ran.err.contains("--permission"), "{mode:?}: {}", ran.err);
        }
    }
}

/// Each failure goes away by itself the next time.
#[test]
fn a_busy_or_broken_model_is_asked_again_on_every_wire() {
    let script = r#"
strict prefix
rule one
  once
  say "Half of"
  fault drop after 2 events
rule two
  once
  status 429 retry-after 0
rule three
  once
  status 529 retry-after 0
otherwise
  say "At last."
"#;
    let asked_again = |model| {
        let place = Place::with_model(model, script);
        let ran = place.done(&["x y"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "At last.\n"), "{model} {ran:?}");
        assert_eq!(ran.err.matches("trying again").count(), 3, "{model} {}", ran.err);
        assert_eq!(place.server.requests().len(), 4, "{model}");
        // What had arrived before the connection broke was paid for.
        let story = place.story();
        let kept = "user half user assistant | completed";
        assert!(story == kept || story == "user assistant | completed", "{model}: {story}");
    };
    std::thread::scope(|scope| {
        for model in PROVIDERS {
            scope.spawn(move || asked_again(model));
        }
    });
}

/// What cannot succeed is told at once, and nothing is asked twice.
#[test]
fn a_final_failure_is_told_once_with_its_cause() {
    for (rule, said) in [
        ("status 400 \"tools.0: no such thing\"", "no such thing"),
        ("status 401", "ANTHROPIC_API_KEY"),
        ("too-long", "too long"),
    ] {
        let place = Place::new(&format!("otherwise\n  {rule}\n"));
        let ran = place.done(&["x y"]);
        assert_eq!(ran.code, Some(1), "{rule} {ran:?}");
        assert!(ran.err.contains(said), "{rule}: {}", ran.err);
        assert!(!ran.err.contains("test-key-1"), "{rule}: {}", ran.err);
        assert_eq!(place.server.requests().len(), 1, "{rule}");
        assert_eq!(place.story(), "user | failed", "{rule}");
    }
}

#[test]
fn a_missing_key_and_a_nonsensical_model_are_told_before_anything_is_written() {
    let place = Place::new(TOOLS);
    for (args, code, said) in [
        (["run", "--model", "anthropic/x", "a b"], 8, "ANTHROPIC_API_KEY"),
        (["run", "--model", "gemini/x", "a b"], 8, "GEMINI_API_KEY"),
        (["run", "--model", "gpt", "a b"], 2, "PROVIDER/ID"),
        (["run", "--model", "acme/gpt", "a b"], 2, "anthropic"),
    ] {
        let mut command = place.segno(&args);
        for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
            command.env_remove(key);
        }
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(ran.code, Some(code), "{args:?} {ran:?}");
        assert!(ran.err.contains(said), "{args:?} {}", ran.err);
        assert!(!place.home().exists(), "{args:?}");
    }
}

/// Covers: #46.
#[test]
fn a_refused_signature_leads_to_one_request_without_reasoning() {
    let script = |times: &str| {
        format!(
            r#"
rule think
  when turns 1
  think "Aha."
  say "Thought."
rule refuse
  {times}
  status 400 "messages.1.content.0: Invalid `signature` in `thinking` block"
otherwise
  say "Went on."
"#
        )
    };
    for (times, code, end) in [("once", 0, "assistant | completed"), ("times 9", 1, "| failed")] {
        let place = Place::new(&script(times));
        let level = ["--thinking", "medium"];
        assert_eq!(place.done(&[&level[..], &["one more"]].concat()).code, Some(0));
        let before = place.records();
        let ran = place.done(&[&level[..], &["--continue", "two more"]].concat());
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert_eq!(place.story(), format!("user assistant | completed user {end}"));
        let bodies: Vec<String> =
            place.server.requests().iter().map(|r| r.body["messages"].to_string()).collect();
        let thinking: Vec<bool> = bodies.iter().map(|b| b.contains("\"thinking\"")).collect();
        assert_eq!(thinking, [false, true, false], "{bodies:?}");
        let kept = &place.records()[..before.len()];
        assert!(kept.iter().zip(&before).all(|(now, then)| now.line == then.line));
        assert_eq!(place.server.violations(), []);
    }
}

/// Covers: G5, #102.
#[test]
fn the_second_run_on_a_session_is_told_who_holds_it() {
    let place = Place::new(HANGS);
    let first = hanging(&place, &["x y"]);
    let id = place.sessions()[0].to_string();
    let before = place.records().len();
    let second = place.done(&["--session", &id, "me too"]);
    assert_eq!(second.code, Some(4), "{second:?}");
    assert!(second.err.contains(&format!("process {}", first.id())), "{}", second.err);
    assert!(second.err.contains(&format!("segno fork {id}")), "{}", second.err);
    assert_eq!(place.records().len(), before);
    signal(&first, Signal::INT);
    assert_eq!(ended(first).code, Some(3));
}

/// Covers: G1, #64, #113.
#[test]
fn an_id_is_printed_only_when_there_is_something_to_resume() {
    let place = Place::new("otherwise\n  say \"Hi.\"\n");
    // No directory can be made here, whoever asks.
    for home in ["/proc/segno-test", "/dev/null"] {
        for form in [&[][..], &["--json"]] {
            let mut command = place.run(&[form, &["x y"]].concat());
            let ran: Ran = command.arg("--home").arg(home).output().unwrap().into();
            assert_ne!(ran.code, Some(0), "{home}: {ran:?}");
            assert!(!(ran.out + &ran.err).contains("segno resume"), "{home}");
        }
    }
    let ran: Ran = place.run(&["--home", "/proc/segno-test", "x y"]).output().unwrap().into();
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert!(ran.err.contains("/proc/segno-test"), "{}", ran.err);
    assert!(place.server.requests().is_empty(), "nothing is paid for that cannot be kept");
}

/// A home on a file system of its own, gone with it.
pub(crate) struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    pub(crate) fn mount(at: std::path::PathBuf, options: &str) -> Option<Self> {
        std::fs::create_dir(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&at).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Covers: G16.
#[test]
fn a_full_disk_pauses_a_run_and_room_lets_it_go_on() {
    let fill = "cat /dev/zero > \"$SEGNO_HOME/filler\"; seq 5000";
    let script = format!(
        "strict prefix\nrule go\n  when last user\n  when prompt is \"fill it\"\n  call bash {{\"command\": {}}}\nrule done\n  when last results\n  say \"Done.\"\notherwise\n  say \"Hi.\"\n",
        serde_json::Value::from(fill)
    );
    let place = Place::new(&script);
    let Some(_disk) = SmallDisk::mount(place.home(), "size=1m") else {
        return skipped("no file system can be mounted here");
    };
    let filler = place.home().join("filler");
    let mut child = place.run(&["--permission", "all", "--json", "fill it"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut shown = String::new();
    while !shown.contains("\"event\":\"paused\"") {
        let line = lines.next().unwrap_or_else(|| panic!("{shown}")).unwrap();
        shown.push_str(&line);
    }
    std::fs::remove_file(&filler).unwrap();
    assert!(lines.last().unwrap().unwrap().contains("\"end\":\"completed\""));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(place.story(), "user assistant done assistant | completed");
    assert_eq!(place.server.violations(), []);
    // A new run on a full disk begins nothing, and says so.
    let mut full = std::fs::File::create(&filler).unwrap();
    while full.write_all(&[0; 512]).is_ok() {}
    let before = place.server.requests().len();
    let ran = place.done(&["hello there"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert!(ran.err.contains("no room") && !ran.err.contains("segno resume"), "{}", ran.err);
    assert_eq!(place.server.requests().len(), before);
}
