//! The suite against builds from which one safeguard was taken away.
//!
//! Responsible for: the list of safeguards, each as one change of one source file and the tests that must
//! notice; making the changed tree, running them, and saying which test caught what. Must not: touch the
//! tree that it is run in. A change whose text is not found exactly once is an error: the list is kept up
//! with the code.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

struct Sabotage {
    /// The safeguard that is gone.
    without: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    /// Which tests are run, as arguments of `cargo test`; the first set that fails is enough.
    tests: &'static [&'static [&'static str]],
}

const PROOF: &[&str] = &["-p", "segno-runtime", "--test", "proof"];
const RUNTIME: &[&str] = &["-p", "segno-runtime"];
const CRASHES: &[&str] = &["-p", "segno-store", "--test", "crashes"];
const PROCESSES: &[&str] = &["-p", "segno-store", "--test", "processes", "--test", "conformance"];
const MODEL: &[&str] = &["-p", "segno-model"];
const SUPERVISED: &[&str] = &["-p", "segno-agent", "--test", "supervised"];
const CHANGES: &[&str] = &["-p", "segno-agent", "--lib", "change::"];
const INBOX: &[&str] = &["-p", "segno-store", "--test", "inbox"];
const SERVERS: &[&str] = &["-p", "segno-agent", "--test", "mcp"];
const CONTEXTS: &[&str] = &["-p", "segno-model", "--test", "context"];
const SUMMARIES: &[&str] = &["-p", "segno-model", "--lib", "compaction::"];
const COMPACTION: &[&str] = &["-p", "segno-runtime", "--test", "compaction"];
const ERASING: &[&str] = &["-p", "segno-store", "--test", "erase"];
const MODELS: &[&str] = &["-p", "segno-agent", "--test", "models"];

/// What hangs without its safeguard is caught as well: a set of tests that takes this many times what it
/// took with every safeguard in place, and never less than the shortest deadline.
const TIMES_AS_LONG: u32 = 10;
const SHORTEST_DEADLINE_SECONDS: u32 = 600;
const TICK: Duration = Duration::from_millis(200);
const TICKS_PER_SECOND: u32 = 5;

const ALL: &[Sabotage] = &[
    Sabotage {
        without: "no sync before an append is acknowledged",
        file: "crates/segno-store/src/writer.rs",
        from: "        self.file\n            .sync_data()\n",
        to: "        std::io::Result::Ok(())\n",
        tests: &[PROOF, CRASHES],
    },
    Sabotage {
        without: "no sync of directories",
        file: "crates/segno-store/src/durable.rs",
        from: "    disk.sync_dir(dir).map_err(|e| write_error(\"syncing\", dir, e))\n",
        to: "    let _ = (disk, dir);\n    Ok(())\n",
        tests: &[CRASHES, PROOF],
    },
    Sabotage {
        without: "no sync of the directories above a new session",
        file: "crates/segno-store/src/durable.rs",
        from: "    sync_above(disk, root, path, &missing)?;\n",
        to: "    let _ = sync_above::<D>;\n",
        tests: &[CRASHES],
    },
    Sabotage {
        without: "no lock",
        file: "crates/segno-store/src/lock.rs",
        from: "        if file.try_lock()? {\n",
        to: "        if file.try_lock()? || true {\n",
        tests: &[PROCESSES],
    },
    Sabotage {
        without: "no checksum",
        file: "crates/segno-model/src/line.rs",
        from: "    if actual != stored {\n",
        to: "    if actual != stored && false {\n",
        tests: &[MODEL, CRASHES],
    },
    Sabotage {
        without: "no intent before an effect",
        file: "crates/segno-runtime/src/effects.rs",
        from: "        if !actions.is_empty() {\n",
        to: "        if !actions.is_empty() && false {\n",
        tests: &[PROOF, RUNTIME],
    },
    Sabotage {
        without: "no sync of an intent",
        file: "crates/segno-runtime/src/effects.rs",
        from: "            self.append(actions, Level::Synced).await?;\n",
        to: "            self.append(actions, Level::Written).await?;\n",
        tests: &[PROOF, RUNTIME],
    },
    Sabotage {
        without: "no sync of a question before it is put",
        file: "crates/segno-runtime/src/effects.rs",
        from: "        self.append(vec![approval(call, call_seq, asked)], Level::Synced).await?;\n",
        to: "        self.append(vec![approval(call, call_seq, asked)], Level::Written).await?;\n",
        tests: &[RUNTIME],
    },
    Sabotage {
        without: "a result is recorded before its effect",
        file: "crates/segno-runtime/src/effects.rs",
        from: "                    running.push(async move {\n",
        to: "                    let early = ToolOutput::done(\"done\");\n                    self.record(call, early, Established::Observed, call_seq).await?;\n                    running.push(async move {\n",
        tests: &[PROOF, RUNTIME],
    },
    Sabotage {
        without: "no sync of results before the next request",
        file: "crates/segno-runtime/src/run.rs",
        from: "        self.session.sync().await?;\n        self.show();\n",
        to: "        self.show();\n",
        tests: &[PROOF, RUNTIME],
    },
    Sabotage {
        without: "no claim: a supervisor starts its command whoever has the claim",
        file: "crates/segno-agent/src/supervisor/serve.rs",
        from: "        Ok(false) => return Err(GivenUp::LostClaim),\n",
        to: "        Ok(false) => {}\n",
        tests: &[SUPERVISED],
    },
    Sabotage {
        without: "markers are inferred: work without an end counts as finished",
        file: "crates/segno-model/src/standing.rs",
        from: "    Row { standing: Standing::Interrupted, matches: |f| !f.asked && f.runs() },\n",
        to: "    Row { standing: Standing::Finished, matches: |f| !f.asked && f.runs() },\n",
        tests: &[MODEL, RUNTIME],
    },
    Sabotage {
        without: "a stop is not recorded before anything is signalled",
        file: "crates/segno-runtime/src/run.rs",
        from: "        if kind == StopKind::Shutdown || noted {\n",
        to: "        if kind == StopKind::Shutdown || noted || true {\n",
        tests: &[RUNTIME],
    },
    Sabotage {
        without: "an admission is not durable when it is acknowledged",
        file: "crates/segno-store/src/inbox/mod.rs",
        from: "        .and_then(|()| temp.file.sync_all())\n",
        to: "",
        tests: &[INBOX, PROOF],
    },
    Sabotage {
        without: "what recovery finds done is not made durable",
        file: "crates/segno-agent/src/tool/change/establish.rs",
        from: "        if make_durable(&path, steps).is_err() {\n",
        to: "        if false && make_durable(&path, steps).is_err() {\n",
        tests: &[CHANGES],
    },
    Sabotage {
        without: "an edit does not check what it replaced",
        file: "crates/segno-agent/src/tool/change/replace.rs",
        from: "    steps(\"exchanged\");\n",
        to: "    steps(\"exchanged\");\n    return Ok(());\n",
        tests: &[CHANGES],
    },
    Sabotage {
        without: "what came out of a path is not kept by recovery",
        file: "crates/segno-agent/src/tool/change/establish.rs",
        from: "            keep(out).map(Some)\n",
        to: "            std::fs::remove_file(out).map(|()| None)\n",
        tests: &[CHANGES],
    },
    Sabotage {
        without: "an edit is taken as done when its temp file is gone",
        file: "crates/segno-agent/src/tool/change/establish.rs",
        from: "named: &[Named::Gone], holds: &[Holds::Old], out: &[], finding: Finding::NotDone },\n    Row { label: \"the file does",
        to: "named: &[Named::Gone], holds: &[Holds::Old], out: &[], finding: Finding::Done },\n    Row { label: \"the file does",
        tests: &[CHANGES],
    },
    Sabotage {
        without: "a call that may have arrived is made again",
        file: "crates/segno-agent/src/mcp/server.rs",
        from: "                Ok(Err(Failure::Lost(why))) => return Ended::Lost(why),\n",
        to: "                Ok(Err(Failure::Lost(_))) if again => {}\n                Ok(Err(Failure::Lost(why))) => return Ended::Lost(why),\n",
        tests: &[SERVERS],
    },
    Sabotage {
        without: "what a service does not know is sent again unasked",
        file: "crates/segno-agent/src/mcp/keyed.rs",
        from: "        matches: |f| f.says == Says::Absent && f.repeatable && f.may_act,\n",
        to: "        matches: |f| f.says == Says::Absent && f.repeatable,\n",
        tests: &[SERVERS],
    },
    Sabotage {
        without: "a compaction replaces the history before its summary is there",
        file: "crates/segno-model/src/record/mod.rs",
        from: "            Self::Compaction(compaction) => compaction.state == CompactionState::Done,\n",
        to: "            Self::Compaction(compaction) => compaction.state != CompactionState::Failed,\n",
        tests: &[CONTEXTS, COMPACTION],
    },
    Sabotage {
        without: "a compaction that was killed is not told as failed",
        file: "crates/segno-runtime/src/recovery.rs",
        from: "    if state.open_compaction.is_some() {\n",
        to: "    if false {\n",
        tests: &[COMPACTION],
    },
    Sabotage {
        without: "a summary that was cut off is taken",
        file: "crates/segno-model/src/compaction/summary.rs",
        from: "    if stop == StopReason::Length {\n",
        to: "    if stop == StopReason::Length && false {\n",
        tests: &[CONTEXTS],
    },
    Sabotage {
        without: "a summary is paid for again and again",
        file: "crates/segno-model/src/compaction/trigger.rs",
        from: "            Some((then, failed)) if self.estimate < then.saturating_add(self.step) => {\n",
        to: "            Some((then, failed)) if self.estimate < then.saturating_add(self.step) && false => {\n",
        tests: &[SUMMARIES, COMPACTION],
    },
    Sabotage {
        without: "old outputs are left out one by one, and every prompt cache goes cold",
        file: "crates/segno-model/src/compaction/prune.rs",
        from: "    (pruning.frees >= step(window)).then_some(pruning)\n",
        to: "    let _ = step(window);\n    (pruning.frees > 0).then_some(pruning)\n",
        tests: &[CONTEXTS],
    },
    Sabotage {
        without: "an output that a person restored is left out again",
        file: "crates/segno-model/src/compaction/prune.rs",
        from: "    let edited = edited(records);\n",
        to: "    let edited = { edited(records); HashSet::<Seq>::new() };\n",
        tests: &[CONTEXTS, COMPACTION],
    },
    Sabotage {
        without: "what is left out to save room is not recorded",
        file: "crates/segno-runtime/src/compaction/mod.rs",
        from: "        self.append(edits.collect(), Level::Synced).await?;\n        self.observer.event(Event::Compaction(CompactionEvent::Pruned",
        to: "        drop(edits);\n        self.observer.event(Event::Compaction(CompactionEvent::Pruned",
        tests: &[COMPACTION],
    },
    Sabotage {
        without: "an erasure exchanges the logs before the new one is durable",
        file: "crates/segno-store/src/erase.rs",
        from: "        file.sync_all().map_err(|e| write_error(\"syncing\", path, e))?;\n        self.compare(path, records)\n",
        to: "        self.compare(path, records)\n",
        tests: &[ERASING],
    },
    Sabotage {
        without: "an erasure leaves what lies beside the log",
        file: "crates/segno-store/src/erase/sweep.rs",
        from: "    for name in &study.files {\n        remove(disk, &dir.path().join(name))?;\n    }\n",
        to: "",
        tests: &[ERASING],
    },
    Sabotage {
        without: "an erasure removes blobs before the new log counts",
        file: "crates/segno-store/src/erase.rs",
        from: "            new = Some(self.replace_log(&dir, id, &study)?);\n",
        to: "            for (name, _) in &study.blobs {\n                let _ = self.disk().remove_file(&dir.blobs().join(name));\n            }\n            new = Some(self.replace_log(&dir, id, &study)?);\n",
        tests: &[ERASING],
    },
    Sabotage {
        without: "a refused request is made again as it was",
        file: "crates/segno-runtime/src/refusal.rs",
        from: "            (Verdict::Fail | Verdict::Part(_) | Verdict::Whole, _) => return Ok(false),\n",
        to: "            (Verdict::Fail | Verdict::Part(_) | Verdict::Whole, _) => return Ok(true),\n",
        tests: &[MODELS],
    },
    Sabotage {
        without: "what a provider refused is sent again with the next request",
        file: "crates/segno-runtime/src/refusal.rs",
        from: "        if !edits.is_empty() {\n",
        to: "        if !edits.is_empty() && false {\n",
        tests: &[MODELS],
    },
    Sabotage {
        without: "a person's words are left out when a provider refuses them",
        file: "crates/segno-runtime/src/refusal.rs",
        from: "                holds.whose == Whose::Result && !(holds.images && f.part != RefusedPart::Thinking)\n",
        to: "                matches!(holds.whose, Whose::Result | Whose::User) && !(holds.images && f.part != RefusedPart::Thinking)\n",
        tests: &[MODELS],
    },
    Sabotage {
        without: "signatures go to the same name at another place",
        file: "crates/segno-agent/src/provider/sendable/turns.rs",
        from: "        let is_own = turn.model == *model && turn.endpoint.as_deref() == endpoint;\n",
        to: "        let _ = endpoint;\n        let is_own = turn.model == *model;\n",
        tests: &[MODELS],
    },
    Sabotage {
        without: "signatures go to whoever is asked",
        file: "crates/segno-agent/src/provider/sendable/turns.rs",
        from: "        let is_own = turn.model == *model && turn.endpoint.as_deref() == endpoint;\n",
        to: "        let is_own = (turn.model == *model && turn.endpoint.as_deref() == endpoint) || true;\n",
        tests: &[MODELS],
    },
];

/// `sabotage [WORD…]`: all of them, or those whose name or file holds one of the words.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<String, String> {
    let tree = root.join("target/sabotage/tree");
    copy_tree(root, &tree)?;
    let mut survived = Vec::new();
    let is_meant = |sabotage: &&Sabotage| {
        let names = |word: &String| {
            sabotage.without.contains(word.as_str()) || sabotage.file.contains(word.as_str())
        };
        args.is_empty() || args.iter().any(names)
    };
    let chosen: Vec<_> = ALL.iter().filter(is_meant).collect();
    if chosen.is_empty() {
        return Err(format!("no safeguard is called {}", args.join(" or ")));
    }
    let deadlines = with_everything_in_place(&tree, &chosen)?;
    let count = chosen.len();
    for sabotage in chosen {
        match caught_by(&tree, sabotage, &deadlines)? {
            Some(test) => crate::say(&format!("{}: caught by {test}", sabotage.without)),
            None => {
                crate::say(&format!("{}: NOT caught", sabotage.without));
                survived.push(sabotage.without);
            }
        }
    }
    let total = format!("{} of {count} caught", count - survived.len());
    if survived.is_empty() { Ok(total) } else { Err(total) }
}

