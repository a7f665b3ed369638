//! sysfs
use crate::{CpuId, Machine, MachineError};
use std::path::Path;
pub(crate) fn read_machine(_root: &Path) -> Result<Machine, MachineError> {
    unimplemented!()
}
pub(crate) fn online_cpus(_root: &Path) -> Result<Vec<CpuId>, MachineError> {
    unimplemented!()
}
