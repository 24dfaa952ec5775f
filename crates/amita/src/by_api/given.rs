//! How a command line was given: which command it is, which of its arguments were written out, and by what the cluster is reached.

use super::table::sends;
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::collections::BTreeSet;
use std::ffi::OsString;

/// Where something comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// It was not given.
    #[default]
    None,
    /// By the environment.
    Environment,
    /// By the command line.
    Flag,
}

impl Source {
    fn of(matches: &ArgMatches, id: &str) -> Source {
        match matches.value_source(id) {
            Some(ValueSource::CommandLine) => Source::Flag,
            // A variable that is empty says nothing.
            Some(ValueSource::EnvVariable) if !is_empty(matches, id) => Source::Environment,
            _ => Source::None,
        }
    }
}

fn is_empty(matches: &ArgMatches, id: &str) -> bool {
    let text = matches.get_one::<String>(id);
    text.is_none_or(|text| text.trim().is_empty())
}

/// How a command line was given.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The command's words: `volume create`.
    pub command: String,
    /// Its arguments that were written out, by their ids.
    pub written: BTreeSet<String>,
    /// The files that are sent with it, by the flags that name them.
    pub files: Vec<(String, OsString)>,
    /// Where the nodes' addresses come from,
    pub by_api: Source,
    /// and where the metadata's.
    pub metadata: Source,
}

impl Given {
    /// As clap has read it.
    #[must_use]
    pub fn of(matches: &ArgMatches) -> Given {
        let mut given = Given {
            by_api: Source::of(matches, "by_api"),
            metadata: Source::of(matches, "metadata"),
            ..Given::default()
        };
        let (mut words, mut last) = (Vec::new(), matches);
        while let Some((word, inner)) = last.subcommand() {
            words.push(word);
            last = inner;
        }
        given.command = words.join(" ");
        let ids = last.ids().map(clap::Id::as_str);
        let written = ids.filter(|id| last.value_source(id) == Some(ValueSource::CommandLine));
        given.written = written.map(str::to_owned).collect();
        for id in sends(&given.command) {
            let raw = last.try_get_raw(id).ok().flatten();
            let named = raw.into_iter().flatten().filter(|_| given.written.contains(*id));
            let flag = format!("--{}", id.replace('_', "-"));
            given.files.extend(named.map(|path| (flag.clone(), path.to_owned())));
        }
        given
    }
}

/// The words of a command line without the program's name and without the options that every command has: what a node is sent.
///
/// # Errors
/// A word that is no text.
pub fn bare(words: &[OsString], globals: &[Global]) -> Result<Vec<String>, OsString> {
    let mut words = words.iter().skip(1);
    let mut bare = Vec::new();
    let mut all_are_values = false;
    while let Some(word) = words.next() {
        let text = word.to_str().ok_or_else(|| word.clone())?;
        if !all_are_values {
            all_are_values = text == "--";
            let (name, has_value) = match text.split_once('=') {
                Some((name, _)) => (name, true),
                None => (text, false),
            };
            if let Some(global) = globals.iter().find(|global| global.flag == name) {
                if global.takes_value && !has_value {
                    words.next();
                }
                continue;
            }
        }
        bare.push(text.to_owned());
    }
    Ok(bare)
}

/// An option that every command has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// What clap knows it by.
    pub id: String,
    /// As it is written: `--metadata`.
    pub flag: String,
    /// A word follows.
    pub takes_value: bool,
}

/// All of them.
#[must_use]
pub fn globals(root: &clap::Command) -> Vec<Global> {
    let own = root.get_arguments().filter(|argument| argument.is_global_set());
    let described = own.filter_map(|argument| {
        Some(Global {
            id: argument.get_id().to_string(),
            flag: format!("--{}", argument.get_long()?),
            takes_value: argument.get_action().takes_values(),
        })
    });
    described.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{self, Cli};
    use clap::CommandFactory as _;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn what_every_command_has_is_taken_out_wherever_it_stands() {
        let globals = globals(&Cli::command());
        assert!(globals.len() >= 9, "{globals:?}");
        let bare = |line: &str| super::bare(&words(line), &globals).expect("text").join(" ");
        for line in [
            "amita --by-api a:1 volume create db --pool p --size 1G",
            "amita volume --by-api=a:1,b:2 create db --pool p --size 1G",
            "amita volume create db --pool p --size 1G --by-api a:1 --identity x --log debug",
            "amita --insecure-network volume create db --pool p --size 1G --api-token-file t --api-authority=x",
        ] {
            assert_eq!(bare(line), "volume create db --pool p --size 1G", "{line}");
        }
        // Behind two hyphens everything is a value.
        assert_eq!(bare("amita volume show -- --log"), "volume show -- --log");
        let mut bad = words("amita volume show");
        bad.push(std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]));
        assert!(super::bare(&bad, &globals).is_err());
    }

    #[test]
    fn a_command_is_known_by_its_words_and_what_was_written() {
        let given = |line: &str| {
            let read = cli::read(words(line)).unwrap_or_else(|why| panic!("{line}: {why:?}"));
            read.0.given
        };
        let found = given("amita volume snapshot create v s --by-api a:1");
        assert_eq!(
            (found.command.as_str(), found.by_api),
            ("volume snapshot create", Source::Flag)
        );
        assert!(
            found.written.contains("volume") && !found.written.contains("timeout"),
            "{found:?}"
        );
        let found = given("amita --metadata b:2 disk list /dev/x");
        assert_eq!((found.command.as_str(), found.metadata), ("disk list", Source::Flag));
        assert!(found.written.contains("paths"), "{found:?}");
        assert_eq!(given("amita recover --from x").command, "recover");
    }
}
