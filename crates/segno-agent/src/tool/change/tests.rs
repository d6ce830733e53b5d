//! Changes that are ended or disturbed after each of their steps.
//!
//! Responsible for: that recovery claims nothing false, loses nothing of anybody's and leaves nothing
//! behind, whatever happens at whatever step. Must not: know a step's number; the steps tell themselves.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failing test may panic")]

use super::establish::{self, Finding};
use super::replace::Steps;
use super::*;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const OLD: &[u8] = b"the old content\n";
const NEW: &[u8] = b"the new content, which is longer\n";
const THEIRS: &[u8] = b"what somebody else wrote\n";
const WAYS: [Way; 5] = [Way::New, Way::Exchange, Way::Rename, Way::Remove, Way::InPlace];

/// What the process dies of at a step.
struct Crash;

/// What somebody else does to the path at a step.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Nothing,
    /// Writes into the file (or makes it).
    Writes,
    Removes,
    /// Moves another file there.
    Replaces,
}

impl Act {
    /// Whether there was anything to act on.
    fn on(self, path: &Path) -> bool {
        match self {
            Self::Nothing => return false,
            Self::Writes => fs::write(path, THEIRS).unwrap(),
            Self::Removes => return fs::remove_file(path).is_ok(),
            Self::Replaces => {
                let theirs = path.with_file_name("theirs");
                fs::write(&theirs, THEIRS).unwrap();
                fs::rename(theirs, path).unwrap();
            }
        }
        true
    }
}

/// A directory with the file in it, set up so that it is changed one way.
struct Place {
    directory: tempfile::TempDir,
    way: Way,
}

impl Place {
    fn new(way: Way) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Self { directory, way };
        if way != Way::New {
            fs::write(place.path(), OLD).unwrap();
        }
        if way == Way::InPlace {
            fs::hard_link(place.path(), place.directory.path().join("second")).unwrap();
        }
        place
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("f")
    }

    /// The temp files of one process of the session.
    fn temps(&self) -> Temps {
        let temps = Temps::new("session", "host");
        match self.way {
            Way::Rename => {
                temps.without_exchange(fs::metadata(self.directory.path()).unwrap().dev())
            }
            _ => temps,
        }
    }

    fn change(&self) -> Change {
        let old = Old::read(&self.path()).unwrap();
        let (path, shown) = (self.path(), "f".to_owned());
        Change { path, shown, old, new: NEW.to_vec(), note: String::new() }
    }

    /// Whether the path holds what the change was to put there.
    fn is_new(&self) -> bool {
        match self.way {
            Way::Remove => self.content().is_none(),
            _ => self.content().as_deref() == Some(NEW),
        }
    }

    fn content(&self) -> Option<Vec<u8>> {
        fs::read(self.path()).ok()
    }

    /// Our files beside the one that is changed; those that are kept, and the others.
    fn beside(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let entries = fs::read_dir(self.directory.path()).unwrap();
        let paths = entries.map(|e| e.unwrap().path());
        let ours =
            paths.filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with(".segno-"));
        ours.partition(|p| p.to_str().unwrap().ends_with(".kept"))
    }

    /// Whether what somebody else wrote is at the path or kept.
    fn has_theirs(&self) -> bool {
        let kept = self.beside().0.into_iter().map(|p| fs::read(p).unwrap());
        kept.chain(self.content()).any(|content| content == THEIRS)
    }
}

fn found_of(probe: &Probe, steps: Steps<'_>) -> establish::Established {
    establish::establish(probe, true, Some((OLD, NEW)), steps)
}

/// What came of a change that was disturbed.
#[derive(Debug)]
struct Came {
    probe: Option<Probe>,
    /// The step at which the process died.
    crashed: Option<&'static str>,
    /// The step at which somebody else acted.
    acted: Option<&'static str>,
    result: Option<Result<ToolOutput, ToolError>>,
}

