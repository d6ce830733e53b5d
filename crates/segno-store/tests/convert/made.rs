//! Sessions of ours with everything that a session can hold, made by chance from a seed.

use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Body, BranchSummary, Compaction, CompactionState,
    ContextEdit, Custom, Established, Message, ModelRef, Outcome, StopReason, Text, ToolMessage,
    Usage, UserMessage,
};
use segno_model::{Envelope, Record, Seq, Timestamp};
use segno_store::convert::Session;
use segno_store::foreign::pos;
use segno_testkit::sessions::Rng;
use serde_json::value::RawValue;

const MODELS: [(&str, &str); 3] =
    [("anthropic", "claude-opus-5-5"), ("openai", "gpt-5.1-codex"), ("gemini", "gemini-3-pro")];

/// A session of about `steps` records.
pub(crate) fn session(seed: u64, steps: usize) -> Session {
    let mut maker = Maker { rng: Rng::new(seed), records: Vec::new(), tip: None, open: Vec::new() };
    maker.prompt();
    for _ in 0..steps {
        maker.step();
    }
    Session {
        source: "segno".to_owned(),
        id: format!("made-{seed}"),
        named: seed.is_multiple_of(3).then(|| "a kiln \"quoted\"".to_owned()),
        titled: None,
        cwd: "/srv/kiln.d/a_b".to_owned(),
        branch: Some("main".to_owned()),
        commit: None,
        created: Some(at(0)),
        tip: maker.tip,
        records: maker.records,
        ..Session::default()
    }
}

fn at(seq: Seq) -> Timestamp {
    Timestamp(1_790_000_000_000 + i64::try_from(seq).expect("small") * 1371)
}

struct Maker {
    rng: Rng,
    records: Vec<Record>,
    tip: Option<Seq>,
    /// Calls of the last reply without a result: the record, the id, the tool.
    open: Vec<(Seq, String, String)>,
}

impl Maker {
    fn push(&mut self, body: Body) -> Seq {
        // Numbers have gaps, as where records are damaged.
        let last = self.records.last().map_or(0, Record::seq);
        let seq = last + 1 + u64::from(self.rng.below(12) == 0);
        let parent = self.tip.filter(|_| body.is_node());
        let kind = body.kind().to_owned();
        let envelope = Envelope { seq, parent, parent_at: None, at: at(seq), kind, synced: None };
        let record = Record::loose(envelope, body);
        if record.is_node() {
            self.tip = Some(seq);
        }
        self.records.push(record);
        seq
    }

    fn step(&mut self) {
        match self.rng.below(16) {
            0..=2 => self.prompt(),
            3..=6 => self.reply(),
            7..=9 => self.result(),
            10 => self.compaction(),
            11 => self.go_back(),
            12 => self.edit(),
            13 => self.notice(),
            14 => self.branch_summary(),
            _ => {
                let data = RawValue::from_string("{\"a\":1}".to_owned()).expect("JSON");
                let context = (self.rng.below(2) == 0).then(|| self.words());
                self.push(Body::Custom(Custom { name: "acme.review".to_owned(), data, context }));
            }
        }
    }

    fn words(&mut self) -> String {
        const WORDS: [&str; 12] = [
            "glaze the pot",
            "\u{2028}line",
            "tab\there",
            "ünï¢ode 🎵",
            "\"quoted\" \\ back",
            "a\nb\n",
            "</session_history>",
            "{\"json\":[1]}",
            "nul\u{0}byte",
            "/not-a-command but",
            "rm -rf build",
            "Exit code: 3",
        ];
        let many = 1 + self.rng.below(3);
        let words: Vec<&str> = (0..many).map(|_| WORDS[self.rng.below(WORDS.len())]).collect();
        format!("say {} {}", self.records.len(), words.join(" "))
    }

    fn content(&mut self) -> Vec<Block> {
        let mut content = vec![Block::text(self.words())];
        match self.rng.below(6) {
            0 => content.push(Block::Image {
                media_type: "image/png".to_owned(),
                data: Text::Inline("iVBORw0KGgo=".to_owned()),
            }),
            1 => content.push(Block::text(self.words())),
            2 => content.insert(0, Block::text("  ")),
            _ => {}
        }
        content
    }

    fn message(&mut self, message: Message) -> Seq {
        self.push(Body::Message(Box::new(message)))
    }

    fn prompt(&mut self) {
        let content = self.content();
        self.message(Message::User(UserMessage { content, ..UserMessage::default() }));
    }

    fn notice(&mut self) {
        let words = self.words();
        self.message(Message::User(UserMessage::notice("instructions", words)));
    }

