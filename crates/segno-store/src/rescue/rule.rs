//! What is repaired, and for whom.
//!
//! Responsible for: the one table that says which agent chokes on what, and what is done about it. Must not:
//! look at a file. `docs/repair.md` holds the same table for people; a test compares them.

use crate::foreign::Agent;
use Agent::{Claude, Cline, Codex, Evo, Gemini, Ink, Kimi, Pi, Qwen};

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Three bytes before the first line.
    ByteOrderMark,
    /// Zero bytes that an interrupted append left.
    NulRun,
    /// A line that is no JSON.
    TornLine,
    /// Several records on one line, or one behind a broken one.
    FusedLine,
    /// Bytes that are no UTF-8.
    BadUtf8,
    /// Half of a surrogate pair.
    LoneSurrogate,
    /// Control bytes that stand in texts as they are.
    ControlByte,
    /// The last line has no end.
    NoLineEnd,
    /// A record that stands in the file already.
    RepeatedRecord,
    /// Another record with the id of an earlier one.
    ReusedId,
    /// A record that stands before what it hangs on, or a result before its call or not right behind it.
    OutOfOrder,
    /// A record that names a parent which is nowhere.
    MissingParent,
    /// Records that follow each other in a circle.
    Cycle,
    /// A call without a result.
    UnansweredCall,
    /// A second result for one call.
    SecondResult,
    /// A result whose call is nowhere.
    OrphanResult,
    /// A call id that is empty or was given before.
    ReusedCallId,
    /// Thinking without a signature.
    UnsignedThinking,
    /// A text in which nothing stands.
    EmptyText,
    /// A name or label behind which the agent would go on, elsewhere than where the session was.
    StaleTip,
    /// A summary that keeps what follows a record which is nowhere.
    LostKept,
    /// A piece of a message of a kind that the agent sends as something else.
    UnknownPiece,
    /// A part of a message that has another type than it ever has.
    OddField,
    /// A line that takes back everything before it.
    LostHistory,
    /// A reply that does not say what it cost.
    MissingUsage,
    /// The first line, which says what the session is, is lost.
    MissingHeader,
    /// The session that this one continues is nowhere.
    LostBase,
    /// The numbers of the lines do not count up by one.
    Ordinals,
    /// A packed file that is broken.
    TornArchive,
    /// An array that was cut, or has something behind its end.
    TornArray,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct RuleRow {
    /// Which rule.
    pub rule: Rule,
    /// Its stable name.
    pub code: &'static str,
    /// Whose sessions it is for.
    pub agents: &'static [Agent],
    /// What is done.
    pub done: &'static str,
}

const LINES: &[Agent] = &[Claude, Codex, Pi, Gemini, Ink, Evo, Qwen, Kimi];

const fn row(
    rule: Rule,
    code: &'static str,
    agents: &'static [Agent],
    done: &'static str,
) -> RuleRow {
    RuleRow { rule, code, agents, done }
}

