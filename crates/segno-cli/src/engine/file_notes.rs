//! What is wrong with the files that an agent here is told from: instructions and roles.
//!
//! Responsible for: telling each thing once in a process, with what to do about it. Must not: read such a file
//! itself, or keep anybody from going on.

use super::Engine;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_agent::{FileFault, FileNote};

impl Engine {
    /// Tells what a person should know about the instruction and role files of the place where the engine is,
    /// unless it was told before.
    pub fn tell_of_files(&mut self, screen: &mut Screen) {
        let instructions = self.surroundings().instructions;
        let notes = instructions.into_iter().filter_map(|instruction| instruction.note);
        for note in notes.chain(self.roles().notes) {
            let said = said(&note);
            if self.told_of_files.insert(said.clone()) {
                screen.line(Text::line(Tone::Warning, &said));
            }
        }
    }

    /// The same for scripts, on standard error.
    pub fn tell_of_files_aside(&mut self) {
        let mut aside = Screen::stderr();
        self.tell_of_files(&mut aside);
        // A note that nobody can read changes nothing.
        let _ = aside.finish();
    }
}

fn said(note: &FileNote) -> String {
    let (shown, next) = (clean::line(&note.to_string()), next(&note.fault));
    format!("note: {shown}. {next}")
}

/// What to do about it.
fn next(fault: &FileFault) -> &'static str {
    match fault {
        FileFault::LeadsOut(_) => {
            "Put a copy in the link's place, or keep it beside your own configuration."
        }
        FileFault::Credentials => "Keep what an agent is to be told in a file of its own.",
        FileFault::TooLarge(_) | FileFault::Cut { .. } => {
            "Shorten it; what is long can stand in a file that it names."
        }
        FileFault::Unreadable(_) => "Make it a file that you can read, or remove it.",
        FileFault::TooMany(_) => "Move those that nobody calls elsewhere.",
        FileFault::NoFrontMatter => "Put `---`, `description: …` and `---` in front of its prompt.",
        FileFault::OpenFrontMatter => "Put a line `---` behind the last field.",
        FileFault::NoText => "Write it as a text in UTF-8, or give it another ending than .md.",
        FileFault::Unclear { .. } => {
            "Write each field as `field: value` at the beginning of a line; until then nobody is called by it."
        }
        FileFault::NoTools | FileFault::PartOfATool(_) => {
            "Name whole tools in `tools:`, or leave it out for all."
        }
        FileFault::WholeTool(_) => "Name whole tools in `disallowedTools:`.",
        FileFault::NotItsMode(_) => "Take it out; `permissionMode: plan` alone is understood.",
        FileFault::UnknownField(_) => "Take it out, or leave it to the agent that it is for.",
        FileFault::BadName(_) => {
            "Name it with letters, digits, - and _, in `name:` or by its file."
        }
        FileFault::NoPrompt => "Write what it is to do below the second line `---`.",
        FileFault::NoDescription => "Say in `description:` what it is for.",
        FileFault::NoSuchTool(_) => {
            "There are read, write, edit, bash, grep, find, ls, todo, background and mcp__SERVER__TOOL."
        }
        FileFault::StartsNone => "Take it out of `tools:`.",
        FileFault::NotAModel(_) => "Write `model:` as `segno models` shows it, or leave it out.",
        FileFault::NotALevel(_) => "There are off, minimal, low, medium and high.",
        FileFault::Second { .. } => "Give one of them another name.",
    }
}
