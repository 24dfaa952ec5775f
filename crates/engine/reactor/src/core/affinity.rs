//! Which processors a thread may run on: a leaf over two system calls.

use std::io;
use std::mem;

/// The processors that this thread may run on, by number.
#[must_use]
pub fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a plain set of bits, for which zero is a value; the call writes at most its size.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        if libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &set))
            .collect()
    }
}

/// Keeps this thread on one processor (and the threads that it starts from then on).
///
/// # Errors
/// There is no such processor, or this process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("there is no processor {cpu}"),
        ));
    }
    // SAFETY: as above; the number was checked against the set's size.
    let result = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set)
    };
    if result != 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::new(
            error.kind(),
            format!("staying on processor {cpu}: {error}"),
        ));
    }
    Ok(())
}
