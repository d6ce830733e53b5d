//! What a summary keeps, for formats that can only keep the end of what stands before it.
//!
//! Responsible for: where that end begins, and the rest as text that stands with the summary. Must not: know a
//! target.

use super::transcript::{Part, Piece, Reply, Said, Transcript, Turn, text_of};
use super::{LossKind, Losses};
use std::collections::HashSet;

/// What a summary keeps, in two parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// The first turn of the end that is kept as it is; none when nothing right before the summary is.
    pub(super) from: Option<usize>,
    /// What else is kept, in order: to be told with the summary.
    pub(super) told: Vec<usize>,
}

impl Kept {
    /// Parts what the summary `at` keeps. The end goes up to an older summary, or `past` it in formats that send
    /// only the newest one.
    pub(super) fn of(transcript: &Transcript, at: usize, past: bool) -> Self {
        let Some(Turn { said: Said::Compaction { kept, .. }, parent, .. }) =
            transcript.turns.get(at)
        else {
            return Self::default();
        };
        let set: HashSet<usize> = kept.iter().copied().collect();
        let mut end = Self::default();
        let mut run = HashSet::new();
        let mut above = *parent;
        while let Some((turn, said)) = above.and_then(|at| Some((at, transcript.turns.get(at)?))) {
            let is_summary = matches!(said.said, Said::Compaction { .. });
            if set.contains(&turn) {
                run.insert(turn);
                end.from = Some(turn);
            } else if !(is_summary && past) {
                break;
            }
            above = said.parent;
        }
        end.told = kept.iter().copied().filter(|turn| !run.contains(turn)).collect();
        end
    }

    /// The summary with what has to be told beside it.
    pub(super) fn told_with(
        &self,
        summary: &str,
        transcript: &Transcript,
        losses: &mut Losses,
    ) -> String {
        let mut text = summary.to_owned();
        let told = self.told.iter().filter_map(|at| transcript.turns.get(*at));
        for (n, turn) in told.enumerate() {
            losses.of(LossKind::Kept, turn.seq);
            if n == 0 {
                text.push_str("\n\nKept word for word from before this summary:");
            }
            text.push_str("\n\n");
            text.push_str(&words(turn));
        }
        text
    }
}

/// A turn as plain text.
fn words(turn: &Turn) -> String {
    match &turn.said {
        Said::User { parts, notice: None } => format!("The user: {}", said(parts)),
        Said::User { parts, notice: Some(_) } => format!("Told to the assistant: {}", said(parts)),
        Said::BranchSummary { framed, .. } => framed.clone(),
        Said::Compaction { summary, .. } => format!("An older summary: {summary}"),
        Said::Reply(reply) => replied(reply),
    }
}

fn replied(reply: &Reply) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => Some(format!("The assistant: {text}")),
        Piece::Thinking { .. } | Piece::Raw(_) => None,
        Piece::Call(call) => {
            let arguments = serde_json::Value::from(call.arguments.clone());
            let result = said(&call.answer.parts);
            Some(format!("The assistant called {} {arguments}\nIts result: {result}", call.name))
        }
    };
    reply.pieces.iter().filter_map(piece).collect::<Vec<_>>().join("\n\n")
}

fn said(parts: &[Part]) -> String {
    let images = parts.iter().filter(|part| matches!(part, Part::Image { .. })).count();
    let others = parts.iter().filter(|part| part.is_media()).count() - images;
    let mut text = text_of(parts);
    for (count, what) in [(images, "image(s)"), (others, "document(s)")] {
        if count > 0 {
            text.push_str(&format!("\n({count} {what})"));
        }
    }
    text
}
