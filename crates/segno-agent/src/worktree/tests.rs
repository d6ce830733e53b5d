//! Worktrees on real repositories, with the git program that is there.
//!
//! Responsible for: every answer, state and refusal. Must not: look into a repository by other means than git.

use super::today::directory;
use super::*;
use segno_model::child::drift::{Directory, Tree};
use segno_testkit::git;
use std::os::unix::fs::PermissionsExt as _;

/// A repository with two commits and a directory `sub`, beside a place for worktrees.
struct Scene {
    _dir: tempfile::TempDir,
    root: PathBuf,
    worktrees: Worktrees,
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn commit(at: &Path, name: &str, text: &str) -> String {
    put(&at.join(name), text);
    git(at, &["add", "--all"]);
    git(at, &["commit", "-q", "-m", name]);
    git(at, &["rev-parse", "HEAD"])
}

fn child(last: u32) -> SessionId {
    SessionId::parse(&format!("0195f3a0-0000-8000-8000-{last:012}")).unwrap()
}

fn parent() -> SessionId {
    SessionId::parse("0195f3a0-0000-7000-8000-000000000001").unwrap()
}

fn note_of(planned: &Planned, last: u32) -> Note {
    let (role, worktree) = ("general".to_owned(), planned.worktree.clone());
    Note { version: 1, parent: parent(), child: child(last), role, worktree }
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let repo = root.join("repo");
        std::fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q"]);
        // What merges here are made by.
        git(&repo, &["config", "user.name", "A"]);
        git(&repo, &["config", "user.email", "a@example.org"]);
        commit(&repo, "a.txt", "one\n");
        commit(&repo, "sub/b.txt", "one\n");
        Self { _dir: dir, worktrees: Worktrees::new(root.join("segno/worktrees")), root }
    }

    fn repo(&self) -> PathBuf {
        self.root.join("repo")
    }

    async fn code(&self, cwd: &Path, last: u32) -> &'static str {
        self.worktrees.plan(&child(last), cwd).await.map_or_else(|why| why.code, |_| "")
    }

    async fn made(&self, last: u32) -> Note {
        let planned = self.worktrees.plan(&child(last), &self.repo()).await.unwrap();
        let note = note_of(&planned, last);
        self.worktrees.make(&planned, &note).await.unwrap();
        note
    }

    async fn state(&self, note: &Note) -> (State, usize, usize) {
        let work = self.worktrees.work(note).await;
        (work.state, work.uncommitted, work.unmerged)
    }

    async fn tree(&self, note: &Note) -> Tree {
        self.worktrees.tree(&note.child, &note.worktree).await
    }

    async fn merged(&self, note: &Note, cwd: &Path) -> Result<Merged, &'static str> {
        self.worktrees.merge(note, cwd).await.map_err(|why| why.code)
    }
}

fn path(note: &Note) -> PathBuf {
    PathBuf::from(&note.worktree.path)
}

