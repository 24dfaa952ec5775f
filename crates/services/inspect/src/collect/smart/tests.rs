//! Sectors and pages made by hand, as the specifications lay them out, and disks that answer with them.

use super::*;
use crate::inventory::CommandSet;
use proptest::prelude::*;

/// A sector with its checksum.
fn summed(mut sector: [u8; 512]) -> Vec<u8> {
    let sum = sector[..511].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    sector[511] = sum.wrapping_neg();
    sector.to_vec()
}

/// An attribute: its number, whether it predicts a failure, its value, and what was counted.
type Row = (u8, bool, u8, u64);

fn attributes(rows: &[Row]) -> Vec<u8> {
    let mut sector = [0_u8; 512];
    sector[0] = 0x10;
    for (at, (number, predicts, value, raw)) in rows.iter().enumerate() {
        let entry = &mut sector[2 + at * 12..][..12];
        (entry[0], entry[1], entry[3], entry[4]) = (*number, u8::from(*predicts), *value, *value);
        entry[5..11].copy_from_slice(&raw.to_le_bytes()[..6]);
    }
    summed(sector)
}

fn thresholds(rows: &[(u8, u8)]) -> Vec<u8> {
    let mut sector = [0_u8; 512];
    sector[0] = 0x10;
    for (at, (number, threshold)) in rows.iter().enumerate() {
        (sector[2 + at * 12], sector[3 + at * 12]) = (*number, *threshold);
    }
    summed(sector)
}

fn identify(model: &str, words: &[(usize, u16)]) -> Vec<u8> {
    let mut sector = vec![0_u8; 512];
    let padded: Vec<u8> = format!("{model:<40}").into_bytes();
    for (at, letters) in padded.chunks_exact(2).enumerate() {
        (sector[54 + 2 * at], sector[55 + 2 * at]) = (letters[1], letters[0]);
    }
    for (number, word) in [(82, 1), (83, 0x4000), (85, 1), (87, 0x4000)].iter().chain(words) {
        sector[2 * number..][..2].copy_from_slice(&u16::to_le_bytes(*word));
    }
    sector
}

/// Sense data with the registers of an ATA command, as descriptors.
fn registers(middle: u8, high: u8) -> Vec<u8> {
    let mut sense = vec![0_u8; 22];
    (sense[0], sense[1], sense[3], sense[7]) = (0x72, 0x01, 0x1D, 14);
    (sense[8], sense[9], sense[17], sense[19]) = (0x09, 0x0C, middle, high);
    sense
}

/// The same in fixed format.
fn fixed(middle: u8, high: u8) -> Vec<u8> {
    let mut sense = vec![0_u8; 18];
    (sense[0], sense[2], sense[7]) = (0x70, 0x01, 10);
    (sense[10], sense[11], sense[13]) = (middle, high, 0x1D);
    sense
}

fn inquiry(vendor: &[u8; 8]) -> Vec<u8> {
    let mut bytes = vec![0_u8; 96];
    bytes[8..16].copy_from_slice(vendor);
    bytes
}

const REFUSED: [u8; 14] = [0x70, 0, 5, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0x20, 0];

fn said(data: Vec<u8>) -> Result<ScsiAnswer, String> {
    Ok(ScsiAnswer {
        data,
        ..ScsiAnswer::default()
    })
}

fn refused() -> Result<ScsiAnswer, String> {
    Ok(ScsiAnswer {
        status: 2,
        sense: REFUSED.to_vec(),
        ..ScsiAnswer::default()
    })
}

/// A SATA disk with these sectors.
struct Sata {
    identify: Vec<u8>,
    attributes: Vec<u8>,
    thresholds: Option<Vec<u8>>,
    status: Vec<u8>,
    statistics: Option<Vec<u8>>,
}

impl Sata {
    fn well() -> Sata {
        Sata {
            identify: identify("SAMSUNG MZ7L3960", &[(217, 1)]),
            attributes: attributes(&[
                (5, true, 100, 0),
                (9, false, 99, 12_345 | 7 << 24),
                (177, true, 93, 400),
                (187, false, 100, 0),
                (188, false, 100, 2),
                (190, false, 70, 30),
                (194, false, 64, 36 | 12 << 16 | 55 << 32),
                (197, false, 100, 0),
                (199, false, 100, 4),
            ]),
            thresholds: Some(thresholds(&[(5, 10), (177, 5), (9, 0)])),
            status: registers(0x4F, 0xC2),
            statistics: None,
        }
    }

