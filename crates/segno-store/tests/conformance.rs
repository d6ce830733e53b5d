//! The file store does what every store must, on a real and on a simulated disk.

mod benches;

mod real_disk {
    segno_testkit::store_suite!(crate::benches::Real);
}

mod simulated_disk {
    segno_testkit::store_suite!(crate::benches::Sim);
}
