//! Subagents through the real binary: killed with SIGKILL, found, continued, listed, shown and moved.

use crate::json_page::{example, same_shape};
use crate::place::{PATIENCE, Place, Ran, signal, wait};
use rustix::process::Signal;
use segno_model::SessionId;
use segno_model::record::{AttemptStatus, Body, Message, RunState};
use segno_model::store::{ListedChild, Scanned, SessionStore as _, StoreError};
use segno_testkit::scripted_model::{Delivery, Recorded, Turn};
use std::process::Child;

/// A parent that gives a task and continues a child by its id; children are told apart by their role.
/// `fault` goes wrong in the child's first reply, `late` in its second.
pub(crate) fn script(fault: &str, late: &str) -> String {
    let rule = |name: &str, fault: &str, when: &str, answer: &str| match fault {
        "" => String::new(),
        fault => format!(
            "rule {name}\n  once\n  when system contains \"# Role\"\n  {when}\n  {fault}\n  {answer}\n"
        ),
    };
    let write = "say \"Writing.\"\n  call bash {\"command\": \"echo one >> effects\"}";
    format!(
        r##"
strict prefix
{}
rule child writes
  when system contains "# Role"
  when prompt contains "write it"
  when last user
  {write}
{}
rule child goes on
  when system contains "# Role"
  when last user
  say "Second words."
rule child answers
  when system contains "# Role"
  say "First words."
rule parent gives
  when last user
  when prompt contains "give"
  call task {{"agent": "scout", "prompt": "write it"}}
rule parent gives beside
  when last user
  when prompt contains "beside"
  call task {{"agent": "scout", "prompt": "write it", "background": true}}
rule parent goes on
  when last user
  when prompt line "again " capture id until line
  call task {{"resume": "{{id}}", "prompt": "go on"}}
otherwise
  say "Told: {{result_line}}"
"##,
        rule("cut", fault, "when last user", write),
        rule("cut late", late, "when last results", "say \"First words.\""),
    )
}

pub(crate) fn place(fault: &str, late: &str) -> Place {
    with_scout(Place::new(&script(fault, late)))
}

/// With a role of that name.
pub(crate) fn with_scout(place: Place) -> Place {
    let agents = place.file(".segno/agents");
    std::fs::create_dir_all(&agents).unwrap();
    let role = "---\nname: scout\ndescription: it scouts\n---\nYou scout.\n";
    std::fs::write(agents.join("scout.md"), role).unwrap();
    place
}

pub(crate) fn children(place: &Place) -> Vec<ListedChild> {
    place.sessions().iter().flat_map(|id| wait(place.store().children(id)).unwrap()).collect()
}

fn statuses(place: &Place) -> Vec<AttemptStatus> {
    let records = place.records();
    segno_model::child::attempts(&records).into_iter().map(|attempt| attempt.status).collect()
}

/// How often a child was given a prompt.
fn prompts(place: &Place, child: &SessionId) -> usize {
    let mut prompts = 0;
    let mut visit = |item| {
        if let Scanned::Record(record) = item
            && let Body::Message(message) = record.body()
            && let Message::User(user) = &**message
        {
            prompts += usize::from(user.notice.is_none());
        }
        true
    };
    wait(place.store().scan(child, &mut visit)).unwrap();
    prompts
}

fn until_hanging(place: &Place, child: &mut Child) {
    let hangs = |requests: &[Recorded]| requests.iter().any(|r| r.delivery == Delivery::Hanging);
    assert!(place.server.wait_until(PATIENCE, hangs), "{:?}", child.try_wait());
}

/// SIGKILL while the child streams, before and behind its effect: nothing is launched twice, the effect
/// happens once, the parent is told the truth, and the child goes on. Covers: G7, RS7, SD1, #142.
#[test]
fn a_child_killed_in_mid_work_is_found_and_continued() {
    let hang = "fault hang after 3 events";
    for (fault, late) in [(hang, ""), ("", hang)] {
        let place = place(fault, late);
        let mut run = place.run(&["--permission", "all", "give it"]).spawn().unwrap();
        until_hanging(&place, &mut run);
        signal(&run, Signal::KILL);
        run.wait().unwrap();
        let before = children(&place);
        assert_eq!((before.len(), before[0].held), (1, false), "dead, and not running");
        let id = before[0].id.clone();

        let again = format!("again {id}");
        let ran = place.done(&["--permission", "all", "--continue", &again]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.out.contains("Told: Second words."), "{ran:?}");
        assert_eq!(statuses(&place), [AttemptStatus::Interrupted, AttemptStatus::Completed]);
        assert_eq!((children(&place).len(), prompts(&place, &id)), (1, 2));
        let effects = std::fs::read_to_string(place.file("effects")).unwrap_or_default();
        assert_eq!(effects, if fault.is_empty() { "one\n" } else { "" });
        assert_eq!(place.server.violations(), []);
    }
}

