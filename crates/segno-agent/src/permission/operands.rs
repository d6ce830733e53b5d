//! Which words of a reading program are paths, and how far it reads there.
//!
//! Responsible for: a table of how well-known programs take their arguments. Must not: look at the file
//! system, or decide. Where the table does not know better, every word counts as a path: that asks once
//! too often, never once too seldom.

use super::command::Word;
use super::programs::{known_directory, lists};

/// A path that a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// As written in the command, quotes taken away.
    pub path: String,
    /// Whether it holds a glob.
    pub glob: bool,
    /// How much of a directory is read there.
    pub depth: Depth,
    /// How many changes of directory come before it.
    pub moves: usize,
}

/// How much of a directory is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// At most the names in it.
    Names,
    /// The content of all files beneath it that are not hidden.
    Shown,
    /// The content of all files beneath it.
    Files,
    /// The same, links followed.
    Linked,
}

/// Programs that open none of their operands.
const OPEN_NOTHING: &str = "\
    : arch basename dirname echo exit expr false id nproc printf pwd seq sleep tr true tty type \
    uname uptime wait which whoami";

/// Short flags, and long ones, whose values are no paths although they may look like some.
const VALUES: &[(&str, &str, &[&str])] = &[
    ("cut", "dfcb", &["--delimiter", "--output-delimiter"]),
    ("sort", "tkS", &["--field-separator", "--key"]),
    ("paste", "d", &["--delimiters"]),
    ("join", "t12oeav", &[]),
    ("nl", "sbhfdv", &[]),
    ("stat", "c", &["--format", "--printf"]),
    ("tree", "PIL", &[]),
    ("ls", "I", &["--ignore", "--hide", "--time-style"]),
    ("diff", "xIFUC", &["--exclude", "--label", "--ignore-matching-lines"]),
    ("git log", "SGnL", &["--grep", "--author", "--format", "--pretty", "--since", "--until"]),
];

/// How a program that searches takes its arguments: short flags without and with a value, long flags
/// without and with one. Beside any other flag its first operand is not taken for a pattern.
struct Search {
    programs: &'static str,
    plain: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
}

const SEARCHES: &[Search] = &[
    Search {
        programs: "grep egrep fgrep git",
        plain: "rRnilLwxvcoqshHEFGPaIUzZbTu0123456789",
        valued: "ABCm",
        long: &[
            "--recursive",
            "--ignore-case",
            "--line-number",
            "--files-with-matches",
            "--count",
            "--word-regexp",
            "--fixed-strings",
            "--extended-regexp",
            "--perl-regexp",
            "--text",
            "--only-matching",
            "--invert-match",
            "--no-messages",
            "--quiet",
            "--with-filename",
            "--no-filename",
            "--cached",
            "--untracked",
        ],
        long_valued: &[
            "--include",
            "--exclude",
            "--exclude-dir",
            "--max-count",
            "--context",
            "--after-context",
            "--before-context",
        ],
    },
    Search {
        programs: "rg",
        plain: "nilwvcoqsShHFPaIUNpuL.0x",
        valued: "ABCmtTgrjM",
        long: &[
            "--ignore-case",
            "--smart-case",
            "--line-number",
            "--no-line-number",
            "--count",
            "--files-with-matches",
            "--word-regexp",
            "--fixed-strings",
            "--multiline",
            "--hidden",
            "--no-ignore",
            "--no-heading",
            "--heading",
            "--only-matching",
            "--invert-match",
            "--no-filename",
            "--with-filename",
            "--no-messages",
            "--follow",
            "--pcre2",
            "--quiet",
        ],
        long_valued: &[
            "--type",
            "--type-not",
            "--glob",
            "--iglob",
            "--context",
            "--after-context",
            "--before-context",
            "--max-count",
            "--max-depth",
            "--color",
            "--sort",
            "--replace",
        ],
    },
];

/// What follows these in `find` is compared with names or times, and never opened.
const FIND_VALUES: &str = "\
    -amin -atime -cmin -ctime -empty -fstype -gid -group -ilname -iname -inum -ipath -iregex \
    -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -path -perm -printf -regex \
    -regextype -size -type -uid -used -user -wholename -xtype";

