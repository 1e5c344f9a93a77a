// Globals as Rust names them.
use std::cell::Cell;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

pub struct Stats {
    pub hits: u64,
    pub name: &'static str,
    pub pair: (u32, u8),
}

pub mod server {
    pub mod inner {
        use std::sync::atomic::AtomicU64;
        pub static COUNT: AtomicU64 = AtomicU64::new(7);
    }
    pub static mut FLAG: i32 = 41;
    pub static mut TABLE: [u16; 5] = [1, 2, 3, 4, 5];
}

pub static mut STATS: Stats = Stats { hits: 5, name: "abc", pair: (9, 8) };
static READY: AtomicBool = AtomicBool::new(true);
static LOCKED: Mutex<u64> = Mutex::new(99);
static mut BIG: Option<Box<Stats>> = None;

thread_local! {
    static MINE: Cell<u32> = Cell::new(3);
}

fn show<T>(name: &str, p: *const T) {
    println!("{}\t{:p}\t{}", name, p, std::mem::size_of::<T>());
}

#[inline(never)]
fn counted() -> *const AtomicU64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    CALLS.fetch_add(1, Ordering::Relaxed);
    &CALLS
}

fn main() {
    READY.store(false, Ordering::Relaxed);
    *LOCKED.lock().unwrap() += 1;
    MINE.with(|m| m.set(m.get() + 1));
    unsafe {
        BIG = Some(Box::new(Stats { hits: 6, name: "def", pair: (1, 2) }));
        server::FLAG += 1;
        show("rusty::server::FLAG", &server::FLAG);
        show("server::FLAG", &server::FLAG);
        show("FLAG", &server::FLAG);
        show("rusty.rs:server::FLAG", &server::FLAG);
        show("server::TABLE", &server::TABLE);
        show("server::TABLE[3]", &server::TABLE[3]);
        show("STATS", &STATS);
        show("rusty::STATS.hits", &STATS.hits);
        show("STATS.pair", &STATS.pair);
        show("STATS.pair.__0", &STATS.pair.0);
        show("STATS.pair.0", &STATS.pair.0);
    }
    show("server::inner::COUNT", &server::inner::COUNT);
    show("rusty::READY", &READY);
    show("rusty::counted::CALLS", counted());
    {
        let guard = LOCKED.lock().unwrap();
        show("LOCKED.data.value", &*guard);
    }
    show("LOCKED", &LOCKED);
    println!("done");
    let mut b = [0u8; 1];
    let _ = std::io::stdin().read(&mut b);
}
