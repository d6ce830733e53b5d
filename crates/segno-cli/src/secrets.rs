//! Secrets in text, found by rules that hardly ever err.
//!
//! Responsible for: masking credentials in what leaves the machine (exports). Pure. Must not: mask what
//! only might be one (a hash, an id), touch a provider's signatures, or change anything stored.

use std::ops::Range;

/// Bytes that a credential is made of.
#[derive(Debug, Clone, Copy)]
enum Alphabet {
    /// Letters and digits.
    Alnum,
    /// Letters, digits, `-` and `_`.
    Word,
    /// Letters, digits, `-`, `_` and `.`.
    Dotted,
    /// Capitals and digits.
    Upper,
    /// Hexadecimal digits.
    Hex,
    /// What a path in an address may hold.
    Path,
    /// Base64.
    Base64,
}

impl Alphabet {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || b"-_".contains(&byte),
            Self::Dotted => byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Path => byte.is_ascii_alphanumeric() || b"-_/".contains(&byte),
            Self::Base64 => byte.is_ascii_alphanumeric() || b"+/=".contains(&byte),
        }
    }
}

/// Credentials that begin with a mark of their maker.
struct Token {
    label: &'static str,
    prefix: &'static str,
    alphabet: Alphabet,
    /// How many bytes follow the prefix at least, and at most.
    least: usize,
    most: usize,
}

const fn token(
    label: &'static str,
    prefix: &'static str,
    alphabet: Alphabet,
    least: usize,
    most: usize,
) -> Token {
    Token { label, prefix, alphabet, least, most }
}

const ANY: usize = usize::MAX;

/// A longer prefix stands before a shorter one that it begins with.
const TOKENS: &[Token] = &[
    token("anthropic-key", "sk-ant-", Alphabet::Word, 20, ANY),
    token("openrouter-key", "sk-or-v1-", Alphabet::Word, 32, ANY),
    token("openai-key", "sk-proj-", Alphabet::Word, 20, ANY),
    token("openai-key", "sk-svcacct-", Alphabet::Word, 20, ANY),
    token("openai-key", "sk-admin-", Alphabet::Word, 20, ANY),
    token("api-key", "sk-", Alphabet::Alnum, 32, ANY),
    token("github-token", "github_pat_", Alphabet::Word, 36, ANY),
    token("github-token", "ghp_", Alphabet::Alnum, 30, ANY),
    token("github-token", "gho_", Alphabet::Alnum, 30, ANY),
    token("github-token", "ghu_", Alphabet::Alnum, 30, ANY),
    token("github-token", "ghs_", Alphabet::Alnum, 30, ANY),
    token("github-token", "ghr_", Alphabet::Alnum, 30, ANY),
    token("gitlab-token", "glpat-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxb-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxp-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxa-", Alphabet::Word, 20, ANY),
    token("slack-token", "xoxs-", Alphabet::Word, 20, ANY),
    token("slack-token", "xapp-", Alphabet::Word, 20, ANY),
    token("slack-webhook", "https://hooks.slack.com/services/", Alphabet::Path, 30, ANY),
    token("aws-key-id", "AKIA", Alphabet::Upper, 16, 16),
    token("aws-key-id", "ASIA", Alphabet::Upper, 16, 16),
    token("google-key", "AIza", Alphabet::Word, 35, 35),
    token("google-token", "ya29.", Alphabet::Word, 30, ANY),
    token("google-secret", "GOCSPX-", Alphabet::Word, 20, ANY),
    token("stripe-key", "sk_live_", Alphabet::Alnum, 16, ANY),
    token("stripe-key", "rk_live_", Alphabet::Alnum, 16, ANY),
    token("stripe-key", "sk_test_", Alphabet::Alnum, 16, ANY),
    token("webhook-secret", "whsec_", Alphabet::Base64, 24, ANY),
    token("huggingface-token", "hf_", Alphabet::Alnum, 30, ANY),
    token("npm-token", "npm_", Alphabet::Alnum, 36, 36),
    token("pypi-token", "pypi-AgE", Alphabet::Word, 40, ANY),
    token("sendgrid-key", "SG.", Alphabet::Dotted, 60, ANY),
    token("digitalocean-token", "dop_v1_", Alphabet::Hex, 64, 64),
    token("groq-key", "gsk_", Alphabet::Alnum, 40, ANY),
    token("xai-key", "xai-", Alphabet::Alnum, 40, ANY),
    token("replicate-token", "r8_", Alphabet::Alnum, 36, ANY),
    token("perplexity-key", "pplx-", Alphabet::Alnum, 40, ANY),
    token("databricks-token", "dapi", Alphabet::Hex, 32, 32),
    token("docker-token", "dckr_pat_", Alphabet::Word, 20, ANY),
    token("linear-key", "lin_api_", Alphabet::Alnum, 30, ANY),
    token("vault-token", "hvs.", Alphabet::Word, 20, ANY),
    token("shopify-token", "shpat_", Alphabet::Hex, 32, 32),
];