/// Makes the change; at step `act_at` somebody else acts, at step `crash_at` the process dies.
fn make(place: &Place, (act_at, act): (usize, Act), crash_at: Option<usize>) -> Came {
    let (count, temps) = (AtomicUsize::new(0), place.temps());
    let (crashed, acted) = (Mutex::new(None), Mutex::new(None));
    let intent = Mutex::new(None);
    let steps = |step: &'static str| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        if number == act_at && act.on(&place.path()) {
            *acted.lock().unwrap() = Some(step);
        }
        if Some(number) == crash_at {
            *crashed.lock().unwrap() = Some(step);
            panic_any(Crash);
        }
    };
    let change = place.change();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let prepared = match place.way {
            Way::Remove => change.prepare_removal(&temps)?,
            _ => change.prepare_heard(&temps, &steps)?,
        };
        assert_eq!(prepared.ready.way, place.way);
        // The intent goes through its stored form.
        let plan = prepared.plan(ToolPlan::new(ReplayClass::Verified))?;
        *intent.lock().unwrap() = Probe::read(plan.probe.as_deref());
        prepared.carry_out_heard(&temps, &steps)
    }));
    let result = match result {
        Ok(result) => Some(result),
        Err(cause) if cause.is::<Crash>() => None,
        Err(cause) => std::panic::resume_unwind(cause),
    };
    let (crashed, acted) = (crashed.into_inner().unwrap(), acted.into_inner().unwrap());
    Came { probe: intent.into_inner().unwrap(), crashed, acted, result }
}

/// Whether what somebody does at a step cannot be told from what was there, by nature: the two writers
/// are in the same file at the same time, or a rename stands alone between two looks.
fn is_blind(way: Way, act: Act, acted: Option<&str>) -> bool {
    matches!(
        (way, act, acted),
        (Way::InPlace, _, Some("checked" | "half written" | "written" | "cut"))
            | (Way::Rename, Act::Replaces | Act::Removes, Some("checked"))
    )
}

/// What has to hold of a change that its own process saw end.
fn judge_result(place: &Place, came: &Came, result: &Result<ToolOutput, ToolError>, act: Act) {
    let content = place.content();
    let (kept, left) = place.beside();
    assert_eq!(left, [] as [PathBuf; 0], "left behind: {came:?}");
    let disturbed = came.acted.is_some();
    match result {
        Ok(output) => {
            assert_eq!(output.outcome, Outcome::Done);
            assert!(place.is_new() || disturbed, "{came:?}: holds {content:?}");
        }
        Err(error) => {
            assert!(disturbed, "{came:?}");
            assert!(error.to_string().contains("someone else"), "{error}");
            assert!(!place.is_new() || act == Act::Removes, "{came:?}");
        }
    }
    let theirs = matches!(act, Act::Writes | Act::Replaces) && disturbed;
    if theirs && !is_blind(place.way, act, came.acted) {
        assert!(place.has_theirs(), "what they wrote is lost: {came:?}");
    }
    assert!(kept.is_empty() || theirs, "{kept:?}");
}

/// What has to hold of what recovery finds, with a crash at each of its own steps.
fn judge_recovery(place: &Place, came: &Came, act: Act) {
    let Some(probe) = &came.probe else {
        // No intent: nothing has happened, and the next process of the session sweeps.
        place.temps().sweep(place.directory.path());
        assert_eq!(place.beside(), (vec![], vec![]), "{came:?}");
        assert!(!place.is_new() || act == Act::Removes, "{came:?}");
        return;
    };
    for crash_at in 0.. {
        let count = AtomicUsize::new(0);
        let steps = |_: &'static str| {
            if count.fetch_add(1, Ordering::SeqCst) == crash_at {
                panic_any(Crash);
            }
        };
        let found = catch_unwind(AssertUnwindSafe(|| found_of(probe, &steps)));
        let Ok(found) = found else { continue };
        judge_found(place, came, found.finding, act);
        let again = found_of(probe, UNHEARD);
        judge_found(place, came, again.finding, act);
        establish::remove_traces(probe);
        let (_, left) = place.beside();
        assert_eq!(left, [] as [PathBuf; 0], "left behind: {came:?} {found:?}");
        judge_theirs(place, came, act);
        return;
    }
}

fn judge_theirs(place: &Place, came: &Came, act: Act) {
    if came.acted.is_none() || is_blind(place.way, act, came.acted) {
        return;
    }
    match act {
        Act::Writes | Act::Replaces => {
            assert!(place.has_theirs(), "what they wrote is lost: {came:?}");
        }
        Act::Removes => assert_eq!(place.content(), None, "it is back: {came:?}"),
        Act::Nothing => {}
    }
}

