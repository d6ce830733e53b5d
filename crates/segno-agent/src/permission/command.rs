//! What a shell command would do, judged by its parts.
//!
//! Responsible for: taking a command apart with a real grammar and saying of each part whether it only
//! reads, changes a file, runs a program, or cannot be seen through. Must not: look at the file
//! system, or decide. Whatever is not understood is a doubt.

use super::operands::{self, Depth, Look};
use super::programs::{self, Program};
use super::rule::PrefixRule;
use crate::tool::is_secret_name;
use std::fmt;
use std::path::Path;
use tree_sitter::Node;

/// How deep commands may hold commands in quotes (`bash -c`).
const MAX_DEPTH: usize = 4;
/// How deep the syntax tree may be; deeper ones are not walked.
const MAX_NESTING: usize = 100;
/// How often a command may change directory; its paths are looked at from wherever it may then be.
pub(crate) const MAX_MOVES: usize = 4;
/// Longer commands are not judged.
const MAX_LENGTH: usize = 64 << 10;

/// Variables that may be set for one command without a doubt.
const HARMLESS_VARIABLES: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "COLUMNS",
    "DEBUG",
    "FORCE_COLOR",
    "LANG",
    "LC_ALL",
    "NODE_ENV",
    "NO_COLOR",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
];

/// A program that is not known to only read, all of its words known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The words.
    pub words: Vec<String>,
    /// The rule that may be offered for it.
    pub rule: Option<PrefixRule>,
}

/// What a command would do. Without writes, runs and doubts it only reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What its reading parts may open.
    pub reads: Vec<Look>,
    /// Directories that it changes to, in order.
    pub moves: Vec<String>,
    /// Whether some of these changes may not happen, or not last until the end.
    pub wanders: bool,
    /// Files that its redirects write, as written in the command.
    pub writes: Vec<String>,
    /// Programs that it runs.
    pub runs: Vec<Run>,
    /// What was not understood or is never taken for granted, as sentences for people.
    pub doubts: Vec<String>,
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.doubts.iter().map(|d| format!("ask: {d}")));
        parts.extend(self.runs.iter().map(|run| match &run.rule {
            Some(rule) => format!("run [{rule}]"),
            None => format!("run {}", run.words.join(" ")),
        }));
        parts.extend(self.writes.iter().map(|w| format!("edit {w}")));
        if parts.is_empty() {
            parts.push("read".to_owned());
        }
        f.write_str(&parts.join("; "))
    }
}

/// Judges a command.
#[must_use]
pub fn judge(command: &str) -> Judgement {
    let mut judge = Judge::default();
    judge.script(command, 0);
    judge.finish()
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// Known to the letter. The flag says that it holds a glob, so that its value is some file name.
    Literal(String, bool),
    /// Depends on a variable or on something else that is not known.
    Unknown,
    /// The output of a command that was judged itself.
    Output,
}

impl Word {
    /// Its text when known to the letter.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Literal(text, false) => Some(text),
            _ => None,
        }
    }
}

/// Collects what a command does while its tree is walked.
#[derive(Debug, Default)]
pub(super) struct Judge {
    found: Judgement,
    git_elsewhere: bool,
    /// How many shells of their own are around what is judged now.
    shells: usize,
}

impl Judge {
    pub(super) fn doubt(&mut self, why: impl Into<String>) {
        let why = why.into();
        if !self.found.doubts.contains(&why) {
            self.found.doubts.push(why);
        }
    }

    fn finish(mut self) -> Judgement {
        if !self.found.moves.is_empty() && !self.found.writes.is_empty() {
            self.doubt("it changes directory and then writes a file");
        }
        if self.found.moves.len() > MAX_MOVES {
            self.doubt("it changes directory so often that its paths cannot be told");
        }
        if self.git_elsewhere {
            self.doubt("it runs git in another directory, whose settings may run programs");
        }
        self.found
    }

    /// Judges a whole script, in quotes or not.
    pub(super) fn script(&mut self, text: &str, depth: usize) {
        if depth > MAX_DEPTH || text.len() > MAX_LENGTH {
            return self.doubt("too long or too deep to judge");
        }
        if is_ambiguous(text) {
            return self.doubt("shells and people could read its characters differently");
        }
        let mut parser = tree_sitter::Parser::new();
        let language = tree_sitter_bash::LANGUAGE.into();
        if parser.set_language(&language).is_err() {
            return self.doubt("the shell grammar could not be loaded");
        }
        match parser.parse(text, None) {
            Some(tree) if !tree.root_node().has_error() => {
                Walk { judge: self, source: text, depth }.statement(tree.root_node(), 0);
            }
            _ => self.doubt("it does not parse"),
        }
    }

