//! Long output: what the model sees of it, and what is kept.
//!
//! Responsible for: bounded collection (beginning and end) and the cut for the model. Must not: know
//! where output comes from.

use std::collections::VecDeque;

/// How much of the beginning is shown to the model.
pub(crate) const SHOWN_HEAD: usize = 10 << 10;
/// How much of the end is shown to the model.
pub(crate) const SHOWN_TAIL: usize = 20 << 10;
/// How much of the beginning is kept at most; as much again of the end.
const KEPT_HALF: usize = 16 << 20;

/// The text for the model, and the whole bytes where the text is not all of it.
pub(crate) fn cut_text(bytes: &[u8]) -> (String, Option<Vec<u8>>) {
    let mut collected = Collected::new();
    collected.push(bytes);
    collected.finish()
}

/// Output as it is collected.
#[derive(Debug)]
pub(crate) struct Collected {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
    half: usize,
}

impl Collected {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self::with_half(KEPT_HALF)
    }

    fn with_half(half: usize) -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), dropped: 0, half }
    }

    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = (self.half - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend(&bytes[room..]);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
        self.dropped += over as u64;
    }

    /// Bytes that are gone; what was kept behind the beginning before them is given up too.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.dropped += bytes + self.tail.len() as u64;
        self.tail.clear();
    }

    /// The text for the model, and the whole bytes where the text is not all of it.
    pub(crate) fn finish(self) -> (String, Option<Vec<u8>>) {
        let mut whole = self.head;
        if self.dropped > 0 {
            let note = format!("\n[… {} bytes were not kept …]\n", self.dropped);
            whole.extend_from_slice(note.as_bytes());
        }
        whole.extend(self.tail);
        let text = String::from_utf8_lossy(&whole);
        match cut(&text) {
            Some(cut) => (cut, Some(whole)),
            None if matches!(text, std::borrow::Cow::Owned(_)) => {
                (format!("{text}\n[bytes that are not UTF-8 are shown as \u{fffd}]"), Some(whole))
            }
            None => (text.into_owned(), None),
        }
    }
}

/// Beginning and end of a long text with a note between; none when it is short.
fn cut(text: &str) -> Option<String> {
    if text.len() <= SHOWN_HEAD + SHOWN_TAIL {
        return None;
    }
    let head_end = text.floor_char_boundary(SHOWN_HEAD);
    let head_end = text[..head_end].rfind('\n').map_or(head_end, |at| at + 1);
    let tail_start = text.ceil_char_boundary(text.len() - SHOWN_TAIL);
    let tail_start = text[tail_start..].find('\n').map_or(tail_start, |at| tail_start + at + 1);
    let tail_start = if tail_start == text.len() {
        text.ceil_char_boundary(text.len() - SHOWN_TAIL)
    } else {
        tail_start
    };
    let hidden = &text[head_end..tail_start];
    let lines = hidden.matches('\n').count();
    Some(format!(
        "{}\n[… {} bytes ({lines} lines) are not shown; the whole output is kept in the session. Narrow the command, or send its output to a file and read parts of it …]\n{}",
        &text[..head_end],
        hidden.len(),
        &text[tail_start..],
    ))
}

/// Turns chunks of bytes into text without breaking characters apart.
#[derive(Debug, Default)]
pub(crate) struct Utf8Stream {
    rest: Vec<u8>,
}

impl Utf8Stream {
    /// The text that is complete after these bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let keep = incomplete_end(&self.rest);
        let complete = self.rest.len() - keep;
        let text = String::from_utf8_lossy(&self.rest[..complete]).into_owned();
        self.rest.drain(..complete);
        text
    }
}

/// How many bytes at the end begin a character that is not whole yet.
fn incomplete_end(bytes: &[u8]) -> usize {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(3)..]) {
        Ok(_) => 0,
        Err(_) => (1..=bytes.len().min(3))
            .find(|n| {
                let end = &bytes[bytes.len() - n..];
                end[0] & 0xc0 == 0xc0
                    && std::str::from_utf8(end).is_err_and(|e| e.error_len().is_none())
            })
            .unwrap_or(0),
    }
}
