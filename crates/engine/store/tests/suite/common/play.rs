//! Random play against a model.
//!
//! Volumes have owners who write, clear, read, roll forward, resend, lose their links and are taken over; snapshots are
//! taken and dropped, volumes cloned and deleted. The device ends its operations in any order; the power fails at any
//! moment and loses any part of what was not flushed; bits rot. Beside the store stands the model, in which a chunk is
//! a list of blocks and a snapshot is a whole copy of it, and every answer must be one that the model can give.
//!
//! Each step draws from random numbers of its own, so that a game can be played again without some of its steps: that
//! is how the history of a fault is made short before it is printed (`report`).
//!
//! | file | what |
//! | --- | --- |
//! | `truth` | what a chunk is, and what is done to it |
//! | `chunk` | its history: acknowledged, sent, seen |
//! | `question` | what is asked about it, and which answers fit |
//! | `volume` | a volume and its owner |
//! | `game` | the steps, and which one is next |
//! | `changes`, `snapshots` | the steps that change something |
//! | `listen` | the store's answers are compared with the model |
//! | `figures` | what volumes and snapshots hold is what is counted |
//! | `check` | at rest, after a takeover, after a crash: everything is compared |
//! | `rot` | damage, and who may notice it |
//! | `report` | a fault is made short, and printed |

mod changes;
mod check;
mod chunk;
mod figures;
mod game;
mod listen;
mod question;
mod report;
mod rot;
mod snapshots;
mod truth;
mod volume;

pub use game::Step;
#[allow(unused_imports, reason = "each test uses its part of it")]
pub use report::{play, replay};

use amita_reactor::{Pool, PoolConfig};
use amita_store::Config;

/// Steps of a game.
pub const STEPS: usize = 10_000;

/// How a game goes.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Names the kind of game, for [`replay`].
    pub name: &'static str,
    pub seed: u64,
    pub steps: usize,
    pub size_bytes: u64,
    /// Of each volume.
    pub chunks: u64,
    pub blocks_per_chunk: u16,
    /// The most that can be written at one time.
    pub volumes: usize,
    /// The most live snapshots of a volume.
    pub snapshots: usize,
    pub volatile: bool,
    pub alignment: u32,
    /// How often each step is taken, beside the others.
    pub weights: Vec<(Step, u32)>,
    pub pool: Pool,
    pub config: Config,
    /// Print each step and each answer.
    pub trace: bool,
}

impl Rules {
    /// One volume without snapshots.
    pub fn new(seed: u64, steps: usize) -> Rules {
        Rules {
            name: "plain",
            seed,
            steps,
            size_bytes: 1 << 20,
            chunks: 10,
            blocks_per_chunk: 16,
            volumes: 1,
            snapshots: 0,
            volatile: seed % 2 == 1,
            alignment: if seed.is_multiple_of(3) { 512 } else { 1 },
            weights: vec![
                (Step::Write, 300),
                (Step::Clear, 80),
                (Step::Read, 120),
                (Step::Ask, 15),
                (Step::Resend, 25),
                (Step::Wrong, 15),
                (Step::Roll, 15),
                (Step::Complete, 300),
                (Step::Pass, 110),
                (Step::Wait, 20),
                (Step::TakeOver, 4),
                (Step::NewLink, 6),
                (Step::Settle, 4),
                (Step::Crash, 5),
            ],
            pool: Pool::heap(),
            config: Config::default(),
            trace: false,
        }
    }

    #[must_use]
    pub fn weight(mut self, step: Step, weight: u32) -> Rules {
        self.weights.retain(|(other, _)| *other != step);
        self.weights.push((step, weight));
        self
    }

