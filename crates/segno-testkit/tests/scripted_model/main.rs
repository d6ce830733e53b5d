//! The scripted model server, used as a client uses it: over HTTP.
//!
//! Responsible for: what each wire answers, what is refused, each fault, scripts and sessions. Must
//! not: look inside the server.

mod client;
mod demo;
mod faults;
mod refusals;
mod scripts;
mod sessions;
mod spell;
mod states;
mod wires;
