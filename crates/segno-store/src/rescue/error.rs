//! Why a session of another agent is not repaired.
//!
//! Responsible for: the cases, with where. Must not: say what to do; that is the command's.

use crate::foreign::{Agent, ForeignError};
use segno_model::store::StoreError;
use std::io;
use std::path::PathBuf;

/// Why it is not repaired.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    /// It cannot be read.
    #[error(transparent)]
    Foreign(#[from] ForeignError),
    /// It is kept in a database, which is never written.
    #[error("{agent} keeps its sessions in a database, which is never written")]
    Database {
        /// Whose.
        agent: Agent,
    },
    /// It is kept in a way for which there are no rules.
    #[error("{path} is not kept as lines or as an array")]
    NoRules {
        /// The file.
        path: PathBuf,
    },
    /// It is compressed, and what is repaired is not: it cannot take its place.
    #[error("{path} is packed")]
    Packed {
        /// The file.
        path: PathBuf,
    },
    /// It changed since it was read.
    #[error("{path} changed while it was looked at")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// There is something of the name that the result should have.
    #[error("{path} exists already")]
    Exists {
        /// The name.
        path: PathBuf,
    },
    /// It is not known where its agent would look for a copy.
    #[error("there is no place for a copy: {why}")]
    Unplaced {
        /// Why.
        why: String,
    },
    /// A copy of a subagent's session would be another subagent, which no call names.
    #[error("{path} is a subagent's")]
    Child {
        /// The file.
        path: PathBuf,
    },
    /// What takes its place cannot have its owner and group.
    #[error("{path} cannot be replaced by a file of its owner's")]
    Owner {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The repaired session has its place, and it is not known whether it keeps that when power is lost.
    #[error("{path} is replaced, and that may not last")]
    Unsure {
        /// The file.
        path: PathBuf,
        /// The file as it was, which is kept for good.
        backup: PathBuf,
        /// What failed.
        #[source]
        source: StoreError,
    },
    /// It failed, and what had been put beside it could not be removed.
    #[error("{path} was left behind")]
    Left {
        /// What is left.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: Box<RescueError>,
    },
    /// Its agent, or another process that has it open, is at work on it.
    #[error("{path} is open in process {pid}")]
    Running {
        /// The file.
        path: PathBuf,
        /// The process.
        pid: u32,
    },
    /// The result could not be written.
    #[error("the result could not be written")]
    Write(#[source] io::Error),
    /// The disk refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RescueError {
    pub(super) fn write(source: io::Error) -> Self {
        Self::Write(source)
    }
}