/// Values behind a name that says what they are; the name may stand in any case.
const NAMED: &[(&str, &str, Alphabet, usize)] = &[
    ("aws-secret", "aws_secret_access_key", Alphabet::Base64, 16),
    ("aws-session-token", "aws_session_token", Alphabet::Base64, 16),
    ("azure-key", "AccountKey", Alphabet::Base64, 40),
    ("api-key", "x-api-key", Alphabet::Dotted, 12),
];

/// Text without its secrets, and how many were masked.
#[must_use]
pub fn mask(text: &str) -> (String, usize) {
    let mut out = String::with_capacity(text.len());
    let (mut at, mut count) = (0, 0);
    for (range, label) in find(text) {
        out.push_str(&text[at..range.start]);
        out.push_str(&format!("[masked: {label}]"));
        at = range.end;
        count += 1;
    }
    out.push_str(&text[at..]);
    (out, count)
}

/// Where secrets are, in order and apart from each other.
fn find(text: &str) -> Vec<(Range<usize>, &'static str)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match secret_at(text, at) {
            Some((range, label)) => {
                at = range.end;
                found.push((range, label));
            }
            None => at += 1,
        }
    }
    found
}

/// A secret whose mark begins here.
fn secret_at(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    match text.as_bytes()[at] {
        b'-' => private_key(text, at),
        b':' => url_password(text, at),
        byte if byte.is_ascii_alphabetic() && starts_word(text, at) => of_maker(text, at)
            .or_else(|| json_web_token(text, at))
            .or_else(|| authorization(text, at))
            .or_else(|| named(text, at)),
        _ => None,
    }
}

/// In JSON within JSON a word may follow the letter of an escape, as in `\nsk-…`.
fn starts_word(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let before = at.checked_sub(1).map(|i| bytes[i]);
    let escape = at >= 2 && bytes[at - 2] == b'\\' && b"nrt".contains(&bytes[at - 1]);
    escape || before.is_none_or(|byte| !Alphabet::Word.has(byte))
}

fn run(text: &str, from: usize, alphabet: Alphabet) -> usize {
    let bytes = text.as_bytes().get(from..).unwrap_or_default();
    bytes.iter().take_while(|byte| alphabet.has(**byte)).count()
}

fn of_maker(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let matching = |token: &&Token| {
        let body = at + token.prefix.len();
        let length = run(text, body, token.alphabet);
        text[at..].starts_with(token.prefix) && (token.least..=token.most).contains(&length)
    };
    let token = TOKENS.iter().find(matching)?;
    let body = at + token.prefix.len();
    Some((at..body + run(text, body, token.alphabet), token.label))
}

fn json_web_token(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    if !text[at..].starts_with("eyJ") {
        return None;
    }
    let length = run(text, at, Alphabet::Dotted);
    let parts: Vec<&str> = text[at..at + length].trim_end_matches('.').split('.').collect();
    let whole = parts.len() == 3 && parts.iter().all(|part| part.len() >= 10);
    whole.then(|| (at..at + parts.iter().map(|part| part.len()).sum::<usize>() + 2, "web-token"))
}

fn private_key(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let rest = text[at..].strip_prefix("-----BEGIN ")?;
    let kind = rest.split("-----").next()?;
    if !kind.ends_with("PRIVATE KEY") && !kind.ends_with("PRIVATE KEY BLOCK") {
        return None;
    }
    let end_mark = format!("-----END {kind}-----");
    // One that is cut off is a secret up to the end of the text.
    let end = text[at..].find(&end_mark).map_or(text.len(), |end| at + end + end_mark.len());
    Some((at..end, "private-key"))
}

