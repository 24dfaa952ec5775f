//! The login: who is there, what both ends agree on, and what is answered (RFC 7143, 6.3 and 11.12, 11.13).
//!
//! Pure: requests go in, answers come out. The stages are SecurityNegotiation, in which an initiator that has a secret proves
//! it, and LoginOperationalNegotiation; either may be left out by the initiator, the first only by one that has nothing to
//! prove. When the initiator asks for the full feature phase and nothing is missing, the register is asked, and only then
//! is that answered.

mod request;
mod security;
#[cfg(test)]
mod tests;

pub use request::{Request, Response, Stage, refused};

use crate::catalog::{Catalog, Initiator, target_address};
use crate::chap::Algorithm;
use crate::hub::{Holder, Party};
use crate::negotiation::{Negotiation, Phase};
use crate::port::Config;
use crate::text::{Gathered, Pair, Text, find, parse};
use amita_frontend::compute::source_of;
use amita_scsi::Target;
use amita_types::iscsi_name;
use security::Security;
use std::net::IpAddr;
use std::sync::Arc;

/// The most requests of one login.
const MAX_REQUESTS: u32 = 32;

/// A status: class and detail (11.13.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u8, pub u8);

impl Status {
    pub const SUCCESS: Status = Status(0, 0);
    pub const MOVED_TEMPORARILY: Status = Status(1, 1);
    pub const MOVED_PERMANENTLY: Status = Status(1, 2);
    pub const INITIATOR_ERROR: Status = Status(2, 0);
    pub const AUTHENTICATION_FAILED: Status = Status(2, 1);
    pub const NOT_AUTHORIZED: Status = Status(2, 2);
    pub const NOT_FOUND: Status = Status(2, 3);
    pub const VERSION: Status = Status(2, 5);
    pub const TOO_MANY_CONNECTIONS: Status = Status(2, 6);
    pub const MISSING_PARAMETER: Status = Status(2, 7);
    pub const SESSION_TYPE: Status = Status(2, 9);
    pub const INVALID_REQUEST: Status = Status(2, 0x0b);
    pub const TARGET_ERROR: Status = Status(3, 0);
    pub const UNAVAILABLE: Status = Status(3, 1);
    pub const OUT_OF_RESOURCES: Status = Status(3, 2);
}

/// Why a login is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: Status,
    /// For the log.
    pub why: String,
    /// Where the target is instead, for the initiator.
    pub text: Text,
}

impl Refusal {
    fn new(status: Status, why: impl Into<String>) -> Refusal {
        Refusal {
            status,
            why: why.into(),
            text: Text::new(),
        }
    }
}

/// What a login rests on.
pub struct Environment<'a> {
    pub catalog: &'a Catalog,
    pub config: &'a Config,
    pub random: &'a mut dyn FnMut(&mut [u8]),
}

/// What comes of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// It is answered, and others follow.
    Answer(Response),
    /// Nothing is missing: when the register has taken it in, it is answered so.
    Enter(Response),
}

/// Who logs in, and to what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The initiator's, canonical.
    pub initiator: String,
    /// The target's, canonical; none: to discover.
    pub target: Option<String>,
}

impl Names {
    /// May there be a session of them, by the settings of now? `target` is what those say of the target, where this gateway serves it; `shown` what
    /// they said of the initiator when it proved itself, if it had to: that must be what it would have to show today.
    ///
    /// # Errors
    /// Why not, for the log.
    pub(crate) fn still_hold(
        &self,
        target: Option<&Target>,
        shown: Option<&Initiator>,
        catalog: &Catalog,
        config: &Config,
    ) -> Result<(), &'static str> {
        if let Some(name) = &self.target {
            let Some(target) = target else {
                return Err("the target is not served by this gateway any more");
            };
            if !target.admits(&self.initiator) {
                return Err("the initiator may not use the target any more");
            }
            if wants_proof(catalog, name) && shown.is_none() {
                return Err("the target takes nobody any more who has not proven itself");
            }
        }
        let has_to_prove = self.target.is_some() || config.discovery_is_proven;
        let secret = catalog.chap(&self.initiator).filter(|_| has_to_prove);
        let secret = secret.map(|(_, secret)| secret);
        match secret == shown.and_then(|shown| shown.chap.as_ref()) {
            true => Ok(()),
            false => Err("what the initiator has to show was changed since it logged in: it may log in again"),
        }
    }
}

