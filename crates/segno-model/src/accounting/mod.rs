//! What a session cost: one fold over its records.
//!
//! Responsible for: which records tell of which model call, each counted once, on which branch it was made,
//! and how long calls and tools took. Must not: know prices, or sum up what is asked in different ways.
//!
//! A call is known by its `request` record. It is unknown what it cost until a reply, a summary or a `usage`
//! record says so. Records that were seen before change nothing: a view can be brought up to date or made anew.

mod money;
mod sum;

pub use money::{Cost, Money, Price};
pub use sum::{Mark, Purpose, Sum, Tokens, Unknown};

use crate::id::Seq;
use crate::line::Record;
use crate::record::{
    Action, AssistantMessage, Body, ChildState, Compaction, Established, Message, ModelRef,
    Request, RunState, ToolMessage, Usage, UsageRecord,
};
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Something that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The record that it is known by: the `request`, where there is one. With `since`, it is the same in
    /// every copy of the session.
    pub key: Seq,
    /// The time of that record.
    pub since: Timestamp,
    /// When it was over, as far as is known.
    pub at: Timestamp,
    /// The node that it belongs to; none before the first one.
    pub node: Option<Seq>,
    /// What.
    pub kind: Kind,
}

/// What counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A model call.
    Call {
        /// Of which model.
        model: ModelRef,
        /// What for.
        purpose: Purpose,
        /// Its tokens, if anybody reported them.
        usage: Option<Usage>,
        /// How long it took, where a process saw both its ends.
        ms: Option<u64>,
    },
    /// Tools that ran.
    Tools {
        /// How long; what ran beside others counts once.
        ms: u64,
    },
}

/// A branch, by its last node.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// Its last node; none for a session without any.
    pub tip: Option<Seq>,
    /// Whether the session goes on from here.
    pub current: bool,
    /// From the beginning to the tip. What several branches share is in each of them.
    pub sum: Sum,
}

/// The costs of one session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Accounts {
    entries: BTreeMap<Seq, Entry>,
    /// The last record taken into account.
    seen: Option<Seq>,
    /// The newest call, while nobody said what it cost.
    asked: Option<Asked>,
    parents: BTreeMap<Seq, Option<Seq>>,
    tip: Option<Seq>,
    children: BTreeSet<String>,
    clock: ToolClock,
}

#[derive(Debug, Clone, PartialEq)]
struct Asked {
    seq: Seq,
    at: Timestamp,
    model: ModelRef,
    /// Another process goes on, so nobody saw how long it took.
    cut_off: bool,
}

/// When the tools of the newest turn began, and until when time was counted.
#[derive(Debug, Clone, Default, PartialEq)]
struct ToolClock {
    turn: Option<(Seq, Timestamp)>,
    begun: HashMap<String, Timestamp>,
    until: Timestamp,
}

impl Accounts {
    /// Everything that counts, by the records that it is known by.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// The children that were started, each once however often it went on.
    #[must_use]
    pub fn children(&self) -> &BTreeSet<String> {
        &self.children
    }

    /// The whole session, abandoned branches included, children not.
    #[must_use]
    pub fn total(&self, price: &dyn Fn(&ModelRef) -> Option<Price>) -> Sum {
        let mut sum = Sum::default();
        self.entries.values().for_each(|entry| sum.add(entry, price_of(entry, price)));
        sum
    }

    /// What was begun at this time or later.
    #[must_use]
    pub fn total_since(&self, at: Timestamp, price: &dyn Fn(&ModelRef) -> Option<Price>) -> Sum {
        let mut sum = Sum::default();
        let later = self.entries.values().filter(|entry| entry.since >= at);
        later.for_each(|entry| sum.add(entry, price_of(entry, price)));
        sum
    }

    /// What is known by records up to this one: what a copy that begins with them shares.
    #[must_use]
    pub fn total_up_to(&self, last: Seq, price: &dyn Fn(&ModelRef) -> Option<Price>) -> Sum {
        let mut sum = Sum::default();
        self.entries.range(..=last).for_each(|(_, entry)| sum.add(entry, price_of(entry, price)));
        sum
    }

