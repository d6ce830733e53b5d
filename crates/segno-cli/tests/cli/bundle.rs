//! `segno export --format segno` and `segno import` through the real binary.

use crate::json_page::{example, same_shape};
use crate::place::{Place, Ran, wait};
use crate::subagents::{children, place, script, with_scout};
use segno_model::store::SessionStore as _;
use segno_store::{FileStore, RealDisk};
use serde_json::json;

struct Other<'a> {
    place: &'a Place,
    home: std::path::PathBuf,
}

impl Other<'_> {
    fn segno(&self, args: &[&str]) -> Ran {
        self.place.segno(args).env("SEGNO_HOME", &self.home).output().unwrap().into()
    }

    fn store(&self) -> FileStore<RealDisk> {
        FileStore::new(RealDisk, &self.home)
    }
}

/// A session with its subagent goes to another home; there both are what they were, and the subagent is gone on
/// with. Covers: #145.
#[test]
fn a_session_moves_with_its_subagents() {
    let place = place("", "");
    place.done(&["--permission", "all", "give it"]);
    let (parent, child) = (place.sessions().remove(0), children(&place).remove(0).id);
    let segno = |args: &[&str]| -> Ran { place.segno(args).output().unwrap().into() };
    let no_file = segno(&["export", "last", "--format", "segno"]);
    assert_eq!(no_file.code, Some(2), "{no_file:?}");
    let ran = segno(&["export", "last", "--format", "segno", "-o", "tree.segno"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.err.contains("2 sessions") && ran.err.contains("nothing masked"), "{ran:?}");
    assert_eq!(segno(&["export", "last", "--format", "segno", "-o", "tree.segno"]).code, Some(1));

    let other = Other { place: &place, home: place.home().with_file_name("other") };
    let ran = other.segno(&["import", "tree.segno", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    same_shape("import", &example("import"), &json);
    assert_eq!(json["id"], parent.as_str());
    let there = FileStore::new(RealDisk, &other.home);
    for id in [&parent, &child] {
        let read = |store: &FileStore| std::fs::read(store.log_path(id).unwrap()).unwrap();
        assert_eq!(read(&there), read(&place.store()));
        assert_eq!(other.segno(&["check", id.as_str()]).code, Some(0));
    }
    assert!(other.segno(&["children", "last"]).out.contains(child.as_str()));
    let shown = other.segno(&["show", child.as_str()]).out;
    assert!(shown.contains(&format!("subagent scout of {parent}")), "{shown}");
    let again = other.segno(&["import", "tree.segno"]);
    assert!(again.out.contains("is here already"), "{again:?}");
    let url = place.server.url();
    let ran = other.segno(&["resume", child.as_str(), "--base-url", &url, "--", "go on"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Second words.\n"), "{ran:?}");
    assert_eq!(wait(place.store().read(&child)).unwrap().state.in_force.totals.user_messages, 1);
}

/// As [`place`], with a model that lets a conversation go on in two ways.
fn two_ways() -> Place {
    with_scout(Place::new(&script("", "").replace("strict prefix", "")))
}

fn with<'a>(words: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [words, more].concat()
}

/// A family that went on in two homes, and the one is brought to the other: its subagent gets an id that its log does
/// not name, and is found by the one that it names, in lists, in the transcript and by the model. Covers: #145.
#[test]
fn a_subagent_under_another_id_is_found_by_its_parents_log() {
    let place = two_ways();
    place.done(&["--permission", "all", "give it"]);
    let (parent, child) = (place.sessions().remove(0), children(&place).remove(0).id);
    let (url, other) =
        (place.server.url(), Other { place: &place, home: place.home().with_file_name("other") });
    let segno = |args: &[&str]| -> Ran { place.segno(args).output().unwrap().into() };
    segno(&["export", "last", "--format", "segno", "-o", "before.segno"]);
    assert_eq!(other.segno(&["import", "before.segno"]).code, Some(0));
    let again = format!("again {child}");
    let words = ["run", "--model", place.model, "--base-url", &url, "--permission", "all"];
    // Both go on, each in its way.
    assert_eq!(segno(&with(&words, &["--continue", &again])).code, Some(0));
    assert_eq!(other.segno(&with(&words, &["--continue", &again])).code, Some(0));
    segno(&["export", "last", "--format", "segno", "-o", "after.segno"]);
    let json: serde_json::Value =
        serde_json::from_str(&other.segno(&["import", "after.segno", "--json"]).out).unwrap();
    let id = |n: usize| json["sessions"][n]["id"].as_str().unwrap().to_owned();
    let (copy, its_child) = (id(0), id(1));
    assert!(copy != parent.as_str() && its_child != child.as_str(), "{json}");

    let listed = other.segno(&["children", &copy, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let listed = json["children"].as_array().unwrap();
    assert_eq!(listed.len(), 1, "the other home's child is not this one's: {json}");
    assert_eq!((&listed[0]["id"], &listed[0]["named"]), (&json!(its_child), &json!(child)));
    assert_eq!(listed[0]["attempts"].as_array().unwrap().len(), 2);
    let shown = other.segno(&["show", &copy]).out;
    assert!(shown.contains(&format!("`segno show {its_child}`")), "{shown}");
    assert!(!shown.contains(&format!("`segno show {child}`")), "{shown}");
    assert!(other.segno(&["show", &its_child]).out.contains(&format!("subagent scout of {copy}")));
    let page = other.segno(&["export", &copy, "--format", "html"]).out;
    assert!(page.contains("subagent began —</p> <a href=\"#s1\">read it</a>"));
    let exported = other.segno(&["export", &copy, "--format", "segno", "-o", "copy.segno"]);
    assert!(!exported.err.contains("which is not below this session"), "{exported:?}");

    // The model names it as its log does.
    let before = std::fs::read(other.store().log_path(&child).unwrap()).unwrap();
    let ran = other.segno(&with(&words, &["--session", &copy, &again]));
    assert!(ran.out.contains("Told: Second words."), "{ran:?}");
    assert_eq!(std::fs::read(other.store().log_path(&child).unwrap()).unwrap(), before);
    let asked = other.segno(&["show", &its_child]).out;
    assert_eq!(asked.matches("Second words.").count(), 2, "{asked}");
}

/// Only the subagent went on in two ways: both are there, and it is said which one the log means. Covers: #145.
#[test]
fn two_histories_of_one_subagent_are_told_apart() {
    let place = two_ways();
    place.done(&["--permission", "all", "give it"]);
    let child = children(&place).remove(0).id;
    let (url, other) =
        (place.server.url(), Other { place: &place, home: place.home().with_file_name("other") });
    let segno = |args: &[&str]| -> Ran { place.segno(args).output().unwrap().into() };
    segno(&["export", "last", "--format", "segno", "-o", "before.segno"]);
    assert_eq!(other.segno(&["import", "before.segno"]).code, Some(0));
    let resume = ["resume", child.as_str(), "--base-url", &url, "--"];
    assert_eq!(segno(&with(&resume, &["here"])).code, Some(0));
    assert_eq!(other.segno(&with(&resume, &["there"])).code, Some(0));
    segno(&["export", "last", "--format", "segno", "-o", "after.segno"]);
    assert_eq!(other.segno(&["import", "after.segno"]).code, Some(0));
    let listed = other.segno(&["children", "last", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    let of = |own: bool| {
        let all = json["children"].as_array().unwrap();
        all.iter().find(|c| (c["id"] == child.as_str()) == own).unwrap_or_else(|| panic!("{json}"))
    };
    assert_eq!((&of(true)["named"], &of(false)["named"]), (&json!(null), &json!(child)));
    let count = |own| of(own)["attempts"].as_array().unwrap().len();
    assert_eq!((count(true), count(false)), (1, 0), "{json}");
    let said = other.segno(&["children", "last"]).out;
    assert!(said.contains(&format!("a copy of {child}, ")), "{said}");
}

/// A file that is cut is refused with the byte, and changes nothing unless what is there is asked for.
#[test]
fn a_cut_file_is_refused_with_its_byte() {
    let place = place("", "");
    place.done(&["--permission", "all", "give it"]);
    let segno = |args: &[&str]| -> Ran { place.segno(args).output().unwrap().into() };
    segno(&["export", "last", "--format", "segno", "-o", "tree.segno"]);
    let bytes = std::fs::read(place.file("tree.segno")).unwrap();
    std::fs::write(place.file("cut.segno"), &bytes[..bytes.len() - 300]).unwrap();
    std::fs::write(place.file("none.segno"), "hello").unwrap();
    let other = Other { place: &place, home: place.home().with_file_name("other") };
    let refused = other.segno(&["import", "cut.segno"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
    let byte = format!("damaged at byte {}", bytes.len() - 300);
    assert!(refused.err.contains(&byte) && refused.err.contains("--partial"), "{refused:?}");
    assert!(!other.home.exists(), "nothing was changed");
    let taken = other.segno(&["import", "cut.segno", "--partial"]);
    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert!(taken.out.contains(&byte) && taken.out.contains("Subagent"), "{taken:?}");
    let none = other.segno(&["import", "none.segno"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert_eq!(other.segno(&["import", "nowhere"]).code, Some(6));
}
