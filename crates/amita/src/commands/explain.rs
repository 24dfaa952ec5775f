//! `amita explain`: the words that a status, an event, an error or the audit log has: what each means, and what to do about it.

use amita_control::access::{Action, Role};
use amita_control::nearest::nearest;
use amita_control::{admin, events, health};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::{Table, print};
use serde::Serialize;

/// `amita explain`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The word, as it was shown: pool-near-full, node-gone, volume.delete, volume-in-use, ... [default: all, a line each]
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// Of what sort a word is. The same word may be of several: each has its own meaning then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sort {
    /// What is so.
    Fact,
    /// What happened.
    Event,
    /// What somebody did.
    Action,
    /// What an inspection finds.
    Finding,
    /// Why a command failed.
    Error,
    /// Why a request to the API was refused.
    Problem,
}

impl Sort {
    fn text(self) -> &'static str {
        match self {
            Sort::Fact => "fact",
            Sort::Event => "event",
            Sort::Action => "action",
            Sort::Finding => "finding",
            Sort::Error => "error",
            Sort::Problem => "problem",
        }
    }
}

/// A word of one sort.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Explained {
    pub code: &'static str,
    pub sort: Sort,
    /// How much it matters, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    pub meaning: &'static str,
    /// What to do.
    pub advice: String,
    /// Where it is seen.
    pub seen_in: &'static str,
}

/// Explains a word, or lists all.
///
/// # Errors
/// There is no such word.
pub fn run(arguments: &Arguments) -> Result<()> {
    let all = all();
    let Some(code) = &arguments.code else {
        return print(arguments.json, &all, || list(&all));
    };
    let found: Vec<&Explained> = all.iter().filter(|known| known.code == *code).collect();
    if found.is_empty() {
        return Err(unknown(code, &all));
    }
    print(arguments.json, &found, || {
        let texts: Vec<String> = found.iter().map(|known| text(known)).collect();
        texts.join("\n")
    })
}

fn unknown(code: &str, all: &[Explained]) -> Failure {
    let mut words: Vec<&str> = all.iter().map(|known| known.code).collect();
    words.dedup();
    let advice = match nearest(code, words).as_slice() {
        [] => "`amita explain` lists all that there are.".to_owned(),
        near => format!("Near are {}. `amita explain` lists all.", near.join(", ")),
    };
    Failure::new(format!("no status, event, error or action is called {code:?}"))
        .kind(Kind::NotFound)
        .advice(advice)
}

fn text(known: &Explained) -> String {
    let severity = known
        .severity
        .as_ref()
        .map_or_else(String::new, |severity| format!(", {severity}"));
    format!(
        "{} ({}{severity})\n  {}\n  What to do: {}\n  Seen in: {}\n",
        known.code,
        known.sort.text(),
        known.meaning,
        known.advice,
        known.seen_in
    )
}

fn list(all: &[Explained]) -> String {
    let mut table = Table::new(&["code", "what", "meaning"]);
    for known in all {
        table.row([
            known.code.to_owned(),
            known.sort.text().to_owned(),
            known.meaning.to_owned(),
        ]);
    }
    table.text()
}

/// All words, in the order of the alphabet; the same word of several sorts stands together.
pub(crate) fn all() -> Vec<Explained> {
    let mut all: Vec<Explained> = facts()
        .chain(events())
        .chain(actions())
        .chain(findings())
        .chain(errors())
        .chain(problems())
        .collect();
    all.sort_by_key(|known| (known.code, known.sort));
    all
}

fn facts() -> impl Iterator<Item = Explained> {
    health::Kind::ALL.iter().map(|kind| Explained {
        code: kind.name(),
        sort: Sort::Fact,
        severity: Some(kind.severity().to_string()),
        meaning: kind.meaning(),
        advice: kind.advice().to_owned(),
        seen_in: "`amita status`, for as long as it is so",
    })
}

