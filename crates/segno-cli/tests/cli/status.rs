//! Commands in the background: they outlive the program, are listed, stopped, and told of once.

use crate::json_page::{example, same_shape};
use crate::place::{Place, Ran, signal};
use rustix::process::Signal;
use segno_model::record::{Body, Message, background_input_id};
use segno_testkit::scripted_model::Turn;
use serde_json::Value;

fn script(arguments: &Value) -> String {
    format!(
        "strict prefix\nrule go\n  when last user\n  when prompt is \"start it\"\n  call bash {arguments}\nrule done\n  when last results\n  say \"Started.\"\notherwise\n  say \"Fine.\"\n",
    )
}

fn commands(place: &Place, args: &[&str]) -> Vec<Value> {
    let ran: Ran = place.segno(&[&["status", "--json"], args].concat()).output().unwrap().into();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    json["commands"].as_array().unwrap().clone()
}

/// The inputs that tell of ends, with their ids.
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

/// The program ends and the command runs on; `status` says whose it is and until when; it is ended from
/// another terminal; the model is told of that with the next input, once, whatever is resumed after.
/// Covers: G7, G8, G9.
#[test]
fn a_background_command_outlives_the_program_and_its_end_is_told_once() {
    let command = "echo out; echo x >> effects; while true; do sleep 1; done";
    let place = Place::new(&script(&serde_json::json!({"command": command, "background": true})));
    let ran = place.done(&["--permission", "all", "start it"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Started.\n"), "{ran:?}");
    let [running] = &commands(&place, &[])[..] else { panic!("one") };
    let page = example("status");
    same_shape("status", &page["commands"][0], running);
    assert_eq!(
        (running["state"].as_str(), running["command"].as_str()),
        (Some("running"), Some(command))
    );
    let session = place.sessions()[0].to_string();
    assert_eq!(running["session"].as_str(), Some(session.as_str()));
    assert_eq!(commands(&place, &[&session]).len(), 1);
    let handle = running["handle"].as_str().unwrap();
    let shown: Ran = place.segno(&["status"]).output().unwrap().into();
    assert!(shown.out.contains(handle) && shown.out.contains("runs"), "{shown:?}");

    // Nothing has ended, so nothing is said.
    assert_eq!(place.done(&["--continue", "and now?"]).out, "Fine.\n");
    assert_eq!(ends(&place), Vec::<String>::new());
    let unknown: Ran = place.segno(&["status", "--stop", "nobody"]).output().unwrap().into();
    assert_eq!(unknown.code, Some(6), "{unknown:?}");
    let stopped: Ran = place.segno(&["status", "--stop", &handle[..6]]).output().unwrap().into();
    assert_eq!((stopped.code, stopped.out), (Some(0), format!("{handle}: stopped\n")));
    assert_eq!(commands(&place, &[])[0]["state"].as_str(), Some("ended"));

    for _ in 0..2 {
        assert_eq!(place.done(&["--continue", "and now?"]).out, "Fine.\n");
        assert_eq!(ends(&place), [background_input_id(handle)]);
    }
    let requests = place.server.requests();
    let sent = requests.last().unwrap().seen.as_ref().unwrap();
    let said: String = sent.turns.iter().map(Turn::text).collect();
    assert_eq!(said.matches("has ended").count(), 1, "{said}");
    assert_eq!(place.server.violations(), []);
    assert_eq!(place.read("effects"), "x\n");
    assert_eq!(commands(&place, &[]), Vec::<Value>::new(), "its files are gone");
}

/// A termination leaves a command that is waited for to its supervisor; the run is suspended, and the next
/// process tells its real end. Covers: G7, G9.
#[test]
fn a_termination_leaves_a_running_command_and_the_next_process_tells_its_end() {
    let command =
        "echo x >> effects; touch begun; while ! test -e go; do sleep 0.01; done; echo out";
    let place = Place::new(&script(&serde_json::json!({"command": command})));
    let mut child = place.run(&["--permission", "all", "start it"]).spawn().unwrap();
    place.until("begun", || place.file("begun").exists());
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert_eq!(commands(&place, &[])[0]["state"].as_str(), Some("running"));
    std::fs::write(place.file("go"), "").unwrap();
    place.until_action_has("status");
    let ran = place.done(&["--permission", "all", "--continue", "go on"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let story = place.story();
    assert!(story.starts_with("user assistant") && story.contains(" done "), "{story}");
    assert!(!story.contains("unknown"), "{story}");
    assert_eq!(place.read("effects"), "x\n");
    assert_eq!(place.server.violations(), []);
}
