//! Launch records: from a header to one that may be compared, or a code that says why not.
//!
//! Responsible for: what makes a launch record usable, whose child a header is, and the hash of a system
//! prompt that is the same tomorrow. Must not: compare with today; that is [`super::drift`].

use crate::id::{SessionId, sha256_hex};
use crate::record::{FORMAT, Header, LaunchRecord};
use serde_json::Value;

/// Why a child cannot be looked at as the child of somebody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// There is none of that id below this parent.
    #[error("there is no subagent {0} of this session")]
    NotFound(String),
    /// It is another session's child.
    #[error("it is a subagent of another session, {0}")]
    NotOwned(SessionId),
    /// Its log cannot be read.
    #[error("its log cannot be read: {0}")]
    Malformed(String),
    /// Its directory is a link.
    #[error("its directory is a link, and links among subagents are not followed")]
    Symlink,
    /// A newer version wrote it.
    #[error("a newer version wrote it (format {0}); it can only be read")]
    UnknownVersion(String),
    /// It is a session, and nobody's child.
    #[error("its log does not say how it was launched")]
    MissingLaunch,
    /// What its log says of its launch makes no sense.
    #[error("what its log says of its launch makes no sense: {0}")]
    InvalidLaunch(String),
}

impl Unusable {
    /// The word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not-found",
            Self::NotOwned(_) => "not-owned",
            Self::Malformed(_) => "malformed",
            Self::Symlink => "symlink",
            Self::UnknownVersion(_) => "unknown-version",
            Self::MissingLaunch => "missing-launch",
            Self::InvalidLaunch(_) => "invalid-launch",
        }
    }
}

/// The launch record of `parent`'s child `id`, from its header.
///
/// # Errors
/// [`Unusable`], the first that applies.
pub fn launch_of(
    header: &Header,
    id: &SessionId,
    parent: &SessionId,
) -> Result<LaunchRecord, Unusable> {
    if header.format.major > FORMAT.major {
        let version = format!("{}.{}", header.format.major, header.format.minor);
        return Err(Unusable::UnknownVersion(version));
    }
    if header.id != *id {
        return Err(Unusable::InvalidLaunch(format!("its header is that of {}", header.id)));
    }
    let launch = parse_launch(header.launch.as_ref().ok_or(Unusable::MissingLaunch)?)?;
    if launch.child != *id {
        return Err(Unusable::InvalidLaunch(format!("it is the launch of {}", launch.child)));
    }
    if launch.parent != *parent {
        return Err(Unusable::NotOwned(launch.parent));
    }
    Ok(launch)
}

/// Reads a launch record. Members that this version does not know are skipped.
///
/// # Errors
/// [`Unusable::InvalidLaunch`].
pub fn parse_launch(value: &Value) -> Result<LaunchRecord, Unusable> {
    let invalid = |why: String| Unusable::InvalidLaunch(why);
    if let Some(old) = ["role_sha256", "impVersion"].iter().find(|old| value.get(old).is_some()) {
        return Err(invalid(format!("`{old}` is of a shape that was never released")));
    }
    let mut launch: LaunchRecord =
        serde_json::from_value(value.clone()).map_err(|e| invalid(e.to_string()))?;
    match problem(&launch) {
        Some(why) => Err(invalid(why)),
        None => {
            launch.tools.sort();
            launch.tools.dedup();
            Ok(launch)
        }
    }
}

