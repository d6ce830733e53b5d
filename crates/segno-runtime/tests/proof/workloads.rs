//! What is done while power may be lost.
//!
//! Responsible for: a name, a beginning and the deeds of each workload. Each stops at the first error, as
//! a process that is dead does. Must not: check anything.

use crate::scene::{
    Around, EDITED, Say, Told, id, prompt, prompt_with, resume, send, store, take_up_with, work_off,
};
use segno_model::Timestamp;
use segno_model::record::*;
use segno_model::store::{ForkPoint, SessionStore as _};
use segno_runtime::{ModelErrorKind, RunError, Session, StopKind};
use segno_store::FileLog;
use segno_store::disk::{Disk as _, DiskFile as _, Writes};
use segno_testkit::sessions;
use segno_testkit::sim_disk::SimDisk;
use std::path::Path;

pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// The disk before, everything on it durable, and what was told until then.
    pub(crate) prepare: fn() -> (SimDisk, Told),
    pub(crate) act: fn(&SimDisk, &mut Told),
}

type Log = FileLog<SimDisk>;

/// All of them.
pub(crate) fn all() -> Vec<Workload> {
    let mut all = compactions();
    all.extend([
        Workload { name: "plain", prepare: empty, act: |disk, told| done(plain(disk, told)) },
        Workload { name: "tools", prepare: empty, act: |disk, told| done(tools(disk, told)) },
        Workload { name: "edit", prepare: empty, act: |disk, told| done(edit(disk, told)) },
        Workload { name: "stop", prepare: empty, act: |disk, told| done(stop(disk, told)) },
        Workload { name: "fork", prepare: after_tools, act: |disk, told| done(fork(disk, told)) },
        Workload {
            name: "compaction",
            prepare: after_turns,
            act: |disk, told| done(compaction(disk, told)),
        },
        Workload {
            name: "admission",
            prepare: after_turns,
            act: |disk, told| done(admission(disk, told)),
        },
        Workload { name: "branches", prepare: after_turns, act: |d, told| done(branches(d, told)) },
        Workload {
            name: "recovery",
            prepare: in_the_middle_of_tools,
            act: |disk, told| done(go_on(disk, told)),
        },
        Workload {
            name: "recovery-edit",
            prepare: in_the_middle_of_an_edit,
            act: |disk, told| done(go_on(disk, told)),
        },
        Workload {
            name: "recovery-stop",
            prepare: in_the_middle_of_a_stop,
            act: |disk, told| done(go_on(disk, told)),
        },
        Workload {
            name: "taking-up",
            prepare: in_the_middle_of_tools,
            act: |disk, told| done(take_it_up(disk, told)),
        },
        Workload {
            name: "taking-up-edit",
            prepare: in_the_middle_of_an_edit,
            act: |disk, told| done(take_it_up(disk, told)),
        },
        Workload {
            name: "taking-up-stop",
            prepare: in_the_middle_of_a_stop,
            act: |disk, told| done(take_it_up(disk, told)),
        },
        Workload { name: "keyed", prepare: empty, act: |disk, told| done(keyed(disk, told)) },
        Workload { name: "background", prepare: empty, act: |d, told| done(background(d, told)) },
        Workload {
            name: "taking-up-keyed",
            prepare: in_the_middle_of_a_keyed_call,
            act: |disk, told| done(take_it_up(disk, told)),
        },
        Workload {
            name: "taking-up-background",
            prepare: in_the_middle_of_the_background,
            act: |disk, told| done(take_it_up(disk, told)),
        },
        Workload {
            name: "recovery-torn",
            prepare: with_a_torn_tail,
            act: |disk, told| done(go_on(disk, told)),
        },
    ]);
    all
}

