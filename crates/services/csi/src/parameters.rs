//! The parameters of a StorageClass and of a VolumeAttributesClass (decision 086, "Parameters"). One that is not known is refused: a misspelt limit would be
//! none.

use crate::api::{Limit, Limits, Measures, OnDelete, Priority};
use crate::node::filesystem::format_options;
use crate::protocol::Protocol;
use crate::topology::Reach;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A class whose volumes are encrypted at their node, by a passphrase of a Secret (decision 099).
pub const BY_SECRET: &str = "encryptedBySecret";
/// Bytes before the text of such a volume: the head of LUKS2, where its keys are.
pub const LUKS_BYTES: u64 = 16 << 20;
/// Before those that the sidecars add.
const OF_KUBERNETES: &str = "csi.storage.k8s.io/";
/// The labels that they become.
const KEPT: [&str; 3] = [
    "csi.storage.k8s.io/pvc/name",
    "csi.storage.k8s.io/pvc/namespace",
    "csi.storage.k8s.io/pv/name",
];
/// The longest value of a label.
const MAX_LABEL: usize = 256;
/// For a path: what the node is told, and the range that is sensible.
const OF_PATHS: [(&str, i64, i64); 5] = [
    ("nvmeNrIoQueues", 1, 128),
    ("nvmeKeepAliveTmo", 4, 600),
    ("nvmeReconnectDelay", 1, 600),
    ("nvmeCtrlLossTmo", -1, 86_400),
    ("nvmeFastIoFailTmo", -1, 86_400),
];

/// What of a StorageClass a volume is made by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The pools, of which the nearest one with room is taken; none: the one that there is.
    pub pools: Vec<String>,
    /// From where its volumes may be used.
    pub reach: Reach,
    /// Encrypted at rest.
    pub encrypted: bool,
    /// Whose it is, by whose volume key it is encrypted if there is one; none: nobody's.
    pub tenant: Option<String>,
    /// What becomes of it when it is deleted.
    pub on_delete: OnDelete,
    /// What the provisioner says of the claim.
    pub labels: BTreeMap<String, String>,
    /// What publishing and staging need: the volume's context.
    pub context: BTreeMap<String, String>,
}

/// What of a volume's context publishing needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The nodes that serve it; none: all.
    pub gateways: Vec<String>,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Connections without TLS are refused.
    pub tls_required: bool,
    /// A volume of one node is reserved by it.
    pub reserved: bool,
    /// By what nodes have it; none: by what they can, NVMe/TCP first.
    pub protocol: Option<Protocol>,
}

fn flag(key: &str, value: &str) -> Result<bool, String> {
    value
        .parse()
        .map_err(|_| format!("{key} is {value:?}; say true or false"))
}

/// As it stands in the parameters and in the label.
#[must_use]
pub fn on_delete_text(how: OnDelete) -> String {
    match how {
        OnDelete::Recycle => "recycle".to_owned(),
        OnDelete::Now => "now".to_owned(),
        OnDelete::Keep(seconds) => seconds.to_string(),
    }
}

/// Reads what becomes of a deleted volume.
///
/// # Errors
/// In words.
pub fn on_delete(text: &str) -> Result<OnDelete, String> {
    match text {
        "recycle" => Ok(OnDelete::Recycle),
        "now" => Ok(OnDelete::Now),
        seconds => match seconds.parse() {
            Ok(seconds) => Ok(OnDelete::Keep(seconds)),
            Err(_) => Err(format!(
                "onDelete is {seconds:?}; say recycle, now, or for how many seconds it is kept"
            )),
        },
    }
}

impl Class {
    /// Are its volumes encrypted at their node?
    #[must_use]
    pub fn is_by_secret(&self) -> bool {
        self.context.contains_key(BY_SECRET)
    }

    /// Bytes that each of its volumes has beside those that its pods see.
    #[must_use]
    pub fn head_bytes(&self) -> u64 {
        match self.is_by_secret() {
            true => LUKS_BYTES,
            false => 0,
        }
    }

