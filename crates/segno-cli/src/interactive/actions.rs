//! What the commands of an interactive session do.
//!
//! Responsible for: one function per command. Must not: send anything to the model, except `/compact`.

use super::opening::Desk;
use super::slash::{self, COMMANDS, Slash};
use super::{After, Interactive, choosing, recent};
use crate::args::{AgentArgs, ContextAction, Thinking};
use crate::commands::context as edits;
use crate::commands::rewind::{self, Told};
use crate::commands::show::branches;
use crate::commands::stats::session_lines;
use crate::costs::SessionCosts;
use crate::engine::{ModelChoice, Wanted};
use crate::error::{CliError, ExitCode};
use crate::history::History;
use crate::terminal::table::{Column, Table, count, plural, size};
use crate::terminal::{Text, Tone, clean};
use segno_agent::permission::Mode;
use segno_agent::provider::{FoundBy, discover};
use segno_agent::rewind::Files;
use segno_model::record::{Body, Message};
use segno_model::store::{Clock as _, ForkPoint, SessionStore as _};
use segno_model::tree::Tree;
use segno_model::{Record, Seq, context};
use segno_store::SystemClock;

/// Models of one provider that are listed.
const MODELS_SHOWN: usize = 30;

impl Interactive<'_> {
    /// Carries out `/name args`; an error is told and nothing else happens.
    pub(super) async fn command(&mut self, name: &str, args: &str) -> After {
        let done = match slash::parse(name, args) {
            Ok(Slash::Quit) => return After::Leave,
            Ok(slash) => self.act(slash).await,
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            error.print(self.screen);
        }
        self.screen.flush();
        After::Stay
    }

    async fn act(&mut self, slash: Slash) -> Result<(), CliError> {
        match slash {
            Slash::Resume(query) => self.resume(query).await,
            Slash::Fork(seq) => self.fork(seq).await,
            Slash::Tree(None) => self.show_tree().await,
            Slash::Tree(Some(seq)) => self.go_to(seq).await,
            Slash::Rewind(seq) => self.rewind(seq).await,
            Slash::Label(seq, label) => self.label(seq, &label).await,
            Slash::Context(action) => self.edit_context(&action).await,
            Slash::Name(name) => self.name(&name).await,
            Slash::Model(None) => self.list_models().await,
            Slash::Model(Some(name)) => self.set_model(name).await,
            Slash::Thinking(level) => self.thinking(level).await,
            Slash::Permission(mode) => self.permission(mode),
            Slash::Compact(focus) => self.compact(focus.as_deref()).await,
            Slash::Inbox => self.list_inbox().await,
            Slash::Deliver(n) => self.deliver(n).await,
            Slash::Withdraw(n) => self.withdraw(n).await,
            Slash::Cost => self.cost(),
            Slash::Session => self.facts().await,
            Slash::New => self.start_anew().await,
            Slash::Help => self.help(),
            Slash::Quit => Ok(()),
        }
    }

    async fn resume(&mut self, query: Option<String>) -> Result<(), CliError> {
        let look = self.screen.look();
        let id = match query {
            Some(query) => Some(self.engine.stores.find(&query, &self.engine.cwd).await?),
            None => choosing::choose(&self.engine, &self.keyboard, &self.signals, look).await?,
        };
        let Some(id) = id else { return Ok(()) };
        if id == *self.agent.session.id() {
            return Err(CliError::usage("That is the session that you are in.")
                .next("/resume without a name shows the others."));
        }
        let before = self.engine.standpoint();
        let arrival = match self.engine.review(&id, false, None).await {
            Ok(_) => {
                let (engine, keyboard) = (&self.engine, &self.keyboard);
                let mut desk = Desk { engine, keyboard, screen: &mut *self.screen };
                desk.take_up(&id, &AgentArgs::default()).await
            }
            Err(error) => Err(error),
        };
        if !matches!(arrival, Ok(Some(_))) {
            self.engine.stand_at(before).await;
        }
        match arrival? {
            Some(arrival) => self.switch(arrival).await,
            None => Ok(()),
        }
    }

    async fn fork(&mut self, seq: Option<Seq>) -> Result<(), CliError> {
        self.needs_something_durable()?;
        let point = seq.map_or(ForkPoint::Whole, ForkPoint::At);
        let (from, header) = (self.agent.session.id().clone(), self.engine.header());
        let copy = self.engine.stores.files.fork(&from, point, header, SystemClock.now()).await?;
        let said = format!("This is a copy of {from}, which stays as it is.");
        self.screen.line(Text::line(Tone::Good, &said));
        let args = self.same_model();
        let mut desk =
            Desk { engine: &self.engine, keyboard: &self.keyboard, screen: &mut *self.screen };
        let arrival = desk.take_up(&copy, &args).await;
        if !matches!(arrival, Ok(Some(_))) {
            let command = format!("{} resume {copy}", self.engine.stores.home.command());
            let said = format!("You are in the original still. The copy is kept: {command}");
            self.screen.line(Text::line(Tone::Warning, &said));
        }
        match arrival? {
            Some(arrival) => self.switch(arrival).await,
            None => Ok(()),
        }
    }

    fn same_model(&self) -> AgentArgs {
        AgentArgs {
            model: Some(self.choice.model.to_string()),
            base_url: self.choice.base_url.clone(),
            ..AgentArgs::default()
        }
    }

    async fn start_anew(&mut self) -> Result<(), CliError> {
        let args = self.same_model();
        let mut desk =
            Desk { engine: &self.engine, keyboard: &self.keyboard, screen: &mut *self.screen };
        let arrival = desk.start(&args).await?;
        if self.agent.session.is_durable() {
            let said = format!("The session before is kept: {}", self.resume_command());
            self.screen.line(Text::line(Tone::Dim, &said));
        }
        self.switch(arrival).await
    }

    /// Everything, also what lies on other branches.
    async fn history(&self) -> Result<History, CliError> {
        self.needs_something_durable()?;
        History::read(&self.engine.stores, self.agent.session.id()).await
    }

    async fn show_tree(&mut self) -> Result<(), CliError> {
        branches(&self.history().await?, self.screen);
        self.screen.line(Text::line(Tone::Dim, "/tree SEQ goes back to a record."));
        Ok(())
    }

    async fn label(&mut self, seq: Seq, label: &str) -> Result<(), CliError> {
        let history = self.history().await?;
        let Some(record) = history.records.iter().find(|r| r.seq() == seq) else {
            return Err(CliError::usage(format!("There is no record {seq} in this session."))
                .next("/tree shows the numbers."));
        };
        self.agent.session.set_label(record.pos(), label).await?;
        let said = match label {
            "" => format!("Record {seq} has no label now."),
            label => format!("Record {seq} is labelled {label}."),
        };
        self.screen.line(Text::line(Tone::Good, &said));
        Ok(())
    }

    /// Moves the tip. A prompt is not gone to but before, and stands on the line to be changed.
    async fn go_to(&mut self, seq: Seq) -> Result<(), CliError> {
        let history = self.history().await?;
        let tree = Tree::new(&history.records);
        let to = tree.back_to(seq).map_err(|_| {
            CliError::usage(format!("There is no node {seq} in this session."))
                .next("/tree shows the numbers.")
        })?;
        let (tip, draft) = (to.map(Record::pos), prompt_of(tree.node(seq)));
        self.agent.session.navigate(tip).await?;
        let place =
            tip.map_or_else(|| "the beginning".to_owned(), |pos| format!("record {}", pos.seq));
        self.screen.line(Text::line(Tone::Good, &format!("Going on from {place}.")));
        if let Some(draft) = draft {
            self.draft = draft;
        } else {
            recent::show(&self.agent.session, self.screen);
        }
        Ok(())
    }

    /// Moves the tip as [`Self::go_to`] does, and brings the files back.
    async fn rewind(&mut self, seq: Seq) -> Result<(), CliError> {
        let history = self.history().await?;
        let plan = rewind::plan(&self.engine, self.agent.session.id(), seq).await?;
        let (here, files) = (self.engine.here(), Files::Bring);
        let (session, tools) = (&mut self.agent.session, &self.agent.tools);
        let fates = segno_agent::rewind::rewind(session, tools, &here, &plan, files).await?;
        Told { plan: &plan, fates: &fates, files, cwd: &self.engine.cwd }.show(self.screen);
        if let Some(draft) = prompt_of(history.record(seq)) {
            self.draft = draft;
        }
        Ok(())
    }

    async fn edit_context(&mut self, action: &ContextAction) -> Result<(), CliError> {
        let Some(edit) = edits::edit(action) else {
            edits::list(&self.history().await?, false, self.screen);
            return Ok(());
        };
        self.needs_something_durable()?;
        let changed = edits::change(&mut self.agent.session, &self.engine.stores, edit).await?;
        self.screen.lines(changed.lines());
        Ok(())
    }

    async fn name(&mut self, name: &str) -> Result<(), CliError> {
        self.agent.session.set_name(name).await?;
        let said = if name.is_empty() {
            "This session has no name now.".to_owned()
        } else {
            format!("This session is called {}.", clean::line(name))
        };
        self.screen.line(Text::line(Tone::Good, &said));
        Ok(())
    }

    async fn list_models(&mut self) -> Result<(), CliError> {
        let stop = self.signals.begin_turn();
        let asked =
            async { tokio::join!(self.model.list_models(), discover(&self.engine.credentials)) };
        let listed = tokio::select! {
            listed = asked => Some(listed),
            _ = stop.stopped() => None,
        };
        self.signals.end_turn();
        let Some((own, found)) = listed else {
            return Err(CliError::new(ExitCode::Stopped, "Stopped.")
                .next("Nothing has changed; do it again when you like."));
        };
        let current = self.choice.model.clone();
        self.screen.line(Text::line(Tone::Good, &format!("* {current}")));
        if let Err(error) = &own {
            let said = format!("{} does not list its models: {error}", current.provider);
            self.screen.line(Text::line(Tone::Warning, &said));
        }
        let ids: Vec<String> = own.into_iter().flatten().map(|model| model.id).collect();
        self.model_lines(&current.provider, &ids);
        for found in found.iter().filter(|found| found.provider.as_str() != current.provider) {
            let provider = found.provider.as_str();
            match &found.by {
                FoundBy::Server { models, .. } => {
                    let ids: Vec<String> = models.iter().map(|model| model.id.clone()).collect();
                    self.model_lines(provider, &ids);
                }
                FoundBy::Key(source) => {
                    let said = format!("  {provider}/…  (key: {source})");
                    self.screen.line(Text::default().with(Tone::Plain, &said));
                }
            }
        }
        self.screen.line(Text::line(Tone::Dim, "/model PROVIDER/ID changes to one."));
        Ok(())
    }

    fn model_lines(&mut self, provider: &str, ids: &[String]) {
        let now = self.choice.model.to_string();
        let names = ids.iter().map(|id| format!("{provider}/{id}")).filter(|name| *name != now);
        for name in names.take(MODELS_SHOWN) {
            self.screen.line(
                Text::default().with(Tone::Plain, "  ").with(Tone::Plain, &clean::line(&name)),
            );
        }
    }

    async fn set_model(&mut self, name: String) -> Result<(), CliError> {
        let provider = name.split('/').next().unwrap_or_default();
        self.addresses.extend(self.choice.address());
        let base_url = self.addresses.get(provider).cloned();
        let args = AgentArgs { model: Some(name), base_url, ..AgentArgs::default() };
        let stored = self.agent.session.state().in_force.clone();
        let wanted = Wanted::decide(&args, Some(&stored), &self.engine.config)?;
        let choice: ModelChoice = wanted.settle(&self.engine.credentials).await?;
        let model = choice.connect(&self.engine.credentials)?;
        self.agent.session.set_model(choice.change()).await?;
        self.screen.line(Text::line(Tone::Good, &format!("The model is {} now.", choice.model)));
        let level = self.agent.session.thinking();
        if let Some(note) = level.and_then(|level| model.thinking_note(&choice.model.id, level)) {
            self.screen.line(Text::line(Tone::Warning, &note));
        }
        (self.choice, self.model) = (choice, model);
        Ok(())
    }

    async fn thinking(&mut self, level: Option<Thinking>) -> Result<(), CliError> {
        if let Some(level) = level {
            self.agent.session.set_thinking(level.as_str()).await?;
        }
        let now = self.agent.session.thinking().unwrap_or("the model's own choice");
        self.screen.line(Text::line(Tone::Good, &format!("Thinking: {now}.")));
        Ok(())
    }

    fn permission(&mut self, mode: Option<Mode>) -> Result<(), CliError> {
        if let Some(mode) = mode {
            self.agent.tools.set_mode(mode);
            self.mode = mode;
        }
        let means = match self.mode {
            Mode::ReadOnly => "nothing but reading runs",
            Mode::Ask => "every change and every command asks",
            Mode::Edits => "changes to this project's files run, commands ask",
            Mode::All => "everything runs without asking",
        };
        let said = format!("Permission: {}: {means}.", self.mode.name());
        self.screen.line(Text::line(Tone::Good, &said));
        Ok(())
    }

    async fn compact(&mut self, focus: Option<&str>) -> Result<(), CliError> {
        self.needs_something_durable()?;
        self.screen.line(Text::line(Tone::Dim, "Summarising; Ctrl-C stops it."));
        self.screen.flush();
        let stop = self.signals.begin_turn();
        let name = &self.choice.model;
        let compacted = self.agent.compact(&self.model, name, focus, &stop, &mut ()).await;
        self.signals.end_turn();
        let compacted = compacted?;
        let said = format!(
            "Compacted: about {} tokens before, {} now.",
            count(compacted.tokens_before),
            count(compacted.tokens_after)
        );
        self.screen.line(Text::line(Tone::Good, &said));
        Ok(())
    }

    fn cost(&mut self) -> Result<(), CliError> {
        self.needs_something_durable()?;
        let (stores, prices) = (&self.engine.stores, self.engine.prices());
        let id = self.agent.session.id();
        let lines = session_lines(stores, id, &prices, self.screen.look().columns)?;
        self.screen.lines(lines);
        Ok(())
    }

    async fn facts(&mut self) -> Result<(), CliError> {
        let session = &self.agent.session;
        let now = &session.state().in_force;
        let (totals, usage) = (now.totals, now.totals.usage);
        let at_least = if totals.unknown > 0 { "≥ " } else { "" };
        let records = session.records();
        let (tip, model) = (session.state().tip(), Some(&self.choice.model));
        let tokens = context::estimate_for(&records, tip, model, None).tokens;
        let path = self.engine.stores.files.log_path(session.id()).ok();
        let said = path.as_ref().map_or_else(
            || "nothing yet; it is written with the first prompt".to_owned(),
            |path| path.display().to_string(),
        );
        let bytes = path.and_then(|path| std::fs::metadata(path).ok()).map_or(0, |meta| meta.len());
        let mut rows = vec![
            ("id", session.id().to_string()),
            ("name", now.name.clone().unwrap_or_else(|| "-".to_owned())),
            ("log", said),
            ("size", size(bytes)),
            ("directory", self.engine.cwd.display().to_string()),
            ("model", self.choice.model.to_string()),
            ("thinking", session.thinking().unwrap_or("-").to_owned()),
            ("permission", self.mode.name().to_owned()),
            ("context", format!("about {} tokens", count(tokens))),
            ("cost", self.money()),
            (
                "tokens",
                format!(
                    "{at_least}{} in, {at_least}{} out, {at_least}{} from the cache",
                    count(usage.input),
                    count(usage.output),
                    count(usage.cache_read)
                ),
            ),
            (
                "counts",
                format!(
                    "{}, {} replies, {} results, {} requests, {} compactions",
                    plural(usize::try_from(totals.user_messages).unwrap_or(usize::MAX), "prompt"),
                    totals.assistant_messages,
                    totals.tool_results,
                    totals.requests,
                    totals.compactions
                ),
            ),
        ];
        rows.extend(session.findings().iter().map(|f| ("finding", f.sentence.clone())));
        for (name, value) in rows {
            let value = clean::line(&value);
            self.screen.line(
                Text::default().with(Tone::Dim, &format!("{name:<11}")).with(Tone::Plain, &value),
            );
        }
        Ok(())
    }

    fn money(&self) -> String {
        let stores = &self.engine.stores;
        let costs = SessionCosts::read(stores, self.agent.session.id()).unwrap_or_default();
        let money = costs.total(stores, &self.engine.prices()).money();
        if money.ends_with(|c: char| c.is_ascii_digit()) {
            format!("{money} US dollars")
        } else {
            money
        }
    }

    fn help(&mut self) -> Result<(), CliError> {
        let columns = vec![Column::left("COMMAND"), Column::left("WHAT IT DOES").shrinks_to(10)];
        let mut table = Table::new(columns);
        for (name, args, about) in COMMANDS {
            let command = format!("/{name} {args}");
            table.row([Text::line(Tone::Accent, command.trim()), Text::line(Tone::Plain, about)]);
        }
        for (keys, about) in [
            ("@FILE", "attach a file"),
            ("!COMMAND", "run a command of yours; its output goes along with your next prompt"),
            ("\\ Enter", "a new line (also Alt-Enter)"),
            ("Ctrl-C", "stop the turn; twice leaves"),
            ("Ctrl-D", "leave"),
        ] {
            table.row([Text::line(Tone::Accent, keys), Text::line(Tone::Plain, about)]);
        }
        self.screen.lines(table.lines(self.screen.look().columns));
        Ok(())
    }

    fn needs_something_durable(&self) -> Result<(), CliError> {
        if self.agent.session.is_durable() {
            return Ok(());
        }
        Err(CliError::failed("Nothing was said in this session yet.")
            .next("Say something first; then it is on disk."))
    }
}

/// What a person said in a record, to be changed and said again.
fn prompt_of(record: Option<&Record>) -> Option<String> {
    match record?.body() {
        Body::Message(message) => match &**message {
            Message::User(user) if user.notice.is_none() => Some(recent::prompt_text(user)),
            _ => None,
        },
        _ => None,
    }
}
