//! Responsible for: every way in which a role's file can be written. Must not: touch a disk.

use super::*;

/// All that a session may have here.
const ALL: &str = "read write edit bash grep find ls todo background mcp__box__look mcp__box__send mcp__git__push";

const BUT_BASH: &str =
    "read write edit grep find ls todo background mcp__box__look mcp__box__send mcp__git__push";

const BUILT_IN: &str = "read write edit bash grep find ls todo background";

const LOOKING: &str = "read grep find ls todo";

fn parsed(bytes: &[u8]) -> (Result<Role, String>, String) {
    let Parsed { role, notes, .. } = parse(Path::new("/p/.segno/agents/scout.md"), bytes);
    let notes = notes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    (role.map_err(|fault| fault.to_string()), notes)
}

/// Which of a session's tools a file gives, or why it is none of a role.
fn given(bytes: &[u8]) -> Result<(String, String), String> {
    let (role, notes) = parsed(bytes);
    let role = role?;
    let has = ALL.split(' ').filter(|tool| role.tools.has(tool)).collect::<Vec<_>>();
    Ok((has.join(" "), notes))
}

#[test]
fn a_role_is_its_front_matter_and_its_body() {
    let text = "---\nname: scout\ndescription: looks around\ntools: read, grep\nmodel: anthropic/claude-x\nthinking: low\n---\n\nLook.\n";
    let (role, notes) = parsed(text.as_bytes());
    let expected = Role {
        name: "scout".into(),
        description: "looks around".into(),
        tools: ToolSet::only(vec!["grep".into(), "read".into()]),
        model: Some(ModelRef::new("anthropic", "claude-x")),
        thinking: Some("low".into()),
        prompt: "Look.".into(),
        source: "/p/.segno/agents/scout.md".into(),
        sha256: sha256_hex(text.as_bytes()),
    };
    assert_eq!((role, notes.as_str()), (Ok(expected), ""));
}

/// A file whose edges are a little off gives exactly what it says, or nothing: never all tools.
#[test]
fn the_edges_of_a_front_matter() {
    let read = |text: &str| given(text.as_bytes()).map(|(tools, _)| tools);
    let exact = [
        "---\ndescription: d\ntools: read\n---\nbody",
        "--- \ndescription: d\ntools: read\n---\t\nbody",
        "\u{feff}---\ndescription: d\ntools: read\n---\nbody",
        "\n  \n---\ndescription: d\ntools: read\n---\nbody",
        "\u{feff}\r\n---\r\ndescription: d\r\ntools: read\r\n---\r\nbody",
        "---\rdescription: d\rtools: read\r---\rbody",
        "---\ndescription: d\ntools: read\n...\nbody",
        "---\ndescription: d\n\n# what it has\ntools : read\n\n---\nbody",
        "---\ndescription: d\n\"tools\": read\n---\nbody",
        "---\ndescription: d\nTOOLS: Read\n---\nbody",
    ];
    for text in exact {
        assert_eq!(read(text).as_deref(), Ok("read"), "{text:?}");
    }
    let refused = [
        ("", "no front matter"),
        ("body", "no front matter"),
        ("# Scout\n---\ntools: read\n---\nbody", "no front matter"),
        ("tools: read\n---\nbody", "no front matter"),
        (" ---\ntools: read\n---\nbody", "line 1: `---` does not stand alone"),
        ("--- # scout\ntools: read\n---\nbody", "line 1: `---` does not stand alone"),
        ("----\ntools: read\n----\nbody", "line 1: `---` does not stand alone"),
        ("---\ndescription: d\ntools: read\n", "no second line `---`"),
        ("---\ndescription: d\ntools: read\n\nbody", "no second line `---`"),
        ("---\ntools: read\n\nbody\n\n---\nmore", "line 4: it is no `field: value`"),
        ("---\n  tools: read\n---\nbody", "line 2: it is indented"),
        ("---\ndescription: d\n  tools: read\n---\nbody", "line 3: it is indented"),
        ("---\ncolor: red\n\ttools: read\n---\nbody", "line 3: it is indented"),
        ("---\ncolor:\n  tools: read\n---\nbody", "line 3: it is indented"),
        ("---\ncolor: \"red\"\n  disallowedTools: bash\n---\nbody", "line 3: it is indented"),
        ("---\ntools:read\n---\nbody", "line 2: it is no `field: value`"),
        ("---\ntools: read\ntools: bash\n---\nbody", "line 3: `tools` is there twice"),
        ("---\ndisallowedTools: read\ndisallowed-tools: bash\n---\nbody", "is there twice"),
        ("---\ndescription: d\n---\n \n", "it has no prompt"),
        ("---\nname: a/b\n---\nbody", "\"a/b\" is no name"),
        ("---\nname: [a]\n---\nbody", "\"[a]\" is no name"),
        ("---\ndescription: \"d\ntools: read\n---\nbody", "its quotes do not close"),
    ];
    for (text, why) in refused {
        let told = read(text);
        assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{text:?}: {told:?}");
    }
    for junk in [&b"---\ntools: read\xff\n---\nbody"[..], b"\x7fELF\0\0", b"---\n\0\n---\nbody"] {
        assert_eq!(given(junk), Err("not used: it is no text".to_owned()), "{junk:?}");
    }
}

