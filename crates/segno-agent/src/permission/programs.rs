//! What well-known programs do with their arguments.
//!
//! Responsible for: the list of programs that only read, the flags that make them do more, and the
//! programs that run others. Must not: parse shell syntax. Long flags may be shortened by the
//! programs themselves, so a forbidden one is also recognised by its beginning.

use super::command::Word;
use super::operands;

/// What kind of call it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// It only reads.
    Reads,
    /// It changes the shell's directory to this one and does nothing else.
    Moves(String),
    /// It reads, and runs the program that these words begin with on what it finds.
    Searches(Vec<Word>),
    /// It runs the program that these words begin with.
    Wraps(Vec<Word>),
    /// It runs this script.
    Script(String),
    /// It is never taken for granted, or not understood.
    Doubt(String),
    /// Some other program.
    Other,
}

/// Programs that only read, whatever their arguments are.
const READS: &str = "\
    : arch b2sum basename cat cksum cmp comm cut df diff dirname du echo egrep exit expand \
    false fgrep fold grep head hexdump id join ls md5sum nl nproc od paste pwd readlink \
    realpath rev seq sha1sum sha256sum sha512sum sleep stat strings sum tac tail tr true tty \
    type uname unexpand uptime wait wc which whoami";

/// Programs that only read without certain flags: name, forbidden short letters, forbidden long flags.
const READS_WITHOUT: &[(&str, &str, &[&str])] = &[
    ("file", "Cf", &["--compile", "--files-from"]),
    ("printf", "v", &[]),
    ("rg", "z", &["--pre", "--pre-glob", "--hostname-bin", "--search-zip"]),
    ("sort", "oT", &["--output", "--compress-program", "--temporary-directory", "--files0-from"]),
    ("tree", "oR", &["--output", "--fromfile", "--fromtabfile"]),
];

/// Git subcommands that only read without certain flags.
const GIT_READS: &str = "\
    blame cat-file check-ignore count-objects describe diff diff-tree for-each-ref grep log \
    ls-files ls-tree merge-base name-rev rev-list rev-parse shortlog show show-ref status \
    version whatchanged";

/// Flags that make git run programs or write files.
const GIT_FORBIDDEN: &[&str] = &[
    "--output",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--open-files-in-pager",
    "--exec",
    "--exec-path",
    "--config-env",
    "--upload-pack",
    "--ext-grep",
    "--paginate",
];

/// Programs of which `--version` and `--help` are known to be harmless. Not among them: those that a
/// file of the project may replace by another program (`cargo` and `rustc` through
/// `rust-toolchain.toml`, `yarn` through `.yarnrc.yml`, `pnpm` through `package.json`).
const VERSIONED: &str = "\
    bash bun clang cmake deno docker gcc git java jq make node npm perl pip pip3 python python3 \
    rg ruby uv";

/// Shells.
const SHELLS: &str = "\
    ash bash dash ksh sh zsh";

/// Programs and builtins that run something else, change the shell, or gain rights.
const NEVER: &str = "\
    . alias bg bind builtin chroot complete compopt coproc declare disown doas enable eval \
    exec export fc fg getopts hash history let local mapfile parallel pkexec popd printenv \
    pushd read readarray readonly set shopt source ssh su sudo trap typeset ulimit umask \
    unalias unset watch";

/// Whether a list of words holds one.
pub(super) fn lists(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == word)
}

/// Says what a call of `name` with these arguments is.
pub(super) fn classify(name: &str, arguments: &[Word]) -> Program {
    let name = known_directory(name);
    if lists(NEVER, name) {
        return Program::Doubt(format!("`{name}` is asked about every time"));
    }
    if let [only] = arguments
        && only.text().is_some_and(|t| ["--version", "-V", "--help"].contains(&t))
        && lists(VERSIONED, name)
    {
        return Program::Reads;
    }
    if lists(SHELLS, name) {
        return shell(name, arguments);
    }
    match name {
        "cd" => cd(arguments),
        "date" => date(arguments),
        "test" | "[" => test(arguments),
        "git" => git(arguments),
        "find" => find(arguments),
        "sed" => sed(arguments),
        "uniq" => at_most_one_file(arguments),
        "xargs" => xargs(arguments),
        "env" => env(arguments),
        "command" => command(arguments),
        "time" | "nohup" | "nice" => wrapper(name, arguments),
        "timeout" => timeout(arguments),
        _ => reader(name, arguments),
    }
}

/// Whether this is git.
pub(super) fn is_git(name: &str) -> bool {
    known_directory(name) == "git"
}

/// The name without the directory, where that is one of the system's.
pub(super) fn known_directory(name: &str) -> &str {
    ["/bin/", "/usr/bin/", "/usr/local/bin/"]
        .into_iter()
        .find_map(|dir| name.strip_prefix(dir).filter(|rest| !rest.contains('/')))
        .unwrap_or(name)
}

fn reader(name: &str, arguments: &[Word]) -> Program {
    if lists(READS, name) {
        // What a substitution gives may be any path; only `echo` does nothing with it but show it.
        let vague = arguments.contains(&Word::Output) && name != "echo";
        return if vague { unknown_words(name) } else { Program::Reads };
    }
    match READS_WITHOUT.iter().find(|(program, ..)| *program == name) {
        Some((_, short, long)) => flags(name, arguments, short, long),
        None => Program::Other,
    }
}

