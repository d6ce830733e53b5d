//! Whole processes: opening a session for resume, and starting the command.
//!
//! Responsible for: time from the start of a process to its answer, and its peak memory. Must not:
//! measure what a process does inside.

use crate::Done;
use crate::logs;
use crate::logs::{now, put_log};
use crate::measure::{Pairs, Row, median, show, timed};
use segno_model::SessionId;
use segno_model::store::{HeldSession, Judged, SessionStore};
use segno_runtime::Session;
use segno_store::{FileStore, RealDisk, SystemClock};
use segno_testkit::sessions::{self, Shape};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Arguments of this binary's own children.
pub(crate) const OPEN: &str = "--open";
pub(crate) const NOTHING: &str = "--nothing";

const ROUNDS: usize = 11;
const MB: u64 = 1 << 20;

/// The child: opens a session, builds the first request's context, and tells what that took.
pub(crate) fn opening(home: &Path, id: &str) -> Done<()> {
    let store = FileStore::new(RealDisk, home);
    let held = now(store.open(&SessionId::parse(id)?))?;
    let Judged::Sound(opened) = now(held.judge())? else { return Err("damaged".into()) };
    let read = opened.active.bytes_read;
    let session = Session::resume(opened, Arc::new(SystemClock));
    let messages = session.context(&sessions::model()).messages.len();
    crate::say(&format!("{read} {} {messages}", peak_memory()?));
    Ok(())
}

/// In bytes, as the kernel counts it for this process.
fn peak_memory() -> Done<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

/// Logs of growing length with the same live context.
pub(crate) fn open(home: &Path) -> Done<Vec<Row>> {
    let store = FileStore::new(RealDisk, home);
    let mut logs = Vec::new();
    for size in [1, 10, 100, 1024] {
        logs.push((size, put_log(&store, Shape::long(size * MB, 6))?.0));
    }
    let mut times = vec![Vec::new(); logs.len()];
    let mut told = vec![String::new(); logs.len()];
    let mut nothing = Vec::new();
    for _ in 0..ROUNDS {
        for (i, (_, id)) in logs.iter().enumerate() {
            let (took, text) = run(this(&[OPEN, &home.to_string_lossy(), id.as_str()])?)?;
            times[i].push(took);
            told[i] = text;
        }
        nothing.push(run(this(&[NOTHING])?)?.0);
    }
    let empty = show(median(nothing));
    let base = times[0].clone();
    let mut rows = Vec::new();
    for ((times, told), (size, _)) in times.into_iter().zip(&told).zip(&logs) {
        let numbers: Vec<u64> = told.split_whitespace().flat_map(str::parse).collect();
        let [read, memory, messages] = numbers[..] else { return Err("no figures".into()) };
        let what = format!("open {size} MB: {messages} messages, {} kB read", read / 1024);
        rows.push(Pairs { ours: times, floor: base.clone() }.row(&what, "1 MB", 1.5));
        rows.push(Row {
            what: format!("peak memory of opening {size} MB"),
            figure: format!("(an empty process takes {empty})"),
            value: format!("{:.1} MB", memory as f64 / MB as f64),
            budget: "64 MB".to_owned(),
            met: memory < 64 * MB,
        });
    }
    fs::remove_dir_all(home)?;
    Ok(rows)
}

/// Runs a program until it has said everything; gives the time to its first output.
pub(crate) fn run(mut command: Command) -> Done<(Duration, String)> {
    let (mut out, said) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
    let mut bytes = vec![0; 4096];
    let (took, first) = timed(|| {
        let child = command.spawn()?;
        // The write ends that this process still has would keep the reader waiting.
        drop(command);
        out.read(&mut bytes).map(|read| (child, read))
    });
    let (mut child, read) = first?;
    bytes.truncate(read);
    out.read_to_end(&mut bytes)?;
    child.wait()?;
    Ok((took, String::from_utf8(bytes)?))
}

/// This binary as a child.
fn this(args: &[&str]) -> Done<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(args);
    Ok(command)
}

/// The command in an empty home, and the list in a used one.
pub(crate) fn start(home: &Path) -> Done<Vec<Row>> {
    let (empty, used) = (home.join("empty"), home.join("used"));
    fs::create_dir_all(&empty)?;
    logs::used(&used)?;
    let rows = [
        started(&["--version"], &empty, "--version", Duration::from_millis(10))?,
        started(&["list"], &empty, "list", Duration::from_millis(10))?,
        started(
            &["list", "--all"],
            &used,
            "list --all, 10000 sessions",
            Duration::from_millis(50),
        )?,
    ];
    fs::remove_dir_all(home)?;
    Ok(rows.into())
}

/// From the start of a command to its first output; the user has no sessions of other agents.
fn started(args: &[&str], home: &Path, what: &str, budget: Duration) -> Done<Row> {
    let (mut times, mut nothing) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let mut segno = Command::new(env!("CARGO_BIN_EXE_segno"));
        segno.args(args).env("SEGNO_HOME", home).env("HOME", home).current_dir(home);
        let took = run(segno)?.0;
        // The first one makes the catalog.
        if round > 0 {
            times.push(took);
        }
        nothing.push(run(this(&[NOTHING])?)?.0);
    }
    let figure = format!("(an empty program: {})", show(median(nothing)));
    Ok(Row::time(&format!("start to first output, segno {what}"), median(times), budget, figure))
}
