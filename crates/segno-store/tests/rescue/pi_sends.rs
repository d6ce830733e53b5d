//! What pi sends of a session (1.6.0, by its source), and what a provider refuses of that, for tests.

use serde_json::Value;
use std::collections::HashMap;

/// What goes into the next request, in order, as it is told in [`told`];
/// none for a version that pi migrates or refuses.
pub(crate) fn sent(bytes: &[u8]) -> Option<Vec<String>> {
    let lines = bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty());
    // What is nested too deep for this parser is not looked at.
    let rows: Result<Vec<Value>, _> = lines.map(serde_json::from_slice).collect();
    let mut rows = rows.ok()?;
    let is_header = rows.first().is_some_and(|row| row["type"] == "session" && row["version"] == 3);
    if !is_header {
        return None;
    }
    rows.remove(0);
    // Rows that have lost their links or their message altogether are another matter.
    let is_whole = |row: &Value| {
        let is_linked = row["id"].is_string() && row.get("parentId").is_some();
        is_linked && (row["type"] != "message" || row["message"].is_object())
    };
    if !rows.iter().all(is_whole) {
        return None;
    }
    Some(transformed(&selected(&path(&rows))))
}

/// The results that stand alone, and the second ones.
pub(crate) fn refused(bytes: &[u8]) -> Vec<String> {
    let mut refused = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for line in sent(bytes).unwrap_or_default() {
        if let Some(result) = line.strip_prefix("result ") {
            let id = result.split(':').next().unwrap_or_default();
            match open.iter().position(|call| call == id) {
                Some(at) => drop(open.remove(at)),
                None => refused.push(line),
            }
        } else {
            refused.extend(open.drain(..).map(|id| format!("call {id}")));
            let calls = line.split(" | ").filter_map(|piece| piece.strip_prefix("call "));
            open.extend(calls.map(str::to_owned));
        }
    }
    refused
}

/// From the first entry to the last line.
fn path(rows: &[Value]) -> Vec<&Value> {
    let by_id: HashMap<&str, &Value> =
        rows.iter().filter_map(|row| Some((row["id"].as_str()?, row))).collect();
    let (mut path, mut at) = (Vec::new(), rows.last());
    while let Some(row) = at {
        path.push(row);
        assert!(path.len() <= rows.len(), "it goes round");
        at = row["parentId"].as_str().and_then(|id| by_id.get(id)).copied();
    }
    path.reverse();
    path
}

/// The newest summary, what it keeps, and what is behind it.
fn selected<'a>(path: &[&'a Value]) -> Vec<&'a Value> {
    let Some(at) = path.iter().rposition(|row| row["type"] == "compaction") else {
        return path.to_vec();
    };
    let first = &path[at]["firstKeptEntryId"];
    let kept = path[..at].iter().skip_while(|row| row["id"] != *first);
    let kept = kept.filter(|row| row["type"] != "compaction");
    [path[at]].into_iter().chain(kept.copied()).chain(path[at + 1..].iter().copied()).collect()
}

/// The messages, without replies that broke off, and with a result where a call has none.
fn transformed(rows: &[&Value]) -> Vec<String> {
    let edits = rows.iter().filter(|row| row["type"] == "context_edit");
    let edits: HashMap<&str, &Value> =
        edits.filter_map(|row| Some((row["targetId"].as_str()?, &row["replacement"]))).collect();
    let (mut out, mut open, mut answered) = (Vec::new(), Vec::<String>::new(), Vec::new());
    let close = |out: &mut Vec<String>, open: &mut Vec<String>, answered: &mut Vec<String>| {
        let rest = open.drain(..).filter(|id| !answered.contains(id));
        out.extend(rest.map(|id| format!("result {id}: No result provided")));
        answered.clear();
    };
    for row in rows {
        let edit = row["id"].as_str().and_then(|id| edits.get(id));
        if edit.is_some_and(|edit| edit.is_null()) {
            continue;
        }
        let message = &row["message"];
        let content = edit.map_or(&message["content"], |edit| &edit["content"]);
        match (row["type"].as_str(), message["role"].as_str()) {
            (Some("message"), Some("assistant")) => {
                close(&mut out, &mut open, &mut answered);
                if matches!(message["stopReason"].as_str(), Some("error" | "aborted")) {
                    continue;
                }
                let pieces = content.as_array().map(Vec::as_slice).unwrap_or_default();
                let calls = pieces.iter().filter(|piece| piece["type"] == "toolCall");
                open.extend(calls.map(|call| call["id"].as_str().unwrap_or_default().to_owned()));
                out.push(told(content));
            }
            (Some("message"), Some("toolResult")) => {
                let id = message["toolCallId"].as_str().unwrap_or_default().to_owned();
                out.push(format!("result {id}: {}", told(content)));
                answered.push(id);
            }
            (Some("message"), Some("bashExecution")) if message["excludeFromContext"] == true => {}
            (
                Some("message"),
                Some("user" | "custom" | "bashExecution" | "branchSummary" | "compactionSummary"),
            ) => {
                close(&mut out, &mut open, &mut answered);
                out.push(told(content));
            }
            (Some("custom_message" | "branch_summary" | "compaction"), _) => {
                close(&mut out, &mut open, &mut answered);
                out.push("notice".to_owned());
            }
            _ => {}
        }
    }
    close(&mut out, &mut open, &mut answered);
    out
}

/// A content in words: texts and calls.
fn told(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let piece = |piece: &Value| match piece["type"].as_str() {
        Some("toolCall") => format!("call {}", piece["id"].as_str().unwrap_or_default()),
        _ => piece["text"].as_str().unwrap_or_default().to_owned(),
    };
    content.as_array().into_iter().flatten().map(piece).collect::<Vec<_>>().join(" | ")
}