fn unknown_words(name: &str) -> Program {
    Program::Doubt(format!("`{name}` gets words that are not known beforehand"))
}

/// Reads as long as no argument is, or could be, one of the forbidden flags.
fn flags(name: &str, arguments: &[Word], short: &str, long: &[&str]) -> Program {
    for word in arguments {
        let Word::Literal(text, glob) = word else { return unknown_words(name) };
        if *glob && text.starts_with(['*', '?', '[']) {
            return Program::Doubt(format!("a file's name could be a flag of `{name}`"));
        }
        if is_forbidden(text, short, long) {
            return Program::Doubt(format!("`{name} {text}` does more than read"));
        }
    }
    Program::Reads
}

fn is_forbidden(text: &str, short: &str, long: &[&str]) -> bool {
    if let Some(rest) = text.strip_prefix("--") {
        let flag = rest.split('=').next().unwrap_or(rest);
        return !flag.is_empty() && long.iter().any(|l| l[2..].starts_with(flag));
    }
    text.starts_with('-') && text.chars().any(|c| short.contains(c))
}

fn cd(arguments: &[Word]) -> Program {
    match arguments {
        [word] if word.text().is_some_and(leads_somewhere) => {
            Program::Moves(word.text().unwrap_or_default().to_owned())
        }
        _ => Program::Doubt("where `cd` leads is not known".to_owned()),
    }
}

fn leads_somewhere(directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    let in_git = directory.split('/').any(|part| part == ".git");
    !directory.is_empty() && !directory.starts_with('-') && !in_git
}

/// A word without a sign would set the clock.
fn date(arguments: &[Word]) -> Program {
    let Some(words) = texts(arguments) else { return unknown_words("date") };
    let mut value = false;
    for word in words {
        let expected = std::mem::replace(&mut value, ["-d", "--date", "-r"].contains(&word));
        if !expected && !word.starts_with(['+', '-']) || is_forbidden(word, "s", &["--set"]) {
            return Program::Doubt(format!("`date {word}` may set the clock"));
        }
    }
    Program::Reads
}

/// An index in a variable's name is evaluated, and can run something.
fn test(arguments: &[Word]) -> Program {
    let plain = |word: &Word| word.text().is_some_and(|text| !text.contains('['));
    if arguments.iter().all(plain) { Program::Reads } else { unknown_words("test") }
}

fn git(arguments: &[Word]) -> Program {
    let mut rest = arguments;
    while let Some(("--no-pager" | "-P" | "--no-optional-locks", tail)) = first(rest) {
        rest = tail;
    }
    let Some((sub, tail)) = first(rest) else { return unknown_words("git") };
    if sub.starts_with('-') {
        return Program::Doubt(format!("`git {sub}` can run programs or act elsewhere"));
    }
    if lists(GIT_READS, sub) {
        return flags(&format!("git {sub}"), tail, "O", GIT_FORBIDDEN);
    }
    let Some(words) = texts(tail) else { return Program::Other };
    if git_lists(sub, &words) { Program::Reads } else { Program::Other }
}

/// Subcommands that read or change depending on their arguments.
fn git_lists(sub: &str, words: &[&str]) -> bool {
    let only = |allowed: &[&str]| words.iter().all(|w| allowed.contains(w));
    match sub {
        "branch" => {
            only(&["-a", "-r", "-v", "-vv", "--all", "--remotes", "--list", "--show-current"])
        }
        "tag" => only(&["-l", "--list", "-n"]),
        "remote" => {
            only(&["-v", "--verbose"]) || matches!(words, ["get-url", w] if !w.starts_with('-'))
        }
        "stash" => matches!(words, ["list" | "show"]),
        "worktree" => matches!(words, ["list"] | ["list", "--porcelain"]),
        "reflog" => matches!(words, [] | ["show"]),
        "config" => matches!(words, ["--get", w] if !w.starts_with('-')),
        _ => false,
    }
}

fn first(words: &[Word]) -> Option<(&str, &[Word])> {
    let (first, rest) = words.split_first()?;
    Some((first.text()?, rest))
}

fn texts(words: &[Word]) -> Option<Vec<&str>> {
    words.iter().map(Word::text).collect()
}

fn find(arguments: &[Word]) -> Program {
    const WRITES: &[&str] =
        &["-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-ok", "-okdir"];
    let mut at = 0;
    let mut inner: Option<Vec<Word>> = None;
    while at < arguments.len() {
        let text = match &arguments[at] {
            Word::Literal(text, glob) if !(*glob && could_be_option(text)) => text.as_str(),
            _ => return unknown_words("find"),
        };
        if text == "-files0-from" {
            return Program::Doubt("`find -files0-from` goes where a file says".to_owned());
        }
        if WRITES.contains(&text) {
            return Program::Doubt(format!("`find {text}` does more than read"));
        }
        if matches!(text, "-exec" | "-execdir") {
            let rest = &arguments[at + 1..];
            let Some(end) = rest.iter().position(|w| matches!(w.text(), Some(";" | "+"))) else {
                return Program::Doubt("`find -exec` without an end".to_owned());
            };
            if inner.replace(rest[..end].to_vec()).is_some() {
                return Program::Doubt("`find` with more than one -exec".to_owned());
            }
            at += end + 1;
        }
        at += 1;
    }
    inner.map_or(Program::Reads, |words| match given_files("find -exec", words) {
        Program::Wraps(words) => Program::Searches(words),
        other => other,
    })
}