/// The login of one connection.
#[derive(Debug)]
pub struct Login {
    peer: IpAddr,
    /// What all requests of it have in common, once the first has come.
    first: Option<Request>,
    requests: u32,
    stage: Stage,
    names: Option<Names>,
    negotiation: Negotiation,
    security: Security,
    gathered: Gathered,
    /// What the settings said of the initiator when it began to prove itself.
    rests_on: Option<Arc<Initiator>>,
}

impl Login {
    /// Nothing has come; `peer` is where it would come from.
    #[must_use]
    pub fn new(peer: IpAddr, config: &Config) -> Login {
        Login {
            peer,
            first: None,
            requests: 0,
            stage: Stage::Security,
            names: None,
            negotiation: Negotiation::new(config.wishes.clone()),
            security: Security::default(),
            gathered: Gathered::default(),
            rests_on: None,
        }
    }

    /// What the first request has said.
    #[must_use]
    pub fn first(&self) -> Option<&Request> {
        self.first.as_ref()
    }

    /// Who it is, as far as it was said.
    #[must_use]
    pub fn names(&self) -> Option<&Names> {
        self.names.as_ref()
    }

    /// What was agreed.
    #[must_use]
    pub fn into_negotiation(self) -> Negotiation {
        self.negotiation
    }

    /// What the settings said of the initiator when it proved itself, if it had to.
    #[must_use]
    pub fn rests_on(&self) -> Option<&Arc<Initiator>> {
        self.rests_on.as_ref()
    }

