//! Naming, forking, moving, deleting and restoring sessions.

use super::desk::{Desk, START, id};
use super::terminal_process::Played;
use segno_model::Body;
use segno_model::record::Name;
use segno_testkit::sessions::{answer, call, prompt, reply};

fn session(desk: &Desk, n: u64) {
    desk.session(n, vec![prompt("first"), answer("one"), prompt("second"), answer("two")]);
}

fn name_of(desk: &Desk, n: u64) -> Option<String> {
    let json = desk.run(&["list", "--all", "--json"]).json();
    let sessions = json["sessions"].as_array().unwrap();
    let found = sessions.iter().find(|s| s["id"] == id(n).as_str()).unwrap();
    found["name"].as_str().map(str::to_owned)
}

/// Covers: #74, #78, TT5.
#[test]
fn a_session_is_named_renamed_and_unnamed() {
    let desk = Desk::new();
    session(&desk, 1);
    session(&desk, 2);
    let ran = desk.run(&["name", id(1).as_str(), "  parser work "]);
    assert_eq!((ran.code, ran.out), (0, format!("{} is now called parser work.\n", id(1))));
    assert_eq!(name_of(&desk, 1).as_deref(), Some("parser work"));
    assert_eq!(desk.run(&["name", "parser work", "better"]).code, 0);
    let ran = desk.run(&["name", "last", "better"]);
    assert!(ran.code == 0 && ran.out.contains("Another session has this name, too"), "{ran:?}");
    assert_eq!(desk.run(&["name", id(1).as_str(), ""]).code, 0);
    assert_eq!(name_of(&desk, 1), None);
    for refused in ["last", "a/b"] {
        assert_eq!(desk.run(&["name", id(1).as_str(), refused]).code, 2, "{refused}");
    }
    assert_eq!(desk.run(&["show", "--json"]).json()["id"], id(2).as_str(), "names move no tip");
}

/// Covers: G5.
#[test]
fn a_held_session_can_be_forked_and_read_but_not_written() {
    let desk = Desk::new();
    session(&desk, 1);
    let held = desk.hold(&id(1));
    let me = id(1).to_string();
    for args in [
        &["name", &me, "x"][..],
        &["relocate", &me, "/"],
        &["delete", &me, "--yes"],
        &["repair", &me],
        &["rewind", &me, "1"],
    ] {
        let ran = desk.run(args);
        assert_eq!(ran.code, 4, "{args:?} {ran:?}");
        let pid = format!("process {}", std::process::id());
        assert!(
            ran.err.contains(&pid) && ran.err.contains(&format!("segno attach {me}")),
            "{ran:?}"
        );
    }
    assert_eq!(desk.run(&["fork", &me]).code, 0);
    assert_eq!(desk.run(&["export", &me]).code, 0);
    Desk::release(held);
    assert_eq!(desk.run(&["name", &me, "x"]).code, 0);
}

fn fork(desk: &Desk, args: &[&str]) -> String {
    let me = id(1).to_string();
    let args = [&["fork", me.as_str(), "--json"], args].concat();
    let json = desk.run(&args).json();
    assert_eq!((json["version"].as_u64(), json["of"].as_str()), (Some(1), Some(me.as_str())));
    json["id"].as_str().unwrap().to_owned()
}

fn said(desk: &Desk, session: &str) -> String {
    let json = desk.run(&["show", session, "--json"]).json();
    let records = json["records"].as_array().unwrap().iter();
    let text = |r: &serde_json::Value| r["content"][0]["text"].as_str().unwrap_or("?").to_owned();
    records.map(text).collect::<Vec<_>>().join(" ")
}

/// Covers: TT8, MG12.
#[test]
fn a_fork_ends_where_it_was_told_to() {
    let desk = Desk::new();
    session(&desk, 1);
    let before = desk.bytes(&id(1));
    let whole = fork(&desk, &[]);
    let at = fork(&desk, &["--at", "2"]);
    let cut = fork(&desk, &["--before", "3"]);
    assert_eq!(said(&desk, &whole), "first one second two");
    assert_eq!(said(&desk, &at), "first one");
    assert_eq!(said(&desk, &cut), "first one");
    assert_eq!(desk.bytes(&id(1)), before, "the original is untouched");
    let ran = desk.run(&["fork", id(1).as_str()]);
    let copy = ran.out.lines().last().unwrap().strip_prefix("segno resume ").unwrap().to_owned();
    assert_eq!(said(&desk, &copy), "first one second two");
    let listed = desk.run(&["list", "--json"]).json();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 5, "forks belong to the same project");
    for (args, code) in [(["--at", "99"], 2), (["--before", "0"], 2)] {
        let me = id(1).to_string();
        let ran = desk.run(&[&["fork", me.as_str()][..], &args].concat());
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains("--tree"), "{ran:?}");
    }
}

/// Covers: #78.
#[test]
fn a_fork_does_not_take_the_name_away() {
    let desk = Desk::new();
    session(&desk, 1);
    desk.append(&id(1), START, vec![Body::Name(Name { name: "work".into() })]);
    fork(&desk, &[]);
    fork(&desk, &["--name", "experiment"]);
    assert_eq!(desk.run(&["show", "work", "--json"]).json()["id"], id(1).as_str());
    for name in ["work (fork)", "experiment"] {
        assert_eq!(desk.run(&["show", name, "--json"]).json()["name"], name);
    }
}

