//! `segno prune`, through the real binary.

use super::desk::Desk;
use segno_testkit::sessions::{answer, prompt};

/// Covers: #136. Nothing goes by itself; what is named is shown, and a running session is left alone.
#[test]
fn room_is_made_only_of_what_is_named() {
    let desk = Desk::new();
    let kept = desk.session(1, vec![prompt("keep this"), answer("yes")]);
    let gone = desk.session(2, vec![prompt("throw this away")]);
    assert_eq!(desk.run(&["delete", gone.as_str(), "--yes"]).code, 0);
    let dir = desk.log(&kept).parent().unwrap().to_owned();
    std::fs::create_dir(dir.join("blobs")).unwrap();
    let blob = dir.join("blobs").join(segno_model::sha256_hex(b"of no use"));
    std::fs::write(&blob, b"of no use").unwrap();

    let ran = desk.run(&["prune", "--dry-run"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for said in ["1 session takes", "keep this", "trash", "blobs", "segno prune KIND"] {
        assert!(ran.out.contains(said), "{said}: {ran:?}");
    }
    let ran = desk.run(&["prune", "blobs"]);
    assert_eq!(ran.code, 2, "nobody said yes: {ran:?}");
    assert!(blob.exists() && ran.out.contains(kept.as_str()), "{ran:?}");
    let held = desk.hold(&kept);
    let ran = desk.run(&["prune", "blobs", "--yes"]);
    assert!(ran.out.contains("a process works on it"), "{ran:?}");
    assert!(blob.exists());
    Desk::release(held);
    let ran = desk.run(&["prune", "blobs", kept.as_str(), "--yes", "--json"]);
    assert_eq!((ran.code, ran.json()["bytes"].as_u64()), (0, Some(9)), "{ran:?}");
    assert!(!blob.exists());

    assert_eq!(desk.run(&["prune", "trash", "ffff", "--yes"]).code, 6);
    let ran = desk.run(&["prune", "trash", gone.as_str(), "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(desk.run(&["trash"]).out.contains("The trash is empty."));
    assert_eq!(desk.run(&["show", kept.as_str()]).code, 0);
    let ran = desk.run(&["prune"]);
    assert!(ran.out.contains("Nothing lies about"), "{ran:?}");
}
