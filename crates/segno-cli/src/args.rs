//! The command line: what was typed, then what it means.
//!
//! Responsible for: the shape of every command (its help texts are the manual) and, as a second and pure
//! step, [`interpret`]: is this a command, a prompt, or a slip that must not cost money? Must not: read
//! files, the environment or the terminal, or carry anything out.

mod exporting;
mod inputs;
mod keeping;
mod looking;
mod removing;
mod tending;
mod worktrees;

pub use exporting::{ExportArgs, ExportFormat};
pub use inputs::{AnswerArgs, AttachArgs, InboxArgs, SendArgs, StopArgs, WorkOffArgs};
pub use keeping::KeepArgs;
pub use looking::{
    CheckArgs, ChildrenArgs, ListArgs, Role, SearchArgs, ShowArgs, SourcesArgs, StatsArgs, StatsBy,
    StatusArgs,
};
pub use removing::{DeleteArgs, ImportArgs, TrashAction, TrashArgs};
pub use tending::{
    CompactArgs, ContextAction, ContextArgs, EraseArgs, NameArgs, PruneArgs, PruneKind,
    RelocateArgs,
};
pub use worktrees::{WorktreeAction, WorktreeArgs};

use crate::error::{CliError, capitalised};
use crate::terminal::clean;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use segno_model::record::Policy;
use segno_store::convert::TARGETS;
use segno_store::foreign::Agent;
use std::ffi::OsString;
use std::path::PathBuf;

const USAGE: &str = "segno [OPTIONS] [COMMAND]\n       segno [OPTIONS] [--] PROMPT";

const AFTER_HELP: &str = "\
A SESSION is an id, the beginning of one, a name, `last` (this project's newest of ours) or a path.
Other agents' sessions have ids and names, too; `claude:last` or `codex:ID` says whose.

Without a command, in a terminal, segno starts an interactive session:
  segno                         start
  segno \"fix the failing test\"  start with a prompt (it must contain white space)
  segno -- explain              start with any prompt

Exit codes:
  0  done; for a run: completed
  1  failed, for a reason without a code of its own; check: warnings or damage
  2  the command line makes no sense; check: the session cannot be read
  3  stopped by the user
  4  the session is held by another process
  5  the session is damaged and needs a decision
  6  not found, or the name fits several
  7  nothing can be written (full disk, failing medium, newer format)
  8  no usable model (none found, no key, refused)
  9  ended by a shutdown; it can be resumed
 10  something else was sent under this id before
 11  interrupted work waits for a decision: `--policy auto` goes on with it";

/// A coding agent whose sessions survive: kill it at any moment and go on where it was.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(name = "segno", version, max_term_width = 100, override_usage = USAGE, after_help = AFTER_HELP)]
pub struct Cli {
    /// Keep sessions in this directory (otherwise SEGNO_HOME, otherwise the platform's data directory)
    #[arg(long, global = true, value_name = "DIR")]
    pub home: Option<PathBuf>,

    /// Words that are no command
    #[arg(value_name = "PROMPT", hide = true)]
    pub words: Vec<String>,

    /// A prompt, whatever it looks like
    #[arg(last = true, value_name = "PROMPT")]
    pub prompt: Vec<String>,

    /// How the agent works
    #[command(flatten)]
    pub agent: AgentArgs,

    /// What to do
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// How the agent works.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Agent")]
pub struct AgentArgs {
    /// The model: anthropic, openai, openai-chat, gemini or ollama, a slash, and its id there
    #[arg(long, value_name = "PROVIDER/ID")]
    pub model: Option<String>,

    /// Where the provider's interface is, instead of its usual place
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,

    /// How much the model thinks before it answers
    #[arg(long, value_name = "LEVEL")]
    pub thinking: Option<Thinking>,

    /// What the agent may do without asking (in a terminal the default is `ask`)
    #[arg(long, value_name = "MODE")]
    pub permission: Option<Permission>,

