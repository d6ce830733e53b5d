//! `segno worktree` through the real binary: a subagent works in one, and a person looks, merges and prunes.

use crate::json_page::{example, same_shape};
use crate::place::{Place, Ran};
use segno_testkit::git;
use serde_json::Value;
use std::path::PathBuf;

const SCRIPT: &str = r##"
rule child writes
  when system contains "# Worktree"
  when prompt contains "write it"
  when last user
  call bash {"command": "echo one > new.txt"}
rule child commits
  when system contains "# Worktree"
  when last user
  call bash {"command": "git add --all && git -c user.name=A -c user.email=a@example.org commit -q -m new"}
rule child answers
  when system contains "# Worktree"
  say "Done."
rule parent gives
  when last user
  when prompt contains "give"
  call task {"agent": "scout", "prompt": "write it", "worktree": true}
otherwise
  say "Told: {result_line}"
"##;

/// A repository in which a subagent has written a file in a worktree of its own.
fn place() -> Place {
    let place = Place::new(SCRIPT);
    let project = place.file("");
    git(&project, &["init", "-q"]);
    std::fs::write(place.file("a.txt"), "one\n").unwrap();
    git(&project, &["add", "--all"]);
    git(&project, &["commit", "-q", "-m", "first"]);
    // In no commit, so it is not in the worktree; it is the parent's all the same.
    let agents = place.file(".segno/agents");
    std::fs::create_dir_all(&agents).unwrap();
    let role = "---\nname: scout\ndescription: it scouts\n---\nYou scout.\n";
    std::fs::write(agents.join("scout.md"), role).unwrap();
    let ran = place.done(&["--permission", "all", "give it"]);
    assert!(ran.code == Some(0) && ran.out.contains("Told: Done."), "{ran:?}");
    place
}

fn ran(place: &Place, args: &[&str]) -> Ran {
    place.segno(&[&["worktree"], args].concat()).output().unwrap().into()
}

fn json(place: &Place, args: &[&str]) -> Value {
    let ran = ran(place, args);
    serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"))
}

fn listed(place: &Place) -> (String, PathBuf, String) {
    let json = json(place, &["list", "--json"]);
    let of = |name: &str| json["worktrees"][0][name].as_str().unwrap_or_default().to_owned();
    (of("child"), PathBuf::from(of("path")), of("state"))
}

/// Covers: RS24.
#[test]
fn what_a_subagent_did_is_seen_merged_and_pruned() {
    let place = place();
    let (child, path, state) = listed(&place);
    assert_eq!((state.as_str(), place.file("new.txt").exists()), ("uncommitted", false));
    same_shape("worktrees", &example("worktrees"), &json(&place, &["list", "last", "--json"]));
    let diff = json(&place, &["diff", &child[..13], "--json"]);
    same_shape("worktree-diff", &example("worktree-diff"), &diff);
    assert!(diff["diff"].as_str().unwrap().contains("+one"));
    assert!(ran(&place, &["diff", &child]).out.contains("new.txt"));
    assert!(ran(&place, &["diff", &child, "--stat"]).out.contains("1 file changed"));

    let refused = ran(&place, &["merge", &child]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("merge-uncommitted") && refused.err.contains("segno resume"),
        "{refused:?}"
    );
    let kept = ran(&place, &["prune", "--yes"]);
    assert!(
        kept.code == Some(0) && kept.out.contains("stays: uncommitted") && path.is_dir(),
        "{kept:?}"
    );
    // A person goes on with it, where it works.
    let url = place.server.url();
    let resume = ["resume", &child, "--permission", "all", "--base-url", &url, "--", "commit it"];
    let resumed: Ran = place.segno(&resume).output().unwrap().into();
    assert!(resumed.code == Some(0) && resumed.out.contains("Done."), "{resumed:?}");
    assert_eq!(listed(&place).2, "unmerged");

    let merged = json(&place, &["merge", &child, "--json"]);
    same_shape("worktree-merge", &example("worktree-merge"), &merged);
    assert_eq!((merged["into"].as_str(), place.read("new.txt").as_str()), (Some("main"), "one\n"));
    assert_eq!(listed(&place).2, "merged");
    let looked = json(&place, &["prune", "--json"]);
    same_shape("worktree-prune", &example("worktree-prune"), &looked);
    assert!(looked["done"] == false && path.is_dir());
    let pruned = ran(&place, &["prune", &child, "--yes"]);
    assert!(pruned.code == Some(0) && pruned.out.contains("1 worktree removed"), "{pruned:?}");
    assert!(!path.exists() && git(&place.file(""), &["branch", "--list", "segno/*"]).is_empty());
    assert!(ran(&place, &["list"]).out.contains("There are no worktrees"));
    assert_eq!(ran(&place, &["diff", &child]).code, Some(6));
    // Without it the subagent can be read, and not continued.
    let resumed: Ran = place.segno(&resume).output().unwrap().into();
    assert!(resumed.code == Some(1) && resumed.err.contains("worktree-missing"), "{resumed:?}");
}

