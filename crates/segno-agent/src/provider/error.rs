//! What a failed call means.
//!
//! Responsible for: one labelled table from (status, code, words) to what can be done about it, for
//! all providers. Must not: repeat a key; retry.

use super::json::Object;
use super::places;
use segno_runtime::{ModelError, ModelErrorKind, Refusal, RefusedPart};

/// The longest piece of a provider's words that is passed on.
const MESSAGE_CHARS: usize = 600;

/// What is told of a page for people.
const WEB_PAGE: &str = "a web page came instead of a model's reply";

/// What to look at when something else than a model answers.
const CHECK_BASE_URL: &str = "is the base URL right?";

/// What a provider said about a failure, in whatever shape.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Said {
    /// Codes, types and statuses, joined by spaces, in lower case.
    codes: String,
    /// Its sentence.
    message: String,
    /// How long it asks to wait, if the body says so.
    retry_after_ms: Option<u64>,
}

/// A stream that broke or made no sense.
pub(super) fn broken(what: &str) -> ModelError {
    error(ModelErrorKind::Broken, format!("the reply was cut or damaged: {what}"))
}

/// A request that must not be sent.
pub(super) fn refused(message: String) -> ModelError {
    error(ModelErrorKind::Refused, message)
}

pub(super) fn error(kind: ModelErrorKind, message: String) -> ModelError {
    ModelError::new(kind, message)
}

/// An error that arrived inside a stream.
pub(super) fn stream_error(code: &str, message: &str) -> ModelError {
    let said = Said { codes: code.to_lowercase(), message: clip(message), retry_after_ms: None };
    let kind = rule(None, &said).1;
    let text = if said.message.is_empty() { code.to_owned() } else { said.message };
    error(kind, format!("the provider broke off: {text}"))
}

/// An error object that arrived inside a stream.
pub(super) fn stream_error_object(object: &Object) -> ModelError {
    let said = said_by(object);
    let mut failure = stream_error(&said.codes, &said.message);
    failure.retry_after_ms = said.retry_after_ms;
    failure
}

/// A web page where a model's reply should be: most likely something else answers at that address.
pub(super) fn web_page(status: u16) -> ModelError {
    refused(format!("{WEB_PAGE} (HTTP {status}); {CHECK_BASE_URL}"))
}

/// A reply that sends the request elsewhere. It is not followed: the key would go along.
fn redirect(status: u16, location: Option<&str>) -> ModelError {
    let to = location.map_or_else(String::new, |to| format!(" to {}", clip(to)));
    refused(format!(
        "the server redirects{to} (HTTP {status}), which is not followed; {CHECK_BASE_URL}"
    ))
}

/// A reply with an HTTP error status, and where it redirects to.
pub(super) fn http_error(
    status: u16,
    body: &str,
    retry_after_ms: Option<u64>,
    location: Option<&str>,
) -> ModelError {
    if (300..400).contains(&status) {
        return redirect(status, location);
    }
    let failure = status_error(status, body, retry_after_ms);
    let misplaced = matches!(status, 404 | 405) && failure.kind == ModelErrorKind::Refused;
    if misplaced || (is_web_page(body) && failure.kind == ModelErrorKind::Refused) {
        return ModelError { message: format!("{}; {CHECK_BASE_URL}", failure.message), ..failure };
    }
    failure
}

fn is_web_page(body: &str) -> bool {
    let start: String =
        body.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']).chars().take(64).collect();
    let start = start.to_ascii_lowercase();
    ["<!doctype", "<html", "<?xml", "<head", "<body", "<center", "<h1"]
        .iter()
        .any(|tag| start.contains(tag))
}

