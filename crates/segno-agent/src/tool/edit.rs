//! `edit`: an exact piece of text for another.
//!
//! Responsible for: finding the one place that is meant and keeping line endings and byte order mark.
//! Must not: guess; what is not found exactly once is an error that helps to find it.

use super::change::Change;
use super::change::Old;
use super::error::ToolError;
use super::workspace::Workspace;
use memchr::memmem;
use serde::Deserialize;

/// How many places an error names.
const MAX_PLACES: usize = 10;

/// The arguments.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    pub(crate) path: String,
    pub(crate) old_text: String,
    pub(crate) new_text: String,
    #[serde(default)]
    pub(crate) replace_all: bool,
}

/// Works out the change.
pub(crate) fn plan(workspace: &Workspace, args: &Args) -> Result<Change, ToolError> {
    let path = workspace.resolve(&args.path)?;
    let shown = workspace.show(&path);
    if args.old_text.is_empty() {
        return Err(ToolError::Arguments(
            "`old_text` must not be empty; `write` creates files and replaces them whole"
                .to_owned(),
        ));
    }
    if args.old_text == args.new_text {
        return Err(ToolError::Arguments("`old_text` and `new_text` are the same".to_owned()));
    }
    let old = Old::read(&path)?;
    let Old::Content(content) = &old else {
        return Err(ToolError::Refused(format!("{shown} does not exist; `write` creates it")));
    };
    let (new, count) = substitute(content, args, &shown)?;
    let note = if count > 1 { format!("({count} places)\n") } else { String::new() };
    Ok(Change { path, shown, old, new, note })
}

/// What an edit makes of `content`, if it fits.
pub(crate) fn applied(content: &[u8], args: &Args) -> Option<Vec<u8>> {
    substitute(content, args, "").ok().map(|(new, _)| new)
}

/// The new content and the number of places that changed.
fn substitute(content: &[u8], args: &Args, shown: &str) -> Result<(Vec<u8>, usize), ToolError> {
    // In a file of CRLF lines new lines are CRLF too, also where the model wrote none of its own.
    let crlf_new = to_crlf(&args.new_text);
    let exact_new = if uses_crlf(content) { &crlf_new } else { &args.new_text };
    let attempts =
        [(args.old_text.clone(), exact_new.clone()), (to_crlf(&args.old_text), crlf_new.clone())];
    for (old, new) in &attempts {
        let places = overlapping(content, old.as_bytes());
        if places.len() > 1 && !args.replace_all {
            return Err(ToolError::Refused(several(content, &places, shown)));
        }
        if !places.is_empty() {
            return Ok(put(content, old.as_bytes(), new.as_bytes()));
        }
    }
    Err(ToolError::Refused(none(content, &args.old_text, shown)))
}

fn put(content: &[u8], old: &[u8], new: &[u8]) -> (Vec<u8>, usize) {
    let (mut out, mut end, mut count) = (Vec::with_capacity(content.len()), 0, 0);
    for at in memmem::find_iter(content, old) {
        out.extend_from_slice(&content[end..at]);
        out.extend_from_slice(new);
        end = at + old.len();
        count += 1;
    }
    out.extend_from_slice(&content[end..]);
    (out, count)
}

/// Every place, overlapping ones too: `aa` in `aaa` is not unique.
fn overlapping(content: &[u8], old: &[u8]) -> Vec<usize> {
    let finder = memmem::Finder::new(old);
    let (mut places, mut from) = (Vec::new(), 0);
    while let Some(at) = finder.find(&content[from..]) {
        places.push(from + at);
        from += at + 1;
    }
    places
}

fn uses_crlf(content: &[u8]) -> bool {
    let lines = memchr::memchr_iter(b'\n', content).count();
    let crlf = memmem::find_iter(content, b"\r\n").count();
    crlf * 2 > lines
}

fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

fn line_of(content: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &content[..at]).count() + 1
}

fn several(content: &[u8], places: &[usize], shown: &str) -> String {
    let lines: Vec<String> =
        places.iter().take(MAX_PLACES).map(|at| line_of(content, *at).to_string()).collect();
    let more = if places.len() > MAX_PLACES { " …" } else { "" };
    format!(
        "`old_text` is in {shown} {} times (lines {}{more}); give more of the text around the one that is meant, or set replace_all",
        places.len(),
        lines.join(", "),
    )
}

fn none(content: &[u8], old: &str, shown: &str) -> String {
    let text = String::from_utf8_lossy(content);
    let wanted: Vec<&str> = old.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(i, l)| (i + 1, l.trim()))
        .filter(|(_, l)| !l.is_empty())
        .collect();
    let near: Vec<String> = lines
        .windows(wanted.len().max(1))
        .filter(|w| !wanted.is_empty() && w.iter().map(|(_, l)| *l).eq(wanted.iter().copied()))
        .take(MAX_PLACES)
        .map(|w| w[0].0.to_string())
        .collect();
    let hint = if near.is_empty() {
        "read the file again and copy the text exactly".to_owned()
    } else {
        format!("only white space differs at line {}; copy it exactly", near.join(", "))
    };
    format!("`old_text` is not in {shown}; {hint}")
}
