//! Files that a person names with `@` in a prompt.
//!
//! Responsible for: the rule for what an `@` names, and turning named files into blocks that stand behind
//! the text. Must not: change the text itself, or send anything: a file that is not there is told to
//! whoever asks, before anything is paid for.
//!
//! The rule: an `@` counts at the beginning of a word (also behind an opening bracket or quote), followed
//! by `"a path"`, `'a path'`, or a path up to the next white space, where a backslash quotes one character.
//! Punctuation at its end is the sentence's unless the file is called so. `~/` is the home directory.
//! What names no file is missed only if it looks like a path: quoted, beginning with `/`, `./`, `../` or
//! `~/`, with a directory of it that exists, or with the ending of a common kind of file. Everything else
//! (`@param`, `@types/node`, `me@example.org`) is a word.

use base64::Engine as _;
use segno_model::record::{Block, Text};
use std::path::{Path, PathBuf};

/// Attached text files are cut at this size; the model can read on with its tool.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// Larger images are not kept in a session; what a provider takes of one is made for each request.
const MAX_IMAGE_BYTES: usize = 20 * 1024 * 1024;

/// Endings of files that people name in prompts.
const ENDINGS: &str = "\
    bash c cc cfg conf cpp cs css csv gif go h hpp html ini ipynb java jpeg jpg js json jsonl jsx kt \
    lock log lua md mjs pdf php pl png proto py rb rs scss sh sql svg swift toml ts tsx txt vue webp \
    xml yaml yml zig zsh";

/// What ends a sentence, not a path.
const PUNCTUATION: [char; 13] = [',', '.', ';', ':', '?', '!', ')', ']', '}', '>', '"', '\'', '`'];

/// Where names lead.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// The home directory.
    pub home: Option<&'a Path>,
}

/// What a text names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// Files that are there, as they were named, each once and in order.
    pub files: Vec<String>,
    /// What looks like a path and is no file.
    pub missing: Vec<String>,
}

impl Places<'_> {
    /// The files that a text names.
    #[must_use]
    pub fn named(&self, text: &str) -> Named {
        let mut named = Named::default();
        for mention in mentions(text) {
            let trimmed = mention.path.trim_end_matches(PUNCTUATION).to_owned();
            let spellings =
                if mention.quoted { vec![mention.path] } else { vec![mention.path, trimmed] };
            let found = spellings.iter().find(|path| self.path(path).is_file());
            let last = spellings.last().filter(|path| !path.is_empty());
            let (list, path) = match (found, last) {
                (Some(path), _) => (&mut named.files, path),
                (None, Some(path)) if mention.quoted || self.looks_like_a_path(path) => {
                    (&mut named.missing, path)
                }
                _ => continue,
            };
            if !list.contains(path) {
                list.push(path.clone());
            }
        }
        named
    }

    /// The named files as blocks, in order. One that cannot be read is a block that says so.
    #[must_use]
    pub fn attached(&self, text: &str) -> Vec<Block> {
        self.named(text).files.iter().map(|name| attach(name, &self.path(name))).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        match (name.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.cwd.join(name),
        }
    }

    fn looks_like_a_path(&self, name: &str) -> bool {
        let plain = |c: char| c.is_alphanumeric() || "/._-~+ @%".contains(c);
        if !name.chars().all(plain) || self.path(name).is_dir() {
            return false;
        }
        let begins = ["/", "./", "../", "~/"].iter().any(|start| name.starts_with(start));
        let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
        let first = directory.split('/').next().filter(|first| !first.is_empty());
        let ending = file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
        begins
            || first.is_some_and(|first| self.path(first).is_dir())
            || ending.is_some_and(|ending| ENDINGS.split_ascii_whitespace().any(|e| e == ending))
    }
}

/// One `@` that counts.
struct Mention {
    path: String,
    quoted: bool,
}

fn mentions(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut before: Option<char> = None;
    for (at, c) in text.char_indices() {
        if c == '@' && before.is_none_or(|c| c.is_whitespace() || "([{<\"'`".contains(c)) {
            found.extend(mention(&text[at + 1..]));
        }
        before = Some(c);
    }
    found
}

fn mention(rest: &str) -> Option<Mention> {
    if let Some(quote @ ('"' | '\'')) = rest.chars().next() {
        let (path, _) = rest[1..].split_once(quote)?;
        let whole = !path.is_empty() && !path.contains('\n');
        return whole.then(|| Mention { path: path.to_owned(), quoted: true });
    }
    let (mut path, mut chars) = (String::new(), rest.chars());
    while let Some(c) = chars.next().filter(|c| !c.is_whitespace()) {
        match c {
            '\\' => path.extend(chars.next()),
            c => path.push(c),
        }
    }
    (!path.is_empty()).then_some(Mention { path, quoted: false })
}

