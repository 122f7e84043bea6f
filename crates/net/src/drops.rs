//! Tells datagrams that the host dropped for want of buffer from those that it dropped because they were damaged.
//!
//! `SO_RXQ_OVFL` counts both. The first are the host's fault and a reason for the sender to go slower; the second
//! are the path's. A datagram that is stored tells how many were dropped before it, and what was stored before
//! those was read before it. So where a full buffer is to blame, about a buffer's worth was read just before
//! without finding the socket empty.

/// Counts the drops of a full buffer.
#[derive(Debug)]
pub struct DropMeter {
    /// What the kernel accounts for at most, in bytes of its own counting.
    buffer_bytes: u64,
    /// The kernel's counter, which is 32 bits wide and wraps, as last told.
    told: u32,
    drops: u64,
    /// What may have been in the buffer at once: all that was read since the socket was last found empty, and before.
    backlog_bytes: u64,
    backlog_before: u64,
}

impl DropMeter {
    /// For a socket whose buffer holds so much.
    pub fn new(buffer_bytes: usize) -> DropMeter {
        DropMeter {
            buffer_bytes: buffer_bytes as u64,
            told: 0,
            drops: 0,
            backlog_bytes: 0,
            backlog_before: 0,
        }
    }

    /// Drops of a full buffer so far.
    pub fn drops(&self) -> u64 {
        self.drops
    }

    /// A message of `len` bytes was read; `told`: the kernel's counter that came with it.
    pub fn on_message(&mut self, len: usize, told: Option<u32>) {
        if let Some(told) = told {
            if self.backlog_bytes.max(self.backlog_before) >= self.buffer_bytes {
                self.drops += u64::from(told.wrapping_sub(self.told));
            }
            self.told = told;
        }
        self.backlog_bytes = self.backlog_bytes.saturating_add(memory_most(len));
    }

    /// The socket was found empty.
    pub fn on_empty(&mut self) {
        if self.backlog_bytes > 0 {
            self.backlog_before = std::mem::take(&mut self.backlog_bytes);
        }
    }
}

/// What the kernel accounts for a message of `len` bytes at most: up to a page for each packet of 1500 bytes, and its
/// own bookkeeping.
fn memory_most(len: usize) -> u64 {
    3 * len as u64 + 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_datagrams_are_no_drops_of_the_host() {
        // One in ten is damaged; the socket is emptied every few datagrams.
        let mut meter = DropMeter::new(425_984);
        for n in 0..10_000 {
            meter.on_message(1472, Some(n / 10));
            if n % 7 == 0 {
                meter.on_empty();
            }
        }
        assert_eq!(meter.drops(), 0);
    }

    #[test]
    fn drops_of_a_full_buffer_are_told_by_what_comes_next() {
        // 185 packets of 2304 bytes of kernel memory fill it; 50 more come while nobody reads.
        let overflow = |meter: &mut DropMeter, told| (0..185).for_each(|_| meter.on_message(1472, told));
        let mut meter = DropMeter::new(425_984);
        overflow(&mut meter, None);
        meter.on_message(1472, Some(50));
        assert_eq!(meter.drops(), 50, "before it was found empty");
        meter.on_empty();
        overflow(&mut meter, Some(50));
        (0..3).for_each(|_| meter.on_empty());
        meter.on_message(100, Some(57));
        assert_eq!(meter.drops(), 57, "and after");
        meter.on_empty();
        meter.on_message(100, Some(60));
        assert_eq!(meter.drops(), 57, "the buffer was almost empty");
    }

    #[test]
    fn the_kernels_counter_wraps() {
        let mut meter = DropMeter::new(0);
        meter.on_message(100, Some(u32::MAX - 1));
        meter.on_message(100, Some(2));
        assert_eq!(meter.drops(), u64::from(u32::MAX) + 3);
    }
}
