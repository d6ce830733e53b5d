//! `segno models`: what can be used now, and how to set up one.
//!
//! Responsible for: the list of providers with a key or a server, and their models. Must not: call a
//! model, or fail because one of several providers does.

use crate::args::ModelsArgs;
use crate::config::Config;
use crate::engine::{Engine, default_model};
use crate::error::{CliError, ExitCode};
use crate::home::Home;
use crate::terminal::table::count;
use crate::terminal::{Screen, Text, Tone};
use segno_agent::provider::{Found, FoundBy, ModelInfo, Provider, ProviderConfig, discover};
use segno_model::record::ModelRef;
use serde_json::json;

/// Lists them.
///
/// # Errors
/// When the configuration is unusable. A provider that does not answer is told, not an error.
pub async fn models(
    args: &ModelsArgs,
    home: Home,
    screen: &mut Screen,
) -> Result<ExitCode, CliError> {
    let engine = Engine::load(home).await?;
    let mut rows = Vec::new();
    for found in discover(&engine.credentials).await {
        let listed = list(&engine, &found).await;
        rows.push((found, listed));
    }
    if args.json {
        let providers: Vec<_> = rows.iter().map(|(found, listed)| as_json(found, listed)).collect();
        screen.json(&json!({"version": 1, "providers": providers}));
    } else {
        for (found, listed) in &rows {
            show(found, listed, &engine.config, screen);
        }
        if rows.is_empty() {
            nothing(screen);
        }
        let config = &engine.stores.home.config;
        let there = if config.exists() { "" } else { " (not there yet)" };
        let said = format!("Configuration: {}{there}", config.display());
        screen.line(Text::line(Tone::Dim, &said));
    }
    Ok(ExitCode::Done)
}

async fn list(engine: &Engine, found: &Found) -> Result<Vec<ModelInfo>, String> {
    if let FoundBy::Server { models, .. } = &found.by {
        return Ok(models.clone());
    }
    let config = ProviderConfig::new(found.provider, &engine.credentials);
    let provider = Provider::new(config).map_err(|e| e.to_string())?;
    provider.list_models().await.map_err(|e| e.to_string())
}

fn as_json(found: &Found, listed: &Result<Vec<ModelInfo>, String>) -> serde_json::Value {
    let models: Vec<_> = listed
        .iter()
        .flatten()
        .map(|m| json!({"id": m.id, "name": m.name, "context": m.context}))
        .collect();
    json!({
        "provider": found.provider.as_str(),
        "by": by(found),
        "models": models,
        "error": listed.as_ref().err(),
    })
}

fn by(found: &Found) -> String {
    match &found.by {
        FoundBy::Key(source) => source.to_string(),
        FoundBy::Server { base_url, .. } => base_url.clone(),
    }
}

fn show(
    found: &Found,
    listed: &Result<Vec<ModelInfo>, String>,
    config: &Config,
    screen: &mut Screen,
) {
    screen.line(
        Text::line(Tone::Strong, found.provider.as_str())
            .with(Tone::Dim, "  ")
            .with(Tone::Dim, &by(found)),
    );
    match listed {
        Err(error) => {
            screen.line(Text::line(Tone::Warning, &format!("its models are not known: {error}")));
        }
        Ok(models) => {
            for model in models {
                let id = format!("  {}/{}", found.provider, model.id);
                let default = default_model(found.provider) == Some(model.id.as_str());
                let note = if default { "  (used when none is named)" } else { "" };
                let known = ModelRef::new(found.provider.as_str(), &model.id);
                let window = model.context.unwrap_or_else(|| config.window(&known).context);
                let window = format!("  {} tokens", count(window));
                screen.line(
                    Text::default()
                        .with(Tone::Plain, &id)
                        .with(Tone::Dim, &window)
                        .with(Tone::Dim, note),
                );
            }
        }
    }
}

fn nothing(screen: &mut Screen) {
    for line in [
        "No model was found: no key is set, and no local server answers.",
        "",
        "  ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY in the environment,",
        "  a [keys] table in the configuration file named below (mode 600),",
        "  a running Ollama or any OpenAI-compatible server on this machine,",
        "  or --model PROVIDER/ID with --base-url URL.",
        "",
        "`segno demo` and `segno list` need none.",
        "",
    ] {
        screen.line(Text::default().with(Tone::Plain, line));
    }
}
