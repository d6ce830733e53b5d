//! The providers' wires: what is sent, and what is understood.
//!
//! Responsible for: requests and decoders as text tables, and calls over real connections, also
//! against the scripted model, which refuses what providers refuse. Must
//! not: need the network beyond loopback.

#![allow(clippy::unwrap_used, reason = "a failed test says where it failed")]

mod connection;
mod decoding;
mod history;
mod random;
mod requests;
mod scripted;
mod sendable;
