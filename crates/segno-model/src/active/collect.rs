//! What a finished loader hands over.
//!
//! Responsible for: choosing the records that the context needs, collecting findings, and telling
//! which damage lies in the active context. Must not: ask for more bytes.

use super::Loaded;
use super::loader::{Loader, basis_for, sequence};
use super::path::Broken;
use crate::checkpoint::Checkpoint;
use crate::finding::{Finding, Severity};
use crate::id::{Pos, Seq};
use crate::judge::scan::{crowd, emptied, tail_finding};
use crate::judge::{Damage, DamageKind, Judge, Outcome};
use crate::line::{Record, readable_json};
use crate::record::{Body, FormatVersion, Header, Message};
use std::collections::{BTreeMap, BTreeSet};

/// Codes of harmless notes that come in crowds.
const CROWDS: &[&str] = &["crlf", "blank", "doubled", "earlier"];

pub(super) fn collect(mut loader: Loader) -> Loaded {
    loader.judge_grown();
    let (mut findings, mut damages) = judged(&loader);
    let mut broken = std::mem::take(&mut loader.walk.broken);
    findings.extend(first_kept_off_path(&loader));
    let tip = tip_that_can_be_read(&loader, &broken);
    broken.retain(|b| !mark_blocking(&mut damages, b));
    damages.extend(broken.iter().map(|b| missing(&loader, b)));
    block_what_may_be_active(&loader, &mut damages);
    findings.extend(damages.iter().map(|d| d.finding.clone()));
    let file_end = loader.image.file_end;
    if let Some(tail) = &loader.tail {
        findings.push(tail_finding(tail, file_end, loader.image.origin));
    }
    findings.extend(emptied(file_end));
    findings.sort_by_key(|f| (f.offset.is_none(), f.offset));
    let content_end = loader.tail.as_ref().map_or(file_end, |t| t.at);
    let needs_line_end = needs_line_end(&loader, content_end);
    let first = first_record(&loader);
    let header = first.and_then(header);
    let format = header.as_ref().map(|h| h.format).or_else(|| claimed_format(first?));
    let opaque_header = first.is_some() && header.is_none();
    let origin = if content_end == 0 { 0 } else { loader.image.origin };
    let mut state = std::mem::take(&mut loader.state);
    state.in_force.tip = tip;
    state.end = (content_end + u64::from(needs_line_end)).saturating_sub(origin);
    let records = needed(&loader, &state.in_force);
    Loaded {
        header,
        format,
        opaque_header,
        origin,
        state,
        records,
        path: loader.walk.path,
        findings,
        damages,
        tail: loader.tail,
        content_end,
        needs_line_end,
        basis: loader.basis,
        durable: loader.durable,
    }
}

/// Judges every part once more, for its findings.
fn judged(loader: &Loader) -> (Vec<Finding>, Vec<Damage>) {
    let (mut findings, mut damages) = (Vec::new(), Vec::new());
    let mut crowds: BTreeMap<&str, (Finding, u64)> = BTreeMap::new();
    for part in &loader.image.parts {
        let basis = basis_for(&loader.basis, part.end == loader.image.file_end);
        let mut judge = Judge::new(&basis, loader.image.origin);
        for fact in sequence(part, &basis.settled) {
            match judge.judge(&fact) {
                Outcome::Read(_, finding) => findings.extend(finding),
                Outcome::Say(finding) if CROWDS.contains(&finding.code) => {
                    crowds.entry(finding.code).or_insert((finding, 0)).1 += 1;
                }
                Outcome::Say(finding) => findings.push(finding),
                Outcome::Damage(damage) => damages.push(damage),
                Outcome::Tail => {}
            }
        }
    }
    findings.extend(crowds.into_values().map(|(finding, count)| crowd(finding, count)));
    (findings, damages)
}

/// Marks the damage that explains a broken reference; says whether there is any.
fn mark_blocking(damages: &mut [Damage], broken: &Broken) -> bool {
    let mut explained = false;
    for damage in damages.iter_mut().filter(|d| d.concerns(broken.wanted)) {
        damage.blocking = true;
        explained = true;
    }
    explained
}

