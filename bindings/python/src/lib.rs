//! longhaul for Python: striped streams that are used as sockets are, and copies.
//!
//! The package in `python/longhaul` is what programs import; its `__init__.pyi` has the documentation of what is here.

mod copy;
mod errors;
mod listener;
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
    use crate::stream::{Stream, connect};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
