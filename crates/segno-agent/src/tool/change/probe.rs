//! What an intent says about a change, so that its outcome can be read off the file later (G7).
//!
//! Responsible for: the stored form, both ways. Must not: look at a file.

use super::file::FileId;
use super::way::Way;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// The facts of one change. Unknown fields of later versions are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Probe {
    /// Where, links resolved; for people only when `path_hex` is there.
    path: String,
    /// The path's bytes, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
    /// SHA-256 of what is expected there; none when nothing is.
    pub(crate) old_sha256: Option<String>,
    /// SHA-256 of what is to be there; none when nothing is.
    pub(crate) new_sha256: Option<String>,
    /// How it gets there.
    pub(crate) way: Way,
    /// The temp file's name, in the same directory; none in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    temp: Option<String>,
    /// The temp file, which is to be at the path; in place and for a removal the file at the path itself.
    #[serde(flatten)]
    pub(crate) file: FileId,
}

impl Probe {
    pub(crate) fn new(
        path: &Path,
        way: Way,
        temp: Option<&Path>,
        file: FileId,
        (old_sha256, new_sha256): (Option<String>, Option<String>),
    ) -> Self {
        let hex = || path.as_os_str().as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        let name = |temp: &Path| Some(temp.file_name()?.to_str()?.to_owned());
        Self {
            path: path.display().to_string(),
            path_hex: path.to_str().is_none().then(hex),
            old_sha256,
            new_sha256,
            way,
            temp: temp.and_then(name),
            file,
        }
    }

    /// Reads what an intent holds; none when it says less, as those of earlier versions do.
    pub(crate) fn read(probe: Option<&RawValue>) -> Option<Self> {
        serde_json::from_str(probe?.get()).ok()
    }

    /// Where the change is, links resolved.
    pub(crate) fn path(&self) -> PathBuf {
        match self.path_hex.as_deref().and_then(from_hex) {
            Some(bytes) => PathBuf::from(OsString::from_vec(bytes)),
            None => PathBuf::from(&self.path),
        }
    }

    /// Where the temp file was made.
    pub(crate) fn temp(&self) -> Option<PathBuf> {
        let name = self.temp.as_deref().filter(|name| !name.contains('/') && *name != "..")?;
        Some(self.path().parent()?.join(name))
    }
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = hex.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let bytes = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    });
    bytes.collect()
}
