//! Colours for code, by what every language of a family has in common.
//!
//! Responsible for: comments, texts, numbers and words of the languages that sessions are full of, and diffs.
//! Every character comes out once, escaped. Must not: know a grammar; what is not sure stays plain.

use super::text::escape;

/// Text that is longer is not coloured.
const LONGEST: usize = 256 << 10;

/// What a family of languages has in common.
struct Family {
    names: &'static [&'static str],
    /// How a comment to the end of the line begins.
    comment: &'static [&'static str],
    /// How a comment of several lines begins and ends.
    block: Option<(&'static str, &'static str)>,
    quotes: &'static str,
    words: &'static str,
}

const C_WORDS: &str = "as async await break case catch class const continue crate def default delete do \
    else enum export extends extern false final finally fn for from func function go goto if impl implements \
    import in instanceof interface let loop match mod move mut namespace new nil null of package private \
    protected pub public range ref return self static struct super switch template this throw trait true try \
    type typedef typeof undefined union unsafe use using var virtual void volatile where while yield int long \
    short char bool float double string unsigned signed";

const FAMILIES: &[Family] = &[
    Family {
        names: &[
            "rust", "rs", "c", "h", "cpp", "cc", "hpp", "cxx", "java", "kotlin", "kt", "swift",
            "go", "cs", "csharp", "scala", "dart", "zig", "proto", "php", "groovy", "gradle",
        ],
        comment: &["//"],
        block: Some(("/*", "*/")),
        quotes: "\"",
        words: C_WORDS,
    },
    Family {
        names: &[
            "js",
            "javascript",
            "ts",
            "typescript",
            "tsx",
            "jsx",
            "mjs",
            "cjs",
            "css",
            "scss",
            "less",
        ],
        comment: &["//"],
        block: Some(("/*", "*/")),
        quotes: "\"'`",
        words: C_WORDS,
    },
    Family {
        names: &[
            "python", "py", "ruby", "rb", "elixir", "ex", "nix", "r", "perl", "pl", "starlark",
            "bzl",
        ],
        comment: &["#"],
        block: None,
        quotes: "\"'",
        words: "and as assert async await begin break case class continue def del do elif else elsif end ensure \
            except False finally for from global if import in is lambda let match module nil None nonlocal \
            not or pass raise require rescue return self then True try unless until when while with yield",
    },
    Family {
        names: &["sh", "bash", "zsh", "shell", "console", "fish", "dockerfile", "makefile", "make"],
        comment: &["#"],
        block: None,
        quotes: "\"'",
        words: "if then else elif fi for while until do done case esac in function return local export set unset \
            source exit cd echo sudo FROM RUN COPY ADD CMD ENTRYPOINT ENV WORKDIR ARG EXPOSE USER",
    },
    Family {
        names: &["json", "jsonc", "json5"],
        comment: &["//"],
        block: None,
        quotes: "\"",
        words: "true false null",
    },
    Family {
        names: &["toml", "yaml", "yml", "ini", "conf", "cfg", "properties", "env", "hcl", "tf"],
        comment: &["#", ";"],
        block: None,
        quotes: "\"'",
        words: "true false null yes no on off",
    },
    Family {
        names: &["sql", "psql", "sqlite"],
        comment: &["--"],
        block: Some(("/*", "*/")),
        quotes: "'\"",
        words: "select from where insert into values update set delete create table index view drop alter add \
            column primary key foreign references not null unique default and or in is like between join left \
            right inner outer on group by order having limit offset union all distinct as case when then else \
            end begin commit rollback with returning exists SELECT FROM WHERE INSERT INTO VALUES UPDATE SET \
            DELETE CREATE TABLE INDEX VIEW DROP ALTER ADD COLUMN PRIMARY KEY FOREIGN REFERENCES NOT NULL UNIQUE \
            DEFAULT AND OR IN IS LIKE BETWEEN JOIN LEFT RIGHT INNER OUTER ON GROUP BY ORDER HAVING LIMIT OFFSET \
            UNION ALL DISTINCT AS CASE WHEN THEN ELSE END BEGIN COMMIT ROLLBACK WITH RETURNING EXISTS",
    },
    Family {
        names: &["html", "xml", "svg", "vue", "svelte"],
        comment: &[],
        block: Some(("<!--", "-->")),
        quotes: "\"",
        words: "",
    },
    Family {
        names: &["lua", "haskell", "hs", "elm"],
        comment: &["--"],
        block: None,
        quotes: "\"",
        words: C_WORDS,
    },
];

/// Code as HTML. `language` is the word behind a fence, or the end of a file's name.
pub(super) fn colour(code: &str, language: &str) -> String {
    let language = language.split([' ', ',', '{', ':']).next().unwrap_or_default();
    let language = language.trim_start_matches('.').to_ascii_lowercase();
    if code.len() > LONGEST {
        return escape(code);
    }
    if matches!(language.as_str(), "diff" | "patch") {
        return diff(code);
    }
    let known = FAMILIES.iter().find(|family| family.names.contains(&language.as_str()));
    known.map_or_else(|| escape(code), |family| family.colour(code))
}