    /// What becomes of this session's work when it is interrupted (in a terminal the default is `ask`)
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<WhenInterrupted>,
}

impl AgentArgs {
    /// These, with `outer` where nothing was said: options may stand before the command or behind it.
    fn or(self, outer: Self) -> Self {
        Self {
            model: self.model.or(outer.model),
            base_url: self.base_url.or(outer.base_url),
            thinking: self.thinking.or(outer.thinking),
            permission: self.permission.or(outer.permission),
            policy: self.policy.or(outer.policy),
        }
    }

    /// The first option that was given, by its name.
    fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--model", self.model.is_some()),
            ("--base-url", self.base_url.is_some()),
            ("--thinking", self.thinking.is_some()),
            ("--permission", self.permission.is_some()),
            ("--policy", self.policy.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}

/// How much a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Thinking {
    /// Not at all
    Off,
    /// As little as the model can
    Minimal,
    /// A little
    Low,
    /// Some
    Medium,
    /// A lot
    High,
}

impl Thinking {
    /// The word that the log and the providers know.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What the agent may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Permission {
    /// Read and search; nothing that changes anything
    ReadOnly,
    /// Ask before every change and every command
    Ask,
    /// Change files; ask before commands
    Edits,
    /// Everything
    All,
}

impl Permission {
    /// The agent's name for it.
    #[must_use]
    pub fn mode(self) -> segno_agent::permission::Mode {
        use segno_agent::permission::Mode;
        match self {
            Self::ReadOnly => Mode::ReadOnly,
            Self::Ask => Mode::Ask,
            Self::Edits => Mode::Edits,
            Self::All => Mode::All,
        }
    }
}

/// What becomes of interrupted work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WhenInterrupted {
    /// Ask whether to go on with it
    Ask,
    /// Go on with it
    Auto,
    /// Leave it
    Never,
}

impl WhenInterrupted {
    /// The policy that a session records.
    #[must_use]
    pub fn policy(self) -> Policy {
        match self {
            Self::Ask => Policy::Ask,
            Self::Auto => Policy::Auto,
            Self::Never => Policy::Never,
        }
    }
}

/// The commands.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Give the agent one task and wait for its end
    Run(RunArgs),
    /// Go on with a session; without SESSION, choose one from a list
    Resume(ResumeArgs),
    /// Say something to a session, whoever works on it, or nobody
    Send(SendArgs),
    /// List what waits in a session's inbox, take it back, move it, or let the model see it
    Inbox(InboxArgs),
    /// Stop what runs in a session, whoever runs it; what waits behind it waits for you
    Stop(StopArgs),
    /// Show the permission question that a session waits with, and answer it
    Answer(AnswerArgs),
    /// Watch a session that another process works on, and say something to it
    Attach(AttachArgs),
    /// Work off a session's inbox
    #[command(hide = true)]
    WorkOff(WorkOffArgs),
    /// Copy a session, whole or up to a point; the original stays as it is
    Fork(ForkArgs),
    /// Go back to a record in a session; with --files, bring the files back that were edited since
    Rewind(RewindArgs),
    /// List the sessions of all agents: this project's, newest first
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Find text in the sessions of all agents
    Search(SearchArgs),
    /// Show a session: its transcript, its tree, its context or one record
    Show(ShowArgs),
    /// Verify sessions from the first byte to the last; exits with 0 if they are sound but for notes
    Check(CheckArgs),
    /// List a session's subagents: who they are, what became of them, what they used
    Children(ChildrenArgs),
    /// What subagents did in working trees of their own: list, diff, merge, prune
    Worktree(WorktreeArgs),
    /// Which agents were found, where, and whether their sessions can be read
    Sources(SourcesArgs),
    /// Commands that still run, of whichever session, and those whose end was not told yet
    Status(StatusArgs),
    /// What was spent: tokens, money and time by day, project, model, agent, session or branch
    Stats(StatsArgs),
    /// Settle a damaged session: ours by an appended record; another agent's as a copy or, when told so, in place
    Repair(RepairArgs),
    /// Leave a record out of what the model is sent, replace it there, or put it back
    Context(ContextArgs),
    /// Erase what records said, for good: blobs, before-images and copies beside the log included
    Erase(EraseArgs),
    /// Summarise what lies back in a session, so that the context is smaller; the log keeps everything
    Compact(CompactArgs),
    /// Name a session
    Name(NameArgs),
    /// Write a session of any agent out; secrets are masked in what people and programs read, and left in for
    /// agents and `segno import`
    Export(ExportArgs),
    /// Bring in the sessions of a file that `export --format segno` wrote
    Import(ImportArgs),
    /// Copy sessions of other agents before those agents delete them; fit for cron or a hook
    Keep(KeepArgs),
    /// Move sessions to the trash
    Delete(DeleteArgs),
    /// What is in the trash, and what becomes of it; nothing leaves it by itself
    Trash(TrashArgs),
    /// Show what takes room, and remove what is named: trash, blobs of no use, what was left behind
    Prune(PruneArgs),
    /// Tell a session that its project's directory has moved
    Relocate(RelocateArgs),
    /// List the models that can be used now, and how to set up one
    Models(ModelsArgs),
    /// See it survive: kill an agent, delete its file, resume, and check the answer; needs no key
    Demo(DemoArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
}

