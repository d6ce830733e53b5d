//! Tools of other programs: a real service, over both transports, with the faults of real services.
//!
//! Responsible for: what the model is told, and how often an effect happens. Must not: test a decision
//! table (those have tests of their own).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use segno_agent::mcp::{ServerConfig, Servers, Start, Transport};
use segno_agent::permission::Mode;
use segno_agent::tool::{Asker, Reply};
use segno_model::SessionId;
use segno_model::record::{Action, Outcome, ReplayClass, ToolCall};
use segno_model::store::{Ids, Owner};
use segno_runtime::{
    Begun, Settlement, StopHandle, StopKind, ToolOutput, ToolPlan, Tools, Verdict,
};
use segno_testkit::ticket_service::{Fault, TicketServer, Tickets, serve_stdio};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::{Place, Scripted, text};

/// Ids that count.
#[derive(Default)]
struct Counted(AtomicU64);

impl Ids for Counted {
    fn session_id(&self) -> SessionId {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        SessionId::parse(&format!("0195f3a0-0000-7000-8000-{number:012x}")).unwrap()
    }
}

const DIRECTORY: &str = "SEGNO_TEST_TICKETS";

/// A variable that this process has and servers do not get to see.
const HIDDEN: &str = "CARGO_MANIFEST_DIR";

/// Not a test of its own: the service as a child process.
#[test]
fn ticket_service() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    // What the test harness has printed stands on a line of its own.
    println!();
    serve_stdio(Path::new(&directory));
}

/// A service, and how it is reached.
struct Service {
    directory: tempfile::TempDir,
    /// None over standard streams.
    server: Option<TicketServer>,
    tickets: Arc<Tickets>,
}

impl Service {
    fn over(http: bool) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = http.then(|| TicketServer::start(directory.path()));
        let tickets = match &server {
            Some(server) => Arc::clone(&server.tickets),
            None => Arc::new(Tickets::new(directory.path())),
        };
        Self { directory, server, tickets }
    }

    fn entry(&self) -> serde_json::Value {
        match &self.server {
            Some(server) => json!({"url": server.url()}),
            None => json!({
                "command": std::env::current_exe().unwrap(),
                "args": ["--exact", "ticket_service", "--nocapture", "--test-threads=1"],
                "env": {DIRECTORY: self.directory.path()},
            }),
        }
    }

    /// As a user configures it: which tool carries an operation id, and what may be done by it.
    fn config(&self, trust: bool) -> ServerConfig {
        let mut entry = self.entry();
        let by_id = |tool: &str| json!({"tool": tool, "argument": "operation_id"});
        let mut query = by_id("find_ticket");
        query["absent"] = json!("no such operation");
        entry["trust"] = json!(trust);
        entry["timeout"] = json!(30);
        entry["keyed"] = json!({
            "create_ticket": {"operation-id": "operation_id", "query": query},
            "file_ticket": {
                "operation-id": "operation_id", "query": query,
                "compensate": by_id("cancel_ticket"),
            },
        });
        ServerConfig::from_own("tickets", &entry).unwrap()
    }

    async fn place(&self, trust: bool) -> Place {
        self.place_with(trust, Mode::All, None).await
    }

    async fn place_with(&self, trust: bool, mode: Mode, asker: Option<Arc<dyn Asker>>) -> Place {
        let servers = start(vec![self.config(trust)]).await.0;
        Place::with_servers(mode, asker, Some(Arc::new(servers)))
    }
}

async fn start(configs: Vec<ServerConfig>) -> (Servers, Vec<segno_agent::mcp::Trouble>) {
    let start = Start {
        cwd: PathBuf::from("/"),
        hidden_env: vec![HIDDEN.to_owned()],
        ids: Arc::new(Counted::default()),
    };
    Servers::start(configs, start).await
}

