//! A real Prometheus that scrapes nodes and evaluates the rules.

use crate::rules;
use amita_harness::process::Process;
use amita_harness::{ports, tool};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long it may take to start.
const START: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(10);
const TARGETS: &str = "rule_files: [rules.yml]
scrape_configs:
  - job_name: amita
    file_sd_configs:
      - files: [targets.json]
        refresh_interval: 1s
";

/// How long a scrape, an evaluation, and the times of the rules are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// As [`rules`] says.
    #[default]
    Shortened,
    /// As `docs/operating/monitoring.md` has them.
    Shipped,
}

impl Times {
    fn configuration(self) -> String {
        let [scrape, timeout, evaluation] = match self {
            Times::Shortened => [3, 3, 1],
            Times::Shipped => [15, 10, 15],
        };
        format!(
            "global:\n  scrape_interval: {scrape}s\n  scrape_timeout: {timeout}s\n  evaluation_interval: {evaluation}s\n{TARGETS}"
        )
    }

    fn rules(self) -> String {
        match self {
            Times::Shortened => rules::shortened(),
            Times::Shipped => rules::shipped(),
        }
    }
}

/// A file of a Debian package.
pub fn fetched(package: &str, file: &str) -> PathBuf {
    let fetched = Command::new(rules::root().join("scripts/fetch-tool"))
        .args([package, file])
        .output()
        .expect("bash");
    assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
    PathBuf::from(String::from_utf8(fetched.stdout).expect("a path").trim())
}

/// What is known of an alert.
#[derive(Clone, Debug, Default)]
pub struct Alert {
    /// `firing`, `pending` or `inactive`.
    pub state: String,
    /// Summary and description of each that is active.
    pub said: Vec<String>,
    /// Since when its expression has held, in seconds since 1970.
    pub active_since: Option<f64>,
}

/// It ends with this.
pub struct Prometheus {
    process: Process,
    address: SocketAddr,
    folder: PathBuf,
}

impl Prometheus {
    /// Starts it in a folder of its own under `folder`, with these targets.
    pub fn start(folder: &Path, targets: &[SocketAddr], times: Times) -> Prometheus {
        let folder = folder.join("prometheus");
        std::fs::create_dir(&folder).expect("a folder");
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
        write("prometheus.yml", &times.configuration());
        write("rules.yml", &times.rules());
        let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
        let program = fetched("prometheus", "usr/bin/prometheus").display().to_string();
        aim(&folder, targets);
        let listen = format!("--web.listen-address={address}");
        let arguments = [
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            "--log.level=warn",
            &listen,
        ];
        let process = tool::start(&folder, &program, arguments).expect("it starts");
        let prometheus = Prometheus {
            process,
            address,
            folder,
        };
        let until = Instant::now() + START;
        while prometheus.ask("/-/ready").is_none() {
            assert!(Instant::now() < until, "{}", prometheus.process.last_words());
            std::thread::sleep(Duration::from_millis(100));
        }
        prometheus
    }

    /// From now on these are scraped.
    pub fn aim(&self, targets: &[SocketAddr]) {
        aim(&self.folder, targets);
    }

    /// The body of an answer; none: there was none, or it was an error.
    fn ask(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, ANSWER).ok()?;
        stream.set_read_timeout(Some(ANSWER)).ok()?;
        // With HTTP/1.0 the body ends with the connection.
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.contains(" 200 ").then(|| body.to_owned())
    }

    fn json(&self, path: &str) -> Value {
        let until = Instant::now() + START;
        loop {
            let found = self.ask(path).and_then(|body| serde_json::from_str(&body).ok());
            if let Some(found) = found {
                return found;
            }
            assert!(Instant::now() < until, "Prometheus does not answer {path}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// All alerts by name; every rule must have been evaluated without an error.
    pub fn alerts(&self) -> Vec<(String, Alert)> {
        let found = self.json("/api/v1/rules");
        let groups = found["data"]["groups"].as_array().expect("groups");
        let rules = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().expect("rules"));
        let mut alerts = Vec::new();
        for rule in rules {
            let name = rule["name"].as_str().expect("a name");
            assert_ne!(rule["health"], "err", "{name}: {rule}");
            if rule["type"] == "alerting" {
                alerts.push((name.to_owned(), alert(rule)));
            }
        }
        alerts
    }

    pub fn alert(&self, name: &str) -> Alert {
        let found = self.alerts().into_iter().find(|(found, _)| found == name);
        found.unwrap_or_else(|| panic!("there is no alert {name}")).1
    }

    /// How many targets were scraped without an error last.
    pub fn targets_up(&self) -> usize {
        let found = self.json("/api/v1/targets?state=active");
        let targets = found["data"]["activeTargets"].as_array().expect("targets");
        targets.iter().filter(|target| target["health"] == "up").count()
    }

    /// The value of the one series that an expression gives; none where there is none.
    pub fn value(&self, expression: &str) -> Option<f64> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let found = self.json(&format!("/api/v1/query?query={encoded}"));
        found["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

fn aim(folder: &Path, targets: &[SocketAddr]) {
    let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let text = serde_json::json!([{ "targets": targets }]).to_string();
    let (new, place) = (folder.join("targets.new"), folder.join("targets.json"));
    std::fs::write(&new, text).expect("written");
    std::fs::rename(new, place).expect("renamed");
}

fn alert(rule: &Value) -> Alert {
    let active = rule["alerts"].as_array().cloned().unwrap_or_default();
    let firing = active.iter().filter(|one| one["state"] == "firing");
    let text = |one: &Value, name: &str| one["annotations"][name].as_str().unwrap_or_default().to_owned();
    Alert {
        state: rule["state"].as_str().unwrap_or_default().to_owned(),
        said: firing
            .map(|one| format!("{} {}", text(one, "summary"), text(one, "description")))
            .collect(),
        active_since: active
            .iter()
            .filter_map(|one| seconds(one["activeAt"].as_str()?))
            .min_by(f64::total_cmp),
    }
}

/// Seconds since 1970 of a time as Prometheus writes one, `2026-11-26T14:30:02.123456789Z`.
fn seconds(text: &str) -> Option<f64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    // Days from the civil calendar, with years that begin in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leaps = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leaps + (153 * month + 2) / 5 + day - 1 - 719_468;
    let mut time = time.split(':').map(|part| part.parse::<f64>().ok());
    let (hours, minutes, seconds) = (time.next()??, time.next()??, time.next()??);
    Some(days as f64 * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds)
}

#[test]
fn times_of_prometheus_are_read() {
    assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0.0));
    assert_eq!(seconds("2024-02-29T12:00:00.5Z"), Some(1_709_208_000.5));
    assert_eq!(seconds("2026-11-26T14:30:02Z"), Some(1_795_703_402.0));
    assert_eq!(seconds("yesterday"), None);
}
