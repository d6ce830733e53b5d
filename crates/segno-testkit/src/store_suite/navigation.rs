//! Cases about the tree and what is in force: tips, branches, labels, names, settings, tasks.
//!
//! Responsible for: navigation within one session. Must not: depend on an implementation.

use super::desk::{Desk, Log, context_of, texts};
use super::{Bench, cases};
use crate::sessions::{answer, prompt, set_model, summary, task};
use segno_model::record::{
    Block, BranchSummary, ContextEdit, Label, Name, Task, Text, ThinkingChange, Tip,
};
use segno_model::store::SessionLog;
use segno_model::{Body, Pos, Record, SessionId};

cases! { "navigation":
    /// After the tip moved, the next node follows the node that it moved to, named by its position.
    /// Covers: ST7, ST11.
    the_next_node_follows_the_moved_tip;
    /// A moved tip is durable. Covers: ST13.
    a_moved_tip_survives_reopening;
    /// A node that comes after a moved tip is the tip, also after reopening. Covers: ST13.
    a_later_node_beats_the_marker;
    /// The tip can move to before everything, and a new root can grow there. Covers: ST8, ST14.
    the_tip_can_be_nothing;
    /// A branch that was left stays on the medium byte for byte. Covers: ST7, ST17.
    the_old_branch_stays;
    /// What was rewound away does not come back on the new branch. Covers: #30.
    the_rewound_stays_away;
    /// Moving to the tip of another branch gives that branch's context, and back again. Covers: ST11.
    branches_can_be_switched;
    /// A summary of a branch that was left is a node, and no message. Covers: ST12.
    a_branch_summary_comes_back;
    /// A compaction and a branch summary after it keep their order. Covers: ST15.
    compaction_then_branch_summary;
    /// A label is kept with its target, replaced, and removed by an empty one. Covers: ST13, #54.
    labels_are_set_replaced_removed;
    /// The newest name holds, and an empty one clears it. Covers: MG3.
    the_newest_name_holds;
    /// The newest model holds whatever branch it was set on, and moves nothing. Covers: MS5.
    the_newest_model_holds;
    /// That a person chose the model is remembered when a default follows. Covers: MS3, MS5.
    a_choice_is_sticky;
    /// The newest thinking level holds. Covers: MS2.
    the_newest_level_holds;
    /// A goal is restored, replaced by a later one, and gone when cleared. Covers: EV9.
    the_newest_task_holds;
    /// An edit of the context is durable and can be taken back. Covers: G10.
    edits_are_reversible;
    /// A node with hundreds of children serves every one of them. Covers: ST11.
    a_wide_branch_works;
    /// A chain of thousands of nodes is opened and read to its root. Covers: ST2, G4.
    a_deep_chain_works;
    /// Branching from a branch keeps only the nodes above. Covers: ST7, ST11, #30.
    branches_of_branches;
}

async fn chain<H: Bench>(desk: &Desk<H>) -> (SessionId, Log<H>, Vec<Record>) {
    desk.begun(vec![prompt("1"), answer("2"), prompt("3"), answer("4"), prompt("5")]).await
}

pub(super) async fn go<H: Bench>(desk: &Desk<H>, log: &mut Log<H>, tip: Option<Pos>) {
    desk.put(log, vec![Body::Tip(Tip { tip })]).await;
}

/// The texts of the active part's nodes, root first.
pub(super) async fn path<L: SessionLog>(log: &L) -> Vec<String> {
    let tip = log.state().tip();
    let records = log.active(tip).await.expect("the active part can be read").records;
    let mut path = Vec::new();
    let mut next = tip.map(|t| t.seq);
    while let Some(record) = records.iter().find(|r| Some(r.seq()) == next) {
        path.push(crate::sessions::text_of(record));
        next = record.envelope.parent;
    }
    path.reverse();
    path
}

async fn the_next_node_follows_the_moved_tip<H: Bench>(desk: Desk<H>) {
    let (_, mut log, nodes) = chain(&desk).await;
    go(&desk, &mut log, Some(nodes[1].pos())).await;
    assert_eq!(log.state().tip(), Some(nodes[1].pos()));
    let next = desk.put(&mut log, vec![prompt("3x"), answer("4x")]).await;
    assert_eq!(next[0].envelope.parent, Some(nodes[1].seq()));
    assert_eq!(next[0].envelope.parent_at, Some(nodes[1].pos()));
    assert_eq!(next[1].envelope.parent, Some(next[0].seq()));
    assert_eq!(path(&log).await, ["1", "2", "3x", "4x"]);
}

async fn a_moved_tip_survives_reopening<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    go(&desk, &mut log, Some(nodes[2].pos())).await;
    drop(log);
    let opened = desk.open(&id).await;
    assert_eq!(opened.log.state().tip(), Some(nodes[2].pos()));
    assert_eq!(path(&opened.log).await, ["1", "2", "3"]);
    assert_eq!(desk.read(&id).await.state.tip(), Some(nodes[2].pos()));
}

