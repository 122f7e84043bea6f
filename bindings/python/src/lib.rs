//! longhaul for Python: striped streams that are used as sockets are, and copies.
//!
//! The package in `python/longhaul` is what programs import; its `__init__.pyi` has the documentation of what is
//! here.
//!
//! **Python.** PyO3 over the stable ABI of Python 3.11, the oldest version that Python's makers still support and
//! the first whose stable ABI has buffers: one wheel serves all later versions. Nothing waits with the
//! interpreter's lock held. What waits does so for a tenth of a second at a time and looks for signals in
//! between, or leaves its work to a thread, which is abandoned if a signal's handler raises. `bytes` are sent
//! from where they are; memory that can change is copied first, since another thread may write to it. Callbacks
//! of a copy run in the thread that called. The crate is a member of the workspace, with its lock file, profiles
//! and lints, but has no test targets: a test program would need libpython to link with. `.cargo/config.toml`
//! says that there is nothing to link.

mod copy;
mod copy_options;
mod errors;
mod listener;
mod live;
mod options;
mod stream;
mod waiting;

use pyo3::prelude::*;

#[pymodule]
mod _longhaul {
    use super::*;
    #[pymodule_export]
    use crate::copy::{Progress, copy};
    #[pymodule_export]
    use crate::errors::CopyError;
    #[pymodule_export]
    use crate::listener::{Listener, listen};
    #[pymodule_export]
    use crate::live::LiveControl;
    #[pymodule_export]
    use crate::stream::{Stream, connect};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
