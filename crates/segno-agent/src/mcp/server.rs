//! One server: connecting, what it offers, calls.
//!
//! Responsible for: the protocol's beginning, the list of tools and what a trusted server says of them, and
//! connecting again when the server is gone. Must not: repeat a call that may have arrived.

use super::config::{Keyed, ServerConfig, Transport};
use super::content;
use super::http::Endpoint;
use super::rpc::Failure;
use super::stdio::Pipe;
use super::{Start, Trouble};
use segno_model::record::{Outcome, ReplayClass};
use segno_runtime::{ToolOutput, ToolSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::Mutex;

/// The version of the protocol that we speak; a server may answer with an older one.
const PROTOCOL: &str = "2025-06-18";
/// How many tools of one server are offered.
const MAX_TOOLS: usize = 256;
/// How many pages its list may have.
const MAX_PAGES: usize = 64;

/// A server, and the connection to it as long as it lasts.
pub(super) struct Server {
    config: ServerConfig,
    start: Start,
    tools: Vec<Tool>,
    connection: Mutex<Option<Arc<Connection>>>,
}

/// A tool, as its server describes it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Tool {
    pub(super) name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default, rename = "inputSchema")]
    parameters: Value,
    #[serde(default)]
    annotations: Option<Annotations>,
}

/// What a server says of a tool; hints, not promises.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Annotations {
    read_only_hint: bool,
    idempotent_hint: bool,
}

#[derive(Debug)]
enum Connection {
    Stdio(Pipe),
    Http(Endpoint),
}

/// How a call ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// With a result.
    Result(ToolOutput),
    /// It certainly did not reach the server.
    NotSent(String),
    /// It may have, and no answer came.
    Lost(String),
}

impl Ended {
    /// What the model is told.
    pub(super) fn output(self) -> ToolOutput {
        match self {
            Self::Result(output) => output,
            Self::NotSent(why) => {
                let text = format!("not run: the server cannot be reached: {why}");
                ToolOutput::new(text, true, Outcome::NotRun)
            }
            Self::Lost(why) => {
                let text =
                    format!("no answer came: {why}. Whether the call had its effect is unknown.");
                ToolOutput::new(text, true, Outcome::Unknown)
            }
        }
    }
}

impl Server {
    /// Connects and asks what it offers, within its time.
    pub(super) async fn start(config: ServerConfig, start: &Start) -> Result<Self, Trouble> {
        let patience = config.start_timeout;
        let begun = tokio::time::timeout(patience, async {
            let connection = connect(&config, start).await?;
            let tools = list(&connection).await?;
            Ok::<_, Failure>((connection, tools))
        });
        let trouble = |why: String| Trouble { server: config.name.clone(), why };
        let late = || trouble(format!("it was not ready within {} s", patience.as_secs()));
        let (connection, tools) =
            begun.await.map_err(|_| late())?.map_err(|e| trouble(e.why().to_owned()))?;
        let connection = Mutex::new(Some(Arc::new(connection)));
        Ok(Self { config, start: start.clone(), tools, connection })
    }

    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    pub(super) fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// A tool as the model is told of it. The operation id is not the model's business.
    pub(super) fn spec(&self, name: &str, tool: &Tool) -> ToolSpec {
        let mut parameters = match &tool.parameters {
            Value::Object(object) => object.clone(),
            _ => Map::new(),
        };
        parameters.entry("type").or_insert_with(|| json!("object"));
        if let Some(keyed) = self.keyed(tool) {
            if let Some(properties) =
                parameters.get_mut("properties").and_then(Value::as_object_mut)
            {
                properties.shift_remove(&keyed.operation_id);
            }
            if let Some(required) = parameters.get_mut("required").and_then(Value::as_array_mut) {
                required.retain(|name| name.as_str() != Some(&keyed.operation_id));
            }
        }
        let description = tool.description.clone().unwrap_or_default();
        ToolSpec::new(name, &description, Value::Object(parameters))
    }

    /// How a tool's calls are told apart, if they are.
    pub(super) fn keyed(&self, tool: &Tool) -> Option<&Keyed> {
        self.config.keyed.get(&tool.name)
    }

    /// Whether it only reads, as far as the user believes the server.
    pub(super) fn only_reads(&self, tool: &Tool) -> bool {
        self.config.trust && tool.annotations.as_ref().is_some_and(|a| a.read_only_hint)
    }

    /// Whether a call with an operation id that the server has seen does nothing new.
    pub(super) fn is_repeatable(&self, tool: &Tool) -> bool {
        let says = tool.annotations.as_ref().is_some_and(|a| a.idempotent_hint);
        self.keyed(tool).is_some_and(|keyed| keyed.repeatable || self.config.trust && says)
    }

