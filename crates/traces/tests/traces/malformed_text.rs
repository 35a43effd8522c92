//! Every malformed line of the text formats gets an error that names file, line and value.

use std::io::Cursor;

use seeklab_core::TraceRecord;
use seeklab_traces::{FORMATS, ReadOptions, Source, TraceError, open_source};

fn read(format: &str, text: &str, settings: &[&str]) -> Result<Vec<TraceRecord>, TraceError> {
    let source = Source::from_stream("bad.trace", Box::new(Cursor::new(text.as_bytes().to_vec())))?;
    let settings = settings.iter().map(|text| text.parse().unwrap()).collect();
    let options = ReadOptions { settings, ..ReadOptions::default() };
    open_source(FORMATS, source, Some(format), &options)?.collect()
}

/// Checks that each line, behind the good lines `first`, is refused for its reasons.
fn check(format: &str, first: &str, table: &[(&str, &[&str])]) {
    assert!(read(format, first, &[]).is_ok(), "{first}");
    let number = first.lines().count() + 1;
    for (line, reasons) in table {
        let error = read(format, &format!("{first}\n{line}\n"), &[]).expect_err(line);
        let message = error.to_string();
        assert!(message.starts_with(&format!("bad.trace, line {number}: ")), "{line}: {message}");
        for reason in *reasons {
            assert!(message.contains(reason), "{line}: {message}");
        }
    }
}

#[test]
fn bad_lines_of_five_numbers_are_named() {
    let table: &[(&str, &[&str])] = &[
        ("1.5 0 1 1 0", &["time is `1.5`", "0 to 18446744073709551615"]),
        ("1 65536 1 1 0", &["device is `65536`"]),
        ("1 0 36028797018963968 1 0", &["sector is `36028797018963968`"]),
        ("1 0 1 0 0", &["blocks is `0`", "at least 1 block"]),
        ("1 0 1 1 2", &["op is `2`", "`0` or `1`"]),
        ("1 0 1 1", &["`op` is missing"]),
        ("1 0 1 1 0 0", &["6 fields are too many"]),
    ];
    check("ssdsim", "0 0 1 1 0", table);
    let table: &[(&str, &[&str])] = &[
        ("1 0 100 512 0", &["offset is `100`", "multiple of the block size of 512 bytes"]),
        ("-1 0 512 512 0", &["arrival_ms is `-1`", "without sign"]),
        ("1 0 512 2199023255553 0", &["size is `2199023255553`", "4294967295 blocks"]),
        ("1 0 512 512 01", &["op is `01`"]),
    ];
    check("msr-cut", "0 0 512 512 0", table);
}

#[test]
fn bad_lines_of_clouds_are_named() {
    let table: &[(&str, &[&str])] = &[
        ("x,R,0,512,1", &["device_id is `x`"]),
        ("0,r,0,512,1", &["opcode is `r`", "`R` or `W`"]),
        ("0,R,1,512,1", &["offset is `1`", "multiple"]),
        ("0,R,0,0,1", &["blocks is `0`"]),
        ("0,R,0,512,18446744073709552", &["timestamp is `18446744073709552`"]),
        ("0,R,0,512", &["`timestamp` is missing"]),
        ("0,R,0,512,1,1", &["6 fields are too many"]),
    ];
    check("alibaba", "0,R,0,512,1577808000000626", table);
    let table: &[(&str, &[&str])] = &[
        ("1.5,0,1,0,1", &["Timestamp is `1.5`"]),
        ("1,0,1,2,1", &["IOType is `2`", "`0` for a read or `1` for a write"]),
        ("1,0,0,0,1", &["blocks is `0`"]),
        ("1,0,1,0,-1", &["VolumeID is `-1`"]),
    ];
    check("tencent", "1538323200,0,1,0,1", table);
    let table: &[(&str, &[&str])] = &[
        ("Timestamp,IOType,Response,LUN,Offset,Size", &["Timestamp is `Timestamp`"]),
        ("1,x,R,0,0,512", &["Response is `x`"]),
        ("1,0,Read,0,0,512", &["IOType is `Read`"]),
        ("18446744073,18446744073,R,0,0,512", &["Response", "2554"]),
        ("1,0,R,a,0,512", &["LUN is `a`"]),
    ];
    check("systor", "Timestamp,Response,IOType,LUN,Offset,Size\n1,0,R,0,0,512", table);
}