    fn reply(&mut self) {
        let (provider, id) = MODELS[self.rng.below(MODELS.len())];
        let mut content = Vec::new();
        if self.rng.below(3) == 0 {
            let signature = (self.rng.below(3) > 0).then(|| "c2lnbmVk".to_owned());
            let text = if self.rng.below(4) == 0 { String::new() } else { self.words() };
            let redacted = text.is_empty() && signature.is_some();
            content.push(AssistantBlock::Thinking { text, signature, redacted });
        }
        if self.rng.below(4) > 0 {
            content.push(AssistantBlock::text(self.words()));
        }
        let calls = self.rng.below(4);
        content.extend((0..calls).map(|n| self.call(n)).collect::<Vec<_>>());
        if self.rng.below(5) == 0 {
            content.push(AssistantBlock::text(self.words()));
        }
        let mut reply = AssistantMessage::new(&ModelRef::new(provider, id), content);
        if self.rng.below(8) == 0 {
            (reply.partial, reply.stop) = (true, StopReason::Broken);
        }
        reply.usage = (self.rng.below(3) > 0).then(|| Usage {
            input: 10 + self.rng.next_u64() % 1000,
            output: 1 + self.rng.next_u64() % 500,
            cache_read: self.rng.next_u64() % 300,
            ..Usage::default()
        });
        reply.endpoint = (self.rng.below(9) == 0).then(|| "0123456789abcdef".to_owned());
        let calls: Vec<_> =
            reply.calls().map(|call| (call.id.clone(), call.name.clone())).collect();
        let broken = reply.partial;
        let seq = self.message(Message::Assistant(reply));
        self.open =
            calls.into_iter().filter(|_| !broken).map(|(id, name)| (seq, id, name)).collect();
    }

    fn call(&mut self, n: usize) -> AssistantBlock {
        let id = match self.rng.below(8) {
            0 => String::new(),
            1 => "again".to_owned(),
            2 => "x".repeat(90) + &self.records.len().to_string(),
            _ => format!("call_{}_{n}", self.records.len()),
        };
        let (name, arguments) = match self.rng.below(7) {
            0 => ("bash", "{\"command\":\"ls -l\",\"timeout\":90}"),
            1 => ("read", "{\"path\":\"src/main.rs\",\"limit\":20}"),
            2 => ("edit", "{\"path\":\"a\",\"old_text\":\"b\",\"new_text\":\"c\"}"),
            3 => ("mcp__forge__weld", "{\"a\":{\"b\":[1,2,{\"c\":null}]}}"),
            4 => ("bash", "{\"command\": \"cut o"),
            5 => ("grep", "[1,2]"),
            _ => ("write", "{\"path\":\"a b\",\"content\":\"x\\ny\"}"),
        };
        AssistantBlock::call(&id, name, arguments)
    }

    fn result(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.rng.below(self.open.len());
        // Some are answered twice.
        let (call, id, name) = match self.rng.below(6) {
            0 => self.open[at].clone(),
            _ => self.open.remove(at),
        };
        let is_error = self.rng.below(5) == 0;
        let content = if self.rng.below(9) == 0 { Vec::new() } else { self.content() };
        self.message(Message::Tool(ToolMessage {
            call_id: id,
            call_seq: Some(call),
            name,
            content,
            whole: None,
            is_error,
            outcome: if is_error { Outcome::Failed } else { Outcome::Done },
            established: Established::Observed,
            background: None,
        }));
    }

    /// The nodes on the way to the tip.
    fn path(&self) -> Vec<Seq> {
        let tree = segno_model::tree::Tree::new(&self.records);
        tree.path(self.tip).iter().map(|record| record.seq()).collect()
    }

    fn compaction(&mut self) {
        let path = self.path();
        let mut compaction = Compaction::marker(CompactionState::Done, None);
        compaction.summary = Some(Text::Inline(format!("SUMMARY {}", self.words())));
        compaction.tokens_before = Some(1000 + self.rng.next_u64() % 1000);
        if self.rng.below(3) > 0 {
            let first = path[self.rng.below(path.len())];
            compaction.first_kept = Some(pos(first));
        }
        if self.rng.below(3) == 0 {
            compaction.kept =
                path.iter().filter(|_| self.rng.below(5) == 0).map(|s| pos(*s)).collect();
        }
        self.push(Body::Compaction(Box::new(compaction)));
        self.open.clear();
    }

    fn go_back(&mut self) {
        let path = self.path();
        self.tip = Some(path[self.rng.below(path.len())]);
        self.open.clear();
    }

    fn edit(&mut self) {
        let path = self.path();
        let target = path[self.rng.below(path.len())];
        let mut edit = ContextEdit { target, edit: "omit".to_owned(), ..ContextEdit::default() };
        if self.rng.below(2) == 0 {
            edit.edit = "replace".to_owned();
            edit.content = vec![Block::text(self.words())];
        }
        self.push(Body::ContextEdit(edit));
    }

    fn branch_summary(&mut self) {
        let seqs: Vec<Seq> = self.records.iter().filter(|r| r.is_node()).map(Record::seq).collect();
        let from = pos(seqs[self.rng.below(seqs.len())]);
        let summary = Text::Inline(self.words());
        self.push(Body::BranchSummary(BranchSummary { summary, from }));
    }
}
