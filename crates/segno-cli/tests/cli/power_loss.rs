//! Real file systems in image files, copied while the agent works, as if the power had gone at that moment.
//!
//! Responsible for: what was acknowledged before the copy began, held against what the copy holds. The
//! project and Segno's home are on two file systems: neither's order of writing vouches for the other's.
//! Must not: run where nobody may mount (it says so).

use crate::place::{Place, skipped};
use segno_model::record::{Body, Message, Outcome};
use segno_model::store::{Scanned, SessionStore as _};
use segno_store::{FileStore, RealDisk};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// How large an image is, in MiB.
const IMAGE_MIB: u64 = 24;

/// How often the images are copied.
const COPIES: usize = 6;

/// An image that is mounted; unmounted when dropped.
struct Mounted {
    at: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = quiet("umount", &["-l", &self.at.display().to_string()]);
    }
}

fn quiet(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _gate = crate::desk::starting();
    command.status().is_ok_and(|status| status.success())
}

fn mount(image: &Path, at: &Path) -> Option<Mounted> {
    std::fs::create_dir_all(at).ok()?;
    let (image, shown) = (image.display().to_string(), at.display().to_string());
    quiet("mount", &["-o", "loop", &image, &shown]).then(|| Mounted { at: at.to_owned() })
}

fn image(path: &Path) -> bool {
    let made = std::fs::File::create(path).and_then(|file| file.set_len(IMAGE_MIB << 20));
    made.is_ok()
        && quiet("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0", &path.display().to_string()])
}

const SCRIPT: &str = r#"
rule write it
  when last user
  when prompt line "Write " capture n until "."
  call write {"path": "f{n}", "content": "content of {n}"}
otherwise
  say "Written."
"#;

/// Each file that a result calls done, by its number.
fn told_done(home: &Path) -> (Vec<String>, Vec<String>) {
    let store = FileStore::new(RealDisk, home);
    let (mut prompts, mut done) = (Vec::new(), Vec::new());
    for session in crate::place::wait(store.list()).unwrap() {
        let mut visit = |item| {
            let Scanned::Record(record) = item else { return true };
            let Body::Message(message) = record.body() else { return true };
            match &**message {
                Message::User(user) => {
                    let texts = user.content.iter().filter_map(|block| match block {
                        segno_model::record::Block::Text { text } => Some(text.head().to_owned()),
                        _ => None,
                    });
                    prompts.extend(texts);
                }
                Message::Tool(result) if result.outcome == Outcome::Done => {
                    done.push(format!("{:?}", result.content));
                }
                _ => {}
            }
            true
        };
        crate::place::wait(store.scan(&session.id, &mut visit)).unwrap();
    }
    (prompts, done)
}

/// What a copy of both images holds, held against what was acknowledged before it was made.
fn check(dir: &Path, number: usize, acknowledged: usize) {
    let home = mount(&dir.join(format!("home-{number}.img")), &dir.join(format!("h{number}")));
    let project =
        mount(&dir.join(format!("project-{number}.img")), &dir.join(format!("p{number}")));
    let (Some(home), Some(project)) = (home, project) else {
        panic!("copy {number} cannot be mounted: what a power loss leaves is a file system");
    };
    let (prompts, done) = told_done(&home.at.join("segno"));
    for n in 0..acknowledged {
        let found = prompts.iter().filter(|prompt| **prompt == format!("Write {n}.")).count();
        assert_eq!(found, 1, "copy {number}: prompt {n} of {acknowledged} acknowledged ones");
    }
    assert!(done.len() >= acknowledged, "copy {number}: {} of {acknowledged} done", done.len());
    // The home was copied first: what its log calls done is on the other medium.
    for told in &done {
        let n = told.split("f").find_map(|rest| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            (!digits.is_empty()).then_some(digits)
        });
        let file = project.at.join("work").join(format!("f{}", n.unwrap()));
        let content = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(content.starts_with("content of"), "copy {number}: {} {told}", file.display());
    }
}

/// Covers: G1, G7.
#[test]
fn copies_of_the_media_taken_while_it_works_hold_what_was_acknowledged() {
    let place = Place::new(SCRIPT);
    let dir = tempfile::tempdir().unwrap();
    let images = [dir.path().join("home.img"), dir.path().join("project.img")];
    if !images.iter().all(|path| image(path)) {
        return skipped("no ext4 can be made here");
    }
    let mounts = [dir.path().join("home"), dir.path().join("project")];
    let mounted: Vec<_> = images.iter().zip(&mounts).map(|(image, at)| mount(image, at)).collect();
    if mounted.iter().any(Option::is_none) {
        return skipped("nothing can be mounted here");
    }
    let work = mounts[1].join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::File::open(&mounts[1]).unwrap().sync_all().unwrap();
    let acknowledged = Mutex::new(0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                let n = *acknowledged.lock().unwrap();
                let prompt = format!("Write {n}.");
                let more = if n > 0 { "--continue" } else { "--json" };
                let mut run = place.run(&["--permission", "all", more, &prompt]);
                run.env("SEGNO_HOME", mounts[0].join("segno")).current_dir(&work).env("PWD", &work);
                run.stdout(Stdio::null()).stderr(Stdio::null());
                let gate = crate::desk::starting();
                let child = run.spawn();
                drop(gate);
                assert!(child.unwrap().wait().unwrap().success(), "{prompt}");
                *acknowledged.lock().unwrap() += 1;
            }
        });
        for number in 0..COPIES {
            let began = *acknowledged.lock().unwrap();
            while *acknowledged.lock().unwrap() < began + 1 {
                std::thread::yield_now();
            }
            let before = *acknowledged.lock().unwrap();
            for name in ["home", "project"] {
                let copy = dir.path().join(format!("{name}-{number}.img"));
                std::fs::copy(dir.path().join(format!("{name}.img")), copy).unwrap();
            }
            check(dir.path(), number, before);
        }
        over.store(true, Ordering::SeqCst);
    });
}
