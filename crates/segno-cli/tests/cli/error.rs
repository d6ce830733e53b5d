//! Errors as a person and a script get them.

use segno_agent::AgentError;
use segno_cli::error::{CliError, ExitCode};
use segno_cli::terminal::picker::PickError;
use segno_cli::terminal::{Look, Screen};
use segno_model::compaction::NoSummary;
use segno_model::store::{Owner, StoreError};
use segno_model::{SessionId, Timestamp};
use segno_runtime::{CompactError, ModelError, ModelErrorKind, StopKind};

const LOOK: Look = Look { colour: false, columns: 80, terminal: true, full: true };

fn told(error: impl Into<CliError>) -> String {
    let error = error.into();
    let (mut screen, captured) = Screen::captured(LOOK);
    error.print(&mut screen);
    format!("{}exit: {}\n", captured.text(), error.exit as u8)
}

fn every_variant() -> Vec<StoreError> {
    let id = SessionId::parse("019c1111-0027-7000-8000-000000000027").unwrap();
    let owner = Owner {
        pid: 4711,
        host: "desk".into(),
        since: Timestamp(1_795_988_400_000),
        ..Owner::default()
    };
    vec![
        StoreError::NotFound(id),
        StoreError::Exists("/x/log.jsonl".into()),
        StoreError::Held(Box::new(owner)),
        StoreError::Held(Box::default()),
        StoreError::Poisoned("fdatasync failed: input/output error".into()),
        StoreError::NoRoom("/x/log.jsonl".into()),
        StoreError::ReadOnly("its format is version 2.0, this segno writes 1.0".into()),
        StoreError::refused("a fork point must be a node"),
        StoreError::Damaged {
            what: "blob 9b2c".into(),
            offset: 12,
            reason: "the hash differs".into(),
        },
        StoreError::Backend {
            action: "opening",
            what: "/x/log.jsonl".into(),
            source: Box::new(std::io::Error::new(
                std::io::ErrorKind::PermissionDenied,
                "permission denied",
            )),
        },
    ]
}

/// Covers: G5, G15, G16, G13, G3.
#[test]
fn every_store_error_is_a_sentence_a_cause_and_a_next_step() {
    let all: Vec<String> = every_variant().into_iter().map(told).collect();
    insta::assert_snapshot!(all.join("\n"));
}

/// One of each; the match keeps the list whole when there are more.
fn of_the_engine() -> Vec<CliError> {
    use ModelErrorKind::{Broken, Busy, Key, Refused, Thinking, TooLong};
    let kinds = [Busy, Broken, Key, TooLong, Refused, Thinking];
    let model =
        |kind| ModelError { kind, message: "why".to_owned(), retry_after_ms: None, refusal: None };
    let agent = [
        AgentError::Store(StoreError::refused("no")),
        AgentError::Model(model(Busy)),
        AgentError::Compact(CompactError::Nothing),
        AgentError::Compact(CompactError::Stopped(StopKind::User)),
        AgentError::Compact(CompactError::NoSummary(NoSummary::Empty)),
    ];
    let pick = [PickError::NotATerminal, PickError::Io(std::io::Error::other("gone"))];
    for kind in &kinds {
        match kind {
            Busy | Broken | Key | TooLong | Refused | Thinking => {}
        }
    }
    let models = kinds.map(|kind| CliError::from(model(kind)));
    models.into_iter().chain(agent.map(CliError::from)).chain(pick.map(CliError::from)).collect()
}

/// That a failure cannot be made without a next step is checked by the compiler; that each says one of its
/// own, and in whole sentences, here. Covers: G16.
#[test]
fn every_failure_is_a_sentence_and_a_next_step() {
    let stores = every_variant().into_iter().map(CliError::from);
    for error in stores.chain(of_the_engine()) {
        let CliError { sentence, next_step, .. } = &error;
        assert!(sentence.ends_with('.') && sentence.len() > 10, "{error:?}");
        assert!(next_step.len() > 8, "{error:?}");
        assert!(next_step.ends_with(['.', '`', 'D']), "{error:?}");
    }
}

/// Covers: G17, #163.
#[test]
fn stored_text_in_an_error_is_cleaned() {
    let error = CliError::failed("no session named \x1b]0;PWNED\x07x\nsecond")
        .because("a\x1b[2J\r\nb")
        .next("c\u{202e}d");
    assert_eq!(
        told(error),
        "error: no session named x second\n  cause: a\n         b\n  next:  cd\nexit: 1\n"
    );
}

#[test]
fn a_script_gets_one_line_of_json() {
    let error = CliError::usage("no").because("x").next("y");
    let (mut screen, captured) = Screen::captured(LOOK);
    error.print_json(&mut screen);
    assert_eq!(
        captured.text(),
        "{\"error\":{\"sentence\":\"no\",\"cause\":\"x\",\"next_step\":\"y\",\"exit\":2}}\n"
    );
}

#[test]
fn exit_codes_are_distinct_and_keep_their_numbers() {
    let numbers: Vec<u8> = ExitCode::ALL.iter().map(|code| *code as u8).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert!(ExitCode::ALL.iter().all(|code| !code.meaning().is_empty()));
}

#[test]
fn a_chain_of_causes_is_told_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("reading failed: {source}")]
    struct Outer {
        source: std::io::Error,
    }
    let outer = Outer { source: std::io::Error::other("disk on fire") };
    assert_eq!(segno_cli::error::chain(&outer), "reading failed: disk on fire");
}
