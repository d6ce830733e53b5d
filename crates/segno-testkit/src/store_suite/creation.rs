//! Cases about how a session comes into being, and how it is listed.
//!
//! Responsible for: creation and lists. Must not: depend on an implementation.

use super::desk::{Desk, texts};
use super::{Ability, Bench, cases};
use crate::sessions::{answer, header, model, prompt, set_model};
use segno_model::Body;
use segno_model::record::{GitFacts, Name, Origin, OriginKind, ThinkingChange};
use segno_model::store::{Level, SessionLog, SessionStore, StoreError};

cases! { "creation":
    /// Constructing a session leaves nothing behind until its first append. Covers: MS1, G12.
    nothing_exists_before_the_first_append;
    /// The first append writes the header as line 1 and the drafts behind it. Covers: ST1, EV1.
    the_header_is_line_one;
    /// Every fact of the header comes back as it was given. Covers: EV1, EV5, LK18.
    the_header_comes_back_whole;
    /// Two appends give a header and two linked lines, and the tip is the last. Covers: ST1.
    two_appends_are_linked;
    /// The first batch may hold nothing but settings. Covers: MS1, MS2.
    settings_alone_begin_a_session;
    /// A model that a person chose makes a session that is listed, even without a message. Covers: MS3.
    an_explicit_choice_alone_is_listed;
    /// A name, a level or a message as the first record carries the seed model along. Covers: MS2, MS4.
    the_seed_travels_with_the_first_record;
    /// An existing session is never overwritten: the second creator is refused and changes no byte.
    /// Covers: MS6, G5.
    creation_is_exclusive;
    /// A refused creator's memory is as before. Covers: MS6, MS8.
    a_refused_creator_remembers_nothing;
    /// A header among the drafts is refused and nothing comes into being. Covers: ST3.
    a_header_as_a_draft_is_refused;
    /// An empty first batch is refused and nothing comes into being. Covers: MS1.
    an_empty_first_batch_is_refused;
    /// A first record that is too long is refused, and a better one begins the session. Covers: MS7, MS8.
    an_overlong_first_record_is_refused;
    /// A first batch that was acknowledged as synced survives power loss whole. Covers: G1, EV1.
    a_synced_beginning_survives_a_crash;
    /// A first batch that was only written may vanish, and what remains opens. Covers: G1, G4.
    a_written_beginning_may_vanish;
    /// The list names every session with its size, and only those. Covers: MG4.
    the_list_names_every_session;
    /// Sessions begun in the same instant have different ids and do not mix. Covers: #22, EV7.
    sessions_of_one_instant_do_not_mix;
    /// A session that was given up before its first append can be begun by somebody else. Covers: MS6.
    an_abandoned_beginning_blocks_nobody;
    /// A session without any message is still opened, and continued. Covers: MG8, MS3.
    a_session_without_messages_continues;
}

async fn nothing_exists_before_the_first_append<H: Bench>(desk: Desk<H>) {
    let (id, log) = desk.unborn();
    assert!(desk.bench.log(&id).is_none());
    assert!(desk.bench.store().list().await.expect("lists").is_empty());
    let elsewhere = desk.bench.elsewhere();
    assert!(
        matches!(elsewhere.read(&id).await, Err(StoreError::NotFound(missing)) if missing == id)
    );
    assert!(matches!(elsewhere.open(&id).await, Err(StoreError::NotFound(_))));
    drop(log);
    assert!(elsewhere.list().await.expect("lists").is_empty());
}

async fn the_header_is_line_one<H: Bench>(desk: Desk<H>) {
    let (id, log, _) = desk.begun(vec![prompt("a"), answer("b")]).await;
    let all = desk.scan(&id).await;
    assert_eq!(all.kinds(), ["session", "message", "message"]);
    assert_eq!(all.seqs(), [0, 1, 2]);
    let Body::Session(header) = all.records[0].body() else { panic!("{:?}", all.records[0]) };
    assert_eq!((&header.id, &**header), (&id, log.header()));
}

