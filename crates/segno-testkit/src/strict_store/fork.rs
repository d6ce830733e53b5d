//! Copies a log up to a point.
//!
//! Responsible for: the bytes of a fork. Must not: touch the source or any blob.

use super::load;
use segno_model::batch::{Draft, plan};
use segno_model::child::parent_of;
use segno_model::record::{Header, Origin, OriginKind};
use segno_model::state::State;
use segno_model::store::{ForkPoint, StoreError};
use segno_model::{Body, Pos, Record, Seq, SessionId, Timestamp};

/// The fork's whole log: a new line 1, the source's lines up to the point byte for byte, and the tip.
pub(super) fn copy(
    bytes: &[u8],
    source: &SessionId,
    point: ForkPoint,
    mut header: Header,
    at: Timestamp,
) -> Result<Vec<u8>, StoreError> {
    let (loaded, _) = load::load(bytes);
    loaded.check_writable()?;
    let records = load::records(bytes);
    let cut = cut(&records, point)?;
    let mut copied = records.iter().filter(|r| r.seq() <= cut.up_to);
    header.format =
        loaded.format_of_copy(copied.all(|r| !matches!(r.body(), Body::Unknown { .. })))?;
    header.origin = Some(Origin {
        kind: OriginKind::Fork,
        of: source.to_string(),
        up_to: Some(cut.up_to),
        parent: parent_of(&header),
    });
    let first = Draft::new(at, Body::Session(Box::new(header)));
    let first = plan(&State::default(), None, vec![first])?;
    let mut state = State::default();
    first.apply_to(&mut state);
    let mut copy = first.bytes;
    let copied = records.iter().filter(|r| (1..=cut.up_to).contains(&r.seq()));
    for record in copied {
        copy.extend_from_slice(&record.line);
        copy.push(b'\n');
        state.apply(record);
    }
    let closing = segno_model::fork::closing(&state, cut.tip);
    if !closing.is_empty() {
        let drafts = closing.into_iter().map(|body| Draft::new(at, body)).collect();
        copy.extend_from_slice(&plan(&state, None, drafts)?.bytes);
    }
    Ok(copy)
}

struct Cut {
    up_to: Seq,
    tip: Option<Pos>,
}

fn cut(records: &[Record], point: ForkPoint) -> Result<Cut, StoreError> {
    let node = |seq: Seq| {
        let found = records.iter().find(|r| r.seq() == seq && r.is_node());
        found.ok_or_else(|| StoreError::Refused(format!("record {seq} is not a node")))
    };
    match point {
        ForkPoint::Whole => {
            let mut state = State::default();
            records.iter().for_each(|r| state.apply(r));
            Ok(Cut { up_to: state.next_seq.saturating_sub(1), tip: state.tip() })
        }
        ForkPoint::At(seq) => Ok(Cut { up_to: seq, tip: Some(node(seq)?.pos()) }),
        ForkPoint::Before(seq) => {
            let tip = node(seq)?.envelope.parent.map(node).transpose()?.map(Record::pos);
            Ok(Cut { up_to: seq - 1, tip })
        }
    }
}
