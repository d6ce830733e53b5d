//! The commands of an interactive session.
//!
//! Responsible for: their names and help, what a `/word` means, and what was probably meant by an unknown
//! one; all of it pure. Must not: carry anything out, or let an unknown command through to the model.

use crate::args::{ContextAction, Thinking, nearest};
use crate::error::CliError;
use crate::terminal::complete::CommandHint;
use clap::ValueEnum as _;
use segno_agent::permission::Mode;
use segno_model::Seq;

/// A command, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Slash {
    /// Goes on with another session; without one, choose.
    Resume(Option<String>),
    /// Goes on in a copy that ends at this record, or is whole.
    Fork(Option<Seq>),
    /// Shows the branches, or goes to a record.
    Tree(Option<Seq>),
    /// Labels a record; an empty label takes it away.
    Label(Seq, String),
    /// Lists what is left out or replaced for the model, or changes it.
    Context(ContextAction),
    /// Names the session; an empty name takes it away.
    Name(String),
    /// Lists the models, or changes to one.
    Model(Option<String>),
    /// Shows or sets how much the model thinks.
    Thinking(Option<Thinking>),
    /// Goes back, with the files.
    Rewind(Seq),
    /// Shows or sets what runs without asking.
    Permission(Option<Mode>),
    /// Summarises what lies back.
    Compact(Option<String>),
    /// Tells what the session cost.
    Cost,
    /// Tells the session's facts.
    Session,
    /// Lists what waits.
    Inbox,
    /// Lets the model see what waits: one of it, or all.
    Deliver(Option<usize>),
    /// Takes back what waits.
    Withdraw(usize),
    /// Starts a new session.
    New,
    /// Lists the commands.
    Help,
    /// Leaves.
    Quit,
}

/// Name, arguments, what it does.
pub(super) const COMMANDS: &[(&str, &str, &str)] = &[
    ("resume", "[SESSION]", "go on with another session; without one, choose from a list"),
    ("fork", "[SEQ]", "go on in a copy of this session, whole or up to record SEQ"),
    ("tree", "[SEQ]", "show the branches; with SEQ go back there"),
    ("rewind", "SEQ", "go back there, and bring back the files that were edited since"),
    ("label", "SEQ [LABEL]", "label a record, or take its label away"),
    (
        "context",
        "[omit|restore SEQ | replace SEQ TEXT]",
        "what is left out or replaced for the model",
    ),
    ("name", "[NAME]", "name this session"),
    ("model", "[PROVIDER/ID]", "list the models, or change to one"),
    ("thinking", "[LEVEL]", "how much the model thinks"),
    ("permission", "[MODE]", "what runs without asking"),
    ("compact", "[FOCUS]", "summarise what lies back; the log keeps everything"),
    ("inbox", "", "what was sent to this session and waits"),
    ("deliver", "[N]", "let the model see what waits, all of it or number N"),
    ("withdraw", "N", "take back what waits as number N"),
    ("cost", "", "what this session cost, branch by branch"),
    ("session", "", "facts about this session"),
    ("new", "", "start a new session"),
    ("edit", "[TEXT]", "write the prompt in your editor"),
    ("help", "", "this list"),
    ("quit", "", "leave"),
];

/// What Tab offers.
#[must_use]
pub(super) fn hints() -> Vec<CommandHint> {
    let arguments = |name: &str| match name {
        "thinking" => levels(),
        "permission" => Mode::ALL.iter().map(|m| m.name().to_owned()).collect(),
        _ => Vec::new(),
    };
    let hint = |(name, _, about): &(&'static str, &str, &'static str)| CommandHint {
        name,
        about,
        arguments: arguments(name),
    };
    COMMANDS.iter().map(hint).collect()
}

/// What `/name args` means.
///
/// # Errors
/// When there is no such command, or it cannot take these arguments.
pub(super) fn parse(name: &str, args: &str) -> Result<Slash, CliError> {
    let given = || Some(args.to_owned()).filter(|a| !a.is_empty());
    let seq = || given().map(|text| record(&text)).transpose();
    let alone = |slash: Slash| match given() {
        None => Ok(slash),
        Some(_) => Err(CliError::usage(format!("/{name} takes nothing behind it."))
            .next(format!("/{name} alone does it; /help lists the commands."))),
    };
    match name {
        "resume" => Ok(Slash::Resume(given())),
        "fork" => Ok(Slash::Fork(seq()?)),
        "tree" => Ok(Slash::Tree(seq()?)),
        "rewind" => match seq()? {
            Some(seq) => Ok(Slash::Rewind(seq)),
            None => {
                let error = CliError::usage("/rewind goes back to a record.");
                Err(error.next("/tree shows the numbers."))
            }
        },
        "label" => {
            let (seq, label) = args.split_once(char::is_whitespace).unwrap_or((args, ""));
            Ok(Slash::Label(record(seq)?, label.trim().to_owned()))
        }
        "context" => Ok(Slash::Context(context(args)?)),
        "name" => Ok(Slash::Name(args.to_owned())),
        "model" => Ok(Slash::Model(given())),
        "thinking" => Ok(Slash::Thinking(given().map(|text| level(&text)).transpose()?)),
        "permission" => Ok(Slash::Permission(given().map(|text| mode(&text)).transpose()?)),
        "compact" => Ok(Slash::Compact(given())),
        "inbox" => alone(Slash::Inbox),
        "deliver" => Ok(Slash::Deliver(given().map(|text| number(&text)).transpose()?)),
        "withdraw" => Ok(Slash::Withdraw(number(args)?)),
        "cost" => alone(Slash::Cost),
        "session" => alone(Slash::Session),
        "new" | "clear" => alone(Slash::New),
        "help" => alone(Slash::Help),
        "quit" | "exit" => alone(Slash::Quit),
        _ => Err(unknown(name)),
    }
}

