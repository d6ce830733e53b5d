//! Every session of the corpus, for every target.

use crate::scene;
use segno_store::convert::{LossKind, TARGETS};
use segno_store::foreign::{Agent, View};

/// Covers: G6, G14. What the model is sent stays the same.
#[test]
fn the_context_of_every_session_of_the_corpus_is_the_same_in_every_target() {
    let mut sessions = 0;
    for path in scene::files("foreign").into_iter().chain(scene::files("cases")) {
        let Some(session) = scene::session(&path) else { continue };
        sessions += 1;
        for target in TARGETS {
            let Some(converted) = scene::converted(&session, target, &scene::none()) else {
                continue;
            };
            let home = tempfile::tempdir().expect("a folder");
            let view = scene::read_again(&converted, target, home.path());
            let lost = scene::lost(&converted);
            let before = expected(
                scene::lines(&scene::context(&session), target),
                &lost.contains(&LossKind::Thinking),
            );
            let after = lines_of(&view, target, &lost.contains(&LossKind::Thinking));
            similar(&before, &after, &format!("{} as {target}: {lost:?}", path.display()));
        }
    }
    assert!(sessions > 60, "{sessions}");
}

fn lines_of(view: &View, target: Agent, thinking: &bool) -> Vec<String> {
    expected(scene::lines(&view.context(), target), thinking)
}

fn expected(mut lines: Vec<String>, without_thinking: &bool) -> Vec<String> {
    if *without_thinking {
        lines.retain(|line| !line.starts_with("thinking: "));
    }
    lines
}

fn similar(before: &[String], after: &[String], what: &str) {
    for (at, (b, a)) in before.iter().zip(after).enumerate() {
        assert_eq!(b, a, "{what}, line {at}");
    }
    assert_eq!(before.len(), after.len(), "{what}\n{before:#?}\n{after:#?}");
}
