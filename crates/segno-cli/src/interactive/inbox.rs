//! Inputs from elsewhere, and those that are typed while a turn runs.
//!
//! Responsible for: what is delivered between turns and what is offered, and saying both. Must not: decide
//! what may be delivered (the runtime does), or deliver on after a turn that did not end well.

use super::meanwhile::{Meanwhile, Typed};
use super::{After, Interactive, Keyboard};
use crate::engine::Signals;
use crate::error::CliError;
use crate::inputs;
use crate::stores::Stores;
use crate::terminal::table::plural;
use crate::terminal::{Screen, Text, Tone, clean};
use segno_model::SessionId;
use segno_model::inbox::{InputBody, NewInput, Words};
use segno_model::record::{InputKind, UserMessage};
use segno_model::store::{SessionStore as _, StoreError};
use segno_runtime::{Attended, Due, Waiting};
use segno_store::{SystemClock, this_process};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;

/// How often a session is tried that is only just coming into being.
const BEING_BORN: Duration = Duration::from_millis(20);

impl Interactive<'_> {
    /// Acts on what came in; gives the input that begins the next turn.
    pub(super) async fn attend(&mut self) -> Result<Option<UserMessage>, After> {
        let attended = loop {
            // What comes in after this is seen to have come in.
            self.mark = self.inbox_mark().await;
            match self.agent.session.attend(&this_process(&SystemClock)).await {
                Ok(attended) if self.inbox_mark().await == self.mark => break attended,
                Ok(attended) if attended.let_go => break attended,
                // Something was settled, or came in.
                Ok(_) => {}
                Err(error) => {
                    CliError::from(error).print(self.screen);
                    return Ok(None);
                }
            }
        };
        if attended.let_go {
            let said = "Another process asked for this session; it is let go of.";
            self.screen.line(Text::line(Tone::Warning, said));
            return Err(After::Leave);
        }
        self.looked_at.retain(|id| attended.waiting.iter().any(|w| w.id() == id));
        Ok(next(&attended, &self.looked_at))
    }

    /// Whatever waits now waits for the person, until a turn ends well again.
    pub(super) async fn hold_back(&mut self) {
        let Ok(attended) = self.agent.session.attend(&this_process(&SystemClock)).await else {
            return;
        };
        self.looked_at = attended.waiting.iter().map(|w| w.id().to_owned()).collect();
        self.offer(&attended.waiting);
    }

    /// Says what waits for the person.
    pub(super) async fn offer_stale(&mut self) {
        let Ok(attended) = self.agent.session.attend(&this_process(&SystemClock)).await else {
            return;
        };
        let held: Vec<Waiting> = attended.held_back().cloned().collect();
        self.offer(&held);
    }

    fn offer(&mut self, waiting: &[Waiting]) {
        if waiting.is_empty() {
            return;
        }
        let said = format!("{} from before:", plural(waiting.len(), "input"));
        self.screen.line(Text::line(Tone::Warning, &said));
        self.show_waiting(waiting);
        let how = "Nothing of it starts by itself. /deliver [N] lets the model see it, /withdraw N takes it back.";
        self.screen.line(Text::line(Tone::Dim, how));
        self.screen.flush();
    }

    fn show_waiting(&mut self, waiting: &[Waiting]) {
        let columns = self.screen.look().columns;
        for (n, waiting) in waiting.iter().enumerate() {
            let body = &waiting.pending.input.body;
            let kind = if body.kind() == InputKind::Queue { "queue" } else { "steer" };
            let head = body.words().map_or("", Words::head);
            let why = if waiting.due == Due::Parked { "  (because of a stop)" } else { "" };
            let line = Text::default()
                .with(Tone::Accent, &format!("  {}", n + 1))
                .with(Tone::Dim, &format!("  {kind}  "))
                .with(Tone::Plain, &clean::line(head))
                .with(Tone::Dim, why);
            self.screen.line(line.cut(columns));
        }
    }

    /// `/inbox`
    pub(super) async fn list_inbox(&mut self) -> Result<(), CliError> {
        let waiting = self.waiting().await?;
        if waiting.is_empty() {
            self.screen.line(Text::line(Tone::Dim, "Nothing waits."));
        }
        self.show_waiting(&waiting);
        Ok(())
    }

    /// `/deliver [N]`
    pub(super) async fn deliver(&mut self, n: Option<usize>) -> Result<(), CliError> {
        let waiting = self.waiting().await?;
        let chosen = match n {
            None => waiting,
            Some(n) => vec![chosen(&waiting, n)?],
        };
        for waiting in &chosen {
            self.agent.session.ask_for(waiting.id());
            self.looked_at.retain(|id| id != waiting.id());
        }
        Ok(())
    }

    /// `/withdraw N`
    pub(super) async fn withdraw(&mut self, n: usize) -> Result<(), CliError> {
        let chosen = chosen(&self.waiting().await?, n)?;
        let body = InputBody::Withdraw { input_id: chosen.id().to_owned() };
        let control = NewInput::new(inputs::new_id(), body);
        inputs::admit(&self.engine.stores, self.agent.session.id(), &control).await?;
        self.agent.session.attend(&this_process(&SystemClock)).await?;
        self.screen.line(Text::line(Tone::Good, "Taken back."));
        Ok(())
    }

    async fn waiting(&mut self) -> Result<Vec<Waiting>, CliError> {
        Ok(self.agent.session.attend(&this_process(&SystemClock)).await?.waiting)
    }

    /// What others sent since it was looked last; a number to compare.
    pub(super) async fn inbox_mark(&self) -> u64 {
        let files = &self.engine.stores.files;
        files.inbox_mark(self.agent.session.id()).await.unwrap_or(0)
    }
}

