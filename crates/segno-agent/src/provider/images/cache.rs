//! What images became, remembered for the life of the process.
//!
//! Responsible for: opening each image once, away from the async threads. Must not: hold more than its bound;
//! what is forgotten is made again, to the same bytes.

use super::{Fitted, scale};
use crate::provider::sendable::ImageTakes;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

/// How much is remembered, in bytes of base64.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// What an answer takes that is no copy.
const SMALL: usize = 256;

/// By the image's hash and by what was asked for.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Known {
    fitted: HashMap<String, Fitted>,
    bytes: usize,
}

impl Known {
    fn remember(&mut self, key: String, fitted: Fitted) {
        let bytes = match &fitted {
            Fitted::Copy { base64, .. } => SMALL + base64.len(),
            Fitted::AsIs | Fitted::Left(_) => SMALL,
        };
        if self.bytes + bytes > MAX_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.fitted.insert(key, fitted);
    }
}

/// What an image becomes for a provider.
pub(super) async fn fitted(base64: &str, takes: &'static ImageTakes) -> Fitted {
    let limits = (takes.types.len(), takes.side, takes.base64_bytes);
    let key = format!("{limits:?} {}", segno_model::sha256_hex(base64.as_bytes()));
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).fitted.get(&key).cloned();
    if let Some(known) = known {
        return known;
    }
    let owned = base64.to_owned();
    let made = tokio::task::spawn_blocking(move || scale::fit(&owned, takes)).await;
    // An image that breaks its decoder is not sent.
    let made = made.unwrap_or(Fitted::Left("it cannot be read"));
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).remember(key, made.clone());
    made
}