/// Every place has an answer, and asking changes nothing.
#[tokio::test]
async fn where_a_worktree_can_be_made() {
    let scene = Scene::new();
    let (root, repo) = (&scene.root, scene.repo());
    let plain = root.join("plain");
    std::fs::create_dir(&plain).unwrap();
    assert_eq!(scene.code(&plain, 1).await, "worktree-no-repository");
    git(root, &["init", "-q", "--bare", "bare"]);
    assert_eq!(scene.code(&root.join("bare"), 1).await, "worktree-bare");
    assert_eq!(scene.code(&repo.join(".git"), 1).await, "worktree-bare");
    git(root, &["init", "-q", "fresh"]);
    assert_eq!(scene.code(&root.join("fresh"), 1).await, "worktree-no-commit");
    for good in [&repo, &repo.join("sub")] {
        assert_eq!(scene.code(good, 1).await, "", "{}", good.display());
    }
    // A repository inside of another one's working tree is its own.
    git(&repo, &["init", "-q", "inner"]);
    assert_eq!(scene.code(&repo.join("inner"), 1).await, "worktree-no-commit");
    let inner = commit(&repo.join("inner"), "c.txt", "c\n");
    let planned = scene.worktrees.plan(&child(1), &repo.join("inner")).await.unwrap();
    assert_eq!(planned.worktree.baseline, inner);
    // A submodule is a repository, too; and whoever has one is told that it is empty in the worktree.
    git(root, &["clone", "-q", "repo", "outer"]);
    let outer = root.join("outer");
    git(&outer, &["submodule", "--quiet", "add", "../repo/inner", "module"]);
    git(&outer, &["commit", "-q", "-m", "module"]);
    assert!(scene.worktrees.plan(&child(1), &outer).await.unwrap().submodules);
    let planned = scene.worktrees.plan(&child(1), &outer.join("module")).await.unwrap();
    assert_eq!((planned.worktree.baseline, planned.submodules), (inner, false));
    // Without a branch there is a commit all the same.
    git(&repo, &["checkout", "-q", "--detach"]);
    assert_eq!(scene.code(&repo, 1).await, "");
    git(&repo, &["checkout", "-q", "main"]);
    // What is a file in the commit.
    std::fs::remove_file(repo.join("a.txt")).unwrap();
    std::fs::create_dir(repo.join("a.txt")).unwrap();
    assert_eq!(scene.code(&repo.join("a.txt"), 1).await, "worktree-no-directory");
    // Names that are taken.
    git(&repo, &["branch", &Worktrees::branch(&child(2))]);
    assert_eq!(scene.code(&repo, 2).await, "worktree-exists");
    put(&scene.worktrees.path(&child(3)), "mine");
    assert_eq!(scene.code(&repo, 3).await, "worktree-exists");
    assert_eq!(git(&repo, &["worktree", "list"]).lines().count(), 1);
}

/// From the last commit, as deep as the parent works, and private; what is in no commit is counted and not taken
/// along, and neither a hook nor a locked index is in the way.
#[tokio::test]
async fn a_worktree_is_made_from_the_last_commit() {
    let scene = Scene::new();
    let repo = scene.repo();
    put(&repo.join("a.txt"), "two\n");
    put(&repo.join("new/deep/c.txt"), "c\n");
    let hook = repo.join(".git/hooks/post-checkout");
    put(&hook, "#!/bin/sh\necho ran > \"$OLDPWD/ran\"\nexit 1\n");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    put(&repo.join(".git/index.lock"), "");
    let planned = scene.worktrees.plan(&child(1), &repo.join("sub")).await.unwrap();
    assert_eq!(planned.left_behind, Some(2));
    let note = note_of(&planned, 1);
    scene.worktrees.make(&planned, &note).await.unwrap();
    assert_eq!(std::fs::read_to_string(path(&note).join("a.txt")).unwrap(), "one\n");
    assert_eq!(planned.cwd, path(&note).join("sub"));
    let deep = scene.worktrees.plan(&child(2), &repo.join("new/deep")).await.unwrap();
    scene.worktrees.make(&deep, &note_of(&deep, 2)).await.unwrap();
    assert!(deep.cwd.is_dir() && deep.cwd.ends_with("new/deep"));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let all = scene.root.join("segno/worktrees");
    assert_eq!((mode(&all), mode(&scene.worktrees.note_path(&child(1)))), (0o700, 0o600));
    assert_eq!(scene.state(&note).await, (State::Clean, 0, 0));
    assert_eq!(scene.worktrees.notes().unwrap(), (vec![note, note_of(&deep, 2)], vec![]));
}

/// What cannot be made leaves nothing.
#[tokio::test]
async fn what_fails_is_taken_back() {
    let scene = Scene::new();
    // A branch of this name leaves no room for ours below it.
    git(&scene.repo(), &["branch", "segno"]);
    let planned = scene.worktrees.plan(&child(1), &scene.repo()).await.unwrap();
    let note = note_of(&planned, 1);
    let why = scene.worktrees.make(&planned, &note).await.unwrap_err();
    assert_eq!(why.code, "worktree-failed");
    assert!(why.sentence.contains("git said: "), "{}", why.sentence);
    let left = std::fs::read_dir(scene.root.join("segno/worktrees")).unwrap().count();
    assert_eq!((left, git(&scene.repo(), &["worktree", "list"]).lines().count()), (0, 1));
    git(&scene.repo(), &["branch", "-D", "segno"]);
    // Stopped behind git's part: all of it goes.
    scene.worktrees.make(&planned, &note).await.unwrap();
    assert_eq!(scene.worktrees.take_back(&note).await, "");
    let left = std::fs::read_dir(scene.root.join("segno/worktrees")).unwrap().count();
    assert_eq!((left, git(&scene.repo(), &["branch"]).lines().count()), (0, 1));
}