/// The first thing that makes no sense.
fn problem(launch: &LaunchRecord) -> Option<String> {
    let is_hash = |text: &str| {
        text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let is_commit =
        |text: &str| matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let worktree = launch.worktree.as_ref();
    let tree = |of: fn(&crate::record::Worktree) -> &String| worktree.map_or("/", |w| of(w));
    let named = [
        ("the role's name", launch.role.name.as_str()),
        ("the role's source", &launch.role.source),
        ("the intent", &launch.intent),
        ("the model's provider", &launch.model.provider),
        ("the model", &launch.model.id),
        ("the worktree's branch", tree(|w| &w.branch)),
    ];
    let hashes = [
        ("the role's hash", &launch.role.sha256),
        ("the system prompt's hash", &launch.system_sha256),
    ];
    let files = launch.instructions.iter().map(|file| ("an instruction file's hash", &file.sha256));
    let tools = launch.tools.iter().map(|tool| ("a tool's hash", &tool.sha256));
    let paths = [
        ("the working directory", launch.cwd.as_str()),
        ("the worktree's path", tree(|w| &w.path)),
        ("the worktree's repository", tree(|w| &w.repo_root)),
    ];
    let instructions =
        launch.instructions.iter().map(|file| ("an instruction file's path", file.path.as_str()));
    let empty = named.iter().find(|(_, text)| text.trim().is_empty());
    let hash = hashes.into_iter().chain(files).chain(tools).find(|(_, hash)| !is_hash(hash));
    let path = paths.into_iter().chain(instructions).find(|(_, path)| !path.starts_with('/'));
    let tool = launch.tools.iter().find(|tool| tool.name.is_empty() || tool.source.is_empty());
    let baseline = worktree.filter(|worktree| !is_commit(&worktree.baseline));
    empty
        .map(|(what, _)| format!("{what} is empty"))
        .or_else(|| hash.map(|(what, _)| format!("{what} is none")))
        .or_else(|| path.map(|(what, path)| format!("{what} is not absolute: {path}")))
        .or_else(|| tool.map(|_| "a tool has no name or no source".to_owned()))
        .or_else(|| baseline.map(|worktree| format!("{} is no commit", worktree.baseline)))
}

/// SHA-256 of a system prompt. A line that is exactly `Date: ` and a date counts as any other such line, so
/// that a child can be continued tomorrow; a date anywhere else is text.
#[must_use]
pub fn system_sha256(system: &str) -> String {
    let is_date = |line: &str| {
        line.strip_prefix("Date: ").is_some_and(|date| {
            let shape: String =
                date.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
            shape == "9999-99-99"
        })
    };
    if !system.split('\n').any(is_date) {
        return sha256_hex(system.as_bytes());
    }
    let lines: Vec<&str> =
        system.split('\n').map(|line| if is_date(line) { "Date: (any)" } else { line }).collect();
    sha256_hex(lines.join("\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{InstructionFile, ModelRef, RoleFact, ToolSource, Worktree};
    use serde_json::json;

    fn id(last: char) -> SessionId {
        SessionId::parse(&format!("0195f3a0-0000-7000-8000-00000000000{last}")).unwrap()
    }

    fn tool(name: &str) -> ToolSource {
        ToolSource { name: name.into(), source: "builtin".into(), sha256: "cc".repeat(32) }
    }

    fn launch() -> LaunchRecord {
        LaunchRecord {
            parent: id('1'),
            child: id('2'),
            intent: "7.0".into(),
            role: RoleFact {
                name: "scout".into(),
                source: "/p/scout.md".into(),
                sha256: "aa".repeat(32),
            },
            model: ModelRef::new("anthropic", "claude-x"),
            base_url: None,
            system_sha256: "bb".repeat(32),
            instructions: Vec::new(),
            tools: vec![tool("grep"), tool("read")],
            cwd: "/p".into(),
            worktree: None,
            version: String::new(),
        }
    }

    fn value(launch: &LaunchRecord) -> Value {
        serde_json::to_value(launch).unwrap()
    }

    fn header(launch: Option<Value>) -> Header {
        Header { launch, ..Header::new(id('2'), "0.1.0") }
    }

    /// Covers: LB1, LB2, LB5, LB7.
    #[test]
    fn a_record_has_its_members_and_reads_back() {
        let keys = |value: &Value| {
            value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
        };
        let small = launch();
        assert_eq!(keys(&value(&small)), "parent child intent role model system_sha256 tools cwd");
        assert_eq!(parse_launch(&value(&small)).unwrap(), small);
        let worktree = Worktree {
            repo_root: "/p".into(),
            baseline: "9".repeat(40),
            path: "/w/scout".into(),
            branch: "segno/scout".into(),
        };
        let file = InstructionFile { path: "/p/AGENTS.md".into(), sha256: "dd".repeat(32) };
        let full = LaunchRecord {
            base_url: Some("http://127.0.0.1:9".into()),
            instructions: vec![file],
            worktree: Some(worktree),
            version: "0.1.0".into(),
            ..launch()
        };
        assert_eq!(
            keys(&value(&full)),
            "parent child intent role model base_url system_sha256 instructions tools cwd worktree version"
        );
        assert_eq!(parse_launch(&value(&full)).unwrap(), full);
    }

    /// Covers: LB4, VA14.
    #[test]
    fn tools_are_a_sorted_set() {
        let given =
            LaunchRecord { tools: vec![tool("read"), tool("grep"), tool("read")], ..launch() };
        assert_eq!(parse_launch(&value(&given)).unwrap(), launch());
    }

    /// Covers: LB9, VA2.
    #[test]
    fn members_that_are_not_known_are_skipped() {
        let mut more = value(&launch());
        more["mood"] = json!("good");
        more["role"]["colour"] = json!("green");
        assert_eq!(parse_launch(&more).unwrap(), launch());
    }

    /// Each of these alone makes the record unusable. Covers: LB8, LB10, LK11.
    #[test]
    fn shapes_that_make_no_sense_are_refused() {
        let cases = [
            ("/parent", json!("nobody")),
            ("/parent", json!(null)),
            ("/child", json!("../../etc")),
            ("/intent", json!("")),
            ("/role", json!("scout")),
            ("/role/name", json!(" ")),
            ("/role/source", json!("")),
            ("/role/sha256", json!("aa")),
            ("/role/sha256", json!("AA".repeat(32))),
            ("/model", json!("anthropic/claude-x")),
            ("/model/id", json!("")),
            ("/model/provider", json!("")),
            ("/system_sha256", json!("")),
            ("/tools", json!("read")),
            ("/tools/0/name", json!("")),
            ("/tools/0/source", json!("")),
            ("/tools/0/sha256", json!("cc")),
            ("/cwd", json!("p")),
            ("/cwd", json!("")),
            ("/instructions", json!([{"path": "AGENTS.md", "sha256": "dd".repeat(32)}])),
            ("/instructions", json!([{"path": "/p/AGENTS.md", "sha256": "dd"}])),
            ("/instructions", json!([{"path": "/p/AGENTS.md"}])),
            ("/worktree", json!({"path": "/w"})),
            (
                "/worktree",
                json!({"repo_root": "/p", "baseline": "main", "path": "/w", "branch": "b"}),
            ),
            (
                "/worktree",
                json!({"repo_root": "/p", "baseline": "9".repeat(40), "path": "w", "branch": "b"}),
            ),
            (
                "/worktree",
                json!({"repo_root": "/p", "baseline": "9".repeat(40), "path": "/w", "branch": ""}),
            ),
            ("/role_sha256", json!("aa".repeat(32))),
            ("/impVersion", json!("0.9.0")),
        ];
        for (at, bad) in cases {
            let mut given = value(&launch());
            match given.pointer_mut(at) {
                Some(place) => *place = bad.clone(),
                None => given[at.trim_start_matches('/')] = bad.clone(),
            }
            let refused = parse_launch(&given).expect_err(at);
            assert_eq!(refused.code(), "invalid-launch", "{at} {bad}");
        }
        for whole in [json!(null), json!([]), json!("launch"), json!({})] {
            assert_eq!(parse_launch(&whole).expect_err("none").code(), "invalid-launch");
        }
    }

    /// Covers: LK2, LK8, LK10, LK11, LK13, LK14.
    #[test]
    fn a_header_says_whose_child_it_is() {
        let code = |header: &Header| match launch_of(header, &id('2'), &id('1')) {
            Ok(_) => "ok",
            Err(unusable) => unusable.code(),
        };
        let of = |launch: &LaunchRecord| header(Some(value(launch)));
        assert_eq!(code(&of(&launch())), "ok");
        assert_eq!(code(&header(None)), "missing-launch");
        assert_eq!(code(&header(Some(json!({"parent": 7})))), "invalid-launch");
        assert_eq!(code(&of(&LaunchRecord { child: id('3'), ..launch() })), "invalid-launch");
        assert_eq!(code(&of(&LaunchRecord { parent: id('4'), ..launch() })), "not-owned");
        assert_eq!(code(&Header { id: id('3'), ..of(&launch()) }), "invalid-launch");
        let mut newer = of(&launch());
        newer.format.major = 9;
        assert_eq!(code(&newer), "unknown-version");
    }

    /// A header is written and read back with a launch that makes no sense: it does not take the log with
    /// it. Covers: LK8, LK11.
    #[test]
    fn a_bad_launch_leaves_its_header_readable() {
        let bad = header(Some(json!({"parent": 7, "later": [1, 2]})));
        let text = serde_json::to_string(&bad).unwrap();
        assert_eq!(serde_json::from_str::<Header>(&text).unwrap(), bad);
    }

    /// The order of members says nothing. Covers: RS29.
    #[test]
    fn members_may_stand_in_any_order() {
        let given = value(&launch());
        let mut members: Vec<_> = given.as_object().unwrap().clone().into_iter().collect();
        members.reverse();
        let reversed = Value::Object(members.into_iter().collect());
        assert_ne!(reversed.to_string(), given.to_string());
        assert_eq!(parse_launch(&reversed).unwrap(), launch());
    }

    /// Covers: LB3, LB6, VA9.
    #[test]
    fn only_exact_date_lines_are_any_date() {
        let same = |a: &str, b: &str| system_sha256(a) == system_sha256(b);
        assert!(same("a\nDate: 2026-11-30\nb", "a\nDate: 2027-01-01\nb"));
        assert!(!same("a\nDate: 2026-11-30\nb", "a\nb"));
        assert!(!same("The Date: 2026-11-30", "The Date: 2027-01-01"));
        assert!(!same("Date: 2026-11-30 (Monday)", "Date: 2027-01-01 (Friday)"));
        assert!(!same(" Date: 2026-11-30", " Date: 2027-01-01"));
        assert!(!same("Date: 30.11.2026", "Date: 01.01.2027"));
        assert_eq!(system_sha256("no date"), sha256_hex(b"no date"));
    }
}