    /// Judges a program with its words.
    pub(super) fn program(&mut self, words: &[Word], depth: usize) {
        let Some(name) = words.first().and_then(Word::text) else {
            return self.doubt("the program's name is not known beforehand");
        };
        match programs::classify(name, &words[1..]) {
            Program::Reads => {
                // A directory that is a repository of its own has settings that run programs.
                self.git_elsewhere |= !self.found.moves.is_empty() && programs::is_git(name);
                self.reads(name, &words[1..]);
            }
            Program::Moves(directory) => {
                self.reads(name, &words[1..]);
                self.found.moves.push(directory);
                self.found.wanders |= self.shells > 0;
            }
            Program::Searches(inner) => {
                self.reads(name, &words[1..]);
                self.program(&inner, depth + 1);
            }
            Program::Doubt(why) => self.doubt(why),
            Program::Script(text) => {
                self.shells += 1;
                self.script(&text, depth + 1);
                self.shells -= 1;
            }
            Program::Wraps(inner) => {
                if depth > MAX_DEPTH {
                    return self.doubt("too long or too deep to judge");
                }
                self.program(&inner, depth + 1);
            }
            Program::Other => self.run(words),
        }
    }

    fn run(&mut self, words: &[Word]) {
        let known: Option<Vec<String>> =
            words.iter().map(|w| w.text().map(str::to_owned)).collect();
        match known {
            Some(words) => {
                let rule = PrefixRule::offer(&words);
                self.found.runs.push(Run { words, rule });
            }
            None => self.doubt(format!(
                "`{}` gets words that are not known beforehand",
                words.first().and_then(Word::text).unwrap_or("it")
            )),
        }
    }

    /// The arguments of a program that only reads.
    fn reads(&mut self, name: &str, words: &[Word]) {
        if words.contains(&Word::Unknown) {
            self.doubt("it shows or reads something that is not known beforehand");
        }
        for look in operands::looks(name, words) {
            self.look(look);
        }
    }

    fn read_path(&mut self, text: &str) {
        self.look(operands::look(text, false, Depth::Names));
    }

    fn look(&mut self, look: Look) {
        let Look { path, glob, .. } = &look;
        let hidden = *glob
            && path.split('/').any(|part| part.starts_with('.') && part.contains(['*', '?', '[']));
        let of_processes = *glob && path.split('/').any(|part| part == "proc");
        let literal = Path::new(path);
        if is_secret_name(literal) || hidden || of_processes {
            self.doubt(format!("it may read credentials: {path}"));
        }
        if path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/") {
            self.doubt("it opens a network connection");
        }
        self.found.reads.push(Look { moves: self.found.moves.len(), ..look });
    }
}

/// A walk over one script's tree.
struct Walk<'a> {
    judge: &'a mut Judge,
    source: &'a str,
    depth: usize,
}

