//! `amita_options`.

use crate::failure::{Failure, Result};
use amita_client::{Config, Level};
use std::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// `AMITA_INLINE`.
pub(crate) const INLINE: u32 = 1;

/// `amita_log`.
pub(crate) type LogFunction = Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_char)>;

/// As the header has it.
#[repr(C)]
pub struct Options {
    pub(crate) size: usize,
    pub(crate) metadata: *const c_char,
    pub(crate) name: *const c_char,
    pub(crate) fabric: *const c_char,
    pub(crate) stores: *const c_char,
    pub(crate) buffer_bytes: u64,
    pub(crate) cpu: i32,
    pub(crate) flags: u32,
    pub(crate) open_timeout_ms: u32,
    pub(crate) metadata_timeout_ms: u32,
    pub(crate) log: LogFunction,
    pub(crate) log_argument: *mut c_void,
}

/// The texts of the options, as they were given.
pub(crate) struct Texts {
    pub(crate) metadata: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) fabric: Option<String>,
    pub(crate) stores: Option<String>,
}

impl Options {
    pub(crate) fn usual() -> Options {
        let config = Config::new(Vec::new());
        Options {
            size: size_of::<Options>(),
            metadata: std::ptr::null(),
            name: std::ptr::null(),
            fabric: std::ptr::null(),
            stores: std::ptr::null(),
            buffer_bytes: config.buffer_bytes as u64,
            cpu: -1,
            flags: 0,
            open_timeout_ms: config.open_patience.as_millis() as u32,
            metadata_timeout_ms: config.metadata_patience.as_millis() as u32,
            log: None,
            log_argument: std::ptr::null_mut(),
        }
    }

    pub(crate) fn config(
        &self,
        texts: Texts,
        log: Option<impl Fn(c_int, &str) + Send + Sync + 'static>,
    ) -> Result<Config> {
        let bad = |text: String| Failure::new(libc::EINVAL, text);
        let unknown = self.flags & !INLINE;
        if unknown != 0 {
            return Err(bad(format!(
                "flags: this library does not know {unknown:#x}; is it older than its header?"
            )));
        }
        let metadata = texts.metadata.or_else(|| std::env::var("AMITA_METADATA").ok());
        let identity = std::env::var_os("AMITA_IDENTITY").map(PathBuf::from);
        let nodes = std::env::var("AMITA_NODES").ok();
        // A client's identity needs none.
        if metadata.is_none() && identity.is_none() && nodes.is_none() {
            let why = "metadata: name it as HOST:PORT, here or by the variable AMITA_METADATA";
            return Err(bad(why.to_owned()));
        }
        let divided = |list: &str| -> Vec<String> {
            let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect()
        };
        let mut config = Config::new(divided(metadata.as_deref().unwrap_or_default()));
        config.name = texts.name;
        config.identity = identity;
        config.nodes = divided(nodes.as_deref().unwrap_or_default());
        config.ca_server = std::env::var("AMITA_CA_SERVER").ok();
        if let Ok(links) = std::env::var("AMITA_LINKS") {
            if config.identity.is_none() {
                let why = "AMITA_LINKS: there is no identity to protect links with; set AMITA_IDENTITY";
                return Err(bad(why.to_owned()));
            }
            config.links = links.parse().map_err(|why| bad(format!("AMITA_LINKS: {why}")))?;
        }
        // As the commands take it.
        let insecure = std::env::var("AMITA_INSECURE_NETWORK").map(|text| text.to_ascii_lowercase());
        config.insecure_network = match insecure.as_deref() {
            Err(_) | Ok("n" | "no" | "f" | "false" | "off" | "0") => false,
            Ok("y" | "yes" | "t" | "true" | "on" | "1") => true,
            Ok(other) => {
                return Err(bad(format!(
                    "AMITA_INSECURE_NETWORK: {other:?}; set it to true or false"
                )));
            }
        };
        if let Some(fabric) = texts.fabric {
            let address = fabric.parse();
            config.fabric = Some(address.map_err(|why| bad(format!("fabric: {fabric}: {why}; give ADDRESS:PORT")))?);
        }
        config.stores = divided(&texts.stores.unwrap_or_default())
            .into_iter()
            .map(PathBuf::from)
            .collect();
        config.buffer_bytes = usize::try_from(self.buffer_bytes).unwrap_or(usize::MAX);
        config.cpu = usize::try_from(self.cpu).ok();
        config.open_patience = Duration::from_millis(self.open_timeout_ms.into());
        config.metadata_patience = Duration::from_millis(self.metadata_timeout_ms.into());
        config.log = log.map(|log| -> amita_client::Log {
            Arc::new(move |level, text| {
                let level = match level {
                    Level::Error => 0,
                    Level::Warn => 1,
                    Level::Info => 2,
                };
                log(level, text);
            })
        });
        Ok(config)
    }
}
