//! Whether everything that lies outside of the log is there and is what it was.
//!
//! Responsible for: finding every reference, whatever record holds it, and reading each blob once. Must
//! not: know record types: a reference of a later version is verified, too.

use crate::history::as_json;
use crate::stores::Stores;
use segno_model::finding::{Finding, Severity};
use segno_model::record::BlobRef;
use segno_model::store::{SessionStore as _, StoreError};
use segno_model::{Record, Seq, SessionId};
use serde_json::Value;
use std::collections::BTreeMap;

/// The blobs that a log names, each with the first record that does.
#[derive(Debug, Default)]
pub(super) struct Named(BTreeMap<String, (BlobRef, Seq)>);

impl Named {
    /// Notes what a record names.
    pub(super) fn add(&mut self, record: &Record) {
        for blob in references(record) {
            self.0.entry(blob.blob.clone()).or_insert((blob, record.seq()));
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Reads all of them; gives what is wrong.
    pub(super) async fn verify(&self, stores: &Stores, id: &SessionId) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (blob, seq) in self.0.values() {
            if let Err(error) = stores.files.blob(id, blob).await {
                findings.push(finding(blob, *seq, &error));
            }
        }
        findings
    }
}

fn finding(blob: &BlobRef, seq: u64, error: &StoreError) -> Finding {
    let reason = match error {
        StoreError::Damaged { reason, .. } => reason.clone(),
        _ => "it cannot be read".to_owned(),
    };
    Finding {
        code: "blob",
        severity: Severity::Damage,
        seq: Some(seq),
        sentence: format!("blob {} of record {seq}: {reason}", blob.blob.get(..16).unwrap_or("?")),
        done: "the beginning that the record keeps stands for it".to_owned(),
        ..Finding::default()
    }
}

/// Every object with a `blob` that is a hash and a number of `bytes`.
fn references(record: &Record) -> Vec<BlobRef> {
    if !mentions_blob(&record.line) {
        return Vec::new();
    }
    let Some(line) = as_json(record) else { return Vec::new() };
    let Ok(value) = serde_json::from_str::<Value>(line.get()) else { return Vec::new() };
    let mut found = Vec::new();
    let mut todo = vec![&value];
    while let Some(value) = todo.pop() {
        match value {
            Value::Array(items) => todo.extend(items),
            Value::Object(fields) => {
                let hash = fields.get("blob").and_then(Value::as_str).filter(|hash| is_hash(hash));
                match (hash, fields.get("bytes").and_then(Value::as_u64)) {
                    (Some(hash), Some(bytes)) => {
                        found.push(BlobRef { blob: hash.to_owned(), bytes, head: String::new() });
                    }
                    _ => todo.extend(fields.values()),
                }
            }
            _ => {}
        }
    }
    found
}

fn mentions_blob(line: &[u8]) -> bool {
    const KEY: &[u8] = b"\"blob\":";
    line.windows(KEY.len()).any(|window| window == KEY)
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}
