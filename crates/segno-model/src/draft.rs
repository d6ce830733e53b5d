//! The draft of a reply: what was streamed so far, in chunks.
//!
//! Responsible for: the bytes of a draft (`docs/format/draft.md`). Must not: decide whether a draft is taken
//! over (its request must have no answer), or do I/O.

use crate::id::Seq;
use crate::line::{checksum, crc_tail, split_crc};
use crate::store::DraftText;
use serde::{Deserialize, Serialize};

/// How much text one chunk holds, in bytes.
pub const CHUNK_BYTES: usize = 32 * 1024;

#[derive(Serialize, Deserialize)]
struct Chunk {
    request: Seq,
    part: u64,
    text: String,
}

/// The lines of one more piece of text of the reply to `request`; `part` counts the chunks so far, and is
/// counted on.
#[must_use]
pub fn encode(request: Seq, part: &mut u64, text: &str) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut cut = CHUNK_BYTES.min(rest.len());
        while !rest.is_char_boundary(cut) {
            cut -= 1;
        }
        let (text, behind) = rest.split_at(cut);
        rest = behind;
        let chunk = Chunk { request, part: *part, text: text.to_owned() };
        // Three plain members always make JSON.
        let Ok(mut line) = serde_json::to_vec(&chunk) else { continue };
        line.pop();
        let crc = checksum(&line);
        lines.extend(line);
        lines.extend(crc_tail(crc));
        lines.push(b'\n');
        *part += 1;
    }
    lines
}

/// What a draft's bytes hold, up to the first damage; nothing when not even the beginning is intact.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<DraftText> {
    let mut draft: Option<DraftText> = None;
    for (part, line) in (0..).zip(bytes.split_inclusive(|b| *b == b'\n')) {
        let chunk = line.strip_suffix(b"\n").and_then(chunk);
        let next = chunk.filter(|chunk| {
            chunk.part == part && draft.as_ref().is_none_or(|d| d.request == chunk.request)
        });
        let Some(chunk) = next else {
            return draft.map(|draft| DraftText { damaged: true, ..draft });
        };
        draft
            .get_or_insert_with(|| DraftText { request: chunk.request, ..DraftText::default() })
            .text
            .push_str(&chunk.text);
    }
    draft
}

fn chunk(line: &[u8]) -> Option<Chunk> {
    let (covered, crc) = split_crc(line)?;
    if checksum(covered) != crc {
        return None;
    }
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/format/draft.md");

    fn written(pieces: &[&str]) -> Vec<u8> {
        let mut part = 0;
        pieces.iter().flat_map(|text| encode(9, &mut part, text)).collect()
    }

    /// Covers: G13.
    #[test]
    fn the_pages_example_is_what_is_written() {
        let example = PAGE.split("```jsonl\n").nth(1).and_then(|b| b.split("```").next()).unwrap();
        assert_eq!(String::from_utf8(written(&["The loop ", "has no \"end\"."])).unwrap(), example);
        let text = "The loop has no \"end\".".to_owned();
        assert_eq!(
            decode(example.as_bytes()),
            Some(DraftText { request: 9, text, damaged: false })
        );
    }

    /// Cut anywhere, and with any byte changed, it gives a beginning of the text, and says when there was
    /// more. Covers: G4, #124.
    #[test]
    fn damage_costs_what_stands_behind_it_and_nothing_else() {
        let whole = "ein zwei drei 漢字 😀 \n end";
        let bytes = written(&["ein zwei ", "drei 漢字", " 😀 \n", " end"]);
        for cut in 0..=bytes.len() {
            let found = decode(&bytes[..cut]).unwrap_or_default();
            assert!(whole.starts_with(&found.text), "{cut}: {found:?}");
            let mut changed = bytes.clone();
            if let Some(byte) = changed.get_mut(cut) {
                *byte ^= 4;
                let found = decode(&changed).unwrap_or_default();
                assert!(whole.starts_with(&found.text), "{cut}: {found:?}");
                assert!(found.text.len() < whole.len(), "{cut}: {found:?}");
            }
        }
        assert_eq!(decode(&[0; 64]), None);
        assert_eq!(decode(b""), None);
    }

    /// What another request left behind is not mixed in.
    #[test]
    fn chunks_of_two_requests_are_not_joined() {
        let mut bytes = written(&["one "]);
        bytes.extend(encode(12, &mut 1, "two"));
        let expected = DraftText { request: 9, text: "one ".to_owned(), damaged: true };
        assert_eq!(decode(&bytes), Some(expected));
    }

    #[test]
    fn long_texts_are_cut_into_chunks_between_characters() {
        let long = "é".repeat(CHUNK_BYTES);
        let bytes = written(&[&long]);
        assert!(bytes.split(|b| *b == b'\n').all(|line| line.len() < 2 * CHUNK_BYTES));
        assert_eq!(decode(&bytes).unwrap().text, long);
    }
}
