//! Commands of NVMe that Linux has no other word for, as programs give them to a device (`linux/nvme_ioctl.h`).
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    dwords_2: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    dwords_10: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<Command>() == 72);

/// Which queue takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// That of administration (`NVME_IOCTL_ADMIN_CMD`).
    Admin = 0x41,
    /// One of I/O (`NVME_IOCTL_IO_CMD`).
    Io = 0x43,
}

/// A gateway may take so long for each.
const PATIENCE_MS: u32 = 5000;

/// `NVME_IOCTL_ID`: the number of a disk's namespace.
pub(super) fn nsid(disk: &File) -> io::Result<u32> {
    const ID: u64 = ((b'N' as u64) << 8) | 0x40;
    // SAFETY: the descriptor is open, and the request has no argument.
    let said = unsafe { libc::ioctl(disk.as_raw_fd(), ID as libc::Ioctl) };
    u32::try_from(said).map_err(|_| io::Error::last_os_error())
}

/// Has a command carried out that reads.
///
/// # Errors
/// The kernel does not take it, or what it was sent to does not.
pub(super) fn read(
    device: &File,
    (queue, opcode): (Queue, u8),
    nsid: u32,
    dwords_10: [u32; 6],
    into: &mut [u8],
) -> io::Result<()> {
    // _IOWR('N', number, struct nvme_passthru_cmd)
    let request = (3 << 30) | ((size_of::<Command>() as u64) << 16) | ((b'N' as u64) << 8) | queue as u64;
    let mut command = Command {
        opcode,
        nsid,
        address: into.as_mut_ptr() as u64,
        data_bytes: u32::try_from(into.len()).map_err(io::Error::other)?,
        dwords_10,
        timeout_ms: PATIENCE_MS,
        ..Command::default()
    };
    // SAFETY: the descriptor is open, the command has the kernel's layout, and the kernel writes at most `data_bytes` to the slice, which lives until then.
    let said = unsafe {
        libc::ioctl(
            device.as_raw_fd(),
            request as libc::Ioctl,
            std::ptr::from_mut(&mut command),
        )
    };
    match said {
        0 => Ok(()),
        said if said > 0 => Err(io::Error::other(format!("the gateway answers {said:#x}"))),
        _ => Err(io::Error::last_os_error()),
    }
}
