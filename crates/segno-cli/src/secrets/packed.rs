//! Texts in base64: a private key or an `.env` in a cluster's secret.
//!
//! Responsible for: what is base64 of text, how far it goes on, also over lines, and whether that text holds a
//! secret. Must not: look into pictures.

use super::makers::Alphabet;
use super::rules;
use super::scan::{is_blank, run, span};
use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use std::ops::Range;

/// So many letters of base64 in a row are a picture or a file, and nothing is looked for within.
const PICTURE: usize = 256;

/// Fewer letters hold no secret that is worth looking for.
const LEAST: usize = 32;

/// By so many letters it is seen whether they are text.
const FIRST: usize = 24;

/// Lines of base64 are not shorter.
const LINE: usize = 60;

/// What is base64 from here on.
pub(super) struct Packed {
    /// Nothing more is to be looked for before this.
    pub(super) skipped: usize,
    /// It holds a secret.
    pub(super) secret: Option<(Range<usize>, &'static str)>,
}

/// What is base64 from here on, where a word begins; looked into, or only measured.
pub(super) fn packed(text: &str, at: usize, unpacks: bool) -> Packed {
    let length = run(text, at, Alphabet::Base64, usize::MAX);
    let mut skipped = if length >= PICTURE { at + length } else { at + 1 };
    let letter = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    let begins = at.checked_sub(1).is_none_or(|before| !letter(text.as_bytes()[before]));
    if !unpacks || length < LEAST || !begins {
        return Packed { skipped, secret: None };
    }
    if !decoded(&text[at..at + FIRST]).is_some_and(|first| is_text(&first)) {
        return Packed { skipped, secret: None };
    }
    let (letters, end, full) = lines(text, at, length);
    if full > at + length {
        skipped = full;
    }
    let inside = decoded(&letters).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let label =
        inside.and_then(|inside| rules::find_in(&inside, false).first().map(|(_, label)| *label));
    Packed { skipped, secret: label.map(|label| (at..end, label)) }
}

/// The letters from here on without the ends of their lines; where they end, and where the last full line does.
fn lines(text: &str, at: usize, width: usize) -> (String, usize, usize) {
    let mut letters = text[at..at + width].to_owned();
    let (mut end, mut full) = (at + width, at + width);
    if width < LINE || !width.is_multiple_of(4) {
        return (letters, end, full);
    }
    loop {
        let line = end + span(text, end, 2, |b| b == b'\r' || b == b'\n');
        let from = line + span(text, line, LINE, is_blank);
        let length = run(text, from, Alphabet::Base64, width + 1);
        let ends = text.as_bytes().get(from + length).is_none_or(|b| b"\r\n\"' ".contains(b));
        if line == end || length == 0 || length > width || !length.is_multiple_of(4) || !ends {
            break;
        }
        letters.push_str(&text[from..from + length]);
        end = from + length;
        if length < width {
            break;
        }
        full = end;
    }
    (letters, end, full)
}

fn decoded(letters: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, CONFIG);
    let letters = letters.trim_end_matches('=');
    // One letter alone is no byte.
    let whole = letters.len() - usize::from(letters.len() % 4 == 1);
    ENGINE.decode(&letters[..whole]).ok()
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| b.is_ascii_graphic() || b" \t\r\n".contains(b))
}
