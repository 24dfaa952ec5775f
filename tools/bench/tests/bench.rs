//! `amita-bench` from end to end, as short as it can be: what it writes has the shape that scripts rely on. No figure is
//! judged here.

use amita_bench::record::Run;
use amita_harness::shipped;
use amita_harness::tool::{self, Output};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// How long to wait for what must come, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// Measures the binary that tests drive: the one that ships, or the one that cargo built beside the benchmark.
fn bench(folder: &Path, arguments: &[&str]) -> Output {
    let built = env!("CARGO_BIN_EXE_amita-bench");
    let amita = shipped::beside(built, "amita").display().to_string();
    let arguments = ["--amita", &amita].into_iter().chain(arguments.iter().copied());
    tool::run(folder, built, arguments, PATIENCE).expect("it ends")
}

/// What is done with runs needs no product.
fn look(folder: &Path, arguments: &[&str]) -> Output {
    tool::run(folder, env!("CARGO_BIN_EXE_amita-bench"), arguments, PATIENCE).expect("it ends")
}

#[test]
#[ignore = "as long as several others: scripts/soak runs it"]
fn a_short_matrix_by_both_clients_is_measured_written_recorded_and_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let latest = folder.path().join("out/latest.json").display().to_string();
    let full = folder.path().join("out/full.json").display().to_string();
    let arguments = "--only matrix,curve --block 4K --mix mixed --depth 4 --volumes 1,2 --seconds 1 --size 16M \
                     --repeats 0 --no-counts --record --output";
    let mut arguments: Vec<&str> = arguments.split_whitespace().collect();
    arguments.push(&latest);
    let said = bench(folder.path(), &arguments).success().expect("it measures").text;

    // What scripts have always relied on.
    let text = std::fs::read_to_string(&latest).expect("the figures");
    let figures: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let figures = figures.as_array().expect("a list");
    for figure in figures {
        let keys: BTreeSet<&str> = figure
            .as_object()
            .expect("a figure")
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(
            keys,
            BTreeSet::from(["name", "value", "unit", "target", "holds"]),
            "{figure}"
        );
        assert!(figure["value"].as_f64().is_some_and(f64::is_finite), "{figure}");
    }
    for name in [
        "unit.p_us",
        "unit.r_us",
        "curve.write.load70.p999_ratio",
        "curve.read.peak_iops",
    ] {
        let found = figures.iter().find(|figure| figure["name"] == name);
        let found = found.unwrap_or_else(|| panic!("no figure {name}:\n{said}"));
        assert!(found["value"].as_f64().is_some_and(|value| value > 0.0), "{found}");
    }

    let run = Run::read(&full).expect("the run");
    assert_eq!(run.figures.len(), figures.len());
    assert!(
        run.p_us > 0.0 && run.machine.cores > 0 && !run.backing.is_empty(),
        "{:?}",
        run.machine
    );
    for (key, client) in [
        ("libamita.mixed.4k.qd4", "client"),
        ("libamita.mixed.4k.qd4.v2", "client"),
        ("nbd.mixed.4k.qd4", "fio"),
        ("nbd.mixed.4k.qd4.v2", "fio"),
    ] {
        let row = run.rows.iter().find(|row| row.key == key);
        let row = row.unwrap_or_else(|| panic!("no row {key}:\n{said}"));
        // Of a row that is this short the kernel may have counted no tick.
        assert!(row.iops > 0.0 && row.cpu_total_us >= 0.0, "{row:?}");
        for latency in [row.read_us, row.write_us] {
            let latency = latency.unwrap_or_else(|| panic!("a mix has both: {row:?}"));
            assert!(
                latency.p50 > 0.0 && latency.p50 <= latency.p99 && latency.p99 <= latency.p999,
                "{row:?}"
            );
        }
        let processes: Vec<&str> = row.cpu_us.keys().map(String::as_str).collect();
        assert_eq!(
            BTreeSet::from_iter(processes),
            BTreeSet::from([client, "metadata", "n1", "n2", "n3"]),
            "{row:?}"
        );
        assert!(row.system_calls.is_none() && row.allocations.is_none(), "{row:?}");
        assert!(said.contains(&format!("`{key}`")), "{said}");
    }
    assert!(run.rows.iter().any(|row| row.cpu_total_us > 0.0), "{:?}", run.rows);
    // By the clock, the rate is what was asked for, as far as it can be served.
    let loads = run.rows.iter().filter_map(|row| row.case.load.map(|load| (load, row)));
    for (load, row) in loads {
        assert!(row.iops <= load.rate * 1.5, "{load:?}: {row:?}");
    }

    let recorded = folder.path().join("docs/benchmarks/results");
    let recorded = recorded.join(format!("{}.jsonl", run.machine.kind()));
    assert_eq!(Run::read(&recorded.display().to_string()).expect("recorded"), run);

    let compared = look(folder.path(), &["compare", &full, &latest])
        .success()
        .expect("compared");
    assert!(compared.text.contains("`unit.p_us`"), "{}", compared.text);
    let compared = look(folder.path(), &["compare", &full, &full])
        .success()
        .expect("compared");
    assert!(compared.text.contains("`nbd.mixed.4k.qd4`"), "{}", compared.text);
    assert!(
        !compared.text.contains("WORSE") && !compared.text.contains("better"),
        "{}",
        compared.text
    );

    let pictures = folder.path().join("pictures").display().to_string();
    let drawn = look(folder.path(), &["plot", &full, "--folder", &pictures]);
    drawn.success().expect("drawn");
    for name in ["latency-write.svg", "latency-read.svg"] {
        let picture = std::fs::read_to_string(Path::new(&pictures).join(name)).expect("a picture");
        assert!(picture.contains("<polyline") && picture.ends_with("</svg>\n"));
    }
}

#[test]
fn devices_are_refused_unless_their_loss_is_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    let device = folder.path().join("device").display().to_string();
    let refused = bench(folder.path(), &["--device", &device]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(refused.text.contains("--yes-destroy"), "{}", refused.text);
    // One device is not enough for three nodes, and nothing is touched.
    let refused = bench(folder.path(), &["--device", &device, "--yes-destroy", "--only", "path"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    assert!(!Path::new(&device).exists());
}
