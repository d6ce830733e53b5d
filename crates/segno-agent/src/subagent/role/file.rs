//! One role, from its file.
//!
//! Responsible for: what its fields mean. What can be read with certainty is taken; a file of which it is not certain
//! what it keeps its role from is none of a role. Must not: touch a disk, or grant more than the file says.

use super::front::{self, Field, Fields};
use super::tools::ToolSet;
use super::{MAX_NAME, Role};
use crate::file_note::FileFault;
use segno_model::record::ModelRef;
use segno_model::sha256_hex;
use std::path::Path;

/// What a file came to.
pub(super) struct Parsed {
    /// By which the role is called, or would be.
    pub(super) name: String,
    /// It, or why there is none.
    pub(super) role: Result<Role, FileFault>,
    /// What else a person should know.
    pub(super) notes: Vec<FileFault>,
}

/// Fields that say nothing about what a role does.
const SHOWN_ELSEWHERE: [&str; 2] = ["color", "colour"];

/// Claude Code's ways of asking, all of which are the session's own matter here.
const ASKING: [&str; 6] =
    ["default", "acceptedits", "dontask", "bypasspermissions", "auto", "delegate"];

/// Reads it.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Parsed {
    let stem = stem(path);
    let (mut name, mut notes) = (None, Vec::new());
    let role = text(bytes).and_then(|text| {
        name = front::named(&text).filter(|name| is_name(name));
        role(path, (bytes, &text), &stem, &mut notes)
    });
    let name = role.as_ref().map_or_else(|_| name.unwrap_or(stem), |role| role.name.clone());
    Parsed { name, role, notes }
}

/// The name of a role whose file gives none.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

pub(super) fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    (1..=MAX_NAME).contains(&name.chars().count()) && name.chars().all(fits)
}

/// The file's text, with line ends of one kind.
fn text(bytes: &[u8]) -> Result<String, FileFault> {
    let text = std::str::from_utf8(bytes).map_err(|_| FileFault::NoText)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let is_odd = |c: char| c.is_control() && !matches!(c, '\n' | '\t' | '\u{c}');
    if text.contains(is_odd) { Err(FileFault::NoText) } else { Ok(text) }
}

fn role(
    path: &Path,
    (bytes, text): (&[u8], &str),
    stem: &str,
    notes: &mut Vec<FileFault>,
) -> Result<Role, FileFault> {
    let (mut fields, body) = front::read(text)?;
    let mut taken = |key: &str| fields.take(key).map(|field| field.text()).transpose();
    let name = taken("name")?.filter(|name| !name.is_empty()).unwrap_or_else(|| stem.to_owned());
    let description = taken("description")?.unwrap_or_default();
    let (model, thinking) = (taken("model")?, taken("thinking")?);
    if !is_name(&name) {
        return Err(FileFault::BadName(name));
    }
    let tools = tools(&mut fields, notes)?;
    leftover(&fields, notes)?;
    if body.trim().is_empty() {
        return Err(FileFault::NoPrompt);
    }
    if description.is_empty() {
        notes.push(FileFault::NoDescription);
    }
    Ok(Role {
        tools,
        model: model.and_then(|given| self::model(&given, notes)),
        thinking: thinking.and_then(|given| self::thinking(&given, notes)),
        name,
        description,
        prompt: body.trim().to_owned(),
        source: path.display().to_string(),
        sha256: sha256_hex(bytes),
    })
}

/// What the three fields about tools come to.
fn tools(fields: &mut Fields, notes: &mut Vec<FileFault>) -> Result<ToolSet, FileFault> {
    let asked = fields.take("tools").map(|field| ToolSet::asked(&field, notes)).transpose()?;
    let mut tools = asked.unwrap_or_default();
    if let Some(field) = fields.take("disallowedtools") {
        tools = tools.without(&field, notes)?;
    }
    let Some(field) = fields.take("permissionmode") else { return Ok(tools) };
    match field.text()?.to_ascii_lowercase().as_str() {
        "plan" => Ok(tools.looking()),
        asking if ASKING.contains(&asking) => {
            notes.push(FileFault::NotItsMode(field.text()?));
            Ok(tools)
        }
        _ => Err(front::unclear(field.line, "there is no such `permissionMode`")),
    }
}

/// Nothing that a file says of its role is passed over in silence.
fn leftover(fields: &Fields, notes: &mut Vec<FileFault>) -> Result<(), FileFault> {
    for (key, Field { name, line, .. }) in fields.rest() {
        if front::is_weighty(key) {
            let why = format!("`{name}` is no field of a role; `tools` and `disallowedTools` are");
            return Err(front::unclear(*line, &why));
        }
        if !SHOWN_ELSEWHERE.contains(&key) {
            notes.push(FileFault::UnknownField(name.clone()));
        }
    }
    Ok(())
}

fn model(given: &str, notes: &mut Vec<FileFault>) -> Option<ModelRef> {
    if given.is_empty() || given == "inherit" {
        return None;
    }
    match given.split_once('/') {
        Some((provider, id)) if !id.is_empty() && !provider.is_empty() => {
            Some(ModelRef::new(provider, id))
        }
        _ => {
            notes.push(FileFault::NotAModel(given.to_owned()));
            None
        }
    }
}

fn thinking(given: &str, notes: &mut Vec<FileFault>) -> Option<String> {
    if matches!(given, "off" | "minimal" | "low" | "medium" | "high") {
        return Some(given.to_owned());
    }
    notes.push(FileFault::NotALevel(given.to_owned()));
    None
}

#[cfg(test)]
mod tests;