#[test]
fn bad_lines_of_fiu_and_arc_are_named() {
    let table: &[(&str, &[&str])] = &[
        ("1 2 x 8 8 X 6 0", &["op is `X`"]),
        ("1 2 8 8 R 6 0", &["a row has time_ns, pid"]),
        ("1 2 x 8 8 R 6 0 2ccd89a3e9a2ee3d29ba36bf13b1d7az", &["sectors is `R`"]),
        ("1.5 2 x 8 8 R 6 0", &["time_ns is `1.5`"]),
        ("1 -2 x 8 8 R 6 0", &["pid is `-2`"]),
        ("1", &["a row has"]),
    ];
    check("fiu", "1 2 x 8 8 R 6 0", table);
    let table: &[(&str, &[&str])] = &[
        ("1 1 1 0", &["ignored is `1`"]),
        ("1 0 0 0", &["blocks is `0`"]),
        ("1 1 0", &["`request` is missing"]),
        ("1 1 0 0 0", &["too many"]),
    ];
    check("arc", "1 1 0 0", table);
}

#[test]
fn bad_rows_after_a_header_are_named() {
    let table: &[(&str, &[&str])] = &[
        ("3,1,28,512,1", &["version is `3`"]),
        ("1,1,228,512,1", &["op is `228`", "SCSI opcode"]),
        ("1,1,28,512,36028797018963968", &["lbn is"]),
        ("1,1,28,512", &["4 fields where the header has 5"]),
    ];
    check("cloudphysics-csv", "version,time,op,size,lbn\n1,1,28,512,1", table);
    let table: &[(&str, &[&str])] = &[
        ("1,a,9437185,0,getX", &["block_id is `a`", "ends 9437185 bytes into it"]),
        ("1,,1,0,getX", &["block_id is ``"]),
        ("1,a,1,0,", &["op_name is ``"]),
        ("1,a,1,0,7up", &["op_name is `7up`"]),
    ];
    check("cachelib", "op_time,block_id,io_size,io_offset,op_name\n1,a,512,0,getX", table);
    let header = "filename,file_offset,op_type,request_io_size_bytes,start_time,simulated_latency,disk_time,\
                  simulated_disk_start_time,cache_hit";
    let table: &[(&str, &[&str])] = &[
        ("a,0,TRIM,1,5,1,0,0,0", &["op_type is `TRIM`"]),
        ("a,0,READ,1,5,1,1,4.9,0", &["simulated_disk_start_time is `4.9`"]),
        ("a,0,READ,1,5,1,1,6.1,0", &["simulated_disk_start_time is `6.1`"]),
        ("a,0,READ,1,5,1,0,0,2", &["cache_hit is `2`"]),
        ("a,-1,READ,1,5,1,0,0,0", &["file_offset is `-1`"]),
    ];
    check("thesios", &format!("{header}\na,0,READ,1,5,1,1,5.5,1"), table);
    let table: &[(&str, &[&str])] = &[
        ("1,1,R,1,0,5", &["blocks is `0`"]),
        ("1,1,X,1,1,5", &["op is `X`"]),
        ("18446744073709551615,1,R,1,1,5", &["issue_us is"]),
        ("1,18446744073709551,R,1,1,5", &["latency_us", "584 years"]),
        ("1,1,R,1,1,x", &["pid is `x`"]),
    ];
    check("issue-csv", "issue_us,latency_us,op,sector,sectors,pid\n1,1,R,1,1,5", table);
}

