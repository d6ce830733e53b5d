//! Numbers that no JSON value of ours holds to the last digit, in what a conversion carries.
//!
//! Responsible for: that they stand in the target's files as they stood. Until the files are written, a text that nobody
//! writes stands for each. Must not: touch a number that is held as it is, or what is said in words.

use serde_json::{Map, Number, Value};
use std::borrow::Cow;

/// What stands around a number's digits in the text that stands for it.
const MARKS: [char; 2] = ['\u{fdd2}', '\u{fdd3}'];

/// The members of a JSON object, with texts for such numbers; none where it is none.
pub(super) fn members(json: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(&marked(json)).ok()
}

/// A JSON value, with texts for such numbers.
pub(super) fn value(json: &str) -> Option<Value> {
    serde_json::from_str(&marked(json)).ok()
}

fn marked(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(&byte) = bytes.get(at) {
        let rest = json.get(at..).unwrap_or_default();
        match byte {
            b'"' => at += text_len(rest),
            b'-' | b'0'..=b'9' => {
                let len = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
                let number = rest.get(..len).unwrap_or_default();
                if !is_held(number) {
                    let before = json.get(copied..at).unwrap_or_default();
                    out.push_str(&format!("{before}\"{}{number}{}\"", MARKS[0], MARKS[1]));
                    copied = at + len;
                }
                at += len;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    out.push_str(json.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

fn is_of_number(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E')
}

/// How long the text is with which this begins.
fn text_len(json: &str) -> usize {
    let mut is_escape = false;
    let end = json.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escape;
        is_escape = byte == b'\\' && !is_escape;
        ends
    });
    end.map_or(json.len(), |end| end + 2)
}

/// Whether a number is the same one when it is written again.
fn is_held(number: &str) -> bool {
    /// So many digits are, whatever they are.
    const DIGITS: usize = 15;
    if number.len() <= DIGITS && !number.contains(['e', 'E']) {
        return true;
    }
    match serde_json::from_str::<Number>(number) {
        Ok(held) => {
            Decimal::of(&held.to_string()).is_some_and(|it| Decimal::of(number) == Some(it))
        }
        // It is no number, or has no end.
        Err(_) => Decimal::of(number).is_none(),
    }
}

/// A number as it is written, whichever way: its digits without zeros at the ends, and the power of ten of the last.
#[derive(PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: String,
    power: i64,
}

impl Decimal {
    fn of(number: &str) -> Option<Self> {
        let (mantissa, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let (is_negative, whole) = match whole.strip_prefix('-') {
            Some(whole) => (true, whole),
            None => (false, whole),
        };
        let digits = format!("{whole}{part}");
        if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let power: i64 = power.parse().ok()?;
        let power = power.checked_sub(i64::try_from(part.len()).ok()?)?;
        let short = digits.trim_end_matches('0');
        let power = power.checked_add(i64::try_from(digits.len() - short.len()).ok()?)?;
        let digits = short.trim_start_matches('0').to_owned();
        let is_zero = digits.is_empty();
        let power = if is_zero { 0 } else { power };
        Some(Self { is_negative: is_negative && !is_zero, digits, power })
    }
}

/// The file with each number for its text, also where JSON stands in a text of JSON.
pub(super) fn restored(file: Vec<u8>) -> Vec<u8> {
    let [open, close] = MARKS.map(|mark| mark.to_string());
    let found: Vec<usize> = memchr::memmem::find_iter(&file, open.as_bytes()).collect();
    let (mut out, mut copied) = (Vec::new(), 0);
    for at in found {
        let (Some(before), Some(behind)) = (file.get(copied..at), file.get(at + open.len()..))
        else {
            continue;
        };
        let Some(quote) = quote_at_end(before) else { continue };
        let Some(end) = memchr::memmem::find(behind, close.as_bytes()) else { break };
        let (number, behind) = behind.split_at(end);
        let is_number = std::str::from_utf8(number)
            .is_ok_and(|number| number.chars().all(is_of_number) && Decimal::of(number).is_some());
        if is_number && behind.get(close.len()..).is_some_and(|behind| behind.starts_with(quote)) {
            out.extend_from_slice(before.strip_suffix(quote).unwrap_or(before));
            out.extend_from_slice(number);
            copied = at + open.len() + end + close.len() + quote.len();
        }
    }
    if copied == 0 {
        return file;
    }
    out.extend_from_slice(file.get(copied..).unwrap_or_default());
    out
}

/// The quotation mark at the end, with what escapes it.
fn quote_at_end(bytes: &[u8]) -> Option<&[u8]> {
    let before = bytes.strip_suffix(b"\"")?;
    let escapes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
    bytes.get(before.len() - escapes..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_are_not_held_get_a_text_and_each_comes_back() {
        let held = [
            "0",
            "-0",
            "1",
            "-1",
            "0.1",
            "1.50",
            "1e3",
            "1E+3",
            "100000000000000000000e-20",
            "18446744073709551615",
            "-9223372036854775808",
            "0.30000000000000004",
            "1e308",
        ];
        for number in held {
            let json = format!("{{\"a\":[{number}]}}");
            assert_eq!(marked(&json), json, "{number}");
        }
        let not = [
            "18446744073709551616",
            "-9223372036854775809",
            "12345678901234567890123",
            "0.1234567890123456789",
            "-1234567.12345678901234567",
            "1e400",
            "-1E-400",
            "3.14159265358979323846e2",
        ];
        for number in not {
            let json = format!("{{\"{number}\":\"{number}\",\"a\":[{number},1],\"b\":{number}}}");
            let value = value(&json).unwrap_or_else(|| panic!("{number}"));
            assert_eq!(restored(value.to_string().into_bytes()), json.as_bytes(), "{number}");
            // JSON in a text of JSON.
            let within = Value::from(value.to_string()).to_string();
            let expected = Value::from(json.clone()).to_string();
            assert_eq!(restored(within.into_bytes()), expected.as_bytes(), "{number} in a text");
        }
    }

    #[test]
    fn what_only_looks_like_one_stays() {
        for text in [
            "\u{fdd2}",
            "\"\u{fdd2}12",
            "\"\u{fdd2}x\u{fdd3}\"",
            "\u{fdd2}12\u{fdd3}\"",
            "\"\u{fdd2}12\u{fdd3} \"",
        ] {
            assert_eq!(restored(text.as_bytes().to_vec()), text.as_bytes());
        }
        assert!(members("[1]").is_none() && members("{\"a\":").is_none());
        assert_eq!(
            members("{\"a\":\"\\\"1\"}").map(Value::from).map(|v| v.to_string()).as_deref(),
            Some("{\"a\":\"\\\"1\"}")
        );
    }
}