/// The tip in force: what stands in for it when it cannot be read, so that the next node follows a
/// node that is there.
fn tip_that_can_be_read(loader: &Loader, broken: &[Broken]) -> Option<Pos> {
    let tip = loader.state.tip()?;
    match broken.iter().find(|b| b.child.is_none() && b.wanted == tip.seq) {
        Some(broken) => loader.accepted.get(&broken.instead?).map(|r| r.pos()),
        None => Some(tip),
    }
}

fn first_kept_off_path(loader: &Loader) -> Option<Finding> {
    let compaction = loader.walk.compaction.as_ref().filter(|_| loader.walk.passed_first_kept)?;
    Some(Finding {
        code: "first-kept",
        severity: Severity::Warning,
        seq: Some(compaction.seq()),
        sentence: "the first record that this compaction keeps is not on the path".to_owned(),
        done: "everything on the path after it is kept".to_owned(),
        ..Finding::default()
    })
}

/// A reference to a record that is nowhere, though nothing seems to be missing.
fn missing(loader: &Loader, broken: &Broken) -> Damage {
    let Broken { child, wanted, instead } = *broken;
    let settled = loader.basis.settled.misses(wanted, wanted);
    let who = child.map_or_else(|| "the log".to_owned(), |seq| format!("record {seq}"));
    let done = match instead {
        Some(seq) => format!("record {seq}, the nearest before it, stands in for it"),
        None => "it is left out".to_owned(),
    };
    let at = named_at(loader, broken);
    let finding = Finding {
        code: "dangling",
        severity: match child {
            _ if settled => Severity::Note,
            Some(_) => Severity::Damage,
            // A tip or an edit that names nothing is not followed; no record is missing.
            None => Severity::Warning,
        },
        file: None,
        line: None,
        offset: at,
        seq: child,
        sentence: format!("{who} refers to record {wanted}, which cannot be found"),
        done,
    };
    Damage {
        kind: DamageKind::Missing { first: wanted, last: wanted },
        at: at.unwrap_or(0),
        offset: at.unwrap_or(0).saturating_sub(loader.image.origin),
        bytes: 0,
        sha256: String::new(),
        lost: child.map(|_| (wanted, wanted)),
        at_header: false,
        settled,
        blocking: child.is_some(),
        finding,
    }
}

/// Where the record begins that names what is missing: the child, or for a tip and an edit the record
/// that put it in force.
fn named_at(loader: &Loader, broken: &Broken) -> Option<u64> {
    let named_here = |record: &Record| match record.envelope.kind.as_str() {
        "tip" => {
            matches!(record.body(), Body::Tip(tip) if tip.tip.map(|pos| pos.seq) == Some(broken.wanted))
        }
        _ => Some(record.seq()) == loader.checkpoint,
    };
    let by = match broken.child {
        Some(child) => loader.accepted.get(&child),
        None => loader.accepted.values().rev().find(|record| named_here(record)),
    };
    by.map(|record| loader.file_offset(record))
}

/// Damage that no reference on the path ran into can still be in the active context: where the header
/// should be; behind the last record that says where the tip is; behind a call without a result.
fn block_what_may_be_active(loader: &Loader, damages: &mut [Damage]) {
    let moves_tip =
        |r: &Record| r.is_node() || (r.envelope.kind == "tip" && matches!(r.body(), Body::Tip(_)));
    let tip_set = loader.accepted.values().rev().find(|r| moves_tip(r)).map(|r| r.seq());
    let certain = tip_set.max(loader.checkpoint);
    let first_open = loader.walk.unanswered.iter().min().copied();
    let in_context = |seq: &Seq| loader.walk.path.contains(seq) || loader.walk.kept.contains(seq);
    for damage in damages {
        if let DamageKind::Conflict { seq } = &damage.kind {
            damage.blocking |= in_context(seq);
        }
        let after = |seq: Option<Seq>| damage.last_lost() > seq;
        let hides_result = first_open.is_some() && after(first_open);
        damage.blocking |= damage.at_header || after(certain) && damage.lost.is_some();
        damage.blocking |= hides_result && damage.lost.is_some();
    }
}

