//! One cycle: a volume of its own, clients that fight for a few of its blocks, faults as planned; then everything
//! heals, every block is read through every gateway, and what all of them saw must have one order.

use crate::clients::{Crowd, Recorder};
use crate::plan::{Fault, Plan, Protocol};
use crate::world::{NODES, PATIENCE, World};
use amita_harness::fio::{self, Job};
use amita_harness::tool;
use amita_terminal::interrupt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a cycle's volume, as the command takes it.
const VOLUME: &str = "32M";
/// Where fio's blocks lie: behind those that the clients fight for.
const FIO_OFFSET: u64 = 16 << 20;
const FIO_BYTES: u64 = 4 << 20;
/// How long to look at the plan's next step.
const STEP: Duration = Duration::from_millis(2);

fn fio_job(world: &World, volume: &str, node: usize, seed: u64) -> Job {
    let mut more = fio::verify_options(seed);
    more.push("--do_verify=0".to_owned());
    Job {
        name: format!("fio-{seed}-{node}"),
        target: fio::nbd(&world.cluster.uri(node, volume)),
        pattern: "randwrite",
        block_bytes: 4096,
        depth: 16,
        offset_bytes: FIO_OFFSET,
        size_bytes: FIO_BYTES,
        run: None,
        more,
        also: Vec::new(),
    }
}

/// A gateway hears of an export in a moment, which beside another load is longer than it lets a client wait.
fn await_export(world: &World, node: usize, volume: &str) {
    let arguments = ["--size", &world.cluster.uri(node, volume)];
    let is_there = interrupt::poll(PATIENCE, STEP, || {
        let asked = tool::run(world.folder(), "nbdinfo", arguments, PATIENCE)?;
        Ok(asked.status.success().then_some(()))
    });
    is_there
        .expect("not interrupted")
        .unwrap_or_else(|| panic!("gateway {node} never hears of {volume}"));
}

/// Carries the plan out, while clients work.
fn inject(world: &mut World, plan: &Plan, volume: &str, crowd: &Crowd) {
    let started = Instant::now();
    let mut next = plan.injections.iter().peekable();
    let mut lasting: Vec<(Duration, Fault)> = Vec::new();
    while started.elapsed() < plan.length {
        let now = started.elapsed();
        let (over, rest): (Vec<_>, Vec<_>) = lasting.into_iter().partition(|(until, _)| *until <= now);
        lasting = rest;
        for (_, fault) in over {
            world.finish(fault);
        }
        while let Some(injection) = next.next_if(|injection| injection.at <= now) {
            if let Fault::Move(gateway) = injection.fault {
                match plan.protocol {
                    Protocol::Nbd => crowd.turn_to(gateway),
                    Protocol::Nvme => world.ask_to_move(volume, gateway),
                }
            }
            let fault = world.begin(injection.fault);
            lasting.push((injection.at + injection.length, fault));
        }
        std::thread::sleep(STEP);
    }
}

/// A volume that clients have worked on, and what they saw.
pub struct Seen {
    volume: String,
    recorder: Arc<Recorder>,
}

impl Seen {
    /// How many operations were answered.
    pub fn done(&self) -> u64 {
        self.recorder.tally().done
    }
}

/// Every block of a volume of an earlier cycle is still what its clients left.
pub fn judge_again(world: &World, seen: &Seen) {
    for gateway in world.gateways() {
        let read = seen.recorder.read_all(gateway, &seen.volume, PATIENCE);
        read.expect("what was written earlier is read");
    }
    if let Err(violation) = seen.recorder.check() {
        panic!("{} has changed since its cycle:\n{violation}", seen.volume);
    }
}

/// Runs one cycle on a cluster that is well, until it is well again. Panics with what is wrong.
pub fn run(world: &mut World, number: u32, plan: &Plan) -> Seen {
    let volume = format!("v{number}");
    world.make_volume(&volume, VOLUME);
    let gateways = world.gateways();
    let first = plan.seed as usize % NODES;
    let folder = world.folder().to_owned();
    let job = fio_job(world, &volume, first, plan.seed);
    await_export(world, first, &volume);
    job.run(&folder, PATIENCE).expect("fio writes");

    let recorder = Arc::new(Recorder::new(number));
    let crowd = match plan.protocol {
        Protocol::Nbd => Crowd::start(&recorder, &gateways, &volume, plan.seed),
        Protocol::Nvme => {
            let subsystem = world.offer(&volume);
            Crowd::start_hosts(&recorder, &world.portals(), &subsystem, plan.seed)
        }
    };
    inject(world, plan, &volume, &crowd);
    crowd.finish();

    world.heal(&plan.poisons());
    let healing = Instant::now();
    for &gateway in &gateways {
        recorder
            .read_all(gateway, &volume, PATIENCE)
            .expect("everything heals, and all blocks are read");
    }
    let healed_after = healing.elapsed();
    // The stores that were evicted are brought up to date and are in sync again; and then they show the same.
    let whole = world.observer.await_whole(PATIENCE).expect("not interrupted");
    assert!(whole, "not all copies are in sync again:\n{}", world.missing_copies());
    let whole_after = healing.elapsed();
    for &gateway in &gateways {
        let read = recorder.read_all(gateway, &volume, PATIENCE);
        read.expect("all blocks are read from all copies");
    }
    let mut job = fio_job(world, &volume, (first + 1) % NODES, plan.seed);
    job.more.retain(|option| option != "--do_verify=0");
    job.more.push("--verify_only".to_owned());
    job.run(&folder, PATIENCE)
        .expect("fio's blocks are what was acknowledged to it");

    if let Err(violation) = recorder.check() {
        panic!("not one order explains what the clients of {volume} saw:\n{violation}");
    }
    let tally = recorder.tally();
    println!(
        "  {plan}\n    {} asked, {} done, errors {:?}; served after {:.1} s, whole after {:.1} s; {}",
        tally.asked,
        tally.done,
        recorder.errors(),
        healed_after.as_secs_f64(),
        whole_after.as_secs_f64(),
        world.injected()
    );
    Seen { volume, recorder }
}
