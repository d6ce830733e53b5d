//! Instructions and project facts: files and repositories go in, a prompt and facts come out.
//!
//! Responsible for: what is found where, in which order, and that it is stable. Must not: need a network.
#![allow(clippy::unwrap_used)]

use segno_agent::FileFault;
use segno_agent::instructions::{MAX_FILE, MAX_TOTAL, load, system_prompt};
use segno_agent::project::Project;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    for (name, content) in files {
        fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
        fs::write(root.join(name), content).unwrap();
    }
    (directory, root)
}

fn git(cwd: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(["-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"])
        .args(arguments)
        .current_dir(cwd)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn texts(cwd: &Path, root: Option<&Path>, user: Option<&Path>) -> Vec<String> {
    load(cwd, root, user).into_iter().map(|i| i.text).collect()
}

#[test]
fn instructions_come_from_the_root_down_and_the_users_last() {
    let (_keep, root) = tree(&[
        ("AGENTS.md", "outside"),
        ("repo/AGENTS.md", "top"),
        ("repo/CLAUDE.md", "not this one"),
        ("repo/a/CLAUDE.md", "middle"),
        ("repo/a/b/AGENTS.md", "inner"),
        ("repo/other/AGENTS.md", "elsewhere"),
        ("repo/blank/AGENTS.md", " \n"),
        ("user.md", "mine"),
    ]);
    let at = |p: &str| root.join(p);
    let (repo, user) = (at("repo"), at("user.md"));
    type Row<'a> = (&'a str, Option<&'a Path>, Option<&'a Path>, &'a [&'a str]);
    let rows: [Row<'_>; 7] = [
        ("repo/a/b", Some(&repo), Some(&user), &["top", "middle", "inner", "mine"]),
        ("repo/a", Some(&repo), None, &["top", "middle"]),
        ("repo", Some(&repo), None, &["top"]),
        ("repo/blank", Some(&repo), None, &["top"]),
        ("repo/a", None, None, &["middle"]),
        ("repo/a/b", Some(&user), None, &["inner"]),
        ("repo/other", Some(&repo), Some(Path::new("/nonexistent")), &["top", "elsewhere"]),
    ];
    for (cwd, root, user, wanted) in rows {
        assert_eq!(texts(&at(cwd), root, user), wanted, "{cwd}");
    }
}

#[test]
fn one_file_under_two_names_counts_once() {
    let (_keep, root) = tree(&[("AGENTS.md", "same"), ("d/x", "")]);
    symlink("../AGENTS.md", root.join("d/AGENTS.md")).unwrap();
    assert_eq!(texts(&root.join("d"), Some(&root), Some(&root.join("AGENTS.md"))), ["same"]);
}

/// A repository cannot slip a person's keys into the prompt. Covers: G17.
#[test]
fn a_link_to_credentials_is_not_followed() {
    let (_keep, root) = tree(&[(".ssh/id", "PRIVATE"), ("repo/x", "")]);
    symlink("../.ssh/id", root.join("repo/AGENTS.md")).unwrap();
    let found = load(&root.join("repo"), None, None);
    let fault = found[0].note.as_ref().map(|note| &note.fault);
    assert_eq!(fault, Some(&FileFault::Credentials), "{found:?}");
    assert!(!system_prompt("/", "linux", &found).contains("PRIVATE"));
}

/// Nor anything else that lies outside of it; the user's own file may be a link. Covers: G17.
#[test]
fn a_link_out_of_the_project_is_not_followed() {
    let (_keep, root) = tree(&[("else.md", "ELSE"), ("repo/docs/in.md", "IN"), ("repo/d/x", "")]);
    symlink("../else.md", root.join("repo/AGENTS.md")).unwrap();
    symlink("../docs/in.md", root.join("repo/d/AGENTS.md")).unwrap();
    symlink("else.md", root.join("user.md")).unwrap();
    let found = load(&root.join("repo/d"), Some(&root.join("repo")), Some(&root.join("user.md")));
    let fault = found[0].note.as_ref().map(|note| &note.fault);
    assert!(matches!(fault, Some(FileFault::LeadsOut(_))), "{found:?}");
    assert_eq!(texts(&root.join("repo/d"), Some(&root.join("repo")), None), ["", "IN"]);
    assert_eq!(texts(&root.join("repo"), None, Some(&root.join("else.md"))), ["", "ELSE"]);
}

#[test]
fn odd_files_are_taken_or_said() {
    let (_keep, root) = tree(&[
        ("bom/AGENTS.md", "\u{feff}a\r\nb\r\n"),
        ("dir/AGENTS.md/x", ""),
        ("dir/CLAUDE.md", "c"),
    ]);
    assert_eq!(texts(&root.join("bom"), None, None), ["a\nb\n"]);
    assert_eq!(texts(&root.join("dir"), None, None), ["c"]);
    fs::create_dir(root.join("latin")).unwrap();
    fs::write(root.join("latin/AGENTS.md"), b"caf\xe9").unwrap();
    assert_eq!(texts(&root.join("latin"), None, None), ["caf\u{fffd}"]);
}

