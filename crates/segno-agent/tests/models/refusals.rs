//! A refused request leads to one diagnosis and one more try; a session is never stuck for good.

use crate::{Desk, MODELS, edits, image, model_ref, say};
use segno_model::record::{Block, ContextEdit, RunEnd};
use segno_runtime::ModelErrorKind;
use segno_testkit::scripted_model::{Answer, Piece, Reply, Said, Seen, Turn, Wire};

fn refuse(message: String) -> Answer {
    Answer::Status { code: 400, retry_after_s: None, message: Some(message) }
}

fn has_image(turn: &Turn) -> bool {
    match turn {
        Turn::User(pieces) => pieces.iter().any(|piece| matches!(piece, Piece::Image { .. })),
        Turn::Results(results) => results.iter().any(|result| result.images > 0),
        Turn::Assistant(_) => false,
    }
}

/// How each provider names the second piece of message `index`.
fn place(wire: Wire, index: usize) -> String {
    match wire {
        Wire::Anthropic => format!("messages.{index}.content.1.image.source.base64.data: bad"),
        Wire::Responses => format!("Invalid 'input[{index}].content[1].image_url': bad"),
        Wire::Chat => format!("Invalid 'messages[{}].content[1].image_url': bad", index + 1),
        Wire::Gemini => {
            format!("* GenerateContentRequest.contents[{index}].parts[1].inline_data: bad")
        }
    }
}

/// An image that poisons the session: refused once, left out, and the run goes on. It stays left out in the next
/// process; a person can have it back. The record keeps it all the time.
///
/// Covers: G6, G10, #46.
#[tokio::test]
async fn an_image_that_is_refused_is_left_out_and_can_come_back() {
    for (provider, model) in MODELS {
        let desk = Desk::new(|seen: &Seen| match seen.turns.iter().position(has_image) {
            Some(index) => refuse(place(seen.wire, index)),
            None => Reply::text("fine").into(),
        });
        let asked = desk.provider(provider, "127.0.0.1");
        let name = model_ref((provider, model));
        let mut agent = desk.begin();
        let (first, _) = say(&mut agent, &asked, &name, vec![Block::text("hello")]).await;
        assert_eq!(first.end, RunEnd::Completed, "{provider}: {first:?}");
        let look = vec![Block::text("look"), image()];
        let (second, left) = say(&mut agent, &asked, &name, look).await;
        assert_eq!(second.end, RunEnd::Completed, "{provider}: {second:?}");
        let [edit] = &edits(&agent)[..] else { panic!("{provider}: {:?}", edits(&agent)) };
        let target: u64 = edit.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(edit, &format!("{target} omit [Images] Some(\"refused\")"), "{provider}");
        assert_eq!(left, [format!("Images [{target}]")], "{provider}");
        assert_eq!(desk.server.requests().len(), 3, "{provider}: one more try");
        drop(agent);
        let mut agent = desk.resume().await;
        let (third, left) = say(&mut agent, &asked, &name, vec![Block::text("and now?")]).await;
        assert_eq!((third.end, left.len()), (RunEnd::Completed, 0), "{provider}");
        let sent = desk.server.requests().pop().unwrap().body.to_string();
        assert!(sent.contains("look") && sent.contains("(an image was left out)"), "{sent}");
        let kept = agent.session.records();
        let kept = kept.iter().find(|record| record.seq() == target).unwrap();
        assert!(String::from_utf8_lossy(&kept.line).contains(crate::PIXEL), "{provider}");
        let restore = ContextEdit { target, edit: "restore".to_owned(), ..ContextEdit::default() };
        agent.session.edit_context(restore).await.unwrap();
        let context = format!("{:?}", agent.session.context(&name).messages);
        assert!(context.contains("Image"), "{context}");
        assert_eq!(desk.server.violations(), [], "{provider}");
    }
}

/// Where no place is named, the only image since the last answer is it: everything before was taken.
#[tokio::test]
async fn an_image_is_found_without_a_place() {
    for (provider, model) in MODELS {
        let desk = Desk::new(|seen: &Seen| {
            match seen.turns.iter().filter(|turn| has_image(turn)).count() {
                0 | 1 => Answer::from(Reply::text("fine")),
                _ => refuse("Could not process image".to_owned()),
            }
        });
        let asked = desk.provider(provider, "127.0.0.1");
        let name = model_ref((provider, model));
        let mut agent = desk.begin();
        for text in ["one", "two"] {
            let look = vec![Block::text(text), image()];
            let (ended, left) = say(&mut agent, &asked, &name, look).await;
            assert_eq!(ended.end, RunEnd::Completed, "{provider} {text}");
            assert_eq!(left.len(), usize::from(text == "two"), "{provider} {text}");
        }
        let sent = desk.server.requests().pop().unwrap().seen.unwrap();
        assert!(sent.turns.first().is_some_and(has_image), "{provider}: the first one stays");
    }
}