fn judge_found(place: &Place, came: &Came, finding: Finding, act: Act) {
    let content = place.content();
    let holds = |wanted: &[u8]| content.as_deref() == Some(wanted);
    let as_before = if place.way == Way::New { content.is_none() } else { holds(OLD) };
    let disturbed = came.acted.is_some();
    match finding {
        Finding::Done => assert!(place.is_new(), "{came:?}: claims done over {content:?}"),
        Finding::NotDone => assert!(as_before, "{came:?}: claims not done over {content:?}"),
        Finding::DoneThenChanged | Finding::ChangedSince | Finding::Changed | Finding::GiveBack => {
            assert!(disturbed && !place.is_new(), "{came:?}: {finding:?} over {content:?}");
        }
        Finding::HalfDone => assert_eq!(place.way, Way::InPlace, "{came:?}"),
        // Removed: it may have been written before that.
        Finding::Unknown => assert!(act == Act::Removes && place.way == Way::New, "{came:?}"),
    }
    if !disturbed {
        let sure = matches!(finding, Finding::Done | Finding::NotDone | Finding::HalfDone);
        assert!(sure, "nobody disturbed it, and {finding:?} was found: {came:?}");
    }
}

/// Each way, ended after each step, with anybody's act at any step before: recovery, itself ended at each
/// step, never claims what is not so, loses nothing that somebody else wrote, and leaves nothing behind.
/// Covers: G7.
#[test]
fn ended_and_disturbed_at_every_step() {
    std::panic::set_hook(Box::new(|info| {
        if !info.payload().is::<Crash>() {
            println!("{info}");
        }
    }));
    let mut states = 0;
    for way in WAYS {
        for act in [Act::Nothing, Act::Writes, Act::Removes, Act::Replaces] {
            for act_at in 0..16 {
                // Without a crash first, to the end; then a crash at each step.
                for crash_at in std::iter::once(None).chain((act_at..24).map(Some)) {
                    let place = Place::new(way);
                    let came = make(&place, (act_at, act), crash_at);
                    states += 1;
                    match &came.result {
                        Some(result) => judge_result(&place, &came, result, act),
                        None => judge_recovery(&place, &came, act),
                    }
                    if crash_at.is_some() && came.crashed.is_none() {
                        break;
                    }
                }
                if act == Act::Nothing {
                    break;
                }
            }
        }
    }
    assert!(states > 400, "only {states} states were looked at");
}

/// Two others: one writes just before our change takes its version out, the other after our process died.
/// Recovery keeps both: what was taken out goes nowhere but to the path or beside it. Covers: G7.
#[test]
fn what_was_taken_out_is_kept_when_somebody_else_came_since() {
    const LATER: &[u8] = b"what a third one wrote\n";
    for (way, out_at) in
        [(Way::Exchange, "exchanged"), (Way::Rename, "renamed"), (Way::Remove, "moved out")]
    {
        for later in [Act::Nothing, Act::Writes, Act::Removes, Act::Replaces] {
            let mut seen = false;
            for (act_at, crash_at) in (0..16).flat_map(|a| (a..16).map(move |c| (a, c))) {
                let place = Place::new(way);
                let came = make(&place, (act_at, Act::Writes), Some(crash_at));
                if came.acted != Some("checked") || came.crashed != Some(out_at) {
                    continue;
                }
                seen = true;
                match later {
                    Act::Writes => fs::write(place.path(), LATER).unwrap(),
                    Act::Replaces => {
                        fs::write(place.path().with_file_name("later"), LATER).unwrap();
                        fs::rename(place.path().with_file_name("later"), place.path()).unwrap();
                    }
                    other => drop(other.on(&place.path())),
                }
                let probe = came.probe.clone().unwrap();
                let found = found_of(&probe, UNHEARD);
                establish::remove_traces(&probe);
                assert!(place.has_theirs(), "{way:?} {later:?}: lost: {found:?}");
                if matches!(later, Act::Writes | Act::Replaces) {
                    assert_eq!(place.content().as_deref(), Some(LATER), "{way:?} {later:?}");
                }
                assert_eq!(place.beside().1, [] as [PathBuf; 0], "{way:?} {later:?}: left");
            }
            assert!(seen, "{way:?} takes nothing out");
        }
    }
}