impl Command {
    /// Whether the output is JSON for a program; an error then is JSON, too.
    #[must_use]
    pub fn prints_json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Resume(args) => args.json,
            Self::Models(args) => args.json,
            Self::Fork(args) => args.json,
            Self::Rewind(args) => args.json,
            Self::Send(args) => args.json,
            Self::Inbox(args) => args.json,
            Self::Stop(args) => args.json,
            Self::Answer(args) => args.json,
            Self::List(args) => args.json,
            Self::Keep(args) => args.json,
            Self::Show(args) => args.json,
            Self::Check(args) => args.json,
            Self::Search(args) => args.json,
            Self::Children(args) => args.json,
            Self::Worktree(args) => args.action.prints_json(),
            Self::Sources(args) => args.json,
            Self::Stats(args) => args.json,
            Self::Status(args) => args.json,
            Self::Context(args) => args.json,
            Self::Erase(args) => args.json,
            Self::Prune(args) => args.json,
            Self::Repair(args) => args.json,
            Self::Import(args) => args.json,
            Self::Export(args) => args.json,
            Self::Compact(args) => args.json,
            // Whoever started it reads why it could not work.
            Self::WorkOff(_) => true,
            Self::Trash(args) => matches!(args.action, Some(TrashAction::List { json: true })),
            _ => false,
        }
    }

    /// Whether it only shows something, so that nothing was done when that could not be written.
    #[must_use]
    pub fn only_shows(&self) -> bool {
        match self {
            Self::List(_)
            | Self::Search(_)
            | Self::Show(_)
            | Self::Check(_)
            | Self::Children(_)
            | Self::Sources(_)
            | Self::Status(_)
            | Self::Stats(_)
            | Self::Models(_)
            | Self::Completions(_) => true,
            Self::Keep(args) => args.versions,
            Self::Trash(args) => matches!(args.action, None | Some(TrashAction::List { .. })),
            Self::Export(args) => args.output.is_none() && !args.install,
            Self::Repair(args) => {
                let does = args.install || args.in_place || !args.accept.is_empty();
                args.output.is_none() && !does
            }
            _ => false,
        }
    }
}

