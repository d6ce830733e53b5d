//! Responsible for: the drift table. Must not: test the finding of facts.

use super::*;
use crate::SessionId;
use crate::record::Worktree;

fn id(last: char) -> SessionId {
    SessionId::parse(&format!("0195f3a0-0000-7000-8000-00000000000{last}")).unwrap()
}

fn tool(name: &str, source: &str, hash: &str) -> ToolSource {
    ToolSource { name: name.into(), source: source.into(), sha256: hash.repeat(32) }
}

fn file(path: &str, hash: &str) -> InstructionFile {
    InstructionFile { path: path.into(), sha256: hash.repeat(32) }
}

fn then() -> LaunchRecord {
    LaunchRecord {
        parent: id('1'),
        child: id('2'),
        intent: "7.0".into(),
        role: RoleFact { name: "scout".into(), source: "/a".into(), sha256: "aa".repeat(32) },
        model: ModelRef::new("anthropic", "claude-x"),
        base_url: None,
        system_sha256: "bb".repeat(32),
        instructions: vec![file("/p/AGENTS.md", "dd")],
        tools: vec![tool("grep", "builtin", "cc"), tool("read", "builtin", "cc")],
        cwd: "/p".into(),
        worktree: Some(Worktree {
            repo_root: "/p".into(),
            baseline: "9".repeat(40),
            path: "/w".into(),
            branch: "b".into(),
        }),
        version: "1".into(),
    }
}

fn same() -> Today {
    let then = then();
    Today {
        role: Some(RoleFact { source: "/elsewhere".into(), ..then.role }),
        model: true,
        base_url: None,
        system_sha256: then.system_sha256,
        instructions: then.instructions,
        unreadable: Vec::new(),
        tools: then.tools,
        directory: Directory::Same,
        tree: Tree::Same,
        version: then.version,
        said_anything: true,
    }
}

fn codes(now: &Today) -> String {
    drift(&then(), now).iter().map(|d| d.code).collect::<Vec<_>>().join(" ")
}

fn refused(now: &Today, allow: bool) -> String {
    let drift = drift(&then(), now);
    refusals(&drift, allow).iter().map(|d| d.code).collect::<Vec<_>>().join(" ")
}

/// All combinations of all aspects.
fn every_input() -> Vec<Compared> {
    const BOTH: [bool; 2] = [false, true];
    let same = compare(&then(), &same());
    let directories = [
        Directory::Same,
        Directory::Elsewhere,
        Directory::Outside,
        Directory::Gone,
        Directory::NotDirectory,
    ];
    let trees = [
        Tree::None,
        Tree::Same,
        Tree::RepoGone,
        Tree::Gone,
        Tree::Replaced,
        Tree::OtherBranch,
        Tree::Unregistered,
        Tree::OtherHistory,
    ];
    let mut all = Vec::new();
    for bits in 0..512_u32 {
        let bit = |n: u32| BOTH[usize::from(bits >> n & 1 == 1)];
        for role in [Role::Same, Role::Gone, Role::Edited] {
            for instructions in [Files::Same, Files::Edited, Files::Unreadable] {
                all.push(Compared {
                    said_anything: bit(0),
                    model: bit(1),
                    endpoint: bit(2),
                    tools_gone: bit(3),
                    tools_source: bit(4),
                    system: bit(5),
                    tools_new: bit(6),
                    tools_text: bit(7),
                    version: bit(8),
                    role,
                    instructions,
                    ..same
                });
            }
        }
    }
    for directory in directories {
        all.extend(trees.map(|tree| Compared { directory, tree, ..same }));
    }
    all
}

/// Of each aspect every input matches exactly one row, and every row is matched by some.
#[test]
fn every_input_matches_one_row_per_aspect() {
    let mut aspects: Vec<&str> = TABLE.iter().map(|row| row.aspect).collect();
    aspects.dedup();
    let inputs = every_input();
    for aspect in &aspects {
        let rows: Vec<&Row> = TABLE.iter().filter(|row| row.aspect == *aspect).collect();
        for input in &inputs {
            let hits = rows.iter().filter(|row| (row.matches)(input)).count();
            assert_eq!(hits, 1, "{aspect}: {input:?}");
        }
        for row in rows {
            assert!(inputs.iter().any(|input| (row.matches)(input)), "{}", row.label);
        }
    }
    assert_eq!(aspects.len(), 13);
}

/// A child as it was goes on; so does one with an edited AGENTS.md, a new tool, another version, a prompt
/// that reads otherwise: an upgrade strands nobody. Covers: VA1, VA6, VA8, VA10, VA14, RS11, RS13, RS35.
#[test]
fn what_does_not_make_continuing_wrong_is_a_notice() {
    assert_eq!(codes(&same()), "");
    let mut tools = then().tools;
    tools.push(tool("mcp__x", "mcp:x", "ee"));
    tools.push(tool("read", "builtin", "cc"));
    let cases = [
        (Today { version: "2".into(), ..same() }, "version-drift"),
        (Today { system_sha256: "ff".repeat(32), ..same() }, "system-drift"),
        (Today { instructions: vec![file("/p/AGENTS.md", "ee")], ..same() }, "instructions-drift"),
        (Today { unreadable: vec!["/p/AGENTS.md".into()], ..same() }, "instructions-unreadable"),
        (Today { tools, ..same() }, "tools-new"),
        (Today { tools: vec![tool("read", "builtin", "cc")], ..same() }, "tools-gone"),
        (
            Today {
                tools: vec![tool("grep", "builtin", "ee"), tool("read", "builtin", "cc")],
                ..same()
            },
            "tools-drift",
        ),
    ];
    for (now, code) in cases {
        assert_eq!(codes(&now), code);
        assert_eq!(refused(&now, false), "", "{code}");
    }
}

