use super::{Cli, Endpoints};
use amita_terminal::error::Kind;
use clap::{CommandFactory, Parser};

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn endpoints_are_split_and_missing_ones_are_said() {
    let endpoints = Endpoints::of("http://a:1, http://b:2,");
    assert_eq!(
        endpoints.list(),
        Ok(vec!["http://a:1".to_owned(), "http://b:2".to_owned()])
    );
    assert!(
        Endpoints::default()
            .list()
            .expect_err("none")
            .advice
            .contains("AMITA_METADATA")
    );
    assert!(Endpoints::of(" ,").list().is_err());
}

#[test]
fn metadata_on_other_machines_is_not_spoken_to_plainly_unless_told_to() {
    let other = Endpoints::of("192.0.2.1:2379");
    let refused = other.connect().expect_err("no identity");
    assert!(refused.what.contains("--insecure-network"), "{}", refused.what);
    let told = Endpoints {
        insecure_network: true,
        ..other
    };
    assert!(told.connect().is_ok());
    assert!(Endpoints::of("127.0.0.1:2379").connect().is_ok());
}

#[test]
fn a_volume_of_no_whole_blocks_is_refused_at_the_command_line() {
    let error = Cli::try_parse_from(["amita", "volume", "create", "v", "--pool", "p", "--size", "10000"])
        .expect_err("no multiple of 4096");
    assert!(error.to_string().contains("12288"), "{error}");
}

/// A script that asks for JSON gets its errors as JSON, those of the command line too; a person does not.
#[test]
fn a_wrong_command_line_is_told_as_it_was_asked_for() {
    let read = |line: &str| super::read(line.split(' ').map(Into::into));
    let Err(super::Unread::Json(failure)) = read("amita volume create v --pool p --size 10000 --json") else {
        panic!("JSON was asked for");
    };
    assert_eq!((failure.kind, failure.code), (Kind::Usage, "usage"));
    assert!(
        failure.what.contains("12288") && !failure.what.starts_with("error"),
        "{failure:?}"
    );
    let said: serde_json::Value = serde_json::from_str(&failure.json()).expect("JSON");
    assert_eq!(
        (&said["error"]["exit"], &said["error"]["code"]),
        (&2.into(), &"usage".into())
    );
    let Err(super::Unread::Json(failure)) = read("amita volume crate --json") else {
        panic!("JSON was asked for");
    };
    assert!(failure.advice.contains("create"), "{failure:?}");
    assert!(matches!(read("amita volume crate"), Err(super::Unread::Told(_))));
    assert!(matches!(
        read("amita status --json --help"),
        Err(super::Unread::Told(_))
    ));
}

#[test]
fn json_is_seen_wherever_it_was_given() {
    let wants = |line: &str| {
        let read = super::read(line.split(' ').map(Into::into));
        read.unwrap_or_else(|why| panic!("{line}: {why:?}")).1
    };
    for command in [
        "amita status --json",
        "amita volume snapshot list v --json",
        "amita cluster finalize --json",
        "amita explain --json",
    ] {
        assert!(wants(command), "{command}");
        assert!(!wants(command.trim_end_matches(" --json")), "{command}");
    }
}

/// A change tells a script what it has done; these serve, or show themselves.
#[test]
fn every_command_but_those_that_serve_knows_json() {
    fn without(command: &clap::Command, name: &str, found: &mut Vec<String>) {
        let subs: Vec<&clap::Command> = command.get_subcommands().collect();
        let has = command.get_arguments().any(|argument| argument.get_id() == "json");
        // One that is a group and a command as well has it as a command.
        if subs.is_empty() && !has {
            found.push(name.to_owned());
        }
        for sub in subs {
            without(sub, format!("{name} {}", sub.get_name()).trim_start(), found);
        }
    }
    let mut found = Vec::new();
    without(&Cli::command(), "", &mut found);
    assert_eq!(
        found,
        [
            "serve",
            "meta",
            "ca serve",
            "csi controller",
            "csi node",
            "audit ship",
            "completions",
            "demo"
        ]
    );
}

/// A change that changes nothing is a mistake, and the usage says what is missing.
#[test]
fn a_change_of_nothing_is_refused_with_what_could_be_changed() {
    for (line, could) in [
        ("amita pool set p", "--copies"),
        ("amita pool set p --force --json", "--failure-domain"),
        ("amita subsystem set s", "--any-host"),
        ("amita host key nqn.2014-08.org.example:h", "--generate-tls"),
        ("amita target set t", "--any-initiator"),
        ("amita initiator key iqn.2014-08.org.example:i", "--generate-chap"),
    ] {
        let error = Cli::try_parse_from(line.split(' ')).expect_err(line).to_string();
        assert!(error.contains("required") && error.contains(could), "{line}: {error}");
        assert!(!error.contains("<NAME|"), "{line}: {error}");
    }
}

/// What cannot be had back asks on a terminal, and can be told not to.
#[test]
fn what_destroys_can_be_told_not_to_ask() {
    for line in [
        "amita volume delete v --now --yes",
        "amita volume purge v --yes",
        "amita pool delete p --yes",
        "amita pool set p --copies 2 --yes",
        "amita node remove n --yes",
        "amita disk forget 0123 --yes",
        "amita disk format /dev/x --force --yes",
        "amita subsystem delete s --force --yes",
        "amita target delete t --force --yes",
    ] {
        assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
    }
}

