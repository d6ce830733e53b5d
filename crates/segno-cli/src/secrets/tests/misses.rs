//! What hid from the rules once, and must not again.
//!
//! Responsible for: a table of texts and what is left of them. Must not: hold a credential that is in use
//! anywhere; all are made up.

use super::{mask, mask_json};

/// A key with a mark, one without, and a line of a longer one.
const KEY: &str = "ghp_2kHD9FSUuErsEz5jhy0I9lO7F3vlfFrGYJ3G";
const HEX: &str = "04b608436325ba0af0dc003bd3b5bddc36fb0648";
const LINE: &str = "MIIEowIBAAKCAQEAwJxk2Zb7v9qT3mN8pLr5sYdHf1GcKuV0eXiObtAzRhQnWyPj";

/// Each text with `GHP`, `HEX` or `ROW` for them in it, and what it is afterwards.
fn check(rows: &[(&str, &str)]) {
    for (text, expected) in rows {
        let put = |text: &str| text.replace("GHP", KEY).replace("HEX", HEX).replace("ROW", LINE);
        assert_eq!(mask(&put(text)).0, put(expected), "{text}");
    }
}

/// What stands in front of a line or a word. Covers: #116, G17.
#[test]
fn marks_of_diffs_quotes_and_comments_hide_nothing() {
    for before in
        ["-", "+", " ", ">", "<", "| ", "# ", "// ", "@@ -1 +1 @@\n-", "--", "x\n- ", "- - "]
    {
        let text = format!("{before}GITHUB_TOKEN={HEX}\n");
        assert_eq!(mask(&text).0, format!("{before}GITHUB_TOKEN=[masked: token]\n"), "{before:?}");
        let text = format!("{before}{KEY}");
        assert_eq!(mask(&text).0, format!("{before}[masked: github-token]"), "{before:?}");
    }
}

/// Escapes, colours and characters that are not seen. Covers: #116, G17.
#[test]
fn what_is_not_read_letter_for_letter_hides_nothing() {
    let spelled: String = KEY.bytes().map(|b| format!("\\u{b:04x}")).collect();
    check(&[
        ("next=%3Ftoken%3DGHP%26a", "next=%3Ftoken%3D[masked: github-token]%26a"),
        ("%22GHP%22", "%22[masked: github-token]%22"),
        ("\\u0022GHP\\u0022", "\\u0022[masked: github-token]\\u0022"),
        ("\\\\\\\"GHP\\\\\\\"", "\\\\\\\"[masked: github-token]\\\\\\\""),
        ("&quot;api_key&quot;:&#34;HEX&#x22;", "&quot;api_key&quot;:&#34;[masked: token]&#x22;"),
        ("a\\x22GHP\\x22", "a\\x22[masked: github-token]\\x22"),
        (
            "\\u001b[01;31m\\u001b[KGHP\\u001b[m",
            "\\u001b[01;31m\\u001b[K[masked: github-token]\\u001b[m",
        ),
        ("xxGHP", "xx[masked: github-token]"),
        ("key_GHP", "key_[masked: github-token]"),
        ("{\\\"api_key\\\": \\\"HEX\\\"}", "{\\\"api_key\\\": \\\"[masked: token]\\\"}"),
        ("url?x=1%26api_key%3DHEX", "url?x=1%26api_key%3D[masked: token]"),
        ("TOKEN=ab\\\nc1d2e3f4g5", "TOKEN=[masked: token]"),
    ]);
    assert_eq!(
        mask(&format!("{{\"token\":\"{spelled}\"}}")).0,
        "{\"token\":\"[masked: github-token]\"}"
    );
    for hidden in [
        "\x1b[m",
        "\x1b[01;31m\x1b[K",
        "\u{9b}1m",
        "\x1b]8;;x\x07",
        "\u{200b}",
        "\u{2060}",
        "\u{ad}",
        "\\\n",
        "\\u200b",
    ] {
        let text = format!("a {}{hidden}{}{hidden} b", &KEY[..5], &KEY[5..]);
        assert_eq!(mask(&text).0, format!("a [masked: github-token]{hidden} b"), "{hidden:?}");
        let json = serde_json::json!({ "text": text }).to_string();
        let masked = serde_json::from_str::<serde_json::Value>(&mask_json(&json).0).unwrap();
        assert_eq!(masked["text"], format!("a [masked: github-token]{hidden} b"));
    }
}

