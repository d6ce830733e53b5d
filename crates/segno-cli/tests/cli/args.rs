//! The command line: what is a command, what is a prompt, what is a slip.

use clap::CommandFactory as _;
use segno_cli::args::{self, AgentArgs, Cli, Command, Intent, Parsed, RunArgs};
use std::ffi::OsString;

/// What a command line means, in a word or two.
fn meaning(line: &[&str]) -> String {
    let args = std::iter::once("segno").chain(line.iter().copied()).map(OsString::from);
    match args::parse(args) {
        Ok(Parsed::Do { intent: Intent::Interactive { prompt, .. }, .. }) => {
            format!("interactive {prompt:?}")
        }
        Ok(Parsed::Do { intent: Intent::Command(command), .. }) => {
            let debug = format!("{command:?}");
            format!("command {}", debug.split('(').next().unwrap_or_default())
        }
        Ok(Parsed::Tell(error)) => format!("clap {:?}", error.kind()),
        Err(error) => {
            format!("error {}: {}", error.exit as u8, error.next_step)
        }
    }
}

#[test]
fn a_prompt_is_never_guessed() {
    let rows: &[(&[&str], &str)] = &[
        (&[], "interactive None"),
        (&["--"], "interactive None"),
        (&["--", "fix the bug"], "interactive Some(\"fix the bug\")"),
        (&["--", "fix", "the", "bug"], "interactive Some(\"fix the bug\")"),
        (&["--", "list"], "interactive Some(\"list\")"),
        (&["--", "--version"], "interactive Some(\"--version\")"),
        (&["fix the bug"], "interactive Some(\"fix the bug\")"),
        (&["fix\nit"], "interactive Some(\"fix\\nit\")"),
        (&["fix the", "bug"], "interactive Some(\"fix the bug\")"),
        (&["--model", "ollama/x", "fix the bug"], "interactive Some(\"fix the bug\")"),
        (&["list"], "command List"),
        (&["ls"], "command List"),
        (&["--home", "/x", "list"], "command List"),
        (&["list", "--home", "/x"], "command List"),
        (&["run", "explain"], "command Run"),
        (&["run", "fix", "the", "bug"], "command Run"),
        (&["run"], "command Run"),
        (&["resume"], "command Resume"),
        (&["show", "--tree"], "command Show"),
        (&["show", "--tree", "--context"], "error 2: `segno show --help` says what it takes."),
        (&["fork"], "error 2: `segno fork --help` says what it takes."),
        (
            &["fork", "x", "--at", "1", "--before", "2"],
            "error 2: `segno fork --help` says what it takes.",
        ),
        (&["list", "--frob"], "error 2: `segno list --help` says what it takes."),
        (&["--frob"], "error 2: `segno --help` says what it takes."),
        (&["--help"], "clap DisplayHelp"),
        (&["--version"], "clap DisplayVersion"),
        (&["help", "list"], "clap DisplayHelp"),
        (&["lst"], "error 2: Did you mean `segno list`? To use it as a prompt: segno -- lst"),
        (
            &["lst", "--all"],
            "error 2: Did you mean `segno list`? To use it as a prompt: segno -- lst",
        ),
        (&["lst "], "error 2: Did you mean `segno list`? To use it as a prompt: segno -- 'lst '"),
        (&["LIST"], "error 2: Did you mean `segno list`? To use it as a prompt: segno -- LIST"),
        (
            &["resum", "x"],
            "error 2: Did you mean `segno resume`? To use it as a prompt: segno -- 'resum x'",
        ),
        (
            &["explain"],
            "error 2: `segno --help` lists the commands. To use it as a prompt: segno -- explain",
        ),
        (
            &["fix", "the bug"],
            "error 2: `segno --help` lists the commands. To use it as a prompt: segno -- 'fix the bug'",
        ),
        (
            &["don't", "x"],
            "error 2: `segno --help` lists the commands. To use it as a prompt: segno -- 'don'\\''t x'",
        ),
        (&["a b", "--", "c"], "error 2: Put the whole prompt behind it: segno -- 'a b c'"),
        (&[""], "error 2: `segno` alone starts a session without a prompt."),
        (&["  "], "error 2: `segno` alone starts a session without a prompt."),
        (&["--", " "], "error 2: `segno` alone starts a session without a prompt."),
        (&["--model", "ollama/x", "list"], "error 2: Leave it out."),
    ];
    for (line, expected) in rows {
        assert_eq!(meaning(line), *expected, "segno {line:?}");
    }
}

#[test]
fn options_may_stand_before_the_command_or_behind_it() {
    let run = |line: &[&str]| -> RunArgs {
        let args = std::iter::once("segno").chain(line.iter().copied()).map(OsString::from);
        match args::parse(args).unwrap() {
            Parsed::Do { intent: Intent::Command(Command::Run(run)), .. } => run,
            other => panic!("{other:?}"),
        }
    };
    let model = Some("openai/x".to_owned());
    let expected = AgentArgs { model, ..AgentArgs::default() };
    assert_eq!(run(&["--model", "openai/x", "run", "go"]).agent, expected);
    assert_eq!(run(&["run", "go", "--model", "openai/x"]).agent, expected);
    assert_eq!(run(&["--model", "a/b", "run", "go", "--model", "openai/x"]).agent, expected);
}

#[test]
fn suggestions_are_close_or_none() {
    let rows = [
        ("lst", Some("list")),
        ("lsit", Some("list")),
        ("chekc", Some("check")),
        ("comple", Some("completions")),
        ("comp", Some("compact")),
        ("trsh", Some("trash")),
        ("x", None),
        ("weather", None),
        ("", None),
    ];
    for (word, expected) in rows {
        assert_eq!(args::suggestion(word).as_deref(), expected, "{word}");
    }
}

/// The help texts are the manual: whoever changes them sees the difference.
#[test]
fn the_manual() {
    let mut manual = String::new();
    let mut root = Cli::command().term_width(90);
    root.build();
    let mut add = |path: &str, command: &clap::Command| {
        let help = command.clone().term_width(90).render_long_help();
        manual.push_str(&format!("$ {path} --help\n{help}\n"));
    };
    add("segno", &root);
    for command in root.get_subcommands().filter(|command| command.get_name() != "help") {
        add(&format!("segno {}", command.get_name()), command);
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            add(&format!("segno {} {}", command.get_name(), below.get_name()), below);
        }
    }
    insta::assert_snapshot!(manual);
}

/// The manual and the table of exit codes are one.
#[test]
fn every_exit_code_is_in_the_manual() {
    let help = Cli::command().render_long_help().to_string();
    for code in segno_cli::error::ExitCode::ALL {
        let line = format!(" {:>2}  {}", code as u8, code.meaning());
        assert!(help.contains(&line), "{line}");
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn arguments_are_quoted_for_a_shell() {
    for (text, expected) in
        [("a", "a"), ("", "''"), ("a b", "'a b'"), ("it's", "'it'\\''s'"), ("$(x)", "'$(x)'")]
    {
        assert_eq!(args::quoted(text), expected);
    }
}
