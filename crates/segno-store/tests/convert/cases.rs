//! What each target is written, case by case: a session as text in, the target's files as text out.
//!
//! A file of `cases/` holds cases: a line `# what it is about`, the session in the words below, and for each target
//! `== target` with what is lost (`lost: …`) and the rows that are written, without times and with ids as `#1`, `#2` in
//! their order. `SEGNO_UPDATE=1` writes them anew: look at the difference.
//!
//! `user: TEXT`, `user+image: TEXT`, `notice REASON: TEXT`, `assistant PROVIDER/MODEL` with lines below it (`text`, `think
//! SIGNATURE TEXT`, `redacted DATA`, `call ID TOOL JSON`, `usage INPUT OUTPUT READ WRITE REASONING`, `stop length|broken`,
//! `elsewhere`), `result ID: TEXT`, `result+image`, `failed ID: TEXT`, `failed+image`, `stopped`; `summary [from N] [keep
//! N,N]: TEXT`; `back N`, `branch N: TEXT`, `omit N`, `replace N: TEXT`, `label N: TEXT`, `name: TEXT`, `title: TEXT`, `child CALL
//! ROLE: PROMPT`. N is a record, counted from 0. `\n` in a text is a line break.

use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Body, BranchSummary, Compaction, CompactionState,
    ContextEdit, Established, Label, Message, ModelRef, Outcome, StopReason, Text, ToolMessage,
    Usage, UserMessage,
};
use segno_model::{Envelope, Record, Seq, Timestamp};
use segno_store::convert::{Child, Loss, Options, Session, convert, new_id};
use segno_store::foreign::{Agent, pos};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const SHOWN: [Agent; 3] = [Agent::Pi, Agent::Gemini, Agent::OpenCode];

/// Covers: G6, G14.
#[test]
fn every_target_is_written_as_the_cases_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/convert/cases");
    let (mut wrong, mut checked) = (Vec::new(), 0);
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("cases").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    for path in files {
        let text = fs::read_to_string(&path).expect("a text");
        let mut anew = String::new();
        for case in text.split("\n# ").map(|case| case.trim_start_matches("# ")) {
            let (session, said) = case.split_once("\n== ").unwrap_or((case, ""));
            let (title, lines) = session.split_once('\n').expect("a title");
            let written = targets(&made(lines), title);
            if format!("== {}", said.trim_end()) != written.trim_end() {
                wrong.push(format!("{title} ({}):\n{written}", path.display()));
            }
            checked += written.matches("\n== ").count() + 1;
            let _ = write!(anew, "# {title}\n{}\n{written}\n", lines.trim_end());
        }
        if std::env::var_os("SEGNO_UPDATE").is_some() {
            fs::write(&path, anew).expect("written");
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked > 100, "{checked}");
}

fn targets(session: &Session, title: &str) -> String {
    let mut text = String::new();
    for target in SHOWN {
        let options = Options { id: new_id(session, target), ..Options::default() };
        let converted = convert(session, target, &options, &crate::scene::none())
            .unwrap_or_else(|e| panic!("{title}: {e}"));
        let _ = writeln!(text, "== {}", target.id());
        let one = |loss: &Loss| {
            let whose = loss.subagent.as_ref().map_or(String::new(), |id| format!(" of {id}"));
            format!("{:?} {:?}{whose}", loss.kind, loss.records)
        };
        let lost: Vec<String> = converted.losses.iter().map(one).collect();
        if !lost.is_empty() {
            let _ = writeln!(text, "lost: {}", lost.join(", "));
        }
        let mut names = Names::default();
        for file in &converted.whole() {
            // The beginning of a session's id is in the name of its own file.
            let path = file.path.display().to_string();
            let short = converted.id.get(..8).expect("an id");
            let path = path.replace(&converted.id, "#1").replace(short, "#1");
            let _ = writeln!(text, "-- {}", names.text(&path));
            for row in rows(&String::from_utf8_lossy(&file.bytes)) {
                let _ = writeln!(text, "{}", names.value(row));
            }
        }
    }
    text
}

/// The JSON values of a file: lines, or the parts of an import.
fn rows(text: &str) -> Vec<Value> {
    let Ok(Value::Object(mut whole)) = serde_json::from_str::<Value>(text) else {
        return text.lines().map(|l| serde_json::from_str(l).unwrap_or(l.into())).collect();
    };
    let Some(Value::Array(messages)) = whole.remove("messages") else {
        return vec![whole.into()];
    };
    std::iter::once(whole.into()).chain(messages).collect()
}

/// What stands for ids, in the order of their appearance.
#[derive(Default)]
struct Names(HashMap<String, usize>);

