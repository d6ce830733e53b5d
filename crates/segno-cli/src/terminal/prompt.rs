//! The line editor of an interactive session.
//!
//! Responsible for: keys, history, pasted text, the editor program, and giving each entry as a [`Line`].
//! Must not: know what commands do. What an entry means is decided in `entry`, what Tab offers in
//! `complete`; this is the part with a terminal in it.
//!
//! Reading blocks its thread. Text that is pasted, completed or comes from an editor is cleaned before it
//! is on the line, so what is sent is what was seen (G17).

use super::Screen;
use super::aside::Aside;
use super::clean;
use super::complete::{self, CommandHint, Files};
use super::entry::{self, Interrupts, Line, Pressed};
use super::plain_lines::PlainLines;
use super::style::{Text, Tone};
use crossterm::event::Event;
use reedline::{
    Color, ColumnarMenu, Completer, CompletionResult, EditCommand, EditMode, Emacs,
    FileBackedHistory, KeyCode, KeyModifiers, Keybindings, MenuBuilder as _, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, ReedlineRawEvent, Signal, Span,
    Suggestion, ValidationResult, Validator, default_emacs_keybindings,
};
use rustix::process::{Signal as ProcessSignal, kill_current_process_group};
use std::borrow::Cow;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How many entries the history keeps.
const HISTORY_MAX: usize = 5000;
/// What the editor's key bindings ask of [`Prompt::read`].
const INTERRUPT: &str = "interrupt";
const EDIT: &str = "edit";
const SUSPEND: &str = "suspend";
const MENU: &str = "completion";
/// A process that asked to be stopped is stopped within this time.
const SUSPENDS_WITHIN: Duration = Duration::from_millis(200);

/// What a prompt needs.
pub struct Setup {
    /// Where entries are kept from one session to the next; made readable by its owner only. It holds
    /// whatever was typed.
    pub history: Option<PathBuf>,
    /// What Tab offers behind `/`.
    pub commands: Vec<CommandHint>,
    /// What Tab offers behind `@`.
    pub files: Box<Files>,
    /// The program for Ctrl-X Ctrl-E and `/edit`; see [`editor_command`].
    pub editor: String,
    /// Set from outside to break reading off: it then ends with [`Line::Woken`].
    pub stop: Arc<AtomicBool>,
    /// Whether the terminal cannot move its cursor; lines are then read as it gives them.
    pub dumb: bool,
}

/// A line editor.
pub struct Prompt {
    engine: Reedline,
    interrupts: Interrupts,
    editor: String,
    continued: Arc<Mutex<Vec<String>>>,
    plain: Option<PlainLines>,
    aside: Aside,
}

impl std::fmt::Debug for Prompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prompt").finish_non_exhaustive()
    }
}

impl Prompt {
    /// Sets one up. If the history cannot be used, that is said beside it and the prompt works without.
    #[must_use]
    pub fn open(setup: Setup, colour: bool) -> (Self, Option<io::Error>) {
        let continued = Arc::new(Mutex::new(Vec::new()));
        let offers = Offers { commands: setup.commands, files: setup.files };
        let menu = ColumnarMenu::default().with_name(MENU).with_columns(4);
        let plain = setup.dumb.then(|| PlainLines::new(Arc::clone(&setup.stop)));
        let aside = Aside::default();
        let mut engine = Reedline::create()
            .with_edit_mode(Box::new(Keys::new(aside.clone())))
            .with_completer(Box::new(offers))
            .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
            .with_quick_completions(true)
            .with_partial_completions(true)
            .with_validator(Box::new(Continuation(Arc::clone(&continued))))
            .with_ansi_colors(colour)
            .with_break_signal(setup.stop)
            .use_bracketed_paste(true);
        let mut trouble = None;
        match setup.history.as_deref().map(open_history) {
            None => {}
            Some(Ok(history)) => engine = engine.with_history(Box::new(history)),
            Some(Err(error)) => trouble = Some(error),
        }
        let interrupts = Interrupts::default();
        (Self { engine, interrupts, editor: setup.editor, continued, plain, aside }, trouble)
    }

