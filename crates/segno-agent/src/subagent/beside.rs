//! Subagents that work beside their parent's turns.
//!
//! Responsible for: which of them work in this process, asking them to end, waiting for them, and their ends until
//! these are told. Must not: outlive this process, or know how a child works.
//!
//! A child lives in its parent's process. When that ends, the child's run is interrupted work, as any other, and
//! the next process reads its end off its log.

use super::{Boxed, Shown};
use crate::tool::lock;
use segno_runtime::{Progress, StopHandle, StopKind, ToolOutput};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How many of them may work at once.
pub const MAX_BESIDE: usize = 8;

/// The subagents of one session that work beside it.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    children: Mutex<BTreeMap<String, Entry>>,
    /// Places of those that are about to work; counted behind the lock of `children`.
    kept: AtomicUsize,
    /// Counts ends.
    ended: watch::Sender<u64>,
    /// Why one of them waits, told again as long as it does.
    paused: watch::Sender<String>,
}

#[derive(Debug)]
struct Entry {
    stop: StopHandle,
    work: AbortHandle,
    output: Arc<Mutex<Option<ToolOutput>>>,
}

/// A place among those that may work at once, for one that is about to.
pub(crate) struct Place<'a>(&'a Beside);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.kept.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tells that the work is over, however it is.
struct Ending {
    output: Arc<Mutex<Option<ToolOutput>>>,
    ended: watch::Sender<u64>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let cut_off = || ToolOutput { unfinished: true, ..ToolOutput::failed("cut off") };
        lock(&self.output).get_or_insert_with(cut_off);
        self.ended.send_modify(|ends| *ends += 1);
    }
}

impl Entry {
    fn has_ended(&self) -> bool {
        lock(&self.output).is_some()
    }
}

impl Beside {
    /// How many work now.
    pub(crate) fn working(&self) -> usize {
        lock(&self.children).values().filter(|entry| !entry.has_ended()).count()
    }