#[test]
fn a_status_is_checked_or_watched_and_not_both() {
    for line in ["amita status --check --watch", "amita status --check --json"] {
        assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
    }
    assert!(Cli::try_parse_from(["amita", "status", "-w", "--json"]).is_ok());
}

#[test]
fn keep_and_stop_need_a_folder() {
    assert!(Cli::try_parse_from(["amita", "demo", "--keep"]).is_err());
    assert!(Cli::try_parse_from(["amita", "demo", "--stop"]).is_err());
    assert!(Cli::try_parse_from(["amita", "demo", "--keep", "--stop", "--dir", "x"]).is_err());
    assert!(Cli::try_parse_from(["amita", "demo", "--keep", "--dir", "x", "--nodes", "4", "--size", "1G"]).is_ok());
}

/// Keys are in every process of ours: only those that serve can be asked for a dump, and the demo throws its keys away.
#[test]
fn commands_leave_no_core_dump_unless_asked_for() {
    let dumps = |line: &str| {
        let cli = Cli::try_parse_from(line.split(' ')).expect("a command");
        cli.command.core_dumps().core_dumps
    };
    for command in [
        "amita serve",
        "amita meta",
        "amita ca serve --ca x --listen 127.0.0.1:1",
    ] {
        assert!(!dumps(command), "{command}");
        assert!(dumps(&format!("{command} --core-dumps")), "{command}");
    }
    for command in [
        "amita cluster init --ca x --identity y",
        "amita ca show --ca x",
        "amita ca rotate --ca x",
        "amita cert revoke n1 --ca x",
        "amita cert renew --ca x",
        "amita node token n1 --ca x",
        "amita node join n1 --ca-server a:1 --token-file x",
        "amita operator create eve --ca x",
        "amita audit list --ca x",
        "amita status",
    ] {
        assert!(!dumps(command), "{command}");
    }
}

/// The reference of all commands is made from their definitions; this test keeps the file and the program together.
#[test]
fn the_reference_of_the_commands_is_up_to_date() {
    let mut text = String::from(
        "# The commands\n\nMade from the program's own definitions; \
         `UPDATE_DOCS=1 cargo test -p amita reference` writes it anew.\n",
    );
    describe(&mut Cli::command().term_width(100), "amita", &mut text);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/commands.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).expect("written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == text,
        "docs/operating/commands.md is not what the program says: run this with UPDATE_DOCS=1"
    );
}

/// The kinds of events are defined once; the page about them is made from that.
#[test]
fn the_reference_of_the_events_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/events.md");
    let written = std::fs::read_to_string(path).expect("the page is there");
    let (before, rest) = written.split_once("<!-- kinds -->\n").expect("where the kinds begin");
    let (_, after) = rest.split_once("<!-- end -->\n").expect("where they end");
    let table = crate::commands::events::table().markdown();
    let text = format!("{before}<!-- kinds -->\n{table}<!-- end -->\n{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).expect("written");
    } else {
        assert!(
            written == text,
            "docs/operating/events.md is not what the program says: run this with UPDATE_DOCS=1"
        );
    }
}

/// So are the kinds of facts that `amita status` tells.
#[test]
fn the_reference_of_the_facts_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/health.md");
    let written = std::fs::read_to_string(path).expect("the page is there");
    let (before, rest) = written.split_once("<!-- facts -->\n").expect("where the facts begin");
    let (_, after) = rest.split_once("<!-- end -->\n").expect("where they end");
    let table = crate::commands::status::kinds().markdown();
    let text = format!("{before}<!-- facts -->\n{table}<!-- end -->\n{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).expect("written");
    } else {
        assert!(
            written == text,
            "docs/operating/health.md is not what the program says: run this with UPDATE_DOCS=1"
        );
    }
}

/// And the table of who may what.
#[test]
fn the_reference_of_the_actions_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/audit.md");
    let written = std::fs::read_to_string(path).expect("the page is there");
    let (before, rest) = written
        .split_once("<!-- actions -->\n")
        .expect("where the actions begin");
    let (_, after) = rest.split_once("<!-- end -->\n").expect("where they end");
    let table = crate::commands::audit::actions().markdown();
    let text = format!("{before}<!-- actions -->\n{table}<!-- end -->\n{after}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).expect("written");
    } else {
        assert!(
            written == text,
            "docs/operating/audit.md is not what the program says: run this with UPDATE_DOCS=1"
        );
    }
}

fn describe(command: &mut clap::Command, name: &str, text: &mut String) {
    // Values of this machine's environment are no part of a reference.
    let mut shown = command.clone().mut_args(|argument| argument.hide_env_values(true));
    shown = shown.bin_name(name);
    let help = shown.render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    text.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n")));
    let names: Vec<String> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for sub in names.iter().filter(|sub| *sub != "help") {
        if let Some(found) = command.find_subcommand_mut(sub) {
            describe(found, &format!("{name} {sub}"), text);
        }
    }
}
