//! Reads that leave the project or may reach credentials ask; all others are free.
//!
//! Responsible for: one table of commands and one of tool calls, over real directories. Must not: run a
//! command that was not judged to be free.
#![allow(clippy::unwrap_used)]

mod support;

use segno_agent::permission::Mode;
use segno_agent::tool::Reply;
use segno_runtime::{Tools, Verdict};
use serde_json::json;
use std::os::unix::fs::symlink;
use support::{Place, Scripted};

/// A project with sources, a file of credentials, links out of it, and a home beside it.
fn place(mode: Mode) -> Place {
    let place = Place::with(mode, Some(Scripted::new(Reply::No { reason: None })), &[]);
    for (name, content) in [
        ("a.txt", "a\n"),
        ("b c.txt", "b\n"),
        ("src/main.rs", "fn main() {}\n"),
        ("src/deep/lib.rs", "\n"),
        ("clean/x.rs", "x\n"),
        ("app/.env", "KEY=1\n"),
        ("app/main.py", "x\n"),
        ("app/.env.example", "KEY=\n"),
        ("links/plain", "x\n"),
        ("outs/plain", "x\n"),
        ("../home/.ssh/id_rsa", "secret\n"),
        ("../home/.aws/credentials", "secret\n"),
        ("../home/.config/gh/hosts.yml", "secret\n"),
        ("../home/.claude/.credentials.json", "secret\n"),
        ("../home/notes.txt", "x\n"),
        ("../beside/x.txt", "x\n"),
        ("../segno/config.toml", "x\n"),
    ] {
        place.file(name, content);
    }
    for (link, target) in [
        ("links/to-key", "../../home/.ssh/id_rsa"),
        ("links/out", "../../beside/x.txt"),
        ("outs/out", "../../beside/x.txt"),
        ("to-home", "../home"),
        ("inner", "src"),
    ] {
        symlink(target, place.path(link)).unwrap();
    }
    place
}

