//! Turns: tools and questions, stops, signals, files and commands of the person.

use crate::interactive::Desk;
use crate::terminal_process::{Child, Played};

fn yes(segno: &mut Played, key: &str, said: &str) {
    segno.ends_with("n  no");
    segno.send(key);
    segno.wait_for(said);
}

/// Covers: G17.
#[test]
fn questions_are_asked_and_every_answer_counts_as_far_as_it_says() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.enter("write a.txt: one");
    segno.wait_for("+one");
    segno.ends_with("n  no");
    segno.wait_for_bell();
    yes(&mut segno, "s", "→ yes, for this session");
    segno.enter("write b.txt: two");
    segno.wait_for("created b.txt");
    segno.ready();
    assert_eq!(std::fs::read_to_string(desk.project().join("b.txt")).unwrap(), "two\n");

    segno.enter("run: touch once");
    segno.wait_for("Run: touch once");
    yes(&mut segno, "y", "→ yes, once");
    segno.ready();
    assert!(desk.project().join("once").exists());

    segno.enter("run: touch always");
    segno.wait_for("always commands like");
    yes(&mut segno, "a", "→ yes, always");
    segno.ready();
    let config = std::fs::read_to_string(desk.home().join("config.toml")).unwrap();
    assert!(config.contains("allow = [\"touch\"]"), "{config}");

    segno.enter("run: mkdir never");
    segno.wait_for("Run: mkdir never");
    segno.send("n");
    segno.wait_for("why not?");
    segno.send("not x\x7ftoday\r");
    segno.wait_for("→ no, with that reason");
    segno.wait_for("Done. The result begins with: The user did not allow this call");
    segno.ready();
    assert!(!desk.project().join("never").exists());
    assert!(desk.log().contains("not today"));
    assert!(desk.server.violations().is_empty(), "{:?}", desk.server.violations());
}

/// What was typed before a question was on the screen does not answer it, and is not lost.
/// Covers: G17.
#[test]
fn nothing_typed_ahead_answers_a_question() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.ready();
    segno.send("run: touch done\ryyy");
    segno.ends_with("n  no");
    segno.send("\x1b");
    segno.wait_for("→ no");
    segno.wait_for("> yyy");
    assert!(!desk.project().join("done").exists());
}

/// Covers: G9.
#[test]
fn ctrl_c_stops_a_reply_for_good() {
    let desk = Desk::with("otherwise\n  say \"It goes on and on.\"\n  fault hang\n");
    let mut segno = desk.play(&[]);
    segno.enter("hello");
    segno.wait_for("It goes on and on.");
    segno.send("\x03");
    segno.wait_for("stopped");
    segno.ready();
    let log = desk.log();
    assert!(log.contains("\"state\":\"stopping\"") && log.contains("\"end\":\"stopped\""), "{log}");
    assert!(log.contains("It goes on and on."));
    segno.send("\x04");
    assert_eq!(segno.exit_code(), 0);
}

/// Covers: G9.
#[test]
fn ctrl_c_ends_a_command_and_everything_that_it_started() {
    let desk = Desk::new();
    let mut segno = desk.play(&["--permission", "all"]);
    segno.enter("run: (sleep 1000 & echo $! > pid; echo started; wait)");
    segno.wait_for("│ started");
    segno.send("\x03");
    segno.wait_for("stopped");
    segno.ready();
    let pid = std::fs::read_to_string(desk.project().join("pid")).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    // A zombie that nobody has collected yet is dead as well.
    assert!(stat.is_err() || stat.unwrap().contains(") Z "), "the grandchild lives");
    assert!(desk.log().contains("\"outcome\":\"stopped\""));
}

#[test]
fn ctrl_c_at_a_question_stops_the_turn_and_twice_leaves() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.enter("run: touch x");
    segno.ends_with("n  no");
    segno.send("\x03");
    segno.wait_for("stopped");
    segno.ready();
    assert!(desk.log().contains("\"outcome\":\"not_run\""));
    segno.send("\x03");
    segno.wait_for("Ctrl-C again leaves.");
    segno.send("\x03");
    assert_eq!(segno.exit_code(), 0);
    assert!(segno.screen().contains("To go on: segno resume"));
}

