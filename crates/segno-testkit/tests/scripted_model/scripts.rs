//! The text of scripts: what they say, and what is wrong with a wrong one.

use super::client::{hear, post};
use super::spell::{body, turns};
use segno_testkit::scripted_model::{Script, ScriptedModel, StartError, Wire, demo};

/// What a script answers to a history: text, then `name arguments` per call, or the error.
fn answer(script: &str, conversation: &str) -> String {
    let server = ScriptedModel::start(script).expect("the script is good");
    let response = post(&server, Wire::Chat, &body(Wire::Chat, &turns(conversation)));
    if response.status != 200 {
        let message = response.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        return format!("{}: {message}", response.status);
    }
    let heard = hear(Wire::Chat, &response);
    let calls = heard.calls.iter().map(|[_, name, arguments]| format!("{name} {arguments}"));
    [heard.text].into_iter().filter(|t| !t.is_empty()).chain(calls).collect::<Vec<_>>().join("; ")
}

#[test]
fn conditions_look_at_the_request() {
    let result = "user go\ncall c read {\"path\":\"x\"}\nresult c read found CODE=7 here";
    let later = format!("{result}\nsay ok\nuser what was it");
    let later = later.as_str();
    let rows = [
        ("when user contains \"go\"", "user go on", true),
        ("when user contains \"gone\"", "user go on", false),
        ("when user lacks \"gone\"", "user go on", true),
        ("when user is \"go\"", "user go", true),
        ("when user is \"go\"", "user go on", false),
        ("when user line \"go\"", "user go on", true),
        ("when user line \"on\"", "user go on", false),
        ("when prompt is \"what was it\"", later, true),
        ("when result contains \"CODE=\"", result, true),
        ("when result contains \"CODE=\"", later, false),
        ("when result lacks \"x\"", "user go", false),
        ("when results contains \"CODE=\"", later, true),
        ("when results contains \"CODE=\"", "user CODE=1", false),
        ("when history contains \"\\\"path\\\"\"", later, true),
        ("when system contains \"good\"", "user go", true),
        ("when model is \"scripted\"", "user go", true),
        ("when turns 1", "user go", true),
        ("when turns at least 2", "user go", false),
        ("when turns at most 2", "user go", true),
        ("when replies 1", result, true),
        ("when replies 0", later, true),
        ("when wire chat", "user go", true),
        ("when wire gemini", "user go", false),
        ("when tool read", "user go", true),
        ("when tool write", "user go", false),
        ("when no tool write", "user go", true),
        ("when last results", result, true),
        ("when last user", result, false),
    ];
    for (condition, conversation, expected) in rows {
        let script = format!("rule a\n {condition}\n say \"yes\"\notherwise\n say \"no\"");
        let said = answer(&script, conversation);
        assert_eq!(said, if expected { "yes" } else { "no" }, "{condition} on {conversation:?}");
    }
}

#[test]
fn captures_take_what_stands_behind() {
    let rows = [
        ("contains \"n=\" capture n until space", "user n=5 n=6", "5"),
        ("contains \"n=\" capture n until space", "user n= n=6", "6"),
        ("contains \"n=\" capture n until \";\"", "user n=5 6;7", "5 6"),
        ("contains \"n=\" capture n until \";\"", "user n=5 6", "none"),
        ("contains \"n=\" capture n until line", "user n=5 6", "5 6"),
        ("contains \"n=\" capture n until end", "user n=5 6", "5 6"),
        ("contains \"n=\" capture m until \"/\" capture n until \"/\"", "user n=5/6/7", "6"),
    ];
    for (condition, conversation, expected) in rows {
        let script =
            format!("rule a\n when user {condition}\n say \"{{n}}\"\notherwise\n say \"none\"");
        assert_eq!(answer(&script, conversation), expected, "{condition} on {conversation:?}");
    }
}

/// What is filled in can never break the arguments of a call.
#[test]
fn names_are_filled_into_texts_and_arguments() {
    let script = "rule a\n when user line \"write \" capture text until line\n say \"{{{text}}} {model} {tools}\"\n call write {\"content\": \"<{text}>\", \"n\": [1, \"{text}\"]}";
    let said = answer(script, "user write \"a\\b\" {n}");
    let arguments = "{\"content\":\"<\\\"a\\\\b\\\" {n}>\",\"n\":[1,\"\\\"a\\\\b\\\" {n}\"]}";
    assert_eq!(said, format!("{{\"a\\b\" {{n}}}} scripted read; write {arguments}"));
}

#[test]
fn odd_calls_can_be_made() {
    let script = "otherwise\n call read raw \"{\\\"path\" id \"\"\n call read {} id \"call_0\"";
    let server = ScriptedModel::start(script).expect("the script is good");
    let response = post(&server, Wire::Chat, &body(Wire::Chat, &turns("user go")));
    let calls = hear(Wire::Chat, &response).calls;
    assert_eq!(calls[0], ["", "read", "{\"path"]);
    assert_eq!(calls[1], ["call_0", "read", "{}"]);
}

#[test]
fn a_request_without_a_rule_says_so() {
    let said = answer("rule a\n when user contains \"x\"\n say \"y\"", "user hello there");
    assert_eq!(
        said,
        "500: The script has no rule for this request: its last turn is user, \"hello there\". \
         Add a rule that fits, or `otherwise`."
    );
}

