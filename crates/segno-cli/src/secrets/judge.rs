//! Whether a value looks like a secret that is in use, by what its name promises and how it is written.
//!
//! Responsible for: that judgement, on the value's first bytes. Must not: look for names or values, or take a
//! placeholder, a word of a program, a sentence or a number for a secret.

/// What a name promises, and so what its value may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// People choose it.
    Password,
    /// The same, by a name that is also a verb (`ALL_PASS=yes`).
    Pass,
    /// Machines made it.
    Token,
}

/// How the value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `NAME=value` in capitals, as in the environment: there is no program text in it.
    Environment,
    /// `NAME="value"` in capitals.
    QuotedEnvironment,
    /// In quotes.
    Quoted,
    /// Behind a space, as an argument of a command.
    Argument,
    /// Beside its name, in a table or a list: a name may stand there for other reasons.
    Beside,
    /// Anything else.
    Bare,
}

/// Whether a value looks like one that is in use.
pub(super) fn looks_used(value: &str, promise: Promise, style: Style) -> bool {
    if is_placeholder(value) || is_reference(value) || is_label(value) || is_constant(value) {
        return false;
    }
    if value.contains(['(', '{', '[']) {
        return false;
    }
    match promise {
        Promise::Password => {
            let short = style == Style::Environment && value.len() >= 4 && has_both(value);
            short || is_password(value, style)
        }
        Promise::Pass => {
            let path = value.starts_with(['/', '~', '.']) || is_path_of_names(value);
            has_both(value) && !path && is_password(value, style)
        }
        Promise::Token => !is_name(value) && is_token(value, style),
    }
}

/// Whether a value that is too short to be judged by its length alone was set on purpose: it has a digit or a sign
/// where no word and no name of a variable has one.
pub(super) fn looks_set(value: &str) -> bool {
    (5..8).contains(&value.len())
        && is_odd(value)
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || is_sign(b))
        && !is_placeholder(value)
}

/// Whether a value says where the secret is, or is the checksum of something.
fn is_reference(value: &str) -> bool {
    const BEGINS: &[&str] = &[
        "op://",
        "vault:",
        "arn:",
        "ref+",
        "env:",
        "file:",
        "http://",
        "https://",
        "keychain:",
        "keyring:",
        "secret://",
        "sha1:",
        "sha256:",
        "sha384:",
        "sha512:",
        "md5:",
    ];
    let begins =
        |begin: &&str| value.get(..begin.len()).is_some_and(|v| v.eq_ignore_ascii_case(begin));
    BEGINS.iter().any(begins)
}

/// Whether a value in capitals is the name of a constant: `PASSWORD_2FA`.
fn is_constant(value: &str) -> bool {
    const OF: &[&str] = &["PASSWORD", "TOKEN", "SECRET", "PASS", "KEY", "AUTH"];
    let capitals = value.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    capitals
        && digits <= 2
        && value.split('_').any(|part| OF.contains(&part))
        && value.contains('_')
}

/// Whether a value is the word for a password, as a form shows it: `Passwort*`, `Contraseña!`.
fn is_label(value: &str) -> bool {
    const LABELS: &[&str] = &[
        "passwort",
        "kennwort",
        "contraseña",
        "senha",
        "passphrase",
        "mot de passe",
        "wachtwoord",
        "пароль",
    ];
    let word = value.trim_end_matches(|c: char| !c.is_alphanumeric());
    let signs = value.len() - word.len();
    let word = word.to_lowercase();
    LABELS.contains(&word.as_str())
        || word == "password" && value.ends_with(['*', ':', '?']) && signs == 1
}

/// Whether the value in an address or behind an option is only a word for what is to stand there.
pub(super) fn names_itself(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "password",
        "passwd",
        "pass",
        "pwd",
        "passwort",
        "secret",
        "token",
        "apikey",
        "yourpassword",
        "mypassword",
        "userpassword",
        "dbpassword",
    ];
    let letters: String =
        value.chars().filter(|c| !"_-".contains(*c)).map(|c| c.to_ascii_lowercase()).collect();
    WORDS.contains(&letters.as_str())
}

/// Whether a value is a name of a program, of words with a number at most: `TokenStream2`, `token_v2_Endpoint`.
pub(super) fn is_name(value: &str) -> bool {
    is_type_name(value) || is_words(value)
}

/// `TokenStream2`: words that begin with a capital each, and a number behind them.
fn is_type_name(value: &str) -> bool {
    let word = value.trim_end_matches(|c: char| c.is_ascii_digit());
    let capitals = word.bytes().filter(u8::is_ascii_uppercase).count();
    let apart = word.as_bytes().windows(2).all(|two| two.iter().any(u8::is_ascii_lowercase));
    value.len() - word.len() <= 2
        && word.bytes().all(|b| b.is_ascii_alphabetic())
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && apart
        && capitals * 3 <= word.len()
        && word.len() <= 32
}

/// `token_v2_Endpoint`: words, and what they are numbered with.
fn is_words(value: &str) -> bool {
    let numbered = |part: &str| {
        let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
        part.len() - letters.len() <= 2
            && letters.len() <= 12
            && letters.bytes().all(|b| b.is_ascii_alphabetic())
    };
    let even = |part: &str| {
        let rest = part.get(1..).unwrap_or_default();
        rest.bytes().all(|b| !b.is_ascii_uppercase())
            || part.bytes().all(|b| !b.is_ascii_lowercase())
    };
    value.contains('_')
        && value.split('_').all(|part| !part.is_empty() && numbered(part) && even(part))
}