type Change = fn(&Scene, &Note);

/// What happens to a worktree, and what it is then.
const CHANGES: &[(&str, Change, Tree)] = &[
    ("nothing", |_, _| {}, Tree::Same),
    (
        "commits and changes",
        |_, note| {
            commit(&path(note), "c.txt", "c\n");
            put(&path(note).join("a.txt"), "dirty\n");
        },
        Tree::Same,
    ),
    (
        "the repository is gone",
        |scene, _| std::fs::remove_dir_all(scene.repo()).unwrap(),
        Tree::RepoGone,
    ),
    ("it is gone", |_, note| std::fs::remove_dir_all(path(note)).unwrap(), Tree::Gone),
    (
        "it was removed by git",
        |scene, note| {
            git(&scene.repo(), &["worktree", "remove", &note.worktree.path]);
        },
        Tree::Gone,
    ),
    (
        "it was moved",
        |scene, note| {
            git(&scene.repo(), &["worktree", "move", &note.worktree.path, "../moved"]);
        },
        Tree::Gone,
    ),
    (
        "it lost its .git",
        |_, note| std::fs::remove_file(path(note).join(".git")).unwrap(),
        Tree::Replaced,
    ),
    (
        "a repository of its own is there",
        |_, note| {
            std::fs::remove_file(path(note).join(".git")).unwrap();
            git(&path(note), &["init", "-q"]);
        },
        Tree::Replaced,
    ),
    (
        "another repository's worktree is there",
        |scene, note| {
            std::fs::remove_dir_all(path(note)).unwrap();
            git(&scene.root, &["clone", "-q", "repo", "other"]);
            let add = ["worktree", "add", "-q", "-b", &note.worktree.branch, &note.worktree.path];
            git(&scene.root.join("other"), &add);
        },
        Tree::Replaced,
    ),
    (
        "a link is there",
        |scene, note| {
            let moved = scene.root.join("moved");
            std::fs::rename(path(note), &moved).unwrap();
            std::os::unix::fs::symlink(&moved, path(note)).unwrap();
        },
        Tree::Replaced,
    ),
    (
        "another branch is checked out",
        |_, note| {
            git(&path(note), &["checkout", "-q", "-b", "side"]);
        },
        Tree::OtherBranch,
    ),
    (
        "no branch is checked out",
        |_, note| {
            git(&path(note), &["checkout", "-q", "--detach"]);
        },
        Tree::OtherBranch,
    ),
    (
        "its registration was pruned",
        |scene, note| {
            let moved = scene.root.join("moved");
            std::fs::rename(path(note), &moved).unwrap();
            git(&scene.repo(), &["worktree", "prune", "--expire", "now"]);
            std::fs::rename(&moved, path(note)).unwrap();
        },
        Tree::Unregistered,
    ),
    (
        "its branch begins elsewhere",
        |_, note| {
            git(&path(note), &["reset", "-q", "--hard", "HEAD~1"]);
            commit(&path(note), "other.txt", "x\n");
        },
        Tree::OtherHistory,
    ),
    (
        "its branch has no common history",
        |_, note| {
            git(&path(note), &["checkout", "-q", "--orphan", "orphan"]);
            commit(&path(note), "other.txt", "x\n");
            git(&path(note), &["branch", "-q", "-M", &note.worktree.branch]);
        },
        Tree::OtherHistory,
    ),
];

/// What a recorded worktree can have become, each on a real repository. Covers: RS15, RS30, VA13.
#[tokio::test]
async fn what_became_of_a_worktree() {
    for (label, change, expected) in CHANGES {
        let scene = Scene::new();
        let note = scene.made(1).await;
        change(&scene, &note);
        assert_eq!(scene.tree(&note).await, *expected, "{label}");
    }
}

