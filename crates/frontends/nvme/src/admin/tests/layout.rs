//! Where the fields of structures lie, summed up from their sizes in order, as the specification's figures and the
//! structures of Linux (`include/linux/nvme.h`) have them. Reserved fields are named `_`.

pub struct Layout(Vec<(&'static str, usize, usize)>);

impl Layout {
    fn new(size_bytes: usize, fields: &[(&'static str, usize)]) -> Layout {
        let mut at = 0;
        let mut placed = Vec::new();
        for (name, size) in fields {
            placed.push((*name, at, *size));
            at += size;
        }
        assert_eq!(at, size_bytes, "the fields fill the structure");
        Layout(placed)
    }

    /// The field of up to 16 bytes as a number.
    pub fn get(&self, data: &[u8], name: &str) -> u128 {
        let mut bytes = [0; 16];
        let field = self.bytes(data, name);
        bytes[..field.len()].copy_from_slice(field);
        u128::from_le_bytes(bytes)
    }

    pub fn bytes<'a>(&self, data: &'a [u8], name: &str) -> &'a [u8] {
        let found = self.0.iter().find(|(field, ..)| *field == name);
        let (_, at, size) = found.unwrap_or_else(|| panic!("there is a field {name}"));
        &data[*at..at + size]
    }

    /// The fields other than these are zero: nothing was written to a wrong place.
    pub fn assert_only(&self, data: &[u8], set: &[&str]) {
        for (name, at, size) in &self.0 {
            let empty = data[*at..at + size].iter().all(|byte| *byte == 0);
            assert!(
                empty || set.contains(name),
                "{name} at {at} is {:x?}",
                &data[*at..at + size]
            );
        }
        for name in set {
            assert!(self.bytes(data, name).iter().any(|byte| *byte != 0), "{name} is set");
        }
    }
}

pub fn id_ctrl() -> Layout {
    Layout::new(
        4096,
        &[
            ("vid", 2),
            ("ssvid", 2),
            ("sn", 20),
            ("mn", 40),
            ("fr", 8),
            ("rab", 1),
            ("ieee", 3),
            ("cmic", 1),
            ("mdts", 1),
            ("cntlid", 2),
            ("ver", 4),
            ("rtd3r", 4),
            ("rtd3e", 4),
            ("oaes", 4),
            ("ctratt", 4),
            ("_100", 11),
            ("cntrltype", 1),
            ("fguid", 16),
            ("crdt1", 2),
            ("crdt2", 2),
            ("crdt3", 2),
            ("_134", 122),
            ("oacs", 2),
            ("acl", 1),
            ("aerl", 1),
            ("frmw", 1),
            ("lpa", 1),
            ("elpe", 1),
            ("npss", 1),
            ("avscc", 1),
            ("apsta", 1),
            ("wctemp", 2),
            ("cctemp", 2),
            ("mtfa", 2),
            ("hmpre", 4),
            ("hmmin", 4),
            ("tnvmcap", 16),
            ("unvmcap", 16),
            ("rpmbs", 4),
            ("edstt", 2),
            ("dsto", 1),
            ("fwug", 1),
            ("kas", 2),
            ("hctma", 2),
            ("mntmt", 2),
            ("mxtmt", 2),
            ("sanicap", 4),
            ("hmminds", 4),
            ("hmmaxd", 2),
            ("nvmsetidmax", 2),
            ("endgidmax", 2),
            ("anatt", 1),
            ("anacap", 1),
            ("anagrpmax", 4),
            ("nanagrpid", 4),
            ("_352", 160),
            ("sqes", 1),
            ("cqes", 1),
            ("maxcmd", 2),
            ("nn", 4),
            ("oncs", 2),
            ("fuses", 2),
            ("fna", 1),
            ("vwc", 1),
            ("awun", 2),
            ("awupf", 2),
            ("icsvscc", 1),
            ("nwpc", 1),
            ("acwu", 2),
            ("cdfs", 2),
            ("sgls", 4),
            ("mnan", 4),
            ("_544", 224),
            ("subnqn", 256),
            ("_1024", 768),
            ("ioccsz", 4),
            ("iorcsz", 4),
            ("icdoff", 2),
            ("fcatt", 1),
            ("msdbd", 1),
            ("ofcs", 2),
            ("dctype", 1),
            ("_1807", 241),
            ("psd", 32 * 32),
            ("vs", 1024),
        ],
    )
}

pub fn id_ns() -> Layout {
    Layout::new(
        4096,
        &[
            ("nsze", 8),
            ("ncap", 8),
            ("nuse", 8),
            ("nsfeat", 1),
            ("nlbaf", 1),
            ("flbas", 1),
            ("mc", 1),
            ("dpc", 1),
            ("dps", 1),
            ("nmic", 1),
            ("rescap", 1),
            ("fpi", 1),
            ("dlfeat", 1),
            ("nawun", 2),
            ("nawupf", 2),
            ("nacwu", 2),
            ("nabsn", 2),
            ("nabo", 2),
            ("nabspf", 2),
            ("noiob", 2),
            ("nvmcap", 16),
            ("npwg", 2),
            ("npwa", 2),
            ("npdg", 2),
            ("npda", 2),
            ("nows", 2),
            ("mssrl", 2),
            ("mcl", 4),
            ("msrc", 1),
            ("_81", 11),
            ("anagrpid", 4),
            ("_96", 3),
            ("nsattr", 1),
            ("nvmsetid", 2),
            ("endgid", 2),
            ("nguid", 16),
            ("eui64", 8),
            ("lbaf0.ms", 2),
            ("lbaf0.ds", 1),
            ("lbaf0.rp", 1),
            ("lbaf", 63 * 4),
            ("vs", 3712),
        ],
    )
}

pub fn id_ns_independent() -> Layout {
    Layout::new(
        4096,
        &[
            ("nsfeat", 1),
            ("nmic", 1),
            ("rescap", 1),
            ("fpi", 1),
            ("anagrpid", 4),
            ("nsattr", 1),
            ("_9", 1),
            ("nvmsetid", 2),
            ("endgid", 2),
            ("nstat", 1),
            ("_15", 4081),
        ],
    )
}

pub fn smart() -> Layout {
    Layout::new(
        512,
        &[
            ("critical_warning", 1),
            ("temperature", 2),
            ("avail_spare", 1),
            ("spare_thresh", 1),
            ("percent_used", 1),
            ("endurance", 1),
            ("_7", 25),
            ("data_units_read", 16),
            ("data_units_written", 16),
            ("host_reads", 16),
            ("host_writes", 16),
            ("ctrl_busy_time", 16),
            ("power_cycles", 16),
            ("power_on_hours", 16),
            ("unsafe_shutdowns", 16),
            ("media_errors", 16),
            ("num_err_log_entries", 16),
            ("_192", 320),
        ],
    )
}

pub fn error_entry() -> Layout {
    Layout::new(
        64,
        &[
            ("error_count", 8),
            ("sqid", 2),
            ("cmdid", 2),
            ("status_field", 2),
            ("parm_error_location", 2),
            ("lba", 8),
            ("nsid", 4),
            ("vs", 1),
            ("trtype", 1),
            ("csi", 1),
            ("opcode", 1),
            ("cs", 8),
            ("trtype_spec", 2),
            ("_42", 21),
            ("version", 1),
        ],
    )
}

pub fn discovery_header() -> Layout {
    Layout::new(1024, &[("genctr", 8), ("numrec", 8), ("recfmt", 2), ("_18", 1006)])
}

pub fn discovery_entry() -> Layout {
    Layout::new(
        1024,
        &[
            ("trtype", 1),
            ("adrfam", 1),
            ("subtype", 1),
            ("treq", 1),
            ("portid", 2),
            ("cntlid", 2),
            ("asqsz", 2),
            ("eflags", 2),
            ("_12", 20),
            ("trsvcid", 32),
            ("_64", 192),
            ("subnqn", 256),
            ("traddr", 256),
            ("sectype", 1),
            ("tsas", 255),
        ],
    )
}

pub fn reservation_notification() -> Layout {
    Layout::new(
        64,
        &[
            ("count", 8),
            ("type", 1),
            ("available", 1),
            ("_10", 2),
            ("nsid", 4),
            ("_16", 48),
        ],
    )
}
