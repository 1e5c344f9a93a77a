// Methods, a generic function, threads, and panics through functions with and without something to drop. Says of its
// calls what account.h says.
use std::sync::Mutex;

extern "C" {
    fn gettid() -> i32;
}

static ACCOUNT: Mutex<Vec<(i32, char, &'static str)>> = Mutex::new(Vec::new());

fn say(what: char, name: &'static str) {
    let tid = unsafe { gettid() };
    ACCOUNT.lock().unwrap().push((tid, what, name));
}

// Says when a function is left, however.
struct Guard(&'static str);

impl Drop for Guard {
    fn drop(&mut self) {
        say('<', self.0);
    }
}

fn inside(name: &'static str) -> Guard {
    say('>', name);
    Guard(name)
}

trait Sum {
    fn raise(&mut self, by: u64) -> u64;
}

struct Total(u64);

impl Sum for Total {
    #[inline(never)]
    fn raise(&mut self, by: u64) -> u64 {
        let _g = inside("raise");
        self.0 += by;
        self.0
    }
}

#[inline(never)]
fn fact(n: u64) -> u64 {
    let _g = inside("fact");
    if n < 2 { 1 } else { n * fact(n - 1) }
}

#[inline(never)]
fn apply<T, F: Fn(T) -> T>(f: F, value: T) -> T {
    let _g = inside("apply");
    f(value)
}

#[inline(never)]
fn cleans(n: u64) -> u64 {
    let _g = inside("cleans");
    if n == 0 { panic!("cleans") } else { cleans(n - 1) + 1 }
}

// Nothing to drop: its end is not seen.
#[inline(never)]
fn bare(n: u64) -> u64 {
    say('>', "bare");
    if n == 0 {
        panic!("bare");
    }
    n
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut total = Total(0);
    let sum: &mut dyn Sum = &mut total;
    for i in 0..5 {
        sum.raise(i);
    }
    let cleaned = std::panic::catch_unwind(|| cleans(3)).is_err();
    let gone = std::panic::catch_unwind(|| bare(0)).is_err();
    say('!', "bare");
    let threads: Vec<_> = (3..6).map(|n| std::thread::spawn(move || fact(n))).collect();
    let facts: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    println!("result {} {} {} {} {} {}", total.0, facts, cleaned, gone, apply(|n| n * 2, 21), apply(|x| x * 0.5, 1.0));
    for (tid, what, name) in ACCOUNT.lock().unwrap().iter() {
        println!("{} {} {}", tid, what, name);
    }
}
