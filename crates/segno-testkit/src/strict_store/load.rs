//! Reads logs for the strict store.
//!
//! Responsible for: handing bytes to the pure reader and judge. Must not: decide anything.

use super::world::World;
use segno_model::SessionId;
use segno_model::active::{Loaded, Loader, load_with};
use segno_model::id::sha256_hex;
use segno_model::judge::scan_bytes;
use segno_model::record::BlobRef;
use segno_model::store::{Active, Scanned, StoreError};
use segno_model::{Pos, Record};

/// What a log's end says, and what was read for it.
pub(super) fn load(bytes: &[u8]) -> (Loaded, Active) {
    with_active(load_with(bytes, Loader::new(bytes.len() as u64)))
}

/// What the context at `tip` needs.
pub(super) fn load_at(bytes: &[u8], tip: Option<Pos>) -> (Loaded, Active) {
    with_active(load_with(bytes, Loader::new(bytes.len() as u64).at_tip(tip)))
}

fn with_active((loaded, bytes_read): (Loaded, u64)) -> (Loaded, Active) {
    let active =
        Active { records: loaded.records.clone(), findings: loaded.findings.clone(), bytes_read };
    (loaded, active)
}

/// Every record, in the order of the log.
pub(super) fn records(bytes: &[u8]) -> Vec<Record> {
    let record = |step| match step {
        Scanned::Record(record) => Some(*record),
        Scanned::Finding(_) => None,
    };
    scan_bytes(bytes).into_iter().filter_map(record).collect()
}

/// Everything, until the visitor has seen enough.
pub(super) fn scan(bytes: &[u8], visit: &mut (dyn FnMut(Scanned) -> bool + Send)) {
    for step in scan_bytes(bytes) {
        if !visit(step) {
            return;
        }
    }
}

/// A blob's bytes, when they are what the reference says.
pub(super) fn blob(world: &World, id: &SessionId, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
    let damaged = |reason: &str| StoreError::Damaged {
        what: format!("blob {}", blob.blob),
        offset: 0,
        reason: reason.to_owned(),
    };
    let key = (id.clone(), blob.blob.clone());
    let bytes = world.blobs.get(&key).ok_or_else(|| damaged("it is not there"))?;
    if bytes.len() as u64 != blob.bytes || sha256_hex(bytes) != blob.blob {
        return Err(damaged("its bytes are not the ones that were stored"));
    }
    Ok(bytes.clone())
}
