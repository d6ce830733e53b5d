//! What the experiment proves.
//!
//! Responsible for: a pure judgement, from what was observed to a list of checks. Must not: be lenient;
//! whatever is not as it must be is a check that does not hold.

use super::effects::{Command, Edit, Stop};
use super::stage::Died;
use super::subagent::Subagent;
use crate::error::ExitCode;
use segno_model::record::AttemptStatus;
use segno_testkit::scripted_model::demo::{
    COMMAND_ENDED, EDIT_MADE, EDIT_NOT_MADE, UNKNOWN_ANSWER, answer, sign_answer,
};

/// SIGKILL: it cannot be caught, so nothing can be tidied up.
const SIGKILL: i32 = 9;

/// The roles of a turn in which a tool was used, and of one without.
const WITH_TOOL: [&str; 4] = ["user", "assistant", "tool", "assistant"];
const PLAIN: [&str; 2] = ["user", "assistant"];

/// What was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The code in the file.
    pub code: String,
    /// Process 1, killed after its answer.
    pub first: Died,
    /// The roles that it left.
    pub roles_before: Vec<String>,
    /// Process 2.
    pub resumed: Resumed,
    /// Process 3, killed within a reply.
    pub mid_stream: Died,
    /// Process 4.
    pub broken_off: Resumed,
    /// Process 5, without the tool's result.
    pub control: Resumed,
    /// Processes 6 and 7, and their command.
    pub command: Command,
    /// Processes 8 and 9, and their edit.
    pub edit: Edit,
    /// Processes 10 and 11, and the command that was stopped.
    pub stop: Stop,
    /// Processes 12 and 13, and the subagent that worked in both.
    pub subagent: Subagent,
    /// Everything that the server refused, in words.
    pub violations: Vec<String>,
}

/// What a process that resumed a session came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumed {
    /// Which process.
    pub pid: u32,
    /// What it printed.
    pub answer: String,
    /// The roles in the log after it.
    pub roles: Vec<String>,
    /// Whether the code was anywhere in its request.
    pub code_was_sent: bool,
    /// Whether the file with the code was still there.
    pub file_was_there: bool,
}

/// One thing that must be so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Whether it is.
    pub holds: bool,
    /// What.
    pub sentence: String,
}

/// Judges the evidence.
#[must_use]
pub fn judge(evidence: &Evidence) -> Vec<Check> {
    let Evidence { code, first, resumed, mid_stream, broken_off, control, .. } = evidence;
    let check = |holds, sentence: String| Check { holds, sentence };
    let killed = |died: &Died| died.signal == Some(SIGKILL);
    let six = [&WITH_TOOL[..], &PLAIN].concat();
    let ten = [&six[..], &PLAIN, &PLAIN].concat();
    let mut pids = [first.pid, resumed.pid, mid_stream.pid, broken_off.pid, control.pid];
    pids.sort_unstable();
    let distinct = pids.windows(2).all(|pair| pair[0] != pair[1]);
    let no_file = [resumed, broken_off, control].iter().all(|process| !process.file_was_there);
    let mut checks = vec![
        check(
            killed(first) && first.pid != resumed.pid,
            format!(
                "process 1 (pid {}) ended by SIGKILL; process 2 (pid {}) is another one",
                first.pid, resumed.pid
            ),
        ),
        check(
            evidence.roles_before == WITH_TOOL && resumed.roles == six,
            format!(
                "the session grew from {} messages to {}, in one log",
                evidence.roles_before.len(),
                resumed.roles.len()
            ),
        ),
        check(
            resumed.answer == answer(code) && resumed.code_was_sent && no_file,
            "process 2 knew the code, with the file gone".to_owned(),
        ),
        check(
            killed(mid_stream) && broken_off.roles == ten,
            "a kill in the middle of a reply lost neither the prompt nor what was streamed"
                .to_owned(),
        ),
        check(
            broken_off.answer == answer(code) && distinct,
            "process 4 knew the code after that kill".to_owned(),
        ),
        check(
            control.answer == UNKNOWN_ANSWER && !control.code_was_sent,
            "without the stored result the code was not known, so it came from the log".to_owned(),
        ),
    ];
    checks.extend(judge_effects(evidence));
    checks.extend(judge_subagent(&evidence.subagent));
    checks.push(check(evidence.violations.is_empty(), refusals(&evidence.violations)));
    checks
}

fn judge_effects(evidence: &Evidence) -> [Check; 4] {
    let Evidence { command, edit, stop, .. } = evidence;
    let check = |holds, sentence: &str| Check { holds, sentence: sentence.to_owned() };
    let killed = |died: &Died| died.signal == Some(SIGKILL);
    let once = "begun\nfinished\n";
    let stopped = stop.code == Some(i32::from(ExitCode::Stopped as u8));
    [
        check(
            killed(&command.died) && command.journal == once && command.journal_after == once,
            "a command whose agent was killed took effect once, and was not run again",
        ),
        check(command.answer == COMMAND_ENDED, "the model was told how that command really ended"),
        check(
            killed(&edit.died) && edit.answer == if edit.made { EDIT_MADE } else { EDIT_NOT_MADE },
            "what the model was told of the edit is what the file holds",
        ),
        check(
            stopped
                && stop.journal == "begun\n"
                && stop.journal_after == stop.journal
                && stop.answer.contains("stopped"),
            "what the user stopped stayed stopped, and the model was told so",
        ),
    ]
}

