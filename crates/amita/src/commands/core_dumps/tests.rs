use super::*;
use rustix::process::{dumpable_behavior, getrlimit};

/// Both in one test: what is given away does not come back in this process.
#[test]
fn nothing_is_dumped_unless_asked_for() {
    let before = (getrlimit(Resource::Core), dumpable_behavior().unwrap());
    CoreDumps { core_dumps: true }.settle();
    assert_eq!((getrlimit(Resource::Core), dumpable_behavior().unwrap()), before);
    CoreDumps { core_dumps: false }.settle();
    let limit = getrlimit(Resource::Core);
    assert_eq!((limit.current, limit.maximum), (Some(0), Some(0)));
    assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
}
