//! What is known of a server before it is started.
//!
//! Responsible for: the shape of our own configuration's entries, the project file `.mcp.json` that other
//! agents read too, and what of it identifies an entry that a person approved. Must not: start anything,
//! or read a file.

use segno_model::id::sha256_hex;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// How long a server may take to come up.
const START: Duration = Duration::from_secs(10);
/// How long a call may take.
const CALL: Duration = Duration::from_secs(120);

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that speaks on its standard streams.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables beside those that it inherits.
        env: BTreeMap<String, String>,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Headers of every request, e.g. a key.
        headers: BTreeMap<String, String>,
    },
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Its name; part of the names of its tools.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// Whether the user believes what it says of its tools.
    pub trust: bool,
    /// How long it may take to come up.
    pub start_timeout: Duration,
    /// How long a call may take.
    pub call_timeout: Duration,
    /// Tools with operation ids, by their own names.
    pub keyed: BTreeMap<String, Keyed>,
}

/// How a tool's calls are told apart (`[mcp.NAME.keyed.TOOL]`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Keyed {
    /// The argument that carries the operation id. The model does not see it; Segno fills it in.
    pub operation_id: String,
    /// How to ask what became of an operation.
    #[serde(default)]
    pub query: Option<Ask>,
    /// Whether a call with an operation id that the server has seen does nothing new.
    #[serde(default)]
    pub repeatable: bool,
    /// How to take an operation back.
    #[serde(default)]
    pub compensate: Option<Ask>,
}

/// A tool that is asked by operation id.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ask {
    /// The tool.
    pub tool: String,
    /// The argument that carries the operation id.
    pub argument: String,
    /// For a query: words in its answer, also in a failure, by which it says that there is no such
    /// operation. Without them an empty answer says so.
    #[serde(default)]
    pub absent: Option<String>,
}

/// An entry that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadServer(pub String);

/// An entry, as our configuration and `.mcp.json` spell it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Entry {
    #[serde(rename = "type")]
    kind: Option<String>,
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
}

/// What only our own configuration may say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Ours {
    trust: bool,
    start_timeout: Option<u64>,
    timeout: Option<u64>,
    keyed: BTreeMap<String, Keyed>,
}

impl ServerConfig {
    /// A server that is not trusted, with the usual patience.
    #[must_use]
    pub fn new(name: &str, transport: Transport) -> Self {
        let (trust, keyed) = (false, BTreeMap::new());
        let name = name.to_owned();
        Self { name, transport, trust, start_timeout: START, call_timeout: CALL, keyed }
    }

    /// An entry `[mcp.NAME]` of the user's own configuration, as a JSON value.
    ///
    /// # Errors
    /// When it says neither or both of `command` and `url`, or something that nobody knows.
    pub fn from_own(name: &str, entry: &Value) -> Result<Self, BadServer> {
        const KNOWN: [&str; 10] = [
            "type",
            "command",
            "args",
            "env",
            "url",
            "headers",
            "trust",
            "start-timeout",
            "timeout",
            "keyed",
        ];
        let keys = entry.as_object().into_iter().flat_map(|object| object.keys());
        if let Some(odd) = keys.map(String::as_str).find(|key| !KNOWN.contains(key)) {
            return Err(BadServer(format!("`{odd}` says nothing about a server")));
        }
        let bad = |e: serde_json::Error| BadServer(e.to_string());
        let given: Entry = serde_json::from_value(entry.clone()).map_err(bad)?;
        let ours: Ours = serde_json::from_value(entry.clone()).map_err(bad)?;
        let seconds = |given: Option<u64>, usual| given.map_or(usual, Duration::from_secs);
        Ok(Self {
            trust: ours.trust,
            start_timeout: seconds(ours.start_timeout, START),
            call_timeout: seconds(ours.timeout, CALL),
            keyed: ours.keyed,
            ..Self::new(name, given.transport(&|text| Ok(text.to_owned()))?)
        })
    }
}

impl Entry {
    fn transport(
        self,
        expand: &dyn Fn(&str) -> Result<String, BadServer>,
    ) -> Result<Transport, BadServer> {
        type Pairs = BTreeMap<String, String>;
        let all = |map: Pairs| -> Result<Pairs, BadServer> {
            map.into_iter().map(|(name, value)| Ok((name, expand(&value)?))).collect()
        };
        match (self.command, self.url, self.kind.as_deref()) {
            (Some(command), None, None | Some("stdio")) => Ok(Transport::Stdio {
                command: expand(&command)?,
                args: self.args.iter().map(|arg| expand(arg)).collect::<Result<_, _>>()?,
                env: all(self.env)?,
            }),
            (None, Some(url), None | Some("http" | "streamable-http")) => {
                Ok(Transport::Http { url: expand(&url)?, headers: all(self.headers)? })
            }
            (None, Some(_), Some(kind)) => {
                Err(BadServer(format!("servers of the type `{kind}` are not supported")))
            }
            _ => Err(BadServer("it needs either a `command` or a `url`".to_owned())),
        }
    }
}

