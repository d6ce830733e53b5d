//! Converting, reading again, and putting a context as text.

use segno_model::Seq;
use segno_model::context::{self, Context, ContextMessage};
use segno_model::record::Usage;
use segno_model::record::{AssistantBlock, Block};
use segno_store::convert::{
    Blobs, Converted, LossKind, Losses, NoBlobs, Options, Part, Piece, Said, Session, Transcript,
    Turn, convert, new_id, tool_for,
};
use segno_store::foreign::{Agent, Located, View, recognise};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every file below a folder of the corpus.
pub(crate) fn files(name: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders =
        vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus").join(name)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the corpus") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// A session of the corpus with its subagents, if the file is one and something was said in it.
pub(crate) fn session(path: &Path) -> Option<Session> {
    let located = recognise(path).ok()?;
    let view = View::transcript(&located).ok()?;
    Some(Session::of_view(located.agent, view))
}

/// Converts with an id of its own.
pub(crate) fn converted(session: &Session, target: Agent, blobs: &dyn Blobs) -> Option<Converted> {
    let options = Options { id: new_id(session, target), ..Options::default() };
    convert(session, target, &options, blobs).ok()
}

/// Writes the files below `root` and reads the session as its agent's reader does.
pub(crate) fn read_again(converted: &Converted, target: Agent, root: &Path) -> View {
    for file in &converted.whole() {
        let path = root.join(&file.path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, &file.bytes).expect("a file");
    }
    let located: Located =
        recognise(&root.join(&converted.files[0].path)).expect("it is recognised");
    assert_eq!(located.agent, target);
    View::transcript(&located).expect("it is read")
}

/// The kinds of what was lost of the session itself.
pub(crate) fn lost(converted: &Converted) -> BTreeSet<LossKind> {
    let own = converted.losses.iter().filter(|loss| loss.subagent.is_none());
    own.map(|loss| loss.kind).collect()
}

/// The context of a session, without the agent's own notices that a conversion leaves out.
pub(crate) fn context(session: &Session, converted: &Converted) -> Context {
    let tip = session.tip.map(|seq: Seq| segno_store::foreign::pos(seq));
    let mut context = context::build(&session.records, tip);
    let own = converted.losses.iter().filter(|loss| loss.subagent.is_none());
    let left_out = own.filter(|loss| loss.kind == LossKind::Surroundings);
    let left_out: Vec<Seq> = left_out.flat_map(|loss| loss.records.clone()).collect();
    let stays = |message: &ContextMessage| match message {
        ContextMessage::User { seq, .. } => !left_out.contains(seq),
        _ => true,
    };
    context.messages.retain(stays);
    context
}

/// A context as lines, with the tools under the names that they have in `target`, and without ids, notices
/// that stand for nothing, white space around texts, and what is lost anyway.
pub(crate) fn lines(
    context: &Context,
    (source, target): (&str, Agent),
    lost: &BTreeSet<LossKind>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for message in &context.messages {
        match message {
            ContextMessage::User { content, .. } => {
                lines.extend(texts(content).into_iter().map(|text| format!("user: {text}")));
            }
            ContextMessage::Assistant(turn) => {
                lines.extend(turn.content.iter().filter_map(|block| said(block, source, target)));
            }
            ContextMessage::State(_) => {}
            ContextMessage::Results(results) => {
                for result in results {
                    let told = result.is_error && !lost.contains(&LossKind::Failures);
                    let failed = if told { "failed" } else { "result" };
                    // Some agents hold one text, and images beside it.
                    let (images, words): (Vec<_>, Vec<_>) =
                        texts(&result.content).into_iter().partition(|t| is_image(t));
                    let words = words.join("\n").replace("\n\n", "\n");
                    lines.push(format!("{failed}: {words}"));
                    if !lost.contains(&LossKind::Images) {
                        lines.extend(images.iter().map(|image| format!("{failed}: {image}")));
                    }
                }
            }
        }
    }
    let is_lost = |line: &String| {
        line.starts_with("user: (Segno: ")
            || lost.contains(&LossKind::Thinking) && line.starts_with("thinking: ")
            || lost.contains(&LossKind::Images) && line.contains(": [image/")
    };
    lines.retain(|line| !is_lost(line));
    lines
}

