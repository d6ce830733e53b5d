//! Images: the tokens that they take by their size.
//!
//! Responsible for: one table from the model that is asked to the way its provider counts. Must not: open an image;
//! who stores one in a blob says how large it is.

use crate::record::{ModelRef, Text};
use std::fmt;

/// Tokens of an image whose size nobody knows.
pub(crate) const UNKNOWN_TOKENS: u64 = 1_200;

/// Width and height in pixels. Its text (`1280x720`) is what a reference to an image's blob keeps of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl Size {
    /// The size of an image as a record holds it; none where that does not tell, as small ones that are no blob.
    #[must_use]
    pub fn of(data: &Text) -> Option<Self> {
        let Text::Blob(blob) = data else { return None };
        let (width, height) = blob.head.split_once('x')?;
        Some(Self { width: width.parse().ok()?, height: height.parse().ok()? })
    }

    /// Scaled down, shape kept, so that its longer side has at most so many pixels.
    fn within(self, side: u32) -> Self {
        self.scaled(side, self.width.max(self.height))
    }

    fn scaled(self, to: u32, from: u32) -> Self {
        if from <= to {
            return self;
        }
        let scale = |pixels: u32| {
            let pixels = u64::from(pixels) * u64::from(to) / u64::from(from);
            u32::try_from(pixels).unwrap_or(u32::MAX).max(1)
        };
        Self { width: scale(self.width), height: scale(self.height) }
    }

    fn area(self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    /// How many squares of this side cover it.
    fn squares(self, side: u32) -> u64 {
        let side = side.max(1);
        u64::from(self.width.div_ceil(side)) * u64::from(self.height.div_ceil(side))
    }
}

/// The tokens of an image for this model; more rather than fewer where it is not known how it counts.
pub(crate) fn tokens(data: &Text, model: Option<&ModelRef>) -> u64 {
    Size::of(data).map_or(UNKNOWN_TOKENS, |size| Count::of(model).tokens(size))
}

/// A way to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    /// Anthropic: a token for 750 pixels, after scaling to the longest side and to the most tokens.
    /// Source: docs.anthropic.com, "Vision", "Evaluate image size" and "Calculate image costs".
    Area { side: u32, most: u64 },
    /// OpenAI: scaled into 2048 x 2048, then to a shorter side of 768; a base, and so much per tile of 512.
    /// Source: platform.openai.com, "Images and vision", "Calculating costs".
    Tiles { base: u64, tile: u64 },
    /// OpenAI's small models: patches of 32, 1,536 at most, times hundredths. Source: the same page.
    Patches { hundredths: u64 },
    /// Gemini before 3: 258 where both sides have at most 384 pixels; otherwise so many per tile, whose side is the
    /// shorter side / 1.5, between 256 and 768. Source: ai.google.dev, "Image understanding", "Token calculation".
    Crops,
    /// Gemini 3: so many for each image, whatever its size. Source: ai.google.dev, "Media resolution", "Token counts".
    Flat(u64),
    /// Nobody knows: as Anthropic counts, but for the whole of 2048 pixels, and not fewer than Gemini's least.
    Guess,
}

/// Anthropic's models up to 4.6 see 1568 pixels and 1,600 tokens.
const USUAL: Count = Count::Area { side: 1_568, most: 1_600 };
/// Later ones see 2576 pixels, 3.75 million in all (announcement of Claude Opus 4.7).
const SHARP: Count = Count::Area { side: 2_576, most: 5_000 };

/// By how the model's id begins, without a vendor in front. The first row that matches counts.
const MODELS: &[(&str, Count)] = &[
    ("claude-3", USUAL),
    ("claude-opus-4-2025", USUAL),
    ("claude-opus-4-0", USUAL),
    ("claude-opus-4-1", USUAL),
    ("claude-opus-4-5", USUAL),
    ("claude-opus-4-6", USUAL),
    ("claude-sonnet-4-2025", USUAL),
    ("claude-sonnet-4-0", USUAL),
    ("claude-sonnet-4-5", USUAL),
    ("claude-sonnet-4-6", USUAL),
    ("claude-haiku-4-5", USUAL),
    ("claude", SHARP),
    ("gpt-4o-mini", Count::Tiles { base: 2_833, tile: 5_667 }),
    ("gpt-4o", Count::Tiles { base: 85, tile: 170 }),
    ("gpt-4.1-mini", Count::Patches { hundredths: 162 }),
    ("gpt-4.1-nano", Count::Patches { hundredths: 246 }),
    ("gpt-4", Count::Tiles { base: 85, tile: 170 }),
    ("gpt-5-mini", Count::Patches { hundredths: 162 }),
    ("gpt-5-nano", Count::Patches { hundredths: 246 }),
    // Later ones (`gpt-5.4`) see more; the guess is above what these take.
    ("gpt-5.", Count::Guess),
    ("gpt-5", Count::Tiles { base: 70, tile: 140 }),
    ("o4-mini", Count::Patches { hundredths: 172 }),
    ("o1", Count::Tiles { base: 75, tile: 150 }),
    ("o3", Count::Tiles { base: 75, tile: 150 }),
    ("gemini-1", Count::Crops),
    ("gemini-2", Count::Crops),
    ("gemini", Count::Flat(1_120)),
];

