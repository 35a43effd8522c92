//! Words of fio that are none of seeklab's, with what to write in their place.

/// Words, and what to write.
const WORDS: &[(&[&str], &str)] = &[
    (
        &["rw", "readwrite"],
        "random or sequential and the share of reads in the line of the workload, such as random,read=70%",
    ),
    (&["randread"], "random,read=100%"),
    (&["randwrite"], "random,read=0%"),
    (&["randrw"], "random,read=50%"),
    (&["bs", "blocksize"], "size=4KiB in the line of the workload"),
    (&["bssplit"], "size=4KiB:60+64KiB:40 in the line of the workload"),
    (&["rwmixread", "rwmixwrite"], "the share of reads as read=70% in the line of the workload"),
    (&["iodepth"], "closed=32 in the line of the workload"),
    (&["thinktime"], "think=1ms in the line of the workload"),
    (&["rate_iops"], "poisson=5000/s in the line of the workload"),
    (&["fsync", "fdatasync"], "flush_every=32 in the line of the workload"),
    (&["numjobs"], "--threads 4"),
    (&["runtime", "time_based"], "--duration 60s"),
    (&["ramp_time"], "--ramp 10s"),
    (&["number_ios"], "--requests 10000"),
    (&["randseed"], "--seed 2"),
    (&["loops"], "--repeat 5"),
    (&["direct", "invalidate"], "--buffered to go through the page cache; without it, requests pass it by"),
    (&["filename", "directory"], "the path of the file or device as TARGET"),
    (&["ioengine"], "the way as part of TARGET: PATH for io_uring, psync:PATH, an NBD URI or null"),
    (&["write_iolog"], "--record TRACE"),
    (
        &["write_bw_log", "write_lat_log", "write_iops_log"],
        "--folder FOLDER, which keeps intervals and histograms",
    ),
];

/// Advice on a word of fio that was written where one of seeklab is expected.
pub fn advice(word: &str) -> Option<String> {
    let word = word.trim_start_matches('-').replace('-', "_");
    let (_, instead) = WORDS.iter().find(|(words, _)| words.contains(&word.as_str()))?;
    Some(format!(
        "`{word}` is a word of fio: write {instead}. A fio job file is measured as seeklab bench JOB.fio"
    ))
}
