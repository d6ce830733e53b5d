//! What looks like a secret and is none.
//!
//! Responsible for: a table of texts of which nothing may be masked, also as strings in JSON. Must not: hold what
//! is one.

use super::{mask, mask_json};

const HEX: &str = "04b608436325ba0af0dc003bd3b5bddc36fb0648";

/// What machines make and no one keeps secret; `HEX` stands for a long number.
const MADE: &[&str] = &[
    "commit HEX\nMerge: 1a2b3c4 5d6e7f8",
    "-commit HEX\n+index 1a2b3c4..5d6e7f8 100644",
    "HEX  file.tar.gz",
    "sha256:HEX04b608436325ba0af0dc003b",
    "550e8400-e29b-41d4-a716-446655440000",
    "session_id=550e8400-e29b-41d4-a716-446655440000",
    "\"integrity\": \"sha512-q8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2LmN4xVb==\"",
    "checksum = \"HEX04b608436325ba0af0dc003b\"",
    "golang.org/x/text v0.3.0 h1:q8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2Lk=",
    "/nix/store/q8zr2lmn4xvbq8zr2lmn4xvbq8zr2lmn-glibc-2.38",
    "toolu_01q8Zr2LmN4xVbq8Zr2LmN4x msg_01q8Zr2LmN4xVbq8Zr2LmN4x",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIq8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2LmN4xVb kiln@h",
    "-----BEGIN CERTIFICATE-----\nMIIEowIBAAKCAQEAwJxk2Zb7v9qT3mN8pLr5sYdHf1GcKuV0\n-----END CERTIFICATE-----",
    "ETag: \"HEX\"",
    "public_key = \"q8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2Lk\"",
    "AAAA,SAAS,CAAC;AACD,IAAI,AAAA,SAAS,CAAC;AACD,IAAI,AAAA,SAAS",
    "resolved \"https://registry.yarnpkg.com/a/-/a-1.0.0.tgz#HEX\"",
    "| commit | HEX |",
    "(\"sha\", \"HEX\")",
    "aGVsbG8gd29ybGQsIHRoaXMgaXMgYSBsb25nIHRleHQgd2l0aG91dCBzZWNyZXRz",
    "https://h.invalid/?q=a%20b%2Fc&hash=HEX",
];

