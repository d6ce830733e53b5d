//! Repairing other agents' sessions.

mod bench;

mod bent;
mod cases;
mod gemini;
mod packed;
mod place;
