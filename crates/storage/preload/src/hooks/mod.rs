//! The functions that programs call: one file per family.

use crate::system::libc_streams::Functions;

/// Export functions of a file under their C names: `name, other_name => function(…) -> value;`.
macro_rules! export {
    ($($($name:ident),+ => $target:ident $arguments:tt -> $value:ty;)*) => {
        /// The C names.
        mod exported {
            #[allow(unused_imports)]
            use super::*;
            $($(export!(@one $name $target $arguments $value);)+)*
        }
    };
    (@one $name:ident $target:ident ( $($argument:ident : $type:ty),* ) $value:ty) => {
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $name($($argument: $type),*) -> $value {
            super::$target($($argument),*)
        }
    };
}

/// What streams of libc use in place of its own functions.
pub(crate) fn stream_functions() -> &'static Functions {
    &file_stream::FUNCTIONS
}

mod advice;
mod arrivals;
mod asynchronous;
mod canonical;
mod changing;
mod copy;
mod directory;
mod dup_close;
mod extended;
mod file_stream;
mod lease;
mod limit;
mod linking;
mod map;
mod message;
mod naming;
mod open;
mod passing;
mod position;
mod process;
mod read;
mod refusal;
mod rights;
mod signal;
mod size;
mod space;
mod status;
mod stdio;
mod sync;
mod syscall;
mod temporary;
mod thunks;
mod vector;
mod waiting;
mod watching;
mod whereabouts;
mod write;
