//! Subagents: who a child is, what a call of it came to, and whether it may be continued.
//!
//! Responsible for: the pure part of section 8 of the design. Child ids follow from the parent's intent; a
//! launch record is built, read and compared ([`launch`], [`drift`]); a history in which pairing would be
//! guessing is found ([`unpairable`]); attempts are read off a parent's records. Must not: look at files,
//! processes or a model; facts come in.

pub mod drift;
pub mod launch;
pub mod unpairable;

pub use launch::{Unusable, launch_of, parse_launch, system_sha256};

use crate::id::{Seq, SessionId, sha256_hex};
use crate::line::Record;
use crate::record::{Attempt, Body, Header, LaunchRecord, Usage};
use std::collections::HashSet;

/// How long an attempt's `detail` may be, in characters.
pub const MAX_DETAIL: usize = 300;

/// A child's id: it follows from the call that launches it, so that a crash between the intent and the
/// launch never makes two. The call is a record of the parent and which of its calls, from 0.
#[must_use]
pub fn child_id(parent: &SessionId, call_seq: Seq, index: usize) -> SessionId {
    let mut hex = sha256_hex(format!("segno child\n{parent}\n{call_seq}\n{index}").as_bytes());
    hex.truncate(32);
    // A UUID whose bits mean nothing: version 8.
    hex.replace_range(12..13, "8");
    hex.replace_range(16..17, "8");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    // Always hex in the right grouping; the parent's own id could only stand here if it were not.
    SessionId::parse(&parts.join("-")).unwrap_or_else(|_| parent.clone())
}

/// Below which session a session with this header lies.
#[must_use]
pub fn parent_of(header: &Header) -> Option<SessionId> {
    SessionId::parse(header.launch.as_ref()?.get("parent")?.as_str()?).ok()
}

/// The name of the role that a session with this header was launched with.
#[must_use]
pub fn role_of(header: &Header) -> Option<&str> {
    header.launch.as_ref()?.pointer("/role/name")?.as_str()
}

/// An attempt's id in its parent ([`Attempt::id`]).
#[must_use]
pub fn attempt_id(call_seq: Seq, index: usize) -> String {
    format!("{call_seq}.{index}")
}

/// The ids that a child may have in the logs of these sessions, its owner's and those that that was forked from:
/// those that its call gave it there. None when its own is one of them: only a copy that got another id, because its
/// own was taken where it was brought in, is named otherwise.
#[must_use]
pub fn stands_for(launch: &LaunchRecord, owners: &[SessionId]) -> Vec<SessionId> {
    let intent = launch.intent.split_once('.');
    let intent = intent.and_then(|(seq, index)| Some((seq.parse().ok()?, index.parse().ok()?)));
    let Some((seq, index)) = intent else { return Vec::new() };
    let named: Vec<SessionId> = owners.iter().map(|owner| child_id(owner, seq, index)).collect();
    if named.contains(&launch.child) { Vec::new() } else { named }
}

/// The id under which an attempt's prompt stands in the child's log: by it the attempt is found again.
#[must_use]
pub fn input_id(parent: &SessionId, attempt: &str) -> String {
    format!("task:{parent}:{attempt}")
}

/// A text as an attempt's `detail`: whole characters, at most [`MAX_DETAIL`].
#[must_use]
pub fn detail(text: &str) -> String {
    if text.chars().count() <= MAX_DETAIL {
        return text.to_owned();
    }
    let cut: String = text.chars().take(MAX_DETAIL - 1).collect();
    format!("{cut}…")
}

/// The attempts that a parent's records tell of, oldest first, each once.
#[must_use]
pub fn attempts<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<&'a Attempt> {
    let mut seen = HashSet::new();
    let told = records.into_iter().filter_map(|record| match record.body() {
        Body::Child(child) => child.attempt.as_deref(),
        _ => None,
    });
    told.filter(|attempt| seen.insert(attempt.id.as_str())).collect()
}

/// Tokens as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// The known part.
    pub usage: Usage,
    /// Whether there is more that nobody knows.
    pub incomplete: bool,
}

