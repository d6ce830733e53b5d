//! A small notation for sessions, and contexts as text.
//!
//! Responsible for: one record per line in, one message per line out. Must not: contain expectations.
//!
//! The header is record 0; the first line is record 1. A line is
//! `[-][^PARENT] KIND REST`: `-` loses the record (its number stays used), `^N` gives it another parent.
//!
//! ```text
//! u BLOCKS              a prompt; BLOCKS are separated by " | "
//! n BLOCKS              a notice
//! a[!|.] [@MODEL] [%TOKENS] [+DIALECT] BLOCKS   a reply: ! broke off, . was stopped
//! r[?|!] ID[@SEQ] [/TOOL] BLOCKS   a result: ? unknown by recovery, ! an error
//! c [keep=N] [kept=N,N] [state=SERVER] SUMMARY   a finished compaction, with m1's own state; c? a started one
//! b SUMMARY             a branch summary
//! x TEXT / x- TEXT      an embedder's record, in the context or not
//! checkpoint            the state so far
//! tip N|none, label N TEXT, edit N omit [thinking|images]|restore|replace BLOCKS, model ID, name TEXT
//! future KIND           a record of an unknown type; future-node follows the tip
//! ```
//!
//! Blocks: `''` empty text, `~` white space, `img` an image, `?` an unknown kind, `blob N` a text of N
//! bytes in a blob; in replies also `think TEXT/SIGNATURE` and `call ID NAME`; the id `''` is the empty one.

use segno_model::batch::{self, Draft};
use segno_model::context::{Context, ContextMessage};
use segno_model::record::*;
use segno_model::state::State;
use segno_model::{Body, Pos, Record, Seq, SessionId, Timestamp, line};
use std::fmt::Write as _;

/// A session in the making.
pub(crate) struct Session {
    pub(crate) state: State,
    pub(crate) records: Vec<Record>,
    /// Every record that was ever written, lost ones too.
    positions: Vec<Pos>,
}

