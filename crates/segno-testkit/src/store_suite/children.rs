//! Cases about children: sessions that lie below another one.
//!
//! Responsible for: where a child is found and where not, and that it is a session like any other. Must
//! not: depend on an implementation, or know what a launch record means.

use super::desk::{Desk, Log, texts};
use super::{Ability, Bench, cases};
use crate::sessions::{answer, prompt};
use segno_model::SessionId;
use segno_model::child::child_id;
use segno_model::inbox::{InputBody, NewInput, Words};
use segno_model::record::{Block, Header, Origin, OriginKind};
use segno_model::store::{ForkPoint, Level, SessionLog, SessionStore, StoreError};

cases! { "children":
    /// A child is listed under its parent and not among the sessions, and is found by its id.
    /// Covers: LK1, LK18.
    a_child_lies_below_its_parent;
    /// A session without children has none, and so has one that does not exist. Covers: LK7, LK16.
    no_children_are_an_empty_list;
    /// A child whose parent is not there is not made. Covers: LK18.
    a_child_of_nobody_is_not_made;
    /// A child is made once: the second creator is refused and changes no byte. Covers: G5, LK3.
    a_child_is_made_once;
    /// Whoever made a child holds it, and its parent is another matter. Covers: G5, LE1.
    the_creator_of_a_child_holds_it;
    /// A child whose beginning was acknowledged survives power loss, and is found. Covers: G1.
    a_synced_child_survives_a_crash;
    /// A child is closed, opened and continued, and no byte of its parent changes. Covers: RS1, RS23.
    a_child_is_continued;
    /// A child has blobs and an inbox of its own.
    a_child_has_what_a_session_has;
    /// A copy of a child is a session of its own. Covers: #140.
    a_fork_of_a_child_is_a_session;
    /// A copy of a child that names a parent lies below that parent, which must be there. Covers: #140.
    a_fork_of_a_child_may_be_anothers_child;
}

fn child_of<H: Bench>(desk: &Desk<H>, parent: &SessionId, n: usize) -> Header {
    let id = child_id(parent, 1, n);
    let origin =
        Origin { kind: OriginKind::Child, of: parent.to_string(), up_to: Some(1), parent: None };
    Header {
        id,
        origin: Some(origin),
        launch: Some(serde_json::json!({ "parent": parent })),
        ..desk.new_header()
    }
}

async fn born<H: Bench>(desk: &Desk<H>, parent: &SessionId, n: usize) -> (SessionId, Log<H>) {
    let header = child_of(desk, parent, n);
    let id = header.id.clone();
    let mut log = desk.bench.store().create(header);
    desk.put(&mut log, vec![prompt("look")]).await;
    (id, log)
}

async fn ids<S: SessionStore>(store: &S, parent: &SessionId) -> Vec<SessionId> {
    store.children(parent).await.expect("lists").into_iter().map(|child| child.id).collect()
}

async fn a_child_lies_below_its_parent<H: Bench>(desk: Desk<H>) {
    let (parent, log, _) = desk.begun(vec![prompt("a")]).await;
    let (other, _) = desk.closed(vec![prompt("b")]).await;
    let (first, held) = born(&desk, &parent, 0).await;
    let (second, _) = born(&desk, &parent, 1).await;
    drop(log);
    let elsewhere = desk.bench.elsewhere();
    let mut expected = vec![first.clone(), second];
    expected.sort();
    assert_eq!(ids(&elsewhere, &parent).await, expected);
    assert!(ids(&elsewhere, &other).await.is_empty());
    let mut listed: Vec<_> =
        elsewhere.list().await.expect("lists").into_iter().map(|l| l.id).collect();
    listed.sort();
    assert_eq!(listed, [parent.clone(), other]);
    let children = elsewhere.children(&parent).await.expect("lists");
    let of_first = children.iter().find(|child| child.id == first).expect("it is there");
    assert!(of_first.held && !of_first.is_link && of_first.bytes > 0);
    drop(held);
    assert_eq!(texts(&desk.read(&first).await.active.records), ["look"]);
    assert_eq!(desk.open(&first).await.log.header().id, first);
}

async fn no_children_are_an_empty_list<H: Bench>(desk: Desk<H>) {
    let (alone, _) = desk.closed(vec![prompt("a")]).await;
    assert!(ids(desk.bench.store(), &alone).await.is_empty());
    let nobody = desk.new_header().id;
    assert!(ids(desk.bench.store(), &nobody).await.is_empty());
}

async fn a_child_of_nobody_is_not_made<H: Bench>(desk: Desk<H>) {
    let nobody = desk.new_header().id;
    let header = child_of(&desk, &nobody, 0);
    let id = header.id.clone();
    let mut log = desk.bench.store().create(header);
    let refused = log.append(desk.drafts(vec![prompt("look")]), Level::Synced).await;
    assert!(matches!(refused, Err(StoreError::NotFound(missing)) if missing == nobody));
    let elsewhere = desk.bench.elsewhere();
    assert!(matches!(elsewhere.read(&id).await, Err(StoreError::NotFound(_))));
    assert!(elsewhere.list().await.expect("lists").is_empty());
}

