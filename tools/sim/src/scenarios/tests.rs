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
            rule.starts_with(['R', 'D', 'I', 'S', 'M', 'P']) && rule[1..].parse::<u32>().is_ok(),
            "{name}"
        );
    }
}

#[test]
fn another_coordinator_follows_one_that_died() {
    let all = all();
    let scenario = all
        .iter()
        .find(|scenario| scenario.name.ends_with("the coordinator's node dies"))
        .expect("it is listed");
    let seeds = 10;
    let coverage = scenario.judge(seeds, seeds, 1).with_rule.coverage;
    assert!(coverage.count("coordinator.elected") >= 2 * seeds, "{coverage}");
    assert!(coverage.count("coordinator.evicted") > seeds, "{coverage}");
}

#[test]
fn a_slow_store_is_found_and_leaves() {
    let all = all();
    let scenario = all
        .iter()
        .find(|scenario| scenario.name.ends_with("that is slow leaves, and comes back"))
        .expect("it is listed");
    let seeds = 4;
    let verdict = scenario.judge(seeds, seeds, 2);
    assert!(verdict.holds(), "{verdict:#?}");
    let coverage = verdict.with_rule.coverage;
    assert!(coverage.count("node.slow_store") >= seeds, "{coverage}");
    assert!(coverage.count("coordinator.evicted_slow") > 0, "{coverage}");
}

/// A run says nothing of clones where none was read, or where what they have was compared with nothing.
#[test]
fn clones_are_looked_at() {
    let all = all();
    let scenario = all
        .iter()
        .find(|scenario| scenario.name.ends_with("what is absent of a clone is its parent's"))
        .expect("it is listed");
    let seeds = 10;
    let coverage = scenario.judge(seeds, seeds, 1).with_rule.coverage;
    assert!(coverage.count("clone.made") >= seeds, "{coverage}");
    for path in [
        "clone.read_inherited",
        "clone.read_in_the_end",
        "judge.clone_blocks",
        "judge.clone_as_snapshot",
    ] {
        assert!(coverage.count(path) > seeds, "{path}: {coverage}");
    }
}

/// The history of who comes back is met: clones let go of their parents between the word that a member is whole and its coming in sync.
#[test]
fn clones_are_flattened_late() {
    let all = all();
    let scenario = all
        .iter()
        .find(|scenario| scenario.name.ends_with("who comes back makes chunks before the others"))
        .expect("it is listed");
    let seeds = 4;
    let coverage = scenario.judge(seeds, seeds, 1).with_rule.coverage;
    assert!(coverage.count("clone.flatten_late") >= seeds, "{coverage}");
    assert!(coverage.count("clone.flattened") >= seeds, "{coverage}");
}

/// Volumes and clones are made smaller and larger again, and what lay behind the end is looked at.
#[test]
fn volumes_shrink() {
    let all = all();
    let scenario = all
        .iter()
        .find(|scenario| scenario.name.ends_with("a volume shrinks when its end is empty"))
        .expect("it is listed");
    let seeds = 4;
    let coverage = scenario.judge(seeds, seeds, 1).with_rule.coverage;
    for path in [
        "operator.shrunk",
        "operator.grown_again",
        "judge.beyond_read",
        "clone.shrunk",
        "clone.read_cleared",
    ] {
        assert!(coverage.count(path) >= seeds, "{path}: {coverage}");
    }
}

/// Sick networks are found, by what is measured, and what becomes of nodes is judged; a cluster that is well is measured too.
#[test]
fn sick_networks_are_met() {
    let all = all();
    let met = |name: &str, paths: &[&str]| {
        let scenario = all.iter().find(|scenario| scenario.name.ends_with(name));
        let seeds = 3;
        let verdict = scenario.expect("it is listed").judge(seeds, seeds, 1);
        assert!(verdict.with_rule.failures.is_empty(), "{name}: {verdict:#?}");
        let coverage = verdict.with_rule.coverage;
        for path in paths {
            assert!(coverage.count(path) > 0, "{name}: {path}: {coverage}");
        }
    };
    met(
        "is isolated, and comes back",
        &["network.found_lossy", "network.isolated", "network.judged_isolated"],
    );
    met(
        "comes back before its time",
        &["network.found_late", "network.back_early"],
    );
    met("stays away", &["network.found_cut", "network.blamed_node"]);
    met("who is needed", &["network.stays_for_copies"]);
    met("isolates nobody", &["network.proposed", "network.avoided"]);
    // By whom more than half of their links were measured, that is: not all have, in so few seeds.
    met("blamed for nothing", &["network.measured"]);
}

#[test]
fn the_known_seeds_are_of_scenarios_that_are_there() {
    let all = all();
    for (name, seed) in KNOWN {
        let scenario = all.iter().find(|scenario| scenario.name == *name);
        let scenario = scenario.unwrap_or_else(|| panic!("{name} is no scenario"));
        assert!(*seed < scenario.seeds, "{name}: its own seeds end before {seed}");
    }
}

/// Payloads of encrypted volumes are looked at, and their clones are read.
#[test]
fn encrypted_volumes_are_looked_at() {
    let all = all();
    let scenario = all
        .iter()
        .find(|scenario| scenario.name.ends_with("a clone has a key of its own"))
        .expect("it is listed");
    let seeds = 4;
    let verdict = scenario.judge(seeds, seeds, 2);
    assert!(verdict.with_rule.failures.is_empty(), "{verdict:#?}");
    let coverage = verdict.with_rule.coverage;
    assert!(coverage.count("clone.read_inherited") > 0, "{coverage}");
    // Whoever looks at what leaves a node is not part of a build that serves.
    if cfg!(feature = "planted") {
        assert!(coverage.count("sealed.payloads") > 100 * seeds, "{coverage}");
    }
}