/// A set of tests, and how many ticks it may take.
type Deadlines = Vec<(&'static [&'static str], u32)>;

/// Each set of tests passes in the tree as it is: else its failing would say nothing about a safeguard.
fn with_everything_in_place(tree: &Path, chosen: &[&Sabotage]) -> Result<Deadlines, String> {
    let mut deadlines = Deadlines::new();
    for tests in chosen.iter().flat_map(|sabotage| sabotage.tests) {
        if deadlines.iter().any(|(known, _)| known == tests) {
            continue;
        }
        let Tested { failed, ticks } = test(tree, tests, None)?;
        if let Some(test) = failed {
            return Err(format!("{test} fails with every safeguard in place"));
        }
        let longest = ticks.saturating_mul(TIMES_AS_LONG);
        deadlines.push((tests, longest.max(SHORTEST_DEADLINE_SECONDS * TICKS_PER_SECOND)));
    }
    Ok(deadlines)
}

/// The first tests that fail; none when all pass.
fn caught_by(
    tree: &Path,
    sabotage: &Sabotage,
    deadlines: &Deadlines,
) -> Result<Option<String>, String> {
    let changed = tree.join(sabotage.file);
    let text = read(&changed)?;
    if text.matches(sabotage.from).count() != 1 {
        let (without, file) = (sabotage.without, sabotage.file);
        return Err(format!("{without}: its text is not exactly once in {file}"));
    }
    write(&changed, &text.replacen(sabotage.from, sabotage.to, 1))?;
    let outcome = sabotage.tests.iter().find_map(|tests| {
        let deadline = deadlines.iter().find(|(known, _)| known == tests).map(|(_, ticks)| *ticks);
        match test(tree, tests, deadline) {
            Ok(Tested { failed, .. }) => failed.map(Ok),
            Err(why) => Some(Err(format!("{}: {why}", sabotage.without))),
        }
    });
    write(&changed, &text)?;
    outcome.transpose()
}