/// Power loss takes back what was not synced: an exchange, a rename, a new name. Covers: G1, G7.
#[test]
fn what_power_loss_takes_back_is_not_claimed() {
    for (way, lost_at) in [
        (Way::New, "replaced"),
        (Way::Exchange, "exchanged"),
        (Way::Exchange, "replaced"),
        (Way::Rename, "renamed"),
        (Way::Rename, "replaced"),
    ] {
        let mut seen = false;
        for crash_at in 0..24 {
            let place = Place::new(way);
            let came = make(&place, (99, Act::Nothing), Some(crash_at));
            if came.crashed != Some(lost_at) {
                continue;
            }
            seen = true;
            let probe = came.probe.clone().unwrap();
            let (path, temp) = (place.path(), probe.temp().unwrap());
            match way {
                Way::Exchange => temp::exchange(&temp, &path).unwrap(),
                Way::New => fs::rename(&path, &temp).unwrap(),
                _ => {
                    fs::rename(&path, &temp).unwrap();
                    fs::hard_link(temp::second_name(&temp), &path).unwrap();
                }
            }
            let found = found_of(&probe, UNHEARD);
            assert_eq!(found.finding, Finding::NotDone, "{came:?}");
            establish::remove_traces(&probe);
            assert_eq!(place.beside(), (vec![], vec![]));
        }
        assert!(seen, "{way:?} has no step {lost_at}");
    }
}

/// Whoever carried it out may have died before syncing it: what is told as done is made durable first, and
/// a crash in between finds the same again. Covers: G1, G7.
#[test]
fn what_is_found_done_is_made_durable_before_it_is_told() {
    for way in WAYS {
        let mut done = 0;
        for crash_at in 0..24 {
            let place = Place::new(way);
            let came = make(&place, (99, Act::Nothing), Some(crash_at));
            let (Some(probe), Some(_)) = (&came.probe, came.crashed) else { continue };
            let steps = std::sync::Mutex::new(Vec::new());
            let found = found_of(probe, &|step| steps.lock().unwrap().push(step));
            let durable = steps.lock().unwrap().contains(&"made durable");
            let told = matches!(found.finding, Finding::Done | Finding::DoneThenChanged);
            assert_eq!(durable, told, "{came:?} {found:?}");
            done += usize::from(durable);
        }
        assert!(done > 0, "{way:?} is never found done");
    }
}

/// Sentences for the model, and the outcome that goes with each. Covers: G7.
#[test]
fn the_model_is_told_in_plain_words() {
    // way, crash at, what somebody does after that, outcome, words
    let rows = [
        (Way::Exchange, "checked", Act::Nothing, Outcome::NotRun, "f holds what it held before"),
        (
            Way::Exchange,
            "exchanged",
            Act::Nothing,
            Outcome::Done,
            "f holds exactly the new content",
        ),
        (Way::Exchange, "checked", Act::Writes, Outcome::NotRun, "changed by someone else"),
        (Way::Exchange, "exchanged", Act::Writes, Outcome::Done, "changed by someone else since"),
        (Way::Exchange, "exchanged", Act::Replaces, Outcome::Unknown, "cannot be told"),
        (Way::New, "temp file's name synced", Act::Nothing, Outcome::Unknown, "no such step"),
        (Way::InPlace, "checked", Act::Nothing, Outcome::NotRun, "f holds what it held before"),
        (Way::InPlace, "half written", Act::Nothing, Outcome::Unknown, "half written"),
        (Way::InPlace, "half written", Act::Writes, Outcome::Unknown, "cannot be told"),
        (Way::InPlace, "written", Act::Nothing, Outcome::Done, "exactly the new content"),
    ];
    for (way, step, act, outcome, words) in rows {
        let found = (0..24).find_map(|crash_at| {
            let place = Place::new(way);
            let came = make(&place, (99, Act::Nothing), Some(crash_at));
            (came.crashed == Some(step)).then_some((place, came))
        });
        let Some((place, came)) = found else { panic!("{way:?} has no step {step}") };
        let Some(probe) = came.probe else {
            assert_eq!(words, "no such step");
            continue;
        };
        act.on(&place.path());
        let output = establish(&probe, true, Some((OLD, NEW)), "f");
        let Some(segno_model::record::Block::Text { text }) = output.content.first() else {
            panic!("a text")
        };
        assert_eq!(output.outcome, outcome, "{way:?} {step} {act:?}: {}", text.head());
        assert!(text.head().contains(words), "{way:?} {step} {act:?}: {}", text.head());
        let elsewhere = establish(&probe, false, Some((OLD, NEW)), "f");
        assert_eq!(elsewhere.outcome, Outcome::Unknown);
    }
}

