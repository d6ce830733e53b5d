//! The tools of a request.
//!
//! Responsible for: names that a wire takes and the way back from them, schemas, and tools that only a history
//! needs. Must not: know what a tool does.

use super::calls::digest;
use super::takes::Takes;
use crate::provider::wire::Wire;
use segno_model::context::ContextMessage;
use segno_model::record::AssistantBlock;
use segno_runtime::{ModelRequest, ToolSpec};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Stands for a name that is empty.
const NAMELESS: &str = "unnamed";

/// The tools to declare, and whether they may be called.
pub(in crate::provider) struct Declared<'a> {
    /// The tools.
    pub(in crate::provider) tools: Cow<'a, [ToolSpec]>,
    /// False when only the history needs them.
    pub(in crate::provider) callable: bool,
}

/// The tools to send. A history with calls needs tools; if the caller gives none, the called names
/// are declared again, so that the history stays legal, and calling is switched off.
pub(in crate::provider) fn declared<'a>(request: &ModelRequest<'a>) -> Declared<'a> {
    if !request.tools.is_empty() {
        return Declared { tools: Cow::Borrowed(request.tools), callable: true };
    }
    let mut tools: Vec<ToolSpec> = Vec::new();
    let turns = request.messages.iter().filter_map(|message| match message {
        ContextMessage::Assistant(turn) => Some(turn),
        _ => None,
    });
    for block in turns.flat_map(|turn| turn.content.iter()) {
        if let AssistantBlock::ToolCall(call) = block
            && tools.iter().all(|tool| tool.name != call.name)
        {
            tools.push(ToolSpec {
                name: call.name.clone(),
                description: "Not available any more.".to_owned(),
                parameters: json!({ "type": "object" }),
            });
        }
    }
    Declared { tools: Cow::Owned(tools), callable: false }
}

/// The tools under names and with schemas that the wire takes.
pub(super) fn sent<'a>(wire: Wire, request: &ModelRequest<'a>) -> Cow<'a, [ToolSpec]> {
    let names = sent_names(wire, request.tools);
    let is_fine = |tool: &ToolSpec, name: &str| tool.name == name && is_object(&tool.parameters);
    if request.tools.iter().zip(&names).all(|(tool, name)| is_fine(tool, name)) {
        return Cow::Borrowed(request.tools);
    }
    let tools = request.tools.iter().zip(names);
    tools
        .map(|(tool, name)| {
            let mut parameters = tool.parameters.clone();
            match parameters.as_object_mut() {
                Some(schema) => drop(schema.insert("type".to_owned(), json!("object"))),
                None => parameters = json!({ "type": "object" }),
            }
            ToolSpec { name, description: tool.description.clone(), parameters }
        })
        .collect()
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// Tools whose names are sent otherwise: own name, sent name.
pub(super) fn renamed(wire: Wire, tools: &[ToolSpec]) -> Vec<(String, String)> {
    let names = tools.iter().map(|tool| tool.name.clone()).zip(sent_names(wire, tools));
    names.filter(|(own, sent)| own != sent).collect()
}

/// The tool that a model means by a name.
pub(in crate::provider) fn own_names(wire: Wire, tools: &[ToolSpec]) -> Vec<(String, String)> {
    renamed(wire, tools).into_iter().map(|(own, sent)| (sent, own)).collect()
}

/// Each tool's name as it is sent: legal and unique.
fn sent_names(wire: Wire, tools: &[ToolSpec]) -> Vec<String> {
    let takes = Takes::of(wire);
    let mut names: Vec<String> = Vec::new();
    for (place, tool) in tools.iter().enumerate() {
        let mut name = plain_name(&tool.name, takes).into_owned();
        // A tool that has a legal name keeps it, whatever comes before it.
        let is_taken = |name: &String| {
            names.contains(name)
                || tools.iter().enumerate().any(|(i, t)| i != place && t.name == *name && i > place)
        };
        let mut again = 0;
        while is_taken(&name) && (name != tool.name || names.contains(&name)) {
            again += 1;
            name = plain_name(&format!("{}.{again}", tool.name), takes).into_owned();
        }
        names.push(name);
    }
    names
}

/// A name in the alphabet of the wire; unchanged when it already is. What had to be changed is told apart by a
/// digest.
pub(super) fn plain_name<'a>(name: &'a str, takes: &Takes) -> Cow<'a, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let begins = begins || !takes.name_begins_with_letter;
    if !name.is_empty() && begins && name.len() <= takes.name_bytes && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let head: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let head = if head.trim_matches('_').is_empty() { NAMELESS } else { head.trim_matches('_') };
    let begins = head.starts_with(|c: char| c.is_ascii_alphabetic());
    let head = if begins { head.to_owned() } else { format!("t_{head}") };
    let head: String = head.chars().take(takes.name_bytes - 9).collect();
    Cow::Owned(format!("{head}_{}", &digest(name)[..8]))
}