async fn a_child_is_made_once<H: Bench>(desk: Desk<H>) {
    let (parent, _log, _) = desk.begun(vec![prompt("a")]).await;
    let (id, first) = born(&desk, &parent, 0).await;
    let before = desk.bench.log(&id);
    let mut second = desk.bench.elsewhere().create(child_of(&desk, &parent, 0));
    let refused = second.append(desk.drafts(vec![prompt("again")]), Level::Synced).await;
    assert!(matches!(refused, Err(StoreError::Exists(_))), "{refused:?}");
    drop(first);
    let mut third = desk.bench.elsewhere().create(child_of(&desk, &parent, 0));
    let refused = third.append(desk.drafts(vec![prompt("again")]), Level::Synced).await;
    assert!(matches!(refused, Err(StoreError::Exists(_))), "{refused:?}");
    assert_eq!(desk.bench.log(&id), before);
}

async fn the_creator_of_a_child_holds_it<H: Bench>(desk: Desk<H>) {
    let (parent, log, _) = desk.begun(vec![prompt("a")]).await;
    let (id, child) = born(&desk, &parent, 0).await;
    let elsewhere = desk.bench.elsewhere();
    assert!(matches!(elsewhere.open(&id).await.err(), Some(StoreError::Held(_))));
    drop(log);
    assert!(elsewhere.open(&parent).await.is_ok());
    assert!(matches!(elsewhere.open(&id).await.err(), Some(StoreError::Held(_))));
    drop(child);
    assert!(elsewhere.open(&id).await.is_ok());
}

async fn a_synced_child_survives_a_crash<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    let (parent, log, _) = desk.begun(vec![prompt("a")]).await;
    let (id, child) = born(&desk, &parent, 0).await;
    drop((log, child));
    desk.bench.crash(0);
    assert_eq!(ids(desk.bench.store(), &parent).await, std::slice::from_ref(&id));
    assert_eq!(texts(&desk.read(&id).await.active.records), ["look"]);
}

async fn a_child_is_continued<H: Bench>(desk: Desk<H>) {
    let (parent, _log, _) = desk.begun(vec![prompt("a")]).await;
    let (id, child) = born(&desk, &parent, 0).await;
    drop(child);
    let before = desk.bench.log(&parent);
    let mut opened = desk.open(&id).await;
    desk.put(&mut opened.log, vec![answer("seen"), prompt("and there?")]).await;
    drop(opened);
    assert_eq!(texts(&desk.read(&id).await.active.records), ["look", "seen", "and there?"]);
    assert_eq!(desk.bench.log(&parent), before);
    assert_eq!(ids(desk.bench.store(), &parent).await.len(), 1);
}

async fn a_child_has_what_a_session_has<H: Bench>(desk: Desk<H>) {
    let (parent, _log, _) = desk.begun(vec![prompt("a")]).await;
    let (id, mut child) = born(&desk, &parent, 0).await;
    let blob = child.put_blob(b"seen", "").await.expect("stored");
    let elsewhere = desk.bench.elsewhere();
    assert_eq!(elsewhere.blob(&id, &blob).await.expect("there"), b"seen");
    assert!(elsewhere.blob(&parent, &blob).await.is_err());
    let words = Words { content: vec![Block::text("hurry")], notice: None };
    let input = NewInput { id: "in-1".into(), body: InputBody::Steer(words) };
    elsewhere.admit(&id, &input, crate::sim_clock::EPOCH).await.expect("admitted");
    assert_eq!(child.pending().await.expect("there").pending.len(), 1);
    assert!(elsewhere.pending(&parent).await.expect("there").pending.is_empty());
}

async fn a_fork_of_a_child_is_a_session<H: Bench>(desk: Desk<H>) {
    let (parent, _log, _) = desk.begun(vec![prompt("a")]).await;
    let (id, _child) = born(&desk, &parent, 0).await;
    let header = desk.new_header();
    let store = desk.bench.store();
    let copy =
        store.fork(&id, ForkPoint::Whole, header, crate::sim_clock::EPOCH).await.expect("copied");
    let listed: Vec<_> = store.list().await.expect("lists").into_iter().map(|l| l.id).collect();
    assert!(listed.contains(&copy) && listed.len() == 2);
    assert_eq!(ids(store, &parent).await, [id]);
}

async fn a_fork_of_a_child_may_be_anothers_child<H: Bench>(desk: Desk<H>) {
    let (parent, _log, _) = desk.begun(vec![prompt("a")]).await;
    let (id, _child) = born(&desk, &parent, 0).await;
    let (other, _) = desk.closed(vec![prompt("b")]).await;
    let store = desk.bench.store();
    let at = crate::sim_clock::EPOCH;
    let header = child_of(&desk, &other, 0);
    let copy = store.fork(&id, ForkPoint::Whole, header, at).await.expect("copied");
    assert_eq!(ids(store, &other).await, std::slice::from_ref(&copy));
    assert_eq!(ids(store, &parent).await, std::slice::from_ref(&id));
    assert_eq!(texts(&desk.read(&copy).await.active.records), ["look"]);
    assert_eq!(store.list().await.expect("lists").len(), 2);
    let nobodys = child_of(&desk, &desk.new_header().id, 0);
    let refused = store.fork(&id, ForkPoint::Whole, nobodys, at).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
}
