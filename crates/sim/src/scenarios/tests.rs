use super::*;

#[test]
fn names_are_different_and_start_with_a_rule() {
    let names: Vec<&str> = all().iter().map(|scenario| scenario.name).collect();
    let mut unique = names.clone();
    unique.dedup();
    assert_eq!(names, unique);
    for name in names {
        let rule = name.split([':', ' ']).next().unwrap_or_default();
        assert!(
            rule.starts_with(['R', 'D', 'I']) && rule[1..].parse::<u32>().is_ok(),
            "{name}"
        );
    }
}

/// Every scenario, with few seeds where the rule holds and as many as it needs where the rule is switched off.
#[test]
fn every_scenario_holds() {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut wrong = Vec::new();
    for scenario in all() {
        let verdict = scenario.play(scenario.seeds, jobs);
        if !verdict.holds() {
            wrong.push(format!("{}: {:?}", scenario.name, verdict.with_rule.failures));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
