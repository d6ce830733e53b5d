//! Points in time as people write them.
//!
//! Responsible for: `2026-11-30`, `2026-11-30T10:00:00Z`, and `3d`, `12h`, `30m`, `2w` before now. Must not: read a
//! clock.

use crate::error::CliError;
use segno_model::Timestamp;

const MINUTE: i64 = 60_000;

/// The time that `text` means.
///
/// # Errors
/// When it means none.
pub fn parse(text: &str, now: Timestamp) -> Result<Timestamp, CliError> {
    let text = text.trim();
    let date = || Timestamp::parse(&format!("{text}T00:00:00Z"));
    ago(text, now).or_else(|| Timestamp::parse(text)).or_else(date).ok_or_else(|| {
        CliError::usage(format!("`{text}` is no point in time."))
            .next("Write a date (2026-11-30), a time (2026-11-30T10:00:00Z), or 30m, 12h, 3d, 2w for so long ago.")
    })
}

fn ago(text: &str, now: Timestamp) -> Option<Timestamp> {
    let unit = match text.chars().next_back()? {
        'm' => MINUTE,
        'h' => 60 * MINUTE,
        'd' => 24 * 60 * MINUTE,
        'w' => 7 * 24 * 60 * MINUTE,
        _ => return None,
    };
    let number: i64 = text[..text.len() - 1].parse().ok().filter(|n| *n >= 0)?;
    Some(Timestamp(now.0.saturating_sub(number.saturating_mul(unit))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_times_in_many_ways() {
        let now = Timestamp::parse("2026-11-30T12:00:00Z").expect("a time");
        let cases = [
            ("2026-11-30", "2026-11-30T00:00:00.000Z"),
            ("2026-11-29T08:30:00Z", "2026-11-29T08:30:00.000Z"),
            ("30m", "2026-11-30T11:30:00.000Z"),
            ("12h", "2026-11-30T00:00:00.000Z"),
            (" 3d ", "2026-11-27T12:00:00.000Z"),
            ("2w", "2026-11-16T12:00:00.000Z"),
        ];
        for (text, expected) in cases {
            let found = parse(text, now).map(|at| at.to_string());
            assert_eq!(found.ok().as_deref(), Some(expected), "{text}");
        }
        for text in ["", "d", "-3d", "yesterday", "2026-13-01", "3 d", "é"] {
            assert!(parse(text, now).is_err(), "{text}");
        }
    }
}
