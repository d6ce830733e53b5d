//! Members that a repair puts in: whatever stands there, and what is known of a lost header.

use crate::bench::{keeps_its_promises, session};
use crate::cases::rows;
use segno_store::foreign::Located;
use segno_store::rescue;
use serde_json::Value;
use std::fs;

/// An entry's id of any form that is none gets one, once: the last of several members with one name is read.
#[test]
fn an_odd_id_is_replaced_where_it_stands() {
    let session = session("foreign/pi/01-plain-chat.jsonl");
    let text = fs::read_to_string(&session.path).expect("it is in the corpus");
    let line = text.lines().nth(3).expect("four lines");
    let id = line.split_once("\"id\":\"").expect("an id").1.split_once('"').expect("its end").0;
    let own = format!("\"id\":\"{id}\"");
    for odd in [
        "\"id\":null",
        "\"id\":17",
        "\"id\":{}",
        "\"id\":[\"a\"]",
        "\"id\":true",
        "\"id\":null,\"id\":null",
        &format!("{own},\"id\":null"),
    ] {
        let bent = text.replacen(line, &line.replacen(&own, odd, 1), 1);
        let result = keeps_its_promises(&session, bent.as_bytes(), odd).expect("it reads");
        assert!(result.changes.contains(&"reused-id@4".to_owned()), "{odd}: {:?}", result.changes);
        let row = String::from_utf8(result.bytes).expect("UTF-8");
        let row = row.lines().nth(3).expect("four lines");
        assert_eq!(row.matches("\"id\":").count(), odd.matches("\"id\":").count(), "{odd}: {row}");
        let read: Value = serde_json::from_str(row).expect("JSON");
        assert!(read["id"].is_string(), "{odd}: {row}");
    }
}

/// What pi dies of, in every form in which it is not there.
#[test]
fn an_odd_usage_is_replaced_where_it_stands() {
    let session = session("foreign/pi/01-plain-chat.jsonl");
    let text = fs::read_to_string(&session.path).expect("it is in the corpus");
    let line = text.lines().find(|line| line.contains("\"usage\":{")).expect("a reply");
    let mut row: Value = serde_json::from_str(line).expect("JSON");
    for odd in [Value::Null, Value::from(7), Value::from("x"), Value::Bool(true)] {
        row["message"]["usage"] = odd.clone();
        row["message"]["api"] = Value::Null;
        let bent = text.replacen(line, &row.to_string(), 1);
        let result = keeps_its_promises(&session, bent.as_bytes(), "usage").expect("it reads");
        let rows = rows(&result.bytes);
        let reply = rows.iter().find(|other| other["id"] == row["id"]).expect("it is there");
        assert_eq!(reply["message"]["usage"]["cost"]["total"], 0, "{odd}");
        assert!(reply["message"]["api"].is_string(), "{odd}");
    }
}

/// Which directory pi's folder stands for is looked up; what is not there, or is one of several, is a guess.
#[test]
fn the_directory_of_a_lost_header_is_the_one_that_is_there() {
    let pi = session("foreign/pi/02-tool-calls.jsonl");
    let text = fs::read_to_string(&pi.path).expect("it is in the corpus");
    let rest = text.split_once('\n').expect("a line").1;
    let home = tempfile::tempdir().expect("a folder");
    let slug = |path: &str| {
        let path = home.path().join(path).to_string_lossy().into_owned();
        format!("--{}--", path.trim_start_matches('/').replace(['/', ':'], "-"))
    };
    let rows: &[(&[&str], &str, &str, bool)] = &[
        (&["one/my-app"], "one/my-app", "one/my-app", true),
        (&["two/my/app"], "two/my/app", "two/my/app", true),
        (&["three/a-b/c-d", "three/a"], "three/a-b/c-d", "three/a-b/c-d", true),
        (&["four/x:y"], "four/x-y", "four/x:y", true),
        (&["five/my-app", "five/my/app"], "five/my-app", "five/my/app", false),
        (&[], "six/my-app", "six/my/app", false),
    ];
    for (dirs, of, expected, is_sure) in rows {
        for dir in *dirs {
            fs::create_dir_all(home.path().join(dir)).expect("a folder");
        }
        let folder = home.path().join("sessions").join(slug(of));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(pi.path.file_name().expect("it has one"));
        fs::write(&path, rest).expect("room");
        let plan = rescue::plan(&Located { path, ..pi.clone() }).expect("it reads");
        let told = &plan.changes[0].what;
        assert_eq!(!told.contains("guess"), *is_sure, "{of}: {told}");
        let mut bytes = Vec::new();
        plan.write(&mut bytes, &mut Vec::new(), None).expect("it is there");
        let expected = home.path().join(expected).to_string_lossy().into_owned();
        assert_eq!(crate::cases::rows(&bytes)[0]["cwd"], expected, "{of}");
        assert!(*is_sure || told.contains(&expected), "{of}: {told}");
    }
}
