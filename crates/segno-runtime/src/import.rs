//! Takes another agent's session into a log, record by record.
//!
//! Responsible for: giving the records our numbers and positions, keeping their branches, and marking how far it
//! got, so that an import that was cut off goes on, and one whose original grew is brought up to date.
//! Must not: know any agent, or change what was said.

use crate::{blobs, fit};
use segno_model::batch::Draft;
use segno_model::record::{
    Body, Compaction, ContextEdit, Custom, Label, Message, Text, Tip, ToolMessage,
};
use segno_model::store::{Level, SessionLog, StoreError};
use segno_model::{Pos, Record, Seq, Timestamp, sha256_hex};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The name of the `custom` records around what was imported.
pub const MARK: &str = "segno.import";

/// Why an import stopped.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The log could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The original's first records are not those that were imported.
    #[error("the original was rewritten since it was imported")]
    Rewritten,
}

/// An import into one log: first what is there is looked at, then records are added.
#[derive(Debug, Default)]
pub struct Import {
    /// Where the original's records went, in their order.
    at: Vec<Pos>,
    /// For each of them the node behind which its successors hang: itself, if it is one.
    nodes: Vec<Option<Pos>>,
    done: Option<Done>,
    inside: bool,
    diverged: bool,
    /// How many of the original's records came by, and the hash over them.
    seen: u64,
    sha256: String,
    /// The hash over all records before the newest reply, and those up to each one from it on; none when
    /// those are many.
    tail: Option<Vec<String>>,
    begun: bool,
    added: u64,
}

/// How far an earlier import came.
#[derive(Debug, Clone)]
struct Done {
    records: u64,
    sha256: String,
    /// See [`Import::tail`].
    tail: Vec<String>,
}

/// An agent may write its newest reply piece by piece, and a few records behind it.
const TAIL: usize = 64;

impl Import {
    /// Looks at a record of the log. Every record has to come by, in order, before the first one is added.
    pub fn look(&mut self, record: &Record) {
        match record.body() {
            Body::Session(_) | Body::Checkpoint(_) | Body::Tip(_) | Body::Repair(_) => {}
            Body::Custom(custom) if custom.name == MARK => self.mark(custom),
            // Somebody went on here.
            Body::Run(_) | Body::Request(_) | Body::Environment(_) => {
                self.inside = false;
                self.diverged = true;
            }
            _ if self.inside => self.push(record.pos(), record.is_node(), None),
            _ => {}
        }
    }

    fn push(&mut self, pos: Pos, is_node: bool, parent: Option<Pos>) {
        let before = parent.or_else(|| self.nodes.last().copied().flatten());
        self.at.push(pos);
        self.nodes.push(if is_node { Some(pos) } else { before });
    }

    /// `{"state":"begun","from":N}`: what follows is imported, and stands for the original's records from that
    /// one on. `{"state":"done","records":N,"sha256":H,"tail":[H]}`: up to here so many records of the original
    /// were taken, with this hash over them; the tail's are those up to each of the last ones.
    fn mark(&mut self, custom: &Custom) {
        let mark: Value = serde_json::from_str(custom.data.get()).unwrap_or_default();
        match mark["state"].as_str() {
            Some("begun") => {
                self.inside = true;
                self.forget_from(mark["from"].as_u64().unwrap_or(u64::MAX));
            }
            Some("done") => {
                self.inside = false;
                let text = |hash: &Value| hash.as_str().unwrap_or_default().to_owned();
                let tail = mark["tail"].as_array().into_iter().flatten().map(text).collect();
                let sha256 = text(&mark["sha256"]);
                self.done = mark["records"].as_u64().map(|records| Done { records, sha256, tail });
            }
            _ => {}
        }
    }

    /// Takes the original's records from this one on for not taken.
    fn forget_from(&mut self, from: u64) {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        self.at.truncate(from);
        self.nodes.truncate(from);
    }