fn is_password(value: &str, style: Style) -> bool {
    let sign = value.bytes().any(is_sign);
    let digit = value.bytes().any(|b| b.is_ascii_digit());
    let letter = value.bytes().any(|b| b.is_ascii_alphabetic());
    let quoted = matches!(style, Style::Quoted | Style::QuotedEnvironment);
    if value.contains(char::is_whitespace) {
        return quoted && is_phrase(value, style);
    }
    match style {
        Style::Environment => value.len() >= 6,
        Style::QuotedEnvironment => value.len() >= 6 && (digit || sign || !is_talk(value)),
        Style::Quoted => value.len() >= 6 && letter && (digit || sign),
        Style::Bare | Style::Argument => {
            value.len() >= 8 && has_both(value) && !is_path_of_names(value)
        }
        Style::Beside => {
            let made = sign || is_mixed(value);
            value.len() >= 8 && has_both(value) && made && !is_path_of_names(value)
        }
    }
}

fn is_token(value: &str, style: Style) -> bool {
    if !has_both(value) || value.contains(char::is_whitespace) {
        return false;
    }
    match style {
        Style::Environment => value.len() >= 8,
        Style::QuotedEnvironment | Style::Quoted | Style::Argument => {
            value.len() >= 12 && is_mixed(value)
        }
        Style::Bare | Style::Beside => {
            value.len() >= 12 && is_mixed(value) && !is_path_of_names(value)
        }
    }
}

fn has_both(value: &str) -> bool {
    value.bytes().any(|b| b.is_ascii_digit()) && value.bytes().any(|b| b.is_ascii_alphabetic())
}

fn is_sign(byte: u8) -> bool {
    b"!@#$%^&*+=?~".contains(&byte)
}

/// Whether words in quotes are a password, and not a sentence about one: short, without the words of a sentence,
/// and with a word that has a digit or a sign within (`S3cret`, `b@ttery`).
fn is_phrase(value: &str, style: Style) -> bool {
    const SENTENCE: &[&str] = &[
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "characters",
        "chars",
        "digits",
        "encoded",
        "enter",
        "field",
        "for",
        "from",
        "here",
        "in",
        "is",
        "least",
        "letters",
        "maximum",
        "minimum",
        "must",
        "no",
        "not",
        "of",
        "or",
        "please",
        "should",
        "string",
        "than",
        "the",
        "this",
        "to",
        "use",
        "was",
        "with",
        "without",
    ];
    let words: Vec<&str> = value.split_whitespace().collect();
    let plain = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
    let sentence = words.iter().any(|word| SENTENCE.contains(&plain(word).as_str()));
    if sentence || value.len() > 64 || value.starts_with(char::is_whitespace) {
        return false;
    }
    let passphrase = style == Style::QuotedEnvironment
        && words.len() >= 4
        && words.iter().all(|word| word.len() >= 3 && word.bytes().all(|b| b.is_ascii_lowercase()));
    let numbered = style == Style::QuotedEnvironment
        && words.len() >= 4
        && words
            .iter()
            .all(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()))
        && value.bytes().any(|b| b.is_ascii_digit());
    passphrase || numbered || words.iter().any(|word| is_odd(word))
}

/// Whether a word has a digit or a sign between its letters, as no word of a language has.
fn is_odd(word: &str) -> bool {
    let odd = |b: u8| b.is_ascii_digit() || is_sign(b);
    let letter = |b: u8| b.is_ascii_alphabetic();
    let behind = word.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    let inner = behind.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    word.len() >= 5 && inner.bytes().any(odd) && inner.bytes().all(|b| odd(b) || letter(b))
}

/// Whether a word without digits in quotes talks of a password.
fn is_talk(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "pass",
        "secret",
        "token",
        "string",
        "text",
        "required",
        "optional",
        "invalid",
        "missing",
        "none",
        "null",
        "true",
        "false",
        "undefined",
        "default",
        "prompt",
        "hidden",
        "error",
        "auth",
        "/",
        ".",
        ":",
        "_",
        "-",
    ];
    let lower = value.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
}

/// `process.env.API_KEY_2`, `self.token1`, `./etc/token2.txt`: program text, and no secret.
fn is_path_of_names(value: &str) -> bool {
    // A token of an older Vault.
    let vault = value.strip_prefix("s.").filter(|rest| rest.len() == 24);
    if vault.is_some_and(|rest| is_mixed(rest) && rest.bytes().all(|b| b.is_ascii_alphanumeric())) {
        return false;
    }
    let names = |separator| value.split(separator).filter(|part: &&str| !part.is_empty());
    let word = |part: &str| part.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
    let of_words = |separator| value.contains(separator) && names(separator).any(word);
    of_words('.') || of_words('/') || of_words(':')
}

/// Whether letters and digits change often enough for something that a machine made. `token_v2_cached`
/// does not.
pub(super) fn is_mixed(value: &str) -> bool {
    let class = |b: u8| match b {
        b'a'..=b'z' => Some(0),
        b'A'..=b'Z' => Some(1),
        b'0'..=b'9' => Some(2),
        _ => None,
    };
    let classes: Vec<u8> = value.bytes().filter_map(class).collect();
    classes.windows(2).filter(|pair| pair[0] != pair[1]).count() >= 3
}

/// Whether something stands where a secret is to be put.
pub(super) fn is_placeholder(value: &str) -> bool {
    const WORDS: &[&str] = &[
        "example",
        "placeholder",
        "changeme",
        "change-me",
        "change_me",
        "redacted",
        "masked",
        "dummy",
        "insert",
        "your",
        "xxxx",
        "0000000",
        "1234567",
        "...",
        "…",
        "***",
    ];
    let lower = value.to_ascii_lowercase();
    let first = value.chars().next();
    first.is_none_or(|c| "$%<*[{(".contains(c) || value.chars().all(|other| other == c))
        || WORDS.iter().any(|word| lower.contains(word))
}