/// Contexts that are made smaller, in every way that ends.
fn compactions() -> Vec<Workload> {
    vec![
        Workload {
            name: "compaction-by-itself",
            prepare: after_turns,
            act: |disk, told| done(narrow(disk, told, 200, &[Say::Text("yes")])),
        },
        Workload {
            name: "compaction-refused",
            prepare: after_turns,
            act: |disk, told| {
                let plan = [Say::Rambles, Say::Rambles, Say::Text("yes"), Say::Text("and")];
                done(narrow(disk, told, 200, &plan));
            },
        },
        Workload {
            name: "compaction-stopped",
            prepare: after_turns,
            act: |disk, told| {
                done(narrow(disk, told, 200, &[Say::EndedIn("<summ", StopKind::User)]));
            },
        },
        Workload {
            name: "compaction-too-long",
            prepare: after_turns,
            act: |disk, told| {
                let too_long = Say::Fails("", ModelErrorKind::TooLong);
                done(narrow(disk, told, 9_000, &[too_long, Say::Text("yes")]));
            },
        },
        Workload {
            name: "compaction-taken-up",
            prepare: in_the_middle_of_a_compaction,
            act: |disk, told| done(take_it_up(disk, told)),
        },
        Workload {
            name: "compaction-own-state",
            prepare: after_turns,
            act: |disk, told| done(stated(disk, told, &[Say::Text("yes")])),
        },
        Workload {
            name: "compaction-own-state-fails",
            prepare: after_turns,
            act: |disk, told| {
                let refused = Say::Fails("", ModelErrorKind::Refused);
                done(stated(disk, told, &[refused, Say::Text("yes")]));
            },
        },
        Workload {
            name: "compaction-own-state-stopped",
            prepare: after_turns,
            act: |disk, told| done(stated(disk, told, &[Say::EndedIn("", StopKind::User)])),
        },
        Workload { name: "pruning", prepare: empty, act: |disk, told| done(pruning(disk, told)) },
    ]
}

/// What fails, fails because the process is dead.
fn done<T, E>(result: Result<T, E>) {
    drop(result);
}

pub(crate) fn empty() -> (SimDisk, Told) {
    let disk = SimDisk::new(1);
    // The project is there for good.
    let made = disk.create_dir(Path::new("/project")).and_then(|()| {
        let file = disk.create_new(Path::new(EDITED), Writes::Sequential)?;
        file.write(b"before")?;
        file.sync_all()?;
        disk.sync_dir(Path::new("/project"))?;
        disk.sync_dir(Path::new("/"))
    });
    made.unwrap_or_else(|e| panic!("an empty disk takes a file: {e}"));
    (disk, Told::default())
}

fn create(disk: &SimDisk) -> Session<Log> {
    Session::new(store(disk).create(sessions::header(id(1))), crate::scene::clock())
}

fn reopen(disk: &SimDisk) -> Result<Session<Log>, String> {
    resume(disk, &id(1))
}

fn text(error: &RunError) -> String {
    error.to_string()
}

/// Two turns of a new session, a third one after a reopening, with prompts of all lengths.
fn plain(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = create(disk);
    prompt(&mut session, "one", &[Say::Text("first")], disk, told).map_err(|e| text(&e))?;
    let long = format!("two {}", "ab ".repeat(250));
    prompt(&mut session, &long, &[Say::Text("second")], disk, told).map_err(|e| text(&e))?;
    drop(session);
    let mut session = reopen(disk)?;
    prompt(&mut session, "three", &[Say::Text("third")], disk, told).map_err(|e| text(&e))?;
    Ok(())
}

/// Calls that run together and one after the other, and a second round.
fn tools(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = create(disk);
    let plan = [
        Say::Calls(&[("r1", "read"), ("a1", "act"), ("r2", "big"), ("a2", "act")]),
        Say::Calls(&[("a3", "act")]),
        Say::Text("done"),
    ];
    prompt(&mut session, "work", &plan, disk, told).map(drop).map_err(|e| text(&e))
}

fn edit(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = create(disk);
    let plan = [
        Say::Calls(&[("e1", "edit"), ("r1", "read")]),
        Say::Calls(&[("e2", "edit"), ("a1", "act")]),
        Say::Text("edited"),
    ];
    prompt(&mut session, "edit it", &plan, disk, told).map(drop).map_err(|e| text(&e))
}