const FREE: &str = r#"
grep -r x links
cat a.txt
cat 'b c.txt'
cat ./src/../a.txt
cat src/*.rs
cat *.txt
ls
ls -la src
ls inner
ls -I/x src
wc -l src/*.rs
head -n 5 a.txt
head -5 a.txt
cut -d/ -f1 a.txt
cut -d / -f 1 a.txt
cut --delimiter=/ -f1 a.txt
sort -t/ -k2 a.txt
sort -t / a.txt
tr / _ < a.txt
echo / ~ /etc/passwd
echo ~/.ssh
printf '%s/%s\n' /etc a
basename /usr/lib/x.so
dirname /usr/lib/x.so
which ls
grep /api/v1 a.txt
grep -n /etc/passwd a.txt
grep -rn /home src
grep -A 3 /x a.txt
grep -A3 -- -/x a.txt
grep --color=never /x a.txt
grep -r x clean
grep -rn x src clean
rg x
rg /api
rg -n -A 2 /api src
rg x src
rg -t rust /api src
rg --files
rg --files src
rg -l x
rg --type rust '/x' src
rg -g '*.rs' x src
find .
find . -name '*.rs'
find src -path '*/deep/*'
find src -name '/x'
find -name x
find src -type f -exec cat {} +
find clean -exec grep -l x {} \;
find . -name .env.example
tree src
du -sh .
stat -c /%n a.txt
diff a.txt src/main.rs
diff -r src clean
diff <(sort a.txt) <(sort src/main.rs)
cd src && cat main.rs
cd src && cat ../a.txt
cd src && cd deep && cat lib.rs
cd src && cat *.rs
cd src/deep && cat ../../a.txt
cd src && cat ../a.txt | head -5
cd src && ls; cat ../a.txt
cd src/deep && grep -r x ../../clean
cd inner && cat main.rs
(cd src; ls); cat a.txt
cat < a.txt
cat a.txt 2>/dev/null
cat /dev/null
cat - < a.txt
cat app/.env.example
sed -n 1,5p a.txt
sed -n '1,$p' src/main.rs
bash -c 'cat a.txt'
timeout 5 cat a.txt
test -f a.txt
[ -d src ]
[[ -f src/main.rs ]]
git status
git log --oneline -5 -- src
git log -S/etc/passwd
git log --grep /x
git log --format=%h/%s
git show HEAD:src/main.rs
git diff HEAD -- src
git grep -n /api
git ls-files src
git blame src/main.rs
ls | xargs echo
ls | xargs basename
seq 1 3
date +%Y/%m/%d
id
file a.txt
od -c a.txt
strings a.txt
comm a.txt src/main.rs
realpath src
"#;

const OUTSIDE: &str = r#"
cat /etc/hosts
cat ../beside/x.txt
cat ./../beside/x.txt
cat src/../../beside/x.txt
cat to-home/notes.txt
cat links/out
cat links/o*
cat links/pl* links/ou*
cat ../*/x.txt
cat "/etc/hosts"
cat '/etc/hosts'
cat /et''c/hosts
cat \/etc/hosts
cat < /etc/hosts
cat < ../beside/x.txt
cat -n /etc/hosts
cat -- /etc/hosts
cat ~root/x
cat ~nobody/x
cat ~+/../beside/x.txt
cat ~-/x
head -c 10 /etc/hosts
head -n5 /etc/hosts
tail -n +1 ../beside/x.txt
ls ..
ls ../beside
ls /
ls ~
ls -la ~
ls ~/projects
ls /tmp
ls /*
ls -d /etc/*
echo /etc/*
echo ../*
cd .. && ls
cd .. && cat home/notes.txt
cd ../beside && cat x.txt
cd src && cat ../../beside/x.txt
cd src && cd ../.. && cat beside/x.txt
cd src; cd ..; cd ..; cat beside/x.txt
cd to-home && cat notes.txt
grep root /etc/hosts
grep -n root /etc/hosts
grep -e root /etc/hosts
grep -rn root /usr/include
grep -f /etc/hosts a.txt
grep -f/etc/hosts a.txt
grep --file=/etc/hosts a.txt
grep --file /etc/hosts a.txt
grep --fi=/etc/hosts a.txt
grep -ne /x /etc/hosts
grep -ie root /etc/hosts
grep --regexp=x /etc/hosts
grep -h x a.txt ../beside/x.txt
grep -A 3 x ../beside/x.txt
grep -r x ../beside
grep -r x to-home/notes.txt
egrep x /etc/hosts
fgrep x /etc/hosts
rg x ..
rg x ../beside
rg x /usr
rg -e x /usr
rg -n -e x ../beside
rg -f /etc/hosts
rg --file=/etc/hosts
rg -A 2 x ../beside
rg --files ..
rg --files /
rg --no-heading x /etc/hosts
find ..
find ../beside -name x
find / -name x
find ~ -name '*.txt'
find /usr -type f -exec cat {} +
find src ../beside
find src -newer /etc/hosts
find -L ..
find . -samefile /etc/hosts
tree ..
tree -L 2 /usr
du -sh ..
stat /etc/hosts
wc -l /etc/hosts
sort /etc/hosts
uniq /etc/hosts
cut -d: -f1 /etc/passwd
cut -f1 -d : /etc/passwd
paste a.txt /etc/hosts
join a.txt ../beside/x.txt
diff a.txt /etc/hosts
diff a.txt ../beside/x.txt
diff -r src ../beside
diff <(cat /etc/hosts) a.txt
cmp a.txt /etc/hosts
comm a.txt /etc/hosts
od -c /etc/hosts
strings /bin/ls
file /bin/ls
grep -R x outs
rg -L x outs
rg --follow x outs
find outs -exec cat {} +
find outs -type l -exec head {} \;
cat outs/*
cd src && cat ../../beside/x.txt | head
cd src; cat ../../beside/x.txt
cd src || cat ../beside/x.txt
cd missing; cat ../beside/x.txt
(cd src); cat ../beside/x.txt
cd src | cat ../beside/x.txt
echo $(cd src); cat ../beside/x.txt
if cd src; then ls; fi; cat ../beside/x.txt
! cd src; cat ../beside/x.txt
cd src & cat ../beside/x.txt
sed -n 1,5p /etc/hosts
date -r /etc/hosts
date --file=/etc/hosts
test -f /etc/hosts
[ -e ../beside/x.txt ]
[[ -f ../beside/x.txt ]]
true && cat /etc/hosts
cat a.txt | grep x - /etc/hosts
cat a.txt; cat /etc/hosts
{ cat /etc/hosts; }
if true; then cat /etc/hosts; fi
timeout 5 cat /etc/hosts
env cat /etc/hosts
command cat /etc/hosts
/bin/cat /etc/hosts
echo $(cat /etc/hosts)
echo "$(head /etc/hosts)"
cat /proc/cpuinfo
git diff --no-index /etc/hosts a.txt
git diff /etc/hosts /dev/null
git blame --contents /etc/hosts a.txt
git blame --contents=/etc/hosts a.txt
git grep --no-index x /usr/include
git grep x -- ../beside
git ls-files /
realpath /etc/hosts
readlink ../beside/x.txt
"#;

const SECRET: &str = r#"
find links -exec cat {} +
rg -L x links
grep -R x links
cat ~/.ssh/id_rsa
cat ../home/.ssh/id_rsa
cat to-home/.ssh/id_rsa
cat links/to-key
cat links/to*
cat links/*
cat ~/.ssh/*
cat ~/.s*/id_rsa
cat ~/.aws/credentials
cat ~/.config/gh/hosts.yml
cat ~/.claude/.credentials.json
cat ~/.netrc
cat ~/.npmrc
cat ~/.bash_history
cat /etc/shadow
cat /etc/sudoers
head /etc/ssh/ssh_host_rsa_key
cat /proc/self/environ
cat /proc/1/mem
cat /proc/*/environ
strings /proc/*/env*
cat app/.env
cat app/.e*
cat app/.env*
cat .env
cat .env.local
cat app/.ENV
cat src/../app/.env
cd app && cat .env
cd ~ && cat .netrc
cd /etc && cat shadow
cd .. && cat home/.ssh/id_rsa
cd ~/.ssh && ls
cd app; cat .env
ls ~/.ssh
ls -la ~/.aws
ls to-home/.ssh
head < ~/.ssh/id_rsa
cat < app/.env
cat ../segno/config.toml
cat ~/.docker/config.json
cat ~/.kube/config
cat ~/.gnupg/secring.gpg
cat id_rsa
grep KEY app/.env
grep -r "" ~
grep -r x ~
grep -r x ..
grep -r x /
grep -r x /etc
grep -r x /proc
grep -r KEY
grep -r KEY .
grep -rn KEY app
grep -d recurse KEY .
grep --recursive KEY app
grep --recu KEY app
grep -ie KEY -r app
grep -re KEY
egrep -r KEY app
grep -f app/.env a.txt
grep -fapp/.env a.txt
rg . ~
rg x /
rg x /etc
rg --hidden KEY
rg --hid KEY app
rg -. KEY app
rg -uu KEY
rg -uuu KEY app
rg --no-ignore KEY app
rg -g '.env' KEY
rg -g '*' KEY app
rg --glob=*env KEY app
rg KEY app/.env
find ~ -exec cat {} +
find / -exec cat {} +
find app -type f -exec cat {} \;
find ~/.ssh
find ~ -name id_rsa -exec cat {} \;
find . -newer app/.env
find links -name 'to*' -exec cat {} \;
diff -r app src
diff -r src app
diff --recursive src app
diff app/.env a.txt
diff -r ~ src
sort app/.env
wc -c app/.env
od -c app/.env
tac app/.env
sed -n 1,5p app/.env
git diff --no-index app/.env a.txt
git diff --no-index app src
git grep --no-index KEY
git show :app/.env
test -s ~/.ssh/id_rsa
tree ~/.ssh
stat ~/.aws/credentials
timeout 5 cat ~/.ssh/id_rsa
bash -c 'cat ~/.ssh/id_rsa'
bash -c "cd ~ && cat .ssh/id_rsa"
echo $(cat ~/.ssh/id_rsa)
cat a.txt ~/.ssh/id_rsa
cat a.txt && cat app/.env
true | cat ~/.netrc
"#;

