//! How much a model is to think, in each provider's words.
//!
//! Responsible for: mapping `off`, `minimal`, `low`, `medium` and `high` by provider and model
//! family. Other words are passed on where the wire takes words. Must not: build a request.

use super::error::refused;
use super::wire::Wire;
use segno_runtime::ModelError;
use serde_json::{Value, json};

/// The `thinking` of an Anthropic request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnthropicThinking {
    /// Nothing is sent: the model's default.
    Default,
    /// Switched off in so many words.
    Disabled,
    /// So many tokens.
    Budget(u32),
    /// As the model sees fit, at this effort.
    Adaptive(String),
}

impl AnthropicThinking {
    /// Without thinking, if it is by budget.
    pub(super) fn unless_budget(self) -> Self {
        if matches!(self, Self::Budget(_)) { Self::Default } else { self }
    }

    /// The `thinking` field.
    pub(super) fn field(&self) -> Option<Value> {
        match self {
            Self::Default => None,
            Self::Disabled => Some(json!({"type": "disabled"})),
            Self::Budget(tokens) => Some(json!({"type": "enabled", "budget_tokens": tokens})),
            Self::Adaptive(_) => Some(json!({"type": "adaptive", "display": "summarized"})),
        }
    }

    /// The `output_config` field.
    pub(super) fn output_config(&self) -> Option<Value> {
        match self {
            Self::Adaptive(effort) => Some(json!({"effort": effort})),
            _ => None,
        }
    }
}

/// Claude from 4.6 on decides by itself at an effort; 3.7 to 4.5 take a budget; older ones do not
/// think. An id without a version is taken for the newest Claude, or, if it is no Claude, for a
/// server that takes budgets.
pub(super) fn anthropic(
    model: &str,
    level: Option<&str>,
    max_tokens: u32,
) -> Result<AnthropicThinking, ModelError> {
    let Some(level) = level else { return Ok(AnthropicThinking::Default) };
    let version = claude_version(model);
    let adaptive = version.map_or(model.contains("claude"), |v| v >= (4, 6));
    if version.is_some_and(|v| v < (3, 7)) {
        return Ok(AnthropicThinking::Default);
    }
    if adaptive {
        return Ok(match level {
            "off" => AnthropicThinking::Disabled,
            "minimal" => AnthropicThinking::Adaptive("low".to_owned()),
            other => AnthropicThinking::Adaptive(other.to_owned()),
        });
    }
    let budget = match level {
        "off" => return Ok(AnthropicThinking::Default),
        "minimal" => 1_024,
        "low" => 4_096,
        "medium" => 10_000,
        "high" => 24_000,
        other => number(model, other)?,
    };
    Ok(AnthropicThinking::Budget(budget.clamp(1_024, max_tokens.saturating_sub(1).max(1_024))))
}

/// A Claude id's version: the first one or two short numbers in it, so that dates do not count.
pub(super) fn claude_version(model: &str) -> Option<(u32, u32)> {
    let after = &model[model.find("claude")?..];
    let mut numbers = after.split(['-', '.', '@', ':']).filter(|p| p.len() <= 2);
    let major = numbers.by_ref().find_map(|p| p.parse().ok())?;
    let minor = numbers.next().and_then(|p| p.parse().ok()).unwrap_or(0);
    Some((major, minor))
}

/// Whether an OpenAI model reasons; unknown ones are taken to.
pub(super) fn openai_reasons(model: &str) -> bool {
    let plain = ["gpt-3", "gpt-4", "chatgpt-", "gpt-5-chat"];
    !plain.iter().any(|prefix| model.starts_with(prefix))
}

/// The `effort` of an OpenAI request.
pub(super) fn openai(model: &str, level: Option<&str>) -> Option<String> {
    let level = level.filter(|_| openai_reasons(model))?;
    let first_five = model == "gpt-5"
        || ["gpt-5-", "gpt-5-mini", "gpt-5-nano"].iter().any(|p| model.starts_with(p));
    let o_series = model.starts_with('o') && model[1..].starts_with(|c: char| c.is_ascii_digit());
    let effort = match level {
        "off" if o_series => "low",
        "off" if first_five => "minimal",
        "off" => "none",
        "minimal" if !first_five => "low",
        other => other,
    };
    Some(effort.to_owned())
}

