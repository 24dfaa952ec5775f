//! A cluster of real processes on this machine, and what drives and measures it: for the demo, the benchmark and the
//! end-to-end tests.
//!
//! Whatever is started here is stopped here: every process is held by a guard, lies in a process group of its own, and
//! is told to die with the thread that started it.

pub mod affinity;
pub mod cluster;
pub mod cpu;
pub mod csi_sanity;
pub mod etcd;
pub mod faulty_disk;
pub mod fio;
pub mod guest;
pub mod moves;
pub mod nbd;
pub mod observe;
pub mod ports;
pub mod probe;
pub mod process;
pub mod qmp;
pub mod rotation;
pub mod scratch;
pub mod shipped;
pub mod tool;
pub mod workload;
