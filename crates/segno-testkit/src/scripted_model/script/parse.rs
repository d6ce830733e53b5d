//! The text of a script.
//!
//! Responsible for: turning lines into rules, with errors that name the line. Must not: guess; what
//! is not understood is an error.

use super::line::Line;
use super::{
    Auth, BUILT_IN, Capture, Compare, Condition, Count, Names, Rule, Script, ScriptError, Settings,
    Subject, Template, Test, Until,
};
use crate::scripted_model::reply::{Answer, Fault, Part, Reply, Stop};
use crate::scripted_model::seen::Wire;
use serde_json::Value;

pub(super) fn script(text: &str) -> Result<Script, ScriptError> {
    let mut settings = Settings::default();
    let mut rules: Vec<Rule> = Vec::new();
    let mut draft: Option<Draft> = None;
    for (index, text) in text.lines().enumerate() {
        let mut line = Line::new(index + 1, text);
        if line.is_empty() {
            continue;
        }
        let word = line.word();
        if matches!(word, "rule" | "otherwise") {
            rules.extend(draft.take().map(Draft::finish).transpose()?);
            draft = Some(Draft::open(word, index + 1, &mut line, &rules)?);
        } else if let Some(draft) = &mut draft {
            draft.statement(word, &mut line)?;
        } else {
            setting(word, &mut line, &mut settings)?;
        }
    }
    rules.extend(draft.take().map(Draft::finish).transpose()?);
    if rules.is_empty() {
        return Err(ScriptError { line: 1, message: "a script needs at least one rule".into() });
    }
    Ok(Script { settings, rules })
}

fn setting(word: &str, line: &mut Line<'_>, settings: &mut Settings) -> Result<(), ScriptError> {
    match word {
        "strict" => {
            line.expect("prefix")?;
            settings.strict_prefix = true;
        }
        "lenient" => settings.lenient = true,
        "auth" => {
            settings.auth = match line.word() {
                "required" => Auth::Required,
                "off" => Auth::Off,
                "refuse" => Auth::Refuse,
                other => {
                    let message = format!("`auth` is required, off or refuse, not `{other}`");
                    return Err(line.error(message));
                }
            };
        }
        "window" => settings.window = Some(line.number()?),
        "max-bytes" => settings.max_bytes = line.count()?,
        "models" => {
            settings.models = line.remainder().split_whitespace().map(str::to_owned).collect();
            if settings.models.is_empty() {
                return Err(line.error("`models` names at least one model"));
            }
        }
        other => {
            let message = format!("`{other}` is neither a setting nor inside a rule");
            return Err(line.error(message));
        }
    }
    line.end()
}

/// A rule that is being read.
struct Draft {
    line: usize,
    rule: Rule,
    reply: Reply,
    fixed: Option<Answer>,
    names: Vec<String>,
}

impl Draft {
    fn open(
        word: &str,
        number: usize,
        line: &mut Line<'_>,
        before: &[Rule],
    ) -> Result<Self, ScriptError> {
        let name = match (word, line.remainder()) {
            ("otherwise", "") => "otherwise".to_owned(),
            ("otherwise", _) => return Err(line.error("`otherwise` stands alone on its line")),
            (_, "") => return Err(line.error("a rule needs a name")),
            (_, name) => name.to_owned(),
        };
        if before.iter().any(|rule| rule.name == "otherwise") {
            return Err(line.error("nothing can follow `otherwise`"));
        }
        if before.iter().any(|rule| rule.name == name) {
            return Err(line.error(format!("there is a rule `{name}` already")));
        }
        Ok(Self {
            line: number,
            rule: Rule {
                name,
                conditions: Vec::new(),
                limit: None,
                new_prefix: false,
                answer: Template::Fixed(Answer::TooLong),
            },
            reply: Reply::default(),
            fixed: None,
            names: BUILT_IN.iter().map(ToString::to_string).collect(),
        })
    }

    fn finish(mut self) -> Result<Rule, ScriptError> {
        let replies = self.reply != Reply::default();
        self.rule.answer = match (self.fixed, replies) {
            (None, true) => Template::Reply(self.reply),
            (Some(answer), false) => Template::Fixed(answer),
            (None, false) => {
                let message = format!("rule `{}` says nothing", self.rule.name);
                return Err(ScriptError { line: self.line, message });
            }
            (Some(_), true) => {
                let message = format!("rule `{}` both replies and refuses", self.rule.name);
                return Err(ScriptError { line: self.line, message });
            }
        };
        Ok(self.rule)
    }