/// A record that names a place which is not this child's is nobody's word.
#[tokio::test]
async fn a_record_grants_no_other_place() {
    let scene = Scene::new();
    let (one, two) = (scene.made(1).await, scene.made(2).await);
    assert_eq!(scene.worktrees.tree(&one.child, &two.worktree).await, Tree::Replaced);
    let main = Worktree { path: scene.repo().display().to_string(), ..one.worktree.clone() };
    assert_eq!(scene.worktrees.tree(&one.child, &main).await, Tree::Replaced);
}

/// Covers: RS30.
#[tokio::test]
async fn where_a_childs_directory_leads() {
    let scene = Scene::new();
    let note = scene.made(1).await;
    let top = path(&note);
    std::os::unix::fs::symlink(top.join("sub"), top.join("in")).unwrap();
    std::os::unix::fs::symlink(&scene.root, top.join("out")).unwrap();
    let cases = [
        (".", Directory::Same),
        ("sub", Directory::Same),
        ("in", Directory::Same),
        ("out", Directory::Outside),
        ("..", Directory::Outside),
        ("a.txt", Directory::NotDirectory),
        ("nothing", Directory::Gone),
    ];
    for (name, expected) in cases {
        let cwd = top.join(name).display().to_string();
        assert_eq!(directory(&note.worktree, &cwd), expected, "{name}");
    }
}

/// A change in the moment in which git wrote its index, of the same length: its times do not tell, and it is shown.
#[tokio::test]
async fn a_change_right_behind_the_checkout_is_in_the_difference() {
    let scene = Scene::new();
    git(&scene.repo(), &["config", "core.trustctime", "false"]);
    let note = scene.made(1).await;
    let file = path(&note).join("a.txt");
    let index = git(&path(&note), &["rev-parse", "--git-path", "index"]);
    let written = std::fs::metadata(&file).unwrap().modified().unwrap();
    std::fs::write(&file, "two\n").unwrap();
    for name in [file, path(&note).join(index)] {
        let file = std::fs::File::options().append(true).open(name).unwrap();
        file.set_modified(written).unwrap();
    }
    assert_eq!(scene.state(&note).await, (State::Uncommitted, 1, 0));
    let diff = scene.worktrees.diff(&note, &[]).await.unwrap();
    assert!(diff.contains("+two"), "{diff}");
}

/// What would be lost is told, and only what is on no other branch would be.
#[tokio::test]
async fn what_a_worktree_holds() {
    let scene = Scene::new();
    let note = scene.made(1).await;
    put(&path(&note).join("a.txt"), "two\n");
    put(&path(&note).join("new.txt"), "new\n");
    assert_eq!(scene.state(&note).await, (State::Uncommitted, 2, 0));
    let diff = scene.worktrees.diff(&note, &[]).await.unwrap();
    assert!(diff.contains("+two") && diff.contains("b/new.txt") && diff.contains("+new"), "{diff}");
    assert_eq!(git(&path(&note), &["diff", "--cached", "--name-only"]), "", "its index stays");
    commit(&path(&note), "c.txt", "c\n");
    assert_eq!(scene.state(&note).await, (State::Unmerged, 0, 1));
    assert!(scene.worktrees.diff(&note, &["--stat"]).await.unwrap().contains("3 files changed"));
    // That another subagent has them is not enough.
    git(&scene.repo(), &["branch", "segno/other", &note.worktree.branch]);
    assert_eq!(scene.state(&note).await.0, State::Unmerged);
    git(&scene.repo(), &["branch", "kept", &note.worktree.branch]);
    assert_eq!(scene.state(&note).await, (State::Merged, 0, 0));
    std::fs::remove_dir_all(path(&note)).unwrap();
    assert_eq!(scene.state(&note).await, (State::Missing, 0, 0));
}

