//! `bash` with real processes.
//!
//! Responsible for: output, exit, stop, timeout and what is left running. Must not: depend on how fast
//! the machine is; commands say when they are ready.
#![allow(clippy::unwrap_used)]

mod support;

use segno_agent::permission::Mode;
use segno_model::record::{Outcome, ReplayClass};
use segno_runtime::{Progress, StopHandle, StopKind, Tools, Verdict};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::time::Duration;
use support::{Place, text};

/// Waits for something that certainly comes.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}

fn alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

#[test]
fn supervisor_process() {
    support::supervisor_process();
}

/// What a person and the model see is the same, whoever looks after the command.
fn both() -> [Place; 2] {
    [Place::new(), Place::supervised()]
}

#[tokio::test]
async fn commands_tell_their_output_and_their_end() {
    for place in both() {
        place.file("d/x", "content\n");
        let rows = [
            ("echo hi", Outcome::Done, "hi\n[exit code 0]"),
            ("true", Outcome::Done, "(no output)\n[exit code 0]"),
            ("false", Outcome::Failed, "(no output)\n[exit code 1]"),
            ("printf a; exit 7", Outcome::Failed, "a\n[exit code 7]"),
            ("echo 1; echo 2 >&2; echo 3; echo 4 >&2", Outcome::Done, "1\n2\n3\n4\n[exit code 0]"),
            ("cat d/x", Outcome::Done, "content\n[exit code 0]"),
            ("cat", Outcome::Done, "(no output)\n[exit code 0]"),
            ("read x; echo $?", Outcome::Done, "1\n[exit code 0]"),
            ("kill -9 $$", Outcome::Failed, "(no output)\n[ended by signal 9]"),
            ("kill -TERM $$", Outcome::Failed, "(no output)\n[ended by signal 15]"),
            ("no-such-command-here", Outcome::Failed, "[exit code 127]"),
            ("if", Outcome::Failed, "syntax error"),
            ("printf 'ü%s日本' 🎼", Outcome::Done, "ü🎼日本\n[exit code 0]"),
            ("printf 'caf\\351\\n'", Outcome::Done, "caf\u{fffd}\n"),
            ("echo $PAGER $TERM", Outcome::Done, "cat dumb\n"),
            ("set -o pipefail; yes | head -1", Outcome::Failed, "y\n[exit code 141]"),
        ];
        for (command, outcome, said) in rows {
            let output = place.bash(command).await;
            let shown = text(&output);
            assert_eq!(output.outcome, outcome, "{command}: {shown}");
            assert_eq!(output.is_error, outcome != Outcome::Done, "{command}");
            assert!(shown.contains(said), "{command}: wanted {said:?} in {shown:?}");
        }
    }
}

/// Nobody can tell after a crash what became of a command. Covers: G7.
#[tokio::test]
async fn a_command_is_announced_as_opaque() {
    let place = Place::new();
    let call = place.tool_call("bash", r#"{"command":"ls"}"#);
    let Verdict::Run(plan) = place.tools.judge(&call).await else { panic!("allowed") };
    assert_eq!((plan.class, plan.probe.is_none()), (ReplayClass::Opaque, true));
}

#[tokio::test]
async fn long_output_is_kept_whole_and_cut_for_the_model() {
    for place in both() {
        let output = place.bash("seq 1 20000").await;
        let (shown, whole) = (text(&output), output.whole.unwrap());
        let expected: String = (1..=20000).map(|n| format!("{n}\n")).collect();
        assert_eq!(String::from_utf8(whole).unwrap(), expected);
        assert!(shown.len() < 32 << 10, "{}", shown.len());
        assert!(shown.starts_with("1\n2\n3\n"));
        assert!(shown.ends_with("20000\n[exit code 0]"));
        assert!(shown.contains("the whole output is kept in the session"), "{shown}");
        let short = place.bash("seq 1 100").await;
        assert_eq!(short.whole, None);
        let raw = place.bash("printf '\\377'").await;
        assert_eq!(raw.whole.as_deref(), Some(&b"\xff"[..]));
    }
}

/// Output that would fill the memory is cut with a note of how much is gone.
#[tokio::test]
async fn endless_output_stays_bounded() {
    for place in both() {
        let output = place.bash("echo first; yes | head -c 40000000; echo last").await;
        let whole = output.whole.clone().unwrap();
        assert!(whole.len() < 34 << 20, "{}", whole.len());
        let middle = String::from_utf8(whole).unwrap();
        assert!(middle.contains("bytes were not kept"));
        assert!(text(&output).starts_with("first\ny\n"));
        assert!(text(&output).contains("last\n[exit code 0]"));
    }
}

/// Output streams as it comes, and characters are not broken apart. The command waits for what the
/// listener does with its first line.
#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    for place in both() {
        let shown = Mutex::new(String::new());
        let go = place.path("go");
        let call = place.tool_call(
        "bash",
        &json!({"command": "echo ready; while ! test -e go; do sleep 0.01; done; printf '\\360\\237'; sleep 0.05; printf '\\216\\274\\n'"}).to_string(),
    );
        let (_handle, stop) = StopHandle::new();
        let output = place
            .start(&call, stop, &|progress| {
                let Progress::Output(more) = progress else { panic!("no pause") };
                let mut shown = shown.lock().unwrap();
                shown.push_str(&more);
                if shown.contains("ready") {
                    std::fs::write(&go, "").unwrap();
                }
            })
            .await;
        assert_eq!(text(&output), "ready\n🎼\n[exit code 0]");
        assert_eq!(*shown.lock().unwrap(), "ready\n🎼\n");
    }
}

