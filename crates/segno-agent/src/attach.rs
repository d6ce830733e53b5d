//! Files that a person names with `@` in a prompt.
//!
//! Responsible for: turning `@path` words into attached blocks behind the text. Must not: change the
//! text itself, or fail: a word that names no readable file stays a word.

use base64::Engine as _;
use segno_model::record::{Block, Text};
use std::path::Path;

/// Attached text files are cut at this size; the model can read on with its tool.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// Larger images are refused by providers anyway.
const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;

/// A prompt's blocks: its text, then one block per attached file, in order, each once.
#[must_use]
pub fn expand(prompt: &str, cwd: &Path) -> Vec<Block> {
    let mut blocks = vec![Block::text(prompt)];
    let mut seen = Vec::new();
    for word in prompt.split_whitespace() {
        let Some(name) = word.strip_prefix('@').filter(|n| !n.is_empty()) else { continue };
        let name = existing(name, cwd);
        if let Some(name) = name.filter(|n| !seen.contains(n)) {
            seen.push(name);
            blocks.extend(attach(name, cwd));
        }
    }
    blocks
}

/// The name itself, or without the punctuation of the sentence around it.
fn existing<'a>(name: &'a str, cwd: &Path) -> Option<&'a str> {
    let trimmed = name.trim_end_matches([',', '.', ';', ':', '?', '!', ')', '"', '\'']);
    [name, trimmed].into_iter().find(|n| cwd.join(n).is_file())
}

fn attach(name: &str, cwd: &Path) -> Option<Block> {
    let bytes = std::fs::read(cwd.join(name)).ok()?;
    if let Some(media_type) = image_type(&bytes) {
        if bytes.len() > MAX_IMAGE_BYTES {
            return Some(Block::text(format!("[{name}: an image that is too large to attach]")));
        }
        let data = Text::Inline(base64::engine::general_purpose::STANDARD.encode(&bytes));
        return Some(Block::Image { media_type: media_type.to_owned(), data });
    }
    if bytes.contains(&0) {
        return Some(Block::text(format!("[{name}: a binary file of {} bytes]", bytes.len())));
    }
    let cut = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
    let text = String::from_utf8_lossy(cut);
    let note = if cut.len() < bytes.len() {
        format!("\n[cut after {MAX_TEXT_BYTES} of {} bytes]", bytes.len())
    } else {
        String::new()
    };
    Some(Block::text(format!("<file path=\"{name}\">\n{text}{note}\n</file>")))
}

/// The image type by its first bytes.
pub(crate) fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_blocks() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("a.txt"), "hello").expect("written");
        std::fs::write(dir.path().join("b.png"), [0x89, b'P', b'N', b'G', 0]).expect("written");
        std::fs::write(dir.path().join("c.bin"), [1, 0, 2]).expect("written");
        let cases = [
            ("plain words", ""),
            ("mail me@example.com", ""),
            ("see @missing.txt", ""),
            ("see @a.txt", "text a.txt"),
            ("see @a.txt, and (@a.txt) too", "text a.txt"),
            ("look at @b.png!", "image/png"),
            ("@c.bin?", "[c.bin: a binary file of 3 bytes]"),
            ("@a.txt @b.png", "text a.txt, image/png"),
        ];
        for (prompt, expected) in cases {
            let blocks = expand(prompt, dir.path());
            assert_eq!(blocks[0], Block::text(prompt));
            let shown: Vec<String> = blocks[1..].iter().map(show).collect();
            assert_eq!(shown.join(", "), expected, "{prompt}");
        }
    }

    fn show(block: &Block) -> String {
        match block {
            Block::Image { media_type, .. } => media_type.clone(),
            Block::Text { text } if text.head().contains("hello") => "text a.txt".to_owned(),
            Block::Text { text } => text.head().to_owned(),
            Block::Unknown => "unknown".to_owned(),
        }
    }
}