    fn asked(&self) -> Result<Smart, String> {
        asked(&|ask| match ask {
            ScsiAsk::Inquiry => said(inquiry(b"ATA     ")),
            ScsiAsk::Identify => said(self.identify.clone()),
            ScsiAsk::Attributes => said(self.attributes.clone()),
            ScsiAsk::Thresholds => self.thresholds.clone().map_or_else(refused, said),
            ScsiAsk::Statistics => self.statistics.clone().map_or_else(refused, said),
            ScsiAsk::Status => Ok(ScsiAnswer {
                status: 2,
                sense: self.status.clone(),
                ..ScsiAnswer::default()
            }),
            ScsiAsk::Log(_) | ScsiAsk::Defects => panic!("{ask:?} is not for an ATA disk"),
        })
    }
}

#[test]
fn a_sata_disk_is_read_attribute_by_attribute() {
    let found = Sata::well().asked().expect("health");
    let expected = Smart {
        by: CommandSet::Ata,
        failing: Some(false),
        because: String::new(),
        temperature_c: Some(36),
        warns_at_c: None,
        on_hours: Some(12_345),
        used_percent: Some(7),
        reallocated: Some(0),
        pending: Some(0),
        uncorrectable: Some(0),
        timeouts: Some(2),
        link_errors: Some(4),
    };
    assert_eq!(found, expected);
}

#[test]
fn a_sata_disk_predicts_its_failure_by_its_status_or_by_an_attribute() {
    for status in [registers(0xF4, 0x2C), fixed(0xF4, 0x2C)] {
        let found = Sata { status, ..Sata::well() }.asked().expect("health");
        assert_eq!(found.failing, Some(true));
        assert!(found.because.contains("RETURN STATUS"), "{}", found.because);
    }
    let found = Sata {
        attributes: attributes(&[(5, true, 9, 3000), (9, false, 1, 0), (177, false, 3, 0)]),
        thresholds: Some(thresholds(&[(5, 10), (9, 20), (177, 5)])),
        ..Sata::well()
    };
    let found = found.asked().expect("health");
    // Of three that have come down, one predicts a failure; the others tell of age.
    assert_eq!(
        (found.failing, found.because.as_str()),
        (Some(true), "attribute 5 is at 9, and fails from 10 down")
    );
    assert_eq!((found.reallocated, found.used_percent), (Some(3000), Some(97)));
}

/// What was not answered is not known, and never well.
#[test]
fn what_a_sata_disk_does_not_answer_is_not_known() {
    let silent = Sata {
        thresholds: None,
        status: REFUSED.to_vec(),
        attributes: attributes(&[(9, false, 99, 5)]),
        ..Sata::well()
    };
    let found = silent.asked().expect("hours at least");
    assert_eq!((found.failing, found.reallocated, found.pending), (None, None, None));
    assert_eq!(
        (found.used_percent, found.temperature_c, found.on_hours),
        (None, None, Some(5))
    );
    let odd = Sata {
        status: registers(0x12, 0x34),
        thresholds: None,
        ..Sata::well()
    };
    assert_eq!(odd.asked().expect("health").failing, None);
    let unsummed = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[3] ^= 1;
        bytes
    };
    let own = Sata::well();
    let cases = [
        (
            Sata {
                attributes: unsummed(&own.attributes),
                ..Sata::well()
            },
            "checksum",
        ),
        (
            Sata {
                attributes: vec![0; 512],
                ..Sata::well()
            },
            "zeros",
        ),
        (
            Sata {
                attributes: own.attributes[..100].to_vec(),
                ..Sata::well()
            },
            "100 bytes",
        ),
        (
            Sata {
                attributes: attributes(&[]),
                ..Sata::well()
            },
            "no attribute",
        ),
        (
            Sata {
                identify: identify("X", &[(82, 0)]),
                ..Sata::well()
            },
            "no SMART",
        ),
        (
            Sata {
                identify: identify("X", &[(85, 0)]),
                ..Sata::well()
            },
            "switched off",
        ),
        (
            Sata {
                identify: identify("X", &[(83, 0)]),
                ..Sata::well()
            },
            "does not tell",
        ),
    ];
    for (disk, why) in cases {
        let said = disk.asked().expect_err(why);
        assert!(said.contains(why), "{why}: {said}");
    }
}