/// A stop while a tool runs, one in the middle of a reply, and a turn behind them.
fn stop(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = create(disk);
    let plan = [Say::Calls(&[("a1", "act"), ("w1", "wait"), ("a2", "act")])];
    prompt(&mut session, "wait", &plan, disk, told).map_err(|e| text(&e))?;
    prompt(&mut session, "say", &[Say::EndedIn("half a", StopKind::User)], disk, told)
        .map_err(|e| text(&e))?;
    prompt(&mut session, "again", &[Say::Text("now")], disk, told).map_err(|e| text(&e))?;
    Ok(())
}

/// Calls that a service can be asked about, before and behind ones that it cannot.
fn keyed(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = create(disk);
    let plan = [
        Say::Calls(&[("k1", "keyed"), ("r1", "read")]),
        Say::Calls(&[("a1", "act"), ("k2", "keyed")]),
        Say::Text("sent"),
    ];
    prompt(&mut session, "send it", &plan, disk, told).map(drop).map_err(|e| text(&e))
}

/// What goes on in the background, its end, and another one in a session that was opened again.
fn background(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = create(disk);
    let plan = [Say::Calls(&[("b1", "behind")]), Say::Calls(&[("a1", "act")]), Say::Text("begun")];
    prompt(&mut session, "begin it", &plan, disk, told).map_err(|e| text(&e))?;
    drop(session);
    let mut session = reopen(disk)?;
    let plan = [Say::Calls(&[("b2", "behind")]), Say::Text("again")];
    prompt(&mut session, "once more", &plan, disk, told).map(drop).map_err(|e| text(&e))
}

fn after_tools() -> (SimDisk, Told) {
    let (disk, mut told) = empty();
    done(tools(&disk, &mut told));
    (disk, told)
}

fn after_turns() -> (SimDisk, Told) {
    let (disk, mut told) = empty();
    done(plain(&disk, &mut told));
    (disk, told)
}

/// Others send while nobody has the session and while the model thinks, some of it twice or under an id
/// that is taken; what may be delivered is.
fn admission(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let to = id(1);
    for (input, words, kind) in [
        ("s0", "before anybody looks", InputKind::Queue),
        ("s0", "before anybody looks", InputKind::Queue),
        ("s0", "something else", InputKind::Steer),
    ] {
        send(disk, &to, (input, words, kind), &told.admitted);
    }
    let mut session = reopen(disk)?;
    let plan = [
        Say::Sent("s1", "this way", InputKind::Steer),
        Say::Sent("s2", "and then", InputKind::Queue),
        Say::Calls(&[("m1", "act")]),
        Say::Sent("s1", "this way", InputKind::Steer),
        Say::Sent("s3", "or that way", InputKind::Steer),
        Say::Text("there"),
    ];
    prompt(&mut session, "listen", &plan, disk, told).map_err(|e| text(&e))?;
    work_off(&mut session, &Around::still(disk), told).map_err(|e| text(&e))
}

/// A copy of a session, and a turn in it.
fn fork(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let at = Timestamp(1_764_450_000_000);
    let (from, header) = (id(1), sessions::header(id(2)));
    let forked = crate::scene::now(store(disk).fork(&from, ForkPoint::Whole, header, at));
    let mut session = resume(disk, &forked.map_err(|e| e.to_string())?)?;
    let plan = [Say::Calls(&[("a9", "act")]), Say::Text("forked")];
    prompt(&mut session, "in the copy", &plan, disk, told).map(drop).map_err(|e| text(&e))
}

