//! Every session of the corpus, for every target.

use crate::scene;
use segno_store::convert::{Session, TARGETS};
use segno_store::foreign::{View, recognise};

/// Covers: G6, G14. What the model is sent stays the same.
#[test]
fn the_context_of_every_session_of_the_corpus_is_the_same_in_every_target() {
    let (mut sessions, mut compared, mut wrong) = (0, 0, Vec::new());
    for path in scene::files("foreign").into_iter().chain(scene::files("cases")) {
        let Some(session) = scene::session(&path) else { continue };
        sessions += 1;
        let lean = recognise(&path)
            .and_then(|located| Ok(Session::of_view(located.agent, View::to_convert(&located)?)));
        let lean = lean.expect("it is read");
        for target in TARGETS {
            let none = scene::none();
            let Some(converted) = scene::converted(&session, target, &none) else { continue };
            let same = scene::converted(&lean, target, &none).expect("something was said");
            assert!(same == converted, "{} as {target}: another copy", path.display());
            let home = tempfile::tempdir().expect("a folder");
            let view = scene::read_again(&converted, target, home.path());
            let lost = scene::lost(&converted);
            let before = scene::lines(
                &scene::context(&session, &converted),
                (&session.source, target),
                &lost,
            );
            let after = scene::lines(&view.context(), (target.id(), target), &lost);
            compared += before.len();
            let what = format!("{} as {target}: {lost:?}", path.display());
            wrong.extend(scene::differ(&before, &after, &lost, &what));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(sessions > 60 && compared > 1000, "{sessions} sessions, {compared} lines");
}