fn status_error(status: u16, body: &str, retry_after_ms: Option<u64>) -> ModelError {
    let said = parse(body);
    let (_, kind) = rule(Some(status), &said);
    let said_text =
        if said.message.is_empty() { "no explanation".to_owned() } else { said.message };
    let message = match kind {
        // The provider's own sentence may repeat a part of the key.
        ModelErrorKind::Key => format!("the API key was not accepted (HTTP {status})"),
        ModelErrorKind::TooLong => format!("the context is too long for the model: {said_text}"),
        _ => format!("{said_text} (HTTP {status})"),
    };
    // Of these a part of the request may be the reason; the rest is about keys, money and addresses.
    let is_about = matches!(status, 400 | 404 | 415 | 422) && kind == ModelErrorKind::Refused;
    let part = places::part(&message);
    let is_about = is_about && (status != 404 || part == RefusedPart::AnyImage);
    let part = if kind == ModelErrorKind::Thinking { RefusedPart::Thinking } else { part };
    let refusal =
        (is_about || kind == ModelErrorKind::Thinking).then_some(Refusal { seq: None, part });
    let retry_after_ms = retry_after_ms.or(said.retry_after_ms);
    ModelError { retry_after_ms, refusal, ..error(kind, message) }
}

/// The first row that matches, with its label.
fn rule(status: Option<u16>, said: &Said) -> (&'static str, ModelErrorKind) {
    use ModelErrorKind::{Broken, Busy, Key, Refused, Thinking, TooLong};
    let words = said.message.to_lowercase();
    let codes = said.codes.as_str();
    let any = |list: &[&str]| list.iter().any(|w| words.contains(w) || codes.contains(w));
    let status_is = |list: &[u16]| status.is_some_and(|s| list.contains(&s));
    let is_client_error = status.is_none_or(|s| (400..500).contains(&s) && s != 429);
    let key = [
        "api key",
        "api_key",
        "unregistered callers",
        "authentication_error",
        "invalid_authentication",
    ];
    let signed =
        words.contains("signature") && (words.contains("thinking") || words.contains("thought"));
    match () {
        () if status_is(&[401]) => ("not-authenticated", Key),
        () if is_client_error && any(&key) => ("key-words", Key),
        () if status_is(&[413]) => ("request-too-large", TooLong),
        () if (is_client_error || status_is(&[500])) && any(OVERFLOW) => {
            ("context-overflow", TooLong)
        }
        () if is_client_error && (signed || any(SIGNED)) => ("signed-thinking", Thinking),
        () if any(&["insufficient_quota", "credit balance", "billing"]) => ("no-credit", Refused),
        () if status_is(&[408, 425, 429]) => ("wait", Busy),
        () if status.is_some_and(|s| s >= 500) => ("server-failed", Busy),
        () if status.is_some() => ("refused", Refused),
        () if any(BUSY) => ("stream-busy", Busy),
        () if any(REFUSED) => ("stream-refused", Refused),
        () => ("stream-broken", Broken),
    }
}

/// How providers say that a context is too long.
const OVERFLOW: &[&str] = &[
    "prompt is too long",
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "exceed context limit",
    "exceed_context_size",
    "request_too_large",
    "maximum number of tokens allowed",
    "maximum model length",
    "max_model_len",
    "input is too long",
    "too many tokens in the prompt",
    "reduce the length of the messages",
];

/// How providers refuse signed reasoning that they do not recognise.
const SIGNED: &[&str] = &[
    "invalid_encrypted_content",
    "encrypted content",
    "encrypted_content",
    "thinking` or `redacted_thinking` blocks",
    "thinking or redacted_thinking blocks",
    "thought_signature",
    "thoughtsignature",
    "expected `thinking`",
];

/// Codes inside a stream that mean: wait and try again.
const BUSY: &[&str] = &[
    "overloaded",
    "rate_limit",
    "rate limit",
    "server_error",
    "api_error",
    "timeout",
    "unavailable",
    "internal",
    "resource_exhausted",
    "too many requests",
    "429",
    "500",
    "502",
    "503",
    "504",
    "529",
];

/// Codes inside a stream that mean: not this request.
const REFUSED: &[&str] = &[
    "invalid_request",
    "invalid_prompt",
    "invalid_argument",
    "permission",
    "not_found",
    "failed_precondition",
    "content_policy",
    "400",
    "403",
    "404",
];

