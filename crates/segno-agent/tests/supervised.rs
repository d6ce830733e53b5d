//! Supervised commands with real processes: killed, raced, left alone and found again.
//!
//! Responsible for: what is told of a command after anything that can happen to those around it. Must not:
//! depend on how fast the machine is; commands say when they are ready.
#![allow(clippy::unwrap_used)]

mod support;

use segno_agent::supervisor::{ActionDir, Claim, Claimant, LOST_CLAIM, Standing, judge};
use segno_model::checkpoint::{Background, Checkpoint, OpenAction};
use segno_model::record::{Action, Outcome, ReplayClass};
use segno_model::store::Owner;
use segno_runtime::{
    Begun, Progress, Settlement, Stop, StopHandle, StopKind, ToolOutput, ToolRun, Tools, Verdict,
};
use serde_json::json;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use support::{Place, text};

#[test]
fn supervisor_process() {
    support::supervisor_process();
}

/// Waits for something that certainly comes.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}

fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

fn owner() -> Owner {
    Owner { host: "here".to_owned(), boot: boot(), ..Owner::default() }
}

/// A call whose intent is on record, and whose process then died.
struct Intent {
    action: Action,
    dir: ActionDir,
}

impl Intent {
    async fn of(place: &Place, arguments: &serde_json::Value) -> Self {
        let call = place.tool_call("bash", &arguments.to_string());
        let Verdict::Run(plan) = place.tools.judge(&call).await else { panic!("allowed") };
        assert_eq!(plan.class, ReplayClass::Supervised);
        let plan = place.tools.prepare(&call, plan).await.unwrap();
        let probe: serde_json::Value =
            serde_json::from_str(plan.probe.as_ref().unwrap().get()).unwrap();
        let dir = ActionDir::named(&place.actions(), probe["action"].as_str().unwrap()).unwrap();
        let action = Action {
            call_id: call.id.clone(),
            call_seq: 4,
            tool: "bash".to_owned(),
            class: plan.class,
            host: "here".to_owned(),
            boot: boot(),
            key: None,
            probe: plan.probe,
            before: None,
        };
        Self { action, dir }
    }

    async fn command(place: &Place, command: &str) -> Self {
        Self::of(place, &json!({"command": command})).await
    }