fn said(block: &AssistantBlock, source: &str, target: Agent) -> Option<String> {
    match block {
        AssistantBlock::Text { text } => Some(format!("assistant: {}", text.trim())),
        AssistantBlock::Thinking { text, .. } => Some(format!("thinking: {}", text.trim())),
        AssistantBlock::ToolCall(call) => {
            let arguments: Map<String, Value> = match serde_json::from_str(&call.arguments) {
                Ok(arguments) => arguments,
                Err(_) if call.arguments.is_empty() => Map::new(),
                Err(_) => Map::from_iter([("arguments".to_owned(), call.arguments.clone().into())]),
            };
            let (name, arguments) = tool_for(source, target, &call.name, &arguments);
            Some(format!("call: {name} {}", Value::from(arguments)))
        }
        AssistantBlock::Unknown => None,
    }
}

fn texts(content: &[Block]) -> Vec<String> {
    let text = |block: &Block| match block {
        Block::Text { text } => {
            let text = text.head().trim();
            let interrupted = text.contains("The outcome of this call is unknown");
            if interrupted { "(unknown)".to_owned() } else { text.to_owned() }
        }
        Block::Image { media_type, data } => format!("[{media_type} {}]", data.head().len()),
        Block::Unknown => "(content of an unknown kind)".to_owned(),
    };
    content.iter().map(text).collect()
}

fn is_image(text: &str) -> bool {
    text.starts_with("[image/")
}

/// How the lines of a context differ. Where the summary tells what it keeps, only what follows is compared.
pub(crate) fn differ(
    before: &[String],
    after: &[String],
    lost: &BTreeSet<LossKind>,
    what: &str,
) -> Option<String> {
    let told = lost.contains(&LossKind::Kept);
    if before == after || told && before.ends_with(after.get(1..)?) {
        return None;
    }
    let at = before.iter().zip(after).take_while(|(b, a)| b == a).count();
    let (before, after) = (before.get(at), after.get(at));
    Some(format!("{what}, line {at}:\n  {before:?}\n  {after:?}"))
}

/// No blobs.
pub(crate) fn none() -> NoBlobs {
    NoBlobs
}

/// Everything on the current path as lines, from before summaries too: who said it, when, with which model and
/// what it cost, without what is lost anyway, and without the records `copies`.
pub(crate) fn told(
    session: &Session,
    names: (&str, Agent),
    lost: &BTreeSet<LossKind>,
    copies: &BTreeSet<Seq>,
) -> Vec<String> {
    let transcript = Transcript::of(session, names.1, &NoBlobs, &mut Losses::default());
    let turns = transcript.path().filter(|(_, turn)| !copies.contains(&turn.seq));
    turns.flat_map(|(_, turn)| turn_lines(turn, names, lost)).collect()
}