#[test]
fn a_wrong_script_is_an_error_with_its_line() {
    let rows = [
        ("", 1, "needs at least one rule"),
        ("say \"x\"", 1, "`say` is neither a setting nor inside a rule"),
        ("\n\nrule\n say \"x\"", 3, "a rule needs a name"),
        ("rule a\n say \"x\"\nrule a\n say \"y\"", 3, "a rule `a` already"),
        ("rule a\n\nrule b\n say \"x\"", 1, "rule `a` says nothing"),
        ("rule a\n say \"x\"\n status 500", 1, "both replies and refuses"),
        ("otherwise\n say \"x\"\nrule a\n say \"y\"", 3, "nothing can follow `otherwise`"),
        ("otherwise now\n say \"x\"", 1, "stands alone"),
        ("otherwise\n when turns 1\n say \"x\"", 2, "has no conditions"),
        ("rule a\n say x", 2, "expected a text in double quotes"),
        ("rule a\n say \"x", 2, "not JSON"),
        ("rule a\n say \"x\" y", 2, "`y` is not understood here"),
        ("rule a\n say \"{x}\"", 2, "nothing is captured as `x`"),
        ("rule a\n say \"{\"", 2, "a single brace"),
        ("rule a\n say \"}\"", 2, "a single brace"),
        ("rule a\n shout \"x\"", 2, "`shout` is not a statement"),
        ("rule a\n when moon contains \"x\"", 2, "nothing is known about `moon`"),
        ("rule a\n when user has \"x\"", 2, "expected contains, lacks, is or line"),
        ("rule a\n when user contains \"\"", 2, "an empty text"),
        ("rule a\n when user contains \"x\" capture 9 until line", 2, "`9` cannot be the name"),
        ("rule a\n when user contains \"x\" capture user until line", 2, "`user` cannot be"),
        ("rule a\n when user contains \"x\" capture n until noon", 2, "until `noon`"),
        ("rule a\n when user contains \"x\" capture n space", 2, "expected `until`"),
        ("rule a\n when user contains \"x\" capture n until \"\"", 2, "end at an empty text"),
        ("rule a\n when user lacks \"x\" capture n until line", 2, "only `contains` and `line`"),
        ("rule a\n when wire ftp", 2, "no wire `ftp`"),
        ("rule a\n when last assistant", 2, "no turn `assistant` can be last"),
        ("rule a\n when turns at 5", 2, "expected least or most"),
        ("rule a\n when turns many", 2, "expected a number, found `many`"),
        ("rule a\n call", 2, "`call` names a tool"),
        ("rule a\n call read", 2, "expected a JSON value"),
        ("rule a\n call read [1]", 2, "a JSON object"),
        ("rule a\n call read {\"p\": \"{x}\"}", 2, "nothing is captured as `x`"),
        ("rule a\n usage input many", 2, "expected a number"),
        ("rule a\n usage tokens 5", 2, "`tokens` is no token number"),
        ("rule a\n stop now", 2, "`now` is no reason to stop"),
        ("rule a\n status 200", 2, "between 400 and 599"),
        ("rule a\n status 99999999999999999999", 2, "expected a number"),
        ("rule a\n fault fire", 2, "no fault `fire`"),
        ("rule a\n fault delay soon", 2, "expected a time"),
        ("rule a\n fault delay 99999999999s", 2, "expected a time"),
        ("rule a\n fault pieces 0", 2, "at least one byte"),
        ("rule a\n fault error event odd", 2, "no error event `odd`"),
        ("rule a\n fault drop after 2 days", 2, "expected `events`"),
        ("strict\nrule a\n say \"x\"", 1, "expected `prefix`"),
        ("auth maybe\nrule a\n say \"x\"", 1, "required, off or refuse"),
        ("models\nrule a\n say \"x\"", 1, "at least one model"),
        ("window wide\nrule a\n say \"x\"", 1, "expected a number"),
    ];
    for (text, line, message) in rows {
        let error = Script::parse(text).expect_err(text);
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.message.contains(message), "{text:?}: {error}");
    }
    let error = ScriptedModel::start("rule a\n say x").expect_err("a wrong script");
    assert!(matches!(error, StartError::Script(_)));
    assert!(error.to_string().contains("line 2"));
}

/// Cutting any script anywhere is an error or a script, never a panic.
#[test]
fn no_prefix_of_a_script_panics() {
    for script in [demo::DEMO_SCRIPT, demo::PLAY_SCRIPT] {
        for (end, _) in script.char_indices().step_by(5) {
            let _ = Script::parse(&script[..end]);
        }
    }
}

/// Every example of the documentation is a script that can be read.
#[test]
fn the_documented_examples_are_scripts() {
    let page = include_str!("../../../../docs/protocol/scripted-model.md");
    let examples: Vec<&str> = page
        .split("```script\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect();
    assert!(examples.len() >= 4);
    for example in examples {
        Script::parse(example).unwrap_or_else(|error| panic!("{error} in\n{example}"));
    }
}

/// The page names every rule by which requests are refused.
#[test]
fn the_documented_rules_are_those_of_the_code() {
    let page = include_str!("../../../../docs/protocol/scripted-model.md");
    for (rule, meaning) in segno_testkit::scripted_model::RULES {
        assert!(page.contains(&format!("| `{rule}` | {meaning} |")), "`{rule}` | {meaning}");
    }
}
