//! Which child a log means by an id.
//!
//! Responsible for: the sessions that a session was forked from, and children that have an id of their own: they were
//! brought in where theirs was taken, or are copies. Must not: change anything, or decide whether a child may go on.

use segno_model::SessionId;
use segno_model::child::{launch_of, stands_for};
use segno_model::record::{LaunchRecord, Origin};
use segno_model::store::{ListedChild, SessionStore};

/// How many forks of forks are looked through for a child.
const MAX_ANCESTRY: usize = 32;

/// A session, and those that it was forked from, nearest first.
pub async fn ancestry<S: SessionStore>(store: &S, session: &SessionId) -> Vec<SessionId> {
    let mut all = vec![session.clone()];
    while let Some(newest) = all.last()
        && all.len() < MAX_ANCESTRY
    {
        let Ok(found) = store.read(newest).await else { break };
        let of = found.header.origin.as_ref().and_then(Origin::fork_of);
        let Some(of) = of.and_then(|of| SessionId::parse(of).ok()) else { break };
        if all.contains(&of) {
            break;
        }
        all.push(of);
    }
    all
}

/// Of these children of the first session of `ancestry`, those that a log may mean by another id than their own: that
/// id, and theirs. Which of them the log names, it says itself; a child of that very id comes first.
pub async fn stand_ins<S: SessionStore>(
    store: &S,
    ancestry: &[SessionId],
    children: &[ListedChild],
) -> Vec<(SessionId, SessionId)> {
    let Some(owner) = ancestry.first() else { return Vec::new() };
    let all = launched(store, owner, children).await;
    let named = |(launch, _): &(LaunchRecord, _)| {
        stands_for(launch, ancestry)
            .into_iter()
            .map(|named| (named, launch.child.clone()))
            .collect::<Vec<_>>()
    };
    all.iter().flat_map(named).collect()
}

/// The copy of another session's child with which this one went on already; the newest, where there are several.
pub(super) async fn copy_of<S: SessionStore>(
    store: &S,
    session: &SessionId,
    child: &SessionId,
) -> Option<SessionId> {
    let children = store.children(session).await.ok()?;
    if children.iter().any(|listed| listed.id == *child) {
        return None;
    }
    let all = launched(store, session, &children).await;
    let copies = all
        .into_iter()
        .filter(|(_, origin)| origin.as_ref().and_then(Origin::fork_of) == Some(child.as_str()));
    let call = |launch: &LaunchRecord| launch.intent.split_once('.')?.0.parse::<u64>().ok();
    copies.map(|(launch, _)| (call(&launch), launch.child)).max().map(|(_, id)| id)
}

/// The launch records of those of a session's children that can be read, and where each comes from. A link is none.
async fn launched<S: SessionStore>(
    store: &S,
    owner: &SessionId,
    children: &[ListedChild],
) -> Vec<(LaunchRecord, Option<Origin>)> {
    let mut all = Vec::new();
    for listed in children.iter().filter(|listed| !listed.is_link) {
        let Ok(found) = store.read(&listed.id).await else { continue };
        let Ok(launch) = launch_of(&found.header, &listed.id, owner) else { continue };
        all.push((launch, found.header.origin));
    }
    all
}