/// Covers: #124, G1.
#[test]
fn a_closed_terminal_leaves_the_prompt_and_what_came_of_the_reply() {
    for signal in ["HUP", "TERM"] {
        let desk = Desk::with("otherwise\n  say \"The first half.\"\n  fault hang\n");
        let mut segno = desk.play(&[]);
        segno.enter("remember this");
        segno.wait_for("The first half.");
        segno.signal(signal);
        assert_eq!(segno.exit_code(), 9, "{signal}");
        let log = desk.log();
        for expected in ["remember this", "The first half.", "\"end\":\"suspended\""] {
            assert!(log.contains(expected), "{signal}: {expected}");
        }
    }
}

/// Covers: G6, G7, G9.
#[test]
fn after_a_kill_it_goes_on_and_says_what_is_not_known() {
    let desk = Desk::new();
    let mut segno = desk.play(&["--permission", "all"]);
    segno.enter("run: echo begun; sleep 1000");
    segno.wait_for("│ begun");
    segno.signal("KILL");
    segno.exit_code();
    let before = desk.log();

    let mut fresh = desk.play(&[]);
    fresh.wait_for("Interrupted: run: echo begun");
    fresh.wait_for("segno resume last");
    fresh.ready();
    fresh.send("\x04");
    fresh.exit_code();

    let mut back = desk.play_exactly(&["resume", "last"], &desk.project(), 100, 40);
    back.wait_for("A `bash` call still runs");
    back.wait_for("Continue? [Y/n]");
    back.send("n");
    back.ready();
    assert_eq!(desk.log(), before, "looking changed the log");
    back.enter("list");
    back.wait_for("Done.");
    back.ready();
    let log = desk.log();
    assert!(log.starts_with(&before) && log.contains("\"outcome\":\"unknown\""));
    assert!(desk.server.violations().is_empty(), "{:?}", desk.server.violations());
}

#[test]
fn files_and_commands_of_the_person_go_along_with_the_prompt() {
    let script = "rule both\n  when user contains \"inside the file\"\n  when user contains \"from the shell\"\n  say \"I saw both.\"\n\notherwise\n  say \"I saw nothing.\"\n";
    let desk = Desk::with(script);
    std::fs::write(desk.project().join("notes.txt"), "inside the file\n").unwrap();
    let mut segno = desk.play(&[]);
    segno.enter("!echo from the shell; exit 3");
    segno.wait_for("exit status: 3");
    segno.wait_for("goes to the model with your next prompt");
    segno.ready();
    segno.send("look at @not\t\r");
    segno.wait_for("I saw both.");
    segno.enter("hello");
    segno.wait_for("I saw both.");
    assert!(desk.log().contains("$ echo from the shell; exit 3"));
}

#[test]
fn an_own_command_can_be_stopped() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.enter("!echo begun; sleep 1000");
    segno.wait_for("\nbegun");
    segno.send("\x03");
    segno.wait_for("goes to the model");
    segno.ready();
    assert!(desk.logs().is_empty());
}

/// Covers: G17, #163.
#[test]
fn stored_text_never_drives_the_terminal() {
    let desk = Desk::with("otherwise\n  say \"a\\u001b]0;evil\\u0007b\\u009b2Jc\\u202ed\"\n");
    let mut segno = desk.play(&[]);
    segno.enter("hello");
    segno.wait_for("ab");
    segno.ready();
    segno.send("\x04");
    segno.exit_code();
    let name = "na\u{1b}]0;evil\u{7}me\u{9b}2J\u{202e}";
    assert_eq!(desk.run(&["name", &desk.id(), name]).0, Some(0));
    let mut back = desk.play_exactly(&["resume"], &desk.project(), 100, 40);
    back.wait_for("name");
    back.send("\r");
    back.ready();
    for bytes in [segno.raw(), back.raw()] {
        let text = String::from_utf8_lossy(bytes);
        assert!(
            !text.contains("]0;evil") && !text.contains('\u{202e}') && !text.contains('\u{9b}')
        );
    }
}

