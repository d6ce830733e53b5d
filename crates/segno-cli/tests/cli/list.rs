//! `segno list`, and finding a session by what a person says.

use super::desk::{Desk, START, header_in, id, ran};
use segno_model::record::{
    Approval, ApprovalState, Message, Name, Origin, OriginKind, ProjectFacts, Run, RunEnd,
    RunState, UserMessage,
};
use segno_model::{Body, Timestamp};
use segno_testkit::sessions::{answer, call, header, prompt, reply};
use serde_json::Value;
use std::path::Path;

fn started(run: u64) -> Body {
    Body::Run(Run { run, state: RunState::Started { attempt: 1, owner: "pid 7".into() } })
}

fn ended(run: u64, end: RunEnd) -> Body {
    Body::Run(Run { run, state: RunState::Ended { end, reason: None } })
}

fn named(name: &str) -> Body {
    Body::Name(Name { name: name.into() })
}

fn notice(text: &str) -> Body {
    Body::Message(Box::new(Message::User(UserMessage::notice("instructions", text))))
}

fn whole(text: &str) -> Vec<Body> {
    vec![started(1), prompt(text), answer("done"), ended(1, RunEnd::Completed)]
}

fn listed(desk: &Desk, cwd: &Path) -> Vec<String> {
    let json = desk.run_in(cwd, &["list", "--json"]).json();
    let ids = json["sessions"].as_array().unwrap().iter();
    ids.map(|s| s["id"].as_str().unwrap().to_owned()).collect()
}

fn by_id(json: &Value, n: u64) -> &Value {
    let sessions = json["sessions"].as_array().unwrap();
    sessions.iter().find(|s| s["id"] == id(n).as_str()).unwrap()
}

/// Ages depend on the day; everything else does not.
fn without_ages(text: &str) -> String {
    let row = |line: &str| {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("019") {
            words[1] = "AGE";
            words[2] = "AGE";
        }
        words.join("  ")
    };
    text.lines().map(|line| row(line) + "\n").collect()
}

/// One session in every state.
/// Covers: MG4, #66, G9.
#[test]
fn every_state_has_its_word() {
    let desk = Desk::new();
    desk.session(1, whole("fix the parser"));
    desk.session(2, vec![started(1), prompt("cut off")]);
    desk.session(3, vec![prompt("nobody answered")]);
    desk.session(4, vec![started(1), prompt("x"), answer("y"), ended(1, RunEnd::Stopped)]);
    desk.session(5, vec![started(1), prompt("x"), answer("y"), ended(1, RunEnd::Failed)]);
    let asked = ApprovalState::Asked { question: "run it?".into() };
    let question = Approval { call_id: "a".into(), call_seq: 3, state: asked };
    desk.session(
        6,
        vec![started(1), prompt("x"), reply("", &[call("a")]), Body::Approval(question)],
    );
    desk.session(7, vec![named("only a name")]);
    let held = desk.session(8, whole("somebody has it open"));
    let _held = desk.hold(&held);
    let damaged = desk.session(9, whole("a line is gone"));
    desk.tamper(&damaged, |bytes| {
        let mut lines = super::desk::lines(&bytes);
        lines.remove(2);
        lines.concat()
    });
    let newer = desk.session(10, whole("from the future"));
    desk.tamper(&newer, |bytes| {
        let text = String::from_utf8(bytes).unwrap();
        let first = text.lines().next().unwrap().replace("\"major\":1", "\"major\":9");
        let (covered, _) = segno_model::line::split_crc(first.as_bytes()).unwrap();
        let crc = segno_model::line::checksum(covered);
        let header = format!("{},\"crc\":\"{crc:08x}\"}}", std::str::from_utf8(covered).unwrap());
        text.replacen(text.lines().next().unwrap(), &header, 1).into_bytes()
    });
    let unreadable = desk.session(11, whole("not ours to read"));
    let log = desk.log(&unreadable);
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    let cut = desk.session(12, whole("cut in line 1"));
    desk.tamper(&cut, |bytes| bytes[..40].to_vec());
    let ran = desk.run(&["list"]);
    insta::assert_snapshot!(without_ages(&desk.plain(&ran.all())));
}