fn judge_subagent(subagent: &Subagent) -> [Check; 2] {
    let check = |holds, sentence: &str| Check { holds, sentence: sentence.to_owned() };
    let told = [AttemptStatus::Interrupted, AttemptStatus::Completed];
    [
        check(
            subagent.died.signal == Some(SIGKILL)
                && subagent.children == 1
                && subagent.prompts == 2
                && subagent.statuses == told,
            "a subagent whose process was killed was told as interrupted, and not started a second time",
        ),
        check(
            subagent.answer == sign_answer(&subagent.sign) && !subagent.file_was_there,
            "it was continued, and knew what it had read before the kill, with the file gone",
        ),
    ]
}

fn refusals(violations: &[String]) -> String {
    match violations {
        [] => "the model server found nothing wrong with any request".to_owned(),
        some => format!("the model server found fault with requests: {}", some.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(text: &str) -> Vec<String> {
        text.chars()
            .map(|c| match c {
                'u' => "user".to_owned(),
                'a' => "assistant".to_owned(),
                _ => "tool".to_owned(),
            })
            .collect()
    }

    fn resumed(pid: u32, answer: &str, text: &str, code_was_sent: bool) -> Resumed {
        let answer = answer.to_owned();
        Resumed { pid, answer, roles: roles(text), code_was_sent, file_was_there: false }
    }

    fn good() -> Evidence {
        Evidence {
            code: "C0DE".to_owned(),
            first: Died { pid: 1, signal: Some(9) },
            roles_before: roles("uata"),
            resumed: resumed(2, &answer("C0DE"), "uataua", true),
            mid_stream: Died { pid: 3, signal: Some(9) },
            broken_off: resumed(4, &answer("C0DE"), "uatauauaua", true),
            control: resumed(5, UNKNOWN_ANSWER, "uatua", false),
            command: Command {
                died: Died { pid: 6, signal: Some(9) },
                journal: "begun\nfinished\n".to_owned(),
                answer: COMMAND_ENDED.to_owned(),
                journal_after: "begun\nfinished\n".to_owned(),
            },
            edit: Edit {
                died: Died { pid: 8, signal: Some(9) },
                made: true,
                answer: EDIT_MADE.to_owned(),
            },
            stop: Stop {
                code: Some(3),
                journal: "begun\n".to_owned(),
                answer: "The tool says: stopped by the user.".to_owned(),
                journal_after: "begun\n".to_owned(),
            },
            subagent: Subagent {
                died: Died { pid: 12, signal: Some(9) },
                sign: "D0C".to_owned(),
                children: 1,
                prompts: 2,
                statuses: vec![AttemptStatus::Interrupted, AttemptStatus::Completed],
                answer: sign_answer("D0C"),
                file_was_there: false,
            },
            violations: Vec::new(),
        }
    }

    /// Every way in which the experiment can go wrong is seen.
    #[test]
    fn only_a_whole_success_is_one() {
        assert!(judge(&good()).iter().all(|check| check.holds));
        let wrongs: [fn(&mut Evidence); 34] = [
            |e| e.code = "OTHER".to_owned(),
            |e| e.first.signal = None,
            |e| e.first.pid = 2,
            |e| e.roles_before = roles("uat"),
            |e| e.resumed.answer = UNKNOWN_ANSWER.to_owned(),
            |e| e.resumed.roles = roles("uata"),
            |e| e.resumed.code_was_sent = false,
            |e| e.resumed.file_was_there = true,
            |e| e.mid_stream.signal = Some(15),
            |e| e.mid_stream.pid = 4,
            |e| e.broken_off.answer = String::new(),
            |e| e.broken_off.roles = roles("uataua"),
            |e| e.broken_off.file_was_there = true,
            |e| e.control.answer = answer("C0DE"),
            |e| e.control.code_was_sent = true,
            |e| e.control.file_was_there = true,
            |e| e.command.died.signal = None,
            |e| e.command.journal = "begun\nbegun\nfinished\n".to_owned(),
            |e| e.command.answer = UNKNOWN_ANSWER.to_owned(),
            |e| e.command.journal_after.push_str("begun\n"),
            |e| e.edit.died.signal = Some(15),
            |e| e.edit.made = false,
            |e| e.edit.answer = UNKNOWN_ANSWER.to_owned(),
            |e| e.stop.code = Some(0),
            |e| e.stop.journal.push_str("finished\n"),
            |e| e.stop.answer = COMMAND_ENDED.to_owned(),
            |e| e.stop.journal_after.push_str("finished\n"),
            |e| e.subagent.died.signal = None,
            |e| e.subagent.children = 2,
            |e| e.subagent.prompts = 1,
            |e| e.subagent.statuses.truncate(1),
            |e| e.subagent.answer = UNKNOWN_ANSWER.to_owned(),
            |e| e.subagent.file_was_there = true,
            |e| e.violations = vec!["roles".to_owned()],
        ];
        for (number, wrong) in wrongs.iter().enumerate() {
            let mut evidence = good();
            wrong(&mut evidence);
            assert!(judge(&evidence).iter().any(|check| !check.holds), "{number}");
        }
    }
}