/// A refusal says what brings a worktree back, which does, and offers nothing that would not.
#[test]
fn a_refusal_says_what_brings_a_worktree_back() {
    let place = place();
    let (child, path, _) = listed(&place);
    let repository = json(&place, &["list", "--json"])["worktrees"][0]["repository"].clone();
    let (url, project) = (place.server.url(), place.file(""));
    let (at, branch) = (path.display().to_string(), format!("segno/{child}"));
    let resume = ["resume", &child, "--permission", "all", "--base-url", &url, "--", "commit it"];
    let resumed = || -> Ran { place.segno(&resume).output().unwrap().into() };
    let refused = |code: &str, helps: &[&str]| {
        let ran = resumed();
        let helps = format!("git {}", helps.join(" "));
        assert!(ran.code == Some(1) && ran.err.contains(code), "{ran:?}");
        assert!(ran.err.contains(&helps), "{helps}: {ran:?}");
        for other in ["--allow-drift", "segno relocate", "Start a new"] {
            assert!(!ran.err.contains(other), "{ran:?}");
        }
    };
    std::fs::remove_dir_all(&path).unwrap();
    let git_dir = ["--git-dir", repository.as_str().unwrap()];
    let add = [&git_dir[..], &["worktree", "add", &at, &branch]].concat();
    refused("worktree-missing", &add);
    let moved: Ran = place.segno(&["relocate", &child, "."]).output().unwrap().into();
    assert!(moved.code == Some(1) && moved.err.contains("a worktree of its own"), "{moved:?}");
    git(&project, &[&git_dir[..], &["worktree", "prune"]].concat());
    git(&project, &add);
    git(&path, &["switch", "-q", "-c", "other"]);
    refused("worktree-branch-swapped", &["-C", &at, "switch", &branch]);
    git(&path, &["switch", "-q", &branch]);
    let ran = resumed();
    assert!(ran.code == Some(0) && ran.out.contains("Done."), "{ran:?}");
}

/// A note whose writer died is listed and goes with `prune`, unless its writer still lives.
#[test]
fn notes_that_were_never_finished_are_listed_and_pruned() {
    let place = place();
    let worktrees = listed(&place).1.parent().unwrap().to_owned();
    let note = |n: u8| worktrees.join(format!("5812c3f0-93aa-8f21-8c1d-00000000000{n}.new"));
    std::fs::write(note(1), "").unwrap();
    let writer = std::fs::File::create(note(2)).unwrap();
    writer.lock().unwrap();
    let odd = json(&place, &["list", "--json"])["odd"].clone();
    assert!(odd.as_array().unwrap().len() == 2 && odd.to_string().contains("1.new"), "{odd}");
    let looked = json(&place, &["prune", "--json"]);
    assert!(looked["notes"].as_array().unwrap().len() == 2 && note(1).exists(), "{looked}");
    let pruned = ran(&place, &["prune", "--yes"]);
    assert!(pruned.out.contains("1 unfinished note removed"), "{pruned:?}");
    assert!(pruned.out.contains("2.new stays: somebody is at work on it"), "{pruned:?}");
    assert!(!note(1).exists() && note(2).exists() && listed(&place).1.is_dir(), "{pruned:?}");
    drop(writer);
    assert_eq!(ran(&place, &["prune", "--yes"]).code, Some(0));
    assert!(!note(2).exists());
}

/// Deleting a session says that worktrees stay; what holds nothing goes afterwards all the same.
#[test]
fn worktrees_outlive_their_sessions() {
    let place = place();
    let (child, path, _) = listed(&place);
    let deleted: Ran = place.segno(&["delete", "last", "--yes"]).output().unwrap().into();
    assert!(deleted.out.contains("1 worktree of its subagents stays"), "{deleted:?}");
    let emptied: Ran = place.segno(&["trash", "empty", "--yes"]).output().unwrap().into();
    assert_eq!(emptied.code, Some(0), "{emptied:?}");
    assert_eq!(listed(&place), (child.clone(), path.clone(), "uncommitted".to_owned()));
    std::fs::remove_file(path.join("new.txt")).unwrap();
    let pruned = ran(&place, &["prune", "--yes"]);
    assert!(pruned.code == Some(0) && !path.exists(), "{pruned:?}");
}

/// Covers: #85.
#[test]
fn without_git_the_list_says_so() {
    let place = place();
    let mut command = place.segno(&["worktree", "list"]);
    let listed: Ran = command.env("PATH", "/nowhere").output().unwrap().into();
    assert!(listed.code == Some(0) && listed.out.contains("unknown"), "{listed:?}");
    let mut command = place.run(&["--permission", "all", "give it"]);
    let told: Ran = command.env("PATH", "/nowhere").output().unwrap().into();
    assert!(told.out.contains("the git program is not there"), "{told:?}");
}
