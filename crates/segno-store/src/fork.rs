//! Copies a session up to a point into a new one.
//!
//! Responsible for: a copy that is byte for byte its source, whole and durable before anybody can see
//! it, with what was open in the source settled as the source's. Must not: touch the source, or need
//! its writer's right.

use crate::disk::{Disk, DiskFile};
use crate::durable::{TempFile, create_dirs, read_file, sync_dir, write_all};
use crate::error::{store_error, write_error};
use crate::layout::{SessionDir, exists};
use crate::leftovers;
use crate::reading::LogFile;
use crate::store::FileStore;
use segno_model::batch::{Draft, plan};
use segno_model::child::parent_of;
use segno_model::record::{Header, Origin, OriginKind};
use segno_model::state::State;
use segno_model::store::{ForkPoint, Scanned, StoreError};
use segno_model::{Body, Pos, Record, Seq, SessionId, Timestamp};
use std::io::ErrorKind;

/// How much of the source is copied, and what the copy's tip is.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The state after the last copied record.
    state: State,
    /// The last copied record.
    up_to: Seq,
    /// Where it ends, counted from the end of line 1, without its line end.
    end: u64,
    tip: Option<Pos>,
    /// Whether all of it is of types and shapes that this version knows.
    understood: bool,
}

impl Cut {
    /// The last copied record.
    pub(crate) fn up_to(&self) -> Seq {
        self.up_to
    }
}

/// Makes the fork; gives its id.
pub(crate) fn fork<D: Disk>(
    store: &FileStore<D>,
    source: &SessionId,
    point: ForkPoint,
    mut header: Header,
    at: Timestamp,
) -> Result<SessionId, StoreError> {
    store.check_medium()?;
    let disk = store.disk();
    let from = store.layout().locate(disk, source)?;
    let log = LogFile::open(store, &from, source)?;
    // The copy must not hold what the source could still lose: its length was taken before this.
    log.file.sync_data().map_err(|e| store_error("syncing", &log.path, e))?;
    let (loaded, _) = log.load()?;
    loaded.check_writable()?;
    let cut = cut(&log, point)?;
    header.format = loaded.format_of_copy(cut.understood)?;
    let id = header.id.clone();
    // A copy of a child that has a launch record of its own lies below the parent that it names.
    let home = store.layout().home_of(disk, &header);
    if let Some(parent) = home.parent()
        && !exists(disk, &parent.log())?
    {
        return Err(parent_of(&header)
            .map_or_else(|| StoreError::refused("no parent"), StoreError::NotFound));
    }
    if exists(disk, home.path())? {
        return Err(StoreError::Exists(home.path().display().to_string()));
    }
    header.origin = Some(Origin {
        kind: OriginKind::Fork,
        of: source.to_string(),
        up_to: Some(cut.up_to),
        parent: parent_of(&header),
    });
    let first =
        plan(&State::default(), None, vec![Draft::new(at, Body::Session(Box::new(header)))])?;
    let last = settle(&cut, at)?;
    leftovers::sweep_forks(disk, store.layout());
    if let Some(parent) = home.parent() {
        leftovers::sweep_forks_in(disk, &parent.children());
    }
    let building = SessionDir::new(home.path().with_file_name(leftovers::fork_name(&id)));
    // Its lock is held until it is shown.
    let copy = leftovers::begin_fork(disk, store.layout().root(), &building)?;
    write_log((&copy, &building), &log, loaded.origin, (&first.bytes, &cut, &last))?;
    link_blobs(disk, &from, &building)?;
    sync_dir(disk, building.path())?;
    show(disk, &building, &home)?;
    drop(copy);
    Ok(id)
}

/// Finds the point and folds the state up to it.
pub(crate) fn cut<D: Disk>(log: &LogFile<D>, point: ForkPoint) -> Result<Cut, StoreError> {
    let last_wanted = match point {
        ForkPoint::Whole => Seq::MAX,
        ForkPoint::At(seq) | ForkPoint::Before(seq) => seq,
    };
    let mut walk = Walk { understood: true, ..Walk::default() };
    log.scan(&mut |item| {
        if let Scanned::Record(record) = item
            && record.seq() <= last_wanted
        {
            walk.take(&record, point);
        }
        true
    })?;
    walk.finish(point)
}

/// A walk over the source's records up to the point.
#[derive(Debug, Default)]
struct Walk {
    state: State,
    up_to: Seq,
    end: u64,
    /// The node at the point: its position and its parent's.
    node: Option<(Pos, Option<Pos>)>,
    understood: bool,
}