/// Every reason not to merge leaves all as it was.
#[tokio::test]
async fn a_merge_is_done_or_leaves_all_as_it_was() {
    let scene = Scene::new();
    let (note, repo) = (scene.made(1).await, scene.repo());
    assert_eq!(scene.merged(&note, &repo).await, Err("merge-nothing"));
    put(&path(&note).join("a.txt"), "theirs\n");
    assert_eq!(scene.merged(&note, &repo).await, Err("merge-uncommitted"));
    commit(&path(&note), "c.txt", "c\n");
    let before = git(&repo, &["rev-parse", "HEAD"]);
    put(&repo.join("a.txt"), "mine\n");
    assert_eq!(scene.merged(&note, &repo).await, Err("merge-dirty"));
    assert_eq!(std::fs::read_to_string(repo.join("a.txt")).unwrap(), "mine\n");
    git(&repo, &["commit", "-q", "-a", "-m", "mine"]);
    assert_eq!(scene.merged(&note, &repo).await, Err("merge-conflicts"));
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
    git(&repo, &["reset", "-q", "--hard", &before]);
    git(&repo, &["checkout", "-q", "--detach"]);
    assert_eq!(scene.merged(&note, &repo).await, Err("merge-detached"));
    git(&repo, &["checkout", "-q", "main"]);
    put(&repo.join(".git/index.lock"), "");
    assert_eq!(scene.merged(&note, &repo).await, Err("merge-failed"));
    std::fs::remove_file(repo.join(".git/index.lock")).unwrap();
    commit(&repo, "d.txt", "d\n");
    let before = git(&repo, &["rev-parse", "HEAD"]);
    let hook = repo.join(".git/hooks/pre-merge-commit");
    put(&hook, "#!/bin/sh\nexit 1\n");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(scene.merged(&note, &repo).await, Err("merge-failed"));
    assert_eq!(git(&repo, &["rev-parse", "HEAD"]), before);
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
    std::fs::remove_file(hook).unwrap();
    // From anywhere else it goes into the main checkout.
    let merged = scene.merged(&note, &scene.root).await.unwrap();
    assert_eq!((merged.into.as_str(), merged.commits, merged.checkout), ("main", 1, repo.clone()));
    assert_eq!(std::fs::read_to_string(repo.join("a.txt")).unwrap(), "theirs\n");
    assert_eq!(scene.merged(&note, &repo).await, Err("merge-nothing"));
    assert_eq!(scene.state(&note).await.0, State::Merged);
}

/// Files that are in no commit are not written over, whether git was told to ignore them or not, and whether
/// something was committed beside.
#[tokio::test]
async fn a_merge_writes_over_nothing_that_is_in_no_commit() {
    // The file that is there, what git ignores, and whether both sides have commits.
    let cases = [
        ("c.txt", "", false),
        ("c.txt", "c.txt", false),
        ("c.txt", "c.txt", true),
        ("new", "new", true),
        ("new", "", true),
        ("new/deep/c.txt", "new/", true),
        ("c.txt/mine", "c.txt", true),
    ];
    for (name, ignored, both) in cases {
        let scene = Scene::new();
        let (note, repo) = (scene.made(1).await, scene.repo());
        commit(&path(&note), "c.txt", "c\n");
        commit(&path(&note), "new/deep/c.txt", "c\n");
        put(&repo.join(".git/info/exclude"), ignored);
        if both {
            commit(&repo, "d.txt", "d\n");
        }
        let mine = repo.join(name);
        std::fs::create_dir_all(mine.parent().unwrap()).unwrap();
        put(&mine, "mine\n");
        assert_eq!(scene.merged(&note, &repo).await, Err("merge-overwrites"), "{name} {ignored}");
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine\n");
        std::fs::remove_file(&mine).unwrap();
        std::fs::remove_dir(repo.join("c.txt")).ok();
        put(&repo.join("else.txt"), "mine\n");
        scene.merged(&note, &repo).await.unwrap();
    }
}