fn events() -> impl Iterator<Item = Explained> {
    events::Kind::ALL.iter().map(|kind| Explained {
        code: kind.name(),
        sort: Sort::Event,
        severity: Some(kind.severity().to_string()),
        meaning: kind.meaning(),
        advice: kind.advice().to_owned(),
        seen_in: "`amita events`, once for each time that it happens",
    })
}

fn actions() -> impl Iterator<Item = Explained> {
    Action::ALL.iter().map(|action| {
        let roles: Vec<&str> = action.roles().iter().map(|role| role.text()).collect();
        Explained {
            code: action.name(),
            sort: Sort::Action,
            severity: None,
            meaning: action.meaning(),
            advice: match action.roles() {
                [Role::Mirror] => {
                    "It is done by a mirror's other end, with the token that it was given, and by nobody else."
                        .to_owned()
                }
                _ => format!(
                    "It may be done by these roles: {}. `amita operator create --role` gives one.",
                    roles.join(", ")
                ),
            },
            seen_in: match action.only_reads() {
                true => "errors that say who may not",
                false => "`amita audit list`, with who did it, to what, and what came of it",
            },
        }
    })
}

fn findings() -> impl Iterator<Item = Explained> {
    amita_inspect::Code::ALL.iter().map(|code| Explained {
        code: code.name(),
        sort: Sort::Finding,
        severity: Some(code.severity().to_string()),
        meaning: code.meaning(),
        advice: code.mend().to_owned(),
        seen_in: "`amita inspect`, for as long as it is so",
    })
}

fn problems() -> impl Iterator<Item = Explained> {
    amita_api::Code::ALL.iter().map(|code| Explained {
        code: code.text(),
        sort: Sort::Problem,
        severity: None,
        meaning: code.meaning(),
        advice: what_to_do(code.text()).to_owned(),
        seen_in: "`code` of answers of the REST API",
    })
}

/// What a client of the API does about a problem; its `detail` says it of the very thing. Nothing: a code that has nothing here, which a
/// test finds.
fn what_to_do(problem: &str) -> &'static str {
    match problem {
        "bad-request" | "method-not-allowed" => "Look the request up in the API's description.",
        "bad-setting" => "The detail says what would be right.",
        "unauthenticated" => "Send a token, or come with a client certificate.",
        "denied" => "An admin gives roles (`amita operator create --role`), or a token of another role.",
        "cross-site" => "Ask from the page of the node itself, or by a program that is no browser.",
        "misdirected" => "Ask by the name or the address that the node serves the API at.",
        "not-found" => "Look at the names that are near; the collection has all of them.",
        "exists" => "Choose another name, or use what is there.",
        "in-use" => "The detail says what is in the way.",
        "no-room" => "Delete what is not needed, or raise the quota (`amita pool quota`).",
        "wrong-state" => "The detail says what it waits for; try again then.",
        "ambiguous" => "Say which by its number.",
        "cannot-place" => "Add stores or nodes, or ask for fewer copies or a smaller failure domain.",
        "raced" => "Try again.",
        "changed" => "Read it again, look whether the change is still wanted, and send the new `If-Match`.",
        "needs-if-match" => "Read it, and send its `ETag` as `If-Match`.",
        "in-progress" => "Wait, and send the same request with the same key again.",
        "key-reused" => "Make a new key for each request; the same key is only for the same request again.",
        "incomplete" => "Send the whole image again, from its beginning.",
        "too-large" => "Send less at once.",
        "too-many" => "Wait a moment, and send fewer at a time.",
        "not-in-time" => "See `amita status`, look whether it was done after all, and try again.",
        "metadata-away" => "Look whether the change was made, then try again; see whether the metadata runs.",
        "suspect" => "`amita explain metadata-older` says what to do.",
        "internal" => "See the node's log, and report it.",
        _ => "",
    }
}

