//! Permissions: which calls run, ask, or are refused, and why.
//!
//! Responsible for: the decision table, the judge of shell commands, and what answers cover. Must not:
//! run the commands that it judges.
#![allow(clippy::unwrap_used)]

mod support;

use proptest::prelude::*;
use segno_agent::permission::command::judge;
use segno_agent::permission::{
    DECISIONS, Decision, Mode, Place as Where, PrefixRule, Subject, decide,
};
use segno_agent::tool::Reply;
use segno_model::record::Outcome;
use segno_runtime::{Tools, Verdict};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use support::{Place, Scripted, text};

const SUBJECTS: [Subject; 9] = [
    Subject::Read,
    Subject::Outside,
    Subject::Secret,
    Subject::Write(Where::Inside),
    Subject::Write(Where::Outside),
    Subject::Write(Where::Guarded),
    Subject::Write(Where::Own),
    Subject::Run,
    Subject::Doubt,
];

/// Every mode, subject and memory meets exactly one row, and no row is idle.
#[test]
fn the_decision_table_is_complete_and_unambiguous() {
    let mut used = vec![false; DECISIONS.len()];
    for mode in Mode::ALL {
        for subject in SUBJECTS {
            for covered in [false, true] {
                let rows: Vec<usize> = (0..DECISIONS.len())
                    .filter(|row| (DECISIONS[*row].1)(mode, subject, covered))
                    .collect();
                assert_eq!(rows.len(), 1, "{mode:?} {subject:?} {covered}: {rows:?}");
                used[rows[0]] = true;
            }
        }
    }
    assert!(used.iter().all(|u| *u), "{used:?}");
}

/// The table in words: per subject, what the modes say without and with a covering answer.
#[test]
fn decisions_are_what_the_modes_promise() {
    use Decision::{Allow as A, Ask as Q, Refuse as R};
    let wanted = [
        (Subject::Read, [A, A, A, A], [A, A, A, A]),
        (Subject::Outside, [Q, Q, Q, A], [A, A, A, A]),
        (Subject::Secret, [R, Q, Q, A], [R, A, A, A]),
        (Subject::Write(Where::Inside), [R, Q, A, A], [R, A, A, A]),
        (Subject::Write(Where::Outside), [R, Q, Q, A], [R, A, A, A]),
        (Subject::Write(Where::Guarded), [R, Q, Q, A], [R, Q, Q, A]),
        (Subject::Write(Where::Own), [R, Q, Q, Q], [R, Q, Q, Q]),
        (Subject::Run, [R, Q, Q, A], [R, A, A, A]),
        (Subject::Doubt, [R, Q, Q, A], [R, A, A, A]),
    ];
    for (subject, without, with) in wanted {
        let all = |covered| Mode::ALL.map(|mode| decide(mode, subject, covered));
        assert_eq!((all(false), all(true)), (without, with), "{subject:?}");
    }
}

#[test]
fn modes_are_read_back_from_their_names() {
    for mode in Mode::ALL {
        assert_eq!(Mode::parse(mode.name()), Some(mode));
    }
    assert_eq!(Mode::parse("yolo"), None);
}

/// Signs that stand for characters which a text file should not hold.
fn decode(line: &str) -> String {
    let signs =
        [('⏎', "\n"), ('␍', "\r"), ('␇', "\u{7}"), ('⍽', "\u{a0}"), ('␣', "\u{200b}"), ('⇥', "\t")];
    signs.iter().fold(line.to_owned(), |text, (sign, real)| text.replace(*sign, real))
}

/// The corpus: a command, and the judgement as text.
#[test]
fn commands_are_judged_by_their_parts() {
    let corpus = include_str!("corpus/commands.txt");
    let mut cases = 0;
    let mut wrong = Vec::new();
    for case in corpus.split("\n\n").filter_map(|case| case.trim().strip_prefix("$ ")) {
        let (command, wanted) = case.split_once("\n= ").unwrap();
        let found = judge(&decode(command)).to_string();
        if found != wanted {
            wrong.push(format!("$ {command}\n  wanted {wanted}\n  found  {found}"));
        }
        cases += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases > 300, "only {cases} cases were read");
}

#[test]
fn long_and_deep_commands_are_a_doubt_and_no_crash() {
    let nested =
        |open: &str, close: &str, n: usize| format!("{}ls{}", open.repeat(n), close.repeat(n));
    let commands = [
        nested("(", ")", 3000),
        nested("$(", ")", 3000),
        nested("{ ", "; }", 2000),
        "ls;".repeat(30_000),
        "if true; then ".repeat(500) + "ls" + &"; fi".repeat(500),
        nested("echo \"$(", ")\"", 500),
        "(".repeat(50_000),
        "<<A ".repeat(5000),
    ];
    for command in commands {
        let judgement = judge(&command);
        assert!(!judgement.doubts.is_empty(), "{}…", &command[..20.min(command.len())]);
    }
    assert!(judge(&"ls; ".repeat(5000)).doubts.is_empty());
}

