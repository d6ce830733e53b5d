//! The line editor, played in a pseudo-terminal.

use crate::terminal_process::{Child, Played};
use segno_cli::terminal::complete::CommandHint;
use segno_cli::terminal::entry::Line;
use segno_cli::terminal::prompt::{Prompt, Setup, edit_text, editor_command};
use segno_cli::terminal::{Look, Screen};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Not a test of its own: what the tests below run as a process. It says what each entry was.
#[test]
fn child() {
    if !Child::is("prompt") {
        return;
    }
    let hint = |name| CommandHint { name, about: "about it", arguments: Vec::new() };
    let setup = Setup {
        history: std::env::var_os("HISTORY").map(Into::into),
        commands: vec![hint("resume"), hint("tree")],
        files: Box::new(|prefix| {
            let all = ["src/main.rs", "README.md"];
            all.iter().filter(|path| path.starts_with(prefix)).map(|path| (*path).into()).collect()
        }),
        editor: std::env::var("EDITOR").unwrap_or_default(),
        dumb: false,
        stop: Arc::new(AtomicBool::new(false)),
    };
    let look = Look { colour: false, columns: 80, terminal: true, full: true };
    let mut screen = Screen::new(Box::new(std::io::stdout()), look);
    let (mut prompt, trouble) = Prompt::open(setup, false);
    if let Some(trouble) = trouble {
        Child::say(&format!("trouble: {trouble}"));
    }
    // The number tells the parent that this prompt, not an earlier one, reads keys now.
    for number in 1.. {
        let line = prompt.read(&format!("segno {number}>"), &mut screen).unwrap();
        Child::say(&format!("got {line:?}."));
        if matches!(line, Line::Eof | Line::Interrupt) {
            return;
        }
    }
}

fn start(history: &Path, editor: &str) -> Played {
    let env = [("HISTORY", history.to_str().unwrap()), ("EDITOR", editor)];
    let mut played = Played::start_with("prompt::child", "prompt", 80, 24, &env);
    played.wait_for("segno 1>");
    played
}

#[test]
fn entries_are_told_apart_and_the_terminal_is_put_back() {
    let directory = tempfile::tempdir().unwrap();
    let mut played = start(&directory.path().join("history"), "false");
    let rows = [
        ("fix it\r", "got Text(\"fix it\")."),
        ("/resume 019c\r", "got Command { name: \"resume\", args: \"019c\" }."),
        ("!ls -l\r", "got Shell(\"ls -l\")."),
        ("one\\\rtwo\r", "got Text(\"one\\ntwo\")."),
        ("three\x1b\rfour\r", "got Text(\"three\\nfour\")."),
        ("five\nsix\n\r", "got Text(\"five\\nsix\")."),
        ("/tre\t\r", "got Command { name: \"tree\", args: \"\" }."),
        ("see @READ\t\r", "got Text(\"see @README.md\")."),
    ];
    for (number, (keys, expected)) in (1..).zip(rows) {
        played.wait_for(&format!("segno {number}>"));
        played.send(keys);
        played.wait_for(expected);
    }
    played.wait_for(&format!("segno {}>", rows.len() + 1));
    played.send("\x04");
    played.wait_for("got Eof.");
    assert!(!played.bracketed_paste() && played.cooked());
}

#[test]
fn ctrl_c_clears_what_was_typed_also_in_a_menu_and_in_a_search() {
    let directory = tempfile::tempdir().unwrap();
    let mut played = start(&directory.path().join("history"), "false");
    for (typed, shown) in [("junk", "junk"), ("/\t", "/tree")] {
        played.send(typed);
        played.wait_for(shown);
        played.send("\x03");
        played.wait_for_no(shown);
    }
    played.send("\x12");
    played.wait_for("(history: )");
    played.send("\x03");
    played.wait_for("(history: ) \nsegno 1>");
    played.send("\x03");
    // A key that comes before the next prompt is another story.
    played.wait_for("Ctrl-C again leaves.\nsegno 1>");
    played.send("kept\r");
    played.wait_for("got Text(\"kept\").");
}

/// Covers: G17.
#[test]
fn pasted_text_arrives_whole_and_clean() {
    let directory = tempfile::tempdir().unwrap();
    let mut played = start(&directory.path().join("history"), "false");
    played.send("\x1b[200~cmd \\\r\n  --flag\ty\u{202e}z\x1b[201~");
    played.send("\r");
    played.wait_for("got Text(\"cmd \\\\\\n  --flag\\tyz\").");
}

#[test]
fn ctrl_c_twice_on_an_empty_line_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let mut played = start(&directory.path().join("history"), "false");
    played.send("\x03");
    played.wait_for("Ctrl-C again leaves.");
    // Between two reads the terminal is in its line mode, where the key would be a signal.
    played.wait_for_times("segno 1>", 2);
    played.send("\x03");
    played.wait_for("got Interrupt.");
}

#[test]
fn an_editor_program_changes_the_line_and_its_failure_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text of it");
    std::fs::write(&text, "edited\nlines\n").unwrap();
    let history = directory.path().join("history");

    let mut played = start(&history, &format!("cp '{}'", text.display()));
    played.send("draft\x18\x05");
    played.wait_for("lines");
    played.send("\r");
    played.wait_for("got Text(\"edited\\nlines\").");
    std::fs::write(&text, "once more").unwrap();
    played.wait_for("segno 2>");
    played.send("/edit\r");
    played.wait_for("once more");
    played.send(" changed\r");
    played.wait_for("got Text(\"once more changed\").");

    let mut played = start(&history, "false");
    played.send("draft\x18\x05");
    played.wait_for("`false` did not work: it ended with exit status: 1\nsegno 1> draft");
    played.send("!\r");
    played.wait_for("got Text(\"draft!\").");
}

/// Covers: G17.
#[test]
fn the_history_is_private_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let history = directory.path().join("new").join("history");
    let mut played = start(&history, "false");
    played.send("remember\\\rme\r");
    played.wait_for("got Text(\"remember\\nme\").");
    let mode = std::fs::metadata(&history).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let parent = std::fs::metadata(history.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(parent & 0o777, 0o700);
    drop(played);

    let mut played = start(&history, "false");
    played.send("\x1b[A");
    played.wait_for("remember");
    played.send("\r");
    played.wait_for("got Text(");
}

#[test]
fn without_a_usable_history_it_works_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut played = start(directory.path(), "false");
    played.wait_for("trouble: ");
    played.send("x\r");
    played.wait_for("got Text(\"x\").");
}

#[test]
fn the_editor_is_chosen_like_elsewhere() {
    let env = |pairs: &'static [(&str, &str)]| {
        editor_command(&move |name: &str| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    };
    assert_eq!(env(&[("VISUAL", "code --wait"), ("EDITOR", "nano")]), "code --wait");
    assert_eq!(env(&[("VISUAL", " "), ("EDITOR", "nano")]), "nano");
    assert_eq!(env(&[]), "vi");
    assert_eq!(edit_text("true", "as it was").unwrap(), "as it was");
    assert!(edit_text("exit 3;", "x").is_err());
}