async fn a_later_node_beats_the_marker<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    go(&desk, &mut log, Some(nodes[0].pos())).await;
    let last = desk.put(&mut log, vec![answer("2x")]).await;
    drop(log);
    let opened = desk.open(&id).await;
    assert_eq!(opened.log.state().tip(), Some(last[0].pos()));
    assert_eq!(path(&opened.log).await, ["1", "2x"]);
}

async fn the_tip_can_be_nothing<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = chain(&desk).await;
    go(&desk, &mut log, None).await;
    drop(log);
    let mut opened = desk.open(&id).await;
    assert_eq!(opened.log.state().tip(), None);
    assert!(path(&opened.log).await.is_empty());
    let root = desk.put(&mut opened.log, vec![prompt("new root"), answer("r")]).await;
    assert_eq!(root[0].envelope.parent, None);
    assert_eq!(path(&opened.log).await, ["new root", "r"]);
    drop(opened);
    assert_eq!(path(&desk.open(&id).await.log).await, ["new root", "r"]);
}

async fn the_old_branch_stays<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    let before = desk.bytes(&id);
    go(&desk, &mut log, Some(nodes[1].pos())).await;
    desk.put(&mut log, vec![prompt("3x")]).await;
    assert!(desk.bytes(&id).starts_with(&before));
    assert_eq!(desk.scan(&id).await.texts(), ["1", "2", "3", "4", "5", "3x"]);
}

async fn the_rewound_stays_away<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    go(&desk, &mut log, Some(nodes[2].pos())).await;
    desk.put(&mut log, vec![answer("4x"), prompt("4y"), answer("4z")]).await;
    assert_eq!(path(&log).await, ["1", "2", "3", "4x", "4y", "4z"]);
    drop(log);
    assert_eq!(path(&desk.open(&id).await.log).await, ["1", "2", "3", "4x", "4y", "4z"]);
}

async fn branches_can_be_switched<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    let (main, main_context) = (nodes[4].pos(), desk.context_at(&log, log.state().tip()).await);
    go(&desk, &mut log, Some(nodes[1].pos())).await;
    let side = desk.put(&mut log, vec![prompt("3x")]).await[0].pos();
    let side_context = desk.context_at(&log, Some(side)).await;
    for (tip, context) in [(main, &main_context), (side, &side_context), (main, &main_context)] {
        go(&desk, &mut log, Some(tip)).await;
        assert_eq!(&desk.context_at(&log, log.state().tip()).await, context);
        drop(log);
        let opened = desk.open(&id).await;
        assert_eq!(&context_of(&opened.active, opened.log.state()), context);
        log = opened.log;
    }
}

fn left(from: &Record) -> Body {
    let summary = Text::Inline("went left".into());
    Body::BranchSummary(BranchSummary { summary, from: from.pos() })
}

async fn a_branch_summary_comes_back<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    let counted = log.state().in_force.totals;
    go(&desk, &mut log, Some(nodes[1].pos())).await;
    let summary = desk.put(&mut log, vec![left(&nodes[4])]).await;
    assert_eq!(summary[0].envelope.parent, Some(nodes[1].seq()));
    drop(log);
    let opened = desk.open(&id).await;
    assert_eq!(path(&opened.log).await, ["1", "2", "went left"]);
    assert_eq!(opened.log.state().in_force.totals, counted);
}

async fn compaction_then_branch_summary<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    desk.put(&mut log, vec![summary("sum", Some(nodes[4].pos()), Vec::new())]).await;
    desk.put(&mut log, vec![left(&nodes[2]), prompt("6")]).await;
    drop(log);
    let records = desk.open(&id).await.active.records;
    let texts = texts(&records);
    let at = |text: &str| texts.iter().position(|t| t == text).expect(text);
    assert!(at("sum") < at("went left") && at("went left") < at("6"), "{texts:?}");
}

async fn labels_are_set_replaced_removed<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    let label =
        |n: usize, text: &str| Body::Label(Label { target: nodes[n].pos(), label: text.into() });
    let first = vec![label(0, "a"), label(1, "b"), label(2, "c")];
    desk.put(&mut log, first).await;
    desk.put(&mut log, vec![label(1, "better"), label(2, "")]).await;
    drop(log);
    let opened = desk.open(&id).await;
    let labels = &opened.log.state().in_force.labels;
    let seen: Vec<_> = labels.values().map(|l| (l.target, l.label.as_str())).collect();
    assert_eq!(seen, [(nodes[0].pos(), "a"), (nodes[1].pos(), "better")]);
    assert_eq!(opened.log.state().tip(), Some(nodes[4].pos()));
}

async fn reopened_after<H: Bench>(desk: &Desk<H>, bodies: Vec<Body>) -> segno_model::Checkpoint {
    let (id, mut log, nodes) = chain(desk).await;
    for body in bodies {
        desk.put(&mut log, vec![body]).await;
    }
    assert_eq!(log.state().tip(), Some(nodes[4].pos()));
    drop(log);
    desk.open(&id).await.log.state().in_force.clone()
}