/// What holds anything stays, however one asks; what holds nothing goes, with its branch.
#[tokio::test]
async fn only_what_holds_nothing_is_removed() {
    let scene = Scene::new();
    let note = scene.made(1).await;
    let clean = scene.worktrees.work(&note).await;
    put(&path(&note).join("new.txt"), "new\n");
    let meanwhile = scene.worktrees.remove(&note, &clean, false).await.unwrap_err();
    assert!(meanwhile.to_string().contains("changed meanwhile"));
    commit(&path(&note), "c.txt", "c\n");
    let unmerged = scene.worktrees.work(&note).await;
    assert!(
        !unmerged.is_removable(false)
            && scene.worktrees.remove(&note, &unmerged, false).await.is_err()
    );
    // Its branch is what it holds, when its directory is gone.
    std::fs::remove_dir_all(path(&note)).unwrap();
    let missing = scene.worktrees.work(&note).await;
    assert_eq!((missing.state, missing.is_removable(false)), (State::Missing, false));
    git(&scene.repo(), &["merge", "-q", &note.worktree.branch]);
    let missing = scene.worktrees.work(&note).await;
    assert!(missing.is_removable(false));
    scene.worktrees.remove(&note, &missing, false).await.unwrap();
    let (two, strange) = (scene.made(2).await, scene.root.join("strange"));
    git(&scene.repo(), &["worktree", "add", "-q", "-b", "strange", &strange.display().to_string()]);
    let clean = scene.worktrees.work(&two).await;
    scene.worktrees.remove(&two, &clean, false).await.unwrap();
    assert_eq!(scene.worktrees.notes().unwrap(), (vec![], vec![]));
    assert_eq!(git(&scene.repo(), &["branch", "--list", "segno/*"]), "");
    assert_eq!(git(&scene.repo(), &["worktree", "list"]).lines().count(), 2, "another's stays");
}

/// Whoever makes one may die anywhere: what is there is listed, and goes when it holds nothing.
#[tokio::test]
async fn what_a_crash_left_is_listed() {
    let scene = Scene::new();
    let note = scene.made(1).await;
    // Git had not come to its end.
    let admin = git(&path(&note), &["rev-parse", "--absolute-git-dir"]);
    put(&Path::new(&admin).join("locked"), "initializing");
    let unfinished = scene.worktrees.work(&note).await;
    assert_eq!((unfinished.state, unfinished.may_be_under_way()), (State::Unfinished, true));
    scene.worktrees.remove(&note, &unfinished, false).await.unwrap();
    assert_eq!(git(&scene.repo(), &["worktree", "list"]).lines().count(), 1);
    // Git had not begun.
    let planned = scene.worktrees.plan(&child(2), &scene.repo()).await.unwrap();
    let note = note_of(&planned, 2);
    scene.worktrees.make(&planned, &note).await.unwrap();
    git(&scene.repo(), &["worktree", "remove", &note.worktree.path]);
    git(&scene.repo(), &["branch", "-D", &note.worktree.branch]);
    let missing = scene.worktrees.work(&note).await;
    assert_eq!((missing.state, missing.tip.as_deref()), (State::Missing, None));
    scene.worktrees.remove(&note, &missing, false).await.unwrap();
    assert_eq!(scene.worktrees.notes().unwrap(), (vec![], vec![]));
}

/// A name, what is done in the worktree and its repository, and the sentence.
type Hidden = (&'static str, fn(&Path, &Path), &'static str);