/// `segno run`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct RunArgs {
    /// The task; what comes in on standard input is put behind it
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,

    /// Print one JSON event per line instead of text
    #[arg(long)]
    pub json: bool,

    /// Go on with this project's newest session; an error if there is none
    #[arg(long = "continue")]
    pub continue_newest: bool,

    /// Go on with this session
    #[arg(long, value_name = "SESSION", conflicts_with = "continue_newest")]
    pub session: Option<String>,

    /// How the agent works
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// `segno resume`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ResumeArgs {
    /// Which session; another agent's is opened in that agent
    pub session: Option<String>,

    /// Go on with every session whose work was interrupted and whose policy is `auto`
    #[arg(long, conflicts_with_all = ["session", "print", "here", "prompt"])]
    pub all: bool,

    /// With --all: only say what would be done
    #[arg(long, requires = "all")]
    pub dry_run: bool,

    /// With --all: print JSON
    #[arg(long, requires = "all")]
    pub json: bool,

    /// Print the command that goes on with it instead of running it
    #[arg(long)]
    pub print: bool,

    /// Go on with another agent's session in Segno; the original stays as it is
    #[arg(long, conflicts_with = "print")]
    pub here: bool,

    /// Go on in another agent: the session becomes a new one of that agent's, as far as that can hold it
    #[arg(long = "in", value_name = "AGENT", value_parser = in_agent,
        conflicts_with_all = ["here", "all", "take_over", "allow_drift", "prompt"])]
    pub in_agent: Option<Agent>,

    /// With --in: do not ask whether to go on without what is lost
    #[arg(long, requires = "in_agent")]
    pub yes: bool,

    /// Ask the process that has the session to suspend its work and let go of it
    #[arg(long, conflicts_with = "print")]
    pub take_over: bool,

    /// Go on with a subagent although its role, address or directory are not what they were; recorded
    #[arg(long, conflicts_with = "print")]
    pub allow_drift: bool,

    /// Start with this prompt
    #[arg(last = true, value_name = "PROMPT")]
    pub prompt: Vec<String>,

    /// How the agent works
    #[command(flatten)]
    pub agent: AgentArgs,
}

