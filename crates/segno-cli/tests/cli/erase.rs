//! `segno erase`: a secret that a real run met is gone from everything below the home.

use super::place::{Place, Ran};
use serde_json::Value;
use std::path::{Path, PathBuf};

const SECRET: &str = "sk-live-4711-0815-0123456789";

const SCRIPT: &str = r#"
rule work
  when last user
  when prompt contains "work"
  say "Looking."
  call bash {"command": "cat key.txt"}
  call write {"path": "key.txt", "content": "changed"}
otherwise
  say "Done."
"#;

fn segno(place: &Place, args: &[&str]) -> Ran {
    place.segno(args).output().unwrap().into()
}

fn holders(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            holders(&path, found);
        } else if std::fs::read(&path)
            .unwrap()
            .windows(SECRET.len())
            .any(|w| w == SECRET.as_bytes())
        {
            found.push(path);
        }
    }
}

fn all_holders(place: &Place) -> Vec<PathBuf> {
    let mut found = Vec::new();
    holders(&place.home(), &mut found);
    found
}

/// The numbers of the shown records that hold the secret.
fn guilty(place: &Place) -> Vec<String> {
    let shown = segno(place, &["show", "last", "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    let records = shown["records"].as_array().unwrap().iter();
    records.filter(|r| r.to_string().contains(SECRET)).map(|r| r["seq"].to_string()).collect()
}

/// Covers: G12, G17. Prompt, output, before-image, the list of sessions and the prompts typed before.
#[test]
fn a_secret_is_gone_from_everything_and_the_session_goes_on() {
    let place = Place::new(SCRIPT);
    std::fs::write(place.file("key.txt"), format!("{SECRET}\n")).unwrap();
    let ran = place.done(&["--permission", "all", &format!("work with {SECRET}")]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(segno(&place, &["list"]).out.contains(SECRET), "the list has it as a title");
    std::fs::write(place.home().join("history"), format!("hello\nwork with {SECRET}\nbye\n"))
        .unwrap();
    let before = all_holders(&place);
    assert!(before.len() >= 4, "{before:?}");
    let prompt = guilty(&place)[0].clone();

    let ran = segno(&place, &["erase", "last", &prompt]);
    assert_eq!(ran.code, Some(2), "nobody said yes: {ran:?}");
    assert!(ran.out.contains("Words of it stand in other records, too"), "{ran:?}");
    assert_eq!(all_holders(&place), before, "nothing was changed");

    // The turn as well: its calls' before-images go along.
    let shown = segno(&place, &["show", "last", "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    let turn = shown["records"].as_array().unwrap().iter().find(|r| r["role"] == "assistant");
    let turn = turn.unwrap()["seq"].to_string();
    let seqs = guilty(&place);
    let mut args = vec!["erase", "last", &turn, "--yes"];
    args.extend(seqs.iter().map(String::as_str));
    let ran = segno(&place, &args);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.out.contains("Out of reach"), "{ran:?}");
    assert_eq!(all_holders(&place), Vec::<PathBuf>::new(), "{ran:?}");
    assert_eq!(std::fs::read_to_string(place.home().join("history")).unwrap(), "hello\nbye\n");

    let shown = segno(&place, &["show", "last"]);
    assert!(shown.out.contains("(what stood here was erased for good)"), "{shown:?}");
    assert!(segno(&place, &["list"]).out.contains("(erased)"));
    assert_eq!(segno(&place, &["check", "last"]).code, Some(0));
    let ran = place.done(&["--continue", "and now?"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Done.\n"), "{ran:?}");
    assert_eq!(all_holders(&place), Vec::<PathBuf>::new());
    let ran = segno(&place, &["erase", "last", &prompt, "--yes"]);
    assert!(ran.out.contains("erased already"), "{ran:?}");
}

#[test]
fn forks_and_what_is_in_the_trash_are_named() {
    let place = Place::new(SCRIPT);
    assert_eq!(place.done(&[&format!("hello {SECRET}")]).code, Some(0));
    let prompt = guilty(&place)[0].clone();
    let fork = segno(&place, &["fork", "last", "--json"]);
    let fork: Value = serde_json::from_str(&fork.out).unwrap();
    let of = place.sessions().into_iter().find(|id| fork["id"] != id.as_str()).unwrap().to_string();
    let ran = segno(&place, &["erase", &of, &prompt, "--json", "--yes"]);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(json["copies"], serde_json::json!([{"id": fork["id"], "trashed": false}]));
    assert!(!all_holders(&place).is_empty(), "the fork is somebody's own");
    assert_eq!(
        segno(&place, &["erase", fork["id"].as_str().unwrap(), &prompt, "--yes"]).code,
        Some(0)
    );
    assert_eq!(all_holders(&place), Vec::<PathBuf>::new());
}
