//! Builds logs from a small text language and prints judgements as text.
//!
//! Responsible for: keeping tests to text in, text out. Must not: judge.
//!
//! A script has one directive per line. `header`, `user TEXT`, `say TEXT`, `call TEXT ID,ID`,
//! `result ID SEQ`, `name TEXT`, `custom TEXT`, `checkpoint`, `tip SEQ|none`, `compact FIRST|none
//! [KEPT,KEPT]`, `edit SEQ omit|restore` write a record; `sync` makes everything before it durable.
//! A word before a record damages it: `lost`, `cut N` (its first N bytes and a line end), `stub N` (the
//! same without a line end), `smash` (all its bytes), `flip BYTE.BIT` (BYTE may be negative), `alter`, `noend`, `crlf`, `hold` (written by `release`).
//! `sealed JSON` writes any JSON with a good checksum.
//! `raw TEXT`, `bytes HEX`, `nul N`, `blank`, `nl`, `again SEQ`, `conflict SEQ`, `foreign SEQ`,
//! `chop N` (take N bytes off the end) write or take bytes. `repair [ACCEPTED...]` opens the log as a
//! store would, sets its tail aside, and appends a repair of all damage; `reopen` only sets aside.
#![allow(dead_code, unreachable_pub)]

use segno_model::batch::{self, Draft};
use segno_model::id::{Pos, Seq, SessionId};
use segno_model::line::{self, Envelope, Record};
use segno_model::record::*;
use segno_model::state::State;
use segno_model::{Body, Timestamp, active, judge};
use std::fmt::Write as _;

pub const ID: &str = "01900000-0000-7000-8000-000000000001";

#[derive(Default)]
pub struct Log {
    pub bytes: Vec<u8>,
    pub state: State,
    pub synced: Option<Seq>,
    pub records: Vec<Record>,
    pub ends: Vec<usize>,
    pub held: Vec<u8>,
}

pub fn header() -> Body {
    Body::Session(Box::new(Header {
        format: FORMAT,
        id: SessionId::parse(ID).unwrap(),
        project: ProjectFacts { cwd: "/home/me/project".into(), ..ProjectFacts::default() },
        git: None,
        version: "0.1.0".into(),
        origin: None,
        launch: None,
    }))
}

pub fn user(text: &str) -> Body {
    Body::Message(Box::new(Message::User(UserMessage::text(text))))
}

pub fn say(text: &str, calls: &[&str]) -> Body {
    let mut content = vec![AssistantBlock::Text { text: text.into() }];
    content.extend(calls.iter().map(|id| {
        let (id, name) = ((*id).to_owned(), "bash".to_owned());
        AssistantBlock::ToolCall(ToolCall { id, name, arguments: "{}".into() })
    }));
    Body::Message(Box::new(Message::Assistant(AssistantMessage {
        content,
        ..AssistantMessage::default()
    })))
}

pub fn result(call_id: &str, call_seq: Option<Seq>) -> Body {
    Body::Message(Box::new(Message::Tool(ToolMessage {
        call_id: call_id.into(),
        call_seq,
        name: "bash".into(),
        content: vec![Block::text("ok")],
        whole: None,
        is_error: false,
        outcome: Outcome::Done,
        established: Established::Observed,
        background: None,
    })))
}

pub fn custom(text: &str) -> Body {
    let data = serde_json::value::RawValue::from_string("{}".into()).unwrap();
    Body::Custom(Custom { name: "test".into(), data, context: Some(text.into()) })
}