/// However it is spelled, it is the same secret.
#[test]
fn a_secret_that_is_spelled_another_way_has_the_same_mask() {
    check(&[(
        "A_TOKEN=HEX and %22HEX%22, 04b60843\\u00363\\u0032\u{200b}5ba0af0dc003bd3b5bddc36fb0648.",
        "A_TOKEN=[masked: token] and %22[masked: token]%22, [masked: token].",
    )]);
}

/// Passwords of several words, in quotes. Covers: #116, G17.
#[test]
fn passwords_with_spaces_are_masked_where_quotes_say_where_they_end() {
    check(&[
        ("DB_PASSWORD=\"corr3ct horse b@ttery\"", "DB_PASSWORD=\"[masked: password]\""),
        ("export DB_PASSWORD='My S3cret Pass!'", "export DB_PASSWORD='[masked: password]'"),
        ("{\"password\": \"My S3cret Pass!\"}", "{\"password\": \"[masked: password]\"}"),
        (
            "{\\\"password\\\": \\\"My S3cret Pass!\\\"}",
            "{\\\"password\\\": \\\"[masked: password]\\\"}",
        ),
        ("DB_PASSWORD=\"correct horse battery staple\"", "DB_PASSWORD=\"[masked: password]\""),
        ("password: \"My \\\"S3cret\\\" Pass!\"", "password: \"[masked: password]\""),
        ("DB_PASSWORD=\"kingfisher\"", "DB_PASSWORD=\"[masked: password]\""),
    ]);
    let json = r#"{"password": "My \"S3cret\" Pass!", "hint": "My"}"#;
    assert_eq!(mask_json(json).0, r#"{"password": "[masked: password]", "hint": "My"}"#);
}

/// Secrets that are longer than a line. Covers: #116, G17.
#[test]
fn what_goes_on_over_lines_is_masked_whole() {
    check(&[
        (
            "private_key: |\n  ROW\n  Kq9xT7kLw2==\nnext: 1",
            "private_key: |\n  [masked: token]\nnext: 1",
        ),
        ("private_key: >-\n    ROW\n", "private_key: >-\n    [masked: token]\n"),
        ("PRIVATE_KEY=\"ROW\nROW\nKq9xT7kLw2a=\"\n", "PRIVATE_KEY=\"[masked: token]\"\n"),
        ("SIGNING_KEY=ROW\nROW\nnext", "SIGNING_KEY=[masked: token]\nnext"),
        ("{\"private_key\": \"ROW\\nKq9xT7kLw2\\n\"}", "{\"private_key\": \"[masked: token]\"}"),
        (
            "-----BEGIN PRIVATE KEY-----\n-ROW\n------END PRIVATE KEY-----\nx",
            "[masked: private-key]\nx",
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nROW\n-----BEGIN PRIVATE KEY-----\nROW\n-----END PRIVATE KEY-----\nx",
            "[masked: private-key][masked: private-key 2]\nx",
        ),
    ]);
}

/// Other ways to say what a value is. Covers: #116, G17.
#[test]
fn options_tables_lists_and_hashes_are_masked() {
    let hash = "q8Zr2LmN4xVb.q8Zr2LmN4xVb/".repeat(4);
    check(&[
        ("mysql -u root -pS3kr1tPw db", "mysql -u root -p[masked: password] db"),
        ("/usr/bin/mysqldump -p'S3kr1t Pw' db", "/usr/bin/mysqldump -p'[masked: password]' db"),
        ("redis-cli -h x -a S3kr1tPw ping", "redis-cli -h x -a [masked: password] ping"),
        ("mongosh -u kiln -p S3kr1tPw", "mongosh -u kiln -p [masked: password]"),
        ("curl -u 'kiln:wren 77 owl' h", "curl -u 'kiln:[masked: password]' h"),
        ("psk=\"correcthorse99\"", "psk=\"[masked: password]\""),
        ("DB_PWD=S3kr1tPw", "DB_PWD=[masked: password]"),
        ("Passwort: S3kr1tPw1", "Passwort: [masked: password]"),
        ("go run . -token=q8Zr2LmN4xVb", "go run . -token=[masked: token]"),
        ("java -Dpassword=kiln-2026x x", "java -Dpassword=[masked: password] x"),
        ("| API_KEY | HEX |", "| API_KEY | [masked: token] |"),
        ("| 1 | `API_KEY` | `HEX` |", "| 1 | `API_KEY` | `[masked: token]` |"),
        (" API_KEY | HEX\n", " API_KEY | [masked: token]\n"),
        ("API_KEY\tHEX", "API_KEY\t[masked: token]"),
        ("API key: HEX", "API key: [masked: token]"),
        ("('X-Auth-Token', 'HEX')", "('X-Auth-Token', '[masked: token]')"),
        ("os.Setenv(\"API_TOKEN\", \"HEX\")", "os.Setenv(\"API_TOKEN\", \"[masked: token]\")"),
        ("'password' => 'kiln-2026!',", "'password' => '[masked: password]',"),
        ("- `API_KEY`: `HEX`", "- `API_KEY`: `[masked: token]`"),
        ("MvUXqgA2v4gtesTvA3Aeetel.c8gYV5.9GAgDAeoAb8KIsPgRGu7x8eDygk", "[masked: discord-token]"),
        ("kiln:$apr1$q8Zr2LmN$q8Zr2LmN4xVb.q8Zr2LmN/:", "kiln:[masked: password-hash]:"),
    ]);
    let shadow = format!("root:$6$q8Zr2LmN4xVb${}:19000:0::", &hash[..86]);
    assert_eq!(mask(&shadow).0, "root:[masked: password-hash]:19000:0::");
    let json = format!(r#"[["X-Auth-Token","{HEX}"],{{"key":"API_TOKEN","value":"{HEX}"}}]"#);
    assert_eq!(
        mask_json(&json).0,
        r#"[["X-Auth-Token","[masked: token]"],{"key":"API_TOKEN","value":"[masked: token]"}]"#
    );
    let json = format!(r#"{{"{KEY}":1,"x-api-key":"0123456789abcdef"}}"#);
    assert_eq!(
        mask_json(&json).0,
        r#"{"[masked: github-token]":1,"x-api-key":"[masked: api-key]"}"#
    );
}

/// Base64 of a text with a secret in it. Covers: #116, G17.
#[test]
fn what_is_packed_in_base64_is_looked_into() {
    use base64::Engine as _;
    let pack = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{LINE}\n-----END PRIVATE KEY-----\n");
    let env = format!("HOME=/home/kiln\nAPI_TOKEN={HEX}\n{}", "LANG=C\n".repeat(30));
    for (packed, label) in [(pack(&pem), "private-key"), (pack(&env), "token")] {
        assert_eq!(
            mask(&format!("tls.key: {packed}\nx")).0,
            format!("tls.key: [masked: {label}]\nx")
        );
        let lines: Vec<&str> =
            packed.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let wrapped = lines.join("\n");
        assert_eq!(mask(&format!("{wrapped}\n\nx")).0, format!("[masked: {label}]\n\nx"));
    }
    let harmless = pack(&"HOME=/home/kiln\nLANG=C\n".repeat(20));
    assert_eq!(mask(&harmless), (harmless.clone(), 0));
}

/// What commands and their options say. Covers: #116, G17.
#[test]
fn what_commands_are_given_is_masked() {
    check(&[
        ("curl -sSu bob:c9rlPwz12 h", "curl -sSu bob:[masked: password] h"),
        ("curl -fsSLu 'bob:c9rl Pwz' h", "curl -fsSLu 'bob:[masked: password]' h"),
        ("curl --proxy-user bob:c9rlPwz12 h", "curl --proxy-user bob:[masked: password] h"),
        ("curl -b 'session=HEX' h", "curl -b 'session=[masked: cookie]' h"),
        ("curl --cookie \"a=b; sid=HEX\" h", "curl --cookie \"a=b; sid=[masked: cookie]\" h"),
        ("document.cookie = 'sid=HEX'", "document.cookie = 'sid=[masked: cookie]'"),
        ("Cookie: lang=en; sid=HEX; a=b", "Cookie: lang=en; sid=[masked: cookie]"),
        (
            "machine h.invalid\n  login me@h.invalid\n  password wren77owl\n",
            "machine h.invalid\n  login me@h.invalid\n  password [masked: password]\n",
        ),
        (
            "+machine h.invalid\n+login me\n+password wren77owl\n",
            "+machine h.invalid\n+login me\n+password [masked: password]\n",
        ),
        ("setx API_KEY \"HEX\"", "setx API_KEY \"[masked: token]\""),
        ("deploy --api-key \"HEX\"", "deploy --api-key \"[masked: token]\""),
        (
            "echo S3kr1tPw | docker login -u bob --password-stdin",
            "echo [masked: password] | docker login -u bob --password-stdin",
        ),
        ("echo 'root:S3kr1tPw' | chpasswd", "echo 'root:[masked: password]' | chpasswd"),
        ("echo \"S3kr1tPw\" | sudo -S ls", "echo \"[masked: password]\" | sudo -S ls"),
        ("ngrok config add-authtoken HEX", "ngrok config add-authtoken [masked: token]"),
        (
            "CREATE USER bob WITH PASSWORD 'wren77owl';",
            "CREATE USER bob WITH PASSWORD '[masked: password]';",
        ),
        (
            "CREATE USER b IDENTIFIED BY 'wren77owl'",
            "CREATE USER b IDENTIFIED BY '[masked: password]'",
        ),
        ("password=my5qlPw\nuser=bob", "password=[masked: password]\nuser=bob"),
        ("-d 'user=bob&password=c9rlPw'", "-d 'user=bob&password=[masked: password]'"),
        ("wget --password=w9etPw h", "wget --password=[masked: password] h"),
        ("ansible_become_pass: ans1ble\n", "ansible_become_pass: [masked: password]\n"),
        ("DB_PASSWORD=a1b2 x", "DB_PASSWORD=[masked: password] x"),
    ]);
}

/// Headers and addresses. Covers: #116, G17.
#[test]
fn headers_and_addresses_are_masked() {
    check(&[
        ("Authorization: HEX", "Authorization: [masked: authorization]"),
        ("-H \"Authorization: Key HEX\"", "-H \"Authorization: Key [masked: authorization]\""),
        (
            "Authorization: AWS4-HMAC-SHA256 Credential=a/s3, Signature=HEX04b608436325ba0af0dc003b",
            "Authorization: AWS4-HMAC-SHA256 Credential=a/s3, Signature=[masked: aws-signature]",
        ),
        ("postgres://app:ab/cd9Efgh12@db/x", "postgres://app:[masked: password]@db/x"),
        ("mysql://app:ab#cd9Efgh12@db/x", "mysql://app:[masked: password]@db/x"),
        ("https://app:ab#cd9Efgh12@h/x", "https://app:[masked: password]@h/x"),
        (
            "https://api.telegram.org/bot7312345678:AAq8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2LmN4/getMe",
            "https://api.telegram.org/bot[masked: telegram-token]/getMe",
        ),
        ("https://HEX@github.com/a/b", "https://[masked: token]@github.com/a/b"),
        (
            "https://HEX:x-oauth-basic@github.com",
            "https://[masked: token]:x-oauth-basic@github.com",
        ),
        ("https://HEX:wren77owl@h.invalid/a", "https://[masked: password]@h.invalid/a"),
        (
            "https://a.webhook.office.com/webhookb2/HEX@HEX/IncomingWebhook/HEX",
            "https://a.webhook.office.com/webhookb2/[masked: teams-webhook]",
        ),
    ]);
}

/// Names of makers, of other languages, and of members that stand beside each other. Covers: #116, G17.
#[test]
fn names_that_say_so_in_their_own_way_are_masked() {
    let secret = &format!("{HEX}{HEX}")[..40];
    let rows = [
        ("AWS Secret Access Key [None]: ROW", "AWS Secret Access Key [None]: [masked: aws-secret]"),
        ("bob,AKIAQ7W3XK2LZM5NP4TX,ROW", "bob,[masked: aws-key-id],[masked: aws-secret]"),
        ("SECRET_KEY_BASE: ROW", "SECRET_KEY_BASE: [masked: token]"),
        ("FERNET_KEY=ROW", "FERNET_KEY=[masked: token]"),
        ("AZURE_DEVOPS_PAT: ROW", "AZURE_DEVOPS_PAT: [masked: token]"),
        ("DB_PW=S3kr1tPw", "DB_PW=[masked: password]"),
        ("PresharedKey = ROW", "PresharedKey = [masked: token]"),
        ("\"SecretString\": \"ssmPw77y\"", "\"SecretString\": \"[masked: password]\""),
        ("密码：S3kr1tPw", "密码：[masked: password]"),
        ("пароль: S3kr1tPw", "пароль: [masked: password]"),
        ("Contraseña: S3kr1tPw", "Contraseña: [masked: password]"),
        ("mot de passe : S3kr1tPw", "mot de passe : [masked: password]"),
        (
            "PuTTY-User-Key-File-3: a\nPrivate-Lines: 2\nROW\nROW\nPrivate-MAC: 1",
            "PuTTY-User-Key-File-3: a\nPrivate-Lines: 2\n[masked: private-key]\nPrivate-MAC: 1",
        ),
        (
            "{\"value\":\"wren77owl\",\"name\":\"DB_PASSWORD\"}",
            "{\"value\":\"[masked: password]\",\"name\":\"DB_PASSWORD\"}",
        ),
        (
            "{\"kty\":\"EC\",\"x\":\"abc\",\"d\":\"ROW\"}",
            "{\"kty\":\"EC\",\"x\":\"abc\",\"d\":\"[masked: private-key]\"}",
        ),
        (
            "{\"Name\":\"DB_PASSWORD\",\"Value\":\"wren77owl\"}",
            "{\"Name\":\"DB_PASSWORD\",\"Value\":\"[masked: password]\"}",
        ),
        ("abc8Q~ROW", "[masked: azure-secret]"),
        ("DB_PASSWORD=\"correct horse 9 battery\"", "DB_PASSWORD=\"[masked: password]\""),
        ("password=\"my#5ql Pw\"", "password=\"[masked: password]\""),
    ];
    for (text, expected) in rows {
        let row = if text.contains("Q~") { &secret[..34] } else { secret };
        assert_eq!(mask(&text.replace("ROW", row)).0, expected.replace("ROW", row), "{text}");
    }
    let json = format!(
        r#"[{{"value":"{KEY}x9","name":"DB_PASSWORD"}},{{"value":"wren77owl","name":"LEVEL"}},{{"d":"{HEX}","kty":"EC"}}]"#
    );
    assert_eq!(
        mask_json(&json).0,
        r#"[{"value":"[masked: password]","name":"DB_PASSWORD"},{"value":"wren77owl","name":"LEVEL"},{"d":"[masked: private-key]","kty":"EC"}]"#
    );
    let fcm = format!("AAAAq8Zr2Lm:APA91b{}", HEX.repeat(4));
    assert_eq!(mask(&fcm).0, "[masked: firebase-key]");
}
