//! Cases about admitting inputs and about what waits.
//!
//! Responsible for: G8 on every store. Must not: depend on how an inbox is kept.

use super::desk::{Desk, Log, in_force};
use super::{Ability, Bench, Fault, cases};
use crate::sessions::{answer, prompt};
use segno_model::inbox::admission::Admission;
use segno_model::inbox::{
    InputBody, MAX_ID_BYTES, MAX_INPUT_BYTES, NewInput, Pending, Stage, Words, arrange,
};
use segno_model::record::{
    Body, InputEvent, InputFate, InputKind, Message, Run, RunState, UserMessage,
};
use segno_model::store::{
    Clock, ForkPoint, HeldSession, Judged, Level, SessionLog, SessionStore, StoreError,
};
use segno_model::{Record, SessionId};

cases! { "inbox":
    /// A new input is admitted, and waits as it was sent. Covers: G8.
    a_new_input_is_admitted;
    /// A session that does not exist admits nothing. Covers: G8, MG10.
    no_session_admits_nothing;
    /// A session whose first append never came admits nothing. Covers: G8.
    an_unborn_session_admits_nothing;
    /// The same id with the same content is one input. Covers: G8, #152.
    the_same_again_stands;
    /// Other content under an id is a conflict and changes nothing. Covers: G8.
    other_content_is_a_conflict;
    /// Another kind under an id is a conflict. Covers: G8.
    another_kind_is_a_conflict;
    /// A notice is not what a person said. Covers: G8.
    a_notice_is_other_content;
    /// Admission needs no right, and takes none. Covers: G5, G8.
    admission_takes_no_right;
    /// Inputs wait in the order of admission, whatever the clock says. Covers: G8, #109, #110.
    the_clock_orders_nothing;
    /// Two sessions have nothing in common. Covers: G8.
    ids_are_per_session;
    /// A delivered input waits no more, even before its entry is taken away. Covers: G8.
    a_delivered_input_waits_no_more;
    /// Taking the delivered away leaves the others. Covers: G8, #150.
    clearing_leaves_what_waits;
    /// Nothing is taken away before a record settles it. Covers: G8.
    clearing_takes_nothing_that_waits;
    /// An id stays used after its entry is gone: the first admission stands as delivered. Covers: G8, #152.
    a_delivered_input_stands;
    /// Other content under a delivered id is a conflict for ever. Covers: G8.
    a_delivered_id_is_in_conflict;
    /// So it is in a later process. Covers: G8, #152.
    an_id_stays_used_after_reopening;
    /// So it is after power loss. Covers: G1, G8.
    an_id_stays_used_after_power_loss;
    /// Power loss takes nothing that was acknowledged. Covers: G1, G8, #150.
    power_loss_takes_no_admission;
    /// Power loss right after the delivery loses neither the input nor delivers it twice. Covers: G1, G8.
    a_lost_delivery_is_pending_again;
    /// A withdrawn input stands as withdrawn. Covers: G8.
    a_withdrawn_input_stands;
    /// A parked input still waits, and says so. Covers: G8, G9.
    a_parked_input_waits;
    /// A parked input can be delivered later. Covers: G8, G9.
    a_parked_input_can_be_delivered;
    /// A control is admitted once, too. Covers: G8, G9.
    a_control_is_admitted_once;
    /// Records from before content was recorded do not conflict. Covers: G8, G13.
    an_old_record_stands;
    /// What was there before the right was taken is stale; what comes later is not. Covers: G9, #150.
    what_was_there_before_is_stale;
    /// A person's order holds, for whatever waits when it was given. Covers: G8.
    an_order_holds;
    /// No room is an error, admits nothing that cannot be asked for again, and damages nothing. Covers: G16.
    no_room_admits_nothing;
    /// A failed sync is no acknowledgement; asking again tells. Covers: G1, G8.
    a_failed_sync_is_no_acknowledgement;
    /// An id must be one. Covers: G17.
    ids_are_checked;
    /// An input may be far larger than a record, up to a limit. Covers: G8.
    large_inputs_fit_up_to_a_limit;
    /// The mark changes with what waits, and is 0 when nothing does. Covers: G8.
    the_mark_tells_of_changes;
    /// A fork has the ids of its copied part, and not what waited. Covers: G8.
    a_fork_knows_its_ids;
    /// Many ids stay apart over a long log. Covers: G8, G11.
    many_ids_over_a_long_log;
}