    /// Compares what came by so far with what an earlier import took. The newest reply of then may have gone
    /// on since, so that it is another record now: what was taken of it stays, beside what it became.
    fn compare(&mut self) -> Result<(), ImportError> {
        let Some(Done { records, sha256, tail }) = &self.done else { return Ok(()) };
        let behind = records.checked_sub(self.seen).and_then(|behind| usize::try_from(behind).ok());
        let Some(behind) = behind else { return Ok(()) };
        let at = tail.len().checked_sub(behind + 1);
        match at {
            None if behind == 0 && *sha256 != self.sha256 => Err(ImportError::Rewritten),
            // Up to the reply nothing may have changed.
            Some(0) if tail[0] != self.sha256 => Err(ImportError::Rewritten),
            Some(at) if tail[at] != self.sha256 => {
                self.forget_from(self.seen - 1);
                (self.done, self.diverged) = (None, true);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Notes the hash up to here, from the newest reply on.
    fn note(&mut self, record: &Record, before: String) {
        let is_reply = match record.body() {
            Body::Message(message) => matches!(**message, Message::Assistant(_)),
            _ => false,
        };
        if is_reply {
            self.tail = Some(vec![before]);
        }
        if let Some(tail) = &mut self.tail {
            tail.push(self.sha256.clone());
            if tail.len() > TAIL {
                self.tail = None;
            }
        }
    }

    /// Whether somebody went on in the log after the import: what is new is then a branch.
    #[must_use]
    pub fn has_diverged(&self) -> bool {
        self.diverged
    }

    /// How many records were added.
    #[must_use]
    pub fn added(&self) -> u64 {
        self.added
    }

    /// How many of the original's records are in the log.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.at.len() as u64
    }

    /// Takes the original's next record, unless it is in the log already. Its numbers are the original's.
    ///
    /// # Errors
    /// [`ImportError::Rewritten`] when the original no longer begins with what was imported; otherwise as the
    /// store.
    pub async fn add<L: SessionLog>(
        &mut self,
        log: &mut L,
        record: &Record,
    ) -> Result<(), ImportError> {
        let json = record.body().to_json().unwrap_or_default();
        let before = self.sha256.clone();
        self.sha256 = sha256_hex(format!("{}{}{json}", self.sha256, record.envelope.at).as_bytes());
        self.seen += 1;
        self.note(record, before);
        self.compare()?;
        if self.seen <= self.taken() {
            return Ok(());
        }
        if !std::mem::replace(&mut self.begun, true) {
            let begun = json!({ "state": "begun", "from": self.taken() });
            self.append(log, record.envelope.at, custom(MARK, &begun)).await?;
        }
        let body = self.fitted(log, record.body().clone()).await?;
        let parent = record.envelope.parent.and_then(|parent| self.node(parent));
        let is_node = body.is_node();
        if is_node && log.state().tip() != parent {
            self.append(log, record.envelope.at, Body::Tip(Tip { tip: parent })).await?;
        }
        let pos = self.append(log, record.envelope.at, body).await?;
        self.push(pos, is_node, parent);
        self.added += 1;
        Ok(())
    }

    /// The original's end, with its current node if that is not its last one. Everything is durable then.
    ///
    /// # Errors
    /// [`ImportError::Rewritten`] when the original is shorter than what was imported; otherwise as the store.
    pub async fn finish<L: SessionLog>(
        &mut self,
        log: &mut L,
        tip: Option<Option<Seq>>,
        now: Timestamp,
    ) -> Result<(), ImportError> {
        if self.seen < self.taken() {
            return Err(ImportError::Rewritten);
        }
        if self.begun {
            if let Some(tip) = tip {
                let tip = tip.and_then(|seq| self.node(seq));
                self.append(log, now, Body::Tip(Tip { tip })).await?;
            }
            let tail = self.tail.as_deref().unwrap_or_default();
            let done = json!({
                "state": "done", "records": self.seen, "sha256": self.sha256, "tail": tail,
            });
            self.append(log, now, custom(MARK, &done)).await?;
        }
        Ok(log.sync().await?)
    }

    async fn append<L: SessionLog>(
        &self,
        log: &mut L,
        at: Timestamp,
        body: Body,
    ) -> Result<Pos, StoreError> {
        let written = log.append(vec![Draft::new(at, body)], Level::Written).await?;
        written.first().map(Record::pos).ok_or_else(|| StoreError::refused("nothing was written"))
    }

    fn pos(&self, seq: Seq) -> Option<Pos> {
        self.at.get(usize::try_from(seq).ok()?).copied()
    }

    fn node(&self, seq: Seq) -> Option<Pos> {
        self.nodes.get(usize::try_from(seq).ok()?).copied().flatten()
    }

    /// The body with our numbers, and so that it fits into a record: what is large becomes a blob.
    async fn fitted<L: SessionLog>(&self, log: &mut L, mut body: Body) -> Result<Body, StoreError> {
        match &mut body {
            Body::Message(message) => match &mut **message {
                Message::User(user) => blobs::store_large(log, &mut user.content).await?,
                Message::Assistant(reply) => {
                    reply.request = None;
                    *reply = fit::reply(log, reply).await?.reply;
                }
                Message::Tool(result) => self.result(log, result).await?,
            },
            Body::Compaction(compaction) => self.compaction(log, compaction).await?,
            Body::BranchSummary(summary) => match self.pos(summary.from.seq) {
                Some(from) => summary.from = from,
                None => return original(log, &body).await,
            },
            Body::Label(Label { target, .. }) => match self.pos(target.seq) {
                Some(pos) => *target = pos,
                None => return original(log, &body).await,
            },
            Body::ContextEdit(ContextEdit { target, .. }) => match self.pos(*target) {
                Some(pos) => *target = pos.seq,
                None => return original(log, &body).await,
            },
            _ => {}
        }
        if fit::fits(&body) { Ok(body) } else { original(log, &body).await }
    }

    async fn result<L: SessionLog>(
        &self,
        log: &mut L,
        result: &mut ToolMessage,
    ) -> Result<(), StoreError> {
        result.call_seq = result.call_seq.and_then(|seq| self.pos(seq)).map(|pos| pos.seq);
        blobs::store_large(log, &mut result.content).await
    }

    async fn compaction<L: SessionLog>(
        &self,
        log: &mut L,
        compaction: &mut Compaction,
    ) -> Result<(), StoreError> {
        compaction.first_kept = compaction.first_kept.and_then(|pos| self.pos(pos.seq));
        compaction.kept = compaction.kept.iter().filter_map(|pos| self.pos(pos.seq)).collect();
        if let Some(Text::Inline(summary)) = &compaction.summary
            && summary.len() > blobs::LARGE_VALUE_BYTES
        {
            let blob = log.put_blob(summary.as_bytes(), blobs::head(summary)).await?;
            compaction.summary = Some(Text::Blob(blob));
        }
        Ok(())
    }
}

/// A record that cannot stand as what it is: its JSON as a blob, and a record that names it.
async fn original<L: SessionLog>(log: &mut L, body: &Body) -> Result<Body, StoreError> {
    let json = body.to_json().unwrap_or_default();
    let blob = log.put_blob(json.as_bytes(), "").await?;
    let name = match body {
        Body::Custom(custom) => custom.name.clone(),
        other => format!("{MARK}.{}", other.kind()),
    };
    Ok(custom(&name, &json!({ "blob": blob.blob, "bytes": blob.bytes })))
}

fn custom(name: &str, data: &Value) -> Body {
    let data = serde_json::value::to_raw_value(data).unwrap_or_else(|_| RawValue::NULL.to_owned());
    Body::Custom(Custom { name: name.to_owned(), data, context: None })
}
