//! The session, its project, its servers, and who works on it.

use image::{GrayImage, Luma};
use segno_agent::permission::Mode;
use segno_agent::provider::{Credentials, Provider, ProviderConfig, ProviderId, Secret};
use segno_agent::tool::{Toolbox, ToolboxConfig};
use segno_agent::{Agent, Surroundings, World};
use segno_model::SessionId;
use segno_model::compaction::{Native, Window};
use segno_model::context::ContextMessage;
use segno_model::record::{
    Body, Header, Message, ModelChange, ModelRef, ProjectFacts, UserMessage,
};
use segno_model::store::{HeldSession as _, Ids as _, Judged, Scanned, SessionStore as _};
use segno_runtime::{Limits, RetryPolicy, Session, Stop};
use segno_store::{FileStore, RealDisk, SystemClock, UuidIds, this_process};
use segno_testkit::scripted_model::ScriptedModel;
use segno_testkit::sessions::Rng;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// What every model of this session can take, in tokens.
const WINDOW: u64 = 12_000;

/// Who answers; one for each wire, and one provider with two models.
const MODELS: [(ProviderId, &str); 5] = [
    (ProviderId::Anthropic, "alpha"),
    (ProviderId::OpenAi, "beta"),
    (ProviderId::OpenAiChat, "gamma"),
    (ProviderId::Gemini, "delta"),
    (ProviderId::Anthropic, "omega"),
];

/// What the person says first, and what must hold to the end.
const RULE: &str =
    "Never deploy on Fridays, and keep the limit of 4711 in `conf/limits.toml`. 不改公共接口";

const SCRIPT: &str = r#"
rule summary
  when user contains "Summarise the history"
  new-prefix
  say "<summary>\n## Goal\nThey work on files.\n## Constraints\n## Decisions\n## Done\n## In progress\n## Next\n## Files\n## Open questions\n</summary>"
rule read
  when last user
  when prompt line "Read " capture file until ":"
  think "I look at it."
  say "I read it."
  call read {"path": "{file}"}
rule compare
  when last user
  when prompt line "Compare " capture one until " " capture other until ":"
  think "Both."
  call read {"path": "{one}"}
  call read {"path": "{other}"}
rule write
  when last user
  when prompt line "Write " capture file until ":"
  call write {"path": "{file}", "content": "made"}
rule think
  when last user
  when prompt line "Think"
  think "Yes, and no."
  say "I thought about it."
otherwise
  say "Done with it."
"#;

/// What the person says in one turn.
pub(crate) struct Turn {
    prompt: String,
    model: usize,
    /// After how many steps of the program it dies; none when it lives.
    dies: Option<usize>,
}

impl Turn {
    pub(crate) fn choose(n: usize, random: &mut Rng) -> Self {
        let number = random.below(6);
        let prompt = match random.below(8) {
            0 => format!("Read notes-{number}.txt: {n}"),
            1 => format!("Read picture-{number}.png: {n}"),
            2 => format!("Compare notes-{number}.txt picture-0.png: {n}"),
            3 => format!("Write made-{number}.txt: {n}"),
            4 => format!("Think: {n}"),
            5 => format!("{}\nSay {n}", "Some words that were pasted. ".repeat(60)),
            _ => format!("Say {n}"),
        };
        let prompt = if n == 0 { format!("{RULE}\nSay {n}") } else { prompt };
        let dies = (random.below(4) == 0).then(|| random.below(30));
        Self { prompt, model: random.below(12), dies }
    }
}

pub(crate) struct Scene {
    about: String,
    dir: tempfile::TempDir,
    server: ScriptedModel,
    id: Option<SessionId>,
    model: usize,
    /// What was asked, and whether it came to its end.
    given: Vec<(String, bool)>,
    /// Bytes that each opening read.
    read: Vec<u64>,
    counts: BTreeMap<&'static str, usize>,
}