/// A stop ends the whole group, those who do not listen to SIGTERM too, and keeps what was said.
/// Covers: G9.
#[tokio::test]
async fn a_stop_ends_grandchildren_too() {
    let rows = [
        (
            "polite",
            "sleep 1000 & echo $! > pids; bash -c 'sleep 1000 & echo $! >> pids; echo ready > flag; wait'",
        ),
        (
            "deaf",
            "bash -c 'trap \"\" TERM; sleep 1000 & echo $! > pids; echo $$ >> pids; echo ready > flag; while true; do sleep 0.1; done'",
        ),
        (
            "orphans",
            "(bash -c 'trap \"\" TERM; echo $$ > pids; echo ready > flag; while true; do sleep 0.1; done' &) ; echo left; sleep 1000",
        ),
    ];
    for (name, command) in rows {
        for place in both() {
            let call = place.tool_call("bash", &json!({"command": command}).to_string());
            let (handle, stop) = StopHandle::new();
            let stopping = async {
                until("ready", || place.path("flag").exists()).await;
                handle.stop(StopKind::User);
            };
            let (output, ()) = tokio::join!(place.start(&call, stop, &|_| {}), stopping);
            assert_eq!(output.outcome, Outcome::Stopped, "{name}");
            assert!(text(&output).contains("stopped by the user; it may be half done"), "{name}");
            for pid in place.read("pids").lines() {
                until(&format!("{name}: {pid} ends"), || !alive(pid)).await;
            }
        }
    }
}

