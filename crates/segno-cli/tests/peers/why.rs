//! Why what an agent sent differs from our view, where it does.
//!
//! Responsible for: a sentence per row that is not equal; what the agent did was looked at in its requests.
//! Must not: make a row equal.

/// A row that differs.
pub(crate) struct Why {
    /// As in [`crate::report::PARTS`].
    pub(crate) part: &'static str,
    pub(crate) target: &'static str,
    /// What its file's name holds.
    pub(crate) file: &'static str,
    pub(crate) because: &'static str,
}

impl Why {
    pub(crate) fn is_of(&self, part: &str, target: &str, name: &str) -> bool {
        self.part == part && self.target == target && name.contains(self.file)
    }
}

/// The reason for a row.
pub(crate) fn of(part: &str, target: &str, name: &str) -> Option<&'static str> {
    WHY.iter().find(|why| why.is_of(part, target, name)).map(|why| why.because)
}

const fn why(
    part: &'static str,
    target: &'static str,
    file: &'static str,
    because: &'static str,
) -> Why {
    Why { part, target, file, because }
}

/// Grouped as the page is.
pub(crate) const WHY: &[Why] = &[
    why(
        "own",
        "gemini",
        "multi-turn-tools",
        "Gemini CLI wrote each result twice, with its call and as a message of the user's, and sends both; our view has it \
         once. Converted and handed-back sessions have it once in the file too.",
    ),
    why(
        "own",
        "opencode",
        "sigkill-mid-compaction",
        "The last reply says that the window is full, so OpenCode first has the session summarised. Then it sends the \
         turn, the question of the compaction that was killed with an empty reply, the prompt, the summary as a reply to \
         it, and that it is to continue.",
    ),
    why(
        "own",
        "opencode",
        "sigkill-mid-tool-args",
        "OpenCode sends the call whose arguments were never finished, as `write {}`, with the result that it was \
         interrupted; Segno leaves a call out that cannot have run.",
    ),
    why(
        "own",
        "pi",
        "08c-sigterm-mid-stream",
        "pi sends nothing of a reply that broke off; Segno sends its finished text. A repair or a conversion keeps it.",
    ),
    why("own", "pi", "31-v4-lanes", V4),
    why("own", "pi", "32-v4-values", V4),
    why("own", "pi", "33-v4-upgraded", V4),
    why(
        "damaged",
        "claude",
        "03-fused-stub",
        "Claude Code drops the line that holds two records; the next record's parent was on it, so that all before it is \
         lost too.",
    ),
    why(
        "damaged",
        "claude",
        "04-nul-block",
        "Claude Code drops the line with the NUL bytes, and all before it.",
    ),
    why(
        "damaged",
        "claude",
        "12-missing-parent",
        "Claude Code ends at the record whose parent is missing: the summary before it is not sent. Our view hangs it on \
         the record before.",
    ),
    why(
        "damaged",
        "claude",
        "17-orphan-result",
        "Claude Code ends at the result without a call, sends words in its place, and nothing of what is before.",
    ),
    why(
        "damaged",
        "claude",
        "48-queued-prompts",
        "Claude Code deletes the call that has no result, so that the two prompts become one message; our view has the \
         call and says that its outcome is unknown.",
    ),
    why(
        "damaged",
        "codex",
        "08-bom-crlf",
        "Codex refuses a file that begins with a byte order mark.",
    ),
    why(
        "damaged",
        "codex",
        "37-unknown-variants",
        "Codex drops the whole message in which one piece is of an unknown kind; our view keeps the text beside it.",
    ),
    why(
        "damaged",
        "pi",
        "41-derived-corrupt-middle-line",
        "pi drops the broken line and goes no further back: the calls' turn and all before it are lost, and results \
         without calls are sent.",
    ),
    why(
        "damaged",
        "pi",
        "42-derived-glued-lines",
        "pi drops the line that holds two records, and all before it.",
    ),
    why(
        "damaged",
        "pi",
        "18-duplicate-results",
        "pi sends the second result of a call, and the one whose call is nowhere.",
    ),
    why(
        "damaged",
        "pi",
        "already-forked",
        "The summary keeps what follows an entry that is not in this file, so that pi sends the summary and nothing \
         behind it.",
    ),
    why(
        "damaged",
        "pi",
        "37-unknown-variants",
        "pi sends a piece of an unknown kind as an image without data; our view says that something is there.",
    ),
    why(
        "damaged",
        "pi",
        "46-nul-in-text",
        "pi leaves half of a character out; our view has U+FFFD in its place, as the repaired file has.",
    ),
    why(
        "repaired",
        "codex",
        "37-unknown-variants",
        "The piece of the unknown kind stands as text in the reply now; our view of the original leaves it out.",
    ),
];

const V4: &str = "pi 1.6.0 refuses files of version 4, which only the library below it writes; our reader takes them.";