#[test]
fn the_table_fits_eighty_columns() {
    let desk = Desk::new();
    desk.session(1, whole(&"a long prompt ".repeat(30)));
    let ran = desk.run(&["list"]);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80), "{}", ran.out);
}

/// Covers: #74, #110, MG4. File times and titles do not count, and a clock that was ahead does not
/// keep a session on top.
#[test]
fn order_is_by_the_last_message() {
    let desk = Desk::new();
    let old = desk.session(1, whole("first"));
    desk.session(2, whole("second"));
    desk.session(3, whole("third"));
    desk.append(&old, START + 90_000_000, vec![named("renamed later")]);
    let expected = [id(3), id(2), id(1)].map(|id| id.to_string());
    assert_eq!(listed(&desk, &desk.project), expected);
    desk.append(&old, START + 90_000_000, vec![prompt("again")]);
    assert_eq!(listed(&desk, &desk.project)[0], id(1).to_string());
    let far = 4_000_000_000_000;
    desk.append(&id(2), far, vec![prompt("from a wrong clock")]);
    desk.append(&id(2), START + 95_000_000, vec![answer("from the right one")]);
    let json = desk.run(&["list", "--json"]).json();
    let time = by_id(&json, 2)["last_message"].as_str().unwrap().to_owned();
    assert_eq!(time, Timestamp(START + 95_000_000).to_string());
}

/// Covers: #72, MG3. What Segno itself put in is no title.
#[test]
fn titles_are_what_a_person_said() {
    let desk = Desk::new();
    desk.session(
        1,
        vec![notice("<system>rules</system>"), prompt("  the real one\nmore"), answer("y")],
    );
    desk.session(2, vec![notice("<system>rules</system>")]);
    let json = desk.run(&["list", "--json"]).json();
    assert_eq!(by_id(&json, 1)["first_prompt"], "the real one\nmore");
    assert_eq!(by_id(&json, 2)["first_prompt"], Value::Null);
    let out = desk.run(&["list"]).out;
    assert!(out.contains("the real one more") && out.contains("(nothing was said)"), "{out}");
}

/// Covers: MG1, MG2, #84, #90, #92.
#[test]
fn a_project_is_found_by_any_of_its_facts() {
    let desk = Desk::new();
    let real = desk.project.clone();
    let link = desk.path("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    desk.session(1, whole("by the real path"));
    desk.session_with(header_in(2, &link), whole("through the link"));
    let gone = desk.path("gone");
    desk.session_with(header_in(3, &gone), whole("its directory is gone"));
    let dash = desk.path("pro-ject");
    std::fs::create_dir(&dash).unwrap();
    desk.session_with(header_in(4, &dash), whole("another project"));
    let both = [id(2), id(1)].map(|id| id.to_string());
    assert_eq!(listed(&desk, &real), both);
    assert_eq!(listed(&desk, &link), both);
    assert_eq!(listed(&desk, &dash), [id(4).to_string()]);
    let out = desk.run(&["list"]).out;
    assert!(out.ends_with("2 more sessions elsewhere (segno list --all)\n"), "{out}");
    assert_eq!(
        desk.run(&["list", "--all", "--json"]).json()["sessions"].as_array().unwrap().len(),
        4
    );
}

/// Covers: #81, #90. A repository that moved is known by its first commit; one that became a
/// repository is known by its path.
#[test]
fn a_moved_repository_is_known_by_its_first_commit() {
    let desk = Desk::new();
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(args);
        git.current_dir(&desk.project);
        let done = ran(git);
        assert_eq!(done.code, 0, "{args:?} {done:?}");
        done.out
    };
    desk.session(1, whole("before git init"));
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "one"]);
    let root_commit = git(&["rev-parse", "HEAD"]).trim().to_owned();
    let facts = ProjectFacts {
        cwd: "/srv/old-name".into(),
        root_commit: Some(root_commit),
        ..ProjectFacts::default()
    };
    let moved = segno_model::record::Header { project: facts, ..header(id(2)) };
    desk.session_with(moved, whole("before the move"));
    assert_eq!(listed(&desk, &desk.project), [id(2), id(1)].map(|id| id.to_string()));
}

