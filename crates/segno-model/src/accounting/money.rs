//! Money in exact decimals, and what a million tokens cost.
//!
//! Responsible for: sums that do not drift, whatever their order, and the price of one call. Must not: know
//! any model's price, or guess one.

use crate::record::Usage;
use std::fmt;

/// An amount of US dollars, in millionths of a millionth: what one token costs is a whole number of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(u128);

/// In one dollar.
const PICOS: u128 = 1_000_000_000_000;

impl Money {
    /// Dollars with up to twelve decimals.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || part.len() > 12 || !digits(whole) || !digits(part) {
            return None;
        }
        let part: u128 = format!("{part:0<12}").parse().ok()?;
        whole.parse::<u128>().ok()?.checked_mul(PICOS)?.checked_add(part).map(Self)
    }

    /// Millionths of a dollar, rounded down.
    #[must_use]
    pub fn micros(self) -> u64 {
        u64::try_from(self.0 / 1_000_000).unwrap_or(u64::MAX)
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The amount to the last digit, e.g. `0.00045`.
    #[must_use]
    pub fn exact(self) -> String {
        let text = format!("{}.{:012}", self.0 / PICOS, self.0 % PICOS);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// For people: cents from a dollar on, and below that as many digits as tell something.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = |decimals: u32| {
            let unit = PICOS / 10u128.pow(decimals);
            (self.0.saturating_add(unit / 2) / unit, 10u128.pow(decimals))
        };
        match self.0 {
            0 => f.write_str("0"),
            few if few < PICOS / 20_000 => f.write_str("<0.0001"),
            part if part < PICOS => {
                let (amount, unit) = rounded(4);
                write!(f, "{}.{:04}", amount / unit, amount % unit)
            }
            _ => {
                let (amount, unit) = rounded(2);
                write!(f, "{}.{:02}", amount / unit, amount % unit)
            }
        }
    }
}

/// What a model's tokens cost: millionths of a dollar for a million tokens of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Price {
    /// By the token. A kind without a price makes a call that used it one without a price.
    Tokens {
        /// Fresh input.
        input: u64,
        /// Output.
        output: u64,
        /// Read from the provider's cache.
        cache_read: Option<u64>,
        /// Written to it.
        cache_write: Option<u64>,
        /// Reasoning, where it costs something else than output.
        reasoning: Option<u64>,
    },
    /// It is paid for otherwise, and a call costs nothing more.
    Subscription,
}

/// What a call cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// This much.
    Exactly(Money),
    /// It belongs to a subscription.
    Subscription,
}

impl Price {
    /// What a call with this usage cost; none when a price for a part of it is missing.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<Cost> {
        let Self::Tokens { input, output, cache_read, cache_write, reasoning } = *self else {
            return Some(Cost::Subscription);
        };
        let part = |tokens: u64, price: Option<u64>| match (tokens, price) {
            (0, _) => Some(0),
            (_, None) => None,
            (tokens, Some(price)) => Some(u128::from(tokens).saturating_mul(u128::from(price))),
        };
        let thought = usage.reasoning.unwrap_or(0).min(usage.output);
        let apart = if reasoning.is_some() { thought } else { 0 };
        let parts = [
            part(usage.input, Some(input))?,
            part(usage.output - apart, Some(output))?,
            part(apart, reasoning)?,
            part(usage.cache_read, cache_read)?,
            part(usage.cache_write, cache_write)?,
        ];
        Some(Cost::Exactly(Money(parts.iter().fold(0, |sum, part| sum.saturating_add(*part)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_exact_and_told_with_the_digits_that_matter() {
        let cases = [
            ("0", "0", "0"),
            ("0.000000000001", "<0.0001", "0.000000000001"),
            ("0.00004", "<0.0001", "0.00004"),
            ("0.00005", "0.0001", "0.00005"),
            ("0.00045", "0.0005", "0.00045"),
            ("0.5", "0.5000", "0.5"),
            ("0.99999", "1.0000", "0.99999"),
            ("1", "1.00", "1"),
            ("1.005", "1.01", "1.005"),
            ("1234.5", "1234.50", "1234.5"),
        ];
        for (text, told, exact) in cases {
            let money = Money::parse(text).unwrap();
            assert_eq!(
                (money.to_string().as_str(), money.exact().as_str()),
                (told, exact),
                "{text}"
            );
        }
        for text in ["", ".5", "-1", "1e3", "1.0000000000001"] {
            assert_eq!(Money::parse(text), None, "{text}");
        }
        let tenth = Money::parse("0.1").unwrap();
        let sum = (0..10).fold(Money::default(), |sum, _| sum.plus(tenth));
        assert_eq!(sum, Money::parse("1").unwrap());
    }

    /// Covers: US3. No part of a call is given a price that was not told.
    #[test]
    fn a_part_without_a_price_has_the_whole_call_without_one() {
        let price = Price::Tokens {
            input: 3_000_000,
            output: 15_000_000,
            cache_read: Some(300_000),
            cache_write: None,
            reasoning: None,
        };
        let cost = |input, output, cache_read, cache_write, reasoning| {
            let usage = Usage { input, output, cache_read, cache_write, reasoning };
            price.cost(&usage).map(|cost| match cost {
                Cost::Exactly(money) => money.exact(),
                Cost::Subscription => "subscription".to_owned(),
            })
        };
        assert_eq!(cost(1_000_000, 0, 0, 0, None).as_deref(), Some("3"));
        assert_eq!(cost(1, 0, 1, 0, None).as_deref(), Some("0.0000033"));
        assert_eq!(cost(1, 2, 0, 0, Some(2)).as_deref(), Some("0.000033"));
        assert_eq!(cost(1, 0, 0, 1, None), None);
        let most = Usage { input: u64::MAX, output: u64::MAX, ..Usage::default() };
        assert!(price.cost(&most).is_some());
        assert_eq!(Price::Subscription.cost(&most), Some(Cost::Subscription));
    }

    #[test]
    fn reasoning_with_a_price_of_its_own_is_no_output() {
        let price = Price::Tokens {
            input: 0,
            output: 1_000_000,
            cache_read: None,
            cache_write: None,
            reasoning: Some(3_000_000),
        };
        let usage = Usage { output: 10, reasoning: Some(4), ..Usage::default() };
        assert_eq!(price.cost(&usage), Some(Cost::Exactly(Money(6_000_000 + 12_000_000))));
    }
}