/// The servers in the text of a project's `.mcp.json`, each with the hash by which it is approved: of the
/// project's directory, its name and its entry, before variables are filled in. `variable` gives a
/// variable's value, and none for one that servers do not get to see.
///
/// # Errors
/// When the text is no such file. A single entry that cannot be used is an error of its own.
#[expect(clippy::type_complexity, reason = "a list with one result per entry")]
pub fn from_project_file(
    text: &str,
    project: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Vec<(String, String, Result<ServerConfig, BadServer>)>, BadServer> {
    #[derive(Deserialize)]
    struct File {
        #[serde(rename = "mcpServers")]
        servers: BTreeMap<String, Value>,
    }
    let file: File = serde_json::from_str(text).map_err(|e| BadServer(e.to_string()))?;
    let one = |(name, entry): (String, Value)| {
        let hash = approval(project, &name, &entry);
        let given = serde_json::from_value::<Entry>(entry).map_err(|e| BadServer(e.to_string()));
        let transport = given.and_then(|given| given.transport(&|text| expand(text, variable)));
        let config = transport.map(|transport| ServerConfig::new(&name, transport));
        (name, hash, config)
    };
    Ok(file.servers.into_iter().map(one).collect())
}

fn approval(project: &Path, name: &str, entry: &Value) -> String {
    let mut text = format!("{}\n{name}\n", project.display());
    canonical(entry, &mut text);
    sha256_hex(text.as_bytes())
}

/// JSON with sorted keys and no white space.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(object) => {
            let mut fields: Vec<(&String, &Value)> = object.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (name, value) in fields {
                out.push_str(&format!("{}:", Value::from(name.as_str())));
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// Fills in `${NAME}` and `${NAME:-OTHERWISE}`.
fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, BadServer> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, from)) = rest.split_once("${") {
        let Some((inside, after)) = from.split_once('}') else { break };
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise.to_owned())),
            None => (inside, None),
        };
        let value = variable(name).or(otherwise);
        let missing =
            || BadServer(format!("the variable {name} is not set, or is kept from servers"));
        out.push_str(before);
        out.push_str(&value.ok_or_else(missing)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_as_people_write_them() {
        let cases = [
            (r#"{"command":"a","args":["b"],"trust":true}"#, "stdio a [\"b\"] true"),
            (r#"{"url":"http://x/mcp","timeout":3}"#, "http http://x/mcp false"),
            (r#"{"type":"http","url":"http://x"}"#, "http http://x false"),
            (r#"{"type":"sse","url":"http://x"}"#, "servers of the type `sse` are not supported"),
            ("{}", "it needs either a `command` or a `url`"),
            (r#"{"command":"a","url":"b"}"#, "it needs either a `command` or a `url`"),
            (r#"{"command":"a","trusted":true}"#, "`trusted` says nothing about a server"),
            (r#"{"command":1}"#, "invalid type"),
            (r#"{"command":"a","keyed":{"t":{"operation-id":"o","odd":1}}}"#, "unknown field"),
        ];
        for (entry, expected) in cases {
            let entry = serde_json::from_str(entry).expect("JSON");
            let told = match ServerConfig::from_own("n", &entry) {
                Ok(config) => match config.transport {
                    Transport::Stdio { command, args, .. } => {
                        format!("stdio {command} {args:?} {}", config.trust)
                    }
                    Transport::Http { url, .. } => format!("http {url} {}", config.trust),
                },
                Err(error) => error.to_string(),
            };
            assert!(told.contains(expected), "{expected}: {told}");
        }
    }

    /// An approval is of exactly this entry in this project, however it is spelled.
    #[test]
    fn what_identifies_an_entry() {
        let hash = |text: &str, project: &str| {
            let found = from_project_file(text, Path::new(project), &|_| Some("v".to_owned()));
            found.expect("a file").remove(0).1
        };
        let base = r#"{"mcpServers":{"t":{"command":"a","args":["b","c"]}}}"#;
        let same = [r#"{ "mcpServers": {"t": {"args": ["b", "c"], "command": "a"}} }"#];
        let others = [
            r#"{"mcpServers":{"u":{"command":"a","args":["b","c"]}}}"#,
            r#"{"mcpServers":{"t":{"command":"a","args":["bc"]}}}"#,
            r#"{"mcpServers":{"t":{"command":"a","args":["b","c"],"env":{"X":"1"}}}}"#,
            r#"{"mcpServers":{"t":{"command":"a","args":["c","b"]}}}"#,
        ];
        assert!(same.iter().all(|text| hash(text, "/p") == hash(base, "/p")));
        assert!(others.iter().all(|text| hash(text, "/p") != hash(base, "/p")));
        assert_ne!(hash(base, "/p"), hash(base, "/q"));
    }

    #[test]
    fn variables_are_filled_in_and_kept_ones_are_not() {
        let variable = |name: &str| (name == "A").then(|| "1".to_owned());
        let cases = [
            ("x", Ok("x")),
            ("${A}", Ok("1")),
            ("a${A}b${B:-c}d", Ok("a1bcd")),
            ("${", Ok("${")),
            ("$A", Ok("$A")),
            ("${B}", Err("the variable B is not set")),
        ];
        for (text, expected) in cases {
            match (expand(text, &variable), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.to_string().contains(expected)),
                (found, expected) => panic!("{text}: {found:?} {expected:?}"),
            }
        }
    }
}