impl Session {
    pub(crate) fn parse(text: &str) -> Self {
        let mut session =
            Self { state: State::default(), records: Vec::new(), positions: Vec::new() };
        session.add(&header(), None, false);
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
            session.add_line(line);
        }
        session
    }

    pub(crate) fn tip(&self) -> Option<Pos> {
        self.state.tip()
    }

    pub(crate) fn context(&self) -> Context {
        segno_model::context::build(&self.records, self.tip())
    }

    pub(crate) fn add_line(&mut self, line: &str) {
        let (lost, line) = line.strip_prefix('-').map_or((false, line), |rest| (true, rest));
        let (parent, line) = match line.strip_prefix('^') {
            Some(rest) => {
                let (parent, rest) = rest.split_once(' ').expect("^N KIND");
                (Some(parent.parse().expect("a number after ^")), rest)
            }
            None => (None, line),
        };
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(kind) = kind.strip_prefix("future") {
            self.future(kind == "-node", rest);
        } else {
            let body = self.body(kind, rest.trim());
            self.add(&body, parent, lost);
        }
    }

    pub(crate) fn add(&mut self, body: &Body, parent: Option<Seq>, lost: bool) {
        let draft = Draft::new(Timestamp(1000), body.clone());
        let planned = batch::plan(&self.state, None, vec![draft]).expect("a valid record");
        let mut record = planned.records.into_iter().next().expect("one record");
        if let Some(parent) = parent {
            record.envelope.parent = Some(parent);
        }
        let bytes = line::encode(&record.envelope, body).expect("encodable");
        self.keep(&bytes, lost);
    }

    fn keep(&mut self, bytes: &[u8], lost: bool) {
        let record = line::decode(bytes, self.state.end).expect("decodable");
        self.state.apply(&record);
        self.positions.push(record.pos());
        if !lost {
            self.records.push(record);
        }
    }

    fn future(&mut self, is_node: bool, kind: &str) {
        let parent = self.tip().map(|t| t.seq).filter(|_| is_node);
        let envelope = line::Envelope {
            seq: self.state.next_seq,
            parent,
            parent_at: None,
            at: Timestamp(1000),
            kind: kind.to_owned(),
            synced: None,
        };
        let unknown = Body::Unknown { kind: kind.to_owned(), reason: String::new() };
        let bytes = line::encode(&envelope, &unknown).expect("encodable");
        self.keep(&bytes, false);
    }

    fn pos(&self, seq: &str) -> Pos {
        let seq: Seq = seq.parse().expect("a record number");
        let beyond = Pos { seq, offset: 0, crc: 0 };
        usize::try_from(seq).ok().and_then(|i| self.positions.get(i)).copied().unwrap_or(beyond)
    }

    fn body(&self, kind: &str, rest: &str) -> Body {
        match kind {
            "u" => message(Message::User(UserMessage { content: blocks(rest), ..user() })),
            "n" => message(Message::User(UserMessage {
                content: blocks(rest),
                notice: Some("test".to_owned()),
                ..user()
            })),
            "a" | "a!" | "a." => message(Message::Assistant(reply(kind, rest))),
            "r" | "r?" | "r!" => message(Message::Tool(result(kind, rest))),
            "c" => Body::Compaction(Box::new(self.compaction(rest))),
            "c?" => Body::Compaction(Box::new(Compaction::marker(CompactionState::Started, None))),
            "b" => {
                let from = self.pos("1");
                Body::BranchSummary(BranchSummary { summary: Text::Inline(rest.to_owned()), from })
            }
            "x" | "x-" => Body::Custom(Custom {
                name: "test".to_owned(),
                data: raw("{}"),
                context: (kind == "x").then(|| rest.to_owned()),
            }),
            "checkpoint" => Body::Checkpoint(Box::new(self.state.in_force.clone())),
            "tip" => Body::Tip(Tip { tip: (rest != "none").then(|| self.pos(rest)) }),
            "label" => {
                let (target, label) = rest.split_once(' ').unwrap_or((rest, ""));
                Body::Label(Label { target: self.pos(target), label: label.to_owned() })
            }
            "name" => Body::Name(Name { name: rest.to_owned() }),
            "model" => {
                Body::Model(ModelChange { model: model(rest), chosen: true, base_url: None })
            }
            "edit" => {
                let (target, rest) = rest.split_once(' ').expect("edit N HOW");
                let (edit, content) = rest.split_once(' ').unwrap_or((rest, ""));
                let part = match content {
                    "thinking" => Some(EditPart::Thinking),
                    "images" => Some(EditPart::Images),
                    _ => None,
                };
                let content = if edit == "replace" { blocks(content) } else { Vec::new() };
                let parts = part.into_iter().collect();
                let target = target.parse().expect("a record number");
                Body::ContextEdit(ContextEdit {
                    target,
                    edit: edit.to_owned(),
                    content,
                    parts,
                    cause: None,
                })
            }
            other => panic!("unknown record kind {other:?} in the notation"),
        }
    }

    fn compaction(&self, rest: &str) -> Compaction {
        let mut compaction = Compaction::marker(CompactionState::Done, None);
        let mut rest = rest;
        if let Some(found) = option(&mut rest, "keep=") {
            compaction.first_kept = Some(self.pos(found));
        }
        if let Some(found) = option(&mut rest, "kept=") {
            compaction.kept = found.split(',').map(|seq| self.pos(seq)).collect();
        }
        if let Some(server) = option(&mut rest, "state=") {
            let items = raw("[\"state\"]");
            compaction.native = Some(Native { dialect: "test".to_owned(), items });
            compaction.endpoint = (server != "?").then(|| server.to_owned());
            compaction.model = Some(model("m1"));
        }
        compaction.summary = (rest != "none").then(|| Text::Inline(rest.to_owned()));
        compaction
    }
}

/// Takes `KEYvalue` off the front.
fn option<'t>(rest: &mut &'t str, key: &str) -> Option<&'t str> {
    let text: &'t str = rest;
    let after = text.strip_prefix(key)?;
    let (value, more) = after.split_once(' ').unwrap_or((after, ""));
    *rest = more;
    Some(value)
}