proptest! {
    /// Any text gets a judgement.
    #[test]
    fn any_text_is_judged(command in "[ -~\n\t'\"$`\\\\(){}<>|&;*é日]{0,60}") {
        let _ = judge(&command).to_string();
    }

    /// Whatever is put around or behind a command that needs a permission, it never becomes harmless.
    #[test]
    fn nothing_hides_a_command(
        before in "(ls|cat a|cd src|true|echo x|git status|X=1|)",
        joint in "(;|&&|\\|\\||\\||&|\n| \\$\\(| <\\()",
        wrap in "(rm -rf x|sudo ls|\\(rm x\\)|\\{ rm x; \\}|env rm x|timeout 5 rm x|bash -c 'rm x'|xargs rm|find [.] -delete)",
        after in "( > /dev/null| \\| cat|; ls| && true| # c|)",
    ) {
        let close = if joint.ends_with('(') { ")" } else { "" };
        let command = format!("{before} {joint} {wrap}{close}{after}");
        let judgement = judge(&command);
        prop_assert!(!judgement.runs.is_empty() || !judgement.doubts.is_empty(), "{command:?}: {judgement}");
    }
}

#[test]
fn a_rule_covers_whole_words_only() {
    let rows = [
        ("git push", "git push", true),
        ("git push", "git push origin main", true),
        ("git push", "git pushy", false),
        ("git push", "git", false),
        ("git push", "git -c x push", false),
        ("git", "github", false),
        ("  cargo   test ", "cargo test --all", true),
    ];
    for (rule, command, covered) in rows {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let rule = PrefixRule::parse(rule).unwrap();
        assert_eq!(rule.covers(&words), covered, "{rule}: {command}");
        assert_eq!(PrefixRule::parse(&rule.to_string()), Some(rule));
    }
    assert_eq!(PrefixRule::parse("  "), None);
}

/// What the user's rules let through without asking, in mode `ask`.
#[tokio::test]
async fn saved_rules_apply_to_plain_commands_only() {
    let rows = [
        ("cargo test", true),
        ("cargo test --workspace 2>&1 | tail -5", true),
        ("cargo test && cargo test", true),
        ("bash -c 'cargo test'", true),
        ("cargo test && cargo build", false),
        ("cargo testing", false),
        ("cargo test $(id)", false),
        ("cargo test $X", false),
        ("cargo test > out", false),
        ("PATH=. cargo test", false),
        ("cargo test; sudo ls", false),
        ("sudo cargo test", false),
        ("ls | xargs cargo test", false),
        ("cargo build", false),
    ];
    let asker = Scripted::new(Reply::Once);
    let place = Place::with(Mode::Ask, Some(asker), &["cargo test"]);
    for (command, runs) in rows {
        let call = place.tool_call("bash", &json!({"command": command}).to_string());
        let verdict = place.tools.judge(&call).await;
        assert_eq!(matches!(verdict, Verdict::Run(_)), runs, "{command}: {verdict:?}");
    }
}

/// Every kind of place that a write can go to, through links too.
#[tokio::test]
async fn writes_are_judged_by_where_they_really_go() {
    let place = Place::with(Mode::Edits, Some(Scripted::new(Reply::Once)), &[]);
    let up = |name: &str| place.root().parent().unwrap().join(name);
    fs::create_dir_all(place.path(".git/hooks")).unwrap();
    fs::create_dir_all(up("home/.ssh")).unwrap();
    for (link, target) in [
        ("to-home", "../home"),
        ("to-rc", "../home/.bashrc"),
        ("to-git", ".git/config"),
        ("to-own", "../segno/config.toml"),
        ("inner", "src"),
    ] {
        symlink(target, place.path(link)).unwrap();
    }
    let rows = [
        ("a.txt", ""),
        ("src/deep/a.txt", ""),
        ("inner", ""),
        ("./x/../a.txt", "No such file"),
        ("../a.txt", "outside of the project"),
        ("/tmp/segno-test-outside", "outside of the project"),
        ("to-home/x", "outside of the project"),
        ("to-rc", "programs trust"),
        ("~/.bashrc", "programs trust"),
        ("~/.ssh/authorized_keys", "programs trust"),
        ("~/.config/fish/config.fish", "programs trust"),
        (".git/config", "programs trust"),
        (".git/hooks/pre-commit", "programs trust"),
        ("sub/.GIT/config", "programs trust"),
        ("to-git", "programs trust"),
        ("../segno/config.toml", "Segno's own"),
        ("to-own", "Segno's own"),
    ];
    for (path, said) in rows {
        let call = place.tool_call("write", &json!({"path": path, "content": "x"}).to_string());
        match place.tools.judge(&call).await {
            Verdict::Run(_) => assert_eq!(said, "", "{path} did not ask"),
            Verdict::Ask { question, .. } => {
                assert!(!said.is_empty() && question.contains(said), "{path}: {question}");
            }
            Verdict::Refuse(output) | Verdict::NobodyToAsk { refused: output, .. } => {
                assert!(
                    !said.is_empty() && text(&output).contains(said),
                    "{path}: {}",
                    text(&output)
                );
            }
        }
    }
}