fn parse(body: &str) -> Said {
    let text = body.trim();
    // Gemini wraps its error in a list when a stream was asked for.
    let text = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    match Object::parse(text) {
        Some(object) => said_by(&object),
        None if text.starts_with('<') || is_web_page(text) => {
            Said { message: WEB_PAGE.to_owned(), ..Said::default() }
        }
        None => Said { message: clip(text), ..Said::default() },
    }
}

/// Reads the shapes in use: `{"error": {…}}`, `{"error": "…"}`, `{"message": …}`, `{"detail": …}`.
fn said_by(object: &Object) -> Said {
    let error = object.object("error").unwrap_or_else(|| object.clone());
    let plain = object.get::<String>("error").unwrap_or_default();
    let message = [error.text("message"), plain, error.text("detail")]
        .into_iter()
        .find(|m| !m.is_empty())
        .or_else(|| error.raw("detail").map(|d| d.get().to_owned()))
        .unwrap_or_default();
    let codes: Vec<String> = ["type", "code", "status"]
        .iter()
        .filter_map(|key| error.raw(key))
        .map(|value| value.get().trim_matches('"').to_lowercase())
        .collect();
    let message = if is_web_page(&message) { WEB_PAGE.to_owned() } else { clip(&message) };
    // OpenAI names the place beside its sentence.
    let at = error.text("param");
    let message = match at.is_empty() || message.contains(&at) {
        true => message,
        false => format!("{message} (at {at})"),
    };
    Said { codes: codes.join(" "), message, retry_after_ms: retry_delay(&error) }
}

/// Gemini's `RetryInfo` detail, e.g. `"retryDelay": "17.5s"`.
fn retry_delay(error: &Object) -> Option<u64> {
    let delay: String = error.objects("details").iter().find_map(|d| d.get("retryDelay"))?;
    seconds_to_ms(delay.strip_suffix('s')?)
}

/// A positive decimal number of seconds, as milliseconds.
fn seconds_to_ms(text: &str) -> Option<u64> {
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds.is_finite() && (0.0..1e9).contains(&seconds)).then(|| (seconds * 1000.0).ceil() as u64)
}

/// The wait that the headers ask for: milliseconds, seconds, or a date, which is compared with the
/// reply's own date, so that our clock does not matter.
pub(super) fn retry_after<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<u64> {
    if let Some(ms) = header("retry-after-ms").and_then(|v| v.trim().parse::<f64>().ok()) {
        return seconds_to_ms(&(ms / 1000.0).to_string());
    }
    let value = header("retry-after")?;
    seconds_to_ms(value).or_else(|| {
        let date = |text: &str| jiff::fmt::rfc2822::parse(text).ok().map(|z| z.timestamp());
        let wait = date(value)?.as_millisecond() - date(header("date")?)?.as_millisecond();
        u64::try_from(wait).ok()
    })
}

