//! How large the next request is, what it is made of, and what would be done about it.
//!
//! Responsible for: putting numbers of the model crate into words. Must not: estimate or decide anything.

use crate::config::Config;
use crate::terminal::table::count;
use crate::terminal::{Text, Tone};
use segno_model::SessionId;
use segno_model::compaction::{self, Decision, Measure, Settings, Window};
use segno_model::context::{self, Context, Ledger, Target};
use segno_model::record::ModelRef;
use segno_model::store::Snapshot;
use serde_json::{Value, json};

/// What is known of the next request.
pub(super) struct Outlook {
    /// Its tokens.
    pub(super) tokens: u64,
    /// The reply whose reported usage that starts from.
    measured_at: Option<u64>,
    /// The system prompt, where its size is known.
    system: u64,
    /// The definitions of the tools, where they are known.
    tools: u64,
    ledger: Ledger,
    window: Window,
    measure: Measure,
    settings: Settings,
    label: &'static str,
    next: Decision,
}

impl Outlook {
    pub(super) fn of(
        id: &SessionId,
        snapshot: &Snapshot,
        context: &Context,
        config: &Config,
        target: Option<&Target>,
    ) -> Self {
        let in_force = &snapshot.state.in_force;
        let model = in_force.model.clone().unwrap_or_else(|| ModelRef::new("", ""));
        let environment = in_force.environment.as_ref();
        let system = environment.and_then(|e| e.system.as_ref()).map_or(0, |blob| blob.bytes / 4);
        let tools = environment.map_or(&[][..], |e| &e.tools);
        let tools = tools.iter().map(|tool| tool.bytes.min(u64::from(u32::MAX)) / 4).sum();
        let outlook = compaction::Outlook {
            records: &snapshot.active.records,
            tip: snapshot.state.tip(),
            session: id,
            last: in_force.last_compaction.as_ref(),
            model: &model,
            target,
            fixed: system + tools,
        };
        let (window, settings) = (config.window(&model), config.compaction.settings());
        let context::Estimate { tokens, measured_at } = outlook.estimate();
        let measure = outlook.forecast(settings, window).measure;
        let row = measure.facts(settings.auto).row();
        let (label, next, ledger) = (row.label, row.then, context.ledger(Some(&model)));
        Self { tokens, measured_at, system, tools, ledger, window, measure, settings, label, next }
    }

    /// For people.
    pub(super) fn lines(&self) -> Vec<Text> {
        let Ledger { summary, state, kept, user, replies, results, images } = self.ledger;
        let parts = [
            ("system prompt", self.system),
            ("tools", self.tools),
            ("summary", summary),
            ("state", state),
            ("kept words", kept),
            ("user", user),
            ("replies", replies),
            ("results", results),
            ("images", images),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, tokens)| *tokens > 0)
            .map(|(name, tokens)| format!("{name} {}", count(*tokens)))
            .collect();
        let parts = match parts.as_slice() {
            [] => "guessed by kind: nothing yet".to_owned(),
            parts => format!("guessed by kind: {}", parts.join(", ")),
        };
        let counted = match self.measured_at {
            Some(seq) => format!(
                "counted from what the provider reported for record {seq}, tools included, and what came after"
            ),
            None if self.tools > 0 => {
                "guessed; nothing is reported for this context yet".to_owned()
            }
            None => {
                "guessed; nothing is reported for this context yet, and the tools are not in it"
                    .to_owned()
            }
        };
        let window = format!(
            "window: {} tokens, of which {} are kept free for the reply; made smaller from {} on",
            count(self.window.context),
            count(self.window.output),
            count(self.measure.threshold)
        );
        let next = format!("before the next request: {}", self.next());
        [counted, parts, window, next].iter().map(|line| Text::line(Tone::Dim, line)).collect()
    }

    fn next(&self) -> String {
        match self.next {
            Decision::Nothing if !self.settings.auto => {
                "nothing; making it smaller by itself is switched off".to_owned()
            }
            Decision::Nothing => "nothing".to_owned(),
            Decision::Prune => {
                format!("old outputs are left out, about {} tokens", count(self.measure.freeable))
            }
            Decision::Compact => "what lies back is summarised".to_owned(),
            Decision::GiveUp(why) => format!("nothing, because {}", why.sentence()),
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "measured_at": self.measured_at,
            "parts": {
                "system": self.system,
                "tools": self.tools,
                "summary": self.ledger.summary,
                "state": self.ledger.state,
                "kept": self.ledger.kept,
                "user": self.ledger.user,
                "replies": self.ledger.replies,
                "results": self.ledger.results,
                "images": self.ledger.images,
            },
            "window": self.window.context,
            "output": self.window.output,
            "threshold": self.measure.threshold,
            "freeable": self.measure.freeable,
            "next": self.label,
        })
    }
}
