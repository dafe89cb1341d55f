// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made-up recordings, for unit tests.

use jifl_sys::abi::{
    FLIGHT_ARGS, FLIGHT_MAGIC, FLIGHT_PAGE, FLIGHT_TABLE_MAX, FLIGHT_VERSION, FlightEvent,
    FlightHead, FlightImage, FlightRecord, FlightRing,
};

const PAGE: u64 = FLIGHT_PAGE as u64;

/// Ticks of the counter in a nanosecond, and the moment of the head.
pub const KHZ: u32 = 2_000_000;
pub const TSC: u64 = 1_000_000_000_000;
pub const MONOTONIC: u64 = 500_000_000_000;
pub const REALTIME: u64 = 1_700_000_000_000_000_000;

/// The events of made-up recordings: name, group, fields.
pub const EVENTS: [(&str, &str, &str); 9] = [
    ("sys_enter", "sys", "call:n arg0:x arg1:x arg2:x"),
    ("sys_exit", "sys", "call:n result:e"),
    ("sched_switch", "sched", "prev_state:S next:t next_comm:s2"),
    ("softirq_entry", "irq", "softirq:v"),
    ("block_rq_issue", "block", "device:D sector:u bytes:u"),
    ("page_fault", "mm", "address:a code:x"),
    ("warn", "log", "text:s5"),
    ("timer_expire", "irq", "function:a late:d"),
    ("odd", "proc", "one:q two"),
];

/// Where code lies in them: name, first address, bytes.
pub const IMAGES: [(&str, u64, u32); 3] = [
    ("vmlinux", 0xffff_ffff_8100_0000, 0x100_0000),
    ("ext4", 0xffff_ffff_c000_0000, 0x8_0000),
    ("", 0, 0),
];

pub const SYS_ENTER: u16 = 0;
pub const SYS_EXIT: u16 = 1;
pub const SWITCH: u16 = 2;
pub const SOFTIRQ: u16 = 3;
pub const BLOCK: u16 = 4;
pub const FAULT: u16 = 5;
pub const WARN: u16 = 6;
pub const TIMER: u16 = 7;
pub const ODD: u16 = 8;

/// A recording.
#[derive(Clone)]
pub struct Made {
    record_count: u32,
    /// Of each CPU: all records ever; none: begun, and never written.
    rings: Vec<Vec<Option<FlightRecord>>>,
    /// Half written: CPU and number.
    torn: Vec<(usize, usize)>,
    /// Physical addresses of the pages; none: they lie behind each other from 1 MiB on.
    pub pages: Vec<u64>,
    /// What else the head says.
    pub realtime: u64,
}

fn name<const N: usize>(text: &str) -> [u8; N] {
    let mut name = [0; N];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// A string as arguments.
pub fn words(text: &str) -> [u64; FLIGHT_ARGS] {
    let bytes = name::<{ FLIGHT_ARGS * 8 }>(text);
    std::array::from_fn(|at| u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap()))
}

/// Arguments of a switch.
pub fn switch(prev_state: u64, next: u32, comm: &str) -> [u64; FLIGHT_ARGS] {
    let comm = words(comm);
    [prev_state, u64::from(next), comm[0], comm[1], 0]
}

/// The table of events, as bytes.
pub fn events() -> Vec<u8> {
    let event = |(text, group, fields): &(&str, &str, &str)| {
        let event = FlightEvent {
            name: name(text),
            group: name(group),
            fields: name(fields),
            reserved: 0,
        };
        event.to_bytes()
    };
    EVENTS.iter().flat_map(event).collect()
}

impl Made {
    /// Without records.
    pub fn new(cpus: usize, record_count: u32) -> Made {
        Made {
            record_count,
            rings: vec![Vec::new(); cpus],
            torn: Vec::new(),
            pages: Vec::new(),
            realtime: REALTIME,
        }
    }

    /// Writes a record at a time: nanoseconds after the head's moment.
    pub fn put(&mut self, cpu: usize, time: i64, event: u16, tid: u32, args: &[u64]) -> &mut Made {
        let mut arg = [0; FLIGHT_ARGS];
        arg[..args.len()].copy_from_slice(args);
        let mut record = FlightRecord {
            time: TSC.wrapping_add_signed(time * 2),
            number: self.rings[cpu].len() as u32,
            event,
            cpu: cpu as u16,
            tid,
            context: 0,
            check: 0,
            arg,
        };
        record.check = FlightRecord::sum(&record.to_bytes().try_into().unwrap());
        self.rings[cpu].push(Some(record));
        self
    }

    /// Begins a record that is never written.
    pub fn begin(&mut self, cpu: usize) -> &mut Made {
        self.rings[cpu].push(None);
        self
    }

    /// Has the newest record of a CPU half written.
    pub fn tear(&mut self, cpu: usize) -> &mut Made {
        self.torn.push((cpu, self.rings[cpu].len() - 1));
        self
    }

    /// The records that can be read, by CPU and number.
    pub fn written(&self) -> Vec<FlightRecord> {
        let mut all = Vec::new();
        for (cpu, ring) in self.rings.iter().enumerate() {
            let oldest = ring.len().saturating_sub(self.record_count as usize);
            let newest = ring.iter().enumerate().skip(oldest);
            let whole = newest.filter(|(number, _)| !self.torn.contains(&(cpu, *number)));
            all.extend(whole.filter_map(|(_, record)| *record));
        }
        all
    }

