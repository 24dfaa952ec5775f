//! Who may use the queue: what TLS has shown, and what in-band authentication has to show (NVM Express Base 2.1, 8.3.4).
//!
//! Connect succeeds for a host that has to authenticate itself, and says so in its result; then nothing but the messages
//! of the authentication is taken until it has. Each queue does it by itself.

use super::*;
use crate::admin::DISCOVERY_NQN;
use crate::auth::{self, AuthCommand, Authenticator, CONNECT_AUTHREQ_ATR, SendError, State};
use crate::catalog::Catalog;
use crate::command::Reply;
use crate::hub::Party;
use crate::tls::PskIdentity;
use amita_keys::DhchapSecret;

impl Queue {
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
    fn authentication_config(&self, catalog: &Catalog, party: &Party) -> Result<Option<auth::Config>, &'static str> {
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
        config.hashes.clone_from(&self.config().auth_hashes);
        config.groups.clone_from(&self.config().auth_groups);
        Ok(Some(config))
    }

    /// Prepares the authentication that the host has to go through: what that adds to the result of Connect.
    pub(super) fn demand_authentication(&mut self, catalog: &Catalog, party: &Party) -> Result<u32, &'static str> {
        let Some(config) = self.authentication_config(catalog, party)? else {
            return Ok(0);
        };
        let port = self.port.clone();
        let random = Box::new(move |bytes: &mut [u8]| port.random(bytes));
        self.auth = Some(Box::new(Authenticator::new(config, random)));
        Ok(CONNECT_AUTHREQ_ATR)
    }

    /// The settings have changed. A host that has authenticated itself stays; when it does so again, by its new secret.
    pub(super) fn authentication_settings(&mut self, catalog: &Catalog) {
        let Some(party) = self.party().filter(|_| self.auth.is_some()) else {
            return;
        };
        let config = self.authentication_config(catalog, &party);
        if let (Some(auth), Ok(Some(config))) = (&mut self.auth, config) {
            auth.set_config(config);
        }
    }

    /// Has the host shown all that it has to?
    pub(super) fn is_authenticated(&self) -> bool {
        self.auth.as_ref().is_none_or(|auth| auth.state() == State::Done)
    }

    /// Takes one of the two commands of the authentication.
    pub(super) fn authentication(&mut self, command: &Command, data: Slice, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let parsed = AuthCommand::parse(command).unwrap_or(Err(status::INVALID_OPCODE))?;
        let Some(auth) = &mut self.auth else {
            return Err(status::SEQUENCE.into());
        };
        match parsed {
            AuthCommand::Send { bytes } => {
                let what = Gathering::Authentication;
                let work = Work::Gather { what, asked: false };
                self.bring(command, work, Target::NONE, bytes as u32, data, cx)?;
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
                let slot = self.begin(command, Work::Wait)?;
                let reply = Reply {
                    status: Status::SUCCESS,
                    result: 0,
                    data: message,
                };
                self.admin_reply(slot, reply, cx);
                Ok(self.check_authentication()?)
            }
        }
    }

    /// A message of the authentication is here.
    pub(super) fn authentication_gathered(&mut self, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
        let request = self.engine.request(slot);
        let message = std::mem::take(&mut request.own.buffer);
        request.own.work = Work::Wait;
        if let Some(auth) = &mut self.auth {
            // What is wrong with it the host learns when it asks for the answer.
            let _ = auth.receive(&message);
        }
        self.complete(slot, Status::SUCCESS, 0, cx);
        self.check_authentication()
    }

    /// A failed attempt ends the connection, once the host knows.
    fn check_authentication(&self) -> Result<(), End> {
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