async fn the_header_comes_back_whole<H: Bench>(desk: Desk<H>) {
    let mut header = desk.new_header();
    header.project.git_common_dir = Some("/home/user/project/.git".into());
    header.project.root_commit = Some("c0ffee".into());
    header.git = Some(GitFacts { branch: None, commit: Some("beef".into()), dirty: true });
    header.origin = Some(Origin {
        kind: OriginKind::Import,
        of: "other-1".into(),
        up_to: Some(9),
        parent: None,
    });
    header.launch =
        Some(serde_json::json!({"parent": "somebody", "role": {"name": "scout"}, "later": 7}));
    let mut log = desk.bench.store().create(header.clone());
    desk.put(&mut log, vec![prompt("a")]).await;
    assert_eq!(log.header(), &header);
    assert_eq!(desk.read(&header.id).await.header, header);
    drop(log);
    assert_eq!(desk.open(&header.id).await.log.header(), &header);
}

async fn two_appends_are_linked<H: Bench>(desk: Desk<H>) {
    let (id, mut log, first) = desk.begun(vec![prompt("a")]).await;
    let second = desk.put(&mut log, vec![answer("b")]).await;
    let all = desk.scan(&id).await;
    assert_eq!(all.records.len(), 3);
    assert_eq!(all.records[1].envelope.parent, None);
    assert_eq!(all.records[2].envelope.parent, Some(first[0].seq()));
    assert_eq!(log.state().tip(), Some(second[0].pos()));
}

async fn settings_alone_begin_a_session<H: Bench>(desk: Desk<H>) {
    let level = Body::Thinking(ThinkingChange { level: "low".into() });
    let (id, log, records) = desk.begun(vec![level]).await;
    assert_eq!((records.len(), log.state().tip()), (1, None));
    assert_eq!(desk.scan(&id).await.kinds(), ["session", "thinking"]);
    assert_eq!(desk.read(&id).await.state.in_force.thinking.as_deref(), Some("low"));
}

fn chosen() -> Body {
    set_model(&model().id, true)
}

fn seed() -> Body {
    set_model(&model().id, false)
}

async fn an_explicit_choice_alone_is_listed<H: Bench>(desk: Desk<H>) {
    let (id, log, _) = desk.begun(vec![chosen()]).await;
    assert!(log.state().in_force.model_chosen);
    let listed = desk.bench.store().list().await.expect("lists");
    assert_eq!(listed.into_iter().map(|l| l.id).collect::<Vec<_>>(), [id]);
}

async fn the_seed_travels_with_the_first_record<H: Bench>(desk: Desk<H>) {
    let name = Body::Name(Name { name: "n".into() });
    let level = Body::Thinking(ThinkingChange { level: "low".into() });
    for first in [name, level, prompt("a")] {
        let (id, _) = desk.closed(vec![seed(), first]).await;
        let in_force = desk.open(&id).await.log.state().in_force.clone();
        assert_eq!((in_force.model, in_force.model_chosen), (Some(model()), false));
    }
}

async fn creation_is_exclusive<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("the first")]).await;
    let before = desk.bytes(&id);
    for store in [&desk.bench.elsewhere(), desk.bench.store()] {
        let mut second = store.create(header(id.clone()));
        let refused = desk.append(&mut second, vec![prompt("late")], Level::Synced).await;
        assert!(matches!(refused, Err(StoreError::Exists(_))), "{refused:?}");
        assert_eq!(desk.bytes(&id), before);
    }
}

async fn a_refused_creator_remembers_nothing<H: Bench>(desk: Desk<H>) {
    let header = desk.new_header();
    let mut first = desk.bench.store().create(header.clone());
    let mut second = desk.bench.elsewhere().create(header.clone());
    desk.put(&mut first, vec![prompt("won")]).await;
    let refused = desk.append(&mut second, vec![prompt("lost")], Level::Synced).await;
    assert!(refused.is_err());
    assert_eq!((second.state().next_seq, second.state().tip()), (0, None));
    desk.put(&mut first, vec![answer("goes on")]).await;
    assert_eq!(desk.scan(&header.id).await.texts(), ["won", "goes on"]);
}

