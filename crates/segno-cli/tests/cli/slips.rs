//! Bad input: every error says what to do next, and nothing is paid for it.

use crate::place::{Place, Ran};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

const SLIPS: &[&[&str]] = &[
    &["--frob"],
    &["lst"],
    &["list", "--frob"],
    &["list", "extra"],
    &["show", "nothing"],
    &["show", "last", "--raw", "x"],
    &["show", "last", "--raw", "99"],
    &["check", "nothing"],
    &["repair"],
    &["repair", "nothing"],
    &["repair", "last", "--accept", "x"],
    &["fork", "nothing"],
    &["name"],
    &["name", "nothing", "x"],
    &["name", "last", "a", "b"],
    &["export", "nothing"],
    &["export", "--format", "pdf"],
    &["export", "last", "-o", "/nowhere/at/all"],
    &["export", "last", "-o", "."],
    &["export", "last", "-o"],
    &["delete"],
    &["delete", "nothing", "--yes"],
    &["trash", "frob"],
    &["trash", "restore"],
    &["trash", "restore", "nothing"],
    &["relocate"],
    &["relocate", "nothing"],
    &["relocate", "last", "/nowhere/at/all"],
    &["models", "x"],
    &["demo", "--port", "3"],
    &["demo", "--serve", "--port", "x"],
    &["completions", "tcsh"],
    &["completions"],
    &["run"],
    &["run", "hi", "--model", "x"],
    &["run", "hi", "--model", "acme/x"],
    &["run", "hi", "--model", "openai-chat/x", "--base-url", "nonsense"],
    &["run", "hi", "--base-url", "nonsense"],
    &["run", "hi", "--base-url", "ftp://x"],
    &["run", "hi", "--thinking", "lots"],
    &["run", "hi", "--permission", "yolo"],
    &["run", "hi", "--session", "nothing"],
    &["run", "see @missing.txt"],
    &["run", "--continue", "--session", "x", "hi"],
    &["resume", "nothing"],
    &["resume"],
    &["resume", "last"],
    &["resume", "last", "--", "see @missing.txt"],
    &["fix", "it"],
    &["--home", "/dev/null", "list"],
    &["--home", "/dev/null", "run", "hi"],
    &["--home"],
];

#[test]
fn every_error_says_what_to_do_next() {
    let place = Place::new("otherwise\n  say \"hello\"\n");
    assert_eq!(place.done(&["hi"]).code, Some(0));
    let before = place.server.requests().len();
    for args in SLIPS {
        let ran: Ran = place.segno(args).output().unwrap().into();
        assert!(ran.code.is_some_and(|code| code > 0), "{args:?}: {ran:?}");
        assert!(ran.err.starts_with("error: "), "{args:?}: {}", ran.err);
        let last = ran.err.trim_end().lines().rfind(|line| !line.starts_with("         "));
        assert!(last.unwrap().starts_with("  next:  "), "{args:?}: {}", ran.err);
        assert_eq!(ran.out, "", "{args:?}");
    }
    assert_eq!(place.server.requests().len(), before);
    assert_eq!(place.sessions().len(), 1);
}

/// Clap's tips, values and usage are kept.
#[test]
fn what_clap_knows_is_told() {
    let place = Place::new("otherwise\n  say \"hello\"\n");
    for (args, parts) in [
        (
            &["run", "x", "--thinking", "lots"][..],
            &["Invalid value 'lots'", "minimal", "segno run --help"][..],
        ),
        (&["list", "--al"], &["'--al'", "'--all'", "Usage: segno list", "segno list --help"]),
        (&["trash", "restore"], &["<SESSION>", "segno trash restore --help"]),
        (&["--frob"], &["'--frob'", "segno --help"]),
    ] {
        let ran: Ran = place.segno(args).output().unwrap().into();
        assert_eq!(ran.code, Some(2), "{args:?}");
        for part in parts {
            assert!(ran.err.contains(part), "{args:?} {part}: {}", ran.err);
        }
    }
    let ran: Ran = place.segno(&["list", "--json", "--frob"]).output().unwrap().into();
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!(error["error"]["exit"], 2, "{ran:?}");
}

/// Text of more than a record holds is read from a pipe, kept in a blob, and sent whole.
#[test]
fn a_prompt_of_two_megabytes_is_taken() {
    let place = Place::new("otherwise\n  say \"read\"\n");
    let text: String = (0..40_000)
        .map(|i| format!("line {i} of a long piece of text, see @missing.txt\n"))
        .collect();
    let mut child = place.run(&["explain"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "read\n"), "{ran:?}");
    let body = place.server.requests()[0].body.to_string();
    assert!(text.len() > 2_000_000 && body.contains("line 39999 of"), "{}", body.len());
    assert_eq!(place.done(&["--continue", "again"]).code, Some(0));
    assert!(place.server.violations().is_empty());
}