/// Covers: VA4, VA7, VA11, VA12, RS9, RS12, RS14.
#[test]
fn what_makes_continuing_wrong_is_refused() {
    let edited = RoleFact { sha256: "ee".repeat(32), ..then().role };
    let moved = vec![tool("grep", "mcp:x", "cc"), tool("read", "builtin", "cc")];
    let cases = [
        (Today { said_anything: false, ..same() }, "empty-transcript", false),
        (Today { role: None, ..same() }, "agent-missing", true),
        (Today { role: Some(edited), ..same() }, "agent-drift", true),
        (Today { model: false, ..same() }, "model-missing", false),
        (Today { base_url: Some("http://h".into()), ..same() }, "model-drift", true),
        (Today { tools: moved, ..same() }, "tools-source-drift", true),
        (Today { directory: Directory::Elsewhere, ..same() }, "cwd-drift", true),
        (Today { directory: Directory::Gone, ..same() }, "cwd-missing", false),
        (Today { directory: Directory::NotDirectory, ..same() }, "cwd-not-directory", false),
    ];
    for (now, code, may_be_allowed) in cases {
        assert_eq!((refused(&now, false), codes(&now)), (code.to_owned(), code.to_owned()));
        assert_eq!(refused(&now, true).is_empty(), may_be_allowed, "{code}");
    }
}

/// A `/` or `/v1` at the end of an address is no other address. Covers: RS9.
#[test]
fn spellings_of_one_address_are_no_drift() {
    let at = |url: &str| LaunchRecord { base_url: Some(url.to_owned()), ..then() };
    let spellings = ["http://h", "http://h/", "http://h/v1", "http://h/v1/"];
    for (a, b) in spellings.iter().flat_map(|a| spellings.iter().map(move |b| (a, b))) {
        let now = Today { base_url: Some((*b).to_owned()), ..same() };
        assert!(drift(&at(a), &now).is_empty(), "{a} {b}");
        assert_eq!(crate::record::endpoint_hash(a), crate::record::endpoint_hash(b));
    }
    let now = Today { base_url: Some("http://h/v2".to_owned()), ..same() };
    assert!(!drift(&at("http://h"), &now).is_empty());
}

/// A worktree's refusals are never lifted. Covers: VA13, RS15, RS30.
#[test]
fn a_worktree_that_is_not_what_it_was_is_refused() {
    let cases = [
        (Tree::RepoGone, "worktree-repo-missing"),
        (Tree::Gone, "worktree-missing"),
        (Tree::Replaced, "worktree-replaced"),
        (Tree::OtherBranch, "worktree-branch-swapped"),
        (Tree::Unregistered, "worktree-unregistered"),
        (Tree::OtherHistory, "worktree-history-replaced"),
    ];
    for (tree, code) in cases {
        assert_eq!(refused(&Today { tree, ..same() }, true), code);
    }
    let outside = Today { directory: Directory::Outside, ..same() };
    assert_eq!(refused(&outside, true), "worktree-cwd-outside");
}

/// All reasons come in one answer, in the table's order, with names. Covers: VA11, RS11.
#[test]
fn all_reasons_come_at_once() {
    let now = Today {
        role: None,
        version: "2".into(),
        directory: Directory::Gone,
        tools: vec![tool("grep", "mcp:x", "cc")],
        instructions: Vec::new(),
        ..same()
    };
    assert_eq!(
        codes(&now),
        "agent-missing tools-source-drift cwd-missing instructions-drift tools-gone version-drift"
    );
    let sentences: Vec<String> = drift(&then(), &now).into_iter().map(|d| d.sentence).collect();
    assert_eq!(sentences[0], "role: there is none of that name (scout)");
    assert_eq!(sentences[3], "instruction files: edited, new or gone (/p/AGENTS.md)");
    assert_eq!(sentences[4], "tools it had: one is gone (read)");
}

/// The published table is this one.
#[test]
fn the_table_is_published() {
    let page = include_str!("../../../../../docs/subagents.md");
    for row in TABLE {
        let Some((code, verdict)) = row.reason else { continue };
        let meaning = match verdict {
            Notice => "notice",
            Unless => "refused, unless `--allow-drift`",
            Refuse => "refused",
        };
        let line = format!("| `{code}` | {} | {} | {meaning} |", row.aspect, row.label);
        assert!(page.contains(&line), "{line}");
    }
    let published =
        page.lines().filter(|line| line.contains("| notice |") || line.contains("| refused"));
    let reasons = TABLE.iter().filter(|row| row.reason.is_some()).count();
    assert_eq!(published.filter(|line| line.starts_with("| `")).count(), reasons);
}
