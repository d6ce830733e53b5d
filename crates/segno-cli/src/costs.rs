//! What our own sessions cost.
//!
//! Responsible for: reading a session into accounts, with its children behind it. Must not: know how costs
//! are shown.

use crate::price::Prices;
use crate::stores::Stores;
use segno_model::accounting::{Accounts, Sum};
use segno_model::record::{Body, Origin, OriginKind};
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
}

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
            }
            costs.accounts.apply(&record);
            true
        };
        stores.files.scan_now(id, visit)?;
        Ok(costs)
    }

    /// The last record that it shares with the session that it is a fork of.
    #[must_use]
    pub fn copied_up_to(&self) -> Option<Seq> {
        let fork = self.origin.as_ref().filter(|origin| origin.kind == OriginKind::Fork);
        fork.and_then(|origin| origin.up_to)
    }

    /// All of it, abandoned branches and children included, each once. Children that cannot be found are
    /// said to be missing.
    #[must_use]
    pub fn total(&self, stores: &Stores, prices: &Prices) -> Sum {
        self.with_children(stores, prices, &RefCell::default())
    }

    /// The accounts of its subagents, and of theirs, each once, as far as they can be found.
    #[must_use]
    pub fn children(&self, stores: &Stores) -> Vec<(String, Accounts)> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let mut waiting: Vec<String> = self.accounts.children().iter().cloned().collect();
        while let Some(id) = waiting.pop() {
            let read = |id: &str| Self::read(stores, &SessionId::parse(id).ok()?).ok();
            if let Some(costs) =
                Some(&id).filter(|id| seen.insert((*id).clone())).and_then(|id| read(id))
            {
                waiting.extend(costs.accounts.children().iter().cloned());
                found.push((id, costs.accounts));
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
        children.iter().for_each(|(_, child)| sum.merge(&child.total_since(at, &price)));
        let found = |id: &String| children.iter().any(|(child, _)| child == id);
        let of_all = children.iter().map(|(_, child)| child).chain([&self.accounts]);
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
