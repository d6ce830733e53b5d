//! Stored text as HTML that does nothing (G17).
//!
//! Responsible for: escaping, Markdown without raw HTML and without addresses that run or fetch anything, and
//! images of checked kinds. Must not: let a byte of stored text through that is not escaped.

use super::highlight;
use crate::terminal::clean;
use base64::Engine as _;
use pulldown_cmark::{CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd, html};

/// Text that stands between tags or in a quoted attribute. Characters that hide or reorder text are left
/// out, as in the terminal.
pub(super) fn escape(text: &str) -> String {
    let text = clean::block(text);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Text of one line.
pub(super) fn line(text: &str) -> String {
    escape(&clean::line(text))
}

/// Markdown. Raw HTML in it is shown as what it is: text.
pub(super) fn markdown(text: &str) -> String {
    let text = clean::block(text);
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut harmless = Harmless::default();
    let events = Parser::new_ext(&text, options).filter_map(|event| harmless.event(event));
    let mut out = String::with_capacity(text.len() * 2);
    html::push_html(&mut out, events);
    out
}

/// Makes the events of a Markdown text harmless, one after the other.
#[derive(Debug, Default)]
struct Harmless {
    /// The language of the block of code that is open, and its text so far.
    code: Option<(String, String)>,
    /// For each link or image that is open, whether it stays one.
    links: Vec<bool>,
}

impl Harmless {
    fn event<'a>(&mut self, event: Event<'a>) -> Option<Event<'a>> {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
                None
            }
            Event::End(TagEnd::CodeBlock) => {
                let (language, code) = self.code.take().unwrap_or_default();
                Some(Event::Html(block(&code, &language).into()))
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                if let Some((_, code)) = &mut self.code {
                    code.push_str(&text);
                    return None;
                }
                Some(Event::Text(text))
            }
            Event::Start(Tag::HtmlBlock) => Some(Event::Start(Tag::Paragraph)),
            Event::End(TagEnd::HtmlBlock) => Some(Event::End(TagEnd::Paragraph)),
            // Nothing is fetched: an image of the network becomes a link to it.
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let stays = is_harmless(&dest_url);
                self.links.push(stays);
                stays.then(|| link(dest_url))
            }
            Event::End(TagEnd::Link | TagEnd::Image) => {
                self.links.pop().unwrap_or(false).then_some(Event::End(TagEnd::Link))
            }
            other => Some(other),
        }
    }
}

fn link(dest_url: CowStr<'_>) -> Event<'_> {
    let (title, id) = (CowStr::Borrowed(""), CowStr::Borrowed(""));
    Event::Start(Tag::Link { link_type: LinkType::Inline, dest_url, title, id })
}

/// Addresses that a click opens in a browser or in the mail, and nothing else.
fn is_harmless(address: &str) -> bool {
    let address = address.trim().to_ascii_lowercase();
    ["http://", "https://", "mailto:"].iter().any(|scheme| address.starts_with(scheme))
}

/// Code or output in a box, coloured where its language is known.
pub(super) fn block(code: &str, language: &str) -> String {
    let code = clean::block(code);
    let code = code.strip_suffix('\n').unwrap_or(&code);
    format!("<pre><code>{}</code></pre>\n", highlight::colour(code, language))
}

/// An image as an address that holds it, if its bytes are one of the kinds that every browser shows and
/// none runs.
pub(super) fn image(bytes: &[u8]) -> Option<String> {
    let kind = match bytes {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => "png",
        [0xFF, 0xD8, 0xFF, ..] => "jpeg",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "webp",
        _ => return None,
    };
    let data = base64::prelude::BASE64_STANDARD.encode(bytes);
    Some(format!("<img alt=\"an image\" loading=\"lazy\" src=\"data:image/{kind};base64,{data}\">"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored text that tries to become something else than text. Covers: G17.
    #[test]
    fn markdown_lets_nothing_run() {
        let cases = [
            ("<script>alert(1)</script>", "<script"),
            ("a <img src=x onerror=alert(1)> b", "<img"),
            ("[x](javascript:alert(1))", "javascript:alert(1)\""),
            ("[x](JaVaScRiPt:alert(1))", "href"),
            ("[x](data:text/html,<script>1</script>)", "href"),
            ("[x]( vbscript:1 )", "href"),
            ("![x](https://h.invalid/a.png)", "<img"),
            ("<javascript:alert(1)>", "href"),
            ("<a href=\"javascript:1\">x</a>", "<a href"),
            ("```\"><script>\n</code></pre><script>1</script>\n```", "<script"),
            ("[x](https://h.invalid/\"onclick=1)", "\"onclick"),
            ("[x](https://h.invalid 'a\" onclick=\"1')", "onclick"),
            ("<!-- --><style>*{}</style>", "<style"),
            ("| a |\n|---|\n| <b onclick=1>x</b> |", "<b "),
            ("\u{202e}abc\u{1b}[2J", "\u{202e}"),
        ];
        for (text, forbidden) in cases {
            let html = markdown(text);
            assert!(!html.contains(forbidden), "{text} became {html}");
        }
    }

    #[test]
    fn markdown_is_rendered() {
        let cases = [
            ("# a\n\n**b** `c<d`", "<h1>a</h1>\n<p><strong>b</strong> <code>c&lt;d</code></p>\n"),
            (
                "[x](https://h.invalid/?a&b)",
                "<p><a href=\"https://h.invalid/?a&amp;b\">x</a></p>\n",
            ),
            ("![x](https://h.invalid/a.png)", "<p><a href=\"https://h.invalid/a.png\">x</a></p>\n"),
            ("[x](javascript:1)", "<p>x</p>\n"),
            ("```\na < b\n```", "<pre><code>a &lt; b</code></pre>\n"),
            ("a\n<b>c</b>", "<p>a\n&lt;b&gt;c&lt;/b&gt;</p>\n"),
            ("~~x~~", "<p><del>x</del></p>\n"),
        ];
        for (text, expected) in cases {
            assert_eq!(markdown(text), expected, "{text}");
        }
    }

    /// Covers: G17.
    #[test]
    fn only_images_become_images() {
        let png = [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, 0];
        assert!(
            image(&png).is_some_and(|html| html.contains("data:image/png;base64,iVBORw0KGgoA"))
        );
        for other in [&b"<svg onload=alert(1)>"[..], b"", b"<html>", &png[..4]] {
            assert_eq!(image(other), None);
        }
    }
}
