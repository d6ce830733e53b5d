//! Kept sessions that are found by where their copies lie.
//!
//! Responsible for: what the index would say of them, where it is lost or damaged. The tree mirrors the originals'
//! paths: each agent's own look finds them in it. Must not: change anything, or ask the originals.

use super::{Kept, mirrored, rows_path};
use crate::foreign::{self, Fact, Item, Located, Roots, Stamp};
use segno_model::Timestamp;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// So many folders deep copies of databases' sessions are looked for.
const DEPTH: usize = 64;

/// The sessions of which copies lie in the tree and that are not among the known ones.
pub(super) fn found(tree: &Path, roots: &Roots, known: &[Kept]) -> Vec<Kept> {
    let mut places: HashSet<_> =
        known.iter().map(|kept| (kept.agent, kept.path.clone(), kept.key.clone())).collect();
    let files = foreign::locate(&mirror(tree, roots)).0;
    let files = files.iter().filter_map(|session| of_files(tree, session));
    let mut databases = Vec::new();
    rows_below(tree, DEPTH, &mut databases);
    let all = files.chain(databases.iter().filter_map(|copy| of_rows(tree, copy)));
    all.filter(|kept| places.insert((kept.agent, kept.path.clone(), kept.key.clone()))).collect()
}

/// Where agents would keep things if the tree was the root of all.
fn mirror(tree: &Path, roots: &Roots) -> Roots {
    let below = |path: &Path| match path.strip_prefix("/") {
        Ok(below) => tree.join(below),
        Err(_) => path.to_owned(),
    };
    let env = roots.env.iter().map(|(name, value)| {
        (name.clone(), below(Path::new(value)).to_string_lossy().into_owned())
    });
    Roots {
        home: below(&roots.home),
        env: env.collect(),
        projects: roots.projects.iter().map(|project| below(project)).collect(),
    }
}

fn of_files(tree: &Path, session: &Located) -> Option<Kept> {
    let path = original(tree, &session.path)?;
    let copies = foreign::belongings(session).ok()?;
    let files: Vec<PathBuf> = copies.iter().filter_map(|copy| original(tree, copy)).collect();
    let copy = tree.join(mirrored(files.first()?)?);
    Some(kept(session, path, copy, files))
}

fn of_rows(tree: &Path, copy: &Path) -> Option<Kept> {
    let database = original(tree, copy.parent()?)?.to_str()?.strip_suffix(".sessions")?.into();
    let found = foreign::recognise(copy).ok()?;
    let stem = copy.file_stem()?.to_str()?.to_owned();
    let named =
        |key: String| Located { path: PathBuf::clone(&database), key: Some(key), ..found.clone() };
    // The name is the key, or a hash of it where it is no plain word.
    let is_it = |session: &Located| {
        mirrored(&rows_path(session)).is_some_and(|below| tree.join(below) == copy)
    };
    let keys = [Some(stem), id(&found)].into_iter().flatten();
    let mut session = keys.map(named).find(|session| is_it(session))?;
    session.id = session.id.or_else(|| session.key.clone());
    let files = vec![rows_path(&session)];
    Some(kept(&session, database, copy.to_owned(), files))
}

/// The id that a session says itself.
fn id(session: &Located) -> Option<String> {
    let mut id = None;
    // What cannot be read further has said it, or does not say it.
    let _ = foreign::read(session, &mut |item| {
        if let Item::Fact(Fact::Id(said)) = item {
            id = Some(said);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    id
}

fn kept(session: &Located, path: PathBuf, copy: PathBuf, files: Vec<PathBuf>) -> Kept {
    let stamp = fs::metadata(&copy).map(|meta| Stamp::of(&meta)).unwrap_or_default();
    Kept {
        agent: session.agent,
        path,
        key: session.key.clone(),
        id: session.id.clone(),
        parent: session.parent.clone(),
        archived: session.archived,
        // A copy has the time of its original.
        at: Timestamp(stamp.modified_ns / 1_000_000),
        rows: None,
        copy,
        files,
        known: Vec::new(),
    }
}

/// The path of which something in the tree is the copy.
fn original(tree: &Path, copy: &Path) -> Option<PathBuf> {
    Some(Path::new("/").join(copy.strip_prefix(tree).ok()?))
}

/// The copies of sessions of databases; links are not followed.
fn rows_below(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let of_rows = dir.extension() == Some(OsStr::new("sessions"));
    // What cannot be listed holds nothing that could be read.
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => rows_below(&path, depth - 1, found),
            Ok(kind)
                if kind.is_file() && of_rows && path.extension() == Some(OsStr::new("sqlite")) =>
            {
                found.push(path);
            }
            _ => {}
        }
    }
}