impl Count {
    fn of(model: Option<&ModelRef>) -> Self {
        let Some(model) = model else { return Self::Guess };
        let id = model.id.rsplit('/').next().unwrap_or(&model.id);
        let row = MODELS.iter().find(|(begins, _)| id.starts_with(begins));
        row.map_or(Self::Guess, |(_, count)| *count)
    }

    fn tokens(self, size: Size) -> u64 {
        match self {
            Self::Area { side, most } => size.within(side).area().div_ceil(750).min(most),
            Self::Tiles { base, tile } => {
                let size = size.within(2_048);
                let size = size.scaled(768, size.width.min(size.height));
                base + tile * size.squares(512)
            }
            Self::Patches { hundredths } => {
                (size.squares(32).min(1_536) * hundredths).div_ceil(100)
            }
            Self::Crops if size.width.max(size.height) <= 384 => 258,
            Self::Crops => {
                let shorter = u64::from(size.width.min(size.height));
                let side = u32::try_from(shorter * 2 / 3).unwrap_or(u32::MAX).clamp(256, 768);
                // A provider makes what is larger smaller, as requests do.
                258 * size.within(3_072).squares(side)
            }
            Self::Flat(tokens) => tokens,
            Self::Guess => size.within(2_048).area().div_ceil(750).max(258),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::BlobRef;

    fn blob(head: &str) -> Text {
        Text::Blob(BlobRef { blob: String::new(), bytes: 1, head: head.to_owned() })
    }

    /// Covers: G6. Each provider's own way to count, at its limits.
    #[test]
    fn images_count_by_their_size_and_their_reader() {
        let cases = [
            ("claude-sonnet-4-5", "200x200", 54),
            ("claude-sonnet-4-5", "1000x1000", 1_334),
            ("claude-sonnet-4-5", "1092x1092", 1_590),
            ("anthropic/claude-3-5-haiku-latest", "8000x8000", 1_600),
            ("claude-sonnet-4-5", "8000x10", 3),
            ("claude-opus-4-7", "2000x1500", 4_000),
            ("claude-opus-4-7", "4000x4000", 5_000),
            ("gpt-4o", "512x512", 255),
            ("gpt-4o", "1024x1024", 765),
            ("gpt-4.1", "2048x4096", 1_105),
            ("gpt-5", "1024x1024", 630),
            ("o3", "1024x1024", 675),
            ("gpt-4o-mini", "512x512", 8_500),
            ("gpt-4.1-mini", "1024x1024", 1_659),
            ("gpt-5-nano", "4000x4000", 3_779),
            ("o4-mini", "32x33", 4),
            ("gpt-5.4", "1024x1024", 1_399),
            ("gemini-2.5-pro", "384x384", 258),
            ("gemini-2.5-pro", "960x540", 1_548),
            ("gemini-2.5-pro", "1536x1536", 1_032),
            ("gemini-3-pro-preview", "10x10", 1_120),
            ("qwen3-vl", "10x10", 258),
            ("qwen3-vl", "1500x1000", 2_000),
            ("qwen3-vl", "4294967295x4294967295", 5_593),
            ("gemini-2.5-pro", "4294967295x4294967295", 4_128),
            ("gpt-4o", "4294967295x1", 765),
            ("gpt-4o", "0x0", 85),
            ("claude-sonnet-4-5", "", UNKNOWN_TOKENS),
            ("claude-sonnet-4-5", "12xhigh", UNKNOWN_TOKENS),
        ];
        for (id, size, expected) in cases {
            let model = ModelRef::new("some", id);
            assert_eq!(tokens(&blob(size), Some(&model)), expected, "{id} {size}");
        }
        assert_eq!(tokens(&blob("1500x1000"), None), 2_000);
    }

    /// Each row is reached: none stands below a shorter beginning of itself.
    #[test]
    fn every_model_has_one_row() {
        for (begins, count) in MODELS {
            assert_eq!(Count::of(Some(&ModelRef::new("p", begins))), *count, "{begins}");
        }
    }
}
