//! What models cost.
//!
//! Responsible for: list prices of the models that are used most, for requests of the usual size, and the
//! user's own prices in front of them. Must not: guess: a model that is in neither has no price.

use crate::config::ModelPrice;
use segno_model::accounting::Price;
use segno_model::record::ModelRef;
use std::collections::BTreeMap;

/// When the table was made.
pub const AS_OF: &str = "2025-11";

/// Millionths of a US dollar for a million tokens: input, output, cache read, cache write.
type Row = [u64; 4];

/// The first row whose name is the model's, or its beginning followed by a date.
const PRICES: &[(&str, Row)] = &[
    ("claude-opus-4-5", [5_000_000, 25_000_000, 500_000, 6_250_000]),
    ("claude-opus-4-1", [15_000_000, 75_000_000, 1_500_000, 18_750_000]),
    ("claude-opus-4", [15_000_000, 75_000_000, 1_500_000, 18_750_000]),
    ("claude-sonnet-4-5", [3_000_000, 15_000_000, 300_000, 3_750_000]),
    ("claude-sonnet-4", [3_000_000, 15_000_000, 300_000, 3_750_000]),
    ("claude-3-7-sonnet", [3_000_000, 15_000_000, 300_000, 3_750_000]),
    ("claude-3-5-sonnet", [3_000_000, 15_000_000, 300_000, 3_750_000]),
    ("claude-haiku-4-5", [1_000_000, 5_000_000, 100_000, 1_250_000]),
    ("claude-3-5-haiku", [800_000, 4_000_000, 80_000, 1_000_000]),
    ("gpt-5.1", [1_250_000, 10_000_000, 125_000, 0]),
    ("gpt-5.1-codex", [1_250_000, 10_000_000, 125_000, 0]),
    ("gpt-5", [1_250_000, 10_000_000, 125_000, 0]),
    ("gpt-5-codex", [1_250_000, 10_000_000, 125_000, 0]),
    ("gpt-5-mini", [250_000, 2_000_000, 25_000, 0]),
    ("gpt-5-nano", [50_000, 400_000, 5_000, 0]),
    ("gpt-4.1", [2_000_000, 8_000_000, 500_000, 0]),
    ("gpt-4.1-mini", [400_000, 1_600_000, 100_000, 0]),
    ("gpt-4o", [2_500_000, 10_000_000, 1_250_000, 0]),
    ("gpt-4o-mini", [150_000, 600_000, 75_000, 0]),
    ("o3", [2_000_000, 8_000_000, 500_000, 0]),
    ("o4-mini", [1_100_000, 4_400_000, 275_000, 0]),
    ("gemini-2.5-pro", [1_250_000, 10_000_000, 125_000, 0]),
    ("gemini-2.5-flash", [300_000, 2_500_000, 30_000, 0]),
    ("gemini-2.5-flash-lite", [100_000, 400_000, 10_000, 0]),
];

/// The user's prices, and the list prices behind them.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    own: BTreeMap<String, Price>,
}

impl Prices {
    /// With what the configuration says.
    #[must_use]
    pub fn new(own: &BTreeMap<String, ModelPrice>) -> Self {
        let priced = |(name, price): (&String, &ModelPrice)| Some((name.clone(), price.price()?));
        Self { own: own.iter().filter_map(priced).collect() }
    }

    /// The price of a model; none when it is not known.
    #[must_use]
    pub fn of(&self, model: &ModelRef) -> Option<Price> {
        let whole = model.to_string();
        // Gateways put the maker in front.
        let id = model.id.rsplit('/').next().unwrap_or(&model.id);
        let exact = [whole.as_str(), model.id.as_str(), id].iter().find_map(|n| self.own.get(*n));
        let dated =
            || self.own.iter().find(|(name, _)| is_model(&whole, name) || is_model(id, name));
        exact.copied().or_else(|| dated().map(|(_, price)| *price)).or_else(|| listed(id))
    }
}

fn listed(id: &str) -> Option<Price> {
    let (_, [input, output, read, write]) = PRICES.iter().find(|(name, _)| is_model(id, name))?;
    let (cache_read, cache_write) = (Some(*read), Some(*write));
    Some(Price::Tokens { input: *input, output: *output, cache_read, cache_write, reasoning: None })
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
    use segno_model::accounting::Cost;
    use segno_model::record::Usage;

    fn of_a_million(prices: &Prices, provider: &str, id: &str) -> Option<String> {
        let million = Usage { input: 1_000_000, ..Usage::default() };
        let cost = prices.of(&ModelRef::new(provider, id))?.cost(&million)?;
        Some(match cost {
            Cost::Exactly(money) => money.exact(),
            Cost::Subscription => "subscription".to_owned(),
        })
    }

    /// Covers: US3.
    #[test]
    fn only_known_models_have_a_price() {
        let cases = [
            ("claude-opus-4-5-20251101", Some("5")),
            ("claude-opus-4-20250514", Some("15")),
            ("claude-opus-4-6", None),
            ("anthropic/claude-haiku-4-5", Some("1")),
            ("gpt-5", Some("1.25")),
            ("gpt-5-mini-2025-08-07", Some("0.25")),
            ("gpt-5-pro", None),
            ("gemini-2.5-flash-lite", Some("0.1")),
            ("fake-1", None),
        ];
        for (id, expected) in cases {
            assert_eq!(of_a_million(&Prices::default(), "x", id).as_deref(), expected, "{id}");
        }
    }

    /// Covers: US3, US10.
    #[test]
    fn the_users_prices_stand_in_front_of_the_list() {
        let own: BTreeMap<String, ModelPrice> = toml::from_str(
            "[\"claude-opus-4-6\"]\ninput = 6\noutput = 30.5\n\
             [\"gpt-5\"]\ninput = 0.000001\noutput = 1\n\
             [\"openai/gpt-5-codex\"]\nsubscription = true\n",
        )
        .unwrap();
        let prices = Prices::new(&own);
        let cases = [
            ("anthropic", "claude-opus-4-6-20260101", Some("6")),
            ("anthropic", "claude-opus-4-6-fast", None),
            ("openai", "gpt-5", Some("0.000001")),
            ("openai", "gpt-5-codex", Some("subscription")),
            ("proxy", "gpt-5-codex", Some("1.25")),
        ];
        for (provider, id, expected) in cases {
            assert_eq!(of_a_million(&prices, provider, id).as_deref(), expected, "{provider}/{id}");
        }
    }
}
