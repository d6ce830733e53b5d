//! `segno rewind`: the real binary goes back over what a real run did.

use super::place::{Place, Ran};

const EDITS: &str = r#"
rule work
  when last user
  when prompt is "work"
  say "On it."
  call write {"path": "new.txt", "content": "new"}
  call edit {"path": "old.txt", "old_text": "old", "new_text": "changed"}
  call bash {"command": "touch made"}
otherwise
  say "Done."
"#;

fn rewind(place: &Place, args: &[&str]) -> Ran {
    let mut all = vec!["rewind", "last"];
    all.extend(args);
    place.segno(&all).output().unwrap().into()
}

/// Covers: G7, G9.
#[test]
fn a_person_goes_back_with_the_files_and_is_told_what_is_not_undone() {
    let place = Place::new(EDITS);
    std::fs::write(place.file("old.txt"), "old\n").unwrap();
    assert_eq!(place.done(&["hello"]).code, Some(0));
    assert_eq!(place.done(&["--continue", "--permission", "all", "work"]).code, Some(0));
    assert_eq!((place.read("new.txt"), place.read("old.txt")), ("new".into(), "changed\n".into()));
    let shown: Ran = place.segno(&["show", "last", "--json"]).output().unwrap().into();
    let shown: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    let prompt = shown["records"].as_array().unwrap().iter().find_map(|record| {
        record.to_string().contains(r#""text":"work""#).then(|| record["seq"].to_string())
    });
    let prompt = prompt.unwrap();

    let ran = rewind(&place, &[&prompt, "--dry-run"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for said in ["Nothing was changed", "old.txt would be brought back", "new.txt would be removed"]
    {
        assert!(ran.out.contains(said), "{said}: {ran:?}");
    }
    assert!(ran.out.contains("Not undone:\n") && ran.out.contains("touch made"), "{ran:?}");
    assert_eq!(place.read("new.txt"), "new");

    std::fs::write(place.file("new.txt"), "mine").unwrap();
    let ran = rewind(&place, &[&prompt, "--files"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("old.txt brought back"), "{ran:?}");
    assert!(ran.out.contains("new.txt left as it is (it was changed by someone else"), "{ran:?}");
    assert_eq!((place.read("new.txt"), place.read("old.txt")), ("mine".into(), "old\n".into()));

    std::fs::write(place.file("new.txt"), "new").unwrap();
    let ran = rewind(&place, &[&prompt, "--files", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(json["tip"].as_u64() < prompt.parse().ok(), "before the prompt: {json}");
    assert!(!place.file("new.txt").exists());
    let ran = place.done(&["--continue", "and now?"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Done.\n"), "{ran:?}");
    let ran = rewind(&place, &["9999"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}
