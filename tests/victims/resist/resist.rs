//! A Rust program that obeys, accounts and checks itself: threads with guarded stacks, panics that are caught, sleeps; it ends
//! by running off its stack, which only its own handler on its own signal stack can tell.
use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use std::{panic, process, thread};

#[no_mangle]
pub static RESIST_COUNTER: AtomicU64 = AtomicU64::new(0);
static ROUNDS: [AtomicU64; 3] = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
static ERRORS: AtomicU64 = AtomicU64::new(0);
static STOPPING: AtomicBool = AtomicBool::new(false);

fn check(right: bool) {
    if !right {
        ERRORS.fetch_add(1, SeqCst);
    }
}

#[inline(never)]
fn hit(n: u64) {
    for _ in 0..n {
        RESIST_COUNTER.fetch_add(1, SeqCst);
    }
}

fn compute() {
    let text: Vec<u32> = (0..20000).collect();
    let sum = text.iter().fold(1u64, |h, x| (h ^ u64::from(*x)).wrapping_mul(0x100000001b3));
    let again = text.iter().fold(1u64, |h, x| (h ^ u64::from(*x)).wrapping_mul(0x100000001b3));
    check(sum == again && text.iter().map(|x| f64::from(*x)).sum::<f64>() == 199990000.0);
}

fn panics() {
    for n in 0..20u64 {
        let caught = panic::catch_unwind(|| if n % 2 == 0 { panic!("{}", n) } else { n });
        check(if n % 2 == 0 { caught.is_err() } else { caught.ok() == Some(n) });
    }
}

fn births() {
    let begin = Instant::now();
    let young: Vec<_> = (0..4u64).map(|n| thread::spawn(move || (0..=n * 100).sum::<u64>())).collect();
    let sums: Vec<u64> = young.into_iter().map(|t| t.join().unwrap()).collect();
    thread::sleep(Duration::from_millis(2));
    check(sums == [0, 5050, 20100, 45150] && begin.elapsed() >= Duration::from_millis(2));
}

#[inline(never)]
fn endless(n: u64) -> u64 {
    let room = [n; 64];
    if n == u64::MAX { 0 } else { endless(n + 1) + unsafe { std::ptr::read_volatile(&room[(n % 64) as usize]) } }
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    for (i, what) in [compute as fn(), panics, births].into_iter().enumerate() {
        thread::spawn(move || while !STOPPING.load(SeqCst) {
            what();
            ROUNDS[i].fetch_add(1, SeqCst);
            thread::sleep(Duration::from_millis(3));
        });
    }
    println!("pid {} {:p}", process::id(), &RESIST_COUNTER);
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "hit" => {
                let n: u64 = words[1].parse().unwrap();
                let other = thread::spawn(move || hit(n / 2));
                hit(n - n / 2);
                other.join().unwrap();
                println!("ok {}", RESIST_COUNTER.load(SeqCst));
            }
            "check" => println!("ok {} {}", ROUNDS.iter().map(|r| r.load(SeqCst)).min().unwrap(), ERRORS.load(SeqCst)),
            "overflow" => {
                io::stdout().flush().unwrap();
                println!("{}", endless(0));
            }
            _ => break,
        }
    }
    STOPPING.store(true, SeqCst);
    println!("bye {} {}", RESIST_COUNTER.load(SeqCst), ERRORS.load(SeqCst));
    process::exit(7);
}
