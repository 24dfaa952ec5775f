//! The stranger: a process of its own that opens connections and misbehaves on them, until its standard input ends.

use super::Targets;
use amita_harness::process::dying_with_us;
use amita_terminal::error::{Context, Result};
use amita_testkit::Random;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send, socket_with, sockopt,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Descriptors that are not for connections.
const OWN_DESCRIPTORS: u64 = 64;
/// He has so many addresses.
const ADDRESSES: usize = 4000;
/// Between two bytes of who says what he has to say slowly.
const DRIP: Duration = Duration::from_millis(200);
/// Of who says too much, at once.
const FLOOD_BYTES: usize = 16 << 10;

/// How he misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Manner {
    /// Says nothing, and stays
    Hold,
    /// Begins as one should, a byte at a time
    Drip,
    /// Sends whatever is taken, none of which means anything
    Flood,
    /// Connects, and resets
    Reset,
    /// Has the other end begin a handshake, and does not end it
    Hello,
}

impl Manner {
    pub const ALL: [Manner; 5] = [Manner::Hold, Manner::Drip, Manner::Flood, Manner::Reset, Manner::Hello];
}

impl fmt::Display for Manner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Manner::Hold => "hold",
            Manner::Drip => "drip",
            Manner::Flood => "flood",
            Manner::Reset => "reset",
            Manner::Hello => "hello",
        })
    }
}

/// What the process is told at its start.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Ports where a connection begins with TLS
    #[arg(long)]
    tls: Vec<SocketAddr>,
    /// Other ports
    #[arg(long)]
    host: Vec<SocketAddr>,
    /// How to misbehave
    #[arg(long)]
    manner: Manner,
    /// At most so many at once
    #[arg(long)]
    connections: usize,
    /// A file with a ClientHello
    #[arg(long)]
    hello: PathBuf,
}

/// What he came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Connections that he began.
    pub begun: u64,
    /// That he had at once, at most.
    pub open: u64,
    /// How long he was at it.
    pub seconds: f64,
}

/// One that runs; it ends with this.
pub struct Stranger {
    child: Child,
}

impl Stranger {
    /// Starts one.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(
        folder: &Path,
        targets: &Targets,
        manner: Manner,
        connections: usize,
        hello: &Path,
    ) -> Result<Stranger> {
        let log = folder.join("stranger.log");
        let said = std::fs::File::create(&log).context(|| format!("cannot make {}", log.display()))?;
        let mut command = dying_with_us(&amita::own_binary()?);
        command.args(["stranger", "--manner", &manner.to_string()]);
        command.args(["--connections", &connections.to_string()]);
        command.arg("--hello").arg(hello);
        for (option, addresses) in [("--tls", &targets.tls), ("--host", &targets.hosts)] {
            for address in addresses {
                command.args([option, &address.to_string()]);
            }
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .context(|| "cannot start the stranger".to_owned())?;
        Ok(Stranger { child })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Has him end, and tell.
    ///
    /// # Errors
    /// When he has ended before, and did not tell.
    pub fn finish(mut self) -> Result<Done> {
        drop(self.child.stdin.take());
        let mut text = String::new();
        if let Some(mut output) = self.child.stdout.take() {
            output
                .read_to_string(&mut text)
                .context(|| "the stranger says nothing".to_owned())?;
        }
        serde_json::from_str(&text).context(|| format!("what did the stranger do? {text:?}"))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Misbehaves until standard input ends, then says what it came to.
///
/// # Errors
/// When there is no ClientHello, or nobody to hear.
pub fn run(arguments: &Arguments) -> Result<()> {
    let failed = || format!("cannot read {}", arguments.hello.display());
    let hello = std::fs::read(&arguments.hello).context(failed)?;
    let told = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&told);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        tells.store(true, Ordering::Relaxed);
    });
    let mut random = Random::new(1);
    let mut flood = vec![0; FLOOD_BYTES];
    flood.iter_mut().for_each(|byte| *byte = random.below(256) as u8);
    let mut crowd = Crowd {
        arguments,
        hello,
        flood,
        done: Done::default(),
        places: (0..places(arguments.connections)).map(|_| None).collect(),
    };
    let begun = Instant::now();
    while !told.load(Ordering::Relaxed) {
        crowd.pass();
    }
    crowd.done.seconds = begun.elapsed().as_secs_f64();
    let text = serde_json::to_string(&crowd.done).context(|| "cannot write JSON".to_owned())?;
    std::io::stdout()
        .write_all(text.as_bytes())
        .context(|| "nobody hears what was done".to_owned())
}