fn next(attended: &Attended, looked_at: &[String]) -> Option<UserMessage> {
    let mut due = attended.waiting.iter().filter(|waiting| waiting.due == Due::Now);
    let next = due.find(|waiting| !looked_at.iter().any(|id| id == waiting.id()))?;
    next.pending.input.message()
}

fn chosen(waiting: &[Waiting], n: usize) -> Result<Waiting, CliError> {
    waiting.get(n.wrapping_sub(1)).cloned().ok_or_else(|| {
        CliError::usage(format!("There is no input {n}.")).next("/inbox lists what waits.")
    })
}

/// Where lines that are typed during a turn come from, and what stops it.
pub(super) struct Typing<'a> {
    pub(super) keyboard: &'a Keyboard,
    pub(super) signals: &'a Signals,
}

impl Typing<'_> {
    /// Runs a turn to its end, and sends what is typed meanwhile; gives what is for after it.
    pub(super) async fn beside<T>(
        &self,
        turn: impl Future<Output = T>,
        stores: &Stores,
        id: &SessionId,
    ) -> (T, Vec<String>) {
        let (meanwhile, mut typed) = Meanwhile::begin(self.keyboard);
        let mut later = Vec::new();
        let ended = {
            let sending = self.send(stores, id, &mut typed, &mut later);
            tokio::select! {
                ended = turn => ended,
                never = sending => match never {},
            }
        };
        meanwhile.finish().await;
        while let Ok(typed) = typed.try_recv() {
            later.push(typed.into_text());
        }
        (ended, later)
    }

    async fn send(
        &self,
        stores: &Stores,
        id: &SessionId,
        typed: &mut mpsc::UnboundedReceiver<Typed>,
        later: &mut Vec<String>,
    ) -> Infallible {
        while let Some(typed) = typed.recv().await {
            let (body, text, said) = match typed {
                Typed::Stop => {
                    self.signals.interrupt();
                    continue;
                }
                Typed::Later(text) => {
                    tell(Tone::Warning, &format!("(for after the turn: {text})"));
                    later.push(text);
                    continue;
                }
                Typed::Steer(text) => {
                    (InputBody::Steer(Words::text(&text)), text, "told at the next step")
                }
                Typed::Queue(text) => (InputBody::Queue(Words::text(&text)), text, "queued"),
            };
            // Until it is admitted, it is not lost when the turn ends.
            later.push(text.clone());
            match admit(stores, id, &NewInput::new(inputs::new_id(), body)).await {
                Ok(()) => {
                    later.pop();
                    tell(Tone::Dim, &format!("({said}: {text})"));
                }
                Err(error) => {
                    let mut screen = Screen::stdout();
                    CliError::from(error).print(&mut screen);
                    screen.flush();
                }
            }
        }
        // Nobody types any more; the turn ends by itself.
        std::future::pending().await
    }
}

/// Admits it, as soon as the session is there: a first turn begins with making it.
async fn admit(stores: &Stores, id: &SessionId, input: &NewInput) -> Result<(), StoreError> {
    use segno_model::store::Clock as _;
    loop {
        match stores.files.admit(id, input, SystemClock.now()).await {
            Err(StoreError::NotFound(_)) => tokio::time::sleep(BEING_BORN).await,
            Err(error) => return Err(error),
            Ok(_) => return Ok(()),
        }
    }
}

/// Says something between the lines of a turn.
fn tell(tone: Tone, said: &str) {
    let mut screen = Screen::stdout();
    screen.line(Text::line(tone, &clean::line(said)).cut(screen.look().columns));
    screen.flush();
}
