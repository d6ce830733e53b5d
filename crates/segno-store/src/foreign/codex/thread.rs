//! One session, row by row.
//!
//! Responsible for: what each kind of row does to the session. Must not: open files.

use super::super::calls::Calls;
use super::super::emitter::{Emitter, Meta};
use super::super::item::{Fact, Origin, RawPiece};
use super::super::lines::Object;
use super::ancestry::{Copied, mark};
use super::item::{self, Replay, ReplyPiece, Said, fingerprint};
use super::numbers::{Numbered, Ordinals};
use super::places;
use super::rows::{
    Base, Event, Header, Item, Row, TurnContext, number, object, owned, pieces, text,
};
use super::tokens::{Spent, Totals};
use super::turn::{Doubtful, Prompt, Reply, Turn, Waiting, Written};
use segno_model::finding::Severity;
use segno_model::record::{
    AssistantBlock, AssistantMessage, Block, Child, ChildState, Custom, Message, ModelChange,
    ModelRef, ThinkingChange, ToolMessage, UsageRecord, UserMessage,
};
use segno_model::{Body, Seq, Timestamp};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::path::{Path, PathBuf};

/// A session while it is read.
pub(super) struct Thread {
    pub(super) path: PathBuf,
    /// Whether what is read belongs to a session that this one continues.
    pub(super) base: bool,
    /// The session that counts the tokens.
    pub(super) counting: String,
    pub(super) tip: Option<Seq>,
    pub(super) prompts: Vec<Prompt>,
    pub(super) written: Written,
    pub(super) model: ModelRef,
    /// What a summary cost whose compaction was not read so far.
    pub(super) compacting: Option<Spent>,
    id: Option<String>,
    has_header: bool,
    ordinals: Ordinals,
    copied: Copied,
    copy: bool,
    /// The session that a fork was made of.
    forked: Option<String>,
    turn: Turn,
    reply: Option<Reply>,
    /// A message of which the next row tells whose it is.
    doubtful: Option<Doubtful>,
    /// Items without a counterpart since the last message.
    between: Vec<RawPiece>,
    calls: Calls,
    totals: Totals,
    is_summary: bool,
    effort: Option<String>,
    cwd: Option<String>,
}

/// A line that is being read.
pub(super) struct Line<'a> {
    row: Row<'a>,
    json: &'a str,
    at: Option<Timestamp>,
    origin: Origin,
}

