//! The draft of the reply that is being streamed.
//!
//! Responsible for: handing what has arrived to the store, at most a second after it did, so that a kill
//! costs no more of what was paid for. Must not: hold up the stream, or fail a run: the log does not
//! depend on a draft.

use crate::Sleep;
use segno_model::Seq;
use segno_model::store::SessionLog;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How long text may wait before it is kept.
const EVERY_MS: u64 = 1_000;

/// Text as it arrives.
#[derive(Debug, Default)]
pub(crate) struct Streamed {
    text: Mutex<String>,
    more: Notify,
}

impl Streamed {
    fn lock(&self) -> MutexGuard<'_, String> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// More arrived.
    pub(crate) fn push(&self, text: &str) {
        self.lock().push_str(text);
        self.more.notify_one();
    }

    /// All of it.
    pub(crate) fn into_text(self) -> String {
        self.text.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// What arrived behind the first `kept` bytes.
    fn since(&self, kept: usize) -> String {
        self.lock().get(kept..).unwrap_or_default().to_owned()
    }
}

/// Keeps what arrives, for ever: it ends when it is dropped, because the reply is there.
pub(crate) async fn keep_draft<L: SessionLog>(
    log: &mut L,
    request: Seq,
    streamed: &Streamed,
    sleep: &Sleep,
) -> Infallible {
    let mut kept = 0;
    loop {
        streamed.more.notified().await;
        let more = streamed.since(kept);
        kept += more.len();
        // A disk that is full or failing says so with the next record, which counts.
        if !more.is_empty() && log.save_draft(request, &more).await.is_err() {
            return std::future::pending().await;
        }
        sleep(EVERY_MS).await;
    }
}