impl Used {
    /// Input and output in one phrase, `≥` before what is not all.
    #[must_use]
    pub fn phrase(&self) -> String {
        let Usage { input, output, cache_read, cache_write, .. } = self.usage;
        let at_least = if self.incomplete { "≥ " } else { "" };
        let input = input.saturating_add(cache_read).saturating_add(cache_write);
        format!("{at_least}{input} tokens in, {at_least}{output} out")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{AttemptStatus, Child, ChildState};

    fn parent() -> SessionId {
        SessionId::parse("0195f3a0-0000-7000-8000-000000000001").unwrap()
    }

    fn child(json: &str) -> Option<Attempt> {
        let text = format!(r#"{{"call_id":"c","state":"ended","attempt":{json}}}"#);
        serde_json::from_str::<Child>(&text).unwrap().attempt.map(|attempt| *attempt)
    }

    /// The same call gives the same child, another call another one. Covers: TR12.
    #[test]
    fn a_child_follows_from_its_call() {
        let ids: Vec<_> = (0..200)
            .flat_map(|n| [child_id(&parent(), n, 0), child_id(&parent(), 7, 1 + n as usize)])
            .collect();
        let distinct: HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(child_id(&parent(), 12, 1), child_id(&parent(), 12, 1));
        assert_eq!(child_id(&parent(), 1, 21), child_id(&parent(), 1, 21));
        assert_ne!(child_id(&parent(), 11, 2), child_id(&parent(), 1, 12));
        assert_eq!(ids[0].as_str().as_bytes()[14], b'8');
    }

    /// Covers: TR3.
    #[test]
    fn details_are_cut_between_characters() {
        let text = |c: char, n: usize| std::iter::repeat_n(c, n).collect::<String>();
        for c in ['a', '字', '🦀'] {
            assert_eq!(detail(&text(c, 300)), text(c, 300));
            let cut = detail(&text(c, 301));
            assert_eq!(cut.chars().count(), 300);
            assert_eq!(cut, format!("{}…", text(c, 299)));
        }
        assert_eq!(detail(""), "");
    }

    /// Covers: TR1, TR2, TR10.
    #[test]
    fn an_attempt_has_its_members_and_no_others() {
        let small = Attempt {
            id: "4.0".into(),
            status: AttemptStatus::Failed,
            launched: true,
            ..Attempt::default()
        };
        let json = r#"{"id":"4.0","status":"failed","launched":true,"turns":0}"#;
        assert_eq!(serde_json::to_string(&small).unwrap(), json);
        assert_eq!(child(json), Some(small));
    }

    /// Covers: TR4, RS8.
    #[test]
    fn what_was_rejected_did_not_run() {
        assert!(
            child(r#"{"id":"4.0","status":"rejected","turns":0,"reason":"agent-missing"}"#)
                .is_some()
        );
        for more in [
            r#""launched":true"#,
            r#""turns":1"#,
            r#""text":true"#,
            r#""usage":{"input":1,"output":1}"#,
        ] {
            let turns = if more.contains("turns") { "" } else { r#""turns":0,"# };
            assert_eq!(
                child(&format!(r#"{{"id":"4.0","status":"rejected",{turns}{more}}}"#)),
                None,
                "{more}"
            );
        }
    }

    /// A shape that makes no sense is skipped and takes nothing else with it. Covers: TR8, TR11.
    #[test]
    fn attempts_that_make_no_sense_are_skipped() {
        let malformed = [
            "null",
            "1",
            r#""completed""#,
            "[]",
            "{}",
            r#"{"id":"4.0"}"#,
            r#"{"status":"completed","launched":true}"#,
            r#"{"id":"","status":"completed","launched":true}"#,
            r#"{"id":4,"status":"completed","launched":true}"#,
            r#"{"id":"4.0","status":7,"launched":true}"#,
            r#"{"id":"4.0","status":"completed","launched":"yes"}"#,
            r#"{"id":"4.0","status":"completed","launched":true,"turns":-1}"#,
            r#"{"id":"4.0","status":"completed","launched":true,"tools":"read"}"#,
            r#"{"id":"4.0","status":"completed","launched":true,"model":"m"}"#,
            r#"{"id":"4.0","status":"completed","launched":false}"#,
        ];
        for json in malformed {
            assert_eq!(child(json), None, "{json}");
        }
        let later =
            child(r#"{"id":"4.0","status":"dreaming","launched":true,"turns":2,"mood":"good"}"#);
        assert_eq!(later.unwrap().status, AttemptStatus::Unknown);
    }

    /// Only `child` records count; text that looks like one does not. Covers: TR5, TR6, TR7, TR11.
    #[test]
    fn attempts_come_oldest_first_and_once() {
        let attempt = |id: &str| Attempt { id: id.into(), launched: true, ..Attempt::default() };
        let record = |seq: u64, body: Body| {
            let envelope = crate::line::Envelope {
                seq,
                parent: None,
                parent_at: None,
                at: crate::Timestamp(0),
                kind: body.kind().to_owned(),
                synced: None,
            };
            let line = crate::line::encode(&envelope, &body).unwrap();
            crate::line::decode(&line, 0).unwrap()
        };
        let ended = |id: &str| {
            let child = Child::new("", "c", ChildState::Ended);
            Body::Child(Child { attempt: Some(Box::new(attempt(id))), ..child })
        };
        let words =
            r#"{"type":"child","state":"ended","attempt":{"id":"9.9","status":"completed"}}"#;
        let said = Body::Message(Box::new(crate::record::Message::User(
            crate::record::UserMessage::text(words),
        )));
        let records = [
            record(1, ended("3.0")),
            record(2, said),
            record(3, ended("5.0")),
            record(4, ended("3.0")),
        ];
        let ids: Vec<_> = attempts(&records).iter().map(|a| a.id.clone()).collect();
        assert_eq!(ids, ["3.0", "5.0"]);
    }

    /// Covers: US15, RS25.
    #[test]
    fn what_is_not_all_is_told_as_at_least() {
        let usage = Usage { input: 10, output: 3, cache_read: 5, ..Usage::default() };
        let phrase = |incomplete| Used { usage, incomplete }.phrase();
        assert_eq!(phrase(false), "15 tokens in, 3 out");
        assert_eq!(phrase(true), "≥ 15 tokens in, ≥ 3 out");
    }
}