/// Those of changes that were refused, and those of commands that have no word of their own.
fn errors() -> impl Iterator<Item = Explained> {
    let error = |code: &'static str, meaning: &'static str, advice: &str| Explained {
        code,
        sort: Sort::Error,
        severity: None,
        meaning,
        advice: advice.to_owned(),
        seen_in: "`error.code` of commands with `--json`",
    };
    let own = admin::Code::ALL
        .iter()
        .map(move |code| error(code.name(), code.meaning(), code.advice()));
    let has_own = |kind: &&Kind| admin::Code::ALL.iter().all(|code| code.name() != kind.name());
    let kinds = Kind::ALL
        .iter()
        .filter(has_own)
        .map(move |kind| error(kind.name(), kind.meaning(), kind.advice()));
    let asked = error(
        "not-confirmed",
        "Whoever was asked whether to go on did not write the name: nothing was done.",
        "Give the command again and write the name, or give `--yes`.",
    );
    let of_backups = [
        (
            "repository-full",
            "The backup repository has no room.",
            "Make room, or have old points given up, and do it again: what was put is not sent once more.",
        ),
        (
            "repository-failed",
            "The backup repository refuses what it is asked, or its journal is damaged.",
            "The message says what of it; `amita backup verify` says what else is damaged.",
        ),
        (
            "repository-replaced",
            "The vault is not what it was at the last backup: it was set back, or another one is in its place.",
            "Look at the repository before anything is put there: `amita backup run --full` goes on in what is there now.",
        ),
        (
            "session-over",
            "Somebody took this process for dead while it was at work in the backup repository.",
            "Do it again: what was put is not sent once more.",
        ),
        (
            "volume-being-backed-up",
            "Somebody else backs the volume up into this vault.",
            "Wait for it; where its process is dead for certain, `--fence` takes it for dead.",
        ),
    ];
    let of_backups = of_backups.map(|(code, meaning, advice)| error(code, meaning, advice));
    own.chain(kinds).chain([asked]).chain(of_backups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn every_word_says_what_it_means_and_what_to_do() {
        let all = all();
        let kinds = health::Kind::ALL.len() + events::Kind::ALL.len() + Action::ALL.len() + admin::Code::ALL.len();
        assert!(all.len() > kinds, "{} words", all.len());
        for known in &all {
            assert!(known.meaning.ends_with('.'), "{known:?}");
            assert!(known.advice.ends_with('.'), "{known:?}");
            assert!(!known.seen_in.is_empty(), "{known:?}");
        }
    }

    /// Words that mean one thing as a fact and another as an event are all shown, each with its sort; no sort has a word twice.
    #[test]
    fn a_word_of_several_sorts_says_so() {
        let all = all();
        let mut sorts: BTreeMap<&str, BTreeSet<Sort>> = BTreeMap::new();
        for known in &all {
            assert!(
                sorts.entry(known.code).or_default().insert(known.sort),
                "{} is there twice as {}",
                known.code,
                known.sort.text()
            );
        }
        let several: Vec<&str> = sorts
            .iter()
            .filter(|(_, sorts)| sorts.len() > 1)
            .map(|(code, _)| *code)
            .collect();
        // Those that there are, so that another one is thought about.
        assert_eq!(
            several,
            [
                "ambiguous",
                "bad-setting",
                "cannot-place",
                "changed",
                "channel-fails",
                "denied",
                "disk-aging",
                "disk-failing",
                "exists",
                "job-paused",
                "metadata-away",
                "metadata-older",
                "network-sick",
                "policy-fails",
                "pool-fills",
                "record-unreadable",
                "rule-unmet"
            ]
        );
    }

    #[test]
    fn a_wrong_word_is_told_what_is_near_and_not_everything() {
        let refused = run(&Arguments {
            code: Some("pool-near-ful".to_owned()),
            json: false,
        });
        let refused = refused.expect_err("no such word");
        assert_eq!(refused.kind, Kind::NotFound);
        assert!(refused.advice.contains("pool-near-full"), "{refused}");
        assert!(!refused.advice.contains("volume.create"), "{refused}");
        assert!(unknown("qqqqqq", &all()).advice.starts_with("`amita explain` lists"));
    }
}