/// Covers: G9.
#[test]
fn a_signal_ends_it_cleanly_wherever_it_waits() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.ready();
    segno.signal("TERM");
    assert_eq!(segno.exit_code(), 0);
    assert!(segno.cooked() && !segno.bracketed_paste());

    let mut segno = desk.play(&[]);
    segno.enter("run: touch x");
    segno.ends_with("n  no");
    segno.signal("TERM");
    assert_eq!(segno.exit_code(), 9);
    assert!(segno.cooked() && segno.screen().contains("To go on: segno resume"));
    let log = desk.log();
    assert!(log.contains("\"end\":\"suspended\"") && !desk.project().join("x").exists());
    assert!(log.contains("\"state\":\"asked\"") && !log.contains("\"role\":\"tool\""), "{log}");
    assert!(!log.contains("the user stopped") && !log.contains("\"stopping\""), "{log}");

    // The question is put again.
    let mut back = desk.play(&["resume", "last"]);
    back.wait_for("waits for your answer");
    back.wait_for("Continue? [Y/n]");
    back.send("y");
    back.ends_with("n  no");
    back.send("y");
    back.wait_for("Done.");
    back.ready();
    assert!(desk.project().join("x").exists());
}

/// Covers: G9.
#[test]
fn a_refused_request_says_what_to_do_and_the_session_goes_on() {
    let script = "rule fail\n  when prompt contains \"please fail\"\n  status 400 \"no\"\n\notherwise\n  say \"fine\"\n";
    let desk = Desk::with(script);
    let mut segno = desk.play(&[]);
    segno.enter("please fail");
    segno.wait_for("The model refused the request.");
    segno.wait_for("/model PROVIDER/ID");
    segno.enter("go on");
    segno.wait_for("fine");
    segno.ready();
    assert!(desk.log().contains("\"end\":\"failed\""));
}

/// The first request of a new session has the level that was chosen for it.
#[test]
fn the_thinking_level_is_there_from_the_first_request_on() {
    let desk = Desk::with("auth off\notherwise\n  say \"hi\"\n");
    let model = ["--model", "anthropic/claude-sonnet-4-5", "--thinking", "high"];
    let mut segno = desk.play(&model);
    segno.enter("hello");
    segno.wait_for("hi");
    segno.ready();
    let asked = desk.server.requests();
    let first = asked.iter().find(|r| r.seen.is_some()).unwrap();
    assert!(first.body.get("thinking").is_some(), "{}", first.body);
}

#[test]
fn what_is_typed_during_a_turn_waits_for_the_next_line() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.ready();
    segno.send("hello\rnext words");
    segno.wait_for("You said: hello");
    segno.ends_with("> next words");
    segno.send("\r");
    segno.wait_for("You said: next words");
}

#[test]
fn an_own_command_in_the_background_is_not_waited_for() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.enter("!sleep 60 & echo $! > pid; echo begun");
    segno.wait_for("goes to the model");
    segno.ready();
    let pid = std::fs::read_to_string(desk.project().join("pid")).unwrap();
    let ended = std::process::Command::new("kill").arg(pid.trim()).status().unwrap();
    assert!(ended.success(), "it was still running");
}

/// A terminal that vanishes takes the process with it, even where reading its keys would go on for ever,
/// so that the session is free again. The one that holds the terminal here is a process of its own, which
/// ends without a word.
/// Covers: G5, #103, #124.
#[test]
fn no_process_outlives_its_terminal() {
    const TEST: &str = "interactive_turns::no_process_outlives_its_terminal";
    if Child::is("terminal") {
        let desk = Desk::new();
        let mut segno = desk.play(&[]);
        segno.enter("hello");
        segno.wait_for("You said: hello");
        segno.ready();
        Child::say(&format!("pid {} home {}", segno.pid(), desk.home().display()));
        std::process::exit(0);
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
        .env("SEGNO_TEST_ROLE", "terminal")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = said.split_whitespace().collect();
    let behind = |word| words[words.iter().position(|w| *w == word).expect(&said) + 1];
    let process = std::path::Path::new("/proc").join(behind("pid"));
    let gone = (0..3_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        !process.exists()
    });
    assert!(gone, "the process outlived its terminal");
    // The scene's files are the outer process's to remove: the inner one ended without a word.
    let home = std::path::PathBuf::from(behind("home"));
    let _ = std::fs::remove_dir_all(home);
}

