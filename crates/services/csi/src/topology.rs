//! Places: where nodes of Kubernetes stand, and where the stores of a pool do (decision 095).
//!
//! Amita knows sites, and racks in them (`amita node place`). A node of Kubernetes reports the same two, and what Kubernetes calls its zone is its site. Volumes
//! are reached by network, so a volume is everywhere unless its class binds it to where its pool lies (`accessibleFrom`).

use crate::Driver;
use crate::wire::common::Topology;
use std::collections::BTreeSet;
use std::fmt;

/// What Kubernetes calls a zone: the site.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The longest name that a node can report: kubelet makes a label of it.
const MAX_NAME: usize = 63;

/// A rack of a site, or a site alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The site.
    pub site: String,
    /// The rack, unique in its site; empty: none is named.
    pub rack: String,
}

/// From where volumes of a class may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// From each node.
    #[default]
    Everywhere,
    /// From the sites that its pool has stores in.
    Site,
    /// From the racks that its pool has stores in.
    Rack,
}

impl Reach {
    /// As it stands in the parameters and in the label.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Reach::Everywhere => "everywhere",
            Reach::Site => "site",
            Reach::Rack => "rack",
        }
    }

    /// Reads it; none: it is no such word.
    #[must_use]
    pub fn read(text: &str) -> Option<Reach> {
        [Reach::Everywhere, Reach::Site, Reach::Rack]
            .into_iter()
            .find(|reach| reach.text() == text)
    }
}

fn site_key(driver: &str) -> String {
    format!("topology.{driver}/site")
}

fn rack_key(driver: &str) -> String {
    format!("topology.{driver}/rack")
}

/// Where a node of Kubernetes stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    place: Place,
    /// Its site is what Kubernetes calls its zone, and is reported by that name too.
    is_zone: bool,
}

/// Kubelet makes a label of it: letters, digits, and `-`, `_`, `.` between them.
fn check(what: &str, name: &str) -> Result<(), String> {
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    let is_name = bytes.len() <= MAX_NAME
        && ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    match is_name {
        true => Ok(()),
        false => Err(format!(
            "{name:?} is no {what} that Kubernetes can have as a label: 1 to {MAX_NAME} letters, digits, and - _ . between them"
        )),
    }
}

impl Standing {
    /// Of what a node is told; what is empty is not said.
    ///
    /// # Errors
    /// In words: no site is said, two are, or a name is no label.
    pub fn new(site: &str, zone: &str, rack: &str) -> Result<Standing, String> {
        let place = match (site, zone) {
            ("", "") => {
                return Err("where this machine stands is not said: neither its site nor its zone is".to_owned());
            }
            ("", name) | (name, "") => name,
            (site, zone) if site == zone => site,
            (site, zone) => {
                return Err(format!(
                    "the site of this machine is {site:?}, and its zone {zone:?}: to storage they are one, say only what sites of the cluster are called by"
                ));
            }
        };
        check("site", place)?;
        if !rack.is_empty() {
            check("rack", rack)?;
        }
        Ok(Standing {
            place: Place {
                site: place.to_owned(),
                rack: rack.to_owned(),
            },
            is_zone: !zone.is_empty(),
        })
    }

    /// As a file of a machine says it: `site=NAME`, `zone=NAME` and `rack=NAME`, a line each; lines that begin with `#` are for people.
    ///
    /// # Errors
    /// In words: a line is none of them; or see [`Standing::new`].
    pub fn read(text: &str) -> Result<Standing, String> {
        let (mut site, mut zone, mut rack) = ("", "", "");
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once('=').map(|(key, name)| (key.trim(), name.trim())) {
                Some(("site", name)) => site = name,
                Some(("zone", name)) => zone = name,
                Some(("rack", name)) => rack = name,
                _ => return Err(format!("{line:?} is neither site=NAME, zone=NAME nor rack=NAME")),
            }
        }
        Standing::new(site, zone, rack)
    }

    /// As the specification has it.
    #[must_use]
    pub fn topology(&self, driver: &Driver) -> Topology {
        let mut found = term(&driver.name, &self.place, Reach::Rack);
        if self.is_zone {
            found.segments.insert(ZONE.to_owned(), self.place.site.clone());
        }
        found
    }
}

fn term(driver: &str, place: &Place, reach: Reach) -> Topology {
    let mut found = Topology::default();
    found.segments.insert(site_key(driver), place.site.clone());
    if reach == Reach::Rack && !place.rack.is_empty() {
        found.segments.insert(rack_key(driver), place.rack.clone());
    }
    found
}

/// Where something is wanted: what is not said is any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    site: Option<String>,
    rack: Option<String>,
    /// It says what no place of this driver has.
    is_nowhere: bool,
}