/// The `reasoning_effort` of a compatible server: words as they are, since each knows its own; `off`
/// is `none`, as most call it.
pub(super) fn chat(level: Option<&str>) -> Option<&str> {
    level.map(|l| if l == "off" { "none" } else { l })
}

/// The `thinkingConfig` of a Gemini request: levels from Gemini 3 on, budgets for 2.5.
pub(super) fn gemini(model: &str, level: Option<&str>) -> Result<Option<Value>, ModelError> {
    let Some(level) = level else { return Ok(None) };
    let version = gemini_version(model);
    if version.is_some_and(|v| v < (2, 5)) || !model.contains("gemini") {
        return Ok(None);
    }
    if version.is_none_or(|v| v >= (3, 0)) {
        let level = match level {
            "off" | "minimal" if model.contains("pro") => "low",
            "off" => "minimal",
            other => other,
        };
        return Ok(Some(json!({"includeThoughts": true, "thinkingLevel": level})));
    }
    let least = if model.contains("pro") { 128 } else { 0 };
    let budget = match level {
        "off" => least,
        "minimal" => 512,
        "low" => 2_048,
        "medium" => 8_192,
        "high" => 24_576,
        other => number(model, other)?,
    };
    Ok(Some(json!({"includeThoughts": budget > 0, "thinkingBudget": budget})))
}

/// A Gemini id's version, e.g. (2, 5).
pub(super) fn gemini_version(model: &str) -> Option<(u32, u32)> {
    let after = model.split_once("gemini-")?.1;
    let mut numbers = after.split('-').next()?.split('.');
    let major = numbers.next()?.parse().ok()?;
    Some((major, numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0)))
}

/// What a level is for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// The model knows it.
    AsIs,
    /// This one is the nearest that it knows.
    Nearest(&'static str),
    /// It is nothing that could be compared; the model's own default is used.
    Not,
}

/// Words, from little to much, each with the tokens that it stands for where tokens are compared.
const SCALE: [(&str, u32); 7] = [
    ("off", 0),
    ("minimal", 1_024),
    ("low", 4_096),
    ("medium", 10_000),
    ("high", 24_000),
    ("xhigh", 48_000),
    ("max", 96_000),
];

/// The most that a model can be told, and whether it takes a number of tokens; none for models that do not
/// think or whose words only their server knows.
fn most(wire: Wire, model: &str, is_openai: bool) -> Option<(&'static str, bool)> {
    match wire {
        Wire::Anthropic => {
            let version = claude_version(model);
            let adaptive = version.map_or(model.contains("claude"), |v| v >= (4, 6));
            match version {
                Some(v) if v < (3, 7) => None,
                _ if adaptive => Some(("max", false)),
                _ => Some(("high", true)),
            }
        }
        Wire::OpenAiResponses => openai_reasons(model).then(|| most_of_openai(model)),
        Wire::OpenAiChat if is_openai => openai_reasons(model).then(|| most_of_openai(model)),
        Wire::OpenAiChat => Some(("", false)),
        Wire::Gemini => match gemini_version(model) {
            Some(v) if v < (2, 5) => None,
            _ if !model.contains("gemini") => None,
            Some(v) if v < (3, 0) => Some(("high", true)),
            _ => Some(("high", false)),
        },
    }
}

/// The newest families know one word more.
fn most_of_openai(model: &str) -> (&'static str, bool) {
    let older = ["gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-5.1"];
    let o_series = model.starts_with('o') && model[1..].starts_with(|c: char| c.is_ascii_digit());
    let word = if o_series || older.contains(&model) { "high" } else { "xhigh" };
    (word, false)
}

/// What `level` is for a model: sessions change models, and each knows other words.
pub(super) fn known(wire: Wire, model: &str, is_openai: bool, level: &str) -> Known {
    let Some((most, takes_tokens)) = most(wire, model, is_openai) else { return Known::AsIs };
    let place = |word: &str| SCALE.iter().position(|(known, _)| *known == word);
    if let Ok(tokens) = level.parse::<u32>() {
        if takes_tokens {
            return Known::AsIs;
        }
        let top = place(most).unwrap_or(4);
        let nearest =
            SCALE[..=top].iter().min_by_key(|(_, stands_for)| stands_for.abs_diff(tokens));
        return nearest.map_or(Known::Not, |(word, _)| Known::Nearest(word));
    }
    match (place(level), place(most)) {
        (None, Some(_)) => Known::Not,
        (Some(level), Some(top)) if level > top => Known::Nearest(SCALE[top].0),
        // Known, or a word of the server's own.
        (_, None) | (Some(_), Some(_)) => Known::AsIs,
    }
}