/// A redirect is an edit of its file.
#[tokio::test]
async fn redirects_count_as_edits() {
    let rows = [
        ("echo x > a.txt", true),
        ("echo x >> src/a.txt", true),
        ("echo x > /dev/null", true),
        ("echo x > ../a.txt", false),
        ("echo x > .git/config", false),
        ("echo x > ~/.profile", false),
        ("echo x > ../segno/config.toml", false),
        ("cd .. && echo x > a.txt", false),
        ("touch a.txt", false),
        ("cat ../segno/config.toml", false),
        ("cat link-to-own", false),
    ];
    let place = Place::with(Mode::Edits, Some(Scripted::new(Reply::Once)), &[]);
    symlink("../segno/config.toml", place.path("link-to-own")).unwrap();
    for (command, runs) in rows {
        let call = place.tool_call("bash", &json!({"command": command}).to_string());
        let verdict = place.tools.judge(&call).await;
        assert_eq!(matches!(verdict, Verdict::Run(_)), runs, "{command}: {verdict:?}");
    }
}

/// Without anybody to ask, what would ask is refused with the flag that allows it.
#[tokio::test]
async fn a_run_without_a_terminal_names_the_flag() {
    let edits =
        "`--permission edits` allows changes to the project's files, `--permission all` everything";
    let all = "`--permission all` allows it";
    let read_only = "read-only";
    let person = "need a person's answer";
    let write = |path: &str| ("write", json!({"path": path, "content": "x"}));
    let bash = |command: &str| ("bash", json!({"command": command}));
    let rows = [
        (Mode::Ask, write("a"), edits),
        (Mode::Ask, write("../a"), all),
        (Mode::Ask, bash("cargo test"), all),
        (Mode::Ask, bash("echo x > a"), edits),
        (Mode::Edits, bash("cargo test"), all),
        (Mode::Edits, write(".git/config"), all),
        (Mode::Edits, ("read", json!({"path": "~/.ssh/id_rsa"})), all),
        (Mode::All, write("../segno/config.toml"), person),
        (Mode::All, bash("echo x > ../segno/config.toml"), person),
        (Mode::ReadOnly, write("a"), read_only),
        (Mode::ReadOnly, bash("cargo test"), read_only),
        (Mode::ReadOnly, bash("cat ~/.ssh/id_rsa"), read_only),
    ];
    for (mode, (tool, arguments), said) in rows {
        let place = Place::with(
            mode,
            None,
            &["cargo test"].map(|r| if mode == Mode::ReadOnly { r } else { "x" }),
        );
        let output = place.call(tool, &arguments.to_string()).await;
        assert_eq!(output.outcome, Outcome::Denied, "{mode:?} {arguments}: {}", text(&output));
        assert!(text(&output).contains(said), "{mode:?} {arguments}: {}", text(&output));
        assert_eq!(place.names(), Vec::<String>::new());
    }
}

/// Reading needs no answer in any mode, by tool or by command.
#[tokio::test]
async fn reading_never_asks() {
    for mode in Mode::ALL {
        let place = Place::with(mode, None, &[]);
        place.file("a.txt", "hello\n");
        for (tool, arguments) in [
            ("read", json!({"path": "a.txt"})),
            ("ls", json!({})),
            ("find", json!({})),
            ("grep", json!({"pattern": "hello"})),
            ("todo", json!({"steps": []})),
            ("bash", json!({"command": "cat a.txt | wc -l"})),
        ] {
            let output = place.call(tool, &arguments.to_string()).await;
            assert!(!output.is_error, "{mode:?} {tool}: {}", text(&output));
        }
    }
}

