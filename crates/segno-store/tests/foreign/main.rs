//! Other agents' sessions: every file of the corpus is read, and says what it must.

mod scene;

mod beginnings;
mod bent;
mod claude;
mod codex;
#[cfg(feature = "catalog")]
mod databases;
mod gemini;
mod ink_evo;
#[cfg(feature = "catalog")]
mod odd_databases;
mod odd_fields;
mod opencode;
mod others;
mod page;
mod pi;
