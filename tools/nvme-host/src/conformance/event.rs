//! Asynchronous events.

use super::subject::{ended, silent};
use super::{Case, Verdict, check};
use crate::commands;
use crate::wire::status;

const RULE: &str = "NVMe Base 2.1, 5.1.2 Asynchronous Event Request";

pub fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "event.waits",
            RULE,
            "asks for an event",
            "no answer while there is none, and other commands go on",
            |subject| {
                let mut controller = subject.controller()?;
                let event = controller.ask_for_event()?;
                silent(&mut controller.admin.connection, subject.options().silence)?;
                controller.identify()?;
                check!(controller.admin.outstanding() == 1, "request {event} has ended");
                Ok(())
            },
        ),
        Case::new(
            "event.limit",
            "NVMe Base 2.1, 5.1.2; 5.1.13.2.1 AERL",
            "asks for one event more than AERL allows",
            "the last one ends with Asynchronous Event Request Limit Exceeded, the others wait",
            |subject| {
                let mut controller = subject.controller()?;
                let limit = usize::from(controller.identify()?.byte(259)) + 1;
                if limit + 4 > 32 {
                    return Err(Verdict::Skipped(format!(
                        "AERL allows {limit}: more than the queue holds"
                    )));
                }
                for _ in 0..limit {
                    controller.ask_for_event()?;
                }
                let beyond = controller.ask_for_event()?;
                ended(&controller.admin.wait(beyond)?, status::EVENT_LIMIT)?;
                controller.identify()?;
                check!(
                    controller.admin.outstanding() == limit,
                    "{} wait",
                    controller.admin.outstanding()
                );
                Ok(())
            },
        ),
        Case::new(
            "event.gone-with-controller",
            "NVMe Base 2.1, 3.7.2 reset: outstanding requests are dropped",
            "disables a controller that has a request, and enables it again",
            "as many requests as before can be made",
            |subject| {
                let mut controller = subject.controller()?;
                let limit = usize::from(controller.identify()?.byte(259)) + 1;
                if limit + 4 > 32 {
                    return Err(Verdict::Skipped(format!(
                        "AERL allows {limit}: more than the queue holds"
                    )));
                }
                controller.ask_for_event()?;
                controller.set_property(0x14, crate::controller::CC_ENABLED & !1)?;
                controller.enable()?;
                for _ in 0..limit {
                    controller.ask_for_event()?;
                }
                silent(&mut controller.admin.connection, subject.options().silence)?;
                controller.call(&commands::keep_alive())?.good("Keep Alive")?;
                Ok(())
            },
        ),
    ]
}
