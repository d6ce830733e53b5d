//! The envelope as this version writes it, read without going over the rest of the line.
//!
//! Responsible for: the fast way through a line whose checksum matches. Must not: guess; whatever does
//! not look exactly as [`super::encode`] writes it is none, and is read as any JSON.

use super::Envelope;
use crate::id::{Pos, Seq};
use crate::time::Timestamp;

/// The envelope at the beginning of a line and where the body's own members begin, at their comma.
/// `covered` are the bytes before `,"crc"`.
pub(super) fn read(covered: &[u8]) -> Option<(Envelope, usize)> {
    let mut rest = Rest(covered);
    rest.take(b"{\"seq\":")?;
    let seq = rest.number()?;
    let parent = rest.member(b",\"parent\":", Rest::number)?;
    let parent_at = rest.member(b",\"parent_at\":", Rest::position)?;
    rest.take(b",\"at\":\"")?;
    let at = Timestamp::parse(rest.text()?)?;
    rest.take(b",\"type\":\"")?;
    let kind = rest.text()?.to_owned();
    let synced = rest.member(b",\"synced\":", Rest::number)?;
    let envelope = Envelope { seq, parent, parent_at, at, kind, synced };
    let ends = matches!(rest.0.first(), None | Some(b','));
    (ends && !rest.names_what_is_absent(&envelope))
        .then_some((envelope, covered.len() - rest.0.len()))
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, literal: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(literal)?;
        Some(())
    }

    /// A member that may be absent; none when it is there and not as it is written.
    fn member<T>(
        &mut self,
        key: &[u8],
        value: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.take(key) {
            None => Some(None),
            Some(()) => value(self).map(Some),
        }
    }

    /// A number as JSON has it: no sign, no leading zero, no fraction.
    fn number(&mut self) -> Option<Seq> {
        let len = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(len);
        if len == 0 || (len > 1 && digits[0] == b'0') {
            return None;
        }
        self.0 = rest;
        digits.iter().try_fold(0u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
    }

    /// The rest of a text without escapes, with its closing quote.
    fn text(&mut self) -> Option<&'a str> {
        let len = self.0.iter().position(|b| *b == b'"')?;
        let (text, rest) = self.0.split_at(len);
        let plain = text.iter().all(|b| matches!(b, b' '..=b'~') && *b != b'\\');
        self.0 = &rest[1..];
        std::str::from_utf8(text).ok().filter(|_| plain)
    }

    /// Whether a member of the envelope that is not in its place may stand further behind. Within a text
    /// its quotes are escaped, so a name like that is a member or a value somewhere.
    fn names_what_is_absent(&self, envelope: &Envelope) -> bool {
        let names = |name: &str| memchr::memmem::find(self.0, name.as_bytes()).is_some();
        envelope.synced.is_none() && names("\"synced\"")
            || envelope.parent.is_none() && names("\"parent\"")
            || envelope.parent_at.is_none() && names("\"parent_at\"")
    }

    fn position(&mut self) -> Option<Pos> {
        self.take(b"{\"seq\":")?;
        let seq = self.number()?;
        self.take(b",\"offset\":")?;
        let offset = self.number()?;
        self.take(b",\"crc\":\"")?;
        let crc = super::crc_digits(self.text()?.as_bytes())?;
        self.take(b"}")?;
        Some(Pos { seq, offset, crc })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LineError, Record, crc_tail, decode, decode_slowly, readable_json};
    use super::*;
    use crate::SessionId;
    use crate::batch::{Draft, plan};
    use crate::record::{Body, Custom, Header, Label, Message, Name, Tip, UserMessage};
    use crate::state::State;
    use proptest::prelude::*;

    /// One line of each way in which an envelope can look.
    fn lines() -> Vec<Vec<u8>> {
        let id = SessionId::parse("0195f3a0-0000-7000-8000-000000000001").unwrap();
        let user = |text: &str| Body::Message(Box::new(Message::User(UserMessage::text(text))));
        let (mut state, mut lines) = (State::default(), Vec::new());
        let mut write = |state: &mut State, body: Body| {
            let synced = state.next_seq.checked_sub(2);
            let draft = Draft::new(Timestamp(1_732_916_400_123), body);
            let batch = plan(state, synced, vec![draft]).unwrap();
            batch.apply_to(state);
            lines.extend(batch.records.iter().map(|record| record.line.to_vec()));
            batch.records[0].pos()
        };
        write(&mut state, Body::Session(Box::new(Header::new(id, "1"))));
        let first = write(&mut state, user("\"seq\":1,\"type\":\"name\" 漢字 \u{2028}"));
        write(&mut state, user("two"));
        write(&mut state, Body::Label(Label { target: first, label: "{\"crc\":".to_owned() }));
        write(&mut state, Body::Tip(Tip { tip: Some(first) }));
        write(&mut state, user("beside"));
        write(&mut state, Body::Name(Name { name: String::new() }));
        write(
            &mut state,
            Body::Custom(Custom {
                name: "x".to_owned(),
                data: serde_json::value::RawValue::from_string("{\"a\": [1e9, null]}".to_owned())
                    .unwrap(),
                context: Some("y".to_owned()),
            }),
        );
        lines
    }

    fn sealed(covered: &[u8]) -> Vec<u8> {
        [covered, &crc_tail(crate::line::checksum(covered))].concat()
    }

    fn parts(record: &Record) -> String {
        format!("{:?} {:?} {:?}", record.envelope, record.pos(), record.body())
    }

    /// Both ways agree, but for what a checksum vouches for: what follows the envelope.
    fn compare(line: &[u8]) {
        match (decode(line, 7), decode_slowly(line, 7)) {
            (Ok(fast), Ok(slow)) => assert_eq!(parts(&fast), parts(&slow)),
            (Err(fast), Err(slow)) => assert_eq!(fast, slow),
            (Ok(fast), Err(LineError::Malformed(why))) => {
                let json = readable_json(line);
                let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&json).is_ok();
                let unread = matches!(fast.body(), Body::Unknown { .. });
                assert!(
                    if is_json { why.contains("duplicate field") } else { unread },
                    "{why}: {json}"
                );
            }
            (fast, slow) => panic!("{fast:?}\n{slow:?}"),
        }
    }

    /// Covers: G3, G13.
    #[test]
    fn what_this_version_writes_is_read_at_its_envelope() {
        for line in lines() {
            let (covered, _) = super::super::split_crc(&line).unwrap();
            let (envelope, own) = read(covered).expect("as it is written");
            assert_eq!(envelope, decode_slowly(&line, 0).unwrap().envelope);
            assert!(covered.len() == own || covered[own] == b',');
            compare(&line);
        }
    }

    /// Covers: G3, G13.
    #[test]
    fn whatever_looks_different_is_read_as_any_json() {
        let whole = "{\"seq\":7,\"parent\":6,\"parent_at\":{\"seq\":6,\"offset\":11,\"crc\":\"0a1b2c3d\"},\
                     \"at\":\"2024-11-29T21:40:00.123Z\",\"type\":\"name\",\"synced\":5,\"name\":\"n\"";
        assert!(read(whole.as_bytes()).is_some());
        for (old, new) in [
            ("{\"seq\":7", "{ \"seq\":7"),
            ("{\"seq\":7", "{\"seq\":07"),
            ("{\"seq\":7", "{\"seq\":-7"),
            ("{\"seq\":7", "{\"seq\":7.0"),
            ("{\"seq\":7", "{\"seq\":18446744073709551616"),
            (",\"parent\":6", ",\"parent\":null"),
            ("0a1b2c3d", "0A1B2C3D"),
            ("\"offset\":11", "\"offset\":11,\"x\":1"),
            ("21:40:00.123Z", "21:61:00.123Z"),
            ("\"name\",", "\"n\\u0061me\","),
            ("\"name\",", "\"n\u{e4}me\","),
            (",\"synced\":5", ",\"synced\":5 "),
            (",\"synced\":5", ",\"x\":1,\"synced\":5"),
            (",\"synced\":5", ",\"synced\":\"5\""),
        ] {
            let line = whole.replacen(old, new, 1);
            assert_eq!(read(line.as_bytes()), None, "{line}");
            compare(&sealed(line.as_bytes()));
        }
        let behind =
            "{\"seq\":7,\"at\":\"2024-11-29T21:40:00.123Z\",\"type\":\"name\",\"name\":\"n\"";
        for member in ["\"synced\":5", "\"parent\":6", "\"parent_at\":null"] {
            let line = format!("{behind},{member}");
            assert_eq!(read(line.as_bytes()), None, "{line}");
            compare(&sealed(line.as_bytes()));
        }
    }

    proptest! {
        /// Damage of any kind, with the checksum left as it was or made to match.
        ///
        /// Covers: G3.
        #[test]
        fn both_ways_agree_on_damaged_lines(
            at in any::<prop::sample::Index>(),
            cut in 0..12usize,
            put in prop_oneof!["[{}\\[\\],:\"0-9a-z\\\\ ]{0,6}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 0..6)],
            seal in any::<bool>(),
        ) {
            for mut line in lines() {
                let end = if seal { super::super::split_crc(&line).unwrap().0.len() } else { line.len() };
                let at = at.index(end);
                line.splice(at..end.min(at + cut), put.iter().copied());
                if seal {
                    let covered = line.len() - super::super::CRC_TAIL_LEN;
                    line = sealed(&line[..covered]);
                }
                compare(&line);
            }
        }
    }
}
