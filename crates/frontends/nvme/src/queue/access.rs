//! Who may use the queue: what TLS has shown, and what in-band authentication has to show (NVM Express Base 2.1, 8.3.4).
//!
//! Connect succeeds for a host that has to authenticate itself, and says so in its result; then nothing but the messages
//! of the authentication is taken until it has. Each queue does it by itself.

use super::request::{Gathering, Work};
use super::role::{Login, Role};
use super::target::Target;
use super::{End, Queue, Refusal, admin};
use crate::Cx;
use crate::admin::DISCOVERY_NQN;
use crate::auth::{self, AuthCommand, Authenticator, CONNECT_AUTHREQ_ATR, SendError, State};
use crate::catalog::Catalog;
use crate::command::{Command, Reply, Status};
use crate::hub::Party;
use crate::port::Port;
use crate::tls::PskIdentity;
use crate::wire::{Carrier, Sgl, status};
use amita_frontend::front::CloseReason;
use amita_frontend::slots::SlotId;
use amita_keys::DhchapSecret;
use amita_reactor::Slice;
use std::rc::Rc;

/// What the host has shown, and has to show.
pub(super) struct Access {
    /// What is known of the connection.
    pub login: Login,
    /// What the host has to go through, if it has to.
    pub auth: Option<Box<Authenticator>>,
}

impl Access {
    /// Does what the host says in Connect go together with what it has shown by TLS?
    ///
    /// A host that has a key for TLS must use it. To discover it need not: what it sees there are names, which the host
    /// needs in order to know where it has to show its key.
    pub(super) fn is_secure(&self, catalog: &Catalog, party: &Party) -> Result<(), &'static str> {
        let discovery = party.subsystem == DISCOVERY_NQN;
        match &self.login.tls {
            Some(PskIdentity { hostnqn, subnqn, .. }) => {
                let same = *subnqn == party.subsystem || (discovery && *subnqn == catalog.discovery_nqn);
                match *hostnqn == party.host && same {
                    true => Ok(()),
                    false => Err("the host connects by another name than it has shown by TLS"),
                }
            }
            None if discovery => Ok(()),
            None => {
                let host = catalog
                    .subsystem(&party.subsystem)
                    .and_then(|known| known.host(&party.host));
                match host.is_some_and(|host| host.tls.is_some()) {
                    true => Err("the host has to use TLS"),
                    false => Ok(()),
                }
            }
        }
    }

    /// What the host has to authenticate itself with, by the settings; none: it has not to.
    fn config(&self, port: &Rc<Port>, catalog: &Catalog, party: &Party) -> Result<Option<auth::Config>, &'static str> {
        let host = catalog
            .subsystem(&party.subsystem)
            .and_then(|known| known.host(&party.host));
        let Some(secret) = host.and_then(|host| host.dhchap.as_ref()) else {
            return Ok(None);
        };
        // What is set is checked where it is set; what cannot be read all the same lets nobody in.
        let parse = |secret: &crate::Secret| {
            DhchapSecret::parse(&secret.0).map_err(|_| "the host's secret in the settings cannot be read")
        };
        let controller = host.and_then(|host| host.dhchap_controller.as_ref());
        let mut config = auth::Config::new(
            &party.host,
            &party.subsystem,
            parse(secret)?,
            controller.map(parse).transpose()?,
        );
        config.hashes.clone_from(&port.config().auth_hashes);
        config.groups.clone_from(&port.config().auth_groups);
        Ok(Some(config))
    }

    /// Prepares the authentication that the host has to go through: what that adds to the result of Connect.
    pub(super) fn demand(&mut self, port: &Rc<Port>, catalog: &Catalog, party: &Party) -> Result<u32, &'static str> {
        let Some(config) = self.config(port, catalog, party)? else {
            return Ok(0);
        };
        let port = port.clone();
        let random = Box::new(move |bytes: &mut [u8]| port.random(bytes));
        self.auth = Some(Box::new(Authenticator::new(config, random)));
        Ok(CONNECT_AUTHREQ_ATR)
    }

    /// The settings have changed. A host that has authenticated itself stays; when it does so again, by its new secret.
    pub(super) fn settings(&mut self, port: &Rc<Port>, role: &Role, catalog: &Catalog) {
        let Some(party) = role.party().filter(|_| self.auth.is_some()) else {
            return;
        };
        let config = self.config(port, catalog, &party);
        if let (Some(auth), Ok(Some(config))) = (&mut self.auth, config) {
            auth.set_config(config);
        }
    }

    /// Has the host shown all that it has to?
    pub(super) fn is_authenticated(&self) -> bool {
        self.auth.as_ref().is_none_or(|auth| auth.state() == State::Done)
    }

    /// A failed attempt ends the connection, once the host knows.
    fn check(&self) -> Result<(), End> {
        let Some(auth) = &self.auth else { return Ok(()) };
        match (auth.must_close(), auth.state()) {
            (true, State::Failed(reason)) => {
                let why = format!("the host has not authenticated itself: {reason}");
                Err(End::After(CloseReason::Refused(why)))
            }
            _ => Ok(()),
        }
    }
}

/// Takes one of the two commands of the authentication.
pub(super) fn command(queue: &mut Queue, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
    let parsed = AuthCommand::parse(command).unwrap_or(Err(status::INVALID_OPCODE))?;
    let Some(auth) = &mut queue.access.auth else {
        return Err(status::SEQUENCE.into());
    };
    match parsed {
        AuthCommand::Send { bytes } => {
            let what = Gathering::Authentication;
            let work = Work::Gather { what, asked: false };
            queue.bring(command, work, Target::NONE, bytes as u32, data, cx)?;
            Ok(())
        }
        AuthCommand::Receive { max_bytes } => {
            let sgl = Sgl::parse(command)?;
            if sgl.carrier != Carrier::Transport {
                return Err(status::SGL_TYPE.into());
            }
            if (sgl.length as usize) < max_bytes {
                return Err(status::SGL_LENGTH.into());
            }
            let message = auth.send(max_bytes).map_err(|error| match error {
                SendError::NoRoom { .. } => status::INVALID_FIELD,
                SendError::NotNow | SendError::Working => status::SEQUENCE,
            })?;
            let slot = queue.begin(command, Work::Wait)?;
            let reply = Reply {
                status: Status::SUCCESS,
                result: 0,
                data: message,
            };
            admin::answer_with(queue, slot, reply, cx);
            Ok(queue.access.check()?)
        }
    }
}

/// A message of the authentication is here.
pub(super) fn gathered(queue: &mut Queue, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = queue.engine.request(slot);
    let message = std::mem::take(&mut request.own.buffer);
    request.own.work = Work::Wait;
    if let Some(auth) = &mut queue.access.auth {
        // What is wrong with it the host learns when it asks for the answer.
        let _ = auth.receive(&message);
    }
    queue.complete(slot, Status::SUCCESS, 0, cx);
    queue.access.check()
}
