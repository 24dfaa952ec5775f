//! Limits of volumes, as stock clients meet them.

use crate::observe::metrics_of;
use crate::world::{VOLUME, World, eventually, pattern};
use amita::nodes;
use std::time::Instant;

const MIB: u64 = 1 << 20;

/// A sample of the volume at a node; none: it is not limited there, as far as that has heard, or nobody there owns or uses it.
fn sample(metrics: &str, name: &str) -> Option<f64> {
    let page = nodes::get(metrics, "/metrics").expect("the metrics");
    let head = match name {
        "amita_limited_volumes" => format!("{name} "),
        _ => format!("{name}{{volume=\"{VOLUME}\"}} "),
    };
    let value = page.lines().find_map(|line| line.strip_prefix(&head))?;
    Some(value.parse().expect("a number"))
}

#[test]
fn what_is_written_is_no_more_than_rate_and_burst_allow_and_limits_change_meanwhile() {
    let world = World::with_volume();
    let metrics: Vec<String> = ["n1", "n2", "n3"].map(|name| metrics_of(&world, name)).into();
    let limited = |wanted: bool| {
        eventually("all gateways have heard", || {
            let knows = |metrics: &String| (sample(metrics, "amita_limited_volumes") == Some(1.0)) == wanted;
            metrics.iter().all(knows)
        });
    };
    let source = world.file("source");
    std::fs::write(&source, pattern(5, (8 * MIB) as usize)).expect("written");
    let (source, uri, copy) = (
        source.display().to_string(),
        world.uri(0),
        world.file("copy").display().to_string(),
    );

    let said = world.json(&["volume", "limit", "set", VOLUME, "--write-bandwidth", "4M"]);
    let burst = said["limits"]["bandwidth"]["write"]["burst"].as_u64().expect("a burst");
    assert_eq!(burst, 4 * MIB / 10 + (256 << 10));
    limited(true);
    let begun = Instant::now();
    world.done("nbdcopy", &[&source, &uri]);
    let took = begun.elapsed();
    let most = 4.0 * MIB as f64 * took.as_secs_f64() + burst as f64;
    assert!(8.0 * MIB as f64 <= most, "8 MiB were written in {took:?}");
    let held = sample(&metrics[0], "amita_volume_limit_held_total").expect("it is limited");
    assert!(held > 0.0);
    // Reads are not.
    world.done("nbdcopy", &[&uri, &copy]);
    let of_reads = sample(&metrics[0], "amita_volume_limit_held_total");
    assert_eq!(of_reads, Some(held));
    let read = std::fs::read(&copy).expect("a file");
    assert!(read.starts_with(&pattern(5, (8 * MIB) as usize)));

    // It would take four minutes, for which nobody waits, and the operator changes that while the host writes.
    world.amita_done(&["volume", "limit", "set", VOLUME, "--write-bandwidth", "32K"]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| world.done("nbdcopy", &[&source, &uri]));
        eventually("something waits", || {
            sample(&metrics[0], "amita_volume_limit_waiting").is_some_and(|waiting| waiting > 0.0)
        });
        world.amita_done(&["volume", "limit", "clear", VOLUME]);
        writer.join().expect("it is written");
    });
    limited(false);
    let said = world.amita_done(&["volume", "limit", "show", VOLUME]);
    assert!(said.contains("not limited"), "{said}");
    let wrong = world.amita(&["volume", "limit", "set", VOLUME, "--iops", "1000", "--burst", "5"]);
    assert!(wrong.text.contains("at least 102"), "{}", wrong.text);
    world.end(&[]);
}

/// What a node's stores count by that name together; none: they have no order.
fn of_stores(metrics: &str, name: &str) -> Option<f64> {
    let page = nodes::get(metrics, "/metrics").expect("the metrics");
    let head = format!("{name}{{");
    let samples = page.lines().filter(|line| line.starts_with(&head));
    let values = samples.map(|line| line.rsplit(' ').next().and_then(|value| value.parse().ok()));
    let values: Vec<f64> = values.map(|value: Option<f64>| value.expect("a number")).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

#[test]
fn stores_have_an_order_as_long_as_something_is_said_of_a_volume() {
    let world = World::with_volume();
    let metrics: Vec<String> = ["n1", "n2", "n3"].map(|name| metrics_of(&world, name)).into();
    let ordered = |wanted: bool| {
        eventually("all stores have heard", || {
            let has = |metrics: &String| of_stores(metrics, "amita_store_turns_depth").is_some() == wanted;
            metrics.iter().all(has)
        });
    };
    let source = world.file("source");
    std::fs::write(&source, pattern(7, (8 * MIB) as usize)).expect("written");
    let (source, uri, copy) = (
        source.display().to_string(),
        world.uri(0),
        world.file("copy").display().to_string(),
    );
    let there_and_back = || {
        world.done("nbdcopy", &[&source, &uri]);
        world.done("nbdcopy", &[&uri, &copy]);
        let read = std::fs::read(&copy).expect("a file");
        assert!(read.starts_with(&pattern(7, (8 * MIB) as usize)));
    };
    ordered(false);

    let set = [
        "volume",
        "limit",
        "set",
        VOLUME,
        "--reserve",
        "50M",
        "--weight",
        "300",
        "--latency-target",
        "2ms",
    ];
    let said = world.json(&set);
    let priority = &said["priority"];
    assert_eq!(priority["reservation"], 50 * MIB);
    assert_eq!(
        (priority["weight"].as_u64(), priority["latency_target_us"].as_u64()),
        (Some(300), Some(2_000))
    );
    ordered(true);
    there_and_back();
    let passed = metrics
        .iter()
        .filter_map(|metrics| of_stores(metrics, "amita_store_turns_passed_total"));
    assert!(passed.sum::<f64>() >= 64.0, "8 MiB are 64 pieces");
    let said = world.amita_done(&["volume", "limit", "show", VOLUME]);
    assert!(
        said.contains("its weight is 300") && said.contains("50 MiB/s"),
        "{said}"
    );
    let wrong = world.amita(&["volume", "limit", "set", VOLUME, "--weight", "1001"]);
    assert!(wrong.text.contains("1 to 1000"), "{}", wrong.text);
    // Of what is refused by half nothing is done.
    let both = world.amita(&["volume", "limit", "set", VOLUME, "--iops", "5000", "--weight", "1001"]);
    assert!(!both.status.success(), "{}", both.text);
    let limits = world.json(&["volume", "limit", "show", VOLUME]);
    assert!(!limits.to_string().contains("5000"), "{limits}");
    let wrong = world.amita(&["volume", "limit", "set", VOLUME]);
    assert!(wrong.text.contains("nothing to set is named"), "{}", wrong.text);

    let said = world.json(&["volume", "limit", "set", VOLUME, "--reserve", "0"]);
    assert_eq!(
        (
            said["priority"]["reservation"].as_u64(),
            said["priority"]["weight"].as_u64()
        ),
        (None, Some(300))
    );
    world.amita_done(&["volume", "limit", "clear", VOLUME]);
    ordered(false);
    there_and_back();
    world.end(&[]);
}