/// What happens in a worktree, and what it is kept for; status shows none of it.
const HIDDEN: &[Hidden] = &[
    (
        "skip-worktree",
        |tree, _| {
            git(tree, &["update-index", "--skip-worktree", "a.txt"]);
            put(&tree.join("a.txt"), "precious\n");
        },
        "1 file that git was told not to look at (skip-worktree or assume-unchanged): a.txt",
    ),
    (
        "assume-unchanged",
        |tree, _| {
            git(tree, &["update-index", "--assume-unchanged", "a.txt"]);
            put(&tree.join("a.txt"), "precious\n");
        },
        "1 file that git was told not to look at (skip-worktree or assume-unchanged): a.txt",
    ),
    (
        "a nested repository that is ignored",
        |tree, repo| {
            put(&repo.join(".git/info/exclude"), "inner\n");
            std::fs::create_dir(tree.join("inner")).unwrap();
            git(&tree.join("inner"), &["init", "-q"]);
            commit(&tree.join("inner"), "c.txt", "c\n");
        },
        "1 repository of its own that git ignores: inner/",
    ),
    (
        "a merge that changes nothing",
        |tree, _| {
            let base = git(tree, &["rev-parse", "HEAD"]);
            let parent = ["commit-tree", "HEAD^{tree}", "-p", &base, "-m", "side"];
            let side = git(tree, &parent);
            git(tree, &["merge", "-q", "--no-ff", "--no-commit", &side]);
        },
        "it is in the middle of something (MERGE_HEAD)",
    ),
    (
        "a bisect",
        |tree, _| {
            git(tree, &["bisect", "start", "--no-checkout"]);
        },
        "it is in the middle of something (BISECT_LOG)",
    ),
    (
        "a reference of its own",
        |tree, _| {
            git(tree, &["update-ref", "refs/worktree/mine", "HEAD"]);
        },
        "1 name of a commit that is this worktree's alone: refs/worktree/mine",
    ),
    (
        "a stash",
        |tree, _| {
            put(&tree.join("a.txt"), "precious\n");
            git(tree, &["stash", "push", "-q"]);
        },
        "1 entry of the stash was made on its branch",
    ),
    (
        "a lock",
        |tree, repo| {
            let tree = tree.display().to_string();
            git(repo, &["worktree", "lock", "--reason", "mine", &tree]);
        },
        "it is locked (mine); `git worktree unlock` unlocks it",
    ),
    (
        "a submodule whose changes the configuration hides",
        |tree, repo| {
            let repo = repo.display().to_string();
            git(tree, &["submodule", "--quiet", "add", &repo, "module"]);
            git(tree, &["commit", "-q", "-m", "module"]);
            git(tree, &["push", "-q", &repo, "HEAD:refs/heads/kept"]);
        },
        "1 submodule, with which git removes no worktree: module",
    ),
];

/// What status does not show keeps a worktree as much as what it shows, whatever is asked for.
#[tokio::test]
async fn what_status_does_not_show_is_kept() {
    for (label, change, expected) in HIDDEN {
        let scene = Scene::new();
        let note = scene.made(1).await;
        let before = scene.worktrees.work(&note).await;
        change(&path(&note), &scene.repo());
        let work = scene.worktrees.work(&note).await;
        assert!(matches!(work.state, State::Clean | State::Merged), "{label}: {work:?}");
        assert_eq!(work.unseen, [*expected], "{label}");
        assert!(!work.is_removable(true), "{label}");
        for found in [&before, &work] {
            assert!(scene.worktrees.remove(&note, found, true).await.is_err(), "{label}");
        }
        assert!(path(&note).join("a.txt").is_file(), "{label}");
    }
}

/// A file that is skipped because it is not there, as in a sparse checkout, keeps nothing.
#[tokio::test]
async fn a_sparse_checkout_is_no_work() {
    let scene = Scene::new();
    let note = scene.made(1).await;
    git(&path(&note), &["sparse-checkout", "set", "--no-cone", "/a.txt"]);
    assert!(!path(&note).join("sub/b.txt").exists());
    let work = scene.worktrees.work(&note).await;
    assert!(work.is_removable(false), "{work:?}");
    put(&path(&note).join("sub/b.txt"), "precious\n");
    let work = scene.worktrees.work(&note).await;
    assert!(!work.is_removable(true), "{work:?}");
}

/// Ignored files are counted, and go only on a person's word.
#[tokio::test]
async fn ignored_files_go_only_on_a_persons_word() {
    let scene = Scene::new();
    put(&scene.repo().join(".git/info/exclude"), "*.log\nout/\n");
    let note = scene.made(1).await;
    put(&path(&note).join("a.log"), "1");
    put(&path(&note).join("out/b"), "2");
    let work = scene.worktrees.work(&note).await;
    assert_eq!((work.state, work.ignored), (State::Clean, 2));
    assert!(scene.worktrees.remove(&note, &work, false).await.is_err() && path(&note).is_dir());
    scene.worktrees.remove(&note, &work, true).await.unwrap();
    assert!(!path(&note).exists());
}

