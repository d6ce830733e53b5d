//! Sessions that are one JSON value: an array that was cut, or has something in it or behind it that is no JSON.
//!
//! Responsible for: which stretches of such a file are kept, and what stands between them. Must not: look into an
//! element, or hold more than one.

use super::draft::{At, Draft, Fate};
use super::error::RescueError;
use super::json::spliced;
use super::rule::Rule;
use super::{Dialect, Source, UNREADABLE};
use crate::foreign::Item;
use crate::foreign::array::Pieces;
use crate::foreign::emitter::Emitter;
use serde::de::IgnoredAny;
use std::io::{self, Read as _, Write};
use std::ops::{ControlFlow, Range};

/// A stretch of the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stretch {
    /// As it stands in the file.
    Kept(Range<u64>),
    /// Something else.
    Text(String),
}

/// What is between two pieces is this long at most; a longer gap holds something that is lost.
const GAP: u64 = 4 << 10;

/// The stretches of the result, and of what is set aside. None: nothing has to change.
pub(super) type Stretches = Option<(Vec<Stretch>, Vec<Range<u64>>)>;

struct Found {
    span: Range<u64>,
    /// Whether it is an element of a member's array.
    inner: bool,
    /// Its text where that is not what stands there.
    text: Option<String>,
}

/// Looks at the whole value.
pub(super) fn stretches(
    source: &Source,
    dialect: &mut Dialect<'_>,
    draft: &mut Draft,
) -> Result<Stretches, RescueError> {
    let mut trouble: Vec<(&'static str, At)> = Vec::new();
    let mut pieces: Vec<Found> = Vec::new();
    {
        let mut sink = |item| {
            if let Item::Finding(found) = item {
                let (line, offset) = (found.line.unwrap_or(1), found.offset.unwrap_or(0));
                trouble.push((found.code, At { line, offset, object: 0 }));
            }
            ControlFlow::Continue(())
        };
        let mut out = Emitter::new(&mut sink);
        let path = source.path();
        Pieces::open(path, &["messages"])?.each("", &mut out, |piece, _| {
            if serde_json::from_str::<IgnoredAny>(piece.json).is_err() {
                return Ok(false);
            }
            let start = piece.origin.offset.unwrap_or(0);
            let text = (piece.raw != piece.json.as_bytes()).then(|| piece.json.to_owned());
            let span = start..start + piece.raw.len() as u64;
            if piece.index.is_some() {
                let line = piece.origin.line.unwrap_or(1);
                let at = At { line, offset: start, object: pieces.len() };
                dialect.take(&at, piece.json, draft);
            }
            pieces.push(Found { span, inner: piece.key.is_some() && piece.index.is_some(), text });
            Ok(true)
        })?;
    }
    trouble.retain(|(code, _)| UNREADABLE.iter().any(|(known, ..)| known == code));
    let is_marked = source.starts_with(b"\xEF\xBB\xBF")?;
    dialect.finish(draft);
    change(source, &mut pieces, draft).map_err(RescueError::write)?;
    if trouble.is_empty() && !is_marked && draft.edits.is_empty() {
        return Ok(None);
    }
    for (code, at) in &trouble {
        if let Some((_, rule, what)) = UNREADABLE.iter().find(|(known, ..)| known == code) {
            draft.tell(*rule, Some(at), *what);
        }
    }
    if is_marked {
        draft.tell(Rule::ByteOrderMark, None, "a byte order mark stands before the value");
    }
    let (kept, mut aside) =
        lay_out(source, &pieces, &trouble, is_marked).map_err(RescueError::write)?;
    aside.extend(as_they_were(&pieces, draft));
    aside.sort_by_key(|span| span.start);
    Ok(Some((kept, aside)))
}

/// What the agent's rules change in elements.
fn change(source: &Source, pieces: &mut [Found], draft: &Draft) -> io::Result<()> {
    for (n, fate) in draft.edits.values().flat_map(|edit| &edit.objects) {
        let (Some(piece), Fate::Spliced(splices)) = (pieces.get_mut(*n), fate) else { continue };
        let mut text = match piece.text.take() {
            Some(text) => text,
            None => {
                let mut bytes = Vec::new();
                copy(source, &piece.span, &mut bytes)?;
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        text = spliced(&text, splices);
        piece.text = Some(text);
    }
    Ok(())
}

/// Elements that cannot be kept as they were.
fn as_they_were<'a>(
    pieces: &'a [Found],
    draft: &'a Draft,
) -> impl Iterator<Item = Range<u64>> + use<'a> {
    let edits = draft.edits.values().filter(|edit| edit.set_aside);
    let elements = edits.flat_map(|edit| edit.objects.keys());
    elements.filter_map(|n| Some(pieces.get(*n)?.span.clone()))
}

fn lay_out(
    source: &Source,
    pieces: &[Found],
    trouble: &[(&'static str, At)],
    is_marked: bool,
) -> io::Result<(Vec<Stretch>, Vec<Range<u64>>)> {
    let (mut kept, mut aside) = (Vec::new(), Vec::new());
    let is_object = source.opens_with(b'{')?;
    let mut at = if is_marked { 3 } else { 0 };
    let in_gap = |gap: &Range<u64>| {
        trouble.iter().any(|(code, at)| is_in_gap(code) && gap.contains(&at.offset))
    };
    for (n, piece) in pieces.iter().enumerate() {
        let gap = at..piece.span.start;
        if gap.end - gap.start > GAP || in_gap(&gap) {
            let opening = if is_object { "{" } else { "[" };
            kept.push(Stretch::Text(if n == 0 { opening } else { "," }.to_owned()));
            aside.push(gap);
        } else {
            kept.push(Stretch::Kept(gap));
        }
        kept.push(match &piece.text {
            Some(text) => Stretch::Text(text.clone()),
            None => Stretch::Kept(piece.span.clone()),
        });
        at = piece.span.end;
    }
    let end = source.bytes();
    let closed =
        trouble.iter().find(|(code, _)| *code == "trailing-bytes").map(|(_, at)| at.offset);
    let is_cut = trouble.iter().any(|(code, at_cut)| *code == "torn-array" && at_cut.offset >= at);
    let rest = at..closed.unwrap_or(end);
    if is_cut || in_gap(&rest) {
        let closing = match (is_object, pieces.last().is_some_and(|piece| piece.inner)) {
            (false, _) => "]",
            (true, true) => "]}",
            (true, false) => ",\"messages\":[]}",
        };
        let opening = match (pieces.is_empty(), is_object) {
            (false, _) => "",
            (true, true) => "{\"messages\":[]}",
            (true, false) => "[]",
        };
        let text = if pieces.is_empty() { opening } else { closing };
        kept.push(Stretch::Text(text.to_owned()));
        aside.push(at..end);
    } else {
        kept.push(Stretch::Kept(rest));
        aside.extend(closed.map(|closed| closed..end));
    }
    Ok((kept, aside))
}

/// Whether a finding is about what stands between two pieces.
fn is_in_gap(code: &str) -> bool {
    matches!(code, "torn-element" | "stray-bracket" | "oversize-line")
}

/// Writes them.
pub(super) fn write(
    source: &Source,
    (kept, set_aside): &(Vec<Stretch>, Vec<Range<u64>>),
    result: &mut dyn Write,
    aside: &mut dyn Write,
) -> io::Result<()> {
    for stretch in kept {
        match stretch {
            Stretch::Text(text) => result.write_all(text.as_bytes())?,
            Stretch::Kept(span) => copy(source, span, result)?,
        }
    }
    for span in set_aside {
        copy(source, span, aside)?;
        aside.write_all(b"\n")?;
    }
    result.flush()?;
    aside.flush()
}

fn copy(source: &Source, span: &Range<u64>, to: &mut dyn Write) -> io::Result<()> {
    io::copy(&mut source.from(span.start)?.take(span.end - span.start), to).map(drop)
}