impl Wanted {
    /// Of a term of a request.
    #[must_use]
    pub fn read(driver: &str, term: &Topology) -> Wanted {
        let (site, rack) = (site_key(driver), rack_key(driver));
        let mut wanted = Wanted {
            site: None,
            rack: None,
            is_nowhere: false,
        };
        // Keys are compared as label keys are: without regard to case (CSI 1.13, "Topology").
        for (key, value) in &term.segments {
            let place = match key {
                key if key.eq_ignore_ascii_case(&site) || key.eq_ignore_ascii_case(ZONE) => &mut wanted.site,
                key if key.eq_ignore_ascii_case(&rack) => &mut wanted.rack,
                _ => {
                    wanted.is_nowhere = true;
                    continue;
                }
            };
            if place.as_ref().is_some_and(|there| there != value) {
                wanted.is_nowhere = true;
            }
            *place = Some(value.clone());
        }
        wanted
    }

    /// Is a place meant, as far as sites or racks are told apart?
    #[must_use]
    pub fn has(&self, place: &Place, reach: Reach) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|wanted| wanted == name);
        !self.is_nowhere && is(&self.site, &place.site) && (reach != Reach::Rack || is(&self.rack, &place.rack))
    }

    fn has_one(&self, places: &BTreeSet<Place>, reach: Reach) -> bool {
        places.iter().any(|place| self.has(place, reach))
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |name: &Option<String>| name.clone().unwrap_or_else(|| "any".to_owned());
        match self.is_nowhere {
            true => write!(f, "a place that is none of this driver's"),
            false => write!(f, "site {}, rack {}", any(&self.site), any(&self.rack)),
        }
    }
}

/// What a request says of where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    requisite: Vec<Wanted>,
    preferred: Vec<Wanted>,
}

impl Requirement {
    /// Of the terms of a request.
    #[must_use]
    pub fn read(driver: &str, requisite: &[Topology], preferred: &[Topology]) -> Requirement {
        let all = |terms: &[Topology]| terms.iter().map(|term| Wanted::read(driver, term)).collect();
        Requirement {
            requisite: all(requisite),
            preferred: all(preferred),
        }
    }

    /// Does it say nothing?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requisite.is_empty() && self.preferred.is_empty()
    }

    /// Can what lies at these places be used from where it has to be?
    #[must_use]
    pub fn allows(&self, places: &BTreeSet<Place>, reach: Reach) -> bool {
        let named = places.iter().any(|place| is_named(place, reach));
        match reach {
            Reach::Everywhere => true,
            _ => {
                named
                    && (self.requisite.is_empty() || self.requisite.iter().any(|wanted| wanted.has_one(places, reach)))
            }
        }
    }

    /// How far from what is wanted it lies: the number of the first term that is preferred and has it, behind those what is required and has it, and then the
    /// rest; and whether it has a term by its site alone.
    #[must_use]
    pub fn distance(&self, places: &BTreeSet<Place>) -> (usize, bool) {
        let required = self.requisite.iter().any(|wanted| wanted.has_one(places, Reach::Site));
        let mut preferred = self.preferred.iter().enumerate();
        match preferred.find(|(_, wanted)| wanted.has_one(places, Reach::Site)) {
            Some((at, wanted)) => (at, !wanted.has_one(places, Reach::Rack)),
            None if required => (self.preferred.len(), true),
            None => (usize::MAX, true),
        }
    }

    /// From where what lies at these places can be used; none: from everywhere. Where not all of the terms that are required have it, only those that do: the
    /// specification lets it have no others (CSI 1.13, "TopologyRequirement").
    #[must_use]
    pub fn accessible(&self, driver: &str, places: &BTreeSet<Place>, reach: Reach) -> Vec<Topology> {
        if reach == Reach::Everywhere {
            return Vec::new();
        }
        let has_all = self.requisite.iter().all(|wanted| wanted.has_one(places, reach));
        let is_meant = |place: &&Place| {
            is_named(place, reach) && (has_all || self.requisite.iter().any(|wanted| wanted.has(place, reach)))
        };
        let mut terms: Vec<Topology> = Vec::new();
        for found in places.iter().filter(is_meant).map(|place| term(driver, place, reach)) {
            if !terms.contains(&found) {
                terms.push(found);
            }
        }
        terms
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.requisite.iter().map(ToString::to_string).collect();
        write!(f, "{}", all.join("; "))
    }
}

/// A place without a name is none that a node could report.
fn is_named(place: &Place, reach: Reach) -> bool {
    !place.site.is_empty() && (reach != Reach::Rack || !place.rack.is_empty())
}

#[cfg(test)]
mod tests;
