//! A copy that many hosts make together: it is planned once, its parts are copied by whoever takes them, and a last step puts
//! together what they brought. What they all have to know lies in one folder, on a file system that they have in common:
//!
//! ```text
//! plan.json        what is copied, where to, how it is cut; written last, so that without it there is no plan
//! list             what was listed: each stretch of at most 16 384 entries as a session sends it, one after the other
//! running/I.json   how far part I is, while it is being copied; replaced once a second
//! running/I.lock   held by the process that copies part I
//! parts/I.json     what came of part I
//! wish.json        what is wished of all parts while they are copied; missing until somebody wishes something
//! ```
//!
//! A part is a contiguous stretch of the object. It ends at the border of a file, or inside of a file that is larger than a part.
//! No host schedules, places or restarts anything: that is for the engine that starts them.

mod cut;
mod folder;
mod slice;
mod state;
mod step;

pub use cut::Cut;
pub use folder::{Chunk, Plan, PlanOptions, Run, plan};
pub use state::{PartState, Stage, Status, Wish};
pub use step::check;