    fn statement(&mut self, word: &str, line: &mut Line<'_>) -> Result<(), ScriptError> {
        match word {
            "when" if self.rule.name == "otherwise" => {
                return Err(line.error("`otherwise` has no conditions"));
            }
            "when" => self.condition(line)?,
            "once" => self.rule.limit = Some(1),
            "times" => self.rule.limit = Some(line.count()?),
            "new-prefix" => self.rule.new_prefix = true,
            "say" => self.say(line)?,
            "think" => {
                let redacted = line.take("hidden");
                let text = self.text(line)?;
                self.reply.parts.push(Part::Thinking { text, redacted });
            }
            "call" => self.call(line)?,
            "usage" => self.usage(line)?,
            "stop" => self.reply.stop = Some(stop(line)?),
            "fault" => self.reply.faults.push(fault(line)?),
            "status" => self.fixed = Some(status(line)?),
            "too-long" => self.fixed = Some(Answer::TooLong),
            other => return Err(line.error(format!("`{other}` is not a statement of a rule"))),
        }
        line.end()
    }

    fn condition(&mut self, line: &mut Line<'_>) -> Result<(), ScriptError> {
        let condition = match line.word() {
            "user" => self.text_condition(Subject::User, line)?,
            "prompt" => self.text_condition(Subject::Prompt, line)?,
            "result" => self.text_condition(Subject::Result, line)?,
            "results" => self.text_condition(Subject::Results, line)?,
            "history" => self.text_condition(Subject::History, line)?,
            "system" => self.text_condition(Subject::System, line)?,
            "model" => self.text_condition(Subject::Model, line)?,
            "turns" => count(Count::Turns, line)?,
            "replies" => count(Count::Replies, line)?,
            "wire" => {
                let name = line.word();
                let wire = Wire::ALL.into_iter().find(|wire| wire.name() == name);
                Condition::Wire(wire.ok_or_else(|| line.error(format!("no wire `{name}`")))?)
            }
            "tool" => Condition::Tool { name: line.word().to_owned(), offered: true },
            "no" => {
                line.expect("tool")?;
                Condition::Tool { name: line.word().to_owned(), offered: false }
            }
            "compaction" => Condition::Compaction,
            "last" => match line.word() {
                "user" => Condition::Last("user"),
                "results" => Condition::Last("results"),
                other => return Err(line.error(format!("no turn `{other}` can be last"))),
            },
            other => return Err(line.error(format!("nothing is known about `{other}`"))),
        };
        self.rule.conditions.push(condition);
        Ok(())
    }

    fn text_condition(
        &mut self,
        subject: Subject,
        line: &mut Line<'_>,
    ) -> Result<Condition, ScriptError> {
        let test = match line.word() {
            "contains" => Test::Contains,
            "lacks" => Test::Lacks,
            "is" => Test::Is,
            "line" => Test::Line,
            other => {
                let message = format!("expected contains, lacks, is or line, not `{other}`");
                return Err(line.error(message));
            }
        };
        let literal = line.string()?;
        if literal.is_empty() {
            return Err(line.error("an empty text matches nothing in particular"));
        }
        let mut captures = Vec::new();
        while line.take("capture") {
            if matches!(test, Test::Lacks | Test::Is) {
                return Err(line.error("only `contains` and `line` can capture"));
            }
            captures.push(self.capture(line)?);
        }
        Ok(Condition::Text { subject, test, literal, captures })
    }

    fn capture(&mut self, line: &mut Line<'_>) -> Result<Capture, ScriptError> {
        let name = line.word().to_owned();
        if !is_name(&name) || self.names.contains(&name) {
            return Err(line.error(format!("`{name}` cannot be the name of a capture")));
        }
        line.expect("until")?;
        let until = if line.at_string() {
            let text = line.string()?;
            if text.is_empty() {
                return Err(line.error("a capture cannot end at an empty text"));
            }
            Until::Text(text)
        } else {
            match line.word() {
                "space" => Until::Space,
                "line" => Until::Line,
                "end" => Until::End,
                other => return Err(line.error(format!("cannot capture until `{other}`"))),
            }
        };
        self.names.push(name.clone());
        Ok(Capture { name, until })
    }

    /// Lines of text in a row are one text.
    fn say(&mut self, line: &mut Line<'_>) -> Result<(), ScriptError> {
        let text = self.text(line)?;
        if let Some(Part::Text(before)) = self.reply.parts.last_mut() {
            before.push('\n');
            before.push_str(&text);
        } else {
            self.reply.parts.push(Part::Text(text));
        }
        Ok(())
    }

    fn text(&self, line: &mut Line<'_>) -> Result<String, ScriptError> {
        let text = line.string()?;
        check_names(&text, &self.names).map_err(|message| line.error(message))?;
        Ok(text)
    }

    fn call(&mut self, line: &mut Line<'_>) -> Result<(), ScriptError> {
        let name = line.word().to_owned();
        if name.is_empty() {
            return Err(line.error("`call` names a tool"));
        }
        let arguments = if line.take("raw") {
            line.string()?
        } else {
            let value = line.json()?;
            if !value.is_object() {
                return Err(line.error("the arguments of a call are a JSON object"));
            }
            check_strings(&value, &self.names).map_err(|message| line.error(message))?;
            value.to_string()
        };
        let id = if line.take("id") { Some(line.string()?) } else { None };
        self.reply.parts.push(Part::Call { id, name, arguments });
        Ok(())
    }

