//! What differs from one operating system to the next: file system kinds, process identity, copying.
//!
//! Responsible for: one file per platform with the same functions. Must not: be called from anywhere
//! but the real disk and the owner file.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{
    boot_id, copy_range, forget_cached, medium, open_untouched, process_started,
};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    boot_id, copy_range, forget_cached, medium, open_untouched, process_started,
};

/// This machine's name on the network.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
