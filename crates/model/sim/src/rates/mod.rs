//! What threads get at one moment: the machine as resources, what each thread asks of them, and max-min fair shares.

pub(crate) mod access_time;
pub(crate) mod demand;
pub(crate) mod fluid;
pub(crate) mod model;
pub(crate) mod passed;