    /// Reads one entry that is not blank; `screen` is told what the keys cannot show.
    ///
    /// # Errors
    /// When the terminal fails.
    pub fn read(&mut self, label: &str, screen: &mut Screen) -> io::Result<Line> {
        let label = Label(clean::line(label) + " ");
        if let Some(plain) = &mut self.plain {
            return plain.read(&label.0, screen);
        }
        loop {
            screen.flush();
            let signal = self.engine.read_line(&label).map_err(io::Error::other)?;
            if let Some(line) = self.take(signal, screen) {
                return Ok(line);
            }
        }
    }

    /// Puts text on the line, to be changed and entered.
    pub fn prefill(&mut self, text: &str) {
        match &mut self.plain {
            Some(plain) => plain.begun.push_str(&clean::block(text)),
            None => {
                let text = self.aside.short(clean::block(text));
                self.engine.run_edit_commands(&[EditCommand::InsertString(text)]);
            }
        }
    }

    fn take(&mut self, signal: Signal, screen: &mut Screen) -> Option<Line> {
        match signal {
            Signal::Success(entered) => self.entered(&entered, screen),
            Signal::HostCommand(command) if command == EDIT => {
                let text = self.engine.current_buffer_contents().to_owned();
                self.edit(&text, screen);
                None
            }
            Signal::HostCommand(command) if command == SUSPEND => {
                // Stops this process group as the terminal would; what stands on the line is kept. It
                // stops while this thread sleeps, before the terminal is read key by key again.
                let _ = kill_current_process_group(ProcessSignal::TSTP);
                std::thread::sleep(SUSPENDS_WITHIN);
                None
            }
            Signal::HostCommand(_) => self.interrupted(screen).then_some(Line::Interrupt),
            Signal::CtrlD => Some(Line::Eof),
            Signal::ExternalBreak(_) => {
                screen.line("");
                Some(Line::Woken)
            }
            // Ctrl-C in a history search ends the search, and whatever the library may add.
            _ => None,
        }
    }

    fn entered(&mut self, entered: &str, screen: &mut Screen) -> Option<Line> {
        self.interrupts.reset();
        if let Err(error) = self.engine.sync_history() {
            let sentence = format!("The history could not be written: {error}");
            screen.line(Text::line(Tone::Warning, &sentence));
        }
        let marks =
            std::mem::take(&mut *self.continued.lock().unwrap_or_else(PoisonError::into_inner));
        let entered = entry::without_continuations(entered, &marks);
        match entry::parse(&self.aside.whole(&entered))? {
            Line::Command { name, args } if name == EDIT => {
                self.edit(&args, screen);
                None
            }
            line => Some(line),
        }
    }

    /// Lets the editor program change the text, and puts the result on the line to be looked at.
    fn edit(&mut self, text: &str, screen: &mut Screen) {
        match edit_text(&self.editor, &self.aside.whole(text)) {
            Ok(edited) => {
                let edited = self.aside.short(clean::block(edited.trim_end()));
                self.engine
                    .run_edit_commands(&[EditCommand::Clear, EditCommand::InsertString(edited)]);
            }
            Err(error) => {
                let sentence = format!("`{}` did not work: {error}", self.editor);
                screen.line("");
                screen.line(Text::line(Tone::Bad, &sentence));
            }
        }
    }

    /// Whether this Ctrl-C leaves.
    fn interrupted(&mut self, screen: &mut Screen) -> bool {
        let empty = self.engine.current_buffer_contents().is_empty();
        match self.interrupts.press(empty) {
            Pressed::Cleared => self.engine.run_edit_commands(&[EditCommand::Clear]),
            Pressed::Warned => {
                screen.line("");
                screen.line(Text::line(Tone::Dim, "Ctrl-C again leaves."));
            }
            Pressed::Leave => {
                screen.line("");
                return true;
            }
        }
        false
    }
}

/// The program that edits text: VISUAL, EDITOR, or vi.
#[must_use]
pub fn editor_command(env: &dyn Fn(&str) -> Option<String>) -> String {
    let set = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| "vi".to_owned())
}

/// Runs the editor program, a shell command, on a private temporary file with this text.
///
/// # Errors
/// When the file cannot be made or read, or the program fails; the text is then unchanged.
pub fn edit_text(editor: &str, text: &str) -> io::Result<String> {
    let mut file = tempfile::Builder::new().prefix("segno-").suffix(".md").tempfile()?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("segno")
        .arg(file.path())
        .status()?;
    if !status.success() {
        return Err(io::Error::other(format!("it ended with {status}")));
    }
    // Editors replace files, so it is read by its name.
    std::fs::read_to_string(file.path())
}

