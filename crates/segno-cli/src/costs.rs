//! What our own sessions cost.
//!
//! Responsible for: reading a session into accounts, with its children behind it. Must not: know how costs
//! are shown.

use crate::price::Prices;
use crate::sessions::is_child;
use crate::stores::Stores;
use segno_model::accounting::{Accounts, Sum};
use segno_model::record::{Body, Header, Origin};
use segno_model::store::{Scanned, StoreError};
use segno_model::{Seq, SessionId, Timestamp};
use std::cell::RefCell;
use std::collections::HashSet;

/// A session's accounts, and where it comes from.
#[derive(Debug, Default)]
pub struct SessionCosts {
    /// Everything in its log that counts.
    pub accounts: Accounts,
    /// What it is a copy of.
    pub origin: Option<Origin>,
    /// Whether it is a subagent's.
    is_child: bool,
    /// What it was copied from, and that in its turn: up to which record, and which subagent's session; "" is
    /// a session of its own.
    copied: Vec<(Seq, String)>,
}

/// Copies of copies are followed so far.
const LINEAGE: usize = 64;

impl SessionCosts {
    /// Reads a session from its first record to its last.
    ///
    /// # Errors
    /// When there is none, or the disk fails.
    pub fn read(stores: &Stores, id: &SessionId) -> Result<Self, StoreError> {
        let mut costs = Self::default();
        let visit = &mut |item| {
            let Scanned::Record(record) = item else { return true };
            if let Body::Session(header) = record.body() {
                costs.origin.clone_from(&header.origin);
                costs.is_child = header.origin.as_ref().is_some_and(is_child);
            }
            costs.accounts.apply(&record);
            true
        };
        stores.files.scan_now(id, visit)?;
        costs.copied = costs.lineage(stores);
        Ok(costs)
    }

    fn lineage(&self, stores: &Stores) -> Vec<(Seq, String)> {
        let (mut lineage, mut origin) = (Vec::new(), self.origin.clone());
        while let Some((of, up_to)) = origin.as_ref().and_then(fork_of) {
            let header = SessionId::parse(of).ok().and_then(|id| header(stores, &id));
            let child =
                header.as_ref().map_or(self.is_child, |h| h.origin.as_ref().is_some_and(is_child));
            lineage.push((up_to, if child { of.to_owned() } else { String::new() }));
            origin = header.and_then(|header| header.origin);
            if lineage.len() == LINEAGE {
                break;
            }
        }
        lineage
    }

    /// The subagent's session in which the record was made that a copy has under the same number; "" when it was
    /// made in none. `own` is this session's id.
    #[must_use]
    pub fn made_in<'a>(&'a self, own: &'a str, record: Seq) -> &'a str {
        let copied = self.copied.iter().take_while(|(up_to, _)| record <= *up_to).last();
        let own = if self.is_child { own } else { "" };
        copied.map_or(own, |(_, of)| of)
    }

    /// The last record that it shares with the session that it is a fork of.
    #[must_use]
    pub fn copied_up_to(&self) -> Option<Seq> {
        Some(self.origin.as_ref().and_then(fork_of)?.1)
    }

    /// All of it, abandoned branches and children included, each once. Children that cannot be found are
    /// said to be missing.
    #[must_use]
    pub fn total(&self, stores: &Stores, prices: &Prices) -> Sum {
        self.with_children(stores, prices, &RefCell::default())
    }

    /// Its subagents', and theirs, each once, as far as they can be found.
    #[must_use]
    pub fn children(&self, stores: &Stores) -> Vec<(String, Self)> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let mut waiting: Vec<String> = self.accounts.children().iter().cloned().collect();
        while let Some(id) = waiting.pop() {
            let read = |id: &str| Self::read(stores, &SessionId::parse(id).ok()?).ok();
            if let Some(costs) =
                Some(&id).filter(|id| seen.insert((*id).clone())).and_then(|id| read(id))
            {
                waiting.extend(costs.accounts.children().iter().cloned());
                found.push((id, costs));
            }
        }
        found
    }

    /// What was begun since this time, subagents included, each once: their own calls of before are left out.
    /// Children that cannot be found are said to be missing.
    #[must_use]
    pub fn total_since(&self, at: Timestamp, stores: &Stores, prices: &Prices) -> Sum {
        let price = |model: &_| prices.of(model);
        let mut sum = self.accounts.total_since(at, &price);
        let children = self.children(stores);
        children.iter().for_each(|(_, child)| sum.merge(&child.accounts.total_since(at, &price)));
        let found = |id: &String| children.iter().any(|(child, _)| child == id);
        let of_all = children.iter().map(|(_, child)| &child.accounts).chain([&self.accounts]);
        let missing: HashSet<_> =
            of_all.flat_map(Accounts::children).filter(|id| !found(id)).collect();
        sum.children_unknown += missing.len() as u64;
        sum
    }

    fn with_children(
        &self,
        stores: &Stores,
        prices: &Prices,
        counted: &RefCell<HashSet<String>>,
    ) -> Sum {
        let child = |id: &str| {
            if !counted.borrow_mut().insert(id.to_owned()) {
                return Some(Sum::default());
            }
            let costs = Self::read(stores, &SessionId::parse(id).ok()?).ok()?;
            Some(costs.with_children(stores, prices, counted))
        };
        self.accounts.total_with_children(&|model| prices.of(model), &child)
    }
}

/// What it is a fork of, and up to which record.
fn fork_of(origin: &Origin) -> Option<(&str, Seq)> {
    origin.fork_of().zip(origin.up_to)
}

fn header(stores: &Stores, id: &SessionId) -> Option<Header> {
    let mut found = None;
    let visit = &mut |item| {
        if let Scanned::Record(record) = item
            && let Body::Session(header) = record.body()
        {
            found = Some((**header).clone());
        }
        false
    };
    stores.files.scan_now(id, visit).ok()?;
    found
}
