//! Which notices of an agent stay with it.
//!
//! Responsible for: one table from whose notice it is and why it was given to that decision. Must not: look at
//! words.

use crate::foreign::Agent;

/// What agents tell the model of their own surroundings, rules and instructions. Another agent tells of its own, and
/// takes these for false. What the model has to know of the session, as that a turn was interrupted or what a person
/// ran in the shell, is none of them.
const OWN: &[(Agent, &[&str])] = &[
    (
        Agent::Codex,
        &[
            "environment",
            "instructions",
            "permissions",
            "mode",
            "model",
            "skills",
            "developer",
            "system",
        ],
    ),
    (Agent::Gemini, &["context"]),
];

/// Whether a notice for the reason `notice` is left out where `source`'s session becomes `target`'s.
pub(super) fn stays(source: &str, target: Agent, notice: Option<&str>) -> bool {
    let of = |(agent, names): &&(Agent, &[&str])| {
        agent.id() == source && notice.is_some_and(|notice| names.contains(&notice))
    };
    source != target.id() && OWN.iter().any(|row| of(&row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surroundings_stay_and_what_the_model_has_to_know_goes_along() {
        let told = |source: &str, target, notice| stays(source, target, Some(notice));
        for notice in ["environment", "instructions", "permissions", "developer"] {
            assert!(told("codex", Agent::Claude, notice), "{notice}");
            assert!(!told("codex", Agent::Codex, notice), "{notice}");
            assert!(!told("segno", Agent::Claude, notice), "{notice}");
        }
        for notice in ["interrupted", "shell", "subagent", "goal", "skill", "review"] {
            assert!(!told("codex", Agent::Claude, notice), "{notice}");
        }
        assert!(told("gemini", Agent::Pi, "context"));
        assert!(!stays("codex", Agent::Claude, None));
    }
}
