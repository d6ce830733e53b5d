//! Going back in a session, with its files on request.
//!
//! Responsible for: bringing files back one by one, never over somebody else's change and never without a
//! copy of what they held, and moving the tip. Files first, then the tip: repeated after a crash, it finds
//! what is back already and goes on. Must not: decide what is gone back over (`plan` does, from records
//! alone), or undo what commands did.

mod plan;

pub use plan::{Effect, FileEdits, Plan};

use crate::tool::{Old, Restoring, Toolbox};
use plan::Edit;
use segno_model::record::{Action, Body, Custom, RESTORE, ReplayClass};
use segno_model::store::{Level, Owner, SessionLog, StoreError};
use segno_runtime::{Session, Tools as _};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What became of a file, or would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It holds again what it held.
    Restored,
    /// It was made on the way and is gone again; what it held is kept with the session.
    Removed,
    /// It holds what it held already.
    Already,
    /// It was left as it is, because somebody else changed it or what it held is not known.
    Refused,
}

/// A file that was gone back over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileFate {
    /// Which.
    pub path: PathBuf,
    /// What became of it.
    pub outcome: Fate,
    /// Why it was left as it is, or was not brought back all the way.
    pub why: Option<String>,
}

/// What is to be done about the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// Nothing.
    Leave,
    /// They are only looked at; nothing at all is written.
    Look,
    /// They are brought back.
    Bring,
}

/// Goes back by a plan. With [`Files::Look`] it only says what would become of the files; otherwise the
/// tip has moved, durably, when it returns. `here` is this process.
///
/// # Errors
/// As the store. Doing it again then goes on where it ended.
pub async fn rewind<L: SessionLog>(
    session: &mut Session<L>,
    tools: &Toolbox,
    here: &Owner,
    plan: &Plan,
    files: Files,
) -> Result<Vec<FileFate>, StoreError> {
    if files == Files::Look {
        let mut fates = Vec::new();
        for file in &plan.files {
            fates.push(judge(session, file, here).await.fate(&file.path));
        }
        return Ok(fates);
    }
    session.establish(tools, here).await?;
    let fates = match files {
        Files::Bring => bring_back(session, tools, here, plan).await?,
        _ => Vec::new(),
    };
    if !fates.is_empty() || session.state().tip() != plan.to {
        if !fates.is_empty() {
            session.queue(note(&fates)?);
        }
        session.navigate(plan.to).await?;
    }
    tools.settled(&session.state().in_force).await;
    Ok(fates)
}

/// What is to become of one file.
struct Judged<'a> {
    fate: Fate,
    why: Option<String>,
    /// What it holds now, and the edit whose content of before is to come back.
    to: Option<(Old, &'a Edit)>,
}

impl Judged<'_> {
    fn fate(&self, path: &Path) -> FileFate {
        FileFate { path: path.to_owned(), outcome: self.fate, why: self.why.clone() }
    }

    fn stays(fate: Fate, why: Option<String>) -> Self {
        Self { fate, why, to: None }
    }
}

/// Walks from what the file holds now through its edits, newest first.
async fn judge<'a, L: SessionLog>(
    session: &Session<L>,
    file: &'a FileEdits,
    here: &Owner,
) -> Judged<'a> {
    let now = match Restoring::look(&file.path) {
        Ok(now) => now,
        Err(why) => return Judged::stays(Fate::Refused, Some(why)),
    };
    let holds = match file.edits.first() {
        Some(edit) if is_half_written(session, edit, &now).await => {
            edit.new_sha256().map(str::to_owned)
        }
        _ => now.sha256(),
    };
    let plan::Walked { to, stopped } = plan::walk(&file.edits, holds.as_deref(), &here.host);
    match to {
        None if stopped.is_none() => Judged::stays(Fate::Already, None),
        None => Judged::stays(Fate::Refused, stopped),
        Some(edit) if edit.old_sha256() == now.sha256().as_deref() => {
            Judged::stays(Fate::Already, stopped)
        }
        Some(edit) => {
            let fate = if edit.old_sha256().is_none() { Fate::Removed } else { Fate::Restored };
            let why = stopped.map(|why| format!("not further: {why}"));
            Judged { fate, why, to: Some((now, edit)) }
        }
    }
}

