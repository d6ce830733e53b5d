//! Repairing bytes and looking at what came out.

use crate::{gemini_sends, pi_opens, pi_sends};
use segno_model::Body;
use segno_model::context::{Context, ContextMessage, UNKNOWN_OUTCOME};
use segno_model::finding::{Finding, Severity};
use segno_model::record::{AssistantBlock, Block, Message};
use segno_store::foreign::{Agent, Located, View, recognise};
use segno_store::rescue::{self, RescueError};
use std::fs;
use std::path::{Path, PathBuf};

/// A file of `tests/corpus`.
pub(crate) fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(name)
}

/// The lines of a file in which something stands.
pub(crate) fn rows(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty()).collect()
}

/// What a repair gave.
pub(crate) struct Repaired {
    pub(crate) bytes: Vec<u8>,
    pub(crate) aside: Vec<u8>,
    /// As `rule@line`.
    pub(crate) changes: Vec<String>,
}

/// Repairs the session in a file.
pub(crate) fn repaired(session: &Located) -> Result<Repaired, RescueError> {
    let plan = rescue::plan(session)?;
    let (mut bytes, mut aside) = (Vec::new(), Vec::new());
    plan.write(&mut bytes, &mut aside, None)?;
    let change = |change: &rescue::Change| {
        change.line.map_or_else(|| change.rule.to_owned(), |line| format!("{}@{line}", change.rule))
    };
    let changes = plan.changes.iter().map(change).collect();
    if plan.is_empty() {
        assert_eq!(bytes, fs::read(&session.path).expect("it is there"), "nothing has to change");
    }
    Ok(Repaired { bytes, aside, changes })
}

/// A session of the same agent, in a file of its own with the same name.
pub(crate) struct Copy {
    folder: tempfile::TempDir,
    pub(crate) session: Located,
}

impl Copy {
    pub(crate) fn of(session: &Located, bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let name = session.path.file_name().expect("it has one");
        // pi's folder names the directory.
        let inner = folder.path().join("--srv-kiln--");
        fs::create_dir(&inner).expect("a folder");
        let path = inner.join(name);
        fs::write(&path, bytes).expect("a file");
        Self { session: Located { path, ..session.clone() }, folder }
    }

    /// What the next request would hold, but for what a repair says in other words.
    pub(crate) fn context(&self) -> Vec<String> {
        let _ = &self.folder;
        View::active(&self.session).map(|view| lines(&view.context())).unwrap_or_default()
    }

    /// What our reader finds above a note, among what the rules promise to settle.
    pub(crate) fn left(&self) -> Vec<String> {
        const LINES: &[&str] =
            &["torn-line", "torn-tail", "fused-line", "nul-run", "bad-utf8", "lone-surrogate"];
        const ROWS: &[&str] = &[
            "duplicate-record",
            "out-of-order",
            "missing-parent",
            "cycle",
            "duplicate-result",
            "orphan-result",
            "second-header",
            "stale-branch",
            "missing-kept-record",
            "missing-tip",
            "ordinal-gap",
            "missing-header",
        ];
        // Codex itself leaves such results out; what another history took the place of is not sent by Gemini CLI.
        let agent = self.session.agent;
        let has_rows = agent != Agent::Cline;
        // Records that a summary keeps are named by pi alone in a way that can be mended.
        let is_left = |code: &str| match agent {
            Agent::Codex | Agent::Gemini => code == "orphan-result",
            Agent::Claude => code == "missing-kept-record",
            _ => false,
        };
        let is_settled = |code: &str| {
            LINES.contains(&code) || has_rows && ROWS.contains(&code) && !is_left(code)
        };
        let Ok(view) = View::transcript(&self.session) else { return Vec::new() };
        let above = view.findings.iter().filter(|f| f.severity > Severity::Note);
        let left = above.filter(|f| is_settled(f.code) && !self.stands_later(f));
        left.map(|f| format!("{}@{}", f.code, f.line.unwrap_or_default())).collect()
    }
}

impl Copy {
    /// Whether a row names a parent that stands behind it: Claude Code finds that.
    fn stands_later(&self, finding: &Finding) -> bool {
        if finding.code != "missing-parent" || self.session.agent != Agent::Claude {
            return false;
        }
        let bytes = fs::read(&self.session.path).expect("it is there");
        let at = usize::try_from(finding.line.unwrap_or(1)).expect("a line");
        let row = bytes.split(|&b| b == b'\n').nth(at - 1).expect("a line");
        let row: serde_json::Value = serde_json::from_slice(row).expect("JSON");
        let parent = row["parentUuid"].as_str().or(row["logicalParentUuid"].as_str());
        let own = format!("\"uuid\":\"{}\"", parent.expect("a parent"));
        let behind = bytes.split(|&b| b == b'\n').skip(at);
        behind.into_iter().any(|row| memchr::memmem::find(row, own.as_bytes()).is_some())
    }
}