#[test]
fn missing_headers_and_missing_columns_are_named() {
    for (format, header, reason) in [
        ("cloudphysics-csv", "version,time,op,size", "the column `lbn` is missing"),
        ("cachelib", "op_time,block_id,io_size,io_offset", "the column `op_name` is missing"),
        ("thesios", "a,b,c", "the column `filename` is missing"),
        ("wpa", "IO Type;Priority", "the column `Init Time (s)` is missing"),
        ("issue-csv", "op,sector,sectors", "the column `issue_ns` or `issue_us` is missing"),
        ("issue-csv", "op,issue_ns,issue_us,sector,sectors", "have the same meaning"),
        ("biosnoop", "TIME COMM", "`QUE(ms)` may be missing"),
        ("fio-iolog-v3", "fio version 2 iolog", "`fio version 3 iolog` is allowed"),
        ("fio-iolog-v2", "fio version 4 iolog", "`fio version 2 iolog` is allowed"),
    ] {
        let message = read(format, &format!("{header}\n"), &[]).unwrap_err().to_string();
        assert!(message.starts_with("bad.trace, line 1: ") && message.contains(reason), "{message}");
    }
}

#[test]
fn bad_numbers_of_wpa_are_named() {
    let header = "IO Type;Init Time (s);Complete Time (s);IO Time (µs);Disk Service Time (µs);Size (B);\
                  Min Offset;Max Offset;Priority;Count";
    let table: &[(&str, &[&str])] = &[
        ("Read;1,0;1,1;100.000,0;1,0;16.38;0x0;0x3FFF;Normal;1", &["Size (B) is `16.38`", "groups of three"]),
        ("Read;1.0;1,1;100.000,0;1,0;512;0x0;0x1FF;Normal;1", &["Init Time (s) is `1.0`"]),
        ("Read;1,0;1,1;100.000,0;1,0;512;0x0;0x3FF;Normal;1", &["Max Offset is `0x3FF`", "512 bytes"]),
        ("Read;1,0;1,1;100.000,0;1,0;512;0x1;0x200;Normal;1", &["Min Offset is `0x1`", "multiple"]),
        ("Read;1,0;0,9;100.000,0;1,0;512;0x0;0x1FF;Normal;1", &["Complete Time (s) is `0,9`"]),
        (
            "Read;1,0;1,1;200.000,0;1,0;512;0x0;0x1FF;Normal;1",
            &["IO Time (µs) is `200.000,0`", "100000000 ns"],
        ),
        ("Read;1,0;1,1;100.000,0;200.000,0;512;0x0;0x1FF;Normal;1", &["Disk Service Time", "longer"]),
        ("Read;1,0;1,1;100.000,0;1,0;512;0x0;0x1FF;Urgent;1", &["Priority is `Urgent`"]),
        ("Read;1,0;1,1;100.000,0;1,0;512;0x0;0x1FF;Normal;2", &["Count is `2`"]),
        ("Trim;1,0;1,1;100.000,0;1,0;512;0x0;0x1FF;Normal;1", &["IO Type is `Trim`"]),
    ];
    check("wpa", &format!("{header}\nRead;1,0;1,1;100.000,0;1,0;512;0x0;0x1FF;Normal;1"), table);
}

#[test]
fn bad_lines_of_biosnoop_are_named() {
    let header = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)";
    let table: &[(&str, &[&str])] = &[
        ("0.1 x 1 sda X 8 512 1.0", &["T is `X`"]),
        ("0.1 x 1 sda R 8 512 -1.0", &["LAT(ms) is `-1.0`"]),
        ("0.1 x 1 sda R 8 512 1200000000.0", &["LAT(ms)", "13 days"]),
        ("0.1 x 1 sda R 8 0 1.0", &["blocks is `0`"]),
        ("0.1 x y sda R 8 512 1.0", &["PID is `y`"]),
        ("0.1 1 sda R 8 512", &["a row has TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)"]),
        (header, &["TIME(s) is `TIME(s)`"]),
    ];
    check("biosnoop", &format!("{header}\n0.0 x 1 sda R 8 512 1.0"), table);
}

