//! `segno export --format segno` and `segno import` through the real binary.

use crate::json_page::{example, same_shape};
use crate::place::{Place, Ran, wait};
use crate::subagents::{children, place};
use segno_model::store::SessionStore as _;
use segno_store::{FileStore, RealDisk};

struct Other<'a> {
    place: &'a Place,
    home: std::path::PathBuf,
}

impl Other<'_> {
    fn segno(&self, args: &[&str]) -> Ran {
        self.place.segno(args).env("SEGNO_HOME", &self.home).output().unwrap().into()
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
    assert!(shown.contains(&format!("subagent of {parent}")), "{shown}");
    let again = other.segno(&["import", "tree.segno"]);
    assert!(again.out.contains("is here already"), "{again:?}");
    let url = place.server.url();
    let ran = other.segno(&["resume", child.as_str(), "--base-url", &url, "--", "go on"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Second words.\n"), "{ran:?}");
    assert_eq!(wait(place.store().read(&child)).unwrap().state.in_force.totals.user_messages, 1);
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
