//! Old outputs that are left out of the context, and what that does to an estimate.

use crate::notation::{Session, messages};
use segno_model::compaction::{Pruning, Window, prune};
use segno_model::context::{choose_boundary, estimate};
use segno_model::record::ContextEdit;
use segno_model::{Body, Record};

/// Room for 4,000 tokens; 1,000 at the end are protected, and 500 must be freed at once.
const WINDOW: Window = Window { context: 4_000, output: 0 };

/// `%N` is a result of N tokens.
fn session(text: &str) -> Session {
    let filled: Vec<String> = text
        .split(' ')
        .map(|word| match word.strip_prefix("tokens=") {
            Some(count) => {
                let (count, rest) = count.split_once('\n').map_or((count, ""), |(c, r)| (c, r));
                let count: usize = count.parse().expect("a number");
                let rest = if rest.is_empty() { String::new() } else { format!("\n{rest}") };
                format!("{}{rest}", "x".repeat(count * 4))
            }
            None => word.to_owned(),
        })
        .collect();
    Session::parse(&filled.join(" "))
}

fn pruning(session: &Session) -> Option<Pruning> {
    let id = segno_model::SessionId::parse("0195f3a0-0000-7000-8000-000000000001").expect("an id");
    prune(&session.records, session.tip(), &id, WINDOW)
}

fn targets(session: &Session) -> Vec<u64> {
    pruning(session).map_or_else(Vec::new, |p| p.edits.iter().map(|e| e.target).collect())
}

fn rounds(sizes: &[(&str, usize)]) -> String {
    let round = |(i, (kind, tokens)): (usize, &(&str, usize))| {
        format!("a call c{i} bash\n{kind} c{i} tokens={tokens}\n")
    };
    let rounds: String = sizes.iter().enumerate().map(round).collect();
    format!("u go\n{rounds}")
}

/// Large results before the protected end go, in one step or not at all.
#[test]
fn old_large_results_are_left_out_in_steps() {
    let (large, small) = (("r", 600), ("r", 100));
    let end = [small, small, small, ("r", 900)];
    let of = |old: &[(&str, usize)]| targets(&session(&rounds(&[old, &end].concat())));
    assert_eq!(of(&[large, large]), [3, 5]);
    assert_eq!(of(&[large, small, ("r", 300)]), [3, 7]);
    assert_eq!(of(&[("r", 300)]), [] as [u64; 0], "less than a step");
    assert_eq!(of(&[small; 9]), [] as [u64; 0], "small ones are no gain");
    let recent = session(&rounds(&[("r", 2_000), ("r", 900), ("r", 900), ("r", 900)]));
    assert_eq!(targets(&recent), [3], "three rounds stay, whatever they take");
}

/// An error of the turn in progress stays; one of an earlier turn is history.
#[test]
fn errors_of_this_turn_stay() {
    let old = "u go\na call e1 bash\nr! e1 tokens=800\na call b1 bash\nr b1 tokens=800\n";
    let end = "a call c1 bash\nr c1 a\na call c2 bash\nr c2 b\na call c3 bash\nr c3 c\na call c4 bash\nr c4 tokens=1100";
    assert_eq!(targets(&session(&format!("{old}{end}"))), [5]);
    assert_eq!(targets(&session(&format!("{old}a done\nu next\n{end}"))), [3, 5]);
}

/// What stands for an output names it and says how to see it again; the edit can be taken back.
#[test]
fn the_line_says_what_was_there() {
    let text = rounds(&[("r", 900), ("r", 10), ("r", 10), ("r", 10), ("r", 1_100)]);
    let mut session = session(&text);
    let before = messages(&session.context());
    let edit = pruning(&session).expect("something").edits.remove(0);
    assert!(edit.is_pruning());
    session.add(&Body::ContextEdit(edit), None, false);
    let after = messages(&session.context());
    for part in ["`bash`", "3600 bytes", "beginning \"xxx", "--raw 3"] {
        assert!(after.contains(part), "{after}");
    }
    assert_eq!(targets(&session), [] as [u64; 0], "once is enough");
    let edit = "restore".to_owned();
    let restore = ContextEdit { target: 3, edit, ..ContextEdit::default() };
    session.add(&Body::ContextEdit(restore), None, false);
    assert_eq!(messages(&session.context()), before);
    assert_eq!(targets(&session), [] as [u64; 0], "whoever restored it wants it to stay");
}

