//! System errors as store errors.
//!
//! Responsible for: the one place that decides what an `io::Error` means to a caller. Must not: make
//! sentences for people beyond naming the path and the system's own words.

use segno_model::store::StoreError;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Whether an error says that there is no room (G16), as opposed to a failing medium.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// What a failed operation means.
pub(crate) fn store_error(action: &'static str, path: &Path, error: io::Error) -> StoreError {
    if is_no_room(&error) {
        return StoreError::NoRoom(path.display().to_string());
    }
    StoreError::Backend { action, what: path.display().to_string(), source: Box::new(error) }
}

/// What a failed operation means where something was to be changed: a place that cannot be written
/// is not a broken one (#113).
pub(crate) fn write_error(action: &'static str, path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            StoreError::ReadOnly(format!("{action} {} failed: {error}", path.display()))
        }
        _ => store_error(action, path, error),
    }
}