/// What a person named is there, and what was piped in is text.
#[test]
fn files_are_named_by_words_and_not_by_what_is_piped_in() {
    let script = "rule inside\n  when user contains \"inside the file\"\n  say \"seen\"\notherwise\n  say \"not seen\"\n";
    let place = Place::new(script);
    std::fs::write(place.file("a b.txt"), "inside the file").unwrap();
    assert_eq!(place.done(&["look at @a\\ b.txt"]).out, "seen\n");
    let mut child = place.run(&["look"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"@\"a b.txt\"").unwrap();
    let ran: Ran = child.wait_with_output().unwrap().into();
    assert_eq!(ran.out, "not seen\n");
}

/// Covers: G17.
#[test]
fn commands_of_the_model_do_not_see_the_keys() {
    let script = "rule go\n  when last user\n  call bash {\"command\": \"env; echo \\\"key=$ANTHROPIC_API_KEY$OPENAI_API_KEY$GEMINI_API_KEY$GOOGLE_API_KEY\\\"\"}\notherwise\n  say \"done\"\n";
    let place = Place::new(script);
    let mut run = place.run(&["--permission", "all", "x y"]);
    let ran: Ran = run.env("GOOGLE_API_KEY", "test-key-1").output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told = place.server.requests()[1].body.to_string();
    assert!(told.contains("key=\\n") && told.contains("PATH="), "{told}");
    assert!(!told.contains("test-key-1") && !ran.err.contains("test-key-1"), "{told}");
}

#[test]
fn a_command_without_output_says_so() {
    let script = "rule go\n  when last user\n  call bash {\"command\": \"true\"}\notherwise\n  say \"done\"\n";
    let ran = Place::new(script).done(&["--permission", "all", "x y"]);
    assert!(ran.err.contains("└ no output") && !ran.err.contains("lines"), "{}", ran.err);
}

#[test]
fn models_names_the_configuration_file() {
    let place = Place::new("otherwise\n  say \"hello\"\n");
    let mut models = place.segno(&["models"]);
    for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
        models.env_remove(key);
    }
    let ran: Ran = models.output().unwrap().into();
    let config = place.home().join("config.toml");
    assert!(ran.out.contains(&format!("Configuration: {}", config.display())), "{ran:?}");
}

/// Covers: G4. A session without a single record goes on wherever one is.
#[test]
fn an_empty_log_goes_on() {
    let place = Place::new("otherwise\n  say \"hello\"\n");
    let id = "01939a4c-7b1e-7000-8000-000000000001";
    let dir = place.home().join("sessions/2024-12").join(id);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("log.jsonl"), "").unwrap();
    let ran = place.done(&["--session", id, "hi there"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "hello\n"), "{ran:?}");
    let resumed: Ran = place.segno(&["resume", id, "--", "and again"]).output().unwrap().into();
    assert_eq!((resumed.code, resumed.out.as_str()), (Some(0), "hello\n"), "{resumed:?}");
}

/// Covers: G15. A log that was replaced under a run fails it, and what is kept can be resumed.
#[test]
fn a_run_whose_log_fails_says_how_to_go_on() {
    let script = "rule go\n  when last user\n  call bash {\"command\": \"cd $SEGNO_HOME/sessions/*/* && cp log.jsonl x && mv x log.jsonl\"}\notherwise\n  say \"done\"\n";
    let place = Place::new(script);
    let ran = place.done(&["--permission", "all", "x y"]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let resume = format!("To go on: segno resume {}", place.sessions()[0]);
    assert!(ran.err.contains(&resume), "{}", ran.err);
}

/// A server that gives one answer, always.
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 64 << 10]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
fn something_that_is_no_model_is_told_with_a_hint() {
    let page = "<!DOCTYPE html><html><body>a login page</body></html>";
    assert_eq!(page.len(), 53);
    for (answer, said) in [
        (
            "HTTP/1.1 302 Found\r\nlocation: https://login.example/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "redirects to https://login.example/ (HTTP 302)",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 53\r\nconnection: close\r\n\r\n<!DOCTYPE html><html><body>a login page</body></html>",
            "a web page came instead of a model's reply (HTTP 200)",
        ),
        (
            "HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 53\r\nconnection: close\r\n\r\n<!DOCTYPE html><html><body>a login page</body></html>",
            "a web page came instead of a model's reply (HTTP 404)",
        ),
    ] {
        for model in crate::place::PROVIDERS {
            let place = Place::new("otherwise\n  say \"unused\"\n");
            let url = answering(answer);
            let args = ["run", "--model", model, "--base-url", &url, "x y"];
            let ran: Ran = place.segno(&args).output().unwrap().into();
            assert!(ran.err.contains(said), "{model}: {}", ran.err);
            assert!(ran.err.contains("is the base URL right?"), "{model}: {}", ran.err);
            assert!(!ran.err.contains("login page") && !ran.err.contains("<html"), "{}", ran.err);
        }
    }
}

/// Two sessions that begin with the same words are two to the server. Covers: G10.
#[test]
fn sessions_with_the_same_first_words_are_told_apart() {
    for model in ["anthropic/demo", "openai/demo"] {
        let place = Place::with_model(model, "strict prefix\notherwise\n  say \"one\"\n");
        let ids = [place.done(&["same words"]), place.done(&["same words"])];
        assert!(ids.iter().all(|ran| ran.code == Some(0)), "{model}: {ids:?}");
        let keys: Vec<String> = place
            .server
            .requests()
            .iter()
            .filter_map(|r| r.seen.as_ref().map(|seen| seen.session.clone()))
            .collect();
        assert_ne!(keys[0], keys[1], "{model}");
        if model.starts_with("anthropic") {
            assert!(place.sessions().iter().all(|id| !keys.contains(&id.to_string())));
        }
    }
}
