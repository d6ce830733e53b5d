//! What is wrong with instruction and role files is told to whoever starts an agent there, once.

use super::interactive::Desk;
use super::place::Place;
use std::path::Path;

/// Role files by name, what is said of them and, behind it, what to do; nothing is said of the good one.
const ROLES: &[(&str, &str, &str)] = &[
    ("good.md", "---\nname: good\ndescription: d\nthinking: low\n---\nbody", ""),
    ("bare.md", "body", "there is no front matter between two lines `---`. Put `---`, "),
    (
        "open.md",
        "---\nname: open\nbody",
        "not used: its front matter has no second line `---`. Put a line",
    ),
    (
        "odd.md",
        "---\ndescription: d\n  tools: read\n---\nbody",
        "not used: line 3: it is indented, and belongs to nothing. Write each field",
    ),
    ("name.md", "---\nname: a/b\n---\nbody", "not used: \"a/b\" is no name. Name it with letters"),
    ("empty.md", "---\ndescription: d\n---\n", "not used: it has no prompt. Write what"),
    (
        "silent.md",
        "---\nname: silent\n---\nbody",
        "so the model does not know what it is for. Say in `description:`",
    ),
    (
        "tool.md",
        "---\ndescription: d\ntools: Dance\n---\nbody",
        "there is no tool \"Dance\"; it is left out. There are read,",
    ),
    ("task.md", "---\ndescription: d\ntools: Task\n---\nbody", "`task` is left out. Take it out"),
    (
        "model.md",
        "---\ndescription: d\nmodel: sonnet\n---\nbody",
        "it asks its parent's model. Write `model:` as `segno models`",
    ),
    (
        "deep.md",
        "---\ndescription: d\nthinking: deeply\n---\nbody",
        "\"deeply\" is no thinking level; it thinks as its parent. There are off,",
    ),
    ("twin.md", "---\nname: good\n---\nbody", "not used: the role good is that of "),
];

fn write(project: &Path, outside: &Path) {
    let agents = project.join(".segno/agents");
    std::fs::create_dir_all(&agents).unwrap();
    for (name, text, _) in ROLES {
        std::fs::write(agents.join(name), text).unwrap();
    }
    std::fs::write(agents.join("big.md"), "x".repeat(70 << 10)).unwrap();
    std::fs::write(outside, "body").unwrap();
    let link = |to: &Path, from: &Path| std::os::unix::fs::symlink(to, from).unwrap();
    link(outside, &agents.join("out.md"));
    link(Path::new("/nowhere/at/all"), &agents.join("lost.md"));
    link(outside, &project.join("AGENTS.md"));
}

/// Every fault is a line with the file, what it is and what to do about it; files without one are not named,
/// and the run goes on.
#[test]
fn a_script_is_told_what_is_wrong_with_role_and_instruction_files() {
    let place = Place::new("otherwise\n  say \"Done.\"\n");
    write(&place.file(""), &place.home().with_file_name("outside.md"));
    let ran = place.done(&["hello"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Done.\n"), "{ran:?}");
    let line = |path: &str| {
        let told = format!("/{path}: ");
        ran.err.lines().filter(|l| l.starts_with("note: ") && l.contains(&told)).collect::<Vec<_>>()
    };
    let others = [
        (".segno/agents/big.md", "71680 bytes are too many. Shorten it"),
        (".segno/agents/out.md", "not used: it leads out of the project, to /"),
        (".segno/agents/lost.md", "not used: No such file or directory"),
        ("project/AGENTS.md", "not used: it leads out of the project, to /"),
    ];
    let roles = ROLES.iter().map(|(name, _, said)| (format!(".segno/agents/{name}"), *said));
    for (path, said) in roles.chain(others.map(|(path, said)| (path.to_owned(), said))) {
        let told = line(&path);
        let expected = !said.is_empty();
        assert!(told.is_empty() != expected, "{path}: {}", ran.err);
        assert!(!expected || told.iter().any(|line| line.contains(said)), "{path}: {told:?}");
    }
}

/// A person sees it where they begin, and not again with each turn.
#[test]
fn a_person_is_told_once_where_they_begin() {
    let desk = Desk::with("otherwise\n  say \"Done.\"\n");
    let agents = desk.project().join(".segno/agents");
    std::fs::create_dir_all(&agents).unwrap();
    std::fs::write(agents.join("open.md"), "---\nname: open\nbody").unwrap();
    let url = desk.url();
    let args = ["--base-url", url.as_str()];
    let mut segno = desk.play_exactly(&args, &desk.project(), 240, 40);
    let told = "open.md: not used: its front matter has no second line";
    segno.wait_for(told);
    segno.enter("first");
    segno.wait_for("Done.");
    segno.ready();
    assert_eq!(segno.screen().matches(told).count(), 1, "{}", segno.screen());
    segno.enter("/quit");
    assert_eq!(segno.exit_code(), 0);
}