async fn the_newest_name_holds<H: Bench>(desk: Desk<H>) {
    let name = |n: &str| Body::Name(Name { name: n.into() });
    let named = reopened_after(&desk, vec![name("first"), name("second")]).await;
    assert_eq!(named.name.as_deref(), Some("second"));
    let cleared = reopened_after(&desk, vec![name("first"), name("")]).await;
    assert_eq!(cleared.name, None);
}

async fn the_newest_model_holds<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    desk.put(&mut log, vec![set_model("one", false)]).await;
    go(&desk, &mut log, Some(nodes[1].pos())).await;
    let before = (desk.context_at(&log, log.state().tip()).await, log.state().in_force.totals);
    desk.put(&mut log, vec![set_model("two", false)]).await;
    let after = (desk.context_at(&log, log.state().tip()).await, log.state().in_force.totals);
    assert_eq!(after, before);
    go(&desk, &mut log, Some(nodes[4].pos())).await;
    drop(log);
    let in_force = desk.open(&id).await.log.state().in_force.clone();
    assert_eq!(in_force.model.expect("a model").id, "two");
    assert_eq!(in_force.tip, Some(nodes[4].pos()));
}

async fn a_choice_is_sticky<H: Bench>(desk: Desk<H>) {
    let in_force =
        reopened_after(&desk, vec![set_model("mine", true), set_model("default", false)]).await;
    assert!(in_force.model_chosen);
    assert_eq!(in_force.model.expect("a model").id, "default");
}

async fn the_newest_level_holds<H: Bench>(desk: Desk<H>) {
    let level = |l: &str| Body::Thinking(ThinkingChange { level: l.into() });
    let in_force = reopened_after(&desk, vec![level("low"), level("high")]).await;
    assert_eq!(in_force.thinking.as_deref(), Some("high"));
}

async fn the_newest_task_holds<H: Bench>(desk: Desk<H>) {
    let goal = |c: segno_model::Checkpoint| c.task.map(|t| t.goal).unwrap_or_default();
    assert_eq!(goal(reopened_after(&desk, vec![task("ship it")]).await), "ship it");
    let replaced = reopened_after(&desk, vec![task("ship it"), task("test it")]).await;
    assert_eq!(goal(replaced), "test it");
    let cleared = reopened_after(&desk, vec![task("ship it"), Body::Task(Task::default())]).await;
    assert_eq!(cleared.task.map(|t| t.steps.len()), Some(0));
}

async fn edits_are_reversible<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    let before = desk.context_at(&log, log.state().tip()).await;
    let edit = |edit: &str, text: &str| {
        let content = if text.is_empty() { Vec::new() } else { vec![Block::text(text)] };
        Body::ContextEdit(ContextEdit {
            target: nodes[0].seq(),
            edit: edit.into(),
            content,
            ..ContextEdit::default()
        })
    };
    for (body, edited) in [(edit("replace", "short"), true), (edit("restore", ""), false)] {
        desk.put(&mut log, vec![body]).await;
        let context = desk.context_at(&log, log.state().tip()).await;
        drop(log);
        let opened = desk.open(&id).await;
        assert_eq!(context_of(&opened.active, opened.log.state()), context);
        assert_eq!(opened.log.state().in_force.context_edits.len(), usize::from(edited));
        assert_eq!(context != before, edited, "{context}");
        log = opened.log;
    }
}

async fn a_wide_branch_works<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    let mut tips = Vec::new();
    for n in 0..200 {
        let back = Body::Tip(Tip { tip: Some(nodes[1].pos()) });
        tips.push(desk.write(&mut log, vec![back, prompt(&format!("child {n}"))]).await[1].pos());
    }
    log.sync().await.expect("syncs");
    drop(log);
    let mut opened = desk.open(&id).await;
    for n in [0, 1, 99, 199] {
        go(&desk, &mut opened.log, Some(tips[n])).await;
        assert_eq!(path(&opened.log).await, ["1", "2", &format!("child {n}")]);
    }
}

async fn a_deep_chain_works<H: Bench>(desk: Desk<H>) {
    let (id, mut log) = desk.unborn();
    for _ in 0..10 {
        desk.write(&mut log, (0..300).map(|n| prompt(&n.to_string())).collect()).await;
    }
    log.sync().await.expect("syncs");
    drop(log);
    let opened = desk.open(&id).await;
    let nodes = opened.active.records.iter().filter(|r| r.is_node()).count();
    assert_eq!(nodes, 3000);
}

async fn branches_of_branches<H: Bench>(desk: Desk<H>) {
    let (id, mut log, nodes) = chain(&desk).await;
    go(&desk, &mut log, Some(nodes[2].pos())).await;
    let x = desk.put(&mut log, vec![answer("4x"), prompt("5x")]).await;
    go(&desk, &mut log, Some(x[0].pos())).await;
    let y = desk.put(&mut log, vec![prompt("5y")]).await;
    go(&desk, &mut log, Some(nodes[4].pos())).await;
    go(&desk, &mut log, Some(y[0].pos())).await;
    drop(log);
    assert_eq!(path(&desk.open(&id).await.log).await, ["1", "2", "3", "4x", "5y"]);
}