    /// Of the parameters of a request.
    ///
    /// # Errors
    /// In words: one is not known, or has a value that cannot be.
    pub fn read(parameters: &BTreeMap<String, String>) -> Result<Class, String> {
        let mut class = Class {
            pools: Vec::new(),
            reach: Reach::default(),
            encrypted: false,
            tenant: None,
            on_delete: OnDelete::Recycle,
            labels: BTreeMap::new(),
            context: BTreeMap::new(),
        };
        for (key, value) in parameters {
            class.take(key, value)?;
        }
        if class.reach != Reach::Everywhere && class.pools.is_empty() {
            return Err(format!(
                "accessibleFrom is {}, and no pool is named (pool): its places are where volumes can be used",
                class.reach.text()
            ));
        }
        // What cannot be is to be told now, and not when a node wants the volume.
        Serving::read(&class.context)?;
        Ok(class)
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "pool" => {
                let names = value.split(',').map(str::trim).filter(|name| !name.is_empty());
                self.pools = names.map(str::to_owned).collect();
            }
            "accessibleFrom" => {
                let wrong = || format!("accessibleFrom is {value:?}; say everywhere, site or rack");
                self.reach = Reach::read(value).ok_or_else(wrong)?;
            }
            "encrypted" => self.encrypted = flag(key, value)?,
            "tenant" => self.tenant = Some(value.to_owned()).filter(|tenant| !tenant.is_empty()),
            "onDelete" => self.on_delete = on_delete(value)?,
            "mkfsOptions" => {
                format_options(value)?;
                self.context.insert(key.to_owned(), value.to_owned());
            }
            BY_SECRET => {
                if flag(key, value)? {
                    self.context.insert(key.to_owned(), "true".to_owned());
                }
            }
            "gateways" | "blockSize" | "tlsRequired" | "reservations" | "protocol" => {
                self.context.insert(key.to_owned(), value.to_owned());
            }
            _ if OF_PATHS.iter().any(|(known, ..)| *known == key) => {
                path_setting(key, value)?;
                self.context.insert(key.to_owned(), value.to_owned());
            }
            _ if KEPT.contains(&key) => {
                if value.len() <= MAX_LABEL {
                    self.labels.insert(key.to_owned(), value.to_owned());
                }
            }
            _ if key.starts_with(OF_KUBERNETES) => {}
            _ => return Err(format!("{key:?} is no parameter")),
        }
        Ok(())
    }
}

fn path_setting(key: &str, value: &str) -> Result<(), String> {
    let (_, least, most) = OF_PATHS
        .iter()
        .find(|(known, ..)| *known == key)
        .ok_or_else(|| format!("{key:?} is no setting"))?;
    match value.parse::<i64>() {
        Ok(number) if (*least..=*most).contains(&number) => Ok(()),
        _ => Err(format!("{key} is {value:?}; it can be {least} to {most}")),
    }
}

impl Serving {
    /// Of a volume's context.
    ///
    /// # Errors
    /// In words.
    pub fn read(context: &BTreeMap<String, String>) -> Result<Serving, String> {
        let text = |key: &str| context.get(key).map(String::as_str).filter(|text| !text.is_empty());
        let gateways = text("gateways").unwrap_or_default().split(',').map(str::trim);
        let block_bytes = match text("blockSize") {
            None | Some("4096") => 4096,
            Some("512") => 512,
            Some(other) => return Err(format!("blockSize is {other:?}; say 4096 or 512")),
        };
        let reserved = match text("reservations") {
            None | Some("on") => true,
            Some("off") => false,
            Some(other) => return Err(format!("reservations is {other:?}; say on or off")),
        };
        let protocol = match text("protocol") {
            None => None,
            Some("nvme") => Some(Protocol::Nvme),
            Some("iscsi") => Some(Protocol::Iscsi),
            Some(other) => return Err(format!("protocol is {other:?}; say nvme or iscsi")),
        };
        let tls_required = text("tlsRequired").map_or(Ok(false), |value| flag("tlsRequired", value))?;
        if tls_required && protocol == Some(Protocol::Iscsi) {
            return Err("tlsRequired is true, and protocol is \"iscsi\", which has no TLS".to_owned());
        }
        Ok(Serving {
            gateways: gateways.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            block_bytes,
            tls_required,
            reserved,
            protocol,
        })
    }
}