impl Thread {
    /// The session in a file of which nothing was read.
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            base: false,
            counting: String::new(),
            tip: None,
            prompts: Vec::new(),
            written: Written::default(),
            model: ModelRef::new("openai", ""),
            compacting: None,
            id: None,
            has_header: false,
            ordinals: Ordinals::default(),
            copied: Copied::No,
            copy: false,
            forked: None,
            turn: Turn::default(),
            reply: None,
            doubtful: None,
            between: Vec::new(),
            calls: Calls::default(),
            totals: Totals::default(),
            is_summary: false,
            effort: None,
            cwd: None,
        }
    }

    /// The session's id, as its header says it.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The next line belongs to another file, or is the first one after those.
    pub(super) fn begin_anew(&mut self, next: Option<u64>) {
        self.ordinals = Ordinals::default();
        self.ordinals.next = next;
        self.turn = Turn::default();
    }

    /// Whether a line is the output of a call that was not read so far. It is looked at as text: an output may be
    /// long, and is parsed when it is read.
    pub(super) fn is_early(&self, json: &str) -> bool {
        let head = &json.as_bytes()[..json.len().min(300)];
        let has = |text: &[u8]| memchr::memmem::find(head, text).is_some();
        if !has(b"_output\"") || has(b"\"event_msg\"") {
            return false;
        }
        let id = json.split_once("\"call_id\":\"").and_then(|(_, rest)| rest.split('"').next());
        let is_known = |id: &str| {
            self.calls.knows(id) || self.reply.as_ref().is_some_and(|reply| reply.makes(id))
        };
        id.is_some_and(|id| !is_known(id))
    }

    /// Reads a line; false when it is no object.
    pub(super) fn row(&mut self, object: &Object<'_>, out: &mut Emitter<'_>) -> bool {
        let Ok(row) = serde_json::from_str::<Row<'_>>(object.json) else { return false };
        self.decide(Some(&row), out);
        let at = text(row.timestamp).and_then(|time| Timestamp::parse(&time));
        let line = Line { row, json: object.json, at, origin: object.origin.clone() };
        if !self.is_new(&line, out) {
            return true;
        }
        let kind = text(row.kind).unwrap_or_default();
        self.copy = kind != "session_meta" && self.is_copy(&line);
        let known = match (&*kind, row.payload) {
            ("session_meta", Some(payload)) => self.header(&line, payload, out),
            ("response_item", Some(payload)) => self.item(&line, payload, out),
            ("event_msg", Some(payload)) => self.event(&line, payload, out),
            ("turn_context", Some(payload)) => self.settings(&line, payload, out),
            ("compacted", Some(payload)) => self.compacted(&line, payload, out),
            ("token_usage_record", Some(_)) => self.response_tokens(&line, out),
            ("inter_agent_communication", Some(payload)) => self.mail(&line, payload, out),
            ("world_state", Some(payload)) => self.keep_as("world_state", payload, &line, out),
            ("", None) if row.record_type.is_some() => self.keep_whole("state", &line, out),
            ("", None) if row.id.is_some() => self.bare_header(&line, out),
            (_, None) if row.is_bare_item() => self.bare_item(&line, out),
            _ => self.keep_whole(&kind, &line, out),
        };
        if !known {
            let sentence = "The record has a shape that this reader does not know.";
            self.tell(
                "unknown-record",
                Severity::Note,
                &line,
                sentence,
                "It was kept as it is.",
                out,
            );
            self.keep_whole(&kind, &line, out);
        }
        true
    }

    /// The end of the file.
    pub(super) fn finish(&mut self, out: &mut Emitter<'_>) {
        self.end_turn(out);
        self.calls.finish(out);
        if !self.has_header {
            out.facts(places::id_of(&self.path).map(|id| Fact::Id(id.to_owned())));
            let sentence = "The session has no header that can be read.";
            let done = "Its id is taken from the file's name; everything else was read.";
            out.found("missing-header", Severity::Warning, &Origin::default(), sentence, done);
        }
    }

    fn is_new(&mut self, line: &Line<'_>, out: &mut Emitter<'_>) -> bool {
        let is_header = text(line.row.kind).as_deref() == Some("session_meta");
        if is_header && !self.has_header && !self.base && line.row.ordinal.is_some() {
            // A fork's own lines go on with the numbers of its base.
            self.ordinals.next = first_ordinal(line.row.payload);
        }
        match self.ordinals.row(&line.row, line.json) {
            Numbered::Well => true,
            Numbered::Gap(missing) => {
                let sentence = format!("{missing} records are missing before this one.");
                let done = "What is there was read.";
                self.tell("ordinal-gap", Severity::Warning, line, &sentence, done, out);
                true
            }
            Numbered::Late => {
                let sentence = "The record's number is lower than that of one before it.";
                let done = "It was read where it stands.";
                self.tell("ordinal-gap", Severity::Warning, line, sentence, done, out);
                true
            }
            Numbered::Again => {
                let sentence = "The record's number was given to an earlier one, too.";
                self.tell(
                    "duplicate-ordinal",
                    Severity::Note,
                    line,
                    sentence,
                    "Both were read.",
                    out,
                );
                true
            }
            Numbered::Twice => {
                let sentence = "The record stands twice.";
                self.tell(
                    "duplicate-record",
                    Severity::Warning,
                    line,
                    sentence,
                    "It was read once.",
                    out,
                );
                false
            }
        }
    }

    fn is_copy(&mut self, line: &Line<'_>) -> bool {
        if self.base {
            return true;
        }
        let content = line.row.item().map(|item| mark(item.get()));
        let path = &self.path;
        match &self.copied {
            Copied::No => false,
            _ => self.copied.take(line.at, content, path),
        }
    }

    /// What a record of this line carries.
    pub(super) fn meta(&self, line: &Line<'_>) -> Meta {
        // The lines of another file are no place in this one.
        let origin = if self.base { Origin::default() } else { line.origin.clone() };
        Meta { at: line.at, origin, copy: self.copy, inherited: self.copy, ..Meta::default() }
    }

    fn tell(
        &self,
        code: &'static str,
        severity: Severity,
        line: &Line<'_>,
        sentence: &str,
        done: &str,
        out: &mut Emitter<'_>,
    ) {
        if !self.base {
            out.found(code, severity, &line.origin, sentence, done);
        }
    }

    fn fact(&self, fact: Fact, out: &mut Emitter<'_>) {
        if !self.base {
            out.fact(fact);
        }
    }

    /// Hands on what is no message. Behind the reply that is being put together, so that a message has
    /// the number of its first item, however much of the file is there.
    fn aside(&mut self, body: Body, meta: Meta, out: &mut Emitter<'_>) {
        match &mut self.reply {
            Some(reply) => reply.behind.push((body, meta)),
            None => drop(out.record(body, meta)),
        }
    }

    /// Keeps what has no counterpart among our records. Always true, for the table of kinds.
    pub(super) fn keep_as(
        &mut self,
        name: &str,
        data: &RawValue,
        line: &Line<'_>,
        out: &mut Emitter<'_>,
    ) -> bool {
        if line.row.unknown {
            return self.keep_whole(name, line, out);
        }
        self.keep(name, data, line, out);
        true
    }

    fn keep(&mut self, name: &str, data: &RawValue, line: &Line<'_>, out: &mut Emitter<'_>) {
        if !self.base {
            let name = if name.is_empty() { "unknown" } else { name };
            let name = format!("codex.{name}");
            let custom = Custom { name, data: data.to_owned(), context: None };
            self.aside(Body::Custom(custom), self.meta(line), out);
        }
    }

    fn keep_whole(&mut self, name: &str, line: &Line<'_>, out: &mut Emitter<'_>) -> bool {
        if let Ok(whole) = serde_json::from_str(line.json) {
            self.keep(name, whole, line, out);
        }
        true
    }
}