#[test]
fn long_files_are_cut_at_a_line_and_say_so() {
    let long = "ä line of text\n".repeat(20_000);
    let names = ["AGENTS.md", "a/AGENTS.md", "a/b/AGENTS.md", "a/b/c/AGENTS.md"];
    let (_keep, root) = tree(&names.map(|n| (n, long.as_str())));
    let found = load(&root.join("a/b/c"), Some(&root), None);
    assert_eq!(found.len(), 4);
    for instruction in &found {
        assert!(instruction.text.contains("bytes were left out"), "{:?}", instruction.note);
        assert!(instruction.text.len() < MAX_FILE + 300);
        assert!(instruction.note.is_some());
        assert_eq!(instruction.file.sha256, segno_model::id::sha256_hex(long.as_bytes()));
    }
    assert!(found.iter().map(|i| i.text.len()).sum::<usize>() < MAX_TOTAL + 4 * 300);
}

/// Covers: G10.
#[test]
fn the_prompt_is_the_same_bytes_for_the_same_place() {
    let (_keep, root) = tree(&[("AGENTS.md", "Use tabs."), ("user.md", "Be kind.\n")]);
    let make = || {
        system_prompt("/srv/app", "linux (x86_64)", &load(&root, None, Some(&root.join("user.md"))))
    };
    let prompt = make();
    assert_eq!(prompt, make());
    let order =
        ["You are Segno", "unknown", "Working directory: /srv/app", "Use tabs.", "Be kind."];
    let mut from = 0;
    for part in order {
        from +=
            prompt[from..].find(part).unwrap_or_else(|| panic!("{part} is missing or misplaced"));
    }
    assert!(!system_prompt("/srv/app", "linux", &[]).contains("# Instructions"));
}

#[tokio::test]
async fn a_directory_without_git_has_its_paths_only() {
    let (_keep, root) = tree(&[("d/x", "")]);
    let project = Project::look(&root.join("d")).await;
    assert_eq!(project.git, None);
    assert_eq!(project.root, None);
    assert_eq!(project.facts.real_path.as_deref(), root.join("d").to_str());
    assert_eq!((project.facts.git_common_dir, project.facts.root_commit), (None, None));
}

#[tokio::test]
async fn a_machine_without_git_is_no_error() {
    let (_keep, root) = tree(&[("x", "")]);
    git(&root, &["init"]);
    for program in ["/nonexistent/git", "/dev/null", "/bin/false"] {
        let project = Project::look_with(&root, Path::new(program)).await;
        assert_eq!((project.git, project.root), (None, None), "{program}");
    }
    let gone = Project::look(&root.join("gone")).await;
    assert_eq!((gone.git, gone.facts.real_path), (None, None));
}

#[tokio::test]
async fn git_facts_say_branch_commit_and_dirt() {
    let (_keep, root) = tree(&[("a", "1"), ("sub/b", "2")]);
    git(&root, &["init"]);
    let unborn = Project::look(&root).await.git.unwrap();
    assert_eq!((unborn.branch.as_deref(), unborn.commit), (Some("main"), None));
    git(&root, &["add", "."]);
    git(&root, &["commit", "-m", "one"]);
    let first = git(&root, &["rev-parse", "HEAD"]);
    let project = Project::look(&root.join("sub")).await;
    let facts = project.git.unwrap();
    assert_eq!(
        (facts.branch.as_deref(), facts.commit, facts.dirty),
        (Some("main"), Some(first.clone()), false)
    );
    assert_eq!(project.root, Some(root.clone()));
    assert_eq!(project.facts.git_common_dir.as_deref(), root.join(".git").to_str());
    assert_eq!(project.facts.root_commit, Some(first.clone()));
    fs::write(root.join("new"), "untracked").unwrap();
    assert!(!Project::look(&root).await.git.unwrap().dirty);
    fs::write(root.join("a"), "changed").unwrap();
    assert!(Project::look(&root).await.git.unwrap().dirty);
    git(&root, &["commit", "-am", "two"]);
    git(&root, &["checkout", "--detach"]);
    let detached = Project::look(&root).await;
    assert_eq!(detached.git.unwrap().branch, None);
    assert_eq!(detached.facts.root_commit, Some(first));
}

