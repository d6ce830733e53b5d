//! Which child a log means by an id.
//!
//! Responsible for: the sessions that a session was forked from, and children that got an id of their own when they
//! were brought in, because theirs was taken. Must not: change anything, or decide whether a child may go on.

use segno_model::SessionId;
use segno_model::child::{launch_of, stands_for};
use segno_model::record::OriginKind;
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
        let origin = found.header.origin.filter(|origin| origin.kind == OriginKind::Fork);
        let Some(of) = origin.and_then(|origin| SessionId::parse(&origin.of).ok()) else {
            break;
        };
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
    let mut all = Vec::new();
    for listed in children.iter().filter(|listed| !listed.is_link) {
        let Ok(found) = store.read(&listed.id).await else { continue };
        let Ok(launch) = launch_of(&found.header, &listed.id, owner) else { continue };
        let named = stands_for(&launch, ancestry);
        all.extend(named.into_iter().map(|named| (named, listed.id.clone())));
    }
    all
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
    let mut copies = Vec::new();
    for listed in children.iter().filter(|listed| !listed.is_link) {
        let Ok(found) = store.read(&listed.id).await else { continue };
        let Ok(launch) = launch_of(&found.header, &listed.id, session) else { continue };
        let origin = found.header.origin.filter(|origin| origin.kind == OriginKind::Fork);
        if origin.is_some_and(|origin| origin.of == child.as_str()) {
            let call = launch.intent.split_once('.').and_then(|(seq, _)| seq.parse::<u64>().ok());
            copies.push((call, listed.id.clone()));
        }
    }
    copies.into_iter().max().map(|(_, id)| id)
}