/// A compaction that fails, one that is done, and a turn on what is left.
fn compaction(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = reopen(disk)?;
    let failed = Compaction::marker(CompactionState::Failed, Some("no answer".to_owned()));
    let kept = session.records().iter().rfind(|r| r.is_node()).map(segno_model::Record::pos);
    let finished = Compaction {
        summary: Some(Text::Inline("What was said before.".to_owned())),
        first_kept: kept,
        ..Compaction::marker(CompactionState::Done, None)
    };
    for compaction in [failed, finished] {
        crate::scene::now(async {
            session.begin_compaction().await?;
            session.end_compaction(compaction).await
        })
        .map_err(|e| e.to_string())?;
    }
    prompt(&mut session, "shorter", &[Say::Text("yes")], disk, told).map_err(|e| text(&e))?;
    Ok(())
}

/// A turn of a session whose model has a small window, and one more.
fn narrow(disk: &SimDisk, told: &mut Told, window: u64, plan: &[Say]) -> Result<(), String> {
    let around = Around { window: Some(window), ..Around::still(disk) };
    twice(disk, told, &around, plan)
}

/// The same where the provider keeps states of its own.
fn stated(disk: &SimDisk, told: &mut Told, plan: &[Say]) -> Result<(), String> {
    let around = Around { window: Some(200), states: true, ..Around::still(disk) };
    twice(disk, told, &around, plan)
}

