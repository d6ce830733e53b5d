//! Results of servers as the model is shown them.
//!
//! Responsible for: texts, images and the rest, each within bounds. Must not: trust a size or a type that a
//! server names.

use crate::tool::{MAX_IMAGE, cut_text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use segno_model::record::{Block, Outcome, Text};
use segno_runtime::ToolOutput;
use serde_json::Value;

/// Kinds of images that models take.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// How many images of one result are shown.
const MAX_IMAGES: usize = 8;

/// The answer to `tools/call`.
pub(super) fn output(result: &Value) -> ToolOutput {
    let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for item in result.get("content").and_then(Value::as_array).into_iter().flatten() {
        match one(item) {
            Ok(Block::Image { .. }) if images.len() >= MAX_IMAGES => {
                texts.push("[an image more than can be shown]".to_owned());
            }
            Ok(block) => images.push(block),
            Err(text) => texts.push(text),
        }
    }
    if texts.is_empty() && images.is_empty() {
        match result.get("structuredContent") {
            Some(structured) => texts.push(structured.to_string()),
            None => texts.push("(no output)".to_owned()),
        }
    }
    let (text, whole) = cut_text(texts.join("\n").as_bytes());
    let mut content: Vec<Block> = Vec::new();
    if !text.is_empty() {
        content.push(Block::text(text));
    }
    content.extend(images);
    let outcome = if is_error { Outcome::Failed } else { Outcome::Done };
    ToolOutput { content, whole, ..ToolOutput::new("", is_error, outcome) }
}

/// An image, or the text that stands for anything else.
fn one(item: &Value) -> Result<Block, String> {
    let field = |name: &str| item.get(name).and_then(Value::as_str);
    match field("type") {
        Some("text") => Err(field("text").unwrap_or_default().to_owned()),
        Some("image") => image(field("mimeType").unwrap_or_default(), field("data").unwrap_or("")),
        Some("resource") => {
            let resource = item.get("resource");
            let part = |name: &str| resource.and_then(|r| r.get(name)).and_then(Value::as_str);
            let uri = part("uri").unwrap_or_default();
            Err(match (part("text"), part("blob")) {
                (Some(text), _) => format!("{uri}\n{text}"),
                (None, Some(blob)) => format!("[{uri}: {} bytes, not shown]", blob.len() / 4 * 3),
                (None, None) => format!("[{uri}]"),
            })
        }
        Some("resource_link") => Err(format!("[{}]", field("uri").unwrap_or_default())),
        Some(other) => Err(format!("[{other}: not shown]")),
        None => Err("[something that is no content]".to_owned()),
    }
}

fn image(media_type: &str, data: &str) -> Result<Block, String> {
    if !IMAGES.contains(&media_type) {
        return Err(format!("[{media_type}: not an image that can be shown]"));
    }
    let bytes = STANDARD.decode(data).map_err(|_| "[an image that is damaged]".to_owned())?;
    if bytes.len() as u64 > MAX_IMAGE {
        return Err(format!("[{media_type} of {} bytes: too large to be shown]", bytes.len()));
    }
    Ok(Block::Image { media_type: media_type.to_owned(), data: Text::Inline(data.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_server_sends_becomes_something_that_can_be_shown() {
        let cases = [
            (r#"{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#, "Done a\nb"),
            (r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#, "Failed no"),
            (r#"{"content":[]}"#, "Done (no output)"),
            (r#"{"structuredContent":{"a":1}}"#, "Done {\"a\":1}"),
            (
                r#"{"content":[{"type":"image","mimeType":"image/png","data":"aGk="}]}"#,
                "Done <image/png>",
            ),
            (
                r#"{"content":[{"type":"image","mimeType":"image/svg+xml","data":"aGk="}]}"#,
                "not an image",
            ),
            (r#"{"content":[{"type":"image","mimeType":"image/png","data":"?"}]}"#, "damaged"),
            (r#"{"content":[{"type":"audio","data":"aGk="}]}"#, "[audio: not shown]"),
            (r#"{"content":[{"type":"resource","resource":{"uri":"u","text":"t"}}]}"#, "u\nt"),
            (
                r#"{"content":[{"type":"resource","resource":{"uri":"u","blob":"aGk="}}]}"#,
                "[u: 3 bytes",
            ),
            (r#"{"content":[{"type":"resource_link","uri":"u"}]}"#, "[u]"),
            (r#"{"content":[7]}"#, "no content"),
            ("7", "Done (no output)"),
        ];
        for (result, expected) in cases {
            let output = output(&serde_json::from_str(result).expect("JSON"));
            let shown = output.content.iter().map(|block| match block {
                Block::Text { text } => text.head().to_owned(),
                Block::Image { media_type, .. } => format!("<{media_type}>"),
                Block::Unknown => "?".to_owned(),
            });
            let shown: Vec<_> = shown.collect();
            let told = format!("{:?} {}", output.outcome, shown.join("\n"));
            assert!(told.contains(expected), "{result}: {told}");
        }
    }

    #[test]
    fn a_long_text_is_cut_and_kept_whole() {
        let text = "x".repeat(200_000);
        let output = output(&serde_json::json!({"content": [{"type": "text", "text": text}]}));
        assert_eq!(output.whole.map(|whole| whole.len()), Some(200_000));
    }
}
