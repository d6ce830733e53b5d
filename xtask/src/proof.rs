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

/// A proof: its test, and how much of it counts in CI.
#[derive(Clone, Copy)]
struct Proof {
    target: &'static [&'static str],
    filter: &'static str,
    usual: (&'static str, u64),
}

/// The states and the lives are in an optimised build, with the checks of a development one.
const OPTIMISED: &[&str] = &["--profile", "proof", "--workspace", "--test", "proof"];
/// Processes are those that the other tests use.
const CLI: &[&str] = &["--workspace", "--test", "cli"];

const CRASH: Proof =
    Proof { target: OPTIMISED, filter: "states::", usual: ("SEGNO_CRASH_STATES", STATES) };
const FAMILY: Proof =
    Proof { target: CLI, filter: "family_states::", usual: ("SEGNO_CRASH_FAMILY", FAMILY_STATES) };
const LIVES: Proof =
    Proof { target: OPTIMISED, filter: "simulation::", usual: ("SEGNO_SEEDS", SEEDS) };
/// Two processes on one disk.
const ORDERS: Proof = Proof {
    target: &["--profile", "proof", "--workspace", "--test", "interleavings"],
    filter: "",
    usual: ("SEGNO_SWITCHES", SWITCHES),
};
const SOAK: Proof = Proof { target: CLI, filter: "soak::", usual: ("SEGNO_KILLS", KILLS) };
/// One session that goes on and on.
const LONG: Proof =
    Proof { target: &["--workspace", "--test", "long"], filter: "", usual: ("SEGNO_TURNS", TURNS) };

/// Starts the proofs in the optimised build beside all others, which often wait: these take what time is left. Each
/// gives what it said, and whether it holds.
pub(crate) fn beside(root: &Path) -> JoinHandle<Vec<(String, bool)>> {
    let root = root.to_owned();
    thread::spawn(move || {
        let run = |proof: Proof| {
            let mut nice = Command::new("nice");
            nice.args(["-n", "19", env!("CARGO")]).stderr(Stdio::inherit());
            match proof.asked_of(nice, &root, Vec::new()).output() {
                Ok(out) => {
                    (String::from_utf8_lossy(&out.stdout).into_owned(), out.status.success())
                }
                Err(e) => (format!("cargo could not be started: {e}"), false),
            }
        };
        // The longest with one thread is first.
        [ORDERS, CRASH, LIVES].map(run).into()
    })
}

/// The proofs with real processes and the long session; whether each holds.
pub(crate) fn processes(root: &Path) -> Vec<bool> {
    [FAMILY, SOAK, LONG].map(|proof| run(root, proof, Vec::new()).is_ok()).into()
}

/// `crash [--states N] [--only WORKLOAD:MOMENT:STATE]`.
pub(crate) fn crash(root: &Path, args: &[String]) -> Result<String, String> {
    let given =
        options(args, &[("--states", "SEGNO_CRASH_STATES"), ("--only", "SEGNO_CRASH_ONLY")])?;
    let only_one = given.iter().any(|(name, _)| *name == "SEGNO_CRASH_ONLY");
    let said = run(root, CRASH, given)?;
    if only_one {
        return Ok(said);
    }
    run(root, FAMILY, Vec::new())
}

/// `simulate [--seeds N] [--seed N]`.
pub(crate) fn simulate(root: &Path, args: &[String]) -> Result<String, String> {
    run(root, LIVES, options(args, &[("--seeds", "SEGNO_SEEDS"), ("--seed", "SEGNO_SEED")])?)
}

/// `orders [--switches N]`.
pub(crate) fn orders(root: &Path, args: &[String]) -> Result<String, String> {
    run(root, ORDERS, options(args, &[("--switches", "SEGNO_SWITCHES")])?)
}

/// `soak [--kills N] [--seed N]`.
pub(crate) fn soak(root: &Path, args: &[String]) -> Result<String, String> {
    run(root, SOAK, options(args, &[("--kills", "SEGNO_KILLS"), ("--seed", "SEGNO_SEED")])?)
}

/// `long [--turns N] [--seed N]`.
pub(crate) fn long(root: &Path, args: &[String]) -> Result<String, String> {
    run(root, LONG, options(args, &[("--turns", "SEGNO_TURNS"), ("--seed", "SEGNO_SEED")])?)
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

impl Proof {
    /// The command that runs it; `cargo` is how cargo is started.
    fn asked_of(self, mut cargo: Command, root: &Path, mut variables: Variables) -> Command {
        if !variables.iter().any(|(name, _)| *name == self.usual.0) {
            variables.push((self.usual.0, self.usual.1.to_string()));
        }
        cargo.args(["test", "--locked"]).args(self.target);
        cargo.args(["--", "--nocapture", self.filter]).envs(variables).current_dir(root);
        cargo
    }
}

fn run(root: &Path, proof: Proof, variables: Variables) -> Result<String, String> {
    let status = proof
        .asked_of(Command::new(env!("CARGO")), root, variables)
        .status()
        .map_err(|e| format!("cargo could not be started: {e}"))?;
    if status.success() { Ok("every one holds".to_owned()) } else { Err("some fail".to_owned()) }
}
