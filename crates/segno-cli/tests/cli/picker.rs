//! The picker: keys in, lines out; then once through a real pseudo-terminal.

use crate::terminal_process::{Child, Played};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use segno_cli::terminal::picker::{self, Key, PickError, Picker, Step};
use segno_cli::terminal::table::Column;
use segno_cli::terminal::{Look, Text, Tone};

fn sessions(count: usize) -> Picker {
    let columns = vec![
        Column::left("LAST"),
        Column::left("CREATED").leaves(2),
        Column::right("TOKENS").leaves(1),
        Column::left("FIRST PROMPT").shrinks_to(10),
    ];
    let mut picker = Picker::new("Resume which session?", "resume", columns);
    let prompts = ["fix the parser", "add a Test\nfor it", "世界 you\x1b[2J 好", "write docs"];
    for i in 0..count {
        let cells =
            [format!("{i}m"), format!("{i}d"), format!("{}", i * 1000), prompts[i % 4].to_owned()];
        let cells = cells.iter().map(|cell| Text::line(Tone::Plain, cell)).collect();
        picker.row(cells, &format!("019c{i:04}"));
    }
    picker
}

/// The screen after these keys, in a frame.
fn screen(mut picker: Picker, (width, height): (usize, usize), keys: &[Key]) -> String {
    picker.resize(width, height);
    for key in keys {
        assert_eq!(picker.key(*key), Step::Stay);
    }
    let lines = picker.render();
    assert_eq!(lines.len(), height);
    let mut out = String::new();
    for line in &lines {
        assert!(line.width() <= width, "{line:?}");
        out.push_str(&format!("|{}{}|\n", line.plain(), " ".repeat(width - line.width())));
    }
    out
}

fn typed(text: &str) -> Vec<Key> {
    text.chars().map(Key::Char).collect()
}

/// Covers: G17, #163.
#[test]
fn what_a_person_sees() {
    let mut all = String::new();
    let mut add = |what: &str, picker: Picker, size: (usize, usize), keys: &[Key]| {
        all.push_str(&format!("{what}\n{}\n", screen(picker, size, keys)));
    };
    add("80x10, at the start", sessions(20), (80, 10), &[]);
    add("80x10, two down", sessions(20), (80, 10), &[Key::Down, Key::Down]);
    add("80x10, a page down", sessions(20), (80, 10), &[Key::PageDown]);
    add("80x10, the end", sessions(20), (80, 10), &[Key::End]);
    add("80x10, filtered", sessions(20), (80, 10), &typed("test FOR"));
    add("80x10, nothing fits", sessions(20), (80, 10), &typed("xyz"));
    add("80x10, found by its id", sessions(20), (80, 10), &typed("019c0013"));
    add("40x10", sessions(20), (40, 10), &[Key::Down]);
    add("40x10, a long filter", sessions(20), (40, 10), &typed(&"long filter ".repeat(5)));
    add("20x6", sessions(3), (20, 6), &[]);
    add("80x6, no rows", sessions(0), (80, 6), &[]);
    insta::assert_snapshot!(all);
}

/// Rows below others are hidden until Tab is pressed, also from the filter, and hidden by it again; what is selected
/// is what Enter takes.
#[test]
fn rows_below_others_are_shown_when_asked_for() {
    let mut picker = Picker::new("Which?", "resume", vec![Column::left("SESSION")]);
    let cell = |text: &str| vec![Text::line(Tone::Plain, text)];
    picker.row(cell("one"), "");
    picker.row_below(cell("└ of one"), "", "subagents");
    picker.row(cell("two"), "");
    let shown = |keys: &[Key]| screen(picker.clone(), (70, 8), keys);
    let folded = shown(&[]);
    assert!(folded.contains("Which?  2 ") && !folded.contains("of one"), "{folded}");
    assert!(folded.contains("Tab with subagents"), "{folded}");
    assert!(!shown(&typed("of one")).contains("└ of one"));
    let unfolded = shown(&[Key::Unfold]);
    assert!(unfolded.contains("Which?  3 ") && unfolded.contains("└ of one"), "{unfolded}");
    assert!(unfolded.contains("Tab without subagents"), "{unfolded}");
    assert_eq!(shown(&[Key::Unfold, Key::Unfold]), folded);
    let picked = |keys: &[Key]| {
        let mut picker = picker.clone();
        keys.iter().for_each(|key| {
            picker.key(*key);
        });
        picker.key(Key::Enter)
    };
    assert_eq!(picked(&[Key::Down]), Step::Picked(2));
    assert_eq!(picked(&[Key::Unfold, Key::Down]), Step::Picked(1));
    // What was selected and is hidden is selected no more.
    assert_eq!(picked(&[Key::Unfold, Key::Down, Key::Unfold]), Step::Picked(0));
    assert!(!sessions(1).render().iter().any(|line| line.plain().contains("Tab")));
}

