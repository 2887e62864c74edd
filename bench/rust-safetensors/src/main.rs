//! Open safetensors files with the official crate and time it: map, deserialize, drop.
//!
//!     bench-safetensors-rust SECONDS FILE...
//!
//! One line a file: best and median microseconds of thread CPU time, number of tensors, number of runs.
use std::fs::File;

use memmap2::Mmap;
use safetensors::SafeTensors;

const MAX_RUNS: usize = 5000;

fn thread_seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// Seconds of one opening and closing, and the number of tensors.
fn open_once(path: &str) -> (f64, usize) {
    let begin = thread_seconds();
    let n_tensors = {
        let file = File::open(path).expect("open");
        let map = unsafe { Mmap::map(&file).expect("map") };
        let tensors = SafeTensors::deserialize(&map).expect("deserialize");
        tensors.len()
    };
    (thread_seconds() - begin, n_tensors)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: f64 = args.next().and_then(|s| s.parse().ok()).expect("usage: SECONDS FILE...");
    for path in args {
        let mut times = Vec::new();
        let mut n_tensors = 0;
        let mut total = 0.0;
        while times.len() < 5 || (total < seconds && times.len() < MAX_RUNS) {
            let (time, n) = open_once(&path);
            times.push(time);
            total += time;
            n_tensors = n;
        }
        times.sort_by(f64::total_cmp);
        println!("{:.2}\t{:.2}\t{}\t{}\t{}", times[0] * 1e6, times[times.len() / 2] * 1e6, n_tensors,
                 times.len(), path);
    }
}
