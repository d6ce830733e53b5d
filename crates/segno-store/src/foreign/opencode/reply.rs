//! A reply of the model with its calls and their results, as both engines of OpenCode keep them: in one
//! place, call and result together.
//!
//! Responsible for: taking them apart into our records. Must not: read rows.

use super::super::calls::Calls;
use super::super::emitter::{Emitter, Meta};
use super::super::item::{Origin, RawPiece};
use super::shape::{Part, State, Tokens, Told, at, seal};
use segno_model::finding::Severity;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Child, ChildState, ContextEdit, Established, Message,
    ModelRef, Outcome, StepStatus, StopReason, Task, TaskStep, Text, ToolMessage, Usage,
};
use segno_model::{Body, Seq, Timestamp};
use serde_json::json;
use serde_json::value::RawValue;
use std::path::Path;

/// What the model is sent in place of a result that OpenCode has cleared away.
const CLEARED: &str = "[Old tool result content cleared]";

/// What a reply is part of.
pub(super) struct Thread {
    /// The current node.
    pub(super) tip: Option<Seq>,
    pub(super) calls: Calls,
    /// The todo list as it was told last.
    pub(super) task: Option<Task>,
}

/// What holds for a reply as a whole.
#[derive(Clone)]
pub(super) struct ReplyMeta {
    pub(super) model: ModelRef,
    pub(super) at: Option<Timestamp>,
    pub(super) origin: Origin,
    /// See [`super::super::item::ForeignRecord::response`].
    pub(super) response: Option<String>,
    /// Whether the person stopped it.
    pub(super) aborted: bool,
    /// Whether it failed otherwise.
    pub(super) failed: bool,
    /// Whether it was written to its end.
    pub(super) completed: bool,
}

/// One reply of the model while it is put together.
pub(super) struct Reply {
    meta: ReplyMeta,
    content: Vec<AssistantBlock>,
    results: Vec<Answer>,
    /// What our terms do not hold of the content.
    pieces: Vec<RawPiece>,
    usage: Option<Usage>,
    finish: Option<String>,
    /// Whether a call of it was begun: then the model had said all of it.
    begun: bool,
    /// How many were handed on of one message.
    steps: u32,
}

/// A result that waits until its call has a number.
struct Answer {
    message: ToolMessage,
    pieces: Vec<RawPiece>,
    at: Option<Timestamp>,
    origin: Origin,
    cleared: bool,
    task: Option<Task>,
    child: Option<String>,
}

impl Reply {
    pub(super) fn new(meta: ReplyMeta) -> Self {
        let (content, results, pieces) = (Vec::new(), Vec::new(), Vec::new());
        Self { meta, content, results, pieces, usage: None, finish: None, begun: false, steps: 0 }
    }

    pub(super) fn meta(&self) -> &ReplyMeta {
        &self.meta
    }

    /// How many records of it were handed on.
    pub(super) fn steps(&self) -> u32 {
        self.steps
    }

    pub(super) fn is_empty(&self) -> bool {
        self.content.is_empty() && self.usage.is_none() && self.finish.is_none()
    }

    pub(super) fn text(&mut self, text: String) {
        if !text.is_empty() {
            self.content.push(AssistantBlock::Text { text });
        }
    }

    /// A part for which we have no words: it keeps its place.
    pub(super) fn unknown(&mut self, raw: &RawValue) {
        self.pieces.push(RawPiece::of(self.content.len(), raw));
        self.content.push(AssistantBlock::Unknown);
    }

    /// A part that is no part of what was said.
    pub(super) fn beside(&mut self, raw: &RawValue) {
        self.pieces.push(RawPiece::beside(self.content.len(), raw));
    }

