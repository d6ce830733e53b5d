//! A machine on which other agents left sessions, and `segno` on it.

use super::place::Place;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where each agent keeps the sessions of the project in which the cases were recorded.
pub(crate) const CLAUDE: &str = ".claude/projects/-srv-work-kiln";
pub(crate) const CODEX: &str = ".codex/sessions/2026/03/02";
pub(crate) const PI: &str = ".pi/agent/sessions/--srv-work-kiln--";
pub(crate) const CLINE: &str = ".cline/data/tasks";

pub(crate) struct Machine {
    pub(crate) place: Place,
    /// The user's home directory.
    pub(crate) user: PathBuf,
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl Machine {
    pub(crate) fn new() -> Self {
        let place = Place::new("rule any\n  say \"never asked\"\n");
        let user = place.home().parent().unwrap().to_owned();
        Self { place, user }
    }

    /// With the files of these cases in the folder of an agent.
    pub(crate) fn with(folder: &str, cases: &[&str]) -> Self {
        let machine = Self::new();
        cases.iter().for_each(|case| machine.add(folder, case));
        machine
    }

    pub(crate) fn add(&self, folder: &str, case: &str) {
        copy_tree(&corpus(&format!("cases/{case}")), &self.user.join(folder));
    }

    /// A file of the user, with the folders above it.
    pub(crate) fn put(&self, path: &str, text: &str) -> PathBuf {
        let path = self.user.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        self.run_in(&self.place.file(""), args)
    }

    pub(crate) fn run_in(&self, dir: &Path, args: &[&str]) -> Said {
        let mut command = self.place.segno(args);
        let ran = command.current_dir(dir).env("COLUMNS", "110").output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Said { code: ran.status.code().unwrap(), out: text(ran.stdout), err: text(ran.stderr) }
    }

    pub(crate) fn out(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out
    }

    /// The sessions of `list --json`, with these words behind.
    pub(crate) fn list(&self, args: &[&str]) -> Vec<Value> {
        self.list_in(&self.place.file(""), args)
    }

    pub(crate) fn list_in(&self, dir: &Path, args: &[&str]) -> Vec<Value> {
        let said = self.run_in(dir, &[&["list", "--json"], args].concat());
        assert_eq!(said.code, 0, "{said:?}");
        said.json()["sessions"].as_array().unwrap().clone()
    }

    /// Every file below a folder of the user: its bytes, mode, modification and access time.
    pub(crate) fn untouched(&self, folder: &str) -> Vec<(PathBuf, String, [i64; 3])> {
        let mut files = Vec::new();
        each_file(&self.user.join(folder), &mut |path| {
            // First the bytes: reading them here moves the access time, once.
            let bytes = segno_model::sha256_hex(&fs::read(path).unwrap());
            let meta = fs::metadata(path).unwrap();
            let modified = meta.mtime() * 1_000_000_000 + meta.mtime_nsec();
            let accessed = meta.atime() * 1_000_000_000 + meta.atime_nsec();
            files.push((path.to_owned(), bytes, [i64::from(meta.mode()), modified, accessed]));
        });
        files.sort();
        files
    }
}

/// One field of every session of a list.
pub(crate) fn field(sessions: &[Value], name: &str) -> Vec<String> {
    let text = |session: &Value| match &session[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    sessions.iter().map(text).collect()
}

pub(crate) fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(name)
}

pub(crate) fn each_file(dir: &Path, each: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { each_file(&path, each) } else { each(&path) }
    }
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &to);
        } else {
            fs::copy(&path, to).unwrap();
        }
    }
}
