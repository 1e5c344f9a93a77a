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
static mut LIST: Vec<u32> = Vec::new();
static mut WORD: String = String::new();
static mut TEXT: &str = "text";
static mut PARTS: &[u16] = &[1, 2, 3];
static mut ROWS: &[[u8; 3]] = &[[1; 3]; 4];
static mut TRIPLE: &[u64; 3] = &[7, 8, 9];
static mut BOXED: Option<Box<[u64]>> = None;
static QUEUE: Mutex<Vec<i64>> = Mutex::new(Vec::new());

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
        LIST = vec![1, 2, 3];
        WORD = "word".to_string();
        BOXED = Some(vec![1u64, 2].into_boxed_slice());
        QUEUE.lock().unwrap().push(4);
        show("LIST", &LIST);
        show("LIST[1]", &LIST[1]);
        show("rusty::LIST[2]", &LIST[2]);
        show("WORD", &WORD);
        show("WORD[3]", &WORD.as_bytes()[3]);
        show("BOXED", &BOXED);
        show("BOXED.Some.0[1]", &BOXED.as_ref().unwrap()[1]);
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
    unsafe {
        TEXT = "other";
        PARTS = &[4, 5];
        ROWS = &[[2; 3]; 4];
        TRIPLE = &[1, 2, 3];
        show("TEXT", &TEXT);
        show("TEXT[2]", &TEXT.as_bytes()[2]);
        show("PARTS", &PARTS);
        show("PARTS[1]", &PARTS[1]);
        show("ROWS", &ROWS);
        show("ROWS[3][2]", &ROWS[3][2]);
        show("TRIPLE", &TRIPLE);
        show("TRIPLE[2]", &TRIPLE[2]);
    }
    show("QUEUE.data.value[0]", &QUEUE.lock().unwrap()[0]);
    println!("done");
    let mut b = [0u8; 1];
    let _ = std::io::stdin().read(&mut b);
}