/// One repository by all of its worktrees and clones; a shallow clone claims no first commit.
/// Covers: #84, #90.
#[tokio::test]
async fn a_project_is_known_again_by_any_of_its_facts() {
    let (_keep, root) = tree(&[("repo/a", "1")]);
    let repo = root.join("repo");
    let before = Project::look(&repo).await.facts;
    git(&repo, &["init"]);
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-m", "one"]);
    git(&repo, &["commit", "--allow-empty", "-m", "two"]);
    let facts = Project::look(&repo).await.facts;
    assert!(before.same_project(&facts), "git init changes nothing");
    git(&repo, &["worktree", "add", "../tree", "-b", "side"]);
    git(&root, &["clone", "repo", "clone"]);
    git(&root, &["clone", "--depth", "1", &format!("file://{}", repo.display()), "shallow"]);
    symlink("repo", root.join("link")).unwrap();
    for name in ["tree", "clone", "link"] {
        let other = Project::look(&root.join(name)).await.facts;
        assert!(facts.same_project(&other), "{name}: {other:?}");
    }
    let shallow = Project::look(&root.join("shallow")).await.facts;
    assert_eq!(shallow.root_commit, None);
    assert!(!facts.same_project(&shallow));
    git(&repo, &["commit", "--amend", "--allow-empty", "-m", "rewritten"]);
    git(&repo, &["checkout", "--orphan", "fresh"]);
    git(&repo, &["commit", "-m", "another root"]);
    assert!(
        facts.same_project(&Project::look(&repo).await.facts),
        "a rewritten root changes nothing"
    );
    fs::rename(root.join("clone"), root.join("moved")).unwrap();
    let moved = Project::look(&root.join("moved")).await.facts;
    assert!(facts.same_project(&moved), "a moved directory is still a clone of it");
}

/// What lists remember of a directory holds until something happens by which git's answer may change.
#[tokio::test]
async fn facts_are_remembered_until_a_repository_changes() {
    let (_keep, root) = tree(&[("repo/sub/a", "1")]);
    let (repo, sub) = (root.join("repo"), root.join("repo/sub"));
    let mut seen: Vec<Option<String>> = Vec::new();
    let mut look = async |cwd: &Path, what: &str| {
        let facts = Project::facts_of(cwd).await;
        assert_eq!(facts, Project::look(cwd).await.facts, "{what}");
        let mark = Project::mark(cwd, &facts);
        assert_eq!(mark, Project::mark(cwd, &facts), "{what}");
        let fresh = mark.is_none() || !seen.contains(&mark);
        seen.push(mark);
        (facts, fresh)
    };
    assert!(look(&sub, "no repository").await.1);
    assert!(!look(&sub, "the same").await.1);
    git(&repo, &["init"]);
    assert!(look(&sub, "nothing committed").await.1);
    assert!(look(&sub, "still nothing committed").await.1, "no answer is remembered");
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-m", "one"]);
    let (first, fresh) = look(&sub, "a commit").await;
    assert!(fresh && first.root_commit.is_some());
    git(&repo, &["commit", "--allow-empty", "-m", "two"]);
    assert!(!look(&sub, "more commits").await.1, "the first one is the same");
    git(&repo, &["checkout", "--orphan", "fresh"]);
    git(&repo, &["commit", "-m", "another root"]);
    assert!(look(&sub, "another branch").await.1);
    git(&repo, &["worktree", "add", "../tree", "main"]);
    let (tree, fresh) = look(&root.join("tree"), "a worktree").await;
    assert!(fresh && tree.same_project(&first));
    git(&root.join("tree"), &["checkout", "-b", "side"]);
    assert!(look(&root.join("tree"), "another branch of the worktree").await.1);
    fs::remove_dir_all(repo.join(".git")).unwrap();
    git(&repo, &["init"]);
    git(&repo, &["commit", "--allow-empty", "-m", "anew"]);
    assert!(look(&sub, "another repository").await.1);
    assert!(look(&root.join("gone"), "no directory").await.1);
}

/// Covers: #89.
#[tokio::test]
async fn long_directories_in_any_script_are_kept_whole() {
    let (_keep, root) = tree(&[]);
    let deep: PathBuf = std::iter::once(root).chain((0..20).map(|_| "日本語資料".into())).collect();
    fs::create_dir_all(&deep).unwrap();
    let facts = Project::look(&deep).await.facts;
    assert_eq!(facts.cwd, deep.to_str().unwrap());
}

/// A repository cannot make Segno run a program by being looked at.
#[tokio::test]
async fn looking_at_a_repository_runs_nothing_of_it() {
    let (_keep, root) =
        tree(&[("a", "1"), ("hook", "#!/bin/sh\ntouch \"$(dirname \"$0\")/ran\"\n")]);
    fs::set_permissions(root.join("hook"), fs::Permissions::from_mode(0o755)).unwrap();
    git(&root, &["init"]);
    git(&root, &["add", "a"]);
    git(&root, &["commit", "-m", "one"]);
    git(&root, &["config", "core.fsmonitor", root.join("hook").to_str().unwrap()]);
    assert!(Project::look(&root).await.git.is_some());
    assert!(!root.join("ran").exists());
}
