//! Proofs that take longer than a test should: crash states, simulated lives, real kills.
//!
//! Responsible for: how many of them count in CI, running them in an optimised build, and more on request.
//! Must not: hold any of them; they are tests of `segno-runtime` and `segno-cli`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

/// Crash states that are looked at in CI.
const STATES: u64 = 2_000_000;
/// The same of a parent with its child.
const FAMILY_STATES: u64 = 6_000;
/// Seeds that are tried in CI.
const SEEDS: u64 = 20_000;
/// How often two processes take turns at most in CI.
const SWITCHES: u64 = 2;
/// Kills of real processes in CI.
const KILLS: u64 = 1_000;
/// Turns of the long session in CI.
const TURNS: u64 = 5_000;

// All of the whole workspace: one package alone is built with other features, which builds much anew.

/// The states and the lives are in an optimised build, with the checks of a development one.
const PROOF: &[&str] = &["--profile", "proof", "--workspace", "--test", "proof"];
/// Two processes on one disk.
const ORDERS: &[&str] = &["--profile", "proof", "--workspace", "--test", "interleavings"];
/// Processes are those that the other tests use.
const CLI: &[&str] = &["--workspace", "--test", "cli"];
/// One session that goes on and on.
const LONG: &[&str] = &["--workspace", "--test", "long"];

/// A proof of CI: its test, and how much of it counts.
type Proof = (&'static [&'static str], &'static str, (&'static str, u64));

/// Those in the optimised build.
const OPTIMISED: &[Proof] = &[
    // The longest with one thread is first.
    (ORDERS, "", ("SEGNO_SWITCHES", SWITCHES)),
    (PROOF, "states::", ("SEGNO_CRASH_STATES", STATES)),
    (PROOF, "simulation::", ("SEGNO_SEEDS", SEEDS)),
];
/// Those with the processes of the other tests.
const PROCESSES: &[Proof] = &[
    (CLI, "family_states::", ("SEGNO_CRASH_FAMILY", FAMILY_STATES)),
    (CLI, "soak::", ("SEGNO_KILLS", KILLS)),
    (LONG, "", ("SEGNO_TURNS", TURNS)),
];

/// Starts the proofs in the optimised build beside all others, which often wait: these take what time is left. Each
/// gives what it said, and whether it holds.
pub(crate) fn beside(root: &Path) -> JoinHandle<Vec<(String, bool)>> {
    let root = root.to_owned();
    thread::spawn(move || {
        let proofs = OPTIMISED.iter();
        let run = |(test, filter, (name, count)): &Proof| {
            let mut nice = Command::new("nice");
            nice.args(["-n", "19", env!("CARGO"), "test", "--locked"]).args(*test);
            nice.args(["--", "--nocapture", filter]).env(name, count.to_string());
            match nice.current_dir(&root).stderr(Stdio::inherit()).output() {
                Ok(out) => {
                    (String::from_utf8_lossy(&out.stdout).into_owned(), out.status.success())
                }
                Err(e) => (format!("cargo could not be started: {e}"), false),
            }
        };
        proofs.map(run).collect()
    })
}

/// The proofs with real processes and the long session; whether each holds.
pub(crate) fn processes(root: &Path) -> Vec<bool> {
    let run = |(test, filter, usual): &Proof| run(root, (test, filter), Vec::new(), *usual).is_ok();
    PROCESSES.iter().map(run).collect()
}

/// `crash [--states N] [--only WORKLOAD:MOMENT:STATE]`.
pub(crate) fn crash(root: &Path, args: &[String]) -> Result<String, String> {
    let given =
        options(args, &[("--states", "SEGNO_CRASH_STATES"), ("--only", "SEGNO_CRASH_ONLY")])?;
    let only_one = given.iter().any(|(name, _)| *name == "SEGNO_CRASH_ONLY");
    let said = run(root, (PROOF, "states::"), given, ("SEGNO_CRASH_STATES", STATES))?;
    if only_one {
        return Ok(said);
    }
    run(root, (CLI, "family_states::"), Vec::new(), ("SEGNO_CRASH_FAMILY", FAMILY_STATES))
}

/// `simulate [--seeds N] [--seed N]`.
pub(crate) fn simulate(root: &Path, args: &[String]) -> Result<String, String> {
    let given = options(args, &[("--seeds", "SEGNO_SEEDS"), ("--seed", "SEGNO_SEED")])?;
    run(root, (PROOF, "simulation::"), given, ("SEGNO_SEEDS", SEEDS))
}

/// `orders [--switches N]`.
pub(crate) fn orders(root: &Path, args: &[String]) -> Result<String, String> {
    let given = options(args, &[("--switches", "SEGNO_SWITCHES")])?;
    run(root, (ORDERS, ""), given, ("SEGNO_SWITCHES", SWITCHES))
}

/// `soak [--kills N] [--seed N]`.
pub(crate) fn soak(root: &Path, args: &[String]) -> Result<String, String> {
    let given = options(args, &[("--kills", "SEGNO_KILLS"), ("--seed", "SEGNO_SEED")])?;
    run(root, (CLI, "soak::"), given, ("SEGNO_KILLS", KILLS))
}

/// `long [--turns N] [--seed N]`.
pub(crate) fn long(root: &Path, args: &[String]) -> Result<String, String> {
    let given = options(args, &[("--turns", "SEGNO_TURNS"), ("--seed", "SEGNO_SEED")])?;
    run(root, (LONG, ""), given, ("SEGNO_TURNS", TURNS))
}

type Variables = Vec<(&'static str, String)>;

fn options(args: &[String], known: &[(&str, &'static str)]) -> Result<Variables, String> {
    let mut given = Vec::new();
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let found = known.iter().find(|(option, _)| option == name);
        let (Some((_, variable)), Some(value)) = (found, args.next()) else {
            let names: Vec<_> = known.iter().map(|(option, _)| format!("{option} VALUE")).collect();
            return Err(format!("`{name}` is not one of: {}", names.join(", ")));
        };
        given.push((*variable, value.clone()));
    }
    Ok(given)
}

fn run(
    root: &Path,
    (test, filter): (&[&str], &str),
    mut variables: Variables,
    usual: (&'static str, u64),
) -> Result<String, String> {
    if !variables.iter().any(|(name, _)| *name == usual.0) {
        variables.push((usual.0, usual.1.to_string()));
    }
    let status = Command::new(env!("CARGO"))
        .args(["test", "--locked"])
        .args(test)
        .args(["--", "--nocapture", filter])
        .envs(variables)
        .current_dir(root)
        .status()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    if status.success() { Ok("every one holds".to_owned()) } else { Err("some fail".to_owned()) }
}