/// The paths among the arguments of a program that only reads.
pub(super) fn looks(name: &str, arguments: &[Word]) -> Vec<Look> {
    let words: Vec<(&str, bool)> = arguments
        .iter()
        .filter_map(|word| match word {
            Word::Literal(text, glob) => Some((text.as_str(), *glob)),
            _ => None,
        })
        .collect();
    let name = known_directory(name);
    match name {
        _ if opens_nothing(name) => {
            paths(words.into_iter().filter(|(_, glob)| *glob), Depth::Names)
        }
        "grep" | "egrep" | "fgrep" | "rg" => search(name, &words),
        "find" => find(&words),
        "git" => git(&words),
        "diff" if has_flag(&words, "r", &["--recursive"]) => plain(name, &words, Depth::Files),
        _ => plain(name, &words, Depth::Names),
    }
}

/// Whether a program opens none of its operands.
pub(super) fn opens_nothing(name: &str) -> bool {
    lists(OPEN_NOTHING, known_directory(name))
}

pub(super) fn look(path: &str, glob: bool, depth: Depth) -> Look {
    Look { path: path.to_owned(), glob, depth, moves: 0 }
}

fn paths<'a>(words: impl Iterator<Item = (&'a str, bool)>, depth: Depth) -> Vec<Look> {
    words.map(|(path, glob)| look(path, glob, depth)).collect()
}

/// Every operand, and every value of a flag that is not known to be something else.
fn plain(name: &str, words: &[(&str, bool)], depth: Depth) -> Vec<Look> {
    let (short, long) = VALUES
        .iter()
        .find(|(program, ..)| *program == name)
        .map_or(("", &[][..]), |(_, short, long)| (*short, *long));
    let (mut found, mut value, mut operands_only) = (Vec::new(), false, false);
    for (word, glob) in words {
        if std::mem::take(&mut value) {
            continue;
        }
        if operands_only || !word.starts_with('-') {
            found.push((*word, *glob));
        } else if *word == "--" {
            operands_only = true;
        } else if let Some((flag, given)) = long_flag(word) {
            match (long.contains(&flag), given) {
                (true, None) => value = true,
                (false, Some(given)) => found.push((given, *glob)),
                _ => {}
            }
        } else if let Some(at) = word.find(|c| short.contains(c)) {
            value = at + 1 == word.len();
        } else {
            found.extend(attached(word).map(|path| (path, *glob)));
        }
    }
    paths(found.into_iter(), depth)
}

/// `--flag`, and what stands behind its `=`.
fn long_flag(word: &str) -> Option<(&str, Option<&str>)> {
    word.starts_with("--").then(|| match word.split_once('=') {
        Some((flag, given)) => (flag, Some(given)),
        None => (word, None),
    })
}

/// What could be the path in `-fPATH`: behind the first letter, and from where it looks like one.
fn attached(word: &str) -> impl Iterator<Item = &str> {
    let behind = word.char_indices().nth(2).map(|(at, _)| &word[at..]);
    let looks = word.find(['/', '~', '.']).map(|at| &word[at..]);
    behind.into_iter().chain(looks)
}

fn has_flag(words: &[(&str, bool)], short: &str, long: &[&str]) -> bool {
    words.iter().any(|(word, _)| match long_flag(word) {
        // Long flags may be shortened.
        Some((flag, _)) => flag.len() > 2 && long.iter().any(|long| long.starts_with(flag)),
        None => word.starts_with('-') && word[1..].contains(|c| short.contains(c)),
    })
}

