//! Persistent reservations of a disk, as Linux has them for disks of all kinds (`linux/pr.h`, kernel 4.4): for NVMe they are its reservations, by host
//! identifier, so that all paths of a host are one; for SCSI each path is another one.
#![allow(unsafe_code)]

use super::machine::{Reserve, Reserved};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd as _;

/// `PR_WRITE_EXCLUSIVE`.
const WRITE_EXCLUSIVE: u32 = 1;
/// `PR_WRITE_EXCLUSIVE_REG_ONLY`.
const WRITE_EXCLUSIVE_REGISTRANTS: u32 = 3;
/// `PR_FL_IGNORE_KEY`.
const IGNORE_KEY: u32 = 1;
/// What the kernel answers for a conflict: `PR_STS_RESERVATION_CONFLICT`; before 6.2 what NVMe has (status code 83h), with its flags above.
const CONFLICTS: [libc::c_int; 2] = [0x18, 0x83];

/// `struct pr_registration` and `struct pr_preempt`: two keys; flags, or a type and flags.
#[repr(C)]
struct Pair {
    old_key: u64,
    new_key: u64,
    first: u32,
    second: u32,
}

/// `struct pr_reservation`, and `struct pr_clear`, which has flags in the first place and nothing in the second.
#[repr(C)]
struct One {
    key: u64,
    kind: u32,
    flags: u32,
}

const _: () = assert!(size_of::<Pair>() == 24 && size_of::<One>() == 16);

/// `_IOW('p', number, T)` (asm-generic/ioctl.h).
const fn write_request<T>(number: u64) -> u64 {
    (1 << 30) | ((size_of::<T>() as u64) << 16) | ((b'p' as u64) << 8) | number
}

fn ask<T>(device: &str, number: u64, what: &T) -> io::Result<Reserved> {
    let disk = OpenOptions::new().read(true).write(true).open(device)?;
    // SAFETY: the descriptor is open, the request has the size of T, whose layout is the kernel's, and the kernel only reads it.
    let said = unsafe {
        libc::ioctl(
            disk.as_raw_fd(),
            write_request::<T>(number) as libc::Ioctl,
            std::ptr::from_ref(what),
        )
    };
    match said {
        0 => Ok(Reserved::Done),
        said if said > 0 && CONFLICTS.contains(&(said & 0xff)) => Ok(Reserved::Conflict),
        said if said > 0 => Err(io::Error::other(format!("the disk answers {said:#x}"))),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Does it.
///
/// # Errors
/// The disk cannot be opened, or knows no reservations.
pub(super) fn carry_out(device: &str, what: Reserve) -> io::Result<Reserved> {
    let pair = |old_key, new_key, first, second| Pair {
        old_key,
        new_key,
        first,
        second,
    };
    // Paths of a disk of SCSI are registrants each, and a disk of NVMe is one of its host.
    let kind = match device.starts_with("/dev/nvme") {
        true => WRITE_EXCLUSIVE,
        false => WRITE_EXCLUSIVE_REGISTRANTS,
    };
    match what {
        Reserve::Register(key) => ask(device, 200, &pair(0, key, IGNORE_KEY, 0)),
        Reserve::Replace(key, other) => ask(device, 200, &pair(key, other, 0, 0)),
        Reserve::Hold(key) => {
            let one = One { key, kind, flags: 0 };
            ask(device, 201, &one)
        }
        // IOC_PR_PREEMPT_ABORT: what the kernel calls the old key is the host's own (CRKEY), and the new one that of the other (PRKEY).
        Reserve::Preempt(key, other) => ask(device, 204, &pair(key, other, kind, 0)),
        // Kernels have no way to give up a single registration.
        Reserve::Clear(key) => {
            let one = One { key, kind: 0, flags: 0 };
            ask(device, 205, &one)
        }
    }
}
