//! Chaos: real `amita serve` processes on loopback are killed and frozen, their links delayed and cut in the middle of
//! frames, their disks made to fail and their metadata taken away, while many clients write, read and clear the same
//! few blocks over NBD or, with a path to every gateway, over NVMe/TCP. Afterwards one order must explain everything
//! that the clients saw (`amita_sim::history`), and every gateway must show the same. Nothing acknowledged may be lost,
//! nothing stale may be read.
//!
//! A cycle comes from a seed, which is printed. To run one again:
//!
//! ```text
//! AMITA_CHAOS_SEED=17 cargo test -p amita --test chaos -- --ignored --exact cycles::replay --nocapture
//! ```

mod clients;
mod core;
mod cycle;
mod cycles;
mod directed;
mod host;
mod pauses;
mod plan;
mod proxy;
mod slow;
mod world;
