//! The store beside fio, on the same file, in one run, as ratios: `cargo bench -p amita-store`, or `make bench`.
//!
//! `docs/benchmarks/store.md` says what is measured and how to read it; `-- --help` lists the arguments. A run prints
//! and judges; it never fails because something is slow.

mod arithmetic;
mod bed;
mod figures;
mod fio;
mod maps;
mod measure;
mod mount;
mod rates;
mod rider;
mod shape;
mod states;
mod steady;
mod tib;

use bed::Bed;
use figures::Figures;
use fio::Way;
use rates::{Judged, Rounds};
use rider::{Durable, Opening};
use shape::Shape;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const HELP: &str = "\
The store beside fio, on the same file. Arguments (after --):
  --seconds S      length of a window (half of it in memory) [0.5]
  --rounds N       windows of each, in turn [5]
  --dir DIR        a folder on the disk that is measured [the target folder's temporary one]
  --memory DIR     a folder in memory [/dev/shm]
  --only A,B       of: memory, disk, durable, steady, mount, maps, arithmetic
  --shapes A,B     of the rates only these: write.4k.qd32, read.128k.sequential.qd8, ...
  --tib            only this: a sparse store of 1 TiB, its index filled, mounted (to 5 GiB of memory and of disk)
  --tib-blocks N   blocks of each chunk that get data there, to 1024 [1024]
  --tib-log-mib N  MiB of its log [as it is formatted]
  --states         only this: a few chunks with thousands of states each (to 1 GiB of memory)
  --output FILE    figures as JSON; the store's are replaced, others stay";

/// Small requests, and large ones.
const SMALL: [Shape; 6] = [
    Shape::write(4096, 1),
    Shape::write(4096, 32),
    Shape::write(4096, 128),
    Shape::read(4096, 1),
    Shape::read(4096, 32),
    Shape::read(4096, 128),
];
const LARGE: [Shape; 2] = [
    Shape::write(128 << 10, 8).in_order(),
    Shape::read(128 << 10, 8).in_order(),
];

/// What was asked for.
struct Arguments {
    time: Duration,
    rounds: u32,
    disk: PathBuf,
    memory: PathBuf,
    only: Option<Vec<String>>,
    shapes: Option<Vec<String>>,
    tib: bool,
    states: bool,
    tib_blocks: u32,
    tib_log_bytes: Option<u64>,
    output: Option<PathBuf>,
}

impl Arguments {
    fn read() -> Result<Option<Arguments>, String> {
        let mut arguments = Arguments {
            time: Duration::from_millis(500),
            rounds: 5,
            disk: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            memory: PathBuf::from("/dev/shm"),
            only: None,
            shapes: None,
            tib: false,
            states: false,
            tib_blocks: 1024,
            tib_log_bytes: None,
            output: None,
        };
        let mut given = std::env::args().skip(1);
        while let Some(name) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{name} needs a value\n{HELP}"));
            let wrong = |value: &str| format!("{name} cannot be {value:?}\n{HELP}");
            match name.as_str() {
                // Given by `cargo bench`.
                "--bench" => {}
                "--help" => return Ok(None),
                "--seconds" => {
                    let value = value()?;
                    let seconds = value.parse().ok().filter(|seconds| (0.05..=600.0).contains(seconds));
                    arguments.time = Duration::from_secs_f64(seconds.ok_or_else(|| wrong(&value))?);
                }
                "--rounds" => {
                    let value = value()?;
                    let rounds = value.parse().ok().filter(|rounds| (1..=100).contains(rounds));
                    arguments.rounds = rounds.ok_or_else(|| wrong(&value))?;
                }
                "--dir" => arguments.disk = PathBuf::from(value()?),
                "--memory" => arguments.memory = PathBuf::from(value()?),
                "--only" => arguments.only = Some(list(&value()?)),
                "--shapes" => arguments.shapes = Some(list(&value()?)),
                "--tib" => arguments.tib = true,
                "--states" => arguments.states = true,
                "--tib-blocks" => {
                    let value = value()?;
                    let blocks: Option<u32> = value.parse().ok();
                    // Whole requests: below 128 KiB one, above it several.
                    let fits =
                        |&blocks: &u32| (1..=32).contains(&blocks) || (blocks <= 1024 && blocks.is_multiple_of(32));
                    arguments.tib_blocks = blocks.filter(fits).ok_or_else(|| wrong(&value))?;
                }
                "--tib-log-mib" => {
                    let value = value()?;
                    let mib: u64 = value.parse().map_err(|_| wrong(&value))?;
                    arguments.tib_log_bytes = Some(mib << 20);
                }
                "--output" => arguments.output = Some(PathBuf::from(value()?)),
                _ => return Err(format!("what is {name:?}?\n{HELP}")),
            }
        }
        Ok(Some(arguments))
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|one| one == part))
    }

    fn shapes(&self, all: &[Shape]) -> Vec<Shape> {
        let wanted = |shape: &Shape| self.shapes.as_ref().is_none_or(|only| only.contains(&shape.name()));
        all.iter().copied().filter(wanted).collect()
    }

    fn rounds(&self, prefix: &'static str, beside: Way) -> Rounds {
        Rounds {
            time: self.time,
            rounds: self.rounds,
            prefix,
            beside,
            and: None,
            judged: Judged::All,
        }
    }
}

