//! A round trip on loopback of the sizes that an NVMe/TCP command and its answer have: two threads with blocking sockets
//! on one core. Threads of one process change places a little faster than processes do, so what is subtracted is rather
//! too little than too much.

use crate::case::Mix;
use crate::units::pin;
use amita_terminal::error::{Context, Failure, Result};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A command's capsule without data, a response's, and the header of data to the host (TCP Transport 1.1, 3.6.2).
const COMMAND_BYTES: usize = 72;
const RESPONSE_BYTES: usize = 24;
const DATA_HEADER_BYTES: usize = 24;
const BLOCK_BYTES: usize = 4096;
const WARM_UP: u32 = 500;
const TIME: Duration = Duration::from_millis(400);

/// Bytes to the target and bytes back, of 4 KiB: a write's data are in the capsule, a read's before the response.
pub fn sizes(mix: Mix) -> (usize, usize) {
    match mix {
        Mix::Read => (COMMAND_BYTES, DATA_HEADER_BYTES + BLOCK_BYTES + RESPONSE_BYTES),
        _ => (COMMAND_BYTES + BLOCK_BYTES, RESPONSE_BYTES),
    }
}

/// The mean latency.
///
/// # Errors
/// When there is no loopback network, or the core cannot be chosen.
pub fn latency(request: usize, answer: usize, core: usize) -> Result<Duration> {
    let doing = || "measuring the round trip".to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").context(doing)?;
    let address = listener.local_addr().context(doing)?;
    let asking = std::thread::spawn(move || -> Result<Duration> {
        pin(core)?;
        ask(TcpStream::connect(address).context(doing)?, request, answer)
    });
    let answering = std::thread::spawn(move || -> Result<()> {
        pin(core)?;
        let (stream, _) = listener.accept().context(doing)?;
        reply(stream, request, answer)
    });
    let panicked = |_| Failure::new("a measuring thread panicked");
    let latency = asking.join().map_err(panicked)?;
    // An asking end that could not connect leaves the other one waiting; it ends with the process then.
    let latency = latency?;
    answering.join().map_err(panicked)??;
    Ok(latency)
}

fn ask(mut stream: TcpStream, request: usize, answer: usize) -> Result<Duration> {
    let doing = || "measuring the round trip".to_owned();
    stream.set_nodelay(true).context(doing)?;
    let (request, mut answer) = (vec![7; request], vec![0; answer]);
    let mut trip = || -> std::io::Result<()> {
        stream.write_all(&request)?;
        stream.read_exact(&mut answer)
    };
    for _ in 0..WARM_UP {
        trip().context(doing)?;
    }
    let (start, mut trips) = (Instant::now(), 0);
    while start.elapsed() < TIME {
        for _ in 0..32 {
            trip().context(doing)?;
        }
        trips += 32;
    }
    Ok(start.elapsed() / trips)
}

/// Answers until the asking end goes.
fn reply(mut stream: TcpStream, request: usize, answer: usize) -> Result<()> {
    let doing = || "measuring the round trip".to_owned();
    stream.set_nodelay(true).context(doing)?;
    let (mut request, answer) = (vec![0; request], vec![1; answer]);
    while stream.read_exact(&mut request).is_ok() {
        if stream.write_all(&answer).is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{latency, sizes};
    use crate::case::Mix;

    #[test]
    fn sizes_are_those_of_the_pdus() {
        assert_eq!(sizes(Mix::Write), (4168, 24));
        assert_eq!(sizes(Mix::Read), (72, 4144));
    }

    #[test]
    fn a_round_trip_takes_some_time() {
        let core = amita_reactor::core::allowed_cpus()[0];
        assert!(!latency(72, 24, core).expect("measured").is_zero());
    }
}