impl Walk<'_> {
    fn text(&self, node: Node<'_>) -> &str {
        &self.source[node.byte_range()]
    }

    fn each(&mut self, node: Node<'_>, nesting: usize, mut f: impl FnMut(&mut Self, Node<'_>)) {
        if nesting > MAX_NESTING {
            return self.judge.doubt("too long or too deep to judge");
        }
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        for child in children {
            f(self, child);
        }
    }

    fn statement(&mut self, node: Node<'_>, nesting: usize) {
        match node.kind() {
            "comment" => {}
            "pipeline" | "subshell" => self.own_shell(node, nesting),
            "while_statement" => {
                let moves = self.judge.found.moves.len();
                self.statements(node, nesting);
                if self.judge.found.moves.len() > moves {
                    self.judge.doubt("where `cd` leads is not known");
                }
            }
            "program" | "list" | "compound_statement" | "do_group" | "redirected_statement" => {
                let mut cursor = node.walk();
                let skips = node.children(&mut cursor).any(|n| matches!(n.kind(), "||" | "&"));
                self.judge.found.wanders |= skips;
                self.statements(node, nesting);
            }
            "if_statement" | "elif_clause" | "else_clause" | "negated_command" => {
                self.judge.found.wanders = true;
                self.statements(node, nesting);
            }
            "command" => self.command(node, nesting),
            "file_redirect" => self.file_redirect(node, nesting),
            "heredoc_redirect" => {
                self.each(node, nesting, |walk, child| walk.heredoc_part(child, nesting + 1));
            }
            "herestring_redirect" => self.herestring(node, nesting),
            "variable_assignment" => self.assignment(node, nesting),
            "variable_assignments" => {
                self.each(node, nesting, |walk, child| walk.assignment(child, nesting + 1));
            }
            "test_command" => self.test(node, nesting),
            other => self.judge.doubt(format!("{} is not judged", other.replace('_', " "))),
        }
    }

    fn statements(&mut self, node: Node<'_>, nesting: usize) {
        self.each(node, nesting, |walk, child| walk.statement(child, nesting + 1));
    }

    /// What happens in a shell of its own changes no other shell's directory.
    fn own_shell(&mut self, node: Node<'_>, nesting: usize) {
        self.judge.shells += 1;
        self.statements(node, nesting);
        self.judge.shells -= 1;
    }

    fn command(&mut self, node: Node<'_>, nesting: usize) {
        let mut words = Vec::new();
        self.each(node, nesting, |walk, child| match child.kind() {
            "command_name" => walk.each(child, nesting + 1, |walk, name| {
                let word = walk.word(name, nesting + 2);
                words.push(word);
            }),
            "variable_assignment" => walk.assignment(child, nesting + 1),
            "file_redirect" | "heredoc_redirect" | "herestring_redirect" => {
                walk.statement(child, nesting + 1);
            }
            "comment" => {}
            _ => {
                let word = walk.word(child, nesting + 1);
                words.push(word);
            }
        });
        self.judge.program(&words, self.depth);
    }

    fn word(&mut self, node: Node<'_>, nesting: usize) -> Word {
        match node.kind() {
            "word" => plain_word(self.text(node)),
            "number" => Word::Literal(self.text(node).to_owned(), false),
            "raw_string" => {
                let text = self.text(node);
                Word::Literal(text.trim_matches('\'').to_owned(), false)
            }
            "string" => self.string(node, nesting),
            "concatenation" => self.concatenation(node, nesting),
            "command_substitution" => {
                self.substitution(node, nesting);
                Word::Output
            }
            "process_substitution" => {
                self.substitution(node, nesting);
                Word::Literal("/dev/fd/63".to_owned(), false)
            }
            "simple_expansion" if self.text(node) == "$?" => Word::Literal("0".to_owned(), false),
            _ => {
                self.inner_substitutions(node, nesting);
                Word::Unknown
            }
        }
    }

    fn string(&mut self, node: Node<'_>, nesting: usize) -> Word {
        let mut cursor = node.walk();
        let kinds: Vec<&str> = node.named_children(&mut cursor).map(|n| n.kind()).collect();
        let text = self.text(node);
        let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
        match inner {
            Some(inner) if kinds.iter().all(|k| *k == "string_content") => {
                Word::Literal(unescape(inner, &['$', '`', '"', '\\', '\n']), false)
            }
            _ => {
                self.inner_substitutions(node, nesting);
                let known =
                    kinds.iter().all(|k| matches!(*k, "string_content" | "command_substitution"));
                if known { Word::Output } else { Word::Unknown }
            }
        }
    }

    fn concatenation(&mut self, node: Node<'_>, nesting: usize) -> Word {
        let mut whole = Word::Literal(String::new(), false);
        let mut covered = 0;
        self.each(node, nesting, |walk, child| {
            let part = walk.word(child, nesting + 1);
            covered += child.byte_range().len();
            whole = match (&whole, part) {
                (Word::Literal(a, x), Word::Literal(b, y)) => {
                    Word::Literal(format!("{a}{b}"), *x || y)
                }
                (Word::Unknown, _) | (_, Word::Unknown) => Word::Unknown,
                _ => Word::Output,
            };
        });
        // Pieces without a node of their own (braces, lone dollar signs) may expand to anything.
        let between = node.byte_range().len() - covered;
        let braces = matches!(&whole, Word::Literal(text, _) if has_braces(text));
        if between > 0 || braces { Word::Unknown } else { whole }
    }

    /// Judges what runs inside of a word whose value is not known anyway.
    fn inner_substitutions(&mut self, node: Node<'_>, nesting: usize) {
        self.each(node, nesting, |walk, child| match child.kind() {
            "command_substitution" | "process_substitution" => {
                walk.substitution(child, nesting + 1);
            }
            _ => walk.inner_substitutions(child, nesting + 1),
        });
    }

    fn substitution(&mut self, node: Node<'_>, nesting: usize) {
        self.own_shell(node, nesting);
    }

    fn file_redirect(&mut self, node: Node<'_>, nesting: usize) {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let operator = children.iter().find(|n| !n.is_named()).map_or("", |n| n.kind());
        let targets = children.iter().filter(|n| n.is_named() && n.kind() != "file_descriptor");
        let targets: Vec<Word> = targets.map(|n| self.word(*n, nesting + 1)).collect();
        match targets.as_slice() {
            [] if operator.ends_with('-') => {}
            [word] => self.redirect(operator, word),
            _ => self.judge.doubt("a redirect is not understood"),
        }
    }

    fn redirect(&mut self, operator: &str, word: &Word) {
        let Some(path) = word.text() else {
            return self.judge.doubt("a redirect's file is not known beforehand");
        };
        let descriptor = path == "-" || path.bytes().all(|b| b.is_ascii_digit());
        match operator {
            ">&" | "<&" if descriptor && !path.is_empty() => {}
            "<" => self.judge.read_path(path),
            ">" | ">>" | ">|" | "&>" | "&>>" | ">&" => self.write(path),
            _ => self.judge.doubt("a redirect is not understood"),
        }
    }

    fn write(&mut self, path: &str) {
        let nowhere = ["/dev/null", "/dev/stdout", "/dev/stderr"].contains(&path);
        if nowhere || path.starts_with("/dev/fd/") {
            return;
        }
        if path.starts_with("/dev/") || path.starts_with("/proc/") || path.starts_with("/sys/") {
            return self.judge.doubt(format!("it writes to {path}"));
        }
        self.judge.found.writes.push(path.to_owned());
    }

    fn heredoc_part(&mut self, node: Node<'_>, nesting: usize) {
        match node.kind() {
            "heredoc_start" | "heredoc_end" | "heredoc_content" | "file_descriptor" => {}
            "heredoc_body" => {
                self.each(node, nesting, |walk, child| walk.heredoc_part(child, nesting + 1));
            }
            "command_substitution" => self.substitution(node, nesting),
            "simple_expansion" | "expansion" | "arithmetic_expansion" => {
                self.inner_substitutions(node, nesting);
                self.judge.doubt("a here-document holds a variable");
            }
            _ => self.statement(node, nesting),
        }
    }

    fn herestring(&mut self, node: Node<'_>, nesting: usize) {
        self.each(node, nesting, |walk, child| {
            if child.kind() != "file_descriptor" && walk.word(child, nesting + 1) == Word::Unknown {
                walk.judge.doubt("a here-string holds a variable");
            }
        });
    }

    fn assignment(&mut self, node: Node<'_>, nesting: usize) {
        let name = node.child_by_field_name("name").map(|n| self.text(n).to_owned());
        let name = name.unwrap_or_default();
        let value = node.child_by_field_name("value");
        let known = value.is_none_or(|v| self.word(v, nesting + 1).text().is_some());
        if !known || !HARMLESS_VARIABLES.contains(&name.as_str()) {
            self.judge.doubt(format!("it sets the variable {name}"));
        }
    }

    fn test(&mut self, node: Node<'_>, nesting: usize) {
        self.each(node, nesting, |walk, child| match child.kind() {
            "test_operator" => {}
            "binary_expression"
            | "unary_expression"
            | "parenthesized_expression"
            | "negated_command" => {
                walk.test(child, nesting + 1);
            }
            "regex" | "extglob_pattern" => walk.judge.doubt("a pattern in a test is not judged"),
            _ => match walk.word(child, nesting + 1) {
                Word::Literal(text, false) if !text.contains('[') => {
                    walk.judge.read_path(&text);
                }
                Word::Output => {}
                _ => walk.judge.doubt("a test holds a variable or a pattern"),
            },
        });
    }
}

