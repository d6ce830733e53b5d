//! Effects that go on behind their results.
//!
//! Responsible for: telling the end of each once, between steps, before a run ends and after an interruption, and
//! waiting for those that the tools wait for. Must not: know what the effects are, or keep anything in memory
//! that the log does not have.

use crate::effects::of_call;
use crate::event::Event;
use crate::run::{Driver, Either, RunError, either};
use crate::{Model, News, StopKind, Tools, blobs};
use segno_model::record::{Body, Child, Message, UserMessage, background_input_id};
use segno_model::store::{Level, SessionLog};

impl<L: SessionLog, M: Model, T: Tools> Driver<'_, L, M, T> {
    /// Whether something goes on that this run waits for.
    pub(crate) fn awaits(&self) -> bool {
        let open = &self.session.state().in_force.open_background;
        !open.is_empty() && self.tools.awaits(open)
    }

    /// Waits until something was told that this run waits for; false when there is nothing left of that.
    pub(crate) async fn await_news(&mut self) -> Result<Either<bool, StopKind>, RunError> {
        while self.awaits() {
            let open = self.session.state().in_force.open_background.clone();
            let stop = self.env.stop.clone();
            let awaited = either(self.tools.paused(), self.tools.awaited(&open));
            match either(awaited, stop.stopped()).await {
                Either::First(Either::First(reason)) => {
                    self.observer.event(Event::Paused { reason: &reason });
                    continue;
                }
                Either::First(Either::Second(())) => {}
                Either::Second(kind) => return Ok(Either::Second(kind)),
            }
            if self.tell_news().await? {
                return Ok(Either::First(true));
            }
        }
        Ok(Either::First(false))
    }

    /// Tells what has ended; whether there was anything.
    pub(crate) async fn tell_news(&mut self) -> Result<bool, RunError> {
        let bodies = self.news().await?;
        let any = !bodies.is_empty();
        if any {
            self.append(bodies, Level::Written).await?;
        }
        Ok(any)
    }

    /// The records that tell what has ended: an input's id closes it in the state, which every checkpoint
    /// carries.
    pub(crate) async fn news(&mut self) -> Result<Vec<Body>, RunError> {
        let open = self.session.state().in_force.open_background.clone();
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let mut news = self.tools.news(&open).await;
        news.retain(|news| open.iter().any(|open| open.handle == news.handle));
        let mut bodies = Vec::new();
        for News { handle, text, child } in news {
            let input_id = Some(background_input_id(&handle));
            let mut notice = UserMessage { input_id, ..UserMessage::notice("background", text) };
            while let Err(error) =
                blobs::store_large(self.session.log_mut(), &mut notice.content).await
            {
                self.wait_for_room(error).await?;
            }
            // First, as beside a result.
            bodies.extend(child.and_then(|child| self.of_its_call(*child)));
            bodies.push(Body::Message(Box::new(Message::User(notice))));
        }
        Ok(bodies)
    }

    /// What is recorded of a subagent, with the call that began it.
    fn of_its_call(&self, child: Child) -> Option<Body> {
        let open = &self.session.state().in_force.open_children;
        let began = open.iter().find(|began| began.child == child.child)?;
        Some(of_call(child, &began.call_id, began.call_seq.unwrap_or_default()))
    }
}