    /// The whole session with its children, each once. One whose costs cannot be found is said to be missing.
    #[must_use]
    pub fn total_with_children(
        &self,
        price: &dyn Fn(&ModelRef) -> Option<Price>,
        child: &dyn Fn(&str) -> Option<Sum>,
    ) -> Sum {
        let mut sum = self.total(price);
        for id in &self.children {
            match child(id) {
                Some(spent) => sum.merge(&spent),
                None => sum.children_unknown += 1,
            }
        }
        sum
    }

    /// Each branch, the current one first, then the newest.
    #[must_use]
    pub fn branches(&self, price: &dyn Fn(&ModelRef) -> Option<Price>) -> Vec<Branch> {
        let (mut own, mut rootless) = (BTreeMap::<Seq, Sum>::new(), Sum::default());
        for entry in self.entries.values() {
            let node = entry.node.filter(|node| self.parents.contains_key(node));
            let sum = node.map_or(&mut rootless, |node| own.entry(node).or_default());
            sum.add(entry, price_of(entry, price));
        }
        let mut upto = BTreeMap::<Seq, Sum>::new();
        for (node, parent) in &self.parents {
            let mut sum = parent.and_then(|parent| upto.get(&parent).copied()).unwrap_or(rootless);
            sum.merge(own.get(node).unwrap_or(&Sum::default()));
            upto.insert(*node, sum);
        }
        let inner: BTreeSet<Seq> = self.parents.values().flatten().copied().collect();
        let tips = self.parents.keys().rev().filter(|node| !inner.contains(node));
        let others = tips.copied().map(Some).filter(|tip| *tip != self.tip);
        std::iter::once(self.tip)
            .chain(others)
            .map(|tip| Branch {
                tip,
                current: tip == self.tip,
                sum: tip.and_then(|tip| upto.get(&tip).copied()).unwrap_or(rootless),
            })
            .collect()
    }

    /// Takes one more record into account. Records come in the order of the log; one that was seen before
    /// changes nothing.
    pub fn apply(&mut self, record: &Record) {
        if self.seen.is_some_and(|seen| record.seq() <= seen) {
            return;
        }
        self.seen = Some(record.seq());
        if record.is_node() {
            self.parents.insert(record.seq(), record.envelope.parent);
            self.tip = Some(record.seq());
        }
        let (seq, at) = (record.seq(), record.envelope.at);
        match record.body() {
            Body::Tip(moved) => self.tip = moved.tip.map(|tip| tip.seq),
            Body::Request(request) => self.ask(seq, at, request),
            Body::Message(message) => match &**message {
                Message::Assistant(reply) => self.answer(seq, at, reply),
                Message::Tool(result) => self.finish_tool(seq, at, result),
                Message::User(_) => {}
            },
            Body::Action(action) => self.begin_tool(at, action),
            Body::Usage(usage) => self.spend(seq, at, usage),
            Body::Compaction(compaction) => self.summarise(seq, at, compaction),
            Body::Run(run) if matches!(run.state, RunState::Started { .. }) => {
                if let Some(asked) = &mut self.asked {
                    asked.cut_off = true;
                }
            }
            Body::Child(child) if child.state == ChildState::Started && !child.child.is_empty() => {
                self.children.insert(child.child.clone());
            }
            _ => {}
        }
    }

    fn ask(&mut self, seq: Seq, at: Timestamp, request: &Request) {
        let purpose = match request.purpose.as_deref() {
            None => Purpose::Reply,
            Some("compaction") => Purpose::Summary,
            Some(_) => Purpose::Other,
        };
        let model = request.model.clone();
        self.asked = Some(Asked { seq, at, model: model.clone(), cut_off: false });
        let kind = Kind::Call { model, purpose, usage: None, ms: None };
        self.entries.insert(seq, Entry { key: seq, since: at, at, node: self.tip, kind });
    }