fn steer(id: &str, text: &str) -> NewInput {
    NewInput::new(id, InputBody::Steer(Words::text(text)))
}

fn queue(id: &str, text: &str) -> NewInput {
    NewInput::new(id, InputBody::Queue(Words::text(text)))
}

fn delivery(input: &NewInput) -> Body {
    Body::Message(Box::new(Message::User(input.message().expect("words"))))
}

fn fate(input: &NewInput, fate: InputFate) -> Body {
    Body::Input(input.event(fate))
}

fn ids(pending: &[Pending]) -> Vec<&str> {
    pending.iter().map(|p| p.input.id.as_str()).collect()
}

impl<H: Bench> Desk<H> {
    async fn try_admit(&self, id: &SessionId, input: &NewInput) -> Result<Admission, StoreError> {
        self.bench.elsewhere().admit(id, input, self.clock().now()).await
    }

    /// Admits as another process.
    async fn admit(&self, id: &SessionId, input: &NewInput) -> Admission {
        self.try_admit(id, input).await.expect("it can be asked")
    }

    /// What waits, as another process sees it.
    async fn waiting(&self, id: &SessionId) -> Vec<Pending> {
        let inbox = self.bench.elsewhere().pending(id).await.expect("it can be looked at");
        assert!(inbox.findings.is_empty(), "{:?}", inbox.findings);
        inbox.pending
    }

    /// What waits, as the holder sees it.
    async fn held(&self, log: &mut Log<H>) -> Vec<Pending> {
        log.pending().await.expect("it can be looked at").pending
    }

    /// Looks, delivers everything, and clears.
    async fn deliver(&self, log: &mut Log<H>) -> Vec<Record> {
        let bodies: Vec<Body> = self.held(log).await.iter().map(|p| delivery(&p.input)).collect();
        let records = self.put(log, bodies).await;
        log.clear_inbox().await.expect("it can be cleared");
        records
    }
}

async fn a_new_input_is_admitted<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let input = steer("in-1", "and tests");
    assert_eq!(desk.admit(&id, &input).await, Admission::Admitted);
    for pending in [desk.waiting(&id).await, desk.held(&mut log).await] {
        assert_eq!(pending.iter().map(|p| &p.input).collect::<Vec<_>>(), [&input]);
    }
}

async fn no_session_admits_nothing<H: Bench>(desk: Desk<H>) {
    let id = desk.new_header().id;
    let error = desk.try_admit(&id, &steer("in-1", "a")).await;
    assert!(matches!(error, Err(StoreError::NotFound(_))), "{error:?}");
    assert!(matches!(desk.bench.store().pending(&id).await, Err(StoreError::NotFound(_))));
    assert_eq!(desk.bench.store().inbox_mark(&id).await.expect("a number"), 0);
    assert!(desk.bench.store().list().await.expect("a list").is_empty(), "nothing was created");
}

async fn an_unborn_session_admits_nothing<H: Bench>(desk: Desk<H>) {
    let (id, mut log) = desk.unborn();
    let error = desk.try_admit(&id, &steer("in-1", "a")).await;
    assert!(matches!(error, Err(StoreError::NotFound(_))), "{error:?}");
    assert!(desk.held(&mut log).await.is_empty());
    log.clear_inbox().await.expect("there is nothing to clear");
}

async fn the_same_again_stands<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    desk.admit(&id, &queue("in-1", "b")).await;
    for _ in 0..3 {
        let again = desk.admit(&id, &queue("in-1", "b")).await;
        assert_eq!(again, Admission::Stands(Stage::Pending));
    }
    assert_eq!(desk.waiting(&id).await.len(), 1);
}

async fn other_content_is_a_conflict<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    desk.admit(&id, &queue("in-1", "b")).await;
    let other = desk.admit(&id, &queue("in-1", "c")).await;
    assert_eq!(other, Admission::Conflict(Stage::Pending));
    let waiting = desk.waiting(&id).await;
    assert_eq!(waiting.iter().map(|p| &p.input).collect::<Vec<_>>(), [&queue("in-1", "b")]);
}

