//! What is done while power may be lost.
//!
//! Responsible for: a name, a beginning and the deeds of each workload. Each stops at the first error, as
//! a process that is dead does. Must not: check anything.

use crate::scene::{
    Around, EDITED, Say, Told, id, prompt, resume, send, store, take_up_with, work_off,
};
use segno_model::Timestamp;
use segno_model::record::*;
use segno_model::store::{ForkPoint, SessionStore as _};
use segno_runtime::{RunError, Session, StopKind};
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
    vec![
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
        Workload {
            name: "recovery-torn",
            prepare: with_a_torn_tail,
            act: |disk, told| done(go_on(disk, told)),
        },
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

/// A line that ends in zeros.
fn with_a_torn_tail() -> (SimDisk, Told) {
    let (disk, mut told) = empty();
    disk.stop_before_change(22);
    done(plain(&disk, &mut told));
    let states = disk.crash_states();
    (states.nth(states.total() / 2), told)
}