fn search(name: &str, words: &[(&str, bool)]) -> Vec<Look> {
    let depth = match name {
        "rg" if has_flag(words, "L", &["--follow"]) => Depth::Linked,
        "rg" if has_flag(words, "ug.", &["--hidden", "--glob", "--iglob", "--no-ignore"]) => {
            Depth::Files
        }
        "rg" => Depth::Shown,
        _ if has_flag(words, "R", &["--dereference-recursive"]) => Depth::Linked,
        _ if has_flag(words, "rd", &["--recursive", "--directories"]) => Depth::Files,
        _ => Depth::Names,
    };
    let pattern = pattern_at(name, words);
    let others = words.iter().enumerate().filter(|(at, _)| Some(*at) != pattern);
    let others: Vec<(&str, bool)> = others.map(|(_, word)| *word).collect();
    let mut found = plain(name, &others, depth);
    let operands = words.iter().filter(|(word, _)| !word.starts_with('-')).count();
    if depth != Depth::Names && operands <= 1 {
        found.push(look(".", false, depth));
    }
    found
}

/// Which word is the pattern; none if that cannot be told.
fn pattern_at(name: &str, words: &[(&str, bool)]) -> Option<usize> {
    let known = SEARCHES.iter().find(|search| lists(search.programs, name))?;
    let (mut pattern, mut value, mut operands_only) = (None, false, false);
    for (at, (word, glob)) in words.iter().enumerate() {
        if std::mem::take(&mut value) {
            continue;
        }
        if operands_only || !word.starts_with('-') {
            // An unquoted glob can become several words.
            pattern = pattern.or((!glob).then_some(at));
            pattern?;
        } else if *word == "--" {
            operands_only = true;
        } else if let Some((flag, given)) = long_flag(word) {
            let valued = known.long_valued.contains(&flag) || flag == "--color";
            value = valued && given.is_none();
            if !valued && !known.long.contains(&flag) || *word == "--color" && name != "rg" {
                return None;
            }
        } else {
            let letters = &word[1..];
            let end = letters.find(|c| known.valued.contains(c));
            let flags = &letters[..end.unwrap_or(letters.len())];
            if !flags.chars().all(|c| known.plain.contains(c)) {
                return None;
            }
            value = end.is_some_and(|at| at + 1 == letters.len());
        }
    }
    pattern
}

fn git(words: &[(&str, bool)]) -> Vec<Look> {
    let sub = words.iter().position(|(word, _)| !word.starts_with('-')).unwrap_or(words.len());
    let rest = words.get(sub + 1..).unwrap_or_default();
    match words.get(sub) {
        Some(("grep", _)) => {
            let pattern = pattern_at("git", rest);
            let others = rest.iter().enumerate().filter(|(at, _)| Some(*at) != pattern);
            let others: Vec<(&str, bool)> = others.map(|(_, word)| *word).collect();
            let outside = has_flag(rest, "", &["--no-index"]);
            let mut found =
                plain("git grep", &others, if outside { Depth::Files } else { Depth::Names });
            if outside {
                found.push(look(".", false, Depth::Files));
            }
            found
        }
        Some(("log", _)) => plain("git log", rest, Depth::Names),
        Some(("diff", _)) if has_flag(rest, "", &["--no-index"]) => {
            plain("git diff", rest, Depth::Files)
        }
        _ => plain("git", rest, Depth::Names),
    }
}

fn find(words: &[(&str, bool)]) -> Vec<Look> {
    let runs = words.iter().any(|(word, _)| matches!(*word, "-exec" | "-execdir"));
    let depth = if runs { Depth::Linked } else { Depth::Names };
    let (mut found, mut at) = (Vec::new(), 0);
    let mut expression = false;
    while let Some((word, glob)) = words.get(at) {
        at += 1;
        if matches!(*word, "-exec" | "-execdir") {
            let rest = &words[at..];
            at += rest.iter().position(|(w, _)| matches!(*w, ";" | "+")).unwrap_or(rest.len());
        } else if lists(FIND_VALUES, word) && *word != "-empty" {
            at += 1;
        } else if !word.starts_with('-') {
            found.push((*word, *glob));
        }
        expression |= word.starts_with('-') && !matches!(*word, "-H" | "-L" | "-P");
    }
    let named = words.first().is_some_and(|(word, _)| !word.starts_with(['-', '(', '!']));
    if !named || !expression && found.is_empty() {
        found.push((".", false));
    }
    paths(found.into_iter(), depth)
}