async fn another_kind_is_a_conflict<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    desk.admit(&id, &queue("in-1", "b")).await;
    for other in [steer("in-1", "b"), NewInput::new("in-1", InputBody::Stop { run: 1 })] {
        assert_eq!(desk.admit(&id, &other).await, Admission::Conflict(Stage::Pending));
    }
}

async fn a_notice_is_other_content<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    desk.admit(&id, &steer("in-1", "b")).await;
    let words = Words { notice: Some("background".to_owned()), ..Words::text("b") };
    let notice = NewInput::new("in-1", InputBody::Steer(words));
    assert_eq!(desk.admit(&id, &notice).await, Admission::Conflict(Stage::Pending));
}

async fn admission_takes_no_right<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &steer("in-1", "b")).await;
    desk.put(&mut log, vec![answer("b")]).await;
    drop(log);
    desk.admit(&id, &steer("in-2", "c")).await;
    let _open = desk.open(&id).await;
}

async fn the_clock_orders_nothing<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let at = desk.clock().now();
    for (n, hours) in [5, -7, 0, 90, -400].into_iter().enumerate() {
        let at = segno_model::Timestamp(at.0 + hours * 3_600_000);
        let input = queue(&format!("in-{n}"), "b");
        desk.bench.elsewhere().admit(&id, &input, at).await.expect("it is admitted");
    }
    let expected = ["in-0", "in-1", "in-2", "in-3", "in-4"];
    assert_eq!(ids(&desk.waiting(&id).await), expected);
    assert_eq!(ids(&desk.held(&mut log).await), expected);
}

async fn ids_are_per_session<H: Bench>(desk: Desk<H>) {
    let (one, _) = desk.closed(vec![prompt("a")]).await;
    let (two, _) = desk.closed(vec![prompt("a")]).await;
    assert_eq!(desk.admit(&one, &steer("in-1", "b")).await, Admission::Admitted);
    assert!(desk.waiting(&two).await.is_empty());
    assert_eq!(desk.admit(&two, &steer("in-1", "c")).await, Admission::Admitted);
}

async fn a_delivered_input_waits_no_more<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &steer("in-1", "b")).await;
    assert_eq!(desk.held(&mut log).await.len(), 1);
    desk.put(&mut log, vec![delivery(&steer("in-1", "b"))]).await;
    assert!(desk.held(&mut log).await.is_empty());
    assert!(desk.waiting(&id).await.is_empty());
    drop(log);
    // The next holder finds the entry and never delivers it again.
    let mut log = desk.open(&id).await.log;
    assert!(desk.held(&mut log).await.is_empty());
    log.clear_inbox().await.expect("it can be cleared");
    assert_eq!(desk.bench.store().inbox_mark(&id).await.expect("a number"), 0);
}

async fn clearing_leaves_what_waits<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    for n in 1..=3 {
        desk.admit(&id, &queue(&format!("in-{n}"), "b")).await;
    }
    assert_eq!(desk.held(&mut log).await.len(), 3);
    desk.put(&mut log, vec![delivery(&queue("in-1", "b"))]).await;
    log.clear_inbox().await.expect("it can be cleared");
    assert_eq!(ids(&desk.held(&mut log).await), ["in-2", "in-3"]);
    drop(log);
    assert_eq!(ids(&desk.waiting(&id).await), ["in-2", "in-3"]);
}

async fn clearing_takes_nothing_that_waits<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &queue("in-1", "b")).await;
    log.clear_inbox().await.expect("it can be cleared");
    desk.held(&mut log).await;
    desk.put(&mut log, vec![answer("b")]).await;
    log.clear_inbox().await.expect("it can be cleared");
    assert_eq!(ids(&desk.held(&mut log).await), ["in-1"]);
}

async fn a_delivered_input_stands<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &steer("in-1", "b")).await;
    let seq = desk.deliver(&mut log).await[0].seq();
    let again = desk.admit(&id, &steer("in-1", "b")).await;
    assert_eq!(again, Admission::Stands(Stage::Delivered { seq }));
    assert!(desk.held(&mut log).await.is_empty());
}

