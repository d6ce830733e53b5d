//! The house's own commands: `cargo xtask test`, `tidy`, `bench`, `crash`, `simulate`.
//!
//! Responsible for: running everything that must pass, and the rules that no compiler checks. Must not:
//! be needed to build or use Segno.

mod bench;
mod coverage;
mod direction;
mod pages;
mod peers;
mod proof;
mod sabotage;
mod tests;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask test | tidy | bench | crash | simulate | orders | soak | long | sabotage | peers\n\
    test      every test: unit, integration, crash, documentation, the example, the proofs\n\
    tidy      headers, sizes, crate direction, links, coverage page, forbidden words\n\
    bench     speed budgets, in a release build; names choose measures\n\
    crash     what power loss can leave, recovered: [--states N] [--only WORKLOAD:MOMENT:STATE]\n\
    simulate  lives of processes by seed: [--seeds N] [--seed N]\n\
    orders    two processes on one session in every order: [--switches N]\n\
    soak      processes killed at random moments: [--kills N] [--seed N]\n\
    long      one session of 5,000 turns: [--turns N] [--seed N]\n\
    sabotage  the suite must fail when one safeguard is taken away: [WORD…]\n\
    peers     real agents on what Segno wrote for them, into docs/interop.md: [--agent NAME] [--case WORD] [--keep DIR]";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let rest: Vec<String> = std::env::args().skip(2).collect();
    let done = match command.as_str() {
        "test" => tests::run(&root()),
        "bench" => bench::run(&root(), &rest),
        "crash" => proof::crash(&root(), &rest),
        "simulate" => proof::simulate(&root(), &rest),
        "orders" => proof::orders(&root(), &rest),
        "soak" => proof::soak(&root(), &rest),
        "long" => proof::long(&root(), &rest),
        "sabotage" => sabotage::run(&root(), &rest),
        "peers" => peers::run(&root(), &rest),
        "tidy" => tidy::run(&root()),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(summary) => {
            say(&summary);
            ExitCode::SUCCESS
        }
        Err(problem) => {
            say(&problem);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "a command talks to its user")]
fn say(text: &str) {
    println!("{text}");
}

fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map_or_else(|| manifest.clone(), PathBuf::from)
}
