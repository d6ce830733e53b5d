//! Large values that are gone: the request says so and goes out.

use crate::{Desk, MODELS, model_ref, say};
use segno_model::Pos;
use segno_model::record::{
    BlobRef, Block, Body, Compaction, CompactionState, Message, RunEnd, Text, UserMessage,
};
use segno_model::store::Level;
use segno_testkit::scripted_model::{Reply, Turn};

fn gone(name: &str, head: &str) -> Text {
    let hash = segno_model::sha256_hex(name.as_bytes());
    Text::Blob(BlobRef { blob: hash, bytes: 100_000, head: head.to_owned() })
}

fn short(name: &str) -> String {
    segno_model::sha256_hex(name.as_bytes())[..16].to_owned()
}

/// A text, an image and a summary whose blobs are gone: each is a line that names it, behind what the record
/// kept, and stays the same line in the next request.
///
/// Covers: G6, G10, G13.
#[tokio::test]
async fn what_is_gone_is_named_and_the_request_goes_out() {
    for model in MODELS {
        let desk = Desk::new(|_: &_| Reply::text("fine"));
        let provider = desk.provider(model.0, "127.0.0.1");
        let name = model_ref(model);
        let mut agent = desk.begin();
        say(&mut agent, &provider, &name, vec![Block::text("hello")]).await;
        let summary = Compaction {
            summary: Some(gone("summary", "We began")),
            first_kept: None::<Pos>,
            ..Compaction::marker(CompactionState::Done, None)
        };
        agent
            .session
            .append(vec![Body::Compaction(Box::new(summary))], Level::Synced)
            .await
            .unwrap();
        let content = vec![
            Block::Text { text: gone("text", "It begins") },
            Block::Image { media_type: "image/png".to_owned(), data: gone("image", "") },
        ];
        let lost = Message::User(UserMessage { content, ..UserMessage::default() });
        agent.session.append(vec![Body::Message(Box::new(lost))], Level::Synced).await.unwrap();
        drop(agent);
        let mut agent = desk.resume().await;
        for prompt in ["and now?", "and then?"] {
            let (ended, _) = say(&mut agent, &provider, &name, vec![Block::text(prompt)]).await;
            assert_eq!(ended.end, RunEnd::Completed, "{}: {ended:?}", model.0);
            let sent = desk.server.requests().pop().unwrap();
            let sent =
                sent.seen.unwrap().turns.iter().map(Turn::text).collect::<Vec<_>>().join("\n");
            for expected in [
                format!(
                    "We began\n[The rest of this text is missing or damaged: blob {}.]",
                    short("summary")
                ),
                format!(
                    "It begins\n[The rest of this text is missing or damaged: blob {}.]",
                    short("text")
                ),
                format!("[An image (image/png) is missing or damaged: blob {}.]", short("image")),
            ] {
                assert!(sent.contains(&expected), "{}: {sent}", model.0);
            }
        }
        assert_eq!(desk.server.violations(), [], "{}", model.0);
    }
}