/// `scheme://user:password@host`
fn url_password(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let rest = text[at..].strip_prefix("://")?;
    let start = at + 3;
    let end = rest.find(|c: char| c.is_whitespace() || "/?#\"'`<>\\,;()".contains(c));
    let authority = &rest[..end.unwrap_or(rest.len())];
    let (user_info, _host) = authority.rsplit_once('@')?;
    let (user, password) = user_info.split_once(':')?;
    let placeholder = password.starts_with(['$', '{', '*', '%', '[']) || password.is_empty();
    let from = start + user.len() + 1;
    (!placeholder).then(|| (from..from + password.len(), "password"))
}

/// Behind a name: quotes, a colon or an equals sign, and spaces, in any escaping.
fn behind_separator(text: &str, from: usize) -> Option<usize> {
    let rest = text.get(from..)?;
    let gap = rest.find(|c: char| !" \t\"'\\:=".contains(c)).unwrap_or(rest.len());
    rest[..gap].contains([':', '=']).then_some(from + gap)
}

fn has_name(text: &str, at: usize, name: &str) -> bool {
    text.as_bytes()
        .get(at..at + name.len())
        .is_some_and(|bytes| bytes.eq_ignore_ascii_case(name.as_bytes()))
}

fn authorization(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    const NAME: &str = "authorization";
    if !has_name(text, at, NAME) {
        return None;
    }
    let from = behind_separator(text, at + NAME.len())?;
    let scheme =
        ["bearer ", "basic ", "token ", "apikey "].iter().find(|s| has_name(text, from, s))?;
    let body = from + scheme.len();
    let end = text[body..].find(|c: char| c.is_whitespace() || "\"'`\\,;".contains(c));
    let end = end.map_or(text.len(), |end| body + end);
    let placeholder = text[body..].starts_with(['$', '{', '<', '*', '[']);
    (end - body >= 8 && !placeholder).then_some((body..end, "authorization"))
}

fn named(text: &str, at: usize) -> Option<(Range<usize>, &'static str)> {
    let (label, name, alphabet, least) =
        NAMED.iter().find(|(_, name, _, _)| has_name(text, at, name))?;
    let from = behind_separator(text, at + name.len())?;
    let length = run(text, from, *alphabet);
    (length >= *least).then_some((from..from + length, *label))
}

/// Fields that providers check: masking one would break what it signs, and it is no credential.
const UNTOUCHED: &[&str] = &[
    "signature",
    "encrypted_content",
    "encryptedContent",
    "thought_signature",
    "thoughtSignature",
    "reasoning_opaque",
];

/// One JSON text without the secrets in its strings, and how many were masked. Everything else stays
/// byte for byte.
#[must_use]
pub fn mask_json(json: &str) -> (String, usize) {
    let mut out = String::with_capacity(json.len());
    let (mut at, mut count) = (0, 0);
    let mut key = String::new();
    while let Some(open) = json[at..].find('"').map(|found| at + found) {
        let Some(end) = literal_end(json, open) else { break };
        let literal = &json[open..end];
        out.push_str(&json[at..open]);
        at = end;
        let readable = segno_model::line::readable_json(literal.as_bytes());
        let text: String = serde_json::from_str(&readable).unwrap_or_default();
        if json[end..].trim_start().starts_with(':') {
            key = text;
            out.push_str(literal);
            continue;
        }
        let (masked, hits) =
            if UNTOUCHED.contains(&key.as_str()) { (String::new(), 0) } else { mask(&text) };
        count += hits;
        match hits {
            0 => out.push_str(literal),
            _ => out.push_str(&serde_json::Value::String(masked).to_string()),
        }
    }
    out.push_str(&json[at..]);
    (out, count)
}

