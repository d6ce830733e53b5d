//! What models cost.
//!
//! Responsible for: list prices of the models that are used most, for requests of the usual size. Must not:
//! guess: a model that is not in the table has no price.

use segno_model::record::{ModelRef, Usage};

/// When the table was made.
pub const AS_OF: &str = "2025-11";

/// US dollars for a million tokens: input, output, cache read, cache write.
type Price = [f64; 4];

/// The first row whose name is the model's, or its beginning followed by a date.
const PRICES: &[(&str, Price)] = &[
    ("claude-opus-4-5", [5.0, 25.0, 0.5, 6.25]),
    ("claude-opus-4-1", [15.0, 75.0, 1.5, 18.75]),
    ("claude-opus-4", [15.0, 75.0, 1.5, 18.75]),
    ("claude-sonnet-4-5", [3.0, 15.0, 0.3, 3.75]),
    ("claude-sonnet-4", [3.0, 15.0, 0.3, 3.75]),
    ("claude-3-7-sonnet", [3.0, 15.0, 0.3, 3.75]),
    ("claude-3-5-sonnet", [3.0, 15.0, 0.3, 3.75]),
    ("claude-haiku-4-5", [1.0, 5.0, 0.1, 1.25]),
    ("claude-3-5-haiku", [0.8, 4.0, 0.08, 1.0]),
    ("gpt-5.1", [1.25, 10.0, 0.125, 0.0]),
    ("gpt-5.1-codex", [1.25, 10.0, 0.125, 0.0]),
    ("gpt-5", [1.25, 10.0, 0.125, 0.0]),
    ("gpt-5-codex", [1.25, 10.0, 0.125, 0.0]),
    ("gpt-5-mini", [0.25, 2.0, 0.025, 0.0]),
    ("gpt-5-nano", [0.05, 0.4, 0.005, 0.0]),
    ("gpt-4.1", [2.0, 8.0, 0.5, 0.0]),
    ("gpt-4.1-mini", [0.4, 1.6, 0.1, 0.0]),
    ("gpt-4o", [2.5, 10.0, 1.25, 0.0]),
    ("gpt-4o-mini", [0.15, 0.6, 0.075, 0.0]),
    ("o3", [2.0, 8.0, 0.5, 0.0]),
    ("o4-mini", [1.1, 4.4, 0.275, 0.0]),
    ("gemini-2.5-pro", [1.25, 10.0, 0.125, 0.0]),
    ("gemini-2.5-flash", [0.3, 2.5, 0.03, 0.0]),
    ("gemini-2.5-flash-lite", [0.1, 0.4, 0.01, 0.0]),
];

/// The price of one response; none when the model's is not known.
pub fn usd(model: &ModelRef, usage: &Usage) -> Option<f64> {
    // Gateways put the maker in front.
    let id = model.id.rsplit('/').next().unwrap_or(&model.id);
    let (_, [input, output, read, write]) = PRICES.iter().find(|(name, _)| is_model(id, name))?;
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    let part = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
    Some(
        part(usage.input, *input)
            + part(usage.output, *output)
            + part(usage.cache_read, *read)
            + part(usage.cache_write, *write),
    )
}

/// Whether an id names a model: to the letter, or with a date or `latest` behind it.
fn is_model(id: &str, name: &str) -> bool {
    let Some(rest) = id.strip_prefix(name) else { return false };
    let Some(rest) = rest.strip_prefix(['-', '@']) else { return rest.is_empty() };
    rest == "latest" || rest.len() >= 6 && rest.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_models_have_a_price() {
        let million = Usage { input: 1_000_000, ..Usage::default() };
        let cases = [
            ("claude-opus-4-5-20251101", Some(5.0)),
            ("claude-opus-4-20250514", Some(15.0)),
            ("claude-opus-4-6", None),
            ("anthropic/claude-haiku-4-5", Some(1.0)),
            ("gpt-5", Some(1.25)),
            ("gpt-5-mini-2025-08-07", Some(0.25)),
            ("gpt-5-pro", None),
            ("gemini-2.5-flash-lite", Some(0.1)),
            ("fake-1", None),
        ];
        for (id, expected) in cases {
            assert_eq!(usd(&ModelRef::new("x", id), &million), expected, "{id}");
        }
    }
}
