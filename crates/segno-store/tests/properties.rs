//! Any session, cut or changed anywhere, on the file store.

mod benches;

use benches::{Real, Sim};
use proptest::prelude::*;
use segno_testkit::sessions::Shape;
use segno_testkit::store_suite::properties;

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, ..ProptestConfig::default() })]

    /// Byte prefixes of random sessions open, recover and continue; state and context are the ones of
    /// their records. Covers: G2, G4, G10, TT1, TT2, ST5.
    #[test]
    fn prefixes_on_a_simulated_disk(seed: u64) {
        properties::cut_anywhere::<Sim>(Shape::random(seed), |ends| {
            properties::spread_cuts(ends, seed, 40)
        });
    }

    /// The same on a real disk. Covers: G2, G4, G10.
    #[test]
    fn prefixes_on_a_real_disk(seed: u64) {
        properties::cut_anywhere::<Real>(Shape::random(seed), |ends| {
            properties::spread_cuts(ends, seed, 20)
        });
    }

    /// After every record of a session with branches and compactions, what reopens is what was.
    /// Covers: G4, G10.
    #[test]
    fn every_record_prefix_resumes_as_it_was(seed: u64) {
        properties::cut_anywhere::<Sim>(Shape::random(seed), <[usize]>::to_vec);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// One changed byte never costs more than its own line. Covers: G3.
    #[test]
    fn one_changed_byte_costs_one_line(seed: u64, at: usize, to: u8) {
        properties::one_byte_changed::<Sim>(Shape::random(seed), at, to);
    }
}
