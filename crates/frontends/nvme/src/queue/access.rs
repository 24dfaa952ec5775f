//! Who may use the queue: what TLS has shown, and what in-band authentication has to show (NVM Express Base 2.1, 8.3.4).
//!
//! Connect succeeds for a host that has to authenticate itself, and says so in its result; then nothing but the messages
//! of the authentication is taken until it has, and only then does the register hear of it. Each queue does it by itself.

use super::request::{Gathering, Work};
use super::role::{Login, Role};
use super::target::Target;
use super::{End, Queue, Refusal, admin, fabrics};
use crate::Cx;
use crate::admin::DISCOVERY_NQN;
use crate::auth::{self, AuthCommand, Authenticator, CONNECT_AUTHREQ_ATR, SendError, State, Worked};
use crate::catalog::{Catalog, HostAccess, Secret};
use crate::command::{Command, Reply, Status};
use crate::connection::connect;
use crate::hub::{Holder, Party};
use crate::port::Port;
use crate::tls::PskIdentity;
use crate::wire::{Carrier, Sgl, status};
use amita_frontend::compute::{Computation, Computed, Wanted};
use amita_frontend::front::CloseReason;
use amita_frontend::slots::SlotId;
use amita_keys::DhchapSecret;
use amita_reactor::Slice;
use std::rc::Rc;
use std::sync::Arc;

/// What the host has shown, and has to show.
pub(super) struct Access {
    /// What is known of the connection.
    pub login: Login,
    /// What the host has to go through, if it has to.
    pub auth: Option<Box<Authenticator>>,
    /// What is being computed for that: the command is answered when it is there.
    computing: Option<Computing>,
    /// What the settings said of the host when it connected: what it has shown rests on that.
    rests_on: Option<Arc<HostAccess>>,
}

/// A message of the host whose answer is being computed.
struct Computing {
    slot: SlotId,
    _wanted: Wanted,
}

impl Access {
    pub(super) fn new(login: Login) -> Access {
        Access {
            login,
            auth: None,
            computing: None,
            rests_on: None,
        }
    }

    /// Does what the host says in Connect go together with what it has shown by TLS?
    ///
    /// A host that has a key for TLS must use it, and every host where the subsystem takes nothing else. To discover it need not: what it
    /// does not prove to be is not told there.
    fn is_secure(&self, catalog: &Catalog, party: &Party) -> Result<(), &'static str> {
        let discovery = party.subsystem == DISCOVERY_NQN;
        match self.login.tls.as_deref() {
            Some(PskIdentity { hostnqn, subnqn, .. }) => {
                let same = *subnqn == party.subsystem || (discovery && *subnqn == catalog.discovery_nqn);
                match *hostnqn == party.host && same {
                    true => Ok(()),
                    false => Err("the host connects by another name than it has shown by TLS"),
                }
            }
            None if discovery => Ok(()),
            None => {
                let subsystem = catalog.subsystem(&party.subsystem);
                let host = subsystem.and_then(|known| known.host(&party.host));
                if host.is_some_and(|host| host.tls.is_some()) {
                    return Err("the host has to use TLS: it has a key for that");
                }
                match subsystem.is_some_and(|subsystem| subsystem.tls_required) {
                    true => Err("the subsystem takes connections by TLS only"),
                    false => Ok(()),
                }
            }
        }
    }

    /// What the host has to authenticate itself with, by the settings; none: it has not to.
    fn config(&self, port: &Rc<Port>, catalog: &Catalog, party: &Party) -> Result<Option<auth::Config>, &'static str> {
        let host = catalog.access(&party.subsystem, &party.host);
        let Some(secret) = host.and_then(|host| host.dhchap.as_ref()) else {
            return Ok(None);
        };
        // What is set is checked where it is set; what cannot be read all the same lets nobody in.
        let parse = |secret: &Secret| {
            DhchapSecret::parse(&secret.0).map_err(|_| "the host's secret in the settings cannot be read")
        };
        let controller = host.and_then(|host| host.dhchap_controller.as_ref());
        let mut config = auth::Config::new(
            &party.host,
            &party.asked,
            parse(secret)?,
            controller.map(parse).transpose()?,
        );
        config.hashes.clone_from(&port.config().auth_hashes);
        config.groups.clone_from(&port.config().auth_groups);
        Ok(Some(config))
    }

    /// Checks what the host has shown, and prepares the authentication that it has to go through: what that adds to the result of
    /// Connect.
    pub(super) fn demand(&mut self, port: &Rc<Port>, catalog: &Catalog, party: &Party) -> Result<u32, &'static str> {
        self.rests_on = match self.login.tls {
            Some(_) => self.login.access.take(),
            None => catalog.access(&party.subsystem, &party.host).cloned(),
        };
        self.holds(catalog, party)?;
        let Some(config) = self.config(port, catalog, party)? else {
            return Ok(0);
        };
        let port = port.clone();
        let random = Box::new(move |bytes: &mut [u8]| port.random(bytes));
        self.auth = Some(Box::new(Authenticator::new(config, random)));
        Ok(CONNECT_AUTHREQ_ATR)
    }

    /// May the host that connected so still be served, by the settings of now? What it had to show must be what it would have to
    /// show today: a key that was taken back opens nothing any more. (A host whose connection ends connects again, by its new key.)
    pub(super) fn holds(&self, catalog: &Catalog, party: &Party) -> Result<(), &'static str> {
        let discovery = party.subsystem == DISCOVERY_NQN;
        if !discovery && !connect::may_connect(catalog, &party.subsystem, &party.host) {
            return Err("the host may not connect to this subsystem any more");
        }
        self.is_secure(catalog, party)?;
        fn shown(access: Option<&Arc<HostAccess>>) -> (Option<&Secret>, Option<&Secret>) {
            access.map_or((None, None), |access| (access.dhchap.as_ref(), access.tls.as_ref()))
        }
        if shown(self.rests_on.as_ref()) != shown(catalog.access(&party.subsystem, &party.host)) {
            return Err("what the host has to show was changed since it connected: it may connect again");
        }
        Ok(())
    }

    /// The settings have changed. Controllers prove themselves by their new secret from now on.
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

    /// Has the host proven to be the one that it says, once it has shown all that it has to?
    pub(super) fn is_proven(&self) -> bool {
        self.auth.is_some() || self.login.tls.is_some()
    }

    /// Whose the places are that the host gets, then.
    pub(super) fn holder(&self, party: &Party) -> Holder {
        match self.is_proven() {
            true => Holder::Proven(party.host.clone()),
            false => Holder::Unproven(self.login.peer),
        }
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
            answer(queue, slot, message, cx);
            Ok(queue.access.check()?)
        }
    }
}