fn call(name: &str, arguments: &serde_json::Value) -> ToolCall {
    let (id, name) = ("c1".to_owned(), format!("mcp__tickets__{name}"));
    ToolCall { id, name, arguments: arguments.to_string() }
}

async fn make(place: &Place, call: &ToolCall) -> (Option<ToolPlan>, ToolOutput) {
    match place.tools.judge(call).await {
        Verdict::Run(plan) => {
            let plan = place.tools.prepare(call, plan).await.unwrap();
            let output = place.run(call).await;
            (Some(plan), output)
        }
        Verdict::Refuse(output) | Verdict::NobodyToAsk { refused: output, .. } => (None, output),
        Verdict::Ask { .. } => panic!("it asks"),
    }
}

/// Covers: G7.
#[tokio::test]
async fn tools_of_both_transports_are_offered_and_called() {
    for http in [false, true] {
        let service = Service::over(http);
        let place = service.place(true).await;
        let specs = place.tools.specs();
        let create = specs.iter().find(|spec| spec.name == "mcp__tickets__create_ticket").unwrap();
        // The operation id is none of the model's business.
        assert_eq!(create.parameters["required"], json!(["title"]));
        assert!(create.parameters["properties"].get("operation_id").is_none());
        let rows = [
            ("create_ticket", json!({"title": "a"}), ReplayClass::Keyed, "ticket a"),
            ("open_ticket", json!({"title": "b"}), ReplayClass::Opaque, "ticket b"),
            ("find_ticket", json!({"operation_id": "x"}), ReplayClass::Read, "no such operation"),
            // The HTTP service is this very process.
            (
                "environment",
                json!({"name": if http { "NOWHERE" } else { HIDDEN }}),
                ReplayClass::Read,
                "not set",
            ),
        ];
        assert!(std::env::var(HIDDEN).is_ok());
        for (name, arguments, class, said) in rows {
            let (plan, output) = make(&place, &call(name, &arguments)).await;
            let plan = plan.unwrap();
            assert_eq!(plan.class, class, "{name}");
            assert_eq!(plan.key.is_some(), class == ReplayClass::Keyed, "{name}");
            assert!(text(&output).contains(said), "{name}: {}", text(&output));
        }
        assert_eq!(service.tickets.done(), ["create a", "create b"]);
        let (_, unknown) = make(&place, &call("nothing", &json!({}))).await;
        assert_eq!(unknown.outcome, Outcome::NotRun);
    }
}

/// What a server says of itself counts only when the user trusts it; everything else asks.
#[tokio::test]
async fn only_a_trusted_server_is_believed() {
    let service = Service::over(true);
    let find = call("find_ticket", &json!({"operation_id": "x"}));
    for (trust, mode, class) in [
        (true, Mode::ReadOnly, Some(ReplayClass::Read)),
        (true, Mode::Ask, Some(ReplayClass::Read)),
        (false, Mode::ReadOnly, None),
        (false, Mode::Ask, None),
        (false, Mode::All, Some(ReplayClass::Opaque)),
    ] {
        let place = service.place_with(trust, mode, None).await;
        let (plan, output) = make(&place, &find).await;
        assert_eq!(plan.map(|plan| plan.class), class, "{trust} {mode:?}: {}", text(&output));
    }
    let asker = Scripted::new(Reply::Session);
    let place = service.place_with(false, Mode::Ask, Some(asker.clone())).await;
    for title in ["a", "b"] {
        let arguments = json!({"title": title}).to_string();
        let output = place.call("mcp__tickets__open_ticket", &arguments).await;
        assert_eq!(output.outcome, Outcome::Done);
    }
    let asked = asker.asked.lock().unwrap().clone();
    assert_eq!(asked, ["Call open_ticket of the server tickets with {\"title\":\"a\"}"]);
}