/// What a role has of a session's tools and what is noted, or why there is no role.
type Expected = Result<(&'static str, &'static str), &'static str>;

/// Every way to write the fields about tools.
const ABOUT_TOOLS: &[(&str, Expected)] = &[
    ("", Ok((ALL, ""))),
    ("colour: green", Ok((ALL, ""))),
    ("tools: Read, Glob, TodoWrite", Ok(("read find todo", ""))),
    ("tools: [\"Read\", 'LS']", Ok(("read ls", ""))),
    ("tools: [Read,\n  LS]", Ok(("read ls", ""))),
    ("tools:\n  - Read\n  - Bash # to build", Ok(("read bash", ""))),
    ("tools:\n- Read\n- mcp__box__look", Ok(("read mcp__box__look", ""))),
    ("tools: \"read, grep\"", Ok(("read grep", ""))),
    ("tools: 'read', \"grep\"", Ok(("read grep", ""))),
    ("tools: read, grep # note, bash", Ok(("read grep", ""))),
    ("tools: # these\n  - read # note", Ok(("read", ""))),
    ("tools: read,\n  grep", Ok(("read grep", ""))),
    ("tools: >-\n  read,\n  grep", Ok(("read grep", ""))),
    ("tools: |\n  read\n  grep", Ok(("read grep", ""))),
    ("tools: *", Ok((ALL, ""))),
    ("tools: \"*\"", Ok((ALL, ""))),
    ("tools: mcp__box", Ok(("mcp__box__look mcp__box__send", ""))),
    ("tools: mcp__*__look", Ok(("mcp__box__look", ""))),
    ("tools: []", Ok(("", "it names no tool, and has none"))),
    ("tools:", Ok(("", "it names no tool, and has none"))),
    ("tools: Read, Dance", Ok(("read", "there is no tool \"Dance\"; it is left out"))),
    ("tools: Task", Ok(("", "subagents start no subagents: `task` is left out"))),
    (
        "tools: read, Bash(git diff, git log)",
        Ok(("read", "\"Bash(git diff, git log)\" is a part of a tool; it is left out")),
    ),
    ("disallowedTools: Bash", Ok((BUT_BASH, ""))),
    ("disallowed-tools: [bash, WebFetch, Task]", Ok((BUT_BASH, ""))),
    (
        "disallowedTools: Bash(rm *)",
        Ok((BUT_BASH, "\"Bash(rm *)\" is a part of a tool; all of it is kept from it")),
    ),
    ("disallowedTools: mcp__BOX, mcp__git*", Ok((BUILT_IN, ""))),
    ("tools: read, bash\ndisallowedTools:\n  - Bash", Ok(("read", ""))),
    ("disallowedTools: \"*\"", Ok(("", ""))),
    ("permissionMode: plan", Ok((LOOKING, ""))),
    ("permissionMode: 'Plan' # only looks", Ok((LOOKING, ""))),
    ("tools: read, bash\npermissionMode: plan", Ok(("read", ""))),
    ("disallowedTools: grep\npermissionMode: plan", Ok(("read find ls todo", ""))),
    (
        "tools: read\npermissionMode: acceptEdits",
        Ok((
            "read",
            "`permissionMode: acceptEdits` means nothing here: the session's mode decides",
        )),
    ),
    ("hooks:\n  Stop:\n    - command: x\ntools: read", Ok(("read", "`hooks` means nothing here"))),
    ("permissionMode: readonly", Err("line 3: there is no such `permissionMode`")),
    ("disallowedTools: Bsh", Err("line 3: there is no tool \"Bsh\" that it could be kept from")),
    ("disallowedTools: *x", Err("line 3: there is no tool \"*x\"")),
    ("disallowedTools: read\n  - bash", Err("line 4: it is no item of a list")),
    ("disallowedTools: {bash: true}", Err("is no tool's name")),
    ("disallowedTools: !!str bash", Err("is no tool's name")),
    ("disallowedTools: \"b\\x61sh\"", Err("line 3: its quotes do not close")),
    ("disallowedTools: [read, bash", Err("line 3: its list has no end")),
    ("tools: {write: false}", Err("is no tool's name")),
    ("tools:\n  write: false", Err("line 4: it is no item of a list")),
    ("tools: read grep", Err("\"read grep\" is no tool's name")),
    ("tool: read", Err("line 3: `tool` is no field of a role")),
    ("allowed-tools: read", Err("line 3: `allowed-tools` is no field of a role")),
    ("permission:\n  edit: deny", Err("line 3: `permission` is no field of a role")),
    ("mcpServers:\n  - box:\n      tools: [look]", Err("line 5: it is indented")),
];

