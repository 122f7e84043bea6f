//! Everything that touches disks.
