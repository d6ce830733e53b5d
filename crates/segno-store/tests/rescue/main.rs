//! Repairing other agents' sessions.

mod bench;

mod bent;
mod cases;
mod control;
mod forks;
mod gemini;
mod gemini_sends;
mod members;
mod order;
mod out_of_order;
mod packed;
mod pi_late;
mod pi_opens;
mod pi_sends;
mod pi_writes;
mod place;
