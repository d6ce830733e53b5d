//! Tools of other programs: the real binary with a real service, killed and resumed, and who may start one.

use super::interactive::Desk;
use super::place::{PATIENCE, Place, Ran, signal};
use rustix::process::Signal;
use segno_testkit::scripted_model::Turn;
use segno_testkit::ticket_service::{Fault, TicketServer};
use std::path::Path;

const SCRIPT: &str = r#"
strict prefix
rule create
  when last user
  when prompt line "create " capture title until line
  call mcp__tickets__create_ticket {"title": "{title}"}
rule file
  when last user
  when prompt line "open " capture title until line
  call mcp__tickets__open_ticket {"title": "{title}"}
otherwise
  say "Done: {result_line}"
"#;

fn configure(home: &Path, server: &TicketServer) {
    std::fs::create_dir_all(home).unwrap();
    let text = format!(
        "[mcp.tickets]\nurl = \"{}\"\ntrust = true\n\n[mcp.tickets.keyed.create_ticket]\n\
         operation-id = \"operation_id\"\n\
         query = {{ tool = \"find_ticket\", argument = \"operation_id\", absent = \"no such\" }}\n",
        server.url()
    );
    std::fs::write(home.join("config.toml"), text).unwrap();
}

/// Killed when the effect has happened and its answer has not come: the next process asks the service by
/// the operation id that the intent names, and the model is told the truth. Without an id nobody knows, and
/// that is what it is told. Covers: G7.
#[test]
fn killed_between_a_calls_effect_and_its_answer() {
    for (tool, told) in
        [("create", "knows the operation"), ("open", "outcome of this call is unknown")]
    {
        let place = Place::new(SCRIPT);
        let service = TicketServer::start(&place.home().with_file_name("tickets"));
        configure(&place.home(), &service);
        service.tickets.fail(&[Fault::Hang]);
        let prompt = format!("{tool} it");
        let mut child = place.run(&["--permission", "all", &prompt]).spawn().unwrap();
        let mut waited = std::time::Duration::ZERO;
        while service.tickets.done().is_empty() {
            assert!(waited < PATIENCE, "{:?}", child.try_wait());
            std::thread::sleep(std::time::Duration::from_millis(10));
            waited += std::time::Duration::from_millis(10);
        }
        signal(&child, Signal::KILL);
        let _ = child.wait().unwrap();
        let ran: Ran =
            place.run(&["--permission", "all", "--continue", "and?"]).output().unwrap().into();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert_eq!(service.tickets.done(), ["create it"], "once");
        let requests = place.server.requests();
        let seen = requests.last().unwrap().seen.as_ref().unwrap();
        let results: String =
            seen.turns.iter().filter(|t| t.role() == "results").map(Turn::text).collect();
        assert!(results.contains(told), "{tool}: {results}");
        assert_eq!(place.server.violations(), [], "{tool}");
    }
}

fn project_file(project: &Path, server: &TicketServer) {
    let text = format!(
        r#"{{"mcpServers": {{"tickets": {{"type": "http", "url": "{}"}}}}}}"#,
        server.url()
    );
    std::fs::write(project.join(".mcp.json"), text).unwrap();
}

/// A script starts no server that nobody approved, and says so; a server that is not there stops nothing.
#[test]
fn a_script_starts_only_what_was_approved() {
    let place = Place::new(SCRIPT);
    let service = TicketServer::start(&place.home().with_file_name("tickets"));
    project_file(&place.file(""), &service);
    let ran = place.done(&["--permission", "all", "hello"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.err.contains("server tickets of .mcp.json was not started"), "{}", ran.err);
    std::fs::create_dir_all(place.home()).unwrap();
    let text = "[mcp.gone]\ncommand = \"/nowhere/server\"\n";
    std::fs::write(place.home().join("config.toml"), text).unwrap();
    let ran = place.done(&["--permission", "all", "hello"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let said = "The server gone is not there: /nowhere/server could not be started";
    assert_eq!(ran.err.matches(said).count(), 1, "{}", ran.err);
}

/// A person is asked once for each entry; what they approved is kept in their own configuration.
#[test]
fn a_person_approves_a_projects_server_once() {
    let desk = Desk::with(SCRIPT);
    let service = TicketServer::start(&desk.home().with_file_name("tickets"));
    project_file(&desk.project(), &service);
    let args = ["--permission", "all"];
    let mut segno = desk.play(&args);
    segno.wait_for("names the server tickets");
    segno.wait_for(&service.url());
    segno.ends_with("n  not now");
    segno.send("y");
    segno.enter("create it");
    segno.wait_for("Done: ticket it");
    segno.enter("/quit");
    assert_eq!(segno.exit_code(), 0);
    let config = std::fs::read_to_string(desk.home().join("config.toml")).unwrap();
    assert!(config.contains("mcp-approved = [\""), "{config}");
    let file = std::fs::read_to_string(desk.project().join(".mcp.json")).unwrap();
    assert!(!file.contains("approved"), "nothing is written into the project");
    let mut segno = desk.play(&args);
    segno.enter("create more");
    segno.wait_for("Done: ticket more");
    segno.enter("/quit");
    assert_eq!(segno.exit_code(), 0);
    assert_eq!(service.tickets.done(), ["create it", "create more"]);
}
