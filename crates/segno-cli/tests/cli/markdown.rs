//! Streamed markdown: its tones, and that no character is lost, added or changed.

use segno_cli::terminal::{Text, clean, markdown};

/// Text with its tones as letters in angle brackets, for reading.
fn toned(text: &Text) -> String {
    let mut out = text.render(true);
    for (sgr, letter) in [
        ("2", "dim"),
        ("1", "strong"),
        ("3", "it"),
        ("1;36", "head"),
        ("36", "mark"),
        ("33", "code"),
        ("4;34", "link"),
    ] {
        out = out.replace(&format!("\x1b[{sgr}m"), &format!("<{letter}:"));
    }
    out.replace("\x1b[0m", ">")
}

const CASES: &[(&str, &str)] = &[
    ("plain text", "plain text"),
    ("# Head `x`", "<head:# Head `x`>"),
    ("###### six", "<head:###### six>"),
    ("####### seven", "####### seven"),
    ("#hashtag", "#hashtag"),
    ("a # b", "a # b"),
    ("- item", "<mark:-> item"),
    ("  * item", "<mark:  *> item"),
    ("+ item", "<mark:+> item"),
    ("-not", "-not"),
    ("12. item", "<mark:12.> item"),
    ("3) item", "<mark:3)> item"),
    ("3.14 is", "3.14 is"),
    ("2026", "2026"),
    ("---", "<dim:--->"),
    ("***", "<dim:***>"),
    ("--flag", "--flag"),
    ("> said *so*", "<dim:>><it: said *so*>"),
    ("| a | *b* |", "| a | *b* |"),
    ("use `cargo test` now", "use <code:`cargo test`> now"),
    ("``a ` b``", "<code:``a ` b``>"),
    ("open ` tick", "open ` tick"),
    ("```not a fence```", "<code:```not a fence```>"),
    ("**bold** and *it*", "<strong:**bold**> and <it:*it*>"),
    ("__bold__ _it_", "<strong:__bold__> <it:_it_>"),
    ("***both***", "<strong:***both***>"),
    ("2 * 3 * 4", "2 * 3 * 4"),
    ("snake_case_name", "snake_case_name"),
    ("_a_b", "_a_b"),
    ("a*b", "a*b"),
    ("**a *b* c**", "<strong:**a *b* c**>"),
    ("\\*not\\* x", "\\*not\\* x"),
    ("end \\", "end \\"),
    ("see [docs](http://x.y/z) ok", "see <link:[docs](http://x.y/z)> ok"),
    ("- [x] done", "<mark:-> [x] done"),
    ("[a] [b", "[a] [b"),
    (
        "```rust\nlet *x* = 1;\n# no\n```\n*it*",
        "<dim:```rust>\n<code:let *x* = 1;>\n<code:# no>\n<dim:```>\n<it:*it*>",
    ),
    ("~~~\n```\n~~~", "<dim:~~~>\n<code:```>\n<dim:~~~>"),
    ("````\n```\n````", "<dim:````>\n<code:```>\n<dim:````>"),
    ("```\nopen", "<dim:```>\n<code:open>"),
    ("```\n    ```\n```", "<dim:```>\n<code:    ```>\n<dim:```>"),
    ("a\n\nb\n", "a\n\nb\n"),
    ("*a\nb*", "*a\nb*"),
    ("", ""),
    ("   ", "   "),
    ("世界 **太** 字", "世界 <strong:**太**> 字"),
];

#[test]
fn what_a_person_sees() {
    for (input, expected) in CASES {
        assert_eq!(toned(&markdown::show(input)), *expected, "{input:?}");
    }
}

/// The pieces that text comes in make no difference to what is shown, tones included.
#[test]
fn one_character_at_a_time_is_the_same() {
    for (input, expected) in CASES {
        let mut stream = markdown::Markdown::default();
        let mut out = Text::default();
        for c in input.chars() {
            out.append(stream.push(&c.to_string()));
        }
        out.append(stream.finish());
        assert_eq!(toned(&out), *expected, "{input:?}");
    }
}

#[test]
fn ordinary_text_is_shown_at_once() {
    let mut stream = markdown::Markdown::default();
    assert_eq!(stream.push("Hel").plain(), "Hel");
    assert_eq!(stream.push("lo **wor").plain(), "lo ");
    assert_eq!(stream.push("ld** x").plain(), "**world** x");
    assert_eq!(stream.push("\n```sh\nls").plain(), "\n```sh\nls");
    assert_eq!(stream.finish().plain(), "");
}

#[test]
fn a_mark_that_never_closes_holds_back_little() {
    let mut stream = markdown::Markdown::default();
    let long = format!("*{}", "word ".repeat(200));
    let shown = stream.push(&long).plain();
    assert!(long.len() - shown.len() <= 160, "{} of {}", shown.len(), long.len());
}

const PIECES: &[&str] = &[
    "a",
    "word ",
    " ",
    "*",
    "**",
    "_",
    "`",
    "```",
    "~~~",
    "\n",
    "\n\n",
    "#",
    "# ",
    "- ",
    "1. ",
    ">",
    "|",
    "[",
    "](",
    ")",
    "\\",
    "\r\n",
    "\t",
    "\x1b[31m",
    "\x1b]0;t\x07",
    "\x1b",
    "\u{9b}",
    "世",
    "👩\u{200d}👩",
    "\u{200d}",
    "\u{301}",
    "    ",
    "rust",
];

/// Covers: G17.
#[test]
fn no_character_is_lost_doubled_or_changed_whatever_the_pieces() {
    let first = std::env::var("SEGNO_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for seed in first..first + 1500 {
        let mut random = crate::random::Random::new(seed);
        let count = random.below(60);
        let text: String = (0..count).map(|_| PIECES[random.below(PIECES.len())]).collect();
        let mut stream = markdown::Markdown::default();
        let mut out = Text::default();
        for piece in random.split(&text) {
            out.append(stream.push(&piece));
        }
        out.append(stream.finish());
        assert_eq!(out.plain(), clean::block(&text), "SEGNO_SEED={seed} {text:?}");
        assert_eq!(out, markdown::show(&text), "SEGNO_SEED={seed} {text:?}");
    }
}
