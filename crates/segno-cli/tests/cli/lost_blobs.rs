//! Blobs that are missing or damaged on a real disk: told in the request and by `check`, and in nobody's way.

use crate::place::Place;
use segno_model::Body;
use segno_model::record::{Block, Message, Text};
use std::path::PathBuf;

const SCRIPT: &str = r#"
rule work
  when last user
  when user contains "work"
  when turns 1
  call bash {"command": "yes 0123456789 | head -n 20000"}
otherwise
  say "Yes."
"#;

/// The blobs of a session: of the prompt's text, of its image, of the system prompt, of a whole output.
fn blobs(place: &Place) -> [PathBuf; 4] {
    let mut found: [Option<String>; 4] = Default::default();
    for record in place.records() {
        match record.body() {
            Body::Environment(environment) => {
                found[2] =
                    environment.system.as_ref().map(|blob| blob.blob.clone()).or(found[2].take());
            }
            Body::Message(message) => match &**message {
                Message::User(user) => {
                    for block in &user.content {
                        match block {
                            Block::Text { text: Text::Blob(blob) } => {
                                found[0] = Some(blob.blob.clone());
                            }
                            Block::Image { data: Text::Blob(blob), .. } => {
                                found[1] = Some(blob.blob.clone());
                            }
                            _ => {}
                        }
                    }
                }
                Message::Tool(result) => {
                    found[3] =
                        result.whole.as_ref().map(|blob| blob.blob.clone()).or(found[3].take());
                }
                Message::Assistant(_) => {}
            },
            _ => {}
        }
    }
    let log = place.store().log_path(&place.sessions()[0]).unwrap();
    let dir = log.with_file_name("blobs");
    found.map(|hash| dir.join(hash.expect("stored as a blob")))
}

fn damage(kind: &str, path: &PathBuf) {
    let mut bytes = std::fs::read(path).unwrap();
    match kind {
        "deleted" => return std::fs::remove_file(path).unwrap(),
        "cut" => bytes.truncate(bytes.len() / 2),
        "flipped" => *bytes.last_mut().unwrap() ^= 1,
        _ => bytes.push(b'x'),
    }
    std::fs::write(path, bytes).unwrap();
}

/// Covers: G3, G6, G10. Each kind of damage under each kind of value: the session goes on, the model is told what is
/// missing, `check` finds it, and a system prompt that is lost is replaced by today's.
#[test]
fn a_lost_blob_is_told_and_in_nobodys_way() {
    for kind in ["deleted", "cut", "flipped", "grown"] {
        let place = Place::new(SCRIPT);
        // An image that is large because of what lies behind its end.
        let mut png = super::run_events::pixel();
        png.resize(100_000, b' ');
        std::fs::write(place.file("a.png"), png).unwrap();
        let long = format!("work @a.png {}", "many words ".repeat(8_000));
        let ran = place.done(&["--permission", "all", &long]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        let all = blobs(&place);
        let names =
            all.each_ref().map(|path| path.file_name().unwrap().to_string_lossy()[..16].to_owned());
        all.iter().for_each(|path| damage(kind, path));
        let id = place.sessions()[0].to_string();
        let checked = place.segno(&["check", &id]).output().unwrap();
        assert_ne!(checked.status.code(), Some(0), "{kind}");
        let told = String::from_utf8_lossy(&checked.stdout).into_owned();
        for name in &names {
            assert!(told.contains(name), "{kind}: {name} in {told}");
        }
        let ran = place.done(&["--continue", "go on"]);
        assert_eq!(ran.code, Some(0), "{kind}: {}{}", ran.out, ran.err);
        let request = place.server.requests().pop().unwrap();
        let sent = request.body.to_string();
        for name in &names[..2] {
            assert!(sent.contains(&format!("missing or damaged: blob {name}")), "{kind}: {sent}");
        }
        // Today's prompt is the one that was lost, byte for byte: it is whole again.
        assert!(request.seen.unwrap().system.contains("Segno"), "{kind}");
        assert_eq!(std::fs::read(&all[2]).unwrap().len() as u64, size_in_record(&place), "{kind}");
        assert_eq!(place.server.violations(), [], "{kind}");
    }
}

fn size_in_record(place: &Place) -> u64 {
    let records = place.records();
    let sizes = records.iter().filter_map(|record| match record.body() {
        Body::Environment(environment) => environment.system.as_ref().map(|blob| blob.bytes),
        _ => None,
    });
    sizes.last().unwrap()
}

/// A system prompt that is lost when the instructions have changed, too: today's takes its place, which is recorded
/// and said once. Covers: G10.
#[test]
fn a_lost_system_prompt_is_replaced_and_said() {
    let place = Place::new(SCRIPT);
    assert_eq!(place.done(&["hello"]).code, Some(0));
    let prompt = |place: &Place| {
        let records = place.records();
        let prompts = records.iter().filter_map(|record| match record.body() {
            Body::Environment(environment) => environment.system.clone(),
            _ => None,
        });
        prompts.last().unwrap().blob
    };
    let lost = prompt(&place);
    let log = place.store().log_path(&place.sessions()[0]).unwrap();
    std::fs::remove_file(log.with_file_name("blobs").join(&lost)).unwrap();
    std::fs::write(place.file("AGENTS.md"), "Answer in rhymes.").unwrap();
    for prompt in ["go on", "and on"] {
        let ran = place.done(&["--continue", prompt]);
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        let seen = place.server.requests().pop().unwrap().seen.unwrap();
        assert!(seen.system.contains("Answer in rhymes."), "{}", seen.system);
        let said: Vec<_> =
            seen.turns.iter().map(segno_testkit::scripted_model::Turn::text).collect();
        let said = said.join("\n").matches(&format!("(blob {})", &lost[..16])).count();
        assert_eq!(said, 1, "{prompt}");
    }
    assert_ne!(prompt(&place), lost);
}
