//! A stop or a shutdown, as a signal that many can wait for.
//!
//! Responsible for: telling that it was asked for, and which of the two. Must not: record it (the run
//! loop does, before anything is signalled; G9).

use tokio::sync::watch;

/// Why work is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// The user's stop: final.
    User,
    /// The process ends; the work may be taken up again.
    Shutdown,
}

/// Asks for a stop.
#[derive(Debug, Clone)]
pub struct StopHandle(watch::Sender<Option<StopKind>>);

/// Sees a stop.
#[derive(Debug, Clone)]
pub struct Stop(Vec<watch::Receiver<Option<StopKind>>>);

impl StopHandle {
    /// A handle and what sees it.
    #[must_use]
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(None);
        (Self(sender), Stop(vec![receiver]))
    }

    /// Asks for the stop; the first one asked for stands.
    pub fn stop(&self, kind: StopKind) {
        self.0.send_if_modified(|asked| {
            let first = asked.is_none();
            asked.get_or_insert(kind);
            first
        });
    }
}

impl Stop {
    /// A stop that nobody will ever ask for.
    #[must_use]
    pub fn never() -> Self {
        StopHandle::new().1
    }

    /// One that was asked for already.
    #[must_use]
    pub fn asked_for(kind: StopKind) -> Self {
        let (handle, stop) = StopHandle::new();
        handle.stop(kind);
        stop
    }

    /// Sees `other`'s stop as well; of two, this one's stands.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// What was asked for, if anything.
    #[must_use]
    pub fn kind(&self) -> Option<StopKind> {
        self.0.iter().find_map(|asked| *asked.borrow())
    }

    /// Whether anything was asked for.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.kind().is_some()
    }

    /// Returns when it is asked for; never, when every handle is gone without having asked.
    pub async fn stopped(&self) -> StopKind {
        let all = self.0.iter().cloned().map(|receiver| Box::pin(asked(receiver)));
        futures_util::future::select_all(all).await.0
    }
}

async fn asked(mut receiver: watch::Receiver<Option<StopKind>>) -> StopKind {
    let asked = receiver.wait_for(Option::is_some).await.ok().and_then(|kind| *kind);
    match asked {
        Some(kind) => kind,
        None => std::future::pending().await,
    }
}
