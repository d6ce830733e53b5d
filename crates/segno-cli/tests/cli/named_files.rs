//! Files that are named on the command line: which of them are taken, and what is said of those that are not.

use super::machine::{CLAUDE, CLINE, CODEX, Machine, Said, corpus, field};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const ID: &str = "c0de0029-1111-4111-8111-000000000029";
const TORN: &str = "01-torn-middle-lines";

fn session() -> Vec<u8> {
    fs::read(corpus(&format!("cases/41-secrets-and-modes/session/{ID}.jsonl"))).unwrap()
}

/// A first line that is longer than what is looked at first, or what an interrupted write left, in the folder of the
/// file's agent: each command takes the file as it takes the id.
#[test]
fn a_file_with_a_long_or_broken_beginning_is_taken_as_its_id_is() {
    let id = "01a2290d-7a18-7f11-a711-baa7ed59e765";
    let rollout = fs::read(corpus("foreign/codex/multi-turn-tools.jsonl")).unwrap();
    let long = String::from_utf8(session()).unwrap();
    let long = long.replacen("\"content\":\"", &format!("\"content\":\"{}", "a".repeat(70_000)), 1);
    let zeros = vec![0; 70_000];
    let cases = [
        (format!("{CLAUDE}/{ID}.jsonl"), format!("claude:{ID}"), long.into_bytes()),
        (
            format!("{CODEX}/rollout-2026-11-29T20-44-38-{id}.jsonl"),
            format!("codex:{id}"),
            [&zeros[..], &rollout].concat(),
        ),
        (
            format!("{CODEX}/rollout-2026-11-29T20-44-38-{id}.jsonl"),
            format!("codex:{id}"),
            [&vec![b'x'; 70_000][..], b"\n", &rollout].concat(),
        ),
    ];
    for (place, word, bytes) in cases {
        let machine = Machine::new();
        let path = machine.put(&place, "");
        fs::write(&path, bytes).unwrap();
        let path = path.to_str().unwrap();
        for words in [&["check"][..], &["repair"], &["show"], &["export"]] {
            let [by_file, by_id] =
                [path, &word].map(|named| machine.run(&[words, &[named]].concat()));
            assert_ne!(by_file.code, 6, "{words:?} {place}: {by_file:?}");
            assert_eq!(by_file.code, by_id.code, "{words:?} {place}: {by_file:?} {by_id:?}");
        }
    }
}

/// A file in the working directory needs no `./`; an id wins, and that is said.
#[test]
fn a_bare_name_is_a_file_where_nothing_else_has_it() {
    let machine = Machine::new();
    let put = |name: &str| fs::write(machine.place.file(name), session()).unwrap();
    for name in ["o", "o.jsonl", "o.txt"] {
        put(name);
        let said = machine.run(&["check", name]);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{name}: {said:?}");
        assert!(said.out.contains(&format!("/{name}")), "{said:?}");
    }
    machine.put(&format!("{CLAUDE}/{ID}.jsonl"), "");
    fs::write(machine.user.join(format!("{CLAUDE}/{ID}.jsonl")), session()).unwrap();
    put("c0de");
    let said = machine.run(&["check", "c0de"]);
    assert!(said.out.contains(CLAUDE), "the id wins: {said:?}");
    assert!(
        said.err.contains("is taken for claude:c0de") && said.err.contains("./c0de"),
        "{said:?}"
    );
    assert!(machine.run(&["check", "./c0de"]).out.contains("/./c0de"));
    // What several sessions begin with is no file either.
    let other = ID.replace("29-1111", "30-1111");
    fs::write(machine.user.join(format!("{CLAUDE}/{other}.jsonl")), session()).unwrap();
    let said = machine.run(&["check", "c0de"]);
    assert!(said.code == 6 && said.err.contains("fits 2 sessions"), "{said:?}");
}

/// What stands under a name is told, and that nothing does.
#[test]
fn what_is_no_sessions_file_is_told_for_what_it_is() {
    let machine = Machine::new();
    let dir = machine.place.file("");
    fs::write(dir.join("empty"), "").unwrap();
    fs::write(dir.join("words.txt"), "only words\n").unwrap();
    symlink("nowhere", dir.join("dangling")).unwrap();
    symlink("round", dir.join("round")).unwrap();
    assert!(Command::new("mkfifo").arg(dir.join("pipe")).status().unwrap().success());
    let cases = [
        ("./nothere.jsonl", "There is no file `./nothere.jsonl`."),
        ("nothere.jsonl", "There is no file `nothere.jsonl`."),
        ("/no/such/place", "There is no file `/no/such/place`."),
        ("nothere", "There is no session `nothere`."),
        ("empty", "it is empty"),
        ("./empty", "it is empty"),
        ("dangling", "which is not there"),
        ("round", "which is not there"),
        ("./dangling", "which is not there"),
        ("pipe", "it is no regular file"),
        ("./pipe", "it is no regular file"),
        ("words.txt", "no session of a known agent"),
    ];
    for (name, told) in cases {
        for command in ["check", "repair", "show", "export"] {
            let said = machine.run(&[command, name]);
            assert_eq!(said.code, 6, "{command} {name}: {said:?}");
            assert!(said.err.contains(told), "{command} {name}: {said:?}");
        }
    }
}

