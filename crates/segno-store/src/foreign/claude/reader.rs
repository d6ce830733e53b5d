//! The one pass over a session of Claude Code.
//!
//! Responsible for: what each kind of row is in our terms, and facts. Must not: know where a record
//! hangs; that is the chain's.

use super::super::agent::Agent;
use super::super::emitter::{Emitter, Meta};
use super::super::input::ForeignError;
use super::super::item::{Fact, Origin};
use super::super::lines::{Lines, Object, Taken};
use super::super::locate::Located;
use super::super::mend::Mended;
use super::super::view::pos;
use super::chain::{Chain, Draft, MAIN, Parent, Reply, Step};
use super::queue::Queue;
use super::retold::Retold;
use super::row::{Aside, Bare, CompactMetadata, Content, Key, Row, Str};
use super::say::{self, Said};
use super::{agents, injected, unknown};
use segno_model::Timestamp;
use segno_model::finding::Severity;
use segno_model::record::{Block, Body, Compaction, CompactionState, Custom, Name, Text};
use serde_json::value::RawValue;

/// Reads one.
pub(super) fn read(session: &Located, out: &mut Emitter<'_>) -> Result<(), ForeignError> {
    let mut lines = Lines::open(&session.path)?;
    let mut reader = Reader::new(session);
    lines.each_in_order(Agent::Claude, "claude.row", out, |object, out, may_wait| {
        reader.take(object, may_wait, out)
    })?;
    reader.finish(out);
    out.finish(&session.path, lines.bytes())
}

struct Reader<'s> {
    session: &'s Located,
    chain: Chain,
    retold: Retold,
    boundary: Option<CompactMetadata>,
    queue: Queue,
    /// Summaries, and the rows that they speak about.
    titles: Vec<(Key, String)>,
    told: Told,
    /// Whether this is a subagent's own file; known from the first row of the chain on.
    child: Option<bool>,
}

/// Facts that were handed on, so that each is told once.
#[derive(Default)]
struct Told {
    id: Option<String>,
    version: String,
    cwd: String,
    branch: String,
    created: bool,
    command: bool,
    stranger: bool,
}

impl<'s> Reader<'s> {
    fn new(session: &'s Located) -> Self {
        Self {
            session,
            chain: Chain::new(),
            retold: Retold::default(),
            boundary: None,
            queue: Queue::default(),
            titles: Vec::new(),
            told: Told::default(),
            child: None,
        }
    }

