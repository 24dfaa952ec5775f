//! The collector of OpenTelemetry that the node's traces go to, if any.

use amita_node::observe::TraceSource;
use amita_otlp::settings::BadSetting;
use amita_otlp::{Endpoint, Exporter, Settings};
use amita_terminal::error::{Failure, Kind, Result};
use std::path::PathBuf;

/// Settings of the export.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The collector of OpenTelemetry that the node sends the traces to which it keeps (`amita trace`), by OTLP over HTTP:
    /// `http[s]://HOST[:PORT][/PATH]`, to which /v1/traces is added (docs/operating/opentelemetry.md). Plain http is for this machine,
    /// or with --insecure-network [default: none]
    #[arg(long, env = "AMITA_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// Authorities (PEM) that the collector's certificate may be of [default: those that the system believes]
    #[arg(long, env = "AMITA_OTLP_CA", value_name = "FILE", requires = "otlp_endpoint")]
    pub otlp_ca: Option<PathBuf>,
    /// The file with the headers that the collector wants, a token perhaps: lines of NAME: VALUE. Nobody else may read it; it is
    /// read again before each request
    #[arg(long, env = "AMITA_OTLP_HEADERS", value_name = "FILE", requires = "otlp_endpoint")]
    pub otlp_headers: Option<PathBuf>,
    /// Whether what is sent to the collector is compressed
    #[arg(long, env = "AMITA_OTLP_COMPRESSION", value_name = "HOW", value_enum, default_value_t = Compression::Gzip)]
    pub otlp_compression: Compression,
}

/// How what is sent is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Compression {
    Gzip,
    None,
}

impl Arguments {
    /// Where the traces go; none: nowhere.
    ///
    /// # Errors
    /// Nothing could be sent by these settings.
    pub(super) fn settings(&self, insecure_network: bool) -> Result<Option<Settings>> {
        let Some(endpoint) = &self.otlp_endpoint else {
            return Ok(None);
        };
        // Read here and not with the command line, whose complaints repeat what was given.
        let endpoint = Endpoint::parse(endpoint)
            .map_err(|why| Failure::new(format!("--otlp-endpoint: {why}")).kind(Kind::Usage))?;
        let mut settings = Settings::new(endpoint);
        settings.authorities.clone_from(&self.otlp_ca);
        settings.headers.clone_from(&self.otlp_headers);
        settings.gzip = self.otlp_compression == Compression::Gzip;
        settings.insecure_network = insecure_network;
        settings.check().map_err(|why| {
            let (setting, kind) = match &why {
                BadSetting::Headers(_) => ("--otlp-headers", Kind::Unreadable),
                BadSetting::Authorities(_) => ("--otlp-ca", Kind::Unreadable),
                _ => ("--otlp-endpoint", Kind::Usage),
            };
            Failure::new(format!("{setting}: {why}")).kind(kind)
        })?;
        Ok(Some(settings))
    }
}

/// Begins to send, where the settings want it. What keeps it from that is in the log: a node serves without.
pub(super) fn start(settings: Option<Settings>, source: TraceSource) -> Option<Exporter> {
    let settings = settings?;
    let endpoint = settings.endpoint.clone();
    match Exporter::start(settings, source) {
        Ok(exporter) => {
            log::info!("traces of I/Os go to {endpoint}");
            Some(exporter)
        }
        Err(why) => {
            log::warn!("no traces of I/Os go to {endpoint}: {why}");
            None
        }
    }
}
