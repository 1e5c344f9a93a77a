// build: rustc -O -g

// shape_rust - writes FLAG below closures, a trait object's method and, on its way through a panic, a destructor. "pid N";
// each line on standard input: the three writes, and "ok".
use std::io::BufRead;
use std::panic;

#[no_mangle]
pub static mut FLAG: i32 = 0;

/// The compiler does not see through it. (std::hint::black_box came with Rust 1.66.)
fn opaque<T>(x: T) -> T {
    let x = std::mem::ManuallyDrop::new(x);
    unsafe { std::ptr::read_volatile(&*x) }
}

#[inline(never)]
fn write_flag(n: i32) {
    unsafe { std::ptr::write_volatile(std::ptr::addr_of_mut!(FLAG), n) }
}

struct Guard;

impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        write_flag(3);
        opaque(0);
    }
}

trait Shape {
    fn draw(&self, n: i32) -> i32;
}

struct Circle(i32);

impl Shape for Circle {
    #[inline(never)]
    fn draw(&self, n: i32) -> i32 {
        write_flag(n);
        opaque(self.0)
    }
}

#[inline(never)]
fn through_closure(shapes: &[Box<dyn Shape>]) -> i32 {
    let draw_all = opaque(|n| shapes.iter().map(|s| s.draw(n)).sum::<i32>());
    opaque(draw_all(2)) + 1
}

#[inline(never)]
fn panics(n: i32) -> i32 {
    let _guard = Guard;
    if opaque(n) > 0 {
        panic!("on its way");
    }
    n
}

#[inline(never)]
fn direct() {
    write_flag(1);
    opaque(0);
}

fn main() {
    println!("pid {}", std::process::id());
    panic::set_hook(Box::new(|_| {}));
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Circle(7))];
    for _ in std::io::stdin().lock().lines() {
        direct();
        let sum = through_closure(&shapes);
        let caught = panic::catch_unwind(|| panics(1)).is_err();
        println!("ok {} {}", sum, caught as i32);
    }
}