#[test]
fn wear_is_that_of_the_statistics_or_of_the_vendor_and_nobody_elses() {
    let of = |model: &str, rows: &[Row]| {
        let disk = Sata {
            identify: identify(model, &[(217, 1)]),
            attributes: attributes(rows),
            ..Sata::well()
        };
        disk.asked().expect("health").used_percent
    };
    let all: [Row; 5] = [
        (173, false, 90, 1),
        (177, false, 80, 1),
        (202, false, 70, 1),
        (231, false, 60, 1),
        (233, false, 50, 1),
    ];
    assert_eq!(of("Samsung SSD 870", &all), Some(20));
    assert_eq!(of("INTEL SSDSC2KB", &all), Some(50));
    assert_eq!(of("Micron_5300", &all), Some(30));
    assert_eq!(of("MTFDDAK960", &all[..1]), Some(10));
    assert_eq!(of("KINGSTON SEDC600", &all), Some(40));
    // What 177 or 233 count at a vendor that nobody knows, nobody knows.
    assert_eq!(of("Example 1", &all), None);
    assert_eq!(of("INTEL SSDSC2KB", &[(233, false, 0, 1)]), None);

    let mut page = vec![0_u8; 512];
    (page[2], page[8], page[15]) = (0x07, 41, 0xC0);
    let told = Sata {
        identify: identify("Example 1", &[(217, 1), (87, 0x4020)]),
        statistics: Some(page.clone()),
        ..Sata::well()
    };
    assert_eq!(told.asked().expect("health").used_percent, Some(41));
    // It is not valid; it is of another page; the disk turns, and is not asked.
    page[15] = 0x80;
    assert_eq!(ata::endurance(&page), None);
    (page[15], page[2]) = (0xC0, 0x01);
    assert_eq!(ata::endurance(&page), None);
    let turns = Sata {
        identify: identify("Example 1", &[(217, 7200), (87, 0x4020)]),
        ..told
    };
    assert_eq!(turns.asked().expect("health").used_percent, None);
}

fn log(code: u8, parameters: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body: Vec<u8> = Vec::new();
    for (parameter, value) in parameters {
        body.extend(parameter.to_be_bytes());
        body.extend([0x03, value.len() as u8]);
        body.extend(*value);
    }
    let mut page = vec![code, 0];
    page.extend((body.len() as u16).to_be_bytes());
    page.extend(body);
    page
}

fn pages(exception: [u8; 3]) -> BTreeMap<u8, Vec<u8>> {
    use scsi::page;
    let all = [
        (page::WRITE_ERRORS, log(page::WRITE_ERRORS, &[(2, &[9]), (6, &[0, 1])])),
        (
            page::READ_ERRORS,
            log(page::READ_ERRORS, &[(6, &[0, 0, 0, 0, 0, 0, 0, 2])]),
        ),
        (page::NON_MEDIUM, log(page::NON_MEDIUM, &[(0, &[0, 0, 0, 7])])),
        (
            page::TEMPERATURE,
            log(page::TEMPERATURE, &[(0, &[0, 41]), (1, &[0, 70])]),
        ),
        (page::SOLID_STATE, log(page::SOLID_STATE, &[(1, &[0, 0, 0, 33])])),
        (
            page::BACKGROUND,
            log(page::BACKGROUND, &[(0, &[0, 0, 2, 88, 0, 0, 0, 0, 0, 0, 0, 0])]),
        ),
        (page::EXCEPTIONS, log(page::EXCEPTIONS, &[(0, &exception)])),
    ];
    all.into_iter().collect()
}

fn sas(pages: &BTreeMap<u8, Vec<u8>>, defects: Option<[u8; 4]>) -> Result<Smart, String> {
    asked(&|ask| match ask {
        ScsiAsk::Inquiry => said(inquiry(b"EXAMPLE ")),
        ScsiAsk::Log(scsi::page::SUPPORTED) if pages.is_empty() => refused(),
        ScsiAsk::Log(scsi::page::SUPPORTED) => {
            let mut list = vec![0, 0, 0, pages.len() as u8 + 1, 0];
            list.extend(pages.keys());
            said(list)
        }
        ScsiAsk::Log(page) => said(pages[&page].clone()),
        ScsiAsk::Defects => defects.map_or_else(refused, |bytes| said(bytes.to_vec())),
        _ => panic!("{ask:?} is not for a SCSI disk"),
    })
}

#[test]
fn a_sas_disk_is_read_page_by_page() {
    let found = sas(&pages([0, 0, 40]), Some([0, 0x0D, 0, 24])).expect("health");
    let expected = Smart {
        by: CommandSet::Scsi,
        failing: Some(false),
        because: String::new(),
        temperature_c: Some(41),
        warns_at_c: Some(70),
        on_hours: Some(10),
        used_percent: Some(33),
        reallocated: Some(3),
        pending: None,
        uncorrectable: Some(3),
        timeouts: None,
        link_errors: Some(7),
    };
    assert_eq!(found, expected);
    let failing = sas(&pages([0x5D, 0x10, 40]), None).expect("health");
    assert_eq!((failing.failing, failing.reallocated), (Some(true), None));
    assert!(failing.because.contains("0x5d/0x10"), "{}", failing.because);
    // A test of the host's, and a warning that is none of a failure.
    for exception in [[0x5D, 0xFF, 40], [0x0B, 0x01, 40]] {
        assert_eq!(sas(&pages(exception), None).expect("health").failing, Some(false));
    }
}