    /// Takes a row, if it is one: no JSON and pieces of rows are none.
    fn take(&mut self, object: &Object<'_>, may_wait: bool, out: &mut Emitter<'_>) -> Taken {
        if let Some(kind) = plain_kind(object.json) {
            return Taken::is_record(self.custom_row(kind, object, out));
        }
        let mended = Mended::default();
        if let Some(row) = mended.parse::<Row<'_>>(object.json) {
            if row.uuid.is_none() && row.session_id.is_none() && !is_aside(&row.kind) {
                return Taken::Unknown;
            }
            if may_wait && self.is_early(&row) {
                return Taken::Early;
            }
            self.facts(&row, object, out);
            let taken = match &row.uuid {
                Some(uuid) => {
                    let key = Key::of(uuid);
                    self.chain(row, key, object, out)
                }
                None => self.aside(&row, object, out),
            };
            if taken && mended.is_odd() {
                mended.found(&object.origin, out);
                self.custom_row("row", object, out);
            }
            return Taken::is_record(taken);
        }
        Taken::is_record(self.bare(object, out))
    }

    /// Whether a row names another one, or a call, that was not read so far.
    fn is_early(&self, row: &Row<'_>) -> bool {
        if row.uuid.is_none() {
            return false;
        }
        let parent = row.parent_uuid.as_ref().or(row.logical_parent_uuid.as_ref());
        if parent.is_some_and(|parent| !self.chain.knows(Key::of(parent))) {
            return true;
        }
        let Some(Content::Blocks(blocks)) = row.message.as_ref().map(|message| &message.content)
        else {
            return false;
        };
        let mut answered = blocks.iter().filter_map(|block| block.tool_use_id.as_deref());
        answered.any(|call| !self.chain.knows_call(call))
    }

    /// A row whose fields have other shapes.
    fn bare(&mut self, object: &Object<'_>, out: &mut Emitter<'_>) -> bool {
        let bare = serde_json::from_str::<Bare<'_>>(object.json).ok();
        let Some(bare) = bare.filter(|bare| bare.uuid.is_some()) else { return false };
        let sentence = "The row's fields have shapes that this reader does not know.";
        let done = "It was kept as it is.";
        out.found("unknown-record", Severity::Note, &object.origin, sentence, done);
        let Some(custom) = custom(&format!("claude.{}", &*bare.kind), object.json) else {
            return false;
        };
        let mut step = Step { drafts: vec![custom], ..Step::default() };
        step.meta = meta(object, bare.uuid.as_deref(), bare.timestamp.as_deref());
        if let Some(uuid) = &bare.uuid {
            step.key = Some((Key::of(uuid), 0));
            step.parent = bare.parent_uuid.map_or(Parent::Root, |p| Parent::Row(Key::of(&p)));
        }
        self.chain.hold(step, object.json.len(), out);
        true
    }

    /// A row without a place in the chain that nothing is read from.
    fn custom_row(&mut self, kind: &str, object: &Object<'_>, out: &mut Emitter<'_>) -> bool {
        let Some(custom) = custom(&format!("claude.{kind}"), object.json) else { return false };
        let step = Step { meta: meta(object, None, None), drafts: vec![custom], ..Step::default() };
        self.chain.hold(step, object.json.len(), out);
        true
    }

    /// A row without a place in the chain.
    fn aside(&mut self, row: &Row<'_>, object: &Object<'_>, out: &mut Emitter<'_>) -> bool {
        let mended = Mended::default();
        let aside: Aside = mended.parse(object.json).unwrap_or_default();
        if is_aside(&row.kind) {
            mended.found(&object.origin, out);
        }
        let Some(custom) = custom(&format!("claude.{}", &*row.kind), object.json) else {
            return false;
        };
        let mut drafts = vec![custom];
        match &*row.kind {
            "queue-operation" => {
                let operation = aside.operation.unwrap_or_default();
                self.queue.operation(&operation, aside.content);
            }
            "custom-title" => {
                let name = aside.custom_title.unwrap_or_default();
                out.fact(Fact::Named(name.clone()));
                drafts.push(Draft::Body(Body::Name(Name { name })));
            }
            "ai-title" => out.fact(Fact::Titled(aside.ai_title.unwrap_or_default())),
            "summary" => {
                if let (Some(leaf), Some(summary)) = (aside.leaf_uuid, aside.summary) {
                    self.titles.push((Key::of(&leaf), summary));
                }
            }
            "continued-in" => {
                out.fact(Fact::ContinuedIn(aside.continued_in_session_id.unwrap_or_default()));
            }
            "content-replacement" => {
                let edits = aside.replacements.into_iter().filter_map(|edit| {
                    let call = Key::of(&edit.tool_use_id?);
                    Some(Draft::Edit { call, text: Some(edit.replacement?) })
                });
                drafts.extend(edits);
            }
            _ => {}
        }
        let meta = meta(object, None, row.timestamp.as_deref());
        self.chain.hold(Step { meta, drafts, ..Step::default() }, object.json.len(), out);
        true
    }

    /// What a row says about the session.
    fn facts(&mut self, row: &Row<'_>, object: &Object<'_>, out: &mut Emitter<'_>) {
        if row.uuid.is_some() && self.child.is_none() {
            self.begin(row, out);
        }
        if self.told.id.is_none()
            && self.child != Some(true)
            && let Some(id) = row.session_id.as_deref()
        {
            let stem = self.session.path.file_stem().and_then(|stem| stem.to_str());
            let stem = stem.filter(|stem| uuid::Uuid::try_parse(stem).is_ok());
            let id = stem.unwrap_or(id).to_owned();
            out.fact(Fact::Id(id.clone()));
            out.fact(Fact::Format("jsonl".to_owned()));
            self.told.id = Some(id);
        }
        self.strangers(row, object, out);
        let changed = |told: &mut String, now: &Option<Str<'_>>| {
            let now = now.as_deref().filter(|now| !now.is_empty() && *now != told.as_str())?;
            now.clone_into(told);
            Some(now.to_owned())
        };
        out.facts(changed(&mut self.told.version, &row.version).map(Fact::Version));
        out.facts(changed(&mut self.told.cwd, &row.cwd).map(Fact::Cwd));
        out.facts(changed(&mut self.told.branch, &row.git_branch).map(Fact::Branch));
        if !self.told.created
            && let Some(at) = row.timestamp.as_deref().and_then(Timestamp::parse)
        {
            self.told.created = true;
            out.fact(Fact::Created(at));
        }
    }

    /// The first row of the chain.
    fn begin(&mut self, row: &Row<'_>, out: &mut Emitter<'_>) {
        let named = self.session.path.file_stem().and_then(|stem| stem.to_str());
        let named = named.is_some_and(|stem| stem.starts_with("agent-"));
        let by_place = named || self.session.parent.is_some();
        let child = row.is_sidechain && (by_place || row.agent_id.is_some());
        self.child = Some(child);
        out.facts(row.uuid.as_deref().map(|uuid| Fact::FirstId(uuid.to_owned())));
        if !child {
            // Nothing came before it in this file.
            let before = row.parent_uuid.as_deref().or(row.logical_parent_uuid.as_deref());
            out.facts(before.map(|uuid| Fact::Follows(uuid.to_owned())));
            return;
        }
        let prompted = row.parent_uuid.is_some() || &*row.kind == "user";
        let launch = agents::launch(self.session, row, prompted);
        out.facts(launch.facts());
        self.told.id.clone_from(&launch.id);
        if let Some(prompt) = launch.prompt() {
            let at = row.timestamp.as_deref().and_then(Timestamp::parse);
            let said = say::user(None, &prompt).into_body();
            let seq = out.record(said, Meta { at, ..Meta::default() });
            self.chain.begin_with(seq);
        }
    }

    fn strangers(&mut self, row: &Row<'_>, object: &Object<'_>, out: &mut Emitter<'_>) {
        let (Some(id), Some(own)) = (row.session_id.as_deref(), self.told.id.as_deref()) else {
            return;
        };
        if self.child != Some(true) && id != own && !self.told.stranger && row.uuid.is_some() {
            self.told.stranger = true;
            let sentence = "Rows from here on name another session than the file does.";
            let done = "They were read as part of this one.";
            out.found("other-session", Severity::Note, &object.origin, sentence, done);
        }
    }

    /// A row of the chain.
    fn chain(
        &mut self,
        row: Row<'_>,
        key: Key,
        object: &Object<'_>,
        out: &mut Emitter<'_>,
    ) -> bool {
        let print = row.print();
        if self.chain.is_copy(key, print, &object.origin, out) {
            return true;
        }
        if let Some(fork) = &row.forked_from {
            let (id, up_to) = (fork.session_id.to_string(), fork.message_uuid.as_deref());
            out.fact(Fact::ForkOf { id, up_to: up_to.map(str::to_owned) });
        }
        let lane = self.lane(&row);
        let said = matches!(&*row.kind, "user" | "assistant") && !row.is_compact_summary;
        if let Some(words) = row.words().filter(|_| said && lane == MAIN) {
            self.retold.next(words, &object.origin, out);
        }
        let mut step = Step { key: Some((key, print)), lane, ..Step::default() };
        step.meta = meta(object, row.uuid.as_deref(), row.timestamp.as_deref());
        step.meta.copy = row.forked_from.is_some();
        step.meta.inherited = step.meta.copy;
        step.meta.subagent = self.chain.agent(lane);
        let named = row.parent_uuid.as_ref().or(row.logical_parent_uuid.as_ref());
        step.parent = match named {
            Some(parent) => Parent::Row(Key::of(parent)),
            None if row.subtype.as_deref() == Some("compact_boundary") => Parent::Last,
            None => Parent::Root,
        };
        self.chain.expect(key, print, lane);
        match &*row.kind {
            "assistant" if row.message.is_some() && !row.is_api_error_message => {
                self.reply(row, step, object, out)
            }
            "user" if row.message.is_some() && row.is_compact_summary => {
                self.summary(&row, step, out);
                true
            }
            "user" if row.message.is_some() && !row.is_visible_in_transcript_only => {
                self.user(row, step, object, out)
            }
            _ => self.other(&row, step, object, out),
        }
    }

    /// The lane of a row: the session's own, or a subagent's.
    fn lane(&mut self, row: &Row<'_>) -> u32 {
        let own = self.told.id.as_deref();
        let agent = row.agent_id.as_deref();
        let of_this_file = self.child == Some(true) && (agent.is_none() || agent == own);
        if !row.is_sidechain || of_this_file {
            return MAIN;
        }
        let above = row.parent_uuid.as_deref().and_then(|p| self.chain.lane_of_row(Key::of(p)));
        match (agent, above) {
            (Some(agent), _) => self.chain.lane_of_agent(agent),
            (None, Some(lane)) if lane != MAIN => lane,
            (None, _) => self.chain.lane_of_agent(row.uuid.as_deref().unwrap_or_default()),
        }
    }

    /// A row of a response.
    fn reply(
        &mut self,
        mut row: Row<'_>,
        step: Step,
        object: &Object<'_>,
        out: &mut Emitter<'_>,
    ) -> bool {
        let Some(message) = row.message.take() else { return false };
        if step.lane == MAIN {
            self.queue.said(None);
        }
        let id = message.id.as_deref().or(row.uuid.as_deref()).unwrap_or_default().to_owned();
        let model = say::model(&message);
        let real = model.id != say::SYNTHETIC;
        let request = row.request_id.as_deref().unwrap_or_default();
        let response = message.id.as_deref().filter(|_| real).map(|id| format!("{id}/{request}"));
        let usage = message.usage.as_ref().filter(|_| real).map(say::usage);
        let stop = message.stop_reason.map(Str::into_owned);
        let (blocks, odd) = say::reply(message.content);
        let (lane, meta) = (step.lane, step.meta.clone());
        let pieces = if odd { unknown::of_reply(object.json, &blocks) } else { Vec::new() };
        let reply = Reply { id, response, model, blocks, pieces, usage, stop };
        self.chain.reply(step, reply, out);
        if odd {
            let drafts = custom("claude.row", object.json).into_iter().collect();
            let whole = Step { lane, meta, drafts, ..Step::default() };
            self.chain.hold(whole, object.json.len(), out);
        }
        true
    }

    /// A summary: together with the boundary before it, a compaction.
    fn summary(&mut self, row: &Row<'_>, mut step: Step, out: &mut Emitter<'_>) {
        self.chain.flush(out);
        let told = self.boundary.take().unwrap_or_default();
        let kept = told.preserved_messages.unwrap_or_default().uuids;
        let kept: Vec<Key> = kept.iter().map(|uuid| Key::of(uuid)).collect();
        let segment = told.preserved_segment.filter(|_| kept.is_empty()).unwrap_or_default();
        let [head, tail] = [segment.head_uuid, segment.tail_uuid].map(|u| u.map(|u| Key::of(&u)));
        let mut compaction = Compaction::marker(CompactionState::Done, None);
        let text = row.message.as_ref().map(|m| m.content.text().into_owned());
        compaction.summary = text.map(Text::Inline);
        (compaction.tokens_before, compaction.tokens_after) = (told.pre_tokens, told.post_tokens);
        let first = head.and_then(|head| self.chain.record_of(head)).flatten();
        compaction.first_kept = first.map(pos);
        for key in &kept {
            match self.chain.record_of(*key) {
                Some(Some(seq)) if !compaction.kept.contains(&pos(seq)) => {
                    compaction.kept.push(pos(seq));
                }
                Some(_) => {}
                None => missing_kept(&step.meta.origin, out),
            }
        }
        let lane = step.lane;
        step.drafts.push(Draft::Body(Body::Compaction(Box::new(compaction))));
        self.chain.put(step, out);
        if let Some(seq) = self.chain.last(lane) {
            self.chain.stand_again(kept.into_iter().chain(tail), seq);
        }
    }

    /// A row of the user's side.
    fn user(
        &mut self,
        mut row: Row<'_>,
        mut step: Step,
        object: &Object<'_>,
        out: &mut Emitter<'_>,
    ) -> bool {
        let Some(message) = row.message.take() else { return false };
        let (said, odd) = say::user_row(&row, message.content);
        let only_results = said.iter().all(|said| matches!(said, Said::Result(_)));
        if !only_results {
            self.heard(&said, step.lane, out);
        }
        if odd {
            step.pieces = unknown::of_user(object.json, &said);
        }
        step.drafts = said.into_iter().map(draft).collect();
        let beside = row.tool_use_result.filter(|raw| raw.get().starts_with('{'));
        step.drafts.extend(beside.and_then(|raw| custom("claude.tool-use-result", raw.get())));
        if odd {
            step.drafts.extend(custom("claude.row", object.json));
        }
        if only_results {
            self.chain.hold(step, object.json.len(), out);
        } else {
            self.chain.put(step, out);
        }
        true
    }

    /// Notes what was said on the user's side: for the queue, and for a title.
    fn heard(&mut self, said: &[Said], lane: u32, out: &mut Emitter<'_>) {
        if lane != MAIN {
            return;
        }
        for said in said {
            let Said::User(message) = said else { continue };
            let text = message.content.iter().find_map(|block| match block {
                Block::Text { text } => Some(text.head()),
                _ => None,
            });
            self.queue.said(text);
            let is_command = message.notice.as_deref() == Some("command");
            if is_command && !self.told.command {
                let whole: String = message.content.iter().filter_map(text_of).collect();
                if let Some(command) = injected::command(&whole) {
                    self.told.command = true;
                    out.fact(Fact::Command(command));
                }
            }
        }
    }

    /// Any other row of the chain.
    fn other(
        &mut self,
        row: &Row<'_>,
        mut step: Step,
        object: &Object<'_>,
        out: &mut Emitter<'_>,
    ) -> bool {
        let subtype = row.subtype.as_deref().unwrap_or_default();
        let mut said = Vec::new();
        let mut name = format!("claude.{}", &*row.kind);
        match (&*row.kind, subtype) {
            ("attachment", _) => {
                said = say::attachment(row);
                step.pieces = unknown::of_prompt(row.attachment, &said);
            }
            ("system", "local_command") => {
                let text =
                    row.content.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
                let text = text.unwrap_or_default();
                let pieces = injected::pieces(&text).into_iter();
                let pieces =
                    pieces.map(|(reason, text)| say::user(reason.or(Some("command")), text));
                said.extend(pieces);
            }
            ("system", "microcompact_boundary") => step.drafts.extend(cleared(row)),
            ("system", "compact_boundary") => {
                self.chain.flush(out);
                let told =
                    row.compact_metadata.and_then(|raw| serde_json::from_str(raw.get()).ok());
                self.boundary = Some(told.unwrap_or_default());
            }
            _ => {}
        }
        if !subtype.is_empty() {
            name = format!("{name}.{subtype}");
        }
        if !said.is_empty() {
            self.heard(&said, step.lane, out);
            step.drafts.extend(said.into_iter().map(draft));
        }
        step.drafts.extend(custom(&name, object.json));
        self.chain.hold(step, object.json.len(), out);
        true
    }

    /// The end of the file.
    fn finish(&mut self, out: &mut Emitter<'_>) {
        self.chain.flush(out);
        self.retold.end(out);
        let known = |(leaf, _): &&(Key, String)| self.chain.knows(*leaf);
        let title = self.titles.iter().rev().find(known).map(|(_, title)| title.clone());
        out.facts(title.map(Fact::Titled));
        let pending = std::mem::take(&mut self.queue).pending();
        if !pending.is_empty() {
            out.fact(Fact::Pending(pending));
        }
        self.chain.finish(out);
    }
}

