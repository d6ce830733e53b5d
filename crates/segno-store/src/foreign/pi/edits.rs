//! pi's context edits, which hold on the branch on which they stand.
//!
//! Responsible for: turning them into ours, which hold for the whole session: whenever the current place
//! moves to another branch, what holds there is said anew. Must not: change what was said.

use super::super::emitter::{Emitter, Meta};
use segno_model::record::ContextEdit;
use segno_model::{Body, Seq};
use std::collections::BTreeSet;

/// No edit.
pub(super) const NO_EDITS: u32 = u32::MAX;

/// All edits, each with the one before it on its branch.
#[derive(Debug, Default)]
pub(super) struct Edits {
    all: Vec<(ContextEdit, u32)>,
    /// The newest one that holds in what was handed on.
    in_force: Option<u32>,
}

impl Edits {
    /// The newest edit in force.
    pub(super) fn newest(&self) -> u32 {
        self.in_force.unwrap_or(NO_EDITS)
    }

    /// Hands on an edit that follows those in force.
    pub(super) fn add(&mut self, edit: ContextEdit, meta: Meta, out: &mut Emitter<'_>) -> Seq {
        let before = self.newest();
        self.in_force = u32::try_from(self.all.len()).ok();
        self.all.push((edit.clone(), before));
        out.record(Body::ContextEdit(edit), meta)
    }

    /// Makes the edits hold that hold after `newest`.
    pub(super) fn switch(&mut self, newest: u32, meta: &Meta, out: &mut Emitter<'_>) {
        let (mut left, mut right) = (self.newest(), newest);
        let mut targets = BTreeSet::new();
        while left != right {
            // Later edits have greater numbers; `NO_EDITS` is before all of them.
            let is_left = right == NO_EDITS || (left != NO_EDITS && left > right);
            let at = if is_left { &mut left } else { &mut right };
            let Some((edit, before)) = self.all.get(*at as usize) else { break };
            targets.insert(edit.target);
            *at = *before;
        }
        self.in_force = Some(newest);
        for target in targets {
            let restore =
                || ContextEdit { target, edit: "restore".into(), ..ContextEdit::default() };
            let edit = self.newest_of(target, newest).cloned().unwrap_or_else(restore);
            out.record(Body::ContextEdit(edit), meta.clone());
        }
    }

    fn newest_of(&self, target: Seq, mut at: u32) -> Option<&ContextEdit> {
        while let Some((edit, before)) = self.all.get(at as usize) {
            if edit.target == target {
                return Some(edit);
            }
            at = *before;
        }
        None
    }
}
