//! Time and CPU of a stretch of work, and what a set of such stretches says.

use crate::shape::Shape;
use std::mem;
use std::time::{Duration, Instant};

/// What was done in some time.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Requests ended.
    pub ios: u64,
    pub elapsed: Duration,
    /// CPU, all threads, the kernel's share and its workers included.
    pub cpu: Duration,
    /// Bytes of a request.
    pub block_bytes: u32,
}

impl Window {
    /// Requests per second.
    pub fn iops(&self) -> f64 {
        self.ios as f64 / self.elapsed.as_secs_f64()
    }

    /// MiB per second.
    pub fn mib_s(&self) -> f64 {
        self.iops() * f64::from(self.block_bytes) / f64::from(1 << 20)
    }

    /// Microseconds of CPU for each request.
    pub fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.ios.max(1) as f64
    }
}

/// Runs while something is measured.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    started: Instant,
    cpu: Duration,
}

impl Meter {
    pub fn start() -> Meter {
        Meter {
            started: Instant::now(),
            cpu: cpu_of_this_process(),
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn end(&self, ios: u64, shape: Shape) -> Window {
        Window {
            ios,
            elapsed: self.elapsed(),
            cpu: cpu_of_this_process() - self.cpu,
            block_bytes: shape.block_bytes,
        }
    }
}

/// CPU time of this process, threads of the kernel that work for its rings included (they are threads of it).
fn cpu_of_this_process() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the structure that it is given.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "every Linux has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of all children that have ended and were waited for.
pub fn cpu_of_children() -> Duration {
    // SAFETY: a structure of integers, for which zero is a value; the call writes it.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        assert_eq!(
            libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage),
            0,
            "no error is possible"
        );
        usage
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// What was freed goes back to the system, so that [`resident_bytes`] says what is in use.
pub fn give_memory_back() {
    // SAFETY: the call touches nothing but what the allocator holds free.
    unsafe { libc::malloc_trim(0) };
}

/// Bytes of this process that are in memory.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|field| field.parse().ok())
        .unwrap_or_default();
    pages * 4096
}

/// Stays on one processor, and with it every process that is started from here.
pub fn stay_on(cpu: usize) -> std::io::Result<()> {
    // SAFETY: a set of bits, for which zero is a value; the number is checked by CPU_SET's own bound.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// The middle one.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}