/// Headers, settings, tokens.
impl Thread {
    fn header(&mut self, line: &Line<'_>, payload: &RawValue, out: &mut Emitter<'_>) -> bool {
        let Some(header) = object::<Header<'_>>(Some(payload)) else { return false };
        if self.base || self.has_header {
            // Forks copy the headers of what they come from.
            return self.keep_as("session_meta", payload, line, out);
        }
        self.has_header = true;
        if let Some(provider) = owned(header.provider) {
            self.model.provider = provider;
        }
        self.id = owned(header.id);
        self.counting = self.id.clone().unwrap_or_default();
        self.header_facts(&header, line, out);
        self.keep_as("session_meta", payload, line, out);
        let base = object::<Base<'_>>(header.base);
        let forked =
            owned(header.forked_from).or_else(|| base.as_ref().and_then(|base| owned(base.thread)));
        self.forked.clone_from(&forked);
        self.totals.inherits = forked.is_some();
        if let Some(id) = forked.clone() {
            let up_to = number(header.forked_at)
                .or_else(|| base.as_ref().and_then(|base| number(base.ordinal)));
            let up_to = up_to.and_then(|end| end.checked_sub(1)).map(|last| last.to_string());
            out.fact(Fact::ForkOf { id, up_to });
        }
        match (base, forked) {
            (Some(base), _) => {
                let at = line.origin.clone();
                self.continue_from(&base, &at, out);
                self.ordinals.next =
                    number(line.row.ordinal).map(|ordinal| ordinal.saturating_add(1));
            }
            (None, Some(of)) => {
                let made = text(header.timestamp).and_then(|time| Timestamp::parse(&time));
                self.copied = Copied::Maybe { of, made };
            }
            (None, None) => {}
        }
        true
    }

