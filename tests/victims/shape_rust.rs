// shape_rust - writes FLAG below closures, a trait object's method and, on its way through a panic, a destructor. "pid N";
// each line on standard input: the three writes, and "ok".
use std::io::BufRead;
use std::panic;

#[no_mangle]
pub static mut FLAG: i32 = 0;

#[inline(never)]
fn write_flag(n: i32) {
    unsafe { std::ptr::write_volatile(std::ptr::addr_of_mut!(FLAG), n) }
}

struct Guard;

impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        write_flag(3);
        std::hint::black_box(());
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
        std::hint::black_box(self.0)
    }
}

#[inline(never)]
fn through_closure(shapes: &[Box<dyn Shape>]) -> i32 {
    let draw_all = std::hint::black_box(|n| shapes.iter().map(|s| s.draw(n)).sum::<i32>());
    std::hint::black_box(draw_all(2)) + 1
}

#[inline(never)]
fn panics(n: i32) -> i32 {
    let _guard = Guard;
    if std::hint::black_box(n) > 0 {
        panic!("on its way");
    }
    n
}

#[inline(never)]
fn direct() {
    write_flag(1);
    std::hint::black_box(());
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