/// Whether the grammar and the shell could part the text differently: control characters, foreign white
/// space, escaped blanks, or a line that is continued in the middle of a word.
fn is_ambiguous(text: &str) -> bool {
    let odd = |c: char| match c {
        ' ' | '\t' | '\n' => false,
        c => c.is_control() || c.is_whitespace() || ('\u{200b}'..='\u{200f}').contains(&c),
    };
    let mut lines: Vec<&str> = text.split("\\\n").collect();
    lines.pop();
    // The grammar takes an escaped blank for a blank; to the shell it is a part of the word.
    let escaped_blank = text.contains("\\ ") || text.contains("\\\t");
    text.contains(odd)
        || escaped_blank
        || lines.iter().any(|line| !line.ends_with([' ', '\t', '\n']))
}

/// A word without quotes.
fn plain_word(source: &str) -> Word {
    let glob = source.contains(['*', '?', '[']);
    if source.contains(['$', '`']) || has_braces(source) {
        return Word::Unknown;
    }
    let text = if source.contains('\\') { unescape(source, &[]) } else { source.to_owned() };
    Word::Literal(text, glob)
}

/// Whether braces would expand.
fn has_braces(text: &str) -> bool {
    text.find('{').is_some_and(|at| text[at..].contains(',') || text[at..].contains(".."))
}

/// Takes backslashes away; `only` names what they quote, or everything when it is empty.
fn unescape(text: &str, only: &[char]) -> String {
    let (mut out, mut chars) = (String::new(), text.chars().peekable());
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) if c == '\\' && (only.is_empty() || only.contains(next)) => {
                if *next != '\n' {
                    out.push(*next);
                }
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}