    fn header_facts(&mut self, header: &Header<'_>, line: &Line<'_>, out: &mut Emitter<'_>) {
        #[derive(Deserialize)]
        struct Git {
            branch: Option<String>,
            commit_hash: Option<String>,
        }
        let git: Option<Git> = object(header.git);
        let paginated =
            text(header.mode).is_some_and(|mode| mode == "paginated") || line.row.ordinal.is_some();
        let format = if paginated { "paginated" } else { "legacy" };
        let created = text(header.timestamp).and_then(|time| Timestamp::parse(&time)).or(line.at);
        let (branch, commit) = git.map_or((None, None), |git| (git.branch, git.commit_hash));
        self.cwd = owned(header.cwd);
        let facts = [
            self.id.clone().map(Fact::Id),
            Some(Fact::Format(format.to_owned())),
            owned(header.version).map(Fact::Version),
            self.cwd.clone().map(Fact::Cwd),
            branch.map(Fact::Branch),
            commit.map(Fact::Commit),
            created.map(Fact::Created),
            parent(header),
        ];
        out.facts(facts.into_iter().flatten());
    }

    fn bare_header(&mut self, line: &Line<'_>, out: &mut Emitter<'_>) -> bool {
        if !self.has_header {
            self.has_header = true;
            self.id = owned(line.row.id);
            self.counting = self.id.clone().unwrap_or_default();
            let facts = [
                self.id.clone().map(Fact::Id),
                Some(Fact::Format("bare".to_owned())),
                line.at.map(Fact::Created),
            ];
            facts.into_iter().flatten().for_each(|fact| self.fact(fact, out));
        }
        self.keep_whole("session_meta", line, out)
    }

    fn settings(&mut self, line: &Line<'_>, payload: &RawValue, out: &mut Emitter<'_>) -> bool {
        #[derive(Deserialize)]
        struct Mode {
            settings: Settings,
        }
        #[derive(Deserialize)]
        struct Settings {
            reasoning_effort: Option<String>,
        }
        let Some(context) = object::<TurnContext<'_>>(Some(payload)) else { return false };
        self.flush(out);
        if let Some(cwd) = owned(context.cwd)
            && self.cwd.as_ref() != Some(&cwd)
        {
            self.fact(Fact::Cwd(cwd.clone()), out);
            self.cwd = Some(cwd);
        }
        if let Some(id) = owned(context.model)
            && id != self.model.id
        {
            self.model.id = id;
            let change = ModelChange { model: self.model.clone(), chosen: false, base_url: None };
            out.record(Body::Model(change), self.meta(line));
        }
        let mode = || object::<Mode>(context.mode).and_then(|mode| mode.settings.reasoning_effort);
        if let Some(level) = owned(context.effort).or_else(mode)
            && self.effort.as_ref() != Some(&level)
        {
            self.effort = Some(level.clone());
            out.record(Body::Thinking(ThinkingChange { level }), self.meta(line));
        }
        self.keep_as("turn_context", payload, line, out)
    }

    fn response_tokens(&mut self, line: &Line<'_>, out: &mut Emitter<'_>) -> bool {
        let Some(spent) = self.totals.response(&line.row) else { return false };
        self.spend(spent, line, out);
        line.row
            .payload
            .is_none_or(|payload| self.keep_as("token_usage_record", payload, line, out))
    }

    fn spend(&mut self, spent: Spent, line: &Line<'_>, out: &mut Emitter<'_>) {
        if std::mem::take(&mut self.is_summary) {
            self.compacting = Some(spent);
            return;
        }
        self.settle(out);
        if let Some(reply) = &mut self.reply {
            reply.spend(spent);
            return self.flush(out);
        }
        self.spend_alone("response", spent, self.meta(line), out);
    }

    fn spend_alone(&self, purpose: &str, spent: Spent, meta: Meta, out: &mut Emitter<'_>) {
        let purpose = purpose.to_owned();
        let record = UsageRecord { purpose, model: self.model.clone(), usage: spent.usage };
        out.record(Body::Usage(record), Meta { response: spent.response, ..meta });
    }
}