/// A server that is not there, ends or hangs costs its time and nothing else, and is told once.
#[tokio::test]
async fn a_server_that_does_not_come_up_is_told_and_left_out() {
    let service = Service::over(true);
    let stdio = |command: &str, args: &[&str]| Transport::Stdio {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: Default::default(),
    };
    let bad = [
        ("none", stdio("/nowhere/server", &[]), "could not be started"),
        ("ends", stdio("sh", &["-c", "echo no key >&2; exit 3"]), "no key"),
        ("hangs", stdio("sh", &["-c", "sleep 600"]), "not ready within 1 s"),
        ("noise", stdio("sh", &["-c", "yes nonsense"]), "not ready within 1 s"),
        (
            "away",
            Transport::Http { url: "http://127.0.0.1:1/".into(), headers: Default::default() },
            "refused",
        ),
    ];
    let mut configs: Vec<_> = bad
        .iter()
        .map(|(name, transport, _)| ServerConfig {
            start_timeout: std::time::Duration::from_secs(1),
            ..ServerConfig::new(name, transport.clone())
        })
        .collect();
    configs.push(service.config(false));
    let (servers, troubles) = start(configs).await;
    for (name, _, why) in &bad {
        let told: Vec<_> = troubles.iter().filter(|t| t.server == *name).collect();
        assert!(told.len() == 1 && told[0].why.contains(why), "{name}: {troubles:?}");
    }
    let place = Place::with_servers(Mode::All, None, Some(Arc::new(servers)));
    let (_, output) = make(&place, &call("open_ticket", &json!({"title": "a"}))).await;
    assert_eq!(output.outcome, Outcome::Done);
}

/// An answer that does not come is asked for by the operation id; what is sent again has the same id; what
/// cannot be sent again is taken back; without an id nobody knows. Covers: G7.
#[tokio::test]
async fn a_missing_answer_is_found_out() {
    // tool, faults, outcome, what is said, what was done
    type Row<'a> = (&'a str, &'a [Fault], Outcome, &'a str, &'a [&'a str]);
    let rows: [Row<'_>; 8] = [
        ("create_ticket", &[Fault::Drop], Outcome::Done, "knows the operation", &["create a"]),
        ("create_ticket", &[Fault::Lose], Outcome::Done, "sent again", &["create a"]),
        ("create_ticket", &[Fault::Late], Outcome::Done, "sent again", &["create a"]),
        ("create_ticket", &[Fault::Lose, Fault::Lose], Outcome::Unknown, "unknown", &[]),
        ("file_ticket", &[Fault::Drop], Outcome::Done, "knows the operation", &["create a"]),
        ("file_ticket", &[Fault::Lose], Outcome::Failed, "taken back", &["cancel "]),
        ("open_ticket", &[Fault::Drop], Outcome::Unknown, "unknown", &["create a"]),
        ("open_ticket", &[Fault::Lose], Outcome::Unknown, "unknown", &[]),
    ];
    for http in [true, false] {
        for (tool, faults, outcome, said, done) in rows {
            // A late call is forgotten with the process that it reached.
            if !http && faults == [Fault::Late] {
                continue;
            }
            let service = Service::over(http);
            let place = service.place(true).await;
            service.tickets.fail(faults);
            let (_, output) = make(&place, &call(tool, &json!({"title": "a"}))).await;
            let told = text(&output);
            assert_eq!(output.outcome, outcome, "{tool} {faults:?} {http}: {told}");
            assert!(told.contains(said), "{tool} {faults:?} {http}: {told}");
            assert_eq!(service.tickets.done(), done, "{tool} {faults:?} {http}: {told}");
            let ids = service.tickets.ids();
            assert!(ids.iter().all(|id| *id == ids[0]), "one call, one id: {ids:?}");
        }
    }
}

