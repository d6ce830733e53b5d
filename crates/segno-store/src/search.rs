//! Finding words in sessions.
//!
//! Responsible for: whether a file can hold all words (a fast look at its bytes), and where a message holds
//! them. There is no index: what is searched is what is on disk, so nothing can be stale or missing. Must
//! not: know any format, or print.

use crate::foreign;
use regex::{Error, Regex, RegexBuilder, bytes};
use segno_model::Body;
use segno_model::record::{AssistantBlock, Block, Message};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

/// How much of a file is looked at at once.
const CHUNK: usize = 1 << 20;
/// No spelling of a word is longer than this many bytes; what spans an edge of [`CHUNK`] is found.
const LONGEST: usize = 4096;

/// Words that all have to stand in one message; letters of either case are the same.
#[derive(Debug, Clone)]
pub struct Words(Vec<Word>);

#[derive(Debug, Clone)]
struct Word {
    text: Regex,
    /// How it can stand in a file.
    bytes: bytes::Regex,
}

impl Words {
    /// The words of a query. What stands in double quotes is one word, whatever is in it.
    ///
    /// # Errors
    /// When a word is too long to search for.
    pub fn parse(query: &str) -> Result<Self, Error> {
        split(query).iter().map(|word| Word::new(word)).collect::<Result<_, _>>().map(Self)
    }

    /// Whether there is nothing to search for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a file can hold all words. False is certain; a compressed file can always.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn may_stand_in(&self, path: &Path) -> io::Result<bool> {
        if path.extension().is_some_and(|end| end == "zst") {
            return Ok(true);
        }
        let mut file = foreign::open_untouched(path)?;
        let mut missing: Vec<&Word> = self.0.iter().collect();
        let mut buffer = vec![0; LONGEST + CHUNK];
        let mut end = 0;
        while !missing.is_empty() {
            let from = end;
            end += read_some(&mut file, &mut buffer[from..])?;
            if end == from {
                return Ok(false);
            }
            missing.retain(|word| !word.bytes.is_match(&buffer[..end]));
            // A word may lie across the edge.
            let keep = end.saturating_sub(LONGEST);
            buffer.copy_within(keep..end, 0);
            end -= keep;
        }
        Ok(true)
    }

    /// Where the first of the words stands in a text that holds all of them.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<Range<usize>> {
        let mut first: Option<Range<usize>> = None;
        for word in &self.0 {
            let found = word.text.find(text)?.range();
            if first.as_ref().is_none_or(|first| found.start < first.start) {
                first = Some(found);
            }
        }
        first
    }
}

impl Word {
    fn new(word: &str) -> Result<Self, Error> {
        let text = RegexBuilder::new(&regex::escape(word)).case_insensitive(true).build()?;
        let spelled =
            spellings(word).iter().map(|s| regex::escape(s)).collect::<Vec<_>>().join("|");
        let bytes = bytes::RegexBuilder::new(&spelled).case_insensitive(true).build()?;
        Ok(Self { text, bytes })
    }
}

/// How a word can be written within a JSON string: as it is, with what must be escaped escaped, or with
/// everything beyond ASCII escaped as well.
fn spellings(word: &str) -> Vec<String> {
    let escaped = serde_json::to_string(word).unwrap_or_default();
    let escaped = escaped.trim_matches('"').to_owned();
    let ascii: String = escaped.chars().map(ascii).collect();
    let mut spellings = vec![escaped.clone(), word.to_owned(), escaped.replace('/', "\\/"), ascii];
    spellings.sort();
    spellings.dedup();
    spellings
}