/// A message of the authentication is here.
pub(super) fn gathered(queue: &mut Queue, slot: SlotId, cx: &mut Cx<'_>) -> Result<(), End> {
    let request = queue.engine.request(slot);
    let message = std::mem::take(&mut request.own.buffer);
    request.own.work = Work::Wait;
    let mut work = None;
    if let Some(auth) = &mut queue.access.auth {
        // What is wrong with it the host learns when it asks for the answer.
        let _ = auth.receive(&message);
        work = auth.take_work();
    }
    if let Some(work) = work {
        // At most one: nothing more comes of the authentication until this is done.
        let (source, cost) = (queue.access.login.peer, work.group().cost());
        let (computation, wanted) = Computation::new(source, cost, move || work.run());
        queue.access.computing = Some(Computing { slot, _wanted: wanted });
        let tag = queue.engine.tag(slot);
        cx.service.compute(queue.engine.front(), tag, computation);
        return Ok(());
    }
    answer(queue, slot, Vec::new(), cx);
    queue.access.check()
}

/// What had to be computed for the host's message is there.
pub(super) fn computed(queue: &mut Queue, tag: u64, result: Option<Computed>, cx: &mut Cx<'_>) -> Result<(), End> {
    let slot = queue.engine.find(tag);
    let Some(Computing { slot, .. }) = queue.access.computing.take_if(|known| slot == Some(known.slot)) else {
        return Ok(());
    };
    let Some(result) = result else {
        let why = "more hosts authenticate themselves than this gateway computes for; it may try again";
        return Err(End::After(CloseReason::Refused(why.into())));
    };
    if let (Some(auth), Ok(worked)) = (&mut queue.access.auth, result.downcast::<Worked>()) {
        auth.worked(*worked);
    }
    answer(queue, slot, Vec::new(), cx);
    queue.access.check()
}

/// Answers a command of the authentication. What ends it, of a host that is not let in yet, is answered when the register has
/// let it in: from then on the host takes itself for connected.
fn answer(queue: &mut Queue, slot: SlotId, message: Vec<u8>, cx: &mut Cx<'_>) {
    if matches!(queue.role, Role::Proving(_)) && queue.access.is_authenticated() {
        return fabrics::enter(queue, slot, message, cx);
    }
    let reply = Reply {
        status: Status::SUCCESS,
        result: 0,
        data: message,
    };
    admin::answer_with(queue, slot, reply, cx);
}
