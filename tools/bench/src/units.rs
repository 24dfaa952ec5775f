//! The two units in which costs are stated, measured in the same run: machines differ, and so do hours of one machine.
//!
//! Two processes with blocking sockets on loopback, 4 KiB one way and 64 B back. **P** is the CPU of one such round trip with both ends
//! on one core; **R** is its latency with the ends on two cores.

use amita_harness::cpu;
use amita_harness::process::dying_with_us;
use amita_terminal::error::{Context, Failure, Result};
use amita_terminal::interrupt;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

const REQUEST_BYTES: usize = 4096;
const ANSWER_BYTES: usize = 64;
/// Rounds whose middle one counts: a round that something else disturbed is not the middle one.
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(400);
/// Round trips before the measured ones.
const WARM_UP: u32 = 500;

/// The units on this machine, now.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// CPU of a round trip, both ends on one core.
    pub p: Duration,
    /// Latency of a round trip, the ends on two cores (on one, where there is only one).
    pub r: Duration,
    /// Cores that this process may use.
    pub cores: usize,
}

/// Measures both.
///
/// # Errors
/// When there is no loopback network, or a core cannot be chosen.
pub fn measure() -> Result<Units> {
    let cores = allowed_cores()?;
    let first = *cores
        .first()
        .ok_or_else(|| Failure::new("this process may use no core"))?;
    let second = *cores.get(1).unwrap_or(&first);
    let mut p = Vec::with_capacity(ROUNDS);
    let mut r = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        interrupt::check()?;
        p.push(round(first, first)?.cpu);
        r.push(round(first, second)?.latency);
    }
    p.sort_unstable();
    r.sort_unstable();
    Ok(Units {
        p: p[ROUNDS / 2],
        r: r[ROUNDS / 2],
        cores: cores.len(),
    })
}

/// The cores that this process may use.
///
/// # Errors
/// When the kernel does not tell.
pub fn allowed_cores() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).context(|| "cannot read the affinity of this process".to_owned())?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect())
}

struct Round {
    cpu: Duration,
    latency: Duration,
}

/// The answering end is a process of its own, as the ends of everything that is measured in these units are; the asking
/// end is a thread of its own, so that this one keeps its affinity.
fn round(client_core: usize, server_core: usize) -> Result<Round> {
    let doing = || "measuring the round trip".to_owned();
    let mut server = dying_with_us(&amita::own_binary()?);
    server.args(["round-trip-end", &server_core.to_string(), &WARM_UP.to_string()]);
    let mut server = server
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context(doing)?;
    let mut said = BufReader::new(server.stdout.take().ok_or_else(|| Failure::new("no output to read"))?).lines();
    let mut number = || -> Result<u64> {
        let line = said.next().transpose().context(doing)?.unwrap_or_default();
        line.parse()
            .map_err(|_| Failure::new(format!("measuring the round trip: the other end said {line:?}")))
    };
    let measured = number().and_then(|port| {
        let address = SocketAddr::from(([127, 0, 0, 1], port as u16));
        let client = std::thread::spawn(move || ask(address, client_core));
        let (round_trips, asking, elapsed) = client
            .join()
            .map_err(|_| Failure::new("a measuring thread panicked"))??;
        let serving = Duration::from_nanos(number()?);
        Ok(Round {
            cpu: (asking + serving) / round_trips,
            latency: elapsed / round_trips,
        })
    });
    if measured.is_err() {
        // It may have ended already.
        let _ = server.kill();
    }
    server.wait().context(doing)?;
    measured
}

/// Keeps the calling thread on a core.
///
/// # Errors
/// When it may not run there.
pub fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).context(|| format!("cannot run on core {core}"))
}

fn ask(server: SocketAddr, core: usize) -> Result<(u32, Duration, Duration)> {
    pin(core)?;
    let doing = || "measuring the round trip".to_owned();
    let mut stream = TcpStream::connect(server).context(doing)?;
    stream.set_nodelay(true).context(doing)?;
    let request = [7; REQUEST_BYTES];
    let mut answer = [0; ANSWER_BYTES];
    let mut trip = || -> std::io::Result<()> {
        stream.write_all(&request)?;
        stream.read_exact(&mut answer)
    };
    for _ in 0..WARM_UP {
        trip().context(doing)?;
    }
    let (cpu_before, start) = (cpu::of_this_thread()?, Instant::now());
    let mut round_trips = 0;
    while start.elapsed() < ROUND {
        for _ in 0..32 {
            trip().context(doing)?;
        }
        round_trips += 32;
    }
    Ok((
        round_trips,
        cpu::of_this_thread()?.saturating_sub(cpu_before),
        start.elapsed(),
    ))
}

/// The answering end of a round trip, as a process: prints its port, answers one connection until it ends, and prints
/// the CPU that answering took in nanoseconds, warming up left out.
///
/// # Errors
/// When there is no loopback network, or the core cannot be chosen.
pub fn answer(core: usize, warm_up: u32) -> Result<()> {
    pin(core)?;
    let doing = || "measuring the round trip".to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").context(doing)?;
    println!("{}", listener.local_addr().context(doing)?.port());
    let (mut stream, _) = listener.accept().context(doing)?;
    stream.set_nodelay(true).context(doing)?;
    let mut request = [0; REQUEST_BYTES];
    let mut before = Duration::ZERO;
    let mut answered = 0u32;
    while stream.read_exact(&mut request).is_ok() {
        if answered == warm_up {
            before = cpu::of_this_thread()?;
        }
        if stream.write_all(&[1; ANSWER_BYTES]).is_err() {
            break;
        }
        answered += 1;
    }
    println!("{}", cpu::of_this_thread()?.saturating_sub(before).as_nanos());
    Ok(())
}