/// Where a string literal that opens here ends.
fn literal_end(json: &str, open: usize) -> Option<usize> {
    let bytes = json.as_bytes();
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rule once, and what looks like one and is none. `(text, masked)`; the secrets are made up.
    /// Covers: #116, #117, G17.
    #[test]
    fn secrets_are_masked_and_nothing_else() {
        let body = "Fa0Ke1Fa0Ke1Fa0Ke1Fa0Ke1Fa0Ke1Fa0Ke1Fa0Ke1Fa0Ke1Fa0Ke1Fa0Ke1Fa0Ke1Fa0Ke1";
        for token in TOKENS {
            let letters: String = body.chars().filter(|c| token.alphabet.has(*c as u8)).collect();
            let letters = letters.repeat(8);
            let length = token.least.max(20).min(token.most);
            let secret = format!("{}{}", token.prefix, &letters[..length]);
            let (masked, count) = mask(&format!("KEY={secret} x"));
            let expected = format!("KEY=[masked: {}] x", token.label);
            assert_eq!((masked.as_str(), count), (expected.as_str(), 1), "{secret}");
            let short = format!("{}{}", token.prefix, &letters[..token.least / 2]);
            assert_eq!(mask(&short), (short.clone(), 0), "too short");
            let inside = format!("x{secret}");
            assert_eq!(mask(&inside).1, 0, "{inside}: within a word");
        }
    }

    #[test]
    fn secrets_of_a_shape_are_masked() {
        let cases = [
            (
                "Authorization: Bearer abcdefgh12345",
                "Authorization: Bearer [masked: authorization]",
            ),
            (
                r#"{\"authorization\": \"Basic dXNlcjpw\"}"#,
                r#"{\"authorization\": \"Basic [masked: authorization]\"}"#,
            ),
            ("-H 'Authorization: Bearer $TOKEN'", "-H 'Authorization: Bearer $TOKEN'"),
            ("authorization is needed", "authorization is needed"),
            ("postgres://kiln:FAKE41@db:5432/k", "postgres://kiln:[masked: password]@db:5432/k"),
            ("https://user@host/a:b@c", "https://user@host/a:b@c"),
            ("http://h:80/x", "http://h:80/x"),
            ("redis://:$PASS@h", "redis://:$PASS@h"),
            (
                "a -----BEGIN RSA PRIVATE KEY-----\nAA\n-----END RSA PRIVATE KEY----- b",
                "a [masked: private-key] b",
            ),
            ("-----BEGIN PRIVATE KEY-----\nAA", "[masked: private-key]"),
            ("-----BEGIN CERTIFICATE-----\nAA", "-----BEGIN CERTIFICATE-----\nAA"),
            (
                "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG",
                "AWS_SECRET_ACCESS_KEY=[masked: aws-secret]",
            ),
            ("x-api-key: 0123456789abcdef", "x-api-key: [masked: api-key]"),
            ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK.", "[masked: web-token]."),
            ("eyJ.a.b", "eyJ.a.b"),
            ("the word AKIA alone", "the word AKIA alone"),
            ("9b2c11f09b2c11f09b2c11f09b2c11f0", "9b2c11f09b2c11f09b2c11f09b2c11f0"),
            ("日本 sk-ant-", "日本 sk-ant-"),
        ];
        for (text, expected) in cases {
            assert_eq!(mask(text).0, expected, "{text}");
        }
    }

    #[test]
    fn json_is_masked_within_its_strings_and_signatures_stay() {
        let key = "sk-ant-FAKEFAKEFAKEFAKEFAKEFAKE";
        let cases = [
            (format!(r#"{{"a":"x {key}","n":1.50, "b":[]}}"#), 1),
            (format!(r#"{{"signature":"{key}"}}"#), 0),
            (format!(r#"{{"arguments":"{{\"k\":\"{key}\"}}"}}"#), 1),
            (format!(r#"{{"text":"a\n{key}\u00e9"}}"#), 1),
            (r#"{"text":"plain \u00e9","x":1e5}"#.to_owned(), 0),
        ];
        for (json, expected) in cases {
            let (masked, count) = mask_json(&json);
            assert_eq!(count, expected, "{json}");
            assert!(serde_json::from_str::<serde_json::Value>(&masked).is_ok(), "{masked}");
            assert_eq!(masked.contains(key), expected == 0 && json.contains(key), "{masked}");
            assert!(expected > 0 || masked == json, "{masked}");
        }
        assert_eq!(mask_json(r#"{"a":"1.50"} {"#).0, r#"{"a":"1.50"} {"#);
    }
}
