//! `read`: text with line numbers, or an image.
//!
//! Responsible for: showing a file within fixed bounds and saying what was left out and how to go on.
//! Must not: hold more of a huge file than it shows.

use super::error::ToolError;
use super::walk::{Cancel, Watched};
use super::workspace::Workspace;
use base64::Engine;
use segno_model::record::{Block, Text};
use segno_runtime::ToolOutput;
use serde::Deserialize;
use std::fmt::Write;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;

/// How many lines are shown at most.
pub(crate) const MAX_LINES: usize = 2000;
/// How many bytes of text are shown at most.
pub(crate) const MAX_BYTES: usize = 64 << 10;
/// How many bytes of one line are shown at most.
pub(crate) const MAX_LINE: usize = 2000;
/// How large an image may be; what a provider takes of it is made for each request.
pub(crate) const MAX_IMAGE: u64 = 20 * 1024 * 1024;
/// How much of a file is looked at to tell text from binary.
const SNIFF: usize = 8192;

/// The arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(crate) path: String,
    pub(crate) offset: Option<u64>,
    pub(crate) limit: Option<u64>,
}

/// Reads a file.
pub(crate) fn run(
    workspace: &Workspace,
    args: &Args,
    cancel: &Cancel,
) -> Result<ToolOutput, ToolError> {
    let path = workspace.resolve(&args.path)?;
    let shown = workspace.show(&path);
    let io = |source| ToolError::Io { path: shown.clone(), source };
    let meta = std::fs::metadata(&path).map_err(io)?;
    if meta.is_dir() {
        return Err(ToolError::Refused(format!(
            "{shown} is a directory; `ls` lists it and `find` searches it"
        )));
    }
    if !meta.is_file() {
        return Err(ToolError::Refused(format!("{shown} is not a regular file")));
    }
    let mut file = File::open(&path).map_err(io)?;
    let mut head = Vec::new();
    file.by_ref().take(SNIFF as u64).read_to_end(&mut head).map_err(io)?;
    if let Some(media_type) = image_type(&head) {
        return image(&path, &shown, media_type, meta.len());
    }
    if head.contains(&0) {
        return Err(ToolError::Refused(format!(
            "{shown} is a binary file ({} bytes); look into it with a program, for example `file` or `xxd`",
            meta.len()
        )));
    }
    file.rewind().map_err(io)?;
    let reader = BufReader::new(Watched { inner: file, cancel });
    let text = text(reader, args, &shown, meta.len());
    cancel.check()?;
    text.map_err(io).map(ToolOutput::done)
}

/// What kind of image the bytes begin, if one that models take.
fn image_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn image(path: &Path, shown: &str, media_type: &str, size: u64) -> Result<ToolOutput, ToolError> {
    if size > MAX_IMAGE {
        return Err(ToolError::Refused(format!(
            "{shown} is an image of {size} bytes; at most {MAX_IMAGE} can be shown. Make a smaller copy first."
        )));
    }
    let bytes =
        std::fs::read(path).map_err(|source| ToolError::Io { path: shown.to_owned(), source })?;
    let data = base64::engine::general_purpose::STANDARD.encode(&bytes);
    let mut output = ToolOutput::done(format!("{shown}: {media_type}, {} bytes", bytes.len()));
    let (media_type, data) = (media_type.to_owned(), Text::Inline(data));
    output.content.push(Block::Image { media_type, data });
    Ok(output)
}

/// What was noticed while lines were read.
#[derive(Default)]
struct Seen {
    lines: u64,
    crlf: bool,
    lossy: bool,
    bom: bool,
    cut_lines: u64,
    more: bool,
}

fn text(mut reader: impl BufRead, args: &Args, shown: &str, size: u64) -> std::io::Result<String> {
    let first = args.offset.unwrap_or(1).max(1);
    let limit = args.limit.unwrap_or(MAX_LINES as u64).min(MAX_LINES as u64).max(1);
    let (mut out, mut seen) = (String::new(), Seen::default());
    while let Some((line, length)) = next_line(&mut reader)? {
        if seen.lines >= first.saturating_add(limit - 1) || out.len() > MAX_BYTES {
            seen.more = true;
            break;
        }
        seen.lines += 1;
        if seen.lines >= first {
            push_line(&mut out, &mut seen, line, length);
        }
    }
    if size == 0 {
        return Ok(format!("({shown} is empty)"));
    }
    if out.is_empty() {
        let lines = seen.lines;
        return Ok(format!("({shown} has {lines} lines; there is no line {first})"));
    }
    out.push_str(&notes(&seen, size));
    Ok(out)
}

/// The next line without its ending, at most a bounded part of it, and its whole length.
fn next_line(reader: &mut impl BufRead) -> std::io::Result<Option<(Vec<u8>, usize)>> {
    let (mut line, mut length) = (Vec::new(), 0);
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok((length > 0).then_some((line, length)));
        }
        let end = memchr::memchr(b'\n', buffer);
        let taken = end.map_or(buffer.len(), |at| at + 1);
        // One character more than is shown, so that the cut can fall between characters.
        let room = (MAX_LINE + 4).saturating_sub(line.len()).min(taken);
        line.extend_from_slice(&buffer[..room]);
        length += taken;
        reader.consume(taken);
        if end.is_some() {
            return Ok(Some((line, length)));
        }
    }
}

fn push_line(out: &mut String, seen: &mut Seen, mut line: Vec<u8>, length: usize) {
    let cut = length > MAX_LINE + 2;
    if seen.lines == 1 && line.starts_with("\u{feff}".as_bytes()) {
        line.drain(..3);
        seen.bom = true;
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
            seen.crlf = true;
        }
    }
    if cut {
        line.truncate((0..=MAX_LINE).rev().find(|at| starts_character(&line, *at)).unwrap_or(0));
        seen.cut_lines += 1;
    }
    let text = String::from_utf8_lossy(&line);
    seen.lossy |= matches!(text, std::borrow::Cow::Owned(_));
    let tail = if cut { format!(" … (line of {length} bytes, cut)") } else { String::new() };
    let _ = writeln!(out, "{:>6}\t{text}{tail}", seen.lines);
}

/// Whether a character can begin at a byte offset.
fn starts_character(line: &[u8], at: usize) -> bool {
    line.get(at).is_none_or(|b| b & 0xc0 != 0x80)
}

fn notes(seen: &Seen, size: u64) -> String {
    let mut notes = Vec::new();
    if seen.more {
        notes.push(format!(
            "the file ({size} bytes) goes on; continue with offset {}",
            seen.lines + 1
        ));
    }
    if seen.cut_lines > 0 {
        notes.push(format!("{} long lines were cut", seen.cut_lines));
    }
    if seen.crlf {
        notes.push("lines end in CRLF; `edit` keeps that".to_owned());
    }
    if seen.bom {
        notes.push("the file begins with a byte order mark; `edit` keeps it".to_owned());
    }
    if seen.lossy {
        notes.push("bytes that are not UTF-8 are shown as \u{fffd}".to_owned());
    }
    notes.into_iter().map(|note| format!("({note})\n")).collect()
}
