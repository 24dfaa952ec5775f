//! The largest numbers, times and sizes that a command can be given.

use super::*;
use crate::by_api::table::{Way, tests as table, way};
use clap::builder::ValueParser;
use std::any::TypeId;
use std::time::{SystemTime, UNIX_EPOCH};

/// The largest of each type, and what is one more than can be.
const LARGEST: &[&str] = &[
    "255",
    "65535",
    "86400",
    "4294967295",
    "18446744073709547520",
    "18446744073709551615",
    "16383P",
    "36500d",
    "36501d",
    "213503982334601d",
    "18446744073709551615s",
];

fn is_number(parser: &ValueParser) -> bool {
    let numbers = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
        TypeId::of::<f64>(),
        TypeId::of::<Duration>(),
    ];
    numbers.iter().any(|number| parser.type_id() == *number)
}

/// The arguments that are numbers, of all commands that nodes carry out.
fn numbers() -> Vec<(String, clap::Command, clap::Arg)> {
    let mut found = Vec::new();
    for (name, command) in table::commands() {
        if !matches!(way(&name), Some(Way::Node(..))) {
            continue;
        }
        for argument in command.get_arguments().filter(|one| is_number(one.get_value_parser())) {
            found.push((name.clone(), command.clone(), argument.clone()));
        }
    }
    found
}

/// A command line that gives this argument this value, and whatever else it has to have.
fn line(name: &str, command: &clap::Command, argument: &clap::Arg, value: &str) -> String {
    let mut words = vec![name.to_owned()];
    for one in command.get_arguments() {
        let is_it = one.get_id() == argument.get_id();
        if !is_it && !one.is_required_set() {
            continue;
        }
        if let Some(long) = one.get_long() {
            words.push(format!("--{long}"));
        }
        let first = one
            .get_possible_values()
            .first()
            .map(|first| first.get_name().to_owned());
        words.push(match is_it {
            true => value.to_owned(),
            false if is_number(one.get_value_parser()) => "4096".to_owned(),
            false => first.unwrap_or_else(|| "x".to_owned()),
        });
    }
    words.join(" ")
}

#[test]
fn no_age_is_so_long_that_it_cannot_be_counted_from_now_on() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
    let (mut ages, mut taken) = (0, 0);
    for (name, _, argument) in numbers() {
        let parser = argument.get_value_parser().clone();
        // A latency target is no age, and at most seconds.
        if parser.type_id() != TypeId::of::<Duration>() || argument.get_id() == "latency_target" {
            continue;
        }
        ages += 1;
        let alone = clap::Command::new("alone")
            .no_binary_name(true)
            .arg(clap::Arg::new("value").value_parser(parser));
        for text in LARGEST {
            let Ok(read) = alone.clone().try_get_matches_from([*text]) else {
                continue;
            };
            let age: Duration = *read.get_one::<Duration>("value").expect("a value");
            assert!(now.checked_add(age).is_some(), "{name}: {text}");
            assert!(SystemTime::now().checked_add(age).is_some(), "{name}: {text}");
            assert!(Instant::now().checked_add(age).is_some(), "{name}: {text}");
            taken += 1;
        }
    }
    assert!(ages >= 5, "{ages}");
    assert_eq!(taken, ages, "each takes a hundred years, and no more");
}

#[test]
fn a_snapshot_is_waited_for_up_to_a_day() {
    let world = World::new();
    for command in ["volume snapshot create none s", "volume snapshot create-set s none"] {
        for wrong in ["0", "86401", "18446744073709551615"] {
            let line = format!("{command} --timeout {wrong}");
            let refused = world.run_as(OperatorRole::Viewer, &line, None, None);
            assert_eq!(refused.exit_code, Kind::Usage.code(), "{line}: {refused:?}");
            assert!(refused.stderr.contains("86400"), "{line}: {refused:?}");
        }
        let longest = format!("{command} --timeout 86400");
        let missed = world.run(&longest);
        assert!(
            missed.exit_code != 0 && !missed.stderr.contains("86400"),
            "{longest}: {missed:?}"
        );
    }
}

/// Whoever may only look, and whoever may all: a panic would end this test.
#[test]
fn no_number_ends_the_node_that_is_given_it() {
    let world = World::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    let (mut given, mut refused) = (0, 0);
    for (name, command, argument) in numbers() {
        for value in LARGEST {
            let line = line(&name, &command, &argument, value);
            for role in [OperatorRole::Viewer, OperatorRole::Admin] {
                let outcome = world.run_as(role, &line, None, Some(now + 3600));
                given += 1;
                if outcome.exit_code != 0 {
                    assert!(!(outcome.stderr + &outcome.stdout).is_empty(), "{line}");
                    refused += 1;
                }
            }
        }
    }
    assert!(given > 200 && refused > given / 2, "{given}, {refused}");
    // Nothing of it is in the way of what comes afterwards.
    world.done("volume list");
}