/// A link beside a session hides nothing: the file is listed, and the link is told of.
#[test]
fn a_link_to_a_session_does_not_take_its_place() {
    let machine = Machine::new();
    let path = machine.put(&format!("{CLAUDE}/{ID}.jsonl"), "");
    fs::write(&path, session()).unwrap();
    let folder = path.parent().unwrap();
    // One comes before the file in any order of names, and one behind it.
    for link in ["00000000-1111-4111-8111-000000000029", "ffffffff-1111-4111-8111-000000000029"] {
        symlink(&path, folder.join(format!("{link}.jsonl"))).unwrap();
    }
    // The same project under another name tells no other id.
    symlink(folder, folder.with_file_name("-other")).unwrap();
    for _ in 0..2 {
        let listed = machine.run(&["list", "--all", "--json"]).json();
        let sessions = listed["sessions"].as_array().unwrap();
        assert_eq!(field(sessions, "path"), [path.to_str().unwrap()]);
        let links = listed["links"].as_array().unwrap();
        assert_eq!(links.len(), 2, "{links:?}");
    }
    let shown = machine.out(&["list", "--all"]);
    assert!(shown.contains("ffffffff-1111-4111-8111-000000000029.jsonl is the same file as"));
    assert_eq!(machine.run(&["show", ID]).code, 0);
    let kept = machine.run(&["keep", "--all", "--json"]);
    assert_eq!(
        (kept.code, kept.json()["kept"][0]["path"].as_str()),
        (0, path.to_str()),
        "{kept:?}"
    );
}

/// A repair offers the ways that it would go.
#[test]
fn a_repair_offers_what_works() {
    let machine = Machine::new();
    machine.add(CLINE, "49-truncated-json-array");
    machine.add(
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks",
        "49-truncated-json-array",
    );
    machine.add(CLAUDE, TORN);
    let listed = machine.list(&["--all"]);
    assert_eq!(listed.len(), 3);
    for path in field(&listed, "path") {
        let said = machine.run(&["repair", &path]);
        assert_eq!(said.code, 5, "{said:?}");
        let offered = said.out.contains("--install");
        let done = machine.run(&["repair", &path, "--install", "--yes"]);
        assert_eq!(offered, done.code == 0, "{path}: {said:?} {done:?}");
        assert!(said.out.contains("--in-place") && said.out.contains("-o "), "{said:?}");
    }
}

fn in_shell(machine: &Machine, words: &str, redirected: &str) -> Said {
    let segno = machine.place.segno::<&str>(&[]);
    let program = segno.get_program().to_str().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{program} {words} {redirected}")]).env_clear();
    shell.current_dir(machine.place.file(""));
    shell.envs(segno.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = shell.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: ran.status.code().unwrap(), out: text(ran.stdout), err: text(ran.stderr) }
}

/// Covers: G16. What cannot be written is told, whatever the exit code says beside that, and an export that goes nowhere is none.
#[test]
fn output_that_cannot_be_written_is_told() {
    let machine = Machine::new();
    machine.add(CLAUDE, TORN);
    let word = machine.list(&["--all"])[0]["id"].as_str().unwrap().to_owned();
    if Path::new("/dev/full").exists() {
        for (words, code) in [
            ("list --all".to_owned(), 1),
            (format!("show {word}"), 1),
            (format!("check {word}"), 1),
            (format!("export {word}"), 1),
            (format!("repair {word}"), 5),
            ("sources".to_owned(), 1),
            ("stats".to_owned(), 1),
        ] {
            let said = in_shell(&machine, &words, ">/dev/full");
            assert_eq!(said.code, code, "{words}: {said:?}");
            assert!(
                said.err.contains("not all of it, and nothing was changed"),
                "{words}: {said:?}"
            );
        }
    }
    for format in ["markdown", "json", "codex"] {
        let words = format!("export {word} --format {format}");
        // Many programs start others with the null device for reading and writing.
        for nowhere in [">/dev/null", "<>/dev/null 1>&0"] {
            assert_eq!(in_shell(&machine, &words, nowhere).code, 0, "{words} {nowhere}");
        }
        let to_file = in_shell(&machine, &format!("{words} -o {format}.out"), ">&-");
        assert_eq!(to_file.code, 0, "{to_file:?}");
    }
}

/// Where the answer is JSON, so is an error.
#[test]
fn errors_of_an_export_as_json_are_json() {
    let machine = Machine::new();
    for words in
        [&["export", "nope", "--format", "codex", "--json"][..], &["export", "nope", "--json"]]
    {
        let said = machine.run(words);
        let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
        assert_eq!(error["error"]["exit"].as_i64(), Some(i64::from(said.code)), "{said:?}");
    }
}

/// One that cannot be read is named wherever it is left out, and nobody says what was said in it.
#[test]
fn an_unreadable_session_is_told_in_sums_and_shown_as_that() {
    let machine = Machine::new();
    machine.put(&format!("{CLAUDE}/{ID}.jsonl"), "nothing of Claude Code's\n");
    assert_eq!(field(&machine.list(&["--all"]), "state"), ["unreadable"]);
    let said = machine.out(&["stats"]);
    assert!(said.contains(&format!("note: not in it: claude:{ID}")), "{said}");
    let told = machine.run(&["stats", "--json"]).json();
    assert_eq!(told["trouble"].as_array().unwrap().len(), 1, "{told}");
    let shown = machine.run(&["show", ID]);
    assert!(shown.code == 2 && !shown.out.contains("nothing was said"), "{shown:?}");
}

/// Two files with one id are two rows, which say where each is.
#[test]
fn files_with_one_id_are_told_apart_in_a_list() {
    let machine = Machine::with(CLAUDE, &["41-secrets-and-modes/session"]);
    let one = machine.out(&["list", "--all"]);
    assert!(!one.contains('['), "{one}");
    machine.put(
        &format!(".claude/projects/-srv-work-other/{ID}.jsonl"),
        std::str::from_utf8(&session()).unwrap(),
    );
    let both = machine.out(&["list", "--all"]);
    for place in ["[-srv-work-kiln/…] ", "[-srv-work-other/…] "] {
        assert_eq!(both.matches(place).count(), 1, "{both}");
    }
}