/// Covers: G17, #163.
#[test]
fn stored_text_cannot_drive_the_terminal() {
    let desk = Desk::new();
    let evil = "\x1b]0;PWNED\x07name\x1b[2J\u{9b}31m\u{202e}abc\r\0";
    desk.session(1, vec![prompt(evil), answer("y"), named(evil)]);
    let ran = desk.run(&["list"]);
    assert!(ran.out.contains("nameabc") && !ran.out.contains("PWNED"), "{:?}", ran.out);
    assert!(!ran.out.chars().any(|c| c.is_control() && c != '\n'), "{:?}", ran.out);
    assert_eq!(by_id(&desk.run(&["list", "--json"]).json(), 1)["name"], evil);
}

#[test]
fn an_empty_list_says_what_to_do() {
    let desk = Desk::new();
    let ran = desk.run(&["list"]);
    assert!(
        ran.code == 0 && ran.out.starts_with("There are no sessions yet.\n`segno` starts"),
        "{ran:?}"
    );
    desk.session(1, whole("x"));
    let ran = desk.run_in(&desk.path(""), &["list"]);
    assert!(
        ran.out.starts_with("No session is of this project")
            && ran.out.contains("1 more session elsewhere"),
        "{ran:?}"
    );
    assert_eq!(desk.run(&["list", "--json"]).json()["version"], 2);
}

/// Covers: #65, #66, #68, #119, G12. Whatever became of the catalog, the logs are the truth.
#[test]
fn a_stale_missing_or_broken_catalog_hides_nothing() {
    let desk = Desk::new();
    let catalog = desk.home().join("catalog.sqlite");
    desk.session(1, whole("one"));
    assert_eq!(listed(&desk, &desk.project).len(), 1);
    desk.session(2, whole("two"));
    desk.append(&id(1), START + 90_000_000, vec![prompt("more"), named("grown")]);
    let json = desk.run(&["list", "--json"]).json();
    assert_eq!(by_id(&json, 1)["name"], "grown", "a log that grew is read again");
    assert_eq!(json["sessions"].as_array().unwrap().len(), 2);
    for broken in ["", "this is no database ", "\0"] {
        for side in ["catalog.sqlite-wal", "catalog.sqlite-shm"] {
            let _ = std::fs::remove_file(desk.home().join(side));
        }
        std::fs::write(&catalog, broken.repeat(300)).unwrap();
        let ran = desk.run(&["list", "--json"]);
        assert_eq!(ran.json()["sessions"].as_array().unwrap().len(), 2, "{broken:?}");
        let notes = ran.err.matches("note: the catalog was damaged").count();
        assert!(notes <= 1 && (notes == 1 || !broken.starts_with('t')), "{broken:?} {ran:?}");
        assert_eq!(desk.run(&["list"]).err, "", "it was made anew");
    }
    std::fs::remove_file(&catalog).unwrap();
    std::fs::create_dir(&catalog).unwrap();
    let ran = desk.run(&["show", "grown", "--json"]);
    assert_eq!((ran.code, ran.json()["id"].as_str()), (0, Some(id(1).as_str())));
    std::fs::remove_dir_all(desk.log(&id(1)).parent().unwrap()).unwrap();
    assert_eq!(listed(&desk, &desk.project), [id(2).to_string()]);
    let said = found(&desk, id(1).as_str());
    assert!(said.starts_with("exit 6: note: the catalog cannot be used"), "{said}");
    assert!(said.contains("error: There is no session"), "{said}");
}