async fn a_delivered_id_is_in_conflict<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &steer("in-1", "b")).await;
    let seq = desk.deliver(&mut log).await[0].seq();
    for other in [steer("in-1", "c"), queue("in-1", "b")] {
        let answer = desk.admit(&id, &other).await;
        assert_eq!(answer, Admission::Conflict(Stage::Delivered { seq }));
    }
    assert!(desk.waiting(&id).await.is_empty());
}

async fn an_id_stays_used_after_reopening<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &steer("in-1", "b")).await;
    let seq = desk.deliver(&mut log).await[0].seq();
    drop(log);
    let log = desk.open(&id).await.log;
    let stage = Stage::Delivered { seq };
    assert_eq!(desk.admit(&id, &steer("in-1", "b")).await, Admission::Stands(stage));
    drop(log);
    assert_eq!(desk.admit(&id, &steer("in-1", "c")).await, Admission::Conflict(stage));
}

async fn an_id_stays_used_after_power_loss<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &steer("in-1", "b")).await;
    let seq = desk.deliver(&mut log).await[0].seq();
    desk.bench.crash(0);
    drop(log);
    let again = desk.admit(&id, &steer("in-1", "b")).await;
    assert_eq!(again, Admission::Stands(Stage::Delivered { seq }));
    let mut log = desk.open(&id).await.log;
    assert!(desk.held(&mut log).await.is_empty());
}

async fn power_loss_takes_no_admission<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    let (id, _, _) = desk.begun(vec![prompt("a")]).await;
    let sent: Vec<NewInput> = (1..=4).map(|n| queue(&format!("in-{n}"), "b")).collect();
    for input in &sent {
        desk.admit(&id, input).await;
        desk.bench.crash(0);
    }
    let mut log = desk.open(&id).await.log;
    let waiting = desk.held(&mut log).await;
    assert_eq!(waiting.iter().map(|p| p.input.clone()).collect::<Vec<_>>(), sent);
}

async fn a_lost_delivery_is_pending_again<H: Bench>(mut desk: Desk<H>) {
    if !desk.can(Ability::Crash) {
        return;
    }
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &steer("in-1", "b")).await;
    desk.held(&mut log).await;
    desk.write(&mut log, vec![delivery(&steer("in-1", "b"))]).await;
    desk.bench.crash(0);
    drop(log);
    let mut log = desk.open(&id).await.log;
    let waits = !desk.held(&mut log).await.is_empty();
    let all = desk.scan(&id).await;
    let told = all.texts().iter().filter(|text| *text == "b").count();
    assert_eq!(usize::from(waits) + told, 1, "it is lost or there twice");
}

async fn a_withdrawn_input_stands<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let input = queue("in-1", "b");
    desk.admit(&id, &input).await;
    desk.held(&mut log).await;
    let seq = desk.put(&mut log, vec![fate(&input, InputFate::Withdrawn)]).await[0].seq();
    log.clear_inbox().await.expect("it can be cleared");
    let stage = Stage::Withdrawn { seq };
    assert_eq!(desk.admit(&id, &input).await, Admission::Stands(stage));
    assert_eq!(desk.admit(&id, &queue("in-1", "c")).await, Admission::Conflict(stage));
    assert!(desk.held(&mut log).await.is_empty());
}

async fn parked_by_a_stop<H: Bench>(desk: &Desk<H>, log: &mut Log<H>, id: &str) -> u64 {
    let started = RunState::Started { attempt: 1, owner: "me".to_owned() };
    let stopping = RunState::Stopping { parked: vec![id.to_owned()] };
    let run = |state| Body::Run(Run { run: 1, state });
    desk.put(log, vec![run(started), run(stopping)]).await[1].seq()
}

async fn a_parked_input_waits<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &queue("in-1", "b")).await;
    let seq = parked_by_a_stop(&desk, &mut log, "in-1").await;
    log.clear_inbox().await.expect("it can be cleared");
    assert_eq!(ids(&desk.held(&mut log).await), ["in-1"]);
    assert_eq!(log.state().in_force.inputs.parked, ["in-1"]);
    let stage = Stage::Parked { seq };
    assert_eq!(desk.admit(&id, &queue("in-1", "b")).await, Admission::Stands(stage));
    assert_eq!(desk.admit(&id, &queue("in-1", "c")).await, Admission::Conflict(stage));
}