/// A stop ends the wait at once. Covers: G9.
#[tokio::test]
async fn a_stop_does_not_wait_for_a_server() {
    for http in [true, false] {
        let service = Service::over(http);
        let place = service.place(true).await;
        service.tickets.fail(&[Fault::Hang]);
        let call = call("open_ticket", &json!({"title": "a"}));
        let Verdict::Run(plan) = place.tools.judge(&call).await else { panic!("allowed") };
        place.tools.prepare(&call, plan).await.unwrap();
        let (handle, stop) = StopHandle::new();
        let tickets = Arc::clone(&service.tickets);
        let stopping = async {
            while tickets.done().is_empty() {
                tokio::task::yield_now().await;
            }
            handle.stop(StopKind::User);
        };
        let (output, ()) = tokio::join!(place.run_with(&call, stop, &|_| {}), stopping);
        assert_eq!(output.outcome, Outcome::Stopped, "{}", text(&output));
        assert!(text(&output).contains("may have done its work"), "{}", text(&output));
    }
}

/// After a crash another process asks by the id that the intent names. It sends again only what is not
/// there, only with that id, and only when somebody goes on with the work. Covers: G7, G9.
#[tokio::test]
async fn another_process_finds_out_by_the_id_in_the_intent() {
    // tool, whether the call arrived, goes on, outcome, what is said, what was done in the end
    type Row<'a> = (&'a str, bool, bool, Outcome, &'a str, &'a [&'a str]);
    let rows: [Row<'_>; 8] = [
        ("create_ticket", true, true, Outcome::Done, "knows the operation", &["create a"]),
        ("create_ticket", true, false, Outcome::Done, "knows the operation", &["create a"]),
        ("create_ticket", false, true, Outcome::Done, "sent again", &["create a"]),
        ("create_ticket", false, false, Outcome::Unknown, "does not know it so far", &[]),
        ("file_ticket", true, true, Outcome::Done, "knows the operation", &["create a"]),
        ("file_ticket", false, true, Outcome::Failed, "taken back", &["cancel "]),
        ("file_ticket", false, false, Outcome::Unknown, "does not know it so far", &[]),
        ("open_ticket", true, true, Outcome::Unknown, "", &["create a"]),
    ];
    for http in [true, false] {
        for (tool, arrived, goes_on, outcome, said, done) in rows {
            let service = Service::over(http);
            let call = call(tool, &json!({"title": "a"}));
            let action = begin(&service, &call, arrived).await;
            let place = service.place(true).await;
            // Any number of times.
            for _ in 0..2 {
                let here = Owner::default();
                let begun = Begun {
                    action: &action,
                    call: Some(&call),
                    before: None,
                    here: &here,
                    goes_on,
                };
                let Settlement::Told(output) = place.tools.establish(begun).await else {
                    panic!("it is over")
                };
                let told = text(&output);
                assert!(told.contains(said) || done == ["create a"], "{tool} {arrived}: {told}");
                if outcome != Outcome::Failed {
                    assert_eq!(output.outcome, outcome, "{tool} {arrived} {goes_on}: {told}");
                }
            }
            let happened = service.tickets.done();
            let created = happened.iter().filter(|entry| entry.starts_with("create")).count();
            assert!(created <= 1 && happened.starts_with(&strings(done)), "{tool}: {happened:?}");
            assert!(service.tickets.ids().iter().all(|id| Some(id) == action.key.as_ref()));
        }
    }
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// A process that makes a call and dies before its answer; gives the intent that it left.
async fn begin(service: &Service, call: &ToolCall, arrived: bool) -> Action {
    let place = service.place(true).await;
    let Verdict::Run(plan) = place.tools.judge(call).await else { panic!("allowed") };
    let plan = place.tools.prepare(call, plan).await.unwrap();
    if arrived {
        service.tickets.fail(&[Fault::Hang]);
        let died = async {
            while service.tickets.done().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = place.run(call) => panic!("it hangs"),
            () = died => {}
        }
    }
    Action {
        call_id: call.id.clone(),
        call_seq: 3,
        tool: call.name.clone(),
        class: plan.class,
        host: "h".to_owned(),
        boot: "b".to_owned(),
        key: plan.key,
        probe: plan.probe,
        before: None,
    }
}