    /// A reply tells what its request cost. One without a request comes from elsewhere; where its agent
    /// does not report tokens, nothing is missing.
    fn answer(&mut self, seq: Seq, at: Timestamp, reply: &AssistantMessage) {
        self.clock = ToolClock { turn: Some((seq, at)), begun: HashMap::new(), until: at };
        let asked = self.asked.take_if(|asked| reply.request == Some(asked.seq));
        let known = reply.request.filter(|request| self.entries.contains_key(request));
        if known.is_none() && reply.usage.is_none() {
            return;
        }
        let key = known.unwrap_or(seq);
        let before = self.entries.get(&key);
        let since = before.map_or(at, |entry| entry.since);
        let told = before.and_then(|entry| match &entry.kind {
            Kind::Call { usage, ms, .. } => Some((*usage, *ms)),
            Kind::Tools { .. } => None,
        });
        let (usage, ms) = told.unwrap_or_default();
        let took = asked.filter(|asked| !asked.cut_off).map(|asked| between(asked.at, at));
        let (model, purpose) = (reply.model.clone(), Purpose::Reply);
        let kind = Kind::Call { model, purpose, usage: reply.usage.or(usage), ms: took.or(ms) };
        self.entries.insert(key, Entry { key, since, at, node: Some(seq), kind });
    }

    /// Tokens that belong to no message: of the call that was just made, or of one that was not announced.
    fn spend(&mut self, seq: Seq, at: Timestamp, told: &UsageRecord) {
        let asked = self.asked.take_if(|asked| asked.model == told.model);
        self.tell(asked, (seq, at), &told.model, Purpose::Other, told.usage);
    }

    fn summarise(&mut self, seq: Seq, at: Timestamp, compaction: &Compaction) {
        let summary = |asked: &mut Asked| {
            let kind = self.entries.get(&asked.seq).map(|entry| &entry.kind);
            matches!(kind, Some(Kind::Call { purpose: Purpose::Summary, .. }))
        };
        let Some(usage) = compaction.usage else { return };
        let asked = self.asked.take_if(summary);
        let of_request = asked.as_ref().map(|asked| asked.model.clone());
        let model = compaction.model.clone().or(of_request).unwrap_or_default();
        self.tell(asked, (seq, at), &model, Purpose::Summary, usage);
    }

    fn tell(
        &mut self,
        asked: Option<Asked>,
        (seq, at): (Seq, Timestamp),
        model: &ModelRef,
        purpose: Purpose,
        usage: Usage,
    ) {
        let took = asked.as_ref().filter(|a| !a.cut_off).map(|a| between(a.at, at));
        let (key, since) = asked.map_or((seq, at), |asked| (asked.seq, asked.at));
        let model = model.clone();
        let kind = Kind::Call { model, purpose, usage: Some(usage), ms: took };
        self.entries.insert(key, Entry { key, since, at, node: self.tip, kind });
    }

    fn begin_tool(&mut self, at: Timestamp, action: &Action) {
        if self.clock.turn.is_some_and(|(turn, _)| turn == action.call_seq) {
            self.clock.begun.insert(action.call_id.clone(), at);
        }
    }

    /// What a process saw begin and end. A tool without an intent began with its turn.
    fn finish_tool(&mut self, seq: Seq, at: Timestamp, result: &ToolMessage) {
        let Some((turn, turn_at)) = self.clock.turn else { return };
        let ours = result.call_seq.is_none_or(|call_seq| call_seq == turn);
        if !ours || result.established != Established::Observed {
            return;
        }
        let begun = self.clock.begun.get(&result.call_id).copied().unwrap_or(turn_at);
        let ms = between(begun.max(self.clock.until), at);
        self.clock.until = self.clock.until.max(at);
        if ms > 0 {
            let (node, kind) = (Some(seq), Kind::Tools { ms });
            self.entries.insert(seq, Entry { key: seq, since: at, at, node, kind });
        }
    }
}

/// The price of an entry. A call of nobody knows which model has none.
fn price_of(entry: &Entry, price: &dyn Fn(&ModelRef) -> Option<Price>) -> Option<Price> {
    match &entry.kind {
        Kind::Call { model, .. } if !model.id.is_empty() => price(model),
        _ => None,
    }
}

/// Clocks may be set back; that took no time.
fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0)
}