/// Covers: #81, #92, MG1.
#[test]
fn a_moved_project_finds_its_session_after_relocating_it() {
    let desk = Desk::new();
    session(&desk, 1);
    let new = desk.path("new-place");
    std::fs::rename(&desk.project, &new).unwrap();
    let sessions = |cwd: &std::path::Path| {
        let json = desk.run_in(cwd, &["list", "--json"]).json();
        json["sessions"].as_array().unwrap().len()
    };
    assert_eq!(sessions(&new), 0);
    let first = desk.bytes(&id(1));
    let ran = desk.run_in(&new, &["relocate", &id(1).as_str()[..8]]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(sessions(&new), 1);
    assert!(desk.bytes(&id(1)).starts_with(&first), "it is appended");
    let length = desk.bytes(&id(1)).len();
    let ran = desk.run_in(&new, &["relocate", "last", "."]);
    assert!(
        ran.code == 0 && desk.bytes(&id(1)).len() > length || ran.out.contains("already"),
        "{ran:?}"
    );
    let ran = desk.run_in(&new, &["relocate", "last", "/no/such/place"]);
    assert_eq!(ran.code, 6, "{ran:?}");
}

/// Covers: #136, G17.
#[test]
fn deleted_sessions_wait_in_the_trash() {
    let desk = Desk::new();
    session(&desk, 1);
    session(&desk, 2);
    let (one, two) = (id(1).to_string(), id(2).to_string());
    let ran = desk.run(&["delete", &one]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--yes") && ran.err.contains("Nothing was changed"), "{ran:?}");
    assert_eq!(desk.run(&["delete", &one, "nothing", "--yes"]).code, 6);
    assert!(desk.store.log_path(&id(1)).is_ok(), "nothing is moved unless all are found");
    let before = desk.bytes(&id(1));
    let ran = desk.run(&["delete", &one, &two, &one, "--yes"]);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 2), "{ran:?}");
    assert!(desk.run(&["list"]).out.starts_with("There are no sessions yet."));
    assert_eq!(desk.run(&["trash"]).out.lines().count(), 4);
    let json = desk.run(&["trash", "list", "--json"]).json();
    assert_eq!(json["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(desk.run(&["trash", "restore", "019"]).code, 6);
    assert_eq!(desk.run(&["trash", "restore", &one]).code, 0);
    assert_eq!(desk.bytes(&id(1)), before);
    assert_eq!(desk.run(&["trash", "empty"]).code, 2);
    let ran = desk.run(&["trash", "empty", "--yes"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "1 session deleted for good.\n"));
    assert_eq!(desk.run(&["trash"]).out, "The trash is empty.\n");
    assert_eq!(desk.run(&["trash", "restore", &two]).code, 6);
}

/// In a terminal the question is asked, and only a yes is one.
/// Covers: #136.
#[test]
fn in_a_terminal_deleting_is_asked_about() {
    let desk = Desk::new();
    session(&desk, 1);
    let delete = || {
        let mut command = portable_pty::CommandBuilder::new(env!("CARGO_BIN_EXE_segno"));
        command.args(["delete", "last"]);
        command.cwd(&desk.project);
        command.env("SEGNO_HOME", desk.home());
        Played::spawn(command, 100, 24)
    };
    let mut asked = delete();
    asked.wait_for("Move 1 session to the trash? [y/N]");
    asked.send("\r");
    assert_eq!(asked.exit_code(), 3);
    assert!(desk.store.log_path(&id(1)).is_ok());
    let mut asked = delete();
    asked.wait_for("[y/N]");
    asked.send("y\r");
    assert_eq!(asked.exit_code(), 0);
    assert!(desk.store.log_path(&id(1)).is_err());
}

/// Covers: #113, G16.
#[test]
fn a_home_that_cannot_be_written_is_said_to_be_so() {
    use std::os::unix::fs::PermissionsExt as _;
    if rustix::process::geteuid().is_root() {
        return segno_testkit::skipped("root may write anywhere");
    }
    let desk = Desk::new();
    session(&desk, 1);
    let log = desk.log(&id(1));
    let month = log.parent().unwrap().parent().unwrap().to_owned();
    let set = |mode| {
        std::fs::set_permissions(&log, std::fs::Permissions::from_mode(mode & 0o600)).unwrap();
        std::fs::set_permissions(&month, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(0o500);
    let named = desk.run(&["name", id(1).as_str(), "x"]);
    let forked = desk.run(&["fork", id(1).as_str()]);
    set(0o700);
    for ran in [named, forked] {
        assert!(ran.code != 0 && ran.out.is_empty() && ran.err.contains("ermission"), "{ran:?}");
    }
}

/// Covers: G17, #163.
#[test]
fn names_with_escape_sequences_are_shown_clean() {
    let desk = Desk::new();
    session(&desk, 1);
    let evil = "\x1b]0;PWNED\x07x\u{202e}y";
    for args in
        [&["name", "last", evil][..], &["fork", "last", "--name", evil], &["delete", evil, "--yes"]]
    {
        let ran = desk.run(args);
        let all = ran.all();
        assert!(
            !all.contains("PWNED") && !all.contains('\x1b') && !all.contains('\u{202e}'),
            "{all:?}"
        );
    }
}

/// An open call in a fork belongs to the original.
/// Covers: G7, TT8.
#[test]
fn a_fork_of_interrupted_work_is_not_interrupted() {
    let desk = Desk::new();
    desk.session(1, vec![prompt("x"), reply("", &[call("a")])]);
    let copy = fork(&desk, &[]);
    assert_eq!(desk.run(&["check", &copy]).code, 0);
}
