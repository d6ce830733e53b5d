//! Interactive sessions, played in a pseudo-terminal: how they begin and end, commands, and the desk that
//! all their tests work at.

use crate::terminal_process::Played;
use portable_pty::CommandBuilder;
use segno_testkit::scripted_model::ScriptedModel;
use segno_testkit::scripted_model::demo::PLAY_SCRIPT;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A home, a project, and a model that plays a script.
pub(crate) struct Desk {
    dir: tempfile::TempDir,
    pub(crate) server: ScriptedModel,
}

impl Desk {
    pub(crate) fn new() -> Self {
        Self::with(PLAY_SCRIPT)
    }

    pub(crate) fn with(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("project")).unwrap();
        std::fs::create_dir(dir.path().join("user")).unwrap();
        Self { dir, server: ScriptedModel::start(script).unwrap() }
    }

    /// `segno` in a terminal, at another place's sessions.
    pub(crate) fn play_at(place: &crate::place::Place, args: &[&str]) -> Played {
        Played::spawn(Self::command_at(place, args), 100, 40)
    }

    /// The command of that.
    pub(crate) fn command_at(place: &crate::place::Place, args: &[&str]) -> CommandBuilder {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_segno"));
        command.args(["--base-url", place.server.url().as_str()]);
        command.args(args);
        command.cwd(place.file(""));
        for name in HIDDEN {
            command.env_remove(name);
        }
        command.env("SEGNO_HOME", place.home());
        command.env("ANTHROPIC_API_KEY", "test-key-1");
        command
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.dir.path().join("project").canonicalize().unwrap()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// `segno` in a terminal, with the model's address.
    pub(crate) fn play(&self, args: &[&str]) -> Played {
        let url = self.url();
        let mut all = vec!["--base-url", url.as_str()];
        all.extend(args);
        self.play_exactly(&all, &self.project(), 100, 40)
    }

    /// `segno` in a terminal, as it is.
    pub(crate) fn play_exactly(
        &self,
        args: &[&str],
        cwd: &Path,
        columns: u16,
        rows: u16,
    ) -> Played {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_segno"));
        command.args(args);
        command.cwd(cwd);
        for name in HIDDEN {
            command.env_remove(name);
        }
        command.env("SEGNO_HOME", self.home());
        command.env("HOME", self.dir.path().join("user"));
        Played::spawn(command, columns, rows)
    }

    /// `segno` in a terminal, with the model's address and these variables.
    pub(crate) fn play_with(&self, args: &[&str], env: &[(&str, &str)]) -> Played {
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_segno"));
        command.args(["--base-url", self.url().as_str()]);
        command.args(args);
        command.cwd(self.project());
        for name in HIDDEN {
            command.env_remove(name);
        }
        command.env("SEGNO_HOME", self.home());
        command.env("HOME", self.dir.path().join("user"));
        for (name, value) in env {
            command.env(name, value);
        }
        Played::spawn(command, 100, 40)
    }

    /// `segno` without a terminal: exit code, standard output, standard error.
    pub(crate) fn run(&self, args: &[&str]) -> (Option<i32>, String, String) {
        self.run_in(args, &self.project())
    }

    /// The same, in another directory.
    pub(crate) fn run_in(&self, args: &[&str], cwd: &Path) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_segno"));
        for name in HIDDEN {
            command.env_remove(name);
        }
        let starting = crate::desk::starting();
        let child = command
            .args(args)
            .current_dir(cwd)
            .env("SEGNO_HOME", self.home())
            .env("HOME", self.dir.path().join("user"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(starting);
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code(), text(stdout), text(stderr))
    }

    /// The logs that are there, oldest first.
    pub(crate) fn logs(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut todo = vec![self.home()];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    todo.push(path);
                } else if path.ends_with("log.jsonl") {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }

    /// The only log, as text.
    pub(crate) fn log(&self) -> String {
        let logs = self.logs();
        assert_eq!(logs.len(), 1, "{logs:?}");
        std::fs::read_to_string(&logs[0]).unwrap()
    }

    /// The id of the only session.
    pub(crate) fn id(&self) -> String {
        id_of(&self.logs()[0])
    }
}

const HIDDEN: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "NO_COLOR",
    "CLICOLOR_FORCE",
    "VISUAL",
    "EDITOR",
];

pub(crate) fn id_of(log: &Path) -> String {
    log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn the_first_time_says_what_it_found_and_leaves_nothing_behind() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.wait_for("Welcome to Segno");
    segno.wait_for("`segno demo` and `segno list` need no model.");
    segno.wait_for("openai-chat/scripted");
    segno.ready();
    segno.send("\x04");
    assert_eq!(segno.exit_code(), 0);
    assert!(!segno.screen().contains("To go on"), "{}", segno.screen());
    assert!(desk.logs().is_empty() && segno.cooked() && !segno.bracketed_paste());
}

#[test]
fn without_a_model_it_says_how_to_get_one() {
    let desk = Desk::new();
    let dead = "http://127.0.0.1:1";
    let mut segno = desk.play_exactly(&["--base-url", dead], &desk.project(), 100, 30);
    segno.wait_for("error:");
    assert_eq!(segno.exit_code(), 8);
    assert!(segno.screen().contains("Name one with --model PROVIDER/ID."), "{}", segno.screen());
}