    /// A piece of reasoning; `raw`, where it is of the first engine.
    pub(super) fn thinking(&mut self, part: Part<'_>, raw: Option<&RawValue>) {
        let (signature, redacted) = seal(part.metadata.or(part.provider_metadata));
        let text = part.text.unwrap_or_default();
        if !text.is_empty() || signature.is_some() {
            let provider = self.meta.model.provider.as_str();
            if signature.is_none() || !matches!(provider, "anthropic" | "gemini") {
                let at = self.content.len();
                self.pieces.extend(raw.map(|raw| RawPiece::of(at, raw)));
            }
            self.content.push(AssistantBlock::Thinking { text, signature, redacted });
        }
    }

    /// The step's end: what it cost and why it ended.
    pub(super) fn ended(&mut self, tokens: Option<Tokens>, finish: Option<String>) {
        self.usage = tokens.and_then(Tokens::usage).or(self.usage);
        self.finish = finish.or(self.finish.take());
    }

    /// A call, with its result if it has one.
    pub(super) fn call(&mut self, id: String, name: String, part: Part<'_>, out: &mut Emitter<'_>) {
        let state = part.state.unwrap_or_default();
        let arguments = arguments(&state);
        self.begun |= !is_streaming(&state);
        self.content.push(AssistantBlock::call(&id, &name, &arguments));
        let origin = Origin { id: part.id.or(Some(id.clone())), ..self.meta.origin.clone() };
        let told = Told::of(state.metadata.or(state.structured));
        missing_output(&told, &state, &origin, out);
        let Some((content, is_error, pieces)) = answer(&state, &told) else { return };
        let time = state.time.or(part.time).unwrap_or_default();
        let outcome = self.outcome(&state, &told, is_error);
        let (established, whole) = (Established::Origin, None);
        let message = ToolMessage {
            call_id: id,
            call_seq: None,
            name,
            content,
            whole,
            is_error,
            outcome,
            established,
            background: None,
        };
        let at = at(time.end.or(time.completed));
        let cleared = time.compacted.or(time.pruned).is_some();
        let task = told.todos.as_deref().filter(|_| !is_error).map(task);
        let child = told.session_id;
        self.results.push(Answer { message, pieces, at, origin, cleared, task, child });
    }

    fn outcome(&self, state: &State<'_>, told: &Told<'_>, is_error: bool) -> Outcome {
        let exit = told.exit.map(RawValue::get);
        // A killed command has no exit status, and is kept as completed.
        let killed = self.meta.aborted && exit == Some("null");
        match () {
            () if killed || told.interrupted == Some(true) => Outcome::Stopped,
            () if was_interrupted(state) => Outcome::Unknown,
            () if is_error || exit.is_some_and(|exit| exit != "0" && exit != "null") => {
                Outcome::Failed
            }
            () => Outcome::Done,
        }
    }

    /// Hands on what there is: the reply, then its results. What follows is another reply.
    pub(super) fn flush(&mut self, thread: &mut Thread, out: &mut Emitter<'_>) -> Seq {
        let content = std::mem::take(&mut self.content);
        let usage = self.usage.take();
        let finish = self.finish.take();
        let begun = std::mem::take(&mut self.begun) && !self.meta.failed;
        let message = AssistantMessage {
            stop: self.stop(finish.as_deref(), begun),
            partial: !begun && (self.meta.failed || !self.meta.completed),
            usage,
            ..AssistantMessage::new(&self.meta.model, content)
        };
        let calls: Vec<_> = message.calls().map(|c| (c.id.clone(), c.name.clone())).collect();
        let is_refused = self.meta.failed && !message.content.is_empty();
        let meta = Meta {
            parent: thread.tip,
            at: self.meta.at,
            origin: self.meta.origin.clone(),
            response: self.response().filter(|_| usage.is_some()),
            pieces: std::mem::take(&mut self.pieces),
            ..Meta::default()
        };
        self.steps += 1;
        let seq = out.record(Body::Message(Box::new(Message::Assistant(message))), meta);
        thread.tip = Some(seq);
        for (id, name) in calls {
            thread.calls.call(&id, &name, seq, &self.meta.origin);
        }
        for answer in std::mem::take(&mut self.results) {
            hand_on(answer, thread, out);
        }
        if is_refused {
            // OpenCode sends nothing of a reply that failed.
            let edit =
                ContextEdit { target: seq, edit: "omit".to_owned(), ..ContextEdit::default() };
            out.record(Body::ContextEdit(edit), Meta::default());
        }
        seq
    }