    /// What may be done about its calls after a crash.
    pub(super) fn class(&self, tool: &Tool) -> ReplayClass {
        match self.keyed(tool) {
            Some(keyed) if keyed.query.is_some() || keyed.compensate.is_some() => {
                ReplayClass::Keyed
            }
            _ if self.only_reads(tool) => ReplayClass::Read,
            _ => ReplayClass::Opaque,
        }
    }

    /// Arguments with the operation id in its place.
    pub(super) fn with_key(
        &self,
        tool: &Tool,
        mut arguments: Map<String, Value>,
        key: Option<&str>,
    ) -> Map<String, Value> {
        if let (Some(keyed), Some(key)) = (self.keyed(tool), key) {
            arguments.insert(keyed.operation_id.clone(), Value::from(key));
        }
        arguments
    }

    /// Calls a tool by its own name. A call that certainly did not arrive is sent once more over a new
    /// connection.
    pub(super) async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Ended {
        let params = json!({"name": tool, "arguments": arguments});
        for again in [true, false] {
            let connection = match self.connected().await {
                Ok(connection) => connection,
                Err(why) => return Ended::NotSent(why),
            };
            let asked = connection.request("tools/call", &params);
            match tokio::time::timeout(self.config.call_timeout, asked).await {
                Ok(Ok(result)) => return Ended::Result(content::output(&result)),
                Ok(Err(Failure::Refused(why))) => return Ended::Result(ToolOutput::failed(why)),
                Ok(Err(Failure::NotSent(_))) if again && !connection.is_alive() => {}
                Ok(Err(Failure::NotSent(why))) => return Ended::NotSent(why),
                Ok(Err(Failure::Lost(why))) => return Ended::Lost(why),
                Err(_) => {
                    let seconds = self.config.call_timeout.as_secs();
                    return Ended::Lost(format!("{seconds} s have passed"));
                }
            }
        }
        Ended::NotSent("it ends again and again".to_owned())
    }

    async fn connected(&self) -> Result<Arc<Connection>, String> {
        let mut connection = self.connection.lock().await;
        if let Some(alive) = connection.as_ref().filter(|connection| connection.is_alive()) {
            return Ok(Arc::clone(alive));
        }
        *connection = None;
        let patience = self.config.start_timeout;
        let late = |_| format!("it was not ready within {} s", patience.as_secs());
        let begun = tokio::time::timeout(patience, connect(&self.config, &self.start));
        let begun = begun.await.map_err(late)?.map_err(|e| e.why().to_owned())?;
        Ok(Arc::clone(connection.insert(Arc::new(begun))))
    }
}

impl Connection {
    fn is_alive(&self) -> bool {
        match self {
            Self::Stdio(pipe) => pipe.is_alive(),
            Self::Http(endpoint) => endpoint.is_alive(),
        }
    }

    async fn request(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        match self {
            Self::Stdio(pipe) => pipe.request(method, params).await,
            Self::Http(endpoint) => endpoint.request(method, params).await,
        }
    }
}

async fn connect(config: &ServerConfig, start: &Start) -> Result<Connection, Failure> {
    let connection = match &config.transport {
        Transport::Stdio { command, args, env } => {
            let pipe = Pipe::start(command, args, env, &start.cwd, &start.hidden_env)?;
            Connection::Stdio(pipe)
        }
        Transport::Http { url, headers } => {
            Connection::Http(Endpoint::new(url, headers, config.start_timeout)?)
        }
    };
    let params = json!({
        "protocolVersion": PROTOCOL,
        "capabilities": {},
        "clientInfo": {"name": "segno", "version": env!("CARGO_PKG_VERSION")},
    });
    let answer = connection.request("initialize", &params).await?;
    match &connection {
        Connection::Stdio(pipe) => pipe.notify("notifications/initialized", &json!({})),
        Connection::Http(endpoint) => {
            let version = answer.get("protocolVersion").and_then(Value::as_str);
            endpoint.agree(version.unwrap_or(PROTOCOL));
            endpoint.notify("notifications/initialized", &json!({})).await;
        }
    }
    Ok(connection)
}

async fn list(connection: &Connection) -> Result<Vec<Tool>, Failure> {
    let (mut tools, mut params) = (Vec::new(), json!({}));
    for _ in 0..MAX_PAGES {
        let answer = connection.request("tools/list", &params).await?;
        let page = answer.get("tools").and_then(Value::as_array).into_iter().flatten();
        tools.extend(page.filter_map(|tool| serde_json::from_value::<Tool>(tool.clone()).ok()));
        match answer.get("nextCursor").and_then(Value::as_str) {
            Some(cursor) if tools.len() < MAX_TOOLS => params = json!({"cursor": cursor}),
            _ => break,
        }
    }
    tools.truncate(MAX_TOOLS);
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tools)
}
