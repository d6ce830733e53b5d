//! A home with sessions, and the real binary run on it.

use segno_model::batch::Draft;
use segno_model::record::{Header, ProjectFacts};
use segno_model::store::{HeldSession, Judged, Level, Opened, SessionLog, SessionStore};
use segno_model::{Body, Record, SessionId, Timestamp};
use segno_store::{FileLog, FileStore, RealDisk};
use segno_testkit::sessions;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// 2026-01-02T03:04:05Z.
pub(crate) const START: i64 = 1_767_323_045_000;

/// A process that is being started has every lock of this one for a moment. So none is given back while
/// one is started.
static GATE: RwLock<()> = RwLock::new(());

fn while_nothing_starts() -> RwLockReadGuard<'static, ()> {
    GATE.read().unwrap_or_else(PoisonError::into_inner)
}

/// To be held while a process is started.
pub(crate) fn starting() -> RwLockWriteGuard<'static, ()> {
    GATE.write().unwrap_or_else(PoisonError::into_inner)
}

/// What the binary did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The output as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// For snapshots.
    pub(crate) fn all(&self) -> String {
        format!("{}--- stderr\n{}--- exit {}\n", self.out, self.err, self.code)
    }
}

/// A home, a project, and what it takes to fill them.
pub(crate) struct Desk {
    dir: tempfile::TempDir,
    pub(crate) store: FileStore,
    pub(crate) project: PathBuf,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let store = FileStore::new(RealDisk, dir.path().join("home"));
        Self { store, project, dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_segno"));
        command.args(args).current_dir(&self.project).stdin(Stdio::null());
        command.env("SEGNO_HOME", self.home()).env("PWD", &self.project).env("COLUMNS", "80");
        for name in ["CLICOLOR_FORCE", "NO_COLOR", "TERM", "GIT_DIR"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args))
    }

    pub(crate) fn run_in(&self, cwd: &Path, args: &[&str]) -> Ran {
        let mut command = self.command(args);
        command.current_dir(cwd).env("PWD", cwd);
        ran(command)
    }

    /// A header of our project.
    pub(crate) fn header(&self, n: u64) -> Header {
        header_in(n, &self.project)
    }

    /// A session with these records, `n` minutes after [`START`], one second apart.
    pub(crate) fn session(&self, n: u64, bodies: Vec<Body>) -> SessionId {
        self.session_with(self.header(n), bodies)
    }

    pub(crate) fn session_with(&self, header: Header, bodies: Vec<Body>) -> SessionId {
        let _gate = while_nothing_starts();
        let id = header.id.clone();
        let at = id.created_ms();
        let mut log = self.store.create(header);
        let drafts = bodies.into_iter().zip(1..).map(|(body, i)| draft(at + i * 1000, body));
        for draft in drafts.collect::<Vec<_>>() {
            now(log.append(vec![draft], Level::Synced)).unwrap();
        }
        id
    }

    /// Holds a session, as another process would.
    pub(crate) fn hold(&self, id: &SessionId) -> FileLog<RealDisk> {
        let held = now(self.store.open(id)).unwrap();
        match now(held.judge()).unwrap() {
            Judged::Sound(Opened { log, .. }) => log,
            Judged::Damaged(_) => panic!("{id} is damaged"),
        }
    }

    /// Adds records to a session.
    pub(crate) fn append(&self, id: &SessionId, at: i64, bodies: Vec<Body>) -> Vec<Record> {
        let drafts = bodies.into_iter().map(|body| draft(at, body)).collect();
        let _gate = while_nothing_starts();
        now(self.hold(id).append(drafts, Level::Synced)).unwrap()
    }

    /// Gives a held session back.
    pub(crate) fn release(log: FileLog<RealDisk>) {
        let _gate = while_nothing_starts();
        drop(log);
    }

    pub(crate) fn log(&self, id: &SessionId) -> PathBuf {
        self.store.log_path(id).unwrap()
    }

    pub(crate) fn bytes(&self, id: &SessionId) -> Vec<u8> {
        std::fs::read(self.log(id)).unwrap()
    }

    /// Changes a session's log behind everybody's back.
    pub(crate) fn tamper(&self, id: &SessionId, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
        std::fs::write(self.log(id), change(self.bytes(id))).unwrap();
    }

    /// Output without what differs between runs: the directory's name.
    pub(crate) fn plain(&self, text: &str) -> String {
        text.replace(&self.dir.path().display().to_string(), "DIR")
    }
}

/// A header of any project.
pub(crate) fn header_in(n: u64, cwd: &Path) -> Header {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let real_path = cwd.canonicalize().ok().map(|real| text(&real));
    let project = ProjectFacts { cwd: text(cwd), real_path, ..ProjectFacts::default() };
    Header { project, ..sessions::header(id(n)) }
}

/// The id of a session made `n` minutes after [`START`].
pub(crate) fn id(n: u64) -> SessionId {
    let ms = START + i64::try_from(n).unwrap() * 60_000;
    let hex = format!("{ms:012x}");
    SessionId::parse(&format!("{}-{}-7000-8000-{n:012x}", &hex[..8], &hex[8..])).unwrap()
}

pub(crate) fn draft(at: i64, body: Body) -> Draft {
    Draft::new(Timestamp(at), body)
}

/// Waits for what never really waits.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(crate) fn ran(mut command: Command) -> Ran {
    let gate = starting();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(gate);
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code().unwrap(), out: text(stdout), err: text(stderr) }
}

/// The lines of a log.
pub(crate) fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
}
