//! Two processes that change one file: the lock between them, held by real kernels' means.
//!
//! Responsible for: what only processes can show. Must not: wait for time to pass; they tell each other by
//! their pipes how far they are.
#![allow(clippy::unwrap_used)]

use segno_agent::permission::Mode;
use segno_agent::tool::{Toolbox, ToolboxConfig};
use segno_model::record::{Outcome, ToolCall};
use segno_runtime::{Stop, ToolOutput, ToolPlan, ToolRun, Tools as _, Verdict};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const NAME: &str = "SEGNO_TEST_NAME";
const ROOT: &str = "SEGNO_TEST_ROOT";

/// How many edits each process makes.
const EDITS: usize = 40;

fn toolbox(root: &Path, session: &str) -> Toolbox {
    Toolbox::new(ToolboxConfig {
        session: (session.to_owned(), "h".to_owned()),
        cwd: root.join("project"),
        root: root.join("project"),
        home: None,
        own: vec![root.join("segno")],
        mode: Mode::All,
        rules: Vec::new(),
        hidden_env: Vec::new(),
        supervision: None,
        locks: Some(root.join("segno/locks")),
        servers: None,
        asker: None,
    })
}

/// Puts a word in front of the file's end.
fn edit(path: &str, word: &str) -> ToolCall {
    let arguments = json!({"path": path, "old_text": "END", "new_text": format!("{word}\nEND")});
    ToolCall { id: word.to_owned(), name: "edit".to_owned(), arguments: arguments.to_string() }
}

async fn prepare(tools: &Toolbox, call: &ToolCall) -> ToolPlan {
    let Verdict::Run(plan) = tools.judge(call).await else { panic!("allowed") };
    tools.prepare(call, plan).await.unwrap()
}

async fn run(tools: &Toolbox, call: &ToolCall) -> ToolOutput {
    tools.run(call, ToolRun { stop: Stop::never(), progress: &|_| {} }).await
}

#[allow(clippy::print_stdout, reason = "it is how processes of a test talk")]
fn say(what: &str) {
    println!("say:{what}");
}

fn wait() {
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

/// What the other processes are: nothing, unless this test program is called as one.
#[tokio::test]
async fn helper_process() {
    let (Ok(name), Ok(root)) = (std::env::var(NAME), std::env::var(ROOT)) else { return };
    let tools = toolbox(Path::new(&root), &name);
    // Holding a file of its own, it does not wait for one that somebody else holds: it says so.
    let (own, shared) = (edit(&format!("{name}.txt"), &name), edit("a.txt", &format!("{name}-0")));
    prepare(&tools, &own).await;
    let busy = prepare(&tools, &shared).await.not_yet;
    say(if busy { "busy" } else { "holds" });
    wait();
    assert_eq!(run(&tools, &own).await.outcome, Outcome::Done);
    if busy {
        // Now it waits until the other one is done.
        assert!(!prepare(&tools, &shared).await.not_yet);
    }
    assert_eq!(run(&tools, &shared).await.outcome, Outcome::Done);
    say("first");
    wait();
    for n in 1..=EDITS {
        let call = edit("a.txt", &format!("{name}-{n}"));
        prepare(&tools, &call).await;
        assert_eq!(run(&tools, &call).await.outcome, Outcome::Done, "{n}");
    }
    say("end");
}

struct Helper {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    fn start(name: &str, root: &Path) -> Self {
        std::fs::write(root.join("project").join(format!("{name}.txt")), "END\n").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper_process", "--nocapture", "--test-threads=1"])
            .env(NAME, name)
            .env(ROOT, root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn hear(&mut self) -> String {
        let said = self.lines.by_ref().map_while(Result::ok);
        let mut said = said.filter_map(|l| Some(l.split_once("say:")?.1.to_owned()));
        said.next().expect("it says something")
    }

    fn go_on(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }
}

fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("project")).unwrap();
    std::fs::write(root.join("project/a.txt"), "END\n").unwrap();
    (dir, root)
}

/// Every edit of two processes that hammer one file is done and in it, once; that they are in each other's
/// way is seen first. Covers: G7.
#[test]
fn two_processes_that_edit_one_file_lose_nothing() {
    let (_dir, root) = place();
    let mut one = Helper::start("one", &root);
    assert_eq!(one.hear(), "holds");
    let mut two = Helper::start("two", &root);
    assert_eq!(two.hear(), "busy", "contention");
    two.go_on();
    one.go_on();
    assert_eq!((one.hear(), two.hear()), ("first".to_owned(), "first".to_owned()));
    one.go_on();
    two.go_on();
    assert_eq!((one.hear(), two.hear()), ("end".to_owned(), "end".to_owned()));
    let content = std::fs::read_to_string(root.join("project/a.txt")).unwrap();
    let lines: Vec<&str> = content.lines().collect();
    for name in ["one", "two"] {
        let own: Vec<&str> = lines.iter().copied().filter(|l| l.starts_with(name)).collect();
        let expected: Vec<String> = (0..=EDITS).map(|n| format!("{name}-{n}")).collect();
        assert_eq!(own, expected, "all, once, in the order in which they were told as done");
    }
    assert_eq!((lines.len(), lines.last()), (2 * (EDITS + 1) + 1, Some(&"END")));
    assert_eq!(std::fs::read_dir(root.join("project")).unwrap().count(), 3, "nothing beside them");
    assert!(one.child.wait().unwrap().success() && two.child.wait().unwrap().success());
}

/// Whoever is killed lets go, and what it had not done is not there. Covers: G7.
#[test]
fn a_killed_process_lets_go_of_a_file() {
    let (_dir, root) = place();
    let mut one = Helper::start("one", &root);
    assert_eq!(one.hear(), "holds");
    one.child.kill().unwrap();
    one.child.wait().unwrap();
    let mut two = Helper::start("two", &root);
    assert_eq!(two.hear(), "holds");
    two.go_on();
    assert_eq!(two.hear(), "first");
    assert_eq!(std::fs::read_to_string(root.join("project/a.txt")).unwrap(), "two-0\nEND\n");
    two.child.kill().unwrap();
    two.child.wait().unwrap();
}