/// Whether the file holds what its newest edit, cut off in the middle, left.
async fn is_half_written<L: SessionLog>(session: &Session<L>, edit: &Edit, now: &Old) -> bool {
    let holds = now.sha256();
    let Some(blob) = edit.before.as_ref().filter(|_| {
        holds.is_some()
            && holds.as_deref() != edit.old_sha256()
            && holds.as_deref() != edit.new_sha256()
    }) else {
        return false;
    };
    let before = session.log().blob(blob).await;
    before.is_ok_and(|before| edit.half_written(now.bytes(), &before))
}

/// A file whose intent is still to be written, or is on disk.
struct Due<'a> {
    restoring: Restoring,
    edit: &'a Edit,
    /// Which of the fates it is.
    index: usize,
}

async fn bring_back<L: SessionLog>(
    session: &mut Session<L>,
    tools: &Toolbox,
    here: &Owner,
    plan: &Plan,
) -> Result<Vec<FileFate>, StoreError> {
    let (mut fates, mut due) = (Vec::new(), Vec::new());
    for (index, file) in plan.files.iter().enumerate() {
        let judged = judge(session, file, here).await;
        let mut fate = judged.fate(&file.path);
        if let Some((now, edit)) = judged.to {
            match prepare(session, tools, file, now, edit).await {
                Ok(restoring) => due.push(Due { restoring, edit, index }),
                Err(why) => (fate.outcome, fate.why) = (Fate::Refused, Some(why)),
            }
        }
        fates.push(fate);
    }
    if let Err(error) = announce(session, here, &mut due).await {
        due.iter().for_each(|due| tools.discard_restoring(&due.restoring));
        return Err(error);
    }
    for Due { restoring, index, .. } in due {
        let done = tools.restore(restoring).await;
        if let (Err(why), Some(fate)) = (done, fates.get_mut(index)) {
            (fate.outcome, fate.why) = (Fate::Refused, Some(why));
        }
    }
    Ok(fates)
}

async fn prepare<L: SessionLog>(
    session: &Session<L>,
    tools: &Toolbox,
    file: &FileEdits,
    now: Old,
    edit: &Edit,
) -> Result<Restoring, String> {
    let content = match (&edit.before, edit.old_sha256()) {
        (Some(blob), _) => {
            let kept = session.log().blob(blob).await;
            Some(kept.map_err(|e| format!("what it held cannot be read: {e}"))?)
        }
        (None, None) => None,
        (None, Some(_)) => return Err("what it held was not kept".to_owned()),
    };
    tools.prepare_restoring(&file.path, now, content).await
}

/// Puts all intents on disk, with one sync, behind copies of what the files hold now.
async fn announce<L: SessionLog>(
    session: &mut Session<L>,
    here: &Owner,
    due: &mut [Due<'_>],
) -> Result<(), StoreError> {
    let mut intents = Vec::new();
    for due in due.iter_mut() {
        let before = match due.restoring.replaced() {
            Some(bytes) => Some(session.log_mut().put_blob(bytes, "").await?),
            None => None,
        };
        intents.push(Body::Action(Box::new(Action {
            call_id: format!("restore-{}", due.edit.seq),
            call_seq: due.edit.seq,
            tool: RESTORE.to_owned(),
            class: ReplayClass::Verified,
            host: here.host.clone(),
            boot: here.boot.clone(),
            key: None,
            probe: due.restoring.take_probe(),
            before,
        })));
    }
    if intents.is_empty() {
        return Ok(());
    }
    session.append(intents, Level::Synced).await.map(|_| ())
}

/// What became of the files, for whoever reads the log.
fn note(fates: &[FileFate]) -> Result<Body, StoreError> {
    let shown = |fate: &FileFate| {
        serde_json::json!({
            "path": fate.path.display().to_string(), "outcome": fate.outcome, "why": fate.why,
        })
    };
    let files: Vec<_> = fates.iter().map(shown).collect();
    let data = serde_json::value::to_raw_value(&serde_json::json!({ "files": files }))
        .map_err(|e| StoreError::Refused(e.to_string()))?;
    Ok(Body::Custom(Custom { name: "segno.rewind".to_owned(), data, context: None }))
}
