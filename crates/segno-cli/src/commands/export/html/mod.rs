//! A session as one HTML page.
//!
//! Responsible for: the page's frame, its policy, and the order of what is in it. Must not: name anything that
//! a browser would fetch, or put stored text anywhere but between tags, escaped (G17).
//!
//! The page holds everything. Its policy lets nothing run or apply but the one script and the one style sheet
//! whose hashes it names, and no image but those in the page.

mod highlight;
mod record;
mod text;

use super::subject::{Broken, Head, Part, Subject, Told};
use crate::secrets::Masker;
use crate::terminal::table::{count, plural};
use base64::Engine as _;
use record::{FilesRead, Writer};
use segno_model::Timestamp;
use segno_model::finding::Severity;
use sha2::{Digest as _, Sha256};
use std::io::{self, Write};
use text::{escape, line};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page that is being written.
pub(super) struct Page<'a> {
    out: &'a mut dyn Write,
    masker: &'a mut Masker,
}

impl<'a> Page<'a> {
    /// Begins it; the first session gives it its title.
    pub(super) fn begin(
        out: &'a mut dyn Write,
        masker: &'a mut Masker,
        head: &Head,
    ) -> io::Result<Self> {
        let title = line(&masker.shown(&short(&head.title)));
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{BAR}<main>\n",
            policy()
        )?;
        Ok(Self { out, masker })
    }

    /// One session. `place` is its name in the page and `parents` that of the session that it belongs to, where
    /// that is in the page; `children` are the ids and places of its subagents' sessions, which follow.
    pub(super) fn session(
        &mut self,
        subject: &Subject,
        (place, parents): (&str, Option<&str>),
        children: &[(String, String)],
    ) -> Result<(), Broken> {
        let head = &subject.head;
        writeln!(self.out, "<section id=\"{place}\">")?;
        self.head(head, (place, parents), children)?;
        let (out, masker) = (&mut *self.out, &mut *self.masker);
        let mut damages = 0;
        let files_read = &mut FilesRead::new();
        subject.each(&mut |part| match part {
            Part::Record(told) => {
                let article = Writer { subject, masker, children, files_read }.article(&told);
                article.map_or(Ok(()), |article| article_to(out, &article, &told, place))
            }
            Part::Finding(finding) => {
                let (class, name) = match finding.severity {
                    Severity::Damage => {
                        damages += 1;
                        ("finding damage", format!(" id=\"{place}-damage-{damages}\""))
                    }
                    Severity::Warning => ("finding warning", String::new()),
                    Severity::Note => ("finding note", String::new()),
                };
                let told = line(&masker.shown(&record::finding(finding)));
                writeln!(out, "<aside class=\"{class}\"{name}><b>{}</b> {told}</aside>", line(finding.code))
            }
            Part::Waiting(prompt) => {
                let text = record::folded(&masker.shown(prompt));
                writeln!(out, "<article class=\"user\"><header><b>waits, was never delivered</b></header>{text}</article>")
            }
        })?;
        writeln!(self.out, "</section>")?;
        Ok(())
    }

    /// A session that cannot be read.
    pub(super) fn unreadable(&mut self, place: &str, why: &str) -> io::Result<()> {
        let why = line(&self.masker.shown(why));
        writeln!(
            self.out,
            "<section id=\"{place}\"><aside class=\"finding damage\">{why}</aside></section>"
        )
    }

    fn head(
        &mut self,
        head: &Head,
        (place, parents): (&str, Option<&str>),
        children: &[(String, String)],
    ) -> io::Result<()> {
        let title = line(&self.masker.shown(&short(&head.title)));
        let role = head.role.as_deref().map(|role| format!("{}: ", line(&self.masker.shown(role))));
        let level = if place == "s0" { "h1" } else { "h2" };
        writeln!(
            self.out,
            "<div class=\"head\"><{level}>{}{title}</{level}>",
            role.unwrap_or_default()
        )?;
        if head.damages > 0 {
            let are = if head.damages == 1 { "place is" } else { "places are" };
            writeln!(
                self.out,
                "<p class=\"alarm\"><a href=\"#{place}-damage-1\">{} {are} damaged</a>; what could be read is here</p>",
                head.damages
            )?;
        }
        writeln!(self.out, "<dl>")?;
        for (name, value) in facts(head) {
            let value = line(&self.masker.shown(&value));
            let value = match parents.filter(|_| name == PARENT) {
                Some(parents) => format!("<a href=\"#{parents}\">{value}</a>"),
                None => value,
            };
            writeln!(self.out, "<dt>{name}</dt><dd>{value}</dd>")?;
        }
        writeln!(self.out, "</dl>")?;
        if !children.is_empty() {
            writeln!(self.out, "<p>{}:", plural(children.len(), "subagent"))?;
            for (id, place) in children {
                writeln!(self.out, " <a href=\"#{place}\">{}</a>", line(&self.masker.shown(id)))?;
            }
            writeln!(self.out, "</p>")?;
        }
        writeln!(self.out, "</div>")
    }

    /// Ends it.
    pub(super) fn end(self) -> io::Result<()> {
        write!(self.out, "</main>\n<script>{SCRIPT}</script>\n</body>\n</html>\n")?;
        self.out.flush()
    }
}

