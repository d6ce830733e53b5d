//! Where in a request each record is, and which one a provider's words are about.
//!
//! Responsible for: the way back from `messages.12.content.0`, `input[5]` or `contents[3]` to a record, and what
//! of it was refused. Must not: decide what is left out (the run loop does).

use super::openai_responses;
use super::sendable::Repaired;
use super::wire::Wire;
use segno_model::Seq;
use segno_model::context::{ContextMessage, ContextResult};
use segno_model::record::Block;
use segno_runtime::{ModelError, ModelErrorKind, Refusal, RefusedPart};

/// For each message of a request, the record that each of its pieces comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places(Vec<Vec<Seq>>);

impl Places {
    /// Of a request that is ready to be encoded.
    pub(super) fn of(wire: Wire, repaired: &Repaired<'_>) -> Self {
        let mut places = Self::default();
        if wire == Wire::OpenAiChat && repaired.has_system() {
            places.0.push(Vec::new());
        }
        let mut is_users = false;
        for message in repaired.messages() {
            match message {
                ContextMessage::User { seq, content } => {
                    places.add(wire, is_users, vec![*seq; content.len()]);
                    is_users = true;
                }
                ContextMessage::Results(results) => {
                    is_users = places.results(wire, is_users, results);
                }
                ContextMessage::State(state) => {
                    let items = openai_responses::state(state).len();
                    places.0.extend(vec![vec![state.seq]; items]);
                    is_users = false;
                }
                ContextMessage::Assistant(turn) => {
                    let items = match wire {
                        Wire::OpenAiResponses => openai_responses::assistant(turn).len(),
                        Wire::Anthropic | Wire::OpenAiChat | Wire::Gemini => 1,
                    };
                    places.0.extend(vec![vec![turn.seq]; items]);
                    is_users = false;
                }
            }
        }
        places
    }

    /// Adds pieces of the user's side, to the last message where the wire joins them.
    fn add(&mut self, wire: Wire, is_users: bool, pieces: Vec<Seq>) {
        match self.0.last_mut() {
            Some(last) if is_users && wire != Wire::OpenAiResponses => last.extend(pieces),
            _ => self.0.push(pieces),
        }
    }

    /// Adds results; true when what the user says next is joined to them.
    fn results(&mut self, wire: Wire, is_users: bool, results: &[ContextResult]) -> bool {
        let seq = |result: &ContextResult| result.seq.unwrap_or(0);
        let images = |result: &ContextResult| {
            result.content.iter().filter(|b| matches!(b, Block::Image { .. })).count()
        };
        // A line that names the tool, and its images, behind all results.
        let behind = || {
            let with = results.iter().filter(|result| images(result) > 0);
            with.flat_map(|result| vec![seq(result); images(result) + 1]).collect::<Vec<_>>()
        };
        match wire {
            Wire::Anthropic => self.add(wire, is_users, results.iter().map(seq).collect()),
            Wire::Gemini => {
                let pieces = results.iter().map(seq).chain(behind()).collect();
                self.add(wire, is_users, pieces);
            }
            Wire::OpenAiResponses => self.0.extend(results.iter().map(|result| vec![seq(result)])),
            // Nothing stands between what the user said before and what comes.
            Wire::OpenAiChat if results.is_empty() => return is_users,
            Wire::OpenAiChat => {
                self.0.extend(results.iter().map(|result| vec![seq(result)]));
                let behind = behind();
                let has_images = !behind.is_empty();
                if has_images {
                    self.0.push(behind);
                }
                return has_images;
            }
        }
        true
    }

    /// How many messages there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The record at a place that a provider names.
    fn record(&self, (message, piece): (usize, Option<usize>)) -> Option<Seq> {
        let pieces = self.0.get(message)?;
        let named = piece.and_then(|piece| pieces.get(piece));
        let only = pieces.first().filter(|first| pieces.iter().all(|seq| seq == *first));
        named.or(only).copied().filter(|seq| *seq > 0)
    }

    /// A failure with what it is about, if it is a refusal of something in this request.
    pub(super) fn diagnose(&self, failure: ModelError) -> ModelError {
        let is_refusal = matches!(failure.kind, ModelErrorKind::Refused | ModelErrorKind::Thinking);
        let (Some(given), true) = (failure.refusal, is_refusal) else { return failure };
        let seq = place(&failure.message).and_then(|place| self.record(place));
        let message = match seq {
            Some(seq) => format!("{}; that is record {seq}", failure.message),
            None => failure.message,
        };
        ModelError { message, refusal: Some(Refusal { seq, ..given }), ..failure }
    }
}

