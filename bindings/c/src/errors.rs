//! Errors as C knows them: -1, a number in `errno`, and a line for people.

use libc::{c_char, c_int};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call failed.
pub struct Fault {
    errno: c_int,
    /// `None`: what the system says of the number.
    line: Option<String>,
}

/// What a call comes to.
pub type Answer<T> = Result<T, Fault>;

impl Fault {
    /// A number and what to do about it.
    pub fn new(errno: c_int, line: impl Into<String>) -> Fault {
        Fault { errno, line: Some(line.into()) }
    }

    /// A null pointer where something is needed.
    pub fn null(what: &str) -> Fault {
        Fault::new(libc::EINVAL, format!("{what} is a null pointer"))
    }

    /// A system call has just failed.
    pub fn last_os() -> Fault {
        Fault { errno: io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO), line: None }
    }

    /// An error with what was tried.
    pub fn of(error: &io::Error, what: &str) -> Fault {
        Fault::new(longhaul_stripe::errno::of(error), format!("{what}: {error}"))
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::new(longhaul_stripe::errno::of(&error), error.to_string())
    }
}

/// Do the work of a call. A fault is told as C expects it, and so is a panic.
pub fn answer<T: From<i8>>(work: impl FnOnce() -> Answer<T>) -> T {
    answer_or(T::from(-1), work)
}

/// [`answer`] for calls that fail with something else than -1.
pub fn answer_or<T>(failed: T, work: impl FnOnce() -> Answer<T>) -> T {
    // What a panic may leave half done is a lock's contents, which is why every lock here is taken poisoned or not and
    // guards single assignments.
    let outcome = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Fault::new(libc::EIO, "longhaul panicked: please report this bug")));
    outcome.unwrap_or_else(|fault| {
        let line = fault.line.and_then(|line| CString::new(line).ok());
        // A thread that is ending has no place for the line any more.
        let _ = LAST.try_with(|last| *last.borrow_mut() = (fault.errno, line));
        // SAFETY: it is the address of this thread's errno.
        unsafe { *libc::__errno_location() = fault.errno };
        failed
    })
}

/// What an error number means, in a line: if it is that of this thread's last failed call, what exactly went wrong.
/// The text is valid until this thread's next call fails.
#[unsafe(no_mangle)]
pub extern "C" fn lh_strerror(error: c_int) -> *const c_char {
    answer_or(c"unknown error".as_ptr(), || {
        let text = LAST.with_borrow_mut(|last| {
            if last.0 != error || last.1.is_none() {
                *last = (error, Some(system_text(error)));
            }
            last.1.as_ref().map(|line| line.as_ptr())
        });
        Ok(text.unwrap_or(c"unknown error".as_ptr()))
    })
}

fn system_text(error: c_int) -> CString {
    let mut text: [c_char; 256] = [0; 256];
    // SAFETY: it writes at most so many bytes there, the last of which is zero.
    unsafe { libc::strerror_r(error, text.as_mut_ptr(), text.len()) };
    // SAFETY: `text` is our own and ends with a zero, written by strerror_r or from the start.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_owned()
}

thread_local! {
    /// The last failure of this thread.
    static LAST: RefCell<(c_int, Option<CString>)> = const { RefCell::new((0, None)) };
}