/// Whether the sound part ends without a line end.
fn needs_line_end(loader: &Loader, content_end: u64) -> bool {
    let mut lines = loader.image.parts.iter().rev().flat_map(|p| p.lines.iter().rev());
    let last = lines.find(|line| line.at < content_end);
    last.is_some_and(|line| !line.ended || content_end < line.end())
}

/// Line 1, when it is a record and not tail.
fn first_record(loader: &Loader) -> Option<&Record> {
    let is_tail = loader.tail.as_ref().is_some_and(|tail| tail.at == 0);
    loader.accepted.get(&0).filter(|_| !is_tail).map(|record| &**record)
}

fn header(first: &Record) -> Option<Header> {
    match first.body() {
        Body::Session(header) => Some((**header).clone()),
        _ => None,
    }
}

/// The format of a header whose other members have shapes that this version does not know.
fn claimed_format(first: &Record) -> Option<FormatVersion> {
    #[derive(serde::Deserialize)]
    struct Claim {
        format: FormatVersion,
    }
    let claim: Option<Claim> = serde_json::from_str(&readable_json(&first.line)).ok();
    claim.filter(|_| first.envelope.kind == "session").map(|claim| claim.format)
}

/// The records that the context needs: the path, what belongs to its nodes, kept records, edits in
/// force, and the results of the path's calls wherever they are.
fn needed(loader: &Loader, now: &Checkpoint) -> Vec<Record> {
    let walk = &loader.walk;
    let path: BTreeSet<Seq> = walk.path.iter().copied().collect();
    let to_root = walk.compaction.is_none();
    // Whether the node that metadata belongs to is on the path; before the first node it is the root.
    let mut on_path = to_root;
    let calls = Calls::of(loader);
    let mut records = Vec::new();
    for (seq, record) in &loader.accepted {
        if record.is_node() {
            on_path = path.contains(seq);
        }
        let chosen = match record.body() {
            Body::ContextEdit(edit) => {
                let target = edit.target;
                let edits = now.context_edits.get(&target).or_else(|| now.restored.get(&target));
                let in_force = edits.is_some_and(|pos| pos.seq == *seq);
                let alters = walk.alters_state(target, record.pos());
                let answers =
                    loader.accepted.get(&target).is_some_and(|r| calls.are_answered_by(r));
                let sent = path.contains(&target) || walk.kept.contains(&target);
                in_force && (answers || sent || alters)
            }
            _ => on_path || walk.kept.contains(seq),
        };
        if chosen || calls.are_answered_by(record) {
            records.push((**record).clone());
        }
    }
    records
}

/// The calls of the replies in the context.
struct Calls<'a> {
    replies: BTreeSet<Seq>,
    ids: BTreeSet<&'a str>,
}

impl<'a> Calls<'a> {
    fn of(loader: &'a Loader) -> Self {
        let mut calls = Self { replies: BTreeSet::new(), ids: BTreeSet::new() };
        for seq in loader.walk.path.iter().chain(&loader.walk.kept) {
            let Some(record) = loader.accepted.get(seq) else { continue };
            if let Body::Message(message) = record.body()
                && let Message::Assistant(reply) = &**message
            {
                calls.replies.insert(*seq);
                calls.ids.extend(reply.calls().map(|call| call.id.as_str()));
            }
        }
        calls
    }

    fn are_answered_by(&self, record: &Record) -> bool {
        let Body::Message(message) = record.body() else { return false };
        let Message::Tool(result) = &**message else { return false };
        match result.call_seq {
            Some(reply) => self.replies.contains(&reply),
            None => self.ids.contains(result.call_id.as_str()),
        }
    }
}