/// What of a request a provider's sentence is about.
pub(super) fn part(message: &str) -> RefusedPart {
    let words = message.to_lowercase();
    let any = |list: &[&str]| list.iter().any(|word| words.contains(word));
    match () {
        () if any(NO_IMAGES) => RefusedPart::AnyImage,
        () if any(&["image", "inline_data", "inlinedata", "media_type", "mime type", "pixel"]) => {
            RefusedPart::Images
        }
        () if any(&["signature", "thinking", "reasoning", "encrypted"]) => RefusedPart::Thinking,
        () => RefusedPart::Other,
    }
}

/// How servers say that a model takes no images.
const NO_IMAGES: &[&str] = &[
    "not support image",
    "not support vision",
    "image input is not supported",
    "images are not supported",
    "image_url is only supported by",
    "unknown variant `image_url`",
    "not a multimodal model",
    "image input modality is not enabled",
    "that support image input",
];

/// The place that a sentence names: which message, and which piece of it.
fn place(message: &str) -> Option<(usize, Option<usize>)> {
    ["messages", "contents", "input"].iter().find_map(|list| {
        message.match_indices(list).find_map(|(at, _)| {
            let begins =
                message[..at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_');
            let (index, rest) = number(&message[at + list.len()..]).filter(|_| begins)?;
            let piece = ["content", "parts", "output"].iter().find_map(|inner| {
                let rest = rest.trim_start_matches([']', '.', '[', '\'', '"']);
                number(rest.strip_prefix(inner)?).map(|(piece, _)| piece)
            });
            Some((index, piece))
        })
    })
}

/// The number that stands right behind, as `.5`, `[5]` or `.[5]`, and what follows it.
fn number(text: &str) -> Option<(usize, &str)> {
    let text = text.trim_start_matches(['\'', '"']).trim_start_matches(['.', '[']);
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_in_every_spelling() {
        let rows = [
            ("messages.12.content.0: text content blocks must be non-empty", Some((12, Some(0)))),
            ("messages.3: `tool_use` ids were found without `tool_result`", Some((3, None))),
            ("messages.5.content.1.image.source.base64: exceeds 5 MB", Some((5, Some(1)))),
            ("Invalid 'input[5].content[2].image_url'. Expected a URL", Some((5, Some(2)))),
            ("Invalid 'messages[10].tool_calls[0].id': string too long.", Some((10, None))),
            ("Invalid parameter (at messages.[4].role)", Some((4, None))),
            ("* GenerateContentRequest.contents[3].parts[1].inline_data: bad", Some((3, Some(1)))),
            ("contents.7.parts.0: an empty text part", Some((7, Some(0)))),
            ("messages: at least one message is required", None),
            ("reduce the length of the messages 4 times", None),
            ("tool_input[3] is bad", None),
            ("input_3 is bad", None),
            ("messages.99999999999999999999: no", None),
        ];
        for (message, expected) in rows {
            assert_eq!(place(message), expected, "{message}");
        }
    }

    #[test]
    fn what_a_sentence_is_about() {
        let rows = [
            ("image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes", RefusedPart::Images),
            ("Could not process image", RefusedPart::Images),
            ("Unable to process input image.", RefusedPart::Images),
            ("Image input modality is not enabled for models/gemma-3", RefusedPart::AnyImage),
            (
                "image input is not supported - hint: you may need to provide the mmproj",
                RefusedPart::AnyImage,
            ),
            ("unknown variant `image_url`, expected `text`", RefusedPart::AnyImage),
            ("qwen3-coder is not a multimodal model", RefusedPart::AnyImage),
            ("No endpoints found that support image input", RefusedPart::AnyImage),
            ("Invalid `signature` in `thinking` block", RefusedPart::Thinking),
            (
                "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
                RefusedPart::Thinking,
            ),
            ("text content blocks must be non-empty", RefusedPart::Other),
        ];
        for (message, expected) in rows {
            assert_eq!(part(message), expected, "{message}");
        }
    }
}
