//! What `opencode export` writes: one JSON document with all messages of a session.
//!
//! Responsible for: reading it piece by piece. Must not: hold it whole.

use super::super::array::{Piece, Pieces};
use super::super::emitter::Emitter;
use super::super::input::ForeignError;
use super::super::item::{Fact, Origin};
use super::facts;
use super::first::{Messages, Stored};
use super::second::Rows;
use super::shape::{About, ExportInfo};
use segno_model::finding::Severity;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::path::Path;

/// An element: in the first engine `info` and `parts`, in the second a row.
#[derive(Deserialize)]
struct Element<'a> {
    #[serde(borrow)]
    info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parts: Vec<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

struct Export {
    about: About,
    messages: Messages,
    rows: Rows,
}

pub(super) fn read(path: &Path, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let mut pieces = Pieces::open(path, &["messages"])?;
    let mut export =
        Export { about: About::default(), messages: Messages::new(None), rows: Rows::new(None) };
    out.fact(Fact::Format("export".to_owned()));
    pieces.each("opencode.element", out, |piece, out| {
        match (piece.key, piece.index) {
            (Some("info"), None) => export.info(piece.json, out),
            (Some("messages"), Some(_)) => {
                let element = serde_json::from_str::<Element<'_>>(piece.json);
                return Ok(element.is_ok_and(|e| export.element(&e, piece, out)));
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    export.messages.finish(out);
    export.rows.finish(out);
    if out.turns() == 0 && !export.about.id.is_empty() {
        let sentence = "The export holds no message: the version that wrote it exports nothing of a \
                        session of the newer engine.";
        let done = "The session itself is in OpenCode's database.";
        out.found("empty-export", Severity::Damage, &Origin::default(), sentence, done);
    }
    out.finish(path, pieces.bytes())
}

impl Export {
    fn info(&mut self, json: &str, out: &mut Emitter<'_>) {
        let info = serde_json::from_str::<ExportInfo>(json).unwrap_or_default();
        self.about = info.into();
        facts(&self.about, out);
        // Messages follow their session's facts in all versions; what stands before them has no revert.
        self.messages = Messages::new(self.about.revert.clone());
        self.rows = Rows::new(self.about.revert.clone());
    }

    fn element(&mut self, element: &Element<'_>, piece: &Piece<'_>, out: &mut Emitter<'_>) -> bool {
        let stored = |json, place: &str| Stored {
            id: None,
            json,
            origin: piece.origin.clone(),
            place: place.to_owned(),
        };
        match (element.info, &element.kind) {
            (Some(info), _) => {
                let parts: Vec<_> = element
                    .parts
                    .iter()
                    .map(|part| stored(part.get(), "A part of a message"))
                    .collect();
                self.messages.take(&stored(info.get(), "A message"), &parts, out);
            }
            (None, Some(_)) => self.rows.take(None, &stored(piece.json, "A message"), out),
            (None, None) => return false,
        }
        true
    }
}
