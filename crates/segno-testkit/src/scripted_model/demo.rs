//! The scripts that ship with Segno: the demo's experiment, and an agent to play with.
//!
//! Responsible for: these scripts and the prompts that go with them. Must not: run anything.
//!
//! # The experiment
//!
//! One server lives through the whole of it; the two processes are the real agent. A working
//! directory holds [`CODE_FILE`] with [`code_file`] of a random code.
//!
//! 1. Process 1 is given [`FIRST_PROMPT`]. Request 1 is `user`; the model calls `read`. Request 2 is
//!    `user assistant results`; the model says [`READ_ANSWER`], which does not hold the code. Four
//!    roles are stored now: user, assistant, tool, assistant.
//! 2. Process 1 is killed with SIGKILL: either while it is idle, or, after [`WAIT_PROMPT`], in the
//!    middle of a reply that never ends. For the latter, wait until the last of
//!    [`requests`](super::ScriptedModel::requests) is [`Hanging`](super::Delivery::Hanging); then a
//!    fifth record, the unanswered prompt, is stored as well.
//! 3. The file is deleted.
//! 4. Process 2 resumes the session with [`SECOND_PROMPT`]. Its request holds the four stored roles
//!    and the new one. The model finds the code in the stored tool result and nowhere else: it says
//!    [`answer`]. Six roles are stored now.
//!
//! Without the stored result the model says [`UNKNOWN_ANSWER`]. A history that providers would
//! refuse, or one that does not extend what process 1 had sent, is answered with HTTP 400.

/// The script of the demo's experiment.
pub const DEMO_SCRIPT: &str = include_str!("demo.script");

/// A script for people: an agent that obeys simple commands. Say anything to be told which.
pub const PLAY_SCRIPT: &str = include_str!("play.script");

/// The file that holds the code.
pub const CODE_FILE: &str = "code.txt";

/// Process 1 is asked this first.
pub const FIRST_PROMPT: &str = "Read code.txt and keep the code in mind. Do not say it.";

/// What process 1's model says when it has read the file.
pub const READ_ANSWER: &str = "I have read the file and keep the code in mind.";

/// Process 1 can be asked this, to be killed in the middle of a reply.
pub const WAIT_PROMPT: &str = "Wait until I am back.";

/// What the model streams then, before it falls silent.
pub const WAITING: &str = "I am waiting.";

/// Process 2 is asked this.
pub const SECOND_PROMPT: &str = "Which code was in the file?";

/// A process can be asked this, to be ended in the middle of a shell command: it writes a line into
/// `journal.txt`, waits for a file `go`, and writes another one.
pub const COMMAND_PROMPT: &str = "Run the command.";

/// A process can be asked this, to be ended in the middle of an edit of `notes.txt`.
pub const EDIT_PROMPT: &str = "Change notes.txt.";

/// The file that a subagent is to read.
pub const SIGN_FILE: &str = "sign.txt";

/// A process can be asked this, to be ended while its subagent works.
pub const TASK_PROMPT: &str = "Give a subagent the task to read sign.txt.";

/// The next process is asked this.
pub const GO_ON_PROMPT: &str = "Go on with it.";

/// What the model says when the subagent that was continued still knew the sign.
#[must_use]
pub fn sign_answer(sign: &str) -> String {
    format!("The subagent says: the sign is {sign}.")
}

/// The content of [`SIGN_FILE`].
#[must_use]
pub fn sign_file(sign: &str) -> String {
    format!("SIGN={sign}\n")
}

/// The next process is asked this.
pub const ASK_PROMPT: &str = "What became of it?";

/// What the model says of the command when it was told that it ended well.
pub const COMMAND_ENDED: &str = "The tool says: exit code 0.";

/// What the model says of the edit when it was told that it was made.
pub const EDIT_MADE: &str = "The edit was made.";

/// What the model says of the edit when it was told that it was not made.
pub const EDIT_NOT_MADE: &str = "The edit was not made.";

/// What the model says when the stored result is missing.
pub const UNKNOWN_ANSWER: &str = "I do not know the code: it is nowhere in what I was sent.";

/// The content of [`CODE_FILE`].
#[must_use]
pub fn code_file(code: &str) -> String {
    format!("CODE={code}\n")
}

/// What process 2's model says when the history is whole.
#[must_use]
pub fn answer(code: &str) -> String {
    format!("The code is {code}.")
}