    /// Its supervisor, as the process that died would have started it.
    fn supervisor(&self, place: &Place) -> Child {
        let supervision = support::supervision(place.actions());
        let (program, first) = supervision.supervisor.split_first().unwrap();
        let mut command = Command::new(program);
        command.args(first).arg(self.dir.path()).env("SEGNO_ACTION", self.dir.id());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    async fn establish(&self, place: &Place) -> Settlement {
        let here = owner();
        let begun =
            Begun { action: &self.action, call: None, before: None, here: &here, goes_on: true };
        place.tools.establish(begun).await
    }

    async fn told(&self, place: &Place) -> ToolOutput {
        match self.establish(place).await {
            Settlement::Told(output) => output,
            Settlement::Running(output) => panic!("it runs: {}", text(&output)),
        }
    }

    async fn reattached(&self, place: &Place, stop: Stop) -> (ToolOutput, String) {
        let shown = Mutex::new(String::new());
        let show = |progress| {
            if let Progress::Output(more) = progress {
                shown.lock().unwrap().push_str(&more);
            }
        };
        let output = place.tools.reattach(&self.action, ToolRun { stop, progress: &show }).await;
        (output, shown.into_inner().unwrap())
    }
}

fn count(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap_or_default().lines().count()
}

/// The intent is on disk and no supervisor ever came, or comes too late: nothing ran, nothing will, and
/// asking again says the same. Covers: G7, SD2.
#[tokio::test]
async fn what_recovery_says_did_not_start_never_starts() {
    let place = Place::supervised();
    let intent = Intent::command(&place, "echo x >> effects").await;
    for _ in 0..2 {
        let output = intent.told(&place).await;
        assert_eq!(output.outcome, Outcome::NotRun);
        assert!(text(&output).starts_with("Not run"), "{}", text(&output));
        let late = intent.supervisor(&place).wait().unwrap();
        assert_eq!(late.code(), Some(i32::from(LOST_CLAIM)));
        assert!(!place.path("effects").exists());
    }
}

/// A supervisor and two recoveries race for the claim. Whoever wins, all are told the same, and the effect
/// is there exactly if the supervisor won. Covers: G7, G5.
#[tokio::test]
async fn only_one_gets_the_claim() {
    let place = Place::supervised();
    for round in 0..12 {
        let intent = Intent::command(&place, &format!("echo x >> effects{round}")).await;
        let mut supervisor = intent.supervisor(&place);
        if round % 3 > 0 {
            tokio::time::sleep(Duration::from_millis(round)).await;
        }
        let (one, two) = tokio::join!(intent.establish(&place), intent.establish(&place));
        let code = supervisor.wait().unwrap().code();
        let effects = count(&place.path(&format!("effects{round}")));
        let end = intent.told(&place).await;
        match code {
            Some(0) => assert_eq!((effects, end.outcome), (1, Outcome::Done)),
            Some(3) => assert_eq!((effects, end.outcome), (0, Outcome::NotRun)),
            other => panic!("{other:?}"),
        }
        for settlement in [one, two] {
            match settlement {
                Settlement::Told(output) => assert_eq!(output.outcome, end.outcome),
                Settlement::Running(_) => assert_eq!(code, Some(0)),
            }
        }
    }
}

/// The supervisor saw it to its end after everybody else was gone: its real end and output are told, any
/// number of times. Covers: G7, #32.
#[tokio::test]
async fn an_end_that_nobody_waited_for_is_told() {
    let place = Place::supervised();
    for (command, outcome, said) in [
        ("echo out; echo x >> effects", Outcome::Done, "out\n[exit code 0]"),
        ("echo out; exit 7", Outcome::Failed, "out\n[exit code 7]"),
        ("kill -9 $$", Outcome::Failed, "(no output)\n[ended by signal 9]"),
        ("printf '\\377\\000'; true", Outcome::Done, "[exit code 0]"),
        ("(setsid sleep 1000 > /dev/null 2>&1 & echo $! > daemon); echo out", Outcome::Done, "out"),
    ] {
        let intent = Intent::command(&place, command).await;
        assert_eq!(intent.supervisor(&place).wait().unwrap().code(), Some(0));
        for _ in 0..2 {
            let output = intent.told(&place).await;
            assert_eq!(output.outcome, outcome, "{command}: {}", text(&output));
            assert!(text(&output).contains(said), "{command}: {}", text(&output));
        }
    }
    assert_eq!(count(&place.path("effects")), 1);
    Command::new("kill").arg(place.read("daemon").trim()).status().unwrap();
}

/// It still runs: that is said, and whoever waits sees the output go on, and its end. Covers: G7, G9.
#[tokio::test]
async fn a_command_that_runs_is_found_again() {
    let place = Place::supervised();
    let command = "echo before; while ! test -e go; do sleep 0.01; done; echo behind";
    let intent = Intent::command(&place, command).await;
    let mut supervisor = intent.supervisor(&place);
    let output = intent.dir.path().join("output");
    until("output", || count(&output) == 1).await;
    let Settlement::Running(told) = intent.establish(&place).await else { panic!("it runs") };
    assert!(text(&told).starts_with("before\n["), "{}", text(&told));
    assert_eq!(told.background.as_deref(), Some(intent.dir.id()));
    let go = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        place.file("go", "");
    };
    let ((output, shown), ()) = tokio::join!(intent.reattached(&place, Stop::never()), go);
    assert_eq!(text(&output), "before\nbehind\n[exit code 0]");
    assert_eq!((output.outcome, shown.as_str()), (Outcome::Done, "behind\n"));
    supervisor.wait().unwrap();
}