    fn usage(&mut self, line: &mut Line<'_>) -> Result<(), ScriptError> {
        while !line.is_empty() {
            let usage = &mut self.reply.usage;
            let field = match line.word() {
                "input" => &mut usage.input,
                "output" => &mut usage.output,
                "cache-read" => &mut usage.cache_read,
                "cache-write" => &mut usage.cache_write,
                "reasoning" => &mut usage.reasoning,
                other => return Err(line.error(format!("`{other}` is no token number"))),
            };
            *field = Some(line.number()?);
        }
        Ok(())
    }
}

fn count(what: Count, line: &mut Line<'_>) -> Result<Condition, ScriptError> {
    let compare = if line.take("at") {
        match line.word() {
            "least" => Compare::AtLeast,
            "most" => Compare::AtMost,
            other => return Err(line.error(format!("expected least or most, not `{other}`"))),
        }
    } else {
        Compare::Exactly
    };
    Ok(Condition::Count { what, compare, number: line.count()? })
}

fn stop(line: &mut Line<'_>) -> Result<Stop, ScriptError> {
    match line.word() {
        "end" => Ok(Stop::End),
        "tools" => Ok(Stop::Tools),
        "length" => Ok(Stop::Length),
        "refusal" => Ok(Stop::Refusal),
        other => Err(line.error(format!("`{other}` is no reason to stop"))),
    }
}

fn status(line: &mut Line<'_>) -> Result<Answer, ScriptError> {
    let code = line.number()?;
    let code = u16::try_from(code).ok().filter(|code| (400..600).contains(code));
    let code = code.ok_or_else(|| line.error("a status is between 400 and 599"))?;
    let retry_after_s = if line.take("retry-after") { Some(line.number()?) } else { None };
    let message = if line.at_string() { Some(line.string()?) } else { None };
    Ok(Answer::Status { code, retry_after_s, message })
}

fn fault(line: &mut Line<'_>) -> Result<Fault, ScriptError> {
    Ok(match line.word() {
        "delay" => Fault::Delay(line.duration()?),
        "pace" => Fault::Pace(line.duration()?),
        "pieces" => match line.count()? {
            0 => return Err(line.error("pieces have at least one byte")),
            size => Fault::Pieces(size),
        },
        "drop" => Fault::Drop(after(line)?.unwrap_or(1)),
        "hang" => Fault::Hang(after(line)?),
        "malformed" => {
            line.expect("chunk")?;
            Fault::Malformed(after(line)?.unwrap_or(1))
        }
        "error" => {
            line.expect("event")?;
            let overloaded = match line.word() {
                "overloaded" => true,
                "internal" => false,
                other => return Err(line.error(format!("no error event `{other}`"))),
            };
            Fault::ErrorEvent { overloaded, after: after(line)?.unwrap_or(1) }
        }
        "cut" => {
            line.expect("mid-character")?;
            Fault::CutMidCharacter
        }
        other => return Err(line.error(format!("no fault `{other}`"))),
    })
}

/// `after N events`, if it is there.
fn after(line: &mut Line<'_>) -> Result<Option<usize>, ScriptError> {
    if !line.take("after") {
        return Ok(None);
    }
    let number = line.count()?;
    if !line.take("event") {
        line.expect("events")?;
    }
    Ok(Some(number))
}

fn is_name(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(legal)
}

fn check_strings(value: &Value, names: &[String]) -> Result<(), String> {
    match value {
        Value::String(text) => check_names(text, names),
        Value::Array(items) => items.iter().try_for_each(|item| check_strings(item, names)),
        Value::Object(map) => map.values().try_for_each(|item| check_strings(item, names)),
        _ => Ok(()),
    }
}

fn check_names(text: &str, names: &[String]) -> Result<(), String> {
    pieces(text)?.into_iter().try_for_each(|piece| match piece {
        Piece::Name(name) if !names.iter().any(|known| known == name) => {
            Err(format!("nothing is captured as `{name}` (write `{{{{` for a brace)"))
        }
        _ => Ok(()),
    })
}

/// A piece of a text with names.
enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Cuts `a {name} b` apart; doubled braces stand for themselves.
fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        out.push(Piece::Text(before));
        if brace.starts_with("{{") || brace.starts_with("}}") {
            out.push(Piece::Text(&brace[..1]));
            rest = &brace[2..];
        } else if let Some((name, tail)) =
            brace.strip_prefix('{').and_then(|inner| inner.split_once('}'))
            && is_name(name)
        {
            out.push(Piece::Name(name));
            rest = tail;
        } else {
            return Err("a single brace must enclose a name (double it to mean itself)".into());
        }
    }
    out.push(Piece::Text(rest));
    Ok(out)
}

/// Puts what the names stand for into a text that was checked.
pub(crate) fn fill(text: &str, names: &Names) -> String {
    let Ok(pieces) = pieces(text) else { return text.to_owned() };
    pieces
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Name(name) => names.get(name).map(String::as_str).unwrap_or_default(),
        })
        .collect()
}