    /// Pages of the region, and where its parts are.
    fn layout(&self) -> (u64, [u64; 5]) {
        let pages = |bytes: u64| bytes.div_ceil(PAGE);
        let cpus = self.rings.len() as u64;
        let events = pages((EVENTS.len() * FlightEvent::SIZE) as u64);
        let rings = pages(cpus * 64);
        let records = pages(cpus * u64::from(self.record_count) * 64);
        let mut table = 1;
        while pages((2 + events + rings + table + records) * 8) > table {
            table += 1;
        }
        let at = [
            1,
            1 + events,
            2 + events,
            2 + events + rings,
            2 + events + rings + table,
        ];
        (at[4] + records, at.map(|page| page * PAGE))
    }

    /// Number of pages of the region.
    pub fn npages(&self) -> usize {
        self.layout().0 as usize
    }

    /// The region, byte for byte.
    pub fn region(&self) -> Vec<u8> {
        let (npages, [events_at, images_at, rings_at, pages_at, records_at]) = self.layout();
        let pages = match self.pages.is_empty() {
            true => (0..npages).map(|page| (256 + page) * PAGE).collect(),
            false => self.pages.clone(),
        };
        assert_eq!(pages.len() as u64, npages);
        let mut table = [0; FLIGHT_TABLE_MAX];
        let of_table = &pages[(pages_at / PAGE) as usize..(records_at / PAGE) as usize];
        table[..of_table.len()].copy_from_slice(of_table);
        let head = FlightHead {
            magic: *FLIGHT_MAGIC,
            version: FLIGHT_VERSION,
            ncpus: self.rings.len() as u32,
            nevents: EVENTS.len() as u32,
            npages: npages as u32,
            record_count: self.record_count,
            nimages: IMAGES.len() as u32,
            events_at,
            images_at,
            rings_at,
            pages_at,
            records_at,
            boot_id: *b"0123456789abcdef",
            build_id: [0xab; 20],
            tsc_khz: KHZ,
            tsc: TSC,
            monotonic_ns: MONOTONIC,
            realtime_ns: self.realtime,
            release: name("6.12.0-made"),
            mask: (1 << EVENTS.len()) - 1,
            stop_at: u64::MAX,
            stop_why: 0,
            stop_event: 0,
            table,
        };
        let mut region = vec![0; (npages * PAGE) as usize];
        let mut put = |at: u64, bytes: &[u8]| {
            region[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(0, &head.to_bytes());
        put(events_at, &events());
        let images = IMAGES.map(|(name_, base, size)| FlightImage {
            base,
            size,
            reserved: 0,
            name: name(name_),
        });
        let images: Vec<u8> = images.iter().flat_map(FlightImage::to_bytes).collect();
        put(images_at, &images);
        let addresses: Vec<u8> = pages.iter().flat_map(|page| page.to_le_bytes()).collect();
        put(pages_at, &addresses);
        for (cpu, ring) in self.rings.iter().enumerate() {
            let counter = FlightRing {
                count: ring.len() as u64,
                reserved: [0; 7],
            };
            put(rings_at + cpu as u64 * 64, &counter.to_bytes());
            let of_cpu = records_at + cpu as u64 * u64::from(self.record_count) * 64;
            for (number, record) in ring.iter().enumerate() {
                let Some(record) = record else { continue };
                let slot = number as u64 % u64::from(self.record_count);
                let bytes = record.to_bytes();
                let torn = self.torn.contains(&(cpu, number));
                let end = if torn { 24 } else { 64 };
                put(of_cpu + slot * 64, &bytes[..end]);
            }
        }
        region
    }

    /// A recording with a bit of everything: two CPUs, threads 101 and 102.
    pub fn sample() -> Made {
        let mut made = Made::new(2, 64);
        let enoent = -2i64 as u64;
        made.put(0, 1_000, SWITCH, 0, &switch(0, 101, "tar"))
            .put(0, 2_000, SYS_ENTER, 101, &[257, 0xffff_ff9c, 0x7fff_0000])
            .put(1, 2_500, SWITCH, 0, &switch(0, 102, "dd"))
            .put(0, 3_000, FAULT, 101, &[0xffff_ffff_8100_0000, 2])
            .put(0, 4_000, SYS_EXIT, 101, &[257, enoent])
            .put(1, 4_500, BLOCK, 102, &[8 << 20 | 1, 2048, 4096])
            .put(0, 5_000, SOFTIRQ, 101, &[3])
            .put(0, 6_000, SYS_ENTER, 101, &[0, 3])
            .put(0, 7_000, SWITCH, 101, &switch(1, 0, "swapper/0"))
            .put(1, 7_500, WARN, 102, &words("a \"bad\" thing, indeed"))
            .put(1, 8_000, SWITCH, 102, &switch(0x100, 103, "cc1"))
            .put(0, 9_000, SWITCH, 0, &switch(0, 101, "tar"))
            .put(0, 9_500, SYS_EXIT, 101, &[0, 512])
            .put(1, 10_000, ODD, 103, &[17, 18]);
        made
    }
}
