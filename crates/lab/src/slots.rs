//! Where packets are kept between arrival and delivery.

/// Memory for packets: grows to what is on its way at the busiest moment, then is only reused.
pub(crate) struct Slots {
    slot_bytes: usize,
    chunks: Vec<Box<[u8]>>,
    /// Last in, first out, so that memory just used is used again.
    free: Vec<u32>,
}

impl Slots {
    /// Room for packets of so many bytes.
    pub(crate) fn new(packet_bytes: usize) -> Slots {
        let mut slots = Slots {
            slot_bytes: packet_bytes.next_multiple_of(CACHE_LINE_BYTES),
            chunks: Vec::new(),
            free: Vec::new(),
        };
        slots.grow();
        slots
    }

    /// The slot that [`take`](Self::take) takes next.
    pub(crate) fn next_free(&mut self) -> u32 {
        if self.free.is_empty() {
            self.grow();
        }
        self.free[self.free.len() - 1]
    }

    /// A slot for a packet.
    pub(crate) fn take(&mut self) -> u32 {
        let slot = self.next_free();
        self.free.pop();
        slot
    }

    /// Its packet is gone.
    pub(crate) fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// The packet in it.
    pub(crate) fn bytes(&self, slot: u32, len: usize) -> &[u8] {
        let (chunk, start) = self.place(slot);
        &self.chunks[chunk][start..start + len]
    }

    /// All its room.
    pub(crate) fn bytes_mut(&mut self, slot: u32) -> &mut [u8] {
        let (chunk, start) = self.place(slot);
        &mut self.chunks[chunk][start..start + self.slot_bytes]
    }

    /// All room of two different slots.
    pub(crate) fn pair_mut(&mut self, first: u32, second: u32) -> (&[u8], &mut [u8]) {
        let ((first_chunk, first), (second_chunk, second)) = (self.place(first), self.place(second));
        let len = self.slot_bytes;
        if first_chunk == second_chunk {
            let (low, high) = self.chunks[first_chunk].split_at_mut(first.max(second));
            return match first < second {
                true => (&low[first..first + len], &mut high[..len]),
                false => (&high[..len], &mut low[second..second + len]),
            };
        }
        let [first_chunk, second_chunk] = self
            .chunks
            .get_disjoint_mut([first_chunk, second_chunk])
            .expect("two different chunks that there are");
        (&first_chunk[first..first + len], &mut second_chunk[second..second + len])
    }

    fn place(&self, slot: u32) -> (usize, usize) {
        let slot = slot as usize;
        (slot / SLOTS_PER_CHUNK, slot % SLOTS_PER_CHUNK * self.slot_bytes)
    }

    /// How many chunks there are.
    #[cfg(test)]
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    fn grow(&mut self) {
        let first = (self.chunks.len() * SLOTS_PER_CHUNK) as u32;
        self.chunks.push(vec![0; SLOTS_PER_CHUNK * self.slot_bytes].into_boxed_slice());
        self.free.extend((first..first + SLOTS_PER_CHUNK as u32).rev());
    }
}

/// Slots that are made at once.
pub(crate) const SLOTS_PER_CHUNK: usize = 1024;
const CACHE_LINE_BYTES: usize = 64;