/// What each answer covers: how often a person is asked over several calls.
#[tokio::test]
async fn an_answer_reaches_as_far_as_was_said() {
    let write = |path: &str| ("write", json!({"path": path, "content": "x"}));
    let bash = |command: &str| ("bash", json!({"command": command}));
    let no = Reply::No { reason: Some("use the other file".to_owned()) };
    let rows = [
        ("once", Reply::Once, vec![write("a"), write("b")], 2, ""),
        (
            "edits for the session",
            Reply::Session,
            vec![write("a"), write("b"), bash("echo x > c")],
            1,
            "",
        ),
        (
            "one path outside",
            Reply::Session,
            vec![write("../a"), write("../a"), write("../b")],
            2,
            "",
        ),
        ("guarded asks every time", Reply::Session, vec![write(".git/x"), write(".git/x")], 2, ""),
        (
            "exactly this command",
            Reply::Session,
            vec![bash("mkdir d; echo $X"), bash("mkdir d; echo $X"), bash("mkdir e; echo $X")],
            2,
            "",
        ),
        (
            "always by prefix",
            Reply::Always,
            vec![bash("mkdir a"), bash("mkdir b"), bash("mkdir -p c/d | cat")],
            1,
            "mkdir",
        ),
        (
            "always for each part",
            Reply::Always,
            vec![bash("mkdir a && touch b"), bash("touch c")],
            1,
            "mkdir,touch",
        ),
        ("always not offered", Reply::Always, vec![bash("rm -f a"), bash("rm -f a")], 2, ""),
        (
            "always not offered beside a doubt",
            Reply::Always,
            vec![bash("mkdir a; echo $X"), bash("mkdir b")],
            2,
            "mkdir",
        ),
        ("always not offered for writes", Reply::Always, vec![write("a"), write("a")], 2, ""),
        ("no", no, vec![write("a"), write("a")], 2, ""),
    ];
    for (name, reply, calls, asked, saved) in rows {
        let asker = Scripted::new(reply);
        let place = Place::with(Mode::Ask, Some(Arc::clone(&asker) as Arc<_>), &[]);
        fs::create_dir(place.path(".git")).unwrap();
        for (tool, arguments) in calls {
            place.call(tool, &arguments.to_string()).await;
        }
        assert_eq!(asker.asked(), asked, "{name}");
        assert_eq!(asker.saved.lock().unwrap().join(","), saved, "{name}");
    }
}

/// A no with a reason goes to the model and changes nothing; a mode that is changed counts at once.
#[tokio::test]
async fn a_no_holds_and_a_changed_mode_counts() {
    let asker = Scripted::new(Reply::No { reason: Some("not that one".to_owned()) });
    let place = Place::with(Mode::Ask, Some(asker), &[]);
    let output = place.call("write", r#"{"path":"a","content":"x"}"#).await;
    assert_eq!((output.outcome, text(&output).as_str()), (Outcome::Denied, "not that one"));
    assert!(!place.path("a").exists());
    place.tools.set_mode(Mode::Edits);
    assert!(!place.call("write", r#"{"path":"a","content":"x"}"#).await.is_error);
    place.tools.set_mode(Mode::ReadOnly);
    assert!(place.call("write", r#"{"path":"a","content":"y"}"#).await.is_error);
}

/// The question shows what would change, and stays short.
#[tokio::test]
async fn a_question_shows_the_change() {
    let asker = Scripted::new(Reply::Once);
    let place = Place::with(Mode::Ask, Some(Arc::clone(&asker) as Arc<_>), &[]);
    place.file("a", "one\ntwo\n");
    place.call("edit", r#"{"path":"a","old_text":"two","new_text":"2"}"#).await;
    place.call("write", &json!({"path": "b", "content": "line\n".repeat(9000)}).to_string()).await;
    place.bash("cargo test $X").await;
    let asked = asker.asked.lock().unwrap();
    assert!(
        asked[0].contains("Change a:\n--- a\n+++ a\n") && asked[0].contains("-two\n+2\n"),
        "{}",
        asked[0]
    );
    assert!(asked[1].contains("more lines of the diff are not shown"), "{}", asked[1]);
    assert!(
        asked[2].contains("Run: cargo test $X\n(`cargo` gets words that are not known"),
        "{}",
        asked[2]
    );
}

/// Places with credentials ask, and a search around them leaves them out. Covers: G17.
#[tokio::test]
async fn credentials_are_not_read_in_passing() {
    let asker = Scripted::new(Reply::No { reason: None });
    let place = Place::with(Mode::Edits, Some(Arc::clone(&asker) as Arc<_>), &[]);
    place.file(".ssh/id", "secret\n");
    place.file("plain", "secret\n");
    symlink(".ssh/id", place.path("innocent")).unwrap();
    for (tool, arguments) in [
        ("read", json!({"path": ".ssh/id"})),
        ("read", json!({"path": "innocent"})),
        ("read", json!({"path": "/proc/self/environ"})),
        ("read", json!({"path": "../segno/config.toml"})),
        ("grep", json!({"pattern": "s", "path": ".ssh"})),
        ("bash", json!({"command": "cat innocent"})),
    ] {
        let before = asker.asked();
        assert!(place.call(tool, &arguments.to_string()).await.is_error, "{tool} {arguments}");
        assert_eq!(asker.asked(), before + 1, "{tool} {arguments}");
    }
    let found = place.call("grep", r#"{"pattern":"secret","hidden":true}"#).await;
    assert_eq!(text(&found), "plain:1:secret\n(1 files where credentials may be were left out)\n");
}