#[tokio::test]
async fn a_shutdown_is_told_apart_and_a_late_call_does_not_start() {
    let place = Place::new();
    let (handle, stop) = StopHandle::new();
    handle.stop(StopKind::Shutdown);
    let call = place.tool_call("bash", r#"{"command":"touch started"}"#);
    let output = place.run_with(&call, stop, &|_| {}).await;
    assert_eq!(output.outcome, Outcome::NotRun);
    assert!(text(&output).contains("shutting down"), "{}", text(&output));
    assert!(!place.path("started").exists());
}

#[tokio::test]
async fn a_timeout_ends_the_group_and_says_so() {
    for place in both() {
        let arguments =
            json!({"command": "echo begun; sleep 1000 & echo $! > pid; wait", "timeout": 0.5});
        let output = place.call("bash", &arguments.to_string()).await;
        assert_eq!(output.outcome, Outcome::Failed);
        assert!(
            text(&output).contains("ended after the timeout of 0.5 seconds"),
            "{}",
            text(&output)
        );
        let pid = std::fs::read_to_string(place.path("pid")).unwrap_or_default();
        until("the child ends", || pid.is_empty() || !alive(&pid)).await;
    }
}

/// A background process that keeps the output open holds up nothing.
#[tokio::test]
async fn what_is_left_running_does_not_hang_the_tool() {
    for place in both() {
        let output = place.bash("echo before; sleep 1000 & echo $! > pid; echo after").await;
        assert!(text(&output).starts_with("before\nafter\n[exit code 0]"), "{}", text(&output));
        assert!(text(&output).contains("still hold its output"));
        let pid = place.read("pid");
        assert!(alive(&pid), "it is left alone");
        std::process::Command::new("kill").arg(pid.trim()).status().unwrap();
        let quiet = place.bash("sleep 1000 > /dev/null 2>&1 & echo $! > pid; while test \"$(readlink /proc/$!/fd/2)\" != /dev/null; do :; done").await;
        assert_eq!(text(&quiet), "(no output)\n[exit code 0]");
        std::process::Command::new("kill").arg(place.read("pid").trim()).status().unwrap();
    }
}

/// A future that is dropped (the agent goes away) takes the command with it.
#[tokio::test]
async fn a_dropped_call_leaves_no_process() {
    let place = Place::new();
    let call =
        place.tool_call("bash", r#"{"command":"sleep 1000 & echo $! > pid; echo > flag; wait"}"#);
    {
        let (_handle, stop) = StopHandle::new();
        let show = |_| {};
        let running = place.run_with(&call, stop, &show);
        tokio::select! {
            _ = running => panic!("it ended"),
            () = until("ready", || place.path("flag").exists()) => {}
        }
    }
    let pid = place.read("pid");
    until("the child ends", || !alive(&pid)).await;
}

/// Commands cannot ask at our terminal, and do not see the keys. Covers: G17.
#[tokio::test]
async fn commands_have_no_terminal_and_no_keys() {
    for place in both() {
        let output = place.bash("(exec 3</dev/tty) 2>/dev/null && echo terminal || echo none; echo \"key=$SEGNO_TEST_KEY\"").await;
        assert!(text(&output).starts_with("none\nkey=\n"), "{}", text(&output));
    }
}

/// In mode `edits` files with any name may be written, and git runs unasked: together they must not run a
/// program. Real git is asked, and the trap is shown to work. Covers: G17.
#[tokio::test]
async fn files_that_look_like_a_repository_run_nothing() {
    let place = Place::with(Mode::Edits, None, &[]);
    let trap = place.path("trap.sh");
    let ran = place.path("ran");
    place.file("trap.sh", &format!("#!/bin/sh\n: > '{}'\n", ran.display()));
    std::fs::set_permissions(&trap, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = {}\n\tfsmonitor = {}\n",
        place.root().display(),
        trap.display()
    );
    for (path, content) in [
        ("HEAD", "ref: refs/heads/main\n"),
        ("config", config.as_str()),
        ("objects/x", "x"),
        ("refs/x", "x"),
        ("sub/HEAD", "ref: refs/heads/main\n"),
        ("sub/config", config.as_str()),
        ("sub/objects/x", "x"),
        ("sub/refs/x", "x"),
    ] {
        let call = json!({"path": path, "content": content});
        let output = place.call("write", &call.to_string()).await;
        assert!(!output.is_error, "{path}: {}", text(&output));
    }
    let git = |directory: &str| {
        let mut git = std::process::Command::new("git");
        git.arg("status").current_dir(place.path(directory)).env("GIT_CEILING_DIRECTORIES", "/");
        git.output().unwrap()
    };
    git(".");
    assert!(ran.exists(), "the trap works without the guard");
    std::fs::remove_file(&ran).unwrap();
    for command in ["git status", "git diff", "git log", "git ls-files -m", "git grep x"] {
        let output = place.bash(command).await;
        assert!(!ran.exists(), "{command} ran the trap: {}", text(&output));
        assert_ne!(output.outcome, Outcome::Denied, "{command} is free");
    }
    let facts = segno_agent::project::Project::look(&place.root()).await;
    assert!(facts.git.is_none() && !ran.exists());
    let asks = place.bash("cd sub && git status").await;
    assert_eq!(asks.outcome, Outcome::Denied);
}

/// A real repository is one still.
#[tokio::test]
async fn a_real_repository_is_seen() {
    let place = Place::new();
    let output = place.bash("git init -q . && git status --short && mkdir sub && cd sub && git rev-parse --is-inside-work-tree").await;
    assert_eq!(text(&output), "true\n[exit code 0]");
}