/// `segno fork`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ForkArgs {
    /// Which session
    pub session: String,

    /// End the copy at this record
    #[arg(long, value_name = "SEQ")]
    pub at: Option<u64>,

    /// End the copy before this record
    #[arg(long, value_name = "SEQ", conflicts_with = "at")]
    pub before: Option<u64>,

    /// Name the copy
    #[arg(long)]
    pub name: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno rewind`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct RewindArgs {
    /// Which session
    pub session: String,

    /// Go on from this record; from before it, when it is a prompt
    pub seq: u64,

    /// Bring the files back that were edited since, one by one, except where somebody else changed them
    #[arg(long)]
    pub files: bool,

    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno repair`
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct RepairArgs {
    /// Which session of which agent, or a file
    pub session: String,

    /// Another agent's: write the repaired session to this new file, or with `-` to standard output
    #[arg(short, long, value_name = "FILE", group = "to")]
    pub output: Option<PathBuf>,

    /// Another agent's: put a repaired copy where that agent finds it, under a new id
    #[arg(long, group = "to")]
    pub install: bool,

    /// Another agent's: put the repaired session in the place of its file, which is kept beside it
    #[arg(long, group = "to")]
    pub in_place: bool,

    /// Take these altered records as they are now; give the numbers that `check` shows
    #[arg(long, value_name = "SEQ", value_delimiter = ',')]
    pub accept: Vec<u64>,

    /// Do it without asking
    #[arg(long)]
    pub yes: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno models`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ModelsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `segno demo`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct DemoArgs {
    /// Leave the demo's directory behind, to look at
    #[arg(long)]
    pub keep: bool,

    /// Instead of the experiment, run a scripted model until Ctrl-C, to try the whole agent with
    #[arg(long, conflicts_with = "keep")]
    pub serve: bool,

    /// The port that --serve listens on, instead of any free one
    #[arg(long, value_name = "N", requires = "serve")]
    pub port: Option<u16>,
}

/// `segno completions`
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CompletionsArgs {
    /// For which shell
    pub shell: clap_complete::Shell,
}

/// What a command line means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intent {
    /// An interactive session, perhaps with a first prompt.
    Interactive {
        /// The first prompt.
        prompt: Option<String>,
        /// How the agent works.
        agent: AgentArgs,
    },
    /// A command.
    Command(Command),
}

/// What a command line makes of itself before anything happens.
#[derive(Debug)]
pub enum Parsed {
    /// Something to do, and where sessions are, if that was said.
    Do {
        /// What.
        intent: Intent,
        /// `--home`.
        home: Option<PathBuf>,
    },
    /// Help or the version was asked for.
    Tell(clap::Error),
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// A [`CliError`] for words that are neither a command nor clearly a prompt.
pub fn parse<I: IntoIterator<Item = OsString>>(args: I) -> Result<Parsed, CliError> {
    let args: Vec<OsString> = args.into_iter().collect();
    match Cli::try_parse_from(&args) {
        Ok(cli) => {
            let home = cli.home.clone();
            interpret(cli).map(|intent| Parsed::Do { intent, home })
        }
        // `segno lst --all`: the option is unknown only because the command is.
        Err(error) if error.kind() == clap::error::ErrorKind::UnknownArgument => {
            match args.get(1).and_then(|first| first.to_str()) {
                Some(first) if !first.starts_with('-') && !is_command(first) => {
                    Err(unknown(first, first))
                }
                _ => Err(slip(&error, &args)),
            }
        }
        Err(error) if error.use_stderr() => Err(slip(&error, &args)),
        Err(error) => Ok(Parsed::Tell(error)),
    }
}

/// What clap found wrong, in the shape of every other error: its sentence; its tips, the values that are
/// possible and the usage as the cause; where to read on as the next step.
fn slip(error: &clap::Error, args: &[OsString]) -> CliError {
    let said = error.render().to_string();
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    let (sentence, rest) = said.split_once('\n').unwrap_or((said, ""));
    let told = |line: &&str| !line.is_empty() && !line.starts_with("For more information");
    let cause: Vec<&str> = rest.lines().map(str::trim).filter(told).collect();
    let error = CliError::usage(format!("{}.", capitalised(sentence.trim_end_matches('.'))))
        .next(format!("`segno{} --help` says what it takes.", commands_in(args)));
    if cause.is_empty() { error } else { error.because(cause.join("\n")) }
}

/// The commands that a command line names, each behind a space.
fn commands_in(args: &[OsString]) -> String {
    let (mut names, mut command) = (String::new(), Cli::command());
    let words = args.iter().skip(1).filter_map(|arg| arg.to_str()).take_while(|word| *word != "--");
    for word in words {
        if let Some(below) = command.find_subcommand(word).cloned() {
            names.push_str(&format!(" {word}"));
            command = below;
        }
    }
    names
}

/// What the program calls itself with to supervise a command; for nobody else, so it is in no help.
pub const SUPERVISE: &str = "__supervise";

/// The directory of the action to supervise, if this process is to do that and nothing else.
pub fn supervised<I: IntoIterator<Item = OsString>>(args: I) -> Option<PathBuf> {
    let mut args = args.into_iter().skip(1);
    let ours = args.next()? == SUPERVISE;
    args.next().filter(|_| ours).map(PathBuf::from)
}

/// Whether a command line that makes no sense asked for JSON.
pub fn asks_for_json<I: IntoIterator<Item = OsString>>(args: I) -> bool {
    args.into_iter().take_while(|arg| arg != "--").any(|arg| arg == "--json")
}

/// Tells commands from prompts. A single word is never a prompt unless it stands behind `--`: it is
/// more likely a slip, and a slip must not become a paid call.
///
/// # Errors
/// A [`CliError`] that says what was probably meant.
pub fn interpret(cli: Cli) -> Result<Intent, CliError> {
    if let Some(command) = cli.command {
        if let Some(word) = cli.words.first() {
            return Err(unknown(word, word));
        }
        return with_outer_options(command, cli.agent).map(Intent::Command);
    }
    let words = cli.words.join(" ");
    let behind = cli.prompt.join(" ");
    let prompt = match (cli.words.is_empty(), cli.prompt.is_empty()) {
        (true, true) => None,
        (true, false) => Some(behind),
        (false, true) if is_clearly_a_prompt(&cli.words) => Some(words),
        (false, true) => return Err(unknown(&cli.words[0], &words)),
        (false, false) => {
            return Err(CliError::usage("There are words before `--` and behind it.").next(
                format!(
                    "Put the whole prompt behind it: segno -- {}",
                    quoted(&format!("{words} {behind}"))
                ),
            ));
        }
    };
    if prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty()) {
        return Err(CliError::usage("The prompt is empty.")
            .next("`segno` alone starts a session without a prompt."));
    }
    Ok(Intent::Interactive { prompt, agent: cli.agent })
}

/// The first argument has white space inside, as no command has.
fn is_clearly_a_prompt(words: &[String]) -> bool {
    words.first().is_some_and(|word| word.trim().contains(char::is_whitespace))
        || words.iter().all(|word| word.trim().is_empty())
}

fn with_outer_options(command: Command, outer: AgentArgs) -> Result<Command, CliError> {
    match command {
        Command::Run(args) => Ok(Command::Run(RunArgs { agent: args.agent.or(outer), ..args })),
        Command::Resume(args) => {
            Ok(Command::Resume(ResumeArgs { agent: args.agent.or(outer), ..args }))
        }
        other => match outer.first_given() {
            None => Ok(other),
            Some(option) => {
                Err(CliError::usage(format!("{option} means nothing to this command."))
                    .because("it is for `segno`, `segno run` and `segno resume`")
                    .next("Leave it out."))
            }
        },
    }
}

fn unknown(word: &str, all: &str) -> CliError {
    let error = CliError::usage(format!("There is no command `{word}`.")).because(
        "nothing was sent to a model: a single word is taken for a slip, not for a prompt",
    );
    let as_prompt = format!("segno -- {}", quoted(all));
    match suggestion(word) {
        Some(command) => error
            .next(format!("Did you mean `segno {command}`? To use it as a prompt: {as_prompt}")),
        None => error
            .next(format!("`segno --help` lists the commands. To use it as a prompt: {as_prompt}")),
    }
}

/// An agent that sessions can be written for.
fn in_agent(word: &str) -> Result<Agent, String> {
    let names: Vec<&str> = TARGETS.iter().map(|agent| agent.id()).collect();
    let known = TARGETS.into_iter().find(|agent| agent.id() == word);
    known.ok_or_else(|| format!("one of {}", names.join(", ")))
}

/// Text as one argument of a POSIX shell.
#[must_use]
pub fn quoted(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(safe) {
        text.to_owned()
    } else if clean::block(text) != text || text.contains(char::is_control) {
        // Shown as it is, a terminal would be shown something else; a shell takes this back exactly.
        let bytes = text.bytes().map(|byte| match byte {
            b'\'' | b'\\' => format!("\\{}", char::from(byte)),
            b'!'..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        });
        format!("$'{}'", bytes.collect::<String>())
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

fn is_command(word: &str) -> bool {
    word == "help" || Cli::command().find_subcommand(word).is_some()
}

/// The command that was probably meant; see [`nearest`].
#[must_use]
pub fn suggestion(word: &str) -> Option<String> {
    let command = Cli::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    nearest(word, &names)
}

/// The name that was probably meant: it begins like the word, or differs in one or two letters.
#[must_use]
pub fn nearest(word: &str, names: &[&str]) -> Option<String> {
    let word = word.to_lowercase();
    if word.chars().count() >= 3
        && let Some(name) = names.iter().find(|name| name.starts_with(&word))
    {
        return Some((*name).to_owned());
    }
    let limit = if word.chars().count() <= 3 { 1 } else { 2 };
    names
        .iter()
        .map(|name| (distance(&word, name), *name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name.to_owned())
}

/// How many letters must be added, removed, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