    /// Would the initiator be let in by these settings, as it was by those that it began with?
    ///
    /// # Errors
    /// Why not, for the log.
    pub fn still_holds(&self, catalog: &Catalog, config: &Config) -> Result<(), &'static str> {
        match &self.names {
            Some(names) => {
                let target = names.target.as_deref().and_then(|name| catalog.target_here(name));
                names.still_hold(target.map(AsRef::as_ref), self.rests_on.as_deref(), catalog, config)
            }
            None => Ok(()),
        }
    }

    /// The two ends of the session, and whose its place is.
    #[must_use]
    pub fn party(&self) -> Option<(Party, Holder)> {
        let (names, first) = (self.names.as_ref()?, self.first.as_ref()?);
        let party = Party {
            target: names.target.clone().unwrap_or_default(),
            initiator: names.initiator.clone(),
            isid: first.isid,
        };
        let holder = match self.security.has_proven() {
            true => Holder::Proven(names.initiator.clone()),
            false => Holder::Unproven(match party.is_discovery() {
                true => source_of(self.peer),
                false => self.peer.to_canonical(),
            }),
        };
        Some((party, holder))
    }

    /// Takes a request and its data.
    ///
    /// # Errors
    /// The login is over: the initiator is told the status, and the connection ends.
    pub fn take(&mut self, request: &Request, data: &[u8], environment: &mut Environment<'_>) -> Result<Step, Refusal> {
        self.check(request)?;
        let wrong = |why: &str| Refusal::new(Status::INITIATOR_ERROR, why);
        self.gathered.add(data).map_err(wrong)?;
        if request.continues {
            // An empty response asks for the rest (11.12.2, 6.2).
            return Ok(Step::Answer(self.response(request, false, Text::new())));
        }
        let text = self.gathered.take();
        let pairs = parse(&text).map_err(wrong)?;
        let mut answer = Text::new();
        if self.names.is_none() {
            self.begin(request, &pairs, environment, &mut answer)?;
        }
        match self.stage {
            Stage::Security => {
                let taken = self.security.take(&pairs, environment.random, &mut answer);
                taken.map_err(|why| Refusal::new(Status::AUTHENTICATION_FAILED, why))?;
                let rest: Vec<Pair<'_>> = pairs.into_iter().filter(|pair| !security::is_key(pair.0)).collect();
                self.negotiate(&rest, &mut answer)?;
            }
            Stage::Operational => {
                self.negotiation.declare(&mut answer);
                self.negotiate(&pairs, &mut answer)?;
            }
        }
        if answer.len() > MAX_ANSWER_BYTES {
            return Err(wrong("more keys that nobody knows than there is room to say so"));
        }
        let transits = request.transits && self.security.is_over();
        let response = self.response(request, transits, answer);
        match request.next {
            Some(Stage::Operational) if transits => self.stage = Stage::Operational,
            None if transits => {
                let discovery = self.names.as_ref().is_some_and(|names| names.target.is_none());
                self.negotiation.check(discovery).map_err(wrong)?;
                return Ok(Step::Enter(response));
            }
            _ => {}
        }
        Ok(Step::Answer(response))
    }

    /// Is the request one that may come now (11.12)?
    fn check(&mut self, request: &Request) -> Result<(), Refusal> {
        let invalid = |why: &str| Err(Refusal::new(Status::INVALID_REQUEST, why));
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            return Err(Refusal::new(
                Status::INITIATOR_ERROR,
                "a login of more requests than anybody needs",
            ));
        }
        if request.version_min > 0 {
            return Err(Refusal::new(Status::VERSION, "a version of iSCSI other than 0"));
        }
        if request.transits && request.continues {
            return invalid("a login request that goes on, and goes to the next stage");
        }
        match &self.first {
            None => {
                // A handle would add the connection to a session: each has one (MaxConnections=1).
                if request.tsih != 0 {
                    return Err(Refusal::new(
                        Status::TOO_MANY_CONNECTIONS,
                        "another connection for a session: sessions have one here",
                    ));
                }
                self.stage = request.stage;
                self.first = Some(request.clone());
            }
            Some(first) => {
                let is_same = first.isid == request.isid
                    && first.cid == request.cid
                    && first.task_tag == request.task_tag
                    && request.tsih == 0;
                if !is_same {
                    return invalid("a login request that is not of the login that has begun");
                }
                if request.stage != self.stage {
                    return invalid("a login request of another stage than the present one");
                }
            }
        }
        match request.next {
            Some(next) if request.transits && next <= self.stage => invalid("a login that would go backwards"),
            _ => Ok(()),
        }
    }

    /// The first text: who logs in, to what, and what that one has to prove.
    fn begin(
        &mut self,
        request: &Request,
        pairs: &[Pair<'_>],
        environment: &mut Environment<'_>,
        answer: &mut Text,
    ) -> Result<(), Refusal> {
        let catalog = environment.catalog;
        if catalog.scsi.revision == 0 {
            return Err(Refusal::new(
                Status::UNAVAILABLE,
                "this gateway does not know the cluster's settings yet",
            ));
        }
        let missing = |what: &str| Refusal::new(Status::MISSING_PARAMETER, what);
        let initiator = find(pairs, "InitiatorName").ok_or_else(|| missing("a login without InitiatorName"))?;
        let initiator = iscsi_name::canonical(initiator)
            .map_err(|why| Refusal::new(Status::INITIATOR_ERROR, format!("the initiator's name: {why}")))?;
        let target = match find(pairs, "SessionType") {
            Some("Discovery") => None,
            Some("Normal") | None => {
                let target = find(pairs, "TargetName").ok_or_else(|| missing("a login without TargetName"))?;
                let named = iscsi_name::canonical(target).ok();
                let not_found = || Refusal::new(Status::NOT_FOUND, "a target that this gateway does not serve");
                Some(named.ok_or_else(not_found)?)
            }
            Some(_) => return Err(Refusal::new(Status::SESSION_TYPE, "an unknown type of session")),
        };
        if let Some(name) = &target {
            admit(catalog, name, &initiator, answer)?;
        }
        let has_to_prove = target.is_some() || environment.config.discovery_is_proven;
        let known = catalog.chap(&initiator).filter(|_| has_to_prove);
        let failed = |why: &str| Err(Refusal::new(Status::AUTHENTICATION_FAILED, why));
        match known {
            Some((_, secret)) if secret.is_empty() => return failed("the initiator's secret could not be read"),
            None if target.as_deref().is_some_and(|name| wants_proof(catalog, name)) => {
                return failed("the target takes nobody who has no secret; `amita initiator` sets one");
            }
            _ => {}
        }
        self.rests_on = known.and_then(|_| catalog.initiator(&initiator).cloned());
        let hashes: &[Algorithm] = &environment.config.hashes;
        self.security.demand(known, target.as_deref(), hashes);
        if request.stage == Stage::Operational && !self.security.is_over() {
            return failed("the initiator has to prove itself, and leaves that out");
        }
        self.names = Some(Names { initiator, target });
        Ok(())
    }

    fn negotiate(&mut self, pairs: &[Pair<'_>], answer: &mut Text) -> Result<(), Refusal> {
        let discovery = self.names.as_ref().is_some_and(|names| names.target.is_none());
        let phase = Phase::Login { discovery };
        let taken = self.negotiation.take(pairs, phase, answer);
        taken.map_err(|why| Refusal::new(Status::INITIATOR_ERROR, why))
    }

    fn response(&self, request: &Request, transits: bool, text: Text) -> Response {
        Response {
            transits,
            stage: self.stage,
            next: match transits {
                true => request.next,
                false => Some(Stage::Security),
            },
            text,
        }
    }
}

/// The longest text of an answer: what an initiator takes that has not said otherwise (13.12).
const MAX_ANSWER_BYTES: usize = 8192;

/// Must everybody who logs in to that target prove something?
fn wants_proof(catalog: &Catalog, target: &str) -> bool {
    catalog.detail(target).is_some_and(|detail| detail.chap_required)
}

/// May the initiator log in to that target at this gateway? What it is told of the target then.
fn admit(catalog: &Catalog, target: &str, initiator: &str, answer: &mut Text) -> Result<(), Refusal> {
    let detail = catalog.detail(target);
    let known = catalog.scsi.target(target);
    if !known.is_some_and(|known| known.admits(initiator)) {
        // Whether there is such a target is nobody's affair who may not use it; but who may use another is told what is the matter.
        return Err(match known {
            Some(_) if catalog.initiator(initiator).is_some() => Refusal::new(
                Status::NOT_AUTHORIZED,
                format!("{initiator} may not use {target}; `amita initiator` and `amita target` change that"),
            ),
            _ => Refusal::new(
                Status::NOT_FOUND,
                format!("there is no target {target}, or {initiator} may not use it"),
            ),
        });
    }
    if let Some(moved) = detail.and_then(|detail| detail.moved.as_ref()) {
        let status = match moved.permanently {
            true => Status::MOVED_PERMANENTLY,
            false => Status::MOVED_TEMPORARILY,
        };
        let mut refusal = Refusal::new(status, format!("{target} is to be used at {}", moved.portal));
        // A redirection has no tag (13.8).
        refusal.text.push("TargetAddress", &target_address(moved.portal, None));
        return Err(refusal);
    }
    if detail.is_some_and(|detail| detail.leaving) || catalog.target_here(target).is_none() {
        return Err(Refusal::new(
            Status::UNAVAILABLE,
            format!("{target} is not served by this gateway (any more)"),
        ));
    }
    // It is in the first response of a login to a target (13.9).
    if let Some(tag) = catalog.tag() {
        answer.push("TargetPortalGroupTag", &tag.to_string());
    }
    if let Some(detail) = detail.filter(|detail| !detail.alias.is_empty()) {
        answer.push("TargetAlias", &detail.alias);
    }
    Ok(())
}
