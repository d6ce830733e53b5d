//! Files that are attached to what was said: documents, and images that lie elsewhere.
//!
//! Responsible for: what such a piece of a message is, by whose agent wrote it. Must not: decide what is sent, or what
//! a person is shown of it.

use super::agent::Agent;
use super::item::ForeignRecord;
use serde_json::Value;

/// A file that is attached to a message or a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// `document` or `image`.
    pub kind: &'static str,
    /// What it is called.
    pub name: Option<String>,
    /// e.g. `application/pdf`.
    pub media_type: Option<String>,
    /// What is in it.
    pub content: AttachmentContent,
}

/// What is in an attached file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachmentContent {
    /// Bytes, as base64.
    Base64(String),
    /// Text.
    Text(String),
    /// Nothing here: where it is, an address or an id that its provider knows.
    Elsewhere(String),
}

impl Attachment {
    /// The file that a piece of a message of `agent`'s is; none for a piece that is something else.
    #[must_use]
    pub fn of(agent: Agent, piece: &Value) -> Option<Self> {
        match agent {
            Agent::Claude => claude(piece),
            Agent::Gemini => gemini(piece),
            Agent::OpenCode => opencode(piece),
            _ => None,
        }
    }

    /// How many bytes there are of it, where it is not elsewhere.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match &self.content {
            AttachmentContent::Base64(data) => {
                let digits = data.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b'=');
                Some(digits.count() as u64 * 3 / 4)
            }
            AttachmentContent::Text(text) => Some(text.len() as u64),
            AttachmentContent::Elsewhere(_) => None,
        }
    }
}

impl ForeignRecord {
    /// The attached files for which a block of the message stands, each with the place of that.
    #[must_use]
    pub fn attachments(&self, agent: Agent) -> Vec<(usize, Attachment)> {
        let standing = self.pieces.iter().filter(|piece| !piece.beside);
        let attached = standing.filter_map(|piece| {
            let json = serde_json::from_str(piece.json.get()).ok()?;
            Some((piece.at, Attachment::of(agent, &json)?))
        });
        attached.collect()
    }
}

fn text(value: &Value, at: &str) -> Option<String> {
    value.pointer(at)?.as_str().map(str::to_owned)
}

fn claude(piece: &Value) -> Option<Attachment> {
    let kind = match piece["type"].as_str()? {
        "document" => "document",
        "image" => "image",
        _ => return None,
    };
    let data = || text(piece, "/source/data");
    let content = match piece.pointer("/source/type")?.as_str()? {
        "base64" => AttachmentContent::Base64(data()?),
        "text" => AttachmentContent::Text(data()?),
        "content" => AttachmentContent::Text(texts(piece.pointer("/source/content")?)?),
        "url" => AttachmentContent::Elsewhere(text(piece, "/source/url")?),
        "file" => AttachmentContent::Elsewhere(text(piece, "/source/file_id")?),
        _ => return None,
    };
    let media_type = text(piece, "/source/media_type");
    Some(Attachment { kind, name: text(piece, "/title"), media_type, content })
}

/// Content that is nothing but text.
fn texts(content: &Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let texts = content.as_array()?.iter().map(|block| text(block, "/text"));
    Some(texts.collect::<Option<Vec<_>>>()?.join("\n"))
}

fn gemini(piece: &Value) -> Option<Attachment> {
    let inline = || Some(AttachmentContent::Base64(text(piece, "/inlineData/data")?));
    let linked = || Some(AttachmentContent::Elsewhere(text(piece, "/fileData/fileUri")?));
    let content = inline().or_else(linked)?;
    let of = |name: &str| {
        text(piece, &format!("/inlineData/{name}"))
            .or_else(|| text(piece, &format!("/fileData/{name}")))
    };
    let (name, media_type) = (of("displayName"), of("mimeType"));
    Some(Attachment { kind: "document", name, media_type, content })
}

fn opencode(piece: &Value) -> Option<Attachment> {
    let url = text(piece, "/url").or_else(|| text(piece, "/uri"));
    let inline = url.as_deref().and_then(|url| Some(url.split_once(";base64,")?.1.to_owned()));
    let content = match text(piece, "/data").or(inline) {
        Some(data) => AttachmentContent::Base64(data),
        None => AttachmentContent::Elsewhere(url?),
    };
    let name = text(piece, "/filename").or_else(|| text(piece, "/name"));
    Some(Attachment { kind: "document", name, media_type: text(piece, "/mime"), content })
}
