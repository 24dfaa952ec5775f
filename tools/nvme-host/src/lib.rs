//! An NVMe/TCP host in user space, over blocking sockets: what the conformance suite and the load client are made of.
//!
//! It is read from the specifications for itself (NVM Express Base 2.1, NVM Command Set 1.1, TCP Transport 1.1), with
//! encodings of its own: nothing here comes from the target in `amita-nvme`, so a rule that the target misread is not
//! misread here in the same way by sharing a line of code. For the same reason it is tried against the Linux kernel's
//! target too (`docs/operating/nvme-conformance.md`).
//!
//! No kept and permissively licensed library does this. libnvme is a management library for hosts that have the
//! kernel's driver; libnvmf is GPL and abandoned; SPDK and xNVMe (whose fabrics are SPDK) want huge pages and a C build
//! of their own, and neither lets a caller send a wrong PDU, which is what a conformance suite does all day.
//!
//! * [`wire`]: the bytes of PDUs, commands and statuses;
//! * [`Connection`]: one TCP (or TLS) connection; sends any bytes, gives the next PDU, decoded and checked;
//! * [`Queue`]: commands in flight on a connection: R2Ts answered, data gathered;
//! * [`Controller`]: an admin queue, and the queues made for it;
//! * [`conformance`]: the suite; [`load()`]: the load client.
//!
//! ```no_run
//! use amita_nvme_host::{Controller, Host, Settings};
//! # fn main() -> Result<(), amita_nvme_host::Error> {
//! let settings = Settings::new("127.0.0.1:4420".parse().unwrap(), "nqn.2014-08.org.example:disk");
//! let mut controller = Controller::connect(&settings, &Host::named("nqn.2014-08.org.example:host"))?;
//! controller.enable()?;
//! let mut queue = controller.io_queue(1, 128)?;
//! let block = queue.call(&amita_nvme_host::commands::read(1, 0, 1, 4096))?.good("read")?.data;
//! # let _ = block; Ok(()) }
//! ```
#![deny(unsafe_code)]

pub mod commands;
pub mod conformance;
mod connection;
pub mod controller;
mod error;
mod load;
mod queue;
mod stream;
pub mod structures;
pub mod wire;

pub use connection::{Connection, Initialize, Initialized};
pub use controller::{Controller, Host, Settings, discovery_log};
pub use error::Error;
pub use load::{Load, Loaded, load};
pub use queue::{Completion, Queue, Request, Transfer};
pub use stream::Stream;
