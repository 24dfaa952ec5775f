//! What can be measured: one case is one point of the matrix, by one client, in one placement.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mix {
    /// Reads
    Read,
    /// Writes
    Write,
    /// Seven reads to three writes
    Mixed,
}

impl Mix {
    /// Reads among a hundred.
    #[must_use]
    pub fn read_percent(self) -> u32 {
        match self {
            Mix::Read => 100,
            Mix::Write => 0,
            Mix::Mixed => 70,
        }
    }
}

/// In which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Anywhere in the region
    Random,
    /// From its start to its end, and again
    Sequential,
}

/// By which client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Front {
    /// The client library in a process of its own
    Libamita,
    /// The client library with a copy of the data in its own process
    Local,
    /// fio over NBD
    Nbd,
    /// fio on the backing itself: a peer, not a client
    #[value(skip)]
    Raw,
    /// fio on another storage system, by its own engine
    #[value(skip)]
    Peer,
}

/// Who runs on which cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The client has the second core, the nodes share the first
    TwoCores,
    /// Everything on the first core
    OneCore,
    /// As the scheduler likes
    Free,
    /// Every node has a core on each processor, and so have the clients
    #[value(skip)]
    Spread,
}

/// I/Os that are asked for by the clock, whether earlier ones are done or not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Of the peak that was found before, in percent: the same in every run.
    pub percent: u32,
    /// I/Os a second.
    pub rate: f64,
}

/// One point of the matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The client.
    pub front: Front,
    /// What a peer is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Reads or writes.
    pub mix: Mix,
    /// In which order.
    pub order: Order,
    /// Bytes of one I/O.
    pub block_bytes: u32,
    /// How many are under way at once, on each volume.
    pub depth: u32,
    /// On how many volumes.
    pub volumes: u32,
    /// On which cores.
    pub placement: Placement,
    /// Asked for by the clock, and the depth is what it is; without it, one begins when another ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
}

impl Case {
    /// 4 KiB at random on one volume, with client and nodes on two cores.
    #[must_use]
    pub fn new(front: Front, mix: Mix, depth: u32) -> Case {
        Case {
            front,
            peer: None,
            mix,
            order: Order::Random,
            block_bytes: 4096,
            depth,
            volumes: 1,
            placement: Placement::TwoCores,
            load: None,
        }
    }

    /// Its name, a dotted path: the same in every run, so that runs can be compared.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}.{}", self.by(), self.point())
    }

    /// Whose the figures are: the client, or the peer.
    #[must_use]
    pub fn by(&self) -> String {
        self.peer.clone().unwrap_or_else(|| self.front.to_string())
    }

    /// The point of the matrix, whoever it was measured by.
    #[must_use]
    pub fn point(&self) -> String {
        let mut key = format!("{}.{}", self.mix, block(self.block_bytes));
        if self.order == Order::Sequential {
            key.push_str(".seq");
        }
        match self.load {
            Some(load) => key.push_str(&format!(".load{}", load.percent)),
            None => key.push_str(&format!(".qd{}", self.depth)),
        }
        if self.volumes > 1 {
            key.push_str(&format!(".v{}", self.volumes));
        }
        match self.placement {
            Placement::TwoCores => {}
            Placement::OneCore => key.push_str(".one_core"),
            Placement::Free => key.push_str(".free"),
            Placement::Spread => key.push_str(".spread"),
        }
        key
    }

    /// For people.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = format!(
            "{} {} {}, {}, {}",
            block(self.block_bytes).to_uppercase(),
            match self.order {
                Order::Random => "random",
                Order::Sequential => "sequential",
            },
            self.mix,
            self.by(),
            match self.load {
                Some(load) => format!("at {} % of its peak", load.percent),
                None => format!("depth {}", self.depth),
            }
        );
        if self.volumes > 1 {
            label.push_str(&format!(", {} volumes", self.volumes));
        }
        match self.placement {
            Placement::TwoCores => {}
            Placement::OneCore => label.push_str(", all on one core"),
            Placement::Free => label.push_str(", on any core"),
            Placement::Spread => label.push_str(", everyone on every core"),
        }
        label
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mix::Read => "read",
            Mix::Write => "write",
            Mix::Mixed => "mixed",
        })
    }
}

