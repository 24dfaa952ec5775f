#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| amita_fuzz::crypt::kmip_answer(input));
