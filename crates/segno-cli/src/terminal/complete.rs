//! What Tab offers in an interactive session.
//!
//! Responsible for: candidates for `/commands`, their arguments and `@files`, as a pure function of the
//! line. Must not: list directories itself; the caller hands in a function that knows what is ignored.

use super::clean;

/// How many candidates are offered at most.
const OFFERED_MAX: usize = 200;

/// A command that can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandHint {
    /// Without the slash.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// What may stand behind it, if that is a known list.
    pub arguments: Vec<String>,
}

/// One offer: these bytes of the line become this text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The first byte that is replaced.
    pub start: usize,
    /// Behind the last one.
    pub end: usize,
    /// By what.
    pub text: String,
    /// What it is.
    pub about: Option<String>,
    /// Whether a space follows; not behind a directory.
    pub space: bool,
}

/// Paths that begin with what was typed, relative to the working directory, directories with a `/` at
/// their end, nothing that git ignores.
pub type Files = dyn Fn(&str) -> Vec<String> + Send + Sync;

/// What can stand at `cursor`, a byte offset into `line`.
#[must_use]
pub fn complete(
    line: &str,
    cursor: usize,
    commands: &[CommandHint],
    files: &Files,
) -> Vec<Candidate> {
    let Some(typed) = line.get(..cursor) else { return Vec::new() };
    if let Some(at) = mention_start(typed) {
        return complete_file(typed, at, files);
    }
    let body = typed.trim_start();
    let start = typed.len() - body.len();
    let Some(rest) = body.strip_prefix('/') else { return Vec::new() };
    match rest.split_once(char::is_whitespace) {
        None => commands
            .iter()
            .filter(|command| command.name.starts_with(rest))
            .map(|command| Candidate {
                start,
                end: cursor,
                text: format!("/{}", command.name),
                about: Some(command.about.to_owned()),
                space: true,
            })
            .collect(),
        Some((name, argument)) => {
            let argument = argument.trim_start();
            let start = cursor - argument.len();
            let known = commands.iter().find(|command| command.name == name);
            known
                .into_iter()
                .flat_map(|command| &command.arguments)
                .filter(|text| text.starts_with(argument) && is_typeable(text))
                .take(OFFERED_MAX)
                .map(|text| Candidate {
                    start,
                    end: cursor,
                    text: text.clone(),
                    about: None,
                    space: true,
                })
                .collect()
        }
    }
}

/// Where the `@` of the path stands that is being typed at the end.
fn mention_start(typed: &str) -> Option<usize> {
    if let Some(at) = typed.rfind("@\"")
        && !typed[at + 2..].contains(['"', '\n'])
        && begins_word(typed, at)
    {
        return Some(at);
    }
    let word = typed
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + typed[at..].chars().next().map_or(1, char::len_utf8));
    typed[word..].starts_with('@').then_some(word)
}

fn begins_word(typed: &str, at: usize) -> bool {
    typed[..at].chars().next_back().is_none_or(char::is_whitespace)
}

fn complete_file(typed: &str, at: usize, files: &Files) -> Vec<Candidate> {
    let prefix = typed[at + 1..].trim_start_matches('"');
    files(prefix)
        .into_iter()
        .filter(|path| is_typeable(path))
        .take(OFFERED_MAX)
        .map(|path| {
            let directory = path.ends_with('/');
            let spaced = path.contains(char::is_whitespace);
            let text = match (spaced, directory) {
                (false, _) => format!("@{path}"),
                // The quote stays open, for what is in the directory.
                (true, true) => format!("@\"{path}"),
                (true, false) => format!("@\"{path}\""),
            };
            Candidate { start: at, end: typed.len(), text, about: None, space: !directory }
        })
        .collect()
}

/// A name that a terminal would not show as it is cannot be put on the line (G17).
fn is_typeable(text: &str) -> bool {
    !text.contains(['"', '\n', '\t']) && clean::block(text) == text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands() -> Vec<CommandHint> {
        let hint = |name, arguments: &[&str]| CommandHint {
            name,
            about: "does it",
            arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
        };
        vec![
            hint("resume", &[]),
            hint("rename", &[]),
            hint("thinking", &["off", "low", "low\x1b[2J"]),
        ]
    }

    fn files(prefix: &str) -> Vec<String> {
        ["src/", "src/main.rs", "my dir/", "my dir/a b.txt", "evil\x1b[2J.txt", "nul\n.txt"]
            .iter()
            .filter(|path| path.starts_with(prefix))
            .map(|path| (*path).to_owned())
            .collect()
    }

    /// The line after each candidate was taken; `|` is the cursor.
    fn check(line: &str, expected: &[&str]) {
        let cursor = line.find('|').unwrap();
        let line = line.replace('|', "");
        let taken: Vec<String> = complete(&line, cursor, &commands(), &files)
            .into_iter()
            .map(|c| {
                let space = if c.space { " " } else { "" };
                format!("{}{}{space}{}", &line[..c.start], c.text, &line[c.end..])
            })
            .collect();
        assert_eq!(taken, expected, "{line:?}");
    }

    /// Covers: G17.
    #[test]
    fn commands_arguments_and_files_are_offered() {
        check("/re|", &["/resume ", "/rename "]);
        check("  /res|", &["  /resume "]);
        check("/|", &["/resume ", "/rename ", "/thinking "]);
        check("/x|", &[]);
        check("/thinking |", &["/thinking off ", "/thinking low "]);
        check("/thinking l|", &["/thinking low "]);
        check("/unknown l|", &[]);
        check("say /re|", &[]);
        check("see @sr|", &["see @src/", "see @src/main.rs "]);
        check("@src/m|", &["@src/main.rs "]);
        check("@my|", &["@\"my dir/", "@\"my dir/a b.txt\" "]);
        check("@\"my dir/a|", &["@\"my dir/a b.txt\" "]);
        check("/resume @src/m|", &["/resume @src/main.rs "]);
        check("@e|", &[]);
        check("@n|", &[]);
        check("a@s|", &[]);
        check("世\u{3000}@src/m|", &["世\u{3000}@src/main.rs "]);
        check("plain|", &[]);
        check("@src/m| behind", &["@src/main.rs  behind"]);
    }

    #[test]
    fn a_cursor_that_makes_no_sense_offers_nothing() {
        assert!(complete("世", 1, &commands(), &files).is_empty());
        assert!(complete("/r", 9, &commands(), &files).is_empty());
    }
}