fn record(text: &str) -> Result<Seq, CliError> {
    text.trim_start_matches('#').parse().map_err(|_| {
        CliError::usage(format!("`{text}` is not the number of a record."))
            .next("/tree shows the numbers.")
    })
}

fn context(args: &str) -> Result<ContextAction, CliError> {
    let (action, rest) = args.split_once(char::is_whitespace).unwrap_or((args, ""));
    let (seq, text) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
    let text = text.trim();
    match action {
        "" | "list" if rest.is_empty() => Ok(ContextAction::List),
        "omit" if text.is_empty() => Ok(ContextAction::Omit { seq: record(seq)? }),
        "restore" if text.is_empty() => Ok(ContextAction::Restore { seq: record(seq)? }),
        "replace" if !text.is_empty() => {
            Ok(ContextAction::Replace { seq: record(seq)?, text: text.to_owned() })
        }
        _ => {
            Err(CliError::usage("/context takes `omit SEQ`, `restore SEQ` or `replace SEQ TEXT`.")
                .next("/context alone lists what is left out or replaced."))
        }
    }
}

fn number(text: &str) -> Result<usize, CliError> {
    text.parse().map_err(|_| {
        CliError::usage(format!("`{text}` is not the number of an input."))
            .next("/inbox lists what waits.")
    })
}

fn level(text: &str) -> Result<Thinking, CliError> {
    Thinking::from_str(text, true).map_err(|_| {
        CliError::usage(format!("There is no thinking level `{text}`."))
            .next(format!("The levels are {}.", levels().join(", ")))
    })
}

fn mode(text: &str) -> Result<Mode, CliError> {
    Mode::parse(text).ok_or_else(|| {
        let all: Vec<&str> = Mode::ALL.iter().map(|mode| mode.name()).collect();
        CliError::usage(format!("There is no permission mode `{text}`."))
            .next(format!("The modes are {}.", all.join(", ")))
    })
}

fn levels() -> Vec<String> {
    Thinking::value_variants().iter().map(|level| level.as_str().to_owned()).collect()
}

fn unknown(name: &str) -> CliError {
    let names: Vec<&str> = COMMANDS.iter().map(|(name, _, _)| *name).collect();
    let error = CliError::usage(format!("There is no command /{name}."))
        .because("nothing was sent to the model");
    match nearest(name, &names) {
        Some(meant) => {
            error.next(format!("Did you mean /{meant}? A backslash in front makes it text."))
        }
        None => error.next("/help lists the commands. A backslash in front makes it text."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(entered: &str) -> String {
        let (name, args) = entered.split_once(' ').unwrap_or((entered, ""));
        match parse(name, args) {
            Ok(slash) => format!("{slash:?}"),
            Err(error) => {
                format!("{} {}", error.sentence, error.next_step)
            }
        }
    }

    #[test]
    fn what_commands_mean() {
        let text = "A backslash in front makes it text.";
        let rows: &[(&str, &str)] = &[
            ("resume", "Resume(None)"),
            ("resume 019c", "Resume(Some(\"019c\"))"),
            ("fork", "Fork(None)"),
            ("fork 12", "Fork(Some(12))"),
            ("fork #12", "Fork(Some(12))"),
            ("tree x", "`x` is not the number of a record. /tree shows the numbers."),
            ("name my work", "Name(\"my work\")"),
            ("label #4 before the rewrite", "Label(4, \"before the rewrite\")"),
            ("label 4", "Label(4, \"\")"),
            ("label it", "`it` is not the number of a record. /tree shows the numbers."),
            ("context", "Context(List)"),
            ("context omit #4", "Context(Omit { seq: 4 })"),
            ("context restore 4", "Context(Restore { seq: 4 })"),
            ("context replace 4 a b", "Context(Replace { seq: 4, text: \"a b\" })"),
            ("context omit", "`` is not the number of a record. /tree shows the numbers."),
            (
                "context replace 4",
                "/context takes `omit SEQ`, `restore SEQ` or `replace SEQ TEXT`. \
                 /context alone lists what is left out or replaced.",
            ),
            ("model ollama/x", "Model(Some(\"ollama/x\"))"),
            ("thinking", "Thinking(None)"),
            ("thinking HIGH", "Thinking(Some(High))"),
            (
                "thinking 9",
                "There is no thinking level `9`. The levels are off, minimal, low, medium, high.",
            ),
            ("permission edits", "Permission(Some(Edits))"),
            (
                "permission x",
                "There is no permission mode `x`. The modes are read-only, ask, edits, all.",
            ),
            ("compact the tests", "Compact(Some(\"the tests\"))"),
            ("session", "Session"),
            (
                "session x",
                "/session takes nothing behind it. /session alone does it; /help lists the commands.",
            ),
            ("exit", "Quit"),
            ("reusme", "There is no command /reusme. Did you mean /resume? "),
            ("frobnicate", "There is no command /frobnicate. /help lists the commands. "),
        ];
        for (entered, expected) in rows {
            assert_eq!(show(entered).trim_end_matches(text).trim(), expected.trim(), "{entered}");
        }
    }

    #[test]
    fn every_listed_command_is_understood() {
        for (name, _, _) in COMMANDS.iter().filter(|(name, _, _)| *name != "edit") {
            assert!(parse(name, "").is_ok() || parse(name, "4").is_ok(), "{name}");
        }
    }
}