/// Whether a glob could match a file that is named like an option of `find`; those hold no dot.
fn could_be_option(glob: &str) -> bool {
    glob.starts_with(['*', '?', '[', '-']) && (!glob.contains('.') || glob.contains('['))
}

/// A program that gets further words which are file names.
fn given_files(by: &str, words: Vec<Word>) -> Program {
    let Some((name, rest)) = first(&words) else { return unknown_words(by) };
    let harmless =
        matches!(classify(name, rest), Program::Reads) && lists(READS, known_directory(name));
    if harmless {
        Program::Wraps(words)
    } else {
        Program::Doubt(format!("`{by}` runs `{name}` on files"))
    }
}

fn xargs(arguments: &[Word]) -> Program {
    let mut rest = arguments;
    while let Some((flag, tail)) = first(rest) {
        rest = match flag {
            "-0" | "-r" | "-t" | "--null" | "--no-run-if-empty" => tail,
            "-n" | "-P" | "-L" | "-I" | "-d" => tail.get(1..).unwrap_or(&[]),
            _ if attached_value(flag) => tail,
            _ if flag.starts_with('-') => {
                return Program::Doubt(format!("`xargs {flag}` is not understood"));
            }
            _ => break,
        };
    }
    match first(rest) {
        None if rest.is_empty() => Program::Reads,
        // What is fed to it can name any file.
        Some((name, words))
            if matches!(classify(name, words), Program::Reads)
                && !operands::opens_nothing(name) =>
        {
            Program::Doubt(format!("`xargs` has `{name}` read files that are not known beforehand"))
        }
        _ => given_files("xargs", rest.to_vec()),
    }
}

/// `-n1`, `-P4`, `-L2`, `-I{}`.
fn attached_value(flag: &str) -> bool {
    let number = ["-n", "-P", "-L"].into_iter().find_map(|f| flag.strip_prefix(f));
    flag == "-I{}" || number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Prints line ranges; anything else that `sed` can do includes writing and running.
fn sed(arguments: &[Word]) -> Program {
    let Some(words) = texts(arguments) else { return unknown_words("sed") };
    match words.as_slice() {
        ["-n", script, files @ ..]
            if is_print(script) && files.iter().all(|f| !f.starts_with('-')) =>
        {
            Program::Reads
        }
        _ => Program::Other,
    }
}

fn is_print(script: &str) -> bool {
    let Some(range) = script.strip_suffix('p') else { return false };
    let number = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    match range.split_once(',') {
        Some((from, to)) => number(from) && (number(to) || to == "$"),
        None => number(range),
    }
}

/// A second file would be written.
fn at_most_one_file(arguments: &[Word]) -> Program {
    let Some(words) = texts(arguments) else { return unknown_words("uniq") };
    let files = words.iter().filter(|w| !w.starts_with('-')).count();
    if files <= 1 { Program::Reads } else { Program::Other }
}

fn shell(name: &str, arguments: &[Word]) -> Program {
    match arguments {
        [flag, script] if matches!(flag.text(), Some("-c" | "-lc")) => match script.text() {
            Some(text) => Program::Script(text.to_owned()),
            None => Program::Doubt(format!("the script of `{name} -c` is not known beforehand")),
        },
        _ if texts(arguments).is_none() => unknown_words(name),
        [] => Program::Doubt(format!("`{name}` runs what it is fed")),
        _ => Program::Other,
    }
}

fn env(arguments: &[Word]) -> Program {
    match first(arguments) {
        None => Program::Doubt("`env` shows all variables, or is not understood".to_owned()),
        Some((word, _)) if word.starts_with('-') || word.contains('=') => {
            Program::Doubt("`env` sets variables".to_owned())
        }
        Some(_) => Program::Wraps(arguments.to_vec()),
    }
}

fn command(arguments: &[Word]) -> Program {
    match first(arguments) {
        Some(("-v" | "-V", _)) => Program::Reads,
        _ => wrapper("command", arguments),
    }
}

fn wrapper(name: &str, arguments: &[Word]) -> Program {
    match first(arguments) {
        Some((word, _)) if !word.starts_with('-') => Program::Wraps(arguments.to_vec()),
        _ => Program::Doubt(format!("this use of `{name}` is not understood")),
    }
}

fn timeout(arguments: &[Word]) -> Program {
    match first(arguments) {
        Some((time, rest))
            if time.starts_with(|c: char| c.is_ascii_digit()) && !rest.is_empty() =>
        {
            Program::Wraps(rest.to_vec())
        }
        _ => Program::Doubt("this use of `timeout` is not understood".to_owned()),
    }
}
