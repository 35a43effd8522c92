//! Words of fio on the command line of `seeklab bench`, and its number of outstanding requests.

use super::bench::{Bench, unfolded};

#[test]
fn words_of_fio_name_those_of_seeklab() {
    let bench = Bench::new();
    for (arguments, part) in [
        (&["-w", "random,bs=4k,closed=4"][..], "`bs` is a word of fio: write size=4KiB in the line"),
        (
            &["-w", "random,rw=randread"],
            "`rw` is a word of fio: write random or sequential and the share of reads",
        ),
        (&["-w", "random,iodepth=32"], "`iodepth` is a word of fio: write closed=32"),
        (&["-w", "randread,closed=4"], "`randread` is a word of fio: write random,read=100%"),
        (&["--bs", "4k"], "`bs` is a word of fio: write size=4KiB"),
        (&["--iodepth=32"], "`iodepth` is a word of fio: write closed=32"),
        (&["--ramp_time=3"], "`ramp_time` is a word of fio: write --ramp 10s"),
        (&["--numjobs", "4"], "A fio job file is measured as seeklab bench JOB.fio"),
    ] {
        let run = bench.run(&[&["bench", "null"], arguments].concat());
        assert_eq!(run.code, 2, "{arguments:?}");
        let errors = unfolded(&run.stderr);
        assert!(
            errors.contains(&format!("hint: {part}")) || errors.contains(part),
            "{arguments:?}: {errors}"
        );
    }
    let run = bench.run(&["bench", "null", "-w", "random,colour=4"]);
    assert!(!run.stderr.contains("fio"), "{}", run.stderr);
}

#[test]
fn fewer_outstanding_requests_than_those_of_the_load_have_a_note() {
    let bench = Bench::new();
    bench.write("disk.img", vec![7; 1 << 20]);
    let line = |closed: u32| format!("random,size=4KiB,read=100%,closed={closed},requests=40000");
    let notes = |closed| bench.json(&["bench", "disk.img", "-w", &line(closed)])["notes"].to_string();
    let part = "this target takes 16384 requests at a time from each thread, not the 20000 of the load";
    assert!(notes(20_000).contains(part), "{}", notes(20_000));
    assert!(!notes(100).contains("this target takes"), "{}", notes(100));
    bench.write("job.fio", "[a]\nioengine=libaio\niodepth=20000\nfilename=disk.img\nrw=read\nsize=1m\n");
    bench.run(&["bench", "job.fio"]).fails(&["line 3: iodepth=20000: at most 16384 are allowed"]);
}
