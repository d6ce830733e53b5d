//! What a person can do where a subagent is not gone on with.
//!
//! Responsible for: one table from the code of a refusal to what helps. Must not: decide what is refused, or offer what
//! changes nothing there.

use segno_model::SessionId;
use segno_model::record::Worktree;

/// A subagent that is not gone on with.
pub(super) struct Refused<'a> {
    pub(super) child: &'a SessionId,
    pub(super) parent: &'a SessionId,
    pub(super) worktree: Option<&'a Worktree>,
}

/// Goes on all the same; no help as long as anything else stands in the way.
const ALLOW: &str = "`segno resume {child} --allow-drift` goes on all the same.";

const ANOTHER: &str = "Its parent can be asked to start another one: `segno resume {parent}`.";

const PLACE: [&str; 2] = ["cwd-missing", "cwd-not-directory"];

/// By code, what helps. `{repo}`, `{path}` and `{branch}` are those of its worktree.
const TABLE: &[(&str, &str)] = &[
    ("agent-missing", ALLOW),
    ("agent-drift", ALLOW),
    ("model-drift", ALLOW),
    ("tools-source-drift", ALLOW),
    ("cwd-drift", ALLOW),
    ("empty-transcript", ANOTHER),
    ("model-missing", "`segno models` shows what can be asked, and what is missing for the rest."),
    ("cwd-missing", "`segno relocate {child} DIR` gives it another directory."),
    ("cwd-not-directory", "`segno relocate {child} DIR` gives it another directory."),
    (
        "worktree-cwd-outside",
        "Put a directory of its worktree {path} back in the place of the link that leads out of it.",
    ),
    ("worktree-repo-missing", "Put its repository back to {repo}."),
    (
        "worktree-missing",
        "As long as its branch is there, `git --git-dir {repo} worktree prune` and then \
         `git --git-dir {repo} worktree add {path} {branch}` bring its worktree back.",
    ),
    (
        "worktree-replaced",
        "Move {path} elsewhere; `git --git-dir {repo} worktree prune` and then \
         `git --git-dir {repo} worktree add {path} {branch}` bring its worktree back.",
    ),
    ("worktree-branch-swapped", "`git -C {path} switch {branch}` goes back to its branch."),
    (
        "worktree-unregistered",
        "`git --git-dir {repo} worktree repair {path}` tells its repository of it; `git worktree list` shows whether \
         it did.",
    ),
    (
        "worktree-history-replaced",
        "Nothing goes on there but a branch {branch} that comes from where it began, {baseline}.",
    ),
    ("unpairable-call-lost", ANOTHER),
    ("unpairable-two-calls", ANOTHER),
    ("unpairable-two-results", ANOTHER),
];

/// What helps one whose worktree is whole and lacks the directory.
const IN_WORKTREE: &str = "Make the directory anew in its worktree, {path}.";

const OTHERWISE: &str =
    "`segno show {child}` reads it; `segno check {child}` looks whether it is whole.";

/// What to do about these codes.
pub(super) fn next(codes: &str, refused: &Refused<'_>) -> String {
    let codes: Vec<&str> = codes.split(',').collect();
    let lacks_tree = codes.iter().any(|code| code.starts_with("worktree-"));
    let mut helps: Vec<&str> = Vec::new();
    for code in codes {
        let help = match (PLACE.contains(&code), refused.worktree) {
            (true, Some(_)) if lacks_tree => continue,
            (true, Some(_)) => IN_WORKTREE,
            _ => {
                TABLE.iter().find(|(known, _)| *known == code).map_or(OTHERWISE, |(_, help)| *help)
            }
        };
        if !helps.contains(&help) {
            helps.push(help);
        }
    }
    if helps.len() > 1 {
        helps.retain(|help| *help != ALLOW);
    }
    let words = helps.join(" ");
    let words = words.replace("{child}", refused.child.as_str());
    let words = words.replace("{parent}", refused.parent.as_str());
    match refused.worktree {
        None => words,
        Some(Worktree { repo_root, path, branch, baseline }) => words
            .replace("{repo}", repo_root)
            .replace("{path}", path)
            .replace("{branch}", branch)
            .replace("{baseline}", baseline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_model::child::drift::{TABLE as DRIFT, Verdict};

    fn told(codes: &str, in_worktree: bool) -> String {
        let id =
            |n: u8| SessionId::parse(&format!("0195f3a0-0000-7000-8000-00000000000{n}")).unwrap();
        let worktree: Worktree = serde_json::from_value(serde_json::json!({
            "path": "/w/c", "repo_root": "/r/.git", "branch": "segno/c", "baseline": "abc",
        }))
        .unwrap();
        let worktree = Some(&worktree).filter(|_| in_worktree);
        next(codes, &Refused { child: &id(2), parent: &id(1), worktree })
    }

    /// What is refused has one help, and only what `--allow-drift` lifts is said to be lifted by it.
    #[test]
    fn every_refusal_has_the_help_that_helps() {
        let refusals = DRIFT.iter().filter_map(|row| row.reason);
        for (code, verdict) in refusals.filter(|(_, verdict)| *verdict != Verdict::Notice) {
            assert_eq!(TABLE.iter().filter(|(known, _)| *known == code).count(), 1, "{code}");
            for in_worktree in [code.starts_with("worktree-"), true] {
                let told = told(code, in_worktree);
                let allows = verdict == Verdict::RefuseUnlessAllowed;
                assert_eq!(told.contains("--allow-drift"), allows, "{code}: {told}");
                assert_eq!(told.contains("segno relocate"), PLACE.contains(&code) && !in_worktree);
                assert!(!told.contains('{') && !told.contains("Start a new"), "{code}: {told}");
            }
        }
    }

    #[test]
    fn helps_that_would_not_help_yet_are_left_out() {
        let missing = told("cwd-missing,worktree-missing", true);
        assert!(missing.contains("worktree add /w/c segno/c"), "{missing}");
        assert!(!missing.contains("directory"), "{missing}");
        assert_eq!(told("cwd-missing", true), "Make the directory anew in its worktree, /w/c.");
        assert!(!told("agent-drift,worktree-branch-swapped", true).contains("--allow-drift"));
        let twice = told("agent-drift,model-drift", false);
        assert_eq!(twice.matches("--allow-drift").count(), 1, "{twice}");
        assert!(told("missing-launch", false).contains("segno check"));
    }
}