/// What of a volume may be changed while it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutable {
    /// The limits that are said; what is not stays. `Some(None)`: no limit.
    limits: Vec<(Measure, Kind, Option<u64>)>,
    /// How it is to stand among others; what is not said stays. `Some(None)`: as every volume does.
    reservation: Option<Option<u64>>,
    weight: Option<Option<u16>>,
    latency_target_us: Option<Option<u32>>,
    /// The pool.
    pub pool: Option<String>,
    /// The pool that has so many copies.
    pub copies: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Iops,
    Bandwidth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Both,
}

/// What the API takes (docs/limits.md): what it would refuse is to be told before a volume is made.
const RATES: RangeInclusive<u64> = 1..=1 << 50;
const RESERVATIONS: RangeInclusive<u64> = 1 << 20..=1 << 40;
const WEIGHTS: RangeInclusive<u16> = 1..=1000;
const LATENCY_TARGETS_US: RangeInclusive<u32> = 100..=20_000;

/// A number; 0: none.
fn number<T>(key: &str, value: &str, range: RangeInclusive<T>) -> Result<Option<T>, String>
where
    T: FromStr + Default + PartialOrd + Display,
{
    let (least, most) = (range.start(), range.end());
    let wrong = || format!("{key} is {value:?}; it can be {least} to {most}, or 0 for none");
    let number: T = value.parse().map_err(|_| wrong())?;
    match number == T::default() {
        true => Ok(None),
        false if range.contains(&number) => Ok(Some(number)),
        false => Err(wrong()),
    }
}

impl Mutable {
    /// Of the mutable parameters of a request.
    ///
    /// # Errors
    /// In words: one is not known, or has a value that cannot be.
    pub fn read(parameters: &BTreeMap<String, String>) -> Result<Mutable, String> {
        let mut found = Mutable::default();
        for (key, value) in parameters {
            let limit = match key.as_str() {
                "iops" => Some((Measure::Iops, Kind::Both)),
                "iopsRead" => Some((Measure::Iops, Kind::Read)),
                "iopsWrite" => Some((Measure::Iops, Kind::Write)),
                "bandwidth" => Some((Measure::Bandwidth, Kind::Both)),
                "bandwidthRead" => Some((Measure::Bandwidth, Kind::Read)),
                "bandwidthWrite" => Some((Measure::Bandwidth, Kind::Write)),
                "reserve" => {
                    found.reservation = Some(number(key, value, RESERVATIONS)?);
                    None
                }
                "weight" => {
                    found.weight = Some(number(key, value, WEIGHTS)?);
                    None
                }
                "latencyTargetUs" => {
                    found.latency_target_us = Some(number(key, value, LATENCY_TARGETS_US)?);
                    None
                }
                "pool" => {
                    found.pool = Some(value.clone());
                    None
                }
                "copies" => {
                    found.copies = Some(
                        value
                            .parse()
                            .map_err(|_| format!("copies is {value:?}; say how many"))?,
                    );
                    None
                }
                _ => return Err(format!("{key:?} is no mutable parameter")),
            };
            if let Some((measure, kind)) = limit {
                found.limits.push((measure, kind, number(key, value, RATES)?));
            }
        }
        Ok(found)
    }

    /// Does it say anything of limits?
    #[must_use]
    pub fn limits_something(&self) -> bool {
        !self.limits.is_empty()
    }

    /// Does it say anything of how the volume stands among others?
    #[must_use]
    pub fn orders_something(&self) -> bool {
        self.reservation.is_some() || self.weight.is_some() || self.latency_target_us.is_some()
    }

    /// How it is to stand, where it stands so.
    #[must_use]
    pub fn ordered(&self, there: Priority) -> Priority {
        Priority {
            reservation: self.reservation.unwrap_or(there.reservation),
            weight: self.weight.unwrap_or(there.weight),
            latency_target_us: self.latency_target_us.unwrap_or(there.latency_target_us),
        }
    }

