//! The strict store does what every store must.

use segno_testkit::store_suite::StrictBench;

segno_testkit::store_suite!(StrictBench);