/// The session in a corpus file.
pub(crate) fn session(name: &str) -> Located {
    recognise(&corpus(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn lines(context: &Context) -> Vec<String> {
    let mut lines = Vec::new();
    for message in &context.messages {
        match message {
            ContextMessage::User { content, .. } => lines.push(format!("user: {}", shown(content))),
            ContextMessage::Assistant(turn) => lines.extend(turn.content.iter().filter_map(said)),
            ContextMessage::State(_) => {}
            ContextMessage::Results(results) => {
                let line = |r: &segno_model::context::ContextResult| {
                    let text = shown(&r.content);
                    let is_unknown = [UNKNOWN_OUTCOME, rescue::UNKNOWN_OUTCOME].contains(&&*text)
                        || text.starts_with("[Tool call interrupted");
                    let text = if is_unknown { "?".to_owned() } else { text };
                    format!("result: {text}")
                };
                lines.extend(results.iter().map(line));
            }
        }
    }
    // What our context says by itself to keep turns apart.
    lines.retain(|line| !line.starts_with("user: (Segno: ") && line.trim() != "user:");
    // A piece that no agent knows is left out of a reply, and stands as text in a repaired one.
    lines.retain(|line| line != "assistant: [?]");
    lines
}

fn said(block: &AssistantBlock) -> Option<String> {
    match block {
        AssistantBlock::Text { text } if text.trim().is_empty() => None,
        AssistantBlock::Text { text } => Some(format!("assistant: {}", known(text))),
        // Not sent to anybody without a signature.
        AssistantBlock::Thinking { signature, .. }
            if signature.as_deref().is_none_or(str::is_empty) =>
        {
            None
        }
        AssistantBlock::Thinking { text, .. } => Some(format!("thinking: {text}")),
        AssistantBlock::ToolCall(call) => Some(format!("call {} {}", call.name, call.arguments)),
        AssistantBlock::Unknown => Some("assistant: [?]".to_owned()),
    }
}

fn shown(content: &[Block]) -> String {
    let text = |block: &Block| match block {
        Block::Text { text } => known(text.head()).to_owned(),
        Block::Image { media_type, .. } => format!("[{media_type}]"),
        Block::Unknown => "[?]".to_owned(),
    };
    let texts: Vec<String> =
        content.iter().map(text).filter(|text| !text.trim().is_empty()).collect();
    if texts.is_empty() || texts == ["(no output)"] { String::new() } else { texts.join(" | ") }
}

/// A piece of an unknown kind that stands as text.
fn known(text: &str) -> &str {
    let stands =
        ["(a piece of a kind that is not known here", "(content of a kind that this version"];
    if stands.iter().any(|start| text.starts_with(start)) { "[?]" } else { text }
}

/// That a repair keeps its promises; gives what it changed.
pub(crate) fn keeps_its_promises(session: &Located, bytes: &[u8], shown: &str) -> Option<Repaired> {
    let before = Copy::of(session, bytes);
    let result = match repaired(&before.session) {
        Ok(result) => result,
        Err(RescueError::Foreign(_)) => return None,
        Err(error) => panic!("{shown}: {error}"),
    };
    let after = Copy::of(session, &result.bytes);
    assert_eq!(after.context(), before.context(), "{shown}: the context, {:?}", result.changes);
    assert_eq!(after.left(), [""; 0], "{shown}: what is left, {:?}", result.changes);
    if session.agent == Agent::Gemini {
        let unpaired = gemini_sends::unpaired(&result.bytes);
        assert_eq!(unpaired, [""; 0], "{shown}: what it sends, {:?}", result.changes);
    }
    if session.agent == Agent::Pi {
        let refused = pi_sends::refused(&result.bytes);
        assert_eq!(refused, [""; 0], "{shown}: what it sends, {:?}", result.changes);
    }
    if session.path.to_string_lossy().contains("-v4-") {
        assert_eq!(pi_opens::refused(&result.bytes), None, "{shown}: {:?}", result.changes);
    }
    let again = repaired(&after.session).unwrap_or_else(|e| panic!("{shown}: again: {e}"));
    assert_eq!(again.changes, [""; 0], "{shown}: repaired twice, after {:?}", result.changes);
    Some(result)
}

/// That everything that was said is still there, and that a repaired file needs no repair.
pub(crate) fn loses_nothing(session: &Located, bytes: &[u8], shown: &str) {
    let said = |copy: &Copy| -> Vec<String> {
        let Ok(view) = View::transcript(&copy.session) else { return Vec::new() };
        let texts = view.records.iter().filter_map(|read| match read.record.body() {
            Body::Message(message) => match &**message {
                Message::User(user) => Some(vec![self::shown(&user.content)]),
                Message::Assistant(reply) => {
                    Some(reply.content.iter().filter_map(self::said).collect())
                }
                Message::Tool(_) => None,
            },
            _ => None,
        });
        // What Gemini CLI tells of its surroundings nobody said; where a message stands again, the later one counts,
        // and it may lack what was damaged in the other.
        let is_said = |text: &String| {
            !text.trim().is_empty() && !text.trim_start().starts_with("<session_context>")
        };
        let texts = texts.flatten().map(|text| text.replace('\u{fffd}', ""));
        let mut texts: Vec<String> = texts.filter(is_said).collect();
        texts.sort();
        texts.dedup();
        texts
    };
    let before = Copy::of(session, bytes);
    let result = match repaired(&before.session) {
        Ok(result) => result,
        Err(RescueError::Foreign(_)) => return,
        Err(error) => panic!("{shown}: {error}"),
    };
    let after = Copy::of(session, &result.bytes);
    let now = said(&after);
    let lost: Vec<String> = said(&before).into_iter().filter(|text| !now.contains(text)).collect();
    assert_eq!(lost, [""; 0], "{shown}: lost, {:?}", result.changes);
    let again = repaired(&after.session).unwrap_or_else(|e| panic!("{shown}: again: {e}"));
    assert_eq!(again.changes, [""; 0], "{shown}: repaired twice, after {:?}", result.changes);
}
