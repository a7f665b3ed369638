//! Cache lines of their own for what threads write often: whoever reads what lies beside it would wait for them.

use std::ops::Deref;

/// Two lines, which processors fetch together.
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