impl Log {
    pub fn parse(script: &str) -> Self {
        let mut log = Self::default();
        for directive in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            log.directive(directive);
        }
        log
    }

    pub fn pos(&self, seq: Seq) -> Pos {
        self.records.iter().find(|r| r.seq() == seq).unwrap().pos()
    }

    /// Plans a record on the log as it should be and gives its line.
    pub fn plan(&mut self, body: Body) -> Vec<u8> {
        let synced = self.synced.filter(|_| self.state.next_seq > 0);
        let batch =
            batch::plan(&self.state, synced, vec![Draft::new(Timestamp(1000), body)]).unwrap();
        batch.apply_to(&mut self.state);
        self.records.extend(batch.records);
        batch.bytes
    }

    pub fn add(&mut self, body: Body) {
        let line = self.plan(body);
        self.bytes.extend(line);
        self.ends.push(self.bytes.len());
    }

    fn directive(&mut self, text: &str) {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "sync" => self.synced = self.state.next_seq.checked_sub(1),
            "raw" => self.bytes.extend(rest.bytes().chain([b'\n'])),
            "bytes" => {
                self.bytes.extend(rest.split(' ').map(|b| u8::from_str_radix(b, 16).unwrap()));
            }
            "nul" => self.bytes.extend(vec![0; rest.parse().unwrap()]),
            "blank" => self.bytes.extend(b"  \n"),
            "nl" => self.bytes.push(b'\n'),
            "release" => self.bytes.append(&mut self.held),
            "chop" => {
                self.bytes.truncate(self.bytes.len().saturating_sub(rest.parse().unwrap()));
            }
            "sealed" => self.sealed(rest),
            "repair" => self.reopen(Some(rest)),
            "reopen" => self.reopen(None),
            "again" => {
                let seq: Seq = rest.parse().unwrap();
                let line = self.records.iter().find(|r| r.seq() == seq).unwrap().line.clone();
                self.bytes.extend(line.iter().chain(b"\n"));
            }
            "conflict" | "foreign" => self.bytes.extend(other_record(rest.parse().unwrap())),
            _ => self.record(word, rest),
        }
    }

    fn record(&mut self, word: &str, rest: &str) {
        let one = |rest: &str| {
            let (arg, body) = rest.split_once(' ').unwrap();
            (arg.to_owned(), body.to_owned())
        };
        let end = |line: &mut Vec<u8>, end: &[u8]| {
            line.pop();
            line.extend_from_slice(end);
        };
        match word {
            "lost" => drop(self.plan_text(rest)),
            "hold" => self.held = self.plan_text(rest),
            "cut" | "stub" => {
                let (n, body) = one(rest);
                let mut line = self.plan_text(&body);
                line.truncate(n.parse().unwrap());
                self.bytes.extend(line);
                self.bytes.extend((word == "cut").then_some(b'\n'));
            }
            "flip" => {
                let (place, body) = one(rest);
                let (byte, bit) = place.split_once('.').unwrap();
                let mut line = self.plan_text(&body);
                let byte: i64 = byte.parse().unwrap();
                let at = if byte < 0 { line.len() as i64 + byte } else { byte };
                line[usize::try_from(at).unwrap()] ^= 1 << bit.parse::<u8>().unwrap();
                self.bytes.extend(line);
            }
            "smash" => {
                let line = self.plan_text(rest);
                self.bytes.extend(vec![b'x'; line.len() - 1]);
                self.bytes.push(b'\n');
            }
            "alter" => {
                let line = String::from_utf8(self.plan_text(rest)).unwrap();
                self.bytes.extend(line.replacen("\"at\":\"1970", "\"at\":\"1999", 1).bytes());
            }
            "noend" => {
                let mut line = self.plan_text(rest);
                end(&mut line, b"");
                self.bytes.extend(line);
            }
            "crlf" => {
                let mut line = self.plan_text(rest);
                end(&mut line, b"\r\n");
                self.bytes.extend(line);
            }
            _ => {
                let line = self.plan_text(&format!("{word} {rest}"));
                self.bytes.extend(line);
                self.ends.push(self.bytes.len());
            }
        }
    }

    /// A line of any JSON, with a good checksum, as the next record.
    fn sealed(&mut self, json: &str) {
        let mut line = json.strip_suffix('}').unwrap().as_bytes().to_vec();
        let crc = line::checksum(&line);
        line.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}").as_bytes());
        let record = line::decode(&line, self.state.end).unwrap();
        self.state.apply(&record);
        self.records.push(record);
        self.bytes.extend(line.iter().chain(b"\n"));
    }

    /// What a store does with what a loader found.
    pub fn reopen(&mut self, accept: Option<&str>) {
        let loaded = active::load_bytes(&self.bytes);
        self.bytes.truncate(loaded.content_end as usize);
        self.bytes.extend(loaded.needs_line_end.then_some(b'\n'));
        self.state = loaded.state.clone();
        self.synced = loaded.state.next_seq.checked_sub(1);
        if let Some(accept) = accept {
            let accept: Vec<Seq> = accept.split(' ').filter_map(|w| w.parse().ok()).collect();
            let items = loaded.plan(&accept);
            self.add(Body::Repair(Repair { rule: "test".into(), by_person: true, items }));
        }
    }

    fn plan_text(&mut self, text: &str) -> Vec<u8> {
        let body = self.body(text.trim());
        self.plan(body)
    }

    fn body(&self, text: &str) -> Body {
        let words: Vec<&str> = text.split(' ').collect();
        let pos = |w: &str| w.parse().ok().map(|seq| self.pos(seq));
        match words[0] {
            "header" => header(),
            "user" => user(&words[1..].join(" ")),
            "say" => say(&words[1..].join(" "), &[]),
            "call" => say(words[1], &words[2].split(',').collect::<Vec<_>>()),
            "result" => result(words[1], words[2].parse().ok()),
            "name" => Body::Name(Name { name: words[1..].join(" ") }),
            "custom" => custom(&words[1..].join(" ")),
            "checkpoint" => Body::Checkpoint(Box::new(self.state.in_force.clone())),
            "tip" => Body::Tip(Tip { tip: pos(words[1]) }),
            "edit" => Body::ContextEdit(ContextEdit {
                target: words[1].parse().unwrap(),
                edit: words[2].into(),
                ..ContextEdit::default()
            }),
            "compact" => Body::Compaction(Box::new(Compaction {
                summary: Some(Text::Inline("summary".into())),
                first_kept: pos(words[1]),
                kept: words.get(2).map_or(Vec::new(), |w| w.split(',').filter_map(pos).collect()),
                ..Compaction::marker(CompactionState::Done, None)
            })),
            other => panic!("unknown directive {other}"),
        }
    }
}