/// The user's stop reaches a command that another process began. Covers: G9.
#[tokio::test]
async fn a_command_that_was_found_again_can_be_stopped() {
    let place = Place::supervised();
    let intent = Intent::command(&place, "echo $$ > pid; while true; do sleep 1; done").await;
    let mut supervisor = intent.supervisor(&place);
    until("begun", || place.path("pid").exists()).await;
    let (handle, stop) = StopHandle::new();
    handle.stop(StopKind::User);
    let (output, _) = intent.reattached(&place, stop).await;
    assert_eq!(output.outcome, Outcome::Stopped, "{}", text(&output));
    supervisor.wait().unwrap();
    let pid = place.read("pid");
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists());
}

/// Only the supervisor is killed: nothing is known of the end, the output so far is told, and so is what
/// still runs, even what went away into a session of its own. Covers: G7.
#[tokio::test]
async fn a_killed_supervisor_leaves_an_unknown_outcome_and_its_survivors_are_named() {
    let place = Place::supervised();
    let command = "echo out; setsid sleep 1001 > /dev/null 2>&1 & echo x >> effects; \
        exec sleep 1002 > /dev/null 2>&1";
    let intent = Intent::command(&place, command).await;
    let mut supervisor = intent.supervisor(&place);
    let both =
        || intent.dir.survivors().iter().filter(|s| s.command.contains("sleep")).count() == 2;
    until("both run", || count(&place.path("effects")) == 1 && both()).await;
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    for _ in 0..2 {
        let output = intent.told(&place).await;
        assert_eq!(output.outcome, Outcome::Unknown);
        let said = text(&output);
        assert!(said.starts_with("out\n[the outcome of this call is unknown"), "{said}");
        assert!(said.contains("(sleep 1001)") && said.contains("(sleep 1002)"), "{said}");
    }
    assert_eq!(count(&place.path("effects")), 1);
    let left = intent.dir.survivors();
    for survivor in &left {
        Command::new("kill").arg(survivor.pid.to_string()).status().unwrap();
    }
    until("they end", || intent.dir.survivors().is_empty()).await;
}

/// The number of a supervisor that is gone may be another process' by now: its start time tells.
#[tokio::test]
async fn a_reused_number_is_nobody_of_ours() {
    let place = Place::supervised();
    let intent = Intent::command(&place, "true").await;
    // Our own number, as the leader of some session, with another start.
    let claim = Claim {
        by: Claimant::Supervisor,
        pid: std::process::id(),
        started: 1,
        boot: boot(),
        host: "here".to_owned(),
        at: segno_model::Timestamp(0),
    };
    let bytes = serde_json::to_vec(&claim).unwrap();
    std::fs::write(intent.dir.path().join("claim"), bytes).unwrap();
    assert_eq!(judge(&intent.dir.find_out(true)), Standing::Gone);
    assert_eq!(intent.dir.survivors(), []);
}

/// Another boot or another machine: out of sight, whatever lies there; and nobody is kept from anything.
/// Covers: G7.
#[tokio::test]
async fn elsewhere_is_unknown() {
    let place = Place::supervised();
    let mut intent = Intent::command(&place, "echo out").await;
    intent.supervisor(&place).wait().unwrap();
    intent.action.boot = "another".to_owned();
    let output = intent.told(&place).await;
    assert_eq!(output.outcome, Outcome::Unknown);
    let said = text(&output);
    assert!(
        said.starts_with("out\n") && said.contains("its supervisor said: exit code 0"),
        "{said}"
    );
    let mut intent = Intent::command(&place, "echo out").await;
    intent.action.host = "another".to_owned();
    assert_eq!(intent.told(&place).await.outcome, Outcome::Unknown);
    assert!(
        !intent.dir.path().join("claim").exists(),
        "the machine that it is on may still start it"
    );
}

