//! One file that holds a session with its children.
//!
//! Responsible for: the lines in front of the parts ([`Part`]), and the id of a copy whose own is taken. Must
//! not: read or write a file. The format is `docs/format/bundle.md`.

use crate::id::{SessionId, sha256_hex};
use crate::line;
use serde::{Deserialize, Serialize};

/// The version that is written, and the newest that is read.
pub const MAJOR: u64 = 1;

/// How long a part's line may be, in bytes.
pub const MAX_LINE: u64 = 4096;

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// The first line: whose tree this is.
    Bundle,
    /// A session's log.
    Log,
    /// A large value of the session whose log came last.
    Blob,
    /// The last line: nothing is missing.
    End,
    /// Of a later version; its bytes are skipped.
    #[serde(other)]
    Unknown,
}

/// The line in front of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What follows.
    pub part: PartKind,
    /// The version of the format; in the first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major: Option<u64>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// How many bytes follow the line, before one line end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Their SHA-256; a blob's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// How many lines of parts came before; in the last line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<u64>,
}

impl Part {
    /// The first line of a tree.
    #[must_use]
    pub fn bundle(session: &SessionId) -> Self {
        let part = Self::of(PartKind::Bundle, session);
        Self { major: Some(MAJOR), ..part }
    }

    /// The line in front of bytes.
    #[must_use]
    pub fn content(part: PartKind, session: &SessionId, bytes: u64, sha256: &str) -> Self {
        let sha256 = Some(sha256.to_owned());
        Self { bytes: Some(bytes), sha256, ..Self::of(part, session) }
    }

    /// The last line.
    #[must_use]
    pub fn end(session: &SessionId, parts: u64) -> Self {
        Self { parts: Some(parts), ..Self::of(PartKind::End, session) }
    }

    fn of(part: PartKind, session: &SessionId) -> Self {
        let session = Some(session.clone());
        Self { part, major: None, session, bytes: None, sha256: None, parts: None }
    }

    /// As a line with its line end; it carries a checksum as a record does.
    #[must_use]
    pub fn line(&self) -> Vec<u8> {
        // Numbers and texts can always be written.
        let mut covered = serde_json::to_vec(self).unwrap_or_default();
        covered.pop();
        let mut line = line::sealed(covered);
        line.push(b'\n');
        line
    }

    /// From a line without its line end.
    ///
    /// # Errors
    /// Why it is none, as part of a sentence.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let (covered, stored) =
            line::split_crc(line).ok_or("the line in front of a part has no checksum")?;
        if line::checksum(covered) != stored {
            return Err("the line in front of a part is damaged".to_owned());
        }
        serde_json::from_slice(line).map_err(|e| format!("no part is described: {e}"))
    }
}

/// The id of a copy of a session whose id is taken by another one. It follows from the id and from what the
/// log holds, so that the same file never becomes two sessions.
#[must_use]
pub fn copied_id(of: &SessionId, log_sha256: &str) -> SessionId {
    let hash = sha256_hex(format!("segno copy\n{of}\n{log_sha256}").as_bytes());
    let (kept, of_hash) = (of.as_str().get(..15), hash.get(..18));
    let (Some(kept), Some(hash)) = (kept, of_hash) else { return of.clone() };
    let text = format!("{kept}{}-8{}-{}", &hash[..3], &hash[3..6], &hash[6..]);
    // Always hex in the right grouping.
    SessionId::parse(&text).unwrap_or_else(|_| of.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> SessionId {
        SessionId::parse("0195f3a0-0000-7000-8000-000000000001").unwrap()
    }

    /// The examples of the format's page are what is written. Covers: #145.
    #[test]
    fn the_page_shows_what_is_written() {
        const PAGE: &str = include_str!("../../../docs/format/bundle.md");
        let block = PAGE.split("```json bundle\n").nth(1).and_then(|b| b.split("\n```").next());
        let mut kinds = Vec::new();
        for text in block.unwrap().lines().filter(|line| line.starts_with('{')) {
            let part = Part::parse(text.as_bytes()).unwrap_or_else(|e| {
                panic!("{text}: {e}; {:08x}", line::checksum(&text.as_bytes()[..text.len() - 18]))
            });
            assert_eq!(part.line(), format!("{text}\n").as_bytes());
            kinds.push(part.part);
        }
        use PartKind::{Blob, Bundle, End, Log};
        assert_eq!(kinds, [Bundle, Log, Blob, Log, End]);
    }

    #[test]
    fn a_changed_line_is_noticed_and_an_unknown_part_is_not_refused() {
        let line = Part::content(PartKind::Blob, &id(), 5, &sha256_hex(b"hello")).line();
        let line = line.strip_suffix(b"\n").unwrap();
        assert_eq!(Part::parse(line).unwrap().bytes, Some(5));
        for at in 0..line.len() {
            let mut bent = line.to_vec();
            bent[at] ^= 1;
            assert!(Part::parse(&bent).is_err(), "byte {at}");
        }
        let mut later =
            serde_json::to_vec(&serde_json::json!({"part": "song", "bytes": 3})).unwrap();
        later.pop();
        assert_eq!(Part::parse(&line::sealed(later)).unwrap().part, PartKind::Unknown);
    }

    #[test]
    fn a_copys_id_follows_from_what_it_is() {
        let (one, other) = (copied_id(&id(), "a"), copied_id(&id(), "b"));
        assert_eq!(one, copied_id(&id(), "a"));
        assert_ne!(one, other);
        assert_ne!(one, id());
        assert_eq!(one.created_ms(), id().created_ms(), "it is as old");
        let child = SessionId::parse("5812c3f0-93aa-8f21-8c1d-000000000001").unwrap();
        assert_eq!(copied_id(&child, "a").as_str().as_bytes()[14], b'8', "and still a child's");
    }
}
