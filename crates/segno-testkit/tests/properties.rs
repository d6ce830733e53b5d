//! Any session, cut or changed anywhere, on the strict store.

use proptest::prelude::*;
use segno_testkit::sessions::Shape;
use segno_testkit::store_suite::{StrictBench, properties};

/// Every byte prefix of a session of one turn opens, recovers and continues; state and context are the
/// ones of its records. Covers: G2, G4, G10, TT1, TT2, ST5.
#[test]
fn every_single_prefix_is_a_session() {
    let one_turn = Shape { turns: 1, tools: 0, ..Shape::default() };
    properties::cut_anywhere::<StrictBench>(one_turn, |ends| {
        (1..=*ends.last().expect("a line")).collect()
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// So does every kind of prefix of a random session: around each line's end, and all over the lines.
    /// Covers: G2, G4, G10, TT1, TT2, ST5.
    #[test]
    fn prefixes_of_random_sessions(seed: u64) {
        properties::cut_anywhere::<StrictBench>(Shape::random(seed), |ends| {
            properties::spread_cuts(ends, seed, 60)
        });
    }

    /// After every record of a session with branches and compactions, what reopens is what was.
    /// Covers: G4, G10.
    #[test]
    fn every_record_prefix_resumes_as_it_was(seed: u64) {
        properties::cut_anywhere::<StrictBench>(Shape::random(seed), <[usize]>::to_vec);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// One changed byte never costs more than its own line. Covers: G3.
    #[test]
    fn one_changed_byte_costs_one_line(seed: u64, at: usize, to: u8) {
        properties::one_byte_changed::<StrictBench>(Shape::random(seed), at, to);
    }
}