fn clip(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEANINGS: &[(u16, &str, &str)] = &[
        (401, r#"{"error":{"message":"Incorrect API key provided: sk-12"}}"#, "Key"),
        (
            400,
            r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
            "Key",
        ),
        (
            403,
            r#"{"error":{"code":403,"message":"Method doesn't allow unregistered callers","status":"PERMISSION_DENIED"}}"#,
            "Key",
        ),
        (403, r#"{"error":{"message":"Country not supported"}}"#, "Refused"),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 215000 tokens > 200000 maximum"}}"#,
            "TooLong",
        ),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            "TooLong",
        ),
        (
            400,
            r#"{"error":{"message":"Your input exceeds the limit","code":"context_length_exceeded"}}"#,
            "TooLong",
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            "TooLong",
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","code":400}"#,
            "TooLong",
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
            "TooLong",
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}"#,
            "Thinking",
        ),
        (
            400,
            r#"{"error":{"message":"The encrypted content could not be verified.","code":"invalid_encrypted_content"}}"#,
            "Thinking",
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"Function call is missing a thought_signature in functionCall parts."}}"#,
            "Thinking",
        ),
        (
            400,
            r#"{"error":{"message":"messages: text content blocks must be non-empty"}}"#,
            "Refused",
        ),
        (404, r#"{"error":{"message":"model 'x' not found"}}"#, "Refused"),
        (402, r#"{"error":{"message":"Payment required"}}"#, "Refused"),
        (
            429,
            r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
            "Refused",
        ),
        (
            429,
            r#"{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"@type":"t","retryDelay":"1.5s"}]}}"#,
            "Busy 1500",
        ),
        (408, "", "Busy"),
        (500, "<html>oops</html>", "Busy"),
        (
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            "Busy",
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "Busy",
        ),
        (422, r#"{"detail":[{"loc":["body"],"msg":"bad"}]}"#, "Refused"),
        (400, r#"{"error":"json: cannot unmarshal"}"#, "Refused"),
    ];

    /// Covers: #46 (a refused signature is told apart), G6.
    #[test]
    fn every_status_and_body_has_one_meaning() {
        for (status, body, expected) in MEANINGS {
            let failure = http_error(*status, body, None, None);
            let wait = failure.retry_after_ms.map_or(String::new(), |ms| format!(" {ms}"));
            assert_eq!(format!("{:?}{wait}", failure.kind), *expected, "{status} {body}");
            assert!(!failure.message.contains("sk-"), "{}", failure.message);
        }
    }

    #[test]
    fn something_else_than_a_model_is_told_with_a_hint_and_without_its_page() {
        let page = "<!DOCTYPE html><html><body>secret page</body></html>";
        let rows = [
            (
                302,
                "",
                Some("https://login.example/x"),
                "the server redirects to https://login.example/x (HTTP 302), which is not followed; is the base URL right?",
            ),
            (
                301,
                page,
                None,
                "the server redirects (HTTP 301), which is not followed; is the base URL right?",
            ),
            (
                404,
                page,
                None,
                "a web page came instead of a model's reply (HTTP 404); is the base URL right?",
            ),
            (
                403,
                page,
                None,
                "a web page came instead of a model's reply (HTTP 403); is the base URL right?",
            ),
            (404, "", None, "no explanation (HTTP 404); is the base URL right?"),
            (502, page, None, "a web page came instead of a model's reply (HTTP 502)"),
            (
                400,
                r#"{"error":"<html>secret page</html>"}"#,
                None,
                "a web page came instead of a model's reply (HTTP 400); is the base URL right?",
            ),
        ];
        for (status, body, location, expected) in rows {
            assert_eq!(http_error(status, body, None, location).message, expected);
        }
        assert!(web_page(200).message.contains("is the base URL right?"));
    }

    #[test]
    fn an_error_inside_a_stream_has_one_meaning() {
        let table = [
            ("overloaded_error", "Overloaded", ModelErrorKind::Busy),
            ("rate_limit_exceeded", "", ModelErrorKind::Busy),
            ("server_error", "An error occurred", ModelErrorKind::Busy),
            ("503", "upstream", ModelErrorKind::Busy),
            ("context_length_exceeded", "", ModelErrorKind::TooLong),
            ("invalid_request_error", "bad", ModelErrorKind::Refused),
            ("", "who knows", ModelErrorKind::Broken),
        ];
        for (code, message, expected) in table {
            assert_eq!(stream_error(code, message).kind, expected, "{code} {message}");
        }
    }

    #[test]
    fn the_wait_is_read_from_every_kind_of_header() {
        type Row = (&'static [(&'static str, &'static str)], Option<u64>);
        let table: [Row; 7] = [
            (&[("retry-after-ms", "250")], Some(250)),
            (&[("retry-after", "2")], Some(2000)),
            (&[("retry-after", "0.5")], Some(500)),
            (
                &[
                    ("retry-after", "Sun, 29 Nov 2026 10:00:30 GMT"),
                    ("date", "Sun, 29 Nov 2026 10:00:00 GMT"),
                ],
                Some(30_000),
            ),
            (&[("retry-after", "Sun, 29 Nov 2026 10:00:30 GMT")], None),
            (&[("retry-after", "-3")], None),
            (&[], None),
        ];
        for (headers, expected) in table {
            let header = |name: &str| headers.iter().find(|(k, _)| *k == name).map(|(_, v)| *v);
            assert_eq!(retry_after(header), expected, "{headers:?}");
        }
    }
}
