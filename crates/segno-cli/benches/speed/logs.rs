//! Appending, scanning and listing.
//!
//! Responsible for: what the file store does in this process. Must not: measure whole processes.

use crate::Done;
use crate::measure::{Pairs, Row, median, show, timed};
use segno_model::batch::Draft;
use segno_model::record::Message;
use segno_model::store::{Ids, Level, SessionLog, SessionStore};
use segno_model::{Body, SessionId, Timestamp, line};
use segno_store::catalog::{Catalog, Filter};
use segno_store::{FileStore, RealDisk, UuidIds};
use segno_testkit::sessions::{self, Shape};
use std::fs::{self, File, OpenOptions};
use std::future::Future;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The file store waits for nothing but the disk.
pub(crate) fn now<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

/// Puts a generated log into a store; durable, so that its pages can leave memory.
pub(crate) fn put_log(store: &FileStore<RealDisk>, shape: Shape) -> Done<(SessionId, u64)> {
    let id = UuidIds.session_id();
    let draft = Draft::new(Timestamp(0), sessions::prompt("a place for the log"));
    now(store.create(sessions::header(id.clone())).append(vec![draft], Level::Written))?;
    let mut file = std::io::BufWriter::new(File::create(store.log_path(&id)?)?);
    let written = sessions::write_log(&id, shape, &mut file)?;
    file.get_ref().sync_all()?;
    Ok((id, written.bytes))
}

/// Appends of replies of two sizes at both levels, each followed by a bare write of the same bytes; at
/// `written` also by everything that the format and the guarantees ask for, done by hand.
pub(crate) fn append(home: &Path) -> Done<Vec<Row>> {
    let mut rows = Vec::new();
    for (level, count) in [(Level::Synced, 300), (Level::Written, 4000)] {
        for size in [500, 16_000] {
            let appends = appends(&home.join(format!("{level:?}-{size}")), level, size, count)?;
            let Appends { ours, bare, by_hand } = appends;
            let (what, floor, budget) = match level {
                Level::Synced => ("synced", "write + fdatasync", 1.15),
                Level::Written => ("written", "write", 2.0),
            };
            let what = format!("append {size} bytes, {what}");
            rows.push(Pairs { ours: ours.clone(), floor: bare }.row(&what, floor, budget));
            if level == Level::Written {
                let pairs = Pairs { ours, floor: by_hand };
                rows.push(pairs.row(&what, "look + JSON + checksum + write", 1.5));
            }
        }
    }
    Ok(rows)
}

#[derive(Default)]
struct Appends {
    ours: Vec<Duration>,
    bare: Vec<Duration>,
    /// Looks at the path, encodes the reply, checksums the line, writes.
    by_hand: Vec<Duration>,
}

fn appends(home: &Path, level: Level, size: usize, count: usize) -> Done<Appends> {
    let store = FileStore::new(RealDisk, home);
    let id = UuidIds.session_id();
    let mut log = store.create(sessions::header(id.clone()));
    // Text as a session has it: a piece of source code.
    let text: String = include_str!("logs.rs").chars().cycle().take(size).collect();
    let body = sessions::answer(&text);
    now(log.append(vec![Draft::new(Timestamp(0), body.clone())], Level::Synced))?;
    let path = store.log_path(&id)?;
    let file = |name| OpenOptions::new().append(true).create(true).open(home.join(name));
    let (ours, mut bare, mut hand) = (File::open(&path)?, file("bare")?, file("by-hand")?);
    let (mut appends, mut bytes) = (Appends::default(), Vec::new());
    for _ in 0..count {
        let before = log.bytes();
        let drafts = vec![Draft::new(Timestamp(0), body.clone())];
        let (took, done) = timed(|| now(log.append(drafts, level)));
        done?;
        appends.ours.push(took);
        bytes.resize(usize::try_from(log.bytes() - before)?, 0);
        ours.read_exact_at(&mut bytes, before)?;
        let (took, done) = timed(|| {
            bare.write_all(&bytes)?;
            if level == Level::Synced { bare.sync_data() } else { Ok(()) }
        });
        done?;
        appends.bare.push(took);
        if level == Level::Written {
            let (took, done) = timed(|| by_hand(&path, &body, &bytes, &mut hand));
            done?;
            appends.by_hand.push(took);
        }
    }
    Ok(appends)
}

