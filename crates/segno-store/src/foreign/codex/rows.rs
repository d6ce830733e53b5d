//! The rows of a rollout as text, field by field.
//!
//! Responsible for: cutting JSON objects into the fields that are looked at, without minding the types of
//! the others, and noticing fields that nobody has seen before. Must not: know what a row means.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Declares an object's fields, each kept as its JSON text; `null` counts as absent. Fields after `also`
/// are known and not looked at.
macro_rules! object {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $key:literal),* $(,)? } also $($also:literal),* ;) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default)]
        pub(super) struct $name<'a> {
            $(pub(super) $field: Option<&'a RawValue>,)*
            /// Whether there is a field that is not known here.
            pub(super) unknown: bool,
        }

        impl<'de: 'a, 'a> Deserialize<'de> for $name<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> Visitor<'de> for Fields {
                    type Value = $name<'de>;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }
                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$name<'de>, A::Error> {
                        let mut found = $name::default();
                        while let Some(Key(key)) = map.next_key()? {
                            match &*key {
                                $($key => found.$field = present(map.next_value()?),)*
                                known => {
                                    found.unknown |= ![$($also),*].contains(&known);
                                    map.next_value::<IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(found)
                    }
                }
                deserializer.deserialize_map(Fields)
            }
        }
    };
}

/// A key, which may hold escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

fn present(raw: &RawValue) -> Option<&RawValue> {
    (raw.get() != "null").then_some(raw)
}

object! {
    /// A line.
    Row {
        timestamp: "timestamp",
        ordinal: "ordinal",
        kind: "type",
        payload: "payload",
        metadata: "metadata",
        // The oldest files have no wrapper: the line itself is the item, or the header.
        id: "id",
        record_type: "record_type",
        role: "role",
    } also "instructions", "git";
}

object! {
    /// A `session_meta`.
    Header {
        id: "id",
        timestamp: "timestamp",
        cwd: "cwd",
        version: "cli_version",
        source: "source",
        forked_from: "forked_from_id",
        forked_at: "forked_from_ordinal_exclusive",
        parent: "parent_thread_id",
        session: "session_id",
        mode: "history_mode",
        base: "history_base",
        provider: "model_provider",
        git: "git",
    } also "";
}

object! {
    /// A `history_base`.
    Base {
        thread: "thread_id",
        ordinal: "end_ordinal_exclusive",
        offset: "end_byte_offset",
    } also "";
}

object! {
    /// A `response_item`: what the provider was sent or sent.
    Item {
        kind: "type",
        id: "id",
        role: "role",
        content: "content",
        summary: "summary",
        encrypted: "encrypted_content",
        name: "name",
        arguments: "arguments",
        input: "input",
        action: "action",
        call_id: "call_id",
        output: "output",
        tags: "internal_chat_message_metadata_passthrough",
    } also "status", "namespace", "phase", "metadata", "result", "revised_prompt", "author",
        "recipient", "end_turn", "timestamp";
}

object! {
    /// What Codex notes about a message's pieces.
    Tags {
        kinds: "content_item_kinds",
    } also "";
}

object! {
    /// A piece of content.
    Part {
        kind: "type",
        text: "text",
        image: "image_url",
    } also "annotations", "detail", "text_elements", "logprobs";
}

object! {
    /// An `event_msg`, or an item inside of one.
    Event {
        kind: "type",
        message: "message",
        info: "info",
        num_turns: "num_turns",
        item: "item",
        id: "id",
        content: "content",
        tool: "tool",
        receivers: "receiver_thread_ids",
        call_id: "call_id",
        new_thread: "new_thread_id",
        thread_name: "thread_name",
    } also "";
}

object! {
    /// A `turn_context`.
    TurnContext {
        cwd: "cwd",
        model: "model",
        effort: "effort",
        mode: "collaboration_mode",
    } also "";
}

object! {
    /// A `token_usage_record`, and the `info` of a `token_count`.
    Tokens {
        response: "response_id",
        usage: "usage",
        total: "total_token_usage",
        last: "last_token_usage",
    } also "";
}

object! {
    /// A `compacted`.
    Compacted {
        message: "message",
        replacement: "replacement_history",
        response: "compaction_response_id",
    } also "";
}

impl<'a> Row<'a> {
    /// Whether the line is an item without a wrapper.
    pub(super) fn is_bare_item(&self) -> bool {
        let kinds = ["message", "reasoning", "function_call", "function_call_output"];
        let kinds_of_tools = ["local_shell_call", "custom_tool_call", "custom_tool_call_output"];
        let kind = text(self.kind).unwrap_or_default();
        self.payload.is_none() && (kinds.contains(&&*kind) || kinds_of_tools.contains(&&*kind))
    }

    /// The item or the compaction that stands in the line.
    pub(super) fn item(&self) -> Option<&'a RawValue> {
        let is_item = matches!(text(self.kind).as_deref(), Some("response_item" | "compacted"));
        self.payload.filter(|_| is_item)
    }
}

/// An object's fields; none when it is no object.
pub(super) fn object<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// The pieces of an array; none of anything else.
pub(super) fn pieces(raw: Option<&RawValue>) -> Vec<&RawValue> {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// A string; none for anything else.
pub(super) fn text<'a>(raw: Option<&'a RawValue>) -> Option<Cow<'a, str>> {
    let json = raw?.get();
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(json).ok().map(Cow::Owned)
}

/// A string of its own.
pub(super) fn owned(raw: Option<&RawValue>) -> Option<String> {
    text(raw).map(Cow::into_owned)
}

/// A whole number.
pub(super) fn number(raw: Option<&RawValue>) -> Option<u64> {
    raw?.get().parse().ok()
}
