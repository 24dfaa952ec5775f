//! What the steps of an I/O cost: one table, each figure with where it was measured.
//!
//! Costs are of CPU, in nanoseconds. They belong to one machine at one hour; [`super::calibrate`] moves whole groups of them
//! to another, by the figures that `amita-bench` measures of the whole path there.

use std::fmt;

/// A part of the work, for the table of where the CPU goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The front end: parsing and answering hosts.
    Front,
    /// The sequencer, its checksums included.
    Sequencer,
    /// Framing: encoding, decoding, handing on.
    Fabric,
    /// Sends and receives: system calls, TCP, copies.
    Socket,
    /// Mail between the cores of a node.
    Mail,
    /// The store and its writes and reads.
    Store,
    /// The fixed share of a pass: entering the kernel, timers.
    Pass,
    /// Yielding, sleeping, waking and being woken.
    Wait,
    /// The host's own program, where it runs on the processors that are counted.
    Host,
}

/// All parts, in the order of the table.
pub const PARTS: [Part; 9] = [
    Part::Front,
    Part::Sequencer,
    Part::Fabric,
    Part::Socket,
    Part::Mail,
    Part::Store,
    Part::Pass,
    Part::Wait,
    Part::Host,
];

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Part::Front => "front",
            Part::Sequencer => "sequencer",
            Part::Fabric => "fabric",
            Part::Socket => "sockets",
            Part::Mail => "mail",
            Part::Store => "store",
            Part::Pass => "pass",
            Part::Wait => "wait",
            Part::Host => "host",
        })
    }
}

/// Which costs calibration moves together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// What the processor does in the program.
    Code,
    /// What the kernel does for a pass, a send or a receive.
    Kernel,
    /// Going to sleep, waking and being woken, on one processor.
    Wake,
    /// What crosses from one processor to another: wakes, and bytes in the other's cache.
    Cross,
    /// The host's program.
    Host,
    /// Not moved: a limit or a time of the hardware.
    Fixed,
}

macro_rules! costs {
    ($($(#[doc = $doc:literal])+ $name:ident : $value:literal, $family:ident, $source:literal;)+) => {
        /// The costs, in nanoseconds.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Costs {
            $($(#[doc = $doc])+ pub $name: f64,)+
        }

        /// One row of the table.
        #[derive(Clone, Copy, Debug)]
        pub struct Row {
            /// The name of the field.
            pub name: &'static str,
            /// What it is.
            pub what: &'static str,
            /// Where the figure comes from.
            pub source: &'static str,
            /// What moves with it.
            pub family: Family,
        }

        /// All costs.
        pub const ROWS: &[Row] = &[
            $(Row {
                name: stringify!($name),
                what: concat!($($doc),+),
                source: $source,
                family: Family::$family,
            },)+
        ];

        impl Costs {
            /// As the benches of the crates measured them (2 virtual cores, Intel Xeon, Linux 6.18, P = 5.7 us).
            #[must_use]
            pub fn measured() -> Costs {
                Costs { $($name: $value,)+ }
            }

            /// The cost of that name.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)+
                    _ => None,
                }
            }

            /// The cost of that name, to change it.
            pub fn get_mut(&mut self, name: &str) -> Option<&mut f64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

costs! {
    /// a pass, whatever it does
    pass: 500.0, Kernel, "the fabric's bench, one thread: 7.21 us a round trip alone, 1.07 us of 32; its fixed 6.3 us are two sends, two receives, two passes";
    /// a send, with TCP's way to the other socket
    send: 1900.0, Kernel, "the same";
    /// a receive
    receive: 770.0, Kernel, "the same";
    /// a KiB sent
    send_kib: 53.0, Kernel, "the reactor's bench, one core, depth 32: 0.43 us for 4 KiB + 64 B above the fixed part";
    /// a KiB received
    receive_kib: 53.0, Kernel, "the same";
    /// a message encoded or decoded, and routed
    message: 110.0, Code, "the fabric's bench: 0.87 us a write and its answer at batch 32, less the bytes, over four times coded";
    /// a request of a host, parsed and answered
    front: 250.0, Code, "the front's bench: 152 to 260 ns";
    /// a write in the sequencer, with three answers
    sequence_write: 545.0, Code, "the sequencer's bench: 612 ns, less the checksum";
    /// a read in the sequencer, with its answer
    sequence_read: 302.0, Code, "the sequencer's bench: 369 ns, less the checksum";
    /// the checksum of a KiB
    checksum_kib: 17.0, Code, "the sequencer's bench: 67 ns for 4 KiB";
    /// mail to another core, written and read
    mail: 150.0, Code, "two cache lines moved each way at about 60 ns; to be measured on a machine of many cores";
    /// another core's empty ring looked at
    ring: 1.0, Code, "a load that hits the cache";
    /// a batch of writes of a store in memory
    store_batch: 2800.0, Code, "docs/benchmarks/store.md, tmpfs: 4.81 us alone, 2.08 us of 32";
    /// a write in it
    store_write: 2000.0, Code, "the same";
    /// a read of a store in memory
    store_read: 1690.0, Code, "docs/benchmarks/store.md, tmpfs, depth 32";
    /// a batch of writes of a store on a device, beyond the pass and the wake
    device_batch: 9000.0, Code, "docs/benchmarks/store.md, virtio disk: 3.38 us at 32, 2.71 us at 128, less a sleep and a wake; a virtual machine's doorbell is most of it";
    /// a write in it
    device_write: 2490.0, Code, "the same";
    /// a read of a store on a device
    device_read: 3090.0, Code, "docs/benchmarks/store.md, virtio disk, depth 32";
    /// a yield before blocking
    yielding: 370.0, Fixed, "one sched_yield";
    /// blocking and coming back, the sleeper's share
    block: 1200.0, Wake, "the whole path at depth 1, bound to one core: 53 us a write (docs/benchmarks/first-slice.md), less the rest";
    /// waking a sleeper on the same processor, the waker's share
    wake_same: 600.0, Wake, "the same";
    /// waking a sleeper on another processor, the waker's share
    wake_other: 6000.0, Cross, "the whole path at depth 1 on two processors (62 us of CPU a read, less 14 on one); what falls to which side is a guess";
    /// being woken from another processor, the sleeper's share, within the delay
    woken_other: 18000.0, Cross, "the same; some 30 us a side in decision 001; a virtual machine";
    /// from the wake to the first instruction on another processor (no CPU of the program's)
    wake_delay: 28500.0, Cross, "the same: 68 us a read, less 9 on one processor, over two wakes; a virtual machine";
    /// a KiB touched that another processor has written or read in
    cross_kib: 320.0, Cross, "the reactor's bench, depth 32: 1.95 us on two cores, 0.66 us on one, for 4 KiB";
    /// an I/O in the host's program, beside its sends and receives
    host: 2000.0, Host, "fio's own share at depth 32, less its sends and receives";
}

impl Costs {
    /// All costs of a family times `factor`.
    pub fn scale(&mut self, family: Family, factor: f64) {
        for row in ROWS.iter().filter(|row| row.family == family) {
            if let Some(cost) = self.get_mut(row.name) {
                *cost *= factor;
            }
        }
    }
}