struct Tested {
    /// The tests that failed, if any did.
    failed: Option<String>,
    ticks: u32,
}

/// Builds a set of tests, however long that takes, and runs it until the deadline.
fn test(tree: &Path, tests: &[&str], deadline: Option<u32>) -> Result<Tested, String> {
    let output = tree.with_file_name("output");
    let build = cargo_test(tree, tests, &["--no-run"]);
    let built = run_to_the_end(build, &output, None)?;
    if built.succeeded != Some(true) {
        return Err(format!("it does not build: {}", built.err));
    }
    let ran = run_to_the_end(cargo_test(tree, tests, &["--no-fail-fast"]), &output, deadline)?;
    let failed = match ran.succeeded {
        Some(true) => None,
        None => Some("tests that do not come to an end".to_owned()),
        Some(false) => Some(
            names_of_failed(&ran.out)
                .ok_or_else(|| format!("no test is named, and yet they fail: {}", ran.err))?,
        ),
    };
    Ok(Tested { failed, ticks: ran.ticks })
}

fn cargo_test(tree: &Path, tests: &[&str], how: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["test", "--locked"])
        .args(how)
        .args(tests)
        .env("CARGO_TARGET_DIR", tree.with_file_name("build"))
        .env("RUSTFLAGS", "-A warnings")
        .current_dir(tree);
    command
}

