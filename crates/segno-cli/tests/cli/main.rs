//! What the command and its terminal layer do, as a person sees it. One binary; one module per subject.

#![allow(clippy::unwrap_used, reason = "a test may fail that way")]

mod args;
mod binary;
mod cases;
mod check;
mod clean;
mod context;
mod demo;
mod desk;
mod end_to_end;
mod error;
mod export;
mod finding;
mod first_minute;
mod import;
mod inputs;
mod interactive;
mod interactive_input;
mod interactive_sessions;
mod interactive_turns;
mod json_page;
mod left_waiting;
mod lifecycle;
mod list;
mod machine;
mod markdown;
mod mcp;
mod picker;
mod place;
mod power_loss;
mod prompt;
mod random;
mod repair;
mod rewind;
mod run;
mod run_events;
mod run_kills;
mod show;
mod slips;
mod soak;
mod stats;
mod status;
mod strange_files;
mod take_up;
mod terminal_process;