/// All rules.
pub const RULES: &[RuleRow] = &[
    row(Rule::ByteOrderMark, "byte-order-mark", LINES, "taken away"),
    row(Rule::NulRun, "nul-run", LINES, "taken away; the record beside it stays"),
    row(Rule::TornLine, "torn-line", LINES, "set aside"),
    row(
        Rule::FusedLine,
        "fused-line",
        LINES,
        "each whole record gets a line of its own; the rest is set aside",
    ),
    row(
        Rule::BadUtf8,
        "bad-utf8",
        LINES,
        "each such byte becomes U+FFFD; the line as it was is set aside",
    ),
    row(Rule::LoneSurrogate, "lone-surrogate", LINES, "becomes U+FFFD"),
    row(
        Rule::ControlByte,
        "control-byte",
        &[Claude, Codex, Pi, Gemini, Ink, Evo, Qwen, Kimi, Cline],
        "each in a text is escaped",
    ),
    row(Rule::NoLineEnd, "no-line-end", &[Gemini, Pi, Ink, Evo, Qwen, Kimi], "gets one"),
    row(
        Rule::RepeatedRecord,
        "repeated-record",
        &[Claude, Codex, Pi],
        "left out: it stands there once",
    ),
    row(Rule::ReusedId, "reused-id", &[Claude, Pi], "the later one gets an id of its own"),
    row(
        Rule::OutOfOrder,
        "out-of-order",
        &[Claude, Codex, Pi],
        "moved; what it says stays as it is",
    ),
    row(Rule::MissingParent, "missing-parent", &[Claude, Pi], "hung on the nearest earlier record"),
    row(Rule::Cycle, "cycle", &[Claude, Pi], "hung on the nearest earlier record"),
    row(
        Rule::UnansweredCall,
        "unanswered-call",
        &[Claude, Codex, Pi, Gemini],
        "gets a result that says that the outcome is unknown",
    ),
    row(
        Rule::SecondResult,
        "second-result",
        &[Claude, Codex, Pi, Gemini],
        "kept as a note that is not sent, or left out of the call where it stands again",
    ),
    row(
        Rule::OrphanResult,
        "orphan-result",
        &[Claude, Pi, Gemini],
        "kept as a note that is not sent",
    ),
    row(
        Rule::ReusedCallId,
        "reused-call-id",
        &[Codex, Pi],
        "the call and its result get an id of their own",
    ),
    row(
        Rule::UnsignedThinking,
        "unsigned-thinking",
        &[Claude],
        "left out of the message; as it was, it is set aside or kept as a note",
    ),
    row(
        Rule::EmptyText,
        "empty-text",
        &[Claude, Gemini],
        "left out; an empty result says that there was no output",
    ),
    row(Rule::StaleTip, "stale-tip", &[Pi], "hung on the last turn"),
    row(
        Rule::LostKept,
        "lost-kept",
        &[Pi],
        "keeps what no earlier summary tells, or what follows the result",
    ),
    row(Rule::UnknownPiece, "unknown-piece", &[Codex, Pi, Gemini], "stands as text"),
    row(
        Rule::OddField,
        "odd-field",
        &[Pi, Gemini],
        "gets the form that it should have; what has none is left out, and the line is set aside",
    ),
    row(Rule::LostHistory, "lost-history", &[Gemini], "set aside"),
    row(Rule::MissingUsage, "missing-usage", &[Pi], "gets what pi expects there, with zeros"),
    row(
        Rule::MissingHeader,
        "missing-header",
        &[Codex, Pi, Gemini],
        "put together from the file's name and its other lines",
    ),
    row(
        Rule::LostBase,
        "lost-base",
        &[Codex],
        "begins with its own first line; what it continued is named no more",
    ),
    row(Rule::Ordinals, "ordinals", &[Codex, Pi], "numbered again from there on"),
    row(Rule::TornArchive, "torn-archive", &[Codex], "what could be unpacked is kept"),
    row(
        Rule::TornArray,
        "torn-array",
        &[Cline, Gemini],
        "closed behind its last whole element; the rest is set aside",
    ),
];

impl Rule {
    /// Its stable name.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.row().map_or("", |row| row.code)
    }

    /// What is done where it applies.
    #[must_use]
    pub fn done(self) -> &'static str {
        self.row().map_or("", |row| row.done)
    }

    /// Whether it is for an agent's sessions.
    #[must_use]
    pub fn is_for(self, agent: Agent) -> bool {
        self.row().is_some_and(|row| row.agents.contains(&agent))
    }

    fn row(self) -> Option<&'static RuleRow> {
        RULES.iter().find(|row| row.rule == self)
    }
}

/// Whether sessions of an agent are repaired at all; the others are databases or documents of another kind.
#[must_use]
pub fn is_repaired(agent: Agent) -> bool {
    RULES.iter().any(|row| row.agents.contains(&agent))
}