#[test]
fn bad_events_are_named_and_files_without_events_refused() {
    let table: &[(&str, &[&str])] = &[
        ("8,0 0 1 0.1 5 Z R 8 + 8 [x]", &["action is `Z`"]),
        ("8,0 0 1 0.1 5 D R 8 + 8", &["is missing at its end"]),
        ("8,0 0 1 0.1 5 D R 8 + x [x]", &["is missing at its end"]),
        ("8,0 0 1 x 5 D R 8 + 8 [x]", &["time is `x`"]),
        ("8,0 0 1 0.1 5 C R 8 + 8 [x]", &["error is `x`"]),
        ("8,0 0 1 0.1 5 D r 8 + 8 [x]", &["rwbs is `r`"]),
        ("8,0 0 1", &["`time` is missing"]),
    ];
    check("blkparse", "8,0 0 1 0.0 5 D R 8 + 8 [x]", table);
    let good = "x-5 [000] ..... 1.000001: block_rq_issue: 8,0 R 4096 () 8 + 8 be,0,4 [x]";
    let table: &[(&str, &[&str])] = &[
        ("x-5 [000] ..... 1.000002: block_rq_issue: 8,0 R 4096 () 8 + 8", &["event is"]),
        ("x-5 [000] ..... 1.000002: block_rq_issue: 8 R 4096 () 8 + 8 [x]", &["event is"]),
        ("x-5 [000] ..... 1.000002: block_rq_complete: 8,0 R () 8 + 8 be,0,4 [x]", &["error is `x`"]),
        (
            "x5 [000] ..... 1.000002: block_rq_issue: 8,0 R 4096 () 8 + 8 [x]",
            &["process is `x5 [000] .....`"],
        ),
        ("x-5 [000] ..... 1.0.2: block_rq_issue: 8,0 R 4096 () 8 + 8 [x]", &["time is `1.0.2`"]),
    ];
    check("tracefs", good, table);
    for format in ["blkparse", "tracefs"] {
        let error = read(format, "hello\n", &[]).unwrap_err();
        assert_eq!(error.to_string(), "bad.trace: no line of it is an event");
    }
}

#[test]
fn bad_lines_of_iologs_are_named() {
    let table: &[(&str, &[&str])] = &[
        ("5 b read 0 512", &["file is `b`", "added"]),
        ("5 a erase 0 512", &["action is `erase`"]),
        ("5 a wait 100 0", &["action is `wait`"]),
        ("x a read 0 512", &["time is `x`"]),
        ("5 a read 100 512", &["offset is `100`", "multiple"]),
        ("5 a read 0 0", &["blocks is `0`"]),
        ("5 a read", &["line is `5 a read`"]),
        ("5", &["line is `5`"]),
    ];
    check("fio-iolog-v3", "fio version 3 iolog\n1 a add\n2 a open\n3 a read 0 512", table);
    let table: &[(&str, &[&str])] =
        &[("a wait 18446744073709551615 0", &["wait is"]), ("5 a read 0 512", &["file is `5 a`"])];
    check("fio-iolog-v2", "fio version 2 iolog\na add\na open\na wait 5 0\na read 0 512", table);
}

#[test]
fn fio_logs_of_averages_or_without_offset_are_refused_with_a_hint() {
    let table: &[(&str, &[&str])] = &[
        ("0, 5, 3, 4096, 0, 0", &["direction is `3`"]),
        ("0, 5, 1, 0, 0, 0", &["block size is `0`", "average"]),
        ("0, 5, 1, 4096, 0", &["it has no offset"]),
        ("0, 5, 1, 4096, 0, x", &["priority is `x`"]),
        ("0, 5, 1, 4096, 0, 0, 0, 0", &["too many fields"]),
        ("0, 99999999999999999, 1, 4096, 0, 0", &["13 days"]),
    ];
    check("fio-log", "0, 5, 0, 4096, 8192, 0", table);
    assert!(read("fio-log", "0, 5, 1, 4096, 0\n", &["without-offset=zero"]).is_ok());
    let both = "0, 5, 5, 1, 4096, 512, 0\n0, 7, 0, 0, 4096, 512, 0\n";
    assert_eq!(read("fio-log", both, &["values=both"]).unwrap().len(), 2);
    let error = read("fio-log", "0, 5, 9, 1, 4096, 512, 0\n", &["values=both"]).unwrap_err();
    assert!(error.to_string().contains("the row is an average") && error.hint().is_some(), "{error}");
    let error = read("fio-log", "0, 500, 900, 1, 4096, 512, 0\n", &[]).unwrap_err();
    assert!(error.hint().unwrap().contains("values=both"), "{error}");
}
