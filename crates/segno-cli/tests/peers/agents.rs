//! The agents: their homes, where a session's file goes, and how one is resumed.
//!
//! Responsible for: settings that keep an agent on loopback (an address of its own, telemetry and updates
//! off, a proxy that leads nowhere), its time limit, and the end of all its processes. Must not: look at what
//! it sends. How the agents are run was found by running these versions.

use crate::told;
use segno_store::foreign::Agent;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(50);

/// How many ticks a run may take: 10 minutes, since a busy machine only delays one.
const TICKS: u32 = 12_000;

/// An agent that is there.
pub(crate) struct Installed {
    pub(crate) agent: Agent,
    pub(crate) version: String,
    program: PathBuf,
}

impl Installed {
    /// From `NAME=VERSION=PROGRAM`.
    pub(crate) fn parse(line: &str) -> Self {
        let mut words = line.splitn(3, '=');
        let mut next = || words.next().unwrap().to_owned();
        let name = next();
        let agent = Agent::ALL.into_iter().find(|agent| agent.id() == name).unwrap();
        Self { agent, version: next(), program: PathBuf::from(next()) }
    }
}

/// What an agent is set up to ask.
pub(crate) struct Model {
    pub(crate) provider: String,
    pub(crate) id: String,
}

/// How a run ended.
pub(crate) struct Ended {
    /// None when it was ended at its time limit.
    pub(crate) code: Option<i32>,
    /// The last of what it printed.
    pub(crate) said: String,
}

/// A home, a project and an address, for one run.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    url: String,
}

impl Place {
    pub(crate) fn new(url: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("segno-peers-").tempdir_in(beside()).unwrap();
        let place = Self { dir, url: url.to_owned() };
        for dir in [place.home(), place.project()] {
            fs::create_dir_all(dir).unwrap();
        }
        place
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// A file beside home and project.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What the agent reads before it does anything.
    pub(crate) fn configure(&self, agent: Agent, model: &Model) {
        let url = &self.url;
        match agent {
            Agent::Codex => self.write(".codex/config.toml", &codex_config(url, &model.provider)),
            Agent::Gemini => {
                self.write(".gemini/settings.json", GEMINI);
                let project = self.project().display().to_string();
                let projects = serde_json::json!({"projects": {project.as_str(): "project"}});
                self.write(".gemini/projects.json", &projects.to_string());
                self.write(".gemini/tmp/project/.project_root", &project);
            }
            Agent::OpenCode => {
                let named = OPENCODE.replace("@PROVIDER", &model.provider);
                let text = named.replace("@MODEL", &model.id).replace("@URL", url);
                self.write(".config/opencode/opencode.json", &text);
            }
            Agent::Pi => self.write(".pi/agent/models.json", &PI.replace("@URL", url)),
            _ => {}
        }
    }

    /// Puts a session where the agent looks for it; gives the file, where there is one.
    pub(crate) fn put(&self, agent: Agent, id: &str, text: &[u8]) -> PathBuf {
        let project = self.project().display().to_string();
        let dashes: String =
            project.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let path = match agent {
            Agent::Claude => self.home().join(format!(".claude/projects/{dashes}/{id}.jsonl")),
            Agent::Codex => self
                .home()
                .join(format!(".codex/sessions/2026/11/29/rollout-2026-11-29T21-00-00-{id}.jsonl")),
            Agent::Gemini => {
                let short = id.get(..8).unwrap_or(id);
                let name = format!("session-2026-11-29T21-00-{short}.jsonl");
                self.home().join(".gemini/tmp/project/chats").join(name)
            }
            Agent::Pi => {
                let dir = format!(".pi/agent/sessions/--{}--", dashes.trim_start_matches('-'));
                self.home().join(dir).join(format!("2026-11-29T21-00-00-000Z_{id}.jsonl"))
            }
            _ => self.file("import.json"),
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// What the agent needs before it can resume: OpenCode imports.
    pub(crate) fn import(&self, installed: &Installed, path: &Path) -> Option<Ended> {
        let import = || {
            let mut command = self.command(installed);
            command.arg("import").arg(path);
            self.run(command)
        };
        (installed.agent == Agent::OpenCode).then(import)
    }

    /// Goes on with a session: a model is asked something. Without a name, the agent finds the newest one of the
    /// project in its own list.
    pub(crate) fn resume(
        &self,
        installed: &Installed,
        named: Option<(&str, &Path)>,
        (model, prompt): (&Model, &str),
    ) -> Ended {
        let mut command = self.command(installed);
        let id = named.map(|(id, _)| id);
        match installed.agent {
            Agent::Claude => {
                command.arg("-p");
                match id {
                    Some(id) => command.args(["--resume", id]),
                    None => command.arg("--continue"),
                };
                command.args([prompt, "--dangerously-skip-permissions"]);
                command.args(["--model", "claude-sonnet-4-5"]);
            }
            Agent::Codex => {
                command.args(["exec", "resume", "--skip-git-repo-check"]);
                command.args([id.unwrap_or("--last"), prompt]);
            }
            Agent::Gemini => {
                command.args(["-r", id.unwrap_or("latest"), "-p", prompt, "-y", "--skip-trust"]);
                command.args(["-m", "gemini-2.5-pro"]);
            }
            Agent::OpenCode => {
                command.arg("run");
                match id {
                    Some(id) => command.args(["--session", id]),
                    None => command.arg("--continue"),
                };
                let model = format!("{}/{}", model.provider, model.id);
                command.args(["-m", &model, prompt]);
            }
            _ => {
                command.args(["-p", "--provider", "scripted", "--model", "scripted"]);
                match named {
                    Some((_, path)) => command.arg("--session").arg(path),
                    None => command.arg("--continue"),
                };
                command.arg(prompt);
            }
        }
        self.run(command)
    }

    fn command(&self, installed: &Installed) -> Command {
        let mut command = Command::new(&installed.program);
        let node = told("SEGNO_PEERS_NODE").unwrap_or_default();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env_clear().env("PATH", format!("{node}:{path}"));
        command.current_dir(self.project()).env("HOME", self.home()).env("TERM", "dumb");
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            command.env_remove(name);
        }
        // Nothing but loopback can be reached.
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(name, "http://127.0.0.1:9");
        }
        for name in ["NO_PROXY", "no_proxy"] {
            command.env(name, "127.0.0.1,localhost");
        }
        for (name, value) in ENVIRONMENT {
            command.env(name, value);
        }
        for name in ["ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"] {
            command.env(name, &self.url);
        }
        command.env("OPENAI_BASE_URL", format!("{}/v1", self.url));
        command
    }

    /// Runs it to its end or its time limit; then nothing of it is left.
    fn run(&self, mut command: Command) -> Ended {
        let output = self.file("output");
        let file = fs::File::options().append(true).create(true).open(&output).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut child = command.process_group(0).spawn().unwrap();
        let mut ended = None;
        for _ in 0..TICKS {
            ended = child.try_wait().unwrap();
            if ended.is_some() {
                break;
            }
            std::thread::sleep(TICK);
        }
        let group = format!("-{}", child.id());
        let kill = Command::new("kill").args(["-9", "--", &group]).stderr(Stdio::null()).status();
        let _ = (kill, child.wait());
        let said = String::from_utf8_lossy(&fs::read(&output).unwrap()).into_owned();
        let said = said.replace(&self.dir.path().display().to_string(), "…");
        Ended { code: ended.and_then(|status| status.code()), said }
    }

    /// Puts what the run left into a directory, if that was asked for.
    pub(crate) fn keep(&self, name: &str) {
        let Some(dir) = told("SEGNO_PEERS_KEEP") else { return };
        let to = PathBuf::from(dir).join(name);
        let _ = fs::remove_dir_all(&to);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        let _ = Command::new("cp").arg("-r").arg(self.dir.path()).arg(&to).status();
    }
}

/// Codex refuses to put its helpers below the directory for temporary files.
fn beside() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Telemetry, updates and downloads off; keys that only the scripted model takes.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "k"),
    ("OPENAI_API_KEY", "k"),
    ("GEMINI_API_KEY", "k"),
    ("IS_SANDBOX", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("GEMINI_CLI_NO_RELAUNCH", "true"),
    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
    ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
    ("PI_OFFLINE", "1"),
    ("PI_TELEMETRY", "0"),
];