    /// The limits that are to be, where these are. What has its rate already keeps its burst.
    #[must_use]
    pub fn over(&self, mut limits: Limits) -> Limits {
        for (measure, kind, rate) in &self.limits {
            let measures: &mut Measures = match measure {
                Measure::Iops => &mut limits.iops,
                Measure::Bandwidth => &mut limits.bandwidth,
            };
            let place = match kind {
                Kind::Read => &mut measures.read,
                Kind::Write => &mut measures.write,
                Kind::Both => &mut measures.both,
            };
            match rate {
                None => *place = None,
                Some(rate) if place.as_ref().is_some_and(|limit| limit.rate == *rate) => {}
                Some(rate) => {
                    *place = Some(Limit {
                        rate: *rate,
                        burst: None,
                        peak: None,
                    });
                }
            }
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_class_is_read_and_what_is_not_known_refused() {
        let class = Class::read(&of(&[
            ("pool", "fast"),
            ("encrypted", "true"),
            ("onDelete", "3600"),
            ("nvmeNrIoQueues", "4"),
            ("gateways", "n1, n2"),
            ("csi.storage.k8s.io/pvc/name", "db"),
            ("csi.storage.k8s.io/fstype", "xfs"),
            ("protocol", "iscsi"),
        ]))
        .expect("a class");
        assert_eq!(
            (class.pools.as_slice(), class.encrypted),
            (["fast".to_owned()].as_slice(), true)
        );
        assert_eq!(class.on_delete, OnDelete::Keep(3600));
        assert_eq!(class.labels, of(&[("csi.storage.k8s.io/pvc/name", "db")]));
        assert_eq!(
            class.context,
            of(&[("gateways", "n1, n2"), ("nvmeNrIoQueues", "4"), ("protocol", "iscsi")])
        );
        let serving = Serving::read(&class.context).expect("how it is served");
        assert_eq!(
            (serving.gateways, serving.protocol),
            (vec!["n1".to_owned(), "n2".to_owned()], Some(Protocol::Iscsi))
        );
        let both = of(&[("protocol", "iscsi"), ("tlsRequired", "true")]);
        assert!(Class::read(&both).is_err_and(|why| why.contains("tlsRequired")));
        assert!(serving.reserved && serving.block_bytes == 4096 && !serving.tls_required);
        for (key, value) in [
            ("pol", "fast"),
            ("encrypted", "yes"),
            ("onDelete", "never"),
            ("protocol", "ublk"),
            ("blockSize", "8192"),
            ("nvmeKeepAliveTmo", "1"),
            ("reservations", "no"),
            ("mkfsOptions", "-N 7 /dev/sda"),
            ("accessibleFrom", "zone"),
            // No pool is named.
            ("accessibleFrom", "site"),
        ] {
            assert!(
                Class::read(&of(&[(key, value)])).is_err_and(|why| why.contains(key)),
                "{key}={value}"
            );
        }
    }

    #[test]
    fn limits_change_what_is_said_and_leave_the_rest() {
        let limit = |rate, burst| Limit {
            rate,
            burst,
            peak: None,
        };
        let mut there = Limits::default();
        there.iops.both = Some(limit(100, Some(50)));
        there.iops.read = Some(limit(70, Some(7)));
        there.bandwidth.write = Some(limit(9, Some(9)));
        let wish = Mutable::read(&of(&[("iops", "200"), ("iopsRead", "70"), ("bandwidthWrite", "0")])).expect("a wish");
        let limits = wish.over(there.clone());
        assert_eq!(limits.iops.both, Some(limit(200, None)));
        assert_eq!(limits.iops.read, there.iops.read);
        assert_eq!(limits.bandwidth.write, None);
        assert_eq!(Mutable::default().over(there.clone()), there);
        let there = Priority {
            weight: Some(300),
            latency_target_us: Some(500),
            ..Priority::default()
        };
        let wish = Mutable::read(&of(&[("reserve", "2000000"), ("latencyTargetUs", "0")])).expect("a wish");
        assert!(wish.orders_something() && !wish.limits_something());
        let wanted = Priority {
            reservation: Some(2_000_000),
            weight: Some(300),
            latency_target_us: None,
        };
        assert_eq!(wish.ordered(there.clone()), wanted);
        assert_eq!(Mutable::default().ordered(there.clone()), there);
        for (key, value) in [
            ("iops", "many"),
            ("iop", "1"),
            ("copies", "x"),
            ("weight", "70000"),
            ("weight", "1001"),
            ("reserve", "-1"),
            ("reserve", "1000"),
            ("latencyTargetUs", "20001"),
            ("bandwidth", "9000000000000000000"),
        ] {
            assert!(Mutable::read(&of(&[(key, value)])).is_err(), "{key}");
        }
    }
}