fn turn_lines(
    turn: &Turn,
    (source, target): (&str, Agent),
    lost: &BTreeSet<LossKind>,
) -> Vec<String> {
    let of = |kind| !lost.contains(&kind);
    // OpenCode orders by times, so that they only go up there.
    let at = Some(turn.at).filter(|_| target != Agent::OpenCode).unwrap_or_default();
    match &turn.said {
        Said::User { parts, notice } => {
            let who = if notice.is_some() && of(LossKind::Notices) { "notice" } else { "user" };
            vec![format!("{at} {who}: {}", parts_line(parts, lost))]
        }
        Said::BranchSummary { framed, .. } => {
            let who = if of(LossKind::Notices) { "notice" } else { "user" };
            vec![format!("{at} {who}: {}", framed.replace("\n\n", "\n"))]
        }
        Said::Compaction { summary, .. } => {
            // Some agents can only tell what is kept.
            let summary = summary.split(KEPT).next().unwrap_or_default();
            vec![format!("summary: {}", summary.trim())]
        }
        Said::Reply(reply) => {
            // Agents have different names for one provider.
            let model = reply.model.to_string().replace("gemini/", "google/");
            let named = |m: &String| !m.ends_with('/') && !m.ends_with("/unknown");
            let model = Some(model).filter(|m| of(LossKind::Models) && named(m));
            let usage = reply.usage.filter(|usage| *usage != Usage::default());
            let usage = usage.filter(|_| of(LossKind::Usage));
            let mut lines = vec![format!("reply of {model:?} for {usage:?}")];
            for piece in &reply.pieces {
                match piece {
                    Piece::Text(text) => lines.push(format!("assistant: {}", text.trim())),
                    Piece::Thinking { text, .. } if of(LossKind::Thinking) => {
                        lines.push(format!("thinking: {text}"));
                    }
                    Piece::Thinking { .. } => {}
                    Piece::Call(call) => {
                        let (name, arguments) =
                            tool_for(source, target, &call.name, &call.arguments);
                        lines.push(format!("call: {name} {}", Value::from(arguments)));
                    }
                    Piece::Raw(raw) => lines.push(format!("its own: {}", bare(raw))),
                }
            }
            for call in reply.calls() {
                let failed = call.answer.is_error && of(LossKind::Failures);
                lines.push(format!(
                    "result, failed {failed}: {}",
                    parts_line(&call.answer.parts, lost)
                ));
            }
            lines
        }
    }
}

/// What begins what a summary tells as kept.
const KEPT: &str = "\n\nKept word for word";

fn parts_line(parts: &[Part], lost: &BTreeSet<LossKind>) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) if text.contains("The outcome of this call is unknown") => {
            Some("?".to_owned())
        }
        Part::Text(text) => Some(text.trim().to_owned()),
        Part::Image { media_type, data } => {
            let kept = !lost.contains(&LossKind::Images);
            kept.then(|| format!("[{media_type} {}]", data.len()))
        }
        Part::Document(document) => Some(format!("[document of {}]", document.data.len())),
        Part::Raw(raw) => Some(format!("[document of {}]", longest(raw))),
    };
    parts.iter().filter_map(part).collect::<Vec<_>>().join("\n").replace("\n\n", "\n")
}

/// A piece as it stands in an agent's file, without the ids that each session gives anew.
pub(crate) fn bare(piece: &Value) -> Value {
    let mut piece = piece.clone();
    for id in ["id", "sessionID", "messageID"] {
        if let Some(piece) = piece.as_object_mut() {
            piece.remove(id);
        }
    }
    piece
}

/// How long the longest text in a value is: what a document holds, however an agent keeps it.
fn longest(value: &Value) -> usize {
    match value {
        Value::String(text) => text.rsplit(";base64,").next().unwrap_or_default().len(),
        Value::Array(all) => all.iter().map(longest).max().unwrap_or_default(),
        Value::Object(all) => all.values().map(longest).max().unwrap_or_default(),
        _ => 0,
    }
}

/// The context at the end of each branch beside the current path; nothing where they are lost.
pub(crate) fn branches(
    session: &Session,
    names: (&str, Agent),
    lost: &BTreeSet<LossKind>,
) -> Vec<String> {
    if lost.contains(&LossKind::Branches) {
        return Vec::new();
    }
    let transcript = Transcript::of(session, names.1, &NoBlobs, &mut Losses::default());
    let parents: BTreeSet<usize> = transcript.turns.iter().filter_map(|turn| turn.parent).collect();
    let ends = transcript
        .turns
        .iter()
        .enumerate()
        .filter(|(at, turn)| !turn.active && !parents.contains(at));
    let context = |(_, turn): (usize, &Turn)| {
        let tip = Some(segno_store::foreign::pos(turn.seq));
        let lines = lines(&context::build(&session.records, tip), names, lost);
        // What is told as kept is not looked at.
        if lost.contains(&LossKind::Kept) {
            "a branch".to_owned()
        } else {
            lines.join(
                "
",
            )
        }
    };
    let mut branches: Vec<String> = ends.map(context).collect();
    branches.sort();
    branches
}