fn names_of_failed(out: &str) -> Option<String> {
    let failed =
        out.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    let failed: Vec<&str> = failed.collect();
    match failed.as_slice() {
        [] => None,
        [first] => Some((*first).to_owned()),
        [first, ..] => Some(format!("{first} and {} more", failed.len() - 1)),
    }
}

struct Ran {
    /// None when it was ended at the deadline.
    succeeded: Option<bool>,
    ticks: u32,
    out: String,
    err: String,
}

/// Runs a command. Its output goes through files, so that whatever it writes never holds it up.
fn run_to_the_end(
    mut command: Command,
    output: &Path,
    deadline: Option<u32>,
) -> Result<Ran, String> {
    let [out, err] = ["out", "err"].map(|kind| output.with_extension(kind));
    let create =
        |path: &Path| fs::File::create(path).map_err(|e| format!("{}: {e}", path.display()));
    command.stdout(create(&out)?).stderr(create(&err)?).process_group(0);
    let mut child = command.spawn().map_err(|e| format!("cargo could not be started: {e}"))?;
    let (mut ended, mut ticks) = (None, 0);
    while ended.is_none() && deadline.is_none_or(|deadline| ticks < deadline) {
        std::thread::sleep(TICK);
        ticks += 1;
        ended = child.try_wait().map_err(|e| e.to_string())?;
    }
    if ended.is_none() {
        // With everything that it started.
        let group = format!("-{}", child.id());
        let _ = Command::new("kill").args(["-9", "--", &group]).status();
        let _ = child.wait();
    }
    let succeeded = ended.map(|status| status.success());
    Ok(Ran { succeeded, ticks, out: read_lossy(&out), err: read_lossy(&err) })
}

fn read_lossy(path: &Path) -> String {
    fs::read(path).map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into())
}

/// All files of the project that git knows or would know, as they are now.
fn copy_tree(root: &Path, tree: &Path) -> Result<(), String> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git could not be started: {e}"))?;
    for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|n| !n.is_empty()) {
        let (from, to) = (root.join(name), tree.join(name));
        // What did not change keeps its time, so that it is not built again.
        if !from.is_file() || same(&from, &to) {
            continue;
        }
        let parent = to.parent().map(PathBuf::from).unwrap_or_default();
        fs::create_dir_all(&parent).map_err(|e| format!("{}: {e}", parent.display()))?;
        fs::copy(&from, &to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    Ok(())
}

fn same(a: &Path, b: &Path) -> bool {
    matches!((fs::read(a), fs::read(b)), (Ok(a), Ok(b)) if a == b)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