impl fmt::Display for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Front::Libamita => "libamita",
            Front::Local => "local",
            Front::Nbd => "nbd",
            Front::Raw => "raw",
            Front::Peer => "peer",
        })
    }
}

/// `4k`, `1m`.
fn block(bytes: u32) -> String {
    if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) {
        format!("{}m", bytes >> 20)
    } else if bytes.is_multiple_of(1024) {
        format!("{}k", bytes >> 10)
    } else {
        bytes.to_string()
    }
}

/// How much of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Extent {
    /// What tells most, within a few minutes
    Short,
    /// Every combination: hours at ten seconds each
    Full,
}

/// Which points of the matrix; an empty list is every value of the extent.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Filter {
    /// By which clients
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CLIENT")]
    pub front: Vec<Front>,
    /// Sizes of one I/O
    #[arg(long, value_delimiter = ',', value_name = "SIZE", value_parser = parse_block)]
    pub block: Vec<u32>,
    /// Reads, writes, or seven to three
    #[arg(long, value_enum, value_delimiter = ',', value_name = "MIX")]
    pub mix: Vec<Mix>,
    /// In which order
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ORDER")]
    pub order: Vec<Order>,
    /// I/Os under way at once
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub depth: Vec<u32>,
    /// On how many volumes at once
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub volumes: Vec<u32>,
    /// Who runs on which cores
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PLACEMENT")]
    pub placement: Vec<Placement>,
}

fn parse_block(text: &str) -> Result<u32, String> {
    let bytes = amita_terminal::size::parse_blocks(text)?;
    u32::try_from(bytes)
        .ok()
        .filter(|&bytes| bytes <= 1 << 20)
        .ok_or_else(|| format!("{text:?} is more than 1M"))
}

impl Filter {
    /// The fronts to measure by.
    #[must_use]
    pub fn fronts(&self) -> Vec<Front> {
        if self.front.is_empty() {
            vec![Front::Libamita, Front::Nbd]
        } else {
            self.front.clone()
        }
    }

    /// Does it let a case pass?
    #[must_use]
    pub fn lets(&self, case: &Case) -> bool {
        fn holds<T: PartialEq>(list: &[T], value: &T) -> bool {
            list.is_empty() || list.contains(value)
        }
        holds(&self.front, &case.front)
            && holds(&self.block, &case.block_bytes)
            && holds(&self.mix, &case.mix)
            && holds(&self.order, &case.order)
            && holds(&self.depth, &case.depth)
            && holds(&self.volumes, &case.volumes)
            && holds(&self.placement, &case.placement)
    }
}

/// The points of the matrix that the filter lets pass, in an order that people can follow. A value that is asked for and
/// stands outside the extent is measured too.
#[must_use]
pub fn matrix(extent: Extent, filter: &Filter) -> Vec<Case> {
    fn values<T: Clone>(asked: &[T], usual: &[T]) -> Vec<T> {
        if asked.is_empty() {
            usual.to_vec()
        } else {
            asked.to_vec()
        }
    }
    let full = extent == Extent::Full;
    let blocks: &[u32] = if full {
        &[4096, 8192, 65536, 1 << 20]
    } else {
        &[4096, 65536]
    };
    let mixes = [Mix::Read, Mix::Write, Mix::Mixed];
    let orders: &[Order] = if full {
        &[Order::Random, Order::Sequential]
    } else {
        &[Order::Random]
    };
    let depths: &[u32] = if full { &[1, 4, 32, 128] } else { &[1, 32] };
    let volumes: &[u32] = if full { &[1, 4] } else { &[1] };
    let placements: &[Placement] = if full {
        &[Placement::TwoCores, Placement::OneCore]
    } else {
        &[Placement::TwoCores]
    };
    let mut cases = Vec::new();
    for front in filter.fronts() {
        for &placement in &values(&filter.placement, placements) {
            for &volumes in &values(&filter.volumes, volumes) {
                for &block_bytes in &values(&filter.block, blocks) {
                    for &mix in &values(&filter.mix, &mixes) {
                        for &order in &values(&filter.order, orders) {
                            for &depth in &values(&filter.depth, depths) {
                                cases.push(Case {
                                    front,
                                    peer: None,
                                    mix,
                                    order,
                                    block_bytes,
                                    depth,
                                    volumes,
                                    placement,
                                    load: None,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
    cases
}

#[cfg(test)]
mod tests;
