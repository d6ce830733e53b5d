//! What is masked, and what only looks like it.
//!
//! Responsible for: a table of both. Must not: hold a credential that is in use anywhere; all are made up.

mod alarms;
mod misses;
mod work;

use super::Masker;
use super::makers::{TOKENS, UNMISTAKABLE};

fn mask(text: &str) -> (String, usize) {
    let mut masker = Masker::new(true);
    (masker.text(text).into_owned(), masker.masked())
}

fn mask_json(json: &str) -> (String, usize) {
    let mut masker = Masker::new(true);
    (masker.json(json).into_owned(), masker.masked())
}

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
        let counts = usize::from(UNMISTAKABLE.contains(&token.prefix));
        assert_eq!(mask(&inside).1, counts, "{inside}: within a word");
    }
}

#[test]
fn secrets_of_a_shape_are_masked() {
    let cases = [
        ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer [masked: authorization]"),
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
        (r#"[{"name":"API_TOKEN","value":"q8Zr2LmN4xVb"}]"#.to_owned(), 1),
        (r#"[{"name":"LOG_LEVEL","value":"q8Zr2LmN4xVb"}]"#.to_owned(), 0),
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

/// What a name gives away. Covers: #116, #117, G17.
#[test]
fn what_its_name_gives_away_is_masked() {
    let cases = [
        ("export FOO_TOKEN=q8Zr2LmN4xVb", "export FOO_TOKEN=[masked: token]"),
        ("FOO_TOKEN_2='q8Zr2LmN4xVb'", "FOO_TOKEN_2='[masked: token]'"),
        (
            "DB_PASSWORD=kingfisher\nHOME=/home/kiln",
            "DB_PASSWORD=[masked: password]\nHOME=/home/kiln",
        ),
        ("password: \"kiln-2026!\"", "password: \"[masked: password]\""),
        (r#"{"dbPassword": "kiln2026"}"#, r#"{"dbPassword": "[masked: password]"}"#),
        (r#"{\"client_secret\": \"q8Zr2LmN4xVb\"}"#, r#"{\"client_secret\": \"[masked: token]\"}"#),
        ("//npm.invalid/:_authToken=q8Zr2LmN4xVb", "//npm.invalid/:_authToken=[masked: token]"),
        ("deploy --api-key q8Zr2LmN4xVb --dry-run", "deploy --api-key [masked: token] --dry-run"),
        ("deploy --token=q8Zr2LmN4xVb", "deploy --token=[masked: token]"),
        (
            "https://h.invalid/x?access_token=q8Zr2LmN4xVb&a=1",
            "https://h.invalid/x?access_token=[masked: token]&a=1",
        ),
        (
            "curl -H 'Authorization: Bearer q8Zr2LmN' -u kiln:wren77 https://h",
            "curl -H 'Authorization: Bearer [masked: authorization]' -u kiln:[masked: password] https://h",
        ),
        (
            "machine h.invalid login kiln password wren77",
            "machine h.invalid login kiln password [masked: password]",
        ),
        ("DB_PASS=wren77owl", "DB_PASS=[masked: password]"),
        (
            "os.environ[\"API_KEY\"] = \"q8Zr2LmN4xVb\"",
            "os.environ[\"API_KEY\"] = \"[masked: token]\"",
        ),
        ("config['password'] = 'kiln-2026!'", "config['password'] = '[masked: password]'"),
        (
            "- name: API_TOKEN\n  value: q8Zr2LmN4xVb\n",
            "- name: API_TOKEN\n  value: [masked: token]\n",
        ),
        (
            r#"{"name": "API_TOKEN", "value": "q8Zr2LmN4xVb"}"#,
            r#"{"name": "API_TOKEN", "value": "[masked: token]"}"#,
        ),
        ("ENV API_TOKEN q8Zr2LmN4xVb", "ENV API_TOKEN [masked: token]"),
        ("set -gx API_TOKEN q8Zr2LmN4xVb", "set -gx API_TOKEN [masked: token]"),
        ("<password>wren77owl</password>", "<password>[masked: password]</password>"),
        ("sshpass -p wren77owl ssh h", "sshpass -p [masked: password] ssh h"),
        ("sshpass -pwren77owl ssh h", "sshpass -p[masked: password] ssh h"),
        ("docker login -u kiln -p wren77owl h", "docker login -u kiln -p [masked: password] h"),
        ("Set-Cookie: session=q8Zr2LmN4xVbq8Zr; Path=/", "Set-Cookie: session=[masked: cookie]"),
        ("Cookie: sid=q8Zr2LmN4xVbq8Zr2LmN4xVb", "Cookie: sid=[masked: cookie]"),
        (
            "the header is Bearer q8Zr2LmN4xVbq8Zr2LmN4xVb.",
            "the header is Bearer [masked: authorization].",
        ),
        (
            "GITHUB_TOKEN=ghp_FAKEfakeFAKEfakeFAKEfakeFAKEfakeFAKE",
            "GITHUB_TOKEN=[masked: github-token]",
        ),
        ("bot 123456789:AAq8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2LmN4 x", "bot [masked: telegram-token] x"),
        ("?sig=q8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr%3D&x", "?sig=[masked: azure-signature]&x"),
        (
            "     1\t-----BEGIN OPENSSH PRIVATE KEY-----\n     2\tb3BlbnNzaC1rZXk\n     3\t-----END OPENSSH PRIVATE KEY-----\nx",
            "     1\t[masked: private-key]\nx",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(mask(text).0, expected, "{text}");
    }
}

/// What looks like a secret and is none: it stays to the letter. Covers: G17.
#[test]
fn what_only_looks_like_a_secret_stays() {
    let picture =
        format!("data:image/png;base64,{}AKIAFAKEFAKEFAKEFAKE==", "iVBORw0KGgo".repeat(40));
    let cases = [
        "commit 9b2c11f09b2c11f09b2c11f09b2c11f09b2c11f0",
        "id 550e8400-e29b-41d4-a716-446655440000",
        "\"integrity\": \"sha512-q8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2LmN4xVb==\"",
        "checksum = \"9b2c11f09b2c11f09b2c11f09b2c11f09b2c11f09b2c11f0\"",
        "PASSWORD=$DB_PASSWORD",
        "API_KEY=your-api-key-1234",
        "API_KEY=<key>",
        "export TOKEN=${TOKEN:-none}",
        "password: \"string\"",
        "\"password\": \"required\", \"passwordHint\": \"a1\"",
        "let token = parse_token2(input)?;",
        "token: token_v2_cached,",
        "api_key = process.env.API_KEY_2;",
        "apiKey:t.apiKey1Id,secret:n.secret2Value",
        "max_tokens=4096, input_tokens: 123456789012",
        "fn auth(password: &str, token: String) -> bool",
        "const oauth = \"q8Zr2LmN4xVb\"",
        "PWD=/home/kiln/q8Zr2LmN4xVb",
        "PASSWORD=\"\" NEXT=abcdef1",
        "if text.contains(\"-----BEGIN PRIVATE KEY-----\") { return; }",
        "docker run -u 1000:1000 -it x",
        "docker run -p 8080:80 x && mkdir -p a1b2c3d4",
        "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE",
        "ALL_PASS=passed BYPASS=q8Zr2LmN4xVb compass: n0rth1234",
        "seen[token] = q8Zr2LmN4xVb",
        "<token>TOKEN</token> <passed>3 of 3</passed>",
        "- name: LOG_LEVEL\n  value: q8Zr2LmN4xVb",
        "the ENV TOKEN is set; set API_TOKEN first1time",
        "Bearer authentication is what the documentation calls it",
        "the cookie: it is set by the server",
        "secret: /etc/secrets/token2.txt",
        "--token TOKEN  the token to use",
        picture.as_str(),
        "",
    ];
    for text in cases {
        assert_eq!(mask(text), (text.to_owned(), 0));
    }
}

/// One secret has one mask in the whole export, others of its kind have others, and what was found once is
/// masked wherever it stands. Covers: #116, G17.
#[test]
fn the_same_secret_has_the_same_mask() {
    let mut masker = Masker::new(true);
    let (one, other) = ("q8Zr2LmN4xVbq8Zr", "w7Yt3KpM5cRdw7Yt");
    assert_eq!(masker.text(&format!("A_TOKEN={one}")), "A_TOKEN=[masked: token]");
    assert_eq!(masker.text(&format!("B_TOKEN={other}")), "B_TOKEN=[masked: token 2]");
    assert_eq!(
        masker.text(&format!("it is {one}, é{other}")),
        "it is [masked: token], é[masked: token 2]"
    );
    assert_eq!(masker.json(&format!(r#"["{one}"]"#)), r#"["[masked: token]"]"#);
    assert_eq!(masker.masked(), 5);
    let masks = "curl -u [masked: private-key] API_KEY=\"[masked: token]\" '[masked: password]'";
    assert_eq!(masker.text(masks), masks, "what is masked is not masked again");
    let mut open = Masker::new(false);
    let text = format!("A_TOKEN={one}");
    assert_eq!((open.text(&text).as_ref(), open.masked()), (text.as_str(), 0));
}

/// Escapes, keys, and JSON within JSON hide nothing.
#[test]
fn escapes_hide_no_secret() {
    let cases = [
        r#"{"text":"ghp_FAKEfakeFAKE\u0066akeFAKEfakeFAKEfakeFAKE"}"#,
        r#"{"a":{"api_key" : "q8Zr2LmN4xVb"}}"#,
        r#"{"arguments":"{\"token\":\"q8Zr\\u0032LmN4xVb\"}"}"#,
        r#"{"arguments":"{\"body\":\"{\\\"password\\\":\\\"kiln-2026!\\\"}\"}"}"#,
    ];
    for json in cases {
        let (masked, count) = mask_json(json);
        assert_eq!(count, 1, "{json} became {masked}");
        let parts = ["fakeFAKE", "LmN4xVb", "kiln-2026"];
        assert!(parts.iter().all(|part| !masked.contains(part)), "{masked}");
        assert!(serde_json::from_str::<serde_json::Value>(&masked).is_ok(), "{masked}");
    }
}