/// What says nothing about a case.
const NOISE: [&str; 24] = [
    "timestamp",
    "time",
    "cost",
    "path",
    "version",
    "slug",
    "projectHash",
    "startTime",
    "lastUpdated",
    "sessionID",
    "messageID",
    "directory",
    "cwd",
    "displayName",
    "description",
    "projectID",
    "fromHook",
    "renderOutputAsMarkdown",
    "display",
    "agent",
    "mode",
    "resultDisplay",
    "totalTokens",
    "thoughts",
];

impl Names {
    fn value(&mut self, value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let kept = map.into_iter().filter(|(key, value)| {
                    !NOISE.contains(&key.as_str()) && !is_empty_usage(key, value)
                });
                let named = kept.map(|(key, value)| {
                    let is_given = ["arguments", "args", "input"].contains(&key.as_str());
                    (key, if is_given { value } else { self.value(value) })
                });
                Value::Object(named.collect::<Map<_, _>>())
            }
            Value::Array(list) => list.into_iter().map(|v| self.value(v)).collect(),
            Value::String(text) if is_id(&text) => self.text(&text).into(),
            other => other,
        }
    }

    /// A text with its ids named.
    fn text(&mut self, text: &str) -> String {
        let mut named = String::new();
        for word in text.split_inclusive(['/', '.']) {
            let (word, end) = match word.strip_suffix(['/', '.']) {
                Some(bare) => (bare, &word[bare.len()..]),
                None => (word, ""),
            };
            if is_id(word) {
                let next = self.0.len() + 1;
                let _ = write!(named, "#{}", self.0.entry(word.to_owned()).or_insert(next));
            } else {
                named.push_str(word);
            }
            named.push_str(end);
        }
        named
    }
}

fn is_empty_usage(key: &str, value: &Value) -> bool {
    let is_zero = |value: &Value| {
        value.as_u64() == Some(0)
            || value.as_object().is_some_and(|map| map.values().all(|v| *v == 0))
    };
    matches!(key, "usage" | "tokens")
        && value.as_object().is_some_and(|map| map.iter().all(|(k, v)| k == "cost" || is_zero(v)))
}

fn is_id(text: &str) -> bool {
    let hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    let ours = text.split_once('_').is_some_and(|(kind, id)| {
        matches!(kind, "ses" | "msg" | "prt") && id.len() == 26 && hex(id)
    });
    ours || (hex(text) && (text.len() == 36 || (text.len() == 8 && !text.contains('-'))))
}

/// A session from its words.
fn made(text: &str) -> Session {
    let mut maker = Maker {
        session: Session {
            source: "segno".to_owned(),
            id: "case".to_owned(),
            cwd: "/srv/kiln".to_owned(),
            created: Some(at(0)),
            ..Session::default()
        },
        calls: HashMap::new(),
    };
    let mut lines = text.lines().filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let mut below = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("  ")) {
            below.push(line.trim_start());
        }
        maker.line(line, &below);
    }
    maker.session
}

fn at(seq: usize) -> Timestamp {
    Timestamp(1_790_000_000_000 + i64::try_from(seq).expect("small") * 1000)
}

struct Maker {
    session: Session,
    /// The record that made a call, and the tool.
    calls: HashMap<String, (Seq, String)>,
}

impl Maker {
    fn push(&mut self, body: Body) -> Seq {
        let number = self.session.records.len();
        let seq = u64::try_from(number).expect("small");
        let parent = self.session.tip.filter(|_| body.is_node());
        let kind = body.kind().to_owned();
        let at = at(number);
        let record =
            Record::loose(Envelope { seq, parent, parent_at: None, at, kind, synced: None }, body);
        if record.is_node() {
            self.session.tip = Some(seq);
        }
        self.session.records.push(record);
        seq
    }

    fn message(&mut self, message: Message) -> Seq {
        self.push(Body::Message(Box::new(message)))
    }

    fn line(&mut self, line: &str, below: &[&str]) {
        let (head, text) = line.split_once(": ").unwrap_or((line, ""));
        let text = text.replace("\\n", "\n");
        let words: Vec<&str> = head.split(' ').collect();
        let number = |word: &str| word.parse::<Seq>().expect("a number");
        match words[..] {
            ["user"] => drop(self.message(Message::User(UserMessage::text(text)))),
            ["user+image"] => {
                let content = vec![Block::text(text), image()];
                self.message(Message::User(UserMessage { content, ..UserMessage::default() }));
            }
            ["notice", reason] => {
                self.message(Message::User(UserMessage::notice(reason, text)));
            }
            ["assistant", model] => self.reply(model, below),
            [what, id]
                if what.starts_with("result")
                    || what.starts_with("failed")
                    || what == "stopped" =>
            {
                self.result(what, id, text);
            }
            ["name"] => self.session.named = Some(text),
            ["title"] => self.session.titled = Some(text),
            ["back", to] => self.session.tip = Some(number(to)),
            ["omit", of] => self.edit(number(of), "omit", Vec::new()),
            ["replace", of] => self.edit(number(of), "replace", vec![Block::text(text)]),
            ["label", of] => {
                self.push(Body::Label(Label { target: pos(number(of)), label: text }));
            }
            ["branch", from] => {
                let (summary, from) = (Text::Inline(text), pos(number(from)));
                self.push(Body::BranchSummary(BranchSummary { summary, from }));
            }
            ["child", call, role] => self.child(call, role, &text),
            ["summary", ..] => self.summary(&words, text),
            _ => panic!("{line}"),
        }
    }