#[test]
fn any_size_is_survived() {
    for width in 0..30 {
        for height in 0..12 {
            let mut picker = sessions(9);
            picker.resize(width, height);
            for key in [Key::End, Key::PageUp, Key::PageDown, Key::Char('x'), Key::Clear, Key::Home]
            {
                picker.key(key);
                let lines = picker.render();
                assert_eq!(lines.len(), height);
                assert!(lines.iter().all(|line| line.width() <= width), "{width}x{height}");
            }
        }
    }
}

#[test]
fn keys_choose_the_row_that_is_shown() {
    use Key::{Backspace, Char, Clear, Down, End, Enter, Home, Leave, PageDown, PageUp, Up};
    let rows: &[(&[Key], Step)] = &[
        (&[Enter], Step::Picked(0)),
        (&[Down, Down, Up, Enter], Step::Picked(1)),
        (&[Up, Enter], Step::Picked(0)),
        (&[End, Down, Enter], Step::Picked(19)),
        (&[End, Home, Enter], Step::Picked(0)),
        (&[PageDown, Enter], Step::Picked(6)),
        (&[PageDown, PageUp, Enter], Step::Picked(0)),
        (&[Char('d'), Char('o'), Char('c'), Enter], Step::Picked(3)),
        (&[Char('d'), Char('o'), Char('c'), Down, Clear, Enter], Step::Picked(7)),
        (&[Down, Char('t'), Enter], Step::Picked(1)),
        (&[Char('z'), Char('q'), Enter], Step::Stay),
        (&[Char('z'), Char('q'), Backspace, Backspace, Enter], Step::Picked(0)),
        (&[Char('\x1b'), Enter], Step::Picked(0)),
        (&[Down, Leave], Step::Left),
    ];
    for (keys, expected) in rows {
        let mut picker = sessions(20);
        picker.resize(80, 10);
        let last = keys.iter().map(|key| picker.key(*key)).last();
        assert_eq!(last, Some(*expected), "{keys:?}");
    }
    assert_eq!(sessions(0).key(Enter), Step::Stay);
}

#[test]
fn keyboards_are_understood() {
    let key = |code, modifiers| Key::from_event(&KeyEvent::new(code, modifiers));
    let none = KeyModifiers::NONE;
    let control = KeyModifiers::CONTROL;
    assert_eq!(key(KeyCode::Char('c'), control), Some(Key::Leave));
    assert_eq!(key(KeyCode::Char('c'), none), Some(Key::Char('c')));
    assert_eq!(key(KeyCode::Char('C'), KeyModifiers::SHIFT), Some(Key::Char('C')));
    assert_eq!(key(KeyCode::Char('x'), KeyModifiers::ALT), None);
    assert_eq!(key(KeyCode::Char('n'), control), Some(Key::Down));
    assert_eq!(key(KeyCode::Esc, none), Some(Key::Leave));
    assert_eq!(key(KeyCode::F(1), none), None);
}

#[test]
fn without_a_terminal_there_is_an_error_and_no_escape_sequence() {
    let look = Look { colour: false, columns: 80, terminal: false, full: false };
    let error = picker::pick(sessions(2), look, &|| false).unwrap_err();
    assert!(matches!(error, PickError::NotATerminal));
}

/// Not a test of its own: what the pseudo-terminal tests below run as a process.
#[test]
fn child() {
    if !Child::is("picker") {
        return;
    }
    let look = Look { colour: true, columns: 40, terminal: true, full: true };
    match picker::pick(sessions(20), look, &|| false) {
        Ok(picked) => Child::say(&format!("picked {picked:?}")),
        Err(error) => Child::say(&format!("error {error}")),
    }
}

#[test]
fn a_choice_in_a_real_terminal_and_the_terminal_is_put_back() {
    let mut played = Played::start("picker::child", "picker", 40, 10);
    played.wait_for("Resume which session?");
    played.send("docs");
    played.wait_for("5 of 20");
    played.send("\x1b[B\r");
    played.wait_for("picked Some(7)");
    assert!(!played.alternate_screen(), "the first screen is back");
    assert!(!played.bracketed_paste());
    assert!(played.cooked(), "raw mode is off");

    let mut played = Played::start("picker::child", "picker", 40, 10);
    played.wait_for("Resume which session?");
    played.send("\x03");
    played.wait_for("picked None");
    assert!(!played.alternate_screen() && played.cooked());
}
