//! The front matter of a role's file.
//!
//! Responsible for: the part of YAML in which such files are written, read strictly: texts, plain, quoted or in blocks,
//! and lists. What is written otherwise is refused with its line, because what a guess leaves out may be what
//! keeps a role from a tool. Must not: know what a field means.

use crate::file_note::FileFault;
use std::collections::BTreeMap;

/// What a role is asked to be, by field. Case, `-` and `_` do not tell fields apart.
#[derive(Debug, Default)]
pub(super) struct Fields(BTreeMap<String, Field>);

/// One field.
#[derive(Debug, Default)]
pub(super) struct Field {
    /// Where it is, from 1.
    pub(super) line: usize,
    /// As the file spells it.
    pub(super) name: String,
    /// Behind its colon.
    first: String,
    /// The lines that belong to it.
    below: Vec<(usize, String)>,
}

/// Words in fields that say what a role may do: nowhere are they passed over.
const WEIGHTY: [&str; 2] = ["tool", "permission"];

/// Splits a file into its fields and what follows.
///
/// # Errors
/// What keeps either from being certain.
pub(super) fn read(text: &str) -> Result<(Fields, &str), FileFault> {
    let (mut at, mut opened, mut front) = (0, false, Vec::new());
    for (i, line) in text.split_inclusive('\n').enumerate() {
        at += line.len();
        match (opened, line.trim_end()) {
            (false, "") => {}
            (false, "---") => opened = true,
            (false, line) if line.trim_start().starts_with("---") => {
                return Err(unclear(i + 1, "`---` does not stand alone there"));
            }
            (false, _) => return Err(FileFault::NoFrontMatter),
            (true, "---" | "...") => return Ok((fields(&front)?, text.get(at..).unwrap_or(""))),
            (true, line) => front.push((i + 1, line)),
        }
    }
    Err(if opened { FileFault::OpenFrontMatter } else { FileFault::NoFrontMatter })
}

/// The name that a file gives itself, as far as can be told of one that cannot be read.
pub(super) fn named(text: &str) -> Option<String> {
    let mut found = text.lines().filter_map(|line| key(line.trim()));
    let found = found.find(|(key, _)| plain(key) == "name")?.1.to_owned();
    let field = Field { first: found, ..Field::default() };
    field.text().ok()
}

pub(super) fn unclear(line: usize, why: &str) -> FileFault {
    FileFault::Unclear { line, why: why.to_owned() }
}

impl Fields {
    /// Takes one of them out.
    pub(super) fn take(&mut self, key: &str) -> Option<Field> {
        self.0.remove(key)
    }

    /// Those that are left, by plain name.
    pub(super) fn rest(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.0.iter().map(|(key, field)| (key.as_str(), field))
    }
}

/// Whether a field of this plain name, or one that is spelt like it, says what a role may do.
pub(super) fn is_weighty(key: &str) -> bool {
    WEIGHTY.iter().any(|word| key.contains(word))
}

fn fields(front: &[(usize, &str)]) -> Result<Fields, FileFault> {
    let mut fields: Vec<(String, Field)> = Vec::new();
    for (number, line) in front {
        let number = *number;
        let newest = fields.last_mut().map(|(_, field)| field);
        if line.starts_with('#') || (line.is_empty() && newest.is_none()) {
            continue;
        }
        if line.is_empty() || line.starts_with([' ', '\t', '-']) {
            let Some(field) = newest else {
                return Err(unclear(number, "it is indented, and belongs to nothing"));
            };
            field.push(number, line)?;
            continue;
        }
        let Some((name, value)) = key(line) else {
            return Err(unclear(number, "it is no `field: value`"));
        };
        let field = Field {
            line: number,
            name: name.to_owned(),
            first: value.to_owned(),
            below: Vec::new(),
        };
        let plain = plain(name);
        if fields.iter().any(|(known, _)| *known == plain) {
            return Err(unclear(number, &format!("`{name}` is there twice")));
        }
        fields.push((plain, field));
    }
    Ok(Fields(fields.into_iter().collect()))
}

/// A line that begins with a field's name, and what is behind the colon.
fn key(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim_end();
    let inner = |quote: char| name.strip_prefix(quote).and_then(|n| n.strip_suffix(quote));
    let name = inner('"').or_else(|| inner('\'')).unwrap_or(name);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let apart = value.is_empty() || value.starts_with([' ', '\t']);
    (!name.is_empty() && name.chars().all(is_word) && apart).then(|| (name, value.trim()))
}

fn plain(name: &str) -> String {
    let plain = name.chars().filter(char::is_ascii_alphanumeric);
    plain.map(|c| c.to_ascii_lowercase()).collect()
}

impl Field {
    fn push(&mut self, number: usize, line: &str) -> Result<(), FileFault> {
        let stray = || unclear(number, "it is indented, and belongs to nothing");
        let is_alone = self.first.is_empty() || uncommented(&self.first).is_empty();
        if line.starts_with('-') && !is_alone {
            return Err(unclear(number, "it is no `field: value`"));
        }
        if self.block().is_none()
            && let Some((name, _)) = key(line.trim())
            // What a field that means nothing here holds may have any names but these.
            && (is_weighty(&plain(name)) || !(is_alone || self.is_open()))
        {
            return Err(stray());
        }
        self.below.push((number, line.trim().to_owned()));
        Ok(())
    }

    /// Whether its value may go on in the next line whatever that looks like.
    fn is_open(&self) -> bool {
        self.first.starts_with(['"', '\'', '[', '{'])
    }