/// What is done in a worktree, and how many commits are on no branch afterwards.
type Stray = (&'static str, fn(&Path), usize);

const STRAYS: &[Stray] = &[
    (
        "commits on a detached HEAD, and back",
        |tree| {
            git(tree, &["checkout", "-q", "--detach"]);
            commit(tree, "c.txt", "c\n");
            commit(tree, "d.txt", "d\n");
            let branch =
                git(tree, &["for-each-ref", "--format=%(refname:short)", "refs/heads/segno"]);
            git(tree, &["checkout", "-q", &branch]);
        },
        2,
    ),
    (
        "a reset",
        |tree| {
            commit(tree, "c.txt", "c\n");
            git(tree, &["reset", "-q", "--hard", "HEAD~1"]);
        },
        1,
    ),
    (
        "an amended commit",
        |tree| {
            commit(tree, "c.txt", "c\n");
            git(tree, &["commit", "-q", "--amend", "-m", "better"]);
            git(tree, &["push", "-q", ".", "HEAD:refs/heads/kept"]);
        },
        1,
    ),
    (
        "a reset of what another branch has",
        |tree| {
            commit(tree, "c.txt", "c\n");
            git(tree, &["branch", "kept"]);
            git(tree, &["reset", "-q", "--hard", "HEAD~1"]);
        },
        0,
    ),
    (
        "another subagent's branch counts for nothing",
        |tree| {
            commit(tree, "c.txt", "c\n");
            git(tree, &["branch", "segno/other"]);
            git(tree, &["reset", "-q", "--hard", "HEAD~1"]);
        },
        1,
    ),
];

/// Commits that only the history of its HEAD or of its branch names are unmerged work, and keep it; also when its
/// directory is gone. Once a branch has them, or it is clear that nobody wants them, it goes.
#[tokio::test]
async fn commits_on_no_branch_keep_it() {
    for (label, change, expected) in STRAYS {
        for gone in [false, true] {
            let scene = Scene::new();
            let note = scene.made(1).await;
            change(&path(&note));
            if gone {
                std::fs::remove_dir_all(path(&note)).unwrap();
            }
            let work = scene.worktrees.work(&note).await;
            if *expected == 0 {
                assert_eq!(work.unseen, [""; 0], "{label}");
                assert!(work.is_removable(false), "{label}: {work:?}");
                continue;
            }
            let state = if gone { State::Missing } else { State::Unmerged };
            assert_eq!((work.state, work.is_removable(true)), (state, false), "{label}: {work:?}");
            let told = format!("{expected} commit");
            assert!(work.unseen[0].starts_with(&told), "{label}: {:?}", work.unseen);
            assert!(scene.worktrees.remove(&note, &work, true).await.is_err(), "{label}");
            // The command that the sentence names keeps them.
            let id = work.unseen[0].rsplit_once("NAME ").unwrap().1;
            git(&scene.repo(), &["branch", "saved", id.split('`').next().unwrap()]);
            let work = scene.worktrees.work(&note).await;
            assert!(work.is_removable(false), "{label}: {work:?}");
            scene.worktrees.remove(&note, &work, false).await.unwrap();
        }
    }
}

/// As long as no branch is checked out it is not the child's any more, and stays, with what it has.
#[tokio::test]
async fn a_detached_head_is_kept() {
    let scene = Scene::new();
    let note = scene.made(1).await;
    git(&path(&note), &["checkout", "-q", "--detach"]);
    let made = commit(&path(&note), "c.txt", "c\n");
    let work = scene.worktrees.work(&note).await;
    assert_eq!((work.state, work.is_removable(true)), (State::Replaced, false));
    assert!(work.unseen[0].contains(&made[..12]), "{work:?}");
}

/// Only a merge is the user's own doing: it runs hooks, and nothing else does.
#[tokio::test]
async fn only_a_merge_runs_hooks() {
    let scene = Scene::new();
    let hook = scene.repo().join(".git/hooks/reference-transaction");
    let ran = scene.root.join("ran");
    put(&hook, &format!("#!/bin/sh\necho ran >> '{}'\n", ran.display()));
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let note = scene.made(1).await;
    let work = scene.worktrees.work(&note).await;
    scene.worktrees.diff(&note, &[]).await.unwrap();
    scene.worktrees.remove(&note, &work, false).await.unwrap();
    let note = scene.made(2).await;
    assert_eq!(scene.worktrees.take_back(&note).await, "");
    assert!(!ran.exists());
    let note = scene.made(3).await;
    commit(&path(&note), "c.txt", "c\n");
    let _ = std::fs::remove_file(&ran);
    scene.merged(&note, &scene.repo()).await.unwrap();
    assert!(ran.exists());
}