/// A child that was deleted before its end was told, in front or in the background: nobody is told that it never
/// started, nothing is made in its place, and it comes back and goes on. Covers: G7, #142.
#[test]
fn a_child_in_the_trash_is_told_of_and_comes_back() {
    for words in ["give it", "beside"] {
        let place = place("fault hang after 3 events", "");
        let mut run = place.run(&["--permission", "all", words]).spawn().unwrap();
        until_hanging(&place, &mut run);
        signal(&run, Signal::KILL);
        run.wait().unwrap();
        let id = children(&place).remove(0).id;
        let done = |args: &[&str]| {
            let ran: Ran = place.segno(args).output().unwrap().into();
            assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        };
        done(&["delete", id.as_str(), "--yes"]);
        let ran = place.done(&["--permission", "all", "--continue", "and?"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!((statuses(&place), children(&place).len()), (vec![AttemptStatus::Unknown], 0));
        let restore = format!("`segno trash restore {id}` brings it back");
        let records = place.records();
        let lines = records.iter().map(|record| String::from_utf8_lossy(&record.line));
        let story = lines.collect::<Vec<_>>().join("\n");
        assert!(story.contains(&restore) && !story.contains("never started"), "{story}");
        let refused = place.done(&["--permission", "all", "--continue", &format!("again {id}")]);
        assert!(refused.out.contains("it was moved to the trash"), "{refused:?}");
        done(&["trash", "restore", id.as_str()]);
        let ran = place.done(&["--permission", "all", "--continue", &format!("again {id}")]);
        assert!(ran.out.contains("Told: Second words."), "{ran:?}");
    }
}

/// A person takes a child over while its parent waits for it: the parent is told at once and ends well, with a result
/// and an attempt on record; the person has the child. Covers: G9, TR12.
#[test]
fn a_child_taken_over_while_its_parent_waits_is_told_to_it() {
    let place = place("fault hang after 3 events", "");
    let mut run = place.run(&["--permission", "all", "give it"]).spawn().unwrap();
    until_hanging(&place, &mut run);
    let (id, url) = (children(&place).remove(0).id, place.server.url());
    let args = ["resume", id.as_str(), "--base-url", &url, "--take-over", "--", "go on"];
    let ran: Ran = place.segno(&args).output().unwrap().into();
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Second words.\n"), "{ran:?}");
    let parent: Ran = run.wait_with_output().unwrap().into();
    assert_eq!(parent.code, Some(0), "{parent:?}");
    assert_eq!(statuses(&place), [AttemptStatus::Interrupted]);
    let told =
        std::fs::read_to_string(place.store().log_path(&place.sessions()[0]).unwrap()).unwrap();
    assert!(told.contains("another process took it over"), "{told}");
    let checked: Ran = place.segno(&["check", "last"]).output().unwrap().into();
    assert!(!checked.out.contains("call-without-result"), "{checked:?}");
}

/// What a child had finished is delivered once, without running it again. Covers: G7, RS20, #142.
#[test]
fn a_finished_child_is_delivered_once() {
    let place = place("", "");
    let ran = place.done(&["--permission", "all", "give it"]);
    assert!(ran.out.contains("Told: First words."), "{ran:?}");
    let parent = place.sessions().remove(0);
    let log = place.store().log_path(&parent).unwrap();
    // As if power had failed when the child's end was not yet in the parent's log.
    let bytes = std::fs::read(&log).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    let started = lines.iter().position(|line| text(line).contains("\"type\":\"child\"")).unwrap();
    std::fs::write(&log, lines[..=started].concat()).unwrap();
    let asked = place.server.requests().len();
    let url = place.server.url();
    let resume = ["resume", "last", "--policy", "auto", "--base-url", &url];
    let ran: Ran = place.segno(&resume).output().unwrap().into();
    assert_eq!((ran.code, ran.out.contains("Told: First words.")), (Some(0), true), "{ran:?}");
    assert_eq!(place.server.requests().len(), asked + 1, "only the parent was asked");
    assert_eq!(std::fs::read_to_string(place.file("effects")).unwrap(), "one\n");
    assert_eq!(statuses(&place), [AttemptStatus::Completed]);
}

/// A child's id carries no time, but its copy in another agent's folder is as old as it is: agents order their
/// sessions by that. Covers: G14.
#[test]
fn a_childs_copy_is_as_old_as_the_child() {
    let place = place("", "");
    place.done(&["--permission", "all", "give it"]);
    let out = place.file("copy");
    let args = ["export", "last", "--format", "codex", "-o", out.to_str().unwrap()];
    let ran: Ran = place.segno(&args).output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (mut files, mut folders) = (Vec::new(), vec![out]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let list = if path.is_dir() { &mut folders } else { &mut files };
            list.push(path);
        }
    }
    let began = |file: &std::path::PathBuf| {
        let text = std::fs::read_to_string(file).unwrap();
        let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        line["payload"]["timestamp"].as_str().unwrap().to_owned()
    };
    let mut times: Vec<String> = files.iter().map(began).collect();
    times.sort();
    let parent = place.sessions().remove(0).dated_ms().unwrap();
    let last = place.records().last().unwrap().envelope.at.to_string();
    assert_eq!((times.len(), &times[0]), (2, &segno_model::Timestamp(parent).to_string()));
    assert!(times[1] <= last, "{times:?} and the parent's last record {last}");
}

/// What lies among the children and is none is listed with a code, and hides nobody; a linked `children`
/// folder is followed, a linked child is not. Covers: LK1, LK5, LK9, LK15, #85.
#[test]
fn what_is_no_child_is_listed_with_a_code() {
    let place = place("", "");
    place.done(&["--permission", "all", "give it"]);
    let id = children(&place).remove(0).id;
    let log = place.store().log_path(&id).unwrap();
    let folder = log.parent().unwrap().parent().unwrap().to_owned();
    let other = |n: u8| format!("5812c3f0-93aa-8f21-8c1d-00000000000{n}");
    let text = std::fs::read_to_string(&log).unwrap();
    let header = text.lines().next().unwrap();
    let sealed = |line: String| {
        let covered = &line[..line.find(",\"crc\"").unwrap()];
        format!("{covered},\"crc\":\"{:08x}\"}}\n", segno_model::line::checksum(covered.as_bytes()))
    };
    let newer = header.replace("\"major\":1", "\"major\":9").replace(id.as_str(), &other(2));
    let bare = header.replace(id.as_str(), &other(4)).replace("\"launch\":", "\"later\":");
    let logs = [(1, text.clone()), (2, sealed(newer)), (3, String::new()), (4, sealed(bare))];
    for (n, text) in logs {
        std::fs::create_dir(folder.join(other(n))).unwrap();
        std::fs::write(folder.join(other(n)).join("log.jsonl"), text).unwrap();
    }
    std::os::unix::fs::symlink(folder.join(id.as_str()), folder.join(other(5))).unwrap();
    std::fs::create_dir(folder.join("notes")).unwrap();
    let elsewhere = folder.with_file_name("moved");
    std::fs::rename(&folder, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
    let ran: Ran = place.segno(&["children", "last", "--json"]).output().unwrap().into();
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let codes: Vec<(String, Option<&str>)> = json["children"]
        .as_array()
        .unwrap()
        .iter()
        .map(|child| (child["id"].as_str().unwrap().to_owned(), child["code"].as_str()))
        .collect();
    let mut expected = vec![
        (id.to_string(), None),
        (other(1), Some("invalid-launch")),
        (other(2), Some("unknown-version")),
        (other(3), Some("missing-launch")),
        (other(4), Some("missing-launch")),
        (other(5), Some("symlink")),
    ];
    expected.sort();
    assert_eq!(codes, expected);
    let again = format!("again {id}");
    let ran = place.done(&["--permission", "all", "--continue", &again]);
    assert!(ran.out.contains("Told: Second words."), "{ran:?}");
}

/// Listed under its parent and nowhere else, shown with links both ways, moved and brought back with its
/// parent, exported with a word about it. Covers: #140.
#[test]
fn a_child_is_listed_shown_moved_and_brought_back() {
    let place = place("", "");
    place.done(&["--permission", "all", "give it"]);
    let parent = place.sessions().remove(0);
    let id = children(&place).remove(0).id;
    let out = |args: &[&str]| {
        let ran: Ran = place.segno(args).output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran
    };
    let (me, my_parent) = (id.to_string(), parent.to_string());
    let listed = out(&["children", "last"]).out;
    assert!(
        listed.contains(&me) && listed.contains("scout") && listed.contains("1 attempt"),
        "{listed}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&out(&["children", "last", "--json"]).out).unwrap();
    same_shape("children", &example("children"), &json);
    assert_eq!(
        (&json["children"][0]["id"], &json["children"][0]["code"]),
        (&me.clone().into(), &serde_json::Value::Null)
    );
    assert!(!out(&["list", "--all"]).out.contains(&me[..8]), "only its parent is a session");
    assert!(out(&["list", "--all", "--children"]).out.contains(&me[..8]));
    let shown = out(&["show", &me]).out;
    assert!(
        shown.contains(&format!("subagent scout of {parent}")) && shown.contains("First words."),
        "{shown}"
    );
    assert!(
        out(&["show", &me[..13]]).out.contains("First words."),
        "the beginning of an id will do"
    );
    assert!(out(&["show", "last"]).out.contains(&format!("`segno show {me}` reads it")));
    assert_eq!(out(&["check", &me]).code, Some(0));
    assert!(out(&["export", "last"]).err.contains("its 1 subagent is not in it"));
    out(&["delete", "last", "--yes"]);
    assert!(matches!(wait(place.store().read(&id)), Err(StoreError::NotFound(_))));
    out(&["trash", "restore", &my_parent]);
    assert_eq!(children(&place).remove(0).id, id);
    out(&["delete", &me, "--yes"]);
    assert!(children(&place).is_empty());
    out(&["trash", "restore", &me]);
    assert_eq!(children(&place).remove(0).id, id);
}

/// A person goes on with a child; what makes that wrong is refused with all reasons, and what may be allowed
/// is allowed by word and recorded. Covers: RS9, RS11, VA7.
#[test]
fn a_person_goes_on_with_a_child() {
    let place = place("", "");
    place.done(&["--permission", "all", "give it"]);
    let id = children(&place).remove(0).id.to_string();
    let url = place.server.url();
    let resume = |more: &[&str]| -> Ran {
        let args =
            [&["resume", id.as_str(), "--base-url", url.as_str()], more, &["--", "go on"]].concat();
        place.segno(&args).output().unwrap().into()
    };
    let ran = resume(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Second words.\n"), "{ran:?}");
    for (at, refused) in [("http://127.0.0.1:9", true), (&format!("{url}/v1/"), false)] {
        let args = ["resume", &id, "--base-url", at, "--", "go on"];
        let ran: Ran = place.segno(&args).output().unwrap().into();
        assert_eq!(ran.code, Some(i32::from(refused)), "{ran:?}");
        assert_eq!(ran.err.contains("model-drift"), refused, "{ran:?}");
    }
    let role = place.file(".segno/agents/scout.md");
    std::fs::write(&role, "---\nname: scout\ndescription: it scouts\n---\nYou scout otherwise.\n")
        .unwrap();
    let log = place.store().log_path(&SessionId::parse(&id).unwrap()).unwrap();
    let before = std::fs::read(&log).unwrap();
    let refused = resume(&[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("agent-drift") && refused.err.contains("--allow-drift"),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(&log).unwrap(), before);
    let ran = resume(&["--allow-drift"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let after = String::from_utf8(std::fs::read(&log).unwrap()).unwrap();
    assert!(after.contains(r#""name":"segno.allow_drift","data":["agent-drift"]"#), "{after}");
}

fn header_of(place: &Place, id: &SessionId) -> segno_model::record::Header {
    wait(place.store().read(id)).unwrap().header
}

/// A fork's copy of its origin's child is a child: below the fork, nobody's `last`, and so after it was moved.
/// Covers: #140.
#[test]
fn a_forks_copy_of_a_child_is_a_child() {
    let place = place("", "");
    place.done(&["--permission", "all", "give it"]);
    let child = children(&place).remove(0).id;
    let segno = |args: &[&str]| -> Ran {
        let ran: Ran = place.segno(args).output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran
    };
    let parent = header_of(&place, &child).origin.unwrap().of;
    segno(&["fork", "last"]);
    let listed = segno(&["children", "last", "--json"]).out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let row = &listed["children"][0];
    assert_eq!((row["id"].as_str(), row["of"].as_str()), (Some(child.as_str()), Some(&*parent)));
    assert!(segno(&["children", "last"]).out.contains("which this session was forked from"));
    place.done(&["--permission", "all", "--continue", &format!("again {child}")]);
    let of = |fork: &str| -> serde_json::Value {
        let listed = segno(&["list", "--all", "--children", "--json"]).out;
        let json: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let rows = json["sessions"].as_array().unwrap();
        let copy = rows.iter().find(|row| row["parent"] == fork);
        copy.unwrap_or_else(|| panic!("{fork} has none: {listed}")).clone()
    };
    let fork = children(&place).into_iter().map(|listed| listed.id).find(|id| *id != child);
    let copy = fork.unwrap().to_string();
    let origin = header_of(&place, &SessionId::parse(&copy).unwrap()).origin.unwrap();
    assert_eq!(origin.of, child.as_str());
    let fork = origin.parent.unwrap().to_string();
    let told = |fork: &str| {
        let row = of(fork);
        assert_eq!(row["child"], true, "{row}");
        assert!(!row["created"].as_str().unwrap().starts_with("1970"), "{row}");
        let id = row["id"].as_str().unwrap().to_owned();
        assert!(!segno(&["list", "--all"]).out.contains(&id[..8]), "it is no session of its own");
        id
    };
    assert_eq!(told(&fork), copy);
    // What was copied was paid for once, however often it was.
    for of in [&copy, child.as_str(), &fork] {
        segno(&["fork", of]);
    }
    let stats: serde_json::Value = serde_json::from_str(&segno(&["stats", "--json"]).out).unwrap();
    assert_eq!(stats["total"]["responses"], place.server.requests().len(), "{stats}");
    let file = place.file("fork.segno").display().to_string();
    let exported = segno(&["export", &fork, "--format", "segno", "-o", &file]);
    let missing = format!("not in it: subagent {child}");
    assert!(exported.err.contains(&missing), "{exported:?}");
    segno(&["delete", &fork, "--yes"]);
    segno(&["import", &file]);
    assert_eq!(told(&fork), copy);
}

/// Who deletes a session is told of the forks that need its children; there it is told that they are in the trash.
#[test]
fn a_deleted_origins_children_are_said_to_be_in_the_trash() {
    let place = place("", "");
    place.done(&["--permission", "all", "give it"]);
    let child = children(&place).remove(0).id;
    let origin = header_of(&place, &child).origin.unwrap().of;
    let forked: Ran = place.segno(&["fork", "last"]).output().unwrap().into();
    assert_eq!(forked.code, Some(0), "{forked:?}");
    let deleted: Ran = place.segno(&["delete", &origin, "--yes"]).output().unwrap().into();
    assert!(deleted.out.contains("1 fork of it reads its subagents' sessions"), "{deleted:?}");
    place.done(&["--permission", "all", "--continue", &format!("again {child}")]);
    let requests = place.server.requests();
    let told = requests.last().unwrap().body.to_string();
    assert!(told.contains(&format!("segno trash restore {origin}")), "{told}");
}

/// A child whose directory is gone is refused, whoever allows it, and goes on where it was put. Covers: RS14.
#[test]
fn a_relocated_child_goes_on_in_its_new_place() {
    let place = place("", "");
    place.done(&["--permission", "all", "give it"]);
    let id = children(&place).remove(0).id.to_string();
    let (old, new) = (place.file(""), place.home().with_file_name("moved"));
    let (old, url) = (old.canonicalize().unwrap(), place.server.url());
    std::fs::rename(&old, &new).unwrap();
    let segno =
        |args: &[&str]| -> Ran { place.segno(args).current_dir(&new).output().unwrap().into() };
    let resume = |more: &[&str]| {
        segno(&[&["resume", &id, "--base-url", &url], more, &["--", "go on"]].concat())
    };
    for more in [&[][..], &["--allow-drift"]] {
        let refused = resume(more);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains(&format!("segno relocate {id} DIR")), "{refused:?}");
    }
    let moved = segno(&["relocate", &id, "."]);
    assert_eq!(moved.code, Some(0), "{moved:?}");
    for _ in 0..2 {
        let ran = resume(&[]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Second words.\n"), "{ran:?}");
    }
}

/// Where a run of a child's log begins and ends, in order; no second one may begin inside.
fn runs_do_not_overlap(place: &Place, child: &SessionId) -> usize {
    let (mut open, mut runs) = (None, 0);
    let mut visit = |item| {
        if let Scanned::Record(record) = item
            && let Body::Run(run) = record.body()
        {
            match run.state {
                RunState::Started { .. } => {
                    assert_eq!(
                        open.replace(run.run),
                        None,
                        "run {} begins in another one",
                        run.run
                    );
                    runs += 1;
                }
                RunState::Ended { .. } => assert_eq!(open.take(), Some(run.run)),
                RunState::Stopping { .. } => {}
            }
        }
        true
    };
    wait(place.store().scan(child, &mut visit)).unwrap();
    assert_eq!(open, None);
    runs
}

/// Two processes go on with one child, again and again, in turns: while the one waits for its model, the other is
/// told that it is held; each is the one and the other as often, and their runs never overlap. What the one
/// completed, the other builds on. Covers: G5, LE18, RS22, RS28.
#[test]
fn two_processes_hammer_one_child() {
    let hang = "fault hang after 3 events";
    let script = format!(
        "strict prefix\n\
         rule goes on\n  when prompt contains \"go on\"\n  say \"First words.\"\n\
         rule hangs\n  when prompt contains \"hang\"\n  when last user\n  {hang}\n  say \"Half.\"\n\
         rule child\n  when system contains \"# Role\"\n  say \"First words.\"\n\
         rule gives\n  when last user\n  when prompt contains \"give\"\n  call task {{\"agent\": \"scout\", \"prompt\": \"look\"}}\n\
         otherwise\n  say \"Told.\"\n"
    );
    let place = with_scout(Place::new(&script));
    place.done(&["--permission", "all", "give it"]);
    let id = children(&place).remove(0).id;
    let (me, url) = (id.to_string(), place.server.url());
    let go = |words: &str| {
        place.segno(&["resume", &me, "--base-url", &url, "--", words]).spawn().unwrap()
    };
    let (mut won, mut refused) = ([0; 2], [0; 2]);
    for round in 0..6 {
        let (first, second) = (round % 2, 1 - round % 2);
        let before = place.server.requests().len();
        let mut holder = go(&format!("hang {round}"));
        let is_in = |requests: &[Recorded]| {
            requests.len() > before
                && requests.last().is_some_and(|r| r.delivery == Delivery::Hanging)
        };
        assert!(place.server.wait_until(PATIENCE, is_in), "{:?}", holder.try_wait());
        // It holds the child for certain now.
        let other: Ran = go(&format!("go on {round}")).wait_with_output().unwrap().into();
        assert_eq!(other.code, Some(4), "{other:?}");
        refused[second] += 1;
        signal(&holder, Signal::INT);
        assert_eq!(holder.wait().unwrap().code(), Some(3), "stopped");
        let again: Ran = go(&format!("go on {round}")).wait_with_output().unwrap().into();
        assert_eq!((again.code, again.out.as_str()), (Some(0), "First words.\n"), "{again:?}");
        won[first] += 1;
        let last = place.server.requests().pop().and_then(|request| request.seen).unwrap();
        let sent: Vec<String> = last.turns.iter().map(Turn::text).collect();
        assert!(sent.concat().contains(&format!("hang {round}")), "it builds on it: {sent:?}");
    }
    assert_eq!((won, refused), ([3; 2], [3; 2]), "each was held out by the other");
    // And without turns: whoever is first has it.
    let all: Vec<Child> = (0..12).map(|n| go(&format!("at once {n}"))).collect();
    let codes: Vec<_> =
        all.into_iter().map(|child| Ran::from(child.wait_with_output().unwrap()).code).collect();
    let through = codes.iter().filter(|code| **code == Some(0)).count();
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 4))), "{codes:?}");
    assert!(through > 0, "{codes:?}");
    assert_eq!(runs_do_not_overlap(&place, &id), 1 + 2 * 6 + through);
    assert_eq!(prompts(&place, &id), 1 + 2 * 6 + through, "each winner said one thing");
    let ran: Ran = place.segno(&["check", &me]).output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// Steps of a call: whose log, and what appears in it then.
const STEPS: [(bool, &str); 10] = [
    (false, "\"type\":\"action\""),
    (false, "\"type\":\"child\""),
    (true, "\"type\":\"run\""),
    (true, "\"role\":\"user\""),
    (true, "\"type\":\"request\""),
    (true, "\"type\":\"action\""),
    (true, "\"role\":\"tool\""),
    (true, "\"state\":\"ended\""),
    (false, "\"role\":\"tool\""),
    (false, "\"state\":\"ended\""),
];

fn log_of(place: &Place, id: Option<&SessionId>) -> Vec<u8> {
    let path = id.and_then(|id| place.store().log_path(id).ok());
    path.and_then(|path| std::fs::read(path).ok()).unwrap_or_default()
}

/// Starts a run and kills it as soon as a step shows; it may come a little further.
fn killed_at(place: &Place, args: &[&str], (in_child, step): (bool, &str)) {
    let whose = || match in_child {
        true => children(place).first().map(|child| child.id.clone()),
        false => place.sessions().first().cloned(),
    };
    let before = log_of(place, whose().as_ref()).len();
    let mut run = place.run(args).spawn().unwrap();
    let shows = || {
        let log = log_of(place, whose().as_ref());
        let new = String::from_utf8_lossy(log.get(before..).unwrap_or_default()).into_owned();
        new.contains(step)
    };
    while !shows() && run.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let _ = rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(run.id()).unwrap()).unwrap(),
        Signal::KILL,
    );
    run.wait().unwrap();
}

/// A real process, killed at each step of launching, running, delivering and continuing: one child, each prompt
/// once, its effect at most once, told as its log says, and it can be continued. Covers: G6, G7, G8, RS7, SD1, #142.
#[test]
fn a_real_kill_at_every_step_is_settled() {
    for continued in [false, true] {
        for (n, step) in STEPS.into_iter().enumerate() {
            let label = format!("continued {continued}, step {n}");
            let place = place("", "");
            if continued {
                place.done(&["--permission", "all", "give it"]);
                let again = format!("again {}", children(&place)[0].id);
                killed_at(&place, &["--permission", "all", "--continue", &again], step);
            } else {
                killed_at(&place, &["--permission", "all", "give it"], step);
            }
            let found = children(&place);
            assert!(found.len() <= 1, "{label}: launched twice");
            let given = found.first().map_or(0, |child| prompts(&place, &child.id));
            let next = match found.first().filter(|_| given > 0) {
                Some(child) => format!("again {}", child.id),
                None => "give it".to_owned(),
            };
            let ran = place.done(&["--permission", "all", "--continue", &next]);
            assert_eq!(ran.code, Some(0), "{label}: {ran:?}");
            let told = if given > 0 { "Told: Second words." } else { "Told: First words." };
            assert!(ran.out.contains(told), "{label}: {ran:?}");
            let effects = std::fs::read_to_string(place.file("effects")).unwrap_or_default();
            assert!(effects.is_empty() || effects == "one\n", "{label}: {effects}");
            let records = place.records();
            let attempts = segno_model::child::attempts(&records);
            let recorded = records
                .iter()
                .filter(|r| matches!(r.body(), Body::Child(c) if c.attempt.is_some()));
            assert_eq!(recorded.count(), attempts.len(), "{label}: delivered twice");
            assert_eq!(
                attempts.last().map(|a| a.status),
                Some(AttemptStatus::Completed),
                "{label}"
            );
            assert_eq!(place.server.violations(), [], "{label}");
        }
    }
}

/// A parent that starts a child in the background; the child's first reply goes wrong as `fault` says.
fn beside(fault: &str) -> Place {
    let script = format!(
        r##"
strict prefix
rule child hangs
  once
  when system contains "# Role"
  {fault}
  say "It is blue."
rule child answers
  when system contains "# Role"
  say "It is blue."
rule starts
  when last user
  when prompt contains "start it"
  call task {{"agent": "scout", "prompt": "which colour?", "background": true}}
rule was told
  when prompt contains "it finished"
  say "Told: it finished."
rule was told of a cut
  when prompt contains "it was interrupted"
  say "Told: interrupted."
otherwise
  say "Begun."
"##
    );
    with_scout(Place::new(&script))
}

/// The inputs that tell of ends.
fn ends(place: &Place) -> Vec<String> {
    let records = place.records();
    let ids = records.iter().filter_map(|record| match record.body() {
        Body::Message(message) => match &**message {
            Message::User(user) if user.notice.as_deref() == Some("background") => {
                user.input_id.clone()
            }
            _ => None,
        },
        _ => None,
    });
    ids.collect()
}

/// One task waits for what its agent began in the background, and its model is told. Covers: G8.
#[test]
fn a_run_waits_for_its_subagents_in_the_background() {
    let place = beside("fault delay 50ms");
    let ran = place.done(&["--permission", "all", "start it"]);
    assert_eq!((ran.code, ran.out.contains("Told: it finished.")), (Some(0), true), "{ran:?}");
    assert!(ran.err.contains("It is blue."), "{ran:?}");
    assert_eq!((ends(&place).len(), statuses(&place)), (1, vec![AttemptStatus::Completed]));
    assert_eq!(place.server.violations(), []);
}

/// While it works it is listed; its process is killed, the next one is told of that once, and it can be gone on with.
/// Covers: G7, G8, RS7, #142.
#[test]
fn a_subagent_in_the_background_dies_with_its_process_and_is_told_once() {
    let place = beside("fault hang after 3 events");
    let mut run = place.run(&["--permission", "all", "start it"]).spawn().unwrap();
    until_hanging(&place, &mut run);
    let id = children(&place).remove(0).id.to_string();
    let status = |args: &[&str]| -> Ran { place.segno(args).output().unwrap().into() };
    let json: serde_json::Value = serde_json::from_str(&status(&["status", "--json"]).out).unwrap();
    assert_eq!(json["subagents"][0]["id"].as_str(), Some(id.as_str()), "{json}");
    same_shape("status", &example("status")["subagents"][0], &json["subagents"][0]);
    assert!(status(&["status"]).out.contains(&format!("subagent {id}")));
    // The parent has ended its turn, or is about to.
    signal(&run, Signal::KILL);
    run.wait().unwrap();
    assert!(!status(&["status"]).out.contains(&id), "it died with its parent");
    for _ in 0..2 {
        let ran = place.done(&["--permission", "all", "--continue", "and?"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert_eq!(ends(&place).len() + usize::from(told_as_result(&place)), 1);
    assert_eq!(statuses(&place), [AttemptStatus::Interrupted]);
    let url = place.server.url();
    let ran = status(&["resume", &id, "--base-url", &url, "--", "go on"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "It is blue.\n"), "{ran:?}");
    assert_eq!(place.server.violations(), []);
}

/// Whether the call itself has the end as its result: it was killed before it had answered.
fn told_as_result(place: &Place) -> bool {
    let records = place.records();
    !records.iter().any(|record| match record.body() {
        Body::Message(message) => {
            matches!(&**message, Message::Tool(result) if result.background.is_some())
        }
        _ => false,
    })
}

/// Ctrl-C ends what works in the background too, for good. Covers: G9.
#[test]
fn a_stop_ends_a_subagent_in_the_background() {
    let place = beside("fault hang after 3 events");
    let run = place.run(&["--permission", "all", "start it"]).spawn().unwrap();
    let mut run = run;
    until_hanging(&place, &mut run);
    let answered = |requests: &[Recorded]| requests.len() >= 3;
    assert!(place.server.wait_until(PATIENCE, answered), "its parent goes on");
    signal(&run, Signal::INT);
    assert_eq!(run.wait().unwrap().code(), Some(3));
    assert_eq!((ends(&place).len(), statuses(&place)), (1, vec![AttemptStatus::Stopped]));
    let child = children(&place).remove(0);
    let end = wait(place.store().read(&child.id)).unwrap().state.in_force.last_end;
    assert_eq!((child.held, end), (false, Some(segno_model::record::RunEnd::Stopped)));
}
