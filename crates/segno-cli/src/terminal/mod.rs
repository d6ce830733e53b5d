//! Everything between Segno and a person's terminal.
//!
//! Responsible for: text that cannot drive the terminal (G17), colours, layout, reading keys and
//! lines. Must not: know sessions, models or tools; callers hand in text and get text or keys back.
//!
//! The safety is in the types: a [`Screen`] prints [`Text`] only, and every way to make a `Text`
//! cleans what goes in.

mod aside;
pub mod clean;
pub mod complete;
pub mod confirm;
pub mod diff;
pub mod entry;
pub mod markdown;
pub mod picker;
mod plain_lines;
pub mod prompt;
pub mod quiet;
pub mod screen;
pub mod style;
pub mod table;

pub use screen::Screen;
pub use style::{Look, Text, Tone};