impl Scene {
    pub(crate) fn new(about: String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        for n in 0..6 {
            let line = format!("line of file {n} with the number {}\n", n * 37);
            std::fs::write(project.join(format!("notes-{n}.txt")), line.repeat(40 << n)).unwrap();
            // The last ones are larger than providers take.
            let side = [16, 64, 200, 600, 2_500, 9_000][n];
            let picture = GrayImage::from_pixel(side, 20, Luma([u8::try_from(n * 40).unwrap()]));
            picture.save(project.join(format!("picture-{n}.png"))).unwrap();
        }
        windows(&dir.path().join("home"));
        Self {
            about,
            dir,
            server: server(),
            id: None,
            model: 0,
            given: Vec::new(),
            read: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// The same models at another address.
    pub(crate) fn next_server(&mut self) {
        self.nothing_was_refused();
        self.server = server();
    }

    fn nothing_was_refused(&mut self) {
        let requests = self.server.requests();
        for request in &requests {
            assert_eq!(request.violations, [], "{}", self.about);
            *self.counts.entry("requests").or_default() += 1;
            if request.status != 200 {
                *self.counts.entry("refused for their length").or_default() += 1;
            }
        }
    }

    fn project(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("project")
    }

    fn store(&self) -> FileStore {
        FileStore::new(RealDisk, self.dir.path().join("home"))
    }

    fn name(&self) -> ModelRef {
        let (provider, model) = MODELS[self.model];
        ModelRef::new(provider.as_str(), model)
    }

    fn provider(&self) -> Provider {
        let config = ProviderConfig::new(MODELS[self.model].0, &Credentials::default());
        let (base_url, key) = (Some(self.server.url()), Secret::new("k"));
        Provider::new(ProviderConfig { base_url, key, ..config }).unwrap()
    }

    async fn session(&mut self) -> Session<segno_store::FileLog<RealDisk>> {
        let store = self.store();
        let Some(id) = &self.id else {
            let id = UuidIds.session_id();
            self.id = Some(id.clone());
            return Session::new(store.create(self.header(id)), Arc::new(SystemClock));
        };
        if !store.list().await.unwrap().iter().any(|listed| listed.id == *id) {
            return Session::new(store.create(self.header(id.clone())), Arc::new(SystemClock));
        }
        let judged = store.open(id).await.unwrap().judge().await.unwrap();
        let Judged::Sound(opened) = judged else { panic!("{}: damaged", self.about) };
        self.read.push(opened.active.bytes_read);
        Session::resume(opened, Arc::new(SystemClock))
    }

    fn header(&self, id: SessionId) -> Header {
        let cwd = self.project().display().to_string();
        let project = ProjectFacts { real_path: Some(cwd.clone()), cwd, ..ProjectFacts::default() };
        Header { project, ..Header::new(id, "1") }
    }

    fn tools(&self) -> Toolbox {
        Toolbox::new(ToolboxConfig {
            session: (self.id.as_ref().map(ToString::to_string).unwrap_or_default(), "h".into()),
            cwd: self.project(),
            root: self.project(),
            home: None,
            own: Vec::new(),
            mode: Mode::All,
            rules: Vec::new(),
            hidden_env: Vec::new(),
            supervision: None,
            locks: None,
            servers: None,
            asker: None,
        })
    }

    /// One turn here; when it dies, everything is dropped where it is.
    pub(crate) async fn in_this_process(&mut self, turn: &Turn, _random: &mut Rng) {
        let session = self.session().await;
        let world = World {
            clock: Arc::new(SystemClock),
            sleep: Arc::new(|ms| Box::pin(tokio::time::sleep(Duration::from_millis(ms)))),
            owner: this_process(&SystemClock),
            retry: RetryPolicy::default(),
            limits: Limits::default(),
        };
        let around = Surroundings {
            system: "You work on it.".to_owned(),
            instructions: Vec::new(),
            cwd: self.project().display().to_string(),
            git: None,
            version: "1".to_owned(),
        };
        let mut agent = Agent::new(session, self.tools(), around, world);
        agent.compaction.window = Some(Window { context: WINDOW, output: 1_000 });
        agent.compaction.native = Native::Wherever;
        if turn.model < MODELS.len() && turn.model != self.model {
            self.model = turn.model;
            *self.counts.entry("changes of the model").or_default() += 1;
            let change = ModelChange { model: self.name(), chosen: true, base_url: None };
            agent.session.set_model(change).await.unwrap();
        }
        let (name, provider, stop) = (self.name(), self.provider(), Stop::never());
        let mut observer = ();
        let input = UserMessage::text(&turn.prompt);
        let work = agent.prompt(&provider, &name, input, &stop, &mut observer);
        let ended = lives(work, turn.dies).await;
        if let Some(ended) = &ended {
            let ended = ended.as_ref().unwrap();
            assert_eq!(
                ended.end,
                segno_model::record::RunEnd::Completed,
                "{}: {ended:?} {:?}",
                self.about,
                self.server.violations()
            );
        } else {
            *self.counts.entry("deaths").or_default() += 1;
        }
        self.given.push((turn.prompt.clone(), ended.is_some()));
    }

    /// One turn in a process of its own, which is killed with SIGKILL.
    pub(crate) fn in_a_process(&mut self, turn: &Turn, random: &mut Rng) {
        let (provider, model) = MODELS[self.model];
        let mut command = Command::new(env!("CARGO_BIN_EXE_segno"));
        command
            .args(["run", "--continue", "--permission", "all"])
            .args(["--model", &format!("{provider}/{model}"), "--base-url", &self.server.url()])
            .arg(&turn.prompt)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("SEGNO_HOME", self.dir.path().join("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"] {
            command.env(key, "k");
        }
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.below(200) as u64));
        let ended = child.try_wait().unwrap();
        let failed = ended.filter(|status| !status.success());
        assert!(failed.is_none(), "{}: {failed:?}", self.about);
        if ended.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
            *self.counts.entry("processes killed").or_default() += 1;
        }
        self.given.push((turn.prompt.clone(), ended.is_some_and(|status| status.success())));
    }

