//! One session that goes on for thousands of turns: small windows, models that change in the middle,
//! pictures, large outputs, and kills.
//!
//! Responsible for: driving it and holding it against what the person asked for. `SEGNO_TURNS` says how many
//! turns, `SEGNO_SEED` sets the seed; `cargo xtask long` sets both. Must not: depend on when a kill strikes.
//!
//! Covers: G6, G10, G11.
#![allow(clippy::unwrap_used)]

mod scene;

use scene::{Scene, Turn};
use segno_testkit::sessions::Rng;

/// How many turns there are when nobody says.
const TURNS: usize = 150;

/// A server answers so many turns before another one, at another address, takes over.
const PER_SERVER: usize = 100;

/// Every so often a process of its own takes a turn and is killed with SIGKILL.
const PER_PROCESS: usize = 50;

#[tokio::test]
async fn a_session_of_thousands_of_turns_stays_sendable_and_whole() {
    let read = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let seed = read("SEGNO_SEED").unwrap_or(1);
    let turns = read("SEGNO_TURNS").unwrap_or(TURNS);
    let mut random = Rng::new(seed as u64);
    let mut scene = Scene::new(format!("SEGNO_SEED={seed} SEGNO_TURNS={turns}"));
    for n in 0..turns {
        if n > 0 && n % PER_SERVER == 0 {
            scene.next_server();
        }
        let turn = Turn::choose(n, &mut random);
        if n % PER_PROCESS == PER_PROCESS - 1 {
            scene.in_a_process(&turn, &mut random);
        } else {
            scene.in_this_process(&turn, &mut random).await;
        }
    }
    scene.judge(turns).await;
}