    fn response(&self) -> Option<String> {
        let response = self.meta.response.as_ref()?;
        Some(match self.steps {
            0 => response.clone(),
            step => format!("{response}#{step}"),
        })
    }

    fn stop(&self, finish: Option<&str>, begun: bool) -> StopReason {
        match finish {
            Some("tool-calls") | None if begun => StopReason::ToolUse,
            _ if self.meta.aborted && !begun => StopReason::Stopped,
            _ if self.meta.failed || (!self.meta.completed && finish.is_none()) => {
                StopReason::Broken
            }
            Some("stop") | None => StopReason::End,
            Some("tool-calls") => StopReason::ToolUse,
            Some("length") => StopReason::Length,
            Some("content-filter") => StopReason::Refusal,
            Some(_) => StopReason::Other,
        }
    }
}

fn hand_on(answer: Answer, thread: &mut Thread, out: &mut Emitter<'_>) {
    let Answer { mut message, pieces, at, origin, cleared, task, child } = answer;
    let call_id = message.call_id.clone();
    let call = thread.calls.result(&call_id, &origin, out);
    message.call_seq = call.map(|(seq, _)| seq);
    let meta = |parent| Meta { parent, at, origin: origin.clone(), ..Meta::default() };
    let told = Meta { pieces, ..meta(thread.tip) };
    let seq = out.record(Body::Message(Box::new(Message::Tool(message))), told);
    thread.tip = Some(seq);
    if cleared {
        let content = vec![Block::text(CLEARED)];
        let edit = ContextEdit {
            target: seq,
            edit: "replace".to_owned(),
            content,
            ..ContextEdit::default()
        };
        out.record(Body::ContextEdit(edit), meta(None));
    }
    if let Some(child) = child {
        let ended = Child::new(child, &call_id, ChildState::Ended);
        out.record(Body::Child(ended), meta(None));
    }
    if let Some(task) = task {
        out.record(Body::Task(task.clone()), meta(None));
        thread.task = Some(task);
    }
}

/// The arguments as they were written; when the call was killed while they came, as far as they had come.
fn arguments(state: &State<'_>) -> String {
    let input = state.input.map_or("{}", |raw| raw.get());
    if is_streaming(state) {
        if let Some(raw) = state.raw.as_ref().filter(|raw| !raw.is_empty()) {
            return raw.clone();
        }
        // The second engine keeps the text itself.
        if let Ok(text) = serde_json::from_str::<String>(input) {
            return text;
        }
    }
    compact(input)
}

/// Whether the arguments are not whole yet: the call was not begun.
fn is_streaming(state: &State<'_>) -> bool {
    state.status == "pending" || state.status == "streaming"
}

/// An export is indented; the arguments are as the model wrote them without that.
fn compact(json: &str) -> String {
    if !json.contains('\n') {
        return json.to_owned();
    }
    let (mut string, mut escaped) = (false, false);
    let keep = |c: &char| {
        let quote = *c == '"' && !escaped;
        escaped = string && *c == '\\' && !escaped;
        string ^= quote;
        string || !c.is_ascii_whitespace()
    };
    json.chars().filter(keep).collect()
}

/// What the model is shown, whether as an error, and what our terms do not hold of it; none while there is no result.
fn answer(state: &State<'_>, told: &Told<'_>) -> Option<(Vec<Block>, bool, Vec<RawPiece>)> {
    let mut content = Vec::new();
    let is_error = match state.status.as_str() {
        "completed" => {
            content.extend(state.output.clone().map(Block::text));
            false
        }
        "error" => match told.output.as_ref().filter(|_| told.interrupted == Some(true)) {
            Some(output) => {
                content.push(Block::text(output.clone()));
                false
            }
            None => {
                content.extend(state.error.map(|error| Block::text(error_text(error.get()))));
                true
            }
        },
        _ => return None,
    };
    let given = state.content.iter().chain(&state.attachments).flatten();
    let mut pieces = Vec::new();
    for part in given {
        pieces.extend(file(content.len(), part));
        content.push(block(part));
    }
    Some((content, is_error, pieces))
}