impl Walk {
    fn take(&mut self, record: &Record, point: ForkPoint) {
        let at_point = match point {
            ForkPoint::Whole => false,
            ForkPoint::At(seq) | ForkPoint::Before(seq) => seq == record.seq(),
        };
        if at_point && record.is_node() {
            self.node = Some((record.pos(), self.parent_of(record)));
        }
        if at_point && matches!(point, ForkPoint::Before(_)) {
            return;
        }
        self.state.apply(record);
        self.understood &= !matches!(record.body(), Body::Unknown { .. });
        self.up_to = record.seq();
        if record.seq() > 0 {
            self.end = self.end.max(record.offset + record.line.len() as u64);
        }
    }

    fn parent_of(&self, record: &Record) -> Option<Pos> {
        let parent = record.envelope.parent?;
        record.envelope.parent_at.or(self.state.in_force.last_node).filter(|p| p.seq == parent)
    }

    fn finish(self, point: ForkPoint) -> Result<Cut, StoreError> {
        let tip = match (point, self.node) {
            (ForkPoint::Whole, _) => self.state.tip(),
            (ForkPoint::At(_), Some((at, _))) => Some(at),
            (ForkPoint::Before(_), Some((_, parent))) => parent,
            (ForkPoint::At(seq) | ForkPoint::Before(seq), None) => {
                return Err(StoreError::Refused(format!("record {seq} is not a node")));
            }
        };
        let Self { state, up_to, end, understood, .. } = self;
        Ok(Cut { state, up_to, end, tip, understood })
    }
}

/// The lines behind the copied ones: the tip, and an end for what only the source can finish.
pub(crate) fn settle(cut: &Cut, at: Timestamp) -> Result<Vec<u8>, StoreError> {
    let mut state = cut.state.clone();
    if state.next_seq == 0 {
        // An empty source: the fork's own header is all there is.
        return Ok(Vec::new());
    }
    let bodies = segno_model::fork::closing(&state, cut.tip);
    if bodies.is_empty() {
        return Ok(Vec::new());
    }
    // The copied lines are numbered on from; where they end without a line end, one is written.
    state.end = cut.end + u64::from(cut.end > 0);
    let drafts = bodies.into_iter().map(|body| Draft::new(at, body)).collect();
    plan(&state, None, drafts).map(|batch| batch.bytes)
}

/// Writes the copy's log: its own line 1, the copied ones, and what is behind them; durably.
pub(crate) fn write_log<D: Disk>(
    (file, to): (&D::File, &SessionDir),
    source: &LogFile<D>,
    origin: u64,
    (first, cut, last): (&[u8], &Cut, &[u8]),
) -> Result<(), StoreError> {
    let path = to.log();
    let fail = |e| write_error("writing", &path, e);
    write_all(file, first).map_err(fail)?;
    let mut done = 0;
    while done < cut.end {
        let copied = file.copy_from(&source.file, origin + done, cut.end - done).map_err(fail)?;
        if copied == 0 {
            return Err(StoreError::refused("the source became shorter while it was copied"));
        }
        done += copied;
    }
    if cut.end > 0 {
        write_all(file, b"\n").map_err(fail)?;
    }
    write_all(file, last).map_err(fail)?;
    file.sync_all().map_err(fail)
}

/// Gives the copy every blob of the source. They are never changed, so they can be shared.
fn link_blobs<D: Disk>(disk: &D, from: &SessionDir, to: &SessionDir) -> Result<(), StoreError> {
    let source = from.blobs();
    let entries = match disk.list(&source) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(store_error("listing", &source, e)),
    };
    let dir = to.blobs();
    create_dirs(disk, to.path(), &dir)?;
    for entry in entries.iter().filter(|e| !e.is_dir && !e.name.starts_with('.')) {
        let (old, new) = (source.join(&entry.name), dir.join(&entry.name));
        if disk.hard_link(&old, &new).is_err() {
            let bytes = read_file(disk, &old).map_err(|e| store_error("reading", &old, e))?;
            TempFile::write(disk, &dir, &bytes)?.replace(&entry.name)?;
        }
    }
    sync_dir(disk, &dir)
}

/// Gives the finished copy its name, durably.
pub(crate) fn show<D: Disk>(
    disk: &D,
    building: &SessionDir,
    home: &SessionDir,
) -> Result<(), StoreError> {
    disk.rename(building.path(), home.path()).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => {
            StoreError::Exists(home.path().display().to_string())
        }
        _ => write_error("naming", home.path(), e),
    })?;
    home.path().parent().map_or(Ok(()), |month| sync_dir(disk, month))
}