fn ascii(c: char) -> String {
    if c.is_ascii() {
        return c.to_string();
    }
    c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

fn split(query: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (n, part) in query.split('"').enumerate() {
        if n % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words.retain(|word| !word.trim().is_empty());
    words
}

fn read_some(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The person, or a program on the person's side.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// A summary of what came before.
    Summary,
}

/// Something that was said in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said<'a> {
    /// By whom.
    pub by: Speaker,
    /// Of a call or a result: the tool.
    pub tool: Option<&'a str>,
    /// Of a call or a result: the call's id.
    pub call: Option<&'a str>,
    /// The words; of a call the arguments.
    pub text: &'a str,
}

/// Everything that was said in a record, in order.
#[must_use]
pub fn said(body: &Body) -> Vec<Said<'_>> {
    let plain = |by, text| Said { by, tool: None, call: None, text };
    match body {
        Body::Message(message) => match &**message {
            Message::User(user) => texts(&user.content).map(|t| plain(Speaker::User, t)).collect(),
            Message::Assistant(reply) => reply.content.iter().filter_map(of_reply).collect(),
            Message::Tool(result) => {
                let (tool, call) = (Some(result.name.as_str()), Some(result.call_id.as_str()));
                let by = Speaker::Tool;
                texts(&result.content).map(|text| Said { by, tool, call, text }).collect()
            }
        },
        Body::Compaction(compaction) => {
            let summary = compaction.summary.as_ref().map(segno_model::record::Text::head);
            summary.map(|text| plain(Speaker::Summary, text)).into_iter().collect()
        }
        Body::BranchSummary(summary) => vec![plain(Speaker::Summary, summary.summary.head())],
        _ => Vec::new(),
    }
}

fn of_reply(block: &AssistantBlock) -> Option<Said<'_>> {
    let by = Speaker::Assistant;
    match block {
        AssistantBlock::Text { text } | AssistantBlock::Thinking { text, .. } => {
            Some(Said { by, tool: None, call: None, text })
        }
        AssistantBlock::ToolCall(call) => {
            let (tool, id) = (Some(call.name.as_str()), Some(call.id.as_str()));
            Some(Said { by, tool, call: id, text: &call.arguments })
        }
        AssistantBlock::Unknown => None,
    }
}

fn texts(blocks: &[Block]) -> impl Iterator<Item = &str> {
    blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.head()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test may panic")]

    use super::*;
    use std::io::Write as _;

    #[test]
    fn all_words_have_to_be_there() {
        let cases = [
            ("uploader retry", "The Retry of the UPLOADER", Some("Retry")),
            ("uploader retry", "The uploader", None),
            ("\"the uploader\"", "Fix the uploader", Some("the uploader")),
            ("\"the uploader\"", "the big uploader", None),
            ("größe", "DIE GRÖSSE und die GRÖßE", Some("GRÖßE")),
            ("不改公共接口", "约束：不改公共接口。", Some("不改公共接口")),
            ("a.c", "abc", None),
            ("load loader", "uploader", Some("load")),
        ];
        for (query, text, expected) in cases {
            let found = Words::parse(query).unwrap().find(text);
            assert_eq!(found.map(|range| &text[range]), expected, "{query} in {text}");
        }
    }

    /// A word is found however JSON writes it, and across the edges of what is read at once.
    #[test]
    fn a_file_that_holds_the_words_is_never_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.jsonl");
        let cases = [
            ("größe", r#"{"t":"die Gr\u00f6\u00dfe"}"#, true),
            ("größe", "{\"t\":\"die Größe\"}", true),
            ("src/main.rs", r#"{"t":"src\/main.rs"}"#, true),
            ("\"say \\\"", r#"{"t":"x"}"#, false),
            ("😀", r#"{"t":"\ud83d\ude00"}"#, true),
            ("needle", "{\"t\":\"hay\"}", false),
        ];
        for (query, content, expected) in cases {
            std::fs::write(&path, content).unwrap();
            let words = Words::parse(query).unwrap();
            assert_eq!(words.may_stand_in(&path).unwrap(), expected, "{query} in {content}");
        }
        for at in [CHUNK - 3, CHUNK, CHUNK + LONGEST - 3, 2 * CHUNK + LONGEST - 3] {
            let mut file = std::fs::File::create(&path).unwrap();
            file.write_all(&vec![b' '; at]).unwrap();
            file.write_all(b"needle").unwrap();
            assert!(Words::parse("needle").unwrap().may_stand_in(&path).unwrap(), "{at}");
        }
    }
}