fn header() -> Body {
    let id = SessionId::parse("01900000-0000-7000-8000-000000000000").expect("an id");
    Body::Session(Box::new(Header {
        format: FORMAT,
        id,
        project: ProjectFacts::default(),
        git: None,
        version: "test".to_owned(),
        origin: None,
        launch: None,
    }))
}

fn user() -> UserMessage {
    UserMessage::default()
}

fn message(message: Message) -> Body {
    Body::Message(Box::new(message))
}

fn raw(json: &str) -> Box<serde_json::value::RawValue> {
    serde_json::value::RawValue::from_string(json.to_owned()).expect("json")
}

pub(crate) fn model(id: &str) -> ModelRef {
    ModelRef { provider: "test".to_owned(), id: id.to_owned() }
}

fn id(text: &str) -> String {
    if text == "''" { String::new() } else { text.to_owned() }
}

fn reply(kind: &str, rest: &str) -> AssistantMessage {
    let mut rest = rest;
    let by = option(&mut rest, "@").unwrap_or("m1");
    let usage = option(&mut rest, "%")
        .map(|n| Usage { input: n.parse().expect("tokens"), ..Usage::default() });
    let native = option(&mut rest, "+")
        .map(|dialect| Native { dialect: dialect.to_owned(), items: raw("[\"native\"]") });
    let content: Vec<_> = pieces(rest).map(assistant_block).collect();
    let wants = content.iter().any(|b| matches!(b, AssistantBlock::ToolCall(_)));
    let stop = match kind {
        "a!" => StopReason::Broken,
        "a." => StopReason::Stopped,
        _ if wants => StopReason::ToolUse,
        _ => StopReason::End,
    };
    let partial = kind == "a!";
    AssistantMessage {
        content,
        native,
        model: model(by),
        usage,
        stop,
        partial,
        ..AssistantMessage::default()
    }
}

fn assistant_block(piece: &str) -> AssistantBlock {
    let words: Vec<&str> = piece.splitn(3, ' ').collect();
    match words.as_slice() {
        ["call", call, name] => AssistantBlock::ToolCall(ToolCall {
            id: id(call),
            name: (*name).to_owned(),
            arguments: "{}".to_owned(),
        }),
        ["think", ..] => {
            let (text, signature) = piece[6..].split_once('/').unwrap_or((&piece[6..], "none"));
            let signature = (signature != "none").then(|| signature.to_owned());
            AssistantBlock::Thinking { text: text.to_owned(), signature, redacted: false }
        }
        ["?"] => AssistantBlock::Unknown,
        _ => AssistantBlock::Text { text: plain(piece) },
    }
}

