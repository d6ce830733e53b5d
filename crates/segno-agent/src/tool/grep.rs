//! `grep`: a regular expression in files, with ripgrep's own engine.
//!
//! Responsible for: searching within fixed bounds, in a stable order. Must not: start a program.

use super::error::ToolError;
use super::walk::{Cancel, Watched, walk};
use super::workspace::Workspace;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use segno_runtime::ToolOutput;
use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;

/// How many matching lines are shown unless told otherwise.
const DEFAULT_LIMIT: usize = 100;
/// How many matching lines are shown at most.
const MAX_LIMIT: usize = 1000;
/// How many bytes are shown at most.
const MAX_BYTES: usize = 32 << 10;
/// How much of one line is shown.
const MAX_LINE: usize = 400;

/// The arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(crate) pattern: String,
    pub(crate) path: Option<String>,
    pub(crate) glob: Option<String>,
    #[serde(default)]
    pub(crate) ignore_case: bool,
    #[serde(default)]
    pub(crate) literal: bool,
    #[serde(default)]
    pub(crate) hidden: bool,
    pub(crate) context: Option<usize>,
    pub(crate) limit: Option<usize>,
}

/// Searches.
pub(crate) fn run(
    workspace: &Workspace,
    args: &Args,
    cancel: &Cancel,
) -> Result<ToolOutput, ToolError> {
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        .line_terminator(Some(b'\n'))
        .build(&args.pattern)
        .map_err(|e| ToolError::Arguments(format!("`pattern` is not valid: {e}")))?;
    let base = workspace.resolve(args.path.as_deref().unwrap_or("."))?;
    std::fs::metadata(&base)
        .map_err(|source| ToolError::Io { path: workspace.show(&base), source })?;
    let mut found = Found {
        out: String::new(),
        matches: 0,
        limit: args.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT),
        unread: 0,
        secret: 0,
    };
    // Whoever names such a place has been asked about it.
    let secret_base = workspace.is_secret(&base);
    let mut searcher = searcher(args.context.unwrap_or(0).min(20));
    for entry in walk(&base, args.hidden, args.glob.as_deref())? {
        cancel.check()?;
        let Ok(entry) = entry else {
            found.unread += 1;
            continue;
        };
        if entry.file_type().is_none_or(|t| !t.is_file()) {
            continue;
        }
        if !secret_base && workspace.is_secret(entry.path()) {
            found.secret += 1;
            continue;
        }
        let shown = workspace.show(entry.path());
        found.search(&mut searcher, &matcher, entry.path(), &shown, cancel);
        cancel.check()?;
        if found.is_full() {
            break;
        }
    }
    Ok(ToolOutput::done(found.finish(&args.pattern)))
}

fn searcher(context: usize) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .before_context(context)
        .after_context(context)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(64 << 20))
        .build()
}

/// What was found so far.
struct Found {
    out: String,
    matches: usize,
    limit: usize,
    unread: usize,
    secret: usize,
}

impl Found {
    fn is_full(&self) -> bool {
        self.matches >= self.limit || self.out.len() >= MAX_BYTES
    }

    fn search(
        &mut self,
        searcher: &mut Searcher,
        matcher: &RegexMatcher,
        path: &Path,
        shown: &str,
        cancel: &Cancel,
    ) {
        let result = std::fs::File::open(path).and_then(|inner| {
            let lines = Lines { found: self, shown };
            searcher.search_reader(matcher, Watched { inner, cancel }, lines)
        });
        if result.is_err() {
            self.unread += 1;
        }
    }

    fn push(&mut self, shown: &str, separator: char, number: Option<u64>, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        let end = text.floor_char_boundary(MAX_LINE);
        let cut = if end < text.len() { " …" } else { "" };
        let number = number.unwrap_or(0);
        let _ = writeln!(self.out, "{shown}{separator}{number}{separator}{}{cut}", &text[..end]);
    }

    fn finish(self, pattern: &str) -> String {
        let full = self.is_full();
        let mut out = self.out;
        if self.matches == 0 {
            out = format!("no matches for {pattern}\n");
        }
        if full {
            let _ = writeln!(
                out,
                "(stopped after {} matching lines; there may be more: narrow the search or raise `limit`, at most {MAX_LIMIT})",
                self.matches
            );
        }
        if self.secret > 0 {
            let _ = writeln!(out, "({} files where credentials may be were left out)", self.secret);
        }
        if self.unread > 0 {
            let _ = writeln!(out, "({} entries could not be read)", self.unread);
        }
        out
    }
}

/// Takes the lines of one file.
struct Lines<'a> {
    found: &'a mut Found,
    shown: &'a str,
}

impl Sink for Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        if self.found.is_full() {
            return Ok(false);
        }
        self.found.matches += 1;
        self.found.push(self.shown, ':', found.line_number(), found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.found.push(self.shown, '-', context.line_number(), context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        self.found.out.push_str("--\n");
        Ok(true)
    }
}