/// Who said what.
impl Thread {
    fn item(&mut self, line: &Line<'_>, payload: &RawValue, out: &mut Emitter<'_>) -> bool {
        let Some(item) = object::<Item<'_>>(Some(payload)) else { return false };
        if line.row.metadata.is_some_and(is_summary) {
            self.is_summary = true;
            return self.keep_as("summary", payload, line, out);
        }
        let mut meta = self.meta(line);
        meta.origin.id = owned(item.id);
        let (said, whole) = item::said(&item);
        match said {
            Said::User(user) if item::is_guess(&item, &user) => {
                self.doubtful = Some(Doubtful { user, meta });
            }
            Said::User(user) => self.user(user, meta, out),
            Said::Reply(piece) => self.piece(piece, payload, meta, out),
            Said::Result(result) => self.result(result, meta, out),
            Said::Compacted => return self.keep_as("compaction", payload, line, out),
            Said::Other => {
                self.loose(payload);
                let kind = text(item.kind).unwrap_or_default();
                return self.keep_whole(&kind, line, out);
            }
        }
        // What our terms do not hold is kept beside them.
        whole && !line.row.unknown || self.keep_whole("line", line, out)
    }

    /// Notes an item that has no counterpart: with the reply that is being put together, or what comes next.
    fn loose(&mut self, item: &RawValue) {
        match &mut self.reply {
            Some(reply) => reply.beside(item),
            None => self.between.push(RawPiece::beside(0, item)),
        }
    }

    fn bare_item(&mut self, line: &Line<'_>, out: &mut Emitter<'_>) -> bool {
        let Ok(payload) = serde_json::from_str::<&RawValue>(line.json) else { return false };
        // The wrapper's fields are the item's own here.
        let row = Row { unknown: false, ..line.row };
        let line = Line { row, json: line.json, at: line.at, origin: line.origin.clone() };
        self.item(&line, payload, out)
    }

    /// What another agent sent, for this one to read.
    fn mail(&mut self, line: &Line<'_>, payload: &RawValue, out: &mut Emitter<'_>) -> bool {
        let event = object::<Event<'_>>(Some(payload));
        let Some(words) = event.and_then(|event| owned(event.content)) else { return false };
        self.user(UserMessage::notice("agent", words), self.meta(line), out);
        self.keep_as("inter_agent_communication", payload, line, out)
    }

    /// Hands on the message of which it was not known whose it is.
    fn decide(&mut self, next: Option<&Row<'_>>, out: &mut Emitter<'_>) {
        if let Some(doubtful) = self.doubtful.take() {
            let (user, meta) = doubtful.decided(next);
            self.user(user, meta, out);
        }
    }

    fn user(&mut self, user: UserMessage, meta: Meta, out: &mut Emitter<'_>) {
        let is_prompt = user.notice.is_none();
        if is_prompt {
            self.turn.waiting.retain(|words| !words.is_user);
        }
        self.settle(out);
        self.flush(out);
        let parent = self.tip;
        let seq = self.node(Message::User(user), meta, out);
        if is_prompt {
            let from = self.turn.from.take();
            // What was said before the first prompt stays.
            let back = from.filter(|_| !self.prompts.is_empty()).unwrap_or(parent);
            self.prompts.push(Prompt { seq, back });
            self.turn.has_user = true;
            self.turn.has_agent = false;
        }
    }

    fn piece(&mut self, piece: ReplyPiece, item: &RawValue, meta: Meta, out: &mut Emitter<'_>) {
        if piece.is_message {
            self.turn.has_agent = true;
            self.turn.waiting.retain(|words| words.is_user);
        }
        self.settle(out);
        self.reply.get_or_insert_with(|| Reply::new(meta)).add(piece, Some(item));
    }

    /// Hands on a result, beside the call that it answers.
    pub(super) fn result(&mut self, mut result: ToolMessage, meta: Meta, out: &mut Emitter<'_>) {
        self.settle(out);
        self.flush(out);
        if let Some((seq, name)) = self.calls.result(&result.call_id, &meta.origin, out) {
            (result.call_seq, result.name) = (Some(seq), name);
        }
        self.node(Message::Tool(result), meta, out);
    }