/// Programs, their messages and their types.
const WRITTEN: &[&str] = &[
    "password: string;",
    "-  password: string;\n+  password: SecretString;",
    "token = get_token()",
    "token = os.environ[\"GITHUB_TOKEN\"]",
    "API_KEY=$API_KEY",
    "-API_KEY=$API_KEY",
    "API_KEY=\"$API_KEY\"",
    "api_key: <your-key>",
    "| API_KEY | <your-key> |",
    "| API_KEY | string | required, 40 letters |",
    "| token | description |\n|---|---|",
    "echo $TOKEN | base64 -d | sha256sum",
    "(\"token\", \"token_v2_cached\")",
    "[\"password\", \"token2\"]",
    "expect(screen.getByLabel(\"password\", \"Password2\"))",
    "password == \"password\"",
    "if token >= 12345 { x }",
    "Vec<Token>: Iterator",
    "token->value = 0x1234abcd;",
    "\"password\": \"must be at least 8 characters!\"",
    "\"password\": \"Enter your p4ssw0rd here\"",
    "password: \"use SHA256 or bcrypt\"",
    "PASSWORD_HELP=\"the password of the user\"",
    "ERROR_PASSWORD=\"invalid-password\"",
    "PASSWORD=\"password\"",
    "FIELD_PASSWORD='hidden field'",
    "const PASSWORD = \"password\"",
    "token: |\n  This is what the token is for\n",
    "description: |\n  q8Zr2LmN4xVbq8Zr2LmN4xVbq8Zr2LmN4xVb\n",
    "docker run --name mysql -p3306:3306 mysql:8",
    "mysql -p db",
    "mysql -u root; ssh -p2222 h",
    "cat x | mysql db && mkdir -pv a/b",
    "grep -pattern1 x",
    "cp -a S3kr1tPw redis-cli",
    "PWD=C:/Users/kiln1",
    "OLDPWD=/home/kiln2",
    "awk '{print $1$2$3}' $6$ $5$x",
    "printf '%20s %d\\n' \"$token\" %22",
    "C:\\new\\token\\u1234\\x41",
    "sk-learn and sk-toolbox-very-long-package-name-here",
    "highp_precision_and_other_long_names_of_shaders_2",
    "npm_config_registry npm_lifecycle_event npm_package_json",
    "task-runner-configuration-with-a-very-long-name",
    "max_tokens: 4096, total_tokens=123456789012",
    "sort_key = \"created_at1\"; primary_key: user_id2",
    "the API key: see the docs",
    "API_KEY   required   40 letters",
    "\"token\": \"at 10:30 on 2 May 3 pm\"",
    "<input type=\"password\" name=\"user\" value=\"q8Zr2LmN4xVb\">",
    "ENV LANG=C.UTF-8",
    "Mon.August.2026 Nnnnnnnnnnnnnnnnnnnnnnnn.abcdef.short",
    "a &amp;&amp; b &lt;token&gt; &#; &#x; &quot &#1234567;",
    "DB_PASSWORD=op://vault/item2/password",
    "token: sha256:HEX04b608436325ba0af0dc003b",
    "token: TokenStream2",
    "secretKey: CryptoKeyPair2",
    "TOKEN = \"token_v2_Endpoint\"",
    "PASSWORD = \"PASSWORD_2FA\"",
    "\"password\": \"Passwort*\"",
    "\"password\": \"Contraseña!\"",
    "\"nextToken\": \"q8Zr2LmN4xVbq8Zr2LmN4xVb\"",
    "\"next_page_token\": \"q8Zr2LmN4xVbq8Zr2LmN4xVb\"",
    "Authorization: Bearer YOUR_API_KEY_1234567890",
    "Authorization: the header that holds the token2",
    "authorization: AuthorizationPolicyBuilder2",
    "headers.Authorization = buildAuthorizationHeader2(token)",
    "curl -u username:password https://h",
    "curl -b cookies.txt -c cookies2.txt h",
    "curl -sSo out:put2 -fsSL h",
    "postgres://user:password@localhost:5432/db",
    "postgres://USER:PASSWORD@HOST:5432/DB",
    "redis://cache:6379/0?x=a@b",
    "https://h.invalid:8443/a/@scope/b2",
    "docker://alpine:3.18@sha256:HEX",
    "git@github.com:a/b2.git https://bob@h.invalid/x",
    "Set-Cookie: a=b; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/a/long/path/to/it2",
    "cookie = parseCookie(request.headers2)",
    "login(user=u1, password=pw1abc)",
    "password: pass1,",
    "password=form2.value",
    "pat = \"a1b2c3d4e5f6\"",
    "{\"value\":\"q8Zr2LmN4xVb\",\"name\":\"LEVEL\"}",
    "{\"d\":\"M10 20L30 40\",\"k\":\"q8Zr2LmN4xVbq8Zr2LmN4xVb\"}",
    "the password is WITH PASSWORD 'x'",
    "echo done2you | tee log && sudo -s",
    "PASSWORD_HINT=\"at least 8 characters\"",
    "ERROR_PASSWORD=\"minimum 8 characters long\"",
    "пароль: не задан",
    "%%%%%%%% \\\\\\\\\\ \x1b[ \x1b] \u{9b}",
];

/// Covers: G17.
#[test]
fn nothing_else_is_taken_for_a_secret() {
    for text in MADE.iter().chain(WRITTEN) {
        let text = text.replace("HEX", HEX);
        assert_eq!(mask(&text), (text.clone(), 0));
        let json = serde_json::json!({ "text": text, "parts": [text, text] }).to_string();
        assert_eq!(mask_json(&json), (json.clone(), 0));
    }
}

/// Covers: G17.
#[test]
fn long_letters_of_base64_stay() {
    // Every letter in every place, as a file has them.
    let bytes: Vec<u8> =
        (0..30_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    use base64::Engine as _;
    for letters in [
        base64::engine::general_purpose::STANDARD.encode(&bytes),
        base64::engine::general_purpose::URL_SAFE.encode(&bytes),
    ] {
        let text = format!("data:image/png;base64,{letters}\n");
        assert_eq!(mask(&text), (text.clone(), 0));
        let lines: Vec<&str> =
            letters.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
        let text = lines.join("\n");
        assert_eq!(mask(&text), (text.clone(), 0));
    }
}
