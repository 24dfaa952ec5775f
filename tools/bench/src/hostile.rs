//! What strangers cost others: beside a client that reads and writes, somebody does his worst at every port of the cluster,
//! with thousands of connections from thousands of addresses. The nodes and the client share the first processor and the
//! stranger has the second, so that what he costs is what the nodes do for him, and not that he is there.

mod stranger;

use crate::case::{Case, Front, Mix, Placement};
use crate::client::{Clients, Running};
use crate::measure::{Measure, SystemUnderTest};
use crate::median;
use crate::report::Figures;
use crate::site::Site;
use crate::testbed::{Product, Testbed};
use crate::usage::Watched;
use amita_fabric::secure::{Handshakes, Protection, Recorded};
use amita_identity::{Clock, Live};
use amita_node::proof::TlsHandshakes;
use amita_terminal::error::{Context, Failure, Result};
use amita_terminal::progress::Steps;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use stranger::{Arguments, run};
use stranger::{Manner, Stranger};

/// What must be left of the rate while he does it.
const RATE_LEFT: f64 = 0.9;
/// Connections that he tries to have at once.
const CONNECTIONS: usize = 10_000;
/// How often with and without him; the middle one counts.
const TURNS: usize = 3;
const TURN: Duration = Duration::from_millis(2000);
/// He begins so long before it is measured.
const BEFORE: Duration = Duration::from_millis(1500);
const DEPTH: u32 = 32;

/// Measures and judges, for each manner of doing his worst.
///
/// # Errors
/// When something does not start, or an I/O of the client fails. Never for a figure.
pub fn measure(
    steps: &mut Steps,
    measuring: &mut Measure,
    product: &Product,
    size_bytes: u64,
    start: impl FnOnce(&Product) -> Result<Testbed>,
    figures: &mut Figures,
) -> Result<()> {
    // Where nobody proves anything there are no strangers.
    let testbed = steps.step("three nodes that a stranger reaches", || start(&product.closed()))?;
    let [_, other, ..] = *testbed.cpus() else {
        eprintln!("  what strangers cost is not measured: he needs a processor of his own");
        return Ok(());
    };
    let folder = testbed.cluster.folder().to_owned();
    let hello = client_hello(&testbed)?;
    let targets = Targets::of(&testbed);
    let mut site = Besieged {
        site: Site::new(testbed, Clients::default(), size_bytes),
        stranger: None,
    };
    measuring.time = TURN;
    for mix in [Mix::Write, Mix::Read] {
        let case = Case {
            placement: Placement::OneCore,
            ..Case::new(Front::Libamita, mix, DEPTH)
        };
        site.ready(&case)?;
        for manner in Manner::ALL {
            let label = format!("a stranger at every port ({manner}), {}", case.label());
            let turns = steps.step(&label, || {
                (0..TURNS)
                    .map(|_| {
                        let alone = measuring.alone(&mut site, &case)?.iops;
                        let stranger = Stranger::start(&folder, &targets, manner, CONNECTIONS, &hello)?;
                        amita_harness::affinity::keep_on(stranger.pid(), &[other])?;
                        amita_terminal::interrupt::sleep(BEFORE)?;
                        site.stranger = Some(stranger);
                        let besieged = measuring.alone(&mut site, &case);
                        let done = site.stranger.take().map(Stranger::finish).transpose()?;
                        Ok((besieged?.iops / alone.max(1e-9), done.unwrap_or_default()))
                    })
                    .collect::<Result<Vec<_>>>()
            })?;
            let name = format!("hostile.{mix}.{manner}");
            figures.at_least(
                &format!("{name}.rate_left"),
                &format!("{label}: of the rate without him"),
                median(turns.iter().map(|(left, _)| *left)),
                "",
                RATE_LEFT,
            );
            figures.note(
                &format!("{name}.connections"),
                &format!("{label}: that he had at once, at most"),
                median(turns.iter().map(|(_, done)| done.open as f64)),
                "",
            );
            figures.note(
                &format!("{name}.attempts"),
                &format!("{label}: connections that he began a second"),
                median(turns.iter().map(|(_, done)| done.begun as f64 / done.seconds.max(1e-9))),
                "1/s",
            );
        }
    }
    Ok(())
}

/// Every port that a stranger reaches.
struct Targets {
    /// Of these a connection begins with TLS: nodes' links, and the metadata.
    tls: Vec<SocketAddr>,
    /// NBD and NVMe.
    hosts: Vec<SocketAddr>,
}

impl Targets {
    fn of(testbed: &Testbed) -> Targets {
        let nodes = testbed.cluster.nodes();
        let fabric = nodes.iter().map(|node| node.fabric);
        Targets {
            tls: fabric.chain(testbed.cluster.metadata_address()).collect(),
            hosts: nodes.iter().flat_map(|node| [node.nbd, node.nvme]).collect(),
        }
    }
}

/// What a call of a node begins with: whoever gets it has to make a key and to sign. It tells nothing of who calls.
fn client_hello(testbed: &Testbed) -> Result<PathBuf> {
    let failed = |why: String| Failure::new(format!("cannot make a ClientHello: {why}"));
    let operator = testbed.cluster.operator()?;
    let operator = operator.ok_or_else(|| failed("nobody proves anything here".to_owned()))?;
    let live = Live::open(&operator, Clock::system()).map_err(|why| failed(why.to_string()))?;
    let mut call = TlsHandshakes::new(live, Protection::Auth)
        .call(&Recorded::node("n1"))
        .map_err(failed)?;
    let mut hello = Vec::new();
    call.advance(&[], &mut hello).map_err(failed)?;
    let path = testbed.cluster.folder().join("client-hello");
    std::fs::write(&path, hello).context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The cluster, and the stranger beside it while there is one: what he uses is not somebody else's.
struct Besieged {
    site: Site,
    stranger: Option<Stranger>,
}

impl SystemUnderTest for Besieged {
    fn watched(&self) -> Vec<Watched> {
        let stranger = self.stranger.as_ref().map(|stranger| Watched {
            name: "stranger".to_owned(),
            pid: stranger.pid(),
        });
        self.site.watched().into_iter().chain(stranger).collect()
    }

    fn ready(&mut self, case: &Case) -> Result<()> {
        self.site.ready(case)
    }

    fn start(&mut self, case: &Case, time: Duration) -> Result<Running<'_>> {
        self.site.start(case, time)
    }
}
