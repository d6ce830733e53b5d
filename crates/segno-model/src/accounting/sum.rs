//! Sums of calls, and how much of them is known.
//!
//! Responsible for: tokens, money, time, and the marks that say what a sum leaves out. Must not: decide which
//! calls belong together.

use super::money::{Cost, Money, Price};
use super::{Entry, Kind};
use crate::record::Usage;
use serde::{Serialize, Serializer};

/// What some calls add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// Calls whose tokens are known.
    pub responses: u64,
    /// Tokens.
    #[serde(flatten)]
    pub usage: Tokens,
    /// US dollars of the calls whose price is known; null when there is none.
    #[serde(serialize_with = "dollars")]
    pub usd: Option<Money>,
    /// Calls of a model whose price is not known.
    pub unpriced: u64,
    /// Calls that a subscription pays for.
    pub subscription: u64,
    /// Calls whose tokens nobody reported.
    pub unknown: Unknown,
    /// Children whose costs are not known.
    pub children_unknown: u64,
    /// Time in model calls, as far as it is known.
    pub model_ms: u64,
    /// Time in tools, likewise; what ran at the same time counts once.
    pub tool_ms: u64,
}

/// Tokens of several calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tokens {
    /// Fresh input.
    pub input: u64,
    /// Output, reasoning included.
    pub output: u64,
    /// Read from caches.
    pub cache_read: u64,
    /// Written to them.
    pub cache_write: u64,
    /// Reasoning, where it was reported.
    pub reasoning: u64,
}

impl Tokens {
    fn add(&mut self, other: Self) {
        let fields = [
            (&mut self.input, other.input),
            (&mut self.output, other.output),
            (&mut self.cache_read, other.cache_read),
            (&mut self.cache_write, other.cache_write),
            (&mut self.reasoning, other.reasoning),
        ];
        for (sum, more) in fields {
            *sum = sum.saturating_add(more);
        }
    }
}

impl From<&Usage> for Tokens {
    fn from(usage: &Usage) -> Self {
        let Usage { input, output, cache_read, cache_write, reasoning } = *usage;
        Self { input, output, cache_read, cache_write, reasoning: reasoning.unwrap_or(0) }
    }
}

/// What a call was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// The next turn.
    Reply,
    /// A summary.
    Summary,
    /// Anything else: a retry that was thrown away, a title.
    Other,
}

/// Calls without known tokens, by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// Replies.
    pub reply: u64,
    /// Summaries.
    pub summary: u64,
    /// Others.
    pub other: u64,
}

impl Unknown {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.reply.saturating_add(self.summary).saturating_add(self.other)
    }
}

/// How a sum's money is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// There was nothing to pay for.
    Nothing,
    /// All of it is known.
    Exact,
    /// More was spent than is known.
    AtLeast,
    /// No price is known.
    Unpriced,
    /// Nobody said how many tokens.
    Unknown,
    /// A subscription pays for all of it.
    Subscription,
}

type Row = (Mark, fn(priced: bool, unpriced: bool, unknown: bool, subscription: bool) -> bool);

/// Every sum matches exactly one row. Nothing that is not known is ever told as 0.
const MARKS: &[Row] = &[
    (Mark::Nothing, |p, n, u, s| !p && !n && !u && !s),
    (Mark::Exact, |p, n, u, _| p && !n && !u),
    (Mark::AtLeast, |p, n, u, _| p && (n || u)),
    (Mark::Unpriced, |p, n, _, _| !p && n),
    (Mark::Unknown, |p, n, u, _| !p && !n && u),
    (Mark::Subscription, |p, n, u, s| !p && !n && !u && s),
];

impl Sum {
    /// Adds an entry, priced as `price` says.
    pub fn add(&mut self, entry: &Entry, price: Option<Price>) {
        match &entry.kind {
            Kind::Tools { ms } => self.tool_ms = self.tool_ms.saturating_add(*ms),
            Kind::Call { purpose, usage, ms, .. } => {
                self.model_ms = self.model_ms.saturating_add(ms.unwrap_or(0));
                match usage {
                    Some(usage) => self.add_call(usage, price),
                    None => match purpose {
                        Purpose::Reply => self.unknown.reply += 1,
                        Purpose::Summary => self.unknown.summary += 1,
                        Purpose::Other => self.unknown.other += 1,
                    },
                }
            }
        }
    }