    /// Looks at everything.
    pub(crate) async fn judge(mut self, turns: usize) {
        self.nothing_was_refused();
        let id = self.id.clone().unwrap();
        let mut inputs: BTreeMap<String, usize> = BTreeMap::new();
        let (mut compactions, mut states) = (0, 0);
        let mut look = |item| {
            let Scanned::Record(record) = item else { panic!("damage") };
            match record.into_body() {
                Body::Message(message) => {
                    if let Message::User(user) = *message
                        && user.notice.is_none()
                        && let Some(segno_model::record::Block::Text { text }) =
                            user.content.first()
                    {
                        *inputs.entry(text.head().to_owned()).or_default() += 1;
                    }
                }
                Body::Compaction(c) if c.summary.is_some() => {
                    compactions += 1;
                    states += usize::from(c.native.is_some());
                }
                _ => {}
            }
            true
        };
        self.store().scan(&id, &mut look).await.unwrap();
        for (prompt, ended) in &self.given {
            let found = inputs.get(prompt).copied().unwrap_or(0);
            let right = if *ended { found == 1 } else { found <= 1 };
            assert!(right, "{}: `{prompt}` is there {found} times", self.about);
        }
        let session = self.session().await;
        let context = session.context(&self.name());
        let said: Vec<String> = context.messages.iter().map(ContextMessage::text).collect();
        for words in ["Never deploy on Fridays", "4711", "`conf/limits.toml`", "不改公共接口"]
        {
            assert!(said.join("\n").contains(words), "{}: {words} is forgotten", self.about);
        }
        assert!(states >= turns / 600, "{}: only {states} states of providers", self.about);
        *self.counts.entry("states of providers").or_default() = states;
        assert!(compactions >= turns / 60, "{}: only {compactions} compactions", self.about);
        self.reading_stays_flat();
        self.report(compactions);
    }

    /// The last openings read no more than early ones did.
    fn reading_stays_flat(&self) {
        let tenth = (self.read.len() / 10).max(1);
        let most = |part: &[u64]| part.iter().copied().max().unwrap_or(0);
        let early = most(&self.read[..(5 * tenth).min(self.read.len())]);
        let late = most(&self.read[self.read.len() - tenth..]);
        assert!(late <= 2 * early, "{}: {late} bytes after {early}", self.about);
    }

    #[expect(clippy::print_stderr, reason = "a long test tells what it did")]
    fn report(&self, compactions: usize) {
        let tenth = (self.read.len() / 10).max(1);
        let parts =
            self.read.chunks(tenth).map(|part| part.iter().sum::<u64>() / part.len() as u64);
        let parts: Vec<String> = parts.map(|bytes| bytes.to_string()).collect();
        let counts = &self.counts;
        eprintln!(
            "{}: {compactions} compactions, {counts:?}; bytes read by an opening, by tenths: {}",
            self.about,
            parts.join(" ")
        );
    }
}

/// Tells processes what the models can take.
fn windows(home: &Path) {
    std::fs::create_dir_all(home).unwrap();
    let model = |(provider, model): &(ProviderId, &str)| {
        format!("[models.\"{provider}/{model}\"]\ncontext = {WINDOW}\noutput = 1000\n")
    };
    let config: String = MODELS.iter().map(model).collect();
    let config = format!("[compaction]\nnative = true\n{config}");
    std::fs::write(home.join("config.toml"), config).unwrap();
}

fn server() -> ScriptedModel {
    ScriptedModel::start(&format!("window {WINDOW}\n{SCRIPT}")).unwrap()
}

/// Runs work to its end, or drops it after so many steps, as a dying process does.
async fn lives<T>(work: impl Future<Output = T>, steps: Option<usize>) -> Option<T> {
    let mut work = pin!(work);
    let mut left = steps;
    std::future::poll_fn(move |context| {
        if left == Some(0) {
            return Poll::Ready(None);
        }
        left = left.map(|left| left - 1);
        work.as_mut().poll(context).map(Some)
    })
    .await
}