const ROLE: &str = "SEGNO_TEST_CHANGE";

/// Not a test of its own: the process that is killed at a step.
#[test]
fn process_that_dies() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (way, rest) = role.split_once(' ').unwrap();
    let (step, directory) = rest.split_once(' ').unwrap();
    let (way, die_at): (Way, usize) =
        (serde_json::from_str(&format!("\"{way}\"")).unwrap(), step.parse().unwrap());
    let temps = Temps::new("session", "host");
    let directory = PathBuf::from(directory);
    let temps = match way {
        Way::Rename => temps.without_exchange(fs::metadata(&directory).unwrap().dev()),
        _ => temps,
    };
    let count = AtomicUsize::new(0);
    let steps = |_: &'static str| {
        if count.fetch_add(1, Ordering::SeqCst) == die_at {
            let this = rustix::process::getpid();
            rustix::process::kill_process(this, rustix::process::Signal::KILL).unwrap();
        }
    };
    let path = directory.join("f");
    let old = Old::read(&path).unwrap();
    let (shown, new, note) = ("f".to_owned(), NEW.to_vec(), String::new());
    let change = Change { path, shown, old, new, note };
    let prepared = match way {
        Way::Remove => change.prepare_removal(&temps).unwrap(),
        _ => change.prepare_heard(&temps, &steps).unwrap(),
    };
    let plan = prepared.plan(ToolPlan::new(ReplayClass::Verified)).unwrap();
    fs::write(directory.join("intent"), plan.probe.unwrap().get()).unwrap();
    prepared.carry_out_heard(&temps, &steps).unwrap();
    println!("finished");
}

/// Real processes, really killed after each step: what another process finds is what is so, in every way.
/// Covers: G7.
#[test]
fn a_process_killed_at_every_step_leaves_what_another_finds() {
    for way in WAYS {
        for die_at in 0.. {
            let place = Place::new(way);
            let directory = place.directory.path().to_str().unwrap();
            let name = serde_json::to_string(&way).unwrap();
            let role = format!("{} {die_at} {directory}", name.trim_matches('"'));
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tool::change::tests::process_that_dies", "--nocapture"])
                .env(ROLE, role)
                .stderr(Stdio::null())
                .output()
                .unwrap();
            if String::from_utf8_lossy(&output.stdout).contains("finished") {
                assert!(place.is_new());
                assert!(die_at > 4, "{way:?} has only {die_at} steps");
                break;
            }
            assert!(!output.status.success());
            let intent = fs::read_to_string(place.directory.path().join("intent")).ok();
            let probe = intent.map(|intent| serde_json::from_str(&intent).unwrap());
            let came = Came { probe, crashed: None, acted: None, result: None };
            judge_recovery(&place, &came, Act::Nothing);
        }
    }
}

/// Leftovers of a dead process are swept when the same session edits in that directory, and nobody
/// else's files are. Covers: G7.
#[test]
fn only_what_a_dead_process_of_the_session_left_is_swept() {
    let place = Place::new(Way::Exchange);
    let dead = Temps::new("session", "host").make(place.directory.path(), b"x", None).unwrap();
    let other = Temps::new("other", "host").make(place.directory.path(), b"x", None).unwrap();
    let elsewhere = Temps::new("session", "away").make(place.directory.path(), b"x", None).unwrap();
    let kept = temp::kept_name(&dead.path);
    fs::write(&kept, THEIRS).unwrap();
    let temps = place.temps();
    let live = temps.make(place.directory.path(), b"x", None).unwrap();
    let prepared = place.change().prepare(&temps).unwrap();
    assert!(!dead.path.exists());
    for stays in [&other.path, &elsewhere.path, &kept, &live.path] {
        assert!(stays.exists(), "{}", stays.display());
    }
    prepared.discard(&temps);
    assert!(!prepared.ready.temp.unwrap().path.exists());
    assert_eq!(place.content().as_deref(), Some(OLD));
}
