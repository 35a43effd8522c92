//! Tests that every request of any description is aligned and lies within the device.

use proptest::prelude::*;
use seeklab_core::{ByteSize, Instant, Operation, Seed, TraceRecord};
use seeklab_workloads::replay::{Beyond, Replay, ReplaySpec, Survey};
use seeklab_workloads::{AddressSpace, Supplied, Synthetic, SyntheticSpec};

use crate::common::arrivals;

fn line() -> impl Strategy<Value = (String, u64, u64)> {
    let size = prop_oneof![
        Just("size=8KiB".to_owned()),
        Just("size=512B:3+12KiB:1+1536B:2".to_owned()),
        Just("size.distribution=exponential,size.mean=4KiB".to_owned()),
        Just("size.distribution=exponential,size.mean=2KiB,size.max=5KiB".to_owned()),
        Just("size.distribution=uniform,size.min=512B,size.max=16KiB".to_owned()),
    ];
    let address = prop_oneof![
        Just("address.distribution=uniform".to_owned()),
        (1_u32..30).prop_map(|tenths| format!("zipf={},address.granularity=48KiB", f64::from(tenths) / 10.0)),
        Just("zipf=1,address.granularity=24KiB,address.order=ascending".to_owned()),
        Just("address.distribution=hot,address.zones=10%:50%+30%:50%".to_owned()),
        Just("address.distribution=hot,address.zones=25%:90%".to_owned()),
    ];
    let align = prop_oneof![Just(1_u64), Just(3), Just(8), Just(16)];
    let shares = (0_u32..=50, 0_u32..=50);
    let range = (0_u32..40, 60_u32..=100);
    (size, address, align, shares, range, 200_u64..5_000).prop_map(
        |(size, address, align, (sequential, local), (start, end), capacity)| {
            let line = format!(
                "{size},{address},address.start={start}%,address.end={end}%,align={}B,read=50%,sequential={sequential}%,local={local}%,local_distance=16KiB,poisson=100/s,requests=500",
                align * 512,
            );
            (line, align, capacity)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_aligned_and_within_the_device((line, align, capacity) in line(), seed: u64) {
        let spec = SyntheticSpec::parse(&line).unwrap();
        let target = AddressSpace { capacity_blocks: capacity, block_size: ByteSize::from_bytes(512) };
        let mut workload = Synthetic::new(&spec, target, Seed(seed), Supplied::default()).unwrap();
        let start = (spec.address.start.unwrap().as_f64() * capacity as f64) as u64;
        let end = (spec.address.end.unwrap().as_f64() * capacity as f64) as u64;
        let drawn = arrivals(&mut workload);
        prop_assert_eq!(drawn.len(), 500);
        for (_, request) in drawn {
            prop_assert_eq!(request.lbn % align, 0);
            prop_assert!(request.blocks > 0);
            prop_assert!(start <= request.lbn && request.end() <= end, "{:?} in {}..{}", request, start, end);
        }
    }

    #[test]
    fn every_replayed_request_is_within_the_device(
        places in prop::collection::vec((0..100_000_u64, 1..200_u32), 0..50),
        capacity_blocks in 200..100_000_u64,
        beyond in prop_oneof![Just(Beyond::Wrap), Just(Beyond::Scale), Just(Beyond::Drop)],
    ) {
        let record = |(index, (lbn, blocks)): (usize, &(u64, u32))| {
            Ok::<_, std::fmt::Error>(TraceRecord::new(Instant::from_ns(index as u64), Operation::Write, *lbn, *blocks))
        };
        let records = places.iter().enumerate().map(record);
        let survey = Survey::of(records.clone(), None).unwrap();
        let spec = ReplaySpec { beyond, ..ReplaySpec::default() };
        let mut replay = Replay::new(records, spec.settings(capacity_blocks, Some(&survey)).unwrap());
        let drawn = arrivals(&mut replay);
        prop_assert!(drawn.iter().all(|(_, request)| request.end() <= capacity_blocks));
        let counters = replay.into_result().unwrap();
        prop_assert_eq!(counters.issued, drawn.len() as u64);
        prop_assert_eq!(counters.issued + counters.dropped, places.len() as u64);
    }
}
