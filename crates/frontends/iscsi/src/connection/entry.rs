//! A login on its connection: requests to the [login](crate::login), and its answers back.

use super::End;
use crate::Cx;
use crate::hub::Call;
use crate::login::{Environment, Login, Refusal, Request, Response, Status, Step, refused};
use crate::port::{Config, Port};
use crate::session::{Session, Start};
use crate::wire::{Header, Link, Taken};
use amita_frontend::front::CloseReason;
use amita_frontend::service::FrontId;
use std::net::IpAddr;
use std::rc::Rc;

/// A login under way.
pub(super) struct Entry {
    login: Login,
    /// The header of the last request.
    last: Header,
    /// The sequence number of the next response.
    stat_sn: u32,
    /// The register is being asked; this is the answer when it has nothing against it.
    asking: Option<(Request, Response)>,
}

impl Entry {
    pub fn new(peer: IpAddr, config: &Config) -> Entry {
        Entry {
            login: Login::new(peer, config),
            last: Header::default(),
            // Which one it begins with is the target's choice (11.13.4).
            stat_sn: 1,
            asking: None,
        }
    }

    /// Is the register being asked? Until it has answered no further request is taken.
    pub fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Takes a login request; none: its stages are none.
    pub fn take(
        &mut self,
        port: &Rc<Port>,
        front: FrontId,
        request: Option<&Request>,
        taken: &Taken,
        cx: &mut Cx<'_>,
    ) -> Result<(), End> {
        self.last = taken.header;
        let Some(request) = request else {
            return Err(self.refuse(Status::INVALID_REQUEST, cx));
        };
        let catalog = port.catalog();
        let mut environment = Environment {
            catalog: &catalog,
            config: port.config(),
            random: &mut |bytes: &mut [u8]| port.random(bytes),
        };
        // Before the full feature phase there are no digests.
        let data = taken.data.as_deref().unwrap_or_default();
        match self.login.take(request, data, &mut environment) {
            Ok(Step::Answer(response)) => {
                self.answer(request, &response, 0, port.config(), cx);
                Ok(())
            }
            Ok(Step::Enter(response)) => {
                let Some((party, holder)) = self.login.party() else {
                    return Err(self.refuse(Status::MISSING_PARAMETER, cx));
                };
                self.asking = Some((request.clone(), response));
                let call = Call::Enter {
                    party: Box::new(party),
                    holder,
                };
                cx.service.register(front, 0, Box::new(call));
                Ok(())
            }
            Err(refusal) => Err(self.end(&refusal, cx)),
        }
    }

    /// The register has taken it in: the session begins.
    pub fn enter(
        mut self: Box<Self>,
        port: &Rc<Port>,
        front: FrontId,
        tsih: u16,
        cx: &mut Cx<'_>,
    ) -> Result<Session, End> {
        let (Some((request, response)), Some(names)) = (self.asking.take(), self.login.names().cloned()) else {
            return Err(End::Now(CloseReason::Protocol("a login that nobody has asked for")));
        };
        // The settings may have changed while the register was asked.
        let catalog = port.catalog();
        if self.login.still_holds(&catalog, port.config()).is_err() {
            return Err(self.refuse(Status::UNAVAILABLE, cx));
        }
        let target = names
            .target
            .as_deref()
            .and_then(|name| catalog.target_here(name).cloned());
        self.answer(&request, &response, tsih, port.config(), cx);
        let start = Start {
            front,
            cid: request.cid,
            cmd_sn: request.cmd_sn,
            stat_sn: self.stat_sn,
            isid: request.isid,
            tsih,
            names,
            target,
        };
        Ok(Session::new(port.clone(), start, self.login, cx))
    }

    /// Ends the login: the initiator is told so.
    pub fn refuse(&mut self, status: Status, cx: &mut Cx<'_>) -> End {
        let why = match status {
            Status::OUT_OF_RESOURCES => "more sessions than there is room for",
            Status::UNAVAILABLE => "the settings have changed meanwhile: the initiator may try again",
            Status::TARGET_ERROR => "another login of the same initiator port has come meanwhile",
            _ => "a login request that makes no sense",
        };
        let refusal = Refusal {
            status,
            why: why.into(),
            text: crate::text::Text::new(),
        };
        self.end(&refusal, cx)
    }

    fn end(&mut self, refusal: &Refusal, cx: &mut Cx<'_>) -> End {
        let header = self.numbered(refused(&self.last, refusal.status), self.last.cmd_sn(), 1);
        Link::LOGIN.send_bytes(header, refusal.text.as_bytes(), cx.outbox, cx.pool);
        End::After(CloseReason::Refused(refusal.why.clone()))
    }

    fn answer(&mut self, request: &Request, response: &Response, tsih: u16, config: &Config, cx: &mut Cx<'_>) {
        let header = response.header(request, tsih);
        let header = self.numbered(header, request.cmd_sn, u32::from(config.commands));
        Link::LOGIN.send_bytes(header, response.text.as_bytes(), cx.outbox, cx.pool);
    }

    /// With sequence numbers: login requests are immediate, so that the first command of the session has their CmdSN (11.12.8).
    fn numbered(&mut self, header: Header, cmd_sn: u32, window: u32) -> Header {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.wrapping_add(1);
        header
            .with_u32(24, stat_sn)
            .with_u32(28, cmd_sn)
            .with_u32(32, cmd_sn.wrapping_add(window).wrapping_sub(1))
    }
}