fn by_hand(path: &Path, body: &Body, bytes: &[u8], file: &mut File) -> Done<()> {
    let Body::Message(message) = body else { return Err("a reply is a message".into()) };
    let Message::Assistant(reply) = &**message else { return Err("it is no reply".into()) };
    std::hint::black_box(fs::metadata(path)?);
    std::hint::black_box(serde_json::to_vec(reply)?);
    std::hint::black_box(line::checksum(bytes));
    Ok(file.write_all(bytes)?)
}

/// A whole log in memory, verified record by record.
pub(crate) fn scan(home: &Path) -> Done<Vec<Row>> {
    let store = FileStore::new(RealDisk, home);
    let (id, bytes) = put_log(&store, Shape::long(200 << 20, 6))?;
    let path = store.log_path(&id)?;
    let mut pairs = Pairs::default();
    let mut records = 0;
    for _ in 0..5 {
        records = 0;
        let (took, done) = timed(|| {
            now(store.scan(&id, &mut |_| {
                records += 1;
                true
            }))
        });
        done?;
        pairs.ours.push(took);
        let mut count = Command::new("sh");
        count.args(["-c", "cat \"$0\" | wc -l"]).arg(&path).stdout(Stdio::null());
        let (took, done) = timed(|| count.status());
        done?;
        pairs.floor.push(took);
    }
    let rate = bytes as f64 / 1e6 / median(pairs.ours.clone()).as_secs_f64();
    let what = format!("scan {records} records, {rate:.0} MB/s");
    fs::remove_dir_all(home)?;
    Ok(vec![pairs.row(&what, "cat | wc -l", 2.0)])
}

/// How many sessions are listed.
const MANY: usize = 10_000;

/// Over how many months they are spread.
const MONTHS: usize = 24;

/// A home with many sessions, as years of use leave it; the directory of the months.
pub(crate) fn used(home: &Path) -> Done<PathBuf> {
    let shape = Shape { turns: 2, ..Shape::default() };
    let months = home.join("sessions");
    for n in 0..MANY {
        let id = UuidIds.session_id();
        let month = n * MONTHS / MANY;
        let dir = months.join(format!("20{}-{:02}", 25 + month / 12, 1 + month % 12));
        let dir = dir.join(id.as_str());
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("log.jsonl"), sessions::log_bytes(&id, shape))?;
    }
    Ok(months)
}

/// The list of many sessions: cold (no catalog), and warm against looking at each log once.
pub(crate) fn list(home: &Path) -> Done<Vec<Row>> {
    let store = FileStore::new(RealDisk, home);
    let months = used(home)?;
    let catalog = home.join("catalog.sqlite");
    let (cold, rows) = timed(|| listed(&catalog, &store));
    rows?;
    let mut pairs = Pairs::default();
    for _ in 0..9 {
        let (took, rows) = timed(|| listed(&catalog, &store));
        rows?;
        pairs.ours.push(took);
        let (took, seen) = timed(|| look_at_each(&months));
        seen?;
        pairs.floor.push(took);
    }
    let floor = show(median(pairs.floor));
    let warm = Row::time(
        &format!("list {MANY} sessions, warm"),
        median(pairs.ours),
        Duration::from_millis(20),
        format!("(readdir + stat of each: {floor})"),
    );
    let cold = Row::time(
        &format!("list {MANY} sessions, no catalog"),
        cold,
        Duration::from_secs(2),
        format!("{} a session", show(cold / u32::try_from(MANY)?)),
    );
    fs::remove_dir_all(home)?;
    Ok(vec![warm, cold])
}

fn listed(catalog: &Path, store: &FileStore<RealDisk>) -> Done<()> {
    let mut catalog = Catalog::open(catalog);
    catalog.refresh(store)?;
    let held = catalog.held(store).len();
    let rows = catalog.rows(&Filter::default()).len() + held;
    if rows == MANY { Ok(()) } else { Err(format!("{rows} rows").into()) }
}

fn look_at_each(months: &Path) -> Done<()> {
    for month in fs::read_dir(months)? {
        for entry in fs::read_dir(month?.path())? {
            fs::metadata(entry?.path().join("log.jsonl"))?;
        }
    }
    Ok(())
}