/// Asks for another reason, which is fine; they must not run unasked.
const OTHERWISE: &str = r#"
base64 app/.env
grep -R KEY .
find -exec cat {} +
find . -type f -exec grep -n KEY {} +
find . -exec cat {} +
cd / && cat etc/shadow
bash -c 'cd / && cat etc/hosts'
cd / && cat etc/hosts
cd / && ls
rg . $HOME
grep -r "" "$HOME"
cat $HOME/.ssh/id_rsa
cat ${HOME}/.ssh/id_rsa
cd $HOME && cat .netrc
cd && cat .netrc
cd - && cat x
tar c ~/.ssh
tar cf - ~
cp ~/.ssh/id_rsa .
base64 ~/.ssh/id_rsa
python3 -c 'print(open("/etc/shadow").read())'
awk 1 /etc/shadow
sed p /etc/shadow
sed -n '/x/p' /etc/shadow
curl file:///etc/shadow
dd if=/etc/shadow
less /etc/shadow
cat {a,/etc/shadow}
for f in ~/.ssh/*; do cat $f; done
while cd ..; do cat etc/hosts; done
while read -r l; do echo $l; done < /etc/shadow
ls ~ | xargs cat
echo /etc/shadow | xargs cat
cat list | xargs cat
printf '%s\n' /etc/shadow | xargs -n 1 head
find . -name x | xargs grep x
xargs cat < list
sort --files0-from=list
find -files0-from list -exec cat {} +
file -f list
git -C / status
git --git-dir=/x log
git diff --textconv
printenv
env
eval "cat ~/.ssh/id_rsa"
source ~/.bashrc
cd a && cd b && cd c && cd d && cd e && cat x
tree --fromfile list
"#;

fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty())
}

async fn question(place: &Place, command: &str) -> Option<String> {
    let call = place.tool_call("bash", &json!({"command": command}).to_string());
    match place.tools.judge(&call).await {
        Verdict::Run(_) => None,
        Verdict::Ask { question, .. } => Some(question),
        Verdict::Refuse(output) | Verdict::NobodyToAsk { refused: output, .. } => {
            Some(format!("refused: {}", support::text(&output)))
        }
    }
}

/// Covers: G17.
#[tokio::test]
async fn commands_ask_when_their_paths_leave_the_project_or_reach_credentials() {
    let place = place(Mode::Ask);
    let mut wrong = Vec::new();
    for (table, said) in [
        (FREE, ""),
        (OUTSIDE, "outside of the project"),
        (SECRET, "may read credentials"),
        (OTHERWISE, "Run: "),
    ] {
        for command in rows(table) {
            let asked = question(&place, command).await;
            let right = match &asked {
                None => said.is_empty(),
                Some(question) => !said.is_empty() && question.contains(said),
            };
            if !right {
                wrong.push(format!("{command}\n    wanted {said:?}, found {asked:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows(FREE).count() + rows(OUTSIDE).count() + rows(SECRET).count() > 300);
}

/// The tools that read keep to the same rule. Covers: G17.
#[tokio::test]
async fn reading_tools_ask_when_they_leave_the_project_or_reach_credentials() {
    let place = place(Mode::Ask);
    let rows = [
        ("a.txt", ""),
        ("src/../a.txt", ""),
        ("inner/main.rs", ""),
        (".", ""),
        ("app", ""),
        ("app/.env.example", ""),
        ("missing", ""),
        ("..", "outside of the project"),
        ("../beside", "outside of the project"),
        ("../beside/x.txt", "outside of the project"),
        ("links/out", "outside of the project"),
        ("to-home", "outside of the project"),
        ("~", "outside of the project"),
        ("~/notes.txt", "outside of the project"),
        ("/", "outside of the project"),
        ("/etc/hosts", "outside of the project"),
        ("/tmp", "outside of the project"),
        ("/usr/include", "outside of the project"),
        ("app/.env", "credentials"),
        ("~/.ssh", "credentials"),
        ("~/.ssh/id_rsa", "credentials"),
        ("~/.config", "credentials"),
        ("~/.config/gh/hosts.yml", "credentials"),
        ("~/.claude", "credentials"),
        ("~/.netrc", "credentials"),
        ("links/to-key", "credentials"),
        ("to-home/.aws/credentials", "credentials"),
        ("/etc/shadow", "credentials"),
        ("/proc/self/environ", "credentials"),
        ("../segno/config.toml", "credentials"),
    ];
    for (path, said) in rows {
        for tool in ["read", "grep", "find", "ls"] {
            let mut arguments = json!({"path": path});
            if tool == "grep" {
                arguments["pattern"] = json!("x");
            }
            let call = place.tool_call(tool, &arguments.to_string());
            match place.tools.judge(&call).await {
                Verdict::Run(_) => assert_eq!(said, "", "{tool} {path} did not ask"),
                Verdict::Ask { question, .. } => {
                    assert!(!said.is_empty() && question.contains(said), "{path}: {question}");
                }
                Verdict::Refuse(output) | Verdict::NobodyToAsk { refused: output, .. } => {
                    panic!("{tool} {path}: {}", support::text(&output))
                }
            }
        }
    }
}

/// What the modes do with the three kinds, and how far an answer for the session reaches.
#[tokio::test]
async fn modes_and_answers_for_reads() {
    let rows = [
        (Mode::ReadOnly, "cat a.txt", "runs"),
        (Mode::ReadOnly, "cat ../beside/x.txt", "asks"),
        (Mode::ReadOnly, "cat app/.env", "refused"),
        (Mode::Edits, "cat ../beside/x.txt", "asks"),
        (Mode::Edits, "cat app/.env", "asks"),
        (Mode::All, "cat ../beside/x.txt", "runs"),
        (Mode::All, "cat app/.env", "runs"),
    ];
    for (mode, command, expected) in rows {
        let asked = question(&place(mode), command).await;
        let found = match asked.as_deref() {
            None => "runs",
            Some(asked) if asked.starts_with("refused") => "refused",
            Some(_) => "asks",
        };
        assert_eq!(found, expected, "{mode:?} {command}: {asked:?}");
    }
    let yes = Scripted::new(Reply::Session);
    let place = Place::with(Mode::Ask, Some(yes.clone()), &[]);
    place.file("../beside/deep/x.txt", "x\n");
    place.file("../beside/.env", "KEY=1\n");
    let calls = [
        ("ls", json!({"path": "../beside"}), 1),
        ("read", json!({"path": "../beside/deep/x.txt"}), 1),
        ("bash", json!({"command": "cat ../beside/deep/x.txt"}), 1),
        ("read", json!({"path": "../beside/.env"}), 2),
        ("bash", json!({"command": "cat ../beside/.env"}), 3),
        ("ls", json!({"path": ".."}), 4),
    ];
    for (tool, arguments, asked) in calls {
        place.call(tool, &arguments.to_string()).await;
        assert_eq!(yes.asked(), asked, "{tool} {arguments}");
    }
}