fn attach(name: &str, path: &Path) -> Block {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => return Block::text(format!("[{name}: cannot be read: {error}]")),
    };
    if let Some(media_type) = image_type(&bytes) {
        if bytes.len() > MAX_IMAGE_BYTES {
            return Block::text(format!("[{name}: an image that is too large to attach]"));
        }
        let data = Text::Inline(base64::engine::general_purpose::STANDARD.encode(&bytes));
        return Block::Image { media_type: media_type.to_owned(), data };
    }
    if bytes.contains(&0) {
        return Block::text(format!("[{name}: a binary file of {} bytes]", bytes.len()));
    }
    let cut = &bytes[..bytes.len().min(MAX_TEXT_BYTES)];
    let text = String::from_utf8_lossy(cut);
    let note = if cut.len() < bytes.len() {
        format!("\n[cut after {MAX_TEXT_BYTES} of {} bytes]", bytes.len())
    } else {
        String::new()
    };
    Block::text(format!("<file path=\"{name}\">\n{text}{note}\n</file>"))
}

/// The image type by its first bytes.
pub(crate) fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prompt, the files that it attaches, and what it misses.
    const ROWS: &[(&str, &str, &str)] = &[
        ("plain words", "", ""),
        ("see @a.txt", "a.txt", ""),
        ("see @a.txt, and (@a.txt) too", "a.txt", ""),
        ("look at @b.png!", "b.png", ""),
        ("@c.bin?", "c.bin", ""),
        ("@a.txt @b.png", "a.txt,b.png", ""),
        ("`@a.txt` \"@b.png\" [@c.bin]", "a.txt,b.png,c.bin", ""),
        ("@\"with space.txt\" please", "with space.txt", ""),
        ("@'with space.txt'.", "with space.txt", ""),
        ("@with\\ space.txt, please", "with space.txt", ""),
        ("@src/main.rs and @./a.txt", "src/main.rs,./a.txt", ""),
        ("@~/notes.md", "~/notes.md", ""),
        ("@世界.md.", "世界.md", ""),
        ("@odd.", "odd.", ""),
        ("@Makefile", "Makefile", ""),
        // Missed, because they look like paths.
        ("see @missing.txt", "", "missing.txt"),
        ("see @missing.txt.", "", "missing.txt"),
        ("@src/nothing", "", "src/nothing"),
        (
            "@./nothing @../nothing @/nothing/x @~/nothing",
            "",
            "./nothing,../nothing,/nothing/x,~/nothing",
        ),
        ("@\"no such file\"", "", "no such file"),
        ("@no\\ such.txt", "", "no such.txt"),
        ("@a.txt and @sr/main.rs", "a.txt", "sr/main.rs"),
        // Words.
        ("mail me@example.com or me@a.txt", "", ""),
        ("@param x the @returns of @dataclass", "", ""),
        ("@types/node and @angular/core", "", ""),
        ("@media (max-width: 3px) { @import url(x.css) }", "", ""),
        ("@app.route(\"/x\") @pytest.fixture @a.setter", "", ""),
        ("thanks @octocat!", "", ""),
        ("@ @. @@ @\"open", "", ""),
        ("@src", "", ""),
        ("git show HEAD@{1}", "", ""),
        ("user@host:/etc/x.conf", "", ""),
        ("\\@a.txt", "", ""),
    ];

    #[test]
    fn what_an_at_sign_names() {
        let dir = tempfile::tempdir().expect("a directory");
        let (cwd, home) = (dir.path().join("work"), dir.path().join("home"));
        std::fs::create_dir_all(cwd.join("src")).expect("made");
        std::fs::create_dir_all(&home).expect("made");
        for name in [
            "a.txt",
            "b.png",
            "c.bin",
            "with space.txt",
            "src/main.rs",
            "世界.md",
            "odd.",
            "Makefile",
        ] {
            std::fs::write(cwd.join(name), "hello").expect("written");
        }
        std::fs::write(home.join("notes.md"), "hello").expect("written");
        let places = Places { cwd: &cwd, home: Some(&home) };
        for (prompt, files, missing) in ROWS {
            let named = places.named(prompt);
            let found = (named.files.join(","), named.missing.join(","));
            assert_eq!(found, ((*files).to_owned(), (*missing).to_owned()), "{prompt}");
        }
    }

    #[test]
    fn files_become_blocks() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(dir.path().join(name), bytes).expect("written");
        };
        write("a.txt", b"hello");
        write("b.png", &[0x89, b'P', b'N', b'G', 0]);
        write("c.bin", &[1, 0, 2]);
        write("long.txt", "x".repeat(MAX_TEXT_BYTES + 1).as_bytes());
        let places = Places { cwd: dir.path(), home: None };
        let shown: Vec<String> =
            places.attached("@a.txt @b.png @c.bin @long.txt").iter().map(show).collect();
        assert_eq!(
            shown[..3],
            [
                "<file path=\"a.txt\">\nhello\n</file>",
                "image/png",
                "[c.bin: a binary file of 3 bytes]"
            ]
        );
        assert!(shown[3].ends_with("[cut after 262144 of 262145 bytes]\n</file>"));
    }

    fn show(block: &Block) -> String {
        match block {
            Block::Image { media_type, .. } => media_type.clone(),
            Block::Text { text } => text.head().to_owned(),
            Block::Unknown => "unknown".to_owned(),
        }
    }
}