    /// A kind of game by its name; `None`: there is none.
    pub fn named(name: &str, seed: u64) -> Option<Rules> {
        let rules = match name {
            "plain" => Rules::new(seed, STEPS),
            // More space than is ever written at once.
            "larger" => Rules {
                name: "larger",
                size_bytes: 8 << 20,
                chunks: 40,
                ..Rules::new(seed, STEPS).weight(Step::Crash, 1)
            },
            // Reads are refused while there is no memory.
            "small-pool" => Rules {
                name: "small-pool",
                pool: Pool::new(PoolConfig {
                    classes: vec![(4 << 10, 3), (64 << 10, 1)],
                    hosts: Vec::new(),
                    huge_pages: false,
                })
                .expect("a little memory"),
                ..Rules::new(seed, STEPS)
            },
            "rot" => Rules {
                name: "rot",
                ..Rules::new(seed, STEPS).weight(Step::Rot, 20)
            },
            // A chunk of eight leaves.
            "wide" => Rules {
                name: "wide",
                size_bytes: 4 << 20,
                chunks: 2,
                blocks_per_chunk: 1024,
                ..Rules::new(seed, STEPS)
            },
            "snapshots" => Rules {
                name: "snapshots",
                size_bytes: 2 << 20,
                chunks: 6,
                volumes: 3,
                snapshots: 6,
                ..Rules::new(seed, STEPS).with_snapshots()
            },
            // As many states of a chunk as one `RetainSnapshots` can name.
            "many-snapshots" => Rules {
                name: "many-snapshots",
                size_bytes: 4 << 20,
                chunks: 2,
                snapshots: 128,
                ..Rules::new(seed, STEPS)
                    .with_snapshots()
                    .weight(Step::Snapshot, 100)
                    .weight(Step::RetainSnapshots, 30)
            },
            // Little is written, much is cloned and deleted.
            "clones" => Rules {
                name: "clones",
                size_bytes: 2 << 20,
                chunks: 2,
                blocks_per_chunk: if seed.is_multiple_of(2) { 16 } else { 1024 },
                volumes: 3,
                snapshots: 2,
                ..Rules::new(seed, STEPS)
                    .weight(Step::Write, 150)
                    .weight(Step::Clear, 50)
                    .weight(Step::Read, 20)
                    .weight(Step::Crash, 10)
                    .weight(Step::Snapshot, 60)
                    .weight(Step::RetainSnapshots, 60)
                    .weight(Step::Clone, 60)
                    .weight(Step::Delete, 30)
            },
            "wide-snapshots" => Rules {
                name: "wide-snapshots",
                size_bytes: 4 << 20,
                chunks: 2,
                blocks_per_chunk: 1024,
                volumes: 2,
                snapshots: 4,
                ..Rules::new(seed, STEPS).with_snapshots()
            },
            // More leaves than fit in memory.
            "little-memory" => Rules {
                name: "little-memory",
                size_bytes: 8 << 20,
                chunks: 24,
                blocks_per_chunk: 1024,
                volumes: 2,
                snapshots: 3,
                config: Config {
                    index_bytes: 400 << 10,
                    recent_states: Some(1),
                    ..Config::default()
                },
                ..Rules::new(seed, STEPS).with_snapshots().weight(Step::Crash, 1)
            },
            "rot-snapshots" => Rules {
                name: "rot-snapshots",
                size_bytes: 2 << 20,
                chunks: 6,
                volumes: 3,
                snapshots: 6,
                ..Rules::new(seed, STEPS).with_snapshots().weight(Step::Rot, 20)
            },
            // What has rotted is restored where it lies, while everything else goes on.
            "restores" => Rules {
                name: "restores",
                size_bytes: 2 << 20,
                chunks: 4,
                volumes: 3,
                snapshots: 4,
                ..Rules::new(seed, STEPS)
                    .with_snapshots()
                    .weight(Step::Rot, 30)
                    .weight(Step::Restore, 90)
                    .weight(Step::Clone, 20)
                    .weight(Step::Crash, 10)
            },
            _ => return None,
        };
        Some(rules)
    }

    fn with_snapshots(mut self) -> Rules {
        // States go to pages of their own as early as can be, or where there are some.
        self.config.recent_states = [Some(1), Some(4), None][self.seed as usize % 3];
        self.weight(Step::Snapshot, 15)
            .weight(Step::RetainSnapshots, 25)
            .weight(Step::Clone, 5)
            .weight(Step::Delete, 2)
    }
}

macro_rules! score {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often what happened.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Score {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl std::ops::AddAssign for Score {
            fn add_assign(&mut self, other: Score) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

score! {
    steps,
    requests,
    crashes,
    ended_short,
    batches_dropped,
    takeovers,
    no_space,
    busy,
    /// Answers to reads and other questions that were compared while other things went on.
    answers_compared,
    /// Answers that came too late to be compared.
    answers_too_late,
    /// Chunks that were compared whole, with their snapshots.
    chunks_compared,
    states_compared,
    writes_acknowledged,
    refused_rightly,
    snapshots,
    keeps,
    clones,
    volumes_deleted,
    rotted,
    damaged_rightly,
    /// Blocks that were restored where they lie, and those that needed it no more.
    restored,
    restore_skipped,
    resends,
    merges,
    rolls,
    checkpoints,
    marks,
    log_waits,
    leaf_reads,
    state_pages,
    /// Times that all space was accounted for.
    space_compared,
    /// Times that the volumes' figures were; and leaves that were read for it.
    figures_compared,
    figures_shared,
    figures_inherited,
    figures_read,
}