#[test]
fn what_a_file_says_of_tools() {
    for (front, expected) in ABOUT_TOOLS {
        let text = format!("---\ndescription: d\n{front}\n---\nbody");
        match (given(text.as_bytes()), expected) {
            (Ok((tools, notes)), Ok(expected)) => {
                assert_eq!((tools.as_str(), notes.as_str()), *expected, "{front}");
            }
            (Err(told), Err(why)) => assert!(told.contains(why), "{front}: {told}"),
            (told, _) => panic!("{front}: {told:?}"),
        }
    }
}

#[test]
fn texts_are_read_as_they_are_meant() {
    let described = |text: &str| {
        let text = format!("---\n{text}\n---\nbody");
        parsed(text.as_bytes()).0.map(|role| role.description)
    };
    let cases = [
        ("description: >\n  looks\n  around", "looks around"),
        ("description: |-\n  looks\n  tools: all", "looks\ntools: all"),
        ("description: looks\n  around # and about", "looks around"),
        ("description: \"a: b # c\" # d", "a: b # c"),
        ("description: \"a \\\"b\\\"\"", "a \"b\""),
        ("description: 'it''s'", "it's"),
        ("description: \"a\n  b: c\"", "a b: c"),
        ("description: a: b", "a: b"),
        ("description: don't do c#", "don't do c#"),
    ];
    for (text, expected) in cases {
        assert_eq!(described(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let cases = [
        ("name: a", "it has no description, so the model does not know what it is for"),
        (
            "description: d\nmodel: sonnet",
            "\"sonnet\" is not PROVIDER/ID; it asks its parent's model",
        ),
        ("description: d\nmodel: inherit", ""),
        (
            "description: d\nthinking: ultra",
            "\"ultra\" is no thinking level; it thinks as its parent",
        ),
        ("description: d\nmaxTurns: 3", "`maxTurns` means nothing here"),
    ];
    for (front, expected) in cases {
        let (role, notes) = parsed(format!("---\n{front}\n---\nbody").as_bytes());
        assert_eq!((role.is_ok(), notes.as_str()), (true, expected), "{front}");
    }
}

/// What cannot be used is known by the name that it gives itself, as far as that can be told, else by its file's.
#[test]
fn a_file_that_is_none_of_a_role_has_a_name() {
    let cases = [
        ("---\nname: guard\ntools: read", "guard"),
        ("---\n  name: \"guard\" # it\n---\nbody", "guard"),
        ("---\nname: a/b\n---\nbody", "scout"),
        ("body", "scout"),
        ("\0", "scout"),
    ];
    for (text, expected) in cases {
        let Parsed { name, role, .. } = parse(Path::new("/p/scout.md"), text.as_bytes());
        assert_eq!((name.as_str(), role.is_err()), (expected, true), "{text:?}");
    }
}
