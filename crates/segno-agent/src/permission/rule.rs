//! A rule that allows every command beginning with certain words.
//!
//! Responsible for: its text, what it covers, and which rule may be offered for a command. Must not:
//! read or write the user's configuration.

use super::programs::lists;
use std::fmt;

/// The words that a command has to begin with. Lives in the user's configuration, never in a
/// repository's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PrefixRule {
    words: Vec<String>,
}

/// Programs whose first argument says what they do; a rule needs that word too.
const WITH_SUBCOMMAND: &str = "\
    apt apt-get brew bun bundle cargo composer conda docker dotnet gem gh git glab go gradle \
    helm jj just kubectl make mix mvn nix npm pip pip3 pnpm podman poetry rustup systemctl \
    terraform uv yarn zig";

/// Subcommands whose own first argument says what they do.
const WITH_SCRIPT: &[(&str, &str)] = &[
    ("npm", "run"),
    ("pnpm", "run"),
    ("yarn", "run"),
    ("bun", "run"),
    ("docker", "compose"),
    ("git", "remote"),
    ("git", "stash"),
    ("git", "worktree"),
];

/// Programs that run whatever they are given, or destroy: each use asks.
const NEVER: &str = "\
    ash at awk bash busybox chmod chown command cp crontab csh curl dash dd deno doas ed emacs \
    env eval exec expect find fish gawk gdb install kill killall ksh less ln lua man mkfs more \
    mount mv nano nc ncat nice node nohup npx osascript parallel perl php pipx pkexec pkill \
    pwsh python python2 python3 reboot rename rm rmdir rsync ruby scp screen script sed sftp \
    sh shred shutdown socat source ssh strace su sudo tar tclsh tee telnet time timeout tmux \
    truncate umount uniq unlink unzip uvx vi vim watch wget xargs zsh";

/// Subcommands that run whatever they are given.
const NEVER_SUB: &[(&str, &str)] = &[
    ("docker", "exec"),
    ("docker", "run"),
    ("podman", "exec"),
    ("podman", "run"),
    ("npm", "exec"),
    ("pnpm", "dlx"),
    ("pnpm", "exec"),
    ("yarn", "dlx"),
    ("yarn", "exec"),
    ("bun", "x"),
    ("git", "config"),
    ("kubectl", "exec"),
    ("uv", "run"),
    ("poetry", "run"),
    ("bundle", "exec"),
    ("nix", "run"),
    ("nix", "shell"),
    ("nix", "develop"),
    ("go", "run"),
    ("conda", "run"),
];

impl PrefixRule {
    /// A rule from its words as the user wrote them; none when there are no words.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some(Self { words })
    }

    /// Whether a command, all of its words known, begins with the rule's words.
    #[must_use]
    pub fn covers(&self, words: &[String]) -> bool {
        words.starts_with(&self.words)
    }

    /// The rule that may be offered for a command, if one may.
    pub(super) fn offer(words: &[String]) -> Option<Self> {
        let program = words.first()?.as_str();
        // A relative path means another file in every project.
        let relative = program.contains('/') && !program.starts_with('/');
        let base = program.rsplit('/').next().unwrap_or(program);
        let versioned = base.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if relative || lists(NEVER, base) || lists(NEVER, versioned) {
            return None;
        }
        let mut length = 1;
        if lists(WITH_SUBCOMMAND, base) {
            let sub = plain(words.get(1)?)?;
            if NEVER_SUB.contains(&(base, sub)) {
                return None;
            }
            length = 2;
            if WITH_SCRIPT.contains(&(base, sub)) {
                plain(words.get(2)?)?;
                length = 3;
            }
        }
        let words = &words[..length];
        // The rule's text has to give the same words when it is read again.
        let readable = words.iter().all(|w| !w.is_empty() && !w.contains(char::is_whitespace));
        readable.then(|| Self { words: words.to_vec() })
    }
}

fn plain(word: &str) -> Option<&str> {
    (!word.starts_with('-')).then_some(word)
}

impl fmt::Display for PrefixRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words.join(" "))
    }
}
