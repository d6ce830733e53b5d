//! `segno repair`: nothing is rewritten, and afterwards the session is as good as it can be.

use super::desk::{Desk, START, id, lines};
use segno_testkit::sessions::{answer, prompt, summary};

fn session(desk: &Desk) {
    let words = ["zero", "one", "two", "three", "four", "five"];
    let say = |(i, text): (usize, &&str)| if i % 2 == 0 { prompt(text) } else { answer(text) };
    desk.session(1, words.iter().enumerate().map(say).collect());
}

fn altered(line: &[u8], from: &str, to: &str) -> Vec<u8> {
    String::from_utf8(line.to_vec()).unwrap().replace(from, to).into_bytes()
}

type Change = fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>;

const DAMAGES: &[(&str, Change)] = &[
    ("an altered line", |mut lines| {
        lines[3] = altered(&lines[3], "two", "too");
        lines
    }),
    ("a missing line", |mut lines| {
        lines.remove(3);
        lines
    }),
    ("garbage", |mut lines| {
        lines[3] = b"garbage \x1b]0;PWNED\x07 here\n".to_vec();
        lines
    }),
    ("zero bytes", |mut lines| {
        lines[3] = [vec![0; 99], b"\n".to_vec()].concat();
        lines
    }),
    ("several at once, and a torn tail", |mut lines| {
        lines[2] = altered(&lines[2], "one", "won");
        lines[4] = b"garbage\n".to_vec();
        lines[6].truncate(30);
        lines
    }),
];

/// Covers: G2, G3, ST7.
#[test]
fn repair_appends_and_leaves_notes_only() {
    let desk = Desk::new();
    session(&desk);
    let sound = desk.bytes(&id(1));
    let me = id(1).to_string();
    for (name, change) in DAMAGES {
        let damaged = change(lines(&sound)).concat();
        desk.tamper(&id(1), |_| damaged.clone());
        let named = desk.run(&["name", &me, "x"]);
        assert!(
            named.code == 5 && named.err.contains(&format!("segno repair {me}")),
            "{name}: {named:?}"
        );
        let asked = desk.run(&["repair", &me]);
        assert_eq!(asked.code, 2, "{name}: nobody said yes: {asked:?}");
        assert!(!asked.out.contains("PWNED") && !asked.out.contains('\x1b'), "{name}: {asked:?}");
        assert_eq!(desk.bytes(&id(1)), damaged, "{name}: asking changes nothing");
        let done = desk.run(&["repair", &me, "--yes"]);
        assert_eq!(done.code, 0, "{name}: {done:?}");
        let tail = name.contains("tail");
        let kept = if tail { lines(&damaged)[..6].concat() } else { damaged };
        assert!(desk.bytes(&id(1)).starts_with(&kept), "{name}: nothing is rewritten");
        let check = desk.run(&["check", &me]);
        assert_eq!(check.code, 0, "{name}: {check:?}");
        assert_eq!(desk.run(&["name", &me, "y"]).code, 0, "{name}: it can be written again");
        let again = desk.run(&["repair", &me, "--yes"]);
        assert!(
            again.out.ends_with("needs no repair; nothing was changed.\n"),
            "{name}: {again:?}"
        );
    }
}

/// Covers: G3.
#[test]
fn what_would_be_done_is_shown() {
    let desk = Desk::new();
    session(&desk);
    desk.tamper(&id(1), |bytes| DAMAGES[4].1(lines(&bytes)).concat());
    insta::assert_snapshot!(desk.run(&["repair", "last", "--yes"]).all());
}

/// Covers: G3.
#[test]
fn an_altered_record_is_accepted_by_its_number() {
    let desk = Desk::new();
    session(&desk);
    let me = id(1).to_string();
    desk.tamper(&id(1), |bytes| DAMAGES[0].1(lines(&bytes)).concat());
    let wrong = desk.run(&["repair", &me, "--accept", "2", "--yes"]);
    assert!(wrong.code == 2 && wrong.err.contains("Record 2 is not altered"), "{wrong:?}");
    let plan = desk.run(&["repair", &me, "--accept", "3", "--json"]);
    assert_eq!(plan.code, 5, "{plan:?}");
    let plan = plan.json();
    assert_eq!(
        (plan["changed"].as_bool(), plan["items"][0]["what"].as_str()),
        (Some(false), Some("accepted"))
    );
    assert_eq!(desk.run(&["repair", &me, "--accept", "3", "--yes"]).code, 0);
    let shown = desk.run(&["show", &me]).out;
    assert!(shown.contains("too") && !shown.contains("damaged"), "{shown}");
    assert_eq!(desk.run(&["check", &me]).code, 0);
}

/// Covers: G2.
#[test]
fn a_torn_tail_is_set_aside_at_once() {
    let desk = Desk::new();
    session(&desk);
    desk.tamper(&id(1), |mut bytes| {
        bytes.truncate(bytes.len() - 20);
        bytes
    });
    assert_eq!(desk.run(&["check"]).code, 1);
    let ran = desk.run(&["repair", "last", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(desk.run(&["check"]).code, 0);
    let aside = desk.log(&id(1)).with_file_name("set-aside");
    assert_eq!(std::fs::read_dir(aside).unwrap().count(), 1);
}

/// Damage before the active context keeps nobody from writing, and can be settled all the same.
/// Covers: G3.
#[test]
fn old_damage_is_settled_too() {
    let desk = Desk::new();
    session(&desk);
    let kept = desk.append(&id(1), START, vec![prompt("kept")])[0].pos();
    desk.append(&id(1), START, vec![summary("what was", Some(kept), vec![]), prompt("new")]);
    desk.tamper(&id(1), |bytes| DAMAGES[2].1(lines(&bytes)).concat());
    assert_eq!(desk.run(&["name", "last", "still writable"]).code, 0);
    assert_eq!(desk.run(&["check"]).code, 1);
    let ran = desk.run(&["repair", "last", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(desk.run(&["check"]).code, 0);
}

#[test]
fn a_sound_session_is_left_alone() {
    let desk = Desk::new();
    session(&desk);
    let before = desk.bytes(&id(1));
    let ran = desk.run(&["repair", "last", "--yes"]);
    assert!(ran.code == 0 && ran.out.contains("needs no repair"), "{ran:?}");
    assert_eq!(desk.bytes(&id(1)), before);
}

#[test]
fn a_broken_first_line_is_beyond_repair_and_can_be_exported() {
    let desk = Desk::new();
    session(&desk);
    let me = id(1).to_string();
    desk.tamper(&id(1), |bytes| {
        let mut lines = lines(&bytes);
        lines[0] = b"{}\n".to_vec();
        lines.concat()
    });
    let ran = desk.run(&["repair", &me, "--yes"]);
    assert!(ran.code == 5 && ran.err.contains("first line"), "{ran:?}");
    let exported = desk.run(&["export", &me]);
    assert!(exported.code == 0 && exported.out.contains("three"), "{exported:?}");
}
