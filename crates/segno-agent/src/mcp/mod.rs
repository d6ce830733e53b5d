//! Tools of other programs, by the Model Context Protocol.
//!
//! Responsible for: starting servers, the tools that they offer, calling them, and finding out what became
//! of a call whose answer is missing. Must not: decide what is allowed, approve a server, or read a file;
//! configurations are handed in.
//!
//! | part | in |
//! |---|---|
//! | what is known of a server beforehand | `config` |
//! | messages | `rpc` |
//! | a server as a child process, over HTTP | `stdio`, `http` |
//! | connecting, listing, calling | `server` |
//! | results as the model is shown them | `content` |
//! | operation ids: query, repeat, compensate | `keyed` |

mod config;
mod content;
mod http;
mod keyed;
mod rpc;
mod server;
mod stdio;

pub use config::{Ask, BadServer, Keyed, ServerConfig, Transport, from_project_file};

use futures_util::future::join_all;
use segno_model::record::{Action, Outcome, ReplayClass, ToolCall};
use segno_model::store::Ids;
use segno_runtime::{Stop, ToolOutput, ToolSpec};
use serde_json::{Map, Value};
use server::{Server, Tool};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What all servers are started with.
#[derive(Clone)]
pub struct Start {
    /// Where child processes run.
    pub cwd: PathBuf,
    /// Variables that they do not get to see.
    pub hidden_env: Vec<String>,
    /// Where operation ids come from.
    pub ids: Arc<dyn Ids>,
}

/// A server that offers no tools, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Its name.
    pub server: String,
    /// Why, for people.
    pub why: String,
}

/// The servers of a process, connected, with their tools.
pub struct Servers {
    servers: Vec<Server>,
    /// By the name that the model knows: server and tool.
    tools: BTreeMap<String, (usize, usize)>,
    ids: Arc<dyn Ids>,
}

/// A tool, as far as permissions and plans need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) server: String,
    pub(crate) tool: String,
    /// Whether a trusted server says that it only reads.
    pub(crate) reads: bool,
    pub(crate) class: ReplayClass,
}

impl Servers {
    /// Starts all of them at once; one that does not come up in its time is told and left out.
    pub async fn start(configs: Vec<ServerConfig>, start: Start) -> (Self, Vec<Trouble>) {
        let ids = Arc::clone(&start.ids);
        let started = join_all(configs.into_iter().map(|config| Server::start(config, &start)));
        let (mut servers, mut troubles) = (Vec::new(), Vec::new());
        for started in started.await {
            match started {
                Ok(server) => servers.push(server),
                Err(trouble) => troubles.push(trouble),
            }
        }
        servers.sort_by(|a, b| a.name().cmp(b.name()));
        let tools = name_tools(&servers);
        (Self { servers, tools, ids }, troubles)
    }

    /// The tools, in a stable order, as the model is told of them.
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        let all = self.tools.iter().filter_map(|(name, at)| Some((name, self.at(*at)?)));
        all.map(|(name, (server, tool))| server.spec(name, tool)).collect()
    }

    /// What is known of a tool by the name that the model knows.
    pub(crate) fn known(&self, name: &str) -> Option<Known> {
        let (server, tool) = self.find(name)?;
        Some(Known {
            server: server.name().to_owned(),
            tool: tool.name.clone(),
            reads: server.only_reads(tool),
            class: server.class(tool),
        })
    }

    /// A new operation id for a call, when its tool takes one.
    pub(crate) fn operation_id(&self, name: &str) -> Option<String> {
        let (server, tool) = self.find(name)?;
        server.keyed(tool)?;
        Some(format!("segno-{}", self.ids.session_id()))
    }

    /// Calls a tool. `key` is its operation id, which is on disk.
    pub(crate) async fn call(&self, call: &ToolCall, key: Option<&str>, stop: &Stop) -> ToolOutput {
        let Some((server, tool)) = self.find(&call.name) else { return gone(&call.name) };
        let arguments = match arguments(call) {
            Ok(arguments) => arguments,
            Err(why) => return ToolOutput::new(why, true, Outcome::NotRun),
        };
        let ended = tokio::select! {
            ended = server.call(&tool.name, server.with_key(tool, arguments.clone(), key)) => ended,
            kind = stop.stopped() => {
                let who = crate::tool::stop_text(kind);
                let text = format!("{who}; {} may have done its work all the same", call.name);
                return ToolOutput::new(text, true, Outcome::Stopped);
            }
        };
        match (ended, key) {
            (server::Ended::Lost(why), Some(key)) => {
                let settled = keyed::settle(server, tool, key, Some(arguments), true);
                tokio::select! {
                    output = settled => output,
                    _ = stop.stopped() => server::Ended::Lost(why).output(),
                }
            }
            (ended, _) => ended.output(),
        }
    }

    /// Finds out what became of a call that another process made. `may_act`: whether it may be repeated or
    /// taken back, where that is known to be safe.
    pub(crate) async fn establish(
        &self,
        action: &Action,
        call: Option<&ToolCall>,
        may_act: bool,
    ) -> ToolOutput {
        let Some((server, tool)) = self.find(&action.tool) else { return gone(&action.tool) };
        let Some(key) = &action.key else { return keyed::unknown(&action.tool, "") };
        let arguments = call.and_then(|call| arguments(call).ok());
        keyed::settle(server, tool, key, arguments, may_act).await
    }

    fn find(&self, name: &str) -> Option<(&Server, &Tool)> {
        self.at(*self.tools.get(name)?)
    }

    fn at(&self, (server, tool): (usize, usize)) -> Option<(&Server, &Tool)> {
        let server = self.servers.get(server)?;
        Some((server, server.tools().get(tool)?))
    }
}

/// What a call of a tool says whose server is not there.
pub(crate) fn gone(name: &str) -> ToolOutput {
    let text = format!("{name}: the server of this tool is not connected");
    ToolOutput::new(text, true, Outcome::Unknown)
}

fn arguments(call: &ToolCall) -> Result<Map<String, Value>, String> {
    if call.arguments.trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(&call.arguments).map_err(|e| format!("the arguments do not fit: {e}"))
}

/// Whether a name could be one of a server's tools.
#[must_use]
pub fn is_external(name: &str) -> bool {
    name.starts_with("mcp__")
}

/// The longest name that every provider takes.
const NAME_BYTES: usize = 64;

/// Names for all tools, as all providers take them; of two that would have one name the second gets
/// another.
fn name_tools(servers: &[Server]) -> BTreeMap<String, (usize, usize)> {
    let mut names = BTreeMap::new();
    for (s, server) in servers.iter().enumerate() {
        for (t, tool) in server.tools().iter().enumerate() {
            let full = format!("mcp__{}__{}", server.name(), tool.name);
            let plain =
                |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
            let mut name: String = full.chars().map(plain).collect();
            if name.len() > NAME_BYTES || names.contains_key(&name) {
                let hash = segno_model::id::sha256_hex(full.as_bytes());
                name.truncate(NAME_BYTES - 9);
                name = format!("{name}_{}", hash.get(..8).unwrap_or_default());
            }
            names.insert(name, (s, t));
        }
    }
    names
}