/// A result that is refused gives way to a line, and its call keeps its result.
#[tokio::test]
async fn a_result_that_is_refused_gives_way_to_a_line() {
    for (provider, model) in MODELS {
        let desk = Desk::new(|seen: &Seen| match seen.turns.last() {
            Some(Turn::User(_)) => Answer::from(Reply::call("read", r#"{"path": "a.txt"}"#)),
            Some(Turn::Results(results)) if results[0].text.contains("one") => {
                refuse(match seen.wire {
                    Wire::Anthropic => "messages.2.content.0: unsupported content".to_owned(),
                    Wire::Responses => "Invalid 'input[2].output'".to_owned(),
                    Wire::Chat => "Invalid 'messages[3].content'".to_owned(),
                    Wire::Gemini => "contents[2].parts[0]: invalid".to_owned(),
                })
            }
            _ => Reply::text("read it").into(),
        });
        let asked = desk.provider(provider, "127.0.0.1");
        let name = model_ref((provider, model));
        let mut agent = desk.begin();
        let (ended, left) = say(&mut agent, &asked, &name, vec![Block::text("go")]).await;
        assert_eq!((ended.end, ended.text.as_str()), (RunEnd::Completed, "read it"), "{provider}");
        assert!(left[0].starts_with("Other ["), "{left:?}");
        let sent = desk.server.requests().pop().unwrap().seen.unwrap();
        assert_eq!(sent.last_result_text().unwrap(), "(left out)", "{provider}");
        assert_eq!(desk.server.violations(), [], "{provider}");
    }
}

/// A person's words are never left out: the run fails, names the record, and the next run can go on once
/// the record is left out by hand.
#[tokio::test]
async fn a_persons_words_are_never_left_out() {
    for (provider, model) in MODELS {
        let desk = Desk::new(|seen: &Seen| {
            let is_bad = |turn: &Turn| turn.text().contains("poison");
            match seen.turns.iter().position(is_bad) {
                Some(index) => refuse(place(seen.wire, index).replace(".image_url", "")),
                None => Reply::text("fine").into(),
            }
        });
        let asked = desk.provider(provider, "127.0.0.1");
        let name = model_ref((provider, model));
        let mut agent = desk.begin();
        let words = vec![Block::text("some"), Block::text("poison")];
        let (ended, left) = say(&mut agent, &asked, &name, words).await;
        assert_eq!((ended.end, left.len()), (RunEnd::Failed, 0), "{provider}");
        let error = ended.error.unwrap();
        assert_eq!(error.kind, ModelErrorKind::Refused);
        let seq = error.refusal.and_then(|refusal| refusal.seq).unwrap();
        assert!(error.message.ends_with(&format!("that is record {seq}")), "{}", error.message);
        assert_eq!(desk.server.requests().len(), 1, "{provider}");
        let omit = ContextEdit { target: seq, edit: "omit".to_owned(), ..ContextEdit::default() };
        agent.session.edit_context(omit).await.unwrap();
        let (ended, _) = say(&mut agent, &asked, &name, vec![Block::text("again")]).await;
        assert_eq!(ended.end, RunEnd::Completed, "{provider}");
    }
}

/// A model without eyes: its images become lines at once and for the life of the process, and no edit is made, so
/// that another model sees them.
#[tokio::test]
async fn a_model_that_takes_no_images_is_asked_without() {
    for (provider, model) in MODELS {
        let desk = Desk::new(|seen: &Seen| match seen.turns.iter().any(has_image) {
            true if seen.model != "seeing" => {
                refuse(format!("{} does not support images", seen.model))
            }
            _ => Reply::text("fine").into(),
        });
        let asked = desk.provider(provider, "127.0.0.1");
        let mut agent = desk.begin();
        let name = model_ref((provider, model));
        let look = vec![Block::text("look"), image()];
        let (ended, left) = say(&mut agent, &asked, &name, look).await;
        assert_eq!(
            (ended.end, left),
            (RunEnd::Completed, vec!["AnyImage []".to_owned()]),
            "{provider}"
        );
        let sent = desk.server.requests().pop().unwrap().body.to_string();
        assert!(sent.contains("takes no images"), "{sent}");
        let (_, left) = say(&mut agent, &asked, &name, vec![Block::text("more")]).await;
        assert_eq!(left, [""; 0], "{provider}: said once");
        assert_eq!(edits(&agent), [""; 0], "{provider}");
        let seeing = model_ref((provider, "seeing"));
        say(&mut agent, &asked, &seeing, vec![Block::text("and you?")]).await;
        let sent = desk.server.requests().pop().unwrap().seen.unwrap();
        assert!(sent.turns.iter().any(has_image), "{provider}");
    }
}

/// How each provider refuses reasoning; a chat server speaks for whoever is behind it.
fn signature_words(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic | Wire::Chat => "Invalid `signature` in `thinking` block",
        Wire::Responses => "The encrypted content for item rs_1 could not be verified.",
        Wire::Gemini => "Thought signature is not valid",
    }
}

/// Whether a turn brings back what proves reasoning, or the reasoning itself.
fn reasons(turn: &Turn) -> bool {
    let Turn::Assistant(said) = turn else { return false };
    said.iter().any(|part| match part {
        Said::Thinking { .. } => true,
        Said::Text { signature, .. } | Said::Call { signature, .. } => {
            signature.as_deref().is_some_and(|proof| proof != "skip_thought_signature_validator")
        }
    })
}

/// Reasoning that a provider does not recognise any more: left out of every reply at once, and of later requests
/// too, after one refused request. The calls, their results and the words stay.
///
/// Covers: #46.
#[tokio::test]
async fn refused_reasoning_stays_left_out() {
    for (provider, model) in MODELS {
        let desk = Desk::new(|seen: &Seen| {
            match (seen.turns.iter().any(reasons), seen.prompt().as_str(), seen.turns.last()) {
                (true, "three", _) => refuse(signature_words(seen.wire).to_owned()),
                (_, "one", Some(Turn::User(_))) => {
                    let reply = Reply::default().think("look").say("Looking.");
                    reply.and_call("read", r#"{"path": "a.txt"}"#).into()
                }
                _ => Reply::default().think("hm").say("fine").into(),
            }
        });
        let asked = desk.provider(provider, "127.0.0.1");
        let name = model_ref((provider, model));
        let mut agent = desk.begin();
        for text in ["one", "two"] {
            say(&mut agent, &asked, &name, vec![Block::text(text)]).await;
        }
        let before = desk.server.requests().len();
        let (ended, left) = say(&mut agent, &asked, &name, vec![Block::text("three")]).await;
        assert_eq!(ended.end, RunEnd::Completed, "{provider}: {ended:?}");
        assert!(left[0].starts_with("Thinking [") && left[0].contains(", "), "{left:?}");
        assert_eq!(left.len(), 1, "{provider}: {left:?}");
        assert_eq!(desk.server.requests().len(), before + 2, "{provider}: one refused, one more");
        assert_eq!(edits(&agent).len(), 3, "{provider}: {:?}", edits(&agent));
        drop(agent);
        let mut agent = desk.resume().await;
        let (ended, left) = say(&mut agent, &asked, &name, vec![Block::text("four")]).await;
        assert_eq!((ended.end, left.len()), (RunEnd::Completed, 0), "{provider}: {left:?}");
        let sent = desk.server.requests().pop().unwrap().seen.unwrap();
        let kept: Vec<bool> = sent.turns.iter().map(reasons).filter(|reasons| *reasons).collect();
        assert_eq!(kept.len(), 1, "{provider}: only what was said since comes back");
        let words = sent.turns.iter().map(Turn::text).collect::<Vec<_>>().join("\n");
        for said in ["Looking.", "a.txt", "two", "fine"] {
            assert!(words.contains(said), "{provider}: {said} is gone: {words}");
        }
        assert_eq!(sent.results().count(), 1, "{provider}");
        assert_eq!(desk.server.violations(), [], "{provider}");
    }
}

/// What nobody can place fails with the provider's words after one request, and the session goes on.
#[tokio::test]
async fn what_cannot_be_told_is_not_guessed() {
    for (provider, model) in MODELS {
        let desk = Desk::new(|seen: &Seen| match seen.prompt().as_str() {
            "bad" => refuse("something is wrong with the request".to_owned()),
            _ => Reply::text("fine").into(),
        });
        let asked = desk.provider(provider, "127.0.0.1");
        let name = model_ref((provider, model));
        let mut agent = desk.begin();
        let (ended, left) = say(&mut agent, &asked, &name, vec![Block::text("bad")]).await;
        assert_eq!(
            (ended.end, left.len(), edits(&agent).len()),
            (RunEnd::Failed, 0, 0),
            "{provider}"
        );
        assert_eq!(desk.server.requests().len(), 1);
        let (ended, _) = say(&mut agent, &asked, &name, vec![Block::text("good")]).await;
        assert_eq!(ended.end, RunEnd::Completed, "{provider}");
    }
}