#[test]
fn without_a_terminal_it_tells_what_there_is() {
    let desk = Desk::new();
    let (code, out, err) = desk.run(&[]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("0 sessions of this project, 0 elsewhere\n"), "{out}");
    assert!(out.contains("segno run PROMPT"), "{out}");
    let (code, out, err) = desk.run(&["fix it now"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains("segno run 'fix it now'"), "{err}");
    assert_eq!(desk.run(&["resume"]).0, Some(2));
    assert!(!desk.home().exists());
}

/// Covers: #64.
#[test]
fn a_prompt_is_answered_and_the_way_back_is_told_and_works() {
    let desk = Desk::new();
    let mut segno = desk.play(&["--", "hello"]);
    segno.wait_for("> hello");
    segno.wait_for("You said: hello");
    segno.ready();
    segno.send("\x04");
    assert_eq!(segno.exit_code(), 0);
    let id = desk.id();
    assert!(segno.screen().contains(&format!("To go on: segno resume {id}")), "{}", segno.screen());

    let mut back = desk.play_exactly(&["resume", &id], &desk.project(), 100, 40);
    back.wait_for("You said: hello");
    back.enter("and again");
    back.wait_for("You said: and again");
    back.ready();
    back.send("\x04");
    assert_eq!(back.exit_code(), 0);
    assert_eq!(desk.logs().len(), 1);
    assert!(desk.server.violations().is_empty(), "{:?}", desk.server.violations());
}

#[test]
fn unknown_commands_never_reach_the_model() {
    let desk = Desk::new();
    let mut segno = desk.play(&[]);
    segno.enter("/reusme");
    segno.wait_for("There is no command /reusme.");
    segno.wait_for("Did you mean /resume?");
    segno.enter("/frobnicate the thing");
    segno.wait_for("/help lists the commands.");
    segno.enter("/help");
    segno.wait_for("/permission");
    segno.ready();
    assert!(desk.server.requests().iter().all(|r| r.seen.is_none()));
    assert!(desk.logs().is_empty());
}

#[test]
fn commands_change_what_they_say() {
    let desk = Desk::with("models scripted other\notherwise\n  say \"This is {model}.\"\n");
    let mut segno = desk.play(&["--model", "openai-chat/scripted"]);
    segno.enter("hello");
    segno.wait_for("This is scripted.");
    segno.enter("/model");
    segno.wait_for("openai-chat/other");
    segno.enter("/model openai-chat/other");
    segno.wait_for("The model is openai-chat/other now.");
    segno.enter("hello");
    segno.wait_for("This is other.");
    segno.enter("/thinking high");
    segno.wait_for("Thinking: high.");
    segno.enter("/permission edits");
    segno.wait_for("Permission: edits");
    segno.enter("/name my work");
    segno.wait_for("This session is called my work.");
    segno.enter("/session");
    segno.wait_for("2 prompts");
    segno.wait_for(&desk.id());
    segno.enter("/quit");
    assert_eq!(segno.exit_code(), 0);
    let log = desk.log();
    for expected in ["\"name\":\"my work\"", "\"level\":\"high\"", "\"id\":\"other\""] {
        assert!(log.contains(expected), "{expected}");
    }
}

/// Between providers and back at one address, with thinking, calls and results in the history; the way back finds
/// the address that the session began with.
///
/// Covers: G6, #46, #48.
#[test]
fn the_model_is_changed_back_and_forth_between_providers() {
    let script = "rule look\n  when last user\n  when prompt is \"look\"\n  think \"a file\"\n  \
                  say \"Looking.\"\n  call read {\"path\": \"a.txt\"}\n\
                  rule looked\n  when last results\n  think \"so\"\n  say \"{model} read it.\"\n\
                  otherwise\n  say \"{model} listens.\"\n";
    let desk = Desk::with(script);
    std::fs::write(desk.project().join("a.txt"), "one\n").unwrap();
    std::fs::create_dir_all(desk.home()).unwrap();
    let config = format!("model = \"gemini/gemini-3-flash\"\nbase-url = \"{}\"\n", desk.url());
    std::fs::write(desk.home().join("config.toml"), config).unwrap();
    let keys = [("ANTHROPIC_API_KEY", "k"), ("GEMINI_API_KEY", "k")];
    let mut segno = desk.play_with(&["--model", "anthropic/claude-sonnet-4-5"], &keys);
    for (turn, (provider, id)) in [
        ("anthropic", "claude-sonnet-4-5"),
        ("gemini", "gemini-3-flash"),
        ("anthropic", "claude-sonnet-4-5"),
        ("gemini", "gemini-3-flash"),
    ]
    .into_iter()
    .enumerate()
    {
        if turn > 0 {
            segno.enter(&format!("/model {provider}/{id}"));
            segno.wait_for_times(&format!("The model is {provider}/{id} now."), turn.div_ceil(2));
        }
        segno.enter("look");
        segno.wait_for_times(&format!("{id} read it."), turn / 2 + 1);
    }
    segno.enter("/quit");
    assert_eq!(segno.exit_code(), 0);
    assert_eq!(desk.server.violations(), []);
    let asked: Vec<_> = desk.server.requests().into_iter().filter_map(|r| r.seen).collect();
    assert_eq!(asked.last().unwrap().results().count(), 4);
}

#[test]
fn a_narrow_terminal_and_no_colour_work() {
    let desk = Desk::new();
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_segno"));
    command.args(["--base-url", &desk.url()]);
    command.cwd(desk.project());
    command.env("SEGNO_HOME", desk.home());
    command.env("NO_COLOR", "1");
    let mut segno = Played::spawn(command, 40, 10);
    segno.enter("write a.txt: hi");
    segno.ends_with("n  no");
    segno.send("y");
    segno.wait_for("Done.");
    segno.enter("/help");
    segno.wait_for("Ctrl-D");
    segno.ready();
    segno.send("\x04");
    segno.exit_code();
    assert_eq!(std::fs::read_to_string(desk.project().join("a.txt")).unwrap(), "hi\n");
    let raw = String::from_utf8_lossy(segno.raw()).into_owned();
    let coloured = (30..38).any(|colour| raw.contains(&format!("\u{1b}[{colour}m")));
    assert!(!coloured, "{raw:?}");
}