async fn a_header_as_a_draft_is_refused<H: Bench>(desk: Desk<H>) {
    let (id, mut log) = desk.unborn();
    let line_one = Body::Session(Box::new(log.header().clone()));
    let refused = desk.append(&mut log, vec![line_one], Level::Synced).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert!(desk.bench.log(&id).is_none());
}

async fn an_empty_first_batch_is_refused<H: Bench>(desk: Desk<H>) {
    let (id, mut log) = desk.unborn();
    let refused = log.append(Vec::new(), Level::Synced).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert!(desk.bench.log(&id).is_none());
    assert!(desk.bench.store().list().await.expect("lists").is_empty());
}

async fn an_overlong_first_record_is_refused<H: Bench>(desk: Desk<H>) {
    let (id, mut log) = desk.unborn();
    let refused = desk.append(&mut log, vec![prompt(&"x".repeat(1 << 20))], Level::Synced).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert!(desk.bench.log(&id).is_none());
    desk.put(&mut log, vec![prompt("short")]).await;
    assert_eq!(desk.scan(&id).await.texts(), ["short"]);
}

async fn a_synced_beginning_survives_a_crash<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    let (id, _log, _) = desk.begun(vec![prompt("a"), answer("b")]).await;
    desk.bench.crash(0);
    assert_eq!(texts(&desk.open(&id).await.active.records), ["a", "b"]);
}

async fn a_written_beginning_may_vanish<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    let (id, mut log) = desk.unborn();
    desk.write(&mut log, vec![prompt("a")]).await;
    desk.bench.crash(0);
    let elsewhere = desk.bench.elsewhere();
    for listed in elsewhere.list().await.expect("lists") {
        assert_eq!(listed.id, id);
        let left = texts(&desk.open(&id).await.active.records);
        assert!(left.is_empty() || left == ["a"], "{left:?}");
    }
}

async fn the_list_names_every_session<H: Bench>(desk: Desk<H>) {
    let mut expected = Vec::new();
    for n in 1..=5 {
        let (id, _) = desk.closed(vec![prompt(&"x".repeat(n))]).await;
        expected.push((desk.bytes(&id).len() as u64, id));
    }
    let (_unborn, _log) = desk.unborn();
    let list = desk.bench.elsewhere().list().await.expect("lists");
    let mut listed: Vec<_> = list.into_iter().map(|l| (l.bytes, l.id)).collect();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
}

async fn sessions_of_one_instant_do_not_mix<H: Bench>(desk: Desk<H>) {
    let mut logs = Vec::new();
    for n in 0..12 {
        desk.clock().set(crate::sim_clock::EPOCH);
        logs.push((n, desk.unborn()));
    }
    for (n, (_, log)) in &mut logs {
        desk.put(log, vec![prompt(&format!("session {n}"))]).await;
    }
    for (n, (id, _)) in &logs {
        assert_eq!(desk.scan(id).await.texts(), [format!("session {n}")]);
    }
}

async fn an_abandoned_beginning_blocks_nobody<H: Bench>(desk: Desk<H>) {
    let header = desk.new_header();
    let given_up = desk.bench.store().create(header.clone());
    let mut other = desk.bench.elsewhere().create(header.clone());
    desk.put(&mut other, vec![prompt("mine")]).await;
    drop(given_up);
    desk.put(&mut other, vec![answer("still mine")]).await;
    assert_eq!(desk.scan(&header.id).await.texts(), ["mine", "still mine"]);
}

async fn a_session_without_messages_continues<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![chosen()]).await;
    let mut opened = desk.open(&id).await;
    let records = desk.put(&mut opened.log, vec![prompt("at last")]).await;
    assert_eq!(records[0].envelope.parent, None);
    assert_eq!(desk.read(&id).await.state.tip(), Some(records[0].pos()));
}
