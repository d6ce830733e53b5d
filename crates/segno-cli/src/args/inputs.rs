//! The arguments of the commands that send something to a session from outside.
//!
//! Responsible for: their shape and help texts. Must not: decide anything.

use clap::Args;

/// `segno send`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct SendArgs {
    /// Which session
    pub session: String,

    /// What to say; `-` reads it from standard input
    #[arg(value_name = "TEXT")]
    pub text: String,

    /// Its id: sent twice under the same one, it is one input
    #[arg(long, value_name = "KEY")]
    pub id: Option<String>,

    /// For when the turn that goes on has ended
    #[arg(long)]
    pub queue: bool,

    /// For the next step of the turn that goes on (without either, this)
    #[arg(long, conflicts_with = "queue")]
    pub steer: bool,

    /// Start no process when nobody has the session; the input waits
    #[arg(long)]
    pub no_run: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno inbox`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct InboxArgs {
    /// Which session
    #[arg(default_value = "last")]
    pub session: String,

    /// Take this input back
    #[arg(long, value_name = "ID", group = "deed")]
    pub withdraw: Option<String>,

    /// Move this input; to the end, or see --before
    #[arg(long = "move", value_name = "ID", group = "deed")]
    pub moved: Option<String>,

    /// Move it before this one
    #[arg(long, value_name = "ID", requires = "moved")]
    pub before: Option<String>,

    /// Let the model see this input, or everything that waits for a person
    #[arg(long, value_name = "ID", group = "deed", num_args = 0..=1, default_missing_value = "")]
    pub deliver: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno stop`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct StopArgs {
    /// Which session
    #[arg(default_value = "last")]
    pub session: String,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno answer`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AnswerArgs {
    /// Which session
    pub session: String,

    /// Yes, this time
    #[arg(long, group = "word")]
    pub allow: bool,

    /// No; the model is told the reason, if you give one
    #[arg(long, value_name = "REASON", group = "word", num_args = 0..=1, default_missing_value = "")]
    pub deny: Option<String>,

    /// Which call, when several questions wait: its id, or the beginning of one
    #[arg(long, value_name = "ID")]
    pub call: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno attach`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct AttachArgs {
    /// Which session
    #[arg(default_value = "last")]
    pub session: String,
}

/// `segno work-off`: the process that `send` starts.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct WorkOffArgs {
    /// Which session, by its whole id
    pub session: String,

    /// Inputs that a person asked for
    #[arg(long, value_name = "ID")]
    pub deliver: Vec<String>,
}