    /// A place for one more; none when there is no room. To be kept until it has started.
    pub(crate) fn place(&self) -> Option<Place<'_>> {
        let children = lock(&self.children);
        let working = children.values().filter(|entry| !entry.has_ended()).count();
        if working + self.kept.load(Ordering::SeqCst) >= MAX_BESIDE {
            return None;
        }
        self.kept.fetch_add(1, Ordering::SeqCst);
        Some(Place(self))
    }

    /// Their handles.
    pub(crate) fn handles(&self) -> Vec<String> {
        let children = lock(&self.children);
        children.iter().filter(|(_, e)| !e.has_ended()).map(|(handle, _)| handle.clone()).collect()
    }

    /// Lets `work` go on by itself.
    pub(crate) fn start(&self, handle: &str, stop: StopHandle, work: Boxed<'static, ToolOutput>) {
        let output = Arc::new(Mutex::new(None));
        let ending = Ending { output: Arc::clone(&output), ended: self.ended.clone() };
        let task = tokio::spawn(async move {
            let output = work.await;
            *lock(&ending.output) = Some(output);
        });
        let entry = Entry { stop, work: task.abort_handle(), output };
        lock(&self.children).insert(handle.to_owned(), entry);
    }

    /// What one of them shows: only why it waits is of interest to anybody.
    pub(crate) fn shown(&self) -> Shown {
        let paused = self.paused.clone();
        Box::new(move |progress| {
            if let Progress::Paused(reason) = progress {
                paused.send_replace(reason);
            }
        })
    }

    /// Waits until one of them says that it waits for what a person has to see to, and gives why.
    pub(crate) async fn paused(&self) -> String {
        let mut paused = self.paused.subscribe();
        match paused.changed().await {
            Ok(()) => paused.borrow_and_update().clone(),
            Err(_) => std::future::pending().await,
        }
    }

    /// What became of one that worked here, once it has ended; `Err` when it is none of this process.
    pub(crate) fn end_of(&self, handle: &str) -> Result<Option<ToolOutput>, ()> {
        let children = lock(&self.children);
        let entry = children.get(handle).ok_or(())?;
        let output = lock(&entry.output).clone();
        // Of one that was shut down, the next process tells.
        Ok(output.filter(|output| !output.unfinished))
    }

    /// Whether one works here, or has an end here that is to be told.
    pub(crate) fn works_or_tells(&self, handle: &str) -> bool {
        let children = lock(&self.children);
        children.get(handle).is_some_and(|entry| {
            lock(&entry.output).as_ref().is_none_or(|output| !output.unfinished)
        })
    }

    /// Forgets those whose ends are on record.
    pub(crate) fn keep_only(&self, open: &[&str]) {
        lock(&self.children).retain(|handle, e| !e.has_ended() || open.contains(&handle.as_str()));
    }

    /// Asks one of them to end, or all, and waits until they have.
    pub(crate) async fn halt(&self, only: Option<&str>, kind: StopKind) {
        let stops: Vec<StopHandle> = lock(&self.children)
            .iter()
            .filter(|(handle, _)| only.is_none_or(|only| only == *handle))
            .map(|(_, entry)| entry.stop.clone())
            .collect();
        stops.iter().for_each(|stop| stop.stop(kind));
        self.until(|| match only {
            Some(handle) => lock(&self.children).get(handle).is_none_or(Entry::has_ended),
            None => self.working() == 0,
        })
        .await;
    }

    /// Waits until one of these ends, at most so long.
    pub(crate) async fn wait(&self, handle: &str, longest: Duration) {
        let ended = self.until(|| lock(&self.children).get(handle).is_none_or(Entry::has_ended));
        // That it takes longer is seen in the child itself.
        let _ = tokio::time::timeout(longest, ended).await;
    }

    /// Waits until one of these has ended; at once when none of them works here.
    pub(crate) async fn any_of(&self, open: &[&str]) {
        self.until(|| {
            let children = lock(&self.children);
            let mut here = open.iter().filter_map(|handle| children.get(*handle)).peekable();
            here.peek().is_none() || here.any(Entry::has_ended)
        })
        .await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        let mut ends = self.ended.subscribe();
        while !is_so() {
            if ends.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        for entry in lock(&self.children).values() {
            entry.work.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    /// A child that ends when it is told to, or stopped.
    fn child(beside: &Beside, handle: &str) -> oneshot::Sender<()> {
        let (end, ended) = oneshot::channel();
        let (handle_of_it, stop) = StopHandle::new();
        beside.start(
            handle,
            handle_of_it,
            Box::pin(async move {
                tokio::select! {
                    _ = ended => ToolOutput::done("by itself"),
                    kind = stop.stopped() => {
                        let unfinished = kind == StopKind::Shutdown;
                        ToolOutput { unfinished, ..ToolOutput::done("stopped") }
                    }
                }
            }),
        );
        end
    }

    #[tokio::test]
    async fn ends_are_kept_until_they_are_on_record() {
        let beside = Beside::default();
        let (one, _two) = (child(&beside, "one"), child(&beside, "two"));
        assert_eq!(beside.working(), 2);
        assert!(beside.end_of("one").unwrap().is_none() && beside.end_of("three").is_err());
        one.send(()).unwrap();
        beside.any_of(&["one", "two"]).await;
        for _ in 0..2 {
            assert!(beside.end_of("one").unwrap().is_some(), "told again until it is recorded");
        }
        beside.keep_only(&["two"]);
        assert!(beside.end_of("one").is_err());
        beside.halt(Some("two"), StopKind::User).await;
        assert!(beside.end_of("two").unwrap().is_some());
        beside.any_of(&["three"]).await;
    }

    /// One that was shut down tells nothing here: the next process reads it off its log.
    #[tokio::test]
    async fn a_shutdown_is_no_end() {
        let beside = Beside::default();
        let _one = child(&beside, "one");
        beside.halt(None, StopKind::Shutdown).await;
        assert_eq!(beside.working(), 0);
        assert!(beside.end_of("one").unwrap().is_none());
    }
}