/// The kind of a row outside the chain that nothing is read from, by its beginning.
fn plain_kind(json: &str) -> Option<&str> {
    const PLAIN: &[&str] = &[
        "agent-name",
        "api-request",
        "api-request-blob",
        "api-request-shape",
        "atis-latch",
        "cost-state",
        "file-history-delta",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "pr-link",
        "tools-used",
        "worktree-state",
    ];
    let rest = json.strip_prefix("{\"type\":\"")?;
    let kind = &rest[..rest.find('"')?];
    PLAIN.contains(&kind).then_some(kind)
}

/// The kinds of rows outside the chain that something is read from; not all name the session.
fn is_aside(kind: &str) -> bool {
    matches!(
        kind,
        "queue-operation"
            | "custom-title"
            | "ai-title"
            | "summary"
            | "continued-in"
            | "content-replacement"
    )
}

fn custom(name: &str, json: &str) -> Option<Draft> {
    let data = serde_json::from_str::<&RawValue>(json).ok()?.to_owned();
    Some(Draft::Body(Body::Custom(Custom { name: name.to_owned(), data, context: None })))
}

fn meta(object: &Object<'_>, id: Option<&str>, at: Option<&str>) -> Meta {
    let origin = Origin { id: id.map(str::to_owned), ..object.origin.clone() };
    Meta { origin, at: at.and_then(Timestamp::parse), ..Meta::default() }
}

fn draft(said: Said) -> Draft {
    match said {
        Said::Result(result) => Draft::Result(Box::new(result)),
        other => Draft::Body(other.into_body()),
    }
}

fn missing_kept(at: &Origin, out: &mut Emitter<'_>) {
    let sentence = "The compaction preserves a record that is not in the file.";
    out.found("missing-kept-record", Severity::Warning, at, sentence, "The others are kept.");
}

/// Results that a small compaction took out.
fn cleared(row: &Row<'_>) -> Vec<Draft> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cleared {
        #[serde(default)]
        compacted_tool_ids: Vec<String>,
    }
    let told = row.microcompact_metadata.and_then(|raw| serde_json::from_str(raw.get()).ok());
    let ids = told.map(|told: Cleared| told.compacted_tool_ids).unwrap_or_default();
    ids.iter().map(|id| Draft::Edit { call: Key::of(id), text: None }).collect()
}

fn text_of(block: &Block) -> Option<&str> {
    match block {
        Block::Text { text } => Some(text.head()),
        _ => None,
    }
}