    /// Hands on a whole reply.
    pub(super) fn reply(&mut self, reply: AssistantMessage, meta: Meta, out: &mut Emitter<'_>) {
        let calls: Vec<(String, String)> =
            reply.calls().map(|call| (call.id.clone(), call.name.clone())).collect();
        let origin = meta.origin.clone();
        let seq = self.node(Message::Assistant(reply), meta, out);
        for (id, name) in calls {
            self.calls.call(&id, &name, seq, &origin);
        }
    }

    /// Ends the reply that is being put together.
    pub(super) fn flush(&mut self, out: &mut Emitter<'_>) {
        if let Some(reply) = self.reply.take() {
            let (reply, meta, behind) = reply.done(&self.model);
            self.reply(reply, meta, out);
            for (body, meta) in behind {
                out.record(body, meta);
            }
        }
    }

    /// Hands on a message behind the tip.
    pub(super) fn node(&mut self, message: Message, mut meta: Meta, out: &mut Emitter<'_>) -> Seq {
        let content = fingerprint(&message);
        meta.parent = self.tip;
        meta.pieces.splice(0..0, std::mem::take(&mut self.between));
        let seq = out.record(Body::Message(Box::new(message)), meta);
        self.tip = Some(seq);
        self.written.note(content, seq);
        seq
    }
}

/// Events.
impl Thread {
    fn event(&mut self, line: &Line<'_>, payload: &RawValue, out: &mut Emitter<'_>) -> bool {
        let Some(event) = object::<Event<'_>>(Some(payload)) else { return false };
        let kind = text(event.kind).unwrap_or_default();
        match &*kind {
            "user_message" => self.heard(true, event.message, line, out),
            "agent_message" => self.heard(false, event.message, line, out),
            "token_count" => {
                let original = self.forked.as_ref().filter(|_| self.copy && !self.base);
                let thread = original.unwrap_or(&self.counting);
                if let Some(spent) = self.totals.count(event.info, thread) {
                    self.spend(spent, line, out);
                }
            }
            "task_started" | "turn_started" => self.begin_turn(line, out),
            "task_complete" | "turn_complete" | "turn_aborted" => {
                self.turn.open = None;
                self.end_turn(out);
            }
            "thread_rolled_back" => self.roll_back(number(event.num_turns).unwrap_or(0), out),
            "item_completed" => self.completed(event.item, line, out),
            "thread_name_updated" => {
                let name = owned(event.thread_name).unwrap_or_default();
                self.fact(Fact::Named(name), out);
            }
            "collab_agent_spawn_end" => {
                self.child(owned(event.new_thread), event.call_id, line, out);
            }
            _ => {}
        }
        self.keep_as(&kind, payload, line, out)
    }

    /// The same as an event, in the newer vocabulary.
    fn completed(&mut self, item: Option<&RawValue>, line: &Line<'_>, out: &mut Emitter<'_>) {
        let Some(item) = object::<Event<'_>>(item) else { return };
        match text(item.kind).as_deref() {
            Some("UserMessage") => self.heard(true, item.content, line, out),
            Some("AgentMessage") => self.heard(false, item.content, line, out),
            Some("CollabAgentToolCall") if text(item.tool).as_deref() == Some("spawn_agent") => {
                for child in pieces(item.receivers) {
                    self.child(owned(Some(child)), item.id, line, out);
                }
            }
            _ => {}
        }
    }

    fn child(
        &mut self,
        child: Option<String>,
        call: Option<&RawValue>,
        line: &Line<'_>,
        out: &mut Emitter<'_>,
    ) {
        let Some(child) = child else { return };
        let call_id = owned(call).unwrap_or_default();
        let record = Child::new(child, &call_id, ChildState::Started);
        self.aside(Body::Child(record), self.meta(line), out);
    }