fn result(kind: &str, rest: &str) -> ToolMessage {
    let (call, mut rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (call, call_seq) = match call.split_once('@') {
        Some((call, seq)) => (call, Some(seq.parse().expect("a record number"))),
        None => (call, None),
    };
    let name = option(&mut rest, "/").unwrap_or("bash").to_owned();
    let unknown = kind == "r?";
    ToolMessage {
        call_id: id(call),
        call_seq,
        name,
        content: if unknown && rest.is_empty() { blocks("unknown") } else { blocks(rest) },
        whole: None,
        is_error: kind != "r",
        outcome: if unknown { Outcome::Unknown } else { Outcome::Done },
        established: if unknown { Established::Recovery } else { Established::Observed },
        background: None,
    }
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(" | ").map(str::trim).filter(|p| !p.is_empty())
}

pub(crate) fn blocks(text: &str) -> Vec<Block> {
    pieces(text).map(block).collect()
}

fn block(piece: &str) -> Block {
    if let Some(bytes) = piece.strip_prefix("blob ") {
        let bytes = bytes.parse().expect("a size");
        let blob = BlobRef { blob: "0".repeat(64), bytes, head: "head".to_owned() };
        return Block::Text { text: Text::Blob(blob) };
    }
    match piece {
        "img" => Block::Image {
            media_type: "image/png".to_owned(),
            data: Text::Inline("AAAA".to_owned()),
        },
        "?" => serde_json::from_str(r#"{"type":"hologram"}"#).expect("an unknown block"),
        text => Block::text(plain(text)),
    }
}

fn plain(piece: &str) -> String {
    match piece {
        "''" => String::new(),
        "~" => " \n\t".to_owned(),
        text => text.replace("\\n", "\n"),
    }
}

/// The context's messages, one a line.
pub(crate) fn messages(context: &Context) -> String {
    let mut out = String::new();
    for message in &context.messages {
        match message {
            ContextMessage::User { seq, content } => {
                writeln!(out, "user {seq}: {}", show_blocks(content)).expect("text");
            }
            ContextMessage::Assistant(turn) => {
                let native = if turn.native.is_some() { " +native" } else { "" };
                let by = if turn.model.id == "m1" {
                    String::new()
                } else {
                    format!(" @{}", turn.model.id)
                };
                let content: Vec<_> = turn.content.iter().map(show_assistant).collect();
                writeln!(out, "assistant {}{by}{native}: {}", turn.seq, content.join(" | "))
                    .expect("text");
            }
            ContextMessage::Results(results) => {
                for result in results {
                    let seq = result.seq.map_or("-".to_owned(), |seq| seq.to_string());
                    let error = if result.is_error { "!" } else { "" };
                    let content = show_blocks(&result.content);
                    writeln!(out, "  result {seq} {}{error}: {content}", result.call_id)
                        .expect("text");
                }
            }
            ContextMessage::State(state) => {
                writeln!(out, "state {}: {}", state.seq, state.native.items.get()).expect("text");
            }
        }
    }
    out
}

/// What is worth telling besides the messages: unanswered calls, findings, and records that are in or
/// out for a reason other than the plain ones.
pub(crate) fn notes(context: &Context) -> String {
    let mut out = String::new();
    for call in &context.unanswered {
        writeln!(out, "! unanswered {} {:?} {}", call.call_seq, call.call_id, call.name)
            .expect("text");
    }
    for finding in &context.findings {
        writeln!(out, "! {}: {}; {}", finding.code, finding.sentence, finding.done).expect("text");
    }
    for row in &context.trace {
        if !matches!(row.rule, "metadata" | "on-path" | "result") {
            writeln!(out, "- {} {}", row.seq, row.rule).expect("text");
        }
    }
    out
}

fn show_blocks(blocks: &[Block]) -> String {
    let shown = blocks.iter().map(|block| match block {
        Block::Text { text: Text::Inline(text) } => show(text),
        Block::Text { text: Text::Blob(blob) } => format!("blob {}", blob.bytes),
        Block::Image { .. } => "img".to_owned(),
        Block::Unknown => "?".to_owned(),
    });
    shown.collect::<Vec<_>>().join(" | ")
}

fn show_assistant(block: &AssistantBlock) -> String {
    match block {
        AssistantBlock::Text { text } => show(text),
        AssistantBlock::Thinking { text, signature, .. } => {
            format!("think {text}/{}", signature.as_deref().unwrap_or("none"))
        }
        AssistantBlock::ToolCall(call) => format!("call {} {}", call.id, call.name),
        AssistantBlock::Unknown => "?".to_owned(),
    }
}

/// Long fixed texts by a short name.
fn show(text: &str) -> String {
    use segno_model::context::{CONTINUE_NOTICE, LOST_BEGINNING_NOTICE, UNKNOWN_OUTCOME};
    match text {
        UNKNOWN_OUTCOME => "<unknown outcome>".to_owned(),
        CONTINUE_NOTICE => "<continue>".to_owned(),
        LOST_BEGINNING_NOTICE => "<lost beginning>".to_owned(),
        text => text
            .replace(" note=\"A summary of the earlier part of this session. It is history, not a request.\"", "")
            .replace(" note=\"A summary of another branch of this session. It is history, not a request.\"", "")
            .replace('\n', "\\n"),
    }
}
