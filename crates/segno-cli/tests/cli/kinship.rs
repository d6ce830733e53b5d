//! A parent and its subagents name each other, wherever one of them is shown, and lead to each other.

use super::interactive::Desk;
use super::place::{Place, Ran};
use super::subagents::{children, place};

/// A parent whose subagent has done its work; the ids of both.
fn family() -> (Place, String, String) {
    let place = place("", "");
    let ran = place.done(&["--permission", "all", "give it"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (parent, child) = (place.sessions().remove(0), children(&place).remove(0).id);
    (place, parent.to_string(), child.to_string())
}

fn out(place: &Place, args: &[&str]) -> String {
    let ran: Ran = place.segno(args).output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    ran.out
}

/// The call names the child that it began, and its end does, each with the command that shows it; the child names
/// its parent. In the transcript, in Markdown, and for programs.
#[test]
fn transcripts_lead_to_each_other() {
    let (place, parent, child) = family();
    let there = format!("`segno show {child}` reads it");
    let shown = out(&place, &["show", &parent]);
    let line = |text: &str, with: &str| text.lines().position(|l| l.contains(with)).unwrap();
    let (call, began) = (line(&shown, "→ task "), line(&shown, "subagent began"));
    assert!(call < began && began < line(&shown, "task: done"), "{shown}");
    assert_eq!(shown.matches(&there).count(), 2, "{shown}");
    let back = format!("subagent scout of {parent}; `segno show {parent}` reads that");
    assert!(out(&place, &["show", &child]).contains(&back));
    let json = |id: &str| -> serde_json::Value {
        serde_json::from_str(&out(&place, &["show", id, "--json"])).unwrap()
    };
    assert_eq!(json(&child)["parent"], parent.as_str());
    let shown = json(&parent);
    let records = shown["records"].as_array().unwrap();
    assert!(records.iter().any(|r| r["type"] == "child" && r["child"] == child.as_str()));

    let markdown = out(&place, &["export", &parent]);
    let (call, began) = (line(&markdown, "**task**"), line(&markdown, "*subagent began"));
    assert!(call < began && began < line(&markdown, "### Result of task"), "{markdown}");
    assert_eq!(markdown.matches(&there).count(), 2, "{markdown}");
    let markdown = out(&place, &["export", &child]);
    assert!(markdown.contains(&format!("Subagent scout of {parent}; `segno show {parent}`")));
}

/// In the page both are there, and links lead both ways; a child's page of its own names its parent.
#[test]
fn links_in_the_page_lead_both_ways() {
    let (place, parent, child) = family();
    let page = out(&place, &["export", &parent, "--format", "html"]);
    let (first, second) = page.split_once("<section id=\"s1\">").unwrap();
    assert!(first.contains("subagent began —</p> <a href=\"#s1\">read it</a>"), "{first}");
    assert!(first.contains(&format!("<a href=\"#s1\">{child}</a>")), "{first}");
    let back = format!("<dt>subagent of</dt><dd><a href=\"#s0\">{parent}</a></dd>");
    assert!(second.contains(&back) && second.contains("scout: "), "{second}");
    let alone = out(&place, &["export", &child, "--format", "html"]);
    assert!(alone.contains(&format!("<dt>subagent of</dt><dd>{parent}</dd>")), "{alone}");
}

/// The list of sessions shows a child below its parent.
#[test]
fn the_list_shows_a_child_below_its_parent() {
    let (place, parent, child) = family();
    let listed = out(&place, &["list", "--children"]);
    let of = |id: &str| listed.lines().position(|line| line.contains(&id[..8])).unwrap();
    assert_eq!(of(&child), of(&parent) + 1, "{listed}");
    assert!(listed.lines().nth(of(&child)).unwrap().contains("└ subagent: write it"), "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&out(&place, &["list", "--children", "--json"])).unwrap();
    let rows = json["sessions"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == child.as_str()).unwrap();
    assert_eq!(row["parent"], parent.as_str());
}

/// The picker says how many subagents a session has, shows them below it when asked to, and goes on with the one
/// that is chosen, after the same comparison as `segno resume CHILD`.
#[test]
fn the_picker_leads_to_children() {
    let (place, _, child) = family();
    let args = ["--model", "anthropic/demo", "resume"];
    let mut segno = Desk::play_at(&place, &args);
    segno.wait_for("give it (1 subagent)");
    assert!(!segno.screen().contains("write it"), "{}", segno.screen());
    segno.send("\t");
    segno.wait_for("└ subagent: write it");
    segno.send("\t");
    segno.wait_for_no("└ subagent: write it");
    segno.send("\t");
    segno.wait_for("└ subagent: write it");
    segno.send("write\r");
    segno.wait_for("keep it; perhaps it answers later");
    segno.send("k");
    segno.wait_for(&child);
    segno.enter("go on");
    segno.wait_for("Second words.");
    segno.enter("/quit");
    assert_eq!(segno.exit_code(), 0);
}

/// Whoever takes a child up from the list or by `/resume`, a child that is not what it was is refused, and the person
/// stays where they are.
#[test]
fn a_child_that_drifted_is_refused_wherever_it_is_taken_up() {
    let (place, _, child) = family();
    std::fs::remove_file(place.file(".segno/agents/scout.md")).unwrap();
    let mut segno = Desk::play_at(&place, &["--model", "anthropic/demo", "resume"]);
    segno.wait_for("(1 subagent)");
    segno.send("\twrite");
    segno.wait_for("└ subagent: write it");
    segno.send("\r");
    segno.wait_for("agent-missing");
    assert_eq!(segno.exit_code(), 1);
    let mut segno = Desk::play_at(&place, &["--model", "anthropic/demo"]);
    segno.enter(&format!("/resume {child}"));
    segno.wait_for("agent-missing");
    segno.enter("still here");
    segno.wait_for("Told:");
    segno.enter("/quit");
    assert_eq!(segno.exit_code(), 0);
}