fn number(model: &str, level: &str) -> Result<u32, ModelError> {
    level.parse().map_err(|_| {
        refused(format!(
            "{model} does not know the thinking level {level:?}: use off, minimal, low, medium, \
             high or a number of tokens"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_of_another_model_becomes_the_nearest() {
        let rows = [
            (Wire::Anthropic, "claude-opus-4-7", "max", Known::AsIs),
            (Wire::Anthropic, "claude-opus-4-7", "9000", Known::Nearest("medium")),
            (Wire::Anthropic, "claude-opus-4-7", "deep", Known::Not),
            (Wire::Anthropic, "claude-sonnet-4-5", "xhigh", Known::Nearest("high")),
            (Wire::Anthropic, "claude-sonnet-4-5", "9000", Known::AsIs),
            (Wire::Anthropic, "claude-3-5-haiku-20241022", "deep", Known::AsIs),
            (Wire::OpenAiResponses, "gpt-5", "max", Known::Nearest("high")),
            (Wire::OpenAiResponses, "gpt-5.2", "max", Known::Nearest("xhigh")),
            (Wire::OpenAiResponses, "gpt-5.2", "minimal", Known::AsIs),
            (Wire::OpenAiResponses, "o3", "0", Known::Nearest("off")),
            (Wire::OpenAiResponses, "gpt-4.1", "deep", Known::AsIs),
            (Wire::OpenAiChat, "qwen3", "deep", Known::AsIs),
            (Wire::OpenAiChat, "qwen3", "4000", Known::Nearest("low")),
            (Wire::Gemini, "gemini-3-pro-preview", "xhigh", Known::Nearest("high")),
            (Wire::Gemini, "gemini-2.5-pro", "300", Known::AsIs),
            (Wire::Gemini, "gemini-2.5-pro", "deep", Known::Not),
            (Wire::Gemini, "gemma-3", "deep", Known::AsIs),
        ];
        for (wire, model, level, expected) in rows {
            assert_eq!(known(wire, model, false, level), expected, "{model} {level}");
        }
    }

    #[test]
    fn levels_are_mapped_by_provider_and_family() {
        let anthropic = |model, level| match anthropic(model, Some(level), 32_000) {
            Ok(t) => format!(
                "{:?} {:?}",
                t.field().map(|v| v.to_string()),
                t.output_config().map(|v| v.to_string())
            ),
            Err(e) => e.message,
        };
        let gemini = |model, level| match gemini(model, Some(level)) {
            Ok(v) => v.map_or("none".to_owned(), |v| v.to_string()),
            Err(e) => e.message,
        };
        let openai = |model, level| openai(model, Some(level)).unwrap_or("none sent".to_owned());
        let mut table = String::new();
        for model in [
            "claude-opus-4-7",
            "claude-sonnet-4-5-20250929",
            "claude-sonnet-4-20250514",
            "claude-3-7-sonnet-20250219",
            "claude-3-5-haiku-20241022",
            "claude-next",
            "other",
        ] {
            for level in ["off", "minimal", "high", "xhigh", "9000", "1"] {
                table += &format!("{model} {level}: {}\n", anthropic(model, level));
            }
        }
        for model in ["gpt-5", "gpt-5-mini", "gpt-5.1", "o3", "gpt-4.1"] {
            for level in ["off", "minimal", "low", "xhigh"] {
                table += &format!("{model} {level}: {}\n", openai(model, level));
            }
        }
        for model in [
            "gemini-3-pro-preview",
            "gemini-3.8-flash",
            "gemini-2.5-pro",
            "gemini-2.5-flash",
            "gemini-2.0-flash",
            "gemini-flash-latest",
            "gemma-3",
        ] {
            for level in ["off", "minimal", "high", "deep", "300"] {
                table += &format!("{model} {level}: {}\n", gemini(model, level));
            }
        }
        insta::assert_snapshot!(table);
    }
}