fn twice(disk: &SimDisk, told: &mut Told, around: &Around<'_>, plan: &[Say]) -> Result<(), String> {
    let mut session = reopen(disk)?;
    for (text, plan) in [("shorter", plan), ("on", &[Say::Text("there")][..])] {
        told.tried.push(text.to_owned());
        prompt_with(&mut session, text, plan, around, told).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Long outputs, until the old ones are left out.
fn pruning(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = create(disk);
    let around = Around { window: Some(2_400), ..Around::still(disk) };
    let plan = [
        Say::Calls(&[("p1", "page")]),
        Say::Calls(&[("p2", "page")]),
        Say::Calls(&[("p3", "page"), ("a1", "act")]),
        Say::Calls(&[("p4", "page")]),
        Say::Calls(&[("p5", "page")]),
        Say::Calls(&[("a2", "act")]),
        Say::Text("enough"),
    ];
    told.tried.push("read it all".to_owned());
    prompt_with(&mut session, "read it all", &plan, &around, told).map_err(|e| text(&e))?;
    if session.state().in_force.pruned.is_empty() {
        return Err("nothing was left out".to_owned());
    }
    Ok(())
}

/// Power is lost while a summary is made.
fn in_the_middle_of_a_compaction() -> (SimDisk, Told) {
    let (disk, mut told) = after_turns();
    disk.stop_before_change(9);
    done(narrow(&disk, &mut told, 200, &[Say::Text("yes")]));
    let states = disk.crash_states();
    (states.nth(states.total() - 1), told)
}

/// The tip moves back, and another branch grows.
fn branches(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = reopen(disk)?;
    let first = session.records().iter().find(|r| r.is_node()).map(segno_model::Record::pos);
    crate::scene::now(session.navigate(first)).map_err(|e| e.to_string())?;
    let plan = [Say::Calls(&[("b1", "act")]), Say::Text("elsewhere")];
    prompt(&mut session, "other", &plan, disk, told).map_err(|e| text(&e))?;
    crate::scene::now(session.set_name("two ways")).map_err(|e| e.to_string())
}

/// What is left of a session goes on; its tools find out what became of their effects.
fn go_on(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = reopen(disk)?;
    let plan = [Say::Calls(&[("g1", "act")]), Say::Text("on")];
    prompt(&mut session, "go on", &plan, disk, told).map(drop).map_err(|e| text(&e))
}

/// What was interrupted is taken up, and another turn follows.
fn take_it_up(disk: &SimDisk, told: &mut Told) -> Result<(), String> {
    let mut session = reopen(disk)?;
    let plan = [Say::Calls(&[("t1", "act"), ("t2", "edit")]), Say::Text("taken up")];
    take_up_with(&mut session, &plan, &Around::still(disk), told).map_err(|e| text(&e))?;
    prompt(&mut session, "next", &[Say::Text("yes")], disk, told).map_err(|e| text(&e))?;
    Ok(())
}

type Deeds = fn(&SimDisk, &mut Told) -> Result<(), String>;

/// Power is lost in the middle of something; everything that was on its way to the disk arrives, or
/// nothing of it.
fn cut_off(deeds: Deeds, change: u64, everything: bool) -> (SimDisk, Told) {
    let (disk, mut told) = empty();
    disk.stop_before_change(change);
    done(deeds(&disk, &mut told));
    let states = disk.crash_states();
    (states.nth(if everything { states.total() - 1 } else { 0 }), told)
}

fn in_the_middle_of_tools() -> (SimDisk, Told) {
    cut_off(tools, 27, true)
}

fn in_the_middle_of_an_edit() -> (SimDisk, Told) {
    cut_off(edit, 31, true)
}

fn in_the_middle_of_a_stop() -> (SimDisk, Told) {
    cut_off(stop, 27, true)
}

/// The first moment at which what is on the disk is like this.
fn cut_off_when(
    deeds: Deeds,
    begin: fn() -> (SimDisk, Told),
    is_it: fn(&Session<Log>) -> bool,
) -> (SimDisk, Told) {
    for change in 1..400 {
        let (disk, mut told) = begin();
        disk.stop_before_change(change);
        done(deeds(&disk, &mut told));
        let states = disk.crash_states();
        let left = states.nth(states.total() - 1);
        if reopen(&left).is_ok_and(|session| is_it(&session)) {
            return (left, told);
        }
    }
    panic!("it never is like that")
}

fn in_the_middle_of_a_keyed_call() -> (SimDisk, Told) {
    cut_off_when(keyed, empty, |session| {
        session.state().in_force.open_actions.iter().any(|open| open.action.call_id == "k2")
    })
}

/// Its result is there, and its end was not told.
fn in_the_middle_of_the_background() -> (SimDisk, Told) {
    cut_off_when(background, empty, |session| {
        let now = &session.state().in_force;
        !now.open_background.is_empty() && now.open_run.is_some()
    })
}

/// A line that ends in zeros.
fn with_a_torn_tail() -> (SimDisk, Told) {
    let (disk, mut told) = empty();
    disk.stop_before_change(22);
    done(plain(&disk, &mut told));
    let states = disk.crash_states();
    (states.nth(states.total() / 2), told)
}

/// The workloads reach what they are about: each of these leaves the records that it is named for.
#[test]
fn workloads_of_compaction_do_what_they_are_named_for() {
    let kinds = |name: &str| {
        let workload =
            all().into_iter().find(|w| w.name == name).unwrap_or_else(|| panic!("{name}"));
        let (disk, mut told) = (workload.prepare)();
        (workload.act)(&disk, &mut told);
        let session = reopen(&disk).unwrap_or_else(|e| panic!("{e}"));
        let now = session.state().in_force.clone();
        let story = told.story();
        let failed = story.matches("\"state\":\"failed\"").count();
        (now.totals.compactions, failed, now.pruned.len(), now.last_end)
    };
    let completed = Some(RunEnd::Completed);
    assert_eq!(kinds("compaction-by-itself"), (1, 0, 0, completed));
    assert_eq!(kinds("compaction-refused"), (0, 1, 0, completed));
    assert_eq!(kinds("compaction-too-long"), (1, 0, 0, completed));
    assert_eq!(kinds("compaction-taken-up"), (0, 1, 0, completed));
    assert_eq!(kinds("pruning"), (0, 0, 2, completed));
    let (compactions, failed, ..) = kinds("compaction-stopped");
    assert_eq!((compactions, failed), (1, 1), "it is stopped, and the next run makes one");
    for (name, compactions, failed) in [
        ("compaction-own-state", 1, 0),
        ("compaction-own-state-fails", 1, 0),
        ("compaction-own-state-stopped", 1, 1),
    ] {
        let (made, broken, ..) = kinds(name);
        assert_eq!((made, broken), (compactions, failed), "{name}");
    }
}
