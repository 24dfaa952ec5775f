use super::*;
use std::collections::BTreeSet;

#[test]
fn every_rule_has_a_mutant_or_is_known_to_have_none() {
    let all = all();
    let names: BTreeSet<&str> = all.iter().map(|mutant| mutant.name).collect();
    assert_eq!(names.len(), all.len(), "two mutants of one name");
    let rules: BTreeSet<&str> = all.iter().map(|mutant| mutant.rule).collect();
    let numbers = |letter: &str, last: u32| (1..=last).map(|n| format!("{letter}{n}")).collect::<Vec<_>>();
    for rule in numbers("R", 12).into_iter().chain(numbers("D", 8)) {
        let none = crate::scenarios::NOT_YET.iter().any(|(missing, _)| *missing == rule);
        assert!(rules.contains(rule.as_str()) != none, "{rule}");
    }
}

#[cfg(feature = "planted")]
#[test]
fn a_fault_is_found_and_the_seed_finds_it_again() {
    let all = all();
    let early = all
        .iter()
        .find(|mutant| mutant.name == "answer-at-once")
        .expect("it is listed");
    let found = early.search(200, 1).expect("it is found");
    assert!(early.run(found.seed, false).failure.is_some());
}