    /// Adds a call.
    pub fn add_call(&mut self, usage: &Usage, price: Option<Price>) {
        self.responses += 1;
        self.usage.add(usage.into());
        match price.and_then(|price| price.cost(usage)) {
            Some(Cost::Exactly(money)) => {
                self.usd = Some(self.usd.unwrap_or_default().plus(money));
            }
            Some(Cost::Subscription) => self.subscription += 1,
            None => self.unpriced += 1,
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.usage.add(other.usage);
        self.usd = match (self.usd, other.usd) {
            (Some(one), Some(two)) => Some(one.plus(two)),
            (one, two) => one.or(two),
        };
        let fields = [
            (&mut self.responses, other.responses),
            (&mut self.unpriced, other.unpriced),
            (&mut self.subscription, other.subscription),
            (&mut self.unknown.reply, other.unknown.reply),
            (&mut self.unknown.summary, other.unknown.summary),
            (&mut self.unknown.other, other.unknown.other),
            (&mut self.children_unknown, other.children_unknown),
            (&mut self.model_ms, other.model_ms),
            (&mut self.tool_ms, other.tool_ms),
        ];
        for (sum, more) in fields {
            *sum = sum.saturating_add(more);
        }
    }

    /// How the money is told.
    #[must_use]
    pub fn mark(&self) -> Mark {
        let unknown = self.unknown.total() > 0 || self.children_unknown > 0;
        let fits = |row: &&Row| {
            (row.1)(self.usd.is_some(), self.unpriced > 0, unknown, self.subscription > 0)
        };
        MARKS.iter().find(fits).map_or(Mark::Unknown, |row| row.0)
    }

    /// The money, for people.
    #[must_use]
    pub fn money(&self) -> String {
        let usd = self.usd.unwrap_or_default();
        match self.mark() {
            Mark::Nothing => "-".to_owned(),
            Mark::Exact => usd.to_string(),
            Mark::AtLeast => format!("≥ {usd}"),
            Mark::Unpriced => "unpriced".to_owned(),
            Mark::Unknown => "unknown".to_owned(),
            Mark::Subscription => "subscription".to_owned(),
        }
    }
}

/// The decimal number itself; a float is made of it only by who reads it.
fn dollars<S: Serializer>(usd: &Option<Money>, serializer: S) -> Result<S::Ok, S::Error> {
    let number = usd.and_then(|usd| usd.exact().parse::<f64>().ok());
    number.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers: US15.
    #[test]
    fn every_sum_has_exactly_one_mark() {
        for bits in 0..16u8 {
            let bit = |n: u8| bits >> n & 1 == 1;
            let found: Vec<_> = MARKS
                .iter()
                .filter(|row| (row.1)(bit(0), bit(1), bit(2), bit(3)))
                .map(|row| row.0)
                .collect();
            assert_eq!(found.len(), 1, "{bits:04b}: {found:?}");
        }
    }

    /// Covers: US10, US15. What is not known is never told as nothing.
    #[test]
    fn money_is_marked_for_what_it_leaves_out() {
        let price = |usd: u64| Price::Tokens {
            input: usd * 1_000_000,
            output: 0,
            cache_read: None,
            cache_write: None,
            reasoning: None,
        };
        let usage = Usage { input: 1_000_000, ..Usage::default() };
        let sum = |prices: &[Option<Price>], unknown: u64| {
            let mut sum = Sum::default();
            prices.iter().for_each(|price| sum.add_call(&usage, *price));
            sum.unknown.reply = unknown;
            sum.money()
        };
        assert_eq!(sum(&[], 0), "-");
        assert_eq!(sum(&[Some(price(2))], 0), "2.00");
        assert_eq!(sum(&[Some(price(2)), None], 0), "≥ 2.00");
        assert_eq!(sum(&[Some(price(2))], 1), "≥ 2.00");
        assert_eq!(sum(&[None], 0), "unpriced");
        assert_eq!(sum(&[None], 1), "unpriced");
        assert_eq!(sum(&[], 1), "unknown");
        assert_eq!(sum(&[Some(Price::Subscription)], 0), "subscription");
        assert_eq!(sum(&[Some(Price::Subscription), Some(price(2))], 0), "2.00");
        assert_eq!(sum(&[Some(Price::Subscription), None], 0), "unpriced");
        assert_eq!(sum(&[Some(price(0))], 0), "0", "a free model");
    }
}
