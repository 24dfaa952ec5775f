//! A cluster in this process: the embedded metadata server, and nodes with stores on files in memory.
#![allow(dead_code)] // each test file uses its part

use amita_client::{Config, Done, Local};
use amita_control::admin::{self, PoolSpec, TakingState};
use amita_metadata::Client;
use amita_node::serve::{Log, Running, ServeConfig, serve};
use amita_store::{FormatParams, format};
use amita_types::placement::Level;
use amita_types::{ClusterId, StoreId};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const STORE_BYTES: u64 = 128 << 20;
/// Everything ends long before, on a machine that has nothing else to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct World {
    pub nodes: Vec<Running>,
    pub meta: Client,
    pub endpoint: String,
    pub folder: tempfile::TempDir,
    _metadata: amita_metadata::server::Handle,
}

fn quiet(name: String) -> Log {
    Arc::new(move |level, text: &str| eprintln!("{name} {level:?}: {text}"))
}

fn make_store(path: &Path, number: u128) {
    let file = std::fs::File::create(path).unwrap();
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    let params = FormatParams {
        store: StoreId(number),
        cluster: ClusterId(0),
        size_bytes: STORE_BYTES,
        log_bytes: None,
    };
    for (offset, data) in format(&params).unwrap() {
        file.write_all_at(&data, offset).unwrap();
    }
}

impl World {
    /// So many nodes with a store each, and a formatted store that nobody serves yet.
    pub fn without_pool(nodes: usize) -> World {
        let folder = amita_testkit::folder::in_memory();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let config = amita_metadata::server::Config::new(any, folder.path().join("metadata"));
        let metadata = amita_metadata::server::start(config).unwrap();
        let endpoint = metadata.address().to_string();
        let meta = Client::connect(std::slice::from_ref(&endpoint)).unwrap();
        admin::init_cluster(&meta, ClusterId(0)).unwrap();
        for index in 0..=nodes {
            make_store(&folder.path().join(format!("store{index}")), 0x1000 + index as u128);
        }
        let start = |index: usize| {
            let mut config = ServeConfig::new(format!("n{index}"), vec![endpoint.clone()], any);
            config.nbd = Some(any);
            config.stores = vec![folder.path().join(format!("store{index}"))];
            config.pin = Some(false);
            config.buffer_bytes = 64 << 20;
            serve(&config, &quiet(format!("n{index}"))).unwrap()
        };
        World {
            nodes: (1..=nodes).map(start).collect(),
            meta,
            endpoint,
            folder,
            _metadata: metadata,
        }
    }

    /// With a pool of three copies (or as many as there are nodes) and the volume `v` of 64 MiB.
    pub fn new(nodes: usize) -> World {
        let world = World::without_pool(nodes);
        world.make_pool(nodes.min(3) as u8);
        world
    }

    pub fn make_pool(&self, copies: u8) {
        let spec = PoolSpec {
            name: "fast".to_owned(),
            copies,
            min_copies: copies.div_ceil(2),
            groups: 16,
            chunk_bytes: admin::DEFAULT_CHUNK_BYTES,
            level: Level::Node,
            class: None,
        };
        admin::create_pool(&self.meta, &spec).unwrap();
        admin::create_volume(&self.meta, "v", "fast", 64 << 20).unwrap();
    }

    /// Takes a snapshot of the volume.
    pub fn take_snapshot(&self, name: &str) {
        let wish = admin::ask_snapshot(&self.meta, "v", name, BTreeMap::new(), Duration::ZERO).unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            match admin::snapshot_state(&self.meta, &wish).unwrap() {
                TakingState::Taken(_) => return,
                state => assert_eq!(state, TakingState::Waiting),
            }
            assert!(Instant::now() < until, "snapshot {name} is not taken");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The store that nobody serves.
    pub fn spare_store(&self) -> PathBuf {
        self.folder.path().join("store0")
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new(vec![self.endpoint.clone()]);
        config.buffer_bytes = 64 << 20;
        config.log = Some(quiet("client".to_owned()));
        config
    }

    pub fn local(&self) -> Local {
        Local::connect(&self.config()).unwrap()
    }
}

/// Waits until so many requests have ended; in the order of their tags.
pub fn reap(local: &mut Local, count: usize) -> Vec<Done> {
    let mut done = Vec::new();
    let until = Instant::now() + PATIENCE;
    while done.len() < count {
        assert!(Instant::now() < until, "{} of {count} ended", done.len());
        local.wait(Duration::from_secs(1), &mut done);
    }
    done.sort_by_key(|done| done.tag);
    done
}

/// The same bytes for the same seed.
pub fn noise(bytes: usize, mut seed: u64) -> Vec<u8> {
    let mut out = vec![0; bytes];
    for word in out.chunks_mut(8) {
        seed = amita_types::layout::mix(seed.wrapping_add(1));
        word.copy_from_slice(&seed.to_le_bytes()[..word.len()]);
    }
    out
}