/// An intact record that some other log could hold.
pub fn other_record(seq: Seq) -> Vec<u8> {
    let envelope = Envelope {
        seq,
        parent: seq.checked_sub(1),
        parent_at: None,
        at: Timestamp(5),
        kind: "message".into(),
        synced: None,
    };
    let mut line = line::encode(&envelope, &user("elsewhere")).unwrap();
    line.push(b'\n');
    line
}

/// Numbers as ranges: `0-3 5`.
pub fn ranges(seqs: impl IntoIterator<Item = Seq>) -> String {
    let mut runs: Vec<(Seq, Seq)> = Vec::new();
    for seq in seqs {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == seq => *last = seq,
            _ => runs.push((seq, seq)),
        }
    }
    let text = |(first, last): &(Seq, Seq)| {
        if first == last { format!("{first}") } else { format!("{first}-{last}") }
    };
    runs.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// Both judgements of a log: the forward scan, and what resuming finds.
pub fn judgement(bytes: &[u8]) -> String {
    format!("scan: {}\nload: {}\n", scan_text(bytes), load_text(&active::load_bytes(bytes)))
}

/// The judgement of a whole log, forwards: records read, findings by line, tail.
pub fn scan_text(bytes: &[u8]) -> String {
    use segno_model::store::Scanned;
    let (mut seqs, mut findings) = (Vec::new(), String::new());
    for scanned in judge::scan_bytes(bytes) {
        match scanned {
            Scanned::Record(record) => seqs.push(record.seq()),
            Scanned::Finding(f) if f.line.is_none() => {
                write!(findings, "; {} at byte {}", f.code, f.offset.unwrap()).unwrap();
            }
            Scanned::Finding(f) => {
                write!(findings, "; {} in line {}", f.code, f.line.unwrap()).unwrap();
            }
        }
    }
    format!("read {}{findings}", ranges(seqs))
}

/// The judgement for resuming: state, path, records, what blocks.
pub fn load_text(loaded: &active::Loaded) -> String {
    let codes: Vec<_> = loaded.findings.iter().map(|f| f.code).collect();
    let blocks: Vec<_> = loaded.blocking().map(|d| d.finding.code).collect();
    let mut text = format!("next {}; path {}", loaded.state.next_seq, ranges(rev(&loaded.path)));
    let records = ranges(loaded.records.iter().map(Record::seq));
    write!(text, "; records {records}; says {}", codes.join(" ")).unwrap();
    if !blocks.is_empty() {
        write!(text, "; blocked by {}", blocks.join(" ")).unwrap();
    }
    text
}

fn rev(path: &[Seq]) -> Vec<Seq> {
    path.iter().rev().copied().collect()
}