/// The history in a file that only its owner can read.
fn open_history(path: &Path) -> io::Result<FileBackedHistory> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    FileBackedHistory::with_file(HISTORY_MAX, path.to_owned()).map_err(io::Error::other)
}

/// Emacs keys, Ctrl-X Ctrl-E, and pasted text that is cleaned.
struct Keys {
    emacs: Emacs,
    after_ctrl_x: bool,
    aside: Aside,
}

impl Keys {
    fn new(aside: Aside) -> Self {
        Self { emacs: Emacs::new(bindings()), after_ctrl_x: false, aside }
    }
}

fn bindings() -> Keybindings {
    let mut keys = default_emacs_keybindings();
    let newline = || ReedlineEvent::Edit(vec![EditCommand::InsertNewline]);
    keys.add_binding(KeyModifiers::ALT, KeyCode::Enter, newline());
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::Enter, newline());
    // Enter that was typed while no line was being read arrives as Ctrl-J. It stands on the line to be
    // looked at: nothing is sent that was not seen in its place.
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('j'), newline());
    let host = |command: &str| ReedlineEvent::ExecuteHostCommand(command.to_owned());
    // The first applies on the line and closes a menu on the way, the second in a history search.
    let interrupt = ReedlineEvent::Multiple(vec![ReedlineEvent::Esc, host(INTERRUPT)]);
    let interrupt = ReedlineEvent::UntilFound(vec![interrupt, ReedlineEvent::CtrlC]);
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('c'), interrupt);
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('o'), host(EDIT));
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('z'), host(SUSPEND));
    // Ctrl-_ as terminals send it.
    let undo = ReedlineEvent::Edit(vec![EditCommand::Undo]);
    keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('7'), undo);
    let menu = vec![ReedlineEvent::Menu(MENU.to_owned()), ReedlineEvent::MenuNext];
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, ReedlineEvent::UntilFound(menu));
    keys.add_binding(KeyModifiers::SHIFT, KeyCode::BackTab, ReedlineEvent::MenuPrevious);
    keys
}

impl EditMode for Keys {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event = Event::from(event);
        let after_ctrl_x = std::mem::take(&mut self.after_ctrl_x);
        match &event {
            Event::Paste(text) => {
                let text = self.aside.short(clean::block(text));
                return ReedlineEvent::Edit(vec![EditCommand::InsertString(text)]);
            }
            Event::Key(key) if key.modifiers == KeyModifiers::CONTROL => match key.code {
                KeyCode::Char('x') => {
                    self.after_ctrl_x = true;
                    return ReedlineEvent::None;
                }
                KeyCode::Char('e') if after_ctrl_x => {
                    return ReedlineEvent::ExecuteHostCommand(EDIT.to_owned());
                }
                _ => {}
            },
            _ => {}
        }
        ReedlineRawEvent::try_from(event)
            .map_or(ReedlineEvent::None, |event| self.emacs.parse_event(event))
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.emacs.edit_mode()
    }
}

/// Enter behind a backslash starts a new line; where that happened is noted.
struct Continuation(Arc<Mutex<Vec<String>>>);

impl Validator for Continuation {
    fn validate(&self, text: &str) -> ValidationResult {
        if !entry::is_continued(text) {
            return ValidationResult::Complete;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
        ValidationResult::Incomplete
    }
}

struct Offers {
    commands: Vec<CommandHint>,
    files: Box<Files>,
}

impl Completer for Offers {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let offers: Vec<Suggestion> =
            complete::complete(line, pos, &self.commands, self.files.as_ref())
                .into_iter()
                .map(|candidate| Suggestion {
                    value: candidate.text,
                    description: candidate.about,
                    span: Span::new(candidate.start, candidate.end),
                    append_whitespace: candidate.space,
                    ..Suggestion::default()
                })
                .collect();
        CompletionResult::fresh(offers)
    }
}

/// What stands before the line.
struct Label(String);

impl reedline::Prompt for Label {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.0)
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(history: {}) ", clean::line(&search.term)))
    }

    fn get_prompt_color(&self) -> Color {
        Color::Cyan
    }
}
