//! `docs/agents.md` against what the readers say.

use segno_store::foreign::{Agent, View, recognise};
use std::collections::BTreeSet;
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/agents.md");

fn codes_below(dir: &Path, codes: &mut BTreeSet<&'static str>) {
    for entry in std::fs::read_dir(dir).expect("a folder").map(|e| e.expect("an entry").path()) {
        if let Ok(session) = recognise(&entry)
            && let Ok(view) = View::transcript(&session)
        {
            codes.extend(view.findings.iter().map(|finding| finding.code));
        }
        if entry.is_dir() {
            codes_below(&entry, codes);
        }
    }
}

/// Every code that the corpus brings up can be looked up.
#[test]
fn findings_and_agents_are_on_the_page() {
    let mut codes = BTreeSet::new();
    codes_below(&super::scene::corpus(""), &mut codes);
    assert!(codes.len() > 10, "{codes:?}");
    let missing: Vec<_> = codes.iter().filter(|c| !PAGE.contains(&format!("`{c}`"))).collect();
    assert!(missing.is_empty(), "not on docs/agents.md: {missing:?}");
    for agent in Agent::ALL {
        assert!(PAGE.contains(&format!("| `{}` |", agent.id())), "{agent}");
    }
}
