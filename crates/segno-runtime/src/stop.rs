//! The user's stop, as a signal that many can wait for.
//!
//! Responsible for: telling that a stop was asked for. Must not: record it (the run loop does, before
//! anything is signalled; G9).

use tokio::sync::watch;

/// Asks for a stop.
#[derive(Debug, Clone)]
pub struct StopHandle(watch::Sender<bool>);

/// Sees a stop.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl StopHandle {
    /// A handle and what sees it.
    #[must_use]
    pub fn new() -> (Self, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), Stop(receiver))
    }

    /// Asks for the stop; asking again changes nothing.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Whether it was asked for.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it is asked for; never, when every handle is gone without having asked.
    pub async fn stopped(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|stopped| *stopped).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