/// Files that somebody removes underneath lead to "unknown", never to "did not start". Covers: G7.
#[tokio::test]
async fn a_claim_that_was_removed_proves_nothing() {
    let place = Place::supervised();
    for gone in ["claim", "lock", "status", "everything"] {
        let intent = Intent::command(&place, "echo out").await;
        intent.supervisor(&place).wait().unwrap();
        match gone {
            "everything" => std::fs::remove_dir_all(intent.dir.path()).unwrap(),
            file => std::fs::remove_file(intent.dir.path().join(file)).unwrap(),
        }
        let output = intent.told(&place).await;
        let expected = if gone == "lock" { Outcome::Done } else { Outcome::Unknown };
        assert_eq!(output.outcome, expected, "{gone}: {}", text(&output));
    }
}

/// Where no record can be made nothing starts. Covers: G7, G16.
#[tokio::test]
async fn without_a_record_nothing_starts() {
    let place = Place::supervised();
    std::fs::create_dir_all(place.actions().parent().unwrap()).unwrap();
    std::fs::write(place.actions(), "in the way").unwrap();
    let output = place.bash("echo x >> effects").await;
    assert_eq!(output.outcome, Outcome::Failed);
    assert!(text(&output).contains("was not started"), "{}", text(&output));
    assert!(!place.path("effects").exists());
    // A supervisor that cannot claim starts nothing, either.
    std::fs::remove_file(place.actions()).unwrap();
    let intent = Intent::command(&place, "echo x >> effects").await;
    std::fs::remove_file(intent.dir.path().join("lock")).unwrap();
    assert_eq!(intent.supervisor(&place).wait().unwrap().code(), Some(4));
    assert_eq!(intent.told(&place).await.outcome, Outcome::NotRun);
    assert!(!place.path("effects").exists());
}

/// A shutdown is no stop: the command goes on, nothing is said of its end, and the next process finds it.
/// Covers: G9.
#[tokio::test]
async fn a_shutdown_leaves_the_command_to_its_supervisor() {
    let place = Place::supervised();
    let command = "echo ready > flag; while ! test -e go; do sleep 0.01; done; echo out";
    let call = place.tool_call("bash", &json!({"command": command}).to_string());
    let (handle, stop) = StopHandle::new();
    let leaving = async {
        until("ready", || place.path("flag").exists()).await;
        handle.stop(StopKind::Shutdown);
    };
    let (output, ()) = tokio::join!(place.start(&call, stop, &|_| {}), leaving);
    assert!(output.unfinished);
    let dir = ActionDir::all(&place.actions()).pop().unwrap();
    assert_eq!(judge(&dir.look(true)), Standing::Running);
    place.file("go", "");
    until("it ends", || judge(&dir.look(true)) == Standing::Ended).await;
}

fn background_of(output: &ToolOutput) -> Vec<Background> {
    let handle = output.background.clone().unwrap();
    vec![Background { handle, seq: 5, tool: "bash".to_owned() }]
}

async fn look(place: &Place, arguments: serde_json::Value) -> ToolOutput {
    place.call("background", &arguments.to_string()).await
}

