//! Server-sent events out of bytes.
//!
//! Responsible for: events from any chunking of the stream, all three line endings, comments, data
//! over several lines, a byte order mark. Must not: know what an event's data means.

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The `event:` field, if any.
    pub(crate) name: String,
    /// The `data:` lines, joined by line feeds.
    pub(crate) data: String,
}

/// Collects bytes into events.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    line: Vec<u8>,
    pending: Option<Event>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_cr: bool,
    /// The first line was seen, so that no byte order mark can follow.
    started: bool,
}

impl Lines {
    /// Takes more bytes; gives the events that they complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ => self.line.push(byte),
            }
        }
        events
    }

    /// The stream ended. Some servers leave out the last blank line, so what was collected counts;
    /// if it was cut, its data does not parse.
    pub(crate) fn finish(&mut self) -> Option<Event> {
        let dispatched = if self.line.is_empty() { None } else { self.end_line() };
        dispatched.or_else(|| self.pending.take())
    }

    fn end_line(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let first = !std::mem::replace(&mut self.started, true);
        let text = if first { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
        if text.is_empty() {
            return self.pending.take();
        }
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.pending {
                Some(event) if !event.data.is_empty() => {
                    event.data.push('\n');
                    event.data.push_str(value);
                }
                Some(event) => event.data.push_str(value),
                None => self.pending = Some(Event { name: String::new(), data: value.to_owned() }),
            },
            "event" => {
                self.pending.get_or_insert_default().name = value.to_owned();
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(bytes: &[u8], chunk: usize) -> String {
        let mut lines = Lines::default();
        let mut all: Vec<Event> = bytes.chunks(chunk).flat_map(|c| lines.feed(c)).collect();
        all.extend(lines.finish());
        all.iter().map(|e| format!("[{}|{}]", e.name, e.data)).collect()
    }

    /// Covers: G10 (the same events for every chunking).
    #[test]
    fn events_are_the_same_for_every_line_ending_and_chunking() {
        let table = [
            ("data: a\n\n", "[|a]"),
            ("data: a\r\n\r\ndata: b\r\rdata: c\n\n", "[|a][|b][|c]"),
            ("event: x\ndata: 1\ndata: 2\n\n", "[x|1\n2]"),
            (": comment\n\ndata:no space\n\n", "[|no space]"),
            ("\u{feff}data: after a mark\n\n", "[|after a mark]"),
            ("id: 7\nretry: 5\nunknown\ndata: é€😀\n\n", "[|é€😀]"),
            (
                "data: \u{2028} and \u{85} do not end a line\n\n",
                "[|\u{2028} and \u{85} do not end a line]",
            ),
            ("data: [DONE]", "[|[DONE]]"),
            ("data: a\n\ndata: b\n", "[|a][|b]"),
            ("\n\n\n", ""),
        ];
        for (text, expected) in table {
            for chunk in 1..=text.len() {
                assert_eq!(
                    events(text.as_bytes(), chunk),
                    expected,
                    "{text:?} in chunks of {chunk}"
                );
            }
        }
    }
}
