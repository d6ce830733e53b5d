//! By which ids logs may mean a child.
#![allow(clippy::unwrap_used)]

use segno_model::SessionId;
use segno_model::child::{child_id, stands_for};
use segno_model::record::{LaunchRecord, ModelRef, RoleFact};

fn id(last: u32) -> SessionId {
    SessionId::parse(&format!("0195f3a0-0000-7000-8000-{last:012}")).unwrap()
}

fn launch(child: &SessionId, intent: &str) -> LaunchRecord {
    let role = RoleFact { name: "r".into(), source: "builtin".into(), sha256: String::new() };
    LaunchRecord {
        parent: id(1),
        child: child.clone(),
        intent: intent.to_owned(),
        role,
        model: ModelRef::new("p", "m"),
        base_url: None,
        system_sha256: String::new(),
        instructions: Vec::new(),
        tools: Vec::new(),
        cwd: "/p".to_owned(),
        worktree: None,
        version: "1".to_owned(),
    }
}

/// A child with the id that its call gave it is nobody else; a copy with another one is what that call began, in its
/// parent's log and in that of the session which its parent is a copy of.
#[test]
fn only_a_copy_with_another_id_is_named_otherwise() {
    let (own, origin, other) = (id(1), id(2), id(9));
    let owners = [own.clone(), origin.clone()];
    let cases = [
        ("its own", child_id(&own, 6, 0), "6.0", vec![]),
        (
            "its own, where the origin's call has the same number",
            child_id(&own, 6, 1),
            "6.1",
            vec![],
        ),
        ("the origin's, brought along", child_id(&origin, 6, 0), "6.0", vec![]),
        ("a copy", other.clone(), "6.0", vec![child_id(&own, 6, 0), child_id(&origin, 6, 0)]),
        ("no call is named", other.clone(), "6", vec![]),
        ("none that could be", other, "6.x", vec![]),
    ];
    for (label, child, intent, expected) in cases {
        assert_eq!(stands_for(&launch(&child, intent), &owners), expected, "{label}");
    }
}
