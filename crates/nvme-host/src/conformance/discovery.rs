pub fn cases() -> Vec<super::Case> {
    Vec::new()
}
