//! How the events of a reply leave the server, with everything that can go wrong on the way.
//!
//! Responsible for: applying faults to events (a pure plan) and sending the plan. Must not: know
//! what the events say.

use super::reply::Fault;
use super::seen::Wire;
use hyper::body::{Body, Bytes, Frame};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;

/// What is sent and when.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<(Duration, Bytes)>,
    pub(crate) end: End,
}

/// How it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// As it should.
    Whole,
    /// The connection breaks.
    Broken,
    /// Nothing more comes.
    Hanging,
}

/// Applies the faults, in their order, to the events of a stream.
pub(crate) fn plan(mut events: Vec<String>, faults: &[Fault], wire: Wire) -> Plan {
    let mut end = End::Whole;
    let (mut delay, mut pace, mut size, mut cut) = (Duration::ZERO, Duration::ZERO, None, false);
    for fault in faults {
        match fault {
            Fault::Delay(time) => delay = *time,
            Fault::Pace(time) => pace = *time,
            Fault::Pieces(bytes) => size = Some((*bytes).max(1)),
            Fault::Drop(after) => {
                events.truncate(*after);
                end = End::Broken;
            }
            Fault::Hang(after) => {
                events.truncate(after.unwrap_or(events.len().saturating_sub(1)));
                end = End::Hanging;
            }
            Fault::Malformed(after) => {
                let at = (*after).min(events.len());
                events.insert(at, "data: {\"type\":\"content_blo\n\n".to_owned());
            }
            Fault::ErrorEvent { overloaded, after } => {
                events.truncate(*after);
                events.push(wire.error_event(*overloaded));
            }
            Fault::CutMidCharacter => {
                end = End::Broken;
                cut = true;
            }
        }
    }
    let mut pieces: Vec<Bytes> = events.into_iter().map(Bytes::from).collect();
    if cut {
        pieces = cut_inside(&pieces);
    }
    if let Some(size) = size {
        let whole = pieces.concat();
        pieces = whole.chunks(size).map(Bytes::copy_from_slice).collect();
    }
    let wait = |index: usize| if index == 0 { delay.saturating_add(pace) } else { pace };
    Plan { steps: pieces.into_iter().enumerate().map(|(i, p)| (wait(i), p)).collect(), end }
}

/// Ends right behind the first byte of a character of several bytes, or inside the middle event.
fn cut_inside(pieces: &[Bytes]) -> Vec<Bytes> {
    let middle = pieces.len() / 2;
    let found = pieces
        .iter()
        .enumerate()
        .find_map(|(index, piece)| Some((index, piece.iter().position(|b| *b >= 0x80)? + 1)));
    let half = || (middle, pieces.get(middle).map_or(0, |piece| piece.len() / 2));
    let (index, length) = found.unwrap_or_else(half);
    let mut kept: Vec<Bytes> = pieces.iter().take(index).cloned().collect();
    kept.extend(pieces.get(index).map(|piece| piece.slice(..length)));
    kept
}

/// The script breaks the connection here.
#[derive(Debug, thiserror::Error)]
#[error("the script breaks the connection here")]
pub(crate) struct Broken;

/// A body that is sent step by step.
#[derive(Debug)]
pub(crate) struct Events(mpsc::Receiver<Result<Bytes, Broken>>);

impl Body for Events {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.0.poll_recv(context).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }
}

/// How far the sending came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// An HTTP error, or the stream has not ended yet.
    Open,
    /// The whole reply was sent.
    Whole,
    /// The script broke the connection.
    Broken,
    /// The script holds the connection open and sends nothing more.
    Hanging,
    /// The client left before the end.
    Left,
}

/// Starts to send a plan; `report` hears how it goes.
pub(crate) fn send(plan: Plan, report: impl Fn(Delivery) + Send + Sync + 'static) -> Events {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let last = follow(plan, &sender, &report).await;
        report(last);
    });
    Events(receiver)
}

async fn follow(
    plan: Plan,
    sender: &mpsc::Sender<Result<Bytes, Broken>>,
    report: &(impl Fn(Delivery) + Sync),
) -> Delivery {
    for (wait, bytes) in plan.steps {
        if !wait.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = sender.closed() => return Delivery::Left,
            }
        }
        if sender.send(Ok(bytes)).await.is_err() {
            return Delivery::Left;
        }
    }
    match plan.end {
        End::Whole => Delivery::Whole,
        End::Broken => {
            // What was sent must have left before the error tears the connection down.
            tokio::time::sleep(Duration::from_millis(20)).await;
            let _ = sender.send(Err(Broken)).await;
            Delivery::Broken
        }
        End::Hanging => {
            report(Delivery::Hanging);
            sender.closed().await;
            Delivery::Left
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(faults: &[Fault]) -> (Vec<String>, End) {
        let events = ["data: one\n\n", "data: zw\u{f6}lf\n\n", "data: end\n\n"];
        let plan = plan(events.map(str::to_owned).to_vec(), faults, Wire::Chat);
        let text = |b: &Bytes| String::from_utf8_lossy(b).replace("data: ", "").replace('\n', "");
        (plan.steps.iter().map(|(_, bytes)| text(bytes)).collect(), plan.end)
    }

    #[test]
    fn every_fault_has_its_plan() {
        let hung = Fault::Hang(None);
        let rows: [(&[Fault], &[&str], End); 8] = [
            (&[], &["one", "zw\u{f6}lf", "end"], End::Whole),
            (&[Fault::Drop(2)], &["one", "zw\u{f6}lf"], End::Broken),
            (&[Fault::Drop(0)], &[], End::Broken),
            (&[Fault::Drop(9)], &["one", "zw\u{f6}lf", "end"], End::Broken),
            (&[hung], &["one", "zw\u{f6}lf"], End::Hanging),
            (&[Fault::Hang(Some(1))], &["one"], End::Hanging),
            (&[Fault::CutMidCharacter], &["one", "zw\u{fffd}"], End::Broken),
            (
                &[Fault::Malformed(1)],
                &["one", "{\"type\":\"content_blo", "zw\u{f6}lf", "end"],
                End::Whole,
            ),
        ];
        for (faults, pieces, end) in rows {
            assert_eq!(planned(faults), (pieces.iter().map(ToString::to_string).collect(), end));
        }
    }

    #[test]
    fn pieces_cut_through_everything_and_lose_nothing() {
        let events = vec!["data: \u{1d10b}\n\n".to_owned(), "data: b\n\n".to_owned()];
        let plan = plan(events.clone(), &[Fault::Pieces(3)], Wire::Chat);
        assert!(plan.steps.iter().all(|(_, bytes)| bytes.len() <= 3));
        let whole: Vec<u8> = plan.steps.iter().flat_map(|(_, bytes)| bytes.to_vec()).collect();
        assert_eq!(whole, events.concat().into_bytes());
    }
}
