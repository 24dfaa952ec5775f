//! Sizes as people write and read them.

use amita_types::BLOCK_BYTES;

/// Reads `4096`, `64K`, `1.5G`, `2TiB`: units are powers of 1024.
///
/// # Errors
/// Says what a size looks like.
pub fn parse(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit
        .trim()
        .to_ascii_uppercase()
        .trim_end_matches("IB")
        .trim_end_matches('B')
    {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        _ => {
            return Err(format!(
                "{text:?} is no size: write bytes, or a number with K, M, G, T (powers of 1024)"
            ));
        }
    };
    let bad = || format!("{text:?} is no size: write bytes, or a number with K, M, G, T (powers of 1024)");
    if let Ok(whole) = number.parse::<u64>() {
        return whole
            .checked_mul(1 << shift)
            .ok_or_else(|| format!("{text:?} is too large"));
    }
    let value: f64 = number.parse().map_err(|_| bad())?;
    let bytes = value * (1u64 << shift) as f64;
    if !bytes.is_finite() || bytes < 0.0 || bytes >= u64::MAX as f64 {
        return Err(bad());
    }
    Ok(bytes as u64)
}

/// The same, and a whole number of blocks above zero.
///
/// # Errors
/// Says what a size looks like.
pub fn parse_blocks(text: &str) -> Result<u64, String> {
    let bytes = parse(text)?;
    if bytes == 0 {
        return Err("the size is zero: give at least one block of 4096 bytes".to_owned());
    }
    if !bytes.is_multiple_of(u64::from(BLOCK_BYTES)) {
        let down = bytes / u64::from(BLOCK_BYTES) * u64::from(BLOCK_BYTES);
        let nearest = match down.checked_add(u64::from(BLOCK_BYTES)) {
            Some(up) => format!("nearest are {down} and {up}"),
            None => format!("nearest is {down}"),
        };
        return Err(format!(
            "{bytes} is no multiple of the block of {BLOCK_BYTES} bytes: the {nearest}"
        ));
    }
    Ok(bytes)
}

/// `1.5 GiB`, for people.
#[must_use]
pub fn show(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests;
