use super::sum;

#[test]
fn counts_are_summed_and_what_cannot_be_counted_is_said() {
    let text = "1610561,,raw_syscalls:sys_enter,299413266,100.00,,\n3,,amita_bench:malloc,1,100.00,,\n";
    assert_eq!(sum(text), Some(1_610_564));
    assert_eq!(sum("<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n"), Some(0));
    assert_eq!(sum("<not supported>,,raw_syscalls:sys_enter,0,100.00,,\n"), None);
    assert_eq!(sum("perf: not found\n"), None);
    assert_eq!(sum(""), None);
}