#[test]
fn what_a_sas_disk_does_not_answer_is_not_known() {
    let nothing = BTreeMap::new();
    assert!(sas(&nothing, None).expect_err("no pages").contains("no log pages"));
    let temperature = BTreeMap::from([(scsi::page::TEMPERATURE, log(scsi::page::TEMPERATURE, &[(0, &[0, 255])]))]);
    let why = sas(&temperature, None).expect_err("a temperature that is not told");
    assert!(why.contains("nothing of its health"), "{why}");
    let other = BTreeMap::from([(scsi::page::EXCEPTIONS, log(scsi::page::READ_ERRORS, &[(0, &[0, 0, 1])]))]);
    assert!(sas(&other, None).is_err(), "another page came");
    assert!(scsi::grown_defects(&[0, 0x15, 0, 8]).is_err(), "no grown ones");
    assert_eq!(scsi::grown_defects(&[0, 0x08, 0, 8]), Ok(2));
    let text = scsi::refusal(&REFUSED);
    assert!(text.contains("sense key 0x5, 0x20/0x00"), "{text}");
}

#[test]
fn a_disk_that_is_none_is_not_asked_further() {
    let tape = asked(&|ask| {
        assert_eq!(ask, ScsiAsk::Inquiry);
        let mut bytes = inquiry(b"EXAMPLE ");
        bytes[0] = 1;
        said(bytes)
    });
    assert_eq!(tape, Err("it is no disk".to_owned()));
}

#[test]
fn commands_are_as_the_specifications_have_them() {
    assert_eq!(
        ScsiAsk::Attributes.command(),
        [0x85, 0x08, 0x0E, 0, 0xD0, 0, 1, 0, 0, 0, 0x4F, 0, 0xC2, 0, 0xB0, 0]
    );
    assert_eq!(
        ScsiAsk::Status.command(),
        [0x85, 0x06, 0x20, 0, 0xDA, 0, 0, 0, 0, 0, 0x4F, 0, 0xC2, 0, 0xB0, 0]
    );
    assert_eq!(
        ScsiAsk::Statistics.command(),
        [0x85, 0x09, 0x0E, 0, 0, 0, 1, 0, 0x04, 0, 0x07, 0, 0, 0, 0x2F, 0]
    );
    assert_eq!(ScsiAsk::Log(0x2F).command(), [0x4D, 0, 0x6F, 0, 0, 0, 0, 0x02, 0x00, 0]);
    for ask in [
        ScsiAsk::Inquiry,
        ScsiAsk::Identify,
        ScsiAsk::Thresholds,
        ScsiAsk::Defects,
    ] {
        assert!([6, 10, 16].contains(&ask.command().len()), "{ask:?}");
    }
}

proptest! {
    /// Whatever a disk answers, it is read or refused, and no text is longer than a record takes.
    #[test]
    fn hostile_bytes_never_panic(
        ata in any::<bool>(),
        status in prop_oneof![Just(0_u8), Just(2_u8), any::<u8>()],
        cut in 0_usize..=512,
        bytes in proptest::collection::vec(any::<u8>(), 512),
        sense in proptest::collection::vec(any::<u8>(), 0..64),
        is_summed in any::<bool>(),
        head in prop_oneof![Just(vec![]), Just(vec![0x2F_u8, 0]), Just(vec![0x72_u8, 1])],
    ) {
        let answered = asked(&|ask| {
            let mut data = match ask {
                ScsiAsk::Inquiry => inquiry(if ata { b"ATA     " } else { b"EXAMPLE " }),
                ScsiAsk::Identify => identify("SAMSUNG", &[(217, 1), (87, 0x4020)]),
                ScsiAsk::Log(0) => log(0, &[]),
                _ => {
                    let mut own = [0_u8; 512];
                    own.copy_from_slice(&bytes);
                    own[..head.len()].copy_from_slice(&head);
                    if is_summed { summed(own) } else { own.to_vec() }
                }
            };
            if !matches!(ask, ScsiAsk::Inquiry) {
                data.truncate(cut.max(4));
            }
            let status = if ask == ScsiAsk::Inquiry { 0 } else { status };
            Ok(ScsiAnswer { status, data, sense: sense.clone() })
        });
        if let Ok(smart) = answered {
            prop_assert!(smart.because.chars().count() <= crate::inventory::MAX_TEXT);
        }
        for code in scsi::page::WANTED {
            let page = BTreeMap::from([(code, bytes[..cut].to_vec())]);
            let _ = scsi::health(&page, scsi::grown_defects(&bytes[..cut.min(8)]));
        }
        let _ = ata::status(&sense);
        let _ = ata::identity(&bytes[..cut]);
        let _ = ata::attributes(&bytes[..cut]);
        let _ = ata::thresholds(&bytes[..cut]);
        let _ = ata::endurance(&bytes[..cut]);
        let _ = scsi::inquiry(&bytes[..cut]);
        let _ = scsi::supported(&bytes[..cut]);
        let _ = scsi::refusal(&sense);
    }
}
