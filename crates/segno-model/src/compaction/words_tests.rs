//! Sentences in many languages, and what is carried of them.
//!
//! Responsible for: the table of demands and details, and the budget. Must not: test the context.

use super::*;

fn carried(dropped: &[&str], held: &str) -> Vec<String> {
    let dropped: Vec<String> = dropped.iter().map(|s| (*s).to_owned()).collect();
    carry(&Carried::default(), &dropped, held, 10_000).sentences
}

/// Covers: EV3. What forbids or demands is found in any language, with and without punctuation.
#[test]
fn demands_are_found_in_many_languages() {
    let demands = [
        "Never touch the migrations.",
        "You mustn't rename it.",
        "Don’t push",
        "不改公共接口",
        "只改这一个文件",
        "必须保留旧的行为",
        "請勿刪除測試",
        "公開APIを変更しないでください。",
        "テストは必ず通すこと",
        "공개 API는 바꾸지 마세요",
        "반드시 테스트를 먼저 실행하세요",
        "Die öffentliche Schnittstelle bleibt, wie sie ist: nicht ändern!",
        "Höchstens eine Abhängigkeit",
        "N'utilise pas d'API privée",
        "Il ne faut rien supprimer.",
        "Sin dependencias nuevas",
        "No toques la base de datos",
        "Não altere a interface",
        "Non toccare la configurazione",
        "Не меняй публичный интерфейс",
        "Тільки один файл",
        "Nie zmieniaj API",
        "Ne nyúlj hozzá",
        "Älä muuta rajapintaa",
        "Genel arayüzü değiştirme",
        "Ändra inte gränssnittet",
        "Wijzig de interface niet",
        "لا تغيّر الواجهة العامة",
        "يجب أن تبقى الاختبارات خضراء",
        "اسم تابع را عوض نکن",
        "אל תשנה את הממשק",
        "सार्वजनिक इंटरफ़ेस मत बदलो",
        "ห้ามแก้ไขไฟล์นี้",
        "Jangan ubah antarmuka publik",
        "Đừng đổi giao diện",
        "Μην αλλάξεις το API",
        "Nu schimba interfața",
    ];
    for sentence in demands {
        assert_eq!(weight(sentence), Some(Weight::Demand), "{sentence}");
        let text = format!("OK\n{sentence}\nOK");
        assert_eq!(carried(&[&text], "a summary of something else"), [sentence]);
    }
}

/// Paths, numbers, amounts and identifiers count, whatever surrounds them.
#[test]
fn details_are_found_in_any_text() {
    let cases = [
        ("look at src/api/mod.rs first", "src/api/mod.rs"),
        ("修改src/api.rs文件", "src/api.rs"),
        ("it costs $4,500", "$4"),
        ("the port is 8443", "8443"),
        ("use `Result` there", "Result"),
        ("call parse_line for it", "parse_line"),
        ("see C:\\temp\\x", "C:\\temp\\x"),
        ("rename fooBar", "fooBar"),
        ("write to sam@example.org", "sam@example.org"),
        ("الملف config.toml هنا", "config.toml"),
        ("Größe ٤٢ bitte", "٤٢"),
    ];
    for (text, detail) in cases {
        let found: Vec<&str> = details(text).collect();
        assert!(found.contains(&detail), "{text}: {found:?}");
    }
    for text in ["hello there.", "and/ or", "Well - yes: ok.", "好的", "...", "e", "-"] {
        assert_eq!(details(text).collect::<Vec<_>>(), Vec::<&str>::new(), "{text}");
    }
}

/// Only what nothing else holds is listed: a demand word for word, a detail by itself.
#[test]
fn what_is_held_already_is_not_repeated() {
    let said = ["Never push. The port is 8443. Read src/a.rs. Thanks for that."];
    assert_eq!(carried(&said, ""), ["Never push.", "The port is 8443.", "Read src/a.rs."]);
    assert_eq!(carried(&said, "port 8443, file `src/a.rs`"), ["Never push."]);
    assert_eq!(carried(&said, "He said: Never\n  push. 8443"), ["Read src/a.rs."]);
    assert_eq!(carried(&said, "18443 and src/a.rs2").len(), 3, "parts of others are others");
    assert_eq!(carried(&["不改公共接口。然后跑测试"], "不改公共接口。"), Vec::<String>::new());
}

