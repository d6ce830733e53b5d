//! What is wrong with a file that an agent is told from: instructions and roles.
//!
//! Responsible for: the kinds of fault and the fact that each is, in words. Must not: read a file, or say what
//! a person should do about it.

use std::fmt;
use std::path::Path;

/// A file, and what a person should know about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNote {
    /// Where it is.
    pub path: String,
    /// What is the matter.
    pub fault: FileFault,
}

impl FileNote {
    pub(crate) fn new(path: &Path, fault: FileFault) -> Self {
        Self { path: path.display().to_string(), fault }
    }
}

impl fmt::Display for FileNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.fault)
    }
}

/// What can be the matter with such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileFault {
    /// It is in the project and a link to this place outside of it; not used.
    LeadsOut(String),
    /// It is a link to where credentials are kept; not used.
    Credentials,
    /// It is too large; not used.
    TooLarge(u64),
    /// It cannot be read; not used.
    Unreadable(String),
    /// It is long, and its end is left out.
    Cut {
        /// So many bytes are.
        left_out: usize,
        /// Of so many.
        of: usize,
    },
    /// The directory holds more files than are read.
    TooMany(usize),
    /// It is no text; not used.
    NoText,
    /// A role of whose front matter it is not certain what it says; not used.
    Unclear {
        /// Where, from 1.
        line: usize,
        /// What is the matter there.
        why: String,
    },
    /// A role without a front matter; not used.
    NoFrontMatter,
    /// A role whose front matter is not closed; not used.
    OpenFrontMatter,
    /// A role whose name is none; not used.
    BadName(String),
    /// A role without a prompt; not used.
    NoPrompt,
    /// A role without a description.
    NoDescription,
    /// A role that names a tool that does not exist.
    NoSuchTool(String),
    /// A role that names the tool for subagents.
    StartsNone,
    /// A role that names no tool where it names its tools.
    NoTools,
    /// A role that asks for a part of a tool.
    PartOfATool(String),
    /// A role that is to be kept from a part of a tool.
    WholeTool(String),
    /// A role with a way of asking for permission.
    NotItsMode(String),
    /// A role with a field that means nothing here.
    UnknownField(String),
    /// A role whose model is not `PROVIDER/ID`.
    NotAModel(String),
    /// A role whose thinking level is none.
    NotALevel(String),
    /// A role whose name another file has; not used.
    Second {
        /// The name.
        name: String,
        /// The file that has it.
        first: String,
    },
}

impl FileFault {
    /// The fact alone.
    pub(crate) fn reason(&self) -> String {
        let said = self.to_string();
        said.strip_prefix("not used: ").map_or(said.clone(), str::to_owned)
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeadsOut(to) => write!(f, "not used: it leads out of the project, to {to}"),
            Self::Credentials => write!(f, "not used: it leads to where credentials are kept"),
            Self::TooLarge(bytes) => write!(f, "not used: {bytes} bytes are too many"),
            Self::Unreadable(why) => write!(f, "not used: {why}"),
            Self::Cut { left_out, of } => {
                write!(f, "it is long: {left_out} of its {of} bytes were left out")
            }
            Self::TooMany(read) => write!(f, "only {read} of its files were read"),
            Self::NoText => write!(f, "not used: it is no text"),
            Self::Unclear { line, why } => write!(f, "not used: line {line}: {why}"),
            Self::NoFrontMatter => {
                write!(f, "not used: there is no front matter between two lines `---`")
            }
            Self::OpenFrontMatter => {
                write!(f, "not used: its front matter has no second line `---`")
            }
            Self::BadName(name) => write!(f, "not used: {name:?} is no name"),
            Self::NoPrompt => write!(f, "not used: it has no prompt"),
            Self::NoDescription => {
                write!(f, "it has no description, so the model does not know what it is for")
            }
            Self::NoSuchTool(name) => write!(f, "there is no tool {name:?}; it is left out"),
            Self::StartsNone => {
                write!(f, "subagents start no subagents: `task` is left out")
            }
            Self::NoTools => write!(f, "it names no tool, and has none"),
            Self::PartOfATool(name) => write!(f, "{name:?} is a part of a tool; it is left out"),
            Self::WholeTool(name) => {
                write!(f, "{name:?} is a part of a tool; all of it is kept from it")
            }
            Self::NotItsMode(mode) => {
                write!(f, "`permissionMode: {mode}` means nothing here: the session's mode decides")
            }
            Self::UnknownField(name) => write!(f, "`{name}` means nothing here"),
            Self::NotAModel(given) => {
                write!(f, "{given:?} is not PROVIDER/ID; it asks its parent's model")
            }
            Self::NotALevel(given) => {
                write!(f, "{given:?} is no thinking level; it thinks as its parent")
            }
            Self::Second { name, first } => {
                write!(f, "not used: the role {name} is that of {first}")
            }
        }
    }
}