    /// Words that an event tells. They count only where no item of the turn says them.
    fn heard(
        &mut self,
        is_user: bool,
        words: Option<&RawValue>,
        line: &Line<'_>,
        out: &mut Emitter<'_>,
    ) {
        let is_told = if is_user { self.turn.has_user } else { self.turn.has_agent };
        let (content, _) = item::blocks(words);
        if is_told || content.is_empty() {
            return;
        }
        self.settle(out);
        self.turn.waiting.push(Waiting { is_user, content, meta: self.meta(line) });
    }

    /// Takes what only events told for what was said.
    pub(super) fn settle(&mut self, out: &mut Emitter<'_>) {
        self.decide(None, out);
        for Waiting { is_user, content, meta } in std::mem::take(&mut self.turn.waiting) {
            if is_user {
                let user = UserMessage { content, ..UserMessage::default() };
                self.user(user, meta, out);
                // The next event is another prompt's.
                self.turn.has_user = false;
                continue;
            }
            let texts = content.iter().filter_map(|block| match block {
                Block::Text { text } => Some(AssistantBlock::text(text.head())),
                _ => None,
            });
            let block = texts.collect();
            let piece = ReplyPiece { block, is_message: true, replay: Replay::Never };
            self.reply.get_or_insert_with(|| Reply::new(meta)).add(piece, None);
        }
    }

    fn begin_turn(&mut self, line: &Line<'_>, out: &mut Emitter<'_>) {
        self.end_turn(out);
        let origin = self.meta(line).origin;
        self.turn = Turn { open: Some(origin), from: Some(self.tip), ..Turn::default() };
    }

    /// Ends the turn; one whose end was not read was interrupted.
    fn end_turn(&mut self, out: &mut Emitter<'_>) {
        self.settle(out);
        self.flush(out);
        if let Some(spent) = self.compacting.take() {
            self.spend_alone("compaction", spent, Meta::default(), out);
        }
        let turn = std::mem::take(&mut self.turn);
        if let Some(origin) = turn.open
            && !self.base
        {
            let sentence = "A turn begins here whose end was not recorded.";
            let done = "It was interrupted, unless it is still going on; what is there was read.";
            out.found("interrupted-turn", Severity::Note, &origin, sentence, done);
        }
    }

    fn roll_back(&mut self, turns: u64, out: &mut Emitter<'_>) {
        self.settle(out);
        self.flush(out);
        for _ in 0..turns {
            let Some(prompt) = self.prompts.pop() else { break };
            self.tip = prompt.back;
        }
        self.turn.from = None;
        out.fact(Fact::Tip(self.tip));
    }
}

fn is_summary(metadata: &RawValue) -> bool {
    memchr::memmem::find(metadata.get().as_bytes(), b"\"compaction_output\":true").is_some()
}

/// The number with which a file begins.
fn first_ordinal(header: Option<&RawValue>) -> Option<u64> {
    let header: Header<'_> = object(header)?;
    number(object::<Base<'_>>(header.base)?.ordinal)
}

/// Of which session it is a subagent's.
fn parent(header: &Header<'_>) -> Option<Fact> {
    #[derive(Deserialize)]
    struct Source {
        subagent: Subagent,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Subagent {
        Spawned { thread_spawn: Spawn },
        Named(String),
        Other(serde::de::IgnoredAny),
    }
    #[derive(Deserialize)]
    struct Spawn {
        parent_thread_id: Option<String>,
        agent_role: Option<String>,
        agent_nickname: Option<String>,
    }
    let source: Option<Source> = object(header.source);
    let is_subagent = source.is_some();
    let (spawned, role) = match source.map(|source| source.subagent) {
        Some(Subagent::Spawned { thread_spawn: spawn }) => {
            (spawn.parent_thread_id, spawn.agent_role.or(spawn.agent_nickname))
        }
        Some(Subagent::Named(role)) => (None, Some(role)),
        _ => (None, None),
    };
    // Others name only the session to which all of them belong.
    let whole = || owned(header.session).filter(|_| is_subagent);
    let parent = spawned.or_else(|| owned(header.parent)).or_else(whole)?;
    if Some(&parent) == owned(header.id).as_ref() {
        return None;
    }
    Some(Fact::ChildOf { parent, call: None, role })
}
