//! What surrounds a session, and what changed about it since it was last open.
//!
//! Responsible for: one pure decision (section 7 of the design): which system prompt the next requests
//! carry, which `environment` record is due, and what the model is told about changed instructions. The
//! prompt's bytes stay the same while the conversation they began goes on, so that provider caches stay
//! warm; what changed is said in a message. Must not: read files or run git; facts are handed in.

use crate::instructions::Instruction;
use segno_model::record::{BlobRef, Environment, GitFacts, ToolFact};
use segno_model::sha256_hex;
use segno_runtime::ToolSpec;

/// Today's surroundings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The system prompt as it would be assembled today.
    pub system: String,
    /// The instruction files in it.
    pub instructions: Vec<Instruction>,
    /// The working directory.
    pub cwd: String,
    /// Git's state.
    pub git: Option<GitFacts>,
    /// Segno's version.
    pub version: String,
}

/// What is to be done before the next input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Due {
    /// Nothing changed.
    Nothing,
    /// The conversation begins (or begins anew after a compaction): today's prompt holds.
    Fresh(Environment),
    /// It goes on with the prompt that it has; this is recorded, and said if there is something to say.
    Kept { environment: Environment, notice: Option<String> },
}

/// Decides. `in_force` is the newest `environment` record; `begins` is whether no request has been
/// made yet with the context as it is now.
pub(crate) fn decide(
    today: &Surroundings,
    tools: &[ToolSpec],
    in_force: Option<&Environment>,
    begins: bool,
) -> Due {
    let fresh = record(today, tools);
    let Some((before, prompt)) = in_force.and_then(|e| Some((e, e.system.as_ref()?))) else {
        return Due::Fresh(fresh);
    };
    match (begins, same_but_blob(before, &fresh), is_blob_of(prompt, &today.system)) {
        (true, true, true) | (false, true, _) => Due::Nothing,
        (true, _, _) => Due::Fresh(fresh),
        (false, false, _) => {
            let environment = Environment { system: Some(prompt.clone()), ..fresh };
            let notice = notice(today, before, &environment);
            Due::Kept { environment, notice }
        }
    }
}

/// Whether a blob holds this text.
fn is_blob_of(blob: &BlobRef, text: &str) -> bool {
    blob.blob == sha256_hex(text.as_bytes())
}

fn same_but_blob(a: &Environment, b: &Environment) -> bool {
    Environment { system: None, project: None, ..a.clone() }
        == Environment { system: None, project: None, ..b.clone() }
}

fn record(today: &Surroundings, tools: &[ToolSpec]) -> Environment {
    let instructions = today.instructions.iter().map(|instruction| instruction.file.clone());
    let tools = tools.iter().map(|tool| {
        let told = format!("{}\n{}", tool.description, tool.parameters);
        ToolFact {
            name: tool.name.clone(),
            sha256: sha256_hex(told.as_bytes()),
            bytes: (tool.name.len() + told.len()) as u64,
        }
    });
    Environment {
        cwd: today.cwd.clone(),
        git: today.git.clone(),
        version: today.version.clone(),
        instructions: instructions.collect(),
        tools: tools.collect(),
        system: None,
        project: None,
    }
}

/// What the model has to know: another directory, and instruction files that are new, changed or gone.
fn notice(today: &Surroundings, before: &Environment, now: &Environment) -> Option<String> {
    let mut parts = Vec::new();
    if before.cwd != now.cwd {
        parts.push(format!("The working directory is now {}.", now.cwd));
    }
    for instruction in &today.instructions {
        if !before.instructions.contains(&instruction.file) {
            let (path, text) = (&instruction.file.path, &instruction.text);
            parts.push(format!("These instructions hold from now on:\n<instructions path=\"{path}\">\n{text}\n</instructions>"));
        }
    }
    for gone in &before.instructions {
        if now.instructions.iter().all(|file| file.path != gone.path) {
            parts.push(format!("The instructions of {} no longer hold.", gone.path));
        }
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_model::record::InstructionFile;

    fn today(system: &str, files: &[(&str, &str)], cwd: &str) -> Surroundings {
        let file = |(path, text): &(&str, &str)| Instruction {
            file: InstructionFile { path: (*path).to_owned(), sha256: sha256_hex(text.as_bytes()) },
            text: (*text).to_owned(),
            note: None,
        };
        Surroundings {
            system: system.to_owned(),
            instructions: files.iter().map(file).collect(),
            cwd: cwd.to_owned(),
            git: None,
            version: "1".to_owned(),
        }
    }

    fn stored(today: &Surroundings) -> Environment {
        let system = BlobRef {
            blob: sha256_hex(today.system.as_bytes()),
            bytes: today.system.len() as u64,
            head: String::new(),
        };
        Environment { system: Some(system), ..record(today, &[]) }
    }

    fn name(due: &Due) -> String {
        match due {
            Due::Nothing => "nothing".to_owned(),
            Due::Fresh(_) => "fresh".to_owned(),
            Due::Kept { notice: None, .. } => "kept".to_owned(),
            Due::Kept { notice: Some(text), .. } => {
                format!("kept, says: {}", text.replace('\n', " "))
            }
        }
    }

    /// Covers: G10.
    #[test]
    fn the_table() {
        let a = today("A", &[("/p/AGENTS.md", "be kind")], "/p");
        let edited = today("B", &[("/p/AGENTS.md", "be quick")], "/p");
        let moved = today("C", &[("/q/AGENTS.md", "be kind")], "/q");
        let prompt_only = today("D", &[("/p/AGENTS.md", "be kind")], "/p");
        let newer = Surroundings { version: "2".to_owned(), ..a.clone() };
        let cases = [
            ("first input", &a, None, true, "fresh"),
            ("nothing changed", &a, Some(&a), false, "nothing"),
            ("after a compaction, nothing changed", &a, Some(&a), true, "nothing"),
            ("after a compaction, edited", &edited, Some(&a), true, "fresh"),
            ("after a compaction, other base prompt", &prompt_only, Some(&a), true, "fresh"),
            ("another base prompt keeps the old bytes", &prompt_only, Some(&a), false, "nothing"),
            ("another version is recorded, not said", &newer, Some(&a), false, "kept"),
        ];
        for (label, today, before, begins, expected) in cases {
            let before = before.map(stored);
            assert_eq!(name(&decide(today, &[], before.as_ref(), begins)), expected, "{label}");
        }
        let before = stored(&a);
        let said = name(&decide(&edited, &[], Some(&before), false));
        assert!(said.contains("be quick") && !said.contains("no longer"), "{said}");
        let said = name(&decide(&moved, &[], Some(&before), false));
        assert!(said.contains("now /q") && said.contains("/p/AGENTS.md no longer"), "{said}");
    }

    #[test]
    fn what_is_kept_keeps_the_prompt_that_is_sent() {
        let before = stored(&today("A", &[], "/p"));
        let Due::Kept { environment, .. } =
            decide(&today("B", &[], "/q"), &[], Some(&before), false)
        else {
            panic!("not kept");
        };
        assert_eq!(environment.system, before.system);
    }
}