/// Whether text reads like a unified diff, from some line on.
pub(super) fn is_diff(text: &str) -> bool {
    let mut lines = text.lines().take(200);
    lines.any(|line| line.starts_with("@@ -") && line[4..].contains(" @@"))
}

/// A diff, line by line.
pub(super) fn diff(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for line in text.split_inclusive('\n') {
        let class = match line.as_bytes() {
            [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => "dh",
            [b'@', b'@', ..] => "dk",
            [b'+', ..] => "da",
            [b'-', ..] => "dr",
            _ => "",
        };
        push(&mut out, class, line);
    }
    out
}

/// Text in a class of its own, if it has one.
fn push(out: &mut String, class: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    if class.is_empty() {
        out.push_str(&escape(text));
        return;
    }
    out.push_str("<span class=\"");
    out.push_str(class);
    out.push_str("\">");
    out.push_str(&escape(text));
    out.push_str("</span>");
}

impl Family {
    fn colour(&self, code: &str) -> String {
        let mut out = String::with_capacity(code.len() * 2);
        let (mut at, mut plain) = (0, 0);
        while let Some(c) = code[at..].chars().next() {
            let (length, class) = self.token(code, at, c);
            if !class.is_empty() {
                push(&mut out, "", &code[plain..at]);
                push(&mut out, class, &code[at..at + length]);
                plain = at + length;
            }
            at += length;
        }
        push(&mut out, "", &code[plain..]);
        out
    }

    /// How long what begins here is, and what it is.
    fn token(&self, code: &str, at: usize, c: char) -> (usize, &'static str) {
        let rest = &code[at..];
        if let Some((open, close)) = self.block.filter(|(open, _)| rest.starts_with(open)) {
            let end = rest[open.len()..].find(close).map(|end| open.len() + end + close.len());
            return (end.unwrap_or(rest.len()), "hc");
        }
        // `#` within a word is none: `a#b`, `$#`.
        let free = code[..at].chars().next_back().is_none_or(char::is_whitespace);
        if self.comment.iter().any(|mark| rest.starts_with(mark) && (free || *mark == "//")) {
            let is_address = rest.starts_with("//") && code[..at].ends_with(':');
            let end = rest.find('\n').unwrap_or(rest.len());
            return if is_address { (2, "") } else { (end, "hc") };
        }
        if self.quotes.contains(c) {
            return (quoted(rest, c), "hs");
        }
        if c.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_');
            return (end.unwrap_or(rest.len()), "hn");
        }
        if c.is_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let is_word = self.words.split_ascii_whitespace().any(|word| word == &rest[..end]);
            return (end, if is_word { "hk" } else { "" });
        }
        (c.len_utf8(), "")
    }
}

/// The length of a text in quotes; one that is not closed ends with its line, but for a template's.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' if quote != '`' => return at,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_coloured() {
        let cases = [
            (
                "rs",
                "let x = 1; // a",
                "<span class=\"hk\">let</span> x = <span class=\"hn\">1</span>; <span class=\"hc\">// a</span>",
            ),
            (
                "py",
                "s = 'a#b' # c",
                "s = <span class=\"hs\">&#39;a#b&#39;</span> <span class=\"hc\"># c</span>",
            ),
            ("ts", "https://h/x", "https://h/x"),
            (
                "json",
                "{\"a\":null}",
                "{<span class=\"hs\">&quot;a&quot;</span>:<span class=\"hk\">null</span>}",
            ),
            (
                "diff",
                "+a\n-b\n c\n",
                "<span class=\"da\">+a\n</span><span class=\"dr\">-b\n</span> c\n",
            ),
            ("none", "<b>", "&lt;b&gt;"),
        ];
        for (language, code, expected) in cases {
            assert_eq!(colour(code, language), expected, "{language}");
        }
        assert!(is_diff("x\n@@ -1 +1 @@\n") && !is_diff("@@ x"));
    }

    /// Whatever comes in comes out, and nothing but spans is added. Covers: G17.
    #[test]
    fn colours_add_nothing_but_spans() {
        let codes = [
            "'",
            "\"\\",
            "`a\nb",
            "/*",
            "<!-- <script>",
            "é'ü\"<",
            "a//b/*c",
            "0x1F.e_9é",
            "#!<",
            "--<x",
        ];
        for family in FAMILIES {
            for code in codes {
                let html = colour(code, family.names[0]);
                let bare = html.replace("</span>", "");
                let mut text = String::new();
                for (i, part) in bare.split("<span class=\"").enumerate() {
                    text.push_str(if i == 0 { part } else { &part[4..] });
                }
                assert_eq!(text, escape(code), "{}: {html}", family.names[0]);
            }
        }
    }
}