/// The machine's load of the last minute, for the reader to judge by.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

fn list(value: &str) -> Vec<String> {
    value.split(',').map(str::to_owned).collect()
}

/// A file in memory: what the store costs by itself.
fn memory(arguments: &Arguments, figures: &mut Figures) -> Result<(), String> {
    let mut bed = Bed::make(&arguments.memory)?;
    println!("## {}\n", bed.what);
    if !bed.memory {
        println!("That is no memory: the figures of this part are a disk's.\n");
    }
    let (mut rider, _) = bed.open(Opening::default())?;
    rider.fill(1024);
    steady::age(&mut rider);
    let rounds = Rounds {
        and: Some(Way::Calls),
        time: arguments.time / 2,
        judged: Judged::Costs,
        ..arguments.rounds("memory.", Way::Ring)
    };
    rates::small(&mut rider, &mut bed, &arguments.shapes(&SMALL), rounds, figures)
}

/// A file on a disk.
fn disk(arguments: &Arguments, figures: &mut Figures) -> Result<(), String> {
    let mut bed = Bed::make(&arguments.disk)?;
    println!("## {}\n", bed.what);
    let kept = Opening {
        durable: Durable::Kept,
        ..Opening::default()
    };
    if bed.volatile {
        println!("Nobody flushes: the store takes the disk for one that keeps what it acknowledges.\n");
    }
    let (mut rider, _) = bed.open(kept)?;
    rider.fill(1024);
    if arguments.wants("disk") {
        let rounds = arguments.rounds("", Way::Ring);
        rates::large(&mut rider, &mut bed, &arguments.shapes(&LARGE), rounds, figures)?;
    }
    steady::age(&mut rider);
    if arguments.wants("steady") {
        steady::measure(&mut rider, figures);
    }
    if arguments.wants("disk") {
        println!(
            "The same, now that the store was written over at random: a read of 128 KiB finds its blocks apart.\n"
        );
        let rounds = Rounds {
            judged: Judged::Nothing,
            ..arguments.rounds("aged.", Way::Ring)
        };
        rates::large(&mut rider, &mut bed, &arguments.shapes(&LARGE[1..]), rounds, figures)?;
        let rounds = arguments.rounds("", Way::Ring);
        rates::small(&mut rider, &mut bed, &arguments.shapes(&SMALL), rounds, figures)?;
    }
    drop(rider);
    if arguments.wants("mount") {
        mount::measure(&bed, kept, figures)?;
    }
    if arguments.wants("maps") {
        maps::measure(&bed, kept, arguments.time, figures)?;
    }
    if arguments.wants("durable") && bed.volatile {
        let by_write = "the store by writes that go through the cache";
        let ways = [
            (Durable::ByWrite, "durable.", by_write, Judged::Nothing),
            (
                Durable::ByFlush,
                "flushed.",
                "the store by flushes, as in a node",
                Judged::All,
            ),
        ];
        for (durable, prefix, how, judged) in ways {
            println!("Both durable before they answer: {how}, fio by `--sync=dsync`.\n");
            let (mut rider, _) = bed.open(Opening { durable, ..kept })?;
            let rounds = Rounds {
                and: Some(Way::Ring),
                judged,
                ..arguments.rounds(prefix, Way::RingDurable)
            };
            rates::small(&mut rider, &mut bed, &arguments.shapes(&SMALL[..3]), rounds, figures)?;
        }
    }
    Ok(())
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let cpus = amita_reactor::core::allowed_cpus();
    if let Some(&cpu) = cpus.first() {
        measure::stay_on(cpu).map_err(|error| format!("cannot stay on processor {cpu}: {error}"))?;
        println!(
            "The store, the driver alone and fio in turn, all on processor {cpu} of {}; windows of {:?}; load before: {}.\n",
            cpus.len(),
            arguments.time,
            load()
        );
    }
    let mut figures = Figures::default();
    if arguments.tib {
        tib::measure(
            &arguments.disk,
            arguments.tib_blocks,
            arguments.tib_log_bytes,
            &mut figures,
        )?;
        return finish(arguments, &figures);
    }
    if arguments.states {
        states::measure(&arguments.memory, arguments.time, &mut figures)?;
        return finish(arguments, &figures);
    }
    if arguments.wants("memory") {
        memory(arguments, &mut figures)?;
    }
    if ["disk", "durable", "steady", "mount", "maps"]
        .iter()
        .any(|part| arguments.wants(part))
    {
        disk(arguments, &mut figures)?;
    }
    if arguments.wants("arithmetic") {
        arithmetic::print(&mut figures);
    }
    finish(arguments, &figures)
}

fn finish(arguments: &Arguments, figures: &Figures) -> Result<(), String> {
    match figures.missed() {
        [] => println!("Every target that was measured holds."),
        missed => println!("What does not hold:\n* {}", missed.join("\n* ")),
    }
    if let Some(output) = &arguments.output {
        figures.write(output)?;
        println!("Written to {}.", output.display());
    }
    Ok(())
}

fn main() -> ExitCode {
    let done = match Arguments::read() {
        Ok(Some(arguments)) => run(&arguments),
        Ok(None) => {
            println!("{HELP}");
            Ok(())
        }
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("store bench: {error}");
            ExitCode::FAILURE
        }
    }
}
