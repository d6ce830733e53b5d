//! A provider's own state of what lies back: who is sent it, and when nobody is any more.

use crate::notation::{Session, messages, model};
use segno_model::context::{Target, build, estimate_for, state_rule};
use segno_model::{Record, active};

/// That model on that server.
pub(crate) fn target(id: &str, server: &str) -> Target {
    Target {
        model: model(id),
        dialect: "test".to_owned(),
        server: server.to_owned(),
        is_own_address: server == "s1",
        states: true,
    }
}

/// Record 1 is kept with the compaction, 3 is not; the state is of m1 on s1.
const STATED: &str = "u one\na yes\nu two\na yes\nc kept=1 state=s1 SUM\nu three";

fn label(session: &Session, target: &Target) -> &'static str {
    state_rule(session.context().state.as_ref(), target).label
}

/// Covers: G6, #46. Only the very model on the very server is sent the state; everybody else the summary with the
/// kept words, there and back.
#[test]
fn a_state_goes_to_its_maker_alone() {
    let session = Session::parse(STATED);
    let sent = |target: &Target| messages(&session.context().for_target(target));
    let own = "state 5: [\"state\"]\nuser 6: three\n";
    let others = sent(&target("m2", "s1"));
    assert_eq!(sent(&target("m1", "s1")), own);
    assert!(others.contains("SUM") && others.contains("user 1: one"), "{others}");
    let cases = [
        (target("m1", "s1"), "own"),
        (target("m2", "s1"), "other-model"),
        (target("m1", "s2"), "other-server"),
        (Target { dialect: "chat".to_owned(), ..target("m1", "s1") }, "other-protocol"),
        (Target { states: false, ..target("m1", "s1") }, "switched-off"),
    ];
    for (target, expected) in cases {
        assert_eq!(label(&session, &target), expected);
        let now = sent(&target);
        assert_eq!(
            now,
            if expected == "own" { own.to_owned() } else { others.clone() },
            "{expected}"
        );
    }
    let mut provider = target("m1", "s1");
    provider.model.provider = "elsewhere".to_owned();
    assert_eq!(label(&session, &provider), "other-provider");
    let unknown = Session::parse(&STATED.replace("state=s1", "state=?"));
    assert_eq!(label(&unknown, &target("m1", "s1")), "unknown-origin");
    let none = Session::parse(&STATED.replace("state=s1 ", ""));
    assert_eq!(label(&none, &target("m1", "s1")), "no-state");
}

/// An edit of anything that the state tells of takes the state out of use, there and back, whether the record was
/// kept or not, and also for whoever reads only what resuming needs. What came later may be edited freely.
/// Covers: G10.
#[test]
fn what_is_changed_is_not_told_by_the_state_any_more() {
    let own = target("m1", "s1");
    let cases = [
        ("edit 1 omit", "altered"),
        ("edit 3 omit", "altered"),
        ("edit 3 omit\nedit 3 restore", "altered"),
        ("edit 5 replace mine", "altered"),
        ("edit 5 omit thinking", "altered"),
        ("edit 6 omit", "own"),
        ("a fine\nu more\nedit 7 replace well", "own"),
    ];
    for (edits, expected) in cases {
        for checkpoint in ["", "\ncheckpoint", "\ncheckpoint\nu go\ncheckpoint"] {
            let session = Session::parse(&format!("{STATED}\n{edits}{checkpoint}"));
            assert_eq!(label(&session, &own), expected, "{edits}{checkpoint}");
            let loaded = active::load_bytes_at(&bytes(&session.records), session.tip());
            let sent =
                |records: &[Record]| messages(&build(records, session.tip()).for_target(&own));
            assert_eq!(sent(&loaded.records), sent(&session.records), "{edits}{checkpoint}");
        }
    }
    let told = Session::parse(&format!("{STATED}\nedit 5 omit thinking"));
    assert!(messages(&told.context().for_target(&own)).contains("SUM"), "the summary stays");
}

fn bytes(records: &[Record]) -> Vec<u8> {
    records.iter().flat_map(|record| [&record.line[..], b"\n"].concat()).collect()
}

/// What was reported for the state says nothing about the summary, and the other way round.
/// Covers: MS5.
#[test]
fn a_usage_counts_for_whoever_saw_the_same() {
    let (own, other) = (target("m1", "s1"), target("m2", "s1"));
    let measured = |text: &str, target: &Target| {
        let session = Session::parse(text);
        estimate_for(&session.records, session.tip(), None, Some(target)).measured_at
    };
    let by_own = format!("{STATED}\na %5000 fine");
    let by_other = format!("{STATED}\na @m2 %5000 fine");
    assert_eq!(measured(&by_own, &own), Some(7));
    assert_eq!(measured(&by_own, &other), None);
    assert_eq!(measured(&by_other, &other), Some(7));
    assert_eq!(measured(&by_other, &own), None);
    let third = target("m3", "s1");
    assert_eq!(measured(&by_other, &third), Some(7), "both were sent the summary");
}