/// As many as are wanted, or as descriptors are allowed.
fn places(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let allowed = allowed.map_or(usize::MAX, |all| all.saturating_sub(OWN_DESCRIPTORS) as usize);
    wanted.min(allowed)
}

/// A connection, and how far it has come.
struct Guest {
    socket: OwnedFd,
    is_tls: bool,
    said: usize,
    next: Instant,
}

/// All his connections.
struct Crowd<'a> {
    arguments: &'a Arguments,
    hello: Vec<u8>,
    flood: Vec<u8>,
    done: Done,
    places: Vec<Option<Guest>>,
}

impl Crowd<'_> {
    /// Looks at each connection once; makes it where there is none.
    fn pass(&mut self) {
        for place in 0..self.places.len() {
            let guest = match self.places[place].take() {
                None => self.call(place).ok(),
                Some(guest) => self.misbehave(guest),
            };
            self.places[place] = guest;
        }
        let open = self.places.iter().flatten().count() as u64;
        self.done.open = self.done.open.max(open);
    }

    fn call(&mut self, place: usize) -> std::result::Result<Guest, Errno> {
        let Arguments { tls, host, manner, .. } = self.arguments;
        // A handshake is begun where there is one.
        let hosts: &[SocketAddr] = if *manner == Manner::Hello { &[] } else { host };
        let all = tls.len() + hosts.len();
        let number = place % all.max(1);
        let address = tls.iter().chain(hosts).nth(number).ok_or(Errno::DESTADDRREQ)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        let source = (self.done.begun as usize) % ADDRESSES;
        // 127.1.0.1 and on: all of 127.0.0.0/8 is this machine (RFC 1122, section 3.2.1.3).
        let source = Ipv4Addr::new(127, 1, (source / 250) as u8, (source % 250 + 1) as u8);
        bind(&socket, &SocketAddrV4::new(source, 0))?;
        if *manner == Manner::Reset {
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        }
        match connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(why) => return Err(why),
        }
        self.done.begun += 1;
        Ok(Guest {
            socket,
            is_tls: number < tls.len(),
            said: 0,
            next: Instant::now(),
        })
    }

    /// `None`: it is over.
    fn misbehave(&self, mut guest: Guest) -> Option<Guest> {
        match self.arguments.manner {
            Manner::Hold => {}
            Manner::Drip => {
                let now = Instant::now();
                if now >= guest.next {
                    let words = if guest.is_tls { &self.hello } else { &self.flood };
                    let byte = words.get(guest.said..=guest.said)?;
                    guest.said += say(&guest.socket, byte)?;
                    guest.next = now + DRIP;
                }
            }
            Manner::Flood => drop(say(&guest.socket, &self.flood)?),
            // It has come up, or not: one pass was time enough.
            Manner::Reset => return None,
            Manner::Hello => {
                if guest.said < self.hello.len() {
                    guest.said += say(&guest.socket, &self.hello[guest.said..])?;
                }
            }
        }
        let mut buffer = [0; 512];
        match recv(&guest.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => None,
            // Its answer is what he wanted it to make; he wants the next.
            Ok(_) if self.arguments.manner == Manner::Hello => None,
            Ok(_) | Err(Errno::AGAIN | Errno::NOTCONN) => Some(guest),
            Err(_) => None,
        }
    }
}

/// How much of it was taken; `None`: the connection is over.
fn say(socket: &OwnedFd, words: &[u8]) -> Option<usize> {
    match send(socket, words, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(bytes) => Some(bytes),
        Err(Errno::AGAIN | Errno::NOTCONN) => Some(0),
        Err(_) => None,
    }
}
