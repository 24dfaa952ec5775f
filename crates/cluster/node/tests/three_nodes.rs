//! Three nodes in one process, on the kernel's driver, with the embedded metadata server: a stock NBD client writes and
//! reads a volume with three copies; with one core a node, and with two, so that every ring is used.

use amita_control::admin::{self, PoolSpec};
use amita_metadata::Client;
use amita_node::serve::{Level as LogLevel, Log, Running, ServeConfig, serve};
use amita_store::{FormatParams, format};
use amita_testkit::loopback;
use amita_types::placement::Level;
use amita_types::{ClusterId, StoreId};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const STORE_BYTES: u64 = 256 << 20;
/// A copy takes a second or two; a machine that builds something else at the same time is slower.
const PATIENCE: Duration = Duration::from_secs(60);

struct Trial {
    folder: tempfile::TempDir,
    nodes: Vec<Running>,
    client: Client,
    _metadata: amita_metadata::server::Handle,
    errors: Arc<Mutex<Vec<String>>>,
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

impl Trial {
    fn new(cores: usize) -> Trial {
        let folder = amita_testkit::folder::in_memory();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let metadata =
            amita_metadata::server::start(amita_metadata::server::Config::new(any, folder.path().join("metadata")))
                .unwrap();
        let endpoint = metadata.address().to_string();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let mut nodes = Vec::new();
        for index in 1..=3_u128 {
            let path = folder.path().join(format!("store{index}"));
            make_store(&path, 0x1000 + index);
            let fabric = loopback::free_row(cores as u16);
            let mut config = ServeConfig::new(format!("n{index}"), vec![endpoint.clone()], fabric);
            config.nbd = Some(any);
            config.stores = vec![path];
            config.cores = cores;
            config.pin = Some(false);
            config.buffer_bytes = 64 << 20;
            let told = errors.clone();
            let log: Log = Arc::new(move |level, text: &str| {
                eprintln!("n{index} {level:?}: {text}");
                if level == LogLevel::Error {
                    told.lock().unwrap().push(text.to_owned());
                }
            });
            nodes.push(serve(&config, &log).unwrap());
        }
        let client = Client::connect(&[endpoint]).unwrap();
        let spec = PoolSpec {
            name: "fast".to_owned(),
            copies: 3,
            min_copies: 2,
            groups: 16,
            chunk_bytes: admin::DEFAULT_CHUNK_BYTES,
            level: Level::Node,
            class: None,
        };
        admin::create_pool(&client, &spec).unwrap();
        admin::create_volume(&client, "v", "fast", 96 << 20).unwrap();
        let to_this_machine = admin::ExportSpec {
            any_client: true,
            ..admin::ExportSpec::default()
        };
        admin::export_volume(&client, "v", &to_this_machine).unwrap();
        Trial {
            folder,
            nodes,
            client,
            _metadata: metadata,
            errors,
        }
    }

    fn uri(&self, node: usize) -> String {
        format!("nbd://{}/v", self.nodes[node].nbd.unwrap())
    }

    /// Runs a client to its end. When it does not come to one, the nodes say what they have under way.
    fn run(&self, command: &mut Command) -> String {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|why| panic!("{program}: {why}; apt-get install libnbd-bin"));
        let until = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                self.nodes.iter().for_each(Running::describe);
                std::thread::sleep(Duration::from_secs(1));
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("{program} does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{program}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn copy_there_and_back(cores: usize) {
    let trial = Trial::new(cores);
    let image = trial.path("image");
    let mut seed = 1_u64;
    let mut bytes = vec![0_u8; 96 << 20];
    for chunk in bytes.chunks_mut(64 << 10) {
        // Runs of noise and runs of zeros, as a file system has them.
        seed = amita_types::layout::mix(seed);
        if !seed.is_multiple_of(3) {
            for word in chunk.chunks_mut(8) {
                seed = amita_types::layout::mix(seed.wrapping_add(1));
                word.copy_from_slice(&seed.to_le_bytes()[..word.len()]);
            }
        }
    }
    std::fs::write(&image, &bytes).unwrap();
    assert!(
        trial
            .run(Command::new("nbdinfo").arg("--size").arg(trial.uri(0)))
            .starts_with("100663296")
    );
    trial.run(Command::new("nbdcopy").arg(&image).arg(trial.uri(0)));
    let back = trial.path("back");
    trial.run(Command::new("nbdcopy").arg(trial.uri(0)).arg(&back));
    assert!(
        std::fs::read(&back).unwrap() == bytes,
        "what was read is not what was written"
    );

    // Another gateway takes it over: nobody uses it at the first any more.
    std::fs::remove_file(&back).unwrap();
    trial.run(Command::new("nbdcopy").arg(trial.uri(1)).arg(&back));
    assert!(
        std::fs::read(&back).unwrap() == bytes,
        "the second gateway reads something else"
    );
    assert_eq!(admin::volume(&trial.client, "v").unwrap().generation.0, 2);
    assert_eq!(trial.errors.lock().unwrap().as_slice(), &[] as &[String]);
}

#[test]
fn a_volume_is_copied_there_and_back_with_one_core_a_node() {
    copy_there_and_back(1);
}

#[test]
fn a_volume_is_copied_there_and_back_with_two_cores_a_node() {
    copy_there_and_back(2);
}
