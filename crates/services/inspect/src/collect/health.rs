//! What an NVMe disk says of its health: bytes, as NVM Express Base Specification 2.0 lays them out.

use crate::inventory::Health;

const KELVIN: i32 = 273;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// A counter of 16 bytes; what is more than 64 bits long is the most that these hold.
fn counter_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0_u8; 16];
    value.copy_from_slice(&bytes[at..at + 16]);
    u64::try_from(u128::from_le_bytes(value)).unwrap_or(u64::MAX)
}

/// Reads the log page "SMART / Health Information" (02h).
///
/// # Errors
/// It is too short, or has nothing in it.
pub fn log(bytes: &[u8]) -> Result<Health, String> {
    if bytes.len() < 512 {
        return Err(format!("the health log has {} bytes, not 512", bytes.len()));
    }
    // What some bridges answer: nothing was measured, and all would look well.
    if bytes[..192].iter().all(|byte| *byte == 0) {
        return Err("the health log is empty".to_owned());
    }
    Ok(Health {
        warnings: bytes[0],
        temperature_c: i32::from(u16_at(bytes, 1)) - KELVIN,
        warns_at_c: None,
        spare_percent: bytes[3],
        spare_least_percent: bytes[4],
        used_percent: bytes[5],
        on_hours: counter_at(bytes, 128),
        media_errors: counter_at(bytes, 160),
        volatile_cache: None,
    })
}

/// Adds what the controller's Identify data says: its cache, and from which temperature on it warns.
///
/// # Errors
/// It is too short.
pub fn controller(bytes: &[u8], health: &mut Health) -> Result<(), String> {
    if bytes.len() < 526 {
        return Err(format!("the controller's data has {} bytes", bytes.len()));
    }
    let warns_at = i32::from(u16_at(bytes, 266));
    health.warns_at_c = (warns_at > 0).then_some(warns_at - KELVIN);
    health.volatile_cache = Some(bytes[525] & 1 != 0);
    Ok(())
}