/// A command that works until the file `go` is there.
const WORK: &str = "run: echo begun; until test -e go; do sleep 0.02; done; echo over";

fn go(desk: &Desk) {
    std::fs::write(desk.project().join("go"), "").unwrap();
}

/// Enter during a turn steers, Tab queues; both are said, and each reaches the model once.
/// Covers: G8.
#[test]
fn what_is_entered_during_a_turn_steers_or_waits_for_its_end() {
    let desk = Desk::new();
    let mut segno = desk.play(&["--permission", "all"]);
    segno.enter(WORK);
    segno.wait_for("│ begun");
    segno.send("now this\r");
    segno.wait_for("(told at the next step: now this)");
    segno.send("then that\t");
    segno.wait_for("(queued: then that)");
    segno.send("/session\r");
    segno.wait_for("(for after the turn: /session)");
    go(&desk);
    segno.wait_for("You said: now this");
    segno.wait_for("You said: then that");
    segno.ends_with("> /session");
    let log = desk.log();
    for text in ["now this", "then that"] {
        assert_eq!(log.matches(&format!("\"text\":\"{text}\"")).count(), 1, "{text}");
    }
    assert!(log.contains("\"input_kind\":\"steer\"") && log.contains("\"input_kind\":\"queue\""));
    assert!(desk.server.violations().is_empty(), "{:?}", desk.server.violations());
}

/// Covers: G9, #150. What waits behind a stopped turn waits for the person.
#[test]
fn what_waits_behind_a_stopped_turn_is_offered() {
    let desk = Desk::new();
    let mut segno = desk.play(&["--permission", "all"]);
    segno.enter(WORK);
    segno.wait_for("│ begun");
    segno.send("then that\tand this\t");
    segno.wait_for("(queued: and this)");
    segno.send("\x03");
    segno.wait_for("2 inputs from before:");
    segno.ready();
    assert!(!desk.log().contains("\"text\":\"then that\""));
    segno.send("\x04");
    segno.exit_code();
    let mut back = desk.play_exactly(&["resume", "last"], &desk.project(), 100, 40);
    back.wait_for("2  queue  and this  (because of a stop)");
    back.enter("/withdraw 1");
    back.wait_for("Taken back.");
    back.enter("/deliver");
    back.wait_for("You said: and this");
    back.enter("/inbox");
    back.wait_for("Nothing waits.");
    assert!(!desk.log().contains("\"text\":\"then that\""));
}

/// Covers: G8. From another terminal, while the person is at the line: what stands on it is kept.
#[test]
fn what_others_send_to_a_session_at_rest_is_run_and_the_line_is_kept() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.enter("hello");
    segno.wait_for("You said: hello");
    segno.ready();
    segno.send("half a line");
    segno.ends_with("> half a line");
    let (code, out, err) = desk.run(&["send", "last", "from elsewhere"]);
    assert_eq!(code, Some(0), "{out}{err}");
    segno.wait_for("You said: from elsewhere");
    segno.ends_with("> half a line");
    segno.send("\r");
    segno.wait_for("You said: half a line");
}

/// Covers: G5. A session at rest is let go of when another process asks for it.
#[test]
fn a_session_at_rest_is_let_go_of_when_asked_for() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.enter("hello");
    segno.wait_for("You said: hello");
    segno.ready();
    let (code, out, err) = desk.run(&["resume", "last", "--take-over", "--", "from elsewhere"]);
    assert_eq!(code, Some(0), "{out}{err}");
    segno.wait_for("Another process asked for this session; it is let go of.");
    segno.exit_code();
    assert!(desk.log().contains("from elsewhere"));
}