async fn a_parked_input_can_be_delivered<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &queue("in-1", "b")).await;
    parked_by_a_stop(&desk, &mut log, "in-1").await;
    let seq = desk.deliver(&mut log).await[0].seq();
    assert!(log.state().in_force.inputs.parked.is_empty(), "{}", in_force(log.state()));
    let again = desk.admit(&id, &queue("in-1", "b")).await;
    assert_eq!(again, Admission::Stands(Stage::Delivered { seq }));
}

async fn a_control_is_admitted_once<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let stop = NewInput::new("stop-1", InputBody::Stop { run: 1 });
    assert_eq!(desk.admit(&id, &stop).await, Admission::Admitted);
    assert_eq!(desk.admit(&id, &stop).await, Admission::Stands(Stage::Pending));
    assert_eq!(ids(&desk.held(&mut log).await), ["stop-1"]);
    let seq = desk.put(&mut log, vec![fate(&stop, InputFate::Acted)]).await[0].seq();
    log.clear_inbox().await.expect("it can be cleared");
    let stage = Stage::Acted { seq };
    assert_eq!(desk.admit(&id, &stop).await, Admission::Stands(stage));
    let other = NewInput::new("stop-1", InputBody::Stop { run: 2 });
    assert_eq!(desk.admit(&id, &other).await, Admission::Conflict(stage));
    assert!(desk.held(&mut log).await.is_empty());
}

async fn an_old_record_stands<H: Bench>(desk: Desk<H>) {
    let old = UserMessage { input_id: Some("in-1".to_owned()), ..UserMessage::text("b") };
    let (id, records) = desk.closed(vec![Body::Message(Box::new(Message::User(old)))]).await;
    let again = desk.admit(&id, &steer("in-1", "whatever")).await;
    assert_eq!(again, Admission::Stands(Stage::Delivered { seq: records[0].seq() }));
}

async fn what_was_there_before_is_stale<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    desk.admit(&id, &queue("in-1", "b")).await;
    let held = desk.bench.elsewhere().open(&id).await.expect("it is free");
    // Whoever sees that the session is held may count on the holder.
    desk.admit(&id, &queue("in-2", "c")).await;
    let Ok(Judged::Sound(opened)) = held.judge().await else { panic!("it is sound") };
    let mut log = opened.log;
    desk.admit(&id, &queue("in-3", "d")).await;
    let stale: Vec<bool> = desk.held(&mut log).await.iter().map(|p| p.stale).collect();
    assert_eq!(stale, [true, false, false]);
}

async fn an_order_holds<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    for n in 1..=3 {
        desk.admit(&id, &queue(&format!("in-{n}"), "b")).await;
    }
    let order = ["in-3", "in-1", "in-2"].map(str::to_owned).to_vec();
    let before = Some("in-1".to_owned());
    let moved = InputEvent { before, order, ..InputEvent::new("in-3", InputFate::Reordered) };
    desk.put(&mut log, vec![Body::Input(moved)]).await;
    desk.admit(&id, &queue("in-0", "later")).await;
    drop(log);
    let mut log = desk.open(&id).await.log;
    let mut waiting = desk.held(&mut log).await;
    arrange(&mut waiting, &log.state().in_force.inputs);
    assert_eq!(ids(&waiting), ["in-3", "in-1", "in-2", "in-0"]);
}

async fn no_room_admits_nothing<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    for fault in [Fault::WriteNoRoom, Fault::WriteShort] {
        desk.bench.fail_next(fault);
        let error = desk.try_admit(&id, &steer("in-1", &"b".repeat(4000))).await;
        assert!(matches!(error, Err(StoreError::NoRoom(_))), "{error:?}");
        desk.bench.heal();
        assert!(desk.waiting(&id).await.is_empty(), "half an input counts");
    }
    assert_eq!(desk.admit(&id, &steer("in-1", "c")).await, Admission::Admitted);
}

