//! Keeps requests under way at random places of a volume, and prints how many a second, how long each took, and this
//! process's CPU for each. With stores in its own process: paths after the rest.
//!
//! `load METADATA VOLUME read|write DEPTH SECONDS CPU [BYTES [STORE...]]`; a CPU of `-`: wherever the system puts it.

use amita_client::{Config, Done, Local};
use std::time::{Duration, Instant};

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [metadata, volume, operation, depth, seconds, cpu, rest @ ..] = &given[..] else {
        return Err("load METADATA VOLUME read|write DEPTH SECONDS CPU [BYTES [STORE...]]".into());
    };
    let write = operation == "write";
    let bytes: u32 = rest.first().map_or(Ok(4096), |word| word.parse())?;
    let mut config = Config::new(vec![metadata.clone()]);
    config.cpu = cpu.parse().ok();
    config.stores = rest.iter().skip(1).map(Into::into).collect();
    if !config.stores.is_empty() {
        config.name = Some("load-with-stores".to_owned());
    }
    let mut local = Local::connect(&config)?;
    let volume = local.open(volume)?;
    let places = volume.size_bytes() / u64::from(bytes);
    let depth: usize = depth.parse()?;
    let mut data = local.buffer(bytes as usize).ok_or("no buffer")?;
    data.fill(0x5a);
    let data = data.freeze();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut done: Vec<Done> = Vec::new();
    let mut start = |local: &mut Local| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let offset = (random >> 16) % places * u64::from(bytes);
        if write {
            local.write(&volume, offset, data.clone(), 0)
        } else {
            local.read(&volume, offset, bytes, 0)
        }
    };
    for _ in 0..depth {
        start(&mut local)?;
    }
    let length = Duration::from_secs_f64(seconds.parse()?);
    let (mut began, mut cpu, mut ended) = (Instant::now(), cpu_ns(), 0u64);
    let mut warm = false;
    let mut checks = 0;
    loop {
        local.wait(Duration::from_secs(1), &mut done);
        for one in done.drain(..) {
            one.result?;
            ended += 1;
            local.recycle(one.payload);
            start(&mut local)?;
        }
        checks += 1;
        if checks % 64 == 0 {
            let elapsed = began.elapsed();
            if !warm && elapsed > length / 4 {
                (began, cpu, ended, warm) = (Instant::now(), cpu_ns(), 0, true);
            } else if warm && elapsed > length {
                break;
            }
        }
    }
    let elapsed = began.elapsed().as_secs_f64();
    println!(
        "{operation} {bytes} depth {depth}: {:.0} IOPS, {:.2} us each at this depth, {:.3} us CPU of this thread",
        ended as f64 / elapsed,
        elapsed * 1e6 / ended as f64 * depth as f64,
        (cpu_ns() - cpu) as f64 / 1e3 / ended as f64,
    );
    Ok(())
}
