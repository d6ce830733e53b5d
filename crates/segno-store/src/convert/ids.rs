//! Ids of what is made, out of what it is made from.
//!
//! Responsible for: that the same session, converted to the same target, has the same ids each time, and a
//! session that grew has others: so an installed copy is found again without a list of copies. Must not:
//! draw random numbers.

use super::Session;
use crate::foreign::Agent;
use segno_model::{Body, Timestamp};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The id of `session` as `target`'s: it follows from the session's source, id, current node and everything
/// said in it and in its subagents' sessions. A name or a setting changes nothing.
#[must_use]
pub fn new_id(session: &Session, target: Agent) -> String {
    let ids = Ids::new(&format!("{}\n{}", target.id(), fingerprint(session)));
    match target {
        // These sort by the time in their ids.
        Agent::Codex | Agent::Pi => ids.timed("session", 0, session.began()),
        Agent::OpenCode => format!("ses_{}", ids.hex("session", 0, 26)),
        _ => ids.named("session", 0),
    }
}

/// The longest id of a call that Chat Completions takes.
const MOST_CALL: usize = 40;

/// The id of a call as every provider takes it: a long one is shortened, and stays another than others.
pub(super) fn call_id(id: &str) -> String {
    if id.len() <= MOST_CALL {
        return id.to_owned();
    }
    let begin: String = id.chars().filter(char::is_ascii).take(MOST_CALL - 17).collect();
    format!("{begin}_{}", Ids::new(id).hex("call", 0, 16))
}

/// SHA-256 over what is said in a session, and where it stands.
fn fingerprint(session: &Session) -> String {
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    };
    for text in [&session.source, &session.id, &format!("{:?}", session.tip)] {
        add(text);
    }
    for record in &session.records {
        if record.is_node() || matches!(record.body(), Body::ContextEdit(_)) {
            add(&format!("{} {:?}", record.seq(), record.envelope.parent));
            add(&record.body().to_json().unwrap_or_default());
        }
    }
    for (seq, piece) in
        session.pieces.iter().flat_map(|(seq, all)| all.iter().map(move |p| (seq, p)))
    {
        add(&format!("{seq} {} {}", piece.at, piece.json.get()));
    }
    for child in &session.children {
        add(&fingerprint(&child.session));
    }
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Ids that follow from a seed.
pub(super) struct Ids {
    seed: String,
}

impl Ids {
    pub(super) fn new(seed: &str) -> Self {
        Self { seed: seed.to_owned() }
    }

    /// 32 bytes for the `n`th thing of a kind.
    pub(super) fn bytes(&self, kind: &str, n: u64) -> [u8; 32] {
        Sha256::digest(format!("{}\n{kind}\n{n}", self.seed)).into()
    }

    /// `len` hex digits, at most 64.
    pub(super) fn hex(&self, kind: &str, n: u64, len: usize) -> String {
        let mut text = hex(&self.bytes(kind, n));
        text.truncate(len);
        text
    }

    /// A UUID. It says that it is one of version 5 (made from a name): programs that check know those.
    pub(super) fn named(&self, kind: &str, n: u64) -> String {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.bytes(kind, n)[..16]);
        uuid::Builder::from_sha1_bytes(bytes).into_uuid().hyphenated().to_string()
    }

    /// A UUID of version 7 for a moment.
    pub(super) fn timed(&self, kind: &str, n: u64, at: Timestamp) -> String {
        let mut rest = [0; 10];
        rest.copy_from_slice(&self.bytes(kind, n)[..10]);
        let millis = u64::try_from(at.0).unwrap_or(0);
        let uuid: Uuid = uuid::Builder::from_unix_timestamp_millis(millis, &rest).into_uuid();
        uuid.hyphenated().to_string()
    }
}