/// Codex keeps to the provider that a session names. Its own one has no table, but takes an address.
fn codex_config(url: &str, provider: &str) -> String {
    let table = match provider {
        "openai" => String::new(),
        name => format!(
            "[model_providers.{name}]\nname = \"{name}\"\nbase_url = \"{url}/v1\"\n\
             wire_api = \"responses\"\nenv_key = \"OPENAI_API_KEY\"\n\
             request_max_retries = 0\nstream_max_retries = 0\n"
        ),
    };
    format!(
        "model = \"gpt-5\"\nmodel_provider = \"{provider}\"\nopenai_base_url = \"{url}/v1\"\n\
         approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
         check_for_update_on_startup = false\n[analytics]\nenabled = false\n{table}"
    )
}

const GEMINI: &str = r#"{"security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false},
    "general": {"disableAutoUpdate": true, "disableUpdateNag": true, "enableAutoUpdate": false}}"#;

const OPENCODE: &str = r#"{"autoupdate": false, "share": "disabled", "model": "@PROVIDER/@MODEL",
    "small_model": "@PROVIDER/@MODEL", "provider": {"@PROVIDER": {"npm": "@ai-sdk/openai-compatible",
    "name": "Scripted", "options": {"baseURL": "@URL/v1", "apiKey": "k"}, "models": {"@MODEL":
    {"name": "scripted", "limit": {"context": 200000, "output": 8000}, "tool_call": true, "attachment": true,
    "modalities": {"input": ["text", "image"], "output": ["text"]}}}}}}"#;

const PI: &str = r#"{"providers": {"scripted": {"baseUrl": "@URL/v1", "apiKey": "k",
    "api": "openai-completions", "models": [{"id": "scripted", "name": "scripted", "reasoning": false,
    "input": ["text", "image"], "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 200000, "maxTokens": 8000}]}}}"#;