/// The tools of the page; hidden until the script runs that gives them a meaning.
const BAR: &str = "<nav id=\"bar\" hidden>\
<input id=\"find\" type=\"search\" placeholder=\"Search\" aria-label=\"Search\" autocomplete=\"off\">\
<span id=\"found\" role=\"status\"></span>\
<button id=\"prev\" type=\"button\" aria-label=\"Previous match\">↑</button>\
<button id=\"next\" type=\"button\" aria-label=\"Next match\">↓</button>\
<label><input type=\"checkbox\" data-hides=\"tools\" checked> tools</label>\
<label><input type=\"checkbox\" data-hides=\"think\" checked> thinking</label>\
<label><input type=\"checkbox\" data-hides=\"off\" checked> other branches</label>\
<button id=\"unfold\" type=\"button\">Unfold all</button>\
<button id=\"theme\" type=\"button\">Theme</button></nav>\n";

fn article_to(
    out: &mut dyn Write,
    article: &record::Article,
    told: &Told<'_>,
    place: &str,
) -> io::Result<()> {
    let seq = told.record.seq();
    let id = if place == "s0" { format!("r{seq}") } else { format!("{place}-r{seq}") };
    if let Some(behind) = told.behind {
        writeln!(out, "<aside class=\"turn\">goes on behind #{behind}: another branch</aside>")?;
    }
    let off = if told.current { "" } else { " off" };
    let at = told.at.map(|at| format!("<time>{}</time>", when(at))).unwrap_or_default();
    write!(
        out,
        "<article id=\"{id}\" class=\"{}{off}\"><header><a href=\"#{id}\">#{seq}</a> <b>{}</b>{at}</header>{}",
        article.class, article.who, article.body
    )?;
    if let Some(fate) = told.fate {
        write!(out, "<p class=\"fate\">{fate}</p>")?;
    }
    writeln!(out, "</article>")
}

/// Date and time of day, to the second.
fn when(at: Timestamp) -> String {
    let text = at.to_string();
    let short = text.get(..19).unwrap_or(&text).replace('T', " ");
    escape(&short)
}

fn short(title: &str) -> String {
    title.lines().find(|line| !line.trim().is_empty()).unwrap_or("Session").to_owned()
}

/// The name of the fact that leads back.
const PARENT: &str = "subagent of";

/// What is known, as names and values.
fn facts(head: &Head) -> Vec<(&'static str, String)> {
    let usage = &head.sum.usage;
    let mut facts = vec![("session", head.word.clone()), ("agent", head.agent.clone())];
    let mut add = |name, value: Option<String>| {
        facts.extend(value.filter(|value| !value.is_empty()).map(|value| (name, value)));
    };
    add("directory", Some(head.cwd.clone()));
    add("original", head.gone.clone());
    add("branch", head.branch.clone());
    add(PARENT, head.parent.clone());
    add("forked from", head.forked.clone());
    add("began", head.created.map(when));
    add("last message", head.last.map(when));
    add("model", Some(head.models.join(", ")));
    add("messages", Some(head.messages.to_string()));
    if head.sum.responses > 0 {
        let read = usage.cache_read + usage.cache_write;
        let cached = if read > 0 { format!(", {} cached", count(read)) } else { String::new() };
        let tokens = format!("{} in, {} out{cached}", count(usage.input), count(usage.output));
        add("tokens", Some(tokens));
        add("cost in US$", Some(head.sum.money()));
    }
    facts
}

/// What the page may do: apply its own style sheet, run its own script, show the images in it.
fn policy() -> String {
    let hash = |text: &str| base64::prelude::BASE64_STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; \
         base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}