/// What was measured stays the base of an estimate; what was pruned since is taken off.
/// Covers: MS5.
#[test]
fn an_estimate_outlives_pruning() {
    let mut session = session(&format!(
        "{}a %9000 call c9 bash\nr c9 ok",
        rounds(&[("r", 900), ("r", 10), ("r", 10), ("r", 10), ("r", 1_100)])
    ));
    let before = estimate(&session.records, session.tip());
    let Pruning { edits, frees } = pruning(&session).expect("something");
    for edit in edits {
        session.add(&Body::ContextEdit(edit), None, false);
    }
    let after = estimate(&session.records, session.tip());
    assert_eq!(after.measured_at, before.measured_at);
    assert_eq!(after.tokens, before.tokens - frees);
}

/// With the compaction that tells of the output its pruning is over: edits do not pile up, and what a
/// reopened session sees is the same. A person's edits stay.
/// Covers: G11.
#[test]
fn a_compaction_ends_pruning() {
    let text = rounds(&[("r", 900), ("r", 10), ("r", 10), ("r", 10), ("r", 1_100)]);
    let mut session = session(&format!("{text}edit 5 omit"));
    for edit in pruning(&session).expect("something").edits {
        session.add(&Body::ContextEdit(edit), None, false);
    }
    assert_eq!(session.state.in_force.context_edits.len(), 2);
    let budget = segno_model::context::Budget { tail: 0, words: 0, prompt: 0, notices: false };
    assert!(choose_boundary(&session.records, session.tip(), budget).is_some());
    session.add_line("c SUM");
    assert_eq!(session.state.in_force.context_edits.keys().collect::<Vec<_>>(), [&5]);
    assert!(session.state.in_force.pruned.is_empty());
    // Who reads from the end sees what who reads everything sees, there and back before the compaction.
    let mut bytes = Vec::new();
    for record in &session.records {
        bytes.extend_from_slice(&record.line);
        bytes.push(b'\n');
    }
    let before = session.records.iter().rev().filter(|r| r.is_node()).nth(1).map(Record::pos);
    for tip in [session.tip(), before] {
        let loaded = segno_model::active::load_bytes_at(&bytes, tip);
        let whole = segno_model::context::build(&session.records, tip);
        let part = segno_model::context::build(&loaded.records, tip);
        assert_eq!(messages(&part), messages(&whole), "at {tip:?}");
    }
}

/// Whoever reopens a session from a checkpoint sees every kind of edit as whoever read all of it: the same is sent,
/// and the same would be left out next. What a person restored is not left out by itself again.
/// Covers: G10, G11.
#[test]
fn every_edit_is_the_same_after_reopening() {
    let text = rounds(&[("r", 900), ("r", 900), ("r", 10), ("r", 10), ("r", 10), ("r", 1_100)]);
    let text = format!("{text}u img | look\na think t/S | fine");
    let pruned = |session: &mut Session, target: u64| {
        let edit = ContextEdit {
            target,
            edit: "replace".to_owned(),
            content: crate::notation::blocks("(left out)"),
            cause: Some(ContextEdit::PRUNED.to_owned()),
            ..ContextEdit::default()
        };
        session.add(&Body::ContextEdit(edit), None, false);
    };
    for edits in [
        "",
        "edit 3 omit",
        "edit 3 replace shorter",
        "edit 3 restore",
        "edit 3 omit\nedit 3 restore",
        "edit 3 replace shorter\nedit 3 restore",
        "edit 3 omit images\nedit 3 restore",
        "edit 14 omit images",
        "edit 15 omit thinking",
        "PRUNE",
        "PRUNE\nedit 3 restore",
        "PRUNE\nedit 3 restore\nPRUNE",
        "PRUNE\nedit 3 restore\nedit 3 omit",
    ] {
        for end in ["", "checkpoint", "checkpoint\nu go\na yes\ncheckpoint\nu on"] {
            let mut session = session(&text);
            for line in edits.lines().chain(end.lines()) {
                match line {
                    "PRUNE" => pruned(&mut session, 3),
                    line => session.add_line(line),
                }
            }
            let mut bytes = Vec::new();
            for record in &session.records {
                bytes.extend_from_slice(&record.line);
                bytes.push(b'\n');
            }
            let loaded = segno_model::active::load_bytes_at(&bytes, session.tip());
            let about = format!("{edits:?} {end:?}");
            let part = segno_model::context::build(&loaded.records, session.tip());
            assert_eq!(messages(&part), messages(&session.context()), "{about}");
            let id = segno_model::SessionId::parse("0195f3a0-0000-7000-8000-000000000001")
                .expect("an id");
            let next = prune(&loaded.records, session.tip(), &id, WINDOW).map(|p| p.edits);
            assert_eq!(next, pruning(&session).map(|p| p.edits), "{about}");
            let restored = edits.ends_with("restore");
            let again = next.is_some_and(|edits| edits.iter().any(|edit| edit.target == 3));
            assert!(!(restored && again), "{about}: it is left out again");
        }
    }
}