async fn a_failed_sync_is_no_acknowledgement<H: Bench>(desk: Desk<H>) {
    if !desk.can(Ability::Faults) {
        return;
    }
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    desk.bench.fail_next(Fault::Sync);
    assert!(desk.try_admit(&id, &steer("in-1", "b")).await.is_err());
    desk.bench.heal();
    let again = desk.admit(&id, &steer("in-1", "b")).await;
    assert!(matches!(again, Admission::Admitted | Admission::Stands(Stage::Pending)), "{again:?}");
    assert_eq!(desk.waiting(&id).await.len(), 1);
}

async fn ids_are_checked<H: Bench>(desk: Desk<H>) {
    let (id, _) = desk.closed(vec![prompt("a")]).await;
    for bad in ["", "a\nb", "\u{1b}[2J", &"x".repeat(MAX_ID_BYTES + 1)] {
        let error = desk.try_admit(&id, &steer(bad, "b")).await;
        assert!(matches!(error, Err(StoreError::Refused(_))), "{bad:?}: {error:?}");
    }
    let empty = NewInput::new("in-1", InputBody::Steer(Words::default()));
    assert!(matches!(desk.try_admit(&id, &empty).await, Err(StoreError::Refused(_))));
    for good in ["../../etc/passwd", "a/b", ".", "häß", &"x".repeat(MAX_ID_BYTES)] {
        assert_eq!(desk.admit(&id, &steer(good, "b")).await, Admission::Admitted, "{good}");
    }
    assert_eq!(desk.waiting(&id).await.len(), 5);
}

async fn large_inputs_fit_up_to_a_limit<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let large = steer("in-1", &"b".repeat(3 << 20));
    assert_eq!(desk.admit(&id, &large).await, Admission::Admitted);
    assert_eq!(desk.held(&mut log).await[0].input, large);
    let too_large = steer("in-2", &"b".repeat(MAX_INPUT_BYTES));
    assert!(matches!(desk.try_admit(&id, &too_large).await, Err(StoreError::Refused(_))));
}

async fn the_mark_tells_of_changes<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let store = desk.bench.elsewhere();
    let mut seen = vec![store.inbox_mark(&id).await.expect("a number")];
    assert_eq!(seen, [0]);
    for n in 1..=3 {
        desk.admit(&id, &queue(&format!("in-{n}"), "b")).await;
        let mark = store.inbox_mark(&id).await.expect("a number");
        assert!(!seen.contains(&mark), "{mark} again");
        assert_eq!(store.inbox_mark(&id).await.expect("a number"), mark);
        seen.push(mark);
    }
    desk.deliver(&mut log).await;
    assert_eq!(store.inbox_mark(&id).await.expect("a number"), 0);
}

async fn a_fork_knows_its_ids<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    desk.admit(&id, &steer("in-1", "b")).await;
    desk.deliver(&mut log).await;
    desk.admit(&id, &steer("in-2", "c")).await;
    let fork = desk.fork(&id, ForkPoint::Whole).await;
    assert!(desk.waiting(&fork).await.is_empty());
    let again = desk.admit(&fork, &steer("in-1", "b")).await;
    assert!(matches!(again, Admission::Stands(Stage::Delivered { .. })), "{again:?}");
    assert_eq!(desk.admit(&fork, &steer("in-2", "c")).await, Admission::Admitted);
}

async fn many_ids_over_a_long_log<H: Bench>(desk: Desk<H>) {
    let (id, mut log, _) = desk.begun(vec![prompt("a")]).await;
    let input = |n: usize| steer(&format!("in-{n}"), &format!("{n} {}", "x".repeat(20_000)));
    for n in 0..60 {
        desk.put(&mut log, vec![delivery(&input(n)), answer("ok")]).await;
        if n % 7 == 0 {
            // Each looks into a log that grew since.
            for asked in [0, n / 2, n] {
                let again = desk.admit(&id, &input(asked)).await;
                assert!(matches!(again, Admission::Stands(Stage::Delivered { .. })), "{n} {asked}");
            }
            let other = steer(&format!("in-{n}"), "other");
            assert!(matches!(desk.admit(&id, &other).await, Admission::Conflict(_)), "{n}");
        }
    }
    desk.append(&mut log, vec![answer("end")], Level::Synced).await.expect("it is free");
    assert!(desk.waiting(&id).await.is_empty());
    assert_eq!(input(0).body.kind(), InputKind::Steer);
}