/// Covers: #113. Reading needs nothing to be written.
#[test]
fn a_home_that_cannot_be_written_can_be_listed() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    desk.session(1, whole("one"));
    std::fs::set_permissions(desk.home(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let ids = listed(&desk, &desk.project);
    std::fs::set_permissions(desk.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(ids, [id(1).to_string()]);
}

/// Every way to name a session, tried with `show --raw 0`, which prints its header.
fn found(desk: &Desk, query: &str) -> String {
    let ran = desk.run(&["show", query, "--raw", "0"]);
    if ran.code == 0 {
        let header: Value = serde_json::from_str(&ran.out).unwrap();
        return header["id"].as_str().unwrap().to_owned();
    }
    format!("exit {}: {}", ran.code, ran.err)
}

/// Covers: MG8, MG10, MG11, MG14, #62.
#[test]
fn a_session_is_found_by_id_beginning_name_or_path() {
    let desk = Desk::new();
    desk.session(1, [whole("one"), vec![named("parser work")]].concat());
    desk.session(2, vec![named("empty but asked for")]);
    let (one, two) = (id(1).to_string(), id(2).to_string());
    assert_eq!(found(&desk, &one), one);
    assert_eq!(found(&desk, &one[..12]), one);
    assert_eq!(found(&desk, &one[..12].to_uppercase()), one);
    assert_eq!(found(&desk, "parser work"), one);
    assert_eq!(found(&desk, "empty but asked for"), two);
    let log = desk.log(&id(1));
    assert_eq!(found(&desk, log.to_str().unwrap()), one);
    assert_eq!(found(&desk, log.parent().unwrap().to_str().unwrap()), one);
    for missing in ["parser", "ffff", ""] {
        let said = found(&desk, missing);
        assert!(said.starts_with("exit 6: error: There is no session"), "{missing}: {said}");
    }
    for nobodys in ["/etc/passwd", "/etc"] {
        let said = found(&desk, nobodys);
        assert!(said.contains("is no session of a known agent"), "{nobodys}: {said}");
    }
    assert_eq!(listed(&desk, &desk.project).len(), 2, "asking made no session");
}

/// Covers: MG11, #78.
#[test]
fn what_fits_several_sessions_lists_them() {
    let desk = Desk::new();
    desk.session(1, [whole("first"), vec![named("twin")]].concat());
    desk.session(2, [whole("second"), vec![named("twin")]].concat());
    desk.session(3, vec![named("twin")]);
    let said = found(&desk, "twin");
    assert!(said.starts_with("exit 6: error: `twin` fits 3 sessions."), "{said}");
    let said = found(&desk, "019");
    assert!(said.contains("fits 3 sessions") && said.contains("twin"), "{said}");
    for n in 1..=3 {
        assert!(said.contains(&id(n).as_str()[..8]), "{said}");
    }
}

/// Covers: MG5, MG6, MG7, MG9, MG13.
#[test]
fn last_is_the_newest_of_this_project_in_which_something_was_said() {
    let desk = Desk::new();
    assert!(found(&desk, "last").starts_with("exit 6: error: This project has no session yet."));
    desk.session(1, whole("one"));
    desk.session(2, vec![prompt("unanswered")]);
    desk.session(3, vec![named("newer and empty")]);
    desk.session_with(header_in(4, &desk.path("other")), whole("another project's"));
    let child =
        Origin { kind: OriginKind::Child, of: id(1).to_string(), up_to: None, parent: None };
    let header = segno_model::record::Header { origin: Some(child), ..desk.header(5) };
    desk.session_with(header, whole("a subagent's"));
    assert_eq!(found(&desk, "last"), id(2).to_string());
    desk.tamper(&id(2), |_| b"garbage\n".to_vec());
    assert_eq!(found(&desk, "last"), id(1).to_string());
}

/// Covers: #64, #68.
#[test]
fn a_session_in_the_trash_is_said_to_be_there() {
    let desk = Desk::new();
    desk.session(1, whole("one"));
    desk.store.trash(&id(1)).unwrap();
    let said = found(&desk, id(1).as_str());
    assert!(said.contains("it is in the trash"), "{said}");
    assert!(said.contains(&format!("segno trash restore {}", id(1))), "{said}");
}