    /// Between the lines of a block of text.
    fn block(&self) -> Option<&'static str> {
        let mark = uncommented(&self.first);
        let between = match mark.chars().next()? {
            '|' => "\n",
            '>' => " ",
            _ => return None,
        };
        let is_mark = |c: char| c == '-' || c == '+' || c.is_ascii_digit();
        mark.chars().skip(1).all(is_mark).then_some(between)
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.below.iter().map(|(_, line)| line.as_str())
    }

    /// As one text.
    ///
    /// # Errors
    /// Where it cannot be told what that is.
    pub(super) fn text(&self) -> Result<String, FileFault> {
        if let Some(between) = self.block() {
            return Ok(self.lines().collect::<Vec<_>>().join(between).trim().to_owned());
        }
        let all = || std::iter::once(self.first.as_str()).chain(self.lines());
        if self.first.starts_with(['"', '\'']) {
            let joined = all().collect::<Vec<_>>().join(" ");
            return match quoted(&joined) {
                Some((text, rest)) if uncommented(rest).is_empty() => Ok(text.trim().to_owned()),
                _ => Err(unclear(self.line, "its quotes do not close at its end")),
            };
        }
        if self.first.is_empty() && self.lines().any(|line| key(line).is_some()) {
            return Err(unclear(self.line, "it is no text"));
        }
        Ok(all().map(uncommented).collect::<Vec<_>>().join(" ").trim().to_owned())
    }

    /// As a list of names: `a, b`, `[a, b]`, or lines that begin with a dash.
    ///
    /// # Errors
    /// Where it cannot be told what that is.
    pub(super) fn names(&self) -> Result<Vec<String>, FileFault> {
        if self.block().is_some() {
            return self.split(&self.text()?.replace('\n', ","));
        }
        let first = uncommented(&self.first);
        let below = self.below.iter().map(|(n, line)| (*n, uncommented(line)));
        let below = below.filter(|(_, line)| !line.is_empty());
        if first.is_empty() {
            let items = below.map(|(number, line)| match line.strip_prefix('-') {
                Some(item) if item.is_empty() || item.starts_with([' ', '\t']) => Ok(item),
                _ => Err(unclear(number, "it is no item of a list")),
            });
            return self.split(&items.collect::<Result<Vec<_>, _>>()?.join(","));
        }
        if let Some((number, _)) = below.clone().find(|(_, line)| line.starts_with('-')) {
            return Err(unclear(number, "it is no item of a list"));
        }
        let joined = below.fold(first.to_owned(), |all, (_, line)| format!("{all} {line}"));
        match joined.strip_prefix('[') {
            None => self.split(&joined),
            Some(inner) => match inner.strip_suffix(']') {
                Some(inner) => self.split(inner),
                None => Err(unclear(self.line, "its list has no end")),
            },
        }
    }

    /// The names between commas; one that is quoted as a whole may hold several.
    fn split(&self, list: &str) -> Result<Vec<String>, FileFault> {
        let mut names = Vec::new();
        for item in between_commas(list) {
            let item = item.trim();
            let inner = match item.starts_with(['"', '\'']) {
                false => item.to_owned(),
                true => match quoted(item) {
                    Some((inner, "")) => inner,
                    _ => return Err(unclear(self.line, "its quotes do not close at its end")),
                },
            };
            names.extend(between_commas(&inner).into_iter().map(|name| name.trim().to_owned()));
        }
        names.retain(|name| !name.is_empty());
        match names.iter().find(|name| !is_name(name)) {
            Some(odd) => Err(unclear(self.line, &format!("{odd:?} is no tool's name"))),
            None => Ok(names),
        }
    }
}

/// Whether this can be one name, with what it is narrowed to in brackets.
fn is_name(item: &str) -> bool {
    let (name, brackets) = item.split_at(item.find('(').unwrap_or(item.len()));
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '*' | '/' | ':');
    let narrowed = brackets.is_empty() || brackets.ends_with(')');
    !name.is_empty() && name.chars().all(fits) && narrowed
}

/// Splits at commas that are neither in quotes nor in brackets.
fn between_commas(list: &str) -> Vec<&str> {
    let (mut parts, mut from, mut depth, mut quote) = (Vec::new(), 0, 0_usize, None);
    for (at, c) in list.char_indices() {
        let begins = list.get(from..at).is_some_and(|part| part.trim().is_empty());
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') if begins => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.extend(list.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(list.get(from..));
    parts
}

/// Without the comment at its end: a `#` behind a space that is in no quotes.
fn uncommented(line: &str) -> &str {
    let (mut quote, mut last, mut space, mut escaped) = (None, None, true, false);
    for (at, c) in line.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') if matches!(last, None | Some('[' | ',' | '-')) => quote = Some(c),
            (None, '#') if space => return line.get(..at).unwrap_or(line).trim(),
            _ => {}
        }
        space = c == ' ' || c == '\t';
        last = if space { last } else { Some(c) };
    }
    line.trim()
}

/// The text in the quotes at the beginning, and what is behind them.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut chars = text.char_indices().peekable();
    let (_, quote) = chars.next()?;
    let mut value = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
                value.push('\'');
            }
            c if c == quote => return Some((value, text.get(at + c.len_utf8()..)?)),
            '\\' if quote == '"' => value.push(match chars.next()?.1 {
                'n' => '\n',
                't' => '\t',
                same @ ('"' | '\\' | '/' | ' ') => same,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}