/// A command in the background returns at once, can be looked at, awaited and stopped, and its end is news
/// until it was told; then its files go. Covers: G7, G8.
#[tokio::test]
async fn a_background_command_is_looked_at_awaited_stopped_and_told() {
    let place = Place::supervised();
    assert!(text(&look(&place, json!({})).await).contains("no background commands"));
    let command = json!({"command": "echo out; while ! test -e go; do sleep 0.01; done; exit 3", "background": true});
    let begun = place.call("bash", &command.to_string()).await;
    assert_eq!(begun.outcome, Outcome::Done);
    let open = background_of(&begun);
    let handle = &open[0].handle;
    assert!(text(&begun).contains(handle) && text(&begun).contains("3600 seconds"));
    assert_eq!(place.tools.news(&open).await, []);
    let seen = look(&place, json!({"handle": handle})).await;
    assert!(text(&seen).contains("It runs"), "{}", text(&seen));
    assert!(text(&look(&place, json!({})).await).contains("runs  echo out"));
    let kept = Checkpoint { open_background: open.clone(), ..Checkpoint::default() };
    place.tools.settled(&kept).await;
    // What runs is not removed even if nobody knows of it.
    place.tools.settled(&Checkpoint::default()).await;
    place.file("go", "");
    let seen = look(&place, json!({"handle": handle, "wait": 60})).await;
    assert_eq!(text(&seen), "out\n[exit code 3]");
    assert!(!seen.is_error, "looking did not fail");
    for _ in 0..2 {
        let news = place.tools.news(&open).await;
        assert_eq!((news.len(), &news[0].handle), (1, handle));
        assert!(news[0].text.contains("has ended") && news[0].text.contains("exit code 3"));
    }
    place.tools.settled(&kept).await;
    assert_eq!(ActionDir::all(&place.actions()).len(), 1, "its end is not on record yet");
    place.tools.settled(&Checkpoint::default()).await;
    assert_eq!(ActionDir::all(&place.actions()), []);

    let command = json!({"command": "while true; do sleep 1; done", "background": true});
    let begun = place.call("bash", &command.to_string()).await;
    let handle = begun.background.unwrap();
    let stopped = look(&place, json!({"handle": handle, "stop": true})).await;
    assert!(text(&stopped).contains("stopped by the user"), "{}", text(&stopped));
    let nobody = look(&place, json!({"handle": "nobody"})).await;
    assert!(nobody.is_error && text(&nobody).contains("no background command"));
}

/// The deadline holds without anybody who waits; long output stays where the news says.
#[tokio::test]
async fn a_background_command_ends_at_its_deadline_and_keeps_its_output() {
    let place = Place::supervised();
    let command = json!({"command": "seq 1 20000; sleep 1000", "background": true, "timeout": 1});
    let begun = place.call("bash", &command.to_string()).await;
    let open = background_of(&begun);
    let dir = ActionDir::named(&place.actions(), &open[0].handle).unwrap();
    until("its end", || judge(&dir.look(true)) == Standing::Ended).await;
    let news = place.tools.news(&open).await;
    assert!(news[0].text.contains("after the timeout of 1 seconds"), "{}", news[0].text);
    assert!(news[0].text.contains("The whole output: "), "{}", news[0].text);
    place.tools.settled(&Checkpoint::default()).await;
    assert_eq!(count(&dir.path().join("output")), 20_000);
}

/// A handle that a copy of the session has, or whose files are gone, is told of once as unknown.
#[tokio::test]
async fn an_unknown_handle_is_told() {
    let place = Place::supervised();
    let open = ["k3Rf0aZq1x", "../../etc"].map(|handle| Background {
        handle: handle.to_owned(),
        seq: 5,
        tool: "bash".to_owned(),
    });
    let news = place.tools.news(&open).await;
    assert_eq!(news.len(), 2);
    assert!(news.iter().all(|news| news.text.contains("is not known here")), "{news:?}");
}

/// What has no result stays, whatever is tidied. Covers: G7.
#[tokio::test]
async fn what_has_no_result_is_never_removed() {
    let place = Place::supervised();
    let open = Intent::command(&place, "echo out").await;
    let recorded = Intent::command(&place, "echo out").await;
    for intent in [&open, &recorded] {
        assert_eq!(intent.supervisor(&place).wait().unwrap().code(), Some(0));
    }
    // The next process knows only what the log says.
    let place = place.reopened();
    let action = OpenAction { seq: 5, action: open.action.clone() };
    let state = Checkpoint { open_actions: [action].into(), ..Checkpoint::default() };
    place.tools.settled(&state).await;
    assert_eq!(ActionDir::all(&place.actions()), std::slice::from_ref(&open.dir));
    assert_eq!(open.told(&place).await.outcome, Outcome::Done);
}
