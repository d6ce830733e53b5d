//! Images as strictly as the strictest provider takes them.
//!
//! Responsible for: reading type and size off an image's own bytes, and the limits of each wire. Must not: share
//! code with what is judged; open more of an image than its header.

use super::seen::{Findings, Wire};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// An image of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    at: String,
    longest_side: u32,
    base64_bytes: usize,
}

/// Types, base64 text of one image, longest side, number of images, base64 text of all.
struct Limits(&'static [&'static str], usize, u32, usize, usize);

const MIB: usize = 1024 * 1024;
const ANY: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

fn limits(wire: Wire) -> Limits {
    match wire {
        Wire::Anthropic => Limits(ANY, 5 * MIB, 8_000, 100, 30 * MIB),
        Wire::Responses => Limits(ANY, 20 * MIB, 8_000, 500, 48 * MIB),
        Wire::Chat => Limits(&["image/png", "image/jpeg"], 20 * MIB, 8_000, 500, 48 * MIB),
        Wire::Gemini => {
            Limits(&["image/png", "image/jpeg", "image/webp"], 20 * MIB, 8_000, 500, 19 * MIB)
        }
    }
}

/// Judges one image and keeps it for [`together`].
pub(crate) fn judge(wire: Wire, media_type: &str, base64: &str, at: &str, findings: &mut Findings) {
    let Limits(types, most_bytes, most_side, ..) = limits(wire);
    if !types.contains(&media_type) {
        findings.add("image", at, format!("unsupported image type `{media_type}`"));
    }
    let Ok(bytes) = STANDARD.decode(base64) else {
        findings.add("image", at, "the image is not base64");
        return;
    };
    let Some((actual, width, height)) = header(&bytes) else {
        findings.add("image", at, "Could not process image");
        return;
    };
    if actual != media_type {
        let message = format!("the image was sent as {media_type}, but it is {actual}");
        findings.add("image", at, message);
    }
    let longest_side = width.max(height);
    if base64.len() > most_bytes {
        let message = format!("image exceeds {most_bytes} bytes: {}", base64.len());
        findings.add("image-size", at, message);
    } else if longest_side > most_side || longest_side == 0 {
        let message = format!("image dimensions exceed max allowed size: {most_side} pixels");
        findings.add("image-size", at, message);
    }
    let (at, base64_bytes) = (at.to_owned(), base64.len());
    findings.pictures.push(Picture { at, longest_side, base64_bytes });
}

/// Judges all images of a request together.
pub(crate) fn together(wire: Wire, findings: &mut Findings) {
    let Limits(_, _, _, most, most_bytes) = limits(wire);
    let pictures = std::mem::take(&mut findings.pictures);
    let bytes: usize = pictures.iter().map(|picture| picture.base64_bytes).sum();
    if pictures.len() > most || bytes > most_bytes {
        let message = format!("too many images: {} with {bytes} bytes", pictures.len());
        findings.add("image-count", "messages", message);
    }
    // The one rule of the kind that somebody documents.
    if wire == Wire::Anthropic && pictures.len() > 20 {
        for picture in pictures.iter().filter(|picture| picture.longest_side > 2_000) {
            let message =
                "image dimensions exceed max allowed size for many-image requests: 2000 pixels";
            findings.add("image-size", picture.at.clone(), message);
        }
    }
}

/// Type, width and height.
fn header(bytes: &[u8]) -> Option<(&'static str, u32, u32)> {
    let be =
        |at: usize| Some(u32::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let le =
        |at: usize| Some(u32::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let wide = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.get(12..16)? == b"IHDR" {
        return Some(("image/png", wide(16)?, wide(20)?));
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        return Some(("image/gif", le(6)?, le(8)?));
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12)? == b"WEBP" {
        let packed = |at: usize| Some(le(at)? + (u32::from(*bytes.get(at + 2)?) << 16) + 1);
        let (width, height) = match bytes.get(12..16)? {
            b"VP8X" => (packed(24)?, packed(27)?),
            b"VP8 " => (le(26)? & 0x3fff, le(28)? & 0x3fff),
            b"VP8L" => {
                let bits = le(21)? | (le(23)? << 16);
                ((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1)
            }
            _ => return None,
        };
        return Some(("image/webp", width, height));
    }
    if !bytes.starts_with(b"\xff\xd8") {
        return None;
    }
    // JPEG: segment by segment to the one that begins a frame.
    let mut at = 2;
    loop {
        let (0xff, marker) = (*bytes.get(at)?, *bytes.get(at + 1)?) else { return None };
        match marker {
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some(("image/jpeg", be(at + 7)?, be(at + 5)?));
            }
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            _ => at += 2 + be(at + 2)? as usize,
        }
    }
}
