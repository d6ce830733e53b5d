//! The limits of each wire.
//!
//! Responsible for: numbers and alphabets. Must not: apply them.
//!
//! Where a provider's own limit is not documented, or differs by model, the stricter one stands here.

use crate::provider::wire::Wire;

/// What a wire takes.
#[derive(Debug)]
pub(in crate::provider) struct Takes {
    /// How long a call's id may be, in bytes.
    pub(in crate::provider) id_bytes: usize,
    /// How long a tool's name may be, in bytes.
    pub(in crate::provider) name_bytes: usize,
    /// Whether a tool's name begins with a letter or an underscore.
    pub(in crate::provider) name_begins_with_letter: bool,
    /// Whether reasoning can be said at all outside of native items.
    pub(in crate::provider) thinking: bool,
    /// Images.
    pub(in crate::provider) images: ImageTakes,
}

/// What a wire takes of images.
#[derive(Debug)]
pub(in crate::provider) struct ImageTakes {
    /// The types.
    pub(in crate::provider) types: &'static [&'static str],
    /// The longest base64 text of one.
    pub(in crate::provider) base64_bytes: usize,
    /// The longest side, in pixels.
    pub(in crate::provider) side: u32,
    /// How many in one request.
    pub(in crate::provider) count: usize,
    /// The base64 text of all images of one request together.
    pub(in crate::provider) total_base64_bytes: usize,
}

const MIB: usize = 1024 * 1024;

/// Anthropic: 5 MB each, 8,000 pixels a side, but 2,000 with more than 20 images; so that bytes that were sent
/// once never change when the 21st comes, 2,000 holds always (more is scaled down there anyway). 32 MB a request.
static ANTHROPIC: Takes = Takes {
    id_bytes: 64,
    name_bytes: 64,
    name_begins_with_letter: false,
    thinking: true,
    images: ImageTakes {
        types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
        base64_bytes: 5 * MIB,
        side: 2_000,
        count: 100,
        total_base64_bytes: 24 * MIB,
    },
};

/// OpenAI Responses: 50 MB a request; ids of calls up to 64 bytes.
static RESPONSES: Takes = Takes {
    id_bytes: 64,
    name_bytes: 64,
    name_begins_with_letter: false,
    thinking: true,
    images: ImageTakes {
        types: &["image/png", "image/jpeg", "image/gif", "image/webp"],
        base64_bytes: 20 * MIB,
        side: 6_000,
        count: 400,
        total_base64_bytes: 40 * MIB,
    },
};

/// Chat Completions: ids of calls up to 40 bytes at OpenAI; many servers read PNG and JPEG only.
static CHAT: Takes = Takes {
    id_bytes: 40,
    name_bytes: 64,
    name_begins_with_letter: false,
    thinking: false,
    images: ImageTakes {
        types: &["image/png", "image/jpeg"],
        base64_bytes: 20 * MIB,
        side: 6_000,
        count: 400,
        total_base64_bytes: 40 * MIB,
    },
};

/// Gemini: no GIF; 20 MB a request with everything in it.
static GEMINI: Takes = Takes {
    id_bytes: 64,
    name_bytes: 64,
    name_begins_with_letter: true,
    thinking: false,
    images: ImageTakes {
        types: &["image/png", "image/jpeg", "image/webp"],
        base64_bytes: 14 * MIB,
        side: 6_000,
        count: 400,
        total_base64_bytes: 16 * MIB,
    },
};

impl Takes {
    /// The limits of a wire.
    pub(in crate::provider) fn of(wire: Wire) -> &'static Self {
        match wire {
            Wire::Anthropic => &ANTHROPIC,
            Wire::OpenAiResponses => &RESPONSES,
            Wire::OpenAiChat => &CHAT,
            Wire::Gemini => &GEMINI,
        }
    }
}