fn error_text(json: &str) -> String {
    let text = serde_json::from_str::<String>(json);
    text.or_else(|_| {
        let fault = serde_json::from_str::<super::shape::Fault>(json);
        fault.map(|fault| fault.message.unwrap_or_default())
    })
    .unwrap_or_default()
}

/// The second engine ends the calls of a process that died so; nobody looked at what became of them.
fn was_interrupted(state: &State<'_>) -> bool {
    state.status == "error"
        && state.error.is_some_and(|error| {
            let text = error_text(error.get());
            text.starts_with("Tool execution interrupted") || error.get().contains("\"aborted\"")
        })
}

/// A text, or a file that was attached.
pub(super) fn block(part: &Part<'_>) -> Block {
    if let Some(text) = &part.text {
        return Block::text(text.clone());
    }
    let mime = part.mime.clone().unwrap_or_default();
    match data_of_image(part) {
        Some(data) => Block::Image { media_type: mime, data: Text::Inline(data.to_owned()) },
        None => {
            let name = part.filename.as_deref().or(part.name.as_deref()).unwrap_or("file");
            Block::text(format!("[Attached {mime}: {name}]"))
        }
    }
}

/// A file of which our terms hold only the name, as the first engine writes it.
pub(super) fn file(at: usize, part: &Part<'_>) -> Option<RawPiece> {
    if !is_named_only(part) {
        return None;
    }
    let mime = part.mime.as_deref().unwrap_or_default();
    let whole = || Some(format!("data:{mime};base64,{}", part.data.as_ref()?));
    let url = part.url.clone().or_else(|| part.uri.clone()).or_else(whole)?;
    let name = part.filename.as_deref().or(part.name.as_deref());
    let file = json!({ "type": "file", "mime": mime, "filename": name, "url": url });
    let json = serde_json::value::to_raw_value(&file).ok()?;
    Some(RawPiece { at, beside: false, json })
}

/// Whether the block of a part only says that something is there.
pub(super) fn is_named_only(part: &Part<'_>) -> bool {
    part.text.is_none() && data_of_image(part).is_none()
}

fn data_of_image<'a>(part: &'a Part<'_>) -> Option<&'a str> {
    part.mime.as_deref().filter(|mime| mime.starts_with("image/"))?;
    let inline = part.url.as_deref().or(part.uri.as_deref()).and_then(base64_of);
    part.data.as_deref().or(inline)
}

fn base64_of(url: &str) -> Option<&str> {
    url.strip_prefix("data:")?.split_once(";base64,").map(|(_, data)| data)
}

/// A todo list as a task.
pub(super) fn task(todos: &[super::shape::Todo]) -> Task {
    let step = |todo: &super::shape::Todo| TaskStep {
        text: todo.content.clone(),
        status: match todo.status.as_str() {
            "completed" => StepStatus::Done,
            "in_progress" => StepStatus::InProgress,
            "cancelled" => StepStatus::Dropped,
            _ => StepStatus::Pending,
        },
    };
    Task { steps: todos.iter().map(step).collect(), ..Task::default() }
}

/// The whole output of a call whose result is a cut of it lies in a file; an export does not bring it.
fn missing_output(told: &Told<'_>, state: &State<'_>, at: &Origin, out: &mut Emitter<'_>) {
    let paths = state.output_paths.iter().flatten().chain(&told.output_path);
    if paths.map(Path::new).any(|path| path.is_absolute() && !path.exists()) {
        let sentence = "The whole output of a call lies in a file that is not there.";
        let done = "The cut of it that the session holds is shown.";
        out.found("missing-output", Severity::Note, at, sentence, done);
    }
}