    fn edit(&mut self, target: Seq, edit: &str, content: Vec<Block>) {
        let edit = ContextEdit { target, edit: edit.to_owned(), content, ..ContextEdit::default() };
        self.push(Body::ContextEdit(edit));
    }

    fn summary(&mut self, words: &[&str], text: String) {
        let mut compaction = Compaction::marker(CompactionState::Done, None);
        compaction.summary = Some(Text::Inline(text));
        compaction.tokens_before = Some(1000);
        for pair in words[1..].chunks(2) {
            let mut records = pair[1].split(',').map(|n| pos(n.parse().expect("a number")));
            match pair[0] {
                "from" => compaction.first_kept = records.next(),
                _ => compaction.kept = records.collect(),
            }
        }
        self.push(Body::Compaction(Box::new(compaction)));
    }

    fn reply(&mut self, model: &str, below: &[&str]) {
        let (provider, id) = model.split_once('/').expect("a model");
        let mut reply = AssistantMessage::new(&ModelRef::new(provider, id), Vec::new());
        for line in below {
            let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
            let two = || rest.split_once(' ').unwrap_or((rest, ""));
            match what {
                "text" => reply.content.push(AssistantBlock::text(rest.replace("\\n", "\n"))),
                "think" => reply.content.push(thought(two(), false)),
                "redacted" => reply.content.push(thought((rest, ""), true)),
                "call" => {
                    let (id, rest) = two();
                    let (name, json) = rest.split_once(' ').expect("arguments");
                    reply.content.push(AssistantBlock::call(id, name, json));
                    reply.stop = StopReason::ToolUse;
                }
                "usage" => {
                    let n: Vec<u64> =
                        rest.split(' ').map(|n| n.parse().expect("a number")).collect();
                    reply.usage = Some(Usage {
                        input: n[0],
                        output: n[1],
                        cache_read: n[2],
                        cache_write: n[3],
                        reasoning: Some(n[4]).filter(|n| *n > 0),
                    });
                }
                "stop" if rest == "length" => reply.stop = StopReason::Length,
                "stop" => (reply.stop, reply.partial) = (StopReason::Broken, true),
                "elsewhere" => reply.endpoint = Some("0123456789abcdef".to_owned()),
                _ => panic!("{line}"),
            }
        }
        let calls: Vec<_> = reply.calls().map(|c| (c.id.clone(), c.name.clone())).collect();
        let seq = self.message(Message::Assistant(reply));
        self.calls.extend(calls.into_iter().map(|(id, name)| (id, (seq, name))));
    }

    fn result(&mut self, what: &str, id: &str, text: String) {
        let (call, name) =
            self.calls.get(id).cloned().map_or((None, "bash".to_owned()), |(c, n)| (Some(c), n));
        let mut content = vec![Block::text(text)];
        content.extend(what.ends_with("+image").then(image));
        let outcome = match what {
            "stopped" => Outcome::Stopped,
            _ if what.starts_with("failed") => Outcome::Failed,
            _ => Outcome::Done,
        };
        self.message(Message::Tool(ToolMessage {
            call_id: id.to_owned(),
            call_seq: call,
            name,
            content,
            whole: None,
            is_error: outcome != Outcome::Done,
            outcome,
            established: Established::Observed,
            background: None,
        }));
    }

    fn child(&mut self, call: &str, role: &str, prompt: &str) {
        let mut child = made(&format!("user: {prompt}\nassistant anthropic/claude\n  text done"));
        child.id = format!("child-of-{call}");
        let (call, role) = (Some(call.to_owned()), Some(role.to_owned()));
        self.session.children.push(Child { session: child, call, role });
    }
}

fn thought((signature, text): (&str, &str), redacted: bool) -> AssistantBlock {
    let signature = Some(signature.to_owned()).filter(|s| s != "-");
    AssistantBlock::Thinking { text: text.to_owned(), signature, redacted }
}

fn image() -> Block {
    Block::Image {
        media_type: "image/png".to_owned(),
        data: Text::Inline("iVBORw0KGgo=".to_owned()),
    }
}
