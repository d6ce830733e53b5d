//! Stored text cannot drive the terminal: the table of attacks, and properties over random ones.

use crate::random::Random;
use segno_cli::terminal::clean;

/// What it is, the stored text, the text as a block.
const ATTACKS: &[(&str, &str, &str)] = &[
    ("plain", "hello", "hello"),
    ("umlauts, CJK, emoji", "Grüße 世界 👩‍👩‍👧 ❤️", "Grüße 世界 👩‍👩‍👧 ❤️"),
    ("newline and tab stay", "a\n\tb\n", "a\n\tb\n"),
    ("colour", "\x1b[31mred\x1b[0m", "red"),
    ("colour, true", "\x1b[38;2;1;2;3mx\x1b[m", "x"),
    ("colour, colon form", "\x1b[4:3mx", "x"),
    ("erase screen", "a\x1b[2Jb", "ab"),
    ("cursor up and rewrite", "safe\x1b[1A\x1b[2Kevil", "safeevil"),
    ("private mode", "\x1b[?1049h\x1b[?25lx", "x"),
    ("device report", "\x1b[6nx\x1b[c", "x"),
    ("csi with intermediates", "\x1b[1 qx\x1b[!p", "x"),
    ("csi unfinished at the end", "a\x1b[31", "a"),
    ("csi broken by a newline", "a\x1b[31\nb", "a\nb"),
    ("csi broken by a letter outside ASCII", "a\x1b[3é", "aé"),
    ("csi inside csi", "a\x1b[3\x1b[1mb", "ab"),
    ("title with BEL", "safe\x1b]0;PWNED\x07 name", "safe name"),
    ("title with ST", "safe\x1b]2;PWNED\x1b\\ name", "safe name"),
    ("title with 8-bit ST", "safe\x1b]2;PWNED\u{9c} name", "safe name"),
    ("title without an end", "safe\x1b]0;PWNED", "safe"),
    ("title ends with its line", "safe\x1b]0;PWNED\nnext", "safe\nnext"),
    ("title ends with a lone CR", "safe\x1b]0;PWNED\rnext", "safe\nnext"),
    ("BEL first, then what follows", "\x1b]0;a\x07\x1b[31mb\x07c", "bc"),
    ("clipboard", "\x1b]52;c;cHduZWQ=\x07copy", "copy"),
    ("hyperlink", "\x1b]8;;http://x.invalid\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("title of screen and tmux", "\x1bkPWNED\x1b\\x", "x"),
    ("DCS", "a\x1bP1$r0m\x1b\\b", "ab"),
    ("sixel", "a\x1bPq#0;2;0;0;0~-\x1b\\b", "ab"),
    ("APC (kitty images)", "a\x1b_Gf=24;AAAA\x1b\\b", "ab"),
    ("PM", "a\x1b^secret\x1b\\b", "ab"),
    ("SOS", "a\x1bXsecret\x1b\\b", "ab"),
    ("tmux passthrough", "\x1bPtmux;\x1b\x1b]0;t\x07\x1b\\x", "x"),
    ("body ended by CAN", "a\x1b]0;t\x18b", "ab"),
    ("body ended by SUB", "a\x1b]0;t\x1ab", "ab"),
    ("body ended by another sequence", "a\x1b]0;t\x1b[31mb", "ab"),
    ("reset", "\x1bcx", "x"),
    ("save, restore", "\x1b7x\x1b8", "x"),
    ("character set", "\x1b(0lqk\x1b(B", "lqk"),
    ("double height", "\x1b#3x", "x"),
    ("lone ESC at the end", "x\x1b", "x"),
    ("many ESC", "\x1b\x1b\x1b[31mx", "x"),
    ("ESC before a newline", "a\x1b\nb", "a\nb"),
    ("8-bit CSI", "\u{9b}31mC1", "C1"),
    ("8-bit OSC", "\u{9d}0;t\u{9c}x", "x"),
    ("8-bit OSC with BEL", "\u{9d}0;t\x07x", "x"),
    ("8-bit DCS, SOS, PM, APC", "\u{90}a\u{9c}\u{98}b\u{9c}\u{9e}c\u{9c}\u{9f}d\u{9c}x", "x"),
    ("other C1", "a\u{80}\u{84}\u{8d}\u{8e}\u{99}\u{9a}b", "ab"),
    ("NEL is a line break", "a\u{85}b", "a\nb"),
    ("NUL", "a\0b", "ab"),
    ("DEL", "a\x7fb", "ab"),
    ("BEL", "a\x07b", "ab"),
    ("backspaces show what they hid", "rm -rf /\x08\x08\x08ls", "rm -rf /ls"),
    ("shift in, shift out", "\x0ea\x0f", "a"),
    ("CRLF", "a\r\nb", "a\nb"),
    ("lone CR cannot overwrite", "evil\rgood", "evil\ngood"),
    ("CR CR LF", "a\r\r\nb", "a\n\nb"),
    ("VT, FF", "a\x0bb\x0cc", "a\nb\nc"),
    ("line and paragraph separators", "a\u{2028}b\u{2029}c", "a\nb\nc"),
    ("bidi override", "\u{202e}gnp.exe\u{202c}", "gnp.exe"),
    ("bidi embedding", "\u{202a}a\u{202b}b\u{202d}c\u{202c}", "abc"),
    ("bidi isolates", "\u{2066}a\u{2067}b\u{2068}c\u{2069}", "abc"),
    ("bidi marks", "a\u{200e}\u{200f}\u{61c}b", "ab"),
    ("zero width space", "pass\u{200b}word", "password"),
    ("word joiner, BOM, soft hyphen", "a\u{2060}\u{feff}\u{ad}b", "ab"),
    ("joiner in ASCII hides", "a\u{200d}b\u{200c}c", "abc"),
    ("joiner in Persian is right", "می\u{200c}خواهم", "می\u{200c}خواهم"),
    ("many joiners are a trick", "क\u{200d}\u{200d}\u{200d}ष", "क\u{200d}ष"),
    ("joiner at the end", "क\u{200d}", "क"),
    ("tag characters", "a\u{e0041}\u{e0042}\u{e007f}b", "ab"),
    ("variation selectors in store", "a\u{e0100}\u{e01ef}b", "ab"),
    ("hangul filler", "a\u{3164}\u{115f}b", "ab"),
    ("invisible operators", "a\u{2061}\u{2062}\u{2063}\u{2064}b", "ab"),
    ("interlinear annotation", "a\u{fff9}b\u{fffa}c\u{fffb}", "abc"),
    ("musical formatting", "a\u{1d173}b\u{1d17a}", "ab"),
    ("empty", "", ""),
];

/// Covers: G17, #163.
#[test]
fn no_sequence_and_no_residue_is_left() {
    for (what, input, expected) in ATTACKS {
        assert_eq!(clean::block(input), *expected, "{what}");
        let one_line: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(clean::line(input), one_line.join(" "), "{what}, as a line");
    }
}

/// Covers: G17, #163.
#[test]
fn a_title_is_one_line() {
    let stored = "safe\x1b]0;PWNED-TITLE\x07 name\x1b[2J\r\nsecond  line\t!\n";
    assert_eq!(clean::line(stored), "safe name second line !");
    assert_eq!(clean::line(" \r\n\t "), "");
    assert_eq!(clean::line("/srv/srv/\x1b[31mred\x1b[0m"), "/srv/srv/red");
}

#[test]
fn stacked_marks_are_bounded() {
    let zalgo = format!("a{}b", "\u{301}".repeat(1000));
    assert_eq!(clean::block(&zalgo).chars().count(), 2 + 8);
}

/// Covers: G17.
#[test]
fn bytes_that_are_not_utf8_are_judged_as_a_terminal_may_take_them() {
    let rows: &[(&[u8], &str)] = &[
        (b"\x9b31mred", "red"),
        (b"\x9d0;title\x07x", "x"),
        (b"a\xffb", "a\u{fffd}b"),
        ("gr\u{fc}n".as_bytes(), "grün"),
        (b"cut \xe4\xb8", "cut \u{fffd}"),
        (b"a\x00b", "ab"),
    ];
    for (input, expected) in rows {
        assert_eq!(clean::bytes(input), *expected, "{input:?}");
    }
}

/// Covers: G17.
#[test]
fn what_is_to_be_approved_is_shown_whole() {
    let command = "ls\x1b]0;\x07; rm -rf /\x08\x08\r\u{202e}\u{200b}\nnext\u{9b}";
    assert_eq!(
        clean::reveal(command),
        "ls\\u{1b}]0;\\u{7}; rm -rf /\\u{8}\\u{8}\\u{d}\\u{202e}\\u{200b}\nnext\\u{9b}"
    );
}

#[test]
fn text_is_cut_by_columns_and_never_inside_a_character() {
    let rows: &[(&str, usize, &str)] = &[
        ("hello", 5, "hello"),
        ("hello", 4, "hel…"),
        ("hello", 1, "…"),
        ("hello", 0, ""),
        ("", 0, ""),
        ("世界你好", 8, "世界你好"),
        ("世界你好", 7, "世界你…"),
        ("世界你好", 6, "世界…"),
        ("a世b", 2, "a…"),
        ("👩‍👩‍👧 family", 4, "👩‍👩‍👧 …"),
        ("🇩🇪🇫🇷x", 4, "🇩🇪…"),
        ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
    ];
    for (text, columns, expected) in rows {
        let cut = clean::cut(text, *columns);
        assert_eq!(cut, *expected, "{text} in {columns}");
        assert!(clean::width(&cut) <= *columns);
    }
}

fn first_seed() -> u64 {
    std::env::var("SEGNO_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

const PIECES: &[&str] = &[
    "a",
    "Z",
    "0",
    ";",
    "[",
    "]",
    "\\",
    " ",
    "m",
    "J",
    "k",
    "P",
    "\x1b",
    "\x1b[",
    "\x1b]",
    "\x1b\\",
    "\x07",
    "\u{9b}",
    "\u{9d}",
    "\u{9c}",
    "\u{90}",
    "\r",
    "\n",
    "\t",
    "\0",
    "\x08",
    "\x7f",
    "\x18",
    "\u{85}",
    "\u{2028}",
    "\u{202e}",
    "\u{2069}",
    "\u{200b}",
    "\u{200c}",
    "\u{200d}",
    "\u{301}",
    "\u{fe0f}",
    "世",
    "क",
    "👩",
    "\u{3000}",
    "\u{e0041}",
    "\u{feff}",
    "🇩",
    "é",
];

fn random_text(random: &mut Random) -> String {
    (0..random.below(40)).map(|_| PIECES[random.below(PIECES.len())]).collect()
}

/// Covers: G17.
#[test]
fn random_text_comes_out_harmless_and_cleaning_twice_changes_nothing() {
    for seed in first_seed()..first_seed() + 4000 {
        let mut random = Random::new(seed);
        let text = random_text(&mut random);
        let block = clean::block(&text);
        assert!(harmless(&block, "\n\t"), "SEGNO_SEED={seed} {text:?} -> {block:?}");
        assert_eq!(clean::block(&block), block, "SEGNO_SEED={seed} {text:?}");
        let line = clean::line(&text);
        assert!(harmless(&line, ""), "SEGNO_SEED={seed} {text:?} -> {line:?}");
        assert_eq!(clean::line(&line), line, "SEGNO_SEED={seed} {text:?}");
        assert!(harmless(&clean::reveal(&text), "\n\t"), "SEGNO_SEED={seed} {text:?}");
        let columns = random.below(12);
        assert!(clean::width(&clean::cut(&line, columns)) <= columns, "SEGNO_SEED={seed} {line:?}");
    }
}

/// Joiners are judged by their neighbours, so they are not looked at here.
fn harmless(text: &str, allowed: &str) -> bool {
    text.chars()
        .all(|c| allowed.contains(c) || clean::is_shown(c) || matches!(c, '\u{200c}' | '\u{200d}'))
}

/// Covers: G17.
#[test]
fn text_in_pieces_is_cleaned_like_text_at_once() {
    for seed in first_seed()..first_seed() + 2000 {
        let mut random = Random::new(seed);
        let text = random_text(&mut random);
        let mut stream = clean::Stream::default();
        let mut out = String::new();
        for piece in random.split(&text) {
            out.push_str(&stream.push(&piece));
        }
        stream.finish();
        assert_eq!(out, clean::block(&text), "SEGNO_SEED={seed} {text:?}");
    }
}

/// No character is missed: each of them, alone between two letters.
///
/// Covers: G17.
#[test]
fn every_character_of_unicode_is_harmless_afterwards() {
    for c in (0..=0x0010_ffff).filter_map(char::from_u32) {
        let out = clean::block(&format!("a{c}b"));
        assert!(
            out.chars().all(|o| !o.is_control() || o == '\n' || o == '\t'),
            "U+{:04X}",
            u32::from(c)
        );
    }
}
