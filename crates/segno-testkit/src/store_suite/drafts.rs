//! Cases about drafts: what survives of a reply that is being streamed.
//!
//! Responsible for: what a store must do that keeps drafts, and what one must not that keeps none. Must not:
//! say when a draft is taken over.

use super::desk::Desk;
use super::{Ability, Bench, cases};
use crate::sessions::{answer, prompt};
use segno_model::store::{DraftText, SessionLog as _};

cases! { "drafts":
    /// What was kept is there for the next process, whole and in order. Covers: #124.
    a_draft_outlives_its_process;
    /// A session has the draft of one request at a time. Covers: #124.
    another_request_begins_anew;
    /// A draft is no part of the log: no byte of it changes, and no state. Covers: G12.
    a_draft_changes_nothing_else;
    /// Power loss may take of a draft what it likes, but never mixes anything in. Covers: G1.
    power_loss_leaves_a_beginning;
    /// A session that does not exist yet has none, and keeping one does not create it. Covers: G4.
    no_session_no_draft;
    /// Who lost the right keeps nothing. Covers: G5.
    without_the_right_nothing_is_kept;
    /// A copy has no draft: the reply is the original's. Covers: G7.
    a_fork_has_no_draft;
}

fn said(request: u64, text: &str) -> Option<DraftText> {
    Some(DraftText { request, text: text.to_owned(), damaged: false })
}

async fn a_draft_outlives_its_process<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("go")]).await;
    let long = "漢字 \u{0} \"\n".repeat(20_000);
    let mut whole = String::new();
    for piece in ["The ", "loop", "", &long, " ends."] {
        log.save_draft(5, piece).await.expect("it is kept");
        whole.push_str(piece);
    }
    drop(log);
    let opened = desk.open(&id).await;
    assert_eq!(opened.log.draft().await.expect("it is read"), said(5, &whole));
}

async fn another_request_begins_anew<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("go")]).await;
    log.save_draft(5, "one, and much longer than what follows").await.expect("kept");
    log.save_draft(8, "two").await.expect("kept");
    drop(log);
    let mut log = desk.open(&id).await.log;
    assert_eq!(log.draft().await.expect("read"), said(8, "two"));
    log.save_draft(11, "three").await.expect("kept");
    drop(log);
    assert_eq!(desk.open(&id).await.log.draft().await.expect("read"), said(11, "three"));
}

async fn a_draft_changes_nothing_else<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("go")]).await;
    let (bytes, next) = (desk.bytes(&id), log.state().next_seq);
    log.save_draft(5, "half").await.expect("kept");
    assert_eq!((desk.bytes(&id), log.state().next_seq), (bytes, next));
    desk.put(&mut log, vec![answer("whole")]).await;
    assert_eq!(desk.scan(&id).await.findings, []);
}

async fn power_loss_leaves_a_beginning<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    for keep in [0, 3, 90, usize::MAX] {
        let (id, mut log, _) = desk.begun(vec![prompt("go")]).await;
        log.save_draft(5, "The loop ").await.expect("kept");
        log.save_draft(5, "has no end.").await.expect("kept");
        drop(log);
        desk.bench.crash(keep);
        let found = desk.open(&id).await.log.draft().await.expect("it is read");
        let text = found.map_or(String::new(), |draft| draft.text);
        assert!("The loop has no end.".starts_with(&text), "{keep}: {text:?}");
    }
}

async fn no_session_no_draft<H: Bench>(desk: Desk<H>) {
    let (id, mut log) = desk.unborn();
    log.save_draft(5, "nothing").await.expect("nothing happens");
    assert_eq!(log.draft().await.expect("read"), None);
    drop(log);
    assert_eq!(desk.bench.log(&id), None);
}

async fn without_the_right_nothing_is_kept<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Revoke) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("go")]).await;
    log.save_draft(5, "mine").await.expect("kept");
    desk.bench.revoke(&id);
    log.save_draft(5, " and more").await.expect_err("the right is gone");
    drop(log);
    assert_eq!(desk.open(&id).await.log.draft().await.expect("read"), said(5, "mine"));
}

async fn a_fork_has_no_draft<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("go")]).await;
    log.save_draft(5, "the original's").await.expect("kept");
    drop(log);
    let copy = desk.fork(&id, segno_model::store::ForkPoint::Whole).await;
    assert_eq!(desk.open(&copy).await.log.draft().await.expect("read"), None);
}