/// Sentences end where people end them.
#[test]
fn sentences_are_whole() {
    let cases = [
        ("never push. run the tests", &["never push.", "run the tests"][..]),
        ("use e.g. tokio 1.54. Not more.", &["use e.g. tokio 1.54.", "Not more."]),
        ("- keep it\n  * no more\n\n> why?", &["keep it", "no more", "why?"]),
        ("不改公共接口。然后跑测试！好", &["不改公共接口。", "然后跑测试！", "好"]),
        ("Ist das so?\r\nJa", &["Ist das so?", "Ja"]),
        ("   ", &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(sentences(text).collect::<Vec<_>>(), expected, "{text}");
    }
}

/// Newest first within the budget, demands before details, whole sentences, and a count of the rest.
#[test]
fn the_budget_takes_the_newest_demands_first() {
    let said = ["Never A.\nThe port is 1.", "Never B.\nThe port is 2.", "Never C."];
    let said: Vec<String> = said.iter().map(|s| (*s).to_owned()).collect();
    let carry = |bytes| {
        let Carried { sentences, left_out } = carry(&Carried::default(), &said, "", bytes);
        (sentences.join(" "), left_out)
    };
    assert_eq!(carry(24), ("Never A. Never B. Never C.".to_owned(), 2));
    assert_eq!(carry(23), ("Never B. Never C.".to_owned(), 3));
    assert_eq!(carry(38), ("Never A. Never B. The port is 2. Never C.".to_owned(), 1));
    assert_eq!(carry(0), (String::new(), 5));
    let long = vec!["x1".repeat(LONGEST)];
    let pasted = super::carry(&Carried::default(), &long, "", 100_000);
    assert_eq!((pasted.sentences.len(), pasted.left_out), (0, 1));
}

/// However long a sentence is, and however it is written, what it forbids is carried, in a piece that fits beside a small
/// summary.
#[test]
fn what_counts_in_a_sentence_that_is_too_long_is_carried() {
    let path = "never change the file /srv/a.h";
    let cases = [
        ("commas", "then this is done, ", "never push it, "),
        ("CJK commas", "我们今天讨论一下这个项目的情况，", "不改公共接口，"),
        ("CJK without any", "我们今天讨论一下这个项目的情况", "不改公共接口"),
        ("Japanese", "それから次の作業を続けます、", "公開APIを変更しないでください、"),
        ("no punctuation", "foo bar baz ", "never change the file /srv/a.h "),
        ("one long word", "abcdefghijklmnopqrstuvwxyz", " never change the file /srv/a.h "),
        ("columns", "a,b,c;d ", "never change the file /srv/a.h "),
        ("pasted data", "x81,17;0xff ", "never change the file /srv/a.h "),
    ];
    for (label, filler, demand) in cases {
        for before in [0, 1, 7, 90, 230, 333] {
            let text = filler.repeat(before) + demand + &filler.repeat(400);
            let found = super::carry(&Carried::default(), &[text], "a summary", 1_400);
            let held = found.sentences.iter().find(|sentence| sentence.contains(demand.trim()));
            assert!(held.is_some_and(|s| s.len() < 700), "{label} {before}: {found:?}");
        }
    }
    let text = "word ".repeat(400) + path;
    let Carried { sentences, left_out } = carry(&Carried::default(), &[text], "", 10_000);
    assert_eq!((sentences.len(), left_out), (1, 0));
    assert!(sentences[0].ends_with(path), "{sentences:?}");
}

/// What stands in pasted data does not push out what was said.
#[test]
fn pasted_data_comes_last() {
    let said = ["The port is 8443.".to_owned(), "17,4 ".repeat(1_000)];
    let carried = carry(&Carried::default(), &said, "", 400);
    assert_eq!(carried.sentences.first().map(String::as_str), Some("The port is 8443."));
    assert!(carried.left_out > 0);
}

/// What one compaction carried is carried by the next, as long as there is room.
/// Covers: EV3.
#[test]
fn what_was_carried_is_carried_on() {
    let first = carry(&Carried::default(), &["Never A.".to_owned()], "", 100);
    let second = carry(&first, &["Never B.".to_owned()], "the summary", 100);
    assert_eq!(second.sentences, ["Never A.", "Never B."]);
    let third = carry(&second, &["Never A.".to_owned()], "the summary", 100);
    assert_eq!(third.sentences, ["Never B.", "Never A."], "said again, it is new");
    let full = carry(&third, &[], "the summary", 8);
    assert_eq!((full.sentences, full.left_out), (vec!["Never A.".to_owned()], 1));
}
